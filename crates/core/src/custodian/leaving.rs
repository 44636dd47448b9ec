//! S0 to S5: a session leaves.

use cede_wire::canonical::Signed;
use cede_wire::custody::Custody;
use cede_wire::handoff::{Accept, Activated, CommitAck};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::session::SessionKey;

use super::{Custodian, OfferError, Released, Role, Standing, Trust};
use crate::chain::Chain;
use crate::limits;
use crate::now::Now;
use crate::output::Event;
use crate::source::{HandoffSource, OfferTerms, Quiet, Round, SourcePhase, StepError};

impl Custodian {
    /// S0 to S1: offers a session. `handoff` is random and new.
    ///
    /// # Errors
    /// [`OfferError`]; nothing changed.
    pub fn offer(
        &mut self,
        key: &SessionKey,
        destination: DeviceId,
        handoff: HandoffId,
        terms: OfferTerms,
        now: Now,
    ) -> Result<(), OfferError> {
        if destination == self.me() {
            return Err(OfferError::ToSelf);
        }
        if self.count(|s| matches!(s.role, Role::Offering { .. })) >= limits::HANDOFFS {
            return Err(OfferError::TooMany);
        }
        self.hear(now);
        let me = self.me();
        // It holds a signature of this device: what this one would offer begins before that.
        let forgot = self.sessions.get(&key.id()).is_some_and(|state| state.forgot_release(me));
        if forgot || self.waits_for_word(key.id()) {
            return Err(OfferError::NotOwner(Standing::Unconfirmed));
        }
        self.adopt(key)?;
        let session = self.session(key.id());
        if session.attempts.ended.contains(handoff) {
            return Err(OfferError::Bug("a handoff id was used before"));
        }
        let arrived = match &session.role {
            Role::Owner { arrived } if arrived.is_none_or(|a| a.installed) => *arrived,
            Role::Offering { source, .. } => return Err(OfferError::Busy(source.offer().handoff)),
            Role::Owner { .. }
            | Role::Bystander
            | Role::Released(_)
            | Role::Designate(_)
            | Role::Fenced { .. }
            | Role::Unconfirmed(_) => {
                return Err(OfferError::NotOwner(session.standing().unwrap_or(Standing::Unconfirmed)));
            }
        };
        let chain = session.chain.as_ref().ok_or(OfferError::Bug("owner without a chain"))?;
        let source = HandoffSource::prepare_offer(me, destination, handoff, chain, terms, now)
            .map_err(|_| OfferError::Bug("chain without a genesis"))?;
        session.role = Role::Offering { source: Box::new(source), arrived, ack: None };
        self.send_offer(key.id())
    }

    pub(super) fn send_offer(&mut self, session: SessionId) -> Result<(), OfferError> {
        let Some((offer, chain)) = self.sessions.get(&session).and_then(|s| match (&s.role, &s.chain) {
            (Role::Offering { source, .. }, Some(chain)) => Some((source.offer().clone(), chain)),
            _ => None,
        }) else {
            return Err(OfferError::Bug("no offer to send"));
        };
        let to = offer.destination;
        let whole = self.sessions.get(&session).is_some_and(|s| s.whole_chain_to == Some(to));
        let chain = if whole { chain.links() } else { chain.since_last_visit(to) }.to_vec();
        let offer = self.local.sign(&offer).map_err(|_| OfferError::Bug("foreign signer"))?;
        let chain = self.send_all_but_last(to, chain);
        self.send(to, PeerMessage::Offer { offer, chain });
        Ok(())
    }

    /// S1 to S2. The fence is raised only after the record is durable.
    ///
    /// # Errors
    /// [`StepError`]; nothing changed.
    pub fn freeze(&mut self, session: SessionId, now: Now) -> Result<(), StepError> {
        let source = self.offering(session)?;
        source.freeze(now)?;
        let (handoff, to) = (source.offer().handoff, source.offer().destination);
        self.session(session).fenced_for = Some(handoff);
        self.persist(vec![Record::FenceRaised { session, handoff, to }]);
        self.tell(Event::Freeze { session, handoff, to });
        Ok(())
    }

