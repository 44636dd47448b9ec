//! How a link ends, and how the other side learns why.

use quinn::{ConnectionError, VarInt};

/// Why one side closes a link. Append only; the number is the code on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// 0: nothing more to say.
    Done,
    /// 1: the peer is no member, or no longer.
    NotAdmitted,
    /// 2: the peer broke a rule of the protocol.
    Protocol,
    /// 3: no version in common.
    VersionMismatch,
    /// 4: the peer belongs to another mesh.
    WrongMesh,
    /// 5: too many links.
    Busy,
    /// 6: a greeting did not come in time.
    TimedOut,
    /// 7: another link to the same device took over.
    Superseded,
    /// 8: the daemon stops.
    Stopping,
    /// Any other number: a reason of a newer version.
    Unknown(u32),
}

impl CloseReason {
    const NAMED: [Self; 9] = [
        Self::Done,
        Self::NotAdmitted,
        Self::Protocol,
        Self::VersionMismatch,
        Self::WrongMesh,
        Self::Busy,
        Self::TimedOut,
        Self::Superseded,
        Self::Stopping,
    ];

    pub(crate) fn code(self) -> VarInt {
        VarInt::from_u32(match self {
            Self::Done => 0,
            Self::NotAdmitted => 1,
            Self::Protocol => 2,
            Self::VersionMismatch => 3,
            Self::WrongMesh => 4,
            Self::Busy => 5,
            Self::TimedOut => 6,
            Self::Superseded => 7,
            Self::Stopping => 8,
            Self::Unknown(code) => code,
        })
    }

    fn of_code(code: VarInt) -> Self {
        let unknown = Self::Unknown(u32::try_from(code.into_inner()).unwrap_or(u32::MAX));
        Self::NAMED.into_iter().find(|reason| reason.code() == code).unwrap_or(unknown)
    }
}

impl core::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Done => f.write_str("nothing more to say"),
            Self::NotAdmitted => f.write_str("this device is not admitted"),
            Self::Protocol => f.write_str("a rule of the protocol was broken"),
            Self::VersionMismatch => f.write_str("no protocol version in common"),
            Self::WrongMesh => f.write_str("the devices belong to different meshes"),
            Self::Busy => f.write_str("too many links"),
            Self::TimedOut => f.write_str("the greeting did not come in time"),
            Self::Superseded => f.write_str("another link took over"),
            Self::Stopping => f.write_str("the daemon stops"),
            Self::Unknown(code) => write!(f, "reason {code} of a newer version"),
        }
    }
}

/// How a link ended. Nothing more arrives on it; data not yet read is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The peer closed it.
    #[error("closed by the peer: {0}")]
    ByPeer(CloseReason),
    /// This side closed it.
    #[error("closed here")]
    Here,
    /// The peer has said nothing for too long.
    #[error("the peer has gone silent")]
    Silent,
    /// The peer's TLS refused this device's key.
    #[error("the peer does not admit this device")]
    NotAdmitted,
    /// The peer restarted and does not know the link.
    #[error("the peer has restarted")]
    Restarted,
    /// The transport failed.
    #[error("the transport failed: {0}")]
    Transport(String),
}

impl From<ConnectionError> for Closed {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) => Self::ByPeer(CloseReason::of_code(close.error_code)),
            ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == ACCESS_DENIED => {
                Self::NotAdmitted
            }
            ConnectionError::LocallyClosed => Self::Here,
            ConnectionError::TimedOut => Self::Silent,
            ConnectionError::Reset => Self::Restarted,
            error @ (ConnectionError::VersionMismatch
            | ConnectionError::TransportError(_)
            | ConnectionError::ConnectionClosed(_)
            | ConnectionError::CidsExhausted) => Self::Transport(error.to_string()),
        }
    }
}

/// CRYPTO_ERROR with the alert access_denied: a verifier said no. Source: RFC 9001, 4.8; RFC 8446, 6.
pub(crate) const ACCESS_DENIED: u64 = 0x100 + 49;
/// CRYPTO_ERROR with the alert no_application_protocol.
pub(crate) const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;
/// CONNECTION_REFUSED. Source: RFC 9000, 20.1.
pub(crate) const CONNECTION_REFUSED: u64 = 0x02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_read_back_from_its_code() {
        for reason in CloseReason::NAMED {
            assert_eq!(CloseReason::of_code(reason.code()), reason);
        }
        assert_eq!(CloseReason::of_code(VarInt::from_u32(99)), CloseReason::Unknown(99));
    }
}
