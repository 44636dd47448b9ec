//! Putting an arrived session where Codex finds it.

use std::path::{Path, PathBuf};

use cede_wire::session::NativeId;

use super::store::id_in_name;
use super::{ANCESTORS, CodexAdapter, WriterLock, store, tombstone};
use crate::adapter::arrivals::{self, Relation};
use crate::adapter::scratch::Scratch;
use crate::adapter::{AgentError, Arrival, Installed, durable, fences};

/// The arrived files by what they are.
struct Arrived {
    main: (String, PathBuf, PathBuf),
    sub_agents: Vec<(String, PathBuf, PathBuf)>,
    ancestors: Vec<(String, PathBuf)>,
}

pub(super) fn install(adapter: &CodexAdapter, arrival: &Arrival) -> Result<Installed, AgentError> {
    let arrived = sort(arrival)?;
    no_stranger(adapter, &arrived, arrival)?;
    // Before the lock, which would keep Codex itself from unarchiving.
    take_out_of_archive(adapter, arrival.native.as_str())?;
    for (id, ..) in &arrived.sub_agents {
        take_out_of_archive(adapter, id)?;
    }
    let _lock = WriterLock::take(&adapter.store.home, arrival.native.as_str())?;
    for (id, local) in &arrived.ancestors {
        install_ancestor(adapter, id, local)?;
    }
    for (id, name, local) in &arrived.sub_agents {
        place(adapter, id, name, local)?;
    }
    let (id, name, local) = &arrived.main;
    let outcome = place(adapter, id, name, local)?;
    // Last: with the old provider back, a tombstone that still stood there would be taken for a conversation.
    let mine = std::iter::once(&arrived.main).chain(&arrived.sub_agents);
    mine.into_iter().try_for_each(|(_, _, local)| adapter.restore_provider(local))?;
    forget_copies(adapter, &arrival.native)?;
    adapter.fences.forget(&arrival.native)?;
    Ok(outcome)
}

fn sort(arrival: &Arrival) -> Result<Arrived, AgentError> {
    use std::os::unix::ffi::OsStrExt;
    let (mut main, mut sub_agents, mut ancestors) = (None, Vec::new(), Vec::new());
    for file in arrivals::files(&arrival.files)? {
        let name = PathBuf::from(std::ffi::OsStr::from_bytes(file.path.as_bytes()));
        let bad = |what: &str| AgentError::BadArrival(format!("{what}: {}", file.path.shown()));
        let id = id_in_name(&name).ok_or_else(|| bad("not a rollout's name"))?;
        let meta = store::meta_if_any(&file.local)?.ok_or_else(|| bad("no session record"))?;
        if meta.id != id {
            return Err(bad("the id inside is another one"));
        }
        if name.starts_with(ANCESTORS) {
            ancestors.push((id, file.local));
        } else if !name.starts_with("sessions") {
            return Err(bad("not a place for a session"));
        } else if id == arrival.native.as_str() {
            main = Some((id, name, file.local));
        } else if meta.session_id.as_deref() == Some(arrival.native.as_str()) {
            sub_agents.push((id, name, file.local));
        } else {
            return Err(bad("another session's file"));
        }
    }
    let main = main.ok_or_else(|| AgentError::BadArrival("the conversation itself is missing".to_owned()))?;
    Ok(Arrived { main, sub_agents, ancestors })
}

/// A sub-agent's conversation that is here belongs to this session; another session's is not touched in its name.
fn no_stranger(adapter: &CodexAdapter, arrived: &Arrived, arrival: &Arrival) -> Result<(), AgentError> {
    let store = &adapter.store;
    for (id, ..) in &arrived.sub_agents {
        let own = store.find(id)?.map(|path| tombstone::real(&path)).transpose()?;
        for place in [own, store.find_archived(id)?].into_iter().flatten() {
            let meta = if tombstone::is(&place)? { None } else { store::meta_if_any(&place)? };
            if meta.is_some_and(|meta| meta.session_id.as_deref() != Some(arrival.native.as_str())) {
                return Err(AgentError::BadArrival(format!("{id} is another session here")));
            }
        }
    }
    Ok(())
}

/// An ancestor is only read: it goes where Codex finds parents and refuses to resume. One that is here already,
/// and long enough, stays.
fn install_ancestor(adapter: &CodexAdapter, id: &str, local: &Path) -> Result<(), AgentError> {
    let store = &adapter.store;
    let own = store.find(id)?.map(|path| tombstone::real(&path)).transpose()?;
    let Some(here) = own.map_or_else(|| store.find_archived(id), |own| Ok(Some(own)))? else {
        let name = local.file_name().unwrap_or_default();
        return durable::copy(local, &store.archived().join(name));
    };
    match arrivals::relation(&here, local)? {
        Relation::Same | Relation::Longer => Ok(()),
        Relation::Shorter if here.starts_with(store.archived()) => durable::copy(local, &here),
        Relation::Shorter | Relation::Apart => {
            Err(AgentError::BadArrival(format!("the fork's ancestor {id} is here with other content")))
        }
    }
}

