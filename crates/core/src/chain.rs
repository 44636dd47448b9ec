//! The custody chain of one session: each link verified, each naming the one before.

use std::collections::BTreeSet;

use cede_seal::verify::{Verified, verify};
use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, FencingToken, Head, Release, Seize};
use cede_wire::id::{DeviceId, HandoffId, Hash, MeshId, SessionId};

use crate::limits;

/// Why a record does not extend a chain. The chain is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The signature does not verify or the signer is another than the record names.
    #[error("custody record does not verify")]
    Forged,
    /// The first record is no genesis, or a genesis stands elsewhere.
    #[error("custody chain does not begin with its genesis")]
    NoGenesis,
    /// It does not name the record before it.
    #[error("custody record does not follow the one before")]
    NotNext,
    /// It is of another session or mesh.
    #[error("custody record is of another session or mesh")]
    Foreign,
    /// It is signed by a device that was not the owner.
    #[error("custody record is not signed by the owner")]
    NotOwner,
    /// Its token is not the one that follows.
    #[error("custody record has the wrong fencing token")]
    WrongToken,
    /// It is a seize under a membership log that is shorter than what a record before it names.
    #[error("the seize names an older membership than the records before it")]
    OldMembers,
    /// It leads to a lower generation than what is known.
    #[error("custody chain was passed by a seize")]
    Passed,
    /// It is a second seize of the generation that is known, or a second release by one owner under one token.
    #[error("two records claim one place in the custody chain")]
    Rival(Box<Signed<Custody>>),
}

/// A verified chain, never empty. Source: SPEC H-3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    session: SessionId,
    links: Vec<Signed<Custody>>,
    /// What the links say, so that nobody verifies one twice.
    records: Vec<Custody>,
    known: BTreeSet<Hash>,
    last: Custody,
}

