use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use cede_wire::id::{DeviceId, SessionId};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::frame::{FILE_HEADER_BYTES, GROUP_HEADER_BYTES};
use super::*;
use crate::limits::{JOURNAL_RESERVE_BYTES, JOURNAL_STEP_BYTES, QUEUE_BATCHES};
use crate::tmpfs::Tmpfs;

/// Shows: J-3
#[test]
fn committed_records_are_replayed_in_order() {
    let lab = Lab::new();
    let (journal, replay) = lab.open();
    assert_eq!((replay.records, replay.condition), (vec![], Condition::Clean));
    let first = journal.commit(vec![record(1), record(2)]).unwrap();
    let second = journal.commit(vec![record(3)]).unwrap();
    assert!(first.position() < second.position());
    drop(journal);
    let (_journal, replay) = lab.open();
    assert_eq!(replay.records, records(1..4));
    assert_eq!(replay.condition, Condition::Clean);
    assert!(replay.closed);
}

#[test]
fn journal_has_one_handle() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    assert_eq!(Journal::open(&lab.home).unwrap_err(), JournalError::AlreadyOpen);
    drop(journal);
    lab.open();
}

/// Shows: J-4
#[test]
fn torn_tail_is_cut_and_reported_at_every_byte() {
    let lab = Lab::new();
    let (bytes, ends) = lab.journal_of(&[records(1..3), records(3..6)]);
    let (begin, end) = (ends[0], ends[1]);
    for cut in begin..=end {
        for zeros in [0, 5_000] {
            let mut torn = bytes[..cut].to_vec();
            torn.resize(cut + zeros, 0);
            let (journal, replay) = lab.open_with(&torn);
            let whole = cut == end;
            assert_eq!(replay.records, records(1..if whole { 6 } else { 3 }), "cut at {cut}, {zeros} zeros");
            assert_eq!(replay.condition, torn_or_clean(&bytes[begin..cut], whole), "cut at {cut}, {zeros} zeros");
            assert!(!replay.closed);
            if zeros > 0 || cut % 8 != 0 {
                continue;
            }
            journal.commit(vec![record(9)]).unwrap();
            drop(journal);
            let (_journal, again) = lab.open();
            assert_eq!(again.condition, Condition::Clean);
            assert_eq!(again.records.last(), Some(&record(9)));
            assert_eq!(again.records.len(), replay.records.len() + 1);
        }
    }
}

/// Shows: J-4
#[test]
fn write_of_which_only_the_end_reached_the_disk_is_a_torn_tail() {
    let lab = Lab::new();
    let (mut bytes, ends) = lab.journal_of(&[records(1..3), records(3..40)]);
    bytes[ends[0]..ends[0] + 512].fill(0);
    let (_journal, replay) = lab.open_with(&bytes);
    assert_eq!(replay.condition, Condition::TornTail { bytes: (ends[1] - ends[0]) as u64 });
    assert_eq!(replay.records, records(1..3));
}

/// Shows: J-5
#[test]
fn flipped_bit_in_the_middle_is_damage_and_never_a_shorter_journal() {
    let lab = Lab::new();
    let (bytes, ends) = lab.journal_of(&[records(1..3), records(3..5), records(5..6)]);
    for at in ends[0]..ends[1] {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let (journal, replay) = lab.open_with(&flipped);
        assert_eq!(replay.condition, Condition::Damaged { offset: ends[0] as u64 }, "flipped at {at}");
        assert_eq!(replay.records, records(1..3));
        assert_eq!(journal.commit(vec![record(9)]), Err(CommitError::ReadOnly));
        assert_eq!(journal.rewrite(vec![], replay.position), Err(CommitError::ReadOnly));
        drop(journal);
        assert_eq!(fs::read(lab.file()).unwrap(), flipped, "a damaged journal is left as it is");
    }
}

/// Shows: J-5
#[test]
fn flipped_bit_in_the_first_bytes_is_never_an_empty_journal() {
    let lab = Lab::new();
    let (bytes, _) = lab.journal_of(&[records(1..3)]);
    for at in 0..FILE_HEADER_BYTES {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(lab.file(), &flipped).unwrap();
        match Journal::open(&lab.home) {
            Ok((_, replay)) => assert_eq!(replay.condition, Condition::Damaged { offset: 0 }, "flipped at {at}"),
            Err(error) => assert!(matches!(error, JournalError::NewerFormat { .. }) && (8..10).contains(&at), "{at}"),
        }
        assert_eq!(fs::read(lab.file()).unwrap(), flipped);
    }
    fs::write(lab.file(), b"").unwrap();
    assert_eq!(lab.open().1.condition, Condition::Damaged { offset: 0 });
}

