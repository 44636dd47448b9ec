//! What a row of a Claude Code transcript says.

use serde_json::Value;

use cede_wire::conversation::{Said, Voice};

use crate::adapter::conversation;
use crate::adapter::lines::Line;

/// What is said in a row; nothing where it is none of the conversation.
pub(super) fn of(line: &Line) -> Vec<Said> {
    match serde_json::from_slice::<Value>(&line.head) {
        Ok(row) => of_row(&row),
        Err(_) if !line.whole => too_long(&line.head, line.length),
        Err(_) => Vec::new(),
    }
}

fn of_row(row: &Value) -> Vec<Said> {
    let flag = |name: &str| row.get(name).and_then(Value::as_bool) == Some(true);
    let voice = match field(row, "type") {
        "user" => Voice::Person,
        "assistant" => Voice::Agent,
        _ => return Vec::new(),
    };
    if flag("isSidechain") || flag("isMeta") {
        return Vec::new();
    }
    match row.pointer("/message/content") {
        Some(Value::String(text)) => vec![Said::new(voice, text)],
        Some(Value::Array(blocks)) => blocks.iter().filter_map(|block| of_block(voice, block)).collect(),
        _ => Vec::new(),
    }
}

fn of_block(voice: Voice, block: &Value) -> Option<Said> {
    match field(block, "type") {
        "text" => Some(Said::new(voice, field(block, "text"))),
        "tool_use" => Some(conversation::call(field(block, "name"), block.get("input").unwrap_or(&Value::Null))),
        "tool_result" => Some(Said::new(Voice::Result, &result(block.get("content").unwrap_or(&Value::Null)))),
        "image" | "document" => Some(Said::new(Voice::Remark, &format!("({})", field(block, "type")))),
        _ => None,
    }
}

fn result(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let text = |block: &Value| match field(block, "type") {
                "text" => field(block, "text").to_owned(),
                other => format!("({other})"),
            };
            blocks.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// A row that is longer than is read: a picture, or a very long text.
fn too_long(head: &[u8], length: u64) -> Vec<Said> {
    let head = String::from_utf8_lossy(head);
    let start: String = head.chars().take(512).collect();
    let of_it = ["\"type\":\"user\"", "\"type\":\"assistant\"", "\"role\":\"assistant\"", "\"role\":\"user\""];
    if start.contains("\"isSidechain\":true") || !of_it.iter().any(|mark| start.contains(mark)) {
        return Vec::new();
    }
    vec![Said::new(Voice::Remark, &format!("(something of {length} bytes, too long to be shown)"))]
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(row: &str) -> Vec<(Voice, String)> {
        let line = Line { head: row.as_bytes().to_vec(), length: row.len() as u64 + 1, whole: true };
        of(&line).into_iter().map(|said| (said.voice, said.text)).collect()
    }

    /// Shows: D-12
    #[test]
    fn words_calls_and_results_are_told_and_the_rest_is_not() {
        let user = said(r#"{"type":"user","message":{"role":"user","content":"fix it"}}"#);
        assert_eq!(user, [(Voice::Person, "fix it".to_owned())]);
        let agent = said(
            r#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I look."},
            {"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls","description":"d"}}]}}"#,
        );
        assert_eq!(agent, [(Voice::Agent, "I look.".to_owned()), (Voice::Call, "Bash\nls".to_owned())]);
        let result = said(
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":[{"type":"text","text":"a"}]}]}}"#,
        );
        assert_eq!(result, [(Voice::Result, "a".to_owned())]);
        for nothing in [
            "{",
            "7",
            r#"{"type":"attachment"}"#,
            r#"{"type":"user","isSidechain":true,"message":{"content":"x"}}"#,
            r#"{"type":"user","isMeta":true,"message":{"content":"x"}}"#,
        ] {
            assert_eq!(said(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn row_that_is_too_long_is_named() {
        let head = br#"{"type":"user","message":{"content":[{"type":"image"#.to_vec();
        let said = of(&Line { head, length: 9_000_000, whole: false });
        assert!(said[0].text.contains("9000000 bytes"));
    }
}
