//! A person sends files: they are read, offered, and served once they are approved.

use std::path::PathBuf;
use std::sync::Arc;

use cede_agent::bundle::{Bundle, GatherError, gather, shown};
use cede_agent::chunk::{Reading, chunk_bytes};
use cede_core::limits::TRANSFERS;
use cede_core::transfers::TransferError;
use cede_seal::verify::{Verified, verify};
use cede_wire::control::{Answer, Failure, ReplyBody, SendRequest, TransferSummary, exit};
use cede_wire::id::{DeviceId, Hash, MeshId, TransferId};
use cede_wire::limits::{DETAIL_CHARS, TRANSFER_CATALOG_CHUNKS, TRANSFER_ROOTS};
use cede_wire::transfer::{FileCatalog, TransferOffer};
use tokio::time::Instant;

use super::TransferPlan;
use super::view::{View, Watcher, title_of, unknown};
use crate::actor::Actor;
use crate::clock::{random, unix_ms};
use crate::context::Context;
use crate::control::Replies;
use crate::limits;
use crate::offering::{failure, stopping};
use crate::receiving::is_full;

/// Files that are read before they are offered: nothing of it is durable.
pub(super) struct BeingRead {
    pub(super) reading: Arc<Reading>,
    pub(super) title: String,
    pub(super) to: DeviceId,
    pub(super) note: String,
    pub(super) at_unix_ms: u64,
    /// Bytes that there are to read; 0 where a folder is among them.
    pub(super) all: u64,
}

/// What becomes an offer.
struct Wish {
    mesh: MeshId,
    transfer: TransferId,
    to: DeviceId,
    request: SendRequest,
    roots: Vec<PathBuf>,
}

/// Files that were read, with everything about them durable.
struct Ready {
    plan: TransferPlan,
    offer: Verified<TransferOffer>,
}

impl Actor {
    pub(crate) fn send_files(&mut self, request: SendRequest, replies: Replies) {
        let member = match self.find_member(&request.device) {
            Ok(member) => member,
            Err(failed) => return replies.failed(failed),
        };
        let Some(mesh) = self.peers.mesh() else { return };
        if request.paths.is_empty() || request.paths.len() > TRANSFER_ROOTS {
            let why = format!("one command sends between one and {TRANSFER_ROOTS} files and folders");
            return replies.failed(failure(exit::USAGE, "nothing was sent", &why, "cede send <device> <file>…"));
        }
        let note = request.note.chars().count();
        if note > DETAIL_CHARS {
            let why = format!("the note has {note} characters, and {DETAIL_CHARS} travel with files");
            let cure = "say the rest by itself: cede tell <device> \"…\"";
            return replies.failed(failure(exit::USAGE, "nothing was sent", &why, cure));
        }
        if self.files.read.len() + self.transfers.going().count() >= TRANSFERS {
            return replies.failed(not_sent(&TransferError::TooMany(TRANSFERS).to_string(), "cede transfers"));
        }
        let transfer = match random() {
            Ok(bytes) => TransferId::new(bytes),
            Err(error) => return replies.failed(not_sent(&error.to_string(), "")),
        };
        let to = member.device();
        let roots: Vec<PathBuf> = request.paths.iter().map(PathBuf::from).collect();
        let read = BeingRead::of(&request, to, &roots);
        let reading = read.reading.clone();
        self.files.read.insert(transfer, read);
        let wish = Wish { mesh, transfer, to, request, roots };
        tokio::spawn(read_and_queue(self.context.clone(), wish, reading, replies));
    }

    fn queue_files(&mut self, ready: Ready, wait: bool, replies: Replies) {
        let (transfer, to) = (ready.plan.transfer, ready.offer.destination);
        self.files.views.insert(transfer, View::new(ready.plan));
        if let Err(error) = self.transfers.queue(ready.offer, self.context.clock.now()) {
            self.files.views.remove(&transfer);
            TransferPlan::remove(&self.context, transfer);
            return replies.failed(not_sent(&error.to_string(), "cede transfers"));
        }
        self.watch_transfer(transfer, Watcher { replies, at_once: !wait });
        self.reach_afresh(to);
    }

