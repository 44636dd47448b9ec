//! What only Codex has: forks, sub-agents, a writer lock, an archive.

use std::time::Duration;

use cede_agent::adapter::{AgentError, Installed};
use cede_tests::lab::{Home, wait_until};
use cede_wire::session::{Activity, NativeId};

use crate::driver::{self, CODEX, Terminal, end_leftovers, install, model_saw, stage, tombstone};

fn fork(home: &Home<'_>, parent: &NativeId, prompt: &str) -> NativeId {
    let before = CODEX.sessions(home);
    let argv = ["codex", "exec", "--skip-git-repo-check", "fork", parent.as_str(), prompt];
    let said = home.run(&home.workdir, &argv);
    assert!(said.success, "{}", said.text);
    CODEX.sessions(home).into_iter().find(|id| !before.contains(id)).expect("a new session")
}

/// Shows: A-3
#[test]
fn codex_in_its_terminal_refuses_and_names_the_owner() {
    let Some(lab) = driver::lab() else { return };
    let home = lab.home("one");
    let native = CODEX.begin(&home, "the secret word is PLUM");
    let adapter = CODEX.adapter(&home);
    adapter.fence(&native, &tombstone("laptop")).unwrap();
    let script = format!("codex resume {native}; sleep 60");
    let Some(terminal) = Terminal::open(&home, &["sh", "-c", &script]) else { return };
    wait_until("refused", Duration::from_secs(40), || terminal.screen().contains("moved to laptop"));
    println!("{}", terminal.screen());
    // Its background server outlives the terminal.
    home.run(&home.workdir, &["codex", "app-server", "daemon", "stop"]);
    adapter.lift(&native).unwrap();
    assert!(CODEX.resume(&home, &home.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM"]));
}

/// Shows
#[test]
fn codex_fork_of_a_fork_travels_with_its_ancestors() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let parent = CODEX.begin(&one, "the secret word is PLUM");
    let child = fork(&one, &parent, "the second word is KIWI");
    let grandchild = fork(&one, &child, "the third word is FIG");
    let staging = lab.directory("staging");
    let here = CODEX.adapter(&one);
    here.fence(&grandchild, &tombstone("laptop")).unwrap();
    let transcript = stage(&*here, &grandchild, &staging);
    assert_eq!(transcript.files.len(), 3, "{:?}", transcript.files);
    let there = CODEX.adapter(&two);
    assert_eq!(install(&*there, &grandchild, &staging, two.workdir.clone()), Installed::New);
    assert!(CODEX.resume(&two, &two.workdir, &grandchild, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM", "KIWI", "FIG"]));
    assert_eq!(CODEX.sessions(&two), [grandchild], "the ancestors are no sessions of this device");
    let ancestor = CODEX.resume(&two, &two.workdir, &parent, "no");
    println!("{}", ancestor.text);
    assert!(!ancestor.success, "an ancestor is only read");
    assert!(CODEX.resume(&one, &one.workdir, &parent, "the parent stays").success);
}

#[test]
fn codex_fork_that_stays_goes_on_without_its_parent() {
    let Some(lab) = driver::lab() else { return };
    let home = lab.home("one");
    let parent = CODEX.begin(&home, "the secret word is PLUM");
    let child = fork(&home, &parent, "the second word is KIWI");
    let adapter = CODEX.adapter(&home);
    let before = stage(&*adapter, &parent, &lab.directory("before"));
    adapter.fence(&parent, &tombstone("laptop")).unwrap();
    assert!(CODEX.resume(&home, &home.workdir, &parent, "not here").text.contains("moved to laptop"));
    assert!(CODEX.resume(&home, &home.workdir, &child, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM", "KIWI"]));
    adapter.lift(&parent).unwrap();
    assert_eq!(stage(&*adapter, &parent, &lab.directory("after")).head, before.head);
    assert!(CODEX.resume(&home, &home.workdir, &parent, "back again").success);
    assert!(CODEX.resume(&home, &home.workdir, &child, "still here").success);
}

#[test]
fn codex_ancestor_that_becomes_a_session_of_its_own_leaves_the_archive() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let parent = CODEX.begin(&one, "the secret word is PLUM");
    let child = fork(&one, &parent, "the second word is KIWI");
    let (here, there) = (CODEX.adapter(&one), CODEX.adapter(&two));
    let staging = lab.directory("child");
    stage(&*here, &child, &staging);
    install(&*there, &child, &staging, two.workdir.clone());
    assert!(CODEX.resume(&two, &two.workdir, &child, "child goes on").success);
    assert!(CODEX.resume(&one, &one.workdir, &parent, "parent grows").success);
    let staging = lab.directory("parent");
    stage(&*here, &parent, &staging);
    install(&*there, &parent, &staging, two.workdir.clone());
    let resumed = CODEX.resume(&two, &two.workdir, &parent, "parent goes on");
    assert!(resumed.success, "{}", resumed.text);
    assert!(model_saw(&lab, "parent goes on", &["PLUM", "parent grows"]));
    assert!(CODEX.resume(&two, &two.workdir, &child, "child again").success);
    assert!(model_saw(&lab, "child again", &["PLUM", "KIWI", "child goes on"]));
}

/// Shows: A-4
#[test]
fn codex_sub_agents_travel_and_are_no_sessions() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let native = CODEX.begin(&one, "the secret word is PLUM\nTOOL spawn_agent {\"message\":\"sub task KIWI\"}");
    let staging = lab.directory("staging");
    let transcript = stage(&*CODEX.adapter(&one), &native, &staging);
    assert_eq!(transcript.files.len(), 2, "{:?}", transcript.files);
    install(&*CODEX.adapter(&two), &native, &staging, two.workdir.clone());
    assert_eq!(CODEX.sessions(&two), std::slice::from_ref(&native));
    assert!(CODEX.resume(&two, &two.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM"]));
}

/// Shows: A-11
#[test]
fn codex_killed_in_a_tool_leaves_an_interrupted_session_and_a_process() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let native = CODEX.begin(&one, "the secret word is PLUM");
    let adapter = CODEX.adapter(&one);
    let prompt = "long work\nTOOL exec_command {\"cmd\":\"trap '' HUP; sleep 287; true\"}";
    let argv = ["codex", "exec", "--skip-git-repo-check", "resume", native.as_str(), prompt];
    let mut agent = one.start(&one.workdir, &argv);
    let busy = || matches!(adapter.describe(&native).unwrap().activity, Activity::Busy { pid: Some(_), .. });
    wait_until("busy", Duration::from_secs(20), busy);
    assert!(matches!(adapter.fence(&native, &tombstone("laptop")), Err(AgentError::Live { pid: 1.., .. })));
    assert!(!adapter.is_fenced(&native).unwrap());
    assert!(matches!(adapter.stop(&native), Err(AgentError::Live { .. })), "a busy one is left alone");
    wait_until("the tool runs", Duration::from_secs(20), || driver::runs("sleep 287"));
    driver::kill_tree(&mut agent);
    let interrupted = || matches!(adapter.describe(&native).unwrap().activity, Activity::Interrupted { .. });
    wait_until("interrupted", Duration::from_secs(20), interrupted);
    let leftovers = adapter.leftovers(&native);
    assert!(leftovers.iter().any(|left| left.command.contains("sleep 287")), "{leftovers:?}");
    end_leftovers(&leftovers);
    adapter.fence(&native, &tombstone("laptop")).unwrap();
    let staging = lab.directory("staging");
    stage(&*adapter, &native, &staging);
    install(&*CODEX.adapter(&two), &native, &staging, two.workdir.clone());
    assert!(CODEX.resume(&two, &two.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM", "aborted"]));
}
