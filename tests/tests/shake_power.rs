//! Two real daemons on a disk whose power fails while a session moves.
//!
//! Both live on one file system in an image. At a moment that the seed chooses they are stopped, the image is copied as it
//! is, and they go on with the copy: what the system had not written yet is gone. It takes root and loop devices.
//! `CEDE_IMAGES` says how often, `CEDE_SEED` when.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use cede_tests::devices::{Devices, wait_until};
use cede_tests::disk::{Disk, run, text};
use cede_tests::shaken::{Blow, Shaken, Shape, count, seed};
use cede_wire::control::Phase;

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
const SHAPE: Shape = Shape { files: 60, bytes: 40 << 10, every: 2 };

/// A disk and a copy of what it was.
struct Frozen {
    disk: Disk,
    copy: PathBuf,
}

impl Frozen {
    /// The image at one moment: copied again if it was written to meanwhile.
    fn freeze(&self) {
        for _ in 0..50 {
            let written = self.written();
            // The clock of the file system ticks some hundred times a second.
            if written.elapsed().is_ok_and(|ago| ago > Duration::from_millis(20)) {
                run("cp", &["--sparse=always", text(self.disk.image()), text(&self.copy)]).unwrap();
                if self.written() == written {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the image never rests");
    }

    fn written(&self) -> SystemTime {
        std::fs::metadata(self.disk.image()).and_then(|image| image.modified()).unwrap()
    }

    /// The power is back: the disk is what it was at the moment.
    fn revive(&self) {
        // What a daemon had started may take a moment to go.
        wait_until("nobody uses the disk", || run("umount", &[text(self.disk.at())]).is_ok());
        std::fs::rename(&self.copy, self.disk.image()).unwrap();
        self.disk.mount().unwrap();
    }
}

fn signal(pid: u32, name: &str) {
    run("kill", &["-s", name, &pid.to_string()]).unwrap();
}

/// Shows: H-6, H-7, H-10, H-21, H-24, J-1
#[test]
fn power_that_fails_at_random_moments_loses_nothing_that_was_said() {
    let Some(disk) = Disk::of(4 << 30) else { return };
    let disk = Frozen { copy: disk.beside("copy"), disk };
    let (seed, images, begun) = (seed(), count("CEDE_IMAGES", 4, 300), Instant::now());
    let devices = Devices::below(disk.disk.at(), CEDE, &|_| {}).joined().trusting();
    let mut shaken = Shaken::of(devices, SHAPE, seed);
    shaken.undisturbed();
    let usual = shaken.undisturbed();
    let mut acknowledged = 0;
    for image in 0..images {
        let changed = shaken.work();
        // The person's work is not ours to make durable; the move's is.
        run("sync", &["-f", text(disk.disk.at())]).unwrap();
        let before = shaken.evidence(shaken.owner());
        let watcher = shaken.watch();
        let moment = Duration::from_micros(shaken.numbers.below(60_000));
        // What was reported must stand, so some come right after that.
        let reported = image % 5 == 4;
        let blow =
            if reported { Blow::After(Phase::Committed, moment) } else { Blow::choose(&mut shaken.numbers, usual) };
        let (client, phases) = shaken.begin();
        blow.wait_for(&phases);
        let pids = [shaken.devices.a.pid(), shaken.devices.b.pid()];
        pids.iter().for_each(|pid| signal(*pid, "STOP"));
        // What the client has heard by now was said before the power failed.
        std::thread::sleep(Duration::from_millis(20));
        let heard = client.is_finished();
        disk.freeze();
        shaken.devices.a.kill();
        shaken.devices.b.kill();
        disk.revive();
        shaken.devices.a.start();
        shaken.devices.b.start();
        let client = client.join().unwrap();
        let said = heard && client.report.is_some();
        acknowledged += u64::from(said);
        let completed = shaken.sums.completed;
        shaken.judge(&before, changed, &format!("power in {:?}", client.phase));
        let released = matches!(client.phase, Some(Phase::Released | Phase::Committed));
        let stands = shaken.sums.completed > completed;
        assert!(
            stands || !said && !released,
            "image {image} of seed {seed}: what was said in {:?} is undone",
            client.phase
        );
        let seen = watcher.end();
        shaken.sums.looks += seen.looks;
        assert_eq!(seen.wrong, [""; 0], "image {image} of seed {seed}");
    }
    println!(
        "{images} images with seed {seed} in {} s, {acknowledged} after the report: {:?}",
        begun.elapsed().as_secs(),
        shaken.sums
    );
}
