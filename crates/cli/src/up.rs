//! `cede up`: the daemon of this device, in the foreground.

use std::error::Error;
use std::io::{IsTerminal, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cede_daemon::{LONGEST_QUESTION, OpenError, Options, RECEIVE_BYTES, RunError, SocketError, Surroundings};
use cede_wire::control::{Failure, exit};
use rustix::process::{Signal, getpid, kill_process};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::Up;
use crate::config::Config;
use crate::fault;
use crate::limits::LAST_WORK;
use crate::places::Places;
use crate::show;
use crate::terminal::Terminal;

/// Runs the daemon until it is stopped.
///
/// # Errors
/// Why it did not start, or why it had to stop.
pub(crate) fn run(up: Up, places: Places, terminal: &Terminal) -> Result<u8, Failure> {
    let config = Config::read(&places.config).map_err(|error| error.failure(&places.config))?;
    log(up.log.as_deref().or(config.log.as_deref()).unwrap_or("info"), terminal.json)?;
    begin_again_with_one_heap();
    if up.while_stdin {
        std::thread::spawn(end_with_stdin);
    }
    let state = places.state.clone();
    let options = options(up, config, places)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| fault::local(exit::FAILED, NOT_STARTED, &error.to_string(), ""))?;
    // Whoever reads a log finds the same there.
    let told = |up: &cede_daemon::Up| {
        if terminal.bars {
            terminal.talk(&show::up::page(up, &state));
        }
    };
    let ended = runtime.block_on(cede_daemon::run(options, told));
    runtime.shutdown_timeout(LAST_WORK);
    ended.map(|()| exit::OK).map_err(|error| failure(&error))
}

/// The system's allocator keeps what a thread freed for that thread, and large blocks once it has seen some: with each
/// move of a large tree the daemon grew. It listens to the environment only, and only when a program begins.
fn begin_again_with_one_heap() {
    let set = |(name, _): &(&str, &str)| std::env::var_os(name).is_some();
    if cfg!(not(all(target_os = "linux", target_env = "gnu"))) || HEAP.iter().any(set) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    // Where it cannot begin again, it goes on with the heap that it has.
    let _not_begun = Command::new(program).args(std::env::args_os().skip(1)).envs(HEAP).exec();
}

fn options(up: Up, config: Config, places: Places) -> Result<Options, Failure> {
    let surroundings = Surroundings::from_variables(places.state.join("agents"), std::env::vars_os());
    let no_home = || {
        fault::local(exit::FAILED, NOT_STARTED, "HOME is not set, so no agent's files can be found", "export HOME=…")
    };
    let received = received(up.received.or(config.received), places.received)?;
    apart(&received, &places.state)?;
    Ok(Options {
        question_life: question_life(up.questions_expire.or(config.questions_expire))?,
        surroundings: surroundings.ok_or_else(no_home)?,
        state: places.state,
        socket: places.socket,
        listen: up.listen.or(config.listen).unwrap_or(EVERYWHERE),
        name: up.name.or(config.name),
        notes: places.notes,
        received,
        receive_limit: config.receive_limit.unwrap_or(RECEIVE_BYTES),
        start_over: up.start_over,
        discovery: !up.no_discovery && config.discovery.unwrap_or(true),
    })
}

/// A relative path would mean another place with each start.
fn received(wanted: Option<PathBuf>, usual: PathBuf) -> Result<PathBuf, Failure> {
    match wanted {
        None => Ok(usual),
        Some(place) if place.is_absolute() => Ok(place),
        Some(place) => {
            let why = format!("{} is not an absolute path", place.display());
            Err(fault::local(exit::USAGE, NOT_STARTED, &why, "received = \"/home/you/Downloads\""))
        }
    }
}

/// What peers send never lies where this device keeps what it goes by, whatever a peer calls itself.
fn apart(received: &Path, state: &Path) -> Result<(), Failure> {
    let (files, own) = (real(received), real(state));
    if files.starts_with(&own) || own.starts_with(&files) {
        let why = format!("files would be received in {}, and the state lies in {}", files.display(), own.display());
        let cure = "choose a directory that is neither in the other: cede up --received /home/you/Downloads";
        return Err(fault::local(exit::USAGE, NOT_STARTED, &why, cure));
    }
    Ok(())
}

