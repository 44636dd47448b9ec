//! In charge: the staged session takes its place, and the old owner hears of it.

use std::path::PathBuf;

use cede_agent::adapter::{AgentError, Arrival, Installed};
use cede_agent::tree;
use cede_core::custodian::Standing;
use cede_core::destination::DestinationPhase;
use cede_wire::audit::AuditOf;
use cede_wire::control::Phase;
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::record::PlacedSession;
use cede_wire::refusal::Refusal;
use cede_wire::session::SessionKey;

use crate::actor::Actor;
use crate::arriving::ArrivalPlan;
use crate::context::{Context, Stopping, found};
use crate::hands::Turn;
use crate::limits;
use crate::moves::{Story, millis};
use crate::payload;
use crate::receiving::FetchError;

/// A session in its place.
struct InPlace {
    placed: PlacedSession,
    notes: Vec<String>,
    /// Arrivals of this session that are over, and whether their transcript's files stay.
    over: Vec<(HandoffId, bool)>,
}

impl Actor {
    /// Puts the session in its place; repeats until it stands there, since nobody else may act for it.
    pub(crate) fn activate(&mut self, session: SessionId, handoff: HandoffId, source: DeviceId) {
        // After a restart too its place is kept free.
        self.restore_arriving(session, handoff);
        let title = self.arriving.get(&session).map_or_else(String::new, |arriving| arriving.plan.title.clone());
        self.open_arriving(session, source, &title);
        if let Some(view) = self.moves.get_mut(Story::Coming(session)) {
            view.frozen.get_or_insert_with(std::time::Instant::now);
        }
        self.report(Story::Coming(session), Phase::Released, (0, 0), 0, "putting the session in its place");
        self.context.routes.remove(&handoff);
        let context = self.context.clone();
        // A thread that stages an announcement which came too late must not do so while the stage takes its place.
        let before = self.placed.get(&session).cloned();
        if let Some(arriving) = self.arriving.get_mut(&session) {
            arriving.stop();
        }
        let turn = self.context.hands(handoff).next();
        let Some(key) = self.key_of(session) else { return };
        tokio::spawn(async move {
            let mut wait = limits::DIAL_FIRST;
            loop {
                let why = match put_in_place(&context, &key, handoff, &turn, before.as_ref()).await {
                    Ok(Ok(in_place)) => {
                        return context.tell(move |actor| actor.in_place(session, handoff, in_place)).await;
                    }
                    Ok(Err(NotInPlace::Replaced)) => {
                        return context.tell(move |actor| actor.give_up_arriving(session)).await;
                    }
                    Err(Stopping::Told) => return,
                    Ok(Err(NotInPlace::Lost(why))) => {
                        return context.tell(move |actor| actor.payload_lost(session, handoff, source, &why)).await;
                    }
                    Ok(Err(NotInPlace::Later(why))) => why,
                    Err(Stopping::Fault) => Stopping::Fault.to_string(),
                };
                tracing::warn!(session = %session.short(), why, "the session is not in its place yet");
                context.tell(move |actor| actor.report(Story::Coming(session), Phase::Released, (0, 0), 0, &why)).await;
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(limits::DIAL_IDLE);
            }
        });
    }

    /// What was staged is gone, and what it was staged from: the old owner still has it.
    fn payload_lost(&mut self, session: SessionId, handoff: HandoffId, source: DeviceId, why: &str) {
        tracing::error!(session = %session.short(), why, "what had arrived is lost here; it is fetched again");
        self.report(Story::Coming(session), Phase::Released, (0, 0), 0, why);
        match ArrivalPlan::read(&self.context, handoff) {
            Ok(Some(plan)) if plan.key.id() == session => {}
            Ok(_) if self.plan_anew(session, handoff, source) => {}
            Ok(_) => tracing::error!(session = %session.short(), "no new plan for it can be kept"),
            Err(error) => tracing::error!(session = %session.short(), %error, "its plan cannot be read"),
        }
        self.custodian.receive_failed(session, handoff, Refusal::IntegrityFailed, why);
    }

