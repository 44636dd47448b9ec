use std::fs;
use std::os::unix::fs::FileExt;

use tempfile::{TempDir, tempdir};

use super::segment::START;
use super::*;
use crate::tmpfs::Tmpfs;

#[test]
fn chunk_is_read_back_and_counted_once() {
    let lab = Lab::new();
    let stage = lab.stage();
    put(&stage, 0..10);
    put(&stage, 5..10);
    assert_eq!((stage.chunks(), stage.len_bytes()), (10, (0..10).map(|n| chunk(n).len() as u64).sum()));
    assert_eq!(stage.sync().unwrap().chunks(), 10);
    assert!(has_all(&stage, 0..10));
    let absent = ChunkId::of(b"absent");
    assert!(!stage.has(&absent));
    assert_eq!(stage.read(&absent, &mut Vec::new()), Err(StageError::Missing(absent)));
}

/// Shows: J-9, T-3
#[test]
fn bytes_that_are_not_the_chunk_are_refused() {
    let lab = Lab::new();
    let stage = lab.stage();
    let id = ChunkId::of(b"a");
    assert_eq!(stage.put(&id, b"b"), Err(StageError::Mismatch(id)));
    assert_eq!(stage.put(&ChunkId::of(b""), b""), Err(StageError::Length(0)));
    let long = vec![0; CHUNK_BYTES + 1];
    assert_eq!(stage.put(&ChunkId::of(&long), &long), Err(StageError::Length(CHUNK_BYTES + 1)));
    let longest = vec![0; CHUNK_BYTES];
    stage.put(&ChunkId::of(&longest), &longest).unwrap();
    assert_eq!(stage.chunks(), 1);
}

#[test]
fn stage_has_one_handle_and_is_listed() {
    let lab = Lab::new();
    let stage = lab.stage();
    assert_eq!(lab.home.stage(HANDOFF).unwrap_err(), StageError::AlreadyOpen);
    let other = lab.home.stage(HandoffId::new([8; 16])).unwrap();
    assert_eq!(lab.home.staged().unwrap(), vec![HANDOFF, HandoffId::new([8; 16])]);
    drop(stage);
    other.discard().unwrap();
    assert_eq!(lab.home.staged().unwrap(), vec![HANDOFF]);
    assert!(has_all(&lab.stage(), 0..0));
}

#[test]
fn discarded_stage_leaves_nothing() {
    let lab = Lab::new();
    let stage = lab.stage();
    put(&stage, 0..3);
    stage.discard().unwrap();
    assert_eq!(lab.home.staged().unwrap(), vec![]);
    let stage = lab.stage();
    assert_eq!(stage.chunks(), 0);
    assert_eq!(lab.home.discard_stage(HANDOFF), Err(StageError::AlreadyOpen));
    drop(stage);
    lab.home.discard_stage(HANDOFF).unwrap();
    lab.home.discard_stage(HANDOFF).unwrap();
    assert_eq!(lab.home.staged().unwrap(), vec![]);
}

/// Shows: J-10
#[test]
fn torn_end_is_cut_at_every_byte_and_what_is_whole_is_kept() {
    let lab = Lab::new();
    let stage = lab.stage();
    put(&stage, 0..2);
    drop(stage);
    let bytes = fs::read(lab.segment(0)).unwrap();
    let first = START as usize + ENTRY_HEADER_BYTES + chunk(0).len();
    for cut in 0..bytes.len() {
        fs::write(lab.segment(0), &bytes[..cut]).unwrap();
        let stage = lab.stage();
        assert_eq!(stage.has(&id(0)), cut >= first, "cut at {cut}");
        assert!(!stage.has(&id(1)));
        put(&stage, 0..3);
        assert!(has_all(&stage, 0..3), "cut at {cut}");
    }
}

/// Shows: J-10
#[test]
fn chunk_of_which_only_the_length_reached_the_disk_is_not_kept() {
    let lab = Lab::new();
    let stage = lab.stage();
    put(&stage, 0..3);
    drop(stage);
    let second = (ENTRY_HEADER_BYTES + chunk(0).len()) as u64;
    let file = File::options().write(true).open(lab.segment(0)).unwrap();
    file.write_all_at(&[0; 60], second + ENTRY_HEADER_BYTES as u64).unwrap();
    let stage = lab.stage();
    assert!(stage.has(&id(0)) && !stage.has(&id(1)) && !stage.has(&id(2)));
}

