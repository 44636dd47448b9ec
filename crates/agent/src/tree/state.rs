//! A repository as data: what travels of `.git` besides the objects, and the rules it must keep.

use cede_wire::canonical::{DecodeError, at_most, decode, encode};
use cede_wire::catalog::Oid;
use cede_wire::limits::CATALOG_ENTRIES;
use cede_wire::path::{RelPath, escape};
use serde::{Deserialize, Serialize};

use crate::limits::{EXCLUDE_BYTES, FETCH_RULES, GIT_STATE_BYTES, GIT_TEXT_BYTES, REFERENCES, REMOTES, STASHES};

/// Names of the entries in the git place.
pub(crate) const INDEX: &str = "index";
pub(crate) const STATE: &str = "state";
pub(crate) const PACK: &str = "pack";

const FORMAT: u16 = 1;

/// The hash that a repository names objects by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ObjectFormat {
    /// 0
    Sha1,
    /// 1
    Sha256,
}

impl ObjectFormat {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    pub(crate) const fn oid_bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HeadState {
    /// 0: a branch, by its full name; it need not have a commit yet.
    Branch(Vec<u8>),
    /// 1: a commit.
    Detached(Oid),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) name: Vec<u8>,
    pub(crate) oid: Oid,
}

/// A reference that names another, such as `refs/remotes/origin/HEAD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Alias {
    pub(crate) name: Vec<u8>,
    pub(crate) target: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stash {
    pub(crate) oid: Oid,
    pub(crate) message: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remote {
    pub(crate) name: Vec<u8>,
    /// Without user information.
    pub(crate) url: Vec<u8>,
    /// Which of its references are mirrored, as `+refs/heads/*:refs/remotes/name/*`.
    #[serde(deserialize_with = "at_most::<FETCH_RULES, _, _>")]
    pub(crate) fetch: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Upstream {
    /// The branch, without `refs/heads/`.
    pub(crate) branch: Vec<u8>,
    /// A remote's name, or `.`.
    pub(crate) remote: Vec<u8>,
    /// The full name of the branch there.
    pub(crate) merge: Vec<u8>,
}

/// Settings that decide whether a file counts as changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// `core.autocrlf`: `true`, `false` or `input`.
    pub(crate) autocrlf: String,
    /// `core.eol`: `lf`, `crlf` or `native`.
    pub(crate) eol: String,
    /// `core.filemode` is off.
    pub(crate) ignores_modes: bool,
}

pub(crate) const AUTOCRLF: [&str; 3] = ["false", "true", "input"];
pub(crate) const EOL: [&str; 3] = ["native", "lf", "crlf"];

/// The `state` entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) format: u16,
    pub(crate) objects: ObjectFormat,
    pub(crate) head: HeadState,
    #[serde(deserialize_with = "at_most::<REFERENCES, _, _>")]
    pub(crate) references: Vec<Reference>,
    #[serde(deserialize_with = "at_most::<REFERENCES, _, _>")]
    pub(crate) aliases: Vec<Alias>,
    /// Newest first.
    #[serde(deserialize_with = "at_most::<STASHES, _, _>")]
    pub(crate) stashes: Vec<Stash>,
    #[serde(deserialize_with = "at_most::<REMOTES, _, _>")]
    pub(crate) remotes: Vec<Remote>,
    #[serde(deserialize_with = "at_most::<REFERENCES, _, _>")]
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) settings: Settings,
    /// The patterns of `info/exclude`.
    pub(crate) exclude: Vec<u8>,
    /// Where the session runs below the root.
    pub(crate) subdirectory: Option<RelPath>,
}

/// Marks of an index entry, as bits.
pub(crate) const SKIP_WORKTREE: u8 = 1;
pub(crate) const ASSUME_UNCHANGED: u8 = 2;
pub(crate) const INTENT_TO_ADD: u8 = 4;

/// One line of the index. Intent to add: the blob is the empty one, and nothing of it is in the pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexEntry {
    pub(crate) path: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) oid: Oid,
    pub(crate) marks: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Index {
    format: u16,
    #[serde(deserialize_with = "at_most::<CATALOG_ENTRIES, _, _>")]
    entries: Vec<IndexEntry>,
}

/// The same bytes, without a copy of the entries.
#[derive(Serialize)]
struct IndexView<'a> {
    format: u16,
    entries: &'a [IndexEntry],
}

