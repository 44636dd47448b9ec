//! Files as content-defined chunks, and the way back from a chunk to the file that holds it.
//!
//! A file is read once, in pieces; memory does not depend on its size.

mod cache;
mod reading;
mod source;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use cede_wire::catalog::{ChunkRef, Mtime, Oid};
use cede_wire::id::ChunkId;
use cede_wire::limits::{CHUNK_AVERAGE_BYTES, CHUNK_MAX_BYTES, CHUNK_MIN_BYTES};
use cede_wire::path::escape;
use fastcdc::v2020::{Normalization, cut, select_masks};
use rustix::io::Errno;
use sha1::{Digest, Sha1};

pub use cache::{Fresh, Known, StatCache};
pub(crate) use cache::{HalfDigest, PackMade, digest, milliseconds, stat_digest};
pub use reading::Reading;
pub use source::{ReadChunkError, SourceFiles};

use crate::limits::{READ_ATTEMPTS, READ_BUFFER_BYTES};

/// Why a file was not read. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not there.
    #[error("no such file: {0}")]
    Missing(String),
    /// A directory, link, pipe, socket or device.
    #[error("not a regular file: {0}")]
    NotRegular(String),
    /// It changed each time it was read.
    #[error("the file changes while it is read: {0}")]
    Changing(String),
    /// The system refused.
    #[error("cannot read {path}: {kind}")]
    Io {
        /// The file, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
}

impl ReadError {
    pub(crate) fn of(path: &Path, error: &io::Error) -> Self {
        let shown = shown(path);
        let kind = error.kind();
        if kind == io::ErrorKind::NotFound { Self::Missing(shown) } else { Self::Io { path: shown, kind } }
    }
}

/// What the file system says about a file; equal values mean an unchanged file, within the tick of its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileStat {
    /// Length, bytes.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Mtime,
    /// Last change of the file as such.
    pub ctime: Mtime,
    /// Which file.
    pub inode: u64,
    /// On which file system.
    pub device: u64,
    /// Type and permission bits.
    pub mode: u32,
}

impl FileStat {
    /// Reads it from metadata.
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        let time = |seconds, nanos: i64| Mtime { seconds, nanos: u32::try_from(nanos).unwrap_or(0) };
        Self {
            size: metadata.size(),
            mtime: time(metadata.mtime(), metadata.mtime_nsec()),
            ctime: time(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
            device: metadata.dev(),
            mode: metadata.mode(),
        }
    }

    /// The permission bits, without set-user-id and its like.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o777
    }
}

/// A file's content as it stood at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The chunks, in order; none where only the blob id was wanted.
    pub chunks: Vec<ChunkRef>,
    /// What the file system said before and after.
    pub stat: FileStat,
    /// The id that git gives these bytes (SHA-1), where it was wanted.
    pub blob: Option<Oid>,
}

/// What to compute while a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The chunks.
    Chunks,
    /// Git's id of the content.
    Blob,
    /// Both.
    Both,
}

/// Reads a regular file and cuts it. The last component of the path is not followed if it is a link.
///
/// # Errors
/// [`ReadError`]; nothing was changed.
pub fn chunk_file(path: &Path) -> Result<FileContent, ReadError> {
    Chunker::new().read(&mut open_regular(path)?, path, Want::Chunks)
}

/// Cuts bytes that are in memory: a catalog, a small record.
pub fn chunk_bytes(bytes: &[u8]) -> Vec<ChunkRef> {
    let mut chunks = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(next_cut(rest));
        chunks.push(chunk_ref(piece));
        rest = after;
    }
    chunks
}

/// Opens a regular file for reading, without following a link at the end and without waiting for a pipe.
///
/// # Errors
/// [`ReadError`].
pub fn open_regular(path: &Path) -> Result<File, ReadError> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        // A link, or a socket.
        Some(Errno::LOOP | Errno::NXIO | Errno::OPNOTSUPP) => ReadError::NotRegular(shown(path)),
        _ => ReadError::of(path, &error),
    })
}

/// Cuts files one after the other with one buffer.
pub struct Chunker {
    buffer: Vec<u8>,
    reading: Arc<Reading>,
}

impl Default for Chunker {
    fn default() -> Self {
        Self::new()
    }
}

