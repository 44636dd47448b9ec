//! What arrives is what left.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use cede_wire::handoff::Disposition;

use super::lab::*;
use crate::chunk::StatCache;
use crate::tree::*;

/// Shows: T-1
#[test]
fn dirty_tree_arrives_whole() {
    let lab = Lab::new();
    let root = lab.repository("r");
    let names: [&[u8]; 12] = [
        "e\u{301}.txt".as_bytes(),
        "\u{e9}.txt".as_bytes(),
        "\u{1f980}".as_bytes(),
        b"new\nline",
        b"tab\t",
        b"quo\"te",
        b"back\\slash",
        b"-dash",
        b" lead",
        b"\xff\xfe",
        b"trail ",
        b"a:b",
    ];
    for name in names {
        write_bytes(&root, name, name);
        write_bytes(&root, &[b"untracked-", name].concat(), b"u");
    }
    for (name, text) in
        [("staged", "1"), ("unstaged", "1"), ("both", "1"), ("gone", "1"), ("moved", "some longer text\n")]
    {
        write(&root, name, text);
    }
    for name in ["skipped", "assumed", "x/exec", "private", "kept"] {
        write(&root, name, "tracked\n");
    }
    mode(&root, "x/exec", 0o755);
    git(&root, &["add", "-A", "--", "."]);
    for name in names {
        let untracked = [b"untracked-", name].concat();
        git_path(&root, &["rm", "-q", "--cached", "--"], &untracked);
    }
    commit(&root, "second");
    write(&root, "staged", "22");
    git(&root, &["add", "staged"]);
    write(&root, "unstaged", "333");
    write(&root, "both", "22");
    git(&root, &["add", "both"]);
    write(&root, "both", "4444");
    std::fs::remove_file(root.join("gone")).unwrap();
    git(&root, &["mv", "moved", "renamed"]);
    git(&root, &["update-index", "--skip-worktree", "skipped"]);
    git(&root, &["update-index", "--assume-unchanged", "assumed"]);
    write(&root, "skipped", "edited unseen\n");
    write(&root, "assumed", "edited unseen too\n");
    write(&root, "promised", "to be added\n");
    write(&root, "d/promised", "to be added\n");
    git(&root, &["add", "-N", "promised", "d/promised"]);
    mode(&root, "private", 0o600);
    mode(&root, "kept", 0o444);
    write(&root, "empty", "");
    std::fs::create_dir_all(root.join("void/deep")).unwrap();
    std::fs::create_dir(root.join("shut")).unwrap();
    mode(&root, "shut", 0o700);
    write(&root, "shut/f", "x");
    symlink("a.txt", root.join("relative")).unwrap();
    symlink("/etc/hostname", root.join("absolute")).unwrap();
    symlink("nowhere/at/all", root.join("dangling")).unwrap();
    symlink("src", root.join("to-directory")).unwrap();
    assert_moves(&lab, "r", &[]);
}

fn git_path(root: &std::path::Path, arguments: &[&str], path: &[u8]) {
    let status = std::process::Command::new("git")
        .args(arguments)
        .arg(std::ffi::OsStr::from_bytes(path))
        .current_dir(root)
        .status();
    assert!(status.unwrap().success());
}

fn assert_moves(lab: &Lab, name: &str, include: &[&str]) -> Activated {
    let root = lab.path(name);
    let capture = lab.try_capture(&root, include, &[], &mut StatCache::default()).unwrap();
    let activated = lab.deliver(&capture, "there", None);
    assert_eq!(activated.root, lab.path("there"));
    assert_same(&root, &activated.root);
    let again = lab.try_capture(&activated.root, include, &[], &mut StatCache::default()).unwrap();
    let same = verify_equal(&root, &Baseline::of(&again.entries), &lab.path("v"), &mut StatCache::default());
    assert_eq!(same, Ok(()), "a second capture, there, names the same state");
    activated
}

