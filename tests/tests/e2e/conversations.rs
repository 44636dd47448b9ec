//! Reading along in the conversation of a coding agent, here and at another device.

use std::io::Write as _;

use cede_agent::terminal::End;
use cede_tests::devices::Answers;
use cede_tests::devices::tty::Tty;
use cede_wire::authority::Rule;
use cede_wire::control::terminal::{Keyboard, TerminalEvent, ViewRequest};
use cede_wire::conversation::{Bookmark, Gap, Voice};
use cede_wire::member::Capability;

use super::*;

/// Somebody who reads along.
struct Reading {
    answers: Answers,
    said: Vec<String>,
    gaps: Vec<Gap>,
    read: Option<Bookmark>,
    away: u32,
}

impl Reading {
    fn begin(device: &Device, session: SessionId, read: Option<Bookmark>) -> Self {
        let (session, keyboard) = (session.to_string(), Keyboard::No);
        let view = ViewRequest { session, keyboard, size: None, from: None, read };
        Self { answers: device.open(Command::View(view)).unwrap(), said: Vec::new(), gaps: Vec::new(), read, away: 0 }
    }

    fn line(&mut self) -> ReplyBody {
        let body = self.answers.line().expect("the daemon answers");
        match &body {
            ReplyBody::Terminal(TerminalEvent::Piece(piece)) => {
                self.gaps.extend(piece.gap);
                self.read = Some(piece.next);
                self.said.extend(piece.said.iter().map(|said| format!("{:?}: {}", said.voice, said.text.trim_end())));
            }
            ReplyBody::Terminal(TerminalEvent::Away { .. }) => self.away += 1,
            _ => {}
        }
        body
    }

    fn until(&mut self, wanted: &str) {
        while !self.said.iter().any(|said| said.contains(wanted)) {
            if let ReplyBody::Failed(failure) = self.line() {
                panic!("waiting for {wanted}: {}", text(&failure));
            }
        }
    }
}

fn turn(number: usize) -> [String; 2] {
    [format!("{:?}: turn {number}: look at the tests", Voice::Person), format!("{:?}: answer {number}", Voice::Agent)]
}

fn turns(numbers: core::ops::Range<usize>) -> Vec<String> {
    numbers.flat_map(turn).collect()
}

fn accept(device: &Device) {
    let (capability, rule, seconds) = (Capability::Observe, Rule::Accept, Some(3_600));
    device.ask(Command::SetRule { device: "server".to_owned(), capability, rule, seconds }).unwrap();
}

/// Shows: D-12, D-13
#[test]
fn conversation_of_each_agent_is_read_along_as_it_grows() {
    let devices = Devices::strangers(CEDE);
    let a = &devices.a;
    let tree = project(a);
    for agent in [AgentKind::Codex, AgentKind::ClaudeCode, AgentKind::OpenCode] {
        let around = Surroundings::plain(&a.home, &a.state(), "/usr/bin:/bin".into());
        let mut story = Story::example("mock", "mock-model");
        let native = plant(agent, &around, &tree, [7; 16], &story).unwrap();
        let id = SessionKey { agent, native }.id();
        let mut reading = Reading::begin(a, id, None);
        reading.until("a test shows it");
        let first = reading.said.clone();
        assert!(first[0].contains("Why does the parser") && first[1].starts_with("Call: "), "{first:?}");
        assert!(first[1].contains("grep -n read_line") && first[2] == "Result: 14: read_line", "{first:?}");
        assert_eq!(first[3], "Agent: It stops at a line without a line feed.");
        assert_eq!((first.len(), reading.gaps.len()), (8, 0), "{first:?}");
        let mut third = story.turns[1].clone();
        (third.prompt, third.answer) = ("And the docs?".to_owned(), "They say so now.".to_owned());
        story.turns.push(third);
        plant(agent, &around, &tree, [7; 16], &story).unwrap();
        reading.until("They say so now.");
        assert_eq!((reading.said[..8].to_vec(), reading.said.len(), reading.gaps.len()), (first, 12, 0));
        assert_eq!(reading.said[8], "Person: And the docs?");
    }
}

