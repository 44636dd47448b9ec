//! What was approved is served: lists and content, as they are asked for, over one link after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use cede_agent::bundle::{as_offered, sources_of};
use cede_agent::chunk::{ReadChunkError, ReadError};
use cede_carrier::link::Link;
use cede_seal::exchange::{ExchangeSecret, HandoffKeys, TransferContext};
use cede_seal::verify::Verified;
use cede_wire::catalog::ChunkRef;
use cede_wire::id::{Hash, TransferId};
use cede_wire::message::NeedOf;
use cede_wire::refusal::Refusal;
use cede_wire::transfer::{TransferAccept, TransferOffer};
use tokio::sync::mpsc;

use super::{Task, TransferPlan};
use crate::actor::Actor;
use crate::context::Context;
use crate::hands::Turn;
use crate::limits;
use crate::sending::{self, Content, Part, SendError};

/// One exchange.
struct Serving {
    context: Context,
    transfer: TransferId,
    link: Link,
    keys: HandoffKeys,
    needs: mpsc::Receiver<(NeedOf, Vec<u8>)>,
    numbers: AtomicU32,
    sent: Arc<AtomicU64>,
    turn: Turn,
}

/// One of the two lists, and where its bytes are read.
struct Loaded {
    content: Arc<Content>,
    list: Vec<ChunkRef>,
    roots: Vec<PathBuf>,
}

/// Why an exchange ended.
enum Ended {
    /// The link; the next accept begins another one.
    Link,
    /// It cannot go on.
    Over(Refusal, String),
}

impl Actor {
    /// Approved, for the first time or again.
    pub(super) fn serve_files(&mut self, accept: Verified<TransferAccept>) {
        let transfer = accept.transfer;
        let Some(link) = self.peers.link(accept.destination) else { return };
        let Some((_, going)) = self.transfers.going().find(|(id, _)| *id == transfer) else { return };
        let offer = going.offer().clone();
        let Some(secret) = self.exchange_secret(transfer) else { return };
        let keys = keys(&offer, &accept, &secret);
        let keys = match keys {
            Ok(keys) => keys,
            Err(why) => return drop(self.transfers.stop(transfer, Refusal::Protocol, &why)),
        };
        let task = self.files.tasks.entry(transfer).or_insert_with(Task::idle);
        task.abort();
        let (needs, asked) = mpsc::channel(limits::NEEDS_PER_LIST as usize * 2);
        let serving = Serving {
            context: self.context.clone(),
            transfer,
            link,
            keys,
            needs: asked,
            numbers: AtomicU32::new(0),
            sent: Arc::default(),
            turn: self.context.hands(TransferContext::stream_name(transfer)).next(),
        };
        if let Some(view) = self.files.views.get_mut(&transfer) {
            view.waits.clear();
        }
        let hand = tokio::spawn(serving.run(accept, secret.public(), offer));
        (task.needs, task.needed, task.hand) = (Some(needs), 0, Some(hand.abort_handle()));
        self.tell_watchers(transfer);
    }

    pub(super) fn files_needed(&mut self, transfer: TransferId, of: NeedOf, bitmap: Vec<u8>) {
        let Some(task) = self.files.tasks.get_mut(&transfer) else { return };
        task.needed += 1;
        let flooded = task.needed > limits::NEEDS_PER_LIST * 2;
        let sent = task.needs.as_ref().is_some_and(|needs| needs.try_send((of, bitmap)).is_ok());
        if flooded || !sent {
            let detail = "the receiver asks for the same again and again";
            // It is gone already where this says so.
            let _ = self.transfers.stop(transfer, Refusal::Protocol, detail);
        }
    }

    fn files_sent(&mut self, transfer: TransferId, sent: u64) {
        if let Some(view) = self.files.views.get_mut(&transfer) {
            view.since = sent;
        }
        self.tell_watchers(transfer);
    }
}

fn keys(
    offer: &Verified<TransferOffer>,
    accept: &TransferAccept,
    secret: &ExchangeSecret,
) -> Result<HandoffKeys, String> {
    let context = TransferContext {
        mesh: offer.mesh,
        transfer: offer.transfer,
        offer: offer.signed().hash(),
        source: offer.source,
        destination: offer.destination,
        source_exchange_key: secret.public(),
        destination_exchange_key: accept.exchange_key,
    };
    HandoffKeys::derive_for_files(secret, &accept.exchange_key, &context).map_err(|error| error.to_string())
}

impl Serving {
    async fn run(mut self, accept: Verified<TransferAccept>, public: [u8; 32], offer: Verified<TransferOffer>) {
        let (context, transfer) = (self.context.clone(), self.transfer);
        if let Err(Ended::Over(refusal, detail)) = self.serve(accept, public, offer).await {
            context.tell(move |actor| drop(actor.transfers.stop(transfer, refusal, &detail))).await;
        }
    }

