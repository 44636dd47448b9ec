//! Full disks, for real: one of two daemons lies on a small file system of its own. Takes root and loop devices.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cede_tests::devices::trees::Numbers;
use cede_tests::devices::{Device, Devices, wait_until};
use cede_tests::disk::Disk;
use cede_wire::control::{Answer, Command, SendRequest, TransferState, TransferSummary, exit};
use cede_wire::record::PeerPolicy;

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
const MIB: u64 = 1 << 20;
/// What the state keeps free for its records, and some.
const LOW: u64 = 1 << 30;
/// More than one turn.
const LARGE: u64 = 192 * MIB;

fn sending(paths: &[&Path]) -> Command {
    let paths = paths.iter().map(|path| path.display().to_string()).collect();
    Command::Send(SendRequest { device: "server".to_owned(), paths, ..SendRequest::default() })
}

fn listed(device: &Device) -> Option<TransferSummary> {
    match device.ask(Command::Transfers) {
        Ok(Answer::Transfers { transfers }) => transfers.into_iter().next(),
        other => panic!("no list: {other:?}"),
    }
}

fn transfer(device: &Device) -> TransferSummary {
    listed(device).expect("it is known")
}

fn noise(device: &Device, bytes: u64) -> PathBuf {
    let path = device.home.join("large.bin");
    std::fs::write(&path, Numbers(7).bytes(bytes as usize)).unwrap();
    path
}

fn waits(devices: &Devices) {
    wait_until("both say what it waits for", || {
        let [here, there] = [&devices.a, &devices.b].map(transfer);
        let said = |one: &TransferSummary, words: &str| {
            assert!(one.refusal.is_none(), "it ended: {one:?}");
            one.state == TransferState::Sending && one.detail.contains(words)
        };
        said(&here, "waits: there is no room for it there; it goes on by itself")
            && said(&there, "make room, and it goes on by itself")
    });
    let status = devices.b.status();
    assert!(status.warnings.iter().any(|line| line.starts_with("large.bin waits for room: ")), "{status:?}");
    let typed = devices.b.typed(&["status"]).stdout;
    let typed = String::from_utf8_lossy(&typed);
    println!("{typed}");
    assert!(typed.contains("Files\n") && typed.contains("make room"), "{typed}");
}

fn comes_whole(devices: &Devices, source: &Path) {
    // A busy machine may carry a few megabytes a second.
    let until = Instant::now() + Duration::from_secs(300);
    while transfer(&devices.a).state != TransferState::Received {
        assert!(Instant::now() < until, "{:?}", transfer(&devices.a));
        std::thread::sleep(Duration::from_millis(50));
    }
    let there = transfer(&devices.b);
    assert!(std::fs::read(source).unwrap() == std::fs::read(&there.place).unwrap(), "other bytes: {there:?}");
    assert_eq!(devices.b.status().warnings, [""; 0]);
}

/// Shows: F-9, F-13
#[test]
fn files_wait_where_the_disk_becomes_full_meanwhile_and_go_on_once_there_is_room() {
    let Some(disk) = Disk::of(5 << 30) else { return };
    let mut devices = Devices::with(CEDE, &|device| {
        if device.name == "server" {
            device.cede_home = disk.at().join("cede");
        }
    });
    devices = devices.joined().trusting();
    let source = noise(&devices.a, LARGE);
    devices.a.ask(sending(&[&source])).unwrap();
    wait_until("some of it is there", || listed(&devices.b).is_some_and(|one| one.moved > 0));
    let filler = disk.fill(LOW);
    waits(&devices);
    let came = transfer(&devices.b).moved;
    assert!(came > 0 && came < LARGE, "{came}");
    // A death on the way changes nothing of it.
    devices.b.kill();
    devices.b.start();
    waits(&devices);
    std::fs::remove_file(filler).unwrap();
    comes_whole(&devices, &source);
    let carried = transfer(&devices.a).carried;
    println!("{carried} bytes carried of {LARGE}");
    // What the link and the pieces hold is lost when the streams end, and what was not flushed when the daemon dies.
    assert!(carried <= 2 * LARGE, "{carried}");
}

