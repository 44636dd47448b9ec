//! S7: the records of this device may not be the newest, or two of them contradict each other.

use cede_wire::canonical::Signed;
use cede_wire::custody::Custody;
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::KnownCustody;
use cede_wire::record::{Doubt, Record};
use cede_wire::refusal::Refusal;

use super::{Custodian, Role, Session, Trust};
use crate::chain::Chain;
use crate::output::Event;

impl Custodian {
    /// Why nothing acts here until somebody confirms, where that is so.
    pub fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// The device whose certificate contradicts the one that is known, where there are two.
    pub fn contested(&self, session: SessionId) -> Option<DeviceId> {
        let rival = self.sessions.get(&session)?.contested.as_ref()?;
        cede_seal::verify::verify(rival).ok().map(|record| record.owner())
    }

    /// Whether the word of every other device ends a doubt: only where the membership is known to be the newest, and
    /// nobody else can hold the same key. Source: SPEC H-26.
    pub fn set_peers_suffice(&mut self, suffice: bool) {
        self.peers_suffice = suffice;
    }

    /// Sessions that this device would act for if its records were confirmed: their agents are held still meanwhile.
    pub fn to_hold_still(&self) -> Vec<SessionId> {
        let held = |state: &Session| match &state.role {
            Role::Unconfirmed(says) => matches!(**says, Role::Owner { .. }),
            Role::Bystander
            | Role::Owner { .. }
            | Role::Offering { .. }
            | Role::Released(_)
            | Role::Designate(_)
            | Role::Fenced { .. } => false,
        };
        self.sessions.iter().filter(|(_, state)| held(state)).map(|(id, _)| *id).collect()
    }

    /// S7: the agent's store is about to be fenced until somebody confirms. A confirmation as owner lifts it.
    pub fn hold_still(&mut self, session: SessionId) {
        let is_recorded = self.sessions.get(&session).is_some_and(|state| state.fenced_for.is_some());
        if !is_recorded && self.to_hold_still().contains(&session) {
            let (handoff, to) = (HandoffId::new([0; 16]), self.me());
            self.session(session).fenced_for = Some(handoff);
            self.persist(vec![Record::FenceRaised { session, handoff, to }]);
        }
    }

    pub(super) fn replay_doubt(&mut self, why: Doubt) {
        // Peers may end this one only, so it hides no other. Source: SPEC H-26.
        let graver = self.doubt.filter(|doubt| *doubt != Doubt::RolledBack);
        (self.trust, self.doubt) = (Trust::Unconfirmed, Some(graver.unwrap_or(why)));
        self.confirmed.clear();
        self.vouched.clear();
        for state in self.sessions.values_mut().filter(|state| state.chain.is_some()) {
            state.doubted = true;
        }
    }

    pub(super) fn replay_confirmed(&mut self, session: Option<SessionId>) {
        match session {
            Some(session) => {
                if !self.confirmed.insert(session) || self.trust == Trust::Whole {
                    self.own.insert(session);
                }
                if let Some(state) = self.sessions.get_mut(&session) {
                    state.doubted = false;
                }
            }
            None => {
                (self.trust, self.doubt) = (Trust::Whole, None);
                self.confirmed.clear();
                self.sessions.values_mut().for_each(|state| state.doubted = false);
            }
        }
    }

    /// S7, whatever was under way.
    pub(super) fn suspend(&mut self, session: SessionId) {
        self.withdraw(session, Refusal::StaleToken);
        self.give_up_seize(session, Refusal::StaleToken);
        let Some(state) = self.sessions.get_mut(&session).filter(|state| state.chain.is_some()) else { return };
        if let Role::Offering { .. } = state.role {
            self.abandon(session, Refusal::StaleToken, "this device's records are in doubt".to_owned());
        }
        let Some(state) = self.sessions.get_mut(&session) else { return };
        state.arriving = None;
        if !matches!(state.role, Role::Unconfirmed(_)) {
            let says = std::mem::replace(&mut state.role, Role::Bystander);
            state.role = Role::Unconfirmed(Box::new(says));
        }
    }

