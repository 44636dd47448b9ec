//! The operator's forced recovery: this device becomes the owner without the old owner's word.

use core::time::Duration;
use std::collections::BTreeMap;

use cede_seal::verify::verify;
use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, FencingToken, Head, Seize, SeizeVote};
use cede_wire::id::{DeviceId, HandoffId, Hash, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use super::votes::Vote;
use super::{Arrived, Custodian, Role, Session};
use crate::chain::Chain;
use crate::destination::{DestinationPhase, StagedPayload};
use crate::limits;
use crate::now::Now;
use crate::output::Event;

/// Why a session was not seized. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeizeError {
    /// This device belongs to no mesh.
    #[error("this device belongs to no mesh")]
    NoMesh,
    /// This device never had to do with the session.
    #[error("this device knows no custody of the session")]
    Unknown,
    /// It is the owner already.
    #[error("this device is the owner already")]
    AlreadyOwner,
    /// Its own records may not be the newest.
    #[error("this device's own records are not confirmed")]
    Unconfirmed,
    /// The chain names a longer membership log than this device holds.
    #[error("this device does not know the newest members yet")]
    OldMembers,
    /// Nothing of it lies here.
    #[error("no copy of the session lies here")]
    NoCopy,
    /// A counter is exhausted or the signer is another: a fault of ours.
    #[error("fault of ours: {0}")]
    Bug(&'static str),
}

/// What a seize would do, for the question to the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prospect {
    /// The owner that is thought to be gone.
    pub owner: DeviceId,
    /// Its token.
    pub token: FencingToken,
    /// The token under which this device would act.
    pub next_token: FencingToken,
    /// The turns that this device would go on with.
    pub head: Head,
    /// The payload that was staged here and never released, where that is the newest copy.
    pub staged: Option<HandoffId>,
    /// The turns that the owner had when the session was last handed over, where that is known.
    pub released: Option<Head>,
    /// Votes of other devices that it takes.
    pub votes: usize,
}

/// A seize whose votes are being asked for.
#[derive(Debug, Clone)]
pub(super) struct Seizing {
    prospect: Prospect,
    prev: Hash,
    members: u64,
    votes: BTreeMap<DeviceId, Signed<SeizeVote>>,
    refused: BTreeMap<DeviceId, (Refusal, String)>,
    pub(super) until: Duration,
}

impl Custodian {
    /// Says what [`Custodian::seize`] would do. `here`: the end of the turns that lie in this device's own store, where the
    /// session was here before.
    ///
    /// # Errors
    /// [`SeizeError`].
    pub fn prospect(&self, session: SessionId, here: Option<Head>) -> Result<Prospect, SeizeError> {
        self.mesh.ok_or(SeizeError::NoMesh)?;
        let state = self.sessions.get(&session).ok_or(SeizeError::Unknown)?;
        let chain = state.chain.as_ref().ok_or(SeizeError::Unknown)?;
        state.may_seize()?;
        if self.electorate.length() < chain.members() {
            return Err(SeizeError::OldMembers);
        }
        let (owner, token) = (chain.owner(), chain.token());
        let copy = state.staged_copy().map(|(handoff, payload)| (payload.head, Some(handoff)));
        let (head, staged) = copy.or(here.map(|head| (head, None))).ok_or(SeizeError::NoCopy)?;
        let next_token = FencingToken { generation: self.next_generation(state, token)?, epoch: 0 };
        let votes = self.electorate.needed(owner).saturating_sub(1);
        let released = match chain.last() {
            Custody::Release(release) => Some(release.head),
            Custody::Genesis(_) | Custody::Seize(_) => None,
        };
        Ok(Prospect { owner, token, next_token, head, staged, released, votes })
    }

    /// The next generation for which this device's vote is its own.
    fn next_generation(&self, state: &Session, token: FencingToken) -> Result<u64, SeizeError> {
        let mine = |vote: &Vote| vote.to == self.me();
        // What ends a contest is higher than both sides of it.
        let known = token.generation.max(state.contested_generation());
        let voted = state.voted.filter(|vote| vote.generation > known);
        let next = |generation: u64| generation.checked_add(1).ok_or(SeizeError::Bug("generation exhausted"));
        match voted {
            Some(vote) if mine(&vote) && !state.outvoted => Ok(vote.generation),
            Some(vote) => next(vote.generation),
            None => next(known),
        }
    }

