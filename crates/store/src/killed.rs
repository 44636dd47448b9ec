//! A real process that is killed in the middle of its work, and what the next one finds.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cede_wire::id::{ChunkId, DeviceId, HandoffId};
use cede_wire::record::Record;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::home::Home;
use crate::index::{Index, IndexCondition, Why};
use crate::journal::{Condition, Journal};

/// Shows: J-1, J-10
#[test]
fn killed_process_loses_nothing_that_was_acknowledged() {
    for after in [0, 1, 17, 60] {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let acknowledged = run_and_kill(&home, after, || ());
        assert_nothing_is_lost(&home, acknowledged);
    }
}

/// The image of a disk at one instant is what a power cut leaves: what was not flushed is not in it.
/// Shows: J-1, J-10
#[test]
fn power_cut_loses_nothing_that_was_acknowledged() {
    for after in [0, 3, 40] {
        let dir = tempfile::tempdir().unwrap();
        let (image, copy) = (dir.path().join("image"), dir.path().join("copy"));
        let Some(disk) = Loop::format(&image, &dir.path().join("disk")) else { return };
        let acknowledged = run_and_kill(&disk.mounted.join("home"), after, || {
            assert!(run("cp", &["--sparse=always", path(&image), path(&copy)]));
        });
        let disk = Loop::mount(&copy, &dir.path().join("after")).unwrap();
        assert_nothing_is_lost(&disk.mounted.join("home"), acknowledged);
    }
}

/// A process that was killed may leave behind what was never flushed. Whoever reads it acts on it.
#[test]
fn what_a_replay_gives_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let other = Home::open(&dir.path().join("other")).unwrap();
    Journal::open(&other).unwrap().0.commit((0..5).map(record).collect()).unwrap();
    let (image, copy) = (dir.path().join("image"), dir.path().join("copy"));
    let Some(disk) = Loop::format(&image, &dir.path().join("disk")) else { return };
    let home = Home::open(&disk.mounted.join("home")).unwrap();
    Journal::open(&home).unwrap().0.commit(vec![record(0)]).unwrap();
    let (log, new) = (home.path("journal").join("log"), home.path("journal").join("unflushed"));
    std::fs::copy(other.path("journal").join("log"), &new).unwrap();
    std::fs::rename(&new, &log).unwrap();
    let (journal, replay) = Journal::open(&home).unwrap();
    assert_eq!(replay.records.len(), 5);
    assert!(run("cp", &["--sparse=always", path(&image), path(&copy)]));
    drop(journal);
    let after = Loop::mount(&copy, &dir.path().join("after")).unwrap();
    let home = Home::open(&after.mounted.join("home")).unwrap();
    assert_eq!(Journal::open(&home).unwrap().1.records.len(), 5);
}

/// Every call that changes the disk fails once, with each error, and is the last one once.
/// Shows: J-1, J-3
#[test]
fn fault_at_any_call_loses_nothing_that_was_acknowledged() {
    if !run("strace", &["-e", "inject=fsync:error=EIO:when=9", "true"]) {
        println!("skipped: needs strace");
        return;
    }
    let (error, full, kill) = ("error=EIO", "error=ENOSPC", "signal=KILL");
    let (both, each) = (&["journal stage"][..], &["journal", "stage"][..]);
    let calls: [(&str, &[&str], &[&str]); 8] = [
        ("mkdir", both, &[full, kill]),
        ("rename", both, &[error, kill]),
        ("unlink", both, &[error]),
        ("ftruncate", both, &[error]),
        ("write", both, &[full]),
        ("pwrite64", each, &[error, full, kill]),
        ("fdatasync", each, &[error, kill]),
        ("fsync", both, &[error, kill]),
    ];
    for (call, parts, faults) in calls {
        for (fault, parts) in faults.iter().flat_map(|fault| parts.iter().map(move |parts| (fault, parts))) {
            let injection = |number| format!("inject={call}:{fault}:when={number}");
            let hits = (1..FAULTS).take_while(|number| survives(call, &injection(*number), parts)).count();
            println!("{parts}, {call}, {fault}: {hits} times");
            assert!((1..FAULTS - 1).contains(&hits), "the calls begin and come to an end");
        }
    }
}

/// Whether the fault came up at all.
fn survives(call: &str, fault: &str, parts: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let (home, trace) = (dir.path().join("home"), dir.path().join("trace"));
    let traced = ["-f", "-qq", "-o", path(&trace), "-e", &format!("trace={call}"), "-e", fault];
    let child = Command::new("strace")
        .args(traced)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "killed::works_until_killed"])
        .env(HOME, &home)
        .env(ROUNDS, "2")
        .env(PARTS, parts)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let acknowledged = said.lines().filter_map(|line| line.split(' ').next_back()?.parse::<u64>().ok()).max();
    let trace = std::fs::read_to_string(&trace).unwrap();
    let home = Home::open(&home).unwrap_or_else(|error| panic!("{fault}: {error:?}"));
    assert_kept(&home, acknowledged.map_or(0, |last| last + 1), parts, fault);
    trace.contains("(INJECTED)") || trace.contains("killed by SIGKILL")
}

