//! Which attempts are over, and which were approved: bounded memories of ids.

use std::collections::VecDeque;

use cede_wire::id::{HandoffId, Hash};

use crate::limits;

/// Attempts that are dead for ever. The oldest are forgotten first. Source: SPEC H-11.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    ids: VecDeque<HandoffId>,
    most: usize,
}

impl Ended {
    pub(super) fn new(most: usize) -> Self {
        Self { ids: VecDeque::new(), most }
    }

    pub(super) fn push(&mut self, handoff: HandoffId) {
        if self.contains(handoff) {
            return;
        }
        if self.ids.len() >= self.most {
            self.ids.pop_front();
        }
        self.ids.push_back(handoff);
    }

    pub(super) fn contains(&self, handoff: HandoffId) -> bool {
        self.ids.contains(&handoff)
    }
}

/// What became of the attempts of one session.
#[derive(Debug, Clone)]
pub(super) struct Attempts {
    pub(super) ended: Ended,
    approved: VecDeque<(HandoffId, Hash)>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { ended: Ended::new(limits::ENDED_ATTEMPTS), approved: VecDeque::new() }
    }
}

impl Attempts {
    pub(super) fn approve(&mut self, handoff: HandoffId, scope: Hash) {
        if self.approved.len() >= limits::ENDED_ATTEMPTS {
            self.approved.pop_front();
        }
        self.approved.push_back((handoff, scope));
    }

    /// The scope that was approved for this attempt.
    pub(super) fn approval(&self, handoff: HandoffId) -> Option<Hash> {
        self.approved.iter().rev().find(|(known, _)| *known == handoff).map(|(_, scope)| *scope)
    }
}
