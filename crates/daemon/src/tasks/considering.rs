//! From a task that came to its yes: what would be done is found out, shown whole, and found out again before it is done.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cede_agent::turns;
use cede_core::authority::{
    CapabilityDecision, CapabilityRefusal, DecidedBy, Delegation, Permission, Permit, RequestId,
};
use cede_core::limits::PENDING_PER_PEER;
use cede_store::objects::ObjectError;
use cede_wire::audit::{AuditOf, AuditOutcome};
use cede_wire::authority::Rule;
use cede_wire::id::DeviceId;
use cede_wire::letter::{Letter, LetterId, LetterState};
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;
use cede_wire::session::{Activity, AgentKind, SessionInfo, SessionKey};
use cede_wire::task::{TaskOutcome, TaskResult, TaskScope};

use super::running::Order;
use super::{Running, Stage, Waiting, is_open, mark, nothing, session_of};
use crate::actor::Actor;
use crate::authorities::Asker;
use crate::clock::unix_ms;
use crate::context::Context;
use crate::letters::{in_words, words_of};
use crate::{limits, sessions};

/// What would be done, as it is found out here. It is compared, so it holds nothing that changes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) agent: AgentKind,
    pub(super) session: Option<SessionKey>,
    pub(super) directory: PathBuf,
    /// The directory is one that is made for the task.
    pub(super) own: bool,
}

/// Why it cannot be done here, with what helps.
type Hindrance = (Refusal, String);

impl Actor {
    /// A link of a peer stands: its tasks are asked about, and it hears of those that wait for a place.
    pub(crate) fn tasks_link_up(&mut self, device: DeviceId) {
        self.consider_tasks_of(device);
        let theirs = self.tasks.waiting.keys().filter(|id| id.origin == device);
        let theirs: Vec<LetterId> = theirs.copied().collect();
        theirs.into_iter().for_each(|id| self.say_that_it_waits(id));
    }

    /// Tasks of a peer that wait for a link, or for room among its questions: the oldest first, and no more than there is room
    /// for. The others are looked at when one of these is decided, or a while later.
    pub(super) fn consider_tasks_of(&mut self, device: DeviceId) {
        let Some(asker) = self.asker(device) else { return };
        let idle =
            self.tasks.waiting.iter().filter(|(id, waiting)| id.origin == device && waiting.stage == Stage::Idle);
        let came = |id: &LetterId| self.ledger.received(*id).map_or(0, |letter| letter.kept.at_unix_ms);
        let mut idle: Vec<(u64, LetterId)> = idle.map(|(id, _)| (came(id), *id)).collect();
        idle.sort_unstable();
        // A store that may be older than it was has perhaps forgotten what it did.
        let doubted = self.custodian.doubt().is_some();
        for (_, id) in idle {
            if doubted || self.room_for_tasks(device) == 0 {
                return self.consider_later(device);
            }
            self.consider_task(id, asker);
        }
    }

    /// So many tasks more may be looked at: what has no room among the questions need not be.
    fn room_for_tasks(&mut self, device: DeviceId) -> usize {
        let unasked =
            self.rule(device, Capability::Delegate).is_some_and(|rule| rule != Rule::Ask && rule != Rule::Hold);
        let now = self.context.clock.now();
        let room = if unasked { PENDING_PER_PEER } else { self.authorities.memory(device).room(now) };
        let looking = |(id, waiting): &(&LetterId, &Waiting)| id.origin == device && waiting.stage == Stage::Looking;
        room.saturating_sub(self.tasks.waiting.iter().filter(looking).count())
    }

    /// Looks what a task would be, and asks. Without a link of the asker it waits for one: a question dies with its connection.
    fn consider_task(&mut self, id: LetterId, asker: Asker) {
        let Some(waiting) = self.tasks.waiting.get(&id).filter(|waiting| waiting.stage == Stage::Idle) else { return };
        let (letter, scope) = (waiting.letter.clone(), waiting.scope.clone());
        match self.permission(asker, Capability::Delegate) {
            Permission::Refused(_, DecidedBy::Closed) => return,
            // What cannot be recorded now is no no.
            Permission::Refused(_, DecidedBy::Fault) => return self.consider_later(id.origin),
            Permission::Refused(why, _) => return self.end_waiting(id, why.refusal()),
            Permission::Allowed(_) | Permission::Asks => {}
        }
        if let Some(session) = session_of(&letter)
            && !self.is_here(session)
        {
            let why = "that session is not in charge here; ask the device where it is";
            return self.hinder(id, (Refusal::NotOwner, why.to_owned()));
        }
        self.become_stage(id, Stage::Looking);
        tracing::debug!(peer = %id.origin.short(), id = id.short(), "a task is looked at");
        let context = self.context.clone();
        tokio::spawn(async move {
            let found = {
                let (letter, scope) = (letter.clone(), scope.clone());
                context.block(move |context| plan(context, id, &letter, &scope)).await
            };
            let Ok(found) = found else { return };
            context.tell(move |actor| actor.task_looked_at(id, asker, found)).await;
        });
    }

