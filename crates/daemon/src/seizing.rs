//! `cede take --force`: the owner is gone, and the person here says so.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use cede_core::custodian::{Prospect, SeizeError, Standing};
use cede_wire::audit::AuditAct;
use cede_wire::control::{Answer, Failure, SeizePlan, exit};
use cede_wire::custody::Head;
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::refusal::Refusal;
use cede_wire::session::SessionKey;

use crate::actor::Actor;
use crate::context::Context;
use crate::control::Replies;
use crate::limits;
use crate::moves::Story;
use crate::offering::{failure, reason, stopping};

/// What the actor knows of seizes, of what they left behind, and of its own doubts.
#[derive(Default)]
pub(crate) struct Seizes {
    waiting: BTreeMap<SessionId, Replies>,
    /// Where the turns lie that only this device has, by the session that another device seized.
    pub(crate) branches: BTreeMap<SessionId, PathBuf>,
}

impl Actor {
    /// The session that a text means, among those whose owner is known here.
    pub(crate) fn session_of(&self, text: &str, what: &str) -> Result<SessionId, Failure> {
        let fits = |id: &SessionId| {
            let key = self.key_of(*id);
            let native = key.is_some_and(|key| key.native.as_str().starts_with(text));
            let title = self.placed.get(id).is_some_and(|placed| placed.title == text);
            id.to_string().starts_with(text) || native || title
        };
        let mut all = self.custodian.sessions().map(|(id, _)| id).filter(|id| !text.is_empty() && fits(id));
        match (all.next(), all.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => {
                let why = format!("no session called {text} ever moved from or to this device");
                Err(failure(exit::USAGE, what, &why, "cede ls"))
            }
            (Some(_), Some(_)) => {
                Err(failure(exit::USAGE, what, "several sessions fit", "name one by its id: cede ls"))
            }
        }
    }

    /// What it would mean.
    pub(crate) fn ask_seize_plan(&mut self, text: &str, replies: Replies) {
        let session = match self.session_of(text, NOT_TAKEN) {
            Ok(session) => session,
            Err(failed) => return replies.failed(failed),
        };
        let context = self.context.clone();
        tokio::spawn(async move {
            let here = look_around(&context, session).await;
            let plan = context.ask(move |actor| actor.seize_plan(session, here)).await;
            replies.settle(plan.map_err(stopping).and_then(|plan| plan));
        });
    }

    fn seize_plan(&self, session: SessionId, here: Option<Head>) -> Result<Answer, Failure> {
        let prospect = self.custodian.prospect(session, here).map_err(|error| self.not_seized(session, &error))?;
        let owner = prospect.owner;
        let me = self.context.local.device();
        let voters = self.peers.members().into_iter().filter(|member| member.device() != owner);
        Ok(Answer::SeizePlan(Box::new(SeizePlan {
            session,
            title: self.placed.get(&session).map_or_else(String::new, |placed| placed.title.clone()),
            owner: if owner == me {
                format!("{} itself, without the files", self.name)
            } else {
                self.device_name(owner)
            },
            owner_connected: self.peers.is_connected(owner),
            owner_seen_unix_ms: self.peers.last_seen(owner),
            turn: prospect.head.turn,
            bytes: prospect.head.length,
            copy: copy_in_words(&prospect),
            left_behind: left_in_words(&prospect),
            votes: prospect.votes,
            voters: if prospect.votes == 0 { Vec::new() } else { voters.map(|member| member.name).collect() },
            token: prospect.next_token,
        })))
    }

    /// The person typed the id: that is the yes.
    pub(crate) fn ask_seize(&mut self, text: &str, replies: Replies) {
        let named = |id: &SessionId| text == id.to_string() || text == id.short();
        let Some(session) = self.custodian.sessions().map(|(id, _)| id).find(named) else {
            let cure = "cede take --force <session> shows the id to type";
            let why = format!("{text} is not the id of a session that ever moved from or to this device");
            return replies.failed(failure(exit::USAGE, NOT_TAKEN, &why, cure));
        };
        if self.seizes.waiting.contains_key(&session) {
            let why = "it is being taken over already";
            return replies.failed(failure(exit::PENDING, NOT_TAKEN, why, "cede status"));
        }
        self.seizes.waiting.insert(session, replies);
        let (context, look) = (self.context.clone(), self.look_here(session));
        tokio::spawn(async move {
            let here = context.block(look).await.ok().flatten();
            context.tell(move |actor| actor.begin_seize(session, here)).await;
        });
    }

