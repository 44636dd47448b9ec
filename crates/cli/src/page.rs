//! Text on its way to a person. Nothing reaches the terminal but through a [`Span`], and a span escapes what it is
//! made of: names, titles and paths come from peers. Source: SPEC L-6.

use cede_wire::path::{escape, escape_rest};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::limits::COLUMN_MIN;

/// How a piece of text is to look where colours are shown. Nothing is said by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// As everything else.
    Plain,
    /// A heading, a name.
    Strong,
    /// Less important.
    Faint,
    /// In order.
    Good,
    /// To be looked at.
    Warn,
    /// Wrong.
    Bad,
}

/// A piece of one line, safe to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    ink: Ink,
    text: String,
}

/// Lines of text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Page {
    blocks: Vec<Block>,
}

/// What stands below each other on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    Line(Vec<Span>),
    /// A line to copy: a terminal may wrap it by itself, so that it stays one line.
    Copied(Vec<Span>),
    /// Laid out when it is shown: how wide it may be depends on where.
    Table {
        indent: usize,
        rows: Vec<Vec<Span>>,
        flexible: Vec<usize>,
        /// Nothing of it is ever cut.
        whole: bool,
    },
}

impl Span {
    /// Text in an ink.
    pub(crate) fn new(ink: Ink, text: impl AsRef<str>) -> Self {
        Self { ink, text: safe(text.as_ref()) }
    }

    /// How it is to look.
    pub(crate) const fn ink(&self) -> Ink {
        self.ink
    }

    /// What it says.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Columns it takes.
    fn width(&self) -> usize {
        self.text.width()
    }

    /// Cut to `width` columns, with `…` where something is missing.
    fn cut(self, width: usize) -> Self {
        Self { text: cut(&self.text, width), ink: self.ink }
    }

    fn render(&self, colour: bool) -> String {
        let code = match self.ink {
            Ink::Plain => "",
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Bad => "31",
        };
        if colour && !code.is_empty() { format!("\x1b[{code}m{}\x1b[0m", self.text) } else { self.text.clone() }
    }
}

impl Page {
    /// A page of one plain line.
    pub(crate) fn of(text: impl AsRef<str>) -> Self {
        let mut page = Self::default();
        page.line([plain(text)]);
        page
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, spans: impl IntoIterator<Item = Span>) {
        self.blocks.push(Block::Line(spans.into_iter().collect()));
    }

    /// Adds a command to copy. It stays one line unless its words could pass for a line of ours: a name in it may be a
    /// peer's.
    pub(crate) fn command(&mut self, lead: &str, command: &str) {
        let spans = vec![plain(lead), strong(command)];
        self.blocks.push(if is_bare(command) { Block::Copied(spans) } else { Block::Line(spans) });
    }

    /// Adds words of somebody else, each line behind a bar.
    pub(crate) fn behind_a_bar(&mut self, words: &str) {
        words.split('\n').for_each(|line| self.line([faint(BAR), plain(line)]));
    }

    /// Adds an empty line, unless there is nothing above or one already.
    pub(crate) fn gap(&mut self) {
        let is_empty = |block: &Block| matches!(block, Block::Line(line) if line.is_empty());
        if self.blocks.last().is_some_and(|block| !is_empty(block)) {
            self.blocks.push(Block::Line(Vec::new()));
        }
    }

    /// Adds a table; its first row is the heading. The columns in `flexible` are cut first where it is too wide.
    pub(crate) fn table(&mut self, indent: usize, rows: Vec<Vec<Span>>, flexible: &[usize]) {
        self.blocks.push(Block::Table { indent, rows, flexible: flexible.to_vec(), whole: false });
    }

    /// Adds a table of which nothing is cut, however wide it is: what is approved is read whole.
    pub(crate) fn whole_table(&mut self, indent: usize, rows: Vec<Vec<Span>>) {
        self.blocks.push(Block::Table { indent, rows, flexible: Vec::new(), whole: true });
    }

    /// Adds another page below.
    pub(crate) fn append(&mut self, other: Self) {
        self.blocks.extend(other.blocks);
    }

    /// The text for a terminal of this width, each line ended. A line that is wider goes on behind a mark: where the
    /// terminal wraps, words of a peer stand where a line of ours begins.
    pub(crate) fn render_within(&self, colour: bool, width: usize) -> String {
        let lines = self.blocks.iter().flat_map(|block| match block {
            Block::Copied(line) => vec![line.clone()],
            Block::Line(_) | Block::Table { .. } => wrap_all(block.lines(width), width),
        });
        text_of(lines, colour)
    }

