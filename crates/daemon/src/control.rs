//! The control socket: one question a connection, lines of answers, only for the person whose daemon it is.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use cede_wire::control::{Answer, Command, Failure, Reply, ReplyBody, Request, SCHEMA, TellUntil, exit};
use cede_wire::limits::CONTROL_LINE_BYTES;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::context::Context;
use crate::limits;
use crate::offering::failure;
use crate::persons;
use crate::terminals::local::{self, Question};

/// Where the answers of one question go.
#[derive(Clone)]
pub(crate) struct Replies(mpsc::Sender<ReplyBody>);

impl Replies {
    pub(crate) fn say(&self, body: ReplyBody) {
        // A client that went away hears nothing more; what it asked for goes on.
        let _ = self.0.try_send(body);
    }

    /// The same. False: nobody listens, or not fast enough.
    pub(crate) fn tell(&self, body: ReplyBody) -> bool {
        !matches!(self.0.try_send(body), Err(mpsc::error::TrySendError::Closed(_)))
    }

    pub(crate) fn done(&self, answer: Answer) {
        self.say(ReplyBody::Done(answer));
    }

    pub(crate) fn failed(&self, failed: Failure) {
        self.say(ReplyBody::Failed(failed));
    }

    pub(crate) fn settle(&self, result: Result<Answer, Failure>) {
        match result {
            Ok(answer) => self.done(answer),
            Err(failed) => self.failed(failed),
        }
    }

    pub(crate) fn watcher(&self) -> mpsc::Sender<ReplyBody> {
        self.0.clone()
    }
}

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something else is at the path.
    #[error("{0} exists and is not a socket; move it away")]
    NotASocket(String),
    /// The system refused.
    #[error("cannot open the control socket {path}")]
    Io {
        /// The path.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Opens the socket with mode 0600. The state directory's lock already says that no other daemon uses it.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let io = |source| SocketError::Io { path: path.display().to_string(), source };
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(path).map_err(io)?,
        Ok(_) => return Err(SocketError::NotASocket(path.display().to_string())),
        Err(_) => {}
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(io)?;
    }
    // Nobody else can connect between the two steps: only this user may reach a socket made under this mask.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener.map_err(io)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(io)?;
    Ok(listener)
}

/// Answers clients until the daemon stops.
pub(crate) async fn serve(context: Context, listener: UnixListener) {
    let seats = Arc::new(Semaphore::new(limits::CLIENTS));
    let rooms = Rooms::default();
    let own = rustix::process::geteuid().as_raw();
    loop {
        let Ok(seat) = seats.clone().acquire_owned().await else { return };
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => {
                tracing::warn!(%error, "a client was not accepted");
                tokio::time::sleep(limits::DIAL_FIRST).await;
                continue;
            }
        };
        let who = client.peer_cred().ok();
        if who.map(|who| who.uid()) != Some(own) {
            tracing::warn!("a client of another user was turned away");
            continue;
        }
        let pid = who.and_then(|who| u32::try_from(who.pid()?).ok());
        let (context, rooms) = (context.clone(), rooms.clone());
        tokio::spawn(async move { answer(&context, (client, pid), seat, &rooms).await });
    }
}

/// Where those sit that wait for a person or a peer, so that they keep nobody from asking, cancelling or stopping. Those that
/// wait for messages and tasks, of which a program may begin as many as it likes, keep nobody from moving a session either.
#[derive(Clone)]
struct Rooms {
    work: Arc<Semaphore>,
    words: Arc<Semaphore>,
}

impl Default for Rooms {
    fn default() -> Self {
        let room = |seats| Arc::new(Semaphore::new(seats));
        Self { work: room(limits::WAITING_CLIENTS), words: room(limits::WAITING_FOR_WORDS) }
    }
}

impl Rooms {
    /// The seat on which a question waits for its answer. The one that it came on is for questions that are answered at once.
    fn seat(&self, request: &mut Request, came_on: OwnedSemaphorePermit) -> Result<OwnedSemaphorePermit, Failure> {
        let waits = waits(&request.command);
        let room = match waits {
            Waits::Not => return Ok(came_on),
            Waits::Words | Waits::WordsAMoment => &self.words,
            Waits::Work => &self.work,
        };
        match (room.clone().try_acquire_owned(), waits) {
            (Ok(seat), _) => Ok(seat),
            (Err(_), Waits::WordsAMoment | Waits::Not) => {
                // It is told, and nobody waits to hear that it came.
                if let Command::Tell(request) = &mut request.command {
                    request.until = TellUntil::Queued;
                }
                Ok(came_on)
            }
            (Err(_), Waits::Words) => {
                let why = format!("too many wait: {} commands wait for messages and tasks", limits::WAITING_FOR_WORDS);
                Err(failure(
                    exit::FAILED,
                    NOT_BEGUN,
                    &why,
                    "leave out --wait; cede inbox --sent and cede tasks say how far it is",
                ))
            }
            (Err(_), Waits::Work) => {
                let why = format!("too many wait: {} commands wait for their answers", limits::WAITING_CLIENTS);
                Err(failure(exit::FAILED, NOT_BEGUN, &why, "cede status; cede cancel <move>"))
            }
        }
    }
}

