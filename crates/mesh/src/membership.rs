//! The membership log: what every device of a mesh agrees the mesh is.

use std::collections::{BTreeMap, BTreeSet};

use cede_seal::device::{LocalDevice, NotTheSigner};
use cede_seal::verify::{VerifyError, verify};
use cede_wire::canonical::Signed;
use cede_wire::id::{DeviceId, Hash, MeshId};
use cede_wire::member::{Capability, Member, MemberChange, MemberEntry};

use crate::limits::LOG_ENTRIES;
use crate::name::{free, is_name};

/// Why entries were not taken into the log. The log is as before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// No entry at all: there is no mesh without a first one.
    #[error("the membership log is empty")]
    Empty,
    /// The log has as many entries as it may.
    #[error("the membership log is full: {LOG_ENTRIES} entries")]
    Full,
    /// The signature of an entry does not hold.
    #[error("membership entry {index} is forged")]
    Forged {
        /// Which one, counted in the log.
        index: u64,
        /// What is wrong with it.
        #[source]
        error: VerifyError,
    },
    /// Signed, but not by the administrator.
    #[error("membership entry {index} is not signed by the administrator but by {by}")]
    NotAdministrator {
        /// Which one.
        index: u64,
        /// Who signed.
        by: DeviceId,
    },
    /// An entry stands in the wrong place, or some are missing before it.
    #[error("membership entry {found} comes where entry {expected} belongs")]
    OutOfOrder {
        /// The place.
        expected: u64,
        /// The entry.
        found: u64,
    },
    /// The first entry belongs to another mesh.
    #[error("the membership log belongs to another mesh: {theirs}")]
    ForeignMesh {
        /// The other mesh.
        theirs: MeshId,
    },
    /// The administrator signed two different entries for one place. Nothing after it can be trusted until a person
    /// has looked: the administrator's key was copied, or its disk was set back.
    #[error("the membership log forks at entry {index}: {ours} here, {theirs} there")]
    Fork {
        /// The place.
        index: u64,
        /// The entry that this log holds.
        ours: Hash,
        /// The entry that was offered.
        theirs: Hash,
    },
    /// A first entry that is not a beginning, or a beginning that is not first.
    #[error("membership entry {index} does not begin the mesh where it should, or does where it should not")]
    Genesis {
        /// Which one.
        index: u64,
    },
    /// A device's name is not plain, or another member has it.
    #[error("the device name is not free or not of `a-z 0-9 - .`: {0}")]
    Name(String),
    /// Capabilities are not in order or named twice.
    #[error("the capabilities of a device are not in ascending order")]
    Capabilities,
    /// The device already is a member.
    #[error("the device already belongs to the mesh: {0}")]
    AlreadyMember(DeviceId),
    /// The device was removed, and that is for good.
    #[error("the device was removed from the mesh for good: {0}")]
    Removed(DeviceId),
    /// The device is not a member.
    #[error("the device does not belong to the mesh: {0}")]
    NotMember(DeviceId),
    /// Without its administrator nobody could change the mesh.
    #[error("the administrator can not be removed")]
    AdministratorStays,
    /// This device is not the administrator; nothing was signed.
    #[error("only the administrator changes the mesh: {0}")]
    Unauthorized(DeviceId),
}

impl LogError {
    fn not_the_signer(error: NotTheSigner) -> Self {
        Self::Unauthorized(error.0)
    }
}

/// A verified membership log. Its first device is the administrator. Source: SPEC P-5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipLog {
    mesh: MeshId,
    entries: Vec<Signed<MemberEntry>>,
    roll: Roll,
}

impl MembershipLog {
    /// Begins a mesh with this device as its first and its administrator. `nonce` is random.
    ///
    /// # Errors
    /// [`LogError::Name`]; there is no mesh.
    pub fn genesis(own: &LocalDevice, name: &str, nonce: [u8; 16]) -> Result<Self, LogError> {
        let first = Member { key: own.key(), name: name.to_owned(), capabilities: CAPABILITIES.to_vec() };
        let change = MemberChange::Genesis { first, nonce };
        let entry = MemberEntry { index: 0, prev: None, by: own.device(), change };
        let signed = own.sign(&entry).map_err(LogError::not_the_signer)?;
        Self::from_entries(&[signed])
    }

