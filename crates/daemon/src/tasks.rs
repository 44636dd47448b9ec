//! Tasks: what a peer asks an agent here to do, and what was asked of peers. Source: SPEC E-1 to E-9.
//!
//! A task is a letter with a part beside its words, so that it comes once, waits for a device that is away and runs out.
//! The yes is the authority's, for exactly what is done. What may run twice never does: the book of tasks is in the journal
//! before a program starts.
//!
//! ```text
//! a letter with a task came      task_came → consider → the question (considering)
//! the yes                        there is a place for it, or it waits for one (considering)
//! the place                      looked at again, compared with what was shown, begun (considering)
//! the program                    in its own group, to its end, its time or the stop (running)
//! the answer                     a reply with a part; then it is over (answering)
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cede_core::authority::{Permit, RequestId};
use cede_core::ledger::Standing;
use cede_core::tasks::TaskBook;
use cede_store::objects::ObjectError;
use cede_wire::audit::{AuditOf, AuditOutcome};
use cede_wire::canonical::encode;
use cede_wire::control::{Failure, exit};
use cede_wire::id::{DeviceId, Hash, SessionId};
use cede_wire::letter::{Letter, LetterId, LetterState};
use cede_wire::member::Capability;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::session::AgentKind;
use cede_wire::task::{Part, TaskOutcome, TaskRecord, TaskResult, TaskScope};

use crate::actor::Actor;
use crate::authorities::Asker;
use crate::context::{Context, Stopping};
use crate::control::Replies;
use crate::letters::{in_words, unread, words_of};
use crate::limits;
use crate::offering::{failure, stopping};

mod answering;
mod asking;
mod collecting;
mod considering;
mod listing;
mod running;

pub(crate) use listing::why_no_task;

/// The tasks of this device.
#[derive(Default)]
pub(crate) struct Tasks {
    book: TaskBook,
    /// Tasks of peers that are not decided.
    waiting: BTreeMap<LetterId, Waiting>,
    running: BTreeMap<LetterId, Running>,
    /// Tasks that have their yes and wait for a place to run, the oldest yes first.
    queue: VecDeque<LetterId>,
    /// What agents of peers did last for tasks that were asked for here.
    lines: BTreeMap<LetterId, String>,
    /// Peers whose tasks are looked at again after a pause.
    later: BTreeSet<DeviceId>,
    /// Who waits for the end of a task.
    watches: Vec<(LetterId, Replies)>,
}

/// A task that waits for its yes.
struct Waiting {
    letter: Arc<Letter>,
    scope: TaskScope,
    stage: Stage,
}

/// How far the question is.
#[derive(PartialEq, Eq)]
enum Stage {
    /// Nobody is asked: there is no link, or too many questions wait.
    Idle,
    /// It is looked at.
    Looking,
    /// The operator is asked.
    Asked(Asker, RequestId),
    /// The operator said yes, which the record names so; as many tasks run as may.
    Allowed(AuditOf, Permit),
    /// There is a place for it; it is looked at again.
    Placed(AuditOf),
}

/// A task that an agent works on. It ends with the value.
struct Running {
    stop: Arc<AtomicBool>,
    agent: AgentKind,
    /// It is a turn of this one.
    session: Option<SessionId>,
    /// Where it works, by its real name; none for a directory that was made for it.
    directory: Option<PathBuf>,
    line: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Whether one of two places lies in the other one.
pub(crate) fn overlap(one: &Path, other: &Path) -> bool {
    // A place that is not known is everywhere to the library.
    let known = !one.as_os_str().is_empty() && !other.as_os_str().is_empty();
    known && (one.starts_with(other) || other.starts_with(one))
}

/// Marks everything that a task starts.
fn mark(id: LetterId) -> String {
    Hash::of(&encode(&id)).to_string()
}

impl Tasks {
    pub(crate) fn of(book: TaskBook) -> Self {
        Self { book, ..Self::default() }
    }
}

impl Actor {
    /// What a restart found: tasks that it cut off, and letters that nobody looked into.
    pub(crate) fn begin_tasks(&mut self) {
        if self.read_only {
            return;
        }
        self.end_tasks_of_strangers();
        self.tasks_that_began_are_acted_on();
        self.refused_tasks_are_noted();
        self.tasks_were_cut_off();
        self.collect_places();
        let open: Vec<LetterId> = self.ledger.inbox().filter(is_open).map(|letter| letter.kept.id).collect();
        self.look_for_parts(open);
    }

