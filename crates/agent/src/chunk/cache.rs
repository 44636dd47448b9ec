//! What was hashed before, so that a second capture reads only what changed.

use std::collections::BTreeMap;

use cede_wire::catalog::{ChunkRef, Mtime, Oid};
use cede_wire::id::Hash;
use serde::{Deserialize, Serialize};

use super::FileStat;
use crate::limits::{RACY_MS, STAT_CACHE_BYTES};

const FORMAT: u16 = 1;

/// The content of a file as it was last hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The chunks; none where only the blob was computed.
    pub chunks: Option<Vec<ChunkRef>>,
    /// Git's id, where it was computed.
    pub blob: Option<Oid>,
    stat: FileStat,
    hashed_at_unix_ms: u64,
}

/// Hashes by path. An entry is believed while the file's stat is the one it was hashed under, and only if the file
/// had rested for [`RACY_MS`] by then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatCache {
    known: BTreeMap<Vec<u8>, Known>,
    /// The packs made so far and what they hold; the tree module's own.
    pub(crate) packs: Vec<PackMade>,
    /// Ignored files as they were counted once: files and bytes.
    pub(crate) ignored: Option<(u64, u64)>,
    /// Commits that no remote has, for these references.
    pub(crate) unpushed: Option<(Hash, u64)>,
}

/// A pack that lies in the scratch directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackMade {
    /// Its name there.
    pub(crate) file: String,
    pub(crate) stat: FileStat,
    pub(crate) chunks: Vec<ChunkRef>,
    /// What was asked into it.
    pub(crate) tips: Vec<Oid>,
    /// What was left out of it because the destination has it.
    pub(crate) have: Vec<Oid>,
}

impl StatCache {
    /// What is known of a file with this stat.
    pub fn get(&self, path: &[u8], stat: &FileStat) -> Option<&Known> {
        self.known.get(path).filter(|known| known.stat == *stat && known.had_rested())
    }

    /// Remembers a file that was hashed at this time.
    pub fn put(&mut self, path: &[u8], content: (Option<Vec<ChunkRef>>, Option<Oid>), stat: FileStat, at_unix_ms: u64) {
        let (chunks, blob) = content;
        self.known.insert(path.to_vec(), Known { chunks, blob, stat, hashed_at_unix_ms: at_unix_ms });
    }

    /// Forgets every file for which `keep` says no.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        self.known.retain(|path, _| keep(path));
    }

    /// Number of files known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True without a file.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The bytes to store; none if they would be too many.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let body = postcard::to_stdvec(&(FORMAT, self)).ok()?;
        let mut bytes = Hash::of(&body).as_bytes().to_vec();
        bytes.extend(body);
        (bytes.len() <= STAT_CACHE_BYTES).then_some(bytes)
    }

    /// Reads stored bytes. Anything wrong with them means an empty cache, never a wrong hash.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::read(bytes).unwrap_or_default()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > STAT_CACHE_BYTES {
            return None;
        }
        let (sum, body) = bytes.split_at_checked(32)?;
        if Hash::of(body).as_bytes() != sum {
            return None;
        }
        let (format, cache): (u16, Self) = postcard::from_bytes(body).ok()?;
        (format == FORMAT).then_some(cache)
    }
}

impl Known {
    fn had_rested(&self) -> bool {
        let changed = milliseconds(self.stat.mtime).max(milliseconds(self.stat.ctime));
        changed.saturating_add(RACY_MS) <= self.hashed_at_unix_ms
    }
}

fn milliseconds(time: Mtime) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0).saturating_mul(1_000) + u64::from(time.nanos / 1_000_000)
}
