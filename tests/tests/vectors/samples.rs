//! The values that the vectors are made of.

use cede_seal::device::LocalDevice;
use cede_wire::approver::ApproverAnswer;
use cede_wire::audit::{AuditCheckpoint, AuditOf};
use cede_wire::authority::Rule;
use cede_wire::canonical::{Signable, Signed, encode};
use cede_wire::catalog::{Body, Catalog, ChunkRef, Entry, Mtime, Oid, Place};
use cede_wire::custody::{Custody, FencingToken, Genesis, Head, Release, Seize, SeizeVote};
use cede_wire::handoff::{
    Accept, Activated, CommitAck, Disposition, InventoryItem, Manifest, Offer, RepositoryIdentity, Scope, Workspace,
};
use cede_wire::id::{ChunkId, ConnectionId, DeviceId, DeviceKey, HandoffId, Hash, Incarnation, MeshId};
use cede_wire::letter::{
    GoneWhy, KeptLetter, Letter, LetterFacts, LetterId, LetterItem, LetterReceipt, LetterReceipts, LetterRecord,
    LetterRoom, LetterState, Letters, PostedLetter, ReceiptsHeld,
};
use cede_wire::member::{Capability, Member, MemberChange, MemberEntry};
use cede_wire::message::{HandoffStatus, Hello, KnownCustody, ListedSession, NeedOf, PeerMessage};
use cede_wire::path::RelPath;
use cede_wire::record::{Doubt, PeerPolicy, PlacedSession, Record};
use cede_wire::refusal::Refusal;
use cede_wire::session::{Activity, AgentKind, NativeId, Requirement, SessionInfo, SessionKey};
use cede_wire::task::{Part, TaskOutcome, TaskRecord, TaskResult, TaskScope};
use cede_wire::terminal::{TerminalBody, TerminalMessage, Wish};
use cede_wire::transfer::{TransferAccept, TransferKey, TransferOffer, TransferReceipt};
use serde::Serialize;
use serde_json::{Value, json};

#[path = "decisions.rs"]
mod decisions;
#[path = "terminals.rs"]
mod terminals;
#[path = "transfers.rs"]
mod transfers;

use super::{DerivedDeviceId, DerivedSessionId, Vector, hex};

/// Every sample, good ones first.
pub(super) fn all() -> Vec<Vector> {
    let mut all = small();
    all.extend(signed_types());
    all.extend(records().iter().map(|record| named(&format!("record {}", record.kind()), "J-1", "Record", record)));
    all.extend(messages().iter().map(message));
    let of_letters = letter_records();
    all.extend(
        of_letters
            .iter()
            .enumerate()
            .map(|(n, record)| named(&format!("record of letters {n}"), "M-3", "LetterRecord", record)),
    );
    all.push(named("letter", "M-2", "Letter", &letter()));
    all.extend(task_parts());
    all.extend(transfers::all());
    all.extend(terminals::all());
    all.extend(decisions::all());
    all.extend(refused_numbers());
    all.extend(refused_encodings());
    all.extend(refused_paths());
    all.extend(refused_catalogs());
    all.extend(frames_at_the_edge());
    all
}

/// Every domain that a signature names.
pub(super) fn domains() -> [&'static str; 14] {
    [
        Custody::DOMAIN,
        SeizeVote::DOMAIN,
        Offer::DOMAIN,
        Accept::DOMAIN,
        Manifest::DOMAIN,
        CommitAck::DOMAIN,
        Activated::DOMAIN,
        MemberEntry::DOMAIN,
        TransferOffer::DOMAIN,
        TransferAccept::DOMAIN,
        TransferKey::DOMAIN,
        TransferReceipt::DOMAIN,
        AuditCheckpoint::DOMAIN,
        ApproverAnswer::DOMAIN,
    ]
}

fn named<T: Serialize>(name: &str, rule: &str, kind: &str, value: &T) -> Vector {
    let fields = serde_json::to_value(value).unwrap();
    vector(name, rule, kind, fields, &encode(value), "accepted")
}

fn refused(name: &str, rule: &str, kind: &str, bytes: &[u8], outcome: &str) -> Vector {
    vector(name, rule, kind, Value::Null, bytes, outcome)
}

fn vector(name: &str, rule: &str, kind: &str, fields: Value, bytes: &[u8], outcome: &str) -> Vector {
    let [name, rule, kind, outcome] = [name, rule, kind, outcome].map(str::to_owned);
    Vector { name, rule, kind, fields, hex: hex(bytes), outcome }
}

