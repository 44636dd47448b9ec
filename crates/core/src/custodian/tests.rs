//! Real devices with journals in memory: what was not persisted before a crash is gone.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, FencingToken, Genesis, Head, Release, Seize};
use cede_wire::handoff::{Accept, CommitAck, Manifest, Offer, Scope, Workspace};
use cede_wire::id::{DeviceId, HandoffId, Hash, Incarnation, MeshId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, NativeId, Requirement, SessionKey};

use super::{Custodian, Standing, Trust};
use crate::destination::StagedPayload;
use crate::electorate::Electorate;
use crate::now::Now;
use crate::output::{Event, Output};
use crate::source::{OfferTerms, Quiet, Round};

mod chains;
mod crashes;
mod doubtful;
mod edges;
mod faults;
mod hostile;
mod late;
mod liars;
mod long;
mod moments;
mod phases;
mod questions;
mod refusals;
mod rivals;
mod seizes;
mod states;
mod takers;
mod words;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const HOUR: Duration = Duration::from_secs(3_600);

/// One device: its machine, its journal, and hands that do at once what they are told.
struct Node {
    local: Arc<LocalDevice>,
    custodian: Custodian,
    journal: Vec<Record>,
    /// The turns of each session that lies in its place here.
    logs: BTreeMap<SessionId, Vec<u8>>,
    /// Durable payloads by their root.
    copies: BTreeMap<Hash, Vec<u8>>,
    /// Turns that were kept aside when another device seized the session.
    branches: Vec<Vec<u8>>,
    told: Vec<Event>,
    in_flight: bool,
    /// Outputs until the power fails.
    fuse: Option<usize>,
    trust: Trust,
}

struct Mail {
    from: usize,
    to: usize,
    message: PeerMessage,
}

/// A few devices and the line between them. Invariants are checked after every step.
struct Net {
    nodes: Vec<Node>,
    mail: VecDeque<Mail>,
    sent: Vec<(usize, PeerMessage)>,
    now: Now,
    attempts: u8,
    lose: Box<dyn FnMut(&PeerMessage) -> bool>,
    ignore: Box<dyn FnMut(&Event) -> bool>,
    /// Two devices may hold one token: both were told that the other one is gone.
    apart: bool,
}

impl Net {
    fn new(devices: u8) -> Self {
        let now = Now { monotonic: Duration::from_secs(1), unix_ms: 1_700_000_000_000 };
        let mut net = Self {
            nodes: (1..=devices).map(|n| Node::new(n, now)).collect(),
            mail: VecDeque::new(),
            sent: Vec::new(),
            now,
            attempts: 0,
            lose: Box::new(|_| false),
            ignore: Box::new(|_| false),
            apart: false,
        };
        let electorate = net.electorate();
        net.nodes.iter_mut().for_each(|node| node.custodian.set_electorate(electorate.clone()));
        net
    }

    /// Every device belongs to the mesh.
    fn electorate(&self) -> Electorate {
        let mut electorate = Electorate::default();
        electorate.note(self.nodes.len() as u64, self.nodes.iter().map(|node| node.local.device()).collect());
        electorate
    }

    /// A and B, linked; the session of [`key`] lies at A with two turns.
    fn pair() -> Self {
        let mut net = Self::new(2);
        net.turn(A, 1);
        net.turn(A, 2);
        net.link(A, B);
        net
    }

    /// Three devices, all linked.
    fn three() -> Self {
        let mut net = Self::new(3);
        net.turn(A, 1);
        net.turn(A, 2);
        net.heal();
        net
    }

    fn id(&self, node: usize) -> DeviceId {
        self.nodes[node].local.device()
    }

    fn index(&self, device: DeviceId) -> usize {
        self.nodes.iter().position(|node| node.local.device() == device).unwrap()
    }

    fn turn(&mut self, node: usize, turn: u8) {
        self.nodes[node].logs.entry(session()).or_default().push(turn);
    }

