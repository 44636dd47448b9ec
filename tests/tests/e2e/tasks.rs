//! Tasks between two real daemons, with a stand-in for the agent's program.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cede_tests::devices::{Answers, Device, Devices, wait_until};
use cede_wire::control::tasks::{AskRequest, TaskReport, TaskSummary};
use cede_wire::control::{Answer, Command, Failure, exit};
use cede_wire::limits::TASK_ANSWER_BYTES;
use cede_wire::session::AgentKind;
use cede_wire::task::TaskScope;

#[path = "tasks_cut.rs"]
mod cut;
#[path = "tasks_kept.rs"]
mod kept;
#[path = "tasks_places.rs"]
mod places;

use super::{CEDE, decide, question, refused};

/// A stand-in for `claude`: it notes that it was started, with what, and does what the script says.
pub(super) fn stand_in(device: &Device, program: &str, script: &str) {
    let file = bin(device).join(program);
    std::fs::create_dir_all(bin(device)).unwrap();
    let log = started_file(device);
    let text = format!(
        "#!/bin/sh\necho \"$0 $@\" >> '{}'\ncat > '{}'\n{script}\n",
        log.display(),
        words_file(device).display()
    );
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn bin(device: &Device) -> PathBuf {
    beside(device).join(format!("{}-bin", device.name))
}

fn beside(device: &Device) -> PathBuf {
    device.home.parent().unwrap().to_owned()
}

fn started_file(device: &Device) -> PathBuf {
    beside(device).join(format!("{}-started", device.name))
}

fn words_file(device: &Device) -> PathBuf {
    beside(device).join(format!("{}-words", device.name))
}

/// The command lines with which the stand-in was started.
pub(super) fn started(device: &Device) -> Vec<String> {
    let text = std::fs::read_to_string(started_file(device)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

pub(super) fn desk() -> Devices {
    desk_with(&|_| {})
}

/// From its next start.
pub(super) fn finds_stand_ins(device: &mut Device) {
    let mut path = bin(device).into_os_string();
    path.push(":/usr/bin:/bin");
    device.path = path;
}

/// Two devices, of which each finds only what lies in its own directory of programs.
fn desk_with(change: &dyn Fn(&mut Device)) -> Devices {
    let place = |device: &mut Device| {
        finds_stand_ins(device);
        change(device);
    };
    Devices::with(CEDE, &place).joined()
}

pub(super) fn request(task: &str, directory: Option<&Path>) -> AskRequest {
    let directory = directory.map(|directory| directory.display().to_string());
    AskRequest {
        device: "server".to_owned(),
        task: task.to_owned(),
        scope: TaskScope { directory, minutes: 5, ..TaskScope::default() },
        ..AskRequest::default()
    }
}

pub(super) fn ask(device: &Device, request: AskRequest) -> Result<TaskSummary, Failure> {
    match device.ask(Command::Ask(request))? {
        Answer::Task { task, .. } => Ok(*task),
        other => panic!("not asked: {other:?}"),
    }
}

pub(super) fn show(device: &Device, id: &str) -> (TaskSummary, Option<TaskReport>) {
    match device.ask(Command::Task { id: id.to_owned() }) {
        Ok(Answer::Task { task, report, .. }) => (*task, report.map(|report| *report)),
        other => panic!("no task: {other:?}"),
    }
}

pub(super) fn state(device: &Device, id: &str) -> String {
    show(device, id).0.state
}

pub(super) fn is(device: &Device, id: &str, wanted: &str) {
    wait_until(&format!("the task is {wanted}"), || state(device, id) == wanted);
}

pub(super) fn place(device: &Device) -> PathBuf {
    let directory = device.home.join("db");
    std::fs::create_dir_all(&directory).unwrap();
    directory.canonicalize().unwrap()
}

pub(super) fn marked_processes(device: &Device) -> usize {
    let wanted = started_file(device).display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments
        .filter(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            text.contains("CEDE_TASK=") && text.contains(&*bin(device).to_string_lossy()) && !wanted.is_empty()
        })
        .count()
}

/// Shows: E-1, E-3, E-5, E-6, U-4
#[test]
fn task_is_shown_whole_runs_once_in_its_directory_and_its_result_comes_back() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    let directory = place(b);
    stand_in(b, "claude", "pwd\necho made > report.txt\necho 'all green'");
    let task = "run the migration tests\nin two lines \u{1b}[2J";
    let asked = ask(a, AskRequest { wait: false, ..request(task, Some(&directory)) }).unwrap();
    assert_eq!((asked.state.as_str(), asked.standing.as_str()), ("waiting", "waits for the operator of server"));
    let waiting = question(b);
    let asks = waiting.asks.clone().unwrap();
    assert_eq!((waiting.kind.as_str(), waiting.title.as_str()), ("delegate", task), "whole, as it came");
    let line = |name: &str| asks.lines.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    assert_eq!(line("in"), Some(directory.display().to_string()));
    assert_eq!(line("agent").as_deref(), Some("claude-code"));
    assert_eq!(line("may").as_deref(), Some("do what your own settings of claude-code allow"));
    assert_eq!(line("time").as_deref(), Some("5 min at most"));
    assert!(asks.content.is_some(), "the yes is for the bytes of the whole request");
    let screen = String::from_utf8(b.typed(&["approvals"]).stdout).unwrap();
    assert!(screen.contains("  | run the migration tests\n  | in two lines \\u{1b}[2J"), "{screen}");
    assert!(started(b).is_empty(), "nothing runs before the yes");
    assert_eq!(decide(b, &waiting, true), "allowed");
    is(a, &asked.id, "done");
    let (_, report) = show(a, &asked.id);
    let report = report.unwrap();
    assert_eq!(report.text, format!("{}\nall green", directory.display()));
    assert_eq!((report.exit, report.agent), (Some(0), Some(AgentKind::ClaudeCode)));
    assert_eq!(report.changes, "new      report.txt (5 bytes)\n");
    assert_eq!(started(b).len(), 1, "{:?}", started(b));
    let words = std::fs::read_to_string(words_file(b)).unwrap();
    assert!(words.ends_with(task) && words.contains("from another device, \"laptop\" (peer:"), "{words}");
    assert!(words.contains("carries no authority"), "{words}");
    assert_eq!((state(b, &asked.id).as_str(), marked_processes(b)), ("done", 0));
    let printed = a.typed(&["tasks", "--result", &asked.id]);
    assert!(String::from_utf8_lossy(&printed.stdout).ends_with("all green\n"));
}

/// Who waits for the end of a task hears it.
pub(super) fn ended(answers: Answers) -> (TaskSummary, Option<TaskReport>) {
    match answers.end(&mut |_| {}) {
        Some(Ok(Answer::Task { task, report, .. })) => (*task, report.map(|report| *report)),
        other => panic!("no end: {other:?}"),
    }
}

pub(super) fn allow(device: &Device) {
    assert_eq!(decide(device, &question(device), true), "allowed");
}

/// Shows: E-3, E-8
#[test]
fn task_that_the_operator_refuses_does_not_run() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "echo ran");
    let waits = a.open(Command::Ask(AskRequest { wait: true, ..request("do it", None) })).unwrap();
    decide(b, &question(b), false);
    let (task, report) = ended(waits);
    assert_eq!((task.state.as_str(), task.standing.as_str()), ("refused", "refused by server: the operator said no"));
    assert!(report.is_none() && started(b).is_empty());
    let late = refused(a.ask(Command::CancelTask { id: task.id }));
    assert_eq!(late.why, "the task is over already");
}

