//! What must be true, written as plainly as possible, by an observer who sees every disk at once.

use cede_wire::custody::{Custody, FencingToken, Release};

use super::check::Rule;
use super::node::{Effect, place};
use crate::world::device::head;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// The device that may act; none between a durable release and a durable activation.
    pub(super) active: Option<u8>,
    /// Whom the last release names.
    pub(super) named: u8,
    pub(super) token: FencingToken,
    /// Who held which token. Each has one holder for ever.
    pub(super) holders: Vec<(FencingToken, u8)>,
    /// Every turn that was ever committed, in order.
    pub(super) committed: Vec<u64>,
}

impl Truth {
    pub(super) fn first() -> Self {
        let token = FencingToken::FIRST;
        Self { active: Some(0), named: 0, token, holders: vec![(token, 0)], committed: vec![1] }
    }

    pub(super) fn observe(&mut self, at: u8, effect: &Effect) -> Result<(), (Rule, String)> {
        match effect {
            Effect::Sent(_) => Ok(()),
            Effect::Broken(rule, what) => Err((*rule, what.clone())),
            Effect::Linked(link) => self.linked(link),
            Effect::Decided { release, log, captured } => self.decided(at, release, log, captured.as_deref()),
            Effect::Activated { again } => self.activated(at, *again),
        }
    }

    fn linked(&mut self, link: &Custody) -> Result<(), (Rule, String)> {
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

    /// The decision of a handoff: one record on the owner's disk.
    fn decided(
        &mut self,
        at: u8,
        release: &Release,
        log: &[u64],
        captured: Option<&[u64]>,
    ) -> Result<(), (Rule, String)> {
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

    fn activated(&mut self, at: u8, again: bool) -> Result<(), (Rule, String)> {
        if self.active == Some(at) && again {
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

fn broken(rule: Rule, what: &str) -> Result<(), (Rule, String)> {
    Err((rule, what.to_owned()))
}
