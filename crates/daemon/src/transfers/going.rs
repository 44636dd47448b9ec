//! A person sends files: they are read, offered, and served once they are approved.

use std::path::{Path, PathBuf};

use cede_agent::bundle::{Bundle, GatherError, gather, shown};
use cede_agent::chunk::chunk_bytes;
use cede_seal::verify::{Verified, verify};
use cede_wire::control::{Answer, Failure, SendRequest, TransferSummary, exit};
use cede_wire::id::{DeviceId, Hash, MeshId, TransferId};
use cede_wire::limits::{DETAIL_CHARS, TRANSFER_CATALOG_CHUNKS, TRANSFER_ROOTS};
use cede_wire::transfer::{FileCatalog, TransferOffer};

use super::TransferPlan;
use super::view::{View, Watcher, title_of, unknown};
use crate::actor::Actor;
use crate::clock::{random, unix_ms};
use crate::context::Context;
use crate::control::Replies;
use crate::limits;
use crate::offering::{failure, stopping};

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
        let (context, to) = (self.context.clone(), member.device());
        tokio::spawn(async move {
            let wait = request.wait;
            let ready = context.block(move |context| prepare(context, mesh, to, &request)).await;
            let ready = match ready {
                Ok(Ok(ready)) => ready,
                Ok(Err(failed)) => return replies.failed(failed),
                Err(stops) => return replies.failed(stopping(stops)),
            };
            context.tell(move |actor| actor.queue_files(ready, wait, replies)).await;
        });
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

/// Reads everything and makes the offer. Blocks.
fn prepare(context: &Context, mesh: MeshId, to: DeviceId, request: &SendRequest) -> Result<Ready, Failure> {
    if request.paths.is_empty() || request.paths.len() > TRANSFER_ROOTS {
        let why = format!("one command sends between one and {TRANSFER_ROOTS} files and folders");
        return Err(failure(exit::USAGE, "nothing was sent", &why, "cede send <device> <file>…"));
    }
    let note = request.note.chars().count();
    if note > DETAIL_CHARS {
        let why = format!("the note has {note} characters, and {DETAIL_CHARS} travel with files");
        return Err(failure(exit::USAGE, "nothing was sent", &why, "say the rest by itself: cede tell <device> \"…\""));
    }
    let roots: Vec<PathBuf> = request.paths.iter().map(PathBuf::from).collect();
    for root in &roots {
        crate::payload::apart(context, root).map_err(|error| not_sent(&error.to_string(), "name other files"))?;
    }
    let bundle = read(&roots)?;
    needs_a_yes(&bundle, request)?;
    let (plan, offer, catalog) = terms(context, mesh, to, request, roots, bundle)?;
    let kept = plan.save_catalog(context, &catalog).and_then(|()| plan.save_offer(context, &offer));
    kept.and_then(|()| plan.save(context)).map_err(|error| {
        TransferPlan::remove(context, plan.transfer);
        not_sent(&format!("what is known of it cannot be kept: {error}"), "cede doctor")
    })?;
    Ok(Ready { plan, offer })
}

fn read(roots: &[PathBuf]) -> Result<Bundle, Failure> {
    let mut attempt = 1;
    loop {
        match gather(roots) {
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
        GatherError::Twice(_) | GatherError::TooMany(_) | GatherError::TooLong(_) => "",
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
    mesh: MeshId,
    to: DeviceId,
    request: &SendRequest,
    roots: Vec<PathBuf>,
    bundle: Bundle,
) -> Result<(TransferPlan, Verified<TransferOffer>, Vec<u8>), Failure> {
    let transfer = TransferId::new(random().map_err(|error| not_sent(&error.to_string(), ""))?);
    let shown = shown(&bundle.entries).map_err(|error| not_gathered(&error))?;
    let left_out = left_out(&bundle);
    let catalog = FileCatalog { entries: bundle.entries }.to_bytes();
    let chunks = chunk_bytes(&catalog);
    if chunks.len() > TRANSFER_CATALOG_CHUNKS {
        return Err(not_sent("its table of contents is too long", "send an archive of it"));
    }
    let names: Vec<String> = roots.iter().map(|root| name_of(root)).collect();
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
        title: title_of(&names),
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

fn name_of(root: &Path) -> String {
    cede_wire::path::escape(root.file_name().unwrap_or_default().as_encoded_bytes())
}
