//! What a device's hands do with what its decider tells them, and what its agent does on its own.

use cede_core::custodian::{Custodian, Standing};
use cede_core::destination::StagedPayload;
use cede_core::output::Event;
use cede_core::source::SourcePhase;
use cede_wire::custody::Custody;
use cede_wire::handoff::{Accept, Manifest};
use cede_wire::id::{HandoffId, SessionId};
use cede_wire::refusal::Refusal;

use super::device::{Task, head, root, round};
use super::{Load, World};

impl World {
    pub(super) fn work_some(&mut self) {
        let device = self.random.index(self.devices.len());
        let tasks = self.devices[device].tasks.len();
        if tasks > 0 {
            let at = if self.random.chance(800) { 0 } else { self.random.index(tasks) };
            self.work(device, at);
        }
    }

    pub(super) fn work(&mut self, device: usize, at: usize) {
        match self.devices[device].tasks.remove(at) {
            Some(Task::Event(event)) => self.obey(device, event),
            Some(Task::Write(handoff, turns)) => self.write(device, handoff, turns),
            None => {}
        }
    }

    fn obey(&mut self, device: usize, event: Event) {
        self.note(|| format!("{device} does {}", format!("{event:?}").chars().take(110).collect::<String>()));
        match event {
            Event::AskOperator(offer) => {
                let no = self.weather.lose > 0 && self.random.chance(100);
                let (session, handoff) = (offer.key.id(), offer.handoff);
                self.tell_custodian(device, |custodian, now| {
                    if no {
                        custodian.decline(session, handoff, Refusal::Declined, "the operator said no");
                    } else {
                        let _ = custodian.approve(session, handoff, [1; 32], Vec::new(), now);
                    }
                });
            }
            Event::Reaccept { session, .. } => {
                self.tell_custodian(device, |custodian, _| custodian.reaccept(session, [2; 32], Vec::new()));
            }
            Event::Fetch(manifest) => self.fetch(device, &manifest),
            Event::Discard { session, handoff, .. } => self.throw_away(device, session, handoff),
            Event::Activate { session, handoff, .. } => self.install(device, session, handoff),
            Event::Refetch { session, .. } => {
                self.tally.refetched += 1;
                self.tell_custodian(device, |custodian, now| custodian.refetch(session, [3; 32], now));
            }
            Event::Accepted(accept) => self.begin(device, &accept),
            Event::RoundComplete { session, handoff, .. } => self.freeze(device, session, handoff),
            Event::Freeze { session, handoff, .. } => self.ship(device, session, handoff),
            Event::AckHeld { session, handoff } => {
                let quiet = self.devices[device].quiet(session);
                self.tell_custodian(device, |custodian, now| custodian.decide(session, handoff, quiet, now));
            }
            Event::Released { session, .. } => self.move_aside(device, session),
            Event::StillOwner { session, handoff, .. } => {
                self.tally.abandoned += 1;
                self.devices[device].disk.captured.remove(&handoff);
                self.tell_custodian(device, |custodian, _| custodian.fence_lifted(session));
            }
            Event::Retired { handoff, .. } => {
                self.devices[device].disk.captured.remove(&handoff);
            }
            Event::Resend(accept) => self.resend(device, &accept),
            Event::PeerFault { what, .. } => self.fail(&format!("an honest device is blamed: {what}")),
            Event::Seized { session, .. } => self.keep_aside(device, session),
            Event::SeizedHere { session, staged, .. } => self.work_again(device, session, staged.is_some()),
            Event::OfferLost { handoff, .. } => {
                self.devices[device].disk.captured.remove(&handoff);
            }
            Event::Contested { .. } => self.fail("two seizes of one generation"),
            Event::Doubted(why) => self.fail(&format!("an honest device doubts itself: {why:?}")),
            Event::Confirmed { .. } => self.lift_stale(device),
            Event::NotSeized { .. } | Event::Withdrawn { .. } => {}
        }
    }

