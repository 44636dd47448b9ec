//! The socket and the QUIC settings.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{EndpointConfig, IdleTimeout, TokioRuntime, TransportConfig, ValidationTokenConfig, VarInt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::endpoint::BindError;
use crate::gate::Gate;
use crate::identity::Identity;
use crate::limits::{
    DATA_STREAMS, HANDSHAKE_BYTES, IDLE_TIMEOUT, INCOMING, INCOMING_BYTES, INCOMING_BYTES_TOTAL, KEEP_ALIVE,
    LINK_WINDOW_BYTES, SEND_WINDOW_BYTES, SOCKET_BUFFER_BYTES, STREAM_WINDOW_BYTES,
};
use crate::tls;

/// Which end of a connection: only the dialer opens the control stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Dialing,
    Answering,
}

/// The settings of a connection.
pub(super) fn config(side: Side) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT.as_millis() as u32))))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(VarInt::from_u32(u32::from(side == Side::Answering)))
        .max_concurrent_uni_streams(VarInt::from_u32(DATA_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(LINK_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .crypto_buffer_size(HANDSHAKE_BYTES)
        .datagram_receive_buffer_size(None)
        .allow_spin(false);
    config
}

/// The settings of the answering side. No address tokens are given out: a dialer could be followed by them.
pub(super) fn server(identity: &Identity, gate: Arc<dyn Gate>) -> Result<quinn::ServerConfig, String> {
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(0);
    let mut config = quinn::ServerConfig::with_crypto(crypto(identity, gate)?);
    config
        .transport_config(Arc::new(self::config(Side::Answering)))
        .validation_token_config(tokens)
        .max_incoming(INCOMING)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(INCOMING_BYTES_TOTAL);
    Ok(config)
}

/// The TLS side of one incoming connection.
pub(super) fn crypto(identity: &Identity, gate: Arc<dyn Gate>) -> Result<Arc<QuicServerConfig>, String> {
    let config = tls::answering(identity, gate).map_err(|error| error.to_string())?;
    QuicServerConfig::try_from(config).map(Arc::new).map_err(|error| error.to_string())
}

/// Opens the socket.
pub(super) fn open(address: SocketAddr, server: quinn::ServerConfig) -> Result<quinn::Endpoint, BindError> {
    let opened = socket(address).and_then(|socket| {
        quinn::Endpoint::new(EndpointConfig::default(), Some(server), socket, Arc::new(TokioRuntime))
    });
    opened.map_err(|error| {
        let kind = error.kind();
        if kind == ErrorKind::AddrInUse { BindError::InUse } else { BindError::Address(kind) }
    })
}

fn socket(address: SocketAddr) -> std::io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    enlarge(&socket);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Asks for large buffers. A system that grants less is slower, not broken.
fn enlarge(socket: &Socket) {
    let asked = socket
        .set_recv_buffer_size(SOCKET_BUFFER_BYTES)
        .and_then(|()| socket.set_send_buffer_size(SOCKET_BUFFER_BYTES));
    let received = socket.recv_buffer_size().unwrap_or_default();
    let sent = socket.send_buffer_size().unwrap_or_default();
    // Linux reports twice what it grants.
    if asked.is_err() || received < SOCKET_BUFFER_BYTES || sent < SOCKET_BUFFER_BYTES {
        tracing::debug!(received, sent, wanted = SOCKET_BUFFER_BYTES, "small socket buffers");
    }
}