    fn log(&self, node: usize) -> &[u8] {
        self.nodes[node].logs.get(&session()).map_or(&[], Vec::as_slice)
    }

    /// Offers the session and lets everything happen that happens.
    fn give(&mut self, from: usize, to: usize) -> HandoffId {
        let handoff = self.offer(from, to);
        self.run();
        handoff
    }

    fn offer(&mut self, from: usize, to: usize) -> HandoffId {
        self.attempts += 1;
        let (handoff, to) = (HandoffId::new([self.attempts; 16]), self.id(to));
        let terms = terms(head(self.log(from)));
        self.nodes[from].custodian.offer(&key(), to, handoff, terms, self.now).unwrap();
        self.drain(from);
        handoff
    }

    /// Delivers until nothing is under way.
    fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the devices never fall silent");
    }

    fn step(&mut self) -> bool {
        let Some(Mail { from, to, message }) = self.mail.pop_front() else { return false };
        self.deliver(from, to, &message);
        true
    }

    fn deliver(&mut self, from: usize, to: usize, message: &PeerMessage) {
        let (from, now) = (self.id(from), self.now);
        self.nodes[to].custodian.handle_message(from, message, now);
        self.drain(to);
    }

    /// Time passes; everything that falls due is done in its turn.
    fn pass(&mut self, wait: Duration) {
        let end = self.now.monotonic + wait;
        for _ in 0..100_000 {
            let due = self.nodes.iter().filter_map(|node| node.custodian.poll_timeout()).map(|(at, _)| at).min();
            let Some(at) = due.filter(|at| *at <= end) else {
                self.now.monotonic = end;
                return;
            };
            self.now.monotonic = self.now.monotonic.max(at);
            for node in 0..self.nodes.len() {
                let now = self.now;
                self.nodes[node].custodian.handle_timeout(now);
                let overdue = self.nodes[node].custodian.poll_timeout().filter(|(at, _)| *at <= now.monotonic);
                assert_eq!(overdue, None, "something is overdue after the timeout was handled");
                self.drain(node);
            }
            self.run();
        }
        panic!("the clock never gets on");
    }

    fn link(&mut self, a: usize, b: usize) {
        for (node, peer) in [(a, b), (b, a)] {
            let (peer, now) = (self.id(peer), self.now);
            self.nodes[node].custodian.link_up(peer, now);
            self.drain(node);
        }
        self.run();
    }

    /// Every line works, every device runs.
    fn heal(&mut self) {
        self.lose = Box::new(|_| false);
        self.ignore = Box::new(|_| false);
        for a in 0..self.nodes.len() {
            self.nodes[a].fuse = None;
        }
        for a in 0..self.nodes.len() {
            for b in 0..a {
                self.link(a, b);
            }
        }
    }

    /// The power fails and comes back: only the journal and the files are left.
    fn crash(&mut self, node: usize) {
        let now = self.now;
        self.mail.retain(|mail| mail.to != node);
        let gone = self.id(node);
        for peer in 0..self.nodes.len() {
            self.nodes[peer].custodian.link_down(gone);
        }
        let electorate = self.electorate();
        let state = &mut self.nodes[node];
        state.fuse = None;
        state.custodian = restore(&state.local, &state.journal, state.trust, now);
        state.custodian.set_electorate(electorate);
        for (session, _) in state.custodian.fences_to_lift() {
            state.custodian.fence_lifted(session);
        }
        self.drain(node);
    }

    fn drain(&mut self, node: usize) {
        let mut events = VecDeque::new();
        loop {
            while let Some(output) = self.nodes[node].custodian.poll() {
                match &mut self.nodes[node].fuse {
                    Some(0) => return self.crash(node),
                    Some(left) => *left -= 1,
                    None => {}
                }
                events.extend(self.perform(node, output));
                self.check();
            }
            let Some(event) = events.pop_front() else { return };
            if !(self.ignore)(&event) {
                self.hands(node, &event);
            }
        }
    }

    fn perform(&mut self, node: usize, output: Output) -> Option<Event> {
        match output {
            Output::Persist(records) => self.nodes[node].journal.extend(records),
            Output::Send(to, message) => {
                let to = self.index(to);
                if !matches!(*message, PeerMessage::CustodyQuery(_) | PeerMessage::CustodyAnswer(_)) {
                    self.sent.push((node, (*message).clone()));
                }
                if !(self.lose)(&message) {
                    self.mail.push_back(Mail { from: node, to, message: *message });
                }
            }
            Output::Tell(event) => {
                self.nodes[node].told.push(event.clone());
                return Some(event);
            }
            Output::Wake(..) => {}
        }
        None
    }

    /// H-1, J-1: at most one device acts in a generation, and what it acts on is in its journal.
    fn check(&self) {
        let active: Vec<usize> = (0..self.nodes.len()).filter(|node| self.acts(*node)).collect();
        let generation = |node: &usize| self.nodes[*node].custodian.token(session()).generation;
        let generations: BTreeSet<u64> = active.iter().map(generation).collect();
        assert!(self.apart || generations.len() == active.len(), "two devices act: {active:?}");
    }

    /// Whether a device acts for the session as one that belongs to the mesh.
    fn acts(&self, node: usize) -> bool {
        self.standing(node).is_some() && self.nodes[node].custodian.may_act(session())
    }

    fn standing(&self, node: usize) -> Option<Standing> {
        self.nodes[node].custodian.standing(session())
    }

    /// What the device would be after a power failure at this moment.
    fn after_crash(&self, node: usize) -> Option<Standing> {
        let node = &self.nodes[node];
        restore(&node.local, &node.journal, Trust::Whole, self.now).standing(session())
    }

    fn only_owner(&self, node: usize, turns: &[u8]) {
        assert_eq!(self.standing(node), Some(Standing::InCharge));
        assert_eq!((0..self.nodes.len()).filter(|other| self.acts(*other)).collect::<Vec<_>>(), [node]);
        assert_eq!(self.log(node), turns, "the owner lacks turns");
    }

    fn hands(&mut self, node: usize, event: &Event) {
        let now = self.now;
        match event {
            Event::AskOperator(offer) => {
                let (session, handoff) = (offer.key.id(), offer.handoff);
                let _ = self.nodes[node].custodian.approve(session, handoff, [1; 32], Vec::new(), now);
            }
            Event::Reaccept { session, .. } => self.nodes[node].custodian.reaccept(*session, [2; 32], Vec::new()),
            Event::Accepted(accept) => {
                let sessions = self.nodes[node].custodian.sessions().map(|(id, _)| id).collect::<Vec<_>>();
                let leaving = |id: &&SessionId| {
                    self.nodes[node].custodian.leaving(**id).is_some_and(|s| s.offer().handoff == accept.handoff)
                };
                if let Some(id) = sessions.iter().find(leaving) {
                    let _ = self.nodes[node].custodian.freeze(*id, now);
                }
            }
            Event::Freeze { session, .. } => {
                let round = self.nodes[node].capture(*session);
                let _ = self.nodes[node].custodian.advance(*session, round, now);
            }
            Event::Fetch(manifest) => self.fetch(node, manifest),
            Event::AckHeld { session, handoff } => {
                let quiet = self.nodes[node].quiet(*session);
                self.nodes[node].custodian.decide(*session, *handoff, quiet, now);
            }
            Event::Activate { session, handoff, .. } => self.nodes[node].install(*session, *handoff),
            Event::Refetch { session, .. } => self.nodes[node].custodian.refetch(*session, [3; 32], now),
            Event::Resend(accept) => self.resend(node, accept),
            Event::StillOwner { session, .. } | Event::SeizedHere { session, .. } => {
                self.nodes[node].custodian.fence_lifted(*session);
            }
            Event::Seized { session, .. } => {
                let state = &mut self.nodes[node];
                let turns = state.logs.get(session).cloned().unwrap_or_default();
                state.branches.push(turns);
                state.custodian.branched(*session);
            }
            Event::Withdrawn { .. }
            | Event::Discard { .. }
            | Event::RoundComplete { .. }
            | Event::Released { .. }
            | Event::Retired { .. }
            | Event::OfferLost { .. }
            | Event::NotSeized { .. }
            | Event::Contested { .. }
            | Event::Doubted(_)
            | Event::Confirmed { .. }
            | Event::PeerFault { .. } => {}
        }
    }

    fn fetch(&mut self, node: usize, manifest: &Manifest) {
        let (now, source) = (self.now, self.index(manifest.source));
        let Some(bytes) = self.nodes[source].copies.get(&manifest.root).cloned() else { return };
        let state = &mut self.nodes[node];
        state.copies.insert(manifest.root, bytes);
        state.custodian.round_complete(manifest.session, manifest.handoff, manifest.round);
        if manifest.last {
            let payload = StagedPayload { head: manifest.head, root: manifest.root };
            state.custodian.staged(manifest.session, manifest.handoff, payload, now);
        }
    }

    fn resend(&mut self, node: usize, accept: &Accept) {
        let chains: Vec<_> = self.nodes[node].custodian.sessions().map(|(id, _)| id).collect();
        for id in chains {
            let Some(Custody::Release(release)) = self.nodes[node].custodian.chain(id).map(|c| c.last().clone()) else {
                continue;
            };
            if release.handoff == accept.handoff {
                let round = round(release.head, release.root);
                self.nodes[node].custodian.resend(id, round).unwrap();
            }
        }
    }

    fn told(&self, node: usize, wanted: impl Fn(&Event) -> bool) -> usize {
        self.nodes[node].told.iter().filter(|event| wanted(event)).count()
    }

    /// The code with which the attempt ended at its source.
    fn refusal(&self, node: usize) -> Option<Refusal> {
        self.nodes[node].told.iter().rev().find_map(|event| {
            let Event::StillOwner { refusal, .. } = event else { return None };
            Some(*refusal)
        })
    }

    fn last_sent(&self, node: usize) -> &PeerMessage {
        &self.sent.iter().rev().find(|(from, _)| *from == node).unwrap().1
    }

    fn find_sent(&self, wanted: impl Fn(&PeerMessage) -> bool) -> PeerMessage {
        self.sent.iter().rev().map(|(_, message)| message).find(|message| wanted(message)).unwrap().clone()
    }
}

