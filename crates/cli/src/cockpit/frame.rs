//! From what is known to what is on the screen. Pure.

mod over;

use cede_wire::control::{ApprovalSummary, StatusReport};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::seen::Pane;
use super::state::{Cockpit, Drawn, Moment, Subject};
use crate::fault;
use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::show::approvals;
use crate::show::inventory::Paths;
use crate::units;

/// One line of the screen.
#[derive(Debug, Clone, Default)]
struct Line {
    spans: Vec<Span>,
    /// The row under the cursor.
    chosen: bool,
}

/// The lines of a screen from top to bottom, and what can be answered on it.
#[derive(Debug, Default)]
struct Scene {
    lines: Vec<Line>,
    drawn: Drawn,
}

/// Draws everything, and says what was shown.
pub(crate) fn frame(cockpit: &Cockpit, now: Moment, colour: bool, buffer: &mut Buffer) -> Drawn {
    let area = *buffer.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let scene =
        if width < WIDTH || height < HEIGHT { too_small(width, height) } else { scene(cockpit, now, width, height) };
    for (line, y) in scene.lines.iter().take(height).zip(area.y..) {
        paint(line, y, area, colour, buffer);
    }
    scene.drawn
}

fn paint(line: &Line, y: u16, area: Rect, colour: bool, buffer: &mut Buffer) {
    let mut x = area.x;
    for span in &line.spans {
        let room = usize::from(area.right().saturating_sub(x));
        (x, _) = buffer.set_stringn(x, y, span.text(), room, style(span.ink(), colour));
    }
    if line.chosen && colour {
        buffer.set_style(Rect { y, height: 1, ..area }, Style::new().add_modifier(Modifier::REVERSED));
    }
}

const fn style(ink: Ink, colour: bool) -> Style {
    let style = Style::new();
    match ink {
        _ if !colour => style,
        Ink::Plain => style,
        Ink::Strong => style.add_modifier(Modifier::BOLD),
        Ink::Faint => style.add_modifier(Modifier::DIM),
        Ink::Good => style.fg(Color::Green),
        Ink::Warn => style.fg(Color::Yellow),
        Ink::Bad => style.fg(Color::Red),
    }
}

/// What is too small to show a question whole shows nothing that could be answered.
fn too_small(width: usize, height: usize) -> Scene {
    let text = format!("the cockpit needs {WIDTH} columns and {HEIGHT} lines, here are {width} and {height}; q leaves");
    let lines = Page::of(text).wrapped(width).into_iter().map(Line::of).collect();
    Scene { lines, drawn: Drawn::default() }
}

fn scene(cockpit: &Cockpit, now: Moment, width: usize, height: usize) -> Scene {
    let mut foot: Vec<Line> = said(cockpit, width);
    foot.push(Line::of(vec![faint(keys(cockpit))]));
    let mut scene = Scene::default();
    scene.lines.push(Line::of(head(cockpit, width)));
    let room = height.saturating_sub(1 + foot.len());
    match (&cockpit.over, &cockpit.away) {
        (Some(over), _) => over::lines(cockpit, over, width, room, &mut scene),
        (None, Some(failure)) if cockpit.seen.status.is_none() => {
            scene.lines.push(Line::default());
            scene.lines.extend(fault::page(failure).wrapped(width).into_iter().map(Line::of));
        }
        (None, _) => panes(cockpit, now, width, room, &mut scene),
    }
    scene.lines.resize_with(height.saturating_sub(foot.len()), Line::default);
    scene.lines.extend(foot);
    scene
}

/// The first line: which device this is, and what needs a look.
fn head(cockpit: &Cockpit, width: usize) -> Vec<Span> {
    let waiting = cockpit.seen.questions.len() as u64;
    let right = match (&cockpit.away, waiting) {
        (Some(failure), _) => Span::new(Ink::Bad, format!("{}; looking for it", failure.what)),
        (None, 0) => plain(""),
        (None, 1) => Span::new(Ink::Warn, "1 question waits"),
        (None, more) => Span::new(Ink::Warn, format!("{more} questions wait")),
    };
    let Some(status) = &cockpit.seen.status else { return vec![strong("cede"), plain("  "), right] };
    let left = [strong(&status.device.name), plain(mesh(status))];
    let used: usize = left.iter().chain([&right]).map(|span| span.text().width()).sum();
    let gap = plain(" ".repeat(width.saturating_sub(used).max(2)));
    left.into_iter().chain([gap, right]).collect()
}

fn mesh(status: &StatusReport) -> String {
    if status.read_only {
        return format!(" ({})  the journal is damaged: cede doctor", status.device.id.short());
    }
    let devices = units::count(status.peers.len() as u64 + 1, "device", "devices");
    format!(" ({})  {devices}", status.device.id.short())
}

/// What came of the last act, in a few lines.
fn said(cockpit: &Cockpit, width: usize) -> Vec<Line> {
    let Some(page) = &cockpit.said else { return Vec::new() };
    let mut lines: Vec<Line> = page.wrapped(width).into_iter().map(Line::of).collect();
    if lines.len() > SAID {
        let more = lines.len() - (SAID - 1);
        lines.truncate(SAID - 1);
        lines.push(Line::of(vec![faint(format!("{more} more lines: ask with the command"))]));
    }
    lines
}

fn keys(cockpit: &Cockpit) -> &'static str {
    if let Some(over) = &cockpit.over {
        return over::keys(&over.what);
    }
    match cockpit.focus() {
        Pane::Questions => "y yes  n no  enter read it whole  tab next  ? help  q quit",
        Pane::Sessions => "h hand over  t take  o go on  enter more  tab next  ? help  q quit",
        Pane::Moves => "c withdraw  enter more  tab next  ? help  q quit",
        Pane::Messages => "enter read  d done  tab next  ? help  q quit",
        Pane::Devices => "enter more  tab next  ? help  q quit",
    }
}

