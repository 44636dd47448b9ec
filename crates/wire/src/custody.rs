//! The custody chain: small signed records that say whose a session is, and prove themselves.

use serde::{Deserialize, Serialize};

use crate::canonical::{Signable, Signed};
use crate::id::{DeviceId, HandoffId, Hash, Incarnation, MeshId, SessionId};
use crate::session::SessionKey;

/// The order of ownership. A handoff raises `epoch`; a seize raises `generation` and sets `epoch` to 0. Compared
/// lexicographically. Source: SPEC H-1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FencingToken {
    /// Number of forced recoveries.
    pub generation: u64,
    /// Number of handoffs since the last one.
    pub epoch: u64,
}

impl FencingToken {
    /// The token of a session that never moved.
    pub const FIRST: Self = Self { generation: 0, epoch: 0 };

    /// The token after one more handoff, or `None` when the counter is exhausted.
    pub fn next_epoch(self) -> Option<Self> {
        Some(Self { epoch: self.epoch.checked_add(1)?, ..self })
    }

    /// The token after a seize, or `None` when the counter is exhausted.
    pub fn next_generation(self) -> Option<Self> {
        Some(Self { generation: self.generation.checked_add(1)?, epoch: 0 })
    }
}

impl core::fmt::Display for FencingToken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.generation, self.epoch)
    }
}

/// The committed end of a turn log. "Is this log a prefix of that one" can be checked with it. Source: SPEC H-2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Number of the last committed turn.
    pub turn: u64,
    /// Length of the turn log, bytes.
    pub length: u64,
    /// BLAKE3 over those bytes.
    pub hash: Hash,
}

/// The first record of a chain: the device that adopted the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    /// The mesh.
    pub mesh: MeshId,
    /// What the session is; its id follows from it.
    pub key: SessionKey,
    /// The first owner.
    pub owner: DeviceId,
    /// The owner's store when it adopted the session.
    pub incarnation: Incarnation,
    /// Length of the membership log that the owner held. No seize counts under a shorter one.
    pub members: u64,
}

/// The owner's signed word that another device is the owner from now on. Source: SPEC H-3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The mesh.
    pub mesh: MeshId,
    /// The session.
    pub session: SessionId,
    /// Hash of the record before.
    pub prev: Hash,
    /// The owner until now, who signs.
    pub from: DeviceId,
    /// The owner from now on.
    pub to: DeviceId,
    /// The handoff that ends with this.
    pub handoff: HandoffId,
    /// The token until now.
    pub token: FencingToken,
    /// The token from now on.
    pub next_token: FencingToken,
    /// The turns that the new owner has.
    pub head: Head,
    /// Hash of the payload's catalog.
    pub root: Hash,
    /// Length of the membership log that `from` held. No seize counts under a shorter one.
    pub members: u64,
}

/// The operator's forced recovery: `to` becomes the owner without the old owner's word. Source: SPEC H-9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seize {
    /// The mesh.
    pub mesh: MeshId,
    /// The session.
    pub session: SessionId,
    /// Hash of the record before, as far as the seizing device knows the chain.
    pub prev: Hash,
    /// The owner from now on, who signs.
    pub to: DeviceId,
    /// The highest token known before.
    pub token: FencingToken,
    /// Generation + 1, epoch 0.
    pub next_token: FencingToken,
    /// The turns that the new owner has.
    pub head: Head,
    /// Length of the membership log that says who could vote.
    pub members: u64,
    /// The votes of other devices, ascending by voter, at most [`SEIZE_VOTES`](crate::limits::SEIZE_VOTES); the signature is
    /// the vote of `to` itself.
    pub votes: Vec<Signed<SeizeVote>>,
}

/// A device's word, given once for a session and a generation, that `to` may seize. Source: SPEC H-31.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeizeVote {
    /// The mesh.
    pub mesh: MeshId,
    /// The session.
    pub session: SessionId,
    /// The generation that the seize begins.
    pub generation: u64,
    /// Length of the membership log that the voter holds.
    pub members: u64,
    /// Hash of the last record of the chain: the vote is for a seize that follows it.
    pub prev: Hash,
    /// Who may seize.
    pub to: DeviceId,
    /// Who says so, and signs.
    pub voter: DeviceId,
}

/// One link of a chain. Each names the hash of its predecessor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Custody {
    /// 0
    Genesis(Genesis),
    /// 1
    Release(Release),
    /// 2
    Seize(Seize),
}

