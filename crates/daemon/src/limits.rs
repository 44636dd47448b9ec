//! Every bound of the daemon: name, value, reason.

use core::time::Duration;

/// Inputs that wait for the actor. Links and hands wait when it is full.
pub(crate) const INPUTS: usize = 256;
/// Messages that wait for one link's writer; a peer that does not read is cut off beyond it.
pub(crate) const OUTBOX: usize = 256;
/// Messages kept for a peer that is being dialled; older ones go first. Everything that matters is said again.
pub(crate) const UNSENT: usize = 64;
/// Events that wait for one move's task.
pub(crate) const MOVE_EVENTS: usize = 256;
/// Lines that wait for one client of the control socket.
pub(crate) const REPLIES: usize = 256;
/// Clients of the control socket at once.
pub(crate) const CLIENTS: usize = 32;
/// Clients whose command waits for a person or a peer: more than all moves and questions that there may be.
pub(crate) const WAITING_CLIENTS: usize = 256;
/// Clients that wait for what becomes of messages and tasks: more than a person has in sight, and no more descriptors than a
/// process may open beside all others.
pub(crate) const WAITING_FOR_WORDS: usize = 128;
/// Pause between two looks whether a client is still there.
pub(crate) const CLIENT_LOOK: Duration = Duration::from_secs(2);
/// A client that takes no line for this long is given up.
pub(crate) const CLIENT_STUCK: Duration = Duration::from_secs(60);
/// Time for a client to send its question.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(10);

/// Hosted terminals at once: more than a person looks after, and with their screens and output a few hundred MiB at the
/// very worst.
pub(crate) const TERMINALS: usize = 16;
/// Viewers of one terminal at once.
pub(crate) const VIEWERS: usize = 32;
/// Longest name of a hosted terminal, characters.
pub(crate) const TERMINAL_NAME_CHARS: usize = 64;
/// Bytes of one piece of a terminal's output on the control socket.
pub(crate) const FRAME_BYTES: usize = 16 << 10;
/// Pieces of output that wait for one viewer; the rest waits in the terminal's own ring.
pub(crate) const VIEWER_FRAMES: usize = 8;
/// Viewings of terminals that one link has: more windows than a person looks at.
pub(crate) const VIEWINGS_PER_LINK: usize = 8;
/// Wishes of one link to look on or to type that are heard at once, and the pause after which one more is: each of them may
/// become an entry in the record, and no person changes seats more often.
pub(crate) const WISHES_AT_ONCE: u32 = 32;
/// See [`WISHES_AT_ONCE`].
pub(crate) const WISH_PAUSE: Duration = Duration::from_secs(2);
/// How often it is looked whether a viewing still has the right that it began with: a rule may end by time.
pub(crate) const RIGHT_LOOK: Duration = Duration::from_secs(5);
/// Pause between two looks whether more was said in a conversation: fast enough to read along.
pub(crate) const CONVERSATION_LOOK: Duration = Duration::from_millis(400);
/// Looks at a conversation that may fail one after the other before it is given up: a store may be busy for seconds.
pub(crate) const CONVERSATION_FAULTS: u32 = 25;
/// What a peer may have said of one viewing before it was taken: a window of the smallest pieces would be more, and a host
/// that sends those is cut off.
pub(crate) const FRAMES_FROM_AFAR: usize = 1_024;
/// Longest line that a viewer may send: a paste of a few pages, as base64.
pub(crate) const VIEWER_LINE_BYTES: u64 = 256 << 10;
/// How often a viewer is told who drives where nothing else happens: leases end by silence.
pub(crate) const VIEWER_LOOK: Duration = Duration::from_secs(1);
/// How long hosted commands have after the hang-up before they are killed when the daemon stops.
pub(crate) const HANG_UP: Duration = Duration::from_secs(3);
/// Pause between two looks whether they have ended.
pub(crate) const HANG_UP_LOOK: Duration = Duration::from_millis(20);

