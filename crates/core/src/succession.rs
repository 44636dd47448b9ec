//! One device, two keys: what the old key is in charge of it releases to the new one, and never acts again.

use std::collections::{BTreeMap, BTreeSet};

use cede_seal::device::LocalDevice;
use cede_seal::verify::verify;
use cede_wire::custody::{Custody, FencingToken, Head, Release};
use cede_wire::id::{DeviceId, HandoffId, Hash, MeshId, SessionId};
use cede_wire::record::Record;

use crate::chain::{Chain, ChainError};

/// The records that follow a journal when `new` takes the place of `old`: for every session that `old` is in charge of, its
/// release and the word that `new` acts under it. Durable together, before `old` is erased. `seed` is random.
///
/// What arrived and does not stand in its place yet goes on arriving, as the same attempt; what is missing stays missing.
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
    let mut all = BTreeMap::new();
    for record in journal {
        follow(&mut all, record)?;
    }
    let owned = all.values().filter(|held| held.chain.owner() == old.device() && old.device() != new);
    let released = owned.map(|held| released(held, old, new, seed)).collect::<Result<Vec<_>, _>>()?;
    Ok(released.into_iter().flatten().collect())
}

/// Sessions that `me` is in charge of and whose history is of another mesh than `mesh`, each with the place of the last record
/// of it: nobody in this mesh can follow that one, and so the session begins anew in it, as one that never moved.
///
/// Sessions that others are in charge of there stay as they are, and so does what is not in its place.
///
/// # Errors
/// [`ChainError`]; the journal contradicts itself.
///
/// Source: SPEC P-11
pub fn of_another_mesh(
    journal: &[Record],
    me: DeviceId,
    mesh: MeshId,
) -> Result<BTreeMap<SessionId, usize>, ChainError> {
    let (mut all, mut last, mut anew) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for (place, record) in journal.iter().enumerate() {
        if let Record::Custody(link) = record {
            let link = verify(link).map_err(|_| ChainError::Forged)?;
            if link.mesh() == mesh {
                anew.insert(link.session());
                continue;
            }
            last.insert(link.session(), place);
        } else if let Record::Active { session, .. } | Record::Installed { session, .. } = record
            && anew.contains(session)
        {
            // It is of what happened since in this one.
            continue;
        }
        follow(&mut all, record)?;
    }
    last.retain(|session, _| all.get(session).is_some_and(|held| held.chain.owner() == me && held.stands()));
    Ok(last)
}

/// What a journal says of one session.
struct Held {
    chain: Chain,
    /// What parts from the chain and has no seize yet.
    side: Option<Chain>,
    active: Option<(HandoffId, FencingToken)>,
    installed: BTreeSet<HandoffId>,
}

impl Held {
    fn new(chain: Chain) -> Self {
        Self { chain, side: None, active: None, installed: BTreeSet::new() }
    }

    /// Whether the owner has it in its place.
    fn stands(&self) -> bool {
        match self.chain.last() {
            Custody::Genesis(_) => true,
            Custody::Release(_) => self.arrived().is_some_and(|handoff| self.installed.contains(&handoff)),
            Custody::Seize(_) => self.arrived().is_none_or(|handoff| self.installed.contains(&handoff)),
        }
    }

    /// The attempt that made this device act under the newest token.
    fn arrived(&self) -> Option<HandoffId> {
        self.active.filter(|(_, token)| *token == self.chain.token()).map(|(handoff, _)| handoff)
    }
}

fn follow(all: &mut BTreeMap<SessionId, Held>, record: &Record) -> Result<(), ChainError> {
    if let Record::Custody(link) = record {
        let custody = verify(link).map_err(|_| ChainError::Forged)?;
        let session = custody.session();
        match all.get_mut(&session).filter(|held| !held.chain.ends_with(&custody)) {
            Some(held) => held.chain.replay(link, &mut held.side)?,
            None => drop(all.insert(session, Held::new(Chain::begin(link)?))),
        }
    } else if let Record::Active { session, handoff, token } = record
        && let Some(held) = all.get_mut(session)
    {
        held.active = Some((*handoff, *token));
    } else if let Record::Installed { session, handoff } = record
        && let Some(held) = all.get_mut(session)
    {
        held.installed.insert(*handoff);
    }
    Ok(())
}

