//! The closed set of reasons for a no.

use serde::{Deserialize, Serialize};

/// Why a peer or an operator said no. Append only; numbers in `proto/NUMBERS.md`. Source: SPEC R-1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// 0: the peer was never given this capability.
    NotGranted,
    /// 1: the capability needs a yes and nobody can give one.
    NoApprover,
    /// 2: the operator said no.
    Declined,
    /// 3: the question, the words or the grant ran out.
    Expired,
    /// 4: a model or tool call is in flight.
    InFlightWork,
    /// 5: bytes do not match their hash, signature or seal.
    IntegrityFailed,
    /// 6: fewer bytes came than were announced.
    Truncated,
    /// 7: the payload verifies but does not decode.
    PayloadUndecodable,
    /// 8: the peer may not do this with this session.
    Unauthorized,
    /// 9: the offer or acknowledgement names another device.
    WrongDestination,
    /// 10: the agent, its version, its provider or the workspace is missing at the destination.
    DestinationCannotResume,
    /// 11: the destination already is the owner.
    AlreadyOwner,
    /// 12: the sender is not the owner.
    NotOwner,
    /// 13: a lower fencing token than the one known.
    StaleToken,
    /// 14: another handoff of this session is under way.
    Busy,
    /// 15: over a limit of size or number, or no space.
    TooLarge,
    /// 16: the operator or the source withdrew it.
    Cancelled,
    /// 17: no answer in time.
    TimedOut,
    /// 18: no common protocol version.
    VersionMismatch,
    /// 19: the peer broke a rule of the protocol.
    Protocol,
}

impl Refusal {
    /// Every refusal, in the order of its number.
    pub const ALL: [Self; 20] = [
        Self::NotGranted,
        Self::NoApprover,
        Self::Declined,
        Self::Expired,
        Self::InFlightWork,
        Self::IntegrityFailed,
        Self::Truncated,
        Self::PayloadUndecodable,
        Self::Unauthorized,
        Self::WrongDestination,
        Self::DestinationCannotResume,
        Self::AlreadyOwner,
        Self::NotOwner,
        Self::StaleToken,
        Self::Busy,
        Self::TooLarge,
        Self::Cancelled,
        Self::TimedOut,
        Self::VersionMismatch,
        Self::Protocol,
    ];

    /// The word in texts, JSON and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NotGranted => "not-granted",
            Self::NoApprover => "no-approver",
            Self::Declined => "declined",
            Self::Expired => "expired",
            Self::InFlightWork => "in-flight-work",
            Self::IntegrityFailed => "integrity-failed",
            Self::Truncated => "truncated",
            Self::PayloadUndecodable => "payload-undecodable",
            Self::Unauthorized => "unauthorized",
            Self::WrongDestination => "wrong-destination",
            Self::DestinationCannotResume => "destination-cannot-resume",
            Self::AlreadyOwner => "already-owner",
            Self::NotOwner => "not-owner",
            Self::StaleToken => "stale-token",
            Self::Busy => "busy",
            Self::TooLarge => "too-large",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
            Self::VersionMismatch => "version-mismatch",
            Self::Protocol => "protocol",
        }
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{of_zeros, table};

    /// Shows: R-1
    #[test]
    fn refusal_is_called_as_its_number_is() {
        let table = table("Refusals");
        assert_eq!(Refusal::ALL.len(), table.len());
        for ((number, word), refusal) in table.into_iter().zip(Refusal::ALL) {
            assert_eq!(of_zeros(number), Some(refusal));
            assert_eq!((refusal.word(), refusal.to_string().as_str()), (word, word));
        }
        assert_eq!(of_zeros::<Refusal>(Refusal::ALL.len() as u16), None);
    }
}