fn message(message: &PeerMessage) -> Vector {
    let fields = serde_json::to_value(message).unwrap();
    vector(&format!("message {}", message.kind()), "C-5", "frame", fields, &message.to_frame().unwrap(), "accepted")
}

fn device(seed: u8) -> LocalDevice {
    LocalDevice::from_secret(&[seed; 32])
}

fn source() -> DeviceId {
    device(1).device()
}

fn destination() -> DeviceId {
    device(2).device()
}

fn signed<T: Signable>(value: &T) -> Signed<T> {
    let by = [device(1), device(2)].into_iter().find(|device| device.device() == value.signer());
    by.unwrap().sign(value).unwrap()
}

fn mesh() -> MeshId {
    MeshId::new([0xe1; 32])
}

fn handoff() -> HandoffId {
    HandoffId::new([0xa7; 16])
}

fn token() -> FencingToken {
    FencingToken { generation: 1, epoch: 300 }
}

fn next() -> FencingToken {
    token().next_epoch().unwrap()
}

fn head() -> Head {
    Head { turn: 7, length: 70_000, hash: Hash::of(b"seven turns") }
}

fn root() -> Hash {
    Hash::of(b"catalog")
}

fn key() -> SessionKey {
    SessionKey { agent: AgentKind::Codex, native: NativeId::parse("0198f0c2-7e57-7000-8000-0123456789ab").unwrap() }
}

fn oid(byte: u8) -> Oid {
    Oid::parse(&format!("{byte:02x}").repeat(20)).unwrap()
}

fn chunk(content: &[u8]) -> ChunkRef {
    ChunkRef { id: ChunkId::of(content), length: content.len() as u32 }
}

fn small() -> Vec<Vector> {
    let mut all = vec![
        named("first token", "H-1", "FencingToken", &FencingToken::FIRST),
        named("token of two bytes", "H-1", "FencingToken", &token()),
        named("highest token", "H-1", "FencingToken", &FencingToken { generation: u64::MAX, epoch: u64::MAX }),
        named("head", "H-2", "Head", &head()),
        named("device id", "P-8", "DeviceId", &source()),
        named("handoff id", "H-11", "HandoffId", &handoff()),
        named("session key", "A-1", "SessionKey", &key()),
        named("path as bytes", "T-4", "RelPath", &RelPath::parse(b"src/\xff \n-name").unwrap()),
        named("path beside git", "T-4", "RelPath", &RelPath::parse(b".github/workflows/x.yml").unwrap()),
        named("object id of 20 bytes", "T-6", "Oid", &oid(0xab)),
        named("object id of 32 bytes", "T-6", "Oid", &Oid::parse(&"cd".repeat(32)).unwrap()),
        named("catalog", "T-1", "Catalog", &catalog()),
        named("empty catalog", "T-1", "Catalog", &Catalog { key: key(), head: head(), entries: Vec::new() }),
        named("scope", "H-14", "Scope", &scope()),
    ];
    all.extend(Refusal::ALL.iter().map(|refusal| named(&format!("refusal {refusal}"), "R-1", "Refusal", refusal)));
    all.extend(AgentKind::ALL.iter().map(|agent| named(&format!("agent {}", agent.name()), "A-1", "AgentKind", agent)));
    let derived = DerivedDeviceId { key: device(1).key() };
    let id = *derived.key.device().as_bytes();
    all.push(vector("device id from key", "P-8", "derived DeviceId", json!(derived), &id, "accepted"));
    let derived = DerivedSessionId { key: key() };
    let id = *derived.key.id().as_bytes();
    all.push(vector("session id from key", "A-1", "derived SessionId", json!(derived), &id, "accepted"));
    all
}

fn signed_types() -> Vec<Vector> {
    vec![
        named("genesis", "H-3", "Custody", &genesis()),
        named("release", "H-3", "Custody", &release()),
        named("seize", "H-9", "Custody", &seize()),
        named("seize vote", "H-31", "SeizeVote", &seize_vote()),
        named("offer", "H-4", "Offer", &offer()),
        named("accept", "H-15", "Accept", &accept()),
        named("manifest", "H-13", "Manifest", &manifest()),
        named("commit-ack", "H-5", "CommitAck", &commit_ack()),
        named("activated", "H-7", "Activated", &activated()),
        named("member genesis", "P-5", "MemberEntry", &member(0)),
        named("member added", "P-5", "MemberEntry", &member(1)),
        named("member removed", "P-7", "MemberEntry", &member(2)),
        named("signed commit-ack", "S-1", "Signed<CommitAck>", &signed(&commit_ack())),
    ]
}

