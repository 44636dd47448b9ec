//! A session leaves: one task per move, told by the actor what the custodian decided.

use std::path::{Path, PathBuf};
use std::time::Instant;

use cede_seal::verify::Verified;
use cede_wire::audit::{AuditOf, AuditOutcome};
use cede_wire::canonical::Signed;
use cede_wire::control::{Answer, Failure, MoveReport, Phase, ReplyBody, exit};
use cede_wire::handoff::{Accept, Activated};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::member::Capability;
use cede_wire::message::NeedOf;
use cede_wire::record::{PlacedSession, Record};
use cede_wire::refusal::Refusal;
use cede_wire::session::SessionKey;
use tokio::sync::mpsc;

use crate::actor::Actor;
use crate::base;
use crate::context::Stopping;
use crate::limits;
use crate::moves::{Story, millis};
use crate::offering::{self, Order, failure};
use crate::tasks::overlap;

mod course;
mod words;

use course::Move;
pub(crate) use words::cure_of;
use words::released;

/// What the actor knows of a move that leaves.
pub(crate) struct Leaving {
    number: u64,
    pub(crate) key: SessionKey,
    pub(crate) destination: DeviceId,
    take: Option<u64>,
    /// How the yes to it is named in the record, until it is recorded what came of it.
    allowed: Option<AuditOf>,
    events: mpsc::Sender<LeavingEvent>,
    /// The round that was announced last, and how often the destination asked for something of it.
    round: Option<u32>,
    needs: u32,
    /// The handoff whose pinned copy is sent again.
    resends: Option<HandoffId>,
    /// Where nothing may begin to work, by its real name, once that is known.
    quiet: Option<PathBuf>,
}

impl Leaving {
    /// Whether it moves what lies in this directory, above it or below it.
    pub(crate) fn needs_quiet(&self, directory: &Path) -> bool {
        self.quiet.as_deref().is_some_and(|quiet| overlap(quiet, directory))
    }

    /// Whether this move is the answer to a peer's question.
    pub(crate) fn answers(&self, question: crate::take::TakeQuestion) -> bool {
        self.is_for(question.from, question.request)
    }

    /// Whether a peer asked for it, with this question.
    pub(crate) fn is_for(&self, from: DeviceId, request: u64) -> bool {
        self.destination == from && self.take == Some(request)
    }
}

/// What happens to a move that leaves.
pub(crate) enum LeavingEvent {
    Accepted(Box<Verified<Accept>>),
    Need { round: u32, of: NeedOf, bitmap: Vec<u8> },
    RoundComplete(u32),
    Freeze,
    AckHeld(HandoffId),
    Released,
    Retired,
    LinkDown,
    Over(Refusal, String),
}

impl Actor {
    /// Registers a move and starts its task.
    pub(crate) fn start_leaving(&mut self, order: Order) -> Result<(), Failure> {
        let session = order.session();
        if self.leaving.contains_key(&session) {
            let why = "another move of this session is under way";
            let failed = failure(offering::exit_of(Refusal::Busy), "the session was not offered", why, "cede status");
            return Err(Failure { refusal: Some(Refusal::Busy), ..failed });
        }
        let (key, destination) = (order.info.key.clone(), order.destination);
        let movement = self.enlist(session, key, destination, order.take);
        let number = movement.number;
        let (title, from) = (order.info.title.clone(), self.name.clone());
        let ended = order.info.key.clone();
        self.moves.begin(Story::Going(session), &title, &from, &order.destination_name);
        self.report(Story::Going(session), Phase::Preparing, (0, 0), 0, "");
        self.moves.fences.begins(session);
        let context = self.context.clone();
        let course = tokio::spawn(movement.run(order));
        tokio::spawn(async move {
            let result = course.await.unwrap_or_else(|_| Err(offering::stopping(Stopping::Fault)));
            context.tell(move |actor| actor.end_leaving(session, number, result)).await;
            // The attempt may have ended while its fence went up.
            context.raising_ends(ended).await;
        });
        Ok(())
    }