    fn leaving(&self, device: usize, handoff: HandoffId) -> Option<(SessionId, SourcePhase)> {
        let custodian = self.devices[device].custodian.as_ref()?;
        let sources = self.models.keys().filter_map(|id| Some((*id, custodian.leaving(*id)?)));
        let mut mine = sources.filter(|(_, source)| source.offer().handoff == handoff);
        mine.next().map(|(id, source)| (id, source.phase().clone()))
    }

    /// A round while the session works, or the freeze at once.
    fn begin(&mut self, device: usize, accept: &Accept) {
        let Some((session, phase)) = self.leaving(device, accept.handoff) else { return };
        if phase == SourcePhase::Transferring && self.random.chance(500) {
            self.ship(device, session, accept.handoff);
        } else {
            self.freeze(device, session, accept.handoff);
        }
    }

    fn freeze(&mut self, device: usize, session: SessionId, handoff: HandoffId) {
        if self.leaving(device, handoff).is_some() {
            self.tell_custodian(device, |custodian, now| {
                let _ = custodian.freeze(session, now);
            });
        }
    }

    /// Captures the session as it is and announces the round.
    fn ship(&mut self, device: usize, session: SessionId, handoff: HandoffId) {
        if self.leaving(device, handoff).is_none() {
            return;
        }
        let log = self.devices[device].disk.log(session).to_vec();
        let round = round(&log);
        self.devices[device].disk.captured.insert(handoff, log);
        self.tell_custodian(device, |custodian, now| {
            let _ = custodian.advance(session, round, now);
        });
    }

    fn resend(&mut self, device: usize, accept: &Accept) {
        let Some(log) = self.devices[device].disk.captured.get(&accept.handoff).cloned() else {
            let released = self.models.keys().any(|id| {
                let custodian = self.devices[device].custodian.as_ref();
                let last = custodian.and_then(|custodian| custodian.chain(*id)).map(|chain| chain.last().clone());
                let standing = custodian.and_then(|custodian| custodian.standing(*id));
                matches!(standing, Some(Standing::ReleasedTo(_)))
                    && matches!(last, Some(Custody::Release(release)) if release.handoff == accept.handoff)
            });
            // Once the new owner acts the copy may go.
            return self.ensure(!released, "a released payload is not pinned");
        };
        let round = round(&log);
        let custodian = self.devices[device].custodian.as_ref();
        let sessions = self.models.keys().copied();
        let released = sessions.filter(|id| {
            let last = custodian.and_then(|custodian| custodian.chain(*id)).map(|chain| chain.last().clone());
            matches!(last, Some(Custody::Release(release)) if release.handoff == accept.handoff)
        });
        for session in released.collect::<Vec<_>>() {
            let round = round.clone();
            self.tell_custodian(device, |custodian, _| {
                let _ = custodian.resend(session, round);
            });
        }
    }

    fn fetch(&mut self, device: usize, manifest: &Manifest) {
        self.devices[device].fetching.insert(manifest.handoff, manifest.clone());
        let source = self.devices.iter().position(|other| other.id() == manifest.source);
        if let Some(source) = source {
            self.send(device, source, Load::Need(manifest.handoff));
        }
    }

    pub(super) fn serve(&mut self, device: usize, to: usize, handoff: HandoffId) {
        if let Some(turns) = self.devices[device].disk.captured.get(&handoff).cloned() {
            self.send(device, to, Load::Turns(handoff, turns));
        }
    }

    /// The payload came whole: it is durable before the decider hears of it.
    fn write(&mut self, device: usize, handoff: HandoffId, turns: Vec<u64>) {
        let Some(manifest) = self.devices[device].fetching.get(&handoff).cloned() else { return };
        if root(&turns) != manifest.root {
            return;
        }
        let payload = StagedPayload { head: head(&turns), root: manifest.root };
        self.devices[device].disk.received.insert(handoff, turns);
        self.tell_custodian(device, |custodian, now| {
            custodian.round_complete(manifest.session, handoff, manifest.round);
            if manifest.last {
                custodian.staged(manifest.session, handoff, payload, now);
            }
        });
    }

