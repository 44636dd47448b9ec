//! Files that are sent and files that come: the hands of `cede_core::transfers`, and what people see of it.

mod coming;
mod fetching;
mod going;
mod plan;
mod room;
mod serving;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cede_core::authority::{DecidedBy, Permission, RequestId};
use cede_core::transfers::{Ended, Going, GoingPhase, TransferEnd, TransferEvent, TransferOutput, Transfers};
use cede_seal::exchange::{ExchangeSecret, TransferContext};
use cede_store::stage::Stage;
use cede_wire::audit::AuditOutcome;
use cede_wire::control::{Answer, Failure, ReplyBody, exit};
use cede_wire::id::{DeviceId, TransferId};
use cede_wire::member::Capability;
use cede_wire::message::{NeedOf, PeerMessage};
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::transfer::TransferMessage;
use tokio::sync::mpsc;

use crate::actor::Actor;
use crate::authorities::Asker;
use crate::clock::random;
use crate::context::{Context, patiently};
use crate::limits;
use crate::offering::failure;

pub(crate) use plan::TransferPlan;
use view::{View, Watcher};

/// What the actor knows of sendings of files beside what the machine decides.
#[derive(Default)]
pub(crate) struct Files {
    views: BTreeMap<TransferId, View>,
    watchers: BTreeMap<TransferId, Vec<Watcher>>,
    /// Those that serve or fetch.
    tasks: BTreeMap<TransferId, Task>,
    /// The link whose message the machine was last given.
    last_asker: Option<Asker>,
    /// What offers said that came, as long as people see what became of them. In memory only.
    offered: BTreeMap<TransferId, TransferPlan>,
    /// Offers that are looked at, and whose questions wait.
    considered: BTreeMap<TransferId, Considered>,
    /// Offers that were not considered, since decisions cannot be recorded: heard again once they can be.
    unrecorded: VecDeque<(Asker, TransferMessage)>,
    /// What is read before it is offered.
    read: BTreeMap<TransferId, going::BeingRead>,
}

/// An offer on its way to a yes.
struct Considered {
    /// The link that brought it.
    asker: Asker,
    /// Where it would lie, once that was looked up.
    plan: Option<Box<TransferPlan>>,
    /// The question, once it was asked.
    question: Option<RequestId>,
}

/// One that serves or fetches; it ends when it is dropped.
struct Task {
    hand: Option<tokio::task::AbortHandle>,
    needs: Option<mpsc::Sender<(NeedOf, Vec<u8>)>>,
    needed: u32,
    secret: Option<Arc<ExchangeSecret>>,
    stage: Option<Arc<Stage>>,
    /// How often it was held for want of room.
    held: u32,
    /// Set with the end of the transfer: what is being written then gets no name.
    over: Arc<AtomicBool>,
}

impl Task {
    fn idle() -> Self {
        Self { hand: None, needs: None, needed: 0, secret: None, stage: None, held: 0, over: Arc::default() }
    }

    fn abort(&mut self) {
        if let Some(hand) = self.hand.take() {
            hand.abort();
        }
        self.needs = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.abort();
    }
}

impl Actor {
    /// Takes up what an earlier run left, and removes what belongs to nothing.
    pub(crate) fn begin_transfers(&mut self) {
        let known: BTreeSet<TransferId> = known(&self.transfers);
        let coming: BTreeSet<TransferId> = self.transfers.coming().map(|(id, _)| id).collect();
        let ended: BTreeSet<TransferId> = self.transfers.ended().map(|(id, _)| id).collect();
        let came_to_nothing = |ended: &Ended| !ended.going && matches!(ended.end, TransferEnd::Not(..));
        let withdrawn = self.transfers.ended().filter(|(_, ended)| came_to_nothing(ended));
        let withdrawn: BTreeSet<TransferId> = withdrawn.map(|(id, _)| id).collect();
        for id in TransferPlan::all(&self.context) {
            match TransferPlan::load(&self.context, id).filter(|_| known.contains(&id)) {
                Some(mut plan) => {
                    if withdrawn.contains(&id) {
                        take_back(&self.context, &mut plan);
                    }
                    if ended.contains(&id) {
                        plan.discard_parts(&self.context);
                    }
                    let placed = coming.contains(&id).then(|| plan.stands()).flatten();
                    self.files.views.insert(id, View::new(plan));
                    if let Some(place) = placed {
                        // Only this word was left to be said. A person may work there by now: it is not to be withdrawn any more.
                        let _ = self.transfers.received(id, &place);
                    }
                }
                None => TransferPlan::remove(&self.context, id),
            }
        }
        for id in self.context.home.staged_transfers().unwrap_or_default() {
            if !coming.contains(&id) {
                discard_stage(&self.context, id);
            }
        }
    }

