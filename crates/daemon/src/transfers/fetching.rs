//! What was approved is fetched, compared with what was shown, written beside its place and put there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cede_agent::bundle::{self, PlaceError, Tamed};
use cede_agent::chunk::SourceFiles;
use cede_agent::tree::StageError;
use cede_seal::exchange::{ExchangeSecret, HandoffKeys, TransferContext};
use cede_seal::verify::Verified;
use cede_store::stage::Stage;
use cede_wire::catalog::{ChunkRef, distinct_chunks};
use cede_wire::id::{Hash, TransferId};
use cede_wire::message::{NeedOf, PeerMessage};
use cede_wire::transfer::{FileCatalog, Shown, TransferKey, TransferMessage, TransferOffer};
use tokio::sync::mpsc;

use super::{Task, TransferPlan, room};
use crate::actor::Actor;
use crate::base::Chunks;
use crate::context::{Context, patiently};
use crate::hands::Turn;
use crate::limits;
use crate::receiving::{FetchError, Receiver, Source};

/// One exchange.
struct Fetching {
    context: Context,
    offer: Verified<TransferOffer>,
    secret: Arc<ExchangeSecret>,
    stage: Option<Arc<Stage>>,
    turn: Turn,
    over: Arc<AtomicBool>,
}

impl Actor {
    pub(super) fn fetch_files(&mut self, key: &Verified<TransferKey>) {
        let transfer = key.transfer;
        let Some((_, coming)) = self.transfers.coming().find(|(id, _)| *id == transfer) else { return };
        let offer = coming.offer().clone();
        let task = self.files.tasks.entry(transfer).or_insert_with(Task::idle);
        let Some(secret) = task.secret.clone().filter(|secret| secret.public() == key.accepted_key) else { return };
        task.abort();
        let turn = self.context.hands(TransferContext::stream_name(transfer)).next();
        let (stage, over) = (task.stage.clone(), task.over.clone());
        let fetching = Fetching { context: self.context.clone(), offer, secret, stage, turn, over };
        task.hand = Some(tokio::spawn(fetching.run(key.exchange_key)).abort_handle());
    }

    /// The place was chosen, or is written already.
    fn files_placed(&mut self, plan: TransferPlan, place: &str) {
        let transfer = plan.transfer;
        if let Some(view) = self.files.views.get_mut(&transfer) {
            view.plan = plan;
        }
        if let Err(error) = self.transfers.received(transfer, place) {
            tracing::info!(transfer = %transfer.short(), %error, "files were withdrawn as they took their place");
        }
    }
}

impl Fetching {
    async fn run(self, sender_key: [u8; 32]) {
        let (context, transfer) = (self.context.clone(), self.offer.transfer);
        match self.fetch(sender_key).await {
            Ok((plan, place)) => {
                let place = place.display().to_string();
                context.tell(move |actor| actor.files_placed(plan, &place)).await;
            }
            Err(FetchError::Stopping) => {}
            Err(FetchError::NoSpace(why)) => {
                tracing::debug!(transfer = %transfer.short(), why, "no room");
                context.tell(move |actor| actor.hold_files(transfer)).await;
            }
            Err(error) => {
                // It is refused once: there is no question any more.
                let stop = move |actor: &mut Actor| {
                    let (here, there) = (error.to_string(), error.there());
                    actor.transfers.stop_saying(transfer, error.refusal(), &here, &there)
                };
                context.tell(move |actor| drop(stop(actor))).await;
            }
        }
    }

    async fn fetch(mut self, sender_key: [u8; 32]) -> Result<(TransferPlan, PathBuf), FetchError> {
        let (context, offer) = (self.context.clone(), self.offer.clone());
        let keys = self.keys(sender_key)?;
        // Nothing is asked for that could not be kept.
        let room = context.block(|context| context.home.has_room_for_bulk(0).unwrap_or(true)).await?;
        if !room {
            return Err(FetchError::NoSpace("what is free is kept for the records".to_owned()));
        }
        let stage = self.open_stage().await?;
        let chunks = Chunks { stage, older: Vec::new(), files: Arc::new(SourceFiles::default()) };
        let (route, streams) = mpsc::channel(limits::ROUTED);
        context.routes.insert(TransferContext::stream_name(offer.transfer), (offer.source, route));
        let accepted_key = self.secret.public();
        let exchange = Exchange { context: context.clone(), offer: offer.clone(), accepted_key };
        let mut receiver = Receiver::new(context.clone(), keys, streams, exchange);
        receiver.receive(&chunks, offer.catalog.clone(), NeedOf::Catalog).await?;
        let wanted = self.wanted(&chunks).await?;
        receiver.receive(&chunks, wanted, NeedOf::Payload).await?;
        match self.place(&chunks).await? {
            Err(error) if error.is_chunk() => {
                // A chunk that the disk changed is forgotten by the stage: it is asked for again.
                let wanted = self.wanted(&chunks).await?;
                receiver.receive(&chunks, wanted, NeedOf::Payload).await?;
                self.place(&chunks).await?.map_err(not_placed)
            }
            placed => placed.map_err(not_placed),
        }
    }

