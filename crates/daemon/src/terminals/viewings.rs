//! The viewings of peers: who of them looks on at what, by which right, and how far it has come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use cede_core::lease::ViewerId;
use cede_wire::conversation::Bookmark;
use cede_wire::id::SessionId;
use cede_wire::limits::TERMINAL_WINDOW_BYTES;
use cede_wire::member::Capability;
use cede_wire::terminal::Wish;
use tokio::sync::Notify;

use super::Hosted;
use crate::authorities::Asker;
use crate::errands::Pace;
use crate::limits;

/// The viewings by link and number, and the pace of the wishes of each link.
#[derive(Default)]
pub(crate) struct Viewings {
    pub(super) all: BTreeMap<(u64, u64), Viewing>,
    paces: BTreeMap<u64, Pace>,
}

/// One of them.
pub(super) struct Viewing {
    /// What it lives by.
    pub(super) by: Capability,
    /// None: the operator has not answered.
    pub(super) seat: Option<Seat>,
}

/// Where somebody on another device looks on.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) flow: Arc<Flow>,
    /// None: it reads a conversation.
    pub(super) chair: Option<Chair>,
}

/// A place in front of a terminal.
#[derive(Clone)]
pub(super) struct Chair {
    pub(super) hosted: Arc<Hosted>,
    pub(super) viewer: ViewerId,
}

/// What a viewer asked for.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) asker: Asker,
    pub(crate) viewing: u64,
    pub(crate) session: SessionId,
    pub(super) what: What,
}

/// What it wants to see.
#[derive(Clone, Copy)]
pub(super) enum What {
    Terminal { wish: Wish, from: Option<u64>, size: Option<(u16, u16)> },
    Conversation { from: Option<Bookmark> },
}

impl What {
    /// The right that it needs.
    pub(super) fn needs(self) -> Capability {
        match self {
            Self::Conversation { .. } | Self::Terminal { wish: Wish::Watch, .. } => Capability::Observe,
            Self::Terminal { wish: Wish::Drive | Wish::DriveIfFree, .. } => Capability::Drive,
        }
    }
}

impl Viewings {
    pub(super) fn seat(&self, asker: Asker, viewing: u64) -> Option<Seat> {
        self.all.get(&(asker.link, viewing))?.seat.clone()
    }

    pub(super) fn of_link(&self, link: u64) -> Vec<u64> {
        self.all.keys().filter(|(of, _)| *of == link).map(|(_, viewing)| *viewing).collect()
    }

    /// Whether one more wish of this link is heard now.
    pub(super) fn hears(&mut self, link: u64) -> bool {
        let now = Instant::now();
        self.paces.entry(link).or_insert_with(|| Pace::of_wishes(now)).next(now).is_zero()
    }

    /// Nothing is remembered of a link that ended.
    pub(super) fn forget(&mut self, link: u64) {
        self.paces.remove(&link);
    }
}

/// How far a viewer has taken what it was sent.
#[derive(Default)]
pub(crate) struct Flow {
    taken: AtomicU64,
    room: Notify,
    over: AtomicBool,
}

impl Flow {
    /// It has taken so much in all.
    pub(super) fn took(&self, bytes: u64) {
        self.taken.fetch_max(bytes, Ordering::SeqCst);
        self.room.notify_one();
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.room.notify_one();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Whether more may be sent than was sent already.
    pub(crate) fn has_room(&self, sent: u64) -> bool {
        sent.saturating_sub(self.taken.load(Ordering::SeqCst)) < TERMINAL_WINDOW_BYTES
    }

    /// Waits for room, or for the end, and not for long.
    pub(crate) async fn wait(&self) {
        let _ = tokio::time::timeout(limits::VIEWER_LOOK, self.room.notified()).await;
    }
}
