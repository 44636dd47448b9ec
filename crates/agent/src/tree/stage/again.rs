//! Brings a stage of an earlier round of the same move up to date: only what is different is written.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cede_wire::catalog::{Body, Entry};
use cede_wire::id::Hash;
use rustix::fs::{AtFlags, unlinkat};

use super::written::{Look, Written, git_of, looks};
use super::{StageError, StageRequest, Staged, check_room, directory_modes, directory_of, repository};
use crate::materialize::Writer;
use crate::materialize::beneath::{is_there, open_root, parent_of};
use crate::tree::git::{Config, Git};
use crate::tree::globs::prefixes;
use crate::tree::plan::{Kind, Plan, TREE, is_done, is_marked, sync_directory};
use crate::tree::restore::{self, Records};
use crate::tree::survey::USUAL_DIRECTORY_MODE;
use crate::tree::write::{Content, Job, write_all};

/// Uses the stage that is there, if it is one of a new tree for the same target and everything in it is known. None:
/// it has to be staged from the beginning.
pub(super) fn stage(
    request: &StageRequest<'_>,
    tree: &[&Entry],
    records: Option<&Records>,
) -> Result<Option<Staged>, StageError> {
    let Some((plan, written)) = usable(request) else { return Ok(None) };
    let Ok(root) = open_root(&request.staging.join(TREE)) else { return Ok(None) };
    let looks = looks(&root, tree);
    let difference = difference(&written, tree, &looks);
    let git = git_of(request.entries);
    if difference.is_empty() && git == written.git {
        return Ok(Some(staged(&plan, tree)));
    }
    match update(request, tree, records, &root, (&written, &difference)) {
        Ok(()) => {}
        Err(error @ (StageError::Chunk(_) | StageError::NoSpace { .. })) => return Err(error),
        Err(error) => {
            tracing::debug!(%error, "the stage of an earlier round is not used");
            return Ok(None);
        }
    }
    let plan = super::plan_of(request, records, Kind::New);
    plan.write(request.staging).map_err(|error| StageError::io(request.staging, &error))?;
    finish(request, tree, git, &root)?;
    Ok(Some(staged(&plan, tree)))
}

/// Makes a stage durable, then notes what was written.
pub(super) fn finish(request: &StageRequest<'_>, tree: &[&Entry], git: Hash, root: &OwnedFd) -> Result<(), StageError> {
    let looks = looks(root, tree);
    rustix::fs::syncfs(root).map_err(|error| StageError::io(request.staging, &error.into()))?;
    if let Err(error) = Written::write(request.staging, git, tree, &looks) {
        tracing::debug!(%error, "what was staged is not known to the next round");
    }
    Ok(())
}

fn usable(request: &StageRequest<'_>) -> Option<(Plan, Written)> {
    // What is not known of a stage costs its being made again.
    if !is_marked(request.staging).unwrap_or(false) || is_done(request.staging).unwrap_or(true) {
        return None;
    }
    let plan = Plan::read(request.staging).ok()??;
    let free = matches!(is_there(request.target), Ok(false));
    let same = plan.target == request.target && plan.kind == Kind::New;
    (free && same).then(|| Written::read(request.staging)).flatten().map(|written| (plan, written))
}

fn staged(plan: &Plan, tree: &[&Entry]) -> Staged {
    Staged { in_place: false, directory: plan.target.join(&plan.subdirectory), changes: tree.len() as u64 }
}

/// What is not as it should be.
#[derive(Debug, Default)]
struct Difference<'a> {
    /// Files and links that are there and must go.
    removed: Vec<Vec<u8>>,
    /// Files and links to write.
    written: Vec<&'a Entry>,
    /// A directory has another mode, or is listed no more or for the first time.
    directories: bool,
}

impl Difference<'_> {
    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.written.is_empty() && !self.directories
    }
}

