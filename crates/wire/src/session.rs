//! A session as people and devices name it.

use serde::{Deserialize, Serialize};

use crate::id::SessionId;

/// The program whose session it is. Numbers: `proto/NUMBERS.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentKind {
    /// 0: a plain directory that a person named as a session.
    Files,
    /// 1: Codex CLI.
    Codex,
    /// 2: Claude Code.
    ClaudeCode,
    /// 3: OpenCode.
    OpenCode,
    /// 4: no agent: a command in a terminal that the daemon hosts.
    Terminal,
}

impl AgentKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 5] = [Self::Files, Self::Codex, Self::ClaudeCode, Self::OpenCode, Self::Terminal];

    /// The name in commands and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Codex => "codex",
            Self::ClaudeCode => "claude-code",
            Self::OpenCode => "opencode",
            Self::Terminal => "terminal",
        }
    }
}

/// The id that the agent itself gave the session.
/// It becomes part of file names, so what does not parse does not decode either.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NativeId(String);

impl NativeId {
    /// Accepts what every agent uses: 1 to 128 of `A-Z a-z 0-9 _ -`, not beginning with `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=128).contains(&text.len()) && !text.starts_with('-');
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        (fits && plain).then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NativeId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a native id is 1 to 128 of A-Z a-z 0-9 _ -")
    }
}

impl From<NativeId> for String {
    fn from(native: NativeId) -> Self {
        native.0
    }
}

impl core::fmt::Display for NativeId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An agent and its own id for the session: what [`SessionId`] is derived from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// The agent.
    pub agent: AgentKind,
    /// The agent's id.
    pub native: NativeId,
}

impl SessionKey {
    /// The id of the session on every device.
    pub fn id(&self) -> SessionId {
        let mut hasher = blake3::Hasher::new_derive_key("cede/1 session id");
        hasher.update(self.agent.name().as_bytes());
        hasher.update(&[0]);
        hasher.update(self.native.as_str().as_bytes());
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        SessionId::new(id)
    }
}

/// What the agent is doing with the session, and how we know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
    /// 0: no process has it open and the last turn ended.
    Idle {
        /// The evidence, for people: "no writer lock, last turn complete".
        evidence: String,
    },
    /// 1: a process has it open and waits for input.
    Open {
        /// The process.
        pid: u32,
        /// The evidence.
        evidence: String,
    },
    /// 2: a model or tool call is in flight.
    Busy {
        /// The process, where it is known.
        pid: Option<u32>,
        /// The evidence.
        evidence: String,
    },
    /// 3: the last turn was cut off (a crash); a tool call may have had effects that nobody recorded.
    Interrupted {
        /// The evidence.
        evidence: String,
    },
}

/// A session as the adapter describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Agent and native id.
    pub key: SessionKey,
    /// First prompt or given name, at most 120 characters, control characters removed.
    pub title: String,
    /// The working directory, as text for people and for looking the session up; absolute.
    pub directory: String,
    /// Number of user turns.
    pub turns: u64,
    /// Bytes of the conversation on disk, closure included.
    pub bytes: u64,
    /// The agent's version that last wrote it.
    pub version: String,
    /// Last change, milliseconds since 1970.
    pub updated_unix_ms: u64,
    /// Busy or idle.
    pub activity: Activity,
}

/// What a destination needs before the session can go on there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// The agent.
    pub agent: AgentKind,
    /// Oldest version of the agent that can go on with this session, as `major.minor.patch`; empty for none.
    pub version: String,
    /// The model provider that the session names, where it names one.
    pub provider: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::{decode, encode};
    use crate::numbers::{of_zeros, table};

    /// Shows: T-4
    #[test]
    fn native_id_that_is_a_path_does_not_decode() {
        for bad in ["../../x", "a/b", "", "-rf", "a b", "a\0b", &"x".repeat(129)] {
            assert!(decode::<NativeId>(&encode(&bad.to_owned())).is_err(), "{bad:?}");
        }
        let good = NativeId::parse("ses_dd80-e25A").unwrap();
        assert_eq!(decode::<NativeId>(&encode(&good)), Ok(good));
    }

    #[test]
    fn native_id_is_up_to_128_plain_characters() {
        for good in ["a", "Z9", "_-", &"x".repeat(128)] {
            let native = NativeId::parse(good).unwrap();
            assert_eq!((native.as_str(), native.to_string().as_str()), (good, good));
            assert_eq!(encode(&native), encode(&good.to_owned()));
        }
    }

    #[test]
    fn agent_is_called_as_its_number_is() {
        let table = table("Agents");
        assert_eq!(AgentKind::ALL.len(), table.len());
        for ((number, name), agent) in table.into_iter().zip(AgentKind::ALL) {
            assert_eq!((of_zeros(number), agent.name()), (Some(agent), name));
        }
        assert_eq!(of_zeros::<AgentKind>(AgentKind::ALL.len() as u16), None);
    }

    /// The id follows from the agent and its id alone, and neither runs into the other.
    #[test]
    fn sessions_of_other_agents_or_ids_are_others() {
        let keys = AgentKind::ALL.map(|agent| ["a", "b", "ab"].map(|text| (agent, NativeId::parse(text).unwrap())));
        let ids = keys.into_iter().flatten().map(|(agent, native)| SessionKey { agent, native }.id());
        assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 15);
    }
}
