//! Putting an arrived session into OpenCode's database, by OpenCode's own import.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cede_wire::session::NativeId;

use super::OpenCodeAdapter;
use super::canonical::{self, Arrived};
use super::database::Database;
use crate::adapter::limits::CLOSURE_FILES;
use crate::adapter::{AgentError, Arrival, Installed, durable, fences};

pub(super) fn install(adapter: &OpenCodeAdapter, arrival: &Arrival) -> Result<Installed, AgentError> {
    let arrived = sort(arrival)?;
    let scratch = adapter.scratch()?;
    let outcome = match Database::open(&adapter.database)? {
        None => Installed::New,
        Some(here) => {
            no_stranger(&here, &arrived)?;
            compare(adapter, &here, arrival, &arrived)?
        }
    };
    let in_charge = outcome == Installed::Unchanged && !adapter.fence_stands(&arrival.native)?;
    if !in_charge {
        replace(adapter, arrival, &arrived, scratch.path())?;
    }
    adapter.forget_fence(&arrival.native)?;
    Ok(outcome)
}

/// The sessions that arrived: the one that is meant first, then those that it started.
fn sort(arrival: &Arrival) -> Result<Vec<(Arrived, PathBuf)>, AgentError> {
    let entries = std::fs::read_dir(&arrival.files).map_err(|e| durable::world("read", &arrival.files, &e))?;
    let mut found = Vec::new();
    for entry in entries.flatten().take(CLOSURE_FILES) {
        let arrived = canonical::read(&entry.path())?;
        if entry.file_name().to_str() != Some(arrived.id.as_str()) || NativeId::parse(&arrived.id).is_none() {
            return Err(AgentError::BadArrival(format!("the id inside is another one: {}", entry.path().display())));
        }
        found.push((arrived, entry.path()));
    }
    let is_main = |arrived: &Arrived| arrived.id == arrival.native.as_str();
    found.sort_by_key(|(arrived, _)| (!is_main(arrived), arrived.id.clone()));
    match found.first() {
        Some((first, _)) if is_main(first) => {}
        _ => return Err(AgentError::BadArrival("the conversation itself is missing".to_owned())),
    }
    one_family(&found)?;
    Ok(found)
}

/// The sessions belong to each other and to no other one: what is not the main one was started by one of them.
fn one_family(found: &[(Arrived, PathBuf)]) -> Result<(), AgentError> {
    let ids: BTreeSet<&str> = found.iter().map(|(arrived, _)| arrived.id.as_str()).collect();
    let stranger = found.iter().enumerate().find(|(at, (arrived, _))| {
        let started_here = arrived.parent.as_deref().is_some_and(|parent| ids.contains(parent));
        if *at == 0 { arrived.parent.is_some() } else { !started_here }
    });
    stranger.map_or(Ok(()), |(_, (arrived, _))| {
        Err(AgentError::BadArrival(format!("{} belongs to another session", arrived.id)))
    })
}

/// What is here under an arrived id is deleted to make room, so it must stand in this family as it arrives.
fn no_stranger(here: &Database, arrived: &[(Arrived, PathBuf)]) -> Result<(), AgentError> {
    for (session, _) in arrived {
        if here.parent(&session.id)?.is_some_and(|parent| parent != session.parent) {
            return Err(AgentError::BadArrival(format!("{} is another session here", session.id)));
        }
    }
    Ok(())
}

fn compare(
    adapter: &OpenCodeAdapter,
    here: &Database,
    arrival: &Arrival,
    arrived: &[(Arrived, PathBuf)],
) -> Result<Installed, AgentError> {
    match here.session(&arrival.native) {
        Err(AgentError::Unknown { .. }) => return Ok(Installed::New),
        other => other.map(|_| ())?,
    }
    let Some((main, _)) = arrived.first() else { return Ok(Installed::New) };
    let ours = here.messages(arrival.native.as_str())?;
    let fenced = here.is_fenced(&arrival.native)?;
    if ours == main.messages || (ours.is_superset(&main.messages) && !fenced) {
        Ok(Installed::Unchanged)
    } else if ours.is_subset(&main.messages) {
        Ok(Installed::Extended)
    } else {
        Ok(Installed::Diverged { branch: keep_branch(adapter, arrival.native.as_str())? })
    }
}

