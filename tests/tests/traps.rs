//! Trap repositories: each would write a marker if anything of it ran. Captured, received, and taken back over, nothing
//! runs; some are refused, and that runs nothing either.
//!
//! A trap that never fires shows nothing, so plain git is let loose on each first: most fire, and it is said how many.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cede_agent::chunk::{SourceFiles, StatCache};
use cede_agent::tree::{
    Baseline, Capture, CaptureOptions, ReadChunk, StageRequest, activate, capture, discard, inspect, stage,
};
use cede_tests::devices::trees::{Numbers, git};
use cede_wire::id::ChunkId;

#[path = "traps/kit.rs"]
mod kit;

use kit::Trap;

/// A place for one repository, its copy and its markers.
struct Lab {
    place: PathBuf,
    script: PathBuf,
    _own: Option<tempfile::TempDir>,
}

impl Lab {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let own = tempfile::tempdir_in(parent).unwrap();
        let lab = Self::at(own.path());
        // Whatever calls it gets its input back, so that a filter goes on and does more.
        let text = "#!/bin/sh\necho \"$0 $*\" >> '{}'\ntimeout 1 cat 2>/dev/null\n";
        executable(&lab.script, &text.replace("{}", lab.path("marker").to_str().unwrap()));
        Self { _own: Some(own), ..lab }
    }

    fn at(place: &Path) -> Self {
        Self { place: place.to_owned(), script: place.join("trap.sh"), _own: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// What ran since the last question.
    fn ran(&self) -> Option<String> {
        let marker = self.path("marker");
        let said = std::fs::read_to_string(&marker).ok()?;
        std::fs::remove_file(marker).unwrap();
        Some(said)
    }

    fn repository(&self) -> PathBuf {
        let root = self.path("home");
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(root.join("a.txt"), "one\n").unwrap();
        std::fs::write(root.join("src/main.rs"), "fn main() {}\n").unwrap();
        git(&root, &["init", "-q", "-b", "main"]);
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "-q", "-m", "first"]);
        std::fs::write(root.join("a.txt"), "stashed\n").unwrap();
        git(&root, &["stash", "push", "-q"]);
        std::fs::write(root.join("a.txt"), "edited\n").unwrap();
        std::fs::write(root.join("new.txt"), "new\n").unwrap();
        root
    }

    fn stage(&self, captured: &Capture, target: &str, baseline: Option<&Baseline>) -> Result<(), String> {
        let staging = self.path("staging");
        let request = StageRequest {
            entries: &captured.entries,
            chunks: &Chunks(&captured.sources),
            staging: &staging,
            target: &self.path(target),
            baseline,
            cache: &StatCache::default,
            local_clone: None,
        };
        let staged = stage(&request).map_err(|error| error.to_string());
        let placed = staged.and_then(|_| activate(&staging).map(drop).map_err(|error| error.to_string()));
        discard(&staging).unwrap();
        placed
    }

    fn capture(&self, root: &Path, scratch: &str) -> Result<Capture, String> {
        let scratch = self.path(scratch);
        let options =
            CaptureOptions { include_ignored: &[], exclude: &[], untracked: true, have: &[], scratch: &scratch };
        let tree = inspect(root).map_err(|refusal| refusal.to_string())?;
        capture(&tree, &options, &mut StatCache::default()).map_err(|error| error.to_string())
    }
}

struct Chunks<'a>(&'a SourceFiles);

impl ReadChunk for Chunks<'_> {
    fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> std::io::Result<()> {
        self.0.read(id, into).map_err(std::io::Error::other)
    }
}

