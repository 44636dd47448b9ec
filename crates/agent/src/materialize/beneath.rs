//! Opens what lies below a directory, and nothing that a link on the way leads to.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory by its own path; only the last component must not be a link.
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, DIRECTORY, Mode::empty())?)
}

/// Opens a file for reading.
pub(crate) fn open_file(root: impl AsFd, relative: &[u8]) -> io::Result<File> {
    Ok(File::from(open(root, relative, FILE)?))
}

/// Opens a directory.
pub(crate) fn open_directory(root: impl AsFd, relative: &[u8]) -> io::Result<OwnedFd> {
    open(root, relative, DIRECTORY)
}

/// Creates a file that was not there, for writing; only its owner may read it so far.
pub(crate) fn create_file(root: impl AsFd, relative: &[u8]) -> io::Result<File> {
    Ok(File::from(open(root, relative, NEW)?))
}

/// What was looked for, or none where nothing stands under the name. Whatever else the system says is an error: what
/// cannot be read is not absent.
pub(crate) fn found<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a link stood where none is followed.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Whether something stands under the name: also a link that leads nowhere.
pub(crate) fn is_there(path: &Path) -> io::Result<bool> {
    Ok(found(path.symlink_metadata())?.is_some())
}

/// Splits a path into what is above it, opened, and its last name.
pub(crate) fn parent_of(root: impl AsFd, relative: &[u8]) -> io::Result<(OwnedFd, &OsStr)> {
    let cut = relative.iter().rposition(|b| *b == b'/');
    let (above, name) = match cut {
        Some(at) => relative.split_at(at),
        None => (&b"."[..], relative),
    };
    let name = if cut.is_some() { name.get(1..).unwrap_or_default() } else { name };
    if name.is_empty() || name == b"." || name == b".." {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((open_directory(root, above)?, OsStr::from_bytes(name)))
}

fn open(root: impl AsFd, relative: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
    match openat2(root.as_fd(), OsStr::from_bytes(relative), flags, mode, resolve) {
        Err(Errno::NOSYS) => walk(root, relative, flags),
        opened => Ok(opened?),
    }
}

/// The same component by component, for kernels and sandboxes without `openat2`.
fn walk(root: impl AsFd, relative: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let mut here: Option<OwnedFd> = None;
    let mut rest = relative;
    while let Some(at) = rest.iter().position(|b| *b == b'/') {
        let (name, after) = rest.split_at(at);
        let below = step(here.as_ref(), &root, name, DIRECTORY)?;
        here = Some(below);
        rest = after.get(1..).unwrap_or_default();
    }
    step(here.as_ref(), &root, rest, flags)
}

fn step(here: Option<&OwnedFd>, root: &impl AsFd, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    if name == b".." || name.contains(&b'/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let base = here.map_or_else(|| root.as_fd(), AsFd::as_fd);
    Ok(openat(base, OsStr::from_bytes(name), flags, Mode::RUSR | Mode::WUSR)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_looked_at_is_not_absent() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        for (name, there) in [("file", true), ("link", true), ("none", false), ("file/below", false)] {
            assert_eq!(is_there(&dir.path().join(name)).unwrap(), there, "{name}");
        }
        assert!(is_there(&dir.path().join("long".repeat(100))).is_err());
    }

    /// Shows: T-5
    #[test]
    fn link_on_the_way_or_at_the_end_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::fs::write(dir.path().join("real/f"), "x").unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("f", dir.path().join("real/l")).unwrap();
        let root = open_root(dir.path()).unwrap();
        assert!(open_file(&root, b"real/f").is_ok());
        assert!(walk(&root, b"real/f", FILE).is_ok());
        for bad in [&b"link/f"[..], b"real/l", b"../x", b"/etc/hostname", b"real/../../x"] {
            assert!(open_file(&root, bad).is_err());
            assert!(walk(&root, bad, FILE).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
