//! What a device keeps of the records of others: the newest checkpoint of each, and the first contradiction.
//!
//! A checkpoint says how many entries there are and where their chain stands, and nothing of what is in them. A device whose
//! record is whole never signs a lower number after a higher one, nor two chains under one number.

use std::collections::BTreeMap;

use cede_seal::verify::verify;
use cede_wire::audit::{AuditAnchor, AuditCheckpoint};
use cede_wire::canonical::Signed;
use cede_wire::id::{DeviceId, Hash};

/// What became of a checkpoint that a peer showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mirrored {
    /// It is known, or an older one that was under way for longer.
    Known,
    /// It is the newest one now, and to be kept.
    Newer,
    /// It contradicts what is kept, which stays. The two are evidence, to be kept.
    Contradicts,
    /// It contradicts what is kept, and evidence is there already.
    ContradictsAgain,
}

/// A checkpoint that a peer showed is none of its own. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a checkpoint that the device did not sign as its own")]
pub struct NotItsOwn;

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At {
    number: u64,
    chain: Hash,
}

#[derive(Debug)]
struct Mirror {
    anchor: AuditAnchor,
    at: At,
    /// The life of the peer's daemon that was heard last, and its last message.
    heard: Option<(u64, u64)>,
}

/// What is kept of each peer's record.
#[derive(Debug, Default)]
pub struct Mirrors {
    of: BTreeMap<DeviceId, Mirror>,
}

impl Mirrors {
    /// Takes what was kept in an earlier run. What the device did not sign is left out.
    pub fn restore(kept: impl IntoIterator<Item = (DeviceId, AuditAnchor)>) -> Self {
        let mut mirrors = Self::default();
        for (device, anchor) in kept {
            if let Some(at) = own(device, &anchor.newest) {
                mirrors.of.insert(device, Mirror { anchor, at, heard: None });
            }
        }
        mirrors
    }

    /// A peer showed its newest checkpoint, as the message `serial` of the life `run` of its daemon.
    ///
    /// # Errors
    /// [`NotItsOwn`]; the peer broke a rule.
    pub fn handle_newest(
        &mut self,
        from: DeviceId,
        (run, serial): (u64, u64),
        point: &Signed<AuditCheckpoint>,
    ) -> Result<Mirrored, NotItsOwn> {
        if self.of.get(&from).is_some_and(|mirror| mirror.anchor.newest == *point) {
            return Ok(Mirrored::Known);
        }
        let at = own(from, point).ok_or(NotItsOwn)?;
        let Some(mirror) = self.of.get_mut(&from) else {
            let anchor = AuditAnchor { newest: point.clone(), against: None };
            self.of.insert(from, Mirror { anchor, at, heard: Some((run, serial)) });
            return Ok(Mirrored::Newer);
        };
        if mirror.heard.is_some_and(|(of, last)| of == run && serial <= last) {
            return Ok(Mirrored::Known);
        }
        mirror.heard = Some((run, serial));
        if at == mirror.at {
            return Ok(Mirrored::Known);
        }
        if at.number > mirror.at.number {
            (mirror.anchor.newest, mirror.at) = (point.clone(), at);
            return Ok(Mirrored::Newer);
        }
        if mirror.anchor.against.is_some() {
            return Ok(Mirrored::ContradictsAgain);
        }
        mirror.anchor.against = Some((mirror.anchor.newest.clone(), point.clone()));
        Ok(Mirrored::Contradicts)
    }

    /// The operator knows of the contradiction: what was shown then is what is kept now. False: there is none, and nothing
    /// changed.
    pub fn settle(&mut self, device: DeviceId) -> bool {
        let Some(mirror) = self.of.get_mut(&device) else { return false };
        let Some((_, shown)) = mirror.anchor.against.take() else { return false };
        if let Some(at) = own(device, &shown) {
            (mirror.anchor.newest, mirror.at) = (shown, at);
        }
        true
    }

