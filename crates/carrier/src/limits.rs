//! Every bound of the carrier: name, value, reason.
//!
//! Memory, worst case of peers that send and a daemon that does not read: [`LINKS`] × [`LINK_WINDOW_BYTES`] +
//! [`BULK_LINKS`] × [`BULK_WINDOW_BYTES`] + [`PAIR_LINKS`] × [`LINK_WINDOW_BYTES`] = 32 + 54 + 2 = 88 MiB received and
//! unread. Sent and not yet acknowledged: at most [`SEND_WINDOW_BYTES`] for each link that this daemon itself sends bulk
//! on. The goal for the whole daemon is 128 MiB while gibibytes move; a daemon that reads holds far less.

use core::time::Duration;

/// From the first packet to the proof of both keys. Two round trips at 2 s each, and a little.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// From the proof of both keys to both greetings. One round trip at 2 s, and a peer that is busy.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a finished link waits for the peer's last packet when the endpoint closes, or for a peer of another
/// version to read why.
pub const CLOSING_TIMEOUT: Duration = Duration::from_secs(1);

/// A quiet link says something this often: below the 30 s after which many NATs forget a UDP flow.
pub const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A peer that says nothing for this long is gone: four keep-alives.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Links at once, in both directions together: the largest mesh that is measured has 64 devices, which is 63 links.
pub const LINKS: usize = 64;

/// Pairing links at once. One ceremony is open at a time; the others are a stranger's and wait in vain.
pub const PAIR_LINKS: usize = 4;

/// Longest life of a pairing link that came in: the five minutes that the person has for a yes, the steps before it, and
/// the time to end it well.
pub const PAIR_LINK_LIFE: Duration = Duration::from_secs(420);

/// Handshakes of incoming connections at once; the next one is refused as busy.
pub const HANDSHAKES: usize = 64;

/// From this many handshakes at once, a newcomer first proves that it receives at its address (a Retry), so that
/// forged addresses cost us nothing.
pub const HANDSHAKES_BEFORE_RETRY: usize = 16;

/// Connections whose first packet is here and that nobody looked at yet.
pub const INCOMING: usize = 128;

/// Bytes buffered for one connection that nobody looked at yet: a few packets of a handshake.
pub const INCOMING_BYTES: u64 = 16 << 10;

/// The same for all of them.
pub const INCOMING_BYTES_TOTAL: u64 = 1 << 20;

/// Bytes of handshake messages out of order. A handshake of raw keys is under 1 KiB.
pub const HANDSHAKE_BYTES: usize = 8 << 10;

/// Links and pairing links that the daemon has not accepted yet.
pub const ARRIVALS: usize = 16;

/// Data streams open at once, in each direction. A transfer uses four.
pub const DATA_STREAMS: u32 = 8;

/// Bytes received and unread on one stream: 2 MiB is 100 MiB/s at a round trip of 20 ms, and four streams fill what most
/// lines carry.
pub const STREAM_WINDOW_BYTES: u32 = 2 << 20;

/// Bytes received and unread on a link that carries control messages only.
pub const LINK_WINDOW_BYTES: u32 = 512 << 10;

/// Bytes received and unread on a link with data streams: every data stream and the control stream at their full
/// windows. So data that nobody reads does not hold up a message.
pub const BULK_WINDOW_BYTES: u32 = (DATA_STREAMS + 1) * STREAM_WINDOW_BYTES;

/// Links that have the bulk window at once; others move data through [`LINK_WINDOW_BYTES`]. A link that was given it
/// keeps it until it ends: credit given to a peer cannot be taken back.
pub const BULK_LINKS: usize = 3;

/// Bytes sent and not acknowledged on one link: fills the peer's bulk window.
pub const SEND_WINDOW_BYTES: u64 = BULK_WINDOW_BYTES as u64;

/// Socket buffers asked of the system. With 4 MiB a gibibyte on loopback loses no packet, with the usual 208 KiB
/// thousands.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Longest greeting. The software's version is its only text.
pub const HELLO_BYTES: usize = 1 << 10;

/// Body bytes for which room is made before they arrive; the rest grows as it comes.
pub const BODY_AHEAD_BYTES: usize = 16 << 10;

/// Frames of unknown kinds skipped in a row; a newer peer sends a few, not a stream of them.
pub const UNKNOWN_FRAMES: u32 = 64;

/// Hints from the local network kept for the daemon. Newer ones are dropped while it does not read.
pub const HINTS: usize = 64;

/// Addresses taken from one announcement: a machine with a few networks, in both families.
pub const HINT_ADDRESSES: usize = 8;
