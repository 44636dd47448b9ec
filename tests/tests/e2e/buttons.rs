//! Buttons of calls: real daemons, and a server on the loopback in the place of ntfy's.

use cede_tests::ntfy::{Action, Ntfy, Published};
use cede_wire::audit::DecidedBy;
use cede_wire::control::SendRequest;
use cede_wire::control::decisions::LogLine;

use super::*;

/// The server's person has a phone with buttons.
fn with_phone() -> (Devices, Ntfy) {
    let (devices, ntfy) = (Devices::paired(CEDE), Ntfy::start());
    let said = typed(&devices.b, &["notify", "add", "ntfy", &format!("{}/s3cret", ntfy.url), "--buttons"]);
    println!("{said}");
    (devices, ntfy)
}

/// The call about the question after so many.
fn called(ntfy: &Ntfy, before: usize) -> Published {
    wait_until("the phone is called", || ntfy.on("s3cret").len() > before);
    ntfy.on("s3cret")[before].clone()
}

fn button(call: &Published, label: &str) -> Action {
    call.button(label).unwrap_or_else(|| panic!("no button {label}: {call:?}")).clone()
}

fn noted(device: &Device, kind: &str) -> Vec<LogLine> {
    match device.ask(Command::Log { tail: None, verify: false }).unwrap() {
        Answer::Log { lines, .. } => lines.into_iter().filter(|line| line.kind == kind).collect(),
        other => panic!("{other:?}"),
    }
}

fn waits_for(device: &Device, text: &str, times: usize) {
    let holds = || noted(device, "pressed").iter().filter(|line| line.text.contains(text)).count() == times;
    wait_until(text, holds);
}

fn sends(devices: &Devices, name: &str, note: &str) -> cede_tests::devices::Answers {
    let file = devices.a.home.join(name);
    std::fs::write(&file, name).unwrap();
    let paths = vec![file.display().to_string()];
    let send = SendRequest { device: "server".into(), paths, wait: true, note: note.into(), ..SendRequest::default() };
    devices.a.open(Command::Send(send)).unwrap()
}

