//! What stands in a transcript's place while the session lives elsewhere: a conversation of two rows that says so,
//! for whoever opens it although the hook refuses every prompt.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::transcript::Scan;
use crate::adapter::fences::{self, Stands};
use crate::adapter::limits::RECORD_HEAD_BYTES;
use crate::adapter::{AgentError, durable, lines};

const MARK: &str = "cedeTombstone";
const ASKED: &str = "00000000-0000-4000-8000-00000000ce01";
const ANSWERED: &str = "00000000-0000-4000-8000-00000000ce02";

/// The tombstone's bytes.
pub(super) fn bytes(native: &str, scan: &Scan, text: &str) -> Vec<u8> {
    let row = |kind: &str, uuid: &str, parent: Value, message: Value| {
        let row = json!({
            MARK: true,
            "parentUuid": parent,
            "isSidechain": false,
            "type": kind,
            "message": message,
            "uuid": uuid,
            "timestamp": "1970-01-01T00:00:00.000Z",
            "userType": "external",
            "cwd": scan.cwd,
            "sessionId": native,
            "version": scan.version,
        });
        format!("{row}\n")
    };
    let question = json!({ "role": "user", "content": "Where is this session?" });
    let answer = json!({
        "id": "msg_cede",
        "type": "message",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [{ "type": "text", "text": text }],
        "stop_reason": "end_turn",
        "stop_sequence": null,
        "usage": { "input_tokens": 0, "output_tokens": 0 },
    });
    let rows = row("user", ASKED, Value::Null, question) + &row("assistant", ANSWERED, json!(ASKED), answer);
    rows.into_bytes()
}

/// True where the file begins as a tombstone does, whatever was appended to it since.
pub(super) fn is(path: &Path) -> Result<bool, AgentError> {
    let unread = |error: std::io::Error| durable::world("read", path, &error);
    let Some(file) = durable::found(std::fs::File::open(path)).map_err(unread)? else { return Ok(false) };
    let line = lines::next(&mut std::io::BufReader::new(file), RECORD_HEAD_BYTES).map_err(unread)?;
    let Some(line) = line else { return Ok(false) };
    let row = serde_json::from_slice::<Value>(&line.head).unwrap_or_default();
    Ok(row.get(MARK).and_then(Value::as_bool) == Some(true))
}

/// What stands there. A prompt that the hook refused is no turn.
pub(super) fn look(path: &Path) -> Result<Stands, AgentError> {
    fences::look(path, RECORD_HEAD_BYTES, is, |line| {
        let row = serde_json::from_slice::<Value>(line).unwrap_or_default();
        row["type"] == "assistant" && row["message"]["model"] != "<synthetic>"
    })
}

/// The file that holds the session's real bytes.
pub(super) fn real(path: &Path) -> Result<PathBuf, AgentError> {
    fences::real(path, is)
}
