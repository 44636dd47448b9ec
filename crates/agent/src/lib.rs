//! Coding agents and the working tree: what a session consists of on a disk, and how it is put back on another.
//!
//! `agent` touches the vendors' files, their processes, working trees, pseudo-terminals and the `git` program. It
//! refuses to know devices, custody and the network: who may act is decided elsewhere, and said to it.
//!
//! One contract: **nothing is left out in silence, and nothing is written outside the place that was named.** What
//! cannot travel is refused before anything moves, with the reason and the cure.
//!
//! ```text
//! tree::inspect(directory)                 refuse early
//! tree::capture(&tree, &options, &cache)   entries, where their bytes lie, an inventory for people
//! chunks travel by content address
//! tree::stage(&request)                    verified, written beside the target, durable
//! tree::activate(staging)                  one rename, or a journaled plan; safe to repeat
//! ```
//!
//! Everything here blocks; callers run it on threads of their own.

pub mod adapter;
pub mod bundle;
pub mod chunk;
pub mod limits;
pub mod materialize;
mod programs;
pub mod terminal;
pub mod tree;
pub mod turns;
