//! The book of tasks: which letters are tasks, which of them ran here, and that none runs twice.
//!
//! It asks nobody, starts nothing and knows no words. What it returns is durable before what it permits happens: a program
//! starts only after [`TaskBook::begin`] is in the journal, and what began and did not end before a restart is
//! [`TaskBook::cut_off`], for good. Rules: `SPEC.md`, section E.

use std::collections::{BTreeMap, BTreeSet};

use cede_wire::audit::AuditOf;
use cede_wire::id::DeviceId;
use cede_wire::letter::LetterId;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::task::{TaskOutcome, TaskRecord};

use crate::limits;

/// The tasks of one device, both directions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskBook {
    asked: BTreeMap<LetterId, Asked>,
    ran: BTreeMap<LetterId, Ran>,
    /// In the order in which they came into the book.
    order: Vec<LetterId>,
}

/// A task that was asked for here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Asked {
    answer: Option<LetterId>,
    /// It did not begin there, and why. An answer may say more.
    refused: Option<Refusal>,
}

/// A task that a program was started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// How the yes is named in the record of decisions.
    pub of: AuditOf,
    /// How it ended; none: it has not.
    pub outcome: Option<TaskOutcome>,
}

impl TaskBook {
    /// The book that these records say.
    pub fn restore<'a>(records: impl Iterator<Item = &'a Record>) -> Self {
        let mut book = Self::default();
        for record in records {
            if let Record::Task(record) = record {
                book.take(*record);
            }
        }
        book
    }

    pub(crate) fn take(&mut self, record: TaskRecord) {
        match record {
            TaskRecord::Asked { id } => {
                self.asked.entry(id).or_default();
                self.keep(id);
            }
            TaskRecord::Answered { id, by } => {
                if let Some(asked) = self.asked.get_mut(&id) {
                    asked.answer.get_or_insert(by);
                }
            }
            TaskRecord::Began { id, at_unix_ms, of } => {
                self.ran.entry(id).or_insert(Ran { at_unix_ms, of, outcome: None });
                self.keep(id);
            }
            TaskRecord::Ended { id, outcome } => {
                if let Some(ran) = self.ran.get_mut(&id) {
                    ran.outcome.get_or_insert(outcome);
                }
                if let (Some(asked), TaskOutcome::Refused(why)) = (self.asked.get_mut(&id), outcome) {
                    asked.refused.get_or_insert(why);
                }
            }
        }
    }

    /// Room is made by forgetting the oldest of what a person wants the least.
    fn keep(&mut self, id: LetterId) {
        if self.order.contains(&id) {
            return;
        }
        self.order.push(id);
        while self.order.len() > limits::TASKS {
            let at = (0..self.order.len()).min_by_key(|at| self.worth(self.order[*at]));
            let forgotten = self.order.remove(at.unwrap_or_default());
            self.asked.remove(&forgotten);
            self.ran.remove(&forgotten);
        }
    }

    fn worth(&self, id: LetterId) -> Worth {
        match (self.ran.get(&id).map(|ran| ran.outcome), self.asked.get(&id)) {
            (Some(None), _) => Worth::Runs,
            (Some(Some(TaskOutcome::Refused(_))), _) | (None, Some(Asked { refused: Some(_), .. }) | None) => {
                Worth::Refused
            }
            (Some(Some(_)), _) | (None, Some(Asked { answer: Some(_), .. })) => Worth::Result,
            (None, Some(Asked { answer: None, .. })) => Worth::Open,
        }
    }

    /// A letter of the outbox is a task. None: that is known.
    pub fn ask(&mut self, id: LetterId) -> Option<TaskRecord> {
        self.put(TaskRecord::Asked { id })
    }

    /// An answer came. None: it answers no task of this device, another answer came before, or another device says it.
    pub fn answer(&mut self, id: LetterId, by: LetterId) -> Option<TaskRecord> {
        let open = self.asked.get(&id).is_some_and(|asked| asked.answer.is_none());
        if open && by.origin == id.stream { self.put(TaskRecord::Answered { id, by }) } else { None }
    }

    /// A task that was asked for here did not begin there. None: that is known, or nothing was asked for.
    pub fn refuse(&mut self, id: LetterId, why: Refusal) -> Option<TaskRecord> {
        let asked = self.asked.contains_key(&id);
        if asked { self.put(TaskRecord::Ended { id, outcome: TaskOutcome::Refused(why) }) } else { None }
    }

    /// A program is about to be started. None: it was before, and is not again.
    pub fn begin(&mut self, id: LetterId, at_unix_ms: u64, of: AuditOf) -> Option<TaskRecord> {
        if self.ran.contains_key(&id) { None } else { self.put(TaskRecord::Began { id, at_unix_ms, of }) }
    }

    /// It is over. None: it did not run, or was over before.
    pub fn end(&mut self, id: LetterId, outcome: TaskOutcome) -> Option<TaskRecord> {
        let runs = self.ran.get(&id).is_some_and(|ran| ran.outcome.is_none());
        if runs { self.put(TaskRecord::Ended { id, outcome }) } else { None }
    }

    fn put(&mut self, record: TaskRecord) -> Option<TaskRecord> {
        let before = self.clone();
        self.take(record);
        (*self != before).then_some(record)
    }

    /// What began and did not end: right after a restart, what the end of this device cut off.
    pub fn cut_off(&self) -> Vec<LetterId> {
        self.ran.iter().filter(|(_, ran)| ran.outcome.is_none()).map(|(id, _)| *id).collect()
    }

    /// The tasks that are not over: of those that were asked for here the ones that were neither answered nor refused, of those
    /// that ran here the ones without an end.
    pub fn open(&self) -> BTreeSet<LetterId> {
        let open = |(_, asked): &(&LetterId, &Asked)| asked.answer.is_none() && asked.refused.is_none();
        let asked = self.asked.iter().filter(open).map(|(id, _)| *id);
        asked.chain(self.cut_off()).collect()
    }

    /// What became of a task that ran here; none: no program was started for it.
    pub fn ran(&self, id: LetterId) -> Option<Ran> {
        self.ran.get(&id).copied()
    }

    /// Every task that was asked for here, with its answer.
    pub fn asked(&self) -> impl Iterator<Item = (LetterId, Option<LetterId>)> {
        self.asked.iter().map(|(id, asked)| (*id, asked.answer))
    }

    /// Every task that ran here.
    pub fn all_that_ran(&self) -> impl Iterator<Item = (LetterId, Ran)> {
        self.ran.iter().map(|(id, ran)| (*id, *ran))
    }

    /// A device that is no member any more asked for nothing, and was asked for nothing.
    pub fn forget(&mut self, device: DeviceId) {
        let theirs = |id: &LetterId| id.origin == device || id.stream == device;
        self.asked.retain(|id, _| !theirs(id));
        // What runs stays until it is over: it must not be begun again.
        self.ran.retain(|id, ran| !theirs(id) || ran.outcome.is_none());
        let (asked, ran) = (&self.asked, &self.ran);
        self.order.retain(|id| asked.contains_key(id) || ran.contains_key(id));
    }

    /// The same book in few records.
    pub fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for id in &self.order {
            if let Some(asked) = self.asked.get(id) {
                records.push(TaskRecord::Asked { id: *id });
                let ended = |why| TaskRecord::Ended { id: *id, outcome: TaskOutcome::Refused(why) };
                records.extend(asked.refused.map(ended));
                records.extend(asked.answer.map(|by| TaskRecord::Answered { id: *id, by }));
            }
            if let Some(ran) = self.ran.get(id) {
                records.push(TaskRecord::Began { id: *id, at_unix_ms: ran.at_unix_ms, of: ran.of });
                records.extend(ran.outcome.map(|outcome| TaskRecord::Ended { id: *id, outcome }));
            }
        }
        records.into_iter().map(Record::Task).collect()
    }
}