impl Node {
    fn new(n: u8, now: Now) -> Self {
        let local = Arc::new(LocalDevice::from_secret(&[n; 32]));
        Self {
            custodian: restore(&local, &[], Trust::Whole, now),
            local,
            journal: Vec::new(),
            logs: BTreeMap::new(),
            copies: BTreeMap::new(),
            branches: Vec::new(),
            told: Vec::new(),
            in_flight: false,
            fuse: None,
            trust: Trust::Whole,
        }
    }

    fn capture(&mut self, session: SessionId) -> Round {
        let log = self.logs.entry(session).or_default().clone();
        let round = round(head(&log), root(&log));
        self.copies.insert(round.root, log);
        round
    }

    fn quiet(&self, session: SessionId) -> Quiet {
        let head = head(self.logs.get(&session).map_or(&[], Vec::as_slice));
        Quiet { head, in_flight: self.in_flight }
    }

    fn install(&mut self, session: SessionId, handoff: HandoffId) {
        let wanted = match self.custodian.chain(session).map(|c| c.last().clone()) {
            Some(Custody::Release(release)) => release.head,
            Some(Custody::Seize(seize)) => seize.head,
            Some(Custody::Genesis(_)) | None => return,
        };
        let log = self.copies.values().find(|log| head(log) == wanted).expect("active without its payload").clone();
        self.logs.insert(session, log);
        self.custodian.installed(session, handoff);
    }
}

