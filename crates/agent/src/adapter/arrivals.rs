//! The rule for a session that comes back: what is here must be a prefix of what arrives.

use std::fs::File;
use std::io::{BufReader, Read, Result};
use std::path::{Path, PathBuf};

use cede_wire::custody::Head;
use cede_wire::id::Hash;
use cede_wire::path::RelPath;

use crate::adapter::limits::{STORE_DEPTH, STORE_ENTRIES};
use crate::adapter::{AgentError, TranscriptFile, durable};

/// How the conversation here relates to the one that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The same bytes.
    Same,
    /// Here is the beginning of what arrives.
    Shorter,
    /// What arrives is the beginning of what is here.
    Longer,
    /// Neither.
    Apart,
}

/// Compares two files by streaming both.
pub(super) fn relation(here: &Path, arrived: &Path) -> std::result::Result<Relation, AgentError> {
    compare(here, arrived).map_err(|error| durable::world("compare", here, &error))
}

fn compare(here: &Path, arrived: &Path) -> Result<Relation> {
    let (here, arrived) = (File::open(here)?, File::open(arrived)?);
    let (ours, theirs) = (here.metadata()?.len(), arrived.metadata()?.len());
    let common = ours.min(theirs);
    let mut a = BufReader::with_capacity(256 << 10, here.take(common));
    let mut b = BufReader::with_capacity(256 << 10, arrived.take(common));
    let (mut left, mut right) = ([0; 16 << 10], [0; 16 << 10]);
    loop {
        let count = a.read(&mut left)?;
        let (Some(one), Some(two)) = (left.get(..count), right.get_mut(..count)) else { return Ok(Relation::Apart) };
        if count == 0 {
            break;
        }
        b.read_exact(two)?;
        if one != two {
            return Ok(Relation::Apart);
        }
    }
    Ok(match ours.cmp(&theirs) {
        std::cmp::Ordering::Equal => Relation::Same,
        std::cmp::Ordering::Less => Relation::Shorter,
        std::cmp::Ordering::Greater => Relation::Longer,
    })
}

/// The head of a turn log, by streaming it.
pub(super) fn head(path: &Path, turn: u64) -> std::result::Result<Head, AgentError> {
    let mut hasher = blake3::Hasher::new();
    let read = File::open(path).and_then(|file| hasher.update_reader(file).map(|hasher| hasher.count()));
    let length = read.map_err(|error| durable::world("read", path, &error))?;
    Ok(Head { turn, length, hash: Hash::new(*hasher.finalize().as_bytes()) })
}

/// Every file below a directory by its relative path, ascending. What is neither file nor directory is refused.
pub(super) fn files(directory: &Path) -> std::result::Result<Vec<TranscriptFile>, AgentError> {
    let mut found = Vec::new();
    collect(directory, &[], 0, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(
    directory: &Path,
    prefix: &[u8],
    depth: usize,
    found: &mut Vec<TranscriptFile>,
) -> std::result::Result<(), AgentError> {
    use std::os::unix::ffi::OsStrExt;
    let entries = std::fs::read_dir(directory).map_err(|error| durable::world("read", directory, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| durable::world("read", directory, &error))?;
        let local = entry.path();
        let name = entry.file_name();
        let path = if prefix.is_empty() { name.as_bytes().to_vec() } else { [prefix, b"/", name.as_bytes()].concat() };
        let kind = entry.file_type().map_err(|error| durable::world("read", &local, &error))?;
        if kind.is_dir() && depth < STORE_DEPTH {
            collect(&local, &path, depth + 1, found)?;
        } else if kind.is_file() && found.len() < STORE_ENTRIES {
            let path = RelPath::parse(&path).map_err(|error| AgentError::BadArrival(error.to_string()))?;
            found.push(TranscriptFile { path, local });
        } else {
            return Err(AgentError::BadArrival(format!("not a plain file: {}", local.display())));
        }
    }
    Ok(())
}

/// Sum of the lengths of the files that exist.
pub(super) fn bytes<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> u64 {
    files.into_iter().filter_map(|file| std::fs::metadata(file).ok()).map(|meta| meta.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: A-8
    #[test]
    fn prefix_is_told_from_divergence_both_ways() {
        let place = tempfile::tempdir().unwrap();
        let (a, b) = (place.path().join("a"), place.path().join("b"));
        for (here, arrived, expected) in [
            ("one\n", "one\n", Relation::Same),
            ("one\n", "one\ntwo\n", Relation::Shorter),
            ("one\ntwo\n", "one\n", Relation::Longer),
            ("one\ntwo\n", "one\nTWO\nthree", Relation::Apart),
            ("", "one", Relation::Shorter),
        ] {
            std::fs::write(&a, here).unwrap();
            std::fs::write(&b, arrived).unwrap();
            assert_eq!(relation(&a, &b).unwrap(), expected, "{here:?} {arrived:?}");
        }
    }

    /// Shows: T-5
    #[test]
    fn symlink_among_the_arrived_files_is_refused() {
        let place = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("x")).unwrap();
        assert!(matches!(files(place.path()), Err(AgentError::BadArrival(_))));
    }
}
