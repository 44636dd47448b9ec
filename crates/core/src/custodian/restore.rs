//! From the journal back to the states of the table.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_wire::canonical::{Signable, Signed};
use cede_wire::custody::{Custody, FencingToken, Release};
use cede_wire::id::{DeviceId, HandoffId, Incarnation, MeshId, SessionId};
use cede_wire::record::Record;

use super::attempts::Ended;
use super::holding::designate;
use super::votes::Vote;
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
    /// S6, and whether this device's own turns are kept aside.
    fenced: Option<bool>,
    /// Records that part from the chain and lead to a seize.
    side: Option<Chain>,
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
            told: BTreeMap::new(),
            outputs: VecDeque::new(),
            trust,
            doubt: None,
            peers_suffice: false,
            asked: BTreeSet::new(),
            learned: BTreeSet::new(),
            vouched: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            own: BTreeSet::new(),
            electorate: crate::electorate::Electorate::default(),
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
            Record::Custody(link) => {
                let record = cede_seal::verify::verify(link).map_err(|_| ChainError::Forged)?;
                let session = record.session();
                if record.signer() == me {
                    self.session(session).passed.insert(link.hash());
                }
                let facts = facts.entry(session).or_default();
                let owner = self.replay_link(&record, link, facts)?;
                facts.fenced.take_if(|_| owner == me);
                self.session(session).doubted &= owner == me;
            }
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
            Record::Voted { session, generation, to } => {
                self.session(*session).voted = Some(Vote { generation: *generation, to: *to });
            }
            Record::Contested(rival) => {
                let session = cede_seal::verify::verify(rival).map_err(|_| ChainError::Forged)?.session();
                self.session(session).contested = Some(rival.clone());
            }
            Record::Doubted { why } => self.replay_doubt(*why),
            Record::Confirmed { session } => self.replay_confirmed(*session),
            Record::SeizedSeen { session, kept, .. } => facts.entry(*session).or_default().fenced = Some(*kept),
            Record::Marked { .. }
            | Record::Transfer(_)
            | Record::Placed(_)
            | Record::Member(_)
            | Record::PeerDropped { .. }
            | Record::PolicySet { .. }
            | Record::RuleSet { .. }
            | Record::ApproverSet { .. }
            | Record::AddressSeen { .. }
            | Record::Letter(_)
            | Record::Task(_) => {}
        }
        Ok(())
    }

    fn replay_link(
        &mut self,
        record: &Custody,
        link: &Signed<Custody>,
        facts: &mut Facts,
    ) -> Result<DeviceId, ChainError> {
        let state = self.session(record.session());
        state.fenced_for = None;
        if state.chain.take_if(|chain| chain.ends_with(record)).is_some() {
            *facts = Facts::default();
        }
        let owner = match &mut state.chain {
            Some(chain) => chain.replay(link, &mut facts.side).map(|()| chain.owner())?,
            none => none.insert(Chain::begin(link)?).owner(),
        };
        state.settle_contest();
        Ok(owner)
    }

    fn settle(&mut self, id: SessionId, facts: &Facts, trust: Trust, now: Now) {
        let me = self.me();
        let state = self.session(id);
        let Some(chain) = &state.chain else { return };
        let (owner, token) = (chain.owner(), chain.token());
        state.passed.retain(|hash| !chain.contains(hash));
        let trust = if state.doubted || state.contested.is_some() { Trust::Unconfirmed } else { trust };
        let role = match chain.last() {
            _ if owner != me && facts.fenced.is_some() => Role::Fenced { kept: facts.fenced == Some(true) },
            Custody::Release(release) if owner == me => role_of_arrival(release, facts, state, now),
            Custody::Release(release) if release.from == me => role_of_departure(release, facts, now),
            Custody::Seize(seize) if owner == me => role_of_seizer(seize.next_token, facts),
            Custody::Genesis(_) if owner == me => Role::Owner { arrived: None },
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
    pub(super) fn resume(&mut self, id: SessionId) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        let Some(chain) = &state.chain else { return };
        let token = chain.token();
        let event = match &state.role {
            Role::Owner { arrived: Some(Arrived { handoff, installed: false }) } => {
                let source = chain.owner_before();
                Some(Event::Activate { session: id, handoff: *handoff, source, token })
            }
            Role::Fenced { kept: false } => {
                Some(Event::Seized { session: id, by: chain.owner(), token, head: chain.seized_head() })
            }
            Role::Released(Released { handoff, to, .. }) => {
                Some(Event::Released { session: id, handoff: *handoff, to: *to, token })
            }
            Role::Bystander
            | Role::Owner { .. }
            | Role::Offering { .. }
            | Role::Designate(_)
            | Role::Fenced { .. }
            | Role::Unconfirmed(_) => None,
        };
        if let Some(event) = event {
            self.tell(event);
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

fn role_of_seizer(token: FencingToken, facts: &Facts) -> Role {
    let arrived = facts.active.filter(|(_, active)| *active == token).map(|(handoff, _)| {
        let installed = facts.installed.contains(&handoff);
        Arrived { handoff, installed }
    });
    Role::Owner { arrived }
}

fn role_of_departure(release: &Release, facts: &Facts, now: Now) -> Role {
    if facts.retired.contains(&release.handoff) {
        return Role::Bystander;
    }
    Role::Released(Released::new(release, now.monotonic))
}
