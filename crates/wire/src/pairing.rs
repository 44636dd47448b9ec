//! What a trusted device (the host) and a new one (the guest) say to each other before they are peers.

use serde::{Deserialize, Serialize};

use crate::canonical::{DecodeError, Signed, decode, encode};
use crate::frame::Header;
use crate::id::MeshId;
use crate::limits;
use crate::member::MemberEntry;
use crate::refusal::Refusal;

/// The frame kind of the first variant. Lower kinds belong to peers.
pub const PAIRING_KIND: u16 = 64;

/// A pairing message. Append only; the frame's `kind` is [`PAIRING_KIND`] and the number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PairMessage {
    /// 0, kind 64: the guest begins.
    Open {
        /// Lowest version that the guest speaks.
        protocol_min: u16,
        /// Highest version that the guest speaks.
        protocol_max: u16,
        /// Random.
        nonce: [u8; 32],
    },
    /// 1, kind 65: the host answers with its share. From here on its words are spent.
    HostShare {
        /// Lowest version that the host speaks.
        protocol_min: u16,
        /// Highest version that the host speaks.
        protocol_max: u16,
        /// The mesh that the guest is to join.
        mesh: MeshId,
        /// Random.
        nonce: [u8; 32],
        /// A point of the curve.
        share: [u8; 32],
    },
    /// 2, kind 66: the guest proves first that it knows the words.
    GuestProof {
        /// A point of the curve.
        share: [u8; 32],
        /// The guest's proof over the transcript.
        proof: [u8; 32],
    },
    /// 3, kind 67: the host proves the same.
    HostProof {
        /// The host's proof over the transcript.
        proof: [u8; 32],
    },
    /// 4, kind 68: the guest's name for itself: a claim, to be cleaned before anybody sees it.
    Name {
        /// The name.
        name: String,
    },
    /// 5, kind 69: the operator said yes. The whole membership log, from its first entry.
    Welcome(Vec<Signed<MemberEntry>>),
    /// 6, kind 70: the guest holds the log durably.
    Joined,
    /// 7, kind 71: either side ends the pairing.
    Refuse(Refusal),
}

impl PairMessage {
    /// The frame's `kind`.
    pub fn kind(&self) -> u16 {
        PAIRING_KIND
            + match self {
                Self::Open { .. } => 0,
                Self::HostShare { .. } => 1,
                Self::GuestProof { .. } => 2,
                Self::HostProof { .. } => 3,
                Self::Name { .. } => 4,
                Self::Welcome(_) => 5,
                Self::Joined => 6,
                Self::Refuse(_) => 7,
            }
    }

    /// Header and body.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] when the body is over the limit of a frame; nothing is sent.
    pub fn to_frame(&self) -> Result<Vec<u8>, DecodeError> {
        let body = encode(self);
        if body.len() > limits::FRAME_BODY_BYTES {
            return Err(DecodeError::TooLong("PairMessage"));
        }
        let header = Header { kind: self.kind(), length: body.len() as u32 };
        let mut frame = header.to_bytes().to_vec();
        frame.extend_from_slice(&body);
        Ok(frame)
    }

    /// Reads a frame's body. `Ok(None)`: a kind that is not of pairing or from a newer version, to be skipped.
    ///
    /// # Errors
    /// [`DecodeError`]; the link is closed with `protocol`.
    pub fn from_frame(header: Header, body: &[u8]) -> Result<Option<Self>, DecodeError> {
        if !(PAIRING_KIND..=PAIRING_KIND + 7).contains(&header.kind) {
            return Ok(None);
        }
        let message: Self = decode(body)?;
        if message.kind() == header.kind { Ok(Some(message)) } else { Err(DecodeError::Malformed("PairMessage")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_under_its_own_kind_only() {
        let messages = [
            PairMessage::Open { protocol_min: 1, protocol_max: 2, nonce: [3; 32] },
            PairMessage::HostShare {
                protocol_min: 1,
                protocol_max: 2,
                mesh: MeshId::new([4; 32]),
                nonce: [5; 32],
                share: [6; 32],
            },
            PairMessage::GuestProof { share: [7; 32], proof: [8; 32] },
            PairMessage::HostProof { proof: [9; 32] },
            PairMessage::Name { name: "laptop".into() },
            PairMessage::Welcome(Vec::new()),
            PairMessage::Joined,
            PairMessage::Refuse(Refusal::Declined),
        ];
        for (position, message) in messages.into_iter().enumerate() {
            let frame = message.to_frame().unwrap();
            let (header, body) = frame.split_first_chunk().unwrap();
            let header = Header::from_bytes(*header).unwrap();
            assert_eq!(header.kind, PAIRING_KIND + position as u16);
            assert_eq!(PairMessage::from_frame(header, body), Ok(Some(message)));
            let other = Header { kind: PAIRING_KIND + (header.kind + 1) % 8, ..header };
            assert_eq!(PairMessage::from_frame(other, body), Err(DecodeError::Malformed("PairMessage")));
        }
    }

    #[test]
    fn kinds_of_others_are_skipped() {
        for kind in [0, 63, 72] {
            assert_eq!(PairMessage::from_frame(Header { kind, length: 0 }, &[]), Ok(None));
        }
    }

    #[test]
    fn message_longer_than_a_frame_is_not_sent() {
        // The variant, three bytes of length, the name.
        let said = |bytes: usize| PairMessage::Name { name: "x".repeat(bytes - 4) }.to_frame();
        let longest = said(limits::FRAME_BODY_BYTES).unwrap();
        assert_eq!(longest.len(), crate::frame::HEADER_BYTES + limits::FRAME_BODY_BYTES);
        assert_eq!(said(limits::FRAME_BODY_BYTES + 1), Err(DecodeError::TooLong("PairMessage")));
    }

    #[test]
    fn every_message_has_the_number_of_its_name() {
        let table = crate::numbers::table("Pairing frames");
        for (kind, name) in &table {
            let message: PairMessage = crate::numbers::of_zeros(kind - PAIRING_KIND).unwrap();
            assert_eq!((message.kind(), crate::numbers::variant(&message).as_str()), (*kind, *name));
        }
        assert_eq!(crate::numbers::of_zeros::<PairMessage>(table.len() as u16), None);
    }
}
