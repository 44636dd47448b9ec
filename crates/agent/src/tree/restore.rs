//! Builds a repository anew from what travelled: objects checked, references and index through git's own checks, our own
//! configuration, nothing that git would execute.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cede_wire::catalog::{Body, ChunkRef, Entry, Mtime, Oid, Place};
use cede_wire::path::escape;

use super::StageError;
use super::git::{Config, Git, GitError, failed};
use super::state::{
    ASSUME_UNCHANGED, HeadState, INDEX, INTENT_TO_ADD, IndexEntry, ObjectFormat, PACK, SKIP_WORKTREE, STATE, State,
    index_from_bytes,
};
use crate::limits::{GIT_STATE_BYTES, PACKS};
use crate::materialize::beneath::found;
use crate::materialize::{Attributes, ReadChunk, Writer, read_checked};

/// Faults that old, honest histories are full of; everything that could harm a reader stays an error.
const FORGIVEN: &str = "--strict=zeroPaddedFilemode=warn,badTimezone=warn,badDate=warn,badDateOverflow=warn,\
badEmail=warn,badName=warn,missingEmail=warn,missingNameBeforeEmail=warn,missingSpaceBeforeEmail=warn,\
missingSpaceBeforeDate=warn,zeroPaddedDate=warn,missingTaggerEntry=warn,badTagName=warn,multipleAuthors=warn";

/// What a payload says of a repository, checked.
pub(crate) struct Records {
    pub(crate) state: State,
    pub(crate) index: Vec<IndexEntry>,
    packs: Vec<Vec<ChunkRef>>,
}

/// Reads the records of a payload; none for a plain directory.
pub(crate) fn records(entries: &[Entry], chunks: &dyn ReadChunk) -> Result<Option<Records>, StageError> {
    let hostile = |text: String| StageError::Hostile(text);
    let (mut state, mut index, mut packs) = (None, None, Vec::new());
    for entry in entries.iter().filter(|entry| entry.place == Place::Git) {
        let name = entry.path.shown();
        let Body::File { size, chunks: list, .. } = &entry.body else { return Err(hostile(format!("record {name}"))) };
        match name.as_str() {
            STATE => state = Some(read_all(list, *size, chunks)?),
            INDEX => index = Some(read_all(list, *size, chunks)?),
            _ => packs.push((pack_number(&name).ok_or_else(|| hostile(format!("record {name}")))?, list.clone())),
        }
    }
    let (state, index) = match (state, index) {
        (Some(state), Some(index)) => (state, index),
        (None, None) if packs.is_empty() => return Ok(None),
        _ => return Err(hostile("an incomplete repository".to_owned())),
    };
    packs.sort_by_key(|(number, _)| *number);
    let state = State::from_bytes(&state).map_err(hostile)?;
    let index = index_from_bytes(&index, state.objects).map_err(hostile)?;
    Ok(Some(Records { state, index, packs: packs.into_iter().map(|(_, list)| list).collect() }))
}

fn pack_number(name: &str) -> Option<usize> {
    let rest = name.strip_prefix(PACK)?;
    let number = if rest.is_empty() { 0 } else { rest.strip_prefix('-')?.parse().ok()? };
    (number <= PACKS).then_some(number)
}

