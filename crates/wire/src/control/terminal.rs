//! Hosted terminals on the control socket: what is asked, what the viewer says while it looks on, what it is told.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use serde::{Deserialize, Serialize};

use crate::conversation::{Bookmark, Piece};
use crate::id::SessionId;
use crate::session::AgentKind;

/// A command to host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The program and its arguments; none means the person's shell.
    pub words: Vec<String>,
    /// What it is called; none means its command.
    pub name: Option<String>,
    /// Where it runs, absolute.
    pub directory: String,
    /// The variables that the person's shell has of those that are passed on.
    pub environment: Vec<(String, String)>,
    /// The size of the person's terminal.
    pub size: TerminalSize,
    /// Nobody looks on: the answer is that it is hosted.
    #[serde(default)]
    pub detached: bool,
}

/// The variables of a person's shell that a hosted command gets: where things are, how text looks, who the person is. A
/// list, so that no credential ends up in a terminal that others may be allowed to drive.
const PASSED_ON: [&str; 22] = [
    "COLORFGBG",
    "COLORTERM",
    "EDITOR",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NO_COLOR",
    "PAGER",
    "PATH",
    "SHELL",
    "TERM",
    "TERM_PROGRAM",
    "TMPDIR",
    "TZ",
    "USER",
    "VISUAL",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Whether a variable is passed on to a hosted command. Source: SPEC D-2.
pub fn is_passed_on(name: &str) -> bool {
    PASSED_ON.contains(&name) || name.starts_with("LC_")
}

/// A wish to look on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewRequest {
    /// The session.
    pub session: String,
    /// Whether it also wants to type.
    pub keyboard: Keyboard,
    /// The size of the person's terminal, where there is one.
    pub size: Option<TerminalSize>,
    /// What the viewer has seen already: everything before this offset.
    pub from: Option<u64>,
    /// How far the viewer has read already, where it is a conversation.
    pub read: Option<Bookmark>,
}

/// Whether a viewer wants to type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keyboard {
    /// It only looks on.
    No,
    /// It types if nobody else does, and looks on otherwise.
    IfFree,
    /// It types, or there is nothing to see.
    Wanted,
    /// It types, whoever typed before.
    Insisted,
}

/// Rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// What a viewer says while it looks on: one line each, on the connection of its question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "viewer", rename_all = "kebab-case")]
pub enum ViewerSays {
    /// Something was typed.
    Typed {
        /// The bytes.
        bytes: Base64,
    },
    /// The person's terminal has another size.
    Resized {
        /// The size.
        size: TerminalSize,
    },
    /// The driver is there.
    Beat,
    /// It wants to type.
    Keyboard {
        /// Whoever typed before.
        insist: bool,
    },
    /// It does not want to type any more.
    LetGo,
    /// It looks on no more; the session goes on.
    Detach,
}

/// What a viewer is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "terminal", rename_all = "kebab-case")]
pub enum TerminalEvent {
    /// It looks on from here on.
    Opened {
        /// The session.
        session: SessionId,
        /// What it is called.
        title: String,
        /// The device of the terminal, where that is another one.
        device: Option<String>,
        /// Set where it is the conversation of a coding agent, which is read and not drawn.
        agent: Option<AgentKind>,
    },
    /// The device of the terminal was asked, and its operator has not answered.
    Asking {
        /// The device.
        device: String,
    },
    /// What to draw.
    Output {
        /// Set where the screen is drawn anew: how many bytes the viewer will never see.
        fresh: Option<u64>,
        /// The bytes.
        bytes: Base64,
        /// With these bytes everything before this offset was seen; none: more of the drawing follows.
        next: Option<u64>,
    },
    /// Who types, how large the terminal is, how many look on.
    State(TerminalState),
    /// The link to the device of the terminal is gone; it is looked for.
    Away {
        /// The device.
        device: String,
    },
    /// What was said in a conversation.
    Piece(Piece),
    /// Something to say to the person.
    Note {
        /// The sentence.
        text: String,
    },
}

/// Who types, how large the terminal is, how many look on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalState {
    /// Whether this viewer types.
    pub yours: bool,
    /// Who types, for people; none: nobody.
    pub driver: Option<String>,
    /// Whether only the person at the machine may type.
    pub held: bool,
    /// How many look on, the driver among them.
    pub viewers: u32,
    /// The size that the program has.
    pub size: TerminalSize,
}

/// A hosted terminal in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSummary {
    /// The command.
    pub command: String,
    /// Its process.
    pub pid: u32,
    /// Who types, for people; none: nobody.
    pub driver: Option<String>,
    /// Whether only the person at the machine may type.
    pub held: bool,
    /// How many look on, the driver among them.
    pub viewers: u32,
}

/// Why a viewer looks on no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalEnd {
    /// The session.
    pub session: SessionId,
    /// Whether the session goes on.
    pub goes_on: bool,
    /// The code with which the command ended, where it did so by itself.
    pub code: Option<i32>,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
    /// In one sentence.
    pub text: String,
}

/// Bytes in a line of text. Source: RFC 4648, section 4.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Base64(pub Vec<u8>);

impl From<Base64> for String {
    fn from(bytes: Base64) -> Self {
        STANDARD.encode(&bytes.0)
    }
}

impl TryFrom<String> for Base64 {
    type Error = DecodeError;

    fn try_from(text: String) -> Result<Self, DecodeError> {
        STANDARD.decode(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text_and_bytes_again() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("ab", "YWI="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(String::from(Base64(bytes.into())), text);
            assert_eq!(Base64::try_from(text.to_owned()), Ok(Base64(bytes.into())));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(Base64::try_from(String::from(Base64(all.clone()))), Ok(Base64(all)));
    }

    #[test]
    fn text_that_is_no_base64_is_refused() {
        for bad in ["Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm 9", "Zm9v=", "====", "Zg==Zg=="] {
            assert!(Base64::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    /// Shows: D-2
    #[test]
    fn variable_is_passed_on_by_its_whole_name_only() {
        for name in ["PATH", "HOME", "TERM", "LC_ALL", "LC_TIME"] {
            assert!(is_passed_on(name), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "PATHS", "path", "MY_LC_ALL", "LC", ""] {
            assert!(!is_passed_on(name), "{name}");
        }
    }
}
