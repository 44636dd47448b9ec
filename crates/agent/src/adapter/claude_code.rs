//! Claude Code: one append-only file of rows for each session, a directory beside it, and no lock.
//!
//! Two processes may write one session at a time and lose each other's turns, so the fence is a hook that refuses
//! prompts, also in a process that is running. Source: SPEC A-6.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cede_wire::handoff::{Disposition, InventoryItem};
use cede_wire::path::RelPath;
use cede_wire::session::{Activity, AgentKind, NativeId, Requirement, SessionInfo, SessionKey};

use crate::adapter::conversation::{Conversation, Rows};
use crate::adapter::fences::{self, Fence, Fences};
use crate::adapter::limits::{LISTING_SCAN_BYTES, SESSIONS};
use crate::adapter::scans::Scans;
use crate::adapter::{
    Adapter, AgentError, Arrival, CannotResume, Installed, LeftoverProcess, Surroundings, Tombstone, Transcript,
    TranscriptFile, arrivals, durable, processes, requirements, text, version,
};

#[cfg(feature = "decoders")]
pub mod decoder;
mod hook;
mod install;
mod live;
mod slug;
mod store;
mod tombstone;
mod transcript;
mod words;

use hook::Hook;
use live::Live;
use store::Store;
use transcript::Scan;

/// Claude Code's sessions.
#[derive(Debug)]
pub struct ClaudeCodeAdapter {
    around: Surroundings,
    store: Store,
    fences: Fences,
    scans: Scans<Scan>,
}

const CONVERSATION: &str = "conversation.jsonl";
const SIDE: &str = "side";
const INSTALL: &str = "npm install -g @anthropic-ai/claude-code";

/// How long a running process needs to read changed settings; measured: 3 seconds.
const HOOK_PATIENCE: Duration = Duration::from_secs(4);
/// How long a process may take to end after it was asked.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Oldest version that was seen to go on with a session of the newest 2.1.
const OLDEST: &str = "2.1.197";

impl ClaudeCodeAdapter {
    /// The sessions in these surroundings.
    pub fn new(surroundings: &Surroundings) -> Self {
        Self {
            around: surroundings.clone(),
            store: Store { home: surroundings.claude_home.clone() },
            fences: Fences::new(&surroundings.state, AgentKind::ClaudeCode),
            scans: Scans::default(),
        }
    }

    fn info(&self, native: NativeId, real: &Path, scan: &Scan) -> SessionInfo {
        let changed = std::fs::metadata(real).and_then(|meta| meta.modified()).ok();
        let live = live::of(&self.store.home, native.as_str());
        SessionInfo {
            key: SessionKey { agent: AgentKind::ClaudeCode, native },
            title: scan.title.clone(),
            directory: scan.cwd.clone().unwrap_or_default(),
            turns: scan.turns,
            bytes: arrivals::bytes([&real.to_owned()]),
            version: scan.version.clone(),
            updated_unix_ms: text::unix_ms(changed),
            activity: activity(&live, scan),
        }
    }

    fn scan(&self, real: &Path) -> Result<Scan, AgentError> {
        let scan = self.scans.whole(real).map_err(|error| durable::world("read", real, &error))?;
        if scan.rows == 0 {
            let what = "no row of a conversation in it".to_owned();
            return Err(AgentError::Damaged { what, file: real.display().to_string() });
        }
        Ok(scan)
    }

    fn hook(&self) -> Hook {
        Hook::new(&self.store.home)
    }

    /// Refuses while a turn is in flight.
    fn quiet(&self, native: &NativeId) -> Result<Vec<Live>, AgentError> {
        let live = live::of(&self.store.home, native.as_str());
        match live.iter().find(|process| process.busy) {
            None => Ok(live),
            Some(process) => Err(AgentError::Live {
                pid: process.pid,
                evidence: "its registry entry says busy".to_owned(),
                cure: "wait for the turn to end, or interrupt it with Esc",
            }),
        }
    }