    fn enlist(&mut self, session: SessionId, key: SessionKey, destination: DeviceId, take: Option<u64>) -> Move {
        let (events, inbox) = mpsc::channel(limits::MOVE_EVENTS);
        self.moves.begun += 1;
        let number = self.moves.begun;
        let allowed = take.map(|request| AuditOf::Take(session, request));
        let leaving = Leaving {
            number,
            key,
            destination,
            take,
            allowed,
            events,
            round: None,
            needs: 0,
            resends: None,
            quiet: None,
        };
        self.leaving.insert(session, leaving);
        Move::new(self.context.clone(), self.name.clone(), session, number, inbox)
    }

    /// Whether this very move is the one that is under way: not one that was withdrawn and begun anew.
    pub(crate) fn is_leaving(&self, session: SessionId, number: u64) -> bool {
        self.leaving.get(&session).is_some_and(|leaving| leaving.number == number)
    }

    /// Withdraws a move before its offer. What its task still does leads to nothing.
    pub(crate) fn withdraw_leaving(&mut self, session: SessionId) {
        if let Some(number) = self.leaving.get(&session).map(|leaving| leaving.number) {
            self.end_leaving(session, number, Err(offering::cancelled()));
        }
    }

    /// Whose task works in the session or in its directory. From now on none begins there, if it really moves.
    pub(crate) fn keep_quiet(&mut self, session: SessionId, directory: PathBuf, moves: bool) -> Option<String> {
        let works = self.task_in(session, &directory);
        if let Some(leaving) = self.leaving.get_mut(&session) {
            leaving.quiet = moves.then_some(directory);
        }
        works
    }

    fn end_leaving(&mut self, session: SessionId, number: u64, result: Result<Box<Answer>, Failure>) {
        if !self.is_leaving(session, number) {
            return;
        }
        self.came_of_take(session, result.as_ref().err());
        let left = self.leaving.remove(&session);
        if let (Some(left), Err(failed)) = (left, &result) {
            self.answer_take(left.destination, left.take, failed);
        }
        let last = match result {
            Ok(answer) => ReplyBody::Done(*answer),
            Err(mut failed) => {
                if self.custodian.leaving(session).is_some() {
                    self.custodian.cancel(session, failed.refusal.unwrap_or(Refusal::Cancelled), &failed.why);
                }
                if failed.exit != exit::PENDING {
                    self.report(Story::Going(session), Phase::Abandoned, (0, 0), 0, &failed.why);
                }
                failed.now_at.get_or_insert_with(|| self.in_charge(session));
                ReplyBody::Failed(failed)
            }
        };
        self.forget_catalogs();
        self.moves.end(Story::Going(session), &last);
    }

    /// What came of a session that a peer was allowed to take: once.
    fn came_of_take(&mut self, session: SessionId, failed: Option<&Failure>) {
        let Some(leaving) = self.leaving.get_mut(&session) else { return };
        let (to, of) = (leaving.destination, leaving.allowed.take());
        let outcome = match failed {
            None => AuditOutcome::Done,
            Some(failed) if failed.refusal == Some(Refusal::Unauthorized) => AuditOutcome::Swapped,
            Some(_) => AuditOutcome::Failed,
        };
        if let Some(of) = of {
            self.came_of(to, of, Capability::Handoff, outcome);
        }
    }

    fn leaving_event(&mut self, session: SessionId, event: LeavingEvent) {
        // One whose task has ended needs no more events: how it ended is on its way here.
        if let Some(leaving) = self.leaving.get(&session)
            && let Err(mpsc::error::TrySendError::Full(_)) = leaving.events.try_send(event)
        {
            // Each event counts, so the move ends rather than wait for one that was lost.
            self.end_flooded(session, "the destination says too much at once");
        }
    }

    /// Ends a move whose destination asks for more than a destination needs.
    fn end_flooded(&mut self, session: SessionId, why: &str) {
        let Some(number) = self.leaving.get(&session).map(|leaving| leaving.number) else { return };
        tracing::warn!(session = %session.short(), why, "a move ends");
        let owned = self.custodian.leaving(session).is_some();
        let (exit, what) = if owned {
            (exit::FAILED, "the session stays here")
        } else {
            (exit::PENDING, "the pinned copy was not sent")
        };
        self.end_leaving(session, number, Err(failure(exit, what, why, "cede status")));
    }

