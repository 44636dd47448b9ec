//! Answering: from a first packet to a peer that has proved its key and greeted.

use std::sync::Arc;

use cede_wire::id::DeviceKey;
use cede_wire::limits::FRAME_BODY_BYTES;
use cede_wire::message::Hello;
use quinn::Connection;
use quinn::crypto::rustls::HandshakeData;
use rustls::pki_types::CertificateDer;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::{Shared, transport};
use crate::closing::{CloseReason, Closed};
use crate::framing::{FrameReader, FrameWriter};
use crate::greeting::{self, GreetingFault};
use crate::limits::{
    CLOSING_TIMEOUT, GREETING_TIMEOUT, HANDSHAKE_TIMEOUT, HANDSHAKES, HANDSHAKES_BEFORE_RETRY, HELLO_BYTES,
    PAIR_LINK_LIFE,
};
use crate::link::control::{ControlReceiver, ControlSender};
use crate::link::line::Line;
use crate::link::{Link, LinkError};
use crate::pairing::{self, PairLink};
use crate::tls::{Purpose, raw_key};

/// A peer that waits for the daemon.
pub(super) enum Arrival {
    Member(Greeted),
    Pairing(PairLink),
}

/// A member whose greeting is here and not answered yet.
pub(super) struct Greeted {
    line: Arc<Line>,
    theirs: Hello,
    reader: FrameReader,
    writer: FrameWriter,
}

/// Answers until the endpoint closes; each peer by itself, so that a slow one holds up nobody.
pub(super) async fn answer_all(quic: quinn::Endpoint, shared: Arc<Shared>, arrivals: mpsc::Sender<Arrival>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    while let Some(incoming) = quic.accept().await {
        let under_load = HANDSHAKES - handshakes.available_permits() >= HANDSHAKES_BEFORE_RETRY;
        if under_load && !incoming.remote_address_validated() && incoming.may_retry() {
            let _impossible = incoming.retry();
            continue;
        }
        let Ok(permit) = handshakes.clone().try_acquire_owned() else {
            tracing::debug!("refusing a connection: too many handshakes");
            incoming.refuse();
            continue;
        };
        let (shared, arrivals) = (shared.clone(), arrivals.clone());
        tokio::spawn(async move {
            if let Err(unanswered) = shared.answer(incoming, &arrivals).await {
                tracing::debug!(reason = %unanswered, "an incoming connection came to nothing");
            }
            drop(permit);
        });
    }
}

impl Shared {
    async fn answer(&self, incoming: quinn::Incoming, arrivals: &mpsc::Sender<Arrival>) -> Result<(), Unanswered> {
        let connection =
            timeout(HANDSHAKE_TIMEOUT, self.handshake(incoming)).await.map_err(|_| Unanswered::TooSlow)??;
        let (purpose, peer) = proved(&connection).ok_or(Unanswered::NoIdentity)?;
        let line = self.seat(purpose, peer, connection)?;
        let opened = match timeout(GREETING_TIMEOUT, open(purpose, &line)).await {
            Ok(Ok(arrival)) => arrival,
            Ok(Err(error)) => return Err(turn_away(&line, &error)),
            Err(_) => {
                line.close(CloseReason::TimedOut);
                return Err(Unanswered::TooSlow);
            }
        };
        // The daemon does not keep up; the peer may try again.
        if arrivals.send_timeout(opened, GREETING_TIMEOUT).await.is_err() {
            line.close(CloseReason::Busy);
        }
        Ok(())
    }

    async fn handshake(&self, incoming: quinn::Incoming) -> Result<Connection, Unanswered> {
        let mut config = self.server.clone();
        config.crypto = transport::crypto(&self.identity, self.gate.clone()).map_err(Unanswered::Local)?;
        let connecting = incoming.accept_with(Arc::new(config)).map_err(Closed::from)?;
        Ok(connecting.await.map_err(Closed::from)?)
    }

