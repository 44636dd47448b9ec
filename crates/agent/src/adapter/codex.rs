//! Codex: one append-only file for each session, and a lock that its writer holds.
//!
//! A fork's file begins inside its parent's by byte offset, so files travel byte for byte, the whole chain of them.
//! Source: SPEC A-5.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cede_wire::handoff::{Disposition, InventoryItem};
use cede_wire::path::RelPath;
use cede_wire::session::{Activity, AgentKind, NativeId, Requirement, SessionInfo, SessionKey};

use crate::adapter::conversation::{Conversation, Rows};
use crate::adapter::fences::{self, Fence, Fences};
use crate::adapter::limits::{LISTING_SCAN_BYTES, SESSIONS};
use crate::adapter::scans::Scans;
use crate::adapter::scratch::Scratch;
use crate::adapter::{
    Adapter, AgentError, Arrival, CannotResume, Installed, LeftoverProcess, Surroundings, Tombstone, Transcript,
    TranscriptFile, arrivals, durable, processes, requirements, text,
};

#[cfg(feature = "decoders")]
pub mod decoder;
mod install;
mod lock;
mod rollout;
mod store;
mod tombstone;
mod words;

use lock::WriterLock;
use rollout::{Meta, Scan};
use store::{Closure, Store, damaged};

/// Codex's sessions.
#[derive(Debug)]
pub struct CodexAdapter {
    around: Surroundings,
    store: Store,
    fences: Fences,
    scans: Scans<Scan>,
}

/// Where ancestors of a fork stand inside a transcript.
const ANCESTORS: &str = "ancestors";
const INSTALL: &str = "npm install -g @openai/codex";

impl CodexAdapter {
    /// The sessions in these surroundings.
    pub fn new(surroundings: &Surroundings) -> Self {
        Self {
            around: surroundings.clone(),
            store: Store { home: surroundings.codex_home.clone() },
            fences: Fences::new(&surroundings.state, AgentKind::Codex),
            scans: Scans::default(),
        }
    }

    fn file(&self, native: &NativeId) -> Result<PathBuf, AgentError> {
        let unknown = || AgentError::Unknown { agent: AgentKind::Codex, native: native.clone() };
        self.store.find(native.as_str())?.ok_or_else(unknown)
    }

    fn info(&self, native: NativeId, file: &Path, meta: &Meta, scan: &Scan) -> SessionInfo {
        let holder = lock::holder(&self.store.home, native.as_str());
        let changed = std::fs::metadata(file).and_then(|meta| meta.modified()).ok();
        SessionInfo {
            key: SessionKey { agent: AgentKind::Codex, native },
            title: scan.title.clone(),
            directory: scan.cwd.clone().unwrap_or_else(|| meta.cwd.clone()),
            turns: scan.turns,
            bytes: arrivals::bytes([&file.to_owned()]),
            version: scan.version.clone(),
            updated_unix_ms: text::unix_ms(changed),
            activity: activity(holder, scan),
        }
    }

    fn listed(&self, id: &str, path: &Path) -> Result<Option<SessionInfo>, AgentError> {
        let real = tombstone::real(path)?;
        let meta = store::meta(&real)?;
        let is_sub_agent = meta.parent_thread_id.is_some() && meta.session_id.as_deref() != Some(id);
        let Some(native) = NativeId::parse(id).filter(|_| !is_sub_agent) else { return Ok(None) };
        let scan =
            self.scans.bounded(&real, LISTING_SCAN_BYTES).map_err(|error| durable::world("read", &real, &error))?;
        Ok(Some(self.info(native, &real, &meta, &scan)))
    }

    fn scan(&self, real: &Path) -> Result<Scan, AgentError> {
        self.scans.whole(real).map_err(|error| durable::world("read", real, &error))
    }

