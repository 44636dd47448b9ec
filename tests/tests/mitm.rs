//! Somebody in the middle, over the real carrier: swapped keys, certificates, downgrades, replays, resumption, a greeting
//! or a pairing that is passed on. Each is refused before a byte of the application is read or said.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cede_carrier::endpoint::dial::DialError;
use cede_carrier::endpoint::{Endpoint, Incoming};
use cede_carrier::pairing::PairLink;
use cede_seal::pake::{GuestPake, HostPake, PakeError, Transcript};
use cede_tests::carrier_contract::{Guests, device, hello};
use cede_tests::devices::trees::Numbers;
use cede_wire::id::{DeviceKey, MeshId};
use cede_wire::message::{Hello, PeerMessage};
use rustls::SignatureScheme;
use tokio::net::UdpSocket;
use tokio::time::timeout;

#[path = "mitm/rogue.rs"]
mod rogue;

use rogue::{Client, Papers, Server, greeting, spki};

const A: u8 = 1;
const B: u8 = 2;
/// The one in the middle; a member too, where that makes it harder.
const M: u8 = 3;
const STRANGER: u8 = 9;
const SOON: Duration = Duration::from_secs(3);
const QUIET: Duration = Duration::from_millis(150);
const LOCALHOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// Codes of a handshake that failed, all of them below those of the application.
const HANDSHAKE: std::ops::Range<u64> = 0x100..0x200;

/// An honest device that answers, and counts whom it gets to know.
struct Answerer {
    address: SocketAddr,
    guests: Arc<Guests>,
    links: Arc<AtomicUsize>,
    endpoint: Arc<Endpoint>,
}

impl Answerer {
    fn start(secret: u8, members: &[u8]) -> Self {
        let guests = Guests::of(members.iter().copied());
        let endpoint = Arc::new(Endpoint::bind(&device(secret), LOCALHOST, guests.clone()).unwrap());
        let (accepting, links) = (endpoint.clone(), Arc::new(AtomicUsize::new(0)));
        let count = links.clone();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Some(incoming) = accepting.accept(&hello(secret)).await {
                count.fetch_add(1, Ordering::SeqCst);
                kept.push(incoming);
            }
        });
        Self { address: endpoint.local_addr().unwrap(), guests, links, endpoint }
    }

    fn links(&self) -> usize {
        self.links.load(Ordering::SeqCst)
    }
}

fn bytes_of(key: DeviceKey) -> [u8; 32] {
    *key.as_bytes()
}

/// Papers that are not those of `secret`, though they say so.
fn false_papers(secret: u8) -> Vec<(&'static str, Papers)> {
    let honest = || Papers::of(secret);
    let own = spki(&device(secret).key());
    let with = |shown: Vec<Vec<u8>>| Papers { shown, ..honest() };
    let prefixed = |prefix: &[u8]| with(vec![[prefix, &bytes_of(device(secret).key())[..]].concat()]);
    let mut low_order = [0; 32];
    low_order[0] = 1;
    vec![
        ("the right key, another signature", Papers { signer: STRANGER, ..honest() }),
        ("a member's key, another signature", Papers { signer: secret, ..Papers::of(M) }),
        ("a certificate in place of a key", Papers { raw: false, ..honest() }),
        ("a key and another behind it", with(vec![own.clone(), spki(&device(STRANGER).key())])),
        (
            "another key, and the right one behind it",
            Papers { shown: vec![spki(&device(STRANGER).key()), own.clone()], signer: STRANGER, ..honest() },
        ),
        ("a key cut short", with(vec![own[..43].to_vec()])),
        ("a key with a byte behind it", with(vec![[&own[..], &[0]].concat()])),
        (
            "a key of another algorithm",
            prefixed(&[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00]),
        ),
        (
            "a key with parameters",
            prefixed(&[0x30, 0x2c, 0x30, 0x07, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x05, 0x00, 0x03, 0x21, 0x00]),
        ),
        ("a key under which anything verifies", with(vec![spki(&DeviceKey::new(low_order))])),
        ("a key that is no point", with(vec![spki(&DeviceKey::new([2; 32]))])),
        ("nothing but zeros", with(vec![vec![0; 44]])),
        ("an empty key", with(vec![Vec::new()])),
    ]
}

