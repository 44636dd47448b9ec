//! One device, two keys: what the old key is in charge of it releases to the new one, and never acts again.

use std::collections::BTreeMap;

use cede_seal::device::LocalDevice;
use cede_seal::verify::verify;
use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, Head, Release};
use cede_wire::id::{DeviceId, HandoffId, Hash, SessionId};
use cede_wire::record::Record;

use crate::chain::{Chain, ChainError};

/// The records that follow a journal when `new` takes the place of `old`: for every session that `old` is in charge of, its
/// release and the word that `new` acts under it. Durable together, before `old` is erased. `seed` is random.
///
/// Sessions that others are in charge of are left alone, and so are those that never moved: no record names their owner.
///
/// # Errors
/// [`ChainError`]; the journal contradicts itself, and nothing follows it.
///
/// Source: SPEC P-11
pub fn succeed(
    journal: &[Record],
    old: &LocalDevice,
    new: DeviceId,
    seed: &[u8; 32],
) -> Result<Vec<Record>, ChainError> {
    let mut chains = BTreeMap::new();
    for record in journal {
        if let Record::Custody(link) = record {
            follow(&mut chains, link)?;
        }
    }
    let chains = chains.into_values().map(|(chain, _)| chain);
    let owned = chains.filter(|chain| chain.owner() == old.device() && old.device() != new);
    let released = owned.map(|chain| released(&chain, old, new, seed)).collect::<Result<Vec<_>, _>>()?;
    Ok(released.into_iter().flatten().collect())
}

/// Each chain, and what parts from it and has no seize yet.
type Chains = BTreeMap<SessionId, (Chain, Option<Chain>)>;

fn follow(chains: &mut Chains, link: &Signed<Custody>) -> Result<(), ChainError> {
    let session = verify(link).map_err(|_| ChainError::Forged)?.session();
    match chains.get_mut(&session) {
        Some((chain, side)) => chain.replay(link, side),
        None => {
            chains.insert(session, (Chain::begin(link)?, None));
            Ok(())
        }
    }
}

fn released(chain: &Chain, old: &LocalDevice, new: DeviceId, seed: &[u8; 32]) -> Result<[Record; 3], ChainError> {
    let session = chain.session();
    let (head, root) = held(chain);
    let handoff = handoff(seed, session);
    let next_token = chain.token().next_epoch().ok_or(ChainError::WrongToken)?;
    let release = Release {
        mesh: chain.mesh(),
        session,
        prev: chain.head(),
        from: old.device(),
        to: new,
        handoff,
        token: chain.token(),
        next_token,
        head,
        root,
    };
    let signed = old.sign(&Custody::Release(release)).map_err(|_| ChainError::NotOwner)?;
    let active = Record::Active { session, handoff, token: next_token };
    Ok([Record::Custody(signed), active, Record::Installed { session, handoff }])
}

/// What the last record says that the owner has. Nothing travels, so nothing newer is claimed.
fn held(chain: &Chain) -> (Head, Hash) {
    let nothing = Hash::of(b"");
    match chain.last() {
        Custody::Release(release) => (release.head, release.root),
        Custody::Seize(seize) => (seize.head, nothing),
        Custody::Genesis(_) => (Head { turn: 0, length: 0, hash: nothing }, nothing),
    }
}

/// An id that no other handoff has.
fn handoff(seed: &[u8; 32], session: SessionId) -> HandoffId {
    let digest = Hash::of(&[&seed[..], session.as_bytes()].concat());
    let mut id = [0; 16];
    id.copy_from_slice(&digest.as_bytes()[..16]);
    HandoffId::new(id)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cede_wire::custody::{FencingToken, Genesis};
    use cede_wire::id::{Incarnation, MeshId};
    use cede_wire::session::{AgentKind, NativeId, SessionKey};

    use super::*;
    use crate::custodian::{Custodian, Standing, Trust};
    use crate::now::Now;

    const MESH: MeshId = MeshId::new([9; 32]);

    fn device(seed: u8) -> LocalDevice {
        LocalDevice::from_secret(&[seed; 32])
    }

    fn begun(native: &str, by: &LocalDevice) -> (SessionId, Chain) {
        let key = SessionKey { agent: AgentKind::Files, native: NativeId::parse(native).unwrap() };
        let genesis =
            Genesis { mesh: MESH, key: key.clone(), owner: by.device(), incarnation: Incarnation::new([1; 16]) };
        (key.id(), Chain::begin(&by.sign(&Custody::Genesis(genesis)).unwrap()).unwrap())
    }

    fn given(chain: &mut Chain, from: &LocalDevice, to: DeviceId) {
        let records = released(chain, from, to, &[3; 32]).unwrap();
        let Record::Custody(link) = &records[0] else { panic!("no release") };
        chain.extend(link).unwrap();
    }

    fn journal(chains: &[&Chain]) -> Vec<Record> {
        chains.iter().flat_map(|chain| chain.links()).cloned().map(Record::Custody).collect()
    }

    fn standing(journal: &[Record], of: LocalDevice, session: SessionId) -> Option<Standing> {
        let now = Now { monotonic: core::time::Duration::ZERO, unix_ms: 0 };
        let incarnation = Incarnation::new([1; 16]);
        let restored =
            Custodian::restore(Arc::new(of), incarnation, Some(MESH), journal.iter(), Trust::Whole, now).unwrap();
        restored.standing(session)
    }

    /// Shows: P-11
    #[test]
    fn new_key_is_in_charge_of_what_the_old_one_was_and_the_old_one_of_nothing() {
        let (old, new, peer) = (device(1), device(2), device(3));
        let (mine, own) = begun("aa", &old);
        let (theirs, mut away) = begun("bb", &old);
        given(&mut away, &old, peer.device());
        let mut all = journal(&[&own, &away]);
        all.extend(succeed(&all, &old, new.device(), &[7; 32]).unwrap());
        assert_eq!(standing(&all, device(2), mine), Some(Standing::InCharge));
        assert_ne!(standing(&all, device(1), mine), Some(Standing::InCharge));
        assert_eq!(standing(&all, device(2), theirs), Some(Standing::Elsewhere(peer.device())));
    }

    /// Shows: P-11
    #[test]
    fn peer_that_knows_the_chain_follows_it_to_the_new_key() {
        let (old, new) = (device(1), device(2));
        let (_, mut known) = begun("aa", &device(3));
        given(&mut known, &device(3), old.device());
        let mut all = journal(&[&known]);
        all.extend(succeed(&all, &old, new.device(), &[7; 32]).unwrap());
        let links: Vec<_> = all
            .iter()
            .filter_map(|record| if let Record::Custody(link) = record { Some(link.clone()) } else { None })
            .collect();
        known.merge(&links).unwrap();
        assert_eq!((known.owner(), known.token()), (new.device(), FencingToken { generation: 0, epoch: 2 }));
    }

    #[test]
    fn succession_that_is_repeated_adds_nothing() {
        let (old, new) = (device(1), device(2));
        let (_, own) = begun("aa", &old);
        let mut all = journal(&[&own]);
        all.extend(succeed(&all, &old, new.device(), &[7; 32]).unwrap());
        assert_eq!(succeed(&all, &old, new.device(), &[8; 32]), Ok(Vec::new()));
        assert_eq!(succeed(&all, &new, new.device(), &[8; 32]), Ok(Vec::new()));
    }
}
