use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::{TempDir, tempdir};

use super::opening::within;
use super::*;

#[test]
fn rows_are_there_after_an_orderly_end() {
    let lab = Lab::new();
    let (index, condition) = lab.open();
    assert_eq!(condition, IndexCondition::Rebuild(Why::New));
    index.tree("stat").unwrap().put(b"a", b"1").unwrap();
    index.close().unwrap();
    for _ in 0..3 {
        let (index, condition) = lab.open();
        assert_eq!(condition, IndexCondition::Ready);
        assert_eq!(index.tree("stat").unwrap().get(b"a"), Ok(Some(b"1".to_vec())));
        index.close().unwrap();
    }
}

/// Shows: J-12
#[test]
fn index_that_was_not_closed_is_rebuilt() {
    let lab = Lab::new();
    let (index, _) = lab.open();
    index.tree("stat").unwrap().put(b"a", b"1").unwrap();
    index.close().unwrap();
    let (index, condition) = lab.open();
    assert_eq!(condition, IndexCondition::Ready);
    drop(index);
    let (index, condition) = lab.open();
    assert_eq!(condition, IndexCondition::Rebuild(Why::Unclean));
    assert_eq!(index.tree("stat").unwrap().get(b"a"), Ok(None));
}

#[test]
fn index_of_another_layout_is_rebuilt() {
    let lab = Lab::new();
    lab.open().0.close().unwrap();
    let (_index, condition) = Index::open(&lab.home, LAYOUT + 1).unwrap();
    assert_eq!(condition, IndexCondition::Rebuild(Why::Layout));
}

#[test]
fn index_whose_files_changed_is_rebuilt() {
    for damage in [flip, cut, empty, remove, add] {
        let lab = Lab::new();
        lab.fill_and_close();
        damage(&lab.home.path("index").join("1"));
        let (index, condition) = lab.open();
        assert_eq!(condition, IndexCondition::Rebuild(Why::Changed));
        assert_eq!(index.tree("stat").unwrap().count(), Ok(0));
    }
}

/// Shows: J-12
#[test]
fn index_that_does_not_open_is_rebuilt_and_never_stops_the_start() {
    for damage in [flip, cut, empty, remove, add] {
        let lab = Lab::new();
        lab.fill_and_close();
        let dir = lab.home.path("index");
        damage(&dir.join("1"));
        // The mark says that these are the right files, so only sled itself stands in the way.
        opening::mark_clean(&dir, "1", LAYOUT).unwrap();
        let (index, condition) = lab.open();
        let tree = index.tree("stat");
        if condition == IndexCondition::Rebuild(Why::DoesNotOpen) {
            assert_eq!(tree.unwrap().count(), Ok(0));
            index.close().unwrap();
            assert_eq!(lab.open().1, IndexCondition::Ready);
        }
    }
}

#[test]
fn directory_in_the_place_of_a_file_of_sled_is_no_obstacle() {
    let lab = Lab::new();
    lab.open().0.close().unwrap();
    let dir = lab.home.path("index");
    fs::remove_dir_all(dir.join("1")).unwrap();
    fs::create_dir_all(dir.join("1").join("conf")).unwrap();
    opening::mark_clean(&dir, "1", LAYOUT).unwrap();
    let (index, condition) = lab.open();
    assert_eq!(condition, IndexCondition::Rebuild(Why::DoesNotOpen));
    index.tree("stat").unwrap().put(b"a", b"1").unwrap();
    index.close().unwrap();
    assert_eq!(lab.open().1, IndexCondition::Ready);
}

#[test]
fn large_index_is_believed_after_each_orderly_end() {
    let lab = Lab::new();
    lab.fill_and_close();
    for round in 0..5_u8 {
        let (index, condition) = lab.open();
        assert_eq!(condition, IndexCondition::Ready, "round {round}");
        let tree = index.tree("stat").unwrap();
        assert_eq!(tree.count(), Ok(3_000));
        for number in 0..3_000_u32 {
            tree.put(&number.to_be_bytes(), &[round; 150]).unwrap();
        }
        index.close().unwrap();
    }
}

#[test]
fn damaged_mark_is_no_mark() {
    let lab = Lab::new();
    for mark in ["", "1 1", "1 1 00\n", "1 ../1 00\n", "x 1 00\n"] {
        lab.open().0.close().unwrap();
        fs::write(lab.home.path("index").join("clean"), mark).unwrap();
        assert_eq!(lab.open().1, IndexCondition::Rebuild(Why::Unclean), "{mark:?}");
    }
}

