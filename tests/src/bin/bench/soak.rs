//! Steady mixed work for minutes: whether the daemons' memory, descriptors or threads grow with what they did.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use cede_tests::devices::{Device, pair, request, wait_until};
use cede_tests::proxy::Proxy;
use cede_wire::control::terminal::{RunRequest, TerminalSize};
use cede_wire::control::{Answer, Command, MoveRequest, SendRequest, TellRequest, TellUntil};

use crate::measure::{Sample, cpu_seconds, sample};
use crate::sessions::{Kind, Session, Shape};

/// How much may be added over the whole time.
const LIMIT_KIB: i64 = 1_024;
/// Minutes where nothing else is said.
const MINUTES: u64 = 10;
/// Rounds before it is measured: what is remembered of the past is then as much as it ever is.
const WARM_ROUNDS: u64 = 40;
/// Who tells whom.
const TALKS: [(usize, usize); 4] = [(0, 1), (1, 0), (1, 2), (2, 0)];
/// Messages of the same time, each way: more than are remembered of one peer.
const WARM_MESSAGES: u64 = 600;
const PAUSE: Duration = Duration::from_millis(400);
const NAMES: [&str; 3] = ["laptop", "server", "desktop"];

/// What was done.
#[derive(Debug, Default)]
struct Done {
    rounds: u64,
    messages: u64,
    moves: u64,
    files: u64,
    terminals: u64,
    questions: u64,
    cuts: u64,
}

struct Bench {
    devices: [Device; 3],
    doors: [Proxy; 3],
    session: Session,
    owner: usize,
    done: Done,
    root: tempfile::TempDir,
}