    /// Sends the manifest of the next round: of the last one in S2.
    ///
    /// # Errors
    /// [`StepError`]; nothing changed.
    pub fn advance(&mut self, session: SessionId, round: Round, now: Now) -> Result<u32, StepError> {
        let manifest = self.offering(session)?.advance(round, now)?;
        let (to, number) = (manifest.destination, manifest.round);
        let signed = self.local.sign(&manifest).map_err(|_| StepError::Bug("foreign signer"))?;
        self.send(to, PeerMessage::Manifest(signed));
        Ok(number)
    }

    /// S3 to S4, or back to S0: the decision. `quiet` was looked at after the acknowledgement came. Source: SPEC H-6.
    pub fn decide(&mut self, session: SessionId, handoff: HandoffId, quiet: Quiet, now: Now) {
        let (local, members) = (self.local.clone(), self.electorate.length());
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let (Role::Offering { source, ack: Some(ack), .. }, Some(chain)) = (&mut state.role, &mut state.chain) else {
            return;
        };
        if source.offer().handoff != handoff || !self.links.contains(&source.offer().destination) {
            return;
        }
        let decided = source.commit(&local, chain, ack, quiet, members).and_then(|certificate| {
            let mut longer = chain.clone();
            longer.extend(&certificate).map_err(|_| StepError::Bug("own certificate"))?;
            Ok((certificate, longer))
        });
        match decided {
            Ok((certificate, longer)) => self.become_released(session, certificate, longer, now),
            Err(StepError::NotQuiet) => {
                self.abandon(session, Refusal::InFlightWork, "the session changed at the last moment".to_owned());
            }
            Err(error) => self.abandon(session, Refusal::Protocol, error.to_string()),
        }
    }

