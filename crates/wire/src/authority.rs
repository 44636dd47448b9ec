//! What a peer asks of a person: the rule that may answer for the person, and the bytes that the person is shown.

use serde::{Deserialize, Serialize};

use crate::canonical::encode;
use crate::id::{ConnectionId, DeviceId, Hash, SessionId};
use crate::limits::{SUBJECT_BYTES, SUBJECT_LINES};
use crate::member::Capability;

/// What this device does when a peer asks for a capability. Source: SPEC U-6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// 0: yes, unattended, until the rule ends.
    Accept,
    /// 1: ask the operator, who has minutes.
    Ask,
    /// 2: keep the question for the operator, who has a day.
    Hold,
    /// 3: no, nobody is asked.
    Refuse,
}

impl Rule {
    /// The word in commands and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Ask => "ask",
            Self::Hold => "hold",
            Self::Refuse => "refuse",
        }
    }
}

/// Where a peer is. It is shown and decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locality {
    /// 0: on this machine.
    SameHost,
    /// 1: on another machine.
    AnotherHost,
}

/// How far a yes reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// 0: until the connection ends.
    Connection,
    /// 1: this request and no other.
    Request,
}

/// A subject is longer than a person can be shown. Nothing was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than a person can be shown: at most {SUBJECT_BYTES} bytes in {SUBJECT_LINES} lines")]
pub struct SubjectTooLong;

/// What a request is about, in the peer's own words: not trusted, shown through [`crate::shown::plain`] only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    text: String,
    lines: Vec<(String, String)>,
    content: Option<Hash>,
}

impl Subject {
    /// A subject with this text, whole.
    ///
    /// # Errors
    /// [`SubjectTooLong`]; what cannot be shown cannot be approved.
    pub fn new(text: &str) -> Result<Self, SubjectTooLong> {
        Self { text: text.to_owned(), ..Self::default() }.bounded()
    }

    /// Adds a line: a name of ours, a value of the peer's.
    ///
    /// # Errors
    /// [`SubjectTooLong`].
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, SubjectTooLong> {
        self.lines.push((name.to_owned(), value.to_owned()));
        self.bounded()
    }

    /// Binds the subject to content that is not shown byte for byte, by its hash.
    #[must_use]
    pub fn bound_to(mut self, content: Hash) -> Self {
        self.content = Some(content);
        self
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The lines.
    pub fn lines(&self) -> &[(String, String)] {
        &self.lines
    }

    /// The hash of the content, where there is more than what is shown.
    pub fn content(&self) -> Option<Hash> {
        self.content
    }

    fn bounded(self) -> Result<Self, SubjectTooLong> {
        let lines: usize = self.lines.iter().map(|(name, value)| name.len() + value.len()).sum();
        let fits = self.text.len() + lines <= SUBJECT_BYTES && self.lines.len() <= SUBJECT_LINES;
        fits.then_some(self).ok_or(SubjectTooLong)
    }
}

/// Everything a person is shown before an answer. The answer covers exactly these bytes. Source: SPEC U-7.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// What the peer wants.
    pub capability: Capability,
    /// How far a yes reaches.
    pub reach: Reach,
    /// Who asks.
    pub device: DeviceId,
    /// Which of its sessions, where one does.
    pub session: Option<SessionId>,
    /// Where it is.
    pub locality: Locality,
    /// What about.
    pub subject: Subject,
    /// On which connection: a yes dies with it.
    pub connection: ConnectionId,
    /// Number of the question on this connection, so that no two questions have the same bytes.
    pub number: u64,
    /// When it was asked, milliseconds since 1970.
    pub asked_unix_ms: u64,
    /// When silence becomes a no, milliseconds since 1970.
    pub expires_unix_ms: u64,
}

impl Shown {
    /// Separates these hashes from all others. Source: `proto/NUMBERS.md`.
    pub const DOMAIN: &'static str = "cede/1 question";

    /// The canonical bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// The hash that an answer names.
    pub fn hash(&self) -> Hash {
        Hash::new(blake3::derive_key(Self::DOMAIN, &self.to_bytes()))
    }

    /// The same question about another subject.
    #[must_use]
    pub fn about(&self, subject: &Subject) -> Self {
        Self { subject: subject.clone(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::decode;
    use crate::numbers::{of_zeros, sentence};

    #[test]
    fn subject_is_whole_or_none() {
        assert!(Subject::new(&"x".repeat(SUBJECT_BYTES)).is_ok());
        assert_eq!(Subject::new(&"x".repeat(SUBJECT_BYTES + 1)), Err(SubjectTooLong));
        let mut subject = Subject::new("").unwrap();
        for _ in 0..SUBJECT_LINES {
            subject = subject.with("file", "a").unwrap();
        }
        assert_eq!(subject.clone().with("file", "a"), Err(SubjectTooLong));
        assert_eq!(subject.lines().len(), SUBJECT_LINES);
        let content = Hash::of(b"x");
        assert_eq!((subject.bound_to(content).content(), Subject::default().text()), (Some(content), ""));
    }

    /// Shows: U-7
    #[test]
    fn lines_count_against_the_length_of_a_subject() {
        let subject = Subject::new(&"x".repeat(SUBJECT_BYTES - 9)).unwrap();
        assert_eq!(subject.clone().with("name", "value!"), Err(SubjectTooLong));
        let longest = subject.with("name", "value").unwrap();
        assert_eq!(longest.lines(), [("name".to_owned(), "value".to_owned())]);
        assert_eq!(longest.text().len(), SUBJECT_BYTES - 9);
    }

    /// Shows: U-7
    #[test]
    fn what_is_shown_comes_back_and_another_subject_is_another_question() {
        let shown = Shown {
            capability: Capability::File,
            reach: Reach::Request,
            device: DeviceId::new([1; 32]),
            session: Some(SessionId::new([2; 16])),
            locality: Locality::AnotherHost,
            subject: Subject::new("one").unwrap(),
            connection: ConnectionId::new([3; 16]),
            number: 4,
            asked_unix_ms: 5,
            expires_unix_ms: 6,
        };
        assert_eq!(decode(&shown.to_bytes()), Ok(shown.clone()));
        let other = shown.about(&Subject::new("two").unwrap().bound_to(Hash::of(b"x")));
        assert_eq!((other.subject.text(), other.number), ("two", 4));
        assert_ne!(other.hash(), shown.hash());
        assert_eq!(other.about(&shown.subject).hash(), shown.hash());
    }

    #[test]
    fn rule_is_called_as_its_number_is() {
        let words: Vec<_> = sentence("\nRules");
        assert_eq!(words.len(), 4);
        for (number, word) in words {
            assert_eq!(of_zeros::<Rule>(number).map(Rule::word), Some(word));
        }
    }
}
