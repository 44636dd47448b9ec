//! The way home: only what changed is written, nothing of one's own is lost, and a crash at any step is survived.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::lab::*;
use crate::chunk::StatCache;
use crate::tree::activate::{Budget, activate_within};
use crate::tree::*;

/// A repository at home, its state when it left, and a changed one abroad.
fn journey(lab: &Lab) -> (PathBuf, Baseline, Capture) {
    let home = home_to_leave(lab);
    let left = lab.capture(&home);
    let baseline = Baseline::of(&left.entries);
    let abroad = lab.deliver(&left, "abroad", None).root;
    change(&abroad);
    (home, baseline, lab.capture(&abroad))
}

pub(super) fn home_to_leave(lab: &Lab) -> PathBuf {
    let home = lab.repository("home");
    for name in ["stays", "changes", "goes", "becomes-directory", "directory/becomes/file", "d2/inner", "link-to-file"]
    {
        write(&home, name, format!("{name} at first\n"));
    }
    symlink("stays", home.join("link")).unwrap();
    git(&home, &["add", "-A"]);
    commit(&home, "second");
    git(&home, &["branch", "old-branch"]);
    write(&home, "untracked", "u");
    write(&home, "stays", "edited at home");
    git(&home, &["stash", "push", "-q", "-m", "home stash"]);
    write(&home, "ignored/cache", "i");
    write(&home, ".git/info/exclude", "ignored/\n");
    home
}

pub(super) fn change(root: &Path) {
    write(root, "changes", "changed abroad\n");
    git(root, &["add", "changes"]);
    write(root, "changes", "and again\n");
    git(root, &["rm", "-q", "goes", "becomes-directory"]);
    write(root, "becomes-directory/now", "x");
    std::fs::remove_dir_all(root.join("directory/becomes")).unwrap();
    write(root, "directory/becomes", "a file now");
    std::fs::remove_file(root.join("link")).unwrap();
    symlink("changes", root.join("link")).unwrap();
    std::fs::remove_file(root.join("link-to-file")).unwrap();
    symlink("changes", root.join("link-to-file")).unwrap();
    mode(root, "d2/inner", 0o755);
    write(root, "brand/new/deep", "n");
    std::fs::create_dir(root.join("hollow")).unwrap();
    mode(root, "d2", 0o700);
    git(root, &["add", "brand"]);
    git(root, &["commit", "-qm", "abroad"]);
    git(root, &["branch", "-D", "-q", "old-branch"]);
    git(root, &["tag", "-a", "-m", "t", "v2"]);
    write(root, "stays", "for the stash");
    git(root, &["stash", "push", "-q", "-m", "abroad stash"]);
    git(root, &["checkout", "-q", "-b", "elsewhere"]);
    write(root, "promised", "p");
    git(root, &["add", "-N", "promised"]);
    git(root, &["update-index", "--skip-worktree", "stays"]);
    std::fs::remove_file(root.join("untracked")).unwrap();
}

/// Shows: T-7
#[test]
fn known_target_is_brought_up_to_date() {
    let lab = Lab::new();
    let (home, baseline, back) = journey(&lab);
    let staged = lab.stage(&back, "home", Some(&baseline)).unwrap();
    assert!(staged.in_place && staged.changes < 20, "{staged:?}");
    let activated = activate(&lab.path("staging")).unwrap();
    assert_eq!((activated.root.as_path(), activated.kept.as_slice()), (home.as_path(), &[][..]));
    assert_eq!(std::fs::read_to_string(home.join("ignored/cache")).unwrap(), "i", "what stayed is still there");
    std::fs::remove_dir_all(home.join("ignored")).unwrap();
    assert_same(&lab.path("abroad"), &home);
}

#[test]
fn nothing_changed_means_nothing_written() {
    let lab = Lab::new();
    let home = lab.repository("home");
    let capture = lab.capture(&home);
    let before = files(&home);
    let staged = lab.stage(&capture, "home", Some(&Baseline::of(&capture.entries))).unwrap();
    assert_eq!((staged.in_place, staged.changes), (true, 0));
    activate(&lab.path("staging")).unwrap();
    assert_eq!(files(&home), before);
}

