//! Who sits in front of a hosted terminal, and who of them types.

use std::collections::BTreeMap;

use cede_agent::terminal::NotTaken;
use cede_core::lease::{Asked, DriverLease, Seat, ViewerId};
use cede_core::now::Now;
use cede_wire::audit::{AuditEvent, KeyboardChange};
use cede_wire::control::terminal::{TerminalSize, TerminalState};
use cede_wire::id::DeviceId;

use super::Hosted;
use crate::limits;

/// The viewers of one terminal.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) lease: DriverLease,
    viewers: BTreeMap<ViewerId, Who>,
    next: u64,
}

/// One who looks on.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    /// For people: where it is.
    pub(crate) name: String,
    /// None: the person at this machine.
    pub(crate) device: Option<DeviceId>,
    pub(crate) seat: Seat,
    /// Bytes that it typed since it got the keyboard.
    typed: u64,
}

impl Who {
    /// A person on another device.
    pub(crate) fn away(name: &str, device: DeviceId) -> Self {
        Self { name: name.to_owned(), device: Some(device), seat: Seat::Away, typed: 0 }
    }

    /// A person at this machine.
    pub(crate) fn here() -> Self {
        Self { name: "you at this machine".to_owned(), device: None, seat: Seat::Here, typed: 0 }
    }

    /// For the log, in which no device has a name.
    fn mark(&self) -> String {
        self.device.map_or_else(|| "here".to_owned(), |device| device.short())
    }
}

/// What others are told of the person at the machine of the terminal.
const THERE: &str = "the person there";

/// Why what was typed went nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TypeError {
    /// It only looks on.
    #[error("you only look on")]
    NotDriver,
    /// The program does not read.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
}

impl Desk {
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.viewers.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn driver_name(&self, now: Now) -> Option<String> {
        self.viewers.get(&self.lease.driver(now)?).map(|who| who.name.clone())
    }
}

impl Hosted {
    /// Somebody looks on from now on. None: too many do.
    pub(crate) fn sit_down(&self, who: Who) -> Option<ViewerId> {
        let mut desk = self.desk();
        if desk.viewers.len() >= limits::VIEWERS {
            return None;
        }
        desk.next += 1;
        let viewer = ViewerId(desk.next);
        tracing::info!(session = %self.session.short(), who = who.mark(), "somebody looks on");
        desk.viewers.insert(viewer, who);
        drop(desk);
        self.news.tell();
        Some(viewer)
    }

    /// It looks on no more. What is to be recorded.
    pub(super) fn get_up(&self, viewer: ViewerId) -> Option<AuditEvent> {
        let lost = self.let_go(viewer, KeyboardChange::Gone);
        if let Some(who) = self.desk().viewers.remove(&viewer) {
            tracing::info!(session = %self.session.short(), who = who.mark(), "somebody looks on no more");
        }
        self.news.tell();
        lost
    }

    /// What a wish to type would come to, and what is to be recorded before it does; none: nothing changes.
    pub(super) fn would(&self, viewer: ViewerId, insist: bool, now: Now) -> Option<AuditEvent> {
        let desk = self.desk();
        let who = desk.viewers.get(&viewer)?;
        let asked = desk.lease.clone().ask(viewer, who.seat, insist, now);
        let change = match asked {
            _ if desk.lease.drives(viewer, now) => return None,
            Asked::Granted { over: None } => KeyboardChange::Taken,
            Asked::Granted { over: Some(_) } => KeyboardChange::Insisted,
            Asked::Driven(_) | Asked::Held => return None,
        };
        Some(self.entry(who.device, change, 0))
    }

    /// It wants to type. What is to be recorded of those who typed before.
    pub(super) fn ask(&self, viewer: ViewerId, insist: bool, now: Now) -> (Asked, Vec<AuditEvent>) {
        let mut desk = self.desk();
        let Some(seat) = desk.viewers.get(&viewer).map(|who| who.seat) else { return (Asked::Held, Vec::new()) };
        let mut lost = Vec::from_iter(self.lapsed(&mut desk, now));
        let drove = desk.lease.drives(viewer, now);
        let asked = desk.lease.ask(viewer, seat, insist, now);
        if let Asked::Granted { over } = asked
            && !drove
        {
            lost.extend(over.map(|before| self.keyboard_left(&desk, before, KeyboardChange::PutAside)));
            if let Some(who) = desk.viewers.get_mut(&viewer) {
                who.typed = 0;
                tracing::info!(session = %self.session.short(), who = who.mark(), insist, "somebody drives");
            }
        }
        drop(desk);
        self.news.tell();
        (asked, lost)
    }

