//! Every reader, fed with its corpus and with what chance makes of it.
//!
//! The short form takes seconds. `CEDE_SHAKE=<seed>` makes a million inputs for each reader, `CEDE_FUZZ=<name>` only for
//! that one. A failure prints the seed and the number of the input, and keeps the input in a file: it belongs into the
//! corpus. `CEDE_CORPUS=add` writes the inputs that a corpus begins with where they are missing.

use std::alloc::System;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cede_tests::fuzz::{TARGETS, Target, names, seeds};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Inputs for each reader in the long form.
const LONG: u64 = 1_000_000;
/// Time for each reader in the short form.
const SHORT: Duration = Duration::from_millis(400);
/// What reading may take from memory in all: readers of JSON keep a few dozen bytes for each of the input.
const MEMORY_BYTES: usize = 8 << 20;
const MEMORY_PER_BYTE: usize = 1_000;

/// The counters are one for the whole program, so tests of this file take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Shows: C-4, C-5, S-6, S-7, J-4, J-5, T-4
#[test]
fn corpus_holds_in_bounded_memory() {
    let _turn = TURN.lock();
    let mut count = 0;
    for target in TARGETS {
        let corpus = target.corpus();
        assert!(!corpus.is_empty(), "{}: no corpus", target.name);
        for (name, input) in corpus {
            // What is made once and kept does not count.
            let first = target.holds(&input);
            let region = Region::new(ALLOCATOR);
            let held = first.and_then(|()| target.holds(&input));
            held.unwrap_or_else(|why| panic!("{} {name}: {why}", target.name));
            let allocated = region.change().bytes_allocated;
            let most = MEMORY_BYTES + MEMORY_PER_BYTE * input.len();
            assert!(allocated <= most, "{} {name}: {allocated} bytes of memory for {}", target.name, input.len());
            count += 1;
        }
    }
    println!("corpus: {count} inputs of {} readers", TARGETS.len());
}

#[test]
fn readers_hold_whatever_they_are_given() {
    let _turn = TURN.lock();
    assert_eq!(names().len(), TARGETS.len(), "two readers have one name");
    let long = std::env::var("CEDE_SHAKE").ok().and_then(|seed| seed.parse().ok());
    let seed = long.unwrap_or(1);
    let only = std::env::var("CEDE_FUZZ").ok();
    let (mut total, mut crashes) = (0, Vec::new());
    for target in TARGETS.iter().filter(|target| only.as_deref().is_none_or(|only| only == target.name)) {
        let begun = Instant::now();
        let (ran, crash) = run(target, seed, long.is_some());
        let (found, seconds) = (crash.iter().count(), begun.elapsed().as_secs_f32());
        println!("{:>18}: {ran} inputs, {found} crashes, seed {seed}, {seconds:.1} s", target.name);
        total += ran;
        crashes.extend(crash);
    }
    println!("fuzz: {total} inputs, {} crashes", crashes.len());
    assert!(total > 0, "no reader is called {only:?}");
    assert!(crashes.is_empty(), "{}", crashes.join("\n"));
}

/// Runs inputs until there were enough, or one does not hold: how many ran, and what is to be said of that one.
fn run(target: &Target, seed: u64, long: bool) -> (u64, Option<String>) {
    let corpus: Vec<Vec<u8>> = target.corpus().into_iter().map(|(_, input)| input).collect();
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let until = Instant::now() + SHORT;
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let work = || {
        while failed.lock().unwrap().is_none() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if if long { at >= LONG } else { Instant::now() >= until } {
                return;
            }
            let input = target.changed(&corpus, seed, at);
            if let Err(why) = target.holds(&input) {
                failed.lock().unwrap().get_or_insert((at, input, why));
            }
        }
    };
    let threads = if long { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    std::panic::set_hook(quiet);
    let crash = failed.into_inner().unwrap().map(|(at, input, why): (u64, Vec<u8>, String)| {
        let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{seed}-{at}", target.name));
        std::fs::write(&kept, &input).unwrap();
        let shown = input.escape_ascii().to_string().chars().take(2_000).collect::<String>();
        format!("{}: seed {seed}, input {at}, kept in {}: {why}\n{shown}", target.name, kept.display())
    });
    (next.into_inner().saturating_sub(threads as u64), crash)
}

#[test]
fn corpora_begin_with_what_the_program_writes() {
    let _turn = TURN.lock();
    let add = std::env::var("CEDE_CORPUS").as_deref() == Ok("add");
    for target in TARGETS {
        let corpus = target.corpus();
        let begins = if add { seeds::of(target.name) } else { Vec::new() };
        for (name, input) in begins.into_iter().filter(|(name, _)| !corpus.iter().any(|(there, _)| there == name)) {
            std::fs::create_dir_all(target.directory()).unwrap();
            std::fs::write(target.directory().join(name), input).unwrap();
        }
        assert!(
            !target.corpus().is_empty(),
            "{}: no corpus; type: CEDE_CORPUS=add cargo test -p cede-tests --test fuzz",
            target.name
        );
    }
}
