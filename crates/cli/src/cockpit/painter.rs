//! From cells to the escape sequences that draw them on the person's terminal.

use std::io::Error;

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};

use crate::tty;

/// Draws on the standard output, one write a frame.
#[derive(Debug, Default)]
pub(crate) struct Painter {
    out: Vec<u8>,
}

impl Backend for Painter {
    type Error = Error;

    fn draw<'a, I>(&mut self, content: I) -> Result<(), Error>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let (mut at, mut look) = (None, None);
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                self.put(&format!("\x1b[{};{}H", y.saturating_add(1), x.saturating_add(1)));
            }
            if look != Some((cell.fg, cell.modifier)) {
                look = Some((cell.fg, cell.modifier));
                self.put(&sgr(cell.fg, cell.modifier));
            }
            self.put(cell.symbol());
            // Behind a wide character the place is said anew.
            at = (cell.symbol().is_ascii()).then_some((x.saturating_add(1), y));
        }
        self.put("\x1b[m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> Result<(), Error> {
        self.put("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> Result<(), Error> {
        self.put("\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> Result<Position, Error> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Error> {
        let Position { x, y } = position.into();
        self.put(&format!("\x1b[{};{}H", y.saturating_add(1), x.saturating_add(1)));
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, clear_type: ClearType) -> Result<(), Error> {
        self.put(match clear_type {
            ClearType::All => "\x1b[m\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> Result<Size, Error> {
        let size = tty::size_or_usual(std::io::stdout());
        Ok(Size { width: size.columns, height: size.rows })
    }

    fn window_size(&mut self) -> Result<WindowSize, Error> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> Result<(), Error> {
        tty::draw(&std::mem::take(&mut self.out))
    }
}

impl Painter {
    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// The looks that [`frame`](super::frame) uses.
fn sgr(colour: Color, modifier: Modifier) -> String {
    let mut code = String::from("\x1b[0");
    let looks = [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")];
    looks.iter().filter(|(look, _)| modifier.contains(*look)).for_each(|(_, part)| code.push_str(part));
    let colours = [(Color::Red, ";31"), (Color::Green, ";32"), (Color::Yellow, ";33")];
    colours.iter().filter(|(known, _)| *known == colour).for_each(|(_, part)| code.push_str(part));
    code + "m"
}

#[cfg(test)]
mod tests {
    use ratatui_core::buffer::Buffer;
    use ratatui_core::layout::Rect;
    use ratatui_core::style::Style;

    use super::*;

    fn drawn(buffer: &Buffer) -> String {
        let mut painter = Painter::default();
        let before = Buffer::empty(buffer.area);
        painter.draw(before.diff_iter(buffer)).unwrap();
        String::from_utf8(painter.out).unwrap()
    }

    #[test]
    fn only_what_changed_is_drawn_and_wide_characters_keep_their_place() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 2));
        buffer.set_string(2, 1, "日b", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        assert_eq!(drawn(&buffer), "\x1b[2;3H\x1b[0;1;31m日\x1b[2;5Hb\x1b[m");
    }

    #[test]
    fn without_a_style_no_colour_is_drawn() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 1));
        buffer.set_string(0, 0, "ab", Style::new());
        assert_eq!(drawn(&buffer), "\x1b[1;1H\x1b[0mab\x1b[m");
    }
}