    /// Whether somebody released a session to this device that never moved by what is known here. It was forgotten, or it is
    /// made up: a second beginning of it would have two owners for ever, so that a person says which, by this session's name.
    pub fn waits_for_word(&self, session: SessionId) -> bool {
        let waits = |state: &Session| state.chain.is_none() && state.unclaimed.is_some();
        !self.own.contains(&session) && self.sessions.get(&session).is_some_and(waits)
    }

    /// The operator confirmed that this device's records are the newest: S7 to what they say. Of a session that waits for such a
    /// word it is one without a doubt too. Source: SPEC H-22.
    pub fn confirm(&mut self, session: SessionId) {
        if self.trust == Trust::Whole && !self.waits_for_word(session) {
            return;
        }
        self.persist(vec![Record::Confirmed { session: Some(session) }]);
        self.replay_confirmed(Some(session));
        self.tell(Event::Confirmed { session: Some(session) });
        self.settle_confirmed(session);
    }

    /// The same for every session, also those that this device does not know yet.
    pub fn confirm_all(&mut self) {
        if self.trust == Trust::Whole {
            return;
        }
        self.persist(vec![Record::Confirmed { session: None }]);
        self.replay_confirmed(None);
        self.tell(Event::Confirmed { session: None });
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.settle_confirmed(id);
        }
    }

    fn settle_confirmed(&mut self, session: SessionId) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        if state.contested.is_some() {
            return;
        }
        if let Role::Unconfirmed(says) = &state.role {
            state.role = (**says).clone();
            // What was not asked for in the doubt is asked for now.
            if let Role::Designate(missing) = &mut state.role {
                missing.ask_at = self.clock;
            }
            self.resume(session);
        }
    }

    /// A device says of which sessions it knows no more than this one. When every other one has said so of all of them, the
    /// records are the newest.
    pub(super) fn handle_custody_answer(&mut self, from: DeviceId, known: &[KnownCustody]) {
        self.asked.remove(&from);
        // What was learned from this answer may not have been all.
        if self.learned.remove(&from) {
            self.ask_custody(from);
            return;
        }
        if self.trust == Trust::Whole || !self.peers_suffice || !self.electorate.is_enrolled(from) {
            return;
        }
        let same = |chain: &Chain, known: &KnownCustody| {
            known.session == chain.session() && known.token == chain.token() && known.record == chain.head()
        };
        let mut chains = self.sessions.values().filter_map(|state| state.chain.as_ref());
        let me = self.me();
        // Nobody releases a session to a device that did not take it: one that it knows nothing of was forgotten here, and more
        // than that perhaps. Where somebody made it up, a person's word ends the doubt.
        let forgot = |state: &Session| state.chain.is_none() && state.unclaimed.is_some();
        if !self.sessions.values().any(forgot) && chains.all(|chain| known.iter().any(|known| same(chain, known))) {
            self.vouched.insert(from);
        } else {
            self.vouched.remove(&from);
        }
        let others: Vec<DeviceId> = self.electorate.enrolled().filter(|device| *device != me).collect();
        if !others.is_empty() && others.iter().all(|device| self.vouched.contains(device)) {
            self.confirm_all();
        }
    }
}

impl Session {
    /// Whether a release to this device that waits for its claim follows one by this device, which it knows nothing of.
    pub(super) fn forgot_release(&self, me: DeviceId) -> bool {
        self.chain.is_none() && self.unclaimed.as_ref().is_some_and(|waits| waits.chain.left_by(me).is_some())
    }

    /// The generation of the record that contradicts the chain; 0 where there is none.
    pub(super) fn contested_generation(&self) -> u64 {
        let rival = self.contested.as_ref().and_then(|rival| cede_seal::verify::verify(rival).ok());
        rival.map_or(0, |rival| rival.token().generation)
    }

    /// A contest is over when the chain reached a higher generation.
    pub(super) fn settle_contest(&mut self) {
        let generation = self.chain.as_ref().map_or(0, |chain| chain.token().generation);
        let passed = |rival: &mut Signed<Custody>| {
            cede_seal::verify::verify(rival).map_or(true, |rival| rival.token().generation < generation)
        };
        self.contested.take_if(passed);
    }
}
