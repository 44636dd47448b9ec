//! The journal: a file that a crash, a disk or a person left in any state.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use cede_store::home::Home;
use cede_store::journal::{Condition, Journal, JournalError, Replay, decoder};
use cede_wire::record::Record;

use super::seeds;

/// A data directory of this thread, in memory where that is possible, and a file of its own.
struct Place {
    home: Home,
    file: File,
    log: PathBuf,
    _directory: tempfile::TempDir,
}

thread_local! {
    static PLACE: OnceCell<Place> = const { OnceCell::new() };
}

/// A directory that costs no disk.
pub(super) fn scratch() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).unwrap()
}

fn place() -> Place {
    let directory = scratch();
    let home = Home::open(&directory.path().join("state")).unwrap();
    drop(Journal::open(&home).unwrap());
    let file = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(directory.path().join("alone"))
        .unwrap();
    Place { log: directory.path().join("state/journal/log"), home, file, _directory: directory }
}

/// Reads a journal of these bytes.
fn read(bytes: &[u8]) -> Result<(Vec<Record>, Condition, bool), JournalError> {
    PLACE.with(|cell| {
        let file = &cell.get_or_init(place).file;
        file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).unwrap();
        decoder::read(file)
    })
}

/// Opens a journal of these bytes, and looks at the file afterwards.
fn open(bytes: &[u8]) -> (Result<Replay, JournalError>, Vec<u8>, Result<Replay, JournalError>) {
    PLACE.with(|cell| {
        let place = cell.get_or_init(place);
        std::fs::write(&place.log, bytes).unwrap();
        let open = || Journal::open(&place.home).map(|(_, replay)| replay);
        let first = open();
        let left = std::fs::read(&place.log).unwrap();
        (first, left, open())
    })
}

/// What is read was written, in a row from the beginning; what is not whole is told. Some are opened too: one that is
/// damaged or newer is left as it is.
pub(super) fn file(bytes: &[u8]) {
    let read = read(bytes);
    if let Ok((records, _, closed)) = &read {
        let honest = seeds::journal_records();
        assert!(records.iter().all(|record| honest.contains(&record.to_bytes())), "a record that nobody wrote");
        assert!(!closed || matches!(read, Ok((_, Condition::Clean, _))), "closed in order, but not clean");
    }
    if is_one_of(64, bytes) {
        opened(bytes, &read);
    }
}

/// True for one input of so many, the same whenever it comes.
pub(super) fn is_one_of(many: u8, bytes: &[u8]) -> bool {
    blake3::hash(bytes).as_bytes()[0].is_multiple_of(many)
}

fn opened(bytes: &[u8], read: &Result<(Vec<Record>, Condition, bool), JournalError>) {
    let (first, left, second) = open(bytes);
    let told = first.as_ref().map(|replay| (replay.records.clone(), replay.condition, replay.closed));
    assert_eq!(told, read.as_ref().cloned(), "opening and reading differ");
    match first {
        Ok(replay) => {
            let damaged = matches!(replay.condition, Condition::Damaged { .. });
            assert!(!damaged || left == bytes, "a damaged journal was changed");
            let again = second.unwrap();
            assert_eq!(again.records, replay.records, "opened again it holds something else");
            assert!(!matches!(again.condition, Condition::TornTail { .. }), "what was cut is torn again");
        }
        Err(error) => {
            assert_eq!(left, bytes, "{error}: the file was changed");
            assert_eq!(second, Err(error));
        }
    }
}

/// Bodies of records, each after its length, in a group that is sealed as it should be: all of them are read, or the one
/// that cannot be is named and nothing is.
pub(super) fn records(bytes: &[u8]) {
    let mut bodies = Vec::new();
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (body, after) = after.split_at(usize::from(u16::from_le_bytes(*length)).min(after.len()));
        bodies.push(body.to_vec());
        rest = after;
    }
    let sound: Result<Vec<Record>, ()> = bodies.iter().map(|body| Record::from_bytes(body).map_err(drop)).collect();
    match (sound, read(&seeds::journal_of(&bodies))) {
        (Ok(records), Ok(read)) => {
            let closed = records.is_empty();
            assert_eq!(read, (records, Condition::Clean, closed));
        }
        (Err(()), Err(JournalError::NewerRecord { kind, offset })) => {
            let known = bodies.iter().any(|body| seeds::kind_of(body) == kind && Record::from_bytes(body).is_err());
            assert!(known && offset == 96, "kind {kind} at {offset} is not the bad one");
        }
        (sound, opened) => panic!("{sound:?}, but {opened:?}"),
    }
}

/// The canonical bytes of every record that the vectors hold.
pub(super) fn known(vectors: &serde_json::Value) -> BTreeSet<Vec<u8>> {
    let records = vectors.as_array().unwrap().iter().filter_map(|vector| vector["records"].as_array());
    records.flatten().map(|record| seeds::unhex(record.as_str().unwrap())).collect()
}
