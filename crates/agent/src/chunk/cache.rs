//! What was hashed before, so that a second capture reads only what changed.

use cede_wire::canonical::encode;
use cede_wire::catalog::{ChunkRef, Mtime, Oid};
use cede_wire::id::Hash;
use serde::{Deserialize, Serialize};

use super::FileStat;
use crate::limits::{RACY_MS, STAT_CACHE_BYTES};

const FORMAT: u16 = 3;

/// The content of a file as it was last hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known<'a> {
    /// The chunks; none where only the blob was computed.
    pub chunks: Option<&'a [ChunkRef]>,
    /// Git's id, where it was computed.
    pub blob: Option<Oid>,
}

/// The first half of a BLAKE3 digest: enough to tell one's own files apart, and small.
pub(crate) type HalfDigest = [u8; 16];

/// Hashes by path. An entry is believed while the file's stat is the one it was hashed under; a file that had not
/// rested for [`RACY_MS`] by then is not entered. About 80 bytes a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatCache {
    files: Files,
    /// The packs made so far and what they hold; the tree module's own.
    pub(crate) packs: Vec<PackMade>,
    /// Ignored files as they were counted once: files and bytes.
    pub(crate) ignored: Option<(u64, u64)>,
    /// Commits that no remote has, for these references.
    pub(crate) unpushed: Option<(Hash, u64)>,
}

/// Files, and the content of all of them side by side: a list of its own for each would cost more than what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Files {
    /// Ascending by path.
    rows: Vec<Row>,
    chunks: Vec<ChunkRef>,
    blobs: Vec<[u8; 20]>,
    /// Chunks that no row names any more.
    wasted: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    path: HalfDigest,
    stat: HalfDigest,
    first: u32,
    /// Number of chunks; [`NONE`] where they are not known.
    count: u32,
    /// Position of the blob; [`NONE`] where it is not known.
    blob: u32,
}

const NONE: u32 = u32::MAX;

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
    pub fn get(&self, path: &[u8], stat: &FileStat) -> Option<Known<'_>> {
        let row = self.files.find(&digest(path)).filter(|row| row.stat == stat_digest(stat))?;
        Some(self.files.known(row))
    }

    /// Remembers a file that was hashed at this time, if it had rested by then; else forgets it. For a few files: for
    /// a whole tree there is [`Fresh`].
    pub fn put(&mut self, path: &[u8], content: (Option<&[ChunkRef]>, Option<&Oid>), stat: FileStat, at_unix_ms: u64) {
        let path = digest(path);
        let at = self.files.rows.binary_search_by(|row| row.path.cmp(&path));
        if let Ok(at) = at {
            self.files.remove(at);
        }
        if had_rested(&stat, at_unix_ms) {
            let row = self.files.append(path, stat_digest(&stat), content);
            let at = at.unwrap_or_else(|at| at);
            self.files.rows.insert(at, row);
        }
    }

    /// Takes these files and forgets all others.
    pub fn set_files(&mut self, fresh: Fresh) {
        self.files = fresh.files;
        self.files.rows.sort_unstable_by_key(|row| row.path);
        self.files.rows.dedup_by_key(|row| row.path);
        self.files.shrink();
    }

    /// Number of files known.
    pub fn len(&self) -> usize {
        self.files.rows.len()
    }

    /// True without a file.
    pub fn is_empty(&self) -> bool {
        self.files.rows.is_empty()
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
        (format == FORMAT && cache.files.rows.is_sorted_by(|a, b| a.path < b.path)).then_some(cache)
    }
}

/// The files of a whole tree, in any order, before they become a cache.
#[derive(Debug, Default)]
pub struct Fresh {
    files: Files,
}

impl Fresh {
    /// Remembers a file that was hashed at this time, if it had rested by then.
    pub fn put(&mut self, path: &[u8], content: (Option<&[ChunkRef]>, Option<&Oid>), stat: FileStat, at_unix_ms: u64) {
        let changed = milliseconds(stat.mtime).max(milliseconds(stat.ctime));
        self.put_digests(path, content, stat_digest(&stat), (changed, at_unix_ms));
    }

