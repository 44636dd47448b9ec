//! One round of a transfer, on the receiving side: what is missing is asked for, opened, verified and made durable.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cede_agent::tree::{Names, ReadChunk, StageRequest, free_target, stage};
use cede_carrier::link::data::DataReceiver;
use cede_core::destination::StagedPayload;
use cede_seal::exchange::{ExchangeSecret, HandoffContext, HandoffKeys};
use cede_seal::stream::{HEADER_BYTES, Opener};
use cede_seal::verify::Verified;
use cede_store::objects::ObjectError;
use cede_store::stage::Stage;
use cede_wire::catalog::{Catalog, ChunkRef, Place};
use cede_wire::control::Phase;
use cede_wire::handoff::Manifest;
use cede_wire::id::Hash;
use cede_wire::message::{NeedOf, PeerMessage};
use cede_wire::record::PlacedSession;
use cede_wire::refusal::Refusal;
use tokio::sync::mpsc;

use crate::arriving::{ArrivalPlan, staging_beside};
use crate::base::{self, Chunks, Visit};
use crate::context::{Context, Stopping};
use crate::hands::Turn;
use crate::limits;
use crate::moves::Story;
use crate::spoken::write_transcript;

mod opening;

use opening::{Room, Wanted, open_stream};

/// A data stream whose header was read.
pub(crate) struct Routed {
    pub(crate) header: [u8; HEADER_BYTES],
    pub(crate) stream: DataReceiver,
}

/// Why a payload was not received. The source keeps the session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("the bytes do not match what was signed: {0}")]
    Integrity(String),
    #[error("the payload does not decode: {0}")]
    Undecodable(String),
    #[error("the payload is outside what was approved: {0}")]
    OutsideScope(String),
    #[error("no room here: {0}")]
    NoSpace(String),
    #[error("the tree cannot be put here: {0}")]
    CannotPlace(String),
    #[error("this device cannot write: {0}")]
    World(String),
    /// A newer round took the place of this one, or the daemon stops. The attempt goes on.
    #[error("the round was taken off")]
    Stopping,
}

impl FetchError {
    /// A full disk is named as that: what helps there is room.
    pub(crate) fn writing(error: &std::io::Error) -> Self {
        if is_full(error.kind()) { Self::NoSpace(error.to_string()) } else { Self::World(error.to_string()) }
    }

    /// In words for the sender, which learns what helps and not where anything lies here.
    pub(crate) fn there(&self) -> String {
        match self {
            Self::CannotPlace(_) => {
                "it cannot be put into its place there, and that device says why: cede transfers".to_owned()
            }
            Self::World(_) | Self::NoSpace(_) => "that device cannot write, and says why: cede transfers".to_owned(),
            Self::Integrity(_) | Self::Undecodable(_) | Self::OutsideScope(_) | Self::Stopping => self.to_string(),
        }
    }

    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::Integrity(_) => Refusal::IntegrityFailed,
            Self::Undecodable(_) => Refusal::PayloadUndecodable,
            Self::OutsideScope(_) => Refusal::Unauthorized,
            Self::NoSpace(_) => Refusal::TooLarge,
            Self::CannotPlace(_) | Self::World(_) => Refusal::DestinationCannotResume,
            Self::Stopping => Refusal::Cancelled,
        }
    }
}

/// A task that was taken off is superseded; one that panicked is a fault of ours.
impl From<tokio::task::JoinError> for FetchError {
    fn from(error: tokio::task::JoinError) -> Self {
        if error.is_panic() { Stopping::Fault.into() } else { Self::Stopping }
    }
}

impl From<Stopping> for FetchError {
    fn from(why: Stopping) -> Self {
        match why {
            Stopping::Told => Self::Stopping,
            Stopping::Fault => Self::World(why.to_string()),
        }
    }
}

impl From<cede_store::stage::StageError> for FetchError {
    fn from(error: cede_store::stage::StageError) -> Self {
        if error == cede_store::stage::StageError::NoSpace {
            Self::NoSpace(error.to_string())
        } else {
            Self::World(error.to_string())
        }
    }
}

