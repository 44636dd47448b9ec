//! The conversation's files of an arriving session, written beside what their agent will take.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cede_agent::tree::ReadChunk;
use cede_wire::catalog::{Body, Catalog, ChunkRef, Entry, Place};
use cede_wire::id::ChunkId;

/// Writes the conversation's files under their logical paths, which cannot leave the directory. What an earlier round
/// wrote is read again, and stays as far as it is right. A chunk that cannot be read is invalid data.
pub(crate) fn write_transcript(catalog: &Catalog, chunks: &dyn ReadChunk, files: &Path) -> io::Result<()> {
    let spoken: Vec<_> = catalog.entries.iter().filter(|entry| entry.place == Place::Transcript).collect();
    let path = |entry: &Entry| files.join(OsStr::from_bytes(entry.path.as_bytes()));
    let wanted: HashSet<_> = spoken.iter().map(|entry| path(entry)).collect();
    if !holds_only(files, &wanted)? {
        std::fs::remove_dir_all(files)?;
    }
    private_directories(files)?;
    spoken.into_iter().try_for_each(|entry| write_spoken(entry, chunks, &path(entry)))
}

/// False if anything lies there that is not wanted. Nothing there holds nothing else.
fn holds_only(directory: &Path, wanted: &HashSet<PathBuf>) -> io::Result<bool> {
    let names = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        names => names?,
    };
    for name in names {
        let name = name?;
        let fine = match name.file_type()? {
            kind if kind.is_dir() => holds_only(&name.path(), wanted)?,
            kind => kind.is_file() && wanted.contains(&name.path()),
        };
        if !fine {
            return Ok(false);
        }
    }
    Ok(true)
}

fn private_directories(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_spoken(entry: &Entry, chunks: &dyn ReadChunk, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), private_directories)?;
    let mut options = File::options();
    let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mut piece = Vec::new();
    let mut right = 0;
    let mut rest = entry.chunks();
    while let Some((chunk, after)) = rest.split_first()
        && reads(&mut file, chunk, &mut piece)
    {
        right += u64::from(chunk.length);
        rest = after;
    }
    file.set_len(right)?;
    file.seek(SeekFrom::Start(right))?;
    for chunk in rest {
        chunks.read(&chunk.id, &mut piece).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        file.write_all(&piece)?;
    }
    if let Body::File { mtime, .. } = &entry.body {
        let seconds = u64::try_from(mtime.seconds).unwrap_or(0);
        let at = std::time::UNIX_EPOCH + std::time::Duration::new(seconds, mtime.nanos);
        file.set_modified(at)?;
    }
    Ok(())
}

fn reads(file: &mut File, chunk: &ChunkRef, piece: &mut Vec<u8>) -> bool {
    piece.resize(chunk.length as usize, 0);
    file.read_exact(piece).is_ok() && ChunkId::of(piece) == chunk.id
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use cede_agent::chunk::chunk_bytes;
    use cede_wire::catalog::Mtime;
    use cede_wire::custody::Head;
    use cede_wire::id::Hash;
    use cede_wire::path::RelPath;
    use cede_wire::session::{AgentKind, NativeId, SessionKey};

    use super::*;

    /// Chunks in memory, and which of them were asked for.
    #[derive(Default)]
    struct Known {
        chunks: BTreeMap<ChunkId, Vec<u8>>,
        asked: Mutex<Vec<ChunkId>>,
    }

    impl Known {
        fn entry(&mut self, path: &str, bytes: &[u8]) -> Entry {
            let chunks = chunk_bytes(bytes);
            let mut rest = bytes;
            for chunk in &chunks {
                let (piece, after) = rest.split_at(chunk.length as usize);
                self.chunks.insert(chunk.id, piece.to_vec());
                rest = after;
            }
            let mtime = Mtime { seconds: 1_000, nanos: 7 };
            let body = Body::File { mode: 0o600, mtime, size: bytes.len() as u64, chunks };
            Entry { place: Place::Transcript, path: RelPath::parse(path.as_bytes()).unwrap(), body }
        }

        fn write(&self, entries: &[&Entry], files: &Path) -> usize {
            self.asked.lock().unwrap().clear();
            let key = SessionKey { agent: AgentKind::Files, native: NativeId::parse("a").unwrap() };
            let entries = entries.iter().map(|entry| (*entry).clone()).collect();
            let catalog = Catalog { key, head: Head { turn: 0, length: 0, hash: Hash::of(b"") }, entries };
            write_transcript(&catalog, self, files).unwrap();
            self.asked.lock().unwrap().len()
        }
    }

    impl ReadChunk for Known {
        fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> io::Result<()> {
            self.asked.lock().unwrap().push(*id);
            into.clone_from(self.chunks.get(id).ok_or(io::ErrorKind::NotFound)?);
            Ok(())
        }
    }

    fn noise(length: usize) -> Vec<u8> {
        let blocks = (0_u64..).map(|number| *Hash::of(&number.to_le_bytes()).as_bytes());
        blocks.flatten().take(length).collect()
    }

    #[test]
    fn longer_conversation_keeps_what_an_earlier_round_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        let mut known = Known::default();
        let all = noise(2_000_000);
        let (first, second) = (known.entry("a/log", &all[..1_900_000]), known.entry("a/log", &all));
        let side = known.entry("side", b"short");
        assert!(known.write(&[&first, &side], &files) > 10);
        assert_eq!(known.write(&[&first, &side], &files), 0, "nothing is written twice");
        assert!(known.write(&[&second, &side], &files) < 10);
        assert_eq!(std::fs::read(files.join("a/log")).unwrap(), all);
        let modified = std::fs::metadata(files.join("a/log")).unwrap().modified().unwrap();
        assert_eq!(modified, std::time::UNIX_EPOCH + std::time::Duration::new(1_000, 7));
    }

    #[test]
    fn wrong_bytes_and_files_of_another_round_do_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        let mut known = Known::default();
        let all = noise(500_000);
        let (log, side) = (known.entry("log", &all), known.entry("side/x", b"s"));
        known.write(&[&log, &side], &files);
        std::fs::write(files.join("log"), noise(600_000).into_iter().rev().collect::<Vec<_>>()).unwrap();
        known.write(&[&log], &files);
        assert_eq!(std::fs::read(files.join("log")).unwrap(), all);
        assert!(!files.join("side").exists());
    }
}
