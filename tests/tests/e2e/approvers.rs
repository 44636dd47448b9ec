//! One person, several devices: what one device asks is answered at another one that its operator named.

use cede_tests::ntfy::Ntfy;
use cede_wire::audit::DecidedBy;
use cede_wire::control::decisions::LogLine;
use cede_wire::control::{DeviceSummary, SendRequest};

use super::*;

/// The laptop asks, the server wants, the phone may answer.
struct Three {
    devices: Devices,
    phone: Device,
}

impl Three {
    fn new() -> Self {
        let devices = Devices::paired(CEDE);
        let mut phone = Device::new(devices.root.path(), Path::new(CEDE), "phone");
        phone.start();
        pair(&devices.a, &phone);
        let sees =
            |device: &Device, name: &str| device.status().peers.iter().any(|peer| peer.name == name && peer.connected);
        wait_until("the phone is linked", || sees(&devices.a, "phone") && sees(&phone, "laptop"));
        Self { devices, phone }
    }

    fn name(&self) {
        set(&self.devices.a, "phone", true).unwrap();
    }
}

fn set(device: &Device, approver: &str, may: bool) -> Result<Answer, Failure> {
    device.ask(Command::SetApprover { device: approver.to_owned(), may })
}

fn listed(device: &Device) -> Vec<DeviceSummary> {
    match device.ask(Command::Approvers).unwrap() {
        Answer::Approvers { devices } => devices,
        other => panic!("{other:?}"),
    }
}

fn log(device: &Device) -> Vec<LogLine> {
    match device.ask(Command::Log { tail: None, verify: false }).unwrap() {
        Answer::Log { lines, .. } => lines,
        other => panic!("{other:?}"),
    }
}

fn answer(device: &Device, question: &ApprovalSummary, yes: bool) -> Result<Answer, Failure> {
    device.ask(Command::Decide { approval: question.id.to_string(), yes })
}

