//! What travels, known by its digest.

use core::hash::{Hash, Hasher};
use std::sync::Arc;

use cede_wire::canonical::encode;
use cede_wire::message::PeerMessage;

/// 128 bits of BLAKE3: nobody attacks these.
pub(super) type Digest = u128;

pub(super) fn digest(bytes: &[u8]) -> Digest {
    let mut half = [0; 16];
    half.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    Digest::from_le_bytes(half)
}

/// A message from one device to another.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) message: Arc<PeerMessage>,
    pub(super) digest: Digest,
}

impl Letter {
    pub(super) fn new(from: u8, to: u8, message: PeerMessage) -> Self {
        let digest = digest(&[&[from, to][..], &encode(&message)].concat());
        Self { from, to, message: Arc::new(message), digest }
    }

    pub(super) fn words(&self) -> String {
        let said = format!("{:?}", self.message);
        let word: String = said.chars().take_while(|c| c.is_alphanumeric()).collect();
        format!("{} {} → {}", word, self.from, self.to)
    }
}

impl PartialEq for Letter {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Letter {}

impl Hash for Letter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}
