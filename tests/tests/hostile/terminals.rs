//! A paired device that lies about terminals: as a viewer of ours, and as the host of one that is looked on at here.

use cede_tests::devices::{Answers, Device, Devices, wait_until};
use cede_wire::authority::Rule;
use cede_wire::control::terminal::{Keyboard, TerminalEvent, TerminalSize, ViewRequest};
use cede_wire::control::{Answer, Command, Failure, ReplyBody};
use cede_wire::custody::FencingToken;
use cede_wire::id::SessionId;
use cede_wire::limits::{TERMINAL_OUTPUT_BYTES, TERMINAL_WINDOW_BYTES};
use cede_wire::member::Capability;
use cede_wire::message::{ListedSession, PeerMessage};
use cede_wire::refusal::Refusal;
use cede_wire::session::{Activity, AgentKind, NativeId, SessionInfo, SessionKey};
use cede_wire::terminal::{TerminalBody, TerminalMessage, Wish};

use super::{CEDE, Liar, unharmed};

/// Hosts something that nobody here looks on at.
fn hosted(device: &Device, script: &str) -> SessionId {
    let begun = device.typed(&["run", "--detach", "--name", "work", "--", "sh", "-c", script]);
    assert!(begun.status.success(), "{}", String::from_utf8_lossy(&begun.stderr));
    device.status().sessions.into_iter().find(|session| session.title == "work").unwrap().id
}

fn rule(device: &Device, capability: Capability, rule: Rule) {
    let seconds = Some(3_600);
    device.ask(Command::SetRule { device: "server".to_owned(), capability, rule, seconds }).unwrap();
}

impl Liar {
    fn tell(&mut self, viewing: u64, body: TerminalBody) {
        self.say(PeerMessage::Terminal(TerminalMessage { viewing, body }));
    }

    /// As long as the daemon listens at all.
    fn flood(&mut self, viewing: u64, body: &TerminalBody, times: u64) {
        for _ in 0..times {
            if !self.shout(PeerMessage::Terminal(TerminalMessage { viewing, body: body.clone() })) {
                return;
            }
        }
    }

    fn open(&mut self, viewing: u64, session: SessionId, wish: Wish) {
        self.tell(viewing, TerminalBody::Open { session, wish, from: Some(0), size: None });
    }

    fn hear_of<T>(&mut self, viewing: u64, what: &str, mut wanted: impl FnMut(TerminalBody) -> Option<T>) -> T {
        self.hear(what, |message| match message {
            PeerMessage::Terminal(message) if message.viewing == viewing => wanted(message.body),
            _ => None,
        })
    }

    fn hear_no(&mut self, viewing: u64) -> Refusal {
        self.hear_of(viewing, "a no", |body| match body {
            TerminalBody::Refused { refusal, .. } => Some(refusal),
            TerminalBody::Output { .. } | TerminalBody::Opened | TerminalBody::State { .. } => {
                panic!("something of the terminal was shown: {body:?}")
            }
            _ => None,
        })
    }

    fn hear_state(&mut self, viewing: u64, yours: bool) -> (u16, u16) {
        self.hear_of(viewing, "who drives", |body| match body {
            TerminalBody::State { yours: said, size, .. } if said == yours => Some(size),
            _ => None,
        })
    }

    /// Bytes of a viewing that came up to now and for a moment more, or enough of them.
    fn output(&mut self, viewing: u64, enough: usize) -> usize {
        let (mut bytes, pause) = (0, std::time::Duration::from_millis(700));
        while bytes < enough
            && let Ok(message) = self.heard.recv_timeout(pause)
        {
            if let PeerMessage::Terminal(TerminalMessage {
                viewing: of,
                body: TerminalBody::Output { bytes: some, .. },
            }) = message
                && of == viewing
            {
                bytes += some.len();
            }
        }
        bytes
    }
}

const BODIES: [TerminalBody; 9] = [
    TerminalBody::Beat,
    TerminalBody::Keyboard,
    TerminalBody::LetGo,
    TerminalBody::Leave,
    TerminalBody::Resized(0, u16::MAX),
    TerminalBody::Taken(u64::MAX),
    TerminalBody::Typed(Vec::new()),
    TerminalBody::Asking,
    TerminalBody::Ended { code: None, signal: None },
];

/// Shows: D-10
#[test]
fn nothing_of_a_terminal_is_shown_to_one_that_has_no_right_to_it() {
    let mut devices = Devices::paired(CEDE);
    let session = hosted(&devices.a, "echo secret; exec sleep 1000");
    rule(&devices.a, Capability::Observe, Rule::Refuse);
    let mut liar = Liar::among(&mut devices);
    for body in BODIES {
        liar.tell(1, body);
    }
    liar.open(2, session, Wish::Watch);
    assert_eq!(liar.hear_no(2), Refusal::Declined);
    // Neither is told whether there is such a terminal.
    liar.open(3, SessionId::new([9; 16]), Wish::Watch);
    assert_eq!(liar.hear_no(3), Refusal::Declined);
    // To look on is not to drive, and a session that is no terminal is none.
    rule(&devices.a, Capability::Observe, Rule::Accept);
    rule(&devices.a, Capability::Drive, Rule::Refuse);
    liar.open(4, session, Wish::Drive);
    assert_eq!(liar.hear_no(4), Refusal::Declined);
    liar.open(5, SessionId::new([9; 16]), Wish::Watch);
    assert_eq!(liar.hear_no(5), Refusal::NotOwner);
    unharmed(&devices.a);
}

