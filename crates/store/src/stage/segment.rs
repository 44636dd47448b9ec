//! One file of a stage: entries of `length u32, id, bytes`, one behind the other.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cede_wire::id::ChunkId;
use rustix::io::Errno;

use crate::disk::{self, DiskFault, while_doing};
use crate::limits::CHUNK_BYTES;

/// Bytes before a chunk.
pub(crate) const ENTRY_HEADER_BYTES: usize = 4 + 32;

/// Where the first entry begins.
pub(crate) const START: u64 = 0;

/// Where a chunk lies, in one word: eighteen bits of segment, twenty-eight of offset, eighteen of length less one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// A place within the limits, `None` beyond them. The offset is that of the chunk's first byte.
    pub(crate) fn new(segment: u32, offset: u64, length: usize) -> Option<Self> {
        let length = (length as u64).checked_sub(1)?;
        let fits = u64::from(segment) < 1 << 18 && offset < 1 << 28 && length < 1 << 18;
        fits.then_some(Self(u64::from(segment) << 46 | offset << 18 | length))
    }

    pub(crate) fn segment(self) -> u32 {
        (self.0 >> 46) as u32
    }

    pub(crate) fn offset(self) -> u64 {
        (self.0 >> 18) & ((1 << 28) - 1)
    }

    pub(crate) fn length(self) -> usize {
        (self.0 & ((1 << 18) - 1)) as usize + 1
    }

    /// Where its entry begins.
    pub(crate) fn begin(self) -> u64 {
        self.offset().saturating_sub(ENTRY_HEADER_BYTES as u64)
    }

    /// Where the next entry begins.
    pub(crate) fn end(self) -> u64 {
        self.offset() + self.length() as u64
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }
}

/// A file of a stage. Appended to under the stage's lock, flushed and read without it.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    end: AtomicU64,
}

impl Segment {
    pub(crate) fn new(file: File, end: u64) -> Self {
        Self { file, end: AtomicU64::new(end) }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Writes a chunk behind the last one. After a failure the end is where it was, and the next chunk overwrites
    /// what was left there.
    pub(crate) fn append(
        &self,
        number: u32,
        id: &ChunkId,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<Place, DiskFault> {
        let begin = self.end();
        let offset = begin + ENTRY_HEADER_BYTES as u64;
        let beyond = DiskFault { doing: "write to a stage", errno: Errno::FBIG };
        let place = Place::new(number, offset, bytes.len()).ok_or(beyond)?;
        scratch.clear();
        scratch.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        scratch.extend_from_slice(id.as_bytes());
        scratch.extend_from_slice(bytes);
        if let Err(error) = self.file.write_all_at(scratch, begin) {
            // Only to give the space back; a tail that stays is overwritten or cut off at the next start.
            let _ = self.file.set_len(begin);
            return Err(while_doing("write to a stage")(error));
        }
        self.end.store(place.end(), Ordering::Relaxed);
        Ok(place)
    }

    pub(crate) fn read(&self, place: Place, bytes: &mut [u8]) -> Result<(), DiskFault> {
        match self.file.read_exact_at(bytes, place.offset()) {
            // A file that became shorter gives zeros, which the hash refuses.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => bytes.fill(0),
            Err(error) => return Err(while_doing("read a stage")(error)),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Takes away what is behind `end`.
    pub(crate) fn cut(&self, end: u64) {
        if let Err(error) = self.file.set_len(end) {
            tracing::warn!(%error, "a stage that was not flushed cannot be cut; it is hashed when it is opened anew");
        }
    }

    pub(crate) fn flush(&self) -> Result<(), DiskFault> {
        self.file.sync_data().map_err(while_doing("flush a stage"))
    }
}

/// The entries between `from` and `length`: those that are whole and hash to their ids. Returns where they end.
pub(crate) fn scan(
    file: &File,
    number: u32,
    from: u64,
    length: u64,
    found: &mut Vec<(ChunkId, Place)>,
) -> Result<u64, DiskFault> {
    let mut at = from;
    let mut bytes = vec![0; CHUNK_BYTES];
    while at + (ENTRY_HEADER_BYTES as u64) < length {
        let mut head = [0; ENTRY_HEADER_BYTES];
        file.read_exact_at(&mut head, at).map_err(while_doing("read a stage"))?;
        let Some((place, id)) = read_head(number, at, head) else { break };
        let Some(chunk) = bytes.get_mut(..place.length()) else { break };
        if place.end() > length {
            break;
        }
        file.read_exact_at(chunk, place.offset()).map_err(while_doing("read a stage"))?;
        if ChunkId::of(chunk) != id {
            break;
        }
        found.push((id, place));
        at = place.end();
    }
    Ok(at)
}

fn read_head(number: u32, at: u64, head: [u8; ENTRY_HEADER_BYTES]) -> Option<(Place, ChunkId)> {
    let (length, id) = head.split_first_chunk::<4>()?;
    let id = ChunkId::new(*id.first_chunk()?);
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    Some((Place::new(number, at + ENTRY_HEADER_BYTES as u64, length)?, id))
}

/// Opens a segment of an earlier run.
pub(crate) fn find(dir: &Path, number: u32) -> Result<Option<File>, DiskFault> {
    match disk::open_file(&path(dir, number)) {
        Ok(file) => Ok(Some(file)),
        Err(fault) if fault.errno == Errno::NOENT => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Creates a segment. One of this name was left behind a missing one by a power cut, and nobody was told of it.
pub(crate) fn create(dir: &Path, number: u32) -> Result<File, DiskFault> {
    let path = path(dir, number);
    disk::remove_file(&path)?;
    disk::create_file(&path)
}

fn path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("segment-{number:06}"))
}
