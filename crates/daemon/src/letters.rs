//! Letters: from the command to the ledger, from the ledger to the links, and back.
//!
//! The ledger decides and knows no words. They lie as objects beside the journal, durable before the record that names
//! them.

use std::collections::{BTreeMap, BTreeSet};

use cede_core::authority::{DecidedBy, Permission};
use cede_core::custodian::Standing;
use cede_core::ledger::output::{LedgerEvent, Output, Post, PostItem};
use cede_core::ledger::{Arrival, ArrivedItem};
use cede_store::objects::ObjectError;
use cede_wire::authority::Rule;
use cede_wire::canonical::{decode, encode};
use cede_wire::control::{Failure, exit};
use cede_wire::id::{DeviceId, Hash, Incarnation, SessionId};
use cede_wire::letter::{Letter, LetterFacts, LetterId, LetterItem, Letters, PostedLetter};
use cede_wire::limits::LETTER_BYTES;
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;

use crate::actor::{Actor, LoopError};
use crate::authorities::Asker;
use crate::clock::random;
use crate::context::Context;
use crate::errands::Errand;
use crate::limits;
use crate::offering::failure;

mod people;
mod reading;
mod telling;

pub(crate) use people::begins;
pub(crate) use telling::{Address, Tellings, Watches, session_there};

/// Words that are being kept and of which the ledger does not know yet whether a letter needs them: two peers may pass on the
/// same letter, and what comes to nothing for one must not take the words from the other.
#[derive(Default)]
pub(crate) struct WordsInHand {
    held: BTreeMap<Hash, usize>,
    /// What no letter needs and is to be removed: looked at once more before that.
    idle: BTreeSet<Hash>,
    /// What is removed at this moment. Nobody keeps the same before that is over.
    going: BTreeSet<Hash>,
    /// What was told last, so that it need not be read again to be sent.
    at_hand: BTreeMap<Hash, Vec<u8>>,
    at_hand_bytes: usize,
    /// The last frame of each peer that came while words of an earlier one were kept, or its own removed. Answered before, it
    /// would say that the earlier one is not here, and that one would come to nothing.
    behind: BTreeMap<DeviceId, (Asker, Letters)>,
}

impl WordsInHand {
    fn take_up(&mut self, digests: &[Hash]) {
        for digest in digests {
            *self.held.entry(*digest).or_default() += 1;
        }
    }

    fn lay_down(&mut self, digests: &[Hash]) {
        for digest in digests {
            if let Some(count) = self.held.get_mut(digest) {
                *count = count.saturating_sub(1);
            }
        }
        self.held.retain(|_, count| *count > 0);
    }

    /// What is over the bound stays until the next start, which removes whatever no letter needs.
    fn let_go(&mut self, digest: Hash) {
        if self.idle.len() < limits::WORDS_IDLE {
            self.idle.insert(digest);
        }
    }

    /// What is to be removed now; nothing while earlier ones still go.
    fn next_to_go(&mut self, needed: impl Fn(&Hash) -> bool) -> Vec<Hash> {
        if self.going.is_empty() {
            self.going = std::mem::take(&mut self.idle);
            self.going.retain(|digest| !self.held.contains_key(digest) && !needed(digest));
            return self.going.iter().copied().collect();
        }
        Vec::new()
    }

    fn is_going(&self, digest: &Hash) -> bool {
        self.going.contains(digest)
    }

    fn gone(&mut self) {
        self.going.clear();
    }

    /// Words that were told. What is over the bound is read from the disk.
    pub(super) fn remember(&mut self, digest: Hash, words: Vec<u8>) {
        if self.at_hand_bytes.saturating_add(words.len()) > limits::WORDS_AT_HAND_BYTES {
            (self.at_hand, self.at_hand_bytes) = (BTreeMap::new(), 0);
        }
        if words.len() <= limits::WORDS_AT_HAND_BYTES {
            self.at_hand_bytes += words.len();
            let before = self.at_hand.insert(digest, words);
            self.at_hand_bytes -= before.map_or(0, |before| before.len());
        }
    }

