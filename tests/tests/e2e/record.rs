//! While decisions cannot be recorded nothing is allowed, and later the record says so.

use cede_store::audit::AuditLog;
use cede_store::home::Home;
use cede_wire::audit::AuditEvent;
use cede_wire::control::terminal::{Keyboard, TerminalEvent, ViewRequest};
use cede_wire::id::DeviceId;
use cede_wire::limits::AUDIT_FILE_BYTES;

use super::*;

/// Fills the record of a device that is stopped: a little more, and it needs another file.
fn fill(device: &Device) {
    let home = Home::open(&device.state()).unwrap();
    let mut log = AuditLog::open(&home, 1).unwrap();
    let file = device.state().join("audit/00000001.log");
    let length = || std::fs::metadata(&file).unwrap().len();
    for (margin, entries) in [(60_000, 500), (3_000, 5)] {
        let begun = vec![AuditEvent::Begun { device: DeviceId::new([7; 32]) }; entries];
        while length() + margin < AUDIT_FILE_BYTES {
            log.append(&begun, 1).unwrap();
        }
    }
}

/// Decisions about moves, and what came of them.
fn about_moves(device: &Device) -> Vec<LogLine> {
    match device.ask(Command::Log { tail: Some(200), verify: false }).unwrap() {
        Answer::Log { mut lines, .. } => {
            lines.retain(|line| line.capability == Some(Capability::Handoff) && line.kind != "rule-set");
            lines
        }
        other => panic!("{other:?}"),
    }
}

