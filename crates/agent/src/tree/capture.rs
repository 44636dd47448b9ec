//! Captures a tree: entries, where their bytes lie, and what people are shown.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use cede_wire::catalog::{Body, ChunkRef, Entry, Mtime, Oid, Place};
use cede_wire::handoff::InventoryItem;
use cede_wire::id::Hash;
use cede_wire::path::RelPath;

use super::globs::Globs;
use super::inspect::Located;
use super::inventory::{self, GitFacts, Names};
use super::pack::{self, Packed, Purpose};
use super::repository::Repository;
use super::state::{INDEX, INTENT_TO_ADD, ObjectFormat, PACK, STATE, index_to_bytes};
use super::survey::{Class, Found, Selection, Survey, SurveyError, Tally, survey};
use super::{Baseline, Tree, TreeRefusal, inspect};
use crate::chunk::{
    Chunker, FileContent, FileStat, Fresh, Known, ReadError, SourceFiles, StatCache, Want, chunk_bytes,
};
use crate::limits::{GIT_STATE_BYTES, HASH_BATCH, RECORD_FILES, TREE_THREADS};
use crate::materialize::beneath::{open_file, open_root, parent_of};

/// What to take along.
#[derive(Debug, Clone, Copy)]
pub struct CaptureOptions<'a> {
    /// Ignored files to take, as globs: a pattern without `/` is a name at any depth, one with `/` starts at the
    /// root; a directory brings what is below it. Default none.
    pub include_ignored: &'a [String],
    /// Untracked files to leave, as the same globs. Tracked files cannot be left.
    pub exclude: &'a [String],
    /// Take untracked files.
    pub untracked: bool,
    /// Commits that the destination has.
    pub have: &'a [Oid],
    /// A directory for packs and records, kept between the rounds of one move; created if absent.
    pub scratch: &'a Path,
}

/// A captured tree.
#[derive(Debug, Clone)]
pub struct Capture {
    /// The entries of [`Place::Tree`](cede_wire::catalog::Place) and `Place::Git`, in catalog order.
    pub entries: Vec<Entry>,
    /// Where their chunks can be read.
    pub sources: SourceFiles,
    /// What travels, what is made anew, what stays.
    pub inventory: Vec<InventoryItem>,
    /// Executable files, escaped, sorted.
    pub executables: Vec<String>,
    /// Files and directories whose name begins with a dot, escaped, sorted.
    pub dotfiles: Vec<String>,
    /// Files that some tool runs without being asked, escaped, sorted.
    pub configuration_as_code: Vec<String>,
    /// Files that travel although their name looks like a secret, escaped, sorted: ask first.
    pub secret_looking: Vec<String>,
    /// Bytes of untracked files that travel.
    pub untracked_bytes: u64,
    /// Content bytes of all entries: what the chunks sum up to.
    pub payload_bytes: u64,
}

/// Why a tree was not captured. It was not changed; the scratch directory may hold parts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The tree is not one that can travel.
    #[error(transparent)]
    Refused(#[from] TreeRefusal),
    /// An exclusion that names a tracked file.
    #[error(
        "{path} is tracked and cannot be left out (pattern {pattern}); remove the pattern, or run: git rm --cached"
    )]
    ExcludesTracked {
        /// The file, escaped.
        path: String,
        /// The pattern.
        pattern: String,
    },
    /// A pattern that is none.
    #[error("not a usable pattern: {0}")]
    Pattern(String),
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Git failed.
    #[error("git {command} failed: {message}")]
    Git {
        /// Which command.
        command: String,
        /// Its last words.
        message: String,
    },
    /// The system refused.
    #[error("cannot use {path}: {kind}")]
    Io {
        /// What, escaped.
        path: String,
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// More than the limits allow.
    #[error("too large: {0}")]
    TooLarge(String),
}

/// Captures a tree. Tracked files that were deleted have no entry; everything else in the tree is either an entry or
/// a line of the inventory.
///
/// # Errors
/// [`CaptureError`]; the tree was not changed.
pub fn capture(tree: &Tree, options: &CaptureOptions<'_>, cache: &mut StatCache) -> Result<Capture, CaptureError> {
    let repository = match &tree.git {
        Some(_) => Some(inspect::reopen(&tree.root)?),
        None => None,
    };
    capture_with(tree, repository.as_ref(), options, None, cache)
}