    fn become_stage(&mut self, id: LetterId, stage: Stage) {
        if let Some(waiting) = self.tasks.waiting.get_mut(&id) {
            waiting.stage = stage;
        }
    }

    fn task_looked_at(&mut self, id: LetterId, asker: Asker, found: Result<Plan, Hindrance>) {
        let Some(waiting) = self.tasks.waiting.get(&id).filter(|waiting| waiting.stage == Stage::Looking) else {
            return;
        };
        let (letter, scope) = (waiting.letter.clone(), waiting.scope.clone());
        let plan = match found {
            Ok(plan) => plan,
            Err(hindrance) => {
                self.hinder(id, hindrance);
                return self.consider_tasks_of(id.origin);
            }
        };
        let life_ms = self.ledger.received(id).map_or(0, |letter| letter.kept.expires_in_ms);
        let asked = delegation(id, &letter, &scope, &plan, life_ms);
        let decided = move |actor: &mut Self, decision, of| actor.task_decided(id, decision, of);
        let request = self.ask_delegation(asker, asked, decided);
        self.become_stage(id, Stage::Asked(asker, request));
    }

    /// False: it was withdrawn between the yes and its record.
    fn task_decided(&mut self, id: LetterId, decision: CapabilityDecision, of: AuditOf) -> bool {
        let device = id.origin;
        let mut wanted = true;
        match decision {
            CapabilityDecision::Allowed(permit) => wanted = self.task_allowed(id, permit, of),
            // The next link, or a later moment, brings the question again: the task is durable, its answer is not.
            CapabilityDecision::Refused { by: DecidedBy::Closed, .. } => self.become_stage(id, Stage::Idle),
            CapabilityDecision::Refused { by: DecidedBy::Pace | DecidedBy::Fault, .. } => {
                self.become_stage(id, Stage::Idle);
                self.consider_later(device);
                return wanted;
            }
            CapabilityDecision::Refused { by: DecidedBy::Withdrawn, .. } => {}
            CapabilityDecision::Refused { by: DecidedBy::Time, .. } => self.end_waiting(id, Refusal::Expired),
            CapabilityDecision::Refused { by: DecidedBy::Size, .. } => self.end_waiting(id, Refusal::TooLarge),
            CapabilityDecision::Refused { why: CapabilityRefusal::NotGranted, .. } => {
                self.end_waiting(id, Refusal::NotGranted);
            }
            CapabilityDecision::Refused { why, .. } => self.end_waiting(id, why.refusal()),
        }
        // There may be room for another question.
        self.consider_tasks_of(device);
        wanted
    }

    fn task_allowed(&mut self, id: LetterId, permit: Permit, of: AuditOf) -> bool {
        let asked = |waiting: &&mut Waiting| matches!(waiting.stage, Stage::Asked(..));
        let Some(waiting) = self.tasks.waiting.get_mut(&id).filter(asked) else {
            self.came_of(id.origin, of, Capability::Delegate, AuditOutcome::Failed);
            return false;
        };
        waiting.stage = Stage::Allowed(of, permit);
        self.tasks.queue.push_back(id);
        self.fill_places();
        self.say_that_it_waits(id);
        true
    }

    /// Gives the places that are free to those that waited longest since their yes.
    pub(super) fn fill_places(&mut self) {
        loop {
            let placed =
                self.tasks.waiting.values().filter(|waiting| matches!(waiting.stage, Stage::Placed(_))).count();
            let unanswered = self.tasks.book.cut_off().len();
            let room = self.tasks.running.len() + placed < limits::TASKS_RUNNING
                && unanswered + placed < limits::TASKS_UNANSWERED;
            let Some(id) = room.then(|| self.tasks.queue.pop_front()).flatten() else { return };
            self.look_again(id);
        }
    }

