//! How long it takes to see where everything is, and how soon a device that was removed is gone.

use std::path::Path;
use std::process::Command as Program;
use std::time::{Duration, Instant};

use cede_tests::devices::{Device, Devices};
use cede_wire::control::Command;

/// Calls that are timed, each beside one of `/bin/true`.
const CALLS: usize = 100;
/// The goal for `cede status`, ms.
const STATUS_MS: u64 = 200;
/// Sessions of a device that somebody used for years.
const MANY: usize = 1_000;
/// The goal for a device that was removed, ms, and how often it is tried.
const REVOKED_MS: u64 = 1_000;
const REVOKED: usize = 10;

/// `cede status` on a device with one session and with a thousand, its peer there and away.
pub fn status(program: &Path) {
    println!("status: {CALLS} calls of `cede status` each, from start to end");
    let mut devices = Devices::friends(&program.display().to_string());
    adopt(&devices.a, 0..1);
    timed("1 session, the peer there", &devices.a);
    adopt(&devices.a, 1..MANY);
    timed(&format!("{MANY} sessions, the peer there"), &devices.a);
    devices.b.kill();
    timed(&format!("{MANY} sessions, the peer just gone"), &devices.a);
    println!();
}

fn adopt(device: &Device, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let directory = device.home.join(format!("work/{number}"));
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("notes"), number.to_string()).expect("a file");
        device.adopt(&directory);
    }
}

fn timed(what: &str, device: &Device) {
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let begun = Instant::now();
        let seen = device.typed(&["status"]);
        own.push(begun.elapsed());
        assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
        let begun = Instant::now();
        assert!(Program::new("/bin/true").output().expect("/bin/true").status.success());
        bare.push(begun.elapsed());
    }
    let ([own, tail], [bare, _]) = (middle_and_tail(own), middle_and_tail(bare));
    let word = if tail <= Duration::from_millis(STATUS_MS) { "within" } else { "ABOVE" };
    println!(
        "{what}: p50 {:.1} ms = {:.1} of /bin/true ({:.1} ms), p99 {:.1} ms: {word} the limit of {STATUS_MS} ms",
        ms(own),
        own.as_secs_f64() / bare.as_secs_f64(),
        ms(bare),
        ms(tail)
    );
}

/// From the yes of the person to the moment when the device that was removed knows no link any more.
pub fn revoked(program: &Path) {
    let gone = |_| {
        let devices = Devices::friends(&program.display().to_string());
        let begun = Instant::now();
        devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).expect("it is removed");
        while devices.b.status().peers.iter().any(|peer| peer.connected) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it stays");
        }
        begun.elapsed()
    };
    let [middle, tail] = middle_and_tail((0..REVOKED).map(gone).collect());
    let word = if tail <= Duration::from_millis(REVOKED_MS) { "within" } else { "ABOVE" };
    println!(
        "a device that was removed has no link after: p50 {:.1} ms, the longest of {REVOKED} {:.1} ms: {word} the limit of \
         {REVOKED_MS} ms\n",
        ms(middle),
        ms(tail)
    );
}

fn middle_and_tail(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort_unstable();
    [50, 99].map(|part| times[(times.len() * part / 100).min(times.len() - 1)])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
