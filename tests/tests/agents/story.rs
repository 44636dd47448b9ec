//! The whole story: two agents on two devices talk, one does a task for the other, and a person says yes once.

use cede_agent::terminal::End;
use cede_tests::devices::tty::Tty;
use cede_wire::audit::DecidedBy;
use cede_wire::control::decisions::LogLine;
use cede_wire::member::Capability;
use serde_json::{Value, json};

use super::*;

/// The agents of this desk have the tools of `cede`, as `docs/OPERATING.md` says.
fn give_tools(one: &Home<'_>, a: &Device, two: &Home<'_>, b: &Device) {
    let change = |file: PathBuf, change: &dyn Fn(&mut Value)| {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|_| "{}".to_owned());
        let mut value: Value = serde_json::from_str(&text).unwrap();
        change(&mut value);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, value.to_string()).unwrap();
    };
    change(one.home.join(".config/opencode/opencode.json"), &|config| {
        let command = json!([CEDE, "--home", a.cede_home, "mcp"]);
        config["mcp"] = json!({ "cede": { "type": "local", "command": command } });
    });
    change(two.home.join(".claude.json"), &|config| {
        let arguments = json!(["--home", b.cede_home, "mcp"]);
        config["mcpServers"] = json!({ "cede": { "type": "stdio", "command": CEDE, "args": arguments } });
    });
    change(two.home.join(".claude/settings.json"), &|settings| {
        settings["permissions"] = json!({ "allow": ["Bash", "mcp__cede"] });
    });
}

fn opencode(home: &Home<'_>, prompt: &str) -> String {
    let said = home.pipe(&home.workdir, &["opencode", "run"], prompt);
    assert!(said.success, "{}", said.text);
    said.text
}

fn claude_code(home: &Home<'_>, prompt: &str) -> String {
    let said = home.pipe(&home.workdir, &["claude", "-p"], prompt);
    assert!(said.success, "{}", said.text);
    said.text
}

/// The only message that waits in an inbox.
fn message(device: &Device) -> cede_wire::control::LetterSummary {
    match device.ask(Command::Inbox { sent: false, all: false }) {
        Ok(Answer::Inbox { mut letters, .. }) if letters.len() == 1 => letters.remove(0),
        other => panic!("not one message: {other:?}"),
    }
}

fn log(device: &Device) -> Vec<LogLine> {
    assert_eq!(typed(device, &device.home, &["log", "--verify"]).code, Some(0), "the record is whole");
    typed(device, &device.home, &["log"]);
    match device.ask(Command::Log { verify: false, tail: None }) {
        Ok(Answer::Log { lines, .. }) => lines,
        other => panic!("no record: {other:?}"),
    }
}

/// Shows: E-3, E-5, L-10, L-11, U-10
#[test]
fn two_agents_talk_and_one_does_a_task_for_the_other_once_a_person_said_yes() {
    let Some(lab) = driver::lab() else { return };
    let desk = Desk::up(&lab, false);
    let (a, b) = (&desk.one, &desk.two);
    let (one, two) = (home(&lab, a), home(&lab, b));
    give_tools(&one, a, &two, b);
    std::fs::write(two.workdir.join("test.sh"), "echo 214 passed | tee result.txt\n").unwrap();

    opencode(&one, "Ask\nTOOL cede_send_message {\"to\":\"two\",\"text\":\"may I have the tests run?\"}");
    let came = message(b);
    assert_eq!((came.from.as_str(), came.begins.as_str()), ("one", "may I have the tests run?"));
    let finds = "TOOL ToolSearch {\"query\":\"select:mcp__cede__read_inbox,mcp__cede__send_message\"}";
    let reads = format!("TOOL mcp__cede__read_inbox {}", json!({ "id": came.id }));
    let answers = json!({ "in_reply_to": came.id, "text": "ask me for it: work" });
    claude_code(&two, &format!("Answer\n{finds}\n{reads}\nTOOL mcp__cede__send_message {answers}"));
    assert_eq!(message(a).begins, "ask me for it: work");

    let task = "run the tests\nTOOL Bash {\"command\":\"sh test.sh\",\"description\":\"t\"}\nREPORT";
    let asks = json!({ "to": "two", "task": task, "directory": "work", "agent": "claude-code" });
    opencode(&one, &format!("Delegate\nTOOL cede_read_inbox {{}}\nTOOL cede_ask_peer {asks}"));
    let Ok(Answer::Tasks { tasks }) = a.ask(Command::Tasks { all: true }) else { panic!("no tasks") };
    let id = tasks[0].id.clone();
    assert_eq!((tasks.len(), tasks[0].state.as_str()), (1, "waiting"), "{tasks:?}");
    let questions = b.status().approvals;
    assert_eq!((questions.len(), questions[0].title.as_str()), (1, task));
    assert!(model_never_saw(&lab, "It is a peer's turn") && !two.workdir.join("result.txt").exists());
    say_yes_in_the_cockpit(b);
    lab::wait_until("it is done", Duration::from_secs(60), || {
        matches!(a.ask(Command::Task { id: id.clone() }), Ok(Answer::Task { report: Some(_), .. }))
    });

    let heard = opencode(&one, &format!("What came of it?\nTOOL cede_read_tasks {}\nREPORT", json!({ "id": id })));
    for words in ["done at two", "214 passed", "claude-code", "new      result.txt"] {
        assert!(heard.contains(words), "the agent hears {words:?}: {heard}");
    }
    assert_eq!(std::fs::read_to_string(two.workdir.join("result.txt")).unwrap(), "214 passed\n");
    tell_the_story(&log(a), &log(b));
}

