//! Files and folders that a person sends to another device: read here, written there beside what is there already.
//!
//! Nothing in them acts: no link travels, no repository's own records, no bit but that a file may be run. What came lies
//! in a directory of its own until it is whole; then one rename gives it its name, and never the name of something else.

mod gather;
mod place;

pub use gather::{Bundle, GatherError, as_offered, gather, shown, sources_of};
pub use place::{PlaceError, Tamed, discard, finish, is_spent, write};
