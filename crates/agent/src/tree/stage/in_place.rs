//! Brings an existing tree up to date: only what changed is written, and only beside it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cede_wire::catalog::{Body, Entry, Oid, Place};
use cede_wire::path::escape;
use rustix::fs::{Access, AtFlags};

use super::{Current, StageError, StageRequest, check_room, directory_modes, directory_of};
use crate::chunk::{FileStat, SourceFiles, shown};
use crate::materialize::beneath::{found, is_link, open_root, parent_of};
use crate::materialize::{ReadChunk, Writer};
use crate::tree::git::{Git, GitFault};
use crate::tree::globs::prefixes;
use crate::tree::plan::{FILES, Kind, NEW_INDEX, OBJECTS, Steps};
use crate::tree::restore::{self, Records};
use crate::tree::state::{IndexEntry, State};
use crate::tree::survey::{USUAL_DIRECTORY_MODE, file_stat};
use crate::tree::write::{Content, Job, write_all};

pub(super) fn stage(
    request: &StageRequest<'_>,
    tree: &[&Entry],
    records: Option<&Records>,
    current: &Current,
    writer: &Writer,
) -> Result<(Kind, u64), StageError> {
    if writer.folds_case()? {
        return Err(differs(request, "its file system folds case; a new directory is safer"));
    }
    let old: Vec<&Entry> = current.capture.entries.iter().filter(|entry| entry.place == Place::Tree).collect();
    let root = open_root(&current.tree.root).map_err(|error| StageError::io(request.target, &error))?;
    let mut steps = Steps::default();
    let changed = compare(&old, tree, &mut steps);
    check_room(request, writer, &changed)?;
    directories(&old, tree, &mut steps);
    see(request, &root, &changed, &old, &mut steps)?;
    can_be_changed(request, &root, current.tree.git.is_some(), &steps)?;
    let git = match (records, current.tree.git.is_some()) {
        (Some(records), true) => Some(repository(request, records, current, &mut steps)?),
        (None, false) => None,
        _ => return Err(differs(request, "only one of the two is a repository")),
    };
    let files = Writer::create(&request.staging.join(FILES))?;
    let number = |at: usize| Cow::Owned(at.to_string().into_bytes());
    let jobs: Vec<_> =
        changed.iter().enumerate().map(|(at, entry)| Job { name: number(at), body: &entry.body }).collect();
    write_all(&files, &jobs, Content { chunks: request.chunks, git: git.as_ref() })?;
    let changes = steps.removed.len() + steps.placed.len() + steps.touched.len();
    Ok((Kind::InPlace(Box::new(steps)), changes as u64))
}

fn differs(request: &StageRequest<'_>, difference: &str) -> StageError {
    StageError::TargetDiffers { target: shown(request.target), differences: vec![difference.to_owned()] }
}

/// Files and links to write; what is to be removed or touched goes into the steps.
fn compare<'a>(old: &[&Entry], new: &[&'a Entry], steps: &mut Steps) -> Vec<&'a Entry> {
    let before: BTreeMap<&[u8], &Body> = old.iter().map(|entry| (entry.path.as_bytes(), &entry.body)).collect();
    let mut changed = Vec::new();
    for entry in new.iter().filter(|entry| !is_directory(&entry.body)) {
        match before.get(entry.path.as_bytes()) {
            Some(body) if **body == entry.body => {}
            Some(body) if same_content(body, &entry.body) => steps.touched.extend(touch(entry)),
            _ => changed.push(*entry),
        }
    }
    let kept: BTreeSet<&[u8]> =
        new.iter().filter(|entry| !is_directory(&entry.body)).map(|entry| entry.path.as_bytes()).collect();
    let gone = old.iter().filter(|entry| !is_directory(&entry.body) && !kept.contains(entry.path.as_bytes()));
    steps.removed = gone.map(|entry| (entry.path.as_bytes().to_vec(), NOT_SEEN)).collect();
    changed
}

/// Stands until the file is looked at.
const NOT_SEEN: FileStat = FileStat {
    size: 0,
    mtime: cede_wire::catalog::Mtime { seconds: 0, nanos: 0 },
    ctime: cede_wire::catalog::Mtime { seconds: 0, nanos: 0 },
    inode: 0,
    device: 0,
    mode: 0,
};

