//! Ledgers whose lines lose nothing.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use cede_wire::id::{DeviceId, Hash, Incarnation, SessionId};
use cede_wire::letter::{Letter, LetterFacts, LetterId, LetterReceipts, LetterState};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;

use super::super::output::{LedgerEvent, Output, Post, PostItem};
use super::super::{Arrival, ArrivedItem, Ledger, MarkError, TellError, Told};
use super::{LAPTOP, SERVER};
use crate::limits;
use crate::now::Now;

/// Devices whose lines lose nothing, with everything that they said and made durable.
pub(super) struct Mesh {
    pub(super) nodes: BTreeMap<DeviceId, Node>,
    pub(super) letters: BTreeMap<Hash, LetterFacts>,
    pub(super) now: Now,
    /// Who may send to whom; nobody is kept from it who is not named.
    pub(super) unwanted: BTreeSet<DeviceId>,
    pub(super) space: bool,
    pub(super) nonces: u64,
    /// Frames that were handed over: each has a higher number.
    pub(super) frames: u64,
}

pub(super) struct Node {
    pub(super) ledger: Ledger,
    pub(super) disk: Vec<Record>,
    pub(super) events: Vec<LedgerEvent>,
    pub(super) said: Vec<(DeviceId, Said)>,
}

#[derive(Debug, Clone)]
pub(super) enum Said {
    Frame(PeerMessage),
    Letters(Post),
}

impl Mesh {
    pub(super) fn new(devices: &[DeviceId]) -> Self {
        let now = Now { monotonic: Duration::from_secs(100), unix_ms: 1_000_000 };
        let node = |device: &DeviceId| {
            let mut ledger = Ledger::restore(*device, [].iter(), now);
            ledger.begin(Incarnation::new([device.as_bytes()[0]; 16]), None);
            (*device, Node { ledger, disk: Vec::new(), events: Vec::new(), said: Vec::new() })
        };
        let nodes = devices.iter().map(node).collect();
        let (letters, unwanted) = (BTreeMap::new(), BTreeSet::new());
        let mut mesh = Self { nodes, letters, now, unwanted, space: true, nonces: 0, frames: 1 << 60 };
        for one in devices {
            for other in devices.iter().filter(|other| *other != one) {
                mesh.at(*one).ledger.link_up(*other, now);
            }
        }
        mesh.settle();
        mesh
    }

    pub(super) fn pair() -> Self {
        Self::new(&[LAPTOP, SERVER])
    }

    pub(super) fn at(&mut self, device: DeviceId) -> &mut Node {
        self.nodes.get_mut(&device).unwrap()
    }

    pub(super) fn drain(&mut self, device: DeviceId) {
        let node = self.at(device);
        while let Some(output) = node.ledger.poll() {
            match output {
                Output::Persist(batch) => node.disk.extend(batch),
                Output::Send(to, message) => node.said.push((to, Said::Frame(*message))),
                Output::Post(to, post) => node.said.push((to, Said::Letters(post))),
                Output::Tell(event) => node.events.push(event),
            }
        }
    }

    /// A device removes another one.
    pub(super) fn forget(&mut self, device: DeviceId, removed: DeviceId) {
        let now = self.now;
        self.at(device).ledger.forget(removed, now);
    }

    /// Everything that is said arrives, until nobody says more.
    pub(super) fn settle(&mut self) {
        loop {
            let devices: Vec<DeviceId> = self.nodes.keys().copied().collect();
            devices.iter().for_each(|device| self.drain(*device));
            let said: Vec<_> = devices
                .iter()
                .flat_map(|from| {
                    core::mem::take(&mut self.at(*from).said).into_iter().map(|(to, what)| (*from, to, what))
                })
                .collect();
            if said.is_empty() {
                return;
            }
            said.into_iter().for_each(|(from, to, what)| self.deliver(from, to, &what));
        }
    }

