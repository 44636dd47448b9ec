//! The owner's side of one handoff: S1 to S4 of the state table.
//!
//! The source keeps its authority in every phase but `committed`, and only [`HandoffSource::commit`] leads
//! there: it wants the destination's verified word that everything is durable, and this device's own word that
//! nothing changed meanwhile.

use core::time::Duration;

use cede_seal::device::LocalDevice;
use cede_seal::verify::Verified;
use cede_wire::canonical::Signed;
use cede_wire::custody::{Custody, Head, Release};
use cede_wire::handoff::{Accept, CommitAck, Manifest, Offer, Scope, Workspace};
use cede_wire::id::{DeviceId, HandoffId, Hash};
use cede_wire::refusal::Refusal;
use cede_wire::session::{Activity, Requirement};

use crate::chain::Chain;
use crate::limits;
use crate::now::Now;

/// The source's phases, with the words of the design. Source: SPEC H-12.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourcePhase {
    /// S1: offered, not answered.
    Offered,
    /// S1: accepted; rounds travel while the session may work.
    Transferring,
    /// S2: frozen; the last delta travels.
    Frozen,
    /// S4: released. Consumed the acknowledgement.
    Committed,
    /// Back in S0. The attempt is dead for ever.
    Abandoned(Refusal),
}

/// This device's own word at the moment of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quiet {
    /// The end of the turn log now.
    pub head: Head,
    /// Whether a model or tool call is in flight.
    pub in_flight: bool,
}

/// What the caller knows of a session that it wants to hand over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferTerms {
    /// The turns so far.
    pub head: Head,
    /// The title.
    pub title: String,
    /// What the destination needs.
    pub requirement: Requirement,
    /// Carry even where the agent is missing.
    pub carry_only: bool,
    /// Where the work lies.
    pub workspace: Workspace,
    /// What is to be approved.
    pub scope: Scope,
}

/// What one round of the transfer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The turns in it.
    pub head: Head,
    /// Hash of the catalog.
    pub root: Hash,
    /// The catalog's chunks.
    pub catalog: Vec<cede_wire::catalog::ChunkRef>,
    /// Bytes of content.
    pub payload_bytes: u64,
    /// X25519 public key for the present accept.
    pub exchange_key: [u8; 32],
}

/// Why a step was refused. The phase is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// Not a step of this phase.
    #[error("not a step of this phase: {0:?}")]
    Phase(SourcePhase),
    /// It names another handoff, device, token, head or root.
    #[error("does not match this handoff: {0}")]
    Mismatch(&'static str),
    /// The session changed, or a call is in flight.
    #[error("session changed since the last round")]
    NotQuiet,
    /// More rounds than the limit.
    #[error("too many rounds")]
    TooManyRounds,
    /// A counter is exhausted or the signer is another: a fault of ours.
    #[error("fault of ours: {0}")]
    Bug(&'static str),
}

/// How a handoff ended, as the source knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Under way.
    Open,
    /// Released to the destination.
    Committed,
    /// Given up; the source is the owner.
    Abandoned(Refusal),
}

/// Says whether a session may be offered now. Source: SPEC H-4.
///
/// # Errors
/// `in-flight-work` while a model or tool call runs. Nothing was serialized and no channel opened.
pub fn assess_readiness(activity: &Activity) -> Result<(), Refusal> {
    match activity {
        Activity::Busy { .. } => Err(Refusal::InFlightWork),
        Activity::Idle { .. } | Activity::Open { .. } | Activity::Interrupted { .. } => Ok(()),
    }
}

/// One handoff, on the owner's side.
#[derive(Debug, Clone)]
pub struct HandoffSource {
    offer: Offer,
    phase: SourcePhase,
    rounds: u32,
    last: Option<(Head, Hash)>,
    deadline: Duration,
    frozen_until: Duration,
}