/// What the task of one round works with.
pub(crate) struct Fetch {
    context: Context,
    manifest: Verified<Manifest>,
    plan: ArrivalPlan,
    secret: Arc<ExchangeSecret>,
    stage: Option<Arc<Stage>>,
    placed: Option<PlacedSession>,
    turn: Turn,
}

impl Fetch {
    pub(crate) fn new(
        context: Context,
        manifest: Verified<Manifest>,
        plan: ArrivalPlan,
        secret: Arc<ExchangeSecret>,
        stage: Option<Arc<Stage>>,
        placed: Option<PlacedSession>,
        turn: Turn,
    ) -> Self {
        Self { context, manifest, plan, secret, stage, placed, turn }
    }
}

/// Fetches one round. The last one is staged, and the custodian told.
pub(crate) async fn run(mut fetch: Fetch) -> Result<(), FetchError> {
    let context = fetch.context.clone();
    let manifest = fetch.manifest.clone();
    let (session, handoff, round) = (manifest.session, manifest.handoff, manifest.round);
    let keys = keys(&fetch)?;
    let stage = open_stage(&fetch).await?;
    let (placed, turn) = (fetch.placed.take(), fetch.turn.clone());
    // A round that was replaced while it waited for this looks at nothing any more.
    let visit = context.block(move |context| {
        let _held = turn.hold().ok_or(FetchError::Stopping)?;
        placed.map_or(Ok(None), |placed| base::last_visit(context, &placed))
    });
    let visit = visit.await??;
    let (visit, files) = match visit {
        Some(mut visit) => {
            let files = std::mem::take(&mut visit.files);
            (Some(visit), files)
        }
        None => (None, Default::default()),
    };
    let older = older_stages(&context, session, handoff).await?;
    let mut chunks = Chunks { stage, older, files: Arc::new(files) };
    let (route, streams) = mpsc::channel(limits::ROUTED);
    context.routes.insert(handoff, (manifest.source, route));
    let round_of = Round { context: context.clone(), manifest: manifest.clone() };
    let mut receiver = Receiver::new(context.clone(), keys, streams, round_of);
    check_catalog(&manifest)?;
    receiver.receive(&chunks, manifest.catalog.clone(), NeedOf::Catalog).await?;
    let catalog = read_catalog(&context, &chunks, &manifest).await?;
    check_scope(&catalog, &manifest, &fetch.plan)?;
    let catalog = Arc::new(catalog);
    receiver.receive(&chunks, catalog.distinct_chunks(), NeedOf::Payload).await?;
    let visit = visit.map(Arc::new);
    if !manifest.last {
        stage_early(&fetch, &catalog, &chunks, visit).await?;
        context.tell(move |actor| actor.custodian.round_complete(session, handoff, round)).await;
        return Ok(());
    }
    let mut staged = place(&fetch, &catalog, &chunks, visit.clone()).await;
    if matches!(staged, Err(Placing::Chunk)) {
        // A file of the last visit is no longer what it was: everything that is not stored is asked for again.
        chunks = chunks.without_files();
        receiver.receive(&chunks, catalog.distinct_chunks(), NeedOf::Payload).await?;
        staged = place(&fetch, &catalog, &chunks, visit).await;
    }
    let plan = staged.map_err(Placing::into_error)?;
    let payload = StagedPayload { head: manifest.head, root: manifest.root };
    context
        .tell(move |actor| {
            if let Some(arriving) = actor.arriving.get_mut(&session).filter(|a| a.plan.handoff == handoff) {
                arriving.plan = plan;
            }
            actor.report(Story::Coming(session), Phase::Staged, (0, 0), round, "");
            let now = actor.context.clock.now();
            actor.custodian.staged(session, handoff, payload, now);
        })
        .await;
    Ok(())
}

fn keys(fetch: &Fetch) -> Result<HandoffKeys, FetchError> {
    let manifest = &fetch.manifest;
    let context = HandoffContext {
        mesh: manifest.mesh,
        session: manifest.session,
        handoff: manifest.handoff,
        source: manifest.source,
        destination: manifest.destination,
        token: manifest.token,
        source_exchange_key: manifest.exchange_key,
        destination_exchange_key: fetch.secret.public(),
    };
    HandoffKeys::derive(&fetch.secret, &manifest.exchange_key, &context)
        .map_err(|error| FetchError::Integrity(error.to_string()))
}