fn is_directory(body: &Body) -> bool {
    matches!(body, Body::Directory { .. })
}

fn same_content(a: &Body, b: &Body) -> bool {
    match (a, b) {
        (Body::File { chunks: a, .. }, Body::File { chunks: b, .. }) => a == b,
        (Body::GitBlob { oid: a, .. }, Body::GitBlob { oid: b, .. }) => a == b,
        (Body::File { .. } | Body::GitBlob { .. } | Body::Symlink { .. } | Body::Directory { .. }, _) => false,
    }
}

fn touch(entry: &Entry) -> Option<(Vec<u8>, u32, cede_wire::catalog::Mtime)> {
    match &entry.body {
        Body::File { mode, mtime, .. } | Body::GitBlob { mode, mtime, .. } => {
            Some((entry.path.as_bytes().to_vec(), *mode, *mtime))
        }
        Body::Symlink { .. } | Body::Directory { .. } => None,
    }
}

fn all_directories(entries: &[&Entry]) -> BTreeSet<Vec<u8>> {
    entries.iter().filter_map(|entry| directory_of(entry)).flat_map(prefixes).map(<[u8]>::to_vec).collect()
}

fn directories(old: &[&Entry], new: &[&Entry], steps: &mut Steps) {
    let (before, after) = (all_directories(old), all_directories(new));
    steps.emptied = before.iter().rev().filter(|path| !after.contains(*path)).cloned().collect();
    steps.created = after.difference(&before).cloned().collect();
    let (old_modes, new_modes) = (directory_modes(old), directory_modes(new));
    let mode = |modes: &BTreeMap<&[u8], u32>, path: &[u8]| modes.get(path).copied().unwrap_or(USUAL_DIRECTORY_MODE);
    let changed =
        after.iter().filter(|path| !before.contains(*path) || mode(&old_modes, path) != mode(&new_modes, path));
    steps.modes = changed.map(|path| (path.clone(), mode(&new_modes, path))).collect();
}

/// Looks at everything that will be replaced or removed, and notes what must be open for it. Where something unknown
/// stands in the way, the target is not what the baseline says.
fn see(
    request: &StageRequest<'_>,
    root: &OwnedFd,
    changed: &[&Entry],
    old: &[&Entry],
    steps: &mut Steps,
) -> Result<(), StageError> {
    let unread = |path: &[u8]| {
        let path = current_path(request, path);
        move |error: io::Error| StageError::io(&path, &error)
    };
    let known: BTreeMap<&[u8], &Body> = old.iter().map(|entry| (entry.path.as_bytes(), &entry.body)).collect();
    let gone: BTreeSet<Vec<u8>> = steps.emptied.iter().cloned().collect();
    for entry in changed {
        let path = entry.path.as_bytes();
        let stat = stat_below(root, path).map_err(unread(path))?;
        let expected = gone.contains(path) || stat.is_none_or(|stat| is_as_captured(&stat, known.get(path)));
        if !expected {
            return Err(differs(request, &entry.path.shown()));
        }
        if gone.contains(path) && holds_unknown(&current_path(request, path), &known, path).map_err(unread(path))? {
            return Err(differs(request, &format!("{}/", entry.path.shown())));
        }
        let file = stat.filter(|_| !gone.contains(path));
        steps.placed.push((path.to_vec(), file));
    }
    for created in &steps.created {
        let there = stat_below(root, created).map_err(unread(created))?;
        if there.is_some()
            && !known.contains_key(created.as_slice())
            && !there.is_some_and(|stat| is_a_directory(&stat))
        {
            return Err(differs(request, &escape(created)));
        }
    }
    for (path, seen) in &mut steps.removed {
        let stat = stat_below(root, path).map_err(unread(path))?;
        let stat = stat.filter(|stat| is_as_captured(stat, known.get(path.as_slice())));
        *seen = stat.ok_or_else(|| differs(request, &escape(path)))?;
    }
    let changing = steps.removed.iter().map(|(path, _)| path).chain(steps.placed.iter().map(|(path, _)| path));
    let changing = changing.chain(&steps.emptied).chain(&steps.created);
    let opened: BTreeSet<Vec<u8>> = changing.filter_map(|path| restore::parent(path)).map(<[u8]>::to_vec).collect();
    let before = all_directories(old);
    let new_modes: BTreeSet<&Vec<u8>> = steps.modes.iter().map(|(path, _)| path).collect();
    let opened: Vec<_> = opened.into_iter().filter(|path| before.contains(path)).collect();
    let restored = opened.iter().filter(|path| !new_modes.contains(path) && !gone.contains(*path)).map(|path| {
        let stat = stat_below(root, path).map_err(unread(path))?;
        Ok(stat.map(|stat| (path.clone(), stat.permissions())))
    });
    let restored: Vec<_> = restored.collect::<Result<Vec<_>, StageError>>()?;
    steps.modes.extend(restored.into_iter().flatten());
    steps.opened = opened;
    Ok(())
}

