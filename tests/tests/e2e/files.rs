//! Files that are sent: what is shown, what is written when, and what is there at the end.

use std::os::unix::fs::PermissionsExt;

use cede_tests::devices::Answers;
use cede_wire::audit::DecidedBy;
use cede_wire::control::decisions::LogLine;
use cede_wire::control::{SendRequest, TransferState, TransferSummary};

use super::*;

fn sending(device: &str, paths: &[&Path], wait: bool) -> Command {
    let paths = paths.iter().map(|path| path.display().to_string()).collect();
    Command::Send(SendRequest { device: device.to_owned(), paths, wait, ..SendRequest::default() })
}

fn sent(result: Result<Answer, Failure>) -> TransferSummary {
    match result {
        Ok(Answer::Sent(summary)) => *summary,
        other => panic!("not sent: {other:?}"),
    }
}

fn end(asked: Answers) -> Result<Answer, Failure> {
    asked.end(&mut |_| {}).expect("the daemon answers")
}

fn transfers(device: &Device) -> Vec<TransferSummary> {
    match device.ask(Command::Transfers) {
        Ok(Answer::Transfers { transfers }) => transfers,
        other => panic!("no list: {other:?}"),
    }
}

/// A file and a folder with what makes trouble: names, an executable, an empty file, an empty folder, a link.
fn things(device: &Device) -> (PathBuf, PathBuf) {
    let (file, folder) = (device.home.join("Bericht ü.pdf"), device.home.join("größe"));
    std::fs::write(&file, noise(300_000, 1)).unwrap();
    std::fs::create_dir_all(folder.join("leer")).unwrap();
    std::fs::write(folder.join("日本.bin"), noise(700_000, 2)).unwrap();
    std::fs::write(folder.join("empty"), "").unwrap();
    std::fs::write(folder.join("run.sh"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(folder.join("run.sh"), PermissionsExt::from_mode(0o4755)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
    (file, folder)
}

/// Bytes that no chunk of which comes twice.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut reader = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    reader.fill(&mut bytes);
    bytes
}

fn received(device: &Device) -> PathBuf {
    device.cede_home.join("received")
}

/// Shows: F-1, F-2, F-7, F-8
#[test]
fn file_and_folder_come_after_the_yes_and_say_where_they_lie() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (file, folder) = things(a);
    let asked = a.open(sending("server", &[&file, &folder], true)).unwrap();
    let waiting = question(b);
    nothing_written(b);
    assert!(!received(b).exists() && !b.state().join("transfers").exists());
    assert_eq!((waiting.kind.as_str(), waiting.device.as_str()), ("file", "laptop"));
    assert_eq!(waiting.title, "Bericht ü.pdf and 1 more");
    let shown: Vec<(&str, u64)> = waiting.files.iter().map(|line| (line.path.as_str(), line.bytes)).collect();
    let all = [("Bericht ü.pdf", 300_000), ("größe/empty", 0), ("größe/run.sh", 10), ("größe/日本.bin", 700_000)];
    assert_eq!(shown, all);
    assert_eq!(waiting.executables, ["größe/run.sh"]);
    assert_eq!(transfers(b)[0].state, TransferState::Offered);
    decide(b, &waiting, true);
    let summary = sent(end(asked));
    assert_eq!((summary.state, summary.files, summary.bytes), (TransferState::Received, 4, 1_000_010));
    assert!(summary.detail.contains("größe/link: a link"), "{}", summary.detail);
    let place = PathBuf::from(&summary.place);
    assert!(place.starts_with(received(b).join("laptop")), "{}", summary.place);
    assert_eq!(std::fs::read(place.join("Bericht ü.pdf")).unwrap(), noise(300_000, 1));
    assert_eq!(std::fs::read(place.join("größe/日本.bin")).unwrap(), noise(700_000, 2));
    assert_eq!(names(&place.join("größe")), ["empty", "leer", "run.sh", "日本.bin"]);
    assert_eq!(place.join("größe/run.sh").metadata().unwrap().permissions().mode() & 0o7777, 0o755);
    let there = transfers(b).remove(0);
    assert_eq!((there.state, there.going, &there.place), (TransferState::Received, false, &summary.place));
    wait_until("nothing is left of the way", || {
        names(&b.state().join("stages")).is_empty() && names(&received(b).join("laptop")).len() == 1
    });
}

/// A file of noise in the home of a device.
fn file(device: &Device, name: &str, length: usize) -> PathBuf {
    let path = device.home.join(name);
    std::fs::write(&path, noise(length, length as u64)).unwrap();
    path
}

fn send(devices: &Devices, path: &Path) -> Result<Answer, Failure> {
    devices.a.ask(sending("server", &[path], true))
}

/// Shows: F-1, F-12
#[test]
fn no_of_the_operator_leaves_nothing_and_is_said() {
    let devices = Devices::paired(CEDE);
    let path = file(&devices.a, "f", 1_000);
    let asked = devices.a.open(sending("server", &[&path], true)).unwrap();
    decide(&devices.b, &question(&devices.b), false);
    let failure = refused(end(asked));
    assert_eq!((failure.exit, failure.refusal), (exit::REFUSED, Some(Refusal::Declined)));
    assert!(!received(&devices.b).exists());
    nothing_written(&devices.b);
    let states = [&devices.a, &devices.b].map(|device| transfers(device)[0].state);
    assert_eq!(states, [TransferState::Refused; 2]);
}

/// Shows: F-10
#[test]
fn what_is_over_a_limit_or_over_the_free_space_is_refused_and_nobody_is_asked() {
    let devices = Devices::with(CEDE, &|device| {
        std::fs::create_dir_all(&device.cede_home).unwrap();
        std::fs::write(device.cede_home.join("config.toml"), "receive_limit = \"1MB\"\n").unwrap();
    });
    let devices = devices.joined();
    let path = file(&devices.a, "f", 1_000_001);
    let Command::Send(sending) = sending("server", &[&path], true) else { unreachable!() };
    let long = Command::Send(SendRequest { note: "x".repeat(501), ..sending });
    assert_eq!(refused(devices.a.ask(long)).exit, exit::USAGE);
    let failure = refused(send(&devices, &path));
    assert_eq!((failure.exit, failure.refusal), (exit::REFUSED, Some(Refusal::TooLarge)));
    assert!(failure.why.contains("no more than 1.00 MB"), "{}", failure.why);
    assert_eq!(devices.b.status().approvals, []);
    assert!(!received(&devices.b).exists());
}

/// Shows: F-7
#[test]
fn name_that_is_taken_is_never_overwritten() {
    let devices = Devices::friends(CEDE);
    let path = file(&devices.a, "notes.txt", 5_000);
    let folder = received(&devices.b).join("laptop");
    let places: Vec<String> = (0..3).map(|_| sent(send(&devices, &path)).place).collect();
    let expected = ["notes.txt", "notes-2.txt", "notes-3.txt"].map(|name| folder.join(name).display().to_string());
    assert_eq!(places, expected);
    std::fs::write(folder.join("notes.txt"), "mine").unwrap();
    sent(send(&devices, &path));
    assert_eq!(std::fs::read(folder.join("notes.txt")).unwrap(), b"mine");
    // The standing yes asks nobody, and is in the record for each arrival.
    let Ok(Answer::Log { lines, .. }) = devices.b.ask(Command::Log { tail: None, verify: false }) else {
        panic!("no record")
    };
    let files =
        |line: &&LogLine| line.kind == "decided" && line.about.as_ref().is_some_and(|of| of.starts_with("files"));
    let noted: Vec<&LogLine> = lines.iter().filter(files).collect();
    assert_eq!(noted.len(), transfers(&devices.b).len(), "{noted:?}");
    assert!(noted.iter().all(|line| line.by == Some(DecidedBy::Rule) && line.shown.is_some()));
}

/// Shows: F-5, F-14
#[test]
fn file_that_changes_before_it_is_sent_ends_the_transfer_and_is_named() {
    let devices = Devices::paired(CEDE);
    let path = file(&devices.a, "log.txt", 2_000_000);
    let asked = devices.a.open(sending("server", &[&path], true)).unwrap();
    let waiting = question(&devices.b);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1_000_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    decide(&devices.b, &waiting, true);
    let failure = refused(end(asked));
    assert_eq!(failure.refusal, Some(Refusal::IntegrityFailed));
    assert!(failure.why.contains("log.txt changed at the sender"), "{}", failure.why);
    wait_until("it is said there", || transfers(&devices.b)[0].refusal.is_some());
    let told = transfers(&devices.b).remove(0).detail;
    assert!(told.contains("log.txt changed at the sender") && !told.contains('/'), "{told}");
    let states = [&devices.a, &devices.b].map(|device| transfers(device)[0].state);
    assert_eq!(states, [TransferState::Failed; 2], "nobody refused it");
    wait_until("nothing is left of it", || names(&devices.b.state().join("stages")).is_empty());
    assert_eq!(names(&received(&devices.b)), [""; 0]);
}

/// Shows: F-14
#[test]
fn what_cannot_be_put_into_its_place_says_where_to_its_own_person_alone() {
    let devices = Devices::friends(CEDE);
    let path = file(&devices.a, "f", 1_000);
    std::fs::create_dir_all(received(&devices.b)).unwrap();
    std::fs::write(received(&devices.b).join("laptop"), "in the way").unwrap();
    let failure = refused(send(&devices, &path));
    assert_eq!(failure.refusal, Some(Refusal::DestinationCannotResume));
    assert!(failure.why.contains("cannot be put into its place there") && !failure.why.contains('/'), "{failure:?}");
    let there = transfers(&devices.b).remove(0).detail;
    assert!(there.contains(&received(&devices.b).join("laptop").display().to_string()), "{there}");
}

/// Shows: F-9, F-11
#[test]
fn what_is_sent_to_a_device_that_is_off_waits_and_comes_after_restarts_of_both() {
    let mut devices = Devices::friends(CEDE);
    let path = file(&devices.a, "f", 300_000);
    devices.b.kill();
    let queued = sent(devices.a.ask(sending("server", &[&path], false)));
    let waits = |device: &Device| transfers(device)[0].clone();
    wait_until("the link is gone", || waits(&devices.a).state == TransferState::Queued);
    assert!(waits(&devices.a).detail.contains("waits for server"));
    devices.a.kill();
    devices.a.start();
    assert_eq!((waits(&devices.a).id, waits(&devices.a).state), (queued.id, TransferState::Queued));
    devices.b.start();
    wait_until("it is received", || waits(&devices.a).state == TransferState::Received);
    assert_eq!(std::fs::read(waits(&devices.a).place).unwrap(), noise(300_000, 300_000));
}

/// Shows: F-12
#[test]
fn either_side_can_withdraw() {
    let devices = Devices::paired(CEDE);
    let path = file(&devices.a, "f", 1_000);
    for by_sender in [true, false] {
        let asked = devices.a.open(sending("server", &[&path], true)).unwrap();
        let waiting = question(&devices.b);
        let id = transfers(&devices.a)[0].id.to_string();
        let by = if by_sender { &devices.a } else { &devices.b };
        by.ask(Command::StopTransfer { transfer: id }).unwrap();
        let failure = refused(end(asked));
        assert_eq!((failure.exit, failure.refusal), (exit::FAILED, Some(Refusal::Cancelled)));
        assert_eq!(failure.why, format!("cancelled: withdrawn on {}", by.name));
        wait_until("the question is gone", || devices.b.status().approvals.is_empty());
        assert!(devices.b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }).is_err());
        let states = [&devices.a, &devices.b].map(|device| transfers(device)[0].state);
        assert_eq!(states, [TransferState::Cancelled; 2]);
    }
    nothing_written(&devices.b);
}

