//! Every bound of the wire: name, value, reason. Both ends read the same constant.

/// Longest body of a frame on a control stream. A need bitmap of a million chunks (125 KiB) and a manifest of
/// 2,000 catalog chunks fit; a flood does not.
pub const FRAME_BODY_BYTES: usize = 1 << 20;

/// Most records of a custody chain in one message. A session moved ten times a day has as many after half a year; a longer
/// chain goes in pieces.
pub const CHAIN_RECORDS: usize = 2_048;
/// Most bytes of them that are sent in one message: half of a frame, for an offer has more to say.
pub const CHAIN_BYTES: usize = 512 << 10;

/// Most votes of other devices in one seize: half of a hundred enrolled devices, more than a person has. With them a seize
/// has about 13 KiB.
pub const SEIZE_VOTES: usize = 50;

/// Longest text of a refusal. Enough for a reason and a cure, too short to flood a terminal.
pub const DETAIL_CHARS: usize = 500;

/// Longest device name, in characters.
pub const DEVICE_NAME_CHARS: usize = 64;

/// Smallest, average and largest content-defined chunk. 64 KiB on average keeps a chunk list at 0.06 % of the
/// content and a one-line edit at one chunk.
pub const CHUNK_MIN_BYTES: u32 = 16 << 10;
/// See [`CHUNK_MIN_BYTES`].
pub const CHUNK_AVERAGE_BYTES: u32 = 64 << 10;
/// See [`CHUNK_MIN_BYTES`].
pub const CHUNK_MAX_BYTES: u32 = 256 << 10;

/// Most entries in a catalog. Source: the tree limit of the threat model.
pub const CATALOG_ENTRIES: usize = 1_000_000;
/// Most bytes of an encoded catalog: a million entries of 120 bytes, with room.
pub const CATALOG_BYTES: u64 = 256 << 20;
/// Most chunk ids of a catalog in one manifest.
pub const CATALOG_CHUNKS: usize = 16_384;

/// Longest path, in bytes. Source: `PATH_MAX`.
pub const PATH_BYTES: usize = 4_096;
/// Longest path component, in bytes. Source: `NAME_MAX`.
pub const COMPONENT_BYTES: usize = 255;
/// Deepest path.
pub const PATH_DEPTH: usize = 64;

/// Most items of an inventory, and of each list of paths shown in an approval.
pub const INVENTORY_ITEMS: usize = 256;
/// Most paths listed in one class of a scope; beyond it the offer is refused as `too-large`.
pub const SCOPE_PATHS: usize = 2_048;

/// Most rounds of one handoff: pre-copy, the last delta, and a new one after each reconnect.
pub const ROUNDS: u32 = 64;

/// Most sessions in one listing.
pub const LISTED_SESSIONS: usize = 1_000;

/// Longest words of one letter. What is longer is a file.
pub const LETTER_BYTES: usize = 256 << 10;
/// Most letters, and rows of places, in one frame.
pub const LETTERS_PER_FRAME: usize = 1_024;
/// Most receipts in one frame: they are a few bytes each.
pub const RECEIPTS_PER_FRAME: usize = 4_096;
/// Most places beyond the first gap of a stream that a receiver remembers.
pub const LETTERS_AHEAD: u64 = 1_024;

/// Most files and folders that one command sends.
pub const TRANSFER_ROOTS: usize = 1_024;
/// Most lines of what an offer of files shows: what a person can look through. More files than that are shown by folder.
pub const TRANSFER_LINES: usize = 1_024;
/// Longest lists of an offer of files: with the chunks of its catalog they fit a frame.
pub const TRANSFER_SHOWN_BYTES: usize = 384 << 10;
/// Most chunks of the catalog of an offer of files, for the same reason: a gibibyte of catalog is far beyond its own limit.
pub const TRANSFER_CATALOG_CHUNKS: usize = 8_192;

/// Most bytes of a terminal's output, or of what is typed into it, in one message.
pub const TERMINAL_OUTPUT_BYTES: usize = 16 << 10;
/// Most bytes of output that a host sends ahead of what a viewer said that it took: a second of a slow line.
pub const TERMINAL_WINDOW_BYTES: u64 = 128 << 10;

/// Most bytes of one thing that was said in a conversation, as whoever looks on is told: a few screens.
pub const SAID_BYTES: usize = 8 << 10;
/// Most things of a conversation in one message.
pub const SAID_AT_ONCE: usize = 32;

/// Longest line on the local control socket.
pub const CONTROL_LINE_BYTES: usize = 4 << 20;

/// Longest subject of a question, text and lines together: what a person can still read through.
pub const SUBJECT_BYTES: usize = 64 << 10;
/// Most lines beside the text of a subject. Source: [`INVENTORY_ITEMS`].
pub const SUBJECT_LINES: usize = INVENTORY_ITEMS;

