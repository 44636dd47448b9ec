//! What a device does with an input, computed once.

use core::panic::AssertUnwindSafe;
use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::{Arc, RwLock};

use cede_core::electorate::Electorate;
use cede_core::source::OfferTerms;
use cede_wire::id::HandoffId;
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;

use super::check::Rule;
use super::letter::{Digest, Letter};
use super::node::{DEVICES, Effect, Hand, KEY, LONG, NOW, Node, SESSION};
use crate::world::device::{head, terms};

/// What happens to one device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Letter(Letter),
    LinkUp(u8),
    LinkDown(u8),
    Start,
    PowerOff,
    Wake,
    Sleep,
    Offer { to: u8, attempt: u8 },
    Cancel,
    Answer { yes: bool },
    Work { task: usize, ship: bool, payload: Option<Vec<u64>> },
    Turn(u64),
    Spoil,
    Seize,
}

/// One way in which it ends.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) node: Arc<Node>,
    pub(super) effects: Arc<Vec<Effect>>,
}

/// The first is the one in which the power holds; the others lose it after so many outputs.
pub(super) type Outcomes = Arc<Vec<Outcome>>;

/// Every device that was met, with every input.
#[derive(Debug)]
pub(super) struct Memo {
    electorate: Electorate,
    known: RwLock<HashMap<(Digest, Input), Outcomes>>,
}

impl Memo {
    pub(super) fn new(electorate: Electorate) -> Self {
        Self { electorate, known: RwLock::default() }
    }

    pub(super) fn electorate(&self) -> &Electorate {
        &self.electorate
    }

    pub(super) fn outcomes(&self, node: &Node, input: Input) -> Outcomes {
        let key = (node.digest, input);
        if let Some(known) = self.known.read().expect("no poison").get(&key) {
            return known.clone();
        }
        let outcomes = Arc::new(compute(node, &key.1, &self.electorate));
        self.known.write().expect("no poison").entry(key).or_insert(outcomes).clone()
    }

    /// How many pairs of a device and an input were computed.
    pub(super) fn len(&self) -> usize {
        self.known.read().expect("no poison").len()
    }
}

fn compute(node: &Node, input: &Input, electorate: &Electorate) -> Vec<Outcome> {
    let (whole, spent) = outcome(node, input, None, electorate);
    let dark = matches!(input, Input::PowerOff | Input::LinkDown(_));
    let fuses = if dark { 0 } else { spent };
    let cut_short = (0..fuses).map(|fuse| outcome(node, input, Some(fuse), electorate).0);
    core::iter::once(whole).chain(cut_short).collect()
}

fn outcome(node: &Node, input: &Input, fuse: Option<usize>, electorate: &Electorate) -> (Outcome, usize) {
    let run = || {
        let mut hand = Hand::new(node.clone(), fuse, electorate);
        hand.take(input);
        hand.finish()
    };
    let (node, effects, spent) = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let broken = Effect::Broken(Rule::Sound, "the decider panics".to_owned());
        (node.clone(), vec![broken], 0)
    });
    (Outcome { node: Arc::new(node), effects: Arc::new(effects) }, spent)
}

impl Hand<'_> {
    fn take(&mut self, input: &Input) {
        match input {
            Input::Letter(letter) => self.receive(letter.from, &letter.message),
            Input::LinkUp(peer) => {
                let peer = DEVICES[usize::from(*peer)].device();
                self.tell(|custodian| custodian.link_up(peer, NOW));
            }
            Input::LinkDown(peer) => {
                let peer = DEVICES[usize::from(*peer)].device();
                self.tell(|custodian| custodian.link_down(peer));
            }
            Input::Start => self.start(),
            Input::PowerOff => self.power_off(),
            Input::Wake => {
                let due = self.node.custodian.as_ref().and_then(|custodian| custodian.poll_timeout());
                self.wait(due.map_or(NOW.monotonic, |(at, _)| at.max(NOW.monotonic)));
            }
            Input::Sleep => self.wait(NOW.monotonic + LONG),
            Input::Offer { to, attempt } => self.offer(*to, *attempt),
            Input::Cancel => self.tell(|custodian| custodian.cancel(*SESSION, Refusal::Cancelled, "the operator")),
            Input::Answer { yes } => self.answer(*yes),
            Input::Work { task, ship, payload } => self.work(*task, *ship, payload.as_deref()),
            Input::Turn(turn) => self.node.disk.log.get_or_insert_default().push(*turn),
            Input::Spoil => self.spoil(),
            Input::Seize => {
                let here = self.node.here().map(|turns| head(turns));
                self.tell(|custodian| {
                    let _ = custodian.seize(*SESSION, here, NOW);
                });
            }
        }
    }

    fn receive(&mut self, from: u8, message: &PeerMessage) {
        let from = DEVICES[usize::from(from)].device();
        self.tell(|custodian| custodian.handle_message(from, message, NOW));
    }

    fn wait(&mut self, until: core::time::Duration) {
        let then = cede_core::now::Now { monotonic: until, ..NOW };
        let mut overdue = false;
        self.tell(|custodian| {
            custodian.handle_timeout(then);
            overdue = custodian.poll_timeout().is_some_and(|(at, _)| at <= until);
        });
        if overdue {
            self.broken(Rule::Sound, "something is overdue after the timeout was handled");
        }
    }

    fn offer(&mut self, to: u8, attempt: u8) {
        let (to, terms): (_, OfferTerms) = (DEVICES[usize::from(to)].device(), terms(self.node.log()));
        let handoff = HandoffId::new([attempt; 16]);
        self.tell(|custodian| {
            let _ = custodian.offer(&KEY, to, handoff, terms, NOW);
        });
    }

    fn answer(&mut self, yes: bool) {
        let asked = self.node.custodian.as_ref().and_then(|custodian| custodian.asked(*SESSION));
        let Some(handoff) = asked.map(|offer| offer.handoff) else { return };
        self.tell(|custodian| {
            if yes {
                let _ = custodian.approve(*SESSION, handoff, [1; 32], Vec::new(), NOW);
            } else {
                custodian.decline(*SESSION, handoff, Refusal::Declined, "the operator said no");
            }
        });
    }

    /// A disk loses payloads that were durable. The device notices at once, or when it puts the session in its place.
    fn spoil(&mut self) {
        let arriving = self.node.custodian.as_ref().and_then(|custodian| custodian.arriving(*SESSION));
        let handoff = arriving.map(|arriving| arriving.attempt().handoff);
        self.node.disk.received.clear();
        if let Some(handoff) = handoff {
            self.receive_failed(handoff);
        }
    }
}
