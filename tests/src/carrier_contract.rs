//! What every carrier must keep, whatever carries it. A carrier joins by a [`Node`]; `carrier_contract!` runs it all.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cede_carrier::closing::{CloseReason, Closed};
use cede_carrier::endpoint::dial::DialError;
use cede_carrier::gate::Gate;
use cede_carrier::limits;
use cede_carrier::link::{Breach, LinkError};
use cede_wire::frame::Header;
use cede_wire::id::{DeviceKey, HandoffId, MeshId};
use cede_wire::limits::FRAME_BODY_BYTES;
use cede_wire::message::{Hello, NeedOf, PeerMessage};
use tokio::task::LocalSet;
use tokio::time::timeout;

mod quic;

/// A device on the carrier under test.
pub trait Node: Sized {
    /// An established link.
    type Link: NodeLink;
    /// A peer that proves a key and then says what it likes.
    type Rogue: Rogue;

    /// Starts the device with this secret.
    fn start(secret: u8, guests: Arc<Guests>) -> impl Future<Output = Self>;
    /// Its key.
    fn key(&self) -> DeviceKey;
    /// Reaches a member.
    fn dial(
        &self,
        to: &Self,
        expected: &DeviceKey,
        hello: &Hello,
    ) -> impl Future<Output = Result<Self::Link, DialError>>;
    /// Waits for a member.
    fn accept(&self, hello: &Hello) -> impl Future<Output = Option<Self::Link>>;
    /// Ends the links to a peer.
    fn drop_peer(&self, peer: &DeviceKey) -> usize;
    /// Connects with this secret and opens the control stream, without a word.
    fn rogue(to: &Self, secret: u8) -> impl Future<Output = Self::Rogue>;
}

/// A link on the carrier under test.
pub trait NodeLink {
    /// Half of the control stream.
    type Sender: NodeSender;
    /// The other half.
    type Receiver: NodeReceiver;
    /// A data stream.
    type DataSender: NodeDataSender;
    /// Its other end.
    type DataReceiver: NodeDataReceiver;

    /// The proved key.
    fn peer(&self) -> DeviceKey;
    /// The peer's greeting.
    fn hello(&self) -> Hello;
    /// The agreed version.
    fn version(&self) -> u16;
    /// The control stream.
    fn control(&self) -> (Self::Sender, Self::Receiver);
    /// Opens a data stream.
    fn open_data(&self) -> impl Future<Output = Result<Self::DataSender, LinkError>>;
    /// Accepts one.
    fn accept_data(&self) -> impl Future<Output = Result<Self::DataReceiver, LinkError>>;
    /// Bytes that only the ends of this connection know.
    fn exporter(&self, label: &[u8]) -> [u8; 32];
    /// Ends the link.
    fn close(&self, reason: CloseReason);
    /// Waits for its end.
    fn closed(&self) -> impl Future<Output = Closed>;
}

/// Sends messages.
pub trait NodeSender {
    /// Sends one.
    fn send(&mut self, message: &PeerMessage) -> impl Future<Output = Result<(), LinkError>>;
    /// Ends this direction.
    fn finish(self) -> impl Future<Output = Result<(), LinkError>>;
}

/// Receives messages.
pub trait NodeReceiver {
    /// The next one.
    fn recv(&mut self) -> impl Future<Output = Result<Option<PeerMessage>, LinkError>>;
}

/// Sends bytes.
pub trait NodeDataSender {
    /// All of them.
    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), LinkError>>;
    /// Declares the end.
    fn finish(self) -> Result<(), LinkError>;
}

/// Receives bytes.
pub trait NodeDataReceiver {
    /// The next ones.
    fn read(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, LinkError>>;
}

/// A lying peer's control stream.
pub trait Rogue {
    /// Writes raw bytes.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = ()>;
    /// Ends the stream.
    fn finish(&mut self);
    /// Waits until the other side ends the connection.
    fn closed(&self) -> impl Future<Output = Closed>;
}

/// A gate whose list can change under a running node.
#[derive(Default)]
pub struct Guests {
    keys: Mutex<BTreeSet<DeviceKey>>,
    pairing: AtomicBool,
}

impl Guests {
    /// A list of the devices with these secrets.
    pub fn of(secrets: impl IntoIterator<Item = u8>) -> Arc<Self> {
        let keys = secrets.into_iter().map(|secret| device(secret).key()).collect();
        Arc::new(Self { keys: Mutex::new(keys), pairing: AtomicBool::new(false) })
    }