fn released(held: &Held, old: &LocalDevice, new: DeviceId, seed: &[u8; 32]) -> Result<Vec<Record>, ChainError> {
    let chain = &held.chain;
    let session = chain.session();
    let arrived = held.arrived();
    let unplaced = arrived.filter(|handoff| !held.installed.contains(handoff));
    let handoff = unplaced.unwrap_or_else(|| handoff(seed, session));
    let (head, root) = in_hand(chain);
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
        members: chain.members(),
    };
    let signed = old.sign(&Custody::Release(release)).map_err(|_| ChainError::NotOwner)?;
    let missing = arrived.is_none() && matches!(chain.last(), Custody::Release(_));
    let active = (!missing).then_some(Record::Active { session, handoff, token: next_token });
    let installed = (!missing && unplaced.is_none()).then_some(Record::Installed { session, handoff });
    Ok([Some(Record::Custody(signed)), active, installed].into_iter().flatten().collect())
}

/// What the last record says that the owner has. Nothing travels, so nothing newer is claimed.
fn in_hand(chain: &Chain) -> (Head, Hash) {
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

    use cede_wire::custody::Genesis;
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
        begun_in(MESH, native, by)
    }

    fn begun_in(mesh: MeshId, native: &str, by: &LocalDevice) -> (SessionId, Chain) {
        let key = SessionKey { agent: AgentKind::Files, native: NativeId::parse(native).unwrap() };
        let genesis =
            Genesis { mesh, key: key.clone(), owner: by.device(), incarnation: Incarnation::new([1; 16]), members: 0 };
        (key.id(), Chain::begin(&by.sign(&Custody::Genesis(genesis)).unwrap()).unwrap())
    }

    fn given(chain: &mut Chain, from: &LocalDevice, to: DeviceId) {
        let records = released(&Held::new(chain.clone()), from, to, &[3; 32]).unwrap();
        let Record::Custody(link) = &records[0] else { panic!("no release") };
        chain.extend(link).unwrap();
    }

    fn journal(chains: &[&Chain]) -> Vec<Record> {
        chains.iter().flat_map(|chain| chain.links()).cloned().map(Record::Custody).collect()
    }

    fn standing(journal: &[Record], of: LocalDevice, session: SessionId) -> Option<Standing> {
        standing_in(MESH, journal, of, session)
    }

    fn standing_in(mesh: MeshId, journal: &[Record], of: LocalDevice, session: SessionId) -> Option<Standing> {
        let now = Now { monotonic: core::time::Duration::ZERO, unix_ms: 0 };
        let incarnation = Incarnation::new([1; 16]);
        let restored =
            Custodian::restore(Arc::new(of), incarnation, Some(mesh), journal.iter(), Trust::Whole, now).unwrap();
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

    /// What was written before a crash may hold both histories.
    ///
    /// Shows: P-11
    #[test]
    fn session_in_charge_here_begins_anew_in_another_mesh() {
        const OTHER: MeshId = MeshId::new([8; 32]);
        let (old, new, peer) = (device(1), device(2), device(3));
        let (mine, own) = begun("aa", &old);
        let (theirs, mut away) = begun("bb", &old);
        given(&mut away, &old, peer.device());
        let mut all = journal(&[&own, &away]);
        all.extend(succeed(&all, &old, new.device(), &[7; 32]).unwrap());
        let last = all.iter().rposition(|record| matches!(record, Record::Custody(_))).unwrap();
        let anew = BTreeMap::from([(mine, last)]);
        assert_eq!(of_another_mesh(&all, new.device(), OTHER), Ok(anew.clone()));
        assert_eq!(of_another_mesh(&all, new.device(), MESH), Ok(BTreeMap::new()));
        assert_eq!(of_another_mesh(&all, peer.device(), OTHER), Ok(BTreeMap::new()), "it is not in its place");

        let (_, mut since) = begun_in(OTHER, "aa", &new);
        given(&mut since, &new, peer.device());
        given(&mut since, &peer, new.device());
        let Custody::Release(release) = since.last().clone() else { panic!("no release") };
        let (handoff, token) = (release.handoff, release.next_token);
        all.extend(journal(&[&since]));
        let session = mine;
        all.extend([Record::Active { session, handoff, token }, Record::Installed { session, handoff }]);
        assert_eq!(of_another_mesh(&all, new.device(), OTHER), Ok(anew));
        assert_eq!(standing_in(OTHER, &all, device(2), mine), Some(Standing::InCharge));
        assert!(matches!(standing_in(OTHER, &all, device(2), theirs), Some(Standing::Elsewhere(_))));
        let more = succeed(&all, &new, device(4).device(), &[6; 32]).unwrap();
        assert_eq!(more.len(), 3, "left once more, it goes along as it is now");
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
        known = known.merged(&links).unwrap();
        assert_eq!((known.owner(), known.token()), (new.device(), FencingToken { generation: 0, epoch: 2 }));
    }

    /// Shows: P-11
    #[test]
    fn session_that_has_not_arrived_yet_is_not_said_to_stand_in_its_place() {
        let (old, new) = (device(1), device(2));
        let (session, mut chain) = begun("aa", &device(3));
        given(&mut chain, &device(3), old.device());
        let Custody::Release(release) = chain.last().clone() else { panic!("no release") };
        let (handoff, token) = (release.handoff, release.next_token);
        let arrival = [Record::Active { session, handoff, token }, Record::Installed { session, handoff }];
        let became = [Standing::PayloadMissing, Standing::Arriving, Standing::InCharge];
        for (known, became) in became.into_iter().enumerate() {
            let mut all = journal(&[&chain]);
            all.extend_from_slice(&arrival[..known]);
            all.extend(succeed(&all, &old, new.device(), &[7; 32]).unwrap());
            assert_eq!(standing(&all, device(2), session), Some(became), "{known} words of it");
            let same = all.iter().filter(|record| matches!(record, Record::Active { handoff: h, .. } if *h == handoff));
            assert_eq!(same.count(), [0, 2, 1][known], "the plan of an arrival is found by its attempt");
        }
    }

    /// Shows: P-11
    #[test]
    fn session_that_was_seized_goes_to_the_new_key_with_the_turns_of_the_seize() {
        let (old, new) = (device(1), device(2));
        let (session, mut chain) = begun("aa", &device(3));
        let head = Head { turn: 4, length: 40, hash: Hash::of(b"turns") };
        let seize = cede_wire::custody::Seize {
            mesh: MESH,
            session,
            prev: chain.head(),
            to: old.device(),
            token: chain.token(),
            next_token: FencingToken { generation: 1, epoch: 0 },
            head,
            members: 0,
            votes: Vec::new(),
        };
        chain.extend(&old.sign(&Custody::Seize(seize)).unwrap()).unwrap();
        let mut all = journal(&[&chain]);
        all.extend(succeed(&all, &old, new.device(), &[7; 32]).unwrap());
        assert_eq!(standing(&all, device(2), session), Some(Standing::InCharge));
        let released = all.iter().find_map(|record| {
            let Record::Custody(link) = record else { return None };
            let Custody::Release(release) = (*verify(link).unwrap()).clone() else { return None };
            Some(release)
        });
        assert_eq!(released.map(|release| release.head), Some(head));
    }

    #[test]
    fn records_of_sessions_that_are_not_known_and_of_other_things_release_nothing() {
        let (old, new) = (device(1), device(2));
        let (session, own) = begun("aa", &old);
        let (unknown, handoff) = (SessionId::new([6; 16]), HandoffId::new([6; 16]));
        let mut all = vec![
            Record::Active { session: unknown, handoff, token: FencingToken::FIRST },
            Record::Installed { session: unknown, handoff },
            Record::PeerDropped { device: new.device() },
        ];
        assert_eq!(succeed(&all, &old, new.device(), &[7; 32]), Ok(Vec::new()));
        all.extend(journal(&[&own]));
        all.extend(succeed(&all, &old, new.device(), &[7; 32]).unwrap());
        assert_eq!(standing(&all, device(2), session), Some(Standing::InCharge));
        assert_eq!(standing(&all, device(2), unknown), None);
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
