//! Fences that take long to go up, and what comes meanwhile.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use cede_tests::devices::{claude, trees};
use cede_wire::control::MoveRequest;
use nix::libc::O_NONBLOCK;

use super::*;

/// The agent's settings are a pipe here: whoever reads them stands there until the test writes.
struct Slow {
    settings: PathBuf,
    usual: Vec<u8>,
}

impl Slow {
    fn settings(device: &Device) -> Self {
        let settings = device.home.join(".claude/settings.json");
        let usual = std::fs::read(&settings).unwrap();
        std::fs::remove_file(&settings).unwrap();
        nix::unistd::mkfifo(&settings, nix::sys::stat::Mode::S_IRWXU).unwrap();
        Self { settings, usual }
    }

    /// Waits until somebody reads.
    fn reader(&self) -> File {
        let mut found = None;
        wait_until("the fence is half up", || {
            found = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&self.settings).ok();
            found.is_some()
        });
        found.unwrap()
    }

    /// Lets the one who reads go on, and everybody after it.
    fn go_on(&self, mut reader: File) {
        let beside = self.settings.with_extension("usual");
        std::fs::write(&beside, &self.usual).unwrap();
        std::fs::rename(&beside, &self.settings).unwrap();
        reader.write_all(&self.usual).unwrap();
    }
}

/// A start raises the fences of what is away. Where one is late it would stand before the session that came back, and its
/// tombstone take the place of the only copy.
///
/// Shows: A-2, H-24
#[test]
fn session_that_comes_back_waits_for_a_fence_that_still_goes_up() {
    let mut devices = Devices::friends(CEDE);
    let tree = devices.a.home.join("project");
    trees::large(&tree, 4, 1_000, 1);
    let planted = claude::plant(&devices.a.home, &tree, 3);
    let said = claude::resumable(&devices.a.home, &planted).unwrap();
    let carried = |name: &str| MoveRequest { carry_only: true, ..request(name, planted.id) };
    devices.a.move_with(carried("server")).unwrap();
    devices.b.move_with(carried("laptop")).unwrap();
    devices.b.kill();
    // Of another session too, so that the agent's settings are left alone when this one comes.
    let fences = devices.b.state().join("agents/fences/claude-code");
    std::fs::copy(fences.join(format!("{}.json", planted.native)), fences.join("another.json")).unwrap();
    let slow = Slow::settings(&devices.b);
    devices.b.start();
    let reader = slow.reader();

    let mut client = devices.a.open(Command::To(carried("server"))).unwrap();
    client.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Released));
    let looked = Instant::now();
    while looked.elapsed() < Duration::from_secs(1) {
        assert_ne!(state(&devices.b, planted.id), "in charge here", "it came in while its fence goes up");
        std::thread::sleep(Duration::from_millis(20));
    }
    slow.go_on(reader);
    let moved = client.end(&mut |_| {}).unwrap();
    assert!(matches!(&moved, Ok(Answer::Moved(report)) if report.now_at == "server"), "{moved:?}");
    assert_eq!(state(&devices.b, planted.id), "in charge here");
    assert_eq!(claude::resumable(&devices.b.home, &planted), Some(said));
}
