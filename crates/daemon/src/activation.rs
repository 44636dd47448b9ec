//! In charge: the staged session takes its place, and the old owner hears of it.

use std::path::PathBuf;

use cede_agent::adapter::{Arrival, Installed};
use cede_agent::tree;
use cede_core::custodian::Standing;
use cede_wire::control::{Answer, Phase, ReplyBody};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::record::PlacedSession;

use crate::actor::Actor;
use crate::arriving::{ArrivalPlan, Arriving};
use crate::context::Context;
use crate::hands::Hands;
use crate::limits;
use crate::moves::millis;
use crate::payload;

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
        if let Some(view) = self.moves.get_mut(session) {
            view.frozen.get_or_insert_with(std::time::Instant::now);
        } else {
            let (from, to) = (self.device_name(source), self.name.clone());
            self.moves.begin(session, "", &from, &to);
        }
        self.report(session, Phase::Released, (0, 0), 0, "putting the session in its place");
        self.context.routes.remove(&handoff);
        let context = self.context.clone();
        // A thread that stages an announcement which came too late must not do so while the stage takes its place.
        let before = self.placed.get(&session).cloned();
        let turn = self.arriving.get_mut(&session).map_or_else(|| Hands::default().next(), Arriving::stop);
        tokio::spawn(async move {
            let mut wait = limits::DIAL_FIRST;
            loop {
                let (turn, before) = (turn.clone(), before.clone());
                let put = context.block(move |context| match turn.hold() {
                    Some(_held) => put_in_place(context, handoff, before.as_ref()),
                    None => Err("another arrival took its turn".to_owned()),
                });
                match put.await {
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
        let InPlace { placed, notes, over } = in_place;
        let (key, root) = (placed.key.clone(), placed.root);
        self.place(placed);
        self.custodian.installed(session, handoff);
        self.context.last_look.forget();
        for note in &notes {
            tracing::warn!(session = %session.short(), note, "the session arrived with a note");
        }
        if let Some(view) = self.moves.get_mut(session) {
            view.notes.extend(notes);
            view.pause_ms = view.frozen.map_or(0, millis);
        }
        self.report(session, Phase::Committed, (0, 0), 0, "");
        self.arriving.remove(&session);
        self.takes.done(session);
        self.forget_catalogs();
        if let Ok(Answer::Moved(mut report)) = self.move_report(session) {
            self.fill_place(session, &mut report);
            self.moves.end(session, &ReplyBody::Done(Answer::Moved(report)));
        }
        let context = self.context.clone();
        tokio::task::spawn_blocking(move || {
            if let (Some(root), Some(plan)) = (root, ArrivalPlan::load(&context, handoff)) {
                payload::remember_arrival(&context, &key, root, &plan.staging);
            }
            over.iter().for_each(|(handoff, keep)| remove(&context, *handoff, *keep));
        });
    }

    /// Catalogs that no visit and no arrival needs any more go. Only while nothing moves: then nobody is about to name one.
    pub(crate) fn forget_catalogs(&self) {
        if !self.leaving.is_empty() || !self.arriving.is_empty() {
            return;
        }
        let planned = ArrivalPlan::all(&self.context).into_iter();
        let planned = planned.filter_map(|handoff| ArrivalPlan::load(&self.context, handoff)?.root);
        let keep = self.placed.values().filter_map(|placed| placed.root).chain(planned).collect();
        if let Err(error) = self.context.objects.retain(&keep) {
            tracing::debug!(%error, "old catalogs were not removed");
        }
    }

    /// Arrivals that were given up long ago are of no use to a new attempt any more.
    pub(crate) fn forget_old_arrivals(&self) {
        self.forget_catalogs();
        let under_way: Vec<HandoffId> = self
            .custodian
            .sessions()
            .filter_map(|(id, _)| self.custodian.arriving(id).map(|d| d.attempt().handoff))
            .collect();
        let unplaced: Vec<SessionId> =
            self.custodian.sessions().filter(|(_, s)| !matches!(s, Standing::Elsewhere(_))).map(|(id, _)| id).collect();
        let context = self.context.clone();
        tokio::task::spawn_blocking(move || {
            for handoff in ArrivalPlan::all(&context) {
                let plan = ArrivalPlan::load(&context, handoff);
                let needed = plan.as_ref().is_some_and(|plan| unplaced.contains(&plan.key.id()));
                if !under_way.contains(&handoff) && !needed && ArrivalPlan::is_old(&context, handoff) {
                    remove(&context, handoff, plan.is_some_and(|plan| plan.carried));
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
fn put_in_place(context: &Context, handoff: HandoffId, before: Option<&PlacedSession>) -> Result<InPlace, String> {
    let mut plan = ArrivalPlan::load(context, handoff).ok_or("the plan of this arrival is lost")?;
    let activated = match tree::activate(&plan.staging) {
        Err(tree::ActivateError::NoStage(_)) => {
            // A person may have taken the staging for rubbish; its chunks are still here.
            crate::receiving::place_again(context, plan, before).map_err(|error| error.to_string())?;
            plan = ArrivalPlan::load(context, handoff).ok_or("the plan of this arrival is lost")?;
            tree::activate(&plan.staging)
        }
        activated => activated,
    };
    let activated = activated.map_err(|error| error.to_string())?;
    let directory: PathBuf = activated.directory.components().collect();
    let mut notes = plan.notes.clone();
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
        Err(error) if plan.carry_only => {
            notes.push(carried(&arrival.files, &error.to_string()));
            plan.carried = true;
            plan.save(context).map_err(|error| error.to_string())?;
        }
        Err(error) => return Err(error.to_string()),
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
    let plan = ArrivalPlan::load(context, handoff);
    context.discard_stage(handoff);
    let staging = plan.as_ref().map_or(Ok(()), |plan| tree::discard(&plan.staging));
    let files = if keep_files { Ok(()) } else { std::fs::remove_dir_all(ArrivalPlan::directory(context, handoff)) };
    if let Err(error) = staging.and(files) {
        tracing::debug!(%error, "an arrival was not removed");
    }
}
