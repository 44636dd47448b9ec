//! What stands in a rollout's place while the session lives elsewhere.
//!
//! A first record whose model provider is the sentence for the person: Codex refuses to go on with a provider that
//! is not configured, and names it, in its terminal as in `codex exec`. Where Codex's index has a row for the
//! session the provider there counts, so the fence changes both.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::rollout::Meta;
use crate::adapter::fences::{self, Stands};
use crate::adapter::limits::RECORD_BYTES;
use crate::adapter::{AgentError, durable, lines};

const ORIGINATOR: &str = "cede tombstone";

/// The tombstone's bytes.
pub(super) fn bytes(meta: &Meta, text: &str) -> Vec<u8> {
    let record = json!({
        "timestamp": "1970-01-01T00:00:00.000Z",
        "ordinal": 0,
        "type": "session_meta",
        "payload": {
            "session_id": meta.id,
            "id": meta.id,
            "timestamp": "1970-01-01T00:00:00.000Z",
            "cwd": meta.cwd,
            "originator": ORIGINATOR,
            "cli_version": meta.cli_version,
            "source": "cli",
            "model_provider": text,
            "base_instructions": { "text": text },
            "history_mode": "paginated",
        },
    });
    format!("{record}\n").into_bytes()
}

/// True where the file begins as a tombstone does.
pub(super) fn is(path: &Path) -> Result<bool, AgentError> {
    let unread = |error: std::io::Error| durable::world("read", path, &error);
    let Some(file) = durable::found(std::fs::File::open(path)).map_err(unread)? else { return Ok(false) };
    let line = lines::next(&mut std::io::BufReader::new(file), RECORD_BYTES).map_err(unread)?;
    let Some(line) = line else { return Ok(false) };
    let record = serde_json::from_slice::<Value>(&line.head).unwrap_or_default();
    Ok(record.pointer("/payload/originator").and_then(Value::as_str) == Some(ORIGINATOR))
}

/// What stands there.
pub(super) fn look(path: &Path) -> Result<Stands, AgentError> {
    fences::look(path, RECORD_BYTES, is, |line| {
        let record = serde_json::from_slice::<Value>(line).unwrap_or_default();
        record["type"] == "response_item" && record["payload"]["role"] == "assistant"
    })
}

/// The file that holds the session's real bytes.
pub(super) fn real(path: &Path) -> Result<PathBuf, AgentError> {
    fences::real(path, is)
}
