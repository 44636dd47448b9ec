//! `proto/vectors/wire.json`, run both ways: the fields make the bytes, the bytes make the value; the bad ones are
//! refused with the text that stands there.
//!
//! A vector is added by a sample below and `CEDE_VECTORS=add cargo test -p cede-tests --test vectors`, which appends
//! what is missing and touches nothing that stands in the file.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;

use cede_wire::approver::{ApproverAnswer, Posed};
use cede_wire::audit::{AuditAnchor, AuditEntry, AuditEvent};
use cede_wire::canonical::{DecodeError, Signed, decode, encode};
use cede_wire::catalog::{Catalog, Oid};
use cede_wire::custody::{Custody, FencingToken, Head, SeizeVote};
use cede_wire::frame::{HEADER_BYTES, Header};
use cede_wire::handoff::{Accept, Activated, CommitAck, Manifest, Offer, Scope};
use cede_wire::id::{DeviceId, DeviceKey, HandoffId};
use cede_wire::letter::{Letter, LetterRecord};
use cede_wire::member::{Capability, MemberEntry};
use cede_wire::message::PeerMessage;
use cede_wire::path::RelPath;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, SessionKey};
use cede_wire::task::{TaskRecord, TaskResult, TaskScope};
use cede_wire::transfer::{FileCatalog, TransferAccept, TransferKey, TransferOffer, TransferReceipt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[path = "vectors/samples.rs"]
mod samples;

/// One vector as it stands in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Vector {
    name: String,
    rule: String,
    #[serde(rename = "type")]
    kind: String,
    /// The value as JSON; null for bytes that are none.
    fields: Value,
    hex: String,
    /// `accepted`, `skipped`, or the text of the refusal.
    outcome: String,
}

#[derive(Serialize, Deserialize)]
struct File {
    about: String,
    vectors: Vec<Vector>,
}

/// A type that vectors exist for.
trait Subject: Serialize + DeserializeOwned + PartialEq + Debug {
    fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// The value, or none where the bytes are to be skipped.
    fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, String> {
        decode(bytes).map(Some).map_err(|error: DecodeError| error.to_string())
    }
}

impl Subject for FencingToken {}
impl Subject for Head {}
impl Subject for DeviceId {}
impl Subject for HandoffId {}
impl Subject for SessionKey {}
impl Subject for Custody {}
impl Subject for SeizeVote {}
impl Subject for Scope {}
impl Subject for Offer {}
impl Subject for Accept {}
impl Subject for Manifest {}
impl Subject for CommitAck {}
impl Subject for Activated {}
impl Subject for MemberEntry {}
impl Subject for Signed<CommitAck> {}
impl Subject for Record {}
impl Subject for Letter {}
impl Subject for LetterRecord {}
impl Subject for TaskScope {}
impl Subject for TaskResult {}
impl Subject for TaskRecord {}
impl Subject for Refusal {}
impl Subject for AgentKind {}
impl Subject for Capability {}
impl Subject for RelPath {}
impl Subject for Oid {}
impl Subject for TransferOffer {}
impl Subject for TransferAccept {}
impl Subject for TransferKey {}
impl Subject for TransferReceipt {}
impl Subject for AuditEntry {}
impl Subject for AuditEvent {}
impl Subject for AuditAnchor {}
impl Subject for Posed {}
impl Subject for ApproverAnswer {}

impl Subject for FileCatalog {
    fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, String> {
        Self::from_bytes(bytes).map(Some).map_err(|error| error.to_string())
    }
}

impl Subject for Catalog {
    fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, String> {
        Self::from_bytes(bytes).map(Some).map_err(|error| error.to_string())
    }
}