fn until_some_came(device: &Device) {
    wait_until("something came", || {
        let came = |one: &TransferSummary| {
            one.state == TransferState::Sending && one.moved > 2_000_000 || one.state == TransferState::Received
        };
        transfers(device).first().is_some_and(came)
    });
}

/// Its last bytes may have come, and the word of that be under way.
///
/// Shows: F-8, F-12
#[test]
fn whoever_withdraws_what_is_being_sent_is_not_told_that_nothing_came() {
    let mut devices = Devices::friends(CEDE);
    let path = file(&devices.a, "big", 60_000_000);
    let asked = devices.a.open(sending("server", &[&path], true)).unwrap();
    until_some_came(&devices.b);
    devices.b.kill();
    let id = transfers(&devices.a)[0].id.to_string();
    devices.a.ask(Command::StopTransfer { transfer: id }).unwrap();
    let failure = refused(end(asked));
    assert_eq!((failure.exit, failure.what.as_str()), (exit::FAILED, "big was withdrawn"));
    let why = "cancelled: withdrawn on laptop; what came of it there is discarded, unless it is all there already";
    assert_eq!(failure.why, why);
    assert_eq!(transfers(&devices.a)[0].detail, why.strip_prefix("cancelled: ").unwrap());
}

/// Shows: F-9
#[test]
fn death_of_either_side_in_the_middle_costs_time_and_little_else() {
    const LENGTH: usize = 60_000_000;
    let mut devices = Devices::friends(CEDE);
    let path = file(&devices.a, "big", LENGTH);
    let queued = sent(devices.a.ask(sending("server", &[&path], false)));
    until_some_came(&devices.b);
    devices.b.kill();
    devices.b.start();
    until_some_came(&devices.b);
    devices.a.kill();
    devices.a.start();
    wait_until("it is received", || transfers(&devices.a)[0].state == TransferState::Received);
    let there = transfers(&devices.b).remove(0);
    assert_eq!((there.id, there.state), (queued.id, TransferState::Received));
    assert!(std::fs::read(&there.place).unwrap() == noise(LENGTH, LENGTH as u64), "other bytes");
    assert_eq!(names(&received(&devices.b).join("laptop")), ["big"]);
    let again = transfers(&devices.a)[0].carried;
    assert!(again <= LENGTH as u64, "what was durable there is not sent again: {again}");
}

