//! A kit of hostile payloads: what somebody in the middle, or a paired device that lies, may make of a sealed payload.
//! Each is refused, by the word that fits, and no chunk of it is delivered; the genuine ones come through.
//!
//! The payload is one chunk over four segments, so that a single segment that is not as it was sealed leaves nothing to
//! deliver.

use std::collections::{BTreeMap, BTreeSet};

use cede_seal::chunk::{ChunkError, ChunkFrame, ChunkReader};
use cede_seal::device::LocalDevice;
use cede_seal::exchange::{ExchangeError, ExchangeSecret, HandoffContext, HandoffKeys};
use cede_seal::limits::{SEGMENT_BYTES, SIGNED_BYTES};
use cede_seal::stream::{HEADER_BYTES, OpenError, Opener, SEALED_SEGMENT_BYTES, Sealer};
use cede_seal::verify::{VerifyError, verify};
use cede_tests::devices::trees::Numbers;
use cede_wire::canonical::{Signable, Signed, decode, encode};
use cede_wire::catalog::{Catalog, ChunkRef};
use cede_wire::custody::{Custody, FencingToken, Genesis, Head};
use cede_wire::handoff::{Accept, Activated, CommitAck, Manifest};
use cede_wire::id::{ChunkId, DeviceKey, HandoffId, Hash, Incarnation, MeshId, SessionId};
use cede_wire::limits::CHUNK_MAX_BYTES;
use cede_wire::session::{AgentKind, NativeId, SessionKey};

/// Why a payload was not taken.
#[derive(Debug, Clone, PartialEq)]
enum Refused {
    Open(OpenError),
    Chunk(ChunkError),
    NumberTwice,
    Exchange(ExchangeError),
    Signature(VerifyError),
    Undecodable,
    Root,
}

/// The destination, as the daemon composes it: openers by number, one reader of chunks for each stream.
struct Receiver {
    keys: HandoffKeys,
    numbers: BTreeSet<u32>,
    delivered: Vec<(ChunkId, Vec<u8>)>,
}

impl Receiver {
    fn new(context: &HandoffContext) -> Self {
        let keys = HandoffKeys::derive(&secret(2), &secret(1).public(), context).unwrap();
        Self { keys, numbers: BTreeSet::new(), delivered: Vec::new() }
    }

    fn take(&mut self, sealed: &[u8], piece: usize) -> Result<(), Refused> {
        let (header, segments) =
            sealed.split_first_chunk::<HEADER_BYTES>().ok_or(Refused::Open(OpenError::Truncated))?;
        let mut opener = Opener::new(&self.keys, header).map_err(Refused::Open)?;
        if !self.numbers.insert(opener.number()) {
            return Err(Refused::NumberTwice);
        }
        let (mut reader, mut out) = (ChunkReader::default(), Vec::new());
        for piece in segments.chunks(piece) {
            let opened = opener.push(piece, &mut out);
            self.read(&mut reader, &mut out)?;
            opened.map_err(Refused::Open)?;
        }
        opener.finish(&mut out).map_err(Refused::Open)?;
        self.read(&mut reader, &mut out)?;
        reader.finish().map_err(Refused::Chunk)
    }

    fn read(&mut self, reader: &mut ChunkReader, out: &mut Vec<u8>) -> Result<(), Refused> {
        let read = reader.push(out, |id, bytes| self.delivered.push((id, bytes)));
        out.clear();
        read.map_err(Refused::Chunk)
    }
}

fn secret(which: u8) -> ExchangeSecret {
    ExchangeSecret::from_random([which; 32])
}

fn device(which: u8) -> LocalDevice {
    LocalDevice::from_secret(&[which; 32])
}

fn context() -> HandoffContext {
    HandoffContext {
        mesh: MeshId::new([1; 32]),
        session: SessionId::new([2; 16]),
        handoff: HandoffId::new([3; 16]),
        source: device(1).device(),
        destination: device(2).device(),
        token: FencingToken { generation: 0, epoch: 4 },
        source_exchange_key: secret(1).public(),
        destination_exchange_key: secret(2).public(),
    }
}

fn sealed_in(context: &HandoffContext, number: u32, plaintext: &[u8]) -> Vec<u8> {
    let keys = HandoffKeys::derive(&secret(1), &secret(2).public(), context).unwrap();
    let mut sealer = Sealer::new(keys.stream(number));
    let mut sealed = sealer.header().to_vec();
    sealer.push(plaintext, &mut sealed).unwrap();
    sealer.finish(&mut sealed).unwrap();
    sealed
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&ChunkFrame::raw(ChunkId::of(bytes), bytes).unwrap().to_bytes()[..], bytes].concat()
}

