//! Recorded sessions of each agent, planted in a throw-away home, and the same sessions found again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cede_daemon::Surroundings;
use cede_daemon::recorded::{Story, plant};
use cede_wire::control::{Failure, SessionSummary, exit};
use cede_wire::session::AgentKind;

use crate::demo::evidence::Evidence;
use crate::demo::homes::{Device, QUIET, cannot};
use crate::fault;
use crate::limits::DEMO_FILES;

/// What was planted: the agent's id of each session, and why where there is none.
#[derive(Debug, Default)]
pub(super) struct Planted {
    /// The ids.
    pub(super) sessions: BTreeMap<AgentKind, String>,
    /// Agents without a session.
    pub(super) missing: BTreeMap<AgentKind, String>,
}

/// Plants one session of every agent with a program, all about `tree`.
pub(super) fn plant_all(device: &Device, tree: &Path) -> Planted {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut surroundings = Surroundings::plain(&device.home, &device.state().join("agents"), path);
    surroundings.variables.extend(QUIET.map(|(name, value)| (name.into(), value.into())));
    let story = Story::example("recorded", "recorded-model");
    let mut planted = Planted::default();
    for agent in AGENTS {
        match plant(agent, &surroundings, tree, [agent as u8; 16], &story) {
            Ok(native) => drop(planted.sessions.insert(agent, native.to_string())),
            Err(error) => drop(planted.missing.insert(agent, error.to_string())),
        }
    }
    planted
}

/// Adds the conversation as it lies in the home of this device.
pub(super) fn add_conversation(
    evidence: &mut Evidence,
    session: &SessionSummary,
    device: &Device,
) -> Result<(), Failure> {
    match session.agent {
        AgentKind::Files | AgentKind::Terminal => Ok(()),
        AgentKind::Codex => add_files(evidence, &device.home.join(".codex/sessions"), &session.native),
        AgentKind::ClaudeCode => add_files(evidence, &device.home.join(".claude/projects"), &session.native),
        AgentKind::OpenCode => add_export(evidence, &session.native, device),
    }
}

/// Every file whose path names the session: the transcript, and what lies beside it. Where the agent files it depends
/// on the directory it works in, so the part of the path before the session's name is not compared.
fn add_files(evidence: &mut Evidence, store: &Path, native: &str) -> Result<(), Failure> {
    let files = files_below(store).map_err(|error| cannot("read a conversation", &error))?;
    for file in files {
        let shown = file.to_string_lossy().into_owned();
        let Some(at) = shown.find(native) else { continue };
        let bytes = std::fs::read(&file).map_err(|error| cannot("read a conversation", &error))?;
        evidence.conversation_part(shown.get(at..).unwrap_or_default(), &bytes);
    }
    if evidence.conversation.is_empty() { Err(no_conversation(store, native)) } else { Ok(()) }
}

fn files_below(store: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut waiting) = (Vec::new(), vec![store.to_owned()]);
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() { waiting.push(entry.path()) } else { found.push(entry.path()) }
        }
        if found.len() > DEMO_FILES {
            return Err(std::io::Error::other("more files than the demo made"));
        }
    }
    Ok(found)
}

/// OpenCode keeps everything in one database; what it exports is the conversation. The directory is the device's own.
fn add_export(evidence: &mut Evidence, native: &str, device: &Device) -> Result<(), Failure> {
    let mut command = Command::new("opencode");
    command.env_clear().env("PATH", &device.path).env("HOME", &device.home).envs(QUIET);
    let output = command.current_dir(&device.home).args(["export", native]).output();
    let output = output.map_err(|error| cannot("ask opencode for a conversation", &error))?;
    let export: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| cannot("read what opencode exports", &std::io::Error::other(error)))?;
    let messages = export.get("messages").and_then(|messages| messages.as_array()).cloned().unwrap_or_default();
    for (number, message) in messages.iter().enumerate() {
        evidence.conversation_part(&format!("message {number}"), message.to_string().as_bytes());
    }
    if messages.is_empty() { Err(no_conversation(&device.home, native)) } else { Ok(()) }
}

fn no_conversation(place: &Path, native: &str) -> Failure {
    let why = format!("nothing in {} is of session {native}", place.display());
    fault::local(exit::FAILED, "the conversation is not where its agent keeps it", &why, "")
}

/// The agents of which a session is planted.
const AGENTS: [AgentKind; 3] = [AgentKind::Codex, AgentKind::ClaudeCode, AgentKind::OpenCode];