impl State {
    pub(crate) const FORMAT: u16 = FORMAT;

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads and checks a state from elsewhere.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() as u64 > GIT_STATE_BYTES {
            return Err("the repository state is too long".to_owned());
        }
        let state: Self = decode(bytes).map_err(|error: DecodeError| error.to_string())?;
        state.check().map(|()| state)
    }

    /// The commit or tag that each tip stands for.
    pub(crate) fn tips(&self) -> impl Iterator<Item = &Oid> {
        let detached = match &self.head {
            HeadState::Detached(oid) => Some(oid),
            HeadState::Branch(_) => None,
        };
        let references = self.references.iter().map(|reference| &reference.oid);
        references.chain(self.stashes.iter().map(|stash| &stash.oid)).chain(detached)
    }

    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("repository state of format {}, not {FORMAT}", self.format));
        }
        let counts = [
            (self.references.len(), REFERENCES),
            (self.aliases.len(), REFERENCES),
            (self.upstreams.len(), REFERENCES),
            (self.stashes.len(), STASHES),
            (self.remotes.len(), REMOTES),
            (self.exclude.len(), EXCLUDE_BYTES),
        ];
        if counts.iter().any(|(count, most)| count > most) {
            return Err("the repository state is too long".to_owned());
        }
        self.check_names()?;
        let bad = self.tips().find(|oid| oid.as_bytes().len() != self.objects.oid_bytes());
        bad.map_or(Ok(()), |oid| Err(format!("object id of the wrong length: {oid}")))
    }

    fn check_names(&self) -> Result<(), String> {
        let head = match &self.head {
            HeadState::Branch(name) => Some(name),
            HeadState::Detached(_) => None,
        };
        let branch = |name: &Vec<u8>| name.starts_with(b"refs/heads/") && is_carried(name);
        let remote = |name: &Vec<u8>| name.starts_with(b"refs/remotes/") && is_carried(name);
        first_bad(head, branch, "branch")?;
        first_bad(self.references.iter().map(|r| &r.name), |name| is_carried(name), "reference")?;
        first_bad(self.aliases.iter().flat_map(|a| [&a.name, &a.target]), remote, "reference")?;
        first_bad(self.remotes.iter().map(|r| &r.name), |name| is_remote_name(name), "remote")?;
        first_bad(self.remotes.iter().map(|r| &r.url), |url| is_carried_url(url), "remote address")?;
        first_bad(self.remotes.iter().flat_map(|r| &r.fetch), |spec| is_mirror(spec), "fetch rule")?;
        first_bad(self.upstreams.iter().map(|u| &u.branch), |name| is_name(name), "branch")?;
        first_bad(self.upstreams.iter().map(|u| &u.remote), |n| *n == b"." || is_remote_name(n), "upstream")?;
        first_bad(self.upstreams.iter().map(|u| &u.merge), |name| is_carried(name), "upstream")?;
        let message = |m: &Vec<u8>| m.len() <= GIT_TEXT_BYTES && !m.iter().any(|b| *b < b' ' || *b == 0x7f);
        first_bad(self.stashes.iter().map(|s| &s.message), message, "stash message")?;
        let known = AUTOCRLF.contains(&self.settings.autocrlf.as_str()) && EOL.contains(&self.settings.eol.as_str());
        if known { Ok(()) } else { Err("unknown line-ending setting".to_owned()) }
    }
}

fn first_bad<'a>(
    names: impl IntoIterator<Item = &'a Vec<u8>>,
    good: impl Fn(&'a Vec<u8>) -> bool,
    kind: &str,
) -> Result<(), String> {
    match names.into_iter().find(|name| !good(name)) {
        None => Ok(()),
        Some(name) => Err(format!("{kind} {}", escape(name.get(..name.len().min(200)).unwrap_or_default()))),
    }
}

/// True for the references that travel: branches, tags, remote-tracking ones.
pub(crate) fn is_carried(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 3] = [b"refs/heads/", b"refs/tags/", b"refs/remotes/"];
    prefixes.iter().any(|prefix| name.strip_prefix(*prefix).is_some_and(is_name))
}

/// The rules of git for reference names, so that one can be told apart from a path out of the repository.
fn is_name(name: &[u8]) -> bool {
    let forbidden = |b: &u8| *b <= b' ' || *b == 0x7f || b"~^:?*[\\".contains(b);
    let bad_part = |part: &[u8]| part.is_empty() || part.starts_with(b".") || part.ends_with(b".lock");
    let pair = |pair: &[u8]| pair == b".." || pair == b"@{";
    !name.is_empty()
        && name.len() <= GIT_TEXT_BYTES
        && name != b"@"
        && !name.starts_with(b"-")
        && !name.ends_with(b".")
        && !name.iter().any(forbidden)
        && !name.windows(2).any(pair)
        && !name.split(|b| *b == b'/').any(bad_part)
}

pub(crate) fn is_remote_name(name: &[u8]) -> bool {
    is_name(name) && !name.contains(&b'"')
}

/// `+refs/heads/…:refs/remotes/…`, each side with at most one star.
pub(crate) fn is_mirror(spec: &[u8]) -> bool {
    let plain = spec.strip_prefix(b"+").unwrap_or(spec);
    let mut sides = plain.split(|b| *b == b':');
    let (Some(from), Some(to), None) = (sides.next(), sides.next(), sides.next()) else { return false };
    let starless = |side: &[u8]| -> Vec<u8> {
        let mut one = false;
        side.iter().map(|b| if *b == b'*' && !std::mem::replace(&mut one, true) { b'x' } else { *b }).collect()
    };
    is_carried(&starless(from)) && is_carried(&starless(to))
}