fn difference<'a>(written: &Written, tree: &[&'a Entry], looks: &[Look]) -> Difference<'a> {
    let mut difference = Difference::default();
    let mut lines = written.lines().peekable();
    for (entry, look) in tree.iter().zip(looks) {
        while let Some(line) = lines.next_if(|line| line.path < entry.path.as_bytes()) {
            difference.gone(line.path, line.directory.is_some());
        }
        let line = lines.next_if(|line| line.path == entry.path.as_bytes());
        if look.is_there() && line.is_some_and(|line| line.look == *look) {
            continue;
        }
        if let Some(line) = line {
            difference.gone(line.path, line.directory.is_some());
        }
        match entry.body {
            Body::Directory { .. } => difference.directories = true,
            Body::File { .. } | Body::GitBlob { .. } | Body::Symlink { .. } => difference.written.push(entry),
        }
    }
    lines.for_each(|line| difference.gone(line.path, line.directory.is_some()));
    difference
}

impl Difference<'_> {
    fn gone(&mut self, path: &[u8], directory: bool) {
        if directory {
            self.directories = true;
        } else {
            self.removed.push(path.to_vec());
        }
    }
}

fn update(
    request: &StageRequest<'_>,
    tree: &[&Entry],
    records: Option<&Records>,
    root: &OwnedFd,
    (before, difference): (&Written, &Difference<'_>),
) -> Result<(), StageError> {
    let io = |error: std::io::Error| StageError::io(request.staging, &error);
    let place = request.staging.join(TREE);
    let writer = Writer::open(&place)?;
    check_room(request, &writer, &difference.written)?;
    // A stage that is half brought up to date must not be taken for a whole one.
    Written::forget(request.staging).and_then(|()| Plan::forget(request.staging)).map_err(io)?;
    sync_directory(request.staging).map_err(io)?;
    for path in &difference.removed {
        unlink(root, path, AtFlags::empty()).map_err(io)?;
    }
    directories(&writer, root, before, tree)?;
    let same_git = before.git == git_of(request.entries);
    let git = match records {
        Some(_) if same_git => Some(Git::at(&place, Config::Nobodys)),
        _ => {
            remove_repository(&place).map_err(io)?;
            records.map(|records| repository(&place, records, request)).transpose()?
        }
    };
    let jobs: Vec<_> = difference.written.iter().map(|entry| Job::of(entry)).collect();
    write_all(&writer, &jobs, Content { chunks: request.chunks, git: git.as_ref() })?;
    match (&git, records) {
        (Some(git), Some(_)) if same_git => restore::refresh(git)?,
        (Some(git), Some(records)) => super::index(git, records, request)?,
        (None, _) | (_, None) => {}
    }
    std::fs::set_permissions(&place, PermissionsExt::from_mode(USUAL_DIRECTORY_MODE)).map_err(io)
}

fn remove_repository(place: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(place.join(".git")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// What is gone already is no fault.
fn unlink(root: &OwnedFd, path: &[u8], flags: AtFlags) -> std::io::Result<()> {
    let removed = parent_of(root, path).and_then(|(above, name)| Ok(unlinkat(above, name, flags)?));
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn directories(writer: &Writer, root: &OwnedFd, before: &Written, tree: &[&Entry]) -> Result<(), StageError> {
    let mut old: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for line in before.lines() {
        let above = if line.directory.is_some() { Some(line.path) } else { restore::parent(line.path) };
        for prefix in above.into_iter().flat_map(prefixes).filter(|prefix| !prefix.is_empty()) {
            if !old.contains_key(prefix) {
                old.insert(prefix.to_vec(), USUAL_DIRECTORY_MODE);
            }
        }
        if let Some(mode) = line.directory {
            old.insert(line.path.to_vec(), mode);
        }
    }
    let new: BTreeSet<&[u8]> = tree.iter().filter_map(|entry| directory_of(entry)).flat_map(prefixes).collect();
    for path in old.keys().rev().filter(|path| !new.contains(path.as_slice())) {
        unlink(root, path, AtFlags::REMOVEDIR).map_err(|error| StageError::io(&name(path), &error))?;
    }
    let mut made: BTreeSet<Vec<u8>> = old.keys().filter(|path| new.contains(path.as_slice())).cloned().collect();
    writer.directories(new.iter().copied(), &mut made)?;
    let modes = directory_modes(tree);
    for path in new {
        let mode = modes.get(path).copied().unwrap_or(USUAL_DIRECTORY_MODE);
        if old.get(path) != Some(&mode) {
            writer.directory_mode(path, mode)?;
        }
    }
    Ok(())
}

fn name(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(path))
}