/// Shows: D-12
#[test]
fn what_is_not_finished_is_not_told_and_a_person_reads_it_on_the_screen() {
    let devices = Devices::strangers(CEDE);
    let a = &devices.a;
    let tree = project(a);
    let planted = claude::plant(&a.home, &tree, 2);
    let mut screen = Tty::open(a, &["watch", &planted.id.to_string()]);
    screen.see("you read along");
    screen.see("answer 1");
    let half = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"half \u001b]52;c;cm0=\u0007\u202e"#;
    let file = claude::place(&a.home, &planted).unwrap();
    let mut file = std::fs::File::options().append(true).open(file).unwrap();
    file.write_all(half.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(900));
    assert!(!screen.look().contains("half"));
    file.write_all(b"whole\"}]}}\n").unwrap();
    screen.see("whole");
    let seen = String::from_utf8_lossy(&screen.everything()).into_owned();
    assert!(!["\u{1b}]52", "\u{7}", "\u{202e}"].iter().any(|bad| seen.contains(bad)), "{seen:?}");
    screen.type_in("\x03");
    screen.see("goes on");
    assert_eq!(screen.end(), End::Code(0));
    let refused = Tty::open(a, &["drive", &planted.id.to_string()]).end_with("only a hosted terminal");
    assert_eq!(refused, End::Code(i32::from(exit::USAGE)));
}

/// Shows: D-10, D-12, D-13
#[test]
fn conversation_at_another_device_is_told_after_a_yes_and_survives_cuts() {
    let devices = Devices::strangers(CEDE);
    let tree = project(&devices.a);
    let planted = claude::plant(&devices.a.home, &tree, 3);
    let devices = devices.joined();
    let (a, b) = (&devices.a, &devices.b);
    // A look at the store that is a moment old serves a peer's question.
    wait_until("the session is listed", || a.session(planted.id).is_some());
    let mut reading = Reading::begin(b, planted.id, None);
    let waiting = question(a);
    assert_eq!((waiting.kind.as_str(), waiting.device.as_str()), ("observe", "server"));
    assert!(reading.said.is_empty());
    decide(a, &waiting, true);
    reading.until("answer 2");
    accept(a);
    for cut in 0..3 {
        claude::add_turn(&a.home, &planted, &tree, 3 + 2 * cut);
        // So many links that the oldest ones are closed.
        for _ in 0..5 {
            b.ask(Command::Address { device: "laptop".to_owned(), address: a.address.clone() }).unwrap();
        }
        claude::add_turn(&a.home, &planted, &tree, 4 + 2 * cut);
        reading.until(&format!("answer {}", 4 + 2 * cut));
    }
    assert_eq!(reading.said, turns(0..9), "each once, in order");
    assert!(reading.gaps.is_empty() && reading.away >= 1, "{:?}, {} cuts", reading.gaps, reading.away);
    // One who comes back much later goes on where it was.
    let mut again = Reading::begin(b, planted.id, reading.read);
    drop(reading);
    claude::add_turn(&a.home, &planted, &tree, 9);
    again.until("answer 9");
    assert_eq!((again.said, again.gaps.len()), (turns(9..10), 0));
}

/// Shows: D-12
#[test]
fn conversation_that_moves_away_is_told_by_its_new_owner_only() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let tree = project(a);
    let planted = claude::plant(&a.home, &tree, 3);
    let mut reading = Reading::begin(a, planted.id, None);
    reading.until("answer 2");
    a.move_with(MoveRequest { carry_only: true, ..request("server", planted.id) }).unwrap();
    let over = loop {
        if let ReplyBody::Done(Answer::TerminalEnded(end)) = reading.line() {
            break end;
        }
    };
    assert!(over.goes_on && over.text.contains("is at server now"), "{}", over.text);
    assert_eq!((reading.said, reading.gaps.len()), (turns(0..3), 0), "nothing of the tombstone");
    let rule = Rule::Accept;
    let (device, capability, seconds) = ("laptop".to_owned(), Capability::Observe, Some(3_600));
    b.ask(Command::SetRule { device, capability, rule, seconds }).unwrap();
    let at_b = b.home.join("project");
    let mut there = Reading::begin(a, planted.id, reading.read);
    claude::add_turn(&b.home, &planted, &at_b, 3);
    there.until("answer 3");
    assert_eq!((there.said, there.gaps.len()), (turns(3..4), 0), "the bookmark holds where the session is now");
}
