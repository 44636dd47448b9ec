//! Looks at a directory and refuses, before anything moves, what would not arrive whole.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cede_wire::catalog::Oid;
use cede_wire::handoff::RepositoryIdentity;
use cede_wire::path::escape;

use super::git::Git;
use super::globs::Globs;
use super::repository::{Repository, refusal};
use super::survey::{Selection, SurveyError, survey};
use crate::chunk::shown;
use crate::limits::{ATTRIBUTES_BYTES, HAVE_COMMITS};
use crate::materialize::beneath::{found, is_link, is_there, open_file, open_root};

/// A directory that can be captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// What is captured: the directory, or the root of the git work tree that it lies in.
    pub root: PathBuf,
    /// Where the session's directory lies below the root; empty for the root itself.
    pub subdirectory: PathBuf,
    /// The repository, where there is one.
    pub git: Option<GitTree>,
}

/// What of a repository is known before a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitTree {
    /// The same repository on any machine.
    pub identity: RepositoryIdentity,
    /// Commits at the tips of its branches, tags and remote-tracking references: what a destination may name as
    /// had. Sorted, bounded.
    pub tips: Vec<Oid>,
}

/// Why a directory cannot be handed over. Nothing was changed. Each text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeRefusal {
    /// Nothing is there.
    #[error("there is no directory {0}; check the path, or put the directory back")]
    Missing(String),
    /// Not a directory, or not to be read.
    #[error("cannot open the directory {path}: {reason}; check the path and its permissions")]
    NotAccessible {
        /// The directory, escaped.
        path: String,
        /// What the system or git said.
        reason: String,
    },
    /// `/` or the home directory itself.
    #[error(
        "{0} is the root or a home directory, which is never moved as a whole; start the session in a project directory"
    )]
    TooBroad(String),
    /// No git program, or one too old.
    #[error("git is needed to move this repository: {0}; install git 2.30 or newer")]
    GitMissing(String),
    /// A bare repository, or a directory inside `.git`.
    #[error("{0} is a git directory without a work tree; use a clone with a work tree")]
    Bare(String),
    /// A linked worktree, or `.git` is a link.
    #[error(
        "{0} is a linked worktree; move the session from the main worktree, or clone the branch into a directory of its own"
    )]
    LinkedWorktree(String),
    /// `core.worktree` is set.
    #[error("the repository keeps its work tree elsewhere (core.worktree); unset it or use a plain clone")]
    SeparateWorkTree,
    /// History is cut off.
    #[error("the repository is a shallow clone, its history would not arrive; run: git fetch --unshallow")]
    Shallow,
    /// Objects are fetched on demand.
    #[error(
        "the repository is a partial clone, objects are missing; run: git fetch --refetch --no-filter, then remove the promisor settings"
    )]
    PartialClone,
    /// Only part of the tree is checked out.
    #[error("the repository uses sparse checkout, files would be missing; run: git sparse-checkout disable")]
    Sparse,
    /// Submodules.
    #[error(
        "the repository has a submodule, which does not travel yet: {0}; move it as a session of its own, or run: git submodule deinit and git rm --cached"
    )]
    Submodule(String),
    /// Files that Git LFS keeps elsewhere.
    #[error(
        "the repository uses Git LFS, its files would not arrive: {0}; run: git lfs uninstall --local, and migrate with: git lfs migrate export"
    )]
    Lfs(String),
    /// Files that are encrypted in the repository and plain in the work tree.
    #[error(
        "the repository uses git-crypt, plain secrets would travel: {0}; run: git-crypt lock, and move without the filter"
    )]
    Encrypted(String),
    /// A repository inside the repository.
    #[error("a repository lies inside the directory: {0}; move it out, ignore it, or move it as a session of its own")]
    NestedRepository(String),
    /// A merge, rebase, cherry-pick, revert or bisect.
    #[error("a {operation} is in progress; finish it, or run: git {operation} {stop}")]
    InProgress {
        /// The git command.
        operation: &'static str,
        /// Its word for giving up.
        stop: &'static str,
    },
    /// Conflicts in the index.
    #[error("the index has conflicts: {0}; resolve them and run: git add")]
    Unmerged(String),
    /// Replacement objects or grafts.
    #[error("the repository rewrites its history locally ({0}); run: git replace --delete, or remove the grafts file")]
    Replaced(String),
    /// A pipe, socket or device.
    #[error("not a file, directory or link: {path} ({kind}); remove or ignore it")]
    SpecialFile {
        /// The path, escaped.
        path: String,
        /// "pipe", "socket" or "device".
        kind: &'static str,
    },
    /// A name that no payload may carry.
    #[error("a name cannot travel: {0}; rename it")]
    Name(String),
    /// More than a catalog holds.
    #[error("too many files: more than {0}; ignore or remove generated ones")]
    TooMany(usize),
}

