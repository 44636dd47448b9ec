//! What the journal holds. A record is durable before anything that it permits happens.

use serde::{Deserialize, Serialize};

use crate::canonical::{DecodeError, Signed, decode, encode};
use crate::custody::{Custody, FencingToken, Head};
use crate::id::{DeviceId, HandoffId, Hash, SessionId};
use crate::member::MemberEntry;
use crate::session::SessionKey;

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