    /// Gives the peer a seat, then asks the gate again: whoever was removed since the handshake is either seen here or
    /// found in its seat by the one who removes it.
    pub(super) fn seat(
        &self,
        purpose: Purpose,
        peer: DeviceKey,
        connection: Connection,
    ) -> Result<Arc<Line>, Unanswered> {
        let (seats, admitted): (_, &dyn Fn() -> bool) = match purpose {
            Purpose::Member => (&self.members, &|| self.gate.admits(&peer)),
            Purpose::Pairing => (&self.strangers, &|| true),
        };
        let Some(seat) = seats.take(peer, &connection) else {
            connection.close(CloseReason::Busy.code(), &[]);
            return Err(Unanswered::NoSeat);
        };
        if !admitted() {
            connection.close(CloseReason::NotAdmitted.code(), &[]);
            return Err(Unanswered::NotAdmitted);
        }
        Ok(Line::new(connection, peer, seat, self.bulk_slots.clone()))
    }
}

/// Waits for the peer to open its stream and to speak first.
async fn open(purpose: Purpose, line: &Arc<Line>) -> Result<Arrival, LinkError> {
    let (send, receive) = line.connection().accept_bi().await.map_err(Closed::from)?;
    let (mut reader, mut writer) = (FrameReader::new(receive, HELLO_BYTES), FrameWriter::new(send));
    match purpose {
        Purpose::Member => {
            let theirs = greeting::read(&mut reader).await?;
            reader.allow(FRAME_BODY_BYTES);
            Ok(Arrival::Member(Greeted { line: line.clone(), theirs, reader, writer }))
        }
        Purpose::Pairing => {
            pairing::read_opening(&mut reader).await?;
            pairing::send_opening(&mut writer).await?;
            reader.allow(FRAME_BODY_BYTES);
            tokio::spawn(end_of_life(line.connection().clone()));
            Ok(Arrival::Pairing(PairLink::new(line.clone(), reader, writer)))
        }
    }
}

/// A stranger does not keep a seat for ever.
async fn end_of_life(connection: Connection) {
    if timeout(PAIR_LINK_LIFE, connection.closed()).await.is_err() {
        connection.close(CloseReason::TimedOut.code(), &[]);
    }
}

impl Greeted {
    /// Sends our greeting, which fits into what any peer takes at once, and makes the link. A peer that does not fit is
    /// sent it too: it names the reason at the other end.
    pub(super) fn answer(mut self, hello: &Hello) -> Option<Link> {
        let peer = self.line.peer();
        let answered = greeting::frame(hello).and_then(|frame| self.writer.send_now(frame));
        let checked = greeting::check(hello, &self.theirs, &peer);
        match (answered, checked) {
            (Ok(()), Ok(version)) => {
                let sender = ControlSender::new(self.writer, self.line.clone());
                let receiver = ControlReceiver::new(self.reader, self.line.clone());
                Some(Link::new(self.line, self.theirs, version, (sender, receiver)))
            }
            (Ok(()), Err(fault)) => {
                tracing::info!(peer = %peer.device().short(), reason = %fault, "a member was turned away");
                tokio::spawn(self.part(fault));
                None
            }
            (Err(error), _) => {
                turn_away(&self.line, &error);
                None
            }
        }
    }

    async fn part(self, fault: GreetingFault) {
        let _late = timeout(CLOSING_TIMEOUT, self.line.closed()).await;
        self.line.close(reason(&fault));
    }
}

/// Why an incoming connection became no link. It is closed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("too slow")]
    TooSlow,
    #[error("no identity was proved")]
    NoIdentity,
    #[error("too many links")]
    NoSeat,
    #[error("not admitted")]
    NotAdmitted,
    #[error(transparent)]
    Closed(#[from] Closed),
    #[error(transparent)]
    Link(LinkError),
    #[error("this side cannot answer: {0}")]
    Local(String),
}

fn turn_away(line: &Line, error: &LinkError) -> Unanswered {
    line.close(CloseReason::Protocol);
    Unanswered::Link(error.clone())
}

fn reason(fault: &GreetingFault) -> CloseReason {
    match fault {
        GreetingFault::AnotherDevice => CloseReason::Protocol,
        GreetingFault::VersionMismatch { .. } => CloseReason::VersionMismatch,
        GreetingFault::WrongMesh { .. } => CloseReason::WrongMesh,
    }
}

/// What the handshake agreed on, and whose key it proved.
pub(super) fn proved(connection: &Connection) -> Option<(Purpose, DeviceKey)> {
    let data = connection.handshake_data()?.downcast::<HandshakeData>().ok()?;
    let purpose = Purpose::of_alpn(&data.protocol?)?;
    let keys = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    let (first, others) = keys.split_first()?;
    Some((purpose, raw_key(first, others).ok()?))
}
