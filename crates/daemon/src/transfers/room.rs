//! Room for files that come: before a person is asked, before content is asked for, and before it is put into its place.
//! Where there is none any more, what came is kept and waits for it. Source: SPEC F-10, F-13

use std::path::{Path, PathBuf};
use std::time::Duration;

use cede_seal::verify::{Verified, verify};
use cede_wire::id::{DeviceId, TransferId};
use cede_wire::message::PeerMessage;
use cede_wire::shown::bytes;
use cede_wire::transfer::{TransferMessage, TransferOffer};

use crate::actor::Actor;
use crate::authorities::Asker;
use crate::context::Context;
use crate::limits;

/// A disk that is too full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Short {
    /// A directory on it.
    pub(super) at: PathBuf,
    pub(super) free: u64,
    /// With what is to stay free.
    pub(super) needed: u64,
}

/// What is missing for so many bytes of chunks in the state, and so many of files in `folder`. A disk that does not say what is
/// free is tried. Blocks.
pub(super) fn short(context: &Context, folder: &Path, chunks: u64, files: u64) -> Option<Short> {
    let there = existing(folder);
    let same = same_file_system(&there, context.home.dir());
    let here = if same { chunks.saturating_add(files) } else { chunks };
    if !context.home.has_room_for_bulk(here).unwrap_or(true) {
        let needed = here.saturating_add(cede_store::limits::BULK_FREE_BYTES);
        return Some(Short { at: context.state.clone(), free: context.home.free_bytes().unwrap_or(0), needed });
    }
    let needed = files.saturating_add(limits::RECEIVED_FREE_BYTES);
    let free = free_bytes(&there).filter(|free| !same && *free < needed)?;
    Some(Short { at: there, free, needed })
}

/// The nearest directory above that is there.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn same_file_system(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    matches!((a.metadata(), b.metadata()), (Ok(a), Ok(b)) if a.dev() == b.dev())
}

fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

impl Short {
    /// Why files of so many bytes are not taken, for whoever sends them.
    pub(super) fn refused(&self, size: u64) -> String {
        let [size, needed, free] = [size, self.needed, self.free].map(bytes);
        format!("there is no room for {size} there: {needed} would have to be free, and {free} are")
    }

    /// What a person here reads.
    fn told(&self) -> String {
        let [free, needed] = [self.free, self.needed].map(bytes);
        let at = self.at.display();
        format!(
            "waits for room: of the {needed} that have to be free on the disk of {at}, {free} are; make room, and it goes on by itself"
        )
    }
}

impl Actor {
    /// There is no room now. What came is kept, both sides are told, and it goes on once there is room.
    pub(super) fn hold_files(&mut self, transfer: TransferId) {
        let Some(view) = self.files.views.get_mut(&transfer) else { return };
        if self.transfers.wait(transfer, "there is no room for it there").is_err() {
            return;
        }
        tracing::warn!(transfer = %transfer.short(), "there is no room for files that come; they wait for it");
        view.waits = "waits for room, and goes on by itself once there is some".to_owned();
        let rest = view.to_move.saturating_sub(view.present + view.since);
        let (folder, files) = (view.plan.folder.clone().unwrap_or_default(), view.plan.bytes);
        if let Some(task) = self.files.tasks.get_mut(&transfer) {
            task.abort();
            // It is opened anew: what the disk did not take is not in it.
            task.stage = None;
            // What a disk says to be free may not be free for everybody: a quota, or no inode.
            let pause = limits::ROOM_LOOK * 2_u32.pow(task.held.min(limits::ROOM_DOUBLINGS));
            task.held += 1;
            let waiting = wait_for_room(self.context.clone(), transfer, folder, (rest, files), pause);
            task.hand = Some(tokio::spawn(waiting).abort_handle());
        }
    }

    fn say_what_is_short(&mut self, transfer: TransferId, short: &Short) {
        if let Some(view) = self.files.views.get_mut(&transfer) {
            view.waits = short.told();
        }
    }

