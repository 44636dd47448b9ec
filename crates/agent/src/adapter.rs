//! The port to coding agents: how a session is found, described, captured, fenced and installed.
//!
//! An adapter knows where one program keeps its sessions, and nothing of devices, custody or networks. The
//! programs do not know our protocol, so the adapter makes it true on disk: after [`Adapter::fence`] the
//! program's own store refuses to resume the session and names the new owner.
//!
//! One contract: **what a method promised is durable when it returns**, and calling it again changes nothing.
//!
//! Everything here blocks; the daemon calls it on blocking threads.

use std::path::{Path, PathBuf};

use cede_wire::custody::Head;
use cede_wire::handoff::InventoryItem;
use cede_wire::path::RelPath;
use cede_wire::session::{AgentKind, NativeId, Requirement, SessionInfo};

pub mod claude_code;
pub mod codex;
pub mod files;
pub mod limits;
pub mod opencode;
pub mod recorded;

mod arrivals;
mod conversation;
mod durable;
mod fences;
mod lines;
pub(crate) mod processes;
mod requirements;
mod scans;
mod scratch;
mod surroundings;
mod text;
mod version;

pub use conversation::Conversation;
pub use surroundings::Surroundings;

/// One coding agent's sessions. Source: SPEC A-1.
pub trait Adapter: Send + Sync {
    /// The agent.
    fn agent(&self) -> AgentKind;

    /// Every session that a person could move from here. Reads a bounded part of each; what cannot be read is
    /// left out and logged.
    ///
    /// # Errors
    /// [`AgentError`]; nothing changed.
    fn discover(&self) -> Result<Vec<SessionInfo>, AgentError>;

    /// One session, with the evidence for busy or idle.
    ///
    /// # Errors
    /// [`AgentError`]; nothing changed.
    fn describe(&self, native: &NativeId) -> Result<SessionInfo, AgentError>;