fn place(adapter: &CodexAdapter, id: &str, name: &Path, local: &Path) -> Result<Installed, AgentError> {
    let store = &adapter.store;
    let known = store.find(id)?.map_or_else(|| store.indexed(id), |place| Ok(Some(place)))?;
    let target = known.unwrap_or_else(|| store.home.join(name));
    let went_on = fences::keep_what_went_on(&target, tombstone::look)?;
    let here = tombstone::real(&target)?;
    if !durable::is_there(&here)? || tombstone::is(&here)? {
        durable::copy(local, &target)?;
        return Ok(Installed::New.beside(went_on));
    }
    let is_aside = here != target;
    let outcome = match arrivals::relation(&here, local)? {
        Relation::Same => Installed::Unchanged,
        Relation::Longer if !is_aside => {
            durable::remove(&fences::aside(&target))?;
            return Ok(Installed::Unchanged);
        }
        Relation::Shorter => Installed::Extended,
        Relation::Longer | Relation::Apart => Installed::Diverged { branch: keep_branch(&here, &target)? },
    };
    durable::copy(local, &target)?;
    durable::remove(&fences::aside(&target))?;
    Ok(outcome.beside(went_on))
}

/// Keeps the conversation that was here under a name of its own.
fn keep_branch(here: &Path, target: &Path) -> Result<PathBuf, AgentError> {
    let branch = fences::branch(target);
    if here == target {
        durable::link(here, &branch)?;
    } else {
        durable::rename(here, &branch)?;
    }
    Ok(branch)
}

/// A session that was archived, or kept there for its forks, goes back to its place before it is extended: Codex's
/// own unarchiving would later put the old copy over the new one.
fn take_out_of_archive(adapter: &CodexAdapter, id: &str) -> Result<(), AgentError> {
    let store = &adapter.store;
    let Some(archived) = store.find_archived(id)? else { return Ok(()) };
    match store.find(id)? {
        Some(place) if durable::same_file(&archived, &tombstone::real(&place)?)? => durable::remove(&archived),
        Some(place) => durable::rename(&archived, &fences::branch(&place)),
        None => unarchive(adapter, id, &archived),
    }
}

fn unarchive(adapter: &CodexAdapter, id: &str, archived: &Path) -> Result<(), AgentError> {
    let scratch = Scratch::new(&adapter.around.state)?;
    let arguments = ["unarchive", id].map(std::ffi::OsStr::new);
    adapter.around.run("codex", &arguments, &adapter.around.home, &scratch.path().join("said"))?;
    if durable::is_there(archived)? || adapter.store.find(id)?.is_none() {
        return Err(store::damaged("Codex did not take it out of its archive", archived));
    }
    Ok(())
}

fn forget_copies(adapter: &CodexAdapter, native: &NativeId) -> Result<(), AgentError> {
    let fence = adapter.fences.read(native)?;
    fence.into_iter().flat_map(|fence| fence.copies).try_for_each(|copy| durable::remove(&copy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Adapter, Surroundings};

    fn write(root: &Path, id: &str, session: &str, word: &str) -> PathBuf {
        let path = root.join(format!("sessions/2026/11/29/rollout-2026-11-29T15-34-35-{id}.jsonl"));
        let meta = format!(r#"{{"type":"session_meta","payload":{{"id":"{id}","session_id":"{session}"}}}}"#);
        durable::write(&path, format!("{meta}\n{word}\n").as_bytes()).unwrap();
        path
    }

    /// Shows: A-12
    #[test]
    fn another_session_is_not_written_over_in_the_name_of_a_sub_agent() {
        let place = tempfile::tempdir().unwrap();
        let [main, sub] = ["1", "2"].map(|digit| format!("01a227f1-9ddb-7bc3-bf83-8a6b9c83d05{digit}"));
        let (home, files) = (place.path().join("home"), place.path().join("files"));
        let adapter = CodexAdapter::new(&Surroundings::plain(&home, &place.path().join("state"), "/bin".into()));
        let victim = write(&home.join(".codex"), &sub, &sub, "mine");
        write(&files, &main, &main, "theirs");
        write(&files, &sub, &main, "theirs");
        let arrival = Arrival { native: NativeId::parse(&main).unwrap(), files, workdir: home.clone() };
        let refused = adapter.install(&arrival);
        assert_eq!(refused, Err(AgentError::BadArrival(format!("{sub} is another session here"))));
        assert!(std::fs::read_to_string(&victim).unwrap().ends_with("mine\n"));
        // The same file of this very session is brought up to date.
        write(&home.join(".codex"), &sub, &main, "mine");
        assert_eq!(adapter.install(&arrival), Ok(Installed::New));
        assert!(std::fs::read_to_string(&victim).unwrap().ends_with("theirs\n"));
    }
}
