//! Two real daemons, from the command to the bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cede_agent::adapter::recorded::{Story, plant};
use cede_agent::adapter::{Adapter, Surroundings, TranscriptFile, adapters};
use cede_carrier::endpoint::Endpoint;
use cede_carrier::gate::Gate;
use cede_seal::device::LocalDevice;
use cede_tests::devices::trees::{dirty, evidence, names};
use cede_tests::devices::{Device, Devices, claude, pair, pair_with, request, show_words, trees, wait_until};
use cede_tests::proxy::Proxy;
use cede_wire::control::{Answer, ApprovalSummary, Command, Failure, MoveReport, MoveRequest, Phase, ReplyBody, exit};
use cede_wire::custody::Head;
use cede_wire::id::{DeviceKey, MeshId, SessionId};
use cede_wire::message::{Hello, PROTOCOL_MAX};
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, SessionKey};

#[path = "e2e/anchors.rs"]
mod anchors;
#[path = "e2e/approvers.rs"]
mod approvers;
#[path = "e2e/astray.rs"]
mod astray;
#[path = "e2e/authority.rs"]
mod authority;
#[path = "e2e/cockpit.rs"]
mod cockpit;
#[path = "e2e/credentials.rs"]
mod credentials;
#[path = "e2e/expiry.rs"]
mod expiry;
#[path = "e2e/faults.rs"]
mod faults;
#[path = "e2e/files.rs"]
mod files;
#[path = "e2e/letters.rs"]
mod letters;
#[path = "e2e/meeting.rs"]
mod meeting;
#[path = "e2e/people.rs"]
mod people;
#[path = "e2e/scope.rs"]
mod scope;
#[path = "e2e/seize.rs"]
mod seize;
#[path = "e2e/tasks.rs"]
mod tasks;
#[path = "e2e/terminals.rs"]
mod terminals;
#[path = "e2e/terminals_afar.rs"]
mod terminals_afar;
#[path = "e2e/truth.rs"]
mod truth;

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");

fn project(device: &Device) -> PathBuf {
    let tree = device.home.join("project");
    dirty(&tree);
    tree
}

fn adopted(device: &Device) -> (PathBuf, SessionId) {
    let tree = project(device);
    let id = device.adopt(&tree).id;
    (tree, id)
}

fn text(failure: &Failure) -> String {
    format!("{} | {} | {} | now at {:?}", failure.what, failure.why, failure.cure, failure.now_at)
}

fn refused<T: core::fmt::Debug>(result: Result<T, Failure>) -> Failure {
    let failure = result.expect_err("a refusal");
    println!("{}", text(&failure));
    failure
}

fn phases(report: &MoveReport) -> Vec<Phase> {
    let mut phases: Vec<Phase> = report.timeline.iter().map(|step| step.phase).collect();
    phases.dedup();
    phases
}

fn state(device: &Device, id: SessionId) -> String {
    device.session(id).map_or_else(|| "unknown".to_owned(), |session| session.state)
}

/// Shows: H-12, H-25, T-1, T-6
#[test]
fn dirty_tree_goes_there_and_back_and_stays_what_it_was() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let before = evidence(&tree);
    let there = a.to("server", id).unwrap();
    assert_eq!(there.now_at, "server");
    assert_eq!(
        phases(&there),
        [Phase::Preparing, Phase::Offered, Phase::Transferring, Phase::Staged, Phase::Released, Phase::Committed]
    );
    let at_b = b.home.join("project");
    assert_eq!(evidence(&at_b), before);
    assert_eq!((state(a, id).as_str(), state(b, id).as_str()), ("at server", "in charge here"));
    let failed = refused(a.to("server", id));
    assert_eq!((failed.exit, failed.now_at.as_deref()), (exit::NOT_OWNER, Some("server")));
    std::fs::write(at_b.join("at the server.txt"), "work went on\n").unwrap();
    let changed = evidence(&at_b);
    let back = b.to("laptop", id).unwrap();
    assert_eq!(evidence(&tree), changed);
    assert_eq!((state(a, id).as_str(), state(b, id).as_str()), ("in charge here", "at laptop"));
    assert!(back.token > there.token, "{:?} {:?}", back.token, there.token);
    assert!(back.notes.is_empty(), "{:?}", back.notes);
    nothing_left(a);
    nothing_left(b);
}

