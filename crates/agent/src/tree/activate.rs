//! Puts a staged tree in its place: one rename, or a journaled plan. Safe to repeat after a crash at any point.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cede_wire::catalog::Oid;
use cede_wire::path::escape;
use rustix::fs::{AtFlags, CWD, Mode, RenameFlags, fchmod, mkdirat, unlinkat};

use super::git::{Config, Git, GitError};
use super::plan::{self, FILES, Kind, NEW_INDEX, OBJECTS, Plan, Steps, TREE};
use super::stage::stat_below;
use super::state::{HeadState, State, is_carried};
use super::{free_target, locks, repository, restore};
use crate::chunk::{FileStat, shown};
use crate::limits::FREE_NAMES;
use crate::materialize::beneath::{found, is_there, open_directory, open_file, open_root, parent_of};
use crate::materialize::{Attributes, dress};

/// A tree in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activated {
    /// The root of the tree.
    pub root: PathBuf,
    /// Where the session runs: the root or its subdirectory.
    pub directory: PathBuf,
    /// Files that someone changed between staging and activation: each was kept under this name beside the new one.
    pub kept: Vec<PathBuf>,
}

/// Why a staged tree is not in its place. The stage is kept; activating can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActivateError {
    /// There is no complete stage in the directory.
    #[error("no complete stage in {0}")]
    NoStage(String),
    /// Git failed.
    #[error("git {command} failed: {message}")]
    Git {
        /// Which command.
        command: String,
        /// Its last words.
        message: String,
    },
    /// The system refused.
    #[error("cannot change {path}: {kind}")]
    Io {
        /// What, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
}

/// Activates a stage. Durable when it returns; calling it again returns the same.
///
/// # Errors
/// [`ActivateError`]; the stage is kept.
pub fn activate(staging: &Path) -> Result<Activated, ActivateError> {
    activate_within(staging, &mut Budget(None))
}

/// Removes a stage: one that was activated, or one that never will be. The target is not touched.
///
/// # Errors
/// What the system says; calling it again is safe. A directory that is no stage is not removed.
pub fn discard(staging: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(staging) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
        Ok(_) => {}
    }
    let empty = std::fs::read_dir(staging)?.next().is_none();
    if !empty && !plan::is_marked(staging)? {
        return Err(io::Error::other("the directory is no stage"));
    }
    // The plan goes first, so that nothing of what an interrupted removal leaves is put in its place; the mark goes last: it is
    // still known as a stage.
    Plan::forget(staging)?;
    for entry in std::fs::read_dir(staging)? {
        let entry = entry?;
        match (entry.file_type()?.is_dir(), entry.file_name() == plan::MARK) {
            (true, _) => {
                open_up(&entry.path())?;
                std::fs::remove_dir_all(entry.path())?;
            }
            (false, false) => std::fs::remove_file(entry.path())?,
            (false, true) => {}
        }
    }
    missing_is_fine(std::fs::remove_file(staging.join(plan::MARK)))?;
    std::fs::remove_dir(staging)
}

/// Lets the owner of a directory write to it, and to all that lie in it, so that it can be moved or removed.
///
/// # Errors
/// What the system says; some of them are open then.
pub fn open_up(directory: &Path) -> io::Result<()> {
    let metadata = directory.symlink_metadata()?;
    if !metadata.is_dir() {
        return Ok(());
    }
    if metadata.permissions().mode() & 0o700 != 0o700 {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700))?;
    }
    std::fs::read_dir(directory)?.try_for_each(|entry| {
        let entry = entry?;
        if entry.file_type()?.is_dir() { open_up(&entry.path()) } else { Ok(()) }
    })
}

/// How many more changes may be made: tests stop an activation after each of them.
pub(crate) struct Budget(pub(crate) Option<u32>);

