//! What people see of a move: its phases, with who is in charge at each moment.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use cede_wire::control::{MoveSummary, Phase, Progress, ReplyBody};
use cede_wire::id::{HandoffId, SessionId};
use tokio::sync::mpsc;

use crate::actor::Actor;
use crate::limits;

/// The moves of one session in one direction: it may be on its way back before whoever sent it away has heard all of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Story {
    Going(SessionId),
    Coming(SessionId),
}

impl Story {
    pub(crate) fn session(self) -> SessionId {
        match self {
            Self::Going(session) | Self::Coming(session) => session,
        }
    }
}

/// A move under way, leaving or arriving.
pub(crate) struct MoveView {
    pub(crate) title: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) started: Instant,
    pub(crate) frozen: Option<Instant>,
    pub(crate) pause_ms: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_present: u64,
    pub(crate) timeline: Vec<Progress>,
    pub(crate) notes: Vec<String>,
    watchers: Vec<mpsc::Sender<ReplyBody>>,
}

/// Every move of this run.
#[derive(Default)]
pub(crate) struct Moves {
    /// Moves that began to leave in this life.
    pub(crate) begun: u64,
    pub(crate) fences: crate::fences::Fences,
    open: BTreeMap<Story, MoveView>,
    ended: VecDeque<Story>,
}

impl Moves {
    /// Begins, or begins anew, the story of a session's move.
    pub(crate) fn begin(&mut self, story: Story, title: &str, from: &str, to: &str) -> &mut MoveView {
        let over = self.ended.contains(&story);
        self.ended.retain(|ended| *ended != story);
        let (watchers, started) = match self.open.remove(&story) {
            // Who asked for it has waited since then.
            Some(old) if !over => (old.watchers, old.started),
            Some(old) => (old.watchers, Instant::now()),
            None => (Vec::new(), Instant::now()),
        };
        let view = MoveView {
            title: title.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            started,
            frozen: None,
            pause_ms: 0,
            bytes_sent: 0,
            bytes_present: 0,
            timeline: Vec::new(),
            notes: Vec::new(),
            watchers,
        };
        self.open.entry(story).insert_entry(view).into_mut()
    }

    pub(crate) fn get(&self, story: Story) -> Option<&MoveView> {
        self.open.get(&story)
    }

    pub(crate) fn get_mut(&mut self, story: Story) -> Option<&mut MoveView> {
        self.open.get_mut(&story)
    }

    /// Sends every later line of this move to a client too.
    pub(crate) fn watch(&mut self, story: Story, watcher: mpsc::Sender<ReplyBody>) {
        let view = self.open.entry(story).or_insert_with(|| MoveView {
            title: String::new(),
            from: String::new(),
            to: String::new(),
            started: Instant::now(),
            frozen: None,
            pause_ms: 0,
            bytes_sent: 0,
            bytes_present: 0,
            timeline: Vec::new(),
            notes: Vec::new(),
            watchers: Vec::new(),
        });
        view.watchers.push(watcher);
    }

    /// Says where a move stands. A phase appears in the timeline once a round; bytes of the same phase replace it.
    pub(crate) fn report(&mut self, story: Story, mut progress: Progress) {
        let Some(view) = self.open.get_mut(&story) else { return };
        progress.at_ms = millis(view.started);
        if progress.phase == Phase::Transferring {
            view.bytes_sent = view.bytes_sent.max(progress.bytes);
        }
        match view.timeline.last_mut() {
            Some(last) if last.phase == progress.phase && last.round == progress.round => {
                let began = last.at_ms;
                *last = Progress { at_ms: began, ..progress.clone() };
            }
            _ => view.timeline.push(progress.clone()),
        }
        self.tell(story, &ReplyBody::Progress(progress));
    }

    /// Sends a line to every client of this move. A client that does not read misses lines, never the end.
    pub(crate) fn tell(&mut self, story: Story, line: &ReplyBody) {
        let Some(view) = self.open.get_mut(&story) else { return };
        let gone = |sent| matches!(sent, Err(mpsc::error::TrySendError::Closed(_)));
        view.watchers.retain(|watcher| !gone(watcher.try_send(line.clone())));
    }

