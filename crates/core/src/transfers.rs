//! Files that one device sends to another: offered until there is an answer, taken only after a yes to exactly what was
//! offered, ended once and for good.
//!
//! The machine decides who may send bytes and when something ended. It refuses to know files, chunks and disks: hands
//! capture, send, fetch and place, and come back with what they did. The sender drives: it says its offer again with every
//! link until it knows the end, and the receiver answers from where it stands. Source: SPEC F-1 to F-12.
//!
//! ```text
//!   sender    queued ── offered ── sending ──────────────── received / ended
//!   receiver            asked ──── approved ── receiving ── received / ended
//! ```

mod coming;
mod going;
mod restore;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_seal::verify::Verified;
use cede_wire::id::{DeviceId, Hash, MeshId, TransferId};
use cede_wire::limits::DETAIL_CHARS;
use cede_wire::message::{NeedOf, PeerMessage};
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::transfer::{TransferAccept, TransferKey, TransferMessage, TransferOffer, TransferRecord};

use crate::limits;
use crate::now::Now;

pub use restore::compact;

/// Every sending of files of one device, in both directions.
#[derive(Debug)]
pub struct Transfers {
    local: Arc<LocalDevice>,
    going: BTreeMap<TransferId, Going>,
    coming: BTreeMap<TransferId, Coming>,
    ended: BTreeMap<TransferId, Ended>,
    /// The ended ones, oldest first.
    order: VecDeque<TransferId>,
    links: BTreeSet<DeviceId>,
    outputs: VecDeque<TransferOutput>,
}

/// One that is sent from here and did not end.
#[derive(Debug)]
pub struct Going {
    offer: Verified<TransferOffer>,
    hash: Hash,
    phase: GoingPhase,
    until: Duration,
    /// The receiver had no place for it: when it is offered again.
    again: Option<Duration>,
}

/// Where one that is sent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoingPhase {
    /// It waits for a link.
    Queued,
    /// It was said on this link; there is no answer yet.
    Offered,
    /// Approved under this key of the destination.
    Sending([u8; 32]),
}

/// One that comes and did not end.
#[derive(Debug)]
pub struct Coming {
    offer: Verified<TransferOffer>,
    hash: Hash,
    phase: ComingPhase,
    /// When it is given up, unless something is heard before.
    until: Duration,
}

/// Where one that comes stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComingPhase {
    /// The operator, or a rule, was not asked or has not answered.
    Asked,
    /// Approved; the sender is not here, or a key is being made.
    Approved,
    /// Approved, and the sender holds this key.
    Receiving([u8; 32]),
}

/// How one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The other device.
    pub peer: DeviceId,
    /// True: it was sent from here.
    pub going: bool,
    /// How.
    pub end: TransferEnd,
}

/// How one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferEnd {
    /// Durable at the destination and in its place there.
    Received(String),
    /// Before that.
    Not(Refusal, String),
}

/// What the machine wants done. Contract: one input, then drain in order; nothing after a `Persist` leaves before that
/// batch is durable.
#[derive(Debug, Clone)]
pub enum TransferOutput {
    /// Make these durable, all or none.
    Persist(Vec<Record>),
    /// Say this to a peer.
    Send(DeviceId, Box<PeerMessage>),
    /// The hands' work, or news for people.
    Tell(TransferEvent),
}

/// What happened.
#[derive(Debug, Clone)]
pub enum TransferEvent {
    /// Sender: it is queued, durably.
    Queued(TransferId),
    /// Receiver: an offer that verifies waits for the operator or a rule. Answer with `approve` or `stop`. Told again with
    /// each link that brings the offer.
    Consider(Box<Verified<TransferOffer>>),
    /// Receiver: make a fresh exchange key and call `accept`.
    MakeKey(TransferId),
    /// Receiver: the sender's key for the present accept: fetch.
    Fetch(Box<Verified<TransferKey>>),
    /// Sender: approved: make a key, call `key`, and serve what is needed.
    Accepted(Box<Verified<TransferAccept>>),
    /// Sender: these chunks are asked for.
    Needed {
        /// The transfer.
        transfer: TransferId,
        /// Which list.
        of: NeedOf,
        /// The bits.
        bitmap: Vec<u8>,
    },
    /// Sender: the receiver has no room now; an accept follows when it has.
    Waits {
        /// The transfer.
        transfer: TransferId,
        /// What the receiver says of it.
        detail: String,
    },
    /// Either: the link is gone, it goes on with the next one.
    Paused(TransferId),
    /// Either: it is over. What is left of it goes.
    Over {
        /// The transfer.
        transfer: TransferId,
        /// How.
        ended: Ended,
    },
}