async fn open_stage(fetch: &Fetch) -> Result<Arc<Stage>, FetchError> {
    if let Some(stage) = &fetch.stage {
        return Ok(stage.clone());
    }
    let (session, handoff) = (fetch.manifest.session, fetch.manifest.handoff);
    // Opened once per attempt: an aborted round may still hold it, so the actor keeps it.
    let kept = fetch.context.ask(move |actor| actor.arriving.get(&session).and_then(|a| a.stage.clone())).await?;
    if let Some(stage) = kept {
        return Ok(stage);
    }
    let stage = fetch.context.block(move |context| context.stage(handoff)).await??;
    let keep = stage.clone();
    fetch
        .context
        .ask(move |actor| {
            if let Some(arriving) = actor.arriving.get_mut(&session) {
                arriving.stage = Some(keep);
            }
        })
        .await?;
    Ok(stage)
}

/// Chunks of earlier attempts of the same session, which were given up.
async fn older_stages(
    context: &Context,
    session: cede_wire::id::SessionId,
    handoff: cede_wire::id::HandoffId,
) -> Result<Vec<Arc<Stage>>, FetchError> {
    Ok(context.block(move |context| older(context, session, handoff)).await?)
}

fn older(context: &Context, session: cede_wire::id::SessionId, handoff: cede_wire::id::HandoffId) -> Vec<Arc<Stage>> {
    let others = context.home.staged().unwrap_or_default().into_iter().filter(|other| *other != handoff);
    let same = others.filter(|other| ArrivalPlan::load(context, *other).is_some_and(|p| p.key.id() == session));
    same.filter_map(|other| context.stage(other).ok()).collect()
}

/// What is said to whoever sends the chunks, and to people, while they are received.
pub(crate) trait Source: Send + Sync {
    /// Asks for the chunks whose bit is set; so many bytes of the list are here.
    fn ask(&self, of: NeedOf, bitmap: Vec<u8>, present: u64) -> impl Future<Output = ()> + Send;
    /// Nothing comes though something is missing.
    fn ask_afresh(&self) -> impl Future<Output = ()> + Send;
    /// So much of what was asked for is here.
    fn show(&self, of: NeedOf, bytes: u64, total: u64) -> impl Future<Output = ()> + Send;
}

/// Receives chunks under one set of keys.
pub(crate) struct Receiver<S> {
    context: Context,
    keys: HandoffKeys,
    streams: mpsc::Receiver<Routed>,
    numbers: HashSet<u32>,
    source: S,
}

impl<S: Source> Receiver<S> {
    pub(crate) fn new(context: Context, keys: HandoffKeys, streams: mpsc::Receiver<Routed>, source: S) -> Self {
        Self { context, keys, streams, numbers: HashSet::new(), source }
    }

    /// Asks for the chunks that are not here and waits until they are here and durable.
    pub(crate) async fn receive(&mut self, chunks: &Chunks, list: Vec<ChunkRef>, of: NeedOf) -> Result<(), FetchError> {
        let (bitmap, missing) = needed(chunks, &list);
        let total: u64 = missing.iter().map(|chunk| u64::from(chunk.length)).sum();
        let all: u64 = list.iter().map(|chunk| u64::from(chunk.length)).sum();
        drop(list);
        self.source.ask(of, bitmap, all - total).await;
        let wanted = Arc::new(Wanted::new(missing));
        let stage = chunks.stage.clone();
        let mut streams = tokio::task::JoinSet::new();
        let mut show = tokio::time::interval(limits::PROGRESS_PAUSE);
        let (mut before, mut since) = (0, tokio::time::Instant::now());
        while !wanted.is_done() {
            let here = wanted.bytes.load(Ordering::Relaxed);
            if here > before {
                (before, since) = (here, tokio::time::Instant::now());
            }
            tokio::select! {
                () = tokio::time::sleep_until(since + limits::STALL) => {
                    since = tokio::time::Instant::now();
                    self.source.ask_afresh().await;
                }
                routed = self.streams.recv(), if streams.len() < limits::ROUTED => {
                    let Some(routed) = routed else { return Err(FetchError::Stopping) };
                    // A stream of a round that was given up has other keys: it is dropped, its sender told to stop.
                    if let Ok(opener) = self.opener(&routed.header) {
                        let room = Room(self.context.clone());
                        streams.spawn(open_stream(opener, routed.stream, stage.clone(), wanted.clone(), room));
                    }
                }
                Some(ended) = streams.join_next() => {
                    ended.unwrap_or_else(|error| Err(error.into()))?;
                }
                () = wanted.done.notified() => {}
                _ = show.tick() => self.source.show(of, wanted.bytes.load(Ordering::Relaxed), total).await,
            }
        }
        self.source.show(of, total, total).await;
        // Streams that still run hold nothing that is wanted any more.
        streams.abort_all();
        Ok(self.context.block(move |_| stage.sync().map(drop)).await??)
    }

