//! `cede ask` and `cede tasks`.

use std::io::IsTerminal;
use std::sync::mpsc::Receiver;

use cede_wire::control::tasks::{AskRequest, TaskSummary};
use cede_wire::control::{Answer, Command, Failure, ReplyBody, exit};
use cede_wire::session::AgentKind;
use cede_wire::task::TaskScope;

use crate::args::{Ask, TaskAgent, Tasks};
use crate::client::{AskError, TASKS};
use crate::fault;
use crate::interrupt::{Event, events};
use crate::page::Page;
use crate::show::tasks as shown;
use crate::verbs::letters::read_words;
use crate::verbs::{FEW, Hand};

/// Asks for a task, and says the true word of how far it is.
pub(crate) fn ask(hand: &Hand<'_>, ask: Ask) -> Result<u8, Failure> {
    let waits = ask.wait;
    let answers = hand.client.open(Command::Ask(request(ask)?), None).map_err(|error| error.failure(TASKS))?;
    let answer = until_the_end(hand, &events(answers))?;
    let Answer::Task { task, .. } = &answer else { return Err(fault::unexpected_answer()) };
    let code = code(task, waits);
    if waits {
        hand.show(answer, FEW);
    } else {
        hand.terminal.data(&shown::asked(task));
        hand.terminal.reply(&ReplyBody::Done(answer));
    }
    Ok(code)
}

fn until_the_end(hand: &Hand<'_>, events: &Receiver<Event>) -> Result<Answer, Failure> {
    let mut last: Option<Box<TaskSummary>> = None;
    loop {
        match events.recv() {
            Ok(Event::Reply(body)) => match *body {
                ReplyBody::Done(answer) => return Ok(answer),
                ReplyBody::Failed(failure) => return Err(failure),
                ReplyBody::Task(task) => {
                    match last.as_deref().map(shown::progress) {
                        None => hand.terminal.talk(&shown::asked(&task)),
                        Some(before) if before == shown::progress(&task) => {}
                        Some(_) => hand.terminal.say(shown::progress(&task)),
                    }
                    hand.terminal.reply(&ReplyBody::Task(task.clone()));
                    last = Some(task);
                }
                ReplyBody::Progress(_)
                | ReplyBody::Planned(_)
                | ReplyBody::Pairing(_)
                | ReplyBody::Sending(_)
                | ReplyBody::Terminal(_)
                | ReplyBody::Telling(_) => {}
            },
            Ok(Event::Interrupted) => return Err(interrupted(last.as_deref())),
            Ok(Event::Over(error)) => return Err(error.failure(TASKS)),
            Err(_) => return Err(AskError::Ended.failure(TASKS)),
        }
    }
}

/// Whoever waits no longer has withdrawn nothing.
fn interrupted(last: Option<&TaskSummary>) -> Failure {
    let Some(task) = last else {
        return fault::local(exit::INTERRUPTED, "interrupted", "nothing is known of the task yet", "cede tasks");
    };
    let why = format!("the task stays asked for: {}", task.standing);
    let cure = format!("look: cede tasks {0}; to end it: cede tasks --cancel {0}", task.id);
    fault::local(exit::INTERRUPTED, "waiting ended", &why, &cure)
}

/// Lists, shows, or ends tasks.
pub(crate) fn tasks(hand: &Hand<'_>, tasks: Tasks) -> Result<u8, Failure> {
    match tasks {
        Tasks { id: Some(id), .. } => hand.ask(Command::Task { id }),
        Tasks { cancel: Some(id), .. } => hand.ask(Command::CancelTask { id }),
        Tasks { result: Some(id), .. } => result(hand, id),
        Tasks { all, .. } => hand.ask(Command::Tasks { all }),
    }
}

fn result(hand: &Hand<'_>, id: String) -> Result<u8, Failure> {
    let answer = hand.client.ask(Command::Task { id })?;
    let Answer::Task { task, report, .. } = &answer else { return Err(fault::unexpected_answer()) };
    let Some(report) = report else {
        let cure = format!("cede tasks {}", task.id);
        let exit = if code(task, true) == exit::OK { exit::PENDING } else { code(task, true) };
        return Err(fault::local(exit, "there is no result", &task.standing, &cure));
    };
    let code = code(task, true);
    let mut page = Page::default();
    if std::io::stdout().is_terminal() {
        page.behind_a_bar(&report.text);
    } else {
        // Another program gets the words alone.
        report.text.split('\n').for_each(|line| page.line([crate::page::plain(line)]));
    }
    hand.terminal.data(&page);
    hand.terminal.reply(&ReplyBody::Done(answer));
    Ok(code)
}

