//! A paired device that lies, against a real daemon: what it says may end its own moves, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cede_carrier::endpoint::Endpoint;
use cede_carrier::gate::Gate;
use cede_carrier::link::Link;
use cede_carrier::link::control::ControlSender;
use cede_seal::chunk::ChunkFrame;
use cede_seal::device::LocalDevice;
use cede_seal::exchange::{ExchangeSecret, HandoffContext, HandoffKeys};
use cede_seal::stream::Sealer;
use cede_seal::verify::verify;
use cede_tests::devices::trees::{dirty, evidence};
use cede_tests::devices::{Device, Devices, request, wait_until};
use cede_wire::canonical::Signed;
use cede_wire::catalog::{Body, Catalog, ChunkRef, Entry, Mtime, Place};
use cede_wire::control::{Answer, ApprovalSummary, Command, Failure};
use cede_wire::custody::{Custody, FencingToken, Genesis, Head, Release};
use cede_wire::handoff::{Accept, CommitAck, Manifest, Offer, Scope, Workspace};
use cede_wire::id::{ChunkId, DeviceKey, HandoffId, Hash, Incarnation, MeshId, SessionId};
use cede_wire::message::{Hello, ListedSession, NeedOf, PROTOCOL_MAX, PROTOCOL_MIN, PeerMessage};
use cede_wire::path::RelPath;
use cede_wire::refusal::Refusal;
use cede_wire::session::{Activity, AgentKind, NativeId, Requirement, SessionInfo, SessionKey};

#[path = "hostile/approvers.rs"]
mod approvers;
#[path = "hostile/audit.rs"]
mod audit;
#[path = "hostile/files.rs"]
mod files;
#[path = "hostile/letters.rs"]
mod letters;
#[path = "hostile/lies.rs"]
mod lies;
#[path = "hostile/lost.rs"]
mod lost;
#[path = "hostile/terminals.rs"]
mod terminals;

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
/// How long one word of the daemon may take.
const WORD: Duration = Duration::from_secs(45);

struct Everybody;

impl Gate for Everybody {
    fn admits(&self, _: &DeviceKey) -> bool {
        true
    }

    fn pairing_open(&self) -> bool {
        false
    }
}

/// The second device, whose daemon was exchanged for this.
struct Liar {
    runtime: tokio::runtime::Runtime,
    local: LocalDevice,
    mesh: MeshId,
    victim: LocalDevice,
    link: Link,
    to: ControlSender,
    heard: Receiver<PeerMessage>,
    streams: u32,
    _endpoint: Endpoint,
}

fn identity(device: &Device) -> LocalDevice {
    let secret: [u8; 32] = std::fs::read(device.state().join("secrets/identity")).unwrap().try_into().unwrap();
    LocalDevice::from_secret(&secret)
}

impl Liar {
    /// Takes the place of the second device.
    fn among(devices: &mut Devices) -> Self {
        let mesh = devices.a.status().mesh.unwrap();
        devices.b.stop();
        wait_until("the link ends", || devices.a.status().peers.iter().all(|peer| !peer.connected));
        Self::dial(&devices.a, identity(&devices.b), mesh, 2)
    }

    fn dial(victim: &Device, local: LocalDevice, mesh: MeshId, members: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (device, software) = (local.device(), "0.1.0".to_owned());
        let (protocol_min, protocol_max) = (PROTOCOL_MIN, PROTOCOL_MAX);
        let hello = Hello { protocol_min, protocol_max, device, mesh, software, members, run: 1 };
        let (address, victim) = (victim.address.parse().unwrap(), identity(victim));
        let (endpoint, link) = runtime.block_on(async {
            let endpoint = Endpoint::bind(&local, "127.0.0.1:0".parse().unwrap(), Arc::new(Everybody)).unwrap();
            let link = endpoint.dial(address, &victim.key(), &hello).await.unwrap();
            (endpoint, link)
        });
        let (to, mut from) = link.take_control().unwrap();
        let (sender, heard) = channel();
        runtime.spawn(async move {
            while let Ok(Some(message)) = from.recv().await {
                let _ = sender.send(message);
            }
        });
        Self { runtime, local, mesh, victim, link, to, heard, streams: 0, _endpoint: endpoint }
    }

