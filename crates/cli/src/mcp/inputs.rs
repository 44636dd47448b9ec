//! What each tool takes. A field that is not known is refused: the agent meant something that would not happen.

use std::path::PathBuf;

use cede_wire::control::{Failure, exit};
use rmcp::handler::server::tool::schema_for_input;
use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::fault;
use crate::limits::MCP_REASON;
use crate::page;

/// Nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// What `send_message` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendMessage {
    /// The device, or DEVICE/SESSION for whoever goes on with that session. Left out with in_reply_to.
    #[serde(default)]
    pub(super) to: Option<String>,
    /// The words, at most 256 KiB.
    pub(super) text: String,
    /// The message that is answered: its id, or how it begins. The reply goes to who told it.
    #[serde(default)]
    pub(super) in_reply_to: Option<String>,
    /// After so many seconds it is not shown any more. Left out, it lives a week.
    #[serde(default)]
    pub(super) expires_in_s: Option<u64>,
}

/// What `read_inbox` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadInbox {
    /// One message: its id, or how it begins. Reading it tells its sender that it was shown.
    #[serde(default)]
    pub(super) id: Option<String>,
    /// List what was sent from here, and how far it came.
    #[serde(default)]
    pub(super) sent: bool,
    /// List what ended, too.
    #[serde(default)]
    pub(super) all: bool,
}

/// What `mark_message` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkMessage {
    /// The message: its id, or how it begins.
    pub(super) id: String,
    /// What became of it.
    pub(super) outcome: MarkedAs,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MarkedAs {
    /// What it asks for was done, or it was answered.
    Acted,
    /// It is not wanted.
    Refused,
}

/// What `list_sessions` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSessions {
    /// Only what this device knows: the peers are not asked.
    #[serde(default)]
    pub(super) here: bool,
}

/// What `send_file` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendFile {
    /// To which device.
    pub(super) to: String,
    /// The files and folders, best by their whole paths.
    pub(super) paths: Vec<PathBuf>,
    /// Words to the person there.
    #[serde(default)]
    pub(super) note: String,
}

/// What `hand_over` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HandOver {
    /// To which device.
    pub(super) to: String,
    /// The session: its title, the agent's own id, or the beginning of its id.
    pub(super) session: String,
    /// Wait for the turn to end. Needed for the session that makes this call: the call answers at once, and the session
    /// moves when its turn is over.
    #[serde(default)]
    pub(super) wait: bool,
}

/// What `ask_peer` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskPeer {
    /// The device, or DEVICE/SESSION for a turn of a session there.
    pub(super) to: String,
    /// The task in words, at most 56 KiB. The person there reads all of it.
    pub(super) task: String,
    /// The directory there, absolute or below the home directory. Left out: an empty one of its own, or the session's.
    #[serde(default)]
    pub(super) directory: Option<String>,
    /// Which agent there. Left out: the only one that is installed, or the session's.
    #[serde(default)]
    pub(super) agent: Option<AskedAgent>,
    /// It may look, and change nothing. OpenCode cannot be held to it.
    #[serde(default)]
    pub(super) read_only: bool,
    /// The agent's tools that it may use, and no others. Claude Code alone can be held to them.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// Turns of the agent at most. Claude Code alone can be held to them.
    #[serde(default)]
    pub(super) turns: Option<u32>,
    /// Minutes at most. Left out, it has 20.
    #[serde(default)]
    pub(super) minutes: Option<u32>,
    /// After so many seconds it is not begun any more. Left out, it waits a day.
    #[serde(default)]
    pub(super) expires_in_s: Option<u64>,
}

/// An agent that does tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AskedAgent {
    /// Codex CLI.
    Codex,
    /// Claude Code.
    ClaudeCode,
    /// OpenCode.
    #[serde(rename = "opencode")]
    OpenCode,
}

/// What `read_tasks` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadTasks {
    /// One task with what came of it: its id, or how it begins.
    #[serde(default)]
    pub(super) id: Option<String>,
    /// List what ended, too.
    #[serde(default)]
    pub(super) all: bool,
}

/// The schema of an input, as an object with its properties: some clients take no other.
pub(super) fn schema<T: JsonSchema + 'static>() -> JsonObject {
    let mut schema = schema_for_input::<T>().map(|schema| schema.as_ref().clone()).unwrap_or_default();
    schema.entry("type").or_insert_with(|| Value::from("object"));
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema
}

/// Reads an input.
///
/// # Errors
/// What is wrong with it; nothing was asked of the daemon.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let why = page::cut(&page::safe(&error.to_string()), MCP_REASON);
        fault::local(exit::USAGE, "the call was not understood", &why, "call it again as its input schema says")
    })
}
