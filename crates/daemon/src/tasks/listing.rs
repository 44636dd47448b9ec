//! `cede tasks`: what was asked of whom, how far it is, and what came of it.

use std::collections::BTreeMap;

use cede_core::ledger::Standing;
use cede_wire::control::tasks::{TaskReport, TaskSummary};
use cede_wire::control::{Answer, Failure, ReplyBody, exit};
use cede_wire::id::Hash;
use cede_wire::letter::{Letter, LetterId, LetterState};
use cede_wire::refusal::Refusal;
use cede_wire::task::{Part, TaskOutcome, TaskResult, TaskScope};

use super::{Stage, answer_among};
use crate::actor::Actor;
use crate::context::{Context, Stopping};
use crate::control::Replies;
use crate::letters::{begins, words_to_list};
use crate::limits;
use crate::offering::{failure, stopping};

/// What is known of a task without its words, and where they lie.
#[derive(Clone)]
struct Row {
    id: LetterId,
    asked_here: bool,
    from: String,
    to: String,
    /// In words; what an answer says goes before it.
    state: &'static str,
    standing: String,
    line: String,
    words: Option<Hash>,
    /// Its letter was ended before a program began, and may be no task.
    unsure: bool,
    /// The answer is among these.
    answers: Vec<(LetterId, Hash)>,
}

/// A row with its words.
struct Read {
    row: Row,
    letter: Option<Letter>,
    result: Option<(TaskResult, String)>,
}