/// All panes below each other; the one that is moved in has most of the room.
fn panes(cockpit: &Cockpit, now: Moment, width: usize, room: usize, scene: &mut Scene) {
    let focus = cockpit.focus();
    let rows = Pane::ALL.map(|pane| (pane, cockpit.seen.rows(pane, now.unix_ms)));
    let room = room.saturating_sub(Pane::ALL.len());
    let wanted = wanted(cockpit, focus, width).max(FOCUSED);
    let preview = (room.saturating_sub(wanted) / (Pane::ALL.len() - 1)).min(PREVIEW);
    let others: usize = rows.iter().filter(|(pane, _)| *pane != focus).map(|(_, rows)| rows.len().min(preview)).sum();
    for (at, (pane, rows)) in rows.iter().enumerate() {
        scene.lines.push(heading(at, *pane, *pane == focus, rows.len(), width));
        let lines = table(*pane, rows, width);
        if *pane != focus {
            scene.lines.extend(lines.into_iter().take(preview));
            continue;
        }
        let chosen = cockpit.chosen(*pane);
        let mine = room.saturating_sub(others);
        let single = chosen.is_some() && rows.len() == 1;
        let listed = match *pane {
            Pane::Questions if single => 0,
            Pane::Questions => rows.len().min(LISTED),
            Pane::Sessions | Pane::Moves | Pane::Messages | Pane::Devices => mine,
        };
        list(lines, chosen.as_ref().map(|(_, at)| *at), listed, scene);
        if let (Pane::Questions, Some((id, _))) = (*pane, chosen) {
            detail(cockpit, &id, width, mine.saturating_sub(listed), scene);
        }
    }
}

/// Lines that the chosen question needs to stand there whole.
fn wanted(cockpit: &Cockpit, focus: Pane, width: usize) -> usize {
    let chosen = cockpit.chosen(Pane::Questions).filter(|_| focus == Pane::Questions);
    let question = chosen.and_then(|(id, _)| cockpit.seen.question(&id));
    question.map_or(0, |question| listed(cockpit.seen.questions.len()) + whole(question, width).len())
}

/// Questions that are listed above the chosen one. A single one stands for itself.
fn listed(questions: usize) -> usize {
    if questions == 1 { 0 } else { questions.min(LISTED) }
}

fn whole(question: &ApprovalSummary, width: usize) -> Vec<Vec<Span>> {
    approvals::page(std::slice::from_ref(question), Paths::All).wrapped(width)
}

fn heading(at: usize, pane: Pane, focused: bool, count: usize, width: usize) -> Line {
    let mark = if focused { "▸" } else { " " };
    let amount = if count == 0 { "none".to_owned() } else { count.to_string() };
    let text = format!("{mark}{} {} ", at + 1, pane.name());
    let rule = "─".repeat(width.saturating_sub(text.width() + amount.width() + 1));
    let name = if focused { strong(text) } else { plain(text) };
    let ink = if pane == Pane::Questions && count > 0 { Ink::Warn } else { Ink::Plain };
    Line::of(vec![name, Span::new(ink, amount), faint(format!(" {rule}"))])
}

/// The rows of a pane, each a line.
fn table(pane: Pane, rows: &[Vec<Span>], width: usize) -> Vec<Line> {
    let mut page = Page::default();
    page.table(2, rows.to_vec(), pane.flexible());
    page.lines(width).into_iter().map(Line::of).collect()
}

/// As many rows as there is room for, with the chosen one among them.
fn list(mut lines: Vec<Line>, chosen: Option<usize>, room: usize, scene: &mut Scene) {
    if let Some(line) = chosen.and_then(|at| lines.get_mut(at)) {
        line.chosen = true;
        if let Some(first) = line.spans.first_mut() {
            *first = strong("› ");
        }
    }
    let first = chosen.map_or(0, |at| (at + 1).saturating_sub(room));
    scene.drawn.room = room;
    scene.lines.extend(lines.into_iter().skip(first).take(room));
}

/// The chosen question, as `cede approvals` shows it.
fn detail(cockpit: &Cockpit, id: &str, width: usize, room: usize, scene: &mut Scene) {
    let Some(question) = cockpit.seen.question(id) else { return };
    let lines = whole(question, width);
    let total = lines.len();
    let shown = if total <= room { total } else { room.saturating_sub(1) };
    scene.lines.extend(lines.into_iter().take(shown).map(Line::of));
    if shown < total {
        let more = units::count((total - shown) as u64, "more line", "more lines");
        scene.lines.push(Line::of(vec![Span::new(Ink::Warn, format!("  {more}: enter reads it whole"))]));
    }
    scene.drawn.subject = Some((Subject::of(question), width, 0..shown, total));
}

impl Line {
    fn of(spans: Vec<Span>) -> Self {
        Self { spans, chosen: false }
    }
}

/// The smallest screen. Source: the terminals that are common.
const WIDTH: usize = 80;
/// See [`WIDTH`].
const HEIGHT: usize = 24;
/// Lines that the pane which is moved in has at least, before others show rows.
const FOCUSED: usize = 12;
/// Most questions that are listed above the chosen one.
const LISTED: usize = 4;
/// Most rows of a pane that is not moved in.
const PREVIEW: usize = 4;
/// Most lines about the last act.
const SAID: usize = 4;

#[cfg(test)]
mod tests;
