//! Files that a person sends to a device: what is offered and shown, what the two sides sign, what is kept of it.
//! Source: SPEC F-1 to F-12.

use serde::{Deserialize, Serialize};

use crate::canonical::{DecodeError, Signable, Signed, at_most, decode, encode};
use crate::catalog::{ChunkRef, Entry, distinct_chunks, well_formed};
use crate::id::{DeviceId, Hash, MeshId, TransferId};
use crate::limits::{CATALOG_BYTES, CATALOG_ENTRIES};
use crate::message::NeedOf;
use crate::refusal::Refusal;

/// The table of contents of files that are sent. Shape: entries of place `tree`, strictly ascending by path; the first
/// component of each is the name of a file or folder that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCatalog {
    /// The entries.
    #[serde(deserialize_with = "at_most::<CATALOG_ENTRIES, _, _>")]
    pub entries: Vec<Entry>,
}

impl FileCatalog {
    /// The canonical bytes; their BLAKE3 is the `root` of an offer.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a catalog and checks its shape.
    ///
    /// # Errors
    /// [`DecodeError`]; the transfer is refused as a whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() as u64 > CATALOG_BYTES {
            return Err(DecodeError::TooLong("FileCatalog"));
        }
        let catalog: Self = decode(bytes)?;
        if well_formed(&catalog.entries) { Ok(catalog) } else { Err(DecodeError::Malformed("FileCatalog")) }
    }

    /// The entries of canonical bytes one by one, without a list of all: for bytes whose hash says that they are a catalog
    /// that was checked as a whole before.
    pub fn entries_of(bytes: &[u8]) -> impl Iterator<Item = Result<Entry, DecodeError>> + '_ {
        let broken = DecodeError::Malformed("FileCatalog");
        let (mut left, mut rest) = postcard::take_from_bytes::<usize>(bytes).unwrap_or((usize::MAX, &[]));
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            match postcard::take_from_bytes(rest) {
                Ok((entry, after)) => {
                    (left, rest) = (left - 1, after);
                    Some(Ok(entry))
                }
                Err(_) => {
                    left = 0;
                    Some(Err(broken.clone()))
                }
            }
        })
    }

    /// Every distinct content chunk, in the order of its first use: the order of need bitmaps.
    pub fn distinct_chunks(&self) -> Vec<ChunkRef> {
        distinct_chunks(&self.entries)
    }
}

/// One line of what a person is shown: a file, or a folder with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPath {
    /// The path, escaped; a folder ends with `/`.
    pub path: String,
    /// How many files: one, or those of the folder.
    pub files: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What the operator of the receiving device is shown, and approves. It follows from the catalog: one that says something
/// else is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// How many files.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// Every file; where there are too many to look through, whole folders.
    pub paths: Vec<ShownPath>,
    /// Every executable file, escaped, sorted.
    pub executables: Vec<String>,
    /// Every file or folder whose name begins with a dot.
    pub dotfiles: Vec<String>,
    /// Every file that some tool runs without being asked.
    pub configuration_as_code: Vec<String>,
}

/// "May I send you these files?" Signed by the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferOffer {
    /// The mesh.
    pub mesh: MeshId,
    /// The transfer.
    pub transfer: TransferId,
    /// Who sends, and signs.
    pub source: DeviceId,
    /// Who receives.
    pub destination: DeviceId,
    /// The sender's words to the receiver, empty for none.
    pub note: String,
    /// Hash of the catalog: every path, mode, size and byte.
    pub root: Hash,
    /// The catalog's chunks, in order.
    pub catalog: Vec<ChunkRef>,
    /// What is to be approved.
    pub shown: Shown,
    /// Milliseconds since 1970, for display only.
    pub offered_at_unix_ms: u64,
}

/// "Yes, these." Signed by the destination; a reconnect brings a new one with a fresh key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferAccept {
    /// The transfer.
    pub transfer: TransferId,
    /// Who sends.
    pub source: DeviceId,
    /// Who receives, and signs.
    pub destination: DeviceId,
    /// Hash of the signed offer that was approved.
    pub offer: Hash,
    /// A fresh X25519 public key.
    pub exchange_key: [u8; 32],
}

/// The sender's half of the keys for one accept. Signed by the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferKey {
    /// The transfer.
    pub transfer: TransferId,
    /// Who sends, and signs.
    pub source: DeviceId,
    /// Who receives.
    pub destination: DeviceId,
    /// Hash of the signed offer.
    pub offer: Hash,
    /// The key of the accept that this answers.
    pub accepted_key: [u8; 32],
    /// A fresh X25519 public key.
    pub exchange_key: [u8; 32],
}

/// "All of it is durable here and stands in its place." Signed by the destination, only when it is true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferReceipt {
    /// The transfer.
    pub transfer: TransferId,
    /// Who sent.
    pub source: DeviceId,
    /// Who received, and signs.
    pub destination: DeviceId,
    /// The catalog that is durable.
    pub root: Hash,
    /// Where it lies there, for people.
    pub place: String,
}

