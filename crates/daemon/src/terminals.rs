//! The terminals that this device hosts: each is a session that lives as long as its command.
//!
//! They stand beside the actor: a key that is typed waits for no flush of the journal. Nothing of them is durable. A
//! terminal never moves: its processes cannot.

pub(crate) mod afar;
mod desk;
pub(crate) mod host;
pub(crate) mod keyboard;
pub(crate) mod local;
pub(crate) mod viewings;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cede_agent::adapter::limits::TITLE_CHARS;
use cede_agent::terminal::{End, Order, Size, StartError, Terminal};
use cede_wire::control::terminal::{RunRequest, TerminalEnd, TerminalSize, TerminalSummary};
use cede_wire::control::{Failure, exit};
use cede_wire::id::SessionId;
use cede_wire::session::{Activity, AgentKind, NativeId, SessionInfo, SessionKey};
use tokio::sync::watch;

use crate::clock::{random, unix_ms};
use crate::context::Context;
use crate::limits;
use crate::offering::{failure, stopping};
use desk::Desk;

/// The hosted terminals by their session.
#[derive(Default)]
pub(crate) struct Terminals(Mutex<BTreeMap<SessionId, Arc<Hosted>>>);

/// One hosted terminal.
pub(crate) struct Hosted {
    pub(crate) session: SessionId,
    key: SessionKey,
    pub(crate) title: String,
    command: String,
    directory: String,
    terminal: Terminal,
    news: Arc<News>,
    desk: Mutex<Desk>,
}

/// Wakes viewers.
struct News {
    changed: watch::Sender<()>,
    last_unix_ms: AtomicU64,
}

impl News {
    fn tell(&self) {
        self.last_unix_ms.store(unix_ms(), Ordering::Relaxed);
        self.changed.send_replace(());
    }
}

impl Terminals {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<Hosted>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<Hosted>> {
        self.all().get(&session).cloned()
    }

    /// The sessions, as adapters list theirs.
    pub(crate) fn infos(&self) -> Vec<SessionInfo> {
        self.all().values().map(|hosted| hosted.info()).collect()
    }

    /// The terminals that a text means: by name, or by the beginning of an id.
    pub(crate) fn meant(&self, text: &str) -> Vec<Arc<Hosted>> {
        let all = self.all();
        let named: Vec<_> = all.values().filter(|hosted| hosted.title == text).cloned().collect();
        if !named.is_empty() || text.is_empty() {
            return named;
        }
        all.values().filter(|hosted| hosted.session.to_string().starts_with(text)).cloned().collect()
    }

    fn add(&self, hosted: Arc<Hosted>) -> Result<(), Failure> {
        let mut all = self.all();
        if all.len() >= limits::TERMINALS {
            hosted.terminal.kill();
            return Err(crowded());
        }
        all.insert(hosted.session, hosted);
        Ok(())
    }

    /// Hangs up on all of them, and kills what does not end in time.
    pub(crate) async fn end_all(&self) {
        let all: Vec<_> = self.all().values().cloned().collect();
        if all.is_empty() {
            return;
        }
        tracing::info!(terminals = all.len(), "hanging up on hosted terminals");
        all.iter().for_each(|hosted| hosted.terminal.hang_up());
        let late = Instant::now() + limits::HANG_UP;
        let runs = |hosted: &Arc<Hosted>| hosted.terminal.end().is_none();
        while all.iter().any(runs) && Instant::now() < late {
            tokio::time::sleep(limits::HANG_UP_LOOK).await;
        }
        for hosted in all.iter().filter(|hosted| runs(hosted)) {
            tracing::warn!(session = %hosted.session.short(), "a hosted command did not end by itself; it is killed");
            hosted.terminal.kill();
        }
        while all.iter().any(runs) && Instant::now() < late + limits::HANG_UP {
            tokio::time::sleep(limits::HANG_UP_LOOK).await;
        }
    }
}

impl Hosted {
    fn info(&self) -> SessionInfo {
        SessionInfo {
            key: self.key.clone(),
            title: self.title.clone(),
            directory: self.directory.clone(),
            turns: 0,
            bytes: self.terminal.written(),
            version: String::new(),
            updated_unix_ms: self.news.last_unix_ms.load(Ordering::Relaxed),
            activity: Activity::Open { pid: self.terminal.pid(), evidence: "a hosted terminal".to_owned() },
        }
    }

