//! What came, written beside its place and given its name by one rename.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cede_wire::catalog::{Body, Entry, Place};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::chunk::shown;
use crate::limits::PLACE_NAMES;
use crate::materialize::{ReadChunk, Writer};
use crate::tree::{Content, Job, StageError, USUAL_DIRECTORY_MODE, check, directory_modes, directory_of, write_all};

/// Why what came was not put into its place. Nothing that was there is touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The payload breaks a rule, a chunk is missing, or it cannot be written.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The place is not a directory of this user's own.
    #[error("{0} is not a directory of your own; move it away")]
    NotOurs(String),
    /// What was to be put there is not known any more.
    #[error("{0} is lost")]
    Lost(String),
    /// Every name is taken.
    #[error("too many files are called {0}")]
    NoName(String),
    /// The system refused.
    #[error("cannot write {path}: {kind}")]
    Io {
        /// What, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
}

impl PlaceError {
    /// What the system said about something at or below this path.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io { path: shown(path), kind: error.kind() }
    }

    /// Whether it is for want of room.
    pub fn is_full(&self) -> bool {
        let full = |kind: &io::ErrorKind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match self {
            Self::Stage(StageError::NoSpace { .. }) => true,
            Self::Stage(StageError::Io { kind, .. }) | Self::Io { kind, .. } => full(kind),
            Self::Stage(_) | Self::NotOurs(_) | Self::Lost(_) | Self::NoName(_) => false,
        }
    }

    /// Whether a chunk is missing or damaged: it can be asked for again.
    pub fn is_chunk(&self) -> bool {
        matches!(self, Self::Stage(StageError::Chunk(_)))
    }
}

/// Entries that are what a person sends, and of which nothing is left that nobody approves.
#[derive(Debug)]
pub struct Tamed(Vec<Entry>);

impl Tamed {
    /// Checks them as a whole. Source: SPEC F-4, F-7
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn of(mut entries: Vec<Entry>) -> Result<Self, PlaceError> {
        entries.iter_mut().try_for_each(tame)?;
        check(&entries)?;
        Ok(Self(entries))
    }

    /// They.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }
}

/// Writes everything below `staging`, which is made anew in `folder`, and makes it durable. Source: SPEC F-7
///
/// # Errors
/// [`PlaceError`]; `staging` may hold parts and is made anew by the next attempt.
pub fn write(entries: &Tamed, chunks: &dyn ReadChunk, folder: &Path, staging: &Path) -> Result<(), PlaceError> {
    own_directory(folder)?;
    discard(staging)?;
    let writer = Writer::create(staging).map_err(StageError::from)?;
    let tree: Vec<&Entry> = entries.0.iter().collect();
    let mut made = BTreeSet::new();
    let stage = |error| PlaceError::Stage(StageError::from(error));
    writer.directories(tree.iter().filter_map(|entry| directory_of(entry)), &mut made).map_err(stage)?;
    let jobs: Vec<_> = tree.iter().map(|entry| Job::of(entry)).collect();
    write_all(&writer, &jobs, Content { chunks, git: None })?;
    let modes = directory_modes(&tree);
    for path in made.iter().rev() {
        let mode = modes.get(path.as_slice()).copied().unwrap_or(USUAL_DIRECTORY_MODE);
        writer.directory_mode(path, mode).map_err(stage)?;
    }
    writer.sync().map_err(stage)
}

/// Takes away what nobody approves: all bits but reading, the owner's writing, and running where the file could be run.
fn tame(entry: &mut Entry) -> Result<(), PlaceError> {
    let hostile = |what: &str| Err(StageError::Hostile(format!("{} is {what}", entry.path.shown())).into());
    if entry.place != Place::Tree {
        return hostile("no file of a person");
    }
    match &mut entry.body {
        Body::File { mode, .. } => *mode = *mode & 0o755 | 0o600,
        Body::Directory { mode } => *mode = *mode & 0o755 | 0o700,
        Body::Symlink { .. } => return hostile("a link"),
        Body::GitBlob { .. } => return hostile("of a repository"),
    }
    Ok(())
}

