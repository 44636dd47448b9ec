//! A sealed stream, opened: each chunk is one that was asked for, is what its id says, and is stored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cede_carrier::link::data::DataReceiver;
use cede_seal::chunk::ChunkReader;
use cede_seal::stream::Opener;
use cede_store::stage::Stage;
use cede_wire::catalog::ChunkRef;
use cede_wire::id::ChunkId;
use cede_wire::shown::bytes;
use tokio::sync::mpsc;

use super::FetchError;
use crate::context::Context;
use crate::limits;

/// The disk as it is while content comes: what was free when each of several handoffs began was promised to all of them.
pub(super) struct Room(pub(super) Context);

impl Room {
    /// Records must fit whatever comes.
    fn check(&self) -> Result<(), FetchError> {
        if self.0.home.has_room_for_bulk(0).unwrap_or(true) {
            return Ok(());
        }
        let free = bytes(self.0.home.free_bytes().unwrap_or(0));
        Err(FetchError::NoSpace(format!("{free} are free, and they are kept for the records")))
    }
}

/// The chunks that were asked for and have not come.
pub(super) struct Wanted {
    missing: Mutex<HashMap<ChunkId, u32>>,
    pub(super) bytes: AtomicU64,
    pub(super) done: tokio::sync::Notify,
}

impl Wanted {
    pub(super) fn new(missing: Vec<ChunkRef>) -> Self {
        let missing = missing.into_iter().map(|chunk| (chunk.id, chunk.length)).collect();
        Self { missing: Mutex::new(missing), bytes: AtomicU64::new(0), done: tokio::sync::Notify::new() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether somebody asked for this chunk, and for as many bytes: what was approved was counted by them.
    fn wants(&self, id: &ChunkId, length: u64) -> bool {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.get(id).is_some_and(|wanted| u64::from(*wanted) == length)
    }

    /// Takes a chunk off the list after it was stored. False: it came twice.
    fn take(&self, id: &ChunkId) -> bool {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).remove(id).is_some()
    }
}

/// Opens one stream on a thread of its own, a few pieces behind the link.
pub(super) async fn open_stream(
    opener: Opener,
    mut stream: DataReceiver,
    stage: Arc<Stage>,
    wanted: Arc<Wanted>,
    room: Room,
) -> Result<(), FetchError> {
    let (pieces, sealed) = mpsc::channel(limits::PIECES);
    let opening = tokio::task::spawn_blocking(move || open(opener, sealed, &stage, &wanted, &room));
    loop {
        match stream.read_chunk(limits::PIECE_BYTES).await {
            Ok(Some(piece)) => {
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
            Ok(None) => {
                drop(pieces);
                return opening.await.unwrap_or_else(|error| Err(error.into()));
            }
            // A cut stream: what came whole is kept, the rest is asked for after the reconnect.
            Err(_) => {
                drop(pieces);
                return match opening.await {
                    Ok(Err(error @ (FetchError::NoSpace(_) | FetchError::World(_)))) => Err(error),
                    Ok(Ok(()) | Err(_)) | Err(_) => Ok(()),
                };
            }
        }
    }
    opening.await.unwrap_or_else(|error| Err(error.into()))
}

fn open(
    mut opener: Opener,
    mut sealed: mpsc::Receiver<bytes::Bytes>,
    stage: &Stage,
    wanted: &Wanted,
    room: &Room,
) -> Result<(), FetchError> {
    room.check()?;
    let integrity = |error: String| FetchError::Integrity(error);
    let mut reader = ChunkReader::default();
    let mut plain = Vec::with_capacity(limits::PIECE_BYTES * 2);
    let mut unsynced = 0;
    while let Some(piece) = sealed.blocking_recv() {
        plain.clear();
        opener.push(&piece, &mut plain).map_err(|error| integrity(error.to_string()))?;
        store(&mut reader, &plain, stage, wanted, &mut unsynced)?;
        if unsynced >= limits::SYNC_BYTES {
            stage.sync()?;
            unsynced = 0;
            room.check()?;
        }
    }
    plain.clear();
    opener.finish(&mut plain).map_err(|error| integrity(error.to_string()))?;
    store(&mut reader, &plain, stage, wanted, &mut unsynced)?;
    reader.finish().map_err(|error| integrity(error.to_string()))
}

fn store(
    reader: &mut ChunkReader,
    mut plain: &[u8],
    stage: &Stage,
    wanted: &Wanted,
    unsynced: &mut u64,
) -> Result<(), FetchError> {
    loop {
        let next = reader.next(&mut plain).map_err(|error| FetchError::Integrity(error.to_string()))?;
        let Some((id, bytes)) = next else { return Ok(()) };
        let length = bytes.len() as u64;
        if !wanted.wants(&id, length) {
            return Err(FetchError::Integrity("a chunk that nobody asked for".to_owned()));
        }
        stage.put(&id, &bytes)?;
        if !wanted.take(&id) {
            return Err(FetchError::Integrity("a chunk that came twice".to_owned()));
        }
        wanted.bytes.fetch_add(length, Ordering::Relaxed);
        *unsynced += length;
        if wanted.is_done() {
            wanted.done.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_counts_only_with_the_length_that_was_approved_and_only_once() {
        let id = ChunkId::of(&[7; 100_000]);
        let wanted = Wanted::new(vec![ChunkRef { id, length: 1 }]);
        assert!(!wanted.wants(&id, 100_000), "said to be one byte");
        assert!(!wanted.wants(&ChunkId::of(b"other"), 1));
        let honest = Wanted::new(vec![ChunkRef { id, length: 100_000 }]);
        assert!(honest.wants(&id, 100_000) && honest.take(&id));
        assert!(!honest.take(&id) && honest.is_done());
    }
}
