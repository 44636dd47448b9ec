//! Pairing, wired: the host's machine lives in the actor, a guest's in a task of its own.

use core::time::Duration;
use std::net::SocketAddr;

use cede_carrier::discovery::{Announcement, Discovery, Scope};
use cede_carrier::endpoint::dial::DialError;
use cede_carrier::pairing::PairLink as Carried;
use cede_mesh::limits::WORDS_LIFE;
use cede_mesh::membership::MembershipLog;
use cede_mesh::now::Now;
use cede_mesh::pairing::{
    BeginError, EXPORTER_LABEL, Output, PairError, PairEvent, PairLink, PairingGuest, PairingHost, Words,
};
use cede_wire::audit::AuditAct;
use cede_wire::control::{Answer, Failure, PairingEvent, ReplyBody, exit};
use cede_wire::frame::Header;
use cede_wire::id::{DeviceId, DeviceKey, Hash, MeshId};
use cede_wire::pairing::PairMessage;
use cede_wire::record::Record;
use tokio::sync::mpsc;

use crate::actor::Actor;
use crate::clock::random;
use crate::context::Context;
use crate::control::Replies;
use crate::limits;
use crate::offering::failure;

/// The trusted side.
#[derive(Default)]
pub(crate) struct Pairing {
    host: PairingHost,
    watcher: Option<Replies>,
    guest: Option<(DeviceKey, SocketAddr, mpsc::Sender<PairMessage>)>,
    /// While words are shown, so that a new device finds this one.
    announcing: Option<Discovery>,
    /// The deadline that somebody sleeps for.
    watched: Option<Duration>,
}

/// Stands for the mesh in the announcements of pairing: a new device belongs to none.
const PAIRING: MeshId = MeshId::new([0; 32]);

impl Actor {
    fn pair_now(&self) -> Now {
        mesh_now(&self.context)
    }

    /// Shows words on this device; begins a mesh when there is none.
    pub(crate) fn arm_pairing(&mut self, expires_in_s: Option<u64>, replies: Replies) {
        match words_life(expires_in_s).and_then(|life| self.arm(life)) {
            Ok(words) => {
                let words = words.show().to_string();
                let reachable = crate::commands::reachable(&self.context);
                let command = format!("cede pair {words} --at {reachable}");
                let left = self.pairing.host.poll_timeout().unwrap_or_default();
                let left = left.saturating_sub(self.pair_now().monotonic).as_millis();
                let expires_in_s = u64::try_from(left.div_ceil(1_000)).unwrap_or(u64::MAX);
                replies.say(ReplyBody::Pairing(PairingEvent::Words { words, command, expires_in_s }));
                self.watch_pairing_client(replies);
                self.pairing.announcing = announce(&self.context);
                self.watch_pairing_deadline();
            }
            Err(failed) => replies.failed(failed),
        }
    }

    /// Words that nobody looks at any more are taken back: nobody could compare, or say yes.
    fn watch_pairing_client(&mut self, replies: Replies) {
        let (context, client) = (self.context.clone(), replies.watcher());
        if let Some(before) = self.pairing.watcher.replace(replies) {
            let why = "another command shows newer ones";
            before.failed(failure(exit::FAILED, "the words are not good any more", why, "use the newer ones"));
        }
        tokio::spawn(async move {
            client.closed().await;
            context.tell(move |actor| actor.pairing_client_left(&client)).await;
        });
    }

    fn pairing_client_left(&mut self, client: &mpsc::Sender<ReplyBody>) {
        if self.pairing.watcher.take_if(|watcher| watcher.watcher().same_channel(client)).is_some() {
            let now = self.pair_now();
            self.pairing.host.cancel(now);
        }
    }

    fn arm(&mut self, life: Duration) -> Result<Words, Failure> {
        let refused = |why: String, cure: &str| failure(exit::FAILED, "no words are shown", &why, cure);
        self.begin_mesh()?;
        let now = self.pair_now();
        let random = random().map_err(|error| refused(error.to_string(), ""))?;
        let local = self.context.local.clone();
        let Some(log) = &self.peers.log else { return Err(refused("there is no mesh".to_owned(), "")) };
        let words = self.pairing.host.arm(&local, log, &Self::granted(), life, random, now);
        self.peers.door.open_pairing(self.pairing.host.is_open());
        words.map_err(|error| refused(error.to_string(), "cede devices"))
    }

