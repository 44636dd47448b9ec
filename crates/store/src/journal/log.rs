//! The file: room ahead, append, flush, replace. Every failure after which the disk is in doubt is final.
//! Source: SPEC J-7.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cede_wire::record::Record;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::frame::{Batch, FILE_HEADER_BYTES, FileHeader, GROUP_HEADER_BYTES, GroupHeader};
use super::replay::{Scan, Tail, scan};
use super::{CommitError, Condition, JournalError, Position, Replay, fits};
use crate::disk::{self, DiskFault, NEW, while_doing};
use crate::home::Home;
use crate::limits::{GROUP_BYTES, JOURNAL_RESERVE_BYTES, JOURNAL_SET_ASIDE, JOURNAL_STEP_BYTES};

/// The journal's file and where it stands.
#[derive(Debug)]
pub(crate) struct Log {
    dir: PathBuf,
    file: File,
    state: State,
    /// Batches durable since it was opened.
    batches: u64,
}

#[derive(Debug)]
enum State {
    /// Batches can be appended behind the tail; the file is written with zeros up to `room`.
    Open { tail: Tail, room: u64 },
    /// Damage was found. Nothing is written, so that a person can look.
    ReadOnly,
    /// A write or a flush failed.
    Stopped,
}

impl Log {
    /// Opens the journal of a home, or creates one.
    pub(crate) fn open(home: &Home) -> Result<(Self, Replay), JournalError> {
        let dir = home.path(DIR);
        if !exists(&dir)? {
            create(home.dir(), &dir)?;
        }
        disk::remove_file(&dir.join(NEW_FILE))?;
        let file = disk::open_file(&dir.join(FILE)).map_err(missing)?;
        let Scan { records, condition, closed, tail } = scan(&file)?;
        let state = continue_at(&file, condition, tail)?;
        // A run that was killed may have left what it had not flushed yet. From here on it is acted on.
        file.sync_all().map_err(while_doing("flush the journal"))?;
        disk::sync_dir(&dir)?;
        disk::sync_dir(home.dir())?;
        let replay = Replay { records, condition, closed, position: Position(0) };
        Ok((Self { dir, file, state, batches: 0 }, replay))
    }

    /// Moves the journal aside and begins another one with these records.
    pub(crate) fn start_over(home: &Home, keep: &[Record]) -> Result<Self, JournalError> {
        let dir = home.path(DIR);
        let free = |number: &u32| !dir.join(format!("{FILE}.damaged-{number}")).exists();
        let number = (0..JOURNAL_SET_ASIDE).find(free).ok_or(JournalError::TooManySetAside)?;
        let (file, tail) = write_whole(&dir, FileHeader { salt: salt()?, before: [0; 32] }, keep)?;
        let old = dir.join(FILE);
        // A second name first: at no instant is there no journal, and the damaged one is never lost.
        match std::fs::hard_link(&old, dir.join(format!("{FILE}.damaged-{number}"))) {
            // One that is missing is begun anew as well.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            linked => linked.map_err(while_doing("set a file aside"))?,
        }
        disk::rename(&dir.join(NEW_FILE), &old)?;
        disk::sync_dir(&dir)?;
        let room = tail.end;
        Ok(Self { dir, file, state: State::Open { tail, room }, batches: 0 })
    }

    /// Length of what is written.
    pub(crate) fn length(&self) -> u64 {
        match &self.state {
            State::Open { tail, .. } => tail.end,
            State::ReadOnly | State::Stopped => 0,
        }
    }

    /// Lets it write somewhere else, where the system says no.
    #[cfg(test)]
    pub(crate) fn onto(mut self, file: File) -> Self {
        self.file = file;
        self
    }

    /// Where the journal stands after so many more batches.
    pub(crate) fn advance(&mut self, batches: u64) -> Position {
        self.batches += batches;
        Position(self.batches)
    }

