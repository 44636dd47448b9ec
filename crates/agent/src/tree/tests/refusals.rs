//! What would not arrive whole is refused, each with its own reason, before anything moves.

use std::os::unix::fs::symlink;

use super::lab::*;
use crate::tree::*;

fn refusal(lab: &Lab, name: &str) -> TreeRefusal {
    let refusal = inspect(&lab.path(name)).unwrap_err();
    let text = refusal.to_string();
    assert!(text.contains(';') && !text.ends_with('.'), "says what to do: {text}");
    refusal
}

/// Shows: T-8
#[test]
fn cut_history_is_refused() {
    let lab = Lab::new();
    let root = lab.repository("up");
    commit(&root, "second");
    let url = format!("file://{}", root.display());
    git(&lab.path(""), &["clone", "-q", "--depth", "1", &url, "shallow"]);
    assert_eq!(refusal(&lab, "shallow"), TreeRefusal::Shallow);
    git(&root, &["config", "uploadpack.allowFilter", "true"]);
    git(&lab.path(""), &["clone", "-q", "--filter=blob:none", &url, "partial"]);
    assert_eq!(refusal(&lab, "partial"), TreeRefusal::PartialClone);
}

/// Shows: T-8
#[test]
fn unfinished_operation_is_refused() {
    let lab = Lab::new();
    for (name, arguments) in
        [("merge", vec!["merge"]), ("rebase", vec!["rebase"]), ("cherry-pick", vec!["cherry-pick"]), ("revert", vec![])]
    {
        let root = lab.repository(name);
        git(&root, &["checkout", "-q", "-b", "side"]);
        write(&root, "a.txt", "side\n");
        git(&root, &["commit", "-qam", "side"]);
        git(&root, &["checkout", "-q", "main"]);
        write(&root, "a.txt", "main\n");
        git(&root, &["commit", "-qam", "main"]);
        write(&root, "a.txt", "more\n");
        git(&root, &["commit", "-qam", "more"]);
        let arguments = if name == "revert" { vec!["revert", "HEAD~1"] } else { [arguments, vec!["side"]].concat() };
        assert!(!try_git(&root, &arguments).0);
        assert!(matches!(refusal(&lab, name), TreeRefusal::InProgress { operation, .. } if operation == name));
    }
    let root = lab.repository("bisect");
    git(&root, &["bisect", "start"]);
    assert!(matches!(refusal(&lab, "bisect"), TreeRefusal::InProgress { operation: "bisect", .. }));
}

/// Shows: T-8
#[test]
fn unmerged_index_is_refused() {
    let lab = Lab::new();
    let root = lab.repository("r");
    git(&root, &["checkout", "-q", "-b", "side"]);
    write(&root, "a.txt", "side\n");
    git(&root, &["commit", "-qam", "side"]);
    git(&root, &["checkout", "-q", "main"]);
    write(&root, "a.txt", "main\n");
    git(&root, &["stash", "-q"]);
    write(&root, "a.txt", "other\n");
    git(&root, &["commit", "-qam", "other"]);
    assert!(!try_git(&root, &["stash", "pop"]).0);
    assert_eq!(refusal(&lab, "r"), TreeRefusal::Unmerged("a.txt".into()));
}

/// Shows: T-8
#[test]
fn content_kept_elsewhere_is_refused() {
    let lab = Lab::new();
    let inner = lab.repository("inner");
    let root = lab.repository("submodule");
    git(&root, &["submodule", "add", "-q", inner.to_str().unwrap(), "sub"]);
    assert_eq!(refusal(&lab, "submodule"), TreeRefusal::Submodule("sub".into()));

    let root = lab.repository("lfs");
    write(&root, "media/.gitattributes", "# filter=none\n*.psd filter=lfs diff=lfs\n");
    git(&root, &["add", "-A"]);
    assert!(matches!(refusal(&lab, "lfs"), TreeRefusal::Lfs(_)));

    let root = lab.repository("lfs-objects");
    write(&root, ".git/lfs/objects/aa/bb/x", "x");
    assert!(matches!(refusal(&lab, "lfs-objects"), TreeRefusal::Lfs(_)));

    let root = lab.repository("crypt");
    write(&root, ".gitattributes", "secret filter=git-crypt\n");
    git(&root, &["add", "-A"]);
    assert!(matches!(refusal(&lab, "crypt"), TreeRefusal::Encrypted(_)));

    let root = lab.repository("sparse");
    git(&root, &["sparse-checkout", "set", "src"]);
    assert_eq!(refusal(&lab, "sparse"), TreeRefusal::Sparse);
}

