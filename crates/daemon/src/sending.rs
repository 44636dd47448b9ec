//! One round of a transfer, on the sending side: manifest, needs, sealed chunks on several streams.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use cede_agent::chunk::{ReadChunkError, SourceFiles};
use cede_carrier::link::Link;
use cede_seal::chunk::ChunkFrame;
use cede_seal::exchange::{HandoffKeys, StreamKeys};
use cede_seal::stream::Sealer;
use cede_wire::catalog::ChunkRef;
use cede_wire::id::ChunkId;
use tokio::sync::mpsc;

use crate::limits;

/// Where the bytes of a round are read.
pub(crate) enum Content {
    /// The catalog, in memory.
    Catalog { bytes: Bytes, chunks: Vec<ChunkRef> },
    /// Files.
    Files(Arc<SourceFiles>),
}

impl Content {
    fn read(&self, chunk: &ChunkRef, into: &mut Vec<u8>) -> Result<(), SendError> {
        match self {
            Self::Files(files) => files.read(&chunk.id, into).map_err(SendError::Changed),
            Self::Catalog { bytes, chunks } => {
                let piece =
                    slice_of(bytes, chunks, chunk.id).ok_or(SendError::Bug("a chunk that the catalog lacks"))?;
                into.clear();
                into.extend_from_slice(piece);
                Ok(())
            }
        }
    }
}

fn slice_of<'a>(bytes: &'a [u8], chunks: &[ChunkRef], id: ChunkId) -> Option<&'a [u8]> {
    let mut offset = 0;
    for chunk in chunks {
        let end = offset + chunk.length as usize;
        if chunk.id == id {
            return bytes.get(offset..end);
        }
        offset = end;
    }
    None
}

/// Why chunks were not sent whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// The link is gone; the transfer goes on with the next one.
    #[error("the link was lost")]
    Link,
    /// A file is not what it was when it was captured.
    #[error("the session changed while it was sent: {0}")]
    Changed(ReadChunkError),
    /// A rule of ours failed.
    #[error("fault of ours: {0}")]
    Bug(&'static str),
}

/// The chunks whose bit is set, lowest bit first.
pub(crate) fn selected(chunks: &[ChunkRef], bitmap: &[u8]) -> Vec<ChunkRef> {
    let set = |index: usize| bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
    chunks.iter().enumerate().filter(|(index, _)| set(*index)).map(|(_, chunk)| *chunk).collect()
}

/// A piece of a list of chunks, which is held once.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    list: Arc<[ChunkRef]>,
    range: Range<usize>,
}

impl Part {
    /// The whole list.
    pub(crate) fn all(list: Vec<ChunkRef>) -> Self {
        let range = 0..list.len();
        Self { list: list.into(), range }
    }

    fn chunks(&self) -> &[ChunkRef] {
        self.list.get(self.range.clone()).unwrap_or_default()
    }

    /// Bytes of its chunks.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks().iter().map(|chunk| u64::from(chunk.length)).sum()
    }

    /// Takes the first chunks off, as many as stay within so many bytes, and at least one. None: there is none.
    pub(crate) fn take(&mut self, most_bytes: u64) -> Option<Self> {
        let mut bytes = 0;
        let fits = |chunk: &&ChunkRef| {
            bytes += u64::from(chunk.length);
            bytes <= most_bytes
        };
        let count = self.chunks().iter().take_while(fits).count().max(1);
        self.cut(count)
    }

    /// The same for so many chunks.
    fn cut(&mut self, count: usize) -> Option<Self> {
        if self.range.is_empty() {
            return None;
        }
        let middle = (self.range.start + count).min(self.range.end);
        let first = Self { list: self.list.clone(), range: self.range.start..middle };
        self.range.start = middle;
        Some(first)
    }
}