    pub(crate) fn transfer_message(&mut self, asker: Asker, message: &TransferMessage) {
        let from = asker.device;
        let Some(mesh) = self.peers.mesh().filter(|_| !self.read_only) else { return };
        if let TransferMessage::Offer(offer) = message
            && let Permission::Refused(why, by) = self.permission(asker, Capability::File)
        {
            let Ok(offer) = cede_seal::verify::verify(offer) else { return };
            if by == DecidedBy::Fault {
                return self.put_off_files(asker, &offer);
            }
            let detail = coming::not_allowed(why).to_owned();
            let end = TransferMessage::End { transfer: offer.transfer, refusal: why.refusal(), detail };
            return self.send(from, PeerMessage::Transfer(Box::new(end)));
        }
        self.files.last_asker = Some(asker);
        self.transfers.handle_message(from, message, mesh, self.context.clock.now());
    }

    /// The next thing that the machine wants made durable; what it wants said and done in between is.
    pub(crate) fn drain_transfers(&mut self) -> Option<Vec<Record>> {
        while let Some(output) = self.transfers.poll() {
            match output {
                TransferOutput::Persist(batch) => return Some(batch),
                TransferOutput::Send(to, message) => self.send(to, *message),
                TransferOutput::Tell(event) => self.transfer_event(event),
            }
        }
        None
    }

    fn transfer_event(&mut self, event: TransferEvent) {
        match event {
            TransferEvent::Queued(transfer) => self.transfer_queued(transfer),
            TransferEvent::Consider(offer) => self.consider_files(&offer),
            TransferEvent::MakeKey(transfer) => self.accept_files(transfer),
            TransferEvent::Fetch(key) => self.fetch_files(&key),
            TransferEvent::Accepted(accept) => self.serve_files(*accept),
            TransferEvent::Needed { transfer, of, bitmap } => self.files_needed(transfer, of, bitmap),
            TransferEvent::Waits { transfer, detail } => self.files_wait_there(transfer, &detail),
            TransferEvent::Paused(transfer) => {
                if let Some(task) = self.files.tasks.get_mut(&transfer) {
                    task.abort();
                }
                self.tell_watchers(transfer);
            }
            TransferEvent::Over { transfer, ended } => self.transfer_over(transfer, &ended),
        }
    }

    fn transfer_over(&mut self, transfer: TransferId, ended: &Ended) {
        let (peer, going) = (ended.peer.short(), ended.going);
        match &ended.end {
            TransferEnd::Received(_) => tracing::info!(transfer = %transfer.short(), peer, going, "files received"),
            TransferEnd::Not(refusal, _) => {
                tracing::info!(transfer = %transfer.short(), peer, going, %refusal, "files not received");
            }
        }
        self.context.routes.remove(&TransferContext::stream_name(transfer));
        self.files.tasks.remove(&transfer);
        self.withdraw_files_question(transfer);
        let summary = self.transfer_summary(transfer);
        for watcher in self.files.watchers.remove(&transfer).unwrap_or_default() {
            watcher.ended(summary.as_ref());
        }
        let plan = self.files.views.get(&transfer).map(|view| view.plan.clone());
        if let Some(plan) = plan.as_ref().filter(|_| !ended.going) {
            let came = matches!(ended.end, TransferEnd::Received(_));
            let outcome = if came { AuditOutcome::Done } else { AuditOutcome::Failed };
            self.came_of_files(ended.peer, (transfer, plan.of), outcome);
        }
        let withdrawn = !going && matches!(ended.end, TransferEnd::Not(..));
        let (context, turn) = (self.context.clone(), self.context.hands(TransferContext::stream_name(transfer)).next());
        tokio::task::spawn_blocking(move || {
            // A thread that still writes there is waited for.
            let _held = turn.hold();
            if let Some(mut plan) = TransferPlan::load(&context, transfer).filter(|_| withdrawn) {
                take_back(&context, &mut plan);
            }
            if let Some(plan) = plan {
                plan.discard_parts(&context);
            }
            discard_stage(&context, transfer);
        });
        self.forget_ended_views();
    }

