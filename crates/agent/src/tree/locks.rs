//! Locks that git left when it, or the machine, was ended in the middle of a change of ours. Git itself removes none, so
//! every repetition would fail.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::limits::{GIT_LOCK_REST, GIT_LOCKS_SEEN};
use crate::materialize::beneath::found;

/// Removes the locks in a repository that were made since a moment at which a change of ours began, unless some git works
/// there now. A person's own command that was interrupted before that keeps its lock.
pub(super) fn clear(root: &Path, since: SystemTime) -> io::Result<()> {
    if works(root) {
        return Ok(());
    }
    for lock in locks(&root.join(".git"))? {
        remove(&lock, since)?;
    }
    Ok(())
}

/// The same for the lock of one reference that nobody else makes.
pub(super) fn clear_own(root: &Path, reference: &str) -> io::Result<()> {
    let lock = root.join(".git").join(format!("{reference}.lock"));
    if works(root) { Ok(()) } else { remove(&lock, SystemTime::UNIX_EPOCH) }
}

fn remove(lock: &Path, since: SystemTime) -> io::Result<()> {
    let Some(metadata) = found(lock.symlink_metadata())? else { return Ok(()) };
    let made = metadata.modified()?;
    if !metadata.is_file() || made < since || (!can_look() && made.elapsed().unwrap_or_default() < GIT_LOCK_REST) {
        return Ok(());
    }
    tracing::warn!(lock = %lock.display(), "a lock that an interrupted change left is removed");
    found(std::fs::remove_file(lock)).map(|_| ())
}

/// Those beside HEAD, and those of references.
fn locks(git: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut all, mut waiting, mut seen) = (Vec::new(), vec![git.to_path_buf()], 0_usize);
    while let Some(directory) = waiting.pop() {
        let Some(entries) = found(std::fs::read_dir(&directory))? else { continue };
        for entry in entries {
            let (entry, top) = (entry?, directory == git);
            seen += 1;
            if seen > GIT_LOCKS_SEEN {
                return Err(io::Error::other("too many references to look for locks"));
            }
            if entry.file_type()?.is_dir() {
                if !top || entry.file_name() == "refs" {
                    waiting.push(entry.path());
                }
            } else if entry.path().extension() == Some(OsStr::new("lock")) {
                all.push(entry.path());
            }
        }
    }
    Ok(all)
}

/// Whether some git works in the tree now, as far as this system shows its processes.
fn works(root: &Path) -> bool {
    let Ok(root) = std::fs::canonicalize(root) else { return false };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |name: &OsStr| name.as_bytes().iter().all(u8::is_ascii_digit);
    processes.filter(|process| number(&process.file_name())).any(|process| {
        let git = std::fs::read(process.path().join("comm")).is_ok_and(|name| name.starts_with(b"git"));
        git && std::fs::read_link(process.path().join("cwd")).is_ok_and(|place| place.starts_with(&root))
    })
}

fn can_look() -> bool {
    Path::new("/proc/self/comm").exists()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_path_buf();
        assert!(Command::new("git").args(["init", "-q"]).current_dir(&root).status().unwrap().success());
        (directory, root)
    }

    #[test]
    fn lock_that_was_there_before_stays_and_later_ones_go() {
        let (_directory, root) = repository();
        let git = root.join(".git");
        std::fs::write(git.join("index.lock"), "a person's").unwrap();
        let old = SystemTime::now() - Duration::from_secs(600);
        std::fs::File::options().write(true).open(git.join("index.lock")).unwrap().set_modified(old).unwrap();
        let began = SystemTime::now() - Duration::from_secs(60);
        std::fs::create_dir_all(git.join("refs/heads/a")).unwrap();
        for lock in ["HEAD.lock", "packed-refs.lock", "refs/heads/a/b.lock"] {
            std::fs::write(git.join(lock), "ours").unwrap();
        }
        std::fs::write(git.join("objects/x.lock"), "no lock of a reference").unwrap();
        clear(&root, began).unwrap();
        for (lock, stays) in [
            ("index.lock", true),
            ("objects/x.lock", true),
            ("HEAD.lock", false),
            ("packed-refs.lock", false),
            ("refs/heads/a/b.lock", false),
        ] {
            assert_eq!(git.join(lock).exists(), stays, "{lock}");
        }
    }

    #[test]
    fn no_lock_is_taken_from_a_git_that_works() {
        if !can_look() {
            println!("skipped: this system does not show its processes");
            return;
        }
        let (_directory, root) = repository();
        let lock = root.join(".git/HEAD.lock");
        std::fs::write(&lock, "its").unwrap();
        let mut works = Command::new("git");
        works.args(["cat-file", "--batch-check"]).current_dir(&root).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut works = works.spawn().unwrap();
        works.stdin.as_mut().unwrap().write_all(b"nothing\n").unwrap();
        let mut answer = [0; 7];
        works.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"nothing");
        clear(&root, SystemTime::UNIX_EPOCH).unwrap();
        assert!(lock.exists());
        drop(works.stdin.take());
        works.wait().unwrap();
        clear(&root, SystemTime::UNIX_EPOCH).unwrap();
        assert!(!lock.exists());
    }
}
