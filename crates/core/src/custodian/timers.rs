//! One deadline table, read by both ends: what is due is what was announced.

use core::time::Duration;

use cede_wire::id::SessionId;
use cede_wire::refusal::Refusal;

use super::{Custodian, Designate, Role, Session};
use crate::destination::{DestinationPhase, HandoffDestination};
use crate::limits;
use crate::now::Now;
use crate::output::{Event, WakeReason};

impl Custodian {
    /// The next moment at which something is due, and what.
    pub fn poll_timeout(&self) -> Option<(Duration, WakeReason)> {
        let due = self.sessions.values().flat_map(Session::deadlines);
        due.min_by_key(|(at, _)| *at)
    }

    /// Does everything that is due. Nothing is overdue afterwards.
    pub fn handle_timeout(&mut self, now: Now) {
        self.hear(now);
        let due = |s: &Session| s.deadlines().iter().any(|(at, _)| *at <= now.monotonic);
        let ids: Vec<SessionId> = self.sessions.iter().filter(|(_, s)| due(s)).map(|(id, _)| *id).collect();
        for id in ids {
            self.session_timeout(id, now);
        }
    }

    fn session_timeout(&mut self, id: SessionId, now: Now) {
        let votes_late = |s: &Session| s.seizing.as_ref().is_some_and(|seizing| seizing.until <= now.monotonic);
        if self.sessions.get(&id).is_some_and(votes_late) {
            self.give_up_seize(id, Refusal::TimedOut);
        }
        let Some(state) = self.sessions.get_mut(&id) else { return };
        match &mut state.role {
            Role::Released(released) if released.send_at <= now.monotonic => {
                released.wait = (released.wait * 2).min(limits::RELEASE_LONGEST);
                released.send_at = now.after(released.wait);
                released.sent = released.sent.wrapping_add(1);
                let (to, whole) = (released.to, released.sent % limits::RELEASE_WHOLE_EVERY == 0);
                self.send_release(id, to, whole);
            }
            Role::Designate(designate) => {
                let due = designate_due(designate, state.arriving.as_ref()) <= now.monotonic;
                if due {
                    designate.ask_at = now.after(limits::REFETCH);
                    let (handoff, source) = (designate.handoff, designate.source);
                    state.arriving = None;
                    self.tell(Event::Refetch { session: id, handoff, source });
                }
                return;
            }
            Role::Offering { source, .. } if source.deadline() <= now.monotonic => {
                self.abandon(id, Refusal::TimedOut, "no word from the destination in time".to_owned());
            }
            Role::Bystander
            | Role::Owner { .. }
            | Role::Offering { .. }
            | Role::Released(_)
            | Role::Fenced { .. }
            | Role::Unconfirmed(_) => {}
        }
        self.arriving_timeout(id, now);
        if self.sessions.get(&id).and_then(|s| s.asked.as_ref()).is_some_and(|asked| asked.until <= now.monotonic) {
            self.withdraw(id, Refusal::Expired);
        }
    }

    fn arriving_timeout(&mut self, id: SessionId, now: Now) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        let Some(arriving) = &state.arriving else { return };
        let staged = matches!(arriving.phase(), DestinationPhase::Staged { .. });
        if arriving.deadline() <= now.monotonic {
            let (handoff, detail) = (arriving.attempt().handoff, "the payload did not come in time");
            if staged {
                self.discard(id, Refusal::TimedOut);
            } else {
                self.receive_failed(id, handoff, Refusal::TimedOut, detail);
            }
        } else if staged && state.ack_at <= now.monotonic {
            state.ack_wait = (state.ack_wait * 2).min(limits::ACK_LONGEST);
            state.ack_at = now.after(state.ack_wait);
            self.send_ack(id);
        }
    }
}

/// While chunks come the transfer's own deadline counts, else the pause between two requests.
fn designate_due(designate: &Designate, arriving: Option<&HandoffDestination>) -> Duration {
    arriving.filter(|a| a.has_manifest()).map_or(designate.ask_at, HandoffDestination::deadline)
}

impl Session {
    fn deadlines(&self) -> Vec<(Duration, WakeReason)> {
        let mut due = Vec::new();
        if let Some(seizing) = &self.seizing {
            due.push((seizing.until, WakeReason::VotesDeadline));
        }
        match &self.role {
            Role::Released(released) => due.push((released.send_at, WakeReason::ReleaseAgain)),
            Role::Offering { source, .. } => due.push((source.deadline(), WakeReason::AttemptDeadline)),
            Role::Designate(designate) => {
                due.push((designate_due(designate, self.arriving.as_ref()), WakeReason::RefetchAgain));
                return due;
            }
            Role::Bystander | Role::Owner { .. } | Role::Fenced { .. } | Role::Unconfirmed(_) => {}
        }
        if let Some(asked) = &self.asked {
            due.push((asked.until, WakeReason::AttemptDeadline));
        }
        if let Some(arriving) = &self.arriving {
            due.push((arriving.deadline(), WakeReason::AttemptDeadline));
            if matches!(arriving.phase(), DestinationPhase::Staged { .. }) {
                due.push((self.ack_at, WakeReason::AckAgain));
            }
        }
        due
    }
}
