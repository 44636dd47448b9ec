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
    let key = VerifyingKey::from_bytes(signed.key().as_bytes()).map_err(|_| VerifyError::Key)?;
    if key.is_weak() {
        return Err(VerifyError::Key);
    }
    let signature = Signature::from_bytes(signed.signature());
    let covered = covered(T::DOMAIN, signed.bytes());
    key.verify_strict(&covered, &signature).map_err(|_| VerifyError::Signature)?;
    let value: T = decode(signed.bytes())?;
    let (named, by) = (value.signer(), signed.key().device());
    if named != by {
        return Err(VerifyError::WrongSigner { named, by });
    }
    Ok(Verified { value, signed: Signed::from_parts(signed.bytes().to_vec(), *signed.key(), *signed.signature()) })
}
