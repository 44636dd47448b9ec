//! Two real daemons under kill -9 and cut lines, at moments that a seed chooses.
//!
//! `CEDE_SHAKE` sets the full counts, `CEDE_SEED` the moments, `CEDE_KILLS` and `CEDE_CUTS` other counts, `CEDE_PROGRAM`
//! another build.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use cede_tests::devices::claude::{self, Planted};
use cede_tests::devices::trees::{self, Numbers};
use cede_tests::devices::watch::{Watcher, acts};
use cede_tests::devices::{Device, Devices, request, wait_until};
use cede_tests::proxy::Proxy;
use cede_wire::control::{Answer, Command, Failure, MoveReport, MoveRequest, Phase, ReplyBody};

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");

/// Files of the tree at full counts: 24 MiB. A quarter of them otherwise.
const FILES: u64 = 2_000;
const BYTES: usize = 12 << 10;
/// The part of the files that is written anew before each move: every second one.
const EVERY: usize = 2;
/// What may be sent twice: pieces of streams that were under way, packs, catalogs.
const SLACK_BYTES: u64 = 6 << 20;

fn count(variable: &str, usual: u64, full: u64) -> u64 {
    let asked = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("CEDE_SHAKE").is_some() { full } else { usual })
}

/// The program that was built beside the tests, or another build of it.
fn program() -> String {
    std::env::var("CEDE_PROGRAM").unwrap_or_else(|_| CEDE.to_owned())
}

