//! Where the records of decisions stand: each device shows its newest checkpoint to its peers, and keeps theirs. Source: SPEC U-13.
//!
//! Whoever can write every file of a device can also cut its record where an older checkpoint stood. It cannot do that at the
//! peers. What a peer keeps of this device is held against the record here when a link comes up, and by `cede log --verify`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use cede_carrier::closing::CloseReason;
use cede_core::audit::mirror::{Mirrored, Mirrors};
use cede_core::audit::{Anchor, AuditFault, verify_against};
use cede_store::audit::{AuditError, AuditLog, mirrors};
use cede_store::home::Home;
use cede_wire::audit::{AuditAnchor, AuditCheckpoint, AuditEvent, AuditMirror};
use cede_wire::canonical::Signed;
use cede_wire::id::DeviceId;
use cede_wire::message::PeerMessage;
use tokio::sync::oneshot;

use crate::actor::Actor;
use crate::authorities::Asker;
use crate::errands::Errand;
use crate::limits::MIRROR_PAUSE;

/// What is kept here of others, and there of this device.
#[derive(Default)]
pub(crate) struct MirrorDesk {
    mirrors: Mirrors,
    /// What each peer says that it keeps of this device's record.
    at_peers: BTreeMap<DeviceId, Anchor>,
    /// When each peer said last what it keeps, or that it keeps nothing.
    said: BTreeMap<DeviceId, Instant>,
    /// Counts the checkpoints that were shown in this life of the daemon.
    serial: u64,
    /// When one was shown last, and whether one waits for the pause to end.
    shown: Option<Instant>,
    waits: bool,
    /// Peers of which something newer is known than what is being written.
    unkept: BTreeSet<DeviceId>,
    /// The highest number of each peer that the record was held against.
    held: BTreeMap<DeviceId, u64>,
    /// Who waits until these peers have answered.
    asked: Vec<(BTreeSet<DeviceId>, oneshot::Sender<()>)>,
}

/// What the peers say, for who looks at the record.
pub(crate) struct AtPeers {
    pub(crate) anchors: Vec<Anchor>,
    pub(crate) silent: Vec<String>,
    pub(crate) evidence: Vec<String>,
}

impl MirrorDesk {
    pub(crate) fn open(home: &Home) -> Self {
        Self { mirrors: Mirrors::restore(mirrors::kept(home)), ..Self::default() }
    }

    fn answered(&mut self, device: DeviceId) {
        self.said.insert(device, Instant::now());
        for (silent, _) in &mut self.asked {
            silent.remove(&device);
        }
        self.tell_answered();
    }

    fn tell_answered(&mut self) {
        for (_, done) in self.asked.extract_if(.., |(silent, _)| silent.is_empty()) {
            // Who asked may have gone.
            let _ = done.send(());
        }
    }
}

