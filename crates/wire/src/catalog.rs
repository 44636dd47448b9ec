//! The catalog: everything a payload consists of, entry by entry, content by chunk id.
//!
//! Its encoded bytes are themselves cut into chunks; their BLAKE3 is the `root` that manifests, acknowledgements
//! and certificates name.

use serde::{Deserialize, Serialize};

use crate::canonical::{DecodeError, at_most, decode, encode};
use crate::custody::Head;
use crate::id::{ChunkId, Hash};
use crate::limits::{CATALOG_BYTES, CATALOG_ENTRIES};
use crate::path::RelPath;
use crate::session::SessionKey;

/// What an entry belongs to. Numbers: `proto/NUMBERS.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Place {
    /// 0: the working tree.
    Tree,
    /// 1: the agent's files for the session; the adapter knows their names.
    Transcript,
    /// 2: the repository as data (`pack`, `index`, `state`); the tree module knows their names.
    Git,
}

/// A piece of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChunkRef {
    /// BLAKE3 of its bytes.
    pub id: ChunkId,
    /// Its length, 1 to [`crate::limits::CHUNK_MAX_BYTES`].
    pub length: u32,
}

/// A point in time as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mtime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanos: u32,
}

/// A git object id: 20 bytes (SHA-1) or 32 (SHA-256).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Oid(Vec<u8>);

impl Oid {
    /// Reads 40 or 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let pairs = text.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> =
            pairs.map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()).collect();
        let plain = (text.len() == 40 || text.len() == 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
        bytes.filter(|_| plain).map(Self)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl core::fmt::Display for Oid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl core::fmt::Debug for Oid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Oid({self})")
    }
}

impl TryFrom<Vec<u8>> for Oid {
    type Error = &'static str;

    fn try_from(bytes: Vec<u8>) -> Result<Self, Self::Error> {
        if bytes.len() == 20 || bytes.len() == 32 { Ok(Self(bytes)) } else { Err("an object id has 20 or 32 bytes") }
    }
}

impl From<Oid> for Vec<u8> {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// 0: a regular file by its chunks, in order.
    File {
        /// Permission bits, `mode & 0o777`.
        mode: u32,
        /// Last change.
        mtime: Mtime,
        /// Length, bytes; the sum of the chunks' lengths.
        size: u64,
        /// The content.
        chunks: Vec<ChunkRef>,
    },
    /// 1: a regular file whose bytes are exactly those of a git blob that the pack or the destination holds.
    GitBlob {
        /// Permission bits, `mode & 0o777`.
        mode: u32,
        /// Last change.
        mtime: Mtime,
        /// Length, bytes.
        size: u64,
        /// The blob.
        oid: Oid,
    },
    /// 2: a symbolic link, never followed.
    Symlink {
        /// Where it points, as bytes.
        target: Vec<u8>,
    },
    /// 3: a directory. Listed where its mode or emptiness would be lost; others follow from their files.
    Directory {
        /// Permission bits, `mode & 0o777`.
        mode: u32,
    },
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it belongs to.
    pub place: Place,
    /// Where it stands there.
    pub path: RelPath,
    /// What stands there.
    pub body: Body,
}

impl Entry {
    /// The content chunks; none for what has no content of its own.
    pub fn chunks(&self) -> &[ChunkRef] {
        match &self.body {
            Body::File { chunks, .. } => chunks,
            Body::GitBlob { .. } | Body::Symlink { .. } | Body::Directory { .. } => &[],
        }
    }
}

/// A payload's table of contents. Shape: entries strictly ascending by place, then path; sizes are sums of their chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// The session.
    pub key: SessionKey,
    /// The turns it holds.
    pub head: Head,
    /// The entries.
    #[serde(deserialize_with = "at_most::<CATALOG_ENTRIES, _, _>")]
    pub entries: Vec<Entry>,
}