    /// A round was announced: the destination may ask for its lists.
    pub(crate) fn announced(&mut self, session: SessionId, round: u32) {
        if let Some(leaving) = self.leaving.get_mut(&session) {
            (leaving.round, leaving.needs) = (Some(round), 0);
        }
    }

    pub(crate) fn leaving_accepted(&mut self, accept: Verified<Accept>) {
        if let Some(session) = self.leaving_of(accept.handoff) {
            self.report(Story::Going(session), Phase::Transferring, (0, 0), 0, "");
            self.leaving_event(session, LeavingEvent::Accepted(Box::new(accept)));
        }
    }

    fn leaving_of(&self, handoff: HandoffId) -> Option<SessionId> {
        let offered =
            |session: &SessionId| self.custodian.leaving(*session).is_some_and(|s| s.offer().handoff == handoff);
        self.leaving.keys().copied().find(|session| offered(session))
    }

    pub(crate) fn leaving_need(&mut self, from: DeviceId, handoff: HandoffId, round: u32, of: NeedOf, bitmap: Vec<u8>) {
        let resending = self.resending(handoff);
        let Some(session) = self.leaving_of(handoff).or(resending) else { return };
        let Some(leaving) = self.leaving.get_mut(&session) else { return };
        if leaving.destination != from || leaving.round != Some(round) {
            return;
        }
        leaving.needs += 1;
        if leaving.needs > limits::NEEDS_PER_LIST * 2 {
            return self.end_flooded(session, "the destination asks for the same again and again");
        }
        self.leaving_event(session, LeavingEvent::Need { round, of, bitmap });
    }

    pub(crate) fn leaving_round_complete(&mut self, session: SessionId, round: u32) {
        self.leaving_event(session, LeavingEvent::RoundComplete(round));
    }

    pub(crate) fn leaving_freeze(&mut self, session: SessionId, _to: DeviceId) {
        if let Some(view) = self.moves.get_mut(Story::Going(session)) {
            view.frozen = Some(Instant::now());
        }
        self.leaving_event(session, LeavingEvent::Freeze);
    }

    pub(crate) fn leaving_ack_held(&mut self, session: SessionId, handoff: HandoffId) {
        self.report(Story::Going(session), Phase::Staged, (0, 0), 0, "");
        self.leaving_event(session, LeavingEvent::AckHeld(handoff));
    }

    pub(crate) fn leaving_released(&mut self, session: SessionId) {
        self.report(Story::Going(session), Phase::Released, (0, 0), 0, "");
        self.came_of_take(session, None);
        self.leaving_event(session, LeavingEvent::Released);
        self.raise_fences([session]);
    }

    pub(crate) fn leaving_retired(&mut self, session: SessionId, handoff: HandoffId) {
        let over = self.leaving.get(&session).map(|leaving| leaving.number);
        if let Some(by) = self.custodian.chain(session).and_then(|chain| chain.passed_by(handoff)) {
            self.leaving_passed(session, by);
        } else {
            if let Some(view) = self.moves.get_mut(Story::Going(session))
                && let Some(frozen) = view.frozen
            {
                view.pause_ms = millis(frozen);
            }
            self.report(Story::Going(session), Phase::Committed, (0, 0), 0, "");
            self.leaving_event(session, LeavingEvent::Retired);
        }
        let context = self.context.clone();
        tokio::task::spawn_blocking(move || base::keep_records(&context, session, over));
    }

    /// To whom it was released, where that device is a member no more.
    pub(crate) fn released_to_nobody(&self, session: SessionId) -> Option<String> {
        let to = self.leaving.get(&session)?.destination;
        (!self.peers.is_member(to)).then(|| self.device_name(to))
    }

    /// The session was taken over by force: nobody waits any more for the word of the one that it was released to.
    pub(crate) fn leaving_passed(&mut self, session: SessionId, by: DeviceId) {
        let why = format!("{} took it over by force before its new owner had answered", self.device_name(by));
        self.leaving_event(session, LeavingEvent::Over(Refusal::StaleToken, why));
    }