#[test]
fn flipped_bit_in_the_last_group_is_damage_once_the_journal_was_closed() {
    let lab = Lab::new();
    let (bytes, ends) = lab.journal_of(&[records(1..3), records(3..5)]);
    drop(lab.open_with(&bytes));
    let closed = fs::read(lab.file()).unwrap();
    for at in ends[0]..ends[1] {
        let mut flipped = closed.clone();
        flipped[at] ^= 0x10;
        assert_eq!(lab.open_with(&flipped).1.condition, Condition::Damaged { offset: ends[0] as u64 }, "at {at}");
    }
}

/// Shows: J-2
#[test]
fn removed_and_exchanged_groups_are_noticed() {
    let lab = Lab::new();
    let (bytes, ends) = lab.journal_of(&[records(1..3), records(3..5), records(5..7)]);
    let removed = [&bytes[..ends[0]], &bytes[ends[1]..]].concat();
    let exchanged = [&bytes[..ends[0]], &bytes[ends[1]..ends[2]], &bytes[ends[0]..ends[1]]].concat();
    let repeated = [&bytes[..ends[1]], &bytes[ends[0]..]].concat();
    for (bytes, offset) in [(removed, ends[0]), (exchanged, ends[0]), (repeated, ends[1])] {
        let (_journal, replay) = lab.open_with(&bytes);
        assert_eq!(replay.condition, Condition::Damaged { offset: offset as u64 });
    }
}

/// Shows: J-2
#[test]
fn record_removed_from_within_a_group_is_noticed() {
    let lab = Lab::new();
    let (bytes, ends) = lab.journal_of(&[records(1..4), records(4..5)]);
    let first = FILE_HEADER_BYTES + GROUP_HEADER_BYTES;
    let length = Batch::of(&[record(1)]).bytes.len();
    let removed = [&bytes[..first], &bytes[first + length..ends[1]]].concat();
    let (_journal, replay) = lab.open_with(&removed);
    assert_eq!(replay.condition, Condition::Damaged { offset: FILE_HEADER_BYTES as u64 });
    assert_eq!(replay.records, vec![]);
}

/// Shows: J-2
#[test]
fn group_of_another_journal_is_not_ours() {
    let (ours, theirs) = (Lab::new(), Lab::new());
    let (bytes, ends) = ours.journal_of(&[records(1..3)]);
    let (other, at) = theirs.journal_of(&[records(1..3), records(3..5)]);
    let spliced = [&bytes[..ends[0]], &other[at[0]..at[1]]].concat();
    let (_journal, replay) = ours.open_with(&spliced);
    assert_eq!(replay.records, records(1..3));
    assert_eq!(replay.condition, Condition::TornTail { bytes: (at[1] - at[0]) as u64 });
}

#[test]
fn group_inside_a_record_of_a_peer_does_not_make_a_torn_tail_look_damaged() {
    let (ours, theirs) = (Lab::new(), Lab::new());
    let (other, at) = theirs.journal_of(&[records(1..3)]);
    let planted = String::from_utf8_lossy(&other[FILE_HEADER_BYTES..at[0]]).into_owned();
    let hostile = Record::AddressSeen { device: DeviceId::new([1; 32]), address: planted };
    let (mut bytes, ends) = ours.journal_of(&[records(1..3), vec![hostile]]);
    bytes[ends[0]] ^= 1;
    assert!(matches!(ours.open_with(&bytes).1.condition, Condition::TornTail { .. }));
}

/// Shows: J-5
#[test]
fn missing_file_is_not_an_empty_journal() {
    let lab = Lab::new();
    drop(lab.open());
    fs::remove_file(lab.file()).unwrap();
    assert_eq!(Journal::open(&lab.home).unwrap_err(), JournalError::Missing);
    drop(Journal::start_over(&lab.home, &records(1..3)).unwrap());
    assert_eq!(lab.open().1.records, records(1..3), "begun anew by the operator's word");
}