/// How long a new device looks for one that shows words, and how many it tries.
pub(crate) const LOOK_AROUND: Duration = Duration::from_secs(5);
/// See [`LOOK_AROUND`].
pub(crate) const LOOK_AROUND_DEVICES: usize = 8;

/// Shortest and longest pause between two attempts to reach a peer that something waits for.
pub(crate) const DIAL_FIRST: Duration = Duration::from_millis(200);
/// See [`DIAL_FIRST`].
pub(crate) const DIAL_LONGEST: Duration = Duration::from_secs(5);
/// Pause between two attempts to reach a peer that nothing waits for.
pub(crate) const DIAL_IDLE: Duration = Duration::from_secs(30);

/// Data streams that one round uses.
pub(crate) const STREAMS: usize = 4;
/// A round below this travels on one stream.
pub(crate) const ONE_STREAM_BYTES: u64 = 4 << 20;
/// Sealed bytes handed to the link at once.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait between the thread that seals or opens and the link.
pub(crate) const PIECES: usize = 4;
/// Content received between two flushes of the stage.
pub(crate) const SYNC_BYTES: u64 = 64 << 20;
/// Data streams that wait to be read by one move.
pub(crate) const ROUTED: usize = 16;

/// A round of which nothing comes for this long is accepted anew: its key or its question may have been lost between two
/// links. Shorter than a freeze, longer than a large capture needs to be announced.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// Rounds that travel while the session may work, at most: one that is always busy is frozen after them.
pub(crate) const COPIES: u32 = 4;
/// A round that sent no more than this left little for the next one: the session is frozen. Two seconds of 32 Mbit/s.
pub(crate) const LITTLE_BYTES: u64 = 8 << 20;

/// Captures of one round when files change while they are read.
pub(crate) const CAPTURES: u32 = 5;
/// Pause before such a repetition.
pub(crate) const CAPTURE_PAUSE: Duration = Duration::from_millis(300);

/// Questions for sessions that were taken back, of which their owners are told again.
pub(crate) const WITHDRAWN_TAKES: usize = 64;
/// How long a session that has just come is waited for before it is offered again.
pub(crate) const PLACE_WAIT: Duration = Duration::from_secs(10);
/// Pause between two looks at it.
pub(crate) const PLACE_POLL: Duration = Duration::from_millis(20);
/// Pause between two looks at a session whose turn is waited for.
pub(crate) const TURN_POLL: Duration = Duration::from_millis(300);
/// How long it is tried to end a process whose turn has ended, where a person waits for that: it writes its last words and
/// goes.
pub(crate) const AGENT_ENDS: Duration = Duration::from_secs(10);
/// Longest wait for a turn with `--wait`.
pub(crate) const TURN_WAIT: Duration = Duration::from_secs(60 * 60);

/// Untracked content above this needs a yes.
pub(crate) const LARGE_UNTRACKED_BYTES: u64 = 100_000_000;

/// Links of one peer at once: two when both dialed, and some that died unheard. The oldest go first.
pub(crate) const LINKS_PER_PEER: usize = 4;
/// Messages of one link that are read without a pause, and the pause after which one more is. A hundred moves at once
/// say fewer.
pub(crate) const MESSAGES_AT_ONCE: u32 = 1_024;
/// See [`MESSAGES_AT_ONCE`].
pub(crate) const MESSAGE_PAUSE: Duration = Duration::from_millis(5);
/// Offers of one peer that are looked at at once: as many as may wait for an answer.
pub(crate) const LOOKS_PER_PEER: usize = cede_core::limits::QUESTIONS_PER_PEER;
/// Longest title, version or evidence kept of what a peer says, characters. Source: the titles that adapters make.
pub(crate) const PEER_TEXT_CHARS: usize = cede_agent::adapter::limits::TITLE_CHARS;
/// Longest directory kept of what a peer says, characters: a listing of a thousand sessions stays below a mebibyte.
pub(crate) const PEER_PATH_CHARS: usize = 512;
/// Files that look like secrets which an offer names; beyond it they are counted.
pub(crate) const SECRETS_NAMED: usize = 100;
/// Longest lists of one question, and of all questions in one answer: an answer is one line on the control socket.
pub(crate) const SCOPE_SHOWN_BYTES: usize = 2 << 20;
/// See [`SCOPE_SHOWN_BYTES`].
pub(crate) const SCOPES_SHOWN_BYTES: usize = 3 << 20;
/// How often a destination may ask for the same list of one round. Twice is usual: a chunk of an earlier visit may turn
/// out to be another one.
pub(crate) const NEEDS_PER_LIST: u32 = 4;
/// Rounds of one attempt that are fetched. Source: a source announces no more.
pub(crate) const MANIFESTS: u32 = cede_wire::limits::ROUNDS;
/// Pause between two sendings of a pinned copy. Each one captures the session; a designate asks every 30 seconds.
pub(crate) const RESEND_PAUSE: Duration = Duration::from_secs(5);

