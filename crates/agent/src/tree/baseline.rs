//! Whether a directory still is what a catalog says.

use std::collections::BTreeMap;
use std::path::Path;

use cede_wire::canonical::encode;
use cede_wire::catalog::{Body, Entry, Place};
use cede_wire::id::Hash;
use cede_wire::path::escape;

use super::capture::capture_with;
use super::state::PACK;
use super::{Capture, CaptureError, CaptureOptions, Tree, inspect};
use crate::chunk::StatCache;
use crate::limits::PATHS_SHOWN;

/// The last handoff state of a directory: a digest per path. Times are left out: a touched file is the same file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Baseline {
    tree: BTreeMap<Vec<u8>, Hash>,
    git: BTreeMap<Vec<u8>, Hash>,
    exclude: Vec<String>,
    without_untracked: bool,
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

impl Baseline {
    /// Takes the state from a catalog's entries.
    pub fn of(entries: &[Entry]) -> Self {
        let mut baseline = Self::default();
        for entry in entries {
            let path = entry.path.as_bytes().to_vec();
            match entry.place {
                Place::Tree => baseline.tree.insert(path, digest(&entry.body)),
                Place::Git if !is_pack(&path) => baseline.git.insert(path, digest(&entry.body)),
                Place::Git | Place::Transcript => None,
            };
        }
        baseline
    }

    /// The same for a capture that left untracked files behind: they are still here and make no difference.
    #[must_use]
    pub fn leaving(mut self, exclude: &[String], untracked: bool) -> Self {
        self.exclude = exclude.to_vec();
        self.without_untracked = !untracked;
        self
    }

    /// True if a file or directory of the tree stood at this path.
    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        self.tree.contains_key(path)
    }

    /// The first paths that differ, escaped.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (ours, theirs, prefix) in [(&self.tree, &other.tree, ""), (&self.git, &other.git, ".git: ")] {
            let changed = ours.iter().filter(|(path, digest)| theirs.get(*path) != Some(digest)).map(|(path, _)| path);
            let added = theirs.keys().filter(|path| !ours.contains_key(*path));
            found.extend(changed.chain(added).take(PATHS_SHOWN).map(|path| format!("{prefix}{}", escape(path))));
        }
        found.truncate(PATHS_SHOWN);
        found
    }
}

/// Says whether a directory still equals a baseline. Ignored files count only where the baseline has them.
///
/// # Errors
/// [`CompareError`]; with the first paths that differ, escaped.
pub fn verify_equal(
    directory: &Path,
    baseline: &Baseline,
    scratch: &Path,
    cache: &mut StatCache,
) -> Result<(), CompareError> {
    let tree = inspect::open(directory).map_err(CaptureError::from)?.0;
    recapture(&tree, baseline, scratch, cache).map(|_| ())
}

/// Captures a directory and demands that it equals a baseline.
pub(crate) fn recapture(
    tree: &Tree,
    baseline: &Baseline,
    scratch: &Path,
    cache: &mut StatCache,
) -> Result<Capture, CompareError> {
    let (exclude, untracked) = (baseline.exclude.as_slice(), !baseline.without_untracked);
    let options = CaptureOptions { include_ignored: &[], exclude, untracked, have: &[], scratch };
    let capture = capture_with(tree, &options, Some(baseline), cache)?;
    let differences = baseline.differences(&Baseline::of(&capture.entries));
    if differences.is_empty() { Ok(capture) } else { Err(CompareError::Differs(differences)) }
}

fn is_pack(path: &[u8]) -> bool {
    path.starts_with(PACK.as_bytes())
}

fn digest(body: &Body) -> Hash {
    let bytes = match body {
        Body::File { mode, chunks, .. } => encode(&(0_u8, mode & 0o777, chunks)),
        Body::GitBlob { mode, oid, .. } => encode(&(1_u8, mode & 0o777, oid)),
        Body::Symlink { target } => encode(&(2_u8, target)),
        Body::Directory { mode } => encode(&(3_u8, mode & 0o777)),
    };
    Hash::of(&bytes)
}
