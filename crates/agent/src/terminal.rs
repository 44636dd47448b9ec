//! Hosted terminals: a command in a pseudo-terminal, what it wrote, and the screen that comes of it.
//!
//! Every byte that the command writes has a number: its offset since the beginning. A [`Viewer`] reads from an offset
//! on, so one whose link broke goes on where it was. What is no longer kept is never passed over in silence: the viewer is
//! told how much it missed and gets the screen anew.
//!
//! One contract: **the command waits for no viewer, and no viewer for another.** Output is read as it comes and kept in
//! a bounded ring; whoever is slower than the ring misses some and is told.
//!
//! ```text
//! Terminal::start(order, told)     a session and process group of its own, an environment from a list
//! terminal.view(from)              any number of viewers; `told` is called when there is more
//! terminal.type_in(bytes)          who may type is decided elsewhere
//! terminal.end()                   how it ended, once it has
//! ```
//!
//! When the daemon dies, the kernel closes its end of the pseudo-terminal and hangs up: the command gets SIGHUP.

mod characters;
#[cfg(feature = "decoders")]
pub mod decoder;
mod environment;
pub mod filter;
mod output;
mod screen;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pty_process::blocking::{Command, Pty, open};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid};

use crate::limits;
pub use output::Frame;
use output::Output;

/// Rows and columns. Shape: at least one of each, at most [`limits::TERMINAL_ROWS`] and [`limits::TERMINAL_COLUMNS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    rows: u16,
    columns: u16,
}

impl Size {
    /// The nearest size that is allowed.
    pub fn new(rows: u16, columns: u16) -> Self {
        Self { rows: rows.clamp(1, limits::TERMINAL_ROWS), columns: columns.clamp(1, limits::TERMINAL_COLUMNS) }
    }

    /// Rows.
    pub fn rows(self) -> u16 {
        self.rows
    }

    /// Columns.
    pub fn columns(self) -> u16 {
        self.columns
    }
}

