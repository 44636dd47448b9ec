//! The local control protocol: one JSON line asks, JSON lines answer, the last one is `done` or `failed`.
//!
//! It is spoken on a Unix socket between `cede` and the daemon of the same person. Every type here is what
//! `--json` prints, so a field is added, never renamed.

pub mod decisions;
pub mod exit;
pub mod notify;
mod pairing;
mod questions;
mod seizing;
pub mod tasks;
pub mod terminal;
mod transfers;

pub use pairing::PairingEvent;
pub use questions::ApprovalSummary;
pub use seizing::SeizePlan;
pub use transfers::{SendRequest, TransferState, TransferSummary};

use serde::{Deserialize, Serialize};

use self::decisions::{LogLine, LogVerdict, PeerRules};
use self::notify::{NotifyRequest, SinkSummary};
use self::tasks::{AskRequest, TaskReport, TaskSummary};
use self::terminal::{RunRequest, TerminalEnd, TerminalEvent, TerminalSummary, ViewRequest};
use crate::authority::Rule;
use crate::custody::FencingToken;
use crate::handoff::InventoryItem;
use crate::id::{DeviceId, HandoffId, MeshId, SessionId};
use crate::member::Capability;
use crate::record::PeerPolicy;
use crate::refusal::Refusal;
use crate::session::{Activity, AgentKind};

/// Name and version of this protocol; the first field of every line.
pub const SCHEMA: &str = "cede.control/1";

/// A question to the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`SCHEMA`].
    pub schema: String,
    /// What is asked.
    #[serde(flatten)]
    pub command: Command,
}

impl Request {
    /// A request in this version.
    pub fn new(command: Command) -> Self {
        Self { schema: SCHEMA.to_owned(), command }
    }
}

