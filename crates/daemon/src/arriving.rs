//! A session arrives: the question, the place it will have, and the task that fetches each round.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cede_agent::tree::{TreeRefusal, free_target, identify, root_of};
use cede_core::authority::CapabilityRefusal;
use cede_core::custodian::Standing;
use cede_seal::exchange::ExchangeSecret;
use cede_seal::verify::Verified;
use cede_store::limits::BULK_FREE_BYTES;
use cede_store::stage::Stage;
use cede_wire::audit::{AuditOf, DecidedBy};
use cede_wire::authority::Rule;
use cede_wire::canonical::Signed;
use cede_wire::catalog::Oid;
use cede_wire::control::{Answer, Failure, Phase, ReplyBody, exit};
use cede_wire::custody::Release;
use cede_wire::handoff::{Manifest, Offer};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;
use cede_wire::session::{Activity, SessionInfo};
use cede_wire::shown::bytes;
use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::approvals::UNRECORDED;
use crate::audit::move_decided;
use crate::clock::random;
use crate::context::{Context, Stopping, found};
use crate::errands::Errand;
use crate::hands::{Hands, Turn};
use crate::limits;
use crate::moves::Story;
use crate::offering::{exit_of, failure, reason};
use crate::receiving::{self, Fetch, FetchError};
use crate::tasks::overlap;

