//! What devices tell each other: each letter once, in any weather, and what became of it.
//!
//! A sender keeps a letter until its receiver says how it ended. A receiver makes a letter and its place known in one
//! durable write, so a repetition finds both or neither. The words are not here: a letter is known by its digest, and
//! lies beside the journal. Rules: `SPEC.md`, section M.
//!
//! ```text
//! ledger.tell(peer, facts, …, now)?;             // or a frame, a mark, handle_timeout(now)
//! while let Some(output) = ledger.poll() {        // in order
//!     match output {
//!         Persist(batch) => journal.commit(batch)?,   // durable before anything below
//!         Send(peer, message) => links.send(peer, message),
//!         Post(peer, post) => links.send(peer, with_words(post)),
//!         Tell(event) => hands.tell(event),
//!     }
//! }
//! ```

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cede_wire::id::{DeviceId, Hash, Incarnation, SessionId};
use cede_wire::letter::{KeptLetter, LetterFacts, LetterId, LetterRecord, LetterState};
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use crate::limits;
use crate::now::Now;

mod incoming;
mod outgoing;
pub mod output;
mod restore;
mod streams;
#[cfg(test)]
mod tests;
mod timers;

pub use incoming::{Arrival, ArrivedItem};
pub use restore::compact;

use output::{Gap, LedgerEvent, Output};
use streams::{Got, Incoming, Outgoing, Sent, StreamKey};
use timers::Due;

/// The letters of one device. One input, then drain [`Ledger::poll`].
#[derive(Debug, Clone)]
pub struct Ledger {
    me: DeviceId,
    /// The life that new letters belong to; none before the first. Towards a peer that knows more of one than this device
    /// does there is another.
    incarnation: Option<Incarnation>,
    towards: BTreeMap<DeviceId, Incarnation>,
    outs: BTreeMap<StreamKey, Outgoing>,
    ins: BTreeMap<StreamKey, Incoming>,
    linked: BTreeSet<DeviceId>,
    quarantined: BTreeSet<DeviceId>,
    /// How many lives of a peer's outbox the operator let in, where those are more than usual.
    lives: BTreeMap<DeviceId, usize>,
    gaps: VecDeque<Gap>,
    /// How many letters need each words.
    words: BTreeMap<Hash, u32>,
    /// The last frame of each stream that was answered on the links that stand.
    heard: BTreeMap<StreamKey, u64>,
    /// Letters of tasks that are not over: they stay, however many ended since.
    tasks: BTreeSet<LetterId>,
    /// Letters of the outbox that are letters of the inbox, passed on.
    passed: BTreeMap<LetterId, LetterId>,
    due: BTreeSet<(Duration, Due)>,
    outputs: VecDeque<Output>,
    /// Streams with new letters: they leave once all that was told together stands in the outbox, in one frame.
    to_push: BTreeMap<StreamKey, Now>,
    /// The number of the last frame; it does not begin anew with a restart.
    frames: u64,
}

/// What a letter is for: what a new one begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading {
    /// To which device.
    pub to: DeviceId,
    /// The letter that it answers.
    pub in_reply_to: Option<LetterId>,
    /// The conversation.
    pub conversation: Option<LetterId>,
    /// Replies before it.
    pub hops: u32,
}

