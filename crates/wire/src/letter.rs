//! Letters: what people and agents of one device tell another, and what becomes of it. Source: SPEC section 11.

use serde::{Deserialize, Serialize};

use crate::canonical::{at_most, encode};
use crate::id::{DeviceId, Hash, Incarnation, SessionId};
use crate::limits;
use crate::refusal::Refusal;

/// Names a letter for ever: no other one has had this id or will have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LetterId {
    /// The device that told it.
    pub origin: DeviceId,
    /// Which life of its outbox.
    pub incarnation: Incarnation,
    /// The device that it was told to.
    pub stream: DeviceId,
    /// Its place among those, from 1, without a gap.
    pub seq: u64,
}

impl LetterId {
    /// The name that people type: the first eight hexadecimal digits of a digest.
    pub fn short(&self) -> String {
        Hash::of(&encode(self)).short()
    }
}

/// A letter: what its digest covers. It is the same on every device that it passes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// Random: two letters of the same words are two letters.
    pub nonce: [u8; 16],
    /// The session that it is for; none means the device's person.
    pub session: Option<SessionId>,
    /// A letter of the device that it goes to.
    pub in_reply_to: Option<LetterId>,
    /// The letter that the conversation began with; none begins one.
    pub conversation: Option<LetterId>,
    /// Replies before this one in the conversation.
    pub hops: u32,
    /// When it was told, milliseconds since 1970. For people; it orders nothing.
    pub told_unix_ms: u64,
    /// The words, at most [`limits::LETTER_BYTES`].
    pub text: String,
    /// What it has beside its words.
    pub part: Option<LetterPart>,
}

/// What a letter has beside its words, of a kind that its receiver may not know. [`crate::task::Part`] reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterPart {
    /// Which kind; numbers in `proto/NUMBERS.md`.
    pub kind: u16,
    /// Its canonical bytes.
    #[serde(deserialize_with = "at_most::<{ limits::LETTER_PART_BYTES }, _, _>")]
    pub body: Vec<u8>,
}

impl Letter {
    /// Bytes of its words and of what it has beside them.
    pub fn bytes(&self) -> usize {
        self.text.len().saturating_add(self.part.as_ref().map_or(0, |part| part.body.len()))
    }

    /// The digest.
    pub fn digest(&self) -> Hash {
        Hash::of(&encode(self))
    }
}

/// The words of a person are in no log.
impl core::fmt::Debug for Letter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Letter({}, {} bytes)", self.digest().short(), self.bytes())
    }
}

/// A letter on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostedLetter {
    /// Its place in the stream.
    pub seq: u64,
    /// The id that it had first, where the sender passes on what another device told it.
    pub first: Option<LetterId>,
    /// How long it may still be shown or acted on, milliseconds.
    pub expires_in_ms: u64,
    /// The letter.
    pub letter: Letter,
}

/// Why a place of a stream holds no letter any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GoneWhy {
    /// 0: it ended before it left: it ran out, was withdrawn or refused.
    Ended,
    /// 1: the receiver once had it and knows it no more.
    Forgotten,
}

/// What a sender has for one place, or a row of places, of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LetterItem {
    /// 0: a letter.
    Posted(Box<PostedLetter>),
    /// 1: none, and there will be none.
    Gone {
        /// First place.
        from: u64,
        /// Last place.
        through: u64,
        /// Why.
        why: GoneWhy,
    },
}

/// What became of a letter. It only moves forward: received, shown, then one of the rest, which is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LetterState {
    /// 0: durable at the device that it was told to.
    Received,
    /// 1: its words were given to a person or an agent.
    Shown,
    /// 2: a person or an agent said that it was acted on, or replied.
    Acted,
    /// 3: it is not wanted.
    Refused(Refusal),
    /// 4: its time was over before anybody acted on it.
    Expired,
    /// 5: it could not be read, three times.
    Quarantined,
    /// 6: a device that was passed this letter has it already.
    Duplicate,
}

impl LetterState {
    /// Whether nothing can follow.
    pub const fn is_final(self) -> bool {
        self.rank() == 2
    }

