//! The record of what was decided here. Source: SPEC U-10 to U-12.
//!
//! What is noted is durable before anything that follows from it begins: [`Actor::write_audit`] comes first in every drain.
//! While the record cannot be written nothing of a peer is allowed.

mod reading;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use cede_core::authority::{DecidedBy, RequestId};
use cede_seal::device::LocalDevice;
use cede_store::audit::{AuditError, AuditLog, AuditMark};
use cede_store::home::Home;
use cede_wire::audit::{AuditAct, AuditBy, AuditCheckpoint, AuditEvent, AuditOf, AuditOutcome};
use cede_wire::id::{DeviceId, Hash, SessionId};
use cede_wire::limits::AUDIT_CHECKPOINT_ENTRIES;
use cede_wire::member::Capability;

use crate::actor::Actor;
use crate::authorities::Asker;
use crate::clock::unix_ms;
use crate::limits::{AUDIT_CHECKPOINT, AUDIT_COUNTED};

/// The log, and what is not in it yet.
pub(crate) struct Audit {
    /// None while a thread writes, or for ever after one was lost.
    log: Option<AuditLog>,
    pending: Vec<AuditEvent>,
    counted: BTreeMap<Kind, u32>,
    /// Entries since the last checkpoint, and when the first of them came.
    unsealed: u64,
    since: Option<Instant>,
    broken: bool,
}

/// Decisions that nobody was asked for are equal where these are.
type Kind = (DeviceId, Capability, bool, AuditBy);

impl Audit {
    /// Opens the log and says that a daemon begins.
    pub(crate) fn open(home: &Home, device: DeviceId) -> Result<Self, AuditError> {
        let mut log = AuditLog::open(home, unix_ms())?;
        log.append(&[AuditEvent::Begun { device }], unix_ms())?;
        let (pending, counted, since) = (Vec::new(), BTreeMap::new(), Some(Instant::now()));
        Ok(Self { log: Some(log), pending, counted, unsealed: 1, since, broken: false })
    }

    pub(crate) fn note(&mut self, event: AuditEvent) {
        self.pending.push(event);
    }

    /// Notes the first decision of its kind since the last checkpoint, and counts the others: a peer that repeats itself
    /// fills no disk.
    pub(crate) fn count(&mut self, kind: Kind) {
        if let Some(times) = self.counted.get_mut(&kind) {
            *times = times.saturating_add(1);
        } else if self.counted.len() < AUDIT_COUNTED {
            self.counted.insert(kind, 0);
            self.note(many(kind, 1));
        }
    }

    /// Whether nothing may be allowed, since it could not be written down.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// When a checkpoint is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + AUDIT_CHECKPOINT)
    }

    /// How far the log goes now.
    pub(crate) fn mark(&self) -> Option<AuditMark> {
        self.log.as_ref().map(AuditLog::mark)
    }

    /// What is to be written now, and whether a checkpoint follows.
    fn take(&mut self, stopping: bool) -> Option<(AuditLog, Vec<AuditEvent>, bool)> {
        let seal = self.since.is_some_and(|since| stopping || since.elapsed() >= AUDIT_CHECKPOINT)
            || self.unsealed + self.pending.len() as u64 >= AUDIT_CHECKPOINT_ENTRIES;
        if seal {
            let counted = std::mem::take(&mut self.counted);
            let more = counted.into_iter().filter(|(_, times)| *times > 0);
            self.pending.extend(more.map(|(kind, times)| many(kind, times)));
        }
        if self.pending.is_empty() && !seal {
            return None;
        }
        let events: Vec<AuditEvent> = self.pending.drain(..self.pending.len().min(BATCH)).collect();
        let log = self.log.take()?;
        Some((log, events, seal))
    }

    /// What could not be written waits for the next attempt, the oldest first, as much as there is room for.
    fn put_back(&mut self, mut events: Vec<AuditEvent>) {
        events.append(&mut self.pending);
        events.truncate(AUDIT_COUNTED);
        self.pending = events;
    }

    fn written(&mut self, log: AuditLog, written: Result<(usize, bool), AuditError>) {
        self.log = Some(log);
        match written {
            Ok((entries, sealed)) => {
                self.broken = false;
                self.unsealed = if sealed { 0 } else { self.unsealed + entries as u64 };
                self.since = if sealed { None } else { self.since.or_else(|| Some(Instant::now())) };
            }
            Err(error) => {
                tracing::error!(%error, "decisions cannot be recorded, so nothing is allowed to peers");
                self.broken = true;
                // Tried again a while later, not at once for ever.
                self.since = Some(Instant::now());
            }
        }
    }
}