    /// After a restart: what this device said is durable here is still here, or the source keeps the session.
    pub(crate) fn check_staged(&mut self) {
        let staged = |id: SessionId| {
            let arriving = self.custodian.arriving(id)?;
            let is_staged = matches!(arriving.phase(), DestinationPhase::Staged { .. });
            is_staged.then(|| (id, arriving.attempt().handoff))
        };
        let all: Vec<_> = self.custodian.sessions().filter_map(|(id, _)| staged(id)).collect();
        for (session, handoff) in all {
            let (context, before) = (self.context.clone(), self.placed.get(&session).cloned());
            let turn = context.hands(handoff).next();
            tokio::spawn(async move {
                let looked = context.block(move |context| {
                    turn.hold().map_or(Ok(()), |_held| still_staged(context, (session, handoff), before.as_ref()))
                });
                if let Ok(Err(NotInPlace::Lost(why))) = looked.await {
                    tracing::error!(session = %session.short(), why, "what was staged is lost here");
                    let lost = move |actor: &mut Actor| {
                        actor.custodian.receive_failed(session, handoff, Refusal::IntegrityFailed, &why);
                    };
                    context.tell(lost).await;
                }
            });
        }
    }

    /// Whether the session still comes in by this handoff. Who waits for it hears why it does not.
    fn still_arrives(&mut self, (session, handoff): Attempt) -> Option<()> {
        if self.custodian.is_arriving(session, handoff) {
            return Some(());
        }
        if self.custodian.standing(session) == Some(Standing::Unconfirmed) {
            let why =
                format!("it waits until the records of this device are confirmed: cede confirm {}", session.short());
            self.report(Story::Coming(session), Phase::Released, (0, 0), 0, &why);
        }
        None
    }

    fn in_place(&mut self, session: SessionId, handoff: HandoffId, in_place: InPlace) {
        let InPlace { placed, notes, over } = in_place;
        let (key, root) = (placed.key.clone(), placed.root);
        self.place(placed);
        self.custodian.installed(session, handoff);
        if let Some(source) = self.came_from(session, handoff) {
            self.note_arrival(source, AuditOf::Handoff(handoff), true);
        }
        self.context.last_look.forget();
        for note in &notes {
            tracing::warn!(session = %session.short(), note, "the session arrived with a note");
        }
        if let Some(view) = self.moves.get_mut(Story::Coming(session)) {
            view.notes.extend(notes);
            view.pause_ms = view.frozen.map_or(0, millis);
        }
        self.arriving.remove(&session);
        self.end_arrived(session);
        let context = self.context.clone();
        tokio::spawn(async move {
            // Answered only after it is durable that the session stands in its place: until then a restart needs these.
            if context.ask(|_| ()).await.is_err() {
                return;
            }
            let cleared = context.block(move |context| {
                if let (Some(root), Some(plan)) = (root, ArrivalPlan::load(context, handoff)) {
                    payload::remember_arrival(context, &key, root, &plan.staging);
                }
                over.iter().for_each(|(handoff, keep)| remove(context, *handoff, *keep));
            });
            // What stays is forgotten with the old ones.
            let _ = cleared.await;
            // The plans that are gone named catalogs; and where the session stands now is durable.
            context.tell(|actor| actor.forget_catalogs()).await;
        });
    }

    /// Catalogs that no visit and no arrival needs any more go. Only while nothing moves: then nobody is about to name one.
    pub(crate) fn forget_catalogs(&self) {
        if !self.leaving.is_empty() || !self.arriving.is_empty() {
            return;
        }
        let planned = ArrivalPlan::all(&self.context).into_iter().map(|handoff| {
            let plan = ArrivalPlan::read(&self.context, handoff)?;
            Ok(plan.and_then(|plan| plan.root))
        });
        let planned = match planned.collect::<std::io::Result<Vec<_>>>() {
            Ok(planned) => planned,
            Err(error) => return tracing::debug!(%error, "a plan cannot be read; old catalogs stay"),
        };
        let keep = self.placed.values().filter_map(|placed| placed.root).chain(planned.into_iter().flatten()).collect();
        if let Err(error) = self.context.objects.retain(&keep) {
            tracing::debug!(%error, "old catalogs were not removed");
        }
    }

    /// Arrivals that were given up long ago are of no use to a new attempt any more, and those that stand in their place of
    /// none at all: what a death left of them goes.
    pub(crate) fn forget_old_arrivals(&self) {
        self.forget_catalogs();
        let under_way: Vec<HandoffId> = self
            .custodian
            .sessions()
            .filter_map(|(id, _)| self.custodian.arriving(id).map(|d| d.attempt().handoff))
            .collect();
        let comes = |s: &Standing| matches!(s, Standing::Arriving | Standing::PayloadMissing | Standing::Unconfirmed);
        let unplaced: Vec<SessionId> = self.custodian.sessions().filter(|(_, s)| comes(s)).map(|(id, _)| id).collect();
        let chains = self.custodian.sessions().filter_map(|(id, _)| self.custodian.chain(id));
        let arrived: Vec<HandoffId> = chains.flat_map(|chain| chain.arrivals_at(self.context.local.device())).collect();
        let busy: Vec<SessionId> = self.leaving.keys().chain(self.arriving.keys()).copied().collect();
        let context = self.context.clone();
        tokio::task::spawn_blocking(move || {
            forget_scratch(&context, &busy);
            for handoff in ArrivalPlan::all(&context) {
                let Ok(plan) = ArrivalPlan::read(&context, handoff) else { continue };
                let needed = plan.as_ref().is_some_and(|plan| unplaced.contains(&plan.key.id()));
                let over = arrived.contains(&handoff) || ArrivalPlan::is_old(&context, handoff);
                if over && !needed && !under_way.contains(&handoff) {
                    remove(&context, handoff, plan.is_some_and(|plan| plan.carried));
                }
            }
        });
    }

