//! The record of what was decided: entries in a chain, and signed checkpoints of it. Source: SPEC U-10 to U-12.
//!
//! No field here holds text or bytes of a person or a peer: ids, numbers, words of ours, hashes. So no secret can get in.

use serde::{Deserialize, Serialize};

use crate::approver::ApproverAnswer;
use crate::authority::Rule;
use crate::canonical::{DecodeError, Signable, Signed, decode, encode};
use crate::id::{ConnectionId, DeviceId, HandoffId, Hash, SessionId, TransferId};
use crate::limits::AUDIT_ENTRY_BYTES;
use crate::member::Capability;

/// What decided a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidedBy {
    /// 0: what the peer was granted.
    Grant,
    /// 1: a rule of the operator.
    Rule,
    /// 2: the operator.
    Operator,
    /// 3: nobody answered in time.
    Time,
    /// 4: the operator could not be asked.
    Fault,
    /// 5: too many questions.
    Pace,
    /// 6: more than can be shown.
    Size,
    /// 7: whoever asked withdrew.
    Withdrawn,
    /// 8: the connection is over.
    Closed,
    /// 9: the person at another device, which the operator named.
    Approver(DeviceId),
    /// 10: a button of a call of ntfy.
    Button,
}

impl DecidedBy {
    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Grant => "what it was granted",
            Self::Rule => "a rule",
            Self::Operator => "the operator",
            Self::Time => "time",
            Self::Fault => "a fault",
            Self::Pace => "pace: too many questions",
            Self::Size => "size: too much to be shown",
            Self::Withdrawn => "a withdrawal",
            Self::Closed => "the end of the connection",
            Self::Approver(_) => "the person at another device",
            Self::Button => "a button of ntfy",
        }
    }
}

/// Which request an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditOf {
    /// 0: a request on a connection, by its number there.
    Request(ConnectionId, u64),
    /// 1: a handoff to this device.
    Handoff(HandoffId),
    /// 2: a peer's wish for a session, by the peer's number.
    Take(SessionId, u64),
    /// 3: equal requests of a kind that are counted and not listed.
    Many,
    /// 4: files that would come here.
    Transfer(TransferId),
}

/// What came of a request that was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditOutcome {
    /// 0: done.
    Done,
    /// 1: begun, and it failed.
    Failed,
    /// 2: what was to be done was not what was shown; nothing was done.
    Swapped,
}

/// What came to the topic of the buttons of a call, and what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Press {
    /// 0: the yes to what was shown; it decided.
    Yes,
    /// 1: the no; it decided.
    No,
    /// 2: the question was decided or over before; nothing was done.
    Late,
    /// 3: a yes to a question that is another one now; nothing was done.
    Swapped,
    /// 4: no token of this call; nothing was done.
    Unknown,
}

/// What a person did that no peer asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditAct {
    /// 0: let a device join.
    Paired,
    /// 1: removed a device, or serves it no more.
    Removed,
    /// 2: wants to take a session over without its owner.
    Seized,
    /// 3: said that the records are the newest.
    Confirmed,
    /// 4: named a device at which a person may answer for this one.
    ApproverNamed,
    /// 5: took that back.
    ApproverEnded,
    /// 6: asked an agent of a peer for a task.
    Delegated,
    /// 7: knows why what was kept of a record did not fit: of the device's by this one, and of this one's by the device.
    Settled,
    /// 8: what was wanted with [`Self::Seized`] came to be.
    TookOver,
}

/// What becomes of the keyboard of a hosted terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyboardChange {
    /// 0: got it, and nobody had it.
    Taken,
    /// 1: the person at the machine took it from another one.
    Insisted,
    /// 2: let it go.
    LetGo,
    /// 3: went away, or its link did.
    Gone,
    /// 4: lost it by saying nothing.
    Silent,
    /// 5: lost it to the person at the machine.
    PutAside,
    /// 6: lost it with the right to it.
    Withdrawn,
    /// 7: the person at the machine keeps it from other devices.
    Held,
    /// 8: and does so no more.
    Released,
}

