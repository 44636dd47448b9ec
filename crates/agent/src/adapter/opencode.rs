//! OpenCode: all sessions in one database.
//!
//! The content goes through OpenCode's own export and import; the database is only read, and given a trigger that
//! refuses new messages of a fenced session. Source: SPEC A-7.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cede_wire::handoff::{Disposition, InventoryItem};
use cede_wire::path::RelPath;
use cede_wire::session::{Activity, AgentKind, NativeId, Requirement, SessionInfo, SessionKey};

use crate::adapter::conversation::Conversation;
use crate::adapter::fences::{self, Fence, Fences};
use crate::adapter::scratch::Scratch;
use crate::adapter::{
    Adapter, AgentError, Arrival, CannotResume, Installed, LeftoverProcess, Surroundings, Tombstone, Transcript,
    TranscriptFile, arrivals, durable, processes, requirements, text,
};

mod canonical;
mod database;
#[cfg(feature = "decoders")]
pub mod decoder;
mod install;
mod plugin;
mod words;

use database::{Database, Session};
pub(in crate::adapter) use words::Parts;

/// OpenCode's sessions.
#[derive(Debug)]
pub struct OpenCodeAdapter {
    around: Surroundings,
    database: PathBuf,
    branches: PathBuf,
    fences: Fences,
}

const INSTALL: &str = "npm install -g opencode-ai";

impl OpenCodeAdapter {
    /// The sessions in these surroundings.
    pub fn new(surroundings: &Surroundings) -> Self {
        Self {
            around: surroundings.clone(),
            database: surroundings.opencode_data.join("opencode.db"),
            branches: surroundings.state.join("branches/opencode"),
            fences: Fences::new(&surroundings.state, AgentKind::OpenCode),
        }
    }

    fn open(&self, native: &NativeId) -> Result<Database, AgentError> {
        let unknown = || AgentError::Unknown { agent: AgentKind::OpenCode, native: native.clone() };
        Database::open(&self.database)?.ok_or_else(unknown)
    }

    /// The running programs that have the database open.
    fn running(&self) -> Vec<u32> {
        let file = self.database.canonicalize().unwrap_or_else(|_| self.database.clone());
        processes::named("opencode").into_iter().filter(|pid| processes::has_open(*pid, &file)).collect()
    }

    fn scratch(&self) -> Result<Scratch, AgentError> {
        Scratch::new(&self.around.state)
    }

    fn export(&self, id: &str, to: &Path) -> Result<(), AgentError> {
        self.around.run("opencode", &["export", id].map(OsStr::new), &self.around.home, to)
    }

    fn fence_stands(&self, native: &NativeId) -> Result<bool, AgentError> {
        Database::open(&self.database)?.map_or(Ok(false), |database| database.is_fenced(native))
    }

    fn forget_fence(&self, native: &NativeId) -> Result<(), AgentError> {
        if let Some(database) = Database::open_to_fence(&self.database)? {
            database.lift(native)?;
        }
        let had_one = self.fences.read(native)?.is_some();
        self.fences.forget(native)?;
        if had_one && self.fences.is_empty()? {
            plugin::remove(&self.around.opencode_config)?;
        }
        Ok(())
    }
}

impl Adapter for OpenCodeAdapter {
    fn agent(&self) -> AgentKind {
        AgentKind::OpenCode
    }

    fn discover(&self) -> Result<Vec<SessionInfo>, AgentError> {
        let Some(database) = Database::open(&self.database)? else { return Ok(Vec::new()) };
        let running = self.running();
        let sessions = database.sessions()?;
        Ok(sessions.into_iter().filter_map(|found| info(found, &running)).collect())
    }

    fn describe(&self, native: &NativeId) -> Result<SessionInfo, AgentError> {
        let database = self.open(native)?;
        let found = database.session(native)?;
        let mut bytes = 0;
        for id in database.family(native)?.iter().filter_map(|id| NativeId::parse(id)) {
            bytes += database.session(&id)?.bytes;
        }
        let unknown = || AgentError::Unknown { agent: AgentKind::OpenCode, native: native.clone() };
        info(Session { bytes, ..found }, &self.running()).ok_or_else(unknown)
    }

