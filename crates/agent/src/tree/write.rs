//! Writes the content of many entries, on two threads: chunks from the store, blobs from git.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use cede_wire::catalog::{Body, Entry, Oid};
use cede_wire::path::escape;
use sha1::{Digest, Sha1};

use super::StageError;
use super::git::{Git, failed};
use crate::limits::TREE_THREADS;
use crate::materialize::{Attributes, ReadChunk, WriteError, Writer};

/// An entry and the name it gets below the writer's root.
pub(crate) struct Job<'a> {
    pub(crate) name: Cow<'a, [u8]>,
    pub(crate) body: &'a Body,
}

impl<'a> Job<'a> {
    /// The entry under its own name.
    pub(crate) fn of(entry: &'a Entry) -> Self {
        Self { name: Cow::Borrowed(entry.path.as_bytes()), body: &entry.body }
    }
}

/// Where content comes from.
#[derive(Clone, Copy)]
pub(crate) struct Content<'a> {
    pub(crate) chunks: &'a dyn ReadChunk,
    /// Git that sees the blobs; none for a plain directory.
    pub(crate) git: Option<&'a Git>,
}

/// Writes all files, then all links. The directories above them exist.
pub(crate) fn write_all(writer: &Writer, jobs: &[Job<'_>], content: Content<'_>) -> Result<(), StageError> {
    let blobs: Vec<_> = jobs.iter().filter_map(blob).collect();
    let share = blobs.len().div_ceil(TREE_THREADS).max(1);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let mut shares = blobs.chunks(share);
        let threads: Vec<_> = (0..TREE_THREADS)
            .map(|_| {
                let (share, next) = (shares.next().unwrap_or_default(), &next);
                scope.spawn(move || {
                    write_blobs(writer, share, content.git)?;
                    write_files(writer, jobs, content.chunks, next)
                })
            })
            .collect();
        let bug = || Err(StageError::Hostile("a writing thread stopped".to_owned()));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bug()))
    })?;
    for job in jobs {
        if let Body::Symlink { target } = job.body {
            writer.symlink(&job.name, target)?;
        }
    }
    Ok(())
}

fn write_files(
    writer: &Writer,
    jobs: &[Job<'_>],
    chunks: &dyn ReadChunk,
    next: &AtomicUsize,
) -> Result<(), StageError> {
    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
        match job.body {
            Body::File { mode, mtime, chunks: list, .. } => {
                writer.file_of_chunks(&job.name, Attributes { mode: *mode, mtime: *mtime }, list, chunks)?;
            }
            Body::GitBlob { .. } | Body::Symlink { .. } | Body::Directory { .. } => {}
        }
    }
    Ok(())
}

/// A file whose bytes are those of a blob.
struct Blob<'a> {
    name: &'a [u8],
    attributes: Attributes,
    size: u64,
    oid: &'a Oid,
}

fn blob<'a>(job: &'a Job<'_>) -> Option<Blob<'a>> {
    match job.body {
        Body::GitBlob { mode, mtime, size, oid } => {
            let attributes = Attributes { mode: *mode, mtime: *mtime };
            Some(Blob { name: &job.name, attributes, size: *size, oid })
        }
        Body::File { .. } | Body::Symlink { .. } | Body::Directory { .. } => None,
    }
}

fn write_blobs(writer: &Writer, blobs: &[Blob<'_>], git: Option<&Git>) -> Result<(), StageError> {
    if blobs.is_empty() {
        return Ok(());
    }
    let git = git.ok_or_else(|| StageError::Hostile("a blob without a repository".to_owned()))?;
    let arguments = ["cat-file", "--batch", "--buffer"];
    let ask = |stdin: &mut dyn Write| {
        let mut stdin = io::BufWriter::new(stdin);
        blobs.iter().try_for_each(|blob| writeln!(stdin, "{}", blob.oid))?;
        stdin.flush()
    };
    let take = |stdout: &mut dyn Read| {
        let mut stdout = BufReader::with_capacity(256 << 10, stdout);
        blobs.iter().try_for_each(|blob| write_blob(writer, blob, &mut stdout))
    };
    let answer = git.pipe(&arguments, ask, take)?;
    answer.output.as_ref().map_err(Clone::clone)?;
    if answer.code == Some(0) { Ok(()) } else { Err(failed(&arguments, &answer).into()) }
}

fn write_blob(writer: &Writer, blob: &Blob<'_>, stdout: &mut impl BufRead) -> Result<(), StageError> {
    let broken =
        |error: io::Error| StageError::Git { command: "cat-file".to_owned(), message: error.kind().to_string() };
    let mut line = String::new();
    stdout.take(256).read_line(&mut line).map_err(broken)?;
    if line.trim_end() != format!("{} blob {}", blob.oid, blob.size) {
        return Err(StageError::Hostile(format!("{} is not the blob {}", escape(blob.name), blob.oid)));
    }
    writer.file(blob.name, blob.attributes, |file| copy_checked(stdout, file, blob))?;
    let mut newline = [0];
    stdout.read_exact(&mut newline).map_err(broken)
}

fn copy_checked(from: &mut impl BufRead, to: &mut impl Write, blob: &Blob<'_>) -> Result<(), StageError> {
    let io = |error: io::Error| StageError::Io { path: escape(blob.name), kind: error.kind() };
    let mut hash = (blob.oid.as_bytes().len() == 20).then(|| Sha1::new_with_prefix(format!("blob {}\0", blob.size)));
    let mut left = blob.size;
    while left > 0 {
        let piece = from.fill_buf().map_err(io)?;
        let piece = piece.get(..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX))).unwrap_or_default();
        if piece.is_empty() {
            return Err(io(io::ErrorKind::UnexpectedEof.into()));
        }
        to.write_all(piece).map_err(io)?;
        if let Some(hash) = &mut hash {
            hash.update(piece);
        }
        let used = piece.len();
        left -= used as u64;
        from.consume(used);
    }
    let wrong = hash.is_some_and(|hash| hash.finalize().as_slice() != blob.oid.as_bytes());
    let other = || Err(StageError::Hostile(format!("the blob {} has other bytes than its id says", blob.oid)));
    if wrong { other() } else { Ok(()) }
}

impl From<WriteError> for StageError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Collides(path) => Self::Hostile(format!("two entries claim the same name here: {path}")),
            WriteError::NotBelow(path) => Self::Hostile(format!("the way to it is not a directory: {path}")),
            WriteError::Chunk(id) => Self::Chunk(id),
            WriteError::Io { path, kind } => Self::Io { path, kind },
        }
    }
}
