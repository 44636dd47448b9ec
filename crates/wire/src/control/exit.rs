//! Exit codes of `cede`. Source: SPEC L-4.

/// It worked.
pub const OK: u8 = 0;
/// It failed.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// No daemon runs.
pub const NO_DAEMON: u8 = 3;
/// A peer or an operator refused.
pub const REFUSED: u8 = 4;
/// Held or pending.
pub const PENDING: u8 = 5;
/// This device is not the owner.
pub const NOT_OWNER: u8 = 6;
/// No answer in time.
pub const TIMEOUT: u8 = 7;
/// No common protocol version.
pub const VERSION: u8 = 8;
/// Interrupted by the person.
pub const INTERRUPTED: u8 = 130;
