//! What the adapters remember of fences, and the step that puts one up: the real file gets a second name, then a
//! tombstone takes its place in one rename. At every instant the path holds the session or the tombstone, never
//! nothing and never a half.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use cede_wire::session::{AgentKind, NativeId};

use crate::adapter::arrivals::{self, Relation};
use crate::adapter::limits::BRANCH_NAMES;
use crate::adapter::{AgentError, Tombstone, durable, lines};

/// The directory of one agent's fences.
#[derive(Debug, Clone)]
pub(super) struct Fences {
    directory: PathBuf,
}

/// A fence as it is written down. It is written before the fence goes up and removed after it came down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fence {
    /// What a person reads.
    pub(super) text: String,
    /// The files that were set aside, by the path where the agent looks.
    pub(super) files: Vec<PathBuf>,
    /// Second names of them that the fence made, and that go away with it.
    #[serde(default)]
    pub(super) copies: Vec<PathBuf>,
}

/// Says whether a file is a tombstone. One that is not there is none; one that cannot be read is an error, since what it
/// is decides which bytes are the session's.
pub(super) type IsTombstone = fn(&Path) -> Result<bool, AgentError>;

/// What stands in the place of a session that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// No tombstone: the session, something else, or nothing.
    Other,
    /// A tombstone, and what an agent writes to a conversation that nobody goes on with.
    Tombstone,
    /// A tombstone that somebody went on with all the same: its turns are nowhere else.
    WentOn,
}

/// Says which of them it is. Errors as [`IsTombstone`].
pub(super) type Look = fn(&Path) -> Result<Stands, AgentError>;

/// Reads on behind the beginning of a tombstone: `turn` tells of each further line whether it is an agent's answer. Of a line
/// that is too long to be read whole it is taken to be one.
pub(super) fn look(
    path: &Path,
    keep: usize,
    is_tombstone: IsTombstone,
    turn: fn(&[u8]) -> bool,
) -> Result<Stands, AgentError> {
    if !is_tombstone(path)? {
        return Ok(Stands::Other);
    }
    let unread = |error: std::io::Error| durable::world("read", path, &error);
    let Some(file) = durable::found(std::fs::File::open(path)).map_err(unread)? else { return Ok(Stands::Other) };
    let mut reader = std::io::BufReader::new(file);
    while let Some(line) = lines::next(&mut reader, keep).map_err(unread)? {
        if !line.whole || turn(&line.head) {
            return Ok(Stands::WentOn);
        }
    }
    Ok(Stands::Tombstone)
}

/// Gives what somebody went on with in a tombstone a name that stays, before anything takes its place.
pub(super) fn keep_what_went_on(path: &Path, look: Look) -> Result<Option<PathBuf>, AgentError> {
    if look(path)? == Stands::WentOn { keep(path).map(Some) } else { Ok(None) }
}

/// Gives a file that somebody wrote where the session is away a second name, which stays when another file takes its place.
pub(super) fn keep(path: &Path) -> Result<PathBuf, AgentError> {
    for kept in branch_names(path) {
        if !durable::is_there(&kept)? {
            durable::link(path, &kept)?;
            tracing::warn!(kept = %kept.display(), "somebody went on where the session is away; it is kept");
            return Ok(kept);
        }
        // An attempt that failed after this has kept it already.
        if durable::same_file(&kept, path)? {
            return Ok(kept);
        }
    }
    Err(AgentError::World { doing: format!("keep what lies in {}", path.display()), why: "no name is free".to_owned() })
}

/// The ending of a file that was set aside; it lies beside its old place, so that both are on one file system.
const ASIDE: &str = "cede-aside";

impl Tombstone {
    /// The sentence that a refused person reads.
    pub fn text(&self) -> String {
        format!("session {} moved to {}; to get it back, type: {}", self.session, self.owner, self.command)
    }
}

impl Fences {
    pub(super) fn new(state: &Path, agent: AgentKind) -> Self {
        Self { directory: state.join("fences").join(agent.name()) }
    }

