//! Walks a tree once: what is there, and which of it travels. Follows no link, survives files that vanish.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use cede_wire::catalog::Mtime;
use cede_wire::limits::{CATALOG_ENTRIES, PATH_DEPTH};
use cede_wire::path::{RelPath, escape};
use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::globs::Globs;
use super::repository::Repository;
use super::{Baseline, Tree, TreeRefusal};
use crate::chunk::{FileStat, ReadError};
use crate::limits::IGNORED_COUNTED;
use crate::materialize::beneath::{open_directory, open_root};

/// Permission bits that a directory gets when nothing is said of it.
pub(crate) const USUAL_DIRECTORY_MODE: u32 = 0o755;

/// Why a file travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Git tracks it: its position in the index.
    Tracked(u32),
    Untracked,
    Ignored,
}

/// A file or a link that travels.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) path: Vec<u8>,
    pub(crate) stat: FileStat,
    pub(crate) class: Class,
}

impl Found {
    pub(crate) fn is_link(&self) -> bool {
        FileType::from_raw_mode(self.stat.mode) == FileType::Symlink
    }
}

/// Files that stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Sorted by path.
    pub(crate) files: Vec<Found>,
    /// Directories that are empty, hold nothing that travels, or have an unusual mode; sorted.
    pub(crate) directories: Vec<(Vec<u8>, u32)>,
    pub(crate) tracked: Tally,
    pub(crate) untracked: Tally,
    pub(crate) included: Tally,
    pub(crate) ignored: Tally,
    pub(crate) excluded: Tally,
    /// Files with a set-user-id bit or its like.
    pub(crate) special_bits: u64,
    /// Git directories without a work tree that lie in the tree as plain files.
    pub(crate) bare: Vec<Vec<u8>>,
}

/// Which files travel.
pub(crate) struct Selection<'a> {
    pub(crate) include_ignored: Globs,
    pub(crate) exclude: Globs,
    pub(crate) untracked: bool,
    /// Ignored paths of this state travel too: they did before.
    pub(crate) also: Option<&'a Baseline>,
    /// Walk ignored directories only to count them.
    pub(crate) count_ignored: bool,
}

/// Why a tree was not walked.
#[derive(Debug)]
pub(crate) enum SurveyError {
    Refused(TreeRefusal),
    ExcludesTracked { path: String, pattern: String },
    Read(ReadError),
}

impl From<TreeRefusal> for SurveyError {
    fn from(refusal: TreeRefusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(crate) fn survey(
    tree: &Tree,
    repository: Option<&Repository>,
    selection: &Selection<'_>,
) -> Result<Survey, SurveyError> {
    let root = open_root(&tree.root).map_err(|error| unreadable(b".", &error))?;
    let mut walk = Walk { repository, selection, survey: Survey::default(), unsure: Vec::new() };
    walk.directory(&root, &mut Vec::new(), Zone::Plain, 0)?;
    while !walk.unsure.is_empty() {
        walk.settle(&root)?;
    }
    walk.survey.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    walk.survey.directories.sort_unstable();
    Ok(walk.survey)
}

/// Where a walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zone {
    Plain,
    /// Below an ignored directory.
    Ignored,
    /// Below a repository that lies in an ignored directory: nothing of it may be included.
    Nested,
}

/// What only git can say: is it ignored?
struct Unsure {
    path: Vec<u8>,
    what: Doubt,
}

enum Doubt {
    Directory,
    Repository,
    Special(&'static str),
}

struct Walk<'a> {
    repository: Option<&'a Repository>,
    selection: &'a Selection<'a>,
    survey: Survey,
    unsure: Vec<Unsure>,
}

impl Walk<'_> {
    /// Walks one directory and says whether something in it travels.
    fn directory(&mut self, fd: &OwnedFd, path: &mut Vec<u8>, zone: Zone, depth: usize) -> Result<bool, SurveyError> {
        if depth > PATH_DEPTH {
            return Err(TreeRefusal::Name(format!("{} (too deep)", escape(path))).into());
        }
        let names = names(fd).map_err(|error| unreadable(path, &error))?;
        let zone = self.enter(path, &names, zone, depth)?;
        let mut travels = false;
        for name in names {
            if name == b".git" {
                continue;
            }
            let length = path.len();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            travels |= self.entry(fd, &name, path, zone, depth)?;
            path.truncate(length);
        }
        Ok(travels)
    }

