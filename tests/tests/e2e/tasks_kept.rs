//! What a task and an offer of files do not lose: their letter, their answer, their question.

use cede_store::home::Home;
use cede_store::journal::Journal;
use cede_tests::devices::{Device, wait_until};
use cede_wire::audit::AuditOf;
use cede_wire::authority::Rule;
use cede_wire::control::{Answer, Command, Failure, SendRequest, TellRequest, TransferState};
use cede_wire::id::ConnectionId;
use cede_wire::letter::LetterRecord;
use cede_wire::member::Capability;
use cede_wire::record::Record;
use cede_wire::task::TaskRecord;

use super::super::{decide, question, refused};
use super::{ask, desk, is, request, show, stand_in, started};

fn no_message(failed: &Failure) {
    assert_eq!(failed.why, "it is a task, which its answer ends");
}

/// Shows: M-12, E-3, E-5
#[test]
fn task_is_read_like_a_message_and_ends_by_its_answer_alone() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    let go = b.home.join("go");
    stand_in(b, "claude", &format!("until [ -e '{}' ]; do sleep 0.05; done; echo 'well done'", go.display()));
    let asked = ask(a, request("do it", None)).unwrap();
    let waiting = question(b);
    for _ in 0..5 {
        b.ask(Command::Letter { id: asked.id.clone() }).unwrap();
    }
    let words = TellRequest { reply: Some(asked.id.clone()), text: "soon".to_owned(), ..TellRequest::default() };
    for acted in [true, false] {
        no_message(&refused(b.ask(Command::MarkLetter { id: asked.id.clone(), acted })));
    }
    no_message(&refused(b.ask(Command::Tell(words.clone()))));
    decide(b, &waiting, true);
    is(b, &asked.id, "running");
    no_message(&refused(b.ask(Command::Tell(words.clone()))));
    std::fs::write(go, "").unwrap();
    is(a, &asked.id, "done");
    is(b, &asked.id, "done");
    b.ask(Command::Tell(words)).unwrap();
    for device in [a, b] {
        assert_eq!(show(device, &asked.id).1.unwrap().text, "well done");
    }
}

/// What a device would have written a moment later: that the letter which came last is a task that begins.
fn begin(device: &Device) {
    let home = Home::open(&device.state()).unwrap();
    let (journal, replay) = Journal::open(&home).unwrap();
    let kept = replay.records.iter().rev().find_map(|record| {
        let Record::Letter(letter) = record else { return None };
        let LetterRecord::Kept(kept) = &**letter else { return None };
        Some(kept.id)
    });
    let of = AuditOf::Request(ConnectionId::new([3; 16]), 1);
    journal.commit(vec![Record::Task(TaskRecord::Began { id: kept.unwrap(), at_unix_ms: 1, of })]).unwrap();
}

/// Shows: E-4
#[test]
fn task_of_which_only_its_begin_is_durable_is_asked_about_by_nobody() {
    let mut devices = desk();
    stand_in(&devices.b, "claude", "echo ran");
    let asked = ask(&devices.a, request("do it", None)).unwrap();
    question(&devices.b);
    devices.b.kill();
    begin(&devices.b);
    devices.b.start();
    is(&devices.a, &asked.id, "interrupted");
    devices.wait_for_link();
    assert!(devices.b.status().approvals.is_empty() && started(&devices.b).is_empty());
}

/// Entries after which the record is signed, and a few.
const ENTRIES: usize = 1_010;

/// From here on the record of a device cannot be written: what is signed has no place.
fn break_record(device: &Device) {
    std::fs::rename(device.state().join("audit"), device.state().join("audit-away")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..ENTRIES / 16 + 1 {
                    let (capability, rule) = (Capability::Drive, Rule::Ask);
                    let set = Command::SetRule { device: "laptop".to_owned(), capability, rule, seconds: None };
                    let _set_or_not = device.ask(set);
                }
            });
        }
    });
    wait_until("decisions cannot be recorded", || device.log().contains("decisions cannot be recorded"));
}

fn files(device: &Device) -> Option<TransferState> {
    match device.ask(Command::Transfers) {
        Ok(Answer::Transfers { transfers }) => transfers.first().map(|sending| sending.state),
        other => panic!("no list: {other:?}"),
    }
}

/// What the sending waits for.
fn waits(device: &Device) -> String {
    match device.ask(Command::Transfers) {
        Ok(Answer::Transfers { transfers }) => {
            transfers.first().map(|sending| sending.detail.clone()).unwrap_or_default()
        }
        other => panic!("no list: {other:?}"),
    }
}

/// Shows: U-10, E-3
#[test]
fn while_nothing_can_be_recorded_tasks_and_files_wait_and_are_not_refused() {
    let mut devices = desk();
    stand_in(&devices.b, "claude", "echo ran");
    let a = &devices.a;
    let asked = ask(a, request("do it", None)).unwrap();
    let waiting = question(&devices.b);
    break_record(&devices.b);
    let yes = Command::Decide { approval: waiting.id.to_string(), yes: true };
    assert!(devices.b.ask(yes).unwrap_err().why.contains("cannot write it down"));
    let file = a.home.join("notes.txt");
    std::fs::write(&file, "notes").unwrap();
    let paths = vec![file.display().to_string()];
    a.ask(Command::Send(SendRequest { device: "server".to_owned(), paths, ..SendRequest::default() })).unwrap();
    wait_until("the files wait", || waits(&devices.a).contains("decisions cannot be recorded there"));
    assert_eq!(show(a, &asked.id).0.state, "waiting");
    let b = &devices.b;
    assert!(b.status().approvals.is_empty() && started(b).is_empty(), "nobody is asked what cannot be recorded");
    std::fs::rename(devices.b.state().join("audit-away"), devices.b.state().join("audit")).unwrap();
    devices.b.stop();
    devices.b.start();
    wait_until("both are asked about", || devices.b.status().approvals.len() == 2);
    while let Some(waiting) = devices.b.status().approvals.first() {
        assert_eq!(decide(&devices.b, waiting, true), "allowed");
    }
    is(&devices.a, &asked.id, "done");
    wait_until("the files are there", || files(&devices.b) == Some(TransferState::Received));
}
