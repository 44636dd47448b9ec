//! Tasks of sessions, and tasks that something ends early: a removal, a time, a withdrawal, a death.

use std::path::Path;
use std::time::{Duration, SystemTime};

use cede_tests::devices::{Device, claude, wait_until};
use cede_wire::control::tasks::{AskRequest, TaskSummary};
use cede_wire::control::{Answer, Command, MoveRequest, exit};
use cede_wire::refusal::Refusal;
use cede_wire::session::AgentKind;

use super::super::{CEDE, decide, question, refused, request as to};
use super::{allow, ask, desk, ended, is, marked_processes, place, request, show, stand_in, started, state};

fn all_tasks(device: &Device) -> Vec<TaskSummary> {
    match device.ask(Command::Tasks { all: true }) {
        Ok(Answer::Tasks { tasks }) => tasks,
        other => panic!("no tasks: {other:?}"),
    }
}

/// The letters that this device sent.
fn sent(device: &Device) -> usize {
    match device.ask(Command::Inbox { sent: true, all: true }) {
        Ok(Answer::Inbox { letters, .. }) => letters.len(),
        other => panic!("no letters: {other:?}"),
    }
}

/// A process that does nothing, for a while.
struct Sleeper(std::process::Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Shows: E-3, E-6
#[test]
fn task_of_a_session_goes_on_with_it_in_its_directory_unless_somebody_works_there() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    let tree = place(b);
    let planted = claude::plant(&b.home, &tree, 2);
    stand_in(b, "claude", "pwd; echo 'went on'");
    wait_until("a look at the agents' stores finds it", || b.session(planted.id).is_some());
    let of_session = |agent| {
        let mut request = AskRequest { session: Some(planted.id.short()), wait: true, ..request("go on", None) };
        request.scope.agent = agent;
        a.open(Command::Ask(request)).unwrap()
    };
    let waits = of_session(None);
    let waiting = question(b);
    let lines = waiting.asks.clone().unwrap().lines;
    let line = |name: &str| lines.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    assert_eq!(line("as a turn of"), Some(&*format!("session {}", planted.id)));
    assert_eq!((line("agent"), line("in")), (Some("claude-code"), tree.to_str()));
    decide(b, &waiting, true);
    let (task, report) = ended(waits);
    assert_eq!((task.state.as_str(), task.session), ("done", Some(planted.id)));
    assert_eq!(report.unwrap().text, format!("{}\nwent on", tree.display()));
    assert!(started(b)[0].contains(&format!("--resume={}", planted.native)), "{:?}", started(b));

    let (task, _) = ended(of_session(Some(AgentKind::Codex)));
    assert!(task.standing.contains("the session is one of claude-code"), "{}", task.standing);
    let sleeper = Sleeper(std::process::Command::new("sleep").arg("600").spawn().unwrap());
    claude::register(&b.home, &planted, sleeper.0.id(), "busy");
    let (task, _) = ended(of_session(None));
    assert!(task.standing.contains("somebody works with the session there"), "{}", task.standing);
    assert!(b.status().approvals.is_empty() && started(b).len() == 1);
}

