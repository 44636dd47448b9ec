//! The sender's end: from `tell` to the final receipt.

use cede_wire::id::{DeviceId, Incarnation, SessionId};
use cede_wire::letter::{
    GoneWhy, KeptLetter, LetterId, LetterReceipts, LetterRecord, LetterRoom, LetterState, Letters, ReceiptsHeld,
};
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;

use super::output::{Gap, LedgerEvent, Output, Post, PostItem};
use super::streams::{Exchange, Outgoing, Sent, StreamKey};
use super::timers::Due;
use super::{Ledger, TellError, Told, keys, oldest};
use crate::limits;
use crate::now::Now;

impl Ledger {
    /// Takes a letter into the outbox. Once the batch is durable it is *queued*, whatever the line does.
    ///
    /// # Errors
    /// [`TellError`]; nothing changed.
    pub fn tell(&mut self, told: Told, now: Now) -> Result<LetterId, TellError> {
        let incarnation = self.may_tell(told.to, told.facts.bytes as usize)?;
        let (id, record) = self.enqueue(told, None, incarnation, now);
        self.persist(vec![record]);
        self.to_push.insert((told.to, incarnation), now);
        Ok(id)
    }

    /// Whether a letter of so many bytes would be taken now, and into which life of the outbox.
    ///
    /// # Errors
    /// [`TellError`]; nothing changed.
    pub fn may_tell(&self, to: DeviceId, bytes: usize) -> Result<Incarnation, TellError> {
        let incarnation = self.life(to).ok_or(TellError::NotBegun)?;
        if to == self.me {
            return Err(TellError::ToSelf);
        }
        if bytes > cede_wire::limits::LETTER_BYTES {
            return Err(TellError::TooLong(bytes));
        }
        let loads = keys(&self.outs, to).into_iter().filter_map(|key| Some(self.outs.get(&key)?.load()));
        let (letters, waiting) = loads.fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1));
        if letters >= limits::OUTBOX_LETTERS || waiting + bytes as u64 > limits::OUTBOX_BYTES {
            return Err(TellError::Full { letters, bytes: waiting });
        }
        if self.letters() >= limits::LETTERS {
            return Err(TellError::TooMany);
        }
        Ok(incarnation)
    }

    fn enqueue(
        &mut self,
        told: Told,
        first: Option<LetterId>,
        incarnation: Incarnation,
        now: Now,
    ) -> (LetterId, LetterRecord) {
        let key = (told.to, incarnation);
        let seq = self.outs.entry(key).or_default().last + 1;
        let id = self.out_id(key, seq);
        let expires = told.expires.min(limits::LETTER_TTL);
        let expires_in_ms = u64::try_from(expires.as_millis()).unwrap_or(u64::MAX);
        let kept = KeptLetter { id, first, facts: told.facts, expires_in_ms, at_unix_ms: now.unix_ms, state: None };
        let deadline = now.after(expires);
        self.keep_sent(key, Sent { kept, deadline, left: false, overdue: false });
        (id, LetterRecord::Kept(Box::new(kept)))
    }

    pub(super) fn keep_sent(&mut self, key: StreamKey, entry: Sent) {
        let seq = entry.kept.id.seq;
        if !entry.ended() {
            self.due.insert((entry.deadline, Due::Sent(key, seq)));
        }
        self.need(entry.kept.facts.digest);
        self.outs.entry(key).or_default().put(seq, entry);
    }

    /// Letters for a session whose owner is another device now go on to it, under the id that they had first.
    pub fn pass_on(&mut self, session: SessionId, owner: DeviceId, now: Now) {
        let waiting: Vec<LetterId> = self
            .ins
            .iter()
            .flat_map(|(key, stream)| stream.entries.iter().map(move |(seq, entry)| (*key, *seq, entry)))
            .filter(|(_, _, entry)| entry.waits() && entry.kept.facts.session == Some(session))
            .map(|(key, seq, _)| self.in_id(key, seq))
            .collect();
        for from in waiting {
            self.pass_one_on(from, owner, now);
        }
    }

    fn pass_one_on(&mut self, from: LetterId, owner: DeviceId, now: Now) {
        let Some(entry) = self.in_entry(from).copied() else { return };
        let facts = entry.kept.facts;
        // Without room it waits here, and is looked at again.
        let Ok(incarnation) = self.may_tell(owner, facts.bytes as usize) else { return };
        let expires = entry.deadline.saturating_sub(now.monotonic);
        let first = entry.kept.first.unwrap_or(from);
        let (to, record) = self.enqueue(Told { to: owner, facts, expires }, Some(first), incarnation, now);
        self.link_passed(from, to);
        self.persist(vec![record, LetterRecord::PassedOn { from, to }]);
        self.to_push.insert((owner, incarnation), now);
    }

    pub(super) fn link_passed(&mut self, from: LetterId, to: LetterId) {
        if let Some(entry) = self.in_entry(from) {
            entry.passed_on = Some(to);
            if let Some(before) = self.passed.insert(to, from).filter(|before| *before != from)
                && let Some(copy) = self.in_entry(before)
            {
                copy.passed_on = None;
            }
        }
    }

    /// A link to a peer stands: how far is it, and what does it have to say?
    pub fn link_up(&mut self, peer: DeviceId, now: Now) {
        self.linked.insert(peer);
        self.heard.retain(|key, _| key.0 != peer);
        for key in keys(&self.outs, peer) {
            if let Some(stream) = self.outs.get_mut(&key) {
                stream.wait = limits::LETTER_ANSWER;
                stream.exchange = Exchange::Away;
            }
            self.ask(key, now);
        }
        self.say_all(peer, now);
    }

    /// The last link to a peer ended.
    pub fn link_down(&mut self, peer: DeviceId) {
        self.linked.remove(&peer);
        self.heard.retain(|key, _| key.0 != peer);
        for key in keys(&self.outs, peer) {
            if let Some(stream) = self.outs.get_mut(&key) {
                (stream.exchange, stream.timer) = (Exchange::Away, None);
            }
        }
        for key in keys(&self.ins, peer) {
            if let Some(stream) = self.ins.get_mut(&key) {
                stream.timer = None;
            }
        }
    }

    /// Asks a peer how far it is in a stream.
    pub(super) fn ask(&mut self, key: StreamKey, now: Now) {
        let number = self.next_frame();
        let Some(stream) = self.outs.get_mut(&key).filter(|stream| !stream.spoiled) else { return };
        if !self.linked.contains(&key.0) {
            return;
        }
        stream.exchange = Exchange::Waiting(number);
        let wait = stream.wait;
        self.outputs.push_back(Output::Send(
            key.0,
            Box::new(PeerMessage::Letters(Letters { incarnation: key.1, number, items: Vec::new() })),
        ));
        self.set_out_timer(key, wait, now);
    }

    fn next_frame(&mut self) -> u64 {
        self.frames += 1;
        self.frames
    }

    /// Says what a peer does not know yet, one frame at a time.
    pub(super) fn push(&mut self, key: StreamKey, now: Now) {
        if !self.linked.contains(&key.0) {
            return;
        }
        match self.outs.get(&key) {
            Some(stream) if stream.exchange == Exchange::Away => return self.ask(key, now),
            Some(stream) if stream.exchange == Exchange::Idle && !stream.spoiled => {}
            Some(_) | None => return,
        }
        self.end_overdue(key, now);
        let Some(stream) = self.outs.get_mut(&key) else { return };
        let (items, gaps) = collect(stream, now);
        if items.is_empty() {
            return;
        }
        self.note_forgotten(key, &gaps);
        let number = self.next_frame();
        if let Some(stream) = self.outs.get_mut(&key) {
            stream.exchange = Exchange::Waiting(number);
            stream.wait = limits::LETTER_ANSWER;
        }
        self.outputs.push_back(Output::Post(key.0, Post { incarnation: key.1, number, items }));
        self.set_out_timer(key, limits::LETTER_ANSWER, now);
    }

    /// Letters whose time is over and that the peer has not got, as it just said, end here.
    fn end_overdue(&mut self, key: StreamKey, now: Now) {
        let Some(stream) = self.outs.get(&key) else { return };
        let over = stream
            .entries
            .range(stream.through + 1..)
            .filter(|(seq, entry)| !entry.ended() && entry.deadline <= now.monotonic && !stream.above.contains(seq));
        let over: Vec<LetterId> = over.map(|(_, entry)| entry.kept.id).collect();
        let moved = over.into_iter().map(|id| (id, LetterState::Expired)).collect();
        self.move_sent(moved, now);
    }

    /// The peer forgot letters that it once said it had dealt with.
    fn note_forgotten(&mut self, key: StreamKey, gaps: &[(u64, u64)]) {
        let mut records = Vec::new();
        for (from, through) in gaps {
            let Some(stream) = self.outs.get_mut(&key).filter(|stream| *through > stream.forgotten) else { continue };
            let from = stream.forgotten.saturating_add(1).max(*from);
            stream.forgotten = *through;
            let gap = Gap { from: self.out_id(key, from), through: *through };
            self.note_gap(gap);
            records.push(LetterRecord::Gone { from: gap.from, through: *through, why: GoneWhy::Forgotten });
        }
        let told: Vec<Gap> = self.gaps.iter().rev().take(records.len()).copied().collect();
        self.persist(records);
        told.into_iter().rev().for_each(|gap| self.tell_event(LedgerEvent::Gap(gap)));
    }

    /// What a peer says of this device's letters.
    pub fn handle_receipts(&mut self, from: DeviceId, said: &LetterReceipts, now: Now) {
        let key = (from, said.incarnation);
        let finals = said.receipts.iter().filter(|receipt| receipt.state.is_final());
        let finals: Vec<u64> = finals.map(|receipt| receipt.seq).collect();
        let Some(stream) = self.outs.get(&key) else { return self.hold(key, finals) };
        let highest = said.receipts.iter().map(|receipt| receipt.seq).fold(said.through, u64::max);
        let unsent = |entry: &Sent| !entry.left && !entry.ended();
        // It knows a letter of a place that was not given yet, or that holds one which has not left.
        let knows_more = |seq| stream.entries.get(&seq).is_some_and(unsent);
        let among = stream.entries.range(..=said.through).next_back().is_some_and(|(_, entry)| unsent(entry));
        if highest > stream.last || among || said.receipts.iter().any(|receipt| knows_more(receipt.seq)) {
            self.hold(key, finals);
            return self.spoil(key, now);
        }
        let answered = stream.exchange == Exchange::Waiting(said.answers);
        self.take_states(key, said, now);
        self.take_place(key, said, answered);
        self.hold(key, finals);
        let Some(stream) = self.outs.get_mut(&key) else { return };
        let opens = stream.exchange == Exchange::Closed && matches!(said.room, LetterRoom::Open { .. });
        if answered || opens {
            stream.timer = None;
            self.take_room(key, said.room, now);
        }
    }

    /// States first: what is known to be there is never said again as lost.
    fn take_states(&mut self, key: StreamKey, said: &LetterReceipts, now: Now) {
        let Some(stream) = self.outs.get(&key) else { return };
        let queued = stream
            .entries
            .range(..=said.through)
            .rev()
            .take_while(|(seq, entry)| **seq > stream.through || entry.kept.state.is_none());
        let received = queued.filter(|(_, entry)| entry.kept.state.is_none()).map(|(seq, _)| *seq);
        let mut moved: Vec<(LetterId, LetterState)> =
            received.map(|seq| (self.out_id(key, seq), LetterState::Received)).collect();
        moved.reverse();
        moved.extend(said.receipts.iter().map(|receipt| (self.out_id(key, receipt.seq), receipt.state)));
        self.move_sent(moved, now);
    }

    fn take_place(&mut self, key: StreamKey, said: &LetterReceipts, answered: bool) {
        let Some(stream) = self.outs.get_mut(&key) else { return };
        let before = stream.through;
        if answered {
            stream.through = said.through;
            stream.above = said.receipts.iter().map(|receipt| receipt.seq).filter(|seq| *seq > said.through).collect();
        } else {
            // It may be older than what is known.
            stream.through = stream.through.max(said.through);
        }
        let through = stream.through;
        let known = stream.entries.range(before.min(through)..=through).filter(|(_, entry)| entry.ended());
        let known: Vec<u64> = known.map(|(seq, _)| *seq).filter(|seq| *seq > before).collect();
        known.iter().for_each(|seq| stream.settle(*seq));
        // Of the others it is known that they ended at the peer.
        let unclear = |seq: &u64| {
            let state = stream.entries.get(seq).and_then(|entry| entry.kept.state);
            matches!(state, Some(LetterState::Expired | LetterState::Refused(_)))
        };
        let unclear: Vec<u64> = known.into_iter().filter(unclear).collect();
        let records = unclear.into_iter().map(|seq| LetterRecord::Held { id: self.out_id(key, seq) }).collect();
        self.persist(records);
        self.trim_out(key);
    }

    fn take_room(&mut self, key: StreamKey, room: LetterRoom, now: Now) {
        let Some(stream) = self.outs.get_mut(&key) else { return };
        stream.closed = Some(room).filter(|room| !matches!(room, LetterRoom::Open { .. }));
        match room {
            LetterRoom::Open { letters, bytes } => {
                (stream.exchange, stream.room) = (Exchange::Idle, (letters, bytes));
                self.push(key, now);
            }
            LetterRoom::Full | LetterRoom::Quarantined => {
                stream.exchange = Exchange::Closed;
                self.set_out_timer(key, limits::LETTER_ROOM_AGAIN, now);
            }
            LetterRoom::NotGranted => {
                stream.exchange = Exchange::Closed;
                let queued = stream.entries.range(stream.through + 1..).filter(|(_, entry)| !entry.ended());
                let queued: Vec<LetterId> = queued.map(|(_, entry)| entry.kept.id).collect();
                let refused = queued.into_iter().map(|id| (id, LetterState::Refused(Refusal::NotGranted))).collect();
                self.move_sent(refused, now);
                self.set_out_timer(key, limits::LETTER_ROOM_AGAIN, now);
            }
        }
    }

    /// Letters of the outbox move forward; what was passed on moves with them, in the same batch.
    pub(super) fn move_sent(&mut self, moved: Vec<(LetterId, LetterState)>, now: Now) {
        let mut records = Vec::new();
        let mut news = Vec::new();
        let mut came = Vec::new();
        for (id, state) in moved {
            let key = (id.stream, id.incarnation);
            let Some(stream) = self.outs.get_mut(&key) else { continue };
            let Some(entry) = stream.entries.get_mut(&id.seq) else { continue };
            if entry.kept.state.is_some_and(|before| !before.may_become(state)) {
                continue;
            }
            entry.kept.state = Some(state);
            stream.settle(id.seq);
            records.push(LetterRecord::Moved { id, state });
            news.push(LedgerEvent::Moved { id, state });
            came.extend(self.passed.get(&id).copied().filter(|_| passes(state)).map(|from| (from, state)));
        }
        records.extend(came.iter().filter_map(|(from, state)| self.move_got(*from, *state)));
        self.persist_all(records);
        news.into_iter().for_each(|event| self.tell_event(event));
        let mut told: Vec<StreamKey> = came.iter().map(|(from, _)| (from.origin, from.incarnation)).collect();
        told.dedup();
        told.into_iter().for_each(|key| self.say(key, 0, now));
    }

    fn hold(&mut self, key: StreamKey, seqs: Vec<u64>) {
        if !seqs.is_empty() {
            let held = PeerMessage::ReceiptsHeld(ReceiptsHeld { incarnation: key.1, seqs });
            self.outputs.push_back(Output::Send(key.0, Box::new(held)));
        }
    }

    /// The peer knows places that were never given here: this device forgot what it told. Under this life nothing is told
    /// any more, since another letter would stand in the same place.
    fn spoil(&mut self, key: StreamKey, now: Now) {
        let lives = keys(&self.outs, key.0).len();
        let current = self.life(key.0) == Some(key.1);
        let Some(stream) = self.outs.get_mut(&key).filter(|stream| !stream.spoiled) else { return };
        if lives >= limits::LETTER_STREAMS {
            let what = "it knows letters that were never told, again and again";
            return self.tell_event(LedgerEvent::PeerFault { device: key.0, what });
        }
        (stream.spoiled, stream.timer) = (true, None);
        let queued = stream.entries.values().filter(|entry| entry.kept.state.is_none());
        let queued: Vec<LetterId> = queued.map(|entry| entry.kept.id).collect();
        if current {
            self.tell_event(LedgerEvent::BeginAnew(key.0));
        }
        let refused = |id| (id, LetterState::Refused(Refusal::IntegrityFailed));
        self.move_sent(queued.into_iter().map(refused).collect(), now);
    }

    /// Whether a frame is the one that an answer is waited for. One that is not must not leave any more: the answer to a later
    /// one is taken as the answer to all before it.
    pub fn awaits(&self, peer: DeviceId, incarnation: Incarnation, number: u64) -> bool {
        self.outs.get(&(peer, incarnation)).is_some_and(|stream| stream.exchange == Exchange::Waiting(number))
    }

    /// The words of a letter of this frame are not here any more: it never leaves.
    pub fn words_lost(&mut self, id: LetterId, number: u64, now: Now) {
        if !self.awaits(id.stream, id.incarnation, number) {
            return;
        }
        self.move_sent(vec![(id, LetterState::Refused(Refusal::IntegrityFailed))], now);
        self.retry((id.stream, id.incarnation), now);
    }

    /// What was to be said did not leave: it is asked again how far the peer is.
    pub fn retry(&mut self, key: StreamKey, now: Now) {
        self.ask(key, now);
    }

    pub(super) fn trim_out(&mut self, key: StreamKey) {
        let (origin, incarnation, stream) = (self.me, key.1, key.0);
        let letter = |seq| LetterId { origin, incarnation, stream, seq };
        while let Some(stream) = self.outs.get_mut(&key)
            && let Some(seq) = oldest(&stream.settled, |seq| self.tasks.contains(&letter(seq)))
        {
            stream.settled.remove(&seq);
            let Some(entry) = stream.entries.remove(&seq) else { continue };
            self.passed.remove(&entry.kept.id);
            self.unneed(entry.kept.facts.digest);
        }
    }
}

