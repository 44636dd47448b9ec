//! Each command: what is asked of the daemon, and what is done with the answer.

mod letters;
pub(crate) mod moving;
mod notify;
mod pairing;
mod seizing;
pub(crate) mod sending;
pub(crate) mod tasks;
mod terminals;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cede_wire::control::terminal::Keyboard;
use cede_wire::control::{Answer, Check, Command, Failure, MoveRequest, ReplyBody, exit};
use cede_wire::record::PeerPolicy;
use clap::CommandFactory;

use crate::args::{ApproverAction, Cli, DeviceAction, Policy, To, TransferAction, Verb};
use crate::client::Client;
use crate::cockpit;
use crate::demo;
use crate::fault;
use crate::limits::STOPPING;
use crate::mcp;
use crate::places::Places;
use crate::show::inventory::Paths;
use crate::show::{self, doctor};
use crate::terminal::Terminal;
use crate::up;

/// Does what was typed; the exit code comes back.
///
/// # Errors
/// The failure to show; its exit code ends the command.
pub(crate) fn run(cli: Cli, terminal: &Terminal) -> Result<u8, Failure> {
    if let Some(Verb::Completions { shell }) = cli.verb {
        return Ok(completions(shell, terminal));
    }
    let places = Places::resolve(cli.global.home.as_deref(), &|name| std::env::var_os(name))?;
    let hand = Hand { client: Client::new(&places.socket), terminal };
    let verb = match cli.verb {
        None if terminal.screen => return cockpit::run(&hand.client, cli.global.home.as_deref()),
        verb => verb.unwrap_or(Verb::Status),
    };
    match verb {
        Verb::Up(options) => up::run(options, places, terminal),
        Verb::Pair(pair) if pair.words.is_empty() => pairing::show_words(&hand, &pair),
        Verb::Pair(pair) => pairing::join(&hand, &pair),
        Verb::Status => hand.ask(Command::Status),
        Verb::Ls { here } => hand.list(!here),
        Verb::To(to) => hand.to(&to),
        Verb::Take { session, force: true, yes, .. } => seizing::take(&hand, session, yes),
        Verb::Take { session, wait, carry_only, .. } => moving::take(&hand, session, wait, carry_only),
        Verb::Confirm { session, all } => hand.ask(Command::Confirm { session: session.filter(|_| !all) }),
        Verb::Claim { session } => hand.ask(Command::Claim { session }),
        Verb::Cancel { handoff } => hand.ask(Command::Cancel { handoff }),
        Verb::Tell(tell) => letters::tell(&hand, tell),
        Verb::Inbox(inbox) => letters::inbox(&hand, inbox),
        Verb::Ask(ask) => tasks::ask(&hand, ask),
        Verb::Tasks(tasks) => tasks::tasks(&hand, tasks),
        Verb::Devices { action: Some(DeviceAction::Leave { yes }) } => hand.leave(yes, &places.socket),
        Verb::Devices { action: Some(DeviceAction::Revoke { device, yes }) } => hand.revoke(device, yes),
        Verb::Devices { action: Some(DeviceAction::Address { device, address }) } => {
            hand.ask(Command::Address { device, address })
        }
        Verb::Devices { action: None } => hand.ask(Command::Devices),
        Verb::Policy(policy) => hand.ask(policy_command(policy)),
        Verb::Approvals { all } => hand.approvals(all),
        Verb::Approvers { action: None } => hand.ask(Command::Approvers),
        Verb::Approvers { action: Some(ApproverAction::Add { device }) } => {
            hand.ask(Command::SetApprover { device, may: true })
        }
        Verb::Approvers { action: Some(ApproverAction::Remove { device }) } => {
            hand.ask(Command::SetApprover { device, may: false })
        }
        Verb::Allow { id } => hand.ask(Command::Decide { approval: id, yes: true }),
        Verb::Deny { id } => hand.ask(Command::Decide { approval: id, yes: false }),
        Verb::Notify { action } => notify::run(&hand, action),
        Verb::Log { settle: Some(device), .. } => hand.ask(Command::SettleLog { device }),
        Verb::Log { verify, tail, .. } => hand.log(verify, tail),
        Verb::Send(send) => sending::send(&hand, &send),
        Verb::Transfers { action: None } => hand.ask(Command::Transfers),
        Verb::Transfers { action: Some(TransferAction::Cancel { id }) } => {
            hand.ask(Command::StopTransfer { transfer: id })
        }
        Verb::Adopt { directory } => hand.ask(adopt(&directory)?),
        Verb::Doctor => hand.doctor(&places),
        Verb::Stop { yes } => hand.stop(yes, &places.socket),
        Verb::Run(run) => terminals::run(&hand, run),
        Verb::Attach { session } => terminals::view(&hand, session, Keyboard::IfFree),
        Verb::Watch { session } => terminals::view(&hand, session, Keyboard::No),
        Verb::Drive { session, force } => {
            terminals::view(&hand, session, if force { Keyboard::Insisted } else { Keyboard::Wanted })
        }
        Verb::Hold { session } => hand.ask(Command::Hold { session }),
        Verb::Release { session } => hand.ask(Command::Release { session }),
        Verb::Mcp => mcp::run(hand.client),
        Verb::Demo(options) => demo::run(&options, terminal),
        Verb::Completions { shell } => Ok(completions(shell, terminal)),
    }
}

