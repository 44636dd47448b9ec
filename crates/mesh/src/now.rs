//! Time, as an argument.

use core::time::Duration;

/// This moment. Safety never rests on `unix_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Since a fixed moment of this run; never goes back.
    pub monotonic: Duration,
    /// Milliseconds since 1970, for display.
    pub unix_ms: u64,
}

impl Now {
    /// The moment `wait` from now.
    pub fn after(&self, wait: Duration) -> Duration {
        self.monotonic.saturating_add(wait)
    }
}