    fn show_reading(&self, transfer: TransferId, replies: &Replies) {
        if let Some(summary) = self.transfer_summary(transfer) {
            replies.say(ReplyBody::Sending(Box::new(summary)));
        }
    }

    /// It is durable: whoever does not wait for the end is answered.
    pub(super) fn transfer_queued(&mut self, transfer: TransferId) {
        let Some(summary) = self.transfer_summary(transfer) else { return };
        let watchers = self.files.watchers.remove(&transfer).unwrap_or_default();
        let (at_once, later): (Vec<Watcher>, Vec<Watcher>) = watchers.into_iter().partition(|watcher| watcher.at_once);
        for watcher in at_once {
            watcher.replies.done(Answer::Sent(Box::<TransferSummary>::new(summary.clone())));
        }
        if !later.is_empty() {
            self.files.watchers.insert(transfer, later);
        }
        self.tell_watchers(transfer);
    }
}

fn not_sent(why: &str, cure: &str) -> Failure {
    failure(exit::FAILED, "nothing was sent", why, cure)
}

impl BeingRead {
    fn of(request: &SendRequest, to: DeviceId, roots: &[PathBuf]) -> Self {
        let size = |root: &PathBuf| root.symlink_metadata().ok().filter(|file| file.is_file()).map(|file| file.len());
        Self {
            reading: Arc::default(),
            title: title_of(&names_of(roots)),
            to,
            note: request.note.clone(),
            at_unix_ms: unix_ms(),
            all: roots.iter().map(size).sum::<Option<u64>>().unwrap_or(0),
        }
    }
}

/// Reads in its own time; whoever waits sees how far it is.
async fn read_and_queue(context: Context, wish: Wish, reading: Arc<Reading>, replies: Replies) {
    let (transfer, wait) = (wish.transfer, wish.request.wait);
    let read = reading.clone();
    let work = context.block(move |context| prepare(context, wish, &read));
    tokio::pin!(work);
    let mut show = tokio::time::interval_at(Instant::now() + limits::READ_UNSAID, limits::PROGRESS_PAUSE);
    let ready = loop {
        tokio::select! {
            ready = &mut work => break ready,
            _ = show.tick() => {
                let replies = replies.clone();
                context.tell(move |actor| actor.show_reading(transfer, &replies)).await;
            }
        }
    };
    let queue = move |actor: &mut Actor| {
        actor.files.read.remove(&transfer);
        match ready {
            Ok(Ok(ready)) if reading.is_stopped() => {
                TransferPlan::remove(&actor.context, ready.plan.transfer);
                replies.failed(not_gathered(&GatherError::Stopped));
            }
            Ok(Ok(ready)) => actor.queue_files(ready, wait, replies),
            Ok(Err(failed)) => replies.failed(failed),
            Err(stops) => replies.failed(stopping(stops)),
        }
    };
    context.tell(queue).await;
}

/// Reads everything and makes the offer. Blocks.
fn prepare(context: &Context, wish: Wish, reading: &Arc<Reading>) -> Result<Ready, Failure> {
    for root in &wish.roots {
        crate::payload::apart(context, root).map_err(|error| not_sent(&error.to_string(), "name other files"))?;
    }
    let bundle = read(&wish.roots, reading)?;
    needs_a_yes(&bundle, &wish.request)?;
    let (plan, offer, catalog) = terms(context, wish, bundle)?;
    let kept = plan.save_catalog(context, &catalog).and_then(|()| plan.save_offer(context, &offer));
    kept.and_then(|()| plan.save(context)).map_err(|error| {
        TransferPlan::remove(context, plan.transfer);
        not_kept(context, &error)
    })?;
    Ok(Ready { plan, offer })
}

