//! The values of the record of decisions that the vectors are made of.

use cede_wire::approver::{AnswerTaken, ApproverAnswer, ApproverMessage, Posed, Wanted};
use cede_wire::audit::{
    AuditAct, AuditAnchor, AuditCheckpoint, AuditEntry, AuditEvent, AuditMirror, AuditOf, AuditOutcome, DecidedBy,
    KeyboardChange, Press,
};
use cede_wire::authority::{Locality, Reach, Rule, Shown, Subject};
use cede_wire::canonical::Signed;
use cede_wire::id::{ApprovalId, ConnectionId, DeviceId, Hash, ShowingId, TransferId};
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;
use cede_wire::transfer::ShownPath;

use super::{Vector, destination, handoff, key, message, named, refused, signed, source};

fn point(number: u64) -> Signed<AuditCheckpoint> {
    let chain = Hash::of(&number.to_le_bytes());
    signed(&AuditCheckpoint { by: source(), number, chain, at_unix_ms: 1_790_000_000_000 })
}

/// What is said of records, each kind once.
pub(super) fn mirrors() -> Vec<PeerMessage> {
    let newest = AuditMirror::Newest { serial: 300, point: point(1_000) };
    let all = [newest, AuditMirror::Kept(Some(point(1_000))), AuditMirror::Kept(None), AuditMirror::Ask];
    all.map(PeerMessage::Audit).to_vec()
}

fn asker() -> DeviceId {
    DeviceId::new([0x44; 32])
}

fn showing() -> ShowingId {
    ShowingId::new([0x55; 16])
}

fn posed() -> Posed {
    let shown = Shown {
        capability: Capability::File,
        reach: Reach::Request,
        device: asker(),
        session: None,
        locality: Locality::AnotherHost,
        subject: Subject::new("notes.txt, 12 bytes").unwrap().bound_to(Hash::of(b"offer")),
        connection: ConnectionId::new([0x33; 16]),
        number: 7,
        asked_unix_ms: 1_790_000_000_000,
        expires_unix_ms: 1_790_000_900_000,
    };
    Posed {
        at: source(),
        question: ApprovalId::new([0x7c; 8]),
        who: asker(),
        of: AuditOf::Request(shown.connection, 7),
        about: shown.hash(),
        wants: Wanted::Capability { shown: Box::new(shown), held: false },
        title: "notes.txt".to_owned(),
        agent: None,
        directory: "/home/ada/Downloads/cede/phone".to_owned(),
        turns: 0,
        inventory: Vec::new(),
        executables: Vec::new(),
        dotfiles: vec![".envrc".to_owned()],
        configuration_as_code: Vec::new(),
        limit_bytes: 12,
        secret_looking: Vec::new(),
        files: vec![ShownPath { path: "notes.txt".to_owned(), files: 1, bytes: 12 }],
        note: "as you asked".to_owned(),
    }
}

fn answer() -> ApproverAnswer {
    let (by, at, question) = (destination(), source(), posed().question);
    ApproverAnswer { by, at, question, showing: showing(), shown: posed().hash(), yes: true }
}

/// What a device and its approvers say, each kind once.
pub(super) fn approving() -> Vec<PeerMessage> {
    let showing = showing();
    let heard = |outcome| ApproverMessage::Heard { showing, outcome };
    let all = [
        ApproverMessage::Ask { showing, expires_in_ms: 900_000, posed: posed().to_bytes() },
        ApproverMessage::Answer(signed(&answer())),
        heard(AnswerTaken::Taken),
        heard(AnswerTaken::Late),
        heard(AnswerTaken::Refused),
        ApproverMessage::Over { showing },
    ];
    all.map(|said| PeerMessage::Approver(Box::new(said))).to_vec()
}