    /// Sends a last line to every client of this move, which goes on without them.
    pub(crate) fn dismiss(&mut self, story: Story, last: &ReplyBody) {
        let Some(view) = self.open.get_mut(&story) else { return };
        for watcher in view.watchers.drain(..) {
            if let Err(mpsc::error::TrySendError::Full(last)) = watcher.try_send(last.clone()) {
                // It reads slowly and still hears the end. One that went away has nothing to be told.
                tokio::spawn(async move { watcher.send(last).await });
            }
        }
    }

    /// Sends the last line to every client of this move; the story stays for `status`.
    pub(crate) fn end(&mut self, story: Story, last: &ReplyBody) {
        self.dismiss(story, last);
        if !self.open.contains_key(&story) {
            return;
        }
        self.ended.retain(|ended| *ended != story);
        self.ended.push_back(story);
        if self.ended.len() > limits::ENDED_MOVES
            && let Some(oldest) = self.ended.pop_front()
        {
            self.open.remove(&oldest);
        }
    }

    pub(crate) fn is_under_way(&self, story: Story) -> bool {
        self.open.contains_key(&story) && !self.ended.contains(&story)
    }

    /// The moves that have not ended.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = (Story, &MoveView)> {
        self.open.iter().map(|(story, view)| (*story, view)).filter(|(story, _)| !self.ended.contains(story))
    }

    /// The same, for people.
    pub(crate) fn summaries(&self) -> Vec<MoveSummary> {
        self.under_way().filter_map(|(_, view)| view.summary()).collect()
    }
}

impl MoveView {
    fn summary(&self) -> Option<MoveSummary> {
        let progress = self.timeline.last()?.clone();
        Some(MoveSummary {
            handoff: progress.handoff.unwrap_or(HandoffId::new([0; 16])),
            title: self.title.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            progress,
        })
    }
}

impl Actor {
    /// Reports a phase with the truth about who is in charge now.
    pub(crate) fn report(&mut self, story: Story, phase: Phase, bytes: (u64, u64), round: u32, note: &str) {
        let session = story.session();
        let arriving = || self.custodian.arriving(session).map(|destination| destination.attempt().handoff);
        let handoff = match story {
            Story::Going(_) => self.custodian.leaving(session).map(|source| source.offer().handoff),
            Story::Coming(_) => arriving().or_else(|| self.custodian.asked(session).map(|offer| offer.handoff)),
        };
        let handoff = handoff.or_else(|| self.moves.get(story)?.timeline.last()?.handoff);
        let progress = Progress {
            handoff,
            session,
            phase,
            round,
            bytes: bytes.0,
            total_bytes: bytes.1,
            in_charge: self.in_charge(session),
            at_ms: 0,
            note: note.to_owned(),
        };
        self.moves.report(story, progress);
    }

    /// Who may act for the session at this moment, by name.
    pub(crate) fn in_charge(&self, session: SessionId) -> String {
        use cede_core::custodian::Standing;
        if let Some(offer) = self.custodian.asked(session) {
            return self.device_name(offer.source);
        }
        match self.custodian.standing(session) {
            None => self.takes.owner(session).map_or_else(|| self.name.clone(), |owner| self.device_name(owner)),
            Some(Standing::InCharge | Standing::Leaving(_)) => self.name.clone(),
            Some(Standing::Elsewhere(owner) | Standing::SeizedBy(owner)) => self.device_name(owner),
            Some(Standing::ReleasedTo(to)) => format!("nobody yet (waiting for {})", self.device_name(to)),
            Some(Standing::Arriving | Standing::PayloadMissing) => format!("nobody yet (arriving at {})", self.name),
            Some(Standing::Unconfirmed) => "nobody (unconfirmed)".to_owned(),
        }
    }
}

pub(crate) fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
