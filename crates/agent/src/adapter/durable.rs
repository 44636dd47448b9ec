//! Writes that are on the disk when the function returns. The only place of the adapters that calls `fsync`.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::adapter::AgentError;
use crate::adapter::limits::STORE_ENTRIES;

/// Replaces a file by these bytes in one step.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), AgentError> {
    replace(path, |file| file.write_all(bytes))
}

/// Replaces a file by a copy of another in one step. The copy is streamed.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), AgentError> {
    let mut source = File::open(from).map_err(|error| world("open", from, &error))?;
    replace(to, |file| io::copy(&mut source, file).map(|_| ()))
}

/// Replaces a file in one step by what `fill` writes.
pub(super) fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), AgentError> {
    let directory = parent(path)?;
    ensure_directory(directory)?;
    let temporary = beside(path, "cede-tmp");
    let written = fill_new(&temporary, fill).map_err(|error| world("write", &temporary, &error));
    let renamed = written.and_then(|()| rename(&temporary, path));
    if renamed.is_err() {
        // The error that led here is the one to report.
        let _ = std::fs::remove_file(&temporary);
    }
    renamed
}

fn fill_new(temporary: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
    fill(&mut file)?;
    file.sync_all()
}

/// Renames, over what is there.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), AgentError> {
    std::fs::rename(from, to).map_err(|error| world("rename to", to, &error))?;
    if parent(from)? != parent(to)? {
        sync_parent(from)?;
    }
    sync_parent(to)
}

/// Gives a file a second name, so that a later rename over the first one loses nothing.
pub(super) fn link(from: &Path, to: &Path) -> Result<(), AgentError> {
    File::open(from).and_then(|file| file.sync_all()).map_err(|error| world("sync", from, &error))?;
    std::fs::hard_link(from, to).map_err(|error| world("link to", to, &error))?;
    sync_parent(to)
}

/// Removes a file; one that is not there is removed already.
pub(super) fn remove(path: &Path) -> Result<(), AgentError> {
    match std::fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(world("remove", path, &error)),
    }
}

/// Makes a directory and those above it, readable by the owner only.
pub(super) fn ensure_directory(path: &Path) -> Result<(), AgentError> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| world("make", path, &error))?;
    sync_parent(path)
}

/// The same directory, another name: hidden, and known as ours by its ending.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// True where both names lead to the same file.
pub(super) fn same_file(a: &Path, b: &Path) -> Result<bool, AgentError> {
    let identity = |path: &Path| Ok::<_, AgentError>(look(path)?.map(|meta| (meta.dev(), meta.ino())));
    let (first, second) = (identity(a)?, identity(b)?);
    Ok(first.is_some() && first == second)
}

/// What was looked for, or none where it is not there. What cannot be read is an error, and never absent.
pub(super) fn found<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn look(path: &Path) -> Result<Option<std::fs::Metadata>, AgentError> {
    found(std::fs::symlink_metadata(path)).map_err(|error| world("look at", path, &error))
}

/// Whether a link stands there.
pub(super) fn is_link(path: &Path) -> Result<bool, AgentError> {
    Ok(look(path)?.is_some_and(|meta| meta.is_symlink()))
}

/// Whether something stands under the name.
pub(super) fn is_there(path: &Path) -> Result<bool, AgentError> {
    Ok(look(path)?.is_some())
}

/// Whether a directory stands there, or a link to one.
pub(super) fn is_directory(path: &Path) -> Result<bool, AgentError> {
    let looked = found(std::fs::metadata(path)).map_err(|error| world("look at", path, &error))?;
    Ok(looked.is_some_and(|meta| meta.is_dir()))
}

/// What lies in a directory; nothing where there is none.
pub(super) fn list(directory: &Path) -> Result<Vec<PathBuf>, AgentError> {
    let names = found(std::fs::read_dir(directory));
    let names = names
        .and_then(|names| names.into_iter().flatten().take(STORE_ENTRIES).map(|entry| Ok(entry?.path())).collect());
    names.map_err(|error| world("read", directory, &error))
}

/// What was tried and what the system said.
pub(super) fn world(doing: &str, path: &Path, error: &io::Error) -> AgentError {
    AgentError::World { doing: format!("{doing} {}", path.display()), why: error.to_string() }
}

fn parent(path: &Path) -> Result<&Path, AgentError> {
    let nowhere =
        || AgentError::World { doing: format!("write {}", path.display()), why: "it has no directory".into() };
    path.parent().ok_or_else(nowhere)
}

fn sync_parent(path: &Path) -> Result<(), AgentError> {
    let directory = parent(path)?;
    let synced = File::open(directory).and_then(|file| file.sync_all());
    synced.map_err(|error| world("sync", directory, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: A-9
    #[test]
    fn failed_write_leaves_the_old_bytes_and_no_temporary_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        write(&path, b"old").unwrap();
        let failed = replace(&path, |_| Err(io::Error::other("disk full")));
        assert!(matches!(failed, Err(AgentError::World { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn two_names_of_one_file_are_the_same_file() {
        let place = tempfile::tempdir().unwrap();
        let (a, b) = (place.path().join("a"), place.path().join("b"));
        write(&a, b"x").unwrap();
        link(&a, &b).unwrap();
        assert_eq!(same_file(&a, &b), Ok(true));
        write(&a, b"x").unwrap();
        assert_eq!(same_file(&a, &b), Ok(false));
    }
}
