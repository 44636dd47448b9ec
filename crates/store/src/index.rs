//! A convenience for looking things up: rows of bytes in named trees, on sled.
//!
//! Nothing in it is ever the only copy, and nothing that sled calls flushed is believed to be. After anything but an
//! orderly end, and whenever sled does not open, it is thrown away and the caller is told to rebuild it.
//! Source: SPEC J-12.

mod opening;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::disk::{self, DiskFault};
use crate::home::{Claim, Home};
use crate::limits::{INDEX_KEY_BYTES, INDEX_SCAN_ROWS, INDEX_VALUE_BYTES};

/// Whether the rows of an earlier run are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexCondition {
    /// They are.
    Ready,
    /// They are not: rebuild them.
    Rebuild(Why),
}

/// Why an index is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There was none.
    New,
    /// The process or the machine stopped at once.
    Unclean,
    /// It was written in another layout.
    Layout,
    /// Its files are not those that were closed.
    Changed,
    /// It did not open: an error, a panic, or no answer in time.
    DoesNotOpen,
}

/// Why an index did not open, or a row was not found or kept. Nothing but lookups depends on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Caller: there is one handle only.
    #[error("the index is open already")]
    AlreadyOpen,
    /// Caller: a key or a value beyond the limits. Nothing was written.
    #[error("a row too long for the index: key {key}, value {value} bytes")]
    TooLong {
        /// Length of the key.
        key: usize,
        /// Length of the value.
        value: usize,
    },
    /// World: it failed, and is thrown away at the next start. Until then look at the things themselves.
    #[error("the index is broken and is rebuilt at the next start")]
    Broken,
    /// World: the disk said no.
    #[error("the index did not open or close")]
    Disk(#[from] DiskFault),
}

/// The index, open. Dropped without [`Index::close`], it is rebuilt at the next start.
#[derive(Debug)]
pub struct Index {
    db: sled::Db,
    dir: PathBuf,
    /// The directory of this index within `dir`.
    name: String,
    layout: u32,
    broken: AtomicBool,
    _claim: Claim,
}

/// The rows of one kind.
#[derive(Debug)]
pub struct Tree<'a> {
    index: &'a Index,
    tree: sled::Tree,
}

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

impl Index {
    /// Opens the index, or begins an empty one. `layout` is the caller's number for what its rows look like.
    ///
    /// # Errors
    /// [`IndexError`], when not even an empty one opens.
    pub fn open(home: &Home, layout: u32) -> Result<(Self, IndexCondition), IndexError> {
        let claim = home.claim("index".to_owned()).ok_or(IndexError::AlreadyOpen)?;
        let dir = home.path("index");
        disk::make_dir(&dir)?;
        let (opened, condition) = opening::open(&dir, layout)?;
        let (db, name) = opened;
        Ok((Self { db, dir, name, layout, broken: AtomicBool::new(false), _claim: claim }, condition))
    }

    /// Opens the rows of one kind, or begins an empty set of them.
    ///
    /// # Errors
    /// [`IndexError`]; nothing was changed.
    pub fn tree(&self, name: &str) -> Result<Tree<'_>, IndexError> {
        let tree = self.guard(|| self.db.open_tree(name))?;
        Ok(Tree { index: self, tree })
    }

    /// Ends in order: the next start finds the rows. One that is broken is left to be thrown away.
    ///
    /// # Errors
    /// [`IndexError`]; the index is rebuilt at the next start.
    pub fn close(self) -> Result<(), IndexError> {
        self.guard(|| self.db.flush())?;
        let Self { db, dir, name, layout, broken, _claim } = self;
        catch_unwind(AssertUnwindSafe(|| drop(db))).map_err(|_| IndexError::Broken)?;
        if broken.load(Ordering::Relaxed) {
            return Err(IndexError::Broken);
        }
        Ok(opening::mark_clean(&dir, &name, layout)?)
    }

    /// Runs one call of sled; a panic or an error in it is the end of this index.
    fn guard<T>(&self, call: impl FnOnce() -> sled::Result<T>) -> Result<T, IndexError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(IndexError::Broken);
        }
        if let Ok(Ok(value)) = catch_unwind(AssertUnwindSafe(call)) {
            return Ok(value);
        }
        if !self.broken.swap(true, Ordering::Relaxed) {
            tracing::warn!("the index is broken and is rebuilt at the next start");
        }
        Err(IndexError::Broken)
    }
}

impl Tree<'_> {
    /// The value of a key.
    ///
    /// # Errors
    /// [`IndexError`]; nothing was changed.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.index.guard(|| self.tree.get(key))?.map(|value| value.to_vec()))
    }

    /// Puts a value in the place of the one of this key.
    ///
    /// # Errors
    /// [`IndexError`]; the value before is in place.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        check(key, value)?;
        self.index.guard(|| self.tree.insert(key, value)).map(drop)
    }

    /// Puts rows and removes those without a value, all or none as far as readers see. At most [`INDEX_SCAN_ROWS`].
    ///
    /// # Errors
    /// [`IndexError`]; no row was changed.
    pub fn put_all(&self, rows: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<(), IndexError> {
        if rows.len() > INDEX_SCAN_ROWS {
            return Err(IndexError::TooLong { key: rows.len(), value: 0 });
        }
        let mut batch = sled::Batch::default();
        for (key, value) in rows {
            check(key, value.as_deref().unwrap_or_default())?;
            match value {
                Some(value) => batch.insert(key.as_slice(), value.as_slice()),
                None => batch.remove(key.as_slice()),
            }
        }
        self.index.guard(|| self.tree.apply_batch(batch))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// [`IndexError`]; the value is in place.
    pub fn remove(&self, key: &[u8]) -> Result<(), IndexError> {
        self.index.guard(|| self.tree.remove(key)).map(drop)
    }

    /// The rows whose keys begin with `prefix` and come behind `after`, in order, at most [`INDEX_SCAN_ROWS`].
    ///
    /// # Errors
    /// [`IndexError`]; nothing was changed.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>) -> Result<Vec<Row>, IndexError> {
        let begin = after.map_or_else(|| prefix.to_vec(), |after| [after, &[0]].concat());
        self.index.guard(|| {
            let rows = self.tree.range(begin..).take(INDEX_SCAN_ROWS);
            let ours = |row: &sled::Result<(sled::IVec, sled::IVec)>| {
                row.as_ref().map_or(true, |(key, _)| key.starts_with(prefix))
            };
            let owned =
                |row: sled::Result<(sled::IVec, sled::IVec)>| row.map(|(key, value)| (key.to_vec(), value.to_vec()));
            rows.take_while(ours).map(owned).collect()
        })
    }

    /// Removes every row.
    ///
    /// # Errors
    /// [`IndexError`]; some rows may be gone.
    pub fn clear(&self) -> Result<(), IndexError> {
        self.index.guard(|| self.tree.clear())
    }

    /// How many rows there are. Reads all of them.
    ///
    /// # Errors
    /// [`IndexError`]; nothing was changed.
    pub fn count(&self) -> Result<usize, IndexError> {
        self.index.guard(|| Ok(self.tree.len()))
    }
}

fn check(key: &[u8], value: &[u8]) -> Result<(), IndexError> {
    if key.len() <= INDEX_KEY_BYTES && value.len() <= INDEX_VALUE_BYTES {
        Ok(())
    } else {
        Err(IndexError::TooLong { key: key.len(), value: value.len() })
    }
}

#[cfg(test)]
mod tests;
