//! Letters in bad weather: devices with the real ledger, a clock that is a number, a network that loses, doubles and
//! reorders at will, disks on which only what was persisted survives, and sessions that change their owner.
//!
//! Everything follows from a seed. Every durable record is held against a plain model of what was told, where it waits
//! and what became of it; a difference panics with the seed.

use core::time::Duration;
use std::collections::BTreeMap;

use cede_core::ledger::output::{LedgerEvent, Output, Post, PostItem};
use cede_core::ledger::{Arrival, ArrivedItem, Ledger, Standing, Told};
use cede_core::now::Now;
use cede_wire::id::{DeviceId, Hash, Incarnation, SessionId};
use cede_wire::letter::{LetterFacts, LetterId, LetterState};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use crate::world::random::Random;

mod truth;

use truth::Truth;

/// How rough it is, as chances in a thousand.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    /// A frame is lost.
    pub lose: u64,
    /// A frame comes twice.
    pub double: u64,
    /// The power fails before one output.
    pub crash: u64,
}

impl Weather {
    const CALM: Self = Self { lose: 0, double: 0, crash: 0 };
}

/// How large and how long.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Devices.
    pub devices: u8,
    /// Letters that are told.
    pub letters: u64,
    /// Restarts beside the power failures.
    pub restarts: u64,
    /// Sessions that letters may be for.
    pub sessions: u8,
    /// Whether letters may run out.
    pub short_lives: bool,
}

/// What happened in one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Letters that were durable at their tellers.
    pub told: u64,
    /// Letters that somebody acted on.
    pub acted: u64,
    /// Letters that were refused.
    pub refused: u64,
    /// Letters that ran out.
    pub expired: u64,
    /// Letters that went on with their session.
    pub passed_on: u64,
    /// Power failures and restarts.
    pub restarts: u64,
    /// Frames that were lost or came twice.
    pub mangled: u64,
    /// Letters that were told and are nowhere.
    pub missing: u64,
}

struct Device {
    id: DeviceId,
    ledger: Ledger,
    disk: Vec<Record>,
}

#[derive(Clone)]
struct Packet {
    from: usize,
    to: usize,
    /// On which link of the two: what was said on one that ended is not heard any more.
    link: u64,
    load: Load,
}

#[derive(Clone)]
enum Load {
    Letters(Arrival),
    Frame(PeerMessage),
}

/// The mesh.
pub struct Mail {
    seed: u64,
    random: Random,
    weather: Weather,
    scale: Scale,
    now: Now,
    devices: Vec<Device>,
    /// The number of the link that stands between two.
    links: BTreeMap<(usize, usize), Option<u64>>,
    next_link: u64,
    packets: Vec<Packet>,
    words: BTreeMap<Hash, LetterFacts>,
    owners: Vec<usize>,
    truth: Truth,
    tally: Tally,
    lives: u64,
}

impl Mail {
    /// A mesh in this weather.
    pub fn new(seed: u64, weather: Weather, scale: Scale) -> Self {
        let now = Now { monotonic: Duration::from_secs(1_000), unix_ms: 1_790_000_000_000 };
        let device = |number: u8| {
            let id = DeviceId::new([number + 1; 32]);
            Device { id, ledger: Ledger::restore(id, [].iter(), now), disk: Vec::new() }
        };
        let devices: Vec<Device> = (0..scale.devices).map(device).collect();
        let pairs = (0..devices.len()).flat_map(|one| (0..one).map(move |other| (other, one)));
        let mut mail = Self {
            seed,
            random: Random::new(seed),
            weather,
            scale,
            now,
            links: pairs.map(|pair| (pair, None)).collect(),
            next_link: 0,
            devices,
            packets: Vec::new(),
            words: BTreeMap::new(),
            owners: vec![0; usize::from(scale.sessions)],
            truth: Truth::new(seed),
            tally: Tally::default(),
            lives: 0,
        };
        (0..mail.devices.len()).for_each(|number| mail.begin(number));
        mail
    }

