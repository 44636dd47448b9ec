//! Every bound of the working tree: name, value, reason.

/// Bytes read at once while a file is cut: four chunks of the largest kind.
pub const READ_BUFFER_BYTES: usize = 4 * cede_wire::limits::CHUNK_MAX_BYTES as usize;

/// How often a file that changes while it is read is read again, before the capture is given up.
pub const READ_ATTEMPTS: u32 = 3;

/// Milliseconds that must lie between the last change of a file and its hashing before the hash is believed
/// without reading again: a change within one tick of the file system's clock is not seen in its times.
pub const RACY_MS: u64 = 2_000;

/// Most bytes of a stored cache of file hashes: a million files of 250 bytes.
pub const STAT_CACHE_BYTES: usize = 256 << 20;

/// Threads that hash and write. Two cores are assumed; a third thread only waits for the disk.
pub const TREE_THREADS: usize = 2;

/// Most bytes of one answer of the git program, except packs: a million index lines of 250 bytes.
pub const GIT_OUTPUT_BYTES: usize = 256 << 20;

/// Longest run of one git command. A pack of a few GiB takes minutes; a hung file system takes for ever.
pub const GIT_SECONDS: u64 = 1_800;

/// How old a lock that an interrupted change left must be where the system does not show whether some git still works:
/// far longer than git needs for a reference.
pub const GIT_LOCK_REST: core::time::Duration = core::time::Duration::from_secs(60);

/// Names that are looked at for such locks: far more loose references than a repository has.
pub const GIT_LOCKS_SEEN: usize = 1 << 20;

/// Longest error text of the git program that is kept.
pub const GIT_ERROR_BYTES: usize = 4 << 10;

/// Most references, stashes, remotes and branch settings of a repository, each.
pub const REFERENCES: usize = 100_000;
/// See [`REFERENCES`]. A person does not keep more.
pub const STASHES: usize = 1_000;
/// See [`REFERENCES`].
pub const REMOTES: usize = 256;

/// Most fetch rules of one remote: one for each branch that somebody follows.
pub const FETCH_RULES: usize = 4_096;

/// Longest reference name, message or address that is carried, in bytes.
pub const GIT_TEXT_BYTES: usize = 4_096;

/// Most bytes of `info/exclude` that are carried.
pub const EXCLUDE_BYTES: usize = 64 << 10;

/// Most bytes of the encoded index or state of a repository.
pub const GIT_STATE_BYTES: u64 = 256 << 20;

/// Most packs that pile up over the rounds of a move, before one whole pack replaces them.
pub const PACKS: usize = 16;

/// Most globs in each list of a capture's options.
pub const GLOBS: usize = 256;

/// Most ignored files that are counted for the inventory; beyond it the count reads "at least".
pub const IGNORED_COUNTED: u64 = 200_000;

/// Most paths that an error or a comparison names.
pub const PATHS_SHOWN: usize = 20;

/// Most bytes of a `.gitattributes` file that is searched for filters.
pub const ATTRIBUTES_BYTES: u64 = 1 << 20;

/// Most names tried for a directory when the preferred one is taken.
pub const FREE_NAMES: u32 = 1_000;

/// Bytes that must remain free on the file system after a stage: journals and logs go on.
pub const FREE_BYTES_LEFT: u64 = 64 << 20;

/// Most commits that a source believes a destination to have.
pub const HAVE_COMMITS: usize = 10_000;

/// Files hashed between two visits to the list of entries: enough for two threads, too few to be noticed in memory.
pub const HASH_BATCH: usize = 4_096;

/// Files of a scratch directory that are looked at for records of an earlier capture; more are only sent again.
pub const RECORD_FILES: usize = 1_000;

/// Names that are tried for files that came, before they are refused: nobody keeps as many of one name.
pub const PLACE_NAMES: u32 = 10_000;

/// Bytes of a terminal's output that are kept for a viewer that fell behind or whose link broke: minutes of a busy
/// build, and a million for each hosted terminal.
pub const OUTPUT_KEPT_BYTES: usize = 1 << 20;

/// Lines that scrolled off a hosted terminal's screen and are shown to whoever attaches. Source: what a person scrolls
/// back; at 200 columns they take 3 MiB.
pub const SCROLLBACK_LINES: usize = 500;

/// Most bytes of such lines in one drawing; older ones are left out.
pub const SCROLLBACK_BYTES: usize = 1 << 20;

/// Most rows and columns of a hosted terminal: three screens of small letters. Together with [`SCROLLBACK_LINES`] they bound
/// the memory of a screen at 16 MiB.
pub const TERMINAL_ROWS: u16 = 300;
/// See [`TERMINAL_ROWS`].
pub const TERMINAL_COLUMNS: u16 = 500;

/// Bytes read from a terminal at once. Source: the buffer of a pseudo-terminal has 4 KiB; four of them save locks.
pub const TERMINAL_READ_BYTES: usize = 16 << 10;

/// What was typed and is not yet taken by the program: pieces, and bytes of each. A paste of a long file fits; beyond it
/// the person is told.
pub const TYPED_PIECES: usize = 64;
/// See [`TYPED_PIECES`].
pub const TYPED_PIECE_BYTES: usize = 16 << 10;

/// Most words, and bytes of all words, of a hosted command. Source: a command line that a person types.
pub const COMMAND_WORDS: usize = 256;
/// See [`COMMAND_WORDS`].
pub const COMMAND_BYTES: usize = 64 << 10;

/// Most variables of a hosted command, and bytes of all of them.
pub const VARIABLES: usize = 128;
/// See [`VARIABLES`].
pub const VARIABLES_BYTES: usize = 128 << 10;

/// How often the threads of a terminal look whether it has ended.
pub const TERMINAL_LOOK_MS: i64 = 250;

/// How long the last output may take to arrive after the program has ended.
pub const LAST_OUTPUT_MS: u64 = 500;
