//! What git says about a repository: read once for a capture, changing nothing.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use cede_wire::catalog::Oid;
use cede_wire::limits::{CATALOG_ENTRIES, PATH_BYTES};
use cede_wire::path::{RelPath, escape};

use super::TreeRefusal;
use super::git::{Answer, Config, Git, GitError, GitFault, failed};
use super::state::{
    ASSUME_UNCHANGED, AUTOCRLF, Alias, EOL, HeadState, INTENT_TO_ADD, IndexEntry, ObjectFormat, Reference, Remote,
    SKIP_WORKTREE, Settings, Stash, State, Upstream, is_carried, is_carried_url, is_mirror, is_remote_name,
    without_user,
};
use crate::limits::{EXCLUDE_BYTES, FETCH_RULES, GIT_TEXT_BYTES, REFERENCES, REMOTES, STASHES};
use crate::materialize::beneath::found;

/// A repository at one moment.
#[derive(Debug)]
pub(crate) struct Repository {
    pub(crate) git: Git,
    pub(crate) objects: ObjectFormat,
    pub(crate) settings: Vec<(String, Vec<u8>)>,
    pub(crate) head: HeadState,
    pub(crate) head_oid: Option<Oid>,
    pub(crate) references: Vec<Reference>,
    pub(crate) aliases: Vec<Alias>,
    /// References outside the list of what travels.
    pub(crate) other_references: Vec<Vec<u8>>,
    pub(crate) stashes: Vec<Stash>,
    /// Sorted by path.
    pub(crate) index: Vec<IndexEntry>,
    /// The file size that the index remembers, by the same position.
    pub(crate) index_sizes: Vec<u32>,
    /// Sorted.
    untracked: Vec<Vec<u8>>,
    /// The repository's own ignore rules, without comments.
    exclude: Vec<u8>,
}

