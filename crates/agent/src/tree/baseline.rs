//! Whether a directory still is what a catalog says.

use std::cmp::Ordering;
use std::path::Path;

use cede_wire::canonical::encode;
use cede_wire::catalog::{Body, Entry, Place};
use cede_wire::id::Hash;
use cede_wire::path::escape;

use super::capture::capture_with;
use super::repository::Repository;
use super::state::PACK;
use super::{Capture, CaptureError, CaptureOptions, Tree, inspect};
use crate::chunk::StatCache;
use crate::limits::PATHS_SHOWN;

/// The last handoff state of a directory: a digest per path. Times are left out: a touched file is the same file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Baseline {
    tree: Digests,
    git: Digests,
    exclude: Vec<String>,
    without_untracked: bool,
}

/// Paths with a digest each, side by side: 36 bytes and the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Digests {
    /// The paths, ascending.
    names: Vec<u8>,
    /// Where each path ends, and its digest.
    rows: Vec<(u32, Hash)>,
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
        let of_git = |entry: &&Entry| entry.place == Place::Git && !is_pack(entry.path.as_bytes());
        Self {
            tree: Digests::of(entries.iter().filter(|entry| entry.place == Place::Tree)),
            git: Digests::of(entries.iter().filter(of_git)),
            ..Self::default()
        }
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
        self.tree.contains(path)
    }

    /// True if something of the tree stood below this directory.
    pub(crate) fn contains_below(&self, directory: &[u8]) -> bool {
        self.tree.contains_below(&[directory, b"/"].concat())
    }

    /// The first paths that differ, escaped.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (ours, theirs, prefix) in [(&self.tree, &other.tree, ""), (&self.git, &other.git, ".git: ")] {
            let paths = ours.differences(theirs).take(PATHS_SHOWN);
            found.extend(paths.map(|path| format!("{prefix}{}", escape(path))));
        }
        found.truncate(PATHS_SHOWN);
        found
    }
}

impl Digests {
    fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut entries: Vec<&Entry> = entries.collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let mut digests = Self::default();
        for entry in entries {
            digests.names.extend_from_slice(entry.path.as_bytes());
            digests.rows.push((digests.names.len() as u32, digest(&entry.body)));
        }
        digests.names.shrink_to_fit();
        digests.rows.shrink_to_fit();
        digests
    }

    fn path(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).and_then(|before| self.rows.get(before)).map_or(0, |(end, _)| *end);
        let end = self.rows.get(at).map_or(start, |(end, _)| *end);
        self.names.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The first path that is not before this one.
    fn first_from(&self, path: &[u8]) -> Option<&[u8]> {
        let (mut low, mut high) = (0, self.rows.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.path(middle) < path { low = middle + 1 } else { high = middle }
        }
        (low < self.rows.len()).then(|| self.path(low))
    }

    fn contains(&self, path: &[u8]) -> bool {
        self.first_from(path) == Some(path)
    }

    fn contains_below(&self, prefix: &[u8]) -> bool {
        self.first_from(prefix).is_some_and(|path| path.starts_with(prefix))
    }

    /// Paths that only one of the two has, or that have another digest there.
    fn differences<'a>(&'a self, theirs: &'a Self) -> impl Iterator<Item = &'a [u8]> {
        let (mut here, mut there) = (0, 0);
        std::iter::from_fn(move || {
            loop {
                let ours = self.rows.get(here).map(|(_, digest)| (self.path(here), digest));
                let other = theirs.rows.get(there).map(|(_, digest)| (theirs.path(there), digest));
                let (path, order, same) = match (ours, other) {
                    (Some((path, digest)), Some((other, theirs))) => {
                        let order = path.cmp(other);
                        (if order.is_gt() { other } else { path }, order, digest == theirs)
                    }
                    (Some((path, _)), None) => (path, Ordering::Less, false),
                    (None, Some((path, _))) => (path, Ordering::Greater, false),
                    (None, None) => return None,
                };
                here += usize::from(order.is_le());
                there += usize::from(order.is_ge());
                if order.is_ne() || !same {
                    return Some(path);
                }
            }
        })
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
    let (tree, repository) = inspect::open(directory).map_err(CaptureError::from)?;
    recapture(&tree, repository.as_ref(), baseline, scratch, cache).map(|_| ())
}

/// Captures a directory and demands that it equals a baseline.
pub(crate) fn recapture(
    tree: &Tree,
    repository: Option<&Repository>,
    baseline: &Baseline,
    scratch: &Path,
    cache: &mut StatCache,
) -> Result<Capture, CompareError> {
    let (exclude, untracked) = (baseline.exclude.as_slice(), !baseline.without_untracked);
    let options = CaptureOptions { include_ignored: &[], exclude, untracked, have: &[], scratch };
    let capture = capture_with(tree, repository, &options, Some(baseline), cache)?;
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