    /// Reads a whole log.
    ///
    /// # Errors
    /// [`LogError`]; there is no log.
    pub fn from_entries(entries: &[Signed<MemberEntry>]) -> Result<Self, LogError> {
        let (first, rest) = entries.split_first().ok_or(LogError::Empty)?;
        let entry = verify(first).map_err(|error| LogError::Forged { index: 0, error })?;
        let roll = Roll::begin(&entry)?;
        let mesh = MeshId::new(*first.hash().as_bytes());
        let mut log = Self { mesh, entries: vec![first.clone()], roll };
        log.extend(rest)?;
        Ok(log)
    }

    /// Takes entries that follow the log; those that it already holds must be the same. All or none are taken. Gives
    /// how many are new.
    ///
    /// # Errors
    /// [`LogError`]; the log is as before.
    pub fn extend(&mut self, entries: &[Signed<MemberEntry>]) -> Result<usize, LogError> {
        let mut longer = self.clone();
        for signed in entries {
            longer.take(signed)?;
        }
        let new = longer.entries.len() - self.entries.len();
        *self = longer;
        Ok(new)
    }

    /// Signs and takes an entry that adds a device. A name that is taken gets a number.
    ///
    /// # Errors
    /// [`LogError`]; nothing was added.
    pub fn add(&mut self, own: &LocalDevice, mut member: Member) -> Result<Signed<MemberEntry>, LogError> {
        member.name = free(&member.name, |name| self.roll.named(name).is_some());
        self.append(own, MemberChange::Add(member))
    }

    /// Signs and takes an entry that removes a device for good.
    ///
    /// # Errors
    /// [`LogError`]; nothing was removed.
    pub fn remove(&mut self, own: &LocalDevice, device: DeviceId) -> Result<Signed<MemberEntry>, LogError> {
        self.append(own, MemberChange::Remove(device))
    }

    /// The mesh: the hash of the first entry.
    pub fn mesh(&self) -> MeshId {
        self.mesh
    }

    /// The one device that signs entries.
    pub fn administrator(&self) -> DeviceId {
        self.roll.administrator
    }

    /// How many entries there are.
    pub fn length(&self) -> u64 {
        self.entries.len() as u64
    }

    /// All entries, for a new device.
    pub fn entries(&self) -> &[Signed<MemberEntry>] {
        &self.entries
    }

    /// The entries that a device with the first `count` lacks.
    pub fn entries_after(&self, count: u64) -> &[Signed<MemberEntry>] {
        usize::try_from(count).ok().and_then(|count| self.entries.get(count..)).unwrap_or_default()
    }

    /// The members, by id.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.roll.members.values()
    }

    /// Who belonged after each entry, from the first on: what a seize names by the length of the log.
    pub fn history(&self) -> Vec<BTreeSet<DeviceId>> {
        let mut members = BTreeSet::new();
        let after = |entry: &Signed<MemberEntry>| {
            match verify(entry).map(|entry| entry.into_parts().0.change) {
                Ok(MemberChange::Genesis { first: member, .. } | MemberChange::Add(member)) => {
                    members.insert(member.device());
                }
                Ok(MemberChange::Remove(device)) => {
                    members.remove(&device);
                }
                // None stands in a log that was not verified.
                Err(_) => {}
            }
            members.clone()
        };
        self.entries.iter().map(after).collect()
    }

    /// The member with this id.
    pub fn member(&self, device: &DeviceId) -> Option<&Member> {
        self.roll.members.get(device)
    }

    /// The member with this name.
    pub fn member_named(&self, name: &str) -> Option<&Member> {
        self.roll.named(name)
    }

    /// Whether the device belongs to the mesh.
    pub fn is_member(&self, device: &DeviceId) -> bool {
        self.roll.members.contains_key(device)
    }

    /// Whether the device belonged to the mesh once and never will again.
    pub fn was_removed(&self, device: &DeviceId) -> bool {
        self.roll.removed.contains_key(device)
    }

    /// The devices that were removed, by id.
    pub fn removed(&self) -> impl Iterator<Item = &DeviceId> {
        self.roll.removed.keys()
    }

    /// What a device is called that is a member, or was one.
    pub fn name_of(&self, device: &DeviceId) -> Option<&str> {
        let member = self.member(device).or_else(|| self.roll.removed.get(device));
        member.map(|member| member.name.as_str())
    }

    fn append(&mut self, own: &LocalDevice, change: MemberChange) -> Result<Signed<MemberEntry>, LogError> {
        let entry = MemberEntry { index: self.length(), prev: Some(self.head()), by: self.administrator(), change };
        let signed = own.sign(&entry).map_err(LogError::not_the_signer)?;
        self.extend(core::slice::from_ref(&signed))?;
        Ok(signed)
    }

    fn head(&self) -> Hash {
        self.entries.last().map_or(Hash::of(&[]), Signed::hash)
    }

    fn held(&self, index: u64) -> Option<&Signed<MemberEntry>> {
        usize::try_from(index).ok().and_then(|index| self.entries.get(index))
    }

    fn take(&mut self, signed: &Signed<MemberEntry>) -> Result<(), LogError> {
        let index = self.length();
        let entry = verify(signed).map_err(|error| LogError::Forged { index, error })?;
        if self.held(entry.index).is_some_and(|held| held.bytes() == signed.bytes()) {
            return Ok(());
        }
        if entry.index == 0 && matches!(entry.change, MemberChange::Genesis { .. }) {
            return Err(LogError::ForeignMesh { theirs: MeshId::new(*signed.hash().as_bytes()) });
        }
        if entry.by != self.administrator() {
            return Err(LogError::NotAdministrator { index: entry.index, by: entry.by });
        }
        self.follows(&entry, signed.hash())?;
        if self.entries.len() >= LOG_ENTRIES {
            return Err(LogError::Full);
        }
        self.roll.apply(&entry)?;
        self.entries.push(signed.clone());
        Ok(())
    }

    /// The entry is the next one and names the last one. Anything else that the administrator signed is a fork or a gap.
    fn follows(&self, entry: &MemberEntry, theirs: Hash) -> Result<(), LogError> {
        let expected = self.length();
        if let Some(held) = self.held(entry.index) {
            return Err(LogError::Fork { index: entry.index, ours: held.hash(), theirs });
        }
        if entry.index != expected {
            return Err(LogError::OutOfOrder { expected, found: entry.index });
        }
        match entry.prev {
            Some(prev) if prev == self.head() => Ok(()),
            Some(prev) => Err(LogError::Fork { index: expected.saturating_sub(1), ours: self.head(), theirs: prev }),
            None => Err(LogError::Genesis { index: expected }),
        }
    }
}