/// Captures the tree of a directory that was found; its repository is read once.
///
/// # Errors
/// [`CaptureError`]; the tree was not changed.
pub fn capture_at(
    located: Located,
    options: &CaptureOptions<'_>,
    cache: &mut StatCache,
) -> Result<(Tree, Capture), CaptureError> {
    let (tree, repository) = inspect::open_located(located)?;
    let captured = capture_with(&tree, repository.as_ref(), options, None, cache)?;
    Ok((tree, captured))
}

/// The same without packs, and with the ignored files that a baseline knows: to be compared with it.
pub(crate) fn capture_with(
    tree: &Tree,
    repository: Option<&Repository>,
    options: &CaptureOptions<'_>,
    also: Option<&Baseline>,
    cache: &mut StatCache,
) -> Result<Capture, CaptureError> {
    let selection = Selection {
        include_ignored: Globs::parse(options.include_ignored).map_err(CaptureError::Pattern)?,
        exclude: Globs::parse(options.exclude).map_err(CaptureError::Pattern)?,
        untracked: options.untracked,
        also,
        count_ignored: cache.ignored.is_none(),
    };
    create_private(options.scratch)?;
    let mut survey = survey(tree, repository, &selection)?;
    remember_ignored(&mut survey, &selection, cache);
    let made = std::mem::take(&mut cache.packs);
    let purpose = if also.is_some() { Purpose::Comparison } else { Purpose::Transfer };
    // Packing is another process's work: it goes on while files are hashed here.
    let (entries, packed) = std::thread::scope(|scope| {
        let packing = repository.map(|repository| scope.spawn(move || pack::packs(repository, options, made, purpose)));
        let entries = tree_entries(tree, repository, &mut survey, cache, purpose);
        (
            entries,
            packing.map(|packing| packing.join().unwrap_or_else(|_| Err(CaptureError::TooLarge("packs".to_owned())))),
        )
    });
    let mut parts = Parts { entries: entries?, files: Vec::new(), git: GitFacts::default() };
    let tree_entries = parts.entries.len();
    if let (Some(repository), Some(packed)) = (repository, packed.transpose()?) {
        cache.packs.clone_from(&packed.packs);
        parts.git.unpushed = if purpose == Purpose::Transfer { inventory::unpushed(repository, cache) } else { 0 };
        git_entries(tree, repository, options, packed, &mut parts)?;
    }
    match purpose {
        Purpose::Transfer => finish(tree, repository, &survey, parts, tree_entries),
        Purpose::Comparison => Ok(to_compare(parts, tree_entries)),
    }
}

/// What a comparison needs: nobody is shown anything, and only the repository's records are read again.
fn to_compare(parts: Parts, tree_entries: usize) -> Capture {
    let Parts { entries, files, .. } = parts;
    let of_git = entries.get(tree_entries..).unwrap_or_default();
    Capture {
        sources: SourceFiles::collect(files.into_iter().zip(of_git.iter().map(Entry::chunks))),
        inventory: Vec::new(),
        executables: Vec::new(),
        dotfiles: Vec::new(),
        configuration_as_code: Vec::new(),
        secret_looking: Vec::new(),
        untracked_bytes: 0,
        payload_bytes: 0,
        entries,
    }
}

struct Parts {
    entries: Vec<Entry>,
    /// Where the content of the entries after those of the tree lies.
    files: Vec<PathBuf>,
    git: GitFacts,
}

fn finish(
    tree: &Tree,
    repository: Option<&Repository>,
    survey: &Survey,
    parts: Parts,
    tree_entries: usize,
) -> Result<Capture, CaptureError> {
    let Parts { entries, files, git } = parts;
    let (of_tree, of_git) = entries.split_at_checked(tree_entries).unwrap_or((&entries, &[]));
    let sources = SourceFiles::collect(
        of_tree
            .iter()
            .map(|entry| (tree.root.join(OsStr::from_bytes(entry.path.as_bytes())), entry.chunks()))
            .chain(files.into_iter().zip(of_git.iter().map(Entry::chunks))),
    );
    let names = Names::of(of_tree, &survey.bare);
    let inventory = inventory::lines(&tree.root, repository, survey, of_tree, &git);
    let payload = entries.iter().flat_map(Entry::chunks).map(|chunk| u64::from(chunk.length)).sum();
    Ok(Capture {
        sources,
        inventory,
        executables: names.executables,
        dotfiles: names.dotfiles,
        configuration_as_code: names.code,
        secret_looking: names.secrets,
        untracked_bytes: survey.untracked.bytes,
        payload_bytes: payload,
        entries,
    })
}

