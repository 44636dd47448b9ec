//! `cede ask` and `cede tasks`.

use cede_wire::control::tasks::{AskRequest, TaskSummary};
use cede_wire::control::{Answer, Command, Failure, ReplyBody, exit};
use cede_wire::session::AgentKind;
use cede_wire::task::TaskScope;

use crate::args::{Ask, TaskAgent, Tasks};
use crate::fault;
use crate::page::Page;
use crate::show::tasks as shown;
use crate::verbs::letters::read_words;
use crate::verbs::{FEW, Hand};

/// Asks for a task, and says the true word of how far it is.
pub(crate) fn ask(hand: &Hand<'_>, ask: Ask) -> Result<u8, Failure> {
    let waits = ask.wait;
    let mut answers = hand.client.open(Command::Ask(request(ask)?), None)?;
    let mut last = String::new();
    loop {
        match answers.next()? {
            ReplyBody::Done(answer) => {
                let Answer::Task { task, .. } = &answer else { return Err(fault::unexpected_answer()) };
                let code = code(task, waits);
                if waits {
                    hand.show(answer, FEW);
                } else {
                    hand.terminal.data(&shown::asked(task));
                    hand.terminal.reply(&ReplyBody::Done(answer));
                }
                return Ok(code);
            }
            ReplyBody::Failed(failure) => return Err(failure),
            ReplyBody::Task(task) => {
                let line = shown::progress(&task);
                if line != last {
                    hand.terminal.say(&line);
                    last = line;
                }
                hand.terminal.reply(&ReplyBody::Task(task));
            }
            ReplyBody::Progress(_)
            | ReplyBody::Planned(_)
            | ReplyBody::Pairing(_)
            | ReplyBody::Sending(_)
            | ReplyBody::Terminal(_) => {}
        }
    }
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
    report.text.split('\n').for_each(|line| page.line([crate::page::plain(line)]));
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
}
