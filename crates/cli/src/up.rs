//! `cede up`: the daemon of this device, in the foreground.

use std::io::Read;

use cede_wire::control::{Failure, exit};
use rustix::process::{Signal, getpid, kill_process};

use crate::args::Up;
use crate::config::Config;
use crate::fault;
use crate::places::Places;

/// Runs the daemon until it is stopped.
///
/// # Errors
/// Why it did not start, or why it had to stop.
pub(crate) fn run(up: Up, places: Places) -> Result<u8, Failure> {
    let config = Config::read(&places.config).map_err(|error| error.failure(&places.config))?;
    if up.while_stdin {
        std::thread::spawn(end_with_stdin);
    }
    let _options = (up.listen.or(config.listen), up.name.or(config.name), up.log.or(config.log), config.discovery);
    Err(fault::local(exit::FAILED, "the daemon is not part of this program yet", "", ""))
}

/// Whoever started this daemon holds the other end, and may die without a word.
fn end_with_stdin() {
    let mut ignored = [0; 64];
    while std::io::stdin().read(&mut ignored).is_ok_and(|read| read > 0) {}
    let _ending = kill_process(getpid(), Signal::TERM);
}