/// An operator's question lives this long at most; then it is a no.
pub const APPROVAL: Duration = Duration::from_secs(15 * 60);
/// Sessions that one peer wants and that are looked up, or counted, at once: as many as its questions may be.
pub(crate) const TAKES_PER_PEER: usize = cede_core::limits::PENDING_PER_PEER;
/// Pause before what would leave is counted again, where it changed while it was read, or its agent writes.
pub(crate) const COUNT_PAUSE: Duration = Duration::from_secs(2);
/// A `take` that was asked for here stands for the yes for this long: longer than the owner's operator has for an answer.
pub(crate) const EXPECTED_TAKE: Duration = Duration::from_secs(16 * 60);

/// How long `cede to` waits for the destination's word after the release before it says so and ends.
pub(crate) const RELEASED_PATIENCE: Duration = Duration::from_secs(60);
/// How long a listing waits for the peers.
pub(crate) const LISTING: Duration = Duration::from_millis(1_500);
/// How long a move or a take waits for a link to the other device.
pub(crate) const REACH: Duration = Duration::from_secs(10);
/// A link on which nothing came for this long is said to be silent: both sides send something every five seconds.
pub(crate) const SILENT: Duration = Duration::from_secs(7);
/// How long an address that a person names is tried before it is noted as it is.
pub(crate) const PROBE: Duration = Duration::from_secs(3);
/// Time in which a device that is connected says that it knows a newer owner of what is to be taken over by force.
pub(crate) const CUSTODY_WAIT: Duration = Duration::from_secs(1);
/// Pause between two looks whether one did.
pub(crate) const CUSTODY_LOOK: Duration = Duration::from_millis(50);
/// Pause between two looks whether it stands, or never will.
pub(crate) const REACH_LOOK: Duration = Duration::from_secs(1);
/// How long a look at the agents' stores may be reused.
pub(crate) const DISCOVERY_AGE: Duration = Duration::from_secs(2);
/// How long the chunks of an attempt that was given up are kept for the next one.
pub(crate) const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);
/// Ended moves that `status` remembers.
pub(crate) const ENDED_MOVES: usize = 32;
/// Shortest pause between two reports of bytes.
pub(crate) const PROGRESS_PAUSE: Duration = Duration::from_millis(100);
/// Room that a handoff may use beyond what it announced: agents write while the first round travels.
pub(crate) const SCOPE_SLACK_BYTES: u64 = 256 << 20;
/// Attempts to open a stage that a thread which was told to end still holds, and the pause between them.
pub(crate) const STAGE_ATTEMPTS: u32 = 100;
/// See [`STAGE_ATTEMPTS`].
pub(crate) const STAGE_PAUSE: Duration = Duration::from_millis(20);
/// Pause between two looks for arrivals that nobody needs any more.
pub(crate) const FORGET: Duration = Duration::from_secs(60 * 60);

