//! What the corpora begin with: the vectors, and what the program itself writes under keys that everybody knows.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use cede_mesh::membership::MembershipLog;
use cede_seal::chunk::ChunkFrame;
use cede_seal::device::LocalDevice;
use cede_seal::exchange::{ExchangeSecret, HandoffContext, HandoffKeys};
use cede_seal::stream::Sealer;
use cede_wire::audit::{AuditCheckpoint, AuditEntry, AuditEvent, AuditHead, AuditOf, DecidedBy};
use cede_wire::canonical::{Signed, encode};
use cede_wire::custody::{Custody, FencingToken, Genesis, Head, Release};
use cede_wire::id::{ChunkId, ConnectionId, DeviceId, HandoffId, Hash, Incarnation, MeshId, SessionId};
use cede_wire::letter::LetterId;
use cede_wire::member::{Capability, Member, MemberEntry};
use cede_wire::session::{AgentKind, NativeId, SessionKey};
use serde_json::Value;

use super::{journal, sealed};

mod programs;

/// Lengths of the streams in the corpus: none, one byte, and both sides of a segment's end.
pub const SEALED_LENGTHS: [usize; 6] = [0, 1, 700, 61_439, 61_440, 61_441];

fn device(secret: u8) -> LocalDevice {
    LocalDevice::from_secret(&[secret; 32])
}

/// A log of five entries: two devices come, one goes, one comes.
pub fn membership() -> &'static [Signed<MemberEntry>] {
    static LOG: OnceLock<Vec<Signed<MemberEntry>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let own = device(1);
        let mut log = MembershipLog::genesis(&own, "desk", [5; 16]).unwrap();
        let member = |secret: u8, name: &str| Member {
            key: device(secret).key(),
            name: name.to_owned(),
            capabilities: vec![Capability::Presence, Capability::Message],
        };
        log.add(&own, member(2, "laptop")).unwrap();
        log.add(&own, member(3, "phone")).unwrap();
        log.remove(&own, device(3).device()).unwrap();
        log.add(&own, member(4, "tablet")).unwrap();
        log.entries().to_vec()
    })
}

/// Two links of a chain.
pub fn signed_custody() -> &'static [Signed<Custody>] {
    static CHAIN: OnceLock<Vec<Signed<Custody>>> = OnceLock::new();
    CHAIN.get_or_init(|| {
        let (a, b, mesh) = (device(1), device(2), MeshId::new([9; 32]));
        let key = SessionKey { agent: AgentKind::Codex, native: NativeId::parse("01a2").unwrap() };
        let (session, incarnation) = (key.id(), Incarnation::new([3; 16]));
        let genesis = Custody::Genesis(Genesis { mesh, key, owner: a.device(), incarnation, members: 2 });
        let genesis = a.sign(&genesis).unwrap();
        let release = Custody::Release(Release {
            mesh,
            session,
            prev: genesis.hash(),
            from: a.device(),
            to: b.device(),
            handoff: HandoffId::new([4; 16]),
            token: FencingToken::FIRST,
            next_token: FencingToken::FIRST.next_epoch().unwrap(),
            head: Head { turn: 3, length: 300, hash: Hash::of(b"turns") },
            root: Hash::of(b"catalog"),
            members: 2,
        });
        vec![genesis, a.sign(&release).unwrap()]
    })
}

/// The keys of the one handoff whose streams are in the corpus.
pub fn handoff_keys() -> &'static HandoffKeys {
    static KEYS: OnceLock<HandoffKeys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let (source, destination) = (ExchangeSecret::from_random([11; 32]), ExchangeSecret::from_random([12; 32]));
        let context = HandoffContext {
            mesh: MeshId::new([9; 32]),
            session: SessionId::new([8; 16]),
            handoff: HandoffId::new([7; 16]),
            source: DeviceId::new([1; 32]),
            destination: DeviceId::new([2; 32]),
            token: FencingToken::FIRST,
            source_exchange_key: source.public(),
            destination_exchange_key: destination.public(),
        };
        HandoffKeys::derive(&destination, &source.public(), &context).unwrap()
    })
}

/// A sealed stream of the corpus.
pub fn sealed(number: u32, length: usize) -> Vec<u8> {
    let mut sealer = Sealer::new(handoff_keys().stream(number));
    let mut out = sealer.header().to_vec();
    sealer.push(&sealed::plaintext(number, length), &mut out).unwrap();
    sealer.finish(&mut out).unwrap();
    out
}

/// The records of the journal's vectors.
pub fn journal_records() -> &'static BTreeSet<Vec<u8>> {
    static RECORDS: OnceLock<BTreeSet<Vec<u8>>> = OnceLock::new();
    RECORDS.get_or_init(|| journal::known(&vectors("journal.json")))
}