/// Shows: U-10, L-3
#[test]
fn yes_that_cannot_be_recorded_moves_nothing_and_is_a_no_in_the_record() {
    let mut devices = Devices::paired(CEDE);
    devices.b.stop();
    fill(&devices.b);
    devices.b.start();
    devices.wait_for_link();
    let (a, b) = (&devices.a, &devices.b);
    let (_, coming) = adopted(a);
    let (_, leaving) = adopted(b);
    let offered = a.open(Command::To(request("server", coming))).unwrap();
    let receive = question(b);
    let taken = a.open(Command::Take { session: leaving.to_string(), wait: false, carry_only: false }).unwrap();
    wait_until("both wait", || b.status().approvals.len() == 2);
    let give = b.status().approvals.into_iter().find(|one| one.kind == "give").unwrap();
    // The next file of the record cannot be made.
    let (audit, aside) = (b.state().join("audit"), b.state().join("aside"));
    std::fs::rename(&audit, &aside).unwrap();
    for _ in 0..60 {
        rule(b, Capability::Observe, Rule::Ask, None).unwrap();
    }
    for waiting in [&receive, &give] {
        let failed = refused(b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }));
        assert_eq!(failed.why, "this device cannot write it down");
        assert_eq!((failed.exit, failed.cure.as_str()), (exit::FAILED, "cede doctor"));
    }
    for asked in [offered, taken] {
        let failed = refused(asked.end(&mut |_| {}).unwrap());
        assert_eq!(failed.refusal, Some(Refusal::Busy), "it is no no of the operator");
        assert!(failed.why.contains("decisions cannot be recorded there now"), "{}", failed.why);
    }
    assert_eq!((state(a, coming).as_str(), state(b, leaving).as_str()), ("in charge here", "in charge here"));
    assert_eq!(names(&b.state().join("arrivals")), [""; 0]);
    let failed = refused(a.to("server", coming));
    assert!(failed.why.contains("decisions cannot be recorded there now"), "nobody is asked: {}", failed.why);
    std::fs::rename(&aside, &audit).unwrap();
    let of = |lines: &[LogLine], kind: &str| lines.iter().filter(|line| line.kind == kind).count();
    wait_until("it is recorded", || of(&about_moves(b), "decided") >= 3);
    let lines = about_moves(b);
    assert!(lines.iter().all(|line| line.allowed != Some(true)), "{lines:?}");
    let faults = lines.iter().filter(|line| line.by == Some(DecidedBy::Fault)).count();
    assert_eq!((faults, of(&lines, "asked"), of(&lines, "outcome")), (3, 2, 0), "{lines:?}");
    // And then all is well again.
    let offered = a.open(Command::To(request("server", coming))).unwrap();
    assert_eq!(decide(b, &question(b), true), "allowed");
    assert!(matches!(offered.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
}

/// Shows: U-10
#[test]
fn yes_with_which_this_device_cannot_begin_is_not_called_allowed() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let offered = a.open(Command::To(request("server", id))).unwrap();
    let waiting = question(b);
    // The plan of an arrival has no place.
    let arrivals = b.state().join("arrivals");
    let _none = std::fs::remove_dir_all(&arrivals);
    std::fs::write(&arrivals, "").unwrap();
    let failed = refused(b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }));
    assert_eq!((failed.what.as_str(), failed.exit), ("nothing was allowed", exit::FAILED));
    assert_eq!(refused(offered.end(&mut |_| {}).unwrap()).now_at.as_deref(), Some("laptop"));
    let lines = about_moves(b);
    assert!(lines.iter().any(|line| line.kind == "outcome" && line.text.contains("failed")), "{lines:?}");
    std::fs::remove_file(&arrivals).unwrap();
    let offered = a.open(Command::To(request("server", id))).unwrap();
    assert_eq!(decide(b, &question(b), true), "allowed");
    assert!(matches!(offered.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
}

/// Shows: U-10
#[test]
fn what_came_of_a_session_that_left_and_of_files_is_in_the_record() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let asked = b.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap();
    decide(a, &question(a), true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    let lines = about_moves(a);
    let of = |kind: &str| lines.iter().filter(|line| line.kind == kind).collect::<Vec<_>>();
    let [asked, decided, outcome] = ["asked", "decided", "outcome"].map(|kind| of(kind)[0].clone());
    assert_eq!((&asked.about, asked.shown), (&decided.about, decided.shown));
    assert_eq!(decided.about, outcome.about);
    assert!(outcome.text.ends_with("was done"), "{}", outcome.text);
    std::fs::write(b.home.join("notes.txt"), "seven").unwrap();
    let paths = vec![b.home.join("notes.txt").display().to_string()];
    let sending = SendRequest { device: "laptop".to_owned(), paths, wait: true, ..SendRequest::default() };
    let sent = b.open(Command::Send(sending)).unwrap();
    decide(a, &question(a), true);
    assert!(matches!(sent.end(&mut |_| {}), Some(Ok(Answer::Sent(_)))));
    let (lines, _) = log(a);
    let files: Vec<&LogLine> = lines.iter().filter(|line| line.capability == Some(Capability::File)).collect();
    let kinds: Vec<&str> = files.iter().map(|line| line.kind.as_str()).collect();
    assert_eq!(kinds, ["asked", "decided", "outcome"]);
    assert!(files.iter().all(|line| line.about == files[0].about), "{files:?}");
}

/// Shows: U-3, U-10
#[test]
fn whatever_belongs_to_one_question_has_one_number_in_the_record() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let begun = a.typed(&["run", "--detach", "--name", "work", "--", "sleep", "1000"]);
    assert!(begun.status.success(), "{begun:?}");
    let watch = || {
        let session = "work".to_owned();
        let request = ViewRequest { session, keyboard: Keyboard::No, size: None, from: Some(0), read: None };
        b.open(Command::View(request)).unwrap()
    };
    let mut watchers = [watch(), watch(), watch()];
    for watcher in &mut watchers {
        watcher.until(|body| matches!(body, ReplyBody::Terminal(TerminalEvent::Asking { .. })));
    }
    assert_eq!(a.status().approvals.len(), 1, "they share a question");
    decide(a, &question(a), true);
    std::fs::write(b.home.join("notes.txt"), "seven").unwrap();
    let paths = vec![b.home.join("notes.txt").display().to_string()];
    for yes in [false, true] {
        let sending =
            SendRequest { device: "laptop".to_owned(), paths: paths.clone(), wait: true, ..SendRequest::default() };
        let sent = b.open(Command::Send(sending)).unwrap();
        decide(a, &question(a), yes);
        assert_eq!(sent.end(&mut |_| {}).unwrap().is_ok(), yes);
    }
    let (mut lines, _) = log(a);
    lines.retain(|line| line.about.is_some());
    let of = |kind: &str, about: &Option<String>| {
        lines.iter().filter(|line| line.kind == kind && line.about == *about).count()
    };
    let asked: Vec<&LogLine> = lines.iter().filter(|line| line.kind == "asked").collect();
    let each: Vec<(usize, usize)> =
        asked.iter().map(|line| (of("decided", &line.about), of("outcome", &line.about))).collect();
    assert_eq!(each, [(3, 0), (1, 0), (1, 1)], "{lines:#?}");
    for line in &lines {
        let same = asked.iter().find(|asked| asked.about == line.about).unwrap();
        assert!(line.shown.is_none_or(|shown| Some(shown) == same.shown), "{line:?}");
    }
}
