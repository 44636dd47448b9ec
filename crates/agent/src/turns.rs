//! A turn of a coding agent without a terminal: which program, with which words, how it is watched, bounded and ended.
//!
//! It is for turns that a peer caused. The agent runs under the person's own configuration of it, and what is added to its
//! command line only takes away: nothing here ever widens what it may do.
//!
//! One contract: **when [`run()`] returns, nothing of the turn runs any more**, whatever the agent left behind.
//!
//! ```text
//! choose(around, wanted)             the agent, or why there is none
//! invocation(around, &turn)          its command line, or what it cannot be held to
//! tree = changes::look(directory)
//! run(&invocation, …)                to its end, its time, or the stop
//! changes::since(tree, directory)    what changed, for people
//! ```

use std::ffi::OsString;
use std::path::PathBuf;

use cede_wire::session::{AgentKind, NativeId};

use crate::adapter::Surroundings;

pub mod changes;
#[cfg(feature = "decoders")]
pub mod decoder;
pub mod limits;
mod processes;
mod programs;
mod run;
mod said;

pub use processes::{end_marked, is_of_a_turn};
pub use programs::{choose, invocation};
pub use run::{End, Ended, run};

/// What an agent is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which agent.
    pub agent: AgentKind,
    /// Goes on with this session; none: a new one.
    pub session: Option<NativeId>,
    /// Where. Shape: absolute, exists.
    pub directory: PathBuf,
    /// The words.
    pub prompt: String,
    /// Look, and change nothing.
    pub read_only: bool,
    /// Only these tools; empty: those that the person's configuration gives.
    pub tools: Vec<String>,
    /// Turns of the agent at most.
    pub turns: Option<u32>,
    /// Names the turn in the environment of everything that it starts. Shape: no zero byte.
    pub mark: String,
}

/// How the program is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The agent.
    pub agent: AgentKind,
    /// Its file.
    pub program: PathBuf,
    /// Its arguments. The words are none of them: a command line can be seen by everybody on the machine.
    pub arguments: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where.
    pub directory: PathBuf,
    /// What it reads.
    pub input: String,
    /// The mark of the turn, as it stands in the environment.
    pub mark: String,
}

/// Why an agent cannot do a turn. Nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotRun {
    /// No agent is installed.
    #[error("no coding agent is installed here; to install one, type: npm install -g @openai/codex")]
    NoAgent,
    /// Several are, and none was named.
    #[error("several agents are installed here: {0}; name one with --agent")]
    WhichAgent(String),
    /// The one that was named is not.
    #[error("{agent} is not installed here; to install it, type: {install}", agent = agent.name())]
    NotInstalled {
        /// The agent.
        agent: AgentKind,
        /// The command that installs it.
        install: &'static str,
    },
    /// It has no way to be held to this.
    #[error("{agent} cannot be held to {what}; leave that out, or use --agent claude-code", agent = agent.name())]
    CannotHold {
        /// The agent.
        agent: AgentKind,
        /// To what.
        what: &'static str,
    },
}

/// Where programs are: a word for tests and callers that need only this.
pub fn installed(around: &Surroundings) -> Vec<AgentKind> {
    AgentKind::ALL.into_iter().filter(|agent| programs::find(around, *agent).is_some()).collect()
}
