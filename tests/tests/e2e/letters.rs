//! What people tell each other, between two real daemons.

use std::path::PathBuf;

use cede_agent::terminal::End;
use cede_tests::devices::tty::Tty;
use cede_tests::devices::{Device, Devices, wait_until};
use cede_wire::control::tasks::AskRequest;
use cede_wire::control::{Answer, Command, Failure, LetterSummary, TellRequest, TellUntil, exit};
use cede_wire::id::SessionId;
use cede_wire::task::TaskScope;

#[path = "letters_crowd.rs"]
mod crowd;

use super::tasks::{desk, stand_in};
use super::{CEDE, adopted, question, refused};

fn tell(device: &Device, to: &str, text: &str) -> LetterSummary {
    told(device, TellRequest { device: to.to_owned(), text: text.to_owned(), ..waiting() }).unwrap()
}

fn waiting() -> TellRequest {
    TellRequest { until: TellUntil::Received, wait_ms: Some(5_000), ..TellRequest::default() }
}

fn told(device: &Device, request: TellRequest) -> Result<LetterSummary, Failure> {
    match device.ask(Command::Tell(request))? {
        Answer::Told(letter) => Ok(*letter),
        other => panic!("not told: {other:?}"),
    }
}

fn letters(device: &Device, sent: bool, all: bool) -> Vec<LetterSummary> {
    match device.ask(Command::Inbox { sent, all }) {
        Ok(Answer::Inbox { letters, .. }) => letters,
        other => panic!("no letters: {other:?}"),
    }
}

fn words(device: &Device, id: &str) -> Result<String, Failure> {
    match device.ask(Command::Letter { id: id.to_owned() })? {
        Answer::Letter { text, .. } => Ok(text),
        other => panic!("no letter: {other:?}"),
    }
}

fn state_at(device: &Device, id: &str) -> String {
    letters(device, true, true).into_iter().find(|letter| letter.id == id).map_or_else(String::new, |one| one.state)
}

/// Shows: M-1, M-3, M-4
#[test]
fn message_is_received_shown_and_acted_on_and_the_sender_hears_each() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let letter = tell(a, "server", "the artifact is ready\nit lies in /tmp");
    assert_eq!((letter.state.as_str(), letter.standing.as_str()), ("received", "received by server"));
    let came = letters(b, false, false);
    assert_eq!(came.len(), 1);
    assert_eq!(
        (came[0].from.as_str(), came[0].id.as_str(), came[0].state.as_str()),
        ("laptop", &*letter.id, "received")
    );
    assert_eq!(b.status().letters, 1);
    assert_eq!(words(b, &letter.id).unwrap(), "the artifact is ready\nit lies in /tmp");
    wait_until("the sender knows that it is shown", || state_at(a, &letter.id) == "shown");
    b.ask(Command::MarkLetter { id: letter.id.clone(), acted: true }).unwrap();
    wait_until("the sender knows that it is acted on", || state_at(a, &letter.id) == "acted");
    assert!(letters(b, false, false).is_empty());
    assert_eq!(words(b, &letter.id).unwrap().len(), 37, "it can be read later");
    let failed = refused(b.ask(Command::MarkLetter { id: letter.id, acted: false }));
    assert_eq!(failed.exit, exit::FAILED, "an end stays");
}

/// Shows: M-1, M-2, M-5
#[test]
fn message_for_a_device_that_is_away_comes_once_whatever_restarts() {
    let mut devices = Devices::paired(CEDE);
    devices.b.stop();
    wait_until("the laptop knows that the server is away", || !devices.a.status().peers[0].connected);
    let letter = tell(&devices.a, "server", "good morning");
    assert_eq!(letter.standing, "queued: server is away");
    devices.a.kill();
    devices.a.start();
    assert_eq!(letters(&devices.a, true, false).len(), 1, "it is queued still");
    devices.b.start();
    wait_until("it is there", || state_at(&devices.a, &letter.id) == "received");
    devices.b.kill();
    devices.b.start();
    let came = letters(&devices.b, false, true);
    assert_eq!(came.len(), 1, "{came:?}");
    assert_eq!(words(&devices.b, &letter.id).unwrap(), "good morning");
    wait_until("it is shown", || state_at(&devices.a, &letter.id) == "shown");
    devices.a.kill();
    devices.a.start();
    assert_eq!(state_at(&devices.a, &letter.id), "shown", "a state does not go back");
}