    /// Looks into letters of the inbox that may have a part.
    pub(crate) fn look_for_parts(&self, ids: Vec<LetterId>) {
        let letters: Vec<(LetterId, Hash)> =
            ids.into_iter().filter_map(|id| Some((id, self.ledger.received(id)?.kept.facts.digest))).collect();
        if letters.is_empty() {
            return;
        }
        let context = self.context.clone();
        tokio::spawn(async move { look_into(&context, letters).await });
    }

    fn part_came(&mut self, id: LetterId, letter: Letter) {
        if !self.ledger.received(id).is_some_and(|letter| is_open(&letter)) || self.tasks.waiting.contains_key(&id) {
            return;
        }
        match letter.part.as_ref().map(Part::read) {
            None => {}
            Some(Ok(Some(Part::Task(scope)))) => self.task_came(id, letter, scope),
            Some(Ok(Some(Part::Result(result)))) => self.result_came(id, &letter, &result),
            Some(Ok(Some(Part::Withdrawn(task)))) => self.withdrawal_came(id, task),
            Some(Ok(None) | Err(_)) => {
                tracing::warn!(peer = %id.origin.short(), "a message holds what is not understood; it is refused");
                self.end_letter(id, LetterState::Refused(Refusal::PayloadUndecodable));
            }
        }
    }

    fn task_came(&mut self, id: LetterId, letter: Letter, scope: TaskScope) {
        let passed_on = self.ledger.received(id).is_none_or(|letter| letter.kept.first.is_some());
        let of_peer = self.tasks.waiting.keys().filter(|waiting| waiting.origin == id.origin).count();
        if passed_on {
            // Who asks is who the link proves, and nobody else.
            return self.end_letter(id, LetterState::Refused(Refusal::WrongDestination));
        }
        if let Err(fault) = scope.check(&letter.text) {
            tracing::warn!(peer = %id.origin.short(), %fault, "a task is refused");
            return self.end_letter(id, LetterState::Refused(Refusal::PayloadUndecodable));
        }
        if of_peer >= limits::TASKS_WAITING {
            return self.end_letter(id, LetterState::Refused(Refusal::Busy));
        }
        self.tasks.waiting.insert(id, Waiting { letter: Arc::new(letter), scope, stage: Stage::Idle });
        self.consider_tasks_of(id.origin);
    }

    /// The asker does not want it any more.
    fn withdrawal_came(&mut self, id: LetterId, task: LetterId) {
        self.end_letter(id, LetterState::Acted);
        if task.origin == id.origin && task.stream == id.stream {
            self.cancel_here(task);
        }
    }

    /// Ends a task of a peer here, waiting or running. False: there is none.
    fn cancel_here(&mut self, task: LetterId) -> bool {
        if let Some(running) = self.tasks.running.get(&task) {
            running.stop.store(true, Ordering::Relaxed);
            return true;
        }
        let open = self.ledger.received(task).is_some_and(|letter| is_open(&letter));
        if open {
            self.end_waiting(task, Refusal::Cancelled);
        }
        open
    }

    /// Whose task works with a session here, or in its directory. Until its agent is up nothing else shows that.
    pub(crate) fn task_in(&self, session: SessionId, directory: &Path) -> Option<String> {
        let with_it = |running: &&Running| running.session == Some(session);
        let of = self.tasks.running.iter().find(|(_, running)| with_it(running)).map(|(id, _)| id.origin);
        let from = of.map(|of| self.device_name(of)).or_else(|| self.task_over(directory))?;
        Some(format!("a task of {from} works there: cede tasks"))
    }

    /// The name of a device whose task works in a directory, above it or below it.
    pub(crate) fn task_over(&self, directory: &Path) -> Option<String> {
        let over = |running: &Running| running.directory.as_ref().is_some_and(|works| overlap(works, directory));
        let (id, _) = self.tasks.running.iter().find(|(_, running)| over(running))?;
        Some(self.device_name(id.origin))
    }

    /// How many run.
    pub(crate) fn running_tasks(&self) -> usize {
        self.tasks.running.len()
    }

    /// Nothing acts for a session while the device is in doubt.
    pub(crate) fn end_tasks_of_sessions(&mut self) {
        for running in self.tasks.running.values().filter(|running| running.session.is_some()) {
            running.stop.store(true, Ordering::Relaxed);
        }
    }

    /// The session is this device's no more.
    pub(crate) fn end_tasks_in(&mut self, session: SessionId) {
        for running in self.tasks.running.values().filter(|running| running.session == Some(session)) {
            running.stop.store(true, Ordering::Relaxed);
        }
    }

    fn end_letter(&mut self, id: LetterId, state: LetterState) {
        // One that ended before stays as it ended.
        let _ = self.ledger.mark(id, state, self.context.clock.now());
    }