/// An agent that is not up yet says nothing of itself.
///
/// Shows: E-3, H-4, H-6
#[test]
fn session_moves_while_no_task_works_in_it_and_none_begins_while_it_moves() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    let tree = place(b);
    let (planted, below) = (claude::plant(&b.home, &tree, 2), tree.join("below"));
    std::fs::create_dir_all(&below).unwrap();
    let go_on = b.home.join("go-on");
    stand_in(b, "claude", &format!("while ! test -e '{}'; do sleep 0.05; done; echo done", go_on.display()));
    wait_until("a look at the agents' stores finds it", || b.session(planted.id).is_some());
    let of_session = || AskRequest { session: Some(planted.id.short()), ..request("go on", None) };
    let begin = |asked: AskRequest| {
        let begun = started(b).len();
        let works = a.open(Command::Ask(AskRequest { wait: true, ..asked })).unwrap();
        allow(b);
        (works, begun)
    };
    let move_away = || MoveRequest { carry_only: true, ..to("laptop", planted.id) };
    for asked in [of_session(), request("look", Some(&tree)), request("look", Some(&below))] {
        let (works, begun) = begin(asked);
        wait_until("it works", || started(b).len() > begun);
        let failed = refused(b.move_with(move_away()));
        assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::InFlightWork)));
        assert_eq!(failed.why, "a turn is running: a task of laptop works there: cede tasks");
        if begun == 0 {
            let (task, _) = ended(begin(of_session()).0);
            assert!(task.standing.contains("another task works with the session there"), "{}", task.standing);
        }
        std::fs::write(&go_on, "").unwrap();
        assert_eq!(ended(works).0.state, "done");
        std::fs::remove_file(&go_on).unwrap();
    }
    let moves = b.open(Command::To(move_away())).unwrap();
    let waiting = question(a);
    for asked in [of_session(), request("look", Some(&below))] {
        let (task, _) = ended(begin(asked).0);
        assert!(task.standing.contains("what lies there is about to move to another device"), "{}", task.standing);
    }
    decide(a, &waiting, true);
    assert!(matches!(moves.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(started(b).len(), 3);
}

/// What a task changes there is not to be mixed with what comes.
///
/// Shows: E-3, H-4
#[test]
fn session_does_not_come_to_where_a_task_works_and_none_begins_where_it_comes() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    let tree = place(b);
    let planted = claude::plant(&b.home, &tree, 2);
    wait_until("a look at the agents' stores finds it", || b.session(planted.id).is_some());
    let carried = |to_device| MoveRequest { carry_only: true, ..to(to_device, planted.id) };
    a.say_yes_to("server");
    b.move_with(carried("laptop")).unwrap();
    stand_in(b, "claude", "sleep 600");
    let look = || AskRequest { wait: true, ..request("look", Some(&tree)) };
    let stop = |works| {
        let id = all_tasks(b).into_iter().find(|task| task.state == "running").unwrap().id;
        b.ask(Command::CancelTask { id }).unwrap();
        assert_eq!(ended(works).0.state, "cancelled");
    };
    let works = a.open(Command::Ask(look())).unwrap();
    allow(b);
    wait_until("it works", || started(b).len() == 1 && marked_processes(b) > 0);

    let failed = refused(a.move_with(carried("server")));
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Busy)));
    let why = "server says: a task of laptop works where the session would stand; at server type: cede tasks";
    assert!(failed.why.contains(why), "{}", failed.why);
    assert_eq!(failed.cure, "repeat it when that is over");

    stop(works);
    let moves = a.open(Command::To(carried("server"))).unwrap();
    let waiting = question(b);
    let works = a.open(Command::Ask(look())).unwrap();
    let asked = || b.status().approvals.into_iter().find(|one| one.id != waiting.id);
    wait_until("it is asked", || asked().is_some());
    decide(b, &asked().unwrap(), true);
    wait_until("it works", || started(b).len() == 2 && marked_processes(b) > 0);
    let failed = refused(b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }));
    assert_eq!(failed.what, "nothing was allowed");
    let Some(Err(failed)) = moves.end(&mut |_| {}) else { panic!("it came") };
    assert!(failed.why.contains("a task of laptop works where"), "{}", failed.why);
    stop(works);
    assert!(a.session(planted.id).is_some_and(|session| session.here));
    b.say_yes_to("laptop");
    a.move_with(carried("server")).unwrap();
    assert!(b.session(planted.id).is_some_and(|session| Path::new(&session.directory) == tree));
}

/// What it starts has groups and ears of its own.
///
/// Shows: E-6
#[test]
fn nothing_of_a_task_outlives_the_daemon_that_is_told_to_stop() {
    let mut devices = desk();
    stand_in(
        &devices.b,
        "claude",
        "trap '' TERM; setsid sh -c \"trap '' TERM; sleep 600; :\" & while :; do sleep 1; done",
    );
    let asked = ask(&devices.a, request("work", None)).unwrap();
    allow(&devices.b);
    wait_until("it works", || started(&devices.b).len() == 1 && marked_processes(&devices.b) > 2);
    devices.b.stop();
    assert_eq!(marked_processes(&devices.b), 0);
    devices.b.start();
    is(&devices.a, &asked.id, "interrupted");
}

