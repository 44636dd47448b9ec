//! The working tree: a plain directory or a git work tree, captured here, staged and activated there.
//!
//! Git is spoken to through the `git` program only, and a received repository is built anew: objects are indexed
//! and checked, references pass an allow-list, nothing that git would execute is carried.

mod baseline;
mod capture;
mod inspect;
mod stage;

pub use activate::{ActivateError, Activated, activate, discard};
pub use baseline::{Baseline, CompareError, verify_equal};
pub use capture::{Capture, CaptureError, CaptureOptions, capture};
pub use inspect::{GitTree, Tree, TreeRefusal, inspect};
pub use stage::{ReadChunk, StageError, StageRequest, Staged, free_target, stage};

mod activate;
