//! `cede demo`: two daemons in throw-away homes, a real handoff there and back, and the evidence that nothing changed
//! on the way. Everything goes through the control sockets, as if two people typed.

mod evidence;
mod homes;
mod operator;
mod recorded;
mod repository;
mod stand_in;
mod story;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cede_wire::control::{
    Answer, Command, Failure, MoveReport, MoveRequest, PairingEvent, ReplyBody, SessionSummary, exit,
};
use cede_wire::session::AgentKind;

use crate::args::{Demo, DemoAgent};
use crate::demo::evidence::Evidence;
use crate::demo::homes::{Device, Running, cannot, end_all};
use crate::demo::operator::Operator;
use crate::demo::stand_in::Programs;
use crate::demo::story::Story;
use crate::fault;
use crate::interrupt::on_interrupt;
use crate::limits::{ANSWER_WAIT, ARRIVAL, OPERATOR_LOOKS};
use crate::show::moves::Sides;
use crate::terminal::Terminal;
use crate::verbs::{Hand, moving};

/// Runs the demo; it succeeds only if everything held.
///
/// # Errors
/// What did not hold. No daemon runs on, and nothing is left behind unless `--keep` was said.
pub(crate) fn run(demo: &Demo, terminal: &Terminal) -> Result<u8, Failure> {
    if let Some(stand_in) = &demo.stand_in {
        return stand_in::answer(stand_in);
    }
    repository::need_git()?;
    let (running, interrupted) = (Running::default(), Arc::new(AtomicBool::new(false)));
    watch_for_ctrl_c(&running, &interrupted);
    let root = tempfile::Builder::new().prefix("cede-demo-").tempdir().map_err(|error| cannot("begin", &error))?;
    let mut story = Story::new(terminal);
    let told = tell(demo, root.path(), &running, &mut story);
    let left = clean_up(demo, root, terminal);
    match told {
        _ if interrupted.load(Ordering::SeqCst) => Err(stopped_by_the_person()),
        Err(failure) => Err(failure),
        Ok(()) => left.map(|()| story.end(demo.keep)),
    }
}

fn watch_for_ctrl_c(running: &Running, interrupted: &Arc<AtomicBool>) {
    let (running, interrupted) = (running.clone(), interrupted.clone());
    on_interrupt(move || {
        interrupted.store(true, Ordering::SeqCst);
        end_all(&running);
        true
    });
}

fn stopped_by_the_person() -> Failure {
    fault::local(exit::INTERRUPTED, "interrupted", "both daemons were ended", "")
}

fn clean_up(demo: &Demo, root: tempfile::TempDir, terminal: &Terminal) -> Result<(), Failure> {
    if demo.keep {
        terminal.say(format!("kept: {}", root.keep().display()));
        return Ok(());
    }
    let path = root.path().to_owned();
    root.close().map_err(|error| cannot("remove its files", &error))?;
    if path.exists() { Err(cannot("remove its files", &std::io::Error::other("they came back"))) } else { Ok(()) }
}

/// From two empty homes to a session that went away and came back.
fn tell(demo: &Demo, root: &Path, running: &Running, story: &mut Story<'_>) -> Result<(), Failure> {
    let programs = Programs::of(root)?;
    let laptop = Device::start(root, "laptop", &programs.path, running)?;
    let server = Device::start(root, "server", &programs.path, running)?;
    story.devices(root, &programs);
    if let Err(failure) = there_and_back(demo, root, [&laptop, &server], story) {
        [&laptop, &server].into_iter().for_each(|device| story.last_words(device));
        return Err(failure);
    }
    laptop.stop()?;
    server.stop()
}

fn there_and_back(demo: &Demo, root: &Path, devices: [&Device; 2], story: &mut Story<'_>) -> Result<(), Failure> {
    let [laptop, server] = devices;
    story.paired(&pair(laptop, server)?);
    let tree = laptop.home.join("project");
    repository::make(&tree, &root.join("origin.git"), &laptop.home)?;
    let session = session_to_move(demo.agent, laptop, &tree, story)?;
    let before = evidence(&session, laptop, &tree)?;
    story.made(&session, &before);

    let _operators = [Operator::of(laptop, story), Operator::of(server, story)];
    let there = go(laptop, &session, &tree, story)?;
    let far = arrived(server, &session)?;
    story.moved(&there, "laptop", "server", &far);
    owned_by(server, devices, &session)?;
    held(&before, &evidence(&session, server, &far)?, "server")?;
    story.equal("server", &before);

    work_on(&far)?;
    let worked = evidence(&session, server, &far)?;
    story.worked();
    let back = come_back(laptop, &session, story)?;
    let near = arrived(laptop, &session)?;
    story.moved(&back, "server", "laptop", &near);
    owned_by(laptop, devices, &session)?;
    held(&worked, &evidence(&session, laptop, &near)?, "laptop")?;
    same_place(&tree, &near)?;
    stayed(&tree, &far)?;
    story.equal("laptop", &worked);
    Ok(())
}