    /// Takes a device off the list.
    pub fn remove(&self, key: &DeviceKey) {
        self.keys.lock().unwrap().remove(key);
    }

    /// Opens or closes pairing.
    pub fn pair(&self, open: bool) {
        self.pairing.store(open, Ordering::SeqCst);
    }
}

impl Gate for Guests {
    fn admits(&self, key: &DeviceKey) -> bool {
        self.keys.lock().unwrap().contains(key)
    }

    fn pairing_open(&self) -> bool {
        self.pairing.load(Ordering::SeqCst)
    }
}

/// The device with this secret.
pub fn device(secret: u8) -> cede_seal::device::LocalDevice {
    cede_seal::device::LocalDevice::from_secret(&[secret; 32])
}

/// The greeting of the device with this secret.
pub fn hello(secret: u8) -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        device: device(secret).device(),
        mesh: MeshId::new([9; 32]),
        software: "cede 0.1.0".to_owned(),
        members: 2,
        run: 1,
    }
}

const A: u8 = 1;
const B: u8 = 2;
const SOON: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(200);

async fn pair<N: Node>() -> (N, N) {
    let guests = Guests::of([A, B]);
    (N::start(A, guests.clone()).await, N::start(B, guests).await)
}

/// A link between two nodes: the dialer's end and the answerer's.
pub async fn link<N: Node>(a: &N, b: &N) -> (N::Link, N::Link) {
    let (hello_a, hello_b, key_b) = (hello(A), hello(B), b.key());
    let (dialed, accepted) = tokio::join!(a.dial(b, &key_b, &hello_a), b.accept(&hello_b));
    (dialed.unwrap(), accepted.unwrap())
}

/// A lying peer that has greeted properly, and the honest end.
async fn rogue_link<N: Node>(b: &N) -> (N::Rogue, N::Link) {
    let mut rogue = N::rogue(b, A).await;
    rogue.write(&PeerMessage::Hello(hello(A)).to_frame().unwrap()).await;
    let link = timeout(SOON, b.accept(&hello(B))).await.unwrap().unwrap();
    (rogue, link)
}

fn need(round: u32, bytes: usize) -> PeerMessage {
    let bitmap = (0..bytes).map(|at| (at as u32 ^ round) as u8).collect();
    PeerMessage::Need { handoff: HandoffId::new([3; 16]), round, of: NeedOf::Payload, bitmap }
}

async fn nobody_comes<N: Node>(b: &N) {
    assert!(timeout(QUIET, b.accept(&hello(B))).await.is_err(), "a link was made");
}

/// Messages arrive whole and in the order of sending, both ways at once.
pub async fn messages_arrive_in_order<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let (mut to_b, mut at_a) = left.control();
    let (mut to_a, mut at_b) = right.control();
    const COUNT: u32 = 300;
    let size = |round: u32| (round as usize * 97) % 9_000;
    let send = async |sender: &mut <N::Link as NodeLink>::Sender| {
        for round in 0..COUNT {
            sender.send(&need(round, size(round))).await.unwrap();
        }
    };
    let receive = async |receiver: &mut <N::Link as NodeLink>::Receiver| {
        for round in 0..COUNT {
            assert_eq!(receiver.recv().await.unwrap(), Some(need(round, size(round))));
        }
    };
    tokio::join!(send(&mut to_b), send(&mut to_a), receive(&mut at_a), receive(&mut at_b));
}

