//! What the cockpit knows, and what a key means. Pure: news, keys and moments go in, acts come out.
//!
//! One contract: **an act is about the row that was on the screen when its key was pressed, and a yes is to what stood
//! there whole.** Rows are chosen by their ids; where the chosen one goes, nothing is chosen.

mod answering;
mod choosing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cede_wire::control::{Answer, ApprovalSummary, Failure, LetterSummary, MoveRequest, SessionSummary, StatusReport};
use cede_wire::control::{Plan, TransferSummary};
use cede_wire::id::ApprovalId;

use super::keys::Key;
use super::seen::{Pane, Seen};
use crate::fault;
use crate::page::{Ink, Page, Span, plain};
use crate::show::inventory::{self, Paths};
use crate::show::letters;

/// When something happens: since the cockpit began, and milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) since: Duration,
    pub(crate) unix_ms: u64,
}

/// Everything that is known between two frames.
#[derive(Debug, Default)]
pub(crate) struct Cockpit {
    pub(super) seen: Seen,
    /// Why the daemon does not answer.
    pub(super) away: Option<Failure>,
    pub(super) pane: Option<Pane>,
    /// By pane: the row's id and where it was.
    chosen: BTreeMap<Pane, (String, usize)>,
    pub(super) over: Option<Over>,
    /// What came of the last act.
    pub(super) said: Option<Page>,
    /// What was on the screen the last time.
    looked: Option<Looked>,
    most_scroll: usize,
    room: usize,
    /// Since when each question is known, and whether that was rung.
    rung: BTreeMap<ApprovalId, (Duration, bool)>,
    /// Questions that were answered and whose end was not heard of yet.
    answered: BTreeSet<String>,
}

/// What lies over the panes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Over {
    pub(super) what: Lies,
    /// Lines above the screen.
    pub(super) scroll: usize,
}

/// See [`Over`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Lies {
    Help,
    /// A question, whole: its id.
    Question(String),
    /// Something to read.
    Text(Page),
    /// A message: its id, and what it says.
    Letter(String, Page),
    /// To which device a session goes: the devices as they were when they were asked for, and the chosen one.
    Choice {
        session: String,
        title: String,
        devices: Vec<(String, bool)>,
        at: usize,
    },
    /// What would travel is looked at.
    Planning(MoveRequest),
    /// An act that needs a yes, and what it means.
    Confirm(Page, Box<Act>),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Answer a question: its id, whole.
    Decide { approval: String, yes: bool, about: String },
    /// Look at what would travel.
    Plan(MoveRequest),
    /// Hand a session over.
    To(MoveRequest),
    /// Take one over.
    Take { session: String },
    /// Withdraw a move.
    Cancel { handoff: String },
    /// Withdraw a sending of files.
    StopTransfer { transfer: String },
    /// Read a message.
    Read { letter: String },
    /// Say what became of one.
    Mark { letter: String, acted: bool },
    /// Look on at a hosted terminal.
    Attach { session: String },
    /// Look on at one of another device.
    Watch { session: String },
    /// Go on with a session: a command of this device's daemon.
    Resume { command: String },
    /// Ask for everything now.
    Refresh,
    /// Draw everything anew.
    Redraw,
    /// Stop this process as Ctrl-Z does.
    Suspend,
    /// Leave.
    Quit,
}

/// What came.
#[derive(Debug)]
pub(crate) enum News {
    Questions(Vec<ApprovalSummary>),
    Status(Box<StatusReport>),
    Sessions(Vec<SessionSummary>),
    Transfers(Vec<TransferSummary>),
    Letters(Vec<LetterSummary>),
    /// The daemon does not answer.
    Away(Failure),
    /// An act is over.
    Ended(Act, Result<Answer, Failure>),
}

/// What can be said yes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Subject {
    /// A question, without the time that it has left.
    Question(Box<ApprovalSummary>),
    /// See [`Lies::Confirm`].
    Confirm(Page),
}

