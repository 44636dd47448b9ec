//! An export as OpenCode 1.18 writes it, imported by OpenCode, or without it where it is not installed.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::{Value, json};

use cede_wire::session::NativeId;

use super::{RECORDED_AT_UNIX_MS, Story, Turn, named};
use crate::adapter::scratch::Scratch;
use crate::adapter::{AgentError, Surroundings, durable};

mod stand_in;

pub(super) use stand_in::StandIn;

pub(super) fn plant(
    around: &Surroundings,
    workdir: &Path,
    random: [u8; 16],
    story: &Story,
) -> Result<NativeId, AgentError> {
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let native = named(&format!("ses_{}", digits.get(..26).unwrap_or_default()))?;
    let export = export(native.as_str(), workdir, story).to_string();
    if around.find("opencode").is_none() {
        StandIn::open(around)?.import(&export, workdir)?;
        return Ok(native);
    }
    let scratch = Scratch::new(&around.state)?;
    let file = scratch.path().join("export.json");
    durable::write(&file, export.as_bytes())?;
    let arguments = [OsStr::new("import"), file.as_os_str()];
    around.run("opencode", &arguments, workdir, &scratch.path().join("said"))?;
    Ok(native)
}

fn export(session: &str, workdir: &Path, story: &Story) -> Value {
    let cwd = workdir.display().to_string();
    let title = story.turns.first().map_or("", |turn| turn.prompt.as_str());
    let mut messages = Vec::new();
    for (number, turn) in story.turns.iter().enumerate() {
        let cut = story.cut && number + 1 == story.turns.len();
        messages.extend(messages_of(turn, number as u64, session, &cwd, story, cut));
    }
    json!({
        "info": {
            "id": session, "slug": "recorded-session", "projectID": "global", "directory": cwd, "path": "",
            "title": title, "agent": "build",
            "model": { "id": story.model, "providerID": story.provider, "variant": "default" },
            "version": "1.18.33", "cost": 0, "tokens": tokens(),
            "time": { "created": RECORDED_AT_UNIX_MS, "updated": RECORDED_AT_UNIX_MS },
        },
        "messages": messages,
    })
}

fn tokens() -> Value {
    json!({ "input": 1, "output": 1, "reasoning": 0, "cache": { "read": 0, "write": 0 } })
}

fn messages_of(turn: &Turn, number: u64, session: &str, cwd: &str, story: &Story, cut: bool) -> [Value; 2] {
    let at = RECORDED_AT_UNIX_MS + number * 10_000;
    let id = |kind: &str, part: u64| format!("{kind}_{:012x}{part:014}", at + part);
    let (asked, answered) = (id("msg", 0), id("msg", 1));
    let part = |number: u64, message: &str, mut body: Value| {
        if let Some(body) = body.as_object_mut() {
            body.insert("id".to_owned(), json!(id("prt", number)));
            body.insert("sessionID".to_owned(), json!(session));
            body.insert("messageID".to_owned(), json!(message));
        }
        body
    };
    let input = json!({ "command": turn.command, "description": "run it" });
    let state = if cut {
        json!({ "status": "running", "input": input, "time": { "start": at } })
    } else {
        json!({ "status": "completed", "input": input, "output": turn.output, "title": turn.command,
            "metadata": { "output": turn.output, "exit": 0, "truncated": false }, "time": { "start": at, "end": at } })
    };
    let mut parts = vec![part(
        2,
        &answered,
        json!({ "type": "tool", "tool": "bash", "callID": format!("call_{number}"), "state": state }),
    )];
    let mut time = json!({ "created": at + 1 });
    let mut info = json!({
        "id": answered, "sessionID": session, "role": "assistant", "parentID": asked, "mode": "build", "agent": "build",
        "path": { "cwd": cwd, "root": cwd }, "cost": 0, "tokens": tokens(), "modelID": story.model,
        "providerID": story.provider,
    });
    if !cut {
        parts.push(part(
            3,
            &answered,
            json!({ "type": "text", "text": turn.answer, "time": { "start": at, "end": at } }),
        ));
        set(&mut time, "completed", json!(at + 2));
        set(&mut info, "finish", json!("stop"));
    }
    set(&mut info, "time", time);
    let question = json!({
        "info": { "id": asked, "sessionID": session, "role": "user", "time": { "created": at }, "agent": "build",
            "model": { "providerID": story.provider, "modelID": story.model }, "summary": { "diffs": [] } },
        "parts": [part(1, &asked, json!({ "type": "text", "text": turn.prompt }))],
    });
    [question, json!({ "info": info, "parts": parts })]
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(name.to_owned(), value);
    }
}