    /// Tasks whose letter ended by itself, or by the operator's word about the letter, are asked about no more.
    pub(crate) fn end_closed_tasks(&mut self) {
        let closed = |id: &&LetterId| !self.ledger.received(**id).is_some_and(|letter| is_open(&letter));
        let closed: Vec<LetterId> = self.tasks.waiting.keys().filter(closed).copied().collect();
        closed.into_iter().for_each(|id| self.take_question_back(id));
    }

    fn take_question_back(&mut self, id: LetterId) {
        self.tasks.queue.retain(|queued| *queued != id);
        match self.tasks.waiting.remove(&id) {
            Some(Waiting { stage: Stage::Asked(asker, request), .. }) => self.withdraw_request(asker, request),
            // The yes came to nothing.
            Some(Waiting { stage: Stage::Allowed(of, _) | Stage::Placed(of), .. }) => {
                self.came_of(id.origin, of, Capability::Delegate, AuditOutcome::Failed);
            }
            Some(Waiting { stage: Stage::Idle | Stage::Looking, .. }) | None => {}
        }
    }

    /// For a device that is no member any more nothing runs, and nothing is kept.
    pub(crate) fn end_tasks_of_strangers(&mut self) {
        let stranger = |device: DeviceId| !self.peers.is_member(device);
        let ran = self.tasks.book.all_that_ran().map(|(id, _)| id.origin);
        let asked = self.tasks.book.asked().map(|(id, _)| id.stream);
        let here = self.tasks.waiting.keys().chain(self.tasks.running.keys()).map(|id| id.origin);
        let gone: BTreeSet<DeviceId> = ran.chain(asked).chain(here).filter(|device| stranger(*device)).collect();
        for (_, replies) in self.tasks.watches.extract_if(.., |(id, _)| stranger(id.stream)) {
            let why = "the device was removed, and what it does is its own";
            replies.failed(failure(exit::FAILED, "nothing more is heard of the task", why, "cede devices"));
        }
        for device in gone {
            let theirs = self.tasks.waiting.keys().filter(|id| id.origin == device);
            let theirs: Vec<LetterId> = theirs.copied().collect();
            theirs.into_iter().for_each(|id| self.take_question_back(id));
            for (_, running) in self.tasks.running.iter().filter(|(id, _)| id.origin == device) {
                running.stop.store(true, Ordering::Relaxed);
            }
            self.tasks.book.forget(device);
        }
    }

    /// What was told in reply to a task. One of them may be its answer; the others are a person's words.
    fn replies_to(&self, task: LetterId) -> Vec<(LetterId, Hash)> {
        let replies = self.ledger.outbox().filter(|letter| letter.kept.facts.in_reply_to == Some(task));
        replies.map(|letter| (letter.kept.id, letter.kept.facts.digest)).collect()
    }

    /// The book says more: that becomes durable, and the letters of what is not over stay.
    fn write_book(&mut self, record: TaskRecord) {
        self.record(Record::Task(record));
        self.ledger.keep(self.tasks.book.open());
    }

    /// That a task begins is durable a moment before that its letter is acted on. A death between the two must not have
    /// anybody asked about what is begun.
    fn tasks_that_began_are_acted_on(&mut self) {
        let began: Vec<LetterId> = self.tasks.book.all_that_ran().map(|(id, _)| id).collect();
        began.into_iter().for_each(|id| self.end_letter(id, LetterState::Acted));
    }

    /// That a letter ended is durable a moment before the book says so.
    fn refused_tasks_are_noted(&mut self) {
        let ended = |(id, _): (LetterId, _)| Some((id, self.ledger.told(id)?.kept.state?));
        let ended: Vec<(LetterId, LetterState)> = self.tasks.book.asked().filter_map(ended).collect();
        ended.into_iter().for_each(|(id, state)| self.note_refused(id, state));
    }

    /// What a restart cut off is over: what it left is ended, and the asker is told.
    fn tasks_were_cut_off(&mut self) {
        for id in self.tasks.book.cut_off() {
            let (context, replies) = (self.context.clone(), self.replies_to(id));
            tokio::spawn(async move {
                let Ok(answer) = answer_in_time(&context, &replies).await else { return };
                if let Some((result, _)) = answer {
                    return context.tell(move |actor| actor.task_is_over(id, result.outcome)).await;
                }
                let left = context.block(move |_| cede_agent::turns::end_marked(&mark(id))).await.unwrap_or_default();
                tracing::warn!(id = id.short(), left, "a task was cut off; it is not done again");
                context.tell(move |actor| actor.answer_task(id, interrupted(), String::new())).await;
            });
        }
    }

