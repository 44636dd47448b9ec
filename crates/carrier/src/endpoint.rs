//! The one socket: dials peers and answers them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_wire::id::DeviceKey;
use cede_wire::message::Hello;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::closing::CloseReason;
use crate::gate::Gate;
use crate::identity::Identity;
use crate::limits::{ARRIVALS, BULK_LINKS, CLOSING_TIMEOUT, LINKS, PAIR_LINKS};
use crate::link::Link;
use crate::pairing::PairLink;
use crate::seats::Seats;

mod answer;
pub mod dial;
mod transport;

use answer::Arrival;

/// Why no socket could be opened. Nothing listens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// Another program has the port.
    #[error("the port is in use by another program")]
    InUse,
    /// The address cannot be had on this machine.
    #[error("the address cannot be opened: {0}")]
    Address(io::ErrorKind),
    /// The TLS stack does not take the device's key.
    #[error("the device key cannot be used: {0}")]
    Key(String),
    /// Called outside an async runtime.
    #[error("there is no async runtime to run on")]
    NoRuntime,
}

/// Who came in.
#[derive(Debug)]
pub enum Incoming {
    /// A member.
    Member(Link),
    /// A stranger who wants to pair.
    Pairing(PairLink),
}

/// The daemon's socket for peers. Dropping it ends every link.
pub struct Endpoint {
    quic: quinn::Endpoint,
    shared: Arc<Shared>,
    arrivals: Mutex<mpsc::Receiver<Arrival>>,
    answering: JoinHandle<()>,
}

/// What dialing and answering both use.
struct Shared {
    identity: Identity,
    gate: Arc<dyn Gate>,
    members: Arc<Seats>,
    strangers: Arc<Seats>,
    bulk_slots: Arc<Semaphore>,
    dialing: Arc<quinn::TransportConfig>,
    server: quinn::ServerConfig,
}

impl Endpoint {
    /// Opens the socket and starts to answer. A port of 0 takes any free one.
    ///
    /// # Errors
    /// [`BindError`]; nothing listens.
    pub fn bind(device: &LocalDevice, address: SocketAddr, gate: Arc<dyn Gate>) -> Result<Self, BindError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| BindError::NoRuntime)?;
        let identity = Identity::of(device).map_err(|error| BindError::Key(error.to_string()))?;
        let server = transport::server(&identity, gate.clone()).map_err(BindError::Key)?;
        let quic = transport::open(address, server.clone())?;
        let shared = Arc::new(Shared {
            identity,
            gate,
            members: Seats::new(LINKS),
            strangers: Seats::new(PAIR_LINKS),
            bulk_slots: Arc::new(Semaphore::new(BULK_LINKS)),
            dialing: Arc::new(transport::config(transport::Side::Dialing)),
            server,
        });
        let (sender, arrivals) = mpsc::channel(ARRIVALS);
        let answering = runtime.spawn(answer::answer_all(quic.clone(), shared.clone(), sender));
        Ok(Self { quic, shared, arrivals: Mutex::new(arrivals), answering })
    }

    /// The address that peers reach, with the real port.
    ///
    /// # Errors
    /// The system's, when the socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.quic.local_addr()
    }

    /// Waits for the next peer that came in, and answers its greeting with ours. None: the endpoint was closed. It can be
    /// cancelled and called again.
    pub async fn accept(&self, hello: &Hello) -> Option<Incoming> {
        let mut arrivals = self.arrivals.lock().await;
        loop {
            match arrivals.recv().await? {
                Arrival::Pairing(link) => return Some(Incoming::Pairing(link)),
                Arrival::Member(greeted) => {
                    if let Some(link) = greeted.answer(hello) {
                        return Some(Incoming::Member(link));
                    }
                }
            }
        }
    }

    /// Ends every link to this peer, now, and says how many there were. For a member that was removed: the gate must
    /// already say no, so that none comes back. Source: SPEC C-8.
    pub fn drop_peer(&self, peer: &DeviceKey) -> usize {
        let reason = CloseReason::NotAdmitted;
        self.shared.members.close_all(peer, reason) + self.shared.strangers.close_all(peer, reason)
    }

    /// Ends every link, stops answering, and gives the peers a moment to hear of it.
    pub async fn close(&self) {
        self.quic.close(CloseReason::Stopping.code(), &[]);
        let _late = timeout(CLOSING_TIMEOUT, self.quic.wait_idle()).await;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.quic.close(CloseReason::Stopping.code(), &[]);
        self.answering.abort();
    }
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}
