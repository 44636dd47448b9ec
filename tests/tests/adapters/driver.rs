//! The three programs, driven the same way.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use cede_agent::adapter::{Adapter, Arrival, Installed, LeftoverProcess, Tombstone, Transcript, adapters};
use cede_tests::lab::{Home, Lab, Said};
use cede_wire::session::{AgentKind, NativeId};

/// Starts the laboratory.
pub fn lab() -> Option<Lab> {
    Lab::up(env!("CARGO_BIN_EXE_lab-model"))
}

/// A program that can be talked to.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    pub kind: AgentKind,
    /// A prompt line that makes the model call a tool.
    pub tool: &'static str,
    talk: fn(&Home<'_>, &Path, Option<&str>, &str) -> Said,
}

pub const CODEX: Driver = Driver {
    kind: AgentKind::Codex,
    tool: "TOOL exec_command {\"cmd\":\"echo tool-ran\"}",
    talk: |home, cwd, session, prompt| match session {
        None => home.run(cwd, &["codex", "exec", "--skip-git-repo-check", prompt]),
        Some(session) => home.run(cwd, &["codex", "exec", "--skip-git-repo-check", "resume", session, prompt]),
    },
};

pub const CLAUDE_CODE: Driver = Driver {
    kind: AgentKind::ClaudeCode,
    tool: "TOOL Bash {\"command\":\"echo tool-ran\",\"description\":\"t\"}",
    talk: |home, cwd, session, prompt| match session {
        None => home.run(cwd, &["claude", "-p", prompt]),
        Some(session) => home.run(cwd, &["claude", "-p", "--resume", session, prompt]),
    },
};

pub const OPENCODE: Driver = Driver {
    kind: AgentKind::OpenCode,
    tool: "TOOL bash {\"command\":\"echo tool-ran\",\"description\":\"t\"}",
    talk: |home, cwd, session, prompt| match session {
        None => home.pipe(cwd, &["opencode", "run"], prompt),
        Some(session) => home.pipe(cwd, &["opencode", "run", "-s", session], prompt),
    },
};

impl Driver {
    /// Begins a conversation and returns its id.
    pub fn begin(&self, home: &Home<'_>, prompt: &str) -> NativeId {
        let before: Vec<NativeId> = self.sessions(home);
        let said = (self.talk)(home, &home.workdir, None, prompt);
        assert!(said.success, "{}: {}", self.kind.name(), said.text);
        let new: Vec<NativeId> = self.sessions(home).into_iter().filter(|id| !before.contains(id)).collect();
        assert_eq!(new.len(), 1, "one new session: {new:?}");
        new.into_iter().next().unwrap()
    }

    /// Goes on with a conversation.
    pub fn resume(&self, home: &Home<'_>, cwd: &Path, native: &NativeId, prompt: &str) -> Said {
        (self.talk)(home, cwd, Some(native.as_str()), prompt)
    }

    pub fn sessions(&self, home: &Home<'_>) -> Vec<NativeId> {
        self.adapter(home).discover().unwrap().into_iter().map(|info| info.key.native).collect()
    }

    pub fn adapter(&self, home: &Home<'_>) -> Box<dyn Adapter> {
        adapters(&home.surroundings()).into_iter().find(|adapter| adapter.agent() == self.kind).unwrap()
    }
}

/// A tombstone that names this device.
pub fn tombstone(owner: &str) -> Tombstone {
    Tombstone { owner: owner.to_owned(), session: "3f2a9c10".to_owned(), command: "cede take 3f2a9c10".to_owned() }
}

/// Captures a session into a directory, as a destination stages it.
pub fn stage(adapter: &dyn Adapter, native: &NativeId, staging: &Path) -> Transcript {
    let scratch = staging.join("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    let transcript = adapter.capture(native, &scratch).unwrap();
    for file in &transcript.files {
        let to = staging.join("files").join(std::str::from_utf8(file.path.as_bytes()).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&file.local, &to).unwrap();
    }
    transcript
}

/// Installs what [`stage`] staged.
pub fn install(adapter: &dyn Adapter, native: &NativeId, staging: &Path, workdir: PathBuf) -> Installed {
    adapter.install(&Arrival { native: native.clone(), files: staging.join("files"), workdir }).unwrap()
}

/// True where the model's last request that holds `prompt` holds all of these too.
pub fn model_saw(lab: &Lab, prompt: &str, words: &[&str]) -> bool {
    let requests: Vec<String> = lab.requests().iter().map(ToString::to_string).collect();
    let last = requests.iter().rev().find(|request| request.contains(prompt) && request.contains(words[0]));
    last.is_some_and(|request| words.iter().all(|word| request.contains(word)))
}

/// True where no request ever held `prompt`.
pub fn model_never_saw(lab: &Lab, prompt: &str) -> bool {
    !lab.requests().iter().any(|request| request.to_string().contains(prompt))
}

/// True where a process with this command line runs.
pub fn runs(command: &str) -> bool {
    processes().any(|(_, words)| words.contains(command) && !words.contains("TOOL"))
}

/// Kills a program with everything below it that did not leave its session, as a crash does.
pub fn kill_tree(child: &mut Child) {
    let mut doomed = vec![child.id()];
    let mut at = 0;
    while let Some(parent) = doomed.get(at).copied() {
        let below = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        let below = below.split_whitespace().filter_map(|pid| pid.parse().ok());
        doomed.extend(below.filter(|pid| session_of(*pid) == session_of(parent)));
        at += 1;
    }
    for pid in doomed {
        kill(pid);
    }
    child.wait().unwrap();
}

/// Ends what an agent left behind.
pub fn end_leftovers(leftovers: &[LeftoverProcess]) {
    leftovers.iter().for_each(|left| kill(left.pid));
}

fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
}

fn session_of(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(3).map(str::to_owned)
}

fn processes() -> impl Iterator<Item = (u32, String)> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&words).replace('\0', " ")))
    })
}

/// A program in a terminal of its own.
#[derive(Debug)]
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Opens it; `None`, with a line that says why, without `tmux`.
    pub fn open(home: &Home<'_>, argv: &[&str]) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: tmux is not installed");
            return None;
        }
        let terminal = Self { socket: home.home.join("tmux") };
        let mut command = home.command(&home.workdir, &["tmux"]);
        command.env("TERM", "xterm-256color").arg("-S").arg(&terminal.socket);
        command.args(["-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "50"]).args(argv);
        assert!(command.status().unwrap().success());
        Some(terminal)
    }

    /// Types a line.
    pub fn say(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        std::thread::sleep(Duration::from_millis(300));
        self.tmux(&["send-keys", "Enter"]);
    }

    /// Presses a key by its name, like `Down`.
    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// What it shows, as one line: the program breaks lines where it likes.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J"]).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