/// What the daemon is asked. Devices and sessions are given as people type them: a name, a unique prefix of an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    /// One screen.
    Status,
    /// The sessions of this device, and of the peers that answer in time.
    Sessions {
        /// Ask the peers too.
        peers: bool,
    },
    /// The devices of the mesh.
    Devices,
    /// Checks of this device, each with its cure.
    Doctor,
    /// Arms pairing on the trusted device. The reply stream lasts until it ends: words, request, result.
    Pair {
        /// Seconds after which the words are taken back; none means as long as words live at most.
        expires_in_s: Option<u64>,
    },
    /// Joins the mesh of the device that shows these words. The reply stream lasts until it ends.
    PairWith {
        /// The words.
        words: String,
        /// `host:port` of the trusted device; none searches the local network.
        address: Option<String>,
        /// The name this device proposes for itself.
        name: Option<String>,
    },
    /// The trusted operator's answer to the device that knew the words.
    PairConfirm {
        /// Whether the comparison strings are the same and the device is welcome.
        accept: bool,
    },
    /// Removes a device from the mesh, at once.
    Revoke {
        /// The device.
        device: String,
        /// The person said yes to what that means.
        #[serde(default)]
        confirmed: bool,
    },
    /// Leaves the mesh: this device begins anew under another key and keeps its sessions. The daemon stops.
    LeaveMesh {
        /// The person said yes.
        confirmed: bool,
    },
    /// Shows or sets what this device answers when that peer asks.
    Policy {
        /// The device.
        device: String,
        /// The new answer; none shows the present one.
        policy: Option<PeerPolicy>,
    },
    /// The operator's rules for each peer and capability.
    Policies {
        /// One peer; none means all.
        device: Option<String>,
    },
    /// Sets the rule for a peer and a capability.
    SetRule {
        /// The peer.
        device: String,
        /// The capability.
        capability: Capability,
        /// What is answered from now on.
        rule: Rule,
        /// For how long; none means until another is set.
        seconds: Option<u64>,
    },
    /// Tells where a device can be reached.
    Address {
        /// The device.
        device: String,
        /// `host:port`.
        address: String,
    },
    /// Hands a session over. The reply stream lasts until the move ends.
    To(MoveRequest),
    /// Asks the owner to hand a session over to this device. The reply stream lasts until the move ends.
    Take {
        /// The session.
        session: String,
        /// Wait for the turn to end.
        wait: bool,
        /// Carry even where the agent is missing here.
        carry_only: bool,
    },
    /// What it would mean to take a session over without its owner.
    SeizePlan {
        /// The session.
        session: String,
    },
    /// Takes a session over without its owner. The reply stream lasts until it is in its place, or was refused.
    Seize {
        /// The session: its whole id, or its short one. Nothing else is a yes.
        session: String,
    },
    /// Says that this device's records are the newest.
    Confirm {
        /// Of which session; none means all.
        session: Option<String>,
    },
    /// Fetches a session that was released to this device and that nobody approved here.
    Claim {
        /// The session.
        session: String,
    },
    /// Withdraws a move that is not yet decided.
    Cancel {
        /// The attempt, as a prefix of its id, or the session.
        handoff: String,
    },
    /// The questions that wait for the operator.
    Approvals,
    /// The devices at which a person may answer for this one.
    Approvers,
    /// Says whether a person at a device may answer for this one.
    SetApprover {
        /// The device.
        device: String,
        /// Whether.
        may: bool,
    },
    /// Answers a question.
    Decide {
        /// The question, as a prefix of its id.
        approval: String,
        /// Only `true` is a yes.
        yes: bool,
    },
    /// Names a plain directory as a session.
    Adopt {
        /// The directory, absolute.
        directory: String,
    },
    /// The record of what was decided.
    Log {
        /// So many of the newest entries; none means as many as an answer holds.
        tail: Option<u32>,
        /// Look whether it is as it was written.
        verify: bool,
    },
    /// Says that it is known why what is kept of a device's record, or there of this one's, did not fit.
    SettleLog {
        /// The device.
        device: String,
    },
    /// Stops the daemon when no move is between its decision and its end.
    Stop,
    /// Hosts a command in a terminal and looks on, with the keyboard. The connection lasts until one of the two ends, and the
    /// client says [`terminal::ViewerSays`] on it.
    Run(RunRequest),
    /// Looks on at a hosted terminal, here or on another device. The connection is that of [`Command::Run`].
    View(ViewRequest),
    /// Lets nobody but the person at this machine type into a terminal, for a while.
    Hold {
        /// The session.
        session: String,
    },
    /// Ends a hold.
    Release {
        /// The session.
        session: String,
    },
    /// Tells a peer something. Answered once it is durable here, and later if it is waited for.
    Tell(TellRequest),
    /// The letters that came, or those that were told.
    Inbox {
        /// Those that were told.
        sent: bool,
        /// Also those that ended.
        all: bool,
    },
    /// One letter with its words; one that came is *shown* by it.
    Letter {
        /// The letter, as a prefix of its id.
        id: String,
    },
    /// One letter with its words, for a command that says itself once they were given to somebody.
    ReadLetter {
        /// The letter, as a prefix of its id.
        id: String,
    },
    /// The words of a letter were given to a person: it is *shown*.
    LetterShown {
        /// The letter, as a prefix of its id.
        id: String,
    },
    /// Says that a letter was dealt with.
    MarkLetter {
        /// The letter, as a prefix of its id.
        id: String,
        /// True: it was acted on. False: it is not wanted.
        acted: bool,
    },
    /// Takes the letters of a peer again that were kept out.
    ReleaseLetters {
        /// The device.
        device: String,
    },
    /// Sends files and folders to a device. Answered once they are queued, or with `wait` once they ended.
    Send(SendRequest),
    /// The sendings of files, in both directions.
    Transfers,
    /// The ways to call the person when a question waits.
    Notify(NotifyRequest),
    /// Ends a sending of files that did not end yet, from either side.
    StopTransfer {
        /// The transfer, as a prefix of its id.
        transfer: String,
    },
    /// Asks an agent of a peer to do something. Answered once it is durable here, or with `wait` once it ended.
    Ask(AskRequest),
    /// The tasks that were asked for here, and those of peers.
    Tasks {
        /// Also those that ended.
        all: bool,
    },
    /// One task with its words and its answer.
    Task {
        /// The task, as a prefix of its id.
        id: String,
    },
    /// Withdraws a task that was asked for here, or ends one of a peer.
    CancelTask {
        /// The task, as a prefix of its id.
        id: String,
    },
}

