//! A link to another member: one connection, a control stream for messages, data streams for bytes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cede_wire::id::DeviceKey;
use cede_wire::message::Hello;

use crate::closing::{CloseReason, Closed};

pub mod control;
pub mod data;
pub(crate) mod line;

use control::{ControlReceiver, ControlSender};
use data::{DataReceiver, DataSender};
use line::Line;

/// Why something could not be sent or received on a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The link has ended.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The peer gave this stream up before its end; what came of it is incomplete. The link goes on.
    #[error("the peer gave up the stream before its end")]
    Cut,
    /// The peer reads no further on this stream. The link goes on.
    #[error("the peer reads no further on this stream")]
    Stopped,
    /// The stream was finished here before. Nothing was sent.
    #[error("the stream was finished before")]
    Finished,
    /// The peer broke a rule of the protocol. The link is closed.
    #[error("the peer broke the protocol")]
    Protocol(#[from] Breach),
    /// The message is over the limit of a frame. Nothing was sent.
    #[error("the message is longer than a frame may be")]
    TooLong,
}

/// Which rule the peer broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A frame over its limit; it was refused before room was made for it.
    #[error("frame too long: {0} bytes")]
    FrameTooLong(u32),
    /// The stream ended within a frame.
    #[error("the stream ended within a frame")]
    FrameCut,
    /// A message does not decode.
    #[error(transparent)]
    Undecodable(#[from] cede_wire::canonical::DecodeError),
    /// Only frames of unknown kinds, too many in a row.
    #[error("too many frames of unknown kinds")]
    OnlyUnknownKinds,
    /// The first message is no greeting.
    #[error("the first message is not a greeting")]
    NoGreeting,
    /// The greeting names a device whose key this is not.
    #[error("the greeting names another device than the key")]
    GreetsAsAnother,
}

/// A link to another member. Clones are the same link; it closes when the last clone and stream is gone.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    line: Arc<Line>,
    hello: Hello,
    version: u16,
    control: Mutex<Option<(ControlSender, ControlReceiver)>>,
}

impl Link {
    pub(crate) fn new(line: Arc<Line>, hello: Hello, version: u16, control: (ControlSender, ControlReceiver)) -> Self {
        Self { shared: Arc::new(Shared { line, hello, version, control: Mutex::new(Some(control)) }) }
    }

    /// The key that the peer proved.
    pub fn peer(&self) -> DeviceKey {
        self.shared.line.peer()
    }

    /// The peer's greeting.
    pub fn hello(&self) -> &Hello {
        &self.shared.hello
    }

    /// The protocol version that both sides speak.
    pub fn version(&self) -> u16 {
        self.shared.version
    }

    /// Where the peer is, now. For logs at DEBUG only.
    pub fn remote_addr(&self) -> SocketAddr {
        self.shared.line.connection().remote_address()
    }

    /// The round trip to the peer, as last estimated: whether the link is warm.
    pub fn rtt(&self) -> Duration {
        self.shared.line.connection().rtt()
    }

    /// How many datagrams came from the peer so far: a link on which nothing comes any more may be dead before it ends.
    pub fn heard(&self) -> u64 {
        self.shared.line.connection().stats().udp_rx.datagrams
    }

    /// The two halves of the control stream. The first caller gets them.
    pub fn take_control(&self) -> Option<(ControlSender, ControlReceiver)> {
        self.shared.control.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Opens a data stream to the peer; waits while [`crate::limits::DATA_STREAMS`] are open.
    ///
    /// # Errors
    /// [`LinkError::Closed`].
    pub async fn open_data(&self) -> Result<DataSender, LinkError> {
        DataSender::open(&self.shared.line).await
    }

    /// Waits for the peer's next data stream. It can be cancelled and called again.
    ///
    /// # Errors
    /// [`LinkError::Closed`].
    pub async fn accept_data(&self) -> Result<DataReceiver, LinkError> {
        DataReceiver::accept(&self.shared.line).await
    }

    /// Bytes that only the two ends of this very connection can know. The same label gives both the same bytes.
    ///
    /// # Errors
    /// [`LinkError::Closed`].
    pub fn exporter(&self, label: &[u8]) -> Result<[u8; 32], LinkError> {
        self.shared.line.exporter(label)
    }

    /// Ends the link now. What was sent and is not yet read may be lost.
    pub fn close(&self, reason: CloseReason) {
        self.shared.line.close(reason);
    }

    /// Waits until the link has ended.
    pub async fn closed(&self) -> Closed {
        self.shared.line.closed().await
    }

    /// How the link has ended, if it has.
    pub fn is_closed(&self) -> Option<Closed> {
        self.shared.line.is_closed()
    }
}

impl core::fmt::Debug for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Link").field("peer", &self.peer()).finish_non_exhaustive()
    }
}
