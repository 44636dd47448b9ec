//! Writes below one directory and nowhere else: no link is followed, nothing is overwritten.
//!
//! The file system is the judge of names: two that it takes for one (by case or by Unicode form) collide when the second
//! is created, and the whole is refused.

pub(crate) mod beneath;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use cede_wire::catalog::{ChunkRef, Mtime};
use cede_wire::id::ChunkId;
use cede_wire::path::escape;
use rustix::fs::{AtFlags, Mode, Timespec, Timestamps};

use crate::chunk::shown;
use beneath::{create_file, open_directory, open_root, parent_of};

/// Where the content of a payload is read: the chunk store of the destination.
pub trait ReadChunk: Sync {
    /// Reads a chunk. `into` is cleared first.
    ///
    /// # Errors
    /// What the store says; the write is given up.
    fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> io::Result<()>;
}

/// Why something was not written. What was written before it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Something of this name, or of a name that this file system takes for the same, is there.
    #[error("two entries claim the same name here: {0}")]
    Collides(String),
    /// A link or a file stands where a directory must be.
    #[error("the way to it is not a directory: {0}")]
    NotBelow(String),
    /// A chunk is missing or is not what its id says.
    #[error("chunk {0} is missing or damaged")]
    Chunk(ChunkId),
    /// The system refused.
    #[error("cannot write {path}: {kind}")]
    Io {
        /// What, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
}

impl WriteError {
    fn of(path: &[u8], error: &io::Error) -> Self {
        let path = escape(path);
        let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        match (error.kind(), code) {
            (io::ErrorKind::AlreadyExists, _) => Self::Collides(path),
            (io::ErrorKind::NotADirectory, _) | (_, Some(rustix::io::Errno::LOOP | rustix::io::Errno::XDEV)) => {
                Self::NotBelow(path)
            }
            (kind, _) => Self::Io { path, kind },
        }
    }
}

/// What a file is besides its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits; only `0o777` of them count, and the owner may always read.
    pub mode: u32,
    /// Last change.
    pub mtime: Mtime,
}

/// A directory to write below.
#[derive(Debug)]
pub struct Writer {
    root: OwnedFd,
}

impl Writer {
    /// Creates the directory, for its owner only.
    ///
    /// # Errors
    /// [`WriteError`]; it must not exist, its parent must.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        use std::os::unix::fs::DirBuilderExt;
        let io = |error: io::Error| WriteError::Io { path: shown(path), kind: error.kind() };
        std::fs::DirBuilder::new().mode(0o700).create(path).map_err(io)?;
        Self::open(path)
    }

    /// Takes a directory that is there.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn open(path: &Path) -> Result<Self, WriteError> {
        let root = open_root(path).map_err(|error| WriteError::Io { path: shown(path), kind: error.kind() })?;
        Ok(Self { root })
    }

    /// Creates directories and what is above them, for the owner only; those in `made` were created before.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn directories<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a [u8]>,
        made: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), WriteError> {
        for path in paths {
            for prefix in crate::tree::prefixes(path) {
                if made.contains(prefix) {
                    continue;
                }
                self.directory(prefix).map_err(|error| WriteError::of(prefix, &error))?;
                made.insert(prefix.to_vec());
            }
        }
        Ok(())
    }

    fn directory(&self, path: &[u8]) -> io::Result<()> {
        let (above, name) = parent_of(&self.root, path)?;
        Ok(rustix::fs::mkdirat(above, name, Mode::RWXU)?)
    }

    /// Creates a file and lets `fill` write it; then sets its attributes.
    ///
    /// # Errors
    /// [`WriteError`], or what `fill` says.
    pub fn file<E: From<WriteError>>(
        &self,
        path: &[u8],
        attributes: Attributes,
        fill: impl FnOnce(&mut File) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut file = create_file(&self.root, path).map_err(|error| WriteError::of(path, &error))?;
        fill(&mut file)?;
        dress(&file, attributes).map_err(|error| WriteError::of(path, &error))?;
        Ok(())
    }

    /// Creates a file from chunks, each checked against its id.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn file_of_chunks(
        &self,
        path: &[u8],
        attributes: Attributes,
        chunks: &[ChunkRef],
        store: &dyn ReadChunk,
    ) -> Result<(), WriteError> {
        self.file(path, attributes, |file| {
            let mut bytes = Vec::new();
            for chunk in chunks {
                read_checked(store, chunk, &mut bytes)?;
                file.write_all(&bytes).map_err(|error| WriteError::of(path, &error))?;
            }
            Ok(())
        })
    }

    /// Creates a link, as data. To be done last: a link made earlier could stand where a directory is meant.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn symlink(&self, path: &[u8], target: &[u8]) -> Result<(), WriteError> {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let made = parent_of(&self.root, path)
            .and_then(|(above, name)| Ok(rustix::fs::symlinkat(OsStr::from_bytes(target), above, name)?));
        made.map_err(|error| WriteError::of(path, &error))
    }

    /// Sets the mode of a directory; its owner may always use it.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn directory_mode(&self, path: &[u8], mode: u32) -> Result<(), WriteError> {
        let set = open_directory(&self.root, path)
            .and_then(|fd| Ok(rustix::fs::fchmod(fd, Mode::from_raw_mode(mode & 0o777 | 0o700))?));
        set.map_err(|error| WriteError::of(path, &error))
    }

    /// Makes everything on its file system durable.
    ///
    /// # Errors
    /// [`WriteError`]; what was written may be lost.
    pub fn sync(&self) -> Result<(), WriteError> {
        rustix::fs::syncfs(&self.root).map_err(|error| WriteError::of(b".", &error.into()))
    }

    /// True if the file system takes names that differ in case for one.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn folds_case(&self) -> Result<bool, WriteError> {
        const PROBE: [&[u8]; 2] = [b".Cede-Probe", b".cede-probe"];
        let failed = |error: io::Error| WriteError::of(PROBE[0], &error);
        drop(create_file(&self.root, PROBE[0]).map_err(failed)?);
        let folds = rustix::fs::statat(&self.root, PROBE[1], AtFlags::SYMLINK_NOFOLLOW).is_ok();
        rustix::fs::unlinkat(&self.root, PROBE[0], AtFlags::empty()).map_err(|error| failed(error.into()))?;
        Ok(folds)
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// Reads a chunk and checks it.
pub(crate) fn read_checked(store: &dyn ReadChunk, chunk: &ChunkRef, bytes: &mut Vec<u8>) -> Result<(), WriteError> {
    store.read(&chunk.id, bytes).map_err(|_| WriteError::Chunk(chunk.id))?;
    let right = bytes.len() == chunk.length as usize && ChunkId::of(bytes) == chunk.id;
    if right { Ok(()) } else { Err(WriteError::Chunk(chunk.id)) }
}

