//! The readers of the command, as functions over bytes, for tests that feed them nonsense.

use std::time::Duration;

use cede_wire::control::terminal::TerminalEvent;
use cede_wire::control::{Answer, ReplyBody, TransferState};
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;

use crate::client::parse_reply;
use crate::cockpit::decoder as cockpit;
use crate::config::Config;
use crate::page::Page;
use crate::show::inventory::{self, Paths};
use crate::show::samples;
use crate::{fault, mcp, progress, show, tty};

/// What a person sees of one line of the daemon's; none: it is no reply.
pub fn shown(line: &[u8], now: u64) -> Option<String> {
    let page = match parse_reply(line).ok()? {
        ReplyBody::Progress(step) => progress::phase_line(&step),
        ReplyBody::Planned(plan) => inventory::plan(&plan, Paths::All),
        ReplyBody::Sending(transfer) => show::transfers::one(&transfer),
        ReplyBody::Terminal(TerminalEvent::Piece(piece)) => show::conversation::page(&piece),
        ReplyBody::Terminal(other) => Page::of(format!("{other:?}")),
        ReplyBody::Pairing(event) => Page::of(format!("{event:?}")),
        ReplyBody::Task(task) => Page::of(show::tasks::progress(&task)),
        ReplyBody::Telling(letter) => show::letters::told(&letter),
        ReplyBody::Done(answer) => show::answer(&answer, Paths::All, now),
        ReplyBody::Failed(failure) => fault::page(&failure),
    };
    Some(page.render_within(false, usize::from(tty::USUAL.columns)) + &page.render_uncut())
}

/// The characters of the cockpit's screen after these lines of the daemon's and these keys, row by row; true: a key was a
/// yes to a question that nobody had time to read.
pub fn screen(lines: &[&[u8]], typed: &[u8], (width, height): (u16, u16)) -> (Vec<String>, bool) {
    let answers = lines.iter().filter_map(|line| match parse_reply(line).ok()? {
        ReplyBody::Done(answer) => Some(Ok(answer)),
        ReplyBody::Failed(failure) => Some(Err(failure)),
        ReplyBody::Progress(_)
        | ReplyBody::Planned(_)
        | ReplyBody::Pairing(_)
        | ReplyBody::Sending(_)
        | ReplyBody::Terminal(_)
        | ReplyBody::Task(_)
        | ReplyBody::Telling(_) => None,
    });
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let yes = cockpit::drawn(answers, typed, &mut buffer);
    let rows = buffer.content().chunks(usize::from(width).max(1));
    (rows.map(|row| row.iter().map(Cell::symbol).collect()).collect(), yes)
}

/// The keys of the cockpit in pieces of what was typed, and how many bytes wait for their rest.
pub fn keys(pieces: &[&[u8]]) -> (Vec<String>, usize) {
    cockpit::keys(pieces)
}

/// What is typed into a hosted terminal: what is for the program, and how many commands are for `cede` itself.
pub fn typed(pieces: &[&[u8]]) -> (Vec<u8>, usize) {
    let mut keys = tty::keys::Keys::default();
    let (mut program, mut own) = (Vec::new(), 0);
    for meant in pieces.iter().flat_map(|piece| keys.read(piece)) {
        match meant {
            tty::keys::Meant::Typed(bytes) => program.extend(bytes),
            tty::keys::Meant::Detach
            | tty::keys::Meant::Keyboard(_)
            | tty::keys::Meant::LetGo
            | tty::keys::Meant::Help => own += 1,
        }
    }
    (program, own)
}

/// What an agent is answered that calls a tool while no daemon runs: as text, and as JSON. None: it is no call.
pub fn called(call: &[u8]) -> Option<(String, String)> {
    mcp::decoder::called(call)
}

/// A configuration, or what is said of one that cannot be taken.
///
/// # Errors
/// What is wrong with it.
pub fn configuration(text: &str) -> Result<Option<Duration>, String> {
    Config::parse(text).map(|config| config.questions_expire).map_err(|error| error.to_string())
}

/// Answers to begin with.
pub fn samples() -> Vec<ReplyBody> {
    let (task, report) = samples::task();
    let answers = [
        Answer::Status(Box::new(samples::status())),
        Answer::Sessions { sessions: vec![samples::session("Tests")], silent: vec!["server".to_owned()] },
        Answer::Devices { devices: vec![samples::device("server", false)] },
        Answer::Plan(Box::new(samples::plan())),
        Answer::Moved(Box::new(samples::report())),
        Answer::Approvals { approvals: vec![samples::approval(), samples::files_question()] },
        Answer::Inbox { letters: vec![samples::letter()], more: 1, notes: vec!["a note".to_owned()] },
        Answer::Letter { letter: Box::new(samples::letter()), text: "line\nline".to_owned() },
        Answer::Transfers { transfers: vec![samples::transfer(TransferState::Sending)] },
        Answer::Tasks { tasks: vec![task.clone()] },
        Answer::Task { task: Box::new(task), text: "look".to_owned(), report: Some(Box::new(report)) },
        Answer::Said { text: "done".to_owned() },
    ];
    answers.into_iter().map(ReplyBody::Done).collect()
}
