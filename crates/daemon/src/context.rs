//! What every task of the daemon shares.

use std::path::PathBuf;
use std::sync::Arc;

use cede_agent::adapter::{Adapter, Surroundings};
use cede_carrier::endpoint::Endpoint;
use cede_seal::device::LocalDevice;
use cede_store::home::Home;
use cede_store::objects::Objects;
use cede_wire::id::{DeviceId, HandoffId};
use cede_wire::session::AgentKind;
use dashmap::DashMap;
use tokio::sync::{mpsc, oneshot};

use crate::actor::{Actor, Input};
use crate::clock::Clock;
use crate::receiving::Routed;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Context(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) local: Arc<LocalDevice>,
    pub(crate) home: Home,
    pub(crate) objects: Objects,
    pub(crate) endpoint: Endpoint,
    pub(crate) adapters: Vec<Box<dyn Adapter>>,
    pub(crate) surroundings: Surroundings,
    pub(crate) clock: Clock,
    pub(crate) state: PathBuf,
    /// Who reads the data streams of which handoff.
    pub(crate) routes: DashMap<HandoffId, (DeviceId, mpsc::Sender<Routed>)>,
    pub(crate) inputs: mpsc::Sender<Input>,
    /// The greeting is another from now on.
    pub(crate) greeting: tokio::sync::Notify,
    pub(crate) last_look: crate::sessions::LastLook,
}

/// The daemon stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the daemon stops")]
pub(crate) struct Stopping;

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
        self.inputs.send(Input::Call(call)).await.map_err(|_| Stopping)?;
        answered.await.map_err(|_| Stopping)
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
        tokio::task::spawn_blocking(move || work(&context)).await.map_err(|_| Stopping)
    }

    /// A directory of its own below the state directory.
    pub(crate) fn place(&self, kind: &str, name: &str) -> PathBuf {
        self.state.join(kind).join(name)
    }
}