/// The largest message goes through; one byte more is not sent.
/// Shows: C-4
pub async fn largest_message_goes_through_and_no_larger<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let (mut to_b, _at_a) = left.control();
    let (_to_a, mut at_b) = right.control();
    let overhead = need(0, FRAME_BODY_BYTES / 2).to_frame().unwrap().len() - 6 - FRAME_BODY_BYTES / 2;
    let largest = need(0, FRAME_BODY_BYTES - overhead);
    let (sent, received) = tokio::join!(to_b.send(&largest), at_b.recv());
    sent.unwrap();
    assert_eq!(received.unwrap(), Some(largest));
    assert_eq!(to_b.send(&need(0, FRAME_BODY_BYTES)).await, Err(LinkError::TooLong));
    to_b.send(&PeerMessage::SessionsQuery).await.unwrap();
    assert_eq!(at_b.recv().await.unwrap(), Some(PeerMessage::SessionsQuery), "the link goes on");
}

/// A frame over the limit ends the link before any of its body is here.
/// Shows: C-4
pub async fn frame_over_the_limit_ends_the_link<N: Node>() {
    let b = N::start(B, Guests::of([A])).await;
    let (mut rogue, honest) = rogue_link(&b).await;
    let (_to_a, mut at_b) = honest.control();
    let length = FRAME_BODY_BYTES as u32 + 1;
    rogue.write(&Header { kind: 6, length }.to_bytes()).await;
    assert_eq!(at_b.recv().await, Err(LinkError::Protocol(Breach::FrameTooLong(length))));
    assert_eq!(timeout(SOON, rogue.closed()).await.unwrap(), Closed::ByPeer(CloseReason::Protocol));
}

/// Frames of unknown kinds are skipped, and what follows is read.
/// Shows: C-5
pub async fn frames_of_unknown_kinds_are_skipped<N: Node>() {
    let b = N::start(B, Guests::of([A])).await;
    let (mut rogue, honest) = rogue_link(&b).await;
    let (_to_a, mut at_b) = honest.control();
    for length in [0, 5, 40_000] {
        rogue.write(&Header { kind: 9_999, length }.to_bytes()).await;
        rogue.write(&vec![0xee; length as usize]).await;
    }
    rogue.write(&PeerMessage::SessionsQuery.to_frame().unwrap()).await;
    assert_eq!(at_b.recv().await.unwrap(), Some(PeerMessage::SessionsQuery));
}

/// A peer that sends nothing but unknown kinds is not listened to for ever.
/// Shows: C-4
pub async fn stream_of_unknown_kinds_ends_the_link<N: Node>() {
    let b = N::start(B, Guests::of([A])).await;
    let (mut rogue, honest) = rogue_link(&b).await;
    let (_to_a, mut at_b) = honest.control();
    for _ in 0..=limits::UNKNOWN_FRAMES {
        rogue.write(&Header { kind: 9_999, length: 0 }.to_bytes()).await;
    }
    assert_eq!(at_b.recv().await, Err(LinkError::Protocol(Breach::OnlyUnknownKinds)));
    assert_eq!(timeout(SOON, rogue.closed()).await.unwrap(), Closed::ByPeer(CloseReason::Protocol));
}

/// A body that is not its kind's one encoding ends the link.
/// Shows: C-5
pub async fn undecodable_message_ends_the_link<N: Node>() {
    let b = N::start(B, Guests::of([A])).await;
    for body in [&[17u8, 0][..], &[0x91, 0], &[12]] {
        let (mut rogue, honest) = rogue_link(&b).await;
        let (_to_a, mut at_b) = honest.control();
        rogue.write(&Header { kind: 17, length: body.len() as u32 }.to_bytes()).await;
        rogue.write(body).await;
        let received = at_b.recv().await;
        assert!(matches!(received, Err(LinkError::Protocol(Breach::Undecodable(_)))), "{received:?}");
        assert_eq!(timeout(SOON, rogue.closed()).await.unwrap(), Closed::ByPeer(CloseReason::Protocol));
    }
}

/// A stream that ends within a frame is a torn frame, not an end.
/// Shows: C-4
pub async fn torn_frame_is_not_an_end<N: Node>() {
    let b = N::start(B, Guests::of([A])).await;
    for cut in [3, 6, 10] {
        let (mut rogue, honest) = rogue_link(&b).await;
        let (_to_a, mut at_b) = honest.control();
        rogue.write(&need(0, 100).to_frame().unwrap()[..cut]).await;
        rogue.finish();
        assert_eq!(at_b.recv().await, Err(LinkError::Protocol(Breach::FrameCut)), "cut at {cut}");
    }
}

