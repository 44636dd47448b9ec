//! The carrier contract over QUIC, and what only QUIC can get wrong.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cede_carrier::closing::{CloseReason, Closed};
use cede_carrier::endpoint::dial::DialError;
use cede_carrier::endpoint::{BindError, Endpoint, Incoming};
use cede_carrier::gate::Gate;
use cede_carrier::limits;
use cede_carrier::link::{Link, LinkError};
use cede_carrier::pairing::PairLink;
use cede_tests::carrier_contract::{Guests, Node, NodeLink, Rogue, device, hello, link};
use cede_wire::id::DeviceKey;
use cede_wire::message::{Hello, PeerMessage};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::time::timeout;

cede_tests::carrier_contract!(QuicNode);

const A: u8 = 1;
const B: u8 = 2;
const SOON: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(200);
/// The TLS alert access_denied as a QUIC code: the handshake failed, there was never a connection to speak on.
const ACCESS_DENIED: u64 = 0x131;
const NO_APPLICATION_PROTOCOL: u64 = 0x178;

// What only QUIC can get wrong.

/// Shows: C-1, R-3
#[tokio::test]
async fn unknown_key_fails_in_the_handshake_itself() {
    let b = QuicNode::start(B, Guests::of([A])).await;
    let code = raw::dial(&b, 3, &[b"cede/1"]).await.refused_with().await;
    assert_eq!(code, ACCESS_DENIED, "an alert of the handshake, not a close of the program");
}

/// Shows: C-1
#[tokio::test]
async fn open_pairing_does_not_let_an_unknown_key_in_as_a_member() {
    let guests = Guests::of([A]);
    guests.pair(true);
    let b = QuicNode::start(B, guests).await;
    assert_eq!(raw::dial(&b, 3, &[b"cede/1"]).await.refused_with().await, ACCESS_DENIED);
    assert_eq!(raw::dial(&b, 3, &[b"cede/1", b"cede-pair/1"]).await.refused_with().await, ACCESS_DENIED);
    assert_eq!(raw::dial(&b, 3, &[b"cede-pair/1", b"cede/1"]).await.refused_with().await, ACCESS_DENIED);
    assert!(timeout(QUIET, b.endpoint.accept(&hello(B))).await.is_err());
}

/// Shows: C-2
#[tokio::test]
async fn only_the_exact_protocol_names_are_spoken() {
    let guests = Guests::of([A]);
    guests.pair(true);
    let b = QuicNode::start(B, guests).await;
    for name in [&b"cede/2"[..], b"cede", b"CEDE/1", b"cede/1 ", b"h3"] {
        assert_eq!(raw::dial(&b, A, &[name]).await.refused_with().await, NO_APPLICATION_PROTOCOL);
    }
}

#[tokio::test]
async fn dialing_another_program_says_so() {
    let other = raw::server(7, &[b"h3"]);
    let a = QuicNode::start(A, Guests::of([7])).await;
    let dialed = a.endpoint.dial(other.local_addr().unwrap(), &device(7).key(), &hello(A)).await;
    assert_eq!(dialed.err(), Some(DialError::NoCommonAlpn));
}

/// Shows: C-2
#[tokio::test]
async fn no_ticket_is_given_so_nothing_can_be_resumed() {
    let guests = Guests::of([A]);
    let b = QuicNode::start(B, guests.clone()).await;
    let eager = raw::Eager::new(A);
    for _ in 0..2 {
        let (_rogue, _link) = {
            let mut rogue = eager.connect_fully(&b).await;
            rogue.write(&PeerMessage::Hello(hello(A)).to_frame().unwrap()).await;
            let link = timeout(SOON, b.accept(&hello(B))).await.unwrap().unwrap();
            tokio::time::sleep(QUIET).await;
            (rogue, link)
        };
    }
    assert!(!eager.can_resume(&b), "early data was possible");
    guests.remove(&device(A).key());
    assert_eq!(eager.connect(&b).await.refused_with().await, ACCESS_DENIED);
}

