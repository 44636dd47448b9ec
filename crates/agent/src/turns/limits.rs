//! Every bound of a turn: name, value, reason.

use core::time::Duration;

/// Bytes of a program's output that are kept in its file: a long day of a talkative agent.
pub const OUTPUT_BYTES: u64 = 8 << 20;
/// Longest line of output that is looked into. Claude Code writes 143 kB for a "hi".
pub const LINE_BYTES: usize = 4 << 20;
/// Longest last message. Source: what travels back.
pub const ANSWER_BYTES: usize = cede_wire::limits::TASK_ANSWER_BYTES;
/// End of the error output that is kept for the reason of a failure.
pub const COMPLAINT_BYTES: usize = 2 << 10;
/// Longest line of progress. Source: what travels.
pub const PROGRESS_CHARS: usize = cede_wire::limits::TASK_LINE_CHARS;
/// Shortest pause between two lines of progress.
pub const PROGRESS_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two looks whether the program still runs, its time is over, or it was told to stop.
pub const LOOK: Duration = Duration::from_millis(50);
/// Time for a program to end when it is asked to, before it is killed.
pub const GRACE: Duration = Duration::from_secs(5);
/// Time for the rest of its output after it ended.
pub const REST: Duration = Duration::from_secs(2);
/// Rounds of killing what a turn left: each may have started another one meanwhile.
pub const SWEEPS: u32 = 20;
/// Files that are looked at for what changed. Beyond it the answer says so.
pub const CHANGES_FILES: usize = 100_000;
/// Changed files that are named.
pub const CHANGES_NAMED: usize = 100;
/// Longest list of what changed. Source: what travels back.
pub const CHANGES_BYTES: usize = cede_wire::limits::TASK_CHANGES_BYTES;