/// How long a peer is dialled often because of a letter. Later it is found with the next ordinary look.
pub(crate) const LETTER_URGENT: Duration = Duration::from_secs(60 * 60);
/// Letters that one answer lists; their first lines stay far below a line of the control socket.
pub(crate) const LETTERS_LISTED: usize = 1_000;
/// Words of letters that wait to be removed: as many as a few peers have under way. The rest goes at the next start.
pub(crate) const WORDS_IDLE: usize = 16_384;
/// Words that were told last and need not be read to be sent. Source: [`cede_core::limits::POST_BYTES`].
pub(crate) const WORDS_AT_HAND_BYTES: usize = cede_core::limits::POST_BYTES as usize;
/// Pause before words that the disk did not give are read again, where something waits for them.
pub(crate) const WORDS_AGAIN: Duration = Duration::from_secs(5);
/// Space that letters leave to custody, receipts and everything else.
pub(crate) const LETTERS_FREE_BYTES: u64 = 512 << 20;
/// Length of the journal from which on no letters are taken: the rest is for custody and receipts. A start shortens it.
pub(crate) const LETTERS_JOURNAL_BYTES: u64 = 128 << 20;

/// Longest note about where the store stands, and longest line of the system that goes into it.
pub(crate) const NOTE_BYTES: u64 = 16 << 10;

/// A checkpoint of the audit log is signed this long after the first entry behind the last one.
pub(crate) const AUDIT_CHECKPOINT: Duration = Duration::from_secs(60);
/// Kinds of decisions that are counted between two checkpoints: every capability of a hundred devices.
pub(crate) const AUDIT_COUNTED: usize = 1_024;
/// Lines of the audit log in one answer, which is one line on the control socket.
pub(crate) const LOG_LINES: usize = 5_000;
/// Content of files that is sealed at once: what else is to travel on the link gets its turn after it, and a cut costs no
/// more than is on its way.
pub(crate) const TRANSFER_TURN_BYTES: u64 = 128 << 20;
/// How long files are read before whoever sends them is shown it: most are read in less.
pub(crate) const READ_UNSAID: Duration = Duration::from_millis(500);
/// Offers of files that are put off while decisions cannot be recorded: as many as one peer may have under way.
pub(crate) const OFFERS_PUT_OFF: usize = cede_core::limits::TRANSFERS_PER_PEER;
/// Pause between two looks whether there is room for files that wait for it.
pub(crate) const ROOM_LOOK: Duration = Duration::from_secs(5);
/// How often that pause is doubled before the first look, for files that find no room again and again.
pub(crate) const ROOM_DOUBLINGS: u32 = 6;
/// Most files of one sending that are taken: what a person can be shown by folders, and a directory can hold.
pub(crate) const TRANSFER_FILES: u64 = 500_000;
/// Most bytes of one sending that are taken where the configuration says nothing.
pub const RECEIVE_BYTES: u64 = 64 << 30;
/// Room that files leave free where they lie.
pub(crate) const RECEIVED_FREE_BYTES: u64 = 512 << 20;
/// Files that look like secrets which a refusal to send names.
pub(crate) const SECRETS_SAID: usize = 5;
/// Ended sendings of files that are listed.
pub(crate) const ENDED_TRANSFERS_SHOWN: usize = 50;

/// A question that waits for so long calls the person: whoever sits there has answered or looked by then.
pub(crate) const CALL_AFTER: Duration = Duration::from_secs(2);
/// Ways to call the person.
pub(crate) const SINKS: usize = 8;
/// Calls that wait for one way: more than the questions that one peer may have open.
pub(crate) const CALLS: usize = 8;
/// Questions that are remembered as called about: more than can wait at once.
pub(crate) const CALLED: usize = 1_024;
/// Longest call by one way: a server far away answers in seconds or not at all.
pub(crate) const CALL_TIME: Duration = Duration::from_secs(10);
/// Pauses before the attempts of one call.
pub(crate) const CALL_PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(10)];
/// Longest address, and longest command with its arguments, in bytes.
pub(crate) const CALL_WORDS_BYTES: usize = 4 << 10;

