//! Which records of a long journal still say something.

use std::collections::{BTreeMap, BTreeSet};

use cede_core::chain::ChainError;
use cede_wire::id::{DeviceId, MeshId, SessionId};
use cede_wire::member::Capability;
use cede_wire::record::Record;

/// What a record is about, where only the last one of its kind counts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Latest {
    Placed(SessionId),
    Policy(DeviceId),
    Rule(DeviceId, Capability),
    Approver(DeviceId),
    Address(DeviceId),
    Voted(SessionId),
    Seized(SessionId),
    Mark,
}

/// Keeps every custody and membership record, the last word on places, policies and addresses, and of each session's
/// attempts what came after its last custody record: the rest was decided by that.
/// Letters are kept as the ledger of device `me` says them in few records.
pub(crate) fn compact(me: DeviceId, records: &[Record]) -> Vec<Record> {
    let mut decided: BTreeMap<SessionId, usize> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        if let Some(session) = custody(record) {
            decided.insert(session, index);
        }
    }
    let transfers = cede_core::transfers::compact(records);
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Record> = Vec::new();
    for (index, record) in records.iter().enumerate().rev() {
        let keep = match (latest(record), attempt(record)) {
            _ if matches!(record, Record::Transfer(_)) => transfers.contains(&index),
            _ if matches!(record, Record::Letter(_) | Record::Task(_)) => false,
            (Some(latest), _) => seen.insert(latest),
            (None, Some(session)) => decided.get(&session).is_none_or(|decided| index > *decided),
            (None, None) => true,
        };
        if keep {
            kept.push(record.clone());
        }
    }
    kept.reverse();
    kept.extend(cede_core::ledger::compact(me, records));
    kept.extend(cede_core::tasks::TaskBook::restore(records.iter()).records());
    kept
}

fn custody(record: &Record) -> Option<SessionId> {
    let Record::Custody(link) = record else { return None };
    cede_seal::verify::verify(link).ok().map(|link| link.session())
}

fn latest(record: &Record) -> Option<Latest> {
    match record {
        Record::Placed(placed) => Some(Latest::Placed(placed.key.id())),
        Record::PolicySet { device, .. } => Some(Latest::Policy(*device)),
        Record::RuleSet { device, capability, .. } => Some(Latest::Rule(*device, *capability)),
        Record::ApproverSet { device, .. } => Some(Latest::Approver(*device)),
        Record::AddressSeen { device, .. } => Some(Latest::Address(*device)),
        // A later vote is for a higher generation, or the same.
        Record::Voted { session, .. } => Some(Latest::Voted(*session)),
        Record::SeizedSeen { session, .. } => Some(Latest::Seized(*session)),
        Record::Marked { .. } => Some(Latest::Mark),
        Record::Custody(_)
        | Record::Approved { .. }
        | Record::Staged { .. }
        | Record::Active { .. }
        | Record::Discarded { .. }
        | Record::Retired { .. }
        | Record::FenceRaised { .. }
        | Record::FenceLifted { .. }
        | Record::Installed { .. }
        | Record::Contested(_)
        | Record::Doubted { .. }
        | Record::Confirmed { .. }
        | Record::Member(_)
        | Record::PeerDropped { .. }
        | Record::Letter(_)
        | Record::Transfer(_)
        | Record::Task(_) => None,
    }
}

/// Without what happened in another mesh to sessions that are in charge here.
pub(crate) fn begin_anew(me: DeviceId, mesh: MeshId, records: &[Record]) -> Result<Option<Vec<Record>>, ChainError> {
    let gone = cede_core::succession::of_another_mesh(records, me, mesh)?;
    if gone.is_empty() {
        return Ok(None);
    }
    let of = |record: &Record| custody(record).or_else(|| attempt(record));
    let stays = |(place, record): &(usize, &Record)| {
        of(record).and_then(|session| gone.get(&session)).is_none_or(|last| place > last)
    };
    Ok(Some(records.iter().enumerate().filter(stays).map(|(_, record)| record.clone()).collect()))
}

fn attempt(record: &Record) -> Option<SessionId> {
    match record {
        Record::Approved { session, .. }
        | Record::Staged { session, .. }
        | Record::Active { session, .. }
        | Record::Discarded { session, .. }
        | Record::Retired { session, .. }
        | Record::FenceRaised { session, .. }
        | Record::FenceLifted { session }
        | Record::Installed { session, .. } => Some(*session),
        Record::Custody(_)
        | Record::Placed(_)
        | Record::Member(_)
        | Record::PeerDropped { .. }
        | Record::PolicySet { .. }
        | Record::RuleSet { .. }
        | Record::ApproverSet { .. }
        | Record::AddressSeen { .. }
        | Record::Voted { .. }
        | Record::Contested(_)
        | Record::Doubted { .. }
        | Record::Confirmed { .. }
        | Record::SeizedSeen { .. }
        | Record::Marked { .. }
        | Record::Letter(_)
        | Record::Transfer(_)
        | Record::Task(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use cede_wire::record::PeerPolicy;

    use super::*;

    const ME: DeviceId = DeviceId::new([9; 32]);

    #[test]
    fn last_word_on_a_policy_is_kept_in_its_place() {
        let device = DeviceId::new([1; 32]);
        let set = |policy| Record::PolicySet { device, policy };
        let dropped = Record::PeerDropped { device: DeviceId::new([2; 32]) };
        let records = [set(PeerPolicy::Ask), dropped.clone(), set(PeerPolicy::Yes)];
        assert_eq!(compact(ME, &records), vec![dropped, set(PeerPolicy::Yes)]);
    }

    /// Shows: J-8, H-31
    #[test]
    fn last_vote_and_what_was_seen_of_a_seize_are_kept_whatever_came_after() {
        let session = SessionId::new([3; 16]);
        let to = DeviceId::new([1; 32]);
        let token = cede_wire::custody::FencingToken { generation: 1, epoch: 0 };
        let voted = |generation| Record::Voted { session, generation, to };
        let seen = |kept| Record::SeizedSeen { session, token, kept };
        let mark = |count| Record::Marked { count, nonce: [0; 16] };
        let doubted = Record::Doubted { why: cede_wire::record::Doubt::Copied };
        let records = [
            voted(1),
            mark(1),
            seen(false),
            doubted.clone(),
            seen(true),
            voted(2),
            Record::Confirmed { session: None },
            mark(2),
        ];
        let kept = [doubted, seen(true), voted(2), Record::Confirmed { session: None }, mark(2)];
        assert_eq!(compact(ME, &records), kept);
    }

    #[test]
    fn attempt_without_a_later_decision_is_kept() {
        let (session, handoff) = (SessionId::new([3; 16]), cede_wire::id::HandoffId::new([4; 16]));
        let records = [Record::Discarded { session, handoff }];
        assert_eq!(compact(ME, &records), records);
    }
}
