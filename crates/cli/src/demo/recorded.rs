//! Recorded sessions of each agent, planted in a throw-away home.

use std::path::Path;

use cede_wire::control::{Failure, SessionSummary};

use crate::args::DemoAgent;
use crate::demo::evidence::Evidence;

/// A session that was planted.
#[derive(Debug, Clone)]
pub(super) struct Planted {
    /// Whose it is.
    pub(super) agent: DemoAgent,
    /// The agent's id.
    pub(super) native: String,
}

/// Plants one session of every agent, all about `tree`.
pub(super) fn plant_all(_home: &Path, _tree: &Path) -> Result<Vec<Planted>, Failure> {
    Ok(Vec::new())
}

/// Whether this is the one of `agent`.
pub(super) fn is(agent: DemoAgent, planted: &Planted) -> bool {
    planted.agent == agent
}

/// Adds the conversation as it lies in this home.
pub(super) fn add_conversation(
    _evidence: &mut Evidence,
    _session: &SessionSummary,
    _home: &Path,
) -> Result<(), Failure> {
    Ok(())
}