    /// Tells all letters in the storm, lets it clear, and says what became of them.
    pub fn run(mut self) -> Tally {
        let mut left = self.scale.letters;
        let restart_every = self.scale.letters.checked_div(self.scale.restarts).unwrap_or(u64::MAX).max(1);
        while left > 0 {
            let before = left;
            left -= u64::from(self.step());
            if left != before && left.is_multiple_of(restart_every) {
                let device = self.random.index(self.devices.len());
                self.restart(device);
            }
        }
        self.clear();
        self.truth.at_the_end(&mut self.tally);
        self.tally
    }

    /// One thing happens. True: a letter was told.
    fn step(&mut self) -> bool {
        let device = self.random.index(self.devices.len());
        match self.random.below(100) {
            0..12 => return self.tell(device),
            12..62 => self.deliver_one(),
            62..82 => self.deal(device),
            82..90 => self.pass_time(),
            90..93 => self.turn_link(),
            93..94 => self.move_session(),
            _ => self.notice(device),
        }
        false
    }

    fn begin(&mut self, device: usize) {
        if self.devices[device].ledger.incarnation().is_none() {
            self.lives += 1;
            let mut life = [0; 16];
            life[..8].copy_from_slice(&self.lives.to_le_bytes());
            self.devices[device].ledger.begin(Incarnation::new(life), None);
            self.drain(device);
        }
    }

    fn tell(&mut self, device: usize) -> bool {
        let to = self.other(device);
        self.lives += 1;
        let session = self.random.chance(300).then(|| self.random.index(self.owners.len().max(1)) as u8);
        let facts = LetterFacts {
            digest: Hash::of(&self.lives.to_le_bytes()),
            bytes: self.random.below(3_000) as u32,
            session: session.filter(|_| !self.owners.is_empty()).map(session_id),
            in_reply_to: None,
            conversation: None,
            hops: 0,
            told_unix_ms: self.now.unix_ms,
        };
        self.words.insert(facts.digest, facts);
        let short = self.scale.short_lives && self.random.chance(200);
        let expires = if short { Duration::from_secs(self.random.below(60)) } else { Duration::from_secs(600_000) };
        let told = Told { to: self.devices[to].id, facts, expires };
        let done = self.devices[device].ledger.tell(told, self.now).is_ok();
        self.drain(device);
        done
    }

    fn other(&mut self, device: usize) -> usize {
        let other = self.random.index(self.devices.len() - 1);
        other + usize::from(other >= device)
    }

    fn deliver_one(&mut self) {
        if self.packets.is_empty() {
            return;
        }
        let at = self.random.index(self.packets.len());
        let packet = self.packets.swap_remove(at);
        if self.random.chance(self.weather.lose) {
            self.tally.mangled += 1;
            return;
        }
        if self.random.chance(self.weather.double) {
            self.tally.mangled += 1;
            self.packets.push(packet.clone());
        }
        self.deliver(&packet);
    }

    fn deliver(&mut self, packet: &Packet) {
        if self.standing(packet.from, packet.to) != Some(packet.link) {
            return;
        }
        let from = self.devices[packet.from].id;
        let (now, ledger) = (self.now, &mut self.devices[packet.to].ledger);
        match &packet.load {
            Load::Letters(arrival) => ledger.handle_letters(from, arrival, &|_| true, true, now),
            Load::Frame(PeerMessage::LetterReceipts(said)) => ledger.handle_receipts(from, said, now),
            Load::Frame(PeerMessage::ReceiptsHeld(held)) => ledger.handle_held(from, held, now),
            Load::Frame(other) => panic!("seed {}: {other:?} is no letter", self.seed),
        }
        self.drain(packet.to);
    }