    fn say(&mut self, message: PeerMessage) {
        self.runtime.block_on(self.to.send(&message)).unwrap();
    }

    /// As long as the daemon listens at all.
    fn shout(&mut self, message: PeerMessage) -> bool {
        self.runtime.block_on(self.to.send(&message)).is_ok()
    }

    fn hear<T>(&mut self, what: &str, mut wanted: impl FnMut(PeerMessage) -> Option<T>) -> T {
        let until = Instant::now() + WORD;
        loop {
            match self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => {
                    if let Some(found) = wanted(message) {
                        return found;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("waited in vain: {what}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the daemon hung up: {what}"),
            }
        }
    }

    fn hear_refusal(&mut self) -> (Refusal, String) {
        self.hear("a refusal", |message| match message {
            PeerMessage::Refuse { refusal, detail, .. } => Some((refusal, detail)),
            _ => None,
        })
    }

    /// An offer of a session that this device invents.
    fn invent(&self, native: &str, number: u8) -> Invented {
        let key = SessionKey { agent: AgentKind::Files, native: NativeId::parse(native).unwrap() };
        let (mesh, owner, incarnation) = (self.mesh, self.local.device(), Incarnation::new([7; 16]));
        let genesis = Custody::Genesis(Genesis { mesh, key: key.clone(), owner, incarnation, members: 1 });
        let genesis = self.local.sign(&genesis).unwrap();
        let (executables, dotfiles, configuration_as_code) = (Vec::new(), Vec::new(), Vec::new());
        let offer = Offer {
            mesh,
            handoff: HandoffId::new([number; 16]),
            key: key.clone(),
            source: owner,
            destination: self.victim.device(),
            token: FencingToken::FIRST,
            head: head(),
            title: "a gift".to_owned(),
            requirement: Requirement { agent: AgentKind::Files, version: String::new(), provider: None },
            carry_only: false,
            workspace: Workspace {
                path: b"/home/x/gift".to_vec(),
                below_home: Some(b"gift".to_vec()),
                repository: None,
            },
            scope: Scope {
                inventory: Vec::new(),
                limit_bytes: 1 << 20,
                limit_entries: 10,
                executables,
                dotfiles,
                configuration_as_code,
            },
            offered_at_unix_ms: 0,
        };
        Invented { offer, genesis, payload: Payload::of(&key, b"the gift", 8) }
    }

    fn offer(&mut self, invented: &Invented) {
        let offer = self.local.sign(&invented.offer).unwrap();
        self.say(PeerMessage::Offer { offer, chain: vec![invented.genesis.clone()] });
    }

    fn hear_accept(&mut self) -> Accept {
        self.hear("a yes", |message| match message {
            PeerMessage::Accept(accept) | PeerMessage::Refetch(accept) => Some(verify(&accept).unwrap().into_parts().0),
            _ => None,
        })
    }

    /// Announces the payload as the last round, for this yes.
    fn announce(&mut self, invented: &Invented, accept: &Accept) -> HandoffKeys {
        let secret = ExchangeSecret::from_random([9; 32]);
        let (offer, payload) = (&invented.offer, &invented.payload);
        let (mesh, session, token) = (self.mesh, offer.key.id(), offer.token);
        let manifest = Manifest {
            mesh,
            handoff: offer.handoff,
            session,
            source: offer.source,
            destination: offer.destination,
            token,
            round: 0,
            last: true,
            head: head(),
            root: payload.root(),
            catalog: vec![chunk(&payload.catalog)],
            payload_bytes: 8,
            exchange_key: secret.public(),
        };
        let manifest = self.local.sign(&manifest).unwrap();
        self.say(PeerMessage::Manifest(manifest));
        let context = HandoffContext {
            mesh,
            session,
            handoff: offer.handoff,
            source: offer.source,
            destination: offer.destination,
            token,
            source_exchange_key: secret.public(),
            destination_exchange_key: accept.exchange_key,
        };
        HandoffKeys::derive(&secret, &accept.exchange_key, &context).unwrap()
    }

    fn send_chunk(&mut self, keys: &HandoffKeys, bytes: &[u8]) {
        let sealed = self.sealed(keys, ChunkId::of(bytes), bytes);
        self.send_stream(sealed);
    }

    /// These bytes as the chunk of this id, sealed as a stream of their own.
    fn sealed(&mut self, keys: &HandoffKeys, id: ChunkId, bytes: &[u8]) -> Vec<u8> {
        self.streams += 1;
        let mut sealer = Sealer::new(keys.stream(self.streams));
        let mut out = sealer.header().to_vec();
        sealer.push(&ChunkFrame::raw(id, bytes).unwrap().to_bytes(), &mut out).unwrap();
        sealer.push(bytes, &mut out).unwrap();
        sealer.finish(&mut out).unwrap();
        out
    }

    fn send_stream(&self, out: Vec<u8>) {
        let link = self.link.clone();
        self.runtime.block_on(async move {
            let mut stream = link.open_data().await.unwrap();
            stream.write_all(&out).await.unwrap();
            stream.finish().unwrap();
        });
    }

    /// Sends what is asked for until the daemon says how it ended.
    fn serve(&mut self, invented: &Invented, accept: &Accept) -> PeerMessage {
        self.serve_with(invented, accept, &mut |liar, keys, bytes| liar.send_chunk(keys, bytes))
    }

    fn serve_with(&mut self, invented: &Invented, accept: &Accept, send: &mut Sending<'_>) -> PeerMessage {
        let keys = self.announce(invented, accept);
        loop {
            let message = self.hear("a need or the end", |message| match message {
                PeerMessage::Need { .. }
                | PeerMessage::CommitAck(_)
                | PeerMessage::Activated(_)
                | PeerMessage::Refuse { .. } => Some(message),
                _ => None,
            });
            match message {
                PeerMessage::Need { of: NeedOf::Catalog, bitmap, .. } if bitmap.contains(&1) => {
                    send(self, &keys, &invented.payload.catalog);
                }
                PeerMessage::Need { of: NeedOf::Payload, bitmap, .. } if bitmap.contains(&1) => {
                    send(self, &keys, &invented.payload.content);
                }
                PeerMessage::Need { .. } => {}
                end => return end,
            }
        }
    }

    fn release(&mut self, invented: &Invented) {
        let offer = &invented.offer;
        let release = Custody::Release(Release {
            mesh: self.mesh,
            session: offer.key.id(),
            prev: invented.genesis.hash(),
            from: offer.source,
            to: offer.destination,
            handoff: offer.handoff,
            token: offer.token,
            next_token: offer.token.next_epoch().unwrap(),
            head: head(),
            root: invented.payload.root(),
            members: 1,
        });
        let certificate = self.local.sign(&release).unwrap();
        self.say(PeerMessage::Release { certificate, chain: vec![invented.genesis.clone()] });
    }

    /// The daemon's own offer, answered with a yes.
    fn accept(&mut self) -> Offer {
        let offer = self.hear("an offer", |message| match message {
            PeerMessage::Offer { offer, .. } => Some(verify(&offer).unwrap().into_parts().0),
            _ => None,
        });
        self.say(PeerMessage::Accept(self.yes(&offer)));
        offer
    }

    fn yes(&self, offer: &Offer) -> Signed<Accept> {
        let accept = Accept {
            handoff: offer.handoff,
            source: offer.source,
            destination: self.local.device(),
            scope: offer.scope.digest(),
            exchange_key: ExchangeSecret::from_random([5; 32]).public(),
            have: Vec::new(),
        };
        self.local.sign(&accept).unwrap()
    }

    fn hear_manifest(&mut self) -> Manifest {
        self.hear("a manifest", |message| match message {
            PeerMessage::Manifest(manifest) => Some(verify(&manifest).unwrap().into_parts().0),
            _ => None,
        })
    }
}

type Sending<'a> = dyn FnMut(&mut Liar, &HandoffKeys, &[u8]) + 'a;

/// What a lying source has.
struct Invented {
    offer: Offer,
    genesis: Signed<Custody>,
    payload: Payload,
}

struct Payload {
    catalog: Vec<u8>,
    content: Vec<u8>,
}

impl Payload {
    /// One file whose only chunk is said to be so long.
    fn of(key: &SessionKey, content: &[u8], length: u32) -> Self {
        Self::named(key, content, length, ("gift.txt", 0o644))
    }

