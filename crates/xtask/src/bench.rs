//! What measures: the program `bench` of the tests package, in a release build.

use crate::shell::{self, Failure, Repository};

pub(crate) fn run(repository: &Repository, arguments: &[String]) -> Result<(), Failure> {
    let manifest = repository.read("tests/Cargo.toml")?;
    let file = ["tests/src/bin/bench.rs", "tests/src/bin/bench/main.rs"]
        .iter()
        .any(|path| repository.root.join(path).is_file());
    if !file && !manifest.contains("name = \"bench\"") {
        return Err(Failure(
            "bench: the package cede-tests has no program called bench yet; nothing was measured".to_owned(),
        ));
    }
    // The daemons that are measured are those of the same build.
    shell::step("build", &mut repository.cargo(&["build", "--release", "--package", "cede-cli"]))?;
    let mut command = repository.cargo(&["run", "--release", "--package", "cede-tests", "--bin", "bench", "--"]);
    shell::step("bench", command.args(arguments))
}
