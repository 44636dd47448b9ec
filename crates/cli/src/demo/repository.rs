//! A small repository in every state that git knows: staged, unstaged, untracked, ignored, executable, symlinked, with
//! names that are not ASCII, and with a commit that was never pushed.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use cede_wire::control::{Failure, exit};

use crate::demo::homes::cannot;
use crate::fault;

/// Says whether git is there, before anything is made.
///
/// # Errors
/// Git is missing.
pub(super) fn need_git() -> Result<(), Failure> {
    let found = Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = || {
        fault::local(
            exit::FAILED,
            "the demo needs git",
            "git is not in PATH",
            "install git with your system's packages",
        )
    };
    if found { Ok(()) } else { Err(missing()) }
}

/// Makes the repository at `tree`, and what it was pushed to at `origin`.
pub(super) fn make(tree: &Path, origin: &Path, home: &Path) -> Result<(), Failure> {
    let git = Git { tree, home };
    std::fs::create_dir_all(tree).map_err(|error| cannot("make a repository", &error))?;
    git.run(&["init", "--quiet", "--bare", &origin.to_string_lossy()])?;
    git.run(&["init", "--quiet", "--initial-branch=main", "."])?;
    committed(tree).map_err(|error| cannot("write the repository's files", &error))?;
    git.run(&["add", "--all"])?;
    git.run(&["commit", "--quiet", "--message", "Greet"])?;
    git.run(&["remote", "add", "origin", &origin.to_string_lossy()])?;
    git.run(&["push", "--quiet", "origin", "main"])?;
    std::fs::write(tree.join("src/greet.sh"), "#!/bin/sh\necho hello, world\n")
        .map_err(|error| cannot("write", &error))?;
    git.run(&["commit", "--quiet", "--all", "--message", "Greet everybody (never pushed)"])?;
    staged(tree).map_err(|error| cannot("write the repository's files", &error))?;
    git.run(&["add", "docs", "notes.txt"])?;
    left_open(tree).map_err(|error| cannot("write the repository's files", &error))
}

/// Git in one tree, without the person's configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Git<'a> {
    pub(super) tree: &'a Path,
    pub(super) home: &'a Path,
}

impl Git<'_> {
    /// Runs git; its standard output comes back.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.home);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0");
        for (key, value) in WHO {
            command.env(key, value);
        }
        let output =
            command.current_dir(self.tree).args(arguments).output().map_err(|error| cannot("run git", &error))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let why = format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        Err(fault::local(exit::FAILED, "git failed in the demo", &why, ""))
    }
}

fn committed(tree: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(tree.join("src"))?;
    std::fs::write(tree.join("README.md"), "# A small thing\n")?;
    std::fs::write(tree.join(".gitignore"), "build/\n")?;
    std::fs::write(tree.join("notes.txt"), "one\n")?;
    std::fs::write(tree.join("src/greet.sh"), "#!/bin/sh\necho hello\n")?;
    std::fs::set_permissions(tree.join("src/greet.sh"), std::fs::Permissions::from_mode(0o755))?;
    std::fs::write(tree.join("src/grüße-日本.txt"), "schöne Grüße\n")?;
    symlink("src/greet.sh", tree.join("run"))
}

fn staged(tree: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(tree.join("docs"))?;
    std::fs::write(tree.join("docs/plan.md"), "1. greet\n2. greet better\n")?;
    std::fs::write(tree.join("notes.txt"), "one\ntwo, staged\n")
}

/// Changes that were not added, one of them on top of a staged one.
fn left_open(tree: &Path) -> std::io::Result<()> {
    std::fs::write(tree.join("notes.txt"), "one\ntwo, staged\nthree, not staged\n")?;
    std::fs::write(tree.join("README.md"), "# A small thing, half renamed\n")?;
    std::fs::write(tree.join("scratch żółw.txt"), "untracked\n")?;
    std::fs::write(tree.join("try.sh"), "#!/bin/sh\nexit 0\n")?;
    std::fs::set_permissions(tree.join("try.sh"), std::fs::Permissions::from_mode(0o755))?;
    symlink("missing target", tree.join("dangling"))?;
    std::fs::create_dir_all(tree.join(IGNORED_DIRECTORY))?;
    std::fs::write(tree.join(IGNORED_DIRECTORY).join("cache.bin"), [0; 4_096])
}

/// What git ignores here: it stays where it is.
pub(super) const IGNORED_DIRECTORY: &str = "build";

/// Author and moment of the commits: the same in every run.
const WHO: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "Ada"),
    ("GIT_AUTHOR_EMAIL", "ada@example.invalid"),
    ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "Ada"),
    ("GIT_COMMITTER_EMAIL", "ada@example.invalid"),
    ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
];