    /// Appends a group and flushes it. It is durable when this returns.
    pub(crate) fn append(&mut self, group: &Batch) -> Result<(), CommitError> {
        let (tail, room) = match &mut self.state {
            State::Open { tail, room } => (tail, room),
            State::ReadOnly => return Err(CommitError::ReadOnly),
            State::Stopped => return Err(CommitError::Stopped),
        };
        let bytes = (GROUP_HEADER_BYTES + group.bytes.len()) as u64;
        if !fits(tail.end, bytes) {
            return Err(CommitError::Full);
        }
        match make_room(&self.file, *room, tail.end + bytes) {
            Ok(Some(made)) => *room = made,
            Ok(None) => return Err(CommitError::NoSpace),
            Err(fault) => return Err(self.stop(fault)),
        }
        write_group(&self.file, tail, group).and_then(|()| flush(&self.file)).map_err(|fault| self.stop(fault))
    }

    /// Puts a journal with just these records in the place of this one.
    pub(crate) fn rewrite(&mut self, keep: &[Record], seen: Position) -> Result<(), CommitError> {
        let before = match &self.state {
            State::Open { tail, .. } => tail.chain,
            State::ReadOnly => return Err(CommitError::ReadOnly),
            State::Stopped => return Err(CommitError::Stopped),
        };
        if seen != Position(self.batches) {
            return Err(CommitError::Stale);
        }
        match write_whole(&self.dir, FileHeader { salt: salt()?, before }, keep) {
            Ok((file, tail)) => self.settle_on(file, tail),
            Err(fault) if fault.is_full() => Err(CommitError::NoSpace),
            Err(fault) => Err(self.stop(fault)),
        }
    }

    /// Gives the new file its name. Which of the two is the journal is in doubt until both calls went well.
    fn settle_on(&mut self, file: File, tail: Tail) -> Result<(), CommitError> {
        let (new, name) = (self.dir.join(NEW_FILE), self.dir.join(FILE));
        disk::rename(&new, &name).and_then(|()| disk::sync_dir(&self.dir)).map_err(|fault| self.stop(fault))?;
        let room = tail.end;
        self.file = file;
        self.state = State::Open { tail, room };
        Ok(())
    }

    fn stop(&mut self, fault: DiskFault) -> CommitError {
        self.state = State::Stopped;
        fault.into()
    }

    /// Marks an orderly end: behind it, a bad last group shows as damage and not as a torn write.
    pub(crate) fn close(&mut self) {
        if let State::Open { .. } = self.state
            && let Err(error) = self.append(&Batch::default())
        {
            tracing::warn!(%error, "the journal was not marked as closed");
        }
    }
}

fn exists(dir: &Path) -> Result<bool, DiskFault> {
    dir.try_exists().map_err(while_doing("look for the journal"))
}

fn missing(fault: DiskFault) -> JournalError {
    if fault.errno == Errno::NOENT { JournalError::Missing } else { fault.into() }
}

/// Creates the directory and the first file under another name: a directory of the right name is never without it.
fn create(home: &Path, dir: &Path) -> Result<(), JournalError> {
    let new = dir.with_extension(NEW.trim_start_matches('.'));
    disk::remove_dir(&new)?;
    disk::make_dir(&new)?;
    let header = FileHeader { salt: salt()?, before: [0; 32] };
    write_whole(&new, header, &[])?;
    disk::rename(&new.join(NEW_FILE), &new.join(FILE))?;
    disk::sync_dir(&new)?;
    disk::rename(&new, dir)?;
    Ok(disk::sync_dir(home)?)
}

fn salt() -> Result<[u8; 32], DiskFault> {
    let mut salt = [0; 32];
    let errno = |errno| DiskFault { doing: "get random bytes", errno };
    let filled = getrandom(&mut salt, GetRandomFlags::empty()).map_err(errno)?;
    if filled == salt.len() { Ok(salt) } else { Err(errno(Errno::IO)) }
}

