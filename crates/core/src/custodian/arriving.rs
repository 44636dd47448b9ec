//! D1 to D4 and D6: the payload arrives, or does not.

use cede_wire::canonical::Signed;
use cede_wire::catalog::Oid;
use cede_wire::handoff::{Accept, Manifest};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use super::{Custodian, Role, Session};
use crate::chain::Chain;
use crate::destination::{Attempt, HandoffDestination, ReceiveError, StagedPayload};
use crate::limits;
use crate::now::Now;
use crate::output::Event;

impl Custodian {
    /// Repeats the yes with a fresh exchange key, after a reconnect or a restart.
    pub fn reaccept(&mut self, session: SessionId, exchange_key: [u8; 32], have: Vec<Oid>) {
        let Some(state) = self.sessions.get(&session) else { return };
        let Some(destination) = state.arriving.as_ref().filter(|_| !state.is_designate()) else { return };
        let accept = destination.accept(exchange_key, have);
        self.send_accept(destination.attempt().source, &accept, false);
    }

    /// D4: asks for the payload again, with a fresh exchange key.
    pub fn refetch(&mut self, session: SessionId, exchange_key: [u8; 32], now: Now) {
        self.hear(now);
        let me = self.me();
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Role::Designate(designate) = &mut state.role else { return };
        designate.ask_at = now.after(limits::REFETCH);
        let (handoff, source, scope) = (designate.handoff, designate.source, designate.scope);
        let attempt = Attempt { handoff, session, source, scope };
        let destination = HandoffDestination::approved(me, attempt, None, now);
        let accept = destination.accept(exchange_key, Vec::new());
        state.arriving = Some(destination);
        self.send_accept(source, &accept, true);
    }

    pub(super) fn send_accept(&mut self, to: DeviceId, accept: &Accept, again: bool) {
        match self.local.sign(accept) {
            Ok(signed) if again => self.send(to, PeerMessage::Refetch(signed)),
            Ok(signed) => self.send(to, PeerMessage::Accept(signed)),
            Err(_) => {}
        }
    }

    pub(super) fn handle_manifest(&mut self, from: DeviceId, manifest: &Signed<Manifest>, now: Now) {
        let Some(manifest) = self.check(from, manifest) else { return };
        let (session, handoff) = (manifest.session, manifest.handoff);
        let state = self.sessions.get_mut(&session);
        let designate = state.as_ref().is_some_and(|state| state.is_designate());
        match state.map_or(Err(ReceiveError::Phase), |state| state.take_manifest(&manifest, now)) {
            Ok(()) => self.tell(Event::Fetch(Box::new(manifest))),
            Err(ReceiveError::Stale) => self.send_ack(session),
            // The source has decided: no word of ours ends this attempt any more.
            Err(_) if designate => {}
            Err(error) => {
                let (refusal, detail) = (error.refusal(), error.to_string());
                self.send(from, PeerMessage::Refuse { handoff, refusal, detail });
            }
        }
    }

    /// The chunks of a round are here.
    pub fn round_complete(&mut self, session: SessionId, handoff: HandoffId, round: u32) {
        if let Some(attempt) = self.attempt(session, handoff) {
            self.send(attempt.source, PeerMessage::RoundComplete { handoff, round });
        }
    }

    fn attempt(&self, session: SessionId, handoff: HandoffId) -> Option<Attempt> {
        let arriving = self.sessions.get(&session)?.arriving.as_ref()?;
        Some(arriving.attempt()).filter(|attempt| attempt.handoff == handoff)
    }