    /// Somebody reads a letter that waits, acts on it, or refuses it.
    fn deal(&mut self, device: usize) {
        let waiting: Vec<Standing> = self.waiting(device);
        if waiting.is_empty() {
            return;
        }
        let letter = waiting[self.random.index(waiting.len())];
        let state = match self.random.below(10) {
            0..4 => LetterState::Shown,
            4..9 => LetterState::Acted,
            _ => LetterState::Refused(Refusal::Declined),
        };
        self.mark(device, letter.kept.id, state);
    }

    fn mark(&mut self, device: usize, id: LetterId, state: LetterState) {
        let marked = self.devices[device].ledger.mark(id, state, self.now);
        assert_eq!(marked, Ok(()), "seed {}", self.seed);
        self.drain(device);
    }

    fn waiting(&self, device: usize) -> Vec<Standing> {
        let ended = |letter: &Standing| letter.kept.state.is_some_and(LetterState::is_final);
        let all = self.devices[device].ledger.inbox();
        all.filter(|letter| letter.passed_on.is_none() && !ended(letter)).collect()
    }

    fn pass_time(&mut self) {
        let by = Duration::from_millis(self.random.below(20_000));
        self.later(by);
    }

    fn later(&mut self, by: Duration) {
        self.now = Now {
            monotonic: self.now.after(by),
            unix_ms: self.now.unix_ms + u64::try_from(by.as_millis()).unwrap_or(0),
        };
        for device in 0..self.devices.len() {
            self.devices[device].ledger.handle_timeout(self.now);
            let due = self.devices[device].ledger.poll_timeout();
            assert!(due.is_none_or(|at| at > self.now.monotonic), "seed {}: overdue", self.seed);
            self.drain(device);
        }
    }

    fn turn_link(&mut self) {
        let pairs: Vec<(usize, usize)> = self.links.keys().copied().collect();
        let (one, other) = pairs[self.random.index(pairs.len())];
        if self.standing(one, other).is_none() || self.random.chance(400) {
            self.turn(one, other);
        }
    }

    fn turn(&mut self, one: usize, other: usize) {
        self.next_link += 1;
        let up = self.links[&(one, other)].is_none();
        self.links.insert((one, other), up.then_some(self.next_link));
        self.link(one, other, up);
        // The power may have failed meanwhile, and with it the link.
        if self.standing(one, other).is_some() == up {
            self.link(other, one, up);
        }
    }

    fn standing(&self, one: usize, other: usize) -> Option<u64> {
        self.links[&(one.min(other), one.max(other))]
    }

    fn link(&mut self, device: usize, other: usize, up: bool) {
        let peer = self.devices[other].id;
        match up {
            true => self.devices[device].ledger.link_up(peer, self.now),
            false => self.devices[device].ledger.link_down(peer),
        }
        self.drain(device);
    }

    fn move_session(&mut self) {
        if !self.owners.is_empty() {
            let session = self.random.index(self.owners.len());
            self.owners[session] = self.random.index(self.devices.len());
        }
    }

    /// A device hears who owns the sessions now.
    fn notice(&mut self, device: usize) {
        for (session, owner) in (0..).zip(self.owners.clone()) {
            if owner != device {
                let owner = self.devices[owner].id;
                self.devices[device].ledger.pass_on(session_id(session), owner, self.now);
                self.drain(device);
            }
        }
    }

    /// Does what the ledger wants. The power may fail between any two outputs.
    fn drain(&mut self, device: usize) {
        while let Some(output) = self.devices[device].ledger.poll() {
            if self.random.chance(self.weather.crash) {
                return self.restart(device);
            }
            match output {
                Output::Persist(batch) => {
                    batch
                        .iter()
                        .for_each(|record| self.truth.durable(self.devices[device].id, record, &mut self.tally));
                    self.devices[device].disk.extend(batch);
                }
                Output::Send(to, message) => {
                    let load = match *message {
                        PeerMessage::Letters(ask) => Load::Letters(Arrival {
                            incarnation: ask.incarnation,
                            number: ask.number,
                            items: Vec::new(),
                        }),
                        other => Load::Frame(other),
                    };
                    self.send(device, to, load);
                }
                Output::Post(to, post) => {
                    let load = Load::Letters(self.with_words(&post));
                    self.send(device, to, load);
                }
                Output::Tell(event) => self.hear(event),
            }
        }
    }

