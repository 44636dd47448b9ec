//! `proto/vectors/journal.json`, run both ways.

use std::fs;
use std::io::Write;

use cede_wire::record::Record;
use serde_json::Value;

use super::frame::{Batch, FileHeader, GroupHeader};
use super::replay::scan;
use super::{Condition, JournalError};

#[test]
fn journal_vectors_are_met() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/vectors/journal.json");
    let vectors: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert!(vectors.len() >= 8);
    for vector in vectors {
        let name = text(vector, "name");
        let file = unhex(text(vector, "hex"));
        if text(vector, "kind") == "good" {
            assert_eq!(hex(&encode(vector)), hex(&file), "{name}: written");
        }
        assert_eq!(outcome(&file), (text(vector, "outcome").to_owned(), records(vector)), "{name}: read");
    }
}

fn encode(vector: &Value) -> Vec<u8> {
    let array = |name| unhex(text(vector, name)).try_into().unwrap();
    let header = FileHeader { salt: array("salt"), before: array("before") };
    let mut file = header.to_bytes().to_vec();
    let mut chain = header.chain();
    for (number, group) in (1..).zip(vector["groups"].as_array().unwrap()) {
        let records: Vec<_> = group.as_array().unwrap().iter().map(record).collect();
        let batch = Batch::of(&records);
        let group = GroupHeader::of(&header.key(), &chain, number, batch.records, &batch.bytes);
        file.extend_from_slice(&group.to_bytes(&header.key()));
        file.extend_from_slice(&batch.bytes);
        chain = group.chain;
    }
    file
}

fn outcome(bytes: &[u8]) -> (String, Vec<Record>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    match scan(&file) {
        Ok(scan) => {
            let condition = match scan.condition {
                Condition::Clean if scan.closed => "closed".to_owned(),
                Condition::Clean => "clean".to_owned(),
                Condition::TornTail { bytes } => format!("torn {bytes}"),
                Condition::Damaged { offset } => format!("damaged {offset}"),
            };
            (condition, scan.records)
        }
        Err(JournalError::NewerFormat { found, .. }) => (format!("newer format {found}"), vec![]),
        Err(JournalError::NewerRecord { kind, .. }) => (format!("newer kind {kind}"), vec![]),
        Err(error) => panic!("{error:?}"),
    }
}

fn records(vector: &Value) -> Vec<Record> {
    vector["records"].as_array().unwrap().iter().map(record).collect()
}

fn record(value: &Value) -> Record {
    Record::from_bytes(&unhex(value.as_str().unwrap())).unwrap()
}

fn text<'a>(vector: &'a Value, name: &str) -> &'a str {
    vector[name].as_str().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