    /// The words of a frame, as far as they are at hand.
    fn recall(&mut self, post: &Post) -> BTreeMap<Hash, Vec<u8>> {
        let mut found = BTreeMap::new();
        for item in &post.items {
            if let PostItem::Letter { digest, .. } = item
                && let Some(words) = self.at_hand.remove(digest)
            {
                self.at_hand_bytes -= words.len();
                found.insert(*digest, words);
            }
        }
        found
    }
}

/// What becomes of letters of a peer.
#[derive(Debug, PartialEq, Eq)]
enum Welcome {
    Taken,
    /// It may send them, and nothing can be taken now.
    Later,
    Refused,
}

/// A no is for ever: the sender ends its letters by it. What this device cannot write down for now is no such no.
fn welcome(permission: Permission) -> Welcome {
    match permission {
        Permission::Allowed(_) => Welcome::Taken,
        Permission::Refused(_, DecidedBy::Fault) => Welcome::Later,
        Permission::Asks | Permission::Refused(..) => Welcome::Refused,
    }
}

impl Actor {
    /// Does what the ledger wants: first all that is to be durable, with one flush, then the rest in its order. Nothing is
    /// said too early by that, and many letters that were told together cost what one does.
    pub(crate) async fn drain_letters(&mut self) -> Result<(), LoopError> {
        loop {
            let (mut batch, mut rest) = (Vec::new(), Vec::new());
            while batch.len() < cede_core::limits::LETTER_RECORDS {
                match self.ledger.poll() {
                    Some(Output::Persist(records)) => batch.extend(records),
                    Some(output) => rest.push(output),
                    None => break,
                }
            }
            if batch.is_empty() && rest.is_empty() {
                return Ok(());
            }
            if self.read_only {
                // Without a journal nothing is durable, so nothing is said that would claim it.
                continue;
            }
            if !batch.is_empty() {
                self.commit(batch).await?;
            }
            let mut for_sessions = false;
            for output in rest {
                match output {
                    Output::Send(to, message) => self.send(to, *message),
                    Output::Post(to, post) => self.post(to, post),
                    Output::Tell(event) => {
                        for_sessions |= self.came_for_a_session(&event);
                        self.letter_event(event);
                    }
                    Output::Persist(batch) => self.commit(batch).await?,
                }
            }
            if for_sessions {
                self.pass_letters_on();
            }
        }
    }

    /// A life of the outbox begins with the first start, and whenever this device may have forgotten what it told.
    pub(crate) fn begin_letters(&mut self) {
        let begun = self.ledger.incarnation().is_some();
        if !begun
            && !self.read_only
            && let Ok(fresh) = random()
        {
            self.ledger.begin(Incarnation::new(fresh), None);
        }
        self.pass_letters_on();
    }

    /// Nothing is told to a device that is no member any more, and nothing is kept of what it told.
    pub(crate) fn forget_letters_of_strangers(&mut self) {
        let now = self.context.clock.now();
        // What comes back from one of them may be another one's.
        for _ in 0..2 {
            let known = self.ledger.peers().into_iter();
            let strangers: Vec<DeviceId> = known.filter(|one| !self.peers.is_member(*one)).collect();
            for stranger in strangers {
                self.ledger.forget(stranger, now);
                self.end_watches_of(stranger);
            }
        }
        // What had gone to one of them waits here again.
        self.pass_letters_on();
    }

    /// A letter that was told a short time ago is worth looking for the peer often.
    pub(crate) fn letter_waits_for(&self, device: DeviceId) -> bool {
        let since = crate::clock::unix_ms().saturating_sub(limits::LETTER_URGENT.as_millis() as u64);
        self.ledger.waits_since(device, since)
    }

    /// This device forgot something: what it told since may be among it.
    pub(crate) fn doubt_letters(&mut self) {
        if let Ok(fresh) = random() {
            self.ledger.begin(Incarnation::new(fresh), None);
        }
    }