/// Shows: E-3
#[test]
fn task_that_nobody_answers_runs_out() {
    let devices = desk_with(&|device| device.arguments.extend(["--questions-expire", "1s"].map(str::to_owned)));
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "echo ran");
    let waits = a.open(Command::Ask(AskRequest { wait: true, ..request("do it", None) })).unwrap();
    let (task, _) = ended(waits);
    assert_eq!(task.standing, "refused by server: the operator did not answer in time; ask again");
    assert!(b.status().approvals.is_empty() && started(b).is_empty());
}

/// Shows: E-1, E-3
#[test]
fn task_whose_time_is_over_takes_its_question_along() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "echo ran");
    let asked = ask(a, AskRequest { expires_in_s: Some(2), ..request("do it", None) }).unwrap();
    let waiting = question(b);
    is(a, &asked.id, "expired");
    wait_until("the question goes", || b.status().approvals.is_empty());
    refused(b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }));
    assert!(started(b).is_empty());
}

/// Shows: E-9
#[test]
fn task_is_withdrawn_before_and_while_it_runs() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "echo begins; setsid sleep 600 & sleep 600");
    let before = ask(a, request("before", None)).unwrap();
    question(b);
    a.ask(Command::CancelTask { id: before.id.clone() }).unwrap();
    is(a, &before.id, "cancelled");
    wait_until("the question goes", || b.status().approvals.is_empty());
    assert!(started(b).is_empty());
    let during = ask(a, request("during", None)).unwrap();
    allow(b);
    wait_until("its progress is heard", || show(a, &during.id).0.line == "begins");
    assert!(marked_processes(b) > 0);
    a.ask(Command::CancelTask { id: during.id.clone() }).unwrap();
    is(a, &during.id, "cancelled");
    assert_eq!((marked_processes(b), started(b).len()), (0, 1));
    let by_operator = ask(a, request("again", None)).unwrap();
    allow(b);
    is(b, &by_operator.id, "running");
    b.ask(Command::CancelTask { id: by_operator.id.clone() }).unwrap();
    is(a, &by_operator.id, "cancelled");
}

