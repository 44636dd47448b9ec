//! A payload from a hostile peer is refused as a whole, and a hostile repository runs nothing.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cede_wire::catalog::{Body, Entry, Mtime, Oid, Place};
use cede_wire::id::ChunkId;
use cede_wire::path::RelPath;

use super::lab::*;
use crate::chunk::{StatCache, chunk_bytes};
use crate::tree::state::*;
use crate::tree::*;

/// Chunks in memory, as a peer may send them.
#[derive(Default)]
struct Store(BTreeMap<ChunkId, Vec<u8>>);

impl ReadChunk for Store {
    fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> std::io::Result<()> {
        into.clear();
        into.extend_from_slice(self.0.get(id).ok_or(std::io::ErrorKind::NotFound)?);
        Ok(())
    }
}

impl Store {
    fn body(&mut self, bytes: &[u8]) -> Body {
        let chunks = chunk_bytes(bytes);
        let mut rest = bytes;
        for chunk in &chunks {
            let (piece, after) = rest.split_at(chunk.length as usize);
            self.0.insert(chunk.id, piece.to_vec());
            rest = after;
        }
        Body::File { mode: 0o644, mtime: NOON, size: bytes.len() as u64, chunks }
    }

    fn file(&mut self, path: &str, text: &str) -> Entry {
        entry(Place::Tree, path, self.body(text.as_bytes()))
    }

    /// Takes a capture whole.
    fn take(capture: &Capture) -> Self {
        let mut store = Self::default();
        for chunk in capture.entries.iter().flat_map(|entry| entry.chunks()) {
            let mut bytes = Vec::new();
            capture.sources.read(&chunk.id, &mut bytes).unwrap();
            store.0.insert(chunk.id, bytes);
        }
        store
    }
}

const NOON: Mtime = Mtime { seconds: 43_200, nanos: 0 };

fn entry(place: Place, path: &str, body: Body) -> Entry {
    Entry { place, path: RelPath::parse(path.as_bytes()).unwrap(), body }
}

fn link(path: &str, target: &str) -> Entry {
    entry(Place::Tree, path, Body::Symlink { target: target.as_bytes().to_vec() })
}

/// Stages, and checks that nothing outside the staging directory was touched.
fn try_stage(lab: &Lab, entries: &[Entry], store: &Store) -> Result<Staged, StageError> {
    let (outside, target) = (lab.path("outside"), lab.path("there"));
    let _ = std::fs::create_dir(&outside);
    write(&outside, "sentinel", "s");
    let before = files(&outside);
    let request = StageRequest {
        entries,
        chunks: store,
        staging: &lab.path("staging"),
        target: &target,
        baseline: None,
        cache: &StatCache::default,
        local_clone: None,
    };
    let outcome = stage(&request);
    assert_eq!(files(&outside), before);
    assert!(!target.exists());
    outcome
}

