//! Small sessions of each agent, written as the agents write them: for the demonstration and for tests. The real
//! programs go on with them.

use std::path::Path;

use cede_wire::session::{AgentKind, NativeId};

use crate::adapter::files::FilesAdapter;
use crate::adapter::{AgentError, Surroundings};

mod claude_code;
mod codex;
mod opencode;

/// A conversation of one or more turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// The model provider that the session names.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The turns, oldest first.
    pub turns: Vec<Turn>,
    /// True: the last turn was cut off in the middle of its tool call.
    pub cut: bool,
}

/// A prompt, a command that the agent ran, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the person wrote.
    pub prompt: String,
    /// The shell command.
    pub command: String,
    /// What it printed.
    pub output: String,
    /// What the agent answered.
    pub answer: String,
}

impl Story {
    /// Two turns of work on a small program.
    pub fn example(provider: &str, model: &str) -> Self {
        let turn = |prompt: &str, command: &str, output: &str, answer: &str| Turn {
            prompt: prompt.to_owned(),
            command: command.to_owned(),
            output: output.to_owned(),
            answer: answer.to_owned(),
        };
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            turns: vec![
                turn(
                    "Why does the parser drop the last line?",
                    "grep -n read_line src/parse.rs",
                    "14: read_line\n",
                    "It stops at a line without a line feed.",
                ),
                turn(
                    "Fix it and add a test.",
                    "cargo test",
                    "test result: ok. 3 passed\n",
                    "Done: the last line counts, and a test shows it.",
                ),
            ],
            cut: false,
        }
    }
}

/// Writes a session into an agent's store, as if the agent had worked in `workdir`. `random` becomes its id.
///
/// # Errors
/// [`AgentError`]; a part of it may be written. OpenCode imports its own where it is installed.
pub fn plant(
    agent: AgentKind,
    surroundings: &Surroundings,
    workdir: &Path,
    random: [u8; 16],
    story: &Story,
) -> Result<NativeId, AgentError> {
    match agent {
        AgentKind::Files => FilesAdapter::new(surroundings).adopt(workdir, random),
        AgentKind::Codex => codex::plant(surroundings, workdir, random, story),
        AgentKind::ClaudeCode => claude_code::plant(surroundings, workdir, random, story),
        AgentKind::OpenCode => opencode::plant(surroundings, workdir, random, story),
        AgentKind::Terminal => Err(AgentError::BadArrival("a terminal keeps no conversation".to_owned())),
    }
}

/// Does for a recorded session what `opencode` does with these arguments (`export`, `import`, `session delete`), and
/// returns what it prints: for the demonstration on a machine without OpenCode. Never asked for by an adapter itself.
///
/// # Errors
/// [`AgentError`]; nothing changed.
pub fn answer_as_opencode(
    surroundings: &Surroundings,
    workdir: &Path,
    arguments: &[&str],
) -> Result<String, AgentError> {
    opencode::StandIn::answer(surroundings, workdir, arguments)
}

/// When the recorded sessions were recorded.
const RECORDED_AT: &str = "2026-11-29T15:34:35.771Z";
const RECORDED_AT_UNIX_MS: u64 = 1_795_966_475_771;

fn named(text: &str) -> Result<NativeId, AgentError> {
    NativeId::parse(text).ok_or_else(|| AgentError::BadArrival(format!("not an id: {text}")))
}

/// The form of id that Codex and Claude Code use.
fn uuid(random: [u8; 16]) -> String {
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!("{}-{}-7{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

/// An id that follows from the session's and a number.
fn derived(random: [u8; 16], number: usize) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&random).update(&(number as u64).to_le_bytes());
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    id
}
