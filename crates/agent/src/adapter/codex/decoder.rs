//! What Codex wrote, read from bytes.

use std::io::Cursor;
use std::path::Path;

use super::rollout::{self, Scan};
use super::words;
use crate::adapter::Conversation;
use crate::adapter::conversation::Rows;
use crate::adapter::limits::RECORD_BYTES;
use crate::adapter::lines;
use crate::adapter::scans::gather;

/// What a rollout says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The id in its first record, where that is one.
    pub id: Option<String>,
    /// Its turns.
    pub turns: u64,
    /// Its title.
    pub title: String,
    /// Tool calls without a result.
    pub dangling: usize,
}

/// Reads a rollout; with a cap, no more than so many bytes of each end.
pub fn read(bytes: &[u8], cap: Option<u64>) -> Told {
    let bound = cap.map(|cap| (cap, bytes.len() as u64));
    let scan: Scan = gather(Cursor::new(bytes), bound).unwrap_or_default();
    let first = lines::next(&mut Cursor::new(bytes), RECORD_BYTES).ok().flatten();
    let id = first.and_then(|line| rollout::meta_of(&line.head)).map(|meta| meta.id);
    Told { id, turns: scan.turns, dangling: scan.dangling(), title: scan.title }
}

/// The conversation in a rollout that no fence stands before.
pub fn conversation(rollout: &Path) -> Conversation {
    Conversation::rows(Rows { place: rollout.to_owned(), real: |place| Ok(place.to_owned()), speak: words::of })
}
