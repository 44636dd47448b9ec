//! The places of tasks that ended: the newest stay for a while, for whoever wants to look, the others go.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, SystemTime};

use cede_agent::tree::open_up;

use super::mark;
use crate::actor::Actor;
use crate::limits::{TASK_PLACES, TASK_PLACES_LIFE};

impl Actor {
    /// Removes the places that nobody needs any more. What waits or runs has its place until it is over.
    pub(super) fn collect_places(&self) {
        let open = self.tasks.waiting.keys().chain(self.tasks.running.keys()).copied();
        let needed: BTreeSet<OsString> =
            open.chain(self.tasks.book.cut_off()).map(|id| OsString::from(mark(id))).collect();
        let context = self.context.clone();
        tokio::spawn(async move {
            let removed = context.block(move |context| {
                let keeps = |name: &OsStr| needed.contains(name);
                collect(&context.state.join("tasks"), keeps, SystemTime::now(), TASK_PLACES, TASK_PLACES_LIFE)
            });
            match removed.await {
                Ok(Ok(0)) | Err(_) => {}
                Ok(Ok(removed)) => tracing::debug!(removed, "places of old tasks are gone"),
                // The next end of a task tries it again.
                Ok(Err(error)) => tracing::warn!(%error, "places of old tasks cannot be removed"),
            }
        });
    }
}

/// Keeps the newest `most` that are not older than `life`, and says how many went. A name that is kept is not counted.
fn collect(
    places: &Path,
    keeps: impl Fn(&OsStr) -> bool,
    now: SystemTime,
    most: usize,
    life: Duration,
) -> std::io::Result<usize> {
    let entries = match std::fs::read_dir(places) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut ended = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !keeps(&entry.file_name()) {
            ended.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    ended.sort();
    ended.reverse();
    let old = |at: &SystemTime| now.duration_since(*at).is_ok_and(|age| age > life);
    let gone = ended.iter().enumerate().filter(|(place, (at, _))| *place >= most || old(at));
    let (mut removed, mut failed) = (0, Ok(()));
    for (_, (_, place)) in gone {
        // What an agent made may be shut to its owner too.
        match open_up(place).and_then(|()| std::fs::remove_dir_all(place)) {
            Ok(()) => removed += 1,
            Err(error) => failed = Err(error),
        }
    }
    failed.map(|()| removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: E-7
    #[test]
    fn newest_places_stay_and_what_runs_has_its_own() {
        let home = tempfile::tempdir().unwrap();
        let places = home.path().join("tasks");
        let life = Duration::from_secs(1000);
        let collected = |now, most| collect(&places, |name| name == "runs", now, most, life).unwrap();
        assert_eq!(collected(SystemTime::now(), 1), 0, "there is no place yet");
        let begun = SystemTime::now();
        let age = |name: &str, seconds: u64| {
            let place = places.join(name);
            std::fs::create_dir_all(place.join("work")).unwrap();
            let at = begun - Duration::from_secs(seconds);
            std::fs::File::open(&place).unwrap().set_modified(at).unwrap();
        };
        age("runs", 5000);
        age("new", 10);
        age("older", 20);
        age("oldest", 30);
        let left = || {
            let mut left: Vec<_> =
                std::fs::read_dir(&places).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            left.sort();
            left
        };
        assert_eq!((collected(begun, 2), left()), (1, ["new", "older", "runs"].map(OsString::from).to_vec()));
        assert_eq!((collected(begun + life, 2), left()), (2, vec![OsString::from("runs")]));
    }
}
