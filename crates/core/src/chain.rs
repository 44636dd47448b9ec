//! The custody chain of one session: each link verified, each naming the one before.

use std::collections::BTreeSet;

use cede_seal::verify::{Verified, verify};
use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, FencingToken, Release, Seize};
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

    /// Adds one record.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is unchanged.
    pub fn extend(&mut self, link: &Signed<Custody>) -> Result<(), ChainError> {
        let verified = verified(link)?;
        self.check_next(&verified)?;
        self.last = (*verified).clone();
        self.records.push(self.last.clone());
        self.known.insert(link.hash());
        self.links.push(link.clone());
        Ok(())
    }

    /// Adds the records that follow what is known, and passes over those that are known.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is unchanged.
    pub fn merge(&mut self, links: &[Signed<Custody>]) -> Result<(), ChainError> {
        let mut merged = self.clone();
        links.iter().skip_while(|link| self.contains(&link.hash())).try_for_each(|link| merged.extend(link))?;
        *self = merged;
        Ok(())
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

    /// A seize may name an older record than the last: its device may not have heard of a release. Its
    /// generation decides.
    fn check_seize(&self, seize: &Seize) -> Result<(), ChainError> {
        if !self.contains(&seize.prev) {
            return Err(ChainError::NotNext);
        }
        let follows = Some(seize.next_token) == self.token().next_generation();
        follows.then_some(()).ok_or(ChainError::WrongToken)
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

    /// The release of `handoff` to `device`, if `device` gave the session on afterwards: so it did act under it.
    pub fn given_on(&self, device: DeviceId, handoff: HandoffId) -> Option<&Release> {
        let release = self.release_to(device, handoff)?;
        let next = self.releases().find(|next| next.token == release.next_token)?;
        (next.from == device).then_some(release)
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

    /// The records that `device` may lack: from the last one on that it took part in, all if it never did, and all of
    /// a short chain, because a device can lose its journal.
    pub fn since_last_visit(&self, device: DeviceId) -> &[Signed<Custody>] {
        self.visited_before(self.links.len(), device)
    }

    /// The same without the last record: what a device lacks that is sent the last record itself.
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

fn verified(link: &Signed<Custody>) -> Result<Verified<Custody>, ChainError> {
    verify(link).map_err(|_| ChainError::Forged)
}