impl Repository {
    /// Reads the repository whose `.git` directory lies in `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, TreeRefusal> {
        let git = Git::at(root, Config::Users);
        let format = git.run(&["rev-parse", "--show-object-format"]).map_err(refusal)?;
        let objects = if format.starts_with(b"sha256") { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 };
        let settings = settings(&git.run(&["config", "-z", "--list"]).map_err(refusal)?);
        let (index, index_sizes) = read_index(&git)?;
        let mut untracked =
            zero_terminated(&git.run(&["ls-files", "-z", "--others", "--exclude-standard"]).map_err(refusal)?);
        untracked.sort_unstable();
        let (head, head_oid) = read_head(&git)?;
        let mut repository = Self {
            objects,
            settings,
            head,
            head_oid,
            references: Vec::new(),
            aliases: Vec::new(),
            other_references: Vec::new(),
            stashes: Vec::new(),
            index,
            index_sizes,
            untracked,
            exclude: read_exclude(root)?,
            git,
        };
        repository.read_references()?;
        Ok(repository)
    }

    /// A setting, the last one said.
    pub(crate) fn setting(&self, key: &str) -> Option<&[u8]> {
        self.settings.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_slice())
    }

    /// A setting as git reads truth.
    pub(crate) fn is_on(&self, key: &str) -> Option<bool> {
        let value = self.setting(key)?.to_ascii_lowercase();
        Some(matches!(value.as_slice(), b"true" | b"yes" | b"on" | b"1"))
    }

    pub(crate) fn index_position(&self, path: &[u8]) -> Option<u32> {
        let found = self.index.binary_search_by(|entry| entry.path.as_slice().cmp(path));
        found.ok().and_then(|at| u32::try_from(at).ok())
    }

    pub(crate) fn is_untracked(&self, path: &[u8]) -> bool {
        self.untracked.binary_search_by(|known| known.as_slice().cmp(path)).is_ok()
    }

    pub(crate) fn tracks_below(&self, directory: &[u8]) -> bool {
        let prefix = [directory, b"/"].concat();
        let at = self.index.partition_point(|entry| entry.path.as_slice() < prefix.as_slice());
        self.index.get(at).is_some_and(|entry| entry.path.starts_with(&prefix))
    }

    /// True if a tracked or untracked file lies below.
    pub(crate) fn lists_below(&self, directory: &[u8]) -> bool {
        let prefix = [directory, b"/"].concat();
        let at = self.untracked.partition_point(|path| path.as_slice() < prefix.as_slice());
        self.tracks_below(directory) || self.untracked.get(at).is_some_and(|path| path.starts_with(&prefix))
    }

    /// Which of these paths are ignored.
    pub(crate) fn ignored_of(&self, paths: &[&[u8]]) -> Result<BTreeSet<Vec<u8>>, TreeRefusal> {
        // This command reads patterns; one that begins with `./` is always a plain path.
        let input: Vec<u8> = paths.iter().flat_map(|path| b"./".iter().chain(*path).chain(b"\0")).copied().collect();
        let arguments = ["check-ignore", "-z", "--stdin"];
        let answer = self.git.ask(&arguments, &input).map_err(refusal)?;
        let plain = |path: Vec<u8>| path.strip_prefix(b"./").map(<[u8]>::to_vec);
        match answer.code {
            Some(0 | 1) => Ok(zero_terminated(&answer.output).into_iter().filter_map(plain).collect()),
            _ => Err(refusal(failed(&arguments, &answer))),
        }
    }

    /// The root commits of HEAD, sorted.
    pub(crate) fn roots(&self) -> Result<Vec<Oid>, TreeRefusal> {
        if self.head_oid.is_none() {
            return Ok(Vec::new());
        }
        let answer = self.git.run(&["rev-list", "--max-parents=0", "HEAD", "--"]).map_err(refusal)?;
        let mut roots: Vec<_> = lines(&answer).filter_map(oid).collect();
        roots.sort_unstable();
        Ok(roots)
    }

    /// The `origin` address, without what could be a secret.
    pub(crate) fn origin(&self) -> Option<String> {
        let url = core::str::from_utf8(self.setting("remote.origin.url")?).ok()?;
        Some(without_user(url)).filter(|url| is_carried_url(url.as_bytes()))
    }

    /// The state that travels.
    pub(crate) fn state(&self, subdirectory: Option<RelPath>) -> State {
        State {
            format: State::FORMAT,
            objects: self.objects,
            head: self.head.clone(),
            references: self.references.clone(),
            aliases: self.aliases.clone(),
            stashes: self.stashes.clone(),
            remotes: self.remotes(),
            upstreams: self.upstreams(),
            settings: Settings {
                autocrlf: self.word("core.autocrlf", &AUTOCRLF),
                eol: self.word("core.eol", &EOL),
                ignores_modes: self.is_on("core.filemode") == Some(false),
            },
            exclude: self.exclude.clone(),
            subdirectory,
        }
    }

    /// A setting that is one of these words; the first of them if it is none.
    fn word(&self, key: &str, words: &[&str]) -> String {
        let said = self.setting(key).map(|value| String::from_utf8_lossy(value).to_lowercase());
        let known = words.iter().find(|word| said.as_deref() == Some(**word));
        known.or(words.first()).copied().unwrap_or_default().to_owned()
    }

    fn remotes(&self) -> Vec<Remote> {
        let mut remotes: Vec<Remote> = Vec::new();
        for (key, value) in &self.settings {
            let Some((name, field)) = key.strip_prefix("remote.").and_then(|rest| rest.rsplit_once('.')) else {
                continue;
            };
            if !is_remote_name(name.as_bytes()) {
                continue;
            }
            let at = remotes.iter().position(|remote| remote.name == name.as_bytes()).unwrap_or(remotes.len());
            if at == remotes.len() {
                remotes.push(Remote { name: name.as_bytes().to_vec(), url: Vec::new(), fetch: Vec::new() });
            }
            let Some(remote) = remotes.get_mut(at) else { continue };
            match (field, core::str::from_utf8(value)) {
                ("url", Ok(url)) if remote.url.is_empty() => remote.url = without_user(url).into_bytes(),
                ("fetch", _) if is_mirror(value) && remote.fetch.len() < FETCH_RULES => {
                    remote.fetch.push(value.clone())
                }
                _ => {}
            }
        }
        remotes.retain(|remote| is_carried_url(&remote.url));
        remotes.sort_by(|a, b| a.name.cmp(&b.name));
        remotes.truncate(REMOTES);
        remotes
    }

    fn upstreams(&self) -> Vec<Upstream> {
        let mut upstreams = Vec::new();
        for (key, merge) in &self.settings {
            let Some(branch) = key.strip_prefix("branch.").and_then(|rest| rest.strip_suffix(".merge")) else {
                continue;
            };
            let Some(remote) = self.setting(&format!("branch.{branch}.remote")) else { continue };
            let known = remote == b"." || is_remote_name(remote);
            let full = format!("refs/heads/{branch}");
            if known && is_carried(merge) && is_carried(full.as_bytes()) && upstreams.len() < REFERENCES {
                let branch = branch.as_bytes().to_vec();
                upstreams.push(Upstream { branch, remote: remote.to_vec(), merge: merge.clone() });
            }
        }
        upstreams.sort_by(|a, b| a.branch.cmp(&b.branch));
        upstreams
    }

    fn read_references(&mut self) -> Result<(), TreeRefusal> {
        let answer = self.git.run(&["for-each-ref", "--format=%(objectname) %(refname) %(symref)"]).map_err(refusal)?;
        for line in lines(&answer) {
            let mut parts = line.splitn(3, |b| *b == b' ');
            let (Some(id), Some(name)) = (parts.next(), parts.next()) else { continue };
            let target = parts.next().filter(|target| !target.is_empty());
            match (target, oid(id)) {
                _ if name == b"refs/stash" => self.stashes = read_stashes(&self.git)?,
                (Some(target), _) if is_alias(name) && is_alias(target) => {
                    self.aliases.push(Alias { name: name.to_vec(), target: target.to_vec() });
                }
                (None, Some(oid)) if is_carried(name) => self.references.push(Reference { name: name.to_vec(), oid }),
                _ => self.other_references.push(name.to_vec()),
            }
        }
        if self.references.len() > REFERENCES || self.aliases.len() > REFERENCES {
            return Err(TreeRefusal::TooMany(REFERENCES));
        }
        Ok(())
    }
}

