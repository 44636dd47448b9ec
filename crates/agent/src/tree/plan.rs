//! What an activation is going to do, written down before it begins.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cede_wire::catalog::Mtime;
use cede_wire::id::Hash;
use serde::{Deserialize, Serialize};

use super::state::State;
use crate::chunk::FileStat;
use crate::materialize::beneath::{found, is_there};

/// Names in a staging directory.
pub(crate) const TREE: &str = "tree";
pub(crate) const FILES: &str = "files";
pub(crate) const OBJECTS: &str = "objects";
pub(crate) const NEW_INDEX: &str = "index";
/// Says that a directory is a stage, and may be removed as one.
pub(crate) const MARK: &str = "cede-stage";
const PLAN: &str = "plan";
const DONE: &str = "done";
const KEPT: &str = "kept";
const GIT_BEGUN: &str = "git-begun";

const FORMAT: u16 = 1;

/// A stage's plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) target: PathBuf,
    pub(crate) subdirectory: PathBuf,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// 0: the tree is moved to a place where nothing, or an empty directory, stands.
    New,
    /// 1: a tree is brought up to date.
    InPlace(Box<Steps>),
}

/// The steps of an update, in order. Each can be repeated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Steps {
    /// Directories in which names change.
    pub(crate) opened: Vec<Vec<u8>>,
    /// Files and links to remove, as they were seen.
    pub(crate) removed: Vec<(Vec<u8>, FileStat)>,
    /// Directories to remove if nothing is left in them, deepest first.
    pub(crate) emptied: Vec<Vec<u8>>,
    /// Directories to create, parents first.
    pub(crate) created: Vec<Vec<u8>>,
    /// Staged files and links to move in, by their number, and what was seen in their place.
    pub(crate) placed: Vec<(Vec<u8>, Option<FileStat>)>,
    /// Files whose content stays and whose mode or time changes.
    pub(crate) touched: Vec<(Vec<u8>, u32, Mtime)>,
    /// Modes of directories.
    pub(crate) modes: Vec<(Vec<u8>, u32)>,
    /// The repository before and after.
    pub(crate) git: Option<(State, State)>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u16,
    target: Vec<u8>,
    subdirectory: Vec<u8>,
    kind: Kind,
}

impl Plan {
    /// Writes the plan; a plan that is there is replaced at once.
    pub(crate) fn write(&self, staging: &Path) -> io::Result<()> {
        let stored = Stored {
            format: FORMAT,
            target: self.target.as_os_str().as_bytes().to_vec(),
            subdirectory: self.subdirectory.as_os_str().as_bytes().to_vec(),
            kind: self.kind.clone(),
        };
        let body = postcard::to_stdvec(&stored).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let mut bytes = Hash::of(&body).as_bytes().to_vec();
        bytes.extend(body);
        replace(&staging.join(PLAN), &bytes)
    }

    /// Removes the plan: what is there is no stage any more.
    pub(crate) fn forget(staging: &Path) -> io::Result<()> {
        match std::fs::remove_file(staging.join(PLAN)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Reads the plan; none if there is no whole one.
    pub(crate) fn read(staging: &Path) -> io::Result<Option<Self>> {
        let bytes = found(std::fs::read(staging.join(PLAN)))?;
        Ok(bytes.and_then(|bytes| Self::from_bytes(&bytes)))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (sum, body) = bytes.split_at_checked(32)?;
        if Hash::of(body).as_bytes() != sum {
            return None;
        }
        let stored: Stored = postcard::from_bytes(body).ok()?;
        let path = |bytes: Vec<u8>| PathBuf::from(std::ffi::OsString::from_vec(bytes));
        let (target, subdirectory) = (path(stored.target), path(stored.subdirectory));
        (stored.format == FORMAT).then_some(Self { target, subdirectory, kind: stored.kind })
    }
}

pub(crate) fn is_marked(staging: &Path) -> io::Result<bool> {
    is_there(&staging.join(MARK))
}

/// In one step: whatever is left of it when it is interrupted is a stage, or empty.
pub(crate) fn mark(staging: &Path) -> io::Result<()> {
    File::create(staging.join(MARK))?.sync_all()?;
    sync_directory(staging)
}

/// True once an activation went to its end.
pub(crate) fn is_done(staging: &Path) -> io::Result<bool> {
    is_there(&staging.join(DONE))
}

pub(crate) fn set_done(staging: &Path) -> io::Result<()> {
    note(&staging.join(DONE))
}

/// Notes that the repository is changed from now on; where that is noted already, since when.
pub(crate) fn begin_git(staging: &Path) -> io::Result<Option<SystemTime>> {
    let note = staging.join(GIT_BEGUN);
    match found(note.metadata())? {
        Some(metadata) => metadata.modified().map(Some),
        None => self::note(&note).map(|()| None),
    }
}

/// Notes, before it happens, that a file is kept under another name.
pub(crate) fn note_kept(staging: &Path, name: &Path) -> io::Result<()> {
    let mut all = kept(staging)?;
    if !all.iter().any(|known| known == name) {
        all.push(name.to_path_buf());
    }
    let bytes: Vec<u8> = all.iter().flat_map(|path| path.as_os_str().as_bytes().iter().chain(b"\0")).copied().collect();
    replace(&staging.join(KEPT), &bytes)
}

pub(crate) fn kept(staging: &Path) -> io::Result<Vec<PathBuf>> {
    let bytes = found(std::fs::read(staging.join(KEPT)))?.unwrap_or_default();
    let names = bytes.split(|b| *b == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect())
}

/// Makes an empty file durably: what counts is its name, and when it was made.
fn note(path: &Path) -> io::Result<()> {
    File::create(path)?;
    path.parent().map_or(Ok(()), sync_directory)
}

/// Replaces a small file durably.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = File::create(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&partial, path)?;
    path.parent().map_or(Ok(()), sync_directory)
}

pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
