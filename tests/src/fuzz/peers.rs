//! What paired and pairing devices send, and what the journal keeps of it.

use std::collections::BTreeSet;
use std::fmt::Debug;

use cede_mesh::membership::MembershipLog;
use cede_wire::approver::Posed;
use cede_wire::canonical::{Signed, decode, encode};
use cede_wire::catalog::{Catalog, ChunkRef, Entry};
use cede_wire::custody::Custody;
use cede_wire::frame::{HEADER_BYTES, Header};
use cede_wire::handoff::{Accept, Activated, CommitAck, Manifest, Offer};
use cede_wire::id::ChunkId;
use cede_wire::limits::FRAME_BODY_BYTES;
use cede_wire::member::MemberEntry;
use cede_wire::message::PeerMessage;
use cede_wire::pairing::PairMessage;
use cede_wire::record::Record;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{seeds, words};

/// Shape: every value has one encoding: what is accepted encodes to the same bytes, and no shorter or longer ones are
/// accepted; as JSON it is the same value.
pub(super) fn one_encoding<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let value: T = decode(bytes).ok()?;
    assert_eq!(encode(&value), bytes, "another encoding was accepted: {value:?}");
    assert!(decode::<T>(&[bytes, &[0]].concat()).is_err(), "a byte more was accepted");
    if let Some((_, shorter)) = bytes.split_last() {
        drop(decode::<T>(shorter).map(|short| assert_ne!(short, value, "a byte less was accepted")));
    }
    let json = serde_json::to_vec(&value).unwrap();
    assert_eq!(serde_json::from_slice::<T>(&json).ok().as_ref(), Some(&value), "its JSON is another value");
    Some(value)
}

/// Reads frames until the bytes end.
fn frames(mut bytes: &[u8], mut body: impl FnMut(Header, &[u8])) {
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let Ok(read) = Header::from_bytes(*header) else { return };
        assert_eq!(read.to_bytes(), *header);
        assert!(read.length as usize <= FRAME_BODY_BYTES);
        let Some((of, rest)) = rest.split_at_checked(read.length as usize) else { return };
        body(read, of);
        bytes = rest;
    }
}

pub(super) fn frame(bytes: &[u8]) {
    frames(bytes, |_, _| ());
    if let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let length = u32::from_le_bytes([header[2], header[3], header[4], header[5]]);
        assert_eq!(Header::from_bytes(*header).is_ok(), length as usize <= FRAME_BODY_BYTES);
    }
}

pub(super) fn peer_message(bytes: &[u8]) {
    frames(bytes, |header, body| {
        let read = PeerMessage::from_frame(header, body);
        assert_eq!(
            PeerMessage::from_frame(header, &[]) == Ok(None),
            read == Ok(None),
            "the body says whether {header:?} is known"
        );
        let Ok(Some(message)) = read else { return };
        assert_eq!(one_encoding::<PeerMessage>(body).as_ref(), Some(&message));
        assert_eq!(message.to_frame().unwrap(), [&header.to_bytes()[..], body].concat());
    });
}

pub(super) fn posed(bytes: &[u8]) {
    let Ok(posed) = Posed::from_bytes(bytes) else { return };
    assert_eq!(posed.to_bytes(), bytes, "one question, one encoding");
    assert_eq!(posed.hash(), Posed::hash_of(bytes));
    assert!(!posed.wants.word().is_empty());
}

pub(super) fn pair_message(bytes: &[u8]) {
    frames(bytes, |header, body| {
        let read = PairMessage::from_frame(header, body);
        assert_eq!(
            PairMessage::from_frame(header, &[]) == Ok(None),
            read == Ok(None),
            "the body says whether {header:?} is known"
        );
        let Ok(Some(message)) = read else { return };
        assert_eq!(one_encoding::<PairMessage>(body).as_ref(), Some(&message));
        assert_eq!(message.to_frame().unwrap(), [&header.to_bytes()[..], body].concat());
    });
}

pub(super) fn record(bytes: &[u8]) {
    if let Some(record) = one_encoding::<Record>(bytes) {
        assert_eq!(record.to_bytes(), bytes);
        assert_eq!(Some(record.kind()), bytes.first().copied().map(u16::from));
    }
}

pub(super) fn custody(bytes: &[u8]) {
    if let Some(custody) = one_encoding::<Custody>(bytes) {
        assert_eq!(custody.prev().is_none(), matches!(custody, Custody::Genesis(_)));
        drop((custody.session(), custody.owner(), custody.token().to_string()));
        let _ = (custody.token().next_epoch(), custody.token().next_generation());
    }
}

pub(super) fn handoff(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 5 {
        0 => drop(one_encoding::<Offer>(bytes).map(|offer| offer.scope.digest())),
        1 => drop(one_encoding::<Accept>(bytes)),
        2 => drop(one_encoding::<Manifest>(bytes)),
        3 => drop(one_encoding::<CommitAck>(bytes)),
        _ => drop(one_encoding::<Activated>(bytes)),
    }
}

pub(super) fn member_entry(bytes: &[u8]) {
    one_encoding::<MemberEntry>(bytes);
}

/// Nobody but the administrator writes: whatever is accepted, every entry of it is one that was signed.
pub(super) fn membership_log(bytes: &[u8]) {
    let Ok(entries) = decode::<Vec<Signed<MemberEntry>>>(bytes) else { return };
    let Ok(mut log) = MembershipLog::from_entries(&entries) else { return };
    let honest: BTreeSet<_> = seeds::membership().iter().map(encode).collect();
    assert!(entries.iter().all(|entry| honest.contains(&encode(entry))), "an entry that nobody signed was taken");
    assert_eq!(log.extend(&entries), Ok(0), "what is there already is taken again");
    // An entry may be told twice; it is taken once.
    assert!(log.length() <= entries.len() as u64);
    let again = MembershipLog::from_entries(log.entries());
    assert_eq!(again.as_ref(), Ok(&log), "read again it is another log");
}

pub(super) fn catalog(bytes: &[u8]) {
    let Ok(catalog) = Catalog::from_bytes(bytes) else { return };
    assert_eq!(catalog.to_bytes(), bytes);
    is_ordered(&catalog.entries, &catalog.distinct_chunks());
    for entry in &catalog.entries {
        words::stays_below(entry.path.as_bytes());
    }
}

/// Each path once, in order; each chunk once.
pub(super) fn is_ordered(entries: &[Entry], distinct: &[ChunkRef]) {
    assert!(entries.windows(2).all(|two| (two[0].place, &two[0].path) < (two[1].place, &two[1].path)));
    assert_eq!(distinct.iter().map(|chunk| chunk.id).collect::<BTreeSet<ChunkId>>().len(), distinct.len());
}
