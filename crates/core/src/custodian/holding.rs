//! D4, D5 and everything that moves custody: certificates come, this device holds a session or does not.

use cede_seal::verify::verify;
use cede_wire::canonical::{Signable, Signed};
use cede_wire::custody::{Custody, FencingToken, Release};
use cede_wire::handoff::Activated;
use cede_wire::id::{DeviceId, HandoffId, Hash, SessionId};
use cede_wire::message::{HandoffStatus, PeerMessage};
use cede_wire::record::{Doubt, Record};
use cede_wire::refusal::Refusal;

use super::{Arrived, Custodian, Designate, Role, Session, Unclaimed};
use crate::chain::Chain;
use crate::destination::{Attempt, DestinationPhase, HandoffDestination};
use crate::limits;
use crate::output::Event;

impl Custodian {
    /// A certificate came: from the source, a third device or a file; it proves itself. Source: SPEC H-7, H-17.
    pub fn handle_release(&mut self, from: DeviceId, certificate: &Signed<Custody>, links: &[Signed<Custody>]) {
        let Ok(verified) = verify(certificate) else {
            self.tell(Event::PeerFault { device: from, what: "a certificate that does not verify".to_owned() });
            return;
        };
        let session = verified.session();
        let known = self.sessions.get(&session).and_then(|s| s.chain.as_ref());
        if known.is_some_and(|chain| chain.token() >= verified.token()) {
            self.answer_known(from, session, &verified);
            return;
        }
        let mut all = links.to_vec();
        all.push(certificate.clone());
        // What does not follow may be the fault of a third device that carries it, not of the one that made it.
        let Ok((chain, new)) = self.merged_chain(Some(from), session, &all) else { return };
        match chain.last().clone() {
            Custody::Release(release) if release.to == self.me() => self.take_release(session, chain, new, release),
            Custody::Release(_) | Custody::Genesis(_) | Custody::Seize(_) if self.has_chain(session) => {
                self.accept_custody(session, chain, new);
            }
            // Custody of others in a session that this device never had to do with: nothing to keep.
            Custody::Release(_) | Custody::Genesis(_) | Custody::Seize(_) => {}
        }
    }

