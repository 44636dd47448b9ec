//! Every state of a small mesh within some bounds, visited by a model checker. The deciders are the real ones.

use std::time::Instant;

use cede_tests::model::{Bounds, Mesh, Rule, Snapshot, Step};
use stateright::{Checker, HasDiscoveries, Model, Property};

struct Checked(Mesh);

impl Model for Checked {
    type State = Snapshot;
    type Action = Step;

    fn init_states(&self) -> Vec<Snapshot> {
        vec![self.0.first()]
    }

    fn actions(&self, state: &Snapshot, actions: &mut Vec<Step>) {
        actions.extend(self.0.steps(state));
    }

    fn next_state(&self, state: &Snapshot, step: Step) -> Option<Snapshot> {
        self.0.next(state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("I1 at most one device acts", |_, s| keeps(s, Rule::OneOwner)),
            Property::always("I2 every committed turn is durable", |_, s| keeps(s, Rule::Copies)),
            Property::always("I3 who acts has every turn", |_, s| keeps(s, Rule::AllTurns)),
            Property::always("I4 tokens rise and have one holder", |_, s| keeps(s, Rule::Tokens)),
            Property::always("I5 the record comes first", |_, s| keeps(s, Rule::RecordFirst)),
            Property::always("I6 fair weather leads to one owner", |m: &Self, s| m.0.heals(s).is_ok()),
            Property::always("I7 the source is untouched before it decides", |_, s| keeps(s, Rule::Untouched)),
            Property::always("I8 who is not in charge is passive", |_, s| keeps(s, Rule::Passive)),
            Property::always("the deciders are sound", |_, s| keeps(s, Rule::Sound)),
            Property::sometimes(MOVES, |m: &Self, s: &Snapshot| s.moves() == u64::from(m.0.bounds().offers)),
        ]
    }
}

/// A mesh in which nothing happens shows nothing.
const MOVES: &str = "every offer can be a move";

fn keeps(state: &Snapshot, rule: Rule) -> bool {
    state.broken().is_none_or(|(broken, _)| broken != rule)
}

/// Visits every state within the bounds, unless a rule is broken before.
fn explore(bounds: Bounds) -> usize {
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4));
    let checker = Checked(Mesh::new(bounds)).checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, depth, inputs) = (checker.unique_state_count(), checker.max_depth(), checker.model().0.inputs());
    println!("{states} states, depth {depth}, {inputs} inputs, {:.1} s: {bounds}", begun.elapsed().as_secs_f32());
    let found = checker.discoveries();
    if let Some((property, path)) = found.iter().find(|(property, _)| **property != MOVES) {
        let mesh = &checker.model().0;
        let path = path.clone().into_vec();
        let last = path.last().and_then(|(state, _)| mesh.heals(state).err()).unwrap_or_default();
        let told = path.into_iter().map(|(state, step)| mesh.tell(&state, step));
        panic!("not so after {states} states ({bounds}): {property}\n{}  {last}", told.collect::<String>());
    }
    assert!(found.contains_key(MOVES), "no state in which every offer was a move: {bounds}");
    states
}

/// Shows: H-1, H-6, H-7, H-8, H-10, H-16, H-17, H-18, H-21, H-24, H-25, J-1
#[test]
fn no_state_of_a_small_mesh_breaks_a_rule() {
    if let Ok(text) = std::env::var("CEDE_BOUNDS") {
        explore(text.parse().expect("bounds, as `offers=2,crashes=1`"));
        return;
    }
    let long = std::env::var_os("CEDE_SHAKE").is_some();
    let all = SHORT.iter().chain(LONG.iter().filter(|_| long));
    let states: usize = all.map(|text| explore(text.parse().expect("bounds"))).sum();
    println!("{states} states, no rule broken");
    assert!(states > if long { 500_000 } else { 10_000 }, "few states: {states}");
}

const SHORT: [&str; 6] = [
    "offers=2,losses=1",
    "losses=1,doubles=1",
    "crashes=1,outlast",
    "cuts=1",
    "seizes=1,gossip",
    "turns=1,sneaks=1,rounds=1,refusals=1,spoils=1",
];

const LONG: [&str; 10] = [
    "offers=2,losses=1,doubles=1",
    "offers=2,crashes=1,losses=1",
    "offers=2,seizes=1,gossip",
    "seizes=1,gossip,turns=1,losses=1",
    "turns=1,sneaks=1,rounds=1,refusals=1,spoils=1,losses=1,doubles=1",
    "wakes=2,sleeps=1,losses=1,refusals=1",
    "spoils=1,losses=1,crashes=1",
    "crashes=2",
    "devices=3,offers=2,carries=1,losses=1",
    "devices=3,crashes=1",
];
