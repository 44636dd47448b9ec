//! Every state of a small mesh: the real deciders, their disks and a network that loses, doubles and reorders, with a
//! budget for everything that may go wrong.
//!
//! A [`Snapshot`] is one state, a [`Step`] leads from one to the next, and a [`Mesh`] knows which steps there are. What a
//! device does with an input depends on that device alone, so it is computed once and looked up afterwards. An input and
//! all that follows from it at its device are one step, or end where the power fails: between two outputs of one device
//! another can do nothing that it could not do just before or just after.
//!
//! Time stands still but for two steps: a device sleeps until its next deadline, or past all of them. After every input
//! the custodian's moments are told from the same zero, so that states that differ by the hour alone are one.

mod bounds;
mod check;
mod hands;
mod heal;
mod letter;
mod memo;
mod mesh;
mod node;
mod snapshot;
mod step;
mod tell;
mod truth;

pub use bounds::Bounds;
pub use check::Rule;
pub use mesh::Mesh;
pub use snapshot::Snapshot;
pub use step::{Step, What};
