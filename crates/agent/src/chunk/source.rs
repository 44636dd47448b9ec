//! Where a chunk can be read again on this machine.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cede_wire::catalog::ChunkRef;
use cede_wire::id::ChunkId;

use super::{ReadError, open_regular, shown};

/// Why a chunk was not read. The capture that named it is out of date; a new one is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadChunkError {
    /// No file of the capture holds it.
    #[error("no captured file holds chunk {0}")]
    Unknown(ChunkId),
    /// The file changed after it was captured.
    #[error("the file changed after it was captured: {path}")]
    Changed {
        /// The file, escaped.
        path: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The files of a capture by the chunks they hold. 48 bytes a chunk, 12 a file, and the names.
#[derive(Debug, Clone, Default)]
pub struct SourceFiles {
    /// Directories, most of them once: neighbours share theirs.
    directories: Vec<PathBuf>,
    /// The last names, side by side.
    names: Vec<u8>,
    files: Vec<Name>,
    spots: Vec<Spot>,
}

#[derive(Debug, Clone, Copy)]
struct Name {
    directory: u32,
    start: u32,
    end: u32,
}

#[derive(Debug, Clone, Copy)]
struct Spot {
    id: ChunkId,
    file: u32,
    length: u32,
    offset: u64,
}

impl SourceFiles {
    /// Takes files with their chunks, in order.
    pub fn collect<'a>(files: impl IntoIterator<Item = (PathBuf, &'a [ChunkRef])>) -> Self {
        let mut all = Self::default();
        for (path, chunks) in files {
            all.push(&path, chunks);
        }
        all.sort();
        all
    }

    /// Every distinct chunk, in the order of its first use.
    pub fn chunks(&self) -> Vec<ChunkRef> {
        let mut spots: Vec<&Spot> = self.spots.iter().collect();
        spots.sort_unstable_by_key(|spot| (spot.file, spot.offset));
        spots.into_iter().map(|spot| ChunkRef { id: spot.id, length: spot.length }).collect()
    }

    /// Adds the files of another capture: a transcript beside a tree.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        let shift = self.files.len() as u32;
        let (above, before) = (self.directories.len() as u32, self.names.len() as u32);
        self.directories.extend(other.directories);
        self.names.extend(other.names);
        let moved =
            |name: Name| Name { directory: name.directory + above, start: name.start + before, end: name.end + before };
        self.files.extend(other.files.into_iter().map(moved));
        self.spots.extend(other.spots.into_iter().map(|spot| Spot { file: spot.file + shift, ..spot }));
        self.sort();
        self
    }

    /// Reads a chunk again and checks it. `into` is cleared first; on an error its content means nothing.
    ///
    /// # Errors
    /// [`ReadChunkError`].
    pub fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> Result<(), ReadChunkError> {
        let (spot, path) = self.find(id).ok_or(ReadChunkError::Unknown(*id))?;
        into.clear();
        into.resize(spot.length as usize, 0);
        let path = path.as_path();
        let read = open_regular(path)?.read_exact_at(into, spot.offset);
        match read {
            Ok(()) if ChunkId::of(into) == *id => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(ReadError::of(path, &error).into()),
            _ => Err(ReadChunkError::Changed { path: shown(path) }),
        }
    }

    /// True if a file of the capture holds it.
    pub fn contains(&self, id: &ChunkId) -> bool {
        self.spot(id).is_some()
    }

    /// Number of distinct chunks.
    pub fn len(&self) -> usize {
        self.spots.len()
    }

    /// True without a chunk.
    pub fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }

    fn find(&self, id: &ChunkId) -> Option<(&Spot, PathBuf)> {
        let spot = self.spot(id)?;
        let name = self.files.get(spot.file as usize)?;
        let last = self.names.get(name.start as usize..name.end as usize)?;
        Some((spot, self.directories.get(name.directory as usize)?.join(OsStr::from_bytes(last))))
    }

    fn spot(&self, id: &ChunkId) -> Option<&Spot> {
        self.spots.get(self.spots.binary_search_by(|spot| spot.id.cmp(id)).ok()?)
    }

    pub(crate) fn push(&mut self, path: &Path, chunks: &[ChunkRef]) {
        let (Some(above), Some(last)) = (path.parent(), path.file_name()) else { return };
        if chunks.is_empty() {
            return;
        }
        if self.directories.last().is_none_or(|directory| directory != above) {
            self.directories.push(above.to_path_buf());
        }
        let file = self.files.len() as u32;
        let start = self.names.len() as u32;
        self.names.extend_from_slice(last.as_bytes());
        self.files.push(Name { directory: self.directories.len() as u32 - 1, start, end: self.names.len() as u32 });
        let mut offset = 0;
        for chunk in chunks {
            self.spots.push(Spot { id: chunk.id, file, length: chunk.length, offset });
            offset += u64::from(chunk.length);
        }
    }

    /// To be called once after the last push.
    pub(crate) fn sort(&mut self) {
        self.spots.sort_unstable_by_key(|spot| (spot.id, spot.file, spot.offset));
        self.spots.dedup_by_key(|spot| spot.id);
        self.spots.shrink_to_fit();
        self.files.shrink_to_fit();
        self.names.shrink_to_fit();
    }
}
