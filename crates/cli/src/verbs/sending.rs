//! Files: sent, and watched until they are received.

use std::path::Path;
use std::sync::mpsc::Receiver;

use cede_wire::control::{Answer, Command, Failure, ReplyBody, SendRequest, TransferState, TransferSummary, exit};

use crate::args::Send;
use crate::client::{AskError, TRANSFERS};
use crate::fault;
use crate::interrupt::{Event, events};
use crate::progress::Carried;
use crate::verbs::{FEW, Hand, text_of};

/// `cede send`.
pub(crate) fn send(hand: &Hand<'_>, send: &Send) -> Result<u8, Failure> {
    let request = SendRequest {
        device: send.device.clone(),
        paths: send.files.iter().map(|file| named(file)).collect::<Result<_, _>>()?,
        note: send.note.clone(),
        wait: send.wait,
        confirm_secrets: send.yes_secrets,
    };
    match follow(hand, request.clone()) {
        Err(failure) if failure.cure.contains(SECRETS) && !send.yes_secrets => {
            hand.consent(failure, "Send them too?")?;
            follow(hand, SendRequest { confirm_secrets: true, ..request })
        }
        outcome => outcome,
    }
}

fn follow(hand: &Hand<'_>, request: SendRequest) -> Result<u8, Failure> {
    let answers = hand.client.open(Command::Send(request), None).map_err(|error| error.failure(TRANSFERS))?;
    let answer = until_the_end(hand, &events(answers))?;
    hand.show(answer, FEW);
    Ok(exit::OK)
}

fn until_the_end(hand: &Hand<'_>, events: &Receiver<Event>) -> Result<Answer, Failure> {
    let mut carried = Carried::new(hand.terminal);
    let mut last: Option<Box<TransferSummary>> = None;
    loop {
        match events.recv() {
            Ok(Event::Reply(body)) => match *body {
                ReplyBody::Done(answer) => return Ok(answer),
                ReplyBody::Failed(failure) => return Err(failure),
                ReplyBody::Sending(summary) => {
                    carried.see(&summary);
                    hand.terminal.reply(&ReplyBody::Sending(summary.clone()));
                    last = Some(summary);
                }
                ReplyBody::Progress(_)
                | ReplyBody::Planned(_)
                | ReplyBody::Pairing(_)
                | ReplyBody::Terminal(_)
                | ReplyBody::Task(_)
                | ReplyBody::Telling(_) => {}
            },
            Ok(Event::Interrupted) => {
                carried.clear();
                return Err(interrupted(last.as_deref()));
            }
            Ok(Event::Over(error)) => return Err(error.failure(TRANSFERS)),
            Err(_) => return Err(AskError::Ended.failure(TRANSFERS)),
        }
    }
}

/// Whoever waits no longer has withdrawn nothing.
fn interrupted(last: Option<&TransferSummary>) -> Failure {
    match last {
        None => fault::local(exit::INTERRUPTED, "interrupted", "nothing was queued that is known of", "cede transfers"),
        Some(last) => {
            let cure = format!("cede transfers; to withdraw it: cede transfers cancel {}", last.id.short());
            let reading = last.state == TransferState::Reading;
            let why = if reading { "they go on being read, and are sent then" } else { "the files go on being sent" };
            fault::local(exit::INTERRUPTED, "waiting ended", why, &cure)
        }
    }
}

/// The file or folder itself, by its own name: the way to it may hold links, what is sent must be none.
pub(crate) fn named(file: &Path) -> Result<String, Failure> {
    let unnamed = |why: &str| {
        let what = format!("{} cannot be sent", file.display());
        fault::local(exit::FAILED, &what, why, "name files and folders that are there")
    };
    let real = match (file.symlink_metadata(), file.parent(), file.file_name()) {
        (Ok(_), Some(above), Some(name)) => {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            above.canonicalize().map(|above| above.join(name))
        }
        // The present directory, or one above.
        (Ok(_), _, None) => file.canonicalize(),
        (Ok(_), None, Some(_)) => Ok(file.to_owned()),
        (Err(error), ..) => Err(error),
    };
    text_of(&real.map_err(|error| unnamed(&error.to_string()))?)
}

/// The flag that a refusal over secrets asks for.
const SECRETS: &str = "--yes-secrets";