/// A receive that is cancelled within a frame loses nothing of it.
pub async fn cancelled_receive_loses_nothing<N: Node>() {
    let b = N::start(B, Guests::of([A])).await;
    let (mut rogue, honest) = rogue_link(&b).await;
    let (_to_a, mut at_b) = honest.control();
    let message = need(1, 40);
    let frame = message.to_frame().unwrap();
    for piece in frame.chunks(5) {
        assert!(timeout(Duration::from_millis(5), at_b.recv()).await.is_err(), "nothing is whole yet");
        rogue.write(piece).await;
    }
    assert_eq!(timeout(SOON, at_b.recv()).await.unwrap().unwrap(), Some(message));
}

/// A peer that does not begin with a greeting, or greets in another device's name, gets no link.
/// Shows: C-3
pub async fn greeting_must_come_first_and_name_its_sender<N: Node>() {
    let b = N::start(B, Guests::of([A])).await;
    let huge = Header { kind: 0, length: FRAME_BODY_BYTES as u32 }.to_bytes().to_vec();
    let stolen = PeerMessage::Hello(Hello { device: device(7).device(), ..hello(A) }).to_frame().unwrap();
    for first in [PeerMessage::SessionsQuery.to_frame().unwrap(), huge, stolen] {
        let mut rogue = N::rogue(&b, A).await;
        rogue.write(&first).await;
        nobody_comes(&b).await;
        let closed = timeout(SOON, rogue.closed()).await.unwrap();
        assert_eq!(closed, Closed::ByPeer(CloseReason::Protocol));
    }
}

/// A peer that proves its key and then says nothing is let go.
pub async fn silent_greeting_is_given_up<N: Node>() {
    let b = N::start(B, Guests::of([A])).await;
    let mut rogue = N::rogue(&b, A).await;
    rogue.write(&[0]).await;
    let closed = timeout(limits::GREETING_TIMEOUT + SOON, rogue.closed()).await.unwrap();
    assert_eq!(closed, Closed::ByPeer(CloseReason::TimedOut));
}

/// Both ends know the peer's key, its greeting and the version.
pub async fn link_knows_its_peer<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    assert_eq!((left.peer(), right.peer()), (b.key(), a.key()));
    assert_eq!((left.hello(), right.hello()), (hello(B), hello(A)));
    assert_eq!((left.version(), right.version()), (1, 1));
}

/// Another device at the address is refused by the dialer, in the handshake.
/// Shows: C-1
pub async fn dialer_refuses_another_device<N: Node>() {
    let guests = Guests::of([A, B, 3]);
    let (a, b) = (N::start(A, guests.clone()).await, N::start(B, guests).await);
    let expected = device(3).key();
    let dialed = a.dial(&b, &expected, &hello(A)).await;
    assert_eq!(dialed.err(), Some(DialError::WrongKey { expected, found: b.key() }));
    nobody_comes(&b).await;
}

/// A device that the answerer does not admit learns so, and the answerer's daemon never hears of it.
/// Shows: C-1, R-3
pub async fn stranger_is_refused<N: Node>() {
    let (a, b) = (N::start(A, Guests::of([B])).await, N::start(B, Guests::of([3])).await);
    assert_eq!(a.dial(&b, &b.key(), &hello(A)).await.err(), Some(DialError::Refused));
    nobody_comes(&b).await;
}

/// A dialer does not even try a device that its own gate does not admit.
/// Shows: C-1
pub async fn only_members_are_dialed<N: Node>() {
    let (a, b) = (N::start(A, Guests::of([])).await, N::start(B, Guests::of([A])).await);
    assert_eq!(a.dial(&b, &b.key(), &hello(A)).await.err(), Some(DialError::NotAMember));
}

