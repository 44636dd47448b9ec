//! The one directory that everything sits in, and the lock that keeps it to one daemon.

mod secret;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cede_wire::id::Incarnation;
use rustix::fs::OFlags;

pub use secret::{Secret, SecretError};

use crate::disk::{self, DiskFault, NEW, while_doing};
use crate::limits::{BULK_FREE_BYTES, HELD_FOR_A_MOMENT, NOTE_BYTES};

/// The schema that this version writes. A higher one is refused, a lower one is converted.
pub const SCHEMA: u32 = 1;

/// Why the directory cannot be used. Nothing in it was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// World: a file lies there.
    #[error("not a directory: {}; move it away or choose another place", .0.display())]
    NotADirectory(PathBuf),
    /// World: whoever may change the link could exchange the directory.
    #[error("a symbolic link, not a directory: {}; give the path that it points to", .0.display())]
    Symlink(PathBuf),
    /// World: another user could read or change it.
    #[error("{} belongs to user {owner}, not to {us}; run `chown -R {us} {}`", path.display(), path.display())]
    WrongOwner {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        us: u32,
    },
    /// World: others may enter it.
    #[error("others may enter {} (mode {mode:03o}); run `chmod 700 {}`", path.display(), path.display())]
    TooOpen {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// World: nothing can be written there.
    #[error("the file system of {} is mounted read-only; mount it writable or choose another place", .0.display())]
    ReadOnly(PathBuf),
    /// World: not even the first small files fit.
    #[error("no space left for {}; free some and start again", .0.display())]
    NoSpace(PathBuf),
    /// Caller: one daemon per directory.
    #[error("another daemon holds {}{}; stop it first", path.display(), holder(*pid))]
    Held {
        /// The directory.
        path: PathBuf,
        /// Its process, when it wrote it down.
        pid: Option<u32>,
    },
    /// Caller: the directory is in use for something else.
    #[error("{} holds other files, such as {found}; choose an empty directory", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// One of them.
        found: String,
    },
    /// World: it was last used by a newer version.
    #[error("{} has schema {found}, this version knows {SCHEMA}; install the newer version again", path.display())]
    NewerSchema {
        /// The directory.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// World: the file that names the schema is not one.
    #[error("the file {} is damaged; restore it, it holds one line: `cede {SCHEMA}`", .0.display())]
    DamagedSchema(PathBuf),
    /// World: anything else.
    #[error("cannot use {}", path.display())]
    Disk {
        /// The directory.
        path: PathBuf,
        /// What failed.
        #[source]
        fault: DiskFault,
    },
}

/// Why the incarnation of this directory is not known. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IncarnationError {
    /// World: the file is there and is not an incarnation.
    #[error("the file incarnation is damaged; restore it from a backup of the same directory")]
    Damaged,
    /// World: it could not be read or written.
    #[error("the incarnation is not known")]
    Disk(#[from] DiskFault),
}

/// The directory, held. Clones share the lock; it is let go with the last one.
#[derive(Debug, Clone)]
pub struct Home {
    held: Arc<Held>,
}

impl Home {
    /// Opens the directory, or creates it for us alone, and keeps every other daemon out. Source: SPEC J-15.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed but for a directory that was created.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let fault = |fault| explain(dir, fault);
        create(dir).map_err(fault)?;
        inspect(dir)?;
        let lock = take_lock(dir)?;
        settle_schema(dir)?;
        let root = File::open(dir).map_err(while_doing("open the directory")).map_err(fault)?;
        for name in [SECRETS, STAGES, OBJECTS, LETTERS] {
            disk::make_dir(&dir.join(name)).map_err(fault)?;
            // A run that was killed may have left a name that is not durable yet.
            disk::sync_dir(&dir.join(name)).map_err(fault)?;
        }
        disk::sync_dir(dir).map_err(fault)?;
        let claims = Mutex::new(BTreeSet::new());
        Ok(Self { held: Arc::new(Held { dir: dir.to_owned(), root, _lock: lock, claims }) })
    }

    /// Says which life of the directory this is; `random` becomes its name when it has none yet.
    /// Source: SPEC J-14.
    ///
    /// # Errors
    /// [`IncarnationError`]; nothing was changed.
    pub fn incarnation(&self, random: [u8; 16]) -> Result<Incarnation, IncarnationError> {
        match disk::read_small(&self.path(INCARNATION), NOTE_BYTES)? {
            Some(text) => parse_incarnation(&text).ok_or(IncarnationError::Damaged),
            None => {
                let incarnation = Incarnation::new(random);
                disk::replace_file(self.dir(), INCARNATION, format!("{incarnation}\n").as_bytes())?;
                Ok(incarnation)
            }
        }
    }

    /// Counts the bytes that we may still write.
    ///
    /// # Errors
    /// [`DiskFault`]; nothing was changed.
    pub fn free_bytes(&self) -> Result<u64, DiskFault> {
        let errno = |errno| DiskFault { doing: "ask for the free space", errno };
        let space = rustix::fs::fstatvfs(&self.held.root).map_err(errno)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Whether so much bulk may be accepted and leaves [`BULK_FREE_BYTES`] to the rest.
    ///
    /// # Errors
    /// [`DiskFault`]; nothing was changed.
    pub fn has_room_for_bulk(&self, bytes: u64) -> Result<bool, DiskFault> {
        Ok(self.free_bytes()?.checked_sub(bytes).is_some_and(|left| left >= BULK_FREE_BYTES))
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.held.dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.held.dir.join(name)
    }

    /// Takes one part of the directory for the only handle on it, or `None` when it is taken.
    pub(crate) fn claim(&self, part: String) -> Option<Claim> {
        let mut claims = self.held.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.insert(part.clone()).then(|| Claim { held: Arc::clone(&self.held), part })
    }
}

