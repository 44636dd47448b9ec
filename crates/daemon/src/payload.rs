//! Everything of a session, captured: the catalog, where its chunks can be read, and what people are shown.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use cede_agent::adapter::{AgentError, Transcript};
use cede_agent::chunk::{
    Chunker, FileContent, FileStat, ReadError, SourceFiles, StatCache, Want, chunk_bytes, open_regular,
};
use cede_agent::tree::{CaptureError, CaptureOptions, Tree, TreeRefusal, capture_at, locate, remember_staged};
use cede_wire::catalog::{Body, Catalog, ChunkRef, Entry, Mtime, Oid, Place};
use cede_wire::custody::Head;
use cede_wire::handoff::{Disposition, InventoryItem, Scope, Workspace};
use cede_wire::id::{Hash, SessionId};
use cede_wire::session::{SessionInfo, SessionKey};
use serde::{Deserialize, Serialize};

use crate::clock::unix_ms;
use crate::context::{Context, found};
use crate::limits;

/// What to capture.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) key: SessionKey,
    pub(crate) directory: PathBuf,
    pub(crate) include_ignored: Vec<String>,
    pub(crate) exclude: Vec<String>,
    pub(crate) have: Vec<Oid>,
}

impl Wanted {
    /// A session as a take captures it: with no choice of a person.
    pub(crate) fn all_of(info: &SessionInfo) -> Self {
        let (key, directory) = (info.key.clone(), PathBuf::from(&info.directory));
        Self { key, directory, include_ignored: Vec::new(), exclude: Vec::new(), have: Vec::new() }
    }

    /// Keeps how a session was captured when it left: the same capture again gives the same payload, and what was left
    /// out then makes no difference when it comes back.
    pub(crate) fn keep(&self, context: &Context) -> std::io::Result<()> {
        let file = context.place("departures", &format!("{}.json", self.key.id()));
        if let Some(directory) = file.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let new = file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        std::fs::File::open(&new)?.sync_all()?;
        std::fs::rename(&new, &file)
    }

    /// How a session was captured when it last left; none where that is not known.
    pub(crate) fn kept(context: &Context, session: SessionId) -> std::io::Result<Option<Self>> {
        let file = context.place("departures", &format!("{session}.json"));
        Ok(found(std::fs::read(file))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

/// A captured session.
pub(crate) struct Payload {
    pub(crate) head: Head,
    pub(crate) root: Hash,
    pub(crate) bytes: Bytes,
    pub(crate) catalog: Vec<ChunkRef>,
    pub(crate) chunks: Vec<ChunkRef>,
    pub(crate) sources: Arc<SourceFiles>,
    pub(crate) payload_bytes: u64,
    pub(crate) entries: u64,
    /// What a person calls files: of the working tree and the conversation.
    pub(crate) files: u64,
    pub(crate) history_bytes: u64,
    pub(crate) inventory: Vec<InventoryItem>,
    pub(crate) executables: Vec<String>,
    pub(crate) dotfiles: Vec<String>,
    pub(crate) configuration_as_code: Vec<String>,
    pub(crate) secret_looking: Vec<String>,
    pub(crate) untracked_bytes: u64,
    pub(crate) tree: Tree,
}

/// What was counted that would leave, and shown to a person.
#[derive(Debug, Clone)]
pub(crate) struct Leaves {
    pub(crate) scope: Scope,
    pub(crate) secret_looking: Vec<String>,
}

impl Leaves {
    /// Counts it. Blocks.
    pub(crate) fn count(context: &Context, wanted: &Wanted) -> Result<Self, PayloadError> {
        let payload = take(context, wanted)?;
        let scope = payload.scope()?;
        if !crate::scrutiny::can_be_shown(&scope) {
            return Err(PayloadError::Unshowable);
        }
        Ok(Self { scope, secret_looking: payload.secret_looking })
    }

    /// What of a capture nobody was shown: the session went on, but under no names that are to be looked at first.
    pub(crate) fn lack(&self, payload: &Payload) -> Option<String> {
        if payload.payload_bytes > self.scope.limit_bytes || payload.entries > self.scope.limit_entries {
            return Some(format!("{} bytes in {} entries", payload.payload_bytes, payload.entries));
        }
        let lists = [
            (&payload.secret_looking, &self.secret_looking, "file that looks like a secret"),
            (&payload.executables, &self.scope.executables, "executable"),
            (&payload.dotfiles, &self.scope.dotfiles, "dotfile"),
            (&payload.configuration_as_code, &self.scope.configuration_as_code, "file that tools run unasked"),
        ];
        lists.into_iter().find_map(|(found, shown, what)| {
            let shown: HashSet<&String> = shown.iter().collect();
            found.iter().find(|path| !shown.contains(path)).map(|new| format!("a new {what}: {new}"))
        })
    }
}

/// Why a session was not captured. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PayloadError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Tree(#[from] TreeRefusal),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("this build knows no adapter for the agent")]
    NoAdapter,
    #[error("a hosted terminal does not move: its processes cannot go on elsewhere; start the command there: cede run")]
    Terminal,
    #[error("the session has more than {0} entries")]
    TooLarge(usize),
    #[error("its lists are too long for anybody to look at")]
    Unshowable,
    #[error("the state of cede itself lies in {0} or around it, with this device's key; move another directory")]
    Own(String),
    #[error("cannot use {path}: {kind}")]
    Io { path: String, kind: std::io::ErrorKind },
}

impl PayloadError {
    /// Whether the same capture may succeed in a moment: files changed while they were read.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Read(ReadError::Changing { .. }) | Self::Capture(CaptureError::Read(ReadError::Changing { .. }))
        )
    }
}

