//! Canonical bytes: postcard, one encoding per value, a named domain per signed type.

use core::marker::PhantomData;

use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::id::{DeviceId, DeviceKey, Hash};

/// Why bytes are not a value. Nothing was kept of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end early, name an unknown variant or hold an impossible value.
    #[error("the bytes are not a {0}")]
    Malformed(&'static str),
    /// The bytes decode, but another encoding of the same value is the canonical one.
    #[error("the bytes are not the canonical encoding of a {0}")]
    NotCanonical(&'static str),
    /// A list or a text is longer than its limit.
    #[error("too long: {0}")]
    TooLong(&'static str),
}

/// Encodes a value. The encoding of our own types cannot fail; a failure is an empty result, which no decoder accepts.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap_or_default()
}

/// Decodes a value and refuses every encoding but the canonical one.
///
/// # Errors
/// [`DecodeError`]; nothing is kept.
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let name = short_name::<T>();
    let value: T = postcard::from_bytes(bytes).map_err(|_| DecodeError::Malformed(name))?;
    if encodes_to(&value, bytes) { Ok(value) } else { Err(DecodeError::NotCanonical(name)) }
}

/// Whether the encoding of a value is exactly these bytes. It is compared as it comes, never held: a catalog has megabytes.
fn encodes_to<T: Serialize>(value: &T, bytes: &[u8]) -> bool {
    postcard::serialize_with_flavor(value, Compared(bytes)).is_ok_and(|rest| rest.is_empty())
}

/// What is to come. The first other byte is an error.
struct Compared<'a>(&'a [u8]);

impl<'a> postcard::ser_flavors::Flavor for Compared<'a> {
    type Output = &'a [u8];

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0 = self.0.strip_prefix(bytes).ok_or(postcard::Error::SerializeBufferFull)?;
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Self::Output> {
        Ok(self.0)
    }
}

/// Reads a list of at most `MOST` values. A list that says it is longer is refused before memory is taken for it: a few
/// bytes on the wire may be a hundred in memory.
///
/// # Errors
/// What the deserializer says, and more values than `MOST`.
pub fn at_most<'de, const MOST: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_seq(AtMost::<MOST, T>(PhantomData))
}

struct AtMost<const MOST: usize, T>(PhantomData<fn() -> T>);

impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for AtMost<MOST, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "at most {MOST} values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let said = list.size_hint().unwrap_or(0);
        if said > MOST {
            return Err(A::Error::invalid_length(said, &self));
        }
        let mut values = Vec::with_capacity(said.min(AHEAD));
        while let Some(value) = list.next_element()? {
            if values.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            values.push(value);
        }
        values.shrink_to_fit();
        Ok(values)
    }
}

/// Values that memory is taken for before the first of them is there.
const AHEAD: usize = 1_024;

fn short_name<T>() -> &'static str {
    let name = core::any::type_name::<T>();
    name.rsplit("::").next().unwrap_or(name).trim_end_matches('>')
}

/// A type that devices sign.
pub trait Signable: Serialize + DeserializeOwned {
    /// Separates the signatures of this type from those of every other one. Never reused. Source: `proto/NUMBERS.md`.
    const DOMAIN: &'static str;

    /// The device that must have signed it.
    fn signer(&self) -> DeviceId;
}

/// A value as bytes, with the key and the signature that are claimed for it. Unverified: only
/// `cede_seal::verify` turns it into a value to act on.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Signed<T> {
    bytes: Vec<u8>,
    key: DeviceKey,
    signature: SignatureBytes,
    #[serde(skip)]
    of: PhantomData<fn() -> T>,
}

impl<T> Signed<T> {
    /// Puts the parts together. Whether they belong together is for `cede_seal::verify` to say.
    pub fn from_parts(bytes: Vec<u8>, key: DeviceKey, signature: [u8; 64]) -> Self {
        Self { bytes, key, signature: SignatureBytes(signature), of: PhantomData }
    }

    /// The canonical bytes that the signature covers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key that is claimed to have signed.
    pub fn key(&self) -> &DeviceKey {
        &self.key
    }

    /// The signature.
    pub fn signature(&self) -> &[u8; 64] {
        &self.signature.0
    }

    /// BLAKE3 over the signed bytes: how a later record names this one.
    pub fn hash(&self) -> Hash {
        Hash::of(&self.bytes)
    }
}