    /// Puts the words to letters and sends them; those that are not at hand are read on a thread of their own.
    fn post(&mut self, to: DeviceId, post: Post) {
        let at_hand = self.words.recall(&post);
        let words = |digest: &Hash| Ok(at_hand.get(digest).and_then(|words| decode(words).ok()));
        if let Ok(letters) = with_words(&post, words) {
            return self.send(to, PeerMessage::Letters(letters));
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            let (incarnation, number) = (post.incarnation, post.number);
            let loaded = context.block(move |context| with_words(&post, |digest| words_of(context, digest))).await;
            let Ok(loaded) = loaded else { return };
            context.tell(move |actor| actor.post_loaded(to, (incarnation, number), loaded)).await;
        });
    }

    /// The words of a frame were read, which may have taken long.
    fn post_loaded(
        &mut self,
        to: DeviceId,
        (incarnation, number): (Incarnation, u64),
        loaded: Result<Letters, Wordless>,
    ) {
        if !self.ledger.awaits(to, incarnation, number) {
            return;
        }
        match loaded {
            Ok(letters) => self.send(to, PeerMessage::Letters(letters)),
            Err(Wordless::Gone(seq)) => {
                tracing::error!(peer = %to.short(), seq, "the words of a message are lost; it is not sent");
                let id = LetterId { origin: self.context.local.device(), incarnation, stream: to, seq };
                self.ledger.words_lost(id, number, self.context.clock.now());
            }
            // The receiver is asked again how far it is once its answer is overdue.
            Err(Wordless::Unread(error)) => {
                let why = in_words(&error);
                tracing::warn!(peer = %to.short(), why, "the words of a message cannot be read now; it waits");
            }
        }
    }

    fn came_for_a_session(&self, event: &LedgerEvent) -> bool {
        let LedgerEvent::Arrived(id) = event else { return false };
        self.ledger.received(*id).is_some_and(|letter| letter.kept.facts.session.is_some())
    }

    fn letter_event(&mut self, event: LedgerEvent) {
        match event {
            LedgerEvent::Arrived(id) => {
                tracing::info!(peer = %id.origin.short(), id = id.short(), "a message came");
            }
            LedgerEvent::Moved { id, state } => {
                self.told_moved(id);
                self.task_letter_moved(id, state);
            }
            LedgerEvent::Forget(digest) => {
                self.forget_words(&digest);
            }
            LedgerEvent::Quarantined(id) => {
                tracing::error!(peer = %id.origin.short(), "two messages came under one id; no more are taken: cede inbox");
            }
            LedgerEvent::Gap(gap) => {
                let letters = gap.through.saturating_sub(gap.from.seq).saturating_add(1);
                tracing::error!(from = %gap.from.origin.short(), letters, "messages are lost: a device forgot them");
            }
            LedgerEvent::BeginAnew(peer) => {
                tracing::warn!(peer = %peer.short(), "a peer knows messages of this device that it does not know itself");
                if let Ok(fresh) = random() {
                    self.ledger.begin(Incarnation::new(fresh), Some(peer));
                }
            }
            LedgerEvent::PeerFault { device, what } => {
                tracing::warn!(peer = %device.short(), what, "a peer broke a rule")
            }
        }
    }

    /// Words that no letter needs go, on a thread of its own: a disk that is slow holds nothing up. Those of which a death keeps
    /// the removal go at the next start.
    pub(crate) fn forget_words(&mut self, digest: &Hash) {
        self.words.let_go(*digest);
        self.remove_words();
    }

    fn remove_words(&mut self) {
        let digests = self.words.next_to_go(|digest| self.ledger.needs(digest));
        if digests.is_empty() {
            return;
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            let removed = context.block(move |context| {
                for digest in &digests {
                    if let Err(error) = context.letters.remove(digest) {
                        tracing::debug!(%error, "the words of a message were not removed");
                    }
                }
            });
            // What was not removed is there still, as after a death.
            let _ended = removed.await;
            let gone = |actor: &mut Actor| {
                actor.words.gone();
                let waiting: Vec<DeviceId> = actor.words.behind.keys().copied().collect();
                waiting.into_iter().for_each(|peer| actor.take_what_waits(peer));
                actor.remove_words();
            };
            context.tell(gone).await;
        });
    }

    /// A frame of letters: its words become durable first, then the ledger says what of it is new.
    pub(crate) fn letters_came(&mut self, asker: Asker, letters: Letters) {
        let from = asker.device;
        if self.read_only {
            return;
        }
        if self.errands.is_under_way(from, Errand::KeepLetters) {
            self.words.behind.insert(from, (asker, letters));
            return;
        }
        let taken = welcome(self.permission(asker, Capability::Message)) == Welcome::Taken;
        let wanted = taken && !self.ledger.is_quarantined(from);
        let open = wanted && self.has_journal_room();
        let known = |seq| self.ledger.knows(from, letters.incarnation, seq);
        let (mut words, mut digests, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut arrival = Arrival { incarnation: letters.incarnation, number: letters.number, items: Vec::new() };
        for item in &letters.items {
            match item {
                LetterItem::Gone { from, through, why } => {
                    arrival.items.push(ArrivedItem::Gone { from: *from, through: *through, why: *why });
                }
                LetterItem::Posted(posted) => {
                    if posted.letter.bytes() > LETTER_BYTES {
                        tracing::warn!(peer = %from.short(), "a message over the limit; closing the link");
                        return self.close_link(from, cede_carrier::closing::CloseReason::Protocol);
                    }
                    let facts = LetterFacts::of(&posted.letter);
                    if open && !known(posted.seq) {
                        words.push(encode(&posted.letter));
                        digests.push(facts.digest);
                        parts.extend(posted.letter.part.is_some().then_some(posted.seq));
                    }
                    arrival.items.push(arrived(posted, facts));
                }
            }
        }
        if words.is_empty() {
            // A question, or what is known: nothing has to be written for it.
            return self.take_letters(asker, arrival, open, &parts);
        }
        let going = digests.iter().any(|digest| self.words.is_going(digest));
        if going || !self.errands.begin(from, Errand::KeepLetters) {
            self.words.behind.insert(from, (asker, letters));
            return;
        }
        let context = self.context.clone();
        self.words.take_up(&digests);
        tokio::spawn(async move {
            let kept = context.block(move |context| keep_words(context, &words)).await;
            let space = open && kept.unwrap_or(false);
            let taken = move |actor: &mut Actor| {
                actor.errands.end(from, Errand::KeepLetters);
                actor.words.lay_down(&digests);
                actor.take_letters(asker, arrival, space, &parts);
                actor.take_what_waits(from);
            };
            context.tell(taken).await;
        });
    }

    /// A frame that came while words were kept or removed.
    fn take_what_waits(&mut self, peer: DeviceId) {
        if let Some((asker, letters)) = self.words.behind.remove(&peer)
            && self.authorities.stands(asker)
        {
            self.letters_came(asker, letters);
        }
    }

    /// The words of what is new are durable, or there is no space for any. Those of `parts` have something beside them.
    fn take_letters(&mut self, asker: Asker, mut arrival: Arrival, space: bool, parts: &[u64]) {
        let from = asker.device;
        let welcome = welcome(self.permission(asker, Capability::Message));
        let space = space && welcome == Welcome::Taken;
        if !self.authorities.stands(asker) {
            // The link ended meanwhile: nothing of it counts, and it is said again on the next one.
            return self.ledger.give_up(&arrival);
        }
        if !space {
            // What is new of it has no words here, or only some of them.
            self.ledger.give_up(&arrival);
            let ledger = &self.ledger;
            let known = |seq| ledger.knows(from, arrival.incarnation, seq);
            arrival.items.retain(|item| match item {
                ArrivedItem::Gone { .. } => true,
                ArrivedItem::Letter { seq, .. } => known(*seq),
            });
        }
        let granted = welcome != Welcome::Refused && self.peers.is_member(from);
        let first = |item: &ArrivedItem| match item {
            ArrivedItem::Letter { first, .. } => first.map(|first| first.origin),
            ArrivedItem::Gone { .. } => None,
        };
        let mut admitted: BTreeSet<DeviceId> = arrival.items.iter().filter_map(first).chain([from]).collect();
        admitted.retain(|device| if *device == from { granted } else { self.may_tell(*device) });
        let admits = |device| admitted.contains(&device);
        self.ledger.handle_letters(from, &arrival, &admits, space, self.context.clock.now());
        let (incarnation, stream) = (arrival.incarnation, self.context.local.device());
        let came = parts.iter().map(|seq| LetterId { origin: from, incarnation, stream, seq: *seq });
        self.look_for_parts(came.collect());
    }

    /// Letters leave the journal's last part to what matters more.
    pub(crate) fn has_journal_room(&self) -> bool {
        self.journal.length_bytes() < limits::LETTERS_JOURNAL_BYTES
    }

    /// Letters for sessions that are another device's now go on to it.
    pub(crate) fn pass_letters_on(&mut self) {
        for session in self.ledger.sessions() {
            if let Some(owner) = self.letter_owner(session) {
                self.ledger.pass_on(session, owner, self.context.clock.now());
            }
        }
    }

    fn letter_owner(&self, session: SessionId) -> Option<DeviceId> {
        let owner = match self.custodian.standing(session)? {
            Standing::Elsewhere(owner) | Standing::SeizedBy(owner) => owner,
            Standing::InCharge
            | Standing::Arriving
            | Standing::Leaving(_)
            | Standing::ReleasedTo(_)
            | Standing::PayloadMissing
            | Standing::Unconfirmed => return None,
        };
        self.may_tell(owner).then_some(owner)
    }

    /// Whether letters of a device are wanted that come by the hand of another one.
    fn may_tell(&self, device: DeviceId) -> bool {
        let member = self.peers.member(device);
        member.is_some_and(|member| member.capabilities.contains(&Capability::Message))
            && self.rule(device, Capability::Message) != Some(Rule::Refuse)
    }
}

