//! What people are shown of a capture: what travels, what is made anew, what stays.

use std::collections::BTreeSet;
use std::path::Path;

use cede_wire::catalog::{Body, Entry};
use cede_wire::handoff::{Disposition, InventoryItem};
use cede_wire::id::Hash;
use cede_wire::path::escape;

use super::globs::prefixes;
use super::names::{is_code, is_secret_looking};
use super::repository::Repository;
use super::state::HeadState;
use super::survey::{Survey, Tally};
use crate::chunk::StatCache;
use crate::limits::{IGNORED_COUNTED, PATHS_SHOWN};

/// Figures of a repository.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GitFacts {
    pub(crate) staged: u64,
    pub(crate) pack_bytes: u64,
    pub(crate) unpushed: u64,
    pub(crate) remotes: u64,
    pub(crate) upstreams: u64,
}

/// The lists of paths that an approval shows; escaped, sorted.
#[derive(Debug, Default)]
pub struct Names {
    /// Executable files.
    pub executables: Vec<String>,
    /// Files and directories whose name begins with a dot.
    pub dotfiles: Vec<String>,
    /// Files that some tool runs without being asked.
    pub code: Vec<String>,
    /// Files whose name looks like a secret.
    pub secrets: Vec<String>,
}

impl Names {
    /// Reads them off the entries of a tree; `bare` are directories that git would take for a repository.
    pub fn of(entries: &[Entry], bare: &[Vec<u8>]) -> Self {
        let mut dotted = BTreeSet::new();
        let buried = bare.iter().map(Vec::as_slice).chain(entries.iter().filter_map(|entry| bare_at(entries, entry)));
        let buried: BTreeSet<&[u8]> = buried.collect();
        let mut names = Self { code: buried.into_iter().map(escape).collect(), ..Self::default() };
        for entry in entries {
            let path = entry.path.as_bytes();
            for prefix in prefixes(path).filter(|prefix| is_dotted(prefix)) {
                if !dotted.contains(prefix) {
                    dotted.insert(prefix.to_vec());
                }
            }
            let listed = [
                (is_executable(&entry.body), &mut names.executables),
                (is_code(path), &mut names.code),
                (is_secret_looking(path), &mut names.secrets),
            ];
            listed.into_iter().filter(|(yes, _)| *yes).for_each(|(_, list)| list.push(entry.path.shown()));
        }
        names.dotfiles = dotted.iter().map(|path| escape(path)).collect();
        let lists = [&mut names.executables, &mut names.dotfiles, &mut names.code, &mut names.secrets];
        lists.into_iter().for_each(|list| list.sort_unstable());
        names
    }
}

/// The directory that git would take for a repository because this entry is its `HEAD`. Entries are sorted.
fn bare_at<'a>(entries: &[Entry], entry: &'a Entry) -> Option<&'a [u8]> {
    let directory = entry.path.as_bytes().strip_suffix(b"/HEAD")?;
    let holds = |name: &[u8]| {
        let path = [directory, name].concat();
        let at = entries.partition_point(|other| other.path.as_bytes() < path.as_slice());
        entries.get(at).is_some_and(|other| other.path.as_bytes().starts_with(&path))
    };
    (holds(b"/objects") && holds(b"/refs")).then_some(directory)
}

fn is_dotted(path: &[u8]) -> bool {
    path.rsplit(|b| *b == b'/').next().is_some_and(|name| name.starts_with(b"."))
}

fn is_executable(body: &Body) -> bool {
    match body {
        Body::File { mode, .. } | Body::GitBlob { mode, .. } => mode & 0o111 != 0,
        Body::Symlink { .. } | Body::Directory { .. } => false,
    }
}

/// Commits that no remote-tracking reference has; remembered for as long as no reference moves.
pub(crate) fn unpushed(repository: &Repository, cache: &mut StatCache) -> u64 {
    let mut key: Vec<u8> = repository.head_oid.iter().flat_map(|oid| oid.as_bytes().to_vec()).collect();
    repository.references.iter().for_each(|r| key.extend(r.name.iter().chain(r.oid.as_bytes())));
    let key = Hash::of(&key);
    if let Some((_, count)) = cache.unpushed.filter(|(known, _)| *known == key) {
        return count;
    }
    if repository.head_oid.is_none() {
        return 0;
    }
    let answer = repository.git.run(&["rev-list", "--count", "HEAD", "--branches", "--tags", "--not", "--remotes"]);
    let count = answer.ok().and_then(|text| String::from_utf8_lossy(&text).trim().parse().ok()).unwrap_or(0);
    cache.unpushed = Some((key, count));
    count
}

