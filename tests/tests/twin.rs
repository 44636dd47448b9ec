//! The twin of the handoff: `proto/model/handoff.pml`, a model made from the specification alone, in the model checker
//! Spin. What it says is about the rules and not about the code, so nothing here shows a rule.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

mod twin {
    pub mod checker;
    pub mod runs;
}

use twin::checker::{Checked, Checker};
use twin::runs::{self, Run};

/// What the specification says of a model: so many states without a violation.
const ENOUGH: u64 = 500_000;

#[test]
fn no_violation_in_half_a_million_states() {
    let Some(checker) = Checker::here() else { return };
    let mut states = 0;
    for run in bounds(&runs::WITHOUT_FAULT, &runs::WITHOUT_FAULT_LONG) {
        let checked = checker.check(run);
        println!("{run}: {checked}");
        assert_eq!(checked.errors, 0, "{run}: {}", checked.text);
        states += checked.states;
    }
    println!("{states} states, 0 violations");
    assert!(states >= ENOUGH, "{states} states");
}

#[test]
fn someone_acts_once_the_faults_have_ended() {
    let Some(checker) = Checker::here() else { return };
    for run in bounds(&runs::FAIR, &runs::FAIR_LONG) {
        let checked = checker.check(run);
        println!("{run}: {checked}");
        assert_eq!(checked.errors, 0, "{run}: {}", checked.text);
    }
}

/// A model that cannot come to a place says nothing about it.
#[test]
fn every_place_that_matters_is_reached() {
    let Some(checker) = Checker::here() else { return };
    found(&checker, &runs::PLACES);
}

#[test]
fn every_planted_fault_of_the_model_is_found() {
    let Some(checker) = Checker::here() else { return };
    found(&checker, &runs::PLANTED);
}

fn found(checker: &Checker, runs: &[(Run, &str)]) {
    let mut missed = String::new();
    for (run, property) in runs {
        let checked = checker.check(run);
        println!("{run}: {}", checked.broken);
        if !checked.broken.contains(property) {
            let _ = writeln!(missed, "{run}: expected {property}, found: {} {checked}", checked.broken);
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

fn bounds<'a>(short: &'a [Run], long: &'a [Run]) -> impl Iterator<Item = &'a Run> {
    let long = if std::env::var_os("CEDE_SHAKE").is_some() { long } else { &[] };
    short.iter().chain(long)
}

/// The outcome of a run that could not be made is a failure of the test, with all that the programs said.
fn run_or_fail(command: &mut Command, folder: &Path) -> String {
    let output = command.current_dir(folder).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// The line of the checker that begins or ends with these words, as a number.
fn figure(text: &str, words: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(words))?;
    line.split_whitespace().find_map(|word| word.parse().ok())
}

impl Checked {
    fn of(text: String) -> Self {
        let count = |words| figure(&text, words).unwrap_or_default();
        let errors = text.split("errors: ").nth(1).and_then(|rest| rest.split_whitespace().next());
        Self {
            errors: errors.and_then(|number| number.parse().ok()).unwrap_or(u32::MAX),
            states: count("states, stored") as u64,
            steps: count("transitions (=") as u64,
            megabytes: count("total actual memory usage") as u64,
            seconds: count("pan: elapsed time"),
            broken: text
                .lines()
                .filter_map(|line| line.strip_prefix("pan:1: "))
                .map(|line| line.split(" (at depth").next().unwrap_or(line).trim_start_matches("assertion violated "))
                .collect::<Vec<_>>()
                .join(", "),
            text,
        }
    }
}
