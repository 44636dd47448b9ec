//! A terminal on one device, a person at another: asked first, drawn safely, resumed after a cut.

use cede_agent::terminal::End;
use cede_tests::devices::tty::Tty;
use cede_wire::authority::Rule;
use cede_wire::member::Capability;

use super::*;

#[path = "conversations.rs"]
mod conversations;

/// Hosts something at the first device that nobody there looks on at.
fn hosted(device: &Device, script: &str) {
    let begun = device.typed(&["run", "--detach", "--name", "work", "--", "sh", "-c", script]);
    assert!(begun.status.success(), "{}", String::from_utf8_lossy(&begun.stderr));
}

fn accept(device: &Device, capability: Capability) {
    let rule = Command::SetRule { device: "server".to_owned(), capability, rule: Rule::Accept, seconds: Some(3_600) };
    device.ask(rule).unwrap();
}

const SHELL: &str = "PS1='> ' exec sh -i";

/// Shows: D-10, U-3
#[test]
fn terminal_of_another_device_is_seen_after_a_yes_and_not_before() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    hosted(a, "printf 'seen-%s' 42; sleep 1000");
    let mut watcher = Tty::open(b, &["watch", "work"]);
    watcher.see("asking laptop");
    let waiting = question(a);
    assert_eq!((waiting.kind.as_str(), waiting.device.as_str()), ("observe", "server"));
    assert!(!watcher.look().contains("seen-42"), "nothing is shown before the yes");
    decide(a, &waiting, true);
    watcher.see("seen-42");
    watcher.type_in("\x1dd");
    assert_eq!(watcher.end(), End::Code(0));
    let mut again = Tty::open(b, &["watch", "laptop/work"]);
    again.see("seen-42");
    assert!(a.status().approvals.is_empty(), "the yes is for the link");
    // To type is another question, and a no is a no until the link ends.
    let mut driver = Tty::open(b, &["drive", "work"]);
    driver.see("asking laptop");
    let waiting = question(a);
    assert_eq!(waiting.kind, "drive");
    decide(a, &waiting, false);
    driver.see("does not let this one look on");
    assert_eq!(driver.end(), End::Code(i32::from(exit::REFUSED)));
    let refused = Tty::open(b, &["drive", "work"]).end_with("does not let this one look on");
    assert_eq!((refused, a.status().approvals.len()), (End::Code(i32::from(exit::REFUSED)), 0));
}

/// Shows: D-10, P-7
#[test]
fn nobody_looks_for_a_device_that_removed_this_one() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    accept(a, Capability::Observe);
    hosted(a, "printf 'seen-%s' 42; sleep 1000");
    let mut watcher = Tty::open(b, &["watch", "work"]);
    watcher.see("seen-42");
    a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    assert_eq!(watcher.end_with("laptop does not admit this device"), End::Code(i32::from(exit::FAILED)));
}

/// Shows: D-3, D-5, D-10
#[test]
fn peer_drives_until_the_person_there_wants_it_back() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    accept(a, Capability::Observe);
    accept(a, Capability::Drive);
    hosted(a, SHELL);
    let mut peer = Tty::open(b, &["drive", "work"]);
    peer.see("> ");
    peer.type_in("echo afar-$((1 + 1))\n");
    peer.see("afar-2");
    let listed = a.status().sessions.into_iter().find(|session| session.title == "work").unwrap();
    assert_eq!(listed.terminal.unwrap().driver.as_deref(), Some("server"));
    let mut there = Tty::open(a, &["attach", "work"]);
    there.see("server drives, you look on");
    there.type_in("echo no-$((1 + 1))\n\x1dT");
    there.see("you drive now");
    there.type_in("echo mine-$((2 + 2))\n");
    peer.see("the person there drives, you look on");
    peer.see("mine-4");
    peer.type_in("echo late-$((1 + 1))\n");
    there.type_in("\x1dl");
    there.see("nobody drives");
    a.ask(Command::Hold { session: "work".to_owned() }).unwrap();
    peer.type_in("\x1dt");
    peer.see("the person there holds the keyboard");
    a.ask(Command::Release { session: "work".to_owned() }).unwrap();
    peer.type_in("\x1dt");
    peer.see("you drive now");
    peer.type_in("echo again-$((3 + 3)); exit 4\n");
    there.see("again-6");
    assert!(!there.look().contains("no-2") && !peer.look().contains("late-2"));
    peer.see("work at laptop ended with code 4");
    assert_eq!(peer.end(), End::Code(1));
}

