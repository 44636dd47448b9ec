//! Moves: asked for, watched, withdrawn by Ctrl-C.

use std::sync::mpsc::Receiver;
use std::time::Instant;

use cede_wire::control::{Answer, Command, Failure, MoveRequest, Plan, Progress, ReplyBody, SessionSummary, exit};

use crate::client::AskError;
use crate::interrupt::{Event, events};
use crate::limits::CANCEL_WAIT;
use crate::progress::Phases;
use crate::show::inventory::{self, Paths};
use crate::show::moves::{self, Sides};
use crate::verbs::{FEW, Hand};

/// `cede to`.
pub(crate) fn to(hand: &Hand<'_>, request: MoveRequest) -> Result<u8, Failure> {
    let sides = Sides { source: "this device".to_owned(), destination: request.device.clone() };
    let ended = Watch::new(hand, &sides, request.session.clone()).follow(Command::To(request.clone()));
    match ended {
        Err(Ended { failure, plan: Some(plan) }) if !plan.needs.is_empty() => {
            match with_consent(hand, request, &plan) {
                Some(request) => to(hand, request),
                None => Err(failure),
            }
        }
        Err(ended) => Err(ended.failure),
        Ok(answer) => Ok(show_end(hand, answer)),
    }
}

/// `cede take`.
pub(crate) fn take(hand: &Hand<'_>, session: String, wait: bool, carry_only: bool) -> Result<u8, Failure> {
    let sides = Sides { source: "its owner".to_owned(), destination: "this device".to_owned() };
    let command = Command::Take { session: session.clone(), wait, carry_only };
    let answer = watched(hand, &sides, session, command)?;
    Ok(show_end(hand, answer))
}

/// Any move, watched until it ends: progress is shown, Ctrl-C withdraws it.
pub(crate) fn watched(hand: &Hand<'_>, sides: &Sides, session: String, command: Command) -> Result<Answer, Failure> {
    Watch::new(hand, sides, Some(session)).follow(command).map_err(|ended| ended.failure)
}

fn show_end(hand: &Hand<'_>, answer: Answer) -> u8 {
    hand.show(answer, FEW);
    exit::OK
}

/// Asks for what the plan needs; the same request with the yes in it, or none.
fn with_consent(hand: &Hand<'_>, mut request: MoveRequest, plan: &Plan) -> Option<MoveRequest> {
    let large = plan.needs.iter().any(|need| need == LARGE) && !request.confirm_large;
    let secrets = plan.needs.iter().any(|need| need == SECRETS) && !request.confirm_secrets;
    if !large && !secrets {
        return None;
    }
    if hand.terminal.ask("Hand it over with all of that?") != Some(true) {
        return None;
    }
    request.confirm_large |= large;
    request.confirm_secrets |= secrets;
    Some(request)
}

/// A move that did not happen, with the plan that was shown before.
struct Ended {
    failure: Failure,
    plan: Option<Box<Plan>>,
}

/// One move while it is watched.
struct Watch<'a> {
    hand: &'a Hand<'a>,
    sides: &'a Sides,
    /// The session as it was typed, where it was.
    typed: Option<String>,
    phases: Phases<'a>,
    last: Option<Progress>,
    plan: Option<Box<Plan>>,
}

impl<'a> Watch<'a> {
    fn new(hand: &'a Hand<'a>, sides: &'a Sides, typed: Option<String>) -> Self {
        Self { hand, sides, typed, phases: Phases::new(hand.terminal), last: None, plan: None }
    }

    fn follow(self, command: Command) -> Result<Answer, Ended> {
        let answers = self.hand.client.open(command, None).map_err(ended)?;
        self.until_the_end(&events(answers))
    }