    pub(super) fn deliver(&mut self, from: DeviceId, to: DeviceId, what: &Said) {
        let (now, space) = (self.now, self.space);
        let arrival = match what {
            Said::Letters(post) => Some(self.arrival(post)),
            Said::Frame(PeerMessage::Letters(letters)) => {
                Some(Arrival { incarnation: letters.incarnation, number: letters.number, items: Vec::new() })
            }
            Said::Frame(_) => None,
        };
        let unwanted = self.unwanted.clone();
        let admits = move |device: DeviceId| !unwanted.contains(&device);
        let node = self.at(to);
        match (arrival, what) {
            (Some(arrival), _) => node.ledger.handle_letters(from, &arrival, &admits, space, now),
            (None, Said::Frame(PeerMessage::LetterReceipts(said))) => node.ledger.handle_receipts(from, said, now),
            (None, Said::Frame(PeerMessage::ReceiptsHeld(held))) => node.ledger.handle_held(from, held, now),
            (None, other) => panic!("not a letter: {other:?}"),
        }
        self.drain(to);
    }

    pub(super) fn arrival(&self, post: &Post) -> Arrival {
        let item = |item: &PostItem| match item {
            PostItem::Gone { from, through, why } => ArrivedItem::Gone { from: *from, through: *through, why: *why },
            PostItem::Letter { seq, first, expires_in_ms, digest } => ArrivedItem::Letter {
                seq: *seq,
                first: *first,
                expires_in_ms: *expires_in_ms,
                facts: Box::new(self.letters[digest]),
            },
        };
        Arrival { incarnation: post.incarnation, number: post.number, items: post.items.iter().map(item).collect() }
    }

    pub(super) fn facts(&mut self, text: &str) -> LetterFacts {
        self.nonces += 1;
        let letter = Letter {
            nonce: u128::from(self.nonces).to_be_bytes(),
            session: None,
            in_reply_to: None,
            conversation: None,
            hops: 0,
            told_unix_ms: self.now.unix_ms,
            text: text.to_owned(),
            part: None,
        };
        LetterFacts::of(&letter)
    }

    pub(super) fn tell(&mut self, from: DeviceId, to: DeviceId) -> LetterId {
        self.tell_for(from, to, None)
    }

    pub(super) fn tell_for(&mut self, from: DeviceId, to: DeviceId, session: Option<SessionId>) -> LetterId {
        let facts = LetterFacts { session, ..self.facts("words") };
        self.tell_facts(from, to, facts, limits::LETTER_TTL).unwrap()
    }

    pub(super) fn tell_facts(
        &mut self,
        from: DeviceId,
        to: DeviceId,
        facts: LetterFacts,
        expires: Duration,
    ) -> Result<LetterId, TellError> {
        self.letters.insert(facts.digest, facts);
        let now = self.now;
        let id = self.at(from).ledger.tell(Told { to, facts, expires }, now)?;
        self.settle();
        Ok(id)
    }

    pub(super) fn state(&self, from: DeviceId, id: LetterId) -> Option<LetterState> {
        self.nodes[&from].ledger.told(id).unwrap().kept.state
    }

    pub(super) fn inbox(&self, device: DeviceId) -> Vec<LetterId> {
        self.nodes[&device].ledger.inbox().filter(|l| l.passed_on.is_none()).map(|letter| letter.kept.id).collect()
    }

    pub(super) fn mark(&mut self, device: DeviceId, id: LetterId, state: LetterState) -> Result<(), MarkError> {
        let now = self.now;
        let marked = self.at(device).ledger.mark(id, state, now);
        self.settle();
        marked
    }

    pub(super) fn cut(&mut self, one: DeviceId, other: DeviceId) {
        self.at(one).ledger.link_down(other);
        self.at(other).ledger.link_down(one);
    }

    pub(super) fn join(&mut self, one: DeviceId, other: DeviceId) {
        let now = self.now;
        self.at(one).ledger.link_up(other, now);
        self.at(other).ledger.link_up(one, now);
        self.settle();
    }