/// What is to be hosted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its whole environment; what is not on the list is left out. Source: [`cede_wire::control::terminal::is_passed_on`].
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that the daemon sets itself.
    pub marks: Vec<(OsString, OsString)>,
    /// The first size.
    pub size: Size,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No program is named, or too much is.
    #[error("a command has 1 to {} words of {} bytes in all", limits::COMMAND_WORDS, limits::COMMAND_BYTES)]
    Command,
    /// The environment is too large.
    #[error("the environment has more than {} variables or {} bytes", limits::VARIABLES, limits::VARIABLES_BYTES)]
    Environment,
    /// The system has no pseudo-terminal for us.
    #[error("no pseudo-terminal")]
    Pty(#[source] std::io::Error),
    /// The program does not start.
    #[error("the command does not start")]
    Spawn(#[source] std::io::Error),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// The system did not say.
    Unknown,
}

/// What was typed was not taken: the program reads nothing. Nothing of it was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the program does not read what is typed")]
pub struct NotTaken;

/// A hosted terminal. Clones are the same one.
#[derive(Clone)]
pub struct Terminal {
    shared: Arc<Shared>,
    typed: SyncSender<Vec<u8>>,
}

struct Shared {
    pty: Pty,
    leader: Pid,
    state: Mutex<State>,
    /// The reader has seen the end of the output.
    drained: Condvar,
    told: Box<dyn Fn() + Send + Sync>,
}

struct State {
    output: Output,
    drained: bool,
    /// The leader is not reaped: its number is its own.
    alive: bool,
    end: Option<End>,
}

impl Terminal {
    /// Starts a command. `told` is called from other threads whenever there is more to see; it must not block.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs.
    pub fn start(order: &Order, told: impl Fn() + Send + Sync + 'static) -> Result<Self, StartError> {
        let words: usize = order.command.iter().map(|word| word.len()).sum();
        let Some((program, arguments)) = order.command.split_first() else { return Err(StartError::Command) };
        if order.command.len() > limits::COMMAND_WORDS || words > limits::COMMAND_BYTES || program.is_empty() {
            return Err(StartError::Command);
        }
        let variables = environment::for_child(&order.environment, &order.marks).ok_or(StartError::Environment)?;
        let pty_error = |error: pty_process::Error| StartError::Pty(io_error(error));
        let (pty, pts) = open().map_err(pty_error)?;
        pty.resize(pty_process::Size::new(order.size.rows, order.size.columns)).map_err(pty_error)?;
        let flags = rustix::fs::fcntl_getfl(&pty).map_err(|error| StartError::Pty(error.into()))?;
        rustix::fs::fcntl_setfl(&pty, flags | rustix::fs::OFlags::NONBLOCK)
            .map_err(|error| StartError::Pty(error.into()))?;
        let command = Command::new(program).args(arguments).current_dir(&order.directory);
        let child = command.env_clear().envs(variables).spawn(pts);
        let child = child.map_err(|error| StartError::Spawn(io_error(error)))?;
        Ok(Self::attend(pty, child, order.size, Box::new(told)))
    }

    fn attend(pty: Pty, child: Child, size: Size, told: Box<dyn Fn() + Send + Sync>) -> Self {
        let state = State { output: Output::new(size), drained: false, alive: true, end: None };
        let shared = Arc::new(Shared {
            pty,
            leader: Pid::from_child(&child),
            state: Mutex::new(state),
            drained: Condvar::new(),
            told,
        });
        let (typed, to_write) = sync_channel(limits::TYPED_PIECES);
        let (reads, writes, waits) = (shared.clone(), shared.clone(), shared.clone());
        std::thread::spawn(move || reads.read());
        std::thread::spawn(move || writes.write(&to_write));
        std::thread::spawn(move || waits.wait(child));
        Self { shared, typed }
    }

    /// Passes on what was typed.
    ///
    /// # Errors
    /// [`NotTaken`]; nothing was passed on, or only the pieces before.
    pub fn type_in(&self, bytes: &[u8]) -> Result<(), NotTaken> {
        for piece in bytes.chunks(limits::TYPED_PIECE_BYTES) {
            match self.typed.try_send(piece.to_vec()) {
                // One that has ended takes nothing and misses nothing.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(_)) => return Err(NotTaken),
            }
        }
        Ok(())
    }

    /// Changes the size; the program is told. One that cannot be changed stays as it was.
    pub fn resize(&self, size: Size) {
        let mut state = self.shared.state();
        if state.output.size() != size
            && self.shared.pty.resize(pty_process::Size::new(size.rows, size.columns)).is_ok()
        {
            state.output.resize(size);
            drop(state);
            (self.shared.told)();
        }
    }

    /// The size now.
    pub fn size(&self) -> Size {
        self.shared.state().output.size()
    }

    /// A viewer that has seen everything before `from`; none: one that has seen nothing.
    pub fn view(&self, from: Option<u64>) -> Viewer {
        Viewer { shared: self.shared.clone(), reading: output::Reading::from(from) }
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.shared.state().output.end()
    }

    /// The process of the command.
    pub fn pid(&self) -> u32 {
        self.shared.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// How it ended, once it has and everything that it wrote is here.
    pub fn end(&self) -> Option<End> {
        self.shared.state().end
    }

    /// Hangs up: the command and what runs in the foreground get SIGHUP, as when a window is closed.
    pub fn hang_up(&self) {
        self.shared.signal(Signal::HUP);
        self.shared.signal(Signal::CONT);
    }

    /// Ends the command and what runs in the foreground, now.
    pub fn kill(&self) {
        self.shared.signal(Signal::KILL);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under the lock: a leader that is not reaped yet keeps its number.
    fn signal(&self, signal: Signal) {
        let state = self.state();
        if !state.alive {
            return;
        }
        let foreground = rustix::termios::tcgetpgrp(&self.pty).ok();
        for group in [foreground.filter(|group| *group != self.leader), Some(self.leader)].into_iter().flatten() {
            if test_kill_process_group(group).is_ok() {
                // It may end on its own at this very moment.
                let _ = kill_process_group(group, signal);
            }
        }
    }

    fn read(&self) {
        let mut buffer = vec![0; limits::TERMINAL_READ_BYTES];
        while self.ready(PollFlags::IN) {
            match rustix::io::read(&self.pty, &mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    if let Some(bytes) = buffer.get(..read) {
                        self.state().output.push(bytes);
                        (self.told)();
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                // Nobody has the other end open any more.
                Err(_) => break,
            }
        }
        self.state().drained = true;
        self.drained.notify_all();
    }

    fn write(&self, typed: &Receiver<Vec<u8>>) {
        let look = Duration::from_millis(limits::TERMINAL_LOOK_MS.unsigned_abs());
        loop {
            match typed.recv_timeout(look) {
                Ok(bytes) if self.write_all(&bytes) => {}
                Err(RecvTimeoutError::Timeout) if self.state().end.is_none() => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn write_all(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if !self.ready(PollFlags::OUT) {
                return false;
            }
            match rustix::io::write(&self.pty, bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Waits until the terminal can be read or written. False: it has ended.
    fn ready(&self, what: PollFlags) -> bool {
        let look = Timespec { tv_sec: 0, tv_nsec: limits::TERMINAL_LOOK_MS * 1_000_000 };
        while self.state().end.is_none() {
            let mut asked = [PollFd::from_borrowed_fd(self.pty.as_fd(), what)];
            match poll(&mut asked, Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    fn wait(&self, mut child: Child) {
        // It is looked at before it is reaped, so that no signal of ours meets another process of its number.
        while let Err(rustix::io::Errno::INTR) =
            waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        self.state().alive = false;
        let end = match child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => End::Code(code),
                (None, Some(signal)) => End::Signal(signal),
                (None, None) => End::Unknown,
            },
            Err(_) => End::Unknown,
        };
        let patience = Duration::from_millis(limits::LAST_OUTPUT_MS);
        let state = self.state();
        let waited = self.drained.wait_timeout_while(state, patience, |state| !state.drained);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.end = Some(end);
        drop(state);
        (self.told)();
    }
}

/// Somebody who looks on. It holds nobody back.
pub struct Viewer {
    shared: Arc<Shared>,
    reading: output::Reading,
}

impl Viewer {
    /// What comes next, at most so many bytes; none: nothing yet, or nothing more where the terminal has ended.
    pub fn next(&mut self, most_bytes: usize) -> Option<Frame> {
        self.shared.state().output.read(&mut self.reading, most_bytes)
    }
}

fn io_error(error: pty_process::Error) -> std::io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
    }
}

#[cfg(test)]
mod tests;
