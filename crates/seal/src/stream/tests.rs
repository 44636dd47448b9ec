use cede_wire::custody::FencingToken;
use cede_wire::id::{DeviceId, HandoffId, MeshId, SessionId};
use proptest::prelude::*;

use super::*;
use crate::exchange::{ExchangeSecret, HandoffContext, HandoffKeys};
use crate::limits::SEGMENTS;

/// Shows: S-5
#[test]
fn every_length_around_a_segment_comes_back() {
    for length in [0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 2 * SEGMENT_BYTES, 2 * SEGMENT_BYTES + 9]
    {
        let plain = plaintext(length);
        let sealed = seal(7, 1, &plain);
        let segments = length.div_ceil(SEGMENT_BYTES).max(1);
        assert_eq!(sealed.len(), HEADER_BYTES + length + segments * TAG_BYTES);
        assert_eq!(open(7, &sealed), Ok(plain));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 48 }))]

    /// Shows: S-5
    #[test]
    fn any_split_gives_the_same_stream(
        length in 0..3 * SEGMENT_BYTES,
        cuts in proptest::collection::vec(1..90_000usize, 1..12),
        reads in proptest::collection::vec(1..90_000usize, 1..12),
    ) {
        let plain = plaintext(length);
        let mut sealer = Sealer::new(keys(7).stream(1));
        let mut sealed = sealer.header().to_vec();
        for piece in pieces(&plain, &cuts) {
            sealer.push(piece, &mut sealed).unwrap();
        }
        sealer.finish(&mut sealed).unwrap();
        prop_assert_eq!(&sealed, &seal(7, 1, &plain));

        let (header, body) = sealed.split_first_chunk().unwrap();
        let mut opener = Opener::new(&keys(7), header).unwrap();
        let mut opened = Vec::new();
        for piece in pieces(body, &reads) {
            opener.push(piece, &mut opened).unwrap();
            prop_assert!(opener.pending.len() <= SEALED_SEGMENT_BYTES);
        }
        opener.finish(&mut opened).unwrap();
        prop_assert_eq!(opened, plain);
    }
}

/// Shows: S-6
#[test]
fn every_bit_of_a_small_stream_is_covered() {
    let sealed = seal(7, 1, b"one small chunk");
    for bit in (0..sealed.len() * 8).step_by(if cfg!(miri) { 41 } else { 1 }) {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open(7, &changed).is_err(), "bit {bit}");
    }
}

/// Shows: S-6
#[test]
fn flipped_bit_in_a_middle_segment_gives_nothing_of_it() {
    let mut sealed = seal(7, 1, &plaintext(3 * SEGMENT_BYTES));
    sealed[HEADER_BYTES + SEALED_SEGMENT_BYTES + 100] ^= 1;
    let (header, body) = sealed.split_first_chunk().unwrap();
    let mut opener = Opener::new(&keys(7), header).unwrap();
    let mut opened = Vec::new();
    assert_eq!(opener.push(body, &mut opened), Err(OpenError::Forged));
    assert_eq!(opened, plaintext(3 * SEGMENT_BYTES)[..SEGMENT_BYTES], "the segment before it stands");
    assert_eq!(opener.push(&[0], &mut opened), Err(OpenError::Dead));
    assert_eq!(opener.finish(&mut opened), Err(OpenError::Dead));
}

/// Shows: S-6
#[test]
fn stream_without_its_end_is_truncated() {
    let sealed = seal(7, 1, &plaintext(3 * SEGMENT_BYTES + 5));
    let at = |segments: usize| HEADER_BYTES + segments * SEALED_SEGMENT_BYTES;
    for end in [at(0), at(0) + 1, at(0) + TAG_BYTES, at(1), at(2), at(3), at(3) + 1, sealed.len() - 1] {
        assert_eq!(open(7, &sealed[..end]), Err(OpenError::Truncated), "{end}");
    }
}

/// Shows: S-6
#[test]
fn byte_after_the_end_is_refused() {
    let mut sealed = seal(7, 1, &plaintext(SEGMENT_BYTES + 1));
    sealed.push(0);
    assert_eq!(open(7, &sealed), Err(OpenError::Truncated));
    let mut full = seal(7, 1, &plaintext(SEGMENT_BYTES));
    full.push(0);
    assert_eq!(open(7, &full), Err(OpenError::Forged));
}

