//! Who may come in: asked by the carrier, answered by the daemon.

use cede_wire::id::DeviceKey;

/// The daemon's answer to a key at the door. Called within the handshake: it looks at memory and returns at once.
pub trait Gate: Send + Sync + 'static {
    /// Whether this key is a member's, now.
    fn admits(&self, key: &DeviceKey) -> bool;

    /// Whether a stranger may pair, now.
    fn pairing_open(&self) -> bool;
}
