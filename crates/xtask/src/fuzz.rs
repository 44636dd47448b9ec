//! A million inputs for every reader, optimised; or one reader under libFuzzer, whose finds join its corpus.

use crate::shake;
use crate::shell::{self, Failure, Repository};

/// What makes the compiler count the ways that an input takes: what libFuzzer steers by. All of it is stable.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1";

const MANIFEST: &str = "tests/fuzz/Cargo.toml";
const USAGE: &str = "usage: cargo xtask fuzz [<reader>] | cargo xtask fuzz --grow <reader> [<seconds>]";

pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => by_chance(repository, None),
        ["--grow", reader] => grow(repository, reader, "60"),
        ["--grow", reader, seconds] if seconds.parse::<u32>().is_ok() => grow(repository, reader, seconds),
        [reader] if !reader.starts_with('-') => by_chance(repository, Some(reader)),
        _ => Err(Failure(USAGE.to_owned())),
    }
}

fn by_chance(repository: &Repository, reader: Option<&str>) -> Result<(), Failure> {
    let test =
        ["test", "--release", "--package", "cede-tests", "--test", "fuzz", "--", "--nocapture", "--test-threads=1"];
    let mut command = repository.cargo(&test);
    command.env("CEDE_SHAKE", shake::fresh().to_string());
    if let Some(reader) = reader {
        command.env("CEDE_FUZZ", reader);
    }
    shell::step("fuzz", &mut command)
}

fn grow(repository: &Repository, reader: &str, seconds: &str) -> Result<(), Failure> {
    let corpus = format!("tests/corpus/{reader}");
    if !repository.root.join(&corpus).is_dir() {
        return Err(Failure(format!("no reader of this name: {reader}; they are the directories of tests/corpus")));
    }
    let host = repository.output("rustc", &["-vV"])?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let target = repository.target().join("fuzz").display().to_string();
    // With a target named, build scripts and macros are built without the counters.
    let build = ["build", "--release", "--manifest-path", MANIFEST, "--target", host, "--target-dir", &target];
    shell::step("build", repository.cargo(&build).env("RUSTFLAGS", COVERAGE))?;
    // What is found goes into a place of its own; what is worth keeping is moved by hand, under a name that says why.
    let found = repository.target().join("fuzz/found").join(reader);
    std::fs::create_dir_all(&found).map_err(|error| Failure(format!("{} cannot be made: {error}", found.display())))?;
    let found = found.display().to_string();
    let time = format!("-max_total_time={seconds}");
    let artifacts = format!("-artifact_prefix={found}/crash-");
    let program = format!("{target}/{host}/release/reader");
    let mut command =
        repository.command(&program, &[&found, &corpus, &time, &artifacts, "-max_len=8192", "-print_final_stats=1"]);
    shell::step("fuzz", command.env("CEDE_FUZZ", reader))
}