    /// There is room. Where the sender is not here, its next link brings the offer.
    fn go_on_with_files(&mut self, transfer: TransferId) {
        let from = self.transfers.coming().find(|(id, _)| *id == transfer).map(|(_, coming)| coming.offer().source);
        if from.is_some_and(|from| self.connected(from)) {
            self.accept_files(transfer);
        }
    }

    /// What is decided of it could not be recorded now. The sender hears that, and it is heard again once it can be.
    pub(super) fn put_off_files(&mut self, asker: Asker, offer: &Verified<TransferOffer>) {
        let transfer = offer.transfer;
        self.files.considered.remove(&transfer);
        self.say_files_wait(asker.device, transfer, "decisions cannot be recorded there");
        let put_off = &mut self.files.unrecorded;
        put_off.retain(|(_, message)| !matches!(message, TransferMessage::Offer(other) if other == offer.signed()));
        // One that does not fit is said again with the next link.
        if put_off.len() < limits::OFFERS_PUT_OFF {
            put_off.push_back((asker, TransferMessage::Offer(offer.signed().clone())));
        }
    }

    /// Decisions can be recorded again.
    pub(crate) fn hear_files_again(&mut self) {
        for (asker, message) in std::mem::take(&mut self.files.unrecorded) {
            if let TransferMessage::Offer(offer) = &message
                && let Ok(offer) = verify(offer)
                && self.authorities.stands(asker)
            {
                self.say_files_wait(asker.device, offer.transfer, "");
                self.transfer_message(asker, &message);
            }
        }
    }

    fn say_files_wait(&mut self, to: DeviceId, transfer: TransferId, detail: &str) {
        let waits = TransferMessage::Waits { transfer, detail: detail.to_owned() };
        self.send(to, PeerMessage::Transfer(Box::new(waits)));
    }

    /// The receiver says what it waits for, or that it does no more.
    pub(super) fn files_wait_there(&mut self, transfer: TransferId, detail: &str) {
        if let Some(view) = self.files.views.get_mut(&transfer) {
            let detail = crate::scrutiny::detail(detail);
            view.waits = if detail.is_empty() { detail } else { format!("waits: {detail}; it goes on by itself") };
        }
        self.tell_watchers(transfer);
    }

    /// For whoever looks: files that come and wait for room.
    pub(crate) fn files_without_room(&self) -> Vec<String> {
        let coming = self.transfers.coming().filter_map(|(id, _)| self.files.views.get(&id));
        let waiting = coming.filter(|view| !view.waits.is_empty());
        waiting.map(|view| format!("{} {}", view.plan.title, view.waits)).collect()
    }
}

async fn wait_for_room(
    context: Context,
    transfer: TransferId,
    folder: PathBuf,
    (rest, files): (u64, u64),
    first: Duration,
) {
    let mut pause = Some(first);
    loop {
        let folder = folder.clone();
        match context.block(move |context| short(context, &folder, rest, files)).await {
            Ok(Some(short)) => context.tell(move |actor| actor.say_what_is_short(transfer, &short)).await,
            Ok(None) if pause.is_none() => break,
            Ok(None) => {}
            Err(_) => return,
        }
        tokio::time::sleep(pause.take().unwrap_or(limits::ROOM_LOOK)).await;
    }
    context.tell(move |actor| actor.go_on_with_files(transfer)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: F-10
    #[test]
    fn small_file_without_room_is_not_said_to_have_no_bytes() {
        let short = Short { at: PathBuf::from("/in"), free: 999_999, needed: 2_147_484_048 };
        let said = "there is no room for 400 B there: 2.14 GB would have to be free, and 999 kB are";
        assert_eq!(short.refused(400), said);
        let told = "waits for room: of the 2.14 GB that have to be free on the disk of /in, 999 kB are; make room, and it \
                    goes on by itself";
        assert_eq!(short.told(), told);
    }
}
