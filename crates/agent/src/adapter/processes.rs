//! Processes of this device as `/proc` shows them. Elsewhere nothing is known, and nothing is found.

use std::fs;
use std::path::{Path, PathBuf};

use cede_wire::path::escape;
use rustix::process::{Pid, Signal, kill_process};

use crate::adapter::LeftoverProcess;
use crate::adapter::limits::COMMAND_CHARS;

/// When a process started, in clock ticks since boot; `None` where it does not run.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything; the last one closes it.
    let fields = stat.rsplit_once(')')?.1;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let ticks = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(ticks)
}

/// What started a process, as long as that is there.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// True where exactly this process still runs: ids are used again.
pub(crate) fn runs(pid: u32, ticks: u64) -> bool {
    start_ticks(pid) == Some(ticks)
}

/// When a process started, milliseconds since 1970, to about a second.
pub(super) fn started_unix_ms(pid: u32) -> Option<u64> {
    let ticks = start_ticks(pid)?;
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    boot.checked_mul(1_000)?.checked_add(ticks.checked_mul(1_000)? / per_second)
}

/// The directory that a process works in.
pub(super) fn directory(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// A variable of a process's environment.
pub(crate) fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{name}=");
    let found = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    String::from_utf8(found.to_vec()).ok()
}

/// The process that holds a lock on the file, from `/proc/locks`.
pub(super) fn lock_holder(inode: u64) -> Option<u32> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let ending = format!(":{inode}");
    let holds = |line: &&str| line.split_whitespace().any(|field| field.ends_with(&ending));
    let line = locks.lines().filter(|line| !line.contains("->")).find(holds)?;
    line.split_whitespace().nth(4)?.parse().ok()
}

/// Asks a process to end as Ctrl-C does. One that is gone has ended already.
pub(super) fn interrupt(pid: u32) {
    signal(pid, Signal::INT);
}

/// Asks a process to end. One that is gone has ended already.
pub(super) fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Every process whose environment holds one of the markers and whose program is not the agent itself.
pub(crate) fn marked(markers: &[String], agent: &str) -> Vec<LeftoverProcess> {
    pids().filter_map(|pid| leftover(pid, markers)).filter(|found| !is_program(found.pid, agent)).collect()
}

/// Every process whose program has this file name.
pub(super) fn named(program: &str) -> Vec<u32> {
    pids().filter(|pid| is_program(*pid, program)).collect()
}

/// The command line, escaped and shortened.
pub(super) fn command_line(pid: u32) -> String {
    words(pid).join(" ").chars().take(COMMAND_CHARS).collect()
}

/// The words of its command line, escaped.
pub(super) fn words(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(escape).collect()
}

/// True where the process has the file open.
pub(super) fn has_open(pid: u32, file: &Path) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == file))
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn leftover(pid: u32, markers: &[String]) -> Option<LeftoverProcess> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let marker = markers.iter().find(|marker| environment.split(|byte| *byte == 0).any(|v| v == marker.as_bytes()))?;
    let start_ticks = start_ticks(pid)?;
    Some(LeftoverProcess { pid, start_ticks, command: command_line(pid), marker: marker.clone() })
}

fn is_program(pid: u32, program: &str) -> bool {
    let name = |path: &Path| path.file_name().is_some_and(|name| name == program);
    let exe = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| name(&path));
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = words.split(|byte| *byte == 0).take(2);
    exe || first.into_iter().any(|word| name(Path::new(&*String::from_utf8_lossy(word))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: A-11
    #[test]
    fn marked_process_is_found_while_it_runs_and_not_after() {
        let marker = format!("CEDE_TEST_MARKER={}", std::process::id());
        let (name, value) = marker.split_once('=').unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").env(name, value).spawn().unwrap();
        let mut found = marked(std::slice::from_ref(&marker), "agent");
        // The system shows the new program's words a moment after it began.
        for _ in 0..500 {
            if found.first().is_some_and(|process| process.command == "sleep 60") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            found = marked(std::slice::from_ref(&marker), "agent");
        }
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].pid, found[0].command.as_str()), (child.id(), "sleep 60"));
        assert!(runs(found[0].pid, found[0].start_ticks));
        assert!(!runs(found[0].pid, found[0].start_ticks + 1), "the id alone is not the process");
        assert!(marked(std::slice::from_ref(&marker), "sleep").is_empty(), "the agent itself is not left over");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(marked(&[marker], "agent").is_empty());
    }
}
