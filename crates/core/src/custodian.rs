//! Every session of one device, and who may act for it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_seal::verify::Verified;
use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, FencingToken, Head, Release};
use cede_wire::handoff::{CommitAck, Offer};
use cede_wire::id::{DeviceId, HandoffId, Hash, Incarnation, MeshId, SessionId};
use cede_wire::record::{Doubt, Record};
use cede_wire::refusal::Refusal;
use cede_wire::session::SessionKey;

use crate::chain::Chain;
use crate::destination::HandoffDestination;
use crate::electorate::Electorate;
use crate::limits;
use crate::now::Now;
use crate::output::{Event, Output};
use crate::source::HandoffSource;

mod arriving;
mod attempts;
mod doubts;
mod gossip;
mod holding;
mod leaving;
mod messages;
mod moments;
mod offered;
mod restore;
mod seizing;
#[cfg(test)]
mod tests;
mod timers;
mod votes;

pub use restore::{RestoreError, Trust};
pub use seizing::{Prospect, SeizeError};

use attempts::{Attempts, Ended};
use seizing::Seizing;
use votes::Vote;

/// What this device is to a session. Source: SPEC H-10, the state table.
#[derive(Debug, Clone)]
enum Role {
    /// No stake, or none any more: S5 and every device that only knows the chain.
    Bystander,
    /// S0: in charge. `arrived` names the handoff that brought it and whether it stands in its place.
    Owner { arrived: Option<Arrived> },
    /// S1 to S3: in charge, with one attempt under way and the acknowledgement once it is here.
    Offering { source: Box<HandoffSource>, arrived: Option<Arrived>, ack: Option<Verified<CommitAck>> },
    /// S4: not in charge; sends the certificate until the new owner answers.
    Released(Released),
    /// D4: in charge by certificate, but the payload is missing, so it does not act.
    Designate(Designate),
    /// S6: another device seized it. Until this device's own turns are kept aside nothing may come in their place.
    Fenced { kept: bool },
    /// S7: nothing acts until somebody confirms that the records, which say this, are the newest.
    Unconfirmed(Box<Role>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrived {
    handoff: HandoffId,
    installed: bool,
}

#[derive(Debug, Clone)]
struct Released {
    handoff: HandoffId,
    to: DeviceId,
    next_token: FencingToken,
    send_at: Duration,
    wait: Duration,
    sent: u32,
}

#[derive(Debug, Clone, Copy)]
struct Designate {
    handoff: HandoffId,
    source: DeviceId,
    head: Head,
    root: Hash,
    scope: Hash,
    ask_at: Duration,
}

#[derive(Debug, Clone)]
struct Session {
    chain: Option<Chain>,
    role: Role,
    asked: Option<Asked>,
    arriving: Option<HandoffDestination>,
    unclaimed: Option<Unclaimed>,
    ack_at: Duration,
    ack_wait: Duration,
    attempts: Attempts,
    fenced_for: Option<HandoffId>,
    /// A device that said that it cannot follow a part of the chain.
    whole_chain_to: Option<DeviceId>,
    /// The records of it may not be the newest.
    doubted: bool,
    /// The last vote of this device.
    voted: Option<Vote>,
    /// The last votes that this device asked for were given to another one.
    outvoted: bool,
    /// The operator here seizes it, and the votes are being asked for.
    seizing: Option<Seizing>,
    /// A second certificate of the generation that is known. Nobody here acts until there is a higher one.
    contested: Option<Signed<Custody>>,
    /// Records of this device that a seize passed: a later one may bring them back.
    passed: BTreeSet<Hash>,
}

/// A question that waits for the operator. The links are what this device did not know when it was asked.
#[derive(Debug, Clone)]
struct Asked {
    offer: Verified<Offer>,
    links: Vec<Signed<Custody>>,
    chain_head: Hash,
    until: Duration,
}

/// A release to this device of a handoff that nobody approved here.
#[derive(Debug, Clone)]
struct Unclaimed {
    release: Release,
    /// The whole chain, of which this release is the last record.
    chain: Chain,
}

/// What a session is to this device, in words that getters give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// In charge here and in its place.
    InCharge,
    /// In charge here; its files are being put in their place.
    Arriving,
    /// In charge here; a handoff is under way.
    Leaving(HandoffId),
    /// Released; nobody acts until the destination does.
    ReleasedTo(DeviceId),
    /// In charge here by certificate; the payload is being fetched again.
    PayloadMissing,
    /// Another device's.
    Elsewhere(DeviceId),
    /// Seized by another device; this device's own turns are a branch.
    SeizedBy(DeviceId),
    /// Nobody may act until somebody confirms.
    Unconfirmed,
}

/// Why an offer was not made. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// This device belongs to no mesh.
    #[error("this device belongs to no mesh")]
    NoMesh,
    /// Another device is the owner.
    #[error("not the owner: {0:?}")]
    NotOwner(Standing),
    /// An attempt is under way.
    #[error("a handoff of this session is under way: {0}")]
    Busy(HandoffId),
    /// The destination is this device.
    #[error("the destination is this device")]
    ToSelf,
    /// Too many handoffs in flight.
    #[error("too many handoffs in flight")]
    TooMany,
    /// A rule of ours failed.
    #[error("fault of ours: {0}")]
    Bug(&'static str),
}

/// One device's custody of its sessions. One input, then drain [`Custodian::poll`].
#[derive(Debug, Clone)]
pub struct Custodian {
    local: Arc<LocalDevice>,
    mesh: Option<MeshId>,
    incarnation: Incarnation,
    sessions: BTreeMap<SessionId, Session>,
    links: BTreeSet<DeviceId>,
    /// The chain that each linked device told last of a session that this one never had, or that parts from the known one.
    told: BTreeMap<DeviceId, Chain>,
    outputs: VecDeque<Output>,
    trust: Trust,
    /// Why the records may not be the newest, where that is so.
    doubt: Option<Doubt>,
    /// Whether the word of every other device suffices to end the doubt.
    peers_suffice: bool,
    /// Devices that were asked what they know, and have not answered.
    asked: BTreeSet<DeviceId>,
    /// Devices that are asked again once they answered: something was learned since they were asked.
    learned: BTreeSet<DeviceId>,
    /// Devices that said in this run that they know no more than this one.
    vouched: BTreeSet<DeviceId>,
    confirmed: BTreeSet<SessionId>,
    /// Sessions of which a person said so besides, or without a doubt: whoever says that it released them made that up.
    own: BTreeSet<SessionId>,
    electorate: Electorate,
    declined: Ended,
    /// The latest moment that this machine was told.
    clock: Duration,
}

impl Custodian {
    /// The next thing to do; none when everything is said.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The mesh that this device belongs to from now on. What it is in charge of since it was in another one begins anew there,
    /// as [`crate::succession::of_another_mesh`] says of the journal.
    pub fn join_mesh(&mut self, mesh: MeshId) {
        self.mesh = Some(mesh);
        self.sessions.retain(|_, state| {
            let stands =
                matches!(state.role, Role::Owner { arrived } if arrived.is_none_or(|arrived| arrived.installed));
            !stands || state.chain.as_ref().is_none_or(|chain| chain.mesh() == mesh)
        });
    }

