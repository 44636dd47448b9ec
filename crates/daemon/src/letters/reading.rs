//! `cede inbox <id>`: words that are given to a person, and are called *shown* only once they were.

use cede_core::ledger::Standing;
use cede_wire::control::{Answer, Failure, exit};
use cede_wire::letter::LetterState;

use super::people::said;
use super::{begins, unread, words_of};
use crate::actor::Actor;
use crate::context::Context;
use crate::control::Replies;
use crate::offering::{failure, stopping};

impl Actor {
    /// Reads a letter for a command that says itself once its words were written. Source: SPEC M-1, M-12
    pub(crate) fn read_letter(&mut self, text: &str, replies: Replies) {
        // One that was told here, or passed on, is not shown by it.
        let Ok(letter) = self.find_received(text) else { return self.ask_letter(text, replies) };
        if !self.read_only && !self.ledger.attempt(letter.kept.id, self.context.clock.now()) {
            let why = "it could not be read, three times";
            return replies.failed(failure(exit::FAILED, "the message is put aside", why, "cede inbox --all"));
        }
        let context = self.context.clone();
        tokio::spawn(async move { replies.settle(read(&context, letter).await) });
    }

    /// The words of a letter were given to somebody.
    pub(crate) fn letter_shown(&mut self, text: &str) -> Result<Answer, Failure> {
        let said = |text: &str| Ok(Answer::Said { text: text.to_owned() });
        let Ok(letter) = self.find_received(text) else { return said("it is none that came here") };
        // One that ended before stays as it ended, and can be read.
        let _ = self.ledger.mark(letter.kept.id, LetterState::Shown, self.context.clock.now());
        said("shown")
    }
}

async fn read(context: &Context, letter: Standing) -> Result<Answer, Failure> {
    // An answer means that the attempt is durable.
    context.ask(|_| ()).await.map_err(stopping)?;
    let (id, digest) = (letter.kept.id, letter.kept.facts.digest);
    let words = context.block(move |context| words_of(context, &digest)).await.map_err(stopping)?;
    let read = context.ask(move |actor| {
        let what = "the message cannot be read";
        let words = words.map_err(|error| {
            if !actor.read_only {
                actor.ledger.unread(id);
            }
            unread(what, &error)
        })?;
        let Some(words) = words else {
            actor.ledger.failed(id, actor.context.clock.now());
            let why = "its words are not on the disk any more, or are damaged";
            return Err(failure(exit::FAILED, what, why, "cede doctor"));
        };
        if !actor.read_only {
            actor.ledger.unread(id);
        }
        let gone = || failure(exit::FAILED, what, "it is not there any more", "cede inbox --all");
        let (letter, text) = (actor.ledger.received(id).ok_or_else(gone)?, said(&words));
        let letter = Box::new(actor.received_summary(&letter, begins(&text)));
        Ok(Answer::Letter { letter, text })
    });
    read.await.map_err(stopping)?
}