/// Shows: C-1, C-2, R-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_but_the_device_itself_answers_a_dial() {
    let a = Endpoint::bind(&device(A), LOCALHOST, Guests::of([A, B, M])).unwrap();
    let mut cases: Vec<(&str, Papers)> = [
        (M, "another member's key"),
        (STRANGER, "a stranger's key"),
        (A, "the dialer's own key"),
        (77, "yet another key"),
    ]
    .map(|(secret, name)| (name, Papers::of(secret)))
    .to_vec();
    cases.extend(false_papers(B));
    for (name, alpn) in [
        ("no protocol named", &[][..]),
        ("an older protocol", b"cede/0"),
        ("a newer protocol", b"cede/2"),
        ("the protocol of pairing", b"cede-pair/1"),
    ] {
        let alpn = if alpn.is_empty() { Vec::new() } else { vec![alpn.to_vec()] };
        cases.push((name, Papers { alpn, ..Papers::of(B) }));
    }
    // The papers of the device itself get as far as its greeting.
    let honest = Server::with(&Papers::of(B));
    drop(timeout(QUIET, a.dial(honest.address(), &device(B).key(), &hello(A))).await);
    assert!(honest.told() > 0, "not even the device itself is greeted");
    for (name, papers) in &cases {
        let server = Server::with(papers);
        let dialed = timeout(SOON, a.dial(server.address(), &device(B).key(), &hello(A))).await.expect(name);
        let error = dialed.err().unwrap_or_else(|| panic!("{name}: a link was made"));
        let found = papers.shown.first().is_some_and(|shown| *shown == spki(&device(B).key()));
        let named = matches!(error, DialError::WrongKey { .. });
        assert!(!named || !found, "{name}: {error:?}");
        assert_eq!(server.told(), 0, "{name}: it was told something");
    }
    println!("answering in place of a device: {} of {} refused, 0 bytes told", cases.len(), cases.len());
}

/// Shows: C-1, C-2, R-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_but_a_member_itself_is_answered() {
    let b = Answerer::start(B, &[A, M]);
    let mut cases: Vec<(&str, Papers)> = vec![
        ("a stranger's key", Papers::of(STRANGER)),
        ("the answerer's own key", Papers::of(B)),
        ("no key", Papers { shows: false, ..Papers::of(A) }),
        ("pairing while it is closed", Papers { alpn: vec![b"cede-pair/1".to_vec()], ..Papers::of(STRANGER) }),
    ];
    cases.extend(false_papers(A));
    for (name, alpn) in [
        ("no protocol named", &b""[..]),
        ("an older protocol", b"cede/0"),
        ("a newer protocol", b"cede/2"),
        ("another program", b"h3"),
    ] {
        let alpn = if alpn.is_empty() { Vec::new() } else { vec![alpn.to_vec()] };
        cases.push((name, Papers { alpn, ..Papers::of(A) }));
    }
    for (name, scheme) in [
        ("weaker signatures", SignatureScheme::ECDSA_NISTP256_SHA256),
        ("signatures of another kind", SignatureScheme::RSA_PSS_SHA256),
    ] {
        cases.push((name, Papers { schemes: vec![scheme], ..Papers::of(A) }));
    }
    for (name, papers) in &cases {
        let code = Client::with(papers).turned_away(b.address, &greeting()).await;
        let code = code.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(HANDSHAKE.contains(&code), "{name}: it ended with {code:#x}, after the handshake");
    }
    tokio::time::sleep(QUIET).await;
    assert_eq!(b.links(), 0, "a link was made");
    println!("coming in place of a member: {} of {} refused in the handshake", cases.len(), cases.len());
}