/// Shows: J-10
#[test]
fn listed_chunks_are_kept_with_or_without_the_list() {
    let lab = Lab::new();
    let stage = lab.stage();
    put(&stage, 0..50);
    stage.sync().unwrap();
    put(&stage, 50..60);
    drop(stage);
    let list = lab.dir().join("extents");
    let listed = fs::read(&list).unwrap();
    assert_eq!(listed.len(), 50 * 44);
    for length in [listed.len(), 44, 43, 0] {
        fs::write(&list, &listed[..length]).unwrap();
        assert!(has_all(&lab.stage(), 0..60), "list of {length} bytes");
    }
    let mut flipped = listed.clone();
    flipped[44 * 7] ^= 1;
    fs::write(&list, &flipped).unwrap();
    assert!(has_all(&lab.stage(), 0..60));
    fs::remove_file(&list).unwrap();
    let stage = lab.stage();
    stage.sync().unwrap();
    assert_eq!(fs::read(&list).unwrap().len(), 60 * 44, "the next sync lists what was found");
}

/// Shows: J-9
#[test]
fn corrupt_chunk_is_told_and_can_be_put_again() {
    let lab = Lab::new();
    let stage = lab.stage();
    put(&stage, 0..3);
    stage.sync().unwrap();
    let file = File::options().write(true).open(lab.segment(0)).unwrap();
    file.write_all_at(b"?", ENTRY_HEADER_BYTES as u64 + 5).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(stage.read(&id(0), &mut bytes), Err(StageError::Corrupt(id(0))));
    assert!(bytes.is_empty() && !stage.has(&id(0)));
    put(&stage, 0..1);
    assert!(has_all(&stage, 0..3));
    stage.sync().unwrap();
    drop(stage);
    assert!(has_all(&lab.stage(), 0..3), "the later of two places counts");
}

#[test]
fn segment_that_became_shorter_than_its_list_loses_only_what_it_lost() {
    let lab = Lab::new();
    let stage = lab.stage();
    put(&stage, 0..3);
    stage.sync().unwrap();
    drop(stage);
    let file = File::options().write(true).open(lab.segment(0)).unwrap();
    file.set_len(fs::metadata(lab.segment(0)).unwrap().len() - 1).unwrap();
    let stage = lab.stage();
    assert!(stage.has(&id(1)) && !stage.has(&id(2)));
    put(&stage, 2..4);
    assert!(has_all(&stage, 0..4));
}

#[test]
fn segment_behind_a_missing_one_is_replaced() {
    let lab = Lab::new();
    drop(lab.stage());
    fs::write(lab.segment(1), b"left behind").unwrap();
    fs::write(lab.segment(0), b"").unwrap();
    fs::remove_file(lab.segment(0)).unwrap();
    let stage = lab.stage();
    let mut inner = stage.inner();
    inner.put(&lab.dir(), &id(0), &chunk(0)).unwrap();
    inner.segments[0] = Arc::new(Segment::new(File::open(lab.segment(0)).unwrap(), SEGMENT_BYTES));
    inner.put(&lab.dir(), &id(1), &chunk(1)).unwrap();
    drop(inner);
    assert!(has_all(&stage, 0..2));
}

#[test]
fn threads_put_at_once() {
    let lab = Lab::new();
    let stage = lab.stage();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let stage = &stage;
            scope.spawn(move || {
                put(stage, thread * 50..thread * 50 + 100);
                stage.sync().unwrap();
            });
        }
    });
    assert_eq!(stage.chunks(), 250);
    drop(stage);
    let stage = lab.stage();
    assert!(has_all(&stage, 0..250));
}

