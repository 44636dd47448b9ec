//! The receiving side of one handoff: D1 to D3 and D6 of the state table.
//!
//! A staged destination holds, verifies, repeats its acknowledgement and answers questions. Nothing else.

use core::time::Duration;

use cede_seal::device::LocalDevice;
use cede_seal::verify::Verified;
use cede_wire::canonical::Signed;
use cede_wire::catalog::Oid;
use cede_wire::custody::{FencingToken, Head};
use cede_wire::handoff::{Accept, CommitAck, Manifest};
use cede_wire::id::{DeviceId, HandoffId, Hash, SessionId};
use cede_wire::refusal::Refusal;

use crate::limits;
use crate::now::Now;

/// What one attempt is about, from its offer or from the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The attempt.
    pub handoff: HandoffId,
    /// The session.
    pub session: SessionId,
    /// The owner until the release.
    pub source: DeviceId,
    /// Digest of the approved scope.
    pub scope: Hash,
}

/// What is durable here. The caller's word: every byte, before it says so. Source: SPEC H-5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedPayload {
    /// The turns.
    pub head: Head,
    /// The catalog.
    pub root: Hash,
}

/// The destination's phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationPhase {
    /// D1 and D2: approved, chunks come.
    Receiving {
        /// The manifest of the present round.
        manifest: Option<Box<Manifest>>,
    },
    /// D3: durable, waiting for the release.
    Staged {
        /// The source's token.
        token: FencingToken,
        /// What is durable.
        payload: StagedPayload,
    },
}

/// Why a step was refused. The phase is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// It names another handoff, session, source, destination, token, head or root.
    #[error("does not match this handoff: {0}")]
    Mismatch(&'static str),
    /// Not a step of this phase.
    #[error("not a step of this phase")]
    Phase,
    /// A repetition, or a round that a later one replaced. Nothing is to be done.
    #[error("a round that is known or replaced")]
    Stale,
    /// A fault of ours.
    #[error("fault of ours: {0}")]
    Bug(&'static str),
}

impl ReceiveError {
    /// The code for the peer.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Mismatch("destination") => Refusal::WrongDestination,
            Self::Mismatch("token") => Refusal::StaleToken,
            Self::Mismatch("payload") => Refusal::IntegrityFailed,
            Self::Mismatch(_) | Self::Phase | Self::Stale | Self::Bug(_) => Refusal::Protocol,
        }
    }
}

/// One handoff, on the receiving side.
#[derive(Debug, Clone)]
pub struct HandoffDestination {
    me: DeviceId,
    attempt: Attempt,
    token: Option<FencingToken>,
    phase: DestinationPhase,
    rounds: u32,
    deadline: Duration,
}

impl HandoffDestination {
    /// D1: the operator approved. `token` is the offer's; none after a restart, until the next manifest.
    pub fn approved(me: DeviceId, attempt: Attempt, token: Option<FencingToken>, now: Now) -> Self {
        let phase = DestinationPhase::Receiving { manifest: None };
        Self { me, attempt, token, phase, rounds: 0, deadline: now.after(limits::RECEIVING_TTL) }
    }

    /// D3, as the journal remembers it.
    pub fn restore_staged(
        me: DeviceId,
        attempt: Attempt,
        token: FencingToken,
        payload: StagedPayload,
        now: Now,
    ) -> Self {
        let phase = DestinationPhase::Staged { token, payload };
        let deadline = now.after(limits::STAGED_TTL);
        Self { me, attempt, token: Some(token), phase, rounds: 0, deadline }
    }

    /// After a restart: manifests must name this token.
    pub(crate) fn bind(&mut self, token: FencingToken) {
        self.token = Some(token);
    }

    /// Whether a round is known, so that chunks are coming.
    pub(crate) fn has_manifest(&self) -> bool {
        matches!(self.phase, DestinationPhase::Receiving { manifest: Some(_) })
    }

