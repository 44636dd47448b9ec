//! One state of the whole mesh.

use core::hash::{Hash, Hasher};
use std::sync::Arc;

use super::bounds::Bounds;
use super::check::Rule;
use super::letter::{Digest, Letter};
use super::node::Node;
use super::truth::Truth;

/// Devices, lines, what travels, what may still happen, and the truth about it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) nodes: Vec<Arc<Node>>,
    /// Sorted: the network keeps no order. What is said twice while it is on the line is there once; that it comes twice is
    /// a step of its own.
    pub(super) flight: Vec<Letter>,
    /// Pairs that are linked.
    pub(super) links: Vec<(u8, u8)>,
    pub(super) left: Bounds,
    pub(super) attempts: u8,
    pub(super) spoils: u8,
    pub(super) truth: Truth,
    pub(super) broken: Option<(Rule, String)>,
}

impl Snapshot {
    /// The rule that is broken here, with words.
    pub fn broken(&self) -> Option<(Rule, &str)> {
        self.broken.as_ref().map(|(rule, what)| (*rule, what.as_str()))
    }

    /// How often the session was handed over and arrived, in the generation that stays.
    pub fn moves(&self) -> u64 {
        let newest = self.truth.newest();
        if newest.active.is_some() { newest.token.epoch } else { 0 }
    }

    pub(super) fn spoiled(&self) -> bool {
        self.spoils > 0
    }

    /// Everything but what may still happen.
    pub(super) fn core(&self) -> Digest {
        let mut bytes = Vec::with_capacity(256);
        self.nodes.iter().for_each(|node| bytes.extend(node.digest.to_le_bytes()));
        self.flight.iter().for_each(|letter| bytes.extend(letter.digest.to_le_bytes()));
        self.links.iter().for_each(|(a, b)| bytes.extend([0xff, *a, *b]));
        bytes.extend(format!("{:?}", self.truth).into_bytes());
        super::letter::digest(&bytes)
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.left == other.left
            && self.attempts == other.attempts
            && self.spoils == other.spoils
            && self.links == other.links
            && self.flight == other.flight
            && self.truth == other.truth
            && self.broken == other.broken
            && self.nodes.len() == other.nodes.len()
            && self.nodes.iter().zip(&other.nodes).all(|(a, b)| a.digest == b.digest)
    }
}

impl Eq for Snapshot {}

impl Hash for Snapshot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nodes.iter().for_each(|node| node.digest.hash(state));
        (&self.flight, &self.links, &self.left, self.attempts, self.spoils, &self.truth).hash(state);
        self.broken.as_ref().map(|(rule, _)| rule).hash(state);
    }
}
