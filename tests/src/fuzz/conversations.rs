//! What coding agents write while somebody reads along, and what they print while they do a task.

use std::cell::OnceCell;
use std::io::Read;
use std::path::{Path, PathBuf};

use cede_agent::adapter::{Conversation, claude_code, codex, opencode};
use cede_agent::turns;
use cede_wire::canonical::encode;
use cede_wire::control::terminal::TerminalEvent;
use cede_wire::control::{Reply, ReplyBody};
use cede_wire::conversation::{Bookmark, Gap, Piece, Said};
use cede_wire::limits::{FRAME_BODY_BYTES, SAID_AT_ONCE, TASK_ANSWER_BYTES, TASK_LINE_CHARS};
use cede_wire::session::NativeId;
use rusqlite::{Connection, params};

use super::agents::SCHEMA;
use super::journal::scratch;
use super::words::is_plain;

const BEGINNING: Bookmark = Bookmark { at: 0, before: 0 };

/// A file and a database of this thread.
struct Place {
    rows: PathBuf,
    database: PathBuf,
    connection: Connection,
    _directory: tempfile::TempDir,
}

thread_local! {
    static PLACE: OnceCell<Place> = const { OnceCell::new() };
}

fn place() -> Place {
    let directory = scratch();
    let (rows, database) = (directory.path().join("rows"), directory.path().join("opencode.db"));
    let connection = Connection::open(&database).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection.execute_batch("pragma foreign_keys = off; pragma synchronous = off; pragma journal_mode = off").unwrap();
    Place { rows, database, connection, _directory: directory }
}

fn with_place(run: impl FnOnce(&Place)) {
    PLACE.with(|cell| run(cell.get_or_init(place)));
}

/// Reads on from a bookmark to the end: everything that was said, and where the reader is then.
fn rest(conversation: &mut Conversation, mut at: Bookmark) -> (Vec<Said>, Bookmark) {
    let mut said = Vec::new();
    loop {
        let piece = conversation.said(Some(at)).unwrap();
        assert_eq!(piece.gap, None, "something is missing behind {at:?}");
        is_sound(&piece);
        assert_eq!(conversation.said(Some(at)).as_ref(), Ok(&piece), "read twice it is another piece");
        assert!(piece.next.at >= at.at, "a reader was sent back");
        if piece.next == at {
            assert_eq!(piece.said, [], "what was said has no end");
            return (said, at);
        }
        said.extend(piece.said);
        at = piece.next;
    }
}

/// It keeps to its bounds, travels in one frame, and is shown without a character that acts.
fn is_sound(piece: &Piece) {
    assert!(piece.fits(), "{} things at once", piece.said.len());
    assert!(encode(piece).len() <= FRAME_BODY_BYTES);
    let body = ReplyBody::Terminal(TerminalEvent::Piece(piece.clone()));
    let line = serde_json::to_vec(&Reply::new(body)).unwrap();
    let shown = cede_cli::decoders::shown(&line, 0).expect("a piece is an answer");
    assert!(shown.lines().all(is_plain), "{shown:?}");
    let headings = shown.lines().filter(|line| !line.starts_with("  ") && !line.starts_with('↪')).count();
    assert!(headings <= 2 * (piece.said.len() + 1), "words made a heading of their own: {shown:?}");
}

/// One who comes without a bookmark sees the end of what one saw who was there from the beginning.
fn ends_alike(conversation: &mut Conversation, from: Option<Bookmark>, whole: &[Said], end: Bookmark) {
    let tail = conversation.said(from).unwrap();
    is_sound(&tail);
    assert!(whole.ends_with(&tail.said), "the end is another one: {tail:?}");
    assert!(tail.said.len() == whole.len().min(SAID_AT_ONCE), "{} of {}", tail.said.len(), whole.len());
    assert_eq!(tail.next, end);
    match from {
        None => assert!(tail.gap == Some(Gap::Earlier) || tail.said.len() == whole.len(), "{:?}", tail.gap),
        Some(from) => assert_eq!(tail.gap, Some(Gap::Rewritten), "{from:?} is no bookmark of this"),
    }
}