fn content(length: usize) -> Vec<u8> {
    Numbers(length as u64).bytes(length)
}

/// The genuine stream that everything hostile is made of, and its four segments.
fn genuine() -> Vec<u8> {
    sealed_in(&context(), 0, &frame(&content(3 * SEGMENT_BYTES + 1_000)))
}

fn segments(sealed: &[u8]) -> Vec<&[u8]> {
    sealed[HEADER_BYTES..].chunks(SEALED_SEGMENT_BYTES).collect()
}

fn with_segments(sealed: &[u8], segments: &[&[u8]]) -> Vec<u8> {
    [&sealed[..HEADER_BYTES], &segments.concat()].concat()
}

/// One of the kit.
struct Hostile {
    kind: &'static str,
    sealed: Vec<u8>,
    expected: Refused,
}

fn hostile(kind: &'static str, sealed: Vec<u8>, expected: OpenError) -> Hostile {
    Hostile { kind, sealed, expected: Refused::Open(expected) }
}

/// What must be said of a stream with a sound header: a piece that more follow is forged unless it is the one that was
/// sealed there; the end is cut short unless it is a whole segment that was never sealed.
fn verdict(sealed: &[u8]) -> OpenError {
    let (honest, pieces) = (genuine(), segments(sealed));
    let honest = segments(&honest);
    let Some((last, before)) = pieces.split_last() else { return OpenError::Truncated };
    if before.iter().enumerate().any(|(at, piece)| honest.get(at) != Some(piece)) {
        return OpenError::Forged;
    }
    let cut = last.len() < SEALED_SEGMENT_BYTES || honest.get(before.len()) == Some(last);
    if cut { OpenError::Truncated } else { OpenError::Forged }
}

fn changed(kind: &'static str, sealed: Vec<u8>) -> Hostile {
    let expected = verdict(&sealed);
    hostile(kind, sealed, expected)
}

/// Every bit of the header: magic 4, version 1, suite 1, handoff 16, number 4, commitment 32.
fn header_bits() -> Vec<Hostile> {
    let flip = |bit: usize| {
        let mut sealed = genuine();
        sealed[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0..4 => OpenError::NotASeal,
            4..6 => OpenError::Version { version: sealed[4], suite: sealed[5] },
            6..22 => OpenError::WrongHandoff,
            _ => OpenError::Forged,
        };
        hostile("header: a bit", sealed, expected)
    };
    (0..HEADER_BYTES * 8).map(flip).collect()
}

fn segment_bits() -> Vec<Hostile> {
    let honest = genuine();
    let (mut kit, mut numbers) = (Vec::new(), Numbers(1));
    for (at, segment) in segments(&honest).iter().enumerate() {
        let edges = [0, 1, 15, 16, segment.len() - 17, segment.len() - 16, segment.len() - 1];
        let inside = (0..18).map(|_| numbers.below(segment.len() as u64) as usize);
        for place in edges.into_iter().chain(inside).collect::<BTreeSet<_>>() {
            let mut sealed = honest.clone();
            sealed[HEADER_BYTES + at * SEALED_SEGMENT_BYTES + place] ^= 1 << numbers.below(8);
            kit.push(changed("segment: a bit", sealed));
        }
    }
    kit
}

/// All orders of four, some of them, and each of them twice.
fn rearranged() -> Vec<Hostile> {
    let honest = genuine();
    let whole = segments(&honest);
    let mut kit = Vec::new();
    for code in 0..256 {
        let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6];
        if order != [0, 1, 2, 3] {
            let kind = if BTreeSet::from(order).len() == 4 {
                "segments: another order"
            } else {
                "segments: one again for another"
            };
            kit.push(changed(kind, with_segments(&honest, &order.map(|at| whole[at]))));
        }
    }
    for mask in 0_usize..15 {
        let kept: Vec<&[u8]> = (0..4).filter(|at| mask >> at & 1 == 1).map(|at| whole[at]).collect();
        kit.push(changed("segments: some dropped", with_segments(&honest, &kept)));
    }
    for (again, place) in (0..4).flat_map(|again| (0..=4).map(move |place| (again, place))) {
        let mut order = whole.clone();
        order.insert(place, whole[again]);
        // After the last segment it is one stream whose end is where it was: twice the last is no longer the end.
        kit.push(changed("segments: one doubled", with_segments(&honest, &order)));
    }
    kit.retain(|one| one.sealed != honest);
    kit
}

