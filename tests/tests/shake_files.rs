//! Files between two real daemons under kill -9 and cut lines: equal at the end, and little is sent twice.
//!
//! The short form sends a little and kills twice. `CEDE_SHAKE` sends one large file and a folder of a hundred thousand, cuts
//! the line twenty times and kills ten times on each side; `CEDE_FILES_BYTES`, `CEDE_FILES_NUMBER`, `CEDE_FILES_KILLS` and
//! `CEDE_FILES_CUTS` say other counts, `CEDE_SEED` the moments. In each form no daemon has more memory than its gate.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cede_tests::devices::trees::Numbers;
use cede_tests::devices::{Device, Devices, wait_until};
use cede_tests::proxy::Proxy;
use cede_tests::shaken::{count, seed};
use cede_wire::control::{Answer, Command, SendRequest, TransferState, TransferSummary};

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
/// How long one sending may take, strikes included.
const LONGEST: Duration = Duration::from_secs(40 * 60);
const MIB: u64 = 1 << 20;
/// Most memory of a daemon that sends or receives.
const MEMORY_KIB: u64 = 128 << 10;

fn transfer(device: &Device) -> Option<TransferSummary> {
    match device.ask(Command::Transfers) {
        Ok(Answer::Transfers { transfers }) => transfers.into_iter().next(),
        other => panic!("no list: {other:?}"),
    }
}

/// Most memory that a daemon has had, KiB.
fn peak_kib(device: &Device) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", device.pid())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Every path with its mode and the hash of its bytes.
fn evidence(root: &Path) -> Vec<(PathBuf, u32, [u8; 32])> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let hash = if metadata.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            [0; 32]
        } else {
            let mut hasher = blake3::Hasher::new();
            std::io::copy(&mut std::fs::File::open(&path).unwrap(), &mut hasher).unwrap();
            *hasher.finalize().as_bytes()
        };
        found.push((path.strip_prefix(root).unwrap().to_owned(), metadata.mode() & 0o777, hash));
    }
    found.sort();
    found
}

/// One file, a tenth of it holes; one of more than a gibibyte has none, so that all of it moves.
fn large(at: &Path, bytes: u64, numbers: &mut Numbers) {
    let mut file = std::fs::File::create(at).unwrap();
    let mut written = 0;
    while written < bytes {
        let mut piece = vec![0; MIB.min(bytes - written) as usize];
        // A tenth of the time that our own numbers take.
        blake3::Hasher::new().update(&numbers.bytes(8)).finalize_xof().fill(&mut piece);
        if bytes <= 1 << 30 && numbers.below(10) == 0 {
            use std::io::{Seek, SeekFrom};
            file.seek(SeekFrom::Current(piece.len() as i64)).unwrap();
        } else {
            file.write_all(&piece).unwrap();
        }
        written += piece.len() as u64;
    }
    file.set_len(bytes).unwrap();
}

fn folder(at: &Path, files: u64, numbers: &mut Numbers) {
    for number in 0..files {
        let below = at.join(format!("d{:02}/größe {}", number % 40, number % 7));
        // There are no more of them than so many.
        if number < 40 * 7 {
            std::fs::create_dir_all(&below).unwrap();
        }
        let length = numbers.below(3_000) as usize;
        std::fs::write(below.join(number.to_string()), numbers.bytes(length)).unwrap();
    }
}

struct Struck {
    kills: u64,
    cuts: u64,
    peak_kib: [u64; 2],
}