/// Shows: D-3, D-10, D-11
#[test]
fn viewer_that_types_without_the_keyboard_types_nothing_and_a_flood_is_slowed() {
    let mut devices = Devices::paired(CEDE);
    let session = hosted(&devices.a, "PS1='> ' exec sh -i");
    rule(&devices.a, Capability::Observe, Rule::Accept);
    let mut liar = Liar::among(&mut devices);
    liar.open(1, session, Wish::Watch);
    liar.hear_state(1, false);
    let touch = |name: &str| format!("touch {}\n", devices.a.home.join(name).display()).into_bytes();
    liar.tell(1, TerminalBody::Typed(touch("typed")));
    liar.flood(1, &TerminalBody::Keyboard, 100);
    liar.tell(1, TerminalBody::Typed(touch("typed")));
    for body in BODIES {
        liar.flood(7, &body, 40);
    }
    for viewing in 10..60 {
        liar.open(viewing, session, Wish::DriveIfFree);
        liar.tell(viewing, TerminalBody::Leave);
    }
    unharmed(&devices.a);
    assert!(devices.a.status().approvals.len() <= 3, "{:?}", devices.a.status().approvals);
    // One that comes again and may drive is heard whatever that one said.
    rule(&devices.a, Capability::Drive, Rule::Refuse);
    let mut driver = super::again_beside(&liar, &devices.a);
    drop(liar);
    rule(&devices.a, Capability::Drive, Rule::Accept);
    driver.open(1, session, Wish::Drive);
    driver.hear_state(1, true);
    driver.tell(1, TerminalBody::Typed(touch("driven")));
    wait_until("what the driver types is done", || devices.a.home.join("driven").exists());
    assert!(!devices.a.home.join("typed").exists());
    // Faster than a person changes seats: the record does not grow with it.
    for _ in 0..150 {
        driver.tell(1, TerminalBody::LetGo);
        driver.tell(1, TerminalBody::Keyboard);
    }
    driver.is_still_served();
    let Ok(Answer::Log { lines, .. }) = devices.a.ask(Command::Log { tail: None, verify: false }) else {
        panic!("no log")
    };
    let changes = lines.iter().filter(|line| line.kind == "keyboard").count();
    assert!((2..150).contains(&changes), "{changes} entries");
    unharmed(&devices.a);
}

/// Shows: D-10
#[test]
fn sizes_pastes_and_windows_beyond_what_was_agreed_take_no_memory() {
    let mut devices = Devices::paired(CEDE);
    let session = hosted(&devices.a, "exec sleep 1000");
    rule(&devices.a, Capability::Observe, Rule::Accept);
    rule(&devices.a, Capability::Drive, Rule::Accept);
    let mut liar = Liar::among(&mut devices);
    liar.open(1, session, Wish::Drive);
    liar.hear_state(1, true);
    for (rows, columns) in [(u16::MAX, u16::MAX), (0, 0), (u16::MAX, 0), (1, u16::MAX)] {
        liar.tell(1, TerminalBody::Resized(rows, columns));
        let (rows, columns) = liar.hear_of(1, "the size", |body| match body {
            TerminalBody::State { size, .. } => Some(size),
            _ => None,
        });
        assert!((1..=300).contains(&rows) && (1..=500).contains(&columns), "{rows} x {columns}");
    }
    // The program does not read.
    liar.flood(1, &TerminalBody::Typed(vec![b'x'; TERMINAL_OUTPUT_BYTES]), 150);
    liar.tell(1, TerminalBody::Typed(vec![b'x'; TERMINAL_OUTPUT_BYTES + 1]));
    let over = liar.hear_of(1, "the end of the viewing", |body| match body {
        TerminalBody::Refused { refusal, .. } => Some(refusal),
        _ => None,
    });
    assert_eq!(over, Refusal::Protocol);
    unharmed(&devices.a);
    devices.a.typed(&["run", "--detach", "--name", "busy", "--", "yes", "and so on"]);
    let busy = devices.a.status().sessions.into_iter().find(|session| session.title == "busy").unwrap().id;
    liar.tell(2, TerminalBody::Open { session: busy, wish: Wish::Watch, from: None, size: None });
    let ahead = liar.output(2, usize::MAX);
    assert!(ahead as u64 <= TERMINAL_WINDOW_BYTES + TERMINAL_OUTPUT_BYTES as u64, "{ahead} bytes ahead");
    liar.tell(2, TerminalBody::Taken(u64::MAX));
    let more = liar.output(2, 4 << 20);
    assert!(more > 0);
    unharmed(&devices.a);
}

