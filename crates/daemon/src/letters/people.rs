//! `cede inbox`: what a person or an agent sees of letters, and what they do with them.

use std::collections::BTreeSet;

use cede_core::ledger::output::Gap;
use cede_core::ledger::{MarkError, Standing};
use cede_wire::control::{Answer, Check, Failure, LetterSummary, exit};
use cede_wire::id::Hash;
use cede_wire::letter::{Letter, LetterId, LetterRoom, LetterState};
use cede_wire::refusal::Refusal;
use cede_wire::task::{Part, TaskOutcome};

use super::{unread, words_of, words_to_list};
use crate::actor::Actor;
use crate::context::Context;
use crate::control::Replies;
use crate::limits;
use crate::offering::{failure, stopping};
use crate::tasks::{leave_tasks, why_no_task};

impl Actor {
    /// Letters that nobody has read yet.
    pub(crate) fn unread_letters(&self) -> u64 {
        self.letters_unread(|_| true)
    }

    pub(crate) fn letters_unread(&self, wanted: impl Fn(&Standing) -> bool) -> u64 {
        let unread = |letter: &Standing| {
            letter.passed_on.is_none() && letter.kept.state.is_none_or(|state| state == LetterState::Received)
        };
        self.ledger.inbox().filter(unread).filter(wanted).count() as u64
    }

    /// Letters that are still to be sent.
    pub(crate) fn letters_queued(&self, wanted: impl Fn(LetterId) -> bool) -> usize {
        let queued = |letter: &Standing| letter.kept.state.is_none() && wanted(letter.kept.id);
        self.ledger.outbox().filter(queued).count()
    }

    pub(crate) fn ask_inbox(&self, sent: bool, all: bool, replies: Replies) {
        let ended = |letter: &Standing| letter.kept.state.is_some_and(LetterState::is_final);
        let listed = |letter: &Standing| all || (letter.passed_on.is_none() && (sent || !ended(letter)));
        let mut letters: Vec<Standing> = match sent {
            true => self.ledger.outbox().filter(listed).collect(),
            false => self.ledger.inbox().filter(listed).collect(),
        };
        each_once(&mut letters, sent);
        let more = letters.len().saturating_sub(limits::LETTERS_LISTED) as u64;
        letters.truncate(limits::LETTERS_LISTED);
        let notes = self.letter_notes();
        let context = self.context.clone();
        tokio::spawn(async move {
            let digests: Vec<_> = letters.iter().map(|letter| letter.kept.facts.digest).collect();
            let begins = context.block(move |context| {
                digests
                    .iter()
                    .map(|digest| words_to_list(context, digest).map_or_else(String::new, |one| begins(&said(&one))))
                    .collect::<Vec<_>>()
            });
            let Ok(begins) = begins.await else { return };
            let listed = context.ask(move |actor| {
                let rows = letters.iter().zip(begins);
                rows.map(|(letter, begins)| match sent {
                    true => actor.sent_summary(letter, begins),
                    false => actor.received_summary(letter, begins),
                })
                .collect()
            });
            replies.settle(listed.await.map(|letters| Answer::Inbox { letters, more, notes }).map_err(stopping));
        });
    }

    /// What is wrong with messages, for `cede doctor`.
    pub(crate) fn letter_checks(&self) -> Vec<Check> {
        let check = |result: &str, found: String, cure: &str| Check {
            what: "messages".to_owned(),
            result: result.to_owned(),
            found,
            cure: cure.to_owned(),
        };
        let mut checks = Vec::new();
        if !self.has_journal_room() {
            let found = "the journal is long: no messages are taken or told".to_owned();
            checks.push(check("warn", found, "a restart shortens it: cede stop; cede up"));
        }
        let kept_out = self.peers.members().into_iter().filter(|member| self.ledger.is_quarantined(member.device()));
        checks.extend(kept_out.map(|member| {
            let found =
                format!("two messages of {} came under one id, or it began too often anew: none is taken", member.name);
            check("warn", found, &format!("look at it, then: cede inbox --release {}", member.name))
        }));
        if self.ledger.gaps().next().is_some() {
            let found = "a device forgot messages that it had dealt with".to_owned();
            checks.push(check("warn", found, "cede inbox says which"));
        }
        checks
    }