/// True for addresses that only name a place: no helper program, no option.
pub(crate) fn is_carried_url(url: &[u8]) -> bool {
    let Ok(text) = core::str::from_utf8(url) else { return false };
    let plain = !text.is_empty() && text.len() <= GIT_TEXT_BYTES && !text.chars().any(char::is_control);
    if !plain || text.starts_with('-') || text.contains("::") {
        return false;
    }
    match text.split_once("://") {
        Some((scheme, rest)) => {
            ["https", "http", "ssh", "git", "file"].contains(&scheme) && !rest.starts_with('-') && !rest.is_empty()
        }
        None => text.starts_with('/') || is_scp_like(text),
    }
}

/// `host:path`, where the host cannot be taken for an option.
fn is_scp_like(text: &str) -> bool {
    let Some((host, path)) = text.split_once(':') else { return false };
    let host = host.rsplit('@').next().unwrap_or(host);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._[]".contains(c);
    !host.is_empty() && !host.starts_with('-') && host.chars().all(plain) && !path.is_empty() && !path.starts_with('-')
}

/// The address without user name and password; the user of an scp-like address is a login name, not a secret, and stays.
pub(crate) fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let bare = host.rsplit_once('@').map_or(host, |(_, bare)| bare);
    if scheme == "ssh" {
        let user = host.rsplit_once('@').map(|(user, _)| user.split(':').next().unwrap_or(user));
        return user.map_or_else(|| url.to_owned(), |user| format!("{scheme}://{user}@{bare}{path}"));
    }
    format!("{scheme}://{bare}{path}")
}

pub(crate) fn index_to_bytes(entries: &[IndexEntry]) -> Vec<u8> {
    encode(&IndexView { format: FORMAT, entries })
}

/// Reads and checks an index from elsewhere.
pub(crate) fn index_from_bytes(bytes: &[u8], objects: ObjectFormat) -> Result<Vec<IndexEntry>, String> {
    if bytes.len() as u64 > GIT_STATE_BYTES {
        return Err("the index is too long".to_owned());
    }
    let index: Index = decode(bytes).map_err(|error: DecodeError| error.to_string())?;
    if index.format != FORMAT {
        return Err(format!("index of format {}, not {FORMAT}", index.format));
    }
    let ordered = index.entries.windows(2).all(|pair| pair.first().map(|e| &e.path) < pair.last().map(|e| &e.path));
    if !ordered {
        return Err("the index is not in order".to_owned());
    }
    for entry in &index.entries {
        RelPath::parse(&entry.path).map_err(|error| error.to_string())?;
        let known_mode = [0o100_644, 0o100_755, 0o120_000].contains(&entry.mode);
        if !known_mode || entry.marks > 7 || entry.oid.as_bytes().len() != objects.oid_bytes() {
            return Err(format!("index entry {}", escape(&entry.path)));
        }
    }
    Ok(index.entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: T-6
    #[test]
    fn address_that_runs_a_program_is_refused() {
        for bad in [
            "ext::sh -c x",
            "-oProxyCommand=x",
            "ssh://-oProxyCommand=x/y",
            "fd::17",
            "a\nb",
            "",
            "host",
            "-h:x",
            "x@-h:y",
        ] {
            assert!(!is_carried_url(bad.as_bytes()), "{bad}");
        }
        for good in ["https://h/x", "git@github.com:a/b.git", "ssh://git@h:22/x", "/srv/x.git", "file:///x", "h:x"] {
            assert!(is_carried_url(good.as_bytes()), "{good}");
        }
    }

    #[test]
    fn password_is_cut_from_an_address() {
        assert_eq!(without_user("https://me:secret@h/x@y"), "https://h/x@y");
        assert_eq!(without_user("https://token@h:8/x"), "https://h:8/x");
        assert_eq!(without_user("ssh://git:pw@h/x"), "ssh://git@h/x");
        assert_eq!(without_user("git@h:x"), "git@h:x");
    }

    /// Shows: T-6
    #[test]
    fn reference_outside_the_list_is_refused() {
        for bad in [
            "refs/heads/../x",
            "refs/heads/",
            "HEAD",
            "refs/replace/x",
            "refs/heads/a..b",
            "refs/heads/a.lock",
            "refs/heads/.a",
            "refs/heads/a//b",
            "refs/heads/a b",
            "refs/heads/a\\b",
            "refs/notes/x",
            "refs/heads/-x",
        ] {
            assert!(!is_carried(bad.as_bytes()), "{bad}");
        }
        for good in ["refs/heads/main", "refs/tags/v1.0", "refs/remotes/origin/a/b", "refs/heads/f@x", "refs/heads/ü"]
        {
            assert!(is_carried(good.as_bytes()), "{good}");
        }
        assert!(is_mirror(b"+refs/heads/*:refs/remotes/origin/*"));
        assert!(!is_mirror(b"+refs/*:refs/*"));
    }
}
