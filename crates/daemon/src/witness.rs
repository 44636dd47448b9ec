//! Where the store stood last, noted outside of it: a copy or an older state of it is noticed by that.
//!
//! One rule: the note may only lag. A mark is durable in the journal before it is noted here; so a journal that is behind the
//! note is an older one, and a journal with marks and no note at its place was brought there. Source: SPEC H-26.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cede_mesh::membership::MembershipLog;
use cede_wire::id::{Hash, Incarnation, MeshId};
use cede_wire::record::{Doubt, Record};
use serde::{Deserialize, Serialize};

use crate::clock::{NoRandomness, random};
use crate::limits;

/// How often the store was marked, and with what: the newest one in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) count: u64,
    pub(crate) nonce: [u8; 16],
}

impl Mark {
    /// The newest mark of a journal.
    pub(crate) fn last(records: &[Record]) -> Option<Self> {
        records.iter().rev().find_map(|record| {
            let Record::Marked { count, nonce } = record else { return None };
            Some(Self { count: *count, nonce: *nonce })
        })
    }

    /// One that follows this and another one.
    fn after(self, other: Option<Self>) -> Result<Self, NoRandomness> {
        let count = self.count.max(other.map_or(0, |other| other.count)).saturating_add(1);
        Ok(Self { count, nonce: random()? })
    }

    pub(crate) fn record(self) -> Record {
        Record::Marked { count: self.count, nonce: self.nonce }
    }
}

/// The note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    version: u32,
    /// The state directory.
    path: Vec<u8>,
    /// The machine, so that a home directory that was copied with its notes is noticed.
    machine: String,
    /// The start of the machine in which it was noted, for people.
    boot: String,
    incarnation: Incarnation,
    mark: Mark,
    /// The longest membership log that this store held, of this mesh.
    members: u64,
    /// The mesh; none where it belonged to none.
    #[serde(default)]
    mesh: Option<MeshId>,
}

/// How long the membership log of a mesh is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) mesh: Option<MeshId>,
    pub(crate) length: u64,
}

impl Members {
    /// Those of a journal's log.
    pub(crate) fn of(log: Option<&MembershipLog>) -> Self {
        log.map_or_else(Self::default, |log| Self { mesh: Some(log.mesh()), length: log.length() })
    }
}

/// What the note says of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) doubt: Option<Doubt>,
    /// Whether the membership log is the longest that is known.
    pub(crate) members_whole: bool,
}

/// The note of one store. Clones write the same one.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    file: PathBuf,
    note: Arc<Mutex<Note>>,
    before: Option<Note>,
    /// False: nothing can be noted there, so nothing is marked either.
    writable: bool,
    writing: Arc<Mutex<()>>,
}

impl Witness {
    /// Reads the note of the store at `state`. Blocks.
    pub(crate) fn open(directory: &Path, state: &Path, incarnation: Incarnation) -> Self {
        let state = std::fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
        let path = state.as_os_str().as_bytes().to_vec();
        let file = directory.join(format!("{}.json", &Hash::of(&path).to_string()[..32]));
        let writable = make(directory).and_then(|()| probe(directory)).is_ok();
        if !writable {
            tracing::warn!(place = %directory.display(), "nothing can be noted there: a copy of this device's state goes unnoticed");
        }
        let before = read(&file).filter(|note| note.path == path);
        let nothing = Mark { count: 0, nonce: [0; 16] };
        let (machine, boot) = (machine(), read_line(Path::new("/proc/sys/kernel/random/boot_id")));
        let note = Note { version: 1, path, machine, boot, incarnation, mark: nothing, members: 0, mesh: None };
        Self { file, note: Arc::new(Mutex::new(note)), before, writable, writing: Arc::default() }
    }

    /// Holds a journal against the note.
    pub(crate) fn look(&self, records: &[Record], members: Members) -> Found {
        let (machine, incarnation) = {
            let note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
            (note.machine.clone(), note.incarnation)
        };
        let same_life = |note: &Note| note.machine == machine && note.incarnation == incarnation;
        let Some(mark) = Mark::last(records) else {
            // This store was marked once, and its journal knows of no mark: it is from before.
            let older = self.before.as_ref().is_some_and(|note| same_life(note) && note.mark.count > 0);
            return Found { doubt: older.then_some(Doubt::RolledBack), members_whole: !older };
        };
        let doubt = match &self.before {
            // Where nothing can be noted, no note proves nothing.
            None => self.writable.then_some(Doubt::Copied),
            Some(note) if !same_life(note) => Some(Doubt::Copied),
            Some(note) if note.mark.count > mark.count => Some(Doubt::RolledBack),
            Some(note) if note.mark.count == mark.count && note.mark.nonce != mark.nonce => Some(Doubt::RolledBack),
            Some(_) => None,
        };
        let members_whole = self.before.as_ref().is_none_or(|note| note.knows_no_more(members));
        Found { doubt, members_whole }
    }

