//! What the custodian wants done.

use core::time::Duration;

use cede_seal::verify::Verified;
use cede_wire::custody::{FencingToken, Head};
use cede_wire::handoff::{Accept, Manifest, Offer};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::{Doubt, Record};
use cede_wire::refusal::Refusal;

/// One thing to do. Contract: one input, then drain in order; nothing after a `Persist` leaves the machine until that
/// batch is durable. Source: SPEC J-1.
#[derive(Debug, Clone)]
pub enum Output {
    /// Make these durable, all or none.
    Persist(Vec<Record>),
    /// Say this to a peer. A peer without a link is dialled; the message may be lost.
    Send(DeviceId, Box<PeerMessage>),
    /// The hands' work, or news for people.
    Tell(Event),
    /// Call `handle_timeout` at this moment.
    Wake(Duration, WakeReason),
}

/// Why the custodian wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// An attempt has been silent for too long.
    AttemptDeadline,
    /// The release is to be sent again.
    ReleaseAgain,
    /// The acknowledgement is to be sent again.
    AckAgain,
    /// The payload of a designate is to be asked for again.
    RefetchAgain,
    /// The votes of a seize have been waited for long enough.
    VotesDeadline,
}

/// What happened, for the hands and for people.
#[derive(Debug, Clone)]
pub enum Event {
    /// Destination: an offer that verifies waits for the operator.
    AskOperator(Box<Verified<Offer>>),
    /// Destination: the question is moot.
    Withdrawn {
        /// The attempt.
        handoff: HandoffId,
        /// Why.
        refusal: Refusal,
    },
    /// Destination: make a fresh exchange key and call `reaccept`.
    Reaccept {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
    },
    /// Destination: fetch what is missing of this round.
    Fetch(Box<Verified<Manifest>>),
    /// Destination: forget the payload of this attempt.
    Discard {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// Why.
        refusal: Refusal,
    },
    /// Destination: in charge; put the session in its place, then call `installed`.
    Activate {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// From whom it came.
        source: DeviceId,
        /// The token.
        token: FencingToken,
    },
    /// Destination: in charge, but the payload is not here; make a fresh exchange key and call `refetch`.
    Refetch {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// Who has it.
        source: DeviceId,
    },
    /// Source: the destination said yes; send the rounds sealed for this accept.
    Accepted(Box<Verified<Accept>>),
    /// Source: the round arrived whole.
    RoundComplete {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// The round.
        round: u32,
    },
    /// Source, S2: the record is durable; raise the fence, capture, and call `advance`.
    Freeze {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// Who is to be the owner.
        to: DeviceId,
    },
    /// Source, S3: the acknowledgement is here; look at the session once more and call `decide`.
    AckHeld {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
    },
    /// Source, S4: the decision is durable. The session is another device's from now on. Told again after a restart in
    /// S4: the hands may not have finished.
    Released {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// The new owner.
        to: DeviceId,
        /// Its token.
        token: FencingToken,
    },
    /// Source, S0 again: the attempt is over and this device is the owner; lift the fence and call `fence_lifted`.
    StillOwner {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
        /// Why.
        refusal: Refusal,
        /// For people.
        detail: String,
    },
    /// Source, S5: the new owner acts.
    Retired {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
    },
    /// Source, S4: the destination lost the payload; send the pinned copy sealed for this accept.
    Resend(Box<Verified<Accept>>),
    /// S6: another device seized the session. Raise the fence, keep aside what this device had, and call `branched`. Told
    /// again after a restart until that was done.
    Seized {
        /// The session.
        session: SessionId,
        /// The new owner.
        by: DeviceId,
        /// Its token.
        token: FencingToken,
        /// The turns that it has.
        head: Head,
    },
    /// S6: the attempt that was under way is over, and this device is not the owner any more; `Seized` follows.
    OfferLost {
        /// The session.
        session: SessionId,
        /// The attempt.
        handoff: HandoffId,
    },
    /// This device seized the session: it is in charge. Where a payload was staged, `Activate` follows; else what lies
    /// here is what it goes on with, and the fence over it comes down: `fences_to_lift` names it until `fence_lifted`.
    SeizedHere {
        /// The session.
        session: SessionId,
        /// From whom.
        from: DeviceId,
        /// The token.
        token: FencingToken,
        /// The turns that it goes on with.
        head: Head,
        /// The payload that it goes on with, where one was staged.
        staged: Option<HandoffId>,
    },
    /// The seize came to nothing. Nothing changed but this device's vote.
    NotSeized {
        /// The session.
        session: SessionId,
        /// Why.
        refusal: Refusal,
        /// For people: every device with its answer.
        answers: Vec<(DeviceId, Refusal, String)>,
        /// Devices that did not answer in time.
        silent: Vec<DeviceId>,
    },
    /// S7: two devices hold certificates of one generation. Nothing acts here until one of them seizes again.
    Contested {
        /// The session.
        session: SessionId,
        /// The other one.
        by: DeviceId,
    },
    /// S7: a peer showed a record that this device signed and does not know. Nothing acts until somebody confirms.
    Doubted(Doubt),
    /// S7 is over: the records are the newest, a person or every other device says.
    Confirmed {
        /// Of which session; none means all.
        session: Option<SessionId>,
    },
    /// A peer broke a rule; its link is to be closed.
    PeerFault {
        /// The peer.
        device: DeviceId,
        /// The rule, for the log.
        what: String,
    },
}