fn refused(lab: &Lab, entries: &[Entry], store: &Store) -> String {
    match try_stage(lab, entries, store) {
        Err(error @ (StageError::Hostile(_) | StageError::Git { .. } | StageError::Chunk(_))) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

/// Shows: T-5
#[test]
fn entry_below_a_link_or_a_file_is_refused() {
    let lab = Lab::new();
    let outside = lab.path("outside").display().to_string();
    let mut store = Store::default();
    let file = store.file("a/f", "x");
    refused(&lab, &[link("a", &outside), file.clone()], &store);
    refused(&lab, &[store.file("a", "y"), file.clone()], &store);
    let far = store.file("a-b", "between in order");
    refused(&lab, &[link("a", &outside), far, file.clone()], &store);
    let deep = store.file("a/b/c/d", "x");
    refused(&lab, &[link("a", &outside), deep], &store);
    assert!(try_stage(&lab, &[link("b", &outside), link("c", "../../../etc")], &store).is_ok(), "a link is data");
}

/// Shows: T-1, T-11
#[test]
fn doubled_or_disordered_entries_are_refused() {
    let lab = Lab::new();
    let mut store = Store::default();
    let (a, b) = (store.file("a", "x"), store.file("b", "y"));
    refused(&lab, &[a.clone(), a.clone()], &store);
    refused(&lab, &[b, a], &store);
}

/// Shows: T-1, T-3, T-11
#[test]
fn absurd_or_missing_content_is_refused() {
    let lab = Lab::new();
    let mut store = Store::default();
    let good = store.file("a", "content");
    let Body::File { chunks, .. } = good.body.clone() else { panic!() };
    let sized = |size, chunks: &[_]| {
        entry(Place::Tree, "a", Body::File { mode: 0o644, mtime: NOON, size, chunks: chunks.to_vec() })
    };
    refused(&lab, &[sized(u64::MAX, &chunks)], &store);
    refused(&lab, &[sized(6, &chunks)], &store);
    let huge = Body::GitBlob { mode: 0o644, mtime: NOON, size: 1 << 60, oid: Oid::parse(&"a".repeat(40)).unwrap() };
    assert!(matches!(try_stage(&lab, &[entry(Place::Tree, "a", huge)], &store), Err(StageError::NoSpace { .. })));
    let small = Body::GitBlob { mode: 0o644, mtime: NOON, size: 1, oid: Oid::parse(&"a".repeat(40)).unwrap() };
    refused(&lab, &[entry(Place::Tree, "a", small)], &store);
    store.0.values_mut().for_each(|bytes| bytes[0] ^= 1);
    refused(&lab, std::slice::from_ref(&good), &store);
    store.0.clear();
    refused(&lab, &[good], &store);
}

/// Shows: T-5
#[test]
fn special_bits_do_not_arrive() {
    let lab = Lab::new();
    let mut store = Store::default();
    let mut file = store.file("d/f", "x");
    if let Body::File { mode, .. } = &mut file.body {
        *mode = 0o4777;
    }
    let directory = entry(Place::Tree, "d", Body::Directory { mode: 0o2777 });
    try_stage(&lab, &[directory, file], &store).unwrap();
    let there = activate(&lab.path("staging")).unwrap().root;
    let mode = |name: &str| there.join(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("d/f"), mode("d")), (0o777, 0o777));
}

/// Shows: T-5
#[test]
fn random_catalogs_never_write_outside() {
    let lab = Lab::new();
    let outside = lab.path("outside").display().to_string();
    let mut store = Store::default();
    let names = ["a", "a/b", "a/b/c", "a-b", "b", "b/a", "c", "c/d/e", "A", "a/B"];
    let mut seed = 7_u64;
    let mut next = |most: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % most
    };
    let mut accepted = 0;
    for round in 0..300 {
        let mut entries = Vec::new();
        for _ in 0..1 + next(5) {
            let name = names[next(names.len())];
            entries.push(match next(4) {
                0 => store.file(name, &format!("text {round}")),
                1 => link(name, if next(2) == 0 { &outside } else { "b" }),
                2 => entry(Place::Tree, name, Body::Directory { mode: next(0o1000) as u32 }),
                _ => store.file(name, ""),
            });
        }
        if next(4) != 0 {
            entries.sort_by(|a, b| a.path.cmp(&b.path));
        }
        accepted += usize::from(try_stage(&lab, &entries, &store).is_ok());
    }
    assert!((30..270).contains(&accepted), "{accepted} of 300");
}

/// Replaces a record of a captured repository.
fn with_record(capture: &Capture, name: &str, bytes: &[u8]) -> (Vec<Entry>, Store) {
    let (mut entries, mut store) = (capture.entries.clone(), Store::take(capture));
    let at = entries.iter().position(|e| e.place == Place::Git && e.path.as_bytes() == name.as_bytes()).unwrap();
    entries[at].body = store.body(bytes);
    (entries, store)
}

fn record(capture: &Capture, name: &str) -> Vec<u8> {
    let entry = capture.entries.iter().find(|e| e.place == Place::Git && e.path.as_bytes() == name.as_bytes()).unwrap();
    let mut all = Vec::new();
    for chunk in entry.chunks() {
        let mut piece = Vec::new();
        capture.sources.read(&chunk.id, &mut piece).unwrap();
        all.extend(piece);
    }
    all
}

