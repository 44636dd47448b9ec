//! The cockpit, in a real terminal over real daemons.

use cede_agent::terminal::End;
use cede_tests::devices::tty::Tty;

use super::*;

#[path = "notify.rs"]
mod notify;

/// How long something must have been on the screen before it is answered.
const LOOKED: Duration = Duration::from_millis(900);

fn cockpit(device: &Device) -> Tty {
    let mut tty = Tty::open(device, &[]);
    tty.show("the sessions are listed", |screen| screen.contains("2 Sessions"));
    tty
}

/// A question of the laptop that waits on the server's screen.
fn asked(devices: &Devices) -> (Tty, SessionId, cede_tests::devices::Answers) {
    let (_, id) = adopted(&devices.a);
    let mut tty = cockpit(&devices.b);
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    tty.show("the question is told of", |screen| screen.contains("1 question waits"));
    tty.type_in("1");
    (tty, id, asked)
}

/// Shows: U-7, L-7, L-12
#[test]
fn question_of_a_peer_is_answered_on_the_screen_and_the_session_comes() {
    let devices = Devices::paired(CEDE);
    let (mut tty, id, asked) = asked(&devices);
    let screen = tty.show("it stands there whole", |screen| screen.contains("answer: cede allow"));
    println!("{screen}");
    let typed = devices.b.typed(&["approvals", "--all"]);
    let listed = String::from_utf8_lossy(&typed.stdout).into_owned();
    // What is wrapped goes on behind a mark.
    let squashed = |text: &str| text.replace(|c: char| c.is_whitespace() || c == '↪', "");
    let seconds = |line: &&str| !line.contains(" counts as a no");
    for line in listed.lines().filter(seconds) {
        assert!(squashed(&screen).contains(&squashed(line)), "{line:?} is not on the screen:\n{screen}");
    }
    std::thread::sleep(LOOKED);
    tty.type_in("y");
    tty.show("it says so", |screen| screen.contains("allowed: laptop wants to hand over \"project\""));
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(state(&devices.b, id), "in charge here");
    let after = tty.show("nothing waits any more", |screen| screen.contains("1 Questions none"));
    assert!(!after.contains("question waits"), "{after}");
    tty.type_in("q");
    assert_eq!(tty.end(), End::Code(0));
}

/// Shows: L-12
#[test]
fn key_that_was_pressed_too_soon_or_pasted_answers_nothing() {
    let devices = Devices::paired(CEDE);
    let (mut tty, id, asked) = asked(&devices);
    tty.type_in("yy\x1b[200~y\x1b[201~");
    tty.show("it was not answered", |screen| screen.contains("look, then answer again"));
    assert_eq!(devices.b.status().approvals.len(), 1);
    tty.type_in("\x1b");
    std::thread::sleep(LOOKED);
    tty.type_in("n");
    tty.show("it says so", |screen| screen.contains("denied: laptop wants to hand over \"project\""));
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Declined)));
    assert_eq!(state(&devices.a, id), "in charge here");
}

#[test]
fn session_is_handed_over_and_taken_back_from_the_screen() {
    let devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    let mut tty = cockpit(&devices.a);
    tty.show("the session is there", |screen| screen.contains("project"));
    tty.type_in("2h");
    tty.show("devices are listed", |screen| screen.contains("› server  connected"));
    tty.type_in("\r");
    tty.show("the plan is shown", |screen| screen.contains("Hand it over to server"));
    std::thread::sleep(LOOKED);
    tty.type_in("y");
    tty.show("it is said where it is", |screen| screen.contains(" is at server now"));
    assert_eq!(state(&devices.b, id), "in charge here");
    let row =
        |screen: &str| screen.lines().any(|line| line.starts_with("› ") && line.trim_end().ends_with("at server"));
    tty.show("it is listed there", row);
    tty.type_in("t");
    tty.show("a yes is asked for", |screen| screen.contains("Take this session over?"));
    std::thread::sleep(LOOKED);
    tty.type_in("y");
    tty.show("it is said where it is", |screen| screen.contains(" is at laptop now"));
    assert_eq!(state(&devices.a, id), "in charge here");
}