    /// The asker hears that its task has its yes and no place yet.
    fn say_that_it_waits(&mut self, id: LetterId) {
        let waits = self.tasks.waiting.get(&id).is_some_and(|waiting| matches!(waiting.stage, Stage::Allowed(..)));
        if waits && self.peers.is_connected(id.origin) {
            let line = self.waiting_for_a_place();
            self.send(id.origin, PeerMessage::TaskProgress { task: id, line });
        }
    }

    /// What a yes to a task waits for, which the record names so.
    pub(crate) fn waits_for_a_place(&self, yes: AuditOf) -> Option<String> {
        let waits = |waiting: &Waiting| matches!(waiting.stage, Stage::Allowed(of, _) if of == yes);
        self.tasks.waiting.values().any(waits).then(|| format!("it {}", self.waiting_for_a_place()))
    }

    /// In words for a person here.
    pub(super) fn waiting_for_a_place(&self) -> String {
        match self.tasks.running.len() {
            running if running >= limits::TASKS_RUNNING => format!("waits for a place: {running} tasks run here"),
            _ => format!("waits for a place: {} tasks have no answer here yet", self.tasks.book.cut_off().len()),
        }
    }

    fn consider_later(&mut self, device: DeviceId) {
        if !self.tasks.later.insert(device) {
            return;
        }
        let context = self.context.clone();
        tokio::spawn(async move {
            tokio::time::sleep(limits::ASKED_AGAIN).await;
            let again = move |actor: &mut Self| {
                actor.tasks.later.remove(&device);
                actor.consider_tasks_of(device);
            };
            context.tell(again).await;
        });
    }

    /// After the yes: the words are read from the disk again, and everything is found out again.
    fn look_again(&mut self, id: LetterId) {
        let allowed = |waiting: &&mut Waiting| matches!(waiting.stage, Stage::Allowed(..));
        let Some(waiting) = self.tasks.waiting.get_mut(&id).filter(allowed) else { return };
        let Stage::Allowed(of, permit) = core::mem::replace(&mut waiting.stage, Stage::Idle) else { return };
        if self.custodian.doubt().is_some() {
            self.came_of(id.origin, of, Capability::Delegate, AuditOutcome::Failed);
            return self.consider_later(id.origin);
        }
        waiting.stage = Stage::Placed(of);
        let scope = waiting.scope.clone();
        if self.rule(id.origin, Capability::Delegate) == Some(Rule::Refuse) {
            // It was set since the yes.
            return self.end_waiting(id, Refusal::Declined);
        }
        let Some(digest) = self.ledger.received(id).map(|letter| letter.kept.facts.digest) else { return };
        let context = self.context.clone();
        tokio::spawn(async move {
            let found = context.block(move |context| {
                let gone = || (Refusal::IntegrityFailed, "the words of the task cannot be read".to_owned());
                let Some(letter) = words_of(context, &digest)? else { return Ok(Err(gone())) };
                Ok(plan(context, id, &letter, &scope).map(|plan| (plan, letter)))
            });
            let Ok(found) = found.await else { return };
            let begin = move |actor: &mut Self| {
                match found {
                    Ok(found) => actor.begin_task(id, permit, found),
                    Err(error) => actor.words_unread(id, &error),
                }
                actor.fill_places();
            };
            context.tell(begin).await;
        });
    }

    /// The disk does not give the words of a task now. It is asked about once more.
    fn words_unread(&mut self, id: LetterId, error: &ObjectError) {
        let Some(Waiting { stage: Stage::Placed(of), .. }) = self.tasks.waiting.get(&id) else { return };
        let (of, why) = (*of, in_words(error));
        tracing::warn!(peer = %id.origin.short(), id = id.short(), why, "a task cannot be read now; it waits");
        self.become_stage(id, Stage::Idle);
        self.came_of(id.origin, of, Capability::Delegate, AuditOutcome::Failed);
        self.consider_later(id.origin);
    }

