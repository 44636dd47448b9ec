//! This device's identity key.

use core::fmt;

use cede_wire::canonical::{Signable, Signed, encode};
use cede_wire::id::{DeviceId, DeviceKey};
use ed25519_dalek::{Signer, SigningKey};
use zeroize::Zeroizing;

/// The value names another device as its signer. Nothing was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value is to be signed by another device: {0}")]
pub struct NotTheSigner(pub DeviceId);

/// The device that we are, with its secret. Erased from memory when dropped; share it in an `Arc`.
pub struct LocalDevice {
    signing: SigningKey,
    key: DeviceKey,
    device: DeviceId,
}

impl LocalDevice {
    /// Makes the device from its secret: 32 bytes from the operating system's generator, or from the key file.
    pub fn from_secret(secret: &[u8; 32]) -> Self {
        let signing = SigningKey::from_bytes(secret);
        let key = DeviceKey::new(signing.verifying_key().to_bytes());
        Self { signing, key, device: key.device() }
    }

    /// The secret, for the key file and nothing else.
    pub fn secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.signing.to_bytes())
    }

    /// The public key.
    pub fn key(&self) -> DeviceKey {
        self.key
    }

    /// The id.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The secret as PKCS#8, version 1, for the TLS stack. Source: RFC 8410, 7.
    pub fn pkcs8_der(&self) -> Zeroizing<Vec<u8>> {
        let mut der = Zeroizing::new(Vec::with_capacity(PKCS8_PREFIX.len() + 32));
        der.extend_from_slice(&PKCS8_PREFIX);
        der.extend_from_slice(self.secret().as_slice());
        der
    }

    /// Signs a value of which this device is the signer. Source: SPEC S-1.
    ///
    /// # Errors
    /// [`NotTheSigner`]; nothing was signed.
    pub fn sign<T: Signable>(&self, value: &T) -> Result<Signed<T>, NotTheSigner> {
        let signer = value.signer();
        if signer != self.device {
            return Err(NotTheSigner(signer));
        }
        let bytes = encode(value);
        let signature = self.signing.sign(&covered(T::DOMAIN, &bytes)).to_bytes();
        Ok(Signed::from_parts(bytes, self.key, signature))
    }
}

impl fmt::Debug for LocalDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalDevice").field("device", &self.device).finish_non_exhaustive()
    }
}

/// What a signature covers: domain and bytes, each after its length, so that no two pairs look alike.
pub(crate) fn covered(domain: &str, bytes: &[u8]) -> Vec<u8> {
    let mut covered = Vec::with_capacity(16 + domain.len() + bytes.len());
    for part in [domain.as_bytes(), bytes] {
        covered.extend_from_slice(&(part.len() as u64).to_le_bytes());
        covered.extend_from_slice(part);
    }
    covered
}

/// `SEQUENCE { INTEGER 0, SEQUENCE { OID 1.3.101.112 }, OCTET STRING { OCTET STRING { secret } } }` up to the secret.
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
