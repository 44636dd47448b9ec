//! The truth: an append-only log of records, chained, with one writer and many commits per flush.
//!
//! The bytes are described in `proto/JOURNAL.md`. What is written together and flushed once is a *group*, and a
//! group begins only after the one before it is durable. So a bad group with nothing valid after it is a torn
//! write that nobody was told of, and a bad group before a valid one is damage.

#[cfg(feature = "decoders")]
pub mod decoder;
mod frame;
mod log;
mod replay;
mod writer;

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use cede_wire::record::Record;

use crate::disk::DiskFault;
use crate::home::{Claim, Home};
use crate::limits::{BATCH_BYTES, BATCH_RECORDS, JOURNAL_BYTES, RECORD_BYTES};
use frame::Batch;
use log::Log;
use writer::{Job, Queue};

/// Evidence that a batch is on the disk. Made by the journal's writer and nowhere else.
#[derive(Debug, PartialEq, Eq)]
pub struct Durable {
    position: Position,
}

impl Durable {
    /// Where the journal stood after this batch.
    pub fn position(&self) -> Position {
        self.position
    }
}

/// How many batches were durable since the journal was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64);

/// What the journal held when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// The records, in order, of whole batches only.
    pub records: Vec<Record>,
    /// How it ended.
    pub condition: Condition,
    /// Whether it had been closed in order; otherwise the process or the machine stopped at once.
    pub closed: bool,
    /// Where the journal stands.
    pub position: Position,
}

/// How a journal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// At the end of a group.
    Clean,
    /// In a write that was never acknowledged. It was cut off.
    TornTail {
        /// How much was cut off.
        bytes: u64,
    },
    /// At a bad place with valid groups behind it. The records are those before it; nothing can be committed.
    Damaged {
        /// Where the bad group begins.
        offset: u64,
    },
}

/// Why the journal did not open. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Caller: there is one handle only.
    #[error("the journal is open already")]
    AlreadyOpen,
    /// World: its directory is there and its file is not.
    #[error(
        "the journal is missing from its directory; restore it from a backup, or begin with an empty one: cede up --start-over"
    )]
    Missing,
    /// World: the file is of a later format.
    #[error("the journal has format {found}, this version knows {known}; install the newer version again")]
    NewerFormat {
        /// Its format.
        found: u16,
        /// Ours.
        known: u16,
    },
    /// World: a valid record that this version cannot read.
    #[error(
        "the journal holds a record of kind {kind} that this version does not know; install the newer version again"
    )]
    NewerRecord {
        /// Its kind.
        kind: u16,
        /// Where its group begins.
        offset: u64,
    },
    /// World: longer than any journal is.
    #[error("the journal is too long: {0} bytes")]
    TooLong(u64),
    /// World: a damaged journal was set aside too often.
    #[error("too many damaged journals lie in the data directory; remove those that were looked at")]
    TooManySetAside,
    /// World: the disk is full.
    #[error("no space left for the journal; free some and start again")]
    NoSpace,
    /// World: the disk said no.
    #[error("the journal did not open")]
    Disk(#[source] DiskFault),
}

impl From<DiskFault> for JournalError {
    fn from(fault: DiskFault) -> Self {
        if fault.is_full() { Self::NoSpace } else { Self::Disk(fault) }
    }
}

