//! Who may come in, and what it may ask: a snapshot that the door looks at.

use std::collections::{BTreeMap, BTreeSet};

use cede_wire::id::{DeviceId, DeviceKey};
use cede_wire::member::Capability;

use crate::membership::MembershipLog;

/// Why a key is not let in. A stranger is told the same in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// Not a member, and never one.
    #[error("the device does not belong to the mesh")]
    Stranger,
    /// Removed from the mesh for good.
    #[error("the device was removed from the mesh")]
    Removed,
    /// Still a member, but this device serves it no more.
    #[error("this device serves that device no more")]
    Dropped,
    /// Our own key at another end: a copied data directory.
    #[error("the device has the same key as this one")]
    Ourselves,
}

/// A member that is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Its id.
    pub device: DeviceId,
    /// Its name.
    pub name: String,
    /// What it may ask, in ascending order.
    pub capabilities: Vec<Capability>,
}

impl Admitted {
    /// Whether it may ask this. Source: SPEC P-6.
    pub fn may(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}

/// Everybody who is let in. It is total: whom it omits is let in no more. Source: SPEC P-7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    own: DeviceId,
    admitted: BTreeMap<DeviceId, Admitted>,
    removed: BTreeSet<DeviceId>,
    dropped: BTreeSet<DeviceId>,
}

impl Admission {
    /// Nobody: before there is a mesh.
    pub fn nobody(own: DeviceId) -> Self {
        Self { own, admitted: BTreeMap::new(), removed: BTreeSet::new(), dropped: BTreeSet::new() }
    }

    /// The members of the log without those that this device has dropped. Made anew after every entry and every drop.
    /// Empty when this device itself is no member any more: then it has no peers.
    pub fn snapshot(own: DeviceId, log: &MembershipLog, dropped: &BTreeSet<DeviceId>) -> Self {
        let belongs = log.is_member(&own);
        let peers = log.members().filter(|member| {
            let device = member.device();
            belongs && device != own && !dropped.contains(&device)
        });
        let admitted = peers.map(|member| {
            let (device, name) = (member.device(), member.name.clone());
            (device, Admitted { device, name, capabilities: member.capabilities.clone() })
        });
        let removed = log.removed().copied().collect();
        Self { own, admitted: admitted.collect(), removed, dropped: dropped.clone() }
    }

    /// Looks a key up that a link has proved.
    ///
    /// # Errors
    /// [`AdmitError`]; the link is closed.
    pub fn admit(&self, key: &DeviceKey) -> Result<&Admitted, AdmitError> {
        let device = key.device();
        if device == self.own {
            return Err(AdmitError::Ourselves);
        }
        self.admitted.get(&device).ok_or_else(|| {
            if self.removed.contains(&device) {
                AdmitError::Removed
            } else if self.dropped.contains(&device) {
                AdmitError::Dropped
            } else {
                AdmitError::Stranger
            }
        })
    }

    /// Everybody who is let in, by id.
    pub fn peers(&self) -> impl Iterator<Item = &Admitted> {
        self.admitted.values()
    }
}

#[cfg(test)]
mod tests {
    use cede_seal::device::LocalDevice;
    use cede_wire::member::Member;

    use super::*;

    /// Shows: P-6
    #[test]
    fn member_comes_in_with_what_it_was_given() {
        let (own, peer, log) = mesh();
        let admission = Admission::snapshot(own.device(), &log, &BTreeSet::new());
        let admitted = admission.admit(&peer.key()).unwrap();
        assert_eq!(admitted.name, "peer");
        assert!(admitted.may(Capability::Handoff));
        assert!(!admitted.may(Capability::Drive));
        assert_eq!(admission.peers().count(), 1);
    }

    /// Shows: P-6
    #[test]
    fn stranger_and_our_own_copy_stay_out() {
        let (own, _, log) = mesh();
        let admission = Admission::snapshot(own.device(), &log, &BTreeSet::new());
        assert_eq!(admission.admit(&device(9).key()), Err(AdmitError::Stranger));
        assert_eq!(admission.admit(&own.key()), Err(AdmitError::Ourselves));
        let nobody = Admission::nobody(own.device());
        assert_eq!(nobody.admit(&device(2).key()), Err(AdmitError::Stranger));
    }

    /// Shows: P-7
    #[test]
    fn removed_and_dropped_devices_stay_out_at_once() {
        let (own, peer, mut log) = mesh();
        let dropped = BTreeSet::from([peer.device()]);
        let admission = Admission::snapshot(own.device(), &log, &dropped);
        assert_eq!(admission.admit(&peer.key()), Err(AdmitError::Dropped));
        log.remove(&own, peer.device()).unwrap();
        for dropped in [BTreeSet::new(), dropped] {
            let admission = Admission::snapshot(own.device(), &log, &dropped);
            assert_eq!(admission.admit(&peer.key()), Err(AdmitError::Removed));
        }
    }

    /// Shows: P-7
    #[test]
    fn device_that_was_removed_itself_has_no_peers() {
        let (own, peer, mut log) = mesh();
        log.remove(&own, peer.device()).unwrap();
        let admission = Admission::snapshot(peer.device(), &log, &BTreeSet::new());
        assert_eq!(admission.admit(&own.key()), Err(AdmitError::Stranger));
        assert_eq!(admission.peers().count(), 0);
    }

    fn device(seed: u8) -> LocalDevice {
        LocalDevice::from_secret(&[seed; 32])
    }

    fn mesh() -> (LocalDevice, LocalDevice, MembershipLog) {
        let (own, peer) = (device(1), device(2));
        let mut log = MembershipLog::genesis(&own, "own", [0; 16]).unwrap();
        let capabilities = vec![Capability::Presence, Capability::Handoff];
        log.add(&own, Member { key: peer.key(), name: "peer".into(), capabilities }).unwrap();
        (own, peer, log)
    }
}