    fn letter_notes(&self) -> Vec<String> {
        let kept_out = self.peers.members().into_iter().filter(|member| self.ledger.is_quarantined(member.device()));
        let kept_out = kept_out.map(|member| {
            format!(
                "two messages of {} came under one id, or it began too often anew: none of its messages is taken. If its \
                 store was put back, that is why. To take them again: cede inbox --release {}",
                member.name, member.name
            )
        });
        kept_out.chain(self.ledger.gaps().map(|gap| self.gap_note(gap))).collect()
    }

    fn gap_note(&self, gap: &Gap) -> String {
        let letters = gap.through.saturating_sub(gap.from.seq).saturating_add(1);
        let (from, to) = (self.device_name(gap.from.origin), self.device_name(gap.from.stream));
        format!("{to} forgot {letters} messages of {from} that it had dealt with: its store is older than it was")
    }

    pub(crate) fn received_summary(&self, letter: &Standing, begins: String) -> LetterSummary {
        let first = letter.first();
        let mut summary = self.summary_of(letter, begins);
        summary.from = self.device_name(first.origin);
        summary.to = self.device_name(letter.kept.id.stream);
        summary.by = (first.origin != letter.kept.id.origin).then(|| self.device_name(letter.kept.id.origin));
        let state = letter.kept.state.unwrap_or(LetterState::Received);
        summary.state = state.word().to_owned();
        summary.standing = match (letter.passed_on, state) {
            (Some(next), _) => format!("{}, passed on to {}", state.word(), self.device_name(next.stream)),
            (None, LetterState::Refused(Refusal::Declined)) => "refused here".to_owned(),
            (None, LetterState::Refused(why)) => format!("refused: {why}"),
            (None, LetterState::Quarantined) => "quarantined: it could not be read".to_owned(),
            (None, state) => state.word().to_owned(),
        };
        summary
    }

    pub(crate) fn sent_summary(&self, letter: &Standing, begins: String) -> LetterSummary {
        let first = letter.first();
        let mut summary = self.summary_of(letter, begins);
        let to = self.device_name(letter.kept.id.stream);
        summary.from = self.device_name(first.origin);
        summary.by = (first != letter.kept.id).then(|| self.name.clone());
        summary.state = letter.kept.state.map_or("queued", LetterState::word).to_owned();
        summary.standing = self.sent_standing(letter, &to);
        summary.to = to;
        summary
    }

    fn sent_standing(&self, letter: &Standing, to: &str) -> String {
        let peer = letter.kept.id.stream;
        match letter.kept.state {
            None if letter.overdue => format!("queued: its time is over; {to} says whether it came in time"),
            None if let Some(absence) = self.peers.absence(peer) => format!("queued: {to} {absence}"),
            None => match self.ledger.closed(peer) {
                Some(LetterRoom::Full) => format!("queued: {to} has no room for messages"),
                Some(LetterRoom::Quarantined) => {
                    format!("queued: {to} takes no messages of this device until its person looks")
                }
                Some(LetterRoom::NotGranted) => format!("queued: {to} takes no messages of this device"),
                Some(LetterRoom::Open { .. }) | None => format!("queued for {to}"),
            },
            Some(LetterState::Received) => format!("received by {to}"),
            // It went on with its session, perhaps to another device.
            Some(LetterState::Shown) if letter.kept.facts.session.is_some() => "shown where its session is".to_owned(),
            Some(LetterState::Acted) if letter.kept.facts.session.is_some() => {
                "acted on where its session is".to_owned()
            }
            Some(LetterState::Shown) => format!("shown at {to}"),
            Some(LetterState::Acted) => format!("acted on at {to}"),
            Some(LetterState::Refused(Refusal::Declined)) => format!("refused by {to}"),
            Some(LetterState::Refused(Refusal::IntegrityFailed)) => {
                "refused: this device forgot what it told before, or its words are damaged; tell it again".to_owned()
            }
            Some(LetterState::Refused(why)) if self.is_asked_task(letter.kept.id) => {
                format!("refused by {to}: {}", why_no_task(why))
            }
            Some(LetterState::Refused(Refusal::NotGranted)) if letter.kept.first.is_some() => {
                format!("refused: {to} takes no messages of {}", self.device_name(letter.first().origin))
            }
            Some(LetterState::Refused(Refusal::NotGranted)) => {
                format!("refused: {to} takes no messages of this device")
            }
            Some(LetterState::Refused(why)) => format!("refused by {to}: {why}"),
            Some(LetterState::Expired) => format!("expired before anybody at {to} acted on it"),
            Some(LetterState::Quarantined) => format!("quarantined: {to} could not read it"),
            Some(LetterState::Duplicate) => format!("duplicate: {to} had it already"),
        }
    }