    /// The same by the digest of a stat and the milliseconds of the file's last change.
    pub(crate) fn put_digests(
        &mut self,
        path: &[u8],
        content: (Option<&[ChunkRef]>, Option<&Oid>),
        stat: HalfDigest,
        (changed_unix_ms, at_unix_ms): (u64, u64),
    ) {
        if changed_unix_ms.saturating_add(RACY_MS) <= at_unix_ms {
            let row = self.files.append(digest(path), stat, content);
            self.files.rows.push(row);
        }
    }

    /// Takes over what a cache knows of a file.
    pub(crate) fn adopt(&mut self, old: &StatCache, path: &[u8]) {
        let path = digest(path);
        if let Some(row) = old.files.find(&path) {
            let known = old.files.known(row);
            let row = self.files.append(path, row.stat, (known.chunks, known.blob.as_ref()));
            self.files.rows.push(row);
        }
    }
}

impl Files {
    fn find(&self, path: &HalfDigest) -> Option<&Row> {
        let at = self.rows.binary_search_by(|row| row.path.cmp(path)).ok()?;
        self.rows.get(at)
    }

    fn known(&self, row: &Row) -> Known<'_> {
        let blob = self.blobs.get(row.blob as usize).and_then(|blob| Oid::try_from(blob.to_vec()).ok());
        Known { chunks: self.chunks_of(row), blob }
    }

    fn chunks_of(&self, row: &Row) -> Option<&[ChunkRef]> {
        let first = row.first as usize;
        (row.count != NONE).then(|| self.chunks.get(first..first.checked_add(row.count as usize)?)).flatten()
    }

    /// Adds content, and gives the row for it.
    fn append(
        &mut self,
        path: HalfDigest,
        stat: HalfDigest,
        (chunks, blob): (Option<&[ChunkRef]>, Option<&Oid>),
    ) -> Row {
        let (first, blobs) = (self.chunks.len() as u32, self.blobs.len() as u32);
        self.chunks.extend_from_slice(chunks.unwrap_or_default());
        let sha1: Option<[u8; 20]> = blob.and_then(|oid| oid.as_bytes().try_into().ok());
        self.blobs.extend(sha1);
        let count = chunks.map_or(NONE, |chunks| chunks.len() as u32);
        Row { path, stat, first, count, blob: sha1.map_or(NONE, |_| blobs) }
    }

    fn remove(&mut self, at: usize) {
        let row = self.rows.remove(at);
        self.wasted += if row.count == NONE { 0 } else { row.count };
        if self.wasted as usize > self.chunks.len() / 2 {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let old = std::mem::take(self);
        for row in &old.rows {
            let known = old.known(row);
            let row = self.append(row.path, row.stat, (known.chunks, known.blob.as_ref()));
            self.rows.push(row);
        }
    }

    fn shrink(&mut self) {
        self.rows.shrink_to_fit();
        self.chunks.shrink_to_fit();
        self.blobs.shrink_to_fit();
    }
}

fn had_rested(stat: &FileStat, at_unix_ms: u64) -> bool {
    let changed = milliseconds(stat.mtime).max(milliseconds(stat.ctime));
    changed.saturating_add(RACY_MS) <= at_unix_ms
}

pub(crate) fn milliseconds(time: Mtime) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0).saturating_mul(1_000) + u64::from(time.nanos / 1_000_000)
}

pub(crate) fn digest(bytes: &[u8]) -> HalfDigest {
    let whole = blake3::hash(bytes);
    let (half, _) = whole.as_bytes().split_first_chunk().unwrap_or((&[0; 16], &[]));
    *half
}

pub(crate) fn stat_digest(stat: &FileStat) -> HalfDigest {
    digest(&encode(stat))
}