fn cut_or_longer() -> Vec<Hostile> {
    let honest = genuine();
    let mut cuts: BTreeSet<usize> = (0..40).map(|at| HEADER_BYTES + at * (honest.len() - HEADER_BYTES) / 40).collect();
    for boundary in 1..4 {
        let at = HEADER_BYTES + boundary * SEALED_SEGMENT_BYTES;
        cuts.extend([at - 17, at - 16, at - 1, at, at + 1, at + 16, at + 17]);
    }
    cuts.extend([honest.len() - 17, honest.len() - 16, honest.len() - 1]);
    let mut kit: Vec<_> = cuts.iter().map(|cut| changed("cut short", honest[..*cut].to_vec())).collect();
    kit.extend(
        (0..HEADER_BYTES).step_by(7).map(|cut| hostile("cut short", honest[..cut].to_vec(), OpenError::Truncated)),
    );
    for more in [1, 15, 16, 17, 60, SEALED_SEGMENT_BYTES - 1_100, SEALED_SEGMENT_BYTES, 2 * SEALED_SEGMENT_BYTES] {
        kit.push(changed("bytes behind the end", [&honest[..], &vec![0; more]].concat()));
        kit.push(changed("bytes behind the end", [&honest[..], &content(more)].concat()));
    }
    kit
}

/// Streams that end at a segment's end: the last one is full, and what follows must not make it another one.
fn games_with_the_end() -> Vec<Hostile> {
    let full = sealed_in(&context(), 0, &frame(&content(SEGMENT_BYTES - 37)));
    let two = sealed_in(&context(), 0, &frame(&content(2 * SEGMENT_BYTES - 37)));
    let empty = sealed_in(&context(), 0, b"");
    let behind = |end: &[u8]| [&full[..], end].concat();
    let first_of_two = two[..HEADER_BYTES + SEALED_SEGMENT_BYTES].to_vec();
    vec![
        hostile("end: the last one is not", behind(&two[HEADER_BYTES + SEALED_SEGMENT_BYTES..]), OpenError::Forged),
        hostile("end: another end behind it", behind(&empty[HEADER_BYTES..]), OpenError::Forged),
        hostile("end: itself again", behind(&full[HEADER_BYTES..]), OpenError::Forged),
        hostile("end: one that is not the last", first_of_two.clone(), OpenError::Truncated),
        hostile("end: of another stream", [&first_of_two[..], &empty[HEADER_BYTES..]].concat(), OpenError::Truncated),
        hostile("end: of another stream", [&first_of_two[..], &full[HEADER_BYTES..]].concat(), OpenError::Forged),
        hostile("end: nothing but a tag of zeros", [&empty[..HEADER_BYTES], &[0; 16]].concat(), OpenError::Truncated),
        hostile("end: nothing at all", empty[..HEADER_BYTES].to_vec(), OpenError::Truncated),
    ]
}

/// Segments under another header: the header is what the seal is bound to.
fn other_associated_data() -> Vec<Hostile> {
    let honest = genuine();
    let plaintext = frame(&content(3 * SEGMENT_BYTES + 1_000));
    let under = |header: &[u8], body: &[u8]| [&header[..HEADER_BYTES], &body[HEADER_BYTES..]].concat();
    let other = |handoff: u8, number| {
        sealed_in(&HandoffContext { handoff: HandoffId::new([handoff; 16]), ..context() }, number, &plaintext)
    };
    let mut kit = Vec::new();
    for number in [1, 2, 255, 256, u32::MAX] {
        kit.push(hostile("header of another stream", under(&other(3, number), &honest), OpenError::Forged));
        kit.push(hostile("segments of another stream", under(&honest, &other(3, number)), OpenError::Forged));
    }
    for handoff in [0, 1, 2, 4, 255] {
        let replayed = other(handoff, 0);
        kit.push(hostile("segments of another handoff", under(&honest, &replayed), OpenError::Forged));
        let mut renamed = replayed.clone();
        renamed[6..22].copy_from_slice(&[3; 16]);
        kit.push(hostile("another handoff under this name", renamed, OpenError::Forged));
        kit.push(hostile("replay from another handoff", replayed, OpenError::WrongHandoff));
    }
    kit
}

