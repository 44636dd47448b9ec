//! A whole mesh in one process: devices with the real deciders, a clock that is a number, a network that loses, doubles,
//! reorders and parts, and disks on which only what was persisted survives.
//!
//! Everything follows from a seed. After every step the devices are compared with a plain reference model of who may act
//! and of every turn that was committed; a difference panics with the seed and the last steps.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cede_core::custodian::{Custodian, Standing};
use cede_core::electorate::Electorate;
use cede_core::now::Now;
use cede_core::output::Output;
use cede_wire::custody::{Custody, Head};
use cede_wire::id::{HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::{Doubt, Record};
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, NativeId, SessionKey};

mod check;
pub(crate) mod device;
mod hands;
mod model;
pub(crate) mod random;

use device::{Device, Task};
use model::Model;
use random::Random;

/// How rough it is, as chances in a thousand.
#[derive(Debug, Clone, Copy)]
struct Weather {
    lose: u64,
    double: u64,
    /// The power fails before one output.
    crash: u64,
    /// A turn is committed though the session is frozen: an agent that escaped its fence.
    sneak: u64,
    /// An operator says that an owner is gone, whether it is or not.
    seize: u64,
    /// A device that starts finds its state at another place.
    doubt: u64,
}

impl Weather {
    const CALM: Self = Self { lose: 0, double: 0, crash: 0, sneak: 0, seize: 0, doubt: 0 };

    fn of(random: &mut Random) -> Self {
        // Some seeds are fair but for one thing, so that long stories happen too.
        let mut up_to = |most: u64| if random.chance(500) { 0 } else { random.below(most) };
        Self {
            lose: up_to(250),
            double: up_to(200),
            crash: up_to(90),
            sneak: up_to(200),
            seize: up_to(1_000),
            doubt: up_to(600),
        }
    }
}

/// What travels.
#[derive(Debug, Clone)]
enum Load {
    Message(PeerMessage),
    /// "Send me the payload of this attempt."
    Need(HandoffId),
    /// The payload: turns.
    Turns(HandoffId, Vec<u64>),
}

#[derive(Debug, Clone)]
struct Packet {
    from: usize,
    to: usize,
    load: Load,
}

/// What happened in one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Releases that became durable.
    pub released: u64,
    /// Activations that became durable.
    pub activated: u64,
    /// Power failures.
    pub crashes: u64,
    /// Committed turns.
    pub turns: u64,
    /// Payloads that were fetched again by a designate.
    pub refetched: u64,
    /// Offers that ended at their source as owner.
    pub abandoned: u64,
    /// Sessions that were seized.
    pub seized: u64,
    /// Owners that heard of it, and kept their turns.
    pub fenced: u64,
    /// Devices that doubted their own records.
    pub doubted: u64,
}

impl core::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.released += other.released;
        self.activated += other.activated;
        self.crashes += other.crashes;
        self.turns += other.turns;
        self.refetched += other.refetched;
        self.abandoned += other.abandoned;
        self.seized += other.seized;
        self.fenced += other.fenced;
        self.doubted += other.doubted;
    }
}

/// The mesh.
pub struct World {
    seed: u64,
    random: Random,
    weather: Weather,
    devices: Vec<Device>,
    packets: VecDeque<Packet>,
    /// Releases seen on the line: anybody may carry one, at any time.
    carried: Vec<PeerMessage>,
    links: BTreeSet<(usize, usize)>,
    now: Now,
    models: BTreeMap<SessionId, Model>,
    attempts: u64,
    tally: Tally,
    trace: VecDeque<String>,
}

