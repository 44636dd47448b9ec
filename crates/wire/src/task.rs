//! Tasks: what a device asks an agent of another one to do, and how that ended. Each travels as the part of a letter.
//! Source: SPEC E-1 to E-9.

use serde::{Deserialize, Serialize};

use crate::audit::AuditOf;
use crate::canonical::{DecodeError, at_most, decode, encode};
use crate::letter::{LetterId, LetterPart};
use crate::limits;
use crate::refusal::Refusal;
use crate::session::AgentKind;

/// The variable that stands in the environment of everything that a task starts.
pub const TASK_VARIABLE: &str = "CEDE_TASK";

/// What a task may do, beside its words. Nothing else that a peer says has an effect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskScope {
    /// Where, as the asker typed it: absolute, `~/…`, or below the home directory there. None: the session's place, or an
    /// empty directory made for it.
    pub directory: Option<String>,
    /// Which agent; none: that of the session, or the only one that is installed there.
    pub agent: Option<AgentKind>,
    /// Look, and change nothing.
    pub read_only: bool,
    /// The agent's tools that may be used; empty: those that the agent has there.
    #[serde(deserialize_with = "at_most::<{ limits::TASK_TOOLS }, _, _>")]
    pub tools: Vec<String>,
    /// Turns of the agent at most.
    pub turns: Option<u32>,
    /// Minutes at most. Shape: 1 to [`limits::TASK_MINUTES`].
    pub minutes: u32,
}

/// A scope that no device takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScopeFault {
    /// There are no words.
    #[error("there is no task")]
    Empty,
    /// The words are more than a person reads through.
    #[error("the task has more than {} bytes", limits::TASK_BYTES)]
    TooLong,
    /// The time is none, or too long.
    #[error("a task has 1 to {} minutes", limits::TASK_MINUTES)]
    Minutes,
    /// The turns are none, or too many.
    #[error("a task has 1 to {} turns", limits::TASK_TURNS)]
    Turns,
    /// The directory is too long, or holds a zero byte.
    #[error("that is no directory's name")]
    Directory,
    /// A tool's name is none.
    #[error("a tool is named by 1 to {} letters, digits and _", limits::TASK_TOOL_BYTES)]
    Tool,
    /// A plain directory and a terminal have no agent.
    #[error("a plain directory or a terminal has no agent")]
    Agent,
}

impl TaskScope {
    /// Looks whether this scope, and these words, are a task at all.
    ///
    /// # Errors
    /// [`ScopeFault`].
    pub fn check(&self, words: &str) -> Result<(), ScopeFault> {
        let tool = |name: &String| {
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            (1..=limits::TASK_TOOL_BYTES).contains(&name.len()) && plain && name != "default"
        };
        let directory = |name: &String| name.len() <= limits::PATH_BYTES && !name.contains('\0') && !name.is_empty();
        match self {
            _ if words.trim().is_empty() => Err(ScopeFault::Empty),
            _ if words.len() > limits::TASK_BYTES => Err(ScopeFault::TooLong),
            Self { minutes, .. } if !(1..=limits::TASK_MINUTES).contains(minutes) => Err(ScopeFault::Minutes),
            Self { turns: Some(turns), .. } if !(1..=limits::TASK_TURNS).contains(turns) => Err(ScopeFault::Turns),
            Self { directory: Some(name), .. } if !directory(name) => Err(ScopeFault::Directory),
            Self { tools, .. } if tools.len() > limits::TASK_TOOLS || !tools.iter().all(tool) => Err(ScopeFault::Tool),
            Self { agent: Some(AgentKind::Files | AgentKind::Terminal), .. } => Err(ScopeFault::Agent),
            Self { .. } => Ok(()),
        }
    }
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskOutcome {
    /// 0: the agent ended by itself and says that it worked.
    Done,
    /// 1: the agent ended by itself and says that it failed.
    Failed,
    /// 2: its minutes were over.
    TimedOut,
    /// 3: the asker withdrew it, or the operator there ended it.
    Cancelled,
    /// 4: the device there ended while it ran. It may have done a part; it is not done again.
    Interrupted,
    /// 5: it was not begun.
    Refused(Refusal),
}

impl TaskOutcome {
    /// The word on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::TimedOut => "timed-out",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Refused(_) => "refused",
        }
    }
}

