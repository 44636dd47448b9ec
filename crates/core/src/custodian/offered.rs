//! Before D1: an offer comes, and a person is asked.

use cede_seal::verify::Verified;
use cede_wire::canonical::Signed;
use cede_wire::catalog::Oid;
use cede_wire::custody::Custody;
use cede_wire::handoff::Offer;
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use super::{Asked, Custodian, Role, Session};
use crate::chain::{Chain, ChainError};
use crate::destination::{Attempt, HandoffDestination};
use crate::limits;
use crate::now::Now;
use crate::output::Event;

/// A no, with its reason in words.
pub(super) type No = (Refusal, &'static str);

/// A chain, and how many of its last records are new here.
pub(super) type Merged = (Chain, usize);

/// Why what a peer says does not go together with what is known here.
pub(super) enum Unmergeable {
    No(No),
    /// Two seizes of one generation, two releases of one owner under one token, or a seize that one device decided alone where
    /// others show that there were more.
    Rival(Box<Signed<Custody>>),
}

enum Considered {
    New(Box<Asked>),
    Asked,
    Accepted,
}

impl Custodian {
    pub(super) fn handle_offer(&mut self, from: DeviceId, offer: &Signed<Offer>, links: &[Signed<Custody>], now: Now) {
        let Some(offer) = self.check(from, offer) else { return };
        let (session, handoff) = (offer.key.id(), offer.handoff);
        match self.consider(&offer, links, now) {
            Ok(Considered::New(asked)) => {
                // The last question about this session, where one waits, is moot: its source asks anew.
                self.withdraw(session, Refusal::Cancelled);
                let event = Event::AskOperator(Box::new(asked.offer.clone()));
                self.session(session).asked = Some(*asked);
                self.tell(event);
            }
            Ok(Considered::Asked) => {}
            Ok(Considered::Accepted) => self.tell(Event::Reaccept { session, handoff }),
            Err((refusal, detail)) => {
                let detail = detail.to_owned();
                self.send(from, PeerMessage::Refuse { handoff, refusal, detail });
            }
        }
    }

    /// Everything that can be said about an offer before a person is asked. Source: SPEC H-4.
    fn consider(&mut self, offer: &Verified<Offer>, links: &[Signed<Custody>], now: Now) -> Result<Considered, No> {
        if offer.destination != self.me() {
            return Err((Refusal::WrongDestination, "the offer names another device"));
        }
        if self.mesh != Some(offer.mesh) {
            return Err((Refusal::Unauthorized, "the offer is of another mesh"));
        }
        let id = offer.key.id();
        if matches!(self.sessions.get(&id), Some(Session { role: Role::Unconfirmed(_), .. })) {
            let detail = "this device's records are damaged or restored; its operator must confirm first";
            return Err((Refusal::Busy, detail));
        }
        let (chain, new) = self.merged_chain(Some(offer.source), id, links)?;
        self.check_owner(offer, &chain)?;
        if let Some(considered) = self.standing_attempt(offer, &chain)? {
            return Ok(considered);
        }
        self.check_room(offer)?;
        let (links, chain_head, until) = (chain.newest(new).to_vec(), chain.head(), now.after(limits::QUESTION));
        Ok(Considered::New(Box::new(Asked { offer: offer.clone(), links, chain_head, until })))
    }

    /// The chain with what a peer says of it. Source: SPEC H-3.
    pub(super) fn merged_chain(
        &self,
        from: Option<DeviceId>,
        id: SessionId,
        links: &[Signed<Custody>],
    ) -> Result<Merged, No> {
        self.merge(from, id, links).map_err(|error| match error {
            Unmergeable::No(no) => no,
            Unmergeable::Rival(_) => (Refusal::Unauthorized, "two records claim one place in the custody chain"),
        })
    }

    /// The same, where two records that claim one place are something to act on. A seize counts with its votes. `from` is whose
    /// message the records came in, where they are not this device's own. Source: SPEC H-31, H-33.
    pub(super) fn merge(
        &self,
        from: Option<DeviceId>,
        id: SessionId,
        links: &[Signed<Custody>],
    ) -> Result<Merged, Unmergeable> {
        if from.is_some() && links.len() > cede_wire::limits::CHAIN_RECORDS {
            return Err(Unmergeable::No((Refusal::TooLarge, "the custody chain is too long")));
        }
        let chain = self.branch(from, id, links).map_err(|_| unauthorized(NOT_OURS))?;
        let new = self.weigh(id, &chain, self.proved(from, &chain))?;
        Ok((chain, new))
    }

    /// Whether a chain of which the first `proved` records were looked at before counts, and how many of its records are new.
    pub(super) fn weigh(&self, id: SessionId, chain: &Chain, proved: usize) -> Result<usize, Unmergeable> {
        let known = self.chain(id);
        let judged = known.map_or(Ok(()), |known| known.judge(chain));
        if let (Some(known), Err(ChainError::Passed)) = (known, &judged) {
            return Err(self.passed(known, chain, proved));
        }
        // A second seize of one generation counts with its votes too, else anybody could stop a session. A second release is
        // signed by the device that was the owner: the chain that it was found in has said so.
        if !self.counts(chain, proved) {
            return Err(unauthorized(NO_VOTES));
        }
        if let Err(ChainError::Rival(rival)) = judged {
            return Err(Unmergeable::Rival(rival));
        }
        if chain.session() != id || self.mesh != Some(chain.mesh()) {
            return Err(unauthorized("the custody chain is of another session or mesh"));
        }
        let shared = known.map_or(0, |known| known.shared_with(chain));
        if let Some(known) = known.filter(|known| shared < known.links().len())
            && let Some(seize) = self.decided_alone(chain, known.members())
        {
            return Err(near(known, chain).then_some(seize).map_or(unauthorized(NO_VOTES), Unmergeable::Rival));
        }
        let new = chain.links().len().saturating_sub(shared);
        if !self.forgot(id, chain, new) {
            self.knows_members(chain, shared)?;
        }
        Ok(new)
    }

    /// The chain that records make with what is known, or with what was told before them: that proves itself as if it had come
    /// at once, unless it comes anew from the beginning.
    pub(super) fn branch(
        &self,
        from: Option<DeviceId>,
        id: SessionId,
        links: &[Signed<Custody>],
    ) -> Result<Chain, ChainError> {
        let told = self.told_by(from, id);
        if let Some(known) = self.chain(id) {
            let told = told.filter(|told| known.shared_with(told) > 0);
            return known.branch(links).or_else(|error| told.map_or(Err(error), |told| told.branch(links)));
        }
        let anew = |told: &Chain| links.first().map(Signed::hash) == told.links().first().map(Signed::hash);
        told.filter(|told| !anew(told)).map_or_else(|| Chain::from_links(links), |told| told.merged(links))
    }

    fn told_by(&self, from: Option<DeviceId>, id: SessionId) -> Option<&Chain> {
        from.and_then(|from| self.told.get(&from)).filter(|told| told.session() == id)
    }

    /// How many records of a chain were looked at before.
    pub(super) fn proved(&self, from: Option<DeviceId>, chain: &Chain) -> usize {
        let id = chain.session();
        let before = self.chain(id).into_iter().chain(self.told_by(from, id));
        before.map(|before| before.shared_with(chain)).max().unwrap_or(0)
    }

    /// Whether every seize behind the first `shared` records has the votes that it takes.
    pub(super) fn counts(&self, chain: &Chain, shared: usize) -> bool {
        chain.seizes_after(shared).all(|(seize, owner)| self.electorate.check(seize, owner).is_ok())
    }

    /// A record that names a longer log than there is would keep everybody from a seize for ever. The log comes over every
    /// link, so what is refused now is taken once it is here. What this device signed and forgot it takes at once: it doubts.
    fn knows_members(&self, chain: &Chain, shared: usize) -> Result<(), Unmergeable> {
        let named = chain.records().iter().skip(shared).map(Custody::members).max();
        if named.is_none_or(|named| named <= self.electorate.length()) {
            return Ok(());
        }
        Err(Unmergeable::No((Refusal::Busy, "the custody chain names members that are not known here yet; try again")))
    }

    /// The seize of the last generation of a chain, where one device decided it alone under a log of so few that it could, and
    /// other records show that there were more. Which came first nobody can say. Source: SPEC H-33.
    pub(super) fn decided_alone(&self, chain: &Chain, members: u64) -> Option<Box<Signed<Custody>>> {
        let (link, seize) = chain.seize_of(chain.token().generation)?;
        let owner = chain.owner_at(&seize.prev)?;
        let alone = seize.votes.is_empty() && seize.members < members;
        (alone && self.electorate.needed_at(members, owner) > 1).then(|| Box::new(link.clone()))
    }

    /// A chain of a lower generation than the known one: it contradicts that one only as [`Self::decided_alone`] says.
    fn passed(&self, known: &Chain, branch: &Chain, proved: usize) -> Unmergeable {
        let holds = near(branch, known) && self.counts(branch, proved) && self.knows_members(branch, proved).is_ok();
        let seize = holds.then(|| self.decided_alone(known, branch.members())).flatten();
        seize.map_or(Unmergeable::No((Refusal::StaleToken, "a later owner is known here")), Unmergeable::Rival)
    }

    /// What parts from the known chain may go on: with its next pieces it may take its place. Source: SPEC H-32.
    pub(super) fn note_parted(&mut self, from: DeviceId, branch: Chain, proved: usize) {
        if self.counts(&branch, proved) && self.knows_members(&branch, proved).is_ok() {
            self.note_told(from, branch);
        }
    }

    fn check_owner(&self, offer: &Offer, chain: &Chain) -> Result<(), No> {
        if chain.owner() == self.me() {
            return Err((Refusal::AlreadyOwner, "this device is the owner"));
        }
        if self.to_branch(offer.key.id()) {
            return Err((Refusal::Busy, TO_BRANCH));
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
    fn standing_attempt(&mut self, offer: &Offer, chain: &Chain) -> Result<Option<Considered>, No> {
        let ended = self.declined.contains(offer.handoff);
        let Some(session) = self.sessions.get(&offer.key.id()) else {
            return if ended { Err((Refusal::Cancelled, "this attempt ended")) } else { Ok(None) };
        };
        if ended || session.attempts.ended.contains(offer.handoff) {
            return Err((Refusal::Cancelled, "this attempt ended"));
        }
        match &session.asked {
            Some(asked) if asked.offer.handoff == offer.handoff => return Ok(Some(Considered::Asked)),
            // The question of another device is moot only if the session moved on from there.
            Some(asked) if asked.offer.source != offer.source && !passed(chain, asked) => {
                return Err((Refusal::Busy, "another device offers this session"));
            }
            Some(_) | None => {}
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

    fn check_room(&self, offer: &Offer) -> Result<(), No> {
        let id = offer.key.id();
        let others = self.sessions.iter().filter(|(other, _)| **other != id).map(|(_, session)| session);
        let (mut all, mut of_peer) = (0, 0);
        for session in others {
            let asked = session.asked.as_ref();
            all += usize::from(asked.is_some() || session.arriving.is_some());
            of_peer += usize::from(asked.is_some_and(|asked| asked.offer.source == offer.source));
        }
        if all >= limits::HANDOFFS || of_peer >= limits::QUESTIONS_PER_PEER {
            return Err((Refusal::Busy, "too many handoffs in flight here"));
        }
        Ok(())
    }

    /// D1: the operator approved the scope of this offer. Source: SPEC H-4, H-14.
    ///
    /// # Errors
    /// `expired` when no such question waits, or what else became of the session meanwhile; nothing changed.
    pub fn approve(
        &mut self,
        session: SessionId,
        handoff: HandoffId,
        exchange_key: [u8; 32],
        have: Vec<Oid>,
        now: Now,
    ) -> Result<(), Refusal> {
        self.hear(now);
        let me = self.me();
        let state = self.sessions.get_mut(&session).ok_or(Refusal::Expired)?;
        let asked = state.asked.take_if(|asked| asked.offer.handoff == handoff).ok_or(Refusal::Expired)?;
        let (chain, new) = match self.still_offered(&asked) {
            Ok(merged) => merged,
            Err((refusal, detail)) => {
                self.refuse_asked(session, &asked, refusal, detail);
                return Err(refusal);
            }
        };
        let scope = asked.offer.scope.digest();
        let attempt = Attempt { handoff, session, source: asked.offer.source, scope };
        let destination = HandoffDestination::approved(me, attempt, Some(asked.offer.token), now);
        let accept = destination.accept(exchange_key, have);
        if new > 0 {
            self.accept_custody(session, chain, new);
        }
        if self.to_branch(session) {
            self.refuse_asked(session, &asked, Refusal::Busy, TO_BRANCH);
            return Err(Refusal::Busy);
        }
        let state = self.session(session);
        state.arriving = Some(destination);
        state.attempts.approve(handoff, scope);
        self.persist(vec![Record::Approved { session, handoff, source: attempt.source, scope }]);
        self.send_accept(attempt.source, &accept, false);
        Ok(())
    }

    /// The chain may have grown while the question waited.
    fn still_offered(&self, asked: &Asked) -> Result<Merged, No> {
        let merged = self.merged_chain(None, asked.offer.key.id(), &asked.links)?;
        self.check_owner(&asked.offer, &merged.0)?;
        Ok(merged)
    }

    /// The operator, or a check, said no before anything was written.
    pub fn decline(&mut self, session: SessionId, handoff: HandoffId, refusal: Refusal, detail: &str) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(asked) = state.asked.take_if(|asked| asked.offer.handoff == handoff) else { return };
        self.refuse_asked(session, &asked, refusal, detail);
    }

    fn refuse_asked(&mut self, session: SessionId, asked: &Asked, refusal: Refusal, detail: &str) {
        let (handoff, source, detail) = (asked.offer.handoff, asked.offer.source, detail.to_owned());
        self.forget_attempt(session, handoff);
        self.send(source, PeerMessage::Refuse { handoff, refusal, detail });
    }

    /// An attempt that never reached the journal is over. A session of which nothing else is known is forgotten with it:
    /// offers alone must not fill the memory. A vote is known. Source: SPEC H-31.
    pub(super) fn forget_attempt(&mut self, session: SessionId, handoff: HandoffId) {
        self.declined.push(handoff);
        self.forget_empty(session);
    }

    /// Forgets a session of which nothing is known.
    pub(super) fn forget_empty(&mut self, session: SessionId) {
        let empty = |s: &Session| s.chain.is_none() && s.unclaimed.is_none() && s.voted.is_none() && s.asked.is_none();
        if self.sessions.get(&session).is_some_and(empty) {
            self.sessions.remove(&session);
        }
    }

    /// The question that waits, where one does, is moot: says so to the operator and to the source.
    pub(super) fn withdraw(&mut self, session: SessionId, refusal: Refusal) {
        let Some(asked) = self.sessions.get_mut(&session).and_then(|state| state.asked.take()) else { return };
        self.refuse_asked(session, &asked, refusal, "the question is moot");
        self.tell(Event::Withdrawn { handoff: asked.offer.handoff, refusal });
    }

    /// The offer that waits for the operator.
    pub fn asked(&self, session: SessionId) -> Option<&Verified<Offer>> {
        self.sessions.get(&session)?.asked.as_ref().map(|asked| &asked.offer)
    }
}

fn unauthorized(detail: &'static str) -> Unmergeable {
    Unmergeable::No((Refusal::Unauthorized, detail))
}

const NOT_OURS: &str = "the custody chain does not verify or does not follow ours";

const NO_VOTES: &str = "a seize without the votes that it takes";

/// Whether a vote could be given for a generation beyond that of the other chain: a contest that nobody could end is none.
fn near(chain: &Chain, other: &Chain) -> bool {
    other.token().generation.saturating_sub(chain.token().generation) <= limits::GENERATIONS_AHEAD
}

const TO_BRANCH: &str = "this device's own turns are being kept aside first";

/// Whether the session moved on from the owner that asked.
fn passed(chain: &Chain, asked: &Asked) -> bool {
    chain.contains(&asked.chain_head) && chain.head() != asked.chain_head
}
