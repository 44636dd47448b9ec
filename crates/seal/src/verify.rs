//! From bytes that somebody sent to a value that somebody signed.

use core::ops::Deref;

use cede_wire::canonical::{DecodeError, Signable, Signed, decode};
use cede_wire::id::{DeviceId, DeviceKey};
use ed25519_dalek::{Signature, VerifyingKey};

use crate::device::covered;
use crate::limits::SIGNED_BYTES;

/// Why a signed value is not one. Nothing was kept of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// Longer than anything that is signed; the bytes were not looked at.
    #[error("the signed bytes are too long: {0}")]
    TooLong(usize),
    /// The key is no point of the curve, or one of the few that would verify anything.
    #[error("the signing key is not a usable ed25519 key")]
    Key,
    /// The signature does not cover these bytes in this role under this key.
    #[error("the signature does not verify")]
    Signature,
    /// The signature holds, but what was signed is no canonical value of the type.
    #[error("the signed bytes do not decode")]
    Decode(#[from] DecodeError),
    /// The value names one device as its signer, and another one signed it.
    #[error("signed by {by}, but the value is for {named} to sign")]
    WrongSigner {
        /// Whom the value names.
        named: DeviceId,
        /// Whose key it is.
        by: DeviceId,
    },
}

/// A value whose signature holds. Only [`verify`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified<T> {
    value: T,
    signed: Signed<T>,
}

impl<T> Verified<T> {
    /// The value as it was signed, for the journal and for other devices.
    pub fn signed(&self) -> &Signed<T> {
        &self.signed
    }

    /// The key that signed.
    pub fn key(&self) -> &DeviceKey {
        self.signed.key()
    }

    /// Gives up the evidence.
    pub fn into_parts(self) -> (T, Signed<T>) {
        (self.value, self.signed)
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Checks the signature first, then decodes, then checks that the right device signed. Source: SPEC S-1, S-2.
///
/// # Errors
/// [`VerifyError`]; nothing is kept, and nothing was parsed unless the signature holds.
pub fn verify<T: Signable>(signed: &Signed<T>) -> Result<Verified<T>, VerifyError> {
    if signed.bytes().len() > SIGNED_BYTES {
        return Err(VerifyError::TooLong(signed.bytes().len()));
    }
    holds(signed.key().as_bytes(), &covered(T::DOMAIN, signed.bytes()), signed.signature())?;
    let value: T = decode(signed.bytes())?;
    let (named, by) = (value.signer(), signed.key().device());
    if named != by {
        return Err(VerifyError::WrongSigner { named, by });
    }
    Ok(Verified { value, signed: Signed::from_parts(signed.bytes().to_vec(), *signed.key(), *signed.signature()) })
}

/// Checks a signature over bytes: no weak key, no second spelling of a signature, no point of low order in it.
pub(crate) fn holds(key: &[u8; 32], covered: &[u8], signature: &[u8; 64]) -> Result<(), VerifyError> {
    let key = VerifyingKey::from_bytes(key).map_err(|_| VerifyError::Key)?;
    if key.is_weak() {
        return Err(VerifyError::Key);
    }
    key.verify_strict(covered, &Signature::from_bytes(signature)).map_err(|_| VerifyError::Signature)
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Deserializer, Serialize};

    use super::*;
    use crate::device::LocalDevice;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Note {
        by: DeviceId,
        count: u32,
    }

    impl Signable for Note {
        const DOMAIN: &'static str = "cede/1 test note";

        fn signer(&self) -> DeviceId {
            self.by
        }
    }

    /// Shows: S-1
    #[test]
    fn signed_value_verifies_and_keeps_its_bytes() {
        let signed = signed();
        let verified = verify(&signed).unwrap();
        assert_eq!(verified.count, 5);
        assert_eq!(verified.signed(), &signed);
        assert_eq!(verified.key(), &device().key());
        assert_eq!(verified.into_parts(), (Note { by: device().device(), count: 5 }, signed));
    }

    /// Shows: S-1
    #[test]
    fn every_changed_bit_is_refused() {
        let signed = signed();
        let step = if cfg!(miri) { 101 } else { 1 };
        for bit in (0..signed.bytes().len() * 8).step_by(step) {
            let mut bytes = signed.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let changed = Signed::<Note>::from_parts(bytes, *signed.key(), *signed.signature());
            assert_eq!(verify(&changed), Err(VerifyError::Signature));
        }
        for bit in (0..512).step_by(step) {
            let mut signature = *signed.signature();
            signature[bit / 8] ^= 1 << (bit % 8);
            let changed = Signed::<Note>::from_parts(signed.bytes().to_vec(), *signed.key(), signature);
            assert_eq!(verify(&changed), Err(VerifyError::Signature));
        }
    }

    /// Shows: S-1
    #[test]
    fn signature_of_another_type_is_refused() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Order(Note);
        impl Signable for Order {
            const DOMAIN: &'static str = "cede/1 test order";
            fn signer(&self) -> DeviceId {
                self.0.by
            }
        }
        let note = signed();
        let order = Signed::<Order>::from_parts(note.bytes().to_vec(), *note.key(), *note.signature());
        assert_eq!(verify(&order), Err(VerifyError::Signature));
    }