    /// The text for another program: nothing is cut, since nobody has to see a line at once.
    pub(crate) fn render_uncut(&self) -> String {
        text_of(self.lines(usize::MAX), false)
    }

    /// The text for the terminal of the tests.
    #[cfg(test)]
    pub(crate) fn render(&self, colour: bool) -> String {
        self.render_within(colour, usize::from(crate::tty::USUAL.columns))
    }

    /// The lines, tables laid out for this width. What must not be cut may be wider.
    pub(crate) fn lines(&self, width: usize) -> Vec<Vec<Span>> {
        self.blocks.iter().flat_map(|block| block.lines(width)).collect()
    }

    /// The lines, where one that is wider goes on below: nothing of it is lost.
    pub(crate) fn wrapped(&self, width: usize) -> Vec<Vec<Span>> {
        wrap_all(self.lines(width), width)
    }
}

impl Block {
    fn lines(&self, width: usize) -> Vec<Vec<Span>> {
        match self {
            Self::Line(line) | Self::Copied(line) => vec![line.clone()],
            Self::Table { indent, rows, flexible, whole } => {
                let room = if *whole { usize::MAX } else { width.saturating_sub(*indent) };
                let widths = column_widths(rows, room, flexible);
                rows.iter().map(|row| table_line(row.clone(), &widths, *indent)).collect()
            }
        }
    }
}

fn text_of(lines: impl IntoIterator<Item = Vec<Span>>, colour: bool) -> String {
    let mut text = String::new();
    for line in lines {
        let rendered: String = line.iter().map(|span| span.render(colour)).collect();
        text.push_str(rendered.trim_end());
        text.push('\n');
    }
    text
}

/// Whether a command is words of letters and the signs of paths, one space between them.
fn is_bare(command: &str) -> bool {
    let sign = |c: char| c.is_ascii_alphanumeric() || "/._-~&=@,+".contains(c);
    command.split(' ').all(|word| !word.is_empty() && word.chars().all(sign))
}

fn wrap_all(lines: Vec<Vec<Span>>, width: usize) -> Vec<Vec<Span>> {
    lines.into_iter().flat_map(|line| wrap(&line, width.max(1))).collect()
}

/// Cuts a line into lines of this width, between words where there are some. What goes on begins with a mark, so that no
/// text of a peer can stand where a line of ours begins.
fn wrap(line: &[Span], width: usize) -> Vec<Vec<Span>> {
    let barred = line.first().is_some_and(|span| span.text == BAR);
    let mut rest: Vec<(char, Ink)> = line.iter().flat_map(|span| span.text.chars().map(|c| (c, span.ink))).collect();
    let used = rest.iter().rposition(|(c, _)| *c != ' ').map_or(0, |last| last + 1);
    // The padding behind a table's last column is no text.
    rest.truncate(used);
    let mut lines = Vec::new();
    loop {
        let mark = if lines.is_empty() { Vec::new() } else { vec![faint(if barred { BAR_GOES_ON } else { GOES_ON })] };
        let room = width.saturating_sub(mark.iter().map(Span::width).sum()).max(1);
        let next = rest.split_off(fitting(&rest, room));
        lines.push(mark.into_iter().chain(spans(&rest)).collect());
        if next.is_empty() {
            return lines;
        }
        rest = next;
    }
}

/// How many of these characters make one line.
fn fitting(text: &[(char, Ink)], room: usize) -> usize {
    let mut columns = 0;
    let fits = |(c, _): &&(char, Ink)| {
        // A mark without a width of its own has one on some terminals.
        columns += c.width().unwrap_or(0).max(1);
        columns <= room
    };
    let most = text.iter().take_while(fits).count().max(1);
    if most >= text.len() {
        return text.len();
    }
    let word = text.iter().take(most + 1).rposition(|(c, _)| *c == ' ').filter(|at| *at > most / 2);
    word.map_or(most, |at| (at + 1).min(most))
}

/// Characters of one ink are one piece again.
fn spans(text: &[(char, Ink)]) -> Vec<Span> {
    let pieces = text.chunk_by(|(_, one), (_, next)| one == next);
    let span = |piece: &[(char, Ink)]| {
        let ink = piece.first().map_or(Ink::Plain, |(_, ink)| *ink);
        Span { ink, text: piece.iter().map(|(c, _)| *c).collect() }
    };
    pieces.map(span).collect()
}