    fn forget_ended_views(&mut self) {
        let known = known(&self.transfers);
        let gone: Vec<TransferId> = self.files.views.keys().copied().filter(|id| !known.contains(id)).collect();
        for id in gone {
            self.files.views.remove(&id);
            TransferPlan::remove(&self.context, id);
        }
        self.files.offered.retain(|id, _| known.contains(id));
    }

    /// What is under way with a device that is no member any more ends.
    pub(crate) fn forget_transfers_of_strangers(&mut self) {
        let going = self.transfers.going().map(|(_, going)| going.offer().destination);
        let peers: BTreeSet<DeviceId> =
            going.chain(self.transfers.coming().map(|(_, coming)| coming.offer().source)).collect();
        for peer in peers.into_iter().filter(|peer| !self.peers.is_member(*peer)) {
            self.transfers.forget_peer(peer);
        }
    }

    /// Ends one that did not end yet, by a prefix of its id.
    pub(crate) fn stop_transfer(&mut self, prefix: &str) -> Result<Answer, Failure> {
        let going = self.transfers.going().map(|(id, _)| id);
        let open = going.chain(self.transfers.coming().map(|(id, _)| id)).chain(self.files.read.keys().copied());
        let fitting: Vec<TransferId> =
            open.filter(|id| !prefix.is_empty() && id.to_string().starts_with(prefix)).collect();
        let not = |exit, why| Err(failure(exit, "nothing was withdrawn", why, "cede transfers"));
        match fitting.as_slice() {
            [one] => {
                if let Some(read) = self.files.read.get(one) {
                    read.reading.stop();
                    return Ok(Answer::Said { text: "withdrawn; nothing was said of it".to_owned() });
                }
                let there = format!("withdrawn on {}", self.name);
                let sends =
                    |(id, going): (TransferId, &Going)| id == *one && matches!(going.phase(), GoingPhase::Sending(_));
                let here = match self.transfers.going().any(sends) {
                    // The word that it is all there may be under way.
                    true => format!("{there}; what came of it there is discarded, unless it is all there already"),
                    false => there.clone(),
                };
                // It stands in the list that was just made.
                let _ = self.transfers.stop_saying(*one, Refusal::Cancelled, &here, &there);
                Ok(Answer::Said {
                    text: "withdrawn; what came of it is discarded, unless it is all there already".to_owned(),
                })
            }
            [] => not(exit::FAILED, "no such sending of files is under way"),
            _ => not(exit::USAGE, "several begin like that"),
        }
    }

    /// A fresh key for one exchange, or the transfer ends.
    fn exchange_secret(&mut self, transfer: TransferId) -> Option<Arc<ExchangeSecret>> {
        match random() {
            Ok(bytes) => Some(Arc::new(ExchangeSecret::from_random(bytes))),
            Err(error) => {
                // It is gone already where this says so.
                let _ = self.transfers.stop(transfer, Refusal::Protocol, &error.to_string());
                None
            }
        }
    }

    fn watch_transfer(&mut self, transfer: TransferId, watcher: Watcher) {
        let watchers = self.files.watchers.entry(transfer).or_default();
        if watchers.len() < limits::CLIENTS {
            watchers.push(watcher);
        }
    }

    fn tell_watchers(&mut self, transfer: TransferId) {
        let Some(summary) = self.files.watchers.get(&transfer).and_then(|_| self.transfer_summary(transfer)) else {
            return;
        };
        if let Some(watchers) = self.files.watchers.get_mut(&transfer) {
            watchers.retain(|watcher| watcher.see(&ReplyBody::Sending(Box::new(summary.clone()))));
        }
    }
}

fn known(transfers: &Transfers) -> BTreeSet<TransferId> {
    let going = transfers.going().map(|(id, _)| id);
    going.chain(transfers.coming().map(|(id, _)| id)).chain(transfers.ended().map(|(id, _)| id)).collect()
}

/// Of what was withdrawn nothing stays.
fn take_back(context: &Context, plan: &mut TransferPlan) {
    let taken = plan.take_back().and_then(|changed| if changed { plan.save(context) } else { Ok(()) });
    if let Err(error) = taken {
        tracing::error!(transfer = %plan.transfer.short(), %error, "files that were withdrawn are still there");
    }
}

/// Removes what came. A thread that still writes into it is waited for.
fn discard_stage(context: &Context, transfer: TransferId) {
    let discarded = patiently(|| context.home.discard_transfer_stage(transfer));
    if let Err(error) = discarded {
        tracing::debug!(%error, "a stage was not removed");
    }
}