/// A terminal that the liar says it hosts, and one of this device who wants to see it.
fn looked_on_at(liar: &mut Liar, device: &Device) -> (Answers, u64) {
    let key = SessionKey { agent: AgentKind::Terminal, native: NativeId::parse("theirs").unwrap() };
    let activity = Activity::Idle { evidence: String::new() };
    let (title, directory, version) = ("theirs".to_owned(), "/".to_owned(), String::new());
    let info = SessionInfo { key, title, directory, turns: 0, bytes: 0, version, updated_unix_ms: 1, activity };
    let listed = ListedSession { info, owner: liar.local.device(), token: FencingToken::FIRST };
    let size = Some(TerminalSize { rows: 24, columns: 80 });
    let view = ViewRequest { session: "theirs".to_owned(), keyboard: Keyboard::No, size, from: None, read: None };
    let answers = device.open(Command::View(view)).unwrap();
    let mut viewing = None;
    while viewing.is_none() {
        viewing = liar.hear("a viewing", |message| match message {
            PeerMessage::SessionsQuery => Some(None),
            PeerMessage::Terminal(TerminalMessage { viewing, body: TerminalBody::Open { .. } }) => Some(Some(viewing)),
            _ => None,
        });
        if viewing.is_none() {
            liar.say(PeerMessage::Sessions(vec![listed.clone()]));
        }
    }
    (answers, viewing.unwrap())
}

fn over(answers: Answers, seen: &mut dyn FnMut(&ReplyBody)) -> Failure {
    answers.end(seen).expect("an end").expect_err("a refusal")
}

/// Shows: D-8, D-10
#[test]
fn host_of_a_terminal_draws_and_names_nothing_that_it_should_not() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let (answers, viewing) = looked_on_at(&mut liar, &devices.a);
    let evil = "\x1b]52;c;cm0=\x07\x1b[6n\u{202e}";
    let output = |bytes: &[u8]| TerminalBody::Output { fresh: None, bytes: bytes.to_vec(), next: Some(u64::MAX) };
    liar.tell(viewing, TerminalBody::Opened);
    // About viewings that nobody asked for.
    for body in [TerminalBody::Opened, output(b"x"), TerminalBody::Ended { code: Some(0), signal: None }] {
        liar.tell(viewing ^ 1, body);
    }
    liar.tell(
        viewing,
        TerminalBody::State {
            yours: true,
            driver: Some(evil.repeat(1_000)),
            held: true,
            viewers: u32::MAX,
            size: (0, u16::MAX),
        },
    );
    liar.tell(viewing, TerminalBody::Note(evil.repeat(1_000)));
    liar.tell(viewing, output(format!("{evil}seen\x1b]0;").as_bytes()));
    liar.tell(viewing, TerminalBody::Refused { refusal: Refusal::Declined, detail: evil.repeat(1_000) });
    let mut drawn = Vec::new();
    let mut said = Vec::new();
    let failure = over(answers, &mut |body| match body {
        ReplyBody::Terminal(TerminalEvent::Output { bytes, .. }) => drawn.extend(bytes.0.clone()),
        ReplyBody::Terminal(TerminalEvent::State(state)) => said.push(state.driver.clone().unwrap_or_default()),
        ReplyBody::Terminal(TerminalEvent::Note { text }) => said.push(text.clone()),
        _ => {}
    });
    said.push(failure.why);
    assert_eq!(String::from_utf8(drawn).unwrap(), "seen");
    assert!(said.iter().all(|text| !text.contains(['\x1b', '\u{202e}']) && text.chars().count() < 2_000), "{said:?}");
    unharmed(&devices.a);
}

/// Shows: D-10
#[test]
fn host_that_sends_more_than_the_window_is_cut_off() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let (answers, viewing) = looked_on_at(&mut liar, &devices.a);
    liar.tell(viewing, TerminalBody::Opened);
    let long = vec![b'x'; TERMINAL_OUTPUT_BYTES + 1];
    liar.tell(viewing, TerminalBody::Output { fresh: None, bytes: long, next: None });
    assert!(over(answers, &mut |_| ()).why.contains("more than was agreed"));
    let (answers, viewing) = looked_on_at(&mut liar, &devices.a);
    let piece = TerminalBody::Output { fresh: None, bytes: vec![b'x'; TERMINAL_OUTPUT_BYTES], next: None };
    liar.flood(viewing, &piece, 1_200);
    // This client reads nothing: what comes for it waits nowhere without a bound.
    unharmed(&devices.a);
    assert!(over(answers, &mut |_| ()).why.contains("more than was agreed"));
    liar.is_still_served();
}