    /// What is said in a session, to be read as it grows.
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Unknown`] also where an agent keeps no conversations.
    fn conversation(&self, native: &NativeId) -> Result<Conversation, AgentError>;

    /// What a destination needs before it can go on with the session.
    ///
    /// # Errors
    /// [`AgentError`]; nothing changed.
    fn requirement(&self, native: &NativeId) -> Result<Requirement, AgentError>;

    /// The conversation with everything that resuming it needs: fork ancestors, sub-agents, side files. Works
    /// before and after [`Adapter::fence`]. Files made for the capture go below `scratch`; others stay where they are.
    ///
    /// # Errors
    /// [`AgentError`]; nothing changed outside `scratch`.
    fn capture(&self, native: &NativeId, scratch: &Path) -> Result<Transcript, AgentError>;

    /// Makes the agent's own store refuse the session and name the owner. Again with another tombstone: the text
    /// changes, the session stays fenced.
    ///
    /// # Errors
    /// [`AgentError`]; the session is not fenced, and the next call or [`Adapter::lift`] starts clean.
    fn fence(&self, native: &NativeId, tombstone: &Tombstone) -> Result<(), AgentError>;

    /// Takes the fence down: the exact bytes from before it are back. A session without a fence is left as it is.
    ///
    /// # Errors
    /// [`AgentError`]; the fence may still stand, and the call may be repeated.
    fn lift(&self, native: &NativeId) -> Result<(), AgentError>;

    /// True while a fence stands here: the daemon compares it with its journal when it starts.
    ///
    /// # Errors
    /// [`AgentError`]; nothing changed.
    fn is_fenced(&self, native: &NativeId) -> Result<bool, AgentError>;

    /// Whether this device can go on with such a session.
    ///
    /// # Errors
    /// [`CannotResume`], each with its cure.
    fn check(&self, requirement: &Requirement) -> Result<(), CannotResume>;

    /// Puts an arrived session where the agent finds it, under the same id, and takes down a fence that an
    /// earlier departure left. What is here must be a prefix of what arrives; otherwise both are kept.
    ///
    /// # Errors
    /// [`AgentError`]; what was here is still whole, and the call may be repeated.
    fn install(&self, arrival: &Arrival) -> Result<Installed, AgentError>;

    /// What a person types in `workdir` to go on.
    fn resume_command(&self, native: &NativeId, workdir: &Path) -> String;

    /// Ends an agent process that holds the session open and waits for input. A busy one is left alone.
    ///
    /// # Errors
    /// [`AgentError::Live`] where it is busy or cannot be ended without harm to other sessions.
    fn stop(&self, native: &NativeId) -> Result<(), AgentError>;

    /// Tool processes of the session that outlived their agent, known by what stands in their environment.
    fn leftovers(&self, native: &NativeId) -> Vec<LeftoverProcess>;

    /// Conversations in the agent's store that were kept beside a session, and that are not in it. Blocks.
    fn kept(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Every adapter, in the order of [`AgentKind::ALL`]. A terminal has none: it has no files, the daemon hosts it.
pub fn adapters(surroundings: &Surroundings) -> Vec<Box<dyn Adapter>> {
    vec![
        Box::new(files::FilesAdapter::new(surroundings)),
        Box::new(codex::CodexAdapter::new(surroundings)),
        Box::new(claude_code::ClaudeCodeAdapter::new(surroundings)),
        Box::new(opencode::OpenCodeAdapter::new(surroundings)),
    ]
}

/// The conversation as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// Its files; ascending by path, each path once.
    pub files: Vec<TranscriptFile>,
    /// The end of the turn log.
    pub head: Head,
    /// Number of user turns.
    pub turns: u64,
    /// The lines for the operator: what travels and what stays.
    pub inventory: Vec<InventoryItem>,
}

/// A file of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptFile {
    /// Its name inside the payload; the adapter at the destination knows what it means.
    pub path: RelPath,
    /// Where its bytes are now.
    pub local: PathBuf,
}

/// What a person reads where the session no longer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The new owner's name.
    pub owner: String,
    /// The session, as the commands of `cede` name it.
    pub session: String,
    /// What brings it back or lifts the fence.
    pub command: String,
}

/// A staged session that is to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The agent's id.
    pub native: NativeId,
    /// The directory that holds the transcript's files under their logical paths.
    pub files: PathBuf,
    /// Where the work goes on; absolute, exists.
    pub workdir: PathBuf,
}

/// What an installation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installed {
    /// The session was not here before.
    New,
    /// It was here and has been extended.
    Extended,
    /// It was here with the same bytes.
    Unchanged,
    /// What was here is no prefix of what arrived. Both are kept; the arrived one is in charge.
    Diverged {
        /// Where the conversation that was here lies now.
        branch: PathBuf,
    },
}

impl Installed {
    /// The same where another conversation was kept besides.
    fn beside(self, kept: Option<PathBuf>) -> Self {
        match (self, kept) {
            (done @ Self::Diverged { .. }, _) | (done, None) => done,
            (Self::New | Self::Extended | Self::Unchanged, Some(branch)) => Self::Diverged { branch },
        }
    }
}

/// A process that an agent started for the session and that outlived it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftoverProcess {
    /// Its id.
    pub pid: u32,
    /// When it started, in clock ticks since boot: with the id it names the process for good.
    pub start_ticks: u64,
    /// Its command line, escaped, at most [`limits::COMMAND_CHARS`] characters.
    pub command: String,
    /// The variable that names the session.
    pub marker: String,
}

/// Why an adapter could not do it. Each variant says what state the session is in now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The agent has no session of this id here. Nothing changed.
    #[error("no such {agent} session here: {native}", agent = agent.name())]
    Unknown {
        /// The agent.
        agent: AgentKind,
        /// The id.
        native: NativeId,
    },
    /// A process has the session open. Nothing changed.
    #[error("the session is in use by process {pid}: {evidence}; {cure}")]
    Live {
        /// The process; 0 where it is not known.
        pid: u32,
        /// How we know.
        evidence: String,
        /// What helps.
        cure: &'static str,
    },
    /// The session is fenced: it lives on another device. Nothing changed.
    #[error("the session is fenced here: {0}")]
    Fenced(String),
    /// The agent's files are not as the agent leaves them. Nothing changed.
    #[error("the session's files are damaged: {what}: {file}")]
    Damaged {
        /// What is wrong.
        what: String,
        /// Where.
        file: String,
    },
    /// A link stands where a plain directory was made a session. Nothing changed.
    #[error(
        "{0} is a link now, and what it leads to is not what was adopted; put the directory back, or adopt that one"
    )]
    Link(String),
    /// The arrived files are not a session of this agent. Nothing changed.
    #[error("the arrived files are not this session: {0}")]
    BadArrival(String),
    /// The agent's program is missing or failed. What it was asked for may be done in part; repeating is safe.
    #[error("{program} failed: {text}")]
    Program {
        /// Its name.
        program: &'static str,
        /// What it said, shortened.
        text: String,
    },
    /// A disk or the system failed. What was asked for may be done in part; repeating is safe.
    #[error("cannot {doing}: {why}")]
    World {
        /// What was tried, with the path.
        doing: String,
        /// What the system said.
        why: String,
    },
}

/// Why this device cannot go on with a session, and what helps. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotResume {
    /// The agent is not installed.
    #[error("{agent} is not installed here; to install it, type: {install}", agent = agent.name())]
    NotInstalled {
        /// The agent.
        agent: AgentKind,
        /// The command that installs it.
        install: &'static str,
    },
    /// The agent here is older than what wrote the session.
    #[error("{agent} {here} here is older than the session's {needed}; to update it, type: {update}", agent = agent.name())]
    Older {
        /// The agent.
        agent: AgentKind,
        /// The version here.
        here: String,
        /// The oldest version that will do.
        needed: String,
        /// The command that updates it.
        update: &'static str,
    },
    /// The session's model provider is not configured.
    #[error("the model provider {provider} is not configured for {agent} here; add it to {file}", agent = agent.name())]
    NoProvider {
        /// The agent.
        agent: AgentKind,
        /// The provider.
        provider: String,
        /// The configuration file.
        file: String,
    },
    /// The agent has neither a login nor a key for its provider.
    #[error("{agent} is not logged in here; to log in, type: {login}, or start the daemon with the key in its environment", agent = agent.name())]
    NoLogin {
        /// The agent.
        agent: AgentKind,
        /// The command that logs in.
        login: &'static str,
    },
    /// It could not be found out.
    #[error("cannot find out whether {agent} can go on here: {why}", agent = agent.name())]
    Unclear {
        /// The agent.
        agent: AgentKind,
        /// What went wrong.
        why: String,
    },
}
