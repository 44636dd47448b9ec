//! Every bound of the command: name, value, reason.

use std::time::Duration;

/// How long an answer of one line may take. The daemon answers from memory; only the peers of `ls` and the checks of
/// `doctor` take longer, and both have bounds of their own below this one.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// How long after Ctrl-C the move may take to end, before the command says what it knows and leaves.
pub(crate) const CANCEL_WAIT: Duration = Duration::from_secs(5);

/// How long `cede stop` waits for the daemon to be gone. It gives its peers a second to hear of it, and the programs of tasks
/// seven to end.
pub(crate) const STOPPING: Duration = Duration::from_secs(12);

/// Most events that wait between the socket's thread and the screen; more hold the socket back.
pub(crate) const EVENTS: usize = 64;

/// How often a viewer that types says that it is there. Source: a third of the lease that the daemon gives.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// Bytes read from the keyboard at once: a paste of a page.
pub(crate) const TYPED_AT_ONCE: usize = 4 << 10;

/// How often the cockpit asks for questions: what the daemon has in memory, twice a second.
pub(crate) const COCKPIT_LOOK: Duration = Duration::from_millis(500);

/// How often it asks for the whole screen. Source: the daemon looks at the agents' stores no more often than that.
pub(crate) const COCKPIT_SCREEN: Duration = Duration::from_secs(2);

/// How often it asks for the sessions of other devices, which asks these devices.
pub(crate) const COCKPIT_PEERS: Duration = Duration::from_secs(10);

/// How long it waits for one answer before it says that the daemon is away.
pub(crate) const COCKPIT_WAIT: Duration = Duration::from_secs(5);

/// How long the rest of a key's sequence may take: an escape that nothing follows is the key of that name.
pub(crate) const KEY_WAIT: Duration = Duration::from_millis(50);

/// How long a request to stop that came before the stop may take until it is heard, once this goes on.
pub(crate) const STOP_HEARD: Duration = Duration::from_millis(50);

/// How long the cockpit waits to hear that it goes on after a stop: the system tells it at once.
pub(crate) const GOES_ON: Duration = Duration::from_secs(1);

/// How often it looks for that.
pub(crate) const GOES_ON_LOOK: Duration = Duration::from_millis(5);

/// Longest address that is read. Source: the daemon keeps none that is longer.
pub(crate) const ADDRESS_BYTES: u64 = 4 << 10;

/// Narrowest a column is cut to, in columns: an id of eight digits fits.
pub(crate) const COLUMN_MIN: usize = 8;

/// Most sessions that `status` lists: it is one screen.
pub(crate) const STATUS_SESSIONS: usize = 8;

/// Most sendings of files that `status` lists.
pub(crate) const STATUS_TRANSFERS: usize = 4;

/// Most peers that `status` lists.
pub(crate) const STATUS_PEERS: usize = 6;

/// Most paths of one class that `approvals` and plans list without `--all`; the rest is counted, with the command
/// that shows it.
pub(crate) const SHOWN_PATHS: usize = 10;

/// Longest path of a Unix socket, in bytes, without the final NUL. Source: `sockaddr_un`, the smallest in use.
pub(crate) const SOCKET_PATH_BYTES: usize = 103;

/// Longest answer to a question on the terminal, in bytes.
pub(crate) const TYPED_BYTES: u64 = 256;

/// How long a daemon of the demo may take until it answers.
pub(crate) const DAEMON_START: Duration = Duration::from_secs(10);

/// How long a daemon of the demo may take to end.
pub(crate) const DAEMON_END: Duration = Duration::from_secs(5);

/// Most lines of a daemon's log that a failed demo quotes.
pub(crate) const LOG_LINES: usize = 12;

/// Most files that the demo looks at: it makes a dozen.
pub(crate) const DEMO_FILES: usize = 1_000;

/// Most differences that a failed demo lists.
pub(crate) const SHOWN_DIFFERENCES: usize = 20;

/// How often the demo's operators look for questions.
pub(crate) const OPERATOR_LOOKS: Duration = Duration::from_millis(40);

/// How long work on other threads may last after the daemon has ended: it is cut off like a crash, which it survives.
pub(crate) const LAST_WORK: Duration = Duration::from_secs(2);

/// How long a session of the demo may take from its new owner's word to its place there.
pub(crate) const ARRIVAL: Duration = Duration::from_secs(10);

/// How long `cede tell` waits for the other device's word before it says that the message is queued.
pub(crate) const TELL_PATIENCE: Duration = Duration::from_secs(2);

/// Longest line that `cede mcp` reads, in bytes. A message of 256 KiB whose every byte is escaped as six fits.
pub(crate) const MCP_LINE_BYTES: usize = 2 << 20;

/// Most answers in a row to lines that are no message: a client that takes each answer for something to talk nonsense about would
/// go on for ever (modelcontextprotocol/rust-sdk issue 938). A message begins the count anew.
pub(crate) const MCP_UNREADABLE: usize = 16;

/// Most calls of an agent at a time. Each has a thread and a connection; an agent makes a few.
pub(crate) const MCP_CALLS: usize = 8;

/// Most entries of a list that a tool answers: what an agent reads costs its context.
pub(crate) const MCP_LIST: usize = 100;

/// Most bytes of one message's words that a tool answers; the rest is counted, with the command that shows it.
pub(crate) const MCP_WORDS_BYTES: usize = 64 << 10;

/// Longest name of an unknown tool that is said back, in columns.
pub(crate) const MCP_NAME: usize = 40;

/// Longest reason why a call was not understood, in columns: it repeats what the agent wrote.
pub(crate) const MCP_REASON: usize = 400;

/// How long `hand_over` waits for the end of the move. Clients of the protocol give up after 60 seconds.
pub(crate) const HAND_OVER_PATIENCE: Duration = Duration::from_secs(45);

/// Minutes of a task that says nothing else: what an agent does in one go, and a person waits for.
pub(crate) const TASK_MINUTES: u32 = 20;