    fn summary_of(&self, letter: &Standing, begins: String) -> LetterSummary {
        let facts = &letter.kept.facts;
        let title = facts.session.and_then(|session| self.placed.get(&session)).map(|placed| placed.title.clone());
        LetterSummary {
            id: self.letter_name(letter).short(),
            from: String::new(),
            to: String::new(),
            by: None,
            session: facts.session,
            title: title.unwrap_or_default(),
            state: String::new(),
            standing: String::new(),
            told_unix_ms: facts.told_unix_ms,
            bytes: u64::from(facts.bytes),
            begins,
            in_reply_to: facts.in_reply_to.map(|id| id.short()),
            hops: facts.hops,
        }
    }

    /// A letter that was passed on has its first name, unless another one with other words has it too.
    fn letter_name(&self, letter: &Standing) -> LetterId {
        let first = letter.first();
        let other = |other: Standing| other.first() == first && other.kept.facts.digest != letter.kept.facts.digest;
        if letter.kept.first.is_some() && self.ledger.inbox().any(other) { letter.kept.id } else { first }
    }

    /// The letter of the inbox that a text means.
    pub(crate) fn find_received(&self, text: &str) -> Result<Standing, Failure> {
        pick(self.ledger.inbox().filter(|letter| letter.passed_on.is_none()), text)
    }

    /// Reads a letter. One of the inbox is shown by it, and an attempt that fails is counted before it is made.
    pub(crate) fn ask_letter(&mut self, text: &str, replies: Replies) {
        let all = self.ledger.inbox().chain(self.ledger.outbox());
        let letter = match pick(all, text) {
            Ok(letter) => letter,
            Err(failed) => return replies.failed(failed),
        };
        let id = letter.kept.id;
        let came = id.stream == self.context.local.device();
        if came && !self.read_only && !self.ledger.attempt(id, self.context.clock.now()) {
            let why = "it could not be read, three times";
            return replies.failed(failure(exit::FAILED, "the message is put aside", why, "cede inbox --all"));
        }
        let context = self.context.clone();
        // The attempt is durable before the next input is taken, and this is one.
        tokio::spawn(async move { read(&context, letter, came, replies).await });
    }

    /// Answers once what led to it is durable.
    pub(crate) fn settle_durable(&self, result: Result<Answer, Failure>, replies: Replies) {
        let context = self.context.clone();
        tokio::spawn(async move {
            replies.settle(context.ask(|_| result).await.unwrap_or_else(|stops| Err(stopping(stops))))
        });
    }

    pub(crate) fn mark_letter(&self, text: &str, acted: bool, replies: Replies) {
        let letter = match self.find_received(text) {
            Ok(letter) => letter.kept,
            Err(failed) => return replies.failed(failed),
        };
        let context = self.context.clone();
        tokio::spawn(async move {
            if let Err(failed) = leave_tasks(&context, (letter.id, letter.facts.digest), NOT_MARKED).await {
                return replies.failed(failed);
            }
            context.tell(move |actor| actor.durably(replies, |actor| actor.mark(letter.id, acted))).await;
        });
    }

    fn mark(&mut self, id: LetterId, acted: bool) -> Result<Answer, Failure> {
        let state = if acted { LetterState::Acted } else { LetterState::Refused(Refusal::Declined) };
        let marked = self.ledger.mark(id, state, self.context.clock.now());
        marked.map_err(|error| not_marked(&error))?;
        let from = self.ledger.received(id).map_or_else(String::new, |letter| self.device_name(letter.first().origin));
        let text = match acted {
            true => format!("marked as acted on; {from} is told"),
            false => format!("refused; {from} is told"),
        };
        Ok(Answer::Said { text })
    }

