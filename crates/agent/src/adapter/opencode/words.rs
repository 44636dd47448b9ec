//! What the parts of an OpenCode conversation say. A part is told once it has its end: the program changes it until then.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::Value;

use cede_wire::conversation::{Bookmark, Gap, Piece, Said, Voice};
use cede_wire::limits::{SAID_AT_ONCE, TERMINAL_OUTPUT_BYTES};
use cede_wire::session::{AgentKind, NativeId};

use super::database::{Database, Part};
use crate::adapter::AgentError;
use crate::adapter::conversation::{self, BEGINNING};
use crate::adapter::limits::{BEHIND_PARTS, TAIL_PARTS};

/// Where a conversation is read.
#[derive(Debug)]
pub(in crate::adapter) struct Parts {
    pub(super) database: PathBuf,
    pub(super) native: NativeId,
    /// The database as it was when there was nothing more to tell after a bookmark.
    pub(super) still: Option<(Stamp, Bookmark)>,
}

/// Inode, length and last change of the database and its log.
pub(super) type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

impl Parts {
    pub(super) fn new(database: PathBuf, native: NativeId) -> Self {
        Self { database, native, still: None }
    }

    /// What was said since the bookmark.
    pub(in crate::adapter) fn said(&mut self, from: Option<Bookmark>) -> Result<Piece, AgentError> {
        let stamp = self.stamp();
        if let (Some((still, read)), Some(from)) = (&self.still, from)
            && (still, read) == (&stamp, &from)
        {
            return Ok(Piece { gap: None, said: Vec::new(), next: from });
        }
        let unknown = || AgentError::Unknown { agent: AgentKind::OpenCode, native: self.native.clone() };
        let database = Database::open(&self.database)?.ok_or_else(unknown)?;
        let piece = self.read(&database, from)?;
        self.still = (Some(piece.next) == from).then_some((stamp, piece.next));
        Ok(piece)
    }

    fn stamp(&self) -> Stamp {
        let stamp = |meta: Metadata| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        let files = [self.database.clone(), self.database.with_extension("db-wal")];
        files.iter().map(|file| std::fs::metadata(file).ok().map(stamp)).collect()
    }

    fn read(&self, database: &Database, from: Option<Bookmark>) -> Result<Piece, AgentError> {
        let total = database.count_parts(&self.native)?;
        let gap = match from {
            None => None,
            Some(from) if self.bookmark(database, from.at, total)? != Some(from) => Some(Gap::Rewritten),
            Some(from) if total - from.at > BEHIND_PARTS => Some(Gap::Behind),
            Some(from) => return self.from(database, from),
        };
        let start = total.saturating_sub(TAIL_PARTS);
        let begin = Bookmark { at: start, ..BEGINNING };
        let mut piece = self.whole(database, begin)?;
        let over = piece.said.len().saturating_sub(SAID_AT_ONCE);
        piece.said.drain(..over);
        piece.gap = gap.or((start > 0 || over > 0).then_some(Gap::Earlier));
        Ok(piece)
    }

    fn bookmark(&self, database: &Database, at: u64, total: u64) -> Result<Option<Bookmark>, AgentError> {
        if at == 0 || at > total {
            return Ok((at == 0).then_some(BEGINNING));
        }
        let last = database.parts(&self.native, at - 1, 1)?;
        Ok(last.first().map(|part| Bookmark { at, before: conversation::mark(part.id.as_bytes()) }))
    }

    /// As much as a piece holds.
    fn from(&self, database: &Database, from: Bookmark) -> Result<Piece, AgentError> {
        let mut piece = Piece { gap: None, said: Vec::new(), next: from };
        for part in self.finished(database, from)? {
            let said = of(&part);
            if piece.said.len() + said.len() > SAID_AT_ONCE || piece.weight() > TERMINAL_OUTPUT_BYTES as u64 {
                break;
            }
            take(&mut piece, &part, said);
        }
        Ok(piece)
    }

    /// Everything that is finished, of the few last parts.
    fn whole(&self, database: &Database, from: Bookmark) -> Result<Piece, AgentError> {
        let mut piece = Piece { gap: None, said: Vec::new(), next: from };
        for part in self.finished(database, from)? {
            let said = of(&part);
            take(&mut piece, &part, said);
        }
        Ok(piece)
    }

    /// The next parts, up to the first that is not finished.
    fn finished(&self, database: &Database, from: Bookmark) -> Result<impl Iterator<Item = Part> + use<>, AgentError> {
        let parts = database.parts(&self.native, from.at, TAIL_PARTS)?;
        Ok(parts.into_iter().take_while(|part| !part.grows || has_end(&part.data)))
    }
}

fn take(piece: &mut Piece, part: &Part, said: Vec<Said>) {
    piece.said.extend(said);
    piece.next = Bookmark { at: piece.next.at + 1, before: conversation::mark(part.id.as_bytes()) };
}

/// Whether the program changes a part no more, although its message has no end.
fn has_end(data: &Value) -> bool {
    match field(data, "type") {
        "tool" => !matches!(data.pointer("/state/status").and_then(Value::as_str), Some("pending" | "running")),
        "text" | "reasoning" => data.pointer("/time/end").is_some(),
        _ => true,
    }
}

fn of(part: &Part) -> Vec<Said> {
    let data = &part.data;
    let voice = if part.of_person { Voice::Person } else { Voice::Agent };
    match field(data, "type") {
        _ if part.too_long > 0 => {
            let text = format!("(something of {} bytes, too long to be shown)", part.too_long);
            vec![Said::new(Voice::Remark, &text)]
        }
        // What the program adds to a prompt by itself.
        "text" if data.get("synthetic").and_then(Value::as_bool) == Some(true) => Vec::new(),
        "text" if field(data, "text").is_empty() => Vec::new(),
        "text" => vec![Said::new(voice, field(data, "text"))],
        "file" => vec![Said::new(Voice::Remark, &format!("(file {})", field(data, "filename")))],
        "tool" => of_tool(data),
        _ => Vec::new(),
    }
}

fn of_tool(data: &Value) -> Vec<Said> {
    let state = data.get("state").unwrap_or(&Value::Null);
    let mut said = vec![conversation::call(field(data, "tool"), state.get("input").unwrap_or(&Value::Null))];
    match field(state, "status") {
        "completed" => said.push(Said::new(Voice::Result, field(state, "output"))),
        "error" => said.push(Said::new(Voice::Result, field(state, "error"))),
        _ => {}
    }
    said
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
