//! The command line, as one tree: help, completions and suggestions come from it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cede_wire::authority::Rule;
use cede_wire::member::Capability;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::limits::TASK_MINUTES;
use crate::units;

/// Everything that can be typed.
#[derive(Debug, Parser)]
#[command(
    name = "cede",
    bin_name = "cede",
    version,
    about = "Move a live session between your own machines. One of them owns it, always.",
    after_help = "`cede` alone opens the cockpit; where it is no terminal, it is `cede status`. Exit codes: 0 ok, 1 failed, 2 usage, 3 no daemon, \
                  4 refused, 5 pending, 6 not the owner, 7 timeout, 8 version mismatch, 130 interrupted.",
    term_width = 80,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// What every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print JSON lines, each with a `schema` field
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print results and errors only
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Never ask; what would need an answer fails
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Keep state, socket and configuration in this directory, as CEDE_HOME does
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the daemon of this device in the foreground
    Up(Up),
    /// Let a device join: alone it shows words, with words it joins
    Pair(Pair),
    /// Show this device, peers, sessions, moves and questions
    Status,
    /// List sessions and who owns them
    Ls {
        /// Do not ask the peers
        #[arg(long)]
        here: bool,
    },
    /// Hand a session over to a device
    To(To),
    /// Take a session over from its owner
    Take {
        /// The session: title, native id or the beginning of its id
        session: String,
        /// Wait for the turn to end
        #[arg(long)]
        wait: bool,
        /// Take it even where its agent is not installed here
        #[arg(long)]
        carry_only: bool,
        /// Take it without its owner, who is gone for good
        #[arg(long, conflicts_with_all = ["wait", "carry_only"])]
        force: bool,
        /// The session's id, typed as the yes to --force
        #[arg(long, value_name = "ID", requires = "force")]
        yes: Option<String>,
    },
    /// Say that this device's records are the newest
    Confirm {
        /// The session: title, native id or the beginning of its id
        #[arg(required_unless_present = "all")]
        session: Option<String>,
        /// Every session
        #[arg(long, conflicts_with = "session")]
        all: bool,
    },
    /// Fetch a session that was released here without a yes
    Claim {
        /// The session: the beginning of its id
        session: String,
    },
    /// Withdraw a move that is not yet decided
    Cancel {
        /// The move (the beginning of its id) or the session
        handoff: String,
    },
    /// Tell a device something: its person, or a session there
    Tell(Tell),
    /// List what peers told, read it, and say what became of it
    Inbox(Inbox),
    /// Ask an agent of a device to do a task, once its person allows it
    Ask(Ask),
    /// List tasks, show one with its result, or end it
    Tasks(Tasks),
    /// List, revoke or locate devices, or leave them
    Devices {
        #[command(subcommand)]
        action: Option<DeviceAction>,
    },
    /// Show or set what this device answers when a peer asks
    Policy(Policy),
    /// List the questions that wait for an answer
    Approvals {
        /// List every path
        #[arg(long)]
        all: bool,
    },
    /// List, name or end the devices that may answer for this one
    Approvers {
        #[command(subcommand)]
        action: Option<ApproverAction>,
    },
    /// Say yes to a question
    Allow {
        /// The question: the beginning of its id
        id: String,
    },
    /// Say no to a question
    Deny {
        /// The question: the beginning of its id
        id: String,
    },
    /// List, add, remove or try ways to call you
    Notify {
        #[command(subcommand)]
        action: Option<NotifyAction>,
    },
    /// Host a command in a terminal that outlives this one, and attach to it
    Run(Run),
    /// Look on at a hosted terminal, and type if nobody else does
    Attach {
        /// The session: name or the beginning of its id
        session: String,
    },
    /// Look on at a hosted terminal, or read along with an agent
    Watch {
        /// The session: name or the beginning of its id
        session: String,
    },
    /// Type into a hosted terminal
    Drive {
        /// The session: name or the beginning of its id
        session: String,
        /// Whoever drives it now
        #[arg(long)]
        force: bool,
    },
    /// Let nobody on other devices type into a hosted terminal
    Hold {
        /// The session: name or the beginning of its id
        session: String,
    },
    /// End a hold
    Release {
        /// The session: name or the beginning of its id
        session: String,
    },
    /// Show what was decided here, and whether that record is whole
    Log {
        /// Look whether every entry is as it was written
        #[arg(long)]
        verify: bool,
        /// So many of the newest entries
        #[arg(long, value_name = "N", default_value_t = 50)]
        tail: u32,
        /// Say that a record was put back on purpose, here or at that device
        #[arg(long, value_name = "DEVICE", conflicts_with_all = ["verify", "tail"])]
        settle: Option<String>,
    },
    /// Send files and folders to a device
    Send(Send),
    /// List files that are sent and that come, or withdraw one
    Transfers {
        #[command(subcommand)]
        action: Option<TransferAction>,
    },
    /// Name a plain directory as a session
    Adopt {
        /// The directory
        directory: PathBuf,
    },
    /// Check this device; each fault comes with its cure
    Doctor,
    /// Stop the daemon, and the terminals that it hosts
    Stop {
        /// Do not ask when terminals end with it
        #[arg(long)]
        yes: bool,
    },
    /// Give an agent of this device these commands as tools (MCP, stdio)
    Mcp,
    /// Show a real handoff between two daemons on this machine
    Demo(Demo),
    /// Print a completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// `cede up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Listen on this address; port 0 takes any
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Name of this device, where it has none yet
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Neither announce this device nor look for others
    #[arg(long)]
    pub(crate) no_discovery: bool,
    /// What to log: error, warn, info (default), debug, trace, or a filter
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// A question that nobody answers in this time is a no (15m at most)
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) questions_expire: Option<Duration>,
    /// The directory in which files lie that came, by device
    #[arg(long, value_name = "DIR")]
    pub(crate) received: Option<PathBuf>,
    /// Set a damaged journal aside and begin anew with what can be read of it
    #[arg(long)]
    pub(crate) start_over: bool,
    /// Stop when the standard input ends
    #[arg(long, hide = true)]
    pub(crate) while_stdin: bool,
}