impl Catalog {
    /// The canonical bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a catalog and checks its shape.
    ///
    /// # Errors
    /// [`DecodeError`]; the payload is refused as a whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() as u64 > CATALOG_BYTES {
            return Err(DecodeError::TooLong("Catalog"));
        }
        let catalog: Self = decode(bytes)?;
        if well_formed(&catalog.entries) { Ok(catalog) } else { Err(DecodeError::Malformed("Catalog")) }
    }

    /// BLAKE3 over the canonical bytes.
    pub fn root(&self) -> Hash {
        Hash::of(&self.to_bytes())
    }

    /// Every distinct content chunk, in the order of its first use: the order of need bitmaps.
    pub fn distinct_chunks(&self) -> Vec<ChunkRef> {
        distinct_chunks(&self.entries)
    }
}

/// Every distinct content chunk of these entries, in the order of its first use.
pub fn distinct_chunks(entries: &[Entry]) -> Vec<ChunkRef> {
    let mut seen = std::collections::BTreeSet::new();
    let all = entries.iter().flat_map(Entry::chunks);
    all.filter(|chunk| seen.insert(chunk.id)).copied().collect()
}

/// Entries in order, none twice, each sound in itself.
pub(crate) fn well_formed(entries: &[Entry]) -> bool {
    let ordered = entries.is_sorted_by(|a, b| (a.place, &a.path) < (b.place, &b.path));
    ordered && entries.iter().all(|entry| sound(&entry.body))
}

