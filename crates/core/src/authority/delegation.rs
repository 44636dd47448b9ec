//! A task that a peer asks this device to do. Source: SPEC U-4.

use cede_wire::authority::{Locality, Subject, SubjectTooLong};
use cede_wire::id::{DeviceId, Hash, SessionId};
use cede_wire::member::Capability;

use super::{
    CapabilityRefusal, ConnectedPeer, ConnectionAuthority, DecidedBy, PeerMemory, Permit, Request, RequestId, Swapped,
};
use crate::now::Now;

/// What is read of a peer's delegation. Whatever else it says, permissions, tools, an origin, is not here: it has no
/// effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// Which request.
    pub request: RequestId,
    /// Which of the peer's sessions asks, as its device says; none where a person does.
    pub session: Option<SessionId>,
    /// What to do, in the peer's words.
    pub task: String,
    /// What it may do and where: our names, each with what is done.
    pub scope: Vec<(String, String)>,
    /// The hash of the whole request, so that the yes is for nothing else.
    pub digest: Option<Hash>,
}

impl Delegation {
    /// What the operator is shown: the task, whole, who wants it, and what it may do.
    ///
    /// # Errors
    /// [`SubjectTooLong`].
    pub fn subject(&self) -> Result<Subject, SubjectTooLong> {
        let mut subject = Subject::new(&self.task)?;
        if let Some(session) = self.session {
            subject = subject.with("for session", &session.to_string())?;
        }
        for (name, value) in &self.scope {
            subject = subject.with(name, value)?;
        }
        Ok(self.digest.map_or(subject.clone(), |digest| subject.bound_to(digest)))
    }

    pub(super) fn turn_of(&self, peer: ConnectedPeer) -> PeerTurn {
        let session = peer.session.or(self.session);
        let driver = session.map_or_else(|| peer.device.to_string(), |session| session.to_string());
        PeerTurn {
            task: self.task.clone(),
            driver: format!("peer:{driver}"),
            message: self.request,
            reply_to: ReplyTo { device: peer.device, session },
            locality: peer.locality,
        }
    }
}

/// Where an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    /// The device, as its connection proved it.
    pub device: DeviceId,
    /// Its session, where one asked.
    pub session: Option<SessionId>,
}

/// A turn that a peer caused. It runs under the ordinary rules of the session that takes it; it is not the owner's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerTurn {
    /// The input.
    pub task: String,
    /// To whom it is attributed: `peer:` and the session that asked, or the device.
    pub driver: String,
    /// The request that it answers.
    pub message: RequestId,
    /// Where the answer goes.
    pub reply_to: ReplyTo,
    /// Where the peer is.
    pub locality: Locality,
}

impl ConnectionAuthority {
    /// A peer delegates a task. The operator is asked every time and shown the task; what is longer than can be shown is
    /// declined.
    pub fn authorize_delegation(&mut self, memory: &mut PeerMemory, delegation: &Delegation, aborted: bool, now: Now) {
        match delegation.subject() {
            Ok(subject) => {
                let request = Request::new(delegation.request, Capability::Delegate).about(subject).aborted(aborted);
                self.authorize(memory, request, now);
            }
            Err(SubjectTooLong) => {
                let why = (CapabilityRefusal::Declined, DecidedBy::Size);
                self.refuse(Capability::Delegate, delegation.request, why, None);
            }
        }
    }
}

impl Permit {
    /// Turns an allowed delegation into the turn that it is.
    ///
    /// # Errors
    /// [`Swapped`] where the task is not the one that was shown, or the permit is for something else. The permit is gone.
    pub fn into_turn(self, delegation: &Delegation) -> Result<PeerTurn, Swapped> {
        let subject = delegation.subject().map_err(|_| Swapped)?;
        let shown = self.spend(&subject)?;
        if shown.capability != Capability::Delegate {
            return Err(Swapped);
        }
        let peer = ConnectedPeer { device: shown.device, session: shown.session, locality: shown.locality };
        Ok(delegation.turn_of(peer))
    }
}
