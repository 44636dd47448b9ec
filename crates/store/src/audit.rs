//! The files of the audit log: append, flush, rotate. What an entry says, and whether the log holds, others know.
//!
//! They lie in `audit/`, named by their number; beside them the newest checkpoint, so that a cut shows. A write that was
//! cut off was never acknowledged, and goes at the next opening. What was acknowledged and is not there any more is said in the
//! log itself.

pub mod mirrors;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cede_wire::audit::{AuditCheckpoint, AuditEntry, AuditEvent, AuditFrameError, AuditHead};
use cede_wire::canonical::{Signed, decode, encode};
use cede_wire::id::Hash;
use cede_wire::limits::{AUDIT_ENTRY_BYTES, AUDIT_FILE_BYTES, AUDIT_FILES};

use crate::disk::{self, DiskFault, while_doing};
use crate::home::{Claim, Home};

/// Why the audit log cannot be used. What is in it was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// Caller: there is one handle only.
    #[error("the audit log is open already")]
    AlreadyOpen,
    /// World: the disk said no.
    #[error("the audit log cannot be written")]
    Disk(#[from] DiskFault),
    /// Bug: an entry is longer than any may be.
    #[error("an entry of the audit log is too long")]
    TooLong,
}

/// The audit log, open at its end.
#[derive(Debug)]
pub struct AuditLog {
    dir: PathBuf,
    file: File,
    head: AuditHead,
    /// Length of what is acknowledged in the newest file.
    end: u64,
    /// Number of the last entry.
    last: u64,
    /// The latest time of an entry of the newest file.
    latest_unix_ms: u64,
    chain: Hash,
    newest: Option<Signed<AuditCheckpoint>>,
    _claim: Claim,
}

/// How far a log is acknowledged, for whoever reads it while more is written.
#[derive(Debug, Clone)]
pub struct AuditMark {
    file: u64,
    end: u64,
    newest: Option<Signed<AuditCheckpoint>>,
}

/// The bytes of a log.
#[derive(Debug, Clone, Default)]
pub struct AuditFiles {
    /// The files, oldest first.
    pub files: Vec<Vec<u8>>,
    /// The newest checkpoint.
    pub newest: Option<Signed<AuditCheckpoint>>,
}

impl AuditFiles {
    /// The entries, oldest first, as far as they can be read.
    pub fn entries(&self) -> impl Iterator<Item = AuditEntry> {
        self.files.iter().flat_map(|bytes| entries_of(bytes))
    }
}

