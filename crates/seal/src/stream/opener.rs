//! The receiving side.

use core::fmt;

use aead_stream::StreamPrimitive;
use subtle::ConstantTimeEq;

use super::header::{HEADER_BYTES, Header, HeaderError};
use super::{Cipher, SEALED_SEGMENT_BYTES, Tail, cipher, fill};
use crate::exchange::HandoffKeys;
use crate::limits::SEGMENTS;

/// Why a sealed stream does not open. The opener is dead; what it gave before stands, as an unfinished stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
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
    /// The stream belongs to another handoff.
    #[error("the sealed stream belongs to another handoff")]
    WrongHandoff,
    /// Changed, reordered, dropped, repeated, taken from elsewhere, or sealed with another key.
    #[error("the sealed stream is forged")]
    Forged,
    /// The stream ends before its last segment does. A change to a short last segment looks the same.
    #[error("the sealed stream is cut short")]
    Truncated,
    /// More segments than the counter can tell apart.
    #[error("the sealed stream is too long")]
    Exhausted,
    /// An earlier call failed, and nothing was looked at.
    #[error("the sealed stream failed before")]
    Dead,
}

impl From<HeaderError> for OpenError {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::NotASeal => Self::NotASeal,
            HeaderError::Version { version, suite } => Self::Version { version, suite },
        }
    }
}

/// Opens one stream. Only plaintext whose seal holds leaves it. Source: SPEC S-5, S-6.
pub struct Opener {
    cipher: Cipher,
    associated: [u8; 32],
    number: u32,
    pub(super) position: u32,
    pub(super) pending: Vec<u8>,
    dead: bool,
}

impl Opener {
    /// Checks a header against the keys of the handoff.
    ///
    /// # Errors
    /// [`OpenError`]; no opener was made.
    pub fn new(keys: &HandoffKeys, header: &[u8; HEADER_BYTES]) -> Result<Self, OpenError> {
        let claimed = Header::from_bytes(header)?;
        if claimed.handoff != keys.handoff() {
            return Err(OpenError::WrongHandoff);
        }
        let stream = keys.stream(claimed.number);
        if !bool::from(stream.commitment.ct_eq(&claimed.commitment)) {
            return Err(OpenError::Forged);
        }
        Ok(Self {
            cipher: cipher(&stream),
            associated: *blake3::hash(header).as_bytes(),
            number: claimed.number,
            position: 0,
            pending: Vec::new(),
            dead: false,
        })
    }

    /// The number of the stream, for the caller to refuse one that it has seen.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Takes sealed bytes of any size and appends the plaintext of every segment that is not the last to `out`.
    ///
    /// # Errors
    /// [`OpenError`]; `out` holds the plaintext of the segments before, and the opener is dead.
    pub fn push(&mut self, mut sealed: &[u8], out: &mut Vec<u8>) -> Result<(), OpenError> {
        if self.dead {
            return Err(OpenError::Dead);
        }
        // A full segment stays here until a byte follows it: until then it may be the last.
        while self.pending.len() + sealed.len() > SEALED_SEGMENT_BYTES {
            let start = out.len();
            out.reserve(SEALED_SEGMENT_BYTES);
            out.append(&mut self.pending);
            fill(out, &mut sealed, start + SEALED_SEGMENT_BYTES);
            self.open(out, start)?;
        }
        fill(&mut self.pending, &mut sealed, SEALED_SEGMENT_BYTES);
        Ok(())
    }

    /// Opens the last segment once the transport says that its stream has ended. Without this the stream is
    /// unfinished.
    ///
    /// # Errors
    /// [`OpenError`]; `out` is as before.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), OpenError> {
        if self.dead {
            return Err(OpenError::Dead);
        }
        let start = out.len();
        out.append(&mut self.pending);
        let mut whole = out.get(start..).filter(|last| last.len() == SEALED_SEGMENT_BYTES).map(<[u8]>::to_vec);
        if self.unseal(out, start, true) {
            return Ok(());
        }
        out.truncate(start);
        // A full segment that opens without the flag proves that the rest was cut off.
        let cut = whole.as_mut().is_none_or(|whole| self.unseal(whole, 0, false));
        Err(if cut { OpenError::Truncated } else { OpenError::Forged })
    }

    fn open(&mut self, out: &mut Vec<u8>, start: usize) -> Result<(), OpenError> {
        let room = self.position < SEGMENTS;
        if room && self.unseal(out, start, false) {
            self.position = self.position.saturating_add(1);
            return Ok(());
        }
        out.truncate(start);
        self.dead = true;
        Err(if room { OpenError::Forged } else { OpenError::Exhausted })
    }

    fn unseal(&self, out: &mut Vec<u8>, start: usize, last: bool) -> bool {
        let mut segment = Tail { whole: out, start };
        self.cipher.decrypt_in_place(self.position, last, &self.associated, &mut segment).is_ok()
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Opener");
        shown.field("number", &self.number).field("position", &self.position).finish_non_exhaustive()
    }
}
