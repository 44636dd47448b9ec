//! A program from its start to the end of everything that it started.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cede_wire::path::escape;
use cede_wire::session::AgentKind;
use rustix::process::Signal;

use super::Invocation;
use super::limits::{COMPLAINT_BYTES, GRACE, LINE_BYTES, LOOK, OUTPUT_BYTES, PROGRESS_PAUSE, REST};
use super::processes::{ask_to_end, end_marked};
use super::said::Said;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status; none: a signal that is not ours.
    Itself(Option<i32>),
    /// Its time was over.
    TimedOut,
    /// It was told to stop.
    Stopped,
}

/// What a turn came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub end: End,
    /// It ended by itself, with success, and does not say that it failed.
    pub worked: bool,
    /// The last message.
    pub answer: String,
    /// Why it failed, in its own words, or the end of its error output; escaped.
    pub complaint: String,
    /// What the agent says that it cost, in millionths of a dollar.
    pub cost_micro_usd: Option<u64>,
    /// Turns of the agent, where it says how many.
    pub turns: Option<u32>,
    /// How long it ran.
    pub took: Duration,
    /// Bytes that it printed, kept or not.
    pub output_bytes: u64,
}

/// Runs a turn to its end. Its output goes to the file, bounded; `progress` hears one line now and then. `stop` ends it at
/// any time. Blocks.
///
/// # Errors
/// The program or the file could not be started or made; nothing runs.
pub fn run(
    invocation: &Invocation,
    output: &Path,
    patience: Duration,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(String),
) -> io::Result<Ended> {
    let file = File::create(output)?;
    let mut child = start(invocation)?;
    let begun = Instant::now();
    let heard = Heard::of(&mut child, invocation, file);
    let end = watch(&mut child, invocation.agent, begun + patience, stop, &heard.lines, progress);
    // What it left behind ends with it, and so does its hold on the pipes.
    ask_to_end(child.id(), Signal::KILL);
    let left = end_marked(&invocation.mark);
    if left > 0 {
        tracing::info!(left, "what a turn left running was ended");
    }
    let took = begun.elapsed();
    Ok(heard.ended(end?, took))
}

fn start(invocation: &Invocation) -> io::Result<Child> {
    let mut command = Command::new(&invocation.program);
    command.args(&invocation.arguments).current_dir(&invocation.directory);
    command.env_clear().envs(invocation.environment.iter().cloned());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: what is meant for the daemon does not reach it, and all of it can be ended at once.
    command.process_group(0);
    command.spawn()
}

/// What comes out of a program, on threads of its own: a program that nobody listens to stands still.
struct Heard {
    shared: Arc<Mutex<Shared>>,
    lines: Receiver<String>,
    over: Receiver<()>,
}

#[derive(Default)]
pub(super) struct Shared {
    said: Said,
    bytes: u64,
    complaint: Vec<u8>,
}

impl Heard {
    fn of(child: &mut Child, invocation: &Invocation, file: File) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (line, lines) = sync_channel(16);
        let (done, over) = sync_channel(2);
        if let Some(mut input) = child.stdin.take() {
            let words = invocation.input.clone();
            // A program that reads nothing ends without its words.
            std::thread::spawn(move || drop(input.write_all(words.as_bytes())));
        }
        if let Some(out) = child.stdout.take() {
            let (shared, done) = (shared.clone(), done.clone());
            std::thread::spawn(move || {
                read_output(out, file, &shared, &line);
                // Whoever waited may have given up.
                let _ = done.send(());
            });
        }
        if let Some(err) = child.stderr.take() {
            let shared = shared.clone();
            std::thread::spawn(move || {
                read_complaints(err, &shared);
                // Whoever waited may have given up.
                let _ = done.send(());
            });
        }
        Self { shared, lines, over }
    }

    fn ended(self, end: End, took: Duration) -> Ended {
        let late = Instant::now() + REST;
        for _ in 0..2 {
            let left = late.saturating_duration_since(Instant::now());
            // Somebody who hid from us may hold a pipe; what came so far counts.
            if self.over.recv_timeout(left).is_err() {
                break;
            }
        }
        told(&self.shared, end, took)
    }
}

/// What came out of it, told.
pub(super) fn told(shared: &Mutex<Shared>, end: End, took: Duration) -> Ended {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let Shared { said, bytes, complaint } = core::mem::take(&mut *shared);
    let complaint = match said.why.as_str() {
        "" => escape(complaint.trim_ascii()),
        why => escape(why.as_bytes()),
    };
    let micro = |cost: f64| (cost.is_finite() && cost >= 0.0).then_some((cost * 1e6).round() as u64);
    Ended {
        end,
        worked: end == End::Itself(Some(0)) && !said.failed,
        cost_micro_usd: said.cost.and_then(micro),
        turns: said.turns,
        answer: said.into_answer(),
        complaint,
        took,
        output_bytes: bytes,
    }
}

