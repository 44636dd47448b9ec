//! Working trees: made from a seed, changed from a seed, compared byte for byte.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A deterministic stream of numbers: splitmix64.
#[derive(Debug, Clone)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one.
    #[expect(clippy::should_implement_trait, reason = "it never ends, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// So many bytes that do not compress.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

/// Runs git in a tree without the person's configuration.
pub fn git(tree: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", tree);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for (name, value) in [("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", "2026-01-02T03:04:05Z")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    let output = command.current_dir(tree).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A small repository in every state that git knows.
pub fn dirty(tree: &Path) {
    std::fs::create_dir_all(tree.join("src")).unwrap();
    git(tree, &["init", "--quiet", "--initial-branch=main", "."]);
    std::fs::write(tree.join("src/greet.sh"), "#!/bin/sh\necho hello\n").unwrap();
    std::fs::set_permissions(tree.join("src/greet.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(tree.join("src/grüße-日本.txt"), "こんにちは\n").unwrap();
    std::fs::write(tree.join("gone.txt"), "will be removed\n").unwrap();
    std::fs::write(tree.join(".gitignore"), "build/\n").unwrap();
    symlink("src/greet.sh", tree.join("run")).unwrap();
    git(tree, &["add", "--all"]);
    git(tree, &["commit", "--quiet", "--message", "Greet"]);
    std::fs::write(tree.join("src/greet.sh"), "#!/bin/sh\necho hello, world\n").unwrap();
    git(tree, &["commit", "--quiet", "--all", "--message", "Never pushed"]);
    std::fs::write(tree.join("staged.txt"), "staged\n").unwrap();
    git(tree, &["add", "staged.txt"]);
    std::fs::write(tree.join("staged.txt"), "staged, then changed\n").unwrap();
    git(tree, &["rm", "--quiet", "gone.txt"]);
    std::fs::write(tree.join("src/greet.sh"), "#!/bin/sh\necho hello, everybody\n").unwrap();
    std::fs::write(tree.join("new file.txt"), "untracked\n").unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    std::fs::create_dir(tree.join("build")).unwrap();
    std::fs::write(tree.join("build/out"), "ignored\n").unwrap();
}

/// A repository with `files` untracked files of `bytes` each, and a little history.
pub fn large(tree: &Path, files: usize, bytes: usize, seed: u64) {
    dirty(tree);
    let mut numbers = Numbers(seed);
    for commit in 0..4_u32 {
        std::fs::write(tree.join("history.bin"), numbers.bytes(64 << 10)).unwrap();
        git(tree, &["add", "history.bin"]);
        git(tree, &["commit", "--quiet", "--message", &format!("History {commit}"), "--", "history.bin"]);
    }
    for file in 0..files {
        let directory = tree.join(format!("data/{:02}", file % 37));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{file:05}")), numbers.bytes(bytes)).unwrap();
    }
}

/// Writes new content into every file of [`large`] whose number is a multiple of `every`; how many bytes that were.
pub fn change(tree: &Path, every: usize, seed: u64) -> u64 {
    let mut numbers = Numbers(seed);
    let mut changed = 0;
    for directory in sorted(&tree.join("data")) {
        for file in sorted(&directory) {
            let number: usize = file.file_name().unwrap().to_str().unwrap().parse().unwrap();
            if number.is_multiple_of(every) {
                let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
                std::fs::write(&file, numbers.bytes(length)).unwrap();
                changed += length as u64;
            }
        }
    }
    changed
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Everything that a person could tell two trees apart by; ignored files are left out.
pub fn evidence(tree: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(relative) = waiting.pop() {
        for entry in std::fs::read_dir(tree.join(&relative)).unwrap().flatten() {
            let path = relative.join(entry.file_name());
            if path == Path::new(".git") || path == Path::new("build") {
                continue;
            }
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                found.insert(path.display().to_string(), format!("link to {}", target.display()));
            } else {
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                let hash = blake3::hash(&std::fs::read(entry.path()).unwrap());
                found.insert(path.display().to_string(), format!("{mode:o} {hash}"));
            }
        }
    }
    if tree.join(".git").exists() {
        found.insert("git status".to_owned(), git(tree, &["status", "--porcelain=v2", "--branch"]));
        found.insert("git log".to_owned(), git(tree, &["log", "--format=%H %s"]));
        found.insert("git index".to_owned(), git(tree, &["ls-files", "--stage"]));
    }
    found
}

/// Names of what lies in a directory.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Bytes of every file below a directory.
pub fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
            Ok(_) => entry.metadata().map_or(0, |metadata| metadata.len()),
            Err(_) => 0,
        })
        .sum()
}
