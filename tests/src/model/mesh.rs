//! Which steps there are, and where they lead.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use cede_core::custodian::Standing;
use cede_core::electorate::Electorate;
use cede_core::output::Event;
use cede_core::source::SourcePhase;
use cede_wire::custody::{Custody, Release};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;

use super::bounds::Bounds;
use super::check::Rule;
use super::letter::{Digest, Letter};
use super::memo::{Input, Memo, Outcome, Outcomes};
use super::node::{DEVICES, Effect, Node, SESSION, place};
use super::snapshot::Snapshot;
use super::step::{Step, What};
use super::truth::Truth;
use crate::world::device::head;

/// Everything that can happen within some bounds.
#[derive(Debug)]
pub struct Mesh {
    bounds: Bounds,
    memo: Memo,
    /// States from which fair weather is known to lead to one owner.
    pub(super) healed: Mutex<HashSet<Digest>>,
}

impl Mesh {
    /// All states within these bounds.
    pub fn new(bounds: Bounds) -> Self {
        let mut electorate = Electorate::default();
        let devices = DEVICES.iter().take(usize::from(bounds.devices)).map(|device| device.device());
        electorate.note(u64::from(bounds.devices), devices.collect());
        Self { bounds, memo: Memo::new(electorate), healed: Mutex::default() }
    }

    /// How much may happen.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// How many different inputs devices were given.
    pub fn inputs(&self) -> usize {
        self.memo.len()
    }

    /// All devices run and are linked; the first has the session.
    pub fn first(&self) -> Snapshot {
        let nodes: Vec<Arc<Node>> =
            (0..self.bounds.devices).map(|at| Arc::new(Node::first(at, self.memo.electorate()))).collect();
        let mut first = Snapshot {
            nodes,
            flight: Vec::new(),
            links: Vec::new(),
            left: self.bounds,
            attempts: 0,
            spoils: 0,
            truth: Truth::first(),
            broken: None,
        };
        for (a, b) in pairs(self.bounds.devices) {
            self.join(&mut first, a, b);
        }
        first
    }

    /// What can happen next.
    pub fn steps(&self, now: &Snapshot) -> Vec<Step> {
        let mut steps = Vec::new();
        if now.broken.is_some() {
            return steps;
        }
        let mut all = Vec::new();
        self.letters(now, &mut all);
        (0..self.bounds.devices).for_each(|at| self.at_device(now, at, &mut all));
        self.lines(now, &mut all);
        for what in all {
            steps.push(Step { what, fails_after: None });
            if now.left.crashes > 0 {
                let ways = self.input(now, what).map_or(1, |(at, input)| self.outcomes(now, at, input).len());
                steps.extend((0..ways - 1).map(|after| Step { what, fails_after: Some(after as u8) }));
            }
        }
        steps
    }

    fn letters(&self, now: &Snapshot, all: &mut Vec<What>) {
        for (n, letter) in now.flight.iter().enumerate() {
            let n = n as u8;
            if now.linked(letter.from, letter.to) && now.runs(letter.to) {
                all.push(What::Deliver { letter: n, again: false });
                if now.left.doubles > 0 {
                    all.push(What::Deliver { letter: n, again: true });
                }
            }
            if now.left.losses > 0 {
                all.push(What::Lose { letter: n });
            }
        }
    }

