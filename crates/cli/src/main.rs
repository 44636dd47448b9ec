//! `cede`. Everything is in the library, so that the tests can build the same program.

fn main() -> std::process::ExitCode {
    cede_cli::main()
}