    /// Who belongs to the mesh, now and before: it says whose votes a seize takes. Source: SPEC H-31.
    ///
    /// Chains that named more of the log than was known here were not taken: they are asked for again.
    pub fn set_electorate(&mut self, electorate: Electorate) {
        let grew = electorate.length() > self.electorate.length();
        self.electorate = electorate;
        if grew {
            self.links.clone().into_iter().for_each(|device| self.ask_custody(device));
        }
    }

    /// What a session is to this device; none for one that it never heard of.
    pub fn standing(&self, session: SessionId) -> Option<Standing> {
        self.sessions.get(&session)?.standing()
    }

    /// Whether this device may act for the session. Source: SPEC H-1.
    ///
    /// A session without a chain is its agent's own: it may act until it is first offered, unless the records that would
    /// name its chain may be lost. Source: SPEC H-22.
    pub fn may_act(&self, session: SessionId) -> bool {
        let own = self.trust == Trust::Whole || self.confirmed.contains(&session);
        self.standing(session).map_or(own, |standing| match standing {
            Standing::InCharge | Standing::Leaving(_) => true,
            Standing::Arriving
            | Standing::ReleasedTo(_)
            | Standing::PayloadMissing
            | Standing::Elsewhere(_)
            | Standing::SeizedBy(_)
            | Standing::Unconfirmed => false,
        })
    }

    /// The owner, as the chain says.
    pub fn owner(&self, session: SessionId) -> Option<DeviceId> {
        self.sessions.get(&session)?.chain.as_ref().map(Chain::owner)
    }

    /// The token, as the chain says; the first one for a session that never moved.
    pub fn token(&self, session: SessionId) -> FencingToken {
        let chain = self.sessions.get(&session).and_then(|s| s.chain.as_ref());
        chain.map_or(FencingToken::FIRST, Chain::token)
    }

    /// Every session with a chain.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, Standing)> + '_ {
        self.sessions.iter().filter_map(|(id, session)| Some((*id, session.standing()?)))
    }

    /// Whether this device is in charge by this handoff, and the session is not in its place yet.
    pub fn is_arriving(&self, session: SessionId, handoff: HandoffId) -> bool {
        let awaited = Arrived { handoff, installed: false };
        let role = self.sessions.get(&session).map(|state| &state.role);
        matches!(role, Some(Role::Owner { arrived: Some(arrived) }) if *arrived == awaited)
    }

