//! The real agents between two real daemons: what a person types, what the programs then do, what the model is told.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Output, Stdio};
use std::time::{Duration, Instant};

use cede_tests::devices::trees::{dirty, evidence, git};
use cede_tests::devices::{Device, Devices, claude, pair, wait_until};
use cede_tests::lab::{self, Home, Lab};
use cede_wire::control::{Answer, Command, MoveReport, Phase, Progress, Reply, ReplyBody, SessionSummary, exit};
use cede_wire::id::SessionId;
use cede_wire::session::{Activity, NativeId, SessionKey};

use driver::{CLAUDE_CODE, CODEX, Driver, OPENCODE, Terminal, model_never_saw, model_saw};

#[expect(dead_code, reason = "the tests of the adapters use the rest")]
#[path = "adapters/driver.rs"]
mod driver;
#[path = "agents/story.rs"]
mod story;
#[path = "agents/tasks.rs"]
mod tasks;

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");

/// Two devices that say yes to each other, in the laboratory.
struct Desk {
    one: Device,
    two: Device,
    root: PathBuf,
}

impl Desk {
    /// Starts both; the second one finds no agent yet where `bare`.
    fn up(lab: &Lab, bare: bool) -> Self {
        let root = lab.directory("desk");
        let mut desk = Self {
            one: Device::new(&root, Path::new(CEDE), "one"),
            two: Device::new(&root, Path::new(CEDE), "two"),
            root,
        };
        for device in [&mut desk.one, &mut desk.two] {
            device.path = lab.path();
            device.variables = lab.variables();
        }
        if bare {
            desk.two.path = desk.path_without_agents();
            desk.two.variables.clear();
        }
        desk.one.start();
        desk.two.start();
        pair(&desk.one, &desk.two);
        desk.wait_for_link();
        for (device, peer) in [(&desk.one, "two"), (&desk.two, "one")] {
            assert!(device.typed(&["policy", peer, "--yes"]).status.success());
        }
        desk
    }

    fn wait_for_link(&self) {
        let sees = |device: &Device| device.try_status().is_ok_and(|s| s.peers.iter().any(|peer| peer.connected));
        wait_until("both see each other", || sees(&self.one) && sees(&self.two));
    }

    /// A directory with what the daemon needs and no agent.
    fn path_without_agents(&self) -> OsString {
        let bin = self.root.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        for program in ["git", "sh"] {
            let found =
                std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.exists());
            std::os::unix::fs::symlink(found.unwrap(), bin.join(program)).unwrap();
        }
        bin.into_os_string()
    }

    /// The project of the first device, with a history of which the last commit is nowhere else, and a clone of what was
    /// pushed where the second device would put the project.
    fn project(&self, one: &Home<'_>, two: &Home<'_>) {
        dirty(&one.workdir);
        let origin = self.root.join("origin.git");
        std::fs::create_dir(&origin).unwrap();
        git(&origin, &["init", "--quiet", "--bare", "--initial-branch=main", "."]);
        let origin = origin.display().to_string();
        git(&one.workdir, &["remote", "add", "origin", &origin]);
        git(&one.workdir, &["push", "--quiet", "origin", "main~1:refs/heads/main"]);
        git(&two.workdir, &["clone", "--quiet", &origin, "."]);
    }
}

fn home<'a>(lab: &'a Lab, device: &Device) -> Home<'a> {
    lab.furnish(&device.home, &device.state().join("agents"))
}

/// What `cede` said to somebody who typed this in a directory.
struct Typed {
    text: String,
    code: Option<i32>,
}

fn typed(device: &Device, directory: &Path, words: &[&str]) -> Typed {
    let output = device.command(words).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    let said = said(device, words, &output);
    println!("{said}");
    Typed { text: said, code: output.status.code() }
}

fn said(device: &Device, words: &[&str], output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("[{}] $ cede {}\n{out}{err}", device.name, words.join(" "))
}

/// A move that happened.
fn moved(device: &Device, directory: &Path, words: &[&str]) -> MoveReport {
    let words = [words, &["--json"]].concat();
    let output = device.command(&words).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    report(&output).unwrap_or_else(|| panic!("{}", said(device, &words, &output)))
}

fn report(output: &Output) -> Option<MoveReport> {
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let replies = lines.filter_map(|line| serde_json::from_slice::<Reply>(line).ok());
    let mut reports = replies.filter_map(|reply| match reply.body {
        ReplyBody::Done(Answer::Moved(report)) => Some(*report),
        ReplyBody::Done(_)
        | ReplyBody::Failed(_)
        | ReplyBody::Progress(_)
        | ReplyBody::Planned(_)
        | ReplyBody::Pairing(_)
        | ReplyBody::Sending(_)
        | ReplyBody::Terminal(_)
        | ReplyBody::Task(_)
        | ReplyBody::Telling(_) => None,
    });
    let report = reports.next_back().filter(|_| output.status.success())?;
    print_timeline(&report);
    Some(report)
}