    /// Whether a letter in this state may become `next`.
    pub const fn may_become(self, next: Self) -> bool {
        self.rank() < next.rank()
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Received => 0,
            Self::Shown => 1,
            Self::Acted | Self::Refused(_) | Self::Expired | Self::Quarantined | Self::Duplicate => 2,
        }
    }

    /// The word on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Shown => "shown",
            Self::Acted => "acted",
            Self::Refused(_) => "refused",
            Self::Expired => "expired",
            Self::Quarantined => "quarantined",
            Self::Duplicate => "duplicate",
        }
    }
}

/// What the receiver says of one letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterReceipt {
    /// Its place in the stream.
    pub seq: u64,
    /// What became of it.
    pub state: LetterState,
}

/// How much a receiver takes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LetterRoom {
    /// 0: so much.
    Open {
        /// Letters.
        letters: u32,
        /// Bytes of words.
        bytes: u64,
    },
    /// 1: nothing: the inbox or the disk is full.
    Full,
    /// 2: nothing: two letters came under one id, and its operator has to look.
    Quarantined,
    /// 3: nothing: the sender was never given the right to send messages.
    NotGranted,
}

/// One frame of letters. One without items asks how far the receiver is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letters {
    /// Which life of the sender's outbox.
    pub incarnation: Incarnation,
    /// Chosen by the sender, never 0; the answer names it.
    pub number: u64,
    /// In the order of their places.
    #[serde(deserialize_with = "at_most::<{ limits::LETTERS_PER_FRAME }, _, _>")]
    pub items: Vec<LetterItem>,
}

/// What a receiver has and does. Everything in it is durable there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterReceipts {
    /// Which life of the sender's outbox.
    pub incarnation: Incarnation,
    /// The frame that this answers; 0: none.
    pub answers: u64,
    /// Every place up to this one is known.
    pub through: u64,
    /// How much more is taken.
    pub room: LetterRoom,
    /// Letters beyond `through` that are here, and letters that are more than received.
    #[serde(deserialize_with = "at_most::<{ limits::RECEIPTS_PER_FRAME }, _, _>")]
    pub receipts: Vec<LetterReceipt>,
}

/// The sender holds these final receipts; they need not be said again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptsHeld {
    /// Which life of the sender's outbox.
    pub incarnation: Incarnation,
    /// The places.
    #[serde(deserialize_with = "at_most::<{ limits::RECEIPTS_PER_FRAME }, _, _>")]
    pub seqs: Vec<u64>,
}

/// What is known of a letter without its words. Those lie beside the journal, under the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterFacts {
    /// Digest of the letter.
    pub digest: Hash,
    /// Bytes of the words and of what it has beside them.
    pub bytes: u32,
    /// The session that it is for.
    pub session: Option<SessionId>,
    /// The letter that it answers.
    pub in_reply_to: Option<LetterId>,
    /// The letter that the conversation began with; none: this one.
    pub conversation: Option<LetterId>,
    /// Replies before this one.
    pub hops: u32,
    /// When it was told, milliseconds since 1970.
    pub told_unix_ms: u64,
}

impl LetterFacts {
    /// The facts of a letter.
    pub fn of(letter: &Letter) -> Self {
        Self {
            digest: letter.digest(),
            bytes: u32::try_from(letter.bytes()).unwrap_or(u32::MAX),
            session: letter.session,
            in_reply_to: letter.in_reply_to,
            conversation: letter.conversation,
            hops: letter.hops,
            told_unix_ms: letter.told_unix_ms,
        }
    }
}

/// A letter of an outbox or an inbox, as the journal keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLetter {
    /// Its id between these two devices.
    pub id: LetterId,
    /// The id that it had first, where it was passed on.
    pub first: Option<LetterId>,
    /// What is known of it.
    pub facts: LetterFacts,
    /// How long it may be shown or acted on from `at_unix_ms` on, milliseconds.
    pub expires_in_ms: u64,
    /// When it was written here, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What became of it; none: queued.
    pub state: Option<LetterState>,
}

