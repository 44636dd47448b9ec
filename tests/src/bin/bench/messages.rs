//! Messages that are durable at both ends: how many in a second, and how long one takes.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cede_tests::devices::{Device, Devices};
use cede_wire::control::{Command, TellRequest, TellUntil};

/// Bytes of words.
const BYTES: usize = 256;
/// One after the other.
const SINGLE: usize = 300;
/// Many at once, and how many clients tell them.
const MANY: usize = 5_000;
const CLIENTS: usize = 32;
/// Appends of one flush, where the disk's own speed is measured.
const TOGETHER: usize = 64;

/// Between two real daemons, beside what the disk does with bare appends of the same bytes.
pub fn messages(program: &Path) {
    println!("messages: {BYTES} B each, durable at both ends");
    let devices = Devices::friends(&program.display().to_string());
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
        "{CLIENTS} at a time: {:.0}/s queued, {rate:.0}/s received = {:.3} of bare appends with a flush for each {TOGETHER} ({together:.0}/s)\n",
        MANY as f64 / queued.as_secs_f64(),
        rate / together
    );
}

fn tell(device: &Device, number: usize, until: TellUntil) {
    let text = format!("{number:0BYTES$}");
    let request =
        TellRequest { device: "server".to_owned(), text, until, wait_ms: Some(60_000), ..TellRequest::default() };
    device.ask(Command::Tell(request)).expect("it is told");
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