    /// The chain of a session.
    pub fn chain(&self, session: SessionId) -> Option<&Chain> {
        self.sessions.get(&session)?.chain.as_ref()
    }

    /// The attempt that leaves, with its phase.
    pub fn leaving(&self, session: SessionId) -> Option<&HandoffSource> {
        match &self.sessions.get(&session)?.role {
            Role::Offering { source, .. } => Some(source),
            Role::Bystander
            | Role::Owner { .. }
            | Role::Released(_)
            | Role::Designate(_)
            | Role::Fenced { .. }
            | Role::Unconfirmed(_) => None,
        }
    }

    /// The attempt that arrives, with its phase.
    pub fn arriving(&self, session: SessionId) -> Option<&HandoffDestination> {
        self.sessions.get(&session)?.arriving.as_ref()
    }

    /// Sessions whose fence stands though this device is the owner and no attempt is under way: lift them.
    pub fn fences_to_lift(&self) -> Vec<(SessionId, HandoffId)> {
        let owned = |session: &Session| matches!(session.role, Role::Owner { .. });
        let all = self.sessions.iter().filter(|(_, session)| owned(session));
        all.filter_map(|(id, session)| Some((*id, session.fenced_for?))).collect()
    }

    fn session(&mut self, id: SessionId) -> &mut Session {
        self.sessions.entry(id).or_insert_with(Session::unknown)
    }

    fn persist(&mut self, records: Vec<Record>) {
        self.outputs.push_back(Output::Persist(records));
    }

    fn send(&mut self, to: DeviceId, message: cede_wire::message::PeerMessage) {
        self.outputs.push_back(Output::Send(to, Box::new(message)));
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Tell(event));
    }

    fn me(&self) -> DeviceId {
        self.local.device()
    }

    fn count(&self, wanted: impl Fn(&Session) -> bool) -> usize {
        self.sessions.values().filter(|session| wanted(session)).count()
    }

    fn hear(&mut self, now: Now) {
        self.clock = self.clock.max(now.monotonic);
    }

    /// Whether this device knows enough of a session to tell others that an attempt is over. Source: SPEC H-22.
    fn speaks_for(&self, session: SessionId) -> bool {
        match self.sessions.get(&session).filter(|session| session.chain.is_some()) {
            Some(session) => !matches!(session.role, Role::Unconfirmed(_)),
            None => self.trust == Trust::Whole,
        }
    }

    /// Begins the chain of a session that this device adopts. Known sessions are left as they are.
    fn adopt(&mut self, key: &SessionKey) -> Result<(), OfferError> {
        let id = key.id();
        if self.sessions.get(&id).is_some_and(|session| session.chain.is_some()) {
            return Ok(());
        }
        if !self.may_act(id) {
            return Err(OfferError::NotOwner(Standing::Unconfirmed));
        }
        let mesh = self.mesh.ok_or(OfferError::NoMesh)?;
        self.withdraw(id, Refusal::AlreadyOwner);
        let genesis = Custody::Genesis(cede_wire::custody::Genesis {
            mesh,
            key: key.clone(),
            owner: self.me(),
            incarnation: self.incarnation,
            members: self.electorate.length(),
        });
        let signed = self.local.sign(&genesis).map_err(|_| OfferError::Bug("foreign signer"))?;
        let chain = Chain::begin(&signed).map_err(|_| OfferError::Bug("own genesis"))?;
        let session = self.session(id);
        session.chain = Some(chain);
        session.role = Role::Owner { arrived: None };
        self.persist(vec![Record::Custody(signed)]);
        Ok(())
    }
}

impl Session {
    fn unknown() -> Self {
        Self {
            chain: None,
            role: Role::Bystander,
            asked: None,
            arriving: None,
            unclaimed: None,
            ack_at: Duration::ZERO,
            ack_wait: limits::ACK_REPEAT,
            attempts: Attempts::default(),
            fenced_for: None,
            whole_chain_to: None,
            doubted: false,
            voted: None,
            outvoted: false,
            seizing: None,
            contested: None,
            passed: BTreeSet::new(),
        }
    }

    fn standing(&self) -> Option<Standing> {
        let owner = self.chain.as_ref().map(Chain::owner)?;
        Some(match &self.role {
            Role::Bystander => Standing::Elsewhere(owner),
            Role::Owner { arrived: Some(Arrived { installed: false, .. }) } => Standing::Arriving,
            Role::Owner { .. } => Standing::InCharge,
            Role::Offering { source, .. } => Standing::Leaving(source.offer().handoff),
            Role::Released(released) => Standing::ReleasedTo(released.to),
            Role::Designate(_) => Standing::PayloadMissing,
            Role::Fenced { .. } => Standing::SeizedBy(owner),
            Role::Unconfirmed(_) => Standing::Unconfirmed,
        })
    }
}