/// Shows: T-6
#[test]
fn hostile_repository_state_is_refused() {
    let lab = Lab::new();
    let root = lab.repository("r");
    git(&root, &["remote", "add", "origin", "https://example.com/x"]);
    let capture = lab.capture(&root);
    let state = || State::from_bytes(&record(&capture, STATE)).unwrap();
    let oid = state().references[0].oid.clone();
    let marker = lab.path("marker").display().to_string();
    type Change<'a> = Box<dyn Fn(&mut State) + 'a>;
    let reference = |name: &'static str| -> Change<'_> {
        let oid = oid.clone();
        Box::new(move |state| state.references.push(Reference { name: name.into(), oid: oid.clone() }))
    };
    let url = |text: String| -> Change<'_> { Box::new(move |state| state.remotes[0].url = text.clone().into()) };
    let changes: Vec<Change<'_>> = vec![
        reference("refs/heads/../../hooks/post-checkout"),
        reference("refs/replace/aaaa"),
        reference("HEAD"),
        reference("refs/heads/x.lock"),
        reference("refs/heads/a b"),
        url(format!("ext::sh -c 'touch {marker}'")),
        url("-oProxyCommand=touch".into()),
        url("ssh://-oProxyCommand=touch/x".into()),
        url("x\n[core]\n\tfsmonitor = touch".into()),
        Box::new(|state| state.remotes[0].name = b"x\"]\n[core".to_vec()),
        Box::new(|state| state.remotes[0].fetch = vec![b"+refs/*:refs/*".to_vec()]),
        Box::new(|state| state.head = HeadState::Branch(b"refs/../config".to_vec())),
        Box::new(|state| state.head = HeadState::Detached(Oid::parse(&"b".repeat(40)).unwrap())),
        Box::new(|state| state.references[0].oid = Oid::parse(&"c".repeat(40)).unwrap()),
        Box::new(|state| state.references[0].oid = Oid::parse(&"c".repeat(64)).unwrap()),
        Box::new(|state| state.settings.autocrlf = "true\n[core]\n\tpager = touch".into()),
        Box::new(|state| {
            state.stashes.push(Stash { oid: Oid::parse(&"d".repeat(40)).unwrap(), message: b"x".to_vec() })
        }),
        Box::new(|state| state.format = 2),
        Box::new(|state| {
            state.upstreams.push(Upstream {
                branch: b"main".to_vec(),
                remote: b"--upload-pack=x".to_vec(),
                merge: b"refs/heads/main".to_vec(),
            });
        }),
        Box::new(|state| state.aliases.push(Alias { name: b"refs/remotes/x/HEAD".to_vec(), target: b"HEAD".to_vec() })),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut state = state();
        change(&mut state);
        let (entries, store) = with_record(&capture, STATE, &state.to_bytes());
        let reason = refused(&lab, &entries, &store);
        assert!(!reason.contains('\n'), "{number}: {reason}");
    }
    assert!(!lab.path("marker").exists());
}

/// Shows: T-6
#[test]
fn hostile_index_is_refused() {
    let lab = Lab::new();
    let root = lab.repository("r");
    let capture = lab.capture(&root);
    let good = index_from_bytes(&record(&capture, INDEX), ObjectFormat::Sha1).unwrap();
    let tree = git(&root, &["rev-parse", "HEAD^{tree}"]);
    type Change = fn(&mut Vec<IndexEntry>, &str);
    let changes: [Change; 7] = [
        |index, _| index[0].path = b".git/hooks/post-checkout".to_vec(),
        |index, _| index[0].path = b"../x".to_vec(),
        |index, _| index[0].mode = 0o160_000,
        |index, _| index[0].oid = Oid::parse(&"e".repeat(40)).unwrap(),
        |index, tree| index[0].oid = Oid::parse(tree.trim()).unwrap(),
        |index, _| index.reverse(),
        |index, _| index[0].marks = 255,
    ];
    for change in changes {
        let mut index = good.clone();
        change(&mut index, &tree);
        let (entries, store) = with_record(&capture, INDEX, &index_to_bytes(&index));
        refused(&lab, &entries, &store);
    }
    let (entries, store) = with_record(&capture, INDEX, b"garbage");
    refused(&lab, &entries, &store);
}

/// Shows: T-6
#[test]
fn pack_with_a_harmful_or_damaged_object_is_refused() {
    let lab = Lab::new();
    for name in [".git", "..", ".GIT", "a/b"] {
        let root = lab.path("evil");
        let _ = std::fs::remove_dir_all(&root);
        let _ = std::fs::remove_dir_all(lab.path("scratch-evil"));
        std::fs::create_dir(&root).unwrap();
        git(&root, &["init", "-q", "-b", "main"]);
        write(&root, "f", "x");
        let blob = git(&root, &["hash-object", "-w", "f"]);
        let raw = Oid::parse(blob.trim()).unwrap();
        let body = [b"100644 ", name.as_bytes(), b"\0", raw.as_bytes()].concat();
        let tree = literal(&root, "tree", &body);
        let commit = git(&root, &["commit-tree", "-m", "evil", tree.trim()]);
        git(&root, &["update-ref", "refs/heads/evil", commit.trim()]);
        let capture = lab.capture(&root);
        let reason = refused(&lab, &capture.entries, &Store::take(&capture));
        assert!(reason.contains("index-pack"), "{name}: {reason}");
    }
    let root = lab.repository("r");
    let capture = lab.capture(&root);
    let mut pack = record(&capture, PACK);
    let middle = pack.len() / 2;
    pack[middle] ^= 0x10;
    let (entries, store) = with_record(&capture, PACK, &pack);
    assert!(refused(&lab, &entries, &store).contains("index-pack"));
    let without: Vec<_> = capture.entries.iter().filter(|e| e.path.as_bytes() != PACK.as_bytes()).cloned().collect();
    refused(&lab, &without, &Store::take(&capture));
}

