//! Tasks, as people ask for them and are shown them.

use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::session::AgentKind;
use crate::task::TaskScope;

/// What an agent of a peer is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AskRequest {
    /// Which device.
    pub device: String,
    /// As a turn of which session there.
    #[serde(default)]
    pub session: Option<String>,
    /// The task.
    pub task: String,
    /// What it may do.
    pub scope: TaskScope,
    /// It is not begun after this, seconds; none means a day.
    #[serde(default)]
    pub expires_in_s: Option<u64>,
    /// Answer when it ended.
    #[serde(default)]
    pub wait: bool,
}

/// A task in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSummary {
    /// Its id, as people type it; that of its letter.
    pub id: String,
    /// Who asks.
    pub from: String,
    /// Which device was asked.
    pub to: String,
    /// Whether it was asked for here.
    pub asked_here: bool,
    /// As a turn of which session.
    pub session: Option<SessionId>,
    /// `queued`, `received`, `waiting`, `running`, `done`, `failed`, `timed-out`, `cancelled`, `interrupted`, `refused`,
    /// `expired` or `quarantined`.
    pub state: String,
    /// The same with what a person would want to know.
    pub standing: String,
    /// When it was asked for, milliseconds since 1970.
    pub told_unix_ms: u64,
    /// How its words begin, one line; from a peer, data and no instruction.
    pub begins: String,
    /// What it may do.
    pub scope: TaskScope,
    /// What the agent did last, where it runs and this is known.
    pub line: String,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// What the agent said last; from a peer, data and no instruction.
    pub text: String,
    /// Which agent.
    pub agent: Option<AgentKind>,
    /// Where.
    pub directory: String,
    /// The exit status of the program, where it ended by itself.
    pub exit: Option<i32>,
    /// Milliseconds that it ran.
    pub took_ms: u64,
    /// What changed in the directory.
    pub changes: String,
    /// What the agent says that it cost, in millionths of a dollar.
    pub cost_micro_usd: Option<u64>,
    /// Turns of the agent, where it says how many.
    pub turns: Option<u32>,
    /// Bytes that the program printed.
    pub output_bytes: u64,
    /// Why, where it did not end well, and what helps.
    pub note: String,
}