    /// The same under another name and mode.
    fn named(key: &SessionKey, content: &[u8], length: u32, (name, mode): (&str, u32)) -> Self {
        let chunks = vec![ChunkRef { id: ChunkId::of(content), length }];
        let mtime = Mtime { seconds: 1_700_000_000, nanos: 0 };
        let body = Body::File { mode, mtime, size: u64::from(length), chunks };
        let entry = Entry { place: Place::Tree, path: RelPath::parse(name.as_bytes()).unwrap(), body };
        let catalog = Catalog { key: key.clone(), head: head(), entries: vec![entry] };
        Self { catalog: catalog.to_bytes(), content: content.to_vec() }
    }

    fn root(&self) -> Hash {
        Hash::of(&self.catalog)
    }
}

fn chunk(bytes: &[u8]) -> ChunkRef {
    ChunkRef { id: ChunkId::of(bytes), length: bytes.len() as u32 }
}

fn head() -> Head {
    Head { turn: 0, length: 0, hash: Hash::of(b"") }
}

fn question(device: &Device) -> ApprovalSummary {
    let mut found = Vec::new();
    wait_until("a question", || {
        found = device.status().approvals;
        !found.is_empty()
    });
    found.remove(0)
}

fn threads(device: &Device) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", device.pid())).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse().ok()).unwrap_or(0)
}

