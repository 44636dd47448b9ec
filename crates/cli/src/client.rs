//! The control socket: one line asks, lines answer. Blocking, because a person waits for exactly one thing.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cede_wire::control::terminal::ViewerSays;
use cede_wire::control::{Answer, Command, Failure, Reply, ReplyBody, Request, SCHEMA, exit};
use cede_wire::limits::CONTROL_LINE_BYTES;
use serde::Deserialize;

use crate::fault;
use crate::limits::ANSWER_WAIT;

/// The daemon of this person, as far as its socket goes.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    socket: PathBuf,
}

/// The lines of one answer.
#[derive(Debug)]
pub(crate) struct Answers {
    from: BufReader<UnixStream>,
}

/// Why there is no answer. Whether the daemon has acted is unknown only for `Ended`, `TimedOut` and `Garbled`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// Nobody listens.
    #[error("nothing listens on {0}")]
    NoDaemon(String),
    /// The socket belongs to somebody else.
    #[error("{socket} is served by user {theirs}, this is user {ours}")]
    NotOurs {
        /// The socket.
        socket: String,
        /// Who serves it.
        theirs: u32,
        /// Who asks.
        ours: u32,
    },
    /// The system does not let us in.
    #[error("no permission to open {0}")]
    Denied(String),
    /// The system failed otherwise.
    #[error("{0}")]
    World(String),
    /// The daemon speaks another version.
    #[error("this command speaks {SCHEMA}, the daemon speaks {0}")]
    Schema(String),
    /// A line is longer than a line may be.
    #[error("a line is longer than {CONTROL_LINE_BYTES} bytes")]
    TooLong,
    /// A line is no reply.
    #[error("not a reply: {0}")]
    Garbled(String),
    /// The daemon closed the connection before its last line.
    #[error("the daemon closed the connection")]
    Ended,
    /// No line in time.
    #[error("the time for an answer is over")]
    TimedOut,
}

impl Client {
    /// A client of the daemon behind this socket. Nothing is opened yet.
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Asks something that is answered at once.
    ///
    /// # Errors
    /// The daemon's failure, or ours.
    pub(crate) fn ask(&self, command: Command) -> Result<Answer, Failure> {
        self.ask_within(command, ANSWER_WAIT)
    }

    /// Asks something that must be answered in a shorter time.
    ///
    /// # Errors
    /// The daemon's failure, or ours.
    pub(crate) fn ask_within(&self, command: Command, wait: Duration) -> Result<Answer, Failure> {
        let look = look_after(&command);
        last_of(self.open(command, Some(wait))?, look)
    }

    /// Asks something that takes as long as it takes; what is said before its end is not heard.
    ///
    /// # Errors
    /// The daemon's failure, or ours.
    pub(crate) fn ask_to_the_end(&self, command: Command) -> Result<Answer, Failure> {
        let look = look_after(&command);
        last_of(self.open(command, None)?, look)
    }

    /// Asks; the answer is read line by line, each within `wait`.
    ///
    /// # Errors
    /// [`AskError`]; the daemon has not acted.
    pub(crate) fn open(&self, command: Command, wait: Option<Duration>) -> Result<Answers, AskError> {
        let mut stream = UnixStream::connect(&self.socket).map_err(|error| self.not_connected(&error))?;
        self.check_owner(&stream)?;
        let world = |error: std::io::Error| AskError::World(error.to_string());
        stream.set_read_timeout(wait).map_err(world)?;
        stream.set_write_timeout(Some(ANSWER_WAIT)).map_err(world)?;
        stream.write_all(&request_line(command)?).map_err(|error| broken(&error))?;
        Ok(Answers { from: BufReader::new(stream) })
    }

    /// Asks something during whose answer the client has more to say.
    ///
    /// # Errors
    /// [`AskError`]; the daemon has not acted.
    pub(crate) fn converse(&self, command: Command) -> Result<(Answers, Sayer), AskError> {
        let answers = self.open(command, None)?;
        let to = answers.from.get_ref().try_clone().map_err(|error| AskError::World(error.to_string()))?;
        Ok((answers, Sayer(Arc::new(Mutex::new(to)))))
    }

    fn shown(&self) -> String {
        self.socket.display().to_string()
    }

    fn not_connected(&self, error: &std::io::Error) -> AskError {
        let absent = [ErrorKind::NotFound, ErrorKind::ConnectionRefused, ErrorKind::NotADirectory];
        if absent.contains(&error.kind()) {
            AskError::NoDaemon(self.shown())
        } else if error.kind() == ErrorKind::PermissionDenied {
            AskError::Denied(self.shown())
        } else {
            AskError::World(error.to_string())
        }
    }

    /// The words, approvals and paths on this socket are for this person's daemon only. Source: SPEC L-1.
    fn check_owner(&self, stream: &UnixStream) -> Result<(), AskError> {
        let ours = rustix::process::geteuid().as_raw();
        let theirs = self.served_by(stream).map_err(|error| AskError::World(error.to_string()))?;
        if theirs == ours { Ok(()) } else { Err(AskError::NotOurs { socket: self.shown(), theirs, ours }) }
    }

    #[cfg(target_os = "linux")]
    #[expect(clippy::unused_self, reason = "other systems look at the path")]
    fn served_by(&self, stream: &UnixStream) -> std::io::Result<u32> {
        Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
    }