/// Ignored files are counted once in the life of a cache; the figure is for people.
fn remember_ignored(survey: &mut Survey, selection: &Selection<'_>, cache: &mut StatCache) {
    match cache.ignored {
        Some((count, bytes)) if !selection.count_ignored => survey.ignored = Tally { count, bytes },
        _ => cache.ignored = Some((survey.ignored.count, survey.ignored.bytes)),
    }
}

/// What a file holds.
enum Content {
    Blob(Oid),
    Chunks(Vec<ChunkRef>),
    Link(Vec<u8>),
}

struct Hashed {
    content: Content,
    stat: FileStat,
    /// When it was hashed, and what git calls it; none where the cache knew.
    learnt: Option<(u64, Option<Oid>)>,
}

/// Hashes the files that were found and makes entries of them, some thousand at a time: only the result stays in memory.
fn tree_entries(
    tree: &Tree,
    repository: Option<&Repository>,
    survey: &mut Survey,
    cache: &mut StatCache,
    purpose: Purpose,
) -> Result<Vec<Entry>, CaptureError> {
    let root = open_root(&tree.root).map_err(|error| CaptureError::io(&tree.root, &error))?;
    let mut chunkers: Vec<_> = (0..TREE_THREADS).map(|_| Chunker::new()).collect();
    let mut entries = Vec::with_capacity(survey.files.len() + survey.directories.len());
    for (path, mode) in &survey.directories {
        entries.extend(entry(path.clone(), Body::Directory { mode: *mode }));
    }
    let (mut found, mut fresh) = (std::mem::take(&mut survey.files).into_iter(), Fresh::default());
    loop {
        let batch: Vec<Found> = found.by_ref().take(HASH_BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let hashed = hash_batch(&root, &batch, repository, cache, &mut chunkers)?;
        for (found, hashed) in batch.into_iter().zip(hashed) {
            let Some(hashed) = hashed else { continue };
            if purpose == Purpose::Transfer {
                remember(&mut fresh, cache, &found.path, &hashed);
            }
            entries.extend(entry(found.path, body(hashed)));
        }
    }
    if purpose == Purpose::Transfer {
        cache.set_files(fresh);
    }
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Every path was parsed when it was found.
fn entry(path: Vec<u8>, body: Body) -> Option<Entry> {
    Some(Entry { place: Place::Tree, path: RelPath::try_from(path).ok()?, body })
}

fn remember(fresh: &mut Fresh, old: &StatCache, path: &[u8], hashed: &Hashed) {
    match (&hashed.learnt, &hashed.content) {
        (None, _) => fresh.adopt(old, path),
        (Some((at, blob)), Content::Chunks(chunks)) => {
            fresh.put(path, (Some(chunks), blob.as_ref()), hashed.stat, *at);
        }
        (Some((at, blob)), Content::Blob(_)) => fresh.put(path, (None, blob.as_ref()), hashed.stat, *at),
        (Some(_), Content::Link(_)) => {}
    }
}

fn hash_batch(
    root: &OwnedFd,
    batch: &[Found],
    repository: Option<&Repository>,
    cache: &StatCache,
    chunkers: &mut [Chunker],
) -> Result<Vec<Option<Hashed>>, ReadError> {
    let next = AtomicUsize::new(0);
    let worker = |chunker: &mut Chunker| {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(found) = batch.get(at) else { return Ok(done) };
            done.push((at, hash(root, found, repository, cache, chunker)?));
        }
    };
    let parts = std::thread::scope(|scope| {
        let threads: Vec<_> = chunkers.iter_mut().map(|chunker| scope.spawn(|| worker(chunker))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(Vec::new()))).collect::<Result<Vec<_>, _>>()
    })?;
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, hashed)| hashed).collect())
}