fn catalog() -> Catalog {
    let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
    let mtime = Mtime { seconds: -1, nanos: 999_999_999 };
    let chunks = vec![chunk(b"one"), chunk(b"three")];
    let entries = vec![
        Entry { place: Place::Tree, path: path("a"), body: Body::Directory { mode: 0o700 } },
        Entry { place: Place::Tree, path: path("a/file"), body: Body::File { mode: 0o644, mtime, size: 8, chunks } },
        Entry { place: Place::Tree, path: path("b"), body: Body::GitBlob { mode: 0o755, mtime, size: 5, oid: oid(9) } },
        Entry { place: Place::Tree, path: path("c"), body: Body::Symlink { target: b"a/file".to_vec() } },
        Entry {
            place: Place::Transcript,
            path: path("log"),
            body: Body::File { mode: 0o600, mtime, size: 0, chunks: Vec::new() },
        },
    ];
    Catalog { key: key(), head: head(), entries }
}

fn scope() -> Scope {
    let item = InventoryItem {
        what: "tracked files".to_owned(),
        disposition: Disposition::Transferred,
        count: 3,
        bytes: 8,
        note: String::new(),
    };
    Scope {
        inventory: vec![item],
        limit_bytes: 1 << 30,
        limit_entries: 1_000,
        executables: vec!["b".to_owned()],
        dotfiles: vec![".envrc".to_owned()],
        configuration_as_code: vec![".envrc".to_owned()],
    }
}

fn genesis() -> Custody {
    Custody::Genesis(Genesis {
        mesh: mesh(),
        key: key(),
        owner: source(),
        incarnation: Incarnation::new([3; 16]),
        members: 2,
    })
}

fn release() -> Custody {
    Custody::Release(Release {
        mesh: mesh(),
        session: key().id(),
        prev: Hash::of(&encode(&genesis())),
        from: source(),
        to: destination(),
        handoff: handoff(),
        token: token(),
        next_token: next(),
        head: head(),
        root: root(),
        members: 2,
    })
}

fn seize() -> Custody {
    Custody::Seize(Seize {
        mesh: mesh(),
        session: key().id(),
        prev: Hash::of(&encode(&release())),
        to: source(),
        token: next(),
        next_token: next().next_generation().unwrap(),
        head: head(),
        members: 3,
        votes: vec![signed(&seize_vote())],
    })
}

fn seize_vote() -> SeizeVote {
    SeizeVote {
        mesh: mesh(),
        session: key().id(),
        generation: 2,
        members: 3,
        prev: Hash::of(&encode(&release())),
        to: source(),
        voter: destination(),
    }
}

fn offer() -> Offer {
    let repository =
        RepositoryIdentity { roots: vec![oid(1)], remote: Some("git.example/work.git".to_owned()), head: Some(oid(2)) };
    Offer {
        mesh: mesh(),
        handoff: handoff(),
        key: key(),
        source: source(),
        destination: destination(),
        token: token(),
        head: head(),
        title: "Fix the größe".to_owned(),
        requirement: Requirement { agent: AgentKind::Codex, version: "0.171.0".to_owned(), provider: None },
        carry_only: false,
        workspace: Workspace {
            path: b"/home/ann/work".to_vec(),
            below_home: Some(b"work".to_vec()),
            repository: Some(repository),
        },
        scope: scope(),
        offered_at_unix_ms: 1_790_000_000_000,
    }
}

fn accept() -> Accept {
    Accept {
        handoff: handoff(),
        source: source(),
        destination: destination(),
        scope: scope().digest(),
        exchange_key: [0x42; 32],
        have: vec![oid(1), oid(2)],
    }
}

fn manifest() -> Manifest {
    Manifest {
        mesh: mesh(),
        handoff: handoff(),
        session: key().id(),
        source: source(),
        destination: destination(),
        token: token(),
        round: 1,
        last: true,
        head: head(),
        root: root(),
        catalog: vec![chunk(b"catalog")],
        payload_bytes: 8,
        exchange_key: [0x43; 32],
    }
}

