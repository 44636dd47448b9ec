//! What of a payload is here already: chunks received before, and files of an earlier visit.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use cede_agent::chunk::{SourceFiles, chunk_bytes};
use cede_agent::tree::{Baseline, CompareError, ReadChunk, is_record, record_files, root_of, verify_equal};
use cede_store::objects::ObjectError;
use cede_store::stage::Stage;
use cede_wire::catalog::{Catalog, Entry, Place};
use cede_wire::id::{ChunkId, SessionId};
use cede_wire::record::PlacedSession;

use crate::context::Context;
use crate::payload::Wanted;
use crate::receiving::FetchError;

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

/// The session's last visit: what it held, and where that lies now: the tree's and the conversation's files, the
/// repository's records that were sent from here, and the catalog itself.
pub(crate) struct Visit {
    pub(crate) baseline: Baseline,
    pub(crate) files: SourceFiles,
    pub(crate) root: PathBuf,
}

/// Finds the last visit of a session; none where this device has nothing of it. Blocks.
///
/// # Errors
/// What stands here cannot be read now: it must not be taken for something else.
pub(crate) fn last_visit(context: &Context, placed: &PlacedSession) -> Result<Option<Visit>, FetchError> {
    let Some(hash) = placed.root else { return Ok(None) };
    let bytes = match context.objects.get(&hash) {
        Ok(bytes) => bytes,
        Err(ObjectError::Corrupt(_)) => None,
        Err(error) => return Err(FetchError::CannotPlace(format!("the last visit here cannot be read: {error}"))),
    };
    let Some(bytes) = bytes else { return Ok(None) };
    let Ok(catalog) = Catalog::from_bytes(&bytes) else { return Ok(None) };
    let root = match root_of(&crate::sessions::path_of(&placed.directory)) {
        Ok(root) => root,
        Err(unread) if unread.is_of_the_world() => return Err(FetchError::CannotPlace(unread.to_string())),
        Err(_) => return Ok(None),
    };
    let (spoken, records) = (spoken(context, placed), record_files(&kept_records(context, placed.key.id())));
    let local = |entry: &Entry| match entry.place {
        Place::Tree => Some(root.join(relative(entry))),
        Place::Transcript => spoken.get(entry.path.as_bytes()).cloned(),
        Place::Git => records(entry),
    };
    let itself = (context.objects.file(&hash), chunk_bytes(&bytes));
    let files = catalog.entries.iter().filter_map(|entry| Some((local(entry)?, entry.chunks())));
    let files = files.chain([(itself.0, itself.1.as_slice())]);
    let files = SourceFiles::collect(files.filter(|(_, chunks)| !chunks.is_empty()));
    let kept = Wanted::kept(context, placed.key.id())
        .map_err(|error| FetchError::CannotPlace(format!("how it left here cannot be read: {error}")))?;
    let exclude = kept.map(|wanted| wanted.exclude).unwrap_or_default();
    Ok(Some(Visit { baseline: Baseline::of(&catalog.entries).leaving(&exclude, true), files, root }))
}

/// What of a session's tree is not as it was last captured; none where it is, or that is not known. Blocks.
pub(crate) fn changed_since(context: &Context, placed: &PlacedSession) -> Option<Vec<String>> {
    let id = placed.key.id();
    let visit = last_visit(context, placed).ok()??;
    let (mut cache, _) = crate::payload::load_cache(context, &format!("{id}.tree"));
    let scratch = context.place("scratch", &id.to_string()).join("compare");
    let capturing = context.capturing(id);
    let _held = capturing.lock().unwrap_or_else(PoisonError::into_inner);
    let compared = verify_equal(&visit.root, &visit.baseline, &scratch, &mut cache);
    // Nothing depends on it.
    let _ = std::fs::remove_dir_all(&scratch);
    match compared {
        Err(CompareError::Differs(paths)) => Some(paths),
        Ok(()) | Err(CompareError::Capture(_)) => None,
    }
}

/// Where a capture leaves what it made of a repository.
pub(crate) fn records_of(context: &Context, session: SessionId) -> PathBuf {
    context.place("scratch", &session.to_string()).join("git")
}

/// Where the records of a session's last departure lie.
fn kept_records(context: &Context, session: SessionId) -> PathBuf {
    context.place("records", &session.to_string())
}

/// Keeps a departure's small records for the way back, where they need not be sent again, and forgets what else was
/// captured. Nothing depends on them. `over`: the move that is over; what a later one captures is not touched. Blocks.
pub(crate) fn keep_records(context: &Context, session: SessionId, over: Option<u64>) {
    let capturing = context.capturing(session);
    let _held = capturing.lock().unwrap_or_else(PoisonError::into_inner);
    // A move is known before it captures, and its capture waits for this.
    let again = context.ask(move |actor| actor.leaves_again(session, over));
    if tokio::runtime::Handle::current().block_on(again) != Ok(false) {
        return;
    }
    let (made, kept) = (records_of(context, session), kept_records(context, session));
    let _ = std::fs::remove_dir_all(&kept);
    if std::fs::create_dir_all(&kept).is_ok() {
        for file in std::fs::read_dir(&made).into_iter().flatten().flatten() {
            if is_record(&file.file_name()) {
                let _ = std::fs::rename(file.path(), kept.join(file.file_name()));
            }
        }
    }
    let _ = std::fs::remove_dir_all(context.place("scratch", &session.to_string()));
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
