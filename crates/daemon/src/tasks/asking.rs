//! `cede ask`: a task is durable here before anybody hears that it is asked for; who waits hears how it ends.

use core::time::Duration;

use cede_core::ledger::{Heading, Told};
use cede_wire::audit::AuditAct;
use cede_wire::canonical::encode;
use cede_wire::control::tasks::AskRequest;
use cede_wire::control::{Answer, Failure, ReplyBody, TellRequest, exit};
use cede_wire::id::{DeviceId, SessionId};
use cede_wire::letter::{Letter, LetterFacts, LetterId, LetterState};
use cede_wire::limits::TASK_LINE_CHARS;
use cede_wire::refusal::Refusal;
use cede_wire::task::{Part, ScopeFault};

use crate::actor::Actor;
use crate::clock::{random, unix_ms};
use crate::context::Context;
use crate::control::Replies;
use crate::letters::{Address, session_there};
use crate::limits;
use crate::offering::{failure, stopping};

const NOT_ASKED: &str = "nothing was asked for";

impl Actor {
    pub(crate) fn ask_task(&mut self, request: AskRequest, replies: Replies) {
        if let Err(fault) = request.scope.check(&request.task) {
            let cure = match fault {
                ScopeFault::TooLong => "ask for less at once; a file goes another way",
                ScopeFault::Empty => "cede ask <device> \"the task\"",
                ScopeFault::Minutes
                | ScopeFault::Turns
                | ScopeFault::Directory
                | ScopeFault::Tool
                | ScopeFault::Agent => "cede ask --help",
            };
            return replies.failed(failure(exit::USAGE, NOT_ASKED, &fault.to_string(), cure));
        }
        let tell = TellRequest { device: request.device.clone(), text: request.task.clone(), ..TellRequest::default() };
        match self.heading(&tell) {
            Ok(address) => {
                let context = self.context.clone();
                tokio::spawn(async move { ask(&context, request, &address, replies).await });
            }
            Err(failed) => replies.failed(Failure { what: NOT_ASKED.to_owned(), ..failed }),
        }
    }

    /// The words are durable: the ledger takes the task, the book says that it is one, and who waits is noted.
    fn task_asked(&mut self, told: Told, wait: bool, replies: Replies) -> Result<(), Failure> {
        let id = self.tell_kept(told, None).map_err(|failed| Failure { what: NOT_ASKED.to_owned(), ..failed })?;
        if let Some(record) = self.tasks.book.ask(id) {
            self.write_book(record);
            self.note_act(AuditAct::Delegated, Some(told.to), told.facts.session);
        }
        self.reach(told.to);
        let context = self.context.clone();
        if wait {
            self.tasks.watches.push((id, replies));
            tokio::spawn(async move { context.tell(move |actor| actor.task_moved(id)).await });
        } else {
            // Only after it is durable: the next input is taken then. A peer that is there has said so a moment later.
            tokio::spawn(async move {
                tokio::time::sleep(limits::TASK_HEARD_OF).await;
                context.tell(move |actor| actor.show_task(id, replies)).await;
            });
        }
        Ok(())
    }

    /// The letter of a task came further. What the agents there did last is of the stage before.
    pub(crate) fn task_letter_moved(&mut self, id: LetterId, state: LetterState) {
        if state == LetterState::Acted {
            self.tasks.lines.remove(&id);
        }
        self.note_refused(id, state);
        self.task_moved(id);
    }

    /// A new link of a device that was asked: it says again which tasks wait for a place there. The yes to one may have
    /// gone with an earlier life of it.
    pub(crate) fn task_lines_link_up(&mut self, device: DeviceId) {
        let runs = |id| self.ledger.told(id).is_some_and(|letter| letter.kept.state == Some(LetterState::Acted));
        self.tasks.lines.retain(|id, _| id.stream != device || runs(*id));
    }

    /// What was refused is forgotten before what came of others.
    pub(super) fn note_refused(&mut self, id: LetterId, state: LetterState) {
        let why = match state {
            LetterState::Refused(why) => why,
            LetterState::Expired => Refusal::Expired,
            LetterState::Quarantined | LetterState::Duplicate => Refusal::Protocol,
            LetterState::Received | LetterState::Shown | LetterState::Acted => return,
        };
        if let Some(record) = self.tasks.book.refuse(id, why) {
            self.write_book(record);
        }
    }

    pub(crate) fn is_asked_task(&self, id: LetterId) -> bool {
        self.tasks.book.asked().any(|(task, _)| task == id)
    }

    /// Something became of a task that was asked for here.
    pub(super) fn task_moved(&mut self, id: LetterId) {
        self.tasks.watches.retain(|(_, replies)| !replies.watcher().is_closed());
        if !self.tasks.watches.iter().any(|(watched, _)| *watched == id) {
            return;
        }
        let answered = self.tasks.book.asked().any(|(task, answer)| task == id && answer.is_some());
        let ended = self.ledger.told(id).and_then(|letter| letter.kept.state).is_some_and(is_over);
        let context = self.context.clone();
        if answered || ended {
            tokio::spawn(async move {
                if !answered {
                    // The reason may follow the word.
                    tokio::time::sleep(limits::TASK_HEARD_OF).await;
                }
                context.tell(move |actor| actor.answer_task_watches(id)).await;
            });
        } else {
            tokio::spawn(async move { super::listing::tell_watchers(&context, id).await });
        }
    }

