//! D1 to D6: a session arrives.

use cede_seal::verify::{Verified, verify};
use cede_wire::canonical::Signed;
use cede_wire::catalog::Oid;
use cede_wire::custody::{Custody, Release};
use cede_wire::handoff::{Activated, Manifest, Offer};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::{HandoffStatus, PeerMessage};
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use super::{Arrived, Asked, Custodian, Designate, Role};
use crate::chain::Chain;
use crate::destination::{Attempt, DestinationPhase, HandoffDestination, ReceiveError, StagedPayload};
use crate::limits;
use crate::now::Now;
use crate::output::Event;

impl Custodian {
    pub(super) fn handle_offer(&mut self, from: DeviceId, offer: &Signed<Offer>, links: &[Signed<Custody>]) {
        let Some(offer) = self.check(from, offer) else { return };
        let handoff = offer.handoff;
        match self.consider(&offer, links) {
            Ok(Considered::New(asked)) => {
                let event = Event::AskOperator(Box::new(asked.offer.clone()));
                self.session(offer.key.id()).asked = Some(*asked);
                self.tell(event);
            }
            Ok(Considered::Asked) => {}
            Ok(Considered::Accepted) => self.tell(Event::Reaccept { session: offer.key.id(), handoff }),
            Err((refusal, detail)) => {
                let detail = detail.to_owned();
                self.send(from, PeerMessage::Refuse { handoff, refusal, detail });
            }
        }
    }

    /// Everything that can be said about an offer before a person is asked. Source: SPEC H-4.
    fn consider(
        &mut self,
        offer: &Verified<Offer>,
        links: &[Signed<Custody>],
    ) -> Result<Considered, (Refusal, &'static str)> {
        if offer.destination != self.me() {
            return Err((Refusal::WrongDestination, "the offer names another device"));
        }
        if self.mesh != Some(offer.mesh) {
            return Err((Refusal::Unauthorized, "the offer is of another mesh"));
        }
        if links.len() > cede_wire::limits::CHAIN_RECORDS {
            return Err((Refusal::TooLarge, "the custody chain is too long"));
        }
        let id = offer.key.id();
        let (chain, new_links) = self.merged_chain(id, links)?;
        self.check_owner(offer, &chain)?;
        if let Some(considered) = self.standing_attempt(offer)? {
            return Ok(considered);
        }
        if self.in_flight() >= limits::HANDOFFS {
            return Err((Refusal::Busy, "too many handoffs in flight here"));
        }
        Ok(Considered::New(Box::new(Asked { offer: offer.clone(), chain, new_links })))
    }

    fn merged_chain(
        &self,
        id: SessionId,
        links: &[Signed<Custody>],
    ) -> Result<(Chain, Vec<Signed<Custody>>), (Refusal, &'static str)> {
        let known = self.sessions.get(&id).and_then(|s| s.chain.as_ref());
        let before = known.map_or(0, |chain| chain.links().len());
        let chain = match known {
            Some(known) => {
                let mut chain = known.clone();
                chain.merge(links).map(|()| chain)
            }
            None => Chain::from_links(links),
        };
        let chain =
            chain.map_err(|_| (Refusal::Unauthorized, "the custody chain does not verify or does not follow ours"))?;
        let new_links = chain.links().get(before..).unwrap_or(&[]).to_vec();
        Ok((chain, new_links))
    }

    fn check_owner(&self, offer: &Offer, chain: &Chain) -> Result<(), (Refusal, &'static str)> {
        if chain.session() != offer.key.id() {
            return Err((Refusal::Unauthorized, "the custody chain is of another session"));
        }
        if chain.owner() == self.me() {
            return Err((Refusal::AlreadyOwner, "this device is the owner"));
        }
        if offer.token < chain.token() {
            return Err((Refusal::StaleToken, "a later owner is known here"));
        }
        if chain.owner() != offer.source || chain.token() != offer.token {
            return Err((Refusal::NotOwner, "the custody chain names another owner"));
        }
        Ok(())
    }

    /// What the attempts that are known here say about this offer.
    fn standing_attempt(&mut self, offer: &Offer) -> Result<Option<Considered>, (Refusal, &'static str)> {
        let Some(session) = self.sessions.get(&offer.key.id()) else { return Ok(None) };
        if matches!(session.role, Role::Unconfirmed) {
            return Err((
                Refusal::Busy,
                "this device's records are damaged or restored; its operator must confirm first",
            ));
        }
        if session.ended.contains(&offer.handoff) {
            return Err((Refusal::Cancelled, "this attempt ended"));
        }
        if session.asked.as_ref().is_some_and(|asked| asked.offer.handoff == offer.handoff) {
            return Ok(Some(Considered::Asked));
        }
        match session.arriving.as_ref().map(HandoffDestination::attempt) {
            Some(attempt) if attempt.handoff == offer.handoff => Ok(Some(Considered::Accepted)),
            // An owner has one attempt at a time: its new one says that the old one is dead.
            Some(attempt) if attempt.source == offer.source => {
                self.discard(offer.key.id(), Refusal::Cancelled);
                Ok(None)
            }
            Some(_) => Err((Refusal::Busy, "the session is arriving from another device")),
            None => Ok(None),
        }
    }

