//! Time: letters that run out, answers that do not come, receipts that are said again.

use core::time::Duration;
use std::collections::BTreeSet;

use cede_wire::letter::{LetterId, LetterState};

use super::Ledger;
use super::streams::{Exchange, StreamKey};
use crate::limits;
use crate::now::Now;

/// What is due at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A letter of the outbox runs out.
    Sent(StreamKey, u64),
    /// A letter of the inbox runs out.
    Got(StreamKey, u64),
    /// An answer is overdue, or a receiver is asked again.
    Answer(StreamKey),
    /// Final receipts are said again.
    Receipts(StreamKey),
}

impl Ledger {
    /// The next moment at which `handle_timeout` has something to do.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Does what is due. Nothing is overdue after it.
    pub fn handle_timeout(&mut self, now: Now) {
        let (mut ended, mut unsent, mut streams) = (Vec::new(), Vec::new(), BTreeSet::new());
        while let Some((at, what)) = self.due.first().copied().filter(|(at, _)| *at <= now.monotonic) {
            self.due.remove(&(at, what));
            match what {
                Due::Sent(key, seq) => {
                    unsent.extend(self.sent_is_over(key, seq).map(|id| (id, LetterState::Expired)));
                    streams.insert(key);
                }
                Due::Got(key, seq) => {
                    let entry = self.ins.get(&key).and_then(|stream| stream.entries.get(&seq));
                    let waits = entry.is_some_and(super::streams::Got::waits);
                    ended.extend(waits.then_some((self.in_id(key, seq), LetterState::Expired)));
                }
                Due::Answer(key) => self.answer_is_late(key, at, now),
                Due::Receipts(key) => self.receipts_again(key, at, now),
            }
        }
        self.move_sent(unsent, now);
        self.end_got(ended, now);
        streams.into_iter().for_each(|key| self.push(key, now));
    }

    pub(super) fn set_out_timer(&mut self, key: StreamKey, wait: Duration, now: Now) {
        let Some(stream) = self.outs.get_mut(&key) else { return };
        let at = now.after(wait.max(SHORTEST));
        if let Some(before) = stream.timer.replace(at) {
            self.due.remove(&(before, Due::Answer(key)));
        }
        self.due.insert((at, Due::Answer(key)));
    }

    pub(super) fn set_in_timer(&mut self, key: StreamKey, wait: Duration, now: Now) {
        let Some(stream) = self.ins.get_mut(&key) else { return };
        let at = now.after(wait.max(SHORTEST));
        if let Some(before) = stream.timer.replace(at) {
            self.due.remove(&(before, Due::Receipts(key)));
        }
        self.due.insert((at, Due::Receipts(key)));
    }

    /// A letter that never left ends. One that may be there ends when the peer says whether it is.
    fn sent_is_over(&mut self, key: StreamKey, seq: u64) -> Option<LetterId> {
        let id = self.out_id(key, seq);
        let entry = self.outs.get_mut(&key)?.entries.get_mut(&seq).filter(|entry| entry.kept.state.is_none())?;
        entry.overdue = true;
        (!entry.left).then_some(id)
    }

    fn answer_is_late(&mut self, key: StreamKey, at: Duration, now: Now) {
        let Some(stream) = self.outs.get_mut(&key).filter(|stream| stream.timer == Some(at)) else { return };
        stream.timer = None;
        match stream.exchange {
            Exchange::Waiting(_) => {
                stream.wait = (stream.wait * 2).min(limits::LETTER_ANSWER_LONGEST);
                self.ask(key, now);
            }
            Exchange::Closed => self.ask(key, now),
            Exchange::Away | Exchange::Idle => {}
        }
    }

    fn receipts_again(&mut self, key: StreamKey, at: Duration, now: Now) {
        let Some(stream) = self.ins.get_mut(&key).filter(|stream| stream.timer == Some(at)) else { return };
        stream.timer = None;
        if stream.unheld() {
            stream.wait = (stream.wait.max(limits::RECEIPT_AGAIN) * 2).min(limits::RECEIPT_LONGEST);
            self.say(key, 0, now);
        }
    }
}

/// A timer is never due at the moment at which it is set.
const SHORTEST: Duration = Duration::from_millis(1);