    pub(crate) fn release_letters(&mut self, device: &str) -> Result<Answer, Failure> {
        let member = self.find_member(device)?;
        let text = match self.ledger.release_quarantine(member.device(), self.context.clock.now()) {
            true => format!("messages of {} are taken again", member.name),
            false => format!("messages of {} are taken already", member.name),
        };
        Ok(Answer::Said { text })
    }
}

async fn read(context: &Context, letter: Standing, came: bool, replies: Replies) {
    // An answer means that what was to be durable before is.
    if context.ask(|_| ()).await.is_err() {
        return;
    }
    let digest = letter.kept.facts.digest;
    let Ok(words) = context.block(move |context| words_of(context, &digest)).await else { return };
    let id = letter.kept.id;
    let shown = context.ask(move |actor| {
        let (now, what) = (actor.context.clock.now(), "the message cannot be read");
        let words = words.map_err(|error| {
            if came && !actor.read_only {
                actor.ledger.unread(id);
            }
            unread(what, &error)
        })?;
        let Some(words) = words else {
            actor.ledger.failed(id, now);
            let why = "its words are not on the disk any more, or are damaged";
            return Err(failure(exit::FAILED, what, why, "cede doctor"));
        };
        if came {
            // One that ended before stays as it ended, and can be read.
            let _ = actor.ledger.mark(id, LetterState::Shown, now);
        }
        let text = said(&words);
        let begins = begins(&text);
        let letter = match came {
            true => actor.ledger.received(id).map(|letter| actor.received_summary(&letter, begins)),
            false => actor.ledger.told(id).map(|letter| actor.sent_summary(&letter, begins)),
        };
        let letter = letter.ok_or_else(|| not_marked(&MarkError::Unknown))?;
        Ok(Answer::Letter { letter: Box::new(letter), text })
    });
    replies.settle(shown.await.unwrap_or_else(|stops| Err(stopping(stops))));
}

/// Newest first, and of a letter that stands here once for each time that it came by one row: the one that somebody may still
/// deal with, else the newest that says what became of it.
fn each_once(letters: &mut Vec<Standing>, sent: bool) {
    let newest = |letter: &Standing| core::cmp::Reverse((letter.kept.at_unix_ms, letter.kept.id));
    let waits = |letter: &Standing| {
        !sent && letter.passed_on.is_none() && !letter.kept.state.is_some_and(LetterState::is_final)
    };
    let rank = |letter: &Standing| (letter.kept.state == Some(LetterState::Duplicate), !waits(letter));
    letters.sort_by_key(|letter| (rank(letter), newest(letter)));
    let mut seen = BTreeSet::new();
    letters.retain(|letter| seen.insert((letter.first(), letter.kept.facts.digest)));
    letters.sort_by_key(newest);
}

/// The words of a message. An answer to a task that has none, as of one that was refused, is said in words of ours, with what
/// the device there adds.
pub(super) fn said(letter: &Letter) -> String {
    let result = match letter.part.as_ref().map(Part::read) {
        Some(Ok(Some(Part::Result(result)))) if letter.text.trim().is_empty() => result,
        Some(Ok(Some(Part::Result(_) | Part::Task(_) | Part::Withdrawn(_)) | None) | Err(_)) | None => {
            return letter.text.clone();
        }
    };
    let withdrawn = result.outcome == TaskOutcome::Refused(Refusal::Cancelled);
    let how = if withdrawn { "withdrawn before it began" } else { result.outcome.word() };
    let task = letter.in_reply_to.map_or_else(|| "a task".to_owned(), |id| format!("task {}", id.short()));
    let note = if result.note.is_empty() { String::new() } else { format!(": {}", result.note) };
    format!("{task}, {how}{note}")
}

/// How words begin: one line.
pub(crate) fn begins(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(limits::PEER_TEXT_CHARS).collect()
}