/// Shows: J-6
#[test]
fn record_of_a_newer_version_is_refused_and_kept() {
    let lab = Lab::new();
    let (bytes, _) = lab.journal_of(&[records(1..3)]);
    let header = frame::FileHeader::from_bytes(bytes.first_chunk().unwrap()).unwrap();
    let body = [0xff, 0x03, 1, 2, 3];
    let head = cede_wire::frame::Header { kind: 511, length: 5 }.to_bytes();
    let newer = [&head[..], &crate::crc::crc32c(&[&head, &body]).to_le_bytes(), &body].concat();
    let group = frame::GroupHeader::of(&header.key(), &header.chain(), 1, 1, &newer);
    let file = [&header.to_bytes()[..], &group.to_bytes(&header.key()), &newer].concat();
    fs::write(lab.file(), &file).unwrap();
    let error = JournalError::NewerRecord { kind: 511, offset: FILE_HEADER_BYTES as u64 };
    assert_eq!(Journal::open(&lab.home).unwrap_err(), error);
    assert_eq!(fs::read(lab.file()).unwrap(), file);
}

#[test]
fn group_whose_frames_do_not_add_up_is_damage_and_gives_none_of_its_records() {
    let lab = Lab::new();
    let (bytes, _) = lab.journal_of(&[records(1..3)]);
    let header = frame::FileHeader::from_bytes(bytes.first_chunk().unwrap()).unwrap();
    let whole = Batch::of(&records(5..7)).bytes;
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for (frames, count) in [(&whole[..], 3), (&whole[..whole.len() - 1], 2), (&flipped[..], 2), (&whole[..5], 1)] {
        let group = frame::GroupHeader::of(&header.key(), &header.chain(), 1, count, frames);
        let file = [&header.to_bytes()[..], &group.to_bytes(&header.key()), frames].concat();
        let (_journal, replay) = lab.open_with(&file);
        assert_eq!(replay.condition, Condition::Damaged { offset: FILE_HEADER_BYTES as u64 });
        assert_eq!(replay.records, vec![]);
    }
}

/// Shows: J-6
#[test]
fn newer_format_is_refused() {
    let lab = Lab::new();
    let (mut bytes, _) = lab.journal_of(&[records(1..3)]);
    bytes[8] = 2;
    fs::write(lab.file(), &bytes).unwrap();
    assert_eq!(Journal::open(&lab.home).unwrap_err(), JournalError::NewerFormat { found: 2, known: 1 });
}

#[test]
fn batch_beyond_the_limits_is_refused_and_nothing_of_it_is_written() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    let long = Record::AddressSeen { device: DeviceId::new([1; 32]), address: "x".repeat(RECORD_BYTES) };
    assert!(matches!(journal.commit(vec![long.clone()]), Err(CommitError::TooLarge { records: 1, .. })));
    let many = vec![record(1); BATCH_RECORDS + 1];
    assert!(matches!(journal.commit(many), Err(CommitError::TooLarge { .. })));
    assert!(matches!(journal.rewrite(vec![long], Position(0)), Err(CommitError::TooLarge { .. })));
    journal.commit(records(1..2)).unwrap();
    drop(journal);
    assert_eq!(lab.open().1.records, records(1..2));
}

/// Shows: J-3
#[test]
fn threads_commit_at_once_and_every_batch_is_whole_and_in_order() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let journal = &journal;
            scope.spawn(move || {
                for number in 0..50 {
                    let first = thread * 1_000 + number * 2;
                    journal.commit(records(first..first + 2)).unwrap();
                }
            });
        }
    });
    drop(journal);
    let (_journal, replay) = lab.open();
    assert_eq!(replay.records.len(), 8 * 50 * 2);
    assert!(replay.records.chunks(2).all(|pair| number(&pair[0]) + 1 == number(&pair[1])), "batches are whole");
    for thread in 0..8 {
        let own: Vec<_> = replay.records.iter().map(number).filter(|number| number / 1_000 == thread).collect();
        assert_eq!(own, (thread * 1_000..thread * 1_000 + 100).collect::<Vec<_>>());
    }
}

