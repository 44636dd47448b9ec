//! What the daemon said last, and the rows that are made of it.

use cede_wire::control::{
    ApprovalSummary, DeviceSummary, LetterSummary, MoveSummary, SessionSummary, StatusReport, TransferSummary,
};

use crate::page::Span;
use crate::show::{approvals, devices, letters, moves, sessions, transfers};

/// The newest of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// None: nothing came yet.
    pub(super) status: Option<Box<StatusReport>>,
    pub(super) questions: Vec<ApprovalSummary>,
    /// Of this device and of the others, newest first.
    pub(super) sessions: Vec<SessionSummary>,
    pub(super) transfers: Vec<TransferSummary>,
    pub(super) letters: Vec<LetterSummary>,
}

/// A part of the screen with rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pane {
    Questions,
    Sessions,
    Moves,
    Messages,
    Devices,
}

impl Pane {
    /// From top to bottom.
    pub(super) const ALL: [Self; 5] = [Self::Questions, Self::Sessions, Self::Moves, Self::Messages, Self::Devices];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Questions => "Questions",
            Self::Sessions => "Sessions",
            Self::Moves => "Moves and files",
            Self::Messages => "Messages",
            Self::Devices => "Devices",
        }
    }

    /// The columns that are cut first.
    pub(super) const fn flexible(self) -> &'static [usize] {
        match self {
            Self::Questions => &[1],
            Self::Sessions => &[1, 6, 3],
            Self::Moves => &[1, 5],
            Self::Messages => &[5, 2],
            Self::Devices => &[1, 3],
        }
    }
}

impl Seen {
    /// Takes one screen, and what it says of sessions that are listed already.
    pub(super) fn take_status(&mut self, status: Box<StatusReport>) {
        for session in &status.sessions {
            match self.sessions.iter_mut().find(|known| known.id == session.id) {
                Some(known) => known.clone_from(session),
                None => self.sessions.push(session.clone()),
            }
        }
        self.order();
        self.questions.clone_from(&status.approvals);
        self.status = Some(status);
    }

    /// Takes all sessions, also those of the peers.
    pub(super) fn take_sessions(&mut self, sessions: Vec<SessionSummary>) {
        self.sessions = sessions;
        self.order();
    }

    fn order(&mut self) {
        self.sessions.sort_by_key(|session| (std::cmp::Reverse(session.updated_unix_ms), session.id));
    }

    /// What identifies each row, from top to bottom.
    pub(super) fn ids(&self, pane: Pane) -> Vec<String> {
        match pane {
            Pane::Questions => self.questions.iter().map(|one| one.id.to_string()).collect(),
            Pane::Sessions => self.sessions.iter().map(|one| one.id.to_string()).collect(),
            Pane::Moves => {
                let moves = self.moves().iter().map(move_id);
                moves.chain(self.open_transfers().map(|one| one.id.to_string())).collect()
            }
            Pane::Messages => self.letters.iter().map(|one| one.id.clone()).collect(),
            Pane::Devices => self.devices().map(|one| one.id.to_string()).collect(),
        }
    }

    /// The rows, in the order of [`Self::ids`].
    pub(super) fn rows(&self, pane: Pane, now: u64) -> Vec<Vec<Span>> {
        match pane {
            Pane::Questions => self.questions.iter().map(approvals::line).collect(),
            Pane::Sessions => self.sessions.iter().map(|one| sessions::listed(one, now)).collect(),
            Pane::Moves => {
                let moves = self.moves().iter().map(moves::row);
                moves.chain(self.open_transfers().map(transfers::under_way)).collect()
            }
            Pane::Messages => self.letters.iter().map(|one| letters::row(one, now)).collect(),
            Pane::Devices => self.devices().map(devices::row).collect(),
        }
    }

    pub(super) fn question(&self, id: &str) -> Option<&ApprovalSummary> {
        self.questions.iter().find(|one| one.id.to_string() == id)
    }

    pub(super) fn session(&self, id: &str) -> Option<&SessionSummary> {
        self.sessions.iter().find(|one| one.id.to_string() == id)
    }

    pub(super) fn device(&self, id: &str) -> Option<&DeviceSummary> {
        self.devices().find(|one| one.id.to_string() == id)
    }

    pub(super) fn transfer(&self, id: &str) -> Option<&TransferSummary> {
        self.transfers.iter().find(|one| one.id.to_string() == id)
    }

    pub(super) fn moving(&self, id: &str) -> Option<&MoveSummary> {
        self.moves().iter().find(|one| move_id(one) == id)
    }

    pub(super) fn moves(&self) -> &[MoveSummary] {
        self.status.as_ref().map_or(&[], |status| &status.moves)
    }

    pub(super) fn peers(&self) -> &[DeviceSummary] {
        self.status.as_ref().map_or(&[], |status| &status.peers)
    }

    fn devices(&self) -> impl Iterator<Item = &DeviceSummary> {
        self.status.iter().flat_map(|status| std::iter::once(&status.device).chain(&status.peers))
    }

    fn open_transfers(&self) -> impl Iterator<Item = &TransferSummary> {
        self.transfers.iter().filter(|one| transfers::is_open(one))
    }
}

/// By what a move is cancelled: before there is an attempt, its session.
fn move_id(moving: &MoveSummary) -> String {
    moving.progress.handoff.map_or_else(|| moving.progress.session.to_string(), |handoff| handoff.to_string())
}