fn read_all(list: &[ChunkRef], size: u64, chunks: &dyn ReadChunk) -> Result<Vec<u8>, StageError> {
    if size > GIT_STATE_BYTES {
        return Err(StageError::Hostile("a record of the repository is too long".to_owned()));
    }
    let (mut all, mut piece) = (Vec::new(), Vec::new());
    for chunk in list {
        read_checked(chunks, chunk, &mut piece)?;
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// Creates an empty repository in a directory, without template, hooks or anybody's configuration.
pub(crate) fn create(root: &Path, objects: ObjectFormat) -> Result<Git, StageError> {
    let format = format!("--object-format={}", objects.name());
    // The directory is named by being the current one: a name of a person's never becomes an argument.
    Git::outside(root).run(&["init", "-q", "--template=", "--initial-branch=main", &format])?;
    Ok(Git::at(root, Config::Nobodys))
}

/// Indexes the packs of a payload; every object is checked.
pub(crate) fn index_packs(git: &Git, records: &Records, chunks: &dyn ReadChunk) -> Result<(), StageError> {
    for pack in &records.packs {
        let arguments = ["index-pack", "--stdin", "--fix-thin", FORGIVEN];
        let mut fault = None;
        let feed = |stdin: &mut dyn Write| {
            let mut piece = Vec::new();
            for chunk in pack {
                if let Err(error) = read_checked(chunks, chunk, &mut piece) {
                    fault = Some(error);
                    return Err(io::ErrorKind::InvalidData.into());
                }
                stdin.write_all(&piece)?;
            }
            Ok(())
        };
        let answer = git.pipe(&arguments, feed, |stdout| io::copy(stdout, &mut io::sink()));
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        let answer = answer?;
        if answer.code != Some(0) {
            return Err(failed(&arguments, &answer).into());
        }
    }
    check_present(git, records)
}

/// Every object that a reference or the index names must have arrived, and be of the right kind.
fn check_present(git: &Git, records: &Records) -> Result<(), StageError> {
    let real = records.index.iter().filter(|entry| entry.marks & INTENT_TO_ADD == 0);
    let blobs: BTreeSet<&Oid> = real.map(|entry| &entry.oid).collect();
    let tips: BTreeSet<&Oid> = records.state.tips().collect();
    let mut input = String::new();
    blobs.iter().chain(&tips).for_each(|oid| input.push_str(&format!("{oid}\n")));
    let answer = git.feed(&["cat-file", "--batch-check=%(objecttype)", "--buffer"], input.as_bytes())?;
    let mut kinds = answer.split(|b| *b == b'\n');
    let wrong = |oid: &Oid| StageError::Hostile(format!("the object {oid} is missing or of the wrong kind"));
    for oid in &blobs {
        kinds.next().filter(|kind| *kind == b"blob").ok_or_else(|| wrong(oid))?;
    }
    for oid in &tips {
        kinds
            .next()
            .filter(|kind| *kind == b"commit" || *kind == b"tag" || *kind == b"tree" || *kind == b"blob")
            .ok_or_else(|| wrong(oid))?;
    }
    Ok(())
}

/// Takes the objects of a clone on this machine: by hard link where that is possible, as `git clone` does.
pub(crate) fn borrow_objects(clone: &Path, root: &Path) -> Result<(), StageError> {
    let mut sources = vec![clone.join(".git/objects")];
    let mut at = 0;
    while let Some(source) = sources.get(at).cloned() {
        at += 1;
        let alternates = source.join("info/alternates");
        let alternates =
            found(std::fs::read_to_string(&alternates)).map_err(|error| StageError::io(&alternates, &error))?;
        let alternates = alternates.unwrap_or_default();
        let more = alternates.lines().filter(|line| line.starts_with('/')).map(PathBuf::from);
        sources.extend(more.take(8_usize.saturating_sub(sources.len())));
        link_objects(&source, &root.join(".git/objects")).map_err(|error| StageError::io(&source, &error))?;
    }
    Ok(())
}

fn link_objects(from: &Path, to: &Path) -> io::Result<()> {
    for directory in std::fs::read_dir(from)? {
        let directory = directory?;
        let name = directory.file_name().to_string_lossy().into_owned();
        let fan = name.len() == 2 && name.bytes().all(|b| b.is_ascii_hexdigit());
        if !(fan || name == "pack") || !directory.file_type()?.is_dir() {
            continue;
        }
        std::fs::create_dir_all(to.join(&name))?;
        for object in std::fs::read_dir(directory.path())? {
            let object = object?;
            let file = object.file_name();
            let text = file.to_string_lossy();
            let kept = fan || [".pack", ".idx", ".rev"].iter().any(|end| text.ends_with(end));
            if kept && !text.starts_with("tmp_") && object.file_type()?.is_file() {
                link(&object.path(), &to.join(&name).join(&file))?;
            }
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(_) => std::fs::copy(from, to).map(|_| ()),
        Ok(()) => Ok(()),
    }
}

/// Sets references, stashes and HEAD of a new repository.
pub(crate) fn references(git: &Git, state: &State) -> Result<(), GitError> {
    let quiet = git.clone().setting("core.logAllRefUpdates=false");
    let mut input = Vec::new();
    for reference in &state.references {
        update(&mut input, b"create", &reference.name, &reference.oid);
    }
    quiet.feed(&["update-ref", "--stdin", "-z"], &input)?;
    for alias in &state.aliases {
        let (name, target) = (text(&alias.name)?, text(&alias.target)?);
        quiet.run(&["symbolic-ref", name, target])?;
    }
    stashes(git, state)?;
    head(&quiet, &state.head)
}

pub(crate) fn update(input: &mut Vec<u8>, verb: &[u8], name: &[u8], oid: &Oid) {
    for part in [verb, b" ", name, b"\0", oid.to_string().as_bytes(), b"\0"] {
        input.extend_from_slice(part);
    }
    if verb == b"update" {
        // No old value is demanded.
        input.push(0);
    }
}

/// Sets the stashes, oldest first, so that the list reads as at the source.
pub(crate) fn stashes(git: &Git, state: &State) -> Result<(), GitError> {
    let git = git.clone().variable("GIT_COMMITTER_NAME", "cede").variable("GIT_COMMITTER_EMAIL", "cede@localhost");
    for stash in state.stashes.iter().rev() {
        let message = if stash.message.is_empty() { "stash" } else { text(&stash.message)? };
        let oid = stash.oid.to_string();
        git.run(&["update-ref", "--create-reflog", "-m", message, "refs/stash", &oid])?;
    }
    Ok(())
}

pub(crate) fn head(git: &Git, head: &HeadState) -> Result<(), GitError> {
    match head {
        HeadState::Branch(name) => git.run(&["symbolic-ref", "HEAD", text(name)?]).map(|_| ()),
        HeadState::Detached(oid) => git.run(&["update-ref", "--no-deref", "HEAD", &oid.to_string()]).map(|_| ()),
    }
}

fn text(bytes: &[u8]) -> Result<&str, GitError> {
    core::str::from_utf8(bytes).map_err(|_| GitError::new(&["update-ref"], &format!("not text: {}", escape(bytes))))
}

/// Writes remotes, upstreams and line-ending rules into a new repository's configuration, and its ignore rules.
pub(crate) fn configure(root: &Path, state: &State) -> Result<(), StageError> {
    let path = root.join(".git/config");
    let io = |error: io::Error| StageError::io(&path, &error);
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).map_err(io)?;
    file.write_all(&configuration(state)).map_err(io)?;
    if !state.exclude.is_empty() {
        let info = root.join(".git/info");
        std::fs::create_dir_all(&info).map_err(io)?;
        std::fs::write(info.join("exclude"), &state.exclude).map_err(io)?;
    }
    Ok(())
}

fn configuration(state: &State) -> Vec<u8> {
    let mut all = Vec::new();
    let mut say = |parts: &[&[u8]]| parts.iter().for_each(|part| all.extend_from_slice(part));
    say(&[b"[core]\n\tautocrlf = ", state.settings.autocrlf.as_bytes(), b"\n\teol = "]);
    say(&[state.settings.eol.as_bytes(), b"\n"]);
    if state.settings.ignores_modes {
        say(&[b"\tfilemode = false\n"]);
    }
    for remote in &state.remotes {
        say(&[b"[remote \"", &quoted(&remote.name), b"\"]\n\turl = \"", &quoted(&remote.url), b"\"\n"]);
        remote.fetch.iter().for_each(|spec| say(&[b"\tfetch = \"", &quoted(spec), b"\"\n"]));
    }
    for upstream in &state.upstreams {
        say(&[b"[branch \"", &quoted(&upstream.branch), b"\"]\n\tremote = \"", &quoted(&upstream.remote)]);
        say(&[b"\"\n\tmerge = \"", &quoted(&upstream.merge), b"\"\n"]);
    }
    all
}

/// For use between double quotes; control characters were refused with the state.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let escaped = bytes.iter().flat_map(|b| if matches!(b, b'"' | b'\\') { vec![b'\\', *b] } else { vec![*b] });
    escaped.collect()
}

/// Enters lines into the index. An entry without marks replaces what is there.
pub(crate) fn index(git: &Git, entries: &[&IndexEntry], removed: &[&[u8]], scratch: &Path) -> Result<(), StageError> {
    let mut input = Vec::new();
    for path in removed {
        [b"0 0000000000000000000000000000000000000000\t", *path, b"\0"].iter().for_each(|p| input.extend_from_slice(p));
    }
    let marked = |mark: u8| entries.iter().filter(move |entry| entry.marks & mark != 0);
    for entry in entries.iter().filter(|entry| entry.marks & INTENT_TO_ADD == 0) {
        input.extend_from_slice(format!("{:06o} {} 0\t", entry.mode, entry.oid).as_bytes());
        input.extend_from_slice(&entry.path);
        input.push(0);
    }
    if !input.is_empty() {
        git.feed(&["update-index", "-z", "--index-info"], &input)?;
    }
    promise(git, &marked(INTENT_TO_ADD).copied().collect::<Vec<_>>(), scratch)?;
    mark(git, "--assume-unchanged", marked(ASSUME_UNCHANGED))?;
    mark(git, "--skip-worktree", marked(SKIP_WORKTREE))
}

fn mark<'a>(git: &Git, flag: &str, entries: impl Iterator<Item = &'a &'a IndexEntry>) -> Result<(), StageError> {
    let input: Vec<u8> = entries.flat_map(|entry| entry.path.iter().chain(b"\0")).copied().collect();
    if input.is_empty() {
        return Ok(());
    }
    git.feed(&["update-index", "-z", flag, "--stdin"], &input)?;
    Ok(())
}

