//! The chunks of one incoming handoff, in a few append-only files, until they are installed or discarded.
//!
//! A chunk is taken in when its bytes hash to its id and checked again whenever it is read. After a crash every
//! chunk that is whole is there still: those listed in the extent file were flushed before they were listed and are
//! believed; those behind it are hashed once. Source: SPEC J-10.

mod extent;
mod segment;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cede_wire::id::{ChunkId, HandoffId, TransferId};

use crate::disk::{self, DiskFault};
use crate::home::{Claim, Home, STAGES};
use crate::limits::{self, CHUNK_BYTES, SEGMENT_BYTES, SEGMENTS, STAGE_CHUNKS};
use extent::Extents;
use segment::{ENTRY_HEADER_BYTES, Place, Segment};

/// Evidence that every chunk put before it is on the disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Synced {
    chunks: usize,
}

impl Synced {
    /// How many chunks are on the disk.
    pub fn chunks(&self) -> usize {
        self.chunks
    }
}

/// Why a stage did not take, give or keep a chunk. The chunks before are there still.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// Caller: there is one handle only.
    #[error("the stage is open already")]
    AlreadyOpen,
    /// Caller: too many handoffs are on their way.
    #[error("too many stages: {}; discard those that were given up", limits::STAGES)]
    TooManyStages,
    /// Peer: the bytes are not those that the id names. Nothing was written.
    #[error("the bytes of chunk {} are not what its id says", .0.short())]
    Mismatch(ChunkId),
    /// Peer: empty, or longer than any chunk. Nothing was written.
    #[error("a chunk of {0} bytes")]
    Length(usize),
    /// Peer: more chunks than a stage holds. Nothing was written.
    #[error("too many chunks in one stage: {STAGE_CHUNKS}")]
    TooManyChunks,
    /// Caller: no chunk of this id was put.
    #[error("chunk {} is not in the stage", .0.short())]
    Missing(ChunkId),
    /// World: what was written once reads differently now. The chunk is forgotten and can be put again.
    #[error("chunk {} is corrupt on the disk", .0.short())]
    Corrupt(ChunkId),
    /// World: the disk is full. The stage is as it was and can be discarded.
    #[error("no space left for the stage")]
    NoSpace,
    /// World: a flush failed earlier. What was not flushed before it was cut off; opened anew it holds what was.
    #[error("the stage has stopped after a failed flush")]
    Stopped,
    /// World: the disk said no.
    #[error("the stage failed")]
    Disk(#[source] DiskFault),
}

impl From<DiskFault> for StageError {
    fn from(fault: DiskFault) -> Self {
        if fault.is_full() { Self::NoSpace } else { Self::Disk(fault) }
    }
}

/// The chunks of one handoff. Any thread may put and read.
#[derive(Debug)]
pub struct Stage {
    home: Home,
    dir: PathBuf,
    inner: Mutex<Inner>,
    /// One sync at a time: the list of flushed chunks has no gaps.
    syncing: Mutex<()>,
    _claim: Claim,
}

#[derive(Debug)]
struct Inner {
    chunks: BTreeMap<ChunkId, Place>,
    segments: Vec<Arc<Segment>>,
    /// Put, and not listed as flushed yet.
    fresh: Vec<(ChunkId, Place)>,
    /// Number of the first segment that may hold unflushed bytes.
    unflushed: usize,
    /// Segments were created since the directory was flushed.
    grown: bool,
    extents: Extents,
    scratch: Vec<u8>,
    bytes: u64,
    stopped: bool,
}

/// A segment of an earlier run.
struct Found {
    file: File,
    length: u64,
    /// Where the listed chunks end.
    listed: u64,
}

impl Home {
    /// Opens the stage of a handoff, or begins one, and finds the chunks that an earlier run left.
    ///
    /// # Errors
    /// [`StageError`]; nothing was changed but for a torn end that was cut off.
    pub fn stage(&self, handoff: HandoffId) -> Result<Stage, StageError> {
        self.open_stage(&handoff.to_string())
    }

    /// The same for files that are sent. Such a stage is not among [`Home::staged`].
    ///
    /// # Errors
    /// [`StageError`]; nothing was changed but for a torn end that was cut off.
    pub fn transfer_stage(&self, transfer: TransferId) -> Result<Stage, StageError> {
        self.open_stage(&transfer_name(transfer))
    }

    fn open_stage(&self, name: &str) -> Result<Stage, StageError> {
        let claim = self.claim(format!("stage {name}")).ok_or(StageError::AlreadyOpen)?;
        let dir = self.path(STAGES).join(name);
        if !dir.exists() && disk::list(&self.path(STAGES), limits::STAGES)?.len() >= limits::STAGES {
            return Err(StageError::TooManyStages);
        }
        disk::make_dir(&dir)?;
        let inner = Mutex::new(Inner::open(&dir)?);
        Ok(Stage { home: self.clone(), dir, inner, syncing: Mutex::new(()), _claim: claim })
    }