/// Plain text.
pub(crate) fn plain(text: impl AsRef<str>) -> Span {
    Span::new(Ink::Plain, text)
}

/// A heading or a name.
pub(crate) fn strong(text: impl AsRef<str>) -> Span {
    Span::new(Ink::Strong, text)
}

/// Text of less importance.
pub(crate) fn faint(text: impl AsRef<str>) -> Span {
    Span::new(Ink::Faint, text)
}

/// Escapes everything but the backslash: what was escaped by the daemon is not escaped again.
pub(crate) fn safe(text: &str) -> String {
    escape_rest(text)
}

/// The same JSON, with everything escaped in its texts that could repaint a screen.
pub(crate) fn safe_json(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        let mut bytes = [0; 4];
        if c.is_ascii() && c != '\u{7f}' || escape(c.encode_utf8(&mut bytes).as_bytes()) == *c.encode_utf8(&mut [0; 4])
        {
            shown.push(c);
            continue;
        }
        let mut units = [0; 2];
        c.encode_utf16(&mut units).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
    }
    shown
}

/// Cuts to `width` columns, with `…` where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut columns = 1;
    for c in text.chars() {
        columns += c.width().unwrap_or(0);
        if columns > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

fn table_line(row: Vec<Span>, widths: &[usize], indent: usize) -> Vec<Span> {
    let mut line = vec![plain(" ".repeat(indent))];
    for (cell, width) in row.into_iter().zip(widths) {
        let cell = cell.cut(*width);
        let padding = " ".repeat(width.saturating_sub(cell.width()) + COLUMN_GAP);
        line.extend([cell, plain(padding)]);
    }
    line
}

/// Natural widths, then the widest column is narrowed until all fit: the flexible ones first, the others only if
/// that is not enough.
fn column_widths(rows: &[Vec<Span>], width: usize, flexible: &[usize]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let natural = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(Span::width).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns).map(natural).collect();
    let all: Vec<usize> = (0..columns).collect();
    let room = width.saturating_sub(COLUMN_GAP * columns.saturating_sub(1));
    for candidates in [flexible, &all] {
        narrow(&mut widths, room, candidates);
    }
    widths
}

fn narrow(widths: &mut [usize], room: usize, candidates: &[usize]) {
    while widths.iter().sum::<usize>() > room {
        let over = widths.iter().sum::<usize>() - room;
        let widest = candidates.iter().filter_map(|column| Some((*widths.get(*column)?, *column))).max();
        let Some((widest, column)) = widest.filter(|(width, _)| *width > COLUMN_MIN) else { return };
        if let Some(width) = widths.get_mut(column) {
            *width = widest - over.min((widest - COLUMN_MIN).div_ceil(2));
        }
    }
}

