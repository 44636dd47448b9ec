//! A question as a person sees it.

use serde::{Deserialize, Serialize};

use super::decisions::AskedFor;
use crate::handoff::InventoryItem;
use crate::id::ApprovalId;
use crate::session::AgentKind;
use crate::transfer::ShownPath;

/// A question that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalSummary {
    /// The question.
    pub id: ApprovalId,
    /// Who asks.
    pub device: String,
    /// What: `receive` (a session would come here), `give` (a session would leave), or the name of a capability.
    pub kind: String,
    /// The session's title; of a capability, what the peer says that it wants.
    pub title: String,
    /// The agent, where it is about a session that moves.
    pub agent: Option<AgentKind>,
    /// Where it would lie here.
    pub directory: String,
    /// What travels, what is rebuilt, what stays, what never travels.
    pub inventory: Vec<InventoryItem>,
    /// Executable files.
    pub executables: Vec<String>,
    /// Files and directories whose names begin with a dot.
    pub dotfiles: Vec<String>,
    /// Files that tools run unasked.
    pub configuration_as_code: Vec<String>,
    /// Most bytes that are taken; 0 where a session would leave.
    pub limit_bytes: u64,
    /// Seconds until it counts as a no.
    pub expires_in_s: u64,
    /// Number of user turns.
    #[serde(default)]
    pub turns: u64,
    /// Files that look like secrets and would leave. Of what comes the inventory names them.
    #[serde(default)]
    pub secret_looking: Vec<String>,
    /// What is asked for, where it is not a move.
    #[serde(default)]
    pub asks: Option<AskedFor>,
    /// The files, where files would come: each of them, or whole folders where they are many.
    #[serde(default)]
    pub files: Vec<ShownPath>,
    /// The sender's words, where files would come.
    #[serde(default)]
    pub note: String,
    /// The device at which the question waits, where that is another one that lets this one answer.
    #[serde(default)]
    pub at: Option<String>,
    /// Kept for the person by a rule, who is not called.
    #[serde(default)]
    pub held: bool,
}
