//! Hostile manifests and trees: what a paired device that lies may say that a payload holds. Each is refused, or stands
//! afterwards wholly inside its root; outside, not a byte, a name, a mode or a time has changed.
//!
//! A catalog is written here from plain bytes, as its sender may write it, and read, staged and activated as the daemon
//! does it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use cede_agent::chunk::{StatCache, chunk_bytes};
use cede_agent::tree::{Baseline, ReadChunk, StageRequest, activate, discard, stage};
use cede_tests::devices::trees::Numbers;
use cede_wire::canonical::encode;
use cede_wire::catalog::{Catalog, ChunkRef, Mtime};
use cede_wire::custody::Head;
use cede_wire::id::{ChunkId, Hash};
use cede_wire::session::{AgentKind, NativeId, SessionKey};
use serde::Serialize;

#[path = "hostile_trees/kit.rs"]
mod kit;

/// A catalog as bytes make it: nothing in it is checked. The order of the fields is that of the real one.
#[derive(Serialize, Clone)]
struct Loose {
    key: SessionKey,
    head: Head,
    entries: Vec<LooseEntry>,
}

#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LooseEntry {
    place: Place,
    path: Vec<u8>,
    body: Body,
}

/// With two places that do not exist.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Tree,
    #[expect(dead_code, reason = "its number stands between")]
    Transcript,
    Git,
    Home,
}

/// With kinds that do not exist: a hard link, a device, a pipe.
#[derive(Serialize, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Body {
    File { mode: u32, mtime: Mtime, size: u64, chunks: Vec<ChunkRef> },
    GitBlob { mode: u32, mtime: Mtime, size: u64, oid: Vec<u8> },
    Symlink { target: Vec<u8> },
    Directory { mode: u32 },
    HardLink { to: Vec<u8> },
    Device { major: u32, minor: u32 },
    Pipe { mode: u32 },
}

/// Chunks as a peer may send them.
#[derive(Default, Clone)]
struct Store(BTreeMap<ChunkId, Vec<u8>>);

impl ReadChunk for Store {
    fn read(&self, id: &ChunkId, into: &mut Vec<u8>) -> std::io::Result<()> {
        into.clear();
        into.extend_from_slice(self.0.get(id).ok_or(std::io::ErrorKind::NotFound)?);
        Ok(())
    }
}

const NOON: Mtime = Mtime { seconds: 43_200, nanos: 0 };

impl Store {
    fn body(&mut self, bytes: &[u8]) -> Body {
        let (chunks, mut rest) = (chunk_bytes(bytes), bytes);
        for chunk in &chunks {
            let (piece, after) = rest.split_at(chunk.length as usize);
            self.0.insert(chunk.id, piece.to_vec());
            rest = after;
        }
        Body::File { mode: 0o644, mtime: NOON, size: bytes.len() as u64, chunks }
    }

    fn file(&mut self, path: impl AsRef<[u8]>, text: &str) -> LooseEntry {
        entry(path, self.body(text.as_bytes()))
    }
}

fn entry(path: impl AsRef<[u8]>, body: Body) -> LooseEntry {
    LooseEntry { place: Place::Tree, path: path.as_ref().to_vec(), body }
}

fn link(path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> LooseEntry {
    entry(path, Body::Symlink { target: target.as_ref().to_vec() })
}

fn directory(path: impl AsRef<[u8]>, mode: u32) -> LooseEntry {
    entry(path, Body::Directory { mode })
}

/// One of the kit.
struct Hostile {
    kind: &'static str,
    entries: Vec<LooseEntry>,
    store: Store,
    /// True where nothing of it may stand: no file system and no system reads it as harmless.
    refused: bool,
}

/// A place in memory where that is possible: a target, a stage, and everything else to watch.
struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let lab = Self(tempfile::tempdir_in(parent).unwrap());
        for name in ["victim", "deep/victim", ".ssh/authorized_keys", ".git/hooks/post-checkout", ".profile"] {
            let path = lab.path("outside").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "untouched").unwrap();
        }
        std::fs::write(lab.path("victim"), "untouched").unwrap();
        symlink("outside", lab.path("way")).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Everything but the target and the stage, as a person could notice it.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        look(self.0.path(), &mut all, &|name| name != "there" && name != "staging");
        all
    }

    /// Reads, stages and activates; true where it stands now.
    fn try_to_place(&self, hostile: &Hostile, baseline: Option<&Baseline>) -> Result<(), String> {
        let catalog = read(&hostile.entries)?;
        let staging = self.path("staging");
        let request = StageRequest {
            entries: &catalog.entries,
            chunks: &hostile.store,
            staging: &staging,
            target: &self.path("there"),
            baseline,
            cache: &StatCache::default,
            local_clone: None,
        };
        let staged = stage(&request).map_err(|error| error.to_string());
        let placed = staged.and_then(|_| activate(&staging).map(drop).map_err(|error| error.to_string()));
        discard(&staging).unwrap();
        placed
    }

    fn clear(&self) {
        let there = self.path("there");
        if there.symlink_metadata().is_ok() {
            open_up(&there);
            std::fs::remove_dir_all(&there).unwrap();
        }
    }
}