/// What two devices say of files that are sent. Append only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferMessage {
    /// 0: said again with each link until the end is known.
    Offer(Signed<TransferOffer>),
    /// 1
    Accept(Signed<TransferAccept>),
    /// 2
    Key(Signed<TransferKey>),
    /// 3: a bitmap, lowest bit first; a set bit is a chunk to send.
    Need {
        /// The transfer.
        transfer: TransferId,
        /// The key of the accept that it belongs to.
        accepted_key: [u8; 32],
        /// Which list.
        of: NeedOf,
        /// The bits.
        bitmap: Vec<u8>,
    },
    /// 4
    Received(Signed<TransferReceipt>),
    /// 5: a no, or the end before it was received, from either side.
    End {
        /// The transfer.
        transfer: TransferId,
        /// The reason.
        refusal: Refusal,
        /// For people, at most [`crate::limits::DETAIL_CHARS`] characters.
        detail: String,
    },
    /// 6: from the receiver: it waits, for room, and says a new Accept when it goes on.
    Waits {
        /// The transfer.
        transfer: TransferId,
        /// For people, at most [`crate::limits::DETAIL_CHARS`] characters.
        detail: String,
    },
}

/// What the journal holds of files that are sent. Append only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferRecord {
    /// 0: this device sends; its catalog and offer are durable.
    Queued {
        /// The transfer.
        transfer: TransferId,
        /// To whom.
        to: DeviceId,
        /// Hash of the signed offer.
        offer: Hash,
        /// When, milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// 1: the operator, or a rule, approved exactly this.
    Approved {
        /// The transfer.
        transfer: TransferId,
        /// From whom.
        from: DeviceId,
        /// Hash of the signed offer.
        offer: Hash,
        /// When, milliseconds since 1970.
        at_unix_ms: u64,
    },
    /// 2: everything is durable at the destination and stands in its place.
    Received {
        /// The transfer.
        transfer: TransferId,
        /// The other device.
        peer: DeviceId,
        /// True: it was sent from here.
        going: bool,
        /// Where it lies at the destination, for people.
        place: String,
    },
    /// 3: it ended before.
    Ended {
        /// The transfer.
        transfer: TransferId,
        /// The other device.
        peer: DeviceId,
        /// True: it was to be sent from here.
        going: bool,
        /// Why.
        refusal: Refusal,
        /// For people.
        detail: String,
    },
}

impl TransferRecord {
    /// Which transfer it is about.
    pub fn transfer(&self) -> TransferId {
        match self {
            Self::Queued { transfer, .. }
            | Self::Approved { transfer, .. }
            | Self::Received { transfer, .. }
            | Self::Ended { transfer, .. } => *transfer,
        }
    }
}

impl Signable for TransferOffer {
    const DOMAIN: &'static str = "cede/1 transfer-offer";
    fn signer(&self) -> DeviceId {
        self.source
    }
}

impl Signable for TransferAccept {
    const DOMAIN: &'static str = "cede/1 transfer-accept";
    fn signer(&self) -> DeviceId {
        self.destination
    }
}

impl Signable for TransferKey {
    const DOMAIN: &'static str = "cede/1 transfer-key";
    fn signer(&self) -> DeviceId {
        self.source
    }
}

impl Signable for TransferReceipt {
    const DOMAIN: &'static str = "cede/1 transfer-receipt";
    fn signer(&self) -> DeviceId {
        self.destination
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Body, Mtime, Place};
    use crate::id::ChunkId;
    use crate::path::RelPath;

    fn file(path: &str, lengths: &[u32]) -> Entry {
        let chunks = lengths.iter().map(|length| ChunkRef { id: ChunkId::of(&length.to_le_bytes()), length: *length });
        let size = lengths.iter().map(|length| u64::from(*length)).sum();
        let mtime = Mtime { seconds: 1, nanos: 2 };
        let body = Body::File { mode: 0o644, mtime, size, chunks: chunks.collect() };
        Entry { place: Place::Tree, path: RelPath::parse(path.as_bytes()).unwrap(), body }
    }

    fn catalog() -> FileCatalog {
        FileCatalog { entries: vec![file("a", &[3, 2]), file("b", &[]), file("c", &[2, 1])] }
    }

    #[test]
    fn catalog_of_files_comes_back_in_order_only() {
        let catalog = catalog();
        assert_eq!(FileCatalog::from_bytes(&catalog.to_bytes()), Ok(catalog.clone()));
        let lengths: Vec<u32> = catalog.distinct_chunks().iter().map(|chunk| chunk.length).collect();
        assert_eq!(lengths, [3, 2, 1]);
        let turned = FileCatalog { entries: catalog.entries.into_iter().rev().collect() };
        assert_eq!(FileCatalog::from_bytes(&turned.to_bytes()), Err(DecodeError::Malformed("FileCatalog")));
    }

    #[test]
    fn entries_come_one_by_one_and_end_with_the_first_that_is_none() {
        let catalog = catalog();
        let bytes = catalog.to_bytes();
        let broken = || Err(DecodeError::Malformed("FileCatalog"));
        let all: Vec<_> = FileCatalog::entries_of(&bytes).collect();
        assert_eq!(all, catalog.entries.iter().cloned().map(Ok).collect::<Vec<_>>());
        let cut: Vec<_> = FileCatalog::entries_of(&bytes[..bytes.len() - 1]).collect();
        assert_eq!(cut, [all[0].clone(), all[1].clone(), broken()]);
        assert_eq!(FileCatalog::entries_of(&[]).collect::<Vec<_>>(), [broken()]);
        assert_eq!(FileCatalog::entries_of(&[0]).count(), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "the interpreter takes all the memory that is only reserved here")]
    fn longer_catalog_than_its_limit_is_not_looked_at() {
        let zeros = vec![0; CATALOG_BYTES as usize + 1];
        assert_eq!(FileCatalog::from_bytes(&zeros[1..]), Err(DecodeError::NotCanonical("FileCatalog")));
        assert_eq!(FileCatalog::from_bytes(&zeros), Err(DecodeError::TooLong("FileCatalog")));
    }
}