    /// S6 of the owner, S0 here: the operator takes the session over. The vote of this device is durable first, then those
    /// of the others are asked for; with enough of them the certificate is. Source: SPEC H-9, H-31.
    ///
    /// # Errors
    /// [`SeizeError`]; nothing changed.
    pub fn seize(&mut self, session: SessionId, here: Option<Head>, now: Now) -> Result<Prospect, SeizeError> {
        self.hear(now);
        let prospect = self.prospect(session, here)?;
        let me = self.me();
        let prev = self.chain(session).map(Chain::head).ok_or(SeizeError::Unknown)?;
        let generation = prospect.next_token.generation;
        self.promise(session, Vote { generation, to: me });
        let (members, until) = (self.electorate.length(), now.after(limits::VOTES));
        let (votes, refused) = (BTreeMap::new(), BTreeMap::new());
        let state = self.session(session);
        state.outvoted = false;
        state.seizing = Some(Seizing { prospect, prev, members, votes, refused, until });
        if prospect.votes > 0 {
            for voter in self.voters(prospect.owner) {
                self.ask_vote(session, voter);
            }
        }
        self.count_votes(session);
        Ok(prospect)
    }

    fn voters(&self, owner: DeviceId) -> Vec<DeviceId> {
        let me = self.me();
        self.electorate.enrolled().filter(|device| *device != me && *device != owner).collect()
    }

    /// Asks one device for its vote, again after a reconnect.
    pub(super) fn ask_vote(&mut self, session: SessionId, voter: DeviceId) {
        let Some(state) = self.sessions.get(&session) else { return };
        let (Some(seizing), Some(chain)) = (&state.seizing, &state.chain) else { return };
        let heard = seizing.votes.contains_key(&voter) || seizing.refused.contains_key(&voter);
        if heard || voter == seizing.prospect.owner {
            return;
        }
        let links = chain.told_to(voter).to_vec();
        let (generation, members) = (seizing.prospect.next_token.generation, seizing.members);
        let chain = self.send_all_but_last(voter, links);
        self.send(voter, PeerMessage::SeizeQuery { session, generation, members, chain });
    }

    pub(super) fn handle_seize_answer(
        &mut self,
        from: DeviceId,
        session: SessionId,
        generation: u64,
        answer: &Result<Signed<SeizeVote>, (Refusal, String)>,
    ) {
        let (me, mesh) = (self.me(), self.mesh);
        let Some(seizing) = self.sessions.get_mut(&session).and_then(|state| state.seizing.as_mut()) else { return };
        let asked = from != seizing.prospect.owner && self.electorate.was_enrolled(seizing.members, from);
        if seizing.prospect.next_token.generation != generation || !asked {
            return;
        }
        match answer {
            Ok(vote) => {
                let Ok(verified) = verify(vote) else { return };
                // One vote that does not fit would make the whole certificate worthless.
                let same =
                    Some(verified.mesh) == mesh && verified.session == session && verified.generation == generation;
                let based = verified.members == seizing.members && verified.prev == seizing.prev;
                if same && based && verified.voter == from && verified.to == me {
                    seizing.votes.insert(from, vote.clone());
                }
            }
            Err((refusal, detail)) => {
                let detail = detail.chars().take(cede_wire::limits::DETAIL_CHARS).collect();
                seizing.refused.insert(from, (*refusal, detail));
            }
        }
        self.count_votes(session);
    }

    /// Enough votes: the certificate. No hope any more: the end.
    fn count_votes(&mut self, session: SessionId) {
        let Some(seizing) = self.sessions.get(&session).and_then(|state| state.seizing.as_ref()) else { return };
        let voters = self.voters(seizing.prospect.owner).len();
        if seizing.votes.len() >= seizing.prospect.votes {
            self.certify(session);
        } else if voters.saturating_sub(seizing.refused.len()) < seizing.prospect.votes {
            self.give_up_seize(session, Refusal::Declined);
        }
    }