#[test]
fn submitted_batches_are_answered_in_order_and_a_panic_stops_nobody() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    let (told, tell) = (channel(), 20);
    for number in 0..tell {
        let sender = told.0.clone();
        journal.submit(records(number..number + 1), move |durable| {
            sender.send(durable.unwrap().position()).unwrap();
            assert_ne!(number, 3, "this caller panics");
        });
    }
    let positions: Vec<_> = told.1.iter().take(usize::try_from(tell).unwrap()).collect();
    assert!(positions.is_sorted());
    drop(journal);
    assert_eq!(lab.open().1.records, records(0..tell));
}

#[test]
fn what_was_submitted_is_written_before_the_journal_closes() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    for number in 0..100 {
        journal.submit(records(number..number + 1), drop);
    }
    drop(journal);
    assert_eq!(lab.open().1.records, records(0..100));
}

#[test]
fn full_queue_answers_busy_at_once() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    let (go, wait) = channel::<()>();
    let (started, starts) = channel();
    journal.submit(records(0..1), move |_| {
        started.send(()).unwrap();
        wait.recv().unwrap();
    });
    starts.recv().unwrap();
    let (told, answers) = channel();
    for number in 0..=QUEUE_BATCHES as u64 {
        let told = told.clone();
        journal.submit(records(number..number + 1), move |answer| told.send(answer).unwrap());
    }
    assert_eq!(answers.recv().unwrap(), Err(CommitError::Busy), "the last one is answered before the first");
    go.send(()).unwrap();
    assert_eq!(answers.iter().take(QUEUE_BATCHES).filter(Result::is_ok).count(), QUEUE_BATCHES);
}

#[test]
fn nobody_waits_for_a_writer_that_ended() {
    let queue = Arc::new(Queue::new(0));
    let (told, answers) = channel();
    let job = || {
        let told = told.clone();
        Job::Commit { batch: Batch::default(), on_durable: Box::new(move |answer| told.send(answer).unwrap()) }
    };
    queue.offer(job());
    drop(writer::Ended(Arc::clone(&queue)));
    queue.offer(job());
    queue.wait_and_push(job());
    let answers: Vec<_> = answers.iter().take(3).collect();
    assert!(answers.iter().all(|answer| *answer == Err(CommitError::Stopped)));
}

#[test]
fn full_disk_keeps_a_new_journal_closed_and_an_old_one_open() {
    let Some(tmpfs) = Tmpfs::of_size("3m") else { return };
    let (old, new) = (tmpfs.path().join("old"), tmpfs.path().join("new"));
    let (old, new) = (Home::open(&old).unwrap(), Home::open(&new).unwrap());
    Journal::open(&old).unwrap().0.commit(records(0..1)).unwrap();
    tmpfs.fill();
    assert_eq!(Journal::open(&new).unwrap_err(), JournalError::NoSpace);
    let (journal, replay) = Journal::open(&old).unwrap();
    assert_eq!(replay.records, records(0..1));
    journal.commit(records(1..2)).unwrap();
}

/// Shows: J-7
#[test]
fn failed_flush_stops_the_journal_for_good() {
    // The null device takes every write and refuses every flush.
    let outcome = commit_twice_onto("/dev/null");
    assert!(matches!(outcome.0, Err(CommitError::Disk(fault)) if fault.doing == "flush the journal"), "{outcome:?}");
    assert_eq!(outcome.1, Err(CommitError::Stopped));
}

/// Shows: J-7
#[test]
fn failed_write_stops_the_journal_for_good() {
    let outcome = commit_twice_onto("/dev/full");
    assert!(matches!(outcome.0, Err(CommitError::Disk(fault)) if fault.doing == "write to the journal"), "{outcome:?}");
    assert_eq!(outcome.1, Err(CommitError::Stopped));
}