/// What the journal holds of letters. Append only; numbers in `proto/NUMBERS.md`. Of an id the origin says whose side it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LetterRecord {
    /// 0: the outbox begins a life.
    Begun {
        /// Which one.
        incarnation: Incarnation,
        /// Towards one peer; none means all.
        towards: Option<DeviceId>,
    },
    /// 1: a letter stands in the outbox, or is durable in the inbox; there its place is known from here on.
    Kept(Box<KeptLetter>),
    /// 2: a letter moved forward.
    Moved {
        /// Which one.
        id: LetterId,
        /// To what.
        state: LetterState,
    },
    /// 3: of the inbox: the sender holds the final receipt. Of the outbox: it ended, and the receiver knows its place.
    Held {
        /// Which one.
        id: LetterId,
    },
    /// 4: a letter of the inbox is about to be read, for the so-manieth time.
    Attempted {
        /// Which one.
        id: LetterId,
        /// How often, this time counted.
        attempts: u32,
    },
    /// 5: places without a letter, from `from` to `through`.
    Gone {
        /// The first one.
        from: LetterId,
        /// The last one.
        through: u64,
        /// Why.
        why: GoneWhy,
    },
    /// 6: a letter of the inbox goes on to the new owner of its session, in the same batch as it stands in the outbox.
    PassedOn {
        /// As it came.
        from: LetterId,
        /// As it goes on.
        to: LetterId,
    },
    /// 7: this peer's letters are taken no more, or again.
    Quarantine {
        /// The peer.
        device: DeviceId,
        /// Whether they are kept out.
        on: bool,
    },
    /// 8: where a stream stands, in place of the records before: what is known of a peer's, or the last place of this
    /// device's.
    Stream {
        /// The place up to which all is known; of this device's the last one given.
        through: LetterId,
        /// Places known beyond it.
        above: Vec<u64>,
    },
    /// 9: everything about a peer that was removed is forgotten.
    Forgotten {
        /// The peer.
        device: DeviceId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::decode;
    use crate::numbers::{of_zeros, sentence, tell_apart};

    /// Shows: M-4
    #[test]
    fn state_moves_forward_and_a_final_one_stays() {
        let finals = [
            LetterState::Acted,
            LetterState::Refused(Refusal::Declined),
            LetterState::Expired,
            LetterState::Quarantined,
            LetterState::Duplicate,
        ];
        assert!(LetterState::Received.may_become(LetterState::Shown));
        assert!(!LetterState::Shown.may_become(LetterState::Received));
        for last in finals {
            assert!(last.is_final() && LetterState::Received.may_become(last) && LetterState::Shown.may_become(last));
            assert!(finals.iter().all(|other| !last.may_become(*other)));
            assert!(!last.may_become(LetterState::Shown));
        }
        assert!(!LetterState::Received.is_final() && !LetterState::Shown.is_final());
    }

    #[test]
    fn words_of_a_letter_are_in_no_debug_text() {
        let letter = letter("meet me at noon", None);
        assert_eq!(format!("{letter:?}"), format!("Letter({}, 15 bytes)", letter.digest().short()));
    }

    fn letter(text: &str, part: Option<LetterPart>) -> Letter {
        Letter {
            nonce: [1; 16],
            session: None,
            in_reply_to: None,
            conversation: None,
            hops: 0,
            told_unix_ms: 1,
            text: text.to_owned(),
            part,
        }
    }

    #[test]
    fn bytes_of_a_letter_are_its_words_and_its_part() {
        let part = LetterPart { kind: 1, body: vec![0; 7] };
        for (letter, bytes) in [(letter("", None), 0), (letter("wörd", None), 5), (letter("wörd", Some(part)), 12)] {
            assert_eq!((letter.bytes(), LetterFacts::of(&letter).bytes), (bytes, bytes as u32));
            assert_eq!(decode(&encode(&letter)), Ok(letter));
        }
    }

    #[test]
    fn name_of_a_letter_tells_it_from_the_next_one() {
        let id = LetterId {
            origin: DeviceId::new([1; 32]),
            incarnation: Incarnation::new([2; 16]),
            stream: DeviceId::new([3; 32]),
            seq: 4,
        };
        let names = [id, LetterId { seq: 5, ..id }].map(|id| id.short());
        assert!(tell_apart(names.iter().map(String::as_str)));
        assert!(names.iter().all(|name| name.len() == 8 && name.bytes().all(|b| b.is_ascii_hexdigit())), "{names:?}");
    }

    #[test]
    fn state_is_called_as_its_number_is() {
        for (number, name) in sentence("What became of a letter") {
            let state: LetterState = of_zeros(number).unwrap();
            assert_eq!(name.split_whitespace().next(), Some(state.word()));
        }
        assert_eq!(of_zeros::<LetterState>(7), None);
    }
}