fn sound(body: &Body) -> bool {
    match body {
        Body::File { mode, mtime, size, chunks } => {
            let fits = chunks.iter().all(|c| (1..=crate::limits::CHUNK_MAX_BYTES).contains(&c.length));
            let sum: u64 = chunks.iter().map(|c| u64::from(c.length)).sum();
            fits && sum == *size && *mode <= 0o777 && mtime.nanos < 1_000_000_000
        }
        Body::GitBlob { mode, mtime, .. } => *mode <= 0o777 && mtime.nanos < 1_000_000_000,
        Body::Symlink { target } => (1..=crate::limits::PATH_BYTES).contains(&target.len()) && !target.contains(&0),
        Body::Directory { mode } => *mode <= 0o777,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{CHUNK_MAX_BYTES, PATH_BYTES};
    use crate::session::{AgentKind, NativeId};

    #[test]
    fn object_id_with_a_digit_missing_is_none() {
        for digits in 0..=65 {
            let read = Oid::parse(&"a".repeat(digits));
            assert_eq!(read.is_some(), digits == 40 || digits == 64, "{digits}");
        }
        assert_eq!(Oid::parse(&"+a".repeat(20)), None);
    }

    #[test]
    fn object_id_is_its_digits_and_has_no_third_length() {
        let digits = "00ff10a0b1c2d3e4f5061728394a5b6c7d8e9f0a";
        let oid = Oid::parse(digits).unwrap();
        assert_eq!((oid.to_string(), format!("{oid:?}")), (digits.to_owned(), format!("Oid({digits})")));
        assert_eq!(oid.as_bytes()[..4], [0, 0xff, 0x10, 0xa0]);
        assert_eq!(Oid::parse(&digits.to_uppercase()), Some(oid.clone()));
        for length in 0..=33 {
            let read = decode::<Oid>(&encode(&vec![7_u8; length]));
            assert_eq!(read.is_ok(), length == 20 || length == 32, "{length}");
        }
        assert_eq!(decode(&encode(&oid)), Ok(oid));
    }

    fn file(mode: u32, nanos: u32, size: u64, lengths: &[u32]) -> Body {
        let chunk = |length: &u32| {
            let mut id = [0; 32];
            id[..4].copy_from_slice(&length.to_le_bytes());
            ChunkRef { id: ChunkId::new(id), length: *length }
        };
        let chunks = lengths.iter().map(chunk).collect();
        Body::File { mode, mtime: Mtime { seconds: -1, nanos }, size, chunks }
    }

    fn blob(mode: u32, nanos: u32) -> Body {
        Body::GitBlob { mode, mtime: Mtime { seconds: 1, nanos }, size: 9, oid: Oid(vec![7; 20]) }
    }

    fn link(target: &[u8]) -> Body {
        Body::Symlink { target: target.to_vec() }
    }

    fn entry(place: Place, path: &str, body: Body) -> Entry {
        Entry { place, path: RelPath::parse(path.as_bytes()).unwrap(), body }
    }

    fn catalog(entries: Vec<Entry>) -> Catalog {
        let key = SessionKey { agent: AgentKind::Codex, native: NativeId::parse("one").unwrap() };
        Catalog { key, head: Head { turn: 1, length: 2, hash: Hash::new([7; 32]) }, entries }
    }

    /// Whether a catalog of these is one. What is read is what was written.
    fn is_read(entries: Vec<Entry>) -> bool {
        let catalog = catalog(entries);
        let read = Catalog::from_bytes(&catalog.to_bytes());
        assert!(read == Ok(catalog) || read == Err(DecodeError::Malformed("Catalog")), "{read:?}");
        read.is_ok()
    }

    #[test]
    fn body_is_sound_up_to_its_bounds() {
        let (most, last) = (CHUNK_MAX_BYTES, 999_999_999);
        let target = "x".repeat(PATH_BYTES);
        let bodies = [
            (true, file(0o777, last, 0, &[])),
            (true, file(0, 0, u64::from(most) + 1, &[most, 1])),
            (false, file(0o1000, 0, 0, &[])),
            (false, file(0, last + 1, 0, &[])),
            (false, file(0, 0, 1, &[])),
            (false, file(0, 0, 5, &[2, 2])),
            (false, file(0, 0, 3, &[2, 2])),
            (false, file(0, 0, 0, &[0])),
            (false, file(0, 0, u64::from(most) + 1, &[most + 1])),
            (true, blob(0o777, last)),
            (false, blob(0o1000, 0)),
            (false, blob(0, last + 1)),
            (true, link(b"../x")),
            (true, link(target.as_bytes())),
            (false, link(b"")),
            (false, link(b"a\0b")),
            (false, link(format!("{target}x").as_bytes())),
            (true, Body::Directory { mode: 0o777 }),
            (false, Body::Directory { mode: 0o1000 }),
        ];
        for (place, (sound, body)) in bodies.into_iter().enumerate() {
            assert_eq!(is_read(vec![entry(Place::Tree, "a", body)]), sound, "body {place}");
        }
    }

    #[test]
    fn entries_stand_in_order_and_none_twice() {
        let entries = |places: &[(Place, &str)]| {
            places.iter().map(|(place, path)| entry(*place, path, Body::Directory { mode: 0 })).collect()
        };
        use Place::{Git, Transcript, Tree};
        assert!(is_read(entries(&[])));
        assert!(is_read(entries(&[(Tree, "a"), (Tree, "b"), (Transcript, "a"), (Git, "a")])));
        for wrong in [[(Tree, "b"), (Tree, "a")], [(Tree, "a"), (Tree, "a")], [(Git, "a"), (Transcript, "b")]] {
            assert!(!is_read(entries(&wrong)), "{wrong:?}");
        }
    }

    #[test]
    fn distinct_chunks_are_in_the_order_of_their_first_use() {
        let of_both = catalog(vec![
            entry(Place::Tree, "a", file(0, 0, 5, &[3, 2])),
            entry(Place::Tree, "b", blob(0, 0)),
            entry(Place::Tree, "c", file(0, 0, 6, &[2, 1, 3])),
        ]);
        let lengths: Vec<u32> = of_both.distinct_chunks().iter().map(|chunk| chunk.length).collect();
        assert_eq!(lengths, [3, 2, 1]);
        assert_eq!(of_both.root(), Hash::of(&of_both.to_bytes()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "the interpreter takes all the memory that is only reserved here")]
    fn longer_catalog_than_its_limit_is_not_looked_at() {
        let zeros = vec![0; CATALOG_BYTES as usize + 1];
        assert_eq!(Catalog::from_bytes(&zeros[1..]), Err(DecodeError::Malformed("Catalog")));
        assert_eq!(Catalog::from_bytes(&zeros), Err(DecodeError::TooLong("Catalog")));
    }
}