    /// Removes the stage of a handoff without looking into it, unless there is none.
    ///
    /// # Errors
    /// [`StageError`]; what is left is removed by the next attempt.
    pub fn discard_stage(&self, handoff: HandoffId) -> Result<(), StageError> {
        self.discard_named(&handoff.to_string())
    }

    /// The same for files that are sent.
    ///
    /// # Errors
    /// [`StageError`]; what is left is removed by the next attempt.
    pub fn discard_transfer_stage(&self, transfer: TransferId) -> Result<(), StageError> {
        self.discard_named(&transfer_name(transfer))
    }

    fn discard_named(&self, name: &str) -> Result<(), StageError> {
        let _claim = self.claim(format!("stage {name}")).ok_or(StageError::AlreadyOpen)?;
        remove(self, &self.path(STAGES).join(name))
    }

    /// The transfers that have a stage, in order.
    ///
    /// # Errors
    /// [`StageError`]; nothing was changed.
    pub fn staged_transfers(&self) -> Result<Vec<TransferId>, StageError> {
        let paths = disk::list(&self.path(STAGES), limits::STAGES)?;
        let id = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix(TRANSFER)?.parse().ok();
        Ok(paths.iter().filter_map(id).collect())
    }

    /// The handoffs that have a stage, in order.
    ///
    /// # Errors
    /// [`StageError`]; nothing was changed.
    pub fn staged(&self) -> Result<Vec<HandoffId>, StageError> {
        let paths = disk::list(&self.path(STAGES), limits::STAGES)?;
        let id = |path: &PathBuf| HandoffId::from_str(path.file_name()?.to_str()?).ok();
        Ok(paths.iter().filter_map(id).collect())
    }
}

impl Stage {
    /// Takes a chunk in, unless it is there. It is durable after the next [`Stage::sync`]. Source: SPEC J-9.
    ///
    /// # Errors
    /// [`StageError`]; the stage is as it was.
    pub fn put(&self, id: &ChunkId, bytes: &[u8]) -> Result<(), StageError> {
        if !(1..=CHUNK_BYTES).contains(&bytes.len()) {
            return Err(StageError::Length(bytes.len()));
        }
        if ChunkId::of(bytes) != *id {
            return Err(StageError::Mismatch(*id));
        }
        self.inner().put(&self.dir, id, bytes)
    }

    /// Whether a chunk is there.
    pub fn has(&self, id: &ChunkId) -> bool {
        self.inner().chunks.contains_key(id)
    }