impl Budget {
    fn spend(&mut self) -> io::Result<()> {
        match &mut self.0 {
            None => Ok(()),
            Some(0) => Err(io::ErrorKind::Interrupted.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

pub(crate) fn activate_within(staging: &Path, budget: &mut Budget) -> Result<Activated, ActivateError> {
    let unread = |error: io::Error| ActivateError::io(staging, &error);
    let mut plan = Plan::read(staging).map_err(unread)?.ok_or_else(|| ActivateError::NoStage(shown(staging)))?;
    if !plan::is_done(staging).map_err(unread)? {
        match plan.kind.clone() {
            Kind::New => appear(staging, &mut plan, budget)?,
            Kind::InPlace(steps) => update(staging, &plan, &steps, budget)?,
        }
        budget.spend().and_then(|()| plan::set_done(staging)).map_err(|error| ActivateError::io(staging, &error))?;
    }
    let directory = plan.target.join(&plan.subdirectory);
    let kept = plan::kept(staging).map_err(unread)?;
    Ok(Activated { root: plan.target, directory, kept })
}

/// Moves a new tree to its place. If something has appeared there meanwhile, the next free name is taken, and noted first.
fn appear(staging: &Path, plan: &mut Plan, budget: &mut Budget) -> Result<(), ActivateError> {
    let tree = staging.join(TREE);
    let io = |error: io::Error| ActivateError::io(staging, &error);
    while is_there(&tree).map_err(io)? {
        let above = plan.target.parent().unwrap_or(Path::new("/")).to_path_buf();
        budget.spend().and_then(|()| std::fs::create_dir_all(&above)).map_err(io)?;
        let there = found(plan.target.symlink_metadata());
        if there.map_err(|error| ActivateError::io(&plan.target, &error))?.is_some_and(|metadata| metadata.is_dir()) {
            budget.spend().map_err(io)?;
            // Only an empty directory goes.
            let _ = std::fs::remove_dir(&plan.target);
        }
        budget.spend().map_err(io)?;
        match rustix::fs::renameat_with(CWD, &tree, CWD, &plan.target, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => {
                plan.target = free_target(&plan.target);
                plan.write(staging).map_err(io)?;
            }
            Err(error) => return Err(ActivateError::io(&plan.target, &error.into())),
        }
    }
    let above = plan.target.parent().unwrap_or(Path::new("/"));
    budget.spend().and_then(|()| plan::sync_directory(above)).map_err(io)?;
    plan::sync_directory(staging).map_err(io)
}

fn update(staging: &Path, plan: &Plan, steps: &Steps, budget: &mut Budget) -> Result<(), ActivateError> {
    let io = |error: io::Error| ActivateError::io(&plan.target, &error);
    let root = open_root(&plan.target).map_err(io)?;
    let mut place = Place { staging, target: &plan.target, root: &root, budget };
    if steps.git.is_some() {
        place.take_objects()?;
    }
    place.files(steps)?;
    if let Some((old, new)) = &steps.git {
        place.git(old, new)?;
    }
    place.budget.spend().map_err(io)?;
    rustix::fs::syncfs(&root).map_err(|error| io(error.into()))
}

struct Place<'a> {
    staging: &'a Path,
    target: &'a Path,
    root: &'a OwnedFd,
    budget: &'a mut Budget,
}

impl Place<'_> {
    /// The new objects first: what refers to them comes later.
    fn take_objects(&mut self) -> Result<(), ActivateError> {
        let (from, to) = (self.staging.join(OBJECTS), self.target.join(".git/objects"));
        let io = |error: io::Error| ActivateError::io(&to, &error);
        for directory in std::fs::read_dir(&from).map_err(io)? {
            let directory = directory.map_err(io)?;
            let into = to.join(directory.file_name());
            std::fs::create_dir_all(&into).map_err(io)?;
            let objects = std::fs::read_dir(directory.path()).map_err(io)?;
            let mut objects = objects.collect::<io::Result<Vec<_>>>().map_err(io)?;
            // A pack is seen by git once its `.idx` is there, so that comes last.
            objects.sort_by_key(|object| object.path().extension().is_some_and(|end| end == "idx"));
            for object in objects {
                self.budget.spend().map_err(io)?;
                std::fs::rename(object.path(), into.join(object.file_name())).map_err(io)?;
            }
        }
        Ok(())
    }

    fn files(&mut self, steps: &Steps) -> Result<(), ActivateError> {
        for path in &steps.opened {
            self.step(path, |root| open_mode(root, path))?;
        }
        for (path, seen) in &steps.removed {
            self.remove(path, seen)?;
        }
        for path in &steps.emptied {
            self.step(path, |root| remove_directory(root, path))?;
        }
        for path in &steps.created {
            self.step(path, |root| create_directory(root, path))?;
        }
        let files = open_root(&self.staging.join(FILES)).map_err(|error| ActivateError::io(self.staging, &error))?;
        for (number, (path, seen)) in steps.placed.iter().enumerate() {
            self.place(&files, number, path, seen.as_ref())?;
        }
        for (path, mode, mtime) in &steps.touched {
            let attributes = Attributes { mode: *mode, mtime: *mtime };
            self.step(path, |root| missing_is_fine(open_file(root, path).and_then(|file| dress(&file, attributes))))?;
        }
        for (path, mode) in steps.modes.iter().rev() {
            self.step(path, |root| set_mode(root, path, mode & 0o777 | 0o700))?;
        }
        Ok(())
    }

    fn step(&mut self, path: &[u8], change: impl FnOnce(&OwnedFd) -> io::Result<()>) -> Result<(), ActivateError> {
        let done = self.budget.spend().and_then(|()| change(self.root));
        done.map_err(|error| ActivateError::Io { path: escape(path), kind: error.kind() })
    }

    fn look(&self, path: &[u8]) -> Result<Option<FileStat>, ActivateError> {
        stat_below(self.root, path).map_err(|error| ActivateError::Io { path: escape(path), kind: error.kind() })
    }

    fn remove(&mut self, path: &[u8], seen: &FileStat) -> Result<(), ActivateError> {
        match self.look(path)? {
            Some(now) if now == *seen => {}
            // A directory was created here by an earlier run, or the file is gone already.
            Some(now) if now.mode & 0o170_000 == 0o040_000 => return Ok(()),
            None => return Ok(()),
            Some(_) => return self.keep(path),
        }
        self.step(path, |root| {
            let (above, name) = parent_of(root, path)?;
            Ok(unlinkat(above, name, AtFlags::empty())?)
        })
    }

    fn place(
        &mut self,
        files: &OwnedFd,
        number: usize,
        path: &[u8],
        seen: Option<&FileStat>,
    ) -> Result<(), ActivateError> {
        let name = number.to_string();
        let staged = rustix::fs::statat(files, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from);
        if found(staged).map_err(|error| ActivateError::io(self.staging, &error))?.is_none() {
            return Ok(());
        }
        if let Some(now) = self.look(path)?
            && seen != Some(&now)
        {
            self.keep(path)?;
        }
        self.step(path, |root| {
            let (above, own) = parent_of(root, path)?;
            Ok(rustix::fs::renameat(files, &name, above, own)?)
        })
    }

    /// Somebody changed it after the stage was made: it is kept under another name, never overwritten.
    fn keep(&mut self, path: &[u8]) -> Result<(), ActivateError> {
        let taken = |name: &Vec<u8>| !matches!(stat_below(self.root, name), Ok(None));
        let names = (1..FREE_NAMES).map(|number| [path, format!(".kept-{number}").as_bytes()].concat());
        let full = || ActivateError::Io { path: escape(path), kind: io::ErrorKind::AlreadyExists };
        let free = names.into_iter().find(|name| !taken(name)).ok_or_else(full)?;
        let noted = plan::note_kept(self.staging, &self.target.join(OsStr::from_bytes(&free)));
        noted.map_err(|error| ActivateError::io(self.staging, &error))?;
        self.step(path, |root| {
            let (above, name) = parent_of(root, path)?;
            let (_, other) = parent_of(root, &free)?;
            Ok(rustix::fs::renameat_with(&above, name, &above, other, RenameFlags::NOREPLACE)?)
        })
    }

    fn git(&mut self, old: &State, new: &State) -> Result<(), ActivateError> {
        // Two questions at once, for nobody acts meanwhile.
        let (git, here) = std::thread::scope(|threads| {
            let here = threads.spawn(|| references(&Git::at(self.target, Config::Nobodys)));
            let git = Git::without_filters(self.target);
            (git, here.join().unwrap_or_else(|_| Err(GitError::new(&["for-each-ref"], "its thread fell over"))))
        });
        let (git, here) = (git?, here?);
        self.spend_git()?;
        let begun = plan::begin_git(self.staging).map_err(|error| ActivateError::io(self.staging, &error))?;
        begun
            .map_or(Ok(()), |since| locks::clear(self.target, since))
            .map_err(|error| ActivateError::io(self.target, &error))?;
        self.spend_git()?;
        move_references(&git, &here, old, new)?;
        if old.stashes != new.stashes {
            self.spend_git()?;
            git.run(&["update-ref", "-d", "refs/stash"])?;
            self.spend_git()?;
            restore::stashes(&git, new)?;
        }
        self.spend_git()?;
        if !self.is_head(&new.head) {
            restore::head(&git, &new.head)?;
        }
        self.spend_git()?;
        settings(&git, old, new)?;
        self.new_index()?;
        self.spend_git()?;
        Ok(restore::refresh(&git)?)
    }

    fn spend_git(&mut self) -> Result<(), ActivateError> {
        self.budget.spend().map_err(|error| ActivateError::io(self.target, &error))
    }

    /// Whether the file says so already; where references are kept in another way it says nothing.
    fn is_head(&self, head: &HeadState) -> bool {
        let wanted = match head {
            HeadState::Branch(name) => [b"ref: ", name.as_slice(), b"\n"].concat(),
            HeadState::Detached(oid) => format!("{oid}\n").into_bytes(),
        };
        std::fs::read(self.target.join(".git/HEAD")).is_ok_and(|said| said == wanted)
    }

    fn new_index(&mut self) -> Result<(), ActivateError> {
        let (from, to) = (self.staging.join(NEW_INDEX), self.target.join(".git/index"));
        self.spend_git()?;
        missing_is_fine(std::fs::rename(&from, &to)).map_err(|error| ActivateError::io(&to, &error))
    }
}

/// The references that are carried, as they are.
fn references(git: &Git) -> Result<BTreeMap<Vec<u8>, Oid>, GitError> {
    let answer = git.run(&["for-each-ref", "--format=%(objectname) %(refname) %(symref)"])?;
    let mut here = BTreeMap::new();
    for line in repository::lines(&answer) {
        let mut parts = line.splitn(3, |b| *b == b' ');
        let (Some(id), Some(name), Some(b"")) = (parts.next(), parts.next(), parts.next()) else { continue };
        if let (Some(oid), true) = (repository::oid(id), is_carried(name)) {
            here.insert(name.to_vec(), oid);
        }
    }
    Ok(here)
}

/// Brings the references from the old state to the new one. One that somebody moved meanwhile is kept under another name.
fn move_references(git: &Git, here: &BTreeMap<Vec<u8>, Oid>, old: &State, new: &State) -> Result<(), ActivateError> {
    let mut input = Vec::new();
    let wanted: BTreeMap<&[u8], &Oid> = new.references.iter().map(|r| (r.name.as_slice(), &r.oid)).collect();
    let before: BTreeMap<&[u8], &Oid> = old.references.iter().map(|r| (r.name.as_slice(), &r.oid)).collect();
    for (name, oid) in here {
        let name = name.as_slice();
        let moved = before.get(name) != Some(&oid) && wanted.get(name) != Some(&oid);
        if moved {
            let kept = [b"refs/cede-kept/", name.strip_prefix(b"refs/").unwrap_or(name)].concat();
            restore::update(&mut input, b"update", &kept, oid);
        }
        if !wanted.contains_key(name) {
            [b"delete ", name, b"\0\0"].iter().for_each(|part| input.extend_from_slice(part));
        }
    }
    for (name, oid) in wanted {
        if here.get(name) != Some(oid) {
            restore::update(&mut input, b"update", name, oid);
        }
    }
    if input.is_empty() {
        return Ok(());
    }
    let git = git.clone().setting("core.logAllRefUpdates=false");
    git.feed(&["update-ref", "--stdin", "-z"], &input)?;
    Ok(())
}

/// Adds remotes and upstreams that are new; what is set here already stays as it is.
fn settings(git: &Git, old: &State, new: &State) -> Result<(), ActivateError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for remote in new.remotes.iter().filter(|remote| !old.remotes.contains(remote)) {
        let name = text(&remote.name);
        git.run(&["config", "--replace-all", &format!("remote.{name}.url"), &text(&remote.url)])?;
        for (number, spec) in remote.fetch.iter().enumerate() {
            let how = if number == 0 { "--replace-all" } else { "--add" };
            git.run(&["config", how, &format!("remote.{name}.fetch"), &text(spec)])?;
        }
    }
    for upstream in new.upstreams.iter().filter(|upstream| !old.upstreams.contains(upstream)) {
        let branch = text(&upstream.branch);
        git.run(&["config", "--replace-all", &format!("branch.{branch}.remote"), &text(&upstream.remote)])?;
        git.run(&["config", "--replace-all", &format!("branch.{branch}.merge"), &text(&upstream.merge)])?;
    }
    for alias in new.aliases.iter().filter(|alias| !old.aliases.contains(alias)) {
        git.run(&["symbolic-ref", &text(&alias.name), &text(&alias.target)])?;
    }
    Ok(())
}

fn open_mode(root: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let Some(stat) = stat_below(root, path)? else { return Ok(()) };
    if stat.permissions() & 0o700 == 0o700 { Ok(()) } else { set_mode(root, path, stat.permissions() | 0o700) }
}

fn set_mode(root: &OwnedFd, path: &[u8], mode: u32) -> io::Result<()> {
    missing_is_fine(open_directory(root, path).and_then(|fd| Ok(fchmod(fd, Mode::from_raw_mode(mode))?)))
}

/// A directory that holds something unknown stays.
fn remove_directory(root: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let removed = parent_of(root, path).and_then(|(above, name)| Ok(unlinkat(above, name, AtFlags::REMOVEDIR)?));
    match removed {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        // A file stands here already: this is a repetition.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
        other => missing_is_fine(other),
    }
}

fn create_directory(root: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let made = parent_of(root, path).and_then(|(above, name)| Ok(mkdirat(above, name, Mode::RWXU)?));
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_directory(root, path).map(|_| ()),
        other => other,
    }
}

fn missing_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl ActivateError {
    fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io { path: shown(path), kind: error.kind() }
    }
}

impl From<GitError> for ActivateError {
    fn from(error: GitError) -> Self {
        Self::Git { command: error.command, message: error.message }
    }
}
