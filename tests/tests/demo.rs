//! `cede demo`, as a newcomer runs it: in an empty home, and interrupted.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

#[test]
fn demo_of_a_directory_holds_and_leaves_nothing_behind() {
    holds("files");
}

#[test]
fn demo_of_a_claude_code_session_holds_and_leaves_nothing_behind() {
    holds("claude-code");
}

#[test]
fn demo_of_a_codex_session_holds_and_leaves_nothing_behind() {
    holds("codex");
}

#[test]
fn demo_of_an_opencode_session_holds_or_says_what_is_missing() {
    if Command::new("opencode").arg("--version").output().is_ok() {
        return holds("opencode");
    }
    println!("skipped: opencode is not installed");
    let output = Place::new().command(&["demo", "--agent", "opencode"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(report(&output).contains("error: there is no recorded session of opencode\n"), "{}", report(&output));
}

#[test]
fn interrupted_demo_leaves_neither_files_nor_daemons() {
    let place = Place::new();
    let mut demo = place.start(&["demo", "--agent", "files"]);
    place.wait_for_daemons(2);
    signal(&demo, "INT");
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    place.is_empty();
}

#[test]
fn daemons_of_a_killed_demo_end_by_themselves() {
    let place = Place::new();
    let mut demo = place.start(&["demo", "--agent", "files"]);
    place.wait_for_daemons(2);
    demo.kill().unwrap();
    demo.wait().unwrap();
    place.wait_for_daemons(0);
}

#[test]
fn demo_without_git_says_so() {
    let place = Place::new();
    let output = place.command(&["demo"]).env("PATH", place.root.path()).output().unwrap();
    let seen = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(seen.contains("error: the demo needs git\n") && seen.contains(" hint: install git"), "{seen}");
}

#[test]
fn demo_in_json_is_lines_that_end_with_done() {
    let place = Place::new();
    let output = place.command(&["demo", "--agent", "files", "--json"]).output().unwrap();
    let lines: Vec<Value> = output.stdout.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(json).collect();
    assert!(lines.iter().all(|line| line["schema"] == "cede.control/1"), "{lines:?}");
    assert!(lines.iter().any(|line| line["reply"] == "progress" && line["phase"] == "released"), "{lines:?}");
    assert_eq!(lines.last().unwrap()["reply"], "done", "{}", report(&output));
}

fn holds(agent: &str) {
    let place = Place::new();
    let output = place.command(&["demo", "--agent", agent]).output().unwrap();
    assert!(output.status.success(), "{}", report(&output));
    let timeline = String::from_utf8_lossy(&output.stdout);
    let mut rest = timeline.as_ref();
    for step in ["offered", "transferring", "staged", "released", "committed", "offered", "committed"] {
        rest = rest.split_once(step).unwrap_or_else(|| panic!("{step} is missing in order:\n{}", report(&output))).1;
    }
    assert!(rest.contains("the session is at laptop, in "), "{}", report(&output));
    place.is_empty();
}

fn json(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap()
}

fn report(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

/// An empty home and an empty directory for temporary files.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("home")).unwrap();
        std::fs::create_dir(root.path().join("tmp")).unwrap();
        Self { root }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cede-under-test"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.root.path().join("home")).env("TMPDIR", self.root.path().join("tmp"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Nothing was written to the home, nothing is left of the temporary files, no daemon runs on.
    fn is_empty(&self) {
        for name in ["home", "tmp"] {
            let left: Vec<_> = std::fs::read_dir(self.root.path().join(name)).unwrap().flatten().collect();
            assert!(left.is_empty(), "{name}: {left:?}");
        }
        assert_eq!(self.daemons(), 0);
    }

    /// Processes that work below this place.
    fn daemons(&self) -> usize {
        let works_here = |process: &Path| {
            std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(self.root.path().join("tmp")))
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter(|process| works_here(&process.path())).count()
    }

    fn wait_for_daemons(&self, number: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.daemons() != number {
            assert!(Instant::now() < until, "{} daemons, not {number}", self.daemons());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
