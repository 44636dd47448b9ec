//! The three ways in which agents talk to models.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{begin, event, reply};
use super::{Conversation, Move, Step};

/// A protocol, known by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Codex: responses.
    Responses,
    /// OpenCode: chat completions.
    Chat,
    /// Claude Code: messages.
    Messages,
}

/// The protocol of a path.
pub fn of(path: &str) -> Option<Protocol> {
    let known =
        [("/responses", Protocol::Responses), ("/chat/completions", Protocol::Chat), ("/messages", Protocol::Messages)];
    known.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, protocol)| protocol)
}

impl Protocol {
    /// Answers a request.
    pub fn answer(self, stream: &mut TcpStream, body: &Value, number: u64) -> io::Result<()> {
        match self {
            Self::Responses => responses(stream, body, number),
            Self::Chat => chat(stream, body, number),
            Self::Messages => messages(stream, body, number),
        }
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a content: a string or a list of blocks. What the agent added stands in blocks of its own.
fn said(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block.get("text")?.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}

fn speaker(role: &str, content: &Value) -> Vec<Step> {
    match role {
        "user" => said(content).into_iter().map(Step::User).collect(),
        "assistant" => vec![Step::Assistant],
        _ => Vec::new(),
    }
}

fn result(content: &Value) -> Step {
    Step::Result(said(content).join("\n"))
}

/// Keeps the line open for as long as the answer takes.
fn pause(stream: &mut TcpStream, long: Duration) -> io::Result<()> {
    let end = Instant::now() + long;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200).min(long));
        stream.write_all(b": wait\n\n")?;
    }
    Ok(())
}

fn halves(text: &str) -> (&str, &str) {
    text.split_at_checked(7).unwrap_or((text, ""))
}

// Codex.