/// What is forgotten first stands first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// It did not begin.
    Refused,
    /// It is over, and something came of it.
    Result,
    /// It was not answered.
    Open,
    /// It must not be begun again.
    Runs,
}

#[cfg(test)]
mod tests {
    use cede_wire::id::{ConnectionId, Incarnation};

    use super::*;

    const ME: DeviceId = DeviceId::new([1; 32]);
    const PEER: DeviceId = DeviceId::new([2; 32]);
    const OF: AuditOf = AuditOf::Request(ConnectionId::new([3; 16]), 1);

    fn id(origin: DeviceId, stream: DeviceId, seq: u64) -> LetterId {
        LetterId { origin, incarnation: Incarnation::new([7; 16]), stream, seq }
    }

    fn restored(book: &TaskBook) -> TaskBook {
        TaskBook::restore(book.records().iter())
    }

    /// Shows: E-4
    #[test]
    fn task_that_began_never_begins_again() {
        let mut book = TaskBook::default();
        let task = id(PEER, ME, 1);
        assert!(book.begin(task, 5, OF).is_some());
        assert_eq!(book.begin(task, 6, OF), None);
        let mut after = restored(&book);
        assert_eq!((after.cut_off(), after.begin(task, 7, OF)), (vec![task], None));
        assert!(after.end(task, TaskOutcome::Interrupted).is_some());
        assert_eq!(after.end(task, TaskOutcome::Done), None, "an end stays");
        let mut later = restored(&after);
        assert_eq!((later.cut_off(), later.begin(task, 8, OF)), (Vec::new(), None));
        assert_eq!(later.ran(task), Some(Ran { at_unix_ms: 5, of: OF, outcome: Some(TaskOutcome::Interrupted) }));
        assert_eq!(later.end(id(PEER, ME, 2), TaskOutcome::Done), None, "what did not begin does not end");
    }

