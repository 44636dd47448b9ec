//! What only Claude Code has: no lock, a registry of processes, hooks that a running process reads.

use std::time::Duration;

use cede_agent::adapter::{AgentError, Installed};
use cede_tests::lab::wait_until;
use cede_wire::session::Activity;
use serde_json::json;

use crate::driver::{
    self, CLAUDE_CODE, Terminal, end_leftovers, install, model_never_saw, model_saw, stage, tombstone,
};

/// Shows: A-6
#[test]
fn claude_code_left_open_refuses_the_next_prompt_and_names_the_owner() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let native = CLAUDE_CODE.begin(&one, "the secret word is PLUM");
    let adapter = CLAUDE_CODE.adapter(&one);
    let Some(terminal) = Terminal::open(&one, &["claude", "--resume", native.as_str()]) else { return };
    let open = || matches!(adapter.describe(&native).unwrap().activity, Activity::Open { .. });
    wait_until("open", Duration::from_secs(30), open);
    adapter.fence(&native, &tombstone("laptop")).unwrap();
    terminal.say("must not be said");
    wait_until("refused", Duration::from_secs(20), || terminal.screen().contains("moved to laptop"));
    println!("{}", terminal.screen());
    assert!(model_never_saw(&lab, "must not be said"));

    let staging = lab.directory("there");
    stage(&*adapter, &native, &staging);
    let there = CLAUDE_CODE.adapter(&two);
    install(&*there, &native, &staging, two.workdir.clone());
    assert!(CLAUDE_CODE.resume(&two, &two.workdir, &native, "second turn").success);
    let staging = lab.directory("back");
    stage(&*there, &native, &staging);
    assert_eq!(install(&*adapter, &native, &staging, one.workdir.clone()), Installed::Extended);
    assert!(matches!(adapter.describe(&native).unwrap().activity, Activity::Idle { .. }), "the stale one was ended");
    assert!(CLAUDE_CODE.resume(&one, &one.workdir, &native, "third turn").success);
    assert!(model_saw(&lab, "third turn", &["PLUM", "second turn"]));
    assert!(!one.home.join(".claude/settings.json").exists(), "the hook is gone");
}

#[test]
fn claude_code_left_open_goes_on_after_a_cancelled_move() {
    let Some(lab) = driver::lab() else { return };
    let home = lab.home("one");
    let native = CLAUDE_CODE.begin(&home, "the secret word is PLUM");
    let adapter = CLAUDE_CODE.adapter(&home);
    let Some(terminal) = Terminal::open(&home, &["claude", "--resume", native.as_str()]) else { return };
    let open = || matches!(adapter.describe(&native).unwrap().activity, Activity::Open { .. });
    wait_until("open", Duration::from_secs(30), open);
    adapter.fence(&native, &tombstone("laptop")).unwrap();
    adapter.lift(&native).unwrap();
    terminal.say("go on please");
    wait_until("answered", Duration::from_secs(20), || model_saw(&lab, "go on please", &["PLUM"]));
    wait_until("idle", Duration::from_secs(20), open);
    adapter.stop(&native).unwrap();
    assert!(matches!(adapter.describe(&native).unwrap().activity, Activity::Idle { .. }));
    assert!(CLAUDE_CODE.resume(&home, &home.workdir, &native, "and on").success);
    assert!(model_saw(&lab, "and on", &["PLUM", "go on please"]));
}

/// Shows: A-4
#[test]
fn claude_code_sub_agents_and_tool_results_travel() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let order =
        "TOOL Agent {\"description\":\"sub\",\"prompt\":\"sub task KIWI\",\"subagent_type\":\"general-purpose\"}";
    let native = CLAUDE_CODE.begin(&one, &format!("the secret word is PLUM\n{order}"));
    let staging = lab.directory("staging");
    let transcript = stage(&*CLAUDE_CODE.adapter(&one), &native, &staging);
    let has = |part: &str| transcript.files.iter().any(|file| file.path.shown().starts_with(part));
    assert!(has("conversation.jsonl") && has("side/subagents/"), "{:?}", transcript.files);
    install(&*CLAUDE_CODE.adapter(&two), &native, &staging, two.workdir.clone());
    assert_eq!(CLAUDE_CODE.sessions(&two), std::slice::from_ref(&native));
    assert!(CLAUDE_CODE.resume(&two, &two.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM"]));
    let again = stage(&*CLAUDE_CODE.adapter(&two), &native, &lab.directory("again"));
    assert!(again.files.iter().any(|file| file.path.shown().starts_with("side/subagents/")));
}

/// Shows: A-11
#[test]
fn claude_code_killed_in_a_tool_leaves_an_interrupted_session_and_a_process() {
    let Some(lab) = driver::lab() else { return };
    let (one, two) = (lab.home("one"), lab.home("two"));
    let native = CLAUDE_CODE.begin(&one, "the secret word is PLUM");
    let adapter = CLAUDE_CODE.adapter(&one);
    let tool = json!({ "command": "python3 -c 'import time; time.sleep(288)'", "description": "s" });
    let prompt = format!("long work\nTOOL Bash {tool}");
    let argv = ["claude", "-p", "--allowedTools", "Bash", "--resume", native.as_str(), prompt.as_str()];
    let mut agent = one.start(&one.workdir, &argv);
    let busy = || matches!(adapter.describe(&native).unwrap().activity, Activity::Busy { pid: Some(_), .. });
    wait_until("busy", Duration::from_secs(20), busy);
    assert!(matches!(adapter.fence(&native, &tombstone("laptop")), Err(AgentError::Live { pid: 1.., .. })));
    assert!(!adapter.is_fenced(&native).unwrap());
    wait_until("the tool runs", Duration::from_secs(20), || driver::runs("sleep(288)"));
    driver::kill_tree(&mut agent);
    let interrupted = || matches!(adapter.describe(&native).unwrap().activity, Activity::Interrupted { .. });
    wait_until("interrupted", Duration::from_secs(20), interrupted);
    let leftovers = adapter.leftovers(&native);
    assert!(leftovers.iter().any(|left| left.command.contains("sleep(288)")), "{leftovers:?}");
    end_leftovers(&leftovers);
    adapter.fence(&native, &tombstone("laptop")).unwrap();
    let staging = lab.directory("staging");
    stage(&*adapter, &native, &staging);
    install(&*CLAUDE_CODE.adapter(&two), &native, &staging, two.workdir.clone());
    assert!(CLAUDE_CODE.resume(&two, &two.workdir, &native, "go on").success);
    assert!(model_saw(&lab, "go on", &["PLUM", "long work"]));
}