    fn opener(&mut self, header: &[u8; HEADER_BYTES]) -> Result<Opener, FetchError> {
        let opener = Opener::new(&self.keys, header).map_err(|error| FetchError::Integrity(error.to_string()))?;
        if self.numbers.insert(opener.number()) {
            Ok(opener)
        } else {
            Err(FetchError::Integrity("a stream number came twice".to_owned()))
        }
    }
}

/// One round of a handoff.
struct Round {
    context: Context,
    manifest: Verified<Manifest>,
}

impl Source for Round {
    async fn ask(&self, of: NeedOf, bitmap: Vec<u8>, present: u64) {
        let (source, session) = (self.manifest.source, self.manifest.session);
        let need = PeerMessage::Need { handoff: self.manifest.handoff, round: self.manifest.round, of, bitmap };
        self.context
            .tell(move |actor| {
                if of == NeedOf::Payload {
                    let story = Story::Coming(session);
                    let came = actor.moves.get(story).map_or(0, |view| view.bytes_sent);
                    actor.count_present(story, present.saturating_sub(came));
                }
                actor.send(source, need);
            })
            .await;
    }

    /// Nothing comes though something is missing: the yes is said again, with a fresh key. It ends this round. A source
    /// that is only slow announces the round again, and what is here is not sent twice.
    async fn ask_afresh(&self) {
        let (session, source) = (self.manifest.session, self.manifest.source);
        tracing::debug!(session = %session.short(), peer = %source.short(), "nothing comes; accepting again");
        let again = move |actor: &mut crate::actor::Actor| {
            if actor.connected(source) {
                actor.reaccept(session);
            }
        };
        self.context.tell(again).await;
    }

    async fn show(&self, of: NeedOf, bytes: u64, total: u64) {
        if of == NeedOf::Payload {
            let (session, round) = (self.manifest.session, self.manifest.round);
            self.context
                .tell(move |actor| actor.report(Story::Coming(session), Phase::Transferring, (bytes, total), round, ""))
                .await;
        }
    }
}

fn needed(chunks: &Chunks, list: &[ChunkRef]) -> (Vec<u8>, Vec<ChunkRef>) {
    let mut bitmap = vec![0; list.len().div_ceil(8)];
    let (mut missing, mut asked) = (Vec::new(), HashSet::new());
    for (index, chunk) in list.iter().enumerate() {
        // A list that names a chunk twice is sent it once.
        if !chunks.has(&chunk.id)
            && let Some(byte) = bitmap.get_mut(index / 8)
            && asked.insert(chunk.id)
        {
            *byte |= 1 << (index % 8);
            missing.push(*chunk);
        }
    }
    (bitmap, missing)
}

async fn read_catalog(
    context: &Context,
    chunks: &Chunks,
    manifest: &Verified<Manifest>,
) -> Result<Catalog, FetchError> {
    let (chunks, manifest) = (chunks.clone(), manifest.clone());
    context
        .block(move |_| {
            let mut bytes = Vec::new();
            let mut piece = Vec::new();
            for chunk in &manifest.catalog {
                chunks.read(&chunk.id, &mut piece).map_err(|error| FetchError::Integrity(error.to_string()))?;
                bytes.extend_from_slice(&piece);
                if bytes.len() as u64 > cede_wire::limits::CATALOG_BYTES {
                    return Err(FetchError::Undecodable("the catalog is too long".to_owned()));
                }
            }
            if Hash::of(&bytes) != manifest.root {
                return Err(FetchError::Integrity("the catalog's hash is another".to_owned()));
            }
            Catalog::from_bytes(&bytes).map_err(|error| FetchError::Undecodable(error.to_string()))
        })
        .await?
}

