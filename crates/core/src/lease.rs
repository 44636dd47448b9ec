//! Who types into a hosted terminal: one at a time, for as long as it says that it is there. Source: SPEC D-3, D-5.
//!
//! A [`DriverLease`] stands beside each terminal. It knows no clock and sends nothing: whoever serves the terminal asks it
//! before each key is passed on.
//!
//! One contract: **of two who type at the same moment, one is refused.** A lease ends by being let go, by silence, or
//! because the person at the machine takes the keyboard; from that moment nothing of the former driver is passed on.

use core::time::Duration;

use crate::limits::{DRIVER_LEASE, HOLD_LONGEST};
use crate::now::Now;

/// One who looks on and may want to type. Shape: not used twice for a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewerId(pub u64);

/// Where somebody who wants to type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// At the machine of the terminal, as its owner.
    Here,
    /// On another device, by its capability.
    Away,
}

/// What becomes of a wish to type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It types from now on.
    Granted {
        /// Who typed before and does not any more.
        over: Option<ViewerId>,
    },
    /// Another one types. Nothing changed.
    Driven(ViewerId),
    /// The person at the machine holds the terminal. Nothing changed.
    Held,
}

/// Who types, if anybody does.
#[derive(Debug, Clone, Default)]
pub struct DriverLease {
    driver: Option<Driver>,
    /// Until when only the person at the machine types.
    held: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Driver {
    viewer: ViewerId,
    seat: Seat,
    until: Duration,
}

impl DriverLease {
    /// Somebody wants to type. `insist`: whoever types now is put aside; only the person at the machine can insist.
    pub fn ask(&mut self, viewer: ViewerId, seat: Seat, insist: bool, now: Now) -> Asked {
        if seat == Seat::Away && self.is_held(now) {
            return Asked::Held;
        }
        let before = self.driver(now).filter(|before| *before != viewer);
        match before {
            Some(other) if !(insist && seat == Seat::Here) => Asked::Driven(other),
            over => {
                self.driver = Some(Driver { viewer, seat, until: now.after(DRIVER_LEASE) });
                Asked::Granted { over }
            }
        }
    }

    /// The driver says that it is there. False: it is not the driver.
    pub fn beat(&mut self, viewer: ViewerId, now: Now) -> bool {
        let drives = self.drives(viewer, now);
        if let Some(driver) = self.driver.as_mut().filter(|_| drives) {
            driver.until = now.after(DRIVER_LEASE);
        }
        drives
    }

    /// Who typed, said nothing for too long, and was not named here before.
    pub fn lapse(&mut self, now: Now) -> Option<ViewerId> {
        self.driver.take_if(|driver| now.monotonic >= driver.until).map(|driver| driver.viewer)
    }

    /// Somebody does not want to type any more, or is gone. False: it did not.
    pub fn let_go(&mut self, viewer: ViewerId) -> bool {
        self.driver.take_if(|driver| driver.viewer == viewer).is_some()
    }

    /// The person at the machine wants it alone for a while. Who typed from elsewhere and does not any more.
    pub fn hold(&mut self, now: Now) -> Option<ViewerId> {
        self.held = Some(now.after(HOLD_LONGEST));
        self.driver.take_if(|driver| driver.seat == Seat::Away).map(|driver| driver.viewer)
    }

    /// The hold is over. False: there was none.
    pub fn release(&mut self, now: Now) -> bool {
        let held = self.is_held(now);
        self.held = None;
        held
    }

    /// Whether what this one types is passed on.
    pub fn drives(&self, viewer: ViewerId, now: Now) -> bool {
        self.driver(now) == Some(viewer)
    }

    /// Who types.
    pub fn driver(&self, now: Now) -> Option<ViewerId> {
        self.driver.filter(|driver| now.monotonic < driver.until).map(|driver| driver.viewer)
    }

    /// Whether only the person at the machine may type.
    pub fn is_held(&self, now: Now) -> bool {
        self.held.is_some_and(|until| now.monotonic < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ViewerId = ViewerId(1);
    const TWO: ViewerId = ViewerId(2);

    fn at(seconds: u64) -> Now {
        Now { monotonic: Duration::from_secs(seconds), unix_ms: 0 }
    }

    /// Shows: D-3
    #[test]
    fn of_two_who_want_to_type_one_does() {
        let mut lease = DriverLease::default();
        assert_eq!(lease.ask(ONE, Seat::Away, false, at(0)), Asked::Granted { over: None });
        assert_eq!(lease.ask(TWO, Seat::Here, false, at(1)), Asked::Driven(ONE));
        assert_eq!(lease.ask(ONE, Seat::Away, false, at(1)), Asked::Granted { over: None }, "again is no change");
        assert!(lease.drives(ONE, at(1)) && !lease.drives(TWO, at(1)));
        assert!(!lease.let_go(TWO) && lease.let_go(ONE));
        assert_eq!(lease.driver(at(1)), None);
        assert_eq!(lease.ask(TWO, Seat::Here, false, at(1)), Asked::Granted { over: None });
    }

    /// Shows: D-3
    #[test]
    fn silent_driver_loses_the_keyboard_and_a_beat_keeps_it() {
        let mut lease = DriverLease::default();
        lease.ask(ONE, Seat::Here, false, at(0));
        assert!(lease.beat(ONE, at(14)) && lease.drives(ONE, at(28)));
        assert!(!lease.drives(ONE, at(29)), "at the end of its time it is over");
        assert!(!lease.beat(ONE, at(29)), "and a late beat does not bring it back");
        assert_eq!((lease.lapse(at(28)), lease.lapse(at(29)), lease.lapse(at(29))), (None, Some(ONE), None));
        assert_eq!(lease.ask(TWO, Seat::Away, false, at(29)), Asked::Granted { over: None });
        assert!(!lease.beat(ONE, at(30)) && lease.drives(TWO, at(30)));
    }

    /// Shows: D-5
    #[test]
    fn only_the_person_at_the_machine_can_insist() {
        let mut lease = DriverLease::default();
        lease.ask(ONE, Seat::Here, false, at(0));
        assert_eq!(lease.ask(TWO, Seat::Away, true, at(0)), Asked::Driven(ONE));
        assert_eq!(lease.ask(TWO, Seat::Here, true, at(0)), Asked::Granted { over: Some(ONE) });
        assert!(!lease.drives(ONE, at(0)));
    }

    /// Shows: D-5
    #[test]
    fn hold_puts_a_driver_from_elsewhere_aside_until_it_is_released_or_forgotten() {
        let mut lease = DriverLease::default();
        lease.ask(ONE, Seat::Away, false, at(0));
        assert_eq!(lease.hold(at(1)), Some(ONE));
        assert_eq!(lease.ask(ONE, Seat::Away, false, at(2)), Asked::Held);
        assert_eq!(lease.ask(TWO, Seat::Here, false, at(2)), Asked::Granted { over: None });
        assert_eq!(lease.hold(at(3)), None, "the person at the machine goes on typing");
        lease.let_go(TWO);
        assert!(lease.release(at(4)) && !lease.release(at(4)));
        assert_eq!(lease.ask(ONE, Seat::Away, false, at(4)), Asked::Granted { over: None });
        lease.hold(at(5));
        let forgotten = at(5 + HOLD_LONGEST.as_secs());
        assert_eq!(lease.ask(ONE, Seat::Away, false, forgotten), Asked::Granted { over: None });
    }
}