/// A removed device loses its links at once, whoever dialed, and does not come back.
/// Shows: C-8
pub async fn removed_device_is_dropped_and_stays_out<N: Node>() {
    let (guests, all) = (Guests::of([A]), Guests::of([A, B]));
    let (a, b) = (N::start(A, all).await, N::start(B, guests.clone()).await);
    let (left, right) = link(&a, &b).await;
    let (_to_a, mut at_b) = right.control();
    guests.remove(&a.key());
    assert_eq!(b.drop_peer(&a.key()), 1);
    let closed = timeout(Duration::from_secs(1), left.closed()).await.unwrap();
    assert_eq!(closed, Closed::ByPeer(CloseReason::NotAdmitted));
    assert_eq!(at_b.recv().await, Err(LinkError::Closed(Closed::Here)));
    for _ in 0..3 {
        assert_eq!(a.dial(&b, &b.key(), &hello(A)).await.err(), Some(DialError::Refused));
    }
    nobody_comes(&b).await;
    assert_eq!(b.drop_peer(&device(5).key()), 0, "others are not touched");
}

/// Devices without a common version part, and the dialer names both.
/// Shows: C-3
pub async fn version_mismatch_shows_both_versions<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (newer, key_b) = (Hello { protocol_min: 2, protocol_max: 3, ..hello(A) }, b.key());
    let accept = async { timeout(SOON, b.accept(&hello(B))).await };
    let (dialed, accepted) = tokio::join!(a.dial(&b, &key_b, &newer), accept);
    let error = dialed.err().unwrap();
    assert!(matches!(error, DialError::VersionMismatch { .. }), "{error:?}");
    assert_eq!(error.to_string(), "no protocol version in common: ours 2 to 3, theirs 1; update the older one");
    assert!(accepted.is_err(), "a link was made");
}

/// Devices of different meshes part.
/// Shows: C-3
pub async fn other_mesh_is_refused<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (other, key_b) = (Hello { mesh: MeshId::new([8; 32]), ..hello(A) }, b.key());
    let accept = async { timeout(SOON, b.accept(&hello(B))).await };
    let (dialed, accepted) = tokio::join!(a.dial(&b, &key_b, &other), accept);
    assert_eq!(dialed.err(), Some(DialError::WrongMesh { ours: other.mesh, theirs: hello(B).mesh }));
    assert!(accepted.is_err(), "a link was made");
}

/// One side may have said its last message while the other goes on.
pub async fn one_direction_ends_and_the_other_goes_on<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let (mut to_b, mut at_a) = left.control();
    let (mut to_a, mut at_b) = right.control();
    to_b.send(&need(1, 10)).await.unwrap();
    to_b.finish().await.unwrap();
    assert_eq!(at_b.recv().await.unwrap(), Some(need(1, 10)));
    assert_eq!(at_b.recv().await.unwrap(), None);
    to_a.send(&need(2, 10)).await.unwrap();
    assert_eq!(at_a.recv().await.unwrap(), Some(need(2, 10)));
}

/// The peer is told why a link ends.
pub async fn reason_of_the_end_reaches_the_peer<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let (_to_a, mut at_b) = right.control();
    left.close(CloseReason::Superseded);
    let expected = Closed::ByPeer(CloseReason::Superseded);
    assert_eq!(timeout(SOON, right.closed()).await.unwrap(), expected);
    assert_eq!(at_b.recv().await, Err(LinkError::Closed(expected)));
    assert_eq!(left.closed().await, Closed::Here);
}

/// Both ends derive the same secret for a label; another label or another connection gives another one.
/// Shows: C-11
pub async fn exporter_belongs_to_one_connection<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let (again, _right) = link(&a, &b).await;
    assert_eq!(left.exporter(b"one"), right.exporter(b"one"));
    assert_ne!(left.exporter(b"one"), left.exporter(b"two"));
    assert_ne!(left.exporter(b"one"), again.exporter(b"one"));
}