    fn begin_mesh(&mut self) -> Result<(), Failure> {
        if self.peers.log.is_some() {
            return Ok(());
        }
        let what = "no mesh was begun";
        let nonce = random().map_err(|error| failure(exit::FAILED, what, &error.to_string(), ""))?;
        let log = MembershipLog::genesis(&self.context.local, &self.name, nonce)
            .map_err(|error| failure(exit::FAILED, what, &error.to_string(), "cede up --name <name>"))?;
        self.join(log);
        Ok(())
    }

    /// This device belongs to a mesh from now on.
    fn join(&mut self, log: MembershipLog) {
        if let Some(own) = log.member(&self.context.local.device()) {
            self.name = own.name.clone();
        }
        self.custodian.join_mesh(log.mesh());
        self.pending.push_back(log.entries().iter().cloned().map(Record::Member).collect());
        self.peers.log = Some(log);
        self.members_changed();
    }

    /// Wakes the host's machine when its words run out.
    fn watch_pairing_deadline(&mut self) {
        let Some(due) = self.pairing.host.poll_timeout() else { return };
        // A stranger's messages move no deadline, and must not leave a sleeper each.
        if self.pairing.watched == Some(due) {
            return;
        }
        self.pairing.watched = Some(due);
        let (context, at) = (self.context.clone(), self.context.clock.instant(due));
        tokio::spawn(async move {
            tokio::time::sleep_until(at.into()).await;
            context
                .tell(|actor| {
                    let now = actor.pair_now();
                    actor.pairing.host.handle_timeout(now);
                })
                .await;
        });
    }

    pub(crate) fn confirm_pairing(&mut self, accept: bool) -> Result<Answer, Failure> {
        let now = self.pair_now();
        let local = self.context.local.clone();
        let what = "nothing was confirmed";
        let Some(log) = &mut self.peers.log else {
            return Err(failure(exit::FAILED, what, "no device waits for a confirmation", "cede pair"));
        };
        let confirmed = self.pairing.host.confirm(accept, &local, log, now);
        confirmed.map_err(|error| failure(exit::FAILED, what, &error.to_string(), "cede pair"))?;
        if accept {
            self.note_act(AuditAct::Paired, None, None);
        }
        Ok(Answer::Said { text: if accept { "welcome".to_owned() } else { "declined".to_owned() } })
    }

    /// Does what the host's machine wants, in its order. Batches are committed before the next input is taken; what is
    /// sent after them waits for that.
    pub(crate) fn drain_pairing(&mut self) -> Option<PairStep> {
        let output = self.pairing.host.poll()?;
        let open = self.pairing.host.is_open();
        self.peers.door.open_pairing(open);
        self.pairing.announcing.take_if(|_| !open);
        Some(match output {
            Output::Persist(records) => PairStep::Persist(records),
            Output::Send(message) => {
                if let Some((_, _, out)) = &self.pairing.guest {
                    // A guest that went away is told nothing.
                    let _ = out.try_send(message);
                }
                PairStep::Done
            }
            Output::Close => {
                self.pairing.guest = None;
                PairStep::Done
            }
            Output::Tell(event) => {
                self.tell_pairing(event);
                PairStep::Done
            }
        })
    }

