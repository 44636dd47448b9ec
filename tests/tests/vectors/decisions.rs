//! The values of the record of decisions that the vectors are made of.

use cede_wire::audit::{
    AuditAct, AuditAnchor, AuditCheckpoint, AuditEntry, AuditEvent, AuditMirror, AuditOf, AuditOutcome, DecidedBy,
};
use cede_wire::authority::Rule;
use cede_wire::canonical::Signed;
use cede_wire::id::{ConnectionId, Hash};
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;

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
    all.push(named("audit event counted", "U-10", "AuditEvent", &many));
    all.push(refused("audit event of a later version", "U-10", "AuditEvent", &[9], "the bytes are not a AuditEvent"));
    let anchor = AuditAnchor { newest: point(1_000), against: Some((point(1_000), point(7))) };
    all.push(named("audit anchor", "U-13", "AuditAnchor", &anchor));
    for (number, said) in mirrors().iter().enumerate().skip(1) {
        all.push(Vector { name: format!("message of records {number}"), ..message(said) });
    }
    all
}
