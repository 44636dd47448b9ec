//! What Claude Code wrote, read from bytes.

use std::io::Cursor;
use std::path::Path;

use super::transcript::Scan;
use super::words;
use crate::adapter::Conversation;
use crate::adapter::conversation::Rows;
use crate::adapter::scans::gather;

/// What a transcript says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its rows.
    pub rows: u64,
    /// Its turns.
    pub turns: u64,
    /// Its title.
    pub title: String,
    /// Tool calls without a result.
    pub dangling: usize,
}

/// Reads a transcript; with a cap, no more than so many bytes of each end.
pub fn read(bytes: &[u8], cap: Option<u64>) -> Told {
    let bound = cap.map(|cap| (cap, bytes.len() as u64));
    let scan: Scan = gather(Cursor::new(bytes), bound).unwrap_or_default();
    Told { rows: scan.rows, turns: scan.turns, dangling: scan.dangling(), title: scan.title }
}

/// The conversation in a transcript that no fence stands before.
pub fn conversation(transcript: &Path) -> Conversation {
    Conversation::rows(Rows { place: transcript.to_owned(), real: |place| Ok(place.to_owned()), speak: words::of })
}