fn literal(root: &Path, kind: &str, bytes: &[u8]) -> String {
    let mut child = Command::new("git")
        .args(["hash-object", "-t", kind, "-w", "--literally", "--stdin"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Makes a repository run a marker wherever it can.
fn trap(root: &Path, marker: &Path) {
    let script = root.parent().unwrap().join("trap.sh");
    std::fs::write(&script, format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\n", marker.display())).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "gpg.program",
        "diff.external",
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "diff.trap.textconv",
        "diff.trap.command",
        "merge.trap.driver",
        "credential.helper",
        "pager.log",
        "pager.config",
        "uploadpack.packObjectsHook",
        "core.alternateRefsCommand",
        "sequence.editor",
        "alias.log",
    ] {
        let value = if key.starts_with("alias") { format!("!{script}") } else { script.to_owned() };
        git(root, &["config", key, &value]);
    }
    git(root, &["config", "log.showSignature", "true"]);
    git(root, &["config", "commit.gpgSign", "true"]);
    for hook in [
        "pre-commit",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "pre-auto-gc",
        "post-rewrite",
        "fsmonitor-watchman",
        "update",
        "post-merge",
    ] {
        std::fs::create_dir_all(root.join(".git/hooks")).unwrap();
        std::fs::copy(script, root.join(".git/hooks").join(hook)).unwrap();
    }
}

#[test]
fn filter_that_cannot_be_switched_off_bars_an_update_in_place() {
    let lab = Lab::new();
    let home = lab.repository("home");
    let capture = lab.capture(&home);
    let marker = lab.path("marker");
    git(&home, &["config", "filter.a=b.clean", &format!("touch '{}'; cat", marker.display())]);
    write(&home, ".git/info/attributes", "* filter=a=b\n");
    let outcome = lab.stage(&capture, "home", Some(&Baseline::of(&capture.entries)));
    assert!(matches!(outcome, Err(StageError::TargetDiffers { .. })), "{outcome:?}");
    assert!(!marker.exists());
}

/// Shows: T-6
#[test]
fn trapped_repository_runs_nothing() {
    let lab = Lab::new();
    let home = lab.repository("home");
    write(&home, ".gitattributes", "* filter=trap diff=trap merge=trap\n");
    git(&home, &["add", "-A"]);
    commit(&home, "attributes");
    write(&home, "a.txt", "stashed");
    git(&home, &["stash", "push", "-q"]);
    write(&home, "a.txt", "edited");
    let marker = lab.path("marker");
    trap(&home, &marker);
    let (_, said) = try_git(&home, &["status"]);
    assert!(marker.exists(), "the trap works: {said}");
    std::fs::remove_file(&marker).unwrap();

    let tree = inspect(&home).unwrap();
    assert!(!marker.exists(), "{}", std::fs::read_to_string(&marker).unwrap_or_default());
    assert!(tree.git.is_some());
    let left = lab.capture(&home);
    assert!(!marker.exists(), "{}", std::fs::read_to_string(&marker).unwrap_or_default());
    let abroad = lab.deliver(&left, "abroad", None).root;
    write(&abroad, "a.txt", "edited abroad");
    git(&abroad, &["add", "-A"]);
    commit(&abroad, "abroad");
    assert!(!abroad.join(".git/hooks").exists());
    let configuration = std::fs::read_to_string(abroad.join(".git/config")).unwrap();
    assert!(!configuration.contains("trap"), "{configuration}");
    let back = lab.capture(&abroad);
    let baseline = Baseline::of(&left.entries);
    // An index older than its files makes git look into each of them whenever it writes the index.
    let index = std::fs::File::options().append(true).open(home.join(".git/index")).unwrap();
    index.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3_600)).unwrap();
    let staged = lab.stage(&back, "home", Some(&baseline)).unwrap();
    assert!(staged.in_place);
    assert!(!marker.exists(), "{}", std::fs::read_to_string(&marker).unwrap_or_default());
    activate(&lab.path("staging")).unwrap();
    assert!(!marker.exists(), "{}", std::fs::read_to_string(&marker).unwrap_or_default());
    assert_eq!(files(&home), files(&abroad));
}