impl<T> core::fmt::Debug for Signed<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Signed({} {} by {:?})", core::any::type_name::<T>(), self.hash(), self.key.device())
    }
}

#[derive(Clone, PartialEq, Eq)]
struct SignatureBytes([u8; 64]);

impl Serialize for SignatureBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut halves = ([0; 32], [0; 32]);
        halves.0.copy_from_slice(&self.0[..32]);
        halves.1.copy_from_slice(&self.0[32..]);
        halves.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SignatureBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (low, high) = <([u8; 32], [u8; 32])>::deserialize(deserializer)?;
        let mut all = [0; 64];
        all[..32].copy_from_slice(&low);
        all[32..].copy_from_slice(&high);
        Ok(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Three {
        #[serde(deserialize_with = "at_most::<3, _, _>")]
        list: Vec<u8>,
    }

    /// Shows: T-1
    #[test]
    fn longer_list_than_its_limit_is_refused_by_what_it_says() {
        for length in 0..=3 {
            let list = Three { list: vec![7; length] };
            assert_eq!(decode(&encode(&list)), Ok(list));
        }
        // The second says that there are 2^32 and has none.
        for bytes in [&[4, 7, 7, 7, 7][..], &[0x80, 0x80, 0x80, 0x80, 0x10]] {
            assert_eq!(decode::<Three>(bytes), Err(DecodeError::Malformed("Three")));
        }
        // A form that says no length before.
        use serde::de::value::{Error, SeqDeserializer};
        let list = |end| SeqDeserializer::<_, Error>::new((0..end).filter(|_: &u8| true));
        assert_eq!(at_most::<3, u8, _>(list(3)), Ok(vec![0, 1, 2]));
        let longer = |read: Result<Vec<u8>, Error>| read.unwrap_err().to_string();
        assert_eq!(longer(at_most::<3, _, _>(list(4))), "invalid length 4, expected at most 3 values");
        // One that says it.
        let said = SeqDeserializer::new(vec![7_u8; 9].into_iter());
        assert_eq!(longer(at_most::<3, _, _>(said)), "invalid length 9, expected at most 3 values");
    }

    #[test]
    fn list_takes_no_more_memory_than_its_values_need() {
        #[derive(Serialize, Deserialize)]
        struct Long(#[serde(deserialize_with = "at_most::<3_000, _, _>")] Vec<u8>);

        for length in [1, AHEAD, AHEAD + 1] {
            let list: Long = decode(&encode(&Long(vec![7; length]))).unwrap();
            assert_eq!((list.0.len(), list.0.capacity()), (length, length));
        }
    }

    #[test]
    fn signed_value_comes_back_with_every_byte_of_its_parts() {
        let signature: [u8; 64] = core::array::from_fn(|place| place as u8);
        let key = DeviceKey::new([9; 32]);
        let signed = Signed::<Three>::from_parts(vec![1, 7], key, signature);
        let back: Signed<Three> = decode(&encode(&signed)).unwrap();
        assert_eq!((back.bytes(), back.key(), back.signature()), (&[1, 7][..], &key, &signature));
        assert_eq!(back.hash(), Hash::of(&[1, 7]));
        // The wire has the length, the bytes, the key, the signature, and nothing between them.
        assert_eq!(encode(&signed), [&[2, 1, 7][..], key.as_bytes(), &signature].concat());
        let shown = format!("::Three {} by {:?})", signed.hash(), key.device());
        assert!(format!("{signed:?}").ends_with(&shown), "{signed:?}");
    }

    #[test]
    fn other_spelling_of_a_value_is_refused() {
        assert_eq!(decode::<u64>(&[0x80, 0x01]), Ok(128));
        let other = Err(DecodeError::NotCanonical("u64"));
        // A longer number, a number that says more than it needs, and bytes behind a value.
        for bytes in [&[0x81, 0x00][..], &[0x80, 0x81, 0x00], &[0x01, 0x00], &[0x01, 0x01]] {
            assert_eq!(decode::<u64>(bytes), other, "{bytes:?}");
        }
        let list = Three { list: vec![1, 2, 3] };
        let bytes = [encode(&list), vec![0]].concat();
        assert_eq!(decode::<Three>(&bytes), Err(DecodeError::NotCanonical("Three")));
        assert_eq!(decode::<()>(&[]), Ok(()));
    }
}
