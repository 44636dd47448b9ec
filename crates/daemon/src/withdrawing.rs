//! `cede cancel`: which move a text means, and how each kind of move is withdrawn.

use std::collections::BTreeSet;

use cede_core::custodian::Standing;
use cede_core::destination::DestinationPhase;
use cede_wire::control::{Answer, Failure, exit};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;

use crate::actor::Actor;
use crate::moves::MoveView;
use crate::offering::failure;
use crate::sessions;

impl Actor {
    /// Withdraws the move that a text means: what leaves until it is decided, what comes until it is staged, and a take
    /// until it is answered.
    pub(crate) fn cancel(&mut self, text: &str) -> Result<Answer, Failure> {
        let told = self.moves.under_way().map(|(story, _)| story.session());
        let mut under_way: BTreeSet<SessionId> = told.chain(self.leaving.keys().copied()).collect();
        under_way.extend(self.custodian.sessions().map(|(id, _)| id).filter(|id| self.received_now(*id).is_some()));
        let fitting: Vec<SessionId> = under_way.into_iter().filter(|id| self.is_move_of(*id, text)).collect();
        let state = match fitting.as_slice() {
            [one] => self.withdraw_move(*one)?,
            [] => return Err(self.none_withdrawn()),
            several => return Err(self.unclear_move(several)),
        };
        Ok(Answer::Said { text: format!("cancelled; the session is {state}") })
    }

    /// Whether a text names the move of this session: the beginning of an id, its title or its directory.
    fn is_move_of(&self, session: SessionId, text: &str) -> bool {
        let handoff = self.handoff_of(session).map(|handoff| handoff.to_string());
        let placed = self.placed.get(&session);
        let begins = |id: &str| id.starts_with(text);
        let called = self.views_of(session).any(|view| view.title == text);
        let lies = |placed: &cede_wire::record::PlacedSession| {
            placed.title == text
                || begins(placed.key.native.as_str())
                || sessions::path_of(&placed.directory).to_str() == Some(text)
        };
        !text.is_empty()
            && (begins(&session.to_string())
                || handoff.is_some_and(|id| begins(&id))
                || called
                || placed.is_some_and(lies))
    }

    fn handoff_of(&self, session: SessionId) -> Option<HandoffId> {
        let leaving = self.custodian.leaving(session).map(|source| source.offer().handoff);
        leaving.or_else(|| self.custodian.arriving(session).map(|arriving| arriving.attempt().handoff))
    }

    /// The attempt whose payload comes here, and can still be withdrawn.
    fn received_now(&self, session: SessionId) -> Option<HandoffId> {
        let arriving = self.custodian.arriving(session)?;
        let receiving = matches!(arriving.phase(), DestinationPhase::Receiving { .. });
        (receiving && !self.is_here(session)).then(|| arriving.attempt().handoff)
    }

    /// The owner of what this device has said to hold: from then on that one decides.
    fn staged_from(&self, session: SessionId) -> Option<DeviceId> {
        let arriving = self.custodian.arriving(session)?;
        let staged = matches!(arriving.phase(), DestinationPhase::Staged { .. });
        staged.then(|| arriving.attempt().source)
    }

    /// Where the session is then.
    fn withdraw_move(&mut self, session: SessionId) -> Result<String, Failure> {
        let came = matches!(
            self.custodian.standing(session),
            Some(Standing::InCharge | Standing::Arriving | Standing::PayloadMissing)
        );
        let decided = came || self.leaving.contains_key(&session);
        if self.withdraw_going(session, "it was withdrawn here") {
            return Ok(self.state_of(session));
        }
        if let Some(handoff) = self.received_now(session) {
            let detail = "it was withdrawn at the destination";
            self.custodian.receive_failed(session, handoff, Refusal::Cancelled, detail);
        } else if let Some(source) = self.staged_from(session) {
            self.withdraw_take(session);
            let (owner, id) = (self.device_name(source), session.short());
            let why = format!("it is staged here, so {owner} decides, and may have; what came of it: cede status");
            return Err(failure(exit::PENDING, NOT_CANCELLED, &why, &format!("there: cede cancel {id}")));
        } else if !came && self.takes.is_asked_for(session) {
            // Nothing else here may know who has it.
            let owner = self.in_charge(session);
            self.end_arriving(session, Refusal::Cancelled, "it was withdrawn here");
            return Ok(format!("at {owner}"));
        } else if decided {
            let why = format!("the decision is made: {}", self.state_of(session));
            return Err(failure(exit::NOT_OWNER, NOT_CANCELLED, &why, "cede status"));
        } else {
            return Err(self.none_withdrawn());
        }
        Ok(self.state_of(session))
    }