fn resident_kib(device: &Device) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", device.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// The daemon answers a person at once and has not become many.
fn unharmed(device: &Device) {
    let before = Instant::now();
    device.status();
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert!(threads(device) < 80, "{} threads", threads(device));
    assert!(resident_kib(device) < 256 << 10, "{} KiB", resident_kib(device));
}

fn state(device: &Device, id: SessionId) -> String {
    device.session(id).map_or_else(|| "unknown".to_owned(), |session| session.state)
}

fn adopted(device: &Device) -> (std::path::PathBuf, SessionId) {
    let tree = device.home.join("project");
    dirty(&tree);
    let id = device.adopt(&tree).id;
    (tree, id)
}

fn failed(answers: cede_tests::devices::Answers) -> Failure {
    match answers.end(&mut |_| {}) {
        Some(Err(failure)) => failure,
        other => panic!("no failure: {other:?}"),
    }
}

/// Shows: H-28
#[test]
fn flood_of_questions_leaves_the_daemon_answering() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    for number in 0..1_500 {
        liar.say(PeerMessage::SessionsQuery);
        let session = SessionId::new([number as u8; 16]);
        liar.say(PeerMessage::Take { request: number, session, wait: false, carry_only: false });
    }
    unharmed(&devices.a);
    let no = liar.hear("a no", |message| match message {
        PeerMessage::TakeAnswer { answer: Err((refusal, _)), .. } => Some(refusal),
        _ => None,
    });
    assert!(matches!(no, Refusal::NotOwner | Refusal::Busy), "{no}");
    assert!(devices.a.status().approvals.is_empty(), "nobody is asked for a session that is not here");
}

