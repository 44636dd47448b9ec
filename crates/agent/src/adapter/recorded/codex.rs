//! A rollout as Codex 0.171 writes it.

use std::path::Path;

use serde_json::{Value, json};

use cede_wire::session::NativeId;

use super::{RECORDED_AT, Story, Turn, derived, named, uuid};
use crate::adapter::{AgentError, Surroundings, durable};

pub(super) fn plant(
    around: &Surroundings,
    workdir: &Path,
    random: [u8; 16],
    story: &Story,
) -> Result<NativeId, AgentError> {
    let id = uuid(random);
    let cwd = workdir.display().to_string();
    let mut records = vec![("session_meta", meta(&id, &cwd, story))];
    for (number, turn) in story.turns.iter().enumerate() {
        let cut = story.cut && number + 1 == story.turns.len();
        let turn_id = uuid(derived(random, number));
        records.extend(records_of(turn, &turn_id, &id, &cwd, story, cut, number));
    }
    let lines: String = records
        .into_iter()
        .enumerate()
        .map(|(ordinal, (kind, payload))| {
            let record = json!({ "timestamp": RECORDED_AT, "ordinal": ordinal, "type": kind, "payload": payload });
            format!("{record}\n")
        })
        .collect();
    let name = format!("sessions/2026/11/29/rollout-2026-11-29T15-34-35-{id}.jsonl");
    durable::write(&around.codex_home.join(name), lines.as_bytes())?;
    named(&id)
}

fn meta(id: &str, cwd: &str, story: &Story) -> Value {
    json!({
        "session_id": id, "id": id, "timestamp": RECORDED_AT, "cwd": cwd, "runtime_workspace_roots": [cwd],
        "originator": "codex_exec", "cli_version": "0.171.0", "source": "exec", "thread_source": "user",
        "model_provider": story.provider, "base_instructions": { "text": "You are a coding agent." },
        "history_mode": "paginated",
    })
}

fn records_of(
    turn: &Turn,
    turn_id: &str,
    thread: &str,
    cwd: &str,
    story: &Story,
    cut: bool,
    number: usize,
) -> Vec<(&'static str, Value)> {
    let call = format!("call_{turn_id}");
    let message = |role: &str, kind: &str, text: &str| {
        json!({ "type": "message", "id": format!("msg_{role}_{turn_id}"), "role": role,
            "content": [{ "type": kind, "text": text }] })
    };
    let completed = |item: Value| {
        json!({ "type": "item_completed", "thread_id": thread, "turn_id": turn_id, "item": item,
            "started_at_ms": 1, "completed_at_ms": 1 })
    };
    let user = json!({ "type": "UserMessage", "id": format!("user_{number}"),
        "content": [{ "type": "text", "text": turn.prompt, "text_elements": [] }] });
    let agent = json!({ "type": "AgentMessage", "id": format!("agent_{number}"),
        "content": [{ "type": "Text", "text": turn.answer }] });
    let arguments = json!({ "cmd": turn.command }).to_string();
    let mut records = vec![
        (
            "event_msg",
            json!({ "type": "task_started", "turn_id": turn_id, "root_turn_id": turn_id,
            "started_at": 1_795_966_475, "model_context_window": 258_400, "collaboration_mode_kind": "default" }),
        ),
        (
            "turn_context",
            json!({ "turn_id": turn_id, "root_turn_id": turn_id, "cwd": cwd, "approval_policy": "never",
            "model": story.model, "summary": "none", "sandbox_policy": { "type": "danger-full-access" } }),
        ),
        ("response_item", message("user", "input_text", &turn.prompt)),
        ("event_msg", completed(user)),
        (
            "response_item",
            json!({ "type": "function_call", "id": format!("fc_{turn_id}"), "name": "exec_command",
            "arguments": arguments, "call_id": call }),
        ),
    ];
    if !cut {
        records.extend([
            ("response_item", json!({ "type": "function_call_output", "call_id": call, "output": turn.output })),
            ("event_msg", completed(agent)),
            ("response_item", message("assistant", "output_text", &turn.answer)),
            (
                "event_msg",
                json!({ "type": "task_complete", "turn_id": turn_id, "root_turn_id": turn_id,
                "last_agent_message": turn.answer }),
            ),
        ]);
    }
    records
}