fn commit_ack() -> CommitAck {
    CommitAck {
        handoff: handoff(),
        session: key().id(),
        token: token(),
        head: head(),
        root: root(),
        source: source(),
        destination: destination(),
    }
}

fn activated() -> Activated {
    Activated { handoff: handoff(), session: key().id(), token: next(), owner: destination() }
}

fn member(index: u64) -> MemberEntry {
    let of = |seed: u8, name: &str| Member {
        key: device(seed).key(),
        name: name.to_owned(),
        capabilities: vec![Capability::Presence, Capability::Handoff],
    };
    let change = match index {
        0 => MemberChange::Genesis { first: of(1, "laptop"), nonce: [0x5a; 16] },
        1 => MemberChange::Add(of(2, "server")),
        _ => MemberChange::Remove(destination()),
    };
    MemberEntry { index, prev: (index > 0).then(|| Hash::of(b"before")), by: source(), change }
}

/// One of each kind, in the order of their numbers.
pub(super) fn records() -> Vec<Record> {
    let session = key().id();
    let handoff = handoff();
    vec![
        Record::Custody(signed(&release())),
        Record::Approved { session, handoff, source: source(), scope: scope().digest() },
        Record::Staged { session, handoff, source: source(), token: token(), head: head(), root: root() },
        Record::Active { session, handoff, token: next() },
        Record::Discarded { session, handoff },
        Record::Retired { session, handoff },
        Record::FenceRaised { session, handoff, to: destination() },
        Record::FenceLifted { session },
        Record::Installed { session, handoff },
        Record::Placed(PlacedSession {
            key: key(),
            title: "Fix the größe".to_owned(),
            directory: b"/home/ann/work".to_vec(),
            root: Some(root()),
        }),
        Record::Member(signed(&member(1))),
        Record::PeerDropped { device: destination() },
        Record::PolicySet { device: destination(), policy: PeerPolicy::Yes },
        Record::AddressSeen { device: destination(), address: "192.0.2.7:4711".to_owned() },
        Record::Voted { session, generation: 2, to: source() },
        Record::Contested(signed(&seize())),
        Record::Doubted { why: Doubt::RolledBack },
        Record::Confirmed { session: Some(session) },
        Record::SeizedSeen { session, token: token(), kept: true },
        Record::Marked { count: 300, nonce: [0x5a; 16] },
        Record::Letter(Box::new(LetterRecord::Kept(Box::new(kept_letter())))),
        Record::RuleSet {
            device: destination(),
            capability: Capability::Drive,
            rule: Rule::Accept,
            from_unix_ms: 1_790_000_000_000,
            until_unix_ms: Some(1_790_000_060_000),
        },
        transfers::records().remove(0),
        Record::ApproverSet { device: destination(), may: true },
        Record::Task(TaskRecord::Began {
            id: letter_id(source(), destination(), 8),
            at_unix_ms: 1_790_000_000_002,
            of: AuditOf::Request(ConnectionId::new([0x33; 16]), 3),
        }),
    ]
}

