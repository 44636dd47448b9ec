//! What really happened: from the records alone, the moment they are durable.

use std::collections::{BTreeMap, BTreeSet};

use cede_wire::id::DeviceId;
use cede_wire::letter::{KeptLetter, LetterId, LetterRecord, LetterState};
use cede_wire::record::Record;

use super::Tally;

/// The life of one letter, by the id that it had first.
#[derive(Debug, Default)]
struct Life {
    /// What its teller knows.
    known: Option<LetterState>,
    /// Whether it was durable at another device.
    arrived: bool,
    /// What was done with it where it waited.
    dealt: Option<LetterState>,
    /// Where it waits.
    waits: BTreeSet<DeviceId>,
}

impl Life {
    fn ended(&self) -> bool {
        self.dealt.is_some_and(LetterState::is_final)
    }
}

pub(super) struct Truth {
    seed: u64,
    lives: BTreeMap<LetterId, Life>,
    /// Letters that became durable in an inbox.
    kept: BTreeSet<(DeviceId, LetterId)>,
    /// The first id of a letter under another one.
    firsts: BTreeMap<LetterId, LetterId>,
    not_ended: usize,
}

impl Truth {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, lives: BTreeMap::new(), kept: BTreeSet::new(), firsts: BTreeMap::new(), not_ended: 0 }
    }

    /// A record is durable at a device.
    pub(super) fn durable(&mut self, device: DeviceId, record: &Record, tally: &mut Tally) {
        let Record::Letter(record) = record else { panic!("seed {}: {record:?}", self.seed) };
        match &**record {
            LetterRecord::Kept(kept) => self.stands(device, kept, tally),
            LetterRecord::Moved { id, state } if id.origin == device => self.teller_knows(*id, *state),
            LetterRecord::Moved { id, state } => self.is_dealt_with(device, *id, *state),
            LetterRecord::PassedOn { from, to } => {
                tally.passed_on += 1;
                let first = self.first(*from);
                self.firsts.insert(*to, first);
                assert!(self.life(*from).waits.remove(&device), "seed {}: passed on from nowhere", self.seed);
            }
            LetterRecord::Begun { .. }
            | LetterRecord::Held { .. }
            | LetterRecord::Attempted { .. }
            | LetterRecord::Gone { .. }
            | LetterRecord::Quarantine { .. }
            | LetterRecord::Stream { .. }
            | LetterRecord::Forgotten { .. } => {}
        }
    }

    fn first(&self, id: LetterId) -> LetterId {
        self.firsts.get(&id).copied().unwrap_or(id)
    }

    fn life(&mut self, id: LetterId) -> &mut Life {
        let first = self.first(id);
        self.lives.get_mut(&first).unwrap_or_else(|| panic!("seed {}: a letter that nobody told", self.seed))
    }

    fn stands(&mut self, device: DeviceId, kept: &KeptLetter, tally: &mut Tally) {
        if kept.id.origin == device {
            if kept.first.is_none() {
                tally.told += 1;
                self.not_ended += 1;
                assert!(self.lives.insert(kept.id, Life::default()).is_none(), "seed {}: one id twice", self.seed);
            }
            return;
        }
        assert!(self.kept.insert((device, kept.id)), "seed {}: {:?} came twice", self.seed, kept.id);
        let seed = self.seed;
        let life = self.life(kept.id);
        life.arrived = true;
        match kept.state {
            Some(LetterState::Received) => {
                assert!(life.waits.is_empty(), "seed {seed}: it waits in two places: {life:?}");
                assert!(!life.ended(), "seed {seed}: it comes again after its end: {life:?}");
                life.waits.insert(device);
            }
            Some(LetterState::Expired) => life.dealt = Some(LetterState::Expired),
            other => panic!("seed {seed}: it came as {other:?}"),
        }
    }

    /// Only where it waits; on the way back to its teller the end is repeated on each device that it passed.
    fn is_dealt_with(&mut self, device: DeviceId, id: LetterId, state: LetterState) {
        let seed = self.seed;
        let life = self.life(id);
        if !life.waits.contains(&device) {
            if state == LetterState::Expired && !life.ended() && life.waits.is_empty() {
                // On the way from one device to another.
                life.dealt = Some(state);
            }
            assert!(life.dealt.is_some(), "seed {seed}: dealt with before it was: {life:?}");
            return;
        }
        // It may be shown on one device, go on, and be shown on the next.
        assert!(!life.ended(), "seed {seed}: twice: {life:?} {state:?}");
        life.dealt = Some(state);
        if state.is_final() {
            life.waits.remove(&device);
        }
    }

    fn teller_knows(&mut self, id: LetterId, state: LetterState) {
        if self.firsts.contains_key(&id) {
            return;
        }
        let seed = self.seed;
        let life = self.life(id);
        let forward = life.known.is_none_or(|before| before.may_become(state));
        assert!(forward, "seed {seed}: from {:?} back to {state:?}", life.known);
        life.known = Some(state);
        match state {
            LetterState::Received => assert!(life.arrived, "seed {seed}: received nowhere"),
            // A letter that never came runs out at its teller.
            LetterState::Expired if !life.ended() => {
                assert!(life.waits.is_empty(), "seed {seed}: expired, and it waits: {life:?}");
                life.dealt = Some(LetterState::Expired);
            }
            LetterState::Shown => assert!(life.dealt.is_some(), "seed {seed}: shown to nobody"),
            _ => assert_eq!(life.dealt, Some(state), "seed {seed}: it ended otherwise"),
        }
        if state.is_final() {
            self.not_ended -= 1;
        }
    }

    /// Whether each teller knows the end of each letter.
    pub(super) fn all_ended(&self) -> bool {
        self.not_ended == 0
    }

    /// Some letters that have no end, for the failure.
    pub(super) fn open(&self) -> Vec<String> {
        let open = self.lives.iter().filter(|(_, life)| !life.known.is_some_and(LetterState::is_final));
        open.take(3).map(|(id, life)| format!("{id:?} {life:?}")).collect()
    }

    pub(super) fn at_the_end(&self, tally: &mut Tally) {
        for life in self.lives.values() {
            match life.dealt {
                Some(LetterState::Acted) => tally.acted += 1,
                Some(LetterState::Refused(_)) => tally.refused += 1,
                Some(LetterState::Expired) => tally.expired += 1,
                _ => tally.missing += 1,
            }
        }
    }
}
