//! Every bound of the sealing: name, value, reason. Both ends read the same constant.

/// Plaintext of every segment of a sealed stream but the last. Sealed, one fits a 64 KiB message of any carrier
/// with room for that carrier's own header.
pub const SEGMENT_BYTES: usize = 60 << 10;

/// What sealing adds to a segment: the Poly1305 tag.
pub const TAG_BYTES: usize = 16;

/// Segments in one stream. The counter in the nonce has 32 bits and its last value is not used, so that a last
/// segment always has a number left: 240 TiB.
pub const SEGMENTS: u32 = u32::MAX;

/// Longest signed value that is verified. A control frame holds none longer, so a longer one is not hashed.
pub const SIGNED_BYTES: usize = cede_wire::limits::FRAME_BODY_BYTES;