const NOT_BEGUN: &str = "the command was not begun";

async fn answer(
    context: &Context,
    (client, pid): (UnixStream, Option<u32>),
    seat: OwnedSemaphorePermit,
    rooms: &Rooms,
) {
    let (read, mut write) = client.into_split();
    let mut read = BufReader::new(read);
    let (sender, mut bodies) = mpsc::channel(limits::REPLIES);
    let replies = Replies(sender);
    let mut asked = tokio::time::timeout(limits::CLIENT_PATIENCE, question(&mut read)).await;
    if let (Ok(Ok(request)), Some(pid)) = (&asked, pid)
        && persons::is_a_persons(&request.command)
        && context.block(move |_| cede_agent::turns::is_of_a_turn(pid)).await.unwrap_or(true)
    {
        asked = Ok(Err(persons::of_a_task()));
    }
    let (asked, _seat) = match asked {
        Ok(Ok(mut request)) => match rooms.seat(&mut request, seat) {
            Ok(seat) => (Ok(Ok(request)), Some(seat)),
            Err(crowded) => (Ok(Err(crowded)), None),
        },
        other => (other, Some(seat)),
    };
    match asked {
        Ok(Ok(Request { command: Command::Run(request), .. })) => {
            bodies = local::serve(context.clone(), Question::Run(request), read);
        }
        Ok(Ok(Request { command: Command::View(request), .. })) => {
            bodies = local::serve(context.clone(), Question::View(request), read);
        }
        Ok(Ok(request)) => {
            let asked = replies.clone();
            if context.ask(move |actor| actor.command(request.command, asked)).await.is_err() {
                replies.failed(crate::offering::stopping(crate::context::Stopping::Told));
            }
        }
        Ok(Err(failed)) => replies.failed(failed),
        Err(_) => return,
    }
    drop(replies);
    let mut look = tokio::time::interval(limits::CLIENT_LOOK);
    loop {
        let body = tokio::select! {
            body = bodies.recv() => body,
            // A client that went away before its answer gives its seat to the next one.
            _ = look.tick() => if is_gone(&write).await { None } else { continue },
        };
        let Some(body) = body else { return };
        let last = matches!(body, ReplyBody::Done(_) | ReplyBody::Failed(_));
        let Ok(mut line) = serde_json::to_vec(&Reply::new(body)) else { return };
        line.push(b'\n');
        let written = tokio::time::timeout(limits::CLIENT_STUCK, write.write_all(&line)).await;
        if !matches!(written, Ok(Ok(()))) || last {
            return;
        }
    }
}

/// For what a command waits.
#[derive(Clone, Copy)]
enum Waits {
    /// It is answered within ten seconds, and mostly at once. Answers to questions are: who waits must not be in their way.
    Not,
    /// For what becomes of a message or a task, as long as that takes.
    Words,
    /// The same, for a moment.
    WordsAMoment,
    /// For a person or a peer.
    Work,
}

fn waits(command: &Command) -> Waits {
    if let Command::Tell(request) = command {
        return match (request.until, request.wait_ms) {
            (TellUntil::Queued, _) => Waits::Not,
            (_, None) => Waits::Words,
            (_, Some(_)) => Waits::WordsAMoment,
        };
    }
    if let Command::Ask(request) = command {
        return if request.wait { Waits::Words } else { Waits::WordsAMoment };
    }
    let work = matches!(
        command,
        Command::To(_)
            | Command::Take { .. }
            | Command::Seize { .. }
            | Command::Pair { .. }
            | Command::PairWith { .. }
            | Command::Send(_)
            | Command::Run(_)
            | Command::View(_)
    );
    if work { Waits::Work } else { Waits::Not }
}

/// True where the other end is closed in both directions; one that only said that it asks no more still listens.
async fn is_gone(write: &tokio::net::unix::OwnedWriteHalf) -> bool {
    let looked = tokio::time::timeout(limits::CLIENT_LOOK, write.ready(Interest::WRITABLE)).await;
    matches!(looked, Ok(Ok(ready)) if ready.is_write_closed())
}

async fn question(read: &mut BufReader<tokio::net::unix::OwnedReadHalf>) -> Result<Request, Failure> {
    let mut line = Vec::new();
    let mut bounded = read.take(CONTROL_LINE_BYTES as u64);
    let io = |error: std::io::Error| failure(exit::FAILED, "the question was not read", &error.to_string(), "");
    bounded.read_until(b'\n', &mut line).await.map_err(io)?;
    understood(&line)
}

/// The question in a line.
pub(crate) fn understood(line: &[u8]) -> Result<Request, Failure> {
    let schema = serde_json::from_slice::<serde_json::Value>(line).ok();
    let schema = schema.as_ref().and_then(|value| value.get("schema")?.as_str());
    if schema.is_some_and(|schema| schema != SCHEMA) {
        let why = format!("the command speaks {}, the daemon {SCHEMA}", schema.unwrap_or_default());
        return Err(failure(
            exit::VERSION,
            "the command and the daemon are of two versions",
            &why,
            "restart the daemon: cede stop; cede up",
        ));
    }
    serde_json::from_slice(line)
        .map_err(|error| failure(exit::USAGE, "the question was not understood", &error.to_string(), ""))
}