/// Shows: C-2, C-8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_device_neither_resumes_nor_sends_early() {
    let b = Answerer::start(B, &[A]);
    let client = Client::with(&Papers::of(A));
    for number in 1..=3 {
        let connection = client.connect(b.address).await.unwrap();
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(&greeting()).await.unwrap();
        timeout(SOON, async {
            while b.links() < number {
                tokio::time::sleep(Duration::from_millis(5)).await
            }
        })
        .await
        .unwrap();
        assert!(!client.can_send_early(b.address), "early data was possible after {number} connections");
    }
    b.guests.remove(&device(A).key());
    assert_eq!(b.endpoint.drop_peer(&device(A).key()), 3);
    for _ in 0..3 {
        let code = client.turned_away(b.address, &greeting()).await.unwrap();
        assert!(HANDSHAKE.contains(&code), "{code:#x}");
    }
    assert_eq!(b.links(), 3, "a link was made after the removal");
    println!("resumption by a removed device: 6 of 6 refused");
}

/// What is done to a datagram, by its number.
type Spoil = fn(usize, &mut Vec<u8>);

/// Passes datagrams on, keeps those of the dialer, and spoils some.
struct Middle {
    address: SocketAddr,
    kept: Arc<std::sync::Mutex<Vec<Vec<u8>>>>,
}

impl Middle {
    async fn to(target: SocketAddr, spoil: Spoil) -> Self {
        let near = UdpSocket::bind(LOCALHOST).await.unwrap();
        let far = UdpSocket::bind(LOCALHOST).await.unwrap();
        far.connect(target).await.unwrap();
        let middle = Self { address: near.local_addr().unwrap(), kept: Arc::default() };
        let kept = middle.kept.clone();
        tokio::spawn(async move {
            let (mut there, mut back, mut dialer, mut seen) = (vec![0; 65_536], vec![0; 65_536], target, 0);
            loop {
                tokio::select! {
                    Ok((bytes, from)) = near.recv_from(&mut there) => {
                        dialer = from;
                        kept.lock().unwrap().push(there[..bytes].to_vec());
                        let mut packet = there[..bytes].to_vec();
                        spoil(seen, &mut packet);
                        seen += 1;
                        drop(far.send(&packet).await);
                    }
                    Ok(bytes) = far.recv(&mut back) => {
                        let mut packet = back[..bytes].to_vec();
                        spoil(seen, &mut packet);
                        seen += 1;
                        drop(near.send_to(&packet, dialer).await);
                    }
                }
            }
        });
        middle
    }
}

/// Shows: C-1, C-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_handshake_makes_no_second_link() {
    let (b, other) = (Answerer::start(B, &[A]), Answerer::start(M, &[A]));
    let middle = Middle::to(b.address, |_, _| ()).await;
    let a = Endpoint::bind(&device(A), LOCALHOST, Guests::of([B])).unwrap();
    let link = a.dial(middle.address, &device(B).key(), &hello(A)).await.unwrap();
    timeout(SOON, async {
        while b.links() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await
        }
    })
    .await
    .unwrap();
    let recorded = middle.kept.lock().unwrap().clone();
    assert!(recorded.len() > 2, "{}", recorded.len());
    let replays = [(b.address, recorded.len()), (b.address, 1), (other.address, recorded.len()), (other.address, 1)];
    for (target, count) in replays {
        let socket = UdpSocket::bind(LOCALHOST).await.unwrap();
        for _ in 0..3 {
            for packet in recorded.iter().take(count) {
                socket.send_to(packet, target).await.unwrap();
            }
        }
    }
    // The whole again from the dialer's own side of the line, while its link stands.
    tokio::time::sleep(QUIET * 2).await;
    assert_eq!((b.links(), other.links()), (1, 0), "a replay made a link");
    drop(link);
    println!("replays of a handshake: {} of {} without a link", replays.len(), replays.len());
}

