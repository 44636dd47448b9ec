//! Identities. Each is a type of its own; none is an alias of another.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that should be an identity is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {kind}: expected {digits} hexadecimal digits")]
pub struct ParseIdError {
    kind: &'static str,
    digits: usize,
}

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// Wraps the bytes.
            pub const fn new(bytes: [u8; $bytes]) -> Self {
                Self(bytes)
            }

            /// The bytes.
            pub const fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }

            /// The first eight hexadecimal digits, for people.
            pub fn short(&self) -> String {
                hex(&self.0[..4])
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.short())
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let error = ParseIdError { kind: $kind, digits: 2 * $bytes };
                let mut bytes = [0; $bytes];
                unhex(text, &mut bytes).ok_or(error)?;
                Ok(Self(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
                } else {
                    <[u8; $bytes]>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

identity!(
    /// A device: BLAKE3 of its first identity key under a domain of its own. It is not the key.
    DeviceId, 32, "device id"
);
identity!(
    /// The ed25519 public key that a device signs with.
    DeviceKey, 32, "device key"
);
identity!(
    /// A session, the same on every device: derived from the agent and the agent's own id for it.
    SessionId, 16, "session id"
);
identity!(
    /// One attempt to hand a session over. Random, never reused.
    HandoffId, 16, "handoff id"
);
identity!(
    /// A mesh of paired devices: BLAKE3 of its first membership entry.
    MeshId, 32, "mesh id"
);
identity!(
    /// A chunk of content: BLAKE3 of its bytes.
    ChunkId, 32, "chunk id"
);
identity!(
    /// A BLAKE3 digest of anything else.
    Hash, 32, "hash"
);
identity!(
    /// One life of a data directory. A restored copy meets another one and does not act.
    Incarnation, 16, "incarnation"
);
identity!(
    /// One connection of a peer. Random: a yes on it is none on another.
    ConnectionId, 16, "connection id"
);
identity!(
    /// One sending of files to one device. Random, never reused.
    TransferId, 16, "transfer id"
);
identity!(
    /// A question that waits for the operator.
    ApprovalId, 8, "approval id"
);
identity!(
    /// One showing of a question to another device, on one connection. Random, answered once.
    ShowingId, 16, "showing id"
);

impl DeviceKey {
    /// The device whose first identity key this is.
    pub fn device(&self) -> DeviceId {
        DeviceId(blake3::derive_key("cede/1 device id", &self.0))
    }
}

impl ChunkId {
    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl Hash {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}

fn digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

fn unhex(text: &str, into: &mut [u8]) -> Option<()> {
    if text.len() != 2 * into.len() || !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    for (byte, pair) in into.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_text_is_read_back() {
        let id = HandoffId::new([0xa7; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("A7".repeat(16).parse::<HandoffId>().is_err(), "upper case is not canonical");
        assert!("a7".parse::<HandoffId>().is_err());
    }

    /// Shows: P-8
    #[test]
    fn device_id_is_not_the_key() {
        let key = DeviceKey::new([1; 32]);
        assert_ne!(key.device().as_bytes(), key.as_bytes());
    }

    #[test]
    fn id_of_another_length_or_with_another_digit_is_none() {
        for digits in 0..40 {
            assert_eq!("a".repeat(digits).parse::<HandoffId>().is_ok(), digits == 32, "{digits}");
        }
        for other in ["/", ":", "`", "g", "+", " "] {
            assert!(format!("{}{other}", "0".repeat(31)).parse::<HandoffId>().is_err(), "{other}");
        }
        let id = ApprovalId::new([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        assert_eq!(("0123456789abcdef".parse(), id.short().as_str()), (Ok(id), "01234567"));
        assert_eq!(format!("{id} {id:?}"), "0123456789abcdef ApprovalId(01234567)");
    }
}
