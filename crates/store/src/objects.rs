//! Whole values by their hash: catalogs, mostly. Each is a file, durable before it has its name.
//! Source: SPEC J-11.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cede_wire::id::Hash;

use crate::disk::{self, DiskFault, NEW, while_doing};
use crate::home::{Claim, Home, LETTERS, OBJECTS};
use crate::limits::{self, OBJECT_BYTES};

/// Why an object was not stored or read. Those that are there are there still.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Caller: there is one handle only.
    #[error("the objects are open already")]
    AlreadyOpen,
    /// Peer or caller: longer than any object is. Nothing was kept.
    #[error("an object of more than {OBJECT_BYTES} bytes")]
    TooLong,
    /// Caller: too many objects. Nothing was kept; collect the garbage.
    #[error("too many objects: {}", limits::OBJECTS)]
    TooMany,
    /// World: what it was to be copied from failed. Nothing was kept.
    #[error("the object could not be read from where it is to come from")]
    Source(#[source] DiskFault),
    /// World: what was written once reads differently now. It was removed, so that it can be put again.
    #[error("object {} is corrupt on the disk", .0.short())]
    Corrupt(Hash),
    /// World: the disk is full. Nothing was kept.
    #[error("no space left for the object")]
    NoSpace,
    /// World: the disk said no.
    #[error("the object was not stored or read")]
    Disk(#[source] DiskFault),
}

impl From<DiskFault> for ObjectError {
    fn from(fault: DiskFault) -> Self {
        if fault.is_full() { Self::NoSpace } else { Self::Disk(fault) }
    }
}

/// The objects of a home. Any thread may put and get.
#[derive(Debug)]
pub struct Objects {
    dir: PathBuf,
    next: AtomicU64,
    count: AtomicU64,
    /// Held from the first name that a call gives until the directory is flushed, or the names are gone again: whoever holds it
    /// sees durable objects only.
    naming: Mutex<()>,
    _claim: Claim,
}

impl Objects {
    /// Opens the objects of a home and removes what an earlier run left unfinished.
    ///
    /// # Errors
    /// [`ObjectError`]; nothing else was changed.
    pub fn open(home: &Home) -> Result<Self, ObjectError> {
        Self::open_in(home, OBJECTS)
    }

    /// The same for the words of letters, which are kept apart: who collects the one kind does not know of the other.
    ///
    /// # Errors
    /// [`ObjectError`]; nothing else was changed.
    pub fn open_letters(home: &Home) -> Result<Self, ObjectError> {
        Self::open_in(home, LETTERS)
    }

    fn open_in(home: &Home, name: &str) -> Result<Self, ObjectError> {
        let claim = home.claim(name.to_owned()).ok_or(ObjectError::AlreadyOpen)?;
        let dir = home.path(name);
        let mut count = 0;
        for path in disk::list(&dir, 2 * limits::OBJECTS)? {
            if path.to_string_lossy().ends_with(NEW) {
                disk::remove_file(&path)?;
            } else {
                count += 1;
            }
        }
        Ok(Self { dir, next: AtomicU64::new(0), count: AtomicU64::new(count), naming: Mutex::new(()), _claim: claim })
    }

    /// Stores bytes. They are durable when this returns.
    ///
    /// # Errors
    /// [`ObjectError`]; nothing was kept.
    pub fn put(&self, bytes: &[u8]) -> Result<Hash, ObjectError> {
        let hash = Hash::of(bytes);
        if self.holds(&hash) { Ok(hash) } else { self.put_from(bytes) }
    }

    /// Stores many, with few flushes. All of them are durable when this returns.
    ///
    /// # Errors
    /// [`ObjectError`]; of those that were not there none was kept.
    pub fn put_all(&self, all: &[Vec<u8>]) -> Result<(), ObjectError> {
        let wanted: BTreeMap<Hash, &Vec<u8>> = all.iter().map(|bytes| (Hash::of(bytes), bytes)).collect();
        let missing = wanted.into_iter().filter(|(hash, _)| !self.holds(hash)).collect();
        self.put_missing(missing)
    }

    fn put_missing(&self, missing: Vec<(Hash, &Vec<u8>)>) -> Result<(), ObjectError> {
        if missing.iter().any(|(_, bytes)| bytes.len() as u64 > OBJECT_BYTES) {
            return Err(ObjectError::TooLong);
        }
        let count = missing.len() as u64;
        if self.count.load(Ordering::Relaxed).saturating_add(count) > limits::OBJECTS as u64 {
            return Err(ObjectError::TooMany);
        }
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let new = (first..).map(|number| self.dir.join(format!("{number}{NEW}")));
        let places: Vec<(PathBuf, PathBuf)> = new.zip(missing.iter().map(|(hash, _)| self.file(hash))).collect();
        let stored = self.store_all(&missing, &places);
        if stored.is_err() {
            // What failed first is what is told.
            for (new, _) in &places {
                let _ = disk::remove_file(new);
            }
        }
        stored
    }

    fn store_all(&self, all: &[(Hash, &Vec<u8>)], places: &[(PathBuf, PathBuf)]) -> Result<(), ObjectError> {
        for ((_, bytes), (new, _)) in all.iter().zip(places) {
            let mut file = disk::create_file(new)?;
            file.write_all(bytes).map_err(while_doing("write an object"))?;
            if all.len() < limits::OBJECTS_FLUSHED_TOGETHER {
                file.sync_all().map_err(while_doing("flush an object"))?;
            }
        }
        if all.len() >= limits::OBJECTS_FLUSHED_TOGETHER {
            disk::sync_file_system(&self.dir)?;
        }
        Ok(self.give_names(places)?)
    }

    /// Each file gets its name, durably, or none of those that had no object does. One that another call put there meanwhile
    /// is that call's.
    fn give_names(&self, places: &[(PathBuf, PathBuf)]) -> Result<(), DiskFault> {
        let _alone = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Vec::new();
        let mut name = |(new, file): &(PathBuf, PathBuf)| {
            let known = file.exists();
            disk::rename(new, file)?;
            if !known {
                fresh.push(file.clone());
            }
            Ok::<(), DiskFault>(())
        };
        let named = places.iter().try_for_each(&mut name).and_then(|()| disk::sync_dir(&self.dir));
        if named.is_err() {
            // An object that is there is a durable one.
            for file in &fresh {
                let _ = disk::remove_file(file);
            }
            return named;
        }
        self.count.fetch_add(fresh.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Whether an object is there to stay: one that another call is about to name may come to nothing.
    fn holds(&self, hash: &Hash) -> bool {
        let _none_is_named = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        self.contains(hash)
    }

    /// Stores what a reader gives, without holding it in memory. It is durable when this returns.
    ///
    /// # Errors
    /// [`ObjectError`]; nothing was kept.
    pub fn put_from(&self, source: impl Read) -> Result<Hash, ObjectError> {
        if self.count.load(Ordering::Relaxed) >= limits::OBJECTS as u64 {
            return Err(ObjectError::TooMany);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let new = self.dir.join(format!("{number}{NEW}"));
        let stored = self.store(&new, source);
        if stored.is_err() {
            // What failed first is what is told.
            let _ = disk::remove_file(&new);
        }
        stored
    }

    fn store(&self, new: &Path, source: impl Read) -> Result<Hash, ObjectError> {
        let mut file = disk::create_file(new)?;
        let hash = copy(source, &mut file)?;
        file.sync_all().map_err(while_doing("flush an object"))?;
        self.give_names(&[(new.to_owned(), self.file(&hash))])?;
        Ok(hash)
    }

    /// Reads an object, `None` when it is not there. Its bytes are checked.
    ///
    /// # Errors
    /// [`ObjectError`]; a corrupt object is removed, so that it can be put again.
    pub fn get(&self, hash: &Hash) -> Result<Option<Vec<u8>>, ObjectError> {
        let file = match File::open(self.file(hash)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(while_doing("open an object")(error).into()),
        };
        let mut bytes = Vec::new();
        file.take(OBJECT_BYTES + 1).read_to_end(&mut bytes).map_err(while_doing("read an object"))?;
        if Hash::of(&bytes) == *hash {
            return Ok(Some(bytes));
        }
        self.remove(hash)?;
        Err(ObjectError::Corrupt(*hash))
    }

    /// Whether an object is there.
    pub fn contains(&self, hash: &Hash) -> bool {
        self.file(hash).exists()
    }

    /// Removes every object that is not named, and says how many that were.
    ///
    /// # Errors
    /// [`ObjectError`]; some of those that are not named may be there still.
    pub fn retain(&self, keep: &BTreeSet<Hash>) -> Result<usize, ObjectError> {
        let mut removed = 0;
        for path in disk::list(&self.dir, 2 * limits::OBJECTS)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if let Ok(hash) = Hash::from_str(&name)
                && !keep.contains(&hash)
            {
                self.remove(&hash)?;
                removed += 1;
            }
        }
        disk::sync_dir(&self.dir)?;
        Ok(removed)
    }

    /// Removes an object, unless it is not there. It may be there again after the power failed.
    ///
    /// # Errors
    /// [`ObjectError`]; it is there still.
    pub fn remove(&self, hash: &Hash) -> Result<(), ObjectError> {
        if self.contains(hash) {
            disk::remove_file(&self.file(hash))?;
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Where an object lies, or would. Whoever reads there checks what it reads.
    pub fn file(&self, hash: &Hash) -> PathBuf {
        self.dir.join(hash.to_string())
    }
}

fn copy(mut source: impl Read, file: &mut File) -> Result<Hash, ObjectError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; COPY_BYTES];
    let mut length = 0;
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(Hash::new(*hasher.finalize().as_bytes())),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(ObjectError::Source(while_doing("read the source of an object")(error))),
        };
        length += count as u64;
        if length > OBJECT_BYTES {
            return Err(ObjectError::TooLong);
        }
        let part = buffer.get(..count).unwrap_or_default();
        hasher.update(part);
        file.write_all(part).map_err(while_doing("write an object"))?;
    }
}

const COPY_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests;