    fn transcript_files(&self, closure: &Closure) -> Result<Vec<TranscriptFile>, AgentError> {
        let mut files = Vec::new();
        for place in &closure.own {
            let name = place.strip_prefix(&self.store.home).unwrap_or(place);
            files.push(TranscriptFile { path: logical(name)?, local: tombstone::real(place)? });
        }
        for local in &closure.ancestors {
            let name = local.file_name().map(PathBuf::from).unwrap_or_default();
            let name = fences::place_of_aside(&name).unwrap_or(name);
            files.push(TranscriptFile { path: logical(&Path::new(ANCESTORS).join(name))?, local: local.clone() });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// Gives the index the session's own provider again.
    fn restore_provider(&self, rollout: &Path) -> Result<(), AgentError> {
        let Some(meta) = store::meta_if_any(rollout)? else { return Ok(()) };
        match &meta.model_provider {
            Some(provider) => self.store.set_provider(&meta.id, provider).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Ends Codex's background server where it has this session open and no other: it keeps a session open for a
    /// minute after the terminal was closed.
    fn stop_server(&self, native: &NativeId, pid: u32) -> Result<(), AgentError> {
        let live = |evidence: &str, cure| AgentError::Live { pid, evidence: evidence.to_owned(), cure };
        if !processes::words(pid).iter().any(|word| word == "--managed-daemon") {
            return Err(live("an app server of Codex has it open", "close the program that shows the session"));
        }
        if lock::others(&self.store.home, native.as_str(), pid) > 0 {
            let evidence = "Codex's background server has it open, and other sessions too";
            return Err(live(evidence, "close them and wait a minute, or type: codex app-server daemon stop"));
        }
        let scratch = Scratch::new(&self.around.state)?;
        let stop = ["app-server", "daemon", "stop"].map(OsStr::new);
        self.around.run("codex", &stop, &self.around.home, &scratch.path().join("said"))
    }

    /// Keeps forks that stay here working: they find their parent's bytes among the archived sessions.
    fn keep_for_forks(&self, native: &NativeId, file: &Path) -> Result<Option<PathBuf>, AgentError> {
        if !self.store.has_forks(native)? || self.store.find_archived(native.as_str())?.is_some() {
            return Ok(None);
        }
        let name = file.file_name().ok_or_else(|| damaged("a rollout without a name", file))?;
        let copy = self.store.archived().join(name);
        durable::ensure_directory(&self.store.archived())?;
        durable::link(&tombstone::real(file)?, &copy)?;
        Ok(Some(copy))
    }
}

impl Adapter for CodexAdapter {
    fn agent(&self) -> AgentKind {
        AgentKind::Codex
    }

    fn discover(&self) -> Result<Vec<SessionInfo>, AgentError> {
        let mut found = Vec::new();
        for (id, path) in self.store.rollouts()? {
            match self.listed(&id, &path) {
                Ok(info) => found.extend(info),
                Err(error) => tracing::debug!(%error, "a Codex file is left out"),
            }
        }
        Ok(text::newest_first(found, SESSIONS))
    }

    fn describe(&self, native: &NativeId) -> Result<SessionInfo, AgentError> {
        let file = self.file(native)?;
        let real = tombstone::real(&file)?;
        let meta = store::meta(&real)?;
        let scan = self.scan(&real)?;
        let mut info = self.info(native.clone(), &real, &meta, &scan);
        if let Ok(closure) = self.store.closure(native, &file) {
            let own = closure.own.iter().filter_map(|place| tombstone::real(place).ok());
            info.bytes = arrivals::bytes(&own.chain(closure.ancestors).collect::<Vec<_>>());
        }
        Ok(info)
    }

    fn conversation(&self, native: &NativeId) -> Result<Conversation, AgentError> {
        let (place, real, speak) = (self.file(native)?, tombstone::real, words::of);
        Ok(Conversation::rows(Rows { place, real, speak }))
    }

    fn requirement(&self, native: &NativeId) -> Result<Requirement, AgentError> {
        let real = tombstone::real(&self.file(native)?)?;
        let meta = store::meta(&real)?;
        let version = self.scan(&real)?.version;
        Ok(Requirement { agent: AgentKind::Codex, version, provider: meta.model_provider })
    }

    fn capture(&self, native: &NativeId, _scratch: &Path) -> Result<Transcript, AgentError> {
        let file = self.file(native)?;
        let real = tombstone::real(&file)?;
        store::meta(&real)?;
        let scan = self.scan(&real)?;
        let closure = self.store.closure(native, &file)?;
        let files = self.transcript_files(&closure)?;
        let head = arrivals::head(&real, scan.turns)?;
        Ok(Transcript { head, turns: scan.turns, inventory: inventory(&closure), files })
    }

    fn fence(&self, native: &NativeId, tombstone: &Tombstone) -> Result<(), AgentError> {
        let file = self.file(native)?;
        let closure = self.store.closure(native, &file)?;
        let _lock = WriterLock::take(&self.store.home, native.as_str())?;
        let mut record = Fence { text: tombstone.text(), files: closure.own.clone(), copies: Vec::new() };
        record.copies = self.fences.read(native)?.map(|fence| fence.copies).unwrap_or_default();
        self.fences.write(native, &record)?;
        if let Some(copy) = self.keep_for_forks(native, &file)? {
            record.copies.push(copy);
            self.fences.write(native, &record)?;
        }
        for place in closure.own.iter().rev() {
            let meta = store::meta(&tombstone::real(place)?)?;
            // The index first: Codex would take a tombstone with a provider that it knows for a conversation.
            self.store.set_provider(&meta.id, &record.text)?;
            fences::bury(place, &tombstone::bytes(&meta, &record.text), tombstone::look)?;
        }
        Ok(())
    }

    fn lift(&self, native: &NativeId) -> Result<(), AgentError> {
        let record = self.fences.read(native)?;
        let known = record.as_ref().map(|fence| fence.files.clone()).unwrap_or_default();
        let places = known.into_iter().chain(self.store.find(native.as_str())?);
        for place in places {
            if let Some(kept) = fences::unbury(&place, tombstone::look)? {
                tracing::warn!(kept = %kept.display(), "something else stood where the tombstone was; it is kept");
            }
            self.restore_provider(&place)?;
        }
        for copy in record.into_iter().flat_map(|fence| fence.copies) {
            durable::remove(&copy)?;
        }
        self.fences.forget(native)
    }

    fn is_fenced(&self, native: &NativeId) -> Result<bool, AgentError> {
        self.store.find(native.as_str())?.map_or(Ok(false), |file| tombstone::is(&file))
    }

    fn check(&self, requirement: &Requirement) -> Result<(), CannotResume> {
        requirements::version(&self.around, requirement, "codex", INSTALL)?;
        requirements::codex_provider(&self.around, requirement)
    }

    fn install(&self, arrival: &Arrival) -> Result<Installed, AgentError> {
        install::install(self, arrival)
    }

    fn resume_command(&self, native: &NativeId, workdir: &Path) -> String {
        format!("codex resume -C {} {native}", text::quoted(workdir))
    }

    fn stop(&self, native: &NativeId) -> Result<(), AgentError> {
        let Some(pid) = lock::holder(&self.store.home, native.as_str()) else { return Ok(()) };
        let scan = self.scan(&tombstone::real(&self.file(native)?)?)?;
        let live = |evidence: &str, cure| AgentError::Live { pid, evidence: evidence.to_owned(), cure };
        if scan.unfinished {
            return Err(live("a turn is in flight", "wait for it to end"));
        }
        if processes::words(pid).iter().any(|word| word == "app-server") {
            self.stop_server(native, pid)?;
        } else {
            // SIGTERM would orphan a tool; SIGINT ends Codex cleanly.
            processes::interrupt(pid);
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if lock::holder(&self.store.home, native.as_str()).is_none() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(live("it did not end within ten seconds", "close it"))
    }

    fn leftovers(&self, native: &NativeId) -> Vec<LeftoverProcess> {
        let names = ["CODEX_THREAD_ID", "CODEX_SESSION_ID"];
        processes::marked(&names.map(|name| format!("{name}={native}")), "codex")
    }

    fn kept(&self) -> Vec<PathBuf> {
        fences::kept(self.store.files().unwrap_or_default())
    }
}

fn activity(holder: Option<u32>, scan: &Scan) -> Activity {
    let dangling = scan.dangling();
    match (holder, scan.unfinished) {
        (Some(pid), true) => {
            Activity::Busy { pid: Some(pid), evidence: "writer lock held, the last turn has not ended".to_owned() }
        }
        (Some(pid), false) => {
            Activity::Open { pid, evidence: "writer lock held, the last turn is complete".to_owned() }
        }
        (None, true) => Activity::Interrupted {
            evidence: format!("no writer lock, the last turn never ended, tool calls without a result: {dangling}"),
        },
        (None, false) => Activity::Idle { evidence: "no writer lock, the last turn is complete".to_owned() },
    }
}

fn inventory(closure: &Closure) -> Vec<InventoryItem> {
    let own: Vec<PathBuf> = closure.own.iter().filter_map(|place| tombstone::real(place).ok()).collect();
    let (main, sub_agents) = own.split_at(own.len().min(1));
    let line = |what: &str, files: &[PathBuf], note: &str| InventoryItem {
        what: what.to_owned(),
        disposition: Disposition::Transferred,
        count: files.len() as u64,
        bytes: arrivals::bytes(files),
        note: note.to_owned(),
    };
    let mut items = vec![line("conversation", main, "")];
    if !sub_agents.is_empty() {
        items.push(line("sub-agent conversations", sub_agents, ""));
    }
    if !closure.ancestors.is_empty() {
        items.push(line("fork ancestors", &closure.ancestors, "read-only: they cannot be resumed there"));
    }
    items.push(InventoryItem {
        what: "provider credentials".to_owned(),
        disposition: Disposition::NeverTravels,
        count: 0,
        bytes: 0,
        note: "the destination uses its own".to_owned(),
    });
    items
}

fn logical(path: &Path) -> Result<RelPath, AgentError> {
    use std::os::unix::ffi::OsStrExt;
    RelPath::parse(path.as_os_str().as_bytes()).map_err(|error| damaged(&error.to_string(), path))
}
