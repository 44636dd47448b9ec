//! What was said in a session, read from the agent's own store as it grows.
//!
//! One contract: **what was finished once is told once, in its order**, or it is said that something is missing. Only what
//! the store holds as finished is told: a line with its line feed, a part with its end. Reading changes nothing, and each
//! call reads a bounded part.

use std::fs::File;
use std::io::{BufReader, Read, Result, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cede_wire::conversation::{Bookmark, Gap, Piece, Said, Voice};
use cede_wire::limits::{SAID_AT_ONCE, TERMINAL_OUTPUT_BYTES};

use crate::adapter::limits::{
    BEHIND_BYTES, BOOKMARK_BYTES, READ_AT_ONCE_BYTES, RECORD_BYTES, SAID_PER_RECORD, TAIL_BYTES,
};
use crate::adapter::lines::{self, Line};
use crate::adapter::{AgentError, durable};

/// Where a conversation is read.
#[derive(Debug)]
pub struct Conversation(Source);

#[derive(Debug)]
enum Source {
    Rows(Rows),
    Parts(super::opencode::Parts),
}

/// A file of records, one a line.
#[derive(Debug)]
pub(super) struct Rows {
    /// Where the agent looks.
    pub(super) place: PathBuf,
    /// Where the bytes are: not there while a fence stands.
    pub(super) real: fn(&Path) -> core::result::Result<PathBuf, AgentError>,
    /// What a record says.
    pub(super) speak: fn(&Line) -> Vec<Said>,
}

impl Conversation {
    pub(super) fn rows(rows: Rows) -> Self {
        Self(Source::Rows(rows))
    }

    pub(super) fn parts(parts: super::opencode::Parts) -> Self {
        Self(Source::Parts(parts))
    }

    /// What was said since the bookmark; without one, the end of it. A piece without words whose bookmark is the same: there
    /// is nothing more for now. Blocks.
    ///
    /// # Errors
    /// [`AgentError`]; the next call may have it.
    pub fn said(&mut self, from: Option<Bookmark>) -> core::result::Result<Piece, AgentError> {
        match &mut self.0 {
            Source::Rows(rows) => {
                let file = (rows.real)(&rows.place)?;
                said(&file, from, rows.speak).map_err(|error| durable::world("read", &file, &error))
            }
            Source::Parts(parts) => parts.said(from),
        }
    }
}

/// The bookmark of somebody who has read nothing.
pub(super) const BEGINNING: Bookmark = Bookmark { at: 0, before: 0 };

/// A mark of what stands before a place.
pub(super) fn mark(before: &[u8]) -> u64 {
    let hash = blake3::hash(before);
    let mut short = [0; 8];
    short.copy_from_slice(&hash.as_bytes()[..8]);
    if before.is_empty() { 0 } else { u64::from_le_bytes(short) }
}

fn said(path: &Path, from: Option<Bookmark>, speak: fn(&Line) -> Vec<Said>) -> Result<Piece> {
    let file = File::open(path)?;
    let end = file.metadata()?.len();
    let gap = match from {
        None => None,
        Some(from) if from.at > end || bookmark(&file, from.at)? != from => Some(Gap::Rewritten),
        Some(from) if end - from.at > BEHIND_BYTES => Some(Gap::Behind),
        Some(from) => return forth(&file, from.at, end, speak),
    };
    tail(&file, end, gap, speak)
}

fn bookmark(file: &File, at: u64) -> Result<Bookmark> {
    let length = at.min(BOOKMARK_BYTES);
    let mut before = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut before, at - length)?;
    Ok(Bookmark { at, before: mark(&before) })
}

/// The records from a place on, until there is enough for a piece.
fn forth(file: &File, start: u64, end: u64, speak: fn(&Line) -> Vec<Said>) -> Result<Piece> {
    let mut records = Records::at(file, start, end)?;
    let mut piece = Piece { gap: None, said: Vec::new(), next: BEGINNING };
    let mut at = start;
    while piece.weight() < TERMINAL_OUTPUT_BYTES as u64 && at - start < READ_AT_ONCE_BYTES {
        let Some(line) = records.next()? else { break };
        let said = few(speak(&line));
        if piece.said.len() + said.len() > SAID_AT_ONCE {
            break;
        }
        piece.said.extend(said);
        at += line.length;
    }
    piece.next = bookmark(file, at)?;
    Ok(piece)
}