    pub(crate) fn summary(&self, context: &Context) -> TerminalSummary {
        let desk = self.desk();
        let now = context.clock.now();
        TerminalSummary {
            command: self.command.clone(),
            pid: self.terminal.pid(),
            driver: desk.driver_name(now),
            held: desk.lease.is_held(now),
            viewers: desk.count(),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn size(&self) -> TerminalSize {
        let size = self.terminal.size();
        TerminalSize { rows: size.rows(), columns: size.columns() }
    }

    /// What its viewers are told at the end.
    fn last_word(&self, end: End) -> TerminalEnd {
        let (code, signal, how) = match end {
            End::Code(0) => (Some(0), None, "ended".to_owned()),
            End::Code(code) => (Some(code), None, format!("ended with code {code}")),
            End::Signal(signal) => (None, Some(signal), format!("was ended by signal {signal}")),
            End::Unknown => (None, None, "ended".to_owned()),
        };
        TerminalEnd { session: self.session, goes_on: false, code, signal, text: format!("{} {how}", self.title) }
    }
}

/// Starts a command in a terminal of its own. Blocks.
fn start(context: &Context, request: &RunRequest) -> Result<Arc<Hosted>, Failure> {
    if context.terminals.all().len() >= limits::TERMINALS {
        return Err(crowded());
    }
    let command = if request.words.is_empty() { vec![shell(request)] } else { request.words.clone() };
    let line = command.join(" ");
    let title = request.name.clone().unwrap_or_else(|| line.clone());
    if request.name.is_some() {
        fits(context, &title)?;
    }
    let title: String = cede_wire::shown::plain(&title).chars().take(TITLE_CHARS).collect();
    let key = new_key()?;
    let session = key.id();
    let news = Arc::new(News { changed: watch::Sender::new(()), last_unix_ms: AtomicU64::new(unix_ms()) });
    let order = Order {
        command: command.iter().map(Into::into).collect(),
        directory: (&request.directory).into(),
        environment: request.environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        marks: vec![("CEDE_SESSION".into(), session.to_string().into())],
        size: Size::new(request.size.rows, request.size.columns),
    };
    let told = news.clone();
    let terminal = Terminal::start(&order, move || told.tell()).map_err(|error| not_started(&error))?;
    let hosted = Arc::new(Hosted {
        session,
        key,
        title,
        command: cede_wire::shown::plain(&line).chars().take(TITLE_CHARS).collect(),
        directory: request.directory.clone(),
        terminal,
        news,
        desk: Mutex::default(),
    });
    context.terminals.add(hosted.clone())?;
    context.last_look.forget();
    tracing::info!(session = %session.short(), pid = hosted.terminal.pid(), "a terminal is hosted");
    Ok(hosted)
}

/// Takes the terminal off the list when its command has ended.
async fn attend(context: Context, hosted: Arc<Hosted>) {
    let mut changed = hosted.news.changed.subscribe();
    while hosted.terminal.end().is_none() {
        // The sender lives as long as what is held here.
        let _ = tokio::time::timeout(limits::VIEWER_LOOK, changed.changed()).await;
        if let Some(silent) = hosted.lapse(context.clock.now()) {
            context.tell(move |actor| actor.audit.note(silent)).await;
        }
    }
    context.terminals.all().remove(&hosted.session);
    context.last_look.forget();
    tracing::info!(session = %hosted.session.short(), end = ?hosted.terminal.end(), "a hosted terminal ended");
}

/// The command runs, and is looked after.
async fn run(context: &Context, request: RunRequest) -> Result<Arc<Hosted>, Failure> {
    let read_only = context.ask(|actor| actor.read_only).await.map_err(stopping)?;
    if read_only {
        let why = "the journal is damaged, so this device acts for no session";
        return Err(failure(exit::FAILED, "nothing was started", why, "cede doctor"));
    }
    let hosted = context.block(move |context| start(context, &request)).await.map_err(stopping)??;
    tokio::spawn(attend(context.clone(), hosted.clone()));
    Ok(hosted)
}

fn shell(request: &RunRequest) -> String {
    let shell = request.environment.iter().find(|(name, value)| name == "SHELL" && !value.is_empty());
    shell.map_or_else(|| "/bin/sh".to_owned(), |(_, shell)| shell.clone())
}

fn new_key() -> Result<SessionKey, Failure> {
    let fault = |why: &str| failure(exit::FAILED, "nothing was started", why, "");
    let random: [u8; 16] = random().map_err(|error| fault(&error.to_string()))?;
    let native = SessionId::new(random).to_string();
    let native = NativeId::parse(&native).ok_or_else(|| fault("fault of ours: no name for the session"))?;
    Ok(SessionKey { agent: AgentKind::Terminal, native })
}

/// A name is typed again later: it is short, plain, and means one terminal.
fn fits(context: &Context, name: &str) -> Result<(), Failure> {
    let what = "nothing was started";
    let plain = !name.trim().is_empty() && cede_wire::shown::plain(name) == name;
    if !plain || name.chars().count() > limits::TERMINAL_NAME_CHARS {
        let why = format!("a name has 1 to {} characters that can be seen", limits::TERMINAL_NAME_CHARS);
        return Err(failure(exit::USAGE, what, &why, "cede run --name <name>"));
    }
    if context.terminals.all().values().any(|hosted| hosted.title == name) {
        let why = format!("a terminal here is called {name} already");
        return Err(failure(exit::USAGE, what, &why, &format!("look on: cede attach {name}; or take another name")));
    }
    Ok(())
}

fn not_started(error: &StartError) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    failure(exit::FAILED, "nothing was started", &format!("{error}{cause}"), "cede run -- <command>")
}

fn crowded() -> Failure {
    let why = format!("{} terminals are hosted already", limits::TERMINALS);
    failure(exit::FAILED, "nothing was started", &why, "end one of them: cede ls")
}
