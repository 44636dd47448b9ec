//! Fences that take long to go up, and what comes meanwhile.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use cede_tests::devices::claude::Planted;
use cede_tests::devices::{claude, trees};
use cede_wire::control::MoveRequest;
use nix::libc::O_NONBLOCK;

use super::*;

#[path = "passed.rs"]
mod passed;

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

/// A program that works in the session of the agent at a device, as the agent's registry of processes says.
struct Busy(std::process::Child);

impl Busy {
    fn at(device: &Device, planted: &Planted) -> Self {
        let program = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        claude::register(&device.home, planted, program.id(), "busy");
        Self(program)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

fn carried(device: &str, id: SessionId) -> MoveRequest {
    MoveRequest { carry_only: true, ..request(device, id) }
}

/// A conversation of Claude Code at the laptop.
fn planted(devices: &Devices) -> Planted {
    let tree = devices.a.home.join("project");
    trees::large(&tree, 4, 1_000, 1);
    claude::plant(&devices.a.home, &tree, 3)
}

/// A start raises the fences of what is away. Where one is late it would stand before the session that came back, and its
/// tombstone take the place of the only copy.
///
/// Shows: A-2, H-24
#[test]
fn session_that_comes_back_waits_for_a_fence_that_still_goes_up() {
    let mut devices = Devices::friends(CEDE);
    let planted = planted(&devices);
    let said = claude::resumable(&devices.a.home, &planted).unwrap();
    devices.a.move_with(carried("server", planted.id)).unwrap();
    devices.b.move_with(carried("laptop", planted.id)).unwrap();
    devices.b.kill();
    // Of another session too, so that the agent's settings are left alone when this one comes.
    let fences = devices.b.state().join("agents/fences/claude-code");
    std::fs::copy(fences.join(format!("{}.json", planted.native)), fences.join("another.json")).unwrap();
    let slow = Slow::settings(&devices.b);
    devices.b.start();
    let reader = slow.reader();

    let mut client = devices.a.open(Command::To(carried("server", planted.id))).unwrap();
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

/// Shows: H-4, T-7
#[test]
fn session_does_not_come_back_under_an_agent_that_works_there() {
    let devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    devices.a.to("server", id).unwrap();
    let other = claude::plant(&devices.a.home, &tree, 2);
    let works = Busy::at(&devices.a, &other);
    let failed = refused(devices.b.to("laptop", id));
    assert_eq!(failed.refusal, Some(Refusal::Busy));
    let why = format!("laptop says: the agent of session {} works there", other.id.short());
    assert!(failed.why.contains(&why), "{}", failed.why);
    drop(works);
    devices.b.to("laptop", id).unwrap();
    assert_eq!(Path::new(&devices.a.session(id).unwrap().directory), tree);
}

/// What keeps it out goes away after the person at the other device gave up: it is that one's by then.
///
/// Shows: H-9, H-22
#[test]
fn session_that_was_taken_over_while_it_came_in_does_not_come_in() {
    let mut devices = Devices::friends(CEDE);
    let planted = planted(&devices);
    let works = Busy::at(&devices.b, &planted);
    let mut client = devices.a.open(Command::To(carried("server", planted.id))).unwrap();
    client.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Released));
    wait_until("the server is kept from it", || devices.b.log().contains("the session is not in its place yet"));
    let (why, id) = (devices.b.status().moves.remove(0).progress.note, planted.id.short());
    assert!(why.contains("the session is in use by process"), "{why}");
    for asked in ["status", "doctor"] {
        let said = devices.b.typed(&[asked]).stdout;
        assert!(String::from_utf8_lossy(&said).contains(&why[..32]), "{asked}: {}", String::from_utf8_lossy(&said));
    }
    devices.b.kill();
    drop(client);
    let taken = devices.a.typed(&["take", "--force", &id, "--yes", &id]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    assert!(claude::resumable(&devices.a.home, &planted).is_some());
    devices.b.start();
    wait_until("the server hears of it", || devices.b.log().contains("another device took the session over"));
    drop(works);
    // It looked again after a second at most, when it was kept from it.
    let looked = Instant::now();
    while looked.elapsed() < Duration::from_secs(3) {
        assert_eq!(claude::resumable(&devices.b.home, &planted), None, "two devices would act");
        std::thread::sleep(Duration::from_millis(50));
    }
    devices.a.move_with(carried("server", planted.id)).unwrap();
    assert!(claude::resumable(&devices.b.home, &planted).is_some());
}

/// An agent that works at the first try is held still once its turn is over.
///
/// Shows: H-22
#[test]
fn agent_that_works_while_its_device_is_in_doubt_is_held_still_afterwards() {
    let mut devices = Devices::friends(CEDE);
    let planted = planted(&devices);
    devices.a.move_with(carried("server", planted.id)).unwrap();
    devices.b.move_with(carried("laptop", planted.id)).unwrap();
    devices.a.stop();
    let works = Busy::at(&devices.a, &planted);
    let moved = devices.root.path().join("moved");
    std::fs::rename(&devices.a.cede_home, &moved).unwrap();
    devices.a.cede_home = moved;
    devices.a.start();
    wait_until("its fence cannot go up", || devices.a.log().contains("the fence is not up yet"));
    assert!(claude::resumable(&devices.a.home, &planted).is_some());
    drop(works);
    wait_until("it is held still", || claude::resumable(&devices.a.home, &planted).is_none());
    // So it is where the daemon died between its record and the fence.
    devices.a.kill();
    let place = claude::place(&devices.a.home, &planted).unwrap();
    let aside = place.with_file_name(format!(".{}.jsonl.cede-aside", planted.native));
    std::fs::rename(&aside, &place).unwrap();
    devices.a.start();
    wait_until("it is held still again", || claude::resumable(&devices.a.home, &planted).is_none());
    let confirmed = devices.a.typed(&["confirm", &planted.id.short()]);
    assert!(confirmed.status.success(), "{}", String::from_utf8_lossy(&confirmed.stderr));
    wait_until("its agent works again", || claude::resumable(&devices.a.home, &planted).is_some());
}

/// Somebody goes on in what stands in the place of a session that is away: before a start, and before the session comes back.
///
/// Shows: A-3, H-25
#[test]
fn turns_that_were_added_where_a_session_is_away_are_kept() {
    let mut devices = Devices::friends(CEDE);
    let planted = planted(&devices);
    let place = claude::place(&devices.a.home, &planted).unwrap();
    let side = place.with_extension("").join("subagents/agent-1.jsonl");
    std::fs::create_dir_all(side.parent().unwrap()).unwrap();
    std::fs::write(&side, "begun\n").unwrap();
    devices.a.move_with(carried("server", planted.id)).unwrap();
    let add = |answer: &str| {
        let row = format!(r#"{{"type":"assistant","message":{{"model":"m","content":"{answer}"}}}}"#);
        writeln!(OpenOptions::new().append(true).open(&place).unwrap(), "{row}").unwrap();
    };
    let kept = |answer: &str| {
        let files = std::fs::read_dir(place.parent().unwrap()).unwrap().flatten();
        let holds =
            |file: &std::fs::DirEntry| std::fs::read_to_string(file.path()).is_ok_and(|all| all.contains(answer));
        files.filter(holds).filter(|file| file.path() != place).count()
    };
    add("before the start");
    devices.a.stop();
    devices.a.start();
    devices.wait_for_link();
    wait_until("it is kept", || kept("before the start") == 1);
    let said = || String::from_utf8(devices.a.typed(&["doctor"]).stdout).unwrap();
    assert_eq!(said().matches("was kept when its session went on elsewhere").count(), 1, "{}", said());
    add("before it comes");
    // A sub-agent that still ran writes beside the conversation.
    let side_kept = || {
        let files = std::fs::read_dir(side.parent().unwrap()).unwrap().flatten();
        files
            .filter(|file| std::fs::read_to_string(file.path()).is_ok_and(|all| all.contains("of the sub-agent")))
            .count()
    };
    writeln!(OpenOptions::new().append(true).open(&side).unwrap(), "of the sub-agent").unwrap();
    devices.b.move_with(carried("laptop", planted.id)).unwrap();
    assert_eq!((kept("before the start"), kept("before it comes"), side_kept()), (1, 1, 1));
    assert_eq!(said().matches("was kept when its session went on elsewhere").count(), 2, "{}", said());
    assert!(claude::resumable(&devices.a.home, &planted).is_some());
}
