//! What a record of a rollout says. Words stand in events, since the other records also hold what the program tells the
//! model; calls and results stand in items.

use serde_json::Value;

use cede_wire::conversation::{Said, Voice};

use crate::adapter::conversation;
use crate::adapter::lines::Line;

/// What is said in a record; nothing where it is none of the conversation.
pub(super) fn of(line: &Line) -> Vec<Said> {
    if !line.whole {
        return too_long(&line.head, line.length);
    }
    let Ok(record) = serde_json::from_slice::<Value>(&line.head) else { return Vec::new() };
    let payload = record.get("payload").unwrap_or(&Value::Null);
    match field(&record, "type") {
        "event_msg" => of_event(payload),
        "response_item" => Vec::from_iter(of_item(payload)),
        "compacted" => vec![Said::new(Voice::Remark, "(the conversation was made shorter for the model)")],
        _ => Vec::new(),
    }
}

fn of_event(payload: &Value) -> Vec<Said> {
    let one = |voice, text: &str| vec![Said::new(voice, text)];
    match field(payload, "type") {
        "user_message" => one(Voice::Person, field(payload, "message")),
        "agent_message" => one(Voice::Agent, field(payload, "message")),
        "turn_aborted" => one(Voice::Remark, "(the turn was interrupted)"),
        "error" => one(Voice::Remark, field(payload, "message")),
        "item_completed" => {
            let item = payload.get("item").unwrap_or(&Value::Null);
            let voice = match field(item, "type") {
                "UserMessage" => Voice::Person,
                "AgentMessage" => Voice::Agent,
                _ => return Vec::new(),
            };
            let blocks = item.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            blocks.iter().map(|block| of_block(voice, block)).collect()
        }
        _ => Vec::new(),
    }
}

fn of_block(voice: Voice, block: &Value) -> Said {
    match block.get("text").and_then(Value::as_str) {
        Some(text) => Said::new(voice, text),
        None => Said::new(Voice::Remark, &format!("({})", field(block, "type"))),
    }
}

fn of_item(payload: &Value) -> Option<Said> {
    let kind = field(payload, "type");
    if kind.ends_with("_output") {
        return Some(Said::new(Voice::Result, &output(payload.get("output").unwrap_or(&Value::Null))));
    }
    if !kind.ends_with("_call") {
        return None;
    }
    let name = Some(field(payload, "name")).filter(|name| !name.is_empty()).unwrap_or(kind);
    let given = ["arguments", "input", "action"].iter().find_map(|field| payload.get(field));
    // Arguments are an object within a text.
    let inner = given.and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    Some(conversation::call(name, inner.as_ref().or(given).unwrap_or(&Value::Null)))
}

fn output(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let text = |block: &Value| block.get("text").and_then(Value::as_str).unwrap_or("(no text)").to_owned();
            blocks.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        Value::Object(fields) => fields.get("content").map_or_else(String::new, self::output),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// A record that is longer than is read: a picture, or a very long text. Its kind stands in its first bytes.
fn too_long(head: &[u8], length: u64) -> Vec<Said> {
    let start = String::from_utf8_lossy(head.get(..head.len().min(512)).unwrap_or_default());
    let of_it = ["user_message", "agent_message", "UserMessage", "AgentMessage", "_output\""];
    if !of_it.iter().any(|mark| start.contains(mark)) {
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

    fn said(record: &str) -> Vec<(Voice, String)> {
        let line = Line { head: record.as_bytes().to_vec(), length: record.len() as u64 + 1, whole: true };
        of(&line).into_iter().map(|said| (said.voice, said.text)).collect()
    }

    /// Shows: D-12
    #[test]
    fn both_ways_of_writing_are_told_once() {
        let person = [(Voice::Person, "fix it".to_owned())];
        assert_eq!(said(r#"{"type":"event_msg","payload":{"type":"user_message","message":"fix it"}}"#), person);
        let new = r#"{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"fix it"}]}}}"#;
        assert_eq!(said(new), person);
        let agent = r#"{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"AgentMessage","content":[{"type":"Text","text":"Done."}]}}}"#;
        assert_eq!(said(agent), [(Voice::Agent, "Done.".to_owned())]);
        let twice = r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}}"#;
        assert_eq!(said(twice), []);
    }

    /// Shows: D-12
    #[test]
    fn calls_and_results_are_told() {
        let call = r#"{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"ls\"}","call_id":"c"}}"#;
        assert_eq!(said(call), [(Voice::Call, "exec_command\nls".to_owned())]);
        let patch = r#"{"type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin"}}"#;
        assert_eq!(said(patch), [(Voice::Call, "apply_patch\n*** Begin".to_owned())]);
        let result =
            r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"a\n"}}"#;
        assert_eq!(said(result), [(Voice::Result, "a\n".to_owned())]);
        for nothing in ["\0", "{", r#"{"type":"turn_context","payload":{}}"#, r#"{"type":"event_msg","payload":7}"#] {
            assert_eq!(said(nothing), [], "{nothing}");
        }
    }
}
