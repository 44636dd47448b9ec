//! One session that is moved to and fro between two real devices while something goes wrong, and what must hold then.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use cede_wire::control::{Answer, Command, Failure, MoveReport, MoveRequest, Phase, ReplyBody};

use crate::devices::claude::{self, Planted};
use crate::devices::trees::{self, Numbers};
use crate::devices::watch::{Watcher, acts};
use crate::devices::{Device, Devices, PATIENCE, request, wait_until};

/// What may be sent twice: pieces of streams that were under way, packs, catalogs.
pub const SLACK_BYTES: u64 = 6 << 20;

/// A count: what the variable says, else the full one where `CEDE_SHAKE` is set.
pub fn count(variable: &str, usual: u64, full: u64) -> u64 {
    let asked = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("CEDE_SHAKE").is_some() { full } else { usual })
}

/// What chooses the moments.
pub fn seed() -> u64 {
    std::env::var("CEDE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_102)
}

/// How large the tree is and how much of it is written anew before each move.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Files.
    pub files: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// Every how many of them is written anew.
    pub every: usize,
}

/// A session with a conversation and a tree, and two devices that it moves between.
#[derive(Debug)]
pub struct Shaken {
    /// The devices.
    pub devices: Devices,
    /// The session.
    pub planted: Planted,
    /// Where chance comes from.
    pub numbers: Numbers,
    /// The owner is the first device.
    pub at_a: bool,
    /// What happened so far.
    pub sums: Sums,
    shape: Shape,
    turns: usize,
}

/// What happened in all moves.
#[derive(Debug, Default)]
pub struct Sums {
    /// Moves that went through, whatever hit them.
    pub completed: u64,
    /// Moves that were plainly given up and repeated.
    pub abandoned: u64,
    /// Bytes.
    pub sent: u64,
    /// Bytes that needed not be sent.
    pub present: u64,
    /// Of the watcher.
    pub looks: u64,
    /// The last phase before the blow, and how often.
    pub moments: BTreeMap<String, u64>,
    /// The longest move, with its recovery.
    pub slowest: Duration,
}

/// What a move must not lose.
#[derive(Debug, PartialEq, Eq)]
pub struct Evidence {
    tree: BTreeMap<String, String>,
    conversation: Option<Vec<u8>>,
}

impl Evidence {
    /// What differs, in few words.
    fn unlike(&self, other: &Self) -> String {
        let length = |one: &Self| one.conversation.as_ref().map(Vec::len);
        let names = self.tree.keys().chain(other.tree.keys());
        let parts: Vec<_> = names.filter(|name| self.tree.get(*name) != other.tree.get(*name)).collect();
        format!("a conversation of {:?} and {:?} bytes, {parts:?}", length(self), length(other))
    }
}

impl Shaken {
    /// Two friends of this program, and the session at the first of them.
    pub fn new(program: &str, shape: Shape, seed: u64) -> Self {
        Self::of(Devices::friends(program), shape, seed)
    }

    /// The same between devices that stand already.
    pub fn of(devices: Devices, shape: Shape, seed: u64) -> Self {
        let tree = devices.a.home.join("project");
        trees::large(&tree, shape.files, shape.bytes, seed);
        let planted = claude::plant(&devices.a.home, &tree, 40);
        let (numbers, sums) = (Numbers(seed), Sums::default());
        Self { devices, planted, numbers, at_a: true, sums, shape, turns: 40 }
    }

    /// The device that has the session.
    pub fn owner(&self) -> &Device {
        if self.at_a { &self.devices.a } else { &self.devices.b }
    }

    /// The device that has not.
    pub fn other(&self) -> &Device {
        if self.at_a { &self.devices.b } else { &self.devices.a }
    }

    fn tree(device: &Device) -> PathBuf {
        device.home.join("project")
    }

    /// The person works: half of the files, one turn. Bytes that changed.
    pub fn work(&mut self) -> u64 {
        let tree = Self::tree(self.owner());
        let changed = trees::change(&tree, self.shape.every, self.numbers.next());
        claude::add_turn(&self.owner().home, &self.planted, &tree, self.turns);
        self.turns += 1;
        changed
    }

    /// What a person would ask the owner.
    pub fn request(&self) -> MoveRequest {
        MoveRequest { carry_only: true, ..request(&self.other().name, self.planted.id) }
    }

    /// What must not be lost.
    pub fn evidence(&self, device: &Device) -> Evidence {
        let tree = trees::evidence(&Self::tree(device));
        Evidence { tree, conversation: claude::resumable(&device.home, &self.planted) }
    }

    /// Starts to look at both all the time.
    pub fn watch(&self) -> Watcher {
        let place = |device: &Device| (device.name.clone(), device.socket());
        Watcher::start(self.planted.id, vec![place(&self.devices.a), place(&self.devices.b)])
    }