fn assert_nothing_is_lost(home: &Path, acknowledged: u64) {
    let home = Home::open(home).unwrap();
    assert_kept(&home, acknowledged + 1, ALL, "killed");
    assert_eq!(Index::open(&home, 1).unwrap().1, IndexCondition::Rebuild(Why::Unclean));
}

fn assert_kept(home: &Home, acknowledged: u64, parts: &str, cause: &str) {
    let (journal, replay) = Journal::open(home).unwrap_or_else(|error| panic!("{cause}: {error:?}"));
    let whole = matches!(replay.condition, Condition::Clean | Condition::TornTail { .. });
    assert!(whole, "{cause}: {:?}", replay.condition);
    let count = replay.records.len() as u64;
    assert_eq!(replay.records, (0..count).map(record).collect::<Vec<_>>(), "{cause}");
    assert!(count >= acknowledged || !parts.contains("journal"), "{cause}: {count} of {acknowledged}");
    journal.commit(vec![record(0)]).unwrap();
    let stage = home.stage(HANDOFF).unwrap();
    let kept = (0..acknowledged).all(|number| stage.has(&ChunkId::of(&chunk(number))));
    assert!(kept || !parts.contains("stage"), "{cause}");
    stage.put(&ChunkId::of(b"next"), b"next").unwrap();
    stage.sync().unwrap();
}

/// Works until it is killed, or for some rounds. It says each number when everything about it is durable.
#[test]
#[ignore = "the process that the other test kills"]
fn works_until_killed() {
    let parts = std::env::var(PARTS).unwrap_or(ALL.to_owned());
    let rounds = std::env::var(ROUNDS).map_or(u64::MAX, |rounds| rounds.parse().unwrap());
    let home = Home::open(Path::new(&std::env::var_os(HOME).unwrap())).unwrap();
    let journal = parts.contains("journal").then(|| Journal::open(&home).unwrap().0);
    let stage = parts.contains("stage").then(|| home.stage(HANDOFF).unwrap());
    let index = parts.contains("index").then(|| Index::open(&home, 1).unwrap().0);
    for number in 0..rounds {
        if let Some(stage) = &stage {
            stage.put(&ChunkId::of(&chunk(number)), &chunk(number)).unwrap();
            stage.sync().unwrap();
        }
        if let Some(index) = &index {
            index.tree("chunks").unwrap().put(&number.to_be_bytes(), b"here").unwrap();
        }
        if let Some(journal) = &journal {
            journal.commit(vec![record(number)]).unwrap();
        }
        println!(" {number}");
    }
}

/// Stops the process behind a number, looks at its disk, kills it, and gives the last number that it said.
fn run_and_kill(home: &Path, after: u64, look: impl FnOnce()) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "killed::works_until_killed"])
        .env(HOME, home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut numbers = lines.filter_map(|line| line.split(' ').next_back()?.parse().ok());
    let said = numbers.find(|number| *number >= after).unwrap();
    stop(&child);
    look();
    child.kill().unwrap();
    let last = numbers.last().unwrap_or(said);
    child.wait().unwrap();
    last
}

/// Returns when every thread stands still: one that runs on would say a number that is not in the image.
fn stop(child: &Child) {
    let process = Pid::from_child(child);
    kill_process(process, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(process), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped());
}

/// A file system in a file. It commits by itself so rarely that its image stands still as well.
struct Loop {
    mounted: PathBuf,
}

impl Loop {
    fn format(image: &Path, at: &Path) -> Option<Self> {
        File::create(image).unwrap().set_len(64 << 20).unwrap();
        let made = run("mkfs.ext4", &["-q", path(image)]).then(|| Self::mount(image, at)).flatten();
        if made.is_none() {
            println!("skipped: needs root and mkfs.ext4");
        }
        made
    }

    fn mount(image: &Path, at: &Path) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        run("mount", &["-o", "loop,commit=600", path(image), path(at)]).then(|| Self { mounted: at.to_owned() })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("umount", &["-l", path(&self.mounted)]);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn record(number: u64) -> Record {
    Record::AddressSeen { device: DeviceId::new([7; 32]), address: number.to_string() }
}

fn chunk(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

const HANDOFF: HandoffId = HandoffId::new([7; 16]);
/// More than there are calls of one kind in a short run.
const FAULTS: usize = 200;
const ALL: &str = "journal stage index";
const PARTS: &str = "CEDE_STORE_KILLED_PARTS";
const ROUNDS: &str = "CEDE_STORE_KILLED_ROUNDS";
const HOME: &str = "CEDE_STORE_KILLED_HOME";
