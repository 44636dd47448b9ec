//! Scans of transcripts, remembered while the files do not change, so that listing again costs nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Result, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::adapter::limits::{CACHED_SCANS, RECORD_HEAD_BYTES};
use crate::adapter::lines::{self, Line};

/// What a scan gathers, line by line.
pub(super) trait Gather: Default + Clone {
    /// Looks at one line.
    fn take(&mut self, line: &Line);
    /// Lines are left out here: what was begun before them is not known to be open any more.
    fn skip(&mut self);
}

/// Remembered scans of one agent.
#[derive(Debug, Default)]
pub(super) struct Scans<T> {
    known: Mutex<BTreeMap<PathBuf, (Stamp, T)>>,
}

/// Which bytes a scan saw: inode, length, time of the last change, and whether it saw all of them.
type Stamp = (u64, u64, i64, i64, bool);

impl<T: Gather> Scans<T> {
    /// All of the file.
    pub(super) fn whole(&self, path: &Path) -> Result<T> {
        self.scan(path, u64::MAX)
    }

    /// The file's beginning and end where it is longer than twice `cap`; all of it otherwise.
    pub(super) fn bounded(&self, path: &Path, cap: u64) -> Result<T> {
        self.scan(path, cap)
    }

    fn scan(&self, path: &Path, cap: u64) -> Result<T> {
        let meta = std::fs::metadata(path)?;
        let stamp = |all| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec(), all);
        let all = meta.len() / 2 <= cap;
        if let Ok(known) = self.known.lock() {
            let fits = |found: &Stamp| *found == stamp(true) || (!all && *found == stamp(false));
            if let Some((_, scan)) = known.get(path).filter(|(found, _)| fits(found)) {
                return Ok(scan.clone());
            }
        }
        let scan: T = read(path, if all { None } else { Some((cap, meta.len())) })?;
        if let Ok(mut known) = self.known.lock() {
            if known.len() >= CACHED_SCANS {
                known.clear();
            }
            known.insert(path.to_owned(), (stamp(all), scan.clone()));
        }
        Ok(scan)
    }
}

fn read<T: Gather>(path: &Path, bound: Option<(u64, u64)>) -> Result<T> {
    gather(BufReader::with_capacity(256 << 10, File::open(path)?), bound)
}

/// Takes every line, or with a bound `(cap, length)` those of both ends.
pub(super) fn gather<T: Gather>(mut reader: impl BufRead + Seek, bound: Option<(u64, u64)>) -> Result<T> {
    let mut gathered = T::default();
    let mut seen = 0;
    while let Some(line) = lines::next(&mut reader, RECORD_HEAD_BYTES)? {
        gathered.take(&line);
        seen += line.length;
        if let Some((cap, length)) = bound.filter(|(cap, _)| seen > *cap) {
            return read_end(&mut reader, length.saturating_sub(cap).max(seen), gathered);
        }
    }
    Ok(gathered)
}

fn read_end<T: Gather>(reader: &mut (impl BufRead + Seek), from: u64, mut gathered: T) -> Result<T> {
    reader.seek(SeekFrom::Start(from))?;
    lines::next(reader, 0)?;
    gathered.skip();
    while let Some(line) = lines::next(reader, RECORD_HEAD_BYTES)? {
        gathered.take(&line);
    }
    Ok(gathered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Clone, PartialEq, Eq)]
    struct Count {
        lines: u64,
        skips: u64,
    }

    impl Gather for Count {
        fn take(&mut self, _: &Line) {
            self.lines += 1;
        }
        fn skip(&mut self) {
            self.skips += 1;
        }
    }

    #[test]
    fn changed_file_is_read_again_and_an_unchanged_one_is_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        std::fs::write(&path, "1\n2\n").unwrap();
        let scans = Scans::<Count>::default();
        assert_eq!(scans.whole(&path).unwrap().lines, 2);
        scans.known.lock().unwrap().get_mut(&path).unwrap().1.lines = 77;
        assert_eq!(scans.whole(&path).unwrap().lines, 77, "from memory");
        std::fs::write(&path, "1\n2\n3\n").unwrap();
        assert_eq!(scans.whole(&path).unwrap().lines, 3);
    }

    #[test]
    fn bounded_scan_reads_both_ends_of_a_long_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        std::fs::write(&path, "0123456789\n".repeat(1_000)).unwrap();
        let scans = Scans::<Count>::default();
        let some = scans.bounded(&path, 110).unwrap();
        assert_eq!((some.skips, some.lines), (1, 20));
        assert_eq!(scans.whole(&path).unwrap(), Count { lines: 1_000, skips: 0 });
        assert_eq!(scans.bounded(&path, 110).unwrap().lines, 1_000, "the whole scan serves");
    }
}
