//! Two real daemons, one of them struck at each system call of a move: killed there, or the call fails.
//!
//! Every call with an effect is a point, counted over all threads of the daemon from the moment in which the move is asked
//! for; `CEDE_SHAKE` takes all of them, otherwise a few that `CEDE_SEED` chooses; `CEDE_POINTS` says how many. `CEDE_VICTIM`
//! takes `source` or `destination` alone, and `CEDE_FROM` goes on with that point.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cede_tests::devices::trees::Numbers;
use cede_tests::shaken::{Shaken, Shape, Victim, count, seed};
use cede_tests::tracer::{OF_BYTES, OF_FILES, Strike, Tracer, WITH_EFFECT};
use nix::errno::Errno;

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
const SHAPE: Shape = Shape { files: 8, bytes: 20 << 10, every: 3 };
const BOTH: [Victim; 2] = [Victim::Source, Victim::Destination];

struct Sweep {
    shaken: Shaken,
    points: Numbers,
    struck: u64,
    ends: BTreeMap<String, u64>,
}

/// One move in which `victim` is struck. Calls that the victim made until it was stopped.
fn stricken(sweep: &mut Sweep, victim: Victim, calls: &'static [i64], nth: u64, strike: Strike) -> Result<u64, Errno> {
    let shaken = &mut sweep.shaken;
    let changed = shaken.work();
    let before = shaken.evidence(shaken.owner());
    let watcher = shaken.watch();
    let pid = shaken.victims(victim)[0].pid();
    let tracer = Tracer::strike(pid, calls, nth, strike)?;
    let (client, _phases) = shaken.begin();
    // A source that is killed takes its client along; a destination that is killed must come back for it.
    let until = Instant::now() + Duration::from_secs(60);
    let mut struck = false;
    while !client.is_finished() && Instant::now() < until {
        struck |= tracer.has_struck();
        if tracer.is_over() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    struck |= tracer.has_struck();
    sweep.struck += u64::from(struck);
    let made = tracer.end();
    let device = &mut shaken.victims(victim)[0];
    device.kill();
    device.start();
    let client = client.join().unwrap();
    if let Some(failure) = &client.failure {
        let said = !failure.what.is_empty() && !failure.why.is_empty();
        assert!(said && !failure.why.contains("panicked"), "call {nth}, {strike:?}: {failure:?}");
    }
    let end = match (&client.report, &client.failure) {
        (Some(_), _) => "moved".to_owned(),
        (_, Some(failure)) => failure.what.clone(),
        _ => "the daemon went away".to_owned(),
    };
    *sweep.ends.entry(end).or_default() += 1;
    let acknowledged = client.report.is_some();
    let completed = shaken.sums.completed;
    shaken.judge(&before, changed, &format!("{victim:?}, call {nth}, {strike:?}"));
    assert!(!acknowledged || shaken.sums.completed > completed, "a move that was reported is undone, call {nth}");
    let seen = watcher.end();
    shaken.sums.looks += seen.looks;
    assert_eq!(seen.wrong, [""; 0], "{victim:?}, call {nth}, {strike:?}");
    Ok(made)
}

/// All points of one kind, or a few of them.
fn sweep(victims: &[Victim], calls: &'static [i64], strikes: &[Strike], few: u64) {
    let (seed, begun) = (seed(), Instant::now());
    let shaken = Shaken::new(CEDE, SHAPE, seed);
    let mut sweep = Sweep { shaken, points: Numbers(seed), struck: 0, ends: BTreeMap::new() };
    sweep.shaken.undisturbed();
    sweep.shaken.undisturbed();
    let only = std::env::var("CEDE_VICTIM").unwrap_or_default();
    let wanted = |victim: &&Victim| only.is_empty() || format!("{victim:?}").eq_ignore_ascii_case(&only);
    for victim in victims.iter().filter(wanted).copied() {
        let total = match stricken(&mut sweep, victim, calls, 0, Strike::None) {
            Ok(total) => total,
            Err(error) => {
                println!("skipped: a process may not trace its child here: {error}");
                return;
            }
        };
        // A call that is made by the clock more than by the move may come later than last time.
        let points = count("CEDE_POINTS", few, total);
        println!("{victim:?}: {total} calls, {points} points");
        for point in count("CEDE_FROM", 1, 1)..=points {
            if point % 50 == 0 {
                println!("{victim:?}: point {point} after {} s", begun.elapsed().as_secs());
            }
            let nth = if points >= total { point } else { 1 + sweep.points.below(total) };
            let strike = strikes[usize::try_from(sweep.points.below(strikes.len() as u64)).unwrap()];
            stricken(&mut sweep, victim, calls, nth, strike).unwrap();
        }
    }
    sweep.shaken.leaves_nothing();
    for device in [&sweep.shaken.devices.a, &sweep.shaken.devices.b] {
        assert!(!device.log().contains("panicked at"), "{} panicked:\n{}", device.name, device.log());
    }
    let (sums, seconds) = (&sweep.shaken.sums, begun.elapsed().as_secs());
    println!(
        "{} strikes with seed {seed} in {seconds} s: {} moves completed, {} abandoned and repeated, {} looks, the client heard {:?}",
        sweep.struck, sums.completed, sums.abandoned, sums.looks, sweep.ends
    );
}

/// Shows: H-6, H-7, H-10, H-21, H-24, J-1
#[test]
fn killed_at_each_call_with_an_effect_has_one_owner_and_loses_nothing() {
    sweep(&BOTH, WITH_EFFECT, &[Strike::Kill], 5);
}

/// Shows: H-6, H-7, J-1, T-16
#[test]
fn call_that_fails_costs_at_most_the_move() {
    sweep(&BOTH, OF_FILES, &[Strike::Fail(Errno::EIO), Strike::Fail(Errno::ENOSPC)], 4);
}

/// A write that takes half and a call that a signal ends are no faults at all.
///
/// Shows: J-1
#[test]
fn short_write_is_continued() {
    sweep(&BOTH, OF_BYTES, &[Strike::Half], 2);
}
