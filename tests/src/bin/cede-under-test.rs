//! The program `cede`, built with the tests: they always run what they were compiled beside.

fn main() -> std::process::ExitCode {
    cede_cli::main()
}