/// A catalog that is longer than any is not even asked for.
fn check_catalog(manifest: &Manifest) -> Result<(), FetchError> {
    let bytes: u64 = manifest.catalog.iter().map(|chunk| u64::from(chunk.length)).sum();
    if manifest.catalog.len() > cede_wire::limits::CATALOG_CHUNKS || bytes > cede_wire::limits::CATALOG_BYTES {
        return Err(FetchError::Undecodable("the catalog is too long".to_owned()));
    }
    Ok(())
}

/// The last manifest must fit what a person approved. Source: SPEC H-14.
fn check_scope(catalog: &Catalog, manifest: &Manifest, plan: &ArrivalPlan) -> Result<(), FetchError> {
    let outside = |what: String| Err(FetchError::OutsideScope(what));
    if catalog.key != plan.key || catalog.head != manifest.head {
        return Err(FetchError::Undecodable("the catalog is of another session or turn".to_owned()));
    }
    if plan.anew {
        return Ok(());
    }
    let bytes: u64 = catalog.distinct_chunks().iter().map(|chunk| u64::from(chunk.length)).sum();
    if bytes > plan.limit_bytes || catalog.entries.len() as u64 > plan.limit_entries {
        return outside(format!("{bytes} bytes in {} entries", catalog.entries.len()));
    }
    // The tree's entries come first: a catalog is in the order of its places.
    let of_tree = catalog.entries.partition_point(|entry| entry.place == Place::Tree);
    let names = Names::of(catalog.entries.get(..of_tree).unwrap_or_default(), &[]);
    let lists = [
        (&names.executables, &plan.executables, "executable"),
        (&names.dotfiles, &plan.dotfiles, "dotfile"),
        (&names.code, &plan.configuration_as_code, "file that tools run unasked"),
    ];
    for (found, approved, what) in lists {
        let approved: HashSet<&String> = approved.iter().collect();
        if let Some(new) = found.iter().find(|path| !approved.contains(path)) {
            return outside(format!("a new {what}: {new}"));
        }
    }
    Ok(())
}

enum Placing {
    Chunk,
    Failed(FetchError),
}

impl Placing {
    fn into_error(self) -> FetchError {
        match self {
            Self::Chunk => FetchError::Integrity("a chunk is missing or damaged".to_owned()),
            Self::Failed(error) => error,
        }
    }
}

/// A chunk in a file of the last visit that changed since is asked for again.
fn unspoken(error: std::io::Error) -> Placing {
    let unread = error.kind() == std::io::ErrorKind::InvalidData;
    if unread { Placing::Chunk } else { Placing::Failed(FetchError::writing(&error)) }
}

/// Writes what is here already beside its place while the session still works at the source: the last round then
/// writes only what changed. What goes wrong with a tree in motion is judged in that round, but for want of room.
async fn stage_early(
    fetch: &Fetch,
    catalog: &Arc<Catalog>,
    chunks: &Chunks,
    visit: Option<Arc<Visit>>,
) -> Result<(), FetchError> {
    let (catalog, chunks, plan) = (catalog.clone(), chunks.clone(), fetch.plan.clone());
    let turn = fetch.turn.clone();
    let staged = fetch.context.block(move |context| {
        let Some(_held) = turn.hold() else { return Err(Placing::Failed(FetchError::Stopping)) };
        let world = |error: std::io::Error| Placing::Failed(FetchError::World(error.to_string()));
        let plan = stage_somewhere(context, &catalog, &chunks, plan, visit.as_deref())?;
        plan.save(context).map_err(world)?;
        let files = ArrivalPlan::files(context, plan.handoff);
        write_transcript(&catalog, &chunks, &files).map_err(unspoken)?;
        sync_file_system(&files).map_err(world)?;
        Ok(plan)
    });
    let (session, handoff) = (fetch.manifest.session, fetch.manifest.handoff);
    match staged.await? {
        Ok(plan) => {
            let replan = move |actor: &mut crate::actor::Actor| {
                if let Some(arriving) = actor.arriving.get_mut(&session).filter(|a| a.plan.handoff == handoff) {
                    arriving.plan = plan;
                }
            };
            Ok(fetch.context.ask(replan).await?)
        }
        Err(Placing::Failed(error @ (FetchError::NoSpace(_) | FetchError::Stopping))) => Err(error),
        Err(other) => {
            tracing::debug!(error = %other.into_error(), "nothing was staged before the last round");
            Ok(())
        }
    }
}