    /// Devices that are no members any more are kept nothing of: those that go.
    pub fn retain(&mut self, is_member: impl Fn(DeviceId) -> bool) -> Vec<DeviceId> {
        let gone: Vec<DeviceId> = self.of.keys().copied().filter(|device| !is_member(*device)).collect();
        self.of.retain(|device, _| is_member(*device));
        gone
    }

    /// What is kept of a device.
    pub fn anchor(&self, device: DeviceId) -> Option<&AuditAnchor> {
        self.of.get(&device).map(|mirror| &mirror.anchor)
    }

    /// The devices of which a contradiction is kept, with the numbers that it is about: what was kept, and what was shown.
    pub fn contradictions(&self) -> impl Iterator<Item = (DeviceId, u64, u64)> {
        self.of.iter().filter_map(|(device, mirror)| {
            let (kept, shown) = mirror.anchor.against.as_ref()?;
            Some((*device, own(*device, kept)?.number, own(*device, shown)?.number))
        })
    }
}

fn own(device: DeviceId, signed: &Signed<AuditCheckpoint>) -> Option<At> {
    let point = verify(signed).ok().filter(|point| point.by == device)?;
    Some(At { number: point.number, chain: point.chain })
}

#[cfg(test)]
mod tests {
    use cede_seal::device::LocalDevice;

    use super::*;

    fn point(device: &LocalDevice, number: u64, chain: u8) -> Signed<AuditCheckpoint> {
        let point = AuditCheckpoint { by: device.device(), number, chain: Hash::new([chain; 32]), at_unix_ms: number };
        device.sign(&point).unwrap()
    }

    fn peer() -> LocalDevice {
        LocalDevice::from_secret(&[7; 32])
    }

    /// Shows: U-13
    #[test]
    fn higher_number_takes_the_place_of_a_lower_one() {
        let (peer, mut mirrors) = (peer(), Mirrors::default());
        for (serial, number) in [(1, 5), (2, 9), (3, 1_000)] {
            let heard = mirrors.handle_newest(peer.device(), (1, serial), &point(&peer, number, 1));
            assert_eq!(heard, Ok(Mirrored::Newer));
        }
        assert_eq!(mirrors.anchor(peer.device()).unwrap().newest, point(&peer, 1_000, 1));
        let again = mirrors.handle_newest(peer.device(), (2, 1), &point(&peer, 1_000, 1));
        assert_eq!((again, mirrors.contradictions().count()), (Ok(Mirrored::Known), 0));
    }

    /// Shows: U-13
    #[test]
    fn same_place_that_is_signed_once_more_is_known() {
        let (peer, mut mirrors) = (peer(), Mirrors::default());
        mirrors.handle_newest(peer.device(), (1, 1), &point(&peer, 9, 1)).unwrap();
        let (by, chain) = (peer.device(), Hash::new([1; 32]));
        let later = peer.sign(&AuditCheckpoint { by, number: 9, chain, at_unix_ms: 50 }).unwrap();
        assert_eq!(mirrors.handle_newest(peer.device(), (2, 1), &later), Ok(Mirrored::Known));
        assert_eq!(mirrors.anchor(peer.device()).unwrap().newest, point(&peer, 9, 1));
    }

    /// Shows: U-13
    #[test]
    fn contradiction_that_is_settled_is_told_no_more_and_the_next_one_is() {
        let (peer, mut mirrors) = (peer(), Mirrors::default());
        assert!(!mirrors.settle(peer.device()));
        mirrors.handle_newest(peer.device(), (1, 1), &point(&peer, 9, 1)).unwrap();
        assert!(!mirrors.settle(peer.device()), "there is none");
        mirrors.handle_newest(peer.device(), (2, 1), &point(&peer, 4, 1)).unwrap();
        mirrors.handle_newest(peer.device(), (2, 2), &point(&peer, 5, 2)).unwrap();
        assert!(mirrors.settle(peer.device()) && !mirrors.settle(peer.device()));
        let mut mirrors = Mirrors::restore([(peer.device(), mirrors.anchor(peer.device()).unwrap().clone())]);
        assert_eq!(mirrors.contradictions().count(), 0);
        assert_eq!(mirrors.handle_newest(peer.device(), (3, 1), &point(&peer, 5, 2)), Ok(Mirrored::Newer));
        assert_eq!(mirrors.handle_newest(peer.device(), (3, 2), &point(&peer, 4, 1)), Ok(Mirrored::Contradicts));
    }