/// The last things that were said.
fn tail(file: &File, end: u64, gap: Option<Gap>, speak: fn(&Line) -> Vec<Said>) -> Result<Piece> {
    let (mut records, start) = last(file, end)?;
    let mut at = start;
    let mut said = Vec::new();
    while let Some(line) = records.next()? {
        said.extend(few(speak(&line)));
        at += line.length;
        let over = said.len().saturating_sub(SAID_AT_ONCE);
        said.drain(..over);
    }
    let earlier = start > 0 || said.len() == SAID_AT_ONCE;
    Ok(Piece { gap: gap.or(earlier.then_some(Gap::Earlier)), said, next: bookmark(file, at)? })
}

/// The last records, and where the first of them begins. One that is not finished yet may be longer than what is looked at:
/// whoever begins in its middle would never be told of it.
fn last(file: &File, end: u64) -> Result<(Records<'_>, u64)> {
    let mut reach = TAIL_BYTES;
    loop {
        let start = end.saturating_sub(reach);
        let mut records = Records::at(file, start, end)?;
        let cut = if start > 0 { records.next()?.map(|line| line.length) } else { Some(0) };
        match cut {
            Some(cut) => return Ok((records, start + cut)),
            None if reach < BEHIND_BYTES => reach *= 8,
            None => return Ok((records, end)),
        }
    }
}

/// Records that are whole.
struct Records<'a> {
    file: &'a File,
    reader: BufReader<std::io::Take<&'a File>>,
    at: u64,
}

impl<'a> Records<'a> {
    fn at(mut file: &'a File, at: u64, end: u64) -> Result<Self> {
        file.seek(SeekFrom::Start(at))?;
        let reader = BufReader::with_capacity(64 << 10, file.take(end.saturating_sub(at)));
        Ok(Self { file, reader, at })
    }

    /// None: the rest is no whole record yet.
    fn next(&mut self) -> Result<Option<Line>> {
        let Some(line) = lines::next(&mut self.reader, RECORD_BYTES)? else { return Ok(None) };
        self.at += line.length;
        let mut last = [0];
        self.file.read_exact_at(&mut last, self.at - 1)?;
        Ok((last == *b"\n").then_some(line))
    }
}

/// What one record says, within bounds.
pub(super) fn few(mut said: Vec<Said>) -> Vec<Said> {
    let over = said.len().saturating_sub(SAID_PER_RECORD);
    if over > 0 {
        said.truncate(SAID_PER_RECORD - 1);
        said.push(Said::new(Voice::Remark, &format!("{} more are not shown", over + 1)));
    }
    said
}