    /// D1: the operator approved the scope of this offer. Source: SPEC H-4.
    ///
    /// # Errors
    /// `expired` when no such question waits; nothing changed.
    pub fn approve(
        &mut self,
        session: SessionId,
        handoff: HandoffId,
        exchange_key: [u8; 32],
        have: Vec<Oid>,
        now: Now,
    ) -> Result<(), Refusal> {
        let me = self.me();
        let state = self.sessions.get_mut(&session).ok_or(Refusal::Expired)?;
        let asked = state.asked.take_if(|asked| asked.offer.handoff == handoff).ok_or(Refusal::Expired)?;
        let scope = asked.offer.scope.digest();
        let attempt = Attempt { handoff, session, source: asked.offer.source, scope };
        let destination = HandoffDestination::approved(me, attempt, Some(asked.offer.token), now);
        let accept = destination.accept(exchange_key, have);
        state.chain = Some(asked.chain);
        state.arriving = Some(destination);
        let mut records: Vec<Record> = asked.new_links.into_iter().map(Record::Custody).collect();
        records.push(Record::Approved { session, handoff, source: attempt.source, scope });
        self.persist(records);
        self.send_accept(attempt.source, &accept, false);
        Ok(())
    }

    /// The operator, or a check, said no before anything was written.
    pub fn decline(&mut self, session: SessionId, handoff: HandoffId, refusal: Refusal, detail: &str) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(asked) = state.asked.take_if(|asked| asked.offer.handoff == handoff) else { return };
        state.end(handoff);
        let detail = detail.to_owned();
        self.send(asked.offer.source, PeerMessage::Refuse { handoff, refusal, detail });
    }

    /// The offer that waits for the operator.
    pub fn asked(&self, session: SessionId) -> Option<&Verified<Offer>> {
        self.sessions.get(&session)?.asked.as_ref().map(|asked| &asked.offer)
    }

    /// Repeats the yes with a fresh exchange key, after a reconnect or a restart.
    pub fn reaccept(&mut self, session: SessionId, exchange_key: [u8; 32], have: Vec<Oid>) {
        let Some(destination) = self.sessions.get(&session).and_then(|s| s.arriving.as_ref()) else { return };
        let accept = destination.accept(exchange_key, have);
        self.send_accept(destination.attempt().source, &accept, false);
    }

    /// D4: asks for the payload again, with a fresh exchange key.
    pub fn refetch(&mut self, session: SessionId, exchange_key: [u8; 32], now: Now) {
        let me = self.me();
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Role::Designate(designate) = state.role else { return };
        let attempt = Attempt { handoff: designate.handoff, session, source: designate.source, scope: designate.root };
        let destination = HandoffDestination::approved(me, attempt, None, now);
        let accept = destination.accept(exchange_key, Vec::new());
        state.arriving = Some(destination);
        self.send_accept(designate.source, &accept, true);
    }

    fn send_accept(&mut self, to: DeviceId, accept: &cede_wire::handoff::Accept, again: bool) {
        match self.local.sign(accept) {
            Ok(signed) if again => self.send(to, PeerMessage::Refetch(signed)),
            Ok(signed) => self.send(to, PeerMessage::Accept(signed)),
            Err(_) => {}
        }
    }

    pub(super) fn handle_manifest(&mut self, from: DeviceId, manifest: &Signed<Manifest>, now: Now) {
        let Some(manifest) = self.check(from, manifest) else { return };
        let (session, handoff) = (manifest.session, manifest.handoff);
        let result = match self.sessions.get_mut(&session) {
            Some(state) => match (&state.role, &mut state.arriving) {
                (Role::Designate(d), _) if d.root != manifest.root || d.head != manifest.head => {
                    Err(ReceiveError::Mismatch("root"))
                }
                (_, Some(arriving)) => arriving.manifest(&manifest, now),
                (_, None) => Err(ReceiveError::Phase),
            },
            None => Err(ReceiveError::Phase),
        };
        match result {
            Ok(()) => self.tell(Event::Fetch(Box::new(manifest))),
            Err(error) => {
                let (refusal, detail) = (error.refusal(), error.to_string());
                self.send(from, PeerMessage::Refuse { handoff, refusal, detail });
            }
        }
    }

    /// The chunks of a round are here.
    pub fn round_complete(&mut self, session: SessionId, handoff: HandoffId, round: u32) {
        let arriving = self.sessions.get(&session).and_then(|s| s.arriving.as_ref());
        let Some(attempt) = arriving.map(HandoffDestination::attempt).filter(|a| a.handoff == handoff) else { return };
        self.send(attempt.source, PeerMessage::RoundComplete { handoff, round });
    }

    /// D2 to D3, or D4 to D5: every byte of the last round is durable. Source: SPEC H-5.
    pub fn staged(&mut self, session: SessionId, handoff: HandoffId, payload: StagedPayload, now: Now) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(arriving) = state.arriving.as_mut().filter(|a| a.attempt().handoff == handoff) else { return };
        let attempt = arriving.attempt();
        match arriving.stage(payload, now) {
            Ok(_) if matches!(state.role, Role::Designate(_)) => self.become_active(session, attempt),
            Ok(token) => {
                state.ack_at = now.after(limits::ACK_REPEAT);
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

    /// The payload cannot be received: the source keeps the session. In D4 the designate stays and asks again.
    pub fn receive_failed(&mut self, session: SessionId, handoff: HandoffId, refusal: Refusal, detail: &str) {
        let arriving = self.sessions.get(&session).and_then(|s| s.arriving.as_ref());
        let Some(attempt) = arriving.map(HandoffDestination::attempt).filter(|a| a.handoff == handoff) else { return };
        let detail = detail.to_owned();
        self.discard(session, refusal);
        self.send(attempt.source, PeerMessage::Refuse { handoff, refusal, detail });
    }

    /// D6. Sticky: this attempt never receives again, though a release for it still makes this device the designate.
    pub(super) fn discard(&mut self, session: SessionId, refusal: Refusal) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(arriving) = state.arriving.take() else { return };
        if matches!(state.role, Role::Designate(_)) {
            return;
        }
        let handoff = arriving.attempt().handoff;
        state.end(handoff);
        self.persist(vec![Record::Discarded { session, handoff }]);
        self.tell(Event::Discard { session, handoff, refusal });
    }

    pub(super) fn handle_abort(&mut self, from: DeviceId, handoff: HandoffId, refusal: Refusal) {
        let asked =
            |s: &super::Session| s.asked.as_ref().is_some_and(|a| a.offer.handoff == handoff && a.offer.source == from);
        let arriving = |s: &super::Session| {
            s.arriving.as_ref().is_some_and(|a| a.attempt().handoff == handoff && a.attempt().source == from)
        };
        if let Some(session) = self.find(asked) {
            let state = self.session(session);
            state.asked = None;
            state.end(handoff);
            self.tell(Event::Withdrawn { handoff, refusal });
        } else if let Some(session) = self.find(arriving) {
            self.discard(session, refusal);
        }
    }

    fn find(&self, wanted: impl Fn(&super::Session) -> bool) -> Option<SessionId> {
        self.sessions.iter().find(|(_, session)| wanted(session)).map(|(id, _)| *id)
    }

    /// A certificate came: from the source, a third device or a file; it proves itself. Source: SPEC H-7.
    pub fn handle_release(&mut self, from: DeviceId, certificate: &Signed<Custody>, links: &[Signed<Custody>]) {
        let Ok(verified) = verify(certificate) else {
            self.tell(Event::PeerFault { device: from, what: "a certificate that does not verify".to_owned() });
            return;
        };
        let session = verified.session();
        let known = self.sessions.get(&session).and_then(|s| s.chain.as_ref());
        if known.is_some_and(|chain| chain.token() >= verified.token()) {
            self.answer_activated(from, session);
            return;
        }
        if self.mesh != Some(verified.mesh()) {
            return;
        }
        let mut all = links.to_vec();
        all.push(certificate.clone());
        match self.merged_chain(session, &all) {
            Ok((chain, new_links)) => self.accept_custody(session, chain, new_links),
            Err((_, what)) => self.tell(Event::PeerFault { device: from, what: what.to_owned() }),
        }
    }

    fn accept_custody(&mut self, session: SessionId, chain: Chain, new_links: Vec<Signed<Custody>>) {
        let me = self.me();
        let last = chain.last().clone();
        let state = self.session(session);
        state.chain = Some(chain);
        let held_before = !matches!(state.role, Role::Bystander);
        let mut records: Vec<Record> = new_links.into_iter().map(Record::Custody).collect();
        match last {
            Custody::Release(release) if release.to == me => self.become_owner(session, &release, records),
            Custody::Release(_) | Custody::Genesis(_) => {
                state.role = Role::Bystander;
                self.persist(records);
            }
            Custody::Seize(seize) => {
                state.role = if held_before { Role::Fenced } else { Role::Bystander };
                self.persist(std::mem::take(&mut records));
                if held_before {
                    self.tell(Event::Seized { session, by: seize.to, token: seize.next_token });
                }
            }
        }
    }

    /// The certificate names this device: D5 when its payload is durable here, D4 when it is not.
    fn become_owner(&mut self, session: SessionId, release: &Release, mut records: Vec<Record>) {
        let state = self.session(session);
        let holds = |a: &HandoffDestination| a.holds(release.handoff, release.head, release.root);
        if state.arriving.as_ref().is_some_and(holds) {
            let attempt = state.arriving.take().map(|a| a.attempt());
            records.push(Record::Active { session, handoff: release.handoff, token: release.next_token });
            self.persist(records);
            if let Some(attempt) = attempt {
                self.activate(session, attempt);
            }
            return;
        }
        let (handoff, source) = (release.handoff, release.from);
        state.arriving = None;
        state.asked = None;
        state.role = Role::Designate(Designate { handoff, source, head: release.head, root: release.root });
        self.persist(records);
        self.tell(Event::Refetch { session, handoff, source });
    }

    /// D4 to D5.
    fn become_active(&mut self, session: SessionId, attempt: Attempt) {
        let token = self.token(session);
        self.session(session).arriving = None;
        self.persist(vec![Record::Active { session, handoff: attempt.handoff, token }]);
        self.activate(session, attempt);
    }

    fn activate(&mut self, session: SessionId, attempt: Attempt) {
        let token = self.token(session);
        let (handoff, source) = (attempt.handoff, attempt.source);
        self.session(session).role = Role::Owner { arrived: Some(Arrived { handoff, installed: false }) };
        self.tell(Event::Activate { session, handoff, source, token });
    }

    /// The session stands in its place: says so to the old owner. Source: SPEC H-7.
    pub fn installed(&mut self, session: SessionId, handoff: HandoffId) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Role::Owner { arrived: Some(arrived) } = &mut state.role else { return };
        if arrived.handoff != handoff || arrived.installed {
            return;
        }
        arrived.installed = true;
        self.persist(vec![Record::Installed { session, handoff }]);
        let source = self.sessions.get(&session).and_then(|s| s.chain.as_ref()).and_then(|c| match c.last() {
            Custody::Release(release) => Some(release.from),
            Custody::Genesis(_) | Custody::Seize(_) => None,
        });
        if let Some(source) = source {
            self.answer_activated(source, session);
        }
    }

    /// Answers a certificate that is known: the word of the owner, when it is this device and its session is in place.
    fn answer_activated(&mut self, to: DeviceId, session: SessionId) {
        if let Some(signed) = self.activated(session) {
            self.send(to, PeerMessage::Activated(signed));
        }
    }

    fn activated(&self, session: SessionId) -> Option<Signed<Activated>> {
        let state = self.sessions.get(&session)?;
        let arrived = match &state.role {
            Role::Owner { arrived } | Role::Offering { arrived, .. } => (*arrived)?,
            Role::Bystander | Role::Released(_) | Role::Designate(_) | Role::Fenced | Role::Unconfirmed => return None,
        };
        let token = state.chain.as_ref()?.token();
        let owner = self.local.device();
        let word = Activated { handoff: arrived.handoff, session, token, owner };
        if arrived.installed { self.local.sign(&word).ok() } else { None }
    }

    pub(super) fn handle_status(&mut self, from: DeviceId, handoff: HandoffId, session: SessionId) {
        let status = self.status(from, handoff, session);
        self.send(from, PeerMessage::StatusAnswer { handoff, session, status });
    }

    fn status(&self, from: DeviceId, handoff: HandoffId, session: SessionId) -> HandoffStatus {
        let Some(state) = self.sessions.get(&session) else { return HandoffStatus::Unknown };
        let arriving = state.arriving.as_ref().filter(|a| a.attempt().handoff == handoff && a.attempt().source == from);
        if let Some(arriving) = arriving {
            return match arriving.phase() {
                DestinationPhase::Receiving { .. } => HandoffStatus::Receiving,
                DestinationPhase::Staged { .. } => {
                    arriving.acknowledgement(&self.local).map_or(HandoffStatus::Unknown, HandoffStatus::Staged)
                }
            };
        }
        if let Some(word) = self.activated(session) {
            return HandoffStatus::Active(word);
        }
        if state.ended.contains(&handoff) { HandoffStatus::Discarded } else { HandoffStatus::Unknown }
    }
}

enum Considered {
    New(Box<Asked>),
    Asked,
    Accepted,
}
