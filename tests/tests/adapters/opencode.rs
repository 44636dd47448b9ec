//! What only OpenCode has: one database for all sessions, and no sign of which program has which one open.

use std::time::Duration;

use cede_agent::adapter::AgentError;
use cede_tests::lab::wait_until;
use cede_wire::session::Activity;

use crate::driver::{self, OPENCODE, end_leftovers, install, model_saw, stage, tombstone};

/// Shows: A-4
#[test]
fn opencode_sub_agents_travel_and_are_no_sessions() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let order = "TOOL task {\"description\":\"sub\",\"prompt\":\"sub task KIWI\",\"subagent_type\":\"general\"}";
    let native = OPENCODE.begin(&one, &format!("the secret word is PLUM\n{order}"));
    let staging = lab.directory("staging");
    let transcript = stage(&*OPENCODE.adapter(&one), &native, &staging);
    assert_eq!(transcript.files.len(), 4, "{:?}", transcript.files);
    install(&*OPENCODE.adapter(&two), &native, &staging, two.workdir.clone());
    assert_eq!(OPENCODE.sessions(&two), std::slice::from_ref(&native));
    let again = stage(&*OPENCODE.adapter(&two), &native, &lab.directory("again"));
    assert_eq!(again.head, transcript.head, "the same conversation has the same bytes on every device");
    assert!(OPENCODE.resume(&two, &two.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM", "KIWI"]));
}

/// Shows: A-7
#[test]
fn opencode_fence_leaves_other_sessions_alone() {
    let Some(lab) = driver::lab() else { return };
    let home = lab.home("one");
    let moved = OPENCODE.begin(&home, "this one moves");
    let stays = OPENCODE.begin(&home, "this one stays PLUM");
    let adapter = OPENCODE.adapter(&home);
    adapter.fence(&moved, &tombstone("laptop's \"own\" `$x`")).unwrap();
    let refused = OPENCODE.resume(&home, &home.workdir, &moved, "not here");
    assert!(refused.text.contains("moved to laptop's \"own\" `$x`"), "{}", refused.text);
    assert!(OPENCODE.resume(&home, &home.workdir, &stays, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM"]));
    adapter.lift(&moved).unwrap();
    let config = std::fs::read_dir(home.home.join(".config/opencode")).unwrap().flatten();
    let names: Vec<_> = config.map(|entry| entry.file_name()).filter(|name| name != ".gitignore").collect();
    assert_eq!(names, ["opencode.json"]);
}

/// Shows: A-11
#[test]
fn opencode_killed_in_a_tool_leaves_an_interrupted_session_and_a_process() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let native = OPENCODE.begin(&one, "the secret word is PLUM");
    let adapter = OPENCODE.adapter(&one);
    let prompt = "long work\nTOOL bash {\"command\":\"sleep 289\",\"description\":\"s\"}";
    let mut agent =
        one.start(&one.workdir, &["sh", "-c", "printf %s \"$1\" | opencode run -s \"$0\"", native.as_str(), prompt]);
    let busy = || matches!(adapter.describe(&native).unwrap().activity, Activity::Busy { pid: Some(_), .. });
    wait_until("busy", Duration::from_secs(30), busy);
    wait_until("the tool runs", Duration::from_secs(30), || driver::runs("sleep 289"));
    assert!(matches!(adapter.fence(&native, &tombstone("laptop")), Err(AgentError::Live { pid: 1.., .. })));
    assert!(!adapter.is_fenced(&native).unwrap());
    driver::kill_tree(&mut agent);
    let interrupted = || matches!(adapter.describe(&native).unwrap().activity, Activity::Interrupted { .. });
    wait_until("interrupted", Duration::from_secs(20), interrupted);
    let leftovers = adapter.leftovers(&native);
    assert!(leftovers.iter().any(|left| left.command.contains("sleep 289")), "{leftovers:?}");
    end_leftovers(&leftovers);
    adapter.fence(&native, &tombstone("laptop")).unwrap();
    let staging = lab.directory("staging");
    stage(&*adapter, &native, &staging);
    install(&*OPENCODE.adapter(&two), &native, &staging, two.workdir.clone());
    assert!(OPENCODE.resume(&two, &two.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM", "interrupted"]));
}
