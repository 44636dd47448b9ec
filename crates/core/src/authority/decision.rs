//! What becomes of a request.

use cede_wire::audit::DecidedBy;
use cede_wire::authority::{Shown, Subject};
use cede_wire::id::Hash;
use cede_wire::member::Capability;
use cede_wire::refusal::Refusal;

use super::RequestId;

/// Why a request is refused. A closed set: a peer learns no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapabilityRefusal {
    /// The peer was never given the capability. Nobody was asked.
    NotGranted,
    /// It needs a yes, and there is nobody to give one.
    NoApprover,
    /// It is a no, whoever said it.
    Declined,
}

impl CapabilityRefusal {
    /// The refusal on the wire.
    pub const fn refusal(self) -> Refusal {
        match self {
            Self::NotGranted => Refusal::NotGranted,
            Self::NoApprover => Refusal::NoApprover,
            Self::Declined => Refusal::Declined,
        }
    }
}

/// The answer to one request.
#[derive(Debug, PartialEq, Eq)]
pub enum CapabilityDecision {
    /// It may be done, once, exactly as it was shown.
    Allowed(Permit),
    /// It may not.
    Refused {
        /// What the peer is told.
        why: CapabilityRefusal,
        /// What decided.
        by: DecidedBy,
    },
}

impl CapabilityDecision {
    /// What decided.
    pub fn by(&self) -> DecidedBy {
        match self {
            Self::Allowed(permit) => permit.by,
            Self::Refused { by, .. } => *by,
        }
    }

    /// Whether it may be done.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// A request that is decided.
#[derive(Debug, PartialEq, Eq)]
pub struct Decided {
    /// Which one.
    pub request: RequestId,
    /// By which one the record names the decision: the one that its question was put for, or itself where nobody was asked.
    pub recorded: RequestId,
    /// For what.
    pub capability: Capability,
    /// The answer.
    pub decision: CapabilityDecision,
    /// The hash of what the operator was shown for it; none where nobody was asked.
    pub asked: Option<Hash>,
}

/// What was asked for the sake of a request: by whom first, and what was shown.
pub(super) type Put = (RequestId, Hash);

impl Decided {
    pub(super) fn allowed(request: RequestId, shown: Shown, by: DecidedBy, put: Option<Put>) -> Self {
        let capability = shown.capability;
        let permit = Permit { hash: shown.hash(), shown: Box::new(shown), by };
        Self::of(request, capability, CapabilityDecision::Allowed(permit), put)
    }

    pub(super) fn of(
        request: RequestId,
        capability: Capability,
        decision: CapabilityDecision,
        put: Option<Put>,
    ) -> Self {
        let recorded = put.map_or(request, |(first, _)| first);
        Self { request, recorded, capability, decision, asked: put.map(|(_, shown)| shown) }
    }
}

/// What a request for a capability would meet now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// A refusal.
    Refused(CapabilityRefusal, DecidedBy),
    /// A yes without a question.
    Allowed(DecidedBy),
    /// A question.
    Asks,
}

/// What is to be done is not what was shown. It was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what would be done is not what was shown and allowed")]
pub struct Swapped;

/// A yes to exactly one thing. It cannot be copied, and using it consumes it. Source: SPEC U-7.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    shown: Box<Shown>,
    hash: Hash,
    by: DecidedBy,
}

impl Permit {
    /// The hash of the bytes that were allowed.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// For what.
    pub fn capability(&self) -> Capability {
        self.shown.capability
    }

    /// Uses the permit up for what is about to be done. Shape: `acted` is made from what is acted on, not from what was
    /// shown: from the bytes that are held, never from a path or a name under which others may lie now.
    ///
    /// # Errors
    /// [`Swapped`]; the permit is gone, and nothing may be done.
    pub fn redeem(self, acted: &Subject) -> Result<(), Swapped> {
        self.spend(acted).map(|_| ())
    }

    pub(super) fn spend(self, acted: &Subject) -> Result<Shown, Swapped> {
        if self.shown.about(acted).hash() == self.hash { Ok(*self.shown) } else { Err(Swapped) }
    }
}
