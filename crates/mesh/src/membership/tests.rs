use super::*;

/// Shows: P-5
#[test]
fn mesh_is_the_hash_of_its_first_entry() {
    let admin = device(1);
    let log = MembershipLog::genesis(&admin, "first", [7; 16]).unwrap();
    assert_eq!(log.mesh().as_bytes(), log.entries()[0].hash().as_bytes());
    assert_eq!(log.administrator(), admin.device());
    assert_eq!(log.member(&admin.device()).unwrap().capabilities, CAPABILITIES);
    let other = MembershipLog::genesis(&admin, "first", [8; 16]).unwrap();
    assert_ne!(log.mesh(), other.mesh(), "two meshes of one device differ");
}

#[test]
fn log_is_read_back_whole_or_from_where_a_device_stands() {
    let (admin, mut log) = three();
    let mut behind = MembershipLog::from_entries(&log.entries()[..1]).unwrap();
    assert_eq!(MembershipLog::from_entries(log.entries()), Ok(log.clone()));
    assert_eq!(behind.extend(log.entries_after(behind.length())), Ok(2));
    assert_eq!(behind, log);
    assert_eq!(behind.extend(log.entries()), Ok(0), "what is known is taken again without change");
    log.remove(&admin, device(2).device()).unwrap();
    assert_eq!(behind.extend(log.entries()), Ok(1));
    assert!(!behind.is_member(&device(2).device()));
    assert!(log.entries_after(99).is_empty());
    assert!(log.entries_after(u64::MAX).is_empty());
}

#[test]
fn history_says_who_belonged_after_each_entry() {
    let (admin, mut log) = three();
    log.remove(&admin, device(2).device()).unwrap();
    let seeds = [&[1][..], &[1, 2], &[1, 2, 3], &[1, 3]];
    let expected = seeds.map(|seeds| seeds.iter().map(|seed| device(*seed).device()).collect());
    assert_eq!(log.history(), expected);
}

/// Shows: P-7
#[test]
fn removed_device_never_comes_back() {
    let (admin, mut log) = three();
    let gone = device(2);
    log.remove(&admin, gone.device()).unwrap();
    assert!(log.was_removed(&gone.device()));
    let error = LogError::Removed(gone.device());
    assert_eq!(log.add(&admin, member(&gone, "again")), Err(error.clone()));
    let forced = entry(&admin, &log, MemberChange::Add(member(&gone, "again")));
    assert_eq!(log.extend(&[forced]), Err(error), "not even when the administrator signs it");
    assert_eq!(log.remove(&admin, gone.device()), Err(LogError::NotMember(gone.device())));
}

/// Shows: P-5
#[test]
fn entry_of_anybody_else_is_refused() {
    let (_, mut log) = three();
    let (peer, stranger) = (device(2), device(9));
    for by in [&peer, &stranger] {
        assert_eq!(log.add(by, member(&stranger, "x")), Err(LogError::Unauthorized(log.administrator())));
        let forged = entry(by, &log, MemberChange::Add(member(&stranger, "x")));
        assert_eq!(log.extend(&[forged]), Err(LogError::NotAdministrator { index: 3, by: by.device() }));
    }
}

/// Shows: P-5
#[test]
fn forged_entry_is_refused() {
    let (admin, mut log) = three();
    let good = entry(&admin, &log, MemberChange::Add(member(&device(9), "x")));
    let mut bytes = good.bytes().to_vec();
    bytes[0] ^= 1;
    let changed = Signed::from_parts(bytes, *good.key(), *good.signature());
    let error = VerifyError::Signature;
    assert_eq!(log.extend(&[changed]), Err(LogError::Forged { index: 3, error: error.clone() }));
    let other_key = Signed::from_parts(good.bytes().to_vec(), device(9).key(), *good.signature());
    assert_eq!(log.extend(&[other_key]), Err(LogError::Forged { index: 3, error }));
}