/// Shows: C-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spoiled_packets_never_make_another_peer() {
    let spoilers: [(&str, Spoil); 5] = [
        ("a bit of each third packet", |seen, packet| {
            if seen % 3 == 1 && !packet.is_empty() {
                let at = packet.len() / 2;
                packet[at] ^= 4;
            }
        }),
        ("the end of each fourth packet", |seen, packet| {
            if seen % 4 == 2 {
                packet.truncate(packet.len() * 2 / 3)
            }
        }),
        ("the first packets", |seen, packet| {
            if seen < 3 {
                packet.iter_mut().for_each(|byte| *byte ^= 0x55)
            }
        }),
        ("the version", |seen, packet| {
            if seen < 2 && packet.len() > 5 {
                packet[4] ^= 2
            }
        }),
        ("the connection's id", |seen, packet| {
            if seen % 5 == 3 && packet.len() > 10 {
                packet[8] ^= 1
            }
        }),
    ];
    let (mut made, mut failed) = (0, 0);
    for (name, spoil) in spoilers {
        let b = Answerer::start(B, &[A]);
        let middle = Middle::to(b.address, spoil).await;
        let a = Endpoint::bind(&device(A), LOCALHOST, Guests::of([B])).unwrap();
        match timeout(Duration::from_secs(12), a.dial(middle.address, &device(B).key(), &hello(A))).await {
            Ok(Ok(link)) => {
                assert_eq!((link.peer(), link.version()), (device(B).key(), 1), "{name}");
                made += 1;
            }
            Ok(Err(_)) | Err(_) => failed += 1,
        }
        assert!(b.links() <= 1, "{name}: more than one link");
    }
    println!("spoiled packets: {made} links with the right peer, {failed} without a link, 0 with another");
}

/// A member in the middle has a link of its own with each, and passes the greeting of the one on to the other.
/// Shows: C-3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greeting_that_is_passed_on_or_changed_makes_no_link() {
    let b = Answerer::start(B, &[A, M]);
    let of_a = hello(A);
    let of_m = || hello(M);
    let cases: [(&str, Hello); 9] = [
        ("another's greeting", of_a.clone()),
        ("the answerer's own greeting", hello(B)),
        ("a stranger's greeting", hello(STRANGER)),
        ("another mesh", Hello { mesh: MeshId::new([8; 32]), ..of_m() }),
        ("another's greeting and mesh", Hello { mesh: MeshId::new([8; 32]), ..of_a }),
        ("versions before the first", Hello { protocol_min: 0, protocol_max: 0, ..of_m() }),
        ("versions after the last", Hello { protocol_min: 2, protocol_max: u16::MAX, ..of_m() }),
        ("a range the wrong way round", Hello { protocol_min: 2, protocol_max: 0, ..of_m() }),
        ("no versions at all", Hello { protocol_min: u16::MAX, protocol_max: 0, ..of_m() }),
    ];
    for (name, greeting) in &cases {
        let first = [PeerMessage::Hello(greeting.clone()), PeerMessage::SessionsQuery];
        let first: Vec<u8> = first.iter().flat_map(|message| message.to_frame().unwrap()).collect();
        let code = Client::with(&Papers::of(M)).turned_away(b.address, &first).await;
        assert!(code.is_ok(), "{name}: {code:?}");
    }
    tokio::time::sleep(QUIET).await;
    assert_eq!(b.links(), 0, "a link was made");
    println!("greetings of another: {} of {} refused", cases.len(), cases.len());
}

/// A pairing link of each side with the one in the middle, over the carrier, with what each believes of it.
struct Pairing {
    guest: PairLink,
    to_guest: PairLink,
    to_host: PairLink,
    host: PairLink,
    _endpoints: Vec<Endpoint>,
}

