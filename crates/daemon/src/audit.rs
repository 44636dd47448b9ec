//! The record of what was decided here. Source: SPEC U-10 to U-12.
//!
//! What is noted is durable before anything that follows from it begins: [`Actor::write_audit`] comes first in every drain.
//! While the record cannot be written nothing of a peer is allowed.

mod reading;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use cede_core::now::Now;
use cede_seal::device::LocalDevice;
use cede_store::audit::{AuditError, AuditLog, AuditMark};
use cede_store::home::Home;
use cede_wire::audit::{AuditAct, AuditCheckpoint, AuditEvent, AuditOf, AuditOutcome, DecidedBy};
use cede_wire::canonical::Signed;
use cede_wire::id::{DeviceId, Hash, SessionId};
use cede_wire::limits::AUDIT_CHECKPOINT_ENTRIES;
use cede_wire::member::Capability;

use crate::actor::Actor;
use crate::clock::unix_ms;
use crate::limits::{AUDIT_AGAIN, AUDIT_CHECKPOINT, AUDIT_COUNTED, AUDIT_WAITING};

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
    /// Why, for people.
    trouble: String,
}

/// Decisions that nobody was asked for are equal where these are.
type Kind = (DeviceId, Capability, bool, DecidedBy);

impl Audit {
    /// Opens the log and says that a daemon begins.
    pub(crate) fn open(home: &Home, device: DeviceId) -> Result<Self, AuditError> {
        let mut log = AuditLog::open(home, unix_ms())?;
        log.append(&[AuditEvent::Begun { device }], unix_ms())?;
        let (pending, counted, since) = (Vec::new(), BTreeMap::new(), Some(Instant::now()));
        // A device with a new key signs what there is at once.
        let other_key = log.newest().is_some_and(|point| point.key().device() != device);
        let unsealed = if other_key { AUDIT_CHECKPOINT_ENTRIES } else { 1 };
        Ok(Self { log: Some(log), pending, counted, unsealed, since, broken: false, trouble: String::new() })
    }

    /// Notes something. A log that is lost for good, or full for long, does not become a full memory.
    pub(crate) fn note(&mut self, event: AuditEvent) {
        if self.pending.len() < AUDIT_WAITING {
            self.pending.push(event);
        }
    }

    /// Takes back what was noted and is not in the log. False: it is there, or there was no room for it.
    pub(crate) fn take_back(&mut self, event: &AuditEvent) -> bool {
        let at = self.pending.iter().rposition(|pending| pending == event);
        at.map(|at| self.pending.remove(at)).is_some()
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

    /// Why nothing can be written down; none where it can.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.broken.then_some(self.trouble.as_str())
    }

    fn wait_again(&mut self, unwritten: Vec<AuditEvent>) {
        let later = std::mem::replace(&mut self.pending, unwritten);
        let room = AUDIT_WAITING.saturating_sub(self.pending.len());
        let left_out = later.len().saturating_sub(room);
        if left_out > 0 {
            tracing::error!(left_out, "decisions are not in the record: there was no room for it");
        }
        self.pending.extend(later.into_iter().take(room));
    }

    /// This moment as rules of an earlier run are measured by: a clock that was set back while no daemon ran prolongs none.
    pub(crate) fn not_before(&self, now: Now) -> Now {
        let latest = self.log.as_ref().map_or(0, AuditLog::latest_unix_ms);
        Now { unix_ms: now.unix_ms.max(latest), ..now }
    }

    /// When a checkpoint is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + if self.broken { AUDIT_AGAIN } else { AUDIT_CHECKPOINT })
    }

    /// The newest checkpoint.
    pub(crate) fn newest(&self) -> Option<&Signed<AuditCheckpoint>> {
        self.log.as_ref().and_then(AuditLog::newest)
    }

    /// How far the log goes now.
    pub(crate) fn mark(&self) -> Option<AuditMark> {
        self.log.as_ref().map(AuditLog::mark)
    }

    /// What is to be written now, and whether a checkpoint follows.
    fn take(&mut self, stopping: bool) -> Option<(AuditLog, Vec<AuditEvent>, bool)> {
        let again = self.since.is_none_or(|since| since.elapsed() >= AUDIT_AGAIN);
        if self.log.is_none() || self.broken && !stopping && !again {
            return None;
        }
        let seal = self.since.is_some_and(|since| stopping || self.broken || since.elapsed() >= AUDIT_CHECKPOINT)
            || self.unsealed + self.pending.len() as u64 >= AUDIT_CHECKPOINT_ENTRIES;
        if seal {
            let counted = std::mem::take(&mut self.counted);
            let more = counted.into_iter().filter(|(_, times)| *times > 0);
            self.pending.extend(more.map(|(kind, times)| many(kind, times)));
        }
        if self.pending.is_empty() && !seal {
            return None;
        }
        let log = self.log.take()?;
        let events: Vec<AuditEvent> = self.pending.drain(..self.pending.len().min(BATCH)).collect();
        Some((log, events, seal))
    }

    /// What could not be written waits for the next time, as far as there is room: it happened.
    fn written(&mut self, log: AuditLog, (unwritten, written): Written) {
        self.log = Some(log);
        self.wait_again(unwritten);
        match written {
            Ok((entries, sealed)) => {
                self.broken = false;
                self.unsealed = if sealed { 0 } else { self.unsealed + entries as u64 };
                self.since = if sealed { None } else { self.since.or_else(|| Some(Instant::now())) };
            }
            Err(error) => {
                tracing::error!(%error, "decisions cannot be recorded, so nothing is allowed to peers");
                (self.broken, self.trouble) = (true, in_words(&error));
                // Tried again a while later, not at once for ever.
                self.since = Some(Instant::now());
            }
        }
    }
}