fn seed() -> u64 {
    std::env::var("CEDE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_102)
}

/// A session with a conversation and a large tree, and two devices that it moves between.
struct Shaken {
    devices: Devices,
    planted: Planted,
    numbers: Numbers,
    turns: usize,
    /// The owner is the first device.
    at_a: bool,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    completed: u64,
    abandoned: u64,
    sent: u64,
    present: u64,
    looks: u64,
    /// The last phase before the blow, and how often.
    moments: BTreeMap<String, u64>,
    slowest: Duration,
}

/// What a move must not lose.
#[derive(Debug, PartialEq, Eq)]
struct Evidence {
    tree: BTreeMap<String, String>,
    conversation: Option<Vec<u8>>,
}

impl Shaken {
    fn new(seed: u64) -> Self {
        let devices = Devices::friends(&program());
        let tree = devices.a.home.join("project");
        let files = count("CEDE_FILES", FILES / 4, FILES);
        trees::large(&tree, usize::try_from(files).unwrap(), BYTES, seed);
        let planted = claude::plant(&devices.a.home, &tree, 40);
        Self { devices, planted, numbers: Numbers(seed), turns: 40, at_a: true, sums: Sums::default() }
    }

    fn owner(&self) -> &Device {
        if self.at_a { &self.devices.a } else { &self.devices.b }
    }

    fn other(&self) -> &Device {
        if self.at_a { &self.devices.b } else { &self.devices.a }
    }

    fn tree(device: &Device) -> PathBuf {
        device.home.join("project")
    }

    /// The person works: half of the files, one turn. Bytes that changed.
    fn work(&mut self) -> u64 {
        let tree = Self::tree(self.owner());
        let changed = trees::change(&tree, EVERY, self.numbers.next());
        claude::add_turn(&self.owner().home, &self.planted, &tree, self.turns);
        self.turns += 1;
        changed
    }

    fn request(&self) -> MoveRequest {
        MoveRequest { carry_only: true, ..request(&self.other().name, self.planted.id) }
    }

    fn evidence(&self, device: &Device) -> Evidence {
        let tree = trees::evidence(&Self::tree(device));
        Evidence { tree, conversation: claude::resumable(&device.home, &self.planted) }
    }

    fn watch(&self) -> Watcher {
        let place = |device: &Device| (device.name.clone(), device.socket());
        Watcher::start(self.planted.id, [place(&self.devices.a), place(&self.devices.b)])
    }

    /// Starts a move; what its client saw comes when it ended or its daemon did.
    fn begin(&self) -> (std::thread::JoinHandle<Client>, Receiver<Phase>) {
        let mut answers = self.owner().open(Command::To(self.request())).unwrap();
        let (seen, phases) = std::sync::mpsc::channel();
        let client = std::thread::spawn(move || {
            let mut client = Client::default();
            while let Some(body) = answers.line() {
                match body {
                    ReplyBody::Progress(progress) => {
                        client.phase = Some(progress.phase);
                        // Nobody listens any more once the blow fell.
                        let _told = seen.send(progress.phase);
                    }
                    ReplyBody::Done(Answer::Moved(report)) => {
                        client.report = Some(*report);
                        break;
                    }
                    ReplyBody::Failed(failure) => {
                        client.failure = Some(failure);
                        break;
                    }
                    ReplyBody::Done(_) | ReplyBody::Planned(_) | ReplyBody::Pairing(_) => {}
                }
            }
            client
        });
        (client, phases)
    }

    /// Waits until nothing moves and the devices agree; whether the session stands at the other one.
    fn settle(&self) -> bool {
        let (owner, other) = (self.owner(), self.other());
        let mut moved = false;
        wait_until("the session is at one device and nothing moves", || {
            let (Ok(here), Ok(there)) = (owner.try_status(), other.try_status()) else { return false };
            let find = |report: &cede_wire::control::StatusReport| {
                report.sessions.iter().find(|session| session.id == self.planted.id).cloned()
            };
            let (Some(at_owner), at_other) = (find(&here), find(&there)) else { return false };
            let still = here.moves.is_empty() && there.moves.is_empty();
            moved = at_other.as_ref().is_some_and(|said| said.state == "in charge here");
            let left = at_owner.state == format!("at {}", other.name);
            let stays = at_owner.state == "in charge here";
            assert!(!(acts(&at_owner) && moved), "both act: {at_owner:?} {at_other:?}");
            still && here.peers.iter().all(|peer| peer.connected) && ((moved && left) || (!moved && stays))
        });
        moved
    }

    /// After a blow: who has it now has all of it; a move that was given up is repeated and succeeds.
    fn judge(&mut self, before: &Evidence, changed: u64, moment: &str) {
        let moved = self.settle();
        *self.sums.moments.entry(moment.to_owned()).or_default() += 1;
        if moved {
            self.sums.completed += 1;
        } else {
            self.sums.abandoned += 1;
            self.fence_comes_down();
            assert_eq!(&self.evidence(self.owner()), before, "the source is untouched, {moment}");
            let kept = trees::bytes_below(&self.other().state().join("stages"));
            let report =
                self.owner().move_with(self.request()).unwrap_or_else(|failure| panic!("{moment}: {failure:?}"));
            self.add(&report);
            let most = (changed + SLACK_BYTES).saturating_sub(kept);
            assert!(report.bytes_sent <= most, "{moment}: {} sent, {changed} changed, {kept} kept", report.bytes_sent);
            assert!(self.settle());
        }
        assert_eq!(&self.evidence(self.other()), before, "all of it is there, {moment}");
        assert_eq!(claude::resumable(&self.owner().home, &self.planted), None, "the source is fenced, {moment}");
        self.at_a = !self.at_a;
    }

    fn fence_comes_down(&self) {
        let home = &self.owner().home;
        wait_until("the fence comes down", || claude::resumable(home, &self.planted).is_some());
    }

    fn add(&mut self, report: &MoveReport) {
        self.sums.sent += report.bytes_sent;
        self.sums.present += report.bytes_present;
    }

    /// After two quiet moves no staging, arrival or chunk of all the attempts is left, and one catalog.
    fn leaves_nothing(&mut self) {
        self.undisturbed();
        self.undisturbed();
        for device in [&self.devices.a, &self.devices.b] {
            let left = || {
                let home = trees::names(&device.home).into_iter().filter(|name| name.starts_with(".cede-"));
                let state = ["arrivals", "stages"].map(|part| trees::names(&device.state().join(part)));
                home.chain(state.concat()).collect::<Vec<_>>()
            };
            wait_until(&format!("nothing is left at {}", device.name), || left().is_empty());
            assert_eq!(trees::names(&device.state().join("objects")).len(), 1, "catalogs at {}", device.name);
        }
    }

    /// One move that nobody disturbs: how long it takes.
    fn undisturbed(&mut self) -> Duration {
        self.work();
        let before = self.evidence(self.owner());
        let begun = Instant::now();
        let report = self.owner().move_with(self.request()).unwrap();
        let took = begun.elapsed();
        assert!(self.settle());
        assert_eq!(self.evidence(self.other()), before);
        println!(
            "undisturbed: {} ms, {} bytes sent, {} there",
            took.as_millis(),
            report.bytes_sent,
            report.bytes_present
        );
        self.at_a = !self.at_a;
        took
    }
}

/// When the blow falls: at any time, or a moment after a phase was seen.
#[derive(Debug)]
enum Blow {
    At(Duration),
    After(Phase, Duration),
}

impl Blow {
    /// The short phases would seldom be met by chance, so half of the blows aim at one.
    fn choose(numbers: &mut Numbers, usual: Duration) -> Self {
        let phases = [Phase::Offered, Phase::Transferring, Phase::Transferring, Phase::Staged, Phase::Released];
        let any = usual.mul_f64(numbers.below(1_100) as f64 / 1_000.0);
        let moment = Duration::from_micros(numbers.below(60_000));
        let phase = phases[numbers.below(phases.len() as u64) as usize];
        if numbers.below(2) == 0 { Self::At(any) } else { Self::After(phase, moment) }
    }

    fn wait_for(&self, phases: &Receiver<Phase>) {
        match self {
            Self::At(at) => std::thread::sleep(*at),
            Self::After(phase, moment) => {
                // A move that ended before has no such phase any more.
                let _met = phases.iter().find(|seen| seen >= phase);
                std::thread::sleep(*moment);
            }
        }
    }
}

/// What the client of a move saw.
#[derive(Debug, Default)]
struct Client {
    phase: Option<Phase>,
    report: Option<MoveReport>,
    failure: Option<Failure>,
}

/// Who is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Source,
    Destination,
    Both,
}

