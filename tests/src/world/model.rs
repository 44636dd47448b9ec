//! What must be true, written as plainly as possible.

use cede_wire::custody::FencingToken;
use cede_wire::session::SessionKey;
use std::collections::BTreeMap;

/// One session, as an observer sees it who sees every disk at once.
pub(super) struct Model {
    pub(super) key: SessionKey,
    /// The device that may act; none between a durable release and a durable activation.
    pub(super) active: Option<usize>,
    /// Whom the last release names.
    pub(super) named: usize,
    pub(super) token: FencingToken,
    /// Who held which token. Each has one holder for ever.
    pub(super) holders: BTreeMap<FencingToken, usize>,
    /// Every turn that was ever committed, in order.
    pub(super) committed: Vec<u64>,
    /// Whether a chain exists.
    pub(super) moved: bool,
}

impl Model {
    pub(super) fn new(key: SessionKey, owner: usize) -> Self {
        Self {
            key,
            active: Some(owner),
            named: owner,
            token: FencingToken::FIRST,
            holders: BTreeMap::from([(FencingToken::FIRST, owner)]),
            committed: Vec::new(),
            moved: false,
        }
    }
}