/// What takes its place by a rename comes from the file system of the stage, and this user may write where it comes to. Once it
/// is decided who is in charge it is too late to find that out.
fn can_be_changed(request: &StageRequest<'_>, root: &OwnedFd, git: bool, steps: &Steps) -> Result<(), StageError> {
    let unread = |error: io::Error| StageError::io(request.target, &error);
    let here = request.staging.metadata().map_err(unread)?.dev();
    let me = rustix::process::geteuid();
    let own: &[&[u8]] = if git { &[b".git", b".git/objects", b".git/refs"] } else { &[] };
    let below = own.iter().copied().chain(steps.opened.iter().map(Vec::as_slice));
    let look = |path: &[u8]| {
        let (above, name) = parent_of(root, path)?;
        Ok::<_, io::Error>(rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?)
    };
    let top = rustix::fs::fstat(root).map_err(|error| unread(error.into()))?;
    let mut all = vec![(&b"."[..], top)];
    for path in below {
        all.extend(found(look(path)).map_err(unread)?.map(|stat| (path, stat)));
    }
    for (path, stat) in all {
        if stat.st_dev != here {
            return Err(differs(request, &format!("{} is on another file system", escape(path))));
        }
        let shut = || rustix::fs::accessat(root, path, Access::WRITE_OK, AtFlags::EACCESS).is_err();
        if stat.st_uid != me.as_raw() && !me.is_root() && shut() {
            return Err(differs(request, &format!("{} cannot be written to", escape(path))));
        }
    }
    Ok(())
}

/// False if it changed since it was captured a moment ago.
fn is_as_captured(stat: &FileStat, body: Option<&&Body>) -> bool {
    match body {
        Some(Body::File { mtime, size, .. } | Body::GitBlob { mtime, size, .. }) => {
            stat.mtime == *mtime && stat.size == *size
        }
        Some(Body::Symlink { .. } | Body::Directory { .. }) => true,
        None => false,
    }
}

fn current_path(request: &StageRequest<'_>, path: &[u8]) -> std::path::PathBuf {
    request.target.join(std::ffi::OsStr::from_bytes(path))
}

