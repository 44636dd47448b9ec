//! Pairing: how a new device joins a mesh with a few words and one yes.
//!
//! The host is the trusted device: it shows words, answers one guest, and signs nothing before the guest has proved
//! that it knows the words and the operator has said that both screens show the same digits. The guest enters the
//! words, proves first, and takes the mesh's log only if it is the log of the mesh that was proved. Both machines
//! expect a link whose ends know each other's key and share an exporter value.
//!
//! ```text
//!  guest                              host
//!   Open ───────────────────────────▶  Armed → Opening
//!   ◀─────────────────── HostShare      words are spent → Proving
//!   GuestProof ─────────────────────▶   checked, or the words are burned
//!   ◀─────────────────── HostProof      → Naming
//!   Name ───────────────────────────▶   both show six digits; the operator answers → Asking
//!   ◀───────────────────── Welcome      the entry is durable → Welcoming
//!   Joined ─────────────────────────▶   → Idle
//! ```

mod guest;
mod host;
mod list;
mod words;

use core::fmt;
use std::collections::VecDeque;

use cede_seal::pake::{Comparison, PakeError};
use cede_wire::id::{DeviceId, DeviceKey, MeshId};
use cede_wire::member::Member;
use cede_wire::message::{PROTOCOL_MAX, PROTOCOL_MIN};
use cede_wire::pairing::PairMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use zeroize::Zeroizing;

use crate::limits::OUTPUTS;
use crate::membership::LogError;

pub use guest::{BeginError, PairingGuest};
pub use host::{ArmError, ConfirmError, ConnectError, PairingHost};
pub use words::{Words, WordsError};

/// The label under which both ends export keying material from their link.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-cede/1 pairing";

/// What a machine knows of its link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PairLink {
    /// The key that the peer proved.
    pub peer: DeviceKey,
    /// Keying material exported under [`EXPORTER_LABEL`].
    pub exporter: [u8; 32],
}

impl fmt::Debug for PairLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairLink").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// What a machine wants done, in this order. Nothing after a `Persist` leaves before it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Make these durable, together.
    Persist(Vec<Record>),
    /// Send this to the peer.
    Send(PairMessage),
    /// Close the link once what was sent has arrived.
    Close,
    /// Tell the person.
    Tell(PairEvent),
}

/// What a person at this device is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairEvent {
    /// The words were right on both sides. Show the digits; at the host nothing goes on before the operator answers.
    Compare {
        /// The other device.
        peer: DeviceId,
        /// What both screens must show.
        comparison: Comparison,
        /// What the guest calls itself, cleaned: a claim. None at the guest.
        name: Option<String>,
    },
    /// At the host: the guest is a member from now on. It has not yet said that it knows.
    Added(Member),
    /// Both sides hold the log.
    Joined {
        /// The mesh.
        mesh: MeshId,
        /// The other device's name.
        peer: String,
    },
    /// The pairing is over.
    Failed(PairError),
}

