//! What the agents' programs wrote, and files that a peer says they wrote.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use cede_agent::adapter::limits::{CLOSURE_FILES, TITLE_CHARS};
use cede_agent::adapter::{claude_code, codex, opencode};
use cede_wire::canonical::{decode, encode};
use cede_wire::session::{NativeId, SessionInfo};
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::journal::{is_one_of, scratch};

fn is_title(title: &str) -> bool {
    title.chars().count() <= TITLE_CHARS && !title.chars().any(char::is_control)
}

/// Lines that were added later do not change what the earlier ones said, and a look at both ends sees no more than all.
pub(super) fn codex(bytes: &[u8]) {
    let told = codex::decoder::read(bytes, None);
    assert!(is_title(&told.title), "{:?}", told.title);
    assert!(told.dangling <= CLOSURE_FILES);
    assert!(told.turns <= bytes.len() as u64);
    assert_eq!(codex::decoder::read(bytes, Some(u64::MAX / 4)), told);
    let ends = codex::decoder::read(bytes, Some(bytes.len() as u64 / 4));
    assert!(ends.turns <= told.turns && ends.id == told.id, "{ends:?} of {told:?}");
    let more = codex::decoder::read(&[bytes, b"\n{\"type\":\"nothing\"}\n"].concat(), None);
    assert_eq!((more.turns, more.title), (told.turns, told.title));
}

/// The same for Claude Code.
pub(super) fn claude(bytes: &[u8]) {
    let told = claude_code::decoder::read(bytes, None);
    assert!(is_title(&told.title), "{:?}", told.title);
    assert!(told.dangling <= CLOSURE_FILES);
    assert!(told.turns <= told.rows && told.rows <= bytes.len() as u64);
    let ends = claude_code::decoder::read(bytes, Some(bytes.len() as u64 / 4));
    assert!(ends.turns <= told.turns, "{ends:?} of {told:?}");
    let more = claude_code::decoder::read(&[bytes, b"\n{\"type\":\"nothing\"}\n"].concat(), None);
    assert_eq!((more.turns, more.title), (told.turns, told.title));
}

/// Directories and a database of this thread.
struct Place {
    directory: tempfile::TempDir,
    database: PathBuf,
    connection: Connection,
}

thread_local! {
    static PLACE: OnceCell<Place> = const { OnceCell::new() };
}

pub(super) const SCHEMA: &str = include_str!("../../../crates/agent/src/adapter/recorded/opencode/schema.sql");

fn place() -> Place {
    let directory = scratch();
    let database = directory.path().join("opencode.db");
    let connection = Connection::open(&database).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection.execute_batch("pragma foreign_keys = off; pragma synchronous = off;").unwrap();
    for part in ["one", "two", "three"] {
        std::fs::create_dir(directory.path().join(part)).unwrap();
    }
    Place { directory, database, connection }
}

fn with_place(run: impl FnOnce(&Place)) {
    PLACE.with(|cell| run(cell.get_or_init(place)));
}

/// An export that is taken apart and put together is the same when it is taken apart again.
pub(super) fn opencode_export(bytes: &[u8]) {
    with_place(|place| {
        let at = |name: &str| place.directory.path().join(name);
        std::fs::write(at("export"), bytes).unwrap();
        let Ok(turns) = opencode::decoder::take_apart(&at("export"), &at("one")) else { return };
        same_again(place, turns);
    });
}

fn same_again(place: &Place, turns: u64) {
    let at = |name: &str| place.directory.path().join(name);
    opencode::decoder::put_together(&at("one"), &at("import")).unwrap();
    assert_eq!(opencode::decoder::take_apart(&at("import"), &at("two")), Ok(turns));
    for part in ["info.json", "messages.jsonl"] {
        let read = |place: &Path| std::fs::read(place.join(part)).unwrap();
        assert_eq!(read(&at("one")), read(&at("two")), "{part}");
    }
    let lines = std::fs::read(at("one").join("messages.jsonl")).unwrap();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() as u64;
    assert!(turns <= lines, "{turns} turns in {lines} messages");
}

