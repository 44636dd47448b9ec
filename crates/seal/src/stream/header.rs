//! What stands before the segments.

use cede_wire::id::HandoffId;

use super::SEAL_VERSION;
use crate::exchange::StreamKeys;

/// Length of the header: magic 4, version 1, suite 1, handoff 16, number 4 (little-endian), key commitment 32.
pub const HEADER_BYTES: usize = 58;

/// Why bytes are not the header of a sealed stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Something else than a sealed stream.
    #[error("not a sealed stream")]
    NotASeal,
    /// A version or suite that this build does not open.
    #[error("sealed in an unknown way: version {version}, suite {suite}")]
    Version {
        /// The version named.
        version: u8,
        /// The suite named.
        suite: u8,
    },
}

/// A header as its bytes say it is; unproven until the commitment is compared.
pub(super) struct Header {
    pub(super) handoff: HandoffId,
    pub(super) number: u32,
    pub(super) commitment: [u8; 32],
}

impl Header {
    pub(super) fn of(keys: &StreamKeys) -> Self {
        Self { handoff: keys.handoff, number: keys.number, commitment: keys.commitment }
    }

    pub(super) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = SEAL_VERSION;
        bytes[5] = SUITE_NUMBER;
        bytes[6..22].copy_from_slice(self.handoff.as_bytes());
        bytes[22..26].copy_from_slice(&self.number.to_le_bytes());
        bytes[26..].copy_from_slice(&self.commitment);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderError> {
        if bytes[..4] != MAGIC {
            return Err(HeaderError::NotASeal);
        }
        let (version, suite) = (bytes[4], bytes[5]);
        if (version, suite) != (SEAL_VERSION, SUITE_NUMBER) {
            return Err(HeaderError::Version { version, suite });
        }
        let (mut handoff, mut number, mut commitment) = ([0; 16], [0; 4], [0; 32]);
        handoff.copy_from_slice(&bytes[6..22]);
        number.copy_from_slice(&bytes[22..26]);
        commitment.copy_from_slice(&bytes[26..]);
        Ok(Self { handoff: HandoffId::new(handoff), number: u32::from_le_bytes(number), commitment })
    }
}

/// The handoff that a header claims, so that a stream finds its reader. Unproven until an opener takes the header.
///
/// # Errors
/// [`HeaderError`].
pub fn stream_handoff(header: &[u8; HEADER_BYTES]) -> Result<HandoffId, HeaderError> {
    Header::from_bytes(header).map(|header| header.handoff)
}

const MAGIC: [u8; 4] = *b"cede";
const SUITE_NUMBER: u8 = 1;
