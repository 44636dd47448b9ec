//! An application with sessions of its own: notebooks, which exactly one of two devices may write to.
//!
//! It takes who may act from `cede-core` and brings the rest: what a session is, how bytes travel, where records are
//! kept. Run it: `cargo run -p cede-examples --bin notebook`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use cede_core::custodian::{Custodian, Trust};
use cede_core::destination::StagedPayload;
use cede_core::now::Now;
use cede_core::output::{Event, Output};
use cede_core::source::{OfferTerms, Quiet, Round};
use cede_seal::device::LocalDevice;
use cede_wire::custody::Head;
use cede_wire::handoff::{Scope, Workspace};
use cede_wire::id::{DeviceId, HandoffId, Hash, Incarnation, MeshId};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::session::{AgentKind, NativeId, Requirement, SessionKey};

fn main() -> Result<(), Box<dyn Error>> {
    let key = notebook()?;
    let mut desk = Device::new("desk", 1)?;
    let mut bag = Device::new("bag", 2)?;
    desk.pages = Some("Monday: measured twice.".to_owned());
    meet(&mut desk, &mut bag);

    say(&desk, &bag, &key);
    desk.hand_over(&key, bag.id(), HandoffId::new([7; 16]))?;
    exchange(&mut desk, &mut bag);
    say(&desk, &bag, &key);

    bag.write(&key, " Tuesday: cut once.")?;
    if desk.write(&key, " Tuesday: measured again.").is_ok() {
        return Err("two devices wrote to one notebook".into());
    }
    println!("bag wrote; desk was refused");

    bag.hand_over(&key, desk.id(), HandoffId::new([8; 16]))?;
    exchange(&mut bag, &mut desk);
    say(&desk, &bag, &key);
    println!("desk reads: {}", desk.pages.as_deref().unwrap_or_default());
    Ok(())
}

/// One device: the decider, and what the application brings.
struct Device {
    name: &'static str,
    local: Arc<LocalDevice>,
    custodian: Custodian,
    /// Stands for a disk. A real one flushes before anything that stands behind the records leaves.
    journal: Vec<Record>,
    /// The session's content, where it is here.
    pages: Option<String>,
    /// What arrived and is not in charge yet.
    staged: Option<String>,
    outbox: VecDeque<PeerMessage>,
    /// What travels beside the messages: the payload of the last round.
    parcel: Option<String>,
}

impl Device {
    fn new(name: &'static str, seed: u8) -> Result<Self, Box<dyn Error>> {
        // A real device keeps 32 random bytes in a file that only it can read.
        let local = Arc::new(LocalDevice::from_secret(&[seed; 32]));
        let mesh = Some(MeshId::new([9; 32]));
        let incarnation = Incarnation::new([seed; 16]);
        let custodian = Custodian::restore(local.clone(), incarnation, mesh, std::iter::empty(), Trust::Whole, now())?;
        let (journal, outbox) = (Vec::new(), VecDeque::new());
        Ok(Self { name, local, custodian, journal, pages: None, staged: None, outbox, parcel: None })
    }

    fn id(&self) -> DeviceId {
        self.local.device()
    }

    /// The one question that every effect asks first.
    fn write(&mut self, key: &SessionKey, text: &str) -> Result<(), Box<dyn Error>> {
        if !self.custodian.may_act(key.id()) {
            return Err(format!("{} may not write", self.name).into());
        }
        self.pages.get_or_insert_default().push_str(text);
        Ok(())
    }

    fn hand_over(&mut self, key: &SessionKey, to: DeviceId, handoff: HandoffId) -> Result<(), Box<dyn Error>> {
        let terms = OfferTerms {
            head: self.head(),
            title: "notebook".to_owned(),
            requirement: Requirement { agent: key.agent, version: String::new(), provider: None },
            carry_only: false,
            workspace: Workspace { path: b"/notebook".to_vec(), below_home: None, repository: None },
            scope: scope(),
        };
        self.custodian.offer(key, to, handoff, terms, now())?;
        self.drain();
        Ok(())
    }

    fn hear(&mut self, from: DeviceId, message: &PeerMessage) {
        self.custodian.handle_message(from, message, now());
        self.drain();
    }

    /// The contract: in order, and durable before what stands behind it.
    fn drain(&mut self) {
        while let Some(output) = self.custodian.poll() {
            match output {
                Output::Persist(batch) => self.journal.extend(batch),
                Output::Send(_, message) => self.outbox.push_back(*message),
                Output::Tell(event) => self.work(event),
                Output::Wake(..) => {} // Nothing is lost here, so nothing is repeated.
            }
        }
    }