impl AuditLog {
    /// Opens the log, or begins one. Entries that were acknowledged and are not there are said to be lost.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn open(home: &Home, now_unix_ms: u64) -> Result<Self, AuditError> {
        let claim = home.claim("audit".to_owned()).ok_or(AuditError::AlreadyOpen)?;
        let dir = home.path(DIR);
        disk::make_dir(&dir)?;
        let numbers = numbers(&dir)?;
        let newest = newest(&dir);
        let mut log = match numbers.last() {
            Some(number) => Self::resume(dir, *number, claim)?,
            None => Self::begin(dir, AuditHead { file: 1, first: 1, before: Hash::new([0; 32]) }, claim)?,
        };
        if let Some(lost) = newest.as_ref().and_then(signed_number).filter(|signed| *signed > log.last) {
            log.last = lost;
            log.append(&[AuditEvent::Lost { until: lost }], now_unix_ms)?;
        }
        log.newest = newest;
        Ok(log)
    }

    /// How far the log goes now.
    pub fn mark(&self) -> AuditMark {
        AuditMark { file: self.head.file, end: self.end, newest: self.newest.clone() }
    }

    /// Reads every file of a home up to a mark, also while the log grows.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn read(home: &Home, mark: &AuditMark) -> Result<AuditFiles, AuditError> {
        let dir = home.path(DIR);
        let mut files = Vec::new();
        for number in numbers(&dir)?.into_iter().filter(|number| *number <= mark.file) {
            let mut bytes = whole(&dir, number)?;
            if number == mark.file {
                bytes.truncate(usize::try_from(mark.end).unwrap_or(usize::MAX));
            }
            files.push(bytes);
        }
        Ok(AuditFiles { files, newest: mark.newest.clone() })
    }

    /// The latest time that an entry of the newest file names, milliseconds since 1970; 0 where there is none. A clock that says
    /// less was set back.
    pub fn latest_unix_ms(&self) -> u64 {
        self.latest_unix_ms
    }

    /// Number of the last entry, and the chain after it: what a checkpoint signs.
    pub fn position(&self) -> (u64, Hash) {
        (self.last, self.chain)
    }

    /// The newest checkpoint.
    pub fn newest(&self) -> Option<&Signed<AuditCheckpoint>> {
        self.newest.as_ref()
    }

    /// Appends entries and flushes them: all of them are durable when this returns, or none counts.
    ///
    /// # Errors
    /// [`AuditError`]; the log is as it was.
    pub fn append(&mut self, events: &[AuditEvent], now_unix_ms: u64) -> Result<(), AuditError> {
        if self.end >= AUDIT_FILE_BYTES {
            self.rotate()?;
        }
        let (mut last, mut chain, mut bytes) = (self.last, self.chain, Vec::new());
        for event in events {
            last += 1;
            let entry = AuditEntry { number: last, at_unix_ms: now_unix_ms, event: event.clone() };
            let (frame, after) = entry.to_frame(&chain);
            if frame.len() > AUDIT_ENTRY_BYTES {
                return Err(AuditError::TooLong);
            }
            chain = after;
            bytes.extend_from_slice(&frame);
        }
        self.file.write_all_at(&bytes, self.end).map_err(while_doing("write to the audit log"))?;
        self.file.sync_data().map_err(while_doing("flush the audit log"))?;
        (self.last, self.chain, self.end) = (last, chain, self.end + bytes.len() as u64);
        self.latest_unix_ms = self.latest_unix_ms.max(now_unix_ms);
        Ok(())
    }

    /// Appends a checkpoint, and keeps it beside the files.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn seal(&mut self, point: Signed<AuditCheckpoint>, now_unix_ms: u64) -> Result<(), AuditError> {
        let bytes = encode(&point);
        self.append(&[AuditEvent::Checkpoint(point.clone())], now_unix_ms)?;
        disk::replace_file(&self.dir, NEWEST, &bytes)?;
        self.newest = Some(point);
        Ok(())
    }

    fn resume(dir: PathBuf, number: u64, claim: Claim) -> Result<Self, AuditError> {
        let path = name(&dir, number);
        let file = disk::open_file(&path)?;
        let bytes = whole(&dir, number)?;
        let Some((head, mut rest)) = AuditHead::from_bytes(&bytes).filter(|(head, _)| head.file == number) else {
            // It was made and not written, or somebody changed it: the next one begins anew and says so by its chain.
            let head = AuditHead { file: number + 1, first: 1, before: Hash::new([0; 32]) };
            return Self::begin(dir, head, claim);
        };
        let (mut last, mut chain) = (head.first.saturating_sub(1), head.before);
        let mut latest_unix_ms = 0;
        let mut torn = true;
        while !rest.is_empty() {
            match AuditEntry::from_frame(rest, &chain) {
                Ok((entry, after, behind)) => {
                    (last, chain, rest) = (entry.number, after, behind);
                    latest_unix_ms = entry.at_unix_ms.max(latest_unix_ms);
                }
                Err(AuditFrameError::CutOff) => break,
                Err(AuditFrameError::Changed | AuditFrameError::TooLong | AuditFrameError::Unreadable(_)) => {
                    torn = false;
                    break;
                }
            }
        }
        let end = (bytes.len() - rest.len()) as u64;
        let mut log = Self { dir, file, head, end, last, latest_unix_ms, chain, newest: None, _claim: claim };
        if !rest.is_empty() && torn {
            log.file.set_len(end).map_err(while_doing("cut the audit log"))?;
            log.file.sync_all().map_err(while_doing("flush the audit log"))?;
        } else if !rest.is_empty() {
            // What was changed stays as it is, for whoever looks.
            log.rotate()?;
        }
        Ok(log)
    }

    fn begin(dir: PathBuf, head: AuditHead, claim: Claim) -> Result<Self, AuditError> {
        let file = create(&dir, head)?;
        let (last, chain, end) = (head.first.saturating_sub(1), head.before, AuditHead::BYTES as u64);
        Ok(Self { dir, file, head, end, last, latest_unix_ms: 0, chain, newest: None, _claim: claim })
    }

    fn rotate(&mut self) -> Result<(), AuditError> {
        let head = AuditHead { file: self.head.file + 1, first: self.last + 1, before: self.chain };
        self.file = create(&self.dir, head)?;
        (self.head, self.end) = (head, AuditHead::BYTES as u64);
        for number in numbers(&self.dir)? {
            if number + AUDIT_FILES <= head.file {
                disk::remove_file(&name(&self.dir, number))?;
            }
        }
        Ok(())
    }
}

fn entries_of(bytes: &[u8]) -> Vec<AuditEntry> {
    let mut entries = Vec::new();
    let Some((head, mut rest)) = AuditHead::from_bytes(bytes) else { return entries };
    let mut chain = head.before;
    while let Ok((entry, after, behind)) = AuditEntry::from_frame(rest, &chain) {
        entries.push(entry);
        (chain, rest) = (after, behind);
    }
    entries
}

fn create(dir: &Path, head: AuditHead) -> Result<File, AuditError> {
    let path = name(dir, head.file);
    disk::remove_file(&path)?;
    let file = disk::create_file(&path)?;
    file.write_all_at(&head.to_bytes(), 0).map_err(while_doing("begin a file of the audit log"))?;
    file.sync_all().map_err(while_doing("flush the audit log"))?;
    disk::sync_dir(dir)?;
    Ok(file)
}

/// The number that a checkpoint covers; whether it is signed is for others to say.
fn signed_number(point: &Signed<AuditCheckpoint>) -> Option<u64> {
    decode::<AuditCheckpoint>(point.bytes()).ok().map(|point| point.number)
}

fn newest(dir: &Path) -> Option<Signed<AuditCheckpoint>> {
    decode(&disk::read_small(&dir.join(NEWEST), AUDIT_ENTRY_BYTES).ok()??).ok()
}

/// A file; one that went away meanwhile is empty, and shows as missing.
fn whole(dir: &Path, number: u64) -> Result<Vec<u8>, DiskFault> {
    disk::read_small(&name(dir, number), FILE_LONGEST).map(Option::unwrap_or_default)
}

/// Numbers of the files that are there, ascending.
fn numbers(dir: &Path) -> Result<Vec<u64>, DiskFault> {
    let Ok(names) = std::fs::read_dir(dir) else { return Ok(Vec::new()) };
    let mut numbers = Vec::new();
    for name in names {
        let name = name.map_err(while_doing("look at the audit log"))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).and_then(|name| name.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn name(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}{SUFFIX}"))
}

const DIR: &str = "audit";
const SUFFIX: &str = ".log";
const NEWEST: &str = "checkpoint";
/// A file is closed when it is long enough; one batch may still join.
const FILE_LONGEST: usize = AUDIT_FILE_BYTES as usize + (1 << 20);

#[cfg(test)]
mod tests;