impl Subject {
    /// A question as it is compared: the time that it has left is not what is asked.
    pub(super) fn of(question: &ApprovalSummary) -> Self {
        Self::Question(Box::new(ApprovalSummary { expires_in_s: 0, ..question.clone() }))
    }
}

/// What a frame showed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Drawn {
    /// What could be answered, with the width in which it was laid out, its lines that were shown, and how many it has.
    pub(super) subject: Option<(Subject, usize, std::ops::Range<usize>, usize)>,
    /// Lines that did not fit below what lies over the panes.
    pub(super) most_scroll: usize,
    /// Lines of the list or text that is moved in.
    pub(super) room: usize,
}

/// What was on the screen, how much of it from its beginning on, and since when.
#[derive(Debug)]
struct Looked {
    subject: Subject,
    width: usize,
    read: usize,
    lines: usize,
    since: Duration,
}

impl Cockpit {
    /// Takes news.
    pub(crate) fn news(&mut self, news: News, now: Moment) {
        if !matches!(news, News::Away(_) | News::Ended(..)) {
            self.away = None;
        }
        match news {
            News::Questions(questions) => self.seen.questions = questions,
            News::Status(status) => self.seen.take_status(status),
            News::Sessions(sessions) => self.seen.take_sessions(sessions),
            News::Transfers(transfers) => self.seen.transfers = transfers,
            News::Letters(letters) => self.seen.letters = letters,
            News::Away(failure) => self.away = Some(failure),
            News::Ended(act, result) => self.ended(act, result, now),
        }
        self.settle(now);
    }

    /// Takes what a frame showed: only that can be answered.
    pub(crate) fn drawn(&mut self, drawn: Drawn, now: Moment) {
        (self.most_scroll, self.room) = (drawn.most_scroll, drawn.room.max(1));
        if let Some(over) = &mut self.over {
            over.scroll = over.scroll.min(drawn.most_scroll);
        }
        let Some((subject, width, shown, lines)) = drawn.subject else {
            self.looked = None;
            return;
        };
        let same = |looked: &&mut Looked| looked.subject == subject && (looked.width, looked.lines) == (width, lines);
        match self.looked.as_mut().filter(same) {
            Some(looked) if shown.start <= looked.read => looked.read = looked.read.max(shown.end),
            Some(_) => {}
            None => {
                let read = if shown.start == 0 { shown.end } else { 0 };
                self.looked = Some(Looked { subject, width, read, lines, since: now.since });
            }
        }
    }

    /// Questions that have waited so long that the person is called, once for each.
    pub(crate) fn ring(&mut self, now: Moment) -> Option<String> {
        let due = |(since, rung): &(Duration, bool)| !rung && now.since >= *since + super::CALL_AFTER;
        let mut calls = self.seen.questions.iter().filter(|one| !one.held);
        let found = calls.find(|one| self.rung.get(&one.id).is_some_and(due))?;
        let text = format!("{} ({})", found.wish(), found.id.short());
        if let Some((_, rung)) = self.rung.get_mut(&found.id) {
            *rung = true;
        }
        Some(text)
    }

    /// What a key means now.
    pub(crate) fn key(&mut self, key: Key, now: Moment) -> Option<Act> {
        let anywhere = [('c', Act::Quit), ('z', Act::Suspend), ('l', Act::Redraw)];
        if let Some((_, act)) = anywhere.into_iter().find(|(letter, _)| key == Key::Ctrl(*letter)) {
            return Some(act);
        }
        self.said = None;
        let act = match self.over.take() {
            Some(over) => self.key_over(over, key, now),
            None => self.key_in_pane(key, now),
        };
        let needs_the_daemon = !matches!(act, None | Some(Act::Quit | Act::Refresh | Act::Resume { .. }));
        if needs_the_daemon && self.away.is_some() {
            self.say("the daemon does not answer: nothing was done");
            return None;
        }
        if let Some(Act::Decide { approval, .. }) = &act {
            self.answered.insert(approval.clone());
        }
        act
    }