async fn pair_links() -> Pairing {
    let open = |secret: u8| {
        let guests = Guests::of([]);
        guests.pair(true);
        Endpoint::bind(&device(secret), LOCALHOST, guests).unwrap()
    };
    let (guest, middle, host) = (open(A), open(M), open(B));
    let (greeting_m, greeting_b) = (hello(M), hello(B));
    let dialed = tokio::join!(guest.dial_pairing(middle.local_addr().unwrap()), middle.accept(&greeting_m));
    let (Ok(of_guest), Some(Incoming::Pairing(to_guest))) = dialed else { panic!("no pairing link") };
    let dialed = tokio::join!(middle.dial_pairing(host.local_addr().unwrap()), host.accept(&greeting_b));
    let (Ok(to_host), Some(Incoming::Pairing(of_host))) = dialed else { panic!("no pairing link") };
    Pairing { guest: of_guest, to_guest, to_host, host: of_host, _endpoints: vec![guest, middle, host] }
}

const WORDS: &[u8] = b"acorn-actor-adapt-admit";
const LABEL: &[u8] = b"cede/1 pairing";

/// What the host sees on its link.
fn seen_by_host(links: &Pairing) -> Transcript {
    Transcript {
        mesh: MeshId::new([4; 32]),
        host: device(B).key(),
        guest: links.host.peer(),
        host_versions: (1, 1),
        guest_versions: (1, 1),
        host_nonce: [5; 32],
        guest_nonce: [6; 32],
        exporter: links.host.exporter(LABEL).unwrap(),
    }
}

/// What the guest sees on its link.
fn seen_by_guest(links: &Pairing) -> Transcript {
    let exporter = links.guest.exporter(LABEL).unwrap();
    Transcript { host: links.guest.peer(), guest: device(A).key(), exporter, ..seen_by_host(links) }
}

/// Shows: P-1, P-2, S-8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairing_through_somebody_in_the_middle_proves_nothing() {
    let links = pair_links().await;
    let (guest, host) = (seen_by_guest(&links), seen_by_host(&links));
    assert_eq!((guest.host, host.guest), (device(M).key(), device(M).key()), "each sees the one in the middle");
    // What would be left to see if the links themselves told nothing: each field of the two, alone.
    let alike = |change: fn(&mut Transcript, &Transcript)| {
        let mut guest = host.clone();
        change(&mut guest, &seen_by_guest(&links));
        guest
    };
    let cases: [(&str, Transcript); 10] = [
        ("all passed on as it is", guest.clone()),
        ("the host's key swapped", alike(|ours, other| ours.host = other.host)),
        ("the guest's key swapped", alike(|ours, other| ours.guest = other.guest)),
        ("the link of another", alike(|ours, other| ours.exporter = other.exporter)),
        ("the mesh swapped", alike(|ours, _| ours.mesh = MeshId::new([8; 32]))),
        ("the host's versions lowered", alike(|ours, _| ours.host_versions = (0, 0))),
        ("the guest's versions lowered", alike(|ours, _| ours.guest_versions = (0, 1))),
        ("the host's number swapped", alike(|ours, _| ours.host_nonce = [9; 32])),
        ("the guest's number swapped", alike(|ours, _| ours.guest_nonce = [9; 32])),
        ("the roles swapped", alike(|ours, _| std::mem::swap(&mut ours.host, &mut ours.guest))),
    ];
    for (name, believed) in &cases {
        let (host_run, host_share) = HostPake::start(WORDS, [1; 32]);
        let (guest_run, guest_share) = GuestPake::start(WORDS, [2; 32]);
        let (proof, proved) = guest_run.prove(&host_share, believed).unwrap();
        assert_eq!(host_run.check(&guest_share, &proof, &host).map(drop), Err(PakeError::Proof), "{name}");
        assert_eq!(proved.check(&[7; 32]).map(drop), Err(PakeError::Proof), "{name}");
    }
    let others = other_runs(&host);
    println!("pairing through the middle: {0} of {0} refused", cases.len() + others);
    assert_ne!(links.to_guest.exporter(LABEL).unwrap(), links.to_host.exporter(LABEL).unwrap());
    assert_eq!(links.to_host.exporter(LABEL).unwrap(), host.exporter, "the two ends of one link see the same");
}

