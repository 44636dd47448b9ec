//! Real devices in throw-away homes: a daemon each, killed and started again at the same port, asked over its socket.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Output, Stdio};
use std::time::{Duration, Instant};

use cede_wire::control::{
    Answer, Command, Failure, MoveReport, MoveRequest, PairingEvent, Reply, ReplyBody, Request, SessionSummary,
    StatusReport,
};
use cede_wire::id::SessionId;
use cede_wire::record::PeerPolicy;

pub mod claude;
pub mod trees;
pub mod tty;
pub mod watch;

/// How long anything on one machine may take before a test calls it stuck.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One device: a home directory and, while it runs, a daemon.
#[derive(Debug)]
pub struct Device {
    /// Its name in the mesh.
    pub name: String,
    /// The person's home directory on it.
    pub home: PathBuf,
    /// `CEDE_HOME`.
    pub cede_home: PathBuf,
    /// The address of its daemon: the same in each of its lives.
    pub address: String,
    /// Where its daemon and its commands look for programs.
    pub path: OsString,
    /// More that is said to `cede up`.
    pub arguments: Vec<String>,
    /// Whether it announces itself and looks for others.
    pub discovery: bool,
    /// More variables of their environment.
    pub variables: Vec<(OsString, OsString)>,
    program: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

/// The lines of one answer.
#[derive(Debug)]
pub struct Answers(BufReader<UnixStream>);

impl Device {
    /// A device that does not run yet, below `root`.
    pub fn new(root: &Path, program: &Path, name: &str) -> Self {
        let place = root.join(name);
        let (home, cede_home, log) = (place.join("home"), place.join("cede"), place.join("log"));
        std::fs::create_dir_all(&home).unwrap();
        Self {
            name: name.to_owned(),
            home,
            cede_home,
            address: free_address(),
            path: std::env::var_os("PATH").unwrap_or_default(),
            arguments: Vec::new(),
            discovery: false,
            variables: Vec::new(),
            program: program.to_owned(),
            log,
            child: None,
        }
    }

    /// Starts the daemon and waits until it answers.
    pub fn start(&mut self) {
        self.start_unseen();
        wait_until("the daemon answers", || self.try_status().is_ok() || !self.runs());
        assert!(self.runs(), "{} did not start:\n{}", self.name, self.last_words(20));
    }

    /// Starts the daemon and does not wait.
    pub fn start_unseen(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = self.command(&["up", "--listen", &self.address, "--while-stdin"]);
        command.args((!self.discovery).then_some("--no-discovery")).args(&self.arguments);
        command.args(["--name", &self.name, "--log", "info,cede_daemon=debug"]);
        command.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    /// The program with this device's environment and nothing else.
    pub fn command(&self, arguments: &[&str]) -> Program {
        let mut command = Program::new(&self.program);
        command.args(arguments).env_clear().current_dir(&self.home);
        command.envs(self.variables.iter().cloned()).env("PATH", &self.path);
        command.env("HOME", &self.home).env("CEDE_HOME", &self.cede_home).env("LANG", "C.UTF-8");
        // Not below the home, of which tests say what lies in it.
        command.env("XDG_STATE_HOME", self.home.with_file_name("states"));
        command.env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    /// What a person sees who types this.
    pub fn typed(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Ends the daemon as a power cut would.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("a daemon to kill");
        // The standard input must not end first: the daemon would stop well.
        // The end of a traced process is told to its tracer alone, and it holds its files until its last thread is gone.
        if let Err(error) = child.kill().and_then(|()| child.wait()) {
            let gone = [nix::libc::ECHILD, nix::libc::ESRCH].map(Some);
            assert!(gone.contains(&error.raw_os_error()), "{error}");
            let threads = format!("/proc/{}/task", child.id());
            wait_until("the killed daemon is gone", || {
                std::fs::read_dir(&threads).map_or(0, Iterator::count) <= 1 && is_dead(child.id())
            });
        }
    }

    /// Stops the daemon as a person does, and says how it ended.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        self.ask(Command::Stop).unwrap();
        let mut child = self.child.take().expect("a daemon to stop");
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "{} does not stop", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for a daemon that ends by itself.
    pub fn wait_for_end(&mut self) -> std::process::ExitStatus {
        self.child.take().expect("a daemon").wait().unwrap()
    }

    /// The daemon's process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a daemon").id()
    }

    /// Whether the process is there.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.cede_home.join("cede.sock")
    }

    /// The directory of everything durable.
    pub fn state(&self) -> PathBuf {
        self.cede_home.join("state")
    }