/// 64 MiB over four data streams at once arrive equal.
pub async fn bytes_over_four_streams_arrive_equal<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    const STREAM_BYTES: usize = 16 << 20;
    let block: Vec<u8> = (0..1u32 << 16).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let send = async |number: u8| {
        let mut sender = left.open_data().await.unwrap();
        let mut hash = blake3::Hasher::new();
        sender.write_all(&[number]).await.unwrap();
        for at in 0..STREAM_BYTES / block.len() {
            let turned = &block[at % 251..];
            hash.update(turned);
            sender.write_all(turned).await.unwrap();
        }
        sender.finish().unwrap();
        (number, hash.finalize())
    };
    let receive = async || {
        let mut receiver = right.accept_data().await.unwrap();
        let (mut number, mut hash) = (None, blake3::Hasher::new());
        while let Some(bytes) = receiver.read().await.unwrap() {
            let content = if number.is_none() { &bytes[1..] } else { &bytes[..] };
            number = number.or(bytes.first().copied());
            hash.update(content);
        }
        (number.unwrap(), hash.finalize())
    };
    let sending = async { tokio::join!(send(0), send(1), send(2), send(3)) };
    let receiving = async { tokio::join!(receive(), receive(), receive(), receive()) };
    let (sent, received) = tokio::join!(sending, receiving);
    let received = [received.0, received.1, received.2, received.3];
    for stream in [sent.0, sent.1, sent.2, sent.3] {
        assert!(received.contains(&stream), "stream {} differs", stream.0);
    }
}

/// A data stream whose sender is dropped before its end looks cut off, never complete; the link goes on.
/// Shows: C-7
pub async fn dropped_sender_looks_cut_off<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let mut sender = left.open_data().await.unwrap();
    sender.write_all(b"half of it").await.unwrap();
    let mut receiver = right.accept_data().await.unwrap();
    assert_eq!(receiver.read().await.unwrap(), Some(b"half of it".to_vec()));
    drop(sender);
    assert_eq!(receiver.read().await, Err(LinkError::Cut));
    let mut next = left.open_data().await.unwrap();
    next.write_all(b"again").await.unwrap();
    next.finish().unwrap();
    let mut receiver = right.accept_data().await.unwrap();
    assert_eq!(receiver.read().await.unwrap(), Some(b"again".to_vec()));
    assert_eq!(receiver.read().await.unwrap(), None);
}

/// A receiver that has had enough tells the sender; the link goes on.
pub async fn dropped_receiver_stops_the_sender<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let mut sender = left.open_data().await.unwrap();
    sender.write_all(b"first").await.unwrap();
    drop(right.accept_data().await.unwrap());
    let flood = async {
        loop {
            if let Err(error) = sender.write_all(&[0; 65_536]).await {
                return error;
            }
        }
    };
    assert_eq!(timeout(SOON, flood).await.unwrap(), LinkError::Stopped);
    let (mut to_b, _at_a) = left.control();
    let (_to_a, mut at_b) = right.control();
    to_b.send(&PeerMessage::SessionsQuery).await.unwrap();
    assert_eq!(at_b.recv().await.unwrap(), Some(PeerMessage::SessionsQuery));
}

/// A reader that stops holds the sender back within the windows; messages still get through; when it reads on, all of
/// it comes.
/// Shows: C-10
pub async fn slow_reader_holds_back_the_sender_and_no_message<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let mut taken = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..limits::DATA_STREAMS {
        let mut sender = left.open_data().await.unwrap();
        sender.write_all(&[7; 1_000]).await.unwrap();
        senders.push((sender, 1_000));
        taken.push(right.accept_data().await.unwrap());
    }
    for (sender, written) in &mut senders {
        while timeout(QUIET, sender.write_all(&[7; 1_000])).await.is_ok() {
            *written += 1_000;
        }
    }
    let written: usize = senders.iter().map(|(_, written)| written).sum();
    let windows = limits::BULK_WINDOW_BYTES as usize;
    assert!(written <= windows, "{written} bytes were taken in, the windows hold {windows}");
    assert!(written >= windows / 2, "{written} bytes are too few for windows of {windows}");
    assert!(timeout(QUIET, left.open_data()).await.is_err(), "one stream too many");

    let (mut to_b, _at_a) = left.control();
    let (_to_a, mut at_b) = right.control();
    let message = need(1, 1 << 19);
    let exchange = async { tokio::join!(to_b.send(&message), at_b.recv()) };
    assert_eq!(timeout(SOON, exchange).await.unwrap(), (Ok(()), Ok(Some(message.clone()))));

    drop(senders.split_off(1));
    let (sender, _) = senders.pop().unwrap();
    sender.finish().unwrap();
    let mut read = 0;
    while let Some(bytes) = timeout(SOON, taken[0].read()).await.unwrap().unwrap() {
        read += bytes.len();
    }
    assert!(read >= limits::STREAM_WINDOW_BYTES as usize - 1_000, "{read} bytes came");
}