/// Enters "intent to add": git does it only for files it sees, so it is shown empty ones in a directory of their own.
fn promise(git: &Git, entries: &[&IndexEntry], scratch: &Path) -> Result<(), StageError> {
    if entries.is_empty() {
        return Ok(());
    }
    let writer = Writer::create(scratch)?;
    let above = entries.iter().filter_map(|entry| parent(&entry.path));
    writer.directories(above, &mut BTreeSet::new())?;
    for entry in entries {
        let mode = if entry.mode == 0o100_755 { 0o700 } else { 0o600 };
        let attributes = Attributes { mode, mtime: Mtime { seconds: 0, nanos: 0 } };
        match entry.mode {
            0o120_000 => writer.symlink(&entry.path, b"-")?,
            _ => writer.file::<StageError>(&entry.path, attributes, |_| Ok(()))?,
        }
    }
    let input: Vec<u8> = entries.iter().flat_map(|entry| entry.path.iter().chain(b"\0")).copied().collect();
    let arguments = ["add", "-N", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"];
    git.clone().work_tree(scratch).feed(&arguments, &input)?;
    std::fs::remove_dir_all(scratch).map_err(|error| StageError::io(scratch, &error))
}

pub(crate) fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|b| *b == b'/').and_then(|at| path.get(..at))
}

/// Lets git look at the files once, so that the first `git status` need not.
pub(crate) fn refresh(git: &Git) -> Result<(), GitError> {
    git.ask(&["update-index", "-q", "--refresh"], &[]).map(|_| ())
}

impl From<GitError> for StageError {
    fn from(error: GitError) -> Self {
        Self::Git { command: error.command, message: error.message }
    }
}
