//! How deep the tests of the pure crates go: lines and branches they pass, changes they notice, and what the
//! interpreter says of them. Each needs a tool that is not part of the toolchain.

use crate::shell::{self, Failure, Repository};

/// The crates that decide. They need no disk, no network and no agent, so their own tests must be enough.
const PURE: [&str; 4] = ["cede-core", "cede-wire", "cede-seal", "cede-mesh"];

/// Lines and branches that the own tests of each pure crate pass, and the lines they do not. Branches are counted by the
/// nightly compiler alone.
pub(crate) fn coverage(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    if !shell::installed(repository, "cargo", &["llvm-cov", "--version"]) {
        let cure = "cargo install --locked cargo-llvm-cov, rustup component add llvm-tools";
        return shell::missing("coverage", cure);
    }
    let nightly = shell::installed(repository, "cargo", &["+nightly", "--version"]);
    for name in wanted(arguments)? {
        let run = ["llvm-cov", "--package", name, "--lib", "--no-report"];
        let report = ["llvm-cov", "report", "--package", name, "--show-missing-lines"];
        let clean = ["llvm-cov", "clean", "--workspace"];
        for words in [&clean[..], &run[..], &report[..]] {
            let branch: &[&str] = if words == clean { &[] } else { &["--branch"] };
            let words: &[&str] = if nightly { &[&["+nightly"], words, branch].concat() } else { words };
            shell::step(&format!("coverage of {name}"), &mut repository.command("cargo", words))?;
        }
    }
    Ok(())
}

/// Every change to the pure crates that cargo-mutants can think of, in a copy of the checkout: which of them the own
/// tests of the crate notice. Hours for all; `core 3/40` is the third of forty shares of one crate, `core chain.rs` one file.
pub(crate) fn sweep(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    if !shell::installed(repository, "cargo", &["mutants", "--version"]) {
        return shell::missing("sweep", "cargo install --locked cargo-mutants");
    }
    let (share, words): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| word.contains('/'));
    let (files, names): (Vec<&String>, Vec<&String>) = words.into_iter().partition(|word| word.ends_with(".rs"));
    let names: Vec<String> = names.into_iter().cloned().collect();
    let mut missed = Vec::new();
    for name in wanted(&names)? {
        let mut words = vec!["mutants", "--package", name, "--jobs", "1", "--output", "target/sweep"];
        words.extend(share.iter().flat_map(|share| ["--shard", share.as_str()]));
        words.extend(files.iter().flat_map(|file| ["--file", file.as_str()]));
        words.extend(["--", "--lib"]);
        if shell::step(&format!("sweep of {name}"), &mut repository.cargo(&words)).is_err() {
            missed.push(name);
        }
    }
    if missed.is_empty() {
        Ok(())
    } else {
        Err(Failure(format!("sweep: not noticed everything: {}", missed.join(", "))))
    }
}

/// The tests of the pure crates in the interpreter, which sees undefined behaviour of what they stand on. Tests that
/// draw thousands of cases draw few there, and some are left out: it takes a second for a signature. Isolation is off
/// because proptest looks for a file of the cases that failed before.
pub(crate) fn miri(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    if !shell::installed(repository, "cargo", &["+nightly", "miri", "--version"]) {
        return shell::missing("miri", "rustup toolchain install nightly --component miri,rust-src");
    }
    for name in wanted(arguments)? {
        let words = ["+nightly", "miri", "test", "--package", name, "--lib"];
        let mut command = repository.command("cargo", &words);
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        shell::step(&format!("miri of {name}"), &mut command)?;
    }
    Ok(())
}

fn wanted(arguments: &[String]) -> Result<Vec<&'static str>, Failure> {
    if arguments.is_empty() {
        return Ok(PURE.to_vec());
    }
    let named = |word: &String| PURE.into_iter().find(|name| name.strip_prefix("cede-") == Some(word.as_str()));
    let found: Option<Vec<&'static str>> = arguments.iter().map(named).collect();
    found
        .ok_or_else(|| Failure("usage: cargo xtask <coverage | sweep | miri> [core | wire | seal | mesh] …".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_named_without_their_prefix() {
        assert_eq!(wanted(&[]).ok(), Some(PURE.to_vec()));
        assert_eq!(wanted(&["seal".to_owned()]).ok(), Some(vec!["cede-seal"]));
        assert!(wanted(&["daemon".to_owned()]).is_err());
    }
}
