//! What is sent, read once, and what a person is shown of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cede_wire::canonical::DecodeError;
use cede_wire::catalog::{Body, Entry, Mtime, Place};
use cede_wire::limits::{CATALOG_ENTRIES, SCOPE_PATHS, TRANSFER_LINES, TRANSFER_SHOWN_BYTES};
use cede_wire::path::{PathError, RelPath, escape};
use cede_wire::transfer::{FileCatalog, Shown, ShownPath};

use crate::chunk::{
    Chunker, FileStat, ReadChunkError, ReadError, Reading, SourceFiles, Want, open_regular, shown as shown_path,
};
use crate::limits::PATHS_SHOWN;
use crate::tree::{Names, is_secret_looking};

/// Files and folders as they stood when they were read.
#[derive(Debug)]
pub struct Bundle {
    /// The catalog's entries.
    pub entries: Vec<Entry>,
    /// What does not travel, with the reason; the first of them.
    pub left_out: Vec<String>,
    /// How much does not travel.
    pub left_out_count: u64,
    /// Files in folders whose names look like secrets. One that was named itself is meant.
    pub secret_looking: Vec<String>,
}

/// Why nothing is sent. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// A file cannot be read, or changes while it is.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A folder cannot be read.
    #[error("cannot read {path}: {kind}")]
    Folder {
        /// The folder, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// A name that no device takes.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Two of one name would stand side by side.
    #[error("two of them are called {0}; send one after the other")]
    Twice(String),
    /// There is nothing in it.
    #[error("there is no file in it")]
    Nothing,
    /// More than one transfer holds.
    #[error("more than {0} files and folders; send an archive of them")]
    TooMany(usize),
    /// A list that a person is to be shown is too long.
    #[error("too many of them are {0}; send an archive of them")]
    TooLong(&'static str),
    /// Somebody ended it.
    #[error("it was withdrawn while it was read")]
    Stopped,
}

impl GatherError {
    /// Whether the same may succeed in a moment.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Read(ReadError::Changing(_)))
    }
}

/// Reads everything at these paths. A link is not followed, not even one that is named. How far it has come is counted in
/// `reading`, and whoever stops that ends it.
///
/// # Errors
/// [`GatherError`]; nothing changed.
pub fn gather(roots: &[PathBuf], reading: &Arc<Reading>) -> Result<Bundle, GatherError> {
    let mut found = Found::watched(reading.clone());
    for root in roots {
        found.root(root).map_err(|error| if reading.is_stopped() { GatherError::Stopped } else { error })?;
    }
    let Found { mut entries, left_out, left_out_count, .. } = found;
    entries.shrink_to_fit();
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    if let Some([first, _]) = entries.windows(2).find(|pair| matches!(pair, [a, b] if a.path == b.path)) {
        return Err(GatherError::Twice(first.path.shown()));
    }
    if !entries.iter().any(|entry| size(entry).is_some()) {
        return Err(GatherError::Nothing);
    }
    let inside = entries.iter().map(|entry| &entry.path).filter(|path| path.as_bytes().contains(&b'/'));
    let secrets = inside.filter(|path| is_secret_looking(path.as_bytes()));
    let mut secret_looking: Vec<String> = secrets.map(RelPath::shown).collect();
    secret_looking.sort_unstable();
    Ok(Bundle { entries, left_out, left_out_count, secret_looking })
}

/// Where the content of a catalog lies, when the same paths are sent. The catalog is read entry by entry, and never held as a
/// whole.
///
/// # Errors
/// [`DecodeError`] where the bytes are none, or name a file that is below no root.
pub fn sources_of(catalog: &[u8], roots: &[PathBuf]) -> Result<SourceFiles, DecodeError> {
    let above: BTreeMap<&[u8], &Path> =
        roots.iter().filter_map(|root| Some((root.file_name()?.as_bytes(), root.parent()?))).collect();
    let mut sources = SourceFiles::default();
    for entry in FileCatalog::entries_of(catalog) {
        let entry = entry?;
        let first = entry.path.components().next().and_then(|first| above.get(first));
        let above = first.ok_or(DecodeError::Malformed("FileCatalog"))?;
        sources.push(&above.join(OsStr::from_bytes(entry.path.as_bytes())), entry.chunks());
    }
    sources.sort();
    Ok(sources)
}