/// One thing that is recorded. Append only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditEvent {
    /// 0: a daemon started. Whose signatures follow.
    Begun {
        /// This device.
        device: DeviceId,
    },
    /// 1: the operator is asked.
    Asked {
        /// Who wants it.
        who: DeviceId,
        /// What for.
        capability: Capability,
        /// Which request.
        of: AuditOf,
        /// Hash of what is shown.
        shown: Hash,
        /// Kept for later by a rule.
        held: bool,
    },
    /// 2: a request was decided. Durable before anything comes of it.
    Decided {
        /// Who asked.
        who: DeviceId,
        /// What for.
        capability: Capability,
        /// Which request.
        of: AuditOf,
        /// Whether it may be done.
        allowed: bool,
        /// What decided.
        by: DecidedBy,
        /// Hash of what the operator was shown, where somebody was asked.
        shown: Option<Hash>,
        /// How many equal ones this entry stands for.
        times: u32,
    },
    /// 3: what came of one that was allowed.
    Outcome {
        /// Who asked.
        who: DeviceId,
        /// What for.
        capability: Capability,
        /// Which request.
        of: AuditOf,
        /// What came of it.
        outcome: AuditOutcome,
    },
    /// 4: the operator set a rule.
    RuleSet {
        /// For whom.
        who: DeviceId,
        /// For what.
        capability: Capability,
        /// Which.
        rule: Rule,
        /// Until when, milliseconds since 1970; none means no end.
        until_unix_ms: Option<u64>,
    },
    /// 5: a person acted.
    Acted {
        /// What was done.
        act: AuditAct,
        /// Which device it is about.
        device: Option<DeviceId>,
        /// Which session it is about.
        session: Option<SessionId>,
    },
    /// 6: everything before is as it was written, says the device.
    Checkpoint(Signed<AuditCheckpoint>),
    /// 7: at a start, entries up to this number were known to have been written and were not there.
    Lost {
        /// The number.
        until: u64,
    },
    /// 8: a peer keeps a checkpoint of this device that does not fit the entries here.
    Missed {
        /// The peer.
        by: DeviceId,
        /// The number that the checkpoint covers.
        signed: u64,
    },
    /// 9: who may type into a hosted terminal is another one. Durable before anything that a new one types is passed on.
    Keyboard {
        /// The terminal.
        session: SessionId,
        /// Which device; none means the person at the machine.
        who: Option<DeviceId>,
        /// What became of the keyboard.
        change: KeyboardChange,
        /// Bytes that were typed by whoever lost it.
        typed: u64,
    },
    /// 10: a person at one device answered what another one asks; recorded at both, before anything comes of it.
    Answered {
        /// Who wants it.
        who: DeviceId,
        /// Which request, at the device that asks.
        of: AuditOf,
        /// The answer, signed where the person sits.
        answer: Signed<ApproverAnswer>,
    },
    /// 11: a button of a call was pressed, or something else came to its topic. Durable before anything comes of it.
    Pressed {
        /// Who wants it.
        who: DeviceId,
        /// Which request.
        of: AuditOf,
        /// Hash of what the call showed.
        shown: Hash,
        /// What came, and what it did.
        press: Press,
    },
}

impl AuditEvent {
    /// The frame's `kind`: the position of the variant.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Begun { .. } => 0,
            Self::Asked { .. } => 1,
            Self::Decided { .. } => 2,
            Self::Outcome { .. } => 3,
            Self::RuleSet { .. } => 4,
            Self::Acted { .. } => 5,
            Self::Checkpoint(_) => 6,
            Self::Lost { .. } => 7,
            Self::Missed { .. } => 8,
            Self::Keyboard { .. } => 9,
            Self::Answered { .. } => 10,
            Self::Pressed { .. } => 11,
        }
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its number, from 1, without a gap.
    pub number: u64,
    /// When, milliseconds since 1970, by this device's clock.
    pub at_unix_ms: u64,
    /// What.
    pub event: AuditEvent,
}

