//! Programs, run from the top of the repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Why a word failed, for the person at the terminal.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

/// The checkout that the words speak of.
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
}

impl Repository {
    /// Looks upward from this package, or from the current directory, for `Cargo.lock`.
    pub(crate) fn find() -> Result<Self, Failure> {
        let start = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let start = start.or_else(|| std::env::current_dir().ok()).unwrap_or_default();
        let root = start.ancestors().find(|directory| directory.join("Cargo.lock").is_file());
        root.map(|root| Self { root: root.to_owned() })
            .ok_or_else(|| Failure("no workspace found: run this inside the checkout".to_owned()))
    }

    pub(crate) fn read(&self, path: &str) -> Result<String, Failure> {
        std::fs::read_to_string(self.root.join(path))
            .map_err(|error| Failure(format!("{path} cannot be read: {error}")))
    }

    /// Where cargo builds.
    pub(crate) fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), |place| self.root.join(place))
    }

    /// A program with its arguments, run here.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        // What cargo told us about this package would make build scripts below believe that something changed.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| ABOUT_US.iter().any(|start| name.starts_with(start))) {
                command.env_remove(name);
            }
        }
        command
    }

    /// The cargo that runs us.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        self.command(&cargo, arguments)
    }

    /// The output of a program that must succeed.
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Result<String, Failure> {
        captured(&mut self.command(program, arguments))
    }
}

const ABOUT_US: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

/// Runs a command to its end and gives its standard output.
pub(crate) fn captured(command: &mut Command) -> Result<String, Failure> {
    let shown = shown(command);
    let output = command.output().map_err(|error| Failure(format!("{shown} did not start: {error}")))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Failure(format!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }
}

/// Runs a command with our own output, and says how long it took.
pub(crate) fn step(name: &str, command: &mut Command) -> Result<(), Failure> {
    let begun = Instant::now();
    let shown = shown(command);
    let status = command.status().map_err(|error| Failure(format!("{name}: {shown} did not start: {error}")))?;
    if status.success() {
        println!("{name}: ok ({:.1} s)", begun.elapsed().as_secs_f32());
        Ok(())
    } else {
        Err(Failure(format!("{name}: failed: {shown}")))
    }
}

/// True where the program answers to `--version`.
pub(crate) fn installed(repository: &Repository, program: &str, arguments: &[&str]) -> bool {
    let mut command = repository.command(program, arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A tool that is missing: a note for a person, a failure in CI.
pub(crate) fn missing(name: &str, cure: &str) -> Result<(), Failure> {
    if in_ci() {
        return Err(Failure(format!("{name}: not installed; {cure}")));
    }
    println!("{name}: not run (not installed; {cure})");
    Ok(())
}

pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    command.get_args().fold(program, |line, argument| format!("{line} {}", argument.to_string_lossy()))
}