impl Shaken {
    fn hit(&mut self, victim: Victim) {
        for device in self.victims(victim) {
            device.kill();
        }
        std::thread::sleep(Duration::from_millis(self.numbers.below(400)));
        for device in self.victims(victim) {
            device.start();
        }
    }

    fn victims(&mut self, victim: Victim) -> Vec<&mut Device> {
        let Devices { a, b, .. } = &mut self.devices;
        let (owner, other) = if self.at_a { (a, b) } else { (b, a) };
        match victim {
            Victim::Source => vec![owner],
            Victim::Destination => vec![other],
            Victim::Both => vec![owner, other],
        }
    }

    /// One move with its blow, and sometimes a second one while the first is being recovered from.
    fn blow(&mut self, kill: u64, usual: Duration) {
        let changed = self.work();
        let before = self.evidence(self.owner());
        let watcher = self.watch();
        let all = [Victim::Source, Victim::Source, Victim::Destination, Victim::Destination, Victim::Both];
        let victim = all[usize::try_from(self.numbers.below(5)).unwrap()];
        let blow = Blow::choose(&mut self.numbers, usual);
        let started = Instant::now();
        let (client, phases) = self.begin();
        blow.wait_for(&phases);
        let at = started.elapsed();
        self.hit(victim);
        let again = self.numbers.below(4) == 0;
        if again {
            std::thread::sleep(Duration::from_millis(self.numbers.below(500)));
            self.hit(victim);
        }
        // Where the source lives on, its client waits through the destination's death.
        let client = client.join().unwrap();
        if let Some(report) = &client.report {
            self.add(report);
        }
        let moment = match victim {
            Victim::Source | Victim::Both => format!("{victim:?} in {:?}", client.phase),
            Victim::Destination => format!("{victim:?}, then {:?}", client.phase),
        };
        self.judge(&before, changed, &moment);
        let seen = watcher.end();
        self.sums.looks += seen.looks;
        assert_eq!(seen.wrong, [""; 0], "kill {kill}: {moment}");
        let took = started.elapsed();
        self.sums.slowest = self.sums.slowest.max(took);
        let twice = if again { ", twice" } else { "" };
        println!("{kill}: {moment} at {} ms{twice}, {} ms in all", at.as_millis(), took.as_millis());
    }
}