/// Whether a state is of the letter, and not of the way from one device to another.
fn passes(state: LetterState) -> bool {
    match state {
        LetterState::Shown
        | LetterState::Acted
        | LetterState::Refused(_)
        | LetterState::Expired
        | LetterState::Quarantined => true,
        LetterState::Received | LetterState::Duplicate => false,
    }
}

/// The next frame, and the rows of places that the peer knew and forgot.
fn collect(stream: &mut Outgoing, now: Now) -> (Vec<PostItem>, Vec<(u64, u64)>) {
    let (mut items, mut gaps) = (Vec::new(), Vec::new());
    let (mut letters, mut bytes) = (0, 0);
    let most = limits::POST_LETTERS.min(stream.room.0 as usize);
    let mut next = stream.through + 1;
    while next <= stream.last && items.len() < cede_wire::limits::LETTERS_PER_FRAME {
        if stream.above.contains(&next) {
            next += 1;
            continue;
        }
        if let Some(entry) = stream.entries.get_mut(&next).filter(|entry| !entry.ended()) {
            let size = u64::from(entry.kept.facts.bytes);
            let fits =
                letters < most && bytes + size <= stream.room.1 && (letters == 0 || bytes + size <= limits::POST_BYTES);
            if !fits {
                break;
            }
            (letters, bytes, entry.left) = (letters + 1, bytes + size, true);
            items.push(post(entry, now));
            next += 1;
            continue;
        }
        let (through, why) = gone(stream, next);
        if why == GoneWhy::Forgotten {
            gaps.push((next, through));
        }
        items.push(PostItem::Gone { from: next, through, why });
        next = through + 1;
    }
    (items, gaps)
}