    fn become_released(&mut self, session: SessionId, certificate: Signed<Custody>, chain: Chain, now: Now) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Custody::Release(release) = chain.last().clone() else { return };
        let (handoff, to, token) = (release.handoff, release.to, release.next_token);
        state.chain = Some(chain);
        state.role = Role::Released(Released::new(&release, now.after(limits::RELEASE_FIRST)));
        state.fenced_for = None;
        self.persist(vec![Record::Custody(certificate)]);
        self.send_release(session, to, false);
        self.tell(Event::Released { session, handoff, to, token });
    }

    pub(super) fn send_release(&mut self, session: SessionId, to: DeviceId, whole: bool) {
        let Some(chain) = self.sessions.get(&session).and_then(|s| s.chain.as_ref()) else { return };
        let Some(certificate) = chain.last_signed().cloned() else { return };
        let before = if whole { chain.before_last() } else { chain.before_last_for(to) }.to_vec();
        let chain = self.send_all_but_last(to, before);
        self.send(to, PeerMessage::Release { certificate, chain });
    }

    /// The operator withdraws a move. After the decision nothing changes.
    pub fn cancel(&mut self, session: SessionId, refusal: Refusal, detail: &str) {
        if self.offering(session).is_ok() {
            self.abandon(session, refusal, detail.to_owned());
        }
    }

    /// S1 to S3 back to S0: burns the attempt, tells the destination, lifts the fence.
    pub(super) fn abandon(&mut self, session: SessionId, refusal: Refusal, detail: String) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Role::Offering { source, arrived, .. } = &mut state.role else { return };
        source.abandon(refusal);
        let (handoff, to, arrived) = (source.offer().handoff, source.offer().destination, *arrived);
        state.role = Role::Owner { arrived };
        state.attempts.ended.push(handoff);
        self.send(to, PeerMessage::Abort { handoff, refusal });
        self.tell(Event::StillOwner { session, handoff, refusal, detail });
    }

    /// The fence of an attempt that ended is down.
    pub fn fence_lifted(&mut self, session: SessionId) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let owner = matches!(state.role, Role::Owner { .. });
        if owner && state.fenced_for.take().is_some() {
            self.persist(vec![Record::FenceLifted { session }]);
        }
    }

    /// Signs the manifest of a pinned copy for a destination that lost its stage. Source: SPEC H-8.
    ///
    /// # Errors
    /// [`StepError`] when this device did not release the session, or the copy is not what was released.
    pub fn resend(&mut self, session: SessionId, round: Round) -> Result<(), StepError> {
        let state = self.sessions.get(&session).ok_or(StepError::Mismatch("session"))?;
        let Some(Custody::Release(release)) = state.chain.as_ref().map(|c| c.last().clone()) else {
            return Err(StepError::Mismatch("session"));
        };
        if release.from != self.me() || release.head != round.head || release.root != round.root {
            return Err(StepError::Mismatch("root"));
        }
        let manifest = cede_wire::handoff::Manifest {
            mesh: release.mesh,
            handoff: release.handoff,
            session,
            source: release.from,
            destination: release.to,
            token: release.token,
            round: 0,
            last: true,
            head: round.head,
            root: round.root,
            catalog: round.catalog,
            payload_bytes: round.payload_bytes,
            exchange_key: round.exchange_key,
        };
        let signed = self.local.sign(&manifest).map_err(|_| StepError::Bug("foreign signer"))?;
        self.send(release.to, PeerMessage::Manifest(signed));
        Ok(())
    }

    /// The destination is heard of: its attempt is alive.
    pub fn touch(&mut self, session: SessionId, now: Now) {
        if let Ok(source) = self.offering(session) {
            source.touch(now);
        }
    }

    fn offering(&mut self, session: SessionId) -> Result<&mut HandoffSource, StepError> {
        match self.sessions.get_mut(&session).map(|s| &mut s.role) {
            Some(Role::Offering { source, .. }) => Ok(source),
            Some(
                Role::Bystander
                | Role::Owner { .. }
                | Role::Released(_)
                | Role::Designate(_)
                | Role::Fenced { .. }
                | Role::Unconfirmed(_),
            )
            | None => Err(StepError::Phase(SourcePhase::Abandoned(Refusal::Cancelled))),
        }
    }

    pub(super) fn handle_accept(&mut self, from: DeviceId, accept: &Signed<Accept>, now: Now) {
        let Some(accept) = self.check(from, accept) else { return };
        let Some(session) = self.leaving_as(accept.handoff, from) else {
            match self.released_as(accept.handoff, from) {
                Some(session) => self.send_release(session, from, true),
                None if self.trust == Trust::Whole => self.say_over(from, accept.handoff),
                None => {}
            }
            return;
        };
        let Ok(source) = self.offering(session) else { return };
        match source.begin(&accept, now) {
            Ok(()) => self.tell(Event::Accepted(Box::new(accept))),
            Err(error) => self.abandon(session, Refusal::Protocol, error.to_string()),
        }
    }

    fn say_over(&mut self, to: DeviceId, handoff: HandoffId) {
        self.send(to, PeerMessage::Abort { handoff, refusal: Refusal::Cancelled });
    }

    pub(super) fn handle_refuse(&mut self, from: DeviceId, handoff: HandoffId, refusal: Refusal, detail: &str) {
        let Some(session) = self.leaving_as(handoff, from) else { return };
        if refusal == Refusal::Unauthorized {
            self.session(session).whole_chain_to = Some(from);
        }
        self.abandon(session, refusal, detail.chars().take(cede_wire::limits::DETAIL_CHARS).collect());
    }

    /// S2 to S3. What is not the acknowledgement of the last round ends the attempt: its sender broke a rule.
    pub(super) fn handle_commit_ack(&mut self, from: DeviceId, ack: &Signed<CommitAck>, now: Now) {
        let Some(ack) = self.check(from, ack) else { return };
        let (session, handoff) = (ack.session, ack.handoff);
        match self.sessions.get_mut(&session).map(|s| &mut s.role) {
            Some(Role::Offering { source, ack: held, .. })
                if source.offer().handoff == handoff && source.offer().destination == from =>
            {
                match source.acknowledged(&ack) {
                    Ok(()) => {
                        source.touch(now);
                        *held = Some(ack);
                        self.tell(Event::AckHeld { session, handoff });
                    }
                    Err(error) => self.abandon(session, Refusal::Protocol, error.to_string()),
                }
            }
            _ => self.answer_waiting(from, handoff, session),
        }
    }

    pub(super) fn handle_activated(&mut self, from: DeviceId, activated: &Signed<Activated>) {
        let Some(activated) = self.check(from, activated) else { return };
        let session = activated.session;
        if activated.token.generation < self.token(session).generation {
            // Its device acts because it has not heard of the seize.
            return self.send_custody(from, session);
        }
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Role::Released(released) = &state.role else { return };
        if activated.token.generation > released.next_token.generation {
            // It acts under a seize, which may have passed what was released here.
            return self.ask_custody(from);
        }
        if released.to == from && activated.token >= released.next_token {
            let handoff = released.handoff;
            state.role = Role::Bystander;
            self.persist(vec![Record::Retired { session, handoff }]);
            self.tell(Event::Retired { session, handoff });
            self.tell_earlier_owners(session, from);
        }
    }

    pub(super) fn handle_release_query(&mut self, from: DeviceId, handoff: HandoffId, session: SessionId) {
        if self.leaving_as(handoff, from).is_none() {
            self.answer_waiting(from, handoff, session);
        }
    }

    /// What a destination hears that waits for an attempt that is not under way here: the newest certificate if the
    /// attempt was released to it, else that it is over. A device that may have forgotten says nothing. Source: SPEC H-22.
    fn answer_waiting(&mut self, from: DeviceId, handoff: HandoffId, session: SessionId) {
        let chain = self.sessions.get(&session).and_then(|s| s.chain.as_ref());
        let released = chain.is_some_and(|chain| chain.release_to(from, handoff).is_some());
        if !self.speaks_for(session) {
            return;
        }
        if released {
            self.send_release(session, from, true);
        } else {
            self.say_over(from, handoff);
        }
    }

    fn released_as(&self, handoff: HandoffId, destination: DeviceId) -> Option<SessionId> {
        let matches = |role: &Role| matches!(role, Role::Released(r) if r.handoff == handoff && r.to == destination);
        self.sessions.iter().find(|(_, session)| matches(&session.role)).map(|(id, _)| *id)
    }

    pub(super) fn handle_refetch(&mut self, from: DeviceId, accept: &Signed<Accept>) {
        let Some(accept) = self.check(from, accept) else { return };
        // Also when the new owner has acted: it may have lost what it had since. What lies here is held against the
        // certificate before it is sent.
        let last = |chain: &Chain| match chain.last() {
            Custody::Release(release) => release.handoff == accept.handoff && release.to == from,
            Custody::Genesis(_) | Custody::Seize(_) => false,
        };
        if self.sessions.values().filter_map(|state| state.chain.as_ref()).any(last) {
            self.tell(Event::Resend(Box::new(accept)));
        }
    }

    pub(super) fn leaving_as(&self, handoff: HandoffId, destination: DeviceId) -> Option<SessionId> {
        let matches = |role: &Role| match role {
            Role::Offering { source, .. } => {
                source.offer().handoff == handoff && source.offer().destination == destination
            }
            Role::Bystander
            | Role::Owner { .. }
            | Role::Released(_)
            | Role::Designate(_)
            | Role::Fenced { .. }
            | Role::Unconfirmed(_) => false,
        };
        self.sessions.iter().find(|(_, session)| matches(&session.role)).map(|(id, _)| *id)
    }
}
