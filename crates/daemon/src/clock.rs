//! The one place that reads a clock for the deciders.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cede_core::now::Now;

/// Starts with the daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        Now { monotonic: self.start.elapsed(), unix_ms: unix_ms() }
    }

    pub(crate) fn instant(&self, monotonic: core::time::Duration) -> Instant {
        self.start + monotonic
    }
}

pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Random bytes from the system. Without them nothing may start or go on: the id of an attempt must be new.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// The system gives no random bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;
