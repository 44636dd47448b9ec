//! What a terminal wrote, numbered by offset, and how a viewer reads it.

use std::collections::VecDeque;

use super::Size;
use super::screen::Screen;
use crate::limits;

/// The next piece for a viewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Set where the screen is drawn anew: how many bytes the viewer will never see.
    pub fresh: Option<u64>,
    /// What to draw.
    pub bytes: Vec<u8>,
    /// With these bytes the viewer has seen everything before this offset; none: more of the drawing follows.
    pub next: Option<u64>,
}

/// How far a viewer has read.
#[derive(Debug)]
pub(super) struct Reading {
    from: Option<u64>,
    /// The rest of a drawing.
    drawing: VecDeque<u8>,
    /// It was drawn while a program used the other screen: what lies under it was never drawn.
    hollow: bool,
}

impl Reading {
    pub(super) fn from(from: Option<u64>) -> Self {
        Self { from, drawing: VecDeque::new(), hollow: false }
    }
}

/// The newest output and the screen.
pub(super) struct Output {
    kept: VecDeque<u8>,
    end: u64,
    screen: Screen,
    size: Size,
}

impl Output {
    pub(super) fn new(size: Size) -> Self {
        Self { kept: VecDeque::new(), end: 0, screen: Screen::new(size), size }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.screen.push(bytes);
        self.end += bytes.len() as u64;
        self.kept.extend(bytes);
        let over = self.kept.len().saturating_sub(limits::OUTPUT_KEPT_BYTES);
        self.kept.drain(..over);
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.size = size;
        self.screen.resize(size);
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    fn begin(&self) -> u64 {
        self.end - self.kept.len() as u64
    }

    pub(super) fn read(&mut self, reading: &mut Reading, most: usize) -> Option<Frame> {
        if !reading.drawing.is_empty() {
            return Some(piece_of_drawing(reading, None, most));
        }
        let from = reading.from.filter(|from| (self.begin()..=self.end).contains(from));
        let uncovered = reading.hollow && !self.screen.is_alternate();
        let Some(from) = from.filter(|_| !uncovered) else { return Some(self.draw(reading, most)) };
        let skipped = usize::try_from(from - self.begin()).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = self.kept.iter().skip(skipped).take(most).copied().collect();
        if bytes.is_empty() {
            return None;
        }
        let next = from + bytes.len() as u64;
        reading.from = Some(next);
        Some(Frame { fresh: None, bytes, next: Some(next) })
    }

    /// The screen as it is now. A sequence that is not complete yet has drawn nothing: it is sent again after the drawing.
    fn draw(&mut self, reading: &mut Reading, most: usize) -> Frame {
        let at = self.end - self.screen.incomplete().min(self.kept.len() as u64);
        // A viewer with an offset of another life has missed what is kept nowhere; how much is not known.
        let lost = reading.from.map_or(0, |from| at.saturating_sub(from));
        let first = reading.from.is_none();
        reading.drawing = self.screen.draw(first).into();
        reading.from = Some(at);
        reading.hollow = self.screen.is_alternate();
        piece_of_drawing(reading, Some(if reading.hollow || !first { lost } else { 0 }), most)
    }
}

fn piece_of_drawing(reading: &mut Reading, fresh: Option<u64>, most: usize) -> Frame {
    let take = most.min(reading.drawing.len());
    let bytes: Vec<u8> = reading.drawing.drain(..take).collect();
    Frame { fresh, bytes, next: reading.from.filter(|_| reading.drawing.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1_000;

    fn output() -> Output {
        Output::new(Size::new(4, 20))
    }

    /// What a viewer's own terminal shows after everything that comes.
    fn shown(output: &mut Output, reading: &mut Reading, screen: &mut Screen) -> (String, u64) {
        let mut lost = 0;
        while let Some(frame) = output.read(reading, 7) {
            lost += frame.fresh.unwrap_or(0);
            screen.push(&frame.bytes);
        }
        (screen.text(), lost)
    }

    /// Shows: D-4
    #[test]
    fn viewer_goes_on_from_its_offset_without_loss() {
        let mut output = output();
        output.push(b"one ");
        let mut reading = Reading::from(Some(4));
        assert_eq!(output.read(&mut reading, MOST), None);
        output.push(b"two");
        output.push(b" three");
        let frame = output.read(&mut reading, MOST).unwrap();
        assert_eq!((frame.fresh, frame.bytes.as_slice(), frame.next), (None, &b"two three"[..], Some(13)));
        assert_eq!(output.read(&mut reading, MOST), None);
    }

    /// Shows: D-4
    #[test]
    fn viewer_that_fell_behind_is_told_how_much_it_missed_and_gets_the_screen() {
        let mut output = output();
        output.push(b"first\r\n");
        let mut reading = Reading::from(Some(7));
        let flood = b"0123456789\r\n".repeat(limits::OUTPUT_KEPT_BYTES / 12 + 10);
        output.push(&flood);
        output.push(b"last");
        assert_eq!(output.kept.len(), limits::OUTPUT_KEPT_BYTES, "what is kept is bounded");
        let mut screen = Screen::new(output.size());
        let (text, lost) = shown(&mut output, &mut reading, &mut screen);
        assert_eq!(lost, flood.len() as u64 + 4);
        assert_eq!(text, "0123456789\n0123456789\n0123456789\nlast");
        output.push(b"!");
        assert_eq!(shown(&mut output, &mut reading, &mut screen).1, 0);
    }

    #[test]
    fn offset_that_was_never_written_gets_the_screen() {
        let mut output = output();
        output.push(b"abc");
        let frame = output.read(&mut Reading::from(Some(900)), MOST).unwrap();
        assert_eq!((frame.fresh, frame.next), (Some(0), Some(3)));
    }

    /// Shows: D-4
    #[test]
    fn drawing_within_a_sequence_does_not_break_it() {
        let whole = "a\u{1b}[31mrot ü 漢字 \u{1b}]0;title\u{7}\u{1b}[0mz".as_bytes();
        for cut in 0..whole.len() {
            let mut output = output();
            output.push(&whole[..cut]);
            let (mut reading, mut screen) = (Reading::from(None), Screen::new(output.size()));
            shown(&mut output, &mut reading, &mut screen);
            output.push(&whole[cut..]);
            let (text, lost) = shown(&mut output, &mut reading, &mut screen);
            assert_eq!((text.as_str(), lost), ("arot ü 漢字 z", 0), "cut at {cut}");
        }
    }

    #[test]
    fn what_lies_under_a_full_screen_program_is_drawn_when_it_ends() {
        let mut output = output();
        output.push(b"below\x1b[?1049h\x1b[Heditor");
        let (mut reading, mut screen) = (Reading::from(None), Screen::new(output.size()));
        assert_eq!(shown(&mut output, &mut reading, &mut screen).0, "editor");
        output.push(b"\x1b[?1049l");
        assert_eq!(shown(&mut output, &mut reading, &mut screen).0, "below");
    }
}