impl Actor {
    pub(crate) fn ask_tasks(&self, all: bool, replies: Replies) {
        let mut rows = self.task_rows();
        if all {
            rows.extend(self.rows_not_begun());
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            let read = read_all(&context, rows).await;
            let listed = read.map(|read| {
                let read = read.iter().filter(|read| read.is_task());
                let mut tasks: Vec<TaskSummary> = read.map(Read::summary).collect();
                tasks.retain(|task| all || !ended_by_word(&task.state));
                tasks.sort_by_key(|task| core::cmp::Reverse(task.told_unix_ms));
                Answer::Tasks { tasks }
            });
            replies.settle(listed.map_err(stopping));
        });
    }

    pub(crate) fn ask_one_task(&mut self, text: &str, replies: Replies) {
        match self.find_task(text) {
            Ok((id, _)) => self.show_task(id, replies),
            Err(failed) => replies.failed(failed),
        }
    }

    /// Answers with a task, its words and its end.
    pub(super) fn show_task(&mut self, id: LetterId, replies: Replies) {
        let rows = self.task_rows().into_iter().chain(self.rows_not_begun());
        let rows: Vec<Row> = rows.filter(|row| row.id == id).collect();
        let answer = rows.first().filter(|row| row.asked_here).and_then(|row| row.answers.first().copied());
        let context = self.context.clone();
        tokio::spawn(async move {
            let read = match read_all(&context, rows).await {
                Ok(read) => read,
                Err(stops) => return replies.failed(stopping(stops)),
            };
            let Some(read) = read.first().filter(|read| read.is_task()) else { return replies.failed(unknown()) };
            if let Some((answer, _)) = answer.filter(|_| read.result.is_some()) {
                // Its words are before a person now.
                context.tell(move |actor| actor.end_letter(answer, LetterState::Acted)).await;
            }
            let text = read.letter.as_ref().map_or_else(String::new, |letter| letter.text.clone());
            replies.done(Answer::Task { task: Box::new(read.summary()), text, report: read.report() });
        });
    }

    /// The task that a text means, and whether it was asked for here.
    pub(super) fn find_task(&self, text: &str) -> Result<(LetterId, bool), Failure> {
        let named = |row: &Row| !text.is_empty() && row.id.short().starts_with(text);
        let mut fitting: Vec<Row> = self.task_rows().into_iter().filter(named).collect();
        if fitting.is_empty() {
            fitting = self.rows_not_begun().into_iter().filter(named).collect();
        }
        match fitting.as_slice() {
            [one] => Ok((one.id, one.asked_here)),
            [] => Err(unknown()),
            _ => {
                let why = format!("several ids begin with {text}");
                Err(failure(exit::USAGE, "it is not clear which task is meant", &why, "cede tasks --all"))
            }
        }
    }

    fn task_rows(&self) -> Vec<Row> {
        let asked = self.tasks.book.asked().filter_map(|(id, by)| self.asked_row(id, by));
        let here = self.tasks.waiting.keys().chain(self.tasks.running.keys()).copied();
        let over = self.tasks.book.all_that_ran().map(|(id, _)| id);
        let over = over.filter(|id| !self.tasks.running.contains_key(id));
        let answers = self.told_in_reply();
        let answers = |id| answers.get(&id).cloned().unwrap_or_default();
        asked.chain(here.chain(over).map(|id| Row { answers: answers(id), ..self.row_of_peer(id) })).collect()
    }

    /// Letters of peers that were ended before a program began for them: refused, withdrawn, expired. Only their words say which of
    /// them are tasks.
    fn rows_not_begun(&self) -> Vec<Row> {
        let not_begun = |letter: &Standing| {
            let over = matches!(letter.kept.state, Some(LetterState::Refused(_) | LetterState::Expired));
            over && letter.passed_on.is_none() && self.tasks.book.ran(letter.kept.id).is_none()
        };
        let mut letters: Vec<Standing> = self.ledger.inbox().filter(not_begun).collect();
        letters.sort_by_key(|letter| core::cmp::Reverse((letter.kept.at_unix_ms, letter.kept.id)));
        letters.truncate(limits::LETTERS_LISTED);
        let answers = self.told_in_reply();
        let row = |letter: Standing| {
            let answers = answers.get(&letter.kept.id).cloned().unwrap_or_default();
            Row { unsure: true, answers, ..self.row_of_peer(letter.kept.id) }
        };
        letters.into_iter().map(row).collect()
    }

    fn told_in_reply(&self) -> BTreeMap<LetterId, Vec<(LetterId, Hash)>> {
        let mut told: BTreeMap<LetterId, Vec<(LetterId, Hash)>> = BTreeMap::new();
        for letter in self.ledger.outbox() {
            if let Some(parent) = letter.kept.facts.in_reply_to {
                told.entry(parent).or_default().push((letter.kept.id, letter.kept.facts.digest));
            }
        }
        told
    }

    fn asked_row(&self, id: LetterId, by: Option<LetterId>) -> Option<Row> {
        let letter = self.ledger.told(id)?;
        let answer = by.and_then(|by| Some((by, self.ledger.received(by)?.kept.facts.digest)));
        let to = self.device_name(id.stream);
        // A peer says what becomes of a task only after the yes.
        let allowed = self.tasks.lines.contains_key(&id);
        let (state, standing) = asked_state(&letter, &to, self.peers.absence(id.stream), allowed);
        let (state, standing) = match (by, &answer) {
            (Some(_), None) => ("done", "answered; the answer is not kept any more".to_owned()),
            _ => (state, standing),
        };
        Some(Row {
            id,
            asked_here: true,
            from: self.name.clone(),
            to,
            state,
            standing,
            line: self.tasks.lines.get(&id).cloned().unwrap_or_default(),
            words: Some(letter.kept.facts.digest),
            unsure: false,
            answers: answer.into_iter().collect(),
        })
    }

    fn row_of_peer(&self, id: LetterId) -> Row {
        let ran = self.tasks.book.ran(id);
        let (state, standing, line) = match (self.tasks.running.get(&id), self.tasks.waiting.get(&id)) {
            (Some(running), _) => ("running", format!("{} works on it", running.agent.name()), running.line.clone()),
            (None, Some(waiting)) => {
                let standing = match waiting.stage {
                    Stage::Asked(..) => "waits for your answer: cede approvals".to_owned(),
                    Stage::Looking | Stage::Placed(_) => "is looked at".to_owned(),
                    Stage::Allowed(..) => format!("allowed; {}", self.waiting_for_a_place()),
                    Stage::Idle => "waits until you can be asked".to_owned(),
                };
                ("waiting", standing, String::new())
            }
            (None, None) => {
                let (state, standing) = match (ran, self.ledger.received(id).and_then(|letter| letter.kept.state)) {
                    (None, Some(state)) => not_begun(state),
                    (ran, _) => match ran.and_then(|ran| ran.outcome) {
                        Some(outcome) => (outcome.word(), outcome.word().to_owned()),
                        None => ("running", "ended; its answer is not told yet".to_owned()),
                    },
                };
                (state, standing, String::new())
            }
        };
        Row {
            id,
            asked_here: false,
            from: self.device_name(id.origin),
            to: self.name.clone(),
            state,
            standing,
            line,
            words: self.ledger.received(id).map(|letter| letter.kept.facts.digest),
            unsure: false,
            answers: Vec::new(),
        }
    }
}

