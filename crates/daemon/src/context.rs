//! What every task of the daemon shares.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cede_agent::adapter::{Adapter, Surroundings};
use cede_carrier::endpoint::Endpoint;
use cede_seal::device::LocalDevice;
use cede_store::home::Home;
use cede_store::objects::Objects;
use cede_store::stage::{Stage, StageError};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::PeerMessage;
use cede_wire::record::PlacedSession;
use cede_wire::session::{AgentKind, SessionInfo};
use dashmap::DashMap;
use tokio::sync::{mpsc, oneshot};

use crate::actor::{Actor, Input};
use crate::clock::Clock;
use crate::hands::Hands;
use crate::limits;
use crate::receiving::Routed;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Context(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) local: Arc<LocalDevice>,
    pub(crate) home: Home,
    pub(crate) objects: Objects,
    /// The words of letters.
    pub(crate) letters: Objects,
    pub(crate) tellings: crate::letters::Tellings,
    pub(crate) endpoint: Endpoint,
    pub(crate) adapters: Vec<Box<dyn Adapter>>,
    pub(crate) surroundings: Surroundings,
    pub(crate) clock: Clock,
    pub(crate) state: PathBuf,
    /// Who reads the data streams of which handoff.
    pub(crate) routes: DashMap<HandoffId, (DeviceId, mpsc::Sender<Routed>)>,
    /// Stages that are open: each only once.
    pub(crate) stages: Mutex<BTreeMap<HandoffId, Weak<Stage>>>,
    /// Captures under way: one of a session at a time.
    pub(crate) captures: Mutex<BTreeMap<SessionId, Weak<Mutex<()>>>>,
    /// By agent; see [`Context::fencing`].
    pub(crate) fencing: [Arc<tokio::sync::Mutex<()>>; AgentKind::ALL.len()],
    /// Those who work at the place of an attempt.
    pub(crate) hands: Mutex<BTreeMap<HandoffId, Hands>>,
    /// Where sessions lie that were handed over, here or away: an agent's own record names the directory of the
    /// device that wrote it.
    pub(crate) places: DashMap<SessionId, PathBuf>,
    pub(crate) inputs: mpsc::Sender<Input>,
    /// Where files lie that came, by device.
    pub(crate) received: PathBuf,
    /// Most bytes that are taken in one sending of files.
    pub(crate) receive_limit: u64,
    /// How long a question waits for the operator here.
    pub(crate) question_life: core::time::Duration,
    /// Where devices look for each other.
    pub(crate) scope: cede_carrier::discovery::Scope,
    /// What peers last said of their sessions.
    pub(crate) listings: crate::listings::Listings,
    /// The greeting is another from now on.
    pub(crate) greeting: tokio::sync::Notify,
    pub(crate) last_look: crate::sessions::LastLook,
    pub(crate) terminals: crate::terminals::Terminals,
    pub(crate) notices: crate::notices::Notices,
    /// A seat for each task that may run: its thread has it until all that the task started is gone.
    pub(crate) turns: Arc<tokio::sync::Semaphore>,
}

/// Why something that was begun has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stopping {
    /// The daemon was told to stop.
    #[error("the daemon stops")]
    Told,
    /// What was asked for ended by a fault of ours.
    #[error("fault of ours: it ended without a result")]
    Fault,
}

impl core::ops::Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Context {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// The adapter of an agent; none for a number that this build does not know.
    pub(crate) fn adapter(&self, agent: AgentKind) -> Option<&dyn Adapter> {
        self.adapters.iter().find(|a| a.agent() == agent).map(AsRef::as_ref)
    }

