//! The sender's half.

use cede_seal::verify::{Verified, verify};
use cede_wire::canonical::Signed;
use cede_wire::id::{DeviceId, TransferId};
use cede_wire::message::NeedOf;
use cede_wire::refusal::Refusal;
use cede_wire::transfer::{
    TransferAccept, TransferKey, TransferMessage, TransferOffer, TransferReceipt, TransferRecord,
};

use super::{Going, GoingPhase, TransferEnd, TransferError, TransferEvent, Transfers};
use crate::limits;
use crate::now::Now;

impl Transfers {
    /// Files are to be sent; their catalog and this offer, signed here, are durable. Said at once where there is a link.
    ///
    /// # Errors
    /// [`TransferError`]; nothing changed.
    pub fn queue(&mut self, offer: Verified<TransferOffer>, now: Now) -> Result<(), TransferError> {
        if self.going.len() >= limits::TRANSFERS {
            return Err(TransferError::TooMany(limits::TRANSFERS));
        }
        if offer.source != self.local.device() || self.going.contains_key(&offer.transfer) {
            return Err(TransferError::Bug("an offer of another device, or twice"));
        }
        self.begin(offer, now);
        Ok(())
    }

    fn begin(&mut self, offer: Verified<TransferOffer>, now: Now) {
        let (transfer, to, hash) = (offer.transfer, offer.destination, offer.signed().hash());
        self.persist(TransferRecord::Queued { transfer, to, offer: hash, at_unix_ms: now.unix_ms });
        self.tell(TransferEvent::Queued(transfer));
        let until = now.after(limits::TRANSFER_TTL);
        self.going.insert(transfer, Going { offer, hash, phase: GoingPhase::Queued, until, again: None });
        self.offer_next(to);
    }

    /// The sender's key for an accept was made.
    ///
    /// # Errors
    /// [`TransferError`]; nothing was said.
    pub fn key(&mut self, accept: &Verified<TransferAccept>, exchange_key: [u8; 32]) -> Result<(), TransferError> {
        let going = self.going.get(&accept.transfer).ok_or(TransferError::Unknown)?;
        if going.phase != GoingPhase::Sending(accept.exchange_key) {
            return Err(TransferError::Phase);
        }
        let key = TransferKey {
            transfer: accept.transfer,
            source: accept.source,
            destination: accept.destination,
            offer: going.hash,
            accepted_key: accept.exchange_key,
            exchange_key,
        };
        let key = self.local.sign(&key).map_err(|_| TransferError::Bug("foreign signer"))?;
        self.send(accept.destination, TransferMessage::Key(key));
        Ok(())
    }

    pub(super) fn handle_accept(&mut self, from: DeviceId, accept: &Signed<TransferAccept>, now: Now) {
        let Ok(accept) = verify(accept) else { return };
        let Some(going) = self.going.get_mut(&accept.transfer) else { return };
        let ours = (accept.source, accept.destination) == (going.offer.source, going.offer.destination);
        if accept.destination != from || !ours || accept.offer != going.hash {
            return;
        }
        going.phase = GoingPhase::Sending(accept.exchange_key);
        // It is taken there: whoever meets for an hour a day gets it whole.
        going.until = going.until.max(now.after(limits::TRANSFER_TTL));
        self.tell(TransferEvent::Accepted(Box::new(accept)));
    }

    pub(super) fn handle_need(
        &mut self,
        from: DeviceId,
        transfer: TransferId,
        accepted_key: &[u8; 32],
        of: NeedOf,
        bitmap: &[u8],
    ) {
        let sending = GoingPhase::Sending(*accepted_key);
        if self.going.get(&transfer).is_some_and(|going| going.offer.destination == from && going.phase == sending) {
            self.tell(TransferEvent::Needed { transfer, of, bitmap: bitmap.to_vec() });
        }
    }

    /// Source: SPEC F-8
    pub(super) fn handle_receipt(&mut self, from: DeviceId, receipt: &Signed<TransferReceipt>) {
        let Ok(receipt) = verify(receipt) else { return };
        let Some(going) = self.going.get(&receipt.transfer) else { return self.came_all_the_same(from, &receipt) };
        let ours = (receipt.source, receipt.destination) == (going.offer.source, going.offer.destination);
        if receipt.destination == from && ours && receipt.root == going.offer.root {
            let place = super::short(&receipt.place);
            self.become_ended(receipt.transfer, (from, true), TransferEnd::Received(place), false);
        }
    }

    /// It was withdrawn here while the receipt was under way: what is so is told.
    fn came_all_the_same(&mut self, from: DeviceId, receipt: &TransferReceipt) {
        let withdrawn = self.ended.get(&receipt.transfer).is_some_and(|ended| {
            ended.peer == from && ended.going && matches!(ended.end, TransferEnd::Not(Refusal::Cancelled, _))
        });
        if withdrawn && (receipt.source, receipt.destination) == (self.local.device(), from) {
            let place = super::short(&receipt.place);
            self.become_ended(receipt.transfer, (from, true), TransferEnd::Received(place), false);
        }
    }
}