    pub(crate) fn fill_place(&self, session: SessionId, report: &mut cede_wire::control::MoveReport) {
        let Some(placed) = self.placed.get(&session) else { return };
        let directory = crate::sessions::path_of(&placed.directory);
        report.directory = directory.display().to_string();
        if let Some(adapter) = self.context.adapter(placed.key.agent) {
            report.resume = adapter.resume_command(&placed.key.native, &directory);
        }
    }
}

/// Copies that a capture made and nobody came back for: a conversation lies in them. Blocks.
fn forget_scratch(context: &Context, busy: &[SessionId]) {
    let kept = std::fs::read_dir(context.place("scratch", "")).into_iter().flatten().flatten();
    for entry in kept {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<SessionId>().ok());
        let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
        let old = age.is_none_or(|age| age > limits::ABANDONED);
        if let Some(id) = id.filter(|id| old && !busy.contains(id)) {
            let capturing = context.capturing(id);
            let _held = capturing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Err(error) = std::fs::remove_dir_all(entry.path()) {
                tracing::debug!(%error, "copies of a capture were not removed");
            }
        }
    }
}

/// Why a session does not stand in its place.
enum NotInPlace {
    /// Trying again may help.
    Later(String),
    /// What it is made of is not here any more.
    Lost(String),
    /// Somebody else works there now.
    Replaced,
}

impl From<String> for NotInPlace {
    fn from(why: String) -> Self {
        Self::Later(why)
    }
}

impl From<FetchError> for NotInPlace {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Integrity(_) | FetchError::Undecodable(_) | FetchError::OutsideScope(_) => {
                Self::Lost(error.to_string())
            }
            FetchError::NoSpace(_) | FetchError::CannotPlace(_) | FetchError::World(_) | FetchError::Stopping => {
                Self::Later(error.to_string())
            }
        }
    }
}

/// What arrived, and by which handoff.
type Attempt = (SessionId, HandoffId);

fn planned(context: &Context, (session, handoff): Attempt) -> Result<ArrivalPlan, NotInPlace> {
    let lost = || NotInPlace::Lost("the plan of this arrival is lost".to_owned());
    let its = |plan: &ArrivalPlan| plan.root.is_some() && plan.key.id() == session;
    let plan = ArrivalPlan::read(context, handoff)
        .map_err(|error| NotInPlace::Later(format!("the plan of this arrival cannot be read: {error}")))?;
    plan.filter(its).ok_or_else(lost)
}

/// Whether everything that was staged is here, made again from its chunks where it is not. Blocks.
fn still_staged(context: &Context, attempt: Attempt, before: Option<&PlacedSession>) -> Result<(), NotInPlace> {
    let plan = planned(context, attempt)?;
    if stands(&plan.staging)? && stands(&ArrivalPlan::files(context, attempt.1))? {
        return Ok(());
    }
    Ok(crate::receiving::place_again(context, plan, before)?)
}

/// Whether a directory is there. What cannot be looked at is not lost.
fn stands(directory: &std::path::Path) -> Result<bool, NotInPlace> {
    let looked = found(directory.symlink_metadata());
    let looked = looked.map_err(|error| NotInPlace::Later(format!("cannot read {}: {error}", directory.display())))?;
    Ok(looked.is_some_and(|metadata| metadata.is_dir()))
}