fn executable(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Plain git, as a person or a careless program calls it. What it answers does not matter.
fn careless(root: &Path, home: &Path, commands: &[&[&str]]) {
    for arguments in commands {
        let mut command = Command::new("git");
        command.args(*arguments).current_dir(root).env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_PAGER_IN_USE", "1").stdin(Stdio::null());
        drop(command.output());
    }
}

const ALL: [&[&str]; 11] = [
    &["status"],
    &["-p", "log", "-p", "--show-signature", "-1"],
    &["ls-files", "-m"],
    &["diff", "HEAD"],
    &["add", "-A"],
    &["-p", "config", "-l"],
    &["commit", "-q", "-S", "-m", "x"],
    &["checkout", "-q", "-f", "HEAD~0"],
    &["fetch", "origin"],
    &["push", "origin", "HEAD"],
    &["submodule", "update", "--init"],
];

/// What a person would type first in a tree that came.
const FIRST: [&[&str]; 4] = [&["status"], &["-p", "log", "-p", "-1"], &["add", "-A"], &["commit", "-q", "-m", "x"]];

/// What came of a trap.
#[derive(Default)]
struct Count {
    /// Whether plain git is let loose on each, and not on one in four.
    checks_all: bool,
    repositories: Cell<u32>,
    tried: Cell<u32>,
    fired: Cell<u32>,
    refused: Cell<u32>,
    travelled: Cell<u32>,
    over: Cell<u32>,
}

fn add(cell: &Cell<u32>) {
    cell.set(cell.get() + 1);
}

/// Sets traps in a repository, lets plain git loose on a copy of it, and moves it.
fn spring(traps: &[&Trap], count: &Count) {
    let lab = Lab::new();
    let home = lab.repository();
    for trap in traps {
        (trap.set)(&home, &lab.script);
    }
    // Setting one may spring another.
    drop(lab.ran());
    if count.checks_all || count.repositories.get().is_multiple_of(4) {
        let control = lab.path("control");
        copy(&home, &control);
        careless(&control, &lab.path("nobody"), &ALL);
        add(&count.tried);
        count.fired.set(count.fired.get() + u32::from(lab.ran().is_some()));
    }
    let names: Vec<&str> = traps.iter().map(|trap| trap.name).collect();
    round_trip(&lab, &format!("{names:?}"), count);
}

/// Captures, receives, looks at what came, changes it there, and brings it back over the trapped one.
fn round_trip(lab: &Lab, traps: &str, count: &Count) {
    add(&count.repositories);
    let (home, abroad) = (lab.path("home"), lab.path("abroad"));
    let quiet = |when: &str| assert_eq!(lab.ran(), None, "{traps}: something ran at the {when}");
    let captured = lab.capture(&home, "scratch");
    quiet("capture");
    let received = captured.as_ref().map_err(Clone::clone).and_then(|captured| lab.stage(captured, "abroad", None));
    quiet("receiving");
    let (Ok(captured), Ok(())) = (captured, received) else {
        add(&count.refused);
        assert!(!abroad.exists(), "{traps}: refused, and something stands");
        return;
    };
    add(&count.travelled);
    let configuration = std::fs::read_to_string(abroad.join(".git/config")).unwrap();
    assert!(!configuration.contains("trap") && !abroad.join(".git/hooks").exists(), "{traps}: {configuration}");
    if std::env::var_os(TRAPPED).is_none() {
        careless(&abroad, &lab.path("nobody"), &FIRST);
        quiet("use of plain git on what came");
    }
    std::fs::write(abroad.join("a.txt"), "edited abroad\n").unwrap();
    let back = lab.capture(&abroad, "scratch-back");
    quiet("capture abroad");
    make_index_racy(&home);
    let baseline = Baseline::of(&captured.entries);
    let over = back.and_then(|back| lab.stage(&back, "home", Some(&baseline)));
    quiet("way back over the trapped one");
    count.over.set(count.over.get() + u32::from(over.is_ok()));
}

const TRAPPED: &str = "CEDE_TRAPPED";

/// An index older than its files makes git look into each of them whenever it writes the index.
fn make_index_racy(home: &Path) {
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    let index = std::fs::File::options().append(true).open(home.join(".git/index"));
    drop(index.and_then(|index| index.set_modified(hour_ago)));
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// Springs every fourth of the kit: each alone, and many together.
fn spring_share(share: usize) {
    let traps = kit::all();
    let long = std::env::var_os("CEDE_SHAKE").is_some();
    let count = Count { checks_all: long, ..Count::default() };
    let mut numbers = Numbers(3 + share as u64);
    for trap in traps.iter().skip(share).step_by(SHARES) {
        spring(&[trap], &count);
    }
    for _ in 0..if long { 110 } else { 1 } {
        let some = traps.iter().filter(|trap| !trap.alone);
        spring(&some.filter(|_| numbers.below(6) == 0).collect::<Vec<_>>(), &count);
    }
    let (repositories, travelled, over) = (count.repositories.get(), count.travelled.get(), count.over.get());
    let (refused, fired, tried) = (count.refused.get(), count.fired.get(), count.tried.get());
    println!(
        "trap repositories: {repositories}; {travelled} travelled, {refused} refused, {over} taken back over; 0 ran. \
         {fired} of {tried} fire under plain git"
    );
    assert!(repositories >= 15 && travelled > 10 && over > 8, "hardly anything was tried");
    assert!(!long || fired * 5 > tried * 2, "most traps are none: {fired} of {tried}");
}

const SHARES: usize = 4;

/// Shows: T-6, T-7
#[test]
fn no_trap_repository_runs_anything() {
    spring_share(0);
}

/// Shows: T-6
#[test]
fn no_trap_repository_runs_anything_second_share() {
    spring_share(1);
}

/// Shows: T-6
#[test]
fn no_trap_repository_runs_anything_third_share() {
    spring_share(2);
}

/// Shows: T-6
#[test]
fn no_trap_repository_runs_anything_fourth_share() {
    spring_share(3);
}

/// The same where the traps stand in the person's own configuration and in the environment of the daemon. The variables
/// of a process are set from outside, so this test runs itself.
/// Shows: T-6
#[test]
fn traps_in_the_environment_run_nothing() {
    if let Some(place) = std::env::var_os(TRAPPED) {
        let count = Count::default();
        round_trip(&Lab::at(Path::new(&place)), "the environment", &count);
        assert_eq!((count.travelled.get(), count.over.get()), (1, 1));
        return;
    }
    let lab = Lab::new();
    lab.repository();
    let script = lab.script.to_str().unwrap();
    let configuration = kit::KEYS.iter().fold(String::new(), |text, key| text + &kit::as_section(key, script));
    std::fs::create_dir(lab.path("person")).unwrap();
    std::fs::write(lab.path("person/.gitconfig"), configuration).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "traps_in_the_environment_run_nothing", "--nocapture"]);
    child.env(TRAPPED, &lab.place).env("HOME", lab.path("person")).env("GIT_CONFIG_NOSYSTEM", "1");
    for name in kit::VARIABLES {
        child.env(name, script);
    }
    child.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "core.fsmonitor").env("GIT_CONFIG_VALUE_0", script);
    child.env("GIT_CONFIG_PARAMETERS", format!("'core.fsmonitor={script}'"));
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(lab.ran(), None, "something of the environment ran");
}
