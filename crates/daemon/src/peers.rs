//! The links to the other members: dialled when something waits for them, kept while they last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use cede_carrier::closing::CloseReason;
use cede_carrier::endpoint::dial::DialError;
use cede_carrier::gate::Gate;
use cede_carrier::link::control::{ControlReceiver, ControlSender};
use cede_carrier::link::{Link, LinkError};
use cede_core::custodian::Standing;
use cede_core::destination::DestinationPhase;
use cede_core::electorate::Electorate;
use cede_mesh::membership::MembershipLog;
use cede_seal::stream::HEADER_BYTES;
use cede_wire::canonical::Signed;
use cede_wire::id::{DeviceId, DeviceKey, MeshId, SessionId};
use cede_wire::member::{Member, MemberEntry};
use cede_wire::message::{Hello, PROTOCOL_MAX, PROTOCOL_MIN, PeerMessage};
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::transfer::TransferMessage;
use tokio::io::AsyncReadExt;
use tokio::sync::{Notify, mpsc};

use crate::actor::{Actor, Input};
use crate::authorities::Asker;
use crate::context::Context;
use crate::errands::Pace;
use crate::limits;
use crate::receiving::Routed;

/// Who the door lets in: read by the handshake, written by the actor.
#[derive(Default)]
pub(crate) struct Door {
    admitted: RwLock<BTreeSet<DeviceKey>>,
    pairing: std::sync::atomic::AtomicBool,
}