impl Custody {
    /// The session.
    pub fn session(&self) -> SessionId {
        match self {
            Self::Genesis(genesis) => genesis.key.id(),
            Self::Release(release) => release.session,
            Self::Seize(seize) => seize.session,
        }
    }

    /// The mesh.
    pub fn mesh(&self) -> MeshId {
        match self {
            Self::Genesis(genesis) => genesis.mesh,
            Self::Release(release) => release.mesh,
            Self::Seize(seize) => seize.mesh,
        }
    }

    /// The owner after this record.
    pub fn owner(&self) -> DeviceId {
        match self {
            Self::Genesis(genesis) => genesis.owner,
            Self::Release(release) => release.to,
            Self::Seize(seize) => seize.to,
        }
    }

    /// The token after this record.
    pub fn token(&self) -> FencingToken {
        match self {
            Self::Genesis(_) => FencingToken::FIRST,
            Self::Release(release) => release.next_token,
            Self::Seize(seize) => seize.next_token,
        }
    }

    /// Length of the membership log that its signer held. Source: SPEC H-31.
    pub fn members(&self) -> u64 {
        match self {
            Self::Genesis(genesis) => genesis.members,
            Self::Release(release) => release.members,
            Self::Seize(seize) => seize.members,
        }
    }

    /// The record before, none for the first.
    pub fn prev(&self) -> Option<Hash> {
        match self {
            Self::Genesis(_) => None,
            Self::Release(release) => Some(release.prev),
            Self::Seize(seize) => Some(seize.prev),
        }
    }
}

impl Signable for SeizeVote {
    const DOMAIN: &'static str = "cede/1 seize-vote";

    fn signer(&self) -> DeviceId {
        self.voter
    }
}

impl Signable for Custody {
    const DOMAIN: &'static str = "cede/1 custody";

    fn signer(&self) -> DeviceId {
        match self {
            Self::Genesis(genesis) => genesis.owner,
            Self::Release(release) => release.from,
            Self::Seize(seize) => seize.to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::{decode, encode};
    use crate::session::{AgentKind, NativeId};

    /// Shows: H-1
    #[test]
    fn token_only_rises() {
        let token = FencingToken { generation: 3, epoch: 7 };
        let (moved, seized) = (token.next_epoch().unwrap(), token.next_generation().unwrap());
        assert_eq!([token, moved, seized].map(|token| token.to_string()), ["3.7", "3.8", "4.0"]);
        assert!(FencingToken::FIRST < token && token < moved && moved < seized);
        assert_eq!(FencingToken { epoch: u64::MAX, ..token }.next_epoch(), None);
        assert_eq!(FencingToken { generation: u64::MAX, ..token }.next_generation(), None);
    }

    /// Shows: H-3
    #[test]
    fn record_says_whose_the_session_is_after_it() {
        let key = SessionKey { agent: AgentKind::Codex, native: NativeId::parse("one").unwrap() };
        let (mesh, session, prev) = (MeshId::new([1; 32]), key.id(), Hash::of(b"prev"));
        let [old, new] = [[2; 32], [3; 32]].map(DeviceId::new);
        let head = Head { turn: 1, length: 2, hash: Hash::of(b"turns") };
        let token = FencingToken { generation: 4, epoch: 5 };
        let (moved, seized) = (FencingToken { epoch: 6, ..token }, FencingToken { generation: 5, epoch: 0 });
        let incarnation = Incarnation::new([6; 16]);
        let genesis = Genesis { mesh, key, owner: old, incarnation, members: 11 };
        let release = Release {
            mesh,
            session,
            prev,
            from: old,
            to: new,
            handoff: HandoffId::new([7; 16]),
            token,
            next_token: moved,
            head,
            root: Hash::of(b"root"),
            members: 12,
        };
        let seize =
            Seize { mesh, session, prev, to: new, token, next_token: seized, head, members: 13, votes: Vec::new() };
        let records = [
            (Custody::Genesis(genesis), old, old, FencingToken::FIRST, 11, None),
            (Custody::Release(release), old, new, moved, 12, Some(prev)),
            (Custody::Seize(seize), new, new, seized, 13, Some(prev)),
        ];
        for (record, signer, owner, token, members, prev) in records {
            assert_eq!((record.mesh(), record.session(), record.signer()), (mesh, session, signer));
            assert_eq!((record.owner(), record.token()), (owner, token));
            assert_eq!((record.members(), record.prev()), (members, prev));
            assert_eq!(decode(&encode(&record)), Ok(record));
        }
    }
}