    fn tell_pairing(&mut self, event: PairEvent) {
        match event {
            PairEvent::Compare { comparison, name, .. } => {
                let (comparison, name) = (comparison.to_string(), name.unwrap_or_default());
                let event = PairingEvent::Compare { comparison, name, confirm_here: true };
                if let Some(watcher) = &self.pairing.watcher {
                    watcher.say(ReplyBody::Pairing(event));
                }
                self.watch_pairing_deadline();
            }
            PairEvent::Added(member) => {
                let device = member.device();
                if let Some((key, address, _)) = &self.pairing.guest
                    && key.device() == device
                {
                    let address = address.to_string();
                    self.peers.addresses.insert(device, address.clone());
                    self.record(Record::AddressSeen { device, address });
                }
                self.members_changed();
            }
            PairEvent::Joined { mesh, peer } => {
                let member = self.peers.members().into_iter().find(|member| member.name == peer);
                if let (Some(watcher), Some(member)) = (self.pairing.watcher.take(), member) {
                    watcher.done(Answer::Paired { device: self.device(&member), mesh });
                }
            }
            PairEvent::Failed(error) => {
                if let Some(watcher) = self.pairing.watcher.take() {
                    watcher.failed(not_paired(&error));
                }
            }
        }
    }

    /// The new side: reaches the trusted device and enters the words.
    pub(crate) fn pair_with(&mut self, words: String, address: Option<String>, name: Option<String>, replies: Replies) {
        let parsed = Words::parse(&words);
        let words = match parsed {
            Ok(words) => words,
            Err(error) => {
                return replies.failed(failure(
                    exit::USAGE,
                    "the words cannot be right",
                    &error.to_string(),
                    "cede pair <words>",
                ));
            }
        };
        let name = name.unwrap_or_else(|| self.name.clone());
        let existing = self.peers.log.clone();
        let context = self.context.clone();
        tokio::spawn(async move {
            let result = guest(&context, words, address.as_deref(), &name, existing.as_ref(), &replies).await;
            replies.settle(result);
        });
    }
}

/// How long words shall live; a time that they never live is refused rather than cut.
fn words_life(seconds: Option<u64>) -> Result<Duration, Failure> {
    match seconds.map(Duration::from_secs) {
        None => Ok(WORDS_LIFE),
        Some(life) if !life.is_zero() && life <= WORDS_LIFE => Ok(life),
        Some(life) => {
            let why = format!("words live between 1 and {} seconds, not {}", WORDS_LIFE.as_secs(), life.as_secs());
            Err(failure(exit::USAGE, "no words are shown", &why, "cede pair --expires 5m"))
        }
    }
}

fn mesh_now(context: &Context) -> Now {
    let now = context.clock.now();
    Now { monotonic: now.monotonic, unix_ms: now.unix_ms }
}

/// One output of the host's machine, done or to be committed.
pub(crate) enum PairStep {
    Done,
    Persist(Vec<Record>),
}

/// Who typed `cede pair` on both devices has two meshes of one each: the hint must not lead to a third.
const fn cure_of_begin(error: &BeginError) -> &'static str {
    match error {
        BeginError::HasMesh { devices: 1 } => {
            "let the other device go on showing its words; here, leave the mesh that was begun: cede devices leave --yes, \
             then cede up; then type this line again"
        }
        BeginError::HasMesh { .. } => {
            "cede devices leave, then cede up, then type this line again. To add the other device to this mesh instead: cede \
             pair here, and the line that it shows there"
        }
        BeginError::Ourselves => "type the line on the new device, not on the one that shows it",
    }
}

fn not_paired(error: &PairError) -> Failure {
    let (exit, cure) = match error {
        PairError::Version { .. } => (exit::VERSION, "update the older of the two"),
        PairError::Declined => (exit::REFUSED, "cede pair"),
        PairError::Expired | PairError::Silent => (exit::TIMEOUT, "cede pair"),
        PairError::Removed => (exit::REFUSED, "here, for a new key: cede devices leave"),
        PairError::WrongWords
        | PairError::Abandoned
        | PairError::Cancelled
        | PairError::NotArmed
        | PairError::Busy
        | PairError::Protocol(_)
        | PairError::Log(_)
        | PairError::OtherMesh
        | PairError::NotInLog
        | PairError::Unconfirmed
        | PairError::Refused(_) => (exit::REFUSED, "on the trusted device: cede pair"),
    };
    failure(exit, "the devices are not paired", &error.to_string(), cure)
}

