//! How the journal looks as bytes. Source: SPEC J-2, `proto/JOURNAL.md`.

use cede_wire::frame::{HEADER_BYTES, Header};
use cede_wire::record::Record;

use crate::crc::crc32c;
use crate::limits::GROUP_MAX_BYTES;

/// Records that become durable together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    /// Their frames.
    pub(crate) bytes: Vec<u8>,
    /// How many they are.
    pub(crate) records: u32,
    /// Length of the longest record.
    pub(crate) longest: usize,
}

impl Batch {
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut batch = Self::default();
        for record in records {
            batch.push(record);
        }
        batch
    }

    pub(crate) fn push(&mut self, record: &Record) {
        let body = record.to_bytes();
        self.longest = self.longest.max(body.len());
        self.records += 1;
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let head = Header { kind: record.kind(), length }.to_bytes();
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(&crc32c(&[&head, &body]).to_le_bytes());
        self.bytes.extend_from_slice(&body);
    }
}

/// What is wrong with the records of a group that its chain vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// A record that this version does not know.
    Newer(u16),
    /// The frames do not add up.
    Bad,
}

/// Reads the frames of a group.
pub(crate) fn read_records(mut bytes: &[u8], into: &mut Vec<Record>) -> Result<u32, Unreadable> {
    let mut count = 0;
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Unreadable::Bad)?;
        let (crc, rest) = rest.split_first_chunk::<4>().ok_or(Unreadable::Bad)?;
        let header = Header::from_bytes(*head).map_err(|_| Unreadable::Bad)?;
        let (body, rest) = rest.split_at_checked(header.length as usize).ok_or(Unreadable::Bad)?;
        if crc32c(&[head, body]) != u32::from_le_bytes(*crc) {
            return Err(Unreadable::Bad);
        }
        match Record::from_bytes(body) {
            Ok(record) if record.kind() == header.kind => into.push(record),
            Ok(_) | Err(_) => return Err(Unreadable::Newer(header.kind)),
        }
        count += 1;
        bytes = rest;
    }
    Ok(count)
}

/// The value that each group hands on to the next.
pub(crate) type Chain = [u8; 32];

/// The first bytes of the file: what its groups are bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// Random, secret to this directory: what a peer puts into a record can never look like a group.
    pub(crate) salt: [u8; 32],
    /// The last chain value of the journal that this one replaced, zeros when it is the first.
    pub(crate) before: Chain,
}

/// Length of a [`FileHeader`].
pub(crate) const FILE_HEADER_BYTES: usize = 96;
/// The format that this version writes.
pub(crate) const FORMAT: u16 = 1;

const FILE_MAGIC: &[u8; 8] = b"cedejrnl";

/// Why the first bytes are not those of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAHeader {
    Newer(u16),
    Bad,
}

impl FileHeader {
    pub(crate) fn to_bytes(self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..8].copy_from_slice(FILE_MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.salt);
        bytes[48..80].copy_from_slice(&self.before);
        let check = self.digest(&bytes[..80]);
        bytes[80..].copy_from_slice(&check[..16]);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; FILE_HEADER_BYTES]) -> Result<Self, NotAHeader> {
        if bytes[..8] != *FILE_MAGIC {
            return Err(NotAHeader::Bad);
        }
        match u16::from_le_bytes(array(&bytes[8..10])) {
            FORMAT => {}
            newer if newer > FORMAT => return Err(NotAHeader::Newer(newer)),
            _ => return Err(NotAHeader::Bad),
        }
        let header = Self { salt: array(&bytes[16..48]), before: array(&bytes[48..80]) };
        if header.to_bytes() == *bytes { Ok(header) } else { Err(NotAHeader::Bad) }
    }

    /// The chain value before the first group.
    pub(crate) fn chain(self) -> Chain {
        self.digest(&self.to_bytes())
    }

    pub(crate) fn key(self) -> Key {
        Key(blake3::derive_key(KEY_CONTEXT, &self.salt))
    }

    fn digest(self, bytes: &[u8]) -> Chain {
        *blake3::keyed_hash(&self.key().0, bytes).as_bytes()
    }
}

const KEY_CONTEXT: &str = "cede/1 journal";

/// The key of one journal's checks.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

/// The first bytes of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    /// Length of the records.
    pub(crate) length: u32,
    /// Number of records.
    pub(crate) records: u32,
    /// Number of the group, from 1, without a gap.
    pub(crate) number: u64,
    /// Covers everything before this group, this header and its records.
    pub(crate) chain: Chain,
}

/// Length of a [`GroupHeader`].
pub(crate) const GROUP_HEADER_BYTES: usize = 64;

/// Begins every group.
pub(crate) const GROUP_MAGIC: &[u8; 4] = b"cjgr";

impl GroupHeader {
    /// The header of the group with these records.
    pub(crate) fn of(key: &Key, before: &Chain, number: u64, count: u32, records: &[u8]) -> Self {
        let length = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let header = Self { length, records: count, number, chain: [0; 32] };
        Self { chain: header.chain_over(key, before, records), ..header }
    }

    pub(crate) fn to_bytes(self, key: &Key) -> [u8; GROUP_HEADER_BYTES] {
        let mut bytes = [0; GROUP_HEADER_BYTES];
        bytes[..20].copy_from_slice(&self.fields());
        bytes[24..56].copy_from_slice(&self.chain);
        let check = blake3::keyed_hash(&key.0, &bytes[..56]);
        bytes[56..].copy_from_slice(&check.as_bytes()[..8]);
        bytes
    }

    /// Reads a header, `None` when the bytes are not one of this journal.
    pub(crate) fn from_bytes(key: &Key, bytes: &[u8; GROUP_HEADER_BYTES]) -> Option<Self> {
        if bytes[..4] != *GROUP_MAGIC {
            return None;
        }
        let header = Self {
            length: u32::from_le_bytes(array(&bytes[4..8])),
            records: u32::from_le_bytes(array(&bytes[8..12])),
            number: u64::from_le_bytes(array(&bytes[12..20])),
            chain: array(&bytes[24..56]),
        };
        let whole = header.length as usize <= GROUP_MAX_BYTES && header.to_bytes(key) == *bytes;
        whole.then_some(header)
    }

    /// Whether this is the header of that group, with these records.
    pub(crate) fn covers(&self, key: &Key, before: &Chain, records: &[u8]) -> bool {
        self.chain == self.chain_over(key, before, records)
    }

    fn chain_over(&self, key: &Key, before: &Chain, records: &[u8]) -> Chain {
        let mut hasher = blake3::Hasher::new_keyed(&key.0);
        hasher.update(before).update(&self.fields()).update(records);
        *hasher.finalize().as_bytes()
    }

    fn fields(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(GROUP_MAGIC);
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.records.to_le_bytes());
        bytes[12..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }
}

/// The part of a fixed array that a constant range names.
fn array<const N: usize>(part: &[u8]) -> [u8; N] {
    let mut whole = [0; N];
    whole.copy_from_slice(part);
    whole
}