    /// The mark that the journal is to hold next; none where nothing can be noted.
    pub(crate) fn next(&self, last: Option<Mark>) -> Option<Mark> {
        let nothing = Mark { count: 0, nonce: [0; 16] };
        if last.is_none() && self.before.is_none() && !self.begins() {
            return None;
        }
        self.writable.then(|| last.unwrap_or(nothing).after(self.before.as_ref().map(|note| note.mark)).ok()).flatten()
    }

    /// A journal that was never marked is marked only beside a note: power that fails between the two makes no copy of it.
    fn begins(&self) -> bool {
        let note = self.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.writable && write(&self.file, &note).is_ok()
    }

    /// Notes a mark that is durable in the journal. Blocks.
    pub(crate) fn note(&self, mark: Mark, members: Members) {
        {
            let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
            if mark.count < note.mark.count {
                return;
            }
            note.mark = mark;
            let earlier = self.before.iter().filter(|before| before.is_of(members.mesh)).map(|before| before.members);
            let earlier = earlier.chain(note.is_of(members.mesh).then_some(note.members));
            // The log of another mesh is not an older one of this.
            note.members = earlier.fold(members.length, u64::max);
            note.mesh = members.mesh;
        }
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let note = self.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = write(&self.file, &note) {
            // It lags, which is allowed.
            tracing::warn!(%error, "where this device stands was not noted outside of its state");
        }
    }
}

impl Note {
    /// Whether its membership log may be an earlier one of this mesh. Notes of old named none.
    fn is_of(&self, mesh: Option<MeshId>) -> bool {
        self.mesh == mesh || self.mesh.is_none() && mesh.is_some()
    }

