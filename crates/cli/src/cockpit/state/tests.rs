//! What keys mean, held against what was on the screen.

use cede_wire::control::exit;
use cede_wire::id::SessionId;

use super::*;
use crate::cockpit::{ARM, frame};
use crate::show::samples;

/// A cockpit with a screen of this size.
pub(in crate::cockpit) struct Desk {
    pub(in crate::cockpit) cockpit: Cockpit,
    pub(in crate::cockpit) now: Moment,
    pub(in crate::cockpit) size: (u16, u16),
}

impl Desk {
    /// The daemon was heard of, and the first frame drawn long ago.
    pub(in crate::cockpit) fn new() -> Self {
        let now = Moment { since: Duration::from_secs(60), unix_ms: samples::NOW };
        let mut desk = Self { cockpit: Cockpit::default(), now, size: (80, 24) };
        let session = SessionSummary { id: SessionId::new([0xa1; 16]), ..samples::session("Fix the login") };
        let status = StatusReport { sessions: vec![session], ..samples::status() };
        desk.hear(News::Status(Box::new(status)));
        desk.hear(News::Letters(vec![samples::letter()]));
        desk.wait(5_000);
        desk
    }

    pub(in crate::cockpit) fn hear(&mut self, news: News) {
        self.cockpit.news(news, self.now);
        self.draw();
    }

    /// Time passes, and the screen is drawn anew.
    pub(in crate::cockpit) fn wait(&mut self, ms: u64) {
        self.now.since += Duration::from_millis(ms);
        self.draw();
    }

    pub(in crate::cockpit) fn draw(&mut self) -> String {
        use ratatui_core::backend::TestBackend;
        let mut screen = ratatui_core::terminal::Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        let mut drawn = None;
        screen.draw(|to| drawn = Some(frame::frame(&self.cockpit, self.now, false, to.buffer_mut()))).unwrap();
        self.cockpit.drawn(drawn.unwrap(), self.now);
        screen.backend().to_string()
    }

    pub(in crate::cockpit) fn press(&mut self, key: Key) -> Option<Act> {
        let act = self.cockpit.key(key, self.now);
        self.draw();
        act
    }

    pub(in crate::cockpit) fn type_in(&mut self, keys: &str) -> Option<Act> {
        keys.chars().map(|c| self.press(Key::Char(c))).last().flatten()
    }

    fn questions(&mut self, questions: Vec<ApprovalSummary>) {
        self.hear(News::Questions(questions));
    }

    fn said(&self) -> String {
        self.cockpit.said.as_ref().map_or_else(String::new, |page| page.render(false))
    }
}

/// A question that fits on the screen.
pub(in crate::cockpit) fn short(first: u8) -> ApprovalSummary {
    let mut id = [0x11; 8];
    id[0] = first;
    ApprovalSummary { id: ApprovalId::new(id), executables: vec!["run.sh".into()], ..samples::approval() }
}

fn decided(act: Option<Act>) -> Option<(String, bool)> {
    match act {
        Some(Act::Decide { approval, yes, .. }) => Some((approval, yes)),
        _ => None,
    }
}

/// Shows: L-12, U-7
#[test]
fn yes_names_the_whole_question_that_stands_on_the_screen() {
    let mut desk = Desk::new();
    desk.questions(vec![short(1)]);
    desk.press(Key::Char('1'));
    desk.press(Key::Down);
    desk.wait(ARM.as_millis() as u64);
    assert_eq!(decided(desk.type_in("y")), Some((short(1).id.to_string(), true)));
    assert_eq!(decided(desk.type_in("y")), None, "it is answered already");
    desk.hear(News::Ended(
        Act::Decide { approval: short(1).id.to_string(), yes: true, about: "laptop wants it".into() },
        Ok(Answer::Said { text: "allowed".into() }),
    ));
    assert_eq!(desk.said(), "allowed: laptop wants it\n");
}

/// Shows: L-7, L-12
#[test]
fn question_that_is_longer_than_the_screen_is_read_to_its_end_first() {
    let mut desk = Desk::new();
    desk.press(Key::Char('1'));
    desk.wait(5_000);
    assert_eq!(decided(desk.type_in("y")), None);
    assert!(desk.said().contains("more lines: read to the end"), "{}", desk.said());
    let mut pages = 0;
    let act = loop {
        desk.wait(1_000);
        if let Some(act) = desk.type_in("y") {
            break act;
        }
        assert_eq!(desk.press(Key::Char(' ')), None);
        pages += 1;
        assert!(pages < 20, "{}", desk.draw());
    };
    assert!(pages >= 2);
    assert_eq!(decided(Some(act)), Some((samples::approval().id.to_string(), true)));
    desk.press(Key::Esc);
    assert_eq!(decided(desk.type_in("n")), None, "that was answered");
}

