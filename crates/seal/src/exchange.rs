//! The keys of one handoff: X25519 with keys that live no longer than it, then HKDF-SHA256 over everything that
//! names the handoff.

use core::fmt;

use cede_wire::custody::FencingToken;
use cede_wire::id::{DeviceId, HandoffId, Hash, MeshId, SessionId, TransferId};
use hkdf::Hkdf;
use sha2::Sha256;
use x25519_dalek::{PublicKey, SharedSecret, StaticSecret};
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

    /// What both secrets make together; a key that makes the same of every secret is refused.
    pub(crate) fn agree(&self, peer_public: &[u8; 32]) -> Result<SharedSecret, ExchangeError> {
        let shared = self.0.diffie_hellman(&PublicKey::from(*peer_public));
        if shared.was_contributory() { Ok(shared) } else { Err(ExchangeError::LowOrder) }
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

/// What both sides of a sending of files must agree on to reach the same keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferContext {
    /// The mesh.
    pub mesh: MeshId,
    /// The transfer.
    pub transfer: TransferId,
    /// Hash of the signed offer.
    pub offer: Hash,
    /// Who seals.
    pub source: DeviceId,
    /// Who opens.
    pub destination: DeviceId,
    /// The source's X25519 public key.
    pub source_exchange_key: [u8; 32],
    /// The destination's X25519 public key.
    pub destination_exchange_key: [u8; 32],
}

impl TransferContext {
    fn info(&self) -> Vec<u8> {
        let fields: [&[u8]; 8] = [
            self.mesh.as_bytes(),
            self.transfer.as_bytes(),
            self.offer.as_bytes(),
            self.source.as_bytes(),
            self.destination.as_bytes(),
            &self.source_exchange_key,
            &self.destination_exchange_key,
            SUITE,
        ];
        // Every field but the last has one length, so the concatenation reads in one way only.
        [TRANSFER_DOMAIN, &fields.concat()].concat()
    }

    fn names(&self, ours: &[u8; 32], theirs: &[u8; 32]) -> bool {
        let pair = (&self.source_exchange_key, &self.destination_exchange_key);
        pair == (ours, theirs) || pair == (theirs, ours)
    }

    /// The name that the streams of this transfer carry.
    pub fn stream_name(transfer: TransferId) -> HandoffId {
        HandoffId::new(*transfer.as_bytes())
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
        let shared = secret.agree(peer_public)?;
        let secret = expand(DOMAIN, shared.as_bytes(), &context.info());
        Ok(Self { handoff: context.handoff, secret })
    }

    /// Agrees on the secret of a sending of files. Its streams are sealed as those of a handoff are. Source: SPEC F-6.
    ///
    /// # Errors
    /// [`ExchangeError`]; nothing is kept.
    pub fn derive_for_files(
        secret: &ExchangeSecret,
        peer_public: &[u8; 32],
        context: &TransferContext,
    ) -> Result<Self, ExchangeError> {
        if !context.names(&secret.public(), peer_public) {
            return Err(ExchangeError::ForeignKeys);
        }
        let shared = secret.agree(peer_public)?;
        let secret = expand(TRANSFER_DOMAIN, shared.as_bytes(), &context.info());
        Ok(Self { handoff: TransferContext::stream_name(context.transfer), secret })
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
    expand_into(salt, secret, info, output.as_mut_slice());
    output
}

pub(crate) fn expand_into(salt: &[u8], secret: &[u8], info: &[u8], output: &mut [u8]) {
    let _ = Hkdf::<Sha256>::new(Some(salt), secret).expand(info, output);
}

const DOMAIN: &[u8] = b"cede/1 handoff";
const TRANSFER_DOMAIN: &[u8] = b"cede/1 transfer";
const STREAM_DOMAIN: &[u8] = b"cede/1 stream";
pub(crate) const SUITE: &[u8] = b"X25519 HKDF-SHA256 ChaCha20-Poly1305 STREAM-BE32";

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: S-3
    #[test]
    fn both_sides_reach_the_same_keys() {
        let (source, destination) = secrets();
        let at_source = HandoffKeys::derive(&source, &destination.public(), &context()).unwrap();
        let at_destination = HandoffKeys::derive(&destination, &source.public(), &context()).unwrap();
        assert_eq!(at_source.secret, at_destination.secret);
        assert_eq!(at_source.handoff(), context().handoff);
    }

    /// Shows: S-3
    #[test]
    fn every_field_of_the_context_changes_the_keys() {
        let base = context();
        let (source, destination) = secrets();
        let derive = |context: &HandoffContext| HandoffKeys::derive(&source, &destination.public(), context);
        let token = |generation, epoch| FencingToken { generation, epoch };
        let others = [
            HandoffContext { mesh: MeshId::new([9; 32]), ..base.clone() },
            HandoffContext { session: SessionId::new([9; 16]), ..base.clone() },
            HandoffContext { handoff: HandoffId::new([9; 16]), ..base.clone() },
            HandoffContext { source: DeviceId::new([9; 32]), ..base.clone() },
            HandoffContext { destination: DeviceId::new([9; 32]), ..base.clone() },
            HandoffContext { source: base.destination, destination: base.source, ..base.clone() },
            HandoffContext { token: token(1, 0), ..base.clone() },
            HandoffContext { token: token(0, 1), ..base.clone() },
            HandoffContext {
                source_exchange_key: base.destination_exchange_key,
                destination_exchange_key: base.source_exchange_key,
                ..base.clone()
            },
        ];
        let mut secrets = vec![derive(&base).unwrap().secret];
        for other in others {
            let secret = derive(&other).unwrap().secret;
            assert!(!secrets.contains(&secret), "{other:?}");
            secrets.push(secret);
        }
    }

