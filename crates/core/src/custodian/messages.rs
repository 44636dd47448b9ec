//! What peers say, and links that come and go.

use cede_seal::verify::{Verified, verify};
use cede_wire::canonical::{Signable, Signed};
use cede_wire::id::DeviceId;
use cede_wire::message::{HandoffStatus, PeerMessage};
use cede_wire::refusal::Refusal;

use super::votes::Asks;
use super::{Custodian, Role};
use crate::destination::DestinationPhase;
use crate::limits;
use crate::now::Now;
use crate::output::Event;
use crate::source::SourcePhase;

impl Custodian {
    /// A message came over the link of `from`, whose key the link proved. Messages of the transfer, of sessions lists
    /// and of membership are the daemon's.
    pub fn handle_message(&mut self, from: DeviceId, message: &PeerMessage, now: Now) {
        self.hear(now);
        match message {
            PeerMessage::Offer { offer, chain } => self.handle_offer(from, offer, chain, now),
            PeerMessage::Accept(accept) => self.handle_accept(from, accept, now),
            PeerMessage::Refuse { handoff, refusal, detail } => self.handle_refuse(from, *handoff, *refusal, detail),
            PeerMessage::Manifest(manifest) => self.handle_manifest(from, manifest, now),
            PeerMessage::RoundComplete { handoff, round } => {
                if let Some(session) = self.leaving_as(*handoff, from) {
                    self.touch(session, now);
                    self.tell(Event::RoundComplete { session, handoff: *handoff, round: *round });
                }
            }
            PeerMessage::Need { handoff, .. } => {
                if let Some(session) = self.leaving_as(*handoff, from) {
                    self.touch(session, now);
                }
            }
            PeerMessage::CommitAck(ack) => self.handle_commit_ack(from, ack, now),
            PeerMessage::Release { certificate, chain } => self.handle_release(from, certificate, chain),
            PeerMessage::Activated(activated) => self.handle_activated(from, activated),
            PeerMessage::Abort { handoff, refusal } => self.handle_abort(from, *handoff, *refusal),
            PeerMessage::Status { handoff, session } => self.handle_status(from, *handoff, *session),
            PeerMessage::StatusAnswer { handoff, status, .. } => self.handle_status_answer(from, *handoff, status, now),
            PeerMessage::ReleaseQuery { handoff, session } => self.handle_release_query(from, *handoff, *session),
            PeerMessage::Refetch(accept) => self.handle_refetch(from, accept),
            PeerMessage::SeizeQuery { session, generation, members, chain } => {
                let asks = Asks { session: *session, generation: *generation, members: *members, chain };
                self.handle_seize_query(from, &asks);
            }
            PeerMessage::SeizeAnswer { session, generation, answer } => {
                self.handle_seize_answer(from, *session, *generation, answer);
            }
            PeerMessage::CustodyQuery(asked) => self.handle_custody_query(from, asked),
            PeerMessage::Custody(links) => self.handle_custody(from, links),
            PeerMessage::CustodyAnswer(known) => self.handle_custody_answer(from, known),
            PeerMessage::Hello(_)
            | PeerMessage::Members(_)
            | PeerMessage::Take { .. }
            | PeerMessage::TakeAnswer { .. }
            | PeerMessage::SessionsQuery
            | PeerMessage::Sessions(_)
            | PeerMessage::Letters(_)
            | PeerMessage::LetterReceipts(_)
            | PeerMessage::ReceiptsHeld(_)
            | PeerMessage::Audit(_)
            | PeerMessage::Approver(_)
            | PeerMessage::Transfer(_)
            | PeerMessage::Terminal(_)
            | PeerMessage::TaskProgress { .. } => {}
        }
    }

    fn handle_status_answer(
        &mut self,
        from: DeviceId,
        handoff: cede_wire::id::HandoffId,
        status: &HandoffStatus,
        now: Now,
    ) {
        match status {
            HandoffStatus::Staged(ack) => self.handle_commit_ack(from, ack, now),
            HandoffStatus::Active(activated) => self.handle_activated(from, activated),
            HandoffStatus::Unknown | HandoffStatus::Discarded => {
                if let Some(session) = self.leaving_as(handoff, from) {
                    self.abandon(
                        session,
                        Refusal::Cancelled,
                        "the destination no longer knows this attempt".to_owned(),
                    );
                }
            }
            HandoffStatus::Receiving => {}
        }
    }

    /// Verifies what `from` signed. Anything else is a fault of that peer, whoever else may have signed it.
    pub(super) fn check<T: Signable>(&mut self, from: DeviceId, signed: &Signed<T>) -> Option<Verified<T>> {
        match verify(signed) {
            Ok(verified) if verified.signer() == from => Some(verified),
            Ok(_) => {
                self.tell(Event::PeerFault { device: from, what: format!("a {} of another device", T::DOMAIN) });
                None
            }
            Err(error) => {
                self.tell(Event::PeerFault { device: from, what: format!("{}: {error}", T::DOMAIN) });
                None
            }
        }
    }

    /// A link to a member is up: everything that waits for it is said again.
    pub fn link_up(&mut self, device: DeviceId, now: Now) {
        self.hear(now);
        self.links.insert(device);
        let ids: Vec<_> = self.sessions.keys().copied().collect();
        for id in ids {
            self.repeat_to(id, device, now);
            self.ask_vote(id, device);
        }
        self.ask_custody(device);
    }

    fn repeat_to(&mut self, id: cede_wire::id::SessionId, device: DeviceId, now: Now) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        match &mut state.role {
            Role::Released(released) if released.to == device => {
                released.send_at = now.monotonic;
                // The session may be on its way back already, so the attempt that arrives is looked at too.
                self.handle_timeout(now);
            }
            Role::Designate(designate) if designate.source == device => {
                designate.ask_at = now.after(limits::REFETCH);
                let (handoff, source) = (designate.handoff, designate.source);
                self.tell(Event::Refetch { session: id, handoff, source });
                return;
            }
            Role::Offering { source, .. } if source.offer().destination == device => {
                let (handoff, offered) = (source.offer().handoff, *source.phase() == SourcePhase::Offered);
                if offered {
                    // A fault here is one of ours; the attempt then ends by its deadline.
                    let _ = self.send_offer(id);
                } else {
                    self.send(device, PeerMessage::Status { handoff, session: id });
                }
                return;
            }
            Role::Bystander
            | Role::Owner { .. }
            | Role::Offering { .. }
            | Role::Released(_)
            | Role::Designate(_)
            | Role::Fenced { .. }
            | Role::Unconfirmed(_) => {}
        }
        let Some(arriving) = self.sessions.get(&id).and_then(|state| state.arriving.as_ref()) else { return };
        let attempt = arriving.attempt();
        if attempt.source != device {
            return;
        }
        match arriving.phase() {
            DestinationPhase::Receiving { .. } => {
                self.tell(Event::Reaccept { session: id, handoff: attempt.handoff });
            }
            DestinationPhase::Staged { .. } => {
                self.send_ack(id);
                self.send(device, PeerMessage::ReleaseQuery { handoff: attempt.handoff, session: id });
            }
        }
    }

    /// A link is gone. Nothing is decided by that.
    pub fn link_down(&mut self, device: DeviceId) {
        self.links.remove(&device);
        self.told.remove(&device);
        self.asked.remove(&device);
        self.learned.remove(&device);
    }
}
