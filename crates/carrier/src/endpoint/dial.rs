//! Dialing: from an address to a peer that has proved the expected key and greeted.

use std::net::SocketAddr;
use std::sync::Arc;

use cede_wire::id::{DeviceKey, MeshId};
use cede_wire::limits::FRAME_BODY_BYTES;
use cede_wire::message::Hello;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ConnectError, Connection, ConnectionError, NoneTokenStore};
use tokio::time::timeout;

use super::Endpoint;
use super::answer::{Unanswered, proved};
use crate::closing::{CONNECTION_REFUSED, CloseReason, Closed, NO_APPLICATION_PROTOCOL};
use crate::framing::{FrameReader, FrameWriter};
use crate::greeting::{self, GreetingFault, Versions};
use crate::limits::{GREETING_TIMEOUT, HANDSHAKE_TIMEOUT, HELLO_BYTES};
use crate::link::control::{ControlReceiver, ControlSender};
use crate::link::line::Line;
use crate::link::{Breach, Link, LinkError};
use crate::pairing::{self, PairLink};
use crate::tls::{self, Pin, Purpose};

/// Why a peer was not reached. There is no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// Nothing answers at the address.
    #[error("nothing answers there: the device may be off, elsewhere, or behind a firewall")]
    Unreachable,
    /// Another device answers at the address.
    #[error("another device answers there: {}", found.device().short())]
    WrongKey {
        /// The key that was expected.
        expected: DeviceKey,
        /// The key that answered.
        found: DeviceKey,
    },
    /// The peer does not admit this device: it was never added there, or it was removed, or pairing is not open.
    #[error("the device there does not admit this one")]
    Refused,
    /// The key that was to be dialed is no member's here. Nothing was sent.
    #[error("the device to reach is not a member of this mesh")]
    NotAMember,
    /// Something answers that is no `cede`, or a version without a common carrier.
    #[error("what answers there speaks no protocol of this program")]
    NoCommonAlpn,
    /// No protocol version in common.
    #[error("no protocol version in common: ours {ours}, theirs {theirs}; update the older one")]
    VersionMismatch {
        /// The versions spoken here.
        ours: Versions,
        /// The versions spoken there.
        theirs: Versions,
    },
    /// The peer belongs to another mesh.
    #[error("the device there belongs to another mesh: ours {}, theirs {}", ours.short(), theirs.short())]
    WrongMesh {
        /// The mesh here.
        ours: MeshId,
        /// The mesh there.
        theirs: MeshId,
    },
    /// The peer answered, and then not in time.
    #[error("the device there answers too slowly")]
    TimedOut,
    /// The peer has too many links.
    #[error("the device there has too many links, try again later")]
    Busy,
    /// This device has too many links. Nothing was sent.
    #[error("this device has too many links")]
    TooManyLinks,
    /// The address cannot be dialed from this socket. Nothing was sent.
    #[error("the address cannot be dialed from here")]
    Address,
    /// Our own greeting is over its limit. Nothing of it was sent.
    #[error("the greeting is longer than it may be")]
    GreetingTooLong,
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// The peer broke a rule of the protocol.
    #[error("the device there broke the protocol")]
    Protocol(#[source] Breach),
    /// The link ended before the greeting was through.
    #[error("the link ended at once")]
    Lost(#[source] Closed),
    /// TLS could not be set up here.
    #[error("this side cannot dial: {0}")]
    Local(String),
}

impl Endpoint {
    /// Reaches the member with this key at this address. The link stands once both greetings went through: the peer has
    /// then admitted this device.
    ///
    /// # Errors
    /// [`DialError`]; there is no link.
    pub async fn dial(&self, address: SocketAddr, expected: &DeviceKey, hello: &Hello) -> Result<Link, DialError> {
        if !self.shared.gate.admits(expected) {
            return Err(DialError::NotAMember);
        }
        let line = self.connect(address, Purpose::Member, Some(*expected)).await?;
        greeted(&line, greet(&line, hello)).await
    }

    /// Reaches whoever pairs at this address. The key that the peer proved is [`PairLink::peer`]; whose it is, the pairing
    /// must show.
    ///
    /// # Errors
    /// [`DialError`]; there is no link.
    pub async fn dial_pairing(&self, address: SocketAddr) -> Result<PairLink, DialError> {
        let line = self.connect(address, Purpose::Pairing, None).await?;
        greeted(&line, open_pairing(&line)).await
    }

    async fn connect(
        &self,
        address: SocketAddr,
        purpose: Purpose,
        expected: Option<DeviceKey>,
    ) -> Result<Arc<Line>, DialError> {
        let pin = Pin::new(&self.shared.identity, expected);
        let connecting = self.quic.connect_with(self.client(purpose, &pin)?, address, SERVER_NAME)?;
        let connection = match timeout(HANDSHAKE_TIMEOUT, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(refusal(error, &pin)),
            Err(_) => return Err(silence(&pin)),
        };
        self.seat_dialed(purpose, connection)
    }

    fn client(&self, purpose: Purpose, pin: &Arc<Pin>) -> Result<quinn::ClientConfig, DialError> {
        let config = tls::dialing(&self.shared.identity, purpose, pin.clone());
        let config = config.map_err(|error| DialError::Local(error.to_string()))?;
        let crypto = QuicClientConfig::try_from(config).map_err(|error| DialError::Local(error.to_string()))?;
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(self.shared.dialing.clone()).token_store(Arc::new(NoneTokenStore));
        Ok(config)
    }

    fn seat_dialed(&self, purpose: Purpose, connection: Connection) -> Result<Arc<Line>, DialError> {
        let (agreed, peer) = proved(&connection).ok_or(DialError::NoCommonAlpn)?;
        if agreed != purpose {
            return Err(DialError::NoCommonAlpn);
        }
        self.shared.seat(purpose, peer, connection).map_err(|unanswered| match unanswered {
            Unanswered::NoSeat => DialError::TooManyLinks,
            Unanswered::NotAdmitted => DialError::NotAMember,
            Unanswered::Closed(closed) => closed.into(),
            Unanswered::Link(error) => error.into(),
            error @ (Unanswered::TooSlow | Unanswered::NoIdentity | Unanswered::Local(_)) => {
                DialError::Local(error.to_string())
            }
        })
    }
}

/// Waits for the greetings, and tells the peer why when they do not go through.
async fn greeted<T>(line: &Line, greeting: impl Future<Output = Result<T, DialError>>) -> Result<T, DialError> {
    let result = timeout(GREETING_TIMEOUT, greeting).await.unwrap_or(Err(DialError::TimedOut));
    if let Err(error) = &result {
        line.close(farewell(error));
    }
    result
}

async fn greet(line: &Arc<Line>, hello: &Hello) -> Result<Link, DialError> {
    let frame = greeting::frame(hello).map_err(|_| DialError::GreetingTooLong)?;
    let (mut reader, mut writer) = open_stream(line).await?;
    writer.send(frame).await?;
    let theirs = greeting::read(&mut reader).await?;
    let version = greeting::check(hello, &theirs, &line.peer())?;
    reader.allow(FRAME_BODY_BYTES);
    let control = (ControlSender::new(writer, line.clone()), ControlReceiver::new(reader, line.clone()));
    Ok(Link::new(line.clone(), theirs, version, control))
}

async fn open_pairing(line: &Arc<Line>) -> Result<PairLink, DialError> {
    let (mut reader, mut writer) = open_stream(line).await?;
    pairing::send_opening(&mut writer).await?;
    pairing::read_opening(&mut reader).await?;
    reader.allow(FRAME_BODY_BYTES);
    Ok(PairLink::new(line.clone(), reader, writer))
}

async fn open_stream(line: &Line) -> Result<(FrameReader, FrameWriter), DialError> {
    let (send, receive) = line.connection().open_bi().await.map_err(Closed::from)?;
    Ok((FrameReader::new(receive, HELLO_BYTES), FrameWriter::new(send)))
}

/// Why the handshake failed, as far as the other side or the pinned key tells.
fn refusal(error: ConnectionError, pin: &Pin) -> DialError {
    if let Some(wrong) = pin.wrong_key() {
        return wrong;
    }
    match error {
        ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == NO_APPLICATION_PROTOCOL => {
            DialError::NoCommonAlpn
        }
        ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == CONNECTION_REFUSED => {
            DialError::Busy
        }
        ConnectionError::VersionMismatch => DialError::NoCommonAlpn,
        ConnectionError::TimedOut => silence(pin),
        error @ (ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::ApplicationClosed(_)
        | ConnectionError::Reset
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted) => Closed::from(error).into(),
    }
}

fn silence(pin: &Pin) -> DialError {
    if pin.answered() { DialError::TimedOut } else { DialError::Unreachable }
}

impl Pin {
    fn wrong_key(&self) -> Option<DialError> {
        self.impostor().map(|(expected, found)| DialError::WrongKey { expected, found })
    }
}

fn farewell(error: &DialError) -> CloseReason {
    match error {
        DialError::VersionMismatch { .. } => CloseReason::VersionMismatch,
        DialError::WrongMesh { .. } => CloseReason::WrongMesh,
        DialError::TimedOut => CloseReason::TimedOut,
        DialError::Protocol(_) => CloseReason::Protocol,
        DialError::Unreachable
        | DialError::WrongKey { .. }
        | DialError::Refused
        | DialError::NotAMember
        | DialError::NoCommonAlpn
        | DialError::Busy
        | DialError::TooManyLinks
        | DialError::Address
        | DialError::GreetingTooLong
        | DialError::EndpointClosed
        | DialError::Lost(_)
        | DialError::Local(_) => CloseReason::Done,
    }
}

impl From<Closed> for DialError {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::NotAdmitted | Closed::ByPeer(CloseReason::NotAdmitted) => Self::Refused,
            Closed::ByPeer(CloseReason::Busy) => Self::Busy,
            Closed::Here => Self::EndpointClosed,
            lost @ (Closed::ByPeer(_) | Closed::Silent | Closed::Restarted | Closed::Transport(_)) => Self::Lost(lost),
        }
    }
}