const fn many((who, capability, allowed, by): Kind, times: u32) -> AuditEvent {
    AuditEvent::Decided { who, capability, of: AuditOf::Many, allowed, by, shown: None, times }
}

/// Appends, and signs where a checkpoint is due. Blocks.
fn append(
    log: &mut AuditLog,
    local: &Arc<LocalDevice>,
    events: &[AuditEvent],
    seal: bool,
) -> Result<(usize, bool), AuditError> {
    if !events.is_empty() {
        log.append(events, unix_ms())?;
    }
    if seal {
        let (number, chain) = log.position();
        let point = AuditCheckpoint { by: local.device(), number, chain, at_unix_ms: unix_ms() };
        // It names this device as its signer, so it is signed.
        if let Ok(point) = local.sign(&point) {
            log.seal(point, unix_ms())?;
        }
    }
    Ok((events.len(), seal))
}

impl Actor {
    /// Makes durable what was noted. One that cannot be written makes every yes to a peer a no.
    pub(crate) async fn write_audit(&mut self, stopping: bool) {
        while let Some((mut log, events, seal)) = self.audit.take(stopping) {
            let local = self.context.local.clone();
            let written = tokio::task::spawn_blocking(move || {
                let written = append(&mut log, &local, &events, seal);
                (log, events, written)
            });
            match written.await {
                Ok((log, events, written)) => {
                    if written.is_err() {
                        self.audit.put_back(events);
                    }
                    self.audit.written(log, written);
                }
                Err(_) => self.audit.broken = true,
            }
            if self.audit.broken {
                break;
            }
        }
        if self.audit.log.is_none() {
            (self.audit.broken, self.audit.since) = (true, None);
        }
    }

    /// What came of a request that the authority allowed: called once by whoever acted on it.
    #[expect(dead_code, reason = "no request that is asked about here is served yet")]
    pub(crate) fn came_of(&mut self, asker: Asker, request: RequestId, capability: Capability, outcome: AuditOutcome) {
        let of = self.request_of(asker, request);
        self.audit.note(AuditEvent::Outcome { who: asker.device, capability, of, outcome });
    }

    /// A question or an answer about a session that would move.
    pub(crate) fn note_move(
        &mut self,
        who: DeviceId,
        of: AuditOf,
        decided: Option<(bool, AuditBy)>,
        shown: Option<Hash>,
    ) {
        let capability = Capability::Handoff;
        self.audit.note(match (decided, shown) {
            (Some((allowed, by)), shown) => AuditEvent::Decided { who, capability, of, allowed, by, shown, times: 1 },
            (None, shown) => {
                AuditEvent::Asked { who, capability, of, shown: shown.unwrap_or(Hash::new([0; 32])), held: false }
            }
        });
    }

    /// What came of a session that was allowed to come here.
    pub(crate) fn note_arrival(&mut self, who: DeviceId, of: AuditOf, done: bool) {
        let outcome = if done { AuditOutcome::Done } else { AuditOutcome::Failed };
        self.audit.note(AuditEvent::Outcome { who, capability: Capability::Handoff, of, outcome });
    }

    /// A person did something.
    pub(crate) fn note_act(&mut self, act: AuditAct, device: Option<DeviceId>, session: Option<SessionId>) {
        self.audit.note(AuditEvent::Acted { act, device, session });
    }
}

/// The same on the disk.
pub(crate) const fn audit_by(by: DecidedBy) -> AuditBy {
    match by {
        DecidedBy::Grant => AuditBy::Grant,
        DecidedBy::Rule => AuditBy::Rule,
        DecidedBy::Operator => AuditBy::Operator,
        DecidedBy::Time => AuditBy::Time,
        DecidedBy::Fault => AuditBy::Fault,
        DecidedBy::Pace => AuditBy::Pace,
        DecidedBy::Size => AuditBy::Size,
        DecidedBy::Withdrawn => AuditBy::Withdrawn,
        DecidedBy::Closed => AuditBy::Closed,
    }
}

/// Entries that are flushed together.
const BATCH: usize = 256;

/// Until the next look where nothing is due.
pub(crate) fn soonest(first: Option<Instant>, second: Option<Instant>) -> Option<Instant> {
    first.into_iter().chain(second).min()
}