impl Actor {
    /// The record was signed: the peers see it, at a pace.
    pub(crate) fn checkpoint_is_new(&mut self) {
        let due = self.mirrors.shown.map_or_else(Instant::now, |shown| shown + MIRROR_PAUSE);
        if self.mirrors.waits {
            return;
        }
        if due <= Instant::now() {
            self.mirrors.shown = Some(Instant::now());
            self.peers.connected().into_iter().for_each(|device| self.show_checkpoint(device));
            return;
        }
        self.mirrors.waits = true;
        let context = self.context.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(due.into()).await;
            context
                .tell(|actor| {
                    actor.mirrors.waits = false;
                    actor.checkpoint_is_new();
                })
                .await;
        });
    }

    pub(crate) fn mirrors_link_up(&mut self, device: DeviceId) {
        self.show_checkpoint(device);
        self.say_kept(device);
    }

    fn show_checkpoint(&mut self, device: DeviceId) {
        // What another key signed, as before the mesh was left, is not this device's to show.
        let own = |point: &&Signed<AuditCheckpoint>| point.key().device() == self.context.local.device();
        let Some(point) = self.audit.newest().filter(own).cloned() else { return };
        self.mirrors.serial += 1;
        let serial = self.mirrors.serial;
        self.send(device, PeerMessage::Audit(AuditMirror::Newest { serial, point }));
    }

    fn say_kept(&mut self, device: DeviceId) {
        let kept = self.mirrors.mirrors.anchor(device).map(|anchor| anchor.newest.clone());
        self.send(device, PeerMessage::Audit(AuditMirror::Kept(kept)));
    }

    pub(crate) fn mirror_message(&mut self, asker: Asker, message: AuditMirror) {
        let from = asker.device;
        match message {
            AuditMirror::Newest { serial, point } => self.mirror(asker, serial, &point),
            AuditMirror::Kept(kept) => {
                if let Some(kept) = kept {
                    self.hold_against(from, &kept);
                }
                self.mirrors.answered(from);
            }
            AuditMirror::Ask => self.say_kept(from),
        }
    }

    fn mirror(&mut self, asker: Asker, serial: u64, point: &Signed<AuditCheckpoint>) {
        let (from, run) = (asker.device, self.peers.run_of(asker).unwrap_or(0));
        match self.mirrors.mirrors.handle_newest(from, (run, serial), point) {
            Ok(Mirrored::Known | Mirrored::ContradictsAgain) => {}
            Ok(Mirrored::Newer) => self.keep_mirror(from),
            Ok(Mirrored::Contradicts) => {
                tracing::error!(peer = %from.short(), "a peer's record contradicts what it showed before: cede log --verify");
                self.keep_mirror(from);
            }
            Err(error) => {
                tracing::warn!(peer = %from.short(), %error, "a peer broke a rule");
                self.close_link(from, CloseReason::Protocol);
            }
        }
    }

    /// Makes durable what is known of a peer's record, then says so to it. One flush of a peer at a time, and a pause behind it.
    fn keep_mirror(&mut self, device: DeviceId) {
        let Some(anchor) = self.mirrors.mirrors.anchor(device).cloned() else { return };
        if !self.errands.begin(device, Errand::KeepMirror) {
            self.mirrors.unkept.insert(device);
            return;
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            let kept = context.block(move |context| mirrors::keep(&context.home, device, &anchor)).await;
            context
                .tell(move |actor| match kept {
                    Ok(Ok(())) => actor.say_kept(device),
                    Ok(Err(error)) => tracing::warn!(peer = %device.short(), %error, "a peer's checkpoint is not kept"),
                    Err(_) => {}
                })
                .await;
            tokio::time::sleep(MIRROR_PAUSE).await;
            context
                .tell(move |actor| {
                    actor.errands.end(device, Errand::KeepMirror);
                    if actor.mirrors.unkept.remove(&device) {
                        actor.keep_mirror(device);
                    }
                })
                .await;
        });
    }

    /// At the stop: what waits for its pause would be lost, evidence too.
    pub(crate) async fn keep_mirrors_that_wait(&mut self) {
        let wait = std::mem::take(&mut self.mirrors.unkept);
        let anchor = |device: DeviceId| Some((device, self.mirrors.mirrors.anchor(device)?.clone()));
        let wait: Vec<(DeviceId, AuditAnchor)> = wait.into_iter().filter_map(anchor).collect();
        let kept = self.context.block(move |context| {
            wait.iter().try_for_each(|(device, anchor)| mirrors::keep(&context.home, *device, anchor))
        });
        if let Ok(Err(error)) = kept.await {
            tracing::warn!(%error, "what peers showed last is not kept");
        }
    }

    /// A peer says what it keeps of this device. What the newest checkpoint here does not cover is looked at, once.
    fn hold_against(&mut self, by: DeviceId, kept: &Signed<AuditCheckpoint>) {
        // What another key signed, as before the mesh was left, says nothing about this record.
        let Some(anchor) = Anchor::new(by, kept, self.context.local.device()) else { return };
        let number = anchor.point.number;
        self.mirrors.at_peers.insert(by, anchor.clone());
        let newest = self.audit.newest() == Some(kept);
        let known = self.mirrors.held.get(&by).is_some_and(|held| *held >= number);
        if newest || known || !self.errands.begin(by, Errand::CheckRecord) {
            return;
        }
        let Some(mark) = self.audit.mark() else { return self.errands.end(by, Errand::CheckRecord) };
        let context = self.context.clone();
        tokio::spawn(async move {
            let looked = context.block(move |context| {
                let files = AuditLog::read(&context.home, &mark)?;
                let bytes = files.files.iter().map(Vec::as_slice);
                let verdict = verify_against(bytes, files.newest.as_ref(), &[anchor], context.local.device());
                let of_peers =
                    |fault: &AuditFault| matches!(fault, AuditFault::CutAfter { .. } | AuditFault::Replaced { .. });
                let event = AuditEvent::Missed { by, signed: number };
                let said = || files.entries().any(|entry| entry.event == event);
                Ok::<_, AuditError>((verdict.faults.iter().any(of_peers) && !said()).then_some(event))
            });
            let looked = looked.await;
            context
                .tell(move |actor| {
                    actor.errands.end(by, Errand::CheckRecord);
                    let missed = match looked {
                        Ok(Ok(missed)) => missed,
                        Ok(Err(error)) => return tracing::warn!(%error, "the record was not read; it is held against what a peer keeps once it can be"),
                        Err(_) => return,
                    };
                    actor.mirrors.held.insert(by, number);
                    if let Some(event) = missed {
                        tracing::error!(peer = %by.short(), number, "the record here was cut or put back: cede log --verify");
                        actor.audit.note(event);
                    }
                })
                .await;
        });
    }

    /// What was shown last by a device whose record contradicted itself is what is kept now. False: it did not.
    pub(crate) fn settle_mirror(&mut self, device: DeviceId) -> bool {
        let settled = self.mirrors.mirrors.settle(device);
        if settled {
            self.keep_mirror(device);
        }
        settled
    }

    /// Asks the peers that are there what they keep; the receiver hears when all have answered.
    pub(crate) fn ask_peers_for_anchors(&mut self) -> oneshot::Receiver<()> {
        let (done, answered) = oneshot::channel();
        let connected = self.peers.connected();
        connected.iter().for_each(|device| self.send(*device, PeerMessage::Audit(AuditMirror::Ask)));
        self.mirrors.asked.retain(|(_, waiting)| !waiting.is_closed());
        self.mirrors.asked.push((connected.into_iter().collect(), done));
        self.mirrors.tell_answered();
        answered
    }

    /// What the peers keep, as far as they ever said it, and who said nothing since they were asked.
    pub(crate) fn at_peers(&self, asked: Instant) -> AtPeers {
        let members = self.peers.members();
        let silent = |device: DeviceId| self.mirrors.said.get(&device).is_none_or(|said| *said < asked);
        let silent =
            members.iter().filter(|member| silent(member.device())).map(|member| member.name.clone()).collect();
        AtPeers { anchors: self.mirrors.at_peers.values().cloned().collect(), silent, evidence: self.evidence() }
    }

    /// The peers whose record contradicts what they showed before, in words.
    pub(crate) fn evidence(&self) -> Vec<String> {
        let line = |(device, kept, shown): (DeviceId, u64, u64)| {
            let name = self.device_name(device);
            let what = if kept == shown {
                format!("{name} showed two records of {kept} entries that differ: one of them was put in its place")
            } else {
                format!(
                    "{name} showed a record of {kept} entries, and one of {shown} later: it was cut or put back there"
                )
            };
            format!("{what}; if you did that: cede log --settle {name}")
        };
        self.mirrors.mirrors.contradictions().map(line).collect()
    }

    pub(crate) fn forget_mirrors_of_strangers(&mut self) {
        let peers = &self.peers;
        let gone = self.mirrors.mirrors.retain(|device| peers.is_member(device));
        self.mirrors.at_peers.retain(|device, _| peers.is_member(*device));
        self.mirrors.said.retain(|device, _| peers.is_member(*device));
        self.mirrors.held.retain(|device, _| peers.is_member(*device));
        self.mirrors.unkept.retain(|device| peers.is_member(*device));
        if gone.is_empty() {
            return;
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            let forgotten = context
                .block(move |context| gone.iter().try_for_each(|device| mirrors::forget(&context.home, *device)));
            if let Ok(Err(error)) = forgotten.await {
                tracing::warn!(%error, "what was kept of a removed device is still there");
            }
        });
    }
}