    fn key_in_pane(&mut self, key: Key, now: Moment) -> Option<Act> {
        if let Some(by) = self.motion(key) {
            self.step(by);
            return None;
        }
        match key {
            Key::Char('q') => return Some(Act::Quit),
            Key::Char('?') => self.open(Lies::Help),
            Key::Char('r') => return Some(Act::Refresh),
            Key::Tab => self.turn(1),
            Key::BackTab => self.turn(Pane::ALL.len() - 1),
            Key::Char(digit @ '1'..='5') => self.pane = Pane::ALL.get((digit as usize) - ('1' as usize)).copied(),
            Key::Char(_) | Key::Enter => return self.key_on_row(key, now),
            Key::Ctrl(_)
            | Key::Esc
            | Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End
            | Key::Other => {}
        }
        None
    }

    /// By how many rows or lines a key moves.
    fn motion(&self, key: Key) -> Option<isize> {
        match key {
            Key::Up | Key::Char('k') => Some(-1),
            Key::Down | Key::Char('j') => Some(1),
            Key::PageUp => Some(-self.page()),
            Key::PageDown | Key::Char(' ') => Some(self.page()),
            Key::Home | Key::Char('g') => Some(isize::MIN),
            Key::End | Key::Char('G') => Some(isize::MAX),
            Key::Char(_) | Key::Ctrl(_) | Key::Enter | Key::Esc | Key::Tab | Key::BackTab | Key::Other => None,
        }
    }

    fn key_over(&mut self, over: Over, key: Key, now: Moment) -> Option<Act> {
        if matches!(key, Key::Esc | Key::Char('q')) {
            return None;
        }
        if let Some(by) = self.motion(key) {
            self.over = Some(self.moved(over, by));
            return None;
        }
        match (&over.what, key) {
            (Lies::Question(id), Key::Char(answer @ ('y' | 'n'))) => {
                let id = id.clone();
                self.over = Some(over);
                self.answer(&id, answer == 'y', now)
            }
            (Lies::Confirm(page, act), Key::Char('y')) => {
                match self.may_say_yes(&Subject::Confirm(page.clone()), now) {
                    Ok(()) => Some((**act).clone()),
                    Err(why) => {
                        self.over = Some(over);
                        self.say(why);
                        None
                    }
                }
            }
            (Lies::Confirm(..), Key::Char('n')) => None,
            (Lies::Letter(id, _), Key::Char(mark @ ('d' | 'x'))) => {
                Some(Act::Mark { letter: id.clone(), acted: mark == 'd' })
            }
            (Lies::Choice { session, devices, at, .. }, Key::Enter) => {
                let device = devices.get(*at)?.0.clone();
                Some(self.plan(session.clone(), device))
            }
            (Lies::Help | Lies::Text(_), Key::Enter) => None,
            _ => {
                self.over = Some(over);
                None
            }
        }
    }

    fn moved(&self, mut over: Over, by: isize) -> Over {
        if let Lies::Choice { devices, at, .. } = &mut over.what {
            *at = at.saturating_add_signed(by).min(devices.len().saturating_sub(1));
        } else {
            over.scroll = over.scroll.saturating_add_signed(by).min(self.most_scroll);
        }
        over
    }

    /// Looks at what would travel, before anything does.
    fn plan(&mut self, session: String, device: String) -> Act {
        let directory = self.seen.session(&session).map_or_else(String::new, |one| one.directory.clone());
        let request = MoveRequest { device, session: Some(session), directory, ..MoveRequest::default() };
        self.open(Lies::Planning(request.clone()));
        Act::Plan(MoveRequest { dry_run: true, ..request })
    }