/// No staging, no arrival, no chunks and no work files of a move that ended.
fn nothing_left(device: &Device) {
    let clean = || {
        let staging = names(&device.home).into_iter().filter(|name| name.starts_with(".cede-")).collect::<Vec<_>>();
        let arrivals = names(&device.state().join("arrivals"));
        let stages = names(&device.state().join("stages"));
        (staging, arrivals, stages)
    };
    let until = Instant::now() + Duration::from_secs(10);
    while clean() != (vec![], vec![], vec![]) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(clean(), (vec![], vec![], vec![]), "left behind at {}", device.name);
}

/// Shows: T-11
#[test]
fn many_moves_leave_one_catalog_a_session() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    for round in 0..3 {
        std::fs::write(tree.join("new file.txt"), format!("round {round}\n")).unwrap();
        a.to("server", id).unwrap();
        b.to("laptop", id).unwrap();
    }
    for device in [a, b] {
        let catalogs = names(&device.state().join("objects"));
        assert_eq!(catalogs.len(), 1, "{} keeps {catalogs:?}", device.name);
    }
}

fn adapter(device: &Device, agent: AgentKind) -> Box<dyn Adapter> {
    let around = Surroundings::plain(&device.home, &device.state().join("agents"), std::env::var_os("PATH").unwrap());
    adapters(&around).into_iter().find(|adapter| adapter.agent() == agent).unwrap()
}

/// Every file of the conversation, and where the turn log ends.
fn conversation(device: &Device, key: &SessionKey) -> (Head, Vec<(String, Vec<u8>)>) {
    let scratch = tempfile::tempdir().unwrap();
    let transcript = adapter(device, key.agent).capture(&key.native, scratch.path()).unwrap();
    let read = |file: TranscriptFile| (file.path.shown(), std::fs::read(file.local).unwrap());
    (transcript.head, transcript.files.into_iter().map(read).collect())
}

fn is_fenced(device: &Device, key: &SessionKey) -> bool {
    adapter(device, key.agent).is_fenced(&key.native).unwrap()
}

fn carried_there_and_back(agent: AgentKind) {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let tree = project(a);
    let around = Surroundings::plain(&a.home, &a.state().join("agents"), std::env::var_os("PATH").unwrap());
    let native = plant(agent, &around, &tree, [7; 16], &Story::example("mock", "mock-model")).unwrap();
    let key = SessionKey { agent, native };
    let (before, files) = (conversation(a, &key), evidence(&tree));
    let request = |device: &str| MoveRequest { carry_only: true, ..request(device, key.id()) };
    a.move_with(request("server")).unwrap();
    assert_eq!(conversation(b, &key), before);
    assert_eq!(evidence(&b.home.join("project")), files);
    assert!(is_fenced(a, &key) && !is_fenced(b, &key));
    let failed = refused(a.move_with(request("server")));
    assert_eq!(failed.now_at.as_deref(), Some("server"));
    b.move_with(request("laptop")).unwrap();
    assert_eq!(conversation(a, &key), before);
    assert_eq!(evidence(&tree), files);
    assert!(!is_fenced(a, &key) && is_fenced(b, &key));
    nothing_left(a);
    nothing_left(b);
}

/// Shows, H-25
#[test]
fn session_of_codex_is_carried_there_and_back() {
    carried_there_and_back(AgentKind::Codex);
}

/// Shows, H-25
#[test]
fn session_of_claude_code_is_carried_there_and_back() {
    carried_there_and_back(AgentKind::ClaudeCode);
}

/// The question that waits at a device.
fn question(device: &Device) -> ApprovalSummary {
    let mut found = Vec::new();
    wait_until("a question waits", || {
        found = device.status().approvals;
        !found.is_empty()
    });
    found.remove(0)
}

fn decide(device: &Device, approval: &ApprovalSummary, yes: bool) -> String {
    match device.ask(Command::Decide { approval: approval.id.to_string(), yes }) {
        Ok(Answer::Said { text }) => text,
        other => panic!("not decided: {other:?}"),
    }
}

fn nothing_written(device: &Device) {
    assert_eq!(names(&device.home), [""; 0], "nothing is written before the yes");
    assert_eq!(names(&device.state().join("arrivals")), [""; 0]);
    assert_eq!(names(&device.state().join("stages")), [""; 0]);
}