/// Shows: J-16
#[test]
fn full_disk_is_told_uses_the_reserve_and_heals() {
    let Some(tmpfs) = Tmpfs::of_size("3m") else { return };
    let home = Home::open(&tmpfs.path().join("home")).unwrap();
    let (journal, _) = Journal::open(&home).unwrap();
    let mut kept = vec![record(0)];
    journal.commit(kept.clone()).unwrap();
    let filler = tmpfs.fill();
    let big = |number: u64| Record::AddressSeen { device: device(number), address: "y".repeat(10_000) };
    let full = (1..1_000).find_map(|number| match journal.commit(vec![big(number)]) {
        Ok(_) => {
            kept.push(big(number));
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!(full, Some(CommitError::NoSpace));
    assert!(kept.len() as u64 * 10_000 >= JOURNAL_RESERVE_BYTES, "the room kept ahead was used");
    assert_eq!(journal.commit(vec![big(0)]), Err(CommitError::NoSpace));
    fs::remove_file(filler).unwrap();
    kept.push(big(7));
    journal.commit(vec![big(7)]).unwrap();
    drop(journal);
    let (_journal, replay) = Journal::open(&home).unwrap();
    assert_eq!(replay.condition, Condition::Clean);
    assert_eq!(replay.records, kept, "those that were refused are not there");
}

/// Shows: J-8
#[test]
fn full_disk_keeps_the_journal_that_was_to_be_rewritten() {
    let Some(tmpfs) = Tmpfs::of_size("3m") else { return };
    let home = Home::open(&tmpfs.path().join("home")).unwrap();
    let (journal, replay) = Journal::open(&home).unwrap();
    tmpfs.fill();
    let error = journal.rewrite(records(0..10_000), replay.position).unwrap_err();
    assert!(matches!(error, CommitError::NoSpace), "{error:?}");
    journal.commit(records(1..2)).unwrap();
    drop(journal);
    assert_eq!(Journal::open(&home).unwrap().1.records, records(1..2));
}

/// Shows: J-8
#[test]
fn rewritten_journal_holds_what_was_kept_and_goes_on() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    journal.commit(records(0..4_000)).unwrap();
    let seen = journal.commit(records(0..4_000)).unwrap().position();
    let before = journal.length_bytes();
    let durable = journal.rewrite(records(10..12), seen).unwrap();
    assert_eq!(durable.position(), seen);
    assert!(journal.length_bytes() < before);
    journal.commit(records(12..13)).unwrap();
    drop(journal);
    let (journal, replay) = lab.open();
    assert_eq!((replay.records, replay.condition), (records(10..13), Condition::Clean));
    drop(journal);
    assert_eq!(fs::read_dir(lab.file().parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
}

/// Shows: J-8
#[test]
fn rewrite_that_would_lose_a_batch_is_refused() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    let seen = journal.commit(records(0..1)).unwrap().position();
    journal.commit(records(1..2)).unwrap();
    assert_eq!(journal.rewrite(records(0..1), seen), Err(CommitError::Stale));
    drop(journal);
    assert_eq!(lab.open().1.records, records(0..2));
}

/// Shows: J-8
#[test]
fn rewrite_that_was_cut_off_leaves_the_old_journal() {
    let lab = Lab::new();
    let (bytes, _) = lab.journal_of(&[records(0..2)]);
    fs::write(lab.file(), &bytes).unwrap();
    fs::write(lab.file().with_extension("new"), b"half").unwrap();
    assert_eq!(lab.open().1.records, records(0..2));
    assert!(!lab.file().with_extension("new").exists());
}

#[test]
fn damaged_journal_is_set_aside_and_another_begun() {
    let lab = Lab::new();
    let (mut bytes, ends) = lab.journal_of(&[records(0..2), records(2..3)]);
    bytes[ends[0] - 1] ^= 1;
    let (journal, replay) = lab.open_with(&bytes);
    assert!(matches!(replay.condition, Condition::Damaged { .. }));
    drop(journal);
    let journal = Journal::start_over(&lab.home, &records(0..1)).unwrap();
    journal.commit(records(1..2)).unwrap();
    drop(journal);
    assert_eq!(lab.open().1.records, records(0..2));
    assert_eq!(fs::read(lab.file().with_extension("damaged-0")).unwrap(), bytes);
    assert!(!lab.file().with_extension("damaged-1").exists());
}

#[test]
fn room_is_kept_ahead_in_steps() {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    for _ in 0..200 {
        journal.commit(vec![record(1); 100]).unwrap();
        let length = fs::metadata(lab.file()).unwrap().len();
        assert_eq!(length % JOURNAL_STEP_BYTES, 0);
        assert!(length >= journal.length_bytes() + JOURNAL_RESERVE_BYTES);
        assert!(length <= journal.length_bytes() + JOURNAL_RESERVE_BYTES + JOURNAL_STEP_BYTES);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Shows: J-3
    #[test]
    fn cut_journal_replays_exactly_the_batches_before_the_cut(
        sizes in prop::collection::vec(prop::collection::vec(0_usize..400, 1..4), 1..8),
        cut in 0.0..1.0_f64,
        zeros in prop::sample::select(vec![0_usize, 64, 70_000]),
    ) {
        let lab = Lab::new();
        let sized = |(number, size): (usize, &usize)| {
            Record::AddressSeen { device: device(number as u64), address: "z".repeat(*size) }
        };
        let batch = |sizes: &Vec<usize>| sizes.iter().enumerate().map(sized).collect::<Vec<_>>();
        let batches: Vec<_> = sizes.iter().map(batch).collect();
        let (bytes, ends) = lab.journal_of(&batches);
        let body = bytes.len() - FILE_HEADER_BYTES;
        let cut = FILE_HEADER_BYTES + (cut * (body as f64 + 1.0)) as usize;
        let mut torn = bytes[..cut].to_vec();
        torn.resize(cut + zeros, 0);
        let (_journal, replay) = lab.open_with(&torn);
        let acknowledged = ends.iter().filter(|end| **end <= cut).count();
        prop_assert_eq!(replay.records, batches[..acknowledged].concat());
        let damaged = matches!(replay.condition, Condition::Damaged { .. });
        prop_assert!(!damaged);
    }
}

/// A home with a journal.
struct Lab {
    home: Home,
    _dir: TempDir,
}

impl Lab {
    fn new() -> Self {
        let dir = tempdir().unwrap();
        Self { home: Home::open(&dir.path().join("home")).unwrap(), _dir: dir }
    }

    fn open(&self) -> (Journal, Replay) {
        Journal::open(&self.home).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.home.path("journal").join(log::FILE)
    }

    fn open_with(&self, bytes: &[u8]) -> (Journal, Replay) {
        fs::write(self.file(), bytes).unwrap();
        self.open()
    }

    /// The bytes of a journal of these batches as a crash leaves it, without the room ahead, and where each ends.
    fn journal_of(&self, batches: &[Vec<Record>]) -> (Vec<u8>, Vec<usize>) {
        let (journal, _) = self.open();
        let commit = |batch: &Vec<Record>| {
            journal.commit(batch.clone()).unwrap();
            usize::try_from(journal.length_bytes()).unwrap()
        };
        let ends: Vec<_> = batches.iter().map(commit).collect();
        let mut bytes = fs::read(self.file()).unwrap();
        bytes.truncate(*ends.last().unwrap());
        (bytes, ends)
    }
}

fn commit_twice_onto(device: &str) -> (Result<Durable, CommitError>, Result<Durable, CommitError>) {
    let lab = Lab::new();
    let (journal, _) = lab.open();
    journal.commit(records(0..1)).unwrap();
    drop(journal);
    let claim = lab.home.claim("journal".to_owned()).unwrap();
    let (log, _) = Log::open(&lab.home).unwrap();
    let journal = Journal::start(log.onto(fs::File::options().write(true).open(device).unwrap()), claim).unwrap();
    let outcome = (journal.commit(records(1..2)), journal.commit(records(2..3)));
    drop(journal);
    assert_eq!(lab.open().1.records, records(0..1));
    outcome
}

fn torn_or_clean(written: &[u8], whole: bool) -> Condition {
    match written.iter().rposition(|byte| *byte != 0) {
        Some(last) if !whole => Condition::TornTail { bytes: last as u64 + 1 },
        Some(_) | None => Condition::Clean,
    }
}

fn records(numbers: Range<u64>) -> Vec<Record> {
    numbers.map(record).collect()
}

fn record(number: u64) -> Record {
    match number % 2 {
        0 => Record::AddressSeen { device: device(number), address: format!("192.0.2.{number}:7") },
        _ => Record::FenceLifted { session: SessionId::new(u128::from(number).to_be_bytes()) },
    }
}

fn number(record: &Record) -> u64 {
    if let Record::AddressSeen { device, .. } = record {
        return u64::from_be_bytes(*device.as_bytes().last_chunk().unwrap());
    }
    let Record::FenceLifted { session } = record else { panic!("{record:?}") };
    u64::from_be_bytes(*session.as_bytes().last_chunk().unwrap())
}

fn device(number: u64) -> DeviceId {
    let mut bytes = [0xd0; 32];
    bytes[24..].copy_from_slice(&number.to_be_bytes());
    DeviceId::new(bytes)
}
