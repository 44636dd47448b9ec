//! What a person is told of questions, rules and the record of decisions.

use serde::{Deserialize, Serialize};

use crate::audit::DecidedBy;
use crate::authority::{Locality, Reach, Rule};
use crate::id::{DeviceId, Hash, SessionId};
use crate::member::Capability;

/// A capability that a peer asks for. Texts are the peer's own, as they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedFor {
    /// Which.
    pub capability: Capability,
    /// How far a yes reaches.
    pub reach: Reach,
    /// Where the peer is.
    pub locality: Locality,
    /// Which of its sessions asks, where one does.
    pub session: Option<SessionId>,
    /// More about it, each with its name.
    pub lines: Vec<(String, String)>,
    /// The hash of what is not shown byte for byte.
    pub content: Option<Hash>,
    /// Kept for later by a rule.
    pub held: bool,
    /// The hash of everything that is shown; the id is its beginning.
    pub hash: Hash,
}

/// The operator's rules for one peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRules {
    /// The peer.
    pub id: DeviceId,
    /// Its name.
    pub name: String,
    /// One for each capability.
    pub rules: Vec<RuleSummary>,
}

/// What is answered when a peer asks for a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSummary {
    /// The capability.
    pub capability: Capability,
    /// Whether the peer was given it at all.
    pub granted: bool,
    /// The rule.
    pub rule: Rule,
    /// Whether a person set it; otherwise it is what holds without one.
    pub set: bool,
    /// Seconds until it ends; none means that it does not.
    pub ends_in_s: Option<u64>,
}

/// An entry of the record of what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Its number.
    pub number: u64,
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// `begun`, `asked`, `decided`, `outcome`, `rule-set`, `acted`, `keyboard`, `checkpoint`, `lost`, `missed`, `answered` or
    /// `pressed`.
    pub kind: String,
    /// The device that it is about, by name.
    pub device: Option<String>,
    /// The same by id.
    pub who: Option<DeviceId>,
    /// The capability.
    pub capability: Option<Capability>,
    /// Whether it was allowed.
    pub allowed: Option<bool>,
    /// What decided.
    pub by: Option<DecidedBy>,
    /// Which request, handoff or session.
    pub about: Option<String>,
    /// Hash of what the operator was shown.
    pub shown: Option<Hash>,
    /// The entry in words.
    pub text: String,
}

/// Whether the record is as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogVerdict {
    /// Nothing is wrong with it.
    pub holds: bool,
    /// Entries that were looked at.
    pub entries: u64,
    /// Number of the first one.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Signed checkpoints that hold.
    pub checkpoints: u64,
    /// Entries behind the last checkpoint.
    pub unsealed: u64,
    /// Places where the record was put back, and the operator knows why.
    #[serde(default)]
    pub settled: u64,
    /// What is wrong.
    pub faults: Vec<String>,
    /// Peers that keep a checkpoint of this record which fits.
    #[serde(default)]
    pub anchors: Vec<AnchorLine>,
    /// Peers that could not be asked what they keep.
    #[serde(default)]
    pub silent: Vec<String>,
    /// Peers whose own record contradicts what they showed before.
    #[serde(default)]
    pub evidence: Vec<String>,
}

/// A checkpoint of this record that a peer keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnchorLine {
    /// The peer.
    pub device: String,
    /// The number of the last entry that it covers.
    pub number: u64,
}
