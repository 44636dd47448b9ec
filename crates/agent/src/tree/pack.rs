//! The objects of a repository as packs: one whole pack, then small ones with what came since.
//!
//! One thread and no reuse of bitmaps make the same question give the same bytes, so that an interrupted transfer goes on
//! where it stopped.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

use cede_wire::catalog::Oid;
use cede_wire::id::Hash;

use super::git::{Git, GitError, failed};
use super::repository::{Repository, lines, oid};
use super::state::{HeadState, INTENT_TO_ADD, ObjectFormat};
use super::{CaptureError, CaptureOptions};
use crate::chunk::{PackMade, ReadError, chunk_file, shown};
use crate::limits::{HAVE_COMMITS, PACKS};

/// The packs of a capture.
pub(crate) struct Packed {
    pub(crate) packs: Vec<PackMade>,
    /// Number of staged changes.
    pub(crate) staged: u64,
}

/// What a capture is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It travels: packs are made.
    Transfer,
    /// It is compared: objects do not matter.
    Comparison,
}

/// The packs that hold everything the repository needs at the destination; those in `made` are used again.
pub(crate) fn packs(
    repository: &Repository,
    options: &CaptureOptions<'_>,
    mut made: Vec<PackMade>,
    purpose: Purpose,
) -> Result<Packed, CaptureError> {
    if purpose == Purpose::Comparison {
        return Ok(Packed { packs: made, staged: 0 });
    }
    let (staged_blobs, staged) = staged(repository)?;
    let tips = tips(repository, &staged_blobs);
    if !made.iter().all(|pack| still_there(pack, options.scratch, options.have)) || made.len() >= PACKS {
        made.clear();
    }
    let covered: BTreeSet<Oid> = made.iter().flat_map(|pack| pack.tips.iter().cloned()).collect();
    let fresh: Vec<Oid> = tips.into_iter().filter(|tip| !covered.contains(tip)).collect();
    if !fresh.is_empty() {
        made.push(make(&repository.git, fresh, options.have, &covered, options.scratch)?);
    }
    Ok(Packed { packs: made, staged })
}

/// Blobs that are staged and that HEAD does not have.
fn staged(repository: &Repository) -> Result<(Vec<Oid>, u64), CaptureError> {
    let empty_tree = match repository.objects {
        ObjectFormat::Sha1 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        ObjectFormat::Sha256 => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    };
    let base = repository.head_oid.as_ref().map_or_else(|| empty_tree.to_owned(), Oid::to_string);
    let arguments =
        ["diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--no-ext-diff", &base, "--"];
    let answer = repository.git.run(&arguments)?;
    let (mut oids, mut count) = (Vec::new(), 0);
    for meta in answer.split(|b| *b == 0).filter(|part| part.starts_with(b":")) {
        let mut words = meta.split(|b| *b == b' ').skip(3);
        let Some(id) = words.next().and_then(oid) else { continue };
        count += 1;
        if id.as_bytes().iter().any(|b| *b != 0) {
            oids.push(id);
        }
    }
    let promised = repository.index.iter().filter(|entry| entry.marks & INTENT_TO_ADD != 0).map(|entry| &entry.oid);
    let promised: BTreeSet<_> = promised.collect();
    oids.retain(|oid| !promised.contains(oid));
    oids.sort_unstable();
    oids.dedup();
    Ok((oids, count))
}

fn tips(repository: &Repository, staged: &[Oid]) -> Vec<Oid> {
    let mut tips: Vec<Oid> = repository.references.iter().map(|reference| reference.oid.clone()).collect();
    tips.extend(repository.stashes.iter().map(|stash| stash.oid.clone()));
    if let HeadState::Detached(oid) = &repository.head {
        tips.push(oid.clone());
    }
    tips.extend_from_slice(staged);
    tips.sort_unstable();
    tips.dedup();
    tips
}

fn still_there(pack: &PackMade, scratch: &Path, have: &[Oid]) -> bool {
    let metadata = scratch.join(&pack.file).symlink_metadata();
    pack.have == have && metadata.is_ok_and(|metadata| crate::chunk::FileStat::of(&metadata) == pack.stat)
}

fn make(
    git: &Git,
    tips: Vec<Oid>,
    have: &[Oid],
    covered: &BTreeSet<Oid>,
    scratch: &Path,
) -> Result<PackMade, CaptureError> {
    let absent: Vec<&Oid> = have.iter().take(HAVE_COMMITS).chain(covered).collect();
    let absent = present(git, &absent)?;
    let mut input = String::new();
    tips.iter().for_each(|tip| input.push_str(&format!("{tip}\n")));
    absent.iter().for_each(|oid| input.push_str(&format!("^{oid}\n")));
    let name = format!("pack-{}", Hash::of(input.as_bytes()).short());
    let path = scratch.join(&name);
    write(git, &input, !absent.is_empty(), &path)?;
    let content = chunk_file(&path)?;
    Ok(PackMade { file: name, stat: content.stat, chunks: content.chunks, tips, have: have.to_vec() })
}

/// Those of the objects that are here; what was pruned since cannot be excluded.
fn present(git: &Git, oids: &[&Oid]) -> Result<Vec<Oid>, GitError> {
    if oids.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = String::new();
    oids.iter().for_each(|oid| input.push_str(&format!("{oid}\n")));
    let answer = git.feed(&["cat-file", "--batch-check=%(objectname) %(objecttype)", "--buffer"], input.as_bytes())?;
    let found = lines(&answer).filter(|line| !line.ends_with(b" missing"));
    Ok(found.filter_map(|line| line.split(|b| *b == b' ').next().and_then(oid)).collect())
}

fn write(git: &Git, input: &str, thin: bool, path: &Path) -> Result<(), CaptureError> {
    let git = git
        .clone()
        .setting("pack.threads=1")
        .setting("pack.allowPackReuse=false")
        .setting("pack.packSizeLimit=0")
        .setting("pack.useSparse=false");
    let mut arguments =
        vec!["pack-objects", "-q", "--revs", "--stdout", "--delta-base-offset", "--no-use-bitmap-index"];
    // Deltas that exist are used; looking for new ones costs more than sending the few loose objects whole.
    arguments.extend(["--window=0", "--compression=1"]);
    arguments.extend(thin.then_some("--thin"));
    let partial = path.with_extension("partial");
    let io = |error: &io::Error| CaptureError::from(ReadError::of(path, error));
    let mut file = File::create(&partial).map_err(|error| io(&error))?;
    let answer =
        git.pipe(&arguments, |stdin| stdin.write_all(input.as_bytes()), |stdout| io::copy(stdout, &mut file))?;
    if answer.code != Some(0) {
        return Err(failed(&arguments, &answer).into());
    }
    answer.output.map_err(|error| io(&error))?;
    std::fs::rename(&partial, path).map_err(|error| io(&error))
}

impl From<GitError> for CaptureError {
    fn from(error: GitError) -> Self {
        Self::Git { command: error.command, message: error.message }
    }
}

impl CaptureError {
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io { path: shown(path), kind: error.kind() }
    }
}
