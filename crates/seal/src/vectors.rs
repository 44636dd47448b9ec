//! `proto/vectors/seal.json` and the runs of `proto/vectors/pairing.json`, both ways: the fields make the bytes, the
//! bytes make the value, and the bad ones are refused with the words that stand beside them.

use cede_wire::canonical::{Signed, decode, encode};
use cede_wire::custody::FencingToken;
use cede_wire::id::{ChunkId, Hash};
use cede_wire::member::MemberEntry;
use serde_json::Value;

use crate::chunk::{ChunkFrame, ChunkReader};
use crate::device::LocalDevice;
use crate::exchange::{ExchangeSecret, HandoffContext, HandoffKeys};
use crate::pake::{GuestPake, HostPake, Transcript};
use crate::stream::{HEADER_BYTES, Opener, Sealer};
use crate::verify::verify;

const SEALS: &str = include_str!("../../../proto/vectors/seal.json");
const PAIRINGS: &str = include_str!("../../../proto/vectors/pairing.json");
const ACCEPTED: &str = "accepted";

/// Shows: S-1, S-2
#[test]
fn signatures_are_as_written() {
    for vector in vectors(SEALS, "signed") {
        let bytes = unhex(&vector["hex"]);
        let signed: Signed<MemberEntry> = decode(&bytes).unwrap();
        let verified = verify(&signed);
        let outcome = verified.as_ref().map_or_else(ToString::to_string, |_| ACCEPTED.to_owned());
        assert_eq!(outcome, vector["outcome"], "{}", vector["name"]);
        if let Ok(verified) = verified {
            let fields = &vector["fields"];
            let entry: MemberEntry = serde_json::from_value(fields["entry"].clone()).unwrap();
            assert_eq!(*verified, entry);
            let device = LocalDevice::from_secret(&array(&fields["secret"]));
            assert_eq!(encode(&device.sign(&entry).unwrap()), bytes, "{}", vector["name"]);
        }
    }
}

/// Shows: S-3, S-4, S-5, S-6
#[test]
fn streams_are_as_written() {
    for vector in vectors(SEALS, "stream") {
        let fields = &vector["fields"];
        let (at_source, at_destination) = keys(fields);
        let plaintext = plaintext(&fields["plaintext"]);
        let written = vector["hex"].is_string().then(|| unhex(&vector["hex"]));
        let sealed = written.unwrap_or_else(|| seal(&at_source, fields, &plaintext));
        let opened = open(&at_destination, &sealed);
        let outcome = opened.as_ref().map_or_else(Clone::clone, |_| ACCEPTED.to_owned());
        assert_eq!(outcome, vector["outcome"], "{}", vector["name"]);
        if opened.is_ok() {
            assert_eq!(opened.as_ref(), Ok(&plaintext), "{}", vector["name"]);
            assert_eq!(seal(&at_source, fields, &plaintext), sealed, "{}", vector["name"]);
        }
        if let Some(digest) = vector["blake3"].as_str() {
            assert_eq!(Hash::of(&sealed).to_string(), digest, "{}", vector["name"]);
        }
    }
}

/// Shows: S-7
#[test]
fn chunk_frames_are_as_written() {
    for vector in vectors(SEALS, "chunk") {
        let bytes = unhex(&vector["hex"]);
        let (mut reader, mut found) = (ChunkReader::default(), Vec::new());
        let read = reader.push(&bytes, |id, chunk| found.push((id, chunk))).and_then(|()| reader.finish());
        let outcome = read.as_ref().map_or_else(ToString::to_string, |()| ACCEPTED.to_owned());
        assert_eq!(outcome, vector["outcome"], "{}", vector["name"]);
        if read.is_ok() {
            let chunk = unhex(&vector["fields"]["bytes"]);
            let id = ChunkId::of(&chunk);
            let frame = ChunkFrame::raw(id, &chunk).unwrap();
            assert_eq!([&frame.to_bytes()[..], &chunk].concat(), bytes);
            assert_eq!(found, [(id, chunk)]);
        }
    }
}