/// Shows: S-6
#[test]
fn segments_out_of_their_place_are_forged() {
    let plain = plaintext(4 * SEGMENT_BYTES);
    let arrange = |order: &[usize]| {
        let sealed = seal(7, 1, &plain);
        let mut made = sealed[..HEADER_BYTES].to_vec();
        let segments: Vec<_> = sealed[HEADER_BYTES..].chunks(SEALED_SEGMENT_BYTES).collect();
        order.iter().for_each(|at| made.extend_from_slice(segments[*at]));
        open(7, &made)
    };
    assert!(arrange(&[0, 1, 2, 3]).is_ok());
    for (what, order) in [
        ("reordered", &[0, 2, 1, 3][..]),
        ("dropped", &[0, 2, 3]),
        ("first dropped", &[1, 2, 3]),
        ("repeated", &[0, 1, 1, 2, 3]),
        ("last in the middle", &[0, 3, 1, 2]),
        ("last only", &[3]),
    ] {
        assert_eq!(arrange(order), Err(OpenError::Forged), "{what}");
    }
}

/// Shows: S-4, S-6
#[test]
fn segment_of_another_stream_or_handoff_is_forged() {
    let plain = plaintext(3 * SEGMENT_BYTES);
    for other in [seal(7, 2, &plain), seal(8, 1, &plain)] {
        let mut spliced = seal(7, 1, &plain);
        let middle = HEADER_BYTES + SEALED_SEGMENT_BYTES..HEADER_BYTES + 2 * SEALED_SEGMENT_BYTES;
        spliced[middle.clone()].copy_from_slice(&other[middle]);
        assert_eq!(open(7, &spliced), Err(OpenError::Forged));
    }
}

/// Shows: S-4, S-6
#[test]
fn header_of_another_handoff_number_version_or_kind_is_refused() {
    let sealed = seal(7, 1, b"x");
    let with = |at: usize, byte: u8| {
        let mut changed = sealed.clone();
        changed[at] = byte;
        open(7, &changed).unwrap_err()
    };
    assert_eq!(open(8, &sealed), Err(OpenError::WrongHandoff));
    assert_eq!(with(22, 2), OpenError::Forged, "another stream number has another commitment");
    assert_eq!(with(26, !sealed[26]), OpenError::Forged, "another commitment");
    assert_eq!(with(0, b'x'), OpenError::NotASeal);
    assert_eq!(with(4, 9), OpenError::Version { version: 9, suite: 1 });
    assert_eq!(with(5, 9), OpenError::Version { version: 1, suite: 9 });
}

/// A stream that came before is known by its number, and no key is printed.
///
/// Shows: S-6
#[test]
fn stream_says_its_number_and_no_secret() {
    let sealed = seal(7, 259, b"x");
    let opener = Opener::new(&keys(7), sealed.first_chunk().unwrap()).unwrap();
    assert_eq!((opener.number(), stream_handoff(sealed.first_chunk().unwrap())), (259, Ok(context(7).handoff)));
    assert_eq!(format!("{opener:?}"), "Opener { number: 259, position: 0, .. }");
    assert_eq!(format!("{:?}", Sealer::new(keys(7).stream(259))), "Sealer { position: 0, .. }");
}

/// Shows: S-6
#[test]
fn same_handoff_under_other_keys_is_forged() {
    let mut context = context(7);
    context.token = FencingToken { generation: 1, epoch: 0 };
    let (source, destination) = (ExchangeSecret::from_random([1; 32]), ExchangeSecret::from_random([2; 32]));
    let other = HandoffKeys::derive(&source, &destination.public(), &context).unwrap();
    let sealed = seal(7, 1, b"x");
    let header = sealed.first_chunk().unwrap();
    assert_eq!(Opener::new(&other, header).map(|opener| opener.number()), Err(OpenError::Forged));
}