/// Shows: F-8, F-12
#[test]
fn large_file_is_shown_while_it_is_read_and_can_be_withdrawn_then() {
    const LENGTH: u64 = 32 << 30;
    let devices = Devices::friends(CEDE);
    let path = devices.a.home.join("large.iso");
    // Holes take as long to read as anything.
    std::fs::File::create(&path).and_then(|file| file.set_len(LENGTH)).unwrap();
    let mut asked = devices.a.open(sending("server", &[&path], true)).unwrap();
    let read = asked.until(|body| matches!(body, ReplyBody::Sending(one) if one.moved > 0));
    let ReplyBody::Sending(read) = read else { unreachable!() };
    assert_eq!((read.state, read.going, read.to_move), (TransferState::Reading, true, LENGTH));
    assert!(read.moved < LENGTH);
    let status = devices.a.status().transfers;
    assert!(matches!(&status[..], [one] if one.id == read.id && one.moved >= read.moved), "{status:?}");
    let typed = devices.a.typed(&["status"]).stdout;
    let typed = String::from_utf8_lossy(&typed);
    assert!(typed.contains("Files\n") && typed.contains("large.iso  to server  reading"), "{typed}");
    devices.a.ask(Command::StopTransfer { transfer: read.id.short() }).unwrap();
    let failure = end(asked).expect_err("it was withdrawn");
    assert_eq!(failure.why, "it was withdrawn while it was read");
    assert_eq!([&devices.a, &devices.b].map(transfers), [const { Vec::new() }; 2]);
    assert!(!devices.a.state().join("transfers").exists());
}