fn pick(letters: impl Iterator<Item = Standing>, text: &str) -> Result<Standing, Failure> {
    let own = |letter: &Standing| letter.kept.first.is_some() && letter.kept.id.short().starts_with(text);
    let named = |letter: &Standing| !text.is_empty() && (letter.first().short().starts_with(text) || own(letter));
    let mut fitting: Vec<Standing> = letters.filter(named).collect();
    // One that came back with its session stands here twice: the newest is meant. A device that passes on other words under
    // the name of a letter must not put them in its place: what its teller itself told goes before.
    let later = |letter: &Standing| {
        let repeats = letter.kept.state == Some(LetterState::Duplicate);
        let age = core::cmp::Reverse(letter.kept.at_unix_ms);
        (letter.passed_on.is_some(), repeats, letter.kept.first.is_some(), age)
    };
    fitting.sort_by_key(later);
    let told = |letter: &Standing| letter.kept.first.is_none() && letter.passed_on.is_none();
    let ids: BTreeSet<LetterId> = fitting.iter().map(Standing::first).collect();
    let words: BTreeSet<Hash> = fitting.iter().map(|letter| letter.kept.facts.digest).collect();
    let mut passed = fitting.iter().filter(|letter| own(letter));
    match (fitting.first(), ids.len(), words.len()) {
        (Some(letter), 1, 1) => Ok(*letter),
        (Some(letter), 1, _) if told(letter) => Ok(*letter),
        (None, ..) => {
            let why = match text {
                "" => "no id was given".to_owned(),
                _ => format!("no message has an id that begins with {text}"),
            };
            Err(failure(exit::USAGE, "no message is meant", &why, "cede inbox --all; cede inbox --sent"))
        }
        (Some(_), ..) => match (passed.next(), passed.next()) {
            (Some(letter), None) => Ok(*letter),
            _ => {
                let why = format!("several ids begin with {text}");
                Err(failure(exit::USAGE, "it is not clear which message is meant", &why, "cede inbox --all"))
            }
        },
    }
}

fn not_marked(error: &MarkError) -> Failure {
    failure(exit::FAILED, NOT_MARKED, &error.to_string(), "cede inbox --all")
}

const NOT_MARKED: &str = "the message is as it was";

#[cfg(test)]
mod tests {
    use cede_wire::id::{DeviceId, Incarnation};
    use cede_wire::letter::{KeptLetter, LetterFacts};

    use super::*;

    /// One letter, as it came by the hand of a device.
    fn came(by: u8, at_unix_ms: u64, state: LetterState) -> Standing {
        let id = |origin, seq| LetterId {
            origin: DeviceId::new([origin; 32]),
            incarnation: Incarnation::new([1; 16]),
            stream: DeviceId::new([9; 32]),
            seq,
        };
        let facts = LetterFacts {
            digest: Hash::of(b"words"),
            bytes: 5,
            session: None,
            in_reply_to: None,
            conversation: None,
            hops: 0,
            told_unix_ms: 1,
        };
        let (first, state) = (Some(id(1, 1)), Some(state));
        let kept = KeptLetter { id: id(by, at_unix_ms), first, facts, expires_in_ms: 1, at_unix_ms, state };
        Standing { kept, passed_on: None, attempts: 0, overdue: false }
    }

    fn listed(mut letters: Vec<Standing>) -> Vec<u64> {
        each_once(&mut letters, false);
        letters.iter().map(|letter| letter.kept.at_unix_ms).collect()
    }

    /// Shows: M-10
    #[test]
    fn letter_that_two_devices_passed_on_is_listed_as_the_one_that_waits() {
        let (waits, duplicate) = (came(2, 1, LetterState::Received), came(3, 2, LetterState::Duplicate));
        assert_eq!(listed(vec![waits, duplicate]), [1]);
        assert_eq!(listed(vec![duplicate, waits]), [1]);
        assert_eq!(listed(vec![duplicate]), [2]);
        assert_eq!(listed(vec![came(2, 1, LetterState::Acted), duplicate]), [1], "how it ended here is what counts");
    }

    /// Shows: M-10
    #[test]
    fn letter_that_came_by_twice_is_listed_as_it_is_now() {
        let went_on = Standing {
            passed_on: Some(came(2, 1, LetterState::Received).kept.id),
            ..came(2, 1, LetterState::Received)
        };
        assert_eq!(listed(vec![went_on, came(3, 2, LetterState::Acted)]), [2]);
        assert_eq!(listed(vec![came(3, 2, LetterState::Received), went_on]), [2]);
        let other = came(2, 7, LetterState::Received);
        let facts = LetterFacts { digest: Hash::of(b"other"), ..other.kept.facts };
        let other = Standing { kept: KeptLetter { facts, ..other.kept }, ..other };
        assert_eq!(listed(vec![went_on, other]), [7, 1]);
    }
}
