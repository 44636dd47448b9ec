//! A working tree as it is now, kept as a commit on a branch of its own. The tree, the index and HEAD stay as they are.

use std::path::Path;

use super::git::{Git, GitError, failed};
use super::locks;

/// Why a tree was not kept on a branch. Nothing but loose objects was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("git {command}: {message}")]
pub struct AsideError {
    command: String,
    message: String,
}

impl From<GitError> for AsideError {
    fn from(error: GitError) -> Self {
        Self { command: error.command, message: error.message }
    }
}

/// Keeps everything that git does not ignore, tracked or not, as a commit behind HEAD, under `refs/heads/` and this name.
/// A branch of that name that is there already is left as it is. Blocks.
///
/// # Errors
/// [`AsideError`].
pub fn set_aside(root: &Path, branch: &str, message: &str) -> Result<(), AsideError> {
    let reference = format!("refs/heads/{branch}");
    let git = Git::without_filters(root)?;
    if git.ask(&["rev-parse", "--verify", "--quiet", &reference], &[])?.code == Some(0) {
        return Ok(());
    }
    let index = root.join(".git").join(format!("cede-aside-{}", branch.replace('/', "-")));
    let committed = commit(&git.clone().variable("GIT_INDEX_FILE", &index), message);
    // It is of no use to anybody else, and made anew where this is repeated.
    let _ = std::fs::remove_file(&index);
    let nothing = "0".repeat(committed.as_deref().map_or(40, str::len));
    let update = ["update-ref", &reference, &committed?, &nothing];
    locks::clear_own(root, &reference).map_err(|error| GitError::io(&update, &error))?;
    let answer = git.ask(&update, &[])?;
    if answer.code == Some(0) { Ok(()) } else { Err(failed(&update, &answer).into()) }
}

fn commit(git: &Git, message: &str) -> Result<String, GitError> {
    let git = git.clone().setting("core.fsync=all").variable("GIT_AUTHOR_NAME", "cede");
    let git = git.variable("GIT_AUTHOR_EMAIL", "cede@localhost").variable("GIT_COMMITTER_NAME", "cede");
    let git = git.variable("GIT_COMMITTER_EMAIL", "cede@localhost");
    let head = git.ask(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], &[])?;
    let head = (head.code == Some(0)).then(|| line(&head.output));
    if let Some(head) = &head {
        git.run(&["read-tree", head])?;
    }
    git.run(&["add", "--all", "--", "."])?;
    let tree = line(&git.run(&["write-tree"])?);
    let mut arguments = vec!["commit-tree", &tree, "-m", message];
    if let Some(head) = &head {
        arguments.extend(["-p", head]);
    }
    Ok(line(&git.run(&arguments)?))
}

fn line(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(root: &Path, arguments: &[&str]) -> String {
        let said = std::process::Command::new("git").args(arguments).current_dir(root).output().unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    /// Shows: H-9
    #[test]
    fn tree_is_kept_on_a_branch_and_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        git(root, &["init", "-q"]);
        std::fs::write(root.join("tracked"), "one").unwrap();
        git(root, &["add", "tracked"]);
        git(root, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);
        std::fs::write(root.join("tracked"), "two").unwrap();
        std::fs::write(root.join("new"), "three").unwrap();
        let before = (git(root, &["status", "--porcelain=v2"]), git(root, &["rev-parse", "HEAD"]));
        set_aside(root, "cede/session-g1", "kept").unwrap();
        set_aside(root, "cede/session-g1", "kept").unwrap();
        assert_eq!((git(root, &["status", "--porcelain=v2"]), git(root, &["rev-parse", "HEAD"])), before);
        assert_eq!(git(root, &["show", "cede/session-g1:tracked"]), "two");
        assert_eq!(git(root, &["show", "cede/session-g1:new"]), "three");
        assert_eq!(git(root, &["rev-parse", "cede/session-g1~1"]), before.1);
    }

    /// Shows: H-9
    #[test]
    fn repository_without_a_commit_is_kept_too() {
        let directory = tempfile::tempdir().unwrap();
        git(directory.path(), &["init", "-q"]);
        std::fs::write(directory.path().join("new"), "three").unwrap();
        set_aside(directory.path(), "cede/x", "kept").unwrap();
        assert_eq!(git(directory.path(), &["show", "cede/x:new"]), "three");
    }
}