/// Shows: C-8
#[tokio::test]
async fn device_removed_within_its_handshake_gets_no_link() {
    let b = Endpoint::bind(&device(B), LOCALHOST, Arc::new(AdmitsOnce::default())).unwrap();
    let a = QuicNode::start(A, Guests::of([B])).await;
    let (address, key, hello_a, hello_b) = (b.local_addr().unwrap(), device(B).key(), hello(A), hello(B));
    let accept = timeout(SOON, b.accept(&hello_b));
    let (dialed, accepted) = tokio::join!(a.endpoint.dial(address, &key, &hello_a), accept);
    assert_eq!(dialed.err(), Some(DialError::Refused));
    assert!(accepted.is_err(), "a link was made");
}

/// Shows: C-1
#[tokio::test]
async fn pairing_is_refused_while_it_is_closed() {
    let guests = Guests::of([A]);
    let b = QuicNode::start(B, guests.clone()).await;
    let a = QuicNode::start(3, Guests::of([])).await;
    assert_eq!(a.endpoint.dial_pairing(b.address()).await.err(), Some(DialError::Refused));
    guests.pair(true);
    let (ours, theirs) = pairing(&a, &b).await;
    assert_eq!((ours.peer(), theirs.peer()), (b.key(), a.key()));
    guests.pair(false);
    assert_eq!(a.endpoint.dial_pairing(b.address()).await.err(), Some(DialError::Refused));
}

#[tokio::test]
async fn pairing_frames_go_both_ways_and_the_last_one_arrives() {
    let (a, b) = strangers().await;
    let (mut ours, mut theirs) = pairing(&a, &b).await;
    assert_eq!(ours.exporter(b"pairing").unwrap(), theirs.exporter(b"pairing").unwrap());
    ours.send_frame(64, b"hello").await.unwrap();
    assert_eq!(theirs.recv_frame().await.unwrap(), Some((64, b"hello".to_vec())));
    theirs.send_frame(65, &[]).await.unwrap();
    assert_eq!(ours.recv_frame().await.unwrap(), Some((65, Vec::new())));
    let last = vec![5; 200_000];
    let receive = async { (theirs.recv_frame().await, theirs.recv_frame().await) };
    let send = async {
        ours.send_frame(66, &last).await.unwrap();
        ours.finish().await
    };
    let (sent, (received, end)) = tokio::join!(send, receive);
    sent.unwrap();
    assert_eq!(received.unwrap(), Some((66, last)));
    assert_eq!(end.unwrap(), None);
    let too_long = vec![0; cede_wire::limits::FRAME_BODY_BYTES + 1];
    assert_eq!(theirs.send_frame(66, &too_long).await, Err(LinkError::TooLong));
}

/// Shows: C-1
#[tokio::test]
async fn strangers_take_only_the_seats_for_pairing() {
    let (a, b) = strangers().await;
    let mut taken = Vec::new();
    for _ in 0..limits::PAIR_LINKS {
        taken.push(pairing(&a, &b).await);
    }
    let other = QuicNode::start(4, Guests::of([])).await;
    assert_eq!(other.endpoint.dial_pairing(b.address()).await.err(), Some(DialError::Busy));
    let member = QuicNode::start(A, Guests::of([B])).await;
    link(&member, &b).await;
    drop(taken);
    tokio::time::sleep(QUIET).await;
    pairing(&other, &b).await;
}

