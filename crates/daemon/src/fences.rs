//! Fences: what an agent finds where another device is in charge of its session, or nobody is yet.

use std::collections::BTreeMap;

use cede_agent::adapter::{AgentError, Tombstone};
use cede_core::custodian::Standing;
use cede_core::source::SourcePhase;
use cede_wire::id::SessionId;
use cede_wire::session::{AgentKind, SessionKey};

use crate::actor::Actor;
use crate::context::{Context, Stopping};
use crate::limits;
use crate::payload::PayloadError;

/// What the actor knows of hands at fences.
#[derive(Default)]
pub(crate) struct Fences {
    /// How many of them may still raise the fence of a session.
    hands: BTreeMap<SessionId, usize>,
    /// Those that raise the fences of what is away, in their order: of one session the last ones go on.
    raising: BTreeMap<SessionId, u64>,
    raised: u64,
}

impl Fences {
    /// Each ends with [`Context::raising_ends`].
    pub(crate) fn begins(&mut self, session: SessionId) {
        *self.hands.entry(session).or_default() += 1;
    }

    fn ends(&mut self, session: SessionId) {
        if let Some(hands) = self.hands.get_mut(&session) {
            *hands -= 1;
        }
        self.hands.retain(|_, hands| *hands > 0);
        self.raising.retain(|session, _| self.hands.contains_key(session));
    }
}

/// A fence that is to stand, and the number of those who raise it.
type Raising = (SessionKey, u64);

impl Context {
    /// Raises a fence, takes it down, or puts a conversation where the agent looks: one at a time for all sessions of an agent, in
    /// the order in which they came, since a fence that goes up where another one comes down, or a conversation comes in, would
    /// take its only copy away. What is `wanted` is asked once the others are done; `None`: nothing any more, and nothing was done.
    pub(crate) async fn fencing<W: Send + 'static, T: Send + 'static>(
        &self,
        agent: AgentKind,
        wanted: impl FnOnce(&mut Actor) -> Option<W> + Send + 'static,
        work: impl FnOnce(&Self, W) -> T + Send + 'static,
    ) -> Result<Option<T>, Stopping> {
        let alone = self.fencing[agent as usize].clone().lock_owned().await;
        let Some(wanted) = self.ask(wanted).await? else { return Ok(None) };
        let done = self.block(move |context| {
            let _alone = alone;
            work(context, wanted)
        });
        done.await.map(Some)
    }

    /// Hands that could raise the fence have ended. A session that stayed or came back meanwhile must not be behind one that went
    /// up too late.
    pub(crate) async fn raising_ends(&self, key: SessionKey) {
        let session = key.id();
        self.tell(move |actor| actor.moves.fences.ends(session)).await;
        loop {
            let key = key.clone();
            if self.ask(move |actor| actor.lift_if_in_charge(session, key)).await != Ok(true) {
                return;
            }
            tokio::time::sleep(limits::DIAL_LONGEST).await;
        }
    }

    /// One after the other, so that a session that comes in waits for one of them and not for all.
    async fn raise_each(self, all: Vec<Raising>) {
        for (key, number) in all {
            let stands = self.raise(&key, number).await;
            tokio::spawn(self.clone().keep_raising((key, number), stands));
        }
    }

    /// Again and again until it stands, or does not belong there any more.
    async fn keep_raising(self, (key, number): Raising, stands: Result<(), String>) {
        let (mut wait, mut stands) = (limits::DIAL_FIRST, stands);
        if let Err(error) = &stands {
            tracing::warn!(session = %key.id().short(), error, "the fence is not up yet");
        }
        while stands.is_err() {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(limits::DIAL_IDLE);
            stands = self.raise(&key, number).await;
        }
        self.raising_ends(key).await;
    }

    async fn raise(&self, key: &SessionKey, number: u64) -> Result<(), String> {
        let (session, agent) = (key.id(), key.agent);
        let wanted = move |actor: &mut Actor| {
            let newest = actor.moves.fences.raising.get(&session) == Some(&number);
            newest.then(|| actor.tombstone(session)).flatten()
        };
        let key = key.clone();
        match self.fencing(agent, wanted, move |context, tombstone| raise(context, &key, &tombstone)).await {
            Ok(None | Some(Ok(()) | Err(PayloadError::NoAdapter))) | Err(Stopping::Told) => Ok(()),
            // There is nothing to keep anybody from.
            Ok(Some(Err(PayloadError::Agent(AgentError::Unknown { .. })))) => Ok(()),
            Ok(Some(Err(error))) => Err(error.to_string()),
            Err(Stopping::Fault) => Err(Stopping::Fault.to_string()),
        }
    }

    /// Takes the fence down; `None` where it is another move's by now.
    pub(crate) async fn take_down(&self, key: &SessionKey) -> Result<Option<Result<(), String>>, Stopping> {
        let (session, key) = (key.id(), key.clone());
        let wanted = move |actor: &mut Actor| actor.may_lift(session).then_some(());
        self.fencing(key.agent, wanted, move |context, ()| match context.adapter(key.agent) {
            Some(adapter) => adapter.lift(&key.native).map_err(|error| error.to_string()),
            None => Ok(()),
        })
        .await
    }
}

