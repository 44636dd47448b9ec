//! A session arrives: the question, the place it will have, and the task that fetches each round.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cede_agent::tree::{free_target, inspect};
use cede_core::custodian::Standing;
use cede_seal::exchange::ExchangeSecret;
use cede_seal::verify::Verified;
use cede_store::stage::Stage;
use cede_wire::canonical::Signed;
use cede_wire::catalog::Oid;
use cede_wire::control::{Failure, Phase, ReplyBody};
use cede_wire::handoff::{Manifest, Offer};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::PeerPolicy;
use cede_wire::refusal::Refusal;
use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::clock::random;
use crate::context::Context;
use crate::hands::{Hands, Turn};
use crate::offering::{exit_of, failure};
use crate::receiving::{self, Fetch};

/// What the actor knows of a session that arrives.
pub(crate) struct Arriving {
    pub(crate) source: DeviceId,
    pub(crate) plan: ArrivalPlan,
    pub(crate) secret: Option<Arc<ExchangeSecret>>,
    /// Ends the fetching of the present round when the next one begins.
    pub(crate) fetching: Option<tokio::task::AbortHandle>,
    pub(crate) stage: Option<Arc<Stage>>,
    pub(crate) hands: Hands,
}

/// Where an arriving session will stand. Durable before the yes leaves, so that a restart goes on with the same place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArrivalPlan {
    pub(crate) handoff: HandoffId,
    pub(crate) key: cede_wire::session::SessionKey,
    pub(crate) title: String,
    pub(crate) source: DeviceId,
    pub(crate) carry_only: bool,
    pub(crate) target: PathBuf,
    pub(crate) staging: PathBuf,
    pub(crate) clone: Option<PathBuf>,
    pub(crate) have: Vec<Oid>,
    pub(crate) limit_bytes: u64,
    pub(crate) limit_entries: u64,
    pub(crate) executables: Vec<String>,
    pub(crate) dotfiles: Vec<String>,
    pub(crate) configuration_as_code: Vec<String>,
    /// Set when the last round is staged.
    pub(crate) root: Option<cede_wire::id::Hash>,
    pub(crate) notes: Vec<String>,
    /// The agent did not take the conversation; its files wait here.
    #[serde(default)]
    pub(crate) carried: bool,
}

impl ArrivalPlan {
    pub(crate) fn directory(context: &Context, handoff: HandoffId) -> PathBuf {
        context.place("arrivals", &handoff.to_string())
    }

    /// The transcript's files, by their logical paths.
    pub(crate) fn files(context: &Context, handoff: HandoffId) -> PathBuf {
        Self::directory(context, handoff).join("files")
    }

    /// Writes the plan so that it survives a crash.
    pub(crate) fn save(&self, context: &Context) -> std::io::Result<()> {
        use std::io::Write;
        let directory = Self::directory(context, self.handoff);
        std::fs::create_dir_all(&directory)?;
        let file = directory.join("plan.json");
        let temporary = directory.join("plan.json.new");
        let mut out = std::fs::File::create(&temporary)?;
        out.write_all(&serde_json::to_vec(self)?)?;
        out.sync_all()?;
        std::fs::rename(&temporary, &file)?;
        std::fs::File::open(&directory)?.sync_all()?;
        directory.parent().map_or(Ok(()), |parent| std::fs::File::open(parent)?.sync_all())
    }

    /// Every attempt of which something lies here.
    pub(crate) fn all(context: &Context) -> BTreeSet<HandoffId> {
        let planned = std::fs::read_dir(context.place("arrivals", "")).into_iter().flatten().flatten();
        let planned = planned.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        planned.chain(context.home.staged().unwrap_or_default()).collect()
    }

    /// Whether an attempt was begun longer ago than its chunks are kept for another one.
    pub(crate) fn is_old(context: &Context, handoff: HandoffId) -> bool {
        let file = Self::directory(context, handoff).join("plan.json");
        let age = std::fs::metadata(file).and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
        age.is_none_or(|age| age > crate::limits::ABANDONED)
    }