fn watch(
    child: &mut Child,
    agent: AgentKind,
    deadline: Instant,
    stop: &AtomicBool,
    lines: &Receiver<String>,
    progress: &mut dyn FnMut(String),
) -> io::Result<End> {
    let mut next = Instant::now();
    let mut last = None;
    let why = loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Itself(code(status)));
        }
        last = lines.try_iter().last().or(last);
        if Instant::now() >= next
            && let Some(line) = last.take()
        {
            progress(line);
            next = Instant::now() + PROGRESS_PAUSE;
        }
        if stop.load(Ordering::Relaxed) {
            break End::Stopped;
        }
        if Instant::now() >= deadline {
            break End::TimedOut;
        }
        std::thread::sleep(LOOK);
    };
    // Codex ends its tools at an interrupt only, the others at the usual signal.
    ask_to_end(child.id(), if agent == AgentKind::Codex { Signal::INT } else { Signal::TERM });
    let late = Instant::now() + GRACE;
    while Instant::now() < late {
        if child.try_wait()?.is_some() {
            return Ok(why);
        }
        std::thread::sleep(LOOK);
    }
    ask_to_end(child.id(), Signal::KILL);
    child.wait()?;
    Ok(why)
}

fn code(status: ExitStatus) -> Option<i32> {
    status.code()
}

pub(super) fn read_output(mut out: impl Read, mut file: File, shared: &Mutex<Shared>, lines: &SyncSender<String>) {
    let mut buffer = vec![0; 64 << 10];
    let mut line = Vec::new();
    let mut room = OUTPUT_BYTES;
    while let Ok(length) = out.read(&mut buffer) {
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
        let kept = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        // A full disk costs the record of the output, not the turn.
        let _ = file.write_all(bytes.get(..kept).unwrap_or_default());
        room = room.saturating_sub(kept as u64);
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.bytes = shared.bytes.saturating_add(bytes.len() as u64);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let free = LINE_BYTES.saturating_sub(line.len());
            line.extend_from_slice(part.get(..part.len().min(free)).unwrap_or_default());
            if part.ends_with(b"\n") {
                take_line(&mut line, &mut shared.said, lines);
            }
        }
    }
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    take_line(&mut line, &mut shared.said, lines);
}

fn take_line(line: &mut Vec<u8>, said: &mut Said, lines: &SyncSender<String>) {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    if !text.is_empty()
        && let Some(shown) = said.line(text)
    {
        // Progress that nobody takes in time is none.
        let _ = lines.try_send(shown);
    }
    line.clear();
}

fn read_complaints(mut err: impl Read, shared: &Mutex<Shared>) {
    let mut buffer = vec![0; 4 << 10];
    while let Ok(length) = err.read(&mut buffer) {
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.complaint.extend_from_slice(bytes);
        let over = shared.complaint.len().saturating_sub(COMPLAINT_BYTES);
        shared.complaint.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn shell(script: &str, mark: &str) -> Invocation {
        Invocation {
            agent: AgentKind::ClaudeCode,
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("CEDE_TASK".into(), mark.into())],
            directory: "/".into(),
            input: "the words".into(),
            mark: mark.into(),
        }
    }

    fn mark(name: &str) -> String {
        format!("{name}-{}", std::process::id())
    }

    fn ran(script: &str, name: &str, patience: Duration, stop: &AtomicBool) -> (Ended, tempfile::TempDir) {
        let place = tempfile::tempdir().unwrap();
        let invocation = shell(script, &mark(name));
        let ended = run(&invocation, &place.path().join("output"), patience, stop, &mut |_| {}).unwrap();
        (ended, place)
    }

    const LONG: Duration = Duration::from_secs(60);

    /// Shows: E-6
    #[test]
    fn program_reads_its_words_and_its_end_is_told() {
        let (ended, _) = ran("cat; echo; echo oh >&2; exit 3", "reads", LONG, &NEVER);
        assert_eq!((ended.end, ended.worked, ended.answer.as_str()), (End::Itself(Some(3)), false, "the words"));
        assert_eq!((ended.complaint.as_str(), ended.output_bytes), ("oh", 10));
        let (ended, _) = ran("exit 0", "ends", LONG, &NEVER);
        assert!(ended.worked);
    }

    /// Shows: E-6
    #[test]
    fn program_ends_with_its_time_and_so_does_what_hides_in_another_group() {
        let begun = Instant::now();
        let script = "setsid sleep 77 & (trap '' TERM; sleep 77) & sleep 77";
        let (ended, _) = ran(script, "late", Duration::from_millis(300), &NEVER);
        assert_eq!((ended.end, ended.worked), (End::TimedOut, false));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!(end_marked(&mark("late")), 0, "nothing is left");
    }

    /// Shows: E-6
    #[test]
    fn program_that_ended_well_leaves_nothing_running_either() {
        let (ended, _) = ran("setsid sleep 77 >/dev/null & echo fine", "leaves", LONG, &NEVER);
        assert!(ended.worked);
        assert_eq!(end_marked(&mark("leaves")), 0);
    }

    /// Shows: E-6
    #[test]
    fn stop_ends_it_at_once() {
        let begun = Instant::now();
        let (ended, _) = ran("sleep 77", "stopped", LONG, &AtomicBool::new(true));
        assert_eq!(ended.end, End::Stopped);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    /// Shows: E-7
    #[test]
    fn flood_is_counted_and_not_kept() {
        let script = "head -c 20000000 /dev/zero | tr '\\0' 'x'; echo; echo the end";
        let (ended, place) = ran(script, "flood", LONG, &NEVER);
        assert_eq!((ended.output_bytes, ended.worked), (20_000_009, true));
        assert!(ended.answer.ends_with("the end") && ended.answer.len() <= super::super::limits::ANSWER_BYTES);
        assert_eq!(std::fs::metadata(place.path().join("output")).unwrap().len(), OUTPUT_BYTES);
    }
}
