//! The person's own terminal while another one is drawn on it: raw, and put back however the command ends.

pub(crate) mod keys;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use cede_wire::control::terminal::TerminalSize;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, getpgrp, getsid, kill_current_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::page::{cut, safe};

/// The terminal in raw mode. It is put back when this value goes: at the end, after an error, in a panic.
#[derive(Debug)]
pub(crate) struct Raw {
    before: Termios,
}

impl Raw {
    /// None: the standard input is no terminal, or the standard output is none.
    pub(crate) fn enter() -> Option<Self> {
        if !is_there() {
            return None;
        }
        let before = tcgetattr(std::io::stdin()).ok()?;
        let raw = Self { before };
        raw.again().ok()?;
        Some(raw)
    }

    /// The same once more: somebody else may have had the terminal. It is still put back as it was before the first time.
    pub(crate) fn again(&self) -> std::io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        Ok(tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?)
    }
}

/// The keyboard by a door of its own, at which nobody waits: what was announced there may be somebody else's by the time it is
/// read, where a shell had the terminal in between. Another user's terminal has no second door; then it is the usual one.
pub(crate) fn keyboard() -> std::io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let own = File::options().read(true).custom_flags(flags).open("/dev/stdin");
    own.or_else(|_| std::io::stdin().as_fd().try_clone_to_owned().map(File::from))
}

/// Stops every process of this command for a while, as Ctrl-Z does.
pub(crate) fn stop_for_a_while() {
    let _stopped = kill_current_process_group(Signal::STOP);
}

/// Whether a process of the same session, but of another group, began this command: one that hears that it stopped. In a window
/// of its own nobody could let it go on.
pub(crate) fn has_a_shell() -> bool {
    let group = getpgrp();
    let begun_by = stat(group).and_then(|(parent, ..)| Pid::from_raw(parent));
    let (Some(parent), Ok(session)) = (begun_by, getsid(None)) else { return false };
    stat(parent).is_some_and(|(_, its_group, its_session)| {
        its_group != group.as_raw_pid() && its_session == session.as_raw_pid()
    })
}

/// Parent, group and session of a process.
fn stat(process: Pid) -> Option<(i32, i32, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
    // The name of the program comes before, in parentheses, and may hold anything.
    let mut words = text.rsplit_once(") ")?.1.split(' ').skip(1).map(str::parse);
    let mut next = || words.next()?.ok();
    Some((next()?, next()?, next()?))
}

impl Drop for Raw {
    fn drop(&mut self) {
        // The screen first: a person who has a shell again must be able to read it.
        let _closed = draw(LEAVE);
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Leaves the other screen, and takes back reports of mouse and focus, margins, key modes, colours and character sets.
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?2026l\
                       \x1b7\x1b[r\x1b8\x1b[?1l\x1b>\x1b[?25h\x1b[0 q\x1b[4l\x1b[?7h\x1b(B\x0f\x1b[m\r\n";

/// The size of a terminal that says none: the narrowest that is common.
pub(crate) const USUAL: TerminalSize = TerminalSize { rows: 24, columns: 80 };

/// Whether a person sits in front of a terminal.
pub(crate) fn is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The size of the person's terminal, where it says one.
pub(crate) fn size() -> Option<TerminalSize> {
    size_of(std::io::stdout())
}

/// The size of a terminal to draw on or to write to: one that does not say it has the usual one.
pub(crate) fn size_or_usual(terminal: impl AsFd) -> TerminalSize {
    size_of(terminal).unwrap_or(USUAL)
}

fn size_of(terminal: impl AsFd) -> Option<TerminalSize> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(TerminalSize { rows: size.ws_row, columns: size.ws_col })
}

/// Draws what came of the other terminal.
pub(crate) fn draw(bytes: &[u8]) -> std::io::Result<()> {
    let mut to = std::io::stdout().lock();
    to.write_all(bytes)?;
    to.flush()
}

/// A sentence of ours in the last line, until something is drawn over it.
pub(crate) fn remark(text: &str) {
    let size = size_or_usual(std::io::stdout());
    let text = cut(&safe(text), usize::from(size.columns).saturating_sub(9));
    let line = format!("\x1b7\x1b[{};1H\x1b[0;7m cede: {text} \x1b[m\x1b[K\x1b8", size.rows);
    let _closed = draw(line.as_bytes());
}
