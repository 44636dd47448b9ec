//! One thread at a time works at the place of an arriving session, and one that was replaced does not begin any more.
//!
//! A task can be stopped at once, a thread that writes files cannot: it is waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Those who work at one place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hands(Arc<Place>);

#[derive(Debug, Default)]
struct Place {
    turn: AtomicU64,
    busy: Mutex<()>,
}

/// The right to work, until the next one has it.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    hands: Hands,
    number: u64,
}

impl Hands {
    /// Takes the right from whoever has it and gives it on.
    pub(crate) fn next(&self) -> Turn {
        let number = self.0.turn.fetch_add(1, Ordering::SeqCst) + 1;
        Turn { hands: self.clone(), number }
    }

    /// Nobody has a turn, and nobody else can take one.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Turn {
    /// Waits until nobody works there. None: the right went to another meanwhile. Blocks.
    pub(crate) fn hold(&self) -> Option<MutexGuard<'_, ()>> {
        let held = self.hands.0.busy.lock().unwrap_or_else(PoisonError::into_inner);
        (self.hands.0.turn.load(Ordering::SeqCst) == self.number).then_some(held)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn replaced_turn_is_over_even_if_it_waited() {
        let hands = Hands::default();
        let (first, second) = (hands.next(), hands.next());
        assert!(first.hold().is_none());
        assert!(second.hold().is_some());
    }

    #[test]
    fn next_one_waits_for_the_one_that_works() {
        let hands = Hands::default();
        let first = hands.next();
        let held = first.hold().unwrap();
        let second = hands.next();
        let waiting = std::thread::spawn(move || second.hold().is_some());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.join().unwrap());
    }
}