#[test]
fn history_arrives_whole() {
    let lab = Lab::new();
    let upstream = lab.repository("upstream");
    git(&lab.path(""), &["clone", "-q", "upstream", "r"]);
    let root = lab.path("r");
    git(&root, &["checkout", "-q", "-b", "feature", "--track", "origin/main"]);
    write(&root, "a.txt", "feature\n");
    git(&root, &["commit", "-qam", "unpushed"]);
    git(&root, &["tag", "-a", "v1", "-m", "annotated"]);
    git(&root, &["tag", "light"]);
    for text in ["s1", "s2", "s3"] {
        write(&root, "a.txt", text);
        write(&root, &format!("new-{text}"), text);
        git(&root, &["stash", "push", "-q", "-u", "-m", &format!("stash {text}")]);
    }
    write(&upstream, "b.txt", "upstream\n");
    git(&upstream, &["add", "-A"]);
    commit(&upstream, "ahead");
    git(&root, &["fetch", "-q"]);
    git(&root, &["branch", "other", "HEAD~1"]);
    write(&root, "crlf.txt", "a\r\nb\r\n");
    write(&root, ".gitattributes", "*.bin binary\n");
    git(&root, &["config", "core.autocrlf", "true"]);
    git(&root, &["add", "-A"]);
    let big: Vec<u8> = (0..20_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    write(&root, "big.bin", &big);
    let there = assert_moves(&lab, "r", &[]).root;
    assert!(portrait(&there)["stash list"].contains("stash@{2}: On feature: stash s1"));
    assert!(portrait(&there)["status --porcelain=v2 --branch -uall -z"].contains("branch.ab +1 -1"));
}

#[test]
fn detached_head_arrives() {
    let lab = Lab::new();
    let root = lab.repository("r");
    commit(&root, "second");
    git(&root, &["checkout", "-q", "--detach", "HEAD~1"]);
    commit(&root, "on no branch");
    assert_moves(&lab, "r", &[]);
}

#[test]
fn unborn_branch_with_staged_files_arrives() {
    let lab = Lab::new();
    let root = lab.repository("r");
    git(&root, &["checkout", "-q", "--orphan", "fresh"]);
    write(&root, "only-staged", "bytes that no commit has");
    git(&root, &["add", "only-staged"]);
    assert_moves(&lab, "r", &[]);
}

#[test]
fn repository_without_a_commit_arrives() {
    let lab = Lab::new();
    let root = lab.path("r");
    std::fs::create_dir(&root).unwrap();
    git(&root, &["init", "-q", "-b", "trunk"]);
    assert_moves(&lab, "r", &[]);
    std::fs::remove_dir_all(lab.path("there")).unwrap();
    write(&root, "untracked", "x");
    assert_moves(&lab, "r", &[]);
}

#[test]
fn sha256_repository_arrives() {
    let lab = Lab::new();
    let root = lab.path("r");
    std::fs::create_dir(&root).unwrap();
    git(&root, &["init", "-q", "--object-format=sha256"]);
    write(&root, "f", "x");
    git(&root, &["add", "f"]);
    commit(&root, "first");
    write(&root, "f", "y");
    assert_moves(&lab, "r", &[]);
}

#[test]
fn plain_directory_arrives() {
    let lab = Lab::new();
    let root = lab.path("plain");
    std::fs::create_dir(&root).unwrap();
    write(&root, "notes/a.md", "text");
    write(&root, ".hidden", "x");
    std::fs::create_dir(root.join("empty")).unwrap();
    symlink("notes", root.join("link")).unwrap();
    assert_moves(&lab, "plain", &[]);
}

#[test]
fn session_in_a_subdirectory_arrives_there() {
    let lab = Lab::new();
    lab.repository("r");
    let capture = lab.capture(&lab.path("r/src"));
    let activated = lab.deliver(&capture, "there", None);
    assert_eq!(activated.directory, lab.path("there/src"));
    assert_eq!(activated.root, lab.path("there"));
}

/// Shows: T-10
#[test]
fn ignored_files_stay_unless_named() {
    let lab = Lab::new();
    let root = lab.repository("r");
    write(&root, ".gitignore", "target/\n*.log\n.env\n");
    write(&root, "target/debug/deep/x", "build");
    write(&root, "target/keep/me", "kept");
    write(&root, "logs/only.log", "ignored by name");
    write(&root, ".env", "SECRET=1");
    let capture = lab.capture(&root);
    let stays = capture.inventory.iter().find(|line| line.what == "ignored files").unwrap();
    assert_eq!((stays.count, stays.bytes), (4, 32), "every ignored file is counted");
    let there = lab.deliver(&capture, "there", None).root;
    assert!(!there.join("target").exists() && !there.join(".env").exists() && there.join("logs").is_dir());
    std::fs::remove_dir_all(&there).unwrap();
    let capture = lab.try_capture(&root, &[".env", "target/keep"], &[], &mut StatCache::default()).unwrap();
    assert_eq!(capture.secret_looking, [".env"]);
    let there = lab.deliver(&capture, "there", None).root;
    assert!(there.join("target/keep/me").exists() && there.join(".env").exists());
    assert!(!there.join("target/debug").exists());
}

#[test]
fn untracked_file_can_be_left_and_tracked_one_cannot() {
    let lab = Lab::new();
    let root = lab.repository("r");
    write(&root, "huge/dump", "big");
    let capture = lab.try_capture(&root, &[], &["huge"], &mut StatCache::default()).unwrap();
    assert!(capture.entries.iter().all(|entry| !entry.path.as_bytes().starts_with(b"huge")));
    assert!(capture.inventory.iter().any(|line| line.what == "excluded files" && line.count == 1));
    let refused = lab.try_capture(&root, &[], &["src"], &mut StatCache::default());
    assert!(matches!(refused, Err(CaptureError::ExcludesTracked { .. })), "{refused:?}");
}

/// Shows: T-9
#[test]
fn unchanged_content_crosses_once() {
    let lab = Lab::new();
    let root = lab.repository("r");
    let body = |capture: &Capture, name: &str| {
        capture.entries.iter().find(|entry| entry.path.as_bytes() == name.as_bytes()).unwrap().body.clone()
    };
    use cede_wire::catalog::Body;
    let capture = lab.capture(&root);
    assert!(matches!(body(&capture, "a.txt"), Body::GitBlob { .. }));
    write(&root, "a.txt", "two\n");
    assert!(matches!(body(&lab.capture(&root), "a.txt"), Body::File { .. }), "same size, other bytes");
}

/// Shows: T-1
#[test]
fn same_state_is_captured_as_the_same_bytes() {
    let lab = Lab::new();
    let root = lab.repository("r");
    for n in 0..200 {
        write(&root, &format!("f{n}"), format!("line {n}\n").repeat(50));
    }
    git(&root, &["add", "-A"]);
    commit(&root, "many");
    let first = lab.capture(&root);
    std::fs::remove_dir_all(lab.path("scratch-r")).unwrap();
    assert_eq!(lab.capture(&root).entries, first.entries, "a lost scratch directory changes nothing");
}

/// Shows: T-9
#[test]
fn second_capture_sends_only_what_is_new() {
    let lab = Lab::new();
    let root = lab.repository("r");
    let big: Vec<u8> = (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    write(&root, "big", &big);
    git(&root, &["add", "-A"]);
    commit(&root, "big");
    let mut cache = StatCache::default();
    let first = lab.try_capture(&root, &[], &[], &mut cache).unwrap();
    write(&root, "src/main.rs", "fn main() { println!(); }\n");
    git(&root, &["commit", "-qam", "small"]);
    let mut cache = StatCache::from_bytes(&cache.to_bytes().unwrap());
    let second = lab.try_capture(&root, &[], &[], &mut cache).unwrap();
    let old: std::collections::BTreeSet<_> = first.entries.iter().flat_map(|e| e.chunks()).collect();
    let fresh: u64 =
        second.entries.iter().flat_map(|e| e.chunks()).filter(|c| !old.contains(c)).map(|c| u64::from(c.length)).sum();
    assert!(fresh < 4_000, "{fresh} bytes are new");
    let there = lab.deliver(&second, "there", None).root;
    assert_same(&root, &there);
}

/// Shows: H-14
#[test]
fn lists_for_the_approval_are_complete() {
    let lab = Lab::new();
    let root = lab.repository("r");
    for name in [".claude/settings.json", "Makefile", ".github/workflows/ci.yml", "deploy.pem", "sub/.npmrc"] {
        write(&root, name, "x");
    }
    write(&root, "run.sh", "#!/bin/sh\n");
    mode(&root, "run.sh", 0o755);
    let capture = lab.capture(&root);
    assert_eq!(capture.executables, ["run.sh"]);
    assert_eq!(capture.dotfiles, [".claude", ".github", "sub/.npmrc"]);
    let code = [".claude/settings.json", ".github/workflows/ci.yml", "Makefile", "sub/.npmrc"];
    assert_eq!(capture.configuration_as_code, code);
    assert_eq!(capture.secret_looking, ["deploy.pem", "sub/.npmrc"]);
}

/// Shows: T-10
/// Shows: T-10, T-12
#[test]
fn inventory_names_what_is_there_and_nothing_else() {
    let lab = Lab::new();
    let plain = lab.capture(&lab.repository("plain"));
    let named = |capture: &Capture, disposition: Disposition| -> Vec<String> {
        let lines = capture.inventory.iter().filter(|line| line.disposition == disposition);
        lines.map(|line| format!("{} {}", line.count, line.what)).collect()
    };
    let owners = "owners, access lists, extended attributes, hard links";
    let history = "1 commits on no remote";
    let references = "2 history: branches, tags, remote-tracking references";
    assert_eq!(named(&plain, Disposition::Transferred), ["2 tracked files", references, history]);
    assert_eq!(named(&plain, Disposition::Rehydrated), [""; 0]);
    assert_eq!(named(&plain, Disposition::Stays), ["1 reflogs"]);
    assert_eq!(
        named(&plain, Disposition::NeverTravels),
        ["1 repository configuration".to_owned(), format!("2 {owners}")]
    );

    let root = lab.repository("full");
    git(&root, &["remote", "add", "origin", "https://example.com/x.git"]);
    git(&root, &["config", "filter.own.clean", "cat"]);
    write(&root, ".git/hooks/pre-commit", "#!/bin/sh\n");
    write(&root, ".gitignore", "target/\n");
    write(&root, "target/x", "build");
    symlink("/etc/hostname", root.join("absolute")).unwrap();
    mode(&root, "a.txt", 0o4644);
    let full = lab.capture(&root);
    let moves = named(&full, Disposition::Transferred);
    assert_eq!(moves, ["2 tracked files", "2 untracked files", references, history, "1 absolute links"]);
    assert_eq!(named(&full, Disposition::Rehydrated), ["1 remotes"]);
    assert_eq!(named(&full, Disposition::Stays), ["1 ignored files", "1 reflogs"]);
    assert_eq!(
        named(&full, Disposition::NeverTravels),
        [
            "1 repository configuration".to_owned(),
            "1 hooks".to_owned(),
            "1 filters".to_owned(),
            "1 set-user-id, set-group-id and sticky bits".to_owned(),
            format!("4 {owners}"),
        ]
    );
}

/// Shows: T-10
#[test]
fn password_in_a_remote_address_stays() {
    let lab = Lab::new();
    let root = lab.repository("r");
    git(&root, &["remote", "add", "origin", "https://me:hunter2@example.com/x.git"]);
    let capture = lab.capture(&root);
    for chunk in capture.entries.iter().flat_map(|entry| entry.chunks()) {
        let mut bytes = Vec::new();
        capture.sources.read(&chunk.id, &mut bytes).unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"hunter2"));
    }
    let there = lab.deliver(&capture, "there", None).root;
    assert_eq!(git(&there, &["remote", "get-url", "origin"]).trim(), "https://example.com/x.git");
    assert_eq!(inspect(&root).unwrap().git.unwrap().identity.remote.unwrap(), "https://example.com/x.git");
}

