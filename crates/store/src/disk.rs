//! What the disk said no to, and the few things done to whole files and directories.
//! Each of them is durable when it returns.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// A call to the operating system failed. The enum around it says what state that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {doing}")]
pub struct DiskFault {
    /// What was being done.
    pub doing: &'static str,
    /// What the system answered.
    #[source]
    pub errno: Errno,
}

impl DiskFault {
    /// Whether the disk or the quota is full, or a file is not allowed to grow.
    pub fn is_full(&self) -> bool {
        [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].contains(&self.errno)
    }

    /// Whether the file system is mounted read-only.
    pub fn is_read_only(&self) -> bool {
        self.errno == Errno::ROFS
    }
}

/// Names what was being done when `error` came up.
pub(crate) fn while_doing(doing: &'static str) -> impl FnOnce(io::Error) -> DiskFault {
    move |error| DiskFault { doing, errno: Errno::from_io_error(&error).unwrap_or(Errno::IO) }
}

/// Creates a directory that only we may enter, unless it is there.
pub(crate) fn make_dir(path: &Path) -> Result<(), DiskFault> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => sync_dir(parent_of(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_other_than_dir(path),
        Err(error) => Err(while_doing("create a directory")(error)),
    }
}

fn refuse_other_than_dir(path: &Path) -> Result<(), DiskFault> {
    let found = fs::symlink_metadata(path).map_err(while_doing("look at a directory"))?;
    if found.is_dir() { Ok(()) } else { Err(DiskFault { doing: "use a directory", errno: Errno::NOTDIR }) }
}

/// The directory that holds `path`.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> Result<(), DiskFault> {
    let dir = File::open(path).map_err(while_doing("open a directory"))?;
    dir.sync_all().map_err(while_doing("flush a directory"))
}

/// Makes everything durable that was written to the file system of a directory.
pub(crate) fn sync_file_system(path: &Path) -> Result<(), DiskFault> {
    let dir = File::open(path).map_err(while_doing("open a directory"))?;
    rustix::fs::syncfs(&dir).map_err(|error| while_doing("flush a file system")(error.into()))
}

/// Creates a file that only we may read and that did not exist.
pub(crate) fn create_file(path: &Path) -> Result<File, DiskFault> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path).map_err(while_doing("create a file"))
}

/// Opens a file for reading and writing, never through a symbolic link.
pub(crate) fn open_file(path: &Path) -> Result<File, DiskFault> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(while_doing("open a file"))
}

/// Removes a file, unless it is not there.
pub(crate) fn remove_file(path: &Path) -> Result<(), DiskFault> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(while_doing("remove a file")(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes a directory and what is in it, unless it is not there.
pub(crate) fn remove_dir(path: &Path) -> Result<(), DiskFault> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(while_doing("remove a directory")(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Puts a whole file in the place of `name`: a reader sees the old one or the new one, also after a power cut.
pub(crate) fn replace_file(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), DiskFault> {
    let new = dir.join(format!("{name}{NEW}"));
    remove_file(&new)?;
    let written = write_new(&new, bytes).and_then(|()| rename(&new, &dir.join(name)));
    if written.is_err() {
        // What failed first is what is told.
        let _ = remove_file(&new);
    }
    written?;
    sync_dir(dir)
}

/// Renames. The directory is not flushed.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), DiskFault> {
    fs::rename(from, to).map_err(while_doing("rename a file"))
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), DiskFault> {
    let mut file = create_file(path)?;
    file.write_all(bytes).map_err(while_doing("write a file"))?;
    file.sync_all().map_err(while_doing("flush a file"))
}

/// Reads a small file whole, `None` when there is none. One longer than `limit` is an error.
pub(crate) fn read_small(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, DiskFault> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(while_doing("open a file")(error)),
    };
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(while_doing("read a file"))?;
    if bytes.len() > limit {
        return Err(DiskFault { doing: "read a file that is longer than it can be", errno: Errno::FBIG });
    }
    Ok(Some(bytes))
}

/// The names in a directory, in order, at most `limit`.
pub(crate) fn list(dir: &Path, limit: usize) -> Result<Vec<PathBuf>, DiskFault> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(while_doing("list a directory"))?.take(limit) {
        paths.push(entry.map_err(while_doing("list a directory"))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Ends the name of a file that is being written. One that is found later was left by a crash.
pub(crate) const NEW: &str = ".new";
