//! Everything that can be said without running our code.

use crate::shell::{self, Failure, Repository};
use crate::{spec, tidy, walls};

pub(crate) fn run(repository: &Repository) -> Result<(), Failure> {
    let steps: [(&str, Step); 7] = [
        ("fmt", fmt),
        ("typos", typos),
        ("tidy", |repository| check("tidy", tidy::run(repository)?)),
        ("spec", |repository| check("spec", spec::run(repository)?)),
        ("walls", |repository| check("walls", walls::run(repository)?)),
        ("clippy", clippy),
        ("rustdoc", rustdoc),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        if let Err(Failure(text)) = step(repository) {
            println!("{text}");
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure(format!("look failed: {}", failed.join(", ")))) }
}

type Step = fn(&Repository) -> Result<(), Failure>;

/// Prints what a check found.
pub(crate) fn check(name: &str, found: Vec<String>) -> Result<(), Failure> {
    if found.is_empty() {
        println!("{name}: ok");
        return Ok(());
    }
    let count = found.len();
    let lines = found.into_iter().map(|line| format!("{name}: {line}\n")).collect::<String>();
    Err(Failure(format!("{lines}{name}: failed: {count} found")))
}

fn fmt(repository: &Repository) -> Result<(), Failure> {
    shell::step("fmt", &mut repository.cargo(&["fmt", "--all", "--check"]))
}

fn typos(repository: &Repository) -> Result<(), Failure> {
    if !shell::installed(repository, "typos", &["--version"]) {
        return shell::missing("typos", "pip install typos, or cargo install typos-cli");
    }
    shell::step("typos", &mut repository.command("typos", &["--config", ".typos.toml"]))
}

fn clippy(repository: &Repository) -> Result<(), Failure> {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    shell::step("clippy", &mut repository.cargo(&arguments))
}

fn rustdoc(repository: &Repository) -> Result<(), Failure> {
    let mut command = repository.cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    // The pages are made with private items, so links to them lead somewhere.
    shell::step("rustdoc", command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
}
