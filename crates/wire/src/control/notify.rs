//! How a person is called when a question waits.

use serde::{Deserialize, Serialize};

use super::ApprovalSummary;
use crate::member::Capability;

/// Name and version of what is given to a person's own programs.
pub const NOTICE_SCHEMA: &str = "cede.notice/1";

/// A way to call the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Sink {
    /// The notifications of the desktop.
    Desktop,
    /// A program; the notice is on its standard input.
    Command {
        /// The program and its arguments, for no shell.
        argv: Vec<String>,
    },
    /// An address to which the notice is posted.
    Webhook {
        /// The address, which may be a secret.
        url: String,
    },
    /// A topic of an ntfy server.
    Ntfy {
        /// The topic's address, which may be a secret.
        url: String,
        /// Its calls show the whole question and have buttons that answer it.
        #[serde(default)]
        buttons: bool,
    },
}

impl Sink {
    /// What kind it is, in one word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Command { .. } => "command",
            Self::Webhook { .. } => "webhook",
            Self::Ntfy { .. } => "ntfy",
        }
    }
}

/// What is asked about the ways to call the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum NotifyRequest {
    /// All of them.
    List,
    /// One more.
    Add {
        /// What it is called; none takes its kind.
        name: Option<String>,
        /// What it is.
        sink: Sink,
    },
    /// One less.
    Remove {
        /// Its name.
        name: String,
    },
    /// Calls the person now, once.
    Test {
        /// Its name; none means all.
        name: Option<String>,
    },
}

/// A way to call the person, in lists. It says no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkSummary {
    /// Its name.
    pub name: String,
    /// `desktop`, `command`, `webhook` or `ntfy`.
    pub kind: String,
    /// Where it goes: the program, or the server.
    pub place: String,
    /// `untried`, `ok` or `failing`.
    pub state: String,
    /// Why it failed last, empty where it did not.
    pub detail: String,
    /// Calls since the daemon began that went through.
    pub told: u64,
    /// Calls that were given up or left out.
    pub failed: u64,
    /// Its calls have buttons that answer.
    #[serde(default)]
    pub buttons: bool,
}

/// A call. It holds no word of a peer but its name, which its person and this one agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// [`NOTICE_SCHEMA`].
    pub schema: String,
    /// `question` or `test`.
    pub event: String,
    /// The name of the device whose person is called.
    pub device: String,
    /// Who asks.
    pub from: String,
    /// The device that is asked, where it is another one that lets the person here answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What for: see [`ApprovalSummary::kind`].
    pub asks: String,
    /// The digits by which the question is answered.
    pub digits: String,
    /// All of it in one sentence.
    pub text: String,
    /// What shows it.
    pub look: String,
    /// What says yes.
    pub allow: String,
    /// What says no.
    pub deny: String,
    /// Seconds until it counts as a no.
    pub expires_in_s: u64,
}

impl ApprovalSummary {
    /// Who asks for what, without a word of the peer's: for places where others may look on.
    pub fn wish(&self) -> String {
        let what = match (&self.asks, self.kind.as_str()) {
            (_, "file") => "wants to send files",
            (Some(asks), _) => asks.capability.wish(),
            (None, "give") => "wants to take a session",
            (None, _) => "wants to hand a session over",
        };
        let at = self.at.as_ref().map_or_else(String::new, |at| format!(" (asked at {at})"));
        format!("{} {what}{at}", self.device)
    }
}

impl Capability {
    /// What a peer wants that asks for it.
    pub const fn wish(self) -> &'static str {
        match self {
            Self::Presence => "wants to see this device",
            Self::Message => "wants to send messages",
            Self::Delegate => "wants a task done here",
            Self::File => "wants to send a file",
            Self::Handoff => "wants to move a session",
            Self::Observe => "wants to watch sessions here",
            Self::Drive => "wants to drive sessions here",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Locality, Reach};
    use crate::control::decisions::AskedFor;
    use crate::id::{ApprovalId, Hash};
    use crate::numbers::tell_apart;

    fn question(kind: &str, asks: Option<Capability>, at: Option<&str>) -> ApprovalSummary {
        let asked = |capability| AskedFor {
            capability,
            reach: Reach::Connection,
            locality: Locality::AnotherHost,
            session: None,
            lines: Vec::new(),
            content: None,
            held: false,
            hash: Hash::of(b"shown"),
        };
        ApprovalSummary {
            id: ApprovalId::new([1; 8]),
            device: "desk".to_owned(),
            kind: kind.to_owned(),
            title: "words of the peer".to_owned(),
            agent: None,
            directory: String::new(),
            inventory: Vec::new(),
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
            limit_bytes: 0,
            expires_in_s: 0,
            turns: 0,
            secret_looking: Vec::new(),
            asks: asks.map(asked),
            files: Vec::new(),
            note: "more words of the peer".to_owned(),
            at: at.map(str::to_owned),
            held: false,
        }
    }

    #[test]
    fn call_says_who_wants_what_and_where_without_a_word_of_the_peers() {
        for (kind, asks, at, wish) in [
            ("receive", None, None, "desk wants to hand a session over"),
            ("give", None, Some("attic"), "desk wants to take a session (asked at attic)"),
            ("file", None, None, "desk wants to send files"),
            ("drive", Some(Capability::Drive), None, "desk wants to drive sessions here"),
        ] {
            assert_eq!(question(kind, asks, at).wish(), wish);
        }
        assert!(tell_apart(Capability::ALL.map(Capability::wish)));
        assert!(Capability::ALL.iter().all(|capability| capability.wish().starts_with("wants ")));
    }

    #[test]
    fn way_to_call_is_named_by_its_kind() {
        let url = || "https://example.org/topic".to_owned();
        let sinks = [
            Sink::Desktop,
            Sink::Command { argv: Vec::new() },
            Sink::Webhook { url: url() },
            Sink::Ntfy { url: url(), buttons: true },
        ];
        assert_eq!(sinks.each_ref().map(Sink::kind), ["desktop", "command", "webhook", "ntfy"]);
    }
}