/// Shares and proofs from elsewhere: a mirror, an earlier run, a guess, and points that are none.
fn other_runs(seen: &Transcript) -> usize {
    let (recorded_host, recorded_host_share) = HostPake::start(WORDS, [11; 32]);
    let (recorded_guest, recorded_guest_share) = GuestPake::start(WORDS, [12; 32]);
    let (recorded_proof, recorded_proved) = recorded_guest.prove(&recorded_host_share, seen).unwrap();
    let (recorded_answer, _) = recorded_host.check(&recorded_guest_share, &recorded_proof, seen).unwrap();
    assert!(recorded_proved.check(&recorded_answer).is_ok(), "the recorded run was a good one");
    let host = || HostPake::start(WORDS, [21; 32]);
    let mut refused = 0;
    let mut refuse = |said: Result<(), PakeError>, with: PakeError, name: &str| {
        assert_eq!(said, Err(with), "{name}");
        refused += 1;
    };
    let (run, share) = host();
    refuse(run.check(&share, &recorded_proof, seen).map(drop), PakeError::Share, "the host's share in a mirror");
    refuse(host().0.check(&recorded_guest_share, &recorded_proof, seen).map(drop), PakeError::Proof, "an earlier run");
    refuse(
        host().0.check(&recorded_guest_share, &recorded_answer, seen).map(drop),
        PakeError::Proof,
        "the host's proof",
    );
    let (guess, guess_share) = GuestPake::start(b"acorn-actor-adapt-adobe", [23; 32]);
    let (proof, _) = guess.prove(&host().1, seen).unwrap();
    refuse(host().0.check(&guess_share, &proof, seen).map(drop), PakeError::Proof, "a guess");
    let mut one = [0; 32];
    one[0] = 1;
    let points = [("a share of zeros", [0; 32]), ("a share of low order", one), ("a share that is no point", [2; 32])];
    for (name, point) in points {
        refuse(host().0.check(&point, &recorded_proof, seen).map(drop), PakeError::Share, name);
        let guest = GuestPake::start(WORDS, [24; 32]).0;
        refuse(guest.prove(&point, seen).map(drop), PakeError::Share, name);
    }
    let (guest, share) = GuestPake::start(WORDS, [25; 32]);
    refuse(guest.prove(&share, seen).map(drop), PakeError::Share, "the guest's share in a mirror");
    let (guest, _) = GuestPake::start(WORDS, [26; 32]);
    let (_, proved) = guest.prove(&recorded_host_share, seen).unwrap();
    refuse(proved.check(&recorded_answer).map(drop), PakeError::Proof, "the answer of an earlier run");
    refused
}

/// Guesses at the words, each in a run of its own with everything else as it should be. `CEDE_SHAKE` makes a hundred
/// thousand.
/// Shows: P-1, S-8
#[test]
fn guesses_at_the_words_are_accepted_never() {
    let count: u64 = if std::env::var_os("CEDE_SHAKE").is_some() { 100_000 } else { 120 };
    let seen = Transcript {
        mesh: MeshId::new([4; 32]),
        host: device(B).key(),
        guest: device(STRANGER).key(),
        host_versions: (1, 1),
        guest_versions: (1, 1),
        host_nonce: [5; 32],
        guest_nonce: [6; 32],
        exporter: [7; 32],
    };
    let next = AtomicUsize::new(0);
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed) as u64;
        if at >= count {
            return;
        }
        let mut numbers = Numbers(at);
        let mut random = || <[u8; 32]>::try_from(numbers.bytes(32)).unwrap();
        let words = cede_mesh::pairing::Words::from_random(random()[..8].try_into().unwrap());
        let guess = cede_mesh::pairing::Words::from_random(random()[..8].try_into().unwrap());
        if words == guess {
            continue;
        }
        let (host, host_share) = HostPake::start(words.show().as_bytes(), random());
        let (guest, guest_share) = GuestPake::start(guess.show().as_bytes(), random());
        let (proof, _) = guest.prove(&host_share, &seen).unwrap();
        assert_eq!(host.check(&guest_share, &proof, &seen).map(drop), Err(PakeError::Proof), "guess {at}");
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    println!("guesses at pairing words: 0 of {count} accepted");
}