/// The answer to a task; what the agent said last stands in the letter's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    /// How it ended.
    pub outcome: TaskOutcome,
    /// Which agent.
    pub agent: Option<AgentKind>,
    /// Where.
    pub directory: String,
    /// The exit status of the program, where it ended by itself.
    pub exit: Option<i32>,
    /// Milliseconds that it ran.
    pub took_ms: u64,
    /// What changed in the directory, at most [`limits::TASK_CHANGES_BYTES`].
    pub changes: String,
    /// What the agent says that it cost, in millionths of a dollar.
    pub cost_micro_usd: Option<u64>,
    /// Turns of the agent, where it says how many.
    pub turns: Option<u32>,
    /// Bytes that the program printed, whether they were kept or not.
    pub output_bytes: u64,
    /// Why, where it did not end well, and what helps; at most [`limits::DETAIL_CHARS`] characters.
    pub note: String,
}

/// What a letter has beside its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A task; its words are the letter's.
    Task(TaskScope),
    /// How the task ended that the letter answers.
    Result(Box<TaskResult>),
    /// A task of the sender's is withdrawn.
    Withdrawn(LetterId),
}

const TASK: u16 = 1;
const RESULT: u16 = 2;
const WITHDRAWN: u16 = 3;

impl Part {
    /// The bytes.
    pub fn to_part(&self) -> LetterPart {
        match self {
            Self::Task(scope) => LetterPart { kind: TASK, body: encode(scope) },
            Self::Result(result) => LetterPart { kind: RESULT, body: encode(&**result) },
            Self::Withdrawn(id) => LetterPart { kind: WITHDRAWN, body: encode(id) },
        }
    }

    /// Reads a part. `Ok(None)`: a kind of a later version.
    ///
    /// # Errors
    /// [`DecodeError`]; a byte more or less than the canonical ones is one.
    pub fn read(part: &LetterPart) -> Result<Option<Self>, DecodeError> {
        Ok(Some(match part.kind {
            TASK => Self::Task(decode(&part.body)?),
            RESULT => Self::Result(Box::new(decode(&part.body)?)),
            WITHDRAWN => Self::Withdrawn(decode(&part.body)?),
            _ => return Ok(None),
        }))
    }
}