/// Shows: T-7
#[test]
fn changed_target_is_not_touched() {
    let lab = Lab::new();
    let (home, baseline, back) = journey(&lab);
    type Change = fn(&Path);
    let changes: [(&str, Change); 6] = [
        ("stays", |home| write(home, "stays", "own work")),
        ("new-here", |home| write(home, "new-here", "own work")),
        ("changes", |home| std::fs::remove_file(home.join("changes")).unwrap()),
        (".git: state", |home| git(home, &["branch", "mine"]).clear()),
        (".git: index", |home| git(home, &["rm", "-q", "--cached", "stays"]).clear()),
        (".git: state", |home| git(home, &["commit", "-q", "--allow-empty", "-m", "mine"]).clear()),
    ];
    for (at, (difference, change)) in changes.into_iter().enumerate() {
        let copy = lab.path(&format!("copy{at}"));
        assert!(std::process::Command::new("cp").arg("-a").arg(&home).arg(&copy).status().unwrap().success());
        change(&copy);
        let before = files(&copy);
        match lab.stage(&back, &format!("copy{at}"), Some(&baseline)) {
            Err(StageError::TargetDiffers { differences, .. }) => {
                assert!(differences.iter().any(|d| d == difference), "{differences:?} names {difference}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(files(&copy), before);
    }
    let unknown = lab.stage(&back, "home", None);
    assert!(matches!(unknown, Err(StageError::TargetDiffers { .. })));
    assert_eq!(free_target(&home), lab.path("home-2"));
    let beside = lab.deliver(&back, "home-2", None);
    assert_same(&lab.path("abroad"), &beside.root);
}

/// Shows: T-7
#[test]
fn branch_that_another_work_tree_has_checked_out_is_not_moved_under_it() {
    for (branch, fits) in [("old-branch", true), ("feature", false)] {
        let lab = Lab::new();
        let home = home_to_leave(&lab);
        git(&home, &["branch", "feature"]);
        git(&home, &["worktree", "add", "-q", lab.path("linked").to_str().unwrap(), branch]);
        let left = lab.capture(&home);
        let baseline = Baseline::of(&left.entries);
        let abroad = lab.deliver(&left, "abroad", None).root;
        git(&abroad, &["checkout", "-q", "feature"]);
        git(&abroad, &["commit", "-q", "--allow-empty", "-m", "abroad"]);
        let staged = lab.stage(&lab.capture(&abroad), "home", Some(&baseline));
        match &staged {
            Ok(staged) => assert!(fits && staged.in_place),
            Err(StageError::TargetDiffers { differences, .. }) => {
                assert_eq!(*differences, ["refs/heads/feature is checked out in another work tree"]);
                assert!(!fits);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What cannot be read was not seen to differ: the session waits for it and stands nowhere else.
///
/// Shows: T-7, T-16
#[test]
fn target_that_cannot_be_read_is_not_taken_for_one_that_differs() {
    let lab = Lab::new();
    let (home, baseline, back) = journey(&lab);
    std::fs::remove_file(home.join(".git/info/exclude")).unwrap();
    std::fs::create_dir(home.join(".git/info/exclude")).unwrap();
    let before = files(&home);
    let unread = lab.stage(&back, "home", Some(&baseline));
    assert!(matches!(&unread, Err(StageError::Compare(_))), "{unread:?}");
    assert_eq!(files(&home), before);
    std::fs::remove_dir(home.join(".git/info/exclude")).unwrap();
    write(&home, ".git/info/exclude", "ignored/\n");
    assert!(lab.stage(&back, "home", Some(&baseline)).unwrap().in_place, "it goes on once it can be read");
}

/// A name that the system cannot look up may be taken.
#[test]
fn name_that_cannot_be_looked_at_is_not_free() {
    let lab = Lab::new();
    let name = "x".repeat(255);
    assert_eq!(free_target(&lab.path(&name)), lab.path(&name));
    std::fs::create_dir(lab.path(&name)).unwrap();
    let long = lab.path(&"x".repeat(256));
    assert_ne!(free_target(&long), long);
}

/// A plan that is there and cannot be read is not gone: what was begun by it must not be begun anew.
///
/// Shows: T-16
#[test]
fn plan_that_cannot_be_read_is_not_a_lost_stage() {
    let lab = Lab::new();
    let (_, baseline, back) = journey(&lab);
    lab.stage(&back, "home", Some(&baseline)).unwrap();
    let (plan, aside) = (lab.path("staging").join("plan"), lab.path("aside"));
    std::fs::rename(&plan, &aside).unwrap();
    assert!(matches!(activate(&lab.path("staging")), Err(ActivateError::NoStage(_))));
    std::fs::create_dir(&plan).unwrap();
    assert!(matches!(activate(&lab.path("staging")), Err(ActivateError::Io { .. })));
    std::fs::remove_dir(&plan).unwrap();
    std::fs::rename(&aside, &plan).unwrap();
    activate(&lab.path("staging")).unwrap();
    std::fs::remove_dir_all(lab.path("home/ignored")).unwrap();
    assert_same(&lab.path("abroad"), &lab.path("home"));
}

#[test]
fn ignored_file_in_the_way_is_not_overwritten() {
    let lab = Lab::new();
    let (home, baseline, _) = journey(&lab);
    let abroad = lab.path("abroad");
    std::fs::remove_file(abroad.join(".git/info/exclude")).unwrap();
    write(&abroad, "ignored/cache", "another");
    let back = lab.capture(&abroad);
    match lab.stage(&back, "home", Some(&baseline)) {
        Err(StageError::TargetDiffers { differences, .. }) => assert_eq!(differences, ["ignored/cache"]),
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read_to_string(home.join("ignored/cache")).unwrap(), "i");
}

#[test]
fn activation_survives_a_crash_after_every_step() {
    let lab = Lab::new();
    let (home, baseline, back) = journey(&lab);
    std::fs::remove_dir_all(home.join("ignored")).unwrap();
    let mut steps = 0;
    loop {
        let copy = lab.path("copy");
        let _ = std::fs::remove_dir_all(&copy);
        assert!(std::process::Command::new("cp").arg("-a").arg(&home).arg(&copy).status().unwrap().success());
        lab.stage(&back, "copy", Some(&baseline)).unwrap();
        let staging = lab.path("staging");
        let first = activate_within(&staging, &mut Budget(Some(steps)));
        let second = activate_within(&staging, &mut Budget(Some(steps)));
        let last = activate(&staging).unwrap();
        assert_eq!((last.root.as_path(), last.kept.len()), (copy.as_path(), 0), "after {steps} steps");
        assert_eq!(files(&lab.path("abroad")), files(&copy), "after {steps} steps");
        if steps % 4 == 0 || first.is_ok() {
            assert_same(&lab.path("abroad"), &copy);
        }
        if first.is_ok() {
            assert_eq!(second.unwrap(), last);
            break;
        }
        steps += 1;
    }
    assert!(steps > 30, "{steps}");
}

/// Shows: T-7
#[test]
fn lock_that_an_interrupted_git_left_hinders_no_repetition() {
    let lab = Lab::new();
    let (home, baseline, back) = journey(&lab);
    std::fs::remove_dir_all(home.join("ignored")).unwrap();
    lab.stage(&back, "home", Some(&baseline)).unwrap();
    let (staging, git) = (lab.path("staging"), home.join(".git"));
    let stopped =
        (0..200).find(|steps| activate_within(&staging, &mut Budget(Some(*steps))).is_err() && git_began(&staging));
    assert!(stopped.is_some());
    for lock in ["HEAD.lock", "packed-refs.lock", "config.lock", "index.lock", "refs/heads/main.lock"] {
        std::fs::write(git.join(lock), "").unwrap();
    }
    assert_eq!(activate(&staging).unwrap().root, home);
    assert_same(&lab.path("abroad"), &home);
}

fn git_began(staging: &Path) -> bool {
    staging.join("git-begun").exists()
}

/// Shows: T-7
#[test]
fn new_tree_survives_a_crash_after_every_step() {
    let lab = Lab::new();
    let root = lab.repository("r");
    let capture = lab.capture(&root);
    for steps in 0.. {
        let staged = lab.stage(&capture, "deep/er/there", None).unwrap();
        assert!(!staged.in_place);
        let first = activate_within(&lab.path("staging"), &mut Budget(Some(steps)));
        let last = activate(&lab.path("staging")).unwrap();
        assert_same(&root, &last.root);
        std::fs::remove_dir_all(lab.path("deep")).unwrap();
        if first.is_ok() {
            assert!(steps > 3);
            return;
        }
    }
}

#[test]
fn what_appears_between_stage_and_activation_is_kept() {
    let lab = Lab::new();
    let root = lab.repository("r");
    let capture = lab.capture(&root);
    lab.stage(&capture, "there", None).unwrap();
    write(&lab.path("there"), "mine", "m");
    let activated = activate(&lab.path("staging")).unwrap();
    assert_eq!(activated.root, lab.path("there-2"));
    assert_eq!(activate(&lab.path("staging")).unwrap().root, lab.path("there-2"));
    assert!(lab.path("there/mine").exists());

    std::fs::create_dir(lab.path("empty")).unwrap();
    assert_eq!(lab.deliver(&capture, "empty", None).root, lab.path("empty"), "an empty directory is a free place");
}

/// Shows: T-7
#[test]
fn edit_between_stage_and_activation_is_kept_beside() {
    let lab = Lab::new();
    let (home, baseline, back) = journey(&lab);
    lab.stage(&back, "home", Some(&baseline)).unwrap();
    write(&home, "changes", "own late work");
    write(&home, "goes", "own late work too");
    git(&home, &["update-ref", "refs/heads/main", "main~1"]);
    let activated = activate(&lab.path("staging")).unwrap();
    assert_eq!(activated.kept, [home.join("goes.kept-1"), home.join("changes.kept-1")]);
    assert_eq!(std::fs::read_to_string(home.join("changes.kept-1")).unwrap(), "own late work");
    assert_eq!(std::fs::read_to_string(home.join("changes")).unwrap(), "changed abroad\n");
    assert!(git(&home, &["for-each-ref"]).contains("refs/cede-kept/heads/main"));
}

#[test]
fn excluded_files_of_the_way_out_do_not_bar_the_way_home() {
    let lab = Lab::new();
    let home = lab.repository("home");
    write(&home, "dump/big", "left");
    let left = lab.try_capture(&home, &[], &["dump"], &mut StatCache::default()).unwrap();
    let abroad = lab.deliver(&left, "abroad", None).root;
    write(&abroad, "a.txt", "two\n");
    let back = lab.capture(&abroad);
    assert!(lab.stage(&back, "home", Some(&Baseline::of(&left.entries))).is_err());
    let baseline = Baseline::of(&left.entries).leaving(&["dump".to_owned()], true);
    assert!(lab.deliver(&back, "home", Some(&baseline)).kept.is_empty());
    assert_eq!(std::fs::read_to_string(home.join("dump/big")).unwrap(), "left");
    assert_eq!(std::fs::read_to_string(home.join("a.txt")).unwrap(), "two\n");
}

#[test]
fn only_a_stage_is_discarded() {
    let lab = Lab::new();
    let root = lab.repository("r");
    assert!(discard(&root).is_err());
    assert!(root.join("a.txt").exists());
    assert!(discard(&lab.path("missing")).is_ok());
    lab.stage(&lab.capture(&root), "there", None).unwrap();
    discard(&lab.path("staging")).unwrap();
    assert!(!lab.path("staging").exists() && !lab.path("there").exists());
    let occupied = stage(&StageRequest {
        entries: &[],
        chunks: &Sources(&crate::chunk::SourceFiles::default()),
        staging: &root,
        target: &lab.path("there"),
        baseline: None,
        cache: &StatCache::default,
        local_clone: None,
    });
    assert!(matches!(occupied, Err(StageError::Io { .. })), "{occupied:?}");
    assert!(root.join("a.txt").exists());
}