impl World {
    /// Two to four devices and two sessions.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let now = Now { monotonic: Duration::from_secs(1), unix_ms: 1_700_000_000_000 };
        let count = 2 + random.below(3) as usize;
        let weather = Weather::of(&mut random);
        let mut world = Self {
            seed,
            random,
            weather,
            devices: (0..count).map(|n| Device::new(n as u8 + 1, now)).collect(),
            packets: VecDeque::new(),
            carried: Vec::new(),
            links: BTreeSet::new(),
            now,
            models: BTreeMap::new(),
            attempts: 0,
            tally: Tally::default(),
            trace: VecDeque::new(),
        };
        let mut electorate = Electorate::default();
        electorate.note(count as u64, world.devices.iter().map(Device::id).collect());
        for device in &mut world.devices {
            device.electorate = electorate.clone();
            device.start(now).expect("an empty journal");
        }
        for (n, key) in keys().into_iter().enumerate() {
            let owner = n % count;
            world.models.insert(key.id(), Model::new(key.clone(), owner));
            world.devices[owner].disk.logs.insert(key.id(), Vec::new());
            world.commit_turn(owner, key.id());
        }
        world.raise_links();
        world
    }

    /// A storm of so many steps, then fair weather in which everything must settle, then one more move of each session.
    pub fn run(mut self, steps: usize) -> Tally {
        for _ in 0..steps {
            self.step();
        }
        self.settle();
        for key in keys() {
            self.last_move(&key);
        }
        self.tally
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=35 => self.deliver_some(),
            36..=38 => self.seize_some(),
            39 => self.confirm_some(),
            40..=64 => self.work_some(),
            65..=79 => self.let_time_pass(),
            80..=86 => self.turn_some(),
            87..=90 => self.offer_some(),
            91 => self.cancel_some(),
            92 => self.lose_some_stage(),
            93 => self.carry_some(),
            94..=97 => self.toggle_some_link(),
            _ => self.restart_some(),
        }
        self.check();
    }

    fn deliver_some(&mut self) {
        if self.packets.is_empty() {
            return;
        }
        let at = if self.random.chance(700) { 0 } else { self.random.index(self.packets.len()) };
        if self.random.chance(self.weather.double) {
            self.deliver(self.packets[at].clone());
        } else if let Some(packet) = self.packets.remove(at) {
            self.deliver(packet);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let (from, to) = (packet.from, packet.to);
        if !self.links.contains(&ordered(from, to)) || self.devices[to].custodian.is_none() {
            return;
        }
        self.note(|| format!("{from} → {to}: {}", words(&packet.load)));
        match packet.load {
            Load::Message(message) => {
                let from = self.devices[from].id();
                self.tell_custodian(to, |custodian, now| custodian.handle_message(from, &message, now));
            }
            Load::Need(handoff) => self.serve(to, from, handoff),
            Load::Turns(handoff, turns) => self.devices[to].tasks.push_back(Task::Write(handoff, turns)),
        }
    }

    fn send(&mut self, from: usize, to: usize, load: Load) {
        if let Load::Message(message @ PeerMessage::Release { .. }) = &load
            && self.carried.len() < 64
        {
            self.carried.push(message.clone());
        }
        if !self.random.chance(self.weather.lose) && self.packets.len() < 400 {
            self.packets.push_back(Packet { from, to, load });
        }
    }

    /// One input, then drain, as the contract says; between any two outputs the power may fail.
    fn tell_custodian(&mut self, device: usize, input: impl FnOnce(&mut Custodian, Now)) {
        let now = self.now;
        let Some(custodian) = self.devices[device].custodian.as_mut() else { return };
        input(custodian, now);
        self.drain(device);
    }

    fn drain(&mut self, device: usize) {
        for _ in 0..1_000 {
            let Some(output) = self.devices[device].custodian.as_mut().and_then(Custodian::poll) else { return };
            if self.random.chance(self.weather.crash) {
                self.crash(device);
                return;
            }
            self.perform(device, output);
        }
        self.fail("a device says more than a thousand things at once");
    }

    fn perform(&mut self, device: usize, output: Output) {
        match output {
            Output::Persist(records) => self.persist(device, records),
            Output::Send(to, message) => {
                self.check_permitted(device, &message);
                if let Some(to) = self.devices.iter().position(|other| other.id() == to) {
                    self.send(device, to, Load::Message(*message));
                }
            }
            Output::Tell(event) => self.devices[device].tasks.push_back(Task::Event(event)),
            Output::Wake(..) => {}
        }
    }

    fn crash(&mut self, device: usize) {
        self.note(|| format!("{device} loses power"));
        self.tally.crashes += 1;
        self.devices[device].lose_power();
        for other in 0..self.devices.len() {
            self.cut(device, other);
        }
    }

    fn restart(&mut self, device: usize) {
        if self.devices[device].custodian.is_some() {
            return;
        }
        self.note(|| format!("{device} starts"));
        if self.random.chance(self.weather.doubt) && !self.devices[device].disk.journal.is_empty() {
            self.note(|| format!("{device} doubts its own records"));
            self.tally.doubted += 1;
            self.devices[device].disk.journal.push(Record::Doubted { why: Doubt::Copied });
        }
        if let Err(error) = self.devices[device].start(self.now) {
            self.fail(&format!("the journal of {device} does not restore: {error}"));
        }
        self.drain(device);
    }

    fn restart_some(&mut self) {
        let device = self.random.index(self.devices.len());
        self.restart(device);
    }

    fn toggle_some_link(&mut self) {
        let (a, b) = (self.random.index(self.devices.len()), self.random.index(self.devices.len()));
        if a == b {
            return;
        }
        if self.links.contains(&ordered(a, b)) && self.random.chance(400) {
            self.note(|| format!("{a} and {b} part"));
            self.cut(a, b);
        } else {
            self.join(a, b);
        }
    }

    fn join(&mut self, a: usize, b: usize) {
        let down = [a, b].iter().any(|device| self.devices[*device].custodian.is_none());
        if down || !self.links.insert(ordered(a, b)) {
            return;
        }
        self.note(|| format!("{a} and {b} meet"));
        for (device, peer) in [(a, b), (b, a)] {
            let peer = self.devices[peer].id();
            self.tell_custodian(device, |custodian, now| custodian.link_up(peer, now));
        }
    }

    fn cut(&mut self, a: usize, b: usize) {
        if self.links.remove(&ordered(a, b)) {
            for (device, peer) in [(a, b), (b, a)] {
                let peer = self.devices[peer].id();
                self.tell_custodian(device, |custodian, _| custodian.link_down(peer));
            }
        }
    }

    fn raise_links(&mut self) {
        for a in 0..self.devices.len() {
            for b in 0..a {
                self.cut(a, b);
                self.join(a, b);
            }
        }
    }

    fn let_time_pass(&mut self) {
        let wait = match self.random.below(100) {
            0..=79 => Duration::from_millis(self.random.below(400)),
            80..=97 => Duration::from_millis(self.random.below(20_000)),
            _ => Duration::from_secs(self.random.below(1_200)),
        };
        self.now.monotonic += wait;
        self.ring();
    }

    fn ring(&mut self) {
        for device in 0..self.devices.len() {
            let due = self.devices[device].due().is_some_and(|at| at <= self.now.monotonic);
            if due {
                self.tell_custodian(device, |custodian, now| custodian.handle_timeout(now));
                let overdue = self.devices[device].due().is_some_and(|at| at <= self.now.monotonic);
                self.ensure(!overdue, "something is overdue after the timeout was handled");
            }
        }
    }

    fn offer_some(&mut self) {
        let session = self.some_session();
        let to = self.random.index(self.devices.len());
        // After a seize more than one device may think that it is in charge.
        let acting: Vec<usize> = (0..self.devices.len()).filter(|n| self.devices[*n].acts(session)).collect();
        if !acting.is_empty() {
            let from = acting[self.random.index(acting.len())];
            if from != to {
                self.offer(from, to, session);
            }
        }
    }

    /// Of two devices only one has an operator who seizes: two could each say that the other is gone.
    fn seize_some(&mut self) {
        let session = self.some_session();
        let may = |n: &usize| {
            let alone = self.devices.len() == 2 && *n as u64 != self.seed % 2;
            let custodian = self.devices[*n].custodian.as_ref();
            !alone && custodian.is_some_and(|custodian| custodian.prospect(session, self.here(*n, session)).is_ok())
        };
        let could: Vec<usize> = (0..self.devices.len()).filter(may).collect();
        if could.is_empty() || !self.random.chance(self.weather.seize) {
            return;
        }
        let device = could[self.random.index(could.len())];
        // Mostly the owner is really away, at least for now.
        if let Some(owner) = self.models[&session].newest().active.filter(|owner| *owner != device)
            && self.random.chance(700)
        {
            (0..self.devices.len()).for_each(|other| self.cut(owner, other));
        }
        let here = self.here(device, session);
        self.note(|| format!("{device} seizes {session:?}"));
        self.tell_custodian(device, |custodian, now| {
            let _ = custodian.seize(session, here, now);
        });
    }

    fn here(&self, device: usize, session: SessionId) -> Option<Head> {
        self.devices[device].disk.aside.get(&session).map(|turns| device::head(turns))
    }

    fn confirm_some(&mut self) {
        let device = self.random.index(self.devices.len());
        let session = self.random.chance(500).then(|| self.some_session());
        self.confirm(device, session);
    }

    fn confirm(&mut self, device: usize, session: Option<SessionId>) {
        self.tell_custodian(device, |custodian, _| match session {
            Some(session) => custodian.confirm(session),
            None => custodian.confirm_all(),
        });
    }

    fn offer(&mut self, from: usize, to: usize, session: SessionId) {
        self.attempts += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.attempts.to_le_bytes());
        let (handoff, to_id, key) = (HandoffId::new(id), self.devices[to].id(), self.models[&session].key.clone());
        let terms = device::terms(self.devices[from].disk.log(session));
        self.note(|| format!("{from} offers {session:?} to {to} as {handoff:?}"));
        self.tell_custodian(from, |custodian, now| {
            let _ = custodian.offer(&key, to_id, handoff, terms, now);
        });
    }

    fn cancel_some(&mut self) {
        let (device, session) = (self.random.index(self.devices.len()), self.some_session());
        self.tell_custodian(device, |custodian, _| custodian.cancel(session, Refusal::Cancelled, "the operator"));
    }

    /// A disk loses a payload that was durable; the device notices.
    fn lose_some_stage(&mut self) {
        let (device, session) = (self.random.index(self.devices.len()), self.some_session());
        let chain = self.devices[device].custodian.as_ref().and_then(|custodian| custodian.chain(session));
        if chain.is_some_and(|chain| matches!(chain.last(), Custody::Seize(_))) {
            // What was staged may be the only copy of it that counts.
            return;
        }
        if self.standing(device, session) == Some(Standing::Arriving) {
            // It notices when it puts the session in its place.
            self.note(|| format!("{device} loses what it received"));
            self.devices[device].disk.received.clear();
            return;
        }
        let arriving = self.devices[device].custodian.as_ref().and_then(|custodian| custodian.arriving(session));
        let Some(handoff) = arriving.map(|destination| destination.attempt().handoff) else { return };
        self.note(|| format!("{device} loses its stage of {handoff:?}"));
        self.devices[device].disk.received.remove(&handoff);
        self.tell_custodian(device, |custodian, _| {
            custodian.receive_failed(session, handoff, Refusal::IntegrityFailed, "the stage is lost");
        });
    }

    fn carry_some(&mut self) {
        if self.carried.is_empty() {
            return;
        }
        let (from, to) = (self.random.index(self.devices.len()), self.random.index(self.devices.len()));
        let message = self.carried[self.random.index(self.carried.len())].clone();
        if from != to {
            self.send(from, to, Load::Message(message));
        }
    }

    fn some_session(&mut self) -> SessionId {
        let at = self.random.index(self.models.len());
        self.models.keys().nth(at).copied().expect("a session")
    }

    /// Everybody runs, every line works, nobody commands anything: somebody must become the owner.
    fn settle(&mut self) {
        self.note(|| "fair weather".to_owned());
        self.weather = Weather::CALM;
        self.packets.clear();
        for device in 0..self.devices.len() {
            self.restart(device);
            self.confirm(device, None);
        }
        self.raise_links();
        self.calm_down();
        self.check_settled();
    }

    fn calm_down(&mut self) {
        let end = self.now.monotonic + Duration::from_secs(2 * 3_600);
        for _ in 0..200_000 {
            if let Some(packet) = self.packets.pop_front() {
                self.deliver(packet);
            } else if let Some(device) = self.devices.iter().position(|device| !device.tasks.is_empty()) {
                self.work(device, 0);
            } else if self.settled() {
                return;
            } else {
                let due = self.devices.iter().filter_map(Device::due).min();
                let Some(at) = due.filter(|at| *at <= end) else { return };
                self.now.monotonic = self.now.monotonic.max(at);
                self.ring();
            }
            self.check();
        }
        self.fail("the devices never fall silent");
    }

    fn settled(&self) -> bool {
        self.models.values().all(|model| {
            let session = model.key.id();
            let owner = model.newest().active.is_some_and(|owner| match self.standing(owner, session) {
                Some(standing) => standing == Standing::InCharge,
                None => !model.moved,
            });
            let under_way = |device: &Device| {
                device.custodian.as_ref().is_some_and(|custodian| {
                    custodian.arriving(session).is_some()
                        || custodian.asked(session).is_some()
                        || custodian.to_branch(session)
                        || matches!(custodian.standing(session), Some(Standing::ReleasedTo(_)))
                })
            };
            owner && !self.devices.iter().any(under_way)
        })
    }

    fn standing(&self, device: usize, session: SessionId) -> Option<Standing> {
        self.devices[device].custodian.as_ref()?.standing(session)
    }

    fn last_move(&mut self, key: &SessionKey) {
        let Some(from) = self.models[&key.id()].newest().active else {
            self.fail("nobody is the owner in fair weather")
        };
        let to = (from + 1) % self.devices.len();
        self.offer(from, to, key.id());
        self.calm_down();
        self.check_settled();
        self.ensure(self.models[&key.id()].newest().active == Some(to), "a move in fair weather did not complete");
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.trace.len() >= 120 {
            self.trace.pop_front();
        }
        self.trace.push_back(what());
    }

    fn ensure(&self, holds: bool, what: &str) {
        if !holds {
            self.fail(what);
        }
    }

    fn fail(&self, what: &str) -> ! {
        let steps: Vec<&str> = self.trace.iter().map(String::as_str).collect();
        panic!("{what}\nat the end of:\n  {}\nreplay with CEDE_SEED={}: {what}", steps.join("\n  "), self.seed);
    }
}

fn keys() -> [SessionKey; 2] {
    ["first", "second"]
        .map(|name| SessionKey { agent: AgentKind::Codex, native: NativeId::parse(name).expect("a native id") })
}

fn ordered(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

fn words(load: &Load) -> String {
    match load {
        Load::Message(message) => format!("{message:?}").chars().take(150).collect(),
        Load::Need(handoff) => format!("need {handoff:?}"),
        Load::Turns(handoff, turns) => format!("{} turns of {handoff:?}", turns.len()),
    }
}