/// The first byte says whose rows they are, the next two where the file ended when a reader came first. What the reader
/// hears then and later, however the file grew, is what one hears who comes when it is whole; nothing twice, and nothing of
/// a record that is not finished.
pub(super) fn rows(bytes: &[u8]) {
    let Some(([agent, cut @ ..], rows)) = bytes.split_first_chunk::<3>() else { return };
    let of: fn(&Path) -> Conversation =
        if agent % 2 == 0 { codex::decoder::conversation } else { claude_code::decoder::conversation };
    let cut = usize::from(u16::from_le_bytes(*cut)).min(rows.len());
    with_place(|place| {
        let mut conversation = of(&place.rows);
        std::fs::write(&place.rows, &rows[..cut]).unwrap();
        let (mut heard, at) = rest(&mut conversation, BEGINNING);
        let finished = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last as u64 + 1);
        assert_eq!(at.at, finished(&rows[..cut]), "read up to the last finished record");
        std::fs::write(&place.rows, rows).unwrap();
        let (later, end) = rest(&mut conversation, at);
        heard.extend(later);
        let (whole, whole_end) = rest(&mut of(&place.rows), BEGINNING);
        assert_eq!((end, end.at), (whole_end, finished(rows)));
        assert_eq!(heard, whole, "one who came early heard something else");
        ends_alike(&mut conversation, None, &whole, end);
        let foreign = Bookmark { at: end.at / 2 + 1, before: end.before ^ 1 };
        ends_alike(&mut conversation, Some(foreign), &whole, end);
        ends_alike(&mut conversation, Some(Bookmark { at: u64::MAX, before: 0 }), &whole, end);
    });
}

const SESSION: &str = "ses_read";

/// Messages and their parts, a zero between them: `message`, `part`, `message`, … Each message has one part. A reader who
/// comes after each of them hears what one hears who comes at the end.
pub(super) fn parts(bytes: &[u8]) {
    let texts: Vec<&[u8]> = bytes.split(|byte| *byte == 0).take(2 * MESSAGES).collect();
    with_place(|place| {
        let empty = "begin; delete from part; delete from message; delete from session";
        place.connection.execute_batch(empty).unwrap();
        let row = "insert into session (id, project_id, slug, directory, title, version, time_created, time_updated)
            values (?1, 'p', 's', '/w', 't', '1', 1, 2)";
        place.connection.execute(row, [SESSION]).unwrap();
        place.connection.execute_batch("commit").unwrap();
        let native = NativeId::parse(SESSION).unwrap();
        let of = || opencode::decoder::conversation(&place.database, &native);
        let (mut conversation, mut heard, mut at) = (of(), Vec::new(), BEGINNING);
        for (number, pair) in texts.chunks(2).enumerate() {
            write(place, number, pair[0], pair.get(1).copied().unwrap_or_default());
            let (more, next) = rest(&mut conversation, at);
            heard.extend(more);
            at = next;
        }
        let (whole, end) = rest(&mut of(), BEGINNING);
        assert_eq!((&heard, at), (&whole, end), "one who came early heard something else");
        ends_alike(&mut of(), None, &whole, end);
        if end.at > 0 {
            ends_alike(&mut of(), Some(Bookmark { before: end.before ^ 1, ..end }), &whole, end);
        }
    });
}

const MESSAGES: usize = 8;

fn write(place: &Place, number: usize, message: &[u8], part: &[u8]) {
    let (id, at) = (format!("msg_{number}"), number as i64);
    let (message, part) = (String::from_utf8_lossy(message), String::from_utf8_lossy(part));
    place.connection.execute_batch("begin").unwrap();
    let row = "insert into message (id, session_id, time_created, time_updated, data) values (?1, ?2, ?3, ?3, ?4)";
    place.connection.execute(row, params![id, SESSION, at, message]).unwrap();
    let row = "insert into part (id, message_id, session_id, time_created, time_updated, data) values (?1, ?2, ?3, ?4, ?4, ?5)";
    place.connection.execute(row, params![format!("prt_{number}"), id, SESSION, at, part]).unwrap();
    place.connection.execute_batch("commit").unwrap();
}

/// However the pipe cuts it: the answer, the lines of progress and the reason of a failure keep to their bounds, and what is
/// said of the turn is the same.
pub(super) fn output(bytes: &[u8]) {
    let (ended, lines) = turns::decoder::heard(bytes).unwrap();
    assert_eq!(ended.output_bytes, bytes.len() as u64);
    assert!(ended.answer.len() <= TASK_ANSWER_BYTES && is_plain(&ended.complaint), "{ended:?}");
    for line in &lines {
        let fits = line.chars().count() <= TASK_LINE_CHARS && !line.contains('\n') && !line.trim().is_empty();
        assert!(fits, "no line of progress: {line:?}");
    }
    let (before, after) = bytes.split_at(bytes.len() / 2);
    let (cut, cut_lines) = turns::decoder::heard(before.chain(after)).unwrap();
    assert_eq!((&cut, &cut_lines), (&ended, &lines), "cut in the middle it says something else");
    let more = [bytes, b"\n{\"type\":\"nothing\"}\n"].concat();
    let (more, _) = turns::decoder::heard(&more[..]).unwrap();
    assert_eq!((&more.answer, &more.complaint, more.worked), (&ended.answer, &ended.complaint, ended.worked));
}