fn open_up(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).unwrap();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            open_up(&entry.path());
        }
    }
}

fn read(entries: &[LooseEntry]) -> Result<Catalog, String> {
    let key = SessionKey { agent: AgentKind::Files, native: NativeId::parse("gift").unwrap() };
    let head = Head { turn: 0, length: 0, hash: Hash::of(b"") };
    let bytes = encode(&Loose { key, head, entries: entries.to_vec() });
    Catalog::from_bytes(&bytes).map_err(|error| error.to_string())
}

fn look(directory: &Path, all: &mut BTreeMap<PathBuf, String>, watched: &dyn Fn(&OsStr) -> bool) {
    for entry in std::fs::read_dir(directory).unwrap().flatten().filter(|entry| watched(&entry.file_name())) {
        let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
        let bytes = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        let link = std::fs::read_link(&path).unwrap_or_default();
        let hash = Hash::of(&bytes);
        let seen = format!("{:o} {} {}.{} {hash} {link:?}", meta.mode(), meta.nlink(), meta.mtime(), meta.mtime_nsec());
        all.insert(path.clone(), seen);
        if meta.is_dir() {
            look(&path, all, watched);
        }
    }
}

/// What stands at the target holds no device, no pipe, no set-id bit, and no second name of a file elsewhere.
fn is_tame(root: &Path) {
    for entry in std::fs::read_dir(root).unwrap().flatten() {
        let meta = entry.path().symlink_metadata().unwrap();
        let kind = meta.file_type();
        assert!(kind.is_dir() || kind.is_file() || kind.is_symlink(), "{:?}", entry.path());
        assert!(kind.is_symlink() || meta.mode() & 0o7000 == 0, "{:?}: {:o}", entry.path(), meta.mode());
        assert!(!kind.is_file() || meta.nlink() == 1, "{:?} has another name", entry.path());
        assert!(!entry.file_name().eq_ignore_ascii_case(".git"), "a git directory came along");
        if kind.is_dir() && meta.mode() & 0o500 == 0o500 {
            is_tame(&entry.path());
        }
    }
}

/// Shows: T-1, T-3, T-4, T-5, T-11
#[test]
fn hostile_trees_are_refused_or_stay_inside() {
    let lab = Lab::new();
    let before = lab.outside();
    let (mut refused, mut inside) = (BTreeMap::<&str, u32>::new(), BTreeMap::<&str, u32>::new());
    for hostile in kit::all(&lab.path("outside")) {
        let placed = lab.try_to_place(&hostile, None);
        assert_eq!(lab.outside(), before, "{}: something outside changed", hostile.kind);
        assert!(placed.is_err() || !hostile.refused, "{}: it was taken: {}", hostile.kind, shown(&hostile));
        match placed {
            Ok(()) => {
                is_tame(&lab.path("there"));
                *inside.entry(hostile.kind).or_default() += 1;
            }
            Err(why) => {
                assert!(!why.chars().any(char::is_control), "{why:?}");
                assert!(
                    lab.path("there").symlink_metadata().is_err(),
                    "{}: refused, and something stands",
                    hostile.kind
                );
                *refused.entry(hostile.kind).or_default() += 1;
            }
        }
        lab.clear();
    }
    report("a new tree", &refused, &inside, 500);
}

/// The same onto a tree that is there: a genuine one with directories, files, and links that lead outside.
/// Shows: T-5, T-9
#[test]
fn hostile_trees_over_an_earlier_one_stay_inside() {
    let lab = Lab::new();
    let mut store = Store::default();
    let outside = lab.path("outside");
    let mut genuine = vec![
        store.file("d/f", "one"),
        store.file("d/g/h", "two"),
        store.file("f", "three"),
        link("l", outside.as_os_str().as_bytes()),
        link("m", "d"),
    ];
    genuine.sort();
    let first = Hostile { kind: "", entries: genuine, store, refused: false };
    let baseline = Baseline::of(&read(&first.entries).unwrap().entries);
    let before = lab.outside();
    let (mut refused, mut inside) = (BTreeMap::<&str, u32>::new(), BTreeMap::<&str, u32>::new());
    for mut hostile in kit::structural(&outside).into_iter().chain(kit::below_what_is_there(&outside)) {
        lab.try_to_place(&first, None).unwrap();
        hostile.store.0.extend(first.store.0.clone());
        let placed = lab.try_to_place(&hostile, Some(&baseline));
        assert_eq!(lab.outside(), before, "{}: something outside changed", hostile.kind);
        is_tame(&lab.path("there"));
        *(if placed.is_ok() { &mut inside } else { &mut refused }).entry(hostile.kind).or_default() += 1;
        lab.clear();
    }
    report("over an earlier tree", &refused, &inside, 100);
    assert!(inside.len() > 5, "hardly anything was tried: {inside:?}");
}

