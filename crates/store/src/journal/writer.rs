//! The one thread that writes, and the bounded queue before it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use cede_wire::record::Record;

use super::frame::Batch;
use super::log::Log;
use super::{CommitError, Durable, OnDurable, Position};
use crate::disk::{DiskFault, while_doing};
use crate::home::Claim;
use crate::limits::{GROUP_BYTES, QUEUE_BATCHES, QUEUE_BYTES};

/// What the writer is asked to do.
pub(crate) enum Job {
    Commit { batch: Batch, on_durable: OnDurable },
    Rewrite { keep: Vec<Record>, seen: Position, on_durable: OnDurable },
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Commit { batch, .. } => batch.bytes.len(),
            Self::Rewrite { .. } => 0,
        }
    }

    fn answer(self, answer: Result<Durable, CommitError>) {
        let (Self::Commit { on_durable, .. } | Self::Rewrite { on_durable, .. }) = self;
        tell(on_durable, answer);
    }
}

/// Jobs that wait for the writer.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// A job came, or no more will.
    work: Condvar,
    /// Jobs were taken.
    room: Condvar,
    length: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    bytes: usize,
    closed: bool,
}

impl core::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Waiting({} jobs, {} bytes)", self.jobs.len(), self.bytes)
    }
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.jobs.len() >= QUEUE_BATCHES || self.bytes >= QUEUE_BYTES
    }

    fn push(&mut self, job: Job) {
        self.bytes += job.bytes();
        self.jobs.push_back(job);
    }

    fn pop(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.bytes -= job.bytes();
        Some(job)
    }
}

impl Queue {
    pub(crate) fn new(length: u64) -> Self {
        let length = AtomicU64::new(length);
        Self { waiting: Mutex::default(), work: Condvar::new(), room: Condvar::new(), length }
    }

    /// Takes the job, or answers it at once.
    pub(crate) fn offer(&self, job: Job) {
        let mut waiting = self.lock();
        if waiting.closed {
            drop(waiting);
            job.answer(Err(CommitError::Stopped));
        } else if waiting.is_full() {
            drop(waiting);
            job.answer(Err(CommitError::Busy));
        } else {
            waiting.push(job);
            drop(waiting);
            self.work.notify_one();
        }
    }

    /// Takes the job when there is room.
    pub(crate) fn wait_and_push(&self, job: Job) {
        let full = |waiting: &mut Waiting| waiting.is_full() && !waiting.closed;
        let mut waiting = self.room.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if waiting.closed {
            drop(waiting);
            return job.answer(Err(CommitError::Stopped));
        }
        waiting.push(job);
        drop(waiting);
        self.work.notify_one();
    }

    /// Lets the writer end when it has done what waits.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    pub(crate) fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// The jobs that one flush can serve, none when the queue is closed and empty.
    fn take(&self) -> Vec<Job> {
        let idle = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.closed;
        let mut waiting = self.work.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let mut jobs = Vec::new();
        let mut bytes = 0;
        while bytes < GROUP_BYTES {
            let Some(job) = waiting.pop() else { break };
            bytes += job.bytes();
            let alone = matches!(job, Job::Rewrite { .. });
            jobs.push(job);
            if alone || matches!(waiting.jobs.front(), Some(Job::Rewrite { .. })) {
                break;
            }
        }
        drop(waiting);
        self.room.notify_all();
        jobs
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the writer. It holds the claim until it has ended.
pub(crate) fn spawn(log: Log, queue: Arc<Queue>, claim: Claim) -> Result<JoinHandle<()>, DiskFault> {
    let run = move || {
        let ended = Ended(queue);
        run(log, &ended.0);
        drop(ended);
        drop(claim);
    };
    let named = std::thread::Builder::new().name("cede-journal".to_owned());
    named.spawn(run).map_err(|error: io::Error| while_doing("start the journal's writer")(error))
}

/// However the writer ends, nobody waits for it any more.
pub(crate) struct Ended(pub(crate) Arc<Queue>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.close();
        let left = std::mem::take(&mut self.0.lock().jobs);
        for job in left {
            job.answer(Err(CommitError::Stopped));
        }
    }
}

fn run(mut log: Log, queue: &Queue) {
    loop {
        let mut jobs = queue.take();
        match jobs.pop() {
            None => break,
            Some(Job::Rewrite { keep, seen, on_durable }) => {
                let done = log.rewrite(&keep, seen);
                queue.length.store(log.length(), Ordering::Relaxed);
                tell(on_durable, done.map(|()| Durable { position: log.advance(0) }));
            }
            Some(last) => {
                jobs.push(last);
                commit(&mut log, queue, jobs);
            }
        }
    }
    log.close();
}

fn commit(log: &mut Log, queue: &Queue, jobs: Vec<Job>) {
    let mut group = Batch::default();
    for job in &jobs {
        if let Job::Commit { batch, .. } = job {
            group.bytes.extend_from_slice(&batch.bytes);
            group.records += batch.records;
        }
    }
    // A group of no records is the mark of an orderly end; batches without records have nothing to wait for.
    let done = if group.records == 0 { Ok(()) } else { log.append(&group) };
    queue.length.store(log.length(), Ordering::Relaxed);
    for job in jobs {
        let answer = done.clone().map(|()| Durable { position: log.advance(1) });
        job.answer(answer);
    }
}

/// A caller's panic is the caller's; the writer goes on.
fn tell(on_durable: OnDurable, answer: Result<Durable, CommitError>) {
    if catch_unwind(AssertUnwindSafe(|| on_durable(answer))).is_err() {
        tracing::error!("what waited for a commit panicked");
    }
}