/// Why nothing was done. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// Caller: as many did not end yet as there may be.
    #[error("too many sendings of files did not end yet: {0}")]
    TooMany(usize),
    /// Caller: no such transfer is under way.
    #[error("no such sending of files is under way")]
    Unknown,
    /// Caller: it stands where this cannot be done.
    #[error("the sending of files is not at this step")]
    Phase,
    /// Bug: a value was to be signed for another device.
    #[error("fault of ours: {0}")]
    Bug(&'static str),
}

impl Transfers {
    /// A peer said something.
    pub fn handle_message(&mut self, from: DeviceId, message: &TransferMessage, mesh: MeshId, now: Now) {
        match message {
            TransferMessage::Offer(offer) => self.handle_offer(from, offer, mesh, now),
            TransferMessage::Accept(accept) => self.handle_accept(from, accept, now),
            TransferMessage::Key(key) => self.handle_key(from, key, now),
            TransferMessage::Need { transfer, accepted_key, of, bitmap } => {
                self.handle_need(from, *transfer, accepted_key, *of, bitmap);
            }
            TransferMessage::Received(receipt) => self.handle_receipt(from, receipt),
            TransferMessage::End { transfer, refusal, detail } => {
                self.handle_end(from, *transfer, (*refusal, detail), now);
            }
            TransferMessage::Waits { transfer, detail } => {
                if self.going.get(transfer).is_some_and(|going| going.offer.destination == from) {
                    self.tell(TransferEvent::Waits { transfer: *transfer, detail: short(detail) });
                }
            }
        }
    }

    /// A link to a peer is up: what is for it is offered, again if it was before, and what came to nothing is said to be over:
    /// it may not have been heard of that.
    pub fn link_up(&mut self, peer: DeviceId) {
        self.links.insert(peer);
        for (transfer, refusal) in self.over_at(peer) {
            // Where something lies on this device is not for it.
            self.send(peer, TransferMessage::End { transfer, refusal, detail: OVER_THERE.to_owned() });
        }
        for going in self.going.values_mut().filter(|going| going.offer.destination == peer) {
            (going.phase, going.again) = (GoingPhase::Queued, None);
        }
        self.offer_next(peer);
    }

    /// Offers what waits for this peer, the oldest first, as many as it takes of one.
    fn offer_next(&mut self, peer: DeviceId) {
        if !self.links.contains(&peer) {
            return;
        }
        let of_peer = |going: &&Going| going.offer.destination == peer;
        let said = self.going.values().filter(of_peer).filter(|going| going.phase != GoingPhase::Queued).count();
        let waits = |going: &Going| going.phase == GoingPhase::Queued && going.again.is_none();
        let waiting = self.going.iter().filter(|(_, going)| of_peer(going) && waits(going));
        let mut waiting: Vec<_> = waiting.map(|(id, going)| (going.until, *id)).collect();
        waiting.sort_unstable();
        for (_, id) in waiting.into_iter().take(limits::TRANSFERS_PER_PEER.saturating_sub(said)) {
            let Some(going) = self.going.get_mut(&id) else { continue };
            going.phase = GoingPhase::Offered;
            let offer = TransferMessage::Offer(going.offer.signed().clone());
            self.send(peer, offer);
        }
    }

    /// What went there, and ended without being received: the newest, as many as a peer can have open.
    fn over_at(&self, peer: DeviceId) -> Vec<(TransferId, Refusal)> {
        let over = self.order.iter().rev().filter_map(|id| match self.ended.get(id)? {
            Ended { peer: to, going: true, end: TransferEnd::Not(refusal, _) } if *to == peer => Some((*id, *refusal)),
            _ => None,
        });
        over.take(limits::TRANSFERS).collect()
    }