    fn at_device(&self, now: &Snapshot, at: u8, all: &mut Vec<What>) {
        let node = now.node(at);
        let Some(custodian) = &node.custodian else { return all.push(What::Start { at }) };
        for (task, event) in node.tasks.iter().enumerate() {
            let again = task > 0 && format!("{:?}", node.tasks[task - 1]) == format!("{event:?}");
            if !again && self.payload(now, event).is_some() {
                self.works(now, at, task as u8, event, all);
            }
        }
        if custodian.asked(*SESSION).is_some() {
            all.push(What::Answer { at, yes: true });
            if now.left.refusals > 0 {
                all.push(What::Answer { at, yes: false });
            }
        }
        if node.acts() {
            self.owner(now, at, all);
        }
        let here = node.here().map(|turns| head(turns));
        if now.left.seizes > 0 && custodian.prospect(*SESSION, here).is_ok() {
            all.push(What::Seize { at });
        }
        if now.left.wakes > 0 && custodian.poll_timeout().is_some() {
            all.push(What::Wake { at });
        }
        if now.left.sleeps > 0 && custodian.poll_timeout().is_some() {
            all.push(What::Sleep { at });
        }
        if now.left.crashes > 0 {
            all.push(What::PowerOff { at });
        }
        if now.left.spoils > 0 && !node.disk.received.is_empty() {
            all.push(What::Spoil { at });
        }
        if now.left.carries > 0 {
            self.carries(now, at, all);
        }
    }

    fn works(&self, now: &Snapshot, at: u8, task: u8, event: &Event, all: &mut Vec<What>) {
        all.push(What::Work { at, task, ship: false });
        if now.left.rounds > 0 && matches!(event, Event::Accepted(_)) {
            all.push(What::Work { at, task, ship: true });
        }
    }

    fn owner(&self, now: &Snapshot, at: u8, all: &mut Vec<What>) {
        let node = now.node(at);
        let leaving = node.custodian.as_ref().and_then(|custodian| custodian.leaving(*SESSION));
        let frozen = leaving.is_some_and(|source| *source.phase() == SourcePhase::Frozen);
        if now.left.turns > 0 && !frozen || now.left.sneaks > 0 && frozen {
            all.push(What::Turn { at });
        }
        if leaving.is_some() {
            if now.left.refusals > 0 {
                all.push(What::Cancel { at });
            }
        } else if now.left.offers > 0 && matches!(node.standing(), None | Some(Standing::InCharge)) {
            let others = (0..self.bounds.devices).filter(|to| now.linked(at, *to));
            all.extend(others.map(|to| What::Offer { from: at, to }));
        }
    }

