//! What the demo tells: each step as it happens, and the timeline at the end.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cede_wire::control::{Answer, MoveReport, Phase, Progress, ReplyBody, SessionSummary, exit};
use cede_wire::session::AgentKind;

use crate::demo::evidence::Evidence;
use crate::demo::homes::Device;
use crate::demo::recorded::Planted;
use crate::demo::since;
use crate::demo::stand_in::Programs;
use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::progress::word;
use crate::show::sessions;
use crate::terminal::Terminal;
use crate::units;
use crate::verbs::now;

/// The story so far.
#[derive(Debug)]
pub(super) struct Story<'a> {
    terminal: &'a Terminal,
    begun: Instant,
    said: Said,
    /// When the command of the present move was typed, since the demo began.
    typed_ms: u64,
    moves: Vec<Moved>,
    place: String,
}

/// One move of the story.
#[derive(Debug)]
struct Moved {
    from: &'static str,
    to: &'static str,
    /// When it began, since the demo began.
    at_ms: u64,
    report: MoveReport,
}

/// What the operators said meanwhile: told when no bar is on the screen.
#[derive(Debug, Clone, Default)]
pub(super) struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    /// Adds a sentence.
    pub(super) fn add(&self, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<'a> Story<'a> {
    /// Begins.
    pub(super) fn new(terminal: &'a Terminal) -> Self {
        Self {
            terminal,
            begun: Instant::now(),
            said: Said::default(),
            typed_ms: 0,
            moves: Vec::new(),
            place: String::new(),
        }
    }

    /// Where it is told.
    pub(super) fn terminal(&self) -> &'a Terminal {
        self.terminal
    }

    /// Where the operators leave what they said.
    pub(super) fn said(&self) -> Said {
        self.said.clone()
    }

    /// Two daemons run.
    pub(super) fn devices(&self, root: &Path, programs: &Programs) {
        self.terminal.say(format!("two daemons, laptop and server, in throw-away homes below {}", root.display()));
        if programs.stands_in {
            self.terminal.say(
                "OpenCode is not installed: the demo writes a database like one of OpenCode 1.18 and stands in for its \
                 export and import; outside of the demo that takes OpenCode itself",
            );
        }
    }

    /// They know each other.
    pub(super) fn paired(&self, comparison: &str) {
        self.terminal.say(format!("paired: both showed {comparison}"));
    }

    /// Sessions of the agents are there.
    pub(super) fn planted(&self, planted: &Planted) {
        let names: Vec<&str> = planted.sessions.keys().map(|agent| agent.name()).collect();
        self.terminal.say(format!("recorded sessions planted: {}", names.join(", ")));
        for (agent, why) in &planted.missing {
            self.terminal.say(format!("no session of {}: {why}", agent.name()));
        }
    }

    /// They are listed, as a person would list them.
    pub(super) fn listed(&mut self, sessions: &[SessionSummary]) {
        self.typed("laptop", "cede ls");
        self.terminal.talk(&sessions::page(sessions, now()));
    }

    /// There is something to move.
    pub(super) fn made(&self, session: &SessionSummary, evidence: &Evidence) {
        self.terminal.say(format!(
            "a repository with {}, {} in git status and a commit that was never pushed",
            units::count(evidence.files.len() as u64, "file", "files"),
            units::count(evidence.status.len() as u64, "line", "lines"),
        ));
        self.terminal.say(match session.agent {
            AgentKind::Files | AgentKind::Terminal => {
                "the directory itself moves, as a session without an agent".to_owned()
            }
            AgentKind::Codex | AgentKind::ClaudeCode | AgentKind::OpenCode => format!(
                "the {} session \"{}\" moves; no agent is installed in these homes, so it is carried only",
                session.agent.name(),
                session.title
            ),
        });
    }

    /// A command, as a person would have typed it.
    pub(super) fn typed(&mut self, device: &str, command: &str) {
        self.typed_ms = since(self.begun);
        let mut page = Page::default();
        page.line([faint(format!("{device}$ ")), strong(command)]);
        self.terminal.talk(&page);
    }

    /// A move ended.
    pub(super) fn moved(&mut self, report: &MoveReport, from: &'static str, to: &'static str, place: &Path) {
        self.said.take().into_iter().for_each(|text| self.terminal.say(text));
        report.notes.iter().for_each(|note| self.terminal.say(format!("note: {note}")));
        self.place = format!("{to}, in {}", place.display());
        self.moves.push(Moved { from, to, at_ms: self.typed_ms, report: report.clone() });
    }

    /// What is at a device is what left the other one.
    pub(super) fn equal(&self, device: &str, evidence: &Evidence) {
        let mut page = Page::default();
        page.line([
            Span::new(Ink::Good, "equal"),
            plain(format!(
                " at {device}: {} of conversation, git status, HEAD, {}",
                units::bytes(evidence.conversation_bytes),
                units::count(evidence.files.len() as u64, "file hash", "file hashes")
            )),
        ]);
        self.terminal.talk(&page);
    }

    /// The work went on.
    pub(super) fn worked(&self) {
        self.terminal.say("at server the work goes on: one file changed, one added");
    }

    /// The end of a daemon's log, for whoever looks for a cause.
    pub(super) fn last_words(&self, device: &Device) {
        let mut page = Page::default();
        for line in device.last_words() {
            page.line([faint(format!("{} | ", device.name)), plain(line)]);
        }
        self.terminal.talk(&page);
    }

    /// The timeline, and where the session is; the exit code comes back.
    pub(super) fn end(&self, kept: bool) -> u8 {
        let left = if kept { "both homes were kept" } else { "nothing is left behind" };
        let text = format!("everything held in {}; {left}", units::millis(since(self.begun)));
        let mut page = self.timeline();
        page.gap();
        page.line([plain("the session is at "), strong(&self.place)]);
        page.line([Span::new(Ink::Good, &text)]);
        self.terminal.data(&page);
        self.terminal.reply(&ReplyBody::Done(Answer::Said { text }));
        exit::OK
    }

    fn timeline(&self) -> Page {
        let mut rows = vec![["time", "move", "phase", "bytes", "in charge"].map(faint).to_vec()];
        for moved in &self.moves {
            rows.extend(moved.report.timeline.iter().map(|step| row(moved, step)));
        }
        let mut page = Page::default();
        page.table(0, rows, &[4]);
        self.moves.iter().for_each(|moved| page.line(sum(moved)));
        page
    }
}

fn row(moved: &Moved, step: &Progress) -> Vec<Span> {
    let travelled = if step.phase == Phase::Transferring { units::bytes(step.bytes) } else { String::new() };
    vec![
        plain(format!("{:>8}", units::millis(moved.at_ms + step.at_ms))),
        plain(format!("{} → {}", moved.from, moved.to)),
        strong(word(step.phase)),
        plain(travelled),
        plain(&step.in_charge),
    ]
}

fn sum(moved: &Moved) -> Vec<Span> {
    let Moved { from, to, report, .. } = moved;
    vec![faint(format!(
        "{from} → {to}: {} travelled, {} were there, {}, paused for {}",
        units::bytes(report.bytes_sent),
        units::bytes(report.bytes_present),
        units::millis(report.took_ms),
        units::millis(report.pause_ms)
    ))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Global;
    use crate::show::samples;

    #[test]
    fn timeline_says_who_owned_it_when() {
        let terminal = Terminal::new(&Global::default());
        let mut story = Story::new(&terminal);
        story.moves.push(Moved { from: "laptop", to: "server", at_ms: 2_000, report: samples::report() });
        insta::assert_snapshot!(story.timeline().render(false));
    }
}
