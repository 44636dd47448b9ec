//! What a person types by hand, and what it says: names that are titles, words that nobody got, mistakes with their cures.

use std::fs::OpenOptions;
use std::process::{Output, Stdio};

use cede_wire::control::{LetterSummary, SendRequest, TransferState, TransferSummary};

use super::*;

#[path = "watching.rs"]
mod watching;

fn cancel(device: &Device, text: &str) -> Result<String, Failure> {
    match device.ask(Command::Cancel { handoff: text.to_owned() })? {
        Answer::Said { text } => Ok(text),
        other => panic!("not cancelled: {other:?}"),
    }
}

/// A plain directory of this name that is a session.
fn session(device: &Device, path: &str) -> SessionId {
    let tree = device.home.join(path);
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::write(tree.join("f"), path).unwrap();
    device.adopt(&tree).id
}

/// Shows: H-11
#[test]
fn move_is_withdrawn_by_the_title_of_its_session() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (one, other) = (session(a, "one/parser"), session(a, "two/parser"));
    let [first, second] = [one, other].map(|id| a.open(Command::To(request("server", id))).unwrap());
    wait_until("both are asked for", || b.status().approvals.len() == 2);
    let failed = refused(cancel(a, "parser"));
    assert_eq!(failed.exit, exit::USAGE);
    assert!(failed.why.contains(&one.short()) && failed.why.contains(&other.short()), "{}", failed.why);
    assert_eq!(cancel(a, &one.to_string()).unwrap(), "cancelled; the session is in charge here");
    assert_eq!(refused(first.end(&mut |_| {}).unwrap()).refusal, Some(Refusal::Cancelled));
    assert_eq!(cancel(a, "parser").unwrap(), "cancelled; the session is in charge here");
    assert_eq!(refused(second.end(&mut |_| {}).unwrap()).refusal, Some(Refusal::Cancelled));
    assert_eq!(refused(cancel(a, "parser")).exit, exit::FAILED, "nothing is under way any more");
    let taken = b.open(Command::Take { session: one.to_string(), wait: false, carry_only: false }).unwrap();
    question(a);
    assert_eq!(cancel(b, "parser").unwrap(), "cancelled; the session is at laptop");
    assert_eq!(refused(taken.end(&mut |_| {}).unwrap()).why, "cancelled: it was withdrawn here");
}

fn typed_to(device: &Device, arguments: &[&str], output: &str) -> Output {
    let output = OpenOptions::new().write(true).open(output).unwrap();
    let mut command = device.command(arguments);
    let ended = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
    let ended = ended.wait_with_output().unwrap();
    println!("$ cede {}: {}\n{}", arguments.join(" "), ended.status, String::from_utf8_lossy(&ended.stderr));
    ended
}

fn letters(device: &Device, sent: bool) -> Vec<LetterSummary> {
    match device.ask(Command::Inbox { sent, all: true }) {
        Ok(Answer::Inbox { letters, .. }) => letters,
        other => panic!("no letters: {other:?}"),
    }
}

/// Shows: M-1, L-5
#[test]
fn what_could_not_be_written_is_a_failure_and_no_message_that_was_shown() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    assert!(a.typed(&["tell", "server", "the artifact is ready", "--wait"]).status.success());
    let id = letters(b, false).remove(0).id;
    let lists: [&[&str]; 5] =
        [&["inbox", "--all"], &["status", "--json"], &["log"], &["completions", "bash"], &["--version"]];
    // More often than a message may fail to be read.
    let (page, json) = (["inbox", &id], ["--json", "inbox", &id]);
    let reads = [&page[..], &page, &page, &page, &json];
    for arguments in lists.into_iter().chain(reads) {
        let ended = typed_to(b, arguments, "/dev/full");
        assert_eq!(ended.status.code(), Some(i32::from(exit::FAILED)), "{arguments:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("No space left"), "{arguments:?}");
    }
    assert_eq!(typed_to(b, &["inbox", &id], "/dev/null").status.code(), Some(i32::from(exit::FAILED)));
    assert!(typed_to(b, &["inbox", "--all"], "/dev/null").status.success());
    assert_eq!((letters(b, false)[0].state.as_str(), letters(a, true)[0].state.as_str()), ("received", "received"));
    let read = b.typed(&["inbox", &id]);
    assert!(read.status.success() && String::from_utf8_lossy(&read.stdout).contains("the artifact is ready"));
    wait_until("it is shown at the server", || letters(a, true)[0].standing == "shown at server");
    let own = a.typed(&["inbox", &id]);
    assert!(own.status.success() && String::from_utf8_lossy(&own.stdout).contains("shown at server"));
}

fn send(path: &Path) -> Command {
    let paths = vec![path.display().to_string()];
    Command::Send(SendRequest { device: "server".to_owned(), paths, wait: true, ..SendRequest::default() })
}

fn transfers(device: &Device) -> Vec<TransferSummary> {
    match device.ask(Command::Transfers) {
        Ok(Answer::Transfers { transfers }) => transfers,
        other => panic!("no list: {other:?}"),
    }
}

