//! From the journal back to the states of the table.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_wire::custody::{Custody, FencingToken, Release};
use cede_wire::id::{HandoffId, Incarnation, MeshId, SessionId};
use cede_wire::record::Record;

use super::attempts::Ended;
use super::holding::designate;
use super::{Arrived, Custodian, Released, Role, Session};
use crate::chain::{Chain, ChainError};
use crate::destination::{Attempt, HandoffDestination, StagedPayload};
use crate::limits;
use crate::now::Now;
use crate::output::Event;

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
            trust,
            confirmed: BTreeSet::new(),
            declined: Ended::new(limits::DECLINED_ATTEMPTS),
            clock: now.monotonic,
        };
        let mut facts: BTreeMap<SessionId, Facts> = BTreeMap::new();
        for record in records {
            match custodian.replay(record, &mut facts, now) {
                Err(error) if trust == Trust::Whole => return Err(RestoreError(error)),
                // In S7 nothing acts on what the records say, so what still fits is shown.
                Ok(()) | Err(_) => {}
            }
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
                let state = self.session(*session);
                state.attempts.approve(*handoff, *scope);
                state.arriving = Some(HandoffDestination::approved(me, attempt, None, now));
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
                state.attempts.ended.push(*handoff);
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
        state.fenced_for = None;
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
        let role = match chain.last() {
            Custody::Release(release) if owner == me => role_of_arrival(release, facts, state, now),
            Custody::Release(release) if release.from == me => role_of_departure(release, facts, now),
            Custody::Genesis(_) | Custody::Seize(_) if owner == me => Role::Owner { arrived: None },
            Custody::Seize(_) if chain.owned_by(me) => Role::Fenced,
            Custody::Genesis(_) | Custody::Release(_) | Custody::Seize(_) => Role::Bystander,
        };
        // An attempt lives as long as its source is the owner. In S7 none does: its payload may not be what was staged.
        state.arriving.take_if(|a| trust == Trust::Unconfirmed || a.attempt().source != owner);
        if let Some(arriving) = &mut state.arriving {
            arriving.bind(token);
        }
        state.role = match trust {
            Trust::Whole => role,
            Trust::Unconfirmed => Role::Unconfirmed(Box::new(role)),
        };
        self.resume(id);
    }

    /// What a restart must begin again: the hands may not have finished.
    fn resume(&mut self, id: SessionId) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        let Some(chain) = &state.chain else { return };
        let token = chain.token();
        let event = match &state.role {
            Role::Owner { arrived: Some(Arrived { handoff, installed: false }) } => match chain.last() {
                Custody::Release(release) => {
                    Some(Event::Activate { session: id, handoff: *handoff, source: release.from, token })
                }
                Custody::Genesis(_) | Custody::Seize(_) => None,
            },
            Role::Released(Released { handoff, to, .. }) => {
                Some(Event::Released { session: id, handoff: *handoff, to: *to, token })
            }
            Role::Bystander
            | Role::Owner { .. }
            | Role::Offering { .. }
            | Role::Designate(_)
            | Role::Fenced
            | Role::Unconfirmed(_) => None,
        };
        if let Some(event) = event {
            self.tell(event);
        }
    }

    /// The operator, or peers, confirmed that this device's records are the newest: S7 to what they say. Source: SPEC H-22.
    pub fn confirm(&mut self, session: SessionId) {
        match self.sessions.get_mut(&session).filter(|state| state.chain.is_some()) {
            Some(state) => {
                if let Role::Unconfirmed(says) = &state.role {
                    state.role = (**says).clone();
                    self.resume(session);
                }
            }
            None if self.trust == Trust::Unconfirmed => {
                self.confirmed.insert(session);
            }
            None => {}
        }
    }
}

impl Released {
    pub(super) fn new(release: &Release, send_at: Duration) -> Self {
        let (handoff, to, next_token) = (release.handoff, release.to, release.next_token);
        Self { handoff, to, next_token, send_at, wait: limits::RELEASE_FIRST, sent: 0 }
    }
}

fn role_of_arrival(release: &Release, facts: &Facts, state: &Session, now: Now) -> Role {
    let installed = facts.installed.contains(&release.handoff);
    if facts.active == Some((release.handoff, release.next_token)) {
        Role::Owner { arrived: Some(Arrived { handoff: release.handoff, installed }) }
    } else {
        Role::Designate(designate(release, state.attempts.approval(release.handoff), now.monotonic))
    }
}

fn role_of_departure(release: &Release, facts: &Facts, now: Now) -> Role {
    if facts.retired.contains(&release.handoff) {
        return Role::Bystander;
    }
    Role::Released(Released::new(release, now.monotonic))
}
