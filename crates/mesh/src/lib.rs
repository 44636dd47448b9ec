//! Who is a peer: the membership log, pairing, and who may come in.
//!
//! `mesh` decides which devices belong together and what each may ask. It refuses to know sockets, disks, clocks and
//! whose a session is.
//!
//! One contract: **one input, then drain; nothing after a `Persist` leaves until that batch is durable.**
//! A pairing machine is driven like this:
//! 1. a command or a frame goes in, with the time and, where it is asked for, random bytes;
//! 2. [`pairing::Output`]s are taken until there are none: store, send, close, tell;
//! 3. the next call is due when something happens or at `poll_timeout`.
#![warn(missing_docs)]

pub mod admission;
pub mod limits;
pub mod membership;
pub mod name;
pub mod now;
pub mod pairing;
