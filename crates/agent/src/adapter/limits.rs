//! Every bound of the adapters: name, value, reason.

/// Longest command line shown of a left-over process: one terminal line.
pub const COMMAND_CHARS: usize = 120;

/// Longest title. Source: the session's description on the wire.
pub const TITLE_CHARS: usize = 120;

/// Most sessions that one discovery lists: what a listing on the wire holds.
pub const SESSIONS: usize = cede_wire::limits::LISTED_SESSIONS;

/// Most entries that one walk of a store looks at. Ten thousand sessions with side files fit; a store that
/// someone filled by mistake does not stall the daemon.
pub const STORE_ENTRIES: usize = 200_000;

/// Deepest directory below a store's root.
pub const STORE_DEPTH: usize = 8;

/// How much of a line is kept to tell what record it is. Agents write the kind first; the rest of a line may be
/// a gibibyte of tool output.
pub const RECORD_HEAD_BYTES: usize = 64 << 10;

/// How much of a record is kept where all of it is needed: a session's first record with its instructions.
pub const RECORD_BYTES: usize = 4 << 20;

/// Longest message of an OpenCode session, all its parts together: it is held in memory while it is read.
pub const MESSAGE_BYTES: usize = 256 << 20;

/// Most bytes of a configuration file that is read.
pub const CONFIG_BYTES: u64 = 4 << 20;

/// Most fork ancestors and sub-agents of one session.
pub const CLOSURE_FILES: usize = 4_096;

/// Bytes of an agent's error output that are shown.
pub const SAID_BYTES: usize = 400;

/// How many scans of transcripts are kept in memory, so that listing again costs nothing.
pub const CACHED_SCANS: usize = 4_096;

/// How much of each end of a transcript a listing reads. Nearly every session is shorter; of a longer one the
/// listing shows at least the turns at both ends, and describing it alone counts them all.
pub const LISTING_SCAN_BYTES: u64 = 8 << 20;

/// Most conversations that are kept beside one file: nobody looks through more, and the search for a free name ends.
pub const BRANCH_NAMES: u32 = 100_000;

/// Longest configuration value or message of an agent that is quoted.
pub const QUOTED_CHARS: usize = 200;

/// How much of the end of a conversation is looked at for what was said last.
pub const TAIL_BYTES: u64 = 1 << 20;

/// The same of one that stands in a database, parts: each says one thing or two.
pub const TAIL_PARTS: u64 = 64;

/// How far a viewer may be behind and still be told everything. Beyond it the middle is left out: nobody reads it.
pub const BEHIND_BYTES: u64 = 64 << 20;

/// See [`BEHIND_BYTES`].
pub const BEHIND_PARTS: u64 = 10_000;

/// Bytes before a place that a bookmark is made of: the end of a record, with its id or its time.
pub const BOOKMARK_BYTES: u64 = 512;

/// Bytes of a store that one call reads before it answers, at least where they say nothing.
pub const READ_AT_ONCE_BYTES: u64 = 8 << 20;

/// Most things that one record says.
pub const SAID_PER_RECORD: usize = 8;
