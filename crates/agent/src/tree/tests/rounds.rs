//! A stage is made once and brought up to date by the rounds that follow.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::lab::*;
use super::returning::{change, home_to_leave};
use crate::chunk::StatCache;
use crate::tree::*;

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

#[test]
fn second_round_of_an_unchanged_tree_writes_nothing() {
    let lab = Lab::new();
    let home = lab.repository("home");
    let capture = lab.capture(&home);
    lab.stage(&capture, "there", None).unwrap();
    let seen = |name: &str| std::fs::metadata(lab.path("staging").join(name)).map(|m| (m.ino(), m.ctime_nsec()));
    let before = ["plan", "written", "tree/a.txt", "tree/.git/index"].map(|name| seen(name).unwrap());
    lab.stage(&lab.capture(&home), "there", None).unwrap();
    assert_eq!(before, ["plan", "written", "tree/a.txt", "tree/.git/index"].map(|name| seen(name).unwrap()));
    activate(&lab.path("staging")).unwrap();
    assert_same(&home, &lab.path("there"));
}

#[test]
fn second_round_writes_what_changed_and_keeps_the_rest() {
    let lab = Lab::new();
    let home = home_to_leave(&lab);
    lab.stage(&lab.capture(&home), "there", None).unwrap();
    let tree = lab.path("staging/tree");
    let kept = inode(&tree.join("src/main.rs"));
    change(&home);
    lab.stage(&lab.capture(&home), "there", None).unwrap();
    assert_eq!(inode(&tree.join("src/main.rs")), kept, "what did not change is not written again");
    activate(&lab.path("staging")).unwrap();
    std::fs::remove_dir_all(home.join("ignored")).unwrap();
    assert_same(&home, &lab.path("there"));
}

#[test]
fn edited_file_of_the_same_commit_leaves_the_repository_as_it_is() {
    let lab = Lab::new();
    let home = lab.repository("home");
    lab.stage(&lab.capture(&home), "there", None).unwrap();
    let repository = inode(&lab.path("staging/tree/.git/HEAD"));
    write(&home, "a.txt", "edited\n");
    write(&home, "new", "n");
    lab.stage(&lab.capture(&home), "there", None).unwrap();
    assert_eq!(inode(&lab.path("staging/tree/.git/HEAD")), repository);
    activate(&lab.path("staging")).unwrap();
    assert_same(&home, &lab.path("there"));
}

/// Shows: T-15
#[test]
fn file_of_a_stage_that_is_not_as_it_was_written_is_written_again() {
    let lab = Lab::new();
    let home = lab.repository("home");
    let capture = lab.capture(&home);
    lab.stage(&capture, "there", None).unwrap();
    let tree = lab.path("staging/tree");
    write(&tree, "a.txt", "two\n");
    std::fs::remove_file(tree.join("src/main.rs")).unwrap();
    lab.stage(&capture, "there", None).unwrap();
    activate(&lab.path("staging")).unwrap();
    assert_same(&home, &lab.path("there"));
}

/// Shows: T-15
#[test]
fn unknown_file_in_a_stage_makes_it_new() {
    let lab = Lab::new();
    let home = lab.repository("home");
    lab.stage(&lab.capture(&home), "there", None).unwrap();
    write(&lab.path("staging/tree"), "b.txt", "somebody's");
    write(&home, "b.txt", "ours");
    lab.stage(&lab.capture(&home), "there", None).unwrap();
    activate(&lab.path("staging")).unwrap();
    assert_same(&home, &lab.path("there"));
}

#[test]
fn damaged_list_of_what_was_written_makes_the_stage_new() {
    let lab = Lab::new();
    let home = lab.repository("home");
    let capture = lab.capture(&home);
    lab.stage(&capture, "there", None).unwrap();
    let list = lab.path("staging/written");
    let mut bytes = std::fs::read(&list).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&list, bytes).unwrap();
    let planned = || std::fs::metadata(lab.path("staging/plan")).unwrap().modified().unwrap();
    let before = planned();
    lab.stage(&capture, "there", None).unwrap();
    assert_ne!(planned(), before);
    activate(&lab.path("staging")).unwrap();
    assert_same(&home, &lab.path("there"));
}

#[test]
fn arrived_files_are_not_read_again_when_they_leave() {
    let lab = Lab::new();
    let home = lab.repository("home");
    write(&home, "untracked", "u");
    let capture = lab.capture(&home);
    lab.stage(&capture, "there", None).unwrap();
    activate(&lab.path("staging")).unwrap();
    let mut cache = StatCache::default();
    assert!(remember_staged(&lab.path("staging"), &capture.entries, &mut cache, 0));
    assert!(cache.is_empty(), "files that had not rested are not believed");
    assert!(remember_staged(&lab.path("staging"), &capture.entries, &mut cache, u64::MAX));
    assert_eq!(cache.len(), 3);
    // Bytes that nobody would read are bytes that can be wrong: the cache is believed where the stat is the same.
    let there = lab.try_capture(&lab.path("there"), &[], &[], &mut cache).unwrap();
    let bodies =
        |capture: &Capture| capture.entries.iter().map(|e| (e.path.clone(), e.body.clone())).collect::<Vec<_>>();
    assert_eq!(bodies(&capture)[..3], bodies(&there)[..3]);
}
