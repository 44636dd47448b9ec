//! Putting an arrived session where Claude Code finds it.

use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{CONVERSATION, ClaudeCodeAdapter, SIDE, live, store, tombstone};
use crate::adapter::arrivals::{self, Relation};
use crate::adapter::limits::RECORD_HEAD_BYTES;
use crate::adapter::{AgentError, Arrival, Installed, durable, fences, lines};

pub(super) fn install(adapter: &ClaudeCodeAdapter, arrival: &Arrival) -> Result<Installed, AgentError> {
    let staged = arrival.files.join(CONVERSATION);
    belongs_to(&staged, arrival)?;
    let target = adapter.store.home_of(&arrival.native, &arrival.workdir)?;
    let mut outcome = Installed::New;
    let mut old = Vec::new();
    let mut went_on = None;
    for place in adapter.store.places(&arrival.native)? {
        went_on = fences::keep_what_went_on(&place, tombstone::look)?.or(went_on);
        let here = tombstone::real(&place)?;
        if tombstone::is(&here)? {
            old.push((place, true));
            continue;
        }
        let relation = arrivals::relation(&here, &staged)?;
        match relation {
            Relation::Longer if here == place => return settle(adapter, arrival, &place),
            Relation::Same if here == target => return settle(adapter, arrival, &place),
            Relation::Same => outcome = Installed::Unchanged,
            Relation::Shorter => outcome = Installed::Extended,
            Relation::Longer | Relation::Apart => outcome = Installed::Diverged { branch: keep_branch(&here, &place)? },
        }
        old.push((place, matches!(relation, Relation::Longer | Relation::Apart)));
    }
    end_stale(adapter, arrival)?;
    // What still worked may have ended a turn meanwhile.
    for (place, kept) in &old {
        went_on = fences::keep_what_went_on(place, tombstone::look)?.or(went_on);
        if !kept && has_more(place, &staged)? {
            outcome = Installed::Diverged { branch: keep_branch(place, place)? };
        }
    }
    went_on = copy_side_files(arrival, &target)?.or(went_on);
    durable::copy(&staged, &target)?;
    for (place, _) in old {
        if place != target {
            durable::remove(&place)?;
        }
        durable::remove(&fences::aside(&place))?;
    }
    adapter.forget_fence(&arrival.native)?;
    Ok(outcome.beside(went_on))
}

/// The session is here and in charge already; only what an interrupted return left is cleared away.
fn settle(adapter: &ClaudeCodeAdapter, arrival: &Arrival, place: &Path) -> Result<Installed, AgentError> {
    durable::remove(&fences::aside(place))?;
    adapter.forget_fence(&arrival.native)?;
    Ok(Installed::Unchanged)
}

fn belongs_to(staged: &Path, arrival: &Arrival) -> Result<(), AgentError> {
    let bad = |what: &str| AgentError::BadArrival(what.to_owned());
    let file = durable::found(std::fs::File::open(staged)).map_err(|error| durable::world("open", staged, &error))?;
    let file = file.ok_or_else(|| bad("the conversation is missing"))?;
    let mut reader = BufReader::new(file);
    while let Some(line) =
        lines::next(&mut reader, RECORD_HEAD_BYTES).map_err(|error| durable::world("read", staged, &error))?
    {
        let row = serde_json::from_slice::<Value>(&line.head).unwrap_or_default();
        match row.get("sessionId").and_then(Value::as_str) {
            Some(_) if row.get("cedeTombstone").is_some() => return Err(bad("a tombstone instead of a conversation")),
            Some(id) if id == arrival.native.as_str() => return Ok(()),
            // A resumed session may begin with rows of the one that it was copied from.
            Some(_) | None => {}
        }
    }
    Err(bad("no row names the session"))
}

/// A process that still has the old conversation in memory would write its next turn beside the new ones.
fn end_stale(adapter: &ClaudeCodeAdapter, arrival: &Arrival) -> Result<(), AgentError> {
    let found = live::of(&adapter.store.home, arrival.native.as_str());
    if found.is_empty() { Ok(()) } else { adapter.end(&found) }
}

/// What is here and not in what arrives is kept: a sub-agent may have gone on where the session is away.
fn copy_side_files(arrival: &Arrival, target: &Path) -> Result<Option<PathBuf>, AgentError> {
    let staged = arrival.files.join(SIDE);
    if !durable::is_directory(&staged)? {
        return Ok(None);
    }
    let mut kept = None;
    let directory = store::side_directory(target);
    for file in arrivals::files(&staged)? {
        let to = directory.join(Path::new(std::ffi::OsStr::from_bytes(file.path.as_bytes())));
        let here = durable::is_there(&to)?.then(|| arrivals::relation(&to, &file.local)).transpose()?;
        if matches!(here, Some(Relation::Longer | Relation::Apart)) {
            kept = Some(fences::keep(&to)?);
        }
        if here != Some(Relation::Same) {
            durable::copy(&file.local, &to)?;
        }
    }
    Ok(kept)
}

/// Whether a conversation without a fence holds what does not arrive.
fn has_more(place: &Path, staged: &Path) -> Result<bool, AgentError> {
    let stands = durable::is_there(place)? && !tombstone::is(place)?;
    Ok(stands && matches!(arrivals::relation(place, staged)?, Relation::Longer | Relation::Apart))
}

fn keep_branch(here: &Path, place: &Path) -> Result<PathBuf, AgentError> {
    let branch = fences::branch(place);
    if here == place {
        durable::link(here, &branch)?;
    } else {
        durable::rename(here, &branch)?;
    }
    Ok(branch)
}
