//! Trees to move, and what must be equal afterwards.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chunk::{SourceFiles, StatCache};
use crate::tree::*;

pub(super) struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    pub(super) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A repository with one commit.
    pub(super) fn repository(&self, name: &str) -> PathBuf {
        let root = self.path(name);
        std::fs::create_dir(&root).unwrap();
        git(&root, &["init", "-q", "-b", "main"]);
        write(&root, "a.txt", "one\n");
        write(&root, "src/main.rs", "fn main() {}\n");
        git(&root, &["add", "-A"]);
        commit(&root, "first");
        root
    }

    pub(super) fn capture(&self, directory: &Path) -> Capture {
        self.try_capture(directory, &[], &[], &mut StatCache::default()).unwrap()
    }

    pub(super) fn try_capture(
        &self,
        directory: &Path,
        include: &[&str],
        exclude: &[&str],
        cache: &mut StatCache,
    ) -> Result<Capture, CaptureError> {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let (include, exclude) = (own(include), own(exclude));
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let options = CaptureOptions {
            include_ignored: &include,
            exclude: &exclude,
            untracked: true,
            have: &[],
            scratch: &self.path(&format!("scratch-{name}")),
        };
        capture(&inspect(directory)?, &options, cache)
    }

    /// Stages a capture and puts it in its place.
    pub(super) fn deliver(&self, capture: &Capture, target: &str, baseline: Option<&Baseline>) -> Activated {
        let staging = self.path("staging");
        self.stage(capture, target, baseline).unwrap();
        let activated = activate(&staging).unwrap();
        assert_eq!(activate(&staging).unwrap(), activated, "activating again changes nothing");
        discard(&staging).unwrap();
        activated
    }

    pub(super) fn stage(
        &self,
        capture: &Capture,
        target: &str,
        baseline: Option<&Baseline>,
    ) -> Result<Staged, StageError> {
        self.stage_entries(&capture.entries, &capture.sources, target, baseline)
    }

    pub(super) fn stage_entries(
        &self,
        entries: &[cede_wire::catalog::Entry],
        sources: &SourceFiles,
        target: &str,
        baseline: Option<&Baseline>,
    ) -> Result<Staged, StageError> {
        stage(&StageRequest {
            entries,
            chunks: &Sources(sources),
            staging: &self.path("staging"),
            target: &self.path(target),
            baseline,
            cache: &StatCache::default,
            local_clone: None,
        })
    }
}

pub(super) struct Sources<'a>(pub(super) &'a SourceFiles);

impl ReadChunk for Sources<'_> {
    fn read(&self, id: &cede_wire::id::ChunkId, into: &mut Vec<u8>) -> std::io::Result<()> {
        self.0.read(id, into).map_err(std::io::Error::other)
    }
}

pub(super) fn git(root: &Path, arguments: &[&str]) -> String {
    let (ok, text) = try_git(root, arguments);
    assert!(ok, "git {arguments:?}: {text}");
    text
}

pub(super) fn try_git(root: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false", "-c", "gc.auto=0"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

pub(super) fn commit(root: &Path, message: &str) {
    git(root, &["commit", "-q", "--allow-empty", "-m", message]);
}

pub(super) fn write(root: &Path, name: &str, text: impl AsRef<[u8]>) {
    write_bytes(root, name.as_bytes(), text.as_ref());
}

pub(super) fn write_bytes(root: &Path, name: &[u8], bytes: &[u8]) {
    let path = root.join(std::ffi::OsStr::from_bytes(name));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

pub(super) fn mode(root: &Path, name: &str, mode: u32) {
    std::fs::set_permissions(root.join(name), PermissionsExt::from_mode(mode)).unwrap();
}

/// Everything that a person could notice of a repository.
pub(super) fn portrait(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let questions: [&[&str]; 9] = [
        &["status", "--porcelain=v2", "--branch", "-uall", "-z"],
        &["stash", "list"],
        &["for-each-ref", "--format=%(objectname) %(refname) %(symref) %(upstream)"],
        &["ls-files", "--stage", "-v", "-z"],
        &["diff", "--cached", "--raw"],
        &["diff", "--raw"],
        &["remote", "-v"],
        &["log", "--all", "--format=%H %an %s"],
        &["fsck", "--no-dangling"],
    ];
    for question in questions {
        let (_, answer) = try_git(root, question);
        all.insert(question.join(" "), answer);
    }
    let (_, head) = try_git(root, &["rev-parse", "--symbolic-full-name", "HEAD"]);
    all.insert("HEAD".into(), head);
    let flags = git(root, &["ls-files", "--debug"]);
    let flags: Vec<_> = flags.lines().filter_map(|l| l.split("flags: ").nth(1)).collect();
    all.insert("flags".into(), flags.join(","));
    all
}

/// Every file with kind, mode, time and bytes, without `.git`.
pub(super) fn files(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut all = BTreeMap::new();
    collect(root, &mut Vec::new(), &mut all);
    all
}

fn collect(directory: &Path, path: &mut Vec<u8>, all: &mut BTreeMap<Vec<u8>, String>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let name = entry.file_name();
        if name == ".git" {
            continue;
        }
        let length = path.len();
        path.extend_from_slice(name.as_bytes());
        let metadata = entry.path().symlink_metadata().unwrap();
        let mode = metadata.mode() & 0o7777;
        let text = if metadata.is_dir() {
            format!("directory {mode:o}")
        } else if metadata.is_symlink() {
            format!("link {:?}", std::fs::read_link(entry.path()).unwrap())
        } else {
            let hash = blake3::hash(&std::fs::read(entry.path()).unwrap()).to_hex();
            format!("file {mode:o} {}.{:09} {} {hash}", metadata.mtime(), metadata.mtime_nsec(), metadata.len())
        };
        all.insert(path.clone(), text);
        if metadata.is_dir() {
            path.push(b'/');
            collect(&entry.path(), path, all);
        }
        path.truncate(length);
    }
}

/// Compares two trees in everything.
pub(super) fn assert_same(here: &Path, there: &Path) {
    let (a, b) = (files(here), files(there));
    let shown = |map: &BTreeMap<Vec<u8>, String>| {
        map.iter().map(|(k, v)| format!("{} {v}", k.escape_ascii())).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(shown(&a), shown(&b));
    if here.join(".git").exists() {
        let (a, b) = (portrait(here), portrait(there));
        for (question, answer) in &a {
            assert_eq!(Some(answer), b.get(question), "git {question}");
        }
    }
}
