//! The receiver's end: each letter once, and what became of it.

use core::time::Duration;

use cede_wire::id::{DeviceId, Incarnation};
use cede_wire::letter::{
    GoneWhy, KeptLetter, LetterFacts, LetterId, LetterReceipt, LetterReceipts, LetterRecord, LetterRoom, LetterState,
    ReceiptsHeld,
};
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;

use super::output::{Gap, LedgerEvent, Output};
use super::streams::{Got, StreamKey};
use super::timers::Due;
use super::{Ledger, MarkError, keys, oldest};
use crate::limits;
use crate::now::Now;

/// A frame of letters whose words are durable here under their digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Which life of the sender's outbox.
    pub incarnation: Incarnation,
    /// The number of the frame.
    pub number: u64,
    /// What came.
    pub items: Vec<ArrivedItem>,
}

/// One item of an [`Arrival`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArrivedItem {
    /// A letter.
    Letter {
        /// Its place.
        seq: u64,
        /// The id that it had first.
        first: Option<LetterId>,
        /// How long it lives, milliseconds.
        expires_in_ms: u64,
        /// What it is.
        facts: Box<LetterFacts>,
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

/// What one frame leads to.
#[derive(Default)]
struct Taken {
    records: Vec<LetterRecord>,
    news: Vec<LedgerEvent>,
    /// Places that the frame named: their states are said.
    named: Vec<u64>,
    full: bool,
}

impl Ledger {
    /// A frame of letters came. `admits` says whose letters are wanted here, `space` whether the disk has room for them.
    pub fn handle_letters(
        &mut self,
        from: DeviceId,
        arrival: &Arrival,
        admits: &dyn Fn(DeviceId) -> bool,
        space: bool,
        now: Now,
    ) {
        let key = (from, arrival.incarnation);
        if !self.is_news(key, arrival.number) {
            return self.give_up(arrival);
        }
        let mut taken = Taken::default();
        if !admits(from) {
            self.answer(key, arrival.number, LetterRoom::NotGranted, &[], now);
        } else if self.quarantined.contains(&from) || self.too_many_lives(key, &mut taken) {
            self.persist(core::mem::take(&mut taken.records));
            self.answer(key, arrival.number, LetterRoom::Quarantined, &[], now);
        } else {
            for item in rows(&arrival.items) {
                self.take_item(key, &item, admits, space, &mut taken, now);
                if taken.full || self.quarantined.contains(&from) {
                    break;
                }
            }
            self.persist(core::mem::take(&mut taken.records));
            let room = match taken.full {
                _ if self.quarantined.contains(&from) => LetterRoom::Quarantined,
                true => LetterRoom::Full,
                false => self.room(from, space),
            };
            self.answer(key, arrival.number, room, &taken.named, now);
        }
        taken.news.into_iter().for_each(|event| self.tell_event(event));
        self.give_up(arrival);
    }

    /// Nothing comes of a frame beyond what came of it already: words that no letter needs go.
    pub fn give_up(&mut self, arrival: &Arrival) {
        for item in &arrival.items {
            if let ArrivedItem::Letter { facts, .. } = item
                && !self.words.contains_key(&facts.digest)
            {
                self.tell_event(LedgerEvent::Forget(facts.digest));
            }
        }
    }

    /// Whether a frame was said after all that were answered. What an answer said is not here must not come from a frame that
    /// was under way meanwhile: its sender may have ended it.
    fn is_news(&mut self, key: StreamKey, number: u64) -> bool {
        let known = keys(&self.heard, key.0);
        if !known.contains(&key) && known.len() > limits::LETTER_STREAMS {
            return false;
        }
        let last = self.heard.entry(key).or_default();
        let news = number > *last;
        *last = number.max(*last);
        news
    }

    /// A peer that makes up one life of its outbox after the other would be remembered for ever. One whose store was put back
    /// that often is taken again once its operator says so.
    fn too_many_lives(&mut self, key: StreamKey, taken: &mut Taken) -> bool {
        let most = self.lives.get(&key.0).copied().unwrap_or(limits::LETTER_STREAMS);
        let many = !self.ins.contains_key(&key) && keys(&self.ins, key.0).len() >= most;
        if many {
            self.quarantined.insert(key.0);
            taken.records.push(LetterRecord::Quarantine { device: key.0, on: true });
            taken.news.push(LedgerEvent::PeerFault { device: key.0, what: "it began too many outboxes" });
        }
        many
    }

    fn take_item(
        &mut self,
        key: StreamKey,
        item: &ArrivedItem,
        admits: &dyn Fn(DeviceId) -> bool,
        space: bool,
        taken: &mut Taken,
        now: Now,
    ) {
        match item {
            ArrivedItem::Gone { from, through, why } => self.take_gone(key, (*from, *through), *why, space, taken),
            ArrivedItem::Letter { seq, first, expires_in_ms, facts } => {
                let id = self.in_id(key, *seq);
                let (first, expires_in_ms, facts) = (*first, *expires_in_ms, **facts);
                let kept = KeptLetter { id, first, facts, expires_in_ms, at_unix_ms: now.unix_ms, state: None };
                self.take_letter(key, kept, admits, space, taken, now);
            }
        }
    }

    fn take_letter(
        &mut self,
        key: StreamKey,
        mut kept: KeptLetter,
        admits: &dyn Fn(DeviceId) -> bool,
        space: bool,
        taken: &mut Taken,
        now: Now,
    ) {
        let (id, seq) = (kept.id, kept.id.seq);
        let stream = self.ins.entry(key).or_default();
        if stream.knows(seq) {
            let other = stream.entries.get(&seq).is_some_and(|entry| entry.kept.facts.digest != kept.facts.digest);
            if other {
                self.quarantined.insert(key.0);
                taken.records.push(LetterRecord::Quarantine { device: key.0, on: true });
                taken.news.push(LedgerEvent::Quarantined(id));
            } else {
                taken.named.push(seq);
            }
            return;
        }
        if !stream.reaches(seq) {
            if !core::mem::replace(&mut stream.jumped, true) {
                taken.news.push(LedgerEvent::PeerFault { device: key.0, what: "its letters jump" });
            }
            return;
        }
        if self.room(key.0, space) == LetterRoom::Full {
            taken.full = true;
            return;
        }
        kept.facts.hops = self.true_hops(&kept.facts);
        kept.expires_in_ms = kept.expires_in_ms.min(u64::try_from(limits::LETTER_TTL.as_millis()).unwrap_or(u64::MAX));
        let state = self.first_state(&kept, admits);
        kept.state = Some(state);
        taken.records.push(LetterRecord::Kept(Box::new(kept)));
        taken.named.push(seq);
        if !state.is_final() {
            taken.news.push(LedgerEvent::Arrived(id));
        }
        let deadline = now.after(Duration::from_millis(kept.expires_in_ms));
        self.keep_got(key, Got { kept, deadline, attempts: 0, reading: 0, held: false, passed_on: None });
    }

    pub(super) fn keep_got(&mut self, key: StreamKey, entry: Got) {
        let seq = entry.kept.id.seq;
        if !entry.ended() {
            self.due.insert((entry.deadline, Due::Got(key, seq)));
        }
        self.need(entry.kept.facts.digest);
        let stream = self.ins.entry(key).or_default();
        stream.learn(seq, seq);
        stream.put(seq, entry);
    }

    fn first_state(&self, kept: &KeptLetter, admits: &dyn Fn(DeviceId) -> bool) -> LetterState {
        if let Some(first) = kept.first {
            if first.origin != self.me && !admits(first.origin) {
                return LetterState::Refused(Refusal::NotGranted);
            }
            // It comes back to where it was once: then it went on from here, and is welcome. Other words under its name are no
            // repetition: whoever passes them on could else keep the letter itself away. Nor is it one of what was a repetition
            // itself: the letter that it repeated may have gone on since.
            let is_here = |letter: super::Standing| {
                letter.first() == first
                    && letter.kept.facts.digest == kept.facts.digest
                    && letter.passed_on.is_none()
                    && letter.kept.state != Some(LetterState::Duplicate)
            };
            if self.inbox().any(is_here) {
                return LetterState::Duplicate;
            }
        }
        if kept.expires_in_ms == 0 { LetterState::Expired } else { LetterState::Received }
    }

    /// A peer's count of the replies before is believed only upwards.
    fn true_hops(&self, facts: &LetterFacts) -> u32 {
        let parent = facts.in_reply_to.and_then(|parent| self.told(parent));
        parent.map_or(facts.hops, |parent| facts.hops.max(parent.kept.facts.hops.saturating_add(1)))
    }

    fn take_gone(&mut self, key: StreamKey, (from, through): (u64, u64), why: GoneWhy, space: bool, taken: &mut Taken) {
        let stream = self.ins.entry(key).or_default();
        let next = stream.through.saturating_add(1);
        let from = from.max(next);
        if from > through || (from > next && !stream.reaches(through)) {
            return;
        }
        let fresh =
            (from..=through.min(from.saturating_add(cede_wire::limits::LETTERS_AHEAD))).any(|seq| !stream.knows(seq));
        // It is a record like a letter, and a peer says as many of them as it likes.
        if fresh && !space {
            taken.full = true;
            return;
        }
        stream.learn(from, through);
        if !fresh {
            return;
        }
        let first = self.in_id(key, from);
        taken.records.push(LetterRecord::Gone { from: first, through, why });
        if why == GoneWhy::Forgotten {
            let gap = Gap { from: first, through };
            self.note_gap(gap);
            taken.news.push(LedgerEvent::Gap(gap));
        }
    }

    fn room(&self, peer: DeviceId, space: bool) -> LetterRoom {
        let loads = keys(&self.ins, peer).into_iter().filter_map(|key| Some(self.ins.get(&key)?.load()));
        let (letters, bytes) = loads.fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1));
        let letters = limits::INBOX_LETTERS.saturating_sub(letters).min(limits::LETTERS.saturating_sub(self.letters()));
        let bytes = limits::INBOX_BYTES.saturating_sub(bytes);
        if !space || letters == 0 || bytes < cede_wire::limits::LETTER_BYTES as u64 {
            return LetterRoom::Full;
        }
        LetterRoom::Open { letters: u32::try_from(letters).unwrap_or(u32::MAX), bytes }
    }

    /// Answers a frame: with all that is known beyond the first gap, what the frame named, and what is unsaid.
    fn answer(&mut self, key: StreamKey, answers: u64, room: LetterRoom, named: &[u64], now: Now) {
        let closed = !matches!(room, LetterRoom::Open { .. });
        let Some(stream) = self.ins.get_mut(&key) else {
            let said = LetterReceipts { incarnation: key.1, answers, through: 0, room, receipts: Vec::new() };
            self.outputs.push_back(Output::Send(key.0, Box::new(PeerMessage::LetterReceipts(said))));
            return;
        };
        stream.said_full = closed;
        let state = |seq: u64| stream.entries.get(&seq).map_or(LetterState::Received, Got::state);
        let above = stream.above.iter().copied();
        let beyond = named.iter().copied().filter(|seq| *seq <= stream.through && state(*seq) != LetterState::Received);
        let unsaid = stream.unsaid.iter().chain(&stream.unheld).copied();
        let mut seqs: Vec<u64> = above.chain(beyond).chain(unsaid).collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs.truncate(cede_wire::limits::RECEIPTS_PER_FRAME);
        let receipts: Vec<LetterReceipt> =
            seqs.into_iter().map(|seq| LetterReceipt { seq, state: state(seq) }).collect();
        for receipt in &receipts {
            stream.unsaid.remove(&receipt.seq);
        }
        let said = LetterReceipts { incarnation: key.1, answers, through: stream.through, room, receipts };
        let again = !stream.unheld.is_empty() || !stream.unsaid.is_empty();
        let wait = stream.wait.max(limits::RECEIPT_AGAIN);
        self.outputs.push_back(Output::Send(key.0, Box::new(PeerMessage::LetterReceipts(said))));
        if again {
            self.set_in_timer(key, wait, now);
        }
    }

    /// Says unasked what is new of a stream.
    pub(super) fn say(&mut self, key: StreamKey, answers: u64, now: Now) {
        if self.linked.contains(&key.0) {
            let quarantined = self.quarantined.contains(&key.0);
            let room = if quarantined { LetterRoom::Quarantined } else { self.room(key.0, true) };
            self.answer(key, answers, room, &[], now);
        }
    }

    /// A link stands: what the sender does not hold is said at once.
    pub(super) fn say_all(&mut self, peer: DeviceId, now: Now) {
        for key in keys(&self.ins, peer) {
            if let Some(stream) = self.ins.get_mut(&key) {
                (stream.wait, stream.jumped) = (limits::RECEIPT_AGAIN, false);
                let shown = stream.entries.iter().filter(|(_, entry)| entry.state() == LetterState::Shown);
                let shown: Vec<u64> = shown.map(|(seq, _)| *seq).collect();
                stream.unsaid.extend(shown);
                if stream.unheld() {
                    self.say(key, 0, now);
                }
            }
        }
    }

    /// There is room for letters of this device, or they are wanted again: where it heard otherwise it hears that.
    pub fn say_room(&mut self, peer: DeviceId, now: Now) {
        for key in keys(&self.ins, peer) {
            if self.ins.get(&key).is_some_and(|stream| stream.said_full) {
                self.say(key, 0, now);
            }
        }
    }

    /// The sender holds final receipts.
    pub fn handle_held(&mut self, from: DeviceId, held: &ReceiptsHeld, now: Now) {
        let key = (from, held.incarnation);
        let Some(stream) = self.ins.get_mut(&key) else { return };
        let ended = |seq: &&u64| stream.unheld.contains(seq);
        let mut seqs: Vec<u64> = held.seqs.iter().filter(ended).copied().collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs.iter().for_each(|seq| stream.settle(*seq));
        if stream.unheld.is_empty() && stream.unsaid.is_empty() {
            stream.timer = None;
        }
        let room_again = stream.said_full && !seqs.is_empty();
        let more = !stream.unheld.is_empty() && !seqs.is_empty();
        let records = seqs.iter().map(|seq| LetterRecord::Held { id: self.in_id(key, *seq) }).collect();
        self.persist(records);
        self.trim_in(key);
        if more {
            self.say(key, 0, now);
        } else if room_again && matches!(self.room(from, true), LetterRoom::Open { .. }) {
            self.say_room(from, now);
        }
    }

    /// A person or an agent dealt with a letter: it is shown, acted on or refused.
    ///
    /// # Errors
    /// [`MarkError`]; nothing changed.
    pub fn mark(&mut self, id: LetterId, state: LetterState, now: Now) -> Result<(), MarkError> {
        let letter = self.received(id).ok_or(MarkError::Unknown)?;
        if let Some(next) = letter.passed_on {
            return Err(MarkError::PassedOn(next.stream));
        }
        match letter.kept.state {
            Some(before) if before == state => return Ok(()),
            Some(before) if before.is_final() => return Err(MarkError::Ended(before)),
            Some(_) | None => {}
        }
        self.end_got(vec![(id, state)], now);
        Ok(())
    }

    /// Letters of the inbox move forward, and their senders hear of it.
    pub(super) fn end_got(&mut self, moved: Vec<(LetterId, LetterState)>, now: Now) {
        let mut told: Vec<StreamKey> = moved.iter().map(|(id, _)| (id.origin, id.incarnation)).collect();
        let records = moved.into_iter().filter_map(|(id, state)| self.move_got(id, state)).collect();
        self.persist_all(records);
        told.sort_unstable();
        told.dedup();
        told.into_iter().for_each(|key| self.say(key, 0, now));
    }

    pub(super) fn move_got(&mut self, id: LetterId, state: LetterState) -> Option<LetterRecord> {
        let stream = self.ins.get_mut(&(id.origin, id.incarnation))?;
        let entry = stream.entries.get_mut(&id.seq)?;
        if !entry.state().may_become(state) {
            return None;
        }
        entry.kept.state = Some(state);
        // Its words were read.
        (entry.attempts, entry.reading) = (0, 0);
        stream.unsaid.insert(id.seq);
        if state.is_final() {
            stream.unheld.insert(id.seq);
            stream.wait = limits::RECEIPT_AGAIN;
        }
        Some(LetterRecord::Moved { id, state })
    }

    /// A letter is about to be read. Once that is durable it may be; what was read once needs no more of that. False: it
    /// failed as often as it may, or there is none.
    pub fn attempt(&mut self, id: LetterId, now: Now) -> bool {
        let Some(entry) = self.in_entry(id) else { return false };
        if entry.state() != LetterState::Received {
            return entry.state() != LetterState::Quarantined;
        }
        if entry.failures() >= limits::LETTER_ATTEMPTS {
            self.end_got(vec![(id, LetterState::Quarantined)], now);
            return false;
        }
        (entry.attempts, entry.reading) = (entry.attempts + 1, entry.reading + 1);
        let attempts = entry.attempts;
        self.persist(vec![LetterRecord::Attempted { id, attempts }]);
        true
    }

    /// It was read, and nobody was given its words after all: the attempt did not fail, and counts for nothing.
    pub fn unread(&mut self, id: LetterId) {
        let Some(entry) = self.in_entry(id).filter(|entry| entry.state() == LetterState::Received) else { return };
        entry.reading = entry.reading.saturating_sub(1);
        entry.attempts = entry.attempts.saturating_sub(1);
        let attempts = entry.attempts;
        self.persist(vec![LetterRecord::Attempted { id, attempts }]);
    }

    /// The reading failed.
    pub fn failed(&mut self, id: LetterId, now: Now) {
        let Some(entry) = self.in_entry(id) else { return };
        entry.reading = entry.reading.saturating_sub(1);
        if entry.state() == LetterState::Received && entry.failures() >= limits::LETTER_ATTEMPTS {
            self.end_got(vec![(id, LetterState::Quarantined)], now);
        }
    }

    pub(super) fn trim_in(&mut self, key: StreamKey) {
        let (origin, incarnation, stream) = (key.0, key.1, self.me);
        let letter = |seq| LetterId { origin, incarnation, stream, seq };
        while let Some(stream) = self.ins.get_mut(&key)
            && let Some(seq) = oldest(&stream.settled, |seq| self.tasks.contains(&letter(seq)))
        {
            stream.settled.remove(&seq);
            let Some(entry) = stream.entries.remove(&seq) else { continue };
            if let Some(next) = entry.passed_on {
                self.passed.remove(&next);
            }
            self.unneed(entry.kept.facts.digest);
        }
    }
}

/// The items with places that follow each other without a letter taken together: each row is a record.
fn rows(items: &[ArrivedItem]) -> Vec<ArrivedItem> {
    let mut rows: Vec<ArrivedItem> = Vec::with_capacity(items.len());
    for item in items {
        match (rows.last_mut(), item) {
            (Some(ArrivedItem::Gone { through: end, why: before, .. }), ArrivedItem::Gone { from, through, why })
                if why == before && end.checked_add(1) == Some(*from) && through >= from =>
            {
                *end = *through
            }
            _ => rows.push(item.clone()),
        }
    }
    rows
}
