//! Tasks that the real agents do for a peer, under the flags that `cede` adds.

use cede_wire::control::tasks::{TaskReport, TaskSummary};

use super::*;

/// The laboratory's home of the second device, in which the person lets Claude Code use its shell.
fn furnished<'a>(lab: &'a Lab, device: &Device) -> Home<'a> {
    let home = home(lab, device);
    let settings = home.home.join(".claude/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(settings, "{\"permissions\":{\"allow\":[\"Bash\",\"Write\"]}}").unwrap();
    home
}

/// Asks as a person does, waits for its end, and says yes at the other device.
fn asked(desk: &Desk, words: &[&str]) -> (TaskSummary, Option<TaskReport>) {
    let before = tasks(&desk.one);
    let mut command = desk.one.command(&[&["ask"], words, &["--wait"]].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let mut questions = Vec::new();
    wait_until("it is asked, or refused", || {
        questions = desk.two.status().approvals;
        !questions.is_empty() || tasks(&desk.one).iter().any(|task| task.state == "refused" && !before.contains(task))
    });
    for question in questions {
        let allowed = typed(&desk.two, &desk.two.home, &["allow", &question.id.to_string()]);
        assert_eq!(allowed.code, Some(0));
    }
    let output = child.wait_with_output().unwrap();
    println!("{}", said(&desk.one, words, &output));
    let new: Vec<TaskSummary> = tasks(&desk.one).into_iter().filter(|task| !before.contains(task)).collect();
    assert_eq!(new.len(), 1, "{new:?}");
    match desk.one.ask(Command::Task { id: new[0].id.clone() }) {
        Ok(Answer::Task { task, report, .. }) => (*task, report.map(|report| *report)),
        other => panic!("no task: {other:?}"),
    }
}

fn tasks(device: &Device) -> Vec<TaskSummary> {
    match device.ask(Command::Tasks { all: true }) {
        Ok(Answer::Tasks { tasks }) => tasks,
        other => panic!("no tasks: {other:?}"),
    }
}

/// How often the model was asked about a prompt.
fn rounds(lab: &Lab, prompt: &str) -> usize {
    lab.requests().iter().filter(|request| request.to_string().contains(prompt)).count()
}

/// An order to the model to write a file by the agent's shell.
fn writes(driver: Driver, file: &str) -> String {
    driver.tool.replace("echo tool-ran", &format!("echo tool-ran > {file}; cat {file}"))
}

fn does_what_a_peer_asks_for(driver: Driver, turns: Option<u32>) {
    let Some(lab) = driver::lab() else { return };
    let desk = Desk::up(&lab, false);
    let (b, name) = (&desk.two, driver.kind.name());
    let two = furnished(&lab, b);
    let task = format!("make the report\n{}\nREPORT", writes(driver, "report.txt"));
    let (done, report) = asked(&desk, &["two", &task, "--in", "work", "--agent", name]);
    let report = report.unwrap();
    assert_eq!((done.state.as_str(), report.exit, report.agent), ("done", Some(0), Some(driver.kind)), "{report:?}");
    assert!(report.text.starts_with("Answer ") && report.text.contains("tool-ran"), "{report:?}");
    assert_eq!((report.changes.as_str(), report.turns), ("new      report.txt (9 bytes)\n", turns), "{report:?}");
    assert!(model_saw(&lab, "make the report", &["It is a peer's turn", "tool-ran"]));
    assert_eq!(driver.sessions(&two).len(), 1, "it was one turn of one session");
    let asked_for = rounds(&lab, "make the report");

    let native = driver.begin(&two, "the secret word is PLUM");
    let id = SessionKey { agent: driver.kind, native: native.clone() }.id();
    wait_until("a look at the agents' stores finds it", || b.session(id).is_some());
    let (done, report) = asked(&desk, &[&format!("two/{}", id.short()), "say the word"]);
    assert_eq!((done.state.as_str(), done.session), ("done", Some(id)), "{report:?}");
    assert!(model_saw(&lab, "say the word", &["PLUM"]), "the earlier turns are in the request");
    assert_eq!(driver.sessions(&two).len(), 2, "it was a turn of that session");
    assert_eq!(rounds(&lab, "make the report"), asked_for, "the first task was done once");
    let letters = desk.one.ask(Command::Inbox { sent: false, all: true });
    assert!(matches!(letters, Ok(Answer::Inbox { letters, .. }) if letters.len() == 2), "one answer to each");
}

/// Shows: E-3, E-5, E-6
#[test]
fn codex_does_what_a_peer_asks_for() {
    does_what_a_peer_asks_for(CODEX, None);
}

/// Shows: E-3, E-5, E-6
#[test]
fn claude_code_does_what_a_peer_asks_for() {
    does_what_a_peer_asks_for(CLAUDE_CODE, Some(2));
}

/// Shows: E-3, E-5, E-6
#[test]
fn opencode_does_what_a_peer_asks_for() {
    does_what_a_peer_asks_for(OPENCODE, Some(2));
}

/// What the flags take away, with the real programs: files, the shell's writing, tools of other servers, turns.
///
/// Shows: E-6
#[test]
fn who_may_look_only_changes_nothing() {
    let Some(lab) = driver::lab() else { return };
    let desk = Desk::up(&lab, false);
    let two = furnished(&lab, &desk.two);
    let server = |text: &str| text.replace("CEDE", CEDE).replace("STATE", &desk.two.cede_home.display().to_string());
    let codex = two.home.join(".codex/config.toml");
    let config = std::fs::read_to_string(&codex).unwrap();
    let table = server("\n[mcp_servers.cede]\ncommand = \"CEDE\"\nargs = [\"--home\", \"STATE\", \"mcp\"]\n");
    std::fs::write(&codex, config + &table).unwrap();
    let looks = |driver: Driver, words: &str, narrow: &[&str]| {
        let place = ["--in", "work", "--read-only", "--agent", driver.kind.name()];
        asked(&desk, &[&["two", words], &place[..], narrow].concat())
    };

    let words = format!("look, codex\n{}\nREPORT", writes(CODEX, "made.txt"));
    let (task, report) = looks(CODEX, &words, &[]);
    let report = report.unwrap();
    assert_eq!((task.state.as_str(), report.changes.as_str()), ("done", ""), "{report:?}");
    assert!(report.text.contains("Read-only file system"), "{}", report.text);
    let tools = offered(&lab, "look, codex");
    assert!(tools.contains("exec_command") && !tools.contains("mcp__cede"), "{tools}");

    let words =
        format!("look, claude\n{}\nTOOL Write {{\"file_path\":\"made.txt\",\"content\":\"x\"}}", CLAUDE_CODE.tool);
    let (task, report) = looks(CLAUDE_CODE, &words, &[]);
    assert_eq!((task.state.as_str(), report.unwrap().changes.as_str()), ("done", ""));
    let tools = offered(&lab, "look, claude");
    assert!(tools.contains("Glob Grep Read"), "{tools}");
    assert!(!["Bash", "Edit", "Write", "Task", "mcp__"].iter().any(|tool| tools.contains(tool)), "{tools}");
    let (task, report) = looks(CLAUDE_CODE, "look, twice\nTOOL Glob {\"pattern\":\"*\"}\nREPORT", &["--turns", "1"]);
    let report = report.unwrap();
    assert_eq!((task.state.as_str(), report.note.as_str()), ("failed", "Reached maximum number of turns (1)"));

    let (task, _) = looks(OPENCODE, "look, opencode", &[]);
    assert!(task.standing.contains("opencode cannot be held to looking only"), "{}", task.standing);
    assert!(model_never_saw(&lab, "look, opencode"));
    assert!(!two.workdir.join("made.txt").exists());
}

/// The names of the tools that the model was offered with a prompt.
fn offered(lab: &Lab, prompt: &str) -> String {
    let requests = lab.requests().into_iter().rev();
    let request = requests.into_iter().find(|request| request.to_string().contains(prompt)).unwrap();
    let tools = request["tools"].as_array().unwrap();
    let mut names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    names.sort_unstable();
    names.join(" ")
}
