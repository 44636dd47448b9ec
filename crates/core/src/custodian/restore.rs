//! From the journal back to the states of the table.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_wire::custody::{Custody, FencingToken, Release};
use cede_wire::id::{DeviceId, HandoffId, Incarnation, MeshId, SessionId};
use cede_wire::record::Record;

use super::{Arrived, Custodian, Designate, Released, Role};
use crate::chain::{Chain, ChainError};
use crate::destination::{Attempt, HandoffDestination, StagedPayload};
use crate::limits;
use crate::now::Now;
use crate::output::{Event, Output};

/// Whether the records can be believed to be the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// They are this device's and whole.
    Whole,
    /// The journal is damaged, or a copy or an older state of it: S7 for every session.
    Unconfirmed,
}

/// The records contradict each other. Nothing acts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal's custody records contradict each other")]
pub struct RestoreError(#[from] ChainError);

/// What the journal said about one session besides its chain.
#[derive(Default)]
struct Facts {
    active: Option<(HandoffId, FencingToken)>,
    installed: BTreeSet<HandoffId>,
    retired: BTreeSet<HandoffId>,
}

impl Custodian {
    /// Rebuilds the custody of this device from its journal, in the order of the records.
    ///
    /// # Errors
    /// [`RestoreError`]; start again with [`Trust::Unconfirmed`] after taking the journal aside.
    pub fn restore<'a>(
        local: Arc<LocalDevice>,
        incarnation: Incarnation,
        mesh: Option<MeshId>,
        records: impl Iterator<Item = &'a Record>,
        trust: Trust,
        now: Now,
    ) -> Result<Self, RestoreError> {
        let mut custodian = Self {
            local,
            mesh,
            incarnation,
            sessions: BTreeMap::new(),
            links: BTreeSet::new(),
            outputs: VecDeque::new(),
        };
        let mut facts: BTreeMap<SessionId, Facts> = BTreeMap::new();
        for record in records {
            custodian.replay(record, &mut facts, now)?;
        }
        let ids: Vec<_> = custodian.sessions.keys().copied().collect();
        for id in ids {
            custodian.settle(id, &facts.remove(&id).unwrap_or_default(), trust, now);
        }
        Ok(custodian)
    }

    fn replay(&mut self, record: &Record, facts: &mut BTreeMap<SessionId, Facts>, now: Now) -> Result<(), ChainError> {
        let me = self.me();
        match record {
            Record::Custody(link) => self.replay_link(link)?,
            Record::Approved { session, handoff, source, scope } => {
                let attempt = Attempt { handoff: *handoff, session: *session, source: *source, scope: *scope };
                self.session(*session).arriving = Some(HandoffDestination::approved(me, attempt, None, now));
            }
            Record::Staged { session, handoff, source, token, head, root } => {
                let payload = StagedPayload { head: *head, root: *root };
                let state = self.session(*session);
                let scope = state.arriving.as_ref().map_or(*root, |a| a.attempt().scope);
                let attempt = Attempt { handoff: *handoff, session: *session, source: *source, scope };
                state.arriving = Some(HandoffDestination::restore_staged(me, attempt, *token, payload, now));
                state.ack_at = now.monotonic;
            }
            Record::Active { session, handoff, token } => {
                facts.entry(*session).or_default().active = Some((*handoff, *token));
                self.session(*session).arriving = None;
            }
            Record::Discarded { session, handoff } => {
                let state = self.session(*session);
                state.arriving.take_if(|a| a.attempt().handoff == *handoff);
                state.end(*handoff);
            }
            Record::Retired { session, handoff } => {
                facts.entry(*session).or_default().retired.insert(*handoff);
            }
            Record::Installed { session, handoff } => {
                facts.entry(*session).or_default().installed.insert(*handoff);
            }
            Record::FenceRaised { session, handoff, .. } => self.session(*session).fenced_for = Some(*handoff),
            Record::FenceLifted { session } => self.session(*session).fenced_for = None,
            Record::Placed(_)
            | Record::Member(_)
            | Record::PeerDropped { .. }
            | Record::PolicySet { .. }
            | Record::AddressSeen { .. } => {}
        }
        Ok(())
    }

    fn replay_link(&mut self, link: &cede_wire::canonical::Signed<Custody>) -> Result<(), ChainError> {
        let session = cede_seal::verify::verify(link).map_err(|_| ChainError::Forged)?.session();
        let state = self.session(session);
        match &mut state.chain {
            Some(chain) => chain.extend(link),
            None => {
                state.chain = Some(Chain::begin(link)?);
                Ok(())
            }
        }
    }

    fn settle(&mut self, id: SessionId, facts: &Facts, trust: Trust, now: Now) {
        let me = self.me();
        let state = self.session(id);
        let Some(chain) = &state.chain else { return };
        let (owner, token) = (chain.owner(), chain.token());
        let last = chain.last().clone();
        state.role = match (trust, &last) {
            (Trust::Unconfirmed, _) => Role::Unconfirmed,
            (Trust::Whole, Custody::Release(release)) if owner == me => role_of_arrival(release, facts),
            (Trust::Whole, Custody::Release(release)) if release.from == me => role_of_departure(release, facts, now),
            (Trust::Whole, Custody::Genesis(_) | Custody::Seize(_)) if owner == me => Role::Owner { arrived: None },
            (Trust::Whole, Custody::Seize(_)) => Role::Fenced,
            (Trust::Whole, Custody::Genesis(_) | Custody::Release(_)) => Role::Bystander,
        };
        self.resume(id, token, me);
    }

    /// What a restart must begin again.
    fn resume(&mut self, id: SessionId, token: FencingToken, me: DeviceId) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        match &state.role {
            Role::Owner { arrived: Some(Arrived { handoff, installed: false }) } => {
                let source = match state.chain.as_ref().map(Chain::last) {
                    Some(Custody::Release(release)) => release.from,
                    Some(Custody::Genesis(_) | Custody::Seize(_)) | None => me,
                };
                let event = Event::Activate { session: id, handoff: *handoff, source, token };
                self.outputs.push_back(Output::Tell(event));
            }
            Role::Released(_) => state.fenced_for = None,
            Role::Bystander
            | Role::Owner { .. }
            | Role::Offering { .. }
            | Role::Designate(_)
            | Role::Fenced
            | Role::Unconfirmed => {}
        }
    }

    /// The operator, or peers, confirmed that this device's records are the newest: S7 to what they say.
    pub fn confirm(&mut self, session: SessionId) {
        let me = self.me();
        let state = self.session(session);
        if matches!(state.role, Role::Unconfirmed) {
            let owner = state.chain.as_ref().map(Chain::owner);
            state.role = if owner == Some(me) { Role::Owner { arrived: None } } else { Role::Bystander };
        }
    }
}

fn role_of_arrival(release: &Release, facts: &Facts) -> Role {
    let installed = facts.installed.contains(&release.handoff);
    if facts.active == Some((release.handoff, release.next_token)) {
        Role::Owner { arrived: Some(Arrived { handoff: release.handoff, installed }) }
    } else {
        let (handoff, source) = (release.handoff, release.from);
        Role::Designate(Designate { handoff, source, head: release.head, root: release.root })
    }
}

fn role_of_departure(release: &Release, facts: &Facts, now: Now) -> Role {
    if facts.retired.contains(&release.handoff) {
        return Role::Bystander;
    }
    Role::Released(Released {
        handoff: release.handoff,
        to: release.to,
        next_token: release.next_token,
        send_at: now.monotonic,
        wait: limits::RELEASE_FIRST,
    })
}
