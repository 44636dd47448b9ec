//! A call of a tool without an agent and without a daemon, for tests that feed it nonsense.

use std::path::Path;

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::Value;

use super::inputs::{self, HandOver};
use super::outcome;
use super::tools::{Tool, at_once};
use crate::client::Client;

#[derive(Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: JsonObject,
}

/// What the agent is answered: as text, and as JSON. None: it is no call of a tool.
pub(crate) fn called(call: &[u8]) -> Option<(String, String)> {
    let call: Call = serde_json::from_slice(call).ok()?;
    let tool = Tool::named(&call.name)?;
    let client = Client::new(Path::new("/nonexistent/cede"));
    let ended = if tool == Tool::HandOver {
        inputs::read(call.arguments).map(|HandOver { to, .. }| outcome::said(&to))
    } else {
        at_once(tool, call.arguments, &client, &|| false)
    };
    let result = ended.unwrap_or_else(|failure| outcome::failed(&failure));
    let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
    let whole = serde_json::to_value(&result).ok()?;
    let blocks = whole.get("content").and_then(Value::as_array)?;
    Some((blocks.iter().filter_map(text).collect(), whole.to_string()))
}