/// Writes the whole payload beside its place, durable. Nothing of the present tree is touched.
async fn place(
    fetch: &Fetch,
    catalog: &Arc<Catalog>,
    chunks: &Chunks,
    visit: Option<Arc<Visit>>,
) -> Result<ArrivalPlan, Placing> {
    let (catalog, chunks, plan) = (catalog.clone(), chunks.clone(), fetch.plan.clone());
    let turn = fetch.turn.clone();
    let placed = fetch.context.block(move |context| {
        let Some(_held) = turn.hold() else { return Err(Placing::Failed(FetchError::Stopping)) };
        place_blocking(context, &catalog, &chunks, plan, visit.as_deref())
    });
    placed.await.map_err(|stopping| Placing::Failed(stopping.into()))?
}

fn place_blocking(
    context: &Context,
    catalog: &Catalog,
    chunks: &Chunks,
    plan: ArrivalPlan,
    visit: Option<&Visit>,
) -> Result<ArrivalPlan, Placing> {
    let world = |error: std::io::Error| Placing::Failed(FetchError::writing(&error));
    let mut plan = stage_somewhere(context, catalog, chunks, plan, visit)?;
    let files = ArrivalPlan::files(context, plan.handoff);
    write_transcript(catalog, chunks, &files).map_err(unspoken)?;
    let bytes = catalog.to_bytes();
    let kept = context.objects.put(&bytes);
    kept.map_err(|error| Placing::Failed(FetchError::World(error.to_string())))?;
    plan.root = Some(Hash::of(&bytes));
    plan.save(context).map_err(world)?;
    sync_file_system(&files).map_err(world)?;
    Ok(plan)
}

/// Stages the tree for its target, or for a new place if the target is not what it was.
fn stage_somewhere(
    context: &Context,
    catalog: &Catalog,
    chunks: &Chunks,
    mut plan: ArrivalPlan,
    visit: Option<&Visit>,
) -> Result<ArrivalPlan, Placing> {
    let baseline = visit.filter(|visit| visit.root == plan.target).map(|visit| &visit.baseline);
    match stage_tree(context, catalog, chunks, &plan, baseline) {
        Ok(()) => {}
        Err(cede_agent::tree::StageError::TargetDiffers { differences, .. }) => {
            // What was begun there leads to nothing; a rest of it is no harm.
            let _ = cede_agent::tree::discard(&plan.staging);
            stand_elsewhere(&mut plan, &differences);
            stage_tree(context, catalog, chunks, &plan, None).map_err(staging_failed)?;
        }
        Err(error) => return Err(staging_failed(error)),
    }
    Ok(plan)
}

/// Stages a payload once more from its chunks: what lay beside the place is gone, and this device is the owner. Blocks.
pub(crate) fn place_again(
    context: &Context,
    plan: ArrivalPlan,
    placed: Option<&PlacedSession>,
) -> Result<(), FetchError> {
    let (session, handoff) = (plan.key.id(), plan.handoff);
    let lost = || FetchError::Integrity("the catalog of this arrival is lost".to_owned());
    let bytes = match context.objects.get(&plan.root.ok_or_else(lost)?) {
        Ok(Some(bytes)) => bytes,
        Ok(None) | Err(ObjectError::Corrupt(_)) => return Err(lost()),
        Err(error) => return Err(FetchError::CannotPlace(format!("its catalog cannot be read: {error}"))),
    };
    let catalog = Catalog::from_bytes(&bytes).map_err(|error| FetchError::Undecodable(error.to_string()))?;
    let mut visit = placed.map_or(Ok(None), |placed| base::last_visit(context, placed))?;
    let files = visit.as_mut().map(|visit| std::mem::take(&mut visit.files)).unwrap_or_default();
    let (stage, older) = (context.stage(handoff)?, older(context, session, handoff));
    let chunks = Chunks { stage, older, files: Arc::new(files) };
    if catalog.distinct_chunks().iter().any(|chunk| !chunks.has(&chunk.id)) {
        return Err(FetchError::Integrity("chunks of this arrival are lost".to_owned()));
    }
    place_blocking(context, &catalog, &chunks, plan, visit.as_ref()).map(drop).map_err(Placing::into_error)
}

