//! Moving between rows, and what the keys of a row mean.

use cede_wire::control::SessionSummary;
use cede_wire::member::Capability;
use cede_wire::session::AgentKind;

use super::{Act, Cockpit, Lies, Moment};
use crate::cockpit::keys::Key;
use crate::cockpit::seen::Pane;
use crate::page::{Page, faint, plain, strong};
use crate::show::{devices, moves, sessions, transfers};

impl Cockpit {
    /// The chosen row of a pane: its id and its place.
    pub(in crate::cockpit) fn chosen(&self, pane: Pane) -> Option<(String, usize)> {
        let (id, _) = self.chosen.get(&pane)?;
        let at = self.seen.ids(pane).iter().position(|one| one == id)?;
        Some((id.clone(), at))
    }

    /// The pane that is moved in.
    pub(in crate::cockpit) fn focus(&self) -> Pane {
        self.pane.unwrap_or(Pane::Sessions)
    }

    pub(super) fn turn(&mut self, by: usize) {
        let at = Pane::ALL.iter().position(|pane| *pane == self.focus()).unwrap_or(0);
        self.pane = Pane::ALL.get((at + by) % Pane::ALL.len()).copied();
    }

    pub(super) fn step(&mut self, by: isize) {
        let pane = self.focus();
        let ids = self.seen.ids(pane);
        let last = self.chosen.get(&pane).map_or(0, |(_, at)| *at);
        // Where the chosen one is gone, the first step only chooses the one that took its place.
        let by = if self.chosen(pane).is_some() { by } else { 0 };
        let to = last.saturating_add_signed(by).min(ids.len().saturating_sub(1));
        if let Some(id) = ids.into_iter().nth(to) {
            self.chosen.insert(pane, (id, to));
        }
    }

    pub(super) fn key_on_row(&mut self, key: Key, now: Moment) -> Option<Act> {
        let pane = self.focus();
        let Some((id, _)) = self.chosen(pane) else {
            if matches!(key, Key::Enter | Key::Char(_)) {
                self.say("nothing is chosen here");
            }
            return None;
        };
        match (pane, key) {
            (Pane::Questions, Key::Char(answer @ ('y' | 'n'))) => return self.answer(&id, answer == 'y', now),
            (Pane::Questions, Key::Enter) => self.open(Lies::Question(id)),
            (Pane::Sessions, Key::Char('h')) => self.choose_device(&id),
            (Pane::Sessions, Key::Char('t')) => self.ask_take(&id),
            (Pane::Sessions, Key::Char('o')) => return self.go_on(&id),
            (Pane::Moves, Key::Char('c')) => self.ask_cancel(&id),
            (Pane::Messages, Key::Enter | Key::Char('o')) => return Some(Act::Read { letter: id }),
            (Pane::Messages, Key::Char('d')) => return Some(Act::Mark { letter: id, acted: true }),
            (_, Key::Enter) => self.open_row(pane, &id, now),
            (_, Key::Char('y' | 'n')) => self.say("choose the question first: 1 goes to them"),
            (_, Key::Char(_)) => self.say("this key does nothing here: ? shows the keys"),
            _ => {}
        }
        None
    }

    fn open_row(&mut self, pane: Pane, id: &str, now: Moment) {
        let page = match pane {
            Pane::Sessions => self.seen.session(id).map(|one| sessions::whole(one, now.unix_ms)),
            Pane::Moves => {
                let files = self.seen.transfer(id).map(transfers::one);
                files.or_else(|| self.seen.moving(id).map(moves::whole))
            }
            Pane::Devices => self.seen.device(id).map(|one| devices::page(std::slice::from_ref(one))),
            Pane::Questions | Pane::Messages => None,
        };
        if let Some(page) = page {
            self.open(Lies::Text(page));
        }
    }

    fn choose_device(&mut self, id: &str) {
        let Some(session) = self.seen.session(id).cloned() else { return };
        if !session.here {
            return self.say(format!("it is in charge at {}: take it first (t)", session.owner));
        }
        let may = |device: &&cede_wire::control::DeviceSummary| device.capabilities.contains(&Capability::Handoff);
        let devices: Vec<(String, bool)> =
            self.seen.peers().iter().filter(may).map(|one| (one.name.clone(), one.connected)).collect();
        if devices.is_empty() {
            return self.say("no other device takes sessions: cede pair");
        }
        let at = devices.iter().position(|(_, connected)| *connected).unwrap_or(0);
        self.open(Lies::Choice { session: session.id.to_string(), title: session.title, devices, at });
    }

    fn ask_take(&mut self, id: &str) {
        let Some(session) = self.seen.session(id).cloned() else { return };
        if session.here {
            return self.say("it is in charge here already");
        }
        let mut page = named("Take this session over?", &session);
        page.line([plain(format!("{} is asked to hand it over to this device.", session.owner))]);
        self.open(Lies::Confirm(page, Box::new(Act::Take { session: session.id.to_string() })));
    }

    fn ask_cancel(&mut self, id: &str) {
        let mut page = Page::default();
        page.line([strong("Withdraw this?")]);
        page.gap();
        let act = if let Some(files) = self.seen.transfer(id) {
            page.append(transfers::one(files));
            Act::StopTransfer { transfer: id.to_owned() }
        } else if let Some(moving) = self.seen.moving(id) {
            page.append(moves::whole(moving));
            Act::Cancel { handoff: id.to_owned() }
        } else {
            return;
        };
        self.open(Lies::Confirm(page, Box::new(act)));
    }

    /// Goes on with a session here.
    fn go_on(&mut self, id: &str) -> Option<Act> {
        let session = self.seen.session(id)?.clone();
        if session.terminal.is_some() {
            return Some(Act::Attach { session: session.id.to_string() });
        }
        if session.agent == AgentKind::Terminal && !session.here {
            return Some(Act::Watch { session: session.id.to_string() });
        }
        if session.resume.is_empty() {
            self.say(if session.here { "it cannot go on now" } else { "it is not here: take it first (t)" });
            return None;
        }
        let mut page = named("Go on with this session in this terminal?", &session);
        page.line([faint("  "), plain(&session.resume)]);
        self.open(Lies::Confirm(page, Box::new(Act::Resume { command: session.resume })));
        None
    }
}

fn named(question: &str, session: &SessionSummary) -> Page {
    let mut page = Page::default();
    page.line([strong(question)]);
    page.gap();
    page.line([plain("  "), strong(&session.title), plain(format!(" ({})", session.id.short()))]);
    page.line([plain(format!("  {} at {}, {}", session.agent.name(), session.owner, session.directory))]);
    page.gap();
    page
}
