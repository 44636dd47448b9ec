//! Tasks that wait, for a place or for room among the questions, and tasks that end before a program begins.

use cede_tests::devices::{Device, wait_until};
use cede_wire::control::tasks::{AskRequest, TaskSummary};
use cede_wire::control::{Answer, ApprovalSummary, Command, LetterSummary};

use super::super::{decide, question, refused};
use super::{ask, desk, is, request, show, stand_in, started, state, words_file};

/// So many tasks run at once.
const PLACES: usize = 4;
/// So many questions of one device wait.
const QUESTIONS: usize = 3;

fn listed(device: &Device, all: bool) -> Vec<TaskSummary> {
    match device.ask(Command::Tasks { all }) {
        Ok(Answer::Tasks { tasks }) => tasks,
        other => panic!("no tasks: {other:?}"),
    }
}

/// What the device says of one task in its list of all.
fn standing(device: &Device, id: &str) -> Option<(String, String)> {
    let task = listed(device, true).into_iter().find(|task| task.id == id)?;
    Some((task.state, task.standing))
}

fn inbox(device: &Device) -> Vec<LetterSummary> {
    match device.ask(Command::Inbox { sent: false, all: false }) {
        Ok(Answer::Inbox { letters, .. }) => letters,
        other => panic!("no letters: {other:?}"),
    }
}

/// The question about the task of these words.
fn question_of(device: &Device, words: &str) -> ApprovalSummary {
    let mut found = None;
    wait_until("the question is there", || {
        found = device.status().approvals.into_iter().find(|question| question.title == words);
        found.is_some()
    });
    found.unwrap()
}

/// The device on which as many tasks run as may, each until its file is there.
fn fill(a: &Device, b: &Device) -> Vec<TaskSummary> {
    let (words, home) = (words_file(b), b.home.display());
    let until = format!(
        "words=$(tail -n 1 '{}'); touch '{home}/runs-'$words; until [ -e '{home}/'$words ]; do sleep 0.05; done; echo done",
        words.display()
    );
    stand_in(b, "claude", &until);
    let mut tasks = Vec::new();
    for number in 0..PLACES {
        let words = format!("place-{number}");
        let task = ask(a, request(&words, None)).unwrap();
        assert_eq!(decide(b, &question_of(b, &words), true), "allowed");
        wait_until("its program runs", || b.home.join(format!("runs-{words}")).exists());
        is(b, &task.id, "running");
        tasks.push(task);
    }
    tasks
}

fn free(b: &Device, number: usize) {
    std::fs::write(b.home.join(format!("place-{number}")), "").unwrap();
}

/// Shows: E-10
#[test]
fn task_that_has_its_yes_waits_for_a_place_and_both_sides_see_it() {
    let mut devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    let running = fill(a, b);
    let fifth = ask(a, request("place-4", None)).unwrap();
    let said = decide(b, &question_of(b, "place-4"), true);
    assert_eq!(said, "allowed; it waits for a place: 4 tasks run here");
    assert_eq!(show(b, &fifth.id).0.standing, "allowed; waits for a place: 4 tasks run here");
    wait_until("the asker hears of it", || {
        show(a, &fifth.id).0.standing == "allowed at server; waits for a place there"
    });
    assert_eq!((state(a, &fifth.id).as_str(), started(b).len()), ("waiting", PLACES));
    devices.a.stop();
    wait_until("the line is gone", || !devices.b.status().peers[0].connected);
    devices.a.start();
    let (a, b) = (&devices.a, &devices.b);
    wait_until("it is said again", || show(a, &fifth.id).0.standing == "allowed at server; waits for a place there");
    assert!(b.status().approvals.is_empty(), "a yes is asked for once, whatever the line does");
    let last = ask(a, request("place-5", None)).unwrap();
    decide(b, &question_of(b, "place-5"), true);
    free(b, 1);
    is(a, &running[1].id, "done");
    is(b, &fifth.id, "running");
    is(a, &fifth.id, "running");
    assert_eq!(show(b, &last.id).0.state, "waiting", "the one that was allowed first has the place");
    a.ask(Command::CancelTask { id: last.id.clone() }).unwrap();
    is(a, &last.id, "cancelled");
    wait_until("the list has it", || standing(b, &last.id).is_some_and(|(state, _)| state == "cancelled"));
    (0..=PLACES).for_each(|number| free(b, number));
    is(a, &fifth.id, "done");
    wait_until("nothing runs", || listed(b, false).is_empty());
    assert_eq!(started(b).len(), PLACES + 1);
    every_yes_has_its_end(b);
}