fn not_kept(context: &Context, error: &std::io::Error) -> Failure {
    let why = format!("what is known of it cannot be kept: {error}");
    if is_full(error.kind()) {
        let cure = format!("make room on the disk of {}, then send it again", context.state.display());
        return not_sent(&why, &cure);
    }
    not_sent(&why, "cede doctor")
}

fn read(roots: &[PathBuf], reading: &Arc<Reading>) -> Result<Bundle, Failure> {
    let mut attempt = 1;
    loop {
        match gather(roots, reading) {
            Ok(bundle) => return Ok(bundle),
            Err(error) if error.is_passing() && attempt < limits::CAPTURES => {
                attempt += 1;
                std::thread::sleep(limits::CAPTURE_PAUSE);
            }
            Err(error) => return Err(not_gathered(&error)),
        }
    }
}

fn not_gathered(error: &GatherError) -> Failure {
    let cure = match error {
        GatherError::Read(_) | GatherError::Folder { .. } => "name files and folders that can be read",
        GatherError::Path(_) => "rename it",
        GatherError::Twice(_) | GatherError::TooMany(_) | GatherError::TooLong(_) | GatherError::Stopped => "",
        GatherError::Nothing => "name what is to be sent",
    };
    not_sent(&error.to_string(), cure)
}

/// What was named itself is meant; what lies in a folder may have been forgotten there.
fn needs_a_yes(bundle: &Bundle, request: &SendRequest) -> Result<(), Failure> {
    let secrets = &bundle.secret_looking;
    if secrets.is_empty() || request.confirm_secrets {
        return Ok(());
    }
    let few = secrets.iter().take(limits::SECRETS_SAID).cloned().collect::<Vec<_>>().join(", ");
    let more = secrets.len().saturating_sub(limits::SECRETS_SAID);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let why = format!("these files look like secrets: {few}{more}");
    Err(failure(exit::REFUSED, "nothing was sent", &why, "leave them out, or add --yes-secrets"))
}

fn terms(
    context: &Context,
    wish: Wish,
    bundle: Bundle,
) -> Result<(TransferPlan, Verified<TransferOffer>, Vec<u8>), Failure> {
    let Wish { mesh, transfer, to, request, roots } = wish;
    let shown = shown(&bundle.entries).map_err(|error| not_gathered(&error))?;
    let left_out = left_out(&bundle);
    let catalog = FileCatalog { entries: bundle.entries }.to_bytes();
    let chunks = chunk_bytes(&catalog);
    if chunks.len() > TRANSFER_CATALOG_CHUNKS {
        return Err(not_sent("its table of contents is too long", "send an archive of it"));
    }
    let title = title_of(&names_of(&roots));
    let note = request.note.clone();
    let offer = TransferOffer {
        mesh,
        transfer,
        source: context.local.device(),
        destination: to,
        note: note.clone(),
        root: Hash::of(&catalog),
        catalog: chunks,
        shown,
        offered_at_unix_ms: unix_ms(),
    };
    let plan = TransferPlan {
        title,
        files: offer.shown.files,
        bytes: offer.shown.bytes,
        note,
        left_out,
        at_unix_ms: offer.offered_at_unix_ms,
        roots,
        ..unknown(transfer)
    };
    let bug = |error: String| failure(exit::FAILED, "nothing was sent", &format!("fault of ours: {error}"), "");
    let signed = context.local.sign(&offer).map_err(|error| bug(error.to_string()))?;
    let offer = verify(&signed).map_err(|error| bug(error.to_string()))?;
    Ok((plan, offer, catalog))
}

fn left_out(bundle: &Bundle) -> String {
    if bundle.left_out_count == 0 {
        return String::new();
    }
    let more = bundle.left_out_count.saturating_sub(bundle.left_out.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("not sent: {}{more}", bundle.left_out.join(", "))
}

fn names_of(roots: &[PathBuf]) -> Vec<String> {
    let name = |root: &PathBuf| cede_wire::path::escape(root.file_name().unwrap_or_default().as_encoded_bytes());
    roots.iter().map(name).collect()
}