    fn send(&mut self, from: usize, to: DeviceId, load: Load) {
        let to = self.devices.iter().position(|device| device.id == to).expect("a device of the mesh");
        if let Some(link) = self.standing(from, to) {
            self.packets.push(Packet { from, to, link, load });
        }
    }

    fn with_words(&self, post: &Post) -> Arrival {
        let item = |item: &PostItem| match item {
            PostItem::Gone { from, through, why } => ArrivedItem::Gone { from: *from, through: *through, why: *why },
            PostItem::Letter { seq, first, expires_in_ms, digest } => ArrivedItem::Letter {
                seq: *seq,
                first: *first,
                expires_in_ms: *expires_in_ms,
                facts: Box::new(self.words[digest]),
            },
        };
        Arrival { incarnation: post.incarnation, number: post.number, items: post.items.iter().map(item).collect() }
    }

    /// Devices that forget nothing see neither gaps nor doubles.
    fn hear(&self, event: LedgerEvent) {
        match event {
            LedgerEvent::Arrived(_) | LedgerEvent::Moved { .. } | LedgerEvent::Forget(_) => {}
            LedgerEvent::Quarantined(_)
            | LedgerEvent::Gap(_)
            | LedgerEvent::BeginAnew(_)
            | LedgerEvent::PeerFault { .. } => panic!("seed {}: {event:?}", self.seed),
        }
    }

    /// What is not on the disk is gone; links end.
    fn restart(&mut self, device: usize) {
        self.tally.restarts += 1;
        let weather = core::mem::replace(&mut self.weather, Weather::CALM);
        self.last_words(device);
        let id = self.devices[device].id;
        if self.random.chance(300) {
            let others = self.devices[device].disk.iter().filter(|record| !matches!(record, Record::Letter(_)));
            let short = cede_core::ledger::compact(id, &self.devices[device].disk);
            self.devices[device].disk = others.cloned().chain(short).collect();
        }
        self.devices[device].ledger = Ledger::restore(id, self.devices[device].disk.iter(), self.now);
        self.begin(device);
        for ((one, other), link) in self.links.clone() {
            if link.is_some() && (one == device || other == device) {
                self.links.insert((one, other), None);
                self.link(if one == device { other } else { one }, device, false);
            }
        }
        self.weather = weather;
    }

    /// What a device said before it died may still come, before the others notice that the line is gone.
    fn last_words(&mut self, device: usize) {
        let (said, rest): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.packets).into_iter().partition(|packet| packet.from == device);
        self.packets = rest;
        for packet in said {
            if self.random.chance(500) {
                self.deliver(&packet);
            }
        }
    }

    /// Fair weather: all lines stand, everything is delivered, everybody deals with what waits.
    fn clear(&mut self) {
        self.weather = Weather::CALM;
        self.now.monotonic += Duration::from_secs(1);
        for (one, other) in self.links.keys().copied().collect::<Vec<_>>() {
            if self.standing(one, other).is_some() {
                self.turn(one, other);
            }
            self.turn(one, other);
        }
        for _ in 0..10_000 {
            while let Some(packet) = (!self.packets.is_empty()).then(|| self.packets.remove(0)) {
                self.deliver(&packet);
            }
            (0..self.devices.len()).for_each(|device| self.notice(device));
            for device in 0..self.devices.len() {
                for letter in self.waiting(device) {
                    self.mark(device, letter.kept.id, LetterState::Acted);
                }
            }
            if self.packets.is_empty() {
                if self.truth.all_ended() {
                    return;
                }
                self.later(Duration::from_secs(10));
            }
        }
        panic!("seed {}: it does not come to rest: {:?}", self.seed, self.truth.open());
    }
}

fn session_id(number: u8) -> SessionId {
    SessionId::new([number + 100; 16])
}
