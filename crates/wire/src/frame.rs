//! The outer frame of every control message and record: `kind u16, length u32`, little-endian, then the body.
//! A reader skips kinds that it does not know.

use crate::limits::FRAME_BODY_BYTES;

/// Bytes before the body.
pub const HEADER_BYTES: usize = 6;

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the body is. Numbers: `proto/NUMBERS.md`.
    pub kind: u16,
    /// Length of the body, at most [`FRAME_BODY_BYTES`].
    pub length: u32,
}

/// The frame announces a body over the limit. The stream is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("frame too long: {0} bytes")]
pub struct FrameTooLong(pub u32);

impl Header {
    /// The bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.kind.to_le_bytes());
        bytes[2..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Reads a header, before anything is allocated for its body.
    ///
    /// # Errors
    /// [`FrameTooLong`].
    pub fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Result<Self, FrameTooLong> {
        let [k0, k1, l0, l1, l2, l3] = bytes;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length as usize > FRAME_BODY_BYTES {
            return Err(FrameTooLong(length));
        }
        Ok(Self { kind: u16::from_le_bytes([k0, k1]), length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_comes_back_up_to_the_longest_body() {
        let header = Header { kind: 0x0102, length: 0x0003_0405 };
        assert_eq!(header.to_bytes(), [2, 1, 5, 4, 3, 0]);
        let most = u32::try_from(FRAME_BODY_BYTES).unwrap();
        for length in [0, 0x0003_0405, most] {
            let header = Header { kind: 7, length };
            assert_eq!(Header::from_bytes(header.to_bytes()), Ok(header));
        }
        for length in [most + 1, u32::MAX] {
            assert_eq!(Header::from_bytes(Header { kind: 7, length }.to_bytes()), Err(FrameTooLong(length)));
        }
    }
}