/// Serves one stranger who came in to pair.
pub(crate) async fn serve_guest(context: Context, mut link: Carried) {
    let (peer, address) = (link.peer(), link.remote_addr());
    let Ok(exporter) = link.exporter(EXPORTER_LABEL) else { return };
    let Ok(random) = random() else { return };
    let (out, mut outgoing) = mpsc::channel(16);
    let connected = context.ask(move |actor| {
        let now = actor.pair_now();
        let Some(log) = &actor.peers.log else { return Err(cede_mesh::pairing::ConnectError::NotArmed) };
        actor.pairing.host.handle_connected(PairLink { peer, exporter }, log, random, now)?;
        actor.pairing.guest = Some((peer, address, out));
        Ok(())
    });
    match connected.await {
        Ok(Ok(())) => {}
        Ok(Err(refused)) => {
            let _ = send(&mut link, &refused.refusal()).await;
            let _ = link.finish().await;
            return;
        }
        Err(_) => return,
    }
    loop {
        tokio::select! {
            message = outgoing.recv() => match message {
                Some(message) => if send(&mut link, &message).await.is_err() { break },
                // The machine closed it: what was sent arrives first.
                None => { let _ = link.finish().await; return; }
            },
            received = receive(&mut link) => match received {
                Some(message) => context.tell(move |actor| {
                    // What a guest whose ceremony is over still says is not the next one's.
                    if actor.pairing.guest.as_ref().is_none_or(|guest| guest.0 != peer) {
                        return;
                    }
                    let now = actor.pair_now();
                    actor.pairing.host.handle_message(message, now);
                    actor.watch_pairing_deadline();
                }).await,
                None => break,
            },
        }
    }
    context
        .tell(move |actor| {
            if actor.pairing.guest.as_ref().is_some_and(|guest| guest.0 == peer) {
                let now = actor.pair_now();
                actor.pairing.host.handle_disconnected(now);
                actor.pairing.guest = None;
            }
        })
        .await;
}

async fn send(link: &mut Carried, message: &PairMessage) -> Result<(), cede_carrier::link::LinkError> {
    let body = cede_wire::canonical::encode(message);
    link.send_frame(message.kind(), &body).await
}

async fn receive(link: &mut Carried) -> Option<PairMessage> {
    loop {
        let (kind, body) = link.recv_frame().await.ok()??;
        let header = Header { kind, length: u32::try_from(body.len()).ok()? };
        if let Some(message) = PairMessage::from_frame(header, &body).ok()? {
            return Some(message);
        }
    }
}

/// Announces this device to new ones, where it is announced at all.
fn announce(context: &Context) -> Option<Discovery> {
    let port = context.endpoint.local_addr().ok().filter(|_| context.scope != Scope::Off)?.port();
    let announcement = Announcement { device: newcomer(context), mesh: PAIRING, port };
    Some(Discovery::start(announcement, context.scope))
}

/// Another name than the one under which this device is announced to its mesh: one network, one answer a name.
fn newcomer(context: &Context) -> DeviceId {
    DeviceId::new(*Hash::of(context.local.device().as_bytes()).as_bytes())
}

fn unreached(why: String) -> Failure {
    let cure = "check that `cede pair` still shows its words there, and paste its whole line: cede pair <words> --at HOST:PORT";
    failure(exit::FAILED, "the trusted device was not reached", &why, cure)
}

/// A device that pairs with nobody tells a stranger no more than that.
fn undialed(error: &DialError) -> Failure {
    if *error != DialError::Refused {
        return unreached(error.to_string());
    }
    let why = "the device there shows no words now: they ran out, were used up, or were never shown";
    failure(exit::REFUSED, "the devices are not paired", why, "on the trusted device: cede pair")
}

/// Reaches the device at this address, or the one near by that shows words.
async fn reach(context: &Context, address: Option<&str>) -> Result<Carried, Failure> {
    let Some(address) = address else { return look_around(context).await };
    let mut found = tokio::net::lookup_host(address).await.map_err(|error| unreached(format!("{address}: {error}")))?;
    let socket = found.next().ok_or_else(|| unreached(format!("{address} has no address")))?;
    context.endpoint.dial_pairing(socket).await.map_err(|error| undialed(&error))
}

