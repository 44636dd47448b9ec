//! `cede tell` and `cede inbox`.

use std::io::Read;
use std::sync::mpsc::Receiver;

use cede_wire::control::{Answer, Command, Failure, LetterSummary, ReplyBody, TellRequest, TellUntil, exit};
use cede_wire::limits::LETTER_BYTES;

use crate::args::{Inbox, Tell, Until};
use crate::client::{AskError, SENT};
use crate::fault;
use crate::interrupt::{Event, events};
use crate::limits::TELL_PATIENCE;
use crate::show::letters as shown;
use crate::terminal;
use crate::verbs::{FEW, Hand};

/// Tells a device something, and says the true word of how far it came.
pub(crate) fn tell(hand: &Hand<'_>, tell: Tell) -> Result<u8, Failure> {
    let waits = tell.wait.is_some();
    let request = request(tell)?;
    let answers = hand.client.open(Command::Tell(request), None).map_err(|error| error.failure(SENT))?;
    let letter = until_told(hand, &events(answers))?;
    let code = code(&letter, waits);
    hand.show(Answer::Told(letter), FEW);
    Ok(code)
}

fn until_told(hand: &Hand<'_>, events: &Receiver<Event>) -> Result<Box<LetterSummary>, Failure> {
    let mut last: Option<Box<LetterSummary>> = None;
    loop {
        match events.recv() {
            Ok(Event::Reply(body)) => match *body {
                ReplyBody::Done(Answer::Told(letter)) => return Ok(letter),
                ReplyBody::Done(_) => return Err(fault::unexpected_answer()),
                ReplyBody::Failed(failure) => return Err(failure),
                ReplyBody::Telling(letter) => {
                    hand.terminal.talk(&shown::told(&letter));
                    hand.terminal.reply(&ReplyBody::Telling(letter.clone()));
                    last = Some(letter);
                }
                ReplyBody::Progress(_)
                | ReplyBody::Planned(_)
                | ReplyBody::Pairing(_)
                | ReplyBody::Sending(_)
                | ReplyBody::Terminal(_)
                | ReplyBody::Task(_) => {}
            },
            Ok(Event::Interrupted) => return Err(interrupted(last.as_deref())),
            Ok(Event::Over(error)) => return Err(error.failure(SENT)),
            Err(_) => return Err(AskError::Ended.failure(SENT)),
        }
    }
}

/// Whoever waits no longer has taken nothing back.
fn interrupted(last: Option<&LetterSummary>) -> Failure {
    let Some(letter) = last else {
        let why = "nothing is known of the message yet";
        return fault::local(exit::INTERRUPTED, "interrupted", why, "cede inbox --sent");
    };
    let why = format!("message {} stays told: {}", letter.id, letter.standing);
    fault::local(exit::INTERRUPTED, "waiting ended", &why, "what becomes of it: cede inbox --sent")
}

/// Lists, reads, or says what became of a message.
pub(crate) fn inbox(hand: &Hand<'_>, inbox: Inbox) -> Result<u8, Failure> {
    hand.ask(match inbox {
        Inbox { id: Some(id), .. } => return read(hand, id),
        Inbox { done: Some(id), .. } => Command::MarkLetter { id, acted: true },
        Inbox { refuse: Some(id), .. } => Command::MarkLetter { id, acted: false },
        Inbox { release: Some(device), .. } => Command::ReleaseLetters { device },
        Inbox { sent, all, .. } => Command::Inbox { sent, all },
    })
}

/// A message is shown once its words were written, and not before. Source: SPEC M-1
fn read(hand: &Hand<'_>, id: String) -> Result<u8, Failure> {
    let answer = hand.client.ask(Command::ReadLetter { id: id.clone() })?;
    let Answer::Letter { letter, .. } = &answer else { return Err(fault::unexpected_answer()) };
    // Not what was typed: another message that begins like it may come meanwhile.
    let read = letter.id.clone();
    if terminal::is_lost() {
        let why = "the standard output is closed, or leads nowhere; it stays as it is";
        return Err(fault::local(exit::FAILED, "nobody was shown the message", why, &format!("cede inbox {id}")));
    }
    if hand.show(answer, FEW) {
        hand.client.ask(Command::LetterShown { id: read })?;
    }
    Ok(exit::OK)
}

fn request(tell: Tell) -> Result<TellRequest, Failure> {
    let until = match tell.wait {
        None | Some(Until::Received) => TellUntil::Received,
        Some(Until::Shown) => TellUntil::Shown,
        Some(Until::Ended) => TellUntil::Ended,
    };
    // Without a device the words are the first argument.
    let (to, text) = match (&tell.reply, tell.text) {
        (Some(_), None) => (String::new(), tell.to),
        (Some(_), Some(_)) => return Err(usage("a reply goes to who told the message", "cede tell --reply ID \"…\"")),
        (None, Some(text)) => (tell.to, text),
        (None, None) => return Err(usage("there are no words", "cede tell DEVICE \"…\"")),
    };
    let text = if text == "-" { read_words()? } else { text };
    let (device, session) = match to.split_once('/') {
        Some((device, session)) => (device.to_owned(), Some(session.to_owned())),
        None => (to, None),
    };
    Ok(TellRequest {
        device,
        session,
        reply: tell.reply,
        text,
        expires_in_s: tell.expires.map(|time| time.as_secs()),
        until,
        wait_ms: tell.wait.is_none().then(|| u64::try_from(TELL_PATIENCE.as_millis()).unwrap_or(u64::MAX)),
    })
}