/// Shows: H-14, H-15
#[test]
fn nothing_is_written_before_the_operator_says_yes() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let asked = a.open(Command::To(request("server", id))).unwrap();
    let waiting = question(b);
    nothing_written(b);
    assert_eq!(
        (waiting.kind.as_str(), waiting.device.as_str(), waiting.title.as_str()),
        ("receive", "laptop", "project")
    );
    assert!(waiting.executables.iter().any(|path| path == "src/greet.sh"), "{:?}", waiting.executables);
    assert!(waiting.dotfiles.iter().any(|path| path == ".gitignore"), "{:?}", waiting.dotfiles);
    assert!(waiting.expires_in_s > 800, "{}", waiting.expires_in_s);
    assert_eq!(decide(b, &waiting, true), "allowed");
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(evidence(&b.home.join("project")), evidence(&tree));
}

/// Shows: H-15, H-21
#[test]
fn denied_move_leaves_everything_where_it_was() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let before = evidence(&tree);
    let asked = a.open(Command::To(request("server", id))).unwrap();
    assert_eq!(decide(b, &question(b), false), "denied; nothing was written");
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Declined)));
    assert_eq!(failed.why, "declined: server says: the operator there said no");
    assert_eq!(failed.now_at.as_deref(), Some("laptop"));
    nothing_written(b);
    assert_eq!((evidence(&tree), state(a, id).as_str()), (before, "in charge here"));
}

/// Shows: H-11
#[test]
fn withdrawn_offer_takes_its_question_along() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let asked = a.open(Command::To(request("server", id))).unwrap();
    let waiting = question(b);
    let again = refused(a.to("server", id));
    assert_eq!(again.why, "another move of this session is under way");
    a.ask(Command::Cancel { handoff: id.to_string() }).unwrap();
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(failed.refusal, Some(Refusal::Cancelled));
    wait_until("the question goes", || b.status().approvals.is_empty());
    let late = refused(b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }));
    assert_eq!(late.why, "whoever asked withdrew it");
    nothing_written(b);
    assert_eq!(state(a, id), "in charge here");
}

fn large_claude(devices: &Devices) -> (PathBuf, claude::Planted) {
    let tree = devices.a.home.join("project");
    trees::large(&tree, 1_500, 16 << 10, 7);
    let planted = claude::plant(&devices.a.home, &tree, 10);
    (tree, planted)
}

/// Shows: H-11, H-21, T-9
#[test]
fn move_that_was_cancelled_while_bytes_travelled_goes_on_where_it_stopped() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, planted) = large_claude(&devices);
    let before = (evidence(&tree), claude::resumable(&a.home, &planted));
    let carried = MoveRequest { carry_only: true, ..request("server", planted.id) };
    let mut asked = a.open(Command::To(carried.clone())).unwrap();
    asked
        .until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Transferring && step.bytes > 0));
    a.ask(Command::Cancel { handoff: planted.id.to_string() }).unwrap();
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(failed.why, "cancelled: it was withdrawn here");
    assert_eq!(failed.now_at.as_deref(), Some("laptop"));
    wait_until("the fence is down", || claude::resumable(&a.home, &planted).is_some());
    assert_eq!((evidence(&tree), claude::resumable(&a.home, &planted)), before);
    let kept = trees::bytes_below(&b.state().join("stages"));
    wait_until("no staging is left", || names(&b.home).is_empty());
    let report = a.move_with(carried).unwrap();
    println!("{kept} bytes were kept, {} sent, {} there", report.bytes_sent, report.bytes_present);
    assert!(report.bytes_present + (1 << 20) >= kept, "{kept} kept, {} there", report.bytes_present);
    assert_eq!(evidence(&b.home.join("project")), before.0);
    assert_eq!(claude::resumable(&b.home, &planted), before.1);
    nothing_left(b);
}

/// Shows: T-9
#[test]
fn second_move_sends_only_what_changed() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, planted) = large_claude(&devices);
    let carried = |device: &str| MoveRequest { carry_only: true, ..request(device, planted.id) };
    let there = a.move_with(carried("server")).unwrap();
    assert!(
        there.bytes_sent > 20 << 20 && there.bytes_present < 1 << 20,
        "{} {}",
        there.bytes_sent,
        there.bytes_present
    );
    let changed = trees::change(&b.home.join("project"), 100, 3);
    let back = b.move_with(carried("laptop")).unwrap();
    println!("{changed} bytes changed, {} sent, {} there", back.bytes_sent, back.bytes_present);
    assert!(back.bytes_sent < changed + (1 << 20), "{} sent of {changed}", back.bytes_sent);
    assert!(back.bytes_present > 20 << 20, "{}", back.bytes_present);
}