/// Longest entry of the audit log. A checkpoint, the longest kind, has about 250 bytes.
pub const AUDIT_ENTRY_BYTES: usize = 1 << 10;
/// Longest file of the audit log: some thirty thousand entries. A new one begins behind it.
pub const AUDIT_FILE_BYTES: u64 = 4 << 20;
/// Files of the audit log that are kept, the newest ones: 64 MiB and some half a million decisions.
pub const AUDIT_FILES: u64 = 16;
/// A checkpoint is signed after so many entries at the latest.
pub const AUDIT_CHECKPOINT_ENTRIES: u64 = 1_000;

/// Longest question that is shown on another device, in bytes: with what is around it, it fits a frame. A longer one is answered
/// where it waits.
pub const POSED_BYTES: usize = 512 << 10;

/// Longest words of a task. With its directory and its tools it still is a subject that a person can be shown.
pub const TASK_BYTES: usize = 56 << 10;
/// Most tools that a task names: more than any agent has.
pub const TASK_TOOLS: usize = 32;
/// Longest name of a tool.
pub const TASK_TOOL_BYTES: usize = 64;
/// Most turns of an agent for one task.
pub const TASK_TURNS: u32 = 1_000;
/// Longest time of a task, minutes: a morning. Whoever needs more asks again.
pub const TASK_MINUTES: u32 = 240;
/// Longest last message of an agent that travels back.
pub const TASK_ANSWER_BYTES: usize = 64 << 10;
/// Longest list of what changed in the directory.
pub const TASK_CHANGES_BYTES: usize = 16 << 10;
/// Longest line of progress, characters.
pub const TASK_LINE_CHARS: usize = 200;
/// Longest part of a letter beside its words: an answer with the longest list of changes fits twice.
pub const LETTER_PART_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [&str; 3] = [
        include_str!("../../../SPEC.md"),
        include_str!("../../../docs/OPERATING.md"),
        include_str!("../../../proto/NUMBERS.md"),
    ];

    /// Shows: C-4
    #[test]
    #[cfg_attr(miri, ignore = "to look through whole pages takes the interpreter minutes")]
    fn limit_is_the_one_that_the_pages_say() {
        for said in [
            format!("at most {} MiB), body", FRAME_BODY_BYTES >> 20),
            format!("A message has at most {} KiB", LETTER_BYTES >> 10),
            format!("of {} KiB each, and a mebibyte in all", POSED_BYTES >> 10),
            format!("never more than {} KiB ahead", TERMINAL_WINDOW_BYTES >> 10),
            format!("at most the last {SAID_AT_ONCE} things"),
            format!("cut after {} KiB", SAID_BYTES >> 10),
            format!("component {COMPONENT_BYTES}, depth {PATH_DEPTH}"),
            format!("| a task | {} KiB of words", TASK_BYTES >> 10),
            format!("({TASK_MINUTES} at most)"),
            format!("the last {} KiB that its agent said", TASK_ANSWER_BYTES >> 10),
            format!("at most {AUDIT_FILES} files of {} MiB", AUDIT_FILE_BYTES >> 20),
        ] {
            assert!(PAGES.iter().any(|page| page.contains(&said)), "{said}");
        }
    }

    /// Each holds what its reason says, so that one that is raised or lowered alone is noticed.
    #[test]
    fn what_one_limit_is_to_hold_by_another_fits() {
        let chunk = 36;
        for (needed, room) in [
            (2_000 * chunk + CATALOG_ENTRIES / 8, FRAME_BODY_BYTES),
            (TRANSFER_LINES * 256, TRANSFER_SHOWN_BYTES),
            (TRANSFER_SHOWN_BYTES + TRANSFER_CATALOG_CHUNKS * chunk, FRAME_BODY_BYTES),
            (SAID_AT_ONCE * SAID_BYTES, FRAME_BODY_BYTES),
            (LETTER_BYTES + LETTER_PART_BYTES, FRAME_BODY_BYTES),
            (FRAME_BODY_BYTES, CONTROL_LINE_BYTES),
            (TASK_BYTES, SUBJECT_BYTES),
            (2 * SUBJECT_BYTES, POSED_BYTES),
            (TASK_ANSWER_BYTES, LETTER_BYTES),
            (PATH_BYTES + 4 * DETAIL_CHARS, TASK_CHANGES_BYTES),
            (250, AUDIT_ENTRY_BYTES),
        ] {
            assert!(needed < room, "{needed} {room}");
        }
        assert_eq!(CHAIN_BYTES * 2, FRAME_BODY_BYTES);
        assert_eq!(LETTER_PART_BYTES, 2 * TASK_CHANGES_BYTES);
        assert_eq!(TERMINAL_WINDOW_BYTES, 8 * TERMINAL_OUTPUT_BYTES as u64);
    }

    #[test]
    fn chunks_and_catalogs_have_their_sizes() {
        let kib = [CHUNK_MIN_BYTES, CHUNK_AVERAGE_BYTES, CHUNK_MAX_BYTES].map(|bytes| bytes / 1_024);
        assert_eq!(kib, [16, 64, 256]);
        assert!(CATALOG_BYTES >= 120 * CATALOG_ENTRIES as u64);
        assert!(CATALOG_BYTES <= CATALOG_CHUNKS as u64 * u64::from(CHUNK_AVERAGE_BYTES));
    }
}
