//! Approvals: how soon a peer goes on after a person decided, and how long many mixed questions take one who types.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cede_tests::devices::trees::dirty;
use cede_tests::devices::{Answers, Device, pair, request, wait_until};
use cede_wire::control::tasks::AskRequest;
use cede_wire::control::{Answer, ApprovalSummary, Command, Phase, ReplyBody, SendRequest, TransferState};
use cede_wire::id::SessionId;
use cede_wire::task::TaskScope;

/// Rounds of every kind with each of two peers: a peer is not asked about more than thirty times in ten minutes.
const ROUNDS: usize = 6;
/// Peers, of which each has at most three questions at once.
const PEERS: usize = 7;
/// Questions that are cleared together.
const MANY: usize = 20;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Task,
    Receive,
    Give,
}

/// A device whose person is asked, and its peers with a session each.
struct Desk {
    server: Device,
    peers: Vec<(Device, SessionId)>,
    _root: tempfile::TempDir,
}

/// Between real daemons on this machine.
pub fn approvals(program: &Path) {
    let desk = Desk::new(program);
    desk.each();
    desk.many();
}

impl Desk {
    fn new(program: &Path) -> Self {
        let root = tempfile::Builder::new().prefix("cede-").tempdir().expect("a directory");
        let mut server = Device::new(root.path(), program, "server");
        server.path = agent(root.path()).into();
        server.start();
        let peers = (0..PEERS).map(|number| {
            let mut peer = Device::new(root.path(), program, &format!("peer{number}"));
            peer.start();
            pair(&server, &peer);
            let tree = peer.home.join(format!("work{number}"));
            dirty(&tree);
            let id = peer.adopt(&tree).id;
            (peer, id)
        });
        let peers: Vec<(Device, SessionId)> = peers.collect();
        let linked = |device: &Device, count| device.status().peers.iter().filter(|one| one.connected).count() >= count;
        wait_until("all are linked", || linked(&server, PEERS));
        for (peer, _) in &peers {
            wait_until("both know it", || linked(peer, 1));
            peer.say_yes_to("server");
        }
        Self { server, peers, _root: root }
    }

    /// One decision after the other.
    fn each(&self) {
        let kinds = [Kind::File, Kind::Task, Kind::Receive, Kind::Give];
        let mut all = Vec::new();
        let mut by_kind = kinds.map(|kind| (kind, Vec::new()));
        for round in 0..ROUNDS {
            for peer in 0..2 {
                for (kind, times) in &mut by_kind {
                    let asked = self.begin(*kind, peer, round);
                    let waiting = self.waiting(1).remove(0);
                    let heard = goes_on(*kind, asked);
                    let begun = Instant::now();
                    let decided = Command::Decide { approval: waiting.id.to_string(), yes: true };
                    self.server.ask(decided).expect("it is decided");
                    times.push(heard.join().expect("the peer heard").saturating_duration_since(begun));
                }
            }
        }
        println!("approvals: from the person's yes until the peer goes on");
        for (kind, times) in by_kind {
            all.extend(&times);
            let (middle, tail) = percentiles(times);
            println!("{:<28}p50 {:>7.1} ms, p99 {:>7.1} ms", kind.name(), ms(middle), ms(tail));
        }
        let count = all.len();
        let (middle, tail) = percentiles(all);
        let part = tail.as_secs_f64();
        println!(
            "all {count:<24}p50 {:>7.1} ms, p99 {:>7.1} ms = {part:.3} of the second that it may take",
            ms(middle),
            ms(tail)
        );
    }