/// What both devices know of each other's lists is not sent again either: neither the catalog nor the index.
///
/// Shows: T-9
#[test]
fn repository_that_rested_costs_next_to_nothing_again() {
    let devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    devices.a.to("server", id).unwrap();
    devices.b.to("laptop", id).unwrap();
    let again = devices.a.to("server", id).unwrap();
    println!("{} bytes sent, {} there", again.bytes_sent, again.bytes_present);
    assert!(again.bytes_sent < 4 << 10, "{} bytes sent", again.bytes_sent);
}

/// Several that fit are named, whatever moved before.
#[test]
fn session_that_was_away_is_not_meant_more_than_others() {
    let devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    devices.a.to("server", id).unwrap();
    devices.b.to("laptop", id).unwrap();
    let other = devices.a.home.join("elsewhere/project");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("a"), "a").unwrap();
    devices.a.adopt(&other);
    let by_title = MoveRequest { session: Some("project".to_owned()), ..request("server", id) };
    let failed = refused(devices.a.move_with(by_title));
    assert_eq!((failed.exit, failed.what.as_str()), (exit::USAGE, "it is not clear which session is meant"));
}

fn take(device: &Device, id: SessionId) -> Result<Answer, Failure> {
    device.ask(Command::Take { session: id.to_string(), wait: false, carry_only: false })
}

/// Shows: H-4, H-15
#[test]
fn taken_session_comes_by_the_owners_yes() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let before = evidence(&tree);
    let asked = b.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap();
    let waiting = question(a);
    assert_eq!((waiting.kind.as_str(), waiting.device.as_str()), ("give", "server"));
    decide(a, &waiting, false);
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Declined)));
    let asked = b.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap();
    decide(a, &question(a), true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(evidence(&b.home.join("project")), before);
    // A yes to one handoff is no yes to the next one.
    b.ask(Command::Policy { device: "laptop".to_owned(), policy: None }).unwrap();
    a.say_yes_to("server");
    b.to("laptop", id).unwrap();
    let again = a.open(Command::To(request("server", id))).unwrap();
    decide(b, &question(b), false);
    refused(again.end(&mut |_| {}).unwrap());
}

/// Shows: H-16
#[test]
fn question_for_a_session_survives_the_owners_crash() {
    let mut devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.a);
    let asked = devices.b.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap();
    question(&devices.a);
    devices.a.kill();
    devices.a.start();
    decide(&devices.a, &question(&devices.a), true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(state(&devices.b, id), "in charge here");
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let devices = Devices::paired(CEDE);
    let (tree, id) = adopted(&devices.a);
    let failed = refused(devices.a.to("phone", id));
    assert_eq!((failed.exit, failed.why.as_str()), (exit::USAGE, "no device is called phone; known: server"));
    let nowhere = MoveRequest { session: Some("nothing".to_owned()), ..request("server", id) };
    assert_eq!(refused(devices.a.move_with(nowhere)).why, "no session here is called nothing");
    let here = MoveRequest { session: None, directory: "/".to_owned(), ..request("server", id) };
    assert_eq!(refused(devices.a.move_with(here)).why, "no session of a coding agent works in /");
    let failed =
        refused(devices.b.ask(Command::Take { session: "nothing".to_owned(), wait: false, carry_only: false }));
    assert_eq!(failed.what, "no session is meant");
    assert!(tree.exists());
}

/// Shows: J-15
#[test]
fn second_daemon_on_a_home_is_turned_away_and_the_first_lives_on() {
    let devices = Devices::strangers(CEDE);
    let output = devices.a.typed(&["up", "--listen", "127.0.0.1:0", "--no-discovery"]);
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("another daemon") || said.contains("in use"), "{said}");
    assert_eq!(devices.a.status().device.name, "laptop");
}

/// A process of the agent, as far as its registry says.
struct Agent(std::process::Child);