    fn put_up(&self, native: &NativeId, place: &Path, scan: &Scan, text: String) -> Result<(), AgentError> {
        let open = self.quiet(native)?;
        let tombstone = tombstone::bytes(native.as_str(), scan, &text);
        self.fences.write(native, &Fence { text, files: vec![place.to_owned()], copies: Vec::new() })?;
        let added = self.hook().add(self.fences.directory())?;
        if added && !open.is_empty() {
            std::thread::sleep(HOOK_PATIENCE);
        }
        // A prompt may have slipped in before the hook was read.
        self.quiet(native)?;
        fences::bury(place, &tombstone, tombstone::look)?;
        self.quiet(native).map(|_| ())
    }

    fn forget_fence(&self, native: &NativeId) -> Result<(), AgentError> {
        let had_one = self.fences.read(native)?.is_some();
        self.fences.forget(native)?;
        if had_one && self.fences.is_empty()? {
            self.hook().remove()?;
        }
        Ok(())
    }

    /// Ends processes that wait for input, and waits until they are gone.
    fn end(&self, open: &[Live]) -> Result<(), AgentError> {
        for process in open {
            if process.busy {
                return Err(AgentError::Live {
                    pid: process.pid,
                    evidence: "its registry entry says busy".to_owned(),
                    cure: "wait for the turn to end, or interrupt it with Esc",
                });
            }
            processes::terminate(process.pid);
        }
        let deadline = Instant::now() + END_PATIENCE;
        let still = || open.iter().find(|process| processes::runs(process.pid, process.start_ticks));
        while Instant::now() < deadline && still().is_some() {
            std::thread::sleep(Duration::from_millis(50));
        }
        still().map_or(Ok(()), |process| {
            Err(AgentError::Live {
                pid: process.pid,
                evidence: "it was asked to end and runs on".to_owned(),
                cure: "close it",
            })
        })
    }
}

impl Adapter for ClaudeCodeAdapter {
    fn agent(&self) -> AgentKind {
        AgentKind::ClaudeCode
    }

    fn discover(&self) -> Result<Vec<SessionInfo>, AgentError> {
        let mut found = Vec::new();
        for (native, place) in self.store.transcripts() {
            let listed = tombstone::real(&place).and_then(|real| {
                let scan = self.scans.bounded(&real, LISTING_SCAN_BYTES);
                Ok((scan.map_err(|error| durable::world("read", &real, &error))?, real))
            });
            match listed {
                Ok((scan, real)) if scan.rows > 0 => found.push(self.info(native, &real, &scan)),
                Ok(_) => tracing::debug!(%native, "a Claude Code file without a conversation is left out"),
                Err(error) => tracing::debug!(%native, %error, "a Claude Code file is left out"),
            }
        }
        Ok(text::newest_first(found, SESSIONS))
    }

    fn describe(&self, native: &NativeId) -> Result<SessionInfo, AgentError> {
        let place = self.store.place(native)?;
        let real = tombstone::real(&place)?;
        let mut info = self.info(native.clone(), &real, &self.scan(&real)?);
        let side: Vec<PathBuf> = store::side_files(&place)?.into_iter().map(|file| file.local).collect();
        info.bytes += arrivals::bytes(&side);
        Ok(info)
    }

    fn conversation(&self, native: &NativeId) -> Result<Conversation, AgentError> {
        let (place, real, speak) = (self.store.place(native)?, tombstone::real, words::of);
        Ok(Conversation::rows(Rows { place, real, speak }))
    }

    fn requirement(&self, native: &NativeId) -> Result<Requirement, AgentError> {
        let written = self.scan(&tombstone::real(&self.store.place(native)?)?)?.version;
        let measured = written.starts_with("2.1.") && version::is_older(OLDEST, &written);
        let version = if measured { OLDEST.to_owned() } else { written };
        Ok(Requirement { agent: AgentKind::ClaudeCode, version, provider: None })
    }

    fn capture(&self, native: &NativeId, _scratch: &Path) -> Result<Transcript, AgentError> {
        let place = self.store.place(native)?;
        let real = tombstone::real(&place)?;
        let scan = self.scan(&real)?;
        let head = arrivals::head(&real, scan.turns)?;
        let mut files = vec![TranscriptFile { path: logical(CONVERSATION.as_bytes())?, local: real.clone() }];
        for file in store::side_files(&place)? {
            let path = logical(&[SIDE.as_bytes(), b"/", file.path.as_bytes()].concat())?;
            files.push(TranscriptFile { path, local: file.local });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Transcript { head, turns: scan.turns, inventory: inventory(&files), files })
    }

