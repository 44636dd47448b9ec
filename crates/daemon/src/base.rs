//! What of a payload is here already: chunks received before, and files of an earlier visit.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use cede_agent::chunk::SourceFiles;
use cede_agent::tree::{Baseline, ReadChunk, inspect};
use cede_store::stage::Stage;
use cede_wire::catalog::{Catalog, Entry, Place};
use cede_wire::id::ChunkId;
use cede_wire::record::PlacedSession;

use crate::context::Context;
use crate::payload::Wanted;

/// The chunks of this attempt, of earlier ones, and of the session's last visit.
#[derive(Clone)]
pub(crate) struct Chunks {
    pub(crate) stage: Arc<Stage>,
    pub(crate) older: Vec<Arc<Stage>>,
    pub(crate) files: Arc<SourceFiles>,
}

impl Chunks {
    /// Whether a chunk need not be sent. A file of the last visit is believed here and checked when it is read.
    pub(crate) fn has(&self, id: &ChunkId) -> bool {
        self.stage.has(id) || self.older.iter().any(|stage| stage.has(id)) || self.files.contains(id)
    }

    /// Forgets the files of the last visit: one of them is no longer what it was.
    pub(crate) fn without_files(&self) -> Self {
        Self { files: Arc::new(SourceFiles::default()), ..self.clone() }
    }
}

impl ReadChunk for Chunks {
    fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> io::Result<()> {
        if self.stage.has(id) {
            return self.stage.read(id, into).map_err(io::Error::other);
        }
        if let Some(stage) = self.older.iter().find(|stage| stage.has(id)) {
            return stage.read(id, into).map_err(io::Error::other);
        }
        self.files.read(id, into).map_err(io::Error::other)
    }
}

/// The session's last visit: its catalog, and where its files lie now.
pub(crate) struct Visit {
    pub(crate) baseline: Baseline,
    pub(crate) files: SourceFiles,
    pub(crate) root: PathBuf,
}

/// Finds the last visit of a session. Blocks.
pub(crate) fn last_visit(context: &Context, placed: &PlacedSession) -> Option<Visit> {
    let bytes = context.objects.get(&placed.root?).ok()??;
    let catalog = Catalog::from_bytes(&bytes).ok()?;
    let root = inspect(&crate::sessions::path_of(&placed.directory)).ok()?.root;
    let spoken = spoken(context, placed);
    let local = |entry: &Entry| match entry.place {
        Place::Tree => Some(root.join(relative(entry))),
        Place::Transcript => spoken.get(entry.path.as_bytes()).cloned(),
        Place::Git => None,
    };
    let files = catalog.entries.iter().filter_map(|entry| Some((local(entry)?, entry.chunks())));
    let files = SourceFiles::collect(files.filter(|(_, chunks)| !chunks.is_empty()));
    let exclude = Wanted::kept(context, placed.key.id()).map(|wanted| wanted.exclude).unwrap_or_default();
    Some(Visit { baseline: Baseline::of(&catalog.entries).leaving(&exclude, true), files, root })
}

/// Where the conversation's files lie, by their logical paths.
fn spoken(context: &Context, placed: &PlacedSession) -> BTreeMap<Vec<u8>, PathBuf> {
    let scratch = context.place("scratch", &placed.key.id().to_string());
    let capturing = context.capturing(placed.key.id());
    let _held = capturing.lock().unwrap_or_else(PoisonError::into_inner);
    let captured = std::fs::create_dir_all(&scratch)
        .ok()
        .and_then(|()| context.adapter(placed.key.agent)?.capture(&placed.key.native, &scratch).ok());
    let files = captured.map(|transcript| transcript.files).unwrap_or_default();
    files.into_iter().map(|file| (file.path.as_bytes().to_vec(), file.local)).collect()
}

fn relative(entry: &Entry) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(entry.path.as_bytes()))
}
