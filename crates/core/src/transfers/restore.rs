//! From the journal to the machine, and which records of a long journal still say something.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_seal::verify::Verified;
use cede_wire::id::TransferId;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;
use cede_wire::transfer::{TransferOffer, TransferRecord};

use super::{Coming, ComingPhase, Ended, Going, GoingPhase, TransferEnd, Transfers};
use crate::limits;
use crate::now::Now;

impl Transfers {
    /// Takes up what the journal says. `offer_of` reads the offer of a transfer that did not end; one whose offer is lost
    /// ends with the first drain.
    pub fn restore<'a>(
        local: Arc<LocalDevice>,
        records: impl Iterator<Item = &'a Record>,
        offer_of: &dyn Fn(TransferId) -> Option<Verified<TransferOffer>>,
        now: Now,
    ) -> Self {
        let mut transfers = Self {
            local,
            going: BTreeMap::new(),
            coming: BTreeMap::new(),
            ended: BTreeMap::new(),
            order: VecDeque::new(),
            links: BTreeSet::new(),
            outputs: VecDeque::new(),
        };
        let mut open: BTreeMap<TransferId, &TransferRecord> = BTreeMap::new();
        for record in records {
            let Record::Transfer(record) = record else { continue };
            match &**record {
                TransferRecord::Queued { transfer, .. } | TransferRecord::Approved { transfer, .. } => {
                    open.insert(*transfer, record);
                }
                TransferRecord::Received { transfer, peer, going, place } => {
                    open.remove(transfer);
                    let end = TransferEnd::Received(place.clone());
                    transfers.remember(*transfer, Ended { peer: *peer, going: *going, end });
                }
                TransferRecord::Ended { transfer, peer, going, refusal, detail } => {
                    open.remove(transfer);
                    let end = TransferEnd::Not(*refusal, detail.clone());
                    transfers.remember(*transfer, Ended { peer: *peer, going: *going, end });
                }
            }
        }
        for (transfer, record) in open {
            transfers.take_up(transfer, record, offer_of(transfer), now);
        }
        transfers
    }

    fn take_up(
        &mut self,
        transfer: TransferId,
        record: &TransferRecord,
        offer: Option<Verified<TransferOffer>>,
        now: Now,
    ) {
        let me = self.local.device();
        match (record, offer) {
            (TransferRecord::Queued { to, offer: hash, at_unix_ms, .. }, Some(offer))
                if offer.signed().hash() == *hash && (offer.source, offer.destination) == (me, *to) =>
            {
                let age = core::time::Duration::from_millis(now.unix_ms.saturating_sub(*at_unix_ms));
                // A receiver that takes it is to be heard first.
                let until = now.after(limits::TRANSFER_TTL.saturating_sub(age).max(limits::TRANSFER_HEARING));
                self.going
                    .insert(transfer, Going { offer, hash: *hash, phase: GoingPhase::Queued, until, again: None });
            }
            (TransferRecord::Approved { from, offer: hash, .. }, Some(offer))
                if offer.signed().hash() == *hash && (offer.source, offer.destination) == (*from, me) =>
            {
                let until = now.after(limits::TRANSFER_PARTIAL_TTL);
                self.coming.insert(transfer, Coming { offer, hash: *hash, phase: ComingPhase::Approved, until });
            }
            (TransferRecord::Queued { to, .. }, _) => {
                self.become_ended(transfer, (*to, true), lost(), true);
            }
            (TransferRecord::Approved { from, .. }, _) => {
                self.become_ended(transfer, (*from, false), lost(), true);
            }
            (TransferRecord::Received { .. } | TransferRecord::Ended { .. }, _) => {}
        }
    }
}

fn lost() -> TransferEnd {
    TransferEnd::Not(Refusal::Cancelled, "what was known of it is lost".to_owned())
}

/// Which of these records are to be kept: of each transfer that did not end its beginning, of the newest that ended their
/// end.
pub fn compact(records: &[Record]) -> BTreeSet<usize> {
    let mut keep: BTreeMap<TransferId, usize> = BTreeMap::new();
    let mut ended = VecDeque::new();
    for (index, record) in records.iter().enumerate() {
        let Record::Transfer(record) = record else { continue };
        let transfer = record.transfer();
        keep.insert(transfer, index);
        if matches!(**record, TransferRecord::Received { .. } | TransferRecord::Ended { .. }) {
            ended.push_back(transfer);
        }
        if ended.len() > limits::ENDED_TRANSFERS
            && let Some(oldest) = ended.pop_front()
        {
            keep.remove(&oldest);
        }
    }
    keep.into_values().collect()
}