    /// The signed yes, with a fresh exchange key. A reconnect brings another one.
    pub fn accept(&self, exchange_key: [u8; 32], have: Vec<Oid>) -> Accept {
        Accept {
            handoff: self.attempt.handoff,
            source: self.attempt.source,
            destination: self.me,
            scope: self.attempt.scope,
            exchange_key,
            have,
        }
    }

    /// D1 to D2, or the next round.
    ///
    /// # Errors
    /// [`ReceiveError`]; the phase is unchanged.
    pub fn manifest(&mut self, manifest: &Verified<Manifest>, now: Now) -> Result<(), ReceiveError> {
        let bound = [
            (manifest.handoff == self.attempt.handoff, "handoff"),
            (manifest.session == self.attempt.session, "session"),
            (manifest.source == self.attempt.source, "source"),
            (manifest.destination == self.me, "destination"),
            (self.token.is_none_or(|token| token == manifest.token), "token"),
            (manifest.round < cede_wire::limits::ROUNDS, "round"),
        ];
        if let Some((_, what)) = bound.iter().find(|(same, _)| !same) {
            return Err(ReceiveError::Mismatch(what));
        }
        let present = match &mut self.phase {
            DestinationPhase::Receiving { manifest } => manifest,
            DestinationPhase::Staged { payload, .. } => {
                let same = manifest.head == payload.head && manifest.root == payload.root;
                let known = same || manifest.round < self.rounds;
                return Err(if known { ReceiveError::Stale } else { ReceiveError::Phase });
            }
        };
        if manifest.round < self.rounds || present.as_deref() == Some(&**manifest) {
            return Err(ReceiveError::Stale);
        }
        *present = Some(Box::new((**manifest).clone()));
        self.rounds = manifest.round;
        self.token = Some(manifest.token);
        self.deadline = now.after(limits::RECEIVING_TTL);
        Ok(())
    }

    /// D2 to D3: the payload of the last manifest is durable.
    ///
    /// # Errors
    /// [`ReceiveError`] when it is not the payload of the last manifest; the phase is unchanged.
    pub fn stage(&mut self, payload: StagedPayload, now: Now) -> Result<FencingToken, ReceiveError> {
        let DestinationPhase::Receiving { manifest: Some(manifest) } = &self.phase else {
            return Err(ReceiveError::Phase);
        };
        if !manifest.last {
            return Err(ReceiveError::Mismatch("round"));
        }
        if manifest.head != payload.head || manifest.root != payload.root {
            return Err(ReceiveError::Mismatch("payload"));
        }
        let token = manifest.token;
        self.phase = DestinationPhase::Staged { token, payload };
        self.deadline = now.after(limits::STAGED_TTL);
        Ok(token)
    }

    /// The acknowledgement, identical each time it is asked for. None before D3.
    pub fn acknowledgement(&self, local: &LocalDevice) -> Option<Signed<CommitAck>> {
        let DestinationPhase::Staged { token, payload } = &self.phase else {
            return None;
        };
        let ack = CommitAck {
            handoff: self.attempt.handoff,
            session: self.attempt.session,
            token: *token,
            head: payload.head,
            root: payload.root,
            source: self.attempt.source,
            destination: self.me,
        };
        local.sign(&ack).ok()
    }

    /// Whether a certificate for this head and root finds its payload here.
    pub fn holds(&self, handoff: HandoffId, head: Head, root: Hash) -> bool {
        let wanted = StagedPayload { head, root };
        self.attempt.handoff == handoff
            && matches!(&self.phase, DestinationPhase::Staged { payload, .. } if *payload == wanted)
    }

    /// What it is about.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// The phase.
    pub fn phase(&self) -> &DestinationPhase {
        &self.phase
    }

    /// When it is discarded if nothing comes.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(crate) fn deadline_mut(&mut self) -> &mut Duration {
        &mut self.deadline
    }
}
