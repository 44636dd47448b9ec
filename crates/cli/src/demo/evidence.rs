//! What a tree and a conversation are, so that two devices can be compared: file hashes, modes, link targets, HEAD and
//! `git status --porcelain=v2`.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cede_wire::control::Failure;
use cede_wire::id::Hash;
use cede_wire::path::escape;

use crate::demo::homes::cannot;
use crate::demo::repository::{Git, IGNORED_DIRECTORY};
use crate::limits::{DEMO_FILES, SHOWN_DIFFERENCES};

/// Everything that is compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Evidence {
    /// Each path below the tree with what is there, ignored files left out.
    pub(super) files: BTreeMap<String, String>,
    /// `git status --porcelain=v2`, line by line.
    pub(super) status: Vec<String>,
    /// Branch and commit.
    pub(super) head: String,
    /// Each part of the conversation with its hash.
    pub(super) conversation: BTreeMap<String, String>,
    /// Bytes of the conversation.
    pub(super) conversation_bytes: u64,
}

impl Evidence {
    /// Looks at a tree. The conversation is added by who knows the agent.
    pub(super) fn of(tree: &Path, home: &Path) -> Result<Self, Failure> {
        let git = Git { tree, home };
        let text = |arguments: &[&str]| git.run(arguments).map(|output| String::from_utf8_lossy(&output).into_owned());
        Ok(Self {
            files: files(tree).map_err(|error| cannot("read a tree", &error))?,
            status: text(&["status", "--porcelain=v2"])?.lines().map(str::to_owned).collect(),
            head: text(&["log", "-1", "--format=%H %D %s"])?
                .trim()
                .replace("HEAD -> ", "")
                .replace(", origin/main", ""),
            ..Self::default()
        })
    }

    /// Adds a part of the conversation.
    pub(super) fn conversation_part(&mut self, name: &str, bytes: &[u8]) {
        self.conversation.insert(name.to_owned(), Hash::of(bytes).to_string());
        self.conversation_bytes += bytes.len() as u64;
    }

    /// What differs, each in one line. Empty: nothing.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        compare("file", &self.files, &other.files, &mut found);
        compare("conversation", &self.conversation, &other.conversation, &mut found);
        if self.status != other.status {
            found.push(format!("git status: {:?} became {:?}", self.status, other.status));
        }
        if self.head != other.head {
            found.push(format!("HEAD: {} became {}", self.head, other.head));
        }
        found.truncate(SHOWN_DIFFERENCES);
        found
    }
}

fn compare(what: &str, before: &BTreeMap<String, String>, after: &BTreeMap<String, String>, found: &mut Vec<String>) {
    for (name, value) in before {
        match after.get(name) {
            None => found.push(format!("{what} {name} is missing")),
            Some(other) if other != value => found.push(format!("{what} {name}: {value} became {other}")),
            Some(_) => {}
        }
    }
    found.extend(after.keys().filter(|name| !before.contains_key(*name)).map(|name| format!("{what} {name} is new")));
}

fn files(tree: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(relative) = waiting.pop() {
        for entry in std::fs::read_dir(tree.join(&relative))? {
            let entry = entry?;
            let path = relative.join(entry.file_name());
            if path == Path::new(".git") || path == Path::new(IGNORED_DIRECTORY) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                waiting.push(path);
            } else {
                found.insert(escape(path.as_os_str().as_bytes()), describe(&entry)?);
            }
        }
        if found.len() > DEMO_FILES {
            return Err(std::io::Error::other("more files than the demo made"));
        }
    }
    Ok(found)
}

fn describe(entry: &std::fs::DirEntry) -> std::io::Result<String> {
    if entry.file_type()?.is_symlink() {
        return Ok(format!("link to {}", escape(std::fs::read_link(entry.path())?.as_os_str().as_bytes())));
    }
    let executable = entry.metadata()?.permissions().mode() & 0o111 != 0;
    let hash = Hash::of(&std::fs::read(entry.path())?).short();
    Ok(format!("{hash}{}", if executable { " executable" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::repository;

    fn made() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("project");
        repository::make(&tree, &root.path().join("origin.git"), root.path()).unwrap();
        (root, tree)
    }

    #[test]
    fn demo_tree_is_in_every_state_that_git_knows() {
        let (root, tree) = made();
        let evidence = Evidence::of(&tree, root.path()).unwrap();
        let status = evidence.status.join("\n");
        for part in ["1 A. ", "1 MM ", "1 .M ", "? try.sh", "? dangling", "? \"scratch"] {
            assert!(status.contains(part), "{part} is missing in:\n{status}");
        }
        let files = &evidence.files;
        assert_eq!(files.get("run").map(String::as_str), Some("link to src/greet.sh"));
        assert!(files.get("try.sh").is_some_and(|file| file.ends_with(" executable")));
        assert!(files.contains_key("src/grüße-日本.txt"));
        assert!(!files.keys().any(|name| name.starts_with("build")));
        let unpushed =
            Git { tree: &tree, home: root.path() }.run(&["log", "--format=%s", "origin/main..main"]).unwrap();
        assert_eq!(unpushed, b"Greet everybody (never pushed)\n");
    }

    #[test]
    fn two_equal_trees_do_not_differ() {
        let ((a, tree_a), (b, tree_b)) = (made(), made());
        let before = Evidence::of(&tree_a, a.path()).unwrap();
        assert_eq!(before.differences(&Evidence::of(&tree_b, b.path()).unwrap()), [""; 0]);
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        let (root, tree) = made();
        let before = Evidence::of(&tree, root.path()).unwrap();
        let differs = |change: &dyn Fn()| {
            change();
            !before.differences(&Evidence::of(&tree, root.path()).unwrap()).is_empty()
        };
        let try_sh = tree.join("try.sh");
        assert!(differs(&|| std::fs::set_permissions(&try_sh, std::fs::Permissions::from_mode(0o644)).unwrap()));
        std::fs::set_permissions(&try_sh, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!differs(&|| {}));
        assert!(differs(&|| std::fs::write(&try_sh, "other").unwrap()));
        std::fs::write(&try_sh, "#!/bin/sh\nexit 0\n").unwrap();
        assert!(differs(&|| drop(Git { tree: &tree, home: root.path() }.run(&["add", "try.sh"]).unwrap())));
        let mut talked = before.clone();
        talked.conversation_part("a.jsonl", b"{}\n");
        assert_eq!(before.differences(&talked), ["conversation a.jsonl is new"]);
    }
}