/// Why a pairing ended without a new member, except where it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// Other words, or somebody stands between the devices. The words are burned.
    #[error("the words do not match and are used up: show new ones on the trusted device")]
    WrongWords,
    /// The words, or the time to answer, ran out.
    #[error("the words ran out: show new ones on the trusted device")]
    Expired,
    /// The link ended. Words that had been put to use are burned.
    #[error("the other device went away: show new words on the trusted device")]
    Abandoned,
    /// The peer sent nothing for too long.
    #[error("the other device does not answer: show new words on the trusted device")]
    Silent,
    /// The operator said no.
    #[error("the pairing was declined on the trusted device")]
    Declined,
    /// The operator took the words back.
    #[error("the pairing was cancelled")]
    Cancelled,
    /// The host shows no words.
    #[error("the other device is not pairing: run `cede pair` there first")]
    NotArmed,
    /// The host is pairing with another device.
    #[error("the other device is pairing with another one: try again")]
    Busy,
    /// No common protocol version.
    #[error("no common protocol version: {ours_min} to {ours_max} here, {theirs_min} to {theirs_max} there")]
    Version {
        /// Lowest here.
        ours_min: u16,
        /// Highest here.
        ours_max: u16,
        /// Lowest there.
        theirs_min: u16,
        /// Highest there.
        theirs_max: u16,
    },
    /// The peer broke the order of the exchange.
    #[error("the other device broke the pairing protocol: {0}")]
    Protocol(&'static str),
    /// The mesh has removed this device for good.
    #[error("this device was removed from that mesh for good: it needs a new identity to join again")]
    Removed,
    /// At the host: the entry could not be made. At the guest: the log does not hold.
    #[error("the membership log does not allow it")]
    Log(#[from] LogError),
    /// The log is not that of the mesh that the words were proved for.
    #[error("the membership log is not that of the mesh that was proved")]
    OtherMesh,
    /// The log lacks one of the two devices.
    #[error("the membership log does not hold both devices")]
    NotInLog,
    /// At the host: the guest is a member, but did not say that it holds the log. Pairing again gives it the log.
    #[error("the device was added, but did not confirm it: pair it again or remove it")]
    Unconfirmed,
    /// The peer ended it for a reason of its own.
    #[error("the other device ended the pairing: {0}")]
    Refused(Refusal),
}

impl PairError {
    /// What this side says to the peer: as little as helps an honest one.
    fn refusal(&self) -> Refusal {
        match self {
            Self::WrongWords => Refusal::Unauthorized,
            Self::Expired | Self::Silent => Refusal::Expired,
            Self::Declined => Refusal::Declined,
            Self::Abandoned | Self::Cancelled => Refusal::Cancelled,
            Self::NotArmed => Refusal::NoApprover,
            Self::Busy => Refusal::Busy,
            Self::Version { .. } => Refusal::VersionMismatch,
            Self::Removed | Self::Log(LogError::Removed(_)) => Refusal::NotGranted,
            Self::OtherMesh | Self::NotInLog => Refusal::IntegrityFailed,
            Self::Log(_) => Refusal::Protocol,
            Self::Protocol(_) | Self::Unconfirmed => Refusal::Protocol,
            Self::Refused(refusal) => *refusal,
        }
    }

    /// What a peer's refusal means here.
    fn of_peer(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unauthorized => Self::WrongWords,
            Refusal::Expired => Self::Expired,
            Refusal::Declined => Self::Declined,
            Refusal::Cancelled => Self::Abandoned,
            Refusal::NoApprover => Self::NotArmed,
            Refusal::Busy => Self::Busy,
            Refusal::NotGranted => Self::Removed,
            other @ (Refusal::InFlightWork
            | Refusal::IntegrityFailed
            | Refusal::Truncated
            | Refusal::PayloadUndecodable
            | Refusal::WrongDestination
            | Refusal::DestinationCannotResume
            | Refusal::AlreadyOwner
            | Refusal::NotOwner
            | Refusal::StaleToken
            | Refusal::TooLarge
            | Refusal::TimedOut
            | Refusal::VersionMismatch
            | Refusal::Protocol) => Self::Refused(other),
        }
    }
}

impl From<PakeError> for PairError {
    fn from(error: PakeError) -> Self {
        match error {
            PakeError::Share => Self::Protocol("an unusable share"),
            PakeError::Proof => Self::WrongWords,
        }
    }
}

/// The versions that both sides speak, or the error that names all four numbers.
fn agree(theirs_min: u16, theirs_max: u16) -> Result<(), PairError> {
    let (ours_min, ours_max) = (PROTOCOL_MIN, PROTOCOL_MAX);
    let common = ours_min.max(theirs_min) <= ours_max.min(theirs_max);
    common.then_some(()).ok_or(PairError::Version { ours_min, ours_max, theirs_min, theirs_max })
}

/// Outputs in the order in which they leave.
#[derive(Debug, Default)]
struct Outbox(VecDeque<Output>);

impl Outbox {
    fn push(&mut self, output: Output) {
        // A driver that does not drain loses the newest outputs, never the order of the oldest.
        if self.0.len() < OUTPUTS {
            self.0.push_back(output);
        }
    }

    fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }
}

/// Random bytes for one run: a nonce, and the seed of the share.
struct Random {
    nonce: [u8; 32],
    share: Zeroizing<[u8; 32]>,
}

impl Random {
    fn new(bytes: [u8; 64]) -> Self {
        let bytes = Zeroizing::new(bytes);
        let mut random = Self { nonce: [0; 32], share: Zeroizing::new([0; 32]) };
        random.nonce.copy_from_slice(&bytes[..32]);
        random.share.copy_from_slice(&bytes[32..]);
        random
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}

#[cfg(test)]
mod tests;
