//! The keys of one handoff: X25519 with keys that live no longer than it, then HKDF-SHA256 over everything that
//! names the handoff.

use core::fmt;

use cede_wire::custody::FencingToken;
use cede_wire::id::{DeviceId, HandoffId, MeshId, SessionId};
use hkdf::Hkdf;
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// Why no keys were agreed on. Nothing was kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The peer sent a key of low order: the result would be known to everybody.
    #[error("the peer's exchange key is of low order")]
    LowOrder,
    /// The context does not name our key and the peer's as the two exchange keys.
    #[error("the exchange keys are not those of the handoff")]
    ForeignKeys,
}

/// One side's secret for one handoff. Erased from memory when dropped.
pub struct ExchangeSecret(StaticSecret);

impl ExchangeSecret {
    /// Makes the secret from 32 random bytes.
    pub fn from_random(random: [u8; 32]) -> Self {
        Self(StaticSecret::from(*Zeroizing::new(random)))
    }

    /// The public key, to be sent under a signature.
    pub fn public(&self) -> [u8; 32] {
        PublicKey::from(&self.0).to_bytes()
    }
}

impl fmt::Debug for ExchangeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExchangeSecret(..)")
    }
}

/// What both sides must agree on to reach the same keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffContext {
    /// The mesh.
    pub mesh: MeshId,
    /// The session.
    pub session: SessionId,
    /// The attempt.
    pub handoff: HandoffId,
    /// Who seals.
    pub source: DeviceId,
    /// Who opens.
    pub destination: DeviceId,
    /// The source's token.
    pub token: FencingToken,
    /// The source's X25519 public key.
    pub source_exchange_key: [u8; 32],
    /// The destination's X25519 public key.
    pub destination_exchange_key: [u8; 32],
}

impl HandoffContext {
    fn info(&self) -> Vec<u8> {
        let fields: [&[u8]; 10] = [
            self.mesh.as_bytes(),
            self.session.as_bytes(),
            self.handoff.as_bytes(),
            self.source.as_bytes(),
            self.destination.as_bytes(),
            &self.token.generation.to_le_bytes(),
            &self.token.epoch.to_le_bytes(),
            &self.source_exchange_key,
            &self.destination_exchange_key,
            SUITE,
        ];
        // Every field but the last has one length, so the concatenation reads in one way only.
        [DOMAIN, &fields.concat()].concat()
    }

    fn names(&self, ours: &[u8; 32], theirs: &[u8; 32]) -> bool {
        let pair = (&self.source_exchange_key, &self.destination_exchange_key);
        pair == (ours, theirs) || pair == (theirs, ours)
    }
}

/// The secret of one handoff, from which every stream gets keys of its own. Erased from memory when dropped.
#[derive(Clone)]
pub struct HandoffKeys {
    handoff: HandoffId,
    secret: Zeroizing<[u8; 32]>,
}

impl HandoffKeys {
    /// Agrees on the secret of a handoff. Source: SPEC S-3.
    ///
    /// # Errors
    /// [`ExchangeError`]; nothing is kept.
    pub fn derive(
        secret: &ExchangeSecret,
        peer_public: &[u8; 32],
        context: &HandoffContext,
    ) -> Result<Self, ExchangeError> {
        if !context.names(&secret.public(), peer_public) {
            return Err(ExchangeError::ForeignKeys);
        }
        let shared = secret.0.diffie_hellman(&PublicKey::from(*peer_public));
        if !shared.was_contributory() {
            return Err(ExchangeError::LowOrder);
        }
        let secret = expand(DOMAIN, shared.as_bytes(), &context.info());
        Ok(Self { handoff: context.handoff, secret })
    }

    /// The attempt that these keys are for.
    pub fn handoff(&self) -> HandoffId {
        self.handoff
    }

    /// The keys of one stream. A number is used for one stream only; a reconnect takes the next. Source: SPEC S-4.
    pub fn stream(&self, number: u32) -> StreamKeys {
        let material = expand::<71>(STREAM_DOMAIN, self.secret.as_slice(), &number.to_le_bytes());
        let mut keys = StreamKeys {
            handoff: self.handoff,
            number,
            key: Zeroizing::new([0; 32]),
            prefix: [0; 7],
            commitment: [0; 32],
        };
        let (key, rest) = material.split_at(32);
        let (prefix, commitment) = rest.split_at(7);
        keys.key.copy_from_slice(key);
        keys.prefix.copy_from_slice(prefix);
        keys.commitment.copy_from_slice(commitment);
        keys
    }
}

impl fmt::Debug for HandoffKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoffKeys").field("handoff", &self.handoff).finish_non_exhaustive()
    }
}

/// The keys of one stream. Erased from memory when dropped, and consumed by the one sealer that uses them.
pub struct StreamKeys {
    pub(crate) handoff: HandoffId,
    pub(crate) number: u32,
    pub(crate) key: Zeroizing<[u8; 32]>,
    pub(crate) prefix: [u8; 7],
    /// Says which key sealed the stream: ChaCha20-Poly1305 alone can be made to open under two.
    pub(crate) commitment: [u8; 32],
}

impl StreamKeys {
    /// The number of the stream.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl fmt::Debug for StreamKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StreamKeys");
        shown.field("handoff", &self.handoff).field("number", &self.number).finish_non_exhaustive()
    }
}

/// HKDF-SHA256. The lengths asked for are constants below 8,160 bytes, the most that it gives; past that the output
/// stays zero and no commitment or confirmation matches it.
pub(crate) fn expand<const N: usize>(salt: &[u8], secret: &[u8], info: &[u8]) -> Zeroizing<[u8; N]> {
    let mut output = Zeroizing::new([0; N]);
    const { assert!(N <= 255 * 32) };
    let _ = Hkdf::<Sha256>::new(Some(salt), secret).expand(info, output.as_mut_slice());
    output
}

const DOMAIN: &[u8] = b"cede/1 handoff";
const STREAM_DOMAIN: &[u8] = b"cede/1 stream";
pub(crate) const SUITE: &[u8] = b"X25519 HKDF-SHA256 ChaCha20-Poly1305 STREAM-BE32";