    /// Shows: F-6
    #[test]
    fn every_field_of_a_transfer_changes_its_keys_and_no_handoff_has_them() {
        let (source, destination) = secrets();
        let base = TransferContext {
            mesh: MeshId::new([1; 32]),
            transfer: TransferId::new([3; 16]),
            offer: Hash::of(b"offer"),
            source: DeviceId::new([4; 32]),
            destination: DeviceId::new([5; 32]),
            source_exchange_key: source.public(),
            destination_exchange_key: destination.public(),
        };
        let derive = |context: &TransferContext| {
            let ours = HandoffKeys::derive_for_files(&source, &destination.public(), context).unwrap();
            let theirs = HandoffKeys::derive_for_files(&destination, &source.public(), context).unwrap();
            assert_eq!(ours.secret, theirs.secret);
            ours.secret
        };
        let others = [
            TransferContext { mesh: MeshId::new([9; 32]), ..base.clone() },
            TransferContext { transfer: TransferId::new([9; 16]), ..base.clone() },
            TransferContext { offer: Hash::of(b"another"), ..base.clone() },
            TransferContext { source: DeviceId::new([9; 32]), ..base.clone() },
            TransferContext { destination: DeviceId::new([9; 32]), ..base.clone() },
            TransferContext { source: base.destination, destination: base.source, ..base.clone() },
            TransferContext {
                source_exchange_key: base.destination_exchange_key,
                destination_exchange_key: base.source_exchange_key,
                ..base.clone()
            },
        ];
        let of_handoff = HandoffKeys::derive(&source, &destination.public(), &context()).unwrap().secret;
        let mut secrets = vec![derive(&base), of_handoff];
        for other in others {
            let secret = derive(&other);
            assert!(!secrets.contains(&secret), "{other:?}");
            secrets.push(secret);
        }
        let stranger = ExchangeSecret::from_random([3; 32]);
        let foreign = HandoffKeys::derive_for_files(&source, &stranger.public(), &base).map(|_| ());
        assert_eq!(foreign, Err(ExchangeError::ForeignKeys));
    }

    /// Shows: S-3
    #[test]
    fn keys_that_the_context_does_not_name_are_refused() {
        let (source, destination) = secrets();
        let stranger = ExchangeSecret::from_random([3; 32]);
        let derive =
            |secret, peer: &ExchangeSecret| HandoffKeys::derive(secret, &peer.public(), &context()).map(|_| ());
        assert_eq!(derive(&source, &stranger), Err(ExchangeError::ForeignKeys));
        assert_eq!(derive(&stranger, &destination), Err(ExchangeError::ForeignKeys));
        assert_eq!(derive(&source, &source), Err(ExchangeError::ForeignKeys), "reflected key");
    }

    /// Shows: S-3
    #[test]
    fn key_of_low_order_is_refused() {
        let (source, _) = secrets();
        for low in LOW_ORDER {
            let mut context = context();
            context.destination_exchange_key = *low.parse::<DeviceId>().unwrap().as_bytes();
            let peer = context.destination_exchange_key;
            assert_eq!(
                HandoffKeys::derive(&source, &peer, &context).map(|_| ()),
                Err(ExchangeError::LowOrder),
                "{low}"
            );
        }
    }

    #[test]
    fn exchange_is_that_of_rfc_7748() {
        let alice =
            ExchangeSecret::from_random(hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"));
        let bob = ExchangeSecret::from_random(hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
        assert_eq!(alice.public(), hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
        assert_eq!(bob.public(), hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
        let shared = alice.0.diffie_hellman(&PublicKey::from(bob.public()));
        assert_eq!(*shared.as_bytes(), hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"));
    }

    #[test]
    fn expansion_is_that_of_rfc_5869() {
        let salt: Vec<u8> = (0..=12).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        let output = expand::<42>(&salt, &[0x0b; 22], &info);
        assert_eq!(output[..32], hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
        assert_eq!(output[32..], [0x34, 0x00, 0x72, 0x08, 0xd5, 0xb8, 0x87, 0x18, 0x58, 0x65]);
    }

    /// Shows: S-9
    #[test]
    fn debug_shows_no_secret() {
        let (source, destination) = secrets();
        let keys = HandoffKeys::derive(&source, &destination.public(), &context()).unwrap();
        let stream = keys.stream(3);
        assert_eq!(format!("{source:?}"), "ExchangeSecret(..)");
        assert_eq!(format!("{keys:?}"), "HandoffKeys { handoff: HandoffId(03030303), .. }");
        assert_eq!(format!("{stream:?}"), "StreamKeys { handoff: HandoffId(03030303), number: 3, .. }");
    }

    /// Points whose multiples are known to everybody. Source: RFC 7748, 7; the list is that of cr.yp.to/ecdh.html.
    const LOW_ORDER: [&str; 5] = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];

    fn hex(text: &str) -> [u8; 32] {
        *text.parse::<DeviceId>().unwrap().as_bytes()
    }

    fn secrets() -> (ExchangeSecret, ExchangeSecret) {
        (ExchangeSecret::from_random([1; 32]), ExchangeSecret::from_random([2; 32]))
    }

    fn context() -> HandoffContext {
        let (source, destination) = secrets();
        HandoffContext {
            mesh: MeshId::new([1; 32]),
            session: SessionId::new([2; 16]),
            handoff: HandoffId::new([3; 16]),
            source: DeviceId::new([4; 32]),
            destination: DeviceId::new([5; 32]),
            token: FencingToken::FIRST,
            source_exchange_key: source.public(),
            destination_exchange_key: destination.public(),
        }
    }
}