    /// Whoever has the chain can carry its last certificate.
    fn carries(&self, now: &Snapshot, of: u8, all: &mut Vec<What>) {
        let disk = &now.node(of).disk;
        if !disk.journal.iter().any(|record| matches!(record, Record::Custody(_))) {
            return;
        }
        for (by, to) in pairs(self.bounds.devices).into_iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
            if now.runs(to) && now.linked(by, to) && certificate(now.node(of), by, to).is_some() {
                all.push(What::Carry { of, by, to });
            }
        }
    }

    fn lines(&self, now: &Snapshot, all: &mut Vec<What>) {
        for (a, b) in pairs(self.bounds.devices) {
            if now.linked(a, b) {
                if now.left.cuts > 0 {
                    all.push(What::Part { a, b });
                }
            } else if now.runs(a) && now.runs(b) {
                all.push(What::Join { a, b });
            }
        }
    }

    /// The payload that a task needs: none inside where it needs none, none at all where it cannot be done now.
    fn payload(&self, now: &Snapshot, task: &Event) -> Option<Option<Vec<u64>>> {
        let Event::Fetch(manifest) = task else { return Some(None) };
        let (from, to) = (place(manifest.source)?, place(manifest.destination)?);
        if !now.linked(from, to) {
            return None;
        }
        let captured = now.node(from).disk.captured.get(&manifest.handoff);
        Some(captured.filter(|turns| crate::world::device::root(turns) == manifest.root).cloned())
    }

    /// The one device that a step is an input of.
    fn input(&self, now: &Snapshot, what: What) -> Option<(u8, Input)> {
        Some(match what {
            What::Deliver { letter, .. } => {
                let letter = now.flight.get(usize::from(letter))?;
                (letter.to, Input::Letter(letter.clone()))
            }
            What::Work { at, task, ship } => {
                let task = usize::from(task);
                let payload = self.payload(now, now.node(at).tasks.get(task)?)?;
                (at, Input::Work { task, ship, payload })
            }
            What::Answer { at, yes } => (at, Input::Answer { yes }),
            What::Offer { from, to } => (from, Input::Offer { to, attempt: now.attempts + 1 }),
            What::Cancel { at } => (at, Input::Cancel),
            What::Turn { at } => (at, Input::Turn(now.truth.turns + 1)),
            What::Seize { at } => (at, Input::Seize),
            What::Wake { at } => (at, Input::Wake),
            What::Sleep { at } => (at, Input::Sleep),
            What::PowerOff { at } => (at, Input::PowerOff),
            What::Start { at } => (at, Input::Start),
            What::Spoil { at } => (at, Input::Spoil),
            What::Carry { of, by, to } => (to, Input::Letter(certificate(now.node(of), by, to)?)),
            What::Lose { .. } | What::Part { .. } | What::Join { .. } => return None,
        })
    }

    fn outcomes(&self, now: &Snapshot, at: u8, input: Input) -> Outcomes {
        self.memo.outcomes(now.node(at), input)
    }

    /// Where a step leads; none where it is none of this state.
    pub fn next(&self, now: &Snapshot, step: Step) -> Option<Snapshot> {
        let mut next = now.clone();
        next.left.spend(now, step);
        match step.what {
            What::Lose { letter } => {
                next.flight.remove(usize::from(letter));
                return Some(next);
            }
            What::Part { a, b } => {
                self.part(&mut next, a, b);
                return self.checked(next);
            }
            What::Join { a, b } => {
                self.join(&mut next, a, b);
                return self.checked(next);
            }
            What::Deliver { letter, again: false } => {
                next.flight.remove(usize::from(letter));
            }
            What::Offer { .. } => next.attempts += 1,
            What::Spoil { .. } => next.spoils += 1,
            _ => {}
        }
        let (at, input) = self.input(now, step.what)?;
        if let Input::Turn(turn) = &input {
            next.truth.commit(now.node(at).generation(), *turn);
        }
        let outcomes = self.outcomes(now, at, input);
        let way = step.fails_after.map_or(0, |after| usize::from(after) + 1);
        self.apply(&mut next, at, outcomes.get(way)?);
        self.checked(next)
    }

    fn checked(&self, mut next: Snapshot) -> Option<Snapshot> {
        if next.broken.is_none()
            && let Err((rule, what)) = next.check()
        {
            next.broken = Some((rule, what.to_owned()));
        }
        Some(next)
    }

    fn apply(&self, next: &mut Snapshot, at: u8, outcome: &Outcome) {
        let dark = next.node(at).custodian.is_some() && outcome.node.custodian.is_none();
        next.nodes[usize::from(at)] = outcome.node.clone();
        for effect in outcome.effects.iter() {
            if let Effect::Decided { release, .. } = effect
                && !next.staged(release)
            {
                next.broken.get_or_insert((Rule::Copies, "the source decides before the payload is staged".to_owned()));
            }
            if let Effect::Sent(letter) = effect {
                if !self.bounds.gossip && matches!(*letter.message, PeerMessage::CustodyQuery(_)) {
                    continue;
                }
                let place = next.flight.partition_point(|known| known.digest < letter.digest);
                if next.flight.get(place) != Some(letter) {
                    next.flight.insert(place, letter.clone());
                }
            } else if let Err(broken) = next.truth.observe(at, effect) {
                next.broken.get_or_insert(broken);
            }
        }
        if dark {
            (0..self.bounds.devices).for_each(|other| self.part(next, at.min(other), at.max(other)));
        }
    }

    fn give(&self, next: &mut Snapshot, at: u8, input: Input) {
        let outcomes = self.outcomes(next, at, input);
        if let Some(outcome) = outcomes.first() {
            self.apply(next, at, outcome);
        }
    }

    fn join(&self, next: &mut Snapshot, a: u8, b: u8) {
        next.links.push((a, b));
        next.links.sort_unstable();
        self.give(next, a, Input::LinkUp(b));
        self.give(next, b, Input::LinkUp(a));
    }

    pub(super) fn part_all(&self, next: &mut Snapshot) {
        pairs(self.bounds.devices).into_iter().for_each(|(a, b)| self.part(next, a, b));
    }

    fn part(&self, next: &mut Snapshot, a: u8, b: u8) {
        if !next.linked(a, b) {
            return;
        }
        next.links.retain(|pair| *pair != (a, b));
        if !self.bounds.outlast {
            next.flight.retain(|letter| (letter.from, letter.to) != (a, b) && (letter.to, letter.from) != (a, b));
        }
        for (at, peer) in [(a, b), (b, a)] {
            if next.runs(at) {
                self.give(next, at, Input::LinkDown(peer));
            }
        }
    }
}

