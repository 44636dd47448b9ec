//! The lock that every Codex writer holds while it has a session open, held by us instead.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::adapter::limits::STORE_ENTRIES;
use crate::adapter::{AgentError, durable, processes};

/// The lock, held. While it lives no Codex opens the session; dropped, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct WriterLock {
    path: PathBuf,
    file: File,
}

/// How often a lock file that was exchanged under us is opened again.
const ATTEMPTS: usize = 8;

impl WriterLock {
    /// Takes the lock, or names the process that holds it.
    pub(super) fn take(home: &Path, native: &str) -> Result<Self, AgentError> {
        let path = file(home, native);
        durable::ensure_directory(&home.join("thread-writer-locks"))?;
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = opened.map_err(|error| durable::world("open", &path, &error))?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Err(held(&path));
            }
            // A lock on a file that was unlinked meanwhile keeps nobody out.
            let ours = file.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
            let there = std::fs::metadata(&path).map(|meta| (meta.dev(), meta.ino())).ok();
            if ours == there {
                return Ok(Self { path, file });
            }
        }
        Err(held(&path))
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // As Codex itself leaves: the name first, then the lock. A file that stays is harmless.
        let _ = std::fs::remove_file(&self.path);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The process that has the session open.
pub(super) fn holder(home: &Path, native: &str) -> Option<u32> {
    let inode = std::fs::metadata(file(home, native)).ok()?.ino();
    processes::lock_holder(inode)
}

/// How many other sessions a process has open.
pub(super) fn others(home: &Path, native: &str, pid: u32) -> usize {
    let own = file(home, native);
    let entries = std::fs::read_dir(home.join("thread-writer-locks")).into_iter().flatten().flatten();
    let locks = entries.take(STORE_ENTRIES).map(|entry| entry.path());
    let locks = locks.filter(|path| path.extension().is_some_and(|ending| ending == "lock") && *path != own);
    let held =
        |path: &PathBuf| std::fs::metadata(path).is_ok_and(|meta| processes::lock_holder(meta.ino()) == Some(pid));
    locks.filter(held).count()
}

fn file(home: &Path, native: &str) -> PathBuf {
    home.join("thread-writer-locks").join(format!("{native}.lock"))
}

fn held(path: &Path) -> AgentError {
    let pid = std::fs::metadata(path).ok().and_then(|meta| processes::lock_holder(meta.ino())).unwrap_or(0);
    AgentError::Live {
        pid,
        evidence: "it holds the session's writer lock".to_owned(),
        cure: "close the session in Codex; its background server lets go after a minute, or at once with: codex app-server daemon stop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: A-6
    #[test]
    fn held_lock_keeps_the_next_one_out_and_names_the_holder() {
        let home = tempfile::tempdir().unwrap();
        let first = WriterLock::take(home.path(), "t").unwrap();
        assert_eq!(holder(home.path(), "t"), Some(std::process::id()));
        let second = WriterLock::take(home.path(), "t").map(|_| ());
        assert!(matches!(second, Err(AgentError::Live { pid, .. }) if pid == std::process::id()), "{second:?}");
        assert_eq!(others(home.path(), "t", std::process::id()), 0);
        let _another = WriterLock::take(home.path(), "u").unwrap();
        assert_eq!(others(home.path(), "t", std::process::id()), 1);
        drop(first);
        assert_eq!(holder(home.path(), "t"), None);
        WriterLock::take(home.path(), "t").unwrap();
    }

    #[test]
    fn lock_file_that_a_crash_left_is_not_a_lock() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("thread-writer-locks")).unwrap();
        std::fs::write(file(home.path(), "t"), b"").unwrap();
        assert_eq!(holder(home.path(), "t"), None);
        WriterLock::take(home.path(), "t").unwrap();
    }
}