/// Inspects a directory.
///
/// # Errors
/// [`TreeRefusal`]; nothing was changed.
pub fn inspect(directory: &Path) -> Result<Tree, TreeRefusal> {
    let (tree, repository) = open(directory)?;
    let selection = Selection {
        include_ignored: Globs::none(),
        exclude: Globs::none(),
        untracked: true,
        also: None,
        count_ignored: false,
    };
    survey(&tree, repository.as_ref(), &selection).map_err(as_refusal)?;
    Ok(tree)
}

/// Finds the tree that a directory belongs to, without walking it: what a walk would refuse is not seen.
///
/// # Errors
/// [`TreeRefusal`]; nothing was changed.
pub fn identify(directory: &Path) -> Result<Tree, TreeRefusal> {
    Ok(open(directory)?.0)
}

/// The root of the tree that a directory belongs to; nothing in it is looked at.
///
/// # Errors
/// [`TreeRefusal`] for what is no directory, is too broad, or is a git directory.
pub fn root_of(directory: &Path) -> Result<PathBuf, TreeRefusal> {
    let Located { directory, root } = locate(directory)?;
    Ok(root.unwrap_or(directory))
}

/// A tree and its repository; all checks but those of the walk.
pub(crate) fn open(directory: &Path) -> Result<(Tree, Option<Repository>), TreeRefusal> {
    open_located(locate(directory)?)
}

pub(crate) fn open_located(located: Located) -> Result<(Tree, Option<Repository>), TreeRefusal> {
    let Located { directory, root } = located;
    let Some(root) = root else {
        return Ok((Tree { root: directory, subdirectory: PathBuf::new(), git: None }, None));
    };
    let (git, repository) = open_repository(&root)?;
    let subdirectory = directory.strip_prefix(&root).unwrap_or(Path::new("")).to_path_buf();
    Ok((Tree { root, subdirectory, git: Some(git) }, Some(repository)))
}

/// A directory that was found; nothing in it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Without links.
    directory: PathBuf,
    /// Of the work tree that it lies in.
    root: Option<PathBuf>,
}

impl Located {
    /// What would be captured: the work tree, or the directory itself.
    pub fn root(&self) -> &Path {
        self.root.as_ref().unwrap_or(&self.directory)
    }
}

/// Finds a directory and the work tree that it lies in.
///
/// # Errors
/// [`TreeRefusal`] for what is no directory, is too broad, or is a git directory.
pub fn locate(directory: &Path) -> Result<Located, TreeRefusal> {
    let directory = std::fs::canonicalize(directory).map_err(|error| not_opened(directory, &error))?;
    std::fs::read_dir(&directory).map_err(|error| not_accessible(&directory, &error.to_string()))?;
    refuse_broad(&directory)?;
    if is_git_directory(&directory)? || directory.components().any(|part| part.as_os_str() == ".git") {
        return Err(TreeRefusal::Bare(shown(&directory)));
    }
    let root = match repository_above(&directory)? {
        Some(root) if root == directory || !is_foreign(&root, &directory)? => Some(root),
        Some(_) | None => None,
    };
    Ok(Located { directory, root })
}

fn repository_above(directory: &Path) -> Result<Option<PathBuf>, TreeRefusal> {
    for above in directory.ancestors() {
        if looked(&above.join(".git"))? {
            return Ok(Some(above.to_path_buf()));
        }
    }
    Ok(None)
}

fn open_repository(root: &Path) -> Result<(GitTree, Repository), TreeRefusal> {
    let directory = root.join(".git");
    if !directory.symlink_metadata().map_err(|error| not_opened(&directory, &error))?.is_dir() {
        return Err(TreeRefusal::LinkedWorktree(shown(root)));
    }
    refuse_broad(root)?;
    check_version()?;
    check_discovery(root)?;
    let repository = reopen(root)?;
    let identity = RepositoryIdentity {
        roots: repository.roots()?,
        remote: repository.origin(),
        head: repository.head_oid.clone(),
    };
    let mut tips: Vec<_> = repository.references.iter().map(|reference| reference.oid.clone()).collect();
    tips.extend(repository.head_oid.clone());
    tips.sort_unstable();
    tips.dedup();
    tips.truncate(HAVE_COMMITS);
    Ok((GitTree { identity, tips }, repository))
}