fn request(ask: Ask) -> Result<AskRequest, Failure> {
    let task = if ask.task == "-" { read_words()? } else { ask.task };
    let (device, session) = whom(ask.to, ask.directory.is_some())?;
    let agent = ask.agent.map(|agent| match agent {
        TaskAgent::Codex => AgentKind::Codex,
        TaskAgent::ClaudeCode => AgentKind::ClaudeCode,
        TaskAgent::OpenCode => AgentKind::OpenCode,
    });
    let scope = TaskScope {
        directory: ask.directory,
        agent,
        read_only: ask.read_only,
        tools: ask.tools,
        turns: ask.turns,
        minutes: ask.minutes,
    };
    Ok(AskRequest {
        device,
        session,
        task,
        scope,
        expires_in_s: ask.expires.map(|time| time.as_secs()),
        wait: ask.wait,
    })
}

/// The device that is meant, and the session there.
///
/// # Errors
/// A session was named, and a directory too.
pub(crate) fn whom(to: String, directory: bool) -> Result<(String, Option<String>), Failure> {
    match to.split_once('/') {
        Some(_) if directory => {
            let cure = "cede ask DEVICE/SESSION \"…\"";
            Err(fault::local(exit::USAGE, "nothing was asked for", "a session has its own directory", cure))
        }
        Some((device, session)) => Ok((device.to_owned(), Some(session.to_owned()))),
        None => Ok((to, None)),
    }
}

/// A task that waits is as good as asked for, unless somebody waits for its end.
fn code(task: &TaskSummary, waits: bool) -> u8 {
    match task.state.as_str() {
        "queued" | "waiting" | "running" if waits => exit::PENDING,
        "refused" => exit::REFUSED,
        "expired" | "timed-out" => exit::TIMEOUT,
        "failed" | "cancelled" | "interrupted" | "quarantined" => exit::FAILED,
        _ => exit::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Result<AskRequest, Failure> {
        use clap::Parser;
        let cli = crate::args::Cli::try_parse_from(["cede", "ask"].iter().chain(words)).unwrap();
        let Some(crate::args::Verb::Ask(ask)) = cli.verb else { panic!("not ask") };
        request(ask)
    }

    #[test]
    fn scope_is_what_was_typed() {
        let words = ["server", "run the tests", "--in", "db", "--read-only", "--tools", "Read,Grep", "--turns", "5"];
        let asked = typed(&words).unwrap();
        assert_eq!((asked.device.as_str(), asked.session, asked.wait), ("server", None, false));
        let scope = TaskScope {
            directory: Some("db".into()),
            agent: None,
            read_only: true,
            tools: vec!["Read".into(), "Grep".into()],
            turns: Some(5),
            minutes: 20,
        };
        assert_eq!(asked.scope, scope);
    }

    #[test]
    fn session_has_its_own_directory() {
        let asked = typed(&["server/Fix the login", "go on", "--agent", "codex", "--expires", "90s"]).unwrap();
        assert_eq!((asked.session.as_deref(), asked.expires_in_s), (Some("Fix the login"), Some(90)));
        assert_eq!(typed(&["server/x", "go on", "--in", "db"]).unwrap_err().exit, exit::USAGE);
    }

    #[test]
    fn ctrl_c_withdraws_nothing_and_names_the_task() {
        let (send, receive) = std::sync::mpsc::sync_channel(2);
        let task = crate::show::samples::task().0;
        let id = task.id.clone();
        send.send(Event::Reply(Box::new(ReplyBody::Task(Box::new(task))))).unwrap();
        send.send(Event::Interrupted).unwrap();
        let terminal = crate::terminal::Terminal::new(&crate::args::Global { quiet: true, ..Default::default() });
        let client = crate::client::Client::new(std::path::Path::new("/nowhere"));
        let failed = until_the_end(&Hand { client, terminal: &terminal }, &receive).unwrap_err();
        assert_eq!(failed.exit, exit::INTERRUPTED);
        assert!(failed.cure.contains(&format!("cede tasks --cancel {id}")), "{}", failed.cure);
        assert_eq!(interrupted(None).exit, exit::INTERRUPTED);
    }
}