    fn fence(&self, native: &NativeId, tombstone: &Tombstone) -> Result<(), AgentError> {
        let place = self.store.place(native)?;
        let scan = self.scan(&tombstone::real(&place)?)?;
        let was_fenced = self.is_fenced(native)?;
        let raised = self.put_up(native, &place, &scan, tombstone.text());
        if raised.is_err() && !was_fenced {
            self.lift(native)?;
        }
        raised
    }

    fn lift(&self, native: &NativeId) -> Result<(), AgentError> {
        for place in self.store.places(native)? {
            if let Some(kept) = fences::unbury(&place, tombstone::look)? {
                tracing::warn!(kept = %kept.display(), "something else stood where the tombstone was; it is kept");
            }
        }
        self.forget_fence(native)
    }

    fn is_fenced(&self, native: &NativeId) -> Result<bool, AgentError> {
        for place in self.store.places(native)? {
            if tombstone::is(&place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check(&self, requirement: &Requirement) -> Result<(), CannotResume> {
        requirements::version(&self.around, requirement, "claude", INSTALL)?;
        requirements::claude_login(&self.around, requirement)
    }

    fn install(&self, arrival: &Arrival) -> Result<Installed, AgentError> {
        install::install(self, arrival)
    }

    fn resume_command(&self, native: &NativeId, workdir: &Path) -> String {
        format!("cd {} && claude --resume {native}", text::quoted(workdir))
    }

    fn stop(&self, native: &NativeId) -> Result<(), AgentError> {
        self.end(&live::of(&self.store.home, native.as_str()))
    }

    fn leftovers(&self, native: &NativeId) -> Vec<LeftoverProcess> {
        if live::of(&self.store.home, native.as_str()).is_empty() {
            processes::marked(&[format!("CLAUDE_CODE_SESSION_ID={native}")], "claude")
        } else {
            Vec::new()
        }
    }

    fn kept(&self) -> Vec<PathBuf> {
        fences::kept(self.store.files())
    }
}

/// Where the transcript of a session that is worked on in this directory belongs.
pub(super) fn place_for(around: &Surroundings, native: &NativeId, workdir: &Path) -> Result<PathBuf, AgentError> {
    Store { home: around.claude_home.clone() }.home_of(native, workdir)
}

fn activity(live: &[Live], scan: &Scan) -> Activity {
    let dangling = scan.dangling();
    match live.iter().max_by_key(|process| process.busy) {
        Some(process) if process.busy => {
            Activity::Busy { pid: Some(process.pid), evidence: "its registry entry says busy".to_owned() }
        }
        Some(process) => Activity::Open { pid: process.pid, evidence: "its registry entry says idle".to_owned() },
        None if scan.unfinished() => Activity::Interrupted {
            evidence: format!("no running process, the last turn never ended, tool calls without a result: {dangling}"),
        },
        None => Activity::Idle { evidence: "no running process, the last turn is complete".to_owned() },
    }
}

fn inventory(files: &[TranscriptFile]) -> Vec<InventoryItem> {
    let (main, side): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.path.as_bytes() == CONVERSATION.as_bytes());
    let line = |what: &str, disposition, files: &[&TranscriptFile], note: &str| InventoryItem {
        what: what.to_owned(),
        disposition,
        count: files.len() as u64,
        bytes: arrivals::bytes(files.iter().map(|file| &file.local)),
        note: note.to_owned(),
    };
    let mut items = vec![line("conversation", Disposition::Transferred, &main, "")];
    if !side.is_empty() {
        items.push(line("sub-agents and tool results", Disposition::Transferred, &side, ""));
    }
    items.push(line(
        "rewind copies of edited files",
        Disposition::Stays,
        &[],
        "they are named by paths of this device",
    ));
    items.push(line("provider credentials", Disposition::NeverTravels, &[], "the destination uses its own"));
    items
}

fn logical(path: &[u8]) -> Result<RelPath, AgentError> {
    RelPath::parse(path).map_err(|error| AgentError::Damaged { what: error.to_string(), file: CONVERSATION.to_owned() })
}
