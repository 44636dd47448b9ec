//! What people see of `cede`: help, errors and JSON, as golden files in `cli/`.
//!
//! A golden file is written anew with `INSTA_UPDATE=always cargo test -p cede-tests --test cli`, and read before it is
//! committed.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Every command, by the arguments that lead to its help.
const COMMANDS: [&[&str]; 19] = [
    &["up"],
    &["pair"],
    &["status"],
    &["ls"],
    &["to"],
    &["take"],
    &["cancel"],
    &["devices"],
    &["devices", "revoke"],
    &["devices", "address"],
    &["policy"],
    &["approvals"],
    &["allow"],
    &["deny"],
    &["adopt"],
    &["doctor"],
    &["stop"],
    &["demo"],
    &["completions"],
];

#[test]
fn help_of_every_command_is_golden() {
    let home = Home::new();
    golden("help", &home.shown(&["--help"]));
    for command in COMMANDS {
        let arguments: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        golden(&format!("help-{}", command.join("-")), &home.shown(&arguments));
    }
}

#[test]
fn help_lists_no_command_without_golden_help() {
    let help = text(&Home::new().run(&["--help"]).stdout);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in listed {
        let name = line.split_whitespace().next().unwrap();
        assert!(COMMANDS.iter().any(|command| command[0] == name), "{name} has no golden help");
    }
}

#[test]
fn every_command_without_daemon_says_how_to_start_it() {
    let home = Home::new();
    let mut seen = String::new();
    for arguments in ASKING {
        seen.push_str(&home.shown(arguments));
        assert_eq!(home.run(arguments).status.code(), Some(3), "{arguments:?}");
    }
    golden("no-daemon", &seen);
}

#[test]
fn every_failure_is_json_where_json_is_asked_for() {
    let home = Home::new();
    for arguments in ASKING {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let output = home.run(&arguments);
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = [("schema", "cede.control/1"), ("reply", "failed"), ("cure", "start it: cede up")];
        for (field, value) in expected {
            assert_eq!(reply[field], value, "{arguments:?}");
        }
        assert_eq!((&reply["exit"], text(&output.stderr).as_str()), (&Value::from(3), ""), "{arguments:?}");
    }
}

#[test]
fn wrong_command_lines_end_with_two_and_a_suggestion() {
    let home = Home::new();
    let mut seen = String::new();
    for arguments in WRONG {
        seen.push_str(&home.shown(arguments));
        assert_eq!(home.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    golden("usage", &seen);
}

#[test]
fn wrong_command_line_is_json_where_json_is_asked_for() {
    let output = Home::new().run(&["statsu", "--json"]);
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&reply["reply"], &reply["exit"]), (&Value::from("failed"), &Value::from(2)));
    assert_eq!(reply["why"], "a similar subcommand exists: 'status'");
}

#[test]
fn doctor_checks_what_it_can_without_daemon() {
    let home = Home::new();
    let output = home.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(3));
    let seen = text(&output.stdout);
    assert!(seen.starts_with("fail daemon: nothing listens on "), "{seen}");
    assert!(seen.contains("\n      fix: start it: cede up\n") && seen.contains("\nok   git: git version "), "{seen}");
}

#[test]
fn left_over_socket_means_no_daemon() {
    let home = Home::new();
    drop(UnixListener::bind(home.path().join("cede.sock")).unwrap());
    golden("left-over-socket", &home.shown(&["status"]));
}

#[test]
fn socket_of_another_user_is_not_asked() {
    let home = Home::new();
    let _listener = UnixListener::bind(home.path().join("cede.sock")).unwrap();
    let output = home.run_as_nobody(&["status"]);
    let Some(output) = output else { return println!("skipped: needs root to become another user") };
    let seen = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{seen}");
    assert!(seen.starts_with("error: the control socket is not yours\n"), "{seen}");
}

#[test]
fn missing_directory_is_not_adopted() {
    golden("adopt-missing", &Home::new().shown(&["adopt", "not-there"]));
}

#[test]
fn home_too_long_for_a_socket_is_refused() {
    let home = Home::new();
    let long = format!("/{}", "x".repeat(120));
    golden("home-too-long", &home.shown(&["--home", &long, "status"]));
}

#[test]
fn completions_come_from_the_same_tree() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&home.run(&["completions", shell]).stdout);
        assert!(script.contains("include-ignored") && script.contains("adopt"), "{shell}");
    }
}

/// Commands that ask the daemon something.
const ASKING: [&[&str]; 14] = [
    &[],
    &["status"],
    &["ls"],
    &["pair"],
    &["pair", "amber-river-stone", "--at", "127.0.0.1:9"],
    &["to", "server"],
    &["take", "fix"],
    &["cancel", "3f"],
    &["devices"],
    &["policy", "server", "--yes"],
    &["approvals"],
    &["allow", "7c"],
    &["adopt", "."],
    &["stop"],
];

/// Command lines that are wrong, each in its own way.
const WRONG: [&[&str]; 9] = [
    &["statsu"],
    &["to"],
    &["to", "server", "--dryrun"],
    &["pair", "--at", "127.0.0.1:4242"],
    &["pair", "amber", "--at", "127.0.0.1"],
    &["pair", "amber", "--yes"],
    &["up", "--listen", "everywhere"],
    &["policy", "server", "--ask", "--yes"],
    &["demo", "--agent", "claude"],
];

/// A throw-away home.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("HOME", self.path()).env("CEDE_HOME", self.path());
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(CEDE).args(arguments).output().unwrap()
    }

    /// Runs as another user, if this one may.
    fn run_as_nobody(&self, arguments: &[&str]) -> Option<Output> {
        let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        open(self.path(), 0o755).unwrap();
        open(&self.path().join("cede.sock"), 0o777).unwrap();
        let program = self.path().join("cede");
        std::fs::copy(CEDE, &program).unwrap();
        let set = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let probe = self.command("setpriv").args(set).arg("true").output().ok()?;
        let run = || self.command("setpriv").args(set).arg(&program).args(arguments).output().ok();
        probe.status.success().then(run).flatten()
    }

    /// What a person sees: the line typed, both streams, the exit code; the home's path is replaced.
    fn shown(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let streams = format!("{}{}", text(&output.stdout), text(&output.stderr));
        let streams = streams.replace(self.path().to_str().unwrap(), "[HOME]");
        format!("$ cede {}\n{streams}[exit {}]\n\n", arguments.join(" "), output.status.code().unwrap())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn golden(name: &str, seen: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("cli");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, seen));
}

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