    pub(crate) fn load(context: &Context, handoff: HandoffId) -> Option<Self> {
        let bytes = std::fs::read(Self::directory(context, handoff).join("plan.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

impl Actor {
    /// An offer of a peer without the capability is answered without a look at it.
    pub(crate) fn refuse_unverified(&mut self, from: DeviceId, offer: &Signed<Offer>) {
        let Ok(offer) = cede_seal::verify::verify(offer) else { return };
        let detail = "this device was not given the right to hand sessions over".to_owned();
        let refuse = PeerMessage::Refuse { handoff: offer.handoff, refusal: Refusal::NotGranted, detail };
        self.send(from, refuse);
    }

    /// Checks an offer away from the actor, then asks the operator or answers by policy.
    pub(crate) fn consider_offer(&mut self, offer: Verified<Offer>) {
        let session = offer.key.id();
        let (title, from, to) = (offer.title.clone(), self.device_name(offer.source), self.name.clone());
        self.moves.begin(session, &title, &from, &to);
        let placed = self.placed.get(&session).cloned();
        let context = self.context.clone();
        tokio::spawn(async move {
            let look = context.block({
                let offer = offer.clone();
                move |context| look(context, &offer, placed.as_ref())
            });
            let Ok(looked) = look.await else { return };
            context.tell(move |actor| actor.offer_looked_at(offer, looked)).await;
        });
    }

    fn offer_looked_at(&mut self, offer: Verified<Offer>, looked: Result<ArrivalPlan, (Refusal, String)>) {
        let (session, handoff) = (offer.key.id(), offer.handoff);
        if self.custodian.asked(session).is_none_or(|asked| asked.handoff != handoff) {
            return;
        }
        match looked {
            Err((refusal, detail)) => {
                self.custodian.decline(session, handoff, refusal, &detail);
                self.end_arriving(session, refusal, &detail);
            }
            Ok(plan) => {
                self.report(session, Phase::Offered, (0, 0), 0, "");
                let policy = self.policies.get(&offer.source).copied().unwrap_or(PeerPolicy::Ask);
                if self.takes.use_expected(session, offer.source) || policy == PeerPolicy::Yes {
                    self.approve_arrival(plan);
                } else {
                    self.ask_to_receive(&offer, plan);
                }
            }
        }
    }

    /// The yes: the place is durable, then the custodian's record, then the accept leaves.
    pub(crate) fn approve_arrival(&mut self, plan: ArrivalPlan) {
        let (session, handoff) = (plan.key.id(), plan.handoff);
        if let Err(error) = plan.save(&self.context) {
            let detail = format!("this device cannot write: {error}");
            self.custodian.decline(session, handoff, Refusal::TooLarge, &detail);
            self.end_arriving(session, Refusal::TooLarge, &detail);
            return;
        }
        let Ok(secret) = random().map(ExchangeSecret::from_random) else {
            self.custodian.decline(session, handoff, Refusal::Protocol, "no random bytes");
            return;
        };
        let now = self.context.clock.now();
        if self.custodian.approve(session, handoff, secret.public(), plan.have.clone(), now).is_err() {
            // The offer went away meanwhile. A plan that cannot be removed now is forgotten with the old ones.
            let _ = std::fs::remove_dir_all(ArrivalPlan::directory(&self.context, handoff));
            return;
        }
        let arriving = Arriving { secret: Some(Arc::new(secret)), ..Arriving::new(plan) };
        self.arriving.insert(session, arriving);
        self.report(session, Phase::Transferring, (0, 0), 0, "");
    }

    /// After a reconnect or a restart: the yes again, with a fresh key.
    pub(crate) fn reaccept(&mut self, session: SessionId) {
        let Some(handoff) = self.custodian.arriving(session).map(|d| d.attempt().handoff) else { return };
        if !self.restore_arriving(session, handoff) {
            let detail = "the plan of this arrival is lost here";
            self.custodian.receive_failed(session, handoff, Refusal::Cancelled, detail);
            return;
        }
        let Ok(secret) = random().map(ExchangeSecret::from_random) else { return };
        let Some(arriving) = self.arriving.get_mut(&session) else { return };
        let (public, have) = (secret.public(), arriving.plan.have.clone());
        arriving.stop();
        arriving.secret = Some(Arc::new(secret));
        self.custodian.reaccept(session, public, have);
    }

    /// In charge by certificate, but the payload is gone: fetches it again.
    pub(crate) fn refetch(&mut self, session: SessionId, handoff: HandoffId, source: DeviceId) {
        if !self.restore_arriving(session, handoff) {
            tracing::error!(session = %session.short(), "in charge of a session whose payload and place are lost here");
            return;
        }
        let Ok(secret) = random().map(ExchangeSecret::from_random) else { return };
        let public = secret.public();
        if let Some(arriving) = self.arriving.get_mut(&session) {
            arriving.secret = Some(Arc::new(secret));
            arriving.source = source;
        }
        let now = self.context.clock.now();
        self.custodian.refetch(session, public, now);
    }

    fn restore_arriving(&mut self, session: SessionId, handoff: HandoffId) -> bool {
        if self.arriving.get(&session).is_some_and(|arriving| arriving.plan.handoff == handoff) {
            return true;
        }
        let Some(plan) = ArrivalPlan::load(&self.context, handoff) else { return false };
        if self.moves.get(session).is_none() {
            let (from, to) = (self.device_name(plan.source), self.name.clone());
            self.moves.begin(session, &plan.title, &from, &to);
        }
        self.arriving.insert(session, Arriving::new(plan));
        true
    }

    /// A round was announced: fetches what is missing of it.
    pub(crate) fn fetch(&mut self, manifest: Verified<Manifest>) {
        let session = manifest.session;
        let base = self.placed.get(&session).cloned();
        let Some(arriving) = self.arriving.get_mut(&session) else { return };
        let Some(secret) = arriving.secret.clone() else { return };
        let turn = arriving.stop();
        let stage = arriving.stage.clone();
        let (plan, handoff) = (arriving.plan.clone(), manifest.handoff);
        let fetch = Fetch::new(self.context.clone(), manifest, plan, secret, stage, base, turn);
        let (context, source) = (self.context.clone(), arriving.source);
        let task = tokio::spawn(async move {
            if let Err(error) = receiving::run(fetch).await {
                let (refusal, detail) = (error.refusal(), error.to_string());
                tracing::info!(session = %session.short(), peer = %source.short(), detail, "the payload was not received");
                context.tell(move |actor| actor.custodian.receive_failed(session, handoff, refusal, &detail)).await;
            }
        });
        arriving.fetching = Some(task.abort_handle());
    }

    /// The attempt is over. Its chunks stay for the next attempt of the same session.
    pub(crate) fn discard(&mut self, session: SessionId, handoff: HandoffId, refusal: Refusal) {
        let is_it = |arriving: &Arriving| arriving.plan.handoff == handoff;
        let here = self.arriving.get(&session).is_some_and(is_it).then(|| self.arriving.remove(&session)).flatten();
        // After a restart only the disk knows where parts of it may lie.
        let known = here.or_else(|| ArrivalPlan::load(&self.context, handoff).map(Arriving::new));
        if let Some(mut arriving) = known {
            let (turn, staging) = (arriving.stop(), arriving.plan.staging);
            tokio::task::spawn_blocking(move || {
                let Some(_held) = turn.hold() else { return };
                if let Err(error) = cede_agent::tree::discard(&staging) {
                    tracing::warn!(%error, "parts of a session that did not come are left behind");
                }
            });
        }
        self.context.routes.remove(&handoff);
        self.end_arriving(session, refusal, "");
    }

    pub(crate) fn end_arriving(&mut self, session: SessionId, refusal: Refusal, detail: &str) {
        if self.leaving.contains_key(&session) {
            return;
        }
        self.report(session, Phase::Abandoned, (0, 0), 0, detail);
        let owner = self.custodian.owner(session).map_or_else(String::new, |owner| self.device_name(owner));
        let why = if detail.is_empty() { refusal.word().to_owned() } else { format!("{refusal}: {detail}") };
        let failed = Failure {
            refusal: Some(refusal),
            now_at: Some(owner),
            ..failure(exit_of(refusal), "the session did not come here", &why, "cede status")
        };
        self.moves.end(session, &ReplyBody::Failed(failed));
    }

    /// Whether a session is in charge here, for lists.
    pub(crate) fn is_here(&self, session: SessionId) -> bool {
        self.custodian.standing(session).is_none_or(|standing| {
            matches!(
                standing,
                Standing::InCharge | Standing::Leaving(_) | Standing::Arriving | Standing::PayloadMissing
            )
        })
    }
}

impl Arriving {
    fn new(plan: ArrivalPlan) -> Self {
        Self { source: plan.source, plan, secret: None, fetching: None, stage: None, hands: Hands::default() }
    }

    /// Ends what is under way for it; whoever works next waits with the turn until it has ended.
    pub(crate) fn stop(&mut self) -> Turn {
        if let Some(task) = self.fetching.take() {
            task.abort();
        }
        self.hands.next()
    }
}

/// Everything that can be said before a person is asked. Blocks.
fn look(
    context: &Context,
    offer: &Offer,
    placed: Option<&cede_wire::record::PlacedSession>,
) -> Result<ArrivalPlan, (Refusal, String)> {
    if !offer.carry_only {
        let adapter = context.adapter(offer.key.agent);
        let adapter = adapter.ok_or((Refusal::DestinationCannotResume, "no adapter for this agent".to_owned()))?;
        adapter.check(&offer.requirement).map_err(|error| (Refusal::DestinationCannotResume, error.to_string()))?;
    }
    let needed = offer.scope.limit_bytes.saturating_mul(2).saturating_sub(crate::limits::SCOPE_SLACK_BYTES * 2);
    if !context.home.has_room_for_bulk(needed).unwrap_or(true) {
        let free = context.home.free_bytes().unwrap_or(0) / 1_000_000;
        return Err((Refusal::TooLarge, format!("{} MB are needed here, {free} MB are free", needed / 1_000_000)));
    }
    let target = target(context, offer, placed);
    let clone = local_clone(context, offer, placed);
    let have = clone.as_ref().map(|clone| clone.1.clone()).unwrap_or_default();
    let staging = staging_beside(&target, offer.handoff);
    Ok(ArrivalPlan {
        handoff: offer.handoff,
        key: offer.key.clone(),
        title: offer.title.clone(),
        source: offer.source,
        carry_only: offer.carry_only,
        staging,
        target,
        clone: clone.map(|clone| clone.0),
        have,
        limit_bytes: offer.scope.limit_bytes,
        limit_entries: offer.scope.limit_entries,
        executables: offer.scope.executables.clone(),
        dotfiles: offer.scope.dotfiles.clone(),
        configuration_as_code: offer.scope.configuration_as_code.clone(),
        root: None,
        notes: Vec::new(),
        carried: false,
    })
}

pub(crate) fn staging_beside(target: &Path, handoff: HandoffId) -> PathBuf {
    target.parent().unwrap_or(target).join(format!(".cede-staging-{handoff}"))
}

/// Where the tree will stand: where it was, or at the same place below this home, or at the same path; else beside it.
fn target(context: &Context, offer: &Offer, placed: Option<&cede_wire::record::PlacedSession>) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    if let Some(placed) = placed.filter(|placed| placed.root.is_some()) {
        let directory = crate::sessions::path_of(&placed.directory);
        if let Ok(tree) = inspect(&directory) {
            return tree.root;
        }
    }
    let home = &context.surroundings.home;
    let plain = |bytes: &[u8]| {
        let path = Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned();
        let all_normal = path.components().all(|c| matches!(c, std::path::Component::Normal(_)));
        all_normal.then_some(path)
    };
    let below = offer.workspace.below_home.as_deref().and_then(plain).map(|rest| home.join(rest));
    let name = Path::new(std::ffi::OsStr::from_bytes(&offer.workspace.path)).file_name();
    let name = name.map_or_else(|| PathBuf::from("session"), PathBuf::from);
    free_target(&below.unwrap_or_else(|| home.join(name)))
}

/// A clone of the same repository on this device, and the commits that it has.
fn local_clone(
    context: &Context,
    offer: &Offer,
    placed: Option<&cede_wire::record::PlacedSession>,
) -> Option<(PathBuf, Vec<Oid>)> {
    let wanted = offer.workspace.repository.as_ref().filter(|repository| !repository.roots.is_empty())?;
    let mut candidates: Vec<PathBuf> =
        placed.iter().map(|placed| crate::sessions::path_of(&placed.directory)).collect();
    for adapter in &context.adapters {
        let sessions = adapter.discover().unwrap_or_default();
        candidates.extend(sessions.into_iter().map(|info| PathBuf::from(info.directory)));
    }
    candidates.sort();
    candidates.dedup();
    let trees = candidates.into_iter().take(64).filter_map(|directory| inspect(&directory).ok());
    trees
        .filter_map(|tree| Some((tree.root, tree.git?)))
        .find_map(|(root, git)| (git.identity.roots == wanted.roots).then_some((root, git.tips)))
}