    /// Asks; the lines come one by one.
    pub fn open(&self, command: Command) -> std::io::Result<Answers> {
        open(&self.socket(), command)
    }

    /// Asks and waits for the last line.
    pub fn ask(&self, command: Command) -> Result<Answer, Failure> {
        self.open(command).unwrap().end(&mut |_| {}).unwrap_or_else(|| panic!("{} went away", self.name))
    }

    /// One screen.
    pub fn status(&self) -> StatusReport {
        self.try_status().unwrap_or_else(|error| panic!("{}: {error}\n{}", self.name, self.last_words(20)))
    }

    /// One screen, where the daemon answers.
    pub fn try_status(&self) -> std::io::Result<StatusReport> {
        match self.open(Command::Status)?.end(&mut |_| {}) {
            Some(Ok(Answer::Status(report))) => Ok(*report),
            other => Err(std::io::Error::other(format!("{other:?}"))),
        }
    }

    /// What it says of one session; none where it knows none.
    pub fn session(&self, id: SessionId) -> Option<SessionSummary> {
        self.status().sessions.into_iter().find(|session| session.id == id)
    }

    /// Makes a session of a directory.
    pub fn adopt(&self, directory: &Path) -> SessionSummary {
        match self.ask(Command::Adopt { directory: directory.display().to_string() }) {
            Ok(Answer::Adopted(summary)) => *summary,
            other => panic!("not adopted: {other:?}"),
        }
    }

    /// Moves a session and waits for the end.
    pub fn to(&self, device: &str, session: SessionId) -> Result<MoveReport, Failure> {
        self.move_with(request(device, session))
    }

    /// Moves a session as `request` says and waits for the end.
    pub fn move_with(&self, request: MoveRequest) -> Result<MoveReport, Failure> {
        match self.ask(Command::To(request))? {
            Answer::Moved(report) => Ok(*report),
            other => panic!("no report: {other:?}"),
        }
    }

    /// Answers yes to everything that this peer asks.
    pub fn say_yes_to(&self, device: &str) {
        self.ask(Command::Policy { device: device.to_owned(), policy: Some(PeerPolicy::Yes) }).unwrap();
    }

    /// The last lines of its log.
    pub fn last_words(&self, lines: usize) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Its whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _gone = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- {}'s last words ---\n{}", self.name, self.last_words(40));
        }
    }
}

impl Answers {
    /// The next line; none when the daemon went away.
    pub fn line(&mut self) -> Option<ReplyBody> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).ok().filter(|read| *read > 0)?;
        Some(serde_json::from_slice::<Reply>(&line).ok()?.body)
    }

    /// Reads to the last line; none when the daemon went away first.
    pub fn end(mut self, seen: &mut dyn FnMut(&ReplyBody)) -> Option<Result<Answer, Failure>> {
        loop {
            let body = self.line()?;
            seen(&body);
            match body {
                ReplyBody::Done(answer) => return Some(Ok(answer)),
                ReplyBody::Failed(failure) => return Some(Err(failure)),
                ReplyBody::Progress(_)
                | ReplyBody::Planned(_)
                | ReplyBody::Pairing(_)
                | ReplyBody::Sending(_)
                | ReplyBody::Terminal(_)
                | ReplyBody::Task(_)
                | ReplyBody::Telling(_) => {}
            }
        }
    }

    /// Reads until a line is what is wanted.
    pub fn until(&mut self, wanted: impl Fn(&ReplyBody) -> bool) -> ReplyBody {
        loop {
            let body = self.line().expect("the daemon went away");
            if wanted(&body) {
                return body;
            }
            assert!(!matches!(body, ReplyBody::Done(_) | ReplyBody::Failed(_)), "it ended: {body:?}");
        }
    }
}

/// Two devices of one mesh.
#[derive(Debug)]
pub struct Devices {
    /// The one that was there first.
    pub a: Device,
    /// The one that joined.
    pub b: Device,
    /// Everything of both lies here.
    pub root: tempfile::TempDir,
}

impl Devices {
    /// Two that run and know nothing of each other.
    pub fn strangers(program: &str) -> Self {
        Self::with(program, &|_| {})
    }

    /// The same, each changed before it starts.
    pub fn with(program: &str, change: &dyn Fn(&mut Device)) -> Self {
        Self::below(&std::env::temp_dir(), program, change)
    }

