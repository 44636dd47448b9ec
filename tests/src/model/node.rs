//! One device: the real decider in memory, what its hands still have to do, and the disk that survives.

use core::fmt::Write;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cede_core::custodian::{Custodian, Standing, Trust};
use cede_core::destination::DestinationPhase;
use cede_core::electorate::Electorate;
use cede_core::now::Now;
use cede_core::output::{Event, Output};
use cede_seal::device::LocalDevice;
use cede_seal::verify::verify;
use cede_wire::canonical::encode;
use cede_wire::custody::{Custody, FencingToken, Release};
use cede_wire::id::{DeviceId, HandoffId, Incarnation, MeshId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, NativeId, SessionKey};

use super::check::Rule;
use super::letter::{Digest, Letter, digest};
use crate::world::device::head;

/// The moment of every input.
pub(super) const NOW: Now = Now { monotonic: core::time::Duration::from_secs(1), unix_ms: 1_700_000_000_000 };

/// Longer than every deadline of the core.
pub(super) const LONG: core::time::Duration = core::time::Duration::from_secs(30 * 24 * 60 * 60);

pub(super) static DEVICES: LazyLock<Vec<Arc<LocalDevice>>> =
    LazyLock::new(|| (1..=4).map(|n| Arc::new(LocalDevice::from_secret(&[n; 32]))).collect());

pub(super) static KEY: LazyLock<SessionKey> =
    LazyLock::new(|| SessionKey { agent: AgentKind::Codex, native: NativeId::parse("session").expect("a native id") });

pub(super) static SESSION: LazyLock<SessionId> = LazyLock::new(|| KEY.id());

pub(super) fn place(device: DeviceId) -> Option<u8> {
    DEVICES.iter().position(|known| known.device() == device).map(|at| at as u8)
}

/// What the power does not take.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    pub(super) journal: Vec<Record>,
    /// The session in its place: the agent's own record.
    pub(super) log: Option<Vec<u64>>,
    /// What lay in its place here before it was given away.
    pub(super) aside: Option<Vec<u64>>,
    /// Turns that only this device had when another one seized the session.
    pub(super) branches: Vec<Vec<u64>>,
    /// Payloads that were captured here, pinned until the attempt is over or the new owner acts.
    pub(super) captured: BTreeMap<HandoffId, Vec<u64>>,
    /// Payloads that arrived here.
    pub(super) received: BTreeMap<HandoffId, Vec<u64>>,
    /// The highest token in the journal.
    pub(super) token: Option<FencingToken>,
}

/// What others can notice of what a device does.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    Sent(Letter),
    /// A link of the chain is durable here.
    Linked(Custody),
    /// The decision is durable here, with what the disk held at that moment.
    Decided {
        release: Release,
        log: Vec<u64>,
        captured: Option<Vec<u64>>,
    },
    /// The activation is durable here. Again: what had arrived was lost before it was put in its place.
    Activated {
        token: FencingToken,
        again: bool,
    },
    /// The certificate of a seize is durable here, with the turns that this device goes on with.
    Seized {
        token: FencingToken,
        turns: Vec<u64>,
    },
    /// A rule is broken.
    Broken(Rule, String),
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: u8,
    /// None: no power.
    pub(super) custodian: Option<Custodian>,
    pub(super) tasks: Vec<Event>,
    pub(super) disk: Disk,
    pub(super) digest: Digest,
}

impl Node {
    /// The device at this place, running; the first one has the session with one turn.
    pub(super) fn first(at: u8, electorate: &Electorate) -> Self {
        let mut disk = Disk::default();
        if at == 0 {
            disk.log = Some(vec![1]);
        }
        let node = Self { at, custodian: None, tasks: Vec::new(), disk, digest: 0 };
        let mut hand = Hand::new(node, None, electorate);
        hand.start();
        hand.finish().0
    }

    pub(super) fn id(&self) -> DeviceId {
        DEVICES[usize::from(self.at)].device()
    }

    pub(super) fn standing(&self) -> Option<Standing> {
        self.custodian.as_ref()?.standing(*SESSION)
    }

