//! What a stage wrote, entry by entry: the next round of the move writes only what is different, and a capture that
//! follows need not read what was just written.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cede_wire::canonical::encode;
use cede_wire::catalog::{Body, Entry, Place};
use cede_wire::id::Hash;
use rustix::fs::{AtFlags, statat};
use serde::{Deserialize, Serialize};

use crate::chunk::{FileStat, Fresh, HalfDigest, StatCache, digest, milliseconds, stat_digest};
use crate::limits::{STAT_CACHE_BYTES, TREE_THREADS};
use crate::materialize::beneath::open_directory;
use crate::tree::restore;
use crate::tree::survey::file_stat;

const WRITTEN: &str = "written";
const FORMAT: u16 = 1;

/// The lines of a stage. They are believed while a file's stat is what it was after it was written.
pub(super) struct Written {
    /// The repository's entries.
    pub(super) git: Hash,
    bytes: Vec<u8>,
    start: usize,
}

/// An entry as it was written; ascending by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line<'a> {
    pub(super) path: &'a [u8],
    /// The mode, where it is a directory.
    pub(super) directory: Option<u32>,
    pub(super) look: Look,
}

/// An entry beside the file that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Look {
    body: HalfDigest,
    /// None: nothing is there. Zeros for a directory: what it holds is looked at by itself.
    stat: Option<HalfDigest>,
    changed_unix_ms: u64,
}

impl Look {
    pub(super) fn is_there(&self) -> bool {
        self.stat.is_some()
    }
}

impl Written {
    /// Reads the lines; none if they are not whole.
    pub(super) fn read(staging: &Path) -> Option<Self> {
        let path = staging.join(WRITTEN);
        let short = path.symlink_metadata().is_ok_and(|metadata| metadata.len() <= STAT_CACHE_BYTES as u64);
        let bytes = short.then(|| std::fs::read(path).ok()).flatten()?;
        let (sum, body) = bytes.split_at_checked(32)?;
        if Hash::of(body).as_bytes() != sum {
            return None;
        }
        let ((format, git), rest) = postcard::take_from_bytes::<(u16, Hash)>(body).ok()?;
        let start = bytes.len() - rest.len();
        (format == FORMAT).then_some(Self { git, bytes, start })
    }

    /// Writes the lines of a stage. What they speak of must be durable before.
    pub(super) fn write(staging: &Path, git: Hash, tree: &[&Entry], looks: &[Look]) -> io::Result<()> {
        let mut bytes = vec![0; 32];
        bytes.extend(encode(&(FORMAT, git)));
        for (entry, look) in tree.iter().zip(looks) {
            bytes.extend(encode(&Line { path: entry.path.as_bytes(), directory: directory(entry), look: *look }));
        }
        let sum = Hash::of(bytes.get(32..).unwrap_or_default());
        bytes.iter_mut().zip(sum.as_bytes()).for_each(|(to, from)| *to = *from);
        let partial = staging.join("written.partial");
        std::fs::write(&partial, bytes)?;
        std::fs::rename(partial, staging.join(WRITTEN))
    }

    pub(super) fn forget(staging: &Path) -> io::Result<()> {
        match std::fs::remove_file(staging.join(WRITTEN)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut rest = self.bytes.get(self.start..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (line, after) = postcard::take_from_bytes(rest).ok()?;
            rest = after;
            Some(line)
        })
    }
}

fn directory(entry: &Entry) -> Option<u32> {
    match entry.body {
        Body::Directory { mode } => Some(mode),
        Body::File { .. } | Body::GitBlob { .. } | Body::Symlink { .. } => None,
    }
}

/// The hash of the repository's entries.
pub(super) fn git_of(entries: &[Entry]) -> Hash {
    let git: Vec<&Entry> = entries.iter().filter(|entry| entry.place == Place::Git).collect();
    Hash::of(&encode(&git))
}

/// Looks at the files of all entries, on two threads.
pub(super) fn looks(root: &OwnedFd, tree: &[&Entry]) -> Vec<Look> {
    let share = tree.len().div_ceil(TREE_THREADS).max(1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = tree.chunks(share).map(|share| scope.spawn(move || looks_at(root, share))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn looks_at(root: &OwnedFd, tree: &[&Entry]) -> Vec<Look> {
    let mut above: Option<(&[u8], OwnedFd)> = None;
    let mut all = Vec::with_capacity(tree.len());
    for entry in tree {
        let body = digest(&encode(&entry.body));
        if directory(entry).is_some() {
            all.push(Look { body, stat: Some([0; 16]), changed_unix_ms: 0 });
            continue;
        }
        let stat = stat_of(root, entry.path.as_bytes(), &mut above);
        let changed = stat.map_or(0, |stat| milliseconds(stat.mtime).max(milliseconds(stat.ctime)));
        all.push(Look { body, stat: stat.as_ref().map(stat_digest), changed_unix_ms: changed });
    }
    all
}

/// Neighbours lie in the same directory, which stays open.
fn stat_of<'a>(root: &OwnedFd, path: &'a [u8], above: &mut Option<(&'a [u8], OwnedFd)>) -> Option<FileStat> {
    let (parent, name) = match restore::parent(path) {
        Some(parent) => (parent, path.get(parent.len() + 1..)?),
        None => (&b"."[..], path),
    };
    if above.as_ref().is_none_or(|(open, _)| *open != parent) {
        *above = Some((parent, open_directory(root, parent).ok()?));
    }
    let (_, directory) = above.as_ref()?;
    statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| file_stat(&stat))
}

/// Enters the files of a stage into a cache, by the entries that were staged: those that had rested at this time.
///
/// What stands in a stage was hashed when it was written, and nobody else writes there. False: it is not known what was
/// written, and the cache is as it was.
pub fn remember_staged(staging: &Path, entries: &[Entry], cache: &mut StatCache, at_unix_ms: u64) -> bool {
    let Some(written) = Written::read(staging) else { return false };
    let mut fresh = Fresh::default();
    let mut tree = entries.iter().filter(|entry| entry.place == Place::Tree).peekable();
    for line in written.lines() {
        while tree.next_if(|entry| entry.path.as_bytes() < line.path).is_some() {}
        let Some(entry) = tree.next_if(|entry| entry.path.as_bytes() == line.path) else { continue };
        let content = match &entry.body {
            Body::File { chunks, .. } => (Some(chunks.as_slice()), None),
            Body::GitBlob { oid, .. } => (None, Some(oid)),
            Body::Symlink { .. } | Body::Directory { .. } => continue,
        };
        if let Some(stat) = line.look.stat.filter(|_| line.look.body == digest(&encode(&entry.body))) {
            fresh.put_digests(line.path, content, stat, (line.look.changed_unix_ms, at_unix_ms));
        }
    }
    cache.set_files(fresh);
    true
}