    /// Many at once, cleared by typed commands.
    fn many(&self) {
        let wanted = [Kind::File, Kind::Task, Kind::Receive].into_iter();
        let wanted = wanted.flat_map(|kind| (0..PEERS).map(move |peer| (kind, peer))).take(MANY);
        let asked: Vec<(Kind, Answers)> = wanted.map(|(kind, peer)| (kind, self.begin(kind, peer, ROUNDS))).collect();
        let waiting = self.waiting(MANY);
        let heard: Vec<JoinHandle<Instant>> = asked.into_iter().map(|(kind, asked)| goes_on(kind, asked)).collect();
        let begun = Instant::now();
        assert!(self.server.typed(&["approvals", "--all"]).status.success(), "they are read");
        for one in &waiting {
            let typed = self.server.typed(&["allow", &one.id.short()]);
            assert!(typed.status.success(), "{typed:?}");
        }
        let cleared = begun.elapsed();
        let last = heard.into_iter().map(|heard| heard.join().expect("the peer heard")).max().unwrap_or(begun);
        println!(
            "{MANY} mixed, each typed:         cleared in {:.2} s = {:.3} of the minute that it may take; the last peer went on {:.2} s after the first key\n",
            cleared.as_secs_f64(),
            cleared.as_secs_f64() / 60.0,
            last.saturating_duration_since(begun).as_secs_f64()
        );
    }

    fn begin(&self, kind: Kind, peer: usize, round: usize) -> Answers {
        let (peer, session) = &self.peers[peer];
        let command = match kind {
            Kind::File => {
                let file = peer.home.join(format!("note{round}.txt"));
                std::fs::write(&file, format!("{round}\n")).expect("a file");
                let paths = vec![file.display().to_string()];
                Command::Send(SendRequest { device: "server".into(), paths, wait: true, ..SendRequest::default() })
            }
            Kind::Task => {
                let task = format!("say that it is round {round}");
                let scope = TaskScope { minutes: 5, ..TaskScope::default() };
                Command::Ask(AskRequest { device: "server".into(), task, scope, wait: true, ..AskRequest::default() })
            }
            Kind::Receive => Command::To(request("server", *session)),
            Kind::Give => Command::Take { session: session.to_string(), wait: false, carry_only: false },
        };
        peer.open(command).expect("the peer asks")
    }

    /// Everything that waits, once it is so many.
    fn waiting(&self, count: usize) -> Vec<ApprovalSummary> {
        let mut waiting = Vec::new();
        let mut look = || match self.server.ask(Command::Approvals) {
            Ok(Answer::Approvals { approvals }) => {
                waiting = approvals;
                waiting.len() == count
            }
            other => panic!("no questions: {other:?}"),
        };
        wait_until("the questions wait", &mut look);
        waiting
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::File => "files",
            Self::Task => "tasks",
            Self::Receive => "sessions that come",
            Self::Give => "sessions that leave",
        }
    }

    /// Whether the peer goes on, by what it is told.
    fn goes_on(self, body: &ReplyBody) -> bool {
        match body {
            ReplyBody::Done(_) | ReplyBody::Failed(_) => true,
            ReplyBody::Sending(files) => !matches!(files.state, TransferState::Queued | TransferState::Offered),
            ReplyBody::Task(task) => !matches!(task.state.as_str(), "queued" | "waiting"),
            ReplyBody::Progress(progress) => {
                !matches!(progress.phase, Phase::Preparing | Phase::Waiting | Phase::Offered)
            }
            ReplyBody::Planned(_) | ReplyBody::Pairing(_) | ReplyBody::Terminal(_) | ReplyBody::Telling(_) => false,
        }
    }
}

/// When the peer goes on; heard once all of it is over.
fn goes_on(kind: Kind, asked: Answers) -> JoinHandle<Instant> {
    std::thread::spawn(move || {
        let mut at = None;
        let ended = asked.end(&mut |body| {
            if at.is_none() && kind.goes_on(body) {
                at = Some(Instant::now());
            }
        });
        assert!(matches!(ended, Some(Ok(_))), "{kind:?}: {ended:?}");
        at.expect("it went on")
    })
}

/// A stand-in for an agent, and the directories of programs with it.
fn agent(root: &Path) -> String {
    let place = root.join("agents");
    std::fs::create_dir_all(&place).expect("a directory");
    let file = place.join("claude");
    std::fs::write(&file, "#!/bin/sh\ncat > /dev/null\necho done\n").expect("a program");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a program");
    format!("{}:/usr/bin:/bin", place.display())
}

fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
    (at(50), at(99))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