    pub(crate) fn leaving_link_down(&mut self, device: DeviceId) {
        let all: Vec<SessionId> =
            self.leaving.iter().filter(|(_, leaving)| leaving.destination == device).map(|(id, _)| *id).collect();
        for session in all {
            self.leaving_event(session, LeavingEvent::LinkDown);
        }
    }

    /// Nobody answers there: the offer is withdrawn, with the reason.
    pub(crate) fn cannot_be_reached(&mut self, session: SessionId, device: DeviceId) {
        let (refusal, why) = self.peers.trouble(device);
        self.custodian.cancel(session, refusal, &why);
    }

    /// Whether the session leaves again, by another move than this one.
    pub(crate) fn leaves_again(&self, session: SessionId, over: Option<u64>) -> bool {
        self.leaving.get(&session).is_some_and(|leaving| Some(leaving.number) != over)
    }

    /// The attempt is over and this device still is the owner: the fence comes down.
    pub(crate) fn leaving_over(&mut self, session: SessionId, _handoff: HandoffId, refusal: Refusal, detail: String) {
        self.leaving_event(session, LeavingEvent::Over(refusal, detail));
        let Some(key) = self.key_of(session) else { return };
        self.lift(key);
    }

    /// The native name of a session: from its chain, or from what is leaving.
    pub(crate) fn key_of(&self, session: SessionId) -> Option<SessionKey> {
        use cede_wire::custody::Custody;
        let genesis = self.custodian.chain(session).and_then(cede_core::chain::Chain::genesis);
        match genesis.map(|genesis| genesis.into_parts().0) {
            Some(Custody::Genesis(genesis)) => Some(genesis.key),
            Some(Custody::Release(_) | Custody::Seize(_)) | None => self.leaving.get(&session).map(|l| l.key.clone()),
        }
    }

    fn resending(&self, handoff: HandoffId) -> Option<SessionId> {
        use cede_wire::custody::Custody;
        let released = |session: &SessionId| {
            matches!(self.custodian.chain(*session).map(cede_core::chain::Chain::last),
                Some(Custody::Release(release)) if release.handoff == handoff)
        };
        self.leaving.keys().copied().find(|session| released(session))
    }

    /// A new owner that had lost its payload acts: where it had acted before, the custodian has nothing to say of it.
    pub(crate) fn resend_ended(&mut self, from: DeviceId, word: &Signed<Activated>) {
        let Ok(word) = cede_seal::verify::verify(word) else { return };
        let sent = self.leaving.get(&word.session).is_some_and(|leaving| leaving.resends == Some(word.handoff));
        if sent && word.owner == from {
            self.leaving_event(word.session, LeavingEvent::Retired);
        }
    }

    /// The destination lost the payload after the release: sends the pinned copy.
    pub(crate) fn resend(&mut self, accept: Verified<Accept>) {
        use cede_wire::custody::Custody;
        let found = self.custodian.sessions().map(|(id, _)| id).find(|id| {
            matches!(self.custodian.chain(*id).map(cede_core::chain::Chain::last),
                Some(Custody::Release(release)) if release.handoff == accept.handoff)
        });
        let Some(session) = found else { return };
        if self.leaving.get(&session).is_some_and(|leaving| leaving.resends == Some(accept.handoff)) {
            // The capture under way serves this question too, under its key.
            return self.leaving_event(session, LeavingEvent::Accepted(Box::new(accept)));
        }
        if self.resent.get(&session).is_some_and(|ended| ended.elapsed() < limits::RESEND_PAUSE) {
            return;
        }
        let (Some(key), Some(placed)) = (self.key_of(session), self.placed.get(&session).cloned()) else { return };
        // A client that still waits for the new owner is told where things stand; the sending goes on without it.
        if let Some(waiting) = self.leaving.get(&session).map(|leaving| leaving.number) {
            self.end_leaving(session, waiting, Err(released()));
        }
        let mut movement = self.enlist(session, key.clone(), accept.destination, None);
        if let Some(leaving) = self.leaving.get_mut(&session) {
            leaving.resends = Some(accept.handoff);
        }
        let (context, number) = (self.context.clone(), movement.number);
        let course = tokio::spawn(async move { movement.resend(key, &placed, accept).await });
        tokio::spawn(async move {
            let ended = course.await.unwrap_or_else(|_| Err(offering::stopping(Stopping::Fault)));
            if let Err(failed) = ended {
                tracing::warn!(session = %session.short(), why = failed.why, "the pinned copy was not sent");
            }
            context
                .tell(move |actor| {
                    actor.resent.insert(session, Instant::now());
                    if actor.is_leaving(session, number) {
                        actor.leaving.remove(&session);
                    }
                })
                .await;
        });
    }
}