    fn begin_seize(&mut self, session: SessionId, here: Option<Head>) {
        let now = self.context.clock.now();
        self.note_act(AuditAct::Seized, None, Some(session));
        if let Err(error) = self.custodian.seize(session, here, now) {
            let failed = self.not_seized(session, &error);
            self.end_seize(session, failed);
        }
    }

    fn end_seize(&mut self, session: SessionId, failed: Failure) {
        if let Some(replies) = self.seizes.waiting.remove(&session) {
            replies.failed(failed);
        }
    }

    /// How far the conversation goes that lies here since it left.
    fn look_here(&self, session: SessionId) -> impl FnOnce(&Context) -> Option<Head> + Send + use<> {
        let was_here = matches!(
            self.custodian.standing(session),
            Some(
                Standing::Elsewhere(_)
                    | Standing::ReleasedTo(_)
                    | Standing::SeizedBy(_)
                    | Standing::PayloadMissing
                    | Standing::Unconfirmed
            )
        );
        let key = self.key_of(session).filter(|_| was_here && self.placed.contains_key(&session));
        move |context| head_here(context, &key?)
    }

    /// The certificate is durable. What was staged is put in its place by `activate`; over what lies here the fence comes
    /// down.
    pub(crate) fn seized_here(&mut self, session: SessionId, from: DeviceId, head: Head, staged: Option<HandoffId>) {
        tracing::warn!(session = %session.short(), from = %from.short(), turn = head.turn, "taken over by force");
        self.note_act(AuditAct::TookOver, None, Some(session));
        self.leaving_passed(session, self.context.local.device());
        let title = self.placed.get(&session).map_or_else(String::new, |placed| placed.title.clone());
        let (other, member) = (from == self.context.local.device(), self.peers.is_member(from));
        let (from, to) = (self.device_name(from), self.name.clone());
        self.moves.begin(Story::Coming(session), &title, &from, &to);
        if let Some(replies) = self.seizes.waiting.remove(&session) {
            self.moves.watch(Story::Coming(session), replies.watcher());
        }
        if let Some(view) = self.moves.get_mut(Story::Coming(session)) {
            let who = if other { "another device that holds it" } else { &from };
            let hears = if other || member { "it hears of this" } else { "it is paired again, for it was removed" };
            view.notes.push(format!("{who} may go on until {hears}; then it stops and keeps its own turns"));
        }
        if staged.is_none() {
            self.work_again(session);
        }
    }

    /// Takes the fence down and says so.
    fn work_again(&mut self, session: SessionId) {
        let Some(key) = self.key_of(session) else { return };
        let context = self.context.clone();
        tokio::spawn(async move {
            let lifted = context.take_down(&key).await;
            context
                .tell(move |actor| {
                    match lifted {
                        Ok(Some(Ok(()))) => actor.fence_is_down(session),
                        Ok(Some(Err(_)) | None) | Err(_) => actor.lift(key),
                    }
                    actor.end_seized(session);
                })
                .await;
        });
    }

    fn end_seized(&mut self, session: SessionId) {
        self.context.last_look.forget();
        self.end_arrived(session);
    }

    /// Not enough votes.
    pub(crate) fn seize_refused(
        &mut self,
        session: SessionId,
        refusal: Refusal,
        answers: &[(DeviceId, Refusal, String)],
        silent: &[DeviceId],
    ) {
        let said = answers.iter().map(|(device, refusal, detail)| {
            format!("{} says no ({})", self.device_name(*device), reason(*refusal, &crate::scrutiny::detail(detail)))
        });
        let silent: Vec<String> = silent.iter().map(|device| self.device_name(*device)).collect();
        let all: Vec<String> = said.chain(silent.iter().map(|name| format!("{name} did not answer"))).collect();
        let why = if all.is_empty() {
            "who is in charge, or what lies here of it, changed meanwhile".to_owned()
        } else {
            reason(refusal, &format!("more than half of all devices must agree: {}", all.join("; ")))
        };
        let exit = if refusal == Refusal::TimedOut { exit::TIMEOUT } else { exit::REFUSED };
        let again = format!("cede take --force {}", session.short());
        // Starting what answered changes nothing.
        let cure = match silent.as_slice() {
            [] if answers.is_empty() => format!("look who is in charge now: cede status; then: {again}"),
            [] => format!("settle what they say, then type it again: {again}"),
            silent => format!("start {}, then type it again: {again}", silent.join(" and ")),
        };
        let failed = Failure {
            refusal: Some(refusal),
            now_at: Some(self.last_known_owner(session)),
            ..failure(exit, NOT_TAKEN, &why, &cure)
        };
        self.end_seize(session, failed);
    }