/// The lines, most important first.
pub(crate) fn lines(
    root: &Path,
    repository: Option<&Repository>,
    survey: &Survey,
    entries: &[Entry],
    facts: &GitFacts,
) -> Vec<InventoryItem> {
    let mut lines = files(survey, repository.is_some());
    if let Some(repository) = repository {
        lines.extend(history(repository, facts));
    }
    lines.extend(staying(survey));
    if let Some(repository) = repository {
        lines.extend(staying_of_git(root, repository));
    }
    lines.extend(notes(entries, survey));
    lines.retain(|line| line.count > 0);
    lines
}

fn files(survey: &Survey, git: bool) -> Vec<InventoryItem> {
    let untracked = if git { "untracked files" } else { "files" };
    let own = Tally { count: survey.directories.len() as u64, bytes: 0 };
    let travels = Disposition::Transferred;
    vec![
        line("tracked files", travels, survey.tracked, ""),
        line(untracked, travels, survey.untracked, ""),
        line("ignored files taken along", travels, survey.included, ""),
        line("directories of their own", travels, own, "empty, or with an unusual mode"),
    ]
}

fn history(repository: &Repository, facts: &GitFacts) -> Vec<InventoryItem> {
    let branch = match &repository.head {
        HeadState::Branch(name) => format!("on {}", escape(name.strip_prefix(b"refs/heads/").unwrap_or(name))),
        HeadState::Detached(oid) => format!("detached at {oid}"),
    };
    let count = |count| Tally { count, bytes: 0 };
    let references = Tally { count: repository.references.len() as u64 + 1, bytes: facts.pack_bytes };
    vec![
        line("history: branches, tags, remote-tracking references", Disposition::Transferred, references, &branch),
        line("commits on no remote", Disposition::Transferred, count(facts.unpushed), ""),
        line("staged changes", Disposition::Transferred, count(facts.staged), ""),
        line("stashes", Disposition::Transferred, count(repository.stashes.len() as u64), ""),
        line("remotes", Disposition::Rehydrated, count(facts.remotes), "addresses without passwords"),
        line("upstreams of branches", Disposition::Rehydrated, count(facts.upstreams), ""),
    ]
}

fn staying(survey: &Survey) -> Vec<InventoryItem> {
    let more = if survey.ignored.count >= IGNORED_COUNTED { "at least" } else { "made by builds, or private" };
    vec![
        line("ignored files", Disposition::Stays, survey.ignored, more),
        line("excluded files", Disposition::Stays, survey.excluded, ""),
    ]
}

fn staying_of_git(root: &Path, repository: &Repository) -> Vec<InventoryItem> {
    let git = root.join(".git");
    let hooks = names_in(&git.join("hooks")).into_iter().filter(|name| !name.ends_with(".sample")).count() as u64;
    let worktrees = names_in(&git.join("worktrees")).len() as u64;
    let others: Vec<_> = repository.other_references.iter().take(PATHS_SHOWN).map(|name| escape(name)).collect();
    let count = |count| Tally { count, bytes: 0 };
    let filters = repository.settings.iter().filter(|(key, _)| is_filter(key)).count() as u64;
    let never = Disposition::NeverTravels;
    vec![
        line(
            "other references",
            Disposition::Stays,
            count(repository.other_references.len() as u64),
            &others.join(", "),
        ),
        line("reflogs", Disposition::Stays, count(u64::from(git.join("logs").exists())), "but for stashes"),
        line("other worktrees", Disposition::Stays, count(worktrees), ""),
        line("repository configuration", never, count(1), "but for remotes, upstreams, line endings"),
        line("hooks", never, count(hooks), ""),
        line("filters", never, count(filters), "files under a filter may show as changed"),
    ]
}

fn is_filter(key: &str) -> bool {
    key.starts_with("filter.") && !key.starts_with("filter.lfs.") && key.ends_with(".clean")
}

fn notes(entries: &[Entry], survey: &Survey) -> Vec<InventoryItem> {
    let absolute = entries.iter().filter_map(|entry| match &entry.body {
        Body::Symlink { target } if target.starts_with(b"/") => Some(entry.path.shown()),
        Body::Symlink { .. } | Body::File { .. } | Body::GitBlob { .. } | Body::Directory { .. } => None,
    });
    let absolute: Vec<_> = absolute.collect();
    let note = format!("they point to the same place there: {}", first(&absolute).join(", "));
    let count = |count| Tally { count, bytes: 0 };
    let never = Disposition::NeverTravels;
    vec![
        line("absolute links", Disposition::Transferred, count(absolute.len() as u64), &note),
        line("set-user-id, set-group-id and sticky bits", never, count(survey.special_bits), ""),
        line("owners, access lists, extended attributes, hard links", never, count(entries.len() as u64), ""),
    ]
}

fn first(paths: &[String]) -> &[String] {
    paths.get(..paths.len().min(PATHS_SHOWN)).unwrap_or_default()
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn line(what: &str, disposition: Disposition, tally: Tally, note: &str) -> InventoryItem {
    InventoryItem { what: what.to_owned(), disposition, count: tally.count, bytes: tally.bytes, note: note.to_owned() }
}
