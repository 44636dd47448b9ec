//! The only place that may say "durable".
//!
//! `store` touches one directory, [`home::Home`], and nothing else. It refuses to know what a record means, who a
//! peer is, and what time it is.
//!
//! One contract: **[`journal::Durable`] exists only after the disk said so.** Whatever a record permits, waits for it.
//!
//! - [`journal::Journal`] is the truth: append-only, chained, one writer, many commits per flush.
//! - [`stage::Stage`] holds the chunks of one incoming handoff until they are installed or discarded.
//! - [`objects::Objects`] holds whole values by their hash: catalogs, mostly.
//! - [`audit::AuditLog`] holds what was decided, in a chain with signed checkpoints.
//! - [`index::Index`] is a convenience. It is thrown away whenever it could be wrong, and rebuilt from the others.
//!
//! ```no_run
//! use cede_store::{home::Home, journal::{Condition, Journal}};
//! use cede_wire::{id::SessionId, record::Record};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let home = Home::open("/var/lib/cede".as_ref())?;
//! let (journal, replay) = Journal::open(&home)?;
//! if let Condition::Damaged { offset } = replay.condition {
//!     return Err(format!("damaged at {offset}: nothing is decided here until the operator has looked").into());
//! }
//! let lifted = Record::FenceLifted { session: SessionId::new([7; 16]) };
//! let durable = journal.commit(vec![lifted])?; // only now may the agent's store be opened again
//! # drop(durable);
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

pub mod audit;
mod crc;
pub mod disk;
#[cfg(test)]
mod figures;
pub mod home;
pub mod index;
pub mod journal;
#[cfg(test)]
mod killed;
pub mod limits;
pub mod objects;
pub mod stage;
#[cfg(test)]
mod tmpfs;