    fn ended(&mut self, act: Act, result: Result<Answer, Failure>, now: Moment) {
        if let Act::Decide { approval, .. } = &act {
            self.answered.remove(approval);
        }
        let waits = |over: &Over| matches!(&over.what, Lies::Planning(asked) if is_plan_of(&act, asked));
        let planned = self.over.as_ref().is_some_and(waits);
        match (act, result) {
            (Act::Plan(request), Ok(Answer::Plan(plan))) if planned => self.open(confirm_plan(request, &plan)),
            (Act::Plan(_), Ok(_)) => {}
            (Act::Read { letter }, Ok(Answer::Letter { letter: about, text })) if self.over.is_none() => {
                let page = letters::letter(&about, &text, now.unix_ms);
                self.open(Lies::Letter(letter, page));
            }
            (Act::Decide { yes, about, .. }, Ok(_)) => {
                let (word, ink) = if yes { ("allowed: ", Ink::Good) } else { ("denied: ", Ink::Warn) };
                let mut page = Page::default();
                page.line([Span::new(ink, word), plain(about)]);
                self.said = Some(page);
            }
            (_, Ok(answer)) => self.said = Some(crate::show::answer(&answer, Paths::All, 0)),
            (_, Err(failure)) => {
                self.over = self.over.take().filter(|_| !planned);
                self.said = Some(fault::page(&failure));
            }
        }
    }

    /// Where what was chosen goes, nothing is; questions that are over are not rung any more.
    fn settle(&mut self, now: Moment) {
        if self.pane.is_none() && self.seen.status.is_some() {
            let first = if self.seen.questions.is_empty() { Pane::Sessions } else { Pane::Questions };
            self.pane = Some(first);
        }
        let questions = &self.seen.questions;
        self.rung.retain(|id, _| questions.iter().any(|one| one.id == *id));
        for one in questions {
            self.rung.entry(one.id).or_insert((now.since, false));
        }
        for pane in Pane::ALL {
            let ids = self.seen.ids(pane);
            match self.chosen.get_mut(&pane) {
                // Where there is nothing the cursor is nowhere.
                Some(_) if ids.is_empty() => drop(self.chosen.remove(&pane)),
                Some((id, at)) => *at = ids.iter().position(|one| one == id).unwrap_or(*at),
                None => {
                    // What comes later must not push itself under the cursor.
                    ids.into_iter().next().into_iter().for_each(|id| drop(self.chosen.insert(pane, (id, 0))));
                }
            }
        }
        if let Some(Over { what: Lies::Question(id), .. }) = &self.over
            && self.seen.question(id).is_none()
        {
            let text = format!("question {} is over", id.get(..8).unwrap_or(id));
            self.over = None;
            if self.said.is_none() {
                self.say(text);
            }
        }
    }

    pub(super) fn open(&mut self, what: Lies) {
        self.over = Some(Over { what, scroll: 0 });
    }

    fn say(&mut self, text: impl AsRef<str>) {
        self.said = Some(Page::of(text));
    }

    fn page(&self) -> isize {
        isize::try_from(self.room.saturating_sub(1).max(1)).unwrap_or(1)
    }
}

fn is_plan_of(act: &Act, asked: &MoveRequest) -> bool {
    matches!(act, Act::Plan(request) if request.session == asked.session && request.device == asked.device)
}

/// The plan, and the yes that it needs: also to what the command has flags for.
fn confirm_plan(request: MoveRequest, plan: &Plan) -> Lies {
    let needs = |flag: &str| plan.needs.iter().any(|need| need == flag);
    let mut page = inventory::plan(plan, Paths::All);
    page.gap();
    let all = if plan.needs.is_empty() { "" } else { " with all of that" };
    page.line([plain(format!("Hand it over to {}{all}?", plan.device))]);
    let (confirm_large, confirm_secrets) = (needs("--yes-large"), needs("--yes-secrets"));
    Lies::Confirm(page, Box::new(Act::To(MoveRequest { dry_run: false, confirm_large, confirm_secrets, ..request })))
}

#[cfg(test)]
pub(super) mod tests;