/// Why a letter was not told. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TellError {
    /// Caller: no life of the outbox was begun.
    #[error("no outbox was begun")]
    NotBegun,
    /// Caller: it is for this device.
    #[error("it is this device")]
    ToSelf,
    /// Caller: the words are too long.
    #[error("{0} bytes of words; a message has at most {most}", most = cede_wire::limits::LETTER_BYTES)]
    TooLong(usize),
    /// Caller: the letters that wait for this peer are too many.
    #[error("the outbox is full: {letters} messages, {bytes} bytes wait for that device")]
    Full {
        /// How many wait.
        letters: usize,
        /// How many bytes.
        bytes: u64,
    },
    /// Caller: this device keeps as many letters as it can.
    #[error("this device keeps {} messages already", limits::LETTERS)]
    TooMany,
    /// Caller: the letter to answer is not here.
    #[error("no such message is in the inbox")]
    Unknown,
    /// Caller: the letter to answer went on with its session.
    #[error("the message went on with its session")]
    PassedOn(DeviceId),
    /// Caller: the conversation is as long as one may be.
    #[error("one reply followed another {0} times already")]
    Exhausted(u32),
    /// Caller: this device has answered in the conversation as often as it may.
    #[error("this device has sent {0} replies in this conversation already")]
    Answered(usize),
}

/// Why a letter was not marked. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    /// Caller: it is not here.
    #[error("no such message is in the inbox")]
    Unknown,
    /// Caller: it went on to the new owner of its session.
    #[error("the message went on with its session")]
    PassedOn(DeviceId),
    /// Caller: it ended before.
    #[error("the message is {} already", .0.word())]
    Ended(LetterState),
}

/// A letter as lists show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// As it is kept; the state is the present one.
    pub kept: KeptLetter,
    /// Of the inbox: to whom it went on.
    pub passed_on: Option<LetterId>,
    /// How often its reading was begun.
    pub attempts: u32,
    /// Of the outbox: its time is over, and whether it arrived before is not known yet.
    pub overdue: bool,
}

impl Standing {
    /// The id that it had first.
    pub fn first(&self) -> LetterId {
        self.kept.first.unwrap_or(self.kept.id)
    }

    /// Of the inbox: whether somebody here may still deal with it.
    fn waits(&self) -> bool {
        self.passed_on.is_none() && !self.kept.state.is_some_and(LetterState::is_final)
    }
}

impl Ledger {
    /// The next thing to do; none when everything is said.
    pub fn poll(&mut self) -> Option<Output> {
        while self.outputs.is_empty()
            && let Some((key, told)) = self.to_push.pop_first()
        {
            self.push(key, told);
        }
        self.outputs.pop_front()
    }

    /// The life of the outbox; none before [`Ledger::begin`].
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// Begins a life of the outbox: the first one, and one more whenever the records may not be the newest; with a peer
    /// only towards that one. `fresh` is random.
    pub fn begin(&mut self, fresh: Incarnation, towards: Option<DeviceId>) {
        self.begun(fresh, towards);
        self.persist(vec![LetterRecord::Begun { incarnation: fresh, towards }]);
    }

    fn begun(&mut self, incarnation: Incarnation, towards: Option<DeviceId>) {
        match towards {
            Some(peer) => drop(self.towards.insert(peer, incarnation)),
            None => {
                self.incarnation = Some(incarnation);
                self.towards.clear();
            }
        }
    }

    /// The life that a new letter to this peer belongs to.
    fn life(&self, peer: DeviceId) -> Option<Incarnation> {
        self.incarnation.map(|common| self.towards.get(&peer).copied().unwrap_or(common))
    }

    /// Whether this peer's letters are kept out.
    pub fn is_quarantined(&self, device: DeviceId) -> bool {
        self.quarantined.contains(&device)
    }

    /// The operator looked at a peer's letters: they are taken again.
    pub fn release_quarantine(&mut self, device: DeviceId, now: Now) -> bool {
        let was = self.quarantined.remove(&device);
        if was {
            let lives = keys(&self.ins, device).len() + limits::LETTER_STREAMS;
            self.lives.insert(device, lives);
            self.persist(vec![LetterRecord::Quarantine { device, on: false }]);
            self.say_room(device, now);
        }
        was
    }