impl Gate for Door {
    fn admits(&self, key: &DeviceKey) -> bool {
        self.admitted.read().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    fn pairing_open(&self) -> bool {
        self.pairing.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Door {
    pub(crate) fn open_pairing(&self, open: bool) {
        self.pairing.store(open, std::sync::atomic::Ordering::SeqCst);
    }
}

/// What is said of a device that answered so.
pub(crate) const NOT_ADMITTED: &str = "does not admit this device";

/// The members, and the links to them.
pub(crate) struct Peers {
    me: DeviceId,
    /// Random for each life of this daemon.
    pub(crate) run: u64,
    pub(crate) log: Option<MembershipLog>,
    pub(crate) dropped: BTreeSet<DeviceId>,
    /// Where a device was reached, or a person said that it is.
    pub(crate) addresses: BTreeMap<DeviceId, String>,
    /// Where a device last came from: tried after the other one, since it may be a door that opens only outwards.
    seen: BTreeMap<DeviceId, String>,
    pub(crate) door: Arc<Door>,
    /// The links to each member. Two when both dialed at once: the newest is used, the other may be what the peer uses.
    links: BTreeMap<DeviceId, Vec<Up>>,
    /// Why a device was not reached when it was last dialed.
    troubles: BTreeMap<DeviceId, DialError>,
    /// When the last link to a device ended, milliseconds since 1970.
    left: BTreeMap<DeviceId, u64>,
    unsent: BTreeMap<DeviceId, VecDeque<PeerMessage>>,
    keepers: BTreeMap<DeviceId, Arc<Notify>>,
    next_link: u64,
}

struct Up {
    number: u64,
    link: Link,
    outbox: mpsc::Sender<PeerMessage>,
}

impl Peers {
    pub(crate) fn new(me: DeviceId, log: Option<MembershipLog>, door: Arc<Door>) -> Self {
        let mut peers = Self {
            me,
            run: 0,
            log,
            dropped: BTreeSet::new(),
            addresses: BTreeMap::new(),
            seen: BTreeMap::new(),
            door,
            links: BTreeMap::new(),
            troubles: BTreeMap::new(),
            left: BTreeMap::new(),
            unsent: BTreeMap::new(),
            keepers: BTreeMap::new(),
            next_link: 0,
        };
        peers.refresh_door();
        peers
    }

    /// Tells the door who the members are now.
    pub(crate) fn refresh_door(&mut self) {
        let keys = self.members().into_iter().map(|member| member.key).collect();
        *self.door.admitted.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The other members that this device serves.
    pub(crate) fn members(&self) -> Vec<Member> {
        let Some(log) = &self.log else { return Vec::new() };
        let served = |member: &&Member| self.serves(member.device());
        log.members().filter(served).cloned().collect()
    }

    fn serves(&self, device: DeviceId) -> bool {
        device != self.me && !self.dropped.contains(&device)
    }

    pub(crate) fn member(&self, device: DeviceId) -> Option<&Member> {
        self.log.as_ref().filter(|_| self.serves(device))?.member(&device)
    }

    pub(crate) fn is_member(&self, device: DeviceId) -> bool {
        self.member(device).is_some()
    }

    /// A member's name.
    pub(crate) fn name(&self, device: DeviceId) -> Option<String> {
        self.member(device).map(|member| member.name.clone())
    }

    /// What a device is called that is a member, or was one.
    pub(crate) fn former_name(&self, device: DeviceId) -> Option<String> {
        self.log.as_ref()?.name_of(&device).map(str::to_owned)
    }

    pub(crate) fn mesh(&self) -> Option<MeshId> {
        self.log.as_ref().map(MembershipLog::mesh)
    }

    /// The address of its link, or the last one that is known.
    pub(crate) fn address_of(&self, device: DeviceId) -> Option<String> {
        let linked = self.link(device).map(|link| link.remote_addr().to_string());
        linked.or_else(|| self.addresses.get(&device).cloned())
    }

    pub(crate) fn link(&self, device: DeviceId) -> Option<Link> {
        self.newest(device).map(|standing| standing.link.clone())
    }

    /// Why a device cannot be reached, as far as it is known.
    pub(crate) fn trouble(&self, device: DeviceId) -> (Refusal, String) {
        match self.troubles.get(&device) {
            Some(error @ DialError::VersionMismatch { .. }) => (Refusal::VersionMismatch, error.to_string()),
            Some(error @ (DialError::Refused | DialError::NotAMember)) => (Refusal::NotGranted, error.to_string()),
            Some(error @ (DialError::WrongKey { .. } | DialError::WrongMesh { .. })) => {
                (Refusal::Unauthorized, error.to_string())
            }
            Some(error) => (Refusal::TimedOut, error.to_string()),
            None if self.addresses.contains_key(&device) => (Refusal::TimedOut, DialError::Unreachable.to_string()),
            None => (Refusal::TimedOut, "where the device is was not said".to_owned()),
        }
    }

    /// Whether something answered there that will not become the device by waiting.
    pub(crate) fn turns_us_away(&self, device: DeviceId) -> bool {
        self.troubles.get(&device).is_some_and(|error| match error {
            DialError::WrongKey { .. }
            | DialError::Refused
            | DialError::NotAMember
            | DialError::NoCommonAlpn
            | DialError::VersionMismatch { .. }
            | DialError::WrongMesh { .. } => true,
            DialError::Unreachable
            | DialError::TimedOut
            | DialError::Busy
            | DialError::TooManyLinks
            | DialError::Address
            | DialError::GreetingTooLong
            | DialError::EndpointClosed
            | DialError::Protocol(_)
            | DialError::Lost(_)
            | DialError::Local(_) => false,
        })
    }

    /// Whether the device answered that it does not admit this one.
    pub(crate) fn refuses_us(&self, device: DeviceId) -> bool {
        matches!(self.troubles.get(&device), Some(DialError::Refused))
    }

    /// What is said of a device that nothing can be sent to at this moment.
    pub(crate) fn absence(&self, device: DeviceId) -> Option<&'static str> {
        match self.is_connected(device) {
            true => None,
            false if self.refuses_us(device) => Some(NOT_ADMITTED),
            false => Some("is away"),
        }
    }

    /// When a device was last connected, milliseconds since 1970; none: not since this daemon started.
    pub(crate) fn last_seen(&self, device: DeviceId) -> Option<u64> {
        if self.is_connected(device) { Some(crate::clock::unix_ms()) } else { self.left.get(&device).copied() }
    }

    /// The number of the link that is used.
    pub(crate) fn newest_link(&self, device: DeviceId) -> Option<u64> {
        self.newest(device).map(|standing| standing.number)
    }

    fn newest(&self, device: DeviceId) -> Option<&Up> {
        self.links.get(&device).and_then(|links| links.last())
    }

    /// How much came on the newest link to a device; none without one.
    pub(crate) fn heard(&self, device: DeviceId) -> Option<u64> {
        self.links.get(&device).and_then(|links| links.last()).map(|up| up.link.heard())
    }

    /// The link that is used, as one that asks.
    pub(crate) fn asker(&self, device: DeviceId) -> Option<Asker> {
        self.newest(device).map(|standing| Asker { device, link: standing.number })
    }

    /// The life of the daemon at the other end of a link.
    pub(crate) fn run_of(&self, asker: Asker) -> Option<u64> {
        let links = self.links.get(&asker.device)?;
        links.iter().find(|up| up.number == asker.link).map(|up| up.link.hello().run)
    }

    /// The devices to which a link stands.
    pub(crate) fn connected(&self) -> Vec<DeviceId> {
        self.links.keys().copied().collect()
    }

    pub(crate) fn is_connected(&self, device: DeviceId) -> bool {
        self.links.contains_key(&device)
    }

    /// Whose votes a seize takes, as the log says after each of its entries.
    pub(crate) fn electorate(&self) -> Electorate {
        let mut electorate = Electorate::default();
        let history = self.log.as_ref().map(MembershipLog::history).unwrap_or_default();
        (1..).zip(history).for_each(|(length, enrolled)| electorate.note(length, enrolled));
        electorate
    }

    /// Our greeting; none before there is a mesh.
    pub(crate) fn hello(&self) -> Option<Hello> {
        Some(Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            device: self.me,
            mesh: self.mesh()?,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            members: self.log.as_ref().map_or(0, |log| log.length()),
            run: self.run,
        })
    }
}

impl Actor {
    /// Sends, now or as soon as the peer is reached.
    pub(crate) fn send(&mut self, to: DeviceId, mut message: PeerMessage) {
        self.context.name_places_for_peers(&mut message);
        if !self.peers.is_member(to) {
            // It was removed: what an attempt still has to say goes to nobody.
            return;
        }
        if let PeerMessage::Offer { offer, .. } = &message
            && message.to_frame().is_err()
        {
            return self.offer_too_long(&offer.clone());
        }
        let Some(standing) = self.peers.newest(to) else {
            if waits(&message) {
                let unsent = self.peers.unsent.entry(to).or_default();
                if unsent.len() >= limits::UNSENT {
                    unsent.pop_front();
                }
                unsent.push_back(message);
            }
            self.reach(to);
            return;
        };
        if standing.outbox.try_send(message).is_err() {
            tracing::warn!(peer = %to.short(), "a peer does not read; closing its link");
            self.close_link(to, CloseReason::Busy);
        }
    }

    /// Sends on one link and no other. False: it is gone.
    pub(crate) fn send_on(&mut self, on: Asker, message: PeerMessage) -> bool {
        let links = self.peers.links.get(&on.device);
        let Some(standing) = links.and_then(|links| links.iter().find(|standing| standing.number == on.link)) else {
            return false;
        };
        let sent = standing.outbox.try_send(message).is_ok();
        // Until its end has come through, a link that was closed is tried in vain, and nobody is told twice.
        if !sent && standing.link.is_closed().is_none() {
            tracing::warn!(peer = %on.device.short(), "a peer does not read; closing its link");
            standing.link.close(CloseReason::Busy);
        }
        sent
    }

    /// An offer whose lists and chain fill more than a frame ends before it leaves.
    fn offer_too_long(&mut self, offer: &Signed<cede_wire::handoff::Offer>) {
        if let Ok(offer) = cede_seal::verify::verify(offer) {
            let detail = "its lists of executables, dotfiles and configuration, with its custody chain, are too long";
            self.custodian.cancel(offer.key.id(), Refusal::TooLarge, detail);
        }
    }

    pub(crate) fn close_link(&mut self, device: DeviceId, reason: CloseReason) {
        for standing in self.peers.links.get(&device).into_iter().flatten() {
            standing.link.close(reason);
        }
    }

    /// Wakes the task that keeps a link to this member.
    pub(crate) fn reach(&mut self, device: DeviceId) {
        if let Some(keeper) = self.peers.keepers.get(&device) {
            keeper.notify_one();
        }
    }

    /// The same, for a person who waits: what went wrong before does not count.
    pub(crate) fn reach_afresh(&mut self, device: DeviceId) {
        self.peers.troubles.remove(&device);
        self.reach(device);
    }

    /// Starts a keeper for each member that has none.
    pub(crate) fn keep_links(&mut self) {
        for member in self.peers.members() {
            let device = member.device();
            if self.peers.keepers.contains_key(&device) {
                continue;
            }
            let wake = Arc::new(Notify::new());
            self.peers.keepers.insert(device, wake.clone());
            tokio::spawn(keep(self.context.clone(), member, wake));
        }
    }

    /// A peer came in: from where may be of use once the known address is not.
    pub(crate) fn came_in(&mut self, link: Link) {
        let (device, from) = (link.peer().device(), link.remote_addr().to_string());
        if !self.peers.is_member(device) {
            link.close(CloseReason::NotAdmitted);
            return;
        }
        if !self.peers.addresses.contains_key(&device) {
            self.note_address(device, from.clone());
        }
        self.peers.seen.insert(device, from);
        self.link_up(link);
    }

    /// A peer was reached: there it will be looked for again.
    pub(crate) fn reached(&mut self, link: Link, address: String) {
        let device = link.peer().device();
        if !self.peers.is_member(device) {
            link.close(CloseReason::NotAdmitted);
            return;
        }
        self.note_address(device, address);
        self.link_up(link);
    }

    fn link_up(&mut self, link: Link) {
        let device = link.peer().device();
        let Some(control) = link.take_control() else { return };
        self.peers.next_link += 1;
        let number = self.peers.next_link;
        if !self.authority_begins(Asker { device, link: number }) {
            link.close(CloseReason::NotAdmitted);
            return;
        }
        let (outbox, messages) = mpsc::channel(limits::OUTBOX);
        tokio::spawn(write(link.clone(), control.0, messages));
        tokio::spawn(read(self.context.clone(), device, number, link.clone(), control.1));
        tokio::spawn(route(self.context.clone(), device, link.clone()));
        let (theirs, run) = (link.hello().members, link.hello().run);
        let links = self.peers.links.entry(device).or_default();
        links.push(Up { number, link, outbox });
        let too_many = links.len().saturating_sub(limits::LINKS_PER_PEER);
        // Nobody is left at the other end of a link to an earlier life of the peer.
        let stale = |(at, up): &(usize, &Up)| *at < too_many || up.link.hello().run != run;
        let old: Vec<(u64, Link)> =
            links.iter().enumerate().filter(stale).map(|(_, old)| (old.number, old.link.clone())).collect();
        for (number, link) in old {
            link.close(CloseReason::Superseded);
            self.authority_ends(Asker { device, link: number });
            self.elsewhere_link_down(Asker { device, link: number });
        }
        self.approver_link_changed(device);
        self.share_members(device, theirs);
        self.peers.troubles.remove(&device);
        tracing::info!(peer = %device.short(), "link up");
        for message in self.peers.unsent.remove(&device).unwrap_or_default() {
            self.send(device, message);
        }
        self.custodian.link_up(device, self.context.clock.now());
        self.ledger.link_up(device, self.context.clock.now());
        self.pass_letters_on();
        self.transfers.link_up(device);
        self.task_lines_link_up(device);
        self.tasks_link_up(device);
        self.send(device, PeerMessage::SessionsQuery);
        self.mirrors_link_up(device);
        self.repeat_takes(device);
        self.afar_link_up(device);
    }

    /// The link on which a peer is asked and answered now.
    pub(crate) fn asker(&self, device: DeviceId) -> Option<Asker> {
        self.peers.newest(device).map(|up| Asker { device, link: up.number })
    }

    pub(crate) fn link_down(&mut self, device: DeviceId, number: u64) {
        self.authority_ends(Asker { device, link: number });
        self.elsewhere_link_down(Asker { device, link: number });
        self.approver_link_changed(device);
        let Some(links) = self.peers.links.get_mut(&device) else { return };
        let used = links.last().is_some_and(|standing| standing.number == number);
        links.retain(|standing| standing.number != number);
        if links.is_empty() {
            self.peers.links.remove(&device);
            self.peers.left.insert(device, crate::clock::unix_ms());
            self.custodian.link_down(device);
            self.ledger.link_down(device);
            self.transfers.link_down(device);
            self.leaving_link_down(device);
            self.arriving_link_down(device);
            self.reach(device);
            tracing::info!(peer = %device.short(), "link down");
        } else if used {
            // What was said on the link that ended may be lost: it is said again on the other one.
            self.custodian.link_up(device, self.context.clock.now());
            self.ledger.link_up(device, self.context.clock.now());
            self.transfers.link_up(device);
            self.mirrors_link_up(device);
            self.repeat_takes(device);
            self.tasks_link_up(device);
        }
        self.afar_link_down(device, number);
    }

    fn note_address(&mut self, device: DeviceId, address: String) {
        if self.peers.addresses.get(&device) != Some(&address) {
            self.peers.addresses.insert(device, address.clone());
            self.record(Record::AddressSeen { device, address });
        }
    }

    fn share_members(&mut self, device: DeviceId, theirs: u64) {
        let Some(log) = &self.peers.log else { return };
        let missing = log.entries_after(theirs).to_vec();
        if !missing.is_empty() {
            self.send(device, PeerMessage::Members(missing));
        }
    }

    /// A peer knows more members than this device.
    pub(crate) fn handle_members(&mut self, from: DeviceId, entries: &[Signed<MemberEntry>]) {
        let Some(log) = &mut self.peers.log else { return };
        let before = log.length();
        if let Err(error) = log.extend(entries) {
            tracing::warn!(peer = %from.short(), %error, "membership entries refused");
            return;
        }
        let new = log.entries_after(before).to_vec();
        if new.is_empty() {
            // An answer to what is known already would be answered in turn, for ever.
            return;
        }
        self.pending.push_back(new.iter().cloned().map(Record::Member).collect());
        self.members_changed();
    }

    /// The members are others now: the door, the links and the keepers follow.
    pub(crate) fn members_changed(&mut self) {
        self.custodian.set_electorate(self.peers.electorate());
        self.context.greeting.notify_one();
        self.peers.refresh_door();
        self.authorities_of_strangers_end();
        let gone: Vec<Link> = self
            .peers
            .links
            .iter()
            .filter(|(device, _)| !self.peers.is_member(**device))
            .flat_map(|(_, links)| links.iter().map(|standing| standing.link.clone()))
            .collect();
        for link in gone {
            self.context.endpoint.drop_peer(&link.peer());
        }
        self.end_with_strangers();
        self.end_tasks_of_strangers();
        self.forget_letters_of_strangers();
        self.forget_mirrors_of_strangers();
        let peers = &self.peers;
        self.approvers.retain(|device| peers.is_member(device));
        self.questions_changed = true;
        self.keep_links();
        let connected = self.peers.connected();
        for device in connected {
            let theirs = self.peers.newest(device).map_or(0, |standing| standing.link.hello().members);
            self.share_members(device, theirs);
        }
    }

    /// What is under way with a device that is no member any more ends now: a session is not held still for it.
    fn end_with_strangers(&mut self) {
        const REMOVED: &str = "the other device was removed";
        self.forget_questions_of_strangers();
        self.forget_transfers_of_strangers();
        self.end_looks_of_strangers();
        let peers = &self.peers;
        self.takes.give_up(|device| peers.is_member(device));
        self.end_refused_takes();
        let leaving = self.leaving.iter().filter(|(_, leaving)| !self.peers.is_member(leaving.destination));
        for session in leaving.map(|(id, _)| *id).collect::<Vec<_>>() {
            if self.custodian.leaving(session).is_some() {
                self.custodian.cancel(session, Refusal::NotGranted, REMOVED);
            } else if self.is_here(session) {
                self.withdraw_leaving(session);
            }
        }
        // What is staged stays: the owner may have decided already, and said so to another device.
        let receiving = |id: SessionId| {
            let arriving = self.custodian.arriving(id)?;
            let attempt = arriving.attempt();
            let coming = matches!(arriving.phase(), DestinationPhase::Receiving { .. }) && !self.is_here(id);
            (coming && !self.peers.is_member(attempt.source)).then_some((id, attempt.handoff))
        };
        let coming: Vec<_> = self.custodian.sessions().filter_map(|(id, _)| receiving(id)).collect();
        for (session, handoff) in coming {
            self.custodian.receive_failed(session, handoff, Refusal::NotGranted, REMOVED);
        }
    }

    /// Whether something of a session waits for this peer.
    pub(crate) fn waits_for(&self, device: DeviceId) -> bool {
        let waits = |standing| match standing {
            Standing::ReleasedTo(to) => to == device,
            Standing::Leaving(_) | Standing::PayloadMissing => true,
            Standing::InCharge
            | Standing::Arriving
            | Standing::Elsewhere(_)
            | Standing::SeizedBy(_)
            | Standing::Unconfirmed => false,
        };
        let unsent = self.peers.unsent.get(&device).is_some_and(|messages| !messages.is_empty());
        let arrives = |id| self.custodian.arriving(id).is_some_and(|attempt| attempt.attempt().source == device);
        unsent
            || self.letter_waits_for(device)
            || self.afar.waits_for(device)
            || self.takes.waits_for(device)
            || self.transfers.waits_for(device)
            || self.custodian.sessions().any(|(id, s)| waits(s) || arrives(id))
    }
}

/// Whether a message is kept for a peer that is out of reach. Everything else is said anew when the link is up, and
/// what an old link left unsaid would only be taken for an answer to it.
fn waits(message: &PeerMessage) -> bool {
    match message {
        PeerMessage::Refuse { .. } | PeerMessage::Abort { .. } | PeerMessage::TakeAnswer { .. } => true,
        PeerMessage::Transfer(message) => matches!(**message, TransferMessage::End { .. }),
        PeerMessage::Hello(_)
        | PeerMessage::Members(_)
        | PeerMessage::Offer { .. }
        | PeerMessage::Accept(_)
        | PeerMessage::Manifest(_)
        | PeerMessage::Need { .. }
        | PeerMessage::RoundComplete { .. }
        | PeerMessage::CommitAck(_)
        | PeerMessage::Release { .. }
        | PeerMessage::Activated(_)
        | PeerMessage::Status { .. }
        | PeerMessage::StatusAnswer { .. }
        | PeerMessage::ReleaseQuery { .. }
        | PeerMessage::Refetch(_)
        | PeerMessage::Take { .. }
        | PeerMessage::SessionsQuery
        | PeerMessage::Sessions(_)
        | PeerMessage::SeizeQuery { .. }
        | PeerMessage::SeizeAnswer { .. }
        | PeerMessage::CustodyQuery(_)
        | PeerMessage::Custody(_)
        | PeerMessage::CustodyAnswer(_)
        | PeerMessage::Letters(_)
        | PeerMessage::Terminal(_)
        | PeerMessage::LetterReceipts(_)
        | PeerMessage::ReceiptsHeld(_)
        | PeerMessage::Audit(_)
        | PeerMessage::Approver(_)
        | PeerMessage::TaskProgress { .. } => false,
    }
}

/// Keeps a link to one member: dials when there is none, faster while something waits for it.
async fn keep(context: Context, member: Member, wake: Arc<Notify>) {
    let device = member.device();
    let mut wait = limits::DIAL_FIRST;
    loop {
        let Ok(look) = context.ask(move |actor| look(actor, device)).await else { return };
        match look {
            Look::Gone => return,
            Look::Connected => wait = limits::DIAL_FIRST,
            Look::Dial { addresses, urgent } => {
                if !dial_any(&context, &member, &addresses).await {
                    wait = if urgent { (wait * 2).min(limits::DIAL_LONGEST) } else { limits::DIAL_IDLE };
                }
            }
            Look::NoAddress => {}
        }
        let idle = match look_wait(&context, device).await {
            Some(true) => wait,
            Some(false) => limits::DIAL_IDLE,
            None => return,
        };
        tokio::select! {
            () = tokio::time::sleep(idle) => {}
            () = wake.notified() => {}
        }
    }
}

enum Look {
    Gone,
    Connected,
    NoAddress,
    Dial { addresses: Vec<String>, urgent: bool },
}

fn look(actor: &mut Actor, device: DeviceId) -> Look {
    if !actor.peers.is_member(device) {
        actor.peers.keepers.remove(&device);
        return Look::Gone;
    }
    if actor.peers.is_connected(device) {
        return Look::Connected;
    }
    let known = [actor.peers.addresses.get(&device), actor.peers.seen.get(&device)];
    let mut addresses: Vec<String> = known.into_iter().flatten().cloned().collect();
    addresses.dedup();
    match addresses.is_empty() {
        false => Look::Dial { addresses, urgent: actor.waits_for(device) },
        true => Look::NoAddress,
    }
}

async fn look_wait(context: &Context, device: DeviceId) -> Option<bool> {
    context.ask(move |actor| !actor.peers.is_connected(device) && actor.waits_for(device)).await.ok()
}

impl Actor {
    fn not_reached(&mut self, device: DeviceId, error: DialError) {
        self.peers.troubles.insert(device, error);
        if self.peers.refuses_us(device) {
            self.end_looks_at(device);
        }
    }
}

async fn dial_any(context: &Context, member: &Member, addresses: &[String]) -> bool {
    for address in addresses {
        if dial(context, member, address).await {
            return true;
        }
    }
    false
}

/// One attempt to reach a member at an address. The link comes in as an input.
pub(crate) async fn dial(context: &Context, member: &Member, address: &str) -> bool {
    match dial_at(context, member, address).await {
        Ok(()) => true,
        Err(Unreached::Dial(error)) => {
            let device = member.device();
            tracing::debug!(peer = %device.short(), %error, "not reached");
            context.tell(move |actor| actor.not_reached(device, error)).await;
            false
        }
        Err(Unreached::NoHost(_) | Unreached::Stopping) => false,
    }
}

/// Looks whether a member answers at an address, for a person who waits.
pub(crate) async fn probe(context: &Context, member: &Member, address: &str) -> Result<(), Unreached> {
    let dialed = tokio::time::timeout(limits::PROBE, dial_at(context, member, address)).await;
    dialed.unwrap_or(Err(Unreached::Dial(DialError::Unreachable)))
}

/// Why a member was not reached at an address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    #[error(transparent)]
    Dial(DialError),
    #[error("no device has that name now: {0}")]
    NoHost(std::io::Error),
    #[error("the daemon stops")]
    Stopping,
}

async fn dial_at(context: &Context, member: &Member, address: &str) -> Result<(), Unreached> {
    let Ok(Some(hello)) = context.ask(|actor| actor.peers.hello()).await else { return Err(Unreached::Stopping) };
    let mut found = tokio::net::lookup_host(address.to_owned()).await.map_err(Unreached::NoHost)?;
    let socket = found.next().ok_or_else(|| Unreached::NoHost(std::io::ErrorKind::NotFound.into()))?;
    let link = context.endpoint.dial(socket, &member.key, &hello).await.map_err(Unreached::Dial)?;
    let reached = context.inputs.send(Input::Reached(link, address.to_owned())).await;
    reached.map_err(|_| Unreached::Stopping)
}

async fn write(link: Link, mut control: ControlSender, mut messages: mpsc::Receiver<PeerMessage>) {
    while let Some(message) = messages.recv().await {
        match control.send(&message).await {
            Ok(()) => {}
            Err(LinkError::TooLong) => tracing::error!(kind = message.kind(), "a message over the limit was not sent"),
            Err(error) => {
                tracing::debug!(%error, kind = message.kind(), "a message was not sent");
                link.close(CloseReason::Done);
                return;
            }
        }
    }
}

async fn read(context: Context, device: DeviceId, number: u64, link: Link, mut control: ControlReceiver) {
    let mut pace = Pace::new(Instant::now());
    while let Ok(Some(message)) = control.recv().await {
        loop {
            let pause = pace.next(Instant::now());
            if pause.is_zero() {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        if context.inputs.send(Input::Peer(Asker { device, link: number }, Box::new(message))).await.is_err() {
            return;
        }
    }
    link.close(CloseReason::Done);
    // A daemon that stops needs no news of links.
    let _ = context.inputs.send(Input::LinkDown(device, number)).await;
}

/// Brings each data stream to the move that it belongs to, by its header.
async fn route(context: Context, device: DeviceId, link: Link) {
    while let Ok(mut stream) = link.accept_data().await {
        let context = context.clone();
        tokio::spawn(async move {
            let mut header = [0; HEADER_BYTES];
            if stream.read_exact(&mut header).await.is_err() {
                return;
            }
            let Ok(handoff) = cede_seal::stream::stream_handoff(&header) else { return };
            let route = context.routes.get(&handoff).filter(|route| route.0 == device).map(|route| route.1.clone());
            if let Some(route) = route {
                // A move that ended reads no more; the stream is dropped and the sender told to stop.
                let _ = route.send(Routed { header, stream }).await;
            }
        });
    }
}
