//! Every bound of the core: name, value, reason.

use core::time::Duration;

/// An offer that nobody answers is withdrawn. Longer than an operator's question lives at the destination (15
/// minutes), so that the destination's own "expired" arrives first.
pub const OFFER: Duration = Duration::from_secs(16 * 60);

/// A transfer without a word from the destination is given up. Long enough for a laptop to change networks.
pub const TRANSFER_SILENCE: Duration = Duration::from_secs(10 * 60);

/// A frozen session thaws when the last delta is not committed in this time: the person's agent waits.
pub const FREEZE: Duration = Duration::from_secs(120);

/// First and longest pause between two sendings of a release. Source: the fault table, "back-off at most 5 s".
pub const RELEASE_FIRST: Duration = Duration::from_millis(250);
/// See [`RELEASE_FIRST`].
pub const RELEASE_LONGEST: Duration = Duration::from_secs(5);

/// Pause between two repetitions of an acknowledgement that nobody answered.
pub const ACK_REPEAT: Duration = Duration::from_secs(5);

/// An approval whose payload does not come is discarded.
pub const RECEIVING_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// A stage whose release does not come is discarded; the release still finds its way to a designate.
pub const STAGED_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Ended attempts remembered per session, so that a discard is sticky.
pub const ENDED_ATTEMPTS: usize = 1_024;

/// Handoffs in flight per device, both directions.
pub const HANDOFFS: usize = 64;
