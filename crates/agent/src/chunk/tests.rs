use std::io::Write;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn streamed_file_is_cut_like_the_same_bytes_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for size in [0, 1, 16 << 10, 300_000, 5_000_001] {
        let bytes = noise(size, 7);
        std::fs::write(&path, &bytes).unwrap();
        let content = chunk_file(&path).unwrap();
        assert_eq!(content.chunks, chunk_bytes(&bytes), "{size}");
        assert_eq!(content.chunks.iter().map(|c| u64::from(c.length)).sum::<u64>(), size as u64);
        assert_eq!(content.stat.size, size as u64);
    }
}

#[test]
fn insertion_changes_few_chunks() {
    let old = noise(4_000_000, 1);
    let mut new = old.clone();
    new.splice(1_000_000..1_000_000, *b"one line more");
    let (old, new) = (chunk_bytes(&old), chunk_bytes(&new));
    let fresh = new.iter().filter(|chunk| !old.contains(chunk)).count();
    assert!(fresh <= 3 && old.len() > 30, "{fresh} of {}", old.len());
}

#[test]
fn blob_id_is_the_one_of_git() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, "hello\n").unwrap();
    let content = Chunker::new().read(&mut open_regular(&path).unwrap(), &path, Want::Both).unwrap();
    assert_eq!(content.blob.unwrap().to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
}

#[test]
fn only_regular_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (link, pipe) = (dir.path().join("link"), dir.path().join("pipe"));
    symlink("/etc/hostname", &link).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(matches!(chunk_file(&link), Err(ReadError::NotRegular(_))));
    assert!(matches!(chunk_file(&pipe), Err(ReadError::NotRegular(_))));
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(matches!(chunk_file(&socket), Err(ReadError::NotRegular(_))));
    assert!(matches!(chunk_file(dir.path()), Err(ReadError::NotRegular(_))));
    assert!(matches!(chunk_file(&dir.path().join("none")), Err(ReadError::Missing(_))));
}

/// Shows: T-2
#[test]
fn file_that_never_rests_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, noise(3_000_000, 3)).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all(b"more").unwrap();
            }
        });
        // On a busy machine the writer may not be let in for a while.
        let outcome = (0..2_000).map(|_| chunk_file(&path)).find(Result::is_err);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(outcome, Some(Err(ReadError::Changing(_)))));
    });
}

/// Shows: T-2
#[test]
fn chunk_is_read_again_and_a_changed_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let bytes = noise(700_000, 5);
    std::fs::write(&path, &bytes).unwrap();
    let content = chunk_file(&path).unwrap();
    let files = SourceFiles::collect([(path.clone(), content.chunks.as_slice())]);
    let (mut all, mut piece) = (Vec::new(), Vec::new());
    for chunk in &content.chunks {
        files.read(&chunk.id, &mut piece).unwrap();
        all.extend_from_slice(&piece);
    }
    assert_eq!(all, bytes);
    std::fs::write(&path, noise(700_000, 6)).unwrap();
    let first = content.chunks[0].id;
    assert!(matches!(files.read(&first, &mut piece), Err(ReadChunkError::Changed { .. })));
    std::fs::write(&path, b"short").unwrap();
    assert!(matches!(files.read(&first, &mut piece), Err(ReadChunkError::Changed { .. })));
    let other = ChunkId::of(b"other");
    assert_eq!(files.read(&other, &mut piece), Err(ReadChunkError::Unknown(other)));
}

#[test]
fn cache_believes_only_a_file_that_rested() {
    let stat = FileStat {
        size: 1,
        mtime: Mtime { seconds: 100, nanos: 0 },
        ctime: Mtime { seconds: 100, nanos: 0 },
        inode: 1,
        device: 1,
        mode: 0o100_644,
    };
    let mut cache = StatCache::default();
    cache.put(b"young", (Some(&[]), None), stat, 101_000);
    cache.put(b"old", (Some(&[]), None), stat, 102_000);
    assert!(cache.get(b"young", &stat).is_none());
    assert!(cache.get(b"old", &stat).is_some());
    assert!(cache.get(b"old", &FileStat { size: 2, ..stat }).is_none());
}

#[test]
fn damaged_cache_is_an_empty_cache() {
    let mut cache = StatCache::default();
    let blob = Oid::parse(&"a7".repeat(20));
    cache.put(b"f", (None, blob.as_ref()), FileStat::of(&std::fs::metadata("/").unwrap()), u64::MAX);
    let mut bytes = cache.to_bytes().unwrap();
    assert_eq!(StatCache::from_bytes(&bytes), cache);
    bytes[40] ^= 1;
    assert_eq!(StatCache::from_bytes(&bytes), StatCache::default());
    assert_eq!(StatCache::from_bytes(b""), StatCache::default());
}

#[test]
fn file_that_is_hashed_again_takes_the_place_of_what_was_known() {
    let stat = FileStat::of(&std::fs::metadata("/").unwrap());
    let chunk = |n: u32| ChunkRef { id: ChunkId::of(&n.to_le_bytes()), length: n };
    let mut cache = StatCache::default();
    for round in 1..50 {
        for name in [b"a", b"b", b"c"] {
            let chunks = [chunk(round), chunk(u32::from(name[0]))];
            cache.put(name, (Some(&chunks), None), stat, u64::MAX);
        }
    }
    let cache = StatCache::from_bytes(&cache.to_bytes().unwrap());
    assert_eq!(cache.len(), 3);
    for name in [b"a", b"b", b"c"] {
        let known = cache.get(name, &stat).unwrap();
        assert_eq!(known.chunks, Some(&[chunk(49), chunk(u32::from(name[0]))][..]));
    }
    assert!(cache.to_bytes().unwrap().len() < 1_000);
}

#[test]
fn files_of_a_tree_are_known_whatever_order_they_came_in() {
    let stat = FileStat::of(&std::fs::metadata("/").unwrap());
    let blob = Oid::parse(&"b8".repeat(20));
    let mut fresh = Fresh::default();
    for name in ["z", "a", "m"] {
        let chunk = ChunkRef { id: ChunkId::of(name.as_bytes()), length: 1 };
        fresh.put(name.as_bytes(), (Some(&[chunk]), blob.as_ref()), stat, u64::MAX);
    }
    let mut cache = StatCache::default();
    cache.set_files(fresh);
    let mut again = Fresh::default();
    ["m", "z", "unknown"].iter().for_each(|name| again.adopt(&cache, name.as_bytes()));
    cache.set_files(again);
    assert_eq!(cache.len(), 2);
    let known = cache.get(b"z", &stat).unwrap();
    assert_eq!((known.chunks.unwrap()[0].id, known.blob), (ChunkId::of(b"z"), blob));
}

fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}