    #[cfg(not(target_os = "linux"))]
    fn served_by(&self, _: &UnixStream) -> std::io::Result<u32> {
        use std::os::unix::fs::MetadataExt;
        Ok(std::fs::metadata(&self.socket)?.uid())
    }
}

/// The client's side of a conversation. Clones speak on the same connection, line by line.
#[derive(Debug, Clone)]
pub(crate) struct Sayer(Arc<Mutex<UnixStream>>);

impl Sayer {
    /// Says something. False: nobody hears it any more.
    pub(crate) fn say(&self, what: &ViewerSays) -> bool {
        let Ok(mut line) = serde_json::to_vec(what) else { return false };
        line.push(b'\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line).is_ok()
    }
}

impl Answers {
    /// The next line.
    ///
    /// # Errors
    /// [`AskError`]; the answer is over.
    pub(crate) fn next(&mut self) -> Result<ReplyBody, AskError> {
        let mut line = Vec::new();
        let most = CONTROL_LINE_BYTES as u64 + 1;
        self.from.by_ref().take(most).read_until(b'\n', &mut line).map_err(|error| broken(&error))?;
        match line.last() {
            Some(b'\n') => parse_reply(&line),
            _ if line.len() > CONTROL_LINE_BYTES => Err(AskError::TooLong),
            _ => Err(AskError::Ended),
        }
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        error.failure(STATUS)
    }
}

impl AskError {
    /// As a person reads it. `look`: what to type where it is not known whether the daemon has done it.
    pub(crate) fn failure(&self, look: &str) -> Failure {
        let (exit, what, cure) = match self {
            Self::NoDaemon(_) => (exit::NO_DAEMON, "the daemon is not running", "start it: cede up"),
            Self::NotOurs { .. } => {
                (exit::FAILED, "the control socket is not yours", "look who put it there, then: cede doctor")
            }
            Self::Denied(_) => {
                (exit::FAILED, "the control socket cannot be opened", "run cede as the user that ran: cede up")
            }
            Self::World(_) => (exit::FAILED, "the daemon cannot be asked", "cede doctor"),
            Self::Schema(_) => {
                (exit::VERSION, "the daemon is of another version", "restart it: cede stop, then cede up")
            }
            Self::TooLong | Self::Garbled(_) => {
                (exit::FAILED, "the daemon's answer cannot be read", "restart it: cede stop, then cede up")
            }
            Self::Ended => (exit::FAILED, "the daemon went away before it had answered", look),
            Self::TimedOut => (exit::TIMEOUT, "the daemon did not answer in time", look),
        };
        fault::local(exit, what, &self.to_string(), cure)
    }
}

/// What says whether the daemon did what it did not answer to.
fn look_after(command: &Command) -> &'static str {
    if matches!(command, Command::Tell(_)) {
        SENT
    } else if matches!(command, Command::Ask(_)) {
        TASKS
    } else if matches!(command, Command::Send(_)) {
        TRANSFERS
    } else {
        STATUS
    }
}

const STATUS: &str = "look where things stand: cede status";
pub(crate) const SENT: &str = "look whether it was told before you tell it again: cede inbox --sent";
pub(crate) const TASKS: &str = "look whether it was asked for before you ask again: cede tasks";
pub(crate) const TRANSFERS: &str = "look whether they are sent before you send them again: cede transfers";

fn last_of(mut answers: Answers, look: &str) -> Result<Answer, Failure> {
    loop {
        match answers.next().map_err(|error| error.failure(look))? {
            ReplyBody::Done(answer) => return Ok(answer),
            ReplyBody::Failed(failure) => return Err(failure),
            ReplyBody::Progress(_)
            | ReplyBody::Planned(_)
            | ReplyBody::Pairing(_)
            | ReplyBody::Sending(_)
            | ReplyBody::Terminal(_)
            | ReplyBody::Task(_)
            | ReplyBody::Telling(_) => {}
        }
    }
}

fn request_line(command: Command) -> Result<Vec<u8>, AskError> {
    let mut line = serde_json::to_vec(&Request::new(command)).map_err(|error| AskError::World(error.to_string()))?;
    line.push(b'\n');
    if line.len() > CONTROL_LINE_BYTES { Err(AskError::TooLong) } else { Ok(line) }
}

/// The version is read before the content: another version may mean anything by the rest.
pub(crate) fn parse_reply(line: &[u8]) -> Result<ReplyBody, AskError> {
    #[derive(Deserialize)]
    struct Envelope {
        schema: String,
    }
    let garbled = |error: serde_json::Error| AskError::Garbled(error.to_string());
    let envelope: Envelope = serde_json::from_slice(line).map_err(garbled)?;
    if envelope.schema != SCHEMA {
        return Err(AskError::Schema(envelope.schema));
    }
    serde_json::from_slice::<Reply>(line).map(|reply| reply.body).map_err(garbled)
}

fn broken(error: &std::io::Error) -> AskError {
    let late = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
    let gone = [ErrorKind::UnexpectedEof, ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
    if late.contains(&error.kind()) {
        AskError::TimedOut
    } else if gone.contains(&error.kind()) {
        AskError::Ended
    } else {
        AskError::World(error.to_string())
    }
}

#[cfg(test)]
pub(crate) mod tests;