/// The trusted device shows words, the other one enters them; the comparison strings are compared before the yes.
fn pair(host: &Device, guest: &Device) -> Result<String, Failure> {
    let address = host.status()?.listening;
    let mut lines = host.client.open(Command::Pair { expires_in_s: None }, Some(ANSWER_WAIT))?;
    let mut guest = Guest { device: guest, joining: None };
    let mut agreed = String::new();
    loop {
        match lines.next()? {
            ReplyBody::Pairing(PairingEvent::Words { words, .. }) => guest.enter(words, &address)?,
            ReplyBody::Pairing(PairingEvent::Compare { comparison, .. }) => {
                let same = guest.shows()? == comparison;
                host.client.ask(Command::PairConfirm { accept: same })?;
                agreed = comparison;
            }
            ReplyBody::Done(_) => return guest.joined().map(|()| agreed),
            ReplyBody::Failed(failure) => return Err(failure),
            ReplyBody::Progress(_)
            | ReplyBody::Planned(_)
            | ReplyBody::Sending(_)
            | ReplyBody::Terminal(_)
            | ReplyBody::Task(_)
            | ReplyBody::Telling(_) => {}
        }
    }
}

/// The device that joins, as the one that welcomes it sees it.
struct Guest<'a> {
    device: &'a Device,
    joining: Option<crate::client::Answers>,
}

impl Guest<'_> {
    fn enter(&mut self, words: String, address: &str) -> Result<(), Failure> {
        let command = Command::PairWith { words, address: Some(address.to_owned()), name: None };
        self.joining = Some(self.device.client.open(command, Some(ANSWER_WAIT))?);
        Ok(())
    }

    fn shows(&mut self) -> Result<String, Failure> {
        loop {
            match self.next()? {
                ReplyBody::Pairing(PairingEvent::Compare { comparison, .. }) => return Ok(comparison),
                ReplyBody::Failed(failure) => return Err(failure),
                ReplyBody::Done(_) => return Err(fault::unexpected_answer()),
                ReplyBody::Pairing(PairingEvent::Words { .. })
                | ReplyBody::Progress(_)
                | ReplyBody::Planned(_)
                | ReplyBody::Sending(_)
                | ReplyBody::Terminal(_)
                | ReplyBody::Task(_)
                | ReplyBody::Telling(_) => {}
            }
        }
    }

    fn joined(mut self) -> Result<(), Failure> {
        loop {
            match self.next()? {
                ReplyBody::Done(_) => return Ok(()),
                ReplyBody::Failed(failure) => return Err(failure),
                ReplyBody::Pairing(_)
                | ReplyBody::Sending(_)
                | ReplyBody::Progress(_)
                | ReplyBody::Planned(_)
                | ReplyBody::Terminal(_)
                | ReplyBody::Task(_)
                | ReplyBody::Telling(_) => {}
            }
        }
    }

    fn next(&mut self) -> Result<ReplyBody, Failure> {
        let joining = self.joining.as_mut().ok_or_else(fault::unexpected_answer)?;
        Ok(joining.next()?)
    }
}

/// Plants a session of every agent and lists them; the one of `agent` is the one that moves.
fn session_to_move(
    agent: DemoAgent,
    laptop: &Device,
    tree: &Path,
    story: &mut Story<'_>,
) -> Result<SessionSummary, Failure> {
    let mut planted = recorded::plant_all(laptop, tree);
    planted.sessions.insert(AgentKind::Files, adopt(laptop, tree)?.native);
    story.planted(&planted);
    let listed = sessions(laptop)?;
    story.listed(&listed);
    let unlisted = planted.sessions.iter().find(|(_, native)| listed.iter().all(|session| session.native != **native));
    if let Some((agent, native)) = unlisted {
        let why = format!("no adapter lists {native} of {}", agent.name());
        return Err(broken("the daemon does not see a session that was planted", &why));
    }
    let kind = match agent {
        DemoAgent::Files => AgentKind::Files,
        DemoAgent::Codex => AgentKind::Codex,
        DemoAgent::ClaudeCode => AgentKind::ClaudeCode,
        DemoAgent::OpenCode => AgentKind::OpenCode,
    };
    let found = planted.sessions.get(&kind);
    let found = found.and_then(|native| listed.into_iter().find(|session| session.native == *native));
    found.ok_or_else(|| {
        let why = planted.missing.get(&kind).map_or("", String::as_str);
        let what = format!("there is no recorded session of {}", kind.name());
        fault::local(exit::FAILED, &what, why, "choose another: cede demo --agent claude-code")
    })
}

fn adopt(laptop: &Device, tree: &Path) -> Result<SessionSummary, Failure> {
    let directory = tree.to_string_lossy().into_owned();
    let Answer::Adopted(session) = laptop.client.ask(Command::Adopt { directory })? else {
        return Err(fault::unexpected_answer());
    };
    Ok(*session)
}

fn sessions(device: &Device) -> Result<Vec<SessionSummary>, Failure> {
    let Answer::Sessions { sessions, .. } = device.client.ask(Command::Sessions { peers: false })? else {
        return Err(fault::unexpected_answer());
    };
    Ok(sessions)
}