fn restore(local: &Arc<LocalDevice>, journal: &[Record], trust: Trust, now: Now) -> Custodian {
    Custodian::restore(local.clone(), Incarnation::new([9; 16]), Some(mesh()), journal.iter(), trust, now).unwrap()
}

fn mesh() -> MeshId {
    MeshId::new([5; 32])
}

fn key() -> SessionKey {
    named("session")
}

fn named(native: &str) -> SessionKey {
    SessionKey { agent: AgentKind::Codex, native: NativeId::parse(native).unwrap() }
}

fn session() -> SessionId {
    key().id()
}

fn head(log: &[u8]) -> Head {
    Head { turn: log.len() as u64, length: log.len() as u64, hash: Hash::of(log) }
}

fn root(log: &[u8]) -> Hash {
    Hash::of(&[b"catalog of ", log].concat())
}

fn round(head: Head, root: Hash) -> Round {
    Round { head, root, catalog: Vec::new(), payload_bytes: head.length, exchange_key: [4; 32] }
}

fn terms(head: Head) -> OfferTerms {
    OfferTerms {
        head,
        title: "a session".to_owned(),
        requirement: Requirement { agent: AgentKind::Codex, version: String::new(), provider: None },
        carry_only: false,
        workspace: Workspace { path: b"/home/a".to_vec(), below_home: None, repository: None },
        scope: scope(),
    }
}

