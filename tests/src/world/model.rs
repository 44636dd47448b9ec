//! What must be true, written as plainly as possible.

use cede_wire::custody::FencingToken;
use cede_wire::session::SessionKey;
use std::collections::BTreeMap;

/// One session, as an observer sees it who sees every disk at once.
pub(super) struct Model {
    pub(super) key: SessionKey,
    /// What happened in each generation: a seize begins another one, and the old one goes on until its owner hears of it.
    pub(super) lines: BTreeMap<u64, Line>,
    /// Who held which token. Each has one holder for ever.
    pub(super) holders: BTreeMap<FencingToken, usize>,
    /// Whether a chain exists.
    pub(super) moved: bool,
}

/// One generation.
pub(super) struct Line {
    /// The device that may act; none between a durable release and a durable activation.
    pub(super) active: Option<usize>,
    /// Whom the last release or the seize names.
    pub(super) named: usize,
    pub(super) token: FencingToken,
    /// Every turn that was ever committed, in order.
    pub(super) committed: Vec<u64>,
}

impl Model {
    pub(super) fn new(key: SessionKey, owner: usize) -> Self {
        let first = Line { active: Some(owner), named: owner, token: FencingToken::FIRST, committed: Vec::new() };
        Self {
            key,
            lines: BTreeMap::from([(0, first)]),
            holders: BTreeMap::from([(FencingToken::FIRST, owner)]),
            moved: false,
        }
    }

    /// The highest generation: the one that will be left.
    pub(super) fn newest(&self) -> &Line {
        self.lines.values().next_back().expect("a first generation")
    }
}