/// Captures a session. Blocks.
pub(crate) fn take(context: &Context, wanted: &Wanted) -> Result<Payload, PayloadError> {
    let adapter = context.adapter(wanted.key.agent).ok_or(PayloadError::NoAdapter)?;
    take_with(context, wanted, |scratch| adapter.capture(&wanted.key.native, scratch))
}

/// Captures a directory that is no session, and leaves nothing behind. Blocks. Source: SPEC L-9
pub(crate) fn take_unnamed(context: &Context, wanted: &Wanted) -> Result<Payload, PayloadError> {
    let head = Head { turn: 0, length: 0, hash: Hash::of(b"") };
    let unspoken = Transcript { files: Vec::new(), head, turns: 0, inventory: Vec::new() };
    let taken = take_with(context, wanted, |_| Ok(unspoken));
    let id = wanted.key.id();
    // What was never there is gone as well.
    let _ = std::fs::remove_dir_all(context.place("scratch", &id.to_string()));
    for cache in ["tree", "transcript"] {
        let _ = std::fs::remove_file(context.place("cache", &format!("{id}.{cache}")));
    }
    taken
}

fn take_with(
    context: &Context,
    wanted: &Wanted,
    spoken_in: impl FnOnce(&Path) -> Result<Transcript, AgentError>,
) -> Result<Payload, PayloadError> {
    let id = wanted.key.id();
    // A capture that was withdrawn may still run; two of one session would write over each other's files.
    let capturing = context.capturing(id);
    let _held = capturing.lock().unwrap_or_else(PoisonError::into_inner);
    let began = std::time::Instant::now();
    let scratch = context.place("scratch", &id.to_string());
    make(&scratch)?;
    let (mut cache, cache_file) = load_cache(context, &format!("{id}.tree"));
    let (mut spoken, spoken_file) = load_cache(context, &format!("{id}.transcript"));
    let transcript = spoken_in(&scratch)?;
    let options = CaptureOptions {
        include_ignored: &wanted.include_ignored,
        exclude: &wanted.exclude,
        untracked: true,
        have: &wanted.have,
        scratch: &crate::base::records_of(context, id),
    };
    let located = locate(&wanted.directory)?;
    apart(context, located.root())?;
    let (tree, captured) = capture_at(located, &options, &mut cache)?;
    let (conversation, sources) = transcript_entries(&transcript, &mut spoken)?;
    save_cache(&cache_file, cache);
    save_cache(&spoken_file, spoken);
    let mut entries = captured.entries;
    entries.extend(conversation);
    entries.sort_by(|a, b| (a.place, &a.path).cmp(&(b.place, &b.path)));
    if entries.len() > cede_wire::limits::CATALOG_ENTRIES {
        return Err(PayloadError::TooLarge(cede_wire::limits::CATALOG_ENTRIES));
    }
    let catalog = Catalog { key: wanted.key.clone(), head: transcript.head, entries };
    let chunks = catalog.distinct_chunks();
    let entries = catalog.entries.len() as u64;
    let (files, history_bytes) = figures(&catalog.entries);
    let bytes = catalog.to_bytes();
    drop(catalog);
    tracing::debug!(entries, ms = crate::moves::millis(began), "captured");
    Ok(Payload {
        head: transcript.head,
        root: Hash::of(&bytes),
        catalog: chunk_bytes(&bytes),
        payload_bytes: chunks.iter().map(|chunk| u64::from(chunk.length)).sum(),
        entries,
        files,
        history_bytes,
        bytes: bytes.into(),
        chunks,
        sources: Arc::new(captured.sources.merge(sources)),
        inventory: inventory(transcript.inventory, captured.inventory),
        executables: captured.executables,
        dotfiles: captured.dotfiles,
        configuration_as_code: captured.configuration_as_code,
        secret_looking: captured.secret_looking,
        untracked_bytes: captured.untracked_bytes,
        tree,
    })
}