    /// Runs something on the actor and brings its answer. What it persisted or sent is drained before the next input.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Actor) -> T + Send + 'static,
    ) -> Result<T, Stopping> {
        let (answer, answered) = oneshot::channel();
        let call: Box<dyn FnOnce(&mut Actor) + Send> = Box::new(move |actor| {
            // The asker may be gone; what was done stays done.
            let _ = answer.send(question(actor));
        });
        self.inputs.send(Input::Call(call)).await.map_err(|_| Stopping::Told)?;
        answered.await.map_err(|_| Stopping::Told)
    }

    /// Runs something on the actor and does not wait.
    pub(crate) async fn tell(&self, what: impl FnOnce(&mut Actor) + Send + 'static) {
        // A daemon that stops has nobody left to tell.
        let _ = self.inputs.send(Input::Call(Box::new(what))).await;
    }

    /// Runs blocking work on a thread for it.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context) -> T + Send + 'static,
    ) -> Result<T, Stopping> {
        let context = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&context)).await;
        done.map_err(|error| if error.is_panic() { Stopping::Fault } else { Stopping::Told })
    }

    /// Those who work at the place of an attempt, whoever asks.
    pub(crate) fn hands(&self, handoff: HandoffId) -> Hands {
        let mut all = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, hands| !hands.is_idle());
        all.entry(handoff).or_default().clone()
    }

    /// The stage of a handoff; one that is in use is shared. Blocks.
    pub(crate) fn stage(&self, handoff: HandoffId) -> Result<Arc<Stage>, StageError> {
        let mut open = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stage) = open.get(&handoff).and_then(Weak::upgrade) {
            return Ok(stage);
        }
        let stage = Arc::new(patiently(|| self.home.stage(handoff))?);
        open.retain(|_, stage| stage.strong_count() > 0);
        open.insert(handoff, Arc::downgrade(&stage));
        Ok(stage)
    }

    /// What a capture of this session holds while it runs.
    pub(crate) fn capturing(&self, session: SessionId) -> Arc<Mutex<()>> {
        let mut all = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, running| running.strong_count() > 0);
        let running = all.get(&session).and_then(Weak::upgrade).unwrap_or_default();
        all.insert(session, Arc::downgrade(&running));
        running
    }

    /// Removes the stage of a handoff. One that cannot be removed now is forgotten with the old ones. Blocks.
    pub(crate) fn discard_stage(&self, handoff: HandoffId) {
        if let Err(error) = patiently(|| self.home.discard_stage(handoff)) {
            tracing::debug!(%error, "a stage was not removed");
        }
    }

    /// Remembers where a session lies that was handed over.
    pub(crate) fn locate(&self, placed: &PlacedSession) {
        if placed.root.is_some() {
            self.places.insert(placed.key.id(), crate::sessions::path_of(&placed.directory));
        }
    }

    /// The same session with the directory in which it lies on this device.
    pub(crate) fn located(&self, mut info: SessionInfo) -> SessionInfo {
        if let Some(place) = self.places.get(&info.key.id()) {
            info.directory = place.display().to_string();
        }
        info
    }

    /// Why something did not move, in words for another device: places below the home directory begin with `~`, as it knows them
    /// from its offers. Where that home lies is not for it.
    pub(crate) fn name_places_for_peers(&self, message: &mut PeerMessage) {
        if let PeerMessage::Refuse { detail, .. } | PeerMessage::TakeAnswer { answer: Err((_, detail)), .. } = message {
            *detail = below_home(detail, &self.surroundings.home);
        }
    }

    /// A directory of its own below the state directory.
    pub(crate) fn place(&self, kind: &str, name: &str) -> PathBuf {
        self.state.join(kind).join(name)
    }
}

fn below_home(text: &str, home: &Path) -> String {
    let home = cede_wire::path::escape(home.as_os_str().as_encoded_bytes());
    let (mut short, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(&home).filter(|_| home.len() > 1) {
        let (before, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + home.len()..).unwrap_or_default());
        short.push_str(before);
        let in_a_name = |c: char| c.is_alphanumeric() || "._-/".contains(c);
        let begins = short.chars().next_back().is_none_or(|c| !in_a_name(c));
        let ends = after.starts_with('/') || !after.starts_with(in_a_name);
        short.push_str(if begins && ends { "~" } else { &home });
        rest = after;
    }
    short + rest
}

/// What was looked for, or none where it is not there. What cannot be read is an error, and never absent.
pub(crate) fn found<T>(looked: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A thread that was told to end may hold a stage for a moment.
pub(crate) fn patiently<T>(attempt: impl Fn() -> Result<T, StageError>) -> Result<T, StageError> {
    for _ in 0..limits::STAGE_ATTEMPTS {
        match attempt() {
            Err(StageError::AlreadyOpen) => std::thread::sleep(limits::STAGE_PAUSE),
            result => return result,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_reads_of_no_home_where_it_lies() {
        let short = |text: &str| below_home(text, Path::new("/home/ann"));
        assert_eq!(short("cannot read /home/ann/src/a: denied"), "cannot read ~/src/a: denied");
        assert_eq!(short("/home/ann: denied, '/home/ann/b' too"), "~: denied, '~/b' too");
        for other in ["/home/anna/b", "/srv/home/ann/b", "~/b", ""] {
            assert_eq!(short(other), other);
        }
        assert_eq!(below_home("cannot read /etc", Path::new("/")), "cannot read /etc");
    }
}
