//! One reader under libFuzzer: the one that `CEDE_FUZZ` names.
#![no_main]

use std::sync::OnceLock;

use cede_tests::fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

fn target() -> &'static Target {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("CEDE_FUZZ").unwrap_or_default();
        let found = TARGETS.iter().find(|target| target.name == name);
        found.unwrap_or_else(|| panic!("CEDE_FUZZ names no reader: {name}"))
    })
}

fuzz_target!(|input: &[u8]| (target().run)(input));