/// The same error by the name under which the file was offered: where it lies here is not for who reads it there.
#[must_use]
pub fn as_offered(error: ReadChunkError, roots: &[PathBuf]) -> ReadChunkError {
    let name = |path: String| {
        let below = |root: &PathBuf| {
            let rest = path.strip_prefix(&shown_path(root)).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
            Some(shown_path(Path::new(root.file_name()?)) + rest)
        };
        roots.iter().find_map(below).unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default().to_owned())
    };
    match error {
        ReadChunkError::Unknown(id) => ReadChunkError::Unknown(id),
        ReadChunkError::Changed { path } => ReadChunkError::Changed { path: name(path) },
        ReadChunkError::Read(error) => ReadChunkError::Read(match error {
            ReadError::Missing(path) => ReadError::Missing(name(path)),
            ReadError::NotRegular(path) => ReadError::NotRegular(name(path)),
            ReadError::Changing(path) => ReadError::Changing(name(path)),
            ReadError::Io { path, kind } => ReadError::Io { path: name(path), kind },
        }),
    }
}

struct Found {
    entries: Vec<Entry>,
    left_out: Vec<String>,
    left_out_count: u64,
    chunker: Chunker,
}

impl Found {
    fn watched(reading: Arc<Reading>) -> Self {
        Self { entries: Vec::new(), left_out: Vec::new(), left_out_count: 0, chunker: Chunker::watched(reading) }
    }

    fn root(&mut self, root: &Path) -> Result<(), GatherError> {
        let name = root.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let name = RelPath::parse(name)?;
        let metadata = root.symlink_metadata().map_err(|error| folder(root, &error))?;
        if metadata.is_dir() { self.folder(root, &name) } else { self.file(root, name) }
    }

