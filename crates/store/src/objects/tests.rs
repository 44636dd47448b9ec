use std::fs;
use std::io;

use tempfile::{TempDir, tempdir};

use super::*;
use crate::tmpfs::Tmpfs;

/// Shows: J-11
#[test]
fn object_is_read_back_by_its_hash() {
    let lab = Lab::new();
    let objects = lab.objects();
    let hash = objects.put(b"catalog").unwrap();
    assert_eq!(hash, Hash::of(b"catalog"));
    assert_eq!(objects.put(b"catalog"), Ok(hash));
    assert_eq!(objects.put_from(&b"catalog"[..]), Ok(hash));
    assert_eq!(objects.get(&hash), Ok(Some(b"catalog".to_vec())));
    assert_eq!(objects.get(&Hash::of(b"other")), Ok(None));
    assert!(objects.contains(&hash));
    drop(objects);
    assert!(lab.objects().contains(&hash));
}

#[test]
fn long_object_is_stored_in_parts() {
    let lab = Lab::new();
    let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let objects = lab.objects();
    let hash = objects.put_from(bytes.as_slice()).unwrap();
    assert_eq!(hash, Hash::of(&bytes));
    assert_eq!(objects.get(&hash).unwrap(), Some(bytes));
    assert_eq!(objects.put_from(io::repeat(7)), Err(ObjectError::TooLong));
    assert_eq!(lab.files(), 1, "nothing of the endless one is left");
}

/// Shows: J-11
#[test]
fn source_that_fails_leaves_nothing() {
    let lab = Lab::new();
    let objects = lab.objects();
    let broken = b"half".chain(Broken);
    assert!(matches!(objects.put_from(broken), Err(ObjectError::Source(_))));
    assert_eq!(lab.files(), 0);
}

#[test]
fn corrupt_object_is_told_and_can_be_put_again() {
    let lab = Lab::new();
    let objects = lab.objects();
    let hash = objects.put(b"catalog").unwrap();
    fs::write(objects.file(&hash), b"catalof").unwrap();
    assert_eq!(objects.get(&hash), Err(ObjectError::Corrupt(hash)));
    assert!(!objects.contains(&hash));
    objects.put(b"catalog").unwrap();
    assert_eq!(objects.get(&hash), Ok(Some(b"catalog".to_vec())));
}

#[test]
fn objects_that_are_not_named_are_collected() {
    let lab = Lab::new();
    let objects = lab.objects();
    let hashes: Vec<_> = (0..5_u8).map(|number| objects.put(&[number]).unwrap()).collect();
    let keep = BTreeSet::from([hashes[1], hashes[3], Hash::of(b"absent")]);
    assert_eq!(objects.retain(&keep), Ok(3));
    let left: Vec<_> = hashes.iter().map(|hash| objects.contains(hash)).collect();
    assert_eq!(left, [false, true, false, true, false]);
}

/// Shows: J-11
#[test]
fn unfinished_object_is_removed_at_the_next_start() {
    let lab = Lab::new();
    drop(lab.objects());
    fs::write(lab.home.path(OBJECTS).join("3.new"), b"half").unwrap();
    drop(lab.objects());
    assert_eq!(lab.files(), 0);
}

#[test]
fn full_disk_is_told_and_nothing_is_left() {
    let Some(tmpfs) = Tmpfs::of_size("1m") else { return };
    let home = Home::open(&tmpfs.path().join("home")).unwrap();
    let objects = Objects::open(&home).unwrap();
    assert_eq!(objects.put(&vec![1; 2 << 20]), Err(ObjectError::NoSpace));
    let hash = objects.put(&vec![1; 1 << 19]).unwrap();
    assert!(objects.contains(&hash));
}

/// Shows: J-11
#[test]
fn many_objects_are_stored_at_once_or_none_of_them() {
    let lab = Lab::new();
    let objects = lab.objects();
    objects.put(b"there").unwrap();
    for count in [2, 100] {
        let mut all: Vec<Vec<u8>> = (0..count).map(|n: u32| n.to_le_bytes().to_vec()).collect();
        all.extend([b"there".to_vec(), b"twice".to_vec(), b"twice".to_vec()]);
        objects.put_all(&all).unwrap();
        assert!(all.iter().all(|bytes| objects.get(&Hash::of(bytes)) == Ok(Some(bytes.clone()))));
    }
    assert_eq!(lab.files(), 102);
    objects.put_all(&[]).unwrap();
    let broken = [b"new".to_vec(), vec![0; usize::try_from(OBJECT_BYTES).unwrap() + 1]];
    assert_eq!(objects.put_all(&broken), Err(ObjectError::TooLong));
    assert!(!objects.contains(&Hash::of(b"new")));
}

/// Shows: J-11, M-1
#[test]
fn object_that_another_call_put_meanwhile_stays_when_this_one_fails() {
    let lab = Lab::new();
    let objects = lab.objects();
    let all: Vec<Vec<u8>> = (0..8_u8).map(|n| vec![n]).collect();
    for broken in &all {
        let missing: Vec<(Hash, &Vec<u8>)> = all.iter().map(|bytes| (Hash::of(bytes), bytes)).collect();
        let kept: Vec<Hash> = all.iter().filter(|one| *one != broken).map(|one| objects.put(one).unwrap()).collect();
        let in_the_way = objects.file(&Hash::of(broken));
        fs::create_dir(&in_the_way).unwrap();
        assert!(objects.put_missing(missing).is_err());
        assert!(kept.iter().all(|hash| matches!(objects.get(hash), Ok(Some(_)))), "a kept letter lost its words");
        assert_eq!(objects.count.load(Ordering::Relaxed), kept.len() as u64);
        fs::remove_dir(&in_the_way).unwrap();
        assert_eq!(lab.files(), kept.len());
        assert_eq!(objects.retain(&BTreeSet::new()), Ok(kept.len()));
    }
    let mut first: Vec<(Hash, &Vec<u8>)> = all.iter().map(|bytes| (Hash::of(bytes), bytes)).collect();
    first.sort();
    let in_the_way = objects.file(&first[7].0);
    fs::create_dir(&in_the_way).unwrap();
    assert!(objects.put_missing(first).is_err());
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!((lab.files(), objects.count.load(Ordering::Relaxed)), (0, 0), "what this call named itself goes");
}

#[test]
fn many_objects_on_a_full_disk_leave_nothing() {
    let Some(tmpfs) = Tmpfs::of_size("1m") else { return };
    let home = Home::open(&tmpfs.path().join("home")).unwrap();
    let objects = Objects::open(&home).unwrap();
    let all: Vec<Vec<u8>> = (0..20_u8).map(|n| vec![n; 100 << 10]).collect();
    assert_eq!(objects.put_all(&all), Err(ObjectError::NoSpace));
    assert!(all.iter().all(|bytes| !objects.contains(&Hash::of(bytes))));
    objects.put_all(&all[..4]).unwrap();
    assert!(objects.contains(&Hash::of(&all[3])));
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(5))
    }
}

struct Lab {
    home: Home,
    _dir: TempDir,
}

impl Lab {
    fn new() -> Self {
        let dir = tempdir().unwrap();
        Self { home: Home::open(&dir.path().join("home")).unwrap(), _dir: dir }
    }

    fn objects(&self) -> Objects {
        Objects::open(&self.home).unwrap()
    }

    fn files(&self) -> usize {
        fs::read_dir(self.home.path(OBJECTS)).unwrap().count()
    }
}