#[test]
fn daemon_that_goes_away_is_looked_for() {
    let mut devices = Devices::paired(CEDE);
    let mut tty = cockpit(&devices.a);
    devices.a.kill();
    tty.show("it is said", |screen| screen.contains("looking for it"));
    devices.a.start();
    tty.show("it is found", |screen| !screen.contains("looking for it"));
}

#[test]
fn terminal_is_put_back_however_the_cockpit_ends() {
    let devices = Devices::paired(CEDE);
    let script =
        "before=$(stty -g); echo begin; \"$CEDE\"; echo code-$?; test \"$before\" = \"$(stty -g)\" && echo put-back";
    let child = |tty: &Tty| -> i32 {
        let listed = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", tty.pid())).unwrap();
        listed.split_whitespace().next().unwrap().parse().unwrap()
    };
    for signal in ["TERM", "INT", "HUP"] {
        let mut tty = Tty::shell(&devices.a, script);
        tty.show("it is drawn", |screen| screen.contains("2 Sessions"));
        let signal: nix::sys::signal::Signal = format!("SIG{signal}").parse().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child(&tty)), signal).unwrap();
        let screen = tty.show("it is put back", |screen| screen.contains("put-back"));
        assert!(screen.contains("begin") && screen.contains("code-130") && !screen.contains("Sessions"), "{screen}");
    }
    let mut tty = Tty::shell(&devices.a, script);
    tty.show("it is drawn", |screen| screen.contains("2 Sessions"));
    tty.resize(20, 60);
    tty.show("it says that it is too small", |screen| screen.contains("needs 80 columns"));
    tty.resize(24, 80);
    tty.show("it is drawn again", |screen| screen.contains("5 Devices"));
    tty.type_in("\x03");
    tty.show("it is put back", |screen| screen.contains("code-0") && screen.contains("put-back"));
}

/// The cockpit as a job of a shell.
fn job(device: &Device) -> (Tty, nix::unistd::Pid) {
    let mut tty = Tty::shell(device, "PS1='shell> ' exec sh -i");
    tty.see("shell> ");
    tty.type_in("\"$CEDE\"\n");
    tty.show("it is drawn", |screen| screen.contains("2 Sessions"));
    let listed = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", tty.pid())).unwrap();
    let child = listed.split_whitespace().next().unwrap().parse().unwrap();
    (tty, nix::unistd::Pid::from_raw(child))
}

/// The shell has a terminal in which one types, sees what one types, and where.
fn shell_answers(tty: &mut Tty, round: usize) {
    // Its prompt comes last. What it said of an earlier stop is seen again before it has the terminal.
    let prompt = |screen: &str| screen.trim_end().ends_with("shell>");
    tty.show("the shell is there", |screen| prompt(screen) && screen.matches("Stopped").count() == round);
    tty.type_in(&format!(
        "stty -a | tr ' ;' '\\n\\n' | grep -cx -e echo -e icanon -e isig -e opost; echo typed-{round}\n"
    ));
    tty.show("it is put back", |screen| screen.contains(&format!("4\ntyped-{round}")) && prompt(screen));
    let drawn = tty.everything();
    let last = |sequence: &[u8]| drawn.windows(sequence.len()).rposition(|part| part == sequence);
    assert!(last(b"\x1b[?25h") > last(b"\x1b[?25l") && last(b"\x1b[?2004l") > last(b"\x1b[?2004h"));
}

/// The shell lets it go on: it is drawn, and hears keys.
fn goes_on(tty: &mut Tty) {
    tty.type_in("fg\n");
    tty.show("it is drawn again", |screen| screen.contains("2 Sessions") && !screen.contains("shell>"));
    tty.type_in("?");
    tty.show("keys are heard", |screen| screen.contains("Keys"));
    tty.type_in("q");
    tty.show("it is there", |screen| screen.contains("2 Sessions"));
}

#[test]
fn terminal_is_the_shells_while_the_cockpit_is_stopped_and_drawn_afresh_after() {
    use nix::sys::signal::{Signal, kill};
    let devices = Devices::paired(CEDE);
    let (mut tty, cockpit) = job(&devices.a);
    for round in 1..=2 {
        tty.type_in("\x1a");
        shell_answers(&mut tty, round);
        goes_on(&mut tty);
    }
    // Stopped as nobody can prevent, in the middle of the screen; what goes on is drawn afresh.
    kill(cockpit, Signal::SIGSTOP).unwrap();
    tty.type_in("\n");
    tty.show("the shell is there", |screen| screen.contains("Stopped"));
    tty.type_in("fg\n");
    tty.show("it is drawn again", |screen| screen.contains("5 Devices") && !screen.contains("Stopped"));
    tty.type_in("q");
    tty.show("it ended", |screen| screen.trim_end().ends_with("shell>"));
}

