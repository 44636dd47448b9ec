//! From the journal back to the outbox and the inbox, and the shortest journal that says the same.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cede_wire::id::DeviceId;
use cede_wire::letter::{GoneWhy, KeptLetter, LetterId, LetterRecord, LetterState};
use cede_wire::record::Record;

use super::Ledger;
use super::output::Gap;
use super::streams::{Got, Sent};
use crate::limits;
use crate::now::Now;
use crate::tasks::TaskBook;

impl Ledger {
    /// Rebuilds the letters of this device from its journal, in the order of the records. What belongs to an earlier key
    /// of this device is left out.
    pub fn restore<'a>(me: DeviceId, records: impl Iterator<Item = &'a Record>, now: Now) -> Self {
        let mut ledger = Self {
            me,
            incarnation: None,
            towards: BTreeMap::new(),
            outs: BTreeMap::new(),
            ins: BTreeMap::new(),
            linked: BTreeSet::new(),
            quarantined: BTreeSet::new(),
            lives: BTreeMap::new(),
            gaps: VecDeque::new(),
            words: BTreeMap::new(),
            heard: BTreeMap::new(),
            tasks: BTreeSet::new(),
            passed: BTreeMap::new(),
            due: BTreeSet::new(),
            outputs: VecDeque::new(),
            to_push: BTreeMap::new(),
            // Answers to frames of an earlier run are not taken for answers to those of this one.
            frames: now.unix_ms << 16,
        };
        let mut book = TaskBook::default();
        for record in records {
            match record {
                Record::Letter(record) => ledger.replay(record, now),
                Record::Task(record) => book.take(*record),
                // Records that may not be the newest know less than peers do: what was told since must not be told otherwise.
                Record::Doubted { .. } => {
                    ledger.incarnation = None;
                    ledger.towards.clear();
                }
                Record::Custody(_)
                | Record::Approved { .. }
                | Record::Staged { .. }
                | Record::Active { .. }
                | Record::Discarded { .. }
                | Record::Retired { .. }
                | Record::FenceRaised { .. }
                | Record::FenceLifted { .. }
                | Record::Installed { .. }
                | Record::Placed(_)
                | Record::Member(_)
                | Record::PeerDropped { .. }
                | Record::PolicySet { .. }
                | Record::RuleSet { .. }
                | Record::ApproverSet { .. }
                | Record::AddressSeen { .. }
                | Record::Voted { .. }
                | Record::Contested(_)
                | Record::Confirmed { .. }
                | Record::SeizedSeen { .. }
                | Record::Marked { .. }
                | Record::Transfer(_) => {}
            }
        }
        ledger.tasks = book.open();
        ledger.drop_old();
        ledger.outputs.clear();
        for stream in ledger.ins.values_mut() {
            // Whatever has to be said is said when a link stands.
            stream.unsaid.clear();
            stream.wait = limits::RECEIPT_AGAIN;
        }
        ledger
    }

    fn replay(&mut self, record: &LetterRecord, now: Now) {
        match record {
            LetterRecord::Begun { incarnation, towards } => self.begun(*incarnation, *towards),
            LetterRecord::Kept(kept) => self.replay_kept(**kept, now),
            LetterRecord::Moved { id, state } if id.origin == self.me => {
                let Some(stream) = self.outs.get_mut(&(id.stream, id.incarnation)) else { return };
                if let Some(entry) = stream.entries.get_mut(&id.seq) {
                    entry.kept.state = Some(*state);
                }
            }
            LetterRecord::Moved { id, state } => drop(self.move_got(*id, *state)),
            LetterRecord::Held { id } if id.origin == self.me => {
                if let Some(stream) = self.outs.get_mut(&(id.stream, id.incarnation)) {
                    stream.through = stream.through.max(id.seq);
                    stream.settle(id.seq);
                    stream.through = 0;
                }
            }
            LetterRecord::Held { id } => {
                if let Some(stream) = self.ins.get_mut(&(id.origin, id.incarnation)) {
                    stream.settle(id.seq);
                }
            }
            LetterRecord::Attempted { id, attempts } => {
                if let Some(entry) = self.in_entry(*id) {
                    entry.attempts = *attempts;
                }
            }
            LetterRecord::Gone { from, through, why } => self.replay_gone(*from, *through, *why),
            LetterRecord::PassedOn { from, to } => self.link_passed(*from, *to),
            LetterRecord::Quarantine { device, on: true } => drop(self.quarantined.insert(*device)),
            LetterRecord::Quarantine { device, on: false } => drop(self.quarantined.remove(device)),
            LetterRecord::Stream { through, above } => self.replay_stream(*through, above),
            LetterRecord::Forgotten { device } => drop(self.drop_peer(*device)),
        }
    }

    fn replay_kept(&mut self, kept: KeptLetter, now: Now) {
        let id = kept.id;
        // The clock may have been set meanwhile: a letter never lives longer for it than it would have from now on.
        let lived = now.unix_ms.saturating_sub(kept.at_unix_ms).min(kept.expires_in_ms);
        let deadline = now.after(Duration::from_millis(kept.expires_in_ms - lived));
        if id.origin == self.me {
            self.keep_sent((id.stream, id.incarnation), Sent { kept, deadline, left: true, overdue: false });
        } else if id.stream == self.me {
            let entry = Got { kept, deadline, attempts: 0, reading: 0, held: false, passed_on: None };
            self.keep_got((id.origin, id.incarnation), entry);
        }
    }

    fn replay_gone(&mut self, from: LetterId, through: u64, why: GoneWhy) {
        if from.stream == self.me {
            self.ins.entry((from.origin, from.incarnation)).or_default().learn(from.seq, through);
        } else if from.origin == self.me {
            let stream = self.outs.entry((from.stream, from.incarnation)).or_default();
            stream.forgotten = stream.forgotten.max(through);
        } else {
            return;
        }
        if why == GoneWhy::Forgotten {
            self.note_gap(Gap { from, through });
        }
    }

    fn replay_stream(&mut self, through: LetterId, above: &[u64]) {
        if through.origin == self.me {
            let stream = self.outs.entry((through.stream, through.incarnation)).or_default();
            stream.last = stream.last.max(through.seq);
        } else if through.stream == self.me {
            let stream = self.ins.entry((through.origin, through.incarnation)).or_default();
            stream.learn(1, through.seq);
            above.iter().for_each(|seq| stream.learn(*seq, *seq));
        }
    }

    /// The records that say what this ledger knows. What they omit is forgotten.
    fn snapshot(&self) -> Vec<LetterRecord> {
        let mut records: Vec<_> = self
            .incarnation
            .map(|incarnation| LetterRecord::Begun { incarnation, towards: None })
            .into_iter()
            .collect();
        let towards = |(peer, life): (&DeviceId, &_)| LetterRecord::Begun { incarnation: *life, towards: Some(*peer) };
        records.extend(self.towards.iter().map(towards));
        for (key, stream) in &self.outs {
            records.push(LetterRecord::Stream { through: self.out_id(*key, stream.last), above: Vec::new() });
            records.extend(stream.entries.values().map(|entry| LetterRecord::Kept(Box::new(entry.kept))));
            records.extend(stream.settled.iter().map(|seq| LetterRecord::Held { id: self.out_id(*key, *seq) }));
        }
        for (key, stream) in &self.ins {
            let above = stream.above.iter().copied().collect();
            records.push(LetterRecord::Stream { through: self.in_id(*key, stream.through), above });
            for (seq, entry) in &stream.entries {
                let id = self.in_id(*key, *seq);
                records.push(LetterRecord::Kept(Box::new(entry.kept)));
                let attempts = entry.attempts;
                records.extend((attempts > 0).then_some(LetterRecord::Attempted { id, attempts }));
                records.extend(entry.held.then_some(LetterRecord::Held { id }));
                records.extend(entry.passed_on.map(|to| LetterRecord::PassedOn { from: id, to }));
            }
        }
        records.extend(self.quarantined.iter().map(|device| LetterRecord::Quarantine { device: *device, on: true }));
        let gone = |gap: &Gap| LetterRecord::Gone { from: gap.from, through: gap.through, why: GoneWhy::Forgotten };
        records.extend(self.gaps.iter().map(gone));
        records
    }
}