/// Removes what was begun.
///
/// # Errors
/// [`PlaceError`]; a rest is there.
pub fn discard(staging: &Path) -> Result<(), PlaceError> {
    match std::fs::remove_dir_all(staging) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PlaceError::io(staging, &error)),
        _ => Ok(()),
    }
}

/// Gives what lies in `staging` its place in `folder`: a single file or folder under its own name, several in a folder
/// called `together`. A name that is taken gets a number. `announce` makes the choice durable before it is carried out: what
/// takes which place; a choice that an earlier run announced and carried out is `announced`.
///
/// # Errors
/// [`PlaceError`]; nothing that was there is touched.
pub fn finish(
    folder: &Path,
    staging: &Path,
    together: &str,
    announced: Option<&Path>,
    announce: &mut dyn FnMut(&Path, &Path) -> io::Result<()>,
) -> Result<PathBuf, PlaceError> {
    if let Some(place) = announced {
        return done(folder, staging, place);
    }
    let names = std::fs::read_dir(staging)
        .and_then(|names| names.map(|name| Ok(name?.file_name())).collect::<io::Result<Vec<OsString>>>());
    let names = names.map_err(|error| PlaceError::io(staging, &error))?;
    let (from, name) = match names.as_slice() {
        [] => return Err(PlaceError::io(staging, &io::ErrorKind::NotFound.into())),
        [one] => (staging.join(one), one.clone()),
        _ => (staging.to_owned(), OsString::from(together)),
    };
    for number in 1..=PLACE_NAMES {
        let place = folder.join(numbered(&name, number));
        if place.symlink_metadata().is_ok() {
            continue;
        }
        announce(&from, &place).map_err(|error| PlaceError::io(&place, &error))?;
        match renameat_with(CWD, &from, CWD, &place, RenameFlags::NOREPLACE) {
            Ok(()) => return done(folder, staging, &place),
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(PlaceError::io(&place, &error.into())),
        }
    }
    Err(PlaceError::NoName(shown(Path::new(&name))))
}

/// Whether nothing of `staging` is left to be put anywhere.
pub fn is_spent(staging: &Path) -> bool {
    std::fs::read_dir(staging).map_or_else(|e| e.kind() == io::ErrorKind::NotFound, |mut names| names.next().is_none())
}

fn done(folder: &Path, staging: &Path, place: &Path) -> Result<PathBuf, PlaceError> {
    // The directory that held one thing is empty now; that of several has another name.
    let _ = std::fs::remove_dir(staging);
    let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| PlaceError::io(folder, &error))?;
    Ok(place.to_owned())
}

/// `notes.txt`, `notes-2.txt`, `notes-3.txt`, …
fn numbered(name: &OsStr, number: u32) -> OsString {
    if number == 1 {
        return name.to_owned();
    }
    let path = Path::new(name);
    let (stem, extension) = (path.file_stem().unwrap_or(name), path.extension());
    let tail: Vec<u8> =
        [format!("-{number}").into_bytes(), extension.map(|e| [b".", e.as_bytes()].concat()).unwrap_or_default()]
            .concat();
    let most = cede_wire::limits::COMPONENT_BYTES.saturating_sub(tail.len());
    let stem = stem.as_bytes();
    let stem = stem.get(..stem.len().min(most)).unwrap_or(stem);
    OsStr::from_bytes(&[stem, &tail].concat()).to_owned()
}

