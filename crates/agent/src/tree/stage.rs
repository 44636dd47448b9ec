//! Writes a payload beside its target, verified and durable, and touches nothing else.

mod again;
mod in_place;
mod written;

pub(crate) use in_place::stat_below;
pub use written::remember_staged;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cede_wire::catalog::{Body, Entry, Place};
use cede_wire::id::ChunkId;
use cede_wire::limits::CATALOG_ENTRIES;
use cede_wire::path::escape;

use super::git::Git;
use super::globs::prefixes;
use super::plan::{Kind, Plan, TREE};
use super::restore::{self, Records};
use super::survey::USUAL_DIRECTORY_MODE;
use super::write::{Content, Job, write_all};
use super::{Baseline, Capture, CaptureError, CompareError, Tree, TreeRefusal, inspect};
use crate::chunk::{StatCache, shown};
use crate::limits::{FREE_BYTES_LEFT, FREE_NAMES};
use crate::materialize::beneath::{found, is_there, open_root};
use crate::materialize::{ReadChunk, Writer};

/// What to stage, and where.
pub struct StageRequest<'a> {
    /// The catalog's entries; those of the transcript are skipped.
    pub entries: &'a [Entry],
    /// Their content.
    pub chunks: &'a dyn ReadChunk,
    /// A directory to create, on the file system of the target. A stage of the same name that was not activated
    /// is brought up to date where that is possible, else replaced.
    pub staging: &'a Path,
    /// Where the tree is to stand: absolute.
    pub target: &'a Path,
    /// The last handoff state of the target, where it is one's own work from before.
    pub baseline: Option<&'a Baseline>,
    /// Hashes of the target's files, where a capture left some; asked for only where there is something to compare.
    pub cache: &'a dyn Fn() -> StatCache,
    /// A clone on this machine whose commits were named as had.
    pub local_clone: Option<&'a Path>,
}

/// What a stage is going to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// True: an existing directory is brought up to date; false: a new one appears.
    pub in_place: bool,
    /// Where the session will run: the target, or its subdirectory.
    pub directory: PathBuf,
    /// Files to be written, replaced or removed.
    pub changes: u64,
}