/// Shows: P-5
#[test]
fn entries_out_of_order_or_with_a_gap_are_refused() {
    let (_, log) = three();
    let [first, second, third] = log.entries() else { panic!("three entries") };
    let read = |entries: &[&Signed<MemberEntry>]| {
        MembershipLog::from_entries(&entries.iter().map(|entry| (*entry).clone()).collect::<Vec<_>>()).map(|_| ())
    };
    assert_eq!(read(&[]), Err(LogError::Empty));
    assert_eq!(read(&[second, third]), Err(LogError::Genesis { index: 1 }));
    assert_eq!(read(&[first, third]), Err(LogError::OutOfOrder { expected: 1, found: 2 }));
    assert_eq!(read(&[first, third, second]), Err(LogError::OutOfOrder { expected: 1, found: 2 }));
}

/// Shows: P-5
#[test]
fn fork_is_named() {
    let (admin, log) = three();
    let mut ours = log.clone();
    let mut theirs = log.clone();
    ours.add(&admin, member(&device(8), "eight")).unwrap();
    theirs.add(&admin, member(&device(9), "nine")).unwrap();
    let heads = (ours.entries()[3].hash(), theirs.entries()[3].hash());
    let fork = Err(LogError::Fork { index: 3, ours: heads.0, theirs: heads.1 });
    let before = ours.clone();
    assert_eq!(ours.extend(theirs.entries()), fork, "as a whole log");
    theirs.add(&admin, member(&device(10), "ten")).unwrap();
    assert_eq!(ours.extend(theirs.entries_after(4)), fork, "as what follows the fork");
    assert_eq!(ours, before);
}

/// Shows: P-5
#[test]
fn foreign_mesh_is_refused() {
    let (_, mut log) = three();
    let other = MembershipLog::genesis(&device(9), "other", [0; 16]).unwrap();
    assert_eq!(log.extend(other.entries()), Err(LogError::ForeignMesh { theirs: other.mesh() }));
}

/// Shows: P-5
#[test]
fn beginning_must_be_signed_by_its_own_device_and_stand_first() {
    let (admin, mut log) = three();
    let change = |first: &LocalDevice| MemberChange::Genesis { first: member(first, "x"), nonce: [0; 16] };
    let for_another = MemberEntry { index: 0, prev: None, by: admin.device(), change: change(&device(2)) };
    let signed = admin.sign(&for_another).unwrap();
    let error = LogError::NotAdministrator { index: 0, by: admin.device() };
    assert_eq!(MembershipLog::from_entries(&[signed]), Err(error));
    let late = entry(&admin, &log, change(&admin));
    assert_eq!(log.extend(&[late]), Err(LogError::Genesis { index: 3 }));
    let unlinked =
        MemberEntry { index: 3, prev: None, by: admin.device(), change: MemberChange::Remove(device(2).device()) };
    assert_eq!(log.extend(&[admin.sign(&unlinked).unwrap()]), Err(LogError::Genesis { index: 3 }));
    for (index, prev) in [(1, None), (0, Some(Hash::of(b"before")))] {
        let displaced = MemberEntry { index, prev, by: admin.device(), change: change(&admin) };
        let read = MembershipLog::from_entries(&[admin.sign(&displaced).unwrap()]);
        assert_eq!(read, Err(LogError::Genesis { index }));
    }
}

/// Shows: P-5
#[test]
fn one_bad_entry_takes_the_good_ones_before_it_along() {
    let (admin, mut log) = three();
    let before = log.clone();
    let good = entry(&admin, &log, MemberChange::Remove(device(2).device()));
    let bad = Signed::from_parts(vec![1], admin.key(), [0; 64]);
    assert!(matches!(log.extend(&[good, bad]), Err(LogError::Forged { index: 4, .. })));
    assert_eq!(log, before);
}

#[test]
fn names_stay_plain_and_apart() {
    let (admin, mut log) = three();
    let added = log.add(&admin, member(&device(9), "two")).unwrap();
    assert_eq!(log.member(&device(9).device()).unwrap().name, "two-2");
    assert_eq!(log.member_named("two").unwrap().device(), device(2).device());
    assert_eq!(log.entries().last(), Some(&added));
    for bad in ["two", "Two", "a\u{1b}[2J", "", "-x"] {
        let forced = entry(&admin, &log, MemberChange::Add(member(&device(10), bad)));
        assert!(matches!(log.extend(&[forced]), Err(LogError::Name(shown)) if !shown.contains('\u{1b}')), "{bad:?}");
    }
}

