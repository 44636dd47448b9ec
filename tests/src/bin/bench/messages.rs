//! Messages that are durable at both ends: how many in a second, and how long one takes.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cede_tests::devices::{Device, Devices, wait_until};
use cede_wire::control::{Answer, Command, TellRequest, TellUntil};

/// Bytes of words.
const BYTES: usize = 256;
/// One after the other.
const SINGLE: usize = 300;
/// Many at once, and how many clients tell them.
const MANY: usize = 5_000;
const CLIENTS: usize = 32;
/// Those that wait for a device: with the others, which nobody read there, no more than an outbox holds.
const WAITING: usize = 4_000;
/// Appends of one flush, where the disk's own speed is measured.
const TOGETHER: usize = 64;

/// Between two real daemons, beside what the disk does with bare appends of the same bytes.
pub fn messages(program: &Path) {
    println!("messages: {BYTES} B each, durable at both ends");
    let mut devices = Devices::friends(&program.display().to_string());
    let (one, together) = appends(devices.root.path());
    let mut single: Vec<Duration> = (0..SINGLE)
        .map(|number| {
            let begun = Instant::now();
            tell(&devices.a, number, TellUntil::Received);
            begun.elapsed()
        })
        .collect();
    single.sort_unstable();
    let [middle, tail] = [50, 99].map(|part| single[(SINGLE * part / 100).min(SINGLE - 1)]);
    println!(
        "one at a time, until it is received: p50 {:.2} ms = {:.1} of a bare append and flush ({:.2} ms), p99 {:.2} ms",
        ms(middle),
        middle.as_secs_f64() / one.as_secs_f64(),
        ms(one),
        ms(tail)
    );
    let (next, begun) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < MANY {
                    tell(&devices.a, SINGLE, TellUntil::Queued);
                }
            });
        }
    });
    let queued = begun.elapsed();
    // They are received in the order in which they were told.
    tell(&devices.a, SINGLE, TellUntil::Received);
    let received = begun.elapsed();
    let rate = MANY as f64 / received.as_secs_f64();
    println!(
        "{CLIENTS} at a time: {:.0}/s queued, {rate:.0}/s received = {:.3} of bare appends with a flush for each {TOGETHER} ({together:.0}/s)",
        MANY as f64 / queued.as_secs_f64(),
        rate / together
    );
    let rate = waited(&mut devices);
    println!("{WAITING} that waited for a device: {rate:.0}/s received = {:.3} of the same appends\n", rate / together);
}

/// How many in a second a device takes that was away, from the first of them to the last.
fn waited(devices: &mut Devices) -> f64 {
    devices.b.kill();
    wait_until("it is away", || devices.a.status().peers.iter().all(|peer| !peer.connected));
    let (next, a) = (AtomicUsize::new(0), &devices.a);
    let first = tell(a, SINGLE, TellUntil::Queued);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < WAITING {
                    tell(a, SINGLE, TellUntil::Queued);
                }
            });
        }
    });
    let last = tell(a, SINGLE, TellUntil::Queued);
    let come = |device: &Device, id: &str| {
        let letter = device.ask(Command::Letter { id: id.to_owned() });
        matches!(letter, Ok(Answer::Letter { letter, .. }) if letter.state == "received")
    };
    devices.b.start();
    wait_until("the first comes", || come(&devices.a, &first));
    let begun = Instant::now();
    wait_until("the last comes", || come(&devices.a, &last));
    WAITING as f64 / begun.elapsed().as_secs_f64()
}

/// The id of what is told.
fn tell(device: &Device, number: usize, until: TellUntil) -> String {
    let text = format!("{number:0BYTES$}");
    let request =
        TellRequest { device: "server".to_owned(), text, until, wait_ms: Some(60_000), ..TellRequest::default() };
    match device.ask(Command::Tell(request)) {
        Ok(Answer::Told(letter)) => letter.id,
        other => panic!("it is not told: {other:?}"),
    }
}

/// Bare appends: the middle time of one with its flush, and how many in a second with a flush for many.
fn appends(place: &Path) -> (Duration, f64) {
    let mut file = std::fs::File::create(place.join("appends")).expect("a file");
    let mut each = |count: usize| {
        let begun = Instant::now();
        file.write_all(&vec![7; BYTES * count]).and_then(|()| file.sync_data()).expect("an append");
        begun.elapsed()
    };
    let mut single: Vec<Duration> = (0..200).map(|_| each(1)).collect();
    single.sort_unstable();
    let many: Duration = (0..200).map(|_| each(TOGETHER)).sum();
    (single[100], (200 * TOGETHER) as f64 / many.as_secs_f64())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