/// What the actor knows of a session that arrives.
pub(crate) struct Arriving {
    pub(crate) source: DeviceId,
    pub(crate) plan: ArrivalPlan,
    pub(crate) secret: Option<Arc<ExchangeSecret>>,
    /// Ends the fetching of the present round when the next one begins.
    pub(crate) fetching: Option<tokio::task::AbortHandle>,
    pub(crate) stage: Option<Arc<Stage>>,
    pub(crate) hands: Hands,
    /// Rounds that were announced.
    manifests: u32,
    /// Why it was not received, for whoever waits here.
    failed: String,
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
    /// The plan was lost and made anew. The payload that the certificate names was staged here once, so it is what was
    /// approved.
    #[serde(default)]
    pub(crate) anew: bool,
    /// The agent here has a session of this id that never moved: what the peer says of it is not what is known here.
    #[serde(default)]
    pub(crate) here_already: bool,
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
        match std::fs::metadata(file).and_then(|meta| meta.modified()) {
            Ok(at) => at.elapsed().is_ok_and(|age| age > limits::ABANDONED),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    /// The plan of an attempt, where one lies here whole. An error says nothing of that.
    pub(crate) fn read(context: &Context, handoff: HandoffId) -> std::io::Result<Option<Self>> {
        let bytes = found(std::fs::read(Self::directory(context, handoff).join("plan.json")))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// The same where a plan that cannot be read is as good as none.
    pub(crate) fn load(context: &Context, handoff: HandoffId) -> Option<Self> {
        Self::read(context, handoff).ok().flatten()
    }
}

impl Actor {
    /// An offer of a peer without the capability is answered without a look at it.
    pub(crate) fn refuse_unverified(
        &mut self,
        from: DeviceId,
        offer: &Signed<Offer>,
        (why, by): (CapabilityRefusal, DecidedBy),
    ) {
        let Ok(offer) = cede_seal::verify::verify(offer) else { return };
        let (refusal, detail) = match why {
            _ if by == DecidedBy::Fault => (Refusal::Busy, UNRECORDED),
            CapabilityRefusal::NotGranted => {
                (why.refusal(), "this device was not given the right to hand sessions over")
            }
            CapabilityRefusal::NoApprover => (why.refusal(), "nobody can be asked there"),
            CapabilityRefusal::Declined => (why.refusal(), "the operator there takes no sessions of this device"),
        };
        let refuse = PeerMessage::Refuse { handoff: offer.handoff, refusal, detail: detail.to_owned() };
        self.send(from, refuse);
    }

    /// Checks an offer away from the actor, then asks the operator or answers by policy.
    pub(crate) fn consider_offer(&mut self, offer: Verified<Offer>) {
        let (session, source) = (offer.key.id(), offer.source);
        if !self.errands.begin(source, Errand::LookAtOffer) {
            let detail = "too many offers at once";
            self.custodian.decline(session, offer.handoff, Refusal::Busy, detail);
            return;
        }
        let title = crate::scrutiny::text(&offer.title);
        let (from, to) = (self.device_name(source), self.name.clone());
        self.moves.begin(Story::Coming(session), &title, &from, &to);
        let placed = self.placed.get(&session).cloned();
        let known = self.custodian.chain(session).is_some();
        let context = self.context.clone();
        tokio::spawn(async move {
            let look = context.block({
                let offer = offer.clone();
                move |context| look(context, &offer, placed.as_ref(), known)
            });
            let ours = |fault: Stopping| (Refusal::DestinationCannotResume, fault.to_string());
            let looked = look.await.unwrap_or_else(|fault| Err(ours(fault)));
            context
                .tell(move |actor| {
                    actor.errands.end(source, Errand::LookAtOffer);
                    actor.offer_looked_at(offer, looked);
                })
                .await;
        });
    }

    fn offer_looked_at(&mut self, offer: Verified<Offer>, looked: Result<ArrivalPlan, (Refusal, String)>) {
        let (session, handoff) = (offer.key.id(), offer.handoff);
        if self.custodian.asked(session).is_none_or(|asked| asked.handoff != handoff) {
            // Another offer of it has its own story; one that was withdrawn meanwhile ends here.
            if self.custodian.asked(session).is_none() && self.custodian.arriving(session).is_none() {
                self.end_arriving(session, Refusal::Cancelled, "the offer was withdrawn");
            }
            return;
        }
        let looked = looked.and_then(|plan| match self.task_at(&plan.target) {
            Some(works) => Err((Refusal::Busy, works)),
            None => Ok(plan),
        });
        match looked {
            Err((refusal, detail)) => {
                self.refuse_arrival(session, handoff, refusal, &detail);
            }
            Ok(plan) => {
                self.report(Story::Coming(session), Phase::Offered, (0, 0), 0, "");
                let rule = self.rule(offer.source, Capability::Handoff);
                // No standing yes lets a peer take the place of a conversation that never left this device.
                let unattended = rule == Some(Rule::Accept) && !plan.here_already;
                let expected = self.takes.use_expected(session, offer.source);
                if expected || unattended {
                    let by = if expected { DecidedBy::Operator } else { DecidedBy::Rule };
                    let (of, shown) = (AuditOf::Handoff(handoff), Some(offer.scope.digest()));
                    let decided = move_decided(offer.source, of, (true, by), shown);
                    self.once_recorded(decided, move |actor, stands| match stands {
                        true => drop(actor.approve_arrival(plan)),
                        false => actor.refuse_arrival(session, handoff, Refusal::Busy, UNRECORDED),
                    });
                } else {
                    self.ask_to_receive(&offer, plan);
                }
            }
        }
    }

    /// Whose task works where a session would stand.
    fn task_at(&self, target: &Path) -> Option<String> {
        let real = target.canonicalize().ok()?;
        let from = self.task_over(&real)?;
        let here = &self.name;
        Some(format!("a task of {from} works where the session would stand; at {here} type: cede tasks"))
    }

    /// Whether a session that arrives will stand in this directory, above it or below it.
    pub(crate) fn is_awaited_at(&self, directory: &Path) -> bool {
        let real = |arriving: &Arriving| arriving.plan.target.canonicalize();
        self.arriving.values().filter_map(|arriving| real(arriving).ok()).any(|target| overlap(&target, directory))
    }

    /// A no before anything was written.
    pub(crate) fn refuse_arrival(&mut self, session: SessionId, handoff: HandoffId, refusal: Refusal, detail: &str) {
        self.custodian.decline(session, handoff, refusal, detail);
        self.end_arriving(session, refusal, detail);
    }

    /// The yes: the place is durable, then the custodian's record, then the accept leaves. Where nothing could begin with it, it is
    /// refused: by a fault here, or since the offer stands no more.
    pub(crate) fn approve_arrival(&mut self, plan: ArrivalPlan) -> Result<(), DecidedBy> {
        let (session, handoff) = (plan.key.id(), plan.handoff);
        if let Some(works) = self.task_at(&plan.target) {
            self.note_arrival(plan.source, AuditOf::Handoff(handoff), false);
            self.refuse_arrival(session, handoff, Refusal::Busy, &works);
            return Err(DecidedBy::Closed);
        }
        // A peer chooses the id, and the id names the files: two sessions under one would stand for each other.
        let fault = match ArrivalPlan::read(&self.context, handoff) {
            Ok(Some(other)) if other.key != plan.key => {
                Err((DecidedBy::Closed, Refusal::Protocol, "its id is that of another handoff here".to_owned()))
            }
            Ok(_) => plan.save(&self.context).map_err(|error| {
                let error = FetchError::writing(&error);
                (DecidedBy::Fault, error.refusal(), error.to_string())
            }),
            Err(error) => {
                let why = format!("this device cannot read its plans: {error}");
                Err((DecidedBy::Fault, Refusal::DestinationCannotResume, why))
            }
        };
        if let Err((by, refusal, detail)) = fault {
            self.note_arrival(plan.source, AuditOf::Handoff(handoff), false);
            self.refuse_arrival(session, handoff, refusal, &detail);
            return Err(by);
        }
        let Ok(secret) = random().map(ExchangeSecret::from_random) else {
            self.note_arrival(plan.source, AuditOf::Handoff(handoff), false);
            self.refuse_arrival(session, handoff, Refusal::Protocol, "no random bytes");
            return Err(DecidedBy::Fault);
        };
        let now = self.context.clock.now();
        if let Err(refusal) = self.custodian.approve(session, handoff, secret.public(), plan.have.clone(), now) {
            // The offer went away meanwhile. A plan that cannot be removed now is forgotten with the old ones.
            let _ = std::fs::remove_dir_all(ArrivalPlan::directory(&self.context, handoff));
            self.note_arrival(plan.source, AuditOf::Handoff(handoff), false);
            if self.coming_from(session).is_none() {
                self.end_arriving(session, refusal, "the offer does not stand any more");
            }
            return Err(DecidedBy::Closed);
        }
        let arriving = Arriving { secret: Some(Arc::new(secret)), ..Arriving::new(&self.context, plan) };
        self.arriving.insert(session, arriving);
        self.report(Story::Coming(session), Phase::Transferring, (0, 0), 0, "");
        Ok(())
    }

    /// After a reconnect or a restart: the yes again, with a fresh key.
    pub(crate) fn reaccept(&mut self, session: SessionId) {
        let Some(attempt) = self.custodian.arriving(session).map(|d| d.attempt()) else { return };
        let handoff = attempt.handoff;
        if self.custodian.standing(session) == Some(Standing::PayloadMissing) {
            return self.refetch(session, handoff, attempt.source);
        }
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
        if let Err(error) = ArrivalPlan::read(&self.context, handoff) {
            // Nothing is planned anew beside a plan that may be there.
            tracing::error!(session = %session.short(), %error, "the plan of a session in charge here cannot be read");
            return;
        }
        // A new plan that could not be kept when the loss was found may be kept now.
        let planned = self.restore_arriving(session, handoff)
            || self.plan_anew(session, handoff, source) && self.restore_arriving(session, handoff);
        if !planned {
            tracing::error!(session = %session.short(), "in charge of a session whose payload and place are lost here");
            return;
        }
        let Ok(secret) = random().map(ExchangeSecret::from_random) else { return };
        let public = secret.public();
        if let Some(arriving) = self.arriving.get_mut(&session) {
            arriving.secret = Some(Arc::new(secret));
            arriving.source = source;
            arriving.manifests = 0;
        }
        let now = self.context.clock.now();
        self.custodian.refetch(session, public, now);
    }

    /// A plan for a session that was staged here and whose plan is lost. False: where it should stand cannot be kept.
    pub(crate) fn plan_anew(&mut self, session: SessionId, handoff: HandoffId, source: DeviceId) -> bool {
        let note = "the plan of this arrival was lost here; its files were fetched again";
        self.plan_for(session, (handoff, source), None, note).is_some()
    }

    /// A plan for a session that comes without an approved offer: called and placed as its old owner tells. Where it will
    /// stand; none: that cannot be kept.
    pub(crate) fn plan_claimed(
        &mut self,
        session: SessionId,
        release: &Release,
        told: Option<&SessionInfo>,
    ) -> Option<PathBuf> {
        let note = "it was claimed: nobody approved here what it holds";
        let planned = self.plan_for(session, (release.handoff, release.from), told, note);
        if planned.is_none() {
            tracing::error!(session = %session.short(), "no plan for a claimed session can be kept");
        }
        planned
    }

    fn plan_for(
        &mut self,
        session: SessionId,
        (handoff, source): (HandoffId, DeviceId),
        told: Option<&SessionInfo>,
        note: &str,
    ) -> Option<PathBuf> {
        let key = self.key_of(session).or_else(|| told.map(|info| info.key.clone()))?;
        let placed = self.placed.get(&session);
        let before = placed.filter(|placed| placed.root.is_some()).map(|p| crate::sessions::path_of(&p.directory));
        let before = match before.map(|directory| root_of(&directory)).transpose() {
            Err(unread) if unread.is_of_the_world() => {
                tracing::error!(session = %session.short(), %unread, "where it stood cannot be read");
                return None;
            }
            before => before.ok().flatten(),
        };
        let name = told.and_then(|info| harmless(Path::new(&info.directory).file_name()?.as_encoded_bytes()));
        let name = name.unwrap_or_else(|| PathBuf::from(format!("session-{}", session.short())));
        let target = match before {
            Some(root) if self.task_at(&root).is_none() => root,
            other => free_target(&other.unwrap_or_else(|| self.context.surroundings.home.join(name))),
        };
        let title = placed.map(|placed| placed.title.clone()).filter(|title| !title.is_empty());
        let title = title.or_else(|| told.map(|info| crate::scrutiny::text(&info.title))).unwrap_or_default();
        let plan = ArrivalPlan {
            handoff,
            key,
            title,
            source,
            carry_only: false,
            staging: staging_beside(&target, handoff),
            target,
            clone: None,
            have: Vec::new(),
            limit_bytes: 0,
            limit_entries: 0,
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
            root: None,
            notes: vec![note.to_owned()],
            carried: false,
            anew: true,
            here_already: false,
        };
        self.arriving.remove(&session);
        let saved = plan.save(&self.context);
        if let Err(error) = &saved {
            tracing::error!(session = %session.short(), %error, "the new plan was not kept");
        }
        saved.ok().map(|()| plan.target)
    }

    /// After a restart: where each session that arrives will stand is kept free before its old owner is heard of.
    pub(crate) fn take_up_arrivals(&mut self) {
        let attempt = |id: SessionId| Some((id, self.custodian.arriving(id)?.attempt().handoff));
        let all: Vec<_> = self.custodian.sessions().filter_map(|(id, _)| attempt(id)).collect();
        for (session, handoff) in all {
            self.restore_arriving(session, handoff);
        }
    }

    pub(crate) fn restore_arriving(&mut self, session: SessionId, handoff: HandoffId) -> bool {
        if self.arriving.get(&session).is_some_and(|arriving| arriving.plan.handoff == handoff) {
            return true;
        }
        let plan = ArrivalPlan::load(&self.context, handoff).filter(|plan| plan.key.id() == session);
        let Some(plan) = plan else { return false };
        self.open_arriving(session, plan.source, &plan.title);
        self.arriving.insert(session, Arriving::new(&self.context, plan));
        true
    }

    /// A round was announced: fetches what is missing of it.
    pub(crate) fn fetch(&mut self, manifest: Verified<Manifest>) {
        let session = manifest.session;
        let base = self.placed.get(&session).cloned();
        let Some(arriving) = self.arriving.get_mut(&session) else { return };
        let Some(secret) = arriving.secret.clone() else { return };
        arriving.manifests += 1;
        if arriving.manifests > limits::MANIFESTS {
            let detail = "more rounds than one handoff may have";
            self.custodian.receive_failed(session, manifest.handoff, Refusal::Protocol, detail);
            return;
        }
        let turn = arriving.stop();
        let stage = arriving.stage.clone();
        let (plan, handoff) = (arriving.plan.clone(), manifest.handoff);
        let fetch = Fetch::new(self.context.clone(), manifest, plan, secret, stage, base, turn);
        let (context, source) = (self.context.clone(), arriving.source);
        let round = tokio::spawn(receiving::run(fetch));
        let task = round.abort_handle();
        tokio::spawn(async move {
            let ended = match round.await {
                // A newer round took its place, or the daemon stops: the attempt itself goes on.
                Ok(Err(FetchError::Stopping)) => return,
                Ok(ended) => ended,
                Err(error) if error.is_cancelled() => return,
                Err(_) => Err(Stopping::Fault.into()),
            };
            if let Err(error) = ended {
                let (refusal, detail) = (error.refusal(), error.to_string());
                tracing::info!(session = %session.short(), peer = %source.short(), detail, "the payload was not received");
                context
                    .tell(move |actor| {
                        if let Some(arriving) = actor.arriving.get_mut(&session) {
                            arriving.failed.clone_from(&detail);
                        }
                        actor.custodian.receive_failed(session, handoff, refusal, &detail);
                    })
                    .await;
            }
        });
        arriving.fetching = Some(task);
    }

    /// The attempt is over. Its chunks stay for the next attempt of the same session.
    pub(crate) fn discard(&mut self, session: SessionId, handoff: HandoffId, refusal: Refusal) {
        let is_it = |arriving: &Arriving| arriving.plan.handoff == handoff;
        let source = self.arriving.get(&session).filter(|arriving| is_it(arriving)).map(|arriving| arriving.source);
        let here = self.arriving.get(&session).is_some_and(is_it).then(|| self.arriving.remove(&session)).flatten();
        // After a restart only the disk knows where parts of it may lie.
        let known =
            here.or_else(|| ArrivalPlan::load(&self.context, handoff).map(|plan| Arriving::new(&self.context, plan)));
        // A release that came meanwhile makes this very attempt count again: what lies here is fetched no second time.
        let why = known.as_ref().map_or_else(String::new, |arriving| arriving.failed.clone());
        if let Some(mut arriving) = known.filter(|_| !self.arrived_by(session, handoff)) {
            let (turn, staging) = (arriving.stop(), arriving.plan.staging);
            tokio::task::spawn_blocking(move || {
                let Some(_held) = turn.hold() else { return };
                if let Err(error) = cede_agent::tree::discard(&staging) {
                    tracing::warn!(%error, "parts of a session that did not come are left behind");
                }
            });
        }
        self.context.routes.remove(&handoff);
        if let Some(source) = source {
            self.note_arrival(source, AuditOf::Handoff(handoff), false);
        }
        self.end_arriving(session, refusal, &why);
    }

    /// Whether this device is in charge, or about to be, by this very attempt.
    fn arrived_by(&self, session: SessionId, handoff: HandoffId) -> bool {
        self.came_from(session, handoff).is_some()
    }

    /// Who released the session to this device by this very attempt, if that was the last that happened to it.
    pub(crate) fn came_from(&self, session: SessionId, handoff: HandoffId) -> Option<DeviceId> {
        use cede_wire::custody::Custody;
        let me = self.context.local.device();
        match self.custodian.chain(session).map(cede_core::chain::Chain::last) {
            Some(Custody::Release(release)) if release.to == me && release.handoff == handoff => Some(release.from),
            Some(Custody::Release(_) | Custody::Genesis(_) | Custody::Seize(_)) | None => None,
        }
    }

    /// Who hands over what comes here, or is offered.
    pub(crate) fn coming_from(&self, session: SessionId) -> Option<DeviceId> {
        let arriving = || self.custodian.arriving(session).map(|arriving| arriving.attempt().source);
        self.custodian.asked(session).map(|offer| offer.source).or_else(arriving)
    }

    /// Begins the story of what comes here, where none is under way.
    pub(crate) fn open_arriving(&mut self, session: SessionId, source: DeviceId, title: &str) {
        let story = Story::Coming(session);
        if !self.moves.is_under_way(story) {
            let (from, to) = (self.device_name(source), self.name.clone());
            self.moves.begin(story, title, &from, &to);
        }
    }

    /// Whoever waits for what comes hears that nothing can come now.
    pub(crate) fn arriving_link_down(&mut self, device: DeviceId) {
        let note = format!("the link to {} is gone; going on when it is back", self.device_name(device));
        let coming = self.moves.under_way().filter_map(|(story, view)| Some((story, view.timeline.last()?)));
        let waits = |session| {
            self.coming_from(session) == Some(device) && self.custodian.standing(session) != Some(Standing::Arriving)
        };
        let theirs = coming.filter(|(story, _)| matches!(story, Story::Coming(session) if waits(*session)));
        for (story, last) in theirs.map(|(story, last)| (story, last.clone())).collect::<Vec<_>>() {
            self.report(story, last.phase, (last.bytes, last.total_bytes), last.round, &note);
        }
    }

    /// It does not come: nothing of it is asked for any more.
    pub(crate) fn end_arriving(&mut self, session: SessionId, refusal: Refusal, detail: &str) {
        let failed = failure(exit_of(refusal), NOT_COME, &reason(refusal, detail), cure_of(refusal));
        self.end_not_come(session, (refusal, detail), failed);
    }

    /// The same, in other words for whoever waits.
    pub(crate) fn end_not_come(&mut self, session: SessionId, (refusal, detail): (Refusal, &str), failed: Failure) {
        if let Some(Standing::Arriving | Standing::PayloadMissing) = self.custodian.standing(session) {
            return self.dismiss_arriving(session);
        }
        self.report(Story::Coming(session), Phase::Abandoned, (0, 0), 0, detail);
        let now_at = Some(self.in_charge(session));
        self.withdraw_take(session);
        let failed = Failure { refusal: Some(refusal), now_at, ..failed };
        self.moves.end(Story::Coming(session), &ReplyBody::Failed(failed));
    }

    /// It is this device's, and comes to its place by itself: nobody waits for that any longer.
    fn dismiss_arriving(&mut self, session: SessionId) {
        let view = self.moves.get(Story::Coming(session));
        let why = view.and_then(|view| view.timeline.last()).map_or_else(String::new, |last| last.note.clone());
        let what = "the session is in charge here, and not in its place yet";
        let now_at = Some(self.in_charge(session));
        let failed = Failure { now_at, ..failure(exit::PENDING, what, &why, "cede status shows what it waits for") };
        self.moves.dismiss(Story::Coming(session), &ReplyBody::Failed(failed));
    }

    /// Another device took the session over before it stood in its place: who waits hears that, and its place is free.
    pub(crate) fn give_up_arriving(&mut self, session: SessionId) {
        let handoff = self.arriving.get(&session).map(|arriving| arriving.plan.handoff);
        let comes = handoff.is_some_and(|handoff| self.custodian.is_arriving(session, handoff));
        let taken = matches!(self.custodian.standing(session), Some(Standing::SeizedBy(_) | Standing::Elsewhere(_)));
        if handoff.is_some() && !comes && taken {
            self.arriving.remove(&session);
            self.end_arriving(session, Refusal::NotOwner, "another device took the session over");
        }
    }

    /// It stands in its place. Whoever asked for it has it only where this device still is the one in charge.
    pub(crate) fn end_arrived(&mut self, session: SessionId) {
        let story = Story::Coming(session);
        if !self.is_here(session) {
            return self.end_arriving(session, Refusal::NotOwner, "another device took it over meanwhile");
        }
        self.report(story, Phase::Committed, (0, 0), 0, "");
        match self.takes.is_open(session) {
            true => self.withdraw_take(session),
            false => _ = self.takes.done(session),
        }
        if let Ok(Answer::Moved(mut report)) = self.move_report(story) {
            self.fill_place(session, &mut report);
            self.moves.end(story, &ReplyBody::Done(Answer::Moved(report)));
        }
    }

    /// Whether a session is in charge here, for lists.
    pub(crate) fn is_here(&self, session: SessionId) -> bool {
        self.custodian.standing(session).map_or(self.custodian.may_act(session), |standing| {
            matches!(
                standing,
                Standing::InCharge | Standing::Leaving(_) | Standing::Arriving | Standing::PayloadMissing
            )
        })
    }
}

impl Arriving {
    fn new(context: &Context, plan: ArrivalPlan) -> Self {
        let (source, hands) = (plan.source, context.hands(plan.handoff));
        Self { source, plan, secret: None, fetching: None, stage: None, hands, manifests: 0, failed: String::new() }
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
    known: bool,
) -> Result<ArrivalPlan, (Refusal, String)> {
    if !crate::scrutiny::can_be_shown(&offer.scope) {
        return Err((Refusal::TooLarge, "its lists are too long for anybody to look at".to_owned()));
    }
    let adapter = context.adapter(offer.key.agent);
    if !offer.carry_only {
        let adapter = adapter.ok_or((Refusal::DestinationCannotResume, "no adapter for this agent".to_owned()))?;
        adapter.check(&offer.requirement).map_err(|error| (Refusal::DestinationCannotResume, error.to_string()))?;
    }
    let needed = offer.scope.limit_bytes.saturating_mul(2).saturating_sub(limits::SCOPE_SLACK_BYTES * 2);
    if !context.home.has_room_for_bulk(needed).unwrap_or(true) {
        let [needed, kept, free] = [needed, BULK_FREE_BYTES, context.home.free_bytes().unwrap_or(0)].map(bytes);
        let why = format!("{needed} are needed here beside {kept} that stay free, and {free} are free");
        return Err((Refusal::TooLarge, why));
    }
    let target = target(context, offer, placed)
        .map_err(|unread| (Refusal::DestinationCannotResume, format!("where the session stood: {unread}")))?;
    if let Some(works) = agent_at(context, offer.key.id(), &target) {
        return Err((Refusal::Busy, works));
    }
    let clone = local_clone(context, offer, placed);
    let have = clone.as_ref().map(|clone| clone.1.clone()).unwrap_or_default();
    let staging = staging_beside(&target, offer.handoff);
    Ok(ArrivalPlan {
        handoff: offer.handoff,
        key: offer.key.clone(),
        title: crate::scrutiny::text(&offer.title),
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
        anew: false,
        here_already: !known && adapter.is_some_and(|adapter| adapter.describe(&offer.key.native).is_ok()),
    })
}

pub(crate) const NOT_COME: &str = "the session did not come here";

fn cure_of(refusal: Refusal) -> &'static str {
    if refusal == Refusal::DestinationCannotResume {
        "do what the reason says; where only its agent is missing here, take it with --carry-only"
    } else {
        "cede status"
    }
}

pub(crate) fn staging_beside(target: &Path, handoff: HandoffId) -> PathBuf {
    target.parent().unwrap_or(target).join(format!(".cede-staging-{handoff}"))
}

/// Whose agent works in the tree that would be changed, as another session.
fn agent_at(context: &Context, session: SessionId, target: &Path) -> Option<String> {
    let real = target.canonicalize().ok()?;
    let inside = |info: &SessionInfo| Path::new(&info.directory).canonicalize().is_ok_and(|at| at.starts_with(&real));
    let works =
        |info: &SessionInfo| matches!(info.activity, Activity::Busy { .. }) && info.key.id() != session && inside(info);
    let mut all = context.adapters.iter().flat_map(|adapter| adapter.discover().unwrap_or_default());
    let id = all.find(works)?.key.id().short();
    Some(format!("the agent of session {id} works there, where the session would stand"))
}

/// Where the tree will stand: where it was, or at the same place below this home, or at the same path; else beside it.
/// A place that cannot be read now may still hold what the session left there: nothing is put beside it.
fn target(
    context: &Context,
    offer: &Offer,
    placed: Option<&cede_wire::record::PlacedSession>,
) -> Result<PathBuf, TreeRefusal> {
    use std::os::unix::ffi::OsStrExt;
    if let Some(placed) = placed.filter(|placed| placed.root.is_some()) {
        let directory = crate::sessions::path_of(&placed.directory);
        match root_of(&directory) {
            Ok(root) => return Ok(root),
            Err(unread) if unread.is_of_the_world() => return Err(unread),
            Err(_) => {}
        }
    }
    let home = &context.surroundings.home;
    let below = offer.workspace.below_home.as_deref().and_then(harmless);
    let name = Path::new(std::ffi::OsStr::from_bytes(&offer.workspace.path)).file_name();
    let name = name.and_then(|name| harmless(name.as_bytes())).unwrap_or_else(|| PathBuf::from("session"));
    Ok(free_target(&home.join(below.unwrap_or(name))))
}

/// A place below the home directory that a peer may name: plain text, and nothing hidden, for there lie the files that
/// programs obey (`.ssh`, `.config/autostart`, `.local/bin`).
fn harmless(path: &[u8]) -> Option<PathBuf> {
    let path = cede_wire::path::RelPath::parse(path).ok()?;
    let hidden = path.components().any(|component| component.starts_with(b"."));
    let text = std::str::from_utf8(path.as_bytes()).ok()?;
    (!hidden && path.shown() == text).then(|| PathBuf::from(text))
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
    let trees = candidates.into_iter().take(64).filter_map(|directory| identify(&directory).ok());
    trees
        .filter_map(|tree| Some((tree.root, tree.git?)))
        .find_map(|(root, git)| (git.identity.roots == wanted.roots).then_some((root, git.tips)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_names_no_place_that_programs_obey() {
        for bad in [
            ".ssh",
            ".config/autostart",
            "a/.git/hooks",
            "..",
            "a/../../etc",
            "/etc/cron.d",
            "",
            "a//b",
            "a\nb",
            "\u{1b}[2J",
            "a\u{202e}b",
            "a\\b",
            "a/./b",
        ] {
            assert_eq!(harmless(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(harmless(b"\xff"), None);
        for good in ["project", "src/Grüße", "it's $(mine)", "-rf"] {
            assert_eq!(harmless(good.as_bytes()), Some(PathBuf::from(good)));
        }
    }
}