    /// The same in a place of one's own, such as another file system.
    pub fn below(place: &Path, program: &str, change: &dyn Fn(&mut Device)) -> Self {
        let root = tempfile::Builder::new().prefix("cede-").tempdir_in(place).unwrap();
        let program = Path::new(program);
        let mut a = Device::new(root.path(), program, "laptop");
        let mut b = Device::new(root.path(), program, "server");
        change(&mut a);
        change(&mut b);
        a.start();
        b.start();
        Self { a, b, root }
    }

    /// Two that are paired and connected.
    pub fn paired(program: &str) -> Self {
        Self::strangers(program).joined()
    }

    /// The same two, paired and connected.
    pub fn joined(self) -> Self {
        pair(&self.a, &self.b);
        self.wait_for_link();
        self
    }

    /// Two that say yes to each other.
    pub fn friends(program: &str) -> Self {
        Self::paired(program).trusting()
    }

    /// The same two, who say yes to each other from now on.
    pub fn trusting(self) -> Self {
        self.a.say_yes_to("server");
        self.b.say_yes_to("laptop");
        self
    }

    /// From now on each knows only the door to the other: the first one leads to the first device.
    pub fn meet_through(&mut self, doors: [String; 2]) {
        let [to_a, to_b] = doors;
        self.a.ask(Command::Address { device: self.b.name.clone(), address: to_b }).unwrap();
        self.b.ask(Command::Address { device: self.a.name.clone(), address: to_a }).unwrap();
        self.a.kill();
        self.b.kill();
        self.a.start();
        self.b.start();
        self.wait_for_link();
    }

    /// Waits until each sees the other.
    pub fn wait_for_link(&self) {
        let sees = |device: &Device| device.try_status().is_ok_and(|s| s.peers.iter().any(|peer| peer.connected));
        wait_until("both see each other", || sees(&self.a) && sees(&self.b));
    }
}

/// Asks whatever daemon listens there; the lines come one by one.
pub fn open(socket: &Path, command: Command) -> std::io::Result<Answers> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE * 4))?;
    let mut line = serde_json::to_vec(&Request::new(command)).unwrap();
    line.push(b'\n');
    stream.write_all(&line)?;
    Ok(Answers(BufReader::new(stream)))
}

/// Pairs two devices as two people would.
pub fn pair(host: &Device, guest: &Device) {
    let (mut shown, words) = show_words(host);
    let mut asked = guest.open(pair_with(&words, &host.address)).unwrap();
    asked.until(|body| matches!(body, ReplyBody::Pairing(PairingEvent::Compare { .. })));
    shown.until(|body| matches!(body, ReplyBody::Pairing(PairingEvent::Compare { .. })));
    host.ask(Command::PairConfirm { accept: true }).unwrap();
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Paired { .. }))));
    assert!(matches!(shown.end(&mut |_| {}), Some(Ok(Answer::Paired { .. }))));
}

/// The words that a device shows, and the rest of that answer.
pub fn show_words(host: &Device) -> (Answers, String) {
    show_words_for(host, None)
}

/// The same, for so many seconds.
pub fn show_words_for(host: &Device, expires_in_s: Option<u64>) -> (Answers, String) {
    let mut shown = host.open(Command::Pair { expires_in_s }).unwrap();
    let body = shown.until(|body| matches!(body, ReplyBody::Pairing(PairingEvent::Words { .. })));
    let ReplyBody::Pairing(PairingEvent::Words { words, .. }) = body else { unreachable!() };
    (shown, words)
}

/// The question of a new device.
pub fn pair_with(words: &str, address: &str) -> Command {
    Command::PairWith { words: words.to_owned(), address: Some(address.to_owned()), name: None }
}

/// A move without any flag.
pub fn request(device: &str, session: SessionId) -> MoveRequest {
    MoveRequest { device: device.to_owned(), session: Some(session.to_string()), ..MoveRequest::default() }
}

/// Sends a signal to a process by its name, such as `STOP`.
pub fn signal(pid: u32, name: &str) {
    let sent = Program::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -s {name} {pid}");
}

/// Whether a process is gone, or nothing but its entry is there.
fn is_dead(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Waits until something holds.
///
/// # Panics
/// After [`PATIENCE`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port that nobody has at this moment. The system gives out none of these by itself, so that nobody else takes it before
/// its daemon does, or while that is down.
fn free_address() -> String {
    let drawn = || 10_000 + u16::try_from(RandomState::new().hash_one(()) % 22_000).unwrap();
    let free = |port: &u16| UdpSocket::bind(("127.0.0.1", *port)).is_ok();
    format!("127.0.0.1:{}", core::iter::repeat_with(drawn).take(1_000).find(free).expect("a free port"))
}