    async fn serve(
        &mut self,
        accept: Verified<TransferAccept>,
        public: [u8; 32],
        offer: Verified<TransferOffer>,
    ) -> Result<(), Ended> {
        let transfer = self.transfer;
        let said = self.context.ask(move |actor| actor.transfers.key(&accept, public)).await;
        // Another accept took the place of this one.
        if !matches!(said, Ok(Ok(()))) {
            return Err(Ended::Link);
        }
        while let Some((of, bitmap)) = self.needs.recv().await {
            let Loaded { content, list, roots } = self.load(&offer, of).await?;
            let chunks = Part::all(sending::selected(&list, &bitmap));
            if of == NeedOf::Payload {
                let all: u64 = list.iter().map(|chunk| u64::from(chunk.length)).sum();
                let missing = chunks.bytes();
                self.sent.store(0, Ordering::Relaxed);
                let begin = move |actor: &mut Actor| {
                    if let Some(view) = actor.files.views.get_mut(&transfer) {
                        view.begin(all - missing, all);
                    }
                };
                self.context.ask(begin).await.map_err(|_| Ended::Link)?;
            }
            drop(list);
            self.send((&content, &roots), chunks, of).await?;
        }
        Ok(())
    }

    /// Read for each list that is asked for, and by one exchange at a time: one of a hundred thousand files is large.
    async fn load(&self, offer: &Verified<TransferOffer>, of: NeedOf) -> Result<Loaded, Ended> {
        let (turn, offer) = (self.turn.clone(), offer.clone());
        let loaded = self.context.block(move |context| turn.hold().map(|_held| load(context, &offer, of))).await;
        // None: another exchange took the place of this one.
        let loaded = loaded.ok().flatten().ok_or(Ended::Link)?;
        loaded.map_err(|why| Ended::Over(Refusal::IntegrityFailed, why))
    }

    /// Streams that end soon: whatever else is to travel on this link gets its turn between them.
    async fn send(
        &self,
        (content, roots): (&Arc<Content>, &[PathBuf]),
        mut rest: Part,
        of: NeedOf,
    ) -> Result<(), Ended> {
        let shown = if of == NeedOf::Payload { self.sent.clone() } else { Arc::default() };
        while let Some(part) = rest.take(limits::TRANSFER_TURN_BYTES) {
            let sending = sending::send(&self.link, &self.keys, &self.numbers, content.clone(), part, shown.clone());
            tokio::pin!(sending);
            let mut show = tokio::time::interval(limits::PROGRESS_PAUSE);
            let sent = loop {
                tokio::select! {
                    sent = &mut sending => break sent,
                    _ = show.tick(), if of == NeedOf::Payload => self.show(&shown).await,
                }
            };
            if of == NeedOf::Payload {
                self.show(&shown).await;
            }
            match sent {
                Ok(()) => {}
                Err(SendError::Link) => return Err(Ended::Link),
                Err(SendError::Changed(what)) => {
                    return Err(Ended::Over(Refusal::IntegrityFailed, changed(what, roots)));
                }
                Err(error @ SendError::Bug(_)) => return Err(Ended::Over(Refusal::Protocol, error.to_string())),
            }
        }
        Ok(())
    }

    async fn show(&self, sent: &AtomicU64) {
        let (transfer, sent) = (self.transfer, sent.load(Ordering::Relaxed));
        if sent > 0 {
            self.context.tell(move |actor| actor.files_sent(transfer, sent)).await;
        }
    }
}

/// In words for both sides.
fn changed(error: ReadChunkError, roots: &[PathBuf]) -> String {
    match as_offered(error, roots) {
        ReadChunkError::Changed { path }
        | ReadChunkError::Read(ReadError::Missing(path) | ReadError::NotRegular(path) | ReadError::Changing(path)) => {
            format!("{path} changed at the sender before it was sent")
        }
        ReadChunkError::Read(ReadError::Io { path, kind }) => {
            format!("{path} cannot be read at the sender now: {kind}")
        }
        unknown @ ReadChunkError::Unknown(_) => unknown.to_string(),
    }
}

/// Blocks.
fn load(context: &Context, offer: &TransferOffer, of: NeedOf) -> Result<Loaded, String> {
    let lost = |what: &str| format!("what was to be sent is not known any more: {what}");
    let plan = TransferPlan::load(context, offer.transfer).ok_or_else(|| lost("no plan"))?;
    let bytes = TransferPlan::load_catalog(context, offer.transfer).map_err(|error| lost(&error.to_string()))?;
    if Hash::of(&bytes) != offer.root {
        return Err(lost("its table of contents is another"));
    }
    let (content, list) = match of {
        NeedOf::Catalog => {
            let chunks = offer.catalog.clone();
            (Content::Catalog { bytes: Bytes::from(bytes), chunks: chunks.clone() }, chunks)
        }
        NeedOf::Payload => {
            let sources = sources_of(&bytes, &plan.roots).map_err(|error| lost(&error.to_string()))?;
            let chunks = sources.chunks();
            (Content::Files(Arc::new(sources)), chunks)
        }
    };
    Ok(Loaded { content: Arc::new(content), list, roots: plan.roots })
}
