//! What may be drawn of a terminal on another device: text, colours, the cursor and the screen, and nothing else.
//!
//! A peer's terminal is a text of the peer's, drawn on the person's own one. What would reach beyond the drawing is left
//! out: titles, the clipboard, links, notifications, the directory and the palette (OSC), strings to the terminal itself
//! (DCS, APC, PM, SOS), everything that makes a terminal answer (it would type for the person), printing, sizes and places
//! of windows, erasing of the person's own scrollback, and characters that turn the direction of a text around.

use vte::{Params, Parser, Perform};

use super::characters::Characters;

/// Keeps what may be drawn. It stands between two pieces of one stream: a sequence may be cut anywhere.
#[derive(Default)]
pub struct Filter {
    characters: Characters,
    parser: Parser,
    passed: Passed,
}

impl Filter {
    /// What may be drawn of these bytes.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let whole = self.characters.whole(bytes);
        self.parser.advance(&mut self.passed, &whole);
        core::mem::take(&mut self.passed.0)
    }
}

#[derive(Default)]
struct Passed(Vec<u8>);

impl Passed {
    fn sequence(&mut self, private: &str, params: &Params, ending: &str) {
        self.0.extend(b"\x1b[");
        self.0.extend(private.as_bytes());
        for (at, param) in params.iter().enumerate() {
            if at > 0 {
                self.0.push(b';');
            }
            let parts: Vec<String> = param.iter().map(u16::to_string).collect();
            self.0.extend(parts.join(":").as_bytes());
        }
        self.0.extend(ending.as_bytes());
    }

    /// Of several modes in one sequence each is looked at.
    fn modes(&mut self, private: &str, allowed: &[u16], params: &Params, action: char) {
        for mode in params.iter().filter_map(|param| param.first()).filter(|mode| allowed.contains(mode)) {
            self.0.extend(format!("\x1b[{private}{mode}{action}").as_bytes());
        }
    }
}

/// Private modes that concern the drawing, the cursor and what the person's keys and mouse send.
const PRIVATE_MODES: [u16; 19] =
    [1, 5, 6, 7, 12, 25, 45, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1047, 1048, 1049, 2004, 2026];

/// Insertion, and what a line feed does.
const MODES: [u16; 2] = [4, 20];

