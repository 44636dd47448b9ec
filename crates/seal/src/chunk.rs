//! The frames inside a sealed stream: chunks of content by their id, in any order.
//!
//! A frame is id 32, codec 1, length 4 (little-endian), then the bytes.

use cede_wire::id::ChunkId;
use cede_wire::limits::CHUNK_MAX_BYTES;

/// Length of a frame's header.
pub const CHUNK_HEADER_BYTES: usize = 37;

/// The only codec so far: the bytes as they are. 1 is kept for zstd and refused.
pub const CODEC_RAW: u8 = 0;

/// Why bytes are no chunk. The reader is dead and the stream is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// A codec that this build does not read.
    #[error("unknown chunk codec: {0}")]
    Codec(u8),
    /// No bytes, or more than a chunk can have. Nothing was allocated.
    #[error("impossible chunk length: {0}")]
    Length(u64),
    /// The bytes have another id than the frame says.
    #[error("the bytes of the chunk do not match its id: {0}")]
    Mismatch(ChunkId),
    /// The stream ends inside a frame.
    #[error("the stream ends inside a chunk")]
    Truncated,
    /// An earlier call failed, and nothing was looked at.
    #[error("the chunk stream failed before")]
    Dead,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkFrame {
    /// BLAKE3 of the bytes.
    pub id: ChunkId,
    /// How the bytes are written.
    pub codec: u8,
    /// How many follow, 1 to [`CHUNK_MAX_BYTES`].
    pub length: u32,
}