    /// Whether the device acts for the session: the question that its agent asks.
    pub(super) fn acts(&self) -> bool {
        self.disk.log.is_some() && self.custodian.as_ref().is_some_and(|custodian| custodian.may_act(*SESSION))
    }

    pub(super) fn log(&self) -> &[u64] {
        self.disk.log.as_deref().unwrap_or(&[])
    }

    /// The generation under which it believes the session to be.
    pub(super) fn generation(&self) -> u64 {
        self.custodian.as_ref().map_or(0, |custodian| custodian.token(*SESSION).generation)
    }

    /// The turns that lie here, in their place or aside.
    pub(super) fn here(&self) -> Option<&Vec<u64>> {
        self.disk.log.as_ref().or(self.disk.aside.as_ref())
    }

    fn fingerprint(&self) -> Digest {
        let mut text = format!("{:?} {:?}", self.at, self.custodian);
        // Writing to a string cannot fail.
        let disk = &self.disk;
        let _ = write!(text, "{:?} {:?} {:?} {:?}", self.tasks, disk.log, disk.captured, disk.received);
        let _ = write!(text, "{:?} {:?}", disk.aside, disk.branches);
        let mut bytes = text.into_bytes();
        self.disk.journal.iter().for_each(|record| bytes.extend(encode(record)));
        digest(&bytes)
    }
}

/// A device while it does one thing, up to where the power fails.
pub(super) struct Hand<'a> {
    pub(super) node: Node,
    electorate: &'a Electorate,
    pub(super) effects: Vec<Effect>,
    /// Records and messages until the power fails.
    fuse: Option<usize>,
    /// Records and messages so far.
    spent: usize,
}

impl<'a> Hand<'a> {
    pub(super) fn new(node: Node, fuse: Option<usize>, electorate: &'a Electorate) -> Self {
        Self { node, electorate, effects: Vec::new(), fuse, spent: 0 }
    }

    /// The device afterwards, what it did, and in how many places the power could have failed.
    pub(super) fn finish(mut self) -> (Node, Vec<Effect>, usize) {
        if self.fuse.is_some() {
            self.power_off();
        }
        self.node.tasks.sort_by_cached_key(|task| format!("{task:?}"));
        self.node.digest = self.node.fingerprint();
        (self.node, self.effects, self.spent)
    }

    pub(super) fn power_off(&mut self) {
        self.node.custodian = None;
        self.node.tasks.clear();
    }

    pub(super) fn broken(&mut self, rule: Rule, what: impl Into<String>) {
        self.effects.push(Effect::Broken(rule, what.into()));
    }

    pub(super) fn start(&mut self) {
        let (incarnation, mesh) = (Incarnation::new([9; 16]), Some(MeshId::new([5; 32])));
        let local = DEVICES[usize::from(self.node.at)].clone();
        let restored = Custodian::restore(local, incarnation, mesh, self.node.disk.journal.iter(), Trust::Whole, NOW);
        match restored {
            Ok(mut custodian) => {
                custodian.set_electorate(self.electorate.clone());
                self.node.custodian = Some(custodian);
            }
            Err(error) => return self.broken(Rule::Sound, format!("the journal does not restore: {error}")),
        }
        self.drain();
        let raised = self.node.custodian.as_ref().is_some_and(|custodian| !custodian.fences_to_lift().is_empty());
        if raised {
            self.lift_fence();
        }
        let arriving = self.node.custodian.as_ref().and_then(|custodian| custodian.arriving(*SESSION));
        let staged = arriving.filter(|arriving| matches!(arriving.phase(), DestinationPhase::Staged { .. }));
        let lost = staged.map(|staged| staged.attempt().handoff);
        if let Some(handoff) = lost.filter(|handoff| !self.node.disk.received.contains_key(handoff)) {
            self.receive_failed(handoff);
        }
    }

    pub(super) fn receive_failed(&mut self, handoff: HandoffId) {
        let refusal = Refusal::IntegrityFailed;
        self.tell(|custodian| custodian.receive_failed(*SESSION, handoff, refusal, "the stage is lost"));
    }

    /// One input, then drain, as the contract says.
    pub(super) fn tell(&mut self, input: impl FnOnce(&mut Custodian)) {
        let Some(custodian) = self.node.custodian.as_mut() else { return };
        input(custodian);
        self.drain();
        if let Some(custodian) = self.node.custodian.as_mut() {
            custodian.rebase(NOW.monotonic);
        }
    }