/// The place of the last visit was changed by a person: nothing there is touched.
fn stand_elsewhere(plan: &mut ArrivalPlan, differences: &[String]) {
    plan.notes.push(format!(
        "{} is not as the session left it ({}); the session stands in a new directory",
        plan.target.display(),
        differences.join(", ")
    ));
    plan.target = free_target(&plan.target);
    plan.staging = staging_beside(&plan.target, plan.handoff);
}

fn stage_tree(
    context: &Context,
    catalog: &Catalog,
    chunks: &Chunks,
    plan: &ArrivalPlan,
    baseline: Option<&cede_agent::tree::Baseline>,
) -> Result<(), cede_agent::tree::StageError> {
    if let Some(parent) = plan.target.parent() {
        // A parent that cannot be made shows in the staging that follows.
        let _ = std::fs::create_dir_all(parent);
    }
    if !is_ours(&plan.staging) {
        let path = cede_wire::path::escape(plan.staging.as_os_str().as_encoded_bytes());
        return Err(cede_agent::tree::StageError::Io { path, kind: std::io::ErrorKind::PermissionDenied });
    }
    let cache = || crate::payload::load_cache(context, &format!("{}.tree", catalog.key.id())).0;
    let request = StageRequest {
        entries: &catalog.entries,
        chunks,
        staging: &plan.staging,
        target: &plan.target,
        baseline,
        cache: &cache,
        local_clone: plan.clone.as_deref(),
    };
    let began = std::time::Instant::now();
    let staged = stage(&request);
    tracing::debug!(entries = catalog.entries.len(), ms = crate::moves::millis(began), "staged");
    staged.map(drop)
}

/// False where another user, who may write to the place of the target, made the staging first.
fn is_ours(staging: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    staging.symlink_metadata().map_or(true, |meta| meta.is_dir() && meta.uid() == own)
}

pub(crate) const fn is_full(kind: std::io::ErrorKind) -> bool {
    matches!(kind, std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

fn staging_failed(error: cede_agent::tree::StageError) -> Placing {
    use cede_agent::tree::StageError;
    match error {
        StageError::Io { kind, .. } if is_full(kind) => Placing::Failed(FetchError::NoSpace(error.to_string())),
        StageError::Chunk(_) => Placing::Chunk,
        StageError::Hostile(_) | StageError::Git { .. } => Placing::Failed(FetchError::Undecodable(error.to_string())),
        StageError::NoSpace { .. } => Placing::Failed(FetchError::NoSpace(error.to_string())),
        StageError::TargetDiffers { .. }
        | StageError::Compare(_)
        | StageError::OtherFileSystem(_)
        | StageError::Io { .. } => Placing::Failed(FetchError::CannotPlace(error.to_string())),
    }
}

pub(crate) fn sync_file_system(path: &Path) -> std::io::Result<()> {
    let directory = std::fs::File::open(path)?;
    rustix::fs::syncfs(&directory)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: H-16
    #[tokio::test]
    async fn round_that_is_taken_off_does_not_end_the_attempt() {
        let task = tokio::spawn(core::future::pending::<()>());
        task.abort();
        assert_eq!(FetchError::from(task.await.unwrap_err()), FetchError::Stopping);
        let fault = tokio::spawn(async { panic!("a fault of ours") });
        assert!(matches!(FetchError::from(fault.await.unwrap_err()), FetchError::World(_)));
    }
}