/// A person opens the cockpit, reads the question there, and presses a key.
fn say_yes_in_the_cockpit(device: &Device) {
    let mut cockpit = Tty::open(device, &[]);
    let drawn = |screen: &str| screen.contains("answer: cede allow") && screen.contains("y yes  n no");
    let screen = cockpit.show("the question stands there whole", drawn);
    println!("{screen}");
    let lines = [
        "1 question waits",
        "▸1 Questions 1",
        "one wants a task done here; no answer in",
        "delegate; a yes is for this once",
        "| run the tests",
        "| TOOL Bash {\"command\":\"sh test.sh\",\"description\":\"t\"}",
        "| REPORT",
        "agent: claude-code",
        "y yes  n no",
    ];
    for line in lines {
        assert!(screen.contains(line), "{line:?} is not on the screen:\n{screen}");
    }
    std::thread::sleep(Duration::from_millis(900));
    cockpit.type_in("y");
    let screen = cockpit.show("it says so", |screen| screen.contains("allowed: one wants a task done here"));
    println!("{screen}");
    cockpit.show("nothing waits any more", |screen| screen.contains("▸1 Questions none"));
    cockpit.type_in("q");
    assert_eq!(cockpit.end(), End::Code(0));
}

/// What each device wrote down of it.
fn tell_the_story(here: &[LogLine], there: &[LogLine]) {
    let of = |lines: &[LogLine], capability| -> Vec<(String, Option<bool>, Option<DecidedBy>)> {
        let lines = lines.iter().filter(|line| line.capability == Some(capability));
        lines.map(|line| (line.kind.clone(), line.allowed, line.by)).collect()
    };
    let decided = |by| ("decided".to_owned(), Some(true), Some(by));
    for lines in [here, there] {
        let messages = of(lines, Capability::Message);
        assert!(messages.contains(&decided(DecidedBy::Grant)), "{messages:?}");
    }
    let delegated = of(there, Capability::Delegate);
    let asked = ("asked".to_owned(), None, None);
    let done = ("outcome".to_owned(), None, None);
    assert_eq!(delegated, [asked, decided(DecidedBy::Operator), done]);
    let shown = |kind| there.iter().find(|line| line.kind == kind && line.capability == Some(Capability::Delegate));
    assert_eq!(shown("asked").unwrap().shown, shown("decided").unwrap().shown, "the yes is for what was shown");
    assert!(shown("outcome").unwrap().text.contains("done"), "{:?}", shown("outcome"));
    let acted = here.iter().find(|line| line.kind == "acted" && line.text.contains("asked for a task"));
    assert_eq!(acted.unwrap().device.as_deref(), Some("two"));
    assert!(of(here, Capability::Delegate).is_empty(), "nobody asked this device for anything");
}
