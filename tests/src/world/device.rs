//! One device: the real decider in memory, a disk that survives, and what its hands still have to do.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cede_core::custodian::{Custodian, RestoreError, Trust};
use cede_core::destination::DestinationPhase;
use cede_core::electorate::Electorate;
use cede_core::now::Now;
use cede_core::output::Event;
use cede_core::source::{OfferTerms, Quiet, Round};
use cede_seal::device::LocalDevice;
use cede_wire::custody::{FencingToken, Head};
use cede_wire::handoff::{Manifest, Scope, Workspace};
use cede_wire::id::{DeviceId, HandoffId, Hash, Incarnation, MeshId, SessionId};
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, Requirement};

/// What the power does not take.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) journal: Vec<Record>,
    /// Sessions in their place: the agent's own record.
    pub(super) logs: BTreeMap<SessionId, Vec<u64>>,
    /// Sessions behind a fence: they were given away or seized.
    pub(super) aside: BTreeMap<SessionId, Vec<u64>>,
    /// Turns that were kept because nothing else had them.
    pub(super) branches: Vec<Vec<u64>>,
    /// Payloads that were captured here, by attempt; pinned until the attempt is over or the new owner acts.
    pub(super) captured: BTreeMap<HandoffId, Vec<u64>>,
    /// Payloads that arrived here, by attempt.
    pub(super) received: BTreeMap<HandoffId, Vec<u64>>,
    /// The highest token in the journal, by session.
    pub(super) tokens: BTreeMap<SessionId, FencingToken>,
}

impl Disk {
    /// The fence over a session comes down: what lies behind it is in its place again.
    pub(super) fn unfence(&mut self, session: SessionId) {
        if let Some(turns) = self.aside.remove(&session) {
            self.logs.entry(session).or_insert(turns);
        }
    }

    /// Every copy of anything.
    pub(super) fn everything(&self) -> impl Iterator<Item = &Vec<u64>> {
        let places = self.logs.values().chain(self.aside.values()).chain(&self.branches);
        places.chain(self.captured.values()).chain(self.received.values())
    }

    pub(super) fn log(&self, session: SessionId) -> &[u64] {
        self.logs.get(&session).map_or(&[], Vec::as_slice)
    }
}

/// Work of the hands, lost with the power.
pub(super) enum Task {
    Event(Event),
    /// Payload that came and is not on the disk yet.
    Write(HandoffId, Vec<u64>),
}

pub(super) struct Device {
    local: Arc<LocalDevice>,
    /// None: no power.
    pub(super) custodian: Option<Custodian>,
    pub(super) disk: Disk,
    pub(super) tasks: VecDeque<Task>,
    pub(super) electorate: Electorate,
    /// The rounds that are being fetched.
    pub(super) fetching: BTreeMap<HandoffId, Manifest>,
}

impl Device {
    pub(super) fn new(n: u8, now: Now) -> Self {
        let mut device = Self {
            local: Arc::new(LocalDevice::from_secret(&[n; 32])),
            custodian: None,
            disk: Disk::default(),
            tasks: VecDeque::new(),
            electorate: Electorate::default(),
            fetching: BTreeMap::new(),
        };
        device.start(now).expect("an empty journal");
        device
    }

    pub(super) fn id(&self) -> DeviceId {
        self.local.device()
    }

    pub(super) fn start(&mut self, now: Now) -> Result<(), RestoreError> {
        let (incarnation, mesh) = (Incarnation::new([9; 16]), Some(MeshId::new([5; 32])));
        let records = self.disk.journal.iter();
        let mut custodian = Custodian::restore(self.local.clone(), incarnation, mesh, records, Trust::Whole, now)?;
        custodian.set_electorate(self.electorate.clone());
        for (session, _) in custodian.fences_to_lift() {
            self.disk.unfence(session);
            custodian.fence_lifted(session);
        }
        let sessions: Vec<_> = custodian.sessions().map(|(id, _)| id).collect();
        for session in sessions {
            let arriving = custodian.arriving(session).map(|a| (a.attempt().handoff, a.phase().clone()));
            if let Some((handoff, DestinationPhase::Staged { .. })) = arriving
                && !self.disk.received.contains_key(&handoff)
            {
                let refusal = Refusal::IntegrityFailed;
                custodian.receive_failed(session, handoff, refusal, "the stage is lost");
            }
        }
        self.custodian = Some(custodian);
        Ok(())
    }

    pub(super) fn lose_power(&mut self) {
        self.custodian = None;
        self.tasks.clear();
        self.fetching.clear();
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.custodian.as_ref()?.poll_timeout().map(|(at, _)| at)
    }

    pub(super) fn quiet(&self, session: SessionId) -> Quiet {
        Quiet { head: head(self.disk.log(session)), in_flight: false }
    }

    /// Whether the device acts for the session: the question that its agent asks.
    pub(super) fn acts(&self, session: SessionId) -> bool {
        let lies_here = self.disk.logs.contains_key(&session);
        lies_here && self.custodian.as_ref().is_some_and(|custodian| custodian.may_act(session))
    }
}

fn bytes(turns: &[u64]) -> Vec<u8> {
    turns.iter().flat_map(|turn| turn.to_le_bytes()).collect()
}

pub(crate) fn head(turns: &[u64]) -> Head {
    let bytes = bytes(turns);
    Head { turn: turns.len() as u64, length: bytes.len() as u64, hash: Hash::of(&bytes) }
}

pub(crate) fn root(turns: &[u64]) -> Hash {
    Hash::of(&[b"catalog of ".to_vec(), bytes(turns)].concat())
}

pub(crate) fn round(turns: &[u64]) -> Round {
    let head = head(turns);
    Round { head, root: root(turns), catalog: Vec::new(), payload_bytes: head.length, exchange_key: [4; 32] }
}

pub(crate) fn terms(turns: &[u64]) -> OfferTerms {
    OfferTerms {
        head: head(turns),
        title: "a session".to_owned(),
        requirement: Requirement { agent: AgentKind::Codex, version: String::new(), provider: None },
        carry_only: false,
        workspace: Workspace { path: b"/home/somebody".to_vec(), below_home: None, repository: None },
        scope: Scope {
            inventory: Vec::new(),
            limit_bytes: 1 << 20,
            limit_entries: 10,
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
        },
    }
}