impl Actor {
    pub(crate) fn count_sent(&mut self, session: SessionId, bytes: u64) {
        if let Some(view) = self.moves.get_mut(Story::Going(session)) {
            view.bytes_sent = bytes;
        }
    }

    pub(crate) fn count_present(&mut self, story: Story, bytes: u64) {
        if let Some(view) = self.moves.get_mut(story) {
            view.bytes_present = bytes;
        }
    }

    /// How a move ended, for the person who asked for it.
    pub(crate) fn move_report(&self, story: Story) -> Result<Answer, Failure> {
        let session = story.session();
        let view = self.moves.get(story).ok_or_else(|| failure(exit::FAILED, "the move is forgotten", "", ""))?;
        let handoff = view.timeline.iter().rev().find_map(|progress| progress.handoff);
        Ok(Answer::Moved(Box::new(MoveReport {
            handoff: handoff.unwrap_or(HandoffId::new([0; 16])),
            session,
            now_at: self.in_charge(session),
            directory: String::new(),
            token: self.custodian.token(session),
            bytes_sent: view.bytes_sent,
            bytes_present: view.bytes_present,
            took_ms: millis(view.started),
            pause_ms: view.pause_ms,
            resume: String::new(),
            timeline: view.timeline.clone(),
            notes: view.notes.clone(),
        })))
    }

    fn not_offered(&self, error: &cede_core::custodian::OfferError) -> Failure {
        use cede_core::custodian::{OfferError, Standing};
        let what = "the session was not offered";
        match error {
            OfferError::NotOwner(standing) => {
                let owner = match standing {
                    Standing::Elsewhere(owner) | Standing::SeizedBy(owner) | Standing::ReleasedTo(owner) => {
                        self.device_name(*owner)
                    }
                    Standing::InCharge
                    | Standing::Arriving
                    | Standing::Leaving(_)
                    | Standing::PayloadMissing
                    | Standing::Unconfirmed => self.name.clone(),
                };
                if let Standing::Arriving | Standing::PayloadMissing = standing {
                    let why = "it is not in its place here yet";
                    let refusal = Some(Refusal::Busy);
                    return Failure {
                        now_at: Some(owner),
                        refusal,
                        ..failure(exit::PENDING, what, why, "cede status")
                    };
                }
                if let Standing::Unconfirmed = standing {
                    let why =
                        "another device says that it released the session to this one, which knows nothing of that";
                    let cure = "cede doctor says which; then cede claim <session>, or if that is not so: cede confirm <session>";
                    let refusal = Some(Refusal::NotOwner);
                    return Failure { refusal, ..failure(exit::NOT_OWNER, what, why, cure) };
                }
                let why = format!("it is not in charge here; its owner is {owner}");
                Failure {
                    now_at: Some(owner),
                    refusal: Some(Refusal::NotOwner),
                    ..failure(exit::NOT_OWNER, what, &why, "cede take <session>")
                }
            }
            OfferError::NoMesh => failure(exit::FAILED, what, "this device is paired with none", "cede pair"),
            OfferError::Busy(_) | OfferError::TooMany | OfferError::ToSelf | OfferError::Bug(_) => {
                failure(exit::FAILED, what, &error.to_string(), "cede status")
            }
        }
    }

    /// Remembers where a session lies here.
    pub(crate) fn place(&mut self, mut placed: PlacedSession) {
        let id = placed.key.id();
        if placed.root.is_none() {
            placed.root = self.placed.get(&id).and_then(|known| known.root);
        }
        if self.placed.get(&id) != Some(&placed) {
            self.context.locate(&placed);
            self.placed.insert(id, placed.clone());
            self.record(Record::Placed(placed));
        }
    }
}
