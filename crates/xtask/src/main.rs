//! `cargo xtask …`: the words that CI and people share. It touches the repository and nothing else.
//!
//! | word | what it does |
//! |---|---|
//! | `look` | everything that can be said without running our code |
//! | `walls`, `spec`, `tidy` | one check of `look` alone |
//! | `prove` | every test |
//! | `shake` | the long tests, with a seed |
//! | `coverage`, `sweep`, `miri` | how deep the tests of the pure crates go |
//! | `mutants` | plants our faults one by one: which check notices |
//! | `fuzz` | a million inputs for every reader; with `--grow`, one under libFuzzer |
//! | `night`, `bench` | what takes hours; what measures |
#![expect(clippy::print_stdout, reason = "a command line tool talks on its standard output")]

mod bench;
mod depth;
mod files;
mod fuzz;
mod junit;
mod look;
mod mutants;
mod night;
mod prove;
mod rust;
mod shake;
mod shell;
mod spec;
mod tidy;
mod vectors;
mod walls;

use std::process::ExitCode;

use crate::shell::{Failure, Repository};

const USAGE: &str = "usage: cargo xtask <look | walls | spec | tidy | prove [-p <package>] | shake [--seed <n>] | mutants [name …] | coverage [crate …] | sweep [crate …] [file] [share] | miri [crate …] | fuzz [reader] | night | bench [arguments]>";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let (word, rest) = arguments.split_first().ok_or_else(|| Failure(USAGE.to_owned()))?;
    let repository = Repository::find()?;
    match word.as_str() {
        "look" => look::run(&repository),
        "walls" => look::check("walls", walls::run(&repository)?),
        "spec" => look::check("spec", spec::run(&repository)?),
        "tidy" => look::check("tidy", tidy::run(&repository)?),
        "prove" => prove::run(&repository, rest),
        "shake" => shake::run(&repository, rest),
        "coverage" => depth::coverage(&repository, rest),
        "sweep" => depth::sweep(&repository, rest),
        "miri" => depth::miri(&repository, rest),
        "mutants" => mutants::run(&repository, rest),
        "fuzz" => fuzz::run(&repository, rest),
        "night" => night::run(&repository),
        "bench" => bench::run(&repository, rest),
        other => Err(Failure(format!("unknown word: {other}\n{USAGE}"))),
    }
}