/// Its owner was asleep, and hears of that.
///
/// Shows: H-9, H-22
#[test]
fn session_that_was_taken_over_by_force_has_no_task_any_more() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    a.say_yes_to("server");
    b.say_yes_to("laptop");
    let planted = claude::plant(&a.home, &place(a), 2);
    a.move_with(MoveRequest { carry_only: true, ..to("server", planted.id) }).unwrap();
    stand_in(b, "claude", "sleep 600");
    let asked = AskRequest { session: Some(planted.id.short()), wait: true, ..request("go on", None) };
    let works = a.open(Command::Ask(asked)).unwrap();
    allow(b);
    wait_until("it works", || started(b).len() == 1 && marked_processes(b) > 0);
    let signal =
        |which| nix::sys::signal::kill(nix::unistd::Pid::from_raw(b.pid().try_into().unwrap()), which).unwrap();
    signal(nix::sys::signal::SIGSTOP);
    wait_until("its owner is not heard", || !a.status().peers[0].connected);
    let id = planted.id.short();
    let taken = a.typed(&["take", "--force", &id, "--yes", &id]);
    signal(nix::sys::signal::SIGCONT);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    assert_eq!(ended(works).0.state, "cancelled");
    assert_eq!(marked_processes(b), 0);
}

/// Shows: E-9
#[test]
fn device_that_is_removed_has_no_task_any_more() {
    let mut devices = desk();
    let b = &devices.b;
    stand_in(b, "claude", "setsid sleep 600 & sleep 600");
    let runs = ask(&devices.a, request("runs", None)).unwrap();
    allow(b);
    wait_until("it runs", || started(b).len() == 1 && marked_processes(b) > 1);
    let waits = ask(&devices.a, request("waits", None)).unwrap();
    let waiting = question(b);
    let before = sent(b);
    b.ask(Command::Revoke { device: "laptop".to_owned(), confirmed: true }).unwrap();
    wait_until("nothing runs and nobody is asked", || marked_processes(b) == 0 && b.status().approvals.is_empty());
    refused(b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }));
    wait_until("there is no task", || all_tasks(b).is_empty());
    assert_eq!((sent(b), started(b).len()), (before, 1), "it is told nothing");
    for id in [&runs.id, &waits.id] {
        assert!(!["done", "cancelled"].contains(&state_or_none(&devices.a, id).as_str()));
    }
    devices.b.stop();
    devices.b.start();
    assert!(all_tasks(&devices.b).is_empty() && devices.b.status().approvals.is_empty());
}

fn state_or_none(device: &Device, id: &str) -> String {
    match device.ask(Command::Task { id: id.to_owned() }) {
        Ok(Answer::Task { task, .. }) => task.state,
        Ok(_) | Err(_) => String::new(),
    }
}

/// Shows: E-9
#[test]
fn task_asked_of_a_device_that_is_removed_is_forgotten() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "sleep 600");
    ask(a, request("runs", None)).unwrap();
    allow(b);
    wait_until("it runs", || started(b).len() == 1);
    a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    wait_until("it is forgotten", || all_tasks(a).is_empty());
    let id = all_tasks(b).remove(0).id;
    b.ask(Command::CancelTask { id: id.clone() }).unwrap();
    is(b, &id, "cancelled");
    assert!(all_tasks(a).is_empty(), "no answer of it is taken");
}

/// Shows: E-1, E-9
#[test]
fn task_that_ended_while_the_device_was_away_asks_nobody() {
    let mut devices = desk();
    stand_in(&devices.b, "claude", "echo ran");
    devices.b.stop();
    wait_until("the laptop knows", || !devices.a.status().peers[0].connected);
    let late = ask(&devices.a, AskRequest { expires_in_s: Some(1), ..request("late", None) }).unwrap();
    let unwanted = ask(&devices.a, request("unwanted", None)).unwrap();
    devices.a.ask(Command::CancelTask { id: unwanted.id.clone() }).unwrap();
    is(&devices.a, &late.id, "expired");
    devices.b.start();
    is(&devices.a, &unwanted.id, "cancelled");
    assert!(devices.b.status().approvals.is_empty() && started(&devices.b).is_empty());
    assert_eq!(state(&devices.a, &late.id), "expired");
}

