//! The custody chain of one session: each link verified, each naming the one before.

use std::collections::BTreeSet;

use cede_seal::verify::{Verified, verify};
use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, FencingToken, Genesis, Release, Seize};
use cede_wire::id::{DeviceId, Hash, MeshId, SessionId};

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
                Ok(Self { session: first.key.id(), links: vec![genesis.clone()], last: (*verified).clone() })
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
        self.links.push(link.clone());
        Ok(())
    }

    /// Adds the records that follow what is known, and passes over those that are known.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is unchanged.
    pub fn merge(&mut self, links: &[Signed<Custody>]) -> Result<(), ChainError> {
        let known: BTreeSet<Hash> = self.links.iter().map(Signed::hash).collect();
        let mut merged = self.clone();
        links.iter().skip_while(|link| known.contains(&link.hash())).try_for_each(|link| merged.extend(link))?;
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
        if !self.links.iter().any(|link| link.hash() == seize.prev) {
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

    /// The records from the last one on that `device` took part in, the whole chain if it never did.
    pub fn since_last_visit(&self, device: DeviceId) -> &[Signed<Custody>] {
        since_last_visit(&self.links, device)
    }

    /// The same without the last record: what a device lacks that is sent the last record itself.
    pub fn before_last_for(&self, device: DeviceId) -> &[Signed<Custody>] {
        self.links.split_last().map_or(&[], |(_, before)| since_last_visit(before, device))
    }
}

fn since_last_visit(links: &[Signed<Custody>], device: DeviceId) -> &[Signed<Custody>] {
    let from = links.iter().rposition(|link| took_part(link, device)).unwrap_or(0);
    links.get(from..).unwrap_or(&[])
}

fn took_part(link: &Signed<Custody>, device: DeviceId) -> bool {
    match verified(link).map(|v| v.into_parts().0) {
        Ok(Custody::Genesis(Genesis { owner, .. })) => owner == device,
        Ok(Custody::Release(release)) => release.from == device || release.to == device,
        Ok(Custody::Seize(seize)) => seize.to == device,
        Err(_) => false,
    }
}

fn verified(link: &Signed<Custody>) -> Result<Verified<Custody>, ChainError> {
    verify(link).map_err(|_| ChainError::Forged)
}
