//! Throw-away homes, each with a daemon of its own that ends with the demo.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cede_wire::control::{Answer, Failure, StatusReport, exit};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::fault;
use crate::limits::{DAEMON_END, DAEMON_START, LOG_LINES};
use crate::places::Places;

/// The processes that a Ctrl-C must end.
pub(super) type Running = Arc<Mutex<Vec<u32>>>;

/// One device of the demo: a home directory and a daemon.
#[derive(Debug)]
pub(super) struct Device {
    /// Its name.
    pub(super) name: &'static str,
    /// The person's home directory on it.
    pub(super) home: PathBuf,
    /// Where its programs are looked for.
    pub(super) path: OsString,
    /// Its daemon.
    pub(super) client: Client,
    state: PathBuf,
    log: PathBuf,
    child: Child,
    running: Running,
}

impl Device {
    /// Makes the home and starts its daemon; returns when the daemon answers.
    pub(super) fn start(root: &Path, name: &'static str, path: &OsStr, running: &Running) -> Result<Self, Failure> {
        let place = root.join(name);
        let (home, everything, log) = (place.join("home"), place.join("cede"), place.join("log"));
        std::fs::create_dir_all(&home).map_err(|error| cannot("make a home", &error))?;
        let child = spawn(name, [&home, &everything, &log], path).map_err(|error| cannot("start a daemon", &error))?;
        lock(running).push(child.id());
        let places = Places::below(&everything);
        let (client, state) = (Client::new(&places.socket), places.state);
        let (path, running) = (path.to_owned(), running.clone());
        let mut device = Self { name, home, path, client, state, log, child, running };
        device.wait_until_it_answers()?;
        Ok(device)
    }

    /// What its daemon says of it.
    pub(super) fn status(&self) -> Result<StatusReport, Failure> {
        let Answer::Status(report) = self.client.ask(cede_wire::control::Command::Status)? else {
            return Err(fault::unexpected_answer());
        };
        Ok(*report)
    }

    /// Where its daemon keeps its state.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// The last lines of its log, for a person who looks for a cause.
    pub(super) fn last_words(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<String> = log.lines().map(str::to_owned).collect();
        lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().to_vec()
    }

    /// Stops the daemon through its socket, and waits for the process.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.client.ask(cede_wire::control::Command::Stop)?;
        let status = wait(&mut self.child, DAEMON_END);
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.ended_badly(&status.to_string())),
            None => Err(self.ended_badly("it did not end when asked to")),
        }
    }

    fn ended_badly(&self, why: &str) -> Failure {
        fault::local(exit::FAILED, &format!("the daemon of {} did not stop well", self.name), why, "")
    }

    fn wait_until_it_answers(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + DAEMON_START;
        loop {
            let failure = match self.status() {
                Ok(_) => return Ok(()),
                Err(failure) => failure,
            };
            let ended = self.child.try_wait().ok().flatten();
            if let Some(status) = ended {
                return Err(self.not_started(&format!("it ended with {status}")));
            }
            if Instant::now() > until {
                return Err(self.not_started(&failure.why));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn not_started(&self, why: &str) -> Failure {
        let why = format!("{why}; its last words: {}", self.last_words().join("; "));
        fault::local(exit::FAILED, &format!("the daemon of {} did not start", self.name), &why, "cede doctor")
    }
}

/// However the demo ends, no daemon outlives it.
impl Drop for Device {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            end(self.child.id());
            if wait(&mut self.child, DAEMON_END).is_none() {
                let _gone = self.child.kill();
                let _gone = self.child.wait();
            }
        }
        lock(&self.running).retain(|id| *id != self.child.id());
    }
}

/// Keeps the agents' own programs off the network.
pub(super) const QUIET: [(&str, &str); 2] =
    [("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_MODELS_FETCH", "1")];

/// Asks every process to end.
pub(super) fn end_all(running: &Running) {
    lock(running).iter().copied().for_each(end);
}

/// A failure of the world around the demo.
pub(super) fn cannot(what: &str, error: &std::io::Error) -> Failure {
    let cure = "look at the space and the permissions of the directory for temporary files (TMPDIR)";
    fault::local(exit::FAILED, &format!("the demo cannot {what}"), &error.to_string(), cure)
}

/// Nothing of the person's own environment but the search path: no agents' homes, no configuration, no proxies.
fn spawn(name: &str, [home, everything, log]: [&Path; 3], path: &OsStr) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt;

    let log = File::create(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["up", "--listen", "127.0.0.1:0", "--no-discovery", "--while-stdin", "--name", name]);
    command.env_clear().env("PATH", path).envs(QUIET);
    command.env("HOME", home).env("CEDE_HOME", everything).env("GIT_CONFIG_NOSYSTEM", "1");
    command.current_dir(home).stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    // A group of its own: Ctrl-C reaches the demo, which ends the daemons after it has said what happened.
    command.process_group(0).spawn()
}

fn end(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(pid, Signal::TERM);
    }
}

fn wait(child: &mut Child, most: Duration) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + most;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn lock(running: &Running) -> std::sync::MutexGuard<'_, Vec<u32>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
