//! How two daemons find, meet and leave each other, and who else may speak to one.

use std::os::unix::fs::PermissionsExt;

use cede_carrier::discovery::{Announcement, Discovery, Scope};
use cede_wire::control::PairingEvent;
use cede_wire::id::DeviceId;

use super::faults::behind_doors;
use super::*;

/// Whether two programs on this machine find each other at all.
fn multicast_works() -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let announcement =
        |number: u8| Announcement { device: DeviceId::new([number; 32]), mesh: MeshId::new([9; 32]), port: 4_000 };
    runtime.block_on(async {
        let mut first = Discovery::start(announcement(1), Scope::Loopback);
        let _second = Discovery::start(announcement(2), Scope::Loopback);
        tokio::time::timeout(Duration::from_secs(5), first.next()).await.is_ok()
    })
}

/// Shows: P-1, C-6
#[test]
fn words_alone_pair_two_devices_on_one_network() {
    if !multicast_works() {
        println!("skipped: no multicast on the loopback interface");
        return;
    }
    let devices = Devices::with(CEDE, &|device| device.discovery = true);
    let (a, b) = (&devices.a, &devices.b);
    let (mut shown, words) = show_words(a);
    let mut asked = b.open(Command::PairWith { words, address: None, name: None }).unwrap();
    asked.until(|body| matches!(body, ReplyBody::Pairing(PairingEvent::Compare { .. })));
    shown.until(|body| matches!(body, ReplyBody::Pairing(PairingEvent::Compare { .. })));
    a.ask(Command::PairConfirm { accept: true }).unwrap();
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Paired { .. }))));
    assert!(matches!(shown.end(&mut |_| {}), Some(Ok(Answer::Paired { .. }))));
    devices.wait_for_link();
    a.say_yes_to("server");
    b.say_yes_to("laptop");
    let (_, id) = adopted(a);
    a.to("server", id).unwrap();
}

/// The column says where the link leads, and without one where the device was last reached.
#[test]
fn address_of_a_connected_device_is_the_one_that_its_link_has() {
    let mut devices = Devices::paired(CEDE);
    let peer = |device: &Device| device.status().peers.remove(0);
    assert_eq!(peer(&devices.b).address.as_deref(), Some(devices.a.address.as_str()));
    // It came in; where it is dialled nobody answers.
    let nowhere = "127.0.0.1:9";
    println!("{:?}", devices.b.typed(&["devices", "address", "laptop", nowhere]));
    let there = peer(&devices.b);
    assert_eq!((there.connected, there.address.as_deref()), (true, Some(devices.a.address.as_str())));
    devices.a.kill();
    wait_until("the link is gone", || !peer(&devices.b).connected);
    assert_eq!(peer(&devices.b).address.as_deref(), Some(nowhere));
}

#[test]
fn two_that_dial_each_other_at_once_lose_nothing() {
    let mut devices = Devices::friends(CEDE);
    let doors = behind_doors(&mut devices);
    doors.iter().for_each(|door| door.cut(true));
    devices.a.kill();
    devices.b.kill();
    devices.a.start();
    devices.b.start();
    let (a, b) = (&devices.a, &devices.b);
    let (tree, of_a) = adopted(a);
    let other = b.home.join("other");
    dirty(&other);
    let of_b = b.adopt(&other).id;
    let before = (evidence(&tree), evidence(&other));
    let there = a.open(Command::To(request("server", of_a))).unwrap();
    let back = b.open(Command::To(request("laptop", of_b))).unwrap();
    wait_until("both dial", || doors.iter().all(|door| door.counts().1 > 0));
    doors.iter().for_each(|door| door.cut(false));
    for answers in [there, back] {
        let end = answers.end(&mut |_| {});
        assert!(matches!(end, Some(Ok(Answer::Moved(_)))), "{end:?}");
    }
    assert_eq!((evidence(&b.home.join("project")), evidence(&a.home.join("other"))), before);
    b.to("laptop", of_a).unwrap();
    a.to("server", of_b).unwrap();
    assert_eq!((evidence(&tree), evidence(&other)), before);
}