/// Between the stage and the activation somebody puts links where directories stood.
/// Shows: T-5
#[test]
fn parents_that_are_exchanged_after_the_stage_lead_nowhere() {
    let lab = Lab::new();
    let outside = lab.path("outside");
    let mut tried = 0;
    for exchanged in ["d", "d/g", "there", "e"] {
        for target in [outside.clone(), outside.join("deep"), PathBuf::from("../outside"), PathBuf::from("..")] {
            let mut store = Store::default();
            let old = [store.file("d/f", "one"), store.file("d/g/h", "two"), store.file("e/x", "old")];
            let new = [
                store.file("d/f", "ONE"),
                store.file("d/g/h", "TWO"),
                store.file("d/g/victim", "new"),
                store.file("e/y", "n"),
            ];
            let [old, new] = [old.to_vec(), new.to_vec()].map(|entries| read(&entries).unwrap());
            let (staging, target_path) = (lab.path("staging"), lab.path("there"));
            let request = |entries| StageRequest {
                entries,
                chunks: &store,
                staging: &staging,
                target: &target_path,
                baseline: None,
                cache: &StatCache::default,
                local_clone: None,
            };
            stage(&request(&old.entries)).unwrap();
            activate(&lab.path("staging")).unwrap();
            discard(&lab.path("staging")).unwrap();
            let baseline = Baseline::of(&old.entries);
            stage(&StageRequest { baseline: Some(&baseline), ..request(&new.entries) }).unwrap();
            let there = lab.path("there");
            let at = if exchanged == "there" { there.clone() } else { there.join(exchanged) };
            std::fs::rename(&at, lab.path("taken")).unwrap();
            symlink(&target, &at).unwrap();
            let before = lab.outside();
            let _ = activate(&lab.path("staging"));
            assert_eq!(lab.outside(), before, "{exchanged} became a link to {}", target.display());
            discard(&lab.path("staging")).unwrap();
            std::fs::remove_dir_all(lab.path("taken")).unwrap();
            if there.symlink_metadata().unwrap().is_symlink() {
                std::fs::remove_file(&there).unwrap()
            } else {
                lab.clear()
            }
            tried += 1;
        }
    }
    println!("parents exchanged between stage and activation: {tried}, 0 bytes outside");
}

/// Lists that say that they are endless, and one that is longer than any by one: refused before they are read.
/// Shows: T-1, T-11
#[test]
fn endless_lists_are_refused_at_once() {
    let key = SessionKey { agent: AgentKind::Files, native: NativeId::parse("gift").unwrap() };
    let head = Head { turn: 0, length: 0, hash: Hash::of(b"") };
    let empty = encode(&Loose { key, head, entries: Vec::new() });
    let (count, before) = empty.split_last().unwrap();
    assert_eq!((*count, Catalog::from_bytes(&empty).is_ok()), (0, true));
    let one = encode(&directory("a", 0o755));
    let most = cede_wire::limits::CATALOG_ENTRIES as u64;
    let mut refused = 0;
    for (said, really) in [(most + 1, most + 1), (u64::from(u32::MAX), 3), (u64::MAX, 0), (most, 3), (1 << 40, most)] {
        let bytes = [before, &encode(&said), &one.repeat(really as usize)].concat();
        assert!(Catalog::from_bytes(&bytes).is_err(), "{said} entries were said, {really} are there");
        refused += 1;
    }
    println!("endless catalogs: {refused} of {refused} refused");
}

fn report(what: &str, refused: &BTreeMap<&str, u32>, inside: &BTreeMap<&str, u32>, least: u32) {
    for kind in refused.keys().chain(inside.keys()).collect::<std::collections::BTreeSet<_>>() {
        let count = |map: &BTreeMap<&str, u32>| map.get(*kind).copied().unwrap_or(0);
        println!("{:>5} refused {:>4} inside  {kind}", count(refused), count(inside));
    }
    let (refused, inside): (u32, u32) = (refused.values().sum(), inside.values().sum());
    println!("{what}: {} hostile, {refused} refused, {inside} inside their root, 0 bytes outside", refused + inside);
    assert!(refused + inside >= least && refused > 0, "{}", refused + inside);
}

fn shown(hostile: &Hostile) -> String {
    let names: Vec<String> =
        hostile.entries.iter().take(4).map(|entry| entry.path.escape_ascii().to_string()).collect();
    names.join(", ").chars().take(300).collect()
}

/// A chance that is the same in every run.
fn numbers(seed: u64) -> Numbers {
    Numbers(seed)
}
