//! What lies over the panes: it has the whole room below the first line.

use super::{Line, Scene};
use crate::cockpit::state::{Cockpit, Lies, Over, Subject};
use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::show::approvals;
use crate::show::inventory::Paths;

/// Its lines, from the place to which it was scrolled.
pub(super) fn lines(cockpit: &Cockpit, over: &Over, width: usize, room: usize, scene: &mut Scene) {
    let (page, about) = match &over.what {
        Lies::Help => (help(), None),
        Lies::Question(id) => {
            let Some(question) = cockpit.seen.question(id) else { return };
            (approvals::page(std::slice::from_ref(question), Paths::All), Some(Subject::of(question)))
        }
        Lies::Text(page) | Lies::Letter(_, page) => (page.clone(), None),
        Lies::Choice { title, devices, at, .. } => return choice(title, devices, *at, room, scene),
        Lies::Planning(request) => (Page::of(format!("looking at what would travel to {} …", request.device)), None),
        Lies::Confirm(page, _) => (page.clone(), Some(Subject::Confirm(page.clone()))),
    };
    scene.lines.push(Line::default());
    let lines = page.wrapped(width);
    let (total, room) = (lines.len(), room.saturating_sub(1));
    // The line that says how much there is takes one.
    let shown = if total <= room { total } else { room.saturating_sub(1) };
    let first = over.scroll.min(total.saturating_sub(shown));
    let last = (first + shown).min(total);
    scene.lines.extend(lines.into_iter().skip(first).take(shown).map(Line::of));
    if shown < total {
        let text = format!("lines {} to {last} of {total}", first + 1);
        let ink = if last < total { Ink::Warn } else { Ink::Plain };
        scene.lines.push(Line::of(vec![Span::new(ink, text)]));
    }
    scene.drawn.most_scroll = total.saturating_sub(shown);
    scene.drawn.room = shown;
    scene.drawn.subject = about.map(|subject| (subject, width, first..last, total));
}

fn choice(title: &str, devices: &[(String, bool)], at: usize, room: usize, scene: &mut Scene) {
    scene.lines.push(Line::default());
    scene.lines.push(Line::of(vec![plain("Hand \""), strong(title), plain("\" over to which device?")]));
    let row = |(n, (name, connected)): (usize, &(String, bool))| {
        let mark = if n == at { "› " } else { "  " };
        let link = if *connected { Span::new(Ink::Good, "connected") } else { faint("not connected") };
        Line { spans: vec![strong(mark), plain(name), plain("  "), link], chosen: n == at }
    };
    let room = room.saturating_sub(2);
    let first = (at + 1).saturating_sub(room);
    scene.lines.extend(devices.iter().enumerate().skip(first).take(room).map(row));
    scene.drawn.room = room;
}

/// The keys that mean something there.
pub(super) const fn keys(what: &Lies) -> &'static str {
    match what {
        Lies::Help | Lies::Text(_) => "esc back  ↑ ↓ space scroll",
        Lies::Question(_) => "y yes  n no  esc back  ↑ ↓ space scroll",
        Lies::Letter(..) => "d done  x not wanted  esc back  ↑ ↓ space scroll",
        Lies::Choice { .. } => "enter look what would travel  esc back  ↑ ↓ choose",
        Lies::Planning(_) => "esc back",
        Lies::Confirm(..) => "y yes  n no  esc back  ↑ ↓ space scroll",
    }
}

fn help() -> Page {
    let rows = [
        ("tab, 1 to 5", "the next pane, or that one"),
        ("↑ ↓, j k, space", "move, a page"),
        ("enter", "read the row whole"),
        ("y, n", "answer the question that is on the screen"),
        ("h", "hand a session over: choose a device, see what travels"),
        ("t", "take a session over to this device"),
        ("o", "go on with a session here, or look on at a hosted terminal"),
        ("c", "withdraw a move or a sending of files"),
        ("d, x", "a message was acted on, or is not wanted"),
        ("r", "ask the daemon and the other devices now"),
        ("ctrl-l, ctrl-z", "draw anew, stop this program for a while"),
        ("q, ctrl-c", "leave; what was begun goes on"),
    ];
    let mut page = Page::default();
    page.line([strong("Keys")]);
    page.gap();
    page.whole_table(2, rows.iter().map(|(key, what)| vec![strong(*key), plain(*what)]).collect());
    page.gap();
    page.line([plain("  A yes is to what stands on the screen: all of it must have been there,")]);
    page.line([plain("  for as long as it takes to look. Nothing is answered by what is pasted.")]);
    page
}
