//! The three programs, driven the same way.

use std::path::{Path, PathBuf};

use cede_agent::adapter::{Adapter, Arrival, Installed, Tombstone, Transcript, adapters};
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
