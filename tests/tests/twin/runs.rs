//! The bounds that are checked.

use std::fmt;

/// Bounds of one run, as macros of the model, and what is asked.
pub struct Run {
    pub bounds: &'static str,
    pub asks: Asks,
}

pub enum Asks {
    /// The assertions, over every state there is.
    Everything,
    /// The assertions, over as many states as two bits for each let be remembered.
    Sampled,
    /// A formula, under weak fairness.
    Formula(&'static str),
}

impl Run {
    pub fn defines(&self) -> impl Iterator<Item = &str> {
        let live = matches!(self.asks, Asks::Formula(_)).then_some("-DLIVE");
        self.bounds.split_whitespace().chain(live)
    }

    pub fn compiler_flags(&self) -> Vec<&'static str> {
        let mut flags = match self.asks {
            Asks::Everything => vec!["-DSAFETY", "-DCOLLAPSE"],
            Asks::Sampled => vec!["-DSAFETY", "-DBITSTATE"],
            // The number is the room for the processes that fairness counts.
            Asks::Formula(_) => vec!["-DCOLLAPSE", "-DNFAIR=8"],
        };
        // Most runs take less time than the better code would cost.
        flags.push(if self.bounds.contains("MUTANT") || self.bounds.contains("REACH") { "-O0" } else { "-O2" });
        flags.push("-DMEMLIM=5500");
        flags
    }

    pub fn arguments(&self) -> Vec<&'static str> {
        match self.asks {
            Asks::Everything => vec!["-m1000000", "-E"],
            Asks::Sampled => vec!["-m1000000", "-w33", "-k3", "-E"],
            Asks::Formula(name) => vec!["-m1000000", "-a", "-f", "-N", name],
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = match self.asks {
            Asks::Everything => "all states",
            Asks::Sampled => "sampled",
            Asks::Formula(name) => name,
        };
        write!(f, "{} ({asked})", self.bounds)
    }
}

const fn all(bounds: &'static str) -> Run {
    Run { bounds, asks: Asks::Everything }
}

const fn sampled(bounds: &'static str) -> Run {
    Run { bounds, asks: Asks::Sampled }
}

const fn formula(bounds: &'static str, name: &'static str) -> Run {
    Run { bounds, asks: Asks::Formula(name) }
}

pub const WITHOUT_FAULT: [Run; 5] = [
    all("-DN=2 -DH=3 -DT=2"),
    all("-DN=3 -DH=2 -DT=2"),
    all("-DN=2 -DH=2 -DT=3 -DR=2"),
    all("-DN=2 -DH=2 -DT=3 -DG=2"),
    all("-DN=3 -DH=1 -DT=2 -DG=2"),
];

pub const WITHOUT_FAULT_LONG: [Run; 6] = [
    all("-DN=2 -DH=3 -DT=3"),
    all("-DN=2 -DH=3 -DT=3 -DR=2"),
    all("-DN=2 -DH=3 -DT=3 -DG=2"),
    all("-DN=3 -DH=2 -DT=2 -DG=2"),
    all("-DN=3 -DH=3 -DT=2"),
    sampled("-DN=2 -DH=4 -DT=3"),
];

pub const FAIR: [Run; 2] =
    [formula("-DN=2 -DH=2 -DT=1", "I6_someone_acts"), formula("-DN=2 -DH=2 -DT=1", "I6_all_settles")];

pub const FAIR_LONG: [Run; 6] = [
    formula("-DN=2 -DH=2 -DT=2", "I6_someone_acts"),
    formula("-DN=2 -DH=2 -DT=2", "I6_all_settles"),
    formula("-DN=2 -DH=2 -DT=2 -DG=2", "I6_someone_acts"),
    formula("-DN=2 -DH=2 -DT=2 -DG=2", "I6_all_settles"),
    formula("-DN=3 -DH=2 -DT=1", "I6_someone_acts"),
    formula("-DN=3 -DH=2 -DT=1", "I6_all_settles"),
];

pub const PLACES: [(Run, &str); 7] = [
    (all("-DREACH=1 -DN=2 -DH=2 -DT=2"), "the_place_was_reached"),
    (all("-DREACH=2 -DN=2 -DH=2 -DT=2"), "the_place_was_reached"),
    (all("-DREACH=3 -DN=2 -DH=2 -DT=2"), "the_place_was_reached"),
    (all("-DREACH=4 -DN=2 -DH=1 -DT=3 -DG=2"), "the_place_was_reached"),
    (all("-DREACH=5 -DN=2 -DH=2 -DT=3 -DG=2"), "the_place_was_reached"),
    (all("-DREACH=6 -DN=2 -DH=1 -DT=2 -DR=2"), "the_place_was_reached"),
    (all("-DREACH=7 -DN=3 -DH=2 -DT=2"), "the_place_was_reached"),
];

pub const PLANTED: [(Run, &str); 21] = [
    (all("-DMUTANT=1 -DN=2 -DH=1 -DT=2"), "I1_two_devices_act"),
    (all("-DMUTANT=2 -DN=2 -DH=2 -DT=2"), "I4_two_holders_of_a_token"),
    (all("-DMUTANT=3 -DN=2 -DH=1 -DT=2"), "I5_effect_before_its_record"),
    (all("-DMUTANT=4 -DN=2 -DH=1 -DT=2 -DR=2"), "I2_released_without_a_second_copy"),
    (all("-DMUTANT=5 -DN=2 -DH=1 -DT=2"), "I3_an_owner_lacks_a_turn"),
    (all("-DMUTANT=6 -DN=2 -DH=2 -DT=1"), "I4_a_token_fell"),
    (all("-DMUTANT=7 -DN=2 -DH=1 -DT=1"), "I2_"),
    (all("-DMUTANT=8 -DN=2 -DH=1 -DT=1"), "I7_an_attempt_that_was_over_moved_the_session"),
    (all("-DMUTANT=9 -DN=3 -DH=1 -DT=1"), "H15_payload_that_nobody_here_approved"),
    (all("-DMUTANT=10 -DN=3 -DH=1 -DT=1"), "I2_released_without_a_second_copy"),
    (all("-DMUTANT=11 -DN=2 -DH=1 -DT=1"), "H20_a_discard_was_undone"),
    (all("-DMUTANT=12 -DN=2 -DH=2 -DT=1"), "I4_two_holders_of_a_token"),
    (all("-DMUTANT=13 -DN=2 -DH=1 -DT=1"), "I2_no_copy_has_every_turn"),
    (all("-DMUTANT=14 -DN=2 -DH=1 -DT=2 -DG=2"), "I4_two_holders_of_a_token"),
    (all("-DMUTANT=15 -DN=2 -DH=2 -DT=2 -DG=2"), "I2_no_copy_has_every_turn"),
    (all("-DMUTANT=16 -DN=2 -DH=1 -DT=1 -DG=2"), "I4_two_holders_of_a_token"),
    (all("-DMUTANT=17 -DN=3 -DH=1 -DT=1 -DG=2"), "I4_two_holders_of_a_token"),
    (all("-DMUTANT=18 -DN=2 -DH=1 -DT=1"), "I3_an_owner_lacks_a_turn"),
    (all("-DMUTANT=19 -DN=2 -DH=1 -DT=1"), "H15_payload_that_nobody_here_approved"),
    (formula("-DMUTANT=20 -DN=2 -DH=1 -DT=1", "I6_someone_acts"), "acceptance cycle"),
    (formula("-DMUTANT=21 -DN=2 -DH=1 -DT=1", "I6_someone_acts"), "acceptance cycle"),
];
