//! Letters that stay as they are: what was read once, and what a task waits for.

use std::collections::BTreeSet;

use cede_wire::audit::AuditOf;
use cede_wire::id::ConnectionId;
use cede_wire::letter::{LetterFacts, LetterState};
use cede_wire::record::Record;
use cede_wire::task::TaskRecord;

use super::super::TellError;
use super::mesh::Mesh;
use super::{LAPTOP, SERVER};
use crate::limits;
use crate::tasks::TaskBook;

/// Shows: M-12
#[test]
fn letter_that_was_read_once_is_read_as_often_as_somebody_likes() {
    let mut mesh = Mesh::pair();
    let (letter, task) = (mesh.tell(LAPTOP, SERVER), mesh.tell(LAPTOP, SERVER));
    let now = mesh.now;
    for _ in 0..=limits::LETTER_ATTEMPTS {
        assert!(mesh.at(SERVER).ledger.attempt(letter, now));
        mesh.mark(SERVER, letter, LetterState::Shown).unwrap();
    }
    mesh.restart(SERVER);
    for _ in 0..=limits::LETTER_ATTEMPTS {
        assert!(mesh.at(SERVER).ledger.attempt(letter, now));
        mesh.at(SERVER).ledger.failed(letter, now);
    }
    for _ in 0..=limits::LETTER_ATTEMPTS {
        assert!(mesh.at(SERVER).ledger.attempt(task, now), "those that are under way did not fail");
    }
    mesh.settle();
    assert_eq!(mesh.state(LAPTOP, letter), Some(LetterState::Shown));
    assert_eq!(mesh.state(LAPTOP, task), Some(LetterState::Received));
    for _ in 0..limits::LETTER_ATTEMPTS {
        mesh.at(SERVER).ledger.failed(task, now);
    }
    mesh.settle();
    assert_eq!(mesh.state(LAPTOP, task), Some(LetterState::Quarantined));
}

/// Shows: E-5
#[test]
fn letter_of_a_task_that_is_not_over_stays_however_many_ended_since() {
    let mut mesh = Mesh::pair();
    let of = AuditOf::Request(ConnectionId::new([3; 16]), 1);
    let task = mesh.tell(LAPTOP, SERVER);
    for (device, record) in
        [(LAPTOP, TaskRecord::Asked { id: task }), (SERVER, TaskRecord::Began { id: task, at_unix_ms: 1, of })]
    {
        let node = mesh.at(device);
        node.disk.push(Record::Task(record));
        node.ledger.keep(TaskBook::restore(node.disk.iter()).open());
    }
    mesh.mark(SERVER, task, LetterState::Acted).unwrap();
    for _ in 0..=limits::LETTER_HISTORY {
        let other = mesh.tell(LAPTOP, SERVER);
        mesh.mark(SERVER, other, LetterState::Acted).unwrap();
    }
    let there = |mesh: &Mesh| {
        let (told, received) = (&mesh.nodes[&LAPTOP].ledger, &mesh.nodes[&SERVER].ledger);
        (told.told(task).is_some(), received.reply_to(task).is_ok(), told.outbox().count(), received.inbox().count())
    };
    let all = limits::LETTER_HISTORY;
    assert_eq!(there(&mesh), (true, true, all, all));
    mesh.restart(SERVER);
    mesh.restart(LAPTOP);
    assert_eq!(there(&mesh), (true, true, all, all), "a restart knows which they are");
    for device in [LAPTOP, SERVER] {
        mesh.at(device).ledger.keep(BTreeSet::new());
    }
    let other = mesh.tell(LAPTOP, SERVER);
    mesh.mark(SERVER, other, LetterState::Acted).unwrap();
    assert_eq!(there(&mesh), (false, false, all, all));
}

/// Shows: E-5, M-9
#[test]
fn answer_to_a_task_is_kept_back_by_no_long_conversation() {
    let mut mesh = Mesh::pair();
    let begin = mesh.tell(LAPTOP, SERVER);
    let long = LetterFacts { conversation: Some(begin), hops: limits::CONVERSATION_HOPS, ..mesh.facts("do it") };
    let task = mesh.tell_facts(LAPTOP, SERVER, long, limits::TASK_TTL).unwrap();
    let ledger = &mesh.nodes[&SERVER].ledger;
    assert_eq!(ledger.reply_to(task), Err(TellError::Exhausted(limits::CONVERSATION_HOPS)));
    let answer = ledger.answer_to(task);
    assert_eq!((answer.to, answer.in_reply_to, answer.conversation), (LAPTOP, Some(task), Some(task)));
    assert_eq!(ledger.answer_to(begin), ledger.reply_to(begin).unwrap());
}