/// Who belongs, as the entries so far say.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Roll {
    administrator: DeviceId,
    members: BTreeMap<DeviceId, Member>,
    removed: BTreeMap<DeviceId, Member>,
}

impl Roll {
    fn begin(entry: &MemberEntry) -> Result<Self, LogError> {
        let MemberChange::Genesis { first, .. } = &entry.change else {
            return Err(LogError::Genesis { index: entry.index });
        };
        if (entry.index, entry.prev) != (0, None) {
            return Err(LogError::Genesis { index: entry.index });
        }
        let administrator = first.device();
        if entry.by != administrator {
            return Err(LogError::NotAdministrator { index: 0, by: entry.by });
        }
        let mut roll = Self { administrator, members: BTreeMap::new(), removed: BTreeMap::new() };
        roll.add(first)?;
        Ok(roll)
    }

    fn apply(&mut self, entry: &MemberEntry) -> Result<(), LogError> {
        match &entry.change {
            MemberChange::Genesis { .. } => Err(LogError::Genesis { index: entry.index }),
            MemberChange::Add(member) => self.add(member),
            MemberChange::Remove(device) => self.remove(*device),
        }
    }

    fn add(&mut self, member: &Member) -> Result<(), LogError> {
        let device = member.device();
        if self.removed.contains_key(&device) {
            return Err(LogError::Removed(device));
        }
        if self.members.contains_key(&device) {
            return Err(LogError::AlreadyMember(device));
        }
        if !is_name(&member.name) || self.named(&member.name).is_some() {
            return Err(LogError::Name(cede_wire::path::escape(member.name.as_bytes())));
        }
        if !member.capabilities.is_sorted_by(|a, b| a < b) {
            return Err(LogError::Capabilities);
        }
        self.members.insert(device, member.clone());
        Ok(())
    }

    fn remove(&mut self, device: DeviceId) -> Result<(), LogError> {
        if device == self.administrator {
            return Err(LogError::AdministratorStays);
        }
        let member = self.members.remove(&device).ok_or(LogError::NotMember(device))?;
        self.removed.insert(device, member);
        Ok(())
    }

    fn named(&self, name: &str) -> Option<&Member> {
        self.members.values().find(|member| member.name == name)
    }
}

/// Everything that a device may ask, in ascending order: what the first device is given.
pub const CAPABILITIES: [Capability; 7] = [
    Capability::Presence,
    Capability::Message,
    Capability::Delegate,
    Capability::File,
    Capability::Handoff,
    Capability::Observe,
    Capability::Drive,
];

#[cfg(test)]
mod tests;