/// Raises the fence, or changes its words, within [`Context::fencing`]. Blocks.
pub(crate) fn raise(context: &Context, key: &SessionKey, tombstone: &Tombstone) -> Result<(), PayloadError> {
    let adapter = context.adapter(key.agent).ok_or(PayloadError::NoAdapter)?;
    Ok(adapter.fence(&key.native, tombstone)?)
}

impl Actor {
    /// What a fence says that belongs before this session now. None: none belongs there.
    pub(crate) fn tombstone(&self, session: SessionId) -> Option<Tombstone> {
        let here = self.context.local.device();
        let (owner, command) = match self.custodian.standing(session)? {
            Standing::Elsewhere(to) | Standing::ReleasedTo(to) | Standing::SeizedBy(to) if to != here => {
                (self.device_name(to), "take")
            }
            Standing::Unconfirmed => {
                ("nobody until it is confirmed which copy of this device counts".to_owned(), "confirm")
            }
            Standing::Elsewhere(_)
            | Standing::ReleasedTo(_)
            | Standing::SeizedBy(_)
            | Standing::InCharge
            | Standing::Leaving(_)
            | Standing::Arriving
            | Standing::PayloadMissing => return None,
        };
        let session = session.short();
        Some(Tombstone { owner, command: format!("cede {command} {session}"), session })
    }

    /// Raises the fences of sessions that are away, or changes their words.
    pub(crate) fn raise_fences(&mut self, sessions: impl IntoIterator<Item = SessionId>) {
        let mut all = Vec::new();
        for session in sessions {
            let Some(key) = self.key_of(session) else { continue };
            self.end_tasks_in(session);
            let fences = &mut self.moves.fences;
            fences.begins(session);
            fences.raised += 1;
            fences.raising.insert(session, fences.raised);
            all.push((key, fences.raised));
        }
        tokio::spawn(self.context.clone().raise_each(all));
    }

    /// Sessions that this device released stay fenced, whatever happened while it was down.
    pub(crate) fn raise_missing_fences(&mut self) {
        let was_here = |id: &SessionId| self.placed.get(id).is_some_and(|placed| placed.root.is_some());
        let away = |standing: &Standing| *standing != Standing::Unconfirmed;
        let all = self.custodian.sessions().filter(|(id, standing)| away(standing) && was_here(id));
        let all: Vec<SessionId> = all.map(|(id, _)| id).filter(|id| self.tombstone(*id).is_some()).collect();
        self.raise_fences(all);
    }

    /// While nobody has confirmed, the agents here must not go on with what may be another device's.
    pub(crate) fn hold_still(&mut self) {
        if self.read_only {
            return;
        }
        let all = self.custodian.to_hold_still();
        for session in &all {
            // It is durable before the hands ask what is wanted.
            self.custodian.hold_still(*session);
        }
        self.raise_fences(all);
    }

    /// Once another move has frozen the session the fence is that move's, and after a release it stays.
    fn may_lift(&self, session: SessionId) -> bool {
        let frozen = self.custodian.leaving(session).is_some_and(|source| *source.phase() == SourcePhase::Frozen);
        self.custodian.may_act(session) && !frozen
    }

    /// True: it is being put in its place, which the fence does not hinder; to be asked again.
    fn lift_if_in_charge(&mut self, session: SessionId, key: SessionKey) -> bool {
        let standing = self.custodian.standing(session);
        // One that was never offered has no fence.
        if standing.is_some() && self.may_lift(session) {
            self.lift(key);
        }
        standing == Some(Standing::Arriving)
    }

    /// Takes a fence down, again and again until it is down: the owner must be able to work.
    pub(crate) fn lift(&mut self, key: SessionKey) {
        let context = self.context.clone();
        tokio::spawn(async move {
            let session = key.id();
            let mut wait = limits::DIAL_FIRST;
            loop {
                match context.take_down(&key).await {
                    Ok(None) => return,
                    Ok(Some(Ok(()))) => break,
                    Ok(Some(Err(error))) => tracing::warn!(session = %session.short(), error, "the fence is still up"),
                    Err(Stopping::Fault) => tracing::error!(session = %session.short(), "the fence is still up"),
                    Err(Stopping::Told) => return,
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(limits::DIAL_IDLE);
            }
            context.tell(move |actor| actor.fence_is_down(session)).await;
        });
    }

    /// That it is down is no record while hands may still raise it: a death then must find it again. Their end lifts it once more.
    pub(crate) fn fence_is_down(&mut self, session: SessionId) {
        if !self.moves.fences.hands.contains_key(&session) {
            self.custodian.fence_lifted(session);
        }
    }

    /// Fences that a crash left standing though this device is the owner.
    pub(crate) fn lift_stale_fences(&mut self) {
        for (session, _) in self.custodian.fences_to_lift() {
            if let Some(key) = self.key_of(session) {
                self.lift(key);
            }
        }
    }
}
