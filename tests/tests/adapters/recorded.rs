//! The recorded sessions are what they claim to be: the real programs go on with them.

use cede_agent::adapter::recorded::{Story, plant};
use cede_wire::session::Activity;

use crate::driver::{self, Driver, model_saw};

fn real_program_goes_on(driver: Driver) {
    let Some(lab) = driver::lab() else { return };
    let home = lab.home("one");
    let story = Story::example("lab", "lab-model");
    let native = plant(driver.kind, &home.surroundings(), &home.workdir, [7; 16], &story).unwrap();
    let info = driver.adapter(&home).describe(&native).unwrap();
    assert!(matches!(info.activity, Activity::Idle { .. }), "{info:?}");
    assert_eq!((info.turns, info.directory.as_str()), (2, home.workdir.to_str().unwrap()));
    let resumed = driver.resume(&home, &home.workdir, &native, "go on");
    assert!(resumed.success, "{}", resumed.text);
    assert!(model_saw(&lab, "go on", &["drop the last line", "test result: ok", "the last line counts"]));
    assert_eq!(driver.adapter(&home).describe(&native).unwrap().turns, 3);
}

#[test]
fn codex_goes_on_with_the_recorded_session() {
    real_program_goes_on(driver::CODEX);
}

#[test]
fn claude_code_goes_on_with_the_recorded_session() {
    real_program_goes_on(driver::CLAUDE_CODE);
}

#[test]
fn opencode_goes_on_with_the_recorded_session() {
    real_program_goes_on(driver::OPENCODE);
}
