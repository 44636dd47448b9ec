//! What must be true, written as plainly as possible, by an observer who sees every disk at once.

use cede_wire::custody::{Custody, FencingToken, Release};

use super::check::Rule;
use super::node::{Effect, place};
use crate::world::device::head;

/// One generation: what became of the session since it was adopted, or seized.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Lineage {
    pub(super) generation: u64,
    /// The device that may act; none between a durable release and a durable activation.
    pub(super) active: Option<u8>,
    /// Whom the last release names.
    pub(super) named: u8,
    pub(super) token: FencingToken,
    /// Every turn that was ever committed, in order.
    pub(super) committed: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// By generation. The owner of an older one acts until it hears of the next.
    pub(super) lineages: Vec<Lineage>,
    /// Who held which token. Each has one holder for ever.
    pub(super) holders: Vec<(FencingToken, u8)>,
    /// Turns of all lineages.
    pub(super) turns: u64,
}

type Observed = Result<(), (Rule, String)>;

impl Truth {
    pub(super) fn first() -> Self {
        let token = FencingToken::FIRST;
        let first = Lineage { generation: 0, active: Some(0), named: 0, token, committed: vec![1] };
        Self { lineages: vec![first], holders: vec![(token, 0)], turns: 1 }
    }

    pub(super) fn of(&self, generation: u64) -> Option<&Lineage> {
        self.lineages.iter().find(|lineage| lineage.generation == generation)
    }

    /// The generation that stays.
    pub(super) fn newest(&self) -> &Lineage {
        self.lineages.last().expect("one lineage")
    }

    pub(super) fn commit(&mut self, generation: u64, turn: u64) {
        self.turns = turn;
        if let Some(lineage) = self.lineages.iter_mut().find(|lineage| lineage.generation == generation) {
            lineage.committed.push(turn);
        }
    }

    pub(super) fn observe(&mut self, at: u8, effect: &Effect) -> Observed {
        match effect {
            Effect::Sent(_) => Ok(()),
            Effect::Broken(rule, what) => Err((*rule, what.clone())),
            Effect::Linked(link) => self.linked(link),
            Effect::Seized { token, turns } => self.seized(at, *token, turns),
            Effect::Decided { release, log, captured } => {
                self.lineage(release.token)?.decided(at, release, log, captured.as_deref())
            }
            Effect::Activated { token, again } => self.lineage(*token)?.activated(at, *again),
        }
    }

    fn lineage(&mut self, token: FencingToken) -> Result<&mut Lineage, (Rule, String)> {
        let found = self.lineages.iter_mut().find(|lineage| lineage.generation == token.generation);
        found.ok_or((Rule::Tokens, "a generation that nobody began".to_owned()))
    }

    fn linked(&mut self, link: &Custody) -> Observed {
        let (token, owner) = (link.token(), place(link.owner()).unwrap_or(u8::MAX));
        match self.holders.iter().find(|(known, _)| *known == token) {
            Some((_, holder)) if *holder == owner => Ok(()),
            Some(_) => broken(Rule::Tokens, "one token has two holders"),
            None => {
                self.holders.push((token, owner));
                self.holders.sort_unstable();
                Ok(())
            }
        }
    }

    fn seized(&mut self, at: u8, token: FencingToken, turns: &[u64]) -> Observed {
        let generation = token.generation;
        if generation <= self.newest().generation {
            return broken(Rule::Tokens, "a seize does not raise the generation");
        }
        self.lineages.push(Lineage { generation, active: Some(at), named: at, token, committed: turns.to_vec() });
        Ok(())
    }
}

impl Lineage {
    /// The decision of a handoff: one record on the owner's disk.
    fn decided(&mut self, at: u8, release: &Release, log: &[u64], captured: Option<&[u64]>) -> Observed {
        if release.next_token <= self.token {
            return broken(Rule::Tokens, "a release does not raise the token");
        }
        if self.active != Some(at) {
            return broken(Rule::OneOwner, "a device that is not the owner releases");
        }
        if log != self.committed || head(log) != release.head {
            return broken(Rule::AllTurns, "the source decides without all turns");
        }
        if captured != Some(&self.committed) {
            return broken(Rule::Copies, "the source decides without a pinned copy");
        }
        let Some(to) = place(release.to) else { return broken(Rule::OneOwner, "a release to nobody") };
        (self.active, self.named, self.token) = (None, to, release.next_token);
        Ok(())
    }

    fn activated(&mut self, at: u8, again: bool) -> Observed {
        // A seize with a staged payload is an activation, too.
        if self.active == Some(at) && (again || self.token.epoch == 0 && self.generation > 0) {
            return Ok(());
        }
        if self.active.is_some() {
            return broken(Rule::OneOwner, "a device becomes active while another is");
        }
        if self.named != at {
            return broken(Rule::OneOwner, "a device becomes active that no release names");
        }
        self.active = Some(at);
        Ok(())
    }
}

fn broken(rule: Rule, what: &str) -> Observed {
    Err((rule, what.to_owned()))
}
