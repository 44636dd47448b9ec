use std::os::unix::fs::{PermissionsExt, chown, symlink};

use tempfile::tempdir;

use super::*;
use crate::limits::{NAME_CHARS, SECRET_BYTES};
use crate::tmpfs::Tmpfs;

/// Shows: J-15
#[test]
fn directory_is_created_for_us_alone() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("above").join("home");
    let home = Home::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join(SECRETS)), 0o700);
    assert_eq!(home.dir(), path);
    assert!(home.free_bytes().unwrap() > 0);
}

/// Shows: J-15
#[test]
fn second_daemon_is_refused_and_told_who_holds_it() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("home");
    let first = Home::open(&path).unwrap();
    let held = OpenError::Held { path: path.clone(), pid: Some(std::process::id()) };
    assert_eq!(Home::open(&path).unwrap_err(), held);
    assert!(held.to_string().ends_with(&format!("(process {}); stop it first", std::process::id())));
    drop(first);
    Home::open(&path).unwrap();
}

/// Shows: J-15
#[test]
fn of_those_that_begin_at_once_in_a_new_place_one_holds_it() {
    for _ in 0..3 {
        let dir = tempdir().unwrap();
        let path = dir.path().join("home");
        let start = std::sync::Barrier::new(8);
        let opened: Vec<Result<Home, OpenError>> = std::thread::scope(|threads| {
            let open = || {
                start.wait();
                Home::open(&path)
            };
            let all: Vec<_> = (0..8).map(|_| threads.spawn(open)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(opened.iter().filter(|one| one.is_ok()).count(), 1);
        let refused = opened.iter().filter_map(|one| one.as_ref().err());
        assert!(refused.into_iter().all(|why| matches!(why, OpenError::Held { .. })), "{opened:?}");
    }
}

/// A daemon was killed, and dies; or a program that it was about to start holds the lock until it runs.
#[test]
fn lock_that_outlives_its_daemon_for_a_moment_is_waited_for() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("home");
    drop(Home::open(&path).unwrap());
    let lock = path.join(LOCK);
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    fs::write(&lock, format!("{}\n", dead.id())).unwrap();
    let held = File::open(&lock).unwrap();
    held.lock().unwrap();
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    let _home = Home::open(&path).unwrap();
    release.join().unwrap();
    dead.wait().unwrap();
    assert_eq!(fs::read_to_string(&lock).unwrap(), format!("{}\n", std::process::id()));
}

#[test]
fn lock_outlives_the_home_while_a_part_is_in_use() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("home");
    let home = Home::open(&path).unwrap();
    let claim = home.claim("journal".to_owned()).unwrap();
    assert!(home.claim("journal".to_owned()).is_none());
    drop(home);
    assert!(matches!(Home::open(&path), Err(OpenError::Held { .. })));
    drop(claim);
    assert!(Home::open(&path).unwrap().claim("journal".to_owned()).is_some());
}

/// Shows: J-15
#[test]
fn places_that_are_not_ours_are_refused() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(Home::open(&file).unwrap_err(), OpenError::NotADirectory(file.clone()));

    let real = dir.path().join("real");
    drop(Home::open(&real).unwrap());
    let link = dir.path().join("link");
    symlink(&real, &link).unwrap();
    assert_eq!(Home::open(&link).unwrap_err(), OpenError::Symlink(link.clone()));

    fs::set_permissions(&real, fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(Home::open(&real).unwrap_err(), OpenError::TooOpen { path: real.clone(), mode: 0o750 });
    assert!(Home::open(&real).unwrap_err().to_string().contains("run `chmod 700 "));

    let used = dir.path().join("used");
    DirBuilder::new().mode(0o700).create(&used).unwrap();
    fs::write(used.join("thesis.txt"), "x").unwrap();
    assert_eq!(Home::open(&used).unwrap_err(), OpenError::NotOurs { path: used, found: "thesis.txt".to_owned() });
}

#[test]
fn symlink_in_the_place_of_the_lock_is_not_followed() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("home");
    DirBuilder::new().mode(0o700).create(&path).unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, path.join(LOCK)).unwrap();
    assert!(matches!(Home::open(&path), Err(OpenError::Disk { .. })));
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

/// Shows: J-15
#[test]
fn directory_of_another_user_is_refused() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("home");
    drop(Home::open(&path).unwrap());
    if chown(&path, Some(65_534), None).is_err() {
        println!("skipped: needs root");
        return;
    }
    let us = rustix::process::geteuid().as_raw();
    assert_eq!(Home::open(&path).unwrap_err(), OpenError::WrongOwner { path, owner: 65_534, us });
}

/// Shows: J-16
#[test]
fn read_only_file_system_is_named() {
    let Some(tmpfs) = Tmpfs::of_size("1m") else { return };
    let path = tmpfs.path().join("home");
    drop(Home::open(&path).unwrap());
    tmpfs.freeze();
    assert_eq!(Home::open(&path).unwrap_err(), OpenError::ReadOnly(path));
    let new = tmpfs.path().join("new");
    assert_eq!(Home::open(&new).unwrap_err(), OpenError::ReadOnly(new));
}