/// Sealed by somebody who believes something else of the handoff: another key altogether.
fn other_contexts() -> Vec<Hostile> {
    let other = [9; 32];
    let contexts = [
        HandoffContext { mesh: MeshId::new(other), ..context() },
        HandoffContext { session: SessionId::new([9; 16]), ..context() },
        HandoffContext { source: device(9).device(), ..context() },
        HandoffContext { destination: device(9).device(), ..context() },
        HandoffContext { source: device(2).device(), destination: device(1).device(), ..context() },
        HandoffContext { token: FencingToken { generation: 1, epoch: 4 }, ..context() },
        HandoffContext { token: FencingToken { generation: 0, epoch: 5 }, ..context() },
        HandoffContext { token: FencingToken { generation: 4, epoch: 0 }, ..context() },
        HandoffContext {
            source_exchange_key: secret(2).public(),
            destination_exchange_key: secret(1).public(),
            ..context()
        },
    ];
    let sealed = |context: &HandoffContext| sealed_in(context, 0, &frame(&content(400)));
    let mut kit: Vec<_> = contexts.iter().map(|of| hostile("another context", sealed(of), OpenError::Forged)).collect();
    // Sealed for another recipient's key: the commitment alone would not tell; taking ours over does not help.
    let stranger = HandoffContext { destination_exchange_key: secret(7).public(), ..context() };
    let keys = HandoffKeys::derive(&secret(1), &secret(7).public(), &stranger).unwrap();
    let mut sealer = Sealer::new(keys.stream(0));
    let mut theirs = sealer.header().to_vec();
    sealer.push(&frame(&content(400)), &mut theirs).unwrap();
    sealer.finish(&mut theirs).unwrap();
    let mut committed = theirs.clone();
    committed[..HEADER_BYTES].copy_from_slice(&genuine()[..HEADER_BYTES]);
    kit.push(hostile("another recipient", theirs, OpenError::Forged));
    kit.push(hostile("another recipient, our commitment", committed, OpenError::Truncated));
    kit
}

/// Well sealed by the right device, and still no payload.
fn lying_chunks() -> Vec<Hostile> {
    let header = |id: ChunkId, codec, length| ChunkFrame { id, codec, length }.to_bytes().to_vec();
    let (text, id) = (content(300), ChunkId::of(&content(300)));
    let mut kit = Vec::new();
    let mut add = |kind, plaintext: Vec<u8>, error| {
        let sealed = sealed_in(&context(), 0, &plaintext);
        kit.push(Hostile { kind, sealed, expected: Refused::Chunk(error) });
    };
    for codec in [1, 2, 127, 255] {
        add("chunk: a codec", [header(id, codec, 300), text.clone()].concat(), ChunkError::Codec(codec));
    }
    for length in [0, CHUNK_MAX_BYTES + 1, CHUNK_MAX_BYTES * 2, i32::MAX as u32, u32::MAX] {
        add("chunk: a length", [header(id, 0, length), text.clone()].concat(), ChunkError::Length(length.into()));
    }
    for byte in 0..16 {
        let mut other = text.clone();
        other[byte * 18] ^= 1;
        add("chunk: other bytes than its id", [header(id, 0, 300), other].concat(), ChunkError::Mismatch(id));
    }
    add("chunk: shorter than its id", [header(id, 0, 299), text.clone()].concat(), ChunkError::Mismatch(id));
    let longer = [header(id, 0, 301), text.clone(), vec![0]].concat();
    add("chunk: longer than its id", longer, ChunkError::Mismatch(id));
    let swapped = ChunkId::of(b"another");
    add("chunk: another's id", [header(swapped, 0, 300), text.clone()].concat(), ChunkError::Mismatch(swapped));
    for cut in [1, 31, 32, 33, 36, 37, 38, 200, 336] {
        add("chunk: cut in a frame", frame(&text)[..cut].to_vec(), ChunkError::Truncated);
    }
    kit
}

