//! The `git` program, run so that nothing in a repository or in the environment makes it run something else.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use cede_wire::path::escape;

use crate::limits::{GIT_ERROR_BYTES, GIT_OUTPUT_BYTES, GIT_SECONDS};
use crate::programs;

/// Settings that hold for every call: no monitor, hook, transport or maintenance starts, whatever the configuration says.
const HARDENED: [&str; 12] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.symlinks=true",
    "core.pager=cat",
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "protocol.file.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Why a git command gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitError {
    pub(crate) command: String,
    pub(crate) message: String,
    pub(crate) fault: GitFault,
}

/// What a failed call is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GitFault {
    Failed,
    /// There is no git program.
    Missing,
    /// The repository's configuration has a filter that cannot be switched off.
    Filter,
}

/// Whose configuration a call reads, besides the repository's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Config {
    /// The person's and the system's: ignore rules depend on them.
    Users,
    /// Nobody's.
    Nobodys,
}

/// Git at one place.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    directory: PathBuf,
    git_directory: Option<PathBuf>,
    config: Config,
    settings: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

/// A finished command.
pub(crate) struct Answer<T> {
    pub(crate) output: T,
    pub(crate) code: Option<i32>,
    pub(crate) error: String,
}

impl Git {
    /// Git in a directory, which looks for the repository itself and checks its owner.
    pub(crate) fn discover(directory: &Path) -> Self {
        Self::new(directory, None, Config::Users)
    }

    /// Git on a known work tree.
    pub(crate) fn at(root: &Path, config: Config) -> Self {
        Self::new(root, Some(root.join(".git")), config)
    }

    /// Git on a work tree of a person's, with the filters that its configuration names switched off. Whoever writes an
    /// index makes git look into files that changed in the same second, and to look is to filter.
    pub(crate) fn without_filters(root: &Path) -> Result<Self, GitError> {
        let git = Self::at(root, Config::Nobodys);
        let list = git.run(&["config", "-z", "--list", "--name-only"])?;
        let mut drivers = BTreeSet::new();
        for name in list.split(|b| *b == 0).filter_map(|name| name.strip_prefix(b"filter.")) {
            let end = name.iter().rposition(|b| *b == b'.').unwrap_or(name.len());
            drivers.insert(name.get(..end).unwrap_or_default().to_vec());
        }
        drivers.iter().try_fold(git, |git, driver| git.without_filter(driver))
    }

    /// Git takes a setting apart at its first `=`, so a driver with one in its name cannot be named.
    fn without_filter(self, driver: &[u8]) -> Result<Self, GitError> {
        if driver.contains(&b'=') || driver.contains(&b'\n') {
            let message = format!("the filter {} cannot be switched off", escape(driver));
            return Err(GitError { fault: GitFault::Filter, ..GitError::new(&["config"], &message) });
        }
        let off: [&[u8]; 4] = [b".clean=", b".smudge=", b".process=", b".required=false"];
        Ok(off.iter().fold(self, |git, what| git.setting(OsString::from_vec([b"filter.", driver, *what].concat()))))
    }

    /// Git in a directory that is no repository yet.
    pub(crate) fn outside(directory: &Path) -> Self {
        Self::new(directory, None, Config::Nobodys)
    }

    fn new(directory: &Path, git_directory: Option<PathBuf>, config: Config) -> Self {
        let directory = directory.to_path_buf();
        Self { directory, git_directory, config, settings: Vec::new(), environment: Vec::new() }
    }

    /// The same with one more setting.
    #[must_use]
    pub(crate) fn setting(mut self, setting: impl Into<OsString>) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// The same with one more variable.
    #[must_use]
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// The same with another work tree.
    #[must_use]
    pub(crate) fn work_tree(mut self, directory: &Path) -> Self {
        self.directory = directory.to_path_buf();
        self
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        self.feed(arguments, &[])
    }

    /// Runs a command with input; it must succeed.
    pub(crate) fn feed(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let answer = self.ask(arguments, input)?;
        if answer.code == Some(0) { Ok(answer.output) } else { Err(failed(arguments, &answer)) }
    }

    /// Runs a command that may say no.
    pub(crate) fn ask(&self, arguments: &[&str], input: &[u8]) -> Result<Answer<Vec<u8>>, GitError> {
        let answer = self.pipe(
            arguments,
            |stdin| stdin.write_all(input),
            |stdout| {
                let mut output = Vec::new();
                stdout.take(GIT_OUTPUT_BYTES as u64 + 1).read_to_end(&mut output).map(|_| output)
            },
        )?;
        let output = answer.output.map_err(|error| GitError::io(arguments, &error))?;
        if output.len() > GIT_OUTPUT_BYTES {
            return Err(GitError::new(arguments, "it printed more than the limit"));
        }
        Ok(Answer { output, code: answer.code, error: answer.error })
    }