/// None: it vanished.
fn hash(
    root: &OwnedFd,
    found: &Found,
    repository: Option<&Repository>,
    cache: &StatCache,
    chunker: &mut Chunker,
) -> Result<Option<Hashed>, ReadError> {
    let shown = Path::new(OsStr::from_bytes(&found.path));
    if found.is_link() {
        let target = match read_link(root, &found.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            target => target.map_err(|error| ReadError::of(shown, &error))?,
        };
        return Ok(Some(Hashed { content: Content::Link(target), stat: found.stat, learnt: None }));
    }
    let expected = expected_blob(found, repository);
    if let Some(content) = cache.get(&found.path, &found.stat).and_then(|known| recall(known, expected)) {
        return Ok(Some(Hashed { content, stat: found.stat, learnt: None }));
    }
    let mut file = match open_file(root, &found.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| ReadError::of(shown, &error))?,
    };
    let now = unix_ms();
    let (read, same) = read(&mut file, shown, expected, found.stat.size, chunker)?;
    let content = match (same, &read.blob) {
        (true, Some(oid)) => Content::Blob(oid.clone()),
        _ => Content::Chunks(read.chunks),
    };
    Ok(Some(Hashed { content, stat: read.stat, learnt: Some((now, read.blob)) }))
}

/// Reads a file that may equal a blob, and says whether it does. Nearly all files of a repository do: those of the expected
/// length are hashed as git does, and cut only if they differ.
fn read(
    file: &mut File,
    path: &Path,
    expected: Option<(&Oid, u64)>,
    size: u64,
    chunker: &mut Chunker,
) -> Result<(FileContent, bool), ReadError> {
    let Some((oid, expected_size)) = expected else { return Ok((chunker.read(file, path, Want::Chunks)?, false)) };
    if size == expected_size {
        let content = chunker.read(file, path, Want::Blob)?;
        if content.blob.as_ref() == Some(oid) {
            return Ok((content, true));
        }
        file.seek(SeekFrom::Start(0)).map_err(|error| ReadError::of(path, &error))?;
    }
    let content = chunker.read(file, path, Want::Both)?;
    let same = content.blob.as_ref() == Some(oid);
    Ok((content, same))
}

fn expected_blob<'a>(found: &Found, repository: Option<&'a Repository>) -> Option<(&'a Oid, u64)> {
    let Class::Tracked(at) = found.class else { return None };
    let repository = repository.filter(|repository| repository.objects == ObjectFormat::Sha1)?;
    let entry = repository.index.get(at as usize)?;
    let size = repository.index_sizes.get(at as usize).copied().unwrap_or(0);
    let regular = entry.mode & 0o170_000 == 0o100_000 && entry.marks & INTENT_TO_ADD == 0;
    regular.then_some((&entry.oid, u64::from(size)))
}

fn recall(known: Known<'_>, expected: Option<(&Oid, u64)>) -> Option<Content> {
    match (expected, &known.blob, &known.chunks) {
        (Some((oid, _)), Some(blob), _) if blob == oid => Some(Content::Blob(blob.clone())),
        (Some(_), None, _) => None,
        (_, _, Some(chunks)) => Some(Content::Chunks(chunks.to_vec())),
        (_, _, None) => None,
    }
}

fn read_link(root: &OwnedFd, path: &[u8]) -> io::Result<Vec<u8>> {
    let (above, name) = parent_of(root, path)?;
    Ok(rustix::fs::readlinkat(above, name, Vec::new())?.into_bytes())
}

fn body(hashed: Hashed) -> Body {
    let (mode, mtime, size) = (hashed.stat.permissions(), hashed.stat.mtime, hashed.stat.size);
    match hashed.content {
        Content::Link(target) => Body::Symlink { target },
        Content::Blob(oid) => Body::GitBlob { mode, mtime, size, oid },
        Content::Chunks(chunks) => Body::File { mode, mtime, size, chunks },
    }
}

