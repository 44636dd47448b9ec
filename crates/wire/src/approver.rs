//! A question that is shown on another device of the same person, and the signed answer from there. Source: SPEC U-14 to U-16.

use serde::{Deserialize, Serialize};

use crate::audit::AuditOf;
use crate::authority::Shown;
use crate::canonical::{DecodeError, Signable, Signed, decode, encode};
use crate::handoff::InventoryItem;
use crate::id::{ApprovalId, DeviceId, Hash, ShowingId};
use crate::limits::POSED_BYTES;
use crate::session::AgentKind;
use crate::transfer::ShownPath;

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// 0: a session would come to the device that asks.
    Receive,
    /// 1: a session would leave it.
    Give,
    /// 2: a capability.
    Capability {
        /// Everything that the authority of the connection shows.
        shown: Box<Shown>,
        /// Kept for later by a rule.
        held: bool,
    },
}

impl Wanted {
    /// The word in lists and JSON.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Give => "give",
            Self::Capability { shown, .. } => shown.capability.name(),
        }
    }
}

/// A question with everything that a person is shown of it, wherever the person sits. Texts are the peer's own, as they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posed {
    /// The device that asks its person.
    pub at: DeviceId,
    /// The question there.
    pub question: ApprovalId,
    /// Who wants it.
    pub who: DeviceId,
    /// Which request it is in the record of the device that asks.
    pub of: AuditOf,
    /// What that record says that is shown.
    pub about: Hash,
    /// What is wanted.
    pub wants: Wanted,
    /// The session's title; of a capability, what the peer says that it wants.
    pub title: String,
    /// The agent, where it is about a session that moves.
    pub agent: Option<AgentKind>,
    /// Where it lies or would lie, on the device that asks.
    pub directory: String,
    /// Number of user turns.
    pub turns: u64,
    /// What travels, what is rebuilt, what stays, what never travels.
    pub inventory: Vec<InventoryItem>,
    /// Executable files.
    pub executables: Vec<String>,
    /// Files and directories whose names begin with a dot.
    pub dotfiles: Vec<String>,
    /// Files that tools run unasked.
    pub configuration_as_code: Vec<String>,
    /// Most bytes that are taken; 0 where a session would leave.
    pub limit_bytes: u64,
    /// Files that look like secrets and would leave.
    pub secret_looking: Vec<String>,
    /// The files, where files would come.
    pub files: Vec<ShownPath>,
    /// The sender's words, where files would come.
    pub note: String,
}

impl Posed {
    /// Separates these hashes from all others. Source: `proto/NUMBERS.md`.
    pub const DOMAIN: &'static str = "cede/1 posed-question";

    /// The canonical bytes: what travels, what is rendered, what an answer covers.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads the bytes of a question.
    ///
    /// # Errors
    /// [`DecodeError`]; what cannot be read is not shown, and cannot be answered.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > POSED_BYTES {
            return Err(DecodeError::TooLong("Posed"));
        }
        decode(bytes)
    }

    /// The hash that an answer names.
    pub fn hash(&self) -> Hash {
        Self::hash_of(&self.to_bytes())
    }

    /// The same, of bytes.
    pub fn hash_of(bytes: &[u8]) -> Hash {
        Hash::new(blake3::derive_key(Self::DOMAIN, bytes))
    }
}

/// The answer of a person at another device, to exactly one showing of exactly one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApproverAnswer {
    /// The device where the person sits, which signs.
    pub by: DeviceId,
    /// The device that asks.
    pub at: DeviceId,
    /// The question there.
    pub question: ApprovalId,
    /// The showing: random, for one connection, used once.
    pub showing: ShowingId,
    /// Hash of what was shown.
    pub shown: Hash,
    /// Only true is a yes.
    pub yes: bool,
}

impl Signable for ApproverAnswer {
    const DOMAIN: &'static str = "cede/1 approver-answer";

    fn signer(&self) -> DeviceId {
        self.by
    }
}

/// What a button of a call stands for. Its token is made from all of it. Source: SPEC L-16.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// The device that asks.
    pub at: DeviceId,
    /// The question there.
    pub question: ApprovalId,
    /// Hash of what the call shows.
    pub shown: Hash,
    /// The call: random, used once.
    pub showing: ShowingId,
    /// When the question ends, milliseconds since 1970.
    pub expires_unix_ms: u64,
    /// Only true is a yes.
    pub yes: bool,
}

