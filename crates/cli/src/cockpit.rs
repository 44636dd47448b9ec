//! `cede` alone: one screen on which everything is seen and answered.
//!
//! It decides what a key means and what is shown. It refuses to know what the daemon knows not to say: each act is the
//! request that the command of the same name makes.
//!
//! One contract: see [`state`].
//!
//! The loop:
//! 1. [`news`] asks the daemon, [`keys`] reads the keyboard;
//! 2. [`state`] takes one of them;
//! 3. [`frame`] makes the screen of it, [`painter`] draws what changed;
//! 4. [`state`] hears what was drawn;
//! 5. [`acts`] does what a key asked for, which is news when it ends.

mod acts;
#[cfg(feature = "decoders")]
pub(crate) mod decoder;
mod frame;
mod keys;
mod news;
mod painter;
mod seen;
mod state;
mod window;

use std::time::Duration;

pub(crate) use window::run;

/// A yes before something stood on the screen for this long is none.
const ARM: Duration = Duration::from_millis(700);
/// A question that waits for this long calls the person.
const CALL_AFTER: Duration = Duration::from_secs(2);
