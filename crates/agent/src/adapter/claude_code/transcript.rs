//! What a Claude Code transcript says: rows of a tree, one JSON object a line.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::adapter::limits::CLOSURE_FILES;
use crate::adapter::lines::Line;
use crate::adapter::scans::Gather;
use crate::adapter::{text, version};

/// What a pass over all rows found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scan {
    pub(super) turns: u64,
    pub(super) title: String,
    pub(super) cwd: Option<String>,
    /// The newest version that wrote a row.
    pub(super) version: String,
    /// Rows that belong to a conversation.
    pub(super) rows: u64,
    /// The last word is the person's: no answer is recorded.
    pub(super) unanswered: bool,
    calls: BTreeSet<String>,
}

impl Scan {
    /// Tool calls whose outcome nobody recorded.
    pub(super) fn dangling(&self) -> usize {
        self.calls.len()
    }

    /// True where the last turn has not ended.
    pub(super) fn unfinished(&self) -> bool {
        self.unanswered || !self.calls.is_empty()
    }
}

impl Gather for Scan {
    fn take(&mut self, line: &Line) {
        match serde_json::from_slice::<Value>(&line.head) {
            Ok(row) => self.take_row(&row),
            Err(_) if !line.whole => self.take_long(&line.head),
            Err(_) => {}
        }
    }

    fn skip(&mut self) {
        self.calls.clear();
    }
}

impl Scan {
    fn take_row(&mut self, row: &Value) {
        self.take_place(field(row, "cwd"), field(row, "version"));
        if row.get("isSidechain").and_then(Value::as_bool) == Some(true) {
            return;
        }
        let content = row.pointer("/message/content").unwrap_or(&Value::Null);
        match field(row, "type") {
            "user" => self.take_user(row, content),
            "assistant" => self.take_assistant(content),
            _ => {}
        }
    }

    fn take_place(&mut self, cwd: &str, found: &str) {
        if !cwd.is_empty() {
            self.cwd = Some(cwd.to_owned());
        }
        if !found.is_empty() && (self.version.is_empty() || version::is_older(&self.version, found)) {
            found.clone_into(&mut self.version);
        }
    }

    fn take_user(&mut self, row: &Value, content: &Value) {
        self.rows += 1;
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let results: Vec<&str> = blocks
            .iter()
            .filter(|block| field(block, "type") == "tool_result")
            .map(|b| field(b, "tool_use_id"))
            .collect();
        self.calls.retain(|call| !results.contains(&call.as_str()));
        if !results.is_empty() || row.get("isMeta").and_then(Value::as_bool) == Some(true) {
            return;
        }
        let prompt = content.as_str().or_else(|| blocks.iter().find_map(|block| block.get("text")?.as_str()));
        self.take_turn(prompt.unwrap_or_default());
    }

    fn take_turn(&mut self, prompt: &str) {
        self.turns += 1;
        self.unanswered = true;
        if self.title.is_empty() && !prompt.trim_start().starts_with('<') {
            self.title = text::title(prompt);
        }
    }

    fn take_assistant(&mut self, content: &Value) {
        self.rows += 1;
        self.unanswered = false;
        for block in content.as_array().map(Vec::as_slice).unwrap_or_default() {
            if field(block, "type") == "tool_use" && self.calls.len() < CLOSURE_FILES {
                self.calls.insert(field(block, "id").to_owned());
            }
        }
    }

    /// A row that is longer than we keep: a tool's output, an image, a request dump. What it answers stands near
    /// its beginning.
    fn take_long(&mut self, head: &[u8]) {
        let head = String::from_utf8_lossy(head);
        let start: String = head.chars().take(512).collect();
        if start.contains("\"isSidechain\":true") {
            return;
        }
        if let Some(id) = after(&head, "\"tool_use_id\":\"") {
            self.rows += 1;
            self.calls.remove(id);
        } else if start.contains("\"type\":\"user\"") {
            self.rows += 1;
            self.take_turn("");
        } else if start.contains("\"role\":\"assistant\"") {
            self.rows += 1;
            self.unanswered = false;
        }
    }
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark)?.1.split('"').next()
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(rows: &[&str]) -> Scan {
        let mut scan = Scan::default();
        for row in rows {
            let line = Line { head: row.as_bytes().to_vec(), length: row.len() as u64 + 1, whole: true };
            scan.take(&line);
        }
        scan
    }

    const PROMPT: &str =
        r#"{"type":"user","message":{"role":"user","content":"fix it"},"cwd":"/a","version":"2.1.332"}"#;
    const CALL: &str = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1"}]}}"#;
    const RESULT: &str = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}"#;
    const ANSWER: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"done"}]}}"#;
    const SIDE: &str = r#"{"type":"user","isSidechain":true,"message":{"content":"sub task"}}"#;

    #[test]
    fn call_without_a_result_dangles() {
        let cut = scanned(&[PROMPT, CALL]);
        assert_eq!((cut.dangling(), cut.unfinished(), cut.turns), (1, true, 1));
        let whole = scanned(&[PROMPT, CALL, RESULT, ANSWER]);
        assert_eq!((whole.dangling(), whole.unfinished(), whole.turns), (0, false, 1));
        assert!(scanned(&[PROMPT]).unfinished(), "a prompt that nobody answered");
    }

    #[test]
    fn rows_of_sub_agents_and_garbage_are_no_turns() {
        let found = scanned(&["\0\0", "{", SIDE, PROMPT, "null", "7", ANSWER]);
        assert_eq!((found.turns, found.title.as_str(), found.cwd.as_deref()), (1, "fix it", Some("/a")));
    }

    #[test]
    fn long_result_ends_its_call() {
        let mut scan = scanned(&[PROMPT, CALL]);
        let head = br#"{"type":"user","message":{"content":[{"tool_use_id":"t1","type":"tool_result","content":"xxxx"#
            .to_vec();
        scan.take(&Line { head, length: 1 << 30, whole: false });
        assert_eq!(scan.dangling(), 0);
    }
}
