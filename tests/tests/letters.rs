//! What devices tell each other, in any weather: nothing missing, nothing doubled, no word that is not true.

use cede_tests::mail::{Mail, Scale, Tally, Weather};

/// The weather of the goal: 30 of 100 frames lost, 20 doubled, all in any order, and the power fails now and then.
const ROUGH: Weather = Weather { lose: 300, double: 200, crash: 5 };

fn seed() -> Option<u64> {
    std::env::var("CEDE_SEED").ok().map(|text| text.parse().expect("a whole number"))
}

fn long() -> bool {
    std::env::var_os("CEDE_SHAKE").is_some()
}

/// Shows: M-1, M-2, M-3, M-4, M-5, M-6, M-10
#[test]
fn no_storm_loses_or_doubles_a_letter_or_says_what_is_not_so() {
    let seeds = if let Some(seed) = seed() { seed..seed + 1 } else { 0..if long() { 5_000 } else { 150 } };
    let mut total = Tally::default();
    for seed in seeds.clone() {
        let weather = Weather { crash: seed % 40, ..ROUGH };
        let scale = Scale { devices: 2 + (seed % 3) as u8, letters: 80, restarts: 4, sessions: 2, short_lives: true };
        let tally = Mail::new(seed, weather, scale).run();
        assert_eq!(tally.missing, 0, "seed {seed}: {tally:?}");
        total.told += tally.told;
        total.acted += tally.acted;
        total.refused += tally.refused;
        total.expired += tally.expired;
        total.passed_on += tally.passed_on;
        total.restarts += tally.restarts;
        total.mangled += tally.mangled;
    }
    println!("{} seeds: {total:?}", seeds.clone().count());
    if seeds.clone().count() > 1 {
        // A simulator in which nothing happens shows nothing.
        assert!(total.expired > 100 && total.refused > 100 && total.passed_on > 100, "{total:?}");
        assert!(total.restarts > 500 && total.mangled > 1_000, "{total:?}");
    }
}

/// The goal G13, and its short form.
///
/// Shows: M-3, M-5
#[test]
fn letters_through_many_restarts_are_neither_missing_nor_doubled() {
    let letters = if long() { 100_000 } else { 3_000 };
    let scale = Scale { devices: 2, letters, restarts: 100, sessions: 0, short_lives: false };
    let tally = Mail::new(seed().unwrap_or(13), Weather { crash: 0, ..ROUGH }, scale).run();
    println!("{tally:?}");
    assert_eq!((tally.missing, tally.expired), (0, 0), "{tally:?}");
    assert_eq!(tally.acted + tally.refused, tally.told);
    assert!(tally.told >= letters && tally.restarts >= 100, "{tally:?}");
}
