//! Spin, the compiler of its output, and the checker that comes of both.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::runs::Run;
use crate::run_or_fail;

/// What the checker said at the end.
pub struct Checked {
    pub errors: u32,
    pub states: u64,
    pub steps: u64,
    pub megabytes: u64,
    pub seconds: f64,
    /// The first thing that did not hold.
    pub broken: String,
    pub text: String,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { errors, states, steps, megabytes, seconds, .. } = self;
        write!(f, "{states} states, {steps} transitions, {errors} violations, {seconds} s, {megabytes} MB")
    }
}

pub struct Checker {
    model: PathBuf,
}

impl Checker {
    /// The checker, where this machine has one; else says so.
    pub fn here() -> Option<Self> {
        if std::env::var_os("CEDE_SEED").is_some() {
            println!("skipped: one seed is run again, and the checker has none");
            return None;
        }
        for program in ["spin", "cc"] {
            let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if found.is_err() {
                println!("skipped: {program} is not installed");
                return None;
            }
        }
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/model/handoff.pml");
        Some(Self { model: model.canonicalize().expect("the model is there") })
    }

    pub fn check(&self, run: &Run) -> Checked {
        let folder = tempfile::tempdir().expect("a directory");
        let folder = folder.path();
        let said = run_or_fail(Command::new("spin").args(run.defines()).arg("-a").arg(&self.model), folder);
        assert!(!said.contains("Error"), "{run}: {said}");
        let compile = run.compiler_flags();
        run_or_fail(Command::new("cc").args(compile).args(["-w", "-o", "pan", "pan.c"]), folder);
        Checked::of(run_or_fail(Command::new("./pan").args(run.arguments()), folder))
    }
}