fn print_timeline(report: &MoveReport) {
    let MoveReport { bytes_sent, bytes_present, took_ms, pause_ms, .. } = report;
    println!("{bytes_sent} B sent, {bytes_present} B there already, {took_ms} ms, {pause_ms} ms without an actor");
    for Progress { at_ms, phase, bytes, total_bytes, in_charge, .. } in &report.timeline {
        println!("  {at_ms:>6} ms {phase:?}, {bytes} of {total_bytes} B, in charge: {in_charge}");
    }
    report.notes.iter().for_each(|note| println!("  note: {note}"));
}

fn session(device: &Device, id: SessionId) -> SessionSummary {
    device.session(id).unwrap_or_else(|| panic!("{} does not know the session", device.name))
}

/// Talks to the session in a terminal that runs exactly what `cede` told the person to type, and leaves it open; without
/// `tmux`, as a script.
fn go_on_as_told(
    driver: Driver,
    lab: &Lab,
    home: &Home<'_>,
    told: &SessionSummary,
    native: &NativeId,
    prompt: &str,
) -> Option<Terminal> {
    println!("$ {}", told.resume);
    let Some(terminal) = Terminal::open(home, &["sh", "-c", &told.resume]) else {
        let resumed = driver.resume(home, Path::new(&told.directory), native, prompt);
        assert!(resumed.success, "{}", resumed.text);
        return None;
    };
    ready(&terminal, "PLUM");
    terminal.say(prompt);
    let until = Instant::now() + Duration::from_secs(40);
    while model_never_saw(lab, prompt) {
        assert!(Instant::now() < until, "the prompt was not sent: {}", terminal.screen());
        std::thread::sleep(Duration::from_millis(100));
    }
    lab::wait_until("the answer", Duration::from_secs(30), || terminal.screen().contains(&format!("to: {prompt}")));
    Some(terminal)
}

/// Waits until the terminal shows the conversation; whether to trust the directory is answered with yes.
fn ready(terminal: &Terminal, shown: &str) {
    let until = Instant::now() + Duration::from_secs(40);
    while !terminal.screen().contains(shown) {
        assert!(Instant::now() < until, "the conversation is not shown: {}", terminal.screen());
        std::thread::sleep(Duration::from_millis(200));
        let screen = terminal.screen();
        if asks_for_trust(&screen) {
            answer_yes(terminal, &screen);
        }
    }
}

/// Opens the session in a terminal where it no longer is: what is shown names the owner.
fn refused_in_a_terminal(home: &Home<'_>, resume: &str, owner: &str) {
    let Some(terminal) = Terminal::open(home, &["sh", "-c", &format!("{resume}; sleep 60")]) else { return };
    let (until, mut said) = (Instant::now() + Duration::from_secs(40), false);
    while !terminal.screen().contains(owner) {
        let screen = terminal.screen();
        assert!(Instant::now() < until, "the owner is not named: {screen}");
        if asks_for_trust(&screen) {
            answer_yes(&terminal, &screen);
        } else if !said && screen.contains("PLUM") {
            said = true;
            terminal.say("must not be typed");
        }
        std::thread::sleep(Duration::from_millis(200));
        if said {
            println!("SCREEN {screen}");
        }
    }
    println!("[one] the agent's terminal: {}", terminal.screen());
    if said {
        // What the agent itself says of an error must not take its place.
        std::thread::sleep(Duration::from_secs(4));
        assert!(terminal.screen().contains(owner), "the owner is no longer named: {}", terminal.screen());
    }
}

fn asks_for_trust(screen: &str) -> bool {
    screen.to_lowercase().contains("trust")
}

fn answer_yes(terminal: &Terminal, screen: &str) {
    terminal.press(if screen.contains("❯ No") { "Down" } else { "Enter" });
}