/// Shows: M-9
#[test]
fn reply_finds_its_way_and_says_that_the_first_one_was_acted_on() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let question = tell(a, "server", "are you there?");
    let answer =
        told(b, TellRequest { reply: Some(question.id.clone()), text: "yes".to_owned(), ..waiting() }).unwrap();
    assert_eq!((answer.to.as_str(), answer.in_reply_to.as_deref()), ("laptop", Some(question.id.as_str())));
    wait_until("the question is dealt with", || state_at(a, &question.id) == "acted");
    let came = letters(a, false, false);
    assert_eq!((came[0].begins.as_str(), came[0].hops), ("yes", 1));
    let failed = refused(told(a, TellRequest { reply: Some("ffff".into()), text: "x".into(), ..waiting() }));
    assert_eq!(failed.exit, exit::USAGE);
}

/// Shows: M-10
#[test]
fn message_for_a_session_goes_on_with_it_under_the_same_id() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, session) = adopted(a);
    a.to("server", session).unwrap();
    let letter = for_session(a, "server", session, "look at the tests");
    assert_eq!(letters(b, false, false)[0].session, Some(session));
    b.to("laptop", session).unwrap();
    wait_until("it came along", || letters(a, false, false).len() == 1);
    let came = letters(a, false, false);
    assert_eq!(
        (came[0].id.as_str(), came[0].from.as_str(), came[0].by.as_deref()),
        (&*letter.id, "laptop", Some("server"))
    );
    assert!(letters(b, false, false).is_empty(), "it is dealt with in one place");
    assert_eq!(words(a, &letter.id).unwrap(), "look at the tests");
    a.ask(Command::MarkLetter { id: letter.id.clone(), acted: true }).unwrap();
    wait_until("who told it knows", || state_at(a, &letter.id) == "acted");
    let second = for_session(b, "laptop", session, "once more");
    for (from, to) in [(a, "server"), (b, "laptop"), (a, "server")] {
        from.to(to, session).unwrap();
        let there = if to == "server" { b } else { a };
        wait_until("it came along", || letters(there, false, false).iter().any(|one| one.id == second.id));
    }
    for (device, sent) in [(a, true), (b, true), (a, false), (b, false)] {
        let rows = letters(device, sent, true).into_iter().filter(|one| one.id == second.id).count();
        assert!(rows <= 1, "one message, one row");
    }
}

fn for_session(device: &Device, to: &str, session: SessionId, text: &str) -> LetterSummary {
    let request =
        TellRequest { device: to.to_owned(), session: Some(session.to_string()), text: text.to_owned(), ..waiting() };
    told(device, request).unwrap()
}

/// Shows: M-6
#[test]
fn message_that_ran_out_before_it_left_is_never_shown() {
    let mut devices = Devices::paired(CEDE);
    devices.b.stop();
    wait_until("the laptop knows that the server is away", || !devices.a.status().peers[0].connected);
    let request = TellRequest { device: "server".into(), text: "lunch?".into(), expires_in_s: Some(1), ..waiting() };
    let letter = told(&devices.a, request).unwrap();
    wait_until("its time is over", || state_at(&devices.a, &letter.id) == "expired");
    devices.b.start();
    let later = tell_when_there(&devices, "dinner?");
    assert_eq!(letters(&devices.b, false, true).len(), 1);
    assert_eq!(words(&devices.b, &later.id).unwrap(), "dinner?");
}

fn tell_when_there(devices: &Devices, text: &str) -> LetterSummary {
    let letter = tell(&devices.a, "server", text);
    wait_until("it is there", || state_at(&devices.a, &letter.id) == "received");
    letter
}

/// Shows: M-8
#[test]
fn refused_message_is_refused_for_its_sender_too() {
    let devices = Devices::paired(CEDE);
    let letter = tell(&devices.a, "server", "buy now");
    devices.b.ask(Command::MarkLetter { id: letter.id.clone(), acted: false }).unwrap();
    wait_until("the sender knows", || state_at(&devices.a, &letter.id) == "refused");
    let sent = letters(&devices.a, true, true);
    assert_eq!(sent[0].standing, "refused by server");
}

