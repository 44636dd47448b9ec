//! Every test. The last line counts them.

use std::process::{Command, Stdio};

use crate::junit::{self, Counts};
use crate::shell::{self, Failure, Repository};

/// Arguments select packages, as cargo does: `-p cede-core`. None: the workspace.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    let profile = if shell::in_ci() { "ci" } else { "default" };
    let mut selection: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if selection.is_empty() {
        selection.push("--workspace");
    }
    let mut counts = tests(repository, profile, &selection, &[])?;
    counts.add(doc_tests(repository, &selection)?);
    report(&counts)
}

/// Runs tests by nextest where it is installed, else by cargo, with these variables in their environment.
pub(crate) fn tests(
    repository: &Repository,
    profile: &str,
    selection: &[&str],
    variables: &[(&str, String)],
) -> Result<Counts, Failure> {
    let variables = || variables.iter().map(|(name, value)| (name, value));
    if shell::installed(repository, "cargo", &["nextest", "--version"]) {
        let mut command =
            repository.cargo(&["nextest", "run", "--no-fail-fast", "--no-tests=pass", "--profile", profile]);
        return nextest(repository, profile, command.args(selection).envs(variables()));
    }
    println!("prove: cargo-nextest is not installed; cargo test runs instead, without its time limits");
    let mut command = repository.cargo(&["test", "--no-fail-fast"]);
    if !selection.contains(&"--test") {
        command.args(["--lib", "--bins", "--tests"]);
    }
    cargo_test(command.args(selection).args(["--", "--show-output"]).envs(variables()))
}

fn nextest(repository: &Repository, profile: &str, command: &mut Command) -> Result<Counts, Failure> {
    let report = repository.target().join("nextest").join(profile).join("junit.xml");
    // A report of an earlier run must not be counted when this one does not get as far.
    std::fs::remove_file(&report).ok();
    let ran = shell::step("tests", command);
    let text = std::fs::read_to_string(&report);
    match (text, ran) {
        (Ok(text), ran) => {
            let counts = junit::counts(&text);
            if counts.failed == 0 { ran.map(|()| counts) } else { Ok(counts) }
        }
        (Err(_), Ok(())) => Ok(Counts::default()),
        (Err(_), Err(failure)) => Err(failure),
    }
}

/// Packages without a library have no documentation tests; cargo refuses to be asked for them alone.
fn doc_tests(repository: &Repository, selection: &[&str]) -> Result<Counts, Failure> {
    cargo_test(repository.cargo(&["test", "--quiet", "--doc", "--no-fail-fast"]).args(selection))
}

fn cargo_test(command: &mut Command) -> Result<Counts, Failure> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure(format!("cargo test did not start: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{}", text.trim_end());
    let counts = junit::counts_of_cargo_test(&text);
    if output.status.success() || counts.failed > 0 { Ok(counts) } else { Err(Failure("cargo test failed".to_owned())) }
}

/// Prints the last line, and fails with a failed test.
pub(crate) fn report(counts: &Counts) -> Result<(), Failure> {
    for reason in &counts.skipped {
        println!("skipped: {reason}");
    }
    let line = format!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped.len());
    if counts.failed > 0 {
        return Err(Failure(line));
    }
    println!("{line}");
    Ok(())
}
