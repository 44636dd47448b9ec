//! `cede demo`, as a newcomer runs it: in an empty home, and interrupted.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cede_agent::adapter::Surroundings;
use cede_agent::adapter::recorded::{Story, answer_as_opencode, plant};
use cede_tests::lab::{Home, Lab};
use cede_wire::session::AgentKind;
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
fn demo_of_an_opencode_session_holds_without_opencode_and_says_so() {
    let told = holds("opencode");
    assert!(told.contains("OpenCode is not installed: the demo writes a database"), "{told}");
}

#[test]
fn demo_of_an_opencode_session_holds_with_opencode_itself() {
    let Some(lab) = lab() else { return };
    let told = holds_with("opencode", &lab.path());
    assert!(!told.contains("OpenCode is not installed"), "{told}");
}

#[test]
fn stand_in_of_the_demo_touches_no_home_of_a_person() {
    let place = Place::new();
    let stand_in = place.root.path().join("home").to_string_lossy().into_owned();
    let output = place.command(&["demo", "opencode", &stand_in, "export", "ses_1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(report(&output).contains("error: OpenCode's stand-in works in the demo only\n"), "{}", report(&output));
    place.is_empty();
}

/// What is planted without OpenCode is a database of OpenCode's: it lists the session, exports the same conversation
/// as the stand-in, and goes on with it.
#[test]
fn opencode_itself_goes_on_with_what_was_planted_without_it() {
    let Some(lab) = lab() else { return };
    let home = lab.home("one");
    let with = home.surroundings();
    let without = Surroundings { path: OsString::new(), ..with.clone() };
    let native = plant(AgentKind::OpenCode, &without, &home.workdir, [7; 16], &Story::example("lab", "lab-model"));
    let native = native.unwrap();
    let ours = answer_as_opencode(&without, &home.workdir, &["export", native.as_str()]).unwrap();

    let listed = home.run(&home.workdir, &["opencode", "session", "list"]);
    assert!(listed.success && listed.text.contains(native.as_str()), "{}", listed.text);
    let theirs = home.command(&home.workdir, &["opencode", "export", native.as_str()]).output().unwrap();
    assert_eq!(json(ours.as_bytes())["messages"], json(&theirs.stdout)["messages"], "{}", report(&theirs));

    let resumed = home.pipe(&home.workdir, &["opencode", "run", "-s", native.as_str()], "go on");
    assert!(resumed.success, "{}", resumed.text);
    let request = lab.requests().iter().map(Value::to_string).find(|request| request.contains("go on")).unwrap();
    for words in ["drop the last line", "test result: ok", "the last line counts"] {
        assert!(request.contains(words), "{words} is missing in {request}");
    }
}

/// The other way round: what OpenCode imported is read and replaced by the stand-in as OpenCode would.
#[test]
fn stand_in_goes_on_with_a_database_that_opencode_made() {
    let Some(lab) = lab() else { return };
    let (home, other) = (lab.home("one"), lab.home("two"));
    let around = home.surroundings();
    let native = plant(AgentKind::OpenCode, &around, &home.workdir, [7; 16], &Story::example("lab", "lab-model"));
    let native = native.unwrap();
    let ask = |words: &[&str]| answer_as_opencode(&around, &home.workdir, words);
    let ours = ask(&["export", native.as_str()]).unwrap();
    let theirs = home.command(&home.workdir, &["opencode", "export", native.as_str()]).output().unwrap().stdout;
    assert_eq!(json(ours.as_bytes()), json(&theirs));
    assert_eq!(schema(&home), {
        answer_as_opencode(&other.surroundings(), &other.workdir, &["export", "none"]).unwrap_err();
        schema(&other)
    });
    std::fs::write(home.workdir.join("export.json"), &theirs).unwrap();
    ask(&["session", "delete", native.as_str()]).unwrap();
    ask(&["import", "export.json"]).unwrap();
    let again = home.command(&home.workdir, &["opencode", "export", native.as_str()]).output().unwrap().stdout;
    assert_eq!(json(&again)["messages"], json(&theirs)["messages"]);
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

/// Runs the demo on a machine that has git and none of the agents; what it said comes back.
fn holds(agent: &str) -> String {
    let bare = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(program("git"), bare.path().join("git")).unwrap();
    holds_with(agent, bare.path().as_os_str())
}

/// Runs the demo with these programs: every agent's session is planted and listed, and the one of `agent` moves.
fn holds_with(agent: &str, path: &OsStr) -> String {
    let place = Place::new();
    let output = place.command(&["demo", "--agent", agent]).env("PATH", path).output().unwrap();
    let told = report(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("recorded sessions planted: files, codex, claude-code, opencode\n"), "{told}");
    let listing = told.split_once("laptop$ cede ls\n").unwrap().1.split_once("a repository").unwrap().0;
    for listed in ["files", "codex", "claude-code", "opencode"] {
        let row = |line: &str| line.contains(&format!("  {listed} ")) && line.contains(" laptop ");
        assert_eq!(listing.lines().filter(|line| row(line)).count(), 1, "{listed} in:\n{listing}");
    }
    let mut rest = told.as_str();
    for step in ["offered", "transferring", "staged", "released", "committed", "offered", "committed"] {
        rest = rest.split_once(step).unwrap_or_else(|| panic!("{step} is missing in order:\n{told}")).1;
    }
    assert!(rest.contains("the session is at laptop, in "), "{told}");
    place.is_empty();
    told
}

/// Where a program of this machine is.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file()).unwrap()
}

fn lab() -> Option<Lab> {
    Lab::up(env!("CARGO_BIN_EXE_lab-model"))
}

/// Every table and index of OpenCode's database in this home, as SQLite understands them.
fn schema(home: &Home<'_>) -> Vec<String> {
    let file = home.surroundings().opencode_data.join("opencode.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    let rows = |query: &str| -> Vec<String> {
        let mut statement = connection.prepare(query).unwrap();
        let columns = statement.column_count();
        let text = |row: &rusqlite::Row<'_>| {
            let values: rusqlite::Result<Vec<rusqlite::types::Value>> = (0..columns).map(|at| row.get(at)).collect();
            values.map(|values| format!("{values:?}"))
        };
        statement.query_map([], text).unwrap().map(Result::unwrap).collect()
    };
    let about = |what: &str| {
        let of = format!("from sqlite_schema as thing, pragma_{what}(thing.name) as its");
        rows(&format!("select thing.name, thing.tbl_name, its.* {of} order by thing.name, 3, 4, 5"))
    };
    let mut found = ["table_xinfo", "foreign_key_list", "index_xinfo"].map(about).concat();
    assert!(found.len() > 200, "{found:?}");
    found.extend(rows("select id from migration order by id"));
    found
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