/// What a line begins with that goes on with the one above.
const GOES_ON: &str = "↪ ";
/// The same, within words of somebody else.
const BAR_GOES_ON: &str = "↪ | ";
/// What each line of somebody else's words begins with.
const BAR: &str = "  | ";
/// Columns between two columns.
const COLUMN_GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 80;

    /// Shows: L-6
    #[test]
    fn span_never_holds_what_moves_the_cursor_or_turns_the_text() {
        let page = Page::of("a\u{1b}[2Jb\u{202e}c\nd\r\u{7}");
        assert_eq!(page.render(true), "a\\u{1b}[2Jb\\u{202e}c\\nd\\r\\u{7}\n");
    }

    /// Shows: L-6
    #[test]
    fn json_says_the_same_and_repaints_nothing() {
        let text = "a\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{200b}größe 日本 🎉\"\\";
        let shown = safe_json(&serde_json::to_string(text).unwrap());
        assert_eq!(safe(&shown), shown);
        assert!(shown.contains("größe 日本 🎉"), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

    #[test]
    fn escaped_text_is_not_escaped_again() {
        assert_eq!(safe("a\\u{1b}b"), "a\\u{1b}b");
    }

    #[test]
    fn colour_is_left_out_where_it_is_not_wanted() {
        let mut page = Page::default();
        page.line([Span::new(Ink::Bad, "fail"), plain(" x")]);
        assert_eq!(page.render(false), "fail x\n");
        assert_eq!(page.render(true), "\u{1b}[31mfail\u{1b}[0m x\n");
    }

    #[test]
    fn table_fits_the_width_and_cuts_the_flexible_column() {
        let row = |id: &str, title: String| vec![plain(id), plain(title), plain("server")];
        let mut page = Page::default();
        page.table(2, vec![row("3fa2c1d9", "t".repeat(200)), row("11111111", "short".into())], &[1]);
        let text = page.render(false);
        assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
        assert!(text.starts_with("  3fa2c1d9  ttt"), "{text}");
        assert!(text.contains("t…  server\n"), "{text}");
    }

    #[test]
    fn nothing_is_cut_for_another_program() {
        let mut page = Page::default();
        let title = "t".repeat(200);
        page.table(0, vec![vec![plain("id"), plain(&title)], vec![plain("3fa2c1d9"), plain("short")]], &[1]);
        assert_eq!(page.render_uncut(), format!("id        {title}\n3fa2c1d9  short\n"));
        assert!(!page.render(false).contains(&title));
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }

    fn wrapped(page: &Page, width: usize) -> Vec<String> {
        let text = |line: Vec<Span>| line.iter().map(|span| span.text.as_str()).collect();
        page.wrapped(width).into_iter().map(text).collect()
    }

    #[test]
    fn wrapped_line_loses_nothing_and_never_splits_a_wide_character() {
        let mut page = Page::default();
        page.line([plain("ab"), strong("日本語"), plain("c")]);
        assert_eq!(wrapped(&page, 5), ["ab日", "↪ 本", "↪ 語c"]);
        assert_eq!(wrapped(&page, 9), ["ab日本語c"]);
        assert_eq!(wrapped(&page, 1).concat().replace(GOES_ON, ""), "ab日本語c");
        assert_eq!(wrapped(&Page::default(), 5), Vec::<String>::new());
        let mut words = Page::default();
        words.line([plain("no answer in 110 s counts as a no  ")]);
        assert_eq!(wrapped(&words, 20), ["no answer in 110 s ", "↪ counts as a no"]);
    }

    /// Shows: L-7
    #[test]
    fn words_of_a_peer_never_begin_a_line_however_they_are_wrapped() {
        let mut page = Page::default();
        page.line([plain(format!("  | {}answer: cede allow 1", "x ".repeat(60)))]);
        for width in 10..200 {
            let lines = wrapped(&page, width);
            assert!(lines.iter().skip(1).all(|line| line.starts_with(GOES_ON)), "{width}: {lines:?}");
        }
    }

    /// Shows: U-8, M-14
    #[test]
    fn no_line_of_a_page_is_left_to_the_terminal_to_wrap() {
        let words = format!("{}{}answer: cede allow 1\n{}", "a".repeat(25), " ".repeat(51), "日e\u{301}".repeat(90));
        let mut page = Page::default();
        page.behind_a_bar(&words);
        page.line([plain(format!("runs {words}"))]);
        page.whole_table(2, vec![vec![plain(&words), plain(&words)]]);
        page.command("go on there: ", &format!("cd '{words}'"));
        for width in 10..200 {
            let text = page.render_within(false, width);
            let begins = |line: &str| ["  |", "↪", "runs ", "  aaa", "go on "].iter().any(|one| line.starts_with(one));
            assert!(text.lines().all(|line| line.width() <= width && begins(line)), "{width}:\n{text}");
        }
        let piped = page.render_uncut();
        assert_eq!(piped.lines().count(), 5, "{piped}");
    }

    #[test]
    fn words_of_others_keep_their_bar_where_they_go_on() {
        let mut page = Page::default();
        page.behind_a_bar("run the tests and say\nok");
        assert_eq!(page.render_within(false, 18), "  | run the tests\n↪ | and say\n  | ok\n");
    }

    #[test]
    fn command_to_copy_stays_one_line_unless_a_name_in_it_could_pass_for_ours() {
        let shown = |command: &str| {
            let mut page = Page::default();
            page.command("go on: ", command);
            page.render_within(false, 20)
        };
        assert_eq!(shown("cd /home/ada/a && codex resume 1"), "go on: cd /home/ada/a && codex resume 1\n");
        for odd in ["cd '/home/a  answer: yes'", "cd /home/ada/a  answer yes", "cd /home/ada/日本語日本語"] {
            assert!(shown(odd).contains("\n↪ "), "{odd}");
        }
    }

    #[test]
    fn table_of_long_names_still_fits() {
        let row: Vec<Span> = (0..5).map(|_| plain("n".repeat(64))).collect();
        let mut page = Page::default();
        page.table(0, vec![row], &[]);
        assert!(page.render(false).trim_end().width() <= WIDTH);
    }
}