/// The directory, made for its owner alone where it is not there. One of another user, or a link, is none of ours.
fn own_directory(path: &Path) -> Result<(), PlaceError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| PlaceError::io(path, &error))?;
    let metadata = path.symlink_metadata().map_err(|error| PlaceError::io(path, &error))?;
    let own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    if own && metadata.permissions().mode() & 0o022 == 0 { Ok(()) } else { Err(PlaceError::NotOurs(shown(path))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::{gather, sources_of};
    use crate::chunk::SourceFiles;
    use cede_wire::id::ChunkId;
    use cede_wire::path::RelPath;
    use cede_wire::transfer::FileCatalog;

    impl ReadChunk for SourceFiles {
        fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> io::Result<()> {
            SourceFiles::read(self, id, into).map_err(io::Error::other)
        }
    }

    fn read(from: &[PathBuf]) -> (Tamed, SourceFiles) {
        let catalog = FileCatalog { entries: gather(from, &Default::default()).unwrap().entries };
        let sources = sources_of(&catalog.to_bytes(), from).unwrap();
        (Tamed::of(catalog.entries).unwrap(), sources)
    }

    fn put(folder: &Path, from: &[PathBuf]) -> PathBuf {
        let (entries, sources) = read(from);
        let staging = folder.join(".new");
        write(&entries, &sources, folder, &staging).unwrap();
        finish(folder, &staging, "several", None, &mut |_, _| Ok(())).unwrap()
    }

    /// Shows: F-7
    #[test]
    fn name_that_is_taken_is_never_taken_again() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        std::fs::create_dir_all(from.join("d")).unwrap();
        std::fs::write(from.join("a.tar"), "x").unwrap();
        std::fs::set_permissions(from.join("a.tar"), PermissionsExt::from_mode(0o6777)).unwrap();
        std::fs::write(from.join("d/e"), "").unwrap();
        let one = [from.join("a.tar")];
        assert_eq!(put(&to, &one), to.join("a.tar"));
        std::fs::write(to.join("a.tar"), "mine").unwrap();
        assert_eq!(put(&to, &one), to.join("a-2.tar"));
        assert_eq!(std::fs::read(to.join("a.tar")).unwrap(), b"mine");
        assert_eq!(to.join("a-2.tar").metadata().unwrap().permissions().mode() & 0o7777, 0o755);
        let both = [from.join("a.tar"), from.join("d")];
        assert_eq!(put(&to, &both), to.join("several"));
        assert_eq!(put(&to, &both), to.join("several-2"));
        assert!(to.join("several/d/e").is_file() && !to.join(".new").exists());
        std::os::unix::fs::symlink("/nowhere", to.join("d")).unwrap();
        assert_eq!(put(&to, &[from.join("d")]), to.join("d-2"), "a link that leads nowhere is something too");
    }

    /// Shows: F-7
    #[test]
    fn rename_that_a_crash_followed_is_found_again() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("f"), place.path().join("to"));
        std::fs::write(&from, "x").unwrap();
        let (entries, sources) = read(std::slice::from_ref(&from));
        let staging = to.join(".new");
        write(&entries, &sources, &to, &staging).unwrap();
        assert!(!is_spent(&staging));
        std::fs::rename(staging.join("f"), to.join("f")).unwrap();
        assert!(is_spent(&staging));
        let found = finish(&to, &staging, "", Some(&to.join("f")), &mut |_, _| panic!("announced again")).unwrap();
        assert_eq!(found, to.join("f"));
    }

    /// Shows: F-4, F-7
    #[test]
    fn links_blobs_and_a_place_that_others_can_write_to_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let entry =
            |path: &str, body| Entry { place: Place::Tree, path: RelPath::parse(path.as_bytes()).unwrap(), body };
        let link = entry("l", Body::Symlink { target: b"/etc".to_vec() });
        let none = SourceFiles::default();
        let refused = Tamed::of(vec![link]);
        assert!(matches!(refused, Err(PlaceError::Stage(StageError::Hostile(_)))));
        let other = entry("a", Body::Directory { mode: 0o700 });
        let spoken = Entry { place: Place::Transcript, ..other.clone() };
        assert!(Tamed::of(vec![spoken]).is_err());
        let open = place.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        let refused = write(&Tamed::of(vec![other]).unwrap(), &none, &open, &open.join(".new"));
        assert!(matches!(refused, Err(PlaceError::NotOurs(_))));
    }

    #[test]
    fn number_of_a_long_name_still_fits() {
        let long = OsString::from("x".repeat(251) + ".txt");
        assert_eq!(numbered(&long, 12).len(), 255);
        assert_eq!(numbered(OsStr::new(".bashrc"), 2), ".bashrc-2");
    }
}