impl ChunkFrame {
    /// The frame of these bytes, raw.
    ///
    /// # Errors
    /// [`ChunkError::Length`] when the bytes are no chunk.
    pub fn raw(id: ChunkId, bytes: &[u8]) -> Result<Self, ChunkError> {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self { id, codec: CODEC_RAW, length }.checked()
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[..32].copy_from_slice(self.id.as_bytes());
        bytes[32] = self.codec;
        bytes[33..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Reads a header, before anything is allocated for its bytes.
    ///
    /// # Errors
    /// [`ChunkError::Codec`], [`ChunkError::Length`].
    pub fn from_bytes(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Result<Self, ChunkError> {
        let (mut id, mut length) = ([0; 32], [0; 4]);
        id.copy_from_slice(&bytes[..32]);
        length.copy_from_slice(&bytes[33..]);
        Self { id: ChunkId::new(id), codec: bytes[32], length: u32::from_le_bytes(length) }.checked()
    }

    fn checked(self) -> Result<Self, ChunkError> {
        if self.codec != CODEC_RAW {
            return Err(ChunkError::Codec(self.codec));
        }
        if !(1..=CHUNK_MAX_BYTES).contains(&self.length) {
            return Err(ChunkError::Length(u64::from(self.length)));
        }
        Ok(self)
    }
}

/// Reads frames from plaintext of any size, one chunk at a time. Source: SPEC S-7.
#[derive(Debug, Default)]
pub struct ChunkReader {
    header: Vec<u8>,
    frame: Option<ChunkFrame>,
    bytes: Vec<u8>,
    dead: bool,
}

impl ChunkReader {
    /// Takes bytes from the front of `input` until a chunk is complete or none are left. The caller repeats while
    /// it gets chunks.
    ///
    /// # Errors
    /// [`ChunkError`]; the reader is dead.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<(ChunkId, Vec<u8>)>, ChunkError> {
        if self.dead {
            return Err(ChunkError::Dead);
        }
        let result = self.advance(input);
        self.dead = result.is_err();
        result
    }

    /// Takes all of `input` and gives each complete chunk to `found`.
    ///
    /// # Errors
    /// [`ChunkError`]; the chunks before it were given, and the reader is dead.
    pub fn push(&mut self, mut input: &[u8], mut found: impl FnMut(ChunkId, Vec<u8>)) -> Result<(), ChunkError> {
        while let Some((id, bytes)) = self.next(&mut input)? {
            found(id, bytes);
        }
        Ok(())
    }

    /// Says that the stream has ended.
    ///
    /// # Errors
    /// [`ChunkError::Truncated`] inside a frame.
    pub fn finish(self) -> Result<(), ChunkError> {
        match (self.dead, self.header.is_empty()) {
            (true, _) => Err(ChunkError::Dead),
            (false, true) => Ok(()),
            (false, false) => Err(ChunkError::Truncated),
        }
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<(ChunkId, Vec<u8>)>, ChunkError> {
        take(&mut self.header, input, CHUNK_HEADER_BYTES);
        let Ok(header) = <&[u8; CHUNK_HEADER_BYTES]>::try_from(self.header.as_slice()) else {
            return Ok(None);
        };
        let frame = match self.frame {
            Some(frame) => frame,
            None => ChunkFrame::from_bytes(header)?,
        };
        let length = frame.length as usize;
        if self.frame.replace(frame).is_none() {
            self.bytes.reserve_exact(length);
        }
        take(&mut self.bytes, input, length);
        if self.bytes.len() < length {
            return Ok(None);
        }
        self.header.clear();
        self.frame = None;
        let bytes = core::mem::take(&mut self.bytes);
        if ChunkId::of(&bytes) == frame.id { Ok(Some((frame.id, bytes))) } else { Err(ChunkError::Mismatch(frame.id)) }
    }
}

fn take(buffer: &mut Vec<u8>, input: &mut &[u8], most: usize) {
    let count = most.saturating_sub(buffer.len()).min(input.len());
    let (head, rest) = input.split_at(count);
    buffer.extend_from_slice(head);
    *input = rest;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 256 }))]

        /// Shows: S-7
        #[test]
        fn any_split_gives_the_same_chunks(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..400), 0..8),
            sizes in proptest::collection::vec(1..300usize, 1..8),
        ) {
            let written: Vec<u8> = chunks.iter().flat_map(|chunk| frame(chunk)).collect();
            let (mut reader, mut read, mut rest) = (ChunkReader::default(), Vec::new(), written.as_slice());
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, tail) = rest.split_at((*size).min(rest.len()));
                reader.push(piece, |id, bytes| read.push((id, bytes))).unwrap();
                rest = tail;
            }
            prop_assert_eq!(reader.finish(), Ok(()));
            let expected: Vec<_> = chunks.into_iter().map(|bytes| (ChunkId::of(&bytes), bytes)).collect();
            prop_assert_eq!(read, expected);
        }
    }

    /// Shows: S-7
    #[test]
    #[cfg_attr(miri, ignore = "a quarter of a mebibyte through the hash takes the interpreter minutes")]
    fn longest_chunk_passes_and_a_longer_one_allocates_nothing() {
        let longest = vec![7; CHUNK_MAX_BYTES as usize];
        assert_eq!(read(&frame(&longest)), Ok(vec![longest]));
        for length in [0, CHUNK_MAX_BYTES + 1, u32::MAX] {
            let header = ChunkFrame { id: ChunkId::new([0; 32]), codec: CODEC_RAW, length };
            let mut reader = ChunkReader::default();
            let refused = reader.push(&header.to_bytes(), |_, _| ());
            assert_eq!(refused, Err(ChunkError::Length(u64::from(length))));
            assert_eq!(reader.bytes.capacity(), 0);
        }
        assert_eq!(ChunkFrame::raw(ChunkId::of(b""), b""), Err(ChunkError::Length(0)));
    }

    /// Shows: S-7
    #[test]
    fn bytes_under_another_id_are_refused_and_the_reader_is_dead() {
        let mut bytes = frame(b"content");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let mut reader = ChunkReader::default();
        let error = ChunkError::Mismatch(ChunkId::of(b"content"));
        assert_eq!(reader.push(&bytes, |_, _| panic!("given")), Err(error));
        assert_eq!(reader.push(&frame(b"more"), |_, _| panic!("given")), Err(ChunkError::Dead));
        assert_eq!(reader.finish(), Err(ChunkError::Dead));
    }

    /// Shows: S-7
    #[test]
    fn codec_that_is_not_spoken_is_refused() {
        for codec in 1..=u8::MAX {
            let mut bytes = frame(b"x");
            bytes[32] = codec;
            assert_eq!(read(&bytes), Err(ChunkError::Codec(codec)));
        }
    }

    /// Shows: S-7
    #[test]
    fn stream_that_ends_inside_a_frame_is_truncated() {
        let whole = frame(b"content");
        for end in 1..whole.len() {
            assert_eq!(read(&whole[..end]), Err(ChunkError::Truncated), "{end}");
        }
        assert_eq!(read(&whole), Ok(vec![b"content".to_vec()]));
    }

    fn frame(bytes: &[u8]) -> Vec<u8> {
        let header = ChunkFrame::raw(ChunkId::of(bytes), bytes).unwrap();
        [&header.to_bytes()[..], bytes].concat()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ChunkError> {
        let (mut reader, mut found) = (ChunkReader::default(), Vec::new());
        reader.push(bytes, |_, bytes| found.push(bytes))?;
        reader.finish()?;
        Ok(found)
    }
}