fn goes_on_there_and_comes_back(driver: Driver) {
    let Some(lab) = driver::lab() else { return };
    let desk = Desk::up(&lab, false);
    let (a, b) = (&desk.one, &desk.two);
    let (one, two) = (home(&lab, a), home(&lab, b));
    desk.project(&one, &two);
    let clone = evidence(&two.workdir);
    let native = driver.begin(&one, &format!("the secret word is PLUM\n{}", driver.tool));
    let key = SessionKey { agent: driver.kind, native: native.clone() };
    let (id, short) = (key.id(), key.id().short());
    let before = evidence(&one.workdir);
    wait_until("a look at the agents' stores finds it", || a.session(id).is_some());
    let resume_here = session(a, id).resume;

    let there = moved(a, &one.workdir, &["to", "two"]);
    assert_eq!((there.now_at.as_str(), there.session), ("two", id));
    let told = session(b, id);
    let elsewhere = PathBuf::from(&told.directory);
    assert_ne!(elsewhere, two.workdir, "what stood there stays");
    assert_eq!(evidence(&two.workdir), clone);
    assert_eq!(evidence(&elsewhere), before);

    let refused = driver.resume(&one, &one.workdir, &native, "must not be said");
    println!("[one] the agent: {}", refused.text.trim());
    let owner = format!("session {short} moved to two; to get it back, type: cede take {short}");
    assert!(refused.text.contains(&owner), "{}", refused.text);
    assert!(model_never_saw(&lab, "must not be said"));
    refused_in_a_terminal(&one, &resume_here, "moved to two");
    assert!(model_never_saw(&lab, "must not be typed"));
    let again = typed(a, &one.workdir, &["to", "two"]);
    assert_eq!(again.code, Some(i32::from(exit::NOT_OWNER)));
    assert!(again.text.contains("now: the session is at two"), "{}", again.text);

    let left_open = go_on_as_told(driver, &lab, &two, &told, &native, "second turn");
    let there_now = told.directory.as_str();
    assert!(model_saw(&lab, "second turn", &["PLUM", "tool-ran", there_now]), "the earlier turns are in the request");
    std::fs::write(elsewhere.join("at two.txt"), "work went on\n").unwrap();
    let changed = evidence(&elsewhere);

    let back = moved(a, &one.workdir, &["take", &short, "--wait"]);
    assert_eq!(back.now_at, "one");
    assert!(back.token > there.token && back.notes.is_empty(), "{back:?}");
    assert_eq!(evidence(&one.workdir), changed);
    if let Some(terminal) = left_open {
        terminal.say("late words");
        std::thread::sleep(Duration::from_secs(3));
        println!("[two] the agent that was left open: {}", terminal.screen());
        assert!(model_never_saw(&lab, "late words"), "the terminal that was left open is refused");
    }
    let told = session(a, id);
    assert_eq!((told.directory.as_str(), told.turns), (one.workdir.to_str().unwrap(), 2));
    let resumed = driver.resume(&one, &one.workdir, &native, "third turn");
    assert!(resumed.success, "{}", resumed.text);
    assert!(model_saw(&lab, "third turn", &["PLUM", "tool-ran", "second turn"]), "all turns are in the request");
    let refused = driver.resume(&two, &elsewhere, &native, "not here either");
    assert!(refused.text.contains(&format!("session {short} moved to one")), "{}", refused.text);
    assert!(model_never_saw(&lab, "not here either"));
}

/// A command that is still running.
struct Waiting(Child);

