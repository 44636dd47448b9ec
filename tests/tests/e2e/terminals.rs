//! Hosted terminals: a person attaches, types, goes away and comes back.

use cede_agent::terminal::End;
use cede_tests::devices::tty::Tty;

use super::*;

/// One device with a daemon.
fn alone() -> (tempfile::TempDir, Device) {
    let root = tempfile::Builder::new().prefix("cede-").tempdir().unwrap();
    let mut device = Device::new(root.path(), Path::new(CEDE), "laptop");
    device.start();
    (root, device)
}

/// A shell that is hosted, with its prompt; who started it looks on and drives.
fn hosted(device: &Device, name: &str) -> Tty {
    let mut tty = Tty::open(device, &["run", "--name", name, "--", "sh", "-c", "PS1='> ' exec sh -i"]);
    tty.see("> ");
    tty
}

fn terminal(device: &Device, name: &str) -> Option<cede_wire::control::SessionSummary> {
    device.status().sessions.into_iter().find(|session| session.title == name)
}

/// Whether a process is there, and more than the shell that nobody waited for.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

const DETACH: &str = "\x1dd";

/// Shows: D-1, D-7
#[test]
fn terminal_outlives_the_one_it_was_started_from_and_shows_its_screen_again() {
    let (_root, device) = alone();
    let mut first = hosted(&device, "work");
    first.type_in("echo grüße-$((40 + 2)); X=kept\n");
    first.see("grüße-42");
    let listed = terminal(&device, "work").unwrap();
    let about = listed.terminal.unwrap();
    assert_eq!((listed.agent, about.viewers), (AgentKind::Terminal, 1));
    assert_eq!(about.driver.as_deref(), Some("you at this machine"));
    first.type_in(DETACH);
    first.see("detached; work goes on: cede attach ");
    assert_eq!(first.end(), End::Code(0));
    assert_eq!(terminal(&device, "work").unwrap().terminal.unwrap().driver, None);
    let mut again = Tty::open(&device, &["attach", "work"]);
    again.see("grüße-42");
    again.type_in("echo $X; exit 3\n");
    again.see("kept");
    again.see("work ended with code 3");
    assert_eq!(again.end(), End::Code(1));
    wait_until("it is listed no more", || terminal(&device, "work").is_none());
}

/// Shows: D-3, D-5
#[test]
fn one_types_and_the_others_look_on() {
    let (_root, device) = alone();
    let mut driver = hosted(&device, "work");
    let mut other = Tty::open(&device, &["attach", "work"]);
    other.see("you look on");
    let mut watcher = Tty::open(&device, &["watch", "work"]);
    watcher.see("> ");
    wait_until("three look on", || terminal(&device, "work").unwrap().terminal.unwrap().viewers == 3);
    other.type_in("echo no-$((1 + 1))\n");
    watcher.type_in("echo nor-$((1 + 1))\n");
    driver.type_in("echo yes-$((1 + 1))\n");
    driver.see("yes-2");
    other.see("yes-2");
    watcher.see("yes-2");
    let refused = Tty::open(&device, &["drive", "work"]).end_with("you at this machine drives work now");
    assert_eq!(refused, End::Code(i32::from(exit::PENDING)));
    let mut taken = Tty::open(&device, &["drive", "work", "--force"]);
    taken.see("> ");
    taken.type_in("echo mine-$((2 + 2))\n");
    taken.see("mine-4");
    driver.see("you look on");
    driver.type_in("echo late-$((1 + 1))\n");
    taken.type_in("echo over-$((2 + 2))\n");
    driver.see("over-4");
    for seen in [driver.look(), other.look(), watcher.look()] {
        assert!(!["no-2", "nor-2", "late-2"].iter().any(|typed| seen.contains(typed)), "{seen}");
    }
    // The keyboard is let go and asked for with keys, too.
    taken.type_in("\x1dl");
    taken.see("you look on");
    driver.type_in("\x1dt");
    driver.see("you drive now");
    driver.type_in("echo back-$((1 + 1))\n");
    taken.see("back-2");
    watcher.type_in("q");
    assert_eq!(watcher.end(), End::Code(0));
}

/// Shows: D-1
#[test]
fn killed_client_takes_nothing_along() {
    let (_root, device) = alone();
    let mut first = hosted(&device, "work");
    first.type_in("X=kept; echo ready-$((1 + 1))\n");
    first.see("ready-2");
    first.kill();
    wait_until("the keyboard is free", || terminal(&device, "work").unwrap().terminal.unwrap().viewers == 0);
    let mut again = Tty::open(&device, &["attach", "work"]);
    again.see("ready-2");
    again.type_in("echo $X\n");
    again.see("kept");
}

/// Shows: D-1
#[test]
fn size_follows_the_driver() {
    let (_root, device) = alone();
    let mut tty = hosted(&device, "work");
    tty.type_in("stty size\n");
    tty.see("30 100");
    tty.resize(40, 132);
    let mut seen = false;
    for _ in 0..100 {
        tty.type_in("stty size\n");
        std::thread::sleep(Duration::from_millis(50));
        seen = tty.look().contains("40 132");
        if seen {
            break;
        }
    }
    assert!(seen, "{}", tty.look());
}

