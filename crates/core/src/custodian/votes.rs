//! A vote in a seize: once for a session and a generation, durable before it leaves.

use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, SeizeVote};
use cede_wire::id::{DeviceId, Hash, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use super::gossip::had;
use super::offered::{No, Unmergeable};
use super::{Custodian, Role, Session};
use crate::chain::Chain;
use crate::limits;

/// What this device said last. Source: SPEC H-31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vote {
    pub(super) generation: u64,
    pub(super) to: DeviceId,
}

/// A peer's question for a vote.
pub(super) struct Asks<'a> {
    pub(super) session: SessionId,
    pub(super) generation: u64,
    pub(super) members: u64,
    pub(super) chain: &'a [Signed<Custody>],
}

impl Custodian {
    pub(super) fn handle_seize_query(&mut self, from: DeviceId, asks: &Asks<'_>) {
        let (session, generation) = (asks.session, asks.generation);
        self.handle_custody(from, asks.chain);
        let answer = match self.consider_vote(from, asks) {
            Ok(prev) => self.vote(session, generation, prev, from),
            Err((refusal, detail)) => Err((refusal, detail.to_owned())),
        };
        let knows_more = matches!(answer, Err((Refusal::StaleToken, _)));
        self.send(from, PeerMessage::SeizeAnswer { session, generation, answer });
        if knows_more {
            self.send_custody(from, session);
        }
    }

    /// Everything that speaks against a vote. Whether the owner is gone for good no device knows: the operator who seizes
    /// says so, and this device says no where it knows better.
    fn consider_vote(&mut self, from: DeviceId, asks: &Asks<'_>) -> Result<Hash, No> {
        let enrolled = |device| self.electorate.is_enrolled(device);
        if !enrolled(from) || !enrolled(self.me()) {
            return Err((Refusal::Unauthorized, "not both devices are enrolled"));
        }
        if asks.members != self.electorate.length() {
            return Err((Refusal::Busy, "the two devices do not know the same members yet; try again"));
        }
        if !self.remembers_votes(asks.session) {
            return Err((
                Refusal::Busy,
                "this device's records may not be the newest; its operator must confirm first",
            ));
        }
        let chain = self.chain_of_query(from, asks)?;
        self.check_lost(chain.owner(), from)?;
        self.check_once(from, asks, &chain)?;
        Ok(chain.head())
    }

    /// A device that may have forgotten its vote gives none.
    fn remembers_votes(&self, session: SessionId) -> bool {
        match self.sessions.get(&session).filter(|state| state.chain.is_some()) {
            Some(state) => !matches!(state.role, Role::Unconfirmed(_)) || state.contested.is_some() && !state.doubted,
            None => self.trust == super::Trust::Whole,
        }
    }

    fn chain_of_query(&self, from: DeviceId, asks: &Asks<'_>) -> Result<Chain, No> {
        let chain = match self.merge(Some(from), asks.session, asks.chain) {
            Ok((chain, _)) => chain,
            Err(Unmergeable::Rival(_)) => self.contested_chain(from, asks)?,
            Err(Unmergeable::No(no)) => return Err(no),
        };
        let theirs = asks.chain.last().map(Signed::hash);
        if theirs != Some(chain.head()) || asks.generation <= chain.token().generation {
            return Err((Refusal::StaleToken, "a later owner is known here"));
        }
        Ok(chain)
    }

    /// Of chains that claim one place a device may vote for any: a seize in a higher generation is what ends that.
    /// Source: SPEC H-33.
    fn contested_chain(&self, from: DeviceId, asks: &Asks<'_>) -> Result<Chain, No> {
        let contested = self.sessions.get(&asks.session).filter(|state| state.contested.is_some());
        let chain = contested.and_then(|_| self.branch(Some(from), asks.session, asks.chain).ok());
        chain.ok_or((Refusal::Unauthorized, "the custody chain does not follow ours"))
    }

    fn check_lost(&self, owner: DeviceId, from: DeviceId) -> Result<(), No> {
        if owner == self.me() {
            Err((Refusal::AlreadyOwner, "this device is the owner, and is there"))
        } else if owner != from && self.links.contains(&owner) {
            Err((Refusal::Busy, "the owner is connected to this device; take the session from it, or stop it first"))
        } else {
            Ok(())
        }
    }

    fn check_once(&self, from: DeviceId, asks: &Asks<'_>, chain: &Chain) -> Result<(), No> {
        let voted = self.sessions.get(&asks.session).and_then(|state| state.voted);
        let before = voted.map_or(0, |vote| vote.generation);
        let again = voted == Some(Vote { generation: asks.generation, to: from });
        if asks.generation <= before && !again {
            return Err((Refusal::Declined, "this device gave its vote to another one"));
        }
        let contested = self.sessions.get(&asks.session).map_or(0, Session::contested_generation);
        let known = chain.token().generation.max(contested);
        if asks.generation > known.saturating_add(limits::GENERATIONS_AHEAD) {
            return Err((Refusal::Protocol, "the generation is far from the next one"));
        }
        // A chain is kept where a vote was given, so a session stays strange when its chain is known, whomever that names.
        let me = self.me();
        let known = |state: &Session| state.chain.as_ref().is_some_and(|chain| had(chain, me));
        let strange = self.count(|state| state.voted.is_some() && !known(state));
        let known = self.sessions.get(&asks.session).is_some_and(|state| state.voted.is_some() || known(state));
        if !known && strange >= limits::STRANGE_VOTES {
            return Err((Refusal::Busy, "too many votes for sessions that are not known here"));
        }
        Ok(())
    }

    fn vote(
        &mut self,
        session: SessionId,
        generation: u64,
        prev: Hash,
        to: DeviceId,
    ) -> Result<Signed<SeizeVote>, (Refusal, String)> {
        let ours = |what: &str| (Refusal::Protocol, what.to_owned());
        let mesh = self.mesh.ok_or_else(|| ours("this device belongs to no mesh"))?;
        let members = self.electorate.length();
        let vote = SeizeVote { mesh, session, generation, members, prev, to, voter: self.me() };
        let vote = self.local.sign(&vote).map_err(|_| ours("foreign signer"))?;
        self.promise(session, Vote { generation, to });
        Ok(vote)
    }

    /// Makes a vote durable, where it is not yet.
    pub(super) fn promise(&mut self, session: SessionId, vote: Vote) {
        let Vote { generation, to } = vote;
        if self.session(session).voted != Some(vote) {
            self.session(session).voted = Some(vote);
            self.persist(vec![Record::Voted { session, generation, to }]);
        }
        if to != self.me() {
            // Another device is to have it: what was asked for here is over.
            self.give_up_seize(session, Refusal::StaleToken);
        }
    }
}