    fn enter(&mut self, path: &[u8], names: &[Vec<u8>], zone: Zone, depth: usize) -> Result<Zone, SurveyError> {
        let has = |name: &[u8]| names.iter().any(|n| n == name);
        if has(b"HEAD") && has(b"objects") && has(b"refs") && zone == Zone::Plain {
            self.survey.bare.push(path.to_vec());
        }
        if !has(b".git") || depth == 0 {
            return Ok(zone);
        }
        match zone {
            Zone::Ignored | Zone::Nested => return Ok(Zone::Nested),
            Zone::Plain if self.repository.is_none() => {
                return Err(TreeRefusal::NestedRepository(escape(path)).into());
            }
            Zone::Plain => self.unsure.push(Unsure { path: path.to_vec(), what: Doubt::Repository }),
        }
        Ok(zone)
    }

    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        path: &mut Vec<u8>,
        zone: Zone,
        depth: usize,
    ) -> Result<bool, SurveyError> {
        let stat = match statat(parent, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => file_stat(&stat),
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(error) => return Err(unreadable(path, &error.into())),
        };
        match FileType::from_raw_mode(stat.mode) {
            FileType::Directory => self.below(parent, name, path, zone, (stat, depth)),
            FileType::RegularFile | FileType::Symlink => self.file(path, stat, zone),
            FileType::Fifo => self.special(path, "pipe", zone),
            FileType::Socket => self.special(path, "socket", zone),
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => self.special(path, "device", zone),
        }
    }

    fn below(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        path: &mut Vec<u8>,
        zone: Zone,
        (stat, depth): (FileStat, usize),
    ) -> Result<bool, SurveyError> {
        if zone == Zone::Plain && self.selection.exclude.find(path).is_some() && !self.has_tracked_below(path) {
            self.leave_directory(parent, name);
            return Ok(false);
        }
        if zone == Zone::Plain && self.repository.is_some_and(|repository| !repository.lists_below(path)) {
            self.unsure.push(Unsure { path: path.clone(), what: Doubt::Directory });
            return Ok(false);
        }
        let fd = match open_directory(parent, name) {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(unreadable(path, &error)),
        };
        let travels = self.directory(&fd, path, zone, depth + 1)?;
        self.note_directory(path, stat, zone, travels)?;
        Ok(travels || zone == Zone::Plain)
    }

    fn note_directory(&mut self, path: &[u8], stat: FileStat, zone: Zone, travels: bool) -> Result<(), SurveyError> {
        let unusual = stat.permissions() != USUAL_DIRECTORY_MODE;
        let wanted = match zone {
            Zone::Plain => !travels || unusual,
            Zone::Ignored => travels && unusual || self.was_there(path),
            Zone::Nested => false,
        };
        if wanted {
            name_travels(path)?;
            self.survey.directories.push((path.to_vec(), stat.permissions()));
        }
        Ok(())
    }

    fn file(&mut self, path: &[u8], stat: FileStat, zone: Zone) -> Result<bool, SurveyError> {
        let class = self.classify(path, zone);
        let tally = Tally { count: 1, bytes: stat.size };
        let excluded = self.selection.exclude.find(path);
        let included = || self.selection.include_ignored.find(path).is_some() || self.was_there(path);
        match class {
            Class::Tracked(_) => {
                if let Some(pattern) = excluded {
                    return Err(SurveyError::ExcludesTracked { path: escape(path), pattern: pattern.to_owned() });
                }
            }
            Class::Untracked if excluded.is_some() || !self.selection.untracked => {
                self.survey.excluded.add(tally);
                return Ok(false);
            }
            Class::Ignored if excluded.is_some() || !included() => {
                self.survey.ignored.add(tally);
                return Ok(false);
            }
            Class::Ignored if zone == Zone::Nested => {
                return Err(TreeRefusal::NestedRepository(escape(path)).into());
            }
            Class::Untracked | Class::Ignored => {}
        }
        name_travels(path)?;
        if self.survey.files.len() >= CATALOG_ENTRIES {
            return Err(TreeRefusal::TooMany(CATALOG_ENTRIES).into());
        }
        match class {
            Class::Tracked(_) => self.survey.tracked.add(tally),
            Class::Untracked => self.survey.untracked.add(tally),
            Class::Ignored => self.survey.included.add(tally),
        }
        self.survey.special_bits += u64::from(stat.mode & 0o7000 != 0);
        self.survey.files.push(Found { path: path.to_vec(), stat, class });
        Ok(true)
    }

    fn classify(&self, path: &[u8], zone: Zone) -> Class {
        let Some(repository) = self.repository else { return Class::Untracked };
        match repository.index_position(path) {
            Some(position) => Class::Tracked(position),
            None if zone == Zone::Plain && repository.is_untracked(path) => Class::Untracked,
            None => Class::Ignored,
        }
    }

    fn special(&mut self, path: &[u8], kind: &'static str, zone: Zone) -> Result<bool, SurveyError> {
        match (zone, self.repository) {
            (Zone::Ignored | Zone::Nested, _) => self.survey.ignored.add(Tally { count: 1, bytes: 0 }),
            (Zone::Plain, _) if self.selection.exclude.find(path).is_some() => {
                self.survey.excluded.add(Tally { count: 1, bytes: 0 });
            }
            (Zone::Plain, None) => return Err(TreeRefusal::SpecialFile { path: escape(path), kind }.into()),
            (Zone::Plain, Some(_)) => self.unsure.push(Unsure { path: path.to_vec(), what: Doubt::Special(kind) }),
        }
        Ok(false)
    }

    /// Asks git about everything that is neither tracked nor untracked, and walks on where it is not ignored.
    fn settle(&mut self, root: &OwnedFd) -> Result<(), SurveyError> {
        let asked = std::mem::take(&mut self.unsure);
        let Some(repository) = self.repository else { return Ok(()) };
        let paths: Vec<&[u8]> = asked.iter().map(|unsure| unsure.path.as_slice()).collect();
        let ignored = repository.ignored_of(&paths)?;
        for Unsure { path, what } in asked {
            let ignored = ignored.contains(&path);
            match what {
                Doubt::Directory => self.settle_directory(root, path, ignored)?,
                Doubt::Repository if ignored => {}
                Doubt::Repository => return Err(TreeRefusal::NestedRepository(escape(&path)).into()),
                Doubt::Special(_) if ignored => self.survey.ignored.add(Tally { count: 1, bytes: 0 }),
                Doubt::Special(kind) => return Err(TreeRefusal::SpecialFile { path: escape(&path), kind }.into()),
            }
        }
        Ok(())
    }

    fn settle_directory(&mut self, root: &OwnedFd, mut path: Vec<u8>, ignored: bool) -> Result<(), SurveyError> {
        let searched = !self.selection.include_ignored.is_empty() || self.selection.also.is_some();
        if ignored && !searched && !self.selection.count_ignored {
            return Ok(());
        }
        let fd = match open_directory(root, &path) {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // What a person may not open was never taken along; below it nothing can be missed that never was.
            Err(error) if ignored && (!searched || is_closed(&error) && !self.was_below(&path)) => return Ok(()),
            Err(error) => return Err(unreadable(&path, &error)),
        };
        if ignored && self.survey.ignored.count >= IGNORED_COUNTED && !searched {
            return Ok(());
        }
        let stat = rustix::fs::fstat(&fd).map(|stat| file_stat(&stat)).map_err(|e| unreadable(&path, &e.into()))?;
        let zone = if ignored { Zone::Ignored } else { Zone::Plain };
        let depth = path.split(|b| *b == b'/').count();
        let travels = self.directory(&fd, &mut path, zone, depth)?;
        self.note_directory(&path, stat, zone, travels)
    }

    /// One that cannot be read is left as well: it is often why somebody leaves it.
    fn leave_directory(&mut self, parent: &OwnedFd, name: &[u8]) {
        let mut tally = Tally::default();
        if let Ok(fd) = open_directory(parent, name) {
            count(&fd, &mut tally, 0);
        }
        self.survey.excluded.add(tally);
    }

    fn has_tracked_below(&self, path: &[u8]) -> bool {
        self.repository.is_some_and(|repository| repository.tracks_below(path))
    }

    fn was_below(&self, path: &[u8]) -> bool {
        self.selection.also.is_some_and(|baseline| baseline.contains_below(path))
    }

    fn was_there(&self, path: &[u8]) -> bool {
        self.selection.also.is_some_and(|baseline| baseline.contains(path))
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Counts files below a directory that stays; what cannot be read is not counted.
fn count(fd: &OwnedFd, tally: &mut Tally, depth: usize) {
    for name in names(fd).unwrap_or_default() {
        let Ok(stat) = statat(fd, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let stat = file_stat(&stat);
        if FileType::from_raw_mode(stat.mode) != FileType::Directory {
            tally.add(Tally { count: 1, bytes: stat.size });
        } else if let Ok(below) = open_directory(fd, &name)
            && depth < PATH_DEPTH
            && tally.count < IGNORED_COUNTED
        {
            count(&below, tally, depth + 1);
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn names(fd: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(fd.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn name_travels(path: &[u8]) -> Result<(), TreeRefusal> {
    RelPath::parse(path).map(|_| ()).map_err(|error| TreeRefusal::Name(error.to_string()))
}

fn unreadable(path: &[u8], error: &io::Error) -> SurveyError {
    SurveyError::Read(ReadError::of(std::path::Path::new(OsStr::from_bytes(path)), error))
}

#[expect(clippy::unnecessary_cast, reason = "the widths of these fields differ between systems")]
pub(crate) fn file_stat(stat: &rustix::fs::Stat) -> FileStat {
    let time = |seconds: i64, nanos: u64| Mtime { seconds, nanos: u32::try_from(nanos).unwrap_or(0) };
    FileStat {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        inode: stat.st_ino as u64,
        device: stat.st_dev as u64,
        mode: stat.st_mode as u32,
    }
}