impl Agent {
    fn start() -> Self {
        Self(std::process::Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Shows: A-11, H-4
#[test]
fn running_turn_is_refused_and_waited_for() {
    let devices = Devices::friends(CEDE);
    let a = &devices.a;
    let tree = project(a);
    let planted = claude::plant(&a.home, &tree, 3);
    let mut agent = Agent::start();
    claude::register(&a.home, &planted, agent.0.id(), "busy");
    let carried = MoveRequest { carry_only: true, ..request("server", planted.id) };
    let failed = refused(a.move_with(carried.clone()));
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::InFlightWork)));
    assert_eq!(failed.why, "a turn is running: its registry entry says busy");
    assert_eq!(failed.cure, "wait for the turn to end, or add --wait");
    let mut asked = a.open(Command::To(MoveRequest { wait: true, ..carried })).unwrap();
    asked.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Waiting));
    claude::register(&a.home, &planted, agent.0.id(), "idle");
    // The agent waits for input: it is ended, so that it cannot write to a session that is elsewhere. A child that
    // nobody waits for would still be listed.
    let ended = std::thread::spawn(move || agent.0.wait().unwrap());
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert!(!ended.join().unwrap().success());
}

/// Shows: H-4
#[test]
fn wait_for_a_turn_can_be_withdrawn() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let planted = claude::plant(&a.home, &project(a), 3);
    let agent = Agent::start();
    claude::register(&a.home, &planted, agent.0.id(), "busy");
    let waits = MoveRequest { wait: true, carry_only: true, ..request("server", planted.id) };
    let mut asked = a.open(Command::To(waits)).unwrap();
    asked.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Waiting));
    a.ask(Command::Cancel { handoff: planted.id.to_string() }).unwrap();
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(failed.what, "the move was cancelled");
    claude::register(&a.home, &planted, agent.0.id(), "idle");
    std::thread::sleep(Duration::from_millis(700));
    assert!(b.session(planted.id).is_none(), "nothing was offered after the cancel");
    assert_eq!(state(a, planted.id), "in charge here");
}

/// Shows: A-10
#[test]
fn destination_without_the_agent_refuses_before_anything_moves() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let planted = claude::plant(&a.home, &project(a), 3);
    b.ask(Command::Status).unwrap();
    let failed = refused(a.to("server", planted.id));
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::DestinationCannotResume)));
    assert!(failed.why.contains("is not installed here; to install it, type: npm install"), "{}", failed.why);
    assert!(failed.cure.contains("--carry-only"), "{}", failed.cure);
    nothing_written(b);
}

/// A small file system that ends with the value.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, megabytes: u32) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(at);
        let mounted = command.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _late = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Shows: H-21, J-16
#[test]
fn full_destination_refuses_and_the_source_keeps_everything() {
    let root = tempfile::tempdir().unwrap();
    let Some(_small) = Small::mount(&root.path().join("server"), 96) else {
        println!("skipped: this user cannot mount a small file system");
        return;
    };
    let mut a = Device::new(root.path(), Path::new(CEDE), "laptop");
    let mut b = Device::new(root.path(), Path::new(CEDE), "server");
    a.start();
    b.start();
    pair(&a, &b);
    b.say_yes_to("laptop");
    let tree = a.home.join("project");
    trees::large(&tree, 2_000, 32 << 10, 1);
    let (before, id) = (evidence(&tree), a.adopt(&tree).id);
    let failed = refused(a.to("server", id));
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::TooLarge)));
    assert_eq!((evidence(&tree), state(&a, id).as_str()), (before, "in charge here"));
    assert_eq!(b.status().device.name, "server");
    drop((a, b));
}

/// Shows: P-2
#[test]
fn wrong_words_are_one_guess() {
    let devices = Devices::strangers(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (shown, words) = show_words(a);
    let mut other: Vec<&str> = words.split('-').collect();
    other.reverse();
    let wrong = b.ask(pair_with(&other.join("-"), &a.address));
    let failed = refused(wrong);
    assert_eq!((failed.exit, failed.what.as_str()), (exit::REFUSED, "the devices are not paired"));
    let burned = refused(b.ask(pair_with(&words, &a.address)));
    assert!(burned.why.contains("were used up"), "{}", burned.why);
    let at_host = refused(shown.end(&mut |_| {}).unwrap());
    assert_eq!(at_host.cure, "on the trusted device: cede pair");
    assert!(a.status().peers.is_empty() && b.status().peers.is_empty());
    let typo = refused(b.ask(pair_with("one two three", &a.address)));
    assert_eq!((typo.exit, typo.what.as_str()), (exit::USAGE, "the words cannot be right"));
}

/// Shows: H-12
#[test]
fn device_that_is_off_is_said_to_be_off() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    devices.b.stop();
    wait_until("the link ends", || devices.a.status().peers.iter().all(|peer| !peer.connected));
    let begun = Instant::now();
    let failed = refused(devices.a.to("server", id));
    assert_eq!((failed.exit, failed.refusal), (exit::TIMEOUT, Some(Refusal::TimedOut)));
    assert!(failed.why.contains("nothing answers there"), "{}", failed.why);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(state(&devices.a, id), "in charge here");
    let failed = refused(take(&devices.a, id).and_then(|answer| match answer {
        Answer::Said { text } => {
            Err(Failure { exit: 0, what: text, why: String::new(), cure: String::new(), refusal: None, now_at: None })
        }
        other => Ok(other),
    }));
    assert_eq!(failed.what, "the session is in charge here");
}

