//! A plain directory that a person named as a session: the smallest example of the port.
//!
//! There is no program behind it, so nothing resumes by itself and a fence is a mark in our own registry.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use cede_wire::custody::Head;
use cede_wire::id::Hash;
use cede_wire::session::{Activity, AgentKind, NativeId, Requirement, SessionInfo, SessionKey};

use crate::adapter::conversation::Conversation;
use crate::adapter::fences::{Fence, Fences};
use crate::adapter::limits::SESSIONS;
use crate::adapter::{
    Adapter, AgentError, Arrival, CannotResume, Installed, LeftoverProcess, Surroundings, Tombstone, Transcript,
    durable, text,
};

/// Directories as sessions.
#[derive(Debug, Clone)]
pub struct FilesAdapter {
    registry: PathBuf,
    fences: Fences,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Adopted {
    directory: PathBuf,
}

impl FilesAdapter {
    /// The directories that are registered below the surroundings' state.
    pub fn new(surroundings: &Surroundings) -> Self {
        Self { registry: surroundings.state.join("files"), fences: Fences::new(&surroundings.state, AgentKind::Files) }
    }

    /// Makes a session of a directory. One that is a session already keeps its id.
    ///
    /// # Errors
    /// [`AgentError`]; nothing changed.
    pub fn adopt(&self, directory: &Path, random: [u8; 16]) -> Result<NativeId, AgentError> {
        let directory = directory.canonicalize().map_err(|error| durable::world("open", directory, &error))?;
        if !directory.is_dir() || directory.to_str().is_none() {
            let doing = format!("make a session of {}", directory.display());
            return Err(AgentError::World { doing, why: "not a directory with a UTF-8 name".to_owned() });
        }
        for native in self.natives()? {
            match self.read(&native) {
                Ok(adopted) if adopted.directory == directory => return Ok(native),
                Ok(_) | Err(AgentError::Unknown { .. } | AgentError::Damaged { .. }) => {}
                // It may be the session of this very directory: a second one would stand beside it.
                Err(error) => return Err(error),
            }
        }
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let native = NativeId::parse(&digits).ok_or_else(|| AgentError::BadArrival(digits.clone()))?;
        self.write(&native, &Adopted { directory })?;
        Ok(native)
    }

    fn natives(&self) -> Result<Vec<NativeId>, AgentError> {
        let names = durable::list(&self.registry)?;
        let id = |path: &PathBuf| NativeId::parse(path.file_name()?.to_str()?.strip_suffix(".json")?);
        let mut natives: Vec<_> = names.iter().filter_map(id).take(SESSIONS).collect();
        natives.sort();
        Ok(natives)
    }

    fn entries(&self) -> Result<Vec<(NativeId, Adopted)>, AgentError> {
        let read = |native: NativeId| Some((native.clone(), self.read(&native).ok()?));
        Ok(self.natives()?.into_iter().filter_map(read).collect())
    }

    fn read(&self, native: &NativeId) -> Result<Adopted, AgentError> {
        let path = self.record(native);
        let bytes = std::fs::read(&path).map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                return AgentError::Unknown { agent: AgentKind::Files, native: native.clone() };
            }
            durable::world("read", &path, &error)
        })?;
        serde_json::from_slice(&bytes)
            .map_err(|error| AgentError::Damaged { what: error.to_string(), file: path.display().to_string() })
    }

    fn write(&self, native: &NativeId, adopted: &Adopted) -> Result<(), AgentError> {
        let bytes = serde_json::to_vec(adopted).map_err(|error| AgentError::World {
            doing: "encode a registry entry".to_owned(),
            why: error.to_string(),
        })?;
        durable::write(&self.record(native), &bytes)
    }

    fn record(&self, native: &NativeId) -> PathBuf {
        self.registry.join(format!("{native}.json"))
    }
}

impl Adapter for FilesAdapter {
    fn agent(&self) -> AgentKind {
        AgentKind::Files
    }