/// Longest question that a call with buttons shows: ntfy takes messages of 4 KiB.
pub(crate) const CALL_SHOWN_BYTES: usize = 3 << 10;
/// Calls of one way whose buttons are listened to: ntfy.sh lets one address have thirty subscriptions.
pub(crate) const LISTENING: usize = 16;
/// Longest reading of what buttons send, until it begins anew: a line that is dead shows by then.
pub(crate) const LISTEN_TIME: Duration = Duration::from_secs(20);
/// How often it is looked whether the question still waits.
pub(crate) const LISTEN_LOOK: Duration = Duration::from_secs(1);
/// How long what comes for a question that is over is still recorded as late.
pub(crate) const LISTEN_AFTER: Duration = Duration::from_secs(3);
/// Pause before it begins anew; it doubles where the reading before was short.
pub(crate) const LISTEN_PAUSE: Duration = Duration::from_millis(250);
/// Longest of these pauses.
pub(crate) const LISTEN_PAUSE_MOST: Duration = Duration::from_secs(15);
/// Bytes that a server may send for the buttons of one call: two presses, and what it says of itself in the meantime.
pub(crate) const REPLY_BYTES: usize = 64 << 10;
/// Longest line of these.
pub(crate) const REPLY_LINE_BYTES: usize = 4 << 10;
/// What came for the buttons of one call and decided nothing is recorded so many times.
pub(crate) const PRESSES_NOTED: usize = 8;

/// Digits of a question's id that a yes names: as many as are shown.
pub(crate) const APPROVED_DIGITS: usize = 8;

/// Ended questions of which it is remembered how they ended: a screenful, for answers that come too late.
pub(crate) const SETTLED: usize = 32;

/// Entries that wait for a log that cannot be written: a full disk must not become a full memory.
pub(crate) const AUDIT_WAITING: usize = 4_096;
/// Pause before such a log is tried again: a disk with room again is noticed soon, and one without is not worn out.
pub(crate) const AUDIT_AGAIN: Duration = Duration::from_secs(5);

/// Shortest pause between two checkpoints that are shown to peers, and between two flushes of what is kept of one peer: a busy
/// record is signed more often, and the newest checkpoint says what the ones before it said.
pub(crate) const MIRROR_PAUSE: Duration = Duration::from_secs(5);

/// Questions of one other device that wait here for the person, and bytes of them.
pub(crate) const ELSEWHERE_PER_DEVICE: usize = cede_core::limits::SHOWINGS_PER_APPROVER;
/// See [`ELSEWHERE_PER_DEVICE`].
pub(crate) const ELSEWHERE_BYTES: usize = 1 << 20;
/// Such a question lives this long at most, whatever its device says. Source: the longest question there is.
pub(crate) const ELSEWHERE_LIFE: Duration = cede_core::limits::QUESTION_HELD;
/// How long a person waits to hear whether the other device took the answer.
pub(crate) const ANSWER_TAKEN: Duration = Duration::from_secs(10);

/// Tasks of one peer that wait for their yes. Their questions are far fewer.
pub(crate) const TASKS_WAITING: usize = 64;
/// Tasks that agents work on at once: each is a program with a model behind it.
pub(crate) const TASKS_RUNNING: usize = 4;
/// How long a daemon that stops waits for the programs of its tasks: they have five seconds to end well.
pub(crate) const TURNS_END: Duration = Duration::from_secs(7);
/// Tasks that run or whose answer cannot be told yet: each such answer is kept in memory, with up to 80 KiB.
pub(crate) const TASKS_UNANSWERED: usize = 64;
/// Places of ended tasks that are kept, each with up to 8 MiB of output and perhaps a directory of the agent's.
pub(crate) const TASK_PLACES: usize = 32;
/// Time that they are kept: for as long as a message about them lives.
pub(crate) const TASK_PLACES_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Pause before a task or files are looked at again for which there was no room among the questions, or no record could be written.
pub(crate) const ASKED_AGAIN: Duration = Duration::from_secs(30);
/// Pause before an answer is told again for which the outbox had no room.
pub(crate) const TASK_ANSWERED_AGAIN: Duration = Duration::from_secs(60);
/// Time in which a peer that is there has said that a task came, or why it is refused.
pub(crate) const TASK_HEARD_OF: Duration = Duration::from_millis(500);