/// Shows: S-8, P-3
#[test]
fn pairing_runs_are_as_written() {
    for vector in vectors(PAIRINGS, "run") {
        let fields = &vector["fields"];
        let words = |side: &str| fields[side].as_str().unwrap().to_owned();
        let at_host = transcript(&fields["host_transcript"]);
        let differs = fields["guest_transcript"].is_object();
        let at_guest = transcript(&fields[if differs { "guest_transcript" } else { "host_transcript" }]);
        let (host, host_share) = HostPake::start(words("host_words").as_bytes(), array(&fields["host_seed"]));
        let (guest, guest_share) = GuestPake::start(words("guest_words").as_bytes(), array(&fields["guest_seed"]));
        let (guest_proof, proved) = guest.prove(&host_share, &at_guest).unwrap();
        let written = unhex(&vector["hex"]);
        let host_proof: [u8; 32] = written[96..].try_into().unwrap();
        assert_eq!([host_share, guest_share, guest_proof].concat(), written[..96], "{}", vector["name"]);
        let checked = host.check(&guest_share, &guest_proof, &at_host);
        let outcome = checked.as_ref().map_or_else(ToString::to_string, |_| ACCEPTED.to_owned());
        assert_eq!(outcome, vector["outcome"], "{}", vector["name"]);
        let at_guest = proved.check(&host_proof);
        assert_eq!(at_guest.is_ok(), checked.is_ok(), "{}", vector["name"]);
        if let Ok((proof, comparison)) = checked {
            assert_eq!(proof, host_proof);
            assert_eq!(at_guest, Ok(comparison));
            assert_eq!(comparison.to_string(), fields["comparison"]);
        }
    }
}

/// The vectors of one type. A file without any fails.
fn vectors(file: &str, of: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(file).unwrap();
    let found: Vec<Value> =
        all["vectors"].as_array().unwrap().iter().filter(|vector| vector["type"] == of).cloned().collect();
    assert!(!found.is_empty());
    found
}

fn keys(fields: &Value) -> (HandoffKeys, HandoffKeys) {
    let source = ExchangeSecret::from_random(array(&fields["source_secret"]));
    let destination = ExchangeSecret::from_random(array(&fields["destination_secret"]));
    let context = &fields["context"];
    let (generation, epoch) = (context["generation"].as_u64().unwrap(), context["epoch"].as_u64().unwrap());
    let text = |field: &str| context[field].as_str().unwrap().to_owned();
    let context = HandoffContext {
        mesh: text("mesh").parse().unwrap(),
        session: text("session").parse().unwrap(),
        handoff: text("handoff").parse().unwrap(),
        source: text("source").parse().unwrap(),
        destination: text("destination").parse().unwrap(),
        token: FencingToken { generation, epoch },
        source_exchange_key: source.public(),
        destination_exchange_key: destination.public(),
    };
    let at_source = HandoffKeys::derive(&source, &destination.public(), &context).unwrap();
    (at_source, HandoffKeys::derive(&destination, &source.public(), &context).unwrap())
}

fn transcript(fields: &Value) -> Transcript {
    let versions = |side: &str| {
        let range: Vec<u16> = serde_json::from_value(fields[side].clone()).unwrap();
        (range[0], range[1])
    };
    let text = |field: &str| fields[field].as_str().unwrap().to_owned();
    Transcript {
        mesh: text("mesh").parse().unwrap(),
        host: text("host").parse().unwrap(),
        guest: text("guest").parse().unwrap(),
        host_versions: versions("host_versions"),
        guest_versions: versions("guest_versions"),
        host_nonce: array(&fields["host_nonce"]),
        guest_nonce: array(&fields["guest_nonce"]),
        exporter: array(&fields["exporter"]),
    }
}

fn plaintext(value: &Value) -> Vec<u8> {
    match value["count"].as_u64() {
        Some(count) => unhex(&value["byte"]).repeat(count as usize),
        None if value.is_null() => Vec::new(),
        None => unhex(&value["hex"]),
    }
}

fn seal(keys: &HandoffKeys, fields: &Value, plaintext: &[u8]) -> Vec<u8> {
    let number = fields["number"].as_u64().unwrap().try_into().unwrap();
    let mut sealer = Sealer::new(keys.stream(number));
    let mut sealed = sealer.header().to_vec();
    sealer.push(plaintext, &mut sealed).unwrap();
    sealer.finish(&mut sealed).unwrap();
    sealed
}

fn open(keys: &HandoffKeys, sealed: &[u8]) -> Result<Vec<u8>, String> {
    let (header, segments) = sealed.split_first_chunk::<HEADER_BYTES>().unwrap();
    let mut opener = Opener::new(keys, header).map_err(|error| error.to_string())?;
    let mut opened = Vec::new();
    opener.push(segments, &mut opened).map_err(|error| error.to_string())?;
    opener.finish(&mut opened).map_err(|error| error.to_string())?;
    Ok(opened)
}

fn array(value: &Value) -> [u8; 32] {
    unhex(value).try_into().unwrap()
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    assert!(text.len().is_multiple_of(2));
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