fn continue_at(file: &File, condition: Condition, tail: Option<Tail>) -> Result<State, JournalError> {
    let tail = match (condition, tail) {
        (Condition::Damaged { .. }, _) | (_, None) => return Ok(State::ReadOnly),
        (Condition::Clean | Condition::TornTail { .. }, Some(tail)) => tail,
    };
    if let Condition::TornTail { .. } = condition {
        // The cut is durable before anything is written there, so no part of the torn group can follow a new one.
        file.set_len(tail.end).map_err(while_doing("cut the journal"))?;
        file.sync_all().map_err(while_doing("flush the journal"))?;
    }
    let room = file.metadata().map_err(while_doing("look at the journal"))?.len();
    Ok(State::Open { tail, room })
}

/// Writes zeros ahead of the end, `None` when the disk is too full for it. The room that is there may be used up when
/// no more can be had.
fn make_room(file: &File, room: u64, end: u64) -> Result<Option<u64>, DiskFault> {
    if room >= end + JOURNAL_RESERVE_BYTES {
        return Ok(Some(room));
    }
    let wanted = (end + JOURNAL_RESERVE_BYTES).next_multiple_of(JOURNAL_STEP_BYTES);
    let zeros = vec![0; usize::try_from(wanted - room).unwrap_or(0)];
    match file.write_all_at(&zeros, room).map_err(while_doing("make room in the journal")) {
        Ok(()) => Ok(Some(wanted)),
        // Nothing but zeros was written, and the group itself was not begun. The zeros that did fit are room.
        Err(fault) if fault.is_full() => {
            let length = file.metadata().map_err(while_doing("look at the journal"))?.len();
            Ok((length >= end).then_some(length))
        }
        Err(fault) => Err(fault),
    }
}

fn write_group(file: &File, tail: &mut Tail, group: &Batch) -> Result<(), DiskFault> {
    let header = GroupHeader::of(&tail.key, &tail.chain, tail.number + 1, group.records, &group.bytes);
    let mut bytes = Vec::with_capacity(GROUP_HEADER_BYTES + group.bytes.len());
    bytes.extend_from_slice(&header.to_bytes(&tail.key));
    bytes.extend_from_slice(&group.bytes);
    file.write_all_at(&bytes, tail.end).map_err(while_doing("write to the journal"))?;
    tail.chain = header.chain;
    tail.number = header.number;
    tail.end += bytes.len() as u64;
    Ok(())
}

fn flush(file: &File) -> Result<(), DiskFault> {
    file.sync_data().map_err(while_doing("flush the journal"))
}

/// Writes a whole journal under the name of a new one, and flushes it.
pub(crate) fn write_whole(dir: &Path, header: FileHeader, keep: &[Record]) -> Result<(File, Tail), DiskFault> {
    let path = dir.join(NEW_FILE);
    disk::remove_file(&path)?;
    let file = disk::create_file(&path)?;
    let written = fill(&file, header, keep);
    if written.is_err() {
        // What failed first is what is told.
        let _ = disk::remove_file(&path);
    }
    Ok((file, written?))
}

fn fill(file: &File, header: FileHeader, keep: &[Record]) -> Result<Tail, DiskFault> {
    file.write_all_at(&header.to_bytes(), 0).map_err(while_doing("write a new journal"))?;
    let mut tail = Tail { key: header.key(), chain: header.chain(), number: 0, end: FILE_HEADER_BYTES as u64 };
    let mut group = Batch::default();
    for record in keep {
        group.push(record);
        if group.bytes.len() >= GROUP_BYTES {
            write_group(file, &mut tail, &group)?;
            group = Batch::default();
        }
    }
    if group.records > 0 {
        write_group(file, &mut tail, &group)?;
    }
    file.sync_all().map_err(while_doing("flush a new journal"))?;
    Ok(tail)
}

const DIR: &str = "journal";
/// Name of the journal in its directory.
pub(crate) const FILE: &str = "log";
const NEW_FILE: &str = "log.new";