    fn has_chain(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|state| state.chain.is_some())
    }

    /// A release to this device. What nobody approved here is kept for the operator to claim. Source: SPEC H-15.
    pub(super) fn take_release(&mut self, session: SessionId, chain: Chain, new: usize, release: Release) {
        // In doubt about its own records a device may have approved it and forgotten that. It does not act on it either way.
        let known = |s: &Session| s.doubted || s.attempts.approval(release.handoff).is_some();
        // So may one that does not doubt yet, and is shown that it gave the session away: it would go on under the old token.
        let forgot = self.has_chain(session) && self.forgot(session, &chain, new);
        if forgot || self.sessions.get(&session).is_some_and(known) {
            self.accept_custody(session, chain, new);
            return;
        }
        // What came after it may have been told before it.
        let later = |told: &&Chain| told.session() == session && self.passes(&chain, told);
        if !self.has_chain(session)
            && let Some(later) = self.told.values().find(later)
        {
            if self.has_room_for_named() {
                let (later, new) = (later.clone(), later.links().len());
                self.accept_custody(session, later, new);
            }
            return;
        }
        let waiting = self.sessions.get(&session).is_some_and(|state| state.unclaimed.is_some());
        if waiting || self.count(|state| state.unclaimed.is_some()) < limits::UNCLAIMED {
            self.session(session).unclaimed = Some(Unclaimed { release, chain });
        }
    }

    /// Releases to this device of handoffs that nobody approved here: its journal was lost, or the peer invents. Until
    /// [`Custodian::claim`] nothing is believed, kept or fetched.
    pub fn unclaimed(&self) -> impl Iterator<Item = (SessionId, &Release)> + '_ {
        self.sessions.iter().filter_map(|(id, state)| Some((*id, &state.unclaimed.as_ref()?.release)))
    }

    /// D4: the operator says that the session is to be fetched here.
    ///
    /// # Errors
    /// `expired` when no such release waits or it does not follow any more; nothing changed.
    pub fn claim(&mut self, session: SessionId, handoff: HandoffId) -> Result<(), Refusal> {
        let state = self.sessions.get_mut(&session).ok_or(Refusal::Expired)?;
        let wanted = |unclaimed: &mut Unclaimed| unclaimed.release.handoff == handoff;
        let unclaimed = state.unclaimed.take_if(wanted).ok_or(Refusal::Expired)?;
        let (chain, new) = self.merged_chain(None, session, unclaimed.chain.links()).map_err(|_| Refusal::Expired)?;
        if new == 0 || chain.owner() != self.me() {
            return Err(Refusal::Expired);
        }
        self.accept_custody(session, chain, new);
        Ok(())
    }

    /// The chain grows. Records first, then news: one batch holds all that the new links change.
    pub(super) fn accept_custody(&mut self, session: SessionId, chain: Chain, new: usize) {
        let me = self.me();
        let last = chain.last().clone();
        // It is known from now on.
        self.told.retain(|_, told| told.session() != session);
        self.withdraw(session, Refusal::StaleToken);
        self.give_up_seize(session, Refusal::StaleToken);
        let forgot = (self.has_chain(session) && self.forgot(session, &chain, new)).then_some(chain.owner() == me);
        let mut records: Vec<Record> = chain.newest(new).iter().cloned().map(Record::Custody).collect();
        match forgot {
            Some(true) => {
                records.push(Record::Doubted { why: Doubt::Forgotten });
                self.suspend(session);
            }
            Some(false) => {
                self.persist(vec![Record::Doubted { why: Doubt::Forgotten }]);
                self.doubt_all(Doubt::Forgotten);
            }
            None => {}
        }
        let state = self.session(session);
        let whole = state.gave_all(&chain);
        state.note_passed(me, &chain);
        state.chain = Some(chain);
        (state.unclaimed, state.fenced_for) = (None, None);
        state.settle_contest();
        let mut news = Vec::new();
        if let (Role::Released(released), true) = (&state.role, whole) {
            news.push(Event::Retired { session, handoff: released.handoff });
            state.role = Role::Bystander;
        }
        let handoff = match &last {
            Custody::Release(release) if release.to == me => Some(release.handoff),
            Custody::Release(_) | Custody::Genesis(_) | Custody::Seize(_) => None,
        };
        let passed = |a: &mut HandoffDestination| Some(a.attempt().handoff) != handoff;
        if let Some(stale) = state.arriving.take_if(passed) {
            let (handoff, refusal) = (stale.attempt().handoff, Refusal::StaleToken);
            state.attempts.ended.push(handoff);
            records.push(Record::Discarded { session, handoff });
            news.push(Event::Discard { session, handoff, refusal });
        }
        match last {
            Custody::Release(release) if release.to == me => self.become_owner(session, &release, records, news),
            Custody::Release(_) | Custody::Genesis(_) | Custody::Seize(_) => {
                self.become_other(session, whole, records, news);
            }
        }
        if forgot == Some(true) {
            self.doubt_all(Doubt::Forgotten);
        }
        self.ask_again();
    }

    /// The new links name another device: S6 when this one might have acted meanwhile, else nothing is at stake here.
    fn become_other(&mut self, session: SessionId, whole: bool, mut records: Vec<Record>, mut news: Vec<Event>) {
        let me = self.me();
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(chain) = &state.chain else { return };
        let (by, token, head) = (chain.owner(), chain.token(), chain.seized_head());
        // What another device says of itself is newer than any doubt about what this one knew.
        state.doubted &= by == me;
        if by == me {
            // A seize of this device that it does not know: it is in doubt, and this is what its records say now.
            state.role = Role::Unconfirmed(Box::new(Role::Owner { arrived: None }));
        } else if state.role.might_have_turns(whole) {
            news.extend(state.end_offer());
            state.role = Role::Fenced { kept: false };
            records.push(Record::SeizedSeen { session, token, kept: false });
            news.push(Event::Seized { session, by, token, head });
        } else {
            let (waited, fenced) = (matches!(state.role, Role::Unconfirmed(_)), state.role.kept_aside().copied());
            state.role = fenced.map_or(Role::Bystander, |kept| Role::Fenced { kept });
            news.extend((waited && fenced == Some(false)).then_some(Event::Seized { session, by, token, head }));
        }
        let contested = state.contested.is_some();
        self.persist(records);
        news.into_iter().for_each(|event| self.tell(event));
        if contested {
            self.suspend(session);
        }
    }

    /// S6: the turns that only this device has are kept aside, durably. From now on the session may come back.
    pub fn branched(&mut self, session: SessionId) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let token = state.chain.as_ref().map_or(FencingToken::FIRST, Chain::token);
        if let Some(kept) = state.role.kept_aside().filter(|kept| !**kept) {
            *kept = true;
            self.persist(vec![Record::SeizedSeen { session, token, kept: true }]);
        }
    }

    /// S6 whose turns are not kept aside yet.
    pub fn to_branch(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|state| matches!(state.role, Role::Fenced { kept: false }))
    }

    /// The certificate names this device: D5 when its payload is durable here, D4 when it is not. In S7 neither: the
    /// certificate may be an old one that only this device forgot.
    fn become_owner(&mut self, session: SessionId, release: &Release, mut records: Vec<Record>, news: Vec<Event>) {
        let ask_at = self.clock.saturating_add(limits::REFETCH);
        let state = self.session(session);
        let holds = |a: &HandoffDestination| a.holds(release.handoff, release.head, release.root);
        let designate = designate(release, state.attempts.approval(release.handoff), ask_at);
        let (handoff, source) = (release.handoff, release.from);
        if let Role::Unconfirmed(says) = &mut state.role {
            **says = Role::Designate(designate);
            self.persist(records);
            return;
        }
        let arriving = state.arriving.take();
        if let Some(attempt) = arriving.filter(holds).map(|a| a.attempt()) {
            records.push(Record::Active { session, handoff, token: release.next_token });
            self.persist(records);
            news.into_iter().for_each(|event| self.tell(event));
            self.activate(session, attempt);
            return;
        }
        state.role = Role::Designate(designate);
        self.persist(records);
        news.into_iter().for_each(|event| self.tell(event));
        self.tell(Event::Refetch { session, handoff, source });
    }

    /// D4 to D5.
    pub(super) fn become_active(&mut self, session: SessionId, attempt: Attempt) {
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

    /// D5 back to D4: what was staged is not there any more, and nothing was done with it yet.
    pub(super) fn become_designate_again(&mut self, session: SessionId, handoff: HandoffId) -> bool {
        let ask_at = self.clock.saturating_add(limits::REFETCH);
        let Some(state) = self.sessions.get_mut(&session) else { return false };
        let Role::Owner { arrived: Some(Arrived { handoff: arrived, installed: false }) } = state.role else {
            return false;
        };
        let Some(chain) = state.chain.as_ref().filter(|_| arrived == handoff) else { return false };
        let source = chain.owner_before();
        let missing = match chain.last() {
            Custody::Release(release) => designate(release, state.attempts.approval(handoff), ask_at),
            // The only copy was the one that was staged here. Nobody can send it again; a device that has turns of it, this
            // one too, may seize it in its turn.
            Custody::Seize(seize) => {
                let (head, nothing) = (seize.head, Hash::of(&[]));
                Designate { handoff, source, head, root: nothing, scope: nothing, ask_at }
            }
            Custody::Genesis(_) => return false,
        };
        state.role = Role::Designate(missing);
        self.tell(Event::Refetch { session, handoff, source });
        true
    }

    /// The session stands in its place: says so to the old owner. Source: SPEC H-7.
    pub fn installed(&mut self, session: SessionId, handoff: HandoffId) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Role::Owner { arrived: Some(arrived) } = &mut state.role else { return };
        if arrived.handoff != handoff || arrived.installed {
            return;
        }
        arrived.installed = true;
        let source = state.chain.as_ref().and_then(|c| match c.last() {
            Custody::Release(release) => Some(release.from),
            Custody::Genesis(_) | Custody::Seize(_) => None,
        });
        self.persist(vec![Record::Installed { session, handoff }]);
        if let (Some(source), Some(word)) = (source, self.activated(session)) {
            self.send(source, PeerMessage::Activated(word));
            self.tell_earlier_owners(session, source);
        }
    }

    /// Answers a certificate that is known: the word of the owner that acts under it, or once did. Source: SPEC H-17.
    fn answer_known(&mut self, to: DeviceId, session: SessionId, certificate: &Custody) {
        let Custody::Release(release) = certificate else { return };
        let word = self.activated(session).or_else(|| self.acted(session, release.handoff));
        if let Some(word) = word {
            self.send(to, PeerMessage::Activated(word));
        }
    }

    fn activated(&self, session: SessionId) -> Option<Signed<Activated>> {
        let state = self.sessions.get(&session)?;
        let arrived = match &state.role {
            Role::Owner { arrived } | Role::Offering { arrived, .. } => (*arrived)?,
            Role::Bystander | Role::Released(_) | Role::Designate(_) | Role::Fenced { .. } | Role::Unconfirmed(_) => {
                return None;
            }
        };
        let (token, owner) = (state.chain.as_ref()?.token(), self.me());
        let word = Activated { handoff: arrived.handoff, session, token, owner };
        if arrived.installed { self.local.sign(&word).ok() } else { None }
    }

    /// This device gave the session on, so it acted under this handoff before.
    fn acted(&self, session: SessionId, handoff: HandoffId) -> Option<Signed<Activated>> {
        let (chain, owner) = (self.sessions.get(&session)?.chain.as_ref()?, self.me());
        let token = chain.given_on(owner, handoff)?.next_token;
        self.local.sign(&Activated { handoff, session, token, owner }).ok()
    }

    pub(super) fn handle_status(&mut self, from: DeviceId, handoff: HandoffId, session: SessionId) {
        if self.speaks_for(session) {
            let status = self.status(from, handoff, session);
            self.send(from, PeerMessage::StatusAnswer { handoff, session, status });
        }
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
        if state.attempts.ended.contains(handoff) { HandoffStatus::Discarded } else { HandoffStatus::Unknown }
    }
}