#[test]
fn panic_and_silence_are_outlived() {
    assert_eq!(within(Duration::from_secs(5), || 7), Some(7));
    assert_eq!(within(Duration::from_secs(5), || -> u32 { panic!("as sled does on a damaged log") }), None);
    let begin = Instant::now();
    assert_eq!(within(Duration::from_millis(20), || std::thread::sleep(Duration::from_secs(3))), None);
    assert!(begin.elapsed() < Duration::from_secs(2));
}

/// Shows: J-12
#[test]
fn panic_within_a_call_breaks_the_index_and_not_the_daemon() {
    let lab = Lab::new();
    let (index, _) = lab.open();
    assert_eq!(index.guard(|| -> sled::Result<()> { panic!("as sled does") }), Err(IndexError::Broken));
    assert_eq!(index.tree("stat").unwrap_err(), IndexError::Broken);
    assert_eq!(index.close(), Err(IndexError::Broken));
    assert_eq!(lab.open().1, IndexCondition::Rebuild(Why::Unclean));
}

#[test]
fn rows_are_scanned_by_prefix_in_pages() {
    let lab = Lab::new();
    let (index, _) = lab.open();
    let tree = index.tree("stat").unwrap();
    let key = |number: u32| [b"p/", &number.to_be_bytes()[..]].concat();
    for page in (0..2_500).collect::<Vec<_>>().chunks(INDEX_SCAN_ROWS) {
        tree.put_all(&page.iter().map(|number| (key(*number), Some(vec![1]))).collect::<Vec<_>>()).unwrap();
    }
    tree.put(b"o", b"before").unwrap();
    tree.put(b"q", b"behind").unwrap();
    let mut seen = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let rows = tree.scan(b"p/", after.as_deref()).unwrap();
        assert!(rows.len() <= INDEX_SCAN_ROWS);
        let Some((last, _)) = rows.last() else { break };
        after = Some(last.clone());
        seen.extend(rows.into_iter().map(|(key, _)| key));
    }
    assert_eq!(seen, (0..2_500).map(key).collect::<Vec<_>>());
    tree.put_all(&[(key(0), None), (key(1), Some(vec![2]))]).unwrap();
    assert_eq!((tree.get(&key(0)), tree.get(&key(1))), (Ok(None), Ok(Some(vec![2]))));
    tree.remove(&key(1)).unwrap();
    assert_eq!(tree.count(), Ok(2_500));
    tree.clear().unwrap();
    assert_eq!(tree.count(), Ok(0));
}

#[test]
fn rows_beyond_the_limits_are_refused() {
    let lab = Lab::new();
    let (index, _) = lab.open();
    let tree = index.tree("stat").unwrap();
    let (key, value) = (vec![0; INDEX_KEY_BYTES], vec![0; INDEX_VALUE_BYTES]);
    tree.put(&key, &value).unwrap();
    assert!(matches!(tree.put(&[&key[..], b"x"].concat(), b""), Err(IndexError::TooLong { .. })));
    assert!(matches!(tree.put(b"k", &[&value[..], b"x"].concat()), Err(IndexError::TooLong { .. })));
    let many = vec![(vec![1], None); INDEX_SCAN_ROWS + 1];
    assert!(matches!(tree.put_all(&many), Err(IndexError::TooLong { .. })));
}

#[test]
fn index_has_one_handle() {
    let lab = Lab::new();
    let (_index, _) = lab.open();
    assert_eq!(Index::open(&lab.home, LAYOUT).unwrap_err(), IndexError::AlreadyOpen);
}

const LAYOUT: u32 = 1;

struct Lab {
    home: Home,
    _dir: TempDir,
}

impl Lab {
    fn new() -> Self {
        let dir = tempdir().unwrap();
        Self { home: Home::open(&dir.path().join("home")).unwrap(), _dir: dir }
    }

    fn open(&self) -> (Index, IndexCondition) {
        Index::open(&self.home, LAYOUT).unwrap()
    }

    fn fill_and_close(&self) {
        let (index, _) = self.open();
        let tree = index.tree("stat").unwrap();
        for number in 0..3_000_u32 {
            tree.put(&number.to_be_bytes(), &[7; 100]).unwrap();
        }
        drop(tree);
        index.close().unwrap();
    }
}

fn add(dir: &Path) {
    fs::write(dir.join("snap.0000000000000000"), b"?").unwrap();
}

fn flip(dir: &Path) {
    let file = fs::File::options().write(true).open(dir.join("db")).unwrap();
    for at in (1_000..100_000).step_by(997) {
        file.write_all_at(&[0xff], at).unwrap();
    }
}

fn cut(dir: &Path) {
    fs::File::options().write(true).open(dir.join("db")).unwrap().set_len(70_000).unwrap();
}

fn empty(dir: &Path) {
    fs::write(dir.join("conf"), b"").unwrap();
}

fn remove(dir: &Path) {
    fs::remove_file(dir.join("db")).unwrap();
}
