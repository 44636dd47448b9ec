//! The hook that makes Claude Code ask, before each prompt and each tool call, whether the session still is here.
//!
//! Moving the transcript does not stop a process that has it in memory; a refused prompt does. One hook serves all
//! sessions: a small shell script that looks the session's id up among our fences.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::adapter::{AgentError, durable, text};

const EVENTS: [&str; 2] = ["UserPromptSubmit", "PreToolUse"];
const SCRIPT: &str = "cede-fence.sh";

/// Where the hook lives.
pub(super) struct Hook {
    script: PathBuf,
    settings: PathBuf,
    /// The settings' bytes from before the hook, so that its removal leaves no trace.
    before: PathBuf,
}

impl Hook {
    pub(super) fn new(home: &Path) -> Self {
        let settings = home.join("settings.json");
        Self { script: home.join(SCRIPT), before: durable::beside(&settings, "cede-before"), settings }
    }

    /// Adds the hook to what stands in the settings. True where it was not there before: a running process needs
    /// a moment to read it.
    pub(super) fn add(&self, fences: &Path) -> Result<bool, AgentError> {
        let script = script(fences);
        if std::fs::read(&self.script).ok().as_deref() != Some(script.as_bytes()) {
            durable::write(&self.script, script.as_bytes())?;
        }
        let mut settings = self.read()?;
        let mut added = false;
        for event in EVENTS {
            added |= add_to(&mut settings, event, &self.command())?;
        }
        if added {
            if durable::is_there(&self.settings)? {
                durable::copy(&self.settings, &self.before)?;
            }
            self.write(&settings)?;
        }
        Ok(added)
    }

    /// Takes the hook out again and leaves everything else as it was.
    pub(super) fn remove(&self) -> Result<(), AgentError> {
        let mut settings = self.read()?;
        let command = self.command();
        let removed = EVENTS.iter().fold(false, |removed, event| remove_from(&mut settings, event, &command) | removed);
        let before = read(&self.before)?;
        if removed && before.as_ref() == Some(&settings) {
            durable::copy(&self.before, &self.target())?;
        } else if removed && settings.is_empty() {
            durable::remove(&self.settings)?;
        } else if removed {
            self.write(&settings)?;
        }
        durable::remove(&self.before)?;
        durable::remove(&self.script)
    }

    fn command(&self) -> String {
        let script = text::quoted(&self.script);
        // A shell without its script ends with 2, which refuses every prompt of a process that still has the hook.
        format!("test ! -r {script} || sh {script}")
    }

    fn read(&self) -> Result<Map<String, Value>, AgentError> {
        read(&self.settings).map(Option::unwrap_or_default)
    }

    fn write(&self, settings: &Map<String, Value>) -> Result<(), AgentError> {
        let mut bytes = serde_json::to_vec_pretty(settings).map_err(|error| damaged(&self.settings, &error))?;
        bytes.push(b'\n');
        durable::write(&self.target(), &bytes)
    }

    /// A person may keep the settings elsewhere and link to them.
    fn target(&self) -> PathBuf {
        self.settings.canonicalize().unwrap_or_else(|_| self.settings.clone())
    }
}

fn read(file: &Path) -> Result<Option<Map<String, Value>>, AgentError> {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(durable::world("read", file, &error)),
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Some(Map::new()));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(file, &error))
}

fn damaged(file: &Path, error: &serde_json::Error) -> AgentError {
    AgentError::Damaged { what: format!("the settings do not decode: {error}"), file: file.display().to_string() }
}

/// The hook's input is one JSON object with the session's id; the first one in it counts.
fn script(fences: &Path) -> String {
    let fences = text::quoted(fences);
    format!(
        r#"#!/bin/sh
# cede: refuses a session that was handed over to another device.
id=$(tr -d '\n' | grep -o '"session_id" *: *"[A-Za-z0-9_-]*"' | head -n 1 | sed 's/.*"\([A-Za-z0-9_-]*\)"$/\1/')
fence={fences}/"$id"
if [ -n "$id" ] && [ -f "$fence" ]; then
  cat "$fence" >&2
  exit 2
fi
exit 0
"#
    )
}