    /// The hands: what the decider cannot do itself.
    fn work(&mut self, event: Event) {
        match event {
            Event::AskOperator(offer) => {
                println!("{}: \"{}\" may come here", self.name, offer.title);
                // The key of the sealed payload; this example's parcel stays in one process and is not sealed.
                let _expired = self.custodian.approve(offer.key.id(), offer.handoff, [0; 32], Vec::new(), now());
            }
            Event::Accepted(accept) => {
                if let Some(session) = self.leaving(accept.handoff) {
                    let _other_phase = self.custodian.freeze(session, now());
                }
            }
            Event::Freeze { session, .. } => {
                self.parcel = self.pages.clone();
                let _other_phase = self.custodian.advance(session, self.round(), now());
            }
            Event::Fetch(manifest) => {
                let payload = StagedPayload { head: manifest.head, root: manifest.root };
                let whole = self.staged.as_deref().is_some_and(|text| Hash::of(text.as_bytes()) == manifest.root);
                if whole && manifest.last {
                    self.custodian.staged(manifest.session, manifest.handoff, payload, now());
                }
            }
            Event::AckHeld { session, handoff } => {
                let quiet = Quiet { head: self.head(), in_flight: false };
                self.custodian.decide(session, handoff, quiet, now());
            }
            Event::Activate { session, handoff, .. } => {
                self.pages = self.staged.take();
                self.custodian.installed(session, handoff);
            }
            Event::Released { .. } => println!("{}: released; nobody writes until the other says so", self.name),
            Event::Retired { .. } => println!("{}: the other writes now", self.name),
            // Faults and repetitions: nothing is lost between two variables.
            Event::Withdrawn { .. }
            | Event::Reaccept { .. }
            | Event::Discard { .. }
            | Event::Refetch { .. }
            | Event::RoundComplete { .. }
            | Event::StillOwner { .. }
            | Event::Resend(_)
            | Event::PeerFault { .. } => {}
            // Nobody seizes a notebook, and no copy of its records is put back.
            Event::Seized { .. }
            | Event::OfferLost { .. }
            | Event::SeizedHere { .. }
            | Event::NotSeized { .. }
            | Event::Contested { .. }
            | Event::Doubted(_)
            | Event::Confirmed { .. } => {}
        }
    }

    fn leaving(&self, handoff: HandoffId) -> Option<cede_wire::id::SessionId> {
        let ids: Vec<_> = self.custodian.sessions().map(|(id, _)| id).collect();
        ids.into_iter().find(|id| self.custodian.leaving(*id).is_some_and(|source| source.offer().handoff == handoff))
    }

    fn head(&self) -> Head {
        let text = self.pages.as_deref().unwrap_or_default();
        Head { turn: text.lines().count() as u64, length: text.len() as u64, hash: Hash::of(text.as_bytes()) }
    }

    fn round(&self) -> Round {
        let head = self.head();
        Round { head, root: head.hash, catalog: Vec::new(), payload_bytes: head.length, exchange_key: [0; 32] }
    }
}

/// Carries messages and parcels until both are silent. At every moment at most one of the two may act.
fn exchange(source: &mut Device, destination: &mut Device) {
    loop {
        if let Some(parcel) = source.parcel.take() {
            destination.staged = Some(parcel);
        }
        if let Some(message) = source.outbox.pop_front() {
            destination.hear(source.id(), &message);
        } else if let Some(message) = destination.outbox.pop_front() {
            source.hear(destination.id(), &message);
        } else {
            return;
        }
    }
}

fn meet(one: &mut Device, other: &mut Device) {
    one.custodian.link_up(other.id(), now());
    other.custodian.link_up(one.id(), now());
    one.drain();
    other.drain();
}

fn say(one: &Device, other: &Device, key: &SessionKey) {
    for device in [one, other] {
        let in_charge = device.custodian.may_act(key.id()) && device.pages.is_some();
        println!("{}: {}", device.name, if in_charge { "in charge" } else { "not in charge" });
    }
}

fn notebook() -> Result<SessionKey, Box<dyn Error>> {
    let native = NativeId::parse("notebook-1").ok_or("not an id")?;
    Ok(SessionKey { agent: AgentKind::Files, native })
}

fn scope() -> Scope {
    Scope {
        inventory: Vec::new(),
        limit_bytes: 1 << 20,
        limit_entries: 1,
        executables: Vec::new(),
        dotfiles: Vec::new(),
        configuration_as_code: Vec::new(),
    }
}

/// A real application reads its clocks here.
fn now() -> Now {
    Now { monotonic: Duration::from_secs(1), unix_ms: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: H-6, H-7
    #[test]
    fn notebook_goes_there_and_back_and_one_device_writes_at_a_time() {
        let key = notebook().unwrap();
        let (mut desk, mut bag) = (Device::new("desk", 1).unwrap(), Device::new("bag", 2).unwrap());
        desk.pages = Some("one".to_owned());
        meet(&mut desk, &mut bag);
        desk.hand_over(&key, bag.id(), HandoffId::new([7; 16])).unwrap();
        assert!(desk.write(&key, "").is_ok(), "an offer takes nothing away");
        exchange(&mut desk, &mut bag);
        assert!(desk.write(&key, " desk").is_err());
        bag.write(&key, " two").unwrap();
        bag.hand_over(&key, desk.id(), HandoffId::new([8; 16])).unwrap();
        exchange(&mut bag, &mut desk);
        assert!(bag.write(&key, " bag").is_err());
        assert_eq!(desk.pages.as_deref(), Some("one two"));
    }
}