fn responses(stream: &mut TcpStream, body: &Value, number: u64) -> io::Result<()> {
    let mut conversation = Conversation::default();
    for item in list(body, "input") {
        match word(item, "type") {
            "message" | "" => {
                conversation.steps.extend(speaker(word(item, "role"), item.get("content").unwrap_or(&Value::Null)));
            }
            kind if kind.ends_with("_call") => conversation.steps.push(Step::Call),
            kind if kind.ends_with("_call_output") => {
                conversation.steps.push(result(item.get("output").unwrap_or(&Value::Null)));
            }
            _ => {}
        }
    }
    let mut group = None;
    let next = {
        for tool in list(body, "tools") {
            conversation.tools.insert(word(tool, "name").to_owned());
            conversation.tools.extend(list(tool, "tools").iter().map(|inner| word(inner, "name").to_owned()));
        }
        conversation.next(number)
    };
    if let Move::Call { tool, .. } = &next {
        let holds = |outer: &&Value| list(outer, "tools").iter().any(|inner| word(inner, "name") == tool);
        group = list(body, "tools").iter().find(holds).map(|outer| word(outer, "name"));
    }
    let id = format!("resp_lab{number}");
    begin(stream)?;
    event(
        stream,
        &json!({ "type": "response.created", "response": { "id": id, "status": "in_progress", "output": [] } }),
    )?;
    let item = match next {
        Move::Call { tool, arguments } => {
            let mut item = json!({ "type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
                "name": tool, "arguments": arguments.to_string() });
            if let (Some(group), Some(item)) = (group, item.as_object_mut()) {
                item.insert("namespace".to_owned(), json!(group));
            }
            item
        }
        Move::Say { text, pause: long } => {
            let message = format!("msg_lab{number}");
            let item = |content: Value| json!({ "type": "message", "id": message, "role": "assistant", "status": "completed", "content": content });
            event(
                stream,
                &json!({ "type": "response.output_item.added", "output_index": 0, "item": item(json!([])) }),
            )?;
            let (first, second) = halves(&text);
            let delta = |part: &str| json!({ "type": "response.output_text.delta", "item_id": message, "output_index": 0, "content_index": 0, "delta": part });
            event(stream, &delta(first))?;
            pause(stream, long)?;
            event(stream, &delta(second))?;
            item(json!([{ "type": "output_text", "text": text, "annotations": [] }]))
        }
    };
    event(stream, &json!({ "type": "response.output_item.done", "output_index": 0, "item": item }))?;
    let usage = json!({ "input_tokens": 9, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": 4,
        "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 13 });
    event(
        stream,
        &json!({ "type": "response.completed",
        "response": { "id": id, "status": "completed", "output": [item], "usage": usage } }),
    )
}

// OpenCode.

fn chat(stream: &mut TcpStream, body: &Value, number: u64) -> io::Result<()> {
    let mut conversation = Conversation::default();
    for message in list(body, "messages") {
        conversation.steps.extend(speaker(word(message, "role"), message.get("content").unwrap_or(&Value::Null)));
        conversation.steps.extend(list(message, "tool_calls").iter().map(|_| Step::Call));
        if word(message, "role") == "tool" {
            conversation.steps.push(result(message.get("content").unwrap_or(&Value::Null)));
        }
    }
    let named = |tool: &Value| tool.pointer("/function/name").and_then(Value::as_str).map(str::to_owned);
    conversation.tools.extend(list(body, "tools").iter().filter_map(named));
    let id = format!("chatcmpl-lab{number}");
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({ "id": id, "object": "chat.completion.chunk", "created": 1, "model": "lab-model",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
    };
    begin(stream)?;
    match conversation.next(number) {
        Move::Call { tool, arguments } => {
            let call = json!({ "index": 0, "id": format!("call_{number}"), "type": "function",
                "function": { "name": tool, "arguments": arguments.to_string() } });
            event(stream, &chunk(json!({ "role": "assistant", "content": null, "tool_calls": [call] }), None))?;
            event(stream, &chunk(json!({}), Some("tool_calls")))?;
        }
        Move::Say { text, pause: long } => {
            let (first, second) = halves(&text);
            event(stream, &chunk(json!({ "role": "assistant", "content": first }), None))?;
            pause(stream, long)?;
            event(stream, &chunk(json!({ "content": second }), None))?;
            event(stream, &chunk(json!({}), Some("stop")))?;
        }
    }
    let usage = json!({ "prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13 });
    event(
        stream,
        &json!({ "id": id, "object": "chat.completion.chunk", "created": 1, "model": "lab-model", "choices": [], "usage": usage }),
    )?;
    stream.write_all(b"data: [DONE]\n\n")
}

// Claude Code.

fn messages(stream: &mut TcpStream, body: &Value, number: u64) -> io::Result<()> {
    let mut conversation = Conversation::default();
    for message in list(body, "messages") {
        let content = message.get("content").unwrap_or(&Value::Null);
        conversation.steps.extend(speaker(word(message, "role"), content));
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        conversation.steps.extend(blocks.iter().filter(|block| word(block, "type") == "tool_use").map(|_| Step::Call));
        let results = blocks.iter().filter(|block| word(block, "type") == "tool_result");
        conversation.steps.extend(results.map(|block| result(block.get("content").unwrap_or(&Value::Null))));
    }
    conversation.tools.extend(list(body, "tools").iter().map(|tool| word(tool, "name").to_owned()));
    let usage = json!({ "input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 4 });
    let message = |content: Value, stop: Option<&str>| {
        json!({ "id": format!("msg_lab{number}"), "type": "message", "role": "assistant", "model": body.get("model"),
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage })
    };
    let next = conversation.next(number);
    let (block, stop) = match &next {
        Move::Call { tool, arguments } => (
            json!({ "type": "tool_use", "id": format!("toolu_lab{number}"), "name": tool, "input": arguments }),
            "tool_use",
        ),
        Move::Say { text, .. } => (json!({ "type": "text", "text": text }), "end_turn"),
    };
    if body.get("stream").and_then(Value::as_bool) != Some(true) {
        return reply(stream, 200, &message(json!([block]), Some(stop)));
    }
    begin(stream)?;
    event(stream, &json!({ "type": "message_start", "message": message(json!([]), None) }))?;
    let start = |block: Value| json!({ "type": "content_block_start", "index": 0, "content_block": block });
    let delta = |delta: Value| json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    match next {
        Move::Call { tool, arguments } => {
            event(
                stream,
                &start(json!({ "type": "tool_use", "id": format!("toolu_lab{number}"), "name": tool, "input": {} })),
            )?;
            event(stream, &delta(json!({ "type": "input_json_delta", "partial_json": arguments.to_string() })))?;
        }
        Move::Say { text, pause: long } => {
            event(stream, &start(json!({ "type": "text", "text": "" })))?;
            let (first, second) = halves(&text);
            event(stream, &delta(json!({ "type": "text_delta", "text": first })))?;
            pause(stream, long)?;
            event(stream, &delta(json!({ "type": "text_delta", "text": second })))?;
        }
    }
    event(stream, &json!({ "type": "content_block_stop", "index": 0 }))?;
    event(
        stream,
        &json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": 4 } }),
    )?;
    event(stream, &json!({ "type": "message_stop" }))
}