#[test]
fn what_cannot_be_told_is_said_with_its_reason() {
    let devices = Devices::paired(CEDE);
    let a = &devices.a;
    let ask = |request| refused(told(a, request));
    assert_eq!(ask(TellRequest { device: "server".into(), text: " \n".into(), ..waiting() }).exit, exit::USAGE);
    let long = "x".repeat(cede_wire::limits::LETTER_BYTES + 1);
    assert_eq!(ask(TellRequest { device: "server".into(), text: long, ..waiting() }).exit, exit::USAGE);
    let request =
        TellRequest { device: "server".into(), session: Some("nothing".into()), text: "x".into(), ..waiting() };
    assert!(ask(request).why.contains("no session called nothing"));
    assert_eq!(ask(TellRequest { device: "nobody".into(), text: "x".into(), ..waiting() }).exit, exit::USAGE);
    for seconds in [0, 7 * 86_400 + 1] {
        let late = TellRequest { device: "server".into(), text: "x".into(), expires_in_s: Some(seconds), ..waiting() };
        assert_eq!(ask(late).exit, exit::USAGE);
    }
    assert!(letters(a, true, true).is_empty());
}

/// Shows: M-15, E-9
#[test]
fn who_waits_for_a_device_that_is_removed_hears_it() {
    let mut devices = Devices::paired(CEDE);
    devices.b.stop();
    let tell = TellRequest { device: "server".into(), text: "x".into(), until: TellUntil::Ended, ..waiting() };
    let told = devices.a.open(Command::Tell(TellRequest { wait_ms: None, ..tell })).unwrap();
    let scope = TaskScope { minutes: 1, ..TaskScope::default() };
    let task = AskRequest { device: "server".into(), task: "x".into(), scope, wait: true, ..AskRequest::default() };
    let asked = devices.a.open(Command::Ask(task)).unwrap();
    wait_until("both are queued", || letters(&devices.a, true, true).len() == 2);
    let meaning = refused(devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: false }));
    assert!(meaning.why.contains("2 messages that wait for it are told to nobody"), "{}", meaning.why);
    devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    for waits in [told, asked] {
        assert!(refused(waits.end(&mut |_| {}).unwrap()).why.contains("was removed"));
    }
}

/// Shows: M-1, M-14
#[test]
fn what_a_person_types_says_the_true_word() {
    let mut devices = Devices::paired(CEDE);
    let run = |device: &Device, arguments: &[&str]| {
        let output = device.typed(arguments);
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        println!("$ cede {}\n{text}", arguments.join(" "));
        (output.status.code().unwrap(), text)
    };
    let (code, text) = run(&devices.a, &["tell", "server", "the artifact is ready"]);
    assert!(code == 0 && text.starts_with("received by server  "), "{text}");
    let id = text.split_whitespace().last().unwrap().to_owned();
    let (_, text) = run(&devices.b, &["inbox"]);
    assert!(text.contains("laptop") && text.contains("the artifact is ready"), "{text}");
    let (_, text) = run(&devices.b, &["inbox", &id]);
    assert!(text.ends_with("\n  | the artifact is ready\n"), "{text}");
    let mut waits = devices.b.command(&["tell", "--reply", &id, "--wait=shown", "-"]);
    let mut waits = waits.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut waits.stdin.take().unwrap(), b"thanks\n").unwrap();
    wait_until("the answer is there", || letters(&devices.a, false, false).len() == 1);
    let answer = letters(&devices.a, false, false)[0].id.clone();
    assert!(waits.try_wait().unwrap().is_none(), "it is not shown yet");
    let (_, text) = run(&devices.a, &["inbox", &answer]);
    assert!(text.contains(&format!("in reply to {id}")) && text.contains("  | thanks"), "{text}");
    let waited = waits.wait_with_output().unwrap();
    assert!(waited.status.success() && waited.stdout.starts_with(b"shown at laptop"), "{waited:?}");
    let (_, text) = run(&devices.a, &["inbox", "--sent"]);
    assert!(text.contains("acted on at server"), "{text}");
    devices.b.stop();
    wait_until("the laptop knows that the server is away", || !devices.a.status().peers[0].connected);
    let (code, text) = run(&devices.a, &["tell", "server", "good night"]);
    assert!(code == 0 && text.starts_with("queued: server is away"), "{text}");
    let (code, text) = run(&devices.a, &["tell", "server", "--json", "{}"]);
    assert!(code == 0 && text.contains("\"state\":\"queued\""), "{text}");
    let (code, text) = run(&devices.a, &["tell", "nobody", "x"]);
    assert!(code == 2 && text.contains("known: server"), "{text}");
}

