//! Who belongs to a mesh: a hash-linked log of signed entries.

use serde::{Deserialize, Serialize};

use crate::canonical::Signable;
use crate::id::{DeviceId, DeviceKey, Hash};

/// What a paired device may ask for. Source: SPEC P-6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// 0: see that this device is there.
    Presence,
    /// 1: send messages.
    Message,
    /// 2: delegate tasks.
    Delegate,
    /// 3: send files.
    File,
    /// 4: hand sessions over, and ask for them.
    Handoff,
    /// 5: watch sessions.
    Observe,
    /// 6: drive sessions.
    Drive,
}

impl Capability {
    /// Every capability, in the order of its number.
    pub const ALL: [Self; 7] =
        [Self::Presence, Self::Message, Self::Delegate, Self::File, Self::Handoff, Self::Observe, Self::Drive];

    /// The name in commands and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Presence => "presence",
            Self::Message => "message",
            Self::Delegate => "delegate",
            Self::File => "file",
            Self::Handoff => "handoff",
            Self::Observe => "observe",
            Self::Drive => "drive",
        }
    }
}

/// A device as the mesh knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its signing key; its id follows from it.
    pub key: DeviceKey,
    /// Its name, at most [`crate::limits::DEVICE_NAME_CHARS`] characters of `a-z 0-9 - .`.
    pub name: String,
    /// What it may ask of the others, strictly ascending.
    pub capabilities: Vec<Capability>,
}

impl Member {
    /// Its id.
    pub fn device(&self) -> DeviceId {
        self.key.device()
    }
}

/// What an entry changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberChange {
    /// 0: the mesh begins with this device, which is trusted by being first.
    Genesis {
        /// The first device.
        first: Member,
        /// Random, so that two meshes of one device differ.
        nonce: [u8; 16],
    },
    /// 1: a device joins.
    Add(Member),
    /// 2: a device leaves for good.
    Remove(DeviceId),
}

/// One entry of the membership log. The hash of the first one is the mesh id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberEntry {
    /// Position, from 0.
    pub index: u64,
    /// Hash of the entry before; none for the first.
    pub prev: Option<Hash>,
    /// The administrator that signs.
    pub by: DeviceId,
    /// The change.
    pub change: MemberChange,
}

impl Signable for MemberEntry {
    const DOMAIN: &'static str = "cede/1 member";

    fn signer(&self) -> DeviceId {
        self.by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{of_zeros, table};

    /// Shows: P-6
    #[test]
    fn capability_is_called_as_its_number_is() {
        let table = table("Capabilities");
        assert_eq!(
            Capability::ALL.map(Capability::name).to_vec(),
            table.iter().map(|(_, name)| *name).collect::<Vec<_>>()
        );
        for (number, name) in table {
            assert_eq!(of_zeros::<Capability>(number).map(Capability::name), Some(name));
        }
        assert_eq!(of_zeros::<Capability>(Capability::ALL.len() as u16), None);
    }
}