    fn begin_task(&mut self, id: LetterId, permit: Permit, found: Result<(Plan, Letter), Hindrance>) {
        let Some(Waiting { stage: Stage::Placed(of), scope, .. }) = self.tasks.waiting.get(&id) else { return };
        let (of, scope) = (*of, scope.clone());
        let Some(standing) = self.ledger.received(id).filter(is_open) else { return };
        let (plan, letter) = match found {
            Ok(found) => found,
            Err(hindrance) => return self.hinder(id, hindrance),
        };
        let delegation = delegation(id, &letter, &scope, &plan, standing.kept.expires_in_ms);
        let Ok(turn) = permit.into_turn(&delegation) else {
            let why = "what would be done was not any more what was shown; ask again";
            self.become_stage(id, Stage::Idle);
            self.came_of(id.origin, of, Capability::Delegate, AuditOutcome::Swapped);
            return self.hinder(id, (Refusal::IntegrityFailed, why.to_owned()));
        };
        if self.custodian.doubt().is_some() {
            self.become_stage(id, Stage::Idle);
            self.came_of(id.origin, of, Capability::Delegate, AuditOutcome::Failed);
            return self.consider_later(id.origin);
        }
        if let Some(hindrance) = self.taken(&plan) {
            return self.hinder(id, hindrance);
        }
        self.tasks.waiting.remove(&id);
        let Some(began) = self.tasks.book.begin(id, unix_ms(), of) else { return };
        self.write_book(began);
        self.end_letter(id, LetterState::Acted);
        let stop = Arc::new(AtomicBool::new(false));
        let session = plan.session.as_ref().map(SessionKey::id);
        let directory = (!plan.own).then(|| plan.directory.clone());
        let running = Running { stop: stop.clone(), agent: plan.agent, session, directory, line: String::new() };
        self.tasks.running.insert(id, running);
        tracing::info!(peer = %id.origin.short(), id = id.short(), driver = turn.driver, "a task begins");
        let order = Order { id, turn, plan, scope, stop, from: self.device_name(id.origin) };
        tokio::spawn(super::running::run(self.context.clone(), order));
    }

    /// Why it may not begin now.
    fn taken(&self, plan: &Plan) -> Option<Hindrance> {
        let in_flight = |why: &str| Some((Refusal::InFlightWork, format!("{why}; ask again later")));
        if !plan.own && self.leaving.values().any(|leaving| leaving.needs_quiet(&plan.directory)) {
            return in_flight("what lies there is about to move to another device");
        }
        if !plan.own && self.is_awaited_at(&plan.directory) {
            return in_flight("a session arrives there");
        }
        let session = plan.session.as_ref()?.id();
        if !self.is_here(session) {
            Some((Refusal::NotOwner, "the session went to another device".to_owned()))
        } else if !self.custodian.may_act(session) {
            in_flight("the session is not in its place there yet")
        } else if self.leaving.contains_key(&session) || self.custodian.leaving(session).is_some() {
            in_flight("a move of the session is under way there")
        } else if self.tasks.running.values().any(|running| running.session == Some(session)) {
            in_flight("another task works with the session there")
        } else {
            None
        }
    }

    /// It cannot be done here: the asker is told why, and what helps.
    pub(super) fn hinder(&mut self, id: LetterId, (refusal, note): Hindrance) {
        self.end_waiting(id, refusal);
        self.answer_task(id, TaskResult { note, ..nothing(TaskOutcome::Refused(refusal)) }, String::new());
    }

    /// A task that is not begun.
    pub(super) fn end_waiting(&mut self, id: LetterId, refusal: Refusal) {
        tracing::info!(peer = %id.origin.short(), id = id.short(), %refusal, "a task is refused");
        self.take_question_back(id);
        self.end_letter(id, LetterState::Refused(refusal));
    }
}

/// What the operator is shown: everything that the program will be held to, in words for a person.
fn delegation(id: LetterId, letter: &Letter, scope: &TaskScope, plan: &Plan, life_ms: u64) -> Delegation {
    let mut lines = vec![];
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    let place = plan.directory.display();
    line("in", if plan.own { format!("{place}, an empty directory that is made for it") } else { place.to_string() });
    line("agent", plan.agent.name().to_owned());
    if let Some(session) = &plan.session {
        line("as a turn of", format!("session {}", session.id()));
    }
    line(
        "may",
        match scope.read_only {
            true => "look, and change nothing".to_owned(),
            false => format!("do what your own settings of {} allow", plan.agent.name()),
        },
    );
    if !scope.tools.is_empty() {
        line("only tools", scope.tools.join(", "));
    }
    if let Some(turns) = scope.turns {
        line("turns", format!("{turns} at most"));
    }
    line("time", format!("{} min at most", scope.minutes));
    line("asked for", format!("not to be begun later than {} min after it came", life_ms / 60_000));
    Delegation {
        request: RequestId(id.seq),
        session: None,
        task: letter.text.clone(),
        scope: lines,
        digest: Some(letter.digest()),
    }
}

