//! What a device's hands do with what its decider tells them.

use cede_core::custodian::Standing;
use cede_core::destination::StagedPayload;
use cede_core::output::Event;
use cede_core::source::{Quiet, SourcePhase};
use cede_wire::handoff::{Accept, Manifest};
use cede_wire::id::HandoffId;

use super::check::Rule;
use super::node::{Hand, NOW, SESSION};
use crate::world::device::{head, root, round};

impl Hand<'_> {
    /// What needs no other word to the decider is done at once; the rest waits its turn, and is lost with the power.
    pub(super) fn hear(&mut self, event: Event) {
        match &event {
            Event::AskOperator(_) | Event::Withdrawn { .. } | Event::NotSeized { .. } => {}
            Event::OfferLost { handoff, .. } => {
                self.node.disk.captured.remove(handoff);
            }
            Event::PeerFault { what, .. } => self.broken(Rule::Sound, format!("an honest device is blamed: {what}")),
            Event::Retired { handoff, .. } => {
                self.node.disk.captured.remove(handoff);
            }
            Event::Discard { handoff, .. } => self.throw_away(*handoff),
            Event::RoundComplete { handoff, .. } => {
                if self.phase(*handoff) == Some(SourcePhase::Transferring) {
                    self.node.tasks.push(event);
                }
            }
            Event::Reaccept { .. }
            | Event::Fetch(_)
            | Event::Activate { .. }
            | Event::Refetch { .. }
            | Event::Accepted(_)
            | Event::Freeze { .. }
            | Event::AckHeld { .. }
            | Event::StillOwner { .. }
            | Event::Resend(_)
            | Event::Released { .. }
            | Event::Seized { .. }
            | Event::SeizedHere { .. } => self.node.tasks.push(event),
            other => self.broken(Rule::Sound, format!("nobody asked for this: {other:?}")),
        }
    }

    /// Does one of the tasks; a payload is handed in where one is wanted.
    pub(super) fn work(&mut self, task: usize, ship: bool, payload: Option<&[u64]>) {
        if task >= self.node.tasks.len() {
            return;
        }
        match self.node.tasks.remove(task) {
            Event::Reaccept { .. } => self.tell(|custodian| custodian.reaccept(*SESSION, [2; 32], Vec::new())),
            Event::Fetch(manifest) => self.write(&manifest, payload),
            Event::Activate { handoff, .. } => self.install(handoff),
            Event::Refetch { .. } => self.tell(|custodian| custodian.refetch(*SESSION, [3; 32], NOW)),
            Event::Accepted(accept) => self.begin(&accept, ship),
            Event::RoundComplete { handoff, .. } => self.freeze(handoff),
            Event::Freeze { handoff, .. } => self.ship(handoff),
            Event::AckHeld { handoff, .. } => {
                let quiet = Quiet { head: head(self.node.log()), in_flight: false };
                self.tell(|custodian| custodian.decide(*SESSION, handoff, quiet, NOW));
            }
            Event::StillOwner { handoff, .. } => {
                self.node.disk.captured.remove(&handoff);
                self.lift_fence();
            }
            Event::SeizedHere { staged: None, .. } => self.lift_fence(),
            Event::Seized { .. } => self.branch(),
            Event::Released { .. } => self.move_aside(),
            Event::Resend(accept) => self.resend(accept.handoff),
            _ => {}
        }
    }

    fn phase(&self, handoff: HandoffId) -> Option<SourcePhase> {
        let source = self.node.custodian.as_ref()?.leaving(*SESSION)?;
        (source.offer().handoff == handoff).then(|| source.phase().clone())
    }

    /// A round while the session works, or the freeze at once.
    fn begin(&mut self, accept: &Accept, ship: bool) {
        if ship && self.phase(accept.handoff) == Some(SourcePhase::Transferring) {
            self.ship(accept.handoff);
        } else {
            self.freeze(accept.handoff);
        }
    }

    fn freeze(&mut self, handoff: HandoffId) {
        if self.phase(handoff).is_some() {
            self.tell(|custodian| {
                let _ = custodian.freeze(*SESSION, NOW);
            });
        }
    }

    /// Captures the session as it is and announces the round.
    fn ship(&mut self, handoff: HandoffId) {
        if self.phase(handoff).is_some() {
            let log = self.node.log().to_vec();
            let round = round(&log);
            self.node.disk.captured.insert(handoff, log);
            self.tell(|custodian| {
                let _ = custodian.advance(*SESSION, round, NOW);
            });
        }
    }

    fn resend(&mut self, handoff: HandoffId) {
        match self.node.disk.captured.get(&handoff).map(|log| round(log)) {
            Some(round) => self.tell(|custodian| {
                let _ = custodian.resend(*SESSION, round);
            }),
            // The new owner may have acted, and the copy gone, since this was told.
            None if !matches!(self.node.standing(), Some(Standing::ReleasedTo(_))) => {}
            None => self.broken(Rule::Copies, "a released payload is not pinned"),
        }
    }

    /// The payload came whole: it is durable before the decider hears of it.
    fn write(&mut self, manifest: &Manifest, payload: Option<&[u64]>) {
        let Some(turns) = payload.filter(|turns| root(turns) == manifest.root) else { return };
        let (handoff, round) = (manifest.handoff, manifest.round);
        let staged = StagedPayload { head: head(turns), root: manifest.root };
        self.node.disk.received.insert(handoff, turns.to_vec());
        self.tell(|custodian| {
            custodian.round_complete(*SESSION, handoff, round);
            if manifest.last {
                custodian.staged(*SESSION, handoff, staged, NOW);
            }
        });
    }

    /// The order may be stale: what is in charge or arriving under this attempt is kept.
    fn throw_away(&mut self, handoff: HandoffId) {
        let Some(custodian) = &self.node.custodian else { return };
        let arriving = custodian.arriving(*SESSION).is_some_and(|a| a.attempt().handoff == handoff);
        let installing = custodian.standing(*SESSION) == Some(Standing::Arriving);
        if !arriving && !installing {
            self.node.disk.received.remove(&handoff);
        }
    }

    fn install(&mut self, handoff: HandoffId) {
        if self.node.standing() != Some(Standing::Arriving) {
            return;
        }
        let Some(turns) = self.node.disk.received.get(&handoff).cloned() else {
            return self.receive_failed(handoff);
        };
        (self.node.disk.log, self.node.disk.aside) = (Some(turns), None);
        self.tell(|custodian| custodian.installed(*SESSION, handoff));
        if self.node.standing() == Some(Standing::InCharge) {
            self.node.disk.received.remove(&handoff);
        }
    }

    fn move_aside(&mut self) {
        if matches!(self.node.standing(), Some(Standing::ReleasedTo(_) | Standing::Elsewhere(_)))
            && let Some(log) = self.node.disk.log.take()
        {
            self.node.disk.aside = Some(log);
        }
    }

    /// What lies aside since the session was given away is its own again where this device seized it.
    pub(super) fn lift_fence(&mut self) {
        let owner = matches!(self.node.standing(), Some(Standing::InCharge));
        if owner && self.node.disk.log.is_none() {
            self.node.disk.log = self.node.disk.aside.take();
        }
        self.tell(|custodian| custodian.fence_lifted(*SESSION));
    }

    /// Another device seized the session: what only this one has is kept.
    fn branch(&mut self) {
        if !self.node.custodian.as_ref().is_some_and(|custodian| custodian.to_branch(*SESSION)) {
            return;
        }
        if let Some(turns) = self.node.here().cloned()
            && !self.node.disk.branches.contains(&turns)
        {
            self.node.disk.branches.push(turns);
        }
        if let Some(log) = self.node.disk.log.take() {
            self.node.disk.aside = Some(log);
        }
        self.tell(|custodian| custodian.branched(*SESSION));
    }
}