/// Only a device that shows words answers; announcements prove nothing, the words do.
async fn look_around(context: &Context) -> Result<Carried, Failure> {
    let Some(mut discovery) = announce(context) else {
        return Err(unreached("where it is was not said, and nothing is looked for on the local network".to_owned()));
    };
    let deadline = tokio::time::Instant::now() + limits::LOOK_AROUND;
    let mut tried = Vec::new();
    while tried.len() < limits::LOOK_AROUND_DEVICES {
        let Ok(hint) = tokio::time::timeout_at(deadline, discovery.next()).await else { break };
        if hint.may_be(&newcomer(context)) || tried.contains(&hint.address) {
            continue;
        }
        tried.push(hint.address);
        if let Ok(link) = context.endpoint.dial_pairing(hint.address).await {
            return Ok(link);
        }
    }
    Err(unreached("no device on the local network shows words".to_owned()))
}

async fn guest(
    context: &Context,
    words: Words,
    address: Option<&str>,
    name: &str,
    existing: Option<&MembershipLog>,
    replies: &Replies,
) -> Result<Answer, Failure> {
    let mut link = reach(context, address).await?;
    let socket = link.remote_addr();
    let exporter = link.exporter(EXPORTER_LABEL).map_err(|error| unreached(error.to_string()))?;
    let random = random().map_err(|error| unreached(error.to_string()))?;
    let now = || mesh_now(context);
    let ends = PairLink { peer: link.peer(), exporter };
    let begun = PairingGuest::begin(context.local.key(), name, words, existing, ends, random, now());
    let mut machine = begun
        .map_err(|error| failure(exit::FAILED, "nothing was paired", &error.to_string(), cure_of_begin(&error)))?;
    loop {
        while let Some(output) = machine.poll() {
            match output {
                // Joining is one step of the actor; it is durable before the next one is answered.
                Output::Persist(_) => adopt_log(context, &machine, link.peer(), socket).await,
                Output::Send(message) => drop(send(&mut link, &message).await),
                Output::Close => {}
                Output::Tell(PairEvent::Compare { comparison, .. }) => {
                    let comparison = comparison.to_string();
                    let event = PairingEvent::Compare { comparison, name: String::new(), confirm_here: false };
                    replies.say(ReplyBody::Pairing(event));
                }
                Output::Tell(PairEvent::Joined { mesh, .. }) => {
                    let host = link.peer();
                    // The last word arrives before the link ends.
                    let _ = link.finish().await;
                    let device = context.ask(move |actor| {
                        let member = actor.peers.member(host.device()).cloned();
                        actor.reach(host.device());
                        member.map(|member| actor.device(&member))
                    });
                    let device = device.await.map_err(crate::offering::stopping)?;
                    let device =
                        device.ok_or_else(|| unreached("the log does not hold the trusted device".to_owned()))?;
                    return Ok(Answer::Paired { device, mesh });
                }
                Output::Tell(PairEvent::Added(_)) => {}
                Output::Tell(PairEvent::Failed(error)) => {
                    let _ = link.finish().await;
                    return Err(not_paired(&error));
                }
            }
        }
        let due = machine.poll_timeout().map(|at| context.clock.instant(at));
        tokio::select! {
            received = receive(&mut link) => match received {
                Some(message) => machine.handle_message(message, now()),
                None => machine.handle_disconnected(),
            },
            () = wait(due) => machine.handle_timeout(now()),
        }
    }
}

async fn wait(due: Option<std::time::Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => core::future::pending().await,
    }
}

async fn adopt_log(context: &Context, machine: &PairingGuest, host: DeviceKey, socket: SocketAddr) {
    let Some(log) = machine.log().cloned() else { return };
    context
        .tell(move |actor| {
            let (device, address) = (host.device(), socket.to_string());
            actor.peers.addresses.insert(device, address.clone());
            actor.record(Record::AddressSeen { device, address });
            actor.join(log);
        })
        .await;
    // Answered only after what came before is durable.
    let _ = context.ask(|_| ()).await;
}
