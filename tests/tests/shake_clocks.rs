//! Two real daemons whose clocks are set forward and back, each by itself, at any moment of a move.
//!
//! The time of day comes from Debian's `libfaketime`, which reads a file again and again; the clock that only goes forward
//! is left alone, as it is on a machine whose time is set. `CEDE_CLOCKS` says how many moves, `CEDE_SEED` when and how far.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cede_tests::devices::{Device, Devices};
use cede_tests::shaken::{Shaken, Shape, Victim, count, seed};
use cede_wire::control::{Answer, Command};

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
const SHAPE: Shape = Shape { files: 20, bytes: 20 << 10, every: 2 };
/// How far a clock is set, in seconds: sleep, summer time, a flat battery, a wrong year.
const JUMPS: [i64; 9] = [-1, 5, -3_600, 3_600, -90_000, 90_000, -700_000_000, 700_000_000, 0];

/// The library where Debian puts it.
fn library() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").ok()?;
    let libraries = places.flatten().map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
    libraries.into_iter().find(|library| library.exists())
}

fn file(device: &Device) -> PathBuf {
    device.home.with_file_name("clock")
}

fn set(device: &Device, seconds: i64) {
    // Read at any moment: never half of it.
    let new = device.home.with_file_name("clock.new");
    std::fs::write(&new, format!("{seconds:+}s\n")).unwrap();
    std::fs::rename(&new, file(device)).unwrap();
}

fn with_clock(device: &mut Device, library: &Path) {
    set(device, 0);
    let clock = file(device).into_os_string();
    let pairs = [
        ("LD_PRELOAD", library.as_os_str().to_owned()),
        ("FAKETIME_TIMESTAMP_FILE", clock),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("NO_FAKE_STAT", "1".into()),
        ("FAKE_UTIME", "0".into()),
    ];
    device.variables.extend(pairs.map(|(name, value)| (name.into(), value)));
}

/// What the device itself takes for the time of day, in seconds: the time of the last line of its log.
fn day(device: &Device) -> u64 {
    let Answer::Log { lines, .. } = device.ask(Command::Log { tail: Some(1), verify: false }).unwrap() else {
        panic!("no log")
    };
    lines.last().unwrap().at_unix_ms / 1_000
}

/// Shows: H-7, H-10, H-16
#[test]
fn clock_that_is_set_during_a_move_changes_no_owner() {
    let Some(library) = library() else {
        println!("skipped: no libfaketime here; install it with: apt-get install libfaketime");
        return;
    };
    let (seed, moves, begun) = (seed(), count("CEDE_CLOCKS", 6, 200), Instant::now());
    let devices = Devices::with(CEDE, &|device| with_clock(device, &library)).joined().trusting();
    let usual = day(&devices.a);
    set(&devices.a, 700_000_000);
    devices.a.say_yes_to("server");
    assert!(day(&devices.a) > usual + 600_000_000, "the clock is not the one that the file says");
    let mut shaken = Shaken::of(devices, SHAPE, seed);
    shaken.undisturbed();
    for number in 0..moves {
        let changed = shaken.work();
        let before = shaken.evidence(shaken.owner());
        let watcher = shaken.watch();
        let (client, _phases) = shaken.begin();
        for _ in 0..1 + shaken.numbers.below(3) {
            let moment = Duration::from_millis(shaken.numbers.below(250));
            std::thread::sleep(moment);
            let jump = JUMPS[usize::try_from(shaken.numbers.below(9)).unwrap()];
            let victim = [Victim::Source, Victim::Destination][usize::try_from(shaken.numbers.below(2)).unwrap()];
            set(shaken.victims(victim)[0], jump);
        }
        // A set clock alone is no reason to give a move up; a kill is.
        let what = if shaken.numbers.below(4) == 0 {
            shaken.hit(Victim::Both);
            "killed"
        } else {
            "running"
        };
        let client = client.join().unwrap();
        let acknowledged = client.report.is_some();
        let completed = shaken.sums.completed;
        assert!(what == "killed" || acknowledged, "move {number}: {:?}", client.failure);
        shaken.judge(&before, changed, what);
        assert!(
            !acknowledged || shaken.sums.completed > completed,
            "a move that was reported is undone, move {number}"
        );
        let seen = watcher.end();
        shaken.sums.looks += seen.looks;
        assert_eq!(seen.wrong, [""; 0], "move {number} of seed {seed}");
    }
    shaken.leaves_nothing();
    println!("{moves} moves with seed {seed} in {} s: {:?}", begun.elapsed().as_secs(), shaken.sums);
}