    fn task_is_over(&mut self, id: LetterId, outcome: TaskOutcome) {
        let Some(ran) = self.tasks.book.ran(id) else { return };
        let Some(record) = self.tasks.book.end(id, outcome) else { return };
        self.write_book(record);
        self.collect_places();
        let came = if outcome == TaskOutcome::Done { AuditOutcome::Done } else { AuditOutcome::Failed };
        self.came_of(id.origin, ran.of, Capability::Delegate, came);
        if !self.peers.is_member(id.origin) {
            self.tasks.book.forget(id.origin);
        }
        self.fill_places();
    }
}

/// A command about messages is about to deal with this letter. What it has beside its words is looked at first; a task ends
/// by its answer and by nothing else.
pub(crate) async fn leave_tasks(
    context: &Context,
    (id, digest): (LetterId, Hash),
    what: &'static str,
) -> Result<(), Failure> {
    let words = context.block(move |context| words_of(context, &digest)).await.map_err(stopping)?;
    let words = words.map_err(|error| unread(what, &error))?;
    let Some(letter) = words.filter(|letter| letter.part.is_some()) else { return Ok(()) };
    let open = context.ask(move |actor| {
        actor.part_came(id, letter);
        actor.tasks.waiting.contains_key(&id) || actor.tasks.book.ran(id).is_some_and(|ran| ran.outcome.is_none())
    });
    if !open.await.map_err(stopping)? {
        return Ok(());
    }
    let why = "it is a task, which its answer ends";
    Err(failure(exit::FAILED, what, why, "cede tasks says how far it is; cede tasks --cancel ID ends it"))
}

/// The answer to a task, with its words, among what was told in reply to it. Blocks.
fn answer_among(context: &Context, replies: &[(LetterId, Hash)]) -> Result<Option<(TaskResult, String)>, ObjectError> {
    for (_, digest) in replies {
        let letter = words_of(context, digest)?;
        let Some((part, text)) = letter.and_then(|letter| Some((letter.part?, letter.text))) else { continue };
        match Part::read(&part) {
            Ok(Some(Part::Result(result))) => return Ok(Some((*result, text))),
            Ok(Some(Part::Task(_) | Part::Withdrawn(_)) | None) | Err(_) => {}
        }
    }
    Ok(None)
}

/// The same where no answer means that one is to be told: not before all of them are read.
async fn answer_in_time(
    context: &Context,
    replies: &[(LetterId, Hash)],
) -> Result<Option<(TaskResult, String)>, Stopping> {
    loop {
        let among = replies.to_vec();
        match context.block(move |context| answer_among(context, &among)).await? {
            Ok(answer) => return Ok(answer),
            Err(error) => tracing::warn!(why = in_words(&error), "the answer to a task cannot be looked for now"),
        }
        tokio::time::sleep(limits::WORDS_AGAIN).await;
    }
}

/// Looks for what letters have beside their words. Those that cannot be read now are read again while they are open.
async fn look_into(context: &Context, mut letters: Vec<(LetterId, Hash)>) {
    loop {
        let mut later = Vec::new();
        for (id, digest) in letters {
            match context.block(move |context| words_of(context, &digest)).await {
                Ok(Ok(words)) => {
                    if let Some(letter) = words.filter(|letter| letter.part.is_some()) {
                        context.tell(move |actor| actor.part_came(id, letter)).await;
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(id = id.short(), why = in_words(&error), "a message cannot be looked into now");
                    later.push((id, digest));
                }
                Err(_) => return,
            }
        }
        if later.is_empty() {
            return;
        }
        tokio::time::sleep(limits::WORDS_AGAIN).await;
        let open = context.ask(move |actor| {
            later.retain(|(id, _)| actor.ledger.received(*id).is_some_and(|letter| is_open(&letter)));
            later
        });
        let Ok(open) = open.await else { return };
        letters = open;
    }
}

fn is_open(letter: &Standing) -> bool {
    letter.passed_on.is_none() && !letter.kept.state.is_some_and(LetterState::is_final)
}

fn interrupted() -> TaskResult {
    let note = "the device ended while the task ran; it may have done a part, and is not done again";
    TaskResult { note: note.to_owned(), ..nothing(TaskOutcome::Interrupted) }
}

/// An answer that says no more than how it ended.
fn nothing(outcome: TaskOutcome) -> TaskResult {
    TaskResult {
        outcome,
        agent: None,
        directory: String::new(),
        exit: None,
        took_ms: 0,
        changes: String::new(),
        cost_micro_usd: None,
        turns: None,
        output_bytes: 0,
        note: String::new(),
    }
}

/// The session that a task is a turn of.
fn session_of(letter: &Letter) -> Option<SessionId> {
    letter.session
}