#[test]
fn capabilities_out_of_order_are_refused() {
    let (admin, mut log) = three();
    for capabilities in [vec![Capability::Drive, Capability::File], vec![Capability::File, Capability::File]] {
        let member = Member { capabilities, ..member(&device(9), "x") };
        assert_eq!(log.add(&admin, member), Err(LogError::Capabilities));
    }
}

#[test]
fn member_is_not_added_twice_and_the_administrator_stays() {
    let (admin, mut log) = three();
    let known = device(2);
    assert_eq!(log.add(&admin, member(&known, "y")), Err(LogError::AlreadyMember(known.device())));
    assert_eq!(log.remove(&admin, admin.device()), Err(LogError::AdministratorStays));
    assert_eq!(log.remove(&admin, device(9).device()), Err(LogError::NotMember(device(9).device())));
}

#[test]
fn log_has_an_end_and_fits_one_frame_until_then() {
    let admin = device(1);
    let mut log = MembershipLog::genesis(&admin, "admin", [0; 16]).unwrap();
    // The roll is what grows slowly; the bound is on entries, so half of them remove what the others add.
    let mut entries = log.entries().to_vec();
    let longest = "n".repeat(cede_wire::limits::DEVICE_NAME_CHARS);
    for number in 1..LOG_ENTRIES as u64 {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&(number.div_ceil(2)).to_le_bytes());
        let peer = LocalDevice::from_secret(&secret);
        let change = match number % 2 {
            1 => MemberChange::Add(Member { name: longest.clone(), ..member(&peer, "") }),
            _ => MemberChange::Remove(peer.device()),
        };
        let prev = entries.last().map(Signed::hash);
        entries.push(admin.sign(&MemberEntry { index: number, prev, by: admin.device(), change }).unwrap());
    }
    assert_eq!(log.extend(&entries[1..]), Ok(LOG_ENTRIES - 1));
    assert_eq!(log.add(&admin, member(&device(99), "late")), Err(LogError::Full));
    let welcome = cede_wire::pairing::PairMessage::Welcome(entries);
    assert!(welcome.to_frame().is_ok());
}

fn device(seed: u8) -> LocalDevice {
    LocalDevice::from_secret(&[seed; 32])
}

fn member(device: &LocalDevice, name: &str) -> Member {
    Member { key: device.key(), name: name.to_owned(), capabilities: CAPABILITIES.to_vec() }
}

fn three() -> (LocalDevice, MembershipLog) {
    let admin = device(1);
    let mut log = MembershipLog::genesis(&admin, "one", [0; 16]).unwrap();
    log.add(&admin, member(&device(2), "two")).unwrap();
    log.add(&admin, member(&device(3), "three")).unwrap();
    (admin, log)
}

fn entry(by: &LocalDevice, log: &MembershipLog, change: MemberChange) -> Signed<MemberEntry> {
    let prev = log.entries().last().map(Signed::hash);
    by.sign(&MemberEntry { index: log.length(), prev, by: by.device(), change }).unwrap()
}

#[test]
fn device_that_was_removed_has_the_name_that_it_had() {
    let (own, other) = (device(1), device(2));
    let mut log = MembershipLog::genesis(&own, "laptop", [0; 16]).unwrap();
    let member = Member { key: other.key(), name: "server".to_owned(), capabilities: Vec::new() };
    log.add(&own, member).unwrap();
    log.remove(&own, other.device()).unwrap();
    assert!(!log.is_member(&other.device()));
    assert_eq!(log.name_of(&other.device()), Some("server"));
    assert_eq!(log.name_of(&own.device()), Some("laptop"));
    assert_eq!(log.name_of(&DeviceId::new([9; 32])), None);
}