/// Shows: F-13
#[test]
fn files_that_came_wait_for_room_at_their_place() {
    let Some(disk) = Disk::of(1 << 30) else { return };
    let devices = Devices::with(CEDE, &|device| {
        if device.name == "server" {
            std::fs::create_dir_all(&device.cede_home).unwrap();
            let received = format!("received = \"{}\"\n", disk.at().join("in").display());
            std::fs::write(device.cede_home.join("config.toml"), received).unwrap();
        }
    });
    let devices = devices.joined();
    let source = noise(&devices.a, 16 * MIB);
    devices.a.ask(sending(&[&source])).unwrap();
    wait_until("it is asked", || !devices.b.status().approvals.is_empty());
    let question = devices.b.status().approvals.remove(0);
    let filler = disk.fill(8 * MIB);
    devices.b.ask(Command::Decide { approval: question.id.to_string(), yes: true }).unwrap();
    waits(&devices);
    assert_eq!(transfer(&devices.b).moved, 16 * MIB, "all of it is there");
    std::fs::remove_file(filler).unwrap();
    comes_whole(&devices, &source);
    assert_eq!(transfer(&devices.a).carried, 16 * MIB, "nothing was sent twice");
}

/// Shows: F-10
#[test]
fn sender_without_room_says_what_to_do_and_sends_later() {
    let Some(disk) = Disk::of(256 * MIB) else { return };
    let devices = Devices::with(CEDE, &|device| {
        if device.name == "laptop" {
            device.cede_home = disk.at().join("cede");
        }
    });
    let devices = devices.joined().trusting();
    let folder = devices.a.home.join("many");
    std::fs::create_dir(&folder).unwrap();
    (0..2_000).for_each(|n: u32| std::fs::write(folder.join(n.to_string()), n.to_le_bytes()).unwrap());
    let filler = disk.fill(0);
    let failure = devices.a.ask(sending(&[&folder])).expect_err("no room for what is known of it");
    println!("{failure:?}");
    assert_eq!((failure.exit, failure.what.as_str()), (exit::FAILED, "nothing was sent"));
    assert!(failure.why.contains("No space left on device"), "{}", failure.why);
    assert!(failure.cure.starts_with("make room on the disk of "), "{}", failure.cure);
    assert!(matches!(devices.a.ask(Command::Transfers), Ok(Answer::Transfers { transfers }) if transfers.is_empty()));
    std::fs::remove_file(filler).unwrap();
    devices.a.ask(sending(&[&folder])).unwrap();
    wait_until("it is received", || transfer(&devices.a).state == TransferState::Received);
}

/// Shows: U-10
#[test]
fn nothing_is_allowed_while_decisions_cannot_be_recorded_and_none_is_lost() {
    let Some(disk) = Disk::of(3 << 30) else { return };
    let devices = Devices::with(CEDE, &|device| {
        if device.name == "server" {
            device.cede_home = disk.at().join("cede");
        }
    });
    let devices = devices.joined().trusting();
    let source = noise(&devices.a, 1_000);
    let filler = disk.fill(0);
    let said = |device: &Device| device.status().warnings.concat();
    let mut answers = 0;
    // What the last block of the record has room for goes in still.
    while !said(&devices.b).contains("decisions cannot be recorded") {
        answers += 1;
        assert!(answers < 500, "it is written nowhere and not said");
        let policy = if answers % 2 == 0 { PeerPolicy::Yes } else { PeerPolicy::Ask };
        devices.b.ask(Command::Policy { device: "laptop".to_owned(), policy: Some(policy) }).unwrap();
    }
    devices.b.say_yes_to("laptop");
    let warning = said(&devices.b);
    println!("{warning}");
    assert!(warning.contains("No space left on device") && warning.contains(disk.at().to_str().unwrap()), "{warning}");
    devices.a.ask(sending(&[&source])).unwrap();
    wait_until("it is put off", || transfer(&devices.a).detail.contains("decisions cannot be recorded there"));
    assert_eq!(transfer(&devices.a).state, TransferState::Offered);
    std::fs::remove_file(filler).unwrap();
    wait_until("it is written again", || said(&devices.b).is_empty());
    let Ok(Answer::Log { lines, verdict, .. }) = devices.b.ask(Command::Log { tail: None, verify: true }) else {
        panic!("no record")
    };
    assert!(verdict.is_some_and(|verdict| verdict.holds), "the record holds");
    let set = lines.iter().filter(|line| line.kind == "rule-set" || line.kind == "acted").count();
    assert!(set > answers, "{set} of {answers} are in the record");
    comes_whole(&devices, &source);
}