/// Shows: J-16
#[test]
fn full_disk_keeps_a_new_home_closed_and_an_old_one_open() {
    let Some(tmpfs) = Tmpfs::of_size("64k") else { return };
    let old = tmpfs.path().join("old");
    drop(Home::open(&old).unwrap());
    tmpfs.fill();
    let new = tmpfs.path().join("new");
    assert_eq!(Home::open(&new).unwrap_err(), OpenError::NoSpace(new));
    assert_eq!(Home::open(&old).unwrap().free_bytes(), Ok(0));
}

/// Shows: J-6
#[test]
fn newer_schema_is_refused_and_a_damaged_one_named() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("home");
    drop(Home::open(&path).unwrap());
    fs::write(path.join(SCHEMA_FILE), "cede 2\n").unwrap();
    assert_eq!(Home::open(&path).unwrap_err(), OpenError::NewerSchema { path: path.clone(), found: 2 });
    for damaged in ["", "cede", "cede 0\n", "cede 1", "cede -1\n", "\u{fffd}"] {
        fs::write(path.join(SCHEMA_FILE), damaged).unwrap();
        assert_eq!(Home::open(&path).unwrap_err(), OpenError::DamagedSchema(path.join(SCHEMA_FILE)), "{damaged:?}");
    }
}

#[test]
fn home_that_was_cut_off_while_being_created_is_completed() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("home");
    DirBuilder::new().mode(0o700).create(&path).unwrap();
    fs::write(path.join(LOCK), "").unwrap();
    fs::write(path.join("schema.new"), "ced").unwrap();
    drop(Home::open(&path).unwrap());
    assert_eq!(fs::read(path.join(SCHEMA_FILE)).unwrap(), b"cede 1\n");
}

/// Shows: J-14
#[test]
fn incarnation_is_made_once() {
    let dir = tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    let first = home.incarnation([7; 16]).unwrap();
    assert_eq!(first, Incarnation::new([7; 16]));
    assert_eq!(home.incarnation([8; 16]), Ok(first));
    fs::write(home.path(INCARNATION), "07").unwrap();
    assert_eq!(home.incarnation([8; 16]), Err(IncarnationError::Damaged));
}

#[test]
fn room_for_bulk_leaves_the_reserve() {
    let Some(tmpfs) = Tmpfs::of_size("4g") else { return };
    let home = Home::open(&tmpfs.path().join("home")).unwrap();
    assert_eq!(home.has_room_for_bulk(1 << 30), Ok(true));
    assert_eq!(home.has_room_for_bulk(3 << 30), Ok(false));
    assert_eq!(home.has_room_for_bulk(u64::MAX), Ok(false));
}

/// Shows: J-13
#[test]
fn secret_is_read_back_and_replaced_whole() {
    let dir = tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    assert_eq!(home.secret("identity"), Ok(None));
    home.put_secret("identity", b"one").unwrap();
    home.put_secret("identity", b"two").unwrap();
    assert_eq!(home.secret("identity").unwrap().unwrap().as_slice(), b"two");
    assert_eq!(mode(&home.path(SECRETS).join("identity")), 0o600);
    assert_eq!(disk::list(&home.path(SECRETS), 9).unwrap().len(), 1, "no temporary file is left");
}

#[test]
fn removed_secret_is_gone_and_may_be_removed_again() {
    let dir = tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    let name = format!("handoff-{}", "a7".repeat(16));
    home.put_secret(&name, b"one").unwrap();
    home.remove_secret(&name).unwrap();
    assert_eq!(home.secret(&name), Ok(None));
    home.remove_secret(&name).unwrap();
    assert!(matches!(home.remove_secret("../schema"), Err(SecretError::Name(_))));
}

/// Shows: J-13
#[test]
fn secret_that_others_may_read_is_not_used() {
    let dir = tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    home.put_secret("identity", b"one").unwrap();
    let file = home.path(SECRETS).join("identity");
    for mode in [0o640, 0o604, 0o700] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(home.secret("identity").unwrap_err(), SecretError::TooOpen { name: "identity".to_owned(), mode });
    }
    fs::remove_file(&file).unwrap();
    symlink("/dev/zero", &file).unwrap();
    assert!(matches!(home.secret("identity"), Err(SecretError::Disk(_))), "no link is followed");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(home.secret("identity").unwrap_err(), SecretError::NotOurs("identity".to_owned()));
}

#[test]
fn secret_beyond_the_limits_is_refused() {
    let dir = tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    for name in ["", "../lock", "A", "a.b", &"a".repeat(NAME_CHARS + 1)] {
        assert!(matches!(home.secret(name), Err(SecretError::Name(_))), "{name:?}");
        assert!(matches!(home.put_secret(name, b"x"), Err(SecretError::Name(_))), "{name:?}");
    }
    let long = vec![0; SECRET_BYTES + 1];
    assert_eq!(home.put_secret("long", &long), Err(SecretError::TooLong("long".to_owned())));
    fs::write(home.path(SECRETS).join("long"), long).unwrap();
    fs::set_permissions(home.path(SECRETS).join("long"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(home.secret("long"), Err(SecretError::TooLong("long".to_owned())));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}
