//! `cede up`: the daemon of this device, in the foreground.

use cede_wire::control::{Failure, exit};

use crate::args::Up;
use crate::fault;
use crate::places::Places;

/// Runs the daemon until it is stopped.
pub(crate) fn run(_options: Up, _places: Places) -> Result<u8, Failure> {
    Err(fault::local(exit::FAILED, "the daemon is not part of this program yet", "", ""))
}