/// Shows: M-15
#[test]
fn nothing_of_a_removed_device_stays_in_the_inbox() {
    let devices = Devices::paired(CEDE);
    tell(&devices.b, "laptop", "hello");
    tell(&devices.a, "server", "hello");
    assert_eq!(letters(&devices.a, false, true).len(), 1);
    devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    let gone = || letters(&devices.a, false, true).is_empty() && letters(&devices.a, true, true).is_empty();
    wait_until("its messages are gone", gone);
    wait_until("their words too", || std::fs::read_dir(devices.a.state().join("letters")).unwrap().count() == 0);
}

/// Shows: M-1, M-3
#[test]
fn messages_that_many_tell_at_once_each_come_once() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let queued = || TellRequest { until: TellUntil::Queued, ..waiting() };
    std::thread::scope(|scope| {
        for teller in 0..16 {
            scope.spawn(move || {
                for number in 0..5 {
                    let text = format!("{teller}.{number}");
                    told(a, TellRequest { device: "server".to_owned(), text, ..queued() }).unwrap();
                }
            });
        }
    });
    tell(a, "server", "the last");
    let mut came: Vec<String> = letters(b, false, false).into_iter().map(|letter| letter.begins).collect();
    came.sort();
    let mut expected: Vec<String> =
        (0..16).flat_map(|teller| (0..5).map(move |number| format!("{teller}.{number}"))).collect();
    expected.push("the last".to_owned());
    expected.sort();
    assert_eq!(came, expected);
}

/// Shows: M-9
#[test]
fn replies_that_are_told_at_once_are_no_more_than_a_conversation_has() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let question = tell(a, "server", "who is there?");
    let reply = || TellRequest { reply: Some(question.id.clone()), text: "me".to_owned(), ..TellRequest::default() };
    let told: Vec<bool> = std::thread::scope(|scope| {
        let tellers: Vec<_> = (0..24).map(|_| scope.spawn(|| told(b, reply()).is_ok())).collect();
        tellers.into_iter().map(|teller| teller.join().unwrap()).collect()
    });
    assert_eq!(told.iter().filter(|told| **told).count(), 16);
    assert_eq!(letters(b, true, true).len(), 16);
    let kept = || std::fs::read_dir(b.state().join("letters")).unwrap().count();
    wait_until("the words of the others are gone", || kept() == 17);
}

/// Shows: M-15
#[test]
fn words_that_are_written_while_their_device_is_removed_are_not_kept() {
    let devices = Devices::paired(CEDE);
    let a = &devices.a;
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let hello =
                    || TellRequest { device: "server".to_owned(), text: "hello".into(), ..TellRequest::default() };
                while told(a, hello()).is_ok() {}
            });
        }
        wait_until("some are told", || letters(a, true, true).len() > 20);
        a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    });
    wait_until("its messages are gone", || letters(a, true, true).is_empty());
    wait_until("their words are gone too", || std::fs::read_dir(a.state().join("letters")).unwrap().count() == 0);
}

/// Shows: M-14, U-8
#[test]
fn words_of_a_peer_begin_no_line_of_a_terminal() {
    let devices = Devices::paired(CEDE);
    let evil = "message deadbeef from b to a, told now";
    // Behind the bar a terminal of 100 columns would begin a line with what follows 96 characters.
    let letter = tell(&devices.a, "server", &format!("{}{}{evil}", "x".repeat(25), " ".repeat(71)));
    let mut tty = Tty::open(&devices.b, &["inbox", &letter.id]);
    let screen = tty.show("it is there whole", |screen| screen.contains("told now") && screen.contains("deadbeef"));
    let lines: Vec<&str> = screen.lines().filter(|line| line.contains("xxx") || line.contains("deadbeef")).collect();
    assert!(lines.iter().all(|line| line.starts_with("  | ") || line.starts_with("↪ | ")), "{screen}");
    let piped = devices.b.typed(&["inbox", &letter.id]);
    assert!(String::from_utf8_lossy(&piped.stdout).contains(&format!("{}{evil}\n", " ".repeat(71))));
}

