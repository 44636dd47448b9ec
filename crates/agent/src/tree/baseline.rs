//! Whether a directory still is what a catalog says.

use std::collections::BTreeMap;
use std::path::Path;

use cede_wire::catalog::Entry;
use cede_wire::id::Hash;

use super::CaptureError;
use crate::chunk::StatCache;

/// The last handoff state of a directory: a digest per path. Times are left out: a touched file is the same file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Baseline {
    paths: BTreeMap<Vec<u8>, Hash>,
}

impl Baseline {
    /// Takes the state from a catalog's entries.
    pub fn of(entries: &[Entry]) -> Self {
        let _ = entries;
        Self::default()
    }
}

/// Why a directory and a catalog were not compared, or how they differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// They differ.
    #[error("the directory is not as the last handoff left it: {}", .0.join(", "))]
    Differs(Vec<String>),
    /// The directory could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

/// Says whether a directory still equals a baseline.
///
/// # Errors
/// [`CompareError`]; with the first paths that differ, escaped.
pub fn verify_equal(
    directory: &Path,
    baseline: &Baseline,
    scratch: &Path,
    cache: &mut StatCache,
) -> Result<(), CompareError> {
    let _ = (directory, &baseline.paths, scratch, cache);
    Err(CompareError::Differs(Vec::new()))
}