/// Shows: L-16, U-10
#[test]
fn button_on_the_phone_decides_what_it_showed_once_and_is_in_the_record() {
    let (devices, ntfy) = with_phone();
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let moving = a.open(Command::To(request("server", id))).unwrap();
    let call = called(&ntfy, 0);
    println!("{}", call.message);
    let waiting = question(b);
    let shows = [waiting.directory.as_str(), "laptop wants to hand a session over", "executable: src/greet.sh"];
    for said in shows.into_iter().chain([format!("cede allow {}", waiting.id.short()).as_str()]) {
        assert!(call.message.contains(said), "{said:?} is not in {}", call.message);
    }
    let (allow, deny) = (button(&call, "Allow"), button(&call, "Deny"));
    assert!(allow.url != format!("{}/s3cret", ntfy.url) && allow.url == deny.url && allow.body != deny.body);
    allow.press();
    assert!(matches!(moving.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    let decided = noted(b, "decided").pop().unwrap();
    assert_eq!((decided.allowed, decided.by), (Some(true), Some(DecidedBy::Button)));
    let pressed = noted(b, "pressed").pop().unwrap();
    assert_eq!(pressed.text, "a button of ntfy said yes to laptop");
    assert!(decided.number > pressed.number && pressed.shown.is_some());
    let listed = typed(b, &["log"]);
    println!("{listed}");
    assert!(listed.contains("handoff allowed to laptop by a button of ntfy"), "{listed}");
    // Once used, neither of them is good for anything.
    allow.press();
    deny.press();
    waits_for(b, "the question was over", 2);
    assert_eq!(state(b, id), "in charge here");
    assert_eq!(b.status().warnings, [""; 0]);
    let kept = [b.log(), typed(b, &["notify"]), typed(b, &["doctor"])].concat();
    let topic = allow.url.rsplit_once('/').unwrap().1;
    assert!([topic, &allow.body, &deny.body, "s3cret"].iter().all(|secret| !kept.contains(secret)), "{kept}");
    assert!(kept.contains("has buttons that answer"), "{kept}");
}

/// Shows: L-16
#[test]
fn token_of_another_question_an_altered_one_and_words_decide_nothing() {
    let (devices, ntfy) = with_phone();
    let b = &devices.b;
    let first = sends(&devices, "one.txt", "");
    let one = called(&ntfy, 0);
    let second = sends(&devices, "two.txt", "");
    let two = called(&ntfy, 1);
    assert!(one.message.contains("one.txt") && two.message.contains("two.txt"), "{one:?} {two:?}");
    let (allow, other) = (button(&one, "Allow"), button(&two, "Allow"));
    assert_ne!(allow.url, other.url, "each call has a topic of its own");
    // The yes to one at the other, with another digit, in another form, not at all.
    allow.press_with(&other.body);
    other.press_with(&allow.body);
    let last = if allow.body.ends_with('0') { "1" } else { "0" };
    allow.press_with(&format!("{}{last}", &allow.body[..63]));
    allow.press_with(&format!("{{\"yes\":\"{}\"}}", allow.body));
    allow.press_with("yes");
    waits_for(b, "it was no token of the call", 5);
    assert_eq!(b.status().approvals.len(), 2, "both still wait");
    // Whoever floods the topic fills no record.
    (0..30).for_each(|_| allow.press_with("yes"));
    button(&one, "Deny").press();
    assert_eq!(refused(first.end(&mut |_| {}).unwrap()).refusal, Some(Refusal::Declined));
    waits_for(b, "it was no token of the call", 9);
    other.press();
    assert!(matches!(second.end(&mut |_| {}), Some(Ok(Answer::Sent(_)))));
    let by = noted(b, "decided").into_iter().map(|line| (line.allowed, line.by));
    assert_eq!(by.collect::<Vec<_>>(), [false, true].map(|yes| (Some(yes), Some(DecidedBy::Button))));
}

/// Shows: L-16
#[test]
fn question_that_is_over_or_does_not_fit_has_no_yes_on_the_phone() {
    let (mut devices, ntfy) = with_phone();
    // It went with its connection; on the next one it is another question.
    let asked = sends(&devices, "two.txt", "");
    let call = called(&ntfy, 0);
    devices.a.stop();
    drop(asked);
    wait_until("the question is withdrawn", || devices.b.status().approvals.is_empty());
    button(&call, "Allow").press();
    waits_for(&devices.b, "the question was over", 1);
    devices.a.start();
    devices.wait_for_link();
    let again = called(&ntfy, 1);
    assert_ne!(button(&again, "Allow").body, button(&call, "Allow").body);
    // A second no in a row would have the device wait before its next question.
    button(&again, "Allow").press();
    wait_until("it is allowed", || devices.b.status().approvals.is_empty());
    // More than a message holds.
    let folder = devices.a.home.join("many");
    std::fs::create_dir(&folder).unwrap();
    (0..50).for_each(|number| std::fs::write(folder.join(format!("{number:070}.txt")), "x").unwrap());
    let paths = vec![folder.display().to_string()];
    let send = SendRequest { device: "server".into(), paths, wait: true, ..SendRequest::default() };
    let asked = devices.a.open(Command::Send(send)).unwrap();
    let call = called(&ntfy, 2);
    assert_eq!(call.actions.len(), 1, "{call:?}");
    assert!(call.message.contains("no button for a yes: it is longer than a call"), "{}", call.message);
    button(&call, "Deny").press();
    refused(asked.end(&mut |_| {}).unwrap());
    // What looks like a secret would leave.
    let tree = project(&devices.b);
    std::fs::write(tree.join(".env"), "TOKEN=1\n").unwrap();
    let mine = devices.b.adopt(&tree).id;
    let take = Command::Take { session: mine.to_string(), wait: false, carry_only: false };
    let asked = devices.a.open(take).unwrap();
    let call = called(&ntfy, 3);
    assert_eq!(call.actions.len(), 1, "{call:?}");
    assert!(call.message.contains("files that look like secrets would leave"), "{}", call.message);
    button(&call, "Deny").press();
    refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(noted(&devices.b, "decided").pop().unwrap().by, Some(DecidedBy::Button));
}

/// Shows: L-15, L-16
#[test]
fn server_that_floods_or_talks_nonsense_is_bounded_and_decides_nothing() {
    let (devices, ntfy) = with_phone();
    let b = &devices.b;
    let nonsense = [
        b"\n\n[[[[[[[\n\xff\xfe\n{\"id\":1}\n".to_vec(),
        b"{\"id\":\"x\",\"event\":\"message\"}\n{\"id\":\"&a=b\",\"event\":\"message\",\"message\":\"yes\"}\n".to_vec(),
    ];
    ntfy.misbehave(&nonsense.concat(), false);
    let asked = sends(&devices, "one.txt", "");
    let call = called(&ntfy, 0);
    button(&call, "Allow").press();
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Sent(_)))), "what is in between still decides");
    // A line without an end, then lines without an end of them.
    for (number, bytes) in
        [vec![b'x'; 8_000], b"{\"id\":\"a\",\"event\":\"message\",\"message\":\"yes\"}\n".repeat(20)].iter().enumerate()
    {
        ntfy.misbehave(bytes, true);
        let asked = sends(&devices, &format!("{number}.txt"), "");
        let waiting = question(b);
        called(&ntfy, number + 1);
        let troubled = || sinks(b).iter().any(|one| one.state == "failing");
        wait_until("it is said", troubled);
        println!("{}", sinks(b)[0].detail);
        ntfy.behave();
        decide(b, &waiting, true);
        assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Sent(_)))));
    }
    let noted = noted(b, "pressed");
    assert!(noted.iter().filter(|line| line.text.contains("no token")).count() <= 20, "{}", noted.len());
    let over = Instant::now();
    wait_until("nobody listens once nothing waits", || ntfy.readings().1 == 0);
    assert!(over.elapsed() < Duration::from_secs(15), "a reading of {:?} outlives its question", over.elapsed());
    let begun = ntfy.readings().0;
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(ntfy.readings(), (begun, 0));
}

/// Shows: L-16
#[test]
fn buttons_are_chosen_and_not_for_an_open_line() {
    let (devices, ntfy) = (Devices::paired(CEDE), Ntfy::start());
    let b = &devices.b;
    for wrong in [["ntfy", "http://ntfy.sh/topic"], ["webhook", "https://hooks.example/x"], ["desktop", ""]] {
        let words: Vec<&str> = wrong.into_iter().filter(|word| !word.is_empty()).collect();
        let output = b.typed(&[&["notify", "add"], &words[..], &["--buttons"]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    typed(b, &["notify", "add", "ntfy", &format!("{}/s3cret", ntfy.url)]);
    let asked = sends(&devices, "one.txt", "a note");
    let call = called(&ntfy, 0);
    assert!(call.actions.is_empty() && !call.message.contains("one.txt"), "{call:?}");
    assert_eq!(ntfy.readings(), (0, 0), "nobody listens");
    decide(b, &question(b), false);
    refused(asked.end(&mut |_| {}).unwrap());
}
