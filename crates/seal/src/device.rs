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

#[cfg(test)]
mod tests {
    use cede_wire::id::DeviceId;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        by: DeviceId,
        text: String,
    }

    impl Signable for Note {
        const DOMAIN: &'static str = "cede/1 test note";

        fn signer(&self) -> DeviceId {
            self.by
        }
    }

    /// Shows: S-2
    #[test]
    fn value_for_another_device_is_not_signed() {
        let device = LocalDevice::from_secret(&[7; 32]);
        let other = DeviceId::new([9; 32]);
        let note = Note { by: other, text: "hello".into() };
        assert_eq!(device.sign(&note), Err(NotTheSigner(other)));
    }

    /// Shows: P-8
    #[test]
    fn secret_comes_back_and_names_the_same_device() {
        let device = LocalDevice::from_secret(&[7; 32]);
        let again = LocalDevice::from_secret(&device.secret());
        assert_eq!((again.key(), again.device()), (device.key(), device.device()));
        assert_eq!(device.device(), device.key().device());
    }

    #[test]
    fn keys_and_signatures_are_those_of_rfc_8032() {
        let device = LocalDevice::from_secret(&hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"));
        assert_eq!(device.key().to_string(), "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
        let signature = device.signing.sign(&[0x72]).to_bytes();
        let (low, high) = signature.split_at(32);
        assert_eq!(low, hex("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"));
        assert_eq!(high, hex("085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"));
    }

    #[test]
    fn private_key_file_is_that_of_rfc_8410() {
        let secret = hex("d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842");
        let der = LocalDevice::from_secret(&secret).pkcs8_der();
        assert_eq!(der[..16], hex("302e020100300506032b657004220420d4ee72dbf913584ad5b6d8f1f769f8ad")[..16]);
        assert_eq!((der.len(), &der[16..]), (48, &secret[..]));
    }

    /// Shows: S-1
    #[test]
    fn domain_and_bytes_cannot_run_into_each_other() {
        assert_ne!(covered("ab", b"c"), covered("a", b"bc"));
        assert_eq!(covered("a", b"bc"), b"\x01\0\0\0\0\0\0\0a\x02\0\0\0\0\0\0\0bc");
    }

    /// Shows: S-9
    #[test]
    fn debug_shows_no_secret() {
        let device = LocalDevice::from_secret(&[7; 32]);
        assert_eq!(format!("{device:?}"), "LocalDevice { device: DeviceId(00f61ff9), .. }");
    }

    fn hex(text: &str) -> [u8; 32] {
        *text.parse::<DeviceId>().unwrap().as_bytes()
    }
}
