//! Every bound of membership and pairing: name, value, reason.

use core::time::Duration;

/// Most entries of a membership log. A person who adds and removes a device every week reaches it in ten years; the
/// whole log still fits the one frame that welcomes a device.
pub const LOG_ENTRIES: usize = 1_024;

/// Words shown for one pairing: 36 bits with a list of 512, for one guess.
pub const PAIRING_WORDS: usize = 4;

/// Longest text taken as pairing words. Four of the longest words with any spelling between them fit.
pub const PAIRING_TEXT_BYTES: usize = 256;

/// How long words can be used. Long enough to walk to the other machine, short enough to forget them.
pub const WORDS_LIFE: Duration = Duration::from_secs(600);

/// How long the peer may take for its next message. It only computes.
pub const STEP: Duration = Duration::from_secs(30);

/// How long the operator may take to compare the digits.
pub const CONFIRM: Duration = Duration::from_secs(300);

/// Failed guesses within [`FAILURE_WINDOW`] that lock pairing.
pub const FAILURES: usize = 3;

/// See [`FAILURES`].
pub const FAILURE_WINDOW: Duration = Duration::from_secs(600);

/// How long pairing then stays locked: three guesses in ten minutes are the most that anybody gets.
pub const LOCK: Duration = Duration::from_secs(600);

/// Most outputs that a pairing machine holds between two drains. One input causes five at most.
pub const OUTPUTS: usize = 16;
