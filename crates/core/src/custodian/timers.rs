//! One deadline table, read by both ends: what is due is what was announced.

use core::time::Duration;

use cede_wire::id::SessionId;
use cede_wire::refusal::Refusal;

use super::{Custodian, Role, Session};
use crate::destination::DestinationPhase;
use crate::limits;
use crate::now::Now;
use crate::output::WakeReason;

impl Custodian {
    /// The next moment at which something is due, and what.
    pub fn poll_timeout(&self) -> Option<(Duration, WakeReason)> {
        let due = self.sessions.values().flat_map(Session::deadlines);
        due.min_by_key(|(at, _)| *at)
    }

    /// Does everything that is due. Nothing is overdue afterwards.
    pub fn handle_timeout(&mut self, now: Now) {
        let due = |s: &Session| s.deadlines().iter().any(|(at, _)| *at <= now.monotonic);
        let ids: Vec<SessionId> = self.sessions.iter().filter(|(_, s)| due(s)).map(|(id, _)| *id).collect();
        for id in ids {
            self.session_timeout(id, now);
        }
    }

    fn session_timeout(&mut self, id: SessionId, now: Now) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        match &mut state.role {
            Role::Released(released) if released.send_at <= now.monotonic => {
                released.wait = (released.wait * 2).min(limits::RELEASE_LONGEST);
                released.send_at = now.after(released.wait);
                let to = released.to;
                self.send_release(id, to);
            }
            Role::Offering { source, .. } if source.deadline() <= now.monotonic => {
                self.abandon(id, Refusal::TimedOut, "no word from the destination in time".to_owned());
            }
            Role::Bystander
            | Role::Owner { .. }
            | Role::Offering { .. }
            | Role::Released(_)
            | Role::Designate(_)
            | Role::Fenced
            | Role::Unconfirmed => {}
        }
        self.arriving_timeout(id, now);
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
            state.ack_at = now.after(limits::ACK_REPEAT);
            self.send_ack(id);
        }
    }
}

impl Session {
    fn deadlines(&self) -> Vec<(Duration, WakeReason)> {
        let mut due = Vec::new();
        match &self.role {
            Role::Released(released) => due.push((released.send_at, WakeReason::ReleaseAgain)),
            Role::Offering { source, .. } => due.push((source.deadline(), WakeReason::AttemptDeadline)),
            Role::Bystander | Role::Owner { .. } | Role::Designate(_) | Role::Fenced | Role::Unconfirmed => {}
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
