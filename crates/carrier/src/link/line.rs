//! The connection under a link: who is at the other end, and its place among the links.

use std::sync::Arc;
use std::sync::OnceLock;

use cede_wire::id::DeviceKey;
use quinn::{Connection, VarInt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::closing::{CloseReason, Closed};
use crate::limits::BULK_WINDOW_BYTES;
use crate::link::LinkError;
use crate::seats::Seat;

/// A connection whose peer has proved its key. Every stream holds it, so that it keeps its seat until all are gone.
pub(crate) struct Line {
    connection: Connection,
    peer: DeviceKey,
    bulk: OnceLock<OwnedSemaphorePermit>,
    bulk_slots: Arc<Semaphore>,
    _seat: Seat,
}

impl Line {
    pub(crate) fn new(connection: Connection, peer: DeviceKey, seat: Seat, bulk_slots: Arc<Semaphore>) -> Arc<Self> {
        Arc::new(Self { connection, peer, bulk: OnceLock::new(), bulk_slots, _seat: seat })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn peer(&self) -> DeviceKey {
        self.peer
    }

    /// Gives the link the bulk window if one is free. Source: [`crate::limits::BULK_LINKS`].
    pub(crate) fn expect_bulk(&self) {
        if self.bulk.get().is_some() {
            return;
        }
        if let Ok(permit) = self.bulk_slots.clone().try_acquire_owned()
            && self.bulk.set(permit).is_ok()
        {
            self.connection.set_receive_window(VarInt::from_u32(BULK_WINDOW_BYTES));
        }
    }

    pub(crate) fn exporter(&self, label: &[u8]) -> Result<[u8; 32], LinkError> {
        let mut secret = [0; 32];
        match self.connection.export_keying_material(&mut secret, label, &[]) {
            Ok(()) => Ok(secret),
            Err(_) => Err(Closed::Transport("no keying material".to_owned()).into()),
        }
    }

    pub(crate) fn close(&self, reason: CloseReason) {
        self.connection.close(reason.code(), &[]);
    }

    pub(crate) async fn closed(&self) -> Closed {
        self.connection.closed().await.into()
    }

    pub(crate) fn is_closed(&self) -> Option<Closed> {
        self.connection.close_reason().map(Closed::from)
    }
}