impl Chunker {
    /// Makes the buffer.
    pub fn new() -> Self {
        Self::watched(Arc::default())
    }

    /// Makes the buffer. What is read is counted there, and ends when that is stopped.
    pub fn watched(reading: Arc<Reading>) -> Self {
        Self { buffer: vec![0; READ_BUFFER_BYTES], reading }
    }

    /// Reads an opened file from its beginning; reads again, a bounded number of times, if it changes meanwhile.
    ///
    /// # Errors
    /// [`ReadError`]; `path` only names the file in it.
    pub fn read(&mut self, file: &mut File, path: &Path, want: Want) -> Result<FileContent, ReadError> {
        self.reading.file();
        for _ in 0..READ_ATTEMPTS {
            let before = regular_stat(file, path)?;
            let (chunks, blob, length) = self.pass(file, before.size, want).map_err(|e| ReadError::of(path, &e))?;
            let after = regular_stat(file, path)?;
            if before == after && length == before.size {
                return Ok(FileContent { chunks, stat: before, blob });
            }
            file.seek(SeekFrom::Start(0)).map_err(|e| ReadError::of(path, &e))?;
        }
        Err(ReadError::Changing(shown(path)))
    }

    fn pass(&mut self, file: &mut File, size: u64, want: Want) -> io::Result<(Vec<ChunkRef>, Option<Oid>, u64)> {
        let mut blob = (want != Want::Chunks).then(|| Sha1::new_with_prefix(format!("blob {size}\0")));
        let (mut chunks, mut length) = (Vec::new(), 0);
        let (mut filled, mut ended) = (0, false);
        loop {
            while !ended && filled < self.buffer.len() {
                let got = read_some(file, self.buffer.get_mut(filled..).unwrap_or_default())?;
                ended = got == 0 || length + (got as u64) > size;
                if let Some(hash) = &mut blob {
                    hash.update(self.buffer.get(filled..filled + got).unwrap_or_default());
                }
                filled += got;
                length += got as u64;
                self.reading.read(got);
            }
            if self.reading.is_stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let used = self.cut_buffer(filled, ended, want, &mut chunks);
            self.buffer.copy_within(used..filled, 0);
            filled -= used;
            if ended {
                // A list of one is made for four: with a hundred thousand small files that is most of the memory.
                chunks.shrink_to_fit();
                return Ok((chunks, blob.and_then(|hash| Oid::try_from(hash.finalize().to_vec()).ok()), length));
            }
        }
    }

    /// Cuts what is certain: near the end of the buffer a cut could still move with what follows.
    fn cut_buffer(&self, filled: usize, ended: bool, want: Want, chunks: &mut Vec<ChunkRef>) -> usize {
        if want == Want::Blob {
            return filled;
        }
        let mut used = 0;
        while let Some(rest) = self.buffer.get(used..filled).filter(|rest| !rest.is_empty()) {
            if !ended && rest.len() < CHUNK_MAX_BYTES as usize {
                break;
            }
            let piece = rest.get(..next_cut(rest)).unwrap_or(rest);
            chunks.push(chunk_ref(piece));
            used += piece.len();
        }
        used
    }
}

fn read_some(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn regular_stat(file: &File, path: &Path) -> Result<FileStat, ReadError> {
    let metadata = file.metadata().map_err(|e| ReadError::of(path, &e))?;
    if metadata.is_file() { Ok(FileStat::of(&metadata)) } else { Err(ReadError::NotRegular(shown(path))) }
}

/// Length of the first chunk, at least 1 where there is a byte.
fn next_cut(bytes: &[u8]) -> usize {
    let (min, average, max) = (CHUNK_MIN_BYTES as usize, CHUNK_AVERAGE_BYTES as usize, CHUNK_MAX_BYTES as usize);
    if bytes.len() <= min {
        return bytes.len();
    }
    let (small, large) = select_masks(average, Normalization::Level1);
    let (_, length) = cut(bytes, min, average, max, small, large, small << 1, large << 1);
    length.clamp(1, bytes.len())
}

fn chunk_ref(piece: &[u8]) -> ChunkRef {
    ChunkRef { id: ChunkId::of(piece), length: piece.len() as u32 }
}

pub(crate) fn shown(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    escape(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests;
