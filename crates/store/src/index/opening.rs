//! Opening sled where it can panic or hang, and the mark that says whether it may be believed.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use cede_wire::id::Hash;

use super::{IndexCondition, IndexError, Why};
use crate::disk::{self, DiskFault, while_doing};
use crate::limits::{INDEX_CACHE_BYTES, INDEX_OPEN, NOTE_BYTES};

/// sled, and the name of its directory.
pub(crate) type Opened = (sled::Db, String);

/// Opens the index that the mark names, else a new one in a directory that had never been used: an opening that was
/// given up may still be at work in the old one.
pub(crate) fn open(dir: &Path, layout: u32) -> Result<(Opened, IndexCondition), IndexError> {
    let mark = read_mark(dir)?;
    disk::remove_file(&dir.join(MARK))?;
    disk::sync_dir(dir)?;
    let why = match mark {
        None => Why::Unclean,
        Some(mark) if mark.layout != layout => Why::Layout,
        // sled drops rows in silence when a bit in the middle of its log is wrong, so its files are compared first.
        Some(mark) if digest(&dir.join(&mark.name), false).ok() != Some(mark.digest) => Why::Changed,
        Some(mark) => match open_guarded(&dir.join(&mark.name), INDEX_OPEN) {
            Some(db) => return Ok(((db, mark.name), IndexCondition::Ready)),
            None => Why::DoesNotOpen,
        },
    };
    let (name, existed) = next_name(dir)?;
    let why = if existed { why } else { Why::New };
    if existed {
        tracing::info!(?why, "the index is rebuilt");
    }
    let db = open_guarded(&dir.join(&name), INDEX_OPEN).ok_or(IndexError::Broken)?;
    Ok(((db, name), IndexCondition::Rebuild(why)))
}

/// Makes the files durable, then the mark: the next start may believe them.
pub(crate) fn mark_clean(dir: &Path, name: &str, layout: u32) -> Result<(), DiskFault> {
    let digest = digest(&dir.join(name), true)?;
    disk::replace_file(dir, MARK, format!("{layout} {name} {digest}\n").as_bytes())
}

/// The digest of every file in a directory and below, and of their names; flushes them if asked to.
fn digest(dir: &Path, flush: bool) -> Result<Hash, DiskFault> {
    let mut hasher = blake3::Hasher::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(path) = pending.pop() {
        for found in disk::list(&path, FILES)? {
            let file = File::open(&found).map_err(while_doing("open a file of the index"))?;
            if flush {
                file.sync_all().map_err(while_doing("flush a file of the index"))?;
            }
            let name = found.strip_prefix(dir).unwrap_or(&found).as_os_str().as_bytes();
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
            if found.is_dir() {
                pending.push(found);
            } else {
                let length = file.metadata().map_err(while_doing("look at a file of the index"))?.len();
                hasher.update(&length.to_le_bytes());
                hasher.update_reader(file).map_err(while_doing("read a file of the index"))?;
            }
        }
        if flush {
            disk::sync_dir(&path)?;
        }
    }
    Ok(Hash::new(*hasher.finalize().as_bytes()))
}

struct Mark {
    layout: u32,
    name: String,
    digest: Hash,
}

fn read_mark(dir: &Path) -> Result<Option<Mark>, DiskFault> {
    let Some(text) = disk::read_small(&dir.join(MARK), NOTE_BYTES)? else { return Ok(None) };
    Ok(parse_mark(&text))
}

fn parse_mark(text: &[u8]) -> Option<Mark> {
    let mut words = std::str::from_utf8(text).ok()?.strip_suffix('\n')?.split(' ');
    let (layout, name, digest) = (words.next()?, words.next()?, words.next()?);
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let mark = Mark { layout: layout.parse().ok()?, name: name.to_owned(), digest: digest.parse().ok()? };
    (digits && words.next().is_none()).then_some(mark)
}

/// Removes the indexes that are there and names one that is not.
fn next_name(dir: &Path) -> Result<(String, bool), DiskFault> {
    let mut highest: u64 = 0;
    let mut existed = false;
    for path in disk::list(dir, FILES)? {
        let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<u64>().ok());
        if let Some(number) = number {
            highest = highest.max(number);
            existed = true;
            disk::remove_dir(&path)?;
        }
    }
    Ok((highest.saturating_add(1).to_string(), existed))
}

/// Opens sled on a thread of its own. A panic, an error or silence gives `None`; a thread that hangs is left behind.
pub(crate) fn open_guarded(path: &Path, patience: Duration) -> Option<sled::Db> {
    let config = sled::Config::new()
        .path(path)
        .cache_capacity(INDEX_CACHE_BYTES)
        .mode(sled::Mode::LowSpace)
        // No thread that wakes up twice a second: what matters is flushed when it is closed.
        .flush_every_ms(None);
    within(patience, move || config.open().ok()).flatten()
}

/// Runs something that may panic or never return.
pub(crate) fn within<T: Send + 'static>(patience: Duration, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = sync_channel(1);
    let run = move || {
        if let Ok(value) = catch_unwind(AssertUnwindSafe(job)) {
            // Nobody listens when the patience was over.
            let _ = answer.send(value);
        }
    };
    std::thread::Builder::new().name("cede-index".to_owned()).spawn(run).ok()?;
    answered.recv_timeout(patience).ok()
}

const MARK: &str = "clean";
/// Most files that one directory of the index is believed to have.
const FILES: usize = 65_536;