pub(crate) fn read_words() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(LETTER_BYTES as u64 + 1).read_to_end(&mut bytes);
    let words = read.map_err(|error| error.to_string());
    let words = words.and_then(|_| String::from_utf8(bytes).map_err(|_| "they are not UTF-8".to_owned()));
    words.map_err(|why| fault::local(exit::FAILED, "the words cannot be read", &why, "cede tell DEVICE \"…\""))
}

fn usage(why: &str, cure: &str) -> Failure {
    fault::local(exit::USAGE, "nothing was told", why, cure)
}

/// A message that is queued is as good as told, unless somebody waits for more.
fn code(letter: &LetterSummary, waits: bool) -> u8 {
    match letter.state.as_str() {
        "queued" if waits => exit::PENDING,
        "refused" => exit::REFUSED,
        "expired" => exit::TIMEOUT,
        "quarantined" => exit::FAILED,
        _ => exit::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Result<TellRequest, Failure> {
        use clap::Parser;
        let cli = crate::args::Cli::try_parse_from(["cede", "tell"].iter().chain(words)).unwrap();
        let Some(crate::args::Verb::Tell(tell)) = cli.verb else { panic!("not tell") };
        request(tell)
    }

    #[test]
    fn device_and_session_are_told_apart_by_a_slash() {
        let request = typed(&["server/Fix the login", "it is done"]).unwrap();
        assert_eq!((request.device.as_str(), request.session.as_deref()), ("server", Some("Fix the login")));
        assert_eq!((request.text.as_str(), request.until), ("it is done", TellUntil::Received));
        assert!(request.wait_ms.is_some(), "nobody waits for a device that is off");
    }

    #[test]
    fn reply_needs_no_device() {
        let request = typed(&["--reply", "3fa2", "yes"]).unwrap();
        assert_eq!(
            (request.device.as_str(), request.reply.as_deref(), request.text.as_str()),
            ("", Some("3fa2"), "yes")
        );
        assert_eq!(typed(&["--reply", "3fa2", "server", "yes"]).unwrap_err().exit, exit::USAGE);
        assert_eq!(typed(&["server"]).unwrap_err().exit, exit::USAGE);
    }

    #[test]
    fn wait_takes_what_is_waited_for() {
        let until = |words: &[&str]| typed(words).map(|request| (request.until, request.wait_ms)).unwrap();
        assert_eq!(until(&["server", "x", "--wait"]), (TellUntil::Received, None));
        assert_eq!(until(&["server", "x", "--wait=shown"]), (TellUntil::Shown, None));
        assert_eq!(until(&["--wait=ended", "server", "x"]), (TellUntil::Ended, None));
    }

    /// Shows: L-5
    #[test]
    fn daemon_that_died_leaves_the_question_whether_it_was_told() {
        let client = crate::client::Client::new(std::path::Path::new("/nowhere"));
        let terminal = terminal::Terminal::new(&crate::args::Global { quiet: true, ..Default::default() });
        let hand = Hand { client, terminal: &terminal };
        for error in [AskError::Ended, AskError::TimedOut] {
            let (send, receive) = std::sync::mpsc::sync_channel(1);
            send.send(Event::Over(error)).unwrap();
            let failed = until_told(&hand, &receive).unwrap_err();
            assert!(failed.cure.ends_with("before you tell it again: cede inbox --sent"), "{}", failed.cure);
        }
    }

    #[test]
    fn ctrl_c_takes_nothing_back_and_names_the_message() {
        let (send, receive) = std::sync::mpsc::sync_channel(2);
        let letter = crate::show::samples::letter();
        let id = letter.id.clone();
        send.send(Event::Reply(Box::new(ReplyBody::Telling(Box::new(letter))))).unwrap();
        send.send(Event::Interrupted).unwrap();
        let terminal = terminal::Terminal::new(&crate::args::Global { quiet: true, ..Default::default() });
        let client = crate::client::Client::new(std::path::Path::new("/nowhere"));
        let failed = until_told(&Hand { client, terminal: &terminal }, &receive).unwrap_err();
        assert_eq!(failed.exit, exit::INTERRUPTED);
        assert!(failed.why.contains(&id) && failed.why.contains("stays told"), "{}", failed.why);
        assert_eq!(interrupted(None).exit, exit::INTERRUPTED);
    }
}