/// Shows: P-10
#[test]
fn members_that_are_known_are_not_answered() {
    let mut devices = Devices::paired(CEDE);
    let liar = Liar::among(&mut devices);
    let (local, mesh) = (LocalDevice::from_secret(&liar.local.secret()), liar.mesh);
    drop(liar);
    let mut liar = Liar::dial(&devices.a, local, mesh, 1);
    let is_members = |message: &PeerMessage| matches!(message, PeerMessage::Members(_));
    let missing = liar.hear("the second entry", |message| is_members(&message).then_some(message));
    for _ in 0..50 {
        liar.say(missing.clone());
    }
    liar.say(PeerMessage::SessionsQuery);
    let mut again = 0;
    liar.hear("the listing", |message| {
        again += usize::from(is_members(&message));
        matches!(message, PeerMessage::Sessions(_)).then_some(())
    });
    assert_eq!(again, 0, "two devices would say the same to each other for ever");
}

#[test]
fn listing_that_no_answer_holds_is_cut() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let owner = liar.local.device();
    let listed = |number: u32| {
        let key = SessionKey { agent: AgentKind::Codex, native: NativeId::parse(&format!("n{number}")).unwrap() };
        let nasty = "\u{1}\u{1b}[2J".repeat(20_000);
        let (title, directory, version) = (nasty.clone(), nasty, "1".to_owned());
        let activity = Activity::Idle { evidence: String::new() };
        let info = SessionInfo { key, title, directory, turns: 1, bytes: 1, version, updated_unix_ms: 1, activity };
        ListedSession { info, owner, token: FencingToken::FIRST }
    };
    for _ in 0..100 {
        liar.say(PeerMessage::Sessions((0..4).map(listed).collect()));
    }
    unharmed(&devices.a);
    let seen = || match devices.a.ask(Command::Sessions { peers: true }) {
        Ok(Answer::Sessions { sessions, .. }) => sessions,
        other => panic!("{other:?}"),
    };
    wait_until("the listing is kept", || seen().len() == 4);
    for session in seen() {
        assert!(session.title.chars().count() <= 120 && !session.title.contains('\u{1b}'), "{}", session.title);
    }
}

/// Shows: H-28
#[test]
fn offers_that_are_withdrawn_at_once_do_not_pile_up() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    for number in 0..200_u8 {
        let invented = liar.invent(&format!("gift{number}"), number);
        liar.offer(&invented);
        liar.say(PeerMessage::Abort { handoff: invented.offer.handoff, refusal: Refusal::Cancelled });
    }
    unharmed(&devices.a);
    wait_until("nothing of it waits", || devices.a.status().approvals.is_empty());
    assert!(devices.a.status().moves.len() <= 1);
    let Ok(Answer::Log { lines, .. }) = devices.a.ask(Command::Log { tail: None, verify: false }) else {
        panic!("no record")
    };
    let asked = lines.iter().filter(|line| line.kind == "asked").count();
    assert!(asked <= cede_core::limits::ASKED_MOST, "{asked}");
}

/// Shows: T-14
#[test]
fn offer_is_shown_in_plain_words_and_takes_no_hidden_place() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let mut invented = liar.invent("gift", 1);
    invented.offer.title = format!("\u{1b}]0;owned\u{7}{}", "x".repeat(100_000));
    invented.offer.workspace.below_home = Some(b".config/autostart".to_vec());
    invented.offer.workspace.path = b"/home/x/.ssh".to_vec();
    liar.offer(&invented);
    let asked = question(&devices.a);
    assert!(asked.title.chars().count() <= 120 && !asked.title.contains('\u{1b}'), "{}", asked.title);
    assert_eq!(asked.directory, devices.a.home.join("session").display().to_string());
    let mut endless = liar.invent("endless", 2);
    endless.offer.scope.executables = vec!["\u{1}".repeat(500_000)];
    liar.offer(&endless);
    assert_eq!(liar.hear_refusal().0, Refusal::TooLarge);
    assert_eq!(devices.a.status().approvals.len(), 1);
}