/// Sends chunks over the link, sealed; several streams when there is much. `sent` counts content bytes.
pub(crate) async fn send(
    link: &Link,
    keys: &HandoffKeys,
    numbers: &AtomicU32,
    content: Arc<Content>,
    mut part: Part,
    sent: Arc<AtomicU64>,
) -> Result<(), SendError> {
    let streams = if part.bytes() > limits::ONE_STREAM_BYTES { limits::STREAMS } else { 1 };
    let share = part.range.len().div_ceil(streams).max(1);
    let mut tasks = tokio::task::JoinSet::new();
    while let Some(part) = part.cut(share) {
        let stream = keys.stream(numbers.fetch_add(1, Ordering::Relaxed));
        tasks.spawn(send_stream(link.clone(), stream, content.clone(), part, sent.clone()));
    }
    let mut result = Ok(());
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.unwrap_or(Err(SendError::Bug("a sending task ended")));
        // What a changed file says matters more than that a link is gone.
        if !matches!(result, Err(SendError::Changed(_) | SendError::Bug(_))) && ended.is_err() {
            result = ended;
        }
    }
    result
}

async fn send_stream(
    link: Link,
    keys: StreamKeys,
    content: Arc<Content>,
    part: Part,
    sent: Arc<AtomicU64>,
) -> Result<(), SendError> {
    let mut stream = link.open_data().await.map_err(|_| SendError::Link)?;
    let (pieces, mut sealed) = mpsc::channel::<Bytes>(limits::PIECES);
    let sealing = tokio::task::spawn_blocking(move || seal(keys, &content, part.chunks(), &sent, &pieces));
    while let Some(piece) = sealed.recv().await {
        if stream.write_chunk(piece).await.is_err() {
            sealed.close();
            return Err(SendError::Link);
        }
    }
    sealing.await.unwrap_or(Err(SendError::Bug("a sealing thread ended")))?;
    stream.finish().map_err(|_| SendError::Link)
}

/// Reads and seals on a thread of its own, a few pieces ahead of the link.
fn seal(
    keys: StreamKeys,
    content: &Content,
    chunks: &[ChunkRef],
    sent: &AtomicU64,
    pieces: &mpsc::Sender<Bytes>,
) -> Result<(), SendError> {
    let mut sealer = Sealer::new(keys);
    let mut out = Vec::with_capacity(limits::PIECE_BYTES + cede_wire::limits::CHUNK_MAX_BYTES as usize);
    out.extend_from_slice(sealer.header());
    let mut bytes = Vec::new();
    for chunk in chunks {
        content.read(chunk, &mut bytes)?;
        let frame = ChunkFrame::raw(chunk.id, &bytes).map_err(|_| SendError::Bug("a chunk of a wrong length"))?;
        sealer.push(&frame.to_bytes(), &mut out).map_err(|_| SendError::Bug("a full stream"))?;
        sealer.push(&bytes, &mut out).map_err(|_| SendError::Bug("a full stream"))?;
        sent.fetch_add(u64::from(chunk.length), Ordering::Relaxed);
        if out.len() >= limits::PIECE_BYTES {
            // As long as it is: the link holds a window of them until they are acknowledged.
            pieces.blocking_send(Bytes::copy_from_slice(&out)).map_err(|_| SendError::Link)?;
            out.clear();
        }
    }
    sealer.finish(&mut out).map_err(|_| SendError::Bug("a full stream"))?;
    pieces.blocking_send(Bytes::copy_from_slice(&out)).map_err(|_| SendError::Link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmap_selects_lowest_bit_first() {
        let chunk = |n: u8| ChunkRef { id: ChunkId::new([n; 32]), length: 1 };
        let chunks: Vec<_> = (0..10).map(chunk).collect();
        assert_eq!(selected(&chunks, &[0b1000_0001, 0b10]), vec![chunk(0), chunk(7), chunk(9)]);
        assert_eq!(selected(&chunks, &[]), vec![]);
    }

    #[test]
    fn list_is_taken_in_turns_and_every_chunk_once() {
        let chunk = |n: u8| ChunkRef { id: ChunkId::new([n; 32]), length: 10 };
        let chunks: Vec<_> = (0..7).map(chunk).collect();
        let mut rest = Part::all(chunks.clone());
        let mut taken = Vec::new();
        while let Some(part) = rest.take(25) {
            assert!(part.bytes() <= 20);
            taken.extend_from_slice(part.chunks());
        }
        assert_eq!(taken, chunks);
        assert_eq!(Part::all(chunks).take(1).unwrap().chunks(), [chunk(0)], "at least one");
        assert!(Part::all(Vec::new()).take(1).is_none());
    }
}