/// Strikes at moments that are spread over the whole way, until it is received.
fn strike(devices: &mut Devices, doors: &[Proxy; 2], kills: u64, cuts: u64, numbers: &mut Numbers) -> Struck {
    let mut struck = Struck { kills: 0, cuts: 0, peak_kib: [0; 2] };
    let (all, begun) = (kills + cuts, Instant::now());
    loop {
        assert!(begun.elapsed() < LONGEST, "it does not end: {:?}", transfer(&devices.a));
        let done = struck.kills + struck.cuts;
        for (peak, device) in struck.peak_kib.iter_mut().zip([&devices.a, &devices.b]) {
            *peak = (*peak).max(peak_kib(device));
        }
        let Some(now) = transfer(&devices.b) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        if now.state == TransferState::Received {
            return struck;
        }
        let open = matches!(now.state, TransferState::Offered | TransferState::Sending | TransferState::Queued);
        assert!(open, "it ended: {now:?}");
        let due = now.to_move > 0 && now.moved * (all + 1) >= now.to_move * (done + 1);
        if done >= all || !due {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        std::thread::sleep(Duration::from_millis(numbers.below(200)));
        if struck.cuts * kills.max(1) < struck.kills * cuts {
            cut(devices, doors, struck.cuts % 5 == 4, numbers);
            struck.cuts += 1;
        } else {
            let victim = if struck.kills.is_multiple_of(2) { &mut devices.b } else { &mut devices.a };
            victim.kill();
            victim.start();
            struck.kills += 1;
        }
    }
}

/// Short enough for the link to live, or until it is given up.
fn cut(devices: &Devices, doors: &[Proxy; 2], long: bool, numbers: &mut Numbers) {
    doors.iter().for_each(|door| door.cut(true));
    if long {
        wait_until("the cut is seen", || devices.b.status().peers.iter().all(|peer| !peer.connected));
    } else {
        std::thread::sleep(Duration::from_millis(100 + numbers.below(2_000)));
    }
    doors.iter().for_each(|door| door.cut(false));
}

fn sent_under_strikes(what: &str, make: impl FnOnce(&Path, &mut Numbers)) {
    let (seed, kills, cuts) = (seed(), count("CEDE_FILES_KILLS", 2, 20), count("CEDE_FILES_CUTS", 0, 20));
    let mut numbers = Numbers(seed);
    let mut devices = Devices::friends(CEDE);
    let doors = [Proxy::to(&devices.a.address), Proxy::to(&devices.b.address)];
    devices.meet_through([&doors[0], &doors[1]].map(|door| door.address.to_string()));
    let source = devices.a.home.join("things");
    make(&source, &mut numbers);
    let begun = Instant::now();
    let carried = || doors.iter().map(Proxy::bytes).sum::<u64>();
    let before = carried();
    let request = SendRequest {
        device: "server".to_owned(),
        paths: vec![source.display().to_string()],
        ..SendRequest::default()
    };
    let Ok(Answer::Sent(_)) = devices.a.ask(Command::Send(request)) else { panic!("not queued") };
    let struck = strike(&mut devices, &doors, kills, cuts, &mut numbers);
    wait_until("the sender knows", || transfer(&devices.a).is_some_and(|t| t.state == TransferState::Received));
    let there = transfer(&devices.b).unwrap();
    let (content, on_the_line) = (there.to_move, carried() - before);
    let again = on_the_line.saturating_sub(content);
    println!(
        "{what}: {} files, {content} bytes of content; {} kills, {} cuts; {on_the_line} bytes on the line, {again} of them again or around it; peaks {} and {} KiB; {} s; seed {seed}",
        there.files,
        struck.kills,
        struck.cuts,
        struck.peak_kib[0],
        struck.peak_kib[1],
        begun.elapsed().as_secs()
    );
    assert!(struck.peak_kib.iter().all(|peak| *peak <= MEMORY_KIB), "{:?} KiB, seed {seed}", struck.peak_kib);
    assert!(evidence(&source) == evidence(Path::new(&there.place)), "other bytes, seed {seed}");
    // What is on its way when a strike comes is what the windows and pieces hold, and what was not flushed yet.
    let strikes = struck.kills + struck.cuts;
    let most = content + content / 4 + (strikes + 1) * 80 * MIB;
    assert!(on_the_line <= most, "{on_the_line} bytes for {content}, seed {seed}");
}

/// Shows: F-8, F-9, T-11
#[test]
fn large_file_comes_whole_through_deaths_and_cuts() {
    let bytes = count("CEDE_FILES_BYTES", 48 << 20, 1 << 30);
    sent_under_strikes("one file", |at, numbers| large(at, bytes, numbers));
}

/// Shows: F-8, F-9, T-11
#[test]
fn folder_of_many_files_comes_whole_through_deaths_and_cuts() {
    let files = count("CEDE_FILES_NUMBER", 300, 100_000);
    sent_under_strikes("a folder", |at, numbers| folder(at, files, numbers));
}