    /// Ends a seize that did not get its votes. The vote of this device stays given.
    pub fn give_up_seize(&mut self, session: SessionId, refusal: Refusal) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(seizing) = state.seizing.take() else { return };
        state.outvoted = seizing.refused.values().any(|(refusal, _)| *refusal == Refusal::Declined);
        let heard = |device: &DeviceId| seizing.votes.contains_key(device) || seizing.refused.contains_key(device);
        let silent = self.voters(seizing.prospect.owner).into_iter().filter(|device| !heard(device)).collect();
        let answers = seizing.refused.into_iter().map(|(device, (refusal, why))| (device, refusal, why)).collect();
        self.tell(Event::NotSeized { session, refusal, answers, silent });
    }

    /// The certificate, and what makes this device act under it, in one batch.
    fn certify(&mut self, session: SessionId) {
        let local = self.local.clone();
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let Some(seizing) = state.seizing.take() else { return };
        let Some(chain) = &state.chain else { return };
        // What was staged may have been lost, or have made room for another attempt, while the votes came.
        let staged_then = seizing.prospect.staged.map(|handoff| (handoff, seizing.prospect.head));
        let staged_now = state.staged_copy().map(|(handoff, payload)| (handoff, payload.head));
        if staged_then.is_some() && staged_then != staged_now {
            return self.not_seized(session, Refusal::Cancelled);
        }
        let Prospect { token, next_token, head, staged, owner, .. } = seizing.prospect;
        let seize = Seize {
            mesh: chain.mesh(),
            session,
            prev: seizing.prev,
            to: local.device(),
            token,
            next_token,
            head,
            members: seizing.members,
            votes: seizing.votes.into_values().take(cede_wire::limits::SEIZE_VOTES).collect(),
        };
        // A device that was removed meanwhile, or more votes than a certificate holds: nobody else would believe it.
        if self.electorate.check(&seize, owner).is_err() {
            return self.not_seized(session, Refusal::Unauthorized);
        }
        let mut longer = chain.clone();
        let signed = local.sign(&Custody::Seize(seize)).ok();
        let Some(certificate) = signed.filter(|certificate| longer.extend(certificate).is_ok()) else {
            return self.not_seized(session, Refusal::StaleToken);
        };
        let records = vec![Record::Custody(certificate), state.become_seizer(session, longer, staged)];
        self.told.retain(|_, told| told.session() != session);
        self.withdraw(session, Refusal::AlreadyOwner);
        self.persist(records);
        self.tell(Event::SeizedHere { session, from: owner, token: next_token, head, staged });
        if let Some(handoff) = staged {
            self.tell(Event::Activate { session, handoff, source: owner, token: next_token });
        }
        self.spread(session);
    }

    fn not_seized(&mut self, session: SessionId, refusal: Refusal) {
        self.tell(Event::NotSeized { session, refusal, answers: Vec::new(), silent: Vec::new() });
    }
}

impl Session {
    fn may_seize(&self) -> Result<(), SeizeError> {
        match &self.role {
            Role::Owner { .. } | Role::Offering { .. } => Err(SeizeError::AlreadyOwner),
            // A contest ends by a higher generation; a doubt about the own records by a confirmation.
            Role::Unconfirmed(_) if self.contested.is_none() || self.doubted => Err(SeizeError::Unconfirmed),
            Role::Bystander | Role::Released(_) | Role::Designate(_) | Role::Fenced { .. } | Role::Unconfirmed(_) => {
                Ok(())
            }
        }
    }

    /// What an owner staged here and never released.
    fn staged_copy(&self) -> Option<(HandoffId, StagedPayload)> {
        let arriving = self.arriving.as_ref()?;
        match arriving.phase() {
            DestinationPhase::Staged { payload, .. } => Some((arriving.attempt().handoff, *payload)),
            DestinationPhase::Receiving { .. } => None,
        }
    }

    /// S0, and the record that belongs to it.
    fn become_seizer(&mut self, session: SessionId, chain: Chain, staged: Option<HandoffId>) -> Record {
        let (token, to) = (chain.token(), chain.owner());
        let left_by = chain.left_by(to);
        self.chain = Some(chain);
        (self.unclaimed, self.arriving) = (None, None);
        self.settle_contest();
        self.role = Role::Owner { arrived: staged.map(|handoff| Arrived { handoff, installed: false }) };
        if let Some(handoff) = staged {
            return Record::Active { session, handoff, token };
        }
        // A fence stands over what lies here since it left.
        let handoff = left_by.unwrap_or(HandoffId::new([0; 16]));
        self.fenced_for = Some(handoff);
        Record::FenceRaised { session, handoff, to }
    }
}