/// Shows: E-10
#[test]
fn yes_that_went_with_a_restart_is_claimed_by_nobody() {
    let mut devices = desk();
    fill(&devices.a, &devices.b);
    let fifth = ask(&devices.a, request("place-4", None)).unwrap();
    decide(&devices.b, &question_of(&devices.b, "place-4"), true);
    let standing = |a: &Device| show(a, &fifth.id).0.standing;
    wait_until("the asker hears of it", || standing(&devices.a) == "allowed at server; waits for a place there");
    devices.b.kill();
    devices.b.start();
    question_of(&devices.b, "place-4");
    wait_until("the asker sees that", || standing(&devices.a) == "waits for the operator of server");
}

/// Shows: E-10
#[test]
fn task_that_waits_for_a_place_runs_out_and_a_rule_ends_it() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    fill(a, b);
    let short = ask(a, AskRequest { expires_in_s: Some(6), ..request("short", None) }).unwrap();
    decide(b, &question_of(b, "short"), true);
    let long = ask(a, request("long", None)).unwrap();
    decide(b, &question_of(b, "long"), true);
    is(a, &short.id, "expired");
    assert_eq!(show(a, &short.id).0.standing, "server had no place for it in time");
    assert_eq!(standing(b, &short.id).unwrap().0, "expired");
    assert!(b.typed(&["policy", "laptop", "delegate", "refuse"]).status.success());
    free(b, 0);
    is(a, &long.id, "refused");
    (0..PLACES).for_each(|number| free(b, number));
    wait_until("nothing runs", || listed(b, false).is_empty());
    assert_eq!(started(b).len(), PLACES);
    every_yes_has_its_end(b);
}

/// Whatever a person said yes to in a list of the record has what came of it, under the same number as the question.
fn every_yes_has_its_end(device: &Device) {
    let Ok(Answer::Log { lines, .. }) = device.ask(Command::Log { tail: None, verify: false }) else {
        panic!("no record")
    };
    let delegate = |kind: &'static str| {
        let of_kind = lines.iter().filter(move |line| line.kind == kind && line.text.contains("delegate"));
        of_kind.map(|line| line.about.clone().unwrap()).collect::<Vec<_>>()
    };
    let yes = lines
        .iter()
        .filter(|line| line.kind == "decided" && line.text.contains("delegate") && line.allowed == Some(true));
    for yes in yes {
        let of = yes.about.as_ref().unwrap();
        assert!(delegate("asked").contains(of), "{of} was asked: {lines:#?}");
        assert_eq!(delegate("outcome").iter().filter(|one| *one == of).count(), 1, "{of} has one end: {lines:#?}");
    }
}

/// Shows: E-9, U-10
#[test]
fn task_that_is_withdrawn_as_it_is_allowed_is_listed_and_recorded() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "sleep 600");
    for round in 0..10 {
        let words = format!("round {round}");
        let task = ask(a, request(&words, None)).unwrap();
        let waiting = question_of(b, &words);
        let yes = Command::Decide { approval: waiting.id.to_string(), yes: true };
        // Both are before the daemon at the same moment.
        cede_tests::devices::signal(b.pid(), "STOP");
        let answered = b.open(yes).unwrap();
        a.ask(Command::CancelTask { id: task.id.clone() }).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        cede_tests::devices::signal(b.pid(), "CONT");
        let said = answered.end(&mut |_| {}).unwrap();
        is(a, &task.id, "cancelled");
        wait_until("it is over there", || listed(b, false).is_empty());
        assert_eq!(standing(b, &task.id).unwrap().0, "cancelled");
        if let Err(failed) = said {
            assert!(failed.why.starts_with("whoever asked withdrew it"), "{failed:?}");
        }
    }
    every_yes_has_its_end(b);
}