/// Who waits for a task hears how far it is.
pub(super) async fn tell_watchers(context: &Context, id: LetterId) {
    let Ok(rows) = context.ask(move |actor| actor.asked_row(id, None)).await else { return };
    let Ok(read) = read_all(context, rows.into_iter().collect()).await else { return };
    if let Some(read) = read.first() {
        let body = ReplyBody::Task(Box::new(read.summary()));
        context.tell(move |actor| actor.tell_task_watches(id, &body)).await;
    }
}

fn asked_state(letter: &Standing, to: &str, absence: Option<&str>, allowed: bool) -> (&'static str, String) {
    match letter.kept.state {
        None => match absence {
            Some(absence) => ("queued", format!("queued: {to} {absence}")),
            None => ("queued", format!("queued for {to}")),
        },
        Some(LetterState::Received | LetterState::Shown) if allowed => {
            ("waiting", format!("allowed at {to}; waits for a place there"))
        }
        Some(LetterState::Received | LetterState::Shown) => ("waiting", format!("waits for the operator of {to}")),
        Some(LetterState::Acted) => ("running", format!("runs at {to}")),
        Some(LetterState::Refused(Refusal::Cancelled)) => ("cancelled", WITHDRAWN.to_owned()),
        Some(LetterState::Refused(why)) => ("refused", format!("refused by {to}: {}", why_no_task(why))),
        Some(LetterState::Expired) if allowed => ("expired", format!("{to} had no place for it in time")),
        Some(LetterState::Expired) => ("expired", format!("{to} did not begin it in time")),
        Some(LetterState::Quarantined) => ("quarantined", format!("{to} could not read it")),
        Some(LetterState::Duplicate) => ("refused", format!("{to} had it already")),
    }
}

/// What became, here, of a task for which no program began.
fn not_begun(state: LetterState) -> (&'static str, String) {
    match state {
        LetterState::Refused(Refusal::Cancelled) => ("cancelled", WITHDRAWN.to_owned()),
        LetterState::Refused(Refusal::Declined) => ("refused", "refused here".to_owned()),
        LetterState::Refused(Refusal::Expired) => ("refused", "you did not answer in time".to_owned()),
        LetterState::Refused(why) => ("refused", format!("refused here: {why}")),
        LetterState::Expired => ("expired", "not begun in time".to_owned()),
        LetterState::Received
        | LetterState::Shown
        | LetterState::Acted
        | LetterState::Quarantined
        | LetterState::Duplicate => (state.word(), state.word().to_owned()),
    }
}

const WITHDRAWN: &str = "withdrawn before it began";

/// What a refusal means for a task.
pub(crate) fn why_no_task(why: Refusal) -> String {
    match why {
        Refusal::Declined => "the operator said no".to_owned(),
        Refusal::Expired => "the operator did not answer in time; ask again".to_owned(),
        Refusal::NotGranted => "this device was not given the right to delegate".to_owned(),
        Refusal::NoApprover => "nobody can be asked there".to_owned(),
        Refusal::Busy => "too much waits or runs there; ask again later".to_owned(),
        Refusal::PayloadUndecodable => "its version does not understand this task; update cede there".to_owned(),
        Refusal::WrongDestination => "its session is at another device; ask that one".to_owned(),
        Refusal::InFlightWork
        | Refusal::IntegrityFailed
        | Refusal::Truncated
        | Refusal::Unauthorized
        | Refusal::DestinationCannotResume
        | Refusal::AlreadyOwner
        | Refusal::NotOwner
        | Refusal::StaleToken
        | Refusal::TooLarge
        | Refusal::Cancelled
        | Refusal::TimedOut
        | Refusal::VersionMismatch
        | Refusal::Protocol => why.to_string(),
    }
}