/// Makes ready what lacks, then takes its place where it still belongs there. Safe to repeat at any point.
async fn put_in_place(
    context: &Context,
    key: &SessionKey,
    handoff: HandoffId,
    turn: &Turn,
    before: Option<&PlacedSession>,
) -> Result<Result<InPlace, NotInPlace>, Stopping> {
    let attempt = (key.id(), handoff);
    let (before, held) = (before.cloned(), turn.clone());
    let earlier = before.clone();
    let ready = context.block(move |context| {
        let _held = held.hold().ok_or(NotInPlace::Replaced)?;
        make_ready(context, attempt, earlier.as_ref())
    });
    if let Err(why) = ready.await? {
        return Ok(Err(why));
    }
    let wanted = move |actor: &mut Actor| actor.still_arrives(attempt);
    let turn = turn.clone();
    let put = context.fencing(key.agent, wanted, move |context, ()| {
        let _held = turn.hold().ok_or(NotInPlace::Replaced)?;
        take_place(context, attempt, before.as_ref())
    });
    Ok(put.await?.unwrap_or(Err(NotInPlace::Replaced)))
}

fn make_ready(context: &Context, attempt: Attempt, before: Option<&PlacedSession>) -> Result<(), NotInPlace> {
    let plan = planned(context, attempt)?;
    if !stands(&ArrivalPlan::files(context, attempt.1))? {
        crate::receiving::place_again(context, plan, before)?;
    }
    Ok(())
}

/// The tree, then the conversation, within [`Context::fencing`]: a session that another device took over meanwhile is kept aside
/// after that, or does not come in. Blocks.
fn take_place(context: &Context, attempt: Attempt, before: Option<&PlacedSession>) -> Result<InPlace, NotInPlace> {
    let mut plan = planned(context, attempt)?;
    let handoff = attempt.1;
    let activated = match tree::activate(&plan.staging) {
        Err(tree::ActivateError::NoStage(_)) => {
            // A person may have taken the staging for rubbish; its chunks are still here.
            crate::receiving::place_again(context, plan, before)?;
            plan = planned(context, attempt)?;
            tree::activate(&plan.staging)
        }
        activated => activated,
    };
    let activated = activated.map_err(|error| error.to_string())?;
    let directory: PathBuf = activated.directory.components().collect();
    let mut notes = plan.notes.clone();
    notes.extend(activated.kept.iter().map(|kept| format!("your version was kept as {}", kept.display())));
    let adapter = context.adapter(plan.key.agent).ok_or_else(|| "no adapter for this agent".to_owned())?;
    let arrival = Arrival {
        native: plan.key.native.clone(),
        files: ArrivalPlan::files(context, handoff),
        workdir: directory.clone(),
    };
    match adapter.install(&arrival) {
        Ok(Installed::Diverged { branch }) => {
            notes.push(format!("another conversation under this id was here; it is kept as {}", branch.display()));
        }
        Ok(Installed::New | Installed::Extended | Installed::Unchanged) => {}
        // What the disk or a turn refuses now may go in a moment: only what the agent cannot take is carried beside it.
        Err(error) if plan.carry_only && !matches!(error, AgentError::World { .. } | AgentError::Live { .. }) => {
            notes.push(carried(&arrival.files, &error.to_string()));
            plan.carried = true;
            plan.save(context).map_err(|error| error.to_string())?;
        }
        Err(error) => return Err(error.to_string().into()),
    }
    let over = arrivals_of(context, plan.key.id()).into_iter();
    let over = over.map(|other| (other, other == handoff && plan.carried)).collect();
    let placed = PlacedSession { key: plan.key, title: plan.title, directory: bytes_of(directory), root: plan.root };
    Ok(InPlace { placed, notes, over })
}

fn carried(files: &std::path::Path, why: &str) -> String {
    format!("the agent cannot take the conversation yet ({why}); its files lie in {}", files.display())
}

fn bytes_of(path: PathBuf) -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    path.into_os_string().into_vec()
}

/// Arrivals of a session whose staging and chunks are here. Blocks.
fn arrivals_of(context: &Context, session: SessionId) -> Vec<HandoffId> {
    let of_it = |handoff: &HandoffId| ArrivalPlan::load(context, *handoff).is_some_and(|p| p.key.id() == session);
    ArrivalPlan::all(context).into_iter().filter(of_it).collect()
}

/// Removes one arrival: its staging, its chunks, and unless they are to stay the transcript's files. Blocks.
fn remove(context: &Context, handoff: HandoffId, keep_files: bool) {
    // Without its plan nobody would know where its staging lies.
    let Ok(plan) = ArrivalPlan::read(context, handoff) else { return };
    context.discard_stage(handoff);
    let removed = plan.map_or(Ok(()), |plan| tree::discard(&plan.staging)).and_then(|()| {
        // The plan goes last: it says where a staging lies that could not be removed.
        if keep_files { Ok(()) } else { std::fs::remove_dir_all(ArrivalPlan::directory(context, handoff)) }
    });
    if let Err(error) = removed {
        tracing::debug!(%error, "an arrival was not removed");
    }
}