/// The device's word for the chain up to an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditCheckpoint {
    /// Who signs.
    pub by: DeviceId,
    /// Number of the last entry that it covers.
    pub number: u64,
    /// The chain after that entry.
    pub chain: Hash,
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
}

impl Signable for AuditCheckpoint {
    const DOMAIN: &'static str = "cede/1 audit-checkpoint";

    fn signer(&self) -> DeviceId {
        self.by
    }
}

/// What devices say to each other of their records: where they stand, and nothing of what is in them. Source: SPEC U-13.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditMirror {
    /// 0: the newest checkpoint of the sender.
    Newest {
        /// Counts such messages in this life of the sender's daemon, so that two links cannot turn their order round.
        serial: u64,
        /// The checkpoint.
        point: Signed<AuditCheckpoint>,
    },
    /// 1: the newest checkpoint of the receiver that is durable at the sender; none where there is none.
    Kept(Option<Signed<AuditCheckpoint>>),
    /// 2: "which of mine is durable there?"
    Ask,
}

/// What is kept of another device's record, durably.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditAnchor {
    /// The newest checkpoint.
    pub newest: Signed<AuditCheckpoint>,
    /// The first contradiction: what was kept then, and the checkpoint that did not fit it. Both are signed by the device.
    pub against: Option<(Signed<AuditCheckpoint>, Signed<AuditCheckpoint>)>,
}

/// What a file begins with: where its first entry stands in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// Number of the file, from 1.
    pub file: u64,
    /// Number of its first entry.
    pub first: u64,
    /// The chain before that entry; zeros before the first of all.
    pub before: Hash,
}

/// Why a piece of a file is not an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditFrameError {
    /// It ends before the entry does: a write that was cut off, or a cut.
    #[error("an entry is cut off")]
    CutOff,
    /// It says that it is longer than any entry.
    #[error("an entry is longer than any is")]
    TooLong,
    /// The chain says that other bytes stood here.
    #[error("an entry is not the one that was written")]
    Changed,
    /// The chain is right and the bytes are no entry: a newer version wrote it, or a fault of ours.
    #[error("an entry cannot be read")]
    Unreadable(#[source] DecodeError),
}

impl AuditHead {
    /// Begins every file: the name and the format.
    pub const MAGIC: [u8; 10] = *b"cedeaudt\x01\x00";
    /// Length of the beginning of a file.
    pub const BYTES: usize = 10 + 8 + 8 + 32;

    /// The bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..10].copy_from_slice(&Self::MAGIC);
        bytes[10..18].copy_from_slice(&self.file.to_le_bytes());
        bytes[18..26].copy_from_slice(&self.first.to_le_bytes());
        bytes[26..].copy_from_slice(self.before.as_bytes());
        bytes
    }

    /// Reads the beginning of a file; none where it is not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (magic, rest) = bytes.split_first_chunk::<10>()?;
        let (file, rest) = rest.split_first_chunk::<8>()?;
        let (first, rest) = rest.split_first_chunk::<8>()?;
        let (before, rest) = rest.split_first_chunk::<32>()?;
        let head =
            Self { file: u64::from_le_bytes(*file), first: u64::from_le_bytes(*first), before: Hash::new(*before) };
        (*magic == Self::MAGIC).then_some((head, rest))
    }
}

impl AuditEntry {
    /// The entry as it stands in a file behind an entry with that chain, and the chain after it.
    pub fn to_frame(&self, before: &Hash) -> (Vec<u8>, Hash) {
        let body = encode(self);
        let chain = chain(before, &body);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        ([&length.to_le_bytes()[..], chain.as_bytes(), &body].concat(), chain)
    }

