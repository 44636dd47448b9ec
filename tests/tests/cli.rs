//! What people see of `cede`: help, errors and JSON, as golden files in `cli/`.
//!
//! A golden file is written anew with `INSTA_UPDATE=always cargo test -p cede-tests --test cli`, and read before it is
//! committed.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Every command, by the arguments that lead to its help.
const COMMANDS: [&[&str]; 44] = [
    &["up"],
    &["pair"],
    &["status"],
    &["ls"],
    &["to"],
    &["take"],
    &["cancel"],
    &["confirm"],
    &["claim"],
    &["devices"],
    &["devices", "revoke"],
    &["devices", "address"],
    &["devices", "leave"],
    &["policy"],
    &["tell"],
    &["inbox"],
    &["ask"],
    &["tasks"],
    &["approvals"],
    &["approvers"],
    &["approvers", "add"],
    &["approvers", "remove"],
    &["allow"],
    &["deny"],
    &["notify"],
    &["notify", "add"],
    &["notify", "remove"],
    &["notify", "test"],
    &["log"],
    &["send"],
    &["transfers"],
    &["transfers", "cancel"],
    &["run"],
    &["attach"],
    &["watch"],
    &["drive"],
    &["hold"],
    &["release"],
    &["adopt"],
    &["doctor"],
    &["stop"],
    &["mcp"],
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

/// Shows: L-4, L-5
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

/// Shows: L-4
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
    let output = Home::new().run(&["docter", "--json"]);
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&reply["reply"], &reply["exit"]), (&Value::from("failed"), &Value::from(2)));
    let why = reply["why"].as_str().unwrap();
    assert!(why.contains("similar subcommand") && why.contains("'doctor'"), "{why}");
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

/// Shows: L-1
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

/// Shows: L-5
#[test]
fn home_that_cannot_be_made_is_refused_with_what_to_type() {
    let seen = Home::new().shown(&["--home", "/proc/x", "up", "--listen", "127.0.0.1:0", "--no-discovery"]);
    golden("home-not-made", &seen);
}

#[test]
fn completions_come_from_the_same_tree() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&home.run(&["completions", shell]).stdout);
        assert!(script.contains("include-ignored") && script.contains("adopt"), "{shell}");
    }
}

/// Shows: J-15
#[test]
fn second_daemon_on_one_home_is_refused() {
    let home = Home::new();
    let daemon = home.up(&[]);
    let seen = home.shown(&["up", "--listen", "127.0.0.1:0"]);
    golden("two-daemons", &seen.replace(&daemon.child.id().to_string(), "[PID]"));
}

#[test]
fn taken_port_is_named_with_the_way_out() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let seen = Home::new().shown(&["up", "--listen", &address]);
    golden("taken-port", &seen.replace(&address, "127.0.0.1:[PORT]"));
}

#[test]
fn unknown_key_in_the_configuration_stops_the_daemon() {
    let home = Home::new();
    std::fs::write(home.path().join("config.toml"), "name = \"laptop\"\ndiscovry = false\n").unwrap();
    golden("unknown-key", &home.shown(&["up", "--listen", "127.0.0.1:0"]));
}

#[test]
fn log_filter_that_is_none_stops_the_daemon() {
    golden("log-filter", &Home::new().shown(&["up", "--listen", "127.0.0.1:0", "--log", "cede=loud"]));
}

/// Shows: L-5
#[test]
fn what_is_not_there_is_said_with_what_to_type() {
    let home = Home::new();
    let _daemon = home.up(&[]);
    let seen: String = NOT_THERE.iter().map(|arguments| home.shown(arguments)).collect();
    golden("not-there", &seen);
}

#[test]
fn shape_of_the_json_of_every_question_is_golden() {
    let home = Home::new();
    let _daemon = home.up(&[]);
    std::fs::create_dir(home.path().join("notes")).unwrap();
    let mut seen = String::new();
    for arguments in
        [&["adopt", "notes"][..], &["status"], &["ls"], &["devices"], &["approvals"], &["doctor"], &["stop"]]
    {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let output = home.run(&arguments);
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
        let shape = serde_json::to_string_pretty(&shape(&reply)).unwrap();
        seen.push_str(&format!("$ cede {}\n{shape}\n\n", arguments.join(" ")));
    }
    golden("json-shapes", &seen);
}