/// One of each kind, in the order of their numbers.
pub(super) fn messages() -> Vec<PeerMessage> {
    let session = key().id();
    let handoff = handoff();
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        device: source(),
        mesh: mesh(),
        software: "cede 0.1.0".to_owned(),
        members: 2,
        run: 0x0102_0304_0506_0708,
    };
    vec![
        PeerMessage::Hello(hello),
        PeerMessage::Members(vec![signed(&member(0)), signed(&member(1))]),
        PeerMessage::Offer { offer: signed(&offer()), chain: vec![signed(&genesis())] },
        PeerMessage::Accept(signed(&accept())),
        PeerMessage::Refuse { handoff, refusal: Refusal::TooLarge, detail: "no space: 2 GiB free".to_owned() },
        PeerMessage::Manifest(signed(&manifest())),
        PeerMessage::Need { handoff, round: 1, of: NeedOf::Payload, bitmap: vec![0b0000_0101] },
        PeerMessage::RoundComplete { handoff, round: 1 },
        PeerMessage::CommitAck(signed(&commit_ack())),
        PeerMessage::Release { certificate: signed(&release()), chain: vec![signed(&genesis())] },
        PeerMessage::Activated(signed(&activated())),
        PeerMessage::Abort { handoff, refusal: Refusal::Cancelled },
        PeerMessage::Status { handoff, session },
        PeerMessage::StatusAnswer { handoff, session, status: HandoffStatus::Staged(signed(&commit_ack())) },
        PeerMessage::ReleaseQuery { handoff, session },
        PeerMessage::Take { request: 9, session, wait: true, carry_only: false },
        PeerMessage::TakeAnswer { request: 9, answer: Err((Refusal::InFlightWork, "a tool call runs".to_owned())) },
        PeerMessage::SessionsQuery,
        PeerMessage::Sessions(vec![ListedSession { info: info(), owner: source(), token: token() }]),
        PeerMessage::Refetch(signed(&accept())),
        PeerMessage::SeizeQuery { session, generation: 2, members: 3, chain: vec![signed(&genesis())] },
        PeerMessage::SeizeAnswer { session, generation: 2, answer: Ok(signed(&seize_vote())) },
        PeerMessage::CustodyQuery(vec![known()]),
        PeerMessage::Custody(vec![signed(&genesis())]),
        PeerMessage::CustodyAnswer(vec![known()]),
        PeerMessage::Letters(letters()),
        PeerMessage::LetterReceipts(LetterReceipts {
            incarnation: life(),
            answers: 300,
            through: 7,
            room: LetterRoom::Open { letters: 9_993, bytes: 67_000_000 },
            receipts: vec![
                LetterReceipt { seq: 5, state: LetterState::Refused(Refusal::Declined) },
                LetterReceipt { seq: 9, state: LetterState::Received },
            ],
        }),
        PeerMessage::ReceiptsHeld(ReceiptsHeld { incarnation: life(), seqs: vec![5] }),
        transfers::messages().remove(0),
        PeerMessage::Terminal(TerminalMessage {
            viewing: 7,
            body: TerminalBody::Open { session: key().id(), wish: Wish::Drive, from: Some(300), size: Some((24, 80)) },
        }),
        decisions::mirrors().remove(0),
        decisions::approving().remove(0),
        PeerMessage::TaskProgress { task: letter_id(source(), destination(), 8), line: "cargo test".to_owned() },
    ]
}

fn life() -> Incarnation {
    Incarnation::new([0x11; 16])
}

fn letter() -> Letter {
    Letter {
        nonce: [0x5a; 16],
        session: Some(key().id()),
        in_reply_to: Some(letter_id(destination(), source(), 2)),
        conversation: Some(letter_id(source(), destination(), 1)),
        hops: 2,
        told_unix_ms: 1_790_000_000_000,
        text: "the größe is 7".to_owned(),
        part: None,
    }
}

fn letter_id(origin: DeviceId, stream: DeviceId, seq: u64) -> LetterId {
    LetterId { origin, incarnation: life(), stream, seq }
}

fn letters() -> Letters {
    let posted = PostedLetter { seq: 8, first: None, expires_in_ms: 604_800_000, letter: letter() };
    let gone = LetterItem::Gone { from: 9, through: 11, why: GoneWhy::Forgotten };
    Letters { incarnation: life(), number: 300, items: vec![LetterItem::Posted(Box::new(posted)), gone] }
}

fn kept_letter() -> KeptLetter {
    KeptLetter {
        id: letter_id(source(), destination(), 8),
        first: Some(letter_id(destination(), source(), 2)),
        facts: LetterFacts::of(&letter()),
        expires_in_ms: 604_800_000,
        at_unix_ms: 1_790_000_000_001,
        state: Some(LetterState::Shown),
    }
}

