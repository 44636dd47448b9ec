//! A directory for what is needed only during one call.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::adapter::{AgentError, durable};

/// The directory; it goes away with the value.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Scratch {
    pub(super) fn new(state: &Path) -> Result<Self, AgentError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = state.join("scratch").join(format!("{}-{number}", std::process::id()));
        durable::ensure_directory(&directory)?;
        Ok(Self { directory })
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is below the state directory and nobody reads it.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
