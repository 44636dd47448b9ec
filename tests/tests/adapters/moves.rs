//! A session goes to another home and comes back.

use cede_agent::adapter::Installed;
use cede_wire::session::Activity;

use crate::driver::{self, Driver, install, model_never_saw, model_saw, stage, tombstone};

/// Shows
fn there_and_back(driver: Driver) {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let elsewhere = two.project("another place");
    let native = driver.begin(&one, &format!("the secret word is PLUM\n{}", driver.tool));

    let here = driver.adapter(&one);
    let info = here.describe(&native).unwrap();
    assert!(matches!(info.activity, Activity::Idle { .. }), "{info:?}");
    assert_eq!((info.turns, info.directory.as_str()), (1, one.workdir.to_str().unwrap()));
    let there = driver.adapter(&two);
    assert_eq!(there.check(&here.requirement(&native).unwrap()), Ok(()));

    here.fence(&native, &tombstone("laptop")).unwrap();
    here.fence(&native, &tombstone("laptop")).unwrap();
    assert!(here.is_fenced(&native).unwrap());
    let refused = driver.resume(&one, &one.workdir, &native, "must not be said");
    println!("{}", refused.text);
    assert!(refused.text.contains("session 3f2a9c10 moved to laptop; to get it back, type: cede take 3f2a9c10"));
    assert!(model_never_saw(&lab, "must not be said"));

    let staging = lab.directory("staging-there");
    let left = stage(&*here, &native, &staging);
    assert_eq!(left.turns, 1);
    assert_eq!(install(&*there, &native, &staging, elsewhere.clone()), Installed::New);
    assert_eq!(install(&*there, &native, &staging, elsewhere.clone()), Installed::Unchanged, "again changes nothing");
    let resumed = driver.resume(&two, &elsewhere, &native, "second turn");
    assert!(resumed.success, "{}", resumed.text);
    assert!(model_saw(&lab, "second turn", &["PLUM", "tool-ran"]), "the earlier turns are in the request");
    assert_eq!(there.describe(&native).unwrap().directory, elsewhere.to_str().unwrap());
    assert_eq!(install(&*there, &native, &staging, elsewhere.clone()), Installed::Unchanged, "late and harmless");
    assert_eq!(there.describe(&native).unwrap().turns, 2);

    there.fence(&native, &tombstone("desktop")).unwrap();
    assert!(driver.resume(&two, &elsewhere, &native, "not here either").text.contains("moved to desktop"));
    let staging = lab.directory("staging-back");
    let returned = stage(&*there, &native, &staging);
    assert_eq!(returned.turns, 2);
    assert!(returned.head.length > left.head.length);
    assert_eq!(install(&*here, &native, &staging, one.workdir.clone()), Installed::Extended);
    assert!(!here.is_fenced(&native).unwrap());
    let resumed = driver.resume(&one, &one.workdir, &native, "third turn");
    assert!(resumed.success, "{}", resumed.text);
    assert!(model_saw(&lab, "third turn", &["PLUM", "tool-ran", "second turn"]), "all turns are in the request");
    assert!(model_never_saw(&lab, "not here either"));
    assert_eq!(here.describe(&native).unwrap().turns, 3);
}

/// Shows: A-3
fn cancelled_move_leaves_no_trace(driver: Driver) {
    let Some(lab) = driver::lab() else { return };
    let home = lab.home("one");
    let native = driver.begin(&home, "the secret word is PLUM");
    let adapter = driver.adapter(&home);
    let before = stage(&*adapter, &native, &lab.directory("before"));
    adapter.fence(&native, &tombstone("laptop")).unwrap();
    let refused = driver.resume(&home, &home.workdir, &native, "must not be said");
    assert!(refused.text.contains("moved to laptop"), "{}", refused.text);
    adapter.lift(&native).unwrap();
    adapter.lift(&native).unwrap();
    assert!(!adapter.is_fenced(&native).unwrap());
    assert_eq!(stage(&*adapter, &native, &lab.directory("after")).head, before.head, "the exact bytes are back");
    assert!(driver.resume(&home, &home.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM"]));
    assert!(model_never_saw(&lab, "must not be said"));
}

/// Shows: A-8
fn two_histories_are_both_kept(driver: Driver) {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let native = driver.begin(&one, "the secret word is PLUM");
    let (here, there) = (driver.adapter(&one), driver.adapter(&two));
    let staging = lab.directory("staging");
    stage(&*here, &native, &staging);
    install(&*there, &native, &staging, two.workdir.clone());
    assert!(driver.resume(&one, &one.workdir, &native, "written in one").success);
    assert!(driver.resume(&two, &two.workdir, &native, "written in two").success);
    here.fence(&native, &tombstone("laptop")).unwrap();
    let staging = lab.directory("staging-back");
    stage(&*there, &native, &staging);
    let installed = install(&*here, &native, &staging, one.workdir.clone());
    let Installed::Diverged { branch } = installed else { panic!("{installed:?}") };
    let kept = std::fs::read_to_string(branch).unwrap();
    assert!(kept.contains("written in one") && !kept.contains("written in two"));
    assert!(driver.resume(&one, &one.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM", "written in two"]));
    assert!(!model_saw(&lab, "go on", &["written in one"]));
}

macro_rules! for_every_agent {
    ($($story:ident as $codex:ident, $claude:ident, $opencode:ident;)*) => {$(
        #[test]
        fn $codex() {
            $story(driver::CODEX);
        }

        #[test]
        fn $claude() {
            $story(driver::CLAUDE_CODE);
        }

        #[test]
        fn $opencode() {
            $story(driver::OPENCODE);
        }
    )*};
}

for_every_agent! {
    there_and_back as codex_goes_there_and_back, claude_code_goes_there_and_back, opencode_goes_there_and_back;
    cancelled_move_leaves_no_trace as codex_goes_on_after_a_cancelled_move,
        claude_code_goes_on_after_a_cancelled_move, opencode_goes_on_after_a_cancelled_move;
    two_histories_are_both_kept as codex_keeps_both_histories, claude_code_keeps_both_histories,
        opencode_keeps_both_histories;
}