/// How many files there are for a person, and how many bytes the repository's own records take.
fn figures(entries: &[Entry]) -> (u64, u64) {
    let is_file = |entry: &&Entry| entry.place != Place::Git && !matches!(entry.body, Body::Directory { .. });
    let of_git = entries.iter().filter(|entry| entry.place == Place::Git);
    let history = of_git.flat_map(Entry::chunks).map(|chunk| u64::from(chunk.length)).sum();
    (entries.iter().filter(is_file).count() as u64, history)
}

/// The key of this device is in no payload: a tree that holds the state, or lies in it, is none.
pub(crate) fn apart(context: &Context, root: &Path) -> Result<(), PayloadError> {
    let state = std::fs::canonicalize(&context.state).unwrap_or_else(|_| context.state.clone());
    if state.starts_with(root) || root.starts_with(&state) {
        return Err(PayloadError::Own(root.display().to_string()));
    }
    Ok(())
}

fn make(directory: &Path) -> Result<(), PayloadError> {
    std::fs::create_dir_all(directory)
        .map_err(|error| PayloadError::Io { path: directory.display().to_string(), kind: error.kind() })
}

pub(crate) fn load_cache(context: &Context, name: &str) -> (StatCache, PathBuf) {
    let file = context.place("cache", name);
    let cache = std::fs::read(&file).map(|bytes| StatCache::from_bytes(&bytes)).unwrap_or_default();
    (cache, file)
}

/// The cache only saves time: one that cannot be written is read again next time.
fn save_cache(file: &Path, cache: StatCache) {
    let Some(bytes) = cache.to_bytes() else { return };
    drop(cache);
    let written = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(file, bytes));
    if let Err(error) = written {
        tracing::debug!(%error, "the stat cache was not kept");
    }
}

/// Notes the hashes of a tree that was written here, so that it need not be read when it leaves again. Blocks.
pub(crate) fn remember_arrival(context: &Context, key: &SessionKey, root: Hash, staging: &Path) {
    let catalog = context.objects.get(&root).ok().flatten().and_then(|bytes| Catalog::from_bytes(&bytes).ok());
    let Some(catalog) = catalog else { return };
    let (mut cache, file) = load_cache(context, &format!("{}.tree", key.id()));
    if remember_staged(staging, &catalog.entries, &mut cache, unix_ms()) {
        save_cache(&file, cache);
    }
}

fn transcript_entries(
    transcript: &Transcript,
    cache: &mut StatCache,
) -> Result<(Vec<Entry>, SourceFiles), PayloadError> {
    let mut entries = Vec::with_capacity(transcript.files.len());
    let mut chunker = Chunker::new();
    for file in &transcript.files {
        let content = transcript_file(&file.local, &mut chunker, cache)?;
        let mtime = Mtime { seconds: content.stat.mtime.seconds, nanos: content.stat.mtime.nanos };
        let body = Body::File { mode: 0o600, mtime, size: content.stat.size, chunks: content.chunks };
        entries.push(Entry { place: Place::Transcript, path: file.path.clone(), body });
    }
    let pairs = transcript.files.iter().zip(&entries).map(|(file, entry)| (file.local.clone(), entry.chunks()));
    let sources = SourceFiles::collect(pairs);
    Ok((entries, sources))
}