#[derive(Debug)]
struct Held {
    dir: PathBuf,
    root: File,
    _lock: File,
    claims: Mutex<BTreeSet<String>>,
}

/// One part of the directory, taken. It keeps the lock of the whole.
#[derive(Debug)]
pub(crate) struct Claim {
    held: Arc<Held>,
    part: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.held.claims.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.part);
    }
}

fn create(dir: &Path) -> Result<(), DiskFault> {
    if fs::symlink_metadata(dir).is_ok() {
        return Ok(());
    }
    let parent = disk::parent_of(dir);
    fs::create_dir_all(parent).map_err(while_doing("create the directory above"))?;
    match DirBuilder::new().mode(0o700).create(dir) {
        // Another daemon that starts at this moment was first.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(while_doing("create the directory")(error)),
        _ => disk::sync_dir(parent),
    }
}

fn inspect(dir: &Path) -> Result<(), OpenError> {
    let path = dir.to_owned();
    let looked = fs::symlink_metadata(dir).map_err(while_doing("look at the directory"));
    let found = looked.map_err(|fault| explain(dir, fault))?;
    if found.file_type().is_symlink() {
        return Err(OpenError::Symlink(path));
    }
    if !found.is_dir() {
        return Err(OpenError::NotADirectory(path));
    }
    let (owner, us) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != us {
        return Err(OpenError::WrongOwner { path, owner, us });
    }
    match found.mode() & 0o777 {
        mode if mode & 0o077 != 0 => Err(OpenError::TooOpen { path, mode }),
        _ => Ok(()),
    }
}

fn take_lock(dir: &Path) -> Result<File, OpenError> {
    let fault = |fault| explain(dir, fault);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(dir.join(LOCK)).map_err(while_doing("open the lock file")).map_err(fault)?;
    let until = Instant::now() + HELD_FOR_A_MOMENT;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Held { path: dir.to_owned(), pid: read_pid(&file) });
            }
            Err(TryLockError::Error(error)) => return Err(fault(while_doing("lock the directory")(error))),
        }
    }
    // The process id is for people; a full disk does not keep an existing home closed.
    if let Err(error) = write_pid(&mut file) {
        tracing::debug!(%error, "the lock file names no process");
    }
    Ok(file)
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
}

fn read_pid(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(NOTE_BYTES as u64).read_to_string(&mut text).ok()?;
    text.trim_end().parse().ok()
}

fn holder(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

fn settle_schema(dir: &Path) -> Result<(), OpenError> {
    let fault = |fault| explain(dir, fault);
    let path = dir.join(SCHEMA_FILE);
    let Some(text) = disk::read_small(&path, NOTE_BYTES).map_err(fault)? else {
        refuse_foreign(dir)?;
        return disk::replace_file(dir, SCHEMA_FILE, format!("cede {SCHEMA}\n").as_bytes()).map_err(fault);
    };
    match parse_schema(&text) {
        Some(found) if found > SCHEMA => Err(OpenError::NewerSchema { path: dir.to_owned(), found }),
        Some(SCHEMA) => Ok(()),
        Some(_) | None => Err(OpenError::DamagedSchema(path)),
    }
}

fn parse_schema(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.strip_prefix("cede ")?.strip_suffix('\n')?.parse().ok()
}

fn parse_incarnation(text: &[u8]) -> Option<Incarnation> {
    std::str::from_utf8(text).ok()?.strip_suffix('\n')?.parse().ok()
}

/// A directory without a schema is ours only when nothing else is in it.
fn refuse_foreign(dir: &Path) -> Result<(), OpenError> {
    for path in disk::list(dir, NOTE_BYTES).map_err(|fault| explain(dir, fault))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name != LOCK && name.strip_suffix(NEW) != Some(SCHEMA_FILE) {
            return Err(OpenError::NotOurs { path: dir.to_owned(), found: name.into_owned() });
        }
    }
    Ok(())
}

fn explain(dir: &Path, fault: DiskFault) -> OpenError {
    let path = dir.to_owned();
    match fault {
        fault if fault.is_read_only() => OpenError::ReadOnly(path),
        fault if fault.is_full() => OpenError::NoSpace(path),
        fault => OpenError::Disk { path, fault },
    }
}

const LOCK: &str = "lock";
const SCHEMA_FILE: &str = "schema";
const INCARNATION: &str = "incarnation";
pub(crate) const SECRETS: &str = "secrets";
pub(crate) const STAGES: &str = "stages";
pub(crate) const OBJECTS: &str = "objects";
pub(crate) const LETTERS: &str = "letters";

#[cfg(test)]
mod tests;