    /// Letters that were lost because a device forgot them, oldest first.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter()
    }

    /// Every letter that came, a stream after the other.
    pub fn inbox(&self) -> impl Iterator<Item = Standing> {
        self.ins.values().flat_map(|stream| stream.entries.values()).map(Got::standing)
    }

    /// Every letter that was told, a stream after the other.
    pub fn outbox(&self) -> impl Iterator<Item = Standing> {
        self.outs.values().flat_map(|stream| stream.entries.values()).map(Sent::standing)
    }

    /// One letter of the outbox.
    pub fn told(&self, id: LetterId) -> Option<Standing> {
        let stream = self.outs.get(&(id.stream, id.incarnation)).filter(|_| id.origin == self.me)?;
        stream.entries.get(&id.seq).map(Sent::standing)
    }

    /// One letter of the inbox.
    pub fn received(&self, id: LetterId) -> Option<Standing> {
        let stream = self.ins.get(&(id.origin, id.incarnation)).filter(|_| id.stream == self.me)?;
        stream.entries.get(&id.seq).map(Got::standing)
    }

    /// Why a peer takes no letters now, as it said itself.
    pub fn closed(&self, device: DeviceId) -> Option<cede_wire::letter::LetterRoom> {
        let streams = self.outs.range((device, LOWEST)..=(device, HIGHEST));
        streams.filter_map(|(_, stream)| stream.closed).next_back()
    }

    /// Whether a letter waits for this peer that was told after a moment, milliseconds since 1970.
    pub fn waits_since(&self, peer: DeviceId, unix_ms: u64) -> bool {
        let streams = self.outs.range((peer, LOWEST)..=(peer, HIGHEST));
        let mut newest = streams.filter_map(|(_, stream)| stream.entries.values().next_back());
        newest.any(|letter| letter.kept.state.is_none() && letter.kept.at_unix_ms > unix_ms)
    }

    /// Every device that letters went to or came from, also those that others passed on and that wait here.
    pub fn peers(&self) -> BTreeSet<DeviceId> {
        let kept_out = self.quarantined.iter().copied();
        let told = self.inbox().filter(Standing::waits).map(|letter| letter.first().origin);
        let told = told.filter(|origin| *origin != self.me);
        self.outs.keys().chain(self.ins.keys()).map(|key| key.0).chain(kept_out).chain(told).collect()
    }

    /// Whether a place of a peer's stream is known.
    pub fn knows(&self, peer: DeviceId, incarnation: Incarnation, seq: u64) -> bool {
        self.ins.get(&(peer, incarnation)).is_some_and(|stream| stream.knows(seq))
    }

    /// Whether a letter needs these words.
    pub fn needs(&self, digest: &Hash) -> bool {
        self.words.contains_key(digest)
    }

    /// Every digest whose words must be kept.
    pub fn words(&self) -> BTreeSet<Hash> {
        self.words.keys().copied().collect()
    }

    /// The sessions that open letters of the inbox are for.
    pub fn sessions(&self) -> BTreeSet<SessionId> {
        let entries = self.ins.values().flat_map(|stream| stream.entries.values());
        entries.filter(|entry| entry.waits()).filter_map(|entry| entry.kept.facts.session).collect()
    }

    /// How a reply begins.
    ///
    /// # Errors
    /// [`TellError`]; nothing changed.
    pub fn reply_to(&self, parent: LetterId) -> Result<Heading, TellError> {
        let parent = self.received(parent).ok_or(TellError::Unknown)?;
        if let Some(next) = parent.passed_on {
            return Err(TellError::PassedOn(next.stream));
        }
        let first = parent.first();
        let conversation = parent.kept.facts.conversation.unwrap_or(first);
        let hops = parent.kept.facts.hops.saturating_add(1);
        let mine = self
            .outbox()
            .filter(|letter| letter.kept.first.is_none() && letter.kept.facts.conversation == Some(conversation));
        if hops > limits::CONVERSATION_HOPS {
            return Err(TellError::Exhausted(hops.saturating_sub(1)));
        }
        let mine = mine.count();
        if mine >= limits::CONVERSATION_REPLIES {
            return Err(TellError::Answered(mine));
        }
        Ok(Heading { to: first.origin, in_reply_to: Some(first), conversation: Some(conversation), hops })
    }

    /// How the answer to a task begins. It is due whatever became of the conversation: where that one takes no more replies,
    /// it begins another.
    pub fn answer_to(&self, task: LetterId) -> Heading {
        let anew = Heading { to: task.origin, in_reply_to: Some(task), conversation: Some(task), hops: 1 };
        self.reply_to(task).unwrap_or(anew)
    }

    /// The letters of tasks that are not over: they stay among those that ended, until this is said without them.
    pub fn keep(&mut self, tasks: BTreeSet<LetterId>) {
        self.tasks = tasks;
    }

    /// Everything about a peer that is no member any more goes.
    pub fn forget(&mut self, device: DeviceId, now: Now) {
        if !self.peers().contains(&device) {
            return;
        }
        self.persist(vec![LetterRecord::Forgotten { device }]);
        let (back, refused) = self.drop_peer(device);
        self.end_twins(back, now);
        let told: BTreeSet<StreamKey> = refused.iter().map(|id| (id.origin, id.incarnation)).collect();
        told.into_iter().for_each(|key| self.say(key, 0, now));
    }

    /// Letters wait here again. One that came back meanwhile by another way has a copy here, and is one letter: its teller hears
    /// by the first one what becomes of it, since the way of the other one led over the device that is gone.
    fn end_twins(&mut self, back: Vec<LetterId>, now: Now) {
        let back: BTreeSet<LetterId> = back.into_iter().collect();
        let copy = |of: &Standing| (of.first(), of.kept.facts.digest);
        let mut copies: BTreeMap<(LetterId, Hash), Vec<Standing>> = BTreeMap::new();
        for id in &back {
            if let Some(letter) = self.received(*id) {
                copies.entry(copy(&letter)).or_default();
            }
        }
        for letter in self.inbox().filter(|letter| letter.kept.state != Some(LetterState::Duplicate)) {
            if let Some(copies) = copies.get_mut(&copy(&letter)) {
                copies.push(letter);
            }
        }
        for mut copies in copies.into_values() {
            // One that was told here directly before one that was passed on.
            copies.sort_by_key(|letter| letter.kept.first.is_some());
            let Some(at) = copies.iter().position(|letter| back.contains(&letter.kept.id) && letter.waits()) else {
                continue;
            };
            let first = copies.remove(at).kept.id;
            let states = copies.iter().filter_map(|letter| letter.kept.state);
            let furthest = states.max_by_key(|state| (state.is_final(), *state != LetterState::Received));
            let went_on = copies.iter().find_map(|letter| letter.passed_on);
            let over = copies.iter().filter(|letter| !letter.kept.state.is_some_and(LetterState::is_final));
            let over = over.map(|letter| (letter.kept.id, LetterState::Duplicate)).collect();
            self.end_got(over, now);
            match (furthest, went_on) {
                (Some(state), _) if state.is_final() => self.end_got(vec![(first, state)], now),
                (_, Some(to)) => {
                    self.link_passed(first, to);
                    self.persist(vec![LetterRecord::PassedOn { from: first, to }]);
                }
                (Some(LetterState::Shown), None) => self.end_got(vec![(first, LetterState::Shown)], now),
                (_, None) => {}
            }
        }
    }

    /// Letters that were passed on to it wait here again, and those that it told and others passed on are refused: both are
    /// given back.
    fn drop_peer(&mut self, device: DeviceId) -> (Vec<LetterId>, Vec<LetterId>) {
        let mut back = Vec::new();
        self.linked.remove(&device);
        self.heard.retain(|key, _| key.0 != device);
        self.quarantined.remove(&device);
        self.lives.remove(&device);
        self.towards.remove(&device);
        self.gaps.retain(|gap| gap.from.origin != device && gap.from.stream != device);
        for key in keys(&self.outs, device) {
            let Some(stream) = self.outs.remove(&key) else { continue };
            for (seq, entry) in stream.entries {
                let id = self.out_id(key, seq);
                if let Some(from) = self.passed.remove(&id)
                    && let Some(entry) = self.in_entry(from)
                {
                    entry.passed_on = None;
                    back.push(from);
                }
                self.unneed(entry.kept.facts.digest);
            }
        }
        for key in keys(&self.ins, device) {
            let Some(stream) = self.ins.remove(&key) else { continue };
            for (_, entry) in stream.entries {
                if let Some(next) = entry.passed_on {
                    self.passed.remove(&next);
                }
                self.unneed(entry.kept.facts.digest);
            }
        }
        let told = self.inbox().filter(|letter| letter.waits() && letter.first().origin == device);
        let told: Vec<LetterId> = told.map(|letter| letter.kept.id).collect();
        for id in &told {
            // The record of its removal says this too.
            let _ = self.move_got(*id, LetterState::Refused(Refusal::NotGranted));
        }
        (back, told)
    }

    fn in_entry(&mut self, id: LetterId) -> Option<&mut Got> {
        self.ins.get_mut(&(id.origin, id.incarnation))?.entries.get_mut(&id.seq)
    }

    fn in_id(&self, key: StreamKey, seq: u64) -> LetterId {
        LetterId { origin: key.0, incarnation: key.1, stream: self.me, seq }
    }

    fn out_id(&self, key: StreamKey, seq: u64) -> LetterId {
        LetterId { origin: self.me, incarnation: key.1, stream: key.0, seq }
    }

    fn need(&mut self, digest: Hash) {
        let count = self.words.entry(digest).or_default();
        *count = count.saturating_add(1);
    }

    fn unneed(&mut self, digest: Hash) {
        let Some(count) = self.words.get_mut(&digest) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.words.remove(&digest);
            self.tell_event(LedgerEvent::Forget(digest));
        }
    }

    fn note_gap(&mut self, gap: Gap) {
        if self.gaps.len() >= limits::LETTER_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
    }

    fn letters(&self) -> usize {
        let outs: usize = self.outs.values().map(|stream| stream.entries.len()).sum();
        outs + self.ins.values().map(|stream| stream.entries.len()).sum::<usize>()
    }

    fn persist(&mut self, records: Vec<LetterRecord>) {
        if !records.is_empty() {
            let batch = records.into_iter().map(|record| Record::Letter(Box::new(record))).collect();
            self.outputs.push_back(Output::Persist(batch));
        }
    }

    /// The same for records that need not be durable together, in batches that a journal takes.
    fn persist_all(&mut self, records: Vec<LetterRecord>) {
        records.chunks(limits::LETTER_RECORDS).for_each(|batch| self.persist(batch.to_vec()));
    }

    fn tell_event(&mut self, event: LedgerEvent) {
        self.outputs.push_back(Output::Tell(event));
    }
}

/// The facts of a letter with where it goes: what [`Ledger::tell`] takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// To which device.
    pub to: DeviceId,
    /// What is known of it. Its words are durable under the digest.
    pub facts: LetterFacts,
    /// How long it lives.
    pub expires: Duration,
}

fn keys<T>(streams: &BTreeMap<StreamKey, T>, device: DeviceId) -> Vec<StreamKey> {
    streams.range((device, LOWEST)..=(device, HIGHEST)).map(|(key, _)| *key).collect()
}

/// The oldest letter of a history that is too long, but for those that stay.
fn oldest(settled: &BTreeSet<u64>, stays: impl Fn(u64) -> bool) -> Option<u64> {
    settled.iter().copied().find(|seq| !stays(*seq)).filter(|_| settled.len() > limits::LETTER_HISTORY)
}

const LOWEST: Incarnation = Incarnation::new([0; 16]);
const HIGHEST: Incarnation = Incarnation::new([0xff; 16]);