/// Shows: C-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_over_the_limit_are_refused_as_busy() {
    let b = QuicNode::start(B, Guests::of([A])).await;
    let mut links = Vec::new();
    for _ in 0..limits::LINKS {
        let a = QuicNode::start(A, Guests::of([B])).await;
        links.push((link(&a, &b).await, a));
    }
    let late = QuicNode::start(A, Guests::of([B])).await;
    assert_eq!(late.endpoint.dial(b.address(), &b.key(), &hello(A)).await.err(), Some(DialError::Busy));
    links.pop();
    tokio::time::sleep(QUIET).await;
    link(&late, &b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_handshakes_make_newcomers_prove_their_address_and_keep_no_member_out() {
    let (_left, _right, relay, (a, b)) = relayed(|_| ()).await;
    assert_eq!(relay.faults.retries.load(Ordering::SeqCst), 0);
    // Each proves its key, holds its place and never greets.
    let mut stalled = Vec::new();
    for _ in 0..limits::HANDSHAKES_BEFORE_RETRY + 4 {
        stalled.push(QuicNode::rogue(&b, A).await);
    }
    let (key, hello_a, hello_b) = (b.key(), hello(A), hello(B));
    let (dialed, accepted) = tokio::join!(a.endpoint.dial(relay.address, &key, &hello_a), b.accept(&hello_b));
    assert!(dialed.is_ok() && accepted.is_some());
    assert_eq!(relay.faults.retries.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn stranger_is_not_even_dialed() {
    let listener = UdpSocket::bind(LOCALHOST).await.unwrap();
    let a = QuicNode::start(A, Guests::of([])).await;
    let dialed = a.endpoint.dial(listener.local_addr().unwrap(), &device(B).key(), &hello(A)).await;
    assert_eq!(dialed.err(), Some(DialError::NotAMember));
    assert!(timeout(QUIET, listener.recv_from(&mut [0; 2_000])).await.is_err(), "a packet was sent");
}

#[tokio::test]
async fn nothing_at_the_address_is_unreachable_in_bounded_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let a = QuicNode::start(A, Guests::of([B])).await;
    let started = Instant::now();
    let dialed = a.endpoint.dial(silent.local_addr().unwrap(), &device(B).key(), &hello(A)).await;
    assert_eq!(dialed.err(), Some(DialError::Unreachable));
    assert!(started.elapsed() < limits::HANDSHAKE_TIMEOUT + SOON);
}

#[tokio::test]
async fn address_that_cannot_be_dialed_is_named_as_such() {
    let a = QuicNode::start(A, Guests::of([B])).await;
    for address in ["127.0.0.1:0", "[::1]:9"] {
        let dialed = a.endpoint.dial(address.parse().unwrap(), &device(B).key(), &hello(A)).await;
        assert_eq!(dialed.err(), Some(DialError::Address), "{address}");
    }
}

#[tokio::test]
async fn port_in_use_is_named_as_such() {
    let a = QuicNode::start(A, Guests::of([])).await;
    let second = Endpoint::bind(&device(B), a.address(), Guests::of([]));
    assert_eq!(second.err(), Some(BindError::InUse));
}

#[test]
fn binding_outside_a_runtime_is_an_error_and_no_panic() {
    let bound = Endpoint::bind(&device(A), LOCALHOST, Guests::of([]));
    assert_eq!(bound.err(), Some(BindError::NoRuntime));
}

#[tokio::test]
async fn one_socket_serves_both_families() {
    let Ok(b) = Endpoint::bind(&device(B), "[::]:0".parse().unwrap(), Guests::of([A])) else {
        println!("skipped: no IPv6 on this machine");
        return;
    };
    let port = b.local_addr().unwrap().port();
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let mut address: SocketAddr = loopback.parse().unwrap();
        let a = Endpoint::bind(&device(A), address, Guests::of([B])).unwrap();
        address.set_port(port);
        let (key, hello_a, hello_b) = (device(B).key(), hello(A), hello(B));
        let (dialed, accepted) = tokio::join!(a.dial(address, &key, &hello_a), b.accept(&hello_b));
        dialed.unwrap();
        assert!(matches!(accepted, Some(Incoming::Member(_))));
    }
}

#[tokio::test]
async fn closed_endpoint_tells_its_peers_and_accepts_nobody() {
    let guests = Guests::of([A, B]);
    let (a, b) = (QuicNode::start(A, guests.clone()).await, QuicNode::start(B, guests).await);
    let (left, right) = link(&a, &b).await;
    b.endpoint.close().await;
    assert_eq!(timeout(SOON, left.closed()).await.unwrap(), Closed::ByPeer(CloseReason::Stopping));
    assert_eq!(right.closed().await, Closed::Here);
    assert!(timeout(SOON, b.endpoint.accept(&hello(B))).await.unwrap().is_none());
    let dialed = b.endpoint.dial(a.address(), &a.key(), &hello(B)).await;
    assert_eq!(dialed.err(), Some(DialError::EndpointClosed));
}

/// Shows: C-9
#[tokio::test]
async fn silent_peer_is_noticed_in_bounded_time() {
    let (left, right, relay, _nodes) = relayed(|_| ()).await;
    relay.faults.cut.store(true, Ordering::SeqCst);
    let both = async { tokio::join!(left.closed(), right.closed()) };
    let (at_a, at_b) = timeout(limits::IDLE_TIMEOUT + limits::KEEP_ALIVE + SOON, both).await.unwrap();
    assert_eq!((at_a, at_b), (Closed::Silent, Closed::Silent));
}

/// Shows: C-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_interruption_does_not_end_the_link() {
    let (left, right, relay, _nodes) = relayed(|_| ()).await;
    relay.faults.cut.store(true, Ordering::SeqCst);
    tokio::time::sleep(limits::IDLE_TIMEOUT / 4).await;
    relay.faults.cut.store(false, Ordering::SeqCst);
    blocks_arrive(&left, &right, 4, |_| ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_follows_a_dialer_whose_address_changes() {
    let (left, right, relay, _nodes) = relayed(|_| ()).await;
    let before = right.remote_addr();
    let moves = |number| {
        if number == 8 {
            relay.faults.moved.notify_one()
        }
    };
    blocks_arrive(&left, &right, 64, moves).await;
    assert_ne!(right.remote_addr(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_arrive_over_a_narrow_and_lossy_path() {
    let narrow = 1_280 - 48;
    let (left, right, _relay, _nodes) = relayed(|faults| {
        faults.longest.store(narrow, Ordering::SeqCst);
        faults.lost_of.store(50, Ordering::SeqCst);
    })
    .await;
    blocks_arrive(&left, &right, 32, |_| ()).await;
    blocks_arrive(&right, &left, 32, |_| ()).await;
}

/// Shows: C-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quiet_link_stays_up() {
    let (a, b) = (QuicNode::start(A, Guests::of([B])).await, QuicNode::start(B, Guests::of([A])).await);
    let (left, right) = link(&a, &b).await;
    tokio::time::sleep(limits::IDLE_TIMEOUT + Duration::from_secs(2)).await;
    assert_eq!((left.is_closed(), right.is_closed()), (None, None));
    let (mut to_b, _at_a) = left.control();
    let (_to_a, mut at_b) = right.control();
    to_b.send(&PeerMessage::SessionsQuery).await.unwrap();
    assert_eq!(at_b.recv().await.unwrap(), Some(PeerMessage::SessionsQuery));
}

/// Not a test of time: it prints the rate of a gibibyte on loopback. Run in release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: cargo test --release -p cede-tests --test carriers -- --ignored --nocapture"]
async fn rate_of_a_gibibyte() {
    for streams in [1, 4] {
        let (a, b) = (QuicNode::start(A, Guests::of([B])).await, QuicNode::start(B, Guests::of([A])).await);
        let (left, right) = link(&a, &b).await;
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..streams {
            let (left, right) = (left.clone(), right.clone());
            tasks.spawn(async move {
                let mut sender = left.open_data().await.unwrap();
                let block = vec![7; 64 << 10];
                for _ in 0..(1 << 14) / streams {
                    sender.write_all(&block).await.unwrap();
                }
                sender.finish().unwrap();
                0
            });
            tasks.spawn(async move {
                let mut receiver = right.accept_data().await.unwrap();
                let mut bytes = 0;
                while let Some(chunk) = receiver.read_chunk(usize::MAX).await.unwrap() {
                    bytes += chunk.len();
                }
                bytes
            });
        }
        let bytes: usize = tasks.join_all().await.into_iter().sum();
        assert_eq!(bytes, 1 << 30);
        let rate = 1024.0 / started.elapsed().as_secs_f64();
        println!("{streams} streams: {rate:.0} MiB/s, peak {}", peak_memory());
    }
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("memory unknown").to_owned()
}

// The node under test.

struct QuicNode {
    endpoint: Endpoint,
    key: DeviceKey,
}

const LOCALHOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl QuicNode {
    fn address(&self) -> SocketAddr {
        self.endpoint.local_addr().unwrap()
    }
}

impl Node for QuicNode {
    type Link = Link;
    type Rogue = raw::Peer;

    async fn start(secret: u8, guests: Arc<Guests>) -> Self {
        let device = device(secret);
        Self { endpoint: Endpoint::bind(&device, LOCALHOST, guests).unwrap(), key: device.key() }
    }

    fn key(&self) -> DeviceKey {
        self.key
    }

    async fn dial(&self, to: &Self, expected: &DeviceKey, hello: &Hello) -> Result<Link, DialError> {
        self.endpoint.dial(to.address(), expected, hello).await
    }

    async fn accept(&self, hello: &Hello) -> Option<Link> {
        match self.endpoint.accept(hello).await? {
            Incoming::Member(link) => Some(link),
            Incoming::Pairing(link) => panic!("a stranger came: {link:?}"),
        }
    }

    fn drop_peer(&self, peer: &DeviceKey) -> usize {
        self.endpoint.drop_peer(peer)
    }

    async fn rogue(to: &Self, secret: u8) -> raw::Peer {
        raw::Eager::new(secret).connect_fully(to).await
    }
}

/// Says yes the first time, which is in the handshake, and no ever after.
#[derive(Default)]
struct AdmitsOnce(AtomicBool);

impl Gate for AdmitsOnce {
    fn admits(&self, _key: &DeviceKey) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    fn pairing_open(&self) -> bool {
        false
    }
}

async fn strangers() -> (QuicNode, QuicNode) {
    let guests = Guests::of([A]);
    guests.pair(true);
    (QuicNode::start(3, Guests::of([])).await, QuicNode::start(B, guests).await)
}

async fn pairing(a: &QuicNode, b: &QuicNode) -> (PairLink, PairLink) {
    let hello = hello(B);
    let (dialed, accepted) = tokio::join!(a.endpoint.dial_pairing(b.address()), b.endpoint.accept(&hello));
    match accepted {
        Some(Incoming::Pairing(accepted)) => (dialed.unwrap(), accepted),
        other => panic!("no pairing link: {other:?}"),
    }
}

/// A stretch of network with faults of its own.
struct Relay {
    address: SocketAddr,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    /// Nothing passes.
    cut: AtomicBool,
    /// Of so many packets, one is lost.
    lost_of: AtomicU64,
    /// Longer packets do not pass.
    longest: AtomicUsize,
    /// The dialer is to look as if it had moved to another port.
    moved: Notify,
    /// How many packets came by.
    seen: AtomicU64,
    /// How many of them were a Retry: a long header of type 3. Source: RFC 9000, 17.2.5.
    retries: AtomicU64,
}

impl Faults {
    fn passes(&self, packet: &[u8]) -> bool {
        let seen = self.seen.fetch_add(1, Ordering::SeqCst);
        let retry = packet.first().is_some_and(|first| first & 0xf0 == 0xf0);
        self.retries.fetch_add(u64::from(retry), Ordering::SeqCst);
        let (lost_of, longest) = (self.lost_of.load(Ordering::SeqCst), self.longest.load(Ordering::SeqCst));
        let lost = lost_of > 0 && seen % lost_of == lost_of - 1;
        !self.cut.load(Ordering::SeqCst) && !lost && (longest == 0 || packet.len() <= longest)
    }
}

impl Relay {
    async fn to(target: SocketAddr) -> Self {
        let near = UdpSocket::bind(LOCALHOST).await.unwrap();
        let relay = Self { address: near.local_addr().unwrap(), faults: Arc::default() };
        tokio::spawn(run(near, target, relay.faults.clone()));
        relay
    }
}

async fn run(near: UdpSocket, target: SocketAddr, faults: Arc<Faults>) {
    let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
    let mut far = far_side(target).await;
    let mut dialer = target;
    loop {
        let sent = tokio::select! {
            Ok((bytes, from)) = near.recv_from(&mut there) => {
                dialer = from;
                let packet = &there[..bytes];
                if faults.passes(packet) { far.send(packet).await } else { Ok(0) }
            }
            Ok(bytes) = far.recv(&mut back) => {
                let packet = &back[..bytes];
                if faults.passes(packet) { near.send_to(packet, dialer).await } else { Ok(0) }
            }
            () = faults.moved.notified() => {
                far = far_side(target).await;
                Ok(0)
            }
        };
        sent.unwrap();
    }
}

async fn far_side(target: SocketAddr) -> UdpSocket {
    let far = UdpSocket::bind(LOCALHOST).await.unwrap();
    far.connect(target).await.unwrap();
    far
}

/// A link through a relay: the dialer's end, the answerer's end, and what lives behind them.
async fn relayed(faults: impl FnOnce(&Faults)) -> (Link, Link, Relay, (QuicNode, QuicNode)) {
    let (a, b) = (QuicNode::start(A, Guests::of([B])).await, QuicNode::start(B, Guests::of([A])).await);
    let relay = Relay::to(b.address()).await;
    faults(&relay.faults);
    let (key, hello_a, hello_b) = (b.key(), hello(A), hello(B));
    let (dialed, accepted) = tokio::join!(a.endpoint.dial(relay.address, &key, &hello_a), b.accept(&hello_b));
    (dialed.unwrap(), accepted.unwrap(), relay, (a, b))
}

/// Sends numbered blocks over one data stream, `each` runs after every one, and checks what arrives.
async fn blocks_arrive(left: &Link, right: &Link, count: u32, each: impl Fn(u32)) {
    let block = |number: u32| vec![(number % 251) as u8; 64 << 10];
    let send = async {
        let mut sender = left.open_data().await.unwrap();
        for number in 0..count {
            sender.write_all(&block(number)).await.unwrap();
            each(number);
        }
        sender.finish().unwrap();
    };
    let receive = async {
        let mut receiver = right.accept_data().await.unwrap();
        let mut all = Vec::new();
        while let Some(bytes) = receiver.read_chunk(64 << 10).await.unwrap() {
            all.extend_from_slice(&bytes);
        }
        all
    };
    let ((), all) = timeout(Duration::from_secs(60), async { tokio::join!(send, receive) }).await.unwrap();
    assert!(all == (0..count).flat_map(block).collect::<Vec<u8>>(), "{} bytes differ", all.len());
}

/// A peer made from the QUIC library alone, so that it can lie.
mod raw {
    use super::*;
    use cede_tests::anyone::Anyone;
    use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
    use rustls::SignatureScheme;
    use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
    use rustls::crypto::{CryptoProvider, ring};
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
    use rustls::server::AlwaysResolvesServerRawPublicKeys;
    use rustls::sign::CertifiedKey;
    use rustls::version::TLS13;

    /// A connection that may have been refused, or may be about to be.
    pub(crate) struct Dialed(Result<quinn::Connection, quinn::ConnectionError>);

    impl Dialed {
        /// The code of the handshake's failure. A message is written first: it must not be what decides.
        pub(crate) async fn refused_with(self) -> u64 {
            let error = match self.0 {
                Err(error) => error,
                Ok(connection) => {
                    if let Ok((mut send, _)) = connection.open_bi().await {
                        let _refused = send.write_all(&PeerMessage::Hello(hello(A)).to_frame().unwrap()).await;
                    }
                    timeout(SOON, connection.closed()).await.expect("the connection was not refused")
                }
            };
            match error {
                quinn::ConnectionError::ConnectionClosed(close) => close.error_code.into(),
                other => panic!("not refused by the handshake: {other:?}"),
            }
        }
    }

    pub(crate) async fn dial(to: &QuicNode, secret: u8, names: &[&[u8]]) -> Dialed {
        Eager::speaking(secret, names).connect(to).await
    }

    /// A client that would resume and send early if it could.
    pub(crate) struct Eager {
        endpoint: quinn::Endpoint,
        config: quinn::ClientConfig,
    }

    impl Eager {
        pub(crate) fn new(secret: u8) -> Self {
            Self::speaking(secret, &[b"cede/1"])
        }

        fn speaking(secret: u8, names: &[&[u8]]) -> Self {
            let (provider, key) = identity(secret);
            let mut config = rustls::ClientConfig::builder_with_provider(provider)
                .with_protocol_versions(&[&TLS13])
                .unwrap()
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone(vec![SignatureScheme::ED25519])))
                .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
            config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
            config.resumption = Resumption::in_memory_sessions(16);
            config.enable_early_data = true;
            let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
            Self { endpoint: quinn::Endpoint::client(LOCALHOST).unwrap(), config }
        }

        fn connecting(&self, to: &QuicNode) -> quinn::Connecting {
            self.endpoint.connect_with(self.config.clone(), to.address(), "cede.invalid").unwrap()
        }

        pub(crate) async fn connect(&self, to: &QuicNode) -> Dialed {
            Dialed(self.connecting(to).await)
        }

        pub(crate) async fn connect_fully(&self, to: &QuicNode) -> Peer {
            let connection = self.connecting(to).await.unwrap();
            let (send, _receive) = connection.open_bi().await.unwrap();
            Peer { connection, send, _receive, _endpoint: self.endpoint.clone() }
        }

        pub(crate) fn can_resume(&self, to: &QuicNode) -> bool {
            self.connecting(to).into_0rtt().is_ok()
        }
    }

    pub(crate) struct Peer {
        connection: quinn::Connection,
        send: quinn::SendStream,
        _receive: quinn::RecvStream,
        _endpoint: quinn::Endpoint,
    }

    impl Rogue for Peer {
        async fn write(&mut self, bytes: &[u8]) {
            // Whoever is written to may have closed the link over what came before.
            let _closed = self.send.write_all(bytes).await;
        }
        fn finish(&mut self) {
            self.send.finish().unwrap();
        }
        async fn closed(&self) -> Closed {
            self.connection.closed().await.into()
        }
    }

    pub(crate) fn server(secret: u8, names: &[&[u8]]) -> quinn::Endpoint {
        let (provider, key) = identity(secret);
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
        config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
        let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).unwrap()));
        let endpoint = quinn::Endpoint::server(config, LOCALHOST).unwrap();
        let accepting = endpoint.clone();
        tokio::spawn(async move {
            while let Some(incoming) = accepting.accept().await {
                let _refused = incoming.await;
            }
        });
        endpoint
    }

    fn identity(secret: u8) -> (Arc<CryptoProvider>, Arc<CertifiedKey>) {
        let device = device(secret);
        let der = device.pkcs8_der();
        let signer = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der.as_slice())).unwrap();
        let prefix = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        let spki = [&prefix[..], device.key().as_bytes()].concat();
        let key = CertifiedKey::new(vec![CertificateDer::from(spki)], signer);
        (Arc::new(ring::default_provider()), Arc::new(key))
    }
}