impl From<LinkError> for DialError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Closed(closed) => closed.into(),
            LinkError::Protocol(breach) => Self::Protocol(breach),
            LinkError::TooLong => Self::GreetingTooLong,
            LinkError::Cut | LinkError::Stopped | LinkError::Finished => Self::Protocol(Breach::NoGreeting),
        }
    }
}

impl From<GreetingFault> for DialError {
    fn from(fault: GreetingFault) -> Self {
        match fault {
            GreetingFault::AnotherDevice => Self::Protocol(Breach::GreetsAsAnother),
            GreetingFault::VersionMismatch { ours, theirs } => Self::VersionMismatch { ours, theirs },
            GreetingFault::WrongMesh { ours, theirs } => Self::WrongMesh { ours, theirs },
        }
    }
}

impl From<ConnectError> for DialError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::EndpointStopping => Self::EndpointClosed,
            ConnectError::InvalidRemoteAddress(_) => Self::Address,
            error @ (ConnectError::CidsExhausted
            | ConnectError::InvalidServerName(_)
            | ConnectError::NoDefaultClientConfig
            | ConnectError::UnsupportedVersion) => Self::Local(error.to_string()),
        }
    }
}

/// TLS wants a name; it is neither sent nor checked. The key is what counts.
const SERVER_NAME: &str = "cede.invalid";
