//! What outlives the connections of a peer: the operator's rules for it, and how often it disturbed the operator.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use cede_wire::audit::DecidedBy;
use cede_wire::authority::Rule;
use cede_wire::member::Capability;

use super::Asking;
use crate::limits::{
    ACCEPT_LONGEST, ASK_PAUSE_FIRST, ASK_PAUSE_LONGEST, ASKED_IN, ASKED_MOST, NOES_FREE, PENDING_PER_PEER,
};
use crate::now::Now;

/// Why a rule was not taken. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nobody is ever asked about presence and messages.
    #[error("nobody is asked about this capability: it is accepted or refused")]
    NeverAsked,
    /// A yes to what needs a person must end.
    #[error("a standing yes ends: after 8 hours at most")]
    NeedsEnd,
    /// The end lies too far away.
    #[error("a standing yes lasts 8 hours at most")]
    TooLong,
    /// The end lies in the past, or is no time at all.
    #[error("the rule would be over already")]
    Over,
}

/// A rule and the time in which it holds, milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The rule.
    pub rule: Rule,
    /// When it was set.
    pub from_unix_ms: u64,
    /// When it ends; none means never.
    pub until_unix_ms: Option<u64>,
}

impl Term {
    /// Looks whether a rule may be set for a capability, from now on for this long.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn new(capability: Capability, rule: Rule, life: Option<Duration>, now: Now) -> Result<Self, RuleError> {
        let asks = Asking::of(capability) != Asking::Never;
        match (rule, life) {
            (Rule::Ask | Rule::Hold, _) if !asks => return Err(RuleError::NeverAsked),
            (_, Some(Duration::ZERO)) => return Err(RuleError::Over),
            (Rule::Accept, None) if asks => return Err(RuleError::NeedsEnd),
            (Rule::Accept, Some(life)) if asks && life > ACCEPT_LONGEST => return Err(RuleError::TooLong),
            (Rule::Accept | Rule::Ask | Rule::Hold | Rule::Refuse, _) => {}
        }
        let end = |life: Duration| now.unix_ms.saturating_add(u64::try_from(life.as_millis()).unwrap_or(u64::MAX));
        Ok(Self { rule, from_unix_ms: now.unix_ms, until_unix_ms: life.map(end) })
    }
}

/// A rule, and when it ends by a clock that nobody sets.
#[derive(Debug, Clone, Copy)]
struct Held {
    term: Term,
    ends: Option<Duration>,
    /// Its place among all that were set.
    number: u64,
}

/// What is remembered of one peer across its connections.
#[derive(Debug, Default)]
pub struct PeerMemory {
    rules: BTreeMap<Capability, Held>,
    set: u64,
    waiting: usize,
    /// The moments of the last questions, oldest first.
    asked: VecDeque<Duration>,
    /// Answers in a row that were no.
    noes: u32,
    quiet_until: Duration,
}

impl PeerMemory {
    /// Sets a rule, or puts one back that was set in an earlier run.
    pub fn set_rule(&mut self, capability: Capability, term: Term, now: Now) {
        let left = |until: u64| Duration::from_millis(until.saturating_sub(now.unix_ms));
        let ends = term.until_unix_ms.map(|until| now.after(left(until)));
        self.set += 1;
        self.rules.insert(capability, Held { term, ends, number: self.set });
    }

    /// Forgets the rule of a capability.
    pub fn clear_rule(&mut self, capability: Capability) {
        self.rules.remove(&capability);
    }

    /// The rules that hold now, with their terms.
    pub fn rules(&self, now: Now) -> impl Iterator<Item = (Capability, Term)> {
        let holds = move |(_, held): &(&Capability, &Held)| held.holds(now);
        self.rules.iter().filter(holds).map(|(capability, held)| (*capability, held.term))
    }

    /// The rule of a capability, if one holds now.
    pub fn rule(&self, capability: Capability, now: Now) -> Option<Rule> {
        self.rules.get(&capability).filter(|held| held.holds(now)).map(|held| held.term.rule)
    }

    /// Whether the rule of a capability was set after that of another one, be its time over.
    pub fn was_set_since(&self, capability: Capability, other: Capability) -> bool {
        let number = |of: Capability| self.rules.get(&of).map(|held| held.number);
        number(capability) > number(other)
    }

    /// One more question is put to the operator: by an authority, or elsewhere, as of a handoff. False: there were so many that
    /// nobody is asked. Source: SPEC U-9.
    #[must_use]
    pub fn begin_question(&mut self, now: Now) -> bool {
        let may = self.room(now) > 0;
        if may {
            self.waiting += 1;
            if self.asked.len() >= ASKED_MOST {
                self.asked.pop_front();
            }
            self.asked.push_back(now.monotonic);
        }
        may
    }

    /// A question was taken back: it says nothing.
    pub fn question_over(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A question was answered. A no of a person, and silence, make the next one wait.
    pub fn end_question(&mut self, (yes, by): (bool, DecidedBy), now: Now) {
        self.question_over();
        match by {
            DecidedBy::Operator | DecidedBy::Approver(_) | DecidedBy::Button if yes => self.noes = 0,
            DecidedBy::Operator | DecidedBy::Approver(_) | DecidedBy::Button | DecidedBy::Time => self.said_no(now),
            DecidedBy::Grant
            | DecidedBy::Rule
            | DecidedBy::Fault
            | DecidedBy::Pace
            | DecidedBy::Size
            | DecidedBy::Withdrawn
            | DecidedBy::Closed => {}
        }
    }

    /// How many questions more could be put now.
    pub fn room(&self, now: Now) -> usize {
        if now.monotonic < self.quiet_until {
            return 0;
        }
        let recent = |at: &&Duration| now.monotonic.saturating_sub(**at) < ASKED_IN;
        let asked = self.asked.iter().filter(recent).count();
        PENDING_PER_PEER.saturating_sub(self.waiting).min(ASKED_MOST.saturating_sub(asked))
    }

    fn said_no(&mut self, now: Now) {
        self.noes = self.noes.saturating_add(1);
        if let Some(doublings) = self.noes.checked_sub(NOES_FREE + 1) {
            let factor = 1_u32.checked_shl(doublings.min(16)).unwrap_or(u32::MAX);
            self.quiet_until = now.after(ASK_PAUSE_FIRST.saturating_mul(factor).min(ASK_PAUSE_LONGEST));
        }
    }
}

impl Held {
    /// A yes holds within its time by both clocks, so that a clock that is set back prolongs none. A no holds until its
    /// time is over by both.
    fn holds(&self, now: Now) -> bool {
        let over_here = self.ends.is_some_and(|ends| now.monotonic >= ends);
        let over_there = self.term.until_unix_ms.is_some_and(|until| now.unix_ms >= until);
        match self.term.rule {
            Rule::Accept => !over_here && !over_there && (self.ends.is_none() || now.unix_ms >= self.term.from_unix_ms),
            Rule::Ask | Rule::Hold | Rule::Refuse => !(over_here && over_there),
        }
    }
}
