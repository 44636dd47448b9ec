//! The list of chunks that were flushed: `place u64, id, crc32c`, one behind the other.
//!
//! It only saves work: a chunk is listed after it was flushed, so a listed one need not be hashed at the next start.
//! A list that is short, torn or missing costs time and nothing else; it is never flushed by itself.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cede_wire::id::ChunkId;
use rustix::io::Errno;

use super::segment::Place;
use crate::crc::crc32c;
use crate::disk::{self, DiskFault, while_doing};
use crate::limits::STAGE_CHUNKS;

/// The list. It is read entry by entry, cut behind the last good one, then appended to.
#[derive(Debug)]
pub(crate) struct Extents {
    file: BufReader<File>,
    end: u64,
    /// A write failed. The rest goes unlisted.
    stopped: bool,
}

impl Extents {
    /// Opens the list, or begins one.
    pub(crate) fn open(dir: &Path) -> Result<Self, DiskFault> {
        let path = dir.join(NAME);
        let file = match disk::open_file(&path) {
            Err(fault) if fault.errno == Errno::NOENT => disk::create_file(&path)?,
            other => other?,
        };
        Ok(Self { file: BufReader::new(file), end: 0, stopped: false })
    }

    /// The next entry, `None` at the end and at the first bad one.
    pub(crate) fn next(&mut self) -> Result<Option<(ChunkId, Place)>, DiskFault> {
        let mut bytes = [0; ENTRY_BYTES];
        match self.file.read_exact(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(while_doing("read a stage's list")(error)),
            Ok(()) => {}
        }
        let entry = read_entry(&bytes);
        if entry.is_some() && self.end < LONGEST {
            self.end += ENTRY_BYTES as u64;
            return Ok(entry);
        }
        Ok(None)
    }

    /// Cuts the list behind the last entry that was read.
    pub(crate) fn cut(&mut self) -> Result<(), DiskFault> {
        self.file.get_ref().set_len(self.end).map_err(while_doing("cut a stage's list"))
    }

    /// Lists chunks that are flushed.
    pub(crate) fn append(&mut self, fresh: &[(ChunkId, Place)]) {
        let bytes: Vec<u8> = fresh.iter().flat_map(|(id, place)| entry(id, *place)).collect();
        if self.stopped || bytes.is_empty() {
            return;
        }
        if let Err(error) = self.file.get_ref().write_all_at(&bytes, self.end) {
            tracing::debug!(%error, "the list of a stage ends here; the next start hashes what follows");
            self.stopped = true;
            return;
        }
        self.end += bytes.len() as u64;
    }
}

fn entry(id: &ChunkId, place: Place) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(&place.to_bytes());
    bytes[8..40].copy_from_slice(id.as_bytes());
    let crc = crc32c(&[&bytes[..40]]);
    bytes[40..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn read_entry(bytes: &[u8]) -> Option<(ChunkId, Place)> {
    let (place, rest) = bytes.split_first_chunk::<8>()?;
    let (id, crc) = rest.split_first_chunk::<32>()?;
    let sound = crc.first_chunk::<4>() == Some(&crc32c(&[place, id]).to_le_bytes());
    sound.then(|| (ChunkId::new(*id), Place::from_bytes(*place)))
}

const NAME: &str = "extents";
const ENTRY_BYTES: usize = 8 + 32 + 4;
/// A chunk that was corrupt and put again is listed twice.
const LONGEST: u64 = 2 * (STAGE_CHUNKS * ENTRY_BYTES) as u64;