fn evidence(session: &SessionSummary, device: &Device, tree: &Path) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::of(tree, &device.home)?;
    recorded::add_conversation(&mut evidence, session, device)?;
    Ok(evidence)
}

fn go(laptop: &Device, session: &SessionSummary, tree: &Path, story: &mut Story<'_>) -> Result<MoveReport, Failure> {
    story.typed("laptop", &format!("cede to server {} --carry-only", session.id.short()));
    let request = MoveRequest {
        device: "server".to_owned(),
        session: Some(session.id.to_string()),
        directory: tree.to_string_lossy().into_owned(),
        carry_only: true,
        ..MoveRequest::default()
    };
    let sides = Sides { source: "laptop".to_owned(), destination: "server".to_owned() };
    watch(laptop, &sides, session, Command::To(request), story)
}

fn come_back(laptop: &Device, session: &SessionSummary, story: &mut Story<'_>) -> Result<MoveReport, Failure> {
    story.typed("laptop", &format!("cede take {} --carry-only", session.id.short()));
    let sides = Sides { source: "server".to_owned(), destination: "laptop".to_owned() };
    let command = Command::Take { session: session.id.to_string(), wait: false, carry_only: true };
    watch(laptop, &sides, session, command, story)
}

fn watch(
    device: &Device,
    sides: &Sides,
    session: &SessionSummary,
    command: Command,
    story: &Story<'_>,
) -> Result<MoveReport, Failure> {
    let hand = Hand { client: device.client.clone(), terminal: story.terminal() };
    let Answer::Moved(report) = moving::watched(&hand, sides, session.id.to_string(), command)? else {
        return Err(fault::unexpected_answer());
    };
    Ok(*report)
}

/// A person goes on with the work at the other device.
fn work_on(tree: &Path) -> Result<(), Failure> {
    let write = |name: &str, text: &str| std::fs::write(tree.join(name), text);
    let written =
        write("README.md", "# A small thing, renamed\n").and_then(|()| write("from-server.txt", "done there\n"));
    written.map_err(|error| cannot("work on at the other device", &error))
}

/// Both devices name the same owner, and only the owner says that it is in charge.
fn owned_by(owner: &Device, devices: [&Device; 2], session: &SessionSummary) -> Result<(), Failure> {
    for device in devices {
        let status = device.status()?;
        let said = status.sessions.iter().find(|listed| listed.id == session.id);
        let fits = said.is_some_and(|said| said.owner == owner.name && said.here == (device.name == owner.name));
        if !fits {
            let said =
                said.map_or_else(|| "nothing".to_owned(), |said| format!("{}, owner {}", said.state, said.owner));
            return Err(broken(&format!("{} does not say that {} owns the session", device.name, owner.name), &said));
        }
    }
    Ok(())
}

fn held(before: &Evidence, after: &Evidence, at: &str) -> Result<(), Failure> {
    let differences = before.differences(after);
    if differences.is_empty() {
        return Ok(());
    }
    Err(broken(&format!("what arrived at {at} is not what left"), &differences.join("; ")))
}

/// Ignored files stayed where they were and did not travel.
fn stayed(tree: &Path, far: &Path) -> Result<(), Failure> {
    let (here, there) = (tree.join(repository::IGNORED_DIRECTORY), far.join(repository::IGNORED_DIRECTORY));
    if here.join("cache.bin").is_file() && !there.exists() {
        return Ok(());
    }
    Err(broken("ignored files did not stay where they were", &here.display().to_string()))
}

fn same_place(tree: &Path, near: &Path) -> Result<(), Failure> {
    let same = near.canonicalize().ok() == tree.canonicalize().ok();
    if same { Ok(()) } else { Err(broken("the session came back into another directory", &near.display().to_string())) }
}

/// Where the session lies at its new owner, as soon as the move has ended there too: the owner is in charge before the
/// last file is in its place.
fn arrived(device: &Device, session: &SessionSummary) -> Result<PathBuf, Failure> {
    let until = Instant::now() + ARRIVAL;
    while Instant::now() < until {
        let moving = device.status()?.moves.iter().any(|moving| moving.progress.session == session.id);
        let listed = sessions(device)?.into_iter().find(|listed| listed.id == session.id);
        if let Some(listed) = listed.filter(|listed| !moving && listed.here && listed.activity.is_some()) {
            return below_home(device, PathBuf::from(listed.directory));
        }
        std::thread::sleep(OPERATOR_LOOKS);
    }
    Err(broken(&format!("the session was not put in its place at {}", device.name), "no agent's store lists it there"))
}

/// Both devices share one disk here: a directory of the other one would compare well with itself.
fn below_home(device: &Device, directory: PathBuf) -> Result<PathBuf, Failure> {
    if directory.starts_with(&device.home) {
        return Ok(directory);
    }
    let what = format!("the session lies outside of the home of {}", device.name);
    Err(broken(&what, &directory.display().to_string()))
}

fn broken(what: &str, why: &str) -> Failure {
    fault::local(exit::FAILED, what, why, "run it again with --keep, and look at both homes")
}

/// Milliseconds since then.
pub(crate) fn since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