    /// D2 to D3, or D4 to D5: every byte of the last round is durable. Source: SPEC H-5.
    pub fn staged(&mut self, session: SessionId, handoff: HandoffId, payload: StagedPayload, now: Now) {
        self.hear(now);
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(arriving) = state.arriving.as_mut().filter(|a| a.attempt().handoff == handoff) else { return };
        let attempt = arriving.attempt();
        match arriving.stage(payload, now) {
            Ok(_) if state.is_designate() => self.become_active(session, attempt),
            Ok(token) => {
                (state.ack_at, state.ack_wait) = (now.after(limits::ACK_REPEAT), limits::ACK_REPEAT);
                let (source, head, root) = (attempt.source, payload.head, payload.root);
                self.persist(vec![Record::Staged { session, handoff, source, token, head, root }]);
                self.send_ack(session);
            }
            Err(error) => self.receive_failed(session, handoff, error.refusal(), &error.to_string()),
        }
    }

    pub(super) fn send_ack(&mut self, session: SessionId) {
        let Some(arriving) = self.sessions.get(&session).and_then(|s| s.arriving.as_ref()) else { return };
        if let Some(ack) = arriving.acknowledgement(&self.local) {
            self.send(arriving.attempt().source, PeerMessage::CommitAck(ack));
        }
    }

    /// The payload cannot be received: the source keeps the session. In D4 the designate stays and asks again. In D5 before
    /// [`Custodian::installed`] it is D4 again, for the source still pins its copy.
    pub fn receive_failed(&mut self, session: SessionId, handoff: HandoffId, refusal: Refusal, detail: &str) {
        if self.become_designate_again(session, handoff) {
            return;
        }
        let Some(attempt) = self.attempt(session, handoff) else { return };
        if let Some(state) = self.sessions.get_mut(&session).filter(|state| state.is_designate()) {
            state.arriving = None;
            return;
        }
        let detail = detail.to_owned();
        self.discard(session, refusal);
        self.send(attempt.source, PeerMessage::Refuse { handoff, refusal, detail });
    }

    /// D6. Sticky: this attempt never receives again, though a release for it still makes this device the designate.
    pub(super) fn discard(&mut self, session: SessionId, refusal: Refusal) {
        let Some(state) = self.sessions.get_mut(&session).filter(|state| !state.is_designate()) else { return };
        let Some(arriving) = state.arriving.take() else { return };
        let handoff = arriving.attempt().handoff;
        state.attempts.ended.push(handoff);
        self.persist(vec![Record::Discarded { session, handoff }]);
        self.tell(Event::Discard { session, handoff, refusal });
    }

    pub(super) fn handle_abort(&mut self, from: DeviceId, handoff: HandoffId, refusal: Refusal) {
        let asked =
            |s: &Session| s.asked.as_ref().is_some_and(|a| a.offer.handoff == handoff && a.offer.source == from);
        let arriving = |s: &Session| {
            s.arriving.as_ref().is_some_and(|a| a.attempt().handoff == handoff && a.attempt().source == from)
        };
        if let Some(session) = self.find(asked) {
            self.session(session).asked = None;
            self.forget_attempt(session, handoff);
            self.tell(Event::Withdrawn { handoff, refusal });
        } else if let Some(session) = self.find(arriving) {
            self.discard(session, refusal);
        }
    }

    fn find(&self, wanted: impl Fn(&Session) -> bool) -> Option<SessionId> {
        self.sessions.iter().find(|(_, session)| wanted(session)).map(|(id, _)| *id)
    }
}

impl Session {
    pub(super) fn is_designate(&self) -> bool {
        matches!(self.role, Role::Designate(_))
    }

    fn take_manifest(
        &mut self,
        manifest: &cede_seal::verify::Verified<Manifest>,
        now: Now,
    ) -> Result<(), ReceiveError> {
        if let Role::Designate(wanted) = &self.role
            && (wanted.root != manifest.root || wanted.head != manifest.head || !manifest.last)
        {
            return Err(ReceiveError::Mismatch("root"));
        }
        if self.chain.as_ref().map(Chain::mesh) != Some(manifest.mesh) {
            return Err(ReceiveError::Mismatch("mesh"));
        }
        self.arriving.as_mut().map_or(Err(ReceiveError::Phase), |arriving| arriving.manifest(manifest, now))
    }
}