/// Shows: E-4, E-5
#[test]
fn task_is_answered_once_whenever_its_device_dies() {
    let mut devices = desk();
    stand_in(&devices.b, "claude", "sleep 0.2; echo 'well done'");
    let mut asked = Vec::new();
    for pause_ms in [0, 120, 240, 360, 480] {
        let task = ask(&devices.a, request("do it", None)).unwrap();
        allow(&devices.b);
        std::thread::sleep(Duration::from_millis(pause_ms));
        devices.b.kill();
        devices.b.start();
        wait_until("it is over", || {
            // A yes that was not durable is asked for again.
            devices.b.status().approvals.iter().for_each(|question| {
                let _late = devices.b.ask(Command::Decide { approval: question.id.to_string(), yes: true });
            });
            ["done", "interrupted"].contains(&state(&devices.a, &task.id).as_str())
        });
        asked.push(task.id);
    }
    for id in &asked {
        let (task, report) = show(&devices.a, id);
        assert_eq!(task.state == "done", report.unwrap().text == "well done");
    }
    assert_eq!(sent(&devices.b), asked.len(), "one answer to each");
    assert!(started(&devices.b).len() <= asked.len(), "none ran twice: {:?}", started(&devices.b));
    assert_eq!(marked_processes(&devices.b), 0);
}

/// Shows: E-6, E-9
#[test]
fn what_a_task_starts_decides_nothing_and_asks_for_no_task() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    let cede = format!("'{CEDE}' --home '{}'", b.cede_home.display());
    let words = [
        "allow 1",
        "deny 1",
        "policy laptop delegate accept",
        "approvers add laptop",
        "ask laptop hello",
        "devices revoke laptop --yes",
        "run --detach -- true",
        "notify add command -- true",
        "log --settle laptop",
        "stop --yes",
        "take 1",
        "to laptop 1 --yes-secrets",
        "send laptop . --yes-secrets",
    ];
    // Neither does another environment help, nor a shell in between.
    let typed = words.iter().flat_map(|words| {
        [
            format!("{cede} {words}"),
            format!("env -i {cede} {words}"),
            format!("env -u CEDE_TASK sh -c \"{cede} {words}; exit \\$?\""),
        ]
    });
    let script: String = typed.map(|typed| format!("{typed} 2>&1; echo \"exit $?\"\n")).collect();
    stand_in(b, "claude", &script);
    let waits = a.open(Command::Ask(AskRequest { wait: true, ..request("do it", None) })).unwrap();
    allow(b);
    let (task, report) = ended(waits);
    let text = report.unwrap().text;
    assert_eq!(
        (task.state.as_str(), text.matches("runs inside of a task that a peer asked for").count()),
        ("done", 3 * words.len()),
        "{text}"
    );
    assert_eq!(text.matches(&format!("exit {}", exit::REFUSED)).count(), 3 * words.len(), "{text}");
    assert!(all_tasks(a).len() == 1 && all_tasks(b).len() == 1);
}

/// Shows: E-7
#[test]
fn places_of_old_tasks_are_collected() {
    let mut devices = desk();
    stand_in(&devices.b, "claude", "echo ran > made");
    let task = ask(&devices.a, request("do it", None)).unwrap();
    allow(&devices.b);
    is(&devices.a, &task.id, "done");
    let places = devices.b.state().join("tasks");
    let count = || std::fs::read_dir(&places).unwrap().count();
    assert_eq!(count(), 1);
    for number in 0..50 {
        let place = places.join(format!("old-{number}"));
        std::fs::create_dir_all(place.join("work")).unwrap();
        let at = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::open(&place).unwrap().set_modified(at).unwrap();
    }
    devices.b.stop();
    devices.b.start();
    wait_until("only the newest are left", || count() == 32);
    let newest = std::fs::read_dir(&places).unwrap().flatten().find(|place| place.path().join("work/made").exists());
    assert!(newest.is_some(), "the newest is one of them");
}