/// Shows: H-30
#[test]
fn standing_yes_gives_away_no_session_that_never_moved() {
    let mut devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    let before = evidence(&tree);
    let native = devices.a.session(id).unwrap().native;
    let mut liar = Liar::among(&mut devices);
    let invented = liar.invent(&native, 1);
    liar.offer(&invented);
    let asked = question(&devices.a);
    assert!(asked.inventory[0].what.contains("here and never moved"), "{:?}", asked.inventory);
    devices.a.ask(Command::Decide { approval: asked.id.to_string(), yes: false }).unwrap();
    assert_eq!(liar.hear_refusal().0, Refusal::Declined);
    assert_eq!(state(&devices.a, id), "in charge here");
    assert_eq!(evidence(&tree), before);
}

/// Shows: T-13
#[test]
fn chunk_of_another_length_than_was_approved_is_refused() {
    let mut devices = Devices::friends(CEDE);
    let mut liar = Liar::among(&mut devices);
    let mut invented = liar.invent("gift", 1);
    invented.payload = Payload::of(&invented.offer.key, &[7; 200_000], 1);
    liar.offer(&invented);
    let accept = liar.hear_accept();
    let end = liar.serve(&invented, &accept);
    assert!(matches!(&end, PeerMessage::Refuse { refusal: Refusal::IntegrityFailed, .. }), "{end:?}");
    unharmed(&devices.a);
}

/// Shows: H-28
#[test]
fn same_need_again_and_again_ends_the_move() {
    let mut devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    let before = evidence(&tree);
    let mut liar = Liar::among(&mut devices);
    let moving = devices.a.open(Command::To(request("server", id))).unwrap();
    let offer = liar.accept();
    let manifest = liar.hear_manifest();
    for round in [manifest.round, 7, manifest.round].repeat(20) {
        let need = PeerMessage::Need { handoff: offer.handoff, round, of: NeedOf::Payload, bitmap: vec![255; 500_000] };
        if !liar.shout(need) {
            break;
        }
    }
    let failure = failed(moving);
    assert!(failure.why.contains("again and again"), "{failure:?}");
    assert_eq!(failure.now_at.as_deref(), Some("laptop"));
    assert_eq!(state(&devices.a, id), "in charge here");
    assert_eq!(evidence(&tree), before);
    unharmed(&devices.a);
}

#[test]
fn yes_after_a_withdrawal_begins_nothing() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    let mut liar = Liar::among(&mut devices);
    let moving = devices.a.open(Command::To(request("server", id))).unwrap();
    let offer = liar.hear("an offer", |message| match message {
        PeerMessage::Offer { offer, .. } => Some(verify(&offer).unwrap().into_parts().0),
        _ => None,
    });
    devices.a.ask(Command::Cancel { handoff: id.to_string() }).unwrap();
    failed(moving);
    liar.say(PeerMessage::Accept(liar.yes(&offer)));
    liar.hear("that it is over", |message| matches!(message, PeerMessage::Abort { .. }).then_some(()));
    assert_eq!(state(&devices.a, id), "in charge here");
}

/// Ends with the certificate sent to a device that has nothing of the session.
fn released_to(liar: &mut Liar, device: &Device, id: SessionId) -> Offer {
    let _moving = device.open(Command::To(request("server", id))).unwrap();
    let offer = liar.accept();
    loop {
        let manifest = liar.hear_manifest();
        if manifest.last {
            let ack = CommitAck {
                handoff: offer.handoff,
                session: id,
                token: offer.token,
                head: manifest.head,
                root: manifest.root,
                source: offer.source,
                destination: offer.destination,
            };
            let ack = liar.local.sign(&ack).unwrap();
            liar.say(PeerMessage::CommitAck(ack));
            break;
        }
        liar.say(PeerMessage::RoundComplete { handoff: offer.handoff, round: manifest.round });
    }
    liar.hear("the certificate", |message| matches!(message, PeerMessage::Release { .. }).then_some(()));
    offer
}

