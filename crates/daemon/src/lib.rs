//! The meeting place: clock, event loop, wiring, lifecycle. It decides nothing that another crate decides.
//!
//! One task owns the deciders (custody, membership, pairing) and drains them in order; nothing leaves after a
//! `Persist` before that batch is durable. Hands work elsewhere: links in tasks of their own, files and agents on
//! blocking threads. They come back as inputs.
//!
//! ```text
//!   control socket ─┐                      ┌─ journal (durable before anything below)
//!   links ──────────┼─► inputs ─► actor ───┼─ links
//!   hands ──────────┘   (one at a time)    └─ hands: capture, fence, send, receive, install
//! ```

mod activation;
mod actor;
mod approvals;
mod approvers;
mod arriving;
mod audit;
mod authorities;
mod base;
mod branches;
mod clock;
mod commands;
mod compaction;
mod context;
mod control;
mod conversations;
#[cfg(feature = "decoders")]
pub mod decoders;
mod doctor;
mod doubts;
mod elsewhere;
mod errands;
mod fences;
mod hands;
mod hearing;
mod leaving;
mod letters;
mod limits;
mod listings;
mod mirrors;
mod moves;
mod notices;
mod offering;
mod options;
mod pairing;
mod payload;
mod peers;
mod persons;
mod receiving;
mod rules;
mod run;
mod scrutiny;
mod seizing;
mod sending;
mod sessions;
mod spoken;
mod status;
mod succession;
mod take;
mod tasks;
mod terminals;
mod transfers;
mod withdrawing;
mod witness;

pub use actor::LoopError;
pub use cede_agent::adapter::{Surroundings, recorded};
pub use cede_store::home::OpenError;
pub use clock::NoRandomness;
pub use control::SocketError;
pub use limits::APPROVAL as LONGEST_QUESTION;
pub use limits::RECEIVE_BYTES;
pub use options::Options;
pub use run::{RunError, Up, run};