    /// Runs a command with both ends in the caller's hands. `drain` must read to the end, or the command is killed.
    pub(crate) fn pipe<T>(
        &self,
        arguments: &[&str],
        feed: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send,
        drain: impl FnOnce(&mut dyn Read) -> T,
    ) -> Result<Answer<T>, GitError> {
        let mut child = self.command(arguments)?.spawn().map_err(|error| GitError::spawn(arguments, &error))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (finished, watched) = mpsc::channel();
        let handle = pid_handle(&child);
        std::thread::scope(|scope| {
            scope.spawn(move || watch(&watched, handle.as_ref()));
            let fed = scope.spawn(move || stdin.map_or(Ok(()), |mut stdin| feed(&mut stdin)));
            let error = scope.spawn(move || stderr.map(last_words).unwrap_or_default());
            let output = stdout.map(|mut stdout| drain(&mut stdout));
            let status = child.wait().map_err(|error| GitError::io(arguments, &error));
            let _ = finished.send(());
            let error = error.join().unwrap_or_default();
            let code = status?.code();
            match fed.join() {
                Ok(Err(fault)) if code == Some(0) => Err(GitError::io(arguments, &fault)),
                Ok(Err(fault)) if error.is_empty() => Err(GitError::io(arguments, &fault)),
                _ => {
                    let output = output.ok_or_else(|| GitError::new(arguments, "no output"))?;
                    Ok(Answer { output, code, error })
                }
            }
        })
    }

    fn command(&self, arguments: &[&str]) -> Result<Command, GitError> {
        // By its full name: a bare one is looked for from the tree, and the daemon would be copied for the search.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let missing = || GitError::spawn(arguments, &io::ErrorKind::NotFound.into());
        let mut command = Command::new(programs::find(&path, "git").ok_or_else(missing)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_clear().envs(self.surroundings());
        command.arg("--no-pager").arg("--no-replace-objects");
        if arguments.first() != Some(&"check-ignore") {
            command.arg("--literal-pathspecs");
        }
        for setting in HARDENED {
            command.arg("-c").arg(setting);
        }
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        if let Some(git_directory) = &self.git_directory {
            command.arg(joined("--git-dir=", git_directory));
            command.arg(joined("--work-tree=", &self.directory));
        }
        command.args(arguments).current_dir(&self.directory);
        Ok(command)
    }

    fn surroundings(&self) -> Vec<(&'static str, OsString)> {
        let inherited = ["PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "USER", "LOGNAME"];
        let mut all: Vec<_> = inherited.into_iter().filter_map(|n| std::env::var_os(n).map(|v| (n, v))).collect();
        let fixed = [
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_LFS_SKIP_SMUDGE", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ASKPASS", ""),
            ("GIT_ATTR_NOSYSTEM", "1"),
        ];
        all.extend(fixed.map(|(name, value)| (name, OsString::from(value))));
        if self.config == Config::Nobodys {
            all.push(("GIT_CONFIG_NOSYSTEM", "1".into()));
            all.push(("GIT_CONFIG_GLOBAL", "/dev/null".into()));
        }
        all.extend(self.environment.iter().cloned());
        all
    }
}

impl GitError {
    pub(crate) fn new(arguments: &[&str], message: &str) -> Self {
        Self { command: name_of(arguments), message: message.to_owned(), fault: GitFault::Failed }
    }

    pub(crate) fn io(arguments: &[&str], error: &io::Error) -> Self {
        Self::new(arguments, &error.kind().to_string())
    }

    fn spawn(arguments: &[&str], error: &io::Error) -> Self {
        let fault = if error.kind() == io::ErrorKind::NotFound { GitFault::Missing } else { GitFault::Failed };
        Self { fault, ..Self::io(arguments, error) }
    }
}

/// Turns an answer that is not a success into an error.
pub(crate) fn failed<T>(arguments: &[&str], answer: &Answer<T>) -> GitError {
    let shown = match (answer.code, answer.error.as_str()) {
        (None, _) => "it was killed or took too long".to_owned(),
        (Some(code), "") => format!("exit code {code}"),
        (Some(_), text) => text.to_owned(),
    };
    GitError::new(arguments, &shown)
}

fn name_of(arguments: &[&str]) -> String {
    arguments.first().copied().unwrap_or_default().to_owned()
}

fn joined(prefix: &str, path: &Path) -> OsString {
    let mut all = OsString::from(prefix);
    all.push::<&OsStr>(path.as_os_str());
    all
}

/// The last line that says something, escaped; the rest is read and dropped so that the command never waits for us.
fn last_words(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(got @ 1..) = stderr.read(&mut piece) {
        kept.extend_from_slice(piece.get(..got).unwrap_or_default());
        let surplus = kept.len().saturating_sub(GIT_ERROR_BYTES);
        kept.drain(..surplus);
    }
    let lines = kept.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let said: Vec<_> = lines.filter(|line| !line.starts_with(b"hint:")).map(escape).collect();
    said.iter().rev().find(|l| l.contains("error") || l.contains("fatal")).or(said.last()).cloned().unwrap_or_default()
}

fn pid_handle(child: &Child) -> Option<rustix::fd::OwnedFd> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Kills the command when its time is over. A handle, not a number: the number may be another process by then.
fn watch(finished: &mpsc::Receiver<()>, handle: Option<&rustix::fd::OwnedFd>) {
    let over = finished.recv_timeout(Duration::from_secs(GIT_SECONDS)) == Err(mpsc::RecvTimeoutError::Timeout);
    if let Some(handle) = handle.filter(|_| over) {
        let _ = rustix::process::pidfd_send_signal(handle, rustix::process::Signal::KILL);
    }
}