fn git_entries(
    tree: &Tree,
    repository: &Repository,
    options: &CaptureOptions<'_>,
    packed: Packed,
    parts: &mut Parts,
) -> Result<(), CaptureError> {
    let Packed { packs, staged } = packed;
    let subdirectory = RelPath::parse(tree.subdirectory.as_os_str().as_bytes()).ok();
    let state = repository.state(subdirectory);
    parts.git = GitFacts {
        staged,
        pack_bytes: packs.iter().map(|pack| pack.stat.size).sum(),
        unpushed: parts.git.unpushed,
        remotes: state.remotes.len() as u64,
        upstreams: state.upstreams.len() as u64,
    };
    let mut records = vec![
        record(INDEX, &index_to_bytes(&repository.index), options.scratch)?,
        record(STATE, &state.to_bytes(), options.scratch)?,
    ];
    for (number, made) in packs.into_iter().enumerate() {
        let name = if number == 0 { PACK.to_owned() } else { format!("{PACK}-{number}") };
        records.push((name, made.chunks, made.stat.size, options.scratch.join(made.file)));
    }
    records.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, chunks, size, file) in records {
        let path = RelPath::parse(name.as_bytes()).map_err(|_| CaptureError::TooLarge(name))?;
        let body = Body::File { mode: 0o600, mtime: Mtime { seconds: 0, nanos: 0 }, size, chunks };
        parts.entries.push(Entry { place: Place::Git, path, body });
        parts.files.push(file);
    }
    Ok(())
}

/// Whether a file of a scratch directory is a record: small, and without content of files.
pub fn is_record(name: &OsStr) -> bool {
    let kind = name.to_str().and_then(|name| name.split_once('-')).map(|(kind, _)| kind);
    kind == Some(INDEX) || kind == Some(STATE)
}

/// Where the records of a capture lie in a directory: the newest of each name and size. Whoever reads a chunk there
/// checks it.
pub fn record_files(directory: &Path) -> impl Fn(&Entry) -> Option<PathBuf> + use<> {
    let mut found: Vec<(String, u64, std::time::SystemTime, PathBuf)> = Vec::new();
    for file in std::fs::read_dir(directory).into_iter().flatten().flatten().take(RECORD_FILES) {
        let (Ok(name), Ok(metadata)) = (file.file_name().into_string(), file.metadata()) else { continue };
        let Some((kind, _)) = name.split_once('-').filter(|_| metadata.is_file()) else { continue };
        found.push((
            kind.to_owned(),
            metadata.len(),
            metadata.modified().unwrap_or(std::time::UNIX_EPOCH),
            file.path(),
        ));
    }
    found.sort_by_key(|(.., modified, _)| std::cmp::Reverse(*modified));
    move |entry| {
        let name = entry.path.shown();
        let kind = name.split('-').next().unwrap_or_default();
        let Body::File { size, .. } = &entry.body else { return None };
        found.iter().find(|(of, length, ..)| of == kind && length == size).map(|(.., path)| path.clone())
    }
}

type Record = (String, Vec<ChunkRef>, u64, PathBuf);

/// Writes a record under a name that changes with its content: what an earlier round sends stays readable.
fn record(name: &str, bytes: &[u8], scratch: &Path) -> Result<Record, CaptureError> {
    if bytes.len() as u64 > GIT_STATE_BYTES || bytes.is_empty() {
        return Err(CaptureError::TooLarge(format!("the {name} of the repository")));
    }
    let path = scratch.join(format!("{name}-{}", Hash::of(bytes).short()));
    let partial = path.with_extension("partial");
    std::fs::write(&partial, bytes).map_err(|error| CaptureError::io(&partial, &error))?;
    std::fs::rename(&partial, &path).map_err(|error| CaptureError::io(&path, &error))?;
    Ok((name.to_owned(), chunk_bytes(bytes), bytes.len() as u64, path))
}

fn create_private(directory: &Path) -> Result<(), CaptureError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| CaptureError::io(directory, &error))
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl From<SurveyError> for CaptureError {
    fn from(error: SurveyError) -> Self {
        match error {
            SurveyError::Refused(refusal) => Self::Refused(refusal),
            SurveyError::ExcludesTracked { path, pattern } => Self::ExcludesTracked { path, pattern },
            SurveyError::Read(error) => Self::Read(error),
        }
    }
}