    /// Starts a move; what its client saw comes when it ended or its daemon did.
    pub fn begin(&self) -> (std::thread::JoinHandle<Client>, Receiver<Phase>) {
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
                    ReplyBody::Done(_)
                    | ReplyBody::Planned(_)
                    | ReplyBody::Pairing(_)
                    | ReplyBody::Sending(_)
                    | ReplyBody::Terminal(_)
                    | ReplyBody::Task(_)
                    | ReplyBody::Telling(_) => {}
                }
            }
            client
        });
        (client, phases)
    }

    /// Waits until nothing moves and the devices agree; whether the session stands at the other one.
    pub fn settle(&self) -> bool {
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
    pub fn judge(&mut self, before: &Evidence, changed: u64, moment: &str) {
        let moved = self.settle();
        *self.sums.moments.entry(moment.to_owned()).or_default() += 1;
        if moved {
            self.sums.completed += 1;
        } else {
            self.sums.abandoned += 1;
            self.fence_comes_down();
            assert!(self.evidence(self.owner()) == *before, "the source was touched, {moment}");
            let kept = trees::bytes_below(&self.other().state().join("stages"));
            let report =
                self.owner().move_with(self.request()).unwrap_or_else(|failure| panic!("{moment}: {failure:?}"));
            self.add(&report);
            let most = (changed + SLACK_BYTES).saturating_sub(kept);
            assert!(report.bytes_sent <= most, "{moment}: {} sent, {changed} changed, {kept} kept", report.bytes_sent);
            assert!(self.settle());
        }
        let there = self.evidence(self.other());
        assert!(there == *before, "not all of it is there, {moment}: {}", before.unlike(&there));
        assert_eq!(claude::resumable(&self.owner().home, &self.planted), None, "the source is fenced, {moment}");
        self.at_a = !self.at_a;
    }

    fn fence_comes_down(&self) {
        let home = &self.owner().home;
        wait_until("the fence comes down", || claude::resumable(home, &self.planted).is_some());
    }

    pub fn add(&mut self, report: &MoveReport) {
        self.sums.sent += report.bytes_sent;
        self.sums.present += report.bytes_present;
    }

    /// After two quiet moves no staging, arrival or chunk of all the attempts is left, and one catalog.
    pub fn leaves_nothing(&mut self) {
        self.undisturbed();
        self.undisturbed();
        for device in [&self.devices.a, &self.devices.b] {
            let left = || {
                let home = trees::names(&device.home).into_iter().filter(|name| name.starts_with(".cede-"));
                let state = ["arrivals", "stages"].map(|part| trees::names(&device.state().join(part)));
                home.chain(state.concat()).collect::<Vec<_>>()
            };
            let until = Instant::now() + PATIENCE;
            while !left().is_empty() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(left(), [""; 0], "left at {}:\n{}", device.name, device.log());
            let catalogs = || trees::names(&device.state().join("objects")).len();
            wait_until(&format!("one catalog is kept at {}", device.name), || catalogs() == 1);
        }
    }

    /// One move that nobody disturbs: how long it takes.
    pub fn undisturbed(&mut self) -> Duration {
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

/// What the client of a move saw.
#[derive(Debug, Default)]
pub struct Client {
    /// The last one that it was told.
    pub phase: Option<Phase>,
    /// The end, where it went well.
    pub report: Option<MoveReport>,
    /// The end, where it did not; neither where the daemon went away.
    pub failure: Option<Failure>,
}

/// Who is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The owner.
    Source,
    /// The other one.
    Destination,
    /// At the same time.
    Both,
}

impl Shaken {
    /// Kills, waits a while and starts again.
    pub fn hit(&mut self, victim: Victim) {
        for device in self.victims(victim) {
            device.kill();
        }
        std::thread::sleep(Duration::from_millis(self.numbers.below(400)));
        for device in self.victims(victim) {
            device.start();
        }
    }

    /// Whom a blow means.
    pub fn victims(&mut self, victim: Victim) -> Vec<&mut Device> {
        let Devices { a, b, .. } = &mut self.devices;
        let (owner, other) = if self.at_a { (a, b) } else { (b, a) };
        match victim {
            Victim::Source => vec![owner],
            Victim::Destination => vec![other],
            Victim::Both => vec![owner, other],
        }
    }
}

/// When the blow falls: at any time, or a moment after a phase was seen.
#[derive(Debug)]
pub enum Blow {
    /// So long after the move was asked for.
    At(Duration),
    /// So long after a phase was seen.
    After(Phase, Duration),
}

impl Blow {
    /// The short phases would seldom be met by chance, so half of the blows aim at one.
    pub fn choose(numbers: &mut Numbers, usual: Duration) -> Self {
        let phases = [Phase::Offered, Phase::Transferring, Phase::Transferring, Phase::Staged, Phase::Released];
        let any = usual.mul_f64(numbers.below(1_100) as f64 / 1_000.0);
        let moment = Duration::from_micros(numbers.below(60_000));
        let phase = phases[numbers.below(phases.len() as u64) as usize];
        if numbers.below(2) == 0 { Self::At(any) } else { Self::After(phase, moment) }
    }

    /// Waits for it.
    pub fn wait_for(&self, phases: &Receiver<Phase>) {
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
