//! Sealed streams, chunks and signatures, under keys that are the same in every run.

use cede_seal::chunk::ChunkReader;
use cede_seal::stream::{HEADER_BYTES, OpenError, Opener};
use cede_seal::verify::verify;
use cede_wire::canonical::{Signed, decode};
use cede_wire::custody::Custody;
use cede_wire::id::ChunkId;
use cede_wire::limits::CHUNK_MAX_BYTES;

use super::seeds;

/// What a stream of this number was sealed from, as far as one wants to know.
pub(super) fn plaintext(number: u32, length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(number) >> 13) as u8).collect()
}

/// Opens in pieces of this size; what came out, and how it ended.
fn open(bytes: &[u8], piece: usize) -> (Vec<u8>, u32, Result<(), OpenError>) {
    let mut out = Vec::new();
    let Some((header, segments)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return (out, 0, Err(OpenError::Truncated));
    };
    let mut opener = match Opener::new(seeds::handoff_keys(), header) {
        Ok(opener) => opener,
        Err(error) => return (out, 0, Err(error)),
    };
    let number = opener.number();
    for piece in segments.chunks(piece) {
        if let Err(error) = opener.push(piece, &mut out) {
            assert_eq!(opener.push(b"more", &mut out), Err(OpenError::Dead));
            return (out, number, Err(error));
        }
    }
    let ended = opener.finish(&mut out);
    (out, number, ended)
}

/// Nothing leaves an opener that was not sealed: in place, and to the end or not at all. The last two bytes say in which
/// pieces it is fed.
pub(super) fn stream(bytes: &[u8]) {
    let (out, number, ended) = open(bytes, usize::MAX);
    assert!(out == plaintext(number, out.len()), "other bytes than were sealed came out of stream {number}");
    if ended.is_ok() {
        assert!(seeds::SEALED_LENGTHS.contains(&out.len()), "a stream of {} bytes was never sealed", out.len());
    }
    let piece = bytes.last().map_or(1, |last| 1 + usize::from(*last) * 64);
    assert_eq!(open(bytes, piece), (out, number, ended), "pieces of {piece} bytes make another stream");
}

/// A chunk is what its id says; how the bytes arrive changes nothing.
pub(super) fn chunks(bytes: &[u8]) {
    let read = |piece: usize| {
        let (mut reader, mut found) = (ChunkReader::default(), Vec::new());
        let mut ended = Ok(());
        for piece in bytes.chunks(piece) {
            ended = ended.and_then(|()| reader.push(piece, |id, bytes| found.push((id, bytes))));
        }
        let ended = ended.and_then(|()| reader.finish());
        (found, ended)
    };
    let whole = read(usize::MAX);
    for (id, chunk) in &whole.0 {
        assert_eq!(*id, ChunkId::of(chunk));
        assert!((1..=CHUNK_MAX_BYTES as usize).contains(&chunk.len()));
    }
    assert_eq!(read(1 + bytes.len() / 3), whole);
}

/// Nobody signs but the holders of the keys.
pub(super) fn signed(bytes: &[u8]) {
    let Ok(signed) = decode::<Signed<Custody>>(bytes) else { return };
    let honest = seeds::signed_custody();
    match verify(&signed) {
        Ok(verified) => {
            assert!(honest.iter().any(|one| one == verified.signed()), "a signature that nobody made holds");
            assert_eq!(verified.key().device(), cede_wire::canonical::Signable::signer(&*verified));
        }
        Err(_) => assert!(!honest.contains(&signed), "a signature that was made does not hold"),
    }
}
