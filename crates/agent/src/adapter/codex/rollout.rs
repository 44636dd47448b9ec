//! What a rollout file says: its first record, its turns, whether the last one ended.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Result};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::adapter::limits::{CLOSURE_FILES, RECORD_BYTES};
use crate::adapter::lines::{self, Line};
use crate::adapter::scans::Gather;
use crate::adapter::{text, version};

/// The first record of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Meta {
    pub(super) id: String,
    #[serde(default)]
    pub(super) session_id: Option<String>,
    #[serde(default)]
    pub(super) cwd: String,
    #[serde(default)]
    pub(super) cli_version: String,
    #[serde(default)]
    pub(super) model_provider: Option<String>,
    #[serde(default)]
    pub(super) history_base: Option<Base>,
    #[serde(default)]
    pub(super) parent_thread_id: Option<String>,
}

/// Where a fork begins: inside another rollout, by byte offset. Shifting that file's bytes loses its history.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Base {
    pub(super) thread_id: String,
    #[serde(default)]
    pub(super) end_byte_offset: u64,
}

/// What a pass over all records found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scan {
    pub(super) turns: u64,
    pub(super) title: String,
    /// The directory of the last turn.
    pub(super) cwd: Option<String>,
    /// The newest version that wrote a first record.
    pub(super) version: String,
    /// A turn began and its end is not recorded.
    pub(super) unfinished: bool,
    /// Tool calls without a result.
    calls: BTreeSet<String>,
}

impl Scan {
    /// Tool calls whose outcome nobody recorded.
    pub(super) fn dangling(&self) -> usize {
        self.calls.len()
    }
}

/// Reads the first record. `None` where it is missing or is not one.
pub(super) fn meta(path: &Path) -> Result<Option<Meta>> {
    let mut reader = BufReader::new(File::open(path)?);
    let Some(line) = lines::next(&mut reader, RECORD_BYTES)? else { return Ok(None) };
    Ok(meta_of(&line.head))
}

pub(super) fn meta_of(line: &[u8]) -> Option<Meta> {
    let record: Value = serde_json::from_slice(line).ok()?;
    if record.get("type")?.as_str()? != "session_meta" {
        return None;
    }
    serde_json::from_value(record.get("payload")?.clone()).ok()
}

impl Gather for Scan {
    /// Lines that are no records are passed over: the agent does the same.
    fn take(&mut self, line: &Line) {
        if line.whole {
            self.take_record(&line.head);
        } else {
            self.take_long(&line.head);
        }
    }

    fn skip(&mut self) {
        self.calls.clear();
    }
}

impl Scan {
    fn take_record(&mut self, line: &[u8]) {
        let Ok(record) = serde_json::from_slice::<Value>(line) else { return };
        let payload = record.get("payload").unwrap_or(&Value::Null);
        match record.get("type").and_then(Value::as_str) {
            Some("session_meta") => self.take_version(field(payload, "cli_version")),
            Some("turn_context") => self.cwd = Some(field(payload, "cwd").to_owned()).filter(|cwd| !cwd.is_empty()),
            Some("event_msg") => self.take_event(payload),
            Some("response_item") => self.take_item(payload),
            _ => {}
        }
    }

    /// A record that is longer than we keep: an image or a tool's output. Its kind stands in its first bytes.
    fn take_long(&mut self, head: &[u8]) {
        let start = head.get(..head.len().min(512)).unwrap_or_default();
        if holds(start, "user_message") || holds(start, "UserMessage") {
            self.turns += 1;
        }
        if holds(start, "session_meta") {
            let version = after(head, b"\"cli_version\":\"");
            self.take_version(&version);
        }
        if holds(start, "_output\"") {
            self.calls.remove(&after(head, b"\"call_id\":\""));
        }
    }

    fn take_version(&mut self, found: &str) {
        if version::is_older(&self.version, found) || self.version.is_empty() {
            found.clone_into(&mut self.version);
        }
    }

    fn take_event(&mut self, payload: &Value) {
        match field(payload, "type") {
            "task_started" => self.unfinished = true,
            "task_complete" | "turn_aborted" => {
                self.unfinished = false;
                self.calls.clear();
            }
            "user_message" => self.take_turn(field(payload, "message")),
            "item_completed" => {
                let item = payload.get("item").unwrap_or(&Value::Null);
                if field(item, "type") == "UserMessage" {
                    let first = item.pointer("/content/0").unwrap_or(&Value::Null);
                    self.take_turn(field(first, "text"));
                }
            }
            _ => {}
        }
    }

    fn take_turn(&mut self, prompt: &str) {
        self.turns += 1;
        if self.title.is_empty() {
            self.title = text::title(prompt);
        }
    }

    fn take_item(&mut self, payload: &Value) {
        let kind = field(payload, "type");
        let call = field(payload, "call_id");
        if kind.ends_with("_output") {
            self.calls.remove(call);
        } else if kind.ends_with("_call") && !call.is_empty() && self.calls.len() < CLOSURE_FILES {
            self.calls.insert(call.to_owned());
        }
    }
}

/// The text between a mark and the next quote; empty where there is none.
fn after(head: &[u8], mark: &[u8]) -> String {
    let from = find(head, mark).map_or(head.len(), |at| at + mark.len());
    let tail = head.get(from..).unwrap_or_default();
    String::from_utf8_lossy(tail.split(|byte| *byte == b'"').next().unwrap_or_default()).into_owned()
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn holds(text: &[u8], word: &str) -> bool {
    find(text, word.as_bytes()).is_some()
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(lines: &[&str]) -> Scan {
        let mut scan = Scan::default();
        lines.iter().for_each(|line| scan.take_record(line.as_bytes()));
        scan
    }

    const STARTED: &str = r#"{"type":"event_msg","payload":{"type":"task_started"}}"#;
    const CALL: &str = r#"{"type":"response_item","payload":{"type":"function_call","call_id":"c1"}}"#;
    const RESULT: &str = r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1"}}"#;
    const ABORTED: &str = r#"{"type":"event_msg","payload":{"type":"turn_aborted"}}"#;

    #[test]
    fn turn_without_an_end_is_unfinished_and_its_call_dangles() {
        let cut = scanned(&[STARTED, CALL]);
        assert!(cut.unfinished);
        assert_eq!(cut.dangling(), 1);
        assert_eq!(scanned(&[STARTED, CALL, RESULT]).dangling(), 0);
        assert!(!scanned(&[STARTED, CALL, ABORTED]).unfinished);
    }

    #[test]
    fn garbage_between_records_is_passed_over() {
        let found = scanned(&["\0\0\0", "{not json", r#"{"type":"event_msg"}"#, r#"{"type":"event_msg","payload":7}"#]);
        assert_eq!(found, Scan::default());
    }

    #[test]
    fn both_ways_of_writing_a_prompt_count_as_one_turn_each() {
        let old = r#"{"type":"event_msg","payload":{"type":"user_message","message":"fix it"}}"#;
        let new = r#"{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"again"}]}}}"#;
        let found = scanned(&[old, new]);
        assert_eq!((found.turns, found.title.as_str()), (2, "fix it"));
    }

    #[test]
    fn prompt_with_an_image_blob_is_counted_without_keeping_it() {
        let mut scan = Scan::default();
        scan.take_long(br#"{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"image","url":"data:AAAA"#);
        assert_eq!(scan.turns, 1);
    }
}