impl Waiting {
    fn start(device: &Device, directory: &Path, words: &[&str]) -> Self {
        let mut command = device.command(words);
        command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn end(self) -> MoveReport {
        let output = self.0.wait_with_output().unwrap();
        report(&output).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// A turn that takes so many seconds.
fn begin_turn(driver: Driver, home: &Home<'_>, native: &NativeId, prompt: &str) -> Child {
    let native = native.as_str();
    let script = match driver.kind {
        cede_wire::session::AgentKind::Codex => "exec codex exec --skip-git-repo-check resume \"$0\" \"$1\"",
        cede_wire::session::AgentKind::ClaudeCode => "exec claude -p --resume \"$0\" \"$1\"",
        cede_wire::session::AgentKind::OpenCode => "printf %s \"$1\" | opencode run -s \"$0\"",
        cede_wire::session::AgentKind::Files | cede_wire::session::AgentKind::Terminal => unreachable!("no agent"),
    };
    home.start(&home.workdir, &["sh", "-c", script, native, prompt])
}

fn is_refused_where_it_could_not_go_on(driver: Driver, missing: &str, cure: &str) {
    let Some(lab) = driver::lab() else { return };
    let mut desk = Desk::up(&lab, true);
    let one = home(&lab, &desk.one);
    dirty(&one.workdir);
    let native = driver.begin(&one, "the secret word is PLUM");
    let id = SessionKey { agent: driver.kind, native: native.clone() }.id();
    let before = evidence(&one.workdir);
    let refused = |desk: &Desk| {
        let refused = typed(&desk.one, &one.workdir, &["to", "two"]);
        assert_eq!(refused.code, Some(i32::from(exit::REFUSED)), "{}", refused.text);
        assert!(refused.text.contains("now: the session is at one"), "{}", refused.text);
        refused.text
    };

    let text = refused(&desk);
    let install = format!("{} is not installed here; to install it, type: npm install -g", driver.kind.name());
    assert!(text.contains("why: destination-cannot-resume: two says: ") && text.contains(&install), "{text}");
    let taken = typed(&desk.two, &desk.two.home, &["take", &id.short()]);
    assert_eq!(taken.code, Some(i32::from(exit::REFUSED)), "{}", taken.text);
    assert!(taken.text.contains(&install) && taken.text.contains("--carry-only"), "{}", taken.text);

    desk.two.stop();
    desk.two.path = lab.path();
    desk.two.start();
    desk.wait_for_link();
    let text = refused(&desk);
    assert!(text.contains("destination-cannot-resume") && text.contains(missing) && text.contains(cure), "{text}");
    assert_eq!((evidence(&one.workdir), session(&desk.one, id).state.as_str()), (before, "in charge here"));

    let two = home(&lab, &desk.two);
    desk.two.stop();
    desk.two.variables = lab.variables();
    desk.two.start();
    desk.wait_for_link();
    let mut agent = begin_turn(driver, &one, &native, "slow work\nSLOW 8");
    let busy = || matches!(session(&desk.one, id).activity, Some(Activity::Busy { .. }));
    lab::wait_until("a turn runs", Duration::from_secs(20), || !model_never_saw(&lab, "slow work") && busy());
    let text = refused(&desk);
    assert!(text.contains("in-flight-work") && text.contains("or add --wait"), "{text}");
    assert!(agent.try_wait().unwrap().is_none(), "the turn was left alone");
    let waiting = Waiting::start(&desk.one, &one.workdir, &["to", "two", "--wait", "--json"]);
    assert!(agent.wait().unwrap().success(), "the turn came to its end");
    let there = waiting.end();
    assert!(there.timeline.iter().any(|step| step.phase == Phase::Waiting), "{:?}", there.timeline);
    let told = session(&desk.two, id);
    let resumed = driver.resume(&two, Path::new(&told.directory), &native, "go on");
    assert!(resumed.success, "{}", resumed.text);
    assert!(model_saw(&lab, "go on", &["PLUM", "slow work", "to: slow work"]));
    let Ok(Answer::Doctor { checks }) = desk.two.ask(Command::Doctor) else { panic!("no checks") };
    let said = checks.iter().find(|check| check.what == driver.kind.name()).unwrap();
    assert_eq!(said.result, "ok", "{said:?}");
}

/// A process that does not end when it is asked to.
struct Stubborn(Child);

impl Stubborn {
    fn start() -> Self {
        let script = "trap '' TERM; echo ready; while :; do sleep 1; done";
        let mut child =
            Program::new("sh").args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child)
    }
}

impl Drop for Stubborn {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Shows: H-16
#[test]
fn who_asks_for_a_session_hears_why_its_owner_could_not_let_go() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let tree = a.home.join("project");
    dirty(&tree);
    let planted = claude::plant(&a.home, &tree, 3);
    let agent = Stubborn::start();
    claude::register(&a.home, &planted, agent.0.id(), "idle");
    wait_until("a look at the agents' stores finds it", || a.session(planted.id).is_some());
    let refused = typed(b, &b.home, &["take", &planted.id.short(), "--carry-only"]);
    assert_eq!(refused.code, Some(i32::from(exit::REFUSED)), "{}", refused.text);
    assert!(refused.text.contains("in-flight-work: the session is in use by process"), "{}", refused.text);
    assert!(refused.text.contains("(there: close it, then repeat the command)"), "{}", refused.text);
    assert!(!refused.text.contains("in charge: server"), "it never was: {}", refused.text);
    assert_eq!(session(a, planted.id).state, "in charge here");
}

/// Shows: A-1, H-25
#[test]
fn codex_goes_on_at_the_other_device_and_comes_back() {
    goes_on_there_and_comes_back(CODEX);
}

/// Shows: A-1, H-25
#[test]
fn claude_code_goes_on_at_the_other_device_and_comes_back() {
    goes_on_there_and_comes_back(CLAUDE_CODE);
}

/// Shows: A-1, H-25
#[test]
fn opencode_goes_on_at_the_other_device_and_comes_back() {
    goes_on_there_and_comes_back(OPENCODE);
}

/// Shows: A-10
#[test]
fn codex_is_refused_where_it_could_not_go_on() {
    is_refused_where_it_could_not_go_on(CODEX, "the model provider lab is not configured", "[model_providers.lab]");
}

/// Shows: A-10
#[test]
fn claude_code_is_refused_where_it_could_not_go_on() {
    is_refused_where_it_could_not_go_on(CLAUDE_CODE, "claude-code is not logged in here", "claude auth login");
}

/// Shows: A-10
#[test]
fn opencode_is_refused_where_it_could_not_go_on() {
    is_refused_where_it_could_not_go_on(OPENCODE, "the model provider lab is not configured", "opencode.json");
}