/// The letters' records of a journal as few as possible: what ended long ago is not among them.
pub fn compact(me: DeviceId, records: &[Record]) -> Vec<Record> {
    let now = Now { monotonic: Duration::ZERO, unix_ms: 0 };
    let snapshot = Ledger::restore(me, records.iter(), now).snapshot();
    snapshot.into_iter().map(|record| Record::Letter(Box::new(record))).collect()
}

impl Ledger {
    /// Letters that ended are kept up to a number.
    fn drop_old(&mut self) {
        let outs: Vec<_> = self.outs.keys().copied().collect();
        for key in outs {
            let Some(stream) = self.outs.get_mut(&key) else { continue };
            // These ended at the peer, so it knows their places.
            let there = |state: LetterState| {
                matches!(state, LetterState::Acted | LetterState::Quarantined | LetterState::Duplicate)
            };
            let over = stream.entries.iter().filter(|(_, entry)| entry.kept.state.is_some_and(there));
            let over: Vec<u64> = over.map(|(seq, _)| *seq).collect();
            stream.through = stream.last;
            over.into_iter().for_each(|seq| stream.settle(seq));
            stream.through = 0;
            self.trim_out(key);
        }
        let ins: Vec<_> = self.ins.keys().copied().collect();
        ins.into_iter().for_each(|key| self.trim_in(key));
    }
}