    /// What the catalog names. The catalog itself is read again when its files are written: one of a hundred thousand files is
    /// large, and content may come for hours.
    async fn wanted(&self, chunks: &Chunks) -> Result<Vec<ChunkRef>, FetchError> {
        let (chunks, offer) = (chunks.clone(), self.offer.clone());
        let read = move |_: &Context| read_catalog(&chunks, &offer).map(|entries| distinct_chunks(entries.entries()));
        self.context.block(read).await?
    }

    /// One thread at a time works at the place: one whose exchange was ended is waited for.
    async fn place(&self, chunks: &Chunks) -> Result<Placed, FetchError> {
        let (offer, chunks, turn, transfer) =
            (self.offer.clone(), chunks.clone(), self.turn.clone(), self.offer.transfer);
        let over = self.over.clone();
        let placed = self.context.block(move |context| {
            let _held = turn.hold().ok_or(FetchError::Stopping)?;
            let entries = read_catalog(&chunks, &offer)?;
            Ok(place(context, transfer, &entries, &chunks, &over))
        });
        placed.await?
    }

    fn keys(&self, sender_key: [u8; 32]) -> Result<HandoffKeys, FetchError> {
        let offer = &self.offer;
        let context = TransferContext {
            mesh: offer.mesh,
            transfer: offer.transfer,
            offer: offer.signed().hash(),
            source: offer.source,
            destination: offer.destination,
            source_exchange_key: sender_key,
            destination_exchange_key: self.secret.public(),
        };
        HandoffKeys::derive_for_files(&self.secret, &sender_key, &context)
            .map_err(|error| FetchError::Integrity(error.to_string()))
    }

    /// Opened once: an exchange that was ended may still hold it, so the actor keeps it.
    async fn open_stage(&mut self) -> Result<Arc<Stage>, FetchError> {
        if let Some(stage) = self.stage.take() {
            return Ok(stage);
        }
        let transfer = self.offer.transfer;
        let kept = self.context.ask(move |actor| actor.files.tasks.get(&transfer).and_then(|task| task.stage.clone()));
        if let Some(stage) = kept.await? {
            return Ok(stage);
        }
        let open = move |context: &Context| patiently(|| context.home.transfer_stage(transfer));
        let stage = Arc::new(self.context.block(open).await??);
        let keep = stage.clone();
        self.context
            .ask(move |actor| {
                if let Some(task) = actor.files.tasks.get_mut(&transfer) {
                    task.stage = Some(keep);
                }
            })
            .await?;
        Ok(stage)
    }
}

/// What is said while chunks come.
struct Exchange {
    context: Context,
    offer: Verified<TransferOffer>,
    accepted_key: [u8; 32],
}

impl Source for Exchange {
    async fn ask(&self, of: NeedOf, bitmap: Vec<u8>, present: u64) {
        let (to, transfer, accepted_key) = (self.offer.source, self.offer.transfer, self.accepted_key);
        let need = TransferMessage::Need { transfer, accepted_key, of, bitmap };
        self.context
            .tell(move |actor| {
                if of == NeedOf::Payload
                    && let Some(view) = actor.files.views.get_mut(&transfer)
                {
                    view.begin(present, 0);
                }
                actor.send(to, PeerMessage::Transfer(Box::new(need)));
            })
            .await;
    }

    async fn ask_afresh(&self) {
        let (from, transfer) = (self.offer.source, self.offer.transfer);
        tracing::debug!(transfer = %transfer.short(), "nothing comes; accepting again");
        let again = move |actor: &mut Actor| {
            if actor.connected(from) {
                actor.accept_files(transfer);
            }
        };
        self.context.tell(again).await;
    }

    async fn show(&self, of: NeedOf, bytes: u64, total: u64) {
        if of == NeedOf::Payload {
            let transfer = self.offer.transfer;
            self.context.tell(move |actor| actor.files_came(transfer, bytes, total)).await;
        }
    }
}

impl Actor {
    fn files_came(&mut self, transfer: TransferId, bytes: u64, total: u64) {
        if let Some(view) = self.files.views.get_mut(&transfer) {
            if bytes > view.since {
                self.transfers.heard(transfer, self.context.clock.now());
            }
            view.to_move = view.present + total;
            view.since = bytes;
        }
        self.tell_watchers(transfer);
    }
}

