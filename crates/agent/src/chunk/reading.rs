//! How far a reading has come, for whoever watches it, and its end before time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared by the thread that reads and those who watch.
#[derive(Debug, Default)]
pub struct Reading {
    files: AtomicU64,
    bytes: AtomicU64,
    stopped: AtomicBool,
}

impl Reading {
    /// Files that were begun.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Bytes that were read; twice those of a file that was read again.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends it: the thread that reads gives up soon.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was ended.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
