//! What the programs print: one JSON value a line, of which three things count: the last message, what is done, the cost.

use serde_json::Value;

use super::limits::{ANSWER_BYTES, PROGRESS_CHARS};

/// What was understood of a program's output.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Said {
    /// The last message.
    pub(super) answer: String,
    /// The end of what is no JSON: a program that fails early says why in plain words.
    plain: String,
    /// What it cost, in dollars.
    pub(super) cost: Option<f64>,
    /// How many turns it took, where the program says so or each of them can be told apart.
    pub(super) turns: Option<u32>,
    /// The program itself says that it failed.
    pub(super) failed: bool,
    /// Why, in its words.
    pub(super) why: String,
}

impl Said {
    /// Takes a line, and says what a person would see of it.
    pub(super) fn line(&mut self, line: &[u8]) -> Option<String> {
        match serde_json::from_slice::<Value>(line) {
            Ok(value) if value.is_object() => self.event(&value),
            Ok(_) | Err(_) => {
                let text = String::from_utf8_lossy(line);
                self.plain.push_str(&text);
                self.plain.push('\n');
                if self.plain.len() > 4 * ANSWER_BYTES {
                    keep_end(&mut self.plain, 2 * ANSWER_BYTES);
                }
                shown(&text)
            }
        }
    }

    /// The last message, or the end of what it printed.
    pub(super) fn into_answer(mut self) -> String {
        if self.answer.is_empty() {
            self.answer = self.plain.trim_end().to_owned();
        }
        if self.answer.len() > ANSWER_BYTES {
            keep_end(&mut self.answer, ANSWER_BYTES - ONLY_THE_END.len());
            self.answer.insert_str(0, ONLY_THE_END);
        }
        self.answer
    }

    fn event(&mut self, event: &Value) -> Option<String> {
        match kind(event) {
            // Claude Code.
            "assistant" => self.claude_message(event),
            "result" => {
                if let Some(text) = event.get("result").and_then(Value::as_str) {
                    self.answer = text.to_owned();
                }
                let turns = event.get("num_turns").and_then(Value::as_u64);
                self.turns = turns.and_then(|turns| u32::try_from(turns).ok()).or(self.turns);
                self.cost = event.get("total_cost_usd").and_then(Value::as_f64).or(self.cost);
                self.failed |= event.get("is_error").and_then(Value::as_bool).unwrap_or_default();
                if let Some(Value::Array(errors)) = event.get("errors") {
                    let errors: Vec<&str> = errors.iter().filter_map(Value::as_str).collect();
                    self.why = errors.join("; ");
                }
                None
            }
            // Codex.
            "item.started" | "item.completed" => self.codex_item(event.get("item")?),
            "turn.failed" => {
                self.failed = true;
                let text = event.get("error").and_then(|error| error.get("message")).and_then(Value::as_str)?;
                self.why = text.to_owned();
                shown(text)
            }
            // OpenCode.
            "text" => {
                let text = event.get("part").and_then(|part| part.get("text")).and_then(Value::as_str)?;
                self.answer = text.to_owned();
                shown(text)
            }
            "tool_use" => {
                let part = event.get("part")?;
                let title = part.get("state").and_then(|state| state.get("title")).and_then(Value::as_str);
                let tool = part.get("tool").and_then(Value::as_str).unwrap_or("tool");
                shown(&format!("{tool} {}", title.unwrap_or_default()))
            }
            "step_finish" => {
                self.turns = Some(self.turns.unwrap_or_default().saturating_add(1));
                let cost = event.get("part").and_then(|part| part.get("cost")).and_then(Value::as_f64);
                self.cost = cost.map(|cost| cost + self.cost.unwrap_or_default()).or(self.cost);
                None
            }
            "error" => self.error(event),
            _ => None,
        }
    }

    /// Codex says so while it tries again, and `turn.failed` when it gives up; OpenCode only when it gives up.
    fn error(&mut self, event: &Value) -> Option<String> {
        if let Some(text) = event.get("message").and_then(Value::as_str) {
            return shown(text);
        }
        self.failed = true;
        let error = event.get("error")?;
        let text = error.get("data").and_then(|data| data.get("message")).or(error.get("name"));
        self.why = text.and_then(Value::as_str)?.to_owned();
        shown(&self.why)
    }

    fn claude_message(&mut self, event: &Value) -> Option<String> {
        let content = event.get("message")?.get("content")?.as_array()?;
        let mut line = None;
        for part in content {
            if let Some(text) = part.get("text").and_then(Value::as_str) {
                self.answer = text.to_owned();
                line = shown(text).or(line);
            }
            if kind(part) == "tool_use" {
                let tool = part.get("name").and_then(Value::as_str).unwrap_or("tool");
                let what = part.get("input").map(Value::to_string).unwrap_or_default();
                line = shown(&format!("{tool} {what}")).or(line);
            }
        }
        line
    }

