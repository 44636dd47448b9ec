//! Two real daemons under kill -9 and cut lines, at moments that a seed chooses.
//!
//! `CEDE_SHAKE` sets the full counts, `CEDE_SEED` the moments, `CEDE_KILLS` and `CEDE_CUTS` other counts, `CEDE_PROGRAM`
//! another build.

use std::time::{Duration, Instant};

use cede_tests::proxy::Proxy;
use cede_tests::shaken::{Blow, SLACK_BYTES, Shaken, Shape, Victim, count, seed};

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");

/// The program that was built beside the tests, or another build of it.
fn program() -> String {
    std::env::var("CEDE_PROGRAM").unwrap_or_else(|_| CEDE.to_owned())
}

/// 24 MiB at full counts, half of it written anew before each move. A quarter of the files otherwise.
fn shape() -> Shape {
    let files = usize::try_from(count("CEDE_FILES", 500, 2_000)).unwrap();
    Shape { files, bytes: 12 << 10, every: 2 }
}

/// One move with its blow, and sometimes a second one while the first is being recovered from.
fn struck(shaken: &mut Shaken, kill: u64, usual: Duration) {
    let changed = shaken.work();
    let before = shaken.evidence(shaken.owner());
    let watcher = shaken.watch();
    let all = [Victim::Source, Victim::Source, Victim::Destination, Victim::Destination, Victim::Both];
    let victim = all[usize::try_from(shaken.numbers.below(5)).unwrap()];
    let blow = Blow::choose(&mut shaken.numbers, usual);
    let started = Instant::now();
    let (client, phases) = shaken.begin();
    blow.wait_for(&phases);
    let at = started.elapsed();
    shaken.hit(victim);
    let again = shaken.numbers.below(4) == 0;
    if again {
        std::thread::sleep(Duration::from_millis(shaken.numbers.below(500)));
        shaken.hit(victim);
    }
    // Where the source lives on, its client waits through the destination's death.
    let client = client.join().unwrap();
    if let Some(report) = &client.report {
        shaken.add(report);
    }
    let moment = match victim {
        Victim::Source | Victim::Both => format!("{victim:?} in {:?}", client.phase),
        Victim::Destination => format!("{victim:?}, then {:?}", client.phase),
    };
    shaken.judge(&before, changed, &moment);
    let seen = watcher.end();
    shaken.sums.looks += seen.looks;
    assert_eq!(seen.wrong, [""; 0], "kill {kill}: {moment}");
    let took = started.elapsed();
    shaken.sums.slowest = shaken.sums.slowest.max(took);
    let twice = if again { ", twice" } else { "" };
    println!("{kill}: {moment} at {} ms{twice}, {} ms in all", at.as_millis(), took.as_millis());
}

/// Shows: H-6, H-7, H-10, H-21, H-24, J-1, T-9
#[test]
fn killed_at_random_moments_has_one_owner_and_loses_nothing() {
    let (seed, kills) = (seed(), count("CEDE_KILLS", 6, 200));
    println!("seed {seed}");
    let begun = Instant::now();
    let mut shaken = Shaken::new(&program(), shape(), seed);
    shaken.undisturbed();
    let usual = shaken.undisturbed();
    for kill in 0..kills {
        struck(&mut shaken, kill, usual);
    }
    shaken.leaves_nothing();
    println!("{kills} kills with seed {seed} in {} s: {:?}", begun.elapsed().as_secs(), shaken.sums);
}

/// Shows: C-4, H-16, H-21, T-9
#[test]
fn line_cut_at_random_moments_costs_time_and_nothing_else() {
    let (seed, cuts) = (seed(), count("CEDE_CUTS", 4, 50));
    let begun = Instant::now();
    let mut shaken = Shaken::new(&program(), shape(), seed);
    let doors = [Proxy::to(&shaken.devices.a.address), Proxy::to(&shaken.devices.b.address)];
    shaken.devices.meet_through([&doors[0], &doors[1]].map(|door| door.address.to_string()));
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