/// It would draw what it draws.
///
/// Shows: D-7
#[test]
fn terminal_is_not_shown_inside_of_itself() {
    let (_root, device) = alone();
    let mut tty = hosted(&device, "work");
    tty.type_in(&format!("'{CEDE}' --home '{}' attach work; echo exit-$?\n", device.cede_home.display()));
    tty.see("this runs inside of it");
    tty.see(&format!("exit-{}", exit::USAGE));
}

/// Shows: D-7
#[test]
fn persons_terminal_is_put_back_however_the_command_ends() {
    let (_root, device) = alone();
    let _host = hosted(&device, "work");
    let script =
        "before=$(stty -g); echo begin; \"$CEDE\" attach work; test \"$before\" = \"$(stty -g)\" && echo put-back";
    let mut detached = Tty::shell(&device, script);
    detached.see("you look on");
    detached.type_in(DETACH);
    detached.see("\x1b[?1049l");
    detached.see("put-back");
    let mut ended = Tty::shell(&device, script);
    ended.see("you look on");
    let client = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", ended.pid())).unwrap();
    let client: i32 = client.split_whitespace().next().unwrap().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(client), nix::sys::signal::Signal::SIGTERM).unwrap();
    ended.see("put-back");
}

/// Shows: D-6
#[test]
fn commands_end_with_the_daemon_and_that_is_said_before() {
    let (_root, mut device) = alone();
    let mut tty = hosted(&device, "work");
    let pid = terminal(&device, "work").unwrap().terminal.unwrap().pid;
    let refused = device.typed(&["stop"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(i32::from(exit::PENDING)), "{said}");
    assert!(said.contains("with the daemon end 1 hosted terminal: work"), "{said}");
    assert!(runs(pid));
    assert!(device.stop().success());
    wait_until("the command is gone", || !runs(pid));
    tty.end();
}

/// Shows: D-6
#[test]
fn killed_daemon_leaves_no_command_behind() {
    let (_root, mut device) = alone();
    let mut tty = hosted(&device, "work");
    tty.type_in("sleep 1000\n");
    let pid = terminal(&device, "work").unwrap().terminal.unwrap().pid;
    device.kill();
    wait_until("the system hung up on it", || !runs(pid));
    tty.see("the daemon went away, and work with it");
    assert_eq!(tty.end(), End::Code(1));
    device.start();
    assert_eq!(terminal(&device, "work"), None);
}

/// Shows: D-9
#[test]
fn terminal_does_not_move_and_says_why() {
    let devices = Devices::friends(CEDE);
    let _tty = hosted(&devices.a, "work");
    let id = terminal(&devices.a, "work").unwrap().id;
    let failed = refused(devices.a.to("server", id));
    assert!(failed.why.contains("its processes cannot go on elsewhere"), "{}", failed.why);
    assert_eq!(failed.cure, "start the command there: cede run");
    assert_eq!(state(&devices.a, id), "in charge here");
    let failed = refused(take(&devices.b, id));
    assert!(failed.why.contains("its processes cannot go on elsewhere"), "{}", failed.why);
}

/// Shows: D-7
#[test]
fn without_a_terminal_nothing_is_drawn_and_the_way_out_is_named() {
    let (_root, device) = alone();
    let refused = device.typed(&["run", "--", "true"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(i32::from(exit::USAGE)), "{said}");
    assert!(said.contains("cede run --detach"), "{said}");
    let begun = device.typed(&["run", "--detach", "--name", "work", "--", "sh", "-c", "printf hi; sleep 1000"]);
    assert!(begun.status.success(), "{}", String::from_utf8_lossy(&begun.stderr));
    let short = terminal(&device, "work").unwrap().id.short();
    assert_eq!(String::from_utf8_lossy(&begun.stdout), format!("hosted as {short}\n"));
    let Ok(Answer::Log { lines, .. }) = device.ask(Command::Log { tail: None, verify: false }) else {
        panic!("no record")
    };
    assert!(lines.iter().all(|line| line.kind != "keyboard"), "nobody drove");
    let piped = device.typed(&["watch", "work"]);
    assert_eq!((piped.status.code(), piped.stdout), (Some(i32::from(exit::USAGE)), Vec::new()));
    assert!(String::from_utf8_lossy(&piped.stderr).contains("cede watch --json"));
    let twice = device.typed(&["run", "--detach", "--name", "work", "--", "true"]);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("is called work already"));
    let missing = device.typed(&["run", "--detach", "--", "/no/such/program"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("the command does not start"));
    let nobody = device.typed(&["watch", "nobody"]);
    assert!(
        String::from_utf8_lossy(&nobody.stderr)
            .contains("no terminal and no conversation here or at a peer is called nobody")
    );
}
