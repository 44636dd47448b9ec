//! What takes hours. Today: `shake`, `fuzz`, `mutants`, `coverage`, `miri`, `sweep`, and the advisories and licences of
//! what we depend on.

use crate::depth;
use crate::fuzz;
use crate::mutants;
use crate::shake;
use crate::shell::{self, Failure, Repository};

/// Planned, not there yet.
const NOT_YET: [&str; 1] = ["oldest toolchain and other systems"];

pub(crate) fn run(repository: &Repository) -> Result<(), Failure> {
    advisories(repository)?;
    shake::run(repository, &[])?;
    fuzz::run(repository, &[])?;
    mutants::run(repository, &[])?;
    depth::coverage(repository, &[])?;
    depth::miri(repository, &[])?;
    // Some changes cannot be noticed, since they change nothing: a person reads the list.
    if let Err(Failure(missed)) = depth::sweep(repository, &[]) {
        println!("night: {missed}");
    }
    for what in NOT_YET {
        println!("night: {what}: not there yet");
    }
    Ok(())
}

fn advisories(repository: &Repository) -> Result<(), Failure> {
    if !shell::installed(repository, "cargo", &["deny", "--version"]) {
        return shell::missing("deny", "cargo install --locked cargo-deny");
    }
    let deny = |words: &[&str]| repository.cargo(&[&["deny", "--config", ".deny.toml"], words].concat());
    shell::step("deny", &mut deny(&["check", "bans", "licenses", "sources"]))?;
    // The one part that needs more than the crates themselves.
    if let Err(Failure(why)) = shell::captured(&mut deny(&["fetch", "db"])) {
        if shell::in_ci() {
            return Err(Failure(why));
        }
        println!("advisories: not run ({})", why.lines().last().unwrap_or_default());
        return Ok(());
    }
    shell::step("advisories", &mut deny(&["check", "advisories"]))
}