/// What would be done, or why it cannot be. Blocks.
fn plan(context: &Context, id: LetterId, letter: &Letter, scope: &TaskScope) -> Result<Plan, Hindrance> {
    let session = session_of(letter).map(|session| idle_session(context, session, scope)).transpose()?;
    let wanted = scope.agent.or(session.as_ref().map(|info| info.key.agent));
    let agent = turns::choose(&context.surroundings, wanted)
        .map_err(|why| (Refusal::DestinationCannotResume, why.to_string()))?;
    let (directory, own) = match (&session, &scope.directory) {
        (Some(info), _) => (existing(context, Path::new(&info.directory), "the session's directory")?, false),
        (None, Some(typed)) => (existing(context, &expanded(context, typed), typed)?, false),
        (None, None) => (context.place("tasks", &mark(id)).join("work"), true),
    };
    let plan = Plan { agent, session: session.map(|info| info.key), directory, own };
    // Whatever the agent cannot be held to is said before anybody is asked.
    turns::invocation(&context.surroundings, &turn(id, &plan, scope, String::new()))
        .map_err(|why| (Refusal::DestinationCannotResume, why.to_string()))?;
    Ok(plan)
}

pub(super) fn turn(id: LetterId, plan: &Plan, scope: &TaskScope, prompt: String) -> turns::Turn {
    turns::Turn {
        agent: plan.agent,
        session: plan.session.as_ref().map(|key| key.native.clone()),
        directory: plan.directory.clone(),
        prompt,
        read_only: scope.read_only,
        tools: scope.tools.clone(),
        turns: scope.turns,
        mark: mark(id),
    }
}

/// A session that nobody works with.
fn idle_session(
    context: &Context,
    session: cede_wire::id::SessionId,
    scope: &TaskScope,
) -> Result<SessionInfo, Hindrance> {
    let missing = || (Refusal::NotOwner, "no such session is here any more".to_owned());
    let key = sessions::find(context, session, None).ok_or_else(missing)?.key;
    // What was looked at a moment ago may be in use by now.
    let info = sessions::find(context, session, Some(key)).ok_or_else(missing)?;
    if scope.directory.is_some() {
        return Err((Refusal::Protocol, "a session has its own directory; leave out --in".to_owned()));
    }
    if scope.agent.is_some_and(|agent| agent != info.key.agent) {
        return Err((Refusal::DestinationCannotResume, format!("the session is one of {}", info.key.agent.name())));
    }
    if matches!(info.key.agent, AgentKind::Files | AgentKind::Terminal) {
        let why = "a plain directory or a terminal has no agent to go on with; name the directory with --in";
        return Err((Refusal::DestinationCannotResume, why.to_owned()));
    }
    match &info.activity {
        Activity::Idle { .. } | Activity::Interrupted { .. } => Ok(context.located(info)),
        Activity::Open { .. } | Activity::Busy { .. } => {
            let why = crate::offering::evidence(&info.activity);
            Err((Refusal::InFlightWork, format!("somebody works with the session there: {why}; ask again later")))
        }
    }
}

fn expanded(context: &Context, typed: &str) -> PathBuf {
    let home = &context.surroundings.home;
    match typed.strip_prefix("~/") {
        Some(below) => home.join(below),
        None if typed == "~" => home.clone(),
        None => home.join(typed),
    }
}

/// Directories in which the system shows and changes itself.
const OF_THE_SYSTEM: [&str; 2] = ["/proc", "/sys"];

/// A directory by its real name, which is what is shown and what is used. The asker hears of it as it was asked for.
fn existing(context: &Context, directory: &Path, asked: &str) -> Result<PathBuf, Hindrance> {
    let cannot = |why: &str| (Refusal::DestinationCannotResume, format!("{asked}: {why}"));
    // Nobody has said yes yet: what else lies there is not for the asker.
    let real = directory.canonicalize().ok().filter(|real| real.is_dir());
    let real = real.ok_or_else(|| cannot("there is no such directory, or it cannot be used"))?;
    let state = context.state.canonicalize().unwrap_or_else(|_| context.state.clone());
    if real.starts_with(state) {
        return Err(cannot("is the state of cede"));
    }
    if OF_THE_SYSTEM.iter().any(|place| real.starts_with(place)) {
        return Err(cannot("holds no files, it shows what the system does"));
    }
    if real.to_str().is_none() {
        return Err(cannot("its name is not UTF-8"));
    }
    Ok(real)
}