/// Shows: E-9
#[test]
fn tasks_that_did_not_begin_are_listed_with_what_became_of_them() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "echo ran");
    let declined = ask(a, request("declined", None)).unwrap();
    decide(b, &question(b), false);
    is(a, &declined.id, "refused");
    let withdrawn = ask(a, request("withdrawn", None)).unwrap();
    question(b);
    a.ask(Command::CancelTask { id: withdrawn.id.clone() }).unwrap();
    is(a, &withdrawn.id, "cancelled");
    let hindered = ask(a, request("hindered", Some(std::path::Path::new("/nowhere")))).unwrap();
    is(a, &hindered.id, "refused");
    wait_until("its reason came", || show(a, &hindered.id).1.is_some());
    a.ask(Command::Tell(cede_wire::control::TellRequest {
        device: "server".to_owned(),
        text: "no task".to_owned(),
        ..Default::default()
    }))
    .unwrap();
    wait_until("it came", || inbox(b).len() == 1);
    let plain = inbox(b).remove(0).id;
    b.ask(Command::MarkLetter { id: plain.clone(), acted: false }).unwrap();
    let of = |id: &str| standing(b, id).unwrap();
    assert_eq!(of(&declined.id), ("refused".to_owned(), "refused here".to_owned()));
    assert_eq!(of(&withdrawn.id), ("cancelled".to_owned(), "withdrawn before it began".to_owned()));
    assert!(of(&hindered.id).1.contains("/nowhere"), "{:?}", of(&hindered.id));
    assert_eq!((listed(b, true).len(), listed(b, false).len()), (3, 0));
    assert_eq!(show(b, &withdrawn.id).0.begins, "withdrawn");
    assert_eq!(refused(b.ask(Command::Task { id: plain })).what, "no task is meant");
}

/// Shows: E-8
#[test]
fn answer_without_words_says_what_it_is_where_messages_are_listed() {
    let mut devices = desk();
    devices.b.stop();
    let hindered = ask(&devices.a, request("do it", None)).unwrap();
    devices.b.start();
    let (a, b) = (&devices.a, &devices.b);
    wait_until("the answer came", || inbox(a).len() == 1);
    let row = inbox(a).remove(0);
    let begins = format!("task {}, refused: no coding agent is installed here", hindered.id);
    assert!(row.begins.starts_with(&begins), "{}", row.begins);
    let printed = String::from_utf8(a.typed(&["inbox"]).stdout).unwrap();
    assert!(printed.contains(&format!("task {}", hindered.id)), "{printed}");
    let Ok(Answer::Letter { text, .. }) = a.ask(Command::Letter { id: row.id }) else { panic!("it is not read") };
    assert!(text.starts_with(&begins), "{text}");
    stand_in(b, "claude", "sleep 600");
    let running = ask(a, request("do it", None)).unwrap();
    decide(b, &question(b), true);
    is(b, &running.id, "running");
    a.ask(Command::CancelTask { id: running.id.clone() }).unwrap();
    let begins = format!("task {}, cancelled", running.id);
    wait_until("its answer came", || inbox(a).iter().any(|row| row.begins.starts_with(&begins)));
}

/// Shows: U-9
#[test]
fn tasks_that_wait_for_room_among_the_questions_are_looked_at_when_there_is_some() {
    let devices = desk();
    let (a, b) = (&devices.a, &devices.b);
    stand_in(b, "claude", "echo ran");
    let looks = || b.log().matches("a task is looked at").count();
    let tasks: Vec<TaskSummary> =
        (0..12).map(|number| ask(a, request(&format!("task {number}"), None)).unwrap()).collect();
    wait_until("all are there", || listed(b, false).len() == tasks.len());
    wait_until("as many as may are asked about", || b.status().approvals.len() == QUESTIONS);
    assert_eq!(looks(), QUESTIONS);
    for (number, task) in tasks.iter().enumerate() {
        decide(b, &question_of(b, &format!("task {number}")), true);
        is(a, &task.id, "done");
    }
    assert_eq!((looks(), started(b).len()), (tasks.len(), tasks.len()), "each once, in their order");
}