/// A sender waits while the peer does not read messages, and what was sent arrives once it does.
/// Shows: C-10
pub async fn unread_messages_hold_back_their_sender<N: Node>() {
    let (a, b) = pair::<N>().await;
    let (left, right) = link(&a, &b).await;
    let (mut to_b, _at_a) = left.control();
    let (_to_a, mut at_b) = right.control();
    let mut sent = 0;
    while timeout(QUIET, to_b.send(&need(sent, 60_000))).await.is_ok() {
        sent += 1;
        assert!(sent < 200, "nothing holds the sender back");
    }
    for round in 0..sent {
        assert_eq!(timeout(SOON, at_b.recv()).await.unwrap().unwrap(), Some(need(round, 60_000)));
    }
    // The message whose sending was cancelled is either whole or absent, and the next one follows it.
    let following = need(sent + 1, 10);
    let (next, received) = tokio::join!(to_b.send(&following), at_b.recv());
    next.unwrap();
    let cancelled = received.unwrap().unwrap();
    assert_eq!(cancelled, need(sent, 60_000), "a part of it was out");
    assert_eq!(timeout(SOON, at_b.recv()).await.unwrap().unwrap(), Some(following));
}

/// Several peers that come at once are all answered.
pub async fn peers_that_come_at_once_are_all_answered<N: Node + 'static>() {
    let secrets: Vec<u8> = (10..40).collect();
    let b = Rc::new(N::start(B, Guests::of(secrets.clone())).await);
    let dial = async |secret: u8, b: Rc<N>| {
        let node = N::start(secret, Guests::of([B])).await;
        let link = node.dial(&b, &b.key(), &hello(secret)).await.unwrap();
        (node, link)
    };
    let local = LocalSet::new();
    let dials: Vec<_> = secrets.iter().map(|&secret| local.spawn_local(dial(secret, b.clone()))).collect();
    let peers = local.run_until(async {
        let mut links = Vec::new();
        for _ in &secrets {
            links.push(timeout(limits::HANDSHAKE_TIMEOUT, b.accept(&hello(B))).await.unwrap().unwrap());
        }
        for dial in dials {
            dial.await.unwrap();
        }
        links.iter().map(NodeLink::peer).collect::<BTreeSet<DeviceKey>>()
    });
    assert_eq!(peers.await.len(), secrets.len());
}

/// A test that waits for ever has failed.
pub async fn in_time(test: impl Future<Output = ()>) {
    timeout(Duration::from_secs(60), test).await.expect("the test came to no end");
}

/// Runs the whole contract for a [`Node`].
#[macro_export]
macro_rules! carrier_contract {
    ($node:ty) => {
        $crate::carrier_contract!(@each $node:
            messages_arrive_in_order,
            largest_message_goes_through_and_no_larger,
            frame_over_the_limit_ends_the_link,
            frames_of_unknown_kinds_are_skipped,
            stream_of_unknown_kinds_ends_the_link,
            undecodable_message_ends_the_link,
            torn_frame_is_not_an_end,
            cancelled_receive_loses_nothing,
            greeting_must_come_first_and_name_its_sender,
            silent_greeting_is_given_up,
            link_knows_its_peer,
            dialer_refuses_another_device,
            stranger_is_refused,
            only_members_are_dialed,
            removed_device_is_dropped_and_stays_out,
            version_mismatch_shows_both_versions,
            other_mesh_is_refused,
            one_direction_ends_and_the_other_goes_on,
            reason_of_the_end_reaches_the_peer,
            exporter_belongs_to_one_connection,
            bytes_over_four_streams_arrive_equal,
            dropped_sender_looks_cut_off,
            dropped_receiver_stops_the_sender,
            slow_reader_holds_back_the_sender_and_no_message,
            unread_messages_hold_back_their_sender,
            peers_that_come_at_once_are_all_answered,
        );
    };
    (@each $node:ty: $($name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::carrier_contract::in_time($crate::carrier_contract::$name::<$node>()).await;
            }
        )*
    };
}