    fn folder(&mut self, local: &Path, path: &RelPath) -> Result<(), GatherError> {
        let mode = FileStat::of(&local.symlink_metadata().map_err(|error| folder(local, &error))?).permissions();
        self.push(Entry { place: Place::Tree, path: path.clone(), body: Body::Directory { mode } })?;
        let names = std::fs::read_dir(local).map_err(|error| folder(local, &error))?;
        for found in names {
            let found = found.map_err(|error| folder(local, &error))?;
            let kind = found.file_type().map_err(|error| folder(local, &error))?;
            let bytes = [path.as_bytes(), b"/", found.file_name().as_bytes()].concat();
            let below = match RelPath::parse(&bytes) {
                Ok(below) => below,
                Err(PathError::GitDirectory(_)) => {
                    self.leave_out(&bytes, "a repository's own records");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if kind.is_dir() {
                self.folder(&found.path(), &below)?;
            } else if kind.is_file() {
                self.file(&found.path(), below)?;
            } else {
                self.leave_out(&bytes, if kind.is_symlink() { "a link" } else { "no regular file" });
            }
        }
        Ok(())
    }

    fn file(&mut self, local: &Path, path: RelPath) -> Result<(), GatherError> {
        let content = self.chunker.read(&mut open_regular(local)?, local, Want::Chunks)?;
        let stat = content.stat;
        let mtime = Mtime { seconds: stat.mtime.seconds, nanos: stat.mtime.nanos };
        let body = Body::File { mode: stat.permissions(), mtime, size: stat.size, chunks: content.chunks };
        self.push(Entry { place: Place::Tree, path, body })
    }

    fn push(&mut self, entry: Entry) -> Result<(), GatherError> {
        if self.entries.len() >= CATALOG_ENTRIES {
            return Err(GatherError::TooMany(CATALOG_ENTRIES));
        }
        self.entries.push(entry);
        Ok(())
    }

    fn leave_out(&mut self, path: &[u8], why: &str) {
        self.left_out_count += 1;
        if self.left_out.len() < PATHS_SHOWN {
            self.left_out.push(format!("{}: {why}", escape(path)));
        }
    }
}

fn folder(path: &Path, error: &io::Error) -> GatherError {
    GatherError::Folder { path: shown_path(path), kind: error.kind() }
}

/// What the operator is shown of these entries: the same entries give the same.
///
/// # Errors
/// [`GatherError::TooLong`] where a list has more than a person looks through.
pub fn shown(entries: &[Entry]) -> Result<Shown, GatherError> {
    let names = Names::of(entries, &[]);
    let lists =
        [(&names.executables, "executable"), (&names.dotfiles, "hidden"), (&names.code, "run by tools unasked")];
    if let Some((_, what)) = lists.iter().find(|(list, _)| list.len() > SCOPE_PATHS) {
        return Err(GatherError::TooLong(what));
    }
    let files: Vec<(&[u8], u64)> =
        entries.iter().filter_map(|entry| Some((entry.path.as_bytes(), size(entry)?))).collect();
    let sum: usize = lists.iter().flat_map(|(list, _)| list.iter()).map(|path| path.len() + LINE_BYTES).sum();
    let room =
        TRANSFER_SHOWN_BYTES.checked_sub(sum).ok_or(GatherError::TooLong("hidden, executable or run by tools"))?;
    Ok(Shown {
        files: files.len() as u64,
        bytes: files.iter().map(|(_, bytes)| bytes).sum(),
        paths: lines(&files, room).ok_or(GatherError::TooLong("side by side"))?,
        executables: names.executables,
        dotfiles: names.dotfiles,
        configuration_as_code: names.code,
    })
}

fn size(entry: &Entry) -> Option<u64> {
    match &entry.body {
        Body::File { size, .. } | Body::GitBlob { size, .. } => Some(*size),
        Body::Symlink { .. } | Body::Directory { .. } => None,
    }
}

/// Every file, or as deep as there is room for, and whole folders below.
fn lines(files: &[(&[u8], u64)], room: usize) -> Option<Vec<ShownPath>> {
    let depth = |path: &[u8]| path.iter().filter(|b| **b == b'/').count() + 1;
    let deepest = files.iter().map(|(path, _)| depth(path)).max().unwrap_or(1);
    let fits = |lines: &Vec<ShownPath>| {
        lines.len() <= TRANSFER_LINES && lines.iter().map(|line| line.path.len() + LINE_BYTES).sum::<usize>() <= room
    };
    (1..=deepest).rev().map(|depth| folded(files, depth)).find(fits)
}

/// Files are sorted by path, so those of a folder follow each other.
fn folded(files: &[(&[u8], u64)], depth: usize) -> Vec<ShownPath> {
    let mut lines: Vec<(&[u8], ShownPath)> = Vec::new();
    for (path, bytes) in files {
        let cut = path.iter().enumerate().filter(|(_, b)| **b == b'/').nth(depth - 1).map(|(at, _)| at + 1);
        let key = path.get(..cut.unwrap_or(path.len())).unwrap_or(path);
        match lines.last_mut() {
            Some((last, line)) if *last == key => {
                line.files += 1;
                line.bytes += bytes;
            }
            _ => lines.push((key, ShownPath { path: escape(key), files: 1, bytes: *bytes })),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// What a line takes beside its path.
const LINE_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(roots: &[PathBuf]) -> Result<Bundle, GatherError> {
        gather(roots, &Arc::default())
    }

    fn names(bundle: &Bundle) -> Vec<String> {
        bundle.entries.iter().map(|entry| entry.path.shown()).collect()
    }

    /// Shows: F-2, F-4
    #[test]
    fn links_pipes_and_git_directories_stay_and_are_said_to() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("grüße");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::write(root.join(".git/config"), "x").unwrap();
        std::fs::write(root.join("a"), "x").unwrap();
        std::fs::write(root.join(".env"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
        let fifo = root.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let bundle = read(std::slice::from_ref(&root)).unwrap();
        assert_eq!(names(&bundle), ["grüße", "grüße/.env", "grüße/a"]);
        assert_eq!((bundle.left_out_count, bundle.left_out.len()), (3, 3));
        assert_eq!(bundle.secret_looking, ["grüße/.env"]);
        assert!(matches!(read(&[root.join("link")]), Err(GatherError::Read(ReadError::NotRegular(_)))));
    }

    #[test]
    fn two_of_one_name_are_not_mixed_up() {
        let place = tempfile::tempdir().unwrap();
        for folder in ["one", "two"] {
            std::fs::create_dir(place.path().join(folder)).unwrap();
            std::fs::write(place.path().join(folder).join("f"), folder).unwrap();
        }
        let roots = [place.path().join("one/f"), place.path().join("two/f")];
        assert_eq!(read(&roots).unwrap_err(), GatherError::Twice("f".into()));
        std::fs::create_dir(place.path().join("none")).unwrap();
        assert_eq!(read(&[place.path().join("none")]).unwrap_err(), GatherError::Nothing);
    }

    /// Shows: F-5
    #[test]
    fn chunks_are_found_again_in_the_order_of_the_catalog() {
        let place = tempfile::tempdir().unwrap();
        let roots = ["b", "a"].map(|name| place.path().join(name));
        for (root, number) in roots.iter().zip(0_u8..) {
            std::fs::create_dir(root).unwrap();
            for file in 0..20_u8 {
                std::fs::write(root.join(file.to_string()), [file / (2 + number); 9]).unwrap();
            }
            std::fs::write(root.join("empty"), "").unwrap();
        }
        let catalog = FileCatalog { entries: read(&roots).unwrap().entries };
        let bytes = catalog.to_bytes();
        let sources = sources_of(&bytes, &roots).unwrap();
        assert_eq!(sources.chunks(), catalog.distinct_chunks());
        let mut read = Vec::new();
        catalog.distinct_chunks().iter().for_each(|chunk| sources.read(&chunk.id, &mut read).unwrap());
        assert!(sources_of(&bytes, &roots[..1]).is_err(), "a root is missing");
        assert!(sources_of(&bytes[..bytes.len() - 1], &roots).is_err());
    }

    #[test]
    fn reading_is_counted_and_can_be_ended() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("f");
        std::fs::write(&file, vec![7; 3_000_000]).unwrap();
        let reading = Arc::new(Reading::default());
        gather(std::slice::from_ref(&file), &reading).unwrap();
        assert_eq!((reading.files(), reading.bytes()), (1, 3_000_000));
        reading.stop();
        assert_eq!(gather(&[file], &reading).unwrap_err(), GatherError::Stopped);
    }

    fn entry(path: &str, size: u64) -> Entry {
        let mtime = Mtime { seconds: 0, nanos: 0 };
        let body = Body::File { mode: 0o644, mtime, size, chunks: Vec::new() };
        Entry { place: Place::Tree, path: RelPath::parse(path.as_bytes()).unwrap(), body }
    }

    /// Shows: F-2
    #[test]
    fn every_path_is_shown_and_of_very_many_the_folders() {
        let few = [entry("a/b/c", 1), entry("a/b/d", 2), entry("e", 4)];
        let shown_few = shown(&few).unwrap();
        let line = |path: &str, files, bytes| ShownPath { path: path.into(), files, bytes };
        assert_eq!(shown_few.paths, [line("a/b/c", 1, 1), line("a/b/d", 1, 2), line("e", 1, 4)]);
        assert_eq!((shown_few.files, shown_few.bytes), (3, 7));
        let mut many: Vec<Entry> = (0..5_000).map(|n| entry(&format!("a/b{}/{n:05}", n % 10), 1)).collect();
        many.push(entry("z", 3));
        many.sort_by(|a, b| a.path.cmp(&b.path));
        let shown_many = shown(&many).unwrap();
        assert_eq!(shown_many.paths.len(), 11);
        assert_eq!(shown_many.paths[0], line("a/b0/", 500, 500));
        assert_eq!(shown_many.paths[10], line("z", 1, 3));
        assert_eq!(shown_many.files, 5_001);
    }
}
