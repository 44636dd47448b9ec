//! Many real daemons that all tell each other messages while one after the other is killed and started again.
//!
//! `CEDE_MESH` says how many daemons, `CEDE_MESSAGES` how many messages, `CEDE_SEED` what is told to whom and who dies.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cede_tests::devices::trees::Numbers;
use cede_tests::devices::{Device, open, pair, wait_until};
use cede_tests::shaken::{count, seed};
use cede_wire::control::{Answer, Command, Failure, LetterSummary, TellRequest, TellUntil};

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
/// How long the last of them may take once all are told.
const LONGEST: Duration = Duration::from_secs(120);

/// A device as its clients see it, whether its daemon runs or not.
#[derive(Clone)]
struct Place {
    name: String,
    socket: PathBuf,
}

impl Place {
    /// None: the daemon is not there, or went away before it answered.
    fn ask(&self, command: Command) -> Option<Result<Answer, Failure>> {
        open(&self.socket, command).ok()?.end(&mut |_| {})
    }
}

/// What was told: surely, where the daemon said so.
#[derive(Default)]
struct Told(BTreeMap<String, bool>);

/// Starts the mesh; each knows where the others are.
fn mesh(root: &Path, size: u64) -> Vec<Device> {
    let mut devices: Vec<Device> =
        (0..size).map(|number| Device::new(root, Path::new(CEDE), &format!("device{number}"))).collect();
    devices.iter_mut().for_each(Device::start);
    for other in &devices[1..] {
        pair(&devices[0], other);
    }
    for device in &devices {
        wait_until("each knows all members", || device.status().peers.len() as u64 == size - 1);
        for other in devices.iter().filter(|other| other.name != device.name) {
            let address = other.address.clone();
            device.ask(Command::Address { device: other.name.clone(), address }).unwrap();
        }
    }
    wait_until("all see each other", || devices.iter().all(|device| linked(device) == size - 1));
    devices
}

fn linked(device: &Device) -> u64 {
    let status = device.try_status();
    status.map_or(0, |status| status.peers.iter().filter(|peer| peer.connected).count() as u64)
}

/// Tells its share to the others; each text is unlike every other.
fn tell(places: &[Place], me: usize, share: u64, seed: u64) -> Told {
    let (mut told, mut numbers) = (Told::default(), Numbers(seed ^ me as u64));
    for number in 0..share {
        let step = 1 + numbers.below(places.len() as u64 - 1);
        let to = &places[(me + usize::try_from(step).unwrap()) % places.len()];
        let text = format!("{} to {}, {number}", places[me].name, to.name);
        let request = TellRequest {
            device: to.name.clone(),
            text: text.clone(),
            until: TellUntil::Queued,
            ..TellRequest::default()
        };
        loop {
            match places[me].ask(Command::Tell(request.clone())) {
                Some(Ok(_)) => {
                    told.0.insert(text, true);
                    break;
                }
                // Nothing of it was taken, and it says so.
                Some(Err(failure)) if failure.exit == cede_wire::control::exit::PENDING => {
                    std::thread::sleep(Duration::from_millis(200));
                }
                Some(Err(failure)) => panic!("{text}: {failure:?}"),
                // It may have been taken: it is not told again.
                None => {
                    told.0.insert(text, false);
                    std::thread::sleep(Duration::from_millis(50));
                    break;
                }
            }
        }
    }
    told
}

/// Every text that came, with the ids under which it did.
type Came = Mutex<BTreeMap<String, BTreeSet<String>>>;

/// Reads what comes and deals with it, until told to stop and nothing is left.
fn read(place: &Place, stop: &AtomicBool, came: &Came) {
    loop {
        let over = stop.load(Ordering::Relaxed);
        let letters = match place.ask(Command::Inbox { sent: false, all: false }) {
            Some(Ok(Answer::Inbox { letters, .. })) => letters,
            _ => Vec::new(),
        };
        if letters.is_empty() {
            if over {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        for LetterSummary { id, begins, .. } in letters {
            came.lock().unwrap().entry(begins).or_default().insert(id.clone());
            // One that is not marked because its daemon died is listed again under its id.
            let _marked = place.ask(Command::MarkLetter { id, acted: true });
        }
    }
}

/// Resident memory of a process, in MiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() >> 10
}

/// Shows: M-3, M-4, M-5, C-4
#[test]
fn messages_among_many_daemons_that_die_are_neither_missing_nor_doubled() {
    let long = std::env::var_os("CEDE_SHAKE").is_some();
    let (size, messages, seed) = (count("CEDE_MESH", 3, 16), count("CEDE_MESSAGES", 150, 100_000), seed());
    let root = tempfile::Builder::new().prefix("cede-").tempdir().unwrap();
    let begun = Instant::now();
    let mut devices = mesh(root.path(), size);
    println!("{size} daemons, {} links, after {} s", size * (size - 1) / 2, begun.elapsed().as_secs());
    let place = |device: &Device| Place { name: device.name.clone(), socket: device.socket() };
    let places: Vec<Place> = devices.iter().map(place).collect();
    let (stop, came) = (AtomicBool::new(false), Came::default());
    let (told, kills) = std::thread::scope(|scope| {
        let (places, stop, came) = (&places, &stop, &came);
        let share = messages.div_ceil(size);
        let tellers: Vec<_> = (0..places.len()).map(|me| scope.spawn(move || tell(places, me, share, seed))).collect();
        places.iter().for_each(|place| drop(scope.spawn(move || read(place, stop, came))));
        let (mut numbers, mut kills) = (Numbers(seed), 0);
        while tellers.iter().any(|teller| !teller.is_finished()) {
            std::thread::sleep(Duration::from_millis(if long { 2_000 } else { 300 }));
            let victim = usize::try_from(numbers.below(size)).unwrap();
            devices[victim].kill();
            std::thread::sleep(Duration::from_millis(numbers.below(300)));
            devices[victim].start();
            kills += 1;
        }
        let mut told = Told::default();
        tellers.into_iter().for_each(|teller| told.0.extend(teller.join().unwrap().0));
        let all_came = || {
            let came = came.lock().unwrap();
            told.0.iter().all(|(text, sure)| !sure || came.contains_key(text))
        };
        let until = Instant::now() + LONGEST;
        while !all_came() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        // What came twice would come soon.
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        (told, kills)
    });
    let all = came.into_inner().unwrap();
    let missing: Vec<&String> =
        told.0.iter().filter(|(text, sure)| **sure && !all.contains_key(*text)).map(|(text, _)| text).collect();
    let doubled: Vec<_> = all.iter().filter(|(_, ids)| ids.len() != 1).collect();
    let strange: Vec<_> = all.keys().filter(|text| !told.0.contains_key(*text)).collect();
    let memory: Vec<u64> = devices.iter().map(|device| resident(device.pid())).collect();
    println!(
        "{} told, {} of them surely, {} came, {kills} kills with seed {seed} in {} s; at most {} MiB a daemon",
        told.0.len(),
        told.0.values().filter(|sure| **sure).count(),
        all.len(),
        begun.elapsed().as_secs(),
        memory.iter().max().unwrap()
    );
    assert!(missing.is_empty(), "missing: {} {:?}", missing.len(), &missing[..missing.len().min(5)]);
    assert!(doubled.is_empty(), "doubled: {doubled:?}");
    assert!(strange.is_empty(), "never told: {strange:?}");
    for device in &devices {
        assert!(!device.log().contains("panicked at"), "{} panicked:\n{}", device.name, device.log());
    }
}
