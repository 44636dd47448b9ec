//! The receiver's half.

use cede_seal::verify::verify;
use cede_wire::canonical::Signed;
use cede_wire::id::{DeviceId, Hash, MeshId, TransferId};
use cede_wire::refusal::Refusal;
use cede_wire::transfer::{
    TransferAccept, TransferKey, TransferMessage, TransferOffer, TransferReceipt, TransferRecord,
};

use super::{Coming, ComingPhase, Ended, TransferEnd, TransferError, TransferEvent, Transfers};
use crate::limits;
use crate::now::Now;

impl Transfers {
    /// The operator, or a rule, said yes to the offer with this hash.
    ///
    /// # Errors
    /// [`TransferError`]; nothing changed.
    pub fn approve(&mut self, transfer: TransferId, offer: Hash, now: Now) -> Result<(), TransferError> {
        let coming = self.coming.get_mut(&transfer).ok_or(TransferError::Unknown)?;
        if coming.phase != ComingPhase::Asked || coming.hash != offer {
            return Err(TransferError::Phase);
        }
        coming.phase = ComingPhase::Approved;
        coming.until = now.after(limits::TRANSFER_PARTIAL_TTL);
        let from = coming.offer.source;
        self.persist(TransferRecord::Approved { transfer, from, offer, at_unix_ms: now.unix_ms });
        self.tell(TransferEvent::MakeKey(transfer));
        Ok(())
    }

    /// A fresh key was made: the sender hears the yes with it.
    ///
    /// # Errors
    /// [`TransferError`]; nothing changed.
    pub fn accept(&mut self, transfer: TransferId, exchange_key: [u8; 32]) -> Result<(), TransferError> {
        let coming = self.coming.get_mut(&transfer).ok_or(TransferError::Unknown)?;
        if coming.phase == ComingPhase::Asked {
            return Err(TransferError::Phase);
        }
        let (source, destination) = (coming.offer.source, coming.offer.destination);
        let accept = TransferAccept { transfer, source, destination, offer: coming.hash, exchange_key };
        let accept = self.local.sign(&accept).map_err(|_| TransferError::Bug("foreign signer"))?;
        coming.phase = ComingPhase::Receiving(exchange_key);
        self.send(source, TransferMessage::Accept(accept));
        Ok(())
    }

    /// Everything is durable and stands in its place.
    ///
    /// # Errors
    /// [`TransferError`]; nothing changed.
    pub fn received(&mut self, transfer: TransferId, place: &str) -> Result<(), TransferError> {
        let coming = self.coming.get(&transfer).ok_or(TransferError::Unknown)?;
        if coming.phase == ComingPhase::Asked {
            return Err(TransferError::Phase);
        }
        let (source, root) = (coming.offer.source, coming.offer.root);
        self.become_ended(transfer, (source, false), TransferEnd::Received(super::short(place)), true);
        self.send_receipt(transfer, source, root, place);
        Ok(())
    }

    /// Something of it came: it is not given up for a while.
    pub fn heard(&mut self, transfer: TransferId, now: Now) {
        if let Some(coming) = self.coming.get_mut(&transfer).filter(|coming| coming.phase != ComingPhase::Asked) {
            coming.until = now.after(limits::TRANSFER_PARTIAL_TTL);
        }
    }

    pub(super) fn handle_offer(&mut self, from: DeviceId, offer: &Signed<TransferOffer>, mesh: MeshId, now: Now) {
        let Ok(offer) = verify(offer) else { return };
        if offer.source != from || offer.destination != self.local.device() || offer.mesh != mesh {
            return;
        }
        let (transfer, hash) = (offer.transfer, offer.signed().hash());
        if let Some(ended) = self.ended.get(&transfer).cloned() {
            return self.answer_ended(from, &offer, ended);
        }
        if let Some(coming) = self.coming.get_mut(&transfer) {
            let same = coming.offer.source == from && coming.hash == hash;
            match coming.phase {
                // One id names one offer. Source: SPEC F-3
                _ if !same => self.refuse(from, transfer, Refusal::Protocol, "another offer has this id"),
                ComingPhase::Asked => self.tell(TransferEvent::Consider(Box::new(offer))),
                ComingPhase::Approved | ComingPhase::Receiving(_) => {
                    coming.phase = ComingPhase::Approved;
                    coming.until = now.after(limits::TRANSFER_PARTIAL_TTL);
                    self.tell(TransferEvent::MakeKey(transfer));
                }
            }
            return;
        }
        let of_peer = self.coming.values().filter(|coming| coming.offer.source == from).count();
        if of_peer >= limits::TRANSFERS_PER_PEER || self.coming.len() >= limits::TRANSFERS {
            return self.refuse(from, transfer, Refusal::Busy, "too many sendings of files wait there");
        }
        let until = now.after(limits::QUESTION_HELD);
        self.coming.insert(transfer, Coming { offer: offer.clone(), hash, phase: ComingPhase::Asked, until });
        self.tell(TransferEvent::Consider(Box::new(offer)));
    }

    pub(super) fn handle_key(&mut self, from: DeviceId, key: &Signed<TransferKey>, now: Now) {
        let Ok(key) = verify(key) else { return };
        let Some(coming) = self.coming.get_mut(&key.transfer) else { return };
        let ours = (key.source, key.destination) == (coming.offer.source, coming.offer.destination);
        let present = coming.phase == ComingPhase::Receiving(key.accepted_key);
        if key.source == from && ours && key.offer == coming.hash && present {
            coming.until = now.after(limits::TRANSFER_PARTIAL_TTL);
            self.tell(TransferEvent::Fetch(Box::new(key)));
        }
    }

    /// Whoever asks again about what ended gets the same answer. Source: SPEC F-9
    fn answer_ended(&mut self, from: DeviceId, offer: &TransferOffer, ended: Ended) {
        if ended.peer != from || ended.going {
            return;
        }
        match ended.end {
            TransferEnd::Received(place) => self.send_receipt(offer.transfer, from, offer.root, &place),
            TransferEnd::Not(refusal, detail) => self.refuse(from, offer.transfer, refusal, &detail),
        }
    }

    fn send_receipt(&mut self, transfer: TransferId, source: DeviceId, root: Hash, place: &str) {
        let destination = self.local.device();
        let receipt = TransferReceipt { transfer, source, destination, root, place: super::short(place) };
        // Only a value of another device cannot be signed, and this is of ours.
        if let Ok(receipt) = self.local.sign(&receipt) {
            self.send(source, TransferMessage::Received(receipt));
        }
    }

    fn refuse(&mut self, to: DeviceId, transfer: TransferId, refusal: Refusal, detail: &str) {
        self.send(to, TransferMessage::End { transfer, refusal, detail: super::short(detail) });
    }
}