/// A journal of one group with these records, made from the page that describes it.
pub fn journal_of(bodies: &[Vec<u8>]) -> Vec<u8> {
    let salt = [7; 32];
    let key = blake3::derive_key("cede/1 journal", &salt);
    let mac = |parts: &[&[u8]]| *blake3::keyed_hash(&key, &parts.concat()).as_bytes();
    let mut file = [&b"cedejrnl\x01\0"[..], &[0; 6], &salt, &[0; 32]].concat();
    file.extend_from_slice(&mac(&[&file])[..16]);
    let records: Vec<u8> = bodies.iter().flat_map(|body| framed(body)).collect();
    let (length, count) = (records.len() as u32, bodies.len() as u32);
    let mut group = [&b"cjgr"[..], &length.to_le_bytes(), &count.to_le_bytes(), &1_u64.to_le_bytes()].concat();
    let chain = mac(&[&mac(&[&file]), &group, &records]);
    group.extend_from_slice(&[0; 4]);
    group.extend_from_slice(&chain);
    group.extend_from_slice(&mac(&[&group])[..8]);
    [file, group, records].concat()
}

/// The number that a record's frame names.
pub fn kind_of(body: &[u8]) -> u16 {
    u16::from(body.first().copied().unwrap_or(0xff))
}

fn framed(body: &[u8]) -> Vec<u8> {
    let head = [&kind_of(body).to_le_bytes()[..], &(body.len() as u32).to_le_bytes()].concat();
    let crc = crc32c(&[&head[..], body].concat());
    [&head[..], &crc.to_le_bytes(), body].concat()
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

/// A file of vectors.
pub fn vectors(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../proto/vectors").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Bytes from hexadecimal digits.
pub fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What the corpus of a target begins with, by name.
pub fn of(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "frame" | "peer-message" => wire("frame"),
        "posed-question" => wire("Posed"),
        "pair-message" => pairing(),
        // A record of letters is its number and the rest.
        "record" => [wire("Record"), numbered(20, wire("LetterRecord"))].concat(),
        "custody" => wire("Custody"),
        "handoff" => (0..)
            .zip(["Offer", "Accept", "Manifest", "CommitAck", "Activated"])
            .flat_map(|(n, kind)| numbered(n, wire(kind)))
            .collect(),
        "member-entry" => wire("MemberEntry"),
        "membership-log" => vec![
            ("five".to_owned(), encode(&membership().to_vec())),
            ("first".to_owned(), encode(&membership()[..1].to_vec())),
        ],
        "catalog" => wire("Catalog"),
        "file-catalog" => wire("FileCatalog"),
        "letter" => wire("Letter"),
        "task-part" => task_parts(),
        "audit-file" => {
            vec![("whole".to_owned(), audit().file.clone()), ("signed-for".to_owned(), audit().signed_for.clone())]
        }
        "path" => path_seeds(),
        "sealed-stream" => {
            (0..).zip(SEALED_LENGTHS).map(|(n, length)| (format!("of-{length}"), sealed(n, length))).collect()
        }
        "chunk-stream" => chunk_seeds(),
        "signed" => (0..).zip(signed_custody()).map(|(n, one): (u8, _)| (format!("link-{n}"), encode(one))).collect(),
        "journal-file" => journal_seeds(),
        "journal-records" => record_seeds(),
        "names" | "pairing-words" | "discovery" => texts(target),
        _ => programs::of(target),
    }
}

fn task_parts() -> Vec<(String, Vec<u8>)> {
    let behind = |number: u16, bytes: &[u8]| [&number.to_le_bytes()[..], bytes].concat();
    let of = |kind: &str, number| wire(kind).into_iter().map(move |(name, bytes)| (name, behind(number, &bytes)));
    let (origin, stream) = (device(1).device(), device(2).device());
    let task = LetterId { origin, incarnation: Incarnation::new([3; 16]), stream, seq: 7 };
    of("TaskScope", 1).chain(of("TaskResult", 2)).chain([("withdrawn".to_owned(), behind(3, &encode(&task)))]).collect()
}

/// A file of the record of decisions.
#[derive(Debug)]
pub struct Audit {
    /// Whose it is.
    pub device: DeviceId,
    /// The newest checkpoint, as it stands beside the files.
    pub newest: Signed<AuditCheckpoint>,
    /// The file.
    pub file: Vec<u8>,
    /// Its beginning, up to the last entry that the checkpoint covers.
    pub signed_for: Vec<u8>,
}

/// The record of a device that answered a few questions.
pub fn audit() -> &'static Audit {
    static AUDIT: OnceLock<Audit> = OnceLock::new();
    AUDIT.get_or_init(|| {
        let own = device(1);
        let mut chain = Hash::new([0; 32]);
        let mut file = AuditHead { file: 1, first: 1, before: chain }.to_bytes().to_vec();
        let mut write = |number, event| {
            let (frame, after) = AuditEntry { number, at_unix_ms: number, event }.to_frame(&chain);
            file.extend(frame);
            chain = after;
            (after, file.clone())
        };
        write(1, AuditEvent::Begun { device: own.device() });
        let decided = |number: u64| AuditEvent::Decided {
            who: device(2).device(),
            capability: Capability::File,
            of: AuditOf::Request(ConnectionId::new([5; 16]), number),
            allowed: number.is_multiple_of(2),
            by: DecidedBy::Operator,
            shown: Some(Hash::of(&[7])),
            times: 1,
        };
        (2..=6).for_each(|number| drop(write(number, decided(number))));
        let (covered, signed_for) = write(7, decided(7));
        let newest = own.sign(&AuditCheckpoint { by: own.device(), number: 7, chain: covered, at_unix_ms: 7 }).unwrap();
        let (_, file) = write(8, AuditEvent::Checkpoint(newest.clone()));
        Audit { device: own.device(), newest, file, signed_for }
    })
}