/// The daemon on one side, the person on the other.
#[derive(Debug)]
pub(crate) struct Hand<'a> {
    pub(crate) client: Client,
    pub(crate) terminal: &'a Terminal,
}

impl Hand<'_> {
    /// Asks, and shows the answer.
    pub(crate) fn ask(&self, command: Command) -> Result<u8, Failure> {
        let answer = self.client.ask(command)?;
        self.show(answer, FEW);
        Ok(exit::OK)
    }

    /// A record that does not hold is a failure, after it was shown.
    fn log(&self, verify: bool, tail: u32) -> Result<u8, Failure> {
        let answer = self.client.ask(Command::Log { tail: Some(tail), verify })?;
        let broken = matches!(&answer, Answer::Log { verdict: Some(verdict), .. } if !verdict.holds);
        self.show(answer, FEW);
        Ok(if broken { exit::FAILED } else { exit::OK })
    }

    /// Ends the daemon, and waits until it is gone: the next `cede up` finds the place free.
    fn stop(&self, yes: bool, socket: &Path) -> Result<u8, Failure> {
        if !yes {
            terminals::may_end(self)?;
        }
        self.end_with(Command::Stop, socket)
    }

    /// Who cannot be asked is told what it means, and what to type for a yes.
    fn leave(&self, yes: bool, socket: &Path) -> Result<u8, Failure> {
        let confirmed =
            yes || self.terminal.ask("Leave the mesh and get a new key? It must be paired again") == Some(true);
        self.end_with(Command::LeaveMesh { confirmed }, socket)
    }

    /// A removal is for good: the daemon says what it means, the person says yes.
    fn revoke(&self, device: String, yes: bool) -> Result<u8, Failure> {
        let command = |confirmed| Command::Revoke { device: device.clone(), confirmed };
        match self.client.ask(command(yes)) {
            Err(meaning) if meaning.exit == exit::PENDING && !yes => {
                self.consent(meaning, "Do it?")?;
                self.ask(command(true))
            }
            Err(failure) => Err(failure),
            Ok(answer) => {
                self.show(answer, FEW);
                Ok(exit::OK)
            }
        }
    }

    /// Asks with the reason in the question. Who said no is not told the reason again.
    pub(crate) fn consent(&self, failure: Failure, question: &str) -> Result<(), Failure> {
        match self.terminal.ask(&format!("{}. {question}", failure.why)) {
            Some(true) => Ok(()),
            Some(false) => Err(Failure { why: "the answer was no".to_owned(), ..failure }),
            None => Err(failure),
        }
    }

    fn end_with(&self, command: Command, socket: &Path) -> Result<u8, Failure> {
        let answer = self.client.ask(command)?;
        let late = Instant::now() + STOPPING;
        while socket.exists() && Instant::now() < late {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.show(answer, FEW);
        Ok(exit::OK)
    }

    /// Shows the last line of an answer. False: not all of it was written.
    pub(crate) fn show(&self, answer: Answer, paths: Paths) -> bool {
        self.terminal.data(&show::answer(&answer, paths, now())) && self.terminal.reply(&ReplyBody::Done(answer))
    }

    fn list(&self, peers: bool) -> Result<u8, Failure> {
        let answer = self.client.ask(Command::Sessions { peers })?;
        if let Answer::Sessions { silent, .. } = &answer {
            silent.iter().for_each(|who| self.terminal.say(format!("not answered: {who}")));
        }
        self.show(answer, FEW);
        Ok(exit::OK)
    }

    fn approvals(&self, all: bool) -> Result<u8, Failure> {
        let answer = self.client.ask(Command::Approvals)?;
        self.show(answer, if all { Paths::All } else { FEW });
        Ok(exit::OK)
    }

    fn to(&self, to: &To) -> Result<u8, Failure> {
        let (session, directory) = match to.files {
            true => (None, text_of(&real(directory_of(to))?)?),
            false => (to.session.clone(), text_of(&present()?)?),
        };
        let request = MoveRequest {
            device: to.device.clone(),
            session,
            directory,
            files: to.files,
            dry_run: to.dry_run,
            wait: to.wait,
            include_ignored: to.include_ignored.clone(),
            exclude: to.exclude.clone(),
            carry_only: to.carry_only,
            confirm_large: to.yes_large,
            confirm_secrets: to.yes_secrets,
        };
        moving::to(self, request)
    }

    /// Without a daemon, what can be checked from here is checked, and the exit code says that none runs.
    fn doctor(&self, places: &Places) -> Result<u8, Failure> {
        let (checks, without) = match self.client.ask(Command::Doctor) {
            Ok(Answer::Doctor { checks }) => (checks, exit::FAILED),
            Ok(_) => return Err(fault::unexpected_answer()),
            Err(failure) if failure.exit == exit::NO_DAEMON => (checks_from_here(&failure, places), exit::NO_DAEMON),
            Err(failure) => return Err(failure),
        };
        let failed = doctor::any_failed(&checks);
        self.show(Answer::Doctor { checks }, FEW);
        Ok(if failed { without } else { exit::OK })
    }
}