/// Why a batch was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Caller: a batch beyond the limits. Nothing was written.
    #[error("the batch is too large: {records} records, {bytes} bytes")]
    TooLarge {
        /// How many records.
        records: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// World: too many batches wait. Nothing was written.
    #[error("the journal is busy")]
    Busy,
    /// World: the disk is full. Nothing was written, and the next batch may fit.
    #[error("no space left for the journal")]
    NoSpace,
    /// World: the journal is as long as it may be. Nothing was written; rewrite it.
    #[error("the journal is full and must be rewritten")]
    Full,
    /// Caller: records were committed that the list to keep does not know. Nothing was written.
    #[error("the records to keep are out of date")]
    Stale,
    /// World: the journal is damaged and was opened for reading. Nothing was written.
    #[error("the journal is damaged, nothing can be committed")]
    ReadOnly,
    /// World: a write or a flush failed. Whether the batch is durable shows at the next start; this journal is over.
    #[error("the journal failed")]
    Disk(#[from] DiskFault),
    /// World: an earlier write or flush failed. Nothing was written; the daemon must stop.
    #[error("the journal has stopped after a failed write")]
    Stopped,
}

/// The journal, open. When it is dropped, what was submitted is written and the journal is closed in order.
#[derive(Debug)]
pub struct Journal {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens the journal, or creates an empty one, cuts off a torn tail, and gives back what it holds.
    ///
    /// # Errors
    /// [`JournalError`]; nothing was changed.
    pub fn open(home: &Home) -> Result<(Self, Replay), JournalError> {
        let claim = home.claim("journal".to_owned()).ok_or(JournalError::AlreadyOpen)?;
        let (log, replay) = Log::open(home)?;
        Ok((Self::start(log, claim)?, replay))
    }

    /// After damage or loss, and after the operator has looked: moves the journal to a file beside it, where there is one,
    /// and starts a new one with the records that the operator kept.
    ///
    /// # Errors
    /// [`JournalError`]; the damaged journal is in its place.
    pub fn start_over(home: &Home, keep: &[Record]) -> Result<Self, JournalError> {
        let claim = home.claim("journal".to_owned()).ok_or(JournalError::AlreadyOpen)?;
        let log = Log::start_over(home, keep)?;
        Self::start(log, claim)
    }

    fn start(log: Log, claim: Claim) -> Result<Self, JournalError> {
        let queue = Arc::new(Queue::new(log.length()));
        let thread = writer::spawn(log, Arc::clone(&queue), claim)?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Hands a batch to the writer. All of it becomes durable or none. `on_durable` is called once: on the writer's
    /// thread, or at once on this one when the batch is refused. It must not wait for another commit.
    ///
    /// # Errors
    /// To `on_durable`: [`CommitError`], which says what was written.
    pub fn submit(&self, batch: Vec<Record>, on_durable: impl FnOnce(Result<Durable, CommitError>) + Send + 'static) {
        match encode(&batch) {
            Ok(batch) => self.queue.offer(Job::Commit { batch, on_durable: Box::new(on_durable) }),
            Err(error) => on_durable(Err(error)),
        }
    }

    /// Makes a batch durable: all of it or none. Waits for room and for the disk. Source: SPEC J-3.
    ///
    /// # Errors
    /// [`CommitError`], which says what was written.
    pub fn commit(&self, batch: Vec<Record>) -> Result<Durable, CommitError> {
        let batch = encode(&batch)?;
        self.ask(|on_durable| Job::Commit { batch, on_durable })
    }

    /// Puts a new journal with just these records in the place of this one. `seen` is where the journal stood when
    /// the list was made; a batch after it makes the list stale. Source: SPEC J-8.
    ///
    /// # Errors
    /// [`CommitError`]; the journal is as it was.
    pub fn rewrite(&self, keep: Vec<Record>, seen: Position) -> Result<Durable, CommitError> {
        check_keep(&keep)?;
        self.ask(|on_durable| Job::Rewrite { keep, seen, on_durable })
    }

    /// Whether the journal is so long that a rewrite pays.
    pub fn wants_rewrite(&self) -> bool {
        self.queue.length() >= crate::limits::JOURNAL_REWRITE_BYTES
    }

    /// Length of the journal, bytes.
    pub fn length_bytes(&self) -> u64 {
        self.queue.length()
    }

    fn ask(&self, job: impl FnOnce(OnDurable) -> Job) -> Result<Durable, CommitError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.queue.wait_and_push(job(Box::new(move |result| drop(answer.send(result)))));
        answered.recv().unwrap_or(Err(CommitError::Stopped))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the journal's writer stopped by itself");
        }
    }
}

/// Told once what became of a batch.
type OnDurable = Box<dyn FnOnce(Result<Durable, CommitError>) + Send>;

fn encode(records: &[Record]) -> Result<Batch, CommitError> {
    let batch = Batch::of(records);
    let fits = records.len() <= BATCH_RECORDS && batch.bytes.len() <= BATCH_BYTES && batch.longest <= RECORD_BYTES;
    if fits { Ok(batch) } else { Err(CommitError::TooLarge { records: records.len(), bytes: batch.bytes.len() }) }
}

/// What is kept must fit into a journal and leave half of it free.
fn check_keep(keep: &[Record]) -> Result<(), CommitError> {
    let lengths = keep.iter().map(|record| record.to_bytes().len());
    let (longest, bytes) = lengths.fold((0, 0), |(longest, sum), length| (length.max(longest), sum + length));
    if longest <= RECORD_BYTES && bytes as u64 <= JOURNAL_BYTES / 2 {
        Ok(())
    } else {
        Err(CommitError::TooLarge { records: keep.len(), bytes })
    }
}

/// Whether a group of so many bytes still fits behind `end`.
fn fits(end: u64, bytes: u64) -> bool {
    end.saturating_add(bytes) <= JOURNAL_BYTES
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