impl Subject for PeerMessage {
    fn to_bytes(&self) -> Vec<u8> {
        self.to_frame().unwrap()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, String> {
        let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or("no header")?;
        let header = Header::from_bytes(*header).map_err(|error| error.to_string())?;
        let body = body.get(..header.length as usize).ok_or("the frame ends early")?;
        Self::from_frame(header, body).map_err(|error| error.to_string())
    }
}

/// What a device id and a session id are computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct DerivedDeviceId {
    key: DeviceKey,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct DerivedSessionId {
    key: SessionKey,
}

fn run<T: Subject>(vector: &Vector) {
    let bytes = unhex(&vector.hex);
    let read = T::from_bytes(&bytes);
    match (vector.outcome.as_str(), read) {
        ("accepted", Ok(Some(value))) => {
            let told: T = serde_json::from_value(vector.fields.clone()).unwrap();
            assert_eq!(value, told, "{}: the bytes are another value", vector.name);
            assert_eq!(hex(&told.to_bytes()), vector.hex, "{}: the value has other bytes", vector.name);
        }
        ("skipped", Ok(None)) => {}
        (outcome, Err(text)) => assert_eq!(text, outcome, "{}", vector.name),
        (outcome, read) => panic!("{}: {outcome} was expected: {read:?}", vector.name),
    }
}

fn run_by_type(vector: &Vector) {
    match vector.kind.as_str() {
        "FencingToken" => run::<FencingToken>(vector),
        "Head" => run::<Head>(vector),
        "DeviceId" => run::<DeviceId>(vector),
        "HandoffId" => run::<HandoffId>(vector),
        "SessionKey" => run::<SessionKey>(vector),
        "Custody" => run::<Custody>(vector),
        "SeizeVote" => run::<SeizeVote>(vector),
        "Scope" => run::<Scope>(vector),
        "Offer" => run::<Offer>(vector),
        "Accept" => run::<Accept>(vector),
        "Manifest" => run::<Manifest>(vector),
        "CommitAck" => run::<CommitAck>(vector),
        "Activated" => run::<Activated>(vector),
        "MemberEntry" => run::<MemberEntry>(vector),
        "Signed<CommitAck>" => run::<Signed<CommitAck>>(vector),
        "Record" => run::<Record>(vector),
        "Letter" => run::<Letter>(vector),
        "LetterRecord" => run::<LetterRecord>(vector),
        "TaskScope" => run::<TaskScope>(vector),
        "TaskResult" => run::<TaskResult>(vector),
        "TaskRecord" => run::<TaskRecord>(vector),
        "Refusal" => run::<Refusal>(vector),
        "AgentKind" => run::<AgentKind>(vector),
        "Capability" => run::<Capability>(vector),
        "RelPath" => run::<RelPath>(vector),
        "Oid" => run::<Oid>(vector),
        "Catalog" => run::<Catalog>(vector),
        "FileCatalog" => run::<FileCatalog>(vector),
        "TransferOffer" => run::<TransferOffer>(vector),
        "TransferAccept" => run::<TransferAccept>(vector),
        "TransferKey" => run::<TransferKey>(vector),
        "TransferReceipt" => run::<TransferReceipt>(vector),
        "AuditEntry" => run::<AuditEntry>(vector),
        "AuditEvent" => run::<AuditEvent>(vector),
        "AuditAnchor" => run::<AuditAnchor>(vector),
        "Posed" => run::<Posed>(vector),
        "ApproverAnswer" => run::<ApproverAnswer>(vector),
        "frame" => run::<PeerMessage>(vector),
        "derived DeviceId" => {
            let told: DerivedDeviceId = serde_json::from_value(vector.fields.clone()).unwrap();
            assert_eq!(told.key.device().to_string(), vector.hex, "{}", vector.name);
        }
        "derived SessionId" => {
            let told: DerivedSessionId = serde_json::from_value(vector.fields.clone()).unwrap();
            assert_eq!(told.key.id().to_string(), vector.hex, "{}", vector.name);
        }
        other => panic!("{}: nobody reads the type {other}", vector.name),
    }
}

/// Shows: T-1, T-4, R-1, C-5, P-8
#[test]
fn every_vector_holds_both_ways() {
    for vector in &file().vectors {
        run_by_type(vector);
    }
}

#[test]
fn every_sample_stands_in_the_file() {
    let mut file = file();
    let names: BTreeSet<&str> = file.vectors.iter().map(|vector| vector.name.as_str()).collect();
    assert_eq!(names.len(), file.vectors.len(), "two vectors have one name");
    let missing: Vec<Vector> =
        samples::all().into_iter().filter(|sample| !names.contains(sample.name.as_str())).collect();
    if missing.is_empty() {
        return;
    }
    let shown: Vec<String> = missing.iter().map(|vector| vector.name.clone()).collect();
    assert_eq!(std::env::var("CEDE_VECTORS").as_deref(), Ok("add"), "not in {}: {shown:?}", path().display());
    file.vectors.extend(missing);
    std::fs::write(path(), text(&file)).unwrap();
}

#[test]
fn samples_are_still_what_the_file_says() {
    let file = file();
    for sample in samples::all() {
        let stands = file.vectors.iter().find(|vector| vector.name == sample.name);
        assert!(stands.is_none_or(|vector| *vector == sample), "{}: the sample changed under its name", sample.name);
    }
}

#[test]
fn every_message_and_record_kind_has_an_accepted_vector() {
    let accepted = |kind: &str| -> BTreeSet<u16> {
        let vectors = file().vectors.into_iter().filter(|v| v.kind == kind && v.outcome == "accepted");
        let first = |v: Vector| unhex(&v.hex).first().copied().map(u16::from).unwrap();
        vectors.map(first).collect()
    };
    assert_eq!(accepted("frame"), (0..33).collect());
    assert_eq!(accepted("Record"), (0..25).collect());
    assert_eq!(accepted("Refusal"), (0..Refusal::ALL.len() as u16).collect());
    assert_eq!(accepted("AgentKind"), (0..AgentKind::ALL.len() as u16).collect());
}

/// Shows: S-1, S-2
#[test]
fn signature_in_the_vectors_verifies_and_a_changed_byte_does_not() {
    let vector = file().vectors.into_iter().find(|vector| vector.name == "signed commit-ack").unwrap();
    let signed: Signed<CommitAck> = decode(&unhex(&vector.hex)).unwrap();
    assert!(cede_seal::verify::verify(&signed).is_ok());
    let mut bytes = signed.bytes().to_vec();
    bytes[0] ^= 1;
    let changed: Signed<CommitAck> = Signed::from_parts(bytes, *signed.key(), *signed.signature());
    assert!(cede_seal::verify::verify(&changed).is_err());
}

/// Shows: R-1
#[test]
fn numbers_page_lists_what_the_code_counts() {
    let page = std::fs::read_to_string(top().join("proto/NUMBERS.md")).unwrap();
    for refusal in Refusal::ALL {
        let number = encode(&refusal)[0];
        assert!(page.contains(&format!("| {number} | {refusal} |")), "refusal {refusal}");
    }
    for agent in AgentKind::ALL {
        let number = encode(&agent)[0];
        assert!(page.contains(&format!("| {number} | {} |", agent.name())), "agent {}", agent.name());
    }
    for sample in samples::messages() {
        let name = format!("{sample:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        assert!(page.contains(&format!("| {} | {name} |", sample.kind())), "message {name}");
    }
    for sample in samples::records() {
        let name = format!("{sample:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        assert!(page.contains(&format!("| {} | {name} |", sample.kind())), "record {name}");
    }
    for domain in samples::domains() {
        assert!(page.contains(&format!("`{domain}`")), "domain {domain}");
    }
}

fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn path() -> PathBuf {
    top().join("proto/vectors/wire.json")
}

fn file() -> File {
    serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap()
}

/// One vector on each line, so that a change shows as one.
fn text(file: &File) -> String {
    let lines: Vec<String> = file.vectors.iter().map(|vector| serde_json::to_string(vector).unwrap()).collect();
    let about = serde_json::to_string(&file.about).unwrap();
    format!("{{\n\"about\": {about},\n\"vectors\": [\n{}\n]\n}}\n", lines.join(",\n"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