/// Why nothing was staged. The target is untouched; the staging directory may hold parts and can be discarded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// The target exists and is not what the baseline says. Stage to [`free_target`].
    #[error("{target} is not as the last handoff left it ({}); stage into a new directory", .differences.join(", "))]
    TargetDiffers {
        /// The target, escaped.
        target: String,
        /// The first differing paths, escaped.
        differences: Vec<String>,
    },
    /// The target exists and could not be read: whether it is as the baseline says is not known.
    #[error("what stands at the target cannot be compared: {0}")]
    Compare(CompareError),
    /// The payload breaks a rule; it is refused as a whole.
    #[error("the payload is refused: {0}")]
    Hostile(String),
    /// A chunk is missing or is not what its id says.
    #[error("chunk {0} is missing or damaged")]
    Chunk(ChunkId),
    /// Git refused the objects, references or index.
    #[error("git {command} refused the repository: {message}")]
    Git {
        /// Which command.
        command: String,
        /// Its last words.
        message: String,
    },
    /// Not enough room.
    #[error("not enough room: {needed} bytes are needed, {free} are free")]
    NoSpace {
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// The staging directory and the target lie on different file systems.
    #[error("{0} lies on another file system than its target")]
    OtherFileSystem(String),
    /// The system refused.
    #[error("cannot write {path}: {kind}")]
    Io {
        /// What, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
}

/// Stages a payload. When it returns, everything is durable and [`super::activate()`] needs no more than this directory.
///
/// # Errors
/// [`StageError`]; the target is untouched.
pub fn stage(request: &StageRequest<'_>) -> Result<Staged, StageError> {
    check(request.entries)?;
    let tree: Vec<&Entry> = request.entries.iter().filter(|entry| entry.place == Place::Tree).collect();
    let records = restore::records(request.entries, request.chunks)?;
    if let Some(staged) = again::stage(request, &tree, records.as_ref())? {
        return Ok(staged);
    }
    super::discard(request.staging).map_err(|error| StageError::io(request.staging, &error))?;
    let writer = Writer::create(request.staging)?;
    super::plan::mark(request.staging).map_err(|error| StageError::io(request.staging, &error))?;
    check_place(request)?;
    let (kind, changes) = match current(request)? {
        None => {
            check_room(request, &writer, &tree)?;
            (stage_new(request, &tree, records.as_ref())?, tree.len() as u64)
        }
        Some(current) => in_place::stage(request, &tree, records.as_ref(), &current, &writer)?,
    };
    let plan = plan_of(request, records.as_ref(), kind);
    plan.write(request.staging).map_err(|error| StageError::io(request.staging, &error))?;
    let in_place = matches!(plan.kind, Kind::InPlace(_));
    if in_place {
        writer.sync()?;
    } else {
        let root = open_root(&request.staging.join(TREE)).map_err(|error| StageError::io(request.staging, &error))?;
        again::finish(request, &tree, written::git_of(request.entries), &root)?;
    }
    Ok(Staged { in_place, directory: plan.target.join(&plan.subdirectory), changes })
}

fn plan_of(request: &StageRequest<'_>, records: Option<&Records>, kind: Kind) -> Plan {
    let subdirectory = records.and_then(|records| records.state.subdirectory.as_ref());
    Plan {
        target: request.target.to_path_buf(),
        subdirectory: subdirectory.map(|path| PathBuf::from(OsStr::from_bytes(path.as_bytes()))).unwrap_or_default(),
        kind,
    }
}

/// The first of `preferred`, `preferred-2`, `preferred-3`, … that does not exist.
///
/// What cannot be looked at is taken for something that exists.
pub fn free_target(preferred: &Path) -> PathBuf {
    let free = |path: &Path| matches!(is_there(path), Ok(false));
    let numbered = |number: u32| {
        let mut name = preferred.as_os_str().to_owned();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    };
    let all = std::iter::once(preferred.to_path_buf()).chain((2..FREE_NAMES).map(numbered));
    all.into_iter().find(|path| free(path)).unwrap_or_else(|| numbered(FREE_NAMES))
}

/// The rules of a catalog again: a stage does not depend on who decoded it.
pub(crate) fn check(entries: &[Entry]) -> Result<(), StageError> {
    let ordered = entries.windows(2).all(|pair| match pair {
        [a, b] => (a.place, &a.path) < (b.place, &b.path),
        _ => true,
    });
    if !ordered || entries.len() > CATALOG_ENTRIES {
        return Err(StageError::Hostile("the entries are not in order, or too many".to_owned()));
    }
    for entry in entries {
        if let Some(above) = prefixes(entry.path.as_bytes()).find(|above| is_leaf(entries, entry, above)) {
            return Err(StageError::Hostile(format!(
                "{} lies below {}, which is no directory",
                entry.path.shown(),
                escape(above)
            )));
        }
        if let Body::File { size, chunks, .. } = &entry.body
            && chunks.iter().try_fold(0_u64, |sum, chunk| sum.checked_add(u64::from(chunk.length))) != Some(*size)
        {
            return Err(StageError::Hostile(format!("the size of {}", entry.path.shown())));
        }
    }
    Ok(())
}

fn is_leaf(entries: &[Entry], entry: &Entry, above: &[u8]) -> bool {
    if above.len() == entry.path.as_bytes().len() {
        return false;
    }
    let found = entries.binary_search_by(|other| (other.place, other.path.as_bytes()).cmp(&(entry.place, above)));
    found.ok().and_then(|at| entries.get(at)).is_some_and(|other| !matches!(other.body, Body::Directory { .. }))
}

/// Room for what will be written, and for the packs of the repository.
fn check_room(request: &StageRequest<'_>, writer: &Writer, written: &[&Entry]) -> Result<(), StageError> {
    let git = request.entries.iter().filter(|entry| entry.place == Place::Git);
    let size = |entry: &Entry| match &entry.body {
        Body::File { size, .. } | Body::GitBlob { size, .. } => *size,
        Body::Symlink { .. } | Body::Directory { .. } => 0,
    };
    let needed = git.chain(written.iter().copied()).map(size).fold(FREE_BYTES_LEFT, u64::saturating_add);
    let stat = rustix::fs::fstatvfs(writer).map_err(|error| StageError::io(request.staging, &error.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if needed > free { Err(StageError::NoSpace { needed, free }) } else { Ok(()) }
}

fn check_place(request: &StageRequest<'_>) -> Result<(), StageError> {
    let here = request.staging.metadata().map_err(|error| StageError::io(request.staging, &error))?;
    let mut above = None;
    // The target itself may be where another file system begins: then it is not changed, and what comes stands beside it.
    for place in request.target.ancestors().skip(1) {
        above = found(place.metadata()).map_err(|error| StageError::io(place, &error))?;
        if above.is_some() {
            break;
        }
    }
    if above.is_some_and(|above| above.dev() == here.dev()) {
        Ok(())
    } else {
        Err(StageError::OtherFileSystem(shown(request.staging)))
    }
}

/// What stands at the target: nothing, or the state that the baseline knows. What cannot be read does not differ: only
/// what was seen to be other makes the session stand elsewhere.
fn current(request: &StageRequest<'_>) -> Result<Option<Current>, StageError> {
    let differs = |differences| StageError::TargetDiffers { target: shown(request.target), differences };
    let unread = |error: io::Error| StageError::Compare(CaptureError::io(request.target, &error).into());
    let refused = |refusal: TreeRefusal| {
        if refusal.is_of_the_world() {
            StageError::Compare(CaptureError::Refused(refusal).into())
        } else {
            differs(vec![refusal.to_string()])
        }
    };
    let Some(metadata) = found(request.target.symlink_metadata()).map_err(unread)? else { return Ok(None) };
    if metadata.is_dir()
        && std::fs::read_dir(request.target).map_err(unread)?.next().transpose().map_err(unread)?.is_none()
    {
        return Ok(None);
    }
    if metadata.is_symlink() {
        return Err(differs(vec!["it is a link".to_owned()]));
    }
    let Some(baseline) = request.baseline else {
        return Err(differs(vec!["it exists, and no earlier handoff of this session is known".to_owned()]));
    };
    let (tree, repository) = inspect::open(request.target).map_err(refused)?;
    if std::fs::canonicalize(request.target).map_err(unread)? != tree.root {
        return Err(differs(vec!["it lies inside another repository".to_owned()]));
    }
    let scratch = request.staging.join("compare");
    let mut cache = (request.cache)();
    match super::baseline::recapture(&tree, repository.as_ref(), baseline, &scratch, &mut cache) {
        Ok(capture) => Ok(Some(Current { tree, capture })),
        Err(CompareError::Differs(paths)) => Err(differs(paths)),
        Err(CompareError::Capture(CaptureError::Refused(refusal))) => Err(refused(refusal)),
        Err(error) => Err(StageError::Compare(error)),
    }
}

/// The target as it is.
pub(crate) struct Current {
    pub(crate) tree: Tree,
    pub(crate) capture: Capture,
}

fn stage_new(request: &StageRequest<'_>, tree: &[&Entry], records: Option<&Records>) -> Result<Kind, StageError> {
    let root = request.staging.join(TREE);
    let writer = Writer::create(&root)?;
    let git = records.map(|records| repository(&root, records, request)).transpose()?;
    let mut made = BTreeSet::new();
    writer.directories(tree.iter().filter_map(|entry| directory_of(entry)), &mut made)?;
    let jobs: Vec<_> = tree.iter().map(|entry| Job::of(entry)).collect();
    write_all(&writer, &jobs, Content { chunks: request.chunks, git: git.as_ref() })?;
    let modes = directory_modes(tree);
    for path in made.iter().rev() {
        writer.directory_mode(path, modes.get(path.as_slice()).copied().unwrap_or(USUAL_DIRECTORY_MODE))?;
    }
    if let (Some(git), Some(records)) = (&git, records) {
        index(git, records, request)?;
    }
    std::fs::set_permissions(&root, PermissionsExt::from_mode(USUAL_DIRECTORY_MODE))
        .map_err(|error| StageError::io(&root, &error))?;
    Ok(Kind::New)
}

fn repository(root: &Path, records: &Records, request: &StageRequest<'_>) -> Result<Git, StageError> {
    let git = restore::create(root, records.state.objects)?;
    if let Some(clone) = request.local_clone {
        restore::borrow_objects(clone, root)?;
    }
    restore::index_packs(&git, records, request.chunks)?;
    restore::configure(root, &records.state)?;
    restore::references(&git, &records.state)?;
    Ok(git)
}

fn index(git: &Git, records: &Records, request: &StageRequest<'_>) -> Result<(), StageError> {
    let entries: Vec<_> = records.index.iter().collect();
    restore::index(git, &entries, &[], &request.staging.join("promised"))?;
    Ok(restore::refresh(git)?)
}

/// The directory that must exist for an entry.
pub(crate) fn directory_of(entry: &Entry) -> Option<&[u8]> {
    match entry.body {
        Body::Directory { .. } => Some(entry.path.as_bytes()),
        Body::File { .. } | Body::GitBlob { .. } | Body::Symlink { .. } => restore::parent(entry.path.as_bytes()),
    }
}

pub(crate) fn directory_modes<'a>(tree: &[&'a Entry]) -> BTreeMap<&'a [u8], u32> {
    let modes = tree.iter().filter_map(|entry| match entry.body {
        Body::Directory { mode } => Some((entry.path.as_bytes(), mode)),
        Body::File { .. } | Body::GitBlob { .. } | Body::Symlink { .. } => None,
    });
    modes.collect()
}

impl StageError {
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io { path: shown(path), kind: error.kind() }
    }
}