impl HandoffSource {
    /// Prepares the offer of one attempt. The caller checked readiness; `handoff` is random and new.
    pub fn prepare_offer(
        me: DeviceId,
        destination: DeviceId,
        handoff: HandoffId,
        chain: &Chain,
        terms: OfferTerms,
        now: Now,
    ) -> Result<Self, StepError> {
        let Some(Custody::Genesis(genesis)) = chain.genesis().map(|g| (*g).clone()) else {
            return Err(StepError::Bug("a chain without its genesis"));
        };
        let offer = Offer {
            mesh: chain.mesh(),
            handoff,
            key: genesis.key,
            source: me,
            destination,
            token: chain.token(),
            head: terms.head,
            title: terms.title,
            requirement: terms.requirement,
            carry_only: terms.carry_only,
            workspace: terms.workspace,
            scope: terms.scope,
            offered_at_unix_ms: now.unix_ms,
        };
        let deadline = now.after(limits::OFFER);
        Ok(Self { offer, phase: SourcePhase::Offered, rounds: 0, last: None, deadline, frozen_until: Duration::MAX })
    }

    /// The destination said yes: chunks may travel from now on. A later accept of the same attempt (after a
    /// reconnect) begins the transfer anew.
    ///
    /// # Errors
    /// [`StepError`]; the phase is unchanged.
    pub fn begin(&mut self, accept: &Verified<Accept>, now: Now) -> Result<(), StepError> {
        self.check_party(accept.handoff, accept.source, accept.destination)?;
        if accept.scope != self.offer.scope.digest() {
            return Err(StepError::Mismatch("scope"));
        }
        match self.phase {
            SourcePhase::Offered | SourcePhase::Transferring => {
                self.become_transferring(now);
                Ok(())
            }
            SourcePhase::Frozen => {
                self.touch(now);
                Ok(())
            }
            SourcePhase::Committed | SourcePhase::Abandoned(_) => Err(self.wrong_phase()),
        }
    }

    /// S1 to S2: new turns wait from now on.
    ///
    /// # Errors
    /// [`StepError`]; the phase is unchanged.
    pub fn freeze(&mut self, now: Now) -> Result<(), StepError> {
        match self.phase {
            SourcePhase::Transferring => {
                self.phase = SourcePhase::Frozen;
                self.frozen_until = now.after(limits::FREEZE_LONGEST);
                self.touch(now);
                Ok(())
            }
            SourcePhase::Frozen => Ok(()),
            SourcePhase::Offered | SourcePhase::Committed | SourcePhase::Abandoned(_) => Err(self.wrong_phase()),
        }
    }

    /// Advances to the next round. In S2 the round is the last one, and what is committed.
    ///
    /// # Errors
    /// [`StepError`]; the phase is unchanged.
    pub fn advance(&mut self, round: Round, now: Now) -> Result<Manifest, StepError> {
        let last = match self.phase {
            SourcePhase::Transferring => false,
            SourcePhase::Frozen => true,
            SourcePhase::Offered | SourcePhase::Committed | SourcePhase::Abandoned(_) => return Err(self.wrong_phase()),
        };
        if self.rounds >= limits_rounds() {
            return Err(StepError::TooManyRounds);
        }
        let manifest = self.manifest(round, last);
        if last {
            self.last = Some((manifest.head, manifest.root));
        }
        self.rounds += 1;
        self.touch(now);
        Ok(manifest)
    }

    fn manifest(&self, round: Round, last: bool) -> Manifest {
        Manifest {
            mesh: self.offer.mesh,
            handoff: self.offer.handoff,
            session: self.offer.key.id(),
            source: self.offer.source,
            destination: self.offer.destination,
            token: self.offer.token,
            round: self.rounds,
            last,
            head: round.head,
            root: round.root,
            catalog: round.catalog,
            payload_bytes: round.payload_bytes,
            exchange_key: round.exchange_key,
        }
    }

    /// S2 through S3 to S4: the decision. The returned certificate must be durable before it leaves. Source:
    /// SPEC H-6.
    ///
    /// # Errors
    /// [`StepError`]; the source is still the owner and still frozen.
    pub fn commit(
        &mut self,
        local: &LocalDevice,
        chain: &Chain,
        ack: &Verified<CommitAck>,
        quiet: Quiet,
        members: u64,
    ) -> Result<Signed<Custody>, StepError> {
        self.acknowledged(ack)?;
        let (head, root) = self.last.ok_or(StepError::Mismatch("round"))?;
        if quiet.in_flight || quiet.head != head {
            return Err(StepError::NotQuiet);
        }
        if chain.owner() != self.offer.source || chain.token() != self.offer.token {
            return Err(StepError::Mismatch("token"));
        }
        let release = self.release(chain, head, root, members.max(chain.members()))?;
        let certificate = local.sign(&Custody::Release(release)).map_err(|_| StepError::Bug("foreign signer"))?;
        self.phase = SourcePhase::Committed;
        Ok(certificate)
    }