    /// The last link to a peer is gone.
    pub fn link_down(&mut self, peer: DeviceId) {
        self.links.remove(&peer);
        let mut paused = Vec::new();
        for (id, going) in self.going.iter_mut().filter(|(_, going)| going.offer.destination == peer) {
            going.phase = GoingPhase::Queued;
            paused.push(*id);
        }
        for (id, coming) in self.coming.iter_mut().filter(|(_, coming)| coming.offer.source == peer) {
            if let ComingPhase::Receiving(_) = coming.phase {
                coming.phase = ComingPhase::Approved;
                paused.push(*id);
            }
        }
        paused.into_iter().for_each(|id| self.tell(TransferEvent::Paused(id)));
    }

    /// What is too old ends.
    pub fn handle_timeout(&mut self, now: Now) {
        let going = self.going.iter().filter(|(_, going)| going.until <= now.monotonic).map(|(id, _)| *id);
        let coming = self.coming.iter().filter(|(_, coming)| coming.until <= now.monotonic).map(|(id, _)| *id);
        for id in going.chain(coming).collect::<Vec<_>>() {
            let late = "it took too long";
            self.end_here(id, Refusal::Expired, late, late);
        }
        let due = |going: &Going| going.again.is_some_and(|again| again <= now.monotonic);
        let mut peers = BTreeSet::new();
        for going in self.going.values_mut().filter(|going| due(going)) {
            going.again = None;
            peers.insert(going.offer.destination);
        }
        peers.into_iter().for_each(|peer| self.offer_next(peer));
    }

    /// When `handle_timeout` is to be called.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let coming = self.coming.values().map(|coming| coming.until);
        let going = self.going.values().flat_map(|going| going.again.into_iter().chain([going.until]));
        going.chain(coming).min()
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<TransferOutput> {
        self.outputs.pop_front()
    }

    /// It ends here: withdrawn by a person, or it cannot go on. The other side is told.
    ///
    /// # Errors
    /// [`TransferError::Unknown`].
    pub fn stop(&mut self, transfer: TransferId, refusal: Refusal, detail: &str) -> Result<(), TransferError> {
        self.stop_saying(transfer, refusal, detail, detail)
    }

    /// The same where the other side is told other words: where something lies on this device is not for it.
    ///
    /// # Errors
    /// [`TransferError::Unknown`].
    pub fn stop_saying(
        &mut self,
        transfer: TransferId,
        refusal: Refusal,
        here: &str,
        there: &str,
    ) -> Result<(), TransferError> {
        if self.end_here(transfer, refusal, here, there) { Ok(()) } else { Err(TransferError::Unknown) }
    }

    /// Receiver: it cannot go on now, and the sender hears why. Nothing of it is given up. Source: SPEC F-13
    ///
    /// # Errors
    /// [`TransferError::Unknown`].
    pub fn wait(&mut self, transfer: TransferId, detail: &str) -> Result<(), TransferError> {
        let from = self.coming.get(&transfer).ok_or(TransferError::Unknown)?.offer.source;
        self.send(from, TransferMessage::Waits { transfer, detail: short(detail) });
        Ok(())
    }

    /// A device is no member any more: what is under way with it ends.
    pub fn forget_peer(&mut self, peer: DeviceId) {
        let going = self.going.iter().filter(|(_, going)| going.offer.destination == peer).map(|(id, _)| *id);
        let coming = self.coming.iter().filter(|(_, coming)| coming.offer.source == peer).map(|(id, _)| *id);
        for id in going.chain(coming).collect::<Vec<_>>() {
            let removed = "the other device was removed";
            self.end_here(id, Refusal::NotGranted, removed, removed);
        }
    }

    /// Those that are sent and did not end.
    pub fn going(&self) -> impl Iterator<Item = (TransferId, &Going)> {
        self.going.iter().map(|(id, going)| (*id, going))
    }

    /// Those that come and did not end.
    pub fn coming(&self) -> impl Iterator<Item = (TransferId, &Coming)> {
        self.coming.iter().map(|(id, coming)| (*id, coming))
    }

    /// Those that ended and are remembered, oldest first.
    pub fn ended(&self) -> impl Iterator<Item = (TransferId, &Ended)> {
        self.order.iter().filter_map(|id| Some((*id, self.ended.get(id)?)))
    }

    /// Whether something waits for this peer.
    pub fn waits_for(&self, peer: DeviceId) -> bool {
        let approved = |coming: &Coming| coming.offer.source == peer && coming.phase != ComingPhase::Asked;
        self.going.values().any(|going| going.offer.destination == peer) || self.coming.values().any(approved)
    }

