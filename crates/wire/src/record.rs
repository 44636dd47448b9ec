//! What the journal holds. A record is durable before anything that it permits happens.

use serde::{Deserialize, Serialize};

use crate::authority::Rule;
use crate::canonical::{DecodeError, Signed, decode, encode};
use crate::custody::{Custody, FencingToken, Head};
use crate::id::{DeviceId, HandoffId, Hash, SessionId};
use crate::letter::LetterRecord;
use crate::member::{Capability, MemberEntry};
use crate::session::SessionKey;
use crate::task::TaskRecord;
use crate::transfer::TransferRecord;

/// What this device does when a peer asks for a capability that needs a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerPolicy {
    /// 0: ask the operator each time.
    Ask,
    /// 1: yes, unattended.
    Yes,
}

/// Where a session lies on this device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedSession {
    /// What it is.
    pub key: SessionKey,
    /// Its title.
    pub title: String,
    /// Its working directory, absolute, as bytes.
    pub directory: Vec<u8>,
    /// The catalog of the last handoff that began or ended here, none before the first.
    pub root: Option<Hash>,
}

/// Why the records of this device may not be the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// 0: a damaged journal was set aside.
    Damaged,
    /// 1: the store lies at another place or on another machine than where it was last used.
    Copied,
    /// 2: the store is older than when it was last used: a backup was put back.
    RolledBack,
    /// 3: a peer showed a record that this device signed and does not know.
    Forgotten,
}

/// A durable record. Append only; numbers in `proto/NUMBERS.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// 0: a link of a custody chain: genesis, release or seize, ours or a peer's.
    Custody(Signed<Custody>),
    /// 1: D1, the operator approved exactly this.
    Approved {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// From whom.
        source: DeviceId,
        /// Digest of the scope.
        scope: Hash,
    },
    /// 2: D3, every byte is durable.
    Staged {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// From whom.
        source: DeviceId,
        /// The source's token.
        token: FencingToken,
        /// The turns.
        head: Head,
        /// The catalog.
        root: Hash,
    },
    /// 3: D5, in charge from here on.
    Active {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// The token.
        token: FencingToken,
    },
    /// 4: D6.
    Discarded {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
    },
    /// 5: S5, the new owner said that it acts.
    Retired {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
    },
    /// 6: the agent's store is about to be fenced for this handoff; a restart as owner lifts it.
    FenceRaised {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// Who is to be the owner.
        to: DeviceId,
    },
    /// 7: the fence is down again.
    FenceLifted {
        /// The session.
        session: SessionId,
    },
    /// 8: the arrived session stands in its place and can be resumed.
    Installed {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
    },
    /// 9: where a session lies.
    Placed(PlacedSession),
    /// 10: an entry of the membership log.
    Member(Signed<MemberEntry>),
    /// 11: this device serves that peer no more, whatever the log says.
    PeerDropped {
        /// The peer.
        device: DeviceId,
    },
    /// 12: this device answers for its operator.
    PolicySet {
        /// The peer.
        device: DeviceId,
        /// What it answers.
        policy: PeerPolicy,
    },
    /// 13: where a peer was last reached, `host:port`.
    AddressSeen {
        /// The peer.
        device: DeviceId,
        /// The address.
        address: String,
    },
    /// 14: this device's vote in a seize; it votes for no other in that generation.
    Voted {
        /// The session.
        session: SessionId,
        /// The generation.
        generation: u64,
        /// Who may seize.
        to: DeviceId,
    },
    /// 15: a second certificate of one generation. Nobody here acts for the session until a higher one comes.
    Contested(Signed<Custody>),
    /// 16: S7 for every session until it is confirmed.
    Doubted {
        /// Why.
        why: Doubt,
    },
    /// 17: the records are the newest, a person or every peer says.
    Confirmed {
        /// Of which session; none means all.
        session: Option<SessionId>,
    },
    /// 18: S6, another device seized the session.
    SeizedSeen {
        /// The session.
        session: SessionId,
        /// The token of the seize.
        token: FencingToken,
        /// Whether the turns that only this device has are kept aside.
        kept: bool,
    },
    /// 19: where the store stands; a copy of this lies outside of it.
    Marked {
        /// How often it was marked.
        count: u64,
        /// Random: tells two continuations of one store apart.
        nonce: [u8; 16],
    },
    /// 20: something of letters.
    Letter(Box<LetterRecord>),
    /// 21: the operator's rule for a peer and a capability.
    RuleSet {
        /// The peer.
        device: DeviceId,
        /// The capability.
        capability: Capability,
        /// What is answered.
        rule: Rule,
        /// When it was set, milliseconds since 1970.
        from_unix_ms: u64,
        /// When it ends, milliseconds since 1970; none means never.
        until_unix_ms: Option<u64>,
    },
    /// 22: something of files that are sent.
    Transfer(Box<TransferRecord>),
    /// 23: the operator says whether a device may answer questions of this one.
    ApproverSet {
        /// The device.
        device: DeviceId,
        /// Whether it may.
        may: bool,
    },
    /// 24: something of tasks.
    Task(TaskRecord),
}

impl Record {
    /// The frame's `kind`: the position of the variant.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Custody(_) => 0,
            Self::Approved { .. } => 1,
            Self::Staged { .. } => 2,
            Self::Active { .. } => 3,
            Self::Discarded { .. } => 4,
            Self::Retired { .. } => 5,
            Self::FenceRaised { .. } => 6,
            Self::FenceLifted { .. } => 7,
            Self::Installed { .. } => 8,
            Self::Placed(_) => 9,
            Self::Member(_) => 10,
            Self::PeerDropped { .. } => 11,
            Self::PolicySet { .. } => 12,
            Self::AddressSeen { .. } => 13,
            Self::Voted { .. } => 14,
            Self::Contested(_) => 15,
            Self::Doubted { .. } => 16,
            Self::Confirmed { .. } => 17,
            Self::SeizedSeen { .. } => 18,
            Self::Marked { .. } => 19,
            Self::Letter(_) => 20,
            Self::RuleSet { .. } => 21,
            Self::Transfer(_) => 22,
            Self::ApproverSet { .. } => 23,
            Self::Task(_) => 24,
        }
    }

    /// The canonical bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`DecodeError`]; the store starts read-only.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{of_zeros, table, variant};
    use crate::session::{AgentKind, NativeId};

    #[test]
    fn every_record_comes_back_under_its_own_number() {
        let key = SessionKey { agent: AgentKind::Codex, native: NativeId::parse("one").unwrap() };
        let placed = PlacedSession { key, title: "title".to_owned(), directory: b"/home/one".to_vec(), root: None };
        let table = table("Journal records");
        for (kind, name) in &table {
            let record = of_zeros(*kind).unwrap_or_else(|| Record::Placed(placed.clone()));
            assert_eq!((record.kind(), variant(&record).as_str()), (*kind, *name));
            let bytes = record.to_bytes();
            assert_eq!(u16::from(bytes[0]), *kind);
            assert_eq!(Record::from_bytes(&bytes), Ok(record));
        }
        assert_eq!(of_zeros::<Record>(table.len() as u16), None);
    }
}