    /// Shows: S-2
    #[test]
    fn value_that_names_another_device_is_refused() {
        let other = DeviceId::new([9; 32]);
        let signed = sign_bytes(&cede_wire::canonical::encode(&Note { by: other, count: 5 }));
        let by = device().device();
        assert_eq!(verify(&signed), Err(VerifyError::WrongSigner { named: other, by }));
    }

    /// Shows: S-1
    #[test]
    fn other_encoding_of_the_value_is_refused() {
        let mut bytes = signed().bytes().to_vec();
        assert_eq!(bytes.pop(), Some(5));
        bytes.extend_from_slice(&[0x85, 0]);
        let error = VerifyError::Decode(DecodeError::NotCanonical("Note"));
        assert_eq!(verify(&sign_bytes(&bytes)), Err(error));
        bytes.push(0);
        assert!(matches!(verify(&sign_bytes(&bytes)), Err(VerifyError::Decode(_))), "bytes after the value");
    }

    /// Shows: S-1
    #[test]
    fn key_under_which_anything_verifies_is_refused() {
        let mut identity = [0; 32];
        identity[0] = 1;
        let mut signature = [0; 64];
        signature[0] = 1;
        let forged = Signed::<Note>::from_parts(signed().bytes().to_vec(), DeviceKey::new(identity), signature);
        assert_eq!(verify(&forged), Err(VerifyError::Key));
        let mut no_point = [0; 32];
        no_point[0] = 2;
        let forged = Signed::<Note>::from_parts(signed().bytes().to_vec(), DeviceKey::new(no_point), signature);
        assert_eq!(verify(&forged), Err(VerifyError::Key));
    }

    /// Shows: S-1
    #[test]
    fn signature_with_a_second_spelling_is_refused() {
        // S + L: the same scalar, written with the group's order added.
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let signed = signed();
        let mut signature = *signed.signature();
        let mut carry = 0;
        for (digit, add) in signature[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*digit) + u16::from(add) + carry;
            *digit = sum as u8;
            carry = sum >> 8;
        }
        let other = Signed::<Note>::from_parts(signed.bytes().to_vec(), *signed.key(), signature);
        assert_eq!(verify(&other), Err(VerifyError::Signature));
    }

    /// Shows: S-1
    #[test]
    fn nothing_is_parsed_before_the_signature_holds() {
        #[derive(Debug, PartialEq, Serialize)]
        struct Trap;
        impl<'de> Deserialize<'de> for Trap {
            fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                panic!("parsed")
            }
        }
        impl Signable for Trap {
            const DOMAIN: &'static str = "cede/1 test trap";
            fn signer(&self) -> DeviceId {
                device().device()
            }
        }
        let note = signed();
        let trap = Signed::<Trap>::from_parts(note.bytes().to_vec(), *note.key(), *note.signature());
        assert_eq!(verify(&trap), Err(VerifyError::Signature));
    }

    /// Shows: S-1
    #[test]
    fn bytes_over_the_limit_are_not_looked_at() {
        let note = signed();
        let long = Signed::<Note>::from_parts(vec![0; SIGNED_BYTES + 1], *note.key(), *note.signature());
        assert_eq!(verify(&long), Err(VerifyError::TooLong(SIGNED_BYTES + 1)));
        let longest = Signed::<Note>::from_parts(vec![0; SIGNED_BYTES], *note.key(), *note.signature());
        assert_eq!(verify(&longest), Err(VerifyError::Signature));
    }

    fn device() -> LocalDevice {
        LocalDevice::from_secret(&[7; 32])
    }

    fn signed() -> Signed<Note> {
        device().sign(&Note { by: device().device(), count: 5 }).unwrap()
    }

    fn sign_bytes(bytes: &[u8]) -> Signed<Note> {
        use ed25519_dalek::{Signer, SigningKey};
        let signature = SigningKey::from_bytes(&[7; 32]).sign(&covered(Note::DOMAIN, bytes)).to_bytes();
        Signed::from_parts(bytes.to_vec(), device().key(), signature)
    }
}
