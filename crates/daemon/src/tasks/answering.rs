//! The answer to a task: a reply with a part. Once it stands in the outbox the task is over.

use cede_core::ledger::{TellError, Told};
use cede_wire::canonical::encode;
use cede_wire::letter::{Letter, LetterFacts, LetterId};
use cede_wire::task::{Part, TaskResult};

use crate::actor::Actor;
use crate::clock::{random, unix_ms};
use crate::limits;

impl Actor {
    /// Answers a task. What cannot be told now is told later: the program does not run again for it.
    pub(super) fn answer_task(&mut self, id: LetterId, result: TaskResult, text: String) {
        if !self.peers.is_member(id.origin) {
            return self.task_is_over(id, result.outcome);
        }
        let heading = self.ledger.answer_to(id);
        let Ok(nonce) = random() else { return self.answer_later(id, result, text) };
        let letter = Letter {
            nonce,
            session: None,
            in_reply_to: heading.in_reply_to,
            conversation: heading.conversation,
            hops: heading.hops,
            told_unix_ms: unix_ms(),
            text: text.clone(),
            part: Some(Part::Result(Box::new(result.clone())).to_part()),
        };
        let (to, facts) = (heading.to, LetterFacts::of(&letter));
        if matches!(self.ledger.may_tell(to, letter.bytes()), Err(TellError::Full { .. } | TellError::TooMany)) {
            return self.answer_later(id, result, text);
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            let kept = context.block(move |context| context.letters.put(&encode(&letter))).await;
            let kept = matches!(kept, Ok(Ok(_)));
            let told = Told { to, facts, expires: cede_core::limits::LETTER_TTL };
            context.tell(move |actor| actor.tell_answer(id, kept.then_some(told), result, text)).await;
        });
    }

    fn tell_answer(&mut self, id: LetterId, told: Option<Told>, result: TaskResult, text: String) {
        let Some(told) = told else { return self.answer_later(id, result, text) };
        let member = self.peers.is_member(told.to);
        match member.then(|| self.ledger.tell(told, self.context.clock.now())) {
            Some(Ok(_)) => self.reach(told.to),
            Some(Err(error)) => {
                self.forget_words(&told.facts.digest);
                if let TellError::Full { .. } | TellError::TooMany = error {
                    return self.answer_later(id, result, text);
                }
                tracing::warn!(id = id.short(), %error, "a task cannot be answered");
            }
            None => self.forget_words(&told.facts.digest),
        }
        // After the answer is durable: a restart between the two finds the answer and says nothing more.
        let (context, outcome) = (self.context.clone(), result.outcome);
        tokio::spawn(async move { context.tell(move |actor| actor.task_is_over(id, outcome)).await });
    }

    fn answer_later(&self, id: LetterId, result: TaskResult, text: String) {
        tracing::warn!(id = id.short(), "the answer to a task cannot be told now");
        if self.tasks.book.ran(id).is_none() {
            // It says no more than why nothing began; that it is refused is said anyway.
            return;
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            tokio::time::sleep(limits::TASK_ANSWERED_AGAIN).await;
            context.tell(move |actor| actor.answer_task(id, result, text)).await;
        });
    }

    /// An answer to a task of this device came.
    pub(super) fn result_came(&mut self, by: LetterId, letter: &Letter, result: &TaskResult) {
        let Some(task) = letter.in_reply_to else { return };
        let Some(record) = self.tasks.book.answer(task, by) else { return };
        self.write_book(record);
        self.tasks.lines.remove(&task);
        let outcome = result.outcome.word();
        let from = self.device_name(by.origin);
        tracing::info!(%from, id = task.short(), outcome, "a task was answered: cede tasks");
        self.task_moved(task);
    }
}