fn scope() -> Scope {
    Scope {
        inventory: Vec::new(),
        limit_bytes: 1 << 20,
        limit_entries: 10,
        executables: Vec::new(),
        dotfiles: Vec::new(),
        configuration_as_code: Vec::new(),
    }
}

fn offer_of(source: &LocalDevice, destination: DeviceId, handoff: HandoffId, key: &SessionKey) -> Offer {
    let terms = terms(head(&[]));
    Offer {
        mesh: mesh(),
        handoff,
        key: key.clone(),
        source: source.device(),
        destination,
        token: FencingToken::FIRST,
        head: terms.head,
        title: terms.title,
        requirement: terms.requirement,
        carry_only: false,
        workspace: terms.workspace,
        scope: terms.scope,
        offered_at_unix_ms: 0,
    }
}

fn genesis(owner: &LocalDevice, key: &SessionKey) -> Signed<Custody> {
    let incarnation = Incarnation::new([9; 16]);
    owner
        .sign(&Custody::Genesis(Genesis {
            mesh: mesh(),
            key: key.clone(),
            owner: owner.device(),
            incarnation,
            members: 0,
        }))
        .unwrap()
}

/// A release that follows `prev` under `epoch`.
fn release(from: &LocalDevice, to: DeviceId, prev: &Signed<Custody>, epoch: u64) -> Release {
    Release {
        mesh: mesh(),
        session: session(),
        prev: prev.hash(),
        from: from.device(),
        to,
        handoff: HandoffId::new([200; 16]),
        token: FencingToken { generation: 0, epoch },
        next_token: FencingToken { generation: 0, epoch: epoch + 1 },
        head: head(&[1, 2]),
        root: root(&[1, 2]),
        members: 0,
    }
}

fn seize(by: &LocalDevice, prev: &Signed<Custody>, token: FencingToken) -> Signed<Custody> {
    by.sign(&Custody::Seize(seize_of(by, prev, token))).unwrap()
}

fn seize_of(by: &LocalDevice, prev: &Signed<Custody>, token: FencingToken) -> Seize {
    let next_token = token.next_generation().unwrap();
    let to = by.device();
    Seize {
        mesh: mesh(),
        session: session(),
        prev: prev.hash(),
        to,
        token,
        next_token,
        head: head(&[1, 2]),
        members: 3,
        votes: Vec::new(),
    }
}

fn ack(by: &LocalDevice, handoff: HandoffId, source: DeviceId, log: &[u8]) -> CommitAck {
    CommitAck {
        handoff,
        session: session(),
        token: FencingToken::FIRST,
        head: head(log),
        root: root(log),
        source,
        destination: by.device(),
    }
}