/// `cede policy`.
#[derive(Debug, Args)]
pub(crate) struct Policy {
    /// The peer; none lists them all
    pub(crate) device: Option<String>,
    /// What the peer asks for
    #[arg(requires = "rule", value_parser = capability, value_name = "CAPABILITY")]
    pub(crate) capability: Option<Capability>,
    /// accept (unattended), ask, hold (ask, and call nobody) or refuse
    #[arg(value_parser = rule, value_name = "RULE")]
    pub(crate) rule: Option<Rule>,
    /// The rule ends after this time, like 30m or 8h; accept needs it
    #[arg(long = "for", value_name = "TIME", requires = "rule", value_parser = units::duration)]
    pub(crate) lasts: Option<Duration>,
    /// Ask the operator about every move
    #[arg(long, conflicts_with_all = ["yes", "capability"], requires = "device")]
    pub(crate) ask: bool,
    /// Say yes to moves and files unattended, without an end
    #[arg(long, conflicts_with = "capability", requires = "device")]
    pub(crate) yes: bool,
}

/// `cede pair`.
#[derive(Debug, Args)]
pub(crate) struct Pair {
    /// The words that the trusted device shows
    pub(crate) words: Vec<String>,
    /// Where the trusted device is
    #[arg(long, value_name = "HOST:PORT", requires = "words", value_parser = host_and_port)]
    pub(crate) at: Option<String>,
    /// Name of this device in the mesh
    #[arg(long, requires = "words")]
    pub(crate) name: Option<String>,
    /// Welcome the device that knew the words without comparing
    #[arg(long, conflicts_with = "words")]
    pub(crate) yes: bool,
    /// Take the words back after this time, like 90s or 5m (10m at most)
    #[arg(long, value_name = "TIME", conflicts_with = "words", value_parser = units::duration)]
    pub(crate) expires: Option<Duration>,
}

/// `cede to`.
#[derive(Debug, Clone, Args)]
pub(crate) struct To {
    /// To which device
    pub(crate) device: String,
    /// The session: title, native id, the beginning of its id; none means the one of this directory
    pub(crate) session: Option<String>,
    /// Only show what would travel
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Wait for the turn to end
    #[arg(long)]
    pub(crate) wait: bool,
    /// Ignored files that travel too
    #[arg(long, value_name = "GLOB")]
    pub(crate) include_ignored: Vec<String>,
    /// Untracked files that stay
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Carry it even where its agent is not installed
    #[arg(long)]
    pub(crate) carry_only: bool,
    /// Carry more than 100 MB of untracked files
    #[arg(long)]
    pub(crate) yes_large: bool,
    /// Carry files that look like secrets
    #[arg(long)]
    pub(crate) yes_secrets: bool,
    /// Move the directory itself (SESSION, or this one) as a session
    #[arg(long)]
    pub(crate) files: bool,
}

/// `cede run`.
#[derive(Debug, Args)]
#[command(after_help = "Ctrl-] then d detaches, t asks for the keyboard, T takes it, l lets it go, ? says so. \
                        Ctrl-] twice types one.")]
