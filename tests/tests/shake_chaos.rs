//! Two real daemons on a bad line: datagrams are lost, doubled and late, addresses change, and a daemon is stopped for a
//! while or killed.
//!
//! `CEDE_CHAOS` says how many moves, `CEDE_SEED` what happens to them.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use cede_tests::devices::signal;
use cede_tests::proxy::{Proxy, Weather};
use cede_tests::shaken::{Shaken, Shape, Victim, count, seed};

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
const SHAPE: Shape = Shape { files: 30, bytes: 20 << 10, every: 2 };

/// What befalls one move besides the weather.
fn befall(shaken: &mut Shaken, doors: &[Proxy; 2]) -> &'static str {
    let moment = Duration::from_millis(shaken.numbers.below(400));
    std::thread::sleep(moment);
    let victim = [Victim::Source, Victim::Destination][usize::try_from(shaken.numbers.below(2)).unwrap()];
    match shaken.numbers.below(6) {
        0 => {
            shaken.hit(victim);
            "killed"
        }
        1 | 2 => {
            let pid = shaken.victims(victim)[0].pid();
            let pause = Duration::from_millis(100 + shaken.numbers.below(3_000));
            signal(pid, "STOP");
            std::thread::sleep(pause);
            signal(pid, "CONT");
            "stopped for a while"
        }
        3 => {
            doors.iter().for_each(Proxy::rebind);
            "another address"
        }
        _ => "nothing",
    }
}

/// Shows: C-4, H-6, H-7, H-10, H-16, H-21
#[test]
fn bad_line_and_sudden_pauses_leave_one_owner_with_everything() {
    let (seed, moves, begun) = (seed(), count("CEDE_CHAOS", 5, 500), Instant::now());
    let mut shaken = Shaken::new(CEDE, SHAPE, seed);
    let doors = [Proxy::to(&shaken.devices.a.address), Proxy::to(&shaken.devices.b.address)];
    shaken.devices.meet_through([&doors[0], &doors[1]].map(|door| door.address.to_string()));
    for number in 0..moves {
        let weather = Weather {
            lose: shaken.numbers.below(120),
            double: shaken.numbers.below(100),
            late: shaken.numbers.below(150),
        };
        doors.iter().zip(1..).for_each(|(door, of)| door.weather(weather, seed ^ (number * 2 + of)));
        let changed = shaken.work();
        let before = shaken.evidence(shaken.owner());
        let watcher = shaken.watch();
        let (client, _phases) = shaken.begin();
        let what = befall(&mut shaken, &doors);
        let client = client.join().unwrap();
        if let Some(report) = &client.report {
            shaken.add(report);
        }
        shaken.judge(&before, changed, what);
        let seen = watcher.end();
        shaken.sums.looks += seen.looks;
        assert_eq!(seen.wrong, [""; 0], "move {number} of seed {seed}: {what} in {weather:?}");
    }
    doors.iter().for_each(|door| door.weather(Weather::default(), 1));
    shaken.leaves_nothing();
    let counts: Vec<_> = doors.iter().map(Proxy::counts).collect();
    println!("{moves} moves with seed {seed} in {} s: {:?}, {counts:?}", begun.elapsed().as_secs(), shaken.sums);
}
