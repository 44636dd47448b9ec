//! The links that are open, counted and found by their peer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cede_wire::id::DeviceKey;
use quinn::Connection;

use crate::closing::CloseReason;

/// A bounded room of links.
pub(crate) struct Seats {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    by_number: BTreeMap<u64, (DeviceKey, Connection)>,
}

impl Seats {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Takes a seat, unless all are taken.
    pub(crate) fn take(self: &Arc<Self>, peer: DeviceKey, connection: &Connection) -> Option<Seat> {
        let mut taken = self.lock();
        if taken.by_number.len() >= self.most {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        taken.by_number.insert(number, (peer, connection.clone()));
        Some(Seat { number, seats: Arc::clone(self) })
    }

    /// Closes every link to this peer and says how many there were.
    pub(crate) fn close_all(&self, peer: &DeviceKey, reason: CloseReason) -> usize {
        let of_peer: Vec<Connection> =
            self.lock().by_number.values().filter(|(key, _)| key == peer).map(|(_, line)| line.clone()).collect();
        for connection in &of_peer {
            connection.close(reason.code(), &[]);
        }
        of_peer.len()
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One link's place; free again when dropped.
pub(crate) struct Seat {
    number: u64,
    seats: Arc<Seats>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let freed = self.seats.lock().by_number.remove(&self.number);
        // The connection is dropped after the lock is free: its own drop may take other locks.
        drop(freed);
    }
}