/// True if a directory that makes way for a file holds something that the capture does not know: ignored files.
fn holds_unknown(directory: &Path, known: &BTreeMap<&[u8], &Body>, below: &[u8]) -> io::Result<bool> {
    for name in found(std::fs::read_dir(directory))?.into_iter().flatten() {
        let name = name?;
        let path = [below, b"/", name.file_name().as_bytes()].concat();
        let is_directory = name.file_type()?.is_dir();
        let unknown = if is_directory {
            holds_unknown(&name.path(), known, &path)?
        } else {
            !known.contains_key(path.as_slice())
        };
        if unknown {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What stands there; none below what is no directory, or a link.
pub(crate) fn stat_below(root: &OwnedFd, path: &[u8]) -> io::Result<Option<FileStat>> {
    let looked =
        parent_of(root, path).and_then(|(above, name)| Ok(rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?));
    match looked {
        Err(error) if is_link(&error) => Ok(None),
        looked => Ok(found(looked)?.map(|stat| file_stat(&stat))),
    }
}

fn is_a_directory(stat: &FileStat) -> bool {
    stat.mode & 0o170_000 == 0o040_000
}

/// Indexes the packs into a quarantine and prepares the new index; the repository itself is not touched.
fn repository(
    request: &StageRequest<'_>,
    records: &Records,
    current: &Current,
    steps: &mut Steps,
) -> Result<Git, StageError> {
    let target = &current.tree.root;
    let old = restore::records(&current.capture.entries, &Here(&current.capture.sources))?
        .ok_or_else(|| differs(request, ".git"))?;
    if old.state.objects != records.state.objects {
        return Err(differs(request, "its repository has another object format"));
    }
    if let Some(branch) = moves_elsewhere(target, &old.state, &records.state) {
        return Err(differs(request, &format!("{} is checked out in another work tree", escape(&branch))));
    }
    let objects = request.staging.join(OBJECTS);
    std::fs::create_dir_all(objects.join("pack")).map_err(|error| StageError::io(&objects, &error))?;
    let index = request.staging.join(NEW_INDEX);
    std::fs::copy(target.join(".git/index"), &index)
        .map(|_| ())
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .map_err(|error| StageError::io(&index, &error))?;
    let git = Git::without_filters(target)
        .map_err(|error| if error.fault == GitFault::Filter { differs(request, &error.message) } else { error.into() })?
        .variable("GIT_OBJECT_DIRECTORY", objects.as_os_str())
        .variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternate(&target.join(".git/objects")))
        .variable("GIT_INDEX_FILE", index.as_os_str());
    restore::index_packs(&git, records, request.chunks)?;
    let (changed, removed) = index_changes(&old.index, &records.index);
    restore::index(&git, &changed, &removed, &request.staging.join("promised"))?;
    steps.git = Some((old.state, records.state.clone()));
    Ok(git)
}

/// A branch that would move and that another work tree of the repository has checked out: there the move would look like work
/// that takes back what came. Source: `git branch --force`, which refuses it.
fn moves_elsewhere(target: &Path, old: &State, new: &State) -> Option<Vec<u8>> {
    let trees = std::fs::read_dir(target.join(".git/worktrees")).into_iter().flatten().flatten();
    let heads = trees.filter_map(|tree| std::fs::read(tree.path().join("HEAD")).ok());
    let branches = heads.filter_map(|head| Some(head.strip_prefix(b"ref: ")?.trim_ascii().to_vec()));
    fn at<'a>(state: &'a State, branch: &[u8]) -> Option<&'a Oid> {
        let found = state.references.iter().find(|reference| reference.name == branch);
        found.map(|reference| &reference.oid)
    }
    branches.into_iter().find(|branch| at(old, branch) != at(new, branch))
}

/// Lines to enter anew, and paths to drop first. A line whose marks change is dropped and entered again.
fn index_changes<'a>(old: &'a [IndexEntry], new: &'a [IndexEntry]) -> (Vec<&'a IndexEntry>, Vec<&'a [u8]>) {
    let before: BTreeMap<&[u8], &IndexEntry> = old.iter().map(|entry| (entry.path.as_slice(), entry)).collect();
    let after: BTreeSet<&[u8]> = new.iter().map(|entry| entry.path.as_slice()).collect();
    let changed: Vec<_> = new.iter().filter(|entry| before.get(entry.path.as_slice()) != Some(entry)).collect();
    let gone = old.iter().map(|entry| entry.path.as_slice()).filter(|path| !after.contains(path));
    let again = changed.iter().map(|entry| entry.path.as_slice()).filter(|path| before.contains_key(path));
    let removed = gone.chain(again).collect();
    (changed, removed)
}

/// A directory in the form that git wants in a list of them.
fn alternate(path: &Path) -> OsString {
    let escaped = path.as_os_str().as_bytes().iter().flat_map(|b| match b {
        b'"' | b'\\' => vec![b'\\', *b],
        b'\n' => b"\\n".to_vec(),
        _ => vec![*b],
    });
    let quoted: Vec<u8> = std::iter::once(b'"').chain(escaped).chain(std::iter::once(b'"')).collect();
    std::os::unix::ffi::OsStringExt::from_vec(quoted)
}

/// Reads chunks of the current capture.
struct Here<'a>(&'a SourceFiles);

impl ReadChunk for Here<'_> {
    fn read(&self, id: &cede_wire::id::ChunkId, into: &mut Vec<u8>) -> io::Result<()> {
        self.0.read(id, into).map_err(|_| io::ErrorKind::NotFound.into())
    }
}