fn post(entry: &Sent, now: Now) -> PostItem {
    let left = entry.deadline.saturating_sub(now.monotonic);
    PostItem::Letter {
        seq: entry.kept.id.seq,
        first: entry.kept.first,
        expires_in_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        digest: entry.kept.facts.digest,
    }
}

/// The row of places from `from` on that hold no letter any more for one reason.
fn gone(stream: &Outgoing, from: u64) -> (u64, GoneWhy) {
    let why = |entry: &Sent| match entry.kept.state {
        // Of these nobody can say whether they ended here or there; in no case was anything acted on.
        Some(LetterState::Expired | LetterState::Refused(_)) | None => GoneWhy::Ended,
        Some(_) => GoneWhy::Forgotten,
    };
    let first = stream.entries.get(&from).map_or(GoneWhy::Forgotten, why);
    let mut through = from;
    let mut following = stream.entries.range(from + 1..).peekable();
    loop {
        let next = through + 1;
        if next > stream.last || stream.above.contains(&next) {
            return (through, first);
        }
        match following.peek() {
            Some((seq, entry)) if **seq == next => {
                if !entry.ended() || why(entry) != first {
                    return (through, first);
                }
                following.next();
                through = next;
            }
            // Nothing is known of the places up to the next letter.
            Some(_) | None if first == GoneWhy::Ended => return (through, first),
            Some((seq, _)) => through = next.max(stream.above.range(next..**seq).next().map_or(**seq, |a| *a) - 1),
            None => through = stream.above.range(next..).next().map_or(stream.last, |a| a - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use cede_wire::id::Hash;
    use cede_wire::letter::LetterFacts;

    use super::*;

    /// So many places, of which the peer has some, and letters in these states at others.
    fn stream(last: u64, above: &[u64], letters: &[(u64, Option<LetterState>)]) -> Outgoing {
        let device = DeviceId::new([1; 32]);
        let facts = LetterFacts {
            digest: Hash::of(b""),
            bytes: 1,
            session: None,
            in_reply_to: None,
            conversation: None,
            hops: 0,
            told_unix_ms: 0,
        };
        let mut stream = Outgoing { last, above: above.iter().copied().collect(), ..Outgoing::default() };
        for (seq, state) in letters {
            let id = LetterId { origin: device, incarnation: Incarnation::new([1; 16]), stream: device, seq: *seq };
            let kept = KeptLetter { id, first: None, facts, expires_in_ms: 1, at_unix_ms: 0, state: *state };
            stream.entries.insert(*seq, Sent { kept, deadline: Duration::MAX, left: false, overdue: false });
        }
        stream
    }

    /// Shows: M-6, M-11
    #[test]
    fn row_of_places_without_a_letter_ends_where_the_peer_has_one_or_another_reason_begins() {
        let (ended, acted) = (Some(LetterState::Expired), Some(LetterState::Acted));
        let rows = [
            (stream(9, &[5], &[]), 1, (4, GoneWhy::Forgotten)),
            (stream(9, &[5], &[]), 6, (9, GoneWhy::Forgotten)),
            (stream(9, &[], &[(7, None)]), 2, (6, GoneWhy::Forgotten)),
            (stream(9, &[4], &[(7, None)]), 2, (3, GoneWhy::Forgotten)),
            (stream(9, &[], &[(7, acted)]), 2, (9, GoneWhy::Forgotten)),
            (stream(3, &[], &[(1, ended), (2, ended), (3, ended)]), 1, (3, GoneWhy::Ended)),
            (stream(3, &[], &[(1, ended), (2, ended), (3, acted)]), 1, (2, GoneWhy::Ended)),
            (stream(3, &[], &[(1, ended)]), 1, (1, GoneWhy::Ended)),
            (stream(3, &[2], &[(1, ended), (3, ended)]), 1, (1, GoneWhy::Ended)),
        ];
        for (stream, from, wanted) in rows {
            assert_eq!(gone(&stream, from), wanted, "{:?} {:?}", stream.above, stream.entries.keys());
        }
    }

    /// Shows: M-8
    #[test]
    fn frame_holds_so_many_items_and_no_more() {
        let now = Now { monotonic: Duration::ZERO, unix_ms: 0 };
        let most = cede_wire::limits::LETTERS_PER_FRAME as u64;
        // Every second place is empty and stands by itself, so that the places are as many rows.
        let (ended, acted) = (Some(LetterState::Expired), Some(LetterState::Acted));
        let places = (1..=most + 10).map(|seq| (seq, if seq % 2 == 0 { ended } else { acted }));
        let mut stream = stream(most + 10, &[], &places.collect::<Vec<_>>());
        stream.room = (u32::MAX, u64::MAX);
        assert_eq!(collect(&mut stream, now).0.len() as u64, most);
    }
}
