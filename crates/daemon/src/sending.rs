//! One round of a transfer, on the sending side: manifest, needs, sealed chunks on several streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use cede_agent::chunk::SourceFiles;
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
            Self::Files(files) => files.read(&chunk.id, into).map_err(|error| SendError::Changed(error.to_string())),
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
    Changed(String),
    /// A rule of ours failed.
    #[error("fault of ours: {0}")]
    Bug(&'static str),
}

/// The chunks whose bit is set, lowest bit first.
pub(crate) fn selected(chunks: &[ChunkRef], bitmap: &[u8]) -> Vec<ChunkRef> {
    let set = |index: usize| bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
    chunks.iter().enumerate().filter(|(index, _)| set(*index)).map(|(_, chunk)| *chunk).collect()
}

/// Sends chunks over the link, sealed; several streams when there is much. `sent` counts content bytes.
pub(crate) async fn send(
    link: &Link,
    keys: &HandoffKeys,
    numbers: &AtomicU32,
    content: Arc<Content>,
    chunks: Vec<ChunkRef>,
    sent: Arc<AtomicU64>,
) -> Result<(), SendError> {
    let total: u64 = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
    let streams = if total > limits::ONE_STREAM_BYTES { limits::STREAMS } else { 1 };
    let share = chunks.len().div_ceil(streams).max(1);
    let mut tasks = tokio::task::JoinSet::new();
    for part in chunks.chunks(share) {
        let stream = keys.stream(numbers.fetch_add(1, Ordering::Relaxed));
        let (link, content, part, sent) = (link.clone(), content.clone(), part.to_vec(), sent.clone());
        tasks.spawn(send_stream(link, stream, content, part, sent));
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
    chunks: Vec<ChunkRef>,
    sent: Arc<AtomicU64>,
) -> Result<(), SendError> {
    let mut stream = link.open_data().await.map_err(|_| SendError::Link)?;
    let (pieces, mut sealed) = mpsc::channel::<Vec<u8>>(limits::PIECES);
    let sealing = tokio::task::spawn_blocking(move || seal(keys, &content, &chunks, &sent, &pieces));
    while let Some(piece) = sealed.recv().await {
        if stream.write_chunk(piece.into()).await.is_err() {
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
    pieces: &mpsc::Sender<Vec<u8>>,
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
            let piece = std::mem::replace(&mut out, Vec::with_capacity(limits::PIECE_BYTES * 2));
            pieces.blocking_send(piece).map_err(|_| SendError::Link)?;
        }
    }
    sealer.finish(&mut out).map_err(|_| SendError::Bug("a full stream"))?;
    pieces.blocking_send(out).map_err(|_| SendError::Link)
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
}