/// A call of a tool: its name, and on the lines below what it is given.
pub(super) fn call(name: &str, given: &serde_json::Value) -> Said {
    let command = ["command", "cmd"].iter().find_map(|field| given.get(field)?.as_str());
    let given = match (command, given) {
        (Some(command), _) => command.to_owned(),
        (None, serde_json::Value::String(text)) => text.clone(),
        (None, serde_json::Value::Null) => String::new(),
        (None, other) => other.to_string(),
    };
    Said::new(Voice::Call, &format!("{name}\n{given}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speak(line: &Line) -> Vec<Said> {
        let text = String::from_utf8_lossy(&line.head);
        text.split(',').filter(|word| !word.is_empty()).map(|word| Said::new(Voice::Agent, word)).collect()
    }

    fn words(piece: &Piece) -> Vec<&str> {
        piece.said.iter().map(|said| said.text.as_str()).collect()
    }

    struct Store(tempfile::TempDir);

    impl Store {
        fn new(text: &str) -> Self {
            let store = Self(tempfile::tempdir().unwrap());
            store.write(text);
            store
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("rows")
        }

        fn write(&self, text: &str) {
            std::fs::write(self.path(), text).unwrap();
        }

        fn append(&self, text: &str) {
            self.write(&format!("{}{text}", std::fs::read_to_string(self.path()).unwrap()));
        }

        fn said(&self, from: Option<Bookmark>) -> Piece {
            said(&self.path(), from, speak).unwrap()
        }
    }

    /// Shows: D-12, D-13
    #[test]
    fn what_is_finished_is_told_once_and_what_is_not_is_not() {
        let store = Store::new("a,b\nc\nunfin");
        let first = store.said(None);
        assert_eq!((words(&first), first.gap), (vec!["a", "b", "c"], None));
        let nothing = store.said(Some(first.next));
        assert_eq!((nothing.said.len(), nothing.next), (0, first.next));
        store.append("ished\nd\n");
        let second = store.said(Some(first.next));
        assert_eq!((words(&second), second.gap), (vec!["unfinished", "d"], None));
        assert!(store.said(Some(second.next)).said.is_empty());
        assert_eq!(words(&store.said(Some(BEGINNING))), ["a", "b", "c", "unfinished", "d"]);
    }

    /// Shows: D-13
    #[test]
    fn bookmark_of_another_conversation_is_noticed() {
        let store = Store::new("a\nb\nc\n");
        let read = store.said(None).next;
        store.write("a\nX\nc\nd\n");
        let other = store.said(Some(read));
        assert_eq!((words(&other), other.gap), (vec!["a", "X", "c", "d"], Some(Gap::Rewritten)));
        store.write("a\n");
        assert_eq!(store.said(Some(read)).gap, Some(Gap::Rewritten), "shorter");
        assert_eq!(store.said(Some(Bookmark { at: u64::MAX, before: 7 })).gap, Some(Gap::Rewritten));
    }

    /// Shows: D-13
    #[test]
    fn long_conversation_is_told_from_near_its_end_and_that_is_said() {
        let rows: String = (0..200_000).map(|n| format!("word {n}\n")).collect();
        let store = Store::new(&rows);
        let piece = store.said(None);
        assert_eq!((piece.said.len(), piece.gap), (SAID_AT_ONCE, Some(Gap::Earlier)));
        assert_eq!(words(&piece).last(), Some(&"word 199999"));
        assert!(store.said(Some(piece.next)).said.is_empty());
    }

    /// Shows: D-13
    #[test]
    fn one_who_comes_back_gets_everything_in_bounded_pieces() {
        let store = Store::new("first\n");
        let mut read = store.said(None).next;
        let rows: String = (0..1_000).map(|n| format!("{n} {}\n", "x".repeat(n % 90))).collect();
        store.append(&rows);
        let mut seen = Vec::new();
        loop {
            let piece = store.said(Some(read));
            assert!(piece.fits() && piece.gap.is_none());
            if piece.next == read {
                break;
            }
            read = piece.next;
            seen.extend(piece.said.into_iter().map(|said| said.text.split(' ').next().unwrap().to_owned()));
        }
        assert_eq!(seen, (0..1_000).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    /// Shows: D-13
    #[test]
    fn long_record_that_was_not_finished_when_somebody_came_is_told_later() {
        let store = Store::new(&format!("first\nnext {}", "x".repeat(3 * TAIL_BYTES as usize / 2)));
        let first = store.said(None);
        assert_eq!(words(&first), ["first"]);
        store.append("\nlast\n");
        let second = store.said(Some(first.next));
        assert_eq!((second.gap, second.said.len()), (None, 2));
        assert!(words(&second)[0].starts_with("next "), "it is told as what it is");
    }

    /// Shows: D-13
    #[test]
    fn one_who_is_far_behind_is_told_that_the_middle_is_left_out() {
        let store = Store::new("first\n");
        let read = store.said(None).next;
        store.append(&format!("{}\nlast\n", "x".repeat(BEHIND_BYTES as usize)));
        let piece = store.said(Some(read));
        assert_eq!(piece.gap, Some(Gap::Behind));
        assert_eq!(words(&piece), ["last"]);
    }

    #[test]
    fn record_that_says_very_much_is_cut_and_that_is_said() {
        let store = Store::new(&format!("{}\n", "w,".repeat(500)));
        let piece = store.said(Some(BEGINNING));
        assert_eq!(piece.said.len(), SAID_PER_RECORD);
        assert_eq!(words(&piece).last(), Some(&"493 more are not shown"));
    }
}