/// Shows: L-12
#[test]
fn skipping_the_middle_of_a_question_is_not_reading_it() {
    let mut desk = Desk::new();
    desk.press(Key::Char('1'));
    desk.press(Key::Enter);
    desk.press(Key::End);
    desk.wait(5_000);
    assert_eq!(decided(desk.type_in("y")), None);
    assert!(desk.said().contains("more lines"), "{}", desk.said());
}

/// Shows: L-12
#[test]
fn yes_before_there_was_time_to_look_is_none() {
    let mut desk = Desk::new();
    desk.questions(vec![short(1)]);
    desk.press(Key::Char('1'));
    desk.press(Key::Down);
    assert_eq!(decided(desk.type_in("y")), None);
    desk.press(Key::Esc);
    desk.wait(ARM.as_millis() as u64 - 10);
    assert_eq!(decided(desk.type_in("y")), None);
    desk.wait(20);
    assert!(decided(desk.type_in("y")).is_some());
}

/// Shows: L-12
#[test]
fn key_is_never_about_a_question_that_moved_under_the_cursor() {
    let mut desk = Desk::new();
    desk.questions(vec![short(5), short(6)]);
    desk.press(Key::Char('1'));
    desk.press(Key::Down);
    desk.wait(5_000);
    assert_eq!(desk.cockpit.chosen(Pane::Questions).map(|(id, _)| id), Some(short(5).id.to_string()));
    // One that sorts before it comes: the chosen one stays chosen.
    desk.questions(vec![short(1), short(5), short(6)]);
    desk.wait(5_000);
    assert_eq!(decided(desk.type_in("n")), Some((short(5).id.to_string(), false)));
    // It is gone: what stands at its place now is not chosen, and nothing is answered.
    desk.questions(vec![short(1), short(6)]);
    desk.wait(5_000);
    assert_eq!(desk.cockpit.chosen(Pane::Questions), None);
    for key in ["y", "n"] {
        assert_eq!(desk.type_in(key), None);
        assert_eq!(desk.said(), "nothing is chosen here\n");
    }
    desk.press(Key::Down);
    desk.wait(5_000);
    assert_eq!(decided(desk.type_in("y")), Some((short(6).id.to_string(), true)));
}

/// Shows: L-12
#[test]
fn question_that_changed_since_it_was_drawn_is_looked_at_anew() {
    let mut desk = Desk::new();
    let uncounted = ApprovalSummary { inventory: Vec::new(), ..short(1) };
    desk.questions(vec![uncounted]);
    desk.press(Key::Char('1'));
    desk.press(Key::Down);
    desk.wait(5_000);
    // The key was pressed over the old text; the new one came before the next frame.
    desk.cockpit.news(News::Questions(vec![short(1)]), desk.now);
    assert_eq!(decided(desk.cockpit.key(Key::Char('y'), desk.now)), None);
    desk.draw();
    desk.wait(5_000);
    assert!(decided(desk.type_in("y")).is_some());
}

#[test]
fn seconds_that_pass_change_no_question() {
    let mut desk = Desk::new();
    desk.questions(vec![short(1)]);
    desk.press(Key::Char('1'));
    desk.press(Key::Down);
    for left in (100..110).rev() {
        desk.questions(vec![ApprovalSummary { expires_in_s: left, ..short(1) }]);
        desk.wait(100);
    }
    assert!(decided(desk.type_in("y")).is_some());
}

#[test]
fn too_small_a_screen_shows_and_answers_nothing() {
    let mut desk = Desk::new();
    desk.questions(vec![short(1)]);
    desk.press(Key::Char('1'));
    desk.press(Key::Down);
    desk.wait(5_000);
    desk.size = (79, 24);
    let text = desk.draw();
    assert!(text.contains("needs 80 columns and 24 lines, here are 79 and 24"), "{text}");
    assert_eq!(decided(desk.type_in("y")), None);
    assert_eq!(decided(desk.type_in("n")), None);
    assert_eq!(desk.type_in("\u{1b}"), None);
}

#[test]
fn question_that_ends_while_it_is_read_is_said_to_be_over() {
    let mut desk = Desk::new();
    desk.questions(vec![short(1)]);
    desk.press(Key::Char('1'));
    desk.press(Key::Down);
    desk.press(Key::Enter);
    desk.questions(Vec::new());
    assert_eq!((desk.cockpit.over.as_ref(), desk.said().as_str()), (None, "question 01111111 is over\n"));
}