    /// Reads the next entry of a file: it, the chain after it, and what follows.
    ///
    /// # Errors
    /// [`AuditFrameError`]; nothing behind it can be trusted.
    pub fn from_frame<'a>(bytes: &'a [u8], before: &Hash) -> Result<(Self, Hash, &'a [u8]), AuditFrameError> {
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or(AuditFrameError::CutOff)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > AUDIT_ENTRY_BYTES {
            return Err(AuditFrameError::TooLong);
        }
        let (said, rest) = rest.split_first_chunk::<32>().ok_or(AuditFrameError::CutOff)?;
        let (body, rest) = rest.split_at_checked(length).ok_or(AuditFrameError::CutOff)?;
        let chain = chain(before, body);
        if chain.as_bytes() != said {
            return Err(AuditFrameError::Changed);
        }
        Ok((decode(body).map_err(AuditFrameError::Unreadable)?, chain, rest))
    }
}

/// The chain after an entry.
fn chain(before: &Hash, body: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new_derive_key("cede/1 audit");
    hasher.update(before.as_bytes()).update(&(body.len() as u64).to_le_bytes()).update(body);
    Hash::new(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{of_zeros, table, tell_apart, variant};

    #[test]
    fn entry_comes_back_behind_the_one_before_it_only() {
        let entry = AuditEntry { number: 7, at_unix_ms: 9, event: AuditEvent::Lost { until: 6 } };
        let before = Hash::of(b"before");
        let (mut frame, chain) = entry.to_frame(&before);
        frame.extend_from_slice(b"rest");
        assert_eq!(AuditEntry::from_frame(&frame, &before), Ok((entry, chain, &b"rest"[..])));
        assert_eq!(AuditEntry::from_frame(&frame, &chain), Err(AuditFrameError::Changed));
        for end in 0..frame.len() - 4 {
            assert_eq!(AuditEntry::from_frame(&frame[..end], &before), Err(AuditFrameError::CutOff));
        }
    }

    #[test]
    fn head_of_a_file_comes_back() {
        let head = AuditHead { file: 3, first: 900, before: Hash::of(b"x") };
        let mut bytes = head.to_bytes().to_vec();
        bytes.push(1);
        assert_eq!(AuditHead::from_bytes(&bytes), Some((head, &[1][..])));
        assert_eq!(AuditHead::from_bytes(&bytes[..AuditHead::BYTES - 1]), None);
        bytes[0] = 0;
        assert_eq!(AuditHead::from_bytes(&bytes), None);
    }

    #[test]
    fn longest_entry_is_waited_for_and_no_longer_one() {
        for (length, says) in
            [(AUDIT_ENTRY_BYTES, AuditFrameError::CutOff), (AUDIT_ENTRY_BYTES + 1, AuditFrameError::TooLong)]
        {
            let frame = u32::try_from(length).unwrap().to_le_bytes();
            assert_eq!(AuditEntry::from_frame(&frame, &Hash::of(b"")), Err(says));
        }
    }

    #[test]
    fn chain_depends_on_all_that_is_before_it() {
        let entry = AuditEntry { number: 7, at_unix_ms: 9, event: AuditEvent::Lost { until: 6 } };
        let later = AuditEntry { at_unix_ms: 10, ..entry.clone() };
        let chain = |entry: &AuditEntry, before| entry.to_frame(&Hash::of(before)).1;
        assert_ne!(chain(&entry, b"before"), chain(&later, b"before"));
        assert_ne!(chain(&entry, b"before"), chain(&entry, b"others"));
    }

    #[test]
    fn every_kind_of_entry_has_its_number() {
        let table = table("Entries of the audit log");
        for (number, name) in &table {
            let event: AuditEvent = of_zeros(*number).unwrap();
            assert_eq!((event.kind(), variant(&event)), (*number, (*name).to_owned()));
        }
        assert_eq!(of_zeros::<AuditEvent>(table.len() as u16), None);
    }

    #[test]
    fn whatever_decides_has_its_own_word() {
        let all: Vec<DecidedBy> = (0..).map_while(of_zeros).collect();
        assert_eq!(all.len(), 11);
        assert!(tell_apart(all.iter().map(|by| by.word())));
    }
}