/// By its real name, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = found else { return path.to_owned() };
    path.strip_prefix(above).map_or_else(|_| path.to_owned(), |rest| real.join(rest))
}

fn question_life(wanted: Option<Duration>) -> Result<Duration, Failure> {
    match wanted {
        None => Ok(LONGEST_QUESTION),
        Some(life) if life <= LONGEST_QUESTION => Ok(life),
        Some(life) => {
            let why =
                format!("a question waits {} seconds at most, not {}", LONGEST_QUESTION.as_secs(), life.as_secs());
            Err(fault::local(exit::USAGE, NOT_STARTED, &why, "cede up --questions-expire 15m"))
        }
    }
}

/// Logs go to the standard error; colours only where a person looks.
fn log(filter: &str, json: bool) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        let cure = "say error, warn, info, debug or trace: cede up --log debug";
        fault::local(exit::USAGE, "the log filter is not understood", &error.to_string(), cure)
    })?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A line that a full disk does not take is lost. Saying so to the same place would fail too, and end the work that logs.
    let subscriber = subscriber.with_ansi(std::io::stderr().is_terminal()).log_internal_errors(false);
    // A subscriber that is set already logs as well.
    let _set = if json { subscriber.json().finish().try_init() } else { subscriber.finish().try_init() };
    Ok(())
}

/// Whoever started this daemon holds the other end, and may die without a word.
fn end_with_stdin() {
    let mut ignored = [0; 64];
    while std::io::stdin().read(&mut ignored).is_ok_and(|read| read > 0) {}
    let _ending = kill_process(getpid(), Signal::TERM);
}

fn failure(error: &RunError) -> Failure {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        why = format!("{why}: {deeper}");
        cause = deeper.source();
    }
    fault::local(exit::FAILED, what(error), &why, cure(error))
}

const fn what(error: &RunError) -> &'static str {
    match error {
        RunError::Loop(_) => "the daemon had to stop",
        RunError::Open(_)
        | RunError::Secret(_)
        | RunError::NotAKey
        | RunError::KeyLost
        | RunError::Incarnation(_)
        | RunError::Journal(_)
        | RunError::NothingDamaged
        | RunError::Objects(_)
        | RunError::Members(_)
        | RunError::Restore(_)
        | RunError::Succession(_)
        | RunError::Leave(_)
        | RunError::Bind(_)
        | RunError::Socket(_)
        | RunError::Audit(_)
        | RunError::Random(_) => NOT_STARTED,
    }
}

/// Most of these errors name their own cure.
fn cure(error: &RunError) -> &'static str {
    match error {
        RunError::Open(OpenError::Held { .. }) => {
            "ask the daemon that runs: cede status; a second one needs a home of its own: cede --home DIR up"
        }
        RunError::Open(OpenError::Disk { .. }) => {
            "see whether that directory can be made and written to, or name another one: cede --home DIR up"
        }
        RunError::Objects(_) | RunError::Random(_) | RunError::Socket(SocketError::Io { .. }) => AT_THE_DISK,
        RunError::Bind(_) => "take another port: cede up --listen 0.0.0.0:0",
        RunError::Loop(_) | RunError::Leave(_) | RunError::Audit(_) => "look at the disk, then start it again: cede up",
        RunError::Secret(_) | RunError::Incarnation(_) | RunError::Journal(_) if !names_its_cure(error) => AT_THE_DISK,
        RunError::Open(_)
        | RunError::Secret(_)
        | RunError::NotAKey
        | RunError::KeyLost
        | RunError::Incarnation(_)
        | RunError::Journal(_)
        | RunError::NothingDamaged
        | RunError::Members(_)
        | RunError::Restore(_)
        | RunError::Succession(_)
        | RunError::Socket(_) => "",
    }
}

/// What helps stands behind the first semicolon of an error, where it says so itself.
fn names_its_cure(error: &RunError) -> bool {
    error.to_string().contains("; ")
}

const AT_THE_DISK: &str = "look at the disk and at who may write there, then start it again: cede up";

/// One arena for all threads; blocks of more than 2 MiB go back to the system when they are freed.
const HEAP: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "2097152")];

const NOT_STARTED: &str = "the daemon did not start";

/// Where peers look for this device unless told otherwise: a port that stays the same across restarts, so that an
/// address which a peer remembers stays true.
const EVERYWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 4455));