fn is_alias(name: &[u8]) -> bool {
    is_carried(name) && name.starts_with(b"refs/remotes/") && core::str::from_utf8(name).is_ok()
}

/// Turns a failure of git into a refusal.
pub(crate) fn refusal(error: GitError) -> TreeRefusal {
    if error.fault == GitFault::Missing {
        return TreeRefusal::GitMissing("there is no git program".to_owned());
    }
    TreeRefusal::NotAccessible { path: ".git".to_owned(), reason: format!("git {}: {}", error.command, error.message) }
}

pub(crate) fn oid(text: &[u8]) -> Option<Oid> {
    Oid::parse(core::str::from_utf8(text).ok()?)
}

pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty())
}

pub(crate) fn zero_terminated(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split(|b| *b == 0).filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}

pub(super) fn settings(list: &[u8]) -> Vec<(String, Vec<u8>)> {
    let parse = |item: Vec<u8>| {
        let at = item.iter().position(|b| *b == b'\n').unwrap_or(item.len());
        let (key, value) = item.split_at(at);
        // A key without a value means "true".
        let value = value.get(1..).unwrap_or(b"true").to_vec();
        String::from_utf8(key.to_vec()).ok().map(|key| (key, value))
    };
    zero_terminated(list).into_iter().filter_map(parse).collect()
}

fn read_exclude(root: &Path) -> Result<Vec<u8>, TreeRefusal> {
    let path = root.join(".git/info/exclude");
    let text = found(std::fs::read(&path)).map_err(|error| TreeRefusal::NotAccessible {
        path: ".git/info/exclude".to_owned(),
        reason: error.to_string(),
    })?;
    let text = text.unwrap_or_default();
    let rules = lines(&text).filter(|line| !line.starts_with(b"#"));
    let mut kept: Vec<u8> = rules.flat_map(|line| line.iter().chain(b"\n")).copied().collect();
    kept.truncate(EXCLUDE_BYTES);
    Ok(kept)
}

fn read_head(git: &Git) -> Result<(HeadState, Option<Oid>), TreeRefusal> {
    let asked = |arguments: &[&str]| {
        let answer = git.ask(arguments, &[]).map_err(refusal)?;
        // 1 is no; anything else says that git could not look.
        if matches!(answer.code, Some(0 | 1)) { Ok(answer) } else { Err(refusal(failed(arguments, &answer))) }
    };
    let branch = asked(&["symbolic-ref", "-q", "HEAD"])?;
    let commit = asked(&["rev-parse", "-q", "--verify", "HEAD^{commit}"])?;
    let commit = lines(&commit.output).next().and_then(oid);
    match (lines(&branch.output).next(), &commit) {
        (Some(name), _)
            if name.starts_with(b"refs/heads/") && is_carried(name) && core::str::from_utf8(name).is_ok() =>
        {
            Ok((HeadState::Branch(name.to_vec()), commit))
        }
        (Some(name), _) => Err(TreeRefusal::Name(format!("the branch {}", escape(name)))),
        (None, Some(oid)) => Ok((HeadState::Detached(oid.clone()), commit)),
        (None, None) => Err(TreeRefusal::NotAccessible {
            path: ".git/HEAD".to_owned(),
            reason: "it names neither a branch nor a commit".to_owned(),
        }),
    }
}