/// One of each kind, in the order of their numbers.
fn events() -> Vec<AuditEvent> {
    let (who, shown) = (destination(), Hash::of(b"shown"));
    let request = AuditOf::Request(ConnectionId::new([0x33; 16]), 7);
    vec![
        AuditEvent::Begun { device: source() },
        AuditEvent::Asked { who, capability: Capability::File, of: request, shown, held: true },
        AuditEvent::Decided {
            who,
            capability: Capability::Handoff,
            of: AuditOf::Handoff(handoff()),
            allowed: true,
            by: DecidedBy::Operator,
            shown: Some(shown),
            times: 1,
        },
        AuditEvent::Outcome {
            who,
            capability: Capability::Handoff,
            of: AuditOf::Take(key().id(), 9),
            outcome: AuditOutcome::Failed,
        },
        AuditEvent::RuleSet {
            who,
            capability: Capability::Drive,
            rule: Rule::Accept,
            until_unix_ms: Some(1_790_000_060_000),
        },
        AuditEvent::Acted { act: AuditAct::Removed, device: Some(who), session: None },
        AuditEvent::Checkpoint(point(1_000)),
        AuditEvent::Lost { until: 40 },
        AuditEvent::Missed { by: who, signed: 1_000 },
        AuditEvent::Keyboard { session: key().id(), who: Some(who), change: KeyboardChange::Silent, typed: 300 },
        AuditEvent::Answered { who: asker(), of: request, answer: signed(&answer()) },
        AuditEvent::Pressed { who, of: request, shown, press: Press::Swapped },
    ]
}

pub(super) fn all() -> Vec<Vector> {
    let mut all: Vec<Vector> = events()
        .into_iter()
        .enumerate()
        .map(|(kind, event)| {
            assert_eq!(usize::from(event.kind()), kind);
            let entry = AuditEntry { number: 41, at_unix_ms: 1_790_000_000_000, event };
            named(&format!("audit entry {kind}"), "U-10", "AuditEntry", &entry)
        })
        .collect();
    let many = AuditEvent::Decided {
        who: destination(),
        capability: Capability::Message,
        of: AuditOf::Many,
        allowed: true,
        by: DecidedBy::Grant,
        shown: None,
        times: 300,
    };
    let approved = AuditEvent::Decided {
        who: asker(),
        capability: Capability::File,
        of: AuditOf::Many,
        allowed: true,
        by: DecidedBy::Approver(destination()),
        shown: None,
        times: 1,
    };
    all.push(named("audit event approved elsewhere", "U-15", "AuditEvent", &approved));
    let AuditEvent::Decided { who, capability, of, allowed, shown, times, .. } = approved else { return all };
    let pressed = AuditEvent::Decided { who, capability, of, allowed, by: DecidedBy::Button, shown, times };
    all.push(named("audit event decided by a button", "L-16", "AuditEvent", &pressed));
    let unattended = AuditEvent::Decided {
        who: asker(),
        capability: Capability::File,
        of: AuditOf::Transfer(TransferId::new([0x66; 16])),
        allowed: true,
        by: DecidedBy::Rule,
        shown: Some(Hash::of(b"offer")),
        times: 1,
    };
    all.push(named("audit event of files", "U-10", "AuditEvent", &unattended));
    for act in [AuditAct::ApproverNamed, AuditAct::ApproverEnded] {
        let acted = AuditEvent::Acted { act, device: Some(destination()), session: None };
        all.push(named(&format!("audit event {act:?}"), "U-14", "AuditEvent", &acted));
    }
    all.push(named("posed question about files", "U-15", "Posed", &posed()));
    all.push(named("posed question about a session", "U-15", "Posed", &Posed { wants: Wanted::Receive, ..posed() }));
    all.push(named("approver answer", "U-15", "ApproverAnswer", &answer()));
    for (number, said) in approving().iter().enumerate().skip(1) {
        all.push(Vector { name: format!("message of approvers {number}"), ..message(said) });
    }
    all.push(named("audit event counted", "U-10", "AuditEvent", &many));
    all.push(refused("audit event of a later version", "U-10", "AuditEvent", &[12], "the bytes are not a AuditEvent"));
    let anchor = AuditAnchor { newest: point(1_000), against: Some((point(1_000), point(7))) };
    all.push(named("audit anchor", "U-13", "AuditAnchor", &anchor));
    for (number, said) in mirrors().iter().enumerate().skip(1) {
        all.push(Vector { name: format!("message of records {number}"), ..message(said) });
    }
    all
}
