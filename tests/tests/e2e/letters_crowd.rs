//! Many commands that wait at one daemon, and those that want an answer at once.

use cede_tests::devices::{Answers, Device, Devices, wait_until};
use cede_wire::control::tasks::AskRequest;
use cede_wire::control::{Command, ReplyBody, TellRequest, TellUntil, exit};
use cede_wire::task::TaskScope;

use super::super::tasks::{desk, stand_in};
use super::super::{decide, question, refused};
use super::letters;

/// More than may wait for messages, and more than are answered at once.
const CROWD: usize = 300;
/// So many may wait for messages and tasks.
const ROOM: usize = 128;
/// Longer than any test.
const FOR_EVER_MS: u64 = 24 * 3600 * 1000;

/// Commands that wait until somebody acted on their message, which nobody does.
fn crowd(device: &Device, wait_ms: Option<u64>) -> Vec<Answers> {
    let tell = |number: usize| TellRequest {
        device: "server".to_owned(),
        text: format!("message {number}"),
        until: TellUntil::Ended,
        wait_ms,
        ..TellRequest::default()
    };
    (0..CROWD).map(|number| device.open(Command::Tell(tell(number))).unwrap()).collect()
}

/// What a person types while they wait.
fn others_are_answered(devices: &Devices) {
    let (a, b) = (&devices.a, &devices.b);
    let task = AskRequest {
        device: "laptop".to_owned(),
        task: "look".to_owned(),
        scope: TaskScope { minutes: 5, directory: Some("/".to_owned()), ..TaskScope::default() },
        ..AskRequest::default()
    };
    for yes in [false, true] {
        b.ask(Command::Ask(task.clone())).unwrap();
        decide(a, &question(a), yes);
    }
    let take = Command::Take { session: "nothing".to_owned(), wait: false, carry_only: false };
    assert!(!refused(a.ask(take)).why.contains("too many wait"), "moves have seats of their own");
}

/// Shows: L-17
#[test]
fn commands_that_wait_for_messages_keep_no_other_from_its_answer() {
    let mut devices = desk();
    stand_in(&devices.a, "claude", "echo ran");
    let patient = crowd(&devices.a, None);
    others_are_answered(&devices);
    let first: Vec<ReplyBody> = patient.into_iter().map(|mut waits| waits.line().unwrap()).collect();
    let (mut waiting, mut turned_away) = (0, Vec::new());
    for line in first {
        match line {
            ReplyBody::Failed(failed) => turned_away.push(failed),
            _ => waiting += 1,
        }
    }
    assert_eq!((waiting, turned_away.len()), (ROOM, CROWD - ROOM));
    for failed in turned_away {
        assert_eq!((failed.exit, failed.what.as_str()), (exit::FAILED, "the command was not begun"));
        assert_eq!(failed.why, "too many wait: 128 commands wait for messages and tasks");
    }
    let brief = crowd(&devices.a, Some(FOR_EVER_MS));
    others_are_answered(&devices);
    wait_until("all of it is told", || letters(&devices.a, true, true).len() >= ROOM + CROWD);
    drop(brief);
    assert!(devices.a.stop().success());
}