#[test]
fn full_disk_is_told_and_the_stage_goes_on() {
    let Some(tmpfs) = Tmpfs::of_size("2m") else { return };
    let home = Home::open(&tmpfs.path().join("home")).unwrap();
    let stage = home.stage(HANDOFF).unwrap();
    put(&stage, 0..10);
    let filler = tmpfs.fill();
    let big = |seed: u8| vec![seed; 200_000];
    let refused = big(1);
    assert_eq!(stage.put(&ChunkId::of(&refused), &refused), Err(StageError::NoSpace));
    assert_eq!(stage.free_bytes(), Ok(0));
    assert!(!stage.has(&ChunkId::of(&refused)) && has_all(&stage, 0..10));
    fs::remove_file(filler).unwrap();
    stage.put(&ChunkId::of(&refused), &refused).unwrap();
    stage.sync().unwrap();
    drop(stage);
    let stage = home.stage(HANDOFF).unwrap();
    assert!(stage.has(&ChunkId::of(&refused)) && has_all(&stage, 0..10));
    tmpfs.fill();
    stage.discard().unwrap();
    assert!(home.free_bytes().unwrap() > 0);
}

#[test]
fn failed_flush_leaves_a_stage_to_discard() {
    let lab = Lab::new();
    let stage = lab.stage();
    // The null device takes every write and refuses every flush.
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    stage.inner().segments.push(Arc::new(Segment::new(null, START)));
    put(&stage, 0..1);
    assert!(matches!(stage.sync(), Err(StageError::Disk(_))));
    assert_eq!(stage.put(&id(1), &chunk(1)), Err(StageError::Stopped));
    assert_eq!(stage.sync(), Err(StageError::Stopped));
    stage.discard().unwrap();
}

/// Shows: F-13
#[test]
fn what_was_not_flushed_is_not_believed_by_a_stage_that_is_opened_anew() {
    let lab = Lab::new();
    let stage = lab.stage();
    put(&stage, 0..5);
    stage.sync().unwrap();
    put(&stage, 5..8);
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    stage.inner().segments.push(Arc::new(Segment::new(null, START)));
    assert!(matches!(stage.sync(), Err(StageError::Disk(_))));
    drop(stage);
    let stage = lab.stage();
    assert!(has_all(&stage, 0..5));
    assert_eq!(stage.chunks(), 5, "the system would give them, and has them on no disk");
    put(&stage, 5..8);
    stage.sync().unwrap();
}

#[test]
fn place_holds_what_it_was_made_of() {
    for (segment, offset, length) in [(0, 0, 1), (SEGMENTS - 1, SEGMENT_BYTES - 1, CHUNK_BYTES), (7, 36, 65_536)] {
        let place = Place::new(segment, offset, length).unwrap();
        assert_eq!((place.segment(), place.offset(), place.length()), (segment, offset, length));
        assert_eq!(Place::from_bytes(place.to_bytes()), place);
    }
    assert_eq!(Place::new(SEGMENTS, 0, 1), None);
    assert_eq!(Place::new(0, SEGMENT_BYTES, 1), None);
    assert_eq!(Place::new(0, 0, CHUNK_BYTES + 1), None);
    assert_eq!(Place::new(0, 0, 0), None);
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

    fn stage(&self) -> Stage {
        self.home.stage(HANDOFF).unwrap()
    }

    fn dir(&self) -> PathBuf {
        self.home.path(STAGES).join(HANDOFF.to_string())
    }

    fn segment(&self, number: u32) -> PathBuf {
        self.dir().join(format!("segment-{number:06}"))
    }
}

const HANDOFF: HandoffId = HandoffId::new([7; 16]);

fn put(stage: &Stage, numbers: std::ops::Range<usize>) {
    for number in numbers {
        stage.put(&id(number), &chunk(number)).unwrap();
    }
}

fn has_all(stage: &Stage, numbers: std::ops::Range<usize>) -> bool {
    let mut bytes = Vec::new();
    let mut is_there = |number| stage.read(&id(number), &mut bytes).is_ok() && bytes == chunk(number);
    numbers.clone().all(|number| stage.has(&id(number)) && is_there(number))
}

fn chunk(number: usize) -> Vec<u8> {
    format!("chunk {number} ").repeat(7 + number % 5).into_bytes()
}

fn id(number: usize) -> ChunkId {
    ChunkId::of(&chunk(number))
}
