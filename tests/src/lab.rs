//! A laboratory for the real agents: their programs, a model of our own, loopback only, a clean environment.
//!
//! As root it runs in a network namespace of its own, where there is nothing but loopback. `tests/lab/install.sh`
//! installs the programs; without them [`Lab::up`] says `skipped: …` and the test ends.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cede_agent::adapter::Surroundings;
use serde_json::{Value, json};

pub mod model;

/// The laboratory, running. It ends with the value.
#[derive(Debug)]
pub struct Lab {
    place: tempfile::TempDir,
    model: Child,
    port: u16,
    isolated: bool,
}

const AGENTS: [&str; 3] = ["codex", "claude", "opencode"];

impl Lab {
    /// Starts it. `model` is the path of the model's program; `None`, with a line that says why, where the agents
    /// are not installed.
    pub fn up(model: &str) -> Option<Self> {
        let missing = AGENTS.into_iter().find(|agent| !programs().join(agent).exists());
        if let Some(agent) = missing {
            println!("skipped: {agent} is not installed; to install the laboratory, type: tests/lab/install.sh");
            return None;
        }
        let place = tempfile::Builder::new().prefix("cede-lab-").tempdir().unwrap();
        let isolated = can_isolate();
        let mut command = if isolated { isolated_command(model) } else { Command::new(model) };
        command.arg(place.path().join("requests.log")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut model = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(model.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the model says its port");
        let lab = Self { place, model, port, isolated };
        lab.write_shims();
        Some(lab)
    }

    /// A directory of the laboratory.
    pub fn directory(&self, name: &str) -> PathBuf {
        let directory = self.place.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    /// A home directory in which all agents talk to the laboratory's model, and a project in it.
    pub fn home(&self, name: &str) -> Home<'_> {
        let home = self.directory(name);
        self.furnish(&home, &home.join("cede-state"))
    }

    /// The same in a home directory that is there already; `state` is where `cede` keeps its own files.
    pub fn furnish(&self, home: &Path, state: &Path) -> Home<'_> {
        let home = home.to_owned();
        let workdir = home.join("work");
        std::fs::create_dir_all(&workdir).unwrap();
        let trusted = format!("\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n", workdir.display());
        write(&home.join(".codex/config.toml"), &(self.codex_config() + &trusted));
        write(&home.join(".config/opencode/opencode.json"), &self.opencode_config().to_string());
        let claude = json!({ "hasCompletedOnboarding": true, "theme": "dark",
            "customApiKeyResponses": { "approved": ["dummy"], "rejected": [] },
            "projects": { workdir.to_str().unwrap(): { "hasTrustDialogAccepted": true } } });
        write(&home.join(".claude.json"), &claude.to_string());
        Home { lab: self, state: state.to_owned(), home, workdir }
    }

    /// The bodies of the requests that the model received, oldest first.
    pub fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.place.path().join("requests.log")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.map(|mut line| line["body"].take()).filter(Value::is_object).collect()
    }

    /// The variables of an agent's environment.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let model = format!("http://127.0.0.1:{}", self.port);
        let variables = [
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("LAB_KEY", "dummy"),
            ("ANTHROPIC_API_KEY", "dummy"),
            ("ANTHROPIC_BASE_URL", &model),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ];
        variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Ends what an agent started from a home of this laboratory and left running, known by its command line.
    fn end_background_programs(&self) {
        let place = self.place.path().to_string_lossy().into_owned();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let program =
                String::from_utf8_lossy(words.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
            if program.starts_with(&place) && name.parse::<u32>().is_ok() {
                let _ = Command::new("kill").args(["-9", &name]).status();
            }
        }
    }

    /// Where the agents are found: programs that enter the namespace and become the agent.
    pub fn path(&self) -> OsString {
        let mut path = self.place.path().join("bin").into_os_string();
        path.push(":/usr/local/bin:/usr/bin:/bin");
        path
    }