    fn drain(&mut self) {
        for _ in 0..1_000 {
            let Some(output) = self.node.custodian.as_mut().and_then(Custodian::poll) else { return };
            if matches!(output, Output::Persist(_) | Output::Send(..)) {
                if self.fuse == Some(self.spent) {
                    self.power_off();
                    return;
                }
                self.spent += 1;
            }
            match output {
                Output::Persist(records) => records.into_iter().for_each(|record| self.persist(record)),
                Output::Send(to, message) => self.send(to, *message),
                Output::Tell(event) => self.hear(event),
                Output::Wake(..) => {}
            }
        }
        self.broken(Rule::Sound, "a device says more than a thousand things at once");
    }

    fn persist(&mut self, record: Record) {
        match &record {
            Record::Custody(link) => match verify(link) {
                Ok(link) => self.link((*link).clone()),
                Err(error) => self.broken(Rule::Sound, format!("a device keeps what does not verify: {error}")),
            },
            Record::Active { token, .. } => {
                self.token(*token);
                let active = |known: &Record| matches!(known, Record::Active { token: known, .. } if known == token);
                let again = self.node.disk.journal.iter().any(active);
                self.effects.push(Effect::Activated { token: *token, again });
            }
            _ => {}
        }
        self.node.disk.journal.push(record);
    }

    fn link(&mut self, link: Custody) {
        self.token(link.token());
        if let Custody::Release(release) = &link
            && release.from == self.node.id()
        {
            let captured = self.node.disk.captured.get(&release.handoff).cloned();
            let log = self.node.log().to_vec();
            self.effects.push(Effect::Decided { release: release.clone(), log, captured });
        }
        if let Custody::Seize(seize) = &link
            && seize.to == self.node.id()
        {
            let disk = &self.node.disk;
            let mut copies = disk.received.values().chain(&disk.log).chain(&disk.aside);
            match copies.find(|turns| head(turns) == seize.head).cloned() {
                Some(turns) => self.effects.push(Effect::Seized { token: seize.next_token, turns }),
                None => self.broken(Rule::AllTurns, "a device seizes what does not lie there"),
            }
        }
        self.effects.push(Effect::Linked(link));
    }

    fn token(&mut self, token: FencingToken) {
        if self.node.disk.token.is_some_and(|known| known > token) {
            self.broken(Rule::Tokens, "a token goes down on one device");
        }
        self.node.disk.token = Some(token);
    }

    fn send(&mut self, to: DeviceId, message: PeerMessage) {
        if !self.permitted(&message) {
            self.broken(Rule::RecordFirst, "a message leaves before the record that permits it is durable");
        }
        match place(to) {
            Some(to) => self.effects.push(Effect::Sent(Letter::new(self.node.at, to, message))),
            None => self.broken(Rule::Sound, "a message to nobody"),
        }
    }

    /// What leaves a device is permitted by what is in its journal.
    fn permitted(&self, message: &PeerMessage) -> bool {
        let has = |wanted: &dyn Fn(&Record) -> bool| self.node.disk.journal.iter().any(wanted);
        match message {
            PeerMessage::Release { certificate, .. } => {
                has(&|record| matches!(record, Record::Custody(link) if link == certificate))
            }
            PeerMessage::CommitAck(ack) => verify(ack).is_ok_and(|ack| {
                has(&|record| matches!(record, Record::Staged { handoff, .. } if *handoff == ack.handoff))
            }),
            PeerMessage::Accept(accept) | PeerMessage::Refetch(accept) => verify(accept).is_ok_and(|accept| {
                has(&|record| matches!(record, Record::Approved { handoff, .. } if *handoff == accept.handoff))
            }),
            PeerMessage::Activated(word) => verify(word).is_ok_and(|word| {
                has(&|record| matches!(record, Record::Installed { handoff, .. } if *handoff == word.handoff))
                    && has(&|record| matches!(record, Record::Active { handoff, .. } if *handoff == word.handoff))
            }),
            _ => true,
        }
    }
}