/// Shows: S-5
#[test]
fn counter_does_not_wrap() {
    let mut sealer = Sealer::new(keys(7).stream(1));
    sealer.position = SEGMENTS - 1;
    let mut sealed = Vec::new();
    sealer.push(&plaintext(SEGMENT_BYTES + 1), &mut sealed).unwrap();
    let length = sealed.len();
    assert_eq!(sealer.push(&plaintext(SEGMENT_BYTES), &mut sealed), Err(SealError::Exhausted));
    assert_eq!(sealed.len(), length);

    let header = *Sealer::new(keys(7).stream(1)).header();
    let mut opener = Opener::new(&keys(7), &header).unwrap();
    opener.position = SEGMENTS;
    let more = vec![0; SEALED_SEGMENT_BYTES + 1];
    assert_eq!(opener.push(&more, &mut Vec::new()), Err(OpenError::Exhausted));
}

/// Shows: S-5
#[test]
fn last_segment_still_fits_a_full_counter() {
    let mut sealer = Sealer::new(keys(7).stream(1));
    sealer.position = SEGMENTS;
    let mut opener = Opener::new(&keys(7), sealer.header()).unwrap();
    opener.position = SEGMENTS;
    let (mut sealed, mut opened) = (Vec::new(), Vec::new());
    sealer.finish(&mut sealed).unwrap();
    opener.push(&sealed, &mut opened).unwrap();
    assert_eq!(opener.finish(&mut opened), Ok(()));
}

/// Shows: S-4
#[test]
fn each_stream_has_keys_of_its_own() {
    let (one, two) = (keys(7).stream(1), keys(7).stream(2));
    assert_ne!(one.key, two.key);
    assert_ne!(one.prefix, two.prefix);
    assert_ne!(one.commitment, two.commitment);
    assert_ne!(one.key.as_slice(), one.commitment);
}

fn plaintext(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 251) as u8 ^ at as u8).collect()
}

fn context(handoff: u8) -> HandoffContext {
    HandoffContext {
        mesh: MeshId::new([1; 32]),
        session: SessionId::new([2; 16]),
        handoff: HandoffId::new([handoff; 16]),
        source: DeviceId::new([3; 32]),
        destination: DeviceId::new([4; 32]),
        token: FencingToken::FIRST,
        source_exchange_key: ExchangeSecret::from_random([1; 32]).public(),
        destination_exchange_key: ExchangeSecret::from_random([2; 32]).public(),
    }
}

fn keys(handoff: u8) -> HandoffKeys {
    let (source, destination) = (ExchangeSecret::from_random([1; 32]), ExchangeSecret::from_random([2; 32]));
    HandoffKeys::derive(&source, &destination.public(), &context(handoff)).unwrap()
}

fn seal(handoff: u8, number: u32, plain: &[u8]) -> Vec<u8> {
    let mut sealer = Sealer::new(keys(handoff).stream(number));
    let mut sealed = sealer.header().to_vec();
    sealer.push(plain, &mut sealed).unwrap();
    sealer.finish(&mut sealed).unwrap();
    sealed
}

fn open(handoff: u8, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let (header, body) = sealed.split_first_chunk().ok_or(OpenError::Truncated)?;
    let mut opener = Opener::new(&keys(handoff), header)?;
    let mut opened = Vec::new();
    opener.push(body, &mut opened)?;
    opener.finish(&mut opened)?;
    Ok(opened)
}

fn pieces<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((*size).min(bytes.len()));
        found.push(piece);
        bytes = rest;
    }
    found
}

#[test]
fn cipher_is_that_of_rfc_8439() {
    use aead::{AeadInOut, KeyInit};
    let key: [u8; 32] = core::array::from_fn(|at| 0x80 + at as u8);
    let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
    let associated = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
    let mut text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it."
        .to_vec();
    ChaCha20Poly1305::new(&key.into()).encrypt_in_place(&nonce.into(), &associated, &mut text).unwrap();
    assert_eq!(text[..8], [0xd3, 0x1a, 0x8d, 0x34, 0x64, 0x8e, 0x60, 0xdb]);
    let tag = [0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a, 0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60, 0x06, 0x91];
    assert_eq!(text[114..], tag);
}
