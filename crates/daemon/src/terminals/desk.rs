//! Who sits in front of a hosted terminal, and who of them types.

use std::collections::BTreeMap;

use cede_agent::terminal::NotTaken;
use cede_core::lease::{Asked, DriverLease, Seat, ViewerId};
use cede_core::now::Now;
use cede_wire::control::terminal::{TerminalSize, TerminalState};

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
    /// For the log, in which no device has a name.
    mark: String,
    pub(crate) seat: Seat,
    /// Bytes that it typed since it got the keyboard.
    typed: u64,
}

impl Who {
    /// A person on another device.
    pub(crate) fn away(name: &str, mark: &str) -> Self {
        Self { name: name.to_owned(), mark: mark.to_owned(), seat: Seat::Away, typed: 0 }
    }

    /// A person at this machine.
    pub(crate) fn here() -> Self {
        Self { name: "you at this machine".to_owned(), mark: "here".to_owned(), seat: Seat::Here, typed: 0 }
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

    fn mark(&self, viewer: ViewerId) -> &str {
        self.viewers.get(&viewer).map_or("gone", |who| who.mark.as_str())
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
        tracing::info!(session = %self.session.short(), who = who.mark, "somebody looks on");
        desk.viewers.insert(viewer, who);
        drop(desk);
        self.news.tell();
        Some(viewer)
    }

    /// It looks on no more.
    pub(crate) fn get_up(&self, viewer: ViewerId) {
        self.let_go(viewer);
        if let Some(who) = self.desk().viewers.remove(&viewer) {
            tracing::info!(session = %self.session.short(), who = who.mark, "somebody looks on no more");
        }
        self.news.tell();
    }

    /// It wants to type.
    pub(crate) fn ask(&self, viewer: ViewerId, insist: bool, now: Now) -> Asked {
        let mut desk = self.desk();
        let Some(seat) = desk.viewers.get(&viewer).map(|who| who.seat) else { return Asked::Held };
        let drove = desk.lease.drives(viewer, now);
        let asked = desk.lease.ask(viewer, seat, insist, now);
        if let Asked::Granted { over } = asked
            && !drove
        {
            if let Some(before) = over {
                self.keyboard_left(&mut desk, before, "put aside");
            }
            if let Some(who) = desk.viewers.get_mut(&viewer) {
                who.typed = 0;
            }
            tracing::info!(session = %self.session.short(), who = desk.mark(viewer), insist, "somebody drives");
        }
        drop(desk);
        self.news.tell();
        asked
    }

    /// It does not want to type any more.
    pub(crate) fn let_go(&self, viewer: ViewerId) {
        let mut desk = self.desk();
        if desk.lease.let_go(viewer) {
            self.keyboard_left(&mut desk, viewer, "let go");
        }
        drop(desk);
        self.news.tell();
    }

    /// The record of who typed how much and until when. What was typed is in no log.
    fn keyboard_left(&self, desk: &mut Desk, viewer: ViewerId, why: &str) {
        let typed = desk.viewers.get(&viewer).map_or(0, |who| who.typed);
        tracing::info!(session = %self.session.short(), who = desk.mark(viewer), typed, why, "somebody drives no more");
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

    /// Nobody but the person at the machine types, for a while.
    pub(crate) fn hold(&self, now: Now) {
        let mut desk = self.desk();
        if let Some(before) = desk.lease.hold(now) {
            self.keyboard_left(&mut desk, before, "held");
        }
        tracing::info!(session = %self.session.short(), "a terminal is held");
        drop(desk);
        self.news.tell();
    }

    /// False: nobody held it.
    pub(crate) fn release(&self, now: Now) -> bool {
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