/// What a person or an agent tells a peer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TellRequest {
    /// To which device; empty for a reply.
    pub device: String,
    /// For which session there.
    #[serde(default)]
    pub session: Option<String>,
    /// The letter that is answered, as a prefix of its id.
    #[serde(default)]
    pub reply: Option<String>,
    /// The words.
    pub text: String,
    /// How long it may be shown or acted on, seconds; none means a week.
    #[serde(default)]
    pub expires_in_s: Option<u64>,
    /// What is waited for.
    #[serde(default)]
    pub until: TellUntil,
    /// How long, milliseconds; none means as long as it takes.
    #[serde(default)]
    pub wait_ms: Option<u64>,
}

/// How far a letter must be before the answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TellUntil {
    /// Durable here.
    #[default]
    Queued,
    /// Durable there.
    Received,
    /// Its words were given to a person or an agent.
    Shown,
    /// It ended.
    Ended,
}

/// A move, as a person asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MoveRequest {
    /// To which device.
    pub device: String,
    /// Which session; none means the one session of `directory`.
    pub session: Option<String>,
    /// Where the person stands, absolute.
    pub directory: String,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Wait for a turn in flight to end.
    pub wait: bool,
    /// Ignored files that travel, as globs.
    pub include_ignored: Vec<String>,
    /// Untracked files that stay, as globs.
    pub exclude: Vec<String>,
    /// Carry even where the destination lacks the agent.
    pub carry_only: bool,
    /// The person said yes to much untracked data.
    pub confirm_large: bool,
    /// The person said yes to files that look like secrets.
    pub confirm_secrets: bool,
    /// With `dry_run`: `directory` itself is meant, whether it is a session already or not.
    #[serde(default)]
    pub files: bool,
}

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// [`SCHEMA`].
    pub schema: String,
    /// The content.
    #[serde(flatten)]
    pub body: ReplyBody,
}

impl Reply {
    /// A reply in this version.
    pub fn new(body: ReplyBody) -> Self {
        Self { schema: SCHEMA.to_owned(), body }
    }
}

/// What a line of an answer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum ReplyBody {
    /// A move goes on.
    Progress(Progress),
    /// What the move would be, before anything moves.
    Planned(Box<Plan>),
    /// A pairing goes on.
    Pairing(PairingEvent),
    /// A sending of files goes on.
    Sending(Box<TransferSummary>),
    /// A hosted terminal goes on.
    Terminal(TerminalEvent),
    /// A task goes on.
    Task(Box<TaskSummary>),
    /// A message goes on.
    Telling(Box<LetterSummary>),
    /// The last line: it worked.
    Done(Answer),
    /// The last line: it did not.
    Failed(Failure),
}

/// The phases people see, with the true words. Source: SPEC H-12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Looking at what is to move.
    Preparing,
    /// Waiting for a turn to end.
    Waiting,
    /// Offered; the destination has not answered.
    Offered,
    /// Chunks travel.
    Transferring,
    /// Everything is durable at the destination; the source is still in charge.
    Staged,
    /// The decision is durable at the source; waiting for the destination to act.
    Released,
    /// The destination acts.
    Committed,
    /// Given up; the source is in charge.
    Abandoned,
}

/// Where a move stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The attempt, once there is one.
    pub handoff: Option<HandoffId>,
    /// The session.
    pub session: SessionId,
    /// The phase.
    pub phase: Phase,
    /// Round of the transfer.
    pub round: u32,
    /// Content bytes that have travelled in this round.
    pub bytes: u64,
    /// Content bytes that must travel in this round.
    pub total_bytes: u64,
    /// Who is in charge at this moment: its name, or "nobody yet" between release and activation.
    pub in_charge: String,
    /// Milliseconds since the move began.
    pub at_ms: u64,
    /// Anything else a person would want to know, often empty.
    pub note: String,
}

/// What would move: shown before it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The session.
    pub session: SessionSummary,
    /// To which device.
    pub device: String,
    /// What travels, what is rebuilt, what stays, what never travels.
    pub inventory: Vec<InventoryItem>,
    /// Content bytes if the destination has nothing of it.
    pub bytes: u64,
    /// Number of files of the working tree and the conversation.
    pub files: u64,
    /// Files that look like secrets and would travel.
    pub secret_looking: Vec<String>,
    /// Executable files that would travel.
    pub executables: Vec<String>,
    /// Files that tools run unasked.
    pub configuration_as_code: Vec<String>,
    /// Untracked bytes; above 100 MB they need a yes.
    pub untracked_bytes: u64,
    /// What must be said yes to before it can move: flags to add.
    pub needs: Vec<String>,
    /// Bytes of history: the repository's objects and its records.
    #[serde(default)]
    pub history_bytes: u64,
}

