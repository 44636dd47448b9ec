//! What one peer may set in motion here at once: each errand takes a thread, and a peer that asks faster than they end
//! gets no more of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cede_wire::id::DeviceId;

use crate::limits;

/// Work that a peer's message begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Errand {
    /// Look whether an offer can be taken here.
    LookAtOffer,
    /// Look up the session that a take means.
    FindSession,
    /// Count what would leave with a session that it wants.
    CountSession,
    /// List the sessions here.
    List,
    /// Keep a listing.
    KeepListing,
    /// Keep the words of letters.
    KeepLetters,
    /// Keep its newest checkpoint.
    KeepMirror,
    /// Hold the record here against what it keeps of it.
    CheckRecord,
}

impl Errand {
    const fn most(self) -> usize {
        match self {
            Self::LookAtOffer => limits::LOOKS_PER_PEER,
            Self::FindSession | Self::CountSession => limits::TAKES_PER_PEER,
            Self::List | Self::KeepListing | Self::KeepLetters | Self::KeepMirror | Self::CheckRecord => 1,
        }
    }
}

/// The errands under way.
#[derive(Debug, Default)]
pub(crate) struct Errands(BTreeMap<(DeviceId, Errand), usize>);

impl Errands {
    /// Counts one more. False: the peer has as many under way as it may.
    pub(crate) fn begin(&mut self, peer: DeviceId, errand: Errand) -> bool {
        let under_way = self.0.entry((peer, errand)).or_default();
        let may = *under_way < errand.most();
        *under_way += usize::from(may);
        may
    }

    pub(crate) fn is_under_way(&self, peer: DeviceId, errand: Errand) -> bool {
        self.0.contains_key(&(peer, errand))
    }

    /// One that began has ended.
    pub(crate) fn end(&mut self, peer: DeviceId, errand: Errand) {
        if let Some(under_way) = self.0.get_mut(&(peer, errand)) {
            *under_way = under_way.saturating_sub(1);
        }
        self.0.retain(|_, under_way| *under_way > 0);
    }
}

/// The pace of one link: a burst, then so many a second.
#[derive(Debug)]
pub(crate) struct Pace {
    most: u32,
    pause: Duration,
    left: u32,
    since: Instant,
}

impl Pace {
    /// Of its messages. The peer's own window holds the rest.
    pub(crate) fn new(now: Instant) -> Self {
        Self::of(limits::MESSAGES_AT_ONCE, limits::MESSAGE_PAUSE, now)
    }

    /// Of its wishes to look on or to type.
    pub(crate) fn of_wishes(now: Instant) -> Self {
        Self::of(limits::WISHES_AT_ONCE, limits::WISH_PAUSE, now)
    }

    fn of(most: u32, pause: Duration, now: Instant) -> Self {
        Self { most, pause, left: most, since: now }
    }

    /// How long to wait before the next one.
    pub(crate) fn next(&mut self, now: Instant) -> Duration {
        let earned = now.saturating_duration_since(self.since).as_millis() / self.pause.as_millis().max(1);
        if earned > 0 {
            self.left = self.left.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)).min(self.most);
            self.since = now;
        }
        if self.left == 0 {
            return self.pause;
        }
        self.left -= 1;
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_gets_no_more_errands_than_it_may_and_others_are_not_hindered() {
        let (one, two) = (DeviceId::new([1; 32]), DeviceId::new([2; 32]));
        let mut errands = Errands::default();
        let begun = (0..100).filter(|_| errands.begin(one, Errand::LookAtOffer)).count();
        assert_eq!(begun, limits::LOOKS_PER_PEER);
        assert!(errands.begin(two, Errand::LookAtOffer));
        assert!(errands.begin(one, Errand::List));
        errands.end(one, Errand::LookAtOffer);
        assert!(errands.begin(one, Errand::LookAtOffer));
        (0..200).for_each(|_| errands.end(one, Errand::LookAtOffer));
        errands.end(one, Errand::List);
        errands.end(two, Errand::LookAtOffer);
        assert!(errands.0.is_empty(), "nothing is remembered of what ended");
    }

    #[test]
    fn flood_is_slowed_down_and_a_burst_is_not() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert!((0..limits::MESSAGES_AT_ONCE).all(|_| pace.next(start).is_zero()));
        assert_eq!(pace.next(start), limits::MESSAGE_PAUSE);
        assert!(pace.next(start + limits::MESSAGE_PAUSE).is_zero());
        assert!(!pace.next(start + limits::MESSAGE_PAUSE).is_zero());
        let later = start + limits::MESSAGE_PAUSE * 1_000_000;
        assert_eq!((0..1_000_000).filter(|_| pace.next(later).is_zero()).count(), limits::MESSAGES_AT_ONCE as usize);
    }
}