/// A task, its answer and its withdrawal, as letters hold them.
fn task_parts() -> Vec<Vector> {
    let scope = TaskScope {
        directory: Some("db".to_owned()),
        agent: Some(AgentKind::ClaudeCode),
        read_only: true,
        tools: vec!["Read".to_owned()],
        turns: Some(5),
        minutes: 20,
    };
    let result = TaskResult {
        outcome: TaskOutcome::Refused(Refusal::InFlightWork),
        agent: Some(AgentKind::Codex),
        directory: "/home/ada/db".to_owned(),
        exit: Some(-1),
        took_ms: 300,
        changes: "new      a (1 bytes)\n".to_owned(),
        cost_micro_usd: Some(123_400),
        turns: Some(3),
        output_bytes: 70_000,
        note: "somebody works with it".to_owned(),
    };
    let (id, by) = (letter_id(source(), destination(), 8), letter_id(destination(), source(), 2));
    let mut longer = Part::Task(scope.clone()).to_part().body;
    longer.push(1);
    let not_canonical = "the bytes are not the canonical encoding of a TaskScope";
    let withdrawal = Letter { part: Some(Part::Withdrawn(id).to_part()), ..letter() };
    let ended = TaskRecord::Ended { id, outcome: TaskOutcome::Interrupted };
    vec![
        named("task", "E-2", "TaskScope", &scope),
        refused("task with a byte more", "E-2", "TaskScope", &longer, not_canonical),
        named("answer to a task", "E-5", "TaskResult", &result),
        named("letter with a withdrawal", "E-9", "Letter", &withdrawal),
        named("record of a task that was asked for", "E-4", "TaskRecord", &TaskRecord::Asked { id }),
        named("record of an answer to a task", "E-5", "TaskRecord", &TaskRecord::Answered { id, by }),
        named("record of a task that ended", "E-4", "TaskRecord", &ended),
    ]
}

/// The records of letters that the list of records has not, in the order of their numbers.
pub(super) fn letter_records() -> Vec<LetterRecord> {
    let id = letter_id(source(), destination(), 8);
    vec![
        LetterRecord::Begun { incarnation: life(), towards: Some(destination()) },
        LetterRecord::Kept(Box::new(kept_letter())),
        LetterRecord::Moved { id, state: LetterState::Refused(Refusal::Expired) },
        LetterRecord::Held { id },
        LetterRecord::Attempted { id, attempts: 2 },
        LetterRecord::Gone { from: id, through: 300, why: GoneWhy::Ended },
        LetterRecord::PassedOn { from: id, to: letter_id(destination(), source(), 2) },
        LetterRecord::Quarantine { device: destination(), on: true },
        LetterRecord::Stream { through: id, above: vec![10, 300] },
        LetterRecord::Forgotten { device: destination() },
    ]
}

fn known() -> KnownCustody {
    KnownCustody { session: key().id(), token: token(), record: Hash::of(b"record") }
}

fn info() -> SessionInfo {
    SessionInfo {
        key: key(),
        title: "Fix the größe".to_owned(),
        directory: "/home/ann/work".to_owned(),
        turns: 7,
        bytes: 70_000,
        version: "0.171.0".to_owned(),
        updated_unix_ms: 1_790_000_000_000,
        activity: Activity::Busy { pid: Some(4_711), evidence: "the writer lock is held".to_owned() },
    }
}

fn refused_numbers() -> Vec<Vector> {
    vec![
        refused("refusal of a later version", "R-1", "Refusal", &[20], "the bytes are not a Refusal"),
        refused("agent of a later version", "A-1", "AgentKind", &[5], "the bytes are not a AgentKind"),
        refused("capability of a later version", "P-6", "Capability", &[7], "the bytes are not a Capability"),
        refused("record of a later version", "J-6", "Record", &[25], "the bytes are not a Record"),
        refused("custody of a later version", "H-3", "Custody", &[3], "the bytes are not a Custody"),
    ]
}

fn refused_encodings() -> Vec<Vector> {
    let not_canonical = "the bytes are not the canonical encoding of a FencingToken";
    let trailing = [encode(&token()), vec![0]].concat();
    let cut = encode(&commit_ack()).split_last().map(|(_, rest)| rest.to_vec()).unwrap();
    let prev =
        encode(&member(1)).iter().enumerate().map(|(n, byte)| if n == 1 { 2 } else { *byte }).collect::<Vec<_>>();
    let half = encode(&signed(&commit_ack())).split_last().map(|(_, rest)| rest.to_vec()).unwrap();
    vec![
        refused("token with an overlong number", "S-1", "FencingToken", &[0x81, 0x00, 0x00], not_canonical),
        refused("token with a byte behind it", "S-1", "FencingToken", &trailing, not_canonical),
        refused("token of eleven bytes", "S-1", "FencingToken", &[0xff; 11], "the bytes are not a FencingToken"),
        refused("commit-ack cut short", "S-1", "CommitAck", &cut, "the bytes are not a CommitAck"),
        refused("option neither there nor not", "S-1", "MemberEntry", &prev, "the bytes are not a MemberEntry"),
        refused("signature cut short", "S-1", "Signed<CommitAck>", &half, "the bytes are not a CommitAck"),
        refused("object id of 21 bytes", "T-6", "Oid", &[&[21][..], &[7; 21]].concat(), "the bytes are not a Oid"),
    ]
}