/// A session in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Its id on every device.
    pub id: SessionId,
    /// The agent.
    pub agent: AgentKind,
    /// The agent's own id.
    pub native: String,
    /// Its title.
    pub title: String,
    /// Its directory on the device that lists it.
    pub directory: String,
    /// Number of user turns.
    pub turns: u64,
    /// Bytes of the conversation.
    pub bytes: u64,
    /// The agent's version.
    pub version: String,
    /// Last change, milliseconds since 1970.
    pub updated_unix_ms: u64,
    /// Busy or idle; none for a session that is not here.
    pub activity: Option<Activity>,
    /// Name of the owner.
    pub owner: String,
    /// Whether this device is the owner.
    pub here: bool,
    /// The fencing token.
    pub token: FencingToken,
    /// The state in words: "in charge here", "moved to server", "released, waiting for server", "arriving".
    pub state: String,
    /// What to type to go on with it here, empty where it is not in charge.
    pub resume: String,
    /// More about it where it is a hosted terminal of this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSummary>,
}

/// A device in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// Its id.
    pub id: DeviceId,
    /// Its name.
    pub name: String,
    /// Whether it is this one.
    pub this: bool,
    /// Whether it signs the membership log.
    pub administrator: bool,
    /// Whether a link is up.
    pub connected: bool,
    /// The address that its link has; while there is none, where it was last reached.
    pub address: Option<String>,
    /// What it may ask for.
    pub capabilities: Vec<Capability>,
    /// What this device answers to it.
    pub policy: PeerPolicy,
}

/// A move in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveSummary {
    /// The attempt.
    pub handoff: HandoffId,
    /// The session's title.
    pub title: String,
    /// From which device.
    pub from: String,
    /// To which device.
    pub to: String,
    /// Where it stands.
    pub progress: Progress,
}

/// One screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReport {
    /// This device.
    pub device: DeviceSummary,
    /// Version of the program.
    pub software: String,
    /// The mesh, once there is one.
    pub mesh: Option<MeshId>,
    /// Where peers reach this device.
    pub listening: String,
    /// True: the journal is damaged, nothing acts.
    pub read_only: bool,
    /// The peers.
    pub peers: Vec<DeviceSummary>,
    /// Sessions that are here or were.
    pub sessions: Vec<SessionSummary>,
    /// Moves under way.
    pub moves: Vec<MoveSummary>,
    /// Sendings of files that did not end.
    #[serde(default)]
    pub transfers: Vec<TransferSummary>,
    /// Questions that wait.
    pub approvals: Vec<ApprovalSummary>,
    /// The next useful command.
    pub next: String,
    /// Letters that nobody has read yet.
    #[serde(default)]
    pub letters: u64,
    /// What a person should look after, each with what to type.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Peers whose record of decisions contradicts what they showed before.
    #[serde(default)]
    pub evidence: Vec<String>,
}

/// A letter in lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterSummary {
    /// Its id, as people type it.
    pub id: String,
    /// Who told it.
    pub from: String,
    /// To which device.
    pub to: String,
    /// Who passed it on, where it went with its session.
    pub by: Option<String>,
    /// For which session.
    pub session: Option<SessionId>,
    /// That session's title, where it is known here.
    pub title: String,
    /// `queued`, `received`, `shown`, `acted`, `refused`, `expired`, `quarantined` or `duplicate`.
    pub state: String,
    /// The same with what a person would want to know: "queued: server is away".
    pub standing: String,
    /// When it was told, milliseconds since 1970, as its teller says.
    pub told_unix_ms: u64,
    /// Bytes of its words.
    pub bytes: u64,
    /// How its words begin, one line; from a peer, data and no instruction.
    pub begins: String,
    /// The letter that it answers.
    pub in_reply_to: Option<String>,
    /// Replies before it in its conversation.
    pub hops: u32,
}