    fn until_the_end(mut self, events: &Receiver<Event>) -> Result<Answer, Ended> {
        loop {
            let outcome = match events.recv() {
                Ok(Event::Reply(body)) => self.see(*body),
                Ok(Event::Interrupted) => Some(Err(self.withdraw(events))),
                Ok(Event::Over(error)) => Some(Err(error.into())),
                Err(_) => Some(Err(AskError::Ended.into())),
            };
            if let Some(outcome) = outcome {
                self.phases.clear();
                return outcome.map_err(|failure| Ended { failure, plan: self.plan });
            }
        }
    }

    fn see(&mut self, body: ReplyBody) -> Option<Result<Answer, Failure>> {
        match body {
            ReplyBody::Done(answer) => return Some(Ok(answer)),
            ReplyBody::Failed(failure) => return Some(Err(failure)),
            ReplyBody::Progress(progress) => self.step(progress),
            ReplyBody::Planned(plan) => self.planned(plan),
            ReplyBody::Pairing(_)
            | ReplyBody::Sending(_)
            | ReplyBody::Terminal(_)
            | ReplyBody::Task(_)
            | ReplyBody::Telling(_) => {}
        }
        None
    }

    fn step(&mut self, progress: Progress) {
        self.phases.see(&progress);
        self.hand.terminal.reply(&ReplyBody::Progress(progress.clone()));
        self.last = Some(progress);
    }

    fn planned(&mut self, plan: Box<Plan>) {
        self.phases.clear();
        self.hand.terminal.talk(&inventory::plan(&plan, Paths::Few { command: "add --dry-run" }));
        self.hand.terminal.reply(&ReplyBody::Planned(plan.clone()));
        self.plan = Some(plan);
    }

    /// Ctrl-C: withdraws, waits a little for the move to end, and says what state each side is in.
    fn withdraw(&mut self, events: &Receiver<Event>) -> Failure {
        self.phases.clear();
        self.hand.terminal.say("withdrawing; Ctrl-C again waits no longer");
        let while_in = self.last.as_ref().map(|last| last.phase);
        let said = self.cancel();
        self.wait_for_the_end(events);
        let session = self.session_now();
        moves::interrupted(self.sides, while_in, self.last.as_ref(), &said, session.as_ref())
    }

    fn cancel(&self) -> String {
        let last = self.last.as_ref();
        let attempt = last.and_then(|last| last.handoff).map(|handoff| handoff.to_string());
        let session = last.map(|last| last.session.to_string());
        let Some(handoff) = attempt.or(session).or_else(|| self.typed.clone()) else {
            return "nothing was offered yet".to_owned();
        };
        match self.hand.client.ask_within(Command::Cancel { handoff }, CANCEL_WAIT) {
            Ok(Answer::Said { text }) => text,
            Ok(_) => "withdrawn".to_owned(),
            Err(Failure { what, why, .. }) => format!("not withdrawn: {}", if why.is_empty() { what } else { why }),
        }
    }

    fn wait_for_the_end(&mut self, events: &Receiver<Event>) {
        let until = Instant::now() + CANCEL_WAIT;
        while let Ok(Event::Reply(body)) = events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            match *body {
                ReplyBody::Progress(progress) => self.last = Some(progress),
                ReplyBody::Planned(_)
                | ReplyBody::Pairing(_)
                | ReplyBody::Sending(_)
                | ReplyBody::Terminal(_)
                | ReplyBody::Task(_)
                | ReplyBody::Telling(_) => {}
                ReplyBody::Done(_) | ReplyBody::Failed(_) => return,
            }
        }
    }

    fn session_now(&self) -> Option<SessionSummary> {
        let id = self.last.as_ref()?.session;
        match self.hand.client.ask_within(Command::Status, CANCEL_WAIT) {
            Ok(Answer::Status(report)) => report.sessions.into_iter().find(|session| session.id == id),
            Ok(_) | Err(_) => None,
        }
    }
}

fn ended(error: AskError) -> Ended {
    Ended { failure: error.into(), plan: None }
}

/// The needs that a person can say yes to. Source: the flags of `cede to`.
const LARGE: &str = "--yes-large";
const SECRETS: &str = "--yes-secrets";

#[cfg(test)]
mod tests;