/// Shows: F-1, L-6
#[test]
fn files_without_a_yes_keep_what_was_said_of_them_and_names_are_escaped_once() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let folder = a.home.join("d\tx");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("f\ty"), "12345").unwrap();
    std::os::unix::fs::symlink("a", folder.join("l\tz")).unwrap();
    let asked = a.open(send(&folder)).unwrap();
    let approval = question(b);
    assert_eq!(approval.title, "d\\tx");
    assert_eq!(
        transfers(a)[0].detail,
        "waits for its answer; if it asks, there: cede approvals; not sent: d\\tx/l\\tz: a link"
    );
    let before = transfers(b).remove(0);
    assert_eq!((before.title.as_str(), before.bytes, before.files), ("d\\tx", 5, 1));
    decide(b, &approval, false);
    refused(asked.end(&mut |_| {}).unwrap());
    let after = transfers(b).remove(0);
    assert_eq!(after.state, TransferState::Refused);
    let said = |one: &TransferSummary| (one.title.clone(), one.bytes, one.files, one.at_unix_ms);
    assert_eq!(said(&after), said(&before));
    assert!(!b.state().join("transfers").exists(), "it is kept in memory only");
    b.say_yes_to("laptop");
    let Ok(Answer::Sent(sent)) = a.open(send(&folder)).unwrap().end(&mut |_| {}).unwrap() else { panic!("not sent") };
    assert_eq!(sent.detail, "not sent: d\\tx/l\\tz: a link");
    assert!(sent.place.ends_with("/d\\tx"), "{}", sent.place);
    assert_eq!(transfers(b)[0].title, "d\\tx");
}

/// Shows: L-5
#[test]
fn pattern_that_is_none_is_refused_before_anything_is_begun() {
    let devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    let tree = tree.display().to_string();
    for arguments in [
        ["to", "server", &id.short(), "--include-ignored", "["],
        ["to", "server", &id.short(), "--exclude", "***["],
        ["to", "server", &tree, "--files", "--exclude={a"],
    ] {
        let ended = devices.a.typed(&arguments);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        println!("{said}");
        assert_eq!(ended.status.code(), Some(i32::from(exit::USAGE)), "{said}");
        let pattern = arguments[4].trim_start_matches("--exclude=");
        assert!(said.contains(&format!("this is none: {pattern}\n")) && said.contains(" hint: "), "{said}");
        assert!(!said.contains("preparing"), "{said}");
    }
    assert!(devices.a.status().moves.is_empty());
}

/// Shows: L-5
#[test]
fn directory_that_cannot_be_read_is_refused_with_a_hint() {
    let devices = Devices::paired(CEDE);
    let ended = devices.a.typed(&["to", "server", "/proc", "--files", "--dry-run"]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    println!("{said}");
    assert!(!ended.status.success() && said.contains(" hint: "), "{said}");
}

/// Shows: L-5
#[test]
fn directory_that_was_not_made_a_session_is_not_said_to_be_none() {
    let devices = Devices::paired(CEDE);
    let (a, tree) = (&devices.a, devices.a.home.join("notes"));
    std::fs::create_dir(&tree).unwrap();
    // The place where it would be written down takes nothing.
    std::fs::create_dir_all(a.state().join("agents")).unwrap();
    std::fs::write(a.state().join("agents/files"), "").unwrap();
    for arguments in [&["adopt", "notes"][..], &["to", "server", "notes", "--files"]] {
        let ended = a.typed(arguments);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        println!("{said}");
        assert!(
            said.contains("the directory was not made a session") && said.contains(" hint: look whether"),
            "{said}"
        );
    }
}

/// Shows: P-2
#[test]
fn words_that_nobody_can_read_are_not_waited_with() {
    let devices = Devices::strangers(CEDE);
    for arguments in [&["pair"][..], &["--json", "pair"]] {
        let ended = typed_to(&devices.a, arguments, "/dev/full");
        assert_eq!(ended.status.code(), Some(i32::from(exit::FAILED)), "{arguments:?}");
    }
    pair(&devices.a, &devices.b);
}

/// Its log lies on a disk that is full.
///
/// Shows: L-5
#[test]
fn daemon_whose_log_cannot_be_written_works_on() {
    let mut devices = Devices::friends(CEDE);
    let (_, session) = adopted(&devices.a);
    for device in [&mut devices.a, &mut devices.b] {
        device.stop();
        let log = device.home.with_file_name("log");
        std::fs::remove_file(&log).unwrap();
        std::os::unix::fs::symlink("/dev/full", log).unwrap();
        device.start();
    }
    devices.wait_for_link();
    devices.a.move_with(request("server", session)).unwrap();
    assert!(devices.b.stop().success());
}

/// Shows: L-5
#[test]
fn next_command_is_no_move_to_a_device_that_is_away() {
    let mut devices = Devices::paired(CEDE);
    adopted(&devices.a);
    assert_eq!(devices.a.status().next, "cede to server");
    devices.b.stop();
    wait_until("the line is down", || !devices.a.status().peers[0].connected);
    assert_eq!(devices.a.status().next, "cede doctor");
}