impl Perform for Passed {
    fn print(&mut self, character: char) {
        if !is_deceptive(character) {
            self.0.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    fn execute(&mut self, byte: u8) {
        // Bell, backspace, tabulator, line feeds, return, and the two character sets.
        if matches!(byte, 0x07..=0x0f) {
            self.0.push(byte);
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        let first = params.iter().next().and_then(|param| param.first()).copied().unwrap_or(0);
        match (intermediates, action) {
            ([], 'J') if first < 3 => self.sequence("", params, "J"),
            ([], '@' | 'A'..='I' | 'K' | 'L' | 'M' | 'P' | 'S' | 'X' | 'Z' | '`'..='b' | 'd'..='g' | 'm' | 'r') => {
                self.sequence("", params, action.encode_utf8(&mut [0; 4]));
            }
            // With more than one number it is a report of the mouse.
            ([], 'T') if params.len() <= 1 => self.sequence("", params, "T"),
            ([], 's' | 'u') if params.len() <= 1 && first == 0 => {
                self.0.extend([0x1b, b'[']);
                self.0.extend(action.encode_utf8(&mut [0; 4]).as_bytes());
            }
            ([], 'h' | 'l') => self.modes("", &MODES, params, action),
            ([b'?'], 'h' | 'l') => self.modes("?", &PRIVATE_MODES, params, action),
            ([b'?'], 'J' | 'K') if first < 3 => self.sequence("?", params, action.encode_utf8(&mut [0; 4])),
            ([b' '], 'q') => self.sequence("", params, " q"),
            ([b'!'], 'p') => self.0.extend(b"\x1b[!p"),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        match (intermediates, byte) {
            _ if ignore => {}
            ([], b'7' | b'8' | b'D' | b'E' | b'H' | b'M' | b'=' | b'>') | ([b'#'], b'8') => {
                self.0.push(0x1b);
                self.0.extend(intermediates);
                self.0.push(byte);
            }
            ([b'(' | b')'], b'0' | b'A' | b'B') => {
                self.0.push(0x1b);
                self.0.extend(intermediates);
                self.0.push(byte);
            }
            // A full reset would take the person's own scrollback along.
            ([], b'c') => self.0.extend(b"\x1b[!p\x1b[?1049l\x1b[r\x1b[m\x1b[H\x1b[2J"),
            _ => {}
        }
    }
}

/// Characters that turn the direction of a text around, controls of the second kind, and letters that nobody sees.
fn is_deceptive(character: char) -> bool {
    matches!(
        character,
        '\u{80}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(bytes: &[u8]) -> String {
        String::from_utf8(Filter::default().pass(bytes)).unwrap()
    }

    /// Shows: D-8
    #[test]
    fn drawing_goes_through_as_it_is() {
        let drawing = "a\tü 漢 👩\u{200d}💻\r\n\u{8}\u{1b}[1;38:2:1:2:3m\u{1b}[48;5;7mx\u{1b}[0m\u{1b}[2J\u{1b}[3;4H\u{1b}[0K\
                       \u{1b}[?1049h\u{1b}[?25l\u{1b}[2;9r\u{1b}[4 q\u{1b}7\u{1b}8\u{1b}(0\u{1b}(B\u{7}";
        assert_eq!(passed(drawing.as_bytes()), drawing);
    }

    /// Shows: D-8
    #[test]
    fn what_reaches_beyond_the_drawing_is_left_out() {
        let hostile: [&[u8]; 24] = [
            b"\x1b]0;root@bank\x07",
            b"\x1b]2;title\x1b\\",
            b"\x1b]52;c;cm0gLXJmIH4=\x07",
            b"\x1b]52;c;?\x07",
            b"\x1b]8;;http://evil\x07",
            b"\x1b]7;file:///etc\x07",
            b"\x1b]9;click\x07",
            b"\x1b]777;notify;a;b\x07",
            b"\x1b]4;1;?\x07",
            b"\x1b]1337;File=:AAAA\x07",
            b"\x1bP$qm\x1b\\",
            b"\x1bP+q544e\x1b\\",
            b"\x1b_Gi=1,a=q;AAAA\x1b\\",
            b"\x1b^pm\x1b\\",
            b"\x1bXsos\x1b\\",
            b"\x1b[c",
            b"\x1b[>c",
            b"\x1b[6n",
            b"\x1b[?6n",
            b"\x1b[21t",
            b"\x1b[5i",
            b"\x1b[3J",
            b"\x1b[?1$p",
            b"\x1bZ",
        ];
        for bytes in hostile {
            assert_eq!(passed(bytes), "", "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(passed("a\u{202e}b\u{2066}c\u{9b}5n\u{e0041}".as_bytes()), "abc5n");
        assert_eq!(passed(b"\x1b[?25;9;1049h"), "\x1b[?25h\x1b[?1049h", "each mode is looked at");
    }

    /// Shows: D-8
    #[test]
    fn sequence_that_is_cut_is_still_left_out() {
        let bytes = b"a\x1b]52;c;cm0=\x07b\x1b[6nc\x1b[31md";
        for cut in 0..bytes.len() {
            let mut filter = Filter::default();
            let (before, after) = bytes.split_at(cut);
            let all = [filter.pass(before), filter.pass(after)].concat();
            assert_eq!(String::from_utf8(all).unwrap(), "abc\x1b[31md", "cut at {cut}");
        }
    }

    #[test]
    fn endless_string_takes_no_memory_and_bytes_that_are_no_text_no_harm() {
        let mut filter = Filter::default();
        filter.pass(b"\x1b]0;");
        (0..1_000).for_each(|_| assert!(filter.pass(&[b'x'; 4_096]).is_empty()));
        assert_eq!(String::from_utf8(filter.pass(b"\x07\xff\xc3\x28ok")).unwrap(), "\u{fffd}\u{fffd}(ok");
    }
}