/// Shows: S-3, S-4, S-5, S-6, S-7
#[test]
fn every_hostile_payload_is_refused_and_nothing_of_it_is_delivered() {
    let parts = [
        header_bits(),
        segment_bits(),
        rearranged(),
        cut_or_longer(),
        games_with_the_end(),
        other_associated_data(),
        other_contexts(),
        lying_chunks(),
    ];
    let (mut kinds, mut seen) = (BTreeMap::<&str, u32>::new(), BTreeSet::new());
    for one in parts.into_iter().flatten() {
        if !seen.insert(Hash::of(&one.sealed)) {
            continue;
        }
        for piece in [usize::MAX, 40_000] {
            let mut receiver = Receiver::new(&context());
            let taken = receiver.take(&one.sealed, piece);
            assert_eq!(taken, Err(one.expected.clone()), "{}: {} bytes", one.kind, one.sealed.len());
            assert_eq!(receiver.delivered.len(), 0, "{}: something was delivered", one.kind);
        }
        *kinds.entry(one.kind).or_default() += 1;
    }
    kinds.iter().for_each(|(kind, count)| println!("{count:>5} {kind}"));
    let count: u32 = kinds.values().sum();
    println!("sealed payloads: {count} of {count} hostile ones refused, 0 chunks delivered");
    assert!(count >= 300, "{count}");
}

/// Shows: S-4
#[test]
fn number_that_comes_twice_is_refused() {
    let mut receiver = Receiver::new(&context());
    receiver.take(&genuine(), usize::MAX).unwrap();
    let again = sealed_in(&context(), 0, &frame(b"another plaintext under the same nonces"));
    assert_eq!(receiver.take(&again, usize::MAX), Err(Refused::NumberTwice));
    assert_eq!(receiver.take(&genuine(), usize::MAX), Err(Refused::NumberTwice));
    assert_eq!(receiver.delivered.len(), 1, "the first one");
}

/// Shows: S-3
#[test]
fn keys_that_are_not_the_handoffs_make_no_opener() {
    let low = (0..2).map(|digit: u8| {
        let mut key = [0; 32];
        key[0] = digit;
        key
    });
    let mut refused = 0;
    for key in low {
        let context = HandoffContext { source_exchange_key: key, ..context() };
        let derived = HandoffKeys::derive(&secret(2), &key, &context).map(drop).map_err(Refused::Exchange);
        assert_eq!(derived, Err(Refused::Exchange(ExchangeError::LowOrder)));
        refused += 1;
    }
    for (ours, theirs) in [(2, 3), (3, 1), (2, 2), (1, 1)] {
        let derived = HandoffKeys::derive(&secret(ours), &secret(theirs).public(), &context()).map(drop);
        assert_eq!(derived, Err(ExchangeError::ForeignKeys), "{ours} with {theirs}");
        refused += 1;
    }
    println!("exchange keys: {refused} of {refused} refused");
}

/// Every byte of what is signed, in every type that ends or moves something, in its key and in its signature.
/// Shows: S-1, S-2
#[test]
fn every_byte_of_what_is_signed_counts() {
    let (source, destination) = (device(1), device(2));
    let (mut refused, manifest) = (0, manifest(&catalog(), &encode(&catalog())));
    let (handoff, session, token, head, root) =
        (manifest.handoff, manifest.session, manifest.token, manifest.head, manifest.root);
    refused += every_byte(&source, &manifest);
    let (scope, exchange_key, have) = (Hash::of(b"scope"), secret(2).public(), Vec::new());
    let [source_id, destination_id] = [&source, &destination].map(LocalDevice::device);
    let accept = Accept { handoff, source: source_id, destination: destination_id, scope, exchange_key, have };
    refused += every_byte(&destination, &accept);
    let ack = CommitAck { handoff, session, token, head, root, source: source_id, destination: destination_id };
    refused += every_byte(&destination, &ack);
    refused += every_byte(&destination, &Activated { handoff, session, token, owner: destination_id });
    let (mesh, incarnation) = (manifest.mesh, Incarnation::new([5; 16]));
    refused +=
        every_byte(&source, &Custody::Genesis(Genesis { mesh, key: key(), owner: source_id, incarnation, members: 2 }));
    println!("signed messages: {refused} of {refused} changed bytes refused");
}

