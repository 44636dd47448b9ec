//! Sealed streams: segments under one key, in order, whole, and to the end.
//!
//! A stream is a header, then segments of [`SEGMENT_BYTES`] sealed with [`TAG_BYTES`] more; the last one is as long
//! as what is left and carries a flag in its nonce. The end of the transport's stream tells the reader which one is
//! the last; the flag proves it. Each direction holds at most one segment.

mod header;
mod opener;
mod sealer;

pub use header::{HEADER_BYTES, HeaderError, stream_handoff};
pub use opener::{OpenError, Opener};
pub use sealer::{SealError, Sealer};

use aead_stream::{NewStream, StreamBE32, aead};
use chacha20poly1305::ChaCha20Poly1305;

use crate::exchange::StreamKeys;
use crate::limits::{SEGMENT_BYTES, TAG_BYTES};

/// Length of every sealed segment but the last.
pub const SEALED_SEGMENT_BYTES: usize = SEGMENT_BYTES + TAG_BYTES;

/// The version of the sealed form.
pub const SEAL_VERSION: u8 = 1;

pub(crate) type Cipher = StreamBE32<ChaCha20Poly1305>;

pub(crate) fn cipher(keys: &StreamKeys) -> Cipher {
    let key: &[u8; 32] = &keys.key;
    Cipher::new(key.into(), &keys.prefix.into())
}

/// The end of a vector as a buffer of its own, so that a segment is sealed and opened where it will stay.
struct Tail<'a> {
    whole: &'a mut Vec<u8>,
    start: usize,
}

impl AsRef<[u8]> for Tail<'_> {
    fn as_ref(&self) -> &[u8] {
        self.whole.get(self.start..).unwrap_or_default()
    }
}

impl AsMut<[u8]> for Tail<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        self.whole.get_mut(self.start..).unwrap_or_default()
    }
}

impl aead::Buffer for Tail<'_> {
    fn extend_from_slice(&mut self, other: &[u8]) -> aead::Result<()> {
        self.whole.extend_from_slice(other);
        Ok(())
    }

    fn truncate(&mut self, length: usize) {
        self.whole.truncate(self.start.saturating_add(length));
    }
}

/// Moves bytes from the front of `input` until `buffer` holds `most`.
fn fill(buffer: &mut Vec<u8>, input: &mut &[u8], most: usize) {
    let room = most.saturating_sub(buffer.len()).min(input.len());
    let (head, rest) = input.split_at(room);
    buffer.extend_from_slice(head);
    *input = rest;
}

#[cfg(test)]
mod tests;
