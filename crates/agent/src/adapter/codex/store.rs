//! Where Codex keeps its files, and which file is whose.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use cede_wire::session::NativeId;

use crate::adapter::limits::{CLOSURE_FILES, STORE_DEPTH, STORE_ENTRIES};
use crate::adapter::{AgentError, durable};

use super::rollout::{self, Meta};
use super::tombstone;

/// Codex's home directory.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pub(super) home: PathBuf,
}

/// Everything that resuming a session needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Closure {
    /// The session's own file and those of its sub-agents, by the path where Codex looks.
    pub(super) own: Vec<PathBuf>,
    /// The files that its history begins in, nearest first, where their bytes are.
    pub(super) ancestors: Vec<PathBuf>,
}

impl Store {
    /// Every rollout below `sessions`, by the id in its name.
    pub(super) fn rollouts(&self) -> Result<BTreeMap<String, PathBuf>, AgentError> {
        let files = self.files()?.into_iter();
        Ok(files.filter_map(|path| Some((id_in_name(&path)?, path))).collect())
    }

    /// All that lies below `sessions`.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>, AgentError> {
        let mut found = Vec::new();
        walk(&self.sessions(), 0, &mut found)?;
        Ok(found)
    }

    /// The file of a session below `sessions`: where Codex looks, be it the session or a tombstone.
    pub(super) fn find(&self, native: &str) -> Result<Option<PathBuf>, AgentError> {
        Ok(self.rollouts()?.remove(native))
    }

    /// The file of an archived session.
    pub(super) fn find_archived(&self, native: &str) -> Result<Option<PathBuf>, AgentError> {
        let mut found = Vec::new();
        walk(&self.archived(), 0, &mut found)?;
        Ok(found.into_iter().find(|path| id_in_name(path).as_deref() == Some(native)))
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.home.join("sessions")
    }

    pub(super) fn archived(&self) -> PathBuf {
        self.home.join("archived_sessions")
    }

    /// The path that Codex's index names for a session. A returning file must stand exactly there: Codex looks
    /// nowhere else while the row exists.
    pub(super) fn indexed(&self, native: &str) -> Result<Option<PathBuf>, AgentError> {
        let file = self.home.join("state_5.sqlite");
        if !durable::is_there(&file)? {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let ask = || -> rusqlite::Result<Option<String>> {
            let index = Connection::open_with_flags(&file, flags)?;
            index.busy_timeout(INDEX_PATIENCE)?;
            let query = "select rollout_path from threads where id = ?1";
            index.query_row(query, [native], |row| row.get::<_, Option<String>>(0)).optional().map(Option::flatten)
        };
        let named = match ask() {
            Ok(named) => named,
            // An index of another form says nothing; one that was not read may name the place.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => None,
            Err(error) => return Err(unread(&file, &error)),
        };
        let of_it = |path: &PathBuf| {
            let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
            plain && path.starts_with(self.sessions()) && id_in_name(path).as_deref() == Some(native)
        };
        Ok(named.map(PathBuf::from).filter(of_it))
    }

    /// Changes the model provider in the index, where it has a row for the session; returns the one from before.
    pub(super) fn set_provider(&self, native: &str, provider: &str) -> Result<Option<String>, AgentError> {
        let file = self.home.join("state_5.sqlite");
        if !durable::is_there(&file)? {
            return Ok(None);
        }
        let change = || -> rusqlite::Result<Option<String>> {
            let index = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            index.busy_timeout(INDEX_PATIENCE)?;
            index.pragma_update(None, "synchronous", "full")?;
            let query = "select model_provider from threads where id = ?1";
            let before: Option<String> = index.query_row(query, [native], |row| row.get(0)).optional()?;
            if before.as_deref().is_some_and(|before| before != provider) {
                index.execute("update threads set model_provider = ?2 where id = ?1", [native, provider])?;
            }
            Ok(before)
        };
        let world = |error: rusqlite::Error| AgentError::World {
            doing: format!("change {}", file.display()),
            why: error.to_string(),
        };
        change().map_err(world)
    }

    /// The session's file, its sub-agents' and its ancestors'.
    pub(super) fn closure(&self, native: &NativeId, file: &Path) -> Result<Closure, AgentError> {
        let all = self.rollouts()?;
        let mut own = vec![file.to_owned()];
        let mut bases = Vec::new();
        for (id, path) in &all {
            let Some(meta) = meta_if_any(&tombstone::real(path)?)? else { continue };
            let is_main = id == native.as_str();
            let is_sub_agent = meta.session_id.as_deref() == Some(native.as_str()) && !is_main;
            if is_sub_agent && own.len() < CLOSURE_FILES {
                own.push(path.clone());
            }
            if is_main || is_sub_agent {
                bases.extend(meta.history_base);
            }
        }
        let own_ids: BTreeSet<String> = own.iter().filter_map(|path| id_in_name(path)).collect();
        let ancestors = self.ancestors(bases, &own_ids)?;
        Ok(Closure { own, ancestors })
    }

    fn ancestors(&self, mut bases: Vec<rollout::Base>, own: &BTreeSet<String>) -> Result<Vec<PathBuf>, AgentError> {
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
        while let Some(base) = bases.pop() {
            if own.contains(&base.thread_id) || found.contains_key(&base.thread_id) {
                continue;
            }
            let path = self.ancestor(&base)?;
            let meta = meta_if_any(&path)?;
            bases.extend(meta.and_then(|meta| meta.history_base));
            found.insert(base.thread_id, path);
            if found.len() > CLOSURE_FILES {
                return Err(damaged("more ancestors than allowed", &self.sessions()));
            }
        }
        Ok(found.into_values().collect())
    }

    fn ancestor(&self, base: &rollout::Base) -> Result<PathBuf, AgentError> {
        let own = self.find(&base.thread_id)?.map(|path| tombstone::real(&path)).transpose()?;
        let places = [own, self.find_archived(&base.thread_id)?];
        let long_enough = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.len() >= base.end_byte_offset);
        let found = places.into_iter().flatten().find(long_enough);
        found.ok_or_else(|| {
            damaged(&format!("the fork's ancestor {} is missing or cut", base.thread_id), &self.sessions())
        })
    }

    /// The sessions here whose history begins in this one.
    pub(super) fn has_forks(&self, native: &NativeId) -> Result<bool, AgentError> {
        for path in self.rollouts()?.values() {
            let base = meta_if_any(&tombstone::real(path)?)?.and_then(|meta| meta.history_base);
            if base.is_some_and(|base| base.thread_id == native.as_str()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// How long Codex may hold its index.
const INDEX_PATIENCE: Duration = Duration::from_secs(10);

fn unread(file: &Path, error: &rusqlite::Error) -> AgentError {
    AgentError::World { doing: format!("read {}", file.display()), why: error.to_string() }
}

/// The first record of some session's file. None where it is none, where it vanished, and where a person may not read it:
/// Codex cannot either.
pub(super) fn meta_if_any(path: &Path) -> Result<Option<Meta>, AgentError> {
    match rollout::meta(path) {
        Err(error) if is_shut(&error) => Ok(None),
        meta => meta.map_err(|error| durable::world("read", path, &error)),
    }
}

fn is_shut(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
}

/// The thread id at the end of `rollout-<time>-<id>.jsonl`.
pub(super) fn id_in_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    let id = stem.get(stem.len().checked_sub(36)?..)?;
    let shape = |(at, c): (usize, char)| if matches!(at, 8 | 13 | 18 | 23) { c == '-' } else { c.is_ascii_hexdigit() };
    id.chars().enumerate().all(shape).then(|| id.to_owned())
}

pub(super) fn damaged(what: &str, file: &Path) -> AgentError {
    AgentError::Damaged { what: what.to_owned(), file: file.display().to_string() }
}

/// Reads the first record or says what is wrong with the file.
pub(super) fn meta(path: &Path) -> Result<Meta, AgentError> {
    let meta = rollout::meta(path).map_err(|error| durable::world("read", path, &error))?;
    meta.ok_or_else(|| damaged("the first record is missing or is not a session's", path))
}

fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), AgentError> {
    let world = |error: std::io::Error| durable::world("read", directory, &error);
    let entries = match std::fs::read_dir(directory) {
        Err(error) if is_shut(&error) => return Ok(()),
        entries => entries.map_err(world)?,
    };
    for entry in entries {
        let entry = entry.map_err(world)?;
        let kind = match entry.file_type() {
            Err(error) if is_shut(&error) => continue,
            kind => kind.map_err(world)?,
        };
        if kind.is_dir() && depth < STORE_DEPTH {
            walk(&entry.path(), depth + 1, found)?;
        } else if kind.is_file() && found.len() < STORE_ENTRIES {
            found.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rollouts_own_name_holds_an_id() {
        let id = "01a227f1-9ddb-7bc3-bf83-8a6b9c83d05f";
        let named = |name: &str| id_in_name(Path::new(name));
        assert_eq!(named(&format!("/s/rollout-2026-11-29T15-34-35-{id}.jsonl")).as_deref(), Some(id));
        assert_eq!(named(&format!("/s/{id}.jsonl")), None);
        assert_eq!(named(&format!("/s/.rollout-2026-11-29T15-34-35-{id}.jsonl.cede-aside")), None);
        assert_eq!(named("/s/rollout-x.jsonl"), None);
        assert_eq!(named("/s/rollout-ééééééééééééééééééééééééééééééééé.jsonl"), None);
    }
}