    fn knows_no_more(&self, members: Members) -> bool {
        self.is_of(members.mesh) && self.members <= members.length
    }
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn probe(directory: &Path) -> io::Result<()> {
    let probe = directory.join(format!("probe-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&probe);
    let removed = std::fs::remove_file(&probe);
    made.and(removed)
}

fn read(file: &Path) -> Option<Note> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(limits::NOTE_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn write(file: &Path, note: &Note) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    out.write_all(&serde_json::to_vec(note)?)?;
    out.sync_all()?;
    std::fs::rename(&new, file)?;
    file.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// The machine, by a hash: the id itself is nobody else's business.
fn machine() -> String {
    let files = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let id = files.iter().map(|file| read_line(Path::new(file))).find(|id| !id.is_empty());
    id.map_or_else(String::new, |id| Hash::of(format!("cede place {id}").as_bytes()).to_string())
}

fn read_line(file: &Path) -> String {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(limits::NOTE_BYTES).read_to_string(&mut text));
    if read.is_ok() { text.trim().to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(length: u64) -> Members {
        Members { mesh: Some(MeshId::new([5; 32])), length }
    }

    struct Place {
        root: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("state")).unwrap();
            Self { root }
        }

        fn open(&self, state: &str) -> Witness {
            Witness::open(&self.root.path().join("notes"), &self.root.path().join(state), Incarnation::new([7; 16]))
        }

        /// One run: looks, marks, notes.
        fn run(&self, records: &mut Vec<Record>) -> Option<Doubt> {
            let witness = self.open("state");
            let found = witness.look(records, of(3));
            let mark = witness.next(Mark::last(records)).unwrap();
            records.push(mark.record());
            witness.note(mark, of(3));
            found.doubt
        }
    }

    /// Shows: H-26
    #[test]
    fn restart_is_no_doubt_and_a_note_that_lags_is_none() {
        let (place, mut records) = (Place::new(), Vec::new());
        assert_eq!(place.run(&mut records), None);
        assert_eq!(place.run(&mut records), None);
        // The power fails after the journal and before the note.
        let mark = place.open("state").next(Mark::last(&records)).unwrap();
        records.push(mark.record());
        assert_eq!(place.run(&mut records), None);
        assert_eq!(place.run(&mut records), None);
    }

    /// Shows: H-26
    #[test]
    fn power_that_fails_after_the_first_mark_makes_no_copy() {
        let (place, mut records) = (Place::new(), Vec::new());
        records.push(place.open("state").next(None).unwrap().record());
        assert_eq!(place.run(&mut records), None);
        // Where the first note cannot be written, nothing is marked.
        let other = Place::new();
        std::fs::create_dir_all(other.root.path().join("notes")).unwrap();
        let witness = other.open("state");
        std::fs::create_dir(witness.file.with_extension("new")).unwrap();
        assert_eq!(witness.next(None), None);
    }

    /// Shows: H-26
    #[test]
    fn store_that_was_put_back_is_noticed_also_when_it_went_on_since() {
        let (place, mut records) = (Place::new(), Vec::new());
        place.run(&mut records);
        let mut old = records.clone();
        place.run(&mut records);
        assert_eq!(place.open("state").look(&old, of(3)).doubt, Some(Doubt::RolledBack));
        old.push(Mark { count: Mark::last(&records).unwrap().count, nonce: [1; 16] }.record());
        assert_eq!(place.open("state").look(&old, of(3)).doubt, Some(Doubt::RolledBack));
        assert_eq!(place.run(&mut old), Some(Doubt::RolledBack));
        assert_eq!(place.run(&mut old), None, "what was noticed is in the journal; the note follows it");
    }

    /// Shows: H-26
    #[test]
    fn store_at_another_place_or_of_another_life_or_machine_is_a_copy() {
        let (place, mut records) = (Place::new(), Vec::new());
        place.run(&mut records);
        std::fs::create_dir(place.root.path().join("elsewhere")).unwrap();
        assert_eq!(place.open("elsewhere").look(&records, of(3)).doubt, Some(Doubt::Copied));
        let (notes, state) = (place.root.path().join("notes"), place.root.path().join("state"));
        let other = Witness::open(&notes, &state, Incarnation::new([8; 16]));
        assert_eq!(other.look(&records, of(3)).doubt, Some(Doubt::Copied));
        let there = place.open("state");
        there.note.lock().unwrap().machine = "another".to_owned();
        assert_eq!(there.look(&records, of(3)).doubt, Some(Doubt::Copied));
        std::fs::remove_dir_all(&notes).unwrap();
        assert_eq!(place.open("state").look(&records, of(3)).doubt, Some(Doubt::Copied));
    }

    /// Shows: H-26
    #[test]
    fn membership_that_was_longer_once_is_known() {
        let (place, mut records) = (Place::new(), Vec::new());
        place.run(&mut records);
        assert!(place.open("state").look(&records, of(3)).members_whole);
        assert!(!place.open("state").look(&records, of(2)).members_whole);
    }

    /// Shows: H-26
    #[test]
    fn membership_of_a_mesh_that_was_left_is_no_measure_for_the_next_one() {
        let (place, mut records) = (Place::new(), Vec::new());
        place.run(&mut records);
        let next = Members { mesh: Some(MeshId::new([6; 32])), length: 1 };
        let witness = place.open("state");
        assert!(!witness.look(&records, next).members_whole, "an older state may be of an earlier mesh");
        for members in [Members::default(), next] {
            let witness = place.open("state");
            let mark = witness.next(Mark::last(&records)).unwrap();
            records.push(mark.record());
            witness.note(mark, members);
        }
        assert!(place.open("state").look(&records, next).members_whole);
        assert!(!place.open("state").look(&records, of(9)).members_whole);
    }

    /// Shows: H-26
    #[test]
    fn journal_from_before_the_first_mark_is_an_older_one() {
        let (place, mut records) = (Place::new(), Vec::new());
        assert_eq!(place.run(&mut records), None);
        assert_eq!(place.open("state").look(&[], of(3)).doubt, Some(Doubt::RolledBack));
        let (notes, state) = (place.root.path().join("notes"), place.root.path().join("state"));
        let begun_anew = Witness::open(&notes, &state, Incarnation::new([8; 16]));
        assert_eq!(begun_anew.look(&[], of(0)).doubt, None, "another life begins without marks");
    }

    /// Shows: H-26
    #[test]
    fn nothing_is_marked_where_nothing_can_be_noted() {
        let place = Place::new();
        std::fs::write(place.root.path().join("notes"), "a file").unwrap();
        let witness = place.open("state");
        assert_eq!(witness.next(None), None);
        assert_eq!(witness.look(&[], of(0)).doubt, None);
    }
}