async fn read_all(context: &Context, rows: Vec<Row>) -> Result<Vec<Read>, Stopping> {
    context.block(move |context| rows.into_iter().map(|row| read(context, row)).collect()).await
}

fn read(context: &Context, row: Row) -> Read {
    let letter = row.words.and_then(|digest| words_to_list(context, &digest));
    let result = answer_among(context, &row.answers).unwrap_or_default();
    Read { row, letter, result }
}

impl Read {
    fn is_task(&self) -> bool {
        let part = self.letter.as_ref().and_then(|letter| letter.part.as_ref());
        !self.row.unsure || matches!(part.map(Part::read), Some(Ok(Some(Part::Task(_)))))
    }

    fn scope(&self) -> TaskScope {
        let part = self.letter.as_ref().and_then(|letter| letter.part.as_ref());
        match part.map(Part::read) {
            Some(Ok(Some(Part::Task(scope)))) => scope,
            Some(Ok(Some(Part::Result(_) | Part::Withdrawn(_)) | None) | Err(_)) | None => TaskScope::default(),
        }
    }

    fn summary(&self) -> TaskSummary {
        let text = self.letter.as_ref().map_or("", |letter| letter.text.as_str());
        let (state, standing) = match &self.result {
            Some((result, _)) => (result.outcome.word(), ended(result, &self.row)),
            None => (self.row.state, self.row.standing.clone()),
        };
        TaskSummary {
            id: self.row.id.short(),
            from: self.row.from.clone(),
            to: self.row.to.clone(),
            asked_here: self.row.asked_here,
            session: self.letter.as_ref().and_then(|letter| letter.session),
            state: state.to_owned(),
            standing,
            told_unix_ms: self.letter.as_ref().map_or(0, |letter| letter.told_unix_ms),
            begins: begins(text),
            scope: self.scope(),
            line: if self.result.is_some() { String::new() } else { self.row.line.clone() },
        }
    }

    fn report(&self) -> Option<Box<TaskReport>> {
        let (result, text) = self.result.clone()?;
        Some(Box::new(TaskReport {
            text,
            agent: result.agent,
            directory: result.directory,
            exit: result.exit,
            took_ms: result.took_ms,
            changes: result.changes,
            cost_micro_usd: result.cost_micro_usd,
            turns: result.turns,
            output_bytes: result.output_bytes,
            note: result.note,
        }))
    }
}

fn ended(result: &TaskResult, row: &Row) -> String {
    let seconds = result.took_ms / 1_000;
    match result.outcome {
        TaskOutcome::Done => format!("done at {} in {seconds} s", row.to),
        TaskOutcome::Failed => format!("failed at {} after {seconds} s", row.to),
        TaskOutcome::TimedOut => format!("its time was over at {}: ended after {seconds} s", row.to),
        TaskOutcome::Cancelled => format!("ended at {} after {seconds} s", row.to),
        TaskOutcome::Interrupted => format!("interrupted at {}; it is not done again", row.to),
        TaskOutcome::Refused(Refusal::Cancelled) => WITHDRAWN.to_owned(),
        TaskOutcome::Refused(why) if result.note.is_empty() => format!("refused by {}: {}", row.to, why_no_task(why)),
        TaskOutcome::Refused(_) => format!("refused by {}: {}", row.to, result.note),
    }
}

/// Whether the word for how far a task is says that it ended.
fn ended_by_word(state: &str) -> bool {
    !matches!(state, "queued" | "waiting" | "running")
}

fn unknown() -> Failure {
    let why = "no task has an id that begins like that";
    failure(exit::USAGE, "no task is meant", why, "cede tasks --all")
}