pub(crate) struct Run {
    /// What to call it
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Start it and do not look on
    #[arg(long)]
    pub(crate) detach: bool,
    /// The command and its arguments; none means the shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `cede tell`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Tell {
    /// To which device, or DEVICE/SESSION; left out with --reply
    #[arg(value_name = "DEVICE[/SESSION]")]
    pub(crate) to: String,
    /// The words; - reads them from the standard input
    pub(crate) text: Option<String>,
    /// Answer this message: the beginning of its id
    #[arg(long, value_name = "ID")]
    pub(crate) reply: Option<String>,
    /// It is not shown after this time, like 90s, 5m or 12h (a week)
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) expires: Option<Duration>,
    /// Wait until it is there, or until it is shown
    #[arg(long, value_name = "UNTIL", num_args = 0..=1, require_equals = true, default_missing_value = "received")]
    pub(crate) wait: Option<Until>,
}

/// What `cede tell --wait` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// It is durable there
    Received,
    /// Its words were given to a person or an agent
    Shown,
    /// Somebody acted on it, refused it, or its time was over
    Ended,
}

/// `cede inbox`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Inbox {
    /// Read this message: the beginning of its id
    #[arg(conflicts_with_all = ["sent", "all"])]
    pub(crate) id: Option<String>,
    /// List what was told from here, and what became of it
    #[arg(long)]
    pub(crate) sent: bool,
    /// List what ended, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Say that this message was acted on
    #[arg(long, value_name = "ID", conflicts_with_all = ["id", "sent", "all"])]
    pub(crate) done: Option<String>,
    /// Say that this message is not wanted
    #[arg(long, value_name = "ID", conflicts_with_all = ["id", "sent", "all", "done"])]
    pub(crate) refuse: Option<String>,
    /// Take the messages of this device again that are kept out
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["id", "sent", "all", "done", "refuse"])]
    pub(crate) release: Option<String>,
}

/// `cede send`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Send {
    /// To which device
    pub(crate) device: String,
    /// The files and folders
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A few words to the receiver
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) note: String,
    /// Wait until they are received, refused or expired
    #[arg(long)]
    pub(crate) wait: bool,
    /// Send files in folders that look like secrets too
    #[arg(long)]
    pub(crate) yes_secrets: bool,
}

/// `cede transfers …`.
#[derive(Debug, Subcommand)]
pub(crate) enum TransferAction {
    /// Withdraw one that did not end yet, sent or coming
    Cancel {
        /// The transfer: the beginning of its id
        id: String,
    },
}

/// `cede approvers …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ApproverAction {
    /// Let the person at a device answer what waits here, but for what that device asks
    Add {
        /// The device: its whole name or id
        device: String,
    },
    /// Take that back
    Remove {
        /// The device
        device: String,
    },
}

/// `cede ask`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Ask {
    /// Which device, or DEVICE/SESSION for a turn of a session there
    #[arg(value_name = "DEVICE[/SESSION]")]
    pub(crate) to: String,
    /// The task; - reads it from the standard input
    pub(crate) task: String,
    /// The directory there, absolute or below the home directory; none means an empty one of its own
    #[arg(long = "in", value_name = "DIR")]
    pub(crate) directory: Option<String>,
    /// It may look, and change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The agent's tools that it may use, and no others
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,
    /// Turns of the agent at most
    #[arg(long, value_name = "N")]
    pub(crate) turns: Option<u32>,
    /// Minutes at most
    #[arg(long, value_name = "N", default_value_t = TASK_MINUTES)]
    pub(crate) minutes: u32,
    /// Which agent; none means the only one that is installed there
    #[arg(long, value_enum)]
    pub(crate) agent: Option<TaskAgent>,
    /// It is not begun after this time, like 90s, 5m or 12h (a day)
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) expires: Option<Duration>,
    /// Wait until it ended
    #[arg(long)]
    pub(crate) wait: bool,
}

/// The agents that do tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskAgent {
    /// Codex CLI
    Codex,
    /// Claude Code
    ClaudeCode,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
}

/// `cede tasks`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Tasks {
    /// Show this task and what came of it: the beginning of its id
    #[arg(conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// List what ended, too
    #[arg(long)]
    pub(crate) all: bool,
    /// Withdraw this task, or end it where it runs here
    #[arg(long, value_name = "ID", conflicts_with_all = ["id", "all"])]
    pub(crate) cancel: Option<String>,
    /// Print what the agent said last, and nothing else
    #[arg(long, value_name = "ID", conflicts_with_all = ["id", "all", "cancel"])]
    pub(crate) result: Option<String>,
}