    fn answer_task_watches(&mut self, id: LetterId) {
        let all = core::mem::take(&mut self.tasks.watches);
        let (there, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(watched, _)| *watched == id);
        self.tasks.watches = rest;
        there.into_iter().for_each(|(_, replies)| self.show_task(id, replies));
    }

    pub(super) fn tell_task_watches(&self, id: LetterId, body: &ReplyBody) {
        for (_, replies) in self.tasks.watches.iter().filter(|(watched, _)| *watched == id) {
            replies.say(body.clone());
        }
    }

    /// An agent of a peer did something for a task of this device.
    pub(crate) fn task_progress(&mut self, from: DeviceId, task: LetterId, line: &str) {
        let open = |(id, answer): (LetterId, Option<LetterId>)| id == task && answer.is_none();
        let over = self.ledger.told(task).and_then(|letter| letter.kept.state).is_some_and(is_over);
        if task.stream == from && !over && self.tasks.book.asked().any(open) {
            self.tasks.lines.insert(task, line.chars().take(TASK_LINE_CHARS).collect());
            self.task_moved(task);
        }
    }

    /// Withdraws a task that was asked for here, or ends one of a peer.
    pub(crate) fn cancel_task(&mut self, text: &str, replies: Replies) {
        let (id, asked_here) = match self.find_task(text) {
            Ok(found) => found,
            Err(failed) => return replies.failed(failed),
        };
        if !asked_here {
            let result = match self.cancel_here(id) {
                true => Ok(Answer::Said { text: format!("ended; {} is told", self.device_name(id.origin)) }),
                false => Err(over()),
            };
            return self.settle_durable(result, replies);
        }
        let answered = self.tasks.book.asked().any(|(task, answer)| task == id && answer.is_some());
        let ended = self.ledger.told(id).is_none_or(|letter| letter.kept.state.is_some_and(is_over));
        if answered || ended {
            return replies.failed(over());
        }
        let heading = Heading { to: id.stream, in_reply_to: None, conversation: None, hops: 0 };
        let part = Part::Withdrawn(id);
        let context = self.context.clone();
        tokio::spawn(async move {
            let (told, failed) = (letter(&heading, None, "the task is withdrawn", &part), replies.clone());
            let kept = keep(&context, told, cede_core::limits::LETTER_TTL, heading.to).await;
            let told = match kept {
                Ok(told) => told,
                Err(failure) => return failed.failed(failure),
            };
            context.tell(move |actor| actor.tell_withdrawal(told, replies)).await;
        });
    }

    fn tell_withdrawal(&mut self, told: Told, replies: Replies) {
        let name = self.device_name(told.to);
        let said = |_| Answer::Said { text: format!("withdrawn; {name} ends it as soon as it hears of that") };
        let result = self.tell_kept(told, None).map(said);
        self.reach(told.to);
        self.settle_durable(result, replies);
    }
}

/// A task that was acted on is one that runs.
fn is_over(state: LetterState) -> bool {
    state.is_final() && state != LetterState::Acted
}

fn over() -> Failure {
    failure(exit::FAILED, "nothing was ended", "the task is over already", "cede tasks --all")
}

async fn ask(context: &Context, request: AskRequest, address: &Address, replies: Replies) {
    let heading = address.heading;
    let session = match &request.session {
        Some(text) => match session_there(context, heading.to, text, &address.name).await {
            Ok(session) => Some(session),
            Err(failed) => return replies.failed(Failure { what: NOT_ASKED.to_owned(), ..failed }),
        },
        None => None,
    };
    let told = letter(&heading, session, &request.task, &Part::Task(request.scope.clone()));
    let expires = request.expires_in_s.map_or(cede_core::limits::TASK_TTL, Duration::from_secs);
    let told = match keep(context, told, expires, heading.to).await {
        Ok(told) => told,
        Err(failed) => return replies.failed(failed),
    };
    let (answer, wait) = (replies.clone(), request.wait);
    context
        .tell(move |actor| {
            if let Err(failed) = actor.task_asked(told, wait, replies) {
                answer.failed(failed);
            }
        })
        .await;
}

fn letter(heading: &Heading, session: Option<SessionId>, text: &str, part: &Part) -> Result<Letter, Failure> {
    let nonce = random().map_err(|error| failure(exit::FAILED, NOT_ASKED, &error.to_string(), "cede doctor"))?;
    Ok(Letter {
        nonce,
        session,
        in_reply_to: heading.in_reply_to,
        conversation: heading.conversation,
        hops: heading.hops,
        told_unix_ms: unix_ms(),
        text: text.to_owned(),
        part: Some(part.to_part()),
    })
}

/// Makes the words durable.
async fn keep(
    context: &Context,
    letter: Result<Letter, Failure>,
    expires: Duration,
    to: DeviceId,
) -> Result<Told, Failure> {
    let letter = letter?;
    let facts = LetterFacts::of(&letter);
    let kept = context.block(move |context| context.letters.put(&encode(&letter))).await.map_err(stopping)?;
    let cure = "look at the disk: cede doctor";
    kept.map_err(|error| failure(exit::FAILED, NOT_ASKED, &error.to_string(), cure))?;
    Ok(Told { to, facts, expires })
}
