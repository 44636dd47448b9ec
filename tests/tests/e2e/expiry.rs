//! What runs out between two daemons: words that nobody typed in time, questions that nobody answered.

use std::process::{Child, Output, Stdio};

use super::*;

/// A command that goes on while the test does something else.
struct Typing(Child);

impl Typing {
    fn begin(device: &Device, arguments: &[&str]) -> Self {
        let mut command = device.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn end(self) -> Output {
        self.0.wait_with_output().unwrap()
    }
}

fn said(output: &Output) -> (Option<i32>, String) {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8(both).unwrap();
    println!("{text}");
    (output.status.code(), text)
}

/// The words in the line that a person is told to paste.
fn words_in(text: &str) -> String {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("cede pair ")).expect("a line to paste");
    line.split(" --at ").next().unwrap().to_owned()
}

/// Shows: P-2
#[test]
fn words_that_ran_out_pair_nobody_and_both_sides_say_what_to_do() {
    let devices = Devices::strangers(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let shown = Typing::begin(a, &["pair", "--expires", "1s"]).end();
    let (code, at_host) = said(&shown);
    assert_eq!(code, Some(i32::from(exit::TIMEOUT)));
    assert!(at_host.contains("type this within 1 second"), "{at_host}");
    assert!(at_host.contains("the words ran out") && at_host.contains("hint: cede pair"), "{at_host}");
    let typed = b.typed(&["pair", &words_in(&at_host), "--at", &a.address]);
    let (code, at_guest) = said(&typed);
    assert_eq!(code, Some(i32::from(exit::REFUSED)), "{at_guest}");
    assert!(
        at_guest.contains("they ran out") && at_guest.contains("hint: on the trusted device: cede pair"),
        "{at_guest}"
    );
    assert!(b.status().mesh.is_none() && a.status().peers.is_empty());
    // Late is no guess: new words work at once.
    let devices = devices.joined();
    assert_eq!(devices.a.status().peers.len(), 1);
}

/// Shows: P-2
#[test]
fn words_never_live_longer_than_ten_minutes() {
    let devices = Devices::strangers(CEDE);
    let (code, said) = said(&devices.a.typed(&["pair", "--expires", "11m"]));
    assert_eq!(code, Some(i32::from(exit::USAGE)));
    assert!(said.contains("between 1 and 600 seconds, not 660"), "{said}");
    assert!(devices.a.status().mesh.is_none(), "no mesh was begun");
}

/// Shows: H-15, H-21, R-2, L-5
#[test]
fn question_that_nobody_answers_is_a_no_after_its_time() {
    let patient = |device: &mut Device| {
        if device.name == "server" {
            device.arguments = ["--questions-expire", "2s"].map(str::to_owned).to_vec();
        }
    };
    let devices = Devices::with(CEDE, &patient).joined();
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let before = evidence(&tree);
    let moving = Typing::begin(a, &["to", "server", &id.to_string()]);
    let waiting = question(b);
    assert!(waiting.expires_in_s < 3, "{}", waiting.expires_in_s);
    let (code, at_source) = said(&moving.end());
    assert_eq!(code, Some(i32::from(exit::REFUSED)), "{at_source}");
    assert!(at_source.contains("why: expired: server says: nobody answered in time"), "{at_source}");
    assert!(at_source.contains("the session is at laptop"), "{at_source}");
    let (code, at_destination) = said(&b.typed(&["allow", &waiting.id.to_string()]));
    assert_eq!(code, Some(i32::from(exit::FAILED)));
    assert!(at_destination.contains("nobody answered it in time"), "{at_destination}");
    assert!(b.log().contains("nobody answered in time"), "the destination says so too");
    assert!(b.status().approvals.is_empty() && b.status().moves.is_empty() && a.status().moves.is_empty());
    nothing_written(b);
    assert_eq!((evidence(&tree), state(a, id).as_str()), (before, "in charge here"));
    b.say_yes_to("laptop");
    a.to("server", id).unwrap();
}

/// Shows: H-15
#[test]
fn question_for_a_session_runs_out_at_its_owner() {
    let patient = |device: &mut Device| device.arguments = ["--questions-expire", "1s"].map(str::to_owned).to_vec();
    let devices = Devices::with(CEDE, &patient).joined();
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let failed = refused(take(b, id));
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Expired)));
    assert!(failed.why.contains("nobody answered in time"), "{}", failed.why);
    assert_eq!(failed.now_at.as_deref(), Some("laptop"));
    assert_eq!(state(a, id), "in charge here");
    // What was asked for and ran out is no yes to an offer that comes later.
    let late = a.open(Command::To(request("server", id))).unwrap();
    assert_eq!(decide(b, &question(b), false), "denied; nothing was written");
    refused(late.end(&mut |_| {}).unwrap());
}

/// Whoever shows words and goes away can compare nothing; newer words end older ones, and it is said.
///
/// Shows: P-2
#[test]
fn words_that_nobody_looks_at_any_more_are_taken_back() {
    let devices = Devices::strangers(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (shown, words) = show_words(a);
    drop(shown);
    wait_until("the words are gone", || {
        let failed = refused(b.ask(pair_with(&words, &a.address)));
        failed.exit == exit::REFUSED
    });
    let (older, _) = show_words(a);
    let (newer, words) = show_words(a);
    let failed = refused(older.end(&mut |_| {}).unwrap());
    assert_eq!(failed.what, "the words are not good any more");
    // The one that is asked goes away: the guest is told, and waits for nobody.
    let asked = b.open(pair_with(&words, &a.address)).unwrap();
    let mut newer = newer;
    newer.until(|body| matches!(body, ReplyBody::Pairing(cede_wire::control::PairingEvent::Compare { .. })));
    drop(newer);
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(failed.exit, exit::REFUSED, "{failed:?}");
}
