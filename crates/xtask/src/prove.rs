//! Every test. The last line counts them.

use crate::junit::{self, Counts};
use crate::shell::{self, Failure, Repository};

/// Arguments select packages, as cargo does: `-p cede-core`. None: the workspace.
pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    let profile = if shell::in_ci() { "ci" } else { "default" };
    let mut selection: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if selection.is_empty() {
        selection.push("--workspace");
    }
    let mut counts = tests(repository, profile, &selection)?;
    counts.add(doc_tests(repository, &selection)?);
    report(&counts)
}

/// Runs tests by nextest where it is installed, else by cargo.
pub(crate) fn tests(repository: &Repository, profile: &str, selection: &[&str]) -> Result<Counts, Failure> {
    if shell::installed(repository, "cargo", &["nextest", "--version"]) {
        return nextest(repository, profile, selection);
    }
    println!("prove: cargo-nextest is not installed; cargo test runs instead, without its time limits");
    let mut arguments = vec!["test", "--no-fail-fast", "--lib", "--bins", "--tests"];
    arguments.extend(selection);
    arguments.extend(["--", "--show-output"]);
    cargo_test(repository, &arguments)
}

fn nextest(repository: &Repository, profile: &str, selection: &[&str]) -> Result<Counts, Failure> {
    let report = repository.root.join("target/nextest").join(profile).join("junit.xml");
    // A report of an earlier run must not be counted when this one does not get as far.
    std::fs::remove_file(&report).ok();
    let mut command = repository.cargo(&["nextest", "run", "--no-fail-fast", "--no-tests=pass", "--profile", profile]);
    let ran = shell::step("tests", command.args(selection));
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
    let mut arguments = vec!["test", "--quiet", "--doc", "--no-fail-fast"];
    arguments.extend(selection);
    cargo_test(repository, &arguments)
}

fn cargo_test(repository: &Repository, arguments: &[&str]) -> Result<Counts, Failure> {
    let mut command = repository.cargo(arguments);
    command.stderr(std::process::Stdio::inherit());
    let output = command.output().map_err(|error| Failure(format!("cargo test did not start: {error}")))?;
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