fn add_to(settings: &mut Map<String, Value>, event: &str, command: &str) -> Result<bool, AgentError> {
    let shape =
        || AgentError::Damaged { what: format!("hooks.{event} is not a list"), file: "settings.json".to_owned() };
    let hooks = settings.entry("hooks").or_insert_with(|| json!({})).as_object_mut().ok_or_else(shape)?;
    let entries = hooks.entry(event).or_insert_with(|| json!([])).as_array_mut().ok_or_else(shape)?;
    if entries.iter().any(|entry| holds(entry, command)) {
        return Ok(false);
    }
    entries.push(json!({ "hooks": [{ "type": "command", "command": command }] }));
    Ok(true)
}

fn remove_from(settings: &mut Map<String, Value>, event: &str, command: &str) -> bool {
    let Some(hooks) = settings.get_mut("hooks").and_then(Value::as_object_mut) else { return false };
    let Some(entries) = hooks.get_mut(event).and_then(Value::as_array_mut) else { return false };
    let before = entries.len();
    entries.retain(|entry| !holds(entry, command));
    let removed = entries.len() < before;
    if removed && entries.is_empty() {
        hooks.remove(event);
    }
    if removed && hooks.is_empty() {
        settings.remove("hooks");
    }
    removed
}

fn holds(entry: &Value, command: &str) -> bool {
    let hooks = entry.get("hooks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    hooks.iter().any(|hook| hook.get("command").and_then(Value::as_str) == Some(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn ask(script: &Path, input: &str) -> (Option<i32>, String) {
        let mut child = Command::new("sh").arg(script).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// Shows: A-6
    #[test]
    fn fenced_session_is_refused_with_the_owners_name_and_others_are_not() {
        let place = tempfile::tempdir().unwrap();
        let fences = place.path().join("my fences");
        std::fs::create_dir(&fences).unwrap();
        std::fs::write(fences.join("s-1"), "moved to laptop\n").unwrap();
        let hook = Hook::new(place.path());
        assert!(hook.add(&fences).unwrap());
        let script = place.path().join(SCRIPT);
        assert_eq!(ask(&script, r#"{"session_id":"s-1","prompt":"x"}"#), (Some(2), "moved to laptop\n".to_owned()));
        assert_eq!(ask(&script, r#"{"session_id":"s-2","prompt":"say \"session_id\":\"s-1\""}"#).0, Some(0));
        for odd in ["", "{}", r#"{"session_id":""}"#, r#"{"session_id":"../x"}"#, "not json"] {
            assert_eq!(ask(&script, odd).0, Some(0), "{odd}");
        }
    }

    /// Shows: A-13
    #[test]
    fn settings_of_the_person_survive_the_hook() {
        let place = tempfile::tempdir().unwrap();
        let settings = place.path().join("settings.json");
        let theirs = r#"{"model": "opus",  "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "mine"}]}]}, "a": 1}"#;
        std::fs::write(&settings, theirs).unwrap();
        let hook = Hook::new(place.path());
        assert!(hook.add(place.path()).unwrap());
        assert!(!hook.add(place.path()).unwrap(), "again changes nothing");
        let with: Value = serde_json::from_slice(&std::fs::read(&settings).unwrap()).unwrap();
        assert_eq!(with["hooks"]["UserPromptSubmit"].as_array().unwrap().len(), 2);
        hook.remove().unwrap();
        assert_eq!(std::fs::read_to_string(&settings).unwrap(), theirs, "to the byte");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn settings_changed_meanwhile_keep_the_change() {
        let place = tempfile::tempdir().unwrap();
        let settings = place.path().join("settings.json");
        std::fs::write(&settings, r#"{"model":"opus"}"#).unwrap();
        let hook = Hook::new(place.path());
        hook.add(place.path()).unwrap();
        let mut with: Value = serde_json::from_slice(&std::fs::read(&settings).unwrap()).unwrap();
        with["model"] = json!("other");
        std::fs::write(&settings, with.to_string()).unwrap();
        hook.remove().unwrap();
        let after: Value = serde_json::from_slice(&std::fs::read(&settings).unwrap()).unwrap();
        assert_eq!(after, json!({"model": "other"}));
    }

    #[test]
    fn settings_that_were_not_there_are_gone_again() {
        let place = tempfile::tempdir().unwrap();
        let hook = Hook::new(place.path());
        hook.add(place.path()).unwrap();
        hook.remove().unwrap();
        hook.remove().unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn settings_that_do_not_decode_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let settings = place.path().join("settings.json");
        std::fs::write(&settings, "{ // comment").unwrap();
        assert!(matches!(Hook::new(place.path()).add(place.path()), Err(AgentError::Damaged { .. })));
        assert_eq!(std::fs::read(&settings).unwrap(), b"{ // comment");
    }
}