/// Shows: D-4, D-10
#[test]
fn link_that_breaks_loses_nothing_of_what_was_written() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    accept(a, Capability::Observe);
    let script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo \"<$i>\"; sleep 0.005; done; echo over; sleep 1000";
    hosted(a, script);
    let asked = b.open(Command::View(cede_wire::control::terminal::ViewRequest {
        session: "work".to_owned(),
        keyboard: cede_wire::control::terminal::Keyboard::No,
        size: None,
        from: Some(0),
        read: None,
    }));
    let mut answers = asked.unwrap();
    let (mut seen, mut opened, mut cuts) = (String::new(), 0, 0);
    while !seen.contains("over") {
        match answers.line().expect("the daemon answers") {
            ReplyBody::Terminal(cede_wire::control::terminal::TerminalEvent::Output { fresh, bytes, .. }) => {
                assert_eq!(fresh, None, "nothing is drawn anew");
                seen.push_str(&String::from_utf8(bytes.0).unwrap());
            }
            ReplyBody::Terminal(cede_wire::control::terminal::TerminalEvent::Away { .. }) => opened += 1,
            _ => {}
        }
        if cuts < 3 && seen.contains(&format!("<{}>", 50 + 100 * cuts)) {
            cuts += 1;
            // So many links that the oldest ones are closed.
            for _ in 0..5 {
                b.ask(Command::Address { device: "laptop".to_owned(), address: a.address.clone() }).unwrap();
            }
        }
    }
    let numbers: Vec<u32> =
        seen.split('<').skip(1).map(|rest| rest.split('>').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (1..=400).collect::<Vec<_>>());
    assert!(opened >= 1, "a link did break");
}

/// Shows: D-8
#[test]
fn terminal_of_another_device_draws_and_does_nothing_else() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    accept(a, Capability::Observe);
    let hostile = "printf '\\033]0;root@bank\\007\\033]52;c;cm0=\\007\\033[6n\\033[31mred\\033[m-end'; sleep 1000";
    hosted(a, &format!("sleep 1; {hostile}"));
    let mut watcher = Tty::open(b, &["watch", "work"]);
    watcher.see("nobody drives, you look on");
    watcher.see("\x1b[31mred");
    watcher.see("-end");
    let seen = String::from_utf8_lossy(&watcher.everything()).into_owned();
    assert!(!["root@bank", "cm0=", "\x1b[6n", "\x1b]"].iter().any(|bad| seen.contains(bad)), "{seen:?}");
}

/// What the record of a device says of keyboards.
fn keyboards(device: &Device) -> Vec<String> {
    let Ok(Answer::Log { lines, verdict, .. }) = device.ask(Command::Log { tail: None, verify: true }) else {
        panic!("no record")
    };
    assert!(verdict.unwrap().holds);
    lines.into_iter().filter(|line| line.kind == "keyboard").map(|line| line.text).collect()
}

/// Shows: D-5, D-11
#[test]
fn record_says_who_drove_and_how_it_ended() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    accept(a, Capability::Drive);
    hosted(a, SHELL);
    let short = a.status().sessions.into_iter().find(|session| session.title == "work").unwrap().id.short();
    let mut peer = Tty::open(b, &["drive", "work"]);
    peer.see("> ");
    assert_eq!(keyboards(a), [format!("server drives terminal {short}")], "before the first key");
    peer.type_in("echo $((1 + 1))\n");
    peer.see("2");
    let mut there = Tty::open(a, &["drive", "--force", "work"]);
    peer.see("the person there drives, you look on");
    let typed = "echo $((1 + 1))\n".len();
    assert_eq!(
        keyboards(a)[1..],
        [
            format!("the person here takes the keyboard from another one at terminal {short}"),
            format!("server had to let go of terminal {short}, {typed} bytes typed"),
        ]
    );
    there.type_in("\x1dd");
    there.end();
    peer.type_in("\x1dt");
    peer.see("you drive now");
    a.ask(Command::Hold { session: "work".to_owned() }).unwrap();
    a.ask(Command::Release { session: "work".to_owned() }).unwrap();
    a.ask(Command::Release { session: "work".to_owned() }).unwrap();
    let words: Vec<String> =
        keyboards(a)[3..].iter().map(|text| text.replace(&format!(" terminal {short}"), "")).collect();
    let wanted = [
        "the person here is gone from, 0 bytes typed",
        "server drives",
        "the person here keeps the keyboard here of",
        "server had to let go of, 0 bytes typed",
        "the person here lets others drive again",
    ];
    assert_eq!(words, wanted);
    assert!(keyboards(b).is_empty(), "the record is that of the host");
}

/// Shows: D-10, D-11
#[test]
fn rule_that_says_no_ends_what_an_earlier_one_allowed() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    accept(a, Capability::Observe);
    accept(a, Capability::Drive);
    hosted(a, SHELL);
    let mut watcher = Tty::open(b, &["watch", "work"]);
    let mut driver = Tty::open(b, &["drive", "work"]);
    watcher.see("server drives");
    driver.see("> ");
    let refuse = |capability| {
        let (device, rule) = ("server".to_owned(), Rule::Refuse);
        a.ask(Command::SetRule { device, capability, rule, seconds: None }).unwrap();
    };
    refuse(Capability::Drive);
    driver.see("the right to look on has ended");
    watcher.see("nobody drives");
    refuse(Capability::Observe);
    watcher.see("the right to look on has ended");
    assert!(keyboards(a).last().unwrap().starts_with("server is gone"), "{:?}", keyboards(a));
}