impl Snapshot {
    /// Whether the destination of this release made the payload durable, at some time.
    fn staged(&self, release: &Release) -> bool {
        let to = place(release.to).map(|at| self.node(at));
        let staged = |record: &Record| matches!(record, Record::Staged { handoff, .. } if *handoff == release.handoff);
        to.is_some_and(|to| to.disk.journal.iter().any(staged))
    }

    pub(super) fn node(&self, at: u8) -> &Node {
        &self.nodes[usize::from(at)]
    }

    pub(super) fn runs(&self, at: u8) -> bool {
        self.node(at).custodian.is_some()
    }

    pub(super) fn linked(&self, a: u8, b: u8) -> bool {
        self.links.contains(&(a.min(b), a.max(b)))
    }
}

impl Bounds {
    fn spend(&mut self, now: &Snapshot, step: Step) {
        let frozen = |at: u8| {
            let leaving = now.node(at).custodian.as_ref().and_then(|custodian| custodian.leaving(*SESSION));
            leaving.is_some_and(|source| *source.phase() == SourcePhase::Frozen)
        };
        let spent = match step.what {
            What::Deliver { again: true, .. } => Some(&mut self.doubles),
            What::Lose { .. } => Some(&mut self.losses),
            What::Work { ship: true, .. } => Some(&mut self.rounds),
            What::Answer { yes: false, .. } | What::Cancel { .. } => Some(&mut self.refusals),
            What::Offer { .. } => Some(&mut self.offers),
            What::Turn { at } if frozen(at) => Some(&mut self.sneaks),
            What::Turn { .. } => Some(&mut self.turns),
            What::Wake { .. } => Some(&mut self.wakes),
            What::Sleep { .. } => Some(&mut self.sleeps),
            What::PowerOff { .. } => Some(&mut self.crashes),
            What::Part { .. } => Some(&mut self.cuts),
            What::Spoil { .. } => Some(&mut self.spoils),
            What::Carry { .. } => Some(&mut self.carries),
            What::Seize { .. } => Some(&mut self.seizes),
            What::Deliver { again: false, .. }
            | What::Work { ship: false, .. }
            | What::Answer { yes: true, .. }
            | What::Start { .. }
            | What::Join { .. } => None,
        };
        if let Some(spent) = spent {
            *spent = spent.saturating_sub(1);
        }
        if step.fails_after.is_some() {
            self.crashes = self.crashes.saturating_sub(1);
        }
    }
}

pub(super) fn pairs(devices: u8) -> Vec<(u8, u8)> {
    (0..devices).flat_map(|b| (0..b).map(move |a| (a, b))).collect()
}

/// The last certificate on a disk, as a letter of anybody who saw it.
fn certificate(node: &Node, by: u8, to: u8) -> Option<Letter> {
    let links: Vec<_> = node
        .disk
        .journal
        .iter()
        .filter_map(|record| match record {
            Record::Custody(link) => Some(link.clone()),
            _ => None,
        })
        .collect();
    let (last, before) = links.split_last()?;
    let release = cede_seal::verify::verify(last).is_ok_and(|link| matches!(*link, Custody::Release(_)));
    let message = PeerMessage::Release { certificate: last.clone(), chain: before.to_vec() };
    release.then(|| Letter::new(by, to, message))
}
