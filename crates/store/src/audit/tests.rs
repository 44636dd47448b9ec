use cede_wire::id::{DeviceId, DeviceKey};

use super::*;

/// Shows: U-10
#[test]
fn entries_are_read_back_and_go_on_after_a_restart() {
    let (dir, home) = home();
    let mut log = AuditLog::open(&home, 1).unwrap();
    assert_eq!(AuditLog::open(&home, 1).err(), Some(AuditError::AlreadyOpen));
    log.append(&[event(1), event(2)], 5).unwrap();
    let (position, mark) = (log.position(), log.mark());
    log.append(&[event(3)], 6).unwrap();
    assert_eq!(numbers_of(&home, &mark), [1, 2], "what came after the mark is not looked at");
    drop(log);
    let mut log = AuditLog::open(&home, 7).unwrap();
    assert!(log.position().0 == 3 && log.position() != position);
    log.append(&[event(4)], 8).unwrap();
    assert_eq!(numbers_of(&home, &log.mark()), [1, 2, 3, 4]);
    drop(dir);
}

/// Shows: U-10
#[test]
fn write_that_was_cut_off_goes_and_what_was_acknowledged_stays() {
    let (_dir, home) = home();
    let mut log = AuditLog::open(&home, 1).unwrap();
    log.append(&[event(1), event(2)], 5).unwrap();
    let path = name(&home.path(DIR), 1);
    let whole = std::fs::read(&path).unwrap();
    drop(log);
    for cut in 1..20 {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let log = AuditLog::open(&home, 1).unwrap();
        assert_eq!((log.position().0, numbers_of(&home, &log.mark())), (1, vec![1]));
    }
}

/// Shows: U-11
#[test]
fn entries_that_were_signed_and_are_gone_leave_a_trace() {
    let (_dir, home) = home();
    let mut log = AuditLog::open(&home, 1).unwrap();
    log.append(&[event(1), event(2), event(3)], 5).unwrap();
    log.seal(point(3, log.position().1), 6).unwrap();
    drop(log);
    let path = name(&home.path(DIR), 1);
    std::fs::write(&path, &std::fs::read(&path).unwrap()[..AuditHead::BYTES]).unwrap();
    let log = AuditLog::open(&home, 9).unwrap();
    let files = AuditLog::read(&home, &log.mark()).unwrap();
    let entries: Vec<AuditEntry> = files.entries().collect();
    assert_eq!(entries, [AuditEntry { number: 4, at_unix_ms: 9, event: AuditEvent::Lost { until: 3 } }]);
    assert_eq!(files.newest, Some(point(3, Hash::of(b"x"))).map(|_| log.mark().newest.unwrap()));
}

/// Shows: U-6
#[test]
fn clock_that_was_set_back_meanwhile_shows_in_the_log() {
    let (_dir, home) = home();
    let mut log = AuditLog::open(&home, 1).unwrap();
    assert_eq!(log.latest_unix_ms(), 0);
    log.append(&[event(1)], 9_000).unwrap();
    log.append(&[event(2)], 7_000).unwrap();
    assert_eq!(log.latest_unix_ms(), 9_000);
    drop(log);
    assert_eq!(AuditLog::open(&home, 10).unwrap().latest_unix_ms(), 9_000);
}

/// Shows: U-11
#[test]
fn file_that_was_changed_stays_as_it_is_and_the_next_one_goes_on() {
    let (_dir, home) = home();
    let mut log = AuditLog::open(&home, 1).unwrap();
    log.append(&[event(1), event(2), event(3)], 5).unwrap();
    drop(log);
    let path = name(&home.path(DIR), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut log = AuditLog::open(&home, 1).unwrap();
    log.append(&[event(9)], 5).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!((numbers(&home.path(DIR)).unwrap(), log.position().0), (vec![1, 2], 3));
    drop(log);
    std::fs::write(name(&home.path(DIR), 2), b"junk").unwrap();
    let log = AuditLog::open(&home, 1).unwrap();
    assert_eq!((log.position().0, log.head.file), (0, 3), "it begins anew behind what is no file of the log");
}

/// Shows: U-10
#[test]
fn oldest_files_go_and_the_log_stays_bounded() {
    let (_dir, home) = home();
    let mut log = AuditLog::open(&home, 1).unwrap();
    for number in 0..AUDIT_FILES + 4 {
        log.append(&[event(number)], 5).unwrap();
        log.end = AUDIT_FILE_BYTES;
        log.append(&[], 5).unwrap();
    }
    let kept = numbers(&home.path(DIR)).unwrap();
    assert_eq!((kept.len() as u64, kept.last().copied()), (AUDIT_FILES, Some(AUDIT_FILES + 5)));
    assert_eq!(numbers_of(&home, &log.mark()).len() as u64, AUDIT_FILES - 1);
}

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    (dir, home)
}

fn event(number: u64) -> AuditEvent {
    AuditEvent::Begun { device: DeviceId::new([u8::try_from(number).unwrap(); 32]) }
}

/// A checkpoint whose signature nobody looks at here.
fn point(number: u64, chain: Hash) -> Signed<AuditCheckpoint> {
    let by = DeviceId::new([1; 32]);
    Signed::from_parts(encode(&AuditCheckpoint { by, number, chain, at_unix_ms: 1 }), DeviceKey::new([2; 32]), [3; 64])
}

fn numbers_of(home: &Home, mark: &AuditMark) -> Vec<u64> {
    AuditLog::read(home, mark).unwrap().entries().map(|entry| entry.number).collect()
}
