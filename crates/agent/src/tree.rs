//! The working tree: a plain directory or a git work tree, captured here, staged and activated there.
//!
//! Git is spoken to through the `git` program only, and a received repository is built anew: objects are indexed
//! and checked, references pass an allow-list, nothing that git would execute is carried.

mod activate;
mod aside;
mod baseline;
mod capture;
#[cfg(feature = "decoders")]
pub mod decoder;
mod git;
mod globs;
mod inspect;
mod inventory;
mod locks;
mod names;
mod pack;
mod plan;
mod repository;
mod restore;
mod stage;
mod state;
mod survey;
mod write;

pub use crate::materialize::ReadChunk;
pub use activate::{ActivateError, Activated, activate, discard, open_up};
pub use aside::{AsideError, set_aside};
pub use baseline::{Baseline, CompareError, verify_equal};
pub use capture::{Capture, CaptureError, CaptureOptions, capture, capture_at, is_record, record_files};
pub use globs::check as check_patterns;
pub(crate) use globs::prefixes;
pub use inspect::{GitTree, Located, Tree, TreeRefusal, identify, inspect, locate, root_of};
pub use inventory::Names;
pub(crate) use names::is_secret_looking;
pub use stage::{StageError, StageRequest, Staged, free_target, remember_staged, stage};
pub(crate) use stage::{check, directory_modes, directory_of};
pub(crate) use survey::USUAL_DIRECTORY_MODE;
pub(crate) use write::{Content, Job, write_all};

#[cfg(test)]
mod tests;