#[test]
fn whoever_waits_no_longer_reads_that_the_message_stays_told() {
    let mut devices = Devices::paired(CEDE);
    assert!(devices.b.stop().success());
    let mut tty = Tty::open(&devices.a, &["tell", "server", "hello", "--wait"]);
    tty.see("queued");
    tty.type_in("\x03");
    tty.see("stays told");
    assert_eq!(tty.end(), End::Code(i32::from(exit::INTERRUPTED)));
    assert_eq!(letters(&devices.a, true, true).len(), 1);
}

/// The time of an earlier one is not over when it is answered.
///
/// Shows: M-4
#[test]
fn who_waits_for_a_message_is_not_answered_by_the_time_of_another() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let request = |text: &str| TellRequest { device: "server".to_owned(), text: text.to_owned(), ..waiting() };
    told(a, TellRequest { wait_ms: Some(400), ..request("soon there") }).unwrap();
    let patient = TellRequest { until: TellUntil::Shown, wait_ms: None, ..request("to be read") };
    let waits = a.open(Command::Tell(patient)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(800));
    let mut unread = letters(b, false, false).into_iter();
    let id = unread.find(|letter| letter.begins.contains("to be read")).expect("it came").id;
    words(b, &id).unwrap();
    match waits.end(&mut |_| {}) {
        Some(Ok(Answer::Told(letter))) => assert_eq!(letter.state, "shown"),
        other => panic!("not told: {other:?}"),
    }
}

/// The words of the only message of a device, which its disk does not give: a name that leads to itself stops root too.
struct Unreadable {
    file: PathBuf,
    aside: PathBuf,
}

impl Unreadable {
    fn at(device: &Device) -> Self {
        let mut files = std::fs::read_dir(device.state().join("letters")).unwrap();
        let file = files.next().unwrap().unwrap().path();
        assert!(files.next().is_none());
        let aside = device.state().join("aside");
        std::fs::rename(&file, &aside).unwrap();
        std::os::unix::fs::symlink(&file, &file).unwrap();
        Self { file, aside }
    }

    fn end(self) {
        std::fs::remove_file(&self.file).unwrap();
        std::fs::rename(&self.aside, &self.file).unwrap();
    }
}

/// Shows: M-5, M-12
#[test]
fn disk_that_fails_for_a_moment_ends_no_message() {
    let mut devices = Devices::paired(CEDE);
    devices.b.stop();
    wait_until("the laptop knows that the server is away", || !devices.a.status().peers[0].connected);
    let letter = tell(&devices.a, "server", "good morning");
    // Words that were told in this run are not read again.
    devices.a.kill();
    devices.a.start();
    let words_of_a = Unreadable::at(&devices.a);
    devices.b.start();
    wait_until("it was to be sent", || devices.a.log().contains("the words of a message cannot be read now"));
    assert_eq!(state_at(&devices.a, &letter.id), "queued");
    words_of_a.end();
    wait_until("it is there", || state_at(&devices.a, &letter.id) == "received");
    let words_of_b = Unreadable::at(&devices.b);
    for _ in 0..4 {
        let failed = refused(words(&devices.b, &letter.id));
        assert!(failed.why.starts_with("cannot open an object: "), "{failed:?}");
    }
    words_of_b.end();
    assert_eq!(words(&devices.b, &letter.id).unwrap(), "good morning", "what the disk failed counts for nothing");
}

/// Shows: E-1, M-5
#[test]
fn disk_that_fails_for_a_moment_hides_no_task() {
    let mut devices = desk();
    stand_in(&devices.a, "claude", "echo ran");
    let task = AskRequest {
        device: "laptop".to_owned(),
        task: "look".to_owned(),
        scope: TaskScope { minutes: 5, directory: Some("/".to_owned()), ..TaskScope::default() },
        ..AskRequest::default()
    };
    devices.b.ask(Command::Ask(task)).unwrap();
    question(&devices.a);
    let id = letters(&devices.a, false, false).pop().unwrap().id;
    devices.a.kill();
    let words = Unreadable::at(&devices.a);
    devices.a.start();
    wait_until("it was looked into", || devices.a.log().contains("a message cannot be looked into now"));
    let failed = refused(devices.a.ask(Command::MarkLetter { id, acted: true }));
    assert!(failed.why.starts_with("cannot open an object: "), "a task ends by its answer only: {failed:?}");
    words.end();
    question(&devices.a);
}