    /// Reads a chunk into `bytes`, in the place of what was in it.
    ///
    /// # Errors
    /// [`StageError`]; a corrupt chunk is forgotten, so that it can be put again.
    pub fn read(&self, id: &ChunkId, bytes: &mut Vec<u8>) -> Result<(), StageError> {
        let (place, segment) = self.inner().find(id).ok_or(StageError::Missing(*id))?;
        bytes.resize(place.length(), 0);
        match segment.read(place, bytes) {
            Ok(()) if ChunkId::of(bytes) == *id => Ok(()),
            Ok(()) => {
                self.inner().forget(id, place);
                bytes.clear();
                Err(StageError::Corrupt(*id))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Makes every chunk that was put before this call durable. Costs one flush per file that grew.
    ///
    /// # Errors
    /// [`StageError`]; after a failed flush the stage can be discarded, or opened anew with what was flushed before.
    pub fn sync(&self) -> Result<Synced, StageError> {
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (segments, grown, fresh, chunks) = {
            let mut inner = self.inner();
            inner.check()?;
            let segments = inner.segments.get(inner.unflushed..).unwrap_or_default().to_vec();
            inner.unflushed = inner.segments.len().saturating_sub(1);
            (segments, std::mem::take(&mut inner.grown), std::mem::take(&mut inner.fresh), inner.chunks.len())
        };
        // Not under the lock: other threads go on putting while the disk works.
        let flushed = segments.iter().try_for_each(|segment| segment.flush());
        let flushed = flushed.and_then(|()| if grown { disk::sync_dir(&self.dir) } else { Ok(()) });
        let mut inner = self.inner();
        if let Err(fault) = flushed {
            inner.stopped = true;
            inner.cut(&fresh);
            return Err(fault.into());
        }
        inner.extents.append(&fresh);
        Ok(Synced { chunks })
    }

    /// Length of all chunks together.
    pub fn len_bytes(&self) -> u64 {
        self.inner().bytes
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.inner().chunks.len()
    }

    /// Counts the bytes that we may still write.
    ///
    /// # Errors
    /// [`StageError`]; nothing was changed.
    pub fn free_bytes(&self) -> Result<u64, StageError> {
        Ok(self.home.free_bytes()?)
    }

    /// Removes the stage and everything in it.
    ///
    /// # Errors
    /// [`StageError`]; what is left is removed by the next attempt.
    pub fn discard(self) -> Result<(), StageError> {
        remove(&self.home, &self.dir)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn transfer_name(transfer: TransferId) -> String {
    format!("{TRANSFER}{transfer}")
}

fn remove(home: &Home, dir: &Path) -> Result<(), StageError> {
    disk::remove_dir(dir)?;
    Ok(disk::sync_dir(&home.path(STAGES))?)
}

impl Inner {
    fn open(dir: &Path) -> Result<Self, StageError> {
        let mut inner = Self {
            chunks: BTreeMap::new(),
            segments: Vec::new(),
            fresh: Vec::new(),
            unflushed: 0,
            grown: true,
            extents: Extents::open(dir)?,
            scratch: Vec::with_capacity(ENTRY_HEADER_BYTES + CHUNK_BYTES),
            bytes: 0,
            stopped: false,
        };
        let mut files = Vec::new();
        for number in 0..SEGMENTS {
            let Some(file) = segment::find(dir, number)? else { break };
            let length = file.metadata().map_err(disk::while_doing("look at a stage"))?.len();
            files.push(Found { file, length, listed: segment::START });
        }
        inner.believe(&mut files)?;
        for (number, found) in (0..).zip(files) {
            inner.load(number, found)?;
        }
        Ok(inner)
    }

    /// Takes over the chunks that are listed, as far as the segments reach.
    fn believe(&mut self, files: &mut [Found]) -> Result<(), StageError> {
        while let Some((id, place)) = self.extents.next()? {
            if let Some(found) = files.get_mut(place.segment() as usize)
                && place.end() <= found.length
            {
                found.listed = found.listed.max(place.end());
                self.note(id, place);
            }
        }
        Ok(self.extents.cut()?)
    }

    /// Takes over the chunks behind those that are listed, after a look at each, and cuts off what is not whole.
    fn load(&mut self, number: u32, found: Found) -> Result<(), StageError> {
        let Found { file, length, listed } = found;
        let mut chunks = Vec::new();
        let whole = segment::scan(&file, number, listed, length, &mut chunks)?;
        if whole < length {
            tracing::info!(segment = number, bytes = length - whole, "a torn end of a stage was cut off");
            file.set_len(whole).map_err(disk::while_doing("cut a stage"))?;
        }
        for (id, place) in chunks {
            self.fresh.push((id, place));
            self.note(id, place);
        }
        self.segments.push(Arc::new(Segment::new(file, whole)));
        Ok(())
    }

    fn note(&mut self, id: ChunkId, place: Place) {
        if self.chunks.insert(id, place).is_none() {
            self.bytes += place.length() as u64;
        }
    }

    fn put(&mut self, dir: &Path, id: &ChunkId, bytes: &[u8]) -> Result<(), StageError> {
        self.check()?;
        if self.chunks.contains_key(id) {
            return Ok(());
        }
        if self.chunks.len() >= STAGE_CHUNKS {
            return Err(StageError::TooManyChunks);
        }
        let (number, segment) = self.open_segment(dir, bytes.len())?;
        let place = segment.append(number, id, bytes, &mut self.scratch)?;
        self.fresh.push((*id, place));
        self.note(*id, place);
        Ok(())
    }

    /// The last segment, or a new one when that is full.
    fn open_segment(&mut self, dir: &Path, bytes: usize) -> Result<(u32, Arc<Segment>), StageError> {
        let entry = (ENTRY_HEADER_BYTES + bytes) as u64;
        let count = u32::try_from(self.segments.len()).unwrap_or(SEGMENTS);
        if let Some(last) = self.segments.last()
            && last.end() + entry <= SEGMENT_BYTES
        {
            return Ok((count - 1, Arc::clone(last)));
        }
        if count >= SEGMENTS {
            return Err(StageError::TooManyChunks);
        }
        let segment = Arc::new(Segment::new(segment::create(dir, count)?, segment::START));
        self.segments.push(Arc::clone(&segment));
        self.grown = true;
        Ok((count, segment))
    }

    fn find(&self, id: &ChunkId) -> Option<(Place, Arc<Segment>)> {
        let place = *self.chunks.get(id)?;
        let segment = self.segments.get(place.segment() as usize)?;
        Some((place, Arc::clone(segment)))
    }

    fn forget(&mut self, id: &ChunkId, place: Place) {
        if self.chunks.get(id) == Some(&place) {
            self.chunks.remove(id);
            self.bytes -= place.length() as u64;
        }
    }

    /// Cuts off what was not flushed: it can be read until the system forgets it, and whoever opens the stage anew would
    /// believe it.
    fn cut(&mut self, doubtful: &[(ChunkId, Place)]) {
        let mut ends = BTreeMap::new();
        for (_, place) in doubtful.iter().chain(&std::mem::take(&mut self.fresh)) {
            let end: &mut u64 = ends.entry(place.segment()).or_insert(u64::MAX);
            *end = place.begin().min(*end);
        }
        for (number, end) in ends {
            if let Some(segment) = self.segments.get(number as usize) {
                segment.cut(end);
            }
        }
    }

    fn check(&self) -> Result<(), StageError> {
        if self.stopped { Err(StageError::Stopped) } else { Ok(()) }
    }
}

/// How the directory of a transfer's stage begins.
const TRANSFER: &str = "transfer-";

#[cfg(test)]
mod tests;
