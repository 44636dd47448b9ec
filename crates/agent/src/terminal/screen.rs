//! The screen of a hosted terminal, and how it is drawn on another one.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Size;
use super::characters::Characters;
use crate::limits;

/// A terminal without a window.
pub(super) struct Screen {
    parser: vt100::Parser,
    size: Size,
    characters: Characters,
    sequence: Sequence,
}

impl Screen {
    pub(super) fn new(size: Size) -> Self {
        Self { parser: parser(size), size, characters: Characters::default(), sequence: Sequence::default() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.sequence.push(bytes);
        let whole = self.characters.whole(bytes);
        self.guarded(|parser| parser.process(&whole));
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.size = size;
        self.guarded(|parser| parser.set_size(rows(size), columns(size)));
    }

    /// The library is not ours and reads what anybody may print: a fault in it costs the picture, not the session.
    fn guarded(&mut self, work: impl FnOnce(&mut vt100::Parser)) {
        if catch_unwind(AssertUnwindSafe(|| work(&mut self.parser))).is_err() {
            tracing::error!("the screen of a terminal was lost; it begins empty");
            self.parser = parser(self.size);
        }
    }

    /// Bytes at the end that belong to a sequence which is not complete.
    pub(super) fn incomplete(&self) -> u64 {
        self.sequence.pending
    }

    /// Whether a program uses the other screen.
    pub(super) fn is_alternate(&self) -> bool {
        self.parser.screen().alternate_screen()
    }

    /// What draws this screen on a terminal in any state, with the lines above it where they are wanted.
    pub(super) fn draw(&mut self, with_lines_above: bool) -> Vec<u8> {
        let alternate = self.is_alternate();
        // Leaves the other screen, colours, margins and reports of the mouse, whatever was there before.
        let mut drawn = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[r\x1b[m".to_vec();
        if alternate {
            drawn.extend(b"\x1b[?1049h");
        } else if with_lines_above {
            self.guarded_lines(&mut drawn);
        }
        drawn.extend(self.parser.screen().state_formatted().into_bytes());
        drawn
    }

    fn guarded_lines(&mut self, drawn: &mut Vec<u8>) {
        let lines = self.lines_above();
        if lines.is_empty() {
            return;
        }
        drawn.extend(b"\x1b[H\x1b[J");
        let bytes = |lines: &[String]| lines.iter().map(|line| line.len() + 2).sum::<usize>();
        let mut newest = lines.as_slice();
        while bytes(newest) > limits::SCROLLBACK_BYTES {
            newest = newest.get(newest.len() / 8 + 1..).unwrap_or_default();
        }
        for line in newest {
            drawn.extend(line.as_bytes());
            drawn.extend(b"\x1b[m\r\n");
        }
        // The drawing of the screen erases it: they must be above it by then.
        drawn.extend(b"\n".repeat(usize::from(self.size.rows())));
    }

    /// Oldest first.
    fn lines_above(&mut self) -> Vec<String> {
        let (rows, width) = (usize::from(self.size.rows()), self.size.columns());
        let screen = self.parser.screen_mut();
        let mut left = screen.scrollback_len();
        let mut lines = Vec::with_capacity(left);
        while left > 0 {
            screen.set_scrollback(left);
            // One column more than there is: rows are drawn each for itself.
            lines.extend(screen.rows_formatted(0, width + 1).take(left.min(rows)));
            left = left.saturating_sub(rows);
        }
        screen.set_scrollback(0);
        lines
    }

    /// The visible text, without what is empty at the end.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        self.parser.screen().contents().trim_end().to_owned()
    }

    #[cfg(test)]
    pub(super) fn parsed(&self) -> &vt100::Screen {
        self.parser.screen()
    }
}

fn parser(size: Size) -> vt100::Parser {
    vt100::Parser::new(rows(size), columns(size), limits::SCROLLBACK_LINES)
}

fn rows(size: Size) -> NonZeroU16 {
    NonZeroU16::new(size.rows()).unwrap_or(NonZeroU16::MIN)
}

fn columns(size: Size) -> NonZeroU16 {
    NonZeroU16::new(size.columns()).unwrap_or(NonZeroU16::MIN)
}

/// Where control sequences and characters of several bytes begin and end.
#[derive(Debug, Default)]
struct Sequence {
    state: Within,
    /// Bytes of the one that is not complete.
    pending: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    /// So many bytes of a character are to come.
    Character(u8),
    Escape,
    Control,
    /// A string of the terminal's own; it ends with BEL or ESC \.
    Text,
    TextEscape,
}

impl Sequence {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state = self.state.after(*byte);
            self.pending = if self.state == Within::Nothing { 0 } else { self.pending + 1 };
        }
    }
}