fn arrived(posted: &PostedLetter, facts: LetterFacts) -> ArrivedItem {
    ArrivedItem::Letter {
        seq: posted.seq,
        first: posted.first,
        expires_in_ms: posted.expires_in_ms,
        facts: Box::new(facts),
    }
}

/// Makes words durable. False: the disk has no room for them. Blocks.
fn keep_words(context: &Context, words: &[Vec<u8>]) -> bool {
    let free = context.home.free_bytes().unwrap_or(0);
    if free < limits::LETTERS_FREE_BYTES {
        return false;
    }
    context
        .letters
        .put_all(words)
        .inspect_err(|error| tracing::warn!(%error, "the words of messages were not kept"))
        .is_ok()
}

/// Why a frame has not all of its words.
enum Wordless {
    /// Those of the letter in this place are not there any more.
    Gone(u64),
    /// The disk does not give them now.
    Unread(ObjectError),
}

/// The frame with its words.
fn with_words(post: &Post, words: impl Fn(&Hash) -> Result<Option<Letter>, ObjectError>) -> Result<Letters, Wordless> {
    let mut items = Vec::with_capacity(post.items.len());
    for item in &post.items {
        items.push(match item {
            PostItem::Gone { from, through, why } => LetterItem::Gone { from: *from, through: *through, why: *why },
            PostItem::Letter { seq, first, expires_in_ms, digest } => {
                let letter = words(digest).map_err(Wordless::Unread)?.ok_or(Wordless::Gone(*seq))?;
                let (seq, first, expires_in_ms) = (*seq, *first, *expires_in_ms);
                LetterItem::Posted(Box::new(PostedLetter { seq, first, expires_in_ms, letter }))
            }
        });
    }
    Ok(Letters { incarnation: post.incarnation, number: post.number, items })
}