/// Shows: E-4, E-5, E-6
#[test]
fn task_that_a_death_cut_off_is_interrupted_and_never_runs_again() {
    let mut devices = desk();
    stand_in(&devices.b, "claude", "setsid sleep 600 & sleep 600");
    let asked = ask(&devices.a, request("do it", None)).unwrap();
    allow(&devices.b);
    wait_until("it runs", || started(&devices.b).len() == 1 && marked_processes(&devices.b) > 1);
    devices.b.kill();
    assert!(marked_processes(&devices.b) > 0, "what it started lives on for now");
    devices.b.start();
    is(&devices.a, &asked.id, "interrupted");
    assert_eq!((marked_processes(&devices.b), state(&devices.b, &asked.id).as_str()), (0, "interrupted"));
    devices.b.kill();
    devices.b.start();
    devices.wait_for_link();
    std::thread::sleep(Duration::from_millis(300));
    assert!(devices.b.status().approvals.is_empty() && started(&devices.b).len() == 1);
}

/// Shows: E-1, E-5
#[test]
fn result_waits_for_an_asker_that_died() {
    let mut devices = desk();
    stand_in(&devices.b, "claude", "sleep 1; echo 'well done'");
    let asked = ask(&devices.a, request("do it", None)).unwrap();
    allow(&devices.b);
    wait_until("it runs", || started(&devices.b).len() == 1);
    devices.a.kill();
    is(&devices.b, &asked.id, "done");
    devices.b.stop();
    devices.b.start();
    devices.a.start();
    is(&devices.a, &asked.id, "done");
    assert_eq!(show(&devices.a, &asked.id).1.unwrap().text, "well done");
    assert_eq!(started(&devices.b).len(), 1);
}

/// Shows: E-1, E-3
#[test]
fn task_for_a_device_that_is_away_waits_and_its_question_survives_the_line() {
    let mut devices = desk();
    stand_in(&devices.b, "claude", "echo ran");
    devices.b.stop();
    wait_until("the laptop knows", || !devices.a.status().peers[0].connected);
    let asked = ask(&devices.a, request("do it", None)).unwrap();
    assert_eq!(asked.standing, "queued: server is away");
    devices.b.start();
    let first = question(&devices.b);
    devices.a.stop();
    wait_until("the question dies with its connection", || devices.b.status().approvals.is_empty());
    refused(devices.b.ask(Command::Decide { approval: first.id.to_string(), yes: true }));
    assert!(started(&devices.b).is_empty());
    devices.a.start();
    allow(&devices.b);
    is(&devices.a, &asked.id, "done");
}

/// Shows: E-7
#[test]
fn flood_of_an_agent_is_cut_on_its_way_back() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "head -c 9000000 /dev/zero | tr '\\0' 'x'; echo; echo the end");
    let waits = a.open(Command::Ask(AskRequest { wait: true, ..request("do it", None) })).unwrap();
    allow(b);
    let (task, report) = ended(waits);
    let report = report.unwrap();
    assert_eq!((task.state.as_str(), report.output_bytes), ("done", 9_000_009));
    assert!(report.text.len() <= TASK_ANSWER_BYTES && report.text.ends_with("the end"));
}

