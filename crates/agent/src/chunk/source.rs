//! Where a chunk can be read again on this machine.

use std::io;
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

/// The files of a capture by the chunks they hold. 48 bytes a chunk, and the paths.
#[derive(Debug, Clone, Default)]
pub struct SourceFiles {
    files: Vec<PathBuf>,
    spots: Vec<Spot>,
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
            all.push(path, chunks);
        }
        all.sort();
        all
    }

    /// Adds the files of another capture: a transcript beside a tree.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        let shift = self.files.len() as u32;
        self.files.extend(other.files);
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
        let read = open_regular(path)?.read_exact_at(into, spot.offset);
        match read {
            Ok(()) if ChunkId::of(into) == *id => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(ReadError::of(path, &error).into()),
            _ => Err(ReadChunkError::Changed { path: shown(path) }),
        }
    }

    /// True if a file of the capture holds it.
    pub fn contains(&self, id: &ChunkId) -> bool {
        self.find(id).is_some()
    }

    /// Number of distinct chunks.
    pub fn len(&self) -> usize {
        self.spots.len()
    }

    /// True without a chunk.
    pub fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }

    fn find(&self, id: &ChunkId) -> Option<(&Spot, &Path)> {
        let at = self.spots.binary_search_by(|spot| spot.id.cmp(id)).ok()?;
        let spot = self.spots.get(at)?;
        Some((spot, self.files.get(spot.file as usize)?))
    }

    fn push(&mut self, path: PathBuf, chunks: &[ChunkRef]) {
        if chunks.is_empty() {
            return;
        }
        let file = self.files.len() as u32;
        self.files.push(path);
        let mut offset = 0;
        for chunk in chunks {
            self.spots.push(Spot { id: chunk.id, file, length: chunk.length, offset });
            offset += u64::from(chunk.length);
        }
    }

    fn sort(&mut self) {
        self.spots.sort_unstable_by_key(|spot| (spot.id, spot.file, spot.offset));
        self.spots.dedup_by_key(|spot| spot.id);
        self.spots.shrink_to_fit();
    }
}
