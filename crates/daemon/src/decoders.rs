//! The readers of the daemon, as functions over bytes, for tests that feed them nonsense.

use cede_wire::control::notify::Sink;
use cede_wire::control::{Failure, Request};

use crate::{control, notices};

/// A question of the control socket, one line.
///
/// # Errors
/// What a client is told that asked it.
pub fn question(line: &[u8]) -> Result<Request, Failure> {
    control::understood(line)
}

/// The list of ways to call the person, each with its name and how it is shown.
///
/// # Errors
/// Why it is no such list.
pub fn ways(list: &[u8]) -> Result<Vec<(String, Sink, String)>, String> {
    notices::ways(list)
}