fn refused_paths() -> Vec<Vector> {
    let long = "n".repeat(256);
    let deep = ["d"; 65].join("/");
    let bad: [(&str, &[u8]); 14] = [
        ("empty", b""),
        ("absolute", b"/etc/passwd"),
        ("dots", b".."),
        ("dots inside", b"a/../../b"),
        ("single dot", b"./a"),
        ("empty component", b"a//b"),
        ("trailing slash", b"a/"),
        ("nul byte", b"a\0b"),
        ("long component", long.as_bytes()),
        ("deep", deep.as_bytes()),
        ("git", b".git/config"),
        ("git in capitals", b"sub/.GIT/hooks/post-checkout"),
        ("git with an ignorable character", ".g\u{200c}it/config".as_bytes()),
        ("git as a stream", b".git::$INDEX_ALLOCATION/config"),
    ];
    bad.iter()
        .map(|(name, path)| {
            refused(&format!("path {name}"), "T-4", "RelPath", &encode(&path.to_vec()), "the bytes are not a RelPath")
        })
        .collect()
}

fn refused_catalogs() -> Vec<Vector> {
    let file = |mode: u32, nanos: u32, size: u64, chunks: Vec<ChunkRef>| Body::File {
        mode,
        mtime: Mtime { seconds: 0, nanos },
        size,
        chunks,
    };
    let entry =
        |path: &str, body: Body| Entry { place: Place::Tree, path: RelPath::parse(path.as_bytes()).unwrap(), body };
    let empty = || file(0o644, 0, 0, Vec::new());
    let giant = ChunkRef { length: (256 << 10) + 1, ..chunk(b"x") };
    let bad = [
        ("out of order", vec![entry("b", empty()), entry("a", empty())]),
        ("path twice", vec![entry("a", empty()), entry("a", empty())]),
        ("size is not the sum", vec![entry("a", file(0o644, 0, 4, vec![chunk(b"one")]))]),
        ("chunk of no bytes", vec![entry("a", file(0o644, 0, 0, vec![ChunkRef { length: 0, ..chunk(b"x") }]))]),
        ("chunk over the limit", vec![entry("a", file(0o644, 0, u64::from(giant.length), vec![giant]))]),
        ("set-id bit", vec![entry("a", file(0o4755, 0, 0, Vec::new()))]),
        ("second of a thousand million and one", vec![entry("a", file(0o644, 1_000_000_000, 0, Vec::new()))]),
        ("link to nothing", vec![entry("a", Body::Symlink { target: Vec::new() })]),
        ("link with a nul byte", vec![entry("a", Body::Symlink { target: b"a\0b".to_vec() })]),
    ];
    let bytes = |entries: Vec<Entry>| encode(&Catalog { key: key(), head: head(), entries });
    let refused = |(name, entries)| {
        refused(&format!("catalog {name}"), "T-1", "Catalog", &bytes(entries), "the bytes are not a Catalog")
    };
    bad.into_iter().map(refused).collect()
}

fn frames_at_the_edge() -> Vec<Vector> {
    let not_a_message = "the bytes are not a PeerMessage";
    let other_kind = [&[18, 0, 1, 0, 0, 0][..], &[17]].concat();
    vec![
        refused("frame of a later kind", "C-5", "frame", &[33, 0, 2, 0, 0, 0, 1, 2], "skipped"),
        refused("frame over the limit", "C-4", "frame", &[17, 0, 1, 0, 16, 0], "frame too long: 1048577 bytes"),
        refused("frame with the body of another kind", "C-5", "frame", &other_kind, not_a_message),
        refused("frame without its body", "C-5", "frame", &[17, 0, 1, 0, 0, 0], "the frame ends early"),
        refused(
            "frame with a longer body",
            "C-5",
            "frame",
            &[17, 0, 2, 0, 0, 0, 17, 0],
            "the bytes are not the canonical encoding of a PeerMessage",
        ),
        refused("hello on its own", "C-3", "frame", &[0, 0, 1, 0, 0, 0, 0], not_a_message),
    ]
}

/// A key of no device, to keep the types of ids apart.
#[test]
fn device_key_and_device_id_have_other_bytes() {
    let key: DeviceKey = device(1).key();
    assert_ne!(key.as_bytes(), source().as_bytes());
}
