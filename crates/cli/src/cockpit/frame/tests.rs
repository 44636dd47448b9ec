//! Golden screens.

use cede_wire::control::{Answer, ApprovalSummary, SessionSummary, exit};
use cede_wire::id::SessionId;

use super::*;
use crate::cockpit::keys::Key;
use crate::cockpit::state::News;
use crate::cockpit::state::tests::{Desk, short};
use crate::show::samples;

fn desk() -> Desk {
    let mut desk = Desk::new();
    let session = |n: u8, title: &str| SessionSummary { id: SessionId::new([n; 16]), ..samples::session(title) };
    let wide = session(0xb0, "日本語のタイトルがとても長い場合でも表は崩れない");
    let away =
        SessionSummary { owner: "server".into(), state: "at server".into(), here: false, ..session(0xb1, "Tests") };
    desk.hear(News::Sessions(vec![session(0xa1, "Fix the login"), wide, away]));
    desk.hear(News::Transfers(vec![samples::transfer(cede_wire::control::TransferState::Sending)]));
    desk.hear(News::Questions(vec![short(0x7c)]));
    desk
}

#[test]
fn question_is_the_first_thing_on_the_screen() {
    let mut desk = desk();
    desk.press(Key::Down);
    insta::assert_snapshot!(desk.draw());
}

#[test]
fn sessions_of_all_devices_are_listed() {
    let mut desk = desk();
    desk.press(Key::Char('2'));
    desk.press(Key::Down);
    insta::assert_snapshot!(desk.draw());
}

#[test]
fn long_question_is_read_page_by_page() {
    let mut desk = desk();
    desk.hear(News::Questions(vec![samples::approval()]));
    desk.press(Key::Down);
    desk.press(Key::Enter);
    desk.press(Key::Char(' '));
    insta::assert_snapshot!(desk.draw());
}

#[test]
fn device_is_chosen_for_a_session() {
    let mut desk = desk();
    desk.press(Key::Char('2'));
    desk.press(Key::Char('h'));
    insta::assert_snapshot!(desk.draw());
}

#[test]
fn plan_is_shown_before_the_yes() {
    let mut desk = desk();
    desk.press(Key::Char('2'));
    desk.press(Key::Char('h'));
    let asked = desk.press(Key::Enter).unwrap();
    desk.hear(News::Ended(asked, Ok(Answer::Plan(Box::new(samples::plan())))));
    insta::assert_snapshot!(desk.draw());
}

#[test]
fn help_names_every_key() {
    let mut desk = desk();
    desk.press(Key::Char('?'));
    insta::assert_snapshot!(desk.draw());
}

#[test]
fn without_a_daemon_the_way_to_start_it_is_shown() {
    let mut desk = Desk { cockpit: Cockpit::default(), now: Moment::default(), size: (80, 24) };
    desk.hear(News::Away(fault::local(
        exit::NO_DAEMON,
        "the daemon is not running",
        "nothing listens",
        "start it: cede up",
    )));
    insta::assert_snapshot!(desk.draw());
}

#[test]
fn failure_is_said_above_the_keys() {
    let mut desk = desk();
    let failed =
        fault::local(exit::REFUSED, "the session was not handed over", "its operator said no", "cede to server");
    desk.hear(News::Ended(crate::cockpit::state::Act::Take { session: "a1".into() }, Err(failed)));
    insta::assert_snapshot!(desk.draw());
}

/// Shows: L-6
#[test]
fn nothing_that_a_peer_names_repaints_the_screen() {
    let bad = "x\u{1b}[2J\r\u{202e}\nsafe\u{200b}".to_owned();
    let mut desk = desk();
    let question = ApprovalSummary { title: bad.clone(), device: bad.clone(), directory: bad.clone(), ..short(1) };
    desk.hear(News::Questions(vec![question]));
    let session = SessionSummary { title: bad.clone(), owner: bad.clone(), state: bad.clone(), ..samples::session("") };
    desk.hear(News::Sessions(vec![session]));
    for pane in '1'..='5' {
        desk.press(Key::Char(pane));
        desk.press(Key::Down);
        let text = desk.draw();
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}', '\u{200b}']) && !text.contains("\nsafe"), "{text}");
        desk.press(Key::Enter);
        assert!(!desk.draw().contains(['\u{1b}', '\r', '\u{202e}', '\u{200b}']));
        desk.press(Key::Esc);
    }
}

#[test]
fn large_screen_shows_rows_of_every_pane() {
    let mut desk = desk();
    desk.size = (100, 50);
    desk.press(Key::Down);
    insta::assert_snapshot!(desk.draw());
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let desk = desk();
    let area = Rect::new(0, 0, 80, 24);
    let styles = |colour| {
        let mut buffer = Buffer::empty(area);
        frame(&desk.cockpit, desk.now, colour, &mut buffer);
        let plain = |cell: &&ratatui_core::buffer::Cell| cell.fg == Color::Reset && cell.modifier.is_empty();
        buffer.content().iter().filter(|cell| !plain(cell)).count()
    };
    assert_eq!(styles(false), 0);
    assert!(styles(true) > 0);
}