impl Chain {
    /// Begins with a genesis.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn begin(genesis: &Signed<Custody>) -> Result<Self, ChainError> {
        let verified = verified(genesis)?;
        match &*verified {
            Custody::Genesis(first) => {
                let last = (*verified).clone();
                let known = BTreeSet::from([genesis.hash()]);
                Ok(Self {
                    session: first.key.id(),
                    links: vec![genesis.clone()],
                    records: vec![last.clone()],
                    known,
                    last,
                })
            }
            Custody::Release(_) | Custody::Seize(_) => Err(ChainError::NoGenesis),
        }
    }

    /// Verifies a whole chain.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn from_links(links: &[Signed<Custody>]) -> Result<Self, ChainError> {
        let (first, rest) = links.split_first().ok_or(ChainError::NoGenesis)?;
        let mut chain = Self::begin(first)?;
        rest.iter().try_for_each(|link| chain.extend(link))?;
        Ok(chain)
    }

    /// Adds one record. A seize may follow an older record than the last, for its device may not have heard of a release:
    /// what stood after that record is passed, and leaves the chain.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is unchanged.
    pub fn extend(&mut self, link: &Signed<Custody>) -> Result<(), ChainError> {
        let verified = verified(link)?;
        self.check_next(&verified)?;
        if let Custody::Seize(seize) = &*verified {
            self.cut_after(&seize.prev)?;
        }
        self.push(&verified, link);
        Ok(())
    }

    /// Adds one record that follows the last one.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is unchanged.
    pub(crate) fn append(&mut self, link: &Signed<Custody>) -> Result<(), ChainError> {
        let verified = verified(link)?;
        if verified.prev() != Some(self.head()) {
            return Err(ChainError::NotNext);
        }
        self.check_next(&verified)?;
        self.push(&verified, link);
        Ok(())
    }

    fn push(&mut self, verified: &Custody, link: &Signed<Custody>) {
        self.last = verified.clone();
        self.records.push(self.last.clone());
        self.known.insert(link.hash());
        self.links.push(link.clone());
    }

    /// The chain with the records that follow what is known; those that are known are passed over. Records that part from
    /// the chain replace what they part from if a seize among them begins a higher generation. Source: SPEC H-3, H-32.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn merged(&self, links: &[Signed<Custody>]) -> Result<Self, ChainError> {
        let branch = self.branch(links)?;
        self.judge(&branch).map(|()| branch)
    }

    /// Whether a branch of this chain takes its place. Source: SPEC H-32.
    ///
    /// # Errors
    /// [`ChainError::Passed`] and [`ChainError::Rival`].
    pub(crate) fn judge(&self, branch: &Self) -> Result<(), ChainError> {
        let generation = |chain: &Self| chain.token().generation;
        if branch.contains(&self.head()) || generation(branch) > generation(self) {
            return Ok(());
        }
        if generation(branch) < generation(self) {
            return Err(ChainError::Passed);
        }
        // Within one generation: either each side has its own seize, or one owner released twice.
        let seize = branch.seize_of(generation(self)).map(|(link, _)| link);
        let seize = seize.filter(|seize| !self.contains(&seize.hash()));
        let parted = seize.or_else(|| branch.links.get(self.shared_with(branch)));
        Err(parted.map_or(ChainError::Passed, |parted| ChainError::Rival(Box::new(parted.clone()))))
    }

    /// The chain that a peer's records make, whether or not it replaces this one: this one where they hold nothing new.
    ///
    /// # Errors
    /// [`ChainError`].
    pub(crate) fn branch(&self, links: &[Signed<Custody>]) -> Result<Self, ChainError> {
        let new = links.iter().position(|link| !self.contains(&link.hash())).and_then(|at| links.get(at..));
        let Some(first) = new.and_then(|new| new.first()) else { return Ok(self.clone()) };
        let prev = verified(first)?.prev().ok_or(ChainError::NoGenesis)?;
        let mut branch = self.up_to(&prev)?;
        new.into_iter().flatten().try_for_each(|link| branch.extend(link))?;
        Ok(branch)
    }

    /// Adds one record of a journal, in its order. Records that part from the chain, a seize of no higher generation among
    /// them, wait in `side` for the seize that made them count.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is unchanged.
    pub(crate) fn replay(&mut self, link: &Signed<Custody>, side: &mut Option<Self>) -> Result<(), ChainError> {
        match self.extend(link) {
            Err(ChainError::NotNext | ChainError::WrongToken) => {}
            extended => return extended,
        }
        let prev = verified(link)?.prev().ok_or(ChainError::NoGenesis)?;
        let mut branch = match side.take().filter(|side| side.head() == prev) {
            Some(side) => side,
            None => self.up_to(&prev)?,
        };
        branch.extend(link)?;
        if branch.token().generation > self.token().generation {
            *self = branch;
        } else {
            *side = Some(branch);
        }
        Ok(())
    }

    /// Whether a record of the same session begins another history of it, in another mesh: then this one is over.
    pub(crate) fn ends_with(&self, record: &Custody) -> bool {
        matches!(record, Custody::Genesis(_)) && record.session() == self.session && record.mesh() != self.mesh()
    }

    /// The chain up to and with a record.
    fn up_to(&self, record: &Hash) -> Result<Self, ChainError> {
        self.position(record).ok_or(ChainError::NotNext)?;
        let mut shorter = self.clone();
        shorter.cut_after(record)?;
        Ok(shorter)
    }

    /// In place, and from the end: a peer chooses how often this is done in one chain.
    fn cut_after(&mut self, record: &Hash) -> Result<(), ChainError> {
        let at = self.position(record).ok_or(ChainError::NotNext)?;
        self.last = self.records.get(at).cloned().ok_or(ChainError::NotNext)?;
        for passed in self.links.drain(at + 1..) {
            self.known.remove(&passed.hash());
        }
        self.records.truncate(at + 1);
        Ok(())
    }

    fn position(&self, record: &Hash) -> Option<usize> {
        self.contains(record).then(|| self.links.iter().rposition(|link| link.hash() == *record)).flatten()
    }

    /// The seize that began a generation.
    pub fn seize_of(&self, generation: u64) -> Option<(&Signed<Custody>, &Seize)> {
        let mut seizes = self.links.iter().zip(&self.records).filter_map(|(link, record)| match record {
            Custody::Seize(seize) => Some((link, seize)),
            Custody::Genesis(_) | Custody::Release(_) => None,
        });
        seizes.find(|(_, seize)| seize.next_token.generation == generation)
    }

    /// The seizes behind the first `known` records, each with the owner that it was taken from.
    pub fn seizes_after(&self, known: usize) -> impl Iterator<Item = (&Seize, DeviceId)> {
        let pairs = self.records.iter().zip(self.records.iter().skip(1)).skip(known.saturating_sub(1));
        pairs.filter_map(|(before, record)| match record {
            Custody::Seize(seize) => Some((seize, before.owner())),
            Custody::Genesis(_) | Custody::Release(_) => None,
        })
    }

    /// How many records this chain begins with that another one begins with too.
    pub fn shared_with(&self, other: &Self) -> usize {
        self.links.iter().zip(other.links()).take_while(|(ours, theirs)| ours.bytes() == theirs.bytes()).count()
    }

    fn check_next(&self, next: &Custody) -> Result<(), ChainError> {
        if next.session() != self.session || next.mesh() != self.last.mesh() {
            return Err(ChainError::Foreign);
        }
        match next {
            Custody::Genesis(_) => Err(ChainError::NoGenesis),
            Custody::Release(release) => self.check_release(release),
            Custody::Seize(seize) => self.check_seize(seize),
        }
    }

    fn check_release(&self, release: &Release) -> Result<(), ChainError> {
        if release.prev != self.head() {
            return Err(ChainError::NotNext);
        }
        if release.from != self.owner() || release.to == release.from {
            return Err(ChainError::NotOwner);
        }
        let follows = Some(release.next_token) == self.token().next_epoch() && release.token == self.token();
        follows.then_some(()).ok_or(ChainError::WrongToken)
    }

    /// A seize may name an older record than the last: its device may not have heard of a release. Its generation
    /// decides, and may be more than one higher: votes for one between may have come to nothing.
    fn check_seize(&self, seize: &Seize) -> Result<(), ChainError> {
        let at = self.position(&seize.prev).ok_or(ChainError::NotNext)?;
        let before = self.records.get(at).map(Custody::token);
        let leap = seize.next_token.generation.saturating_sub(self.token().generation);
        let higher = (1..=limits::GENERATIONS_LEAP).contains(&leap) && seize.next_token.epoch == 0;
        if before != Some(seize.token) || !higher {
            return Err(ChainError::WrongToken);
        }
        if seize.members < self.members_until(at) { Err(ChainError::OldMembers) } else { Ok(()) }
    }

    /// The longest membership log that the first records name, up to the one at `last`. Who was a founder must not decide
    /// alone what belongs to many since. Source: SPEC H-31.
    fn members_until(&self, last: usize) -> u64 {
        self.records.iter().take(last.saturating_add(1)).map(Custody::members).max().unwrap_or(0)
    }

    /// The longest membership log that the records name.
    pub fn members(&self) -> u64 {
        self.members_until(self.records.len())
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The mesh.
    pub fn mesh(&self) -> MeshId {
        self.last.mesh()
    }

    /// Whether a record is one of this chain.
    pub fn contains(&self, record: &Hash) -> bool {
        self.known.contains(record)
    }

    /// What every record says, in order.
    pub fn records(&self) -> &[Custody] {
        &self.records
    }

    /// Whether `device` ever was the owner.
    pub fn owned_by(&self, device: DeviceId) -> bool {
        self.records.iter().any(|record| record.owner() == device)
    }

    /// The release of `handoff` to `device`, where this chain holds it.
    pub fn release_to(&self, device: DeviceId, handoff: HandoffId) -> Option<&Release> {
        self.releases().find(|release| release.handoff == handoff && release.to == device)
    }

    /// The handoffs that brought the session to `device`.
    pub fn arrivals_at(&self, device: DeviceId) -> impl Iterator<Item = HandoffId> + '_ {
        self.releases().filter(move |release| release.to == device).map(|release| release.handoff)
    }

    /// The release of `handoff` to `device`, if `device` gave the session on afterwards: so it did act under it.
    pub fn given_on(&self, device: DeviceId, handoff: HandoffId) -> Option<&Release> {
        let release = self.release_to(device, handoff)?;
        let next = self.releases().find(|next| next.token == release.next_token)?;
        (next.from == device).then_some(release)
    }

    /// Who took the session over by force after the release of `handoff` and before its new owner gave it on. None too where
    /// that one did so itself.
    pub fn passed_by(&self, handoff: HandoffId) -> Option<DeviceId> {
        let is_it = |record: &Custody| matches!(record, Custody::Release(release) if release.handoff == handoff);
        let at = self.records.iter().position(is_it)?;
        match (&self.records[at], self.records.get(at + 1)?) {
            (Custody::Release(release), next @ Custody::Seize(_)) => Some(next.owner()).filter(|by| *by != release.to),
            (_, Custody::Genesis(_) | Custody::Release(_) | Custody::Seize(_)) => None,
        }
    }

    /// The handoff with which `device` gave the session away last.
    pub fn left_by(&self, device: DeviceId) -> Option<HandoffId> {
        self.releases().find(|release| release.from == device).map(|release| release.handoff)
    }

    fn releases(&self) -> impl Iterator<Item = &Release> {
        self.records.iter().rev().filter_map(|record| match record {
            Custody::Release(release) => Some(release),
            Custody::Genesis(_) | Custody::Seize(_) => None,
        })
    }

    /// The first record.
    pub fn genesis(&self) -> Option<Verified<Custody>> {
        self.links.first().and_then(|link| verified(link).ok())
    }

    /// The owner after the last record.
    pub fn owner(&self) -> DeviceId {
        self.last.owner()
    }

    /// The token after the last record.
    pub fn token(&self) -> FencingToken {
        self.last.token()
    }

    /// The owner before the last record; the first owner where there is no other.
    pub fn owner_before(&self) -> DeviceId {
        self.records.iter().rev().nth(1).map_or(self.owner(), Custody::owner)
    }

    /// The turns that the owner had when it seized; nothing where the last record is no seize.
    pub fn seized_head(&self) -> Head {
        match &self.last {
            Custody::Seize(seize) => seize.head,
            Custody::Genesis(_) | Custody::Release(_) => Head { turn: 0, length: 0, hash: Hash::of(&[]) },
        }
    }

    /// The owner after a record of this chain.
    pub fn owner_at(&self, record: &Hash) -> Option<DeviceId> {
        let at = self.position(record)?;
        self.records.get(at).map(Custody::owner)
    }

    /// The last record.
    pub fn last(&self) -> &Custody {
        &self.last
    }

    /// The last record, signed.
    pub fn last_signed(&self) -> Option<&Signed<Custody>> {
        self.links.last()
    }

    /// Hash of the last record: what the next one names.
    pub fn head(&self) -> Hash {
        self.links.last().map_or(Hash::of(&[]), Signed::hash)
    }

    /// Every record.
    pub fn links(&self) -> &[Signed<Custody>] {
        &self.links
    }

    /// The last records.
    pub fn newest(&self, count: usize) -> &[Signed<Custody>] {
        self.links.get(self.links.len().saturating_sub(count)..).unwrap_or(&[])
    }

    /// The records that `device` may lack: from the last one on that it took part in, all if it never did, and all of
    /// a short chain, because a device can lose its journal.
    pub fn since_last_visit(&self, device: DeviceId) -> &[Signed<Custody>] {
        self.visited_before(self.links.len(), device)
    }

    /// What a device is told: everything where one message carries it, for it can have lost its journal; else what it may lack.
    pub fn told_to(&self, device: DeviceId) -> &[Signed<Custody>] {
        if self.links.len() <= cede_wire::limits::CHAIN_RECORDS { &self.links } else { self.since_last_visit(device) }
    }

    /// [`Self::since_last_visit`] without the last record: what a device lacks that is sent that one itself.
    pub fn before_last_for(&self, device: DeviceId) -> &[Signed<Custody>] {
        self.visited_before(self.links.len().saturating_sub(1), device)
    }

    /// Every record but the last.
    pub fn before_last(&self) -> &[Signed<Custody>] {
        self.links.split_last().map_or(&[], |(_, before)| before)
    }

    fn visited_before(&self, end: usize, device: DeviceId) -> &[Signed<Custody>] {
        let records = self.records.get(..end).unwrap_or(&[]);
        let visit = records.iter().rposition(|record| took_part(record, device)).unwrap_or(0);
        let from = if end <= limits::WHOLE_CHAIN { 0 } else { visit };
        self.links.get(from..end).unwrap_or(&[])
    }
}

fn took_part(record: &Custody, device: DeviceId) -> bool {
    match record {
        Custody::Genesis(genesis) => genesis.owner == device,
        Custody::Release(release) => release.from == device || release.to == device,
        Custody::Seize(seize) => seize.to == device,
    }
}

pub(crate) fn verified(link: &Signed<Custody>) -> Result<Verified<Custody>, ChainError> {
    #[cfg(test)]
    VERIFIED.set(VERIFIED.get() + 1);
    verify(link).map_err(|_| ChainError::Forged)
}

#[cfg(test)]
thread_local! {
    /// How many signatures of records a test had checked.
    pub(crate) static VERIFIED: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}
