//! `cede notify`: how a person is called when a question waits.

use std::io::{BufRead, Read};

use cede_wire::control::notify::{NotifyRequest, Sink};
use cede_wire::control::{Answer, Command, Failure, exit};

use crate::args::{NotifyAction, SinkKind};
use crate::fault;
use crate::limits::ADDRESS_BYTES;
use crate::verbs::{FEW, Hand};

/// Lists, adds, removes or tries.
///
/// # Errors
/// The failure to show.
pub(crate) fn run(hand: &Hand<'_>, action: Option<NotifyAction>) -> Result<u8, Failure> {
    let tried = matches!(action, Some(NotifyAction::Test { .. }));
    let request = match action {
        None => NotifyRequest::List,
        Some(NotifyAction::Add { kind, words, name, buttons }) => {
            NotifyRequest::Add { name, sink: sink(hand, kind, words, buttons)? }
        }
        Some(NotifyAction::Remove { name }) => NotifyRequest::Remove { name },
        Some(NotifyAction::Test { name }) => NotifyRequest::Test { name },
    };
    let answer = hand.client.ask(Command::Notify(request))?;
    let failing = matches!(&answer, Answer::Sinks { sinks } if tried && sinks.iter().any(|one| !one.detail.is_empty()));
    hand.show(answer, FEW);
    Ok(if failing { exit::FAILED } else { exit::OK })
}

fn sink(hand: &Hand<'_>, kind: SinkKind, words: Vec<String>, buttons: bool) -> Result<Sink, Failure> {
    let usage = |why: &str, cure: &str| fault::local(exit::USAGE, "nothing was added", why, cure);
    if buttons && kind != SinkKind::Ntfy {
        return Err(usage("only ntfy has buttons that answer", "cede notify add ntfy --buttons"));
    }
    match kind {
        SinkKind::Desktop if words.is_empty() => Ok(Sink::Desktop),
        SinkKind::Desktop => Err(usage("the desktop needs nothing more", "cede notify add desktop")),
        SinkKind::Command if words.is_empty() => {
            Err(usage("the command is missing", "cede notify add command -- PROGRAM ARGUMENT…"))
        }
        SinkKind::Command => Ok(Sink::Command { argv: words }),
        SinkKind::Webhook => Ok(Sink::Webhook { url: address(hand, words)? }),
        SinkKind::Ntfy => Ok(Sink::Ntfy { url: address(hand, words)?, buttons }),
    }
}

/// An address is often a secret, which does not belong on a command line: then it is asked for, or read.
fn address(hand: &Hand<'_>, words: Vec<String>) -> Result<String, Failure> {
    let missing = || {
        let cure = "cede notify add webhook - (then it is read from the standard input)";
        fault::local(exit::USAGE, "nothing was added", "one address is needed", cure)
    };
    let typed = match words.as_slice() {
        [] => hand.terminal.type_in("The address (it is kept as a secret):").ok_or_else(missing)?,
        [dash] if dash == "-" => {
            let mut line = String::new();
            let read = std::io::stdin().lock().take(ADDRESS_BYTES).read_line(&mut line);
            read.map_err(|error| fault::local(exit::FAILED, "nothing was added", &error.to_string(), ""))?;
            line
        }
        [one] => one.clone(),
        _ => return Err(missing()),
    };
    Ok(typed.trim().to_owned())
}