/// Shows: E-2, E-6
#[test]
fn scope_becomes_flags_that_take_away() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "exit 3");
    let mut narrow = request("look around; --dangerously-skip-permissions", Some(&place(b)));
    narrow.scope.read_only = true;
    narrow.scope.turns = Some(2);
    let waits = a.open(Command::Ask(AskRequest { wait: true, ..narrow })).unwrap();
    let waiting = question(b);
    let may = waiting.asks.clone().unwrap().lines.into_iter().find(|(name, _)| name == "may").unwrap().1;
    assert_eq!(may, "look, and change nothing");
    decide(b, &waiting, true);
    let (task, report) = ended(waits);
    assert_eq!((task.state.as_str(), report.unwrap().exit), ("failed", Some(3)));
    let line = started(b).remove(0);
    assert!(line.contains("--tools=Read,Grep,Glob --strict-mcp-config --max-turns=2"), "{line}");
    assert!(!line.contains("dangerously") && !line.contains("look around"), "{line}");
}

/// Shows: E-3, E-6, U-1
#[test]
fn task_that_cannot_be_done_or_is_not_allowed_asks_nobody() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    let end = |request: AskRequest| ended(a.open(Command::Ask(AskRequest { wait: true, ..request })).unwrap()).0;
    let task = end(request("do it", None));
    assert!(task.standing.contains("no coding agent is installed here; to install one"), "{}", task.standing);
    stand_in(b, "codex", "echo ran");
    let mut turns = request("do it", None);
    turns.scope.turns = Some(2);
    assert!(end(turns).standing.contains("codex cannot be held to a number of turns"));
    stand_in(b, "claude", "echo ran");
    let task = end(request("do it", None));
    assert!(
        task.standing.contains("several agents are installed here: codex, claude-code; name one"),
        "{}",
        task.standing
    );
    let nowhere = AskRequest {
        scope: TaskScope { agent: Some(AgentKind::Codex), ..request("x", Some(Path::new("/nowhere"))).scope },
        ..request("x", None)
    };
    assert!(end(nowhere).standing.contains("/nowhere: there is no such directory, or it cannot be used"));
    let state = AskRequest {
        scope: TaskScope { agent: Some(AgentKind::Codex), ..request("x", Some(&b.state())).scope },
        ..request("x", None)
    };
    assert!(end(state).standing.contains("is the state of cede"));
    let process = AskRequest {
        scope: TaskScope { agent: Some(AgentKind::Codex), ..request("x", Some(Path::new("/proc/self"))).scope },
        ..request("x", None)
    };
    assert!(end(process).standing.contains("holds no files"));
    assert!(b.typed(&["policy", "laptop", "delegate", "refuse"]).status.success());
    let mut one = request("do it", None);
    one.scope.agent = Some(AgentKind::Codex);
    assert_eq!(end(one).state, "refused");
    assert!(b.status().approvals.is_empty() && started(b).is_empty());
    let empty = refused(ask(a, request(" ", None)));
    assert_eq!((empty.exit, empty.why.as_str()), (exit::USAGE, "there is no task"));
}

/// Shows: E-3
#[test]
fn directory_that_became_another_after_the_question_is_not_used() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "echo ran");
    let (shown, other) = (b.home.join("shown"), b.home.join("other"));
    std::fs::create_dir_all(&shown).unwrap();
    std::fs::create_dir_all(&other).unwrap();
    let waits = a.open(Command::Ask(AskRequest { wait: true, ..request("do it", Some(&shown)) })).unwrap();
    let waiting = question(b);
    std::fs::remove_dir(&shown).unwrap();
    std::os::unix::fs::symlink(&other, &shown).unwrap();
    decide(b, &waiting, true);
    let (task, _) = ended(waits);
    assert!(task.standing.contains("not any more what was shown"), "{}", task.standing);
    assert!(started(b).is_empty());
    let log = String::from_utf8(b.typed(&["log"]).stdout).unwrap();
    assert!(log.contains("delegate"), "{log}");
}
