//! Secrets, and what only their holder can do: sign, agree on keys, seal and open.
//!
//! `seal` decides whether bytes are what a device signed and whether a stream is what its sender sealed. It is the
//! only maker of [`verify::Verified`], so a value of that type is evidence. It refuses to know sockets, disks,
//! clocks and the operating system's randomness: random bytes are arguments.
//!
//! One contract: **nothing is parsed before it verifies, and nothing leaves an opener before its seal holds.**
#![warn(missing_docs)]

pub mod button;
pub mod chunk;
pub mod device;
pub mod exchange;
pub mod limits;
pub mod pake;
pub mod stream;
pub mod verify;

#[cfg(test)]
mod primitives;
#[cfg(test)]
mod vectors;