impl Within {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            // CAN and SUB end whatever there is.
            (_, 0x18 | 0x1a) => Self::Nothing,
            (Self::Text, 0x1b) => Self::TextEscape,
            (Self::Text, 0x07) | (Self::TextEscape, b'\\') => Self::Nothing,
            (Self::Text, _) => Self::Text,
            (_, 0x1b) => Self::Escape,
            (Self::Escape | Self::TextEscape, b'[') => Self::Control,
            (Self::Escape | Self::TextEscape, b']' | b'P' | b'X' | b'^' | b'_') => Self::Text,
            (Self::Escape | Self::TextEscape, 0x00..=0x2f) => Self::Escape,
            (Self::Escape | Self::TextEscape, _) => Self::Nothing,
            (Self::Control, 0x40..=0x7e) => Self::Nothing,
            (Self::Control, _) => Self::Control,
            (Self::Character(left), 0x80..=0xbf) if left > 1 => Self::Character(left - 1),
            (_, 0xc2..=0xdf) => Self::Character(1),
            (_, 0xe0..=0xef) => Self::Character(2),
            (_, 0xf0..=0xf4) => Self::Character(3),
            (_, _) => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(bytes: &[u8]) -> Screen {
        let mut screen = Screen::new(Size::new(5, 20));
        screen.push(bytes);
        screen
    }

    /// Shows: D-4
    #[test]
    fn drawing_shows_the_same_on_another_terminal() {
        let all: [&[u8]; 5] = [
            "\u{1b}[1;38;5;208mfett\u{1b}[0m \u{1b}[48;2;1;2;3mRGB\u{1b}[m\r\nzwei".as_bytes(),
            "漢字かな e\u{301} 👩‍💻 ü\r\n\u{1b}[7minvers".as_bytes(),
            b"\x1b[?1049h\x1b[2;3Hvim\x1b[?25l\x1b[?1h\x1b[?2004h",
            b"\x1b[3;1Habc\x1b[1;4Hcursor\x1b[5;20Hx",
            b"a line that is longer than the screen is wide, and wraps",
        ];
        for bytes in all {
            let mut one = screen(bytes);
            let mut other = screen(b"\x1b[?1049h\x1b[31mrubbish\x1b[2;3r");
            other.push(&one.draw(true));
            assert_eq!(other.parsed().contents_formatted(), one.parsed().contents_formatted());
            assert_eq!(other.parsed().input_mode_formatted(), one.parsed().input_mode_formatted());
            assert_eq!(other.is_alternate(), one.is_alternate());
        }
    }

    /// Shows: D-4
    #[test]
    fn wide_characters_take_two_columns() {
        let screen = screen("漢ü".as_bytes());
        let cell = |column| screen.parsed().cell(0, column).unwrap();
        assert!(cell(0).is_wide() && cell(1).is_wide_continuation());
        assert_eq!((cell(2).contents(), screen.parsed().cursor_position()), ("ü", (0, 3)));
    }

    #[test]
    fn lines_that_scrolled_off_are_above_the_drawing() {
        let mut one = Screen::new(Size::new(3, 20));
        (1..=40).for_each(|line| one.push(format!("\x1b[3{}mline {line}\r\n", line % 8).as_bytes()));
        let mut other = Screen::new(Size::new(3, 20));
        other.push(&one.draw(true));
        assert_eq!(other.text(), one.text());
        let above = other.lines_above();
        let first = above.iter().position(|line| line.contains("line 1")).unwrap();
        assert!(above[first + 37].contains("line 38"), "{above:?}");
    }

    #[test]
    fn lines_above_are_bounded() {
        let mut one = Screen::new(Size::new(2, 20));
        (0..3 * limits::SCROLLBACK_LINES).for_each(|line| one.push(format!("{line}\r\n").as_bytes()));
        assert_eq!(one.lines_above().len(), limits::SCROLLBACK_LINES);
        let mut wide = Screen::new(Size::new(2, limits::TERMINAL_COLUMNS));
        let line: String = (0..limits::TERMINAL_COLUMNS).map(|n| format!("\x1b[38;2;{};1;1mx", n % 256)).collect();
        (0..limits::SCROLLBACK_LINES).for_each(|_| wide.push(format!("{line}\r\n").as_bytes()));
        assert!(wide.draw(true).len() < limits::SCROLLBACK_BYTES + (64 << 10));
    }

    /// Shows: D-1
    #[test]
    fn size_changes_to_the_smallest_and_the_largest_and_nothing_breaks() {
        let mut one = screen("漢字漢字漢字漢字漢字\r\nabc".as_bytes());
        for (rows, columns) in [(1, 1), (1, 2), (2, 1), (u16::MAX, u16::MAX), (0, 0), (5, 3)] {
            one.resize(Size::new(rows, columns));
            one.push("漢字\x1b[9;9H\x1b[2Lz\r\n".as_bytes());
            one.draw(true);
        }
        assert_eq!(one.parsed().size(), (NonZeroU16::new(5).unwrap(), NonZeroU16::new(3).unwrap()));
    }
}