/// Shows: H-28
#[test]
fn refetching_for_ever_captures_one_at_a_time() {
    let mut devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    let before = evidence(&tree);
    let mut liar = Liar::among(&mut devices);
    let offer = released_to(&mut liar, &devices.a, id);
    for _ in 0..300 {
        let again = liar.yes(&offer);
        if !liar.shout(PeerMessage::Refetch(again)) {
            break;
        }
    }
    unharmed(&devices.a);
    liar.hear_manifest();
    assert_eq!(state(&devices.a, id), "released, waiting for server");
    assert_eq!(evidence(&tree), before, "the copy stays pinned");
}

/// Shows: P-9
#[test]
fn device_that_is_removed_in_the_middle_holds_no_session() {
    let mut devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    let before = evidence(&tree);
    let mut liar = Liar::among(&mut devices);
    let moving = devices.a.open(Command::To(request("server", id))).unwrap();
    let offer = liar.accept();
    let manifest = liar.hear_manifest();
    liar.say(PeerMessage::RoundComplete { handoff: offer.handoff, round: manifest.round });
    wait_until("the last round", || liar.hear_manifest().last);
    let gift = liar.invent("gift", 1);
    liar.offer(&gift);
    liar.hear_accept();
    let began = Instant::now();
    devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    let failure = failed(moving);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(failure.refusal, Some(Refusal::NotGranted));
    assert_eq!(failure.now_at.as_deref(), Some("laptop"));
    wait_until("it works here again", || state(&devices.a, id) == "in charge here");
    assert!(devices.a.status().moves.is_empty(), "what came from it has ended too");
    assert_eq!(evidence(&tree), before);
}

/// A gift that is staged here and not released yet.
fn staged(liar: &mut Liar) -> Invented {
    let gift = liar.invent("gift", 1);
    liar.offer(&gift);
    let accept = liar.hear_accept();
    let end = liar.serve(&gift, &accept);
    assert!(matches!(end, PeerMessage::CommitAck(_)), "{end:?}");
    gift
}

/// Shows: H-27
#[test]
fn one_id_does_not_stand_for_two_sessions() {
    let mut devices = Devices::friends(CEDE);
    let mut liar = Liar::among(&mut devices);
    let gift = staged(&mut liar);
    let other = liar.invent("other", 1);
    liar.offer(&other);
    assert_eq!(liar.hear_refusal().0, Refusal::Protocol);
    liar.release(&gift);
    let id = gift.offer.key.id();
    wait_until("the gift is in its place", || state(&devices.a, id) == "in charge here");
    assert_eq!(std::fs::read(devices.a.home.join("gift/gift.txt")).unwrap(), b"the gift");
}

#[test]
fn member_takes_its_share_of_the_seats_only() {
    let mut devices = Devices::paired(CEDE);
    let liar = Liar::among(&mut devices);
    let more: Vec<Liar> = (0..6).map(|_| again_beside(&liar, &devices.a)).collect();
    wait_until("the oldest links end", || {
        more.iter().chain([&liar]).filter(|one| one.link.is_closed().is_none()).count() <= 4
    });
    assert!(more.last().unwrap().link.is_closed().is_none(), "the newest one is the one that counts");
    unharmed(&devices.a);
}

fn again_beside(liar: &Liar, device: &Device) -> Liar {
    let (local, mesh) = (LocalDevice::from_secret(&liar.local.secret()), liar.mesh);
    Liar::dial(device, local, mesh, 2)
}