    fn conversation(&self, native: &NativeId) -> Result<Conversation, AgentError> {
        self.open(native)?.session(native)?;
        Ok(Conversation::parts(Parts::new(self.database.clone(), native.clone())))
    }

    fn requirement(&self, native: &NativeId) -> Result<Requirement, AgentError> {
        let database = self.open(native)?;
        let version = database.session(native)?.version;
        Ok(Requirement { agent: AgentKind::OpenCode, version, provider: database.provider(native)? })
    }

    fn capture(&self, native: &NativeId, scratch: &Path) -> Result<Transcript, AgentError> {
        let database = self.open(native)?;
        database.session(native)?;
        let (mut files, mut turns) = (Vec::new(), 0);
        for id in database.family(native)? {
            let export = scratch.join(format!("{id}.export"));
            self.export(&id, &export)?;
            let counted = canonical::take_apart(&export, &scratch.join(&id))?;
            turns = if id == native.as_str() { counted } else { turns };
            // Its content stands in the parts now.
            let _ = std::fs::remove_file(&export);
            let _ = std::fs::remove_file(export.with_extension("stderr"));
            for part in [canonical::INFO, canonical::MESSAGES] {
                files.push(TranscriptFile { path: logical(&id, part)?, local: scratch.join(&id).join(part) });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let head = arrivals::head(&scratch.join(native.as_str()).join(canonical::MESSAGES), turns)?;
        Ok(Transcript { head, turns, inventory: inventory(&files, native), files })
    }

    fn fence(&self, native: &NativeId, tombstone: &Tombstone) -> Result<(), AgentError> {
        let unknown = || AgentError::Unknown { agent: AgentKind::OpenCode, native: native.clone() };
        let mut database = Database::open_to_fence(&self.database)?.ok_or_else(unknown)?;
        database.session(native)?;
        let family = database.family(native)?;
        let text = tombstone.text();
        let was_fenced = database.is_fenced(native)?;
        self.fences.write(native, &Fence { text: text.clone(), files: Vec::new(), copies: Vec::new() })?;
        let running = self.running();
        let raised = database.fence(native, &family, &text, |found| refuse_busy(found, &running));
        let raised = raised.and_then(|()| plugin::add(&self.around.opencode_config, self.fences.directory()));
        if raised.is_err() && !was_fenced {
            self.forget_fence(native)?;
        }
        raised
    }

    fn lift(&self, native: &NativeId) -> Result<(), AgentError> {
        self.forget_fence(native)
    }

    fn is_fenced(&self, native: &NativeId) -> Result<bool, AgentError> {
        self.fence_stands(native)
    }

    fn check(&self, requirement: &Requirement) -> Result<(), CannotResume> {
        requirements::version(&self.around, requirement, "opencode", INSTALL)?;
        requirements::opencode_provider(&self.around, requirement)
    }

    fn install(&self, arrival: &Arrival) -> Result<Installed, AgentError> {
        install::install(self, arrival)
    }

    fn resume_command(&self, native: &NativeId, workdir: &Path) -> String {
        format!("cd {} && opencode -s {native}", text::quoted(workdir))
    }

    fn stop(&self, native: &NativeId) -> Result<(), AgentError> {
        let found = self.open(native)?.session(native)?;
        // No program is known to have this session open: the database does not say which.
        refuse_busy(&found, &self.running())
    }

    fn leftovers(&self, native: &NativeId) -> Vec<LeftoverProcess> {
        let found = self.open(native).and_then(|database| database.session(native));
        let Ok(session) = found else { return Vec::new() };
        let running = self.running();
        let tools = processes::marked(&["OPENCODE=1".to_owned()], "opencode");
        let works_here = |pid| processes::directory(pid).is_some_and(|cwd| cwd == Path::new(&session.directory));
        let orphaned = |pid| {
            let agent = processes::variable(pid, "OPENCODE_PID").and_then(|value| value.parse().ok());
            agent.is_none_or(|agent: u32| !running.contains(&agent))
        };
        tools.into_iter().filter(|tool| works_here(tool.pid) && orphaned(tool.pid)).collect()
    }

    fn kept(&self) -> Vec<PathBuf> {
        fences::kept(durable::list(&self.branches).unwrap_or_default())
    }
}

/// The program in which the unfinished message may still grow: one that ran when the message was begun.
fn writer(found: &Session, running: &[u32]) -> Option<u32> {
    let since = found.unfinished_since?;
    let ran = |pid: &&u32| processes::started_unix_ms(**pid).is_none_or(|started| started <= since + CLOCK_SLACK_MS);
    running.iter().find(ran).copied()
}

/// The kernel tells a start only to the hundredth of a second, counted from a boot time in whole seconds.
const CLOCK_SLACK_MS: u64 = 2_000;

fn refuse_busy(found: &Session, running: &[u32]) -> Result<(), AgentError> {
    writer(found, running).map_or(Ok(()), |pid| {
        Err(AgentError::Live {
            pid,
            evidence: "the last message has no end and an OpenCode that may be writing it runs".to_owned(),
            cure: "wait for the turn to end, or interrupt it with Esc",
        })
    })
}

fn info(found: Session, running: &[u32]) -> Option<SessionInfo> {
    let activity = activity(&found, running);
    Some(SessionInfo {
        key: SessionKey { agent: AgentKind::OpenCode, native: NativeId::parse(&found.id)? },
        title: text::title(&found.title),
        directory: found.directory,
        turns: found.turns,
        bytes: found.bytes,
        version: found.version,
        updated_unix_ms: found.updated_unix_ms,
        activity,
    })
}

fn activity(found: &Session, running: &[u32]) -> Activity {
    if let Some(pid) = writer(found, running) {
        let evidence = "the last message has no end and an OpenCode that may be writing it runs".to_owned();
        return Activity::Busy { pid: Some(pid), evidence };
    }
    if found.unfinished_since.is_some() {
        let evidence = format!("the last message has no end, tool calls without a result: {}", found.dangling);
        return Activity::Interrupted { evidence };
    }
    let here = |pid: &&u32| processes::directory(**pid).is_some_and(|cwd| cwd == Path::new(&found.directory));
    match running.iter().find(here) {
        Some(pid) => Activity::Open {
            pid: *pid,
            evidence: "an OpenCode runs in its directory, the last turn is complete".to_owned(),
        },
        None => Activity::Idle { evidence: "no OpenCode runs in its directory, the last turn is complete".to_owned() },
    }
}

fn inventory(files: &[TranscriptFile], native: &NativeId) -> Vec<InventoryItem> {
    let prefix = format!("{native}/");
    let (main, children): (Vec<_>, Vec<_>) =
        files.iter().partition(|file| file.path.as_bytes().starts_with(prefix.as_bytes()));
    let line = |what: &str, disposition, files: &[&TranscriptFile], note: &str| InventoryItem {
        what: what.to_owned(),
        disposition,
        count: files.len() as u64,
        bytes: arrivals::bytes(files.iter().map(|file| &file.local)),
        note: note.to_owned(),
    };
    let mut items = vec![line("conversation", Disposition::Transferred, &main, "")];
    if !children.is_empty() {
        items.push(line("sub-agent conversations", Disposition::Transferred, &children, ""));
    }
    items.push(line("undo snapshots", Disposition::Stays, &[], "OpenCode does not export them"));
    items.push(line("provider credentials", Disposition::NeverTravels, &[], "the destination uses its own"));
    items
}

fn logical(id: &str, part: &str) -> Result<RelPath, AgentError> {
    RelPath::parse(format!("{id}/{part}").as_bytes())
        .map_err(|error| AgentError::Damaged { what: error.to_string(), file: id.to_owned() })
}
