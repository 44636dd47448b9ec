//! What a forced take-over would mean.

use serde::{Deserialize, Serialize};

use crate::custody::FencingToken;
use crate::id::SessionId;

/// What a forced take-over would mean: shown before it happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeizePlan {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: String,
    /// Name of the owner, as far as it is known here.
    pub owner: String,
    /// Whether the owner is connected now.
    pub owner_connected: bool,
    /// When a link to the owner ended last, milliseconds since 1970; none: not since this daemon started.
    pub owner_seen_unix_ms: Option<u64>,
    /// Number of the last turn of the copy here.
    pub turn: u64,
    /// Bytes of its turn log.
    pub bytes: u64,
    /// Where the copy comes from, in words.
    pub copy: String,
    /// What would stay behind on a branch at the old owner, in words.
    pub left_behind: String,
    /// How many other devices must agree.
    pub votes: usize,
    /// The devices that can be asked.
    pub voters: Vec<String>,
    /// The token under which this device would act.
    pub token: FencingToken,
}
