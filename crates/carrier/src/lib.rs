//! Links between devices: QUIC connections whose ends have proved their keys, and hints from the local network.
//!
//! `carrier` touches the peer sockets. It decides who may speak at all, by asking the daemon's [`gate::Gate`] within the
//! handshake, and it refuses to know what is said: messages are opaque values, data is bytes.
//!
//! One contract: **a link exists only between two admitted keys that have greeted each other.** A key that is not
//! admitted is refused before a byte of application data is read, an identity is never taken from an earlier
//! connection, and a peer that was removed is gone at once.
//!
//! ```text
//! bind ── accept(hello) ─▶ Member(Link) | Pairing(PairLink)
//!      ── dial(address, key, hello) ─▶ Link ── control stream: PeerMessage, in order
//!                                           ── data streams: bytes, several at once
//!      ── dial_pairing(address) ─▶ PairLink ── frames
//! ```
#![warn(missing_docs)]

pub mod closing;
pub mod discovery;
pub mod endpoint;
mod framing;
pub mod gate;
pub mod greeting;
mod identity;
pub mod limits;
pub mod link;
pub mod pairing;
mod seats;
mod tls;