    fn codex_item(&mut self, item: &Value) -> Option<String> {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        match kind(item) {
            "agent_message" => {
                self.answer = text("text")?.to_owned();
                shown(&self.answer)
            }
            "command_execution" => shown(text("command")?),
            other => shown(other),
        }
    }
}

fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// One line, short. Whoever shows it escapes it.
fn shown(text: &str) -> Option<String> {
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(PROGRESS_CHARS).collect())
}

/// Whoever reads it is not to take it for all.
const ONLY_THE_END: &str = "[cede: the beginning was not kept]\n";

/// The end of a long text counts: agents sum up last.
fn keep_end(text: &mut String, most: usize) {
    text.drain(..text.ceil_char_boundary(text.len().saturating_sub(most)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> (Said, Vec<String>) {
        let mut said = Said::default();
        let shown = lines.iter().filter_map(|line| said.line(line.as_bytes())).collect();
        (said, shown)
    }

    #[test]
    fn last_message_and_cost_of_each_agent_are_found() {
        let (claude, shown) = said(&[
            r#"{"type":"system","subtype":"init"}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I look"},{"type":"tool_use","name":"Read","input":{"a":1}}]}}"#,
            r#"{"type":"result","result":"all green","is_error":false,"num_turns":2,"total_cost_usd":0.25}"#,
        ]);
        assert_eq!((claude.cost, claude.turns, claude.failed), (Some(0.25), Some(2), false));
        assert_eq!((claude.into_answer().as_str(), shown), ("all green", vec![r#"Read {"a":1}"#.to_owned()]));
        let (codex, shown) = said(&[
            r#"{"type":"item.started","item":{"type":"command_execution","command":"ls"}}"#,
            r#"{"type":"item.completed","item":{"type":"agent_message","text":"done\nwell"}}"#,
        ]);
        assert_eq!((codex.into_answer().as_str(), shown), ("done\nwell", vec!["ls".to_owned(), "well".to_owned()]));
        let (open, _) = said(&[
            r#"{"type":"text","part":{"text":"fine"}}"#,
            r#"{"type":"step_finish","part":{"cost":0.5}}"#,
            r#"{"type":"step_finish","part":{"cost":0.25}}"#,
        ]);
        assert_eq!((open.cost, open.turns, open.into_answer().as_str()), (Some(0.75), Some(2), "fine"));
    }

    /// Shows: E-7
    #[test]
    fn plain_words_are_an_answer_and_a_long_one_is_cut_to_its_end() {
        let (plain, shown) = said(&["no such model", "", "error"]);
        assert_eq!((plain.into_answer().as_str(), shown.len()), ("no such model\n\nerror", 2));
        let long = "é".repeat(ANSWER_BYTES);
        let (long, shown) = said(&[&format!("{long} the end")]);
        let answer = long.into_answer();
        assert!(answer.len() <= ANSWER_BYTES && answer.ends_with("the end") && answer.starts_with(ONLY_THE_END));
        assert_eq!(shown[0].chars().count(), PROGRESS_CHARS);
    }

    #[test]
    fn failure_of_each_agent_is_one_and_says_why() {
        let (claude, _) = said(&[
            r#"{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (1)"]}"#,
        ]);
        assert_eq!((claude.failed, claude.why.as_str()), (true, "Reached maximum number of turns (1)"));
        let (codex, shown) = said(&[
            r#"{"type":"error","message":"Reconnecting... waiting for network"}"#,
            r#"{"type":"turn.failed","error":{"message":"no such model here"}}"#,
        ]);
        assert_eq!((codex.failed, codex.why.as_str(), shown.len()), (true, "no such model here", 2));
        let (open, _) = said(&[
            r#"{"type":"error","error":{"name":"APIError","data":{"message":"no such model here","statusCode":400}}}"#,
        ]);
        assert_eq!((open.failed, open.why.as_str()), (true, "no such model here"));
    }

    #[test]
    fn agent_that_tried_again_did_not_fail() {
        let (codex, _) = said(&[
            r#"{"type":"error","message":"Reconnecting... waiting for network"}"#,
            r#"{"type":"item.completed","item":{"type":"agent_message","text":"done"}}"#,
        ]);
        assert_eq!((codex.failed, codex.into_answer().as_str()), (false, "done"));
    }

    #[test]
    fn nonsense_is_no_message() {
        let (mut nonsense, _) = said(&["[1]", "{}", r#"{"type":7}"#, r#"{"type":"assistant","message":[]}"#, "{"]);
        assert_eq!(nonsense.line(b"\xff\xfe"), Some("\u{fffd}\u{fffd}".to_owned()));
        assert_eq!((nonsense.cost, nonsense.failed), (None, false));
    }
}