    /// An owner that is away says nothing itself.
    fn last_known_owner(&self, session: SessionId) -> String {
        let owner = self.custodian.owner(session);
        let here = self.context.local.device();
        let away = owner.is_some_and(|owner| owner != here && !self.peers.is_connected(owner));
        let named = self.in_charge(session);
        if away { format!("{named}, as far as is known here") } else { named }
    }

    fn not_seized(&self, session: SessionId, error: &SeizeError) -> Failure {
        let (exit, why, cure) = match error {
            SeizeError::NoMesh => (exit::FAILED, "this device is paired with none".to_owned(), "cede pair".to_owned()),
            SeizeError::Unknown => (exit::USAGE, error.to_string(), "cede ls".to_owned()),
            SeizeError::AlreadyOwner => {
                (exit::FAILED, format!("the session is {}", self.state_of(session)), "cede status".to_owned())
            }
            SeizeError::Unconfirmed => (
                exit::FAILED,
                "this device's own records may not be the newest".to_owned(),
                "cede doctor says why; then: cede confirm".to_owned(),
            ),
            SeizeError::OldMembers => (
                exit::PENDING,
                "this device has not heard yet of every device of the mesh".to_owned(),
                "connect it to another device, then the same again".to_owned(),
            ),
            SeizeError::NoCopy => (
                exit::FAILED,
                "nothing of the session lies here to go on with: it was never here, or what was staged is gone"
                    .to_owned(),
                format!("try it on a device that had the session: cede take --force {}", session.short()),
            ),
            SeizeError::Bug(_) => (exit::FAILED, error.to_string(), "cede doctor".to_owned()),
        };
        Failure { now_at: Some(self.last_known_owner(session)), ..failure(exit, NOT_TAKEN, &why, &cure) }
    }
}

/// How far goes what lies here, once those who are connected had the time to say that they know a newer owner.
async fn look_around(context: &Context, session: SessionId) -> Option<Head> {
    let known = move |actor: &mut Actor| actor.custodian.chain(session).map(cede_core::chain::Chain::head);
    let ask = move |actor: &mut Actor| {
        actor.custodian.ask_links();
        let connected = actor.peers.members().iter().any(|member| actor.peers.is_connected(member.device()));
        (connected, known(actor))
    };
    let (connected, before) = context.ask(ask).await.ok()?;
    let given_up = Instant::now() + limits::CUSTODY_WAIT;
    while connected && Instant::now() < given_up && context.ask(known).await == Ok(before) {
        tokio::time::sleep(limits::CUSTODY_LOOK).await;
    }
    let look = context.ask(move |actor| actor.look_here(session)).await.ok()?;
    context.block(look).await.ok().flatten()
}

/// The end of the turns that lie in the agent's store here, fenced or not. Blocks.
fn head_here(context: &Context, key: &SessionKey) -> Option<Head> {
    let scratch = context.place("scratch", &key.id().to_string());
    let capturing = context.capturing(key.id());
    let _held = capturing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::fs::create_dir_all(&scratch).ok()?;
    Some(context.adapter(key.agent)?.capture(&key.native, &scratch).ok()?.head)
}

fn copy_in_words(prospect: &Prospect) -> String {
    match prospect.staged {
        Some(_) => "everything that the owner sent here in a move that it never released".to_owned(),
        None => "what lies here since the session left this device".to_owned(),
    }
}

fn left_in_words(prospect: &Prospect) -> String {
    match prospect.released {
        Some(released) if released.turn > prospect.head.turn => format!(
            "turns {} to {}, which were handed over since, and everything the owner did after them",
            prospect.head.turn + 1,
            released.turn
        ),
        Some(_) | None => "everything that the owner did since then".to_owned(),
    }
}

const NOT_TAKEN: &str = "the session was not taken over";