/// With what lies below it: that the disk is full is what a person can do something about.
fn in_words(error: &AuditError) -> String {
    match error {
        AuditError::Disk(fault) => format!("{fault}: {}", fault.errno),
        AuditError::AlreadyOpen | AuditError::TooLong => error.to_string(),
    }
}

/// What did not get into the log, and how many entries did and whether they are signed.
type Written = (Vec<AuditEvent>, Result<(usize, bool), AuditError>);

const fn many((who, capability, allowed, by): Kind, times: u32) -> AuditEvent {
    AuditEvent::Decided { who, capability, of: AuditOf::Many, allowed, by, shown: None, times }
}

/// A question about a session that would move.
pub(crate) const fn move_asked(who: DeviceId, of: AuditOf, shown: Hash, held: bool) -> AuditEvent {
    AuditEvent::Asked { who, capability: Capability::Handoff, of, shown, held }
}

/// The answer about one.
pub(crate) const fn move_decided(
    who: DeviceId,
    of: AuditOf,
    (allowed, by): (bool, DecidedBy),
    shown: Option<Hash>,
) -> AuditEvent {
    AuditEvent::Decided { who, capability: Capability::Handoff, of, allowed, by, shown, times: 1 }
}

/// What a yes became that could not be recorded.
const fn refused(event: &AuditEvent) -> Option<AuditEvent> {
    match event {
        AuditEvent::Decided { who, capability, of, allowed: true, shown, times, .. } => Some(AuditEvent::Decided {
            who: *who,
            capability: *capability,
            of: *of,
            allowed: false,
            by: DecidedBy::Fault,
            shown: *shown,
            times: *times,
        }),
        AuditEvent::Begun { .. }
        | AuditEvent::Asked { .. }
        | AuditEvent::Decided { .. }
        | AuditEvent::Outcome { .. }
        | AuditEvent::RuleSet { .. }
        | AuditEvent::Acted { .. }
        | AuditEvent::Keyboard { .. }
        | AuditEvent::Checkpoint(_)
        | AuditEvent::Lost { .. }
        | AuditEvent::Missed { .. }
        | AuditEvent::Answered { .. }
        | AuditEvent::Pressed { .. } => None,
    }
}

/// Appends, and signs where a checkpoint is due. Blocks.
fn append(log: &mut AuditLog, local: &Arc<LocalDevice>, events: Vec<AuditEvent>, seal: bool) -> Written {
    let entries = events.len();
    if !events.is_empty()
        && let Err(error) = log.append(&events, unix_ms())
    {
        return (events, Err(error));
    }
    (Vec::new(), sign(log, local, seal).map(|()| (entries, seal)))
}

fn sign(log: &mut AuditLog, local: &Arc<LocalDevice>, seal: bool) -> Result<(), AuditError> {
    if seal {
        let (number, chain) = log.position();
        let point = AuditCheckpoint { by: local.device(), number, chain, at_unix_ms: unix_ms() };
        // It names this device as its signer, so it is signed.
        if let Ok(point) = local.sign(&point) {
            log.seal(point, unix_ms())?;
        }
    }
    Ok(())
}