#[test]
fn fresh_device_is_told_what_to_do_next() {
    let home = Home::new();
    let _daemon = home.up(&[]);
    let seen = text(&home.run(&[]).stdout);
    assert!(seen.starts_with("laptop ("), "{seen}");
    assert!(seen.ends_with("\nnext: cede pair\n"), "{seen}");
}

#[test]
fn stopped_daemon_ends_well_and_leaves_no_socket() {
    let home = Home::new();
    let mut daemon = home.up(&[]);
    let output = home.run(&["stop"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(daemon.child.wait().unwrap().success());
    assert!(!home.path().join("cede.sock").exists());
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}

/// Shows: L-1
#[test]
fn control_socket_and_state_are_for_their_user_only() {
    let home = Home::new();
    let _daemon = home.up(&[]);
    let mode = |name: &str| std::fs::metadata(home.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("cede.sock"), mode("state")), (0o600, 0o700));
}

#[test]
fn daemon_ends_with_the_one_who_started_it() {
    let home = Home::new();
    let mut daemon = home.up(&["--while-stdin"]);
    drop(daemon.child.stdin.take());
    assert!(daemon.child.wait().unwrap().success());
}

/// Questions about what does not exist.
const NOT_THERE: [&[&str]; 16] = [
    &["to", "server"],
    &["to", "server", "fix", "--dry-run"],
    &["take", "fix"],
    &["cancel", "3f"],
    &["allow", "7c"],
    &["deny", "7c"],
    &["devices", "revoke", "server"],
    &["devices", "address", "server", "127.0.0.1:9"],
    &["devices", "leave", "--yes"],
    &["policy", "server"],
    &["policy", "server", "drive", "accept", "--for", "8h"],
    &["pair", "not", "such", "words", "here"],
    &["pair", "amber"],
    &["pair", "goat", "goat", "goat", "goat", "--at", "127.0.0.1:1"],
    &["approvals"],
    &["adopt", "not-there"],
];

/// The same value with the types in place of what is in it; of a list only the first element.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(values) => Value::Array(values.iter().take(1).map(shape).collect()),
        Value::Null => "null".into(),
        Value::Bool(_) => "true or false".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
    }
}

/// Commands that ask the daemon something.
const ASKING: [&[&str]; 16] = [
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
    &["tell", "server", "hello"],
    &["inbox"],
];

/// Command lines that are wrong, each in its own way.
const WRONG: [&[&str]; 13] = [
    &["statsu"],
    &["to"],
    &["to", "server", "--dryrun"],
    &["pair", "--at", "127.0.0.1:4242"],
    &["pair", "amber", "--at", "127.0.0.1"],
    &["pair", "amber", "--yes"],
    &["up", "--listen", "everywhere"],
    &["policy", "server", "--ask", "--yes"],
    &["policy", "--yes"],
    &["policy", "server", "drive"],
    &["policy", "server", "fly", "accept"],
    &["policy", "server", "drive", "perhaps"],
    &["demo", "--agent", "claude"],
];

/// A daemon that ends with its test.
struct Daemon {
    child: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

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

    /// A daemon on this home that answers.
    fn up(&self, arguments: &[&str]) -> Daemon {
        let mut command = self.command(CEDE);
        command.args(["up", "--listen", "127.0.0.1:0", "--no-discovery", "--name", "laptop"]).args(arguments);
        let log = std::fs::File::create(self.path().join("log")).unwrap();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let daemon = Daemon { child };
        let until = Instant::now() + Duration::from_secs(20);
        while !self.run(&["status"]).status.success() {
            let log = || std::fs::read_to_string(self.path().join("log"));
            assert!(Instant::now() < until, "the daemon does not answer: {:?}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon
    }

    /// Runs as another user, if this one may.
    fn run_as_nobody(&self, arguments: &[&str]) -> Option<Output> {
        let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        open(self.path(), 0o755).unwrap();
        open(&self.path().join("cede.sock"), 0o777).unwrap();
        let program = self.path().join("cede");
        // A process of its own writes the copy: a file that this one writes is busy in every test that forks meanwhile.
        assert!(Command::new("cp").arg(CEDE).arg(&program).status().unwrap().success());
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