/// What was checked of an arrival is what OpenCode is then given to import. The first line is the session's row, the
/// others its messages.
pub(super) fn opencode_arrival(bytes: &[u8]) {
    with_place(|place| {
        let at = |name: &str| place.directory.path().join(name);
        let cut = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        std::fs::write(at("three/info.json"), &bytes[..cut]).unwrap();
        std::fs::write(at("three/messages.jsonl"), &bytes[cut..]).unwrap();
        let Ok(checked) = opencode::decoder::arrived(&at("three")) else { return };
        opencode::decoder::put_together(&at("three"), &at("import")).unwrap();
        // Numbers out of range and deep nesting pass the check and are no JSON to us; then nothing can be compared.
        if opencode::decoder::take_apart(&at("import"), &at("two")).is_ok() {
            assert_eq!(opencode::decoder::arrived(&at("two")), Ok(checked), "another session than the checked one");
        }
    });
}

const GOOD: &str = "ses_good";

/// Values of any type, as a database that somebody wrote to may hold them anywhere.
fn values(bytes: &[u8]) -> Vec<Value> {
    let value = |part: &[u8]| match part.split_first() {
        None => Value::Text(String::new()),
        Some((b'#', rest)) => Value::Integer(String::from_utf8_lossy(rest).parse().unwrap_or(rest.len() as i64)),
        Some((b'~', rest)) => Value::Real(String::from_utf8_lossy(rest).parse().unwrap_or(0.5)),
        Some((b'^', rest)) => Value::Blob(rest.to_vec()),
        Some(_) => Value::Text(String::from_utf8_lossy(part).into_owned()),
    };
    bytes.split(|byte| *byte == 0).map(value).collect()
}

/// Rows that somebody spoiled hide no session beside them, and make no statement of a fence their own.
pub(super) fn opencode_rows(bytes: &[u8]) {
    with_place(|place| {
        let values = values(bytes);
        write(place, &values).unwrap();
        let native = NativeId::parse(GOOD).unwrap();
        let listed =
            opencode::decoder::listed(&place.database).unwrap_or_else(|error| panic!("nothing is listed: {error}"));
        assert!(listed.iter().any(|session| session.key.native == native), "the good session is gone: {listed:?}");
        for session in &listed {
            assert!(is_title(&session.title), "{:?}", session.title);
            assert_eq!(decode::<SessionInfo>(&encode(session)).as_ref(), Ok(session));
            let _ = opencode::decoder::provider(&place.database, &session.key.native).unwrap();
        }
        if is_one_of(16, bytes) {
            fence(place, &native);
        }
    });
}

fn write(place: &Place, values: &[Value]) -> rusqlite::Result<()> {
    let value = |at: usize| values.get(at).cloned().unwrap_or(Value::Null);
    let run = |text: &str, values: &[Value]| place.connection.execute(text, rusqlite::params_from_iter(values));
    place.connection.execute_batch(
        "begin; delete from part; delete from message; delete from session;
         insert into session (id, project_id, slug, directory, title, version, time_created, time_updated)
             values ('ses_good', 'p', 's', '/w', 'good', '1', 1, 2);
         insert into message values ('msg_1', 'ses_good', 1, 1, '{\"role\":\"user\"}');",
    )?;
    // What a column does not take is no row; the constraints are OpenCode's own.
    drop(run(
        "insert or ignore into session (id, project_id, slug, parent_id, directory, title, version, time_created, time_updated)
             values (?1, 'p', 's', ?2, ?3, ?4, ?5, 1, ?6)",
        &[value(0), value(1), value(2), value(3), value(4), value(5)],
    ));
    drop(run("insert or ignore into message values (?1, ?2, ?3, 1, ?4)", &[value(6), value(0), value(7), value(8)]));
    drop(run("insert or ignore into part values (?1, ?2, ?3, 1, 1, ?4)", &[value(9), value(6), value(0), value(10)]));
    place.connection.execute_batch("commit")
}

fn fence(place: &Place, native: &NativeId) {
    let schema =
        || -> i64 { place.connection.query_row("select count(*) from sqlite_master", [], |row| row.get(0)).unwrap() };
    let before = schema();
    opencode::decoder::fence(&place.database, native, "it's gone; type: cede take").unwrap();
    assert_eq!(schema(), before + 2, "a fence is two triggers");
    let row = "insert into message values ('msg_2', ?1, 2, 2, '{}')";
    assert!(place.connection.execute(row, params![native.as_str()]).is_err(), "the fence lets a message through");
    opencode::decoder::lift(&place.database, native).unwrap();
    assert_eq!(schema(), before, "something of the fence is left");
    let kept: i64 =
        place.connection.query_row("select count(*) from message where id = 'msg_1'", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 1, "a message is gone");
}