/// A letter by its digest; none where its words are not there any more, or are damaged. An error is one of the moment: nothing
/// may come to its end by it. Blocks.
pub(crate) fn words_of(context: &Context, digest: &Hash) -> Result<Option<Letter>, ObjectError> {
    match context.letters.get(digest) {
        Ok(bytes) => Ok(bytes.and_then(|bytes| decode(&bytes).ok())),
        Err(ObjectError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same where a list shows no words instead. Blocks.
pub(crate) fn words_to_list(context: &Context, digest: &Hash) -> Option<Letter> {
    words_of(context, digest).unwrap_or_default()
}

/// Of what the disk did not give now nothing is lost.
pub(crate) fn unread(what: &str, error: &ObjectError) -> Failure {
    failure(exit::FAILED, what, &in_words(error), "look at the disk, and do it again: nothing is lost")
}

/// What the disk says, to the end.
pub(crate) fn in_words(error: &ObjectError) -> String {
    match error {
        ObjectError::Disk(fault) | ObjectError::Source(fault) => format!("{fault}: {}", fault.errno),
        ObjectError::AlreadyOpen
        | ObjectError::TooLong
        | ObjectError::TooMany
        | ObjectError::Corrupt(_)
        | ObjectError::NoSpace => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use cede_core::authority::CapabilityRefusal::{Declined, NotGranted};

    use super::*;

    /// Shows: M-8, U-10
    #[test]
    fn message_that_cannot_be_written_down_now_is_not_refused_for_ever() {
        assert_eq!(welcome(Permission::Refused(Declined, DecidedBy::Fault)), Welcome::Later);
        assert_eq!(welcome(Permission::Refused(Declined, DecidedBy::Rule)), Welcome::Refused);
        assert_eq!(welcome(Permission::Refused(NotGranted, DecidedBy::Grant)), Welcome::Refused);
        assert_eq!(welcome(Permission::Allowed(DecidedBy::Grant)), Welcome::Taken);
    }

    /// Shows: M-1
    #[test]
    fn words_that_two_peers_bring_are_held_until_both_are_looked_at() {
        let (one, mut words) = (Hash::of(b"one"), WordsInHand::default());
        words.take_up(&[one]);
        words.take_up(&[one]);
        words.lay_down(&[one]);
        assert!(words.held.contains_key(&one));
        words.lay_down(&[one]);
        assert!(words.held.is_empty());
    }

    /// Shows: M-1
    #[test]
    fn words_that_go_are_looked_at_once_more_and_kept_by_nobody_meanwhile() {
        let [one, held, needed, later] = [b"1", b"2", b"3", b"4"].map(|bytes| Hash::of(bytes));
        let mut words = WordsInHand::default();
        words.let_go(one);
        words.let_go(held);
        words.let_go(needed);
        words.take_up(&[held]);
        assert_eq!(words.next_to_go(|digest| *digest == needed), [one]);
        assert_eq!([one, held, needed].map(|digest| words.is_going(&digest)), [true, false, false]);
        words.let_go(later);
        assert_eq!(words.next_to_go(|_| false), [], "one after the other");
        words.gone();
        assert!(!words.is_going(&one));
        assert_eq!(words.next_to_go(|_| false), [later]);
        words.gone();
        (0..limits::WORDS_IDLE + 9).for_each(|number| words.let_go(Hash::of(&number.to_le_bytes())));
        assert_eq!(words.next_to_go(|_| false).len(), limits::WORDS_IDLE);
    }

    #[test]
    fn words_that_were_told_last_are_at_hand_once_and_within_bounds() {
        let digest = |number: u8| Hash::of(&[number]);
        let letter = |number| PostItem::Letter { seq: 1, first: None, expires_in_ms: 1, digest: digest(number) };
        let post = |items| Post { incarnation: Incarnation::new([1; 16]), number: 1, items };
        let mut words = WordsInHand::default();
        words.remember(digest(1), vec![1; 9]);
        words.remember(digest(1), vec![1; 9]);
        assert_eq!(words.at_hand_bytes, 9);
        let found = words.recall(&post(vec![letter(1), letter(2)]));
        assert_eq!(found, BTreeMap::from([(digest(1), vec![1; 9])]));
        assert_eq!((words.recall(&post(vec![letter(1)])).len(), words.at_hand_bytes), (0, 0));
        for number in 0..9 {
            words.remember(digest(number), vec![number; limits::WORDS_AT_HAND_BYTES / 4]);
            assert!(words.at_hand_bytes <= limits::WORDS_AT_HAND_BYTES);
        }
        words.remember(digest(9), vec![9; limits::WORDS_AT_HAND_BYTES + 1]);
        assert!(words.at_hand.is_empty(), "what is longer is read");
    }
}