/// How a move ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveReport {
    /// The attempt.
    pub handoff: HandoffId,
    /// The session.
    pub session: SessionId,
    /// Where it is now: the device's name.
    pub now_at: String,
    /// Its directory there, where it is known.
    pub directory: String,
    /// The token now.
    pub token: FencingToken,
    /// Content bytes that travelled.
    pub bytes_sent: u64,
    /// Content bytes that were there already.
    pub bytes_present: u64,
    /// Milliseconds in all.
    pub took_ms: u64,
    /// Milliseconds in which the session could not go on: from the freeze (where it left) or the release (where it arrived) to
    /// the moment it stands in its place.
    pub pause_ms: u64,
    /// What to type there to go on.
    pub resume: String,
    /// Each phase with its moment.
    pub timeline: Vec<Progress>,
    /// What a person should know: a new directory because the old one differed, a branch that was kept.
    pub notes: Vec<String>,
}

/// One check of `cede doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at.
    pub what: String,
    /// `ok`, `warn` or `fail`.
    pub result: String,
    /// What was found.
    pub found: String,
    /// What to type, empty for nothing.
    pub cure: String,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// One screen.
    Status(Box<StatusReport>),
    /// Sessions.
    Sessions {
        /// The sessions.
        sessions: Vec<SessionSummary>,
        /// Peers that did not answer in time, or adapters that could not look.
        silent: Vec<String>,
    },
    /// Devices.
    Devices {
        /// The devices.
        devices: Vec<DeviceSummary>,
    },
    /// Checks.
    Doctor {
        /// The checks.
        checks: Vec<Check>,
    },
    /// A pairing succeeded.
    Paired {
        /// The other device.
        device: DeviceSummary,
        /// The mesh.
        mesh: MeshId,
    },
    /// A plan of `--dry-run`.
    Plan(Box<Plan>),
    /// What a forced take-over would mean.
    SeizePlan(Box<SeizePlan>),
    /// A move ended with the session at its destination.
    Moved(Box<MoveReport>),
    /// Questions.
    Approvals {
        /// The questions.
        approvals: Vec<ApprovalSummary>,
    },
    /// The devices at which a person may answer for this one.
    Approvers {
        /// The devices.
        devices: Vec<DeviceSummary>,
    },
    /// The operator's rules.
    Policies {
        /// The peers.
        peers: Vec<PeerRules>,
    },
    /// The record of what was decided.
    Log {
        /// Entries, oldest first.
        lines: Vec<LogLine>,
        /// How many earlier ones there are.
        earlier: u64,
        /// Whether it holds, where that was asked.
        verdict: Option<Box<LogVerdict>>,
    },
    /// A directory is a session now.
    Adopted(Box<SessionSummary>),
    /// A viewer looks on no more.
    TerminalEnded(TerminalEnd),
    /// What became of a letter that was told.
    Told(Box<LetterSummary>),
    /// Letters.
    Inbox {
        /// The letters, newest first.
        letters: Vec<LetterSummary>,
        /// Letters that fit and are not listed.
        more: u64,
        /// What a person should know: peers that are kept out, letters that were lost.
        notes: Vec<String>,
    },
    /// One letter.
    Letter {
        /// What it is.
        letter: Box<LetterSummary>,
        /// Its words; from a peer, data and no instruction.
        text: String,
    },
    /// Files are queued, or with `wait` received.
    Sent(Box<TransferSummary>),
    /// Sendings of files.
    Transfers {
        /// Those under way first, then those that ended, newest first.
        transfers: Vec<TransferSummary>,
    },
    /// Tasks.
    Tasks {
        /// The tasks, newest first.
        tasks: Vec<TaskSummary>,
    },
    /// One task.
    Task {
        /// What it is.
        task: Box<TaskSummary>,
        /// Its words; from a peer, data and no instruction.
        text: String,
        /// How it ended, where it did and this is known here.
        report: Option<Box<TaskReport>>,
    },
    /// Ways to call the person.
    Sinks {
        /// By name.
        sinks: Vec<SinkSummary>,
    },
    /// Done, in one sentence.
    Said {
        /// The sentence.
        text: String,
    },
}

/// Why a command failed: what happened, why, what to type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The exit code. Source: SPEC L-4.
    pub exit: u8,
    /// What happened.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to type, empty for nothing.
    pub cure: String,
    /// The refusal, where a peer or an operator refused.
    pub refusal: Option<Refusal>,
    /// Where the session is now, where one was meant.
    pub now_at: Option<String>,
}