/// Reads a repository that was inspected before, and checks again what can change.
pub(crate) fn reopen(root: &Path) -> Result<Repository, TreeRefusal> {
    check_files(&root.join(".git"))?;
    let repository = Repository::read(root)?;
    check_settings(&repository)?;
    check_references(&repository)?;
    check_attributes(root, &repository)?;
    Ok(repository)
}

/// The root, or a home directory: never meant as a whole.
fn refuse_broad(directory: &Path) -> Result<(), TreeRefusal> {
    let home = std::env::var_os("HOME").and_then(|home| std::fs::canonicalize(home).ok());
    let broad = directory.parent().is_none() || home.is_some_and(|home| home == directory);
    if broad { Err(TreeRefusal::TooBroad(shown(directory))) } else { Ok(()) }
}

/// True if the directory lies in the repository only by accident: a home directory under version control that ignores it.
///
/// A repository that git does not open says so where it is opened itself.
fn is_foreign(root: &Path, directory: &Path) -> Result<bool, TreeRefusal> {
    use std::os::unix::ffi::OsStrExt;
    let Ok(below) = directory.strip_prefix(root) else { return Ok(false) };
    let input = [b"./", below.as_os_str().as_bytes(), b"\0"].concat();
    let answer = Git::discover(root).ask(&["check-ignore", "-z", "--stdin"], &input).map_err(refusal)?;
    Ok(answer.code == Some(0))
}