/// Reads a file of the transcript, or what is known of it when nothing about it changed.
fn transcript_file(path: &Path, chunker: &mut Chunker, cache: &mut StatCache) -> Result<FileContent, PayloadError> {
    use std::os::unix::ffi::OsStrExt;
    let mut file = open_regular(path)?;
    let name = path.as_os_str().as_bytes();
    let io = |error: std::io::Error| PayloadError::Io { path: path.display().to_string(), kind: error.kind() };
    let stat = FileStat::of(&file.metadata().map_err(io)?);
    if let Some(chunks) = cache.get(name, &stat).and_then(|known| known.chunks.map(<[_]>::to_vec)) {
        return Ok(FileContent { chunks, stat, blob: None });
    }
    let content = chunker.read(&mut file, path, Want::Chunks)?;
    cache.put(name, (Some(&content.chunks), None), content.stat, unix_ms());
    Ok(content)
}

fn inventory(conversation: Vec<InventoryItem>, tree: Vec<InventoryItem>) -> Vec<InventoryItem> {
    let mut all = conversation;
    all.extend(tree);
    if !all.iter().any(|item| item.what.contains("credential")) {
        all.push(InventoryItem {
            what: "provider credentials".to_owned(),
            disposition: Disposition::NeverTravels,
            count: 0,
            bytes: 0,
            note: "the destination uses its own".to_owned(),
        });
    }
    all.truncate(cede_wire::limits::INVENTORY_ITEMS);
    all
}

impl Payload {
    /// What the operator of the destination is asked to approve.
    pub(crate) fn scope(&self) -> Result<Scope, PayloadError> {
        let most = cede_wire::limits::SCOPE_PATHS;
        let lists = [&self.executables, &self.dotfiles, &self.configuration_as_code];
        if lists.iter().any(|list| list.len() > most) {
            return Err(PayloadError::TooLarge(most));
        }
        Ok(Scope {
            inventory: self.inventory_of_all(),
            limit_bytes: self.payload_bytes + self.payload_bytes / 4 + limits::SCOPE_SLACK_BYTES,
            limit_entries: self.entries + self.entries / 4 + 1_000,
            executables: self.executables.clone(),
            dotfiles: self.dotfiles.clone(),
            configuration_as_code: self.configuration_as_code.clone(),
        })
    }

    /// The inventory with what an operator looks for first: the secrets by name, and how much it is in all.
    fn inventory_of_all(&self) -> Vec<InventoryItem> {
        let secrets = self.secret_looking.len();
        let mut note = self.secret_looking.iter().take(limits::SECRETS_NAMED).cloned().collect::<Vec<_>>().join(", ");
        if let Some(more) = secrets.checked_sub(limits::SECRETS_NAMED).filter(|more| *more > 0) {
            note = format!("{note} and {more} more");
        }
        let travels = |what: &str, count: usize, bytes, note| InventoryItem {
            what: what.to_owned(),
            disposition: Disposition::Transferred,
            count: count as u64,
            bytes,
            note,
        };
        let mut all = self.inventory.clone();
        all.truncate(cede_wire::limits::INVENTORY_ITEMS - 2);
        if secrets > 0 {
            all.push(travels("of these, files that look like secrets", secrets, 0, note));
        }
        let known = "unless parts of it are there already".to_owned();
        let files = usize::try_from(self.files).unwrap_or(usize::MAX);
        all.push(travels("in all", files, self.payload_bytes, known));
        all
    }

    /// Where the work lies, as the destination should know it.
    pub(crate) fn workspace(&self, home: &Path) -> Workspace {
        use std::os::unix::ffi::OsStrExt;
        let root = &self.tree.root;
        let below_home = root.strip_prefix(home).ok().filter(|rest| !rest.as_os_str().is_empty());
        Workspace {
            path: root.as_os_str().as_bytes().to_vec(),
            below_home: below_home.map(|rest| rest.as_os_str().as_bytes().to_vec()),
            repository: self.tree.git.as_ref().map(|git| git.identity.clone()),
        }
    }
}