fn numbered(number: u8, seeds: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    seeds.into_iter().map(|(name, bytes)| (name, [&[number][..], &bytes].concat())).collect()
}

fn named(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

fn wire(kind: &str) -> Vec<(String, Vec<u8>)> {
    let file = vectors("wire.json");
    let of_kind = file["vectors"].as_array().unwrap().iter().filter(|vector| vector["type"] == kind);
    of_kind.map(|v| (named(v["name"].as_str().unwrap()), unhex(v["hex"].as_str().unwrap()))).collect()
}

fn pairing() -> Vec<(String, Vec<u8>)> {
    use cede_wire::pairing::PairMessage::{GuestProof, HostProof, HostShare, Joined, Name, Open, Refuse, Welcome};
    let messages = [
        Open { protocol_min: 1, protocol_max: 2, nonce: [3; 32] },
        HostShare { protocol_min: 1, protocol_max: 2, mesh: MeshId::new([4; 32]), nonce: [5; 32], share: [6; 32] },
        GuestProof { share: [7; 32], proof: [8; 32] },
        HostProof { proof: [9; 32] },
        Name { name: "laptop".into() },
        Welcome(membership().to_vec()),
        Joined,
        Refuse(cede_wire::refusal::Refusal::Declined),
    ];
    messages.iter().map(|message| (format!("message-{}", message.kind()), message.to_frame().unwrap())).collect()
}

fn path_seeds() -> Vec<(String, Vec<u8>)> {
    let paths =
        ["a", "src/main.rs", "a b/c", ".gitignore", "x/.git", "..", "/etc", "git~2/x", "e\u{301}/\u{200c}a", "a\\b:c"];
    (0..).zip(paths).map(|(n, path): (u8, _)| (format!("path-{n}"), path.as_bytes().to_vec())).collect()
}

fn chunk_seeds() -> Vec<(String, Vec<u8>)> {
    let frame = |bytes: &[u8]| [&ChunkFrame::raw(ChunkId::of(bytes), bytes).unwrap().to_bytes()[..], bytes].concat();
    let two = [frame(b"one"), frame(&[7; 300])].concat();
    vec![("one".to_owned(), frame(b"x")), ("two".to_owned(), two), ("none".to_owned(), Vec::new())]
}

fn journal_seeds() -> Vec<(String, Vec<u8>)> {
    let file = vectors("journal.json");
    let all = file.as_array().unwrap().iter();
    all.map(|v| (named(v["name"].as_str().unwrap()), unhex(v["hex"].as_str().unwrap()))).collect()
}

fn record_seeds() -> Vec<(String, Vec<u8>)> {
    let body = |body: &[u8]| [&(body.len() as u16).to_le_bytes()[..], body].concat();
    let mut all: Vec<_> = wire("Record").into_iter().map(|(name, bytes)| (name, body(&bytes))).collect();
    let three = all.iter().take(3).flat_map(|(_, bytes)| bytes.clone()).collect();
    all.push(("three".to_owned(), three));
    all
}

fn texts(target: &str) -> Vec<(String, Vec<u8>)> {
    let texts: &[&str] = match target {
        "names" => &[
            "ses_dd80e25a",
            "01a227f1-9ddb-7bc3-bf83-8a6b9c83d051",
            "Anna's MacBook",
            "a7a7a7a7a7a7a7a7",
            "-rf",
            "desk",
        ],
        "pairing-words" => {
            &["acid-acid-acid-acid", "Acid acid, acid.acid", "acid acid acid", "acidd acid acid acid", ""]
        }
        _ => &["03030303\x004433\0m=09090909", "02020202\x004433\0m=09090909", "03030303\x000\0m=08080808", "x"],
    };
    (0..).zip(texts).map(|(n, text): (u8, _)| (format!("text-{n}"), text.as_bytes().to_vec())).collect()
}