    /// Shows: E-5
    #[test]
    fn first_answer_of_the_device_that_was_asked_counts() {
        let mut book = TaskBook::default();
        let task = id(ME, PEER, 1);
        assert_eq!(book.answer(task, id(PEER, ME, 9)), None, "nothing was asked");
        assert!(book.ask(task).is_some() && book.ask(task).is_none());
        assert_eq!(book.answer(task, id(DeviceId::new([3; 32]), ME, 9)), None);
        assert!(book.answer(task, id(PEER, ME, 9)).is_some());
        assert_eq!(book.answer(task, id(PEER, ME, 10)), None);
        assert_eq!(restored(&book).asked().collect::<Vec<_>>(), [(task, Some(id(PEER, ME, 9)))]);
    }

    #[test]
    fn book_is_bounded_and_keeps_what_runs() {
        let mut book = TaskBook::default();
        let runs = id(PEER, ME, 1);
        book.begin(runs, 1, OF);
        for seq in 2..=2 * limits::TASKS as u64 {
            book.begin(id(PEER, ME, seq), seq, OF);
            book.end(id(PEER, ME, seq), TaskOutcome::Done);
        }
        assert_eq!(book.all_that_ran().count(), limits::TASKS);
        assert_eq!(book.cut_off(), [runs]);
        assert_eq!(restored(&book), book);
        book.forget(PEER);
        assert_eq!(book.all_that_ran().map(|(id, _)| id).collect::<Vec<_>>(), [runs]);
    }

    #[test]
    fn answer_or_end_without_its_beginning_is_nothing() {
        let (task, by) = (id(ME, PEER, 1), id(PEER, ME, 9));
        let records = [
            Record::Task(TaskRecord::Answered { id: task, by }),
            Record::Task(TaskRecord::Ended { id: task, outcome: TaskOutcome::Done }),
            Record::PeerDropped { device: PEER },
        ];
        assert_eq!(TaskBook::restore(records.iter()), TaskBook::default());
    }

    #[test]
    fn what_is_over_goes_before_what_was_not_answered_and_that_before_what_runs() {
        let asked = |seq| id(ME, PEER, seq);
        let (runs, most) = (id(PEER, ME, 1), limits::TASKS as u64);
        let mut book = TaskBook::default();
        book.begin(runs, 1, OF);
        for seq in 1..most {
            book.ask(asked(seq));
        }
        book.answer(asked(5), id(PEER, ME, 9));
        book.ask(asked(most));
        assert!(book.asked().all(|(task, _)| task != asked(5)), "it was answered");
        book.ask(asked(most + 1));
        assert!(book.asked().all(|(task, _)| task != asked(1)), "the oldest question");
        assert_eq!((book.cut_off(), book.asked().count() as u64), (vec![runs], most - 1));
    }

    #[test]
    fn what_was_refused_goes_before_what_came_of_others() {
        let asked = |seq| id(ME, PEER, seq);
        let most = limits::TASKS as u64;
        let mut book = TaskBook::default();
        assert_eq!(book.refuse(asked(1), Refusal::Declined), None, "nothing was asked");
        for seq in 1..=most {
            book.ask(asked(seq));
            if seq.is_multiple_of(2) {
                assert!(book.refuse(asked(seq), Refusal::Declined).is_some());
                assert_eq!(book.refuse(asked(seq), Refusal::Expired), None, "an end stays");
            }
            if seq % 3 == 0 || seq % 2 == 1 {
                book.answer(asked(seq), id(PEER, ME, seq));
            }
        }
        assert!(book.open().is_empty());
        let mut restarted = restored(&book);
        assert_eq!(restarted, book);
        for book in [&mut book, &mut restarted] {
            for seq in most + 1..=most + most / 2 {
                book.ask(asked(seq));
                book.answer(asked(seq), id(PEER, ME, seq));
            }
            let results = (1..most).step_by(2).chain(most + 1..=most + most / 2);
            let kept = |book: &TaskBook| book.asked().map(|(task, _)| task.seq).collect::<Vec<_>>();
            assert_eq!(kept(book), results.clone().collect::<Vec<_>>(), "all that was refused is gone, and no result");
            book.ask(asked(2 * most));
            assert_eq!(kept(book), results.skip(1).chain([2 * most]).collect::<Vec<_>>(), "then the oldest result");
        }
        assert_eq!(restarted, book);
    }

    #[test]
    fn device_that_was_removed_takes_its_questions_with_it_and_no_others() {
        let mut book = TaskBook::default();
        let (other, theirs) = (id(ME, DeviceId::new([3; 32]), 1), id(PEER, ME, 4));
        book.ask(id(ME, PEER, 1));
        book.ask(other);
        for task in [theirs, id(DeviceId::new([3; 32]), ME, 4)] {
            book.begin(task, 1, OF);
            book.end(task, TaskOutcome::Done);
        }
        book.forget(PEER);
        assert_eq!(book.asked().collect::<Vec<_>>(), [(other, None)]);
        assert_eq!((book.ran(theirs), book.all_that_ran().count()), (None, 1));
        assert_eq!(restored(&book), book);
    }
}
