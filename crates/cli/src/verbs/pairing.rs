//! Pairing: words on the trusted device, the same words on the new one, then a look at both screens.

use cede_wire::control::{Answer, Command, Failure, PairingEvent, ReplyBody, exit};

use crate::args::Pair;
use crate::client::Answers;
use crate::fault;
use crate::show::pairing;
use crate::verbs::{FEW, Hand};

/// `cede pair`: shows words and welcomes the device that knew them.
pub(crate) fn show_words(hand: &Hand<'_>, pair: &Pair) -> Result<u8, Failure> {
    let expires_in_s = pair.expires.map(|life| life.as_secs());
    let answers = hand.client.open(Command::Pair { expires_in_s }, None)?;
    follow(hand, answers, pair.yes)
}

/// `cede pair WORDS`: joins the mesh of the device that shows them.
pub(crate) fn join(hand: &Hand<'_>, pair: &Pair) -> Result<u8, Failure> {
    let command = Command::PairWith { words: pair.words.join(" "), address: pair.at.clone(), name: pair.name.clone() };
    let answers = hand.client.open(command, None)?;
    if let Some(address) = &pair.at {
        hand.terminal.say(format!("asking the device at {address}"));
    }
    let code = follow(hand, answers, false)?;
    if let Some(name) = &pair.name {
        say_other_name(hand, name)?;
    }
    Ok(code)
}

/// A name may be taken in the mesh, or hold what a name may not.
fn say_other_name(hand: &Hand<'_>, wanted: &str) -> Result<(), Failure> {
    let Answer::Devices { devices } = hand.client.ask(Command::Devices)? else {
        return Err(fault::unexpected_answer());
    };
    if let Some(this) = devices.iter().find(|device| device.this && device.name != wanted) {
        hand.terminal.say(format!("note: this device is called {} in the mesh, not {wanted}", this.name));
    }
    Ok(())
}

fn follow(hand: &Hand<'_>, mut answers: Answers, welcome_unseen: bool) -> Result<u8, Failure> {
    loop {
        match answers.next()? {
            ReplyBody::Pairing(event) => {
                if !hand.terminal.reply(&ReplyBody::Pairing(event.clone())) {
                    return Err(unseen());
                }
                step(hand, event, welcome_unseen)?;
            }
            ReplyBody::Done(answer) => {
                hand.show(answer, FEW);
                return Ok(exit::OK);
            }
            ReplyBody::Failed(failure) => return Err(failure),
            ReplyBody::Progress(_)
            | ReplyBody::Planned(_)
            | ReplyBody::Sending(_)
            | ReplyBody::Terminal(_)
            | ReplyBody::Task(_)
            | ReplyBody::Telling(_) => {}
        }
    }
}

fn step(hand: &Hand<'_>, event: PairingEvent, welcome_unseen: bool) -> Result<(), Failure> {
    match event {
        PairingEvent::Words { command, expires_in_s, .. } => {
            hand.terminal.talk(&pairing::before_words(expires_in_s));
            // Nobody can type words that nobody has seen.
            if hand.terminal.data(&pairing::command(&command)) { Ok(()) } else { Err(unseen()) }
        }
        PairingEvent::Compare { comparison, name, confirm_here } => {
            hand.terminal.data(&pairing::comparison(&comparison, &name));
            if confirm_here {
                return confirm(hand, &name, welcome_unseen);
            }
            hand.terminal.say("compare them, and say yes on the trusted device; waiting");
            Ok(())
        }
    }
}

fn unseen() -> Failure {
    let why = "what is to be compared or typed was not written: the standard output takes nothing";
    fault::local(exit::FAILED, "nobody can be paired with", why, "run it in a terminal: cede pair")
}

/// Nobody to ask is a no: a device is not welcome because nobody looked.
fn confirm(hand: &Hand<'_>, name: &str, welcome_unseen: bool) -> Result<(), Failure> {
    let question = format!("Does {name} show exactly the same, and is it yours?");
    let answer = if welcome_unseen { Some(true) } else { hand.terminal.ask(&question) };
    let said = hand.client.ask(Command::PairConfirm { accept: answer == Some(true) })?;
    match (answer, said) {
        (Some(_), Answer::Said { text }) => {
            hand.terminal.say(text);
            Ok(())
        }
        (Some(_), _) => Ok(()),
        (None, _) => Err(fault::local(
            exit::REFUSED,
            &format!("{name} was not welcomed"),
            "nobody can be asked here whether both screens show the same",
            "run it in a terminal, or welcome unseen: cede pair --yes",
        )),
    }
}

#[cfg(test)]
mod tests;