    /// Shows: U-13
    #[test]
    fn lower_number_and_another_chain_under_one_number_are_evidence_that_outlives_a_restart() {
        for bad in [point(&peer(), 8, 1), point(&peer(), 9, 2)] {
            let (peer, mut mirrors) = (peer(), Mirrors::default());
            mirrors.handle_newest(peer.device(), (1, 1), &point(&peer, 9, 1)).unwrap();
            assert_eq!(mirrors.handle_newest(peer.device(), (2, 1), &bad), Ok(Mirrored::Contradicts));
            assert_eq!(
                mirrors.handle_newest(peer.device(), (3, 1), &point(&peer, 3, 1)),
                Ok(Mirrored::ContradictsAgain)
            );
            let kept = mirrors.anchor(peer.device()).unwrap().clone();
            assert_eq!(kept.newest, point(&peer, 9, 1), "what was kept stays");
            let mut again = Mirrors::restore([(peer.device(), kept)]);
            assert_eq!(again.contradictions().count(), 1);
            assert_eq!(again.handle_newest(peer.device(), (4, 1), &point(&peer, 20, 1)), Ok(Mirrored::Newer));
            assert_eq!(again.contradictions().map(|(_, kept, _)| kept).collect::<Vec<_>>(), [9]);
        }
    }

    /// Shows: U-13
    #[test]
    fn message_that_was_overtaken_on_another_link_is_no_contradiction() {
        let (peer, mut mirrors) = (peer(), Mirrors::default());
        mirrors.handle_newest(peer.device(), (1, 2), &point(&peer, 9, 1)).unwrap();
        assert_eq!(mirrors.handle_newest(peer.device(), (1, 1), &point(&peer, 5, 1)), Ok(Mirrored::Known));
        assert_eq!(mirrors.contradictions().count(), 0);
    }

    /// Shows: U-13
    #[test]
    fn checkpoint_of_another_device_and_a_forged_one_are_refused() {
        let (peer, stranger, mut mirrors) = (peer(), LocalDevice::from_secret(&[8; 32]), Mirrors::default());
        assert_eq!(mirrors.handle_newest(peer.device(), (1, 1), &point(&stranger, 5, 1)), Err(NotItsOwn));
        let honest = point(&peer, 5, 1);
        let mut bytes = honest.bytes().to_vec();
        bytes[33] ^= 1;
        let forged = Signed::from_parts(bytes, *honest.key(), *honest.signature());
        assert_eq!(mirrors.handle_newest(peer.device(), (1, 1), &forged), Err(NotItsOwn));
        assert!(mirrors.anchor(peer.device()).is_none() && mirrors.anchor(stranger.device()).is_none());
        let kept = AuditAnchor { newest: honest, against: None };
        assert!(Mirrors::restore([(stranger.device(), kept)]).anchor(stranger.device()).is_none());
    }

    /// Shows: U-13
    #[test]
    fn nothing_is_kept_of_a_device_that_was_removed() {
        let (peer, mut mirrors) = (peer(), Mirrors::default());
        mirrors.handle_newest(peer.device(), (1, 1), &point(&peer, 5, 1)).unwrap();
        assert_eq!(mirrors.retain(|_| true), []);
        assert_eq!(mirrors.retain(|device| device != peer.device()), [peer.device()]);
        assert!(mirrors.anchor(peer.device()).is_none());
    }
}