    /// Where the refusals lie as plain text, one file for each session.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The fence of a session, where one was begun.
    pub(super) fn read(&self, native: &NativeId) -> Result<Option<Fence>, AgentError> {
        let path = self.record(native);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| AgentError::Damaged {
                what: format!("the fence record does not decode: {error}"),
                file: path.display().to_string(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(durable::world("read", &path, &error)),
        }
    }

    /// Writes the fence down, and its text beside it for programs that only know plain files.
    pub(super) fn write(&self, native: &NativeId, fence: &Fence) -> Result<(), AgentError> {
        let bytes = serde_json::to_vec(fence)
            .map_err(|error| AgentError::World { doing: "encode a fence".to_owned(), why: error.to_string() })?;
        durable::write(&self.record(native), &bytes)?;
        durable::write(&self.directory.join(native.as_str()), format!("{}\n", fence.text).as_bytes())
    }

    /// Forgets the fence.
    pub(super) fn forget(&self, native: &NativeId) -> Result<(), AgentError> {
        durable::remove(&self.directory.join(native.as_str()))?;
        durable::remove(&self.record(native))
    }

    /// True where no session of this agent is fenced.
    pub(super) fn is_empty(&self) -> Result<bool, AgentError> {
        let records = durable::list(&self.directory)?;
        Ok(!records.iter().any(|path| path.extension().is_some_and(|ending| ending == "json")))
    }

    fn record(&self, native: &NativeId) -> PathBuf {
        self.directory.join(format!("{native}.json"))
    }
}

/// Where a file's real bytes lie while a tombstone stands in its place.
pub(super) fn aside(path: &Path) -> PathBuf {
    durable::beside(path, ASIDE)
}

/// The file that holds the session's real bytes: the one set aside while a tombstone stands in its place, the one
/// in its place otherwise. One that a crash left aside after the session came back does not count.
pub(super) fn real(path: &Path, is_tombstone: IsTombstone) -> Result<PathBuf, AgentError> {
    let aside = aside(path);
    let is_aside = durable::is_there(&aside)? && (is_tombstone(path)? || !durable::is_there(path)?);
    Ok(if is_aside { aside } else { path.to_owned() })
}

/// The name that a file had before it was set aside. `None` where it was not.
pub(super) fn place_of_aside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(ASIDE)?.strip_suffix('.')?;
    Some(path.with_file_name(name))
}

/// Puts a tombstone in the place of a file.
pub(super) fn bury(path: &Path, tombstone: &[u8], look: Look) -> Result<(), AgentError> {
    let aside = aside(path);
    keep_what_went_on(path, look)?;
    if look(path)? == Stands::Other && durable::is_there(path)? && !durable::same_file(&aside, path)? {
        clear(&aside, path)?;
        durable::link(path, &aside)?;
    }
    durable::write(path, tombstone)
}

/// Frees the name of the file that is set aside: an old beginning of the conversation goes, anything else is kept.
fn clear(aside: &Path, path: &Path) -> Result<(), AgentError> {
    if !durable::is_there(aside)? {
        return Ok(());
    }
    match arrivals::relation(aside, path)? {
        Relation::Same | Relation::Shorter => durable::remove(aside),
        Relation::Longer | Relation::Apart => durable::rename(aside, &branch(path)),
    }
}

/// Puts the real file back. Where `look` says that something else stands there, or that somebody went on with the tombstone,
/// that is kept beside and its name returned.
pub(super) fn unbury(path: &Path, look: Look) -> Result<Option<PathBuf>, AgentError> {
    let aside = aside(path);
    if !durable::is_there(&aside)? {
        return Ok(None);
    }
    if durable::same_file(&aside, path)? {
        durable::remove(&aside)?;
        return Ok(None);
    }
    let returned = durable::is_there(path)? && look(path)? == Stands::Other;
    if returned && matches!(arrivals::relation(&aside, path)?, Relation::Same | Relation::Shorter) {
        durable::remove(&aside)?;
        return Ok(None);
    }
    let kept = match returned {
        false => keep_what_went_on(path, look)?,
        true => {
            let branch = branch(path);
            durable::rename(path, &branch)?;
            Some(branch)
        }
    };
    durable::rename(&aside, path)?;
    Ok(kept)
}

/// A free name beside `path` for a conversation that is kept and no longer in charge.
pub(super) fn branch(path: &Path) -> PathBuf {
    let free = |name: &PathBuf| matches!(durable::is_there(name), Ok(false));
    branch_names(path).find(free).unwrap_or_else(|| durable::beside(path, BRANCH))
}

const BRANCH: &str = "cede-branch";

fn branch_names(path: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=BRANCH_NAMES).map(|number| durable::beside(path, &format!("{BRANCH}-{number}")))
}