    /// The order may be stale: what is in charge or arriving under this attempt is kept.
    fn throw_away(&mut self, device: usize, session: SessionId, handoff: HandoffId) {
        let Some(custodian) = &self.devices[device].custodian else { return };
        let arriving = custodian.arriving(session).is_some_and(|a| a.attempt().handoff == handoff);
        let installing = custodian.standing(session) == Some(Standing::Arriving);
        if !arriving && !installing {
            self.devices[device].disk.received.remove(&handoff);
            self.devices[device].fetching.remove(&handoff);
        }
    }

    fn install(&mut self, device: usize, session: SessionId, handoff: HandoffId) {
        if self.standing(device, session) != Some(Standing::Arriving) {
            return;
        }
        let Some(turns) = self.devices[device].disk.received.get(&handoff).cloned() else {
            self.note(|| format!("{device} misses its stage of {handoff:?}"));
            let refusal = Refusal::IntegrityFailed;
            self.tell_custodian(device, |custodian, _| {
                custodian.receive_failed(session, handoff, refusal, "the stage is lost");
            });
            return;
        };
        let disk = &mut self.devices[device].disk;
        let before = disk.logs.remove(&session).or_else(|| disk.aside.remove(&session));
        // Another history under this id is kept, as the adapters do.
        disk.branches.extend(before.filter(|before| !turns.starts_with(before)));
        disk.logs.insert(session, turns);
        self.tell_custodian(device, |custodian, _| custodian.installed(session, handoff));
        if self.standing(device, session) == Some(Standing::InCharge) {
            self.devices[device].disk.received.remove(&handoff);
        }
    }

    fn move_aside(&mut self, device: usize, session: SessionId) {
        let standing = self.standing(device, session);
        if matches!(standing, Some(Standing::ReleasedTo(_) | Standing::Elsewhere(_))) {
            self.fence(device, session);
        }
    }

    fn fence(&mut self, device: usize, session: SessionId) {
        let disk = &mut self.devices[device].disk;
        if let Some(turns) = disk.logs.remove(&session) {
            disk.aside.insert(session, turns);
        }
    }

    /// Another device seized the session: what only this one has is kept before anything comes in its place.
    fn keep_aside(&mut self, device: usize, session: SessionId) {
        if !self.devices[device].custodian.as_ref().is_some_and(|custodian| custodian.to_branch(session)) {
            return;
        }
        self.tally.fenced += 1;
        self.fence(device, session);
        let disk = &mut self.devices[device].disk;
        disk.branches.extend(disk.aside.get(&session).cloned());
        self.tell_custodian(device, |custodian, _| custodian.branched(session));
    }

    /// The fence of an attempt that a doubt outlived.
    fn lift_stale(&mut self, device: usize) {
        let stale = self.devices[device].custodian.as_ref().map(Custodian::fences_to_lift).unwrap_or_default();
        for (session, _) in stale {
            self.devices[device].disk.unfence(session);
            self.tell_custodian(device, |custodian, _| custodian.fence_lifted(session));
        }
    }

    /// This device seized the session, and goes on with what lies behind its own fence.
    fn work_again(&mut self, device: usize, session: SessionId, staged: bool) {
        if !staged && self.standing(device, session) == Some(Standing::InCharge) {
            self.devices[device].disk.unfence(session);
            self.tell_custodian(device, |custodian, _| custodian.fence_lifted(session));
        }
    }

    /// The agent works: it asks nobody but its own device.
    pub(super) fn turn_some(&mut self) {
        let (device, session) = (self.random.index(self.devices.len()), self.some_session());
        let frozen = self.devices[device].custodian.as_ref().and_then(|custodian| custodian.leaving(session));
        let frozen = frozen.is_some_and(|source| *source.phase() == SourcePhase::Frozen);
        if !frozen || self.random.chance(self.weather.sneak) {
            self.commit_turn(device, session);
        }
    }
}