    /// It does not want to type any more, or may not. What is to be recorded.
    pub(super) fn let_go(&self, viewer: ViewerId, why: KeyboardChange) -> Option<AuditEvent> {
        let mut desk = self.desk();
        let lost = desk.lease.let_go(viewer).then(|| self.keyboard_left(&desk, viewer, why));
        drop(desk);
        self.news.tell();
        lost
    }

    /// Whoever typed may have said nothing for too long. What is to be recorded.
    pub(super) fn lapse(&self, now: Now) -> Option<AuditEvent> {
        let lost = self.lapsed(&mut self.desk(), now);
        if lost.is_some() {
            self.news.tell();
        }
        lost
    }

    fn lapsed(&self, desk: &mut Desk, now: Now) -> Option<AuditEvent> {
        let silent = desk.lease.lapse(now)?;
        Some(self.keyboard_left(desk, silent, KeyboardChange::Silent))
    }

    /// The record of who typed how much and until when. What was typed is in no record.
    fn keyboard_left(&self, desk: &Desk, viewer: ViewerId, why: KeyboardChange) -> AuditEvent {
        let who = desk.viewers.get(&viewer);
        let (typed, mark) = (who.map_or(0, |who| who.typed), who.map(Who::mark));
        tracing::info!(session = %self.session.short(), who = mark, typed, ?why, "somebody drives no more");
        self.entry(who.and_then(|who| who.device), why, typed)
    }

    pub(super) fn entry(&self, who: Option<DeviceId>, change: KeyboardChange, typed: u64) -> AuditEvent {
        AuditEvent::Keyboard { session: self.session, who, change, typed }
    }

    /// Whether what this one types is passed on.
    pub(super) fn drives(&self, viewer: ViewerId, now: Now) -> bool {
        self.desk().lease.drives(viewer, now)
    }

    pub(crate) fn beat(&self, viewer: ViewerId, now: Now) {
        // One that lost the keyboard sees so in the state.
        let _ = self.desk().lease.beat(viewer, now);
    }

    pub(crate) fn type_in(&self, viewer: ViewerId, bytes: &[u8], now: Now) -> Result<(), TypeError> {
        // Under the lock: nothing of a former driver comes after the first key of the next one.
        let mut desk = self.desk();
        if !desk.lease.drives(viewer, now) {
            return Err(TypeError::NotDriver);
        }
        if let Some(who) = desk.viewers.get_mut(&viewer) {
            who.typed += bytes.len() as u64;
        }
        Ok(self.terminal.type_in(bytes)?)
    }

    /// The size of the driver's own terminal is the size of the hosted one.
    pub(crate) fn resize(&self, viewer: ViewerId, size: TerminalSize, now: Now) {
        if self.desk().lease.drives(viewer, now) {
            self.terminal.resize(cede_agent::terminal::Size::new(size.rows, size.columns));
        }
    }

    /// Nobody but the person at the machine types, for a while. What is to be recorded of who typed before.
    pub(super) fn hold(&self, now: Now) -> Option<AuditEvent> {
        let mut desk = self.desk();
        let before = desk.lease.hold(now);
        let lost = before.map(|before| self.keyboard_left(&desk, before, KeyboardChange::PutAside));
        tracing::info!(session = %self.session.short(), "a terminal is held");
        drop(desk);
        self.news.tell();
        lost
    }

    /// False: nobody held it.
    pub(super) fn release(&self, now: Now) -> bool {
        let released = self.desk().lease.release(now);
        tracing::info!(session = %self.session.short(), released, "a terminal is released");
        self.news.tell();
        released
    }

    pub(crate) fn state(&self, viewer: ViewerId, now: Now) -> TerminalState {
        let desk = self.desk();
        let seat = |viewer| desk.viewers.get(&viewer).map(|who| who.seat);
        let driver_is_here = desk.lease.driver(now).and_then(seat) == Some(Seat::Here);
        let from_afar = seat(viewer) == Some(Seat::Away);
        TerminalState {
            yours: desk.lease.drives(viewer, now),
            driver: if driver_is_here && from_afar { Some(THERE.to_owned()) } else { desk.driver_name(now) },
            held: desk.lease.is_held(now),
            viewers: desk.count(),
            size: self.size(),
        }
    }

    /// Who types, for a refusal.
    pub(crate) fn driver_name(&self, viewer: ViewerId) -> String {
        self.desk().viewers.get(&viewer).map_or_else(|| "somebody".to_owned(), |who| who.name.clone())
    }
}
