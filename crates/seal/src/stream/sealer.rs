//! The sending side.

use core::fmt;

use aead_stream::StreamPrimitive;

use super::header::{HEADER_BYTES, Header};
use super::{Cipher, SEALED_SEGMENT_BYTES, Tail, cipher, fill};
use crate::exchange::StreamKeys;
use crate::limits::{SEGMENT_BYTES, SEGMENTS};

/// Why nothing more can be sealed in this stream. What was sealed stays valid, but the stream has no end and will
/// be refused; the caller opens the next one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The stream has as many segments as its counter can tell apart.
    #[error("the sealed stream is full")]
    Exhausted,
}

/// Seals one stream. It takes the keys, so no key seals two streams. Source: SPEC S-5.
pub struct Sealer {
    cipher: Cipher,
    header: [u8; HEADER_BYTES],
    associated: [u8; 32],
    pub(super) position: u32,
    pending: Vec<u8>,
}

impl Sealer {
    /// Begins a stream.
    pub fn new(keys: StreamKeys) -> Self {
        let header = Header::of(&keys).to_bytes();
        Self {
            cipher: cipher(&keys),
            header,
            associated: *blake3::hash(&header).as_bytes(),
            position: 0,
            pending: Vec::new(),
        }
    }

    /// The bytes to send before everything else.
    pub fn header(&self) -> &[u8; HEADER_BYTES] {
        &self.header
    }

    /// Takes plaintext of any size and appends every segment that is complete and not the last to `out`.
    ///
    /// # Errors
    /// [`SealError`]; every later call fails too.
    pub fn push(&mut self, mut plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        // A full segment stays here until a byte follows it: until then it may be the last.
        while self.pending.len() + plaintext.len() > SEGMENT_BYTES {
            let start = out.len();
            out.reserve(SEALED_SEGMENT_BYTES);
            out.append(&mut self.pending);
            fill(out, &mut plaintext, start + SEGMENT_BYTES);
            self.seal(out, start, false)?;
        }
        fill(&mut self.pending, &mut plaintext, SEGMENT_BYTES);
        Ok(())
    }

    /// Seals what is left, perhaps nothing, as the last segment.
    ///
    /// # Errors
    /// [`SealError`]; the stream has no end.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), SealError> {
        let start = out.len();
        out.append(&mut self.pending);
        self.seal(out, start, true)
    }

    fn seal(&mut self, out: &mut Vec<u8>, start: usize, last: bool) -> Result<(), SealError> {
        let mut segment = Tail { whole: out, start };
        let room = last || self.position < SEGMENTS;
        let sealed = room && self.cipher.encrypt_in_place(self.position, last, &self.associated, &mut segment).is_ok();
        if !sealed {
            out.truncate(start);
            self.position = SEGMENTS;
            return Err(SealError::Exhausted);
        }
        self.position = self.position.saturating_add(1);
        Ok(())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("position", &self.position).finish_non_exhaustive()
    }
}
