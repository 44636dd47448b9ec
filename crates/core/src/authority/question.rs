//! A question to the operator.

use core::time::Duration;

use cede_wire::audit::DecidedBy;
use cede_wire::authority::Shown;
use cede_wire::id::{DeviceId, Hash};

use super::RequestId;
use super::decision::Put;
use crate::limits::{QUESTION, QUESTION_HELD};

/// A question of one connection, by its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub(super) u64);

/// What is put before a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Which question.
    pub id: QuestionId,
    /// The request that it was put for. Others may come to share it; the record names all of them by this one.
    pub request: RequestId,
    /// What is shown: a screen is made from this and nothing else.
    pub shown: Shown,
    /// The hash of its bytes: what the answer covers.
    pub hash: Hash,
    /// When silence becomes a no, as [`crate::now::Now::monotonic`].
    pub expires: Duration,
    /// True: the operator keeps questions of this kind for later and is not disturbed.
    pub held: bool,
}

/// What a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorAnswer {
    /// An explicit yes.
    Yes,
    /// A no.
    No,
    /// The question could not be put, or the answer could not be had. Counts as a no.
    Failed,
}

/// From where a person answered, if not from the device that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afar {
    /// Another device that the operator named.
    Approver(DeviceId),
    /// A button of a call.
    Button,
}

impl Afar {
    /// How the record names it.
    pub const fn by(self) -> DecidedBy {
        match self {
            Self::Approver(device) => DecidedBy::Approver(device),
            Self::Button => DecidedBy::Button,
        }
    }
}

/// Somebody who can be asked, and how long there is for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorApprover {
    /// For a question that is put at once.
    pub interactive: Duration,
    /// For a question that is kept for later.
    pub held: Duration,
}

impl Default for OperatorApprover {
    /// The longest that each may take.
    fn default() -> Self {
        Self { interactive: QUESTION, held: QUESTION_HELD }
    }
}

impl OperatorApprover {
    pub(super) fn patience(self, held: bool) -> Duration {
        if held { self.held.min(QUESTION_HELD) } else { self.interactive.min(QUESTION) }
    }
}

/// A question that waits.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) shown: Shown,
    pub(super) expires: Duration,
    /// Who it was put for.
    pub(super) first: RequestId,
    /// Who waits for its answer.
    pub(super) waiting: Vec<RequestId>,
}

impl Open {
    /// How the record names what is decided by it.
    pub(super) fn put(&self) -> Put {
        (self.first, self.shown.hash())
    }
}
