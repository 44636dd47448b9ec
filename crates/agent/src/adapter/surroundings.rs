//! Where the agents and their files are on this device.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cede_wire::path::escape;

use crate::adapter::limits::SAID_BYTES;
use crate::adapter::{AgentError, durable};
use crate::programs;

/// Where the agents and their files are. Made once, from the environment of the daemon or of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The person's home directory.
    pub home: PathBuf,
    /// Codex's home: `$CODEX_HOME` or `~/.codex`.
    pub codex_home: PathBuf,
    /// Claude Code's home: `$CLAUDE_CONFIG_DIR` or `~/.claude`.
    pub claude_home: PathBuf,
    /// OpenCode's data: `$XDG_DATA_HOME/opencode` or `~/.local/share/opencode`.
    pub opencode_data: PathBuf,
    /// OpenCode's configuration: `$XDG_CONFIG_HOME/opencode` or `~/.config/opencode`.
    pub opencode_config: PathBuf,
    /// Where programs are looked for.
    pub path: OsString,
    /// The directory where the adapters keep fences and what they set aside. Shape: absolute.
    pub state: PathBuf,
    /// The environment of the programs that are started; `HOME` and `PATH` come from the fields above.
    pub variables: Vec<(OsString, OsString)>,
}

/// How long an agent's own program may take for one answer.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(120);

impl Surroundings {
    /// Reads the variables that the agents read. `None` without `HOME`.
    pub fn from_variables(state: PathBuf, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Option<Self> {
        let variables: Vec<_> = variables.into_iter().collect();
        let value = |name: &str| {
            let found = variables.iter().find(|(key, _)| key == OsStr::new(name));
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let place = |name: &str, or: PathBuf| value(name).map_or(or, PathBuf::from);
        let home = PathBuf::from(value("HOME")?);
        Some(Self {
            codex_home: place("CODEX_HOME", home.join(".codex")),
            claude_home: place("CLAUDE_CONFIG_DIR", home.join(".claude")),
            opencode_data: place("XDG_DATA_HOME", home.join(".local/share")).join("opencode"),
            opencode_config: place("XDG_CONFIG_HOME", home.join(".config")).join("opencode"),
            path: value("PATH").unwrap_or_default(),
            state,
            variables,
            home,
        })
    }

    /// The surroundings of a home directory with everything in its usual place: for tests and the demonstration.
    pub fn plain(home: &Path, state: &Path, path: OsString) -> Self {
        Self {
            home: home.to_owned(),
            codex_home: home.join(".codex"),
            claude_home: home.join(".claude"),
            opencode_data: home.join(".local/share/opencode"),
            opencode_config: home.join(".config/opencode"),
            path,
            state: state.to_owned(),
            variables: Vec::new(),
        }
    }

    /// The program's file.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        programs::find(&self.path, program)
    }

    /// Runs a program in a directory; its output goes to a file.
    pub(super) fn run(
        &self,
        program: &'static str,
        arguments: &[&OsStr],
        directory: &Path,
        output: &Path,
    ) -> Result<(), AgentError> {
        let failed = |text: String| AgentError::Program { program, text };
        let file = self.find(program).ok_or_else(|| failed("not found in PATH".to_owned()))?;
        let stdout = File::create(output).map_err(|error| durable::world("write", output, &error))?;
        let said = output.with_extension("stderr");
        let stderr = File::create(&said).map_err(|error| durable::world("write", &said, &error))?;
        let mut command = Command::new(file);
        command.args(arguments).current_dir(directory).env_clear().envs(self.variables.iter().cloned());
        command.env("HOME", &self.home).env("PATH", &self.path);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let deadline = Instant::now() + PROGRAM_PATIENCE;
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(failed(format!("{status}: {}", tail(&said)))),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                Ok(None) => {
                    // Already gone is as good as killed.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed(format!("no answer within {} seconds", PROGRAM_PATIENCE.as_secs())));
                }
                Err(error) => return Err(failed(error.to_string())),
            }
        }
    }
}

fn tail(said: &Path) -> String {
    let bytes = std::fs::read(said).unwrap_or_default();
    let from = bytes.len().saturating_sub(SAID_BYTES);
    escape(bytes.get(from..).unwrap_or_default()).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_agents_are_honoured() {
        let variables = [("HOME", "/h"), ("CODEX_HOME", "/c"), ("XDG_DATA_HOME", "/d"), ("CLAUDE_CONFIG_DIR", "")];
        let variables = variables.map(|(key, value)| (OsString::from(key), OsString::from(value)));
        let found = Surroundings::from_variables("/s".into(), variables).unwrap();
        assert_eq!(found.codex_home, Path::new("/c"));
        assert_eq!(found.opencode_data, Path::new("/d/opencode"));
        assert_eq!(found.claude_home, Path::new("/h/.claude"), "empty is as good as unset");
        assert!(Surroundings::from_variables("/s".into(), []).is_none());
    }

    #[test]
    fn failing_program_is_quoted() {
        let place = tempfile::tempdir().unwrap();
        let around = Surroundings::plain(place.path(), place.path(), "/usr/bin:/bin".into());
        let arguments = ["-c", "echo no such thing >&2; exit 3"].map(OsStr::new);
        let failed = around.run("sh", &arguments, place.path(), &place.path().join("out"));
        assert!(
            matches!(&failed, Err(AgentError::Program { text, .. }) if text.contains("no such thing")),
            "{failed:?}"
        );
    }
}
