//! Every moment that a custodian remembers, told from another zero.

use core::time::Duration;

use super::{Custodian, Role, Session};

impl Custodian {
    /// Moves every moment so that the latest one heard becomes `now`; what is overdue becomes due. Custodians that differ by
    /// the hour alone are alike afterwards, so that a checker of all their states comes to an end.
    pub fn rebase(&mut self, now: Duration) {
        let clock = core::mem::replace(&mut self.clock, now);
        let mut moved = |moment: &mut Duration| *moment = now.saturating_add(moment.saturating_sub(clock));
        self.sessions.values_mut().for_each(|session| session.each_moment(&mut moved));
    }
}

impl Session {
    fn each_moment(&mut self, visit: &mut impl FnMut(&mut Duration)) {
        visit(&mut self.ack_at);
        self.role.each_moment(visit);
        if let Some(asked) = &mut self.asked {
            visit(&mut asked.until);
        }
        if let Some(arriving) = &mut self.arriving {
            visit(arriving.deadline_mut());
        }
        if let Some(seizing) = &mut self.seizing {
            visit(&mut seizing.until);
        }
    }
}

impl Role {
    fn each_moment(&mut self, visit: &mut impl FnMut(&mut Duration)) {
        match self {
            Self::Offering { source, .. } => source.each_moment(visit),
            Self::Released(released) => visit(&mut released.send_at),
            Self::Designate(designate) => visit(&mut designate.ask_at),
            Self::Unconfirmed(says) => says.each_moment(visit),
            Self::Bystander | Self::Owner { .. } | Self::Fenced { .. } => {}
        }
    }
}
