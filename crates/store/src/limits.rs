//! Every bound of the store: name, value, reason.

use std::time::Duration;

/// Longest encoded record. Source: the body of a control frame, in which a record arrives at the earliest.
pub const RECORD_BYTES: usize = cede_wire::limits::FRAME_BODY_BYTES;
/// Most bytes of one batch, headers included: four of the longest records.
pub const BATCH_BYTES: usize = 4 << 20;
/// Most records of one batch. A decider emits fewer than ten.
pub const BATCH_RECORDS: usize = 4_096;
/// A group is closed when it holds this much: one flush then costs little beside the write.
pub const GROUP_BYTES: usize = 4 << 20;
/// Longest group that a reader accepts: one batch joins a group that is not full yet.
pub const GROUP_MAX_BYTES: usize = GROUP_BYTES + BATCH_BYTES;
/// Batches that wait for the writer. Beyond it a commit waits and a submit is refused as busy.
pub const QUEUE_BATCHES: usize = 1_024;
/// Bytes that wait for the writer, whatever the number of batches.
pub const QUEUE_BYTES: usize = 16 << 20;
/// Longest journal. Five hundred thousand records; one that long was not rewritten for years.
pub const JOURNAL_BYTES: u64 = 256 << 20;
/// The journal asks to be rewritten from here on; a replay of this takes well under a second.
pub const JOURNAL_REWRITE_BYTES: u64 = 16 << 20;
/// The journal grows in steps of this, written with zeros: overwriting flushes 2.5 times cheaper than appending.
pub const JOURNAL_STEP_BYTES: u64 = 1 << 20;
/// Room that the journal keeps ahead of its end, so that a full disk still takes hundreds of certificates.
pub const JOURNAL_RESERVE_BYTES: u64 = 256 << 10;
/// Files that a damaged journal was set aside to; the next one is refused until a person has looked.
pub const JOURNAL_SET_ASIDE: u32 = 16;

/// Longest secret: a key file is under 200 bytes.
pub const SECRET_BYTES: usize = 64 << 10;
/// Longest name of a secret, in characters: a word and a handoff id.
pub const NAME_CHARS: usize = 64;
/// Longest of the small text files `schema`, `lock` and `incarnation`.
pub const NOTE_BYTES: usize = 256;

/// Most chunks of one stage; about 70 bytes of memory each.
pub const STAGE_CHUNKS: usize = 1 << 22;
/// A segment of a stage is closed when it holds this much. Discarding unlinks files, so there are few.
pub const SEGMENT_BYTES: u64 = 256 << 20;
/// Most segments of one stage: 64 TiB. Source: the eighteen bits of a chunk's place.
pub const SEGMENTS: u32 = 1 << 18;
/// Longest chunk. Source: [`cede_wire::limits::CHUNK_MAX_BYTES`].
pub const CHUNK_BYTES: usize = cede_wire::limits::CHUNK_MAX_BYTES as usize;
/// Stages that lie in one home.
pub const STAGES: usize = 1_024;

/// Longest object. Source: [`cede_wire::limits::CATALOG_BYTES`].
pub const OBJECT_BYTES: u64 = cede_wire::limits::CATALOG_BYTES;
/// Most objects of one home; each session has one or two.
pub const OBJECTS: usize = 65_536;
/// How long a lock is waited for: that of a daemon which was killed outlives it for a moment, while it dies and while a program
/// that it was about to start holds it.
pub const HELD_FOR_A_MOMENT: Duration = Duration::from_secs(2);
/// From so many objects on one flush of the whole file system costs less than one for each: 0.5 ms and 1.2 ms for four here,
/// 1.1 ms and 4.5 ms for sixteen. Fewer do not wait for what others write there.
pub const OBJECTS_FLUSHED_TOGETHER: usize = 4;

/// Below this much free space no new bulk is accepted, so that records still fit.
pub const BULK_FREE_BYTES: u64 = 2 << 30;

/// Memory that sled may use for its pages.
pub const INDEX_CACHE_BYTES: u64 = 8 << 20;
/// Longest key: a path and some bytes around it.
pub const INDEX_KEY_BYTES: usize = cede_wire::limits::PATH_BYTES + 64;
/// Longest value. sled moves values of about 300 KiB to files of their own.
pub const INDEX_VALUE_BYTES: usize = 64 << 10;
/// Most rows of one scan; a longer listing is read in pages.
pub const INDEX_SCAN_ROWS: usize = 1_024;
/// An index that does not open within this is thrown away. A sound one of 100,000 rows opens in 20 ms.
pub const INDEX_OPEN: Duration = Duration::from_secs(10);

/// Longest file about the record of another device: three checkpoints, with room.
pub const MIRROR_BYTES: usize = 1 << 10;
/// Most of them: more than a mesh has devices.
pub const MIRRORS: usize = 4_096;