impl Button {
    /// Separates these keys from all others. Source: `proto/NUMBERS.md`.
    pub const DOMAIN: &'static str = "cede/1 button";
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerTaken {
    /// 0: it decided.
    Taken,
    /// 1: the question was decided or over before it came.
    Late,
    /// 2: it is no answer to what is asked there now, or not of a device that may answer.
    Refused,
}

/// What a device and its approvers say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApproverMessage {
    /// 0: put this before your person.
    Ask {
        /// The showing.
        showing: ShowingId,
        /// How long there is for an answer.
        expires_in_ms: u64,
        /// A [`Posed`], at most [`POSED_BYTES`].
        posed: Vec<u8>,
    },
    /// 1: the person's answer.
    Answer(Signed<ApproverAnswer>),
    /// 2: what became of it.
    Heard {
        /// The showing.
        showing: ShowingId,
        /// What.
        outcome: AnswerTaken,
    },
    /// 3: nobody needs an answer to this showing any more.
    Over {
        /// The showing.
        showing: ShowingId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Locality, Reach, Subject};
    use crate::id::ConnectionId;
    use crate::member::Capability;

    fn posed(wants: Wanted, title: String) -> Posed {
        Posed {
            at: DeviceId::new([1; 32]),
            question: ApprovalId::new([2; 8]),
            who: DeviceId::new([3; 32]),
            of: AuditOf::Many,
            about: Hash::of(b"about"),
            wants,
            title,
            agent: Some(AgentKind::Codex),
            directory: "/home/one".to_owned(),
            turns: 4,
            inventory: Vec::new(),
            executables: vec!["run.sh".to_owned()],
            dotfiles: vec![".env".to_owned()],
            configuration_as_code: vec!["Makefile".to_owned()],
            limit_bytes: 5,
            secret_looking: vec!["key.pem".to_owned()],
            files: vec![ShownPath { path: "a/".to_owned(), files: 2, bytes: 6 }],
            note: "hello".to_owned(),
        }
    }

    fn capability(capability: Capability) -> Wanted {
        let shown = Shown {
            capability,
            reach: Reach::Request,
            device: DeviceId::new([3; 32]),
            session: None,
            locality: Locality::AnotherHost,
            subject: Subject::new("words").unwrap(),
            connection: ConnectionId::new([4; 16]),
            number: 7,
            asked_unix_ms: 8,
            expires_unix_ms: 9,
        };
        Wanted::Capability { shown: Box::new(shown), held: true }
    }

    /// Shows: U-15
    #[test]
    fn posed_question_comes_back_and_its_hash_is_that_of_its_bytes() {
        for wants in [Wanted::Receive, Wanted::Give, capability(Capability::Drive)] {
            let posed = posed(wants, "title".to_owned());
            let bytes = posed.to_bytes();
            assert_eq!(posed.hash(), Posed::hash_of(&bytes));
            assert_ne!(posed.hash(), Hash::of(&bytes), "under a domain of its own");
            assert_eq!(Posed::from_bytes(&bytes), Ok(posed));
        }
    }

    /// Shows: U-16
    #[test]
    fn posed_question_has_at_most_its_bytes() {
        let around = posed(Wanted::Give, "x".repeat(20_000)).to_bytes().len() - 20_000;
        let longest = posed(Wanted::Give, "x".repeat(POSED_BYTES - around));
        assert_eq!(longest.to_bytes().len(), POSED_BYTES);
        assert_eq!(Posed::from_bytes(&longest.to_bytes()), Ok(longest));
        let longer = posed(Wanted::Give, "x".repeat(POSED_BYTES - around + 1));
        assert_eq!(Posed::from_bytes(&longer.to_bytes()), Err(DecodeError::TooLong("Posed")));
    }

    #[test]
    fn wish_is_named_as_people_read_it() {
        assert_eq!((Wanted::Receive.word(), Wanted::Give.word()), ("receive", "give"));
        for wanted in Capability::ALL {
            assert_eq!(capability(wanted).word(), wanted.name());
        }
    }
}
