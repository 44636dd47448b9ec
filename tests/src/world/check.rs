//! The invariants, after every step.

use cede_core::custodian::Standing;
use cede_wire::custody::{Custody, Seize};
use cede_wire::id::{HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;

use super::World;
use super::model::Line;

impl World {
    /// An effect: the one thing that only the owner may do.
    pub(super) fn commit_turn(&mut self, device: usize, session: SessionId) {
        if !self.devices[device].acts(session) {
            return;
        }
        let generation = self.generation(device, session);
        let owner = self.models[&session].lines[&generation].active;
        self.ensure(owner == Some(device), &format!("{device} commits a turn, the owner is {owner:?}"));
        self.tally.turns += 1;
        let turn = self.tally.turns;
        self.note(|| format!("{device} commits turn {turn} of {session:?}"));
        self.devices[device].disk.logs.entry(session).or_default().push(turn);
        if let Some(line) = self.models.get_mut(&session).and_then(|model| model.lines.get_mut(&generation)) {
            line.committed.push(turn);
        }
    }

    fn generation(&self, device: usize, session: SessionId) -> u64 {
        self.devices[device].custodian.as_ref().map_or(0, |custodian| custodian.token(session).generation)
    }

    /// Records reach the disk: the only moments at which the model changes.
    pub(super) fn persist(&mut self, device: usize, records: Vec<Record>) {
        // Where chains part, records of a lower token may come before the one that counts.
        let last = |record: &Record| matches!(record, Record::Custody(_));
        let last = records.iter().rposition(last);
        let staged = records.iter().any(|record| matches!(record, Record::Active { .. }));
        for (at, record) in records.into_iter().enumerate() {
            self.note(|| format!("{device} persists {}", format!("{record:?}").chars().take(100).collect::<String>()));
            match &record {
                Record::Custody(link) => {
                    let link = cede_seal::verify::verify(link).expect("a device keeps only what verifies");
                    if Some(at) == last {
                        self.observe_token(device, link.session(), link.token());
                    }
                    self.observe_link(device, &link, staged);
                }
                Record::Active { session, token, .. } => {
                    self.observe_token(device, *session, *token);
                    self.become_active(device, *session, token.generation);
                }
                _ => {}
            }
            self.devices[device].disk.journal.push(record);
        }
    }

    fn observe_token(&mut self, device: usize, session: SessionId, token: cede_wire::custody::FencingToken) {
        let known = self.devices[device].disk.tokens.insert(session, token);
        self.ensure(known.is_none_or(|known| known <= token), "a token goes down on one device");
    }

    fn observe_link(&mut self, device: usize, link: &Custody, staged: bool) {
        let session = link.session();
        let release = match link {
            Custody::Release(release) => release,
            Custody::Seize(seize) => return self.observe_seize(device, seize, staged),
            Custody::Genesis(_) => {
                if let Some(model) = self.models.get_mut(&session) {
                    model.moved = true;
                }
                return;
            }
        };
        let to = self.devices.iter().position(|other| other.id() == release.to).expect("a member");
        let model = self.models.get_mut(&session).expect("a session of this world");
        let held = *model.holders.entry(release.next_token).or_insert(to);
        if held != to {
            self.fail("one token has two holders");
        }
        let line = &self.models[&session].lines[&release.token.generation];
        if release.from == self.devices[device].id() && release.next_token > line.token {
            self.decide(device, to, release);
        }
    }

    /// A generation begins on the disk of the device that seized, and only there: one device each.
    fn observe_seize(&mut self, device: usize, seize: &Seize, staged: bool) {
        if seize.to != self.devices[device].id() {
            return;
        }
        let disk = &self.devices[device].disk;
        let copies = disk.received.values().chain(disk.aside.get(&seize.session));
        let Some(committed) = copies.clone().find(|turns| super::device::head(turns) == seize.head).cloned() else {
            self.fail("a device seizes with a copy that it does not have");
        };
        let model = self.models.get_mut(&seize.session).expect("a session of this world");
        let active = (!staged).then_some(device);
        let line = Line { active, named: device, token: seize.next_token, committed };
        let before = model.lines.insert(seize.next_token.generation, line);
        model.holders.insert(seize.next_token, device);
        self.tally.seized += 1;
        self.ensure(before.is_none(), "one generation has two owners");
    }

    /// The decision of a handoff: one record on the owner's disk.
    fn decide(&mut self, device: usize, to: usize, release: &cede_wire::custody::Release) {
        let session = release.session;
        let generation = release.token.generation;
        let line = &self.models[&session].lines[&generation];
        self.ensure(line.active == Some(device), "a device that is not the owner releases");
        let committed = line.committed.clone();
        self.ensure(self.devices[device].disk.log(session) == committed, "the source decides without all turns");
        self.ensure(super::device::head(&committed) == release.head, "a release names another head than the owner's");
        let captured = self.devices[device].disk.captured.get(&release.handoff) == Some(&committed);
        self.ensure(captured, "the source decides without a pinned copy");
        self.tally.released += 1;
        let model = self.models.get_mut(&session).expect("a session of this world");
        let line = model.lines.get_mut(&generation).expect("a generation that was seen");
        (line.active, line.named, line.token) = (None, to, release.next_token);
    }

    fn become_active(&mut self, device: usize, session: SessionId, generation: u64) {
        let line = &self.models[&session].lines[&generation];
        let (active, named) = (line.active, line.named);
        if active == Some(device) {
            // Fetched again after a loss, before anything was done with it.
            self.ensure(
                self.standing(device, session) == Some(Standing::Arriving),
                "a device that acts activates again",
            );
            return;
        }
        self.ensure(active.is_none(), &format!("{device} becomes active while {active:?} is"));
        self.ensure(named == device, "a device becomes active that no release names");
        self.tally.activated += 1;
        if let Some(line) = self.models.get_mut(&session).and_then(|model| model.lines.get_mut(&generation)) {
            line.active = Some(device);
        }
    }

    /// What leaves a device is permitted by what is in its journal.
    pub(super) fn check_permitted(&mut self, device: usize, message: &PeerMessage) {
        let permitted = match message {
            PeerMessage::Release { certificate, .. } => {
                self.has_record(device, |record| matches!(record, Record::Custody(link) if link == certificate))
            }
            PeerMessage::CommitAck(ack) => {
                let ack = cede_seal::verify::verify(ack).expect("own signature");
                let staged =
                    |record: &Record| matches!(record, Record::Staged { handoff, .. } if *handoff == ack.handoff);
                self.has_record(device, staged)
            }
            PeerMessage::Accept(accept) => {
                let accept = cede_seal::verify::verify(accept).expect("own signature");
                self.approved(device, accept.handoff)
            }
            PeerMessage::Refetch(accept) => {
                let accept = cede_seal::verify::verify(accept).expect("own signature");
                self.approved(device, accept.handoff)
            }
            PeerMessage::Activated(word) => {
                let word = cede_seal::verify::verify(word).expect("own signature");
                let active =
                    |record: &Record| matches!(record, Record::Installed { handoff, .. } if *handoff == word.handoff);
                self.has_record(device, active)
            }
            _ => true,
        };
        self.ensure(permitted, "a message leaves before the record that permits it is durable");
    }

    fn approved(&self, device: usize, wanted: HandoffId) -> bool {
        self.has_record(device, |record| matches!(record, Record::Approved { handoff, .. } if *handoff == wanted))
    }

    fn has_record(&self, device: usize, wanted: impl Fn(&Record) -> bool) -> bool {
        self.devices[device].disk.journal.iter().rev().any(wanted)
    }

    pub(super) fn check(&self) {
        for session in self.models.keys() {
            self.check_owner(*session);
            self.check_copies(*session);
        }
    }

    /// At most one acts in a generation, it is the one of the model, and it has every turn of it.
    fn check_owner(&self, session: SessionId) {
        let model = &self.models[&session];
        for (n, device) in self.devices.iter().enumerate() {
            if device.acts(session) {
                let line = &model.lines[&self.generation(n, session)];
                self.ensure(line.active == Some(n), &format!("{n} acts, the owner is {:?}", line.active));
                self.ensure(device.disk.log(session) == line.committed, "the owner lacks committed turns");
            }
        }
        // A failure before the decision leaves the source as it was; so does all but a seize.
        let newest = model.newest();
        if let Some(owner) = newest.active
            && let Some(standing) = self.standing(owner, session)
        {
            let may = match standing {
                Standing::InCharge | Standing::Leaving(_) | Standing::Arriving => true,
                // It lost what it received before it put it in its place.
                Standing::PayloadMissing => !self.devices[owner].acts(session),
                Standing::Unconfirmed => self.devices[owner].custodian.as_ref().is_some_and(|c| c.doubt().is_some()),
                _ => false,
            };
            self.ensure(may, &format!("the owner {owner} thinks that it is {standing:?}"));
        }
    }

    /// Every committed turn is on a disk; while a release is not answered, on two unless the destination lost its own.
    fn check_copies(&self, session: SessionId) {
        let model = &self.models[&session];
        let newest = model.newest();
        let whole = |turns: &Vec<u64>| *turns == newest.committed;
        let mut copies = self.devices.iter().enumerate().flat_map(|(n, device)| {
            // What a device seized with lies behind its own fence until the hands took that down.
            let seized = device.disk.aside.get(&session).filter(|_| newest.active == Some(n));
            let log = device.disk.logs.get(&session).into_iter().chain(seized);
            log.chain(device.disk.captured.values()).chain(device.disk.received.values())
        });
        self.ensure(copies.any(whole), "no disk has every committed turn");
        for line in model.lines.values() {
            let mut kept = self.devices.iter().flat_map(|device| device.disk.everything());
            let there = kept.any(|turns| turns.starts_with(&line.committed));
            self.ensure(there, "turns of a seized owner are lost");
        }
        for device in &self.devices {
            let Some(custodian) = &device.custodian else { continue };
            if let (Some(Standing::ReleasedTo(_)), Some(Custody::Release(release))) =
                (custodian.standing(session), custodian.chain(session).map(|chain| chain.last().clone()))
            {
                let pinned = device.disk.captured.contains_key(&release.handoff);
                self.ensure(pinned, "the source let its copy go before the new owner acts");
            }
        }
    }

    /// In fair weather exactly one device is in charge of each session, and nothing is left over.
    pub(super) fn check_settled(&self) {
        self.ensure(self.settled(), "the devices do not settle");
        for (session, model) in &self.models {
            let acting = self.devices.iter().filter(|device| device.acts(*session)).count();
            self.ensure(acting == 1, &format!("{acting} devices act in fair weather"));
            for (n, device) in self.devices.iter().enumerate() {
                let custodian = device.custodian.as_ref().expect("everybody runs");
                self.ensure(custodian.leaving(*session).is_none(), "an attempt never ends");
                let raised = custodian.fences_to_lift().iter().any(|(fenced, _)| fenced == session);
                self.ensure(!raised, "a fence stands in fair weather");
                let elsewhere =
                    matches!(self.standing(n, *session), None | Some(Standing::Elsewhere(_) | Standing::SeizedBy(_)));
                self.ensure(elsewhere || model.newest().active == Some(n), "a device waits for ever");
                self.ensure(!custodian.to_branch(*session), "turns of a seized owner are never kept");
            }
        }
    }
}