/// Those of the files that have such a name.
pub(super) fn kept(files: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let marked = |path: &PathBuf| {
        let ending = path.extension().and_then(std::ffi::OsStr::to_str);
        ending.is_some_and(|ending| ending.starts_with(BRANCH))
    };
    files.into_iter().filter(marked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_tombstone(path: &Path) -> Result<bool, AgentError> {
        let bytes = durable::found(std::fs::read(path)).map_err(|error| durable::world("read", path, &error))?;
        Ok(bytes.is_some_and(|bytes| bytes.starts_with(b"tomb")))
    }

    fn stands(path: &Path) -> Result<Stands, AgentError> {
        look(path, 64, is_tombstone, |line| line == b"turn")
    }

    /// Shows: A-3, T-16
    #[test]
    fn file_that_cannot_be_read_is_neither_buried_nor_dug_up() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("session.jsonl");
        std::fs::write(&path, b"real").unwrap();
        bury(&path, b"tomb", stands).unwrap();
        let unread: Look = |path| Err(durable::world("read", path, &std::io::Error::other("failing disk")));
        let names = || std::fs::read_dir(place.path()).unwrap().count();
        assert!(matches!(bury(&path, b"tomb two", unread), Err(AgentError::World { .. })));
        assert!(matches!(unbury(&path, unread), Err(AgentError::World { .. })));
        let unread: IsTombstone = |path| Err(durable::world("read", path, &std::io::Error::other("failing disk")));
        assert!(matches!(real(&path, unread), Err(AgentError::World { .. })));
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"tomb".to_vec(), 2));
        assert_eq!(std::fs::read(real(&path, is_tombstone).unwrap()).unwrap(), b"real");
    }

    /// Shows: A-3
    #[test]
    fn buried_file_comes_back_with_the_same_bytes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("session.jsonl");
        std::fs::write(&path, b"real").unwrap();
        bury(&path, b"tomb one", stands).unwrap();
        bury(&path, b"tomb two", stands).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"tomb two");
        assert_eq!(std::fs::read(real(&path, is_tombstone).unwrap()).unwrap(), b"real");
        assert_eq!(unbury(&path, stands).unwrap(), None);
        assert_eq!(unbury(&path, stands).unwrap(), None);
        assert_eq!(std::fs::read(&path).unwrap(), b"real");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    /// Shows: A-3
    #[test]
    fn crash_between_the_two_names_is_undone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("session.jsonl");
        std::fs::write(&path, b"real").unwrap();
        durable::link(&path, &aside(&path)).unwrap();
        assert_eq!(unbury(&path, stands).unwrap(), None);
        assert_eq!(std::fs::read(&path).unwrap(), b"real");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn crash_after_the_session_came_back_does_not_bring_the_old_bytes_back() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("session.jsonl");
        std::fs::write(&path, b"real").unwrap();
        bury(&path, b"tomb", stands).unwrap();
        std::fs::write(&path, b"real and more").unwrap();
        assert_eq!(real(&path, is_tombstone).unwrap(), path);
        assert_eq!(unbury(&path, stands).unwrap(), None);
        assert_eq!(std::fs::read(&path).unwrap(), b"real and more");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_not_our_tombstone_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("session.jsonl");
        std::fs::write(&path, b"real").unwrap();
        bury(&path, b"tomb", stands).unwrap();
        std::fs::write(&path, b"somebody's work").unwrap();
        let kept = unbury(&path, stands).unwrap().unwrap();
        assert_eq!(std::fs::read(kept).unwrap(), b"somebody's work");
        assert_eq!(std::fs::read(&path).unwrap(), b"real");
    }

    /// What an agent adds to a conversation that it only opens is nobody's work.
    ///
    /// Shows: A-3, H-25
    #[test]
    fn turn_that_was_added_to_a_tombstone_is_kept_and_no_other_line() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("session.jsonl");
        let names = || std::fs::read_dir(place.path()).unwrap().count();
        std::fs::write(&path, b"real").unwrap();
        bury(&path, b"tomb\n", stands).unwrap();
        std::fs::write(&path, b"tomb\nopened\n").unwrap();
        bury(&path, b"tomb\n", stands).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"tomb\n".to_vec(), 2));
        for more in ["turn\n".to_owned(), "turn".to_owned(), format!("opened\n{}\n", "x".repeat(65))] {
            let (went_on, before) = (format!("tomb\n{more}"), names());
            std::fs::write(&path, &went_on).unwrap();
            bury(&path, b"tomb\n", stands).unwrap();
            assert_eq!((std::fs::read(&path).unwrap(), names()), (b"tomb\n".to_vec(), before + 1));
            std::fs::write(&path, &went_on).unwrap();
            let kept = unbury(&path, stands).unwrap().unwrap();
            assert_eq!(
                (std::fs::read_to_string(kept).unwrap(), std::fs::read(&path).unwrap()),
                (went_on, b"real".to_vec())
            );
            bury(&path, b"tomb\n", stands).unwrap();
        }
        std::fs::write(&path, b"tomb\nopened\n").unwrap();
        assert_eq!(unbury(&path, stands).unwrap(), None);
    }
}