    /// The device starts again from its disk, or from what was on it earlier.
    pub(super) fn restart_from(&mut self, device: DeviceId, disk: Vec<Record>) {
        let others: Vec<DeviceId> = self.nodes.keys().copied().filter(|other| *other != device).collect();
        others.iter().for_each(|other| self.cut(device, *other));
        let now = self.now;
        let node = self.at(device);
        node.ledger = Ledger::restore(device, disk.iter(), now);
        (node.disk, node.said) = (disk, Vec::new());
        others.iter().for_each(|other| self.join(device, *other));
    }

    pub(super) fn restart(&mut self, device: DeviceId) {
        let disk = self.nodes[&device].disk.clone();
        self.restart_from(device, disk);
    }

    pub(super) fn wait(&mut self, time: Duration) {
        let until = self.now.after(time);
        loop {
            let due = self.nodes.values().filter_map(|node| node.ledger.poll_timeout()).min();
            let next = due.unwrap_or(until).clamp(self.now.monotonic, until);
            let passed = next - self.now.monotonic;
            self.now = Now { monotonic: next, unix_ms: self.now.unix_ms + u64::try_from(passed.as_millis()).unwrap() };
            let now = self.now;
            self.nodes.values_mut().for_each(|node| node.ledger.handle_timeout(now));
            assert!(self.nodes.values().all(|node| node.ledger.poll_timeout().is_none_or(|at| at > next)));
            self.settle();
            if next == until {
                return;
            }
        }
    }
}

impl Mesh {
    /// The letter alone, as a frame.
    pub(super) fn first_arrival(&self, id: LetterId, _to: DeviceId) -> Arrival {
        let letter = self.nodes[&id.origin].ledger.told(id).unwrap();
        let facts = Box::new(letter.kept.facts);
        let item = ArrivedItem::Letter { seq: id.seq, first: None, expires_in_ms: 1_000_000, facts };
        Arrival { incarnation: id.incarnation, number: 1, items: vec![item] }
    }

    pub(super) fn hand(&mut self, from: DeviceId, to: DeviceId, arrival: &Arrival) -> LetterReceipts {
        let (now, space) = (self.now, self.space);
        let unwanted = self.unwanted.clone();
        let admits = move |device: DeviceId| !unwanted.contains(&device);
        self.frames += 1;
        let arrival = Arrival { number: self.frames, ..arrival.clone() };
        self.at(to).ledger.handle_letters(from, &arrival, &admits, space, now);
        self.drain(to);
        let said = core::mem::take(&mut self.at(to).said);
        let answer = said.into_iter().find_map(|(_, what)| match what {
            Said::Frame(PeerMessage::LetterReceipts(said)) => Some(said),
            Said::Frame(_) | Said::Letters(_) => None,
        });
        answer.expect("an answer")
    }

    pub(super) fn letter(&mut self, seq: u64) -> ArrivedItem {
        let facts = Box::new(self.facts("words"));
        ArrivedItem::Letter { seq, first: None, expires_in_ms: 1_000_000, facts }
    }
}

impl Mesh {
    /// A letter whose digest is made from its place: thousands are distinct.
    pub(super) fn letter_of(&mut self, seq: u64) -> ArrivedItem {
        let facts = LetterFacts { digest: Hash::of(&seq.to_le_bytes()), ..self.template() };
        ArrivedItem::Letter { seq, first: None, expires_in_ms: 1_000_000_000, facts: Box::new(facts) }
    }

    pub(super) fn template(&self) -> LetterFacts {
        LetterFacts {
            digest: Hash::of(b""),
            bytes: 10,
            session: None,
            in_reply_to: None,
            conversation: None,
            hops: 0,
            told_unix_ms: 0,
        }
    }
}

pub(super) fn frame(items: Vec<ArrivedItem>) -> Arrival {
    Arrival { incarnation: Incarnation::new([1; 16]), number: 1, items }
}
