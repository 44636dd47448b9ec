//! Devices that lie about questions: one that may answer, one that nobody named, one that asks for nothing.

use std::path::Path;

use cede_carrier::closing::CloseReason;
use cede_tests::devices::pair;
use cede_wire::approver::{AnswerTaken, ApproverAnswer, ApproverMessage, Posed, Wanted};
use cede_wire::audit::AuditOf;
use cede_wire::id::{ApprovalId, DeviceId, ShowingId};

use super::*;

fn said(message: ApproverMessage) -> PeerMessage {
    PeerMessage::Approver(Box::new(message))
}

fn hear_question(liar: &mut Liar) -> (ShowingId, Posed) {
    liar.hear("a question", |message| match message {
        PeerMessage::Approver(message) => match *message {
            ApproverMessage::Ask { showing, posed, .. } => Some((showing, Posed::from_bytes(&posed).unwrap())),
            _ => None,
        },
        _ => None,
    })
}

fn answer(liar: &mut Liar, answer: &ApproverAnswer) -> AnswerTaken {
    let signed = liar.local.sign(answer).unwrap();
    liar.say(said(ApproverMessage::Answer(signed)));
    liar.hear("what became of it", |message| match message {
        PeerMessage::Approver(message) => match *message {
            ApproverMessage::Heard { outcome, .. } => Some(outcome),
            _ => None,
        },
        _ => None,
    })
}

/// A third device that wants to hand a session to the first.
fn asking(devices: &Devices) -> (Device, SessionId) {
    let mut phone = Device::new(devices.root.path(), Path::new(CEDE), "phone");
    phone.start();
    pair(&devices.a, &phone);
    let (_, id) = adopted(&phone);
    (phone, id)
}

/// Shows: U-15
#[test]
fn device_that_may_answer_cannot_answer_anything_but_what_it_was_shown_once() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let (phone, id) = asking(&devices);
    devices.a.ask(Command::SetApprover { device: "server".to_owned(), may: true }).unwrap();
    let moving = phone.open(Command::To(request("laptop", id))).unwrap();
    let (showing, posed) = hear_question(&mut liar);
    let (by, at) = (liar.local.device(), posed.at);
    let right = ApproverAnswer { by, at, question: posed.question, showing, shown: posed.hash(), yes: true };
    let other = Posed { limit_bytes: posed.limit_bytes + 1, ..posed.clone() };
    let swapped = [
        ApproverAnswer { shown: other.hash(), ..right.clone() },
        ApproverAnswer { showing: ShowingId::new([9; 16]), ..right.clone() },
        ApproverAnswer { at: by, ..right.clone() },
    ];
    for wrong in &swapped {
        assert_eq!(answer(&mut liar, wrong), AnswerTaken::Refused, "{wrong:?}");
    }
    let other_question = ApproverAnswer { question: ApprovalId::new([9; 8]), ..right.clone() };
    assert_eq!(answer(&mut liar, &other_question), AnswerTaken::Late, "there is none");
    let signed = liar.local.sign(&right).unwrap();
    let forged = Signed::from_parts(signed.bytes().to_vec(), liar.local.key(), [7; 64]);
    liar.say(said(ApproverMessage::Answer(forged)));
    assert_eq!(devices.a.status().approvals.len(), 1, "it still waits");
    assert_eq!(answer(&mut liar, &right), AnswerTaken::Taken);
    assert!(matches!(moving.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(answer(&mut liar, &right), AnswerTaken::Late, "a second time it is none");
    unharmed(&devices.a);
}

/// Shows: U-14
#[test]
fn device_that_nobody_named_and_one_that_was_ended_decide_nothing() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let (phone, id) = asking(&devices);
    devices.a.ask(Command::SetApprover { device: "server".to_owned(), may: true }).unwrap();
    let moving = phone.open(Command::To(request("laptop", id))).unwrap();
    let (showing, posed) = hear_question(&mut liar);
    let (by, at) = (liar.local.device(), posed.at);
    let right = ApproverAnswer { by, at, question: posed.question, showing, shown: posed.hash(), yes: true };
    devices.a.ask(Command::SetApprover { device: "server".to_owned(), may: false }).unwrap();
    assert_eq!(answer(&mut liar, &right), AnswerTaken::Refused);
    assert_eq!(devices.a.status().approvals.len(), 1);
    // What the laptop asks about this device is not for this device, named or not.
    devices.a.ask(Command::SetApprover { device: "server".to_owned(), may: true }).unwrap();
    let (again, _) = hear_question(&mut liar);
    assert_ne!(again, showing, "each showing is another one");
    assert_eq!(answer(&mut liar, &right), AnswerTaken::Refused, "the old one is over");
    let gift = liar.invent("gift", 1);
    liar.offer(&gift);
    wait_until("both wait", || devices.a.status().approvals.len() == 2);
    let own = devices.a.status().approvals.into_iter().find(|one| one.device == "server").unwrap();
    let about_itself = ApproverAnswer { question: own.id, showing: again, ..right };
    assert_eq!(answer(&mut liar, &about_itself), AnswerTaken::Refused);
    assert_eq!(devices.a.status().approvals.len(), 2);
    drop(moving);
}

/// Shows: U-16
#[test]
fn flood_of_questions_for_the_person_here_is_bounded_and_what_is_no_question_is_not_shown() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let posed = |at: DeviceId, who: DeviceId, number: u16, note: &str| {
        let mut question = [0; 8];
        question[..2].copy_from_slice(&number.to_le_bytes());
        Posed {
            at,
            question: ApprovalId::new(question),
            who,
            of: AuditOf::Handoff(HandoffId::new([1; 16])),
            about: Hash::of(b"scope"),
            wants: Wanted::Receive,
            title: "x\u{1b}[2Ksafe".to_owned(),
            agent: None,
            directory: String::new(),
            turns: 0,
            inventory: Vec::new(),
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
            limit_bytes: 1,
            secret_looking: Vec::new(),
            files: Vec::new(),
            note: note.to_owned(),
        }
        .to_bytes()
    };
    let (me, victim, phone) = (liar.local.device(), liar.victim.device(), DeviceId::new([3; 32]));
    let ask = |posed: Vec<u8>| {
        said(ApproverMessage::Ask { showing: ShowingId::new([1; 16]), expires_in_ms: u64::MAX, posed })
    };
    // Junk, in another device's name, about the victim's own wish, too long.
    for bad in
        [vec![7; 100], posed(phone, me, 1, ""), posed(me, victim, 2, ""), posed(me, phone, 3, &"x".repeat(600_000))]
    {
        liar.say(ask(bad));
    }
    for number in 0..1_000 {
        liar.say(ask(posed(me, phone, number, "")));
    }
    for number in 1_000..1_020 {
        liar.say(ask(posed(me, phone, number, &"y".repeat(500_000))));
    }
    let mut waiting = 0;
    wait_until("all was read", || {
        let before = std::mem::replace(&mut waiting, devices.a.status().approvals.len());
        before == waiting && waiting == 8
    });
    unharmed(&devices.a);
    let typed = devices.a.typed(&["approvals"]);
    let text = String::from_utf8_lossy(&typed.stdout);
    assert!(!text.contains('\u{1b}') && text.contains("asked at server"), "{text}");
    liar.link.close(CloseReason::Done);
    wait_until("they go with the line", || devices.a.status().approvals.is_empty());
}
