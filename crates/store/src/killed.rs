//! A real process that is killed in the middle of its work, and what the next one finds.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cede_wire::id::{ChunkId, DeviceId, HandoffId};
use cede_wire::record::Record;
use rustix::process::{Pid, Signal};

use crate::home::Home;
use crate::index::{Index, IndexCondition, Why};
use crate::journal::{Condition, Journal};

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

fn assert_nothing_is_lost(home: &Path, acknowledged: u64) {
    let home = Home::open(home).unwrap();
    let (journal, replay) = Journal::open(&home).unwrap();
    assert!(matches!(replay.condition, Condition::Clean | Condition::TornTail { .. }), "{:?}", replay.condition);
    assert!(!replay.closed);
    let expected: Vec<_> = (0..replay.records.len() as u64).map(record).collect();
    assert_eq!(replay.records, expected);
    assert!(replay.records.len() as u64 > acknowledged, "{} records, {acknowledged} said", replay.records.len());
    journal.commit(vec![record(0)]).unwrap();
    let stage = home.stage(HANDOFF).unwrap();
    assert!((0..=acknowledged).all(|number| stage.has(&ChunkId::of(&chunk(number)))));
    assert_eq!(Index::open(&home, 1).unwrap().1, IndexCondition::Rebuild(Why::Unclean));
}

/// Works until it is killed. It says each number when everything about it is durable.
#[test]
#[ignore = "the process that the other test kills"]
fn works_until_killed() {
    let home = Home::open(Path::new(&std::env::var_os(HOME).unwrap())).unwrap();
    let (journal, _) = Journal::open(&home).unwrap();
    let stage = home.stage(HANDOFF).unwrap();
    let (index, _) = Index::open(&home, 1).unwrap();
    for number in 0..u64::MAX {
        stage.put(&ChunkId::of(&chunk(number)), &chunk(number)).unwrap();
        stage.sync().unwrap();
        index.tree("chunks").unwrap().put(&number.to_be_bytes(), b"here").unwrap();
        journal.commit(vec![record(number)]).unwrap();
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
    rustix::process::kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    look();
    child.kill().unwrap();
    let last = numbers.last().unwrap_or(said);
    child.wait().unwrap();
    last
}

/// A file system in a file.
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
        run("mount", &["-o", "loop", path(image), path(at)]).then(|| Self { mounted: at.to_owned() })
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
const HOME: &str = "CEDE_STORE_KILLED_HOME";