/// Shows: H-6, H-7, H-10, H-21, H-24, J-1, T-9
#[test]
fn killed_at_random_moments_has_one_owner_and_loses_nothing() {
    let (seed, kills) = (seed(), count("CEDE_KILLS", 6, 200));
    println!("seed {seed}");
    let begun = Instant::now();
    let mut shaken = Shaken::new(seed);
    shaken.undisturbed();
    let usual = shaken.undisturbed();
    for kill in 0..kills {
        shaken.blow(kill, usual);
    }
    shaken.leaves_nothing();
    println!("{kills} kills with seed {seed} in {} s: {:?}", begun.elapsed().as_secs(), shaken.sums);
}

/// Shows: C-4, H-16, H-21, T-9
#[test]
fn line_cut_at_random_moments_costs_time_and_nothing_else() {
    let (seed, cuts) = (seed(), count("CEDE_CUTS", 4, 50));
    let begun = Instant::now();
    let mut shaken = Shaken::new(seed);
    let doors = [Proxy::to(&shaken.devices.a.address), Proxy::to(&shaken.devices.b.address)];
    through(&mut shaken.devices, &doors);
    let usual = shaken.undisturbed().max(shaken.undisturbed());
    for cut in 0..cuts {
        let changed = shaken.work();
        let before = shaken.evidence(shaken.owner());
        let watcher = shaken.watch();
        let at = usual.mul_f64(shaken.numbers.below(1_000) as f64 / 1_000.0);
        // Every fourth outlives the link; the others only make it wait.
        let long = cut % 4 == 3;
        let dark = Duration::from_millis(if long { 21_000 } else { 200 } + shaken.numbers.below(2_500));
        let (client, _phases) = shaken.begin();
        std::thread::sleep(at);
        doors.iter().for_each(|door| door.cut(true));
        std::thread::sleep(dark);
        doors.iter().for_each(|door| door.cut(false));
        let client = client.join().unwrap();
        assert_eq!(client.failure, None, "cut {cut} of seed {seed} at {at:?} for {dark:?}");
        let report = client.report.unwrap();
        assert!(report.bytes_sent <= changed + SLACK_BYTES, "cut {cut}: {} sent of {changed}", report.bytes_sent);
        shaken.add(&report);
        shaken.judge(&before, changed, &format!("cut for {} s", dark.as_secs()));
        let seen = watcher.end();
        shaken.sums.looks += seen.looks;
        assert_eq!(seen.wrong, [""; 0], "cut {cut} of seed {seed}");
        println!("{cut}: at {} ms for {} ms, {} bytes sent", at.as_millis(), dark.as_millis(), report.bytes_sent);
    }
    shaken.leaves_nothing();
    let counts: Vec<_> = doors.iter().map(Proxy::counts).collect();
    assert!(counts.iter().any(|(passed, _)| *passed > 1_000), "the devices went around the line: {counts:?}");
    println!(
        "{cuts} cuts with seed {seed} in {} s: {:?}, datagrams {counts:?}",
        begun.elapsed().as_secs(),
        shaken.sums
    );
}

/// From now on each device knows only the door to the other.
fn through(devices: &mut Devices, doors: &[Proxy; 2]) {
    let address = |device: &Device, of: &str, door: &Proxy| {
        device.ask(Command::Address { device: of.to_owned(), address: door.address.to_string() }).unwrap();
    };
    address(&devices.a, "server", &doors[1]);
    address(&devices.b, "laptop", &doors[0]);
    devices.a.kill();
    devices.b.kill();
    devices.a.start();
    devices.b.start();
    devices.wait_for_link();
}
