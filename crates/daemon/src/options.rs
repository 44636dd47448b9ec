//! What a daemon is started with.

use core::time::Duration;
use std::net::SocketAddr;
use std::path::PathBuf;

use cede_agent::adapter::Surroundings;

/// Where a daemon lives and how it is reached.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of everything durable; made with mode 0700.
    pub state: PathBuf,
    /// The control socket.
    pub socket: PathBuf,
    /// Where peers reach this device; port 0 takes any.
    pub listen: SocketAddr,
    /// The device's name; none keeps the one it has, or takes the host's.
    pub name: Option<String>,
    /// Announce and look for devices on the local network.
    pub discovery: bool,
    /// The directory in which files lie that came, by device; made with mode 0700.
    pub received: PathBuf,
    /// Most bytes that are taken in one sending of files.
    pub receive_limit: u64,
    /// How long a question waits for this device's operator; [`LONGEST_QUESTION`](crate::LONGEST_QUESTION) at most.
    pub question_life: Duration,
    /// The directory outside of the state where it is noted how far the state has come.
    pub notes: PathBuf,
    /// Sets a damaged journal aside and begins anew with what can be read of it.
    pub start_over: bool,
    /// Where the agents are.
    pub surroundings: Surroundings,
}