/// Shows: U-14, U-15
#[test]
fn person_at_a_named_device_answers_what_waits_here_and_both_record_it() {
    let three = Three::new();
    let (laptop, server, phone) = (&three.devices.a, &three.devices.b, &three.phone);
    let (_, id) = adopted(server);
    assert!(listed(laptop).is_empty(), "nobody is named by itself");
    three.name();
    assert_eq!(listed(laptop)[0].name, "phone");
    let moving = server.open(Command::To(request("laptop", id))).unwrap();
    let there = question(phone);
    let here = question(laptop);
    assert_eq!((there.at.as_deref(), here.at.as_deref()), (Some("laptop"), None));
    let same = ApprovalSummary { id: here.id, at: None, expires_in_s: here.expires_in_s, ..there.clone() };
    assert_eq!(same, here, "the same is shown");
    let shown = phone.typed(&["approvals"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    println!("{shown}");
    assert!(shown.contains("asked at laptop"), "{shown}");
    let digits = &there.id.to_string()[..8];
    let typed = phone.typed(&["allow", digits]);
    let said = String::from_utf8_lossy(&typed.stdout).into_owned();
    println!("{said}");
    assert!(typed.status.success() && said.contains("allowed; laptop took the answer"), "{typed:?}");
    assert!(matches!(moving.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(state(laptop, id), "in charge here");
    let decided = log(laptop).into_iter().find(|line| line.kind == "decided").unwrap();
    let phone_id = phone.status().device.id;
    assert_eq!((decided.allowed, decided.by), (Some(true), Some(DecidedBy::Approver(phone_id))));
    for (device, text) in [(laptop, "phone answered yes"), (phone, "yes was answered here to laptop")] {
        let line = log(device).into_iter().find(|line| line.kind == "answered").unwrap();
        assert!(line.text.contains(text), "{}", line.text);
    }
    assert!(
        log(laptop).iter().any(|line| line.text.contains("named an approver: phone")),
        "who may answer is in the record"
    );
    assert!(phone.status().approvals.is_empty() && laptop.status().approvals.is_empty());
}

/// Shows: L-13, U-14
#[test]
fn person_at_a_named_device_is_called_too_and_once() {
    let three = Three::new();
    let (laptop, server, phone) = (&three.devices.a, &three.devices.b, &three.phone);
    let ntfy = Ntfy::start();
    for (device, name) in [(laptop, "laptop"), (server, "server"), (phone, "phone")] {
        let added = device.typed(&["notify", "add", "ntfy", &format!("{}/{name}", ntfy.url), "--buttons"]);
        assert!(added.status.success(), "{added:?}");
    }
    three.name();
    let (_, id) = adopted(server);
    let moving = server.open(Command::To(request("laptop", id))).unwrap();
    wait_until("both are called", || !ntfy.on("laptop").is_empty() && !ntfy.on("phone").is_empty());
    let digits = question(phone).id.short();
    let call = ntfy.on("phone").remove(0);
    println!("{}", call.message);
    let said = format!(
        "server wants to hand a session over (asked at laptop). On phone: cede approvals; then cede allow {digits} or \
         cede deny {digits}"
    );
    assert_eq!(call.message, said, "the words of a peer stay where they were asked");
    assert!(call.actions.is_empty(), "buttons answer for the device that they were chosen on");
    assert!(ntfy.on("laptop")[0].button("Allow").is_some());
    assert!(phone.typed(&["allow", &digits]).status.success());
    assert!(matches!(moving.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    // The link breaks while another one waits: it is shown again, and nobody is called again.
    let (_, other) = adopted_at(server, "again");
    let moving = server.open(Command::To(request("laptop", other))).unwrap();
    wait_until("both are called", || (ntfy.on("laptop").len(), ntfy.on("phone").len()) == (2, 2));
    let waiting = question(laptop);
    set(laptop, "phone", false).unwrap();
    wait_until("it is shown no more", || phone.status().approvals.is_empty());
    three.name();
    question(phone);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((ntfy.on("laptop").len(), ntfy.on("phone").len(), ntfy.on("server").len()), (2, 2, 0));
    decide(laptop, &waiting, false);
    refused(moving.end(&mut |_| {}).unwrap());
}

fn adopted_at(device: &Device, name: &str) -> (PathBuf, SessionId) {
    let tree = device.home.join(name);
    dirty(&tree);
    let id = device.adopt(&tree).id;
    (tree, id)
}

/// Shows: U-14
#[test]
fn device_that_is_not_named_is_shown_nothing_and_none_answers_about_itself() {
    let three = Three::new();
    let (laptop, server, phone) = (&three.devices.a, &three.devices.b, &three.phone);
    let (_, id) = adopted(server);
    let moving = server.open(Command::To(request("laptop", id))).unwrap();
    let waits = question(laptop);
    set(laptop, "server", true).unwrap();
    let failed = refused(answer(server, &waits, true));
    assert_eq!((failed.exit, failed.why.as_str()), (exit::USAGE, "no such question waits"));
    assert!(phone.status().approvals.is_empty() && server.status().approvals.is_empty());
    // It was named while the question waited; it is shown it, and no more once that is taken back.
    three.name();
    question(phone);
    set(laptop, "phone", false).unwrap();
    wait_until("it is shown no more", || phone.status().approvals.is_empty());
    assert_eq!(laptop.status().approvals.len(), 1);
    let failed = refused(set(laptop, "ph", true));
    assert_eq!(failed.cure, "cede approvers add phone");
    laptop.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    assert!(listed(laptop).is_empty(), "a removed device answers nothing");
    refused(moving.end(&mut |_| {}).unwrap());
}

/// Shows: U-15
#[test]
fn first_answer_counts_and_a_later_one_hears_that_it_came_late() {
    let three = Three::new();
    let (laptop, server, phone) = (&three.devices.a, &three.devices.b, &three.phone);
    let (_, id) = adopted(server);
    three.name();
    let moving = server.open(Command::To(request("laptop", id))).unwrap();
    let (here, there) = (question(laptop), question(phone));
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| answer(laptop, &here, false));
        let second = scope.spawn(|| answer(phone, &there, false));
        (first.join().unwrap(), second.join().unwrap())
    });
    println!("{first:?}\n{second:?}");
    let decided: Vec<LogLine> = log(laptop).into_iter().filter(|line| line.kind == "decided").collect();
    assert_eq!(decided.len(), 1, "{decided:?}");
    let at_phone = matches!(decided[0].by, Some(DecidedBy::Approver(_)));
    assert_eq!((first.is_ok(), second.is_ok()), (!at_phone, at_phone));
    let failed = refused(moving.end(&mut |_| {}).unwrap());
    assert_eq!(failed.refusal, Some(Refusal::Declined));
}

/// Shows: U-15
#[test]
fn device_that_was_away_is_shown_the_question_when_it_is_back_and_not_what_is_over() {
    let mut three = Three::new();
    three.name();
    three.phone.kill();
    let (_, id) = adopted(&three.devices.b);
    let moving = three.devices.b.open(Command::To(request("laptop", id))).unwrap();
    let here = question(&three.devices.a);
    three.devices.a.kill();
    three.devices.a.start();
    assert_eq!(listed(&three.devices.a)[0].name, "phone", "who was named outlives a crash");
    three.phone.start();
    let again = question(&three.devices.a);
    assert_ne!(again.id, here.id);
    let there = question(&three.phone);
    answer(&three.devices.a, &again, false).unwrap();
    wait_until("it is shown no more", || three.phone.status().approvals.is_empty());
    refused(answer(&three.phone, &there, true));
    moving.end(&mut |_| {});
}

/// Shows: U-15
#[test]
fn files_are_shown_there_with_every_path_and_come_after_the_yes() {
    let three = Three::new();
    let (laptop, server, phone) = (&three.devices.a, &three.devices.b, &three.phone);
    three.name();
    let path = server.home.join("notes.txt");
    std::fs::write(&path, "seven").unwrap();
    let paths = vec![path.display().to_string()];
    let sending = SendRequest { device: "laptop".to_owned(), paths, wait: true, ..SendRequest::default() };
    let sent = server.open(Command::Send(sending)).unwrap();
    let (there, here) = (question(phone), question(laptop));
    assert_eq!((there.kind.as_str(), there.at.as_deref()), ("file", Some("laptop")));
    assert_eq!(there.files, here.files);
    assert_eq!(there.files[0].path, "notes.txt");
    let hashes = [&there, &here].map(|question| question.asks.as_ref().unwrap().hash);
    assert_eq!(hashes[0], hashes[1]);
    assert_eq!(hashes[1].to_string()[..16], here.id.to_string());
    assert!(matches!(answer(phone, &there, true), Ok(Answer::Said { text }) if text.starts_with("allowed")));
    assert!(matches!(sent.end(&mut |_| {}), Some(Ok(Answer::Sent(_)))));
    assert_eq!(std::fs::read(laptop.cede_home.join("received/server/notes.txt")).unwrap(), b"seven");
}