fn every_byte<T: Signable + PartialEq + std::fmt::Debug>(signer: &LocalDevice, value: &T) -> u32 {
    let signed = signer.sign(value).unwrap();
    assert!(verify(&signed).is_ok_and(|verified| *verified == *value));
    let bytes = encode(&signed);
    let of_value = bytes.len() - 96;
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1 << (at % 8);
        let refused = match decode::<Signed<T>>(&other) {
            Ok(signed) => verify(&signed).map(drop).map_err(Refused::Signature),
            Err(_) => Err(Refused::Undecodable),
        };
        let right = match &refused {
            Err(Refused::Signature(VerifyError::Signature)) => true,
            Err(Refused::Signature(VerifyError::Key)) => (of_value..of_value + 32).contains(&at),
            Err(Refused::Undecodable) => at < 2,
            _ => false,
        };
        assert!(right, "byte {at} of {}: {refused:?}", bytes.len());
    }
    let stranger = device(9);
    let by_another: Signed<T> = Signed::from_parts(signed.bytes().to_vec(), stranger.key(), *signed.signature());
    assert_eq!(verify(&by_another).map(drop), Err(VerifyError::Signature));
    let long: Signed<T> = Signed::from_parts(vec![0; SIGNED_BYTES + 1], DeviceKey::new([1; 32]), [0; 64]);
    assert_eq!(verify(&long).map(drop), Err(VerifyError::TooLong(SIGNED_BYTES + 1)));
    bytes.len() as u32 + 2
}

fn key() -> SessionKey {
    SessionKey { agent: AgentKind::Files, native: NativeId::parse("gift").unwrap() }
}

fn catalog() -> Catalog {
    Catalog { key: key(), head: Head { turn: 1, length: 2, hash: Hash::of(b"turn") }, entries: Vec::new() }
}

fn manifest(catalog: &Catalog, bytes: &[u8]) -> Manifest {
    let of = context();
    Manifest {
        mesh: of.mesh,
        handoff: of.handoff,
        session: of.session,
        source: of.source,
        destination: of.destination,
        token: of.token,
        round: 0,
        last: true,
        head: catalog.head,
        root: catalog.root(),
        catalog: vec![ChunkRef { id: ChunkId::of(bytes), length: bytes.len() as u32 }],
        payload_bytes: 0,
        exchange_key: of.source_exchange_key,
    }
}

/// Well sealed, every chunk what its id says, and not what the signed manifest names: counted short, long, or another.
/// Shows: T-1, T-11
#[test]
fn payload_of_another_root_or_count_is_refused() {
    let bytes = encode(&catalog());
    let manifest = manifest(&catalog(), &bytes);
    let mut refused = 0;
    let take = |bytes: &[u8]| {
        let mut receiver = Receiver::new(&context());
        receiver.take(&sealed_in(&context(), 0, &frame(bytes)), usize::MAX).unwrap();
        let wanted = receiver.delivered.iter().find(|(id, _)| manifest.catalog.iter().any(|chunk| chunk.id == *id));
        wanted.filter(|(_, bytes)| Hash::of(bytes) == manifest.root).map(drop).ok_or(Refused::Root)
    };
    assert_eq!(take(&bytes), Ok(()));
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 0x10;
        assert_eq!(take(&other), Err(Refused::Root), "byte {at}");
        assert_eq!(take(&bytes[..at.max(1)]), Err(Refused::Root), "cut at {at}");
        refused += 2;
    }
    println!("roots: {refused} of {refused} refused");
}

/// Shows: S-5, S-6, S-7
#[test]
fn genuine_payloads_come_through() {
    let segment = SEGMENT_BYTES - 37;
    let mut sizes =
        vec![0, 1, 2, 15, 16, 17, 36, 37, 38, 1_000, CHUNK_MAX_BYTES as usize - 1, CHUNK_MAX_BYTES as usize];
    for count in 1..5 {
        let at = count * SEGMENT_BYTES - 37;
        sizes.extend([at - 17, at - 16, at - 1, at, at + 1, at + 16, at + 17]);
    }
    sizes.extend((1..12).map(|n| n * segment / 3));
    sizes.retain(|size| *size <= CHUNK_MAX_BYTES as usize);
    let mut accepted = 0;
    for (number, size) in (0..).zip(sizes) {
        let text = content(size);
        let plaintext = if size == 0 { Vec::new() } else { [frame(&text), frame(b"and one more")].concat() };
        let mut receiver = Receiver::new(&context());
        receiver.take(&sealed_in(&context(), number, &plaintext), 1 + size / 3).unwrap();
        let expected = if size == 0 {
            Vec::new()
        } else {
            vec![(ChunkId::of(&text), text), (ChunkId::of(b"and one more"), b"and one more".to_vec())]
        };
        assert!(receiver.delivered == expected, "{size} bytes");
        accepted += 1;
    }
    println!("sealed payloads: {accepted} of {accepted} genuine ones accepted");
    assert!(accepted >= 50, "{accepted}");
}