#[test]
fn cockpit_that_is_asked_from_outside_to_stop_stops_once() {
    use nix::sys::signal::{Signal, kill};
    let devices = Devices::paired(CEDE);
    let (mut tty, cockpit) = job(&devices.a);
    let stopped = || std::fs::read_to_string(format!("/proc/{cockpit}/stat")).unwrap().contains(") T ");
    for round in 0..10 {
        // Once, and then as often as fits before it stops: it is one request.
        kill(cockpit, Signal::SIGTSTP).unwrap();
        while round > 0 && !stopped() {
            kill(cockpit, Signal::SIGTSTP).unwrap();
        }
        tty.show("the shell is there", |screen| screen.trim_end().ends_with("shell>"));
        assert!(stopped());
        tty.type_in(&format!("clear; echo typed-{round}\n"));
        let answered = format!("typed-{round}\nshell>");
        tty.show("the shell answers", |screen| screen.trim_end().ends_with(&answered));
        goes_on(&mut tty);
    }
    tty.type_in("q");
    tty.show("it ended", |screen| screen.trim_end().ends_with("shell>"));
}

/// Without a shell nobody could let it go on.
#[test]
fn cockpit_in_a_window_of_its_own_does_not_stop() {
    let devices = Devices::paired(CEDE);
    let mut tty = cockpit(&devices.a);
    tty.type_in("\x1a");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(tty.pid().cast_signed()), nix::sys::signal::Signal::SIGTSTP)
        .unwrap();
    tty.type_in("?");
    tty.show("it goes on", |screen| screen.contains("Keys"));
}

/// Shows: D-10
#[test]
fn terminal_of_another_device_is_looked_on_at_from_the_screen() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let begun = a.typed(&["run", "--detach", "--name", "work", "--", "sh", "-c", "printf 'seen-%s' 42; sleep 1000"]);
    assert!(begun.status.success(), "{begun:?}");
    let mut tty = cockpit(b);
    tty.type_in("2");
    tty.show("it is listed", |screen| screen.lines().any(|line| line.starts_with('›') && line.contains("work")));
    tty.type_in("o");
    let waiting = question(a);
    assert_eq!((waiting.kind.as_str(), waiting.device.as_str()), ("observe", "server"));
    decide(a, &waiting, true);
    tty.show("it is seen", |screen| screen.contains("seen-42"));
    tty.type_in("\x1dd");
    tty.show("the cockpit is back", |screen| screen.contains("2 Sessions") && !screen.contains("seen-42"));
    // The same key at home.
    let mut tty = cockpit(a);
    tty.type_in("2");
    tty.show("it is listed", |screen| screen.lines().any(|line| line.starts_with('›') && line.contains("work")));
    tty.type_in("o");
    tty.show("it is seen", |screen| screen.contains("seen-42"));
}

#[test]
fn terminal_that_says_no_size_is_drawn_on_as_a_usual_one() {
    let devices = Devices::paired(CEDE);
    let mut tty = Tty::shell(&devices.a, "stty rows 0 columns 0; exec \"$CEDE\"");
    tty.show("it is drawn", |screen| screen.contains("2 Sessions") && screen.contains("5 Devices"));
    tty.type_in("q");
    assert_eq!(tty.end(), End::Code(0));
}

#[test]
fn question_that_waits_rings() {
    let devices = Devices::paired(CEDE);
    let (mut tty, _, _asked) = asked(&devices);
    tty.see("\x07\x1b]9;cede: laptop wants to hand a session over (");
}

#[test]
fn without_a_terminal_one_screen_is_printed() {
    let devices = Devices::paired(CEDE);
    let printed = devices.a.typed(&[]);
    assert_eq!(printed.status.code(), Some(0));
    assert_eq!(printed.stdout, devices.a.typed(&["status"]).stdout);
}
