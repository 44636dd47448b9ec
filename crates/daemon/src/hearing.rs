//! Whether the other side of a wait is still there, before the link itself gives up.

use std::time::Instant;

use crate::limits;

/// What is heard of a device that somebody waits for.
#[derive(Debug, Clone)]
pub(crate) struct Hearing {
    /// Datagrams of its link, when they were counted last.
    count: Option<u64>,
    last: Instant,
    down: Option<Instant>,
}

/// How the line to it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Something comes.
    Live,
    /// The link stands, and nothing comes on it.
    Silent,
    /// There is no link.
    Down,
    /// There was none for so long that waiting is of no use.
    Lost,
}

impl Hearing {
    pub(crate) fn begin(now: Instant) -> Self {
        Self { count: None, last: now, down: None }
    }

    /// `heard`: the datagrams that came on its link so far; none without one.
    pub(crate) fn look(&mut self, heard: Option<u64>, now: Instant) -> Line {
        let Some(heard) = heard else {
            let down = *self.down.get_or_insert(now);
            // A link that ended by silence was gone for long when it did; a dial or two are tried all the same.
            let given_up = now.duration_since(self.last) >= limits::REACH && now.duration_since(down) >= limits::PROBE;
            return if given_up { Line::Lost } else { Line::Down };
        };
        self.down = None;
        if self.count != Some(heard) {
            (self.count, self.last) = (Some(heard), now);
        }
        if now.duration_since(self.last) >= limits::SILENT { Line::Silent } else { Line::Live }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn after(begun: Instant, seconds: u64) -> Instant {
        begun + Duration::from_secs(seconds)
    }

    #[test]
    fn device_that_was_never_reached_is_given_up_in_time() {
        let begun = Instant::now();
        let mut hearing = Hearing::begin(begun);
        let reach = limits::REACH.as_secs();
        assert_eq!(hearing.look(None, after(begun, 1)), Line::Down);
        assert_eq!(hearing.look(None, after(begun, reach - 1)), Line::Down);
        assert_eq!(hearing.look(None, after(begun, reach)), Line::Lost);
    }

    #[test]
    fn silence_is_noticed_before_the_link_ends_and_its_end_is_not_waited_for_twice() {
        let begun = Instant::now();
        let mut hearing = Hearing::begin(begun);
        assert_eq!(hearing.look(Some(7), after(begun, 1)), Line::Live);
        assert_eq!(hearing.look(Some(7), after(begun, 2)), Line::Live);
        assert_eq!(hearing.look(Some(7), after(begun, 9)), Line::Silent);
        assert_eq!(hearing.look(Some(8), after(begun, 10)), Line::Live, "it was only slow");
        assert_eq!(hearing.look(Some(8), after(begun, 29)), Line::Silent);
        assert_eq!(hearing.look(None, after(begun, 30)), Line::Down);
        assert_eq!(hearing.look(None, after(begun, 33)), Line::Lost);
    }

    #[test]
    fn device_that_comes_back_in_time_is_waited_for() {
        let begun = Instant::now();
        let mut hearing = Hearing::begin(begun);
        hearing.look(Some(7), after(begun, 1));
        assert_eq!(hearing.look(None, after(begun, 2)), Line::Down);
        assert_eq!(hearing.look(None, after(begun, 10)), Line::Down, "it has as long as one that was never reached");
        assert_eq!(hearing.look(Some(1), after(begun, 11)), Line::Live);
        assert_eq!(hearing.look(None, after(begun, 12)), Line::Down);
    }
}
