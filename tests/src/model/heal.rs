//! Fair weather: everybody runs, every line works, nothing more goes wrong. From every state it must lead to one owner.

use cede_core::custodian::Standing;

use super::mesh::{Mesh, pairs};
use super::node::SESSION;
use super::snapshot::Snapshot;
use super::step::{Step, What};

/// Steps after which a mesh that has not settled never will.
const LONGEST: usize = 2_000;

impl Mesh {
    /// Whether fair weather leads from here to one owner, and from there through one more move. Of a state in which a rule
    /// is broken already nothing more is said.
    ///
    /// # Errors
    /// What is wrong instead.
    pub fn heals(&self, from: &Snapshot) -> Result<(), String> {
        if from.broken().is_some() {
            return Ok(());
        }
        let mut path = Vec::new();
        let mut now = from.clone();
        if now.truth.newest().generation > 0 {
            // The certificate of a seize is said once on a line, and again on the next one.
            self.part_all(&mut now);
        }
        let mut wakes = 0;
        loop {
            let core = now.core();
            if self.healed.lock().expect("no poison").contains(&core) {
                break;
            }
            path.push(core);
            if path.len() > LONGEST {
                return Err("the devices never fall silent".to_owned());
            }
            let Some(then) = self.fair(&now, &mut wakes)? else {
                at_rest(&now)?;
                self.moves_again(&now)?;
                break;
            };
            now = then;
        }
        self.healed.lock().expect("no poison").extend(path);
        Ok(())
    }

    /// The session goes to the next device, as it would have on the first day.
    fn moves_again(&self, rest: &Snapshot) -> Result<(), String> {
        let from = rest.truth.newest().active.ok_or("nobody is in charge")?;
        let to = (from + 1) % rest.nodes.len() as u8;
        let offer = Step { what: What::Offer { from, to }, fails_after: None };
        let mut now = self.next(rest, offer).ok_or("no offer can be made")?;
        let mut wakes = 0;
        for _ in 0..LONGEST {
            match self.fair(&now, &mut wakes)? {
                Some(then) => now = then,
                None if now.truth.newest().active == Some(to) => return at_rest(&now),
                None => return Err("a move in fair weather did not complete".to_owned()),
            }
        }
        Err("a move in fair weather never ends".to_owned())
    }

    /// One step of fair weather; none when all is settled.
    fn fair(&self, now: &Snapshot, wakes: &mut usize) -> Result<Option<Snapshot>, String> {
        let Some(what) = self.fair_step(now, wakes) else { return Ok(None) };
        let then = self.next(now, Step { what, fails_after: None }).ok_or("a step of fair weather is none")?;
        match then.broken() {
            Some((rule, what)) => Err(format!("fair weather breaks a rule: {rule:?}: {what}")),
            None => Ok(Some(then)),
        }
    }

    fn fair_step(&self, now: &Snapshot, wakes: &mut usize) -> Option<What> {
        let devices = now.nodes.len() as u8;
        let parted = || pairs(devices).into_iter().find(|(a, b)| !now.linked(*a, *b));
        let dark = (0..devices).find(|at| !now.runs(*at)).map(|at| What::Start { at });
        dark.or_else(|| parted().map(|(a, b)| What::Join { a, b }))
            .or_else(|| (!now.flight.is_empty()).then_some(What::Deliver { letter: 0, again: false }))
            .or_else(|| (0..devices).find_map(|at| work(now, at)))
            .or_else(|| {
                // Whoever waits waits in turn: no clock runs for one device alone.
                let waits = |at: &u8| now.node(*at).custodian.as_ref().is_some_and(|c| c.poll_timeout().is_some());
                let waiting: Vec<u8> = (0..devices).filter(waits).collect();
                *wakes += 1;
                let at = waiting.get(*wakes % waiting.len().max(1)).copied();
                at.filter(|_| !settled(now)).map(|at| What::Wake { at })
            })
    }
}

fn work(now: &Snapshot, at: u8) -> Option<What> {
    if !now.node(at).tasks.is_empty() {
        return Some(What::Work { at, task: 0, ship: false });
    }
    let asked = now.node(at).custodian.as_ref()?.asked(*SESSION).is_some();
    asked.then_some(What::Answer { at, yes: true })
}

fn settled(now: &Snapshot) -> bool {
    let under_way = now.nodes.iter().filter_map(|node| node.custodian.as_ref()).any(|custodian| {
        custodian.arriving(*SESSION).is_some()
            || custodian.asked(*SESSION).is_some()
            || matches!(custodian.standing(*SESSION), Some(Standing::ReleasedTo(_)))
    });
    let owner = now.truth.newest().active.map(|at| now.node(at).standing());
    !under_way && matches!(owner, Some(None | Some(Standing::InCharge)))
}

/// Everything is said and done: one device is in charge, nobody waits, and no fence stands.
fn at_rest(now: &Snapshot) -> Result<(), String> {
    let acting: Vec<u8> = now.nodes.iter().filter(|node| node.acts()).map(|node| node.at).collect();
    if !settled(now) || acting.len() != 1 || now.truth.newest().active != acting.first().copied() {
        return Err(format!("in fair weather these act: {acting:?}"));
    }
    for node in &now.nodes {
        let custodian = node.custodian.as_ref().ok_or("a device does not run")?;
        if custodian.to_branch(*SESSION) {
            return Err("turns of a seized owner are never kept aside".to_owned());
        }
        if custodian.leaving(*SESSION).is_some() {
            return Err("an attempt never ends".to_owned());
        }
        if !custodian.fences_to_lift().is_empty() {
            return Err("a fence stands in fair weather".to_owned());
        }
        let elsewhere = matches!(node.standing(), None | Some(Standing::Elsewhere(_) | Standing::SeizedBy(_)));
        if !elsewhere && now.truth.newest().active != Some(node.at) {
            return Err("a device waits for ever".to_owned());
        }
    }
    Ok(())
}