    fn write_shims(&self) {
        for agent in AGENTS {
            let program = programs().join(agent);
            let enter = if self.isolated { format!("nsenter -n -t {} ", self.model.id()) } else { String::new() };
            let shim = self.place.path().join("bin").join(agent);
            write(&shim, &format!("#!/bin/sh\nexec {enter}'{}' \"$@\"\n", program.display()));
            std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn codex_config(&self) -> String {
        format!(
            "model = \"lab-model\"\nmodel_provider = \"lab\"\napproval_policy = \"never\"\n\
             sandbox_mode = \"danger-full-access\"\n\n[model_providers.lab]\nname = \"lab\"\n\
             base_url = \"http://127.0.0.1:{}/v1\"\nwire_api = \"responses\"\nenv_key = \"LAB_KEY\"\n",
            self.port
        )
    }

    fn opencode_config(&self) -> Value {
        let address = format!("http://127.0.0.1:{}/v1", self.port);
        json!({
            "provider": { "lab": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "lab",
                "options": { "baseURL": address, "apiKey": "dummy" },
                "models": { "lab-model": { "name": "lab-model" } },
            } },
            "model": "lab/lab-model",
            "small_model": "lab/lab-model",
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.end_background_programs();
        // The model ends when its input closes; a lost model is killed with its namespace.
        drop(self.model.stdin.take());
        let _ = self.model.kill();
        let _ = self.model.wait();
    }
}

/// A person's home in the laboratory.
#[derive(Debug)]
pub struct Home<'a> {
    lab: &'a Lab,
    /// The home directory.
    pub home: PathBuf,
    /// A project.
    pub workdir: PathBuf,
    /// Where `cede` keeps its own files.
    pub state: PathBuf,
}

/// What a program printed, and whether it was content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Standard output and standard error, one after the other.
    pub text: String,
    /// Whether the program ended with success.
    pub success: bool,
}

impl Home<'_> {
    /// What an adapter needs to know of this home.
    pub fn surroundings(&self) -> Surroundings {
        let mut surroundings = Surroundings::plain(&self.home, &self.state, self.lab.path());
        surroundings.variables = self.lab.variables();
        surroundings
    }

    /// Another project in this home.
    pub fn project(&self, name: &str) -> PathBuf {
        let directory = self.home.join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    /// Runs a program to its end, as a person in that directory would.
    pub fn run(&self, cwd: &Path, argv: &[&str]) -> Said {
        said(&self.command(cwd, argv).stdin(Stdio::null()).output().unwrap())
    }

    /// The same with text on its standard input.
    pub fn pipe(&self, cwd: &Path, argv: &[&str], input: &str) -> Said {
        let mut command = self.command(cwd, argv);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        said(&child.wait_with_output().unwrap())
    }

    /// Starts a program and leaves it running.
    pub fn start(&self, cwd: &Path, argv: &[&str]) -> Child {
        self.command(cwd, argv).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// A program as that person would start it.
    pub fn command(&self, cwd: &Path, argv: &[&str]) -> Command {
        let (program, arguments) = argv.split_first().expect("a program");
        let program = match AGENTS.contains(program) {
            true => self.lab.place.path().join("bin").join(program),
            false => PathBuf::from(program),
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(cwd).env_clear().envs(self.lab.variables());
        command.env("HOME", &self.home).env("PATH", self.lab.path());
        command
    }
}

/// Waits until something is so.
///
/// # Panics
/// When it is not so within `patience`.
pub fn wait_until(what: &str, patience: Duration, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !so() {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn said(output: &Output) -> Said {
    let text = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    Said { text, success: output.status.success() }
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/node_modules/.bin")
}

fn can_isolate() -> bool {
    let tried = Command::new("unshare").args(["-n", "ip", "link", "set", "lo", "up"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

fn isolated_command(model: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\"", model]);
    command
}

fn write(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}