    fn handle_end(&mut self, from: DeviceId, transfer: TransferId, (refusal, detail): (Refusal, &str), now: Now) {
        // No place among others is no answer to this one.
        if let Some(going) = self.going.get_mut(&transfer)
            && going.offer.destination == from
            && (going.phase, refusal) == (GoingPhase::Offered, Refusal::Busy)
        {
            (going.phase, going.again) = (GoingPhase::Queued, Some(now.after(limits::TRANSFER_AGAIN)));
            return self.tell(TransferEvent::Paused(transfer));
        }
        let going = self.going.get(&transfer).is_some_and(|going| going.offer.destination == from);
        let coming = self.coming.get(&transfer).is_some_and(|coming| coming.offer.source == from);
        if going || coming {
            self.become_ended(transfer, (from, going), TransferEnd::Not(refusal, short(detail)), false);
        }
    }

    /// Ends it and tells the other side. False: there is none.
    fn end_here(&mut self, transfer: TransferId, refusal: Refusal, here: &str, there: &str) -> bool {
        let going = self.going.get(&transfer).map(|going| going.offer.destination);
        let coming = self.coming.get(&transfer).map(|coming| coming.offer.source);
        let Some(peer) = going.or(coming) else { return false };
        self.become_ended(transfer, (peer, going.is_some()), TransferEnd::Not(refusal, short(here)), true);
        self.send(peer, TransferMessage::End { transfer, refusal, detail: short(there) });
        true
    }

    /// `here`: it is this side that ends it.
    fn become_ended(&mut self, transfer: TransferId, (peer, going): (DeviceId, bool), end: TransferEnd, here: bool) {
        self.going.remove(&transfer);
        let coming = self.coming.remove(&transfer);
        let record = match end.clone() {
            TransferEnd::Received(place) => TransferRecord::Received { transfer, peer, going, place },
            TransferEnd::Not(refusal, detail) => TransferRecord::Ended { transfer, peer, going, refusal, detail },
        };
        // Of an offer that no person decided about the journal knows nothing: a peer that offers for ever does not fill it.
        let asked = coming.is_some_and(|coming| coming.phase == ComingPhase::Asked);
        let decided = matches!(end, TransferEnd::Not(Refusal::Declined | Refusal::Cancelled, _)) && here;
        if !asked || decided {
            self.persist(record);
        }
        let busy = asked && here && matches!(end, TransferEnd::Not(Refusal::Busy, _));
        let ended = Ended { peer, going, end };
        // One that found no place is offered again.
        if !busy {
            self.remember(transfer, ended.clone());
        }
        self.tell(TransferEvent::Over { transfer, ended });
        if going {
            self.offer_next(peer);
        }
    }

    fn remember(&mut self, transfer: TransferId, ended: Ended) {
        if self.ended.insert(transfer, ended).is_none() {
            self.order.push_back(transfer);
        }
        while self.order.len() > limits::ENDED_TRANSFERS {
            if let Some(oldest) = self.order.pop_front() {
                self.ended.remove(&oldest);
            }
        }
    }

    fn persist(&mut self, record: TransferRecord) {
        self.outputs.push_back(TransferOutput::Persist(vec![Record::Transfer(Box::new(record))]));
    }

    fn send(&mut self, to: DeviceId, message: TransferMessage) {
        self.outputs.push_back(TransferOutput::Send(to, Box::new(PeerMessage::Transfer(Box::new(message)))));
    }

    fn tell(&mut self, event: TransferEvent) {
        self.outputs.push_back(TransferOutput::Tell(event));
    }
}

impl Going {
    /// What was offered.
    pub fn offer(&self) -> &Verified<TransferOffer> {
        &self.offer
    }

    /// Where it stands.
    pub fn phase(&self) -> GoingPhase {
        self.phase
    }
}

impl Coming {
    /// What was offered.
    pub fn offer(&self) -> &Verified<TransferOffer> {
        &self.offer
    }

    /// Where it stands.
    pub fn phase(&self) -> ComingPhase {
        self.phase
    }
}

/// What a receiver hears of one whose end it may have heard already.
const OVER_THERE: &str = "it is over at its sender";

fn short(detail: &str) -> String {
    detail.chars().take(DETAIL_CHARS).collect()
}

#[cfg(test)]
mod tests;
