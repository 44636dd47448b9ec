//! The two ends of a stream: what a sender and a receiver know of each place.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use cede_wire::id::{DeviceId, Incarnation};
use cede_wire::letter::{KeptLetter, LetterId, LetterRoom, LetterState};
use cede_wire::limits::LETTERS_AHEAD;

use super::Standing;
use crate::limits;

/// The other device, and the life of the sender's outbox.
pub(super) type StreamKey = (DeviceId, Incarnation);

/// A stream of this device's letters to one peer.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    /// The last place given.
    pub(super) last: u64,
    pub(super) entries: BTreeMap<u64, Sent>,
    /// Places of letters that ended and that the peer knows.
    pub(super) settled: BTreeSet<u64>,
    /// Bytes of the others' words.
    pub(super) open_bytes: u64,
    /// How far the peer is, as it last said, and what it has beyond.
    pub(super) through: u64,
    pub(super) above: BTreeSet<u64>,
    pub(super) exchange: Exchange,
    pub(super) room: (u32, u64),
    /// The highest place of which it was noted that the peer forgot it. A peer that forgets and remembers is believed once.
    pub(super) forgotten: u64,
    /// Why the peer takes none.
    pub(super) closed: Option<LetterRoom>,
    pub(super) wait: Duration,
    pub(super) timer: Option<Duration>,
    /// The peer knows places that this device never gave: none is given any more.
    pub(super) spoiled: bool,
}

/// Where the talk about a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    /// There is no link, or the peer has not said yet how far it is.
    Away,
    /// The frame of this number is to be answered.
    Waiting(u64),
    /// Everything was answered.
    Idle,
    /// The peer takes nothing now.
    Closed,
}

/// A letter of the outbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) kept: KeptLetter,
    pub(super) deadline: Duration,
    /// Whether it may have left: only then the peer may have it without this device knowing.
    pub(super) left: bool,
    pub(super) overdue: bool,
}

impl Sent {
    pub(super) fn ended(&self) -> bool {
        self.kept.state.is_some_and(LetterState::is_final)
    }

    pub(super) fn standing(&self) -> Standing {
        Standing { kept: self.kept, passed_on: None, attempts: 0, overdue: self.overdue }
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            last: 0,
            entries: BTreeMap::new(),
            settled: BTreeSet::new(),
            open_bytes: 0,
            through: 0,
            above: BTreeSet::new(),
            exchange: Exchange::Away,
            room: (0, 0),
            forgotten: 0,
            closed: None,
            wait: limits::LETTER_ANSWER,
            timer: None,
            spoiled: false,
        }
    }
}

impl Outgoing {
    /// Letters that wait for their end, and bytes of their words.
    pub(super) fn load(&self) -> (usize, u64) {
        (self.entries.len().saturating_sub(self.settled.len()), self.open_bytes)
    }

    pub(super) fn put(&mut self, seq: u64, entry: Sent) {
        self.last = self.last.max(seq);
        self.open_bytes += u64::from(entry.kept.facts.bytes);
        self.entries.insert(seq, entry);
    }

    /// A letter that ended and whose place the peer knows is history.
    pub(super) fn settle(&mut self, seq: u64) {
        let Some(entry) = self.entries.get(&seq) else { return };
        if entry.ended() && seq <= self.through && self.settled.insert(seq) {
            self.open_bytes = self.open_bytes.saturating_sub(u64::from(entry.kept.facts.bytes));
        }
    }
}

/// A stream of a peer's letters to this device.
#[derive(Debug, Clone, Default)]
pub(super) struct Incoming {
    /// Every place up to this one is known.
    pub(super) through: u64,
    /// Places known beyond it.
    pub(super) above: BTreeSet<u64>,
    pub(super) entries: BTreeMap<u64, Got>,
    /// Places of letters that ended and whose sender knows.
    pub(super) settled: BTreeSet<u64>,
    /// Bytes of the others' words.
    pub(super) open_bytes: u64,
    /// Places of letters that ended and whose sender does not know yet.
    pub(super) unheld: BTreeSet<u64>,
    /// Places whose state is to be said.
    pub(super) unsaid: BTreeSet<u64>,
    pub(super) wait: Duration,
    pub(super) timer: Option<Duration>,
    /// The sender was last told that there is no room.
    pub(super) said_full: bool,
    /// A jump of the sender was told once.
    pub(super) jumped: bool,
}

/// A letter of the inbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Got {
    pub(super) kept: KeptLetter,
    pub(super) deadline: Duration,
    pub(super) attempts: u32,
    /// Those of this run that neither failed nor succeeded yet.
    pub(super) reading: u32,
    pub(super) held: bool,
    pub(super) passed_on: Option<LetterId>,
}

impl Got {
    pub(super) fn state(&self) -> LetterState {
        self.kept.state.unwrap_or(LetterState::Received)
    }

    pub(super) fn ended(&self) -> bool {
        self.state().is_final()
    }

    /// Attempts that failed. Of an earlier run each did that did not succeed.
    pub(super) fn failures(&self) -> u32 {
        self.attempts.saturating_sub(self.reading)
    }

    /// Whether somebody here may still deal with it.
    pub(super) fn waits(&self) -> bool {
        !self.ended() && self.passed_on.is_none()
    }

    pub(super) fn standing(&self) -> Standing {
        Standing { kept: self.kept, passed_on: self.passed_on, attempts: self.attempts, overdue: false }
    }
}

impl Incoming {
    pub(super) fn knows(&self, seq: u64) -> bool {
        seq <= self.through || self.above.contains(&seq)
    }

    /// Whether a place is near enough to be remembered.
    pub(super) fn reaches(&self, seq: u64) -> bool {
        seq <= self.through.saturating_add(LETTERS_AHEAD)
    }

    /// Places `from` to `through` are known from here on, as far as they are near enough.
    pub(super) fn learn(&mut self, from: u64, through: u64) {
        if from <= self.through.saturating_add(1) {
            self.through = self.through.max(through);
        } else {
            let far = self.through.saturating_add(LETTERS_AHEAD);
            self.above.extend(from..=through.min(far));
        }
        while self.above.first().is_some_and(|next| *next <= self.through.saturating_add(1)) {
            let next = self.above.pop_first().unwrap_or_default();
            self.through = self.through.max(next);
        }
    }

    pub(super) fn unheld(&self) -> bool {
        !self.unheld.is_empty() || !self.unsaid.is_empty()
    }

    /// Letters that nobody has dealt with to the end, and bytes of their words.
    pub(super) fn load(&self) -> (usize, u64) {
        (self.entries.len().saturating_sub(self.settled.len()), self.open_bytes)
    }

    pub(super) fn put(&mut self, seq: u64, entry: Got) {
        self.open_bytes += u64::from(entry.kept.facts.bytes);
        if entry.ended() {
            self.unheld.insert(seq);
        }
        self.entries.insert(seq, entry);
    }

    /// The sender holds the end of this letter: it is history.
    pub(super) fn settle(&mut self, seq: u64) {
        let Some(entry) = self.entries.get_mut(&seq) else { return };
        entry.held = entry.ended();
        if entry.held {
            self.unheld.remove(&seq);
            self.unsaid.remove(&seq);
            if self.settled.insert(seq) {
                self.open_bytes = self.open_bytes.saturating_sub(u64::from(entry.kept.facts.bytes));
            }
        }
    }
}
