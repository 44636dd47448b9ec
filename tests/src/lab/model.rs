//! What the laboratory's model understands and answers.
//!
//! A prompt may steer it, one order a line:
//! - `TOOL <name> <json>`: call that tool; several run one after another.
//! - `SLOW <seconds>`: begin an answer and finish it later.
//! - `HANG`: begin an answer and never finish it.
//! - `REPORT`: say what the last tool answered.

mod http;
mod protocols;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use http::Request;

/// One step of a conversation, whatever protocol it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The person, or what the agent says in the person's name.
    User(String),
    /// The model.
    Assistant,
    /// The model called a tool.
    Call,
    /// A tool answered.
    Result(String),
}

/// A conversation and the tools that it offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    /// Its steps, oldest first.
    pub steps: Vec<Step>,
    /// Names of the tools; for those in a group, the group.
    pub tools: BTreeSet<String>,
}

/// What the model does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    /// Says something, after a while.
    Say {
        /// What.
        text: String,
        /// How long the second half takes.
        pause: Duration,
    },
    /// Calls a tool.
    Call {
        /// Its name.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
}

/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_secs(100_000);

impl Conversation {
    /// Decides on the next move; `number` makes answers distinct.
    pub fn next(&self, number: u64) -> Move {
        // Claude Code says so itself, after a tool was looked up.
        let own = |text: &str| text.trim_start().starts_with('<') || text == "Tool loaded.";
        let spoken = |step: &Step| matches!(step, Step::User(text) if !own(text));
        let last = self.steps.iter().rposition(spoken);
        let prompt = match last.and_then(|at| self.steps.get(at)) {
            Some(Step::User(text)) => text.as_str(),
            _ => "",
        };
        let since = || self.steps.iter().skip(last.unwrap_or(0));
        let done = since().filter(|step| **step == Step::Call).count();
        let calls = prompt.lines().filter_map(tool_order).filter(|(tool, _)| self.tools.contains(tool));
        if let Some((tool, arguments)) = calls.into_iter().nth(done) {
            return Move::Call { tool, arguments };
        }
        let result = since().rev().find_map(|step| match step {
            Step::Result(text) => Some(text),
            Step::User(_) | Step::Assistant | Step::Call => None,
        });
        if let Some(result) = result.filter(|_| prompt.lines().any(|line| line.trim() == "REPORT")) {
            return Move::Say { text: format!("Answer {number}: {result}"), pause: Duration::ZERO };
        }
        let first: String = prompt.lines().next().unwrap_or("").chars().take(60).collect();
        Move::Say { text: format!("Answer {number} to: {first}"), pause: prompt.lines().map(pause_order).sum() }
    }
}

fn tool_order(line: &str) -> Option<(String, Value)> {
    let (tool, arguments) = line.trim().strip_prefix("TOOL ")?.split_once(' ')?;
    Some((tool.to_owned(), serde_json::from_str(arguments).ok()?))
}

fn pause_order(line: &str) -> Duration {
    match line.trim() {
        "HANG" => FOR_EVER,
        line => line
            .strip_prefix("SLOW ")
            .and_then(|seconds| seconds.parse().ok())
            .map_or(Duration::ZERO, Duration::from_secs),
    }
}

/// Serves until the process ends.
pub fn serve(listener: &TcpListener, log: &Path) {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    for stream in listener.incoming().flatten() {
        let log = log.to_owned();
        std::thread::spawn(move || {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            // An agent that goes away in the middle of an answer is what some tests are about.
            let _ = answer(stream, number, &log);
        });
    }
}

fn answer(mut stream: TcpStream, number: u64, log: &Path) -> io::Result<()> {
    let Some(request) = http::read(&stream)? else { return Ok(()) };
    write_down(&request, log)?;
    let path = request.path.split('?').next().unwrap_or("");
    if path.ends_with("/models") {
        let models = json!({ "object": "list", "data": [{ "id": "lab-model", "object": "model" }], "models": [] });
        return http::reply(&mut stream, 200, &models);
    }
    if path.ends_with("/count_tokens") {
        return http::reply(&mut stream, 200, &json!({ "input_tokens": 10 }));
    }
    match protocols::of(path) {
        Some(protocol) => protocol.answer(&mut stream, &request.body, number),
        None if request.method == "HEAD" => http::reply(&mut stream, 200, &json!({})),
        None => http::reply(&mut stream, 404, &json!({ "error": { "type": "not_found", "message": "no such path" } })),
    }
}

fn write_down(request: &Request, log: &Path) -> io::Result<()> {
    let line = json!({ "method": request.method, "path": request.path, "body": request.body });
    let mut file = OpenOptions::new().append(true).create(true).open(log)?;
    file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(steps: &[Step]) -> Conversation {
        Conversation { steps: steps.to_vec(), tools: ["shell".to_owned()].into() }
    }

    #[test]
    fn orders_are_carried_out_one_after_another() {
        let prompt = Step::User("do\nTOOL shell {\"a\":1}\nTOOL missing {}\nTOOL shell {\"a\":2}".to_owned());
        let first = conversation(std::slice::from_ref(&prompt)).next(1);
        assert_eq!(first, Move::Call { tool: "shell".to_owned(), arguments: json!({"a": 1}) });
        let second = conversation(&[prompt.clone(), Step::Call]).next(2);
        assert_eq!(second, Move::Call { tool: "shell".to_owned(), arguments: json!({"a": 2}) });
        let last = conversation(&[prompt, Step::Call, Step::Call]).next(3);
        assert_eq!(last, Move::Say { text: "Answer 3 to: do".to_owned(), pause: Duration::ZERO });
    }

    #[test]
    fn report_is_what_the_last_tool_of_this_prompt_answered() {
        let prompt = |text: &str| Step::User(text.to_owned());
        let result = |text: &str| Step::Result(text.to_owned());
        let steps = [prompt("first"), Step::Call, result("old"), prompt("REPORT"), Step::Call, result("new")];
        let Move::Say { text, .. } = conversation(&steps).next(4) else { panic!("not said") };
        assert_eq!(text, "Answer 4: new");
    }

    #[test]
    fn what_the_agent_adds_in_the_persons_name_gives_no_orders() {
        let added = Step::User("<environment>\nTOOL shell {}".to_owned());
        let steps = [Step::User("slowly\nSLOW 3".to_owned()), added];
        let Move::Say { text, pause } = conversation(&steps).next(1) else { panic!("not said") };
        assert_eq!((text.as_str(), pause), ("Answer 1 to: slowly", Duration::from_secs(3)));
    }
}
