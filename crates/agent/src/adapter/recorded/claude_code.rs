//! A transcript as Claude Code 2.1 writes it, without the rows that resuming does not need.

use std::path::Path;

use serde_json::{Value, json};

use cede_wire::session::NativeId;

use super::{RECORDED_AT, Story, derived, named, uuid};
use crate::adapter::claude_code::place_for;
use crate::adapter::{AgentError, Surroundings, durable};

pub(super) fn plant(
    around: &Surroundings,
    workdir: &Path,
    random: [u8; 16],
    story: &Story,
) -> Result<NativeId, AgentError> {
    let native = named(&uuid(random))?;
    let mut rows = Rows { session: native.to_string(), cwd: workdir.display().to_string(), random, lines: Vec::new() };
    for (number, turn) in story.turns.iter().enumerate() {
        let call = format!("toolu_{number}");
        rows.user(json!(turn.prompt));
        let input = json!({ "command": turn.command, "description": "run it" });
        rows.assistant(story, json!([{ "type": "tool_use", "id": call, "name": "Bash", "input": input }]), "tool_use");
        if story.cut && number + 1 == story.turns.len() {
            break;
        }
        rows.user(json!([{ "type": "tool_result", "tool_use_id": call, "content": turn.output, "is_error": false }]));
        rows.assistant(story, json!([{ "type": "text", "text": turn.answer }]), "end_turn");
    }
    let lines: String = rows.lines.iter().map(|row| format!("{row}\n")).collect();
    durable::write(&place_for(around, &native, workdir)?, lines.as_bytes())?;
    Ok(native)
}

struct Rows {
    session: String,
    cwd: String,
    random: [u8; 16],
    lines: Vec<Value>,
}

impl Rows {
    fn user(&mut self, content: Value) {
        self.row("user", json!({ "role": "user", "content": content }));
    }

    fn assistant(&mut self, story: &Story, content: Value, stop: &str) {
        let id = format!("msg_{}", self.lines.len());
        let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
        self.row(
            "assistant",
            json!({ "id": id, "type": "message", "role": "assistant", "model": story.model,
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage }),
        );
    }

    fn row(&mut self, kind: &str, message: Value) {
        let number = self.lines.len();
        let parent = number.checked_sub(1).map(|before| uuid(derived(self.random, before)));
        self.lines.push(json!({
            "parentUuid": parent, "isSidechain": false, "type": kind, "message": message,
            "uuid": uuid(derived(self.random, number)), "timestamp": RECORDED_AT, "userType": "external",
            "entrypoint": "cli", "cwd": self.cwd, "sessionId": self.session, "version": "2.1.332", "gitBranch": "main",
        }));
    }
}