#[test]
fn session_is_handed_over_after_its_plan_and_a_yes() {
    let mut desk = Desk::new();
    desk.press(Key::Char('2'));
    assert_eq!(desk.type_in("h"), None);
    let Some(Act::Plan(asked)) = desk.press(Key::Enter) else { panic!("no plan") };
    assert!(asked.dry_run && asked.device == "server" && asked.session.is_some());
    desk.hear(News::Ended(Act::Plan(asked.clone()), Ok(Answer::Plan(Box::new(samples::plan())))));
    assert_eq!(desk.type_in("y"), None, "the plan came on the screen only now");
    desk.wait(5_000);
    let Some(Act::To(request)) = desk.type_in("y") else { panic!("{}", desk.draw()) };
    assert!(!request.dry_run && request.confirm_large && request.confirm_secrets, "{request:?}");
    assert_eq!(request.session, asked.session);
    assert_eq!(desk.cockpit.over, None);
}

#[test]
fn plan_that_nobody_waits_for_any_more_opens_nothing() {
    let mut desk = Desk::new();
    desk.press(Key::Char('2'));
    desk.type_in("h");
    let Some(Act::Plan(asked)) = desk.press(Key::Enter) else { panic!("no plan") };
    desk.press(Key::Esc);
    desk.hear(News::Ended(Act::Plan(asked), Ok(Answer::Plan(Box::new(samples::plan())))));
    assert_eq!(desk.cockpit.over, None);
}

#[test]
fn session_elsewhere_is_taken_after_a_yes_and_not_handed_over() {
    let away = SessionSummary {
        owner: "server".into(),
        here: false,
        id: SessionId::new([0xa2; 16]),
        updated_unix_ms: samples::NOW,
        ..samples::session("Tests")
    };
    let mut desk = Desk::new();
    desk.hear(News::Sessions(vec![away.clone()]));
    desk.press(Key::Char('2'));
    desk.press(Key::Home);
    desk.press(Key::Home);
    assert_eq!(desk.type_in("h"), None);
    assert!(desk.said().contains("in charge at server: take it first"), "{}", desk.said());
    desk.type_in("t");
    desk.wait(5_000);
    assert_eq!(desk.type_in("y"), Some(Act::Take { session: away.id.to_string() }));
    desk.type_in("t");
    desk.wait(5_000);
    assert_eq!(desk.type_in("n"), None);
    assert_eq!(desk.cockpit.over, None);
}

#[test]
fn move_is_withdrawn_after_a_yes() {
    let mut desk = Desk::new();
    desk.press(Key::Char('3'));
    desk.type_in("c");
    desk.wait(5_000);
    let handoff = samples::progress(cede_wire::control::Phase::Offered).handoff.unwrap().to_string();
    assert_eq!(desk.type_in("y"), Some(Act::Cancel { handoff }));
}

#[test]
fn message_is_read_and_marked() {
    let mut desk = Desk::new();
    desk.press(Key::Char('4'));
    let act = desk.press(Key::Enter);
    assert_eq!(act, Some(Act::Read { letter: "3fa2c1d9".into() }));
    let answer = Answer::Letter { letter: Box::new(samples::letter()), text: "first\u{1b}[2J\nsecond".into() };
    desk.hear(News::Ended(act.unwrap(), Ok(answer)));
    let text = desk.draw();
    assert!(text.contains("| first\\u{1b}[2J") && text.contains("| second"), "{text}");
    assert_eq!(desk.type_in("d"), Some(Act::Mark { letter: "3fa2c1d9".into(), acted: true }));
}

#[test]
fn without_the_daemon_nothing_is_done_and_it_is_looked_for() {
    let mut desk = Desk::new();
    desk.questions(vec![short(1)]);
    desk.press(Key::Char('1'));
    desk.press(Key::Down);
    desk.wait(5_000);
    desk.hear(News::Away(fault::local(exit::NO_DAEMON, "the daemon is not running", "nothing listens", "cede up")));
    assert_eq!(desk.type_in("y"), None);
    assert!(desk.said().contains("nothing was done"), "{}", desk.said());
    assert!(desk.draw().contains("the daemon is not running; looking for it"));
    assert_eq!(desk.type_in("q"), Some(Act::Quit));
    desk.questions(vec![short(1)]);
    assert!(!desk.draw().contains("looking for it"));
    assert!(decided(desk.type_in("y")).is_some());
}

#[test]
fn question_that_waits_for_two_seconds_calls_once_and_says_no_words_of_the_peer() {
    let mut desk = Desk::new();
    desk.questions(vec![short(1)]);
    assert_eq!(desk.cockpit.ring(desk.now), None);
    desk.wait(2_000);
    assert_eq!(desk.cockpit.ring(desk.now).as_deref(), Some("laptop wants to hand a session over (01111111)"));
    assert_eq!(desk.cockpit.ring(desk.now), None);
    desk.questions(vec![short(2)]);
    desk.wait(1_000);
    desk.questions(Vec::new());
    desk.wait(5_000);
    assert_eq!(desk.cockpit.ring(desk.now), None, "it was answered in time");
    desk.questions(vec![ApprovalSummary { held: true, ..short(3) }]);
    desk.wait(60_000);
    assert_eq!(desk.cockpit.ring(desk.now), None, "a rule keeps it for later");
}