/// The catalog that was approved, and nothing that was not shown. Blocks. Source: SPEC F-2
fn read_catalog(chunks: &Chunks, offer: &TransferOffer) -> Result<Tamed, FetchError> {
    use cede_agent::tree::ReadChunk;
    let length: usize = offer.catalog.iter().map(|chunk| chunk.length as usize).sum();
    let (mut bytes, mut piece) = (Vec::with_capacity(length), Vec::new());
    for chunk in &offer.catalog {
        chunks.read(&chunk.id, &mut piece).map_err(|error| FetchError::Integrity(error.to_string()))?;
        bytes.extend_from_slice(&piece);
    }
    if Hash::of(&bytes) != offer.root {
        return Err(FetchError::Integrity("the catalog's hash is another".to_owned()));
    }
    let catalog = FileCatalog::from_bytes(&bytes).map_err(|error| FetchError::Undecodable(error.to_string()))?;
    drop(bytes);
    let shown = bundle::shown(&catalog.entries).map_err(|error| FetchError::OutsideScope(error.to_string()))?;
    match differs(&shown, &offer.shown) {
        Some(what) => Err(FetchError::OutsideScope(format!("{what} are not those that were shown"))),
        None => Tamed::of(catalog.entries).map_err(not_placed),
    }
}

/// Programs of two versions may know different files that tools run unasked: one that was not shown is too much, one that
/// was shown beyond them is not.
fn differs(is: &Shown, said: &Shown) -> Option<&'static str> {
    let code = is.configuration_as_code.iter().any(|path| !said.configuration_as_code.contains(path));
    let checks = [
        (is.files != said.files || is.bytes != said.bytes, "the figures"),
        (is.paths != said.paths, "the paths"),
        (is.executables != said.executables, "the executable files"),
        (is.dotfiles != said.dotfiles, "the hidden files"),
        (code, "the files that tools run unasked"),
    ];
    checks.into_iter().find(|(differs, _)| *differs).map(|(_, what)| what)
}

/// The plan with the place in it, and the place.
type Placed = Result<(TransferPlan, PathBuf), PlaceError>;

/// Blocks.
fn place(context: &Context, transfer: TransferId, entries: &Tamed, chunks: &Chunks, over: &AtomicBool) -> Placed {
    let lost = || PlaceError::Lost("the plan of this transfer".to_owned());
    let mut plan = TransferPlan::load(context, transfer).ok_or_else(lost)?;
    let (Some(folder), Some(staging)) = (plan.folder.clone(), plan.staging.clone()) else { return Err(lost()) };
    let chosen = plan.chosen().map(Path::to_owned);
    // Chosen, and nothing left to give its name: an earlier run did it.
    let done = chosen.as_ref().is_some_and(|chosen| chosen.symlink_metadata().is_ok() && bundle::is_spent(&staging));
    if !done {
        if plan.place.take().is_some() {
            plan.save(context).map_err(|error| PlaceError::io(&folder, &error))?;
        }
        write(context, &plan, entries, chunks, (&folder, &staging))?;
    }
    let together = plan.together.clone();
    let place =
        bundle::finish(&folder, &staging, &together, chosen.as_deref().filter(|_| done), &mut |from, place| {
            if over.load(Ordering::SeqCst) {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            plan.choose(context, from, place)
        })?;
    Ok((plan, place))
}

/// What an earlier run left half done is no room that is missing, and what this one leaves is given back.
fn write(
    context: &Context,
    plan: &TransferPlan,
    entries: &Tamed,
    chunks: &Chunks,
    (folder, staging): (&Path, &Path),
) -> Result<(), PlaceError> {
    bundle::discard(staging)?;
    if let Some(room::Short { free, needed, .. }) = room::short(context, folder, 0, plan.bytes) {
        return Err(PlaceError::Stage(StageError::NoSpace { needed, free }));
    }
    let written = bundle::write(entries, chunks, folder, staging);
    if written.is_err() {
        // A rest of it goes before the next attempt.
        let _ = bundle::discard(staging);
    }
    written
}

fn not_placed(error: PlaceError) -> FetchError {
    if error.is_full() {
        FetchError::NoSpace(error.to_string())
    } else if error.is_chunk() {
        FetchError::Integrity(error.to_string())
    } else if matches!(&error, PlaceError::Stage(StageError::Hostile(_))) {
        FetchError::Undecodable(error.to_string())
    } else {
        FetchError::CannotPlace(error.to_string())
    }
}