impl Actor {
    /// Makes durable what was noted. One that cannot be written makes every yes to a peer a no.
    pub(crate) async fn write_audit(&mut self, stopping: bool) {
        let mut signed = false;
        while let Some((mut log, events, seal)) = self.audit.take(stopping) {
            let local = self.context.local.clone();
            let written = tokio::task::spawn_blocking(move || {
                let written = append(&mut log, &local, events, seal);
                (log, written)
            });
            match written.await {
                Ok((log, written)) => {
                    signed |= matches!(written.1, Ok((_, true)));
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
            self.audit.trouble = "fault of ours: restart the daemon".to_owned();
        }
        if signed && !stopping {
            self.checkpoint_is_new();
        }
        if !self.audit.broken {
            self.hear_files_again();
        }
    }

    /// What came of a request that the authority allowed: called once by whoever acted on it.
    pub(crate) fn came_of(&mut self, who: DeviceId, of: AuditOf, capability: Capability, outcome: AuditOutcome) {
        self.audit.note(AuditEvent::Outcome { who, capability, of, outcome });
    }

    /// Notes a decision. `next` runs once that is durable, and hears whether it stands: a yes that cannot be recorded is a no, and
    /// as that it is recorded later.
    pub(crate) fn once_recorded(&mut self, event: AuditEvent, next: impl FnOnce(&mut Self, bool) + Send + 'static) {
        self.audit.note(event.clone());
        self.once_durable(move |actor| {
            let stands = !actor.audit.is_broken();
            if !stands && let Some(refused) = refused(&event) {
                actor.audit.take_back(&event);
                actor.audit.note(refused);
            }
            next(actor, stands);
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

/// Entries that are flushed together.
const BATCH: usize = 256;

/// Until the next look where nothing is due.
pub(crate) fn soonest(first: Option<Instant>, second: Option<Instant>) -> Option<Instant> {
    first.into_iter().chain(second).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: U-10
    #[test]
    fn what_could_not_be_written_is_in_the_record_once_it_can_be() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(&place.path().join("state")).unwrap();
        let mut audit = Audit::open(&home, DeviceId::new([1; 32])).unwrap();
        let acted =
            |n: u8| AuditEvent::Acted { act: AuditAct::Removed, device: Some(DeviceId::new([n; 32])), session: None };
        audit.note(acted(1));
        let (log, events, _) = audit.take(false).unwrap();
        audit.note(acted(2));
        audit.written(log, (events, Err(AuditError::TooLong)));
        assert!(audit.is_broken());
        assert!(audit.take(false).is_none(), "not at once for ever");
        let (log, events, _) = audit.take(true).unwrap();
        assert_eq!(events, [acted(1), acted(2)]);
        audit.written(log, (Vec::new(), Ok((2, false))));
        assert!(!audit.is_broken());
    }

    /// Shows: U-6
    #[test]
    fn clock_that_was_set_back_before_a_start_prolongs_no_standing_yes() {
        use cede_core::authority::Term;
        use cede_wire::authority::Rule;

        use crate::authorities::Authorities;
        use crate::rules::Ruled;

        const HOUR: u64 = 3_600_000;
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(&place.path().join("state")).unwrap();
        let peer = DeviceId::new([1; 32]);
        let audit = Audit::open(&home, peer).unwrap();
        let began = audit.not_before(Now { monotonic: std::time::Duration::ZERO, unix_ms: 0 });
        let term = Term {
            rule: Rule::Accept,
            from_unix_ms: began.unix_ms - 7 * HOUR,
            until_unix_ms: Some(began.unix_ms + HOUR),
        };
        // The clock says that only one of its hours has passed.
        let back = Now { unix_ms: began.unix_ms - 6 * HOUR, ..began };
        let ruled = [Ruled::Rule(peer, Capability::File, term)];
        let mut authorities = Authorities::restore(&ruled, audit.not_before(back));
        let holds = |authorities: &mut Authorities, passed: u64| {
            let monotonic = std::time::Duration::from_millis(passed);
            let now = Now { monotonic, unix_ms: back.unix_ms + passed };
            authorities.memory(peer).rule(Capability::File, now).is_some()
        };
        assert!(holds(&mut authorities, HOUR - 1));
        assert!(!holds(&mut authorities, HOUR + 1));
    }

    /// Shows: U-10
    #[test]
    fn yes_that_could_not_be_recorded_is_in_the_record_as_a_no() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(&place.path().join("state")).unwrap();
        let mut audit = Audit::open(&home, DeviceId::new([1; 32])).unwrap();
        let of = AuditOf::Take(SessionId::new([2; 16]), 3);
        let yes = move_decided(DeviceId::new([4; 32]), of, (true, DecidedBy::Operator), None);
        let no = move_decided(DeviceId::new([4; 32]), of, (false, DecidedBy::Fault), None);
        assert_eq!((refused(&yes), refused(&no)), (Some(no.clone()), None));
        audit.note(yes.clone());
        let (log, events, _) = audit.take(false).unwrap();
        audit.written(log, (events, Err(AuditError::TooLong)));
        assert!(audit.take_back(&yes) && !audit.take_back(&yes));
        audit.note(no.clone());
        let (_, events, _) = audit.take(true).unwrap();
        assert_eq!(events, [no]);
    }

    /// Shows: U-10
    #[test]
    fn full_disk_does_not_become_a_full_memory() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(&place.path().join("state")).unwrap();
        let device = DeviceId::new([1; 32]);
        let mut audit = Audit::open(&home, device).unwrap();
        for _ in 0..3 {
            (0..AUDIT_WAITING).for_each(|_| audit.note(AuditEvent::Begun { device }));
            let (log, events, _) = audit.take(true).unwrap();
            audit.written(log, (events, Err(AuditError::TooLong)));
        }
        assert_eq!(audit.pending.len(), AUDIT_WAITING);
    }
}
