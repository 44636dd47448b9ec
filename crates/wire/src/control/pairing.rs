//! Steps of a pairing, as the one who waits hears them.

use serde::{Deserialize, Serialize};

/// A step of a pairing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum PairingEvent {
    /// Show these on the trusted device.
    Words {
        /// The words.
        words: String,
        /// The line to paste on the new device.
        command: String,
        /// Seconds until they expire.
        expires_in_s: u64,
    },
    /// A device knew the words: compare and confirm.
    Compare {
        /// The string that both devices show.
        comparison: String,
        /// The name that the other device claims.
        name: String,
        /// Whether the answer is given here.
        confirm_here: bool,
    },
}
