//! Who may act. For every session of one device: whether this device is in charge, and how charge changes hands.
//!
//! The core decides; it refuses to know disks, sockets, agents, clocks and chance. Time and random ids are
//! arguments, files and chunks are somebody else's. Rules: `SPEC.md`, section H.
//!
//! One contract: **one input, then drain; nothing after a `Persist` leaves before that batch is durable.**
//!
//! ```text
//! loop {
//!     custodian.handle_message(peer, &message, now);      // or a command, or handle_timeout(now)
//!     while let Some(output) = custodian.poll() {         // in order
//!         match output {
//!             Persist(batch) => journal.commit(batch)?,   // durable before anything below
//!             Send(peer, message) => links.send(peer, message),
//!             Tell(event) => hands.tell(event),
//!             Wake(at, why) => clock.wake(at, why),
//!         }
//!     }
//! }
//! ```
//!
//! The decision of a handoff is one durable write on one disk: the owner's. [`source::HandoffSource::commit`]
//! makes the certificate that is written; no other path leads away from ownership.
#![warn(missing_docs)]

pub mod audit;
pub mod authority;
pub mod chain;
pub mod custodian;
pub mod destination;
pub mod electorate;
pub mod lease;
pub mod ledger;
pub mod limits;
pub mod now;
pub mod output;
pub mod source;
pub mod succession;
pub mod tasks;
pub mod transfers;