/// Keeps what is here as an export that OpenCode can import elsewhere.
fn keep_branch(adapter: &OpenCodeAdapter, id: &str) -> Result<PathBuf, AgentError> {
    let scratch = adapter.scratch()?;
    let export = scratch.path().join("export.json");
    adapter.export(id, &export)?;
    let branch = fences::branch(&adapter.branches.join(format!("{id}.json")));
    durable::copy(&export, &branch)?;
    Ok(branch)
}

/// OpenCode's import never changes a message that it knows, so the old ones go first. In between, resuming finds
/// no session; the staged files stay until this is done, and doing it again ends the same way.
fn replace(
    adapter: &OpenCodeAdapter,
    arrival: &Arrival,
    arrived: &[(Arrived, PathBuf)],
    scratch: &Path,
) -> Result<(), AgentError> {
    for (session, _) in arrived {
        if known(adapter, &session.id)? {
            let arguments = ["session", "delete", &session.id].map(OsStr::new);
            adapter.around.run("opencode", &arguments, &arrival.workdir, &scratch.join("deleted"))?;
        }
    }
    if let Some(database) = Database::open_to_fence(&adapter.database)? {
        database.lift(&arrival.native)?;
    }
    for (session, parts) in arrived {
        let import = scratch.join(format!("{}.json", session.id));
        canonical::put_together(parts, &import)?;
        let arguments = [OsStr::new("import"), import.as_os_str()];
        adapter.around.run("opencode", &arguments, &arrival.workdir, &scratch.join("imported"))?;
    }
    verify(adapter, arrived)
}

fn known(adapter: &OpenCodeAdapter, id: &str) -> Result<bool, AgentError> {
    Database::open(&adapter.database)?.map_or(Ok(false), |database| Ok(database.parent(id)?.is_some()))
}

fn verify(adapter: &OpenCodeAdapter, arrived: &[(Arrived, PathBuf)]) -> Result<(), AgentError> {
    let failed = |text: String| AgentError::Program { program: "opencode", text };
    let database = Database::open_to_fence(&adapter.database)?;
    let database = database.ok_or_else(|| failed("imported into another database".to_owned()))?;
    for (session, _) in arrived {
        if database.messages(&session.id)? != session.messages {
            return Err(failed(format!("imported {} incompletely", session.id)));
        }
    }
    database.settle()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn arrived(id: &str, parent: Option<&str>) -> (Arrived, PathBuf) {
        let parent = parent.map(str::to_owned);
        (Arrived { id: id.to_owned(), parent, messages: BTreeSet::new() }, PathBuf::new())
    }

    /// Shows: A-12
    #[test]
    fn session_of_another_family_is_not_taken_for_a_sub_agent() {
        assert_eq!(one_family(&[arrived("s", None), arrived("c", Some("s")), arrived("d", Some("c"))]), Ok(()));
        for stranger in [arrived("v", None), arrived("v", Some("w"))] {
            assert!(matches!(one_family(&[arrived("s", None), stranger]), Err(AgentError::BadArrival(_))));
        }
        assert!(one_family(&[arrived("s", Some("v"))]).is_err(), "a sub-agent of a session here");
    }

    #[test]
    fn session_that_is_here_is_not_deleted_in_the_name_of_another_one() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("opencode.db");
        let rows = "create table session (id text, parent_id text);
            insert into session values ('s', null), ('c', 's'), ('victim', null);";
        Connection::open(&file).unwrap().execute_batch(rows).unwrap();
        let here = Database::open(&file).unwrap().unwrap();
        let family = [arrived("s", None), arrived("c", Some("s")), arrived("new", Some("s"))];
        assert_eq!(no_stranger(&here, &family), Ok(()));
        let stolen = no_stranger(&here, &[arrived("s", None), arrived("victim", Some("s"))]);
        assert_eq!(stolen, Err(AgentError::BadArrival("victim is another session here".to_owned())));
    }
}