fn checks_from_here(failure: &Failure, places: &Places) -> Vec<Check> {
    let check = |what: &str, result: &str, found: &str, cure: &str| Check {
        what: what.to_owned(),
        result: result.to_owned(),
        found: found.to_owned(),
        cure: cure.to_owned(),
    };
    let git = std::process::Command::new("git").arg("--version").stderr(Stdio::null()).output();
    let git = match git.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) {
        Ok(version) => check("git", "ok", &version, ""),
        Err(error) => check("git", "fail", &error.to_string(), "install git with your system's packages"),
    };
    let state = if places.state.is_dir() { "is there" } else { "is not there yet, `cede up` makes it" };
    vec![
        check("daemon", "fail", &failure.why, &failure.cure),
        check("state", "ok", &format!("{} {state}", places.state.display()), ""),
        git,
    ]
}

fn policy_command(policy: Policy) -> Command {
    let moves = match (policy.ask, policy.yes) {
        (_, true) => Some(PeerPolicy::Yes),
        (true, false) => Some(PeerPolicy::Ask),
        (false, false) => None,
    };
    match (policy.device, policy.capability, policy.rule) {
        (Some(device), Some(capability), Some(rule)) => {
            Command::SetRule { device, capability, rule, seconds: policy.lasts.map(|lasts| lasts.as_secs()) }
        }
        (Some(device), _, _) if moves.is_some() => Command::Policy { device, policy: moves },
        (device, _, _) => Command::Policies { device },
    }
}

fn directory_of(to: &To) -> &Path {
    Path::new(to.session.as_deref().unwrap_or("."))
}

fn adopt(directory: &Path) -> Result<Command, Failure> {
    Ok(Command::Adopt { directory: text_of(&real(directory)?)? })
}

fn real(directory: &Path) -> Result<std::path::PathBuf, Failure> {
    let real = directory.canonicalize().and_then(|real| {
        if real.is_dir() { Ok(real) } else { Err(std::io::Error::from(std::io::ErrorKind::NotADirectory)) }
    });
    real.map_err(|error| {
        let what = format!("{} cannot become a session", directory.display());
        fault::local(exit::FAILED, &what, &error.to_string(), "name a directory that exists: cede adopt DIR")
    })
}

fn present() -> Result<std::path::PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        fault::local(exit::FAILED, "the present directory is gone", &error.to_string(), "go to one that exists: cd")
    })
}

/// The control protocol is text; a directory whose name is not is refused rather than mistaken for another.
pub(crate) fn text_of(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let why = format!("its name is not UTF-8: {}", path.display());
        fault::local(exit::FAILED, "it cannot be named to the daemon", &why, "rename it")
    })
}

fn completions(shell: clap_complete::Shell, terminal: &Terminal) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cede", &mut script);
    terminal.out(&String::from_utf8_lossy(&script));
    exit::OK
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What is listed of long lists unless `--all` is said.
pub(crate) const FEW: Paths = Paths::Few { command: "cede approvals --all" };