    fn discover(&self) -> Result<Vec<SessionInfo>, AgentError> {
        Ok(self.entries()?.into_iter().map(|(native, adopted)| info(native, &adopted)).collect())
    }

    fn describe(&self, native: &NativeId) -> Result<SessionInfo, AgentError> {
        Ok(info(native.clone(), &self.read(native)?))
    }

    fn conversation(&self, native: &NativeId) -> Result<Conversation, AgentError> {
        // Nobody speaks in a directory.
        Err(AgentError::Unknown { agent: AgentKind::Files, native: native.clone() })
    }

    fn requirement(&self, native: &NativeId) -> Result<Requirement, AgentError> {
        self.read(native)?;
        Ok(Requirement { agent: AgentKind::Files, version: String::new(), provider: None })
    }

    fn capture(&self, native: &NativeId, _scratch: &Path) -> Result<Transcript, AgentError> {
        let Adopted { directory } = self.read(native)?;
        if durable::is_link(&directory)? {
            return Err(AgentError::Link(directory.display().to_string()));
        }
        let head = Head { turn: 0, length: 0, hash: Hash::of(b"") };
        Ok(Transcript { files: Vec::new(), head, turns: 0, inventory: Vec::new() })
    }

    fn fence(&self, native: &NativeId, tombstone: &Tombstone) -> Result<(), AgentError> {
        self.read(native)?;
        self.fences.write(native, &Fence { text: tombstone.text(), files: Vec::new(), copies: Vec::new() })
    }

    fn lift(&self, native: &NativeId) -> Result<(), AgentError> {
        self.fences.forget(native)
    }

    fn is_fenced(&self, native: &NativeId) -> Result<bool, AgentError> {
        Ok(self.fences.read(native)?.is_some())
    }

    fn check(&self, _requirement: &Requirement) -> Result<(), CannotResume> {
        Ok(())
    }

    fn install(&self, arrival: &Arrival) -> Result<Installed, AgentError> {
        let arrived = Adopted { directory: arrival.workdir.clone() };
        let outcome = match self.read(&arrival.native) {
            Ok(here) if here == arrived => Installed::Unchanged,
            Ok(_) => Installed::Extended,
            Err(AgentError::Unknown { .. } | AgentError::Damaged { .. }) => Installed::New,
            Err(error) => return Err(error),
        };
        self.write(&arrival.native, &arrived)?;
        self.lift(&arrival.native)?;
        Ok(outcome)
    }

    fn resume_command(&self, _native: &NativeId, workdir: &Path) -> String {
        format!("cd {}", text::quoted(workdir))
    }

    fn stop(&self, _native: &NativeId) -> Result<(), AgentError> {
        Ok(())
    }

    fn leftovers(&self, _native: &NativeId) -> Vec<LeftoverProcess> {
        Vec::new()
    }
}

/// A directory as the session that it would be; nothing is registered.
///
/// # Errors
/// [`AgentError`] where it could be none.
pub fn unnamed(directory: &Path) -> Result<SessionInfo, AgentError> {
    let directory = directory.canonicalize().map_err(|error| durable::world("open", directory, &error))?;
    let name = Hash::of(directory.as_os_str().as_encoded_bytes()).short();
    let native = NativeId::parse(&name).ok_or(AgentError::BadArrival(name))?;
    Ok(info(native, &Adopted { directory }))
}

fn info(native: NativeId, adopted: &Adopted) -> SessionInfo {
    let changed = std::fs::metadata(&adopted.directory).and_then(|meta| meta.modified()).ok();
    let name = adopted.directory.file_name().unwrap_or_default().to_string_lossy();
    SessionInfo {
        key: SessionKey { agent: AgentKind::Files, native },
        title: text::title(&name),
        directory: adopted.directory.display().to_string(),
        turns: 0,
        bytes: 0,
        version: String::new(),
        updated_unix_ms: text::unix_ms(changed),
        activity: Activity::Idle { evidence: "a plain directory: no agent works in it".to_owned() },
    }
}