/// Shows: T-9
#[test]
fn destination_with_a_clone_gets_only_the_difference() {
    let lab = Lab::new();
    let root = lab.repository("r");
    let big: Vec<u8> = (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    write(&root, "big", &big);
    git(&root, &["add", "-A"]);
    commit(&root, "big");
    git(&lab.path(""), &["clone", "-q", "r", "clone"]);
    commit(&root, "new");
    let have = inspect(&lab.path("clone")).unwrap().git.unwrap().tips;
    let options = CaptureOptions {
        include_ignored: &[],
        exclude: &[],
        untracked: true,
        have: &have,
        scratch: &lab.path("scratch"),
    };
    let capture = capture(&inspect(&root).unwrap(), &options, &mut StatCache::default()).unwrap();
    assert!(capture.payload_bytes < 4_000, "{} bytes travel", capture.payload_bytes);
    let request = StageRequest {
        entries: &capture.entries,
        chunks: &Sources(&capture.sources),
        staging: &lab.path("staging"),
        target: &lab.path("there"),
        baseline: None,
        cache: &StatCache::default,
        local_clone: Some(&lab.path("clone")),
    };
    stage(&request).unwrap();
    assert_same(&root, &activate(&lab.path("staging")).unwrap().root);
    let without =
        stage(&StageRequest { local_clone: None, staging: &lab.path("s2"), target: &lab.path("t2"), ..request });
    assert!(matches!(without, Err(StageError::Git { .. } | StageError::Hostile(_))), "{without:?}");
}
