//! What is said in a session of a coding agent, as whoever looks on is told.

use serde::{Deserialize, Serialize};

use crate::limits::{SAID_AT_ONCE, SAID_BYTES};

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Voice {
    /// 0: the person.
    Person,
    /// 1: the agent.
    Agent,
    /// 2: the agent calls a tool.
    Call,
    /// 3: a tool answers.
    Result,
    /// 4: the agent's program remarks something: an interruption, a picture.
    Remark,
}

/// One thing that was said, as the agent's store holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who says it.
    pub voice: Voice,
    /// The words, at most [`SAID_BYTES`].
    pub text: String,
    /// Bytes that were left out behind them.
    pub left_out: u64,
}

impl Said {
    /// These words, as far as there is room.
    pub fn new(voice: Voice, text: &str) -> Self {
        let mut room = text.len().min(SAID_BYTES);
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        let (kept, rest) = text.split_at(room);
        Self { voice, text: kept.to_owned(), left_out: rest.len() as u64 }
    }
}

/// How far somebody has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmark {
    /// The place, as the adapter counts: bytes of a file, parts of a conversation.
    pub at: u64,
    /// What stands before the place, in short: where something else stands there, the bookmark is of another conversation.
    pub before: u64,
}

/// What a viewer does not see of what was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// 0: the conversation is longer than what is shown of it to one who comes.
    Earlier,
    /// 1: more was said than is told at once, and the middle is left out.
    Behind,
    /// 2: what the viewer has read is not what stands there now.
    Rewritten,
}

/// A piece of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Set where something before it is not shown.
    pub gap: Option<Gap>,
    /// What was said, oldest first; at most [`SAID_AT_ONCE`].
    pub said: Vec<Said>,
    /// Where to go on.
    pub next: Bookmark,
}

impl Piece {
    /// Bytes that count against a viewer's window.
    pub fn weight(&self) -> u64 {
        self.said.iter().map(|said| said.text.len() as u64 + 16).sum()
    }

    /// Whether it keeps to its bounds.
    pub fn fits(&self) -> bool {
        self.said.len() <= SAID_AT_ONCE && self.said.iter().all(|said| said.text.len() <= SAID_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_between_characters_and_the_rest_is_counted() {
        let long = "ü".repeat(SAID_BYTES);
        let said = Said::new(Voice::Agent, &format!("x{long}"));
        assert!(said.text.len() <= SAID_BYTES && said.text.starts_with("xü"));
        assert_eq!(said.text.len() as u64 + said.left_out, 1 + long.len() as u64);
        assert_eq!(Said::new(Voice::Person, "short").left_out, 0);
    }

    #[test]
    fn piece_keeps_to_its_bounds_and_weighs_what_it_says() {
        let piece = |count: usize, bytes: usize| {
            let said = Said { voice: Voice::Call, text: "x".repeat(bytes), left_out: 0 };
            Piece { gap: None, said: vec![said; count], next: Bookmark { at: 0, before: 0 } }
        };
        assert!(piece(SAID_AT_ONCE, SAID_BYTES).fits());
        assert!(!piece(SAID_AT_ONCE + 1, 1).fits());
        assert!(!piece(1, SAID_BYTES + 1).fits());
        assert_eq!(piece(0, 0).weight(), 0);
        assert_eq!(piece(3, 5).weight(), 3 * 5 + 3 * 16);
        // So one who is told nothing but empty words is not told without end.
        assert!(piece(3, 0).weight() > 0);
    }
}