/// What the journal holds of tasks. Append only; numbers in `proto/NUMBERS.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskRecord {
    /// 0: a letter of the outbox is a task. It is durable before the letter is; one without its letter says nothing.
    Asked {
        /// The letter.
        id: LetterId,
    },
    /// 1: the task was answered by this letter.
    Answered {
        /// The task.
        id: LetterId,
        /// The answer.
        by: LetterId,
    },
    /// 2: the operator said yes, and the program is about to start. It is not started again.
    Began {
        /// The task.
        id: LetterId,
        /// When, milliseconds since 1970.
        at_unix_ms: u64,
        /// How the yes is named in the record of decisions.
        of: AuditOf,
    },
    /// 3: what ran here is over, and the answer stands in the outbox; or what was asked for did not begin there.
    Ended {
        /// The task.
        id: LetterId,
        /// How.
        outcome: TaskOutcome,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{of_zeros, sentence};

    fn scope() -> TaskScope {
        TaskScope { minutes: 20, ..TaskScope::default() }
    }

    /// Shows: E-2
    #[test]
    fn byte_more_than_a_scope_has_is_refused() {
        let part = Part::Task(TaskScope { read_only: true, ..scope() }).to_part();
        assert_eq!(Part::read(&part), Ok(Some(Part::Task(TaskScope { read_only: true, ..scope() }))));
        for extra in [&[0][..], &[1], b"permission-mode=bypass"] {
            let mut forged = part.clone();
            forged.body.extend_from_slice(extra);
            assert!(Part::read(&forged).is_err(), "{extra:?}");
        }
        let later = LetterPart { kind: 77, body: vec![1, 2, 3] };
        assert_eq!(Part::read(&later), Ok(None));
    }

    /// Shows: E-2
    #[test]
    fn scope_that_cannot_be_held_to_is_no_scope() {
        assert_eq!(scope().check("run the tests"), Ok(()));
        assert_eq!(scope().check(" \n"), Err(ScopeFault::Empty));
        assert_eq!(scope().check(&"x".repeat(limits::TASK_BYTES + 1)), Err(ScopeFault::TooLong));
        for minutes in [0, limits::TASK_MINUTES + 1] {
            assert_eq!(TaskScope { minutes, ..scope() }.check("x"), Err(ScopeFault::Minutes));
        }
        assert_eq!(TaskScope { turns: Some(0), ..scope() }.check("x"), Err(ScopeFault::Turns));
        for tool in ["", "default", "Bash(rm *)", "--dangerously-skip-permissions", "a,b"] {
            assert_eq!(TaskScope { tools: vec![tool.into()], ..scope() }.check("x"), Err(ScopeFault::Tool), "{tool}");
        }
        assert_eq!(TaskScope { directory: Some("a\0b".into()), ..scope() }.check("x"), Err(ScopeFault::Directory));
        for agent in [AgentKind::Files, AgentKind::Terminal] {
            assert_eq!(TaskScope { agent: Some(agent), ..scope() }.check("x"), Err(ScopeFault::Agent));
        }
    }

    #[test]
    fn question_about_the_longest_task_can_be_shown() {
        let most = limits::TASK_BYTES
            + limits::PATH_BYTES
            + limits::TASK_TOOLS * (limits::TASK_TOOL_BYTES + 2)
            + limits::DETAIL_CHARS;
        assert!(most <= limits::SUBJECT_BYTES, "{most}");
    }

    /// Shows: E-2
    #[test]
    fn scope_is_one_up_to_its_bounds() {
        let words = "x".repeat(limits::TASK_BYTES);
        assert_eq!(scope().check(&words), Ok(()));
        let tool = "x".repeat(limits::TASK_TOOL_BYTES);
        let path = "x".repeat(limits::PATH_BYTES);
        let minutes = |minutes| TaskScope { minutes, ..scope() };
        let turns = |turns| TaskScope { turns: Some(turns), ..scope() };
        let tools = |name: &str, count| TaskScope { tools: vec![name.to_owned(); count], ..scope() };
        let directory = |name: &str| TaskScope { directory: Some(name.to_owned()), ..scope() };
        let agent = |agent| TaskScope { agent: Some(agent), ..scope() };
        for (scope, says) in [
            (minutes(1), Ok(())),
            (minutes(limits::TASK_MINUTES), Ok(())),
            (turns(1), Ok(())),
            (turns(limits::TASK_TURNS), Ok(())),
            (turns(limits::TASK_TURNS + 1), Err(ScopeFault::Turns)),
            (tools("Web_fetch2", 1), Ok(())),
            (tools(&tool, limits::TASK_TOOLS), Ok(())),
            (tools(&tool, limits::TASK_TOOLS + 1), Err(ScopeFault::Tool)),
            (tools(&format!("{tool}x"), 1), Err(ScopeFault::Tool)),
            (directory("~/work"), Ok(())),
            (directory(&path), Ok(())),
            (directory(&format!("{path}x")), Err(ScopeFault::Directory)),
            (directory(""), Err(ScopeFault::Directory)),
            (agent(AgentKind::Codex), Ok(())),
        ] {
            assert_eq!(scope.check("x"), says);
        }
    }

    #[test]
    fn every_part_is_read_as_what_it_is() {
        let result = TaskResult {
            outcome: TaskOutcome::Refused(Refusal::Declined),
            agent: Some(AgentKind::ClaudeCode),
            directory: "/home/one".to_owned(),
            exit: Some(-1),
            took_ms: 2,
            changes: "M a".to_owned(),
            cost_micro_usd: Some(3),
            turns: Some(4),
            output_bytes: 5,
            note: "why".to_owned(),
        };
        let withdrawn: LetterId = of_zeros(1).unwrap();
        let parts = [Part::Task(scope()), Part::Result(Box::new(result)), Part::Withdrawn(withdrawn)];
        for (number, part) in (1..).zip(parts) {
            let sent = part.to_part();
            assert_eq!((sent.kind, Part::read(&sent)), (number, Ok(Some(part))));
        }
    }

    #[test]
    fn outcome_is_called_as_its_number_is() {
        let named = sentence("How a task ended");
        assert_eq!(named.len(), 6);
        for (number, name) in named {
            let word = of_zeros::<TaskOutcome>(number).unwrap().word().replace('-', " ");
            assert!(name.starts_with(&word) && !word.is_empty(), "{number}: {word}");
        }
        assert_eq!(of_zeros::<TaskOutcome>(6), None);
    }
}