/// Sets mode and time of an open file.
pub(crate) fn dress(file: &File, attributes: Attributes) -> io::Result<()> {
    rustix::fs::fchmod(file, Mode::from_raw_mode(attributes.mode & 0o777 | 0o400))?;
    rustix::fs::futimens(file, &timestamps(attributes.mtime))?;
    Ok(())
}

#[expect(clippy::useless_conversion, reason = "the width of nanoseconds differs between systems")]
pub(crate) fn timestamps(mtime: Mtime) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    Timestamps {
        last_access: omit,
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: i64::from(mtime.nanos).into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const PLAIN: Attributes = Attributes { mode: 0o640, mtime: Mtime { seconds: 1_000, nanos: 5 } };

    fn nothing(_: &mut File) -> Result<(), WriteError> {
        Ok(())
    }

    #[test]
    fn file_gets_its_mode_and_time() {
        let directory = tempfile::tempdir().unwrap();
        let writer = Writer::create(&directory.path().join("new")).unwrap();
        writer.file(b"f", Attributes { mode: 0o6751, ..PLAIN }, nothing).unwrap();
        let metadata = directory.path().join("new/f").metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o751);
        assert_eq!(crate::chunk::FileStat::of(&metadata).mtime, PLAIN.mtime);
        assert_eq!(directory.path().join("new").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn nothing_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let writer = Writer::open(directory.path()).unwrap();
        writer.file(b"f", PLAIN, nothing).unwrap();
        let collides = Err(WriteError::Collides("f".into()));
        assert_eq!(writer.file(b"f", PLAIN, nothing), collides);
        assert_eq!(writer.symlink(b"f", b"x"), collides);
        assert_eq!(writer.directories([&b"f"[..]], &mut BTreeSet::new()), collides);
    }

    #[test]
    fn link_on_the_way_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (inside, outside) = (directory.path().join("in"), directory.path().join("out"));
        std::fs::create_dir(&outside).unwrap();
        let writer = Writer::create(&inside).unwrap();
        writer.symlink(b"way", outside.as_os_str().as_encoded_bytes()).unwrap();
        let barred = WriteError::NotBelow("way/f".into());
        assert_eq!(writer.file(b"way/f", PLAIN, nothing), Err(barred.clone()));
        assert_eq!(writer.symlink(b"way/f", b"x"), Err(barred));
        assert!(writer.directory_mode(b"way", 0o777).is_err());
        assert!(writer.file(b"../f", PLAIN, nothing).is_err());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn file_system_is_asked_about_case() {
        let directory = tempfile::tempdir().unwrap();
        let writer = Writer::open(directory.path()).unwrap();
        std::fs::write(directory.path().join("x"), "").unwrap();
        assert_eq!(writer.folds_case(), Ok(directory.path().join("X").exists()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "the probe is gone");
    }
}
