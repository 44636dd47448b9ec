//! ClaudeCode.

use std::path::Path;

use cede_wire::session::{AgentKind, NativeId, Requirement, SessionInfo};

use crate::adapter::{
    Adapter, AgentError, Arrival, CannotResume, Installed, LeftoverProcess, Surroundings, Tombstone, Transcript,
};

/// ClaudeCode's sessions.
#[derive(Debug, Clone)]
pub struct ClaudeCodeAdapter;

impl ClaudeCodeAdapter {
    /// The sessions in these surroundings.
    pub fn new(_surroundings: &Surroundings) -> Self {
        Self
    }
}

fn unknown(native: &NativeId) -> AgentError {
    AgentError::Unknown { agent: AgentKind::ClaudeCode, native: native.clone() }
}

impl Adapter for ClaudeCodeAdapter {
    fn agent(&self) -> AgentKind {
        AgentKind::ClaudeCode
    }

    fn discover(&self) -> Result<Vec<SessionInfo>, AgentError> {
        Ok(Vec::new())
    }

    fn describe(&self, native: &NativeId) -> Result<SessionInfo, AgentError> {
        Err(unknown(native))
    }

    fn requirement(&self, native: &NativeId) -> Result<Requirement, AgentError> {
        Err(unknown(native))
    }

    fn capture(&self, native: &NativeId, _scratch: &Path) -> Result<Transcript, AgentError> {
        Err(unknown(native))
    }

    fn fence(&self, native: &NativeId, _tombstone: &Tombstone) -> Result<(), AgentError> {
        Err(unknown(native))
    }

    fn lift(&self, native: &NativeId) -> Result<(), AgentError> {
        Err(unknown(native))
    }

    fn is_fenced(&self, _native: &NativeId) -> Result<bool, AgentError> {
        Ok(false)
    }

    fn check(&self, _requirement: &Requirement) -> Result<(), CannotResume> {
        Ok(())
    }

    fn install(&self, arrival: &Arrival) -> Result<Installed, AgentError> {
        Err(unknown(&arrival.native))
    }

    fn resume_command(&self, _native: &NativeId, _workdir: &Path) -> String {
        String::new()
    }

    fn stop(&self, native: &NativeId) -> Result<(), AgentError> {
        Err(unknown(native))
    }

    fn leftovers(&self, _native: &NativeId) -> Vec<LeftoverProcess> {
        Vec::new()
    }
}