    /// S3: says whether this is the acknowledgement of the last round. Source: SPEC H-6.
    ///
    /// # Errors
    /// [`StepError`]; the phase is unchanged.
    pub fn acknowledged(&self, ack: &CommitAck) -> Result<(), StepError> {
        if self.phase != SourcePhase::Frozen {
            return Err(self.wrong_phase());
        }
        self.check_party(ack.handoff, ack.source, ack.destination)?;
        let (head, root) = self.last.ok_or(StepError::Mismatch("round"))?;
        let bound = [
            (ack.session == self.offer.key.id(), "session"),
            (ack.token == self.offer.token, "token"),
            (ack.head == head, "head"),
            (ack.root == root, "root"),
        ];
        bound.iter().find(|(same, _)| !same).map_or(Ok(()), |(_, what)| Err(StepError::Mismatch(what)))
    }

    fn check_party(&self, handoff: HandoffId, source: DeviceId, destination: DeviceId) -> Result<(), StepError> {
        let bound = [
            (handoff == self.offer.handoff, "handoff"),
            (source == self.offer.source, "source"),
            (destination == self.offer.destination, "destination"),
        ];
        bound.iter().find(|(same, _)| !same).map_or(Ok(()), |(_, what)| Err(StepError::Mismatch(what)))
    }

    fn release(&self, chain: &Chain, head: Head, root: Hash, members: u64) -> Result<Release, StepError> {
        let next_token = self.offer.token.next_epoch().ok_or(StepError::Bug("epoch exhausted"))?;
        Ok(Release {
            mesh: self.offer.mesh,
            session: self.offer.key.id(),
            prev: chain.head(),
            from: self.offer.source,
            to: self.offer.destination,
            handoff: self.offer.handoff,
            token: self.offer.token,
            next_token,
            head,
            root,
            members,
        })
    }

    /// Gives the attempt up. The id is burned: no acknowledgement for it counts again. After `committed` nothing changes.
    pub fn abandon(&mut self, refusal: Refusal) {
        match self.phase {
            SourcePhase::Offered | SourcePhase::Transferring | SourcePhase::Frozen => {
                self.phase = SourcePhase::Abandoned(refusal);
            }
            SourcePhase::Committed | SourcePhase::Abandoned(_) => {}
        }
    }

    /// The destination is heard of: the transfer is alive.
    pub fn touch(&mut self, now: Now) {
        let wait = match self.phase {
            SourcePhase::Offered => return,
            SourcePhase::Frozen => limits::FREEZE,
            SourcePhase::Transferring | SourcePhase::Committed | SourcePhase::Abandoned(_) => limits::TRANSFER_SILENCE,
        };
        self.deadline = now.after(wait).min(self.frozen_until);
    }

    fn become_transferring(&mut self, now: Now) {
        self.phase = SourcePhase::Transferring;
        self.touch(now);
    }

    fn wrong_phase(&self) -> StepError {
        StepError::Phase(self.phase.clone())
    }

    /// What was offered.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// The phase.
    pub fn phase(&self) -> &SourcePhase {
        &self.phase
    }

    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        match self.phase {
            SourcePhase::Offered | SourcePhase::Transferring | SourcePhase::Frozen => Outcome::Open,
            SourcePhase::Committed => Outcome::Committed,
            SourcePhase::Abandoned(refusal) => Outcome::Abandoned(refusal),
        }
    }

    /// Whether this device may act for the session: in every phase but `committed`. Source: SPEC H-6.
    pub fn source_still_owns(&self) -> bool {
        self.phase != SourcePhase::Committed
    }

    /// When the attempt is given up if nothing is heard.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The longest freeze has no end before it begins, so `frozen_until` is left as it is then.
    pub(crate) fn each_moment(&mut self, visit: &mut impl FnMut(&mut Duration)) {
        visit(&mut self.deadline);
        if self.frozen_until != Duration::MAX {
            visit(&mut self.frozen_until);
        }
    }
}

fn limits_rounds() -> u32 {
    cede_wire::limits::ROUNDS
}
