//! What the ledger wants done.

use cede_wire::id::{DeviceId, Hash, Incarnation};
use cede_wire::letter::{GoneWhy, LetterId, LetterState};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;

/// One thing to do, under the contract of the custodian's outputs. Source: SPEC J-1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Make these durable, all or none.
    Persist(Vec<Record>),
    /// Say this to a peer, if there is a link.
    Send(DeviceId, Box<PeerMessage>),
    /// Put the words to these letters and say them to a peer, if there is a link, as one frame.
    Post(DeviceId, Post),
    /// News, or work for the hands.
    Tell(LedgerEvent),
}

/// A frame of letters without their words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Which life of the outbox.
    pub incarnation: Incarnation,
    /// The number of the frame.
    pub number: u64,
    /// What it says.
    pub items: Vec<PostItem>,
}

/// One item of a [`Post`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostItem {
    /// A letter.
    Letter {
        /// Its place.
        seq: u64,
        /// The id that it had first.
        first: Option<LetterId>,
        /// How long it still lives, milliseconds.
        expires_in_ms: u64,
        /// Where its words are.
        digest: Hash,
    },
    /// Places without a letter.
    Gone {
        /// The first.
        from: u64,
        /// The last.
        through: u64,
        /// Why.
        why: GoneWhy,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerEvent {
    /// A letter came and is durable.
    Arrived(LetterId),
    /// What became of a letter of this device's outbox.
    Moved {
        /// Which one.
        id: LetterId,
        /// What.
        state: LetterState,
    },
    /// Nothing needs these words any more.
    Forget(Hash),
    /// Two letters of one id came; nothing more is taken from this peer until its operator says so.
    Quarantined(LetterId),
    /// Letters were lost with what one of the two devices forgot.
    Gap(Gap),
    /// A peer knows letters of this device that it does not know itself: choose a fresh life and call `begin`.
    BeginAnew(DeviceId),
    /// A peer broke a rule; nothing came of it.
    PeerFault {
        /// The peer.
        device: DeviceId,
        /// The rule, for the log.
        what: &'static str,
    },
}

/// Letters that one device held and forgot, and the other no longer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first of them.
    pub from: LetterId,
    /// The place of the last one.
    pub through: u64,
}