/// Three real daemons: messages, moves there and back, files, terminals, questions, lines that fail and come back.
pub fn soak(program: &Path) {
    let minutes = std::env::var("CEDE_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(MINUTES);
    println!("soak: three daemons, {minutes} minutes after the warm-up");
    let mut bench = Bench::new(program);
    bench.idle();
    bench.warm();
    let before = bench.resting();
    bench.done = Done::default();
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let pids = bench.pids();
    let over = AtomicBool::new(false);
    let samples = scope(|threads| {
        let watcher = threads.spawn(|| {
            let mut samples = Vec::new();
            while !over.load(Ordering::Relaxed) {
                samples.push(pids.map(sample));
                sleep(Duration::from_secs(1));
            }
            samples
        });
        while Instant::now() < until {
            bench.round();
        }
        over.store(true, Ordering::Relaxed);
        watcher.join().expect("the watcher")
    });
    let after = bench.resting();
    println!("done: {:?}", bench.done);
    for (number, name) in NAMES.iter().enumerate() {
        let own: Vec<Sample> = samples.iter().map(|all| all[number]).collect();
        print(name, &own, before[number], after[number]);
    }
    println!();
}

fn print(name: &str, samples: &[Sample], before: Sample, after: Sample) {
    let fifth = (samples.len() / 5).max(1);
    let median = |part: &[Sample]| {
        let mut kib: Vec<i64> = part.iter().map(|sample| sample.rss_kib).collect();
        kib.sort_unstable();
        kib.get(kib.len() / 2).copied().unwrap_or(0)
    };
    let (first, last) = (median(&samples[..fifth]), median(&samples[samples.len() - fifth..]));
    let most = samples.iter().map(|sample| sample.rss_kib).max().unwrap_or(0);
    let (drift, opened) = (last - first, after.descriptors - before.descriptors);
    let word = if drift <= LIMIT_KIB && opened <= 0 { "within" } else { "ABOVE" };
    println!(
        "{name}: memory {first} KiB in the first fifth, {last} KiB in the last ({drift:+} KiB, most {most}); at rest {} and {} KiB; \
         descriptors {} and {} ({opened:+}), threads {} and {}: {word} the limit of {LIMIT_KIB} KiB and none",
        before.rss_kib, after.rss_kib, before.descriptors, after.descriptors, before.threads, after.threads
    );
}

impl Bench {
    fn new(program: &Path) -> Self {
        let root = tempfile::Builder::new().prefix("cede-").tempdir().expect("a place");
        let mut devices = NAMES.map(|name| Device::new(root.path(), program, name));
        devices.iter_mut().for_each(Device::start);
        pair(&devices[0], &devices[1]);
        pair(&devices[0], &devices[2]);
        let doors = [0, 1, 2].map(|place: usize| Proxy::to(&devices[place].address));
        for (from, device) in devices.iter().enumerate() {
            for (to, other) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
                let knows = || device.status().peers.iter().any(|peer| peer.name == other.name);
                wait_until("a device knows the other members", knows);
                let address = doors[to].address.to_string();
                device.ask(Command::Address { device: other.name.clone(), address }).expect("it is noted");
                device.say_yes_to(&other.name);
            }
        }
        for device in &mut devices {
            device.kill();
            device.start();
        }
        let shape = Shape { kind: Kind::Small, files: 40, bytes: 256 << 10, transcript: 64 << 10 };
        let session = Session::make(&devices[0], shape);
        let bench = Self { devices, doors, session, owner: 0, done: Done::default(), root };
        bench.linked();
        bench
    }

    fn linked(&self) {
        let all = |device: &Device| {
            device.try_status().is_ok_and(|status| status.peers.iter().filter(|peer| peer.connected).count() == 2)
        };
        wait_until("all three see each other", || self.devices.iter().all(all));
    }

    fn pids(&self) -> [u32; 3] {
        [0, 1, 2].map(|number: usize| self.devices[number].pid())
    }

    /// What a daemon costs that has nothing to do.
    fn idle(&self) {
        const SECONDS: u64 = 20;
        sleep(Duration::from_secs(10));
        let pid = self.devices[2].pid();
        let (before, cpu) = (sample(pid), cpu_seconds(pid));
        sleep(Duration::from_secs(SECONDS));
        let after = sample(pid);
        println!(
            "idle, two peers: {} KiB of 30,720, {:.2} wake-ups a second, {:.2} % of a processor, {} threads",
            after.rss_kib,
            (after.switches - before.switches) as f64 / SECONDS as f64,
            (cpu_seconds(pid) - cpu) * 100.0 / SECONDS as f64,
            after.threads
        );
    }

    fn warm(&mut self) {
        for number in 0..WARM_MESSAGES {
            TALKS.iter().for_each(|(from, to)| self.tell(*from, *to, number));
        }
        (0..WARM_ROUNDS).for_each(|_| self.round());
    }

    /// Nothing is done until threads that wait for work have ended.
    fn resting(&self) -> [Sample; 3] {
        sleep(Duration::from_secs(15));
        self.pids().map(sample)
    }

    fn round(&mut self) {
        let number = self.done.rounds;
        self.done.rounds += 1;
        TALKS.iter().for_each(|(from, to)| self.tell(*from, *to, number));
        for device in &self.devices {
            drop(device.status());
        }
        self.done.questions += 3;
        if number % 3 == 1 {
            self.carry();
        }
        if number % 3 == 2 {
            self.send(number);
        }
        if number % 2 == 1 {
            self.terminal(number as usize % 3);
        }
        if number % 50 == 49 {
            self.cut();
        }
        sleep(PAUSE);
    }

    /// Tells, reads at the other end, and says that it was dealt with.
    fn tell(&mut self, from: usize, to: usize, number: u64) {
        let text = format!("{number:0200}");
        let device = NAMES[to].to_owned();
        let request =
            TellRequest { device, text, until: TellUntil::Received, wait_ms: Some(60_000), ..TellRequest::default() };
        let told = self.devices[from].ask(Command::Tell(request)).expect("it is told");
        let Answer::Told(letter) = told else { panic!("no letter") };
        // After a cut the line is perhaps not back yet; then it waits and comes by itself.
        let (sender, there) = (&self.devices[from], &self.devices[to]);
        let id = letter.id.clone();
        wait_until(
            "it came",
            || matches!(sender.ask(Command::Letter { id: id.clone() }), Ok(Answer::Letter { letter, .. }) if letter.state == "received"),
        );
        drop(there.ask(Command::Letter { id: letter.id.clone() }).expect("it is there"));
        there.ask(Command::MarkLetter { id: letter.id, acted: true }).expect("it is marked");
        self.done.messages += 1;
    }

    fn carry(&mut self) {
        let to = 1 - self.owner;
        let wanted = MoveRequest {
            carry_only: true,
            confirm_large: true,
            confirm_secrets: true,
            ..request(NAMES[to], self.session.id)
        };
        self.devices[self.owner].move_with(wanted).expect("a move");
        self.owner = to;
        self.done.moves += 1;
    }

    fn send(&mut self, number: u64) {
        let file = self.root.path().join("report.txt");
        std::fs::write(&file, vec![number as u8; 200 << 10]).expect("a file");
        let paths = vec![file.display().to_string()];
        let request = SendRequest { device: NAMES[1].to_owned(), paths, wait: true, ..SendRequest::default() };
        let sent = self.devices[0].ask(Command::Send(request)).expect("it is sent");
        let Answer::Sent(transfer) = sent else { panic!("no transfer") };
        assert_eq!(transfer.refusal, None, "{transfer:?}");
        self.done.files += 1;
    }

    fn terminal(&mut self, at: usize) {
        let device = &self.devices[at];
        let wanted = RunRequest {
            words: ["sh", "-c", "seq 2000; exit 0"].map(str::to_owned).to_vec(),
            name: None,
            directory: device.home.display().to_string(),
            environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            size: TerminalSize { rows: 24, columns: 80 },
            detached: false,
        };
        let ended = device.open(Command::Run(wanted)).expect("a daemon").end(&mut |_| {});
        assert!(matches!(ended, Some(Ok(Answer::TerminalEnded(_)))), "{ended:?}");
        self.done.terminals += 1;
    }

    /// All lines are dark until every link is given up.
    fn cut(&mut self) {
        self.doors.iter().for_each(|door| door.cut(true));
        let apart = |device: &Device| device.status().peers.iter().all(|peer| !peer.connected);
        wait_until("all links are given up", || self.devices.iter().all(apart));
        self.doors.iter().for_each(|door| door.cut(false));
        self.linked();
        self.done.cuts += 1;
    }
}