fn is_git_directory(directory: &Path) -> Result<bool, TreeRefusal> {
    for name in ["HEAD", "objects", "refs"] {
        if !looked(&directory.join(name))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn check_version() -> Result<(), TreeRefusal> {
    let answer = Git::discover(Path::new("/")).run(&["version"]).map_err(refusal)?;
    let text = String::from_utf8_lossy(&answer).trim().to_owned();
    let mut numbers = text.split_whitespace().nth(2).unwrap_or_default().split('.').map(|n| n.parse().unwrap_or(0));
    let found: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= (2, 30) { Ok(()) } else { Err(TreeRefusal::GitMissing(text)) }
}

/// Lets git find the repository by itself: it refuses one that another user owns.
fn check_discovery(root: &Path) -> Result<(), TreeRefusal> {
    let arguments = ["rev-parse", "--show-toplevel", "--is-bare-repository"];
    let answer = Git::discover(root).ask(&arguments, &[]).map_err(refusal)?;
    if answer.error.contains("must be run in a work tree") {
        return Err(TreeRefusal::Bare(shown(root)));
    }
    if answer.code != Some(0) {
        return Err(not_accessible(root, &answer.error));
    }
    use std::os::unix::ffi::OsStrExt;
    match super::repository::lines(&answer.output).next() {
        Some(top) if top == root.as_os_str().as_bytes() => Ok(()),
        _ => Err(TreeRefusal::SeparateWorkTree),
    }
}

/// What stands in `.git` of an operation that has not ended.
const IN_PROGRESS: [(&str, &str, &str); 7] = [
    ("MERGE_HEAD", "merge", "--abort"),
    ("rebase-merge", "rebase", "--abort"),
    ("rebase-apply", "rebase", "--abort"),
    ("CHERRY_PICK_HEAD", "cherry-pick", "--abort"),
    ("REVERT_HEAD", "revert", "--abort"),
    ("sequencer", "cherry-pick", "--quit"),
    ("BISECT_LOG", "bisect", "reset"),
];

fn check_files(git: &Path) -> Result<(), TreeRefusal> {
    let has = |name: &str| looked(&git.join(name));
    if has("shallow")? {
        return Err(TreeRefusal::Shallow);
    }
    for (name, operation, stop) in IN_PROGRESS {
        if has(name)? {
            return Err(TreeRefusal::InProgress { operation, stop });
        }
    }
    if has("info/grafts")? {
        return Err(TreeRefusal::Replaced("grafts".to_owned()));
    }
    let promised = |pack: &PathBuf| pack.extension().is_some_and(|extension| extension == "promisor");
    if listed(&git.join("objects/pack"))?.iter().any(promised) {
        return Err(TreeRefusal::PartialClone);
    }
    if !listed(&git.join("lfs/objects"))?.is_empty() {
        return Err(TreeRefusal::Lfs(".git/lfs/objects".to_owned()));
    }
    Ok(())
}

fn check_settings(repository: &Repository) -> Result<(), TreeRefusal> {
    if repository.is_on("core.bare") == Some(true) {
        return Err(TreeRefusal::Bare(".git".to_owned()));
    }
    if repository.setting("core.worktree").is_some() {
        return Err(TreeRefusal::SeparateWorkTree);
    }
    if repository.is_on("core.sparsecheckout") == Some(true) {
        return Err(TreeRefusal::Sparse);
    }
    let promised =
        |key: &str| key == "extensions.partialclone" || (key.starts_with("remote.") && key.ends_with(".promisor"));
    if repository.settings.iter().any(|(key, _)| promised(key)) {
        return Err(TreeRefusal::PartialClone);
    }
    Ok(())
}

fn check_references(repository: &Repository) -> Result<(), TreeRefusal> {
    let replaced = repository.other_references.iter().find(|name| name.starts_with(b"refs/replace/"));
    replaced.map_or(Ok(()), |name| Err(TreeRefusal::Replaced(escape(name))))
}

/// Searches the attributes that are in force for filters that keep content elsewhere.
fn check_attributes(root: &Path, repository: &Repository) -> Result<(), TreeRefusal> {
    let tracked = repository.index.iter().map(|entry| entry.path.as_slice());
    let names = tracked.filter(|path| *path == b".gitattributes" || path.ends_with(b"/.gitattributes"));
    let top = open_root(root).map_err(|error| not_accessible(root, &error.to_string()))?;
    for name in names.chain([&b".git/info/attributes"[..]]) {
        let text =
            attributes(&top, name).map_err(|error| not_accessible(root, &format!("{}: {error}", escape(name))))?;
        if let Some(line) = lines_with(&text, "filter=lfs") {
            return Err(TreeRefusal::Lfs(format!("{}: {line}", escape(name))));
        }
        if let Some(line) = lines_with(&text, "filter=git-crypt") {
            return Err(TreeRefusal::Encrypted(format!("{}: {line}", escape(name))));
        }
    }
    Ok(())
}

/// None where git reads none: through a link, of a directory.
fn attributes(top: &OwnedFd, name: &[u8]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = open_file(top, name).and_then(|file| file.take(ATTRIBUTES_BYTES).read_to_end(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory || is_link(&error) => {}
        read => found(read).map(drop)?,
    }
    Ok(text)
}

/// Whether something stands there; what cannot be said is an error.
fn looked(path: &Path) -> Result<bool, TreeRefusal> {
    is_there(path).map_err(|error| not_accessible(path, &error.to_string()))
}

/// What lies in a directory; nothing, where it is not there.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, TreeRefusal> {
    let names = found(std::fs::read_dir(directory));
    let names = names.and_then(|names| names.into_iter().flatten().map(|name| Ok(name?.path())).collect());
    names.map_err(|error| not_accessible(directory, &error.to_string()))
}

fn lines_with(text: &[u8], word: &str) -> Option<String> {
    let mut lines = super::repository::lines(text).map(escape).filter(|line| !line.trim_start().starts_with('#'));
    lines.find(|line| line.split_whitespace().any(|part| part == word))
}

fn not_accessible(path: &Path, reason: &str) -> TreeRefusal {
    TreeRefusal::NotAccessible { path: shown(path), reason: reason.to_owned() }
}

fn not_opened(path: &Path, error: &io::Error) -> TreeRefusal {
    if error.kind() == io::ErrorKind::NotFound {
        TreeRefusal::Missing(shown(path))
    } else {
        not_accessible(path, &error.to_string())
    }
}

impl TreeRefusal {
    /// Whether it says nothing of the tree: the system or the git program did not let it be read.
    pub fn is_of_the_world(&self) -> bool {
        match self {
            Self::NotAccessible { .. } | Self::GitMissing(_) => true,
            Self::Missing(_)
            | Self::TooBroad(_)
            | Self::Bare(_)
            | Self::LinkedWorktree(_)
            | Self::SeparateWorkTree
            | Self::Shallow
            | Self::PartialClone
            | Self::Sparse
            | Self::Submodule(_)
            | Self::Lfs(_)
            | Self::Encrypted(_)
            | Self::NestedRepository(_)
            | Self::InProgress { .. }
            | Self::Unmerged(_)
            | Self::Replaced(_)
            | Self::SpecialFile { .. }
            | Self::Name(_)
            | Self::TooMany(_) => false,
        }
    }
}

fn as_refusal(error: SurveyError) -> TreeRefusal {
    match error {
        SurveyError::Refused(refusal) => refusal,
        SurveyError::Read(error) => TreeRefusal::NotAccessible { path: ".".to_owned(), reason: error.to_string() },
        SurveyError::ExcludesTracked { path, .. } => TreeRefusal::Name(path),
    }
}