/// Shows: T-8
#[test]
fn git_directory_elsewhere_is_refused() {
    let lab = Lab::new();
    let root = lab.repository("r");
    git(&root, &["worktree", "add", "-q", "../linked"]);
    assert!(matches!(refusal(&lab, "linked"), TreeRefusal::LinkedWorktree(_)));
    assert!(inspect(&root).is_ok(), "the main worktree travels");

    git(&lab.path(""), &["clone", "-q", "--bare", "r", "bare"]);
    assert!(matches!(refusal(&lab, "bare"), TreeRefusal::Bare(_)));
    assert!(matches!(refusal(&lab, "r/.git/refs"), TreeRefusal::Bare(_)));

    let other = lab.repository("other");
    git(&other, &["config", "core.worktree", lab.path("r").to_str().unwrap()]);
    assert_eq!(refusal(&lab, "other"), TreeRefusal::SeparateWorkTree);

    let moved = lab.repository("moved");
    std::fs::rename(moved.join(".git"), lab.path("elsewhere")).unwrap();
    symlink(lab.path("elsewhere"), moved.join(".git")).unwrap();
    assert!(matches!(refusal(&lab, "moved"), TreeRefusal::LinkedWorktree(_)));
}

/// Shows: T-8
#[test]
fn nested_repository_is_refused_unless_ignored() {
    let lab = Lab::new();
    let root = lab.repository("r");
    git(&root, &["init", "-q", "vendor/lib"]);
    write(&root, "vendor/lib/f", "x");
    assert_eq!(refusal(&lab, "r"), TreeRefusal::NestedRepository("vendor/lib".into()));
    write(&root, "vendor/lib/.git/marker", "x");
    write(&root, ".gitignore", "vendor/\n");
    assert!(inspect(&root).is_ok());
    let included = lab.try_capture(&root, &["vendor"], &[], &mut crate::chunk::StatCache::default());
    assert!(matches!(included, Err(CaptureError::Refused(TreeRefusal::NestedRepository(_)))), "{included:?}");

    std::fs::create_dir(lab.path("plain")).unwrap();
    git(&lab.path("plain"), &["init", "-q", "inside"]);
    assert_eq!(refusal(&lab, "plain"), TreeRefusal::NestedRepository("inside".into()));
}

/// Shows: T-5
#[test]
fn special_file_is_refused_by_name() {
    let lab = Lab::new();
    let root = lab.repository("r");
    let make = |path: std::path::PathBuf| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    make(root.join("src/pipe"));
    assert_eq!(refusal(&lab, "r"), TreeRefusal::SpecialFile { path: "src/pipe".into(), kind: "pipe" });
    write(&root, ".gitignore", "pipe\n");
    assert!(inspect(&root).is_ok(), "an ignored one stays");
    std::fs::create_dir(lab.path("plain")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(lab.path("plain/s")).unwrap();
    assert_eq!(refusal(&lab, "plain"), TreeRefusal::SpecialFile { path: "s".into(), kind: "socket" });
}

/// Shows: T-8
#[test]
fn rewritten_history_is_refused() {
    let lab = Lab::new();
    let root = lab.repository("r");
    commit(&root, "second");
    git(&root, &["replace", "HEAD", "HEAD~1"]);
    assert!(matches!(refusal(&lab, "r"), TreeRefusal::Replaced(_)));
    let root = lab.repository("grafts");
    write(&root, ".git/info/grafts", "");
    assert!(matches!(refusal(&lab, "grafts"), TreeRefusal::Replaced(_)));
}

#[test]
fn too_broad_or_missing_directory_is_refused() {
    let lab = Lab::new();
    assert!(matches!(inspect(std::path::Path::new("/")), Err(TreeRefusal::TooBroad(_))));
    let home = std::env::var_os("HOME").unwrap();
    assert!(matches!(inspect(std::path::Path::new(&home)), Err(TreeRefusal::TooBroad(_))));
    assert!(matches!(refusal(&lab, "missing"), TreeRefusal::Missing(_)));
    write(&lab.path(""), "file", "x");
    assert!(matches!(refusal(&lab, "file"), TreeRefusal::NotAccessible { .. }));
}

#[test]
fn name_that_no_payload_carries_is_refused() {
    let lab = Lab::new();
    let root = lab.repository("r");
    write(&root, "sub/.GIT/x", "x");
    assert!(matches!(refusal(&lab, "r"), TreeRefusal::Name(_)));
    let deep = "d/".repeat(70);
    std::fs::create_dir(lab.path("plain")).unwrap();
    write(&lab.path("plain"), &format!("{deep}f"), "x");
    assert!(matches!(refusal(&lab, "plain"), TreeRefusal::Name(_)));
}

#[test]
fn session_in_an_ignored_directory_is_a_tree_of_its_own() {
    let lab = Lab::new();
    let root = lab.repository("r");
    write(&root, ".gitignore", "projects/\n");
    write(&root, "projects/p/f", "x");
    let tree = inspect(&root.join("projects/p")).unwrap();
    assert_eq!((tree.git, tree.root.file_name().unwrap()), (None, std::ffi::OsStr::new("p")));
}
