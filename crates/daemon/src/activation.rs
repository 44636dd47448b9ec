//! In charge: the staged session takes its place, and the old owner hears of it.

use std::path::PathBuf;

use cede_agent::adapter::{Arrival, Installed};
use cede_agent::tree;
use cede_core::custodian::Standing;
use cede_wire::control::{Answer, Phase, ReplyBody};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::record::PlacedSession;

use crate::actor::Actor;
use crate::arriving::ArrivalPlan;
use crate::context::Context;
use crate::limits;
use crate::moves::millis;

/// A session in its place.
struct InPlace {
    placed: PlacedSession,
    notes: Vec<String>,
}

impl Actor {
    /// Puts the session in its place; repeats until it stands there, since nobody else may act for it.
    pub(crate) fn activate(&mut self, session: SessionId, handoff: HandoffId, source: DeviceId) {
        if let Some(view) = self.moves.get_mut(session) {
            view.frozen.get_or_insert_with(std::time::Instant::now);
        } else {
            let (from, to) = (self.device_name(source), self.name.clone());
            self.moves.begin(session, "", &from, &to);
        }
        self.report(session, Phase::Released, (0, 0), 0, "putting the session in its place");
        self.context.routes.remove(&handoff);
        let context = self.context.clone();
        tokio::spawn(async move {
            let mut wait = limits::DIAL_FIRST;
            loop {
                match context.block(move |context| put_in_place(context, handoff)).await {
                    Ok(Ok(in_place)) => {
                        context.tell(move |actor| actor.in_place(session, handoff, in_place)).await;
                        return;
                    }
                    Ok(Err(why)) => {
                        tracing::warn!(session = %session.short(), why, "the session is not in its place yet");
                        context.tell(move |actor| actor.report(session, Phase::Released, (0, 0), 0, &why)).await;
                    }
                    Err(_) => return,
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(limits::DIAL_IDLE);
            }
        });
    }

    fn in_place(&mut self, session: SessionId, handoff: HandoffId, in_place: InPlace) {
        let InPlace { placed, notes } = in_place;
        self.place(placed);
        self.custodian.installed(session, handoff);
        if let Some(view) = self.moves.get_mut(session) {
            view.notes.extend(notes);
            view.pause_ms = view.frozen.map_or(0, millis);
        }
        self.report(session, Phase::Committed, (0, 0), 0, "");
        self.arriving.remove(&session);
        self.takes.done(session);
        if let Ok(Answer::Moved(mut report)) = self.move_report(session) {
            self.fill_place(session, &mut report);
            self.moves.end(session, &ReplyBody::Done(Answer::Moved(report)));
        }
        let context = self.context.clone();
        tokio::task::spawn_blocking(move || clean_up(&context, session));
    }

    /// Arrivals that were given up long ago are of no use to a new attempt any more.
    pub(crate) fn forget_old_arrivals(&self) {
        let under_way: Vec<HandoffId> = self
            .custodian
            .sessions()
            .filter_map(|(id, _)| self.custodian.arriving(id).map(|d| d.attempt().handoff))
            .collect();
        let unplaced: Vec<SessionId> =
            self.custodian.sessions().filter(|(_, s)| !matches!(s, Standing::Elsewhere(_))).map(|(id, _)| id).collect();
        let context = self.context.clone();
        tokio::task::spawn_blocking(move || {
            for handoff in context.home.staged().unwrap_or_default() {
                let plan = ArrivalPlan::load(&context, handoff);
                let needed = plan.as_ref().is_some_and(|plan| unplaced.contains(&plan.key.id()));
                if !under_way.contains(&handoff) && !needed && ArrivalPlan::is_old(&context, handoff) {
                    remove(&context, handoff, plan.as_ref());
                }
            }
        });
    }

    fn fill_place(&self, session: SessionId, report: &mut cede_wire::control::MoveReport) {
        let Some(placed) = self.placed.get(&session) else { return };
        let directory = crate::sessions::path_of(&placed.directory);
        report.directory = directory.display().to_string();
        if let Some(adapter) = self.context.adapter(placed.key.agent) {
            report.resume = adapter.resume_command(&placed.key.native, &directory);
        }
    }
}

/// The tree, then the conversation. Safe to repeat at any point. Blocks.
fn put_in_place(context: &Context, handoff: HandoffId) -> Result<InPlace, String> {
    let plan = ArrivalPlan::load(context, handoff).ok_or("the plan of this arrival is lost")?;
    let activated = tree::activate(&plan.staging).map_err(|error| error.to_string())?;
    let directory: PathBuf = activated.directory.components().collect();
    let mut notes = plan.notes;
    notes.extend(activated.kept.iter().map(|kept| format!("your version was kept as {}", kept.display())));
    let adapter = context.adapter(plan.key.agent).ok_or("no adapter for this agent")?;
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
        Err(error) if plan.carry_only => notes.push(carried(&arrival.files, &error.to_string())),
        Err(error) => return Err(error.to_string()),
    }
    let placed = PlacedSession { key: plan.key, title: plan.title, directory: bytes_of(directory), root: plan.root };
    Ok(InPlace { placed, notes })
}

fn carried(files: &std::path::Path, why: &str) -> String {
    format!("the agent cannot take the conversation yet ({why}); its files lie in {}", files.display())
}

fn bytes_of(path: PathBuf) -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    path.into_os_string().into_vec()
}

/// Removes what the arrival no longer needs: its staging, its chunks and those of earlier attempts. Blocks.
fn clean_up(context: &Context, session: SessionId) {
    for handoff in context.home.staged().unwrap_or_default() {
        let plan = ArrivalPlan::load(context, handoff).filter(|plan| plan.key.id() == session);
        if plan.is_some() {
            remove(context, handoff, plan.as_ref());
        }
    }
}

/// Removes one arrival. The files of a session that is only carried stay: its agent takes them later.
fn remove(context: &Context, handoff: HandoffId, plan: Option<&ArrivalPlan>) {
    if let Ok(Err(error)) = context.home.stage(handoff).map(cede_store::stage::Stage::discard) {
        tracing::debug!(%error, "a stage was not removed");
    }
    let staging = plan.map_or(Ok(()), |plan| tree::discard(&plan.staging));
    let kept = plan.is_some_and(|plan| plan.carry_only);
    let files = if kept { Ok(()) } else { std::fs::remove_dir_all(ArrivalPlan::directory(context, handoff)) };
    if let Err(error) = staging.and(files) {
        tracing::debug!(%error, "an arrival was not removed");
    }
}