pub(super) fn designate(release: &Release, scope: Option<Hash>, ask_at: core::time::Duration) -> Designate {
    Designate {
        handoff: release.handoff,
        source: release.from,
        head: release.head,
        root: release.root,
        scope: scope.unwrap_or(release.root),
        ask_at,
    }
}

impl Session {
    /// S4: whether what this one gave is in the hands of the device that a longer chain names. Who gave it on had it; who
    /// seized it has what its certificate says.
    fn gave_all(&self, longer: &Chain) -> bool {
        let Some(chain) = &self.chain else { return false };
        let Custody::Release(given) = chain.last() else { return false };
        let shared = chain.shared_with(longer);
        match longer.records().get(shared) {
            Some(Custody::Release(_)) => shared == chain.links().len(),
            Some(Custody::Seize(seize)) => seize.head == given.head,
            Some(Custody::Genesis(_)) | None => false,
        }
    }

    /// What this device signed and another chain does not hold.
    fn note_passed(&mut self, me: DeviceId, other: &Chain) {
        let Some(chain) = &self.chain else { return };
        let ours = chain.links().iter().zip(chain.records()).filter(|(_, record)| record.signer() == me);
        self.passed.extend(ours.map(|(link, _)| link.hash()));
        self.passed.retain(|hash| !other.contains(hash));
    }

    /// The attempt that was under way, where one was, is over, and this device is not the owner any more.
    fn end_offer(&mut self) -> Option<Event> {
        let Role::Offering { source, .. } = &self.role else { return None };
        let (handoff, session) = (source.offer().handoff, source.offer().key.id());
        self.attempts.ended.push(handoff);
        Some(Event::OfferLost { session, handoff })
    }
}

impl Role {
    /// Whether turns may lie here that the device named by new links lacks. `whole`: it has what was released here.
    fn might_have_turns(&self, whole: bool) -> bool {
        match self {
            Self::Bystander | Self::Fenced { .. } | Self::Designate(_) => false,
            Self::Owner { .. } | Self::Offering { .. } => true,
            Self::Released(_) => !whole,
            Self::Unconfirmed(says) => says.might_have_turns(whole),
        }
    }

    /// S6: whether this device's own turns are kept aside.
    fn kept_aside(&mut self) -> Option<&mut bool> {
        match self {
            Self::Fenced { kept } => Some(kept),
            Self::Unconfirmed(says) => says.kept_aside(),
            Self::Bystander | Self::Owner { .. } | Self::Offering { .. } | Self::Released(_) | Self::Designate(_) => {
                None
            }
        }
    }
}