/// `cede notify …`.
#[derive(Debug, Subcommand)]
pub(crate) enum NotifyAction {
    /// Add a way to call you
    #[command(after_help = "desktop needs nothing more. command -- PROGRAM ARGUMENT… gets the notice as JSON on its \
                            standard input, without a shell. webhook and ntfy need an address, which is kept as a \
                            secret: without one you are asked, with - it is read from the standard input. --buttons \
                            sends the whole question to the ntfy server; that server, and whoever else can read the \
                            topic, can press them and answer in your place while the question waits.")]
    Add {
        /// How
        #[arg(value_enum)]
        kind: SinkKind,
        /// The address, or the command behind --
        #[arg(value_name = "ADDRESS|COMMAND")]
        words: Vec<String>,
        /// What to call it
        #[arg(long)]
        name: Option<String>,
        /// ntfy: show the whole question, with buttons that answer it; https:// only
        #[arg(long)]
        buttons: bool,
    },
    /// Be called like this no more
    Remove {
        /// Its name
        name: String,
    },
    /// Call you now, once
    Test {
        /// Its name; none means all
        name: Option<String>,
    },
}

/// The ways to call a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SinkKind {
    /// Notifications of the desktop
    Desktop,
    /// A program
    Command,
    /// A post of JSON
    Webhook,
    /// A topic of an ntfy server
    Ntfy,
}

/// `cede devices …`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeviceAction {
    /// Remove a device from the mesh, at once and for good
    Revoke {
        /// The device
        device: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Leave the mesh: this device gets a new key, keeps its sessions, and may be paired again
    Leave {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Tell where a device can be reached
    Address {
        /// The device
        device: String,
        /// Where
        #[arg(value_name = "HOST:PORT", value_parser = host_and_port)]
        address: String,
    },
}

/// `cede demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Leave the two homes where they are
    #[arg(long)]
    pub(crate) keep: bool,
    /// Whose session moves
    #[arg(long, value_enum, default_value_t = DemoAgent::ClaudeCode)]
    pub(crate) agent: DemoAgent,
    #[command(subcommand)]
    pub(crate) stand_in: Option<StandIn>,
}

/// The agents' programs that the demo stands in for, in its own homes.
#[derive(Debug, Subcommand)]
pub(crate) enum StandIn {
    /// Answer as OpenCode does
    #[command(name = "opencode", hide = true)]
    OpenCode {
        /// Where the stand-in lies, beside the demo's homes
        place: PathBuf,
        /// What OpenCode was asked
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// The agents of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoAgent {
    /// Codex CLI
    Codex,
    /// Claude Code
    ClaudeCode,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
    /// A plain directory
    Files,
}

fn capability(text: &str) -> Result<Capability, String> {
    let names = || Capability::ALL.map(Capability::name).join(", ");
    let named = Capability::ALL.into_iter().find(|capability| capability.name() == text);
    named.ok_or_else(|| format!("expected one of {}", names()))
}

fn rule(text: &str) -> Result<Rule, String> {
    let named = [Rule::Accept, Rule::Ask, Rule::Hold, Rule::Refuse].into_iter().find(|rule| rule.word() == text);
    named.ok_or_else(|| "expected accept, ask, hold or refuse".to_owned())
}

/// Accepts `host:port`, with an IPv6 address in brackets.
fn host_and_port(text: &str) -> Result<String, String> {
    let wrong = || "expected HOST:PORT, like 192.168.1.7:4242, [fd00::7]:4242 or laptop.local:4242".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let bare_six = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let fits = !host.is_empty() && !bare_six && !host.contains(char::is_whitespace);
    let port = port.parse::<u16>().ok().filter(|port| *port != 0);
    if fits && port.is_some() { Ok(text.to_owned()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn address_without_port_is_refused() {
        for bad in ["", "laptop", "laptop:", ":4242", "laptop:0", "laptop:70000", "fd00::7:4242", "a b:1"] {
            assert!(host_and_port(bad).is_err(), "{bad:?}");
        }
        for good in ["127.0.0.1:1", "[::1]:4242", "laptop.local:4242"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
    }

    #[test]
    fn words_may_come_as_one_or_many_arguments() {
        let cli = Cli::try_parse_from(["cede", "pair", "amber", "river", "--at", "h:1"]).unwrap();
        let Some(Verb::Pair(pair)) = cli.verb else { panic!("not pair") };
        assert_eq!(pair.words, ["amber", "river"]);
    }

    #[test]
    fn address_makes_no_sense_without_words() {
        assert!(Cli::try_parse_from(["cede", "pair", "--at", "h:1"]).is_err());
    }
}