    /// Withdraws a move from here that is not decided. False: there is none.
    pub(crate) fn withdraw_going(&mut self, session: SessionId, detail: &str) -> bool {
        if self.custodian.leaving(session).is_some() {
            self.custodian.cancel(session, Refusal::Cancelled, detail);
            return true;
        }
        let undecided = self.custodian.standing(session).is_none_or(|standing| standing == Standing::InCharge);
        let waits = undecided && self.leaving.contains_key(&session);
        if waits {
            // It has not been offered yet: its task sees that nobody waits for it.
            self.withdraw_leaving(session);
        }
        waits
    }

    /// What was asked of an owner is wanted no more.
    pub(crate) fn withdraw_take(&mut self, session: SessionId) {
        if let Some((owner, request)) = self.takes.done(session) {
            self.takes.withdrawn(owner, request);
            self.send(owner, withdrawal(request));
        }
    }

    /// An owner that was not heard when it was told, or is answering a question of an earlier run of this device, hands over
    /// what nobody waits for.
    pub(crate) fn refuse_what_is_not_asked_for(&mut self, owner: DeviceId, request: u64, handoff: HandoffId) {
        // Where this device asks again it may be the answer to that.
        if self.takes.asks(owner) && !self.takes.was_withdrawn(owner, request) {
            return;
        }
        self.send(owner, withdrawal(request));
        let comes = |id: &SessionId| self.received_now(*id) == Some(handoff);
        let coming = self.custodian.sessions().map(|(id, _)| id).find(comes);
        if let Some(session) = coming {
            self.custodian.receive_failed(session, handoff, Refusal::Cancelled, "nobody asks for it any more");
        }
    }

    fn views_of(&self, session: SessionId) -> impl Iterator<Item = &MoveView> {
        self.moves.under_way().filter(move |(story, _)| story.session() == session).map(|(_, view)| view)
    }

    fn none_withdrawn(&self) -> Failure {
        let cure =
            if self.approvals.is_empty() { "cede status" } else { "for a question that waits here: cede deny <id>" };
        failure(exit::FAILED, NOT_CANCELLED, "no move that could still be withdrawn fits", cure)
    }

    fn unclear_move(&self, several: &[SessionId]) -> Failure {
        let named = |session: &SessionId| {
            let title =
                self.views_of(*session).next().map(|view| format!(" ({}, {} to {})", view.title, view.from, view.to));
            format!("{}{}", session.short(), title.unwrap_or_default())
        };
        let why = format!("several moves fit: {}", several.iter().map(named).collect::<Vec<_>>().join(", "));
        let cure = match self.approvals.is_empty() {
            true => "cede cancel <id>",
            false => "cede cancel <id>; for a question that waits here: cede deny <id>",
        };
        failure(exit::USAGE, "it is not clear which move is meant", &why, cure)
    }
}

const NOT_CANCELLED: &str = "nothing was cancelled";

/// What tells an owner that a question is taken back.
pub(crate) fn withdrawal(request: u64) -> PeerMessage {
    let answer = Err((Refusal::Cancelled, "it was withdrawn by the device that asked".to_owned()));
    PeerMessage::TakeAnswer { request, answer }
}