/// Shows: T-7
#[test]
fn tree_that_a_person_changed_is_not_touched() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    a.to("server", id).unwrap();
    std::fs::write(tree.join("staged.txt"), "a person went on here by hand\n").unwrap();
    let by_hand = evidence(&tree);
    let at_b = evidence(&b.home.join("project"));
    b.to("laptop", id).unwrap();
    assert!(a.log().contains("is not as the session left it (staged.txt)"), "the person is told");
    assert_eq!(evidence(&tree), by_hand, "what the person did stays");
    let session = a.session(id).unwrap();
    assert_ne!(session.directory, tree.display().to_string());
    assert_eq!(evidence(Path::new(&session.directory)), at_b);
    let said = a.status();
    assert_eq!(said.sessions.iter().find(|known| known.id == id).unwrap().state, "in charge here");
}

/// Shows: H-24, J-1, L-3
#[test]
fn restart_at_rest_keeps_everything() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    devices.a.to("server", id).unwrap();
    let before = (devices.a.session(id), devices.b.session(id).map(|session| session.token));
    devices.a.kill();
    devices.b.kill();
    devices.a.start();
    devices.b.start();
    devices.wait_for_link();
    let token = |device: &Device| device.session(id).map(|session| (session.state, session.token));
    assert_eq!(token(&devices.a).unwrap(), ("at server".to_owned(), before.0.unwrap().token));
    assert_eq!(token(&devices.b).unwrap(), ("in charge here".to_owned(), before.1.unwrap()));
    assert!(devices.b.stop().success() && devices.a.stop().success());
    devices.a.start();
    devices.b.start();
    devices.wait_for_link();
    devices.b.to("laptop", id).unwrap();
    assert_eq!(state(&devices.a, id), "in charge here");
}

/// A device with another's key that speaks a later protocol only.
struct Later {
    runtime: tokio::runtime::Runtime,
}

struct Everybody;

impl Gate for Everybody {
    fn admits(&self, _: &DeviceKey) -> bool {
        true
    }

    fn pairing_open(&self) -> bool {
        false
    }
}

impl Later {
    fn instead_of(device: &Device, mesh: MeshId) -> Self {
        let secret: [u8; 32] = std::fs::read(device.state().join("secrets/identity")).unwrap().try_into().unwrap();
        let local = LocalDevice::from_secret(&secret);
        let (protocol_min, protocol_max) = (PROTOCOL_MAX + 1, PROTOCOL_MAX + 2);
        let (device_id, software) = (local.device(), "9.9.9".to_owned());
        let hello = Hello { protocol_min, protocol_max, device: device_id, mesh, software, members: 2, run: 1 };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = device.address.parse().unwrap();
        runtime.spawn(async move {
            let endpoint = Endpoint::bind(&local, address, Arc::new(Everybody)).unwrap();
            while endpoint.accept(&hello).await.is_some() {}
        });
        Self { runtime }
    }
}

/// Shows: C-3
#[test]
fn device_of_another_protocol_is_named_as_that() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    let mesh = devices.a.status().mesh.unwrap();
    devices.b.stop();
    let later = Later::instead_of(&devices.b, mesh);
    wait_until("the link ends", || devices.a.status().peers.iter().all(|peer| !peer.connected));
    let failed = refused(devices.a.to("server", id));
    assert_eq!((failed.exit, failed.refusal), (exit::VERSION, Some(Refusal::VersionMismatch)));
    assert!(failed.why.contains("no protocol version in common: ours 1, theirs 2"), "{}", failed.why);
    assert_eq!(failed.cure, "update the older of the two");
    let Ok(Answer::Doctor { checks }) = devices.a.ask(Command::Doctor) else { panic!("no checks") };
    let server = checks.iter().find(|check| check.what == "server").unwrap();
    assert!(server.found.contains("no protocol version in common"), "{}", server.found);
    later.runtime.shutdown_background();
}