/// Shows: P-7, P-9
#[test]
fn questions_of_a_device_that_is_removed_go_with_it() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let before = evidence(&tree);
    let theirs = b.home.join("theirs");
    dirty(&theirs);
    let wanted = b.adopt(&theirs).id;
    let giving = b.open(Command::To(request("laptop", wanted))).unwrap();
    let taking = b.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap();
    wait_until("both questions wait", || a.status().approvals.len() == 2);
    let waiting = a.status().approvals;
    let begun = Instant::now();
    a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    assert!(a.status().approvals.is_empty() && a.status().moves.is_empty());
    for question in waiting {
        let late = refused(a.ask(Command::Decide { approval: question.id.to_string(), yes: true }));
        assert_eq!(late.why, "no such question waits");
    }
    for asked in [giving, taking] {
        let failed = refused(asked.end(&mut |_| {}).unwrap());
        assert_eq!(failed.refusal, Some(Refusal::NotGranted), "{}", text(&failed));
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "who asked hears of it soon: {:?}", begun.elapsed());
    assert_eq!(names(&a.home), ["project"], "nothing was written");
    assert_eq!((evidence(&tree), state(a, id).as_str()), (before, "in charge here"));
    assert_eq!(state(b, wanted), "in charge here");
}

/// Shows: H-12, J-12
#[test]
fn sessions_of_an_absent_device_are_listed_and_not_taken() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    devices.b.ask(Command::Sessions { peers: true }).unwrap();
    devices.a.stop();
    let b = &devices.b;
    wait_until("the link ends", || b.status().peers.iter().all(|peer| !peer.connected));
    let listed = b.typed(&["ls"]);
    let said = String::from_utf8_lossy(&[listed.stdout, listed.stderr].concat()).into_owned();
    println!("{said}");
    assert_eq!(listed.status.code(), Some(0));
    assert!(said.contains("laptop is not answering; its sessions are listed as it last told them"), "{said}");
    assert!(said.contains("project"), "{said}");
    let begun = Instant::now();
    let failed = refused(take(b, id));
    assert_eq!((failed.exit, failed.refusal), (exit::TIMEOUT, Some(Refusal::TimedOut)));
    assert_eq!(failed.now_at.as_deref(), Some("laptop"));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(b.status().moves.is_empty(), "nothing goes on behind the person's back");
    devices.a.start();
    devices.wait_for_link();
    assert!(matches!(take(&devices.b, id), Ok(Answer::Moved(_))));
}

/// Shows: L-1
#[test]
fn caller_of_another_user_is_turned_away_by_the_daemon_itself() {
    let devices = Devices::strangers(CEDE);
    let a = &devices.a;
    let (program, socket) = (devices.root.path().join("knock"), devices.root.path().join("socket"));
    std::fs::copy(env!("CARGO_BIN_EXE_knock"), &program).unwrap();
    // Every door of the file system is opened: what is left is what the daemon asks the system.
    std::fs::hard_link(a.socket(), &socket).unwrap();
    for open in [devices.root.path(), &program, &socket] {
        std::fs::set_permissions(open, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let knock = |words: &[&str]| {
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.arg(&socket).output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let program = program.display().to_string();
    let own = knock(&[&program]).unwrap();
    assert!(own.contains("\"laptop\""), "{own}");
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", &program];
    match knock(&other) {
        Ok(said) if said.starts_with("connected") => assert_eq!(said.trim(), "connected", "it was answered"),
        Ok(_) | Err(_) => {
            println!("skipped: this user cannot become another one");
            return;
        }
    }
    assert!(a.log().contains("a client of another user was turned away"));
    assert_eq!(a.status().device.name, "laptop");
}

/// Shows: C-9
#[test]
fn destination_that_was_killed_is_served_as_soon_as_it_is_back() {
    let mut devices = Devices::friends(CEDE);
    let doors = behind_doors(&mut devices);
    let (tree, id) = adopted(&devices.a);
    let mut numbers = trees::Numbers(11);
    let noise: Vec<u8> = std::iter::repeat_with(|| numbers.next().to_le_bytes()).take(5 << 20).flatten().collect();
    std::fs::write(tree.join("large"), noise).unwrap();
    let begun = Command::To(MoveRequest { confirm_large: true, ..request("server", id) });
    let mut moving = devices.a.open(begun).unwrap();
    moving
        .until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Transferring && step.bytes > 0));
    // The source hears nothing of the end: its link would stand until the silence is too long.
    doors.iter().for_each(|door| door.cut(true));
    devices.b.kill();
    doors.iter().for_each(|door| door.cut(false));
    let back = Instant::now();
    devices.b.start();
    assert!(matches!(moving.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(state(&devices.b, id), "in charge here");
    let silence = cede_carrier::limits::IDLE_TIMEOUT;
    assert!(back.elapsed() < silence * 3 / 4, "it waited for the silence: {:?}", back.elapsed());
}
