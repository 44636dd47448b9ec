//! What was hashed before, so that a second capture reads only what changed.

use std::collections::BTreeMap;

use cede_wire::canonical::encode;
use cede_wire::catalog::{ChunkRef, Mtime, Oid};
use cede_wire::id::Hash;
use serde::{Deserialize, Serialize};

use super::FileStat;
use crate::limits::{RACY_MS, STAT_CACHE_BYTES};

const FORMAT: u16 = 2;

/// The content of a file as it was last hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The chunks; none where only the blob was computed.
    pub chunks: Option<Vec<ChunkRef>>,
    /// Git's id, where it was computed.
    pub blob: Option<Oid>,
    stat: Digest,
}

/// The first half of a BLAKE3 digest: enough to tell one's own files apart, and small.
type Digest = [u8; 16];

/// Hashes by path. An entry is believed while the file's stat is the one it was hashed under; a file that had not
/// rested for [`RACY_MS`] by then is not entered. About 150 bytes a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatCache {
    known: BTreeMap<Digest, Known>,
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
        self.known.get(&digest(path)).filter(|known| known.stat == stat_digest(stat))
    }

    /// Remembers a file that was hashed at this time, if it had rested by then; else forgets it.
    pub fn put(&mut self, path: &[u8], content: (Option<Vec<ChunkRef>>, Option<Oid>), stat: FileStat, at_unix_ms: u64) {
        let (chunks, blob) = content;
        if had_rested(&stat, at_unix_ms) {
            self.known.insert(digest(path), Known { chunks, blob, stat: stat_digest(&stat) });
        } else {
            self.known.remove(&digest(path));
        }
    }

    /// Moves what is known of a file out of another cache.
    pub(crate) fn adopt(&mut self, other: &mut Self, path: &[u8]) {
        let key = digest(path);
        if let Some(known) = other.known.remove(&key) {
            self.known.insert(key, known);
        }
    }

    /// Takes over the files of another cache, and nothing else.
    pub(crate) fn set_files(&mut self, other: Self) {
        self.known = other.known;
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

fn had_rested(stat: &FileStat, at_unix_ms: u64) -> bool {
    let changed = milliseconds(stat.mtime).max(milliseconds(stat.ctime));
    changed.saturating_add(RACY_MS) <= at_unix_ms
}

fn milliseconds(time: Mtime) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0).saturating_mul(1_000) + u64::from(time.nanos / 1_000_000)
}

fn digest(bytes: &[u8]) -> Digest {
    let whole = blake3::hash(bytes);
    let (half, _) = whole.as_bytes().split_first_chunk().unwrap_or((&[0; 16], &[]));
    *half
}

fn stat_digest(stat: &FileStat) -> Digest {
    digest(&encode(stat))
}