/// Shows: H-12
#[test]
fn status_shows_a_move_while_it_goes_on() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let asked = a.open(Command::To(request("server", id))).unwrap();
    let waiting = question(b);
    let moves = a.status().moves;
    let shown = moves.first().map(|one| (one.from.as_str(), one.to.as_str(), one.progress.phase));
    assert_eq!(shown, Some(("laptop", "server", Phase::Offered)));
    assert_eq!(moves[0].progress.in_charge, "laptop");
    assert_eq!(b.status().next, "cede approvals");
    decide(b, &waiting, true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    wait_until("both say that it ended", || a.status().moves.is_empty() && b.status().moves.is_empty());
}

/// Shows: H-21, H-24
#[test]
fn stopped_source_is_the_owner_when_it_is_back() {
    let mut devices = Devices::friends(CEDE);
    let (tree, planted) = large_claude(&devices);
    let before = (evidence(&tree), claude::resumable(&devices.a.home, &planted));
    let carried = MoveRequest { carry_only: true, ..request("server", planted.id) };
    let mut asked = devices.a.open(Command::To(carried.clone())).unwrap();
    asked
        .until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Transferring && step.bytes > 0));
    assert!(devices.a.stop().success());
    assert!(asked.end(&mut |_| {}).is_none_or(|end| end.is_err()));
    devices.a.start();
    devices.wait_for_link();
    wait_until("the fence is down", || claude::resumable(&devices.a.home, &planted).is_some());
    assert_eq!((evidence(&tree), claude::resumable(&devices.a.home, &planted)), before);
    wait_until("no staging is left", || names(&devices.b.home).is_empty());
    assert_eq!(state(&devices.a, planted.id), "in charge here");
    devices.a.move_with(carried).unwrap();
    nothing_left(&devices.b);
}

/// Shows: T-10
#[test]
fn secret_looking_files_travel_only_after_a_yes() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    std::fs::write(tree.join(".env"), "TOKEN=abc\n").unwrap();
    let mut planned = Vec::new();
    let asked = a.open(Command::To(request("server", id))).unwrap();
    let failed = refused(
        asked
            .end(&mut |body| {
                if let ReplyBody::Planned(plan) = body {
                    planned.push(plan.needs.clone());
                }
            })
            .unwrap(),
    );
    assert_eq!(failed.exit, exit::PENDING);
    assert_eq!(failed.cure, "add --yes-secrets, or leave files here with --exclude <glob>");
    assert_eq!(planned, [["--yes-secrets"]]);
    assert_eq!(names(&b.home), [""; 0]);
    a.move_with(MoveRequest { exclude: vec![".env".to_owned()], ..request("server", id) }).unwrap();
    assert!(!b.home.join("project/.env").exists());
}

/// Shows: H-11, H-21
#[test]
fn destination_can_withdraw_too() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, planted) = large_claude(&devices);
    let before = (evidence(&tree), claude::resumable(&a.home, &planted));
    let carried = MoveRequest { carry_only: true, ..request("server", planted.id) };
    let mut asked = a.open(Command::To(carried.clone())).unwrap();
    asked
        .until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Transferring && step.bytes > 0));
    let Ok(Answer::Said { text }) = b.ask(Command::Cancel { handoff: planted.id.to_string() }) else {
        panic!("not withdrawn")
    };
    assert_eq!(text, "cancelled; the session is at laptop");
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(failed.why, "cancelled: server says: it was withdrawn at the destination");
    wait_until("the fence is down", || claude::resumable(&a.home, &planted).is_some());
    assert_eq!((evidence(&tree), claude::resumable(&a.home, &planted)), before);
    wait_until("no staging is left", || names(&b.home).is_empty());
    a.move_with(carried).unwrap();
}

#[test]
fn take_that_nobody_answered_is_withdrawn() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let asked = b.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap();
    question(a);
    b.ask(Command::Cancel { handoff: id.to_string() }).unwrap();
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(failed.why, "cancelled: it was withdrawn here");
    wait_until("the question at the owner is gone", || a.status().approvals.is_empty());
    assert_eq!(state(a, id), "in charge here");
}
