//! The words devices, disks and people exchange, and nothing that acts on them.
//!
//! `wire` decides how a value looks as bytes. It refuses to know sockets, disks, clocks and secrets: a
//! signature is carried here, made and checked in `cede-seal`.
//!
//! One contract: **a value has exactly one encoding.** [`canonical::decode`] accepts no other, so a hash or a
//! signature over the bytes is a hash or a signature over the value.
//!
//! Enums that reach the wire or a disk are ordered by number and only ever appended to: postcard writes a
//! variant as its position. The numbers are listed in `proto/NUMBERS.md`.
#![warn(missing_docs)]

pub mod approver;
pub mod audit;
pub mod authority;
pub mod canonical;
pub mod catalog;
pub mod control;
pub mod conversation;
pub mod custody;
pub mod frame;
pub mod handoff;
pub mod id;
pub mod letter;
pub mod limits;
pub mod member;
pub mod message;
#[cfg(test)]
mod numbers;
pub mod pairing;
pub mod path;
pub mod record;
pub mod refusal;
pub mod session;
pub mod shown;
pub mod task;
pub mod terminal;
pub mod transfer;
