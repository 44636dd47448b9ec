//! A device's key as TLS carries it: a raw public key, no certificate. Source: RFC 7250, RFC 8410.

use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_wire::id::DeviceKey;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

/// The local key and the one crypto provider, ready for a handshake.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl Identity {
    pub(crate) fn of(device: &LocalDevice) -> Result<Self, rustls::Error> {
        let secret = device.pkcs8_der();
        let signer = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(secret.as_slice()))?;
        let public = CertificateDer::from(spki(&device.key()).to_vec());
        let certified = Arc::new(CertifiedKey::new(vec![public], signer));
        Ok(Self { certified, provider: Arc::new(ring::default_provider()) })
    }
}

/// The key as a SubjectPublicKeyInfo.
fn spki(key: &DeviceKey) -> [u8; SPKI_BYTES] {
    let mut spki = [0; SPKI_BYTES];
    let (prefix, tail) = spki.split_at_mut(SPKI_PREFIX.len());
    prefix.copy_from_slice(&SPKI_PREFIX);
    tail.copy_from_slice(key.as_bytes());
    spki
}

/// The key in a SubjectPublicKeyInfo; none when it is anything but an ed25519 key.
pub(crate) fn key_in(spki: &[u8]) -> Option<DeviceKey> {
    let key = spki.strip_prefix(&SPKI_PREFIX)?;
    key.try_into().ok().map(DeviceKey::new)
}

/// `SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING { key } }` up to the key.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const SPKI_BYTES: usize = SPKI_PREFIX.len() + 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_found_in_its_own_spki_and_in_no_other() {
        let key = DeviceKey::new([7; 32]);
        let spki = spki(&key);
        assert_eq!(key_in(&spki), Some(key));
        assert_eq!(key_in(&spki[..43]), None, "too short");
        assert_eq!(key_in(&[&spki[..], &[0]].concat()), None, "too long");
        let mut x25519 = spki;
        x25519[8] = 0x6e;
        assert_eq!(key_in(&x25519), None, "another algorithm");
    }
}