/// Newest first, in the order of the list that `git stash list` shows.
fn read_stashes(git: &Git) -> Result<Vec<Stash>, TreeRefusal> {
    let format = "--format=%H%x00%gs";
    let arguments =
        ["log", "-g", "-z", "--no-show-signature", "--no-notes", "--no-decorate", format, "refs/stash", "--"];
    let answer = git.run(&arguments).map_err(refusal)?;
    let mut parts = answer.split(|b| *b == 0);
    let mut stashes = Vec::new();
    while let (Some(id), Some(message)) = (parts.next(), parts.next()) {
        let Some(oid) = oid(id) else { break };
        let mut message: Vec<u8> = message.iter().map(|b| if *b < b' ' || *b == 0x7f { b' ' } else { *b }).collect();
        message.truncate(GIT_TEXT_BYTES);
        stashes.push(Stash { oid, message });
    }
    if stashes.len() > STASHES { Err(TreeRefusal::TooMany(STASHES)) } else { Ok(stashes) }
}

/// Lines `mode oid stage\tpath\0` followed by what `--debug` says, of which the size and the flags are used. Read as
/// they come: the answer is several times as long as what is kept.
fn read_index(git: &Git) -> Result<(Vec<IndexEntry>, Vec<u32>), TreeRefusal> {
    let arguments = ["ls-files", "-z", "--stage", "--debug"];
    let take = |stdout: &mut dyn Read| {
        let (mut entries, mut sizes) = (Vec::new(), Vec::new());
        let mut stdout = BufReader::new(stdout);
        while let Some((entry, size)) = index_line(&mut stdout)? {
            if entries.len() >= CATALOG_ENTRIES {
                return Err(TreeRefusal::TooMany(CATALOG_ENTRIES));
            }
            entries.push(entry);
            sizes.push(size);
        }
        Ok((entries, sizes))
    };
    let answer = git.pipe(&arguments, |_| Ok(()), take).map_err(refusal)?;
    match (answer.output, answer.code) {
        (Ok(index), Some(0)) => Ok(index),
        (Err(refusal), _) => Err(refusal),
        (Ok(_), code) => Err(refusal(failed(&arguments, &Answer { output: (), code, error: answer.error }))),
    }
}

pub(super) fn index_line(from: &mut impl BufRead) -> Result<Option<(IndexEntry, u32)>, TreeRefusal> {
    let unreadable = || refusal(GitError::new(&["ls-files"], "its answer is of an unknown form"));
    let mut line = Vec::new();
    read_to(from, 0, &mut line).ok_or_else(unreadable)?;
    if line.is_empty() {
        return Ok(None);
    }
    let tab = line.iter().position(|b| *b == b'\t').ok_or_else(unreadable)?;
    let (head, path) = line.split_at(tab);
    let path = path.get(1..).unwrap_or_default();
    let (size, flags) = debug_lines(from).ok_or_else(unreadable)?;
    let text = core::str::from_utf8(head).map_err(|_| unreadable())?;
    let mut words = text.split(' ');
    let mode = words.next().and_then(|w| u32::from_str_radix(w, 8).ok()).ok_or_else(unreadable)?;
    let oid = words.next().and_then(Oid::parse).ok_or_else(unreadable)?;
    match (words.next(), mode) {
        (Some("0"), 0o160_000) => return Err(TreeRefusal::Submodule(escape(path))),
        (Some("0"), _) => {}
        (Some(_), _) => return Err(TreeRefusal::Unmerged(escape(path))),
        (None, _) => return Err(unreadable()),
    }
    Ok(Some((IndexEntry { path: path.to_vec(), mode, oid, marks: marks(flags) }, size)))
}

fn debug_lines(from: &mut impl BufRead) -> Option<(u32, u32)> {
    let mut line = Vec::new();
    for _ in 0..5 {
        line.clear();
        read_to(from, b'\n', &mut line)?;
    }
    let text = core::str::from_utf8(&line).ok()?;
    let (size, flags) = text.trim().strip_prefix("size: ")?.split_once("\tflags: ")?;
    Some((size.parse().ok()?, u32::from_str_radix(flags, 16).ok()?))
}

/// Reads up to a byte, which is dropped; at the end, what is left.
fn read_to(from: &mut impl BufRead, end: u8, line: &mut Vec<u8>) -> Option<()> {
    let most = 2 * PATH_BYTES as u64;
    from.take(most).read_until(end, line).ok()?;
    let ended = line.last() == Some(&end);
    if ended {
        line.pop();
    }
    (ended || line.is_empty()).then_some(())
}

/// Git's own bits: assume-unchanged, intent-to-add, skip-worktree.
fn marks(flags: u32) -> u8 {
    let bit = |mask: u32, mark: u8| if flags & mask == 0 { 0 } else { mark };
    bit(0x8000, ASSUME_UNCHANGED) | bit(1 << 29, INTENT_TO_ADD) | bit(1 << 30, SKIP_WORKTREE)
}
