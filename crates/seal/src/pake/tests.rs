use super::*;

/// Shows: S-8
#[test]
fn same_words_and_transcript_agree_on_the_digits() {
    let (host, guest) = run(b"amber otter", b"amber otter", &transcript(), &transcript());
    let digits = host.unwrap();
    assert_eq!(guest, Ok(digits));
    assert_eq!(digits.to_string().len(), 7);
}

/// Shows: S-8
#[test]
fn other_words_are_refused_by_the_host_before_it_proves_anything() {
    let (host, guest) = run(b"amber otter", b"amber ottes", &transcript(), &transcript());
    assert_eq!(host, Err(PakeError::Proof));
    assert_eq!(guest, Err(PakeError::Proof), "the guest never sees a proof that it accepts");
}

/// Shows: S-8, P-3
#[test]
fn every_field_of_the_transcript_is_bound() {
    let base = transcript();
    let others = [
        ("mesh", Transcript { mesh: MeshId::new([0; 32]), ..base.clone() }),
        ("host", Transcript { host: DeviceKey::new([0; 32]), ..base.clone() }),
        ("guest", Transcript { guest: DeviceKey::new([0; 32]), ..base.clone() }),
        ("keys swapped", Transcript { host: base.guest, guest: base.host, ..base.clone() }),
        ("host versions", Transcript { host_versions: (1, 1), ..base.clone() }),
        ("guest versions", Transcript { guest_versions: (0, 2), ..base.clone() }),
        ("host nonce", Transcript { host_nonce: [0; 32], ..base.clone() }),
        ("guest nonce", Transcript { guest_nonce: [0; 32], ..base.clone() }),
        ("exporter", Transcript { exporter: [0; 32], ..base.clone() }),
    ];
    for (field, other) in others {
        let (host, guest) = run(b"words", b"words", &base, &other);
        assert_eq!((host, guest), (Err(PakeError::Proof), Err(PakeError::Proof)), "{field}");
    }
}

/// Shows: S-8
#[test]
fn reflected_share_and_proof_are_refused() {
    let (host, share) = HostPake::start(b"words", [1; 32]);
    assert_eq!(host.check(&share, &[0; 32], &transcript()), Err(PakeError::Share));

    let (guest, share) = GuestPake::start(b"words", [2; 32]);
    assert_eq!(guest.prove(&share, &transcript()).map(|_| ()), Err(PakeError::Share));

    let (host, host_share) = HostPake::start(b"words", [1; 32]);
    let (guest, guest_share) = GuestPake::start(b"words", [2; 32]);
    let (proof, proved) = guest.prove(&host_share, &transcript()).unwrap();
    assert_eq!(proved.check(&proof), Err(PakeError::Proof), "the guest's own proof is not the host's");
    assert!(host.check(&guest_share, &proof, &transcript()).is_ok());
}

/// Shows: S-8
#[test]
fn host_against_host_fails() {
    let (_, other_share) = HostPake::start(b"words", [2; 32]);
    let (host, _) = HostPake::start(b"words", [1; 32]);
    assert_eq!(host.check(&other_share, &[0; 32], &transcript()), Err(PakeError::Proof));
}

/// Shows: S-8
#[test]
fn share_that_is_no_point_or_of_low_order_is_refused() {
    let mut identity = [0; 32];
    identity[0] = 1;
    let mut order_two = [0xff; 32];
    order_two[0] = 0xec;
    order_two[31] = 0x7f;
    let mut no_point = [0; 32];
    no_point[0] = 2;
    for bad in [identity, [0; 32], order_two, no_point] {
        let (guest, _) = GuestPake::start(b"words", [1; 32]);
        assert_eq!(guest.prove(&bad, &transcript()).map(|_| ()), Err(PakeError::Share), "{bad:?}");
        let (host, _) = HostPake::start(b"words", [1; 32]);
        assert_eq!(host.check(&bad, &[0; 32], &transcript()), Err(PakeError::Share));
    }
}

/// Shows: S-8
#[test]
fn shares_of_another_run_do_not_prove_in_this_one() {
    let (_, old_host_share) = HostPake::start(b"words", [1; 32]);
    let (guest, guest_share) = GuestPake::start(b"words", [2; 32]);
    let (old_proof, _) = guest.prove(&old_host_share, &transcript()).unwrap();
    let (host, _) = HostPake::start(b"words", [3; 32]);
    assert_eq!(host.check(&guest_share, &old_proof, &transcript()), Err(PakeError::Proof));
}

#[test]
fn share_hides_the_words_and_the_seed_is_the_only_randomness() {
    let share = |words: &[u8], seed| HostPake::start(words, [seed; 32]).1;
    assert_eq!(share(b"a", 1), share(b"a", 1));
    assert_ne!(share(b"a", 1), share(b"a", 2));
    assert_ne!(share(b"a", 1), share(b"b", 1));
}

#[test]
fn digits_keep_their_zeros() {
    assert_eq!(Comparison(42).to_string(), "000 042");
    assert_eq!(Comparison(999_999).to_string(), "999 999");
}

/// Shows: S-9
#[test]
fn debug_shows_no_secret() {
    let (host, share) = HostPake::start(b"words", [1; 32]);
    let (guest, _) = GuestPake::start(b"words", [2; 32]);
    assert_eq!(format!("{host:?} {guest:?}"), "HostPake(..) GuestPake(..)");
    let (_, proved) = guest.prove(&share, &transcript()).unwrap();
    assert_eq!(format!("{proved:?}"), "GuestProved(..)");
    let shown = format!("{:?}", transcript());
    assert_eq!(
        shown,
        "Transcript { mesh: MeshId(01010101), host: DeviceKey(02020202), guest: DeviceKey(03030303), .. }"
    );
}

type Outcome = Result<Comparison, PakeError>;

fn run(host_words: &[u8], guest_words: &[u8], at_host: &Transcript, at_guest: &Transcript) -> (Outcome, Outcome) {
    let (host, host_share) = HostPake::start(host_words, [1; 32]);
    let (guest, guest_share) = GuestPake::start(guest_words, [2; 32]);
    let (guest_proof, proved) = guest.prove(&host_share, at_guest).unwrap();
    let checked = host.check(&guest_share, &guest_proof, at_host);
    let host_proof = checked.as_ref().map(|(proof, _)| *proof).unwrap_or_default();
    (checked.map(|(_, digits)| digits), proved.check(&host_proof))
}

fn transcript() -> Transcript {
    Transcript {
        mesh: MeshId::new([1; 32]),
        host: DeviceKey::new([2; 32]),
        guest: DeviceKey::new([3; 32]),
        host_versions: (1, 2),
        guest_versions: (1, 2),
        host_nonce: [4; 32],
        guest_nonce: [5; 32],
        exporter: [6; 32],
    }
}
