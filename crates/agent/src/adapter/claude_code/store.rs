//! Where Claude Code keeps its sessions.

use std::path::{Path, PathBuf};

use cede_wire::session::{AgentKind, NativeId};

use super::slug;
use crate::adapter::limits::STORE_ENTRIES;
use crate::adapter::{AgentError, TranscriptFile, arrivals, durable};

/// Claude Code's home directory.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pub(super) home: PathBuf,
}

impl Store {
    /// Every transcript of every project.
    pub(super) fn transcripts(&self) -> Vec<(NativeId, PathBuf)> {
        self.files().filter_map(|file| Some((id_in_name(&file)?, file))).collect()
    }

    /// All that lies in the projects.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let projects = entries(&self.projects());
        projects.into_iter().flat_map(|project| entries(&project)).take(STORE_ENTRIES)
    }

    /// Every place where a session lies; more than one confuses Claude Code.
    pub(super) fn places(&self, native: &NativeId) -> Result<Vec<PathBuf>, AgentError> {
        let name = format!("{native}.jsonl");
        let mut places = Vec::new();
        for project in durable::list(&self.projects())? {
            let file = project.join(&name);
            let looked = durable::found(std::fs::metadata(&file));
            if looked.map_err(|error| durable::world("look at", &file, &error))?.is_some_and(|meta| meta.is_file()) {
                places.push(file);
            }
        }
        places.sort();
        Ok(places)
    }

    /// The one place of a session.
    pub(super) fn place(&self, native: &NativeId) -> Result<PathBuf, AgentError> {
        match self.places(native)?.as_slice() {
            [] => Err(AgentError::Unknown { agent: AgentKind::ClaudeCode, native: native.clone() }),
            [place] => Ok(place.clone()),
            [first, second, ..] => Err(AgentError::Damaged {
                what: format!("the session lies in two projects, keep one; the other is {}", second.display()),
                file: first.display().to_string(),
            }),
        }
    }

    /// Where a session that is worked on in this directory belongs.
    pub(super) fn home_of(&self, native: &NativeId, workdir: &Path) -> Result<PathBuf, AgentError> {
        let physical = workdir.canonicalize().map_err(|error| durable::world("open", workdir, &error))?;
        Ok(self.projects().join(slug::of(&physical)).join(format!("{native}.jsonl")))
    }

    fn projects(&self) -> PathBuf {
        self.home.join("projects")
    }
}

/// The directory beside a transcript with sub-agents and large tool results.
pub(super) fn side_directory(place: &Path) -> PathBuf {
    place.with_extension("")
}

/// The files in it.
pub(super) fn side_files(place: &Path) -> Result<Vec<TranscriptFile>, AgentError> {
    let directory = side_directory(place);
    if durable::is_directory(&directory)? { arrivals::files(&directory) } else { Ok(Vec::new()) }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(directory).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).take(STORE_ENTRIES).collect()
}

fn id_in_name(file: &Path) -> Option<NativeId> {
    let stem = file.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    let shape = stem.len() == 36 && stem.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    shape.then(|| NativeId::parse(stem)).flatten()
}
