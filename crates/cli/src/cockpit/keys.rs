//! From the bytes of a terminal to keys.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character.
    Char(char),
    /// A letter with Ctrl.
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// One that means nothing here.
    Other,
}

/// Tells keys apart. It stands between two reads: the rest of a sequence may come later.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    rest: Vec<u8>,
    pasting: bool,
}

impl Keys {
    /// The keys in these bytes, in their order. What was pasted is none of them.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.rest.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((key, length)) = next(&self.rest) {
            self.rest.drain(..length.min(self.rest.len()));
            match key {
                Read::Key(key) if !self.pasting => keys.push(key),
                Read::Key(_) => {}
                Read::Paste(begins) => self.pasting = begins,
            }
        }
        keys
    }

    /// Whether a sequence may have begun.
    pub(crate) fn is_open(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Bytes that wait for the rest of their sequence.
    #[cfg(feature = "decoders")]
    pub(crate) fn waits(&self) -> usize {
        self.rest.len()
    }

    /// Nothing more came: an escape that stands alone was the key.
    pub(crate) fn idle(&mut self) -> Option<Key> {
        let rest = std::mem::take(&mut self.rest);
        match rest.as_slice() {
            [] => None,
            [ESC] if !self.pasting => Some(Key::Esc),
            _ => Some(Key::Other),
        }
    }
}

enum Read {
    Key(Key),
    /// The beginning or the end of something pasted.
    Paste(bool),
}

/// The first key and how many bytes it is; none where more bytes are needed.
fn next(bytes: &[u8]) -> Option<(Read, usize)> {
    let (first, after) = bytes.split_first()?;
    let key = |key, length| Some((Read::Key(key), length));
    match (*first, after) {
        (ESC, []) => None,
        (ESC, [b'[', rest @ ..]) => control_sequence(rest),
        (ESC, [b'O', rest @ ..]) => rest.first().and_then(|last| key(named(*last), 3)),
        // An escape twice: the first one was the key.
        (ESC, [ESC, ..]) => key(Key::Esc, 1),
        // With Alt it is another key than without.
        (ESC, rest) => character(rest).and_then(|(_, length)| key(Key::Other, length + 1)),
        (b'\r' | b'\n', _) => key(Key::Enter, 1),
        (b'\t', _) => key(Key::Tab, 1),
        (0x01..=0x1a, _) => key(Key::Ctrl(char::from(b'a' + first - 1)), 1),
        (0x00..=0x1f | 0x7f, _) => key(Key::Other, 1),
        _ => character(bytes).and_then(|(c, length)| key(c.map_or(Key::Other, Key::Char), length)),
    }
}

/// Behind `ESC [`: parameters, then one byte that ends it.
fn control_sequence(rest: &[u8]) -> Option<(Read, usize)> {
    let ends = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
    let Some(at) = ends.filter(|at| *at < SEQUENCE_BYTES) else {
        let endless = rest.len() >= SEQUENCE_BYTES;
        return endless.then_some((Read::Key(Key::Other), SEQUENCE_BYTES));
    };
    let (parameters, last) = (rest.get(..at)?, *rest.get(at)?);
    let read = match (parameters, last) {
        (b"200", b'~') => Read::Paste(true),
        (b"201", b'~') => Read::Paste(false),
        (b"5", b'~') => Read::Key(Key::PageUp),
        (b"6", b'~') => Read::Key(Key::PageDown),
        (b"1" | b"7", b'~') => Read::Key(Key::Home),
        (b"4" | b"8", b'~') => Read::Key(Key::End),
        (b"", last) => Read::Key(named(last)),
        _ => Read::Key(Key::Other),
    };
    Some((read, at + 3))
}

const fn named(last: u8) -> Key {
    match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'Z' => Key::BackTab,
        b'M' => Key::Enter,
        _ => Key::Other,
    }
}

/// One character; none in it: these bytes are no text.
fn character(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let first = *bytes.first()?;
    let length = match first {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((None, 1)),
    };
    let whole = bytes.get(..length)?;
    match std::str::from_utf8(whole).ok().and_then(|text| text.chars().next()) {
        Some(c) => Some((Some(c), length)),
        None => Some((None, 1)),
    }
}

const ESC: u8 = 0x1b;
/// Longest sequence that is waited for; no key has a longer one.
const SEQUENCE_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        let mut read = keys.read(bytes);
        read.extend(keys.idle());
        read
    }

    #[test]
    fn keys_are_told_apart_wherever_the_bytes_are_cut() {
        let bytes = "y日\x1b[A\x1bOB\x1b[5~\t\x1b[Z\r\x03\x1b[1;5C\x1b".as_bytes();
        let whole = keys(bytes);
        let wanted = [
            Key::Char('y'),
            Key::Char('日'),
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::Tab,
            Key::BackTab,
            Key::Enter,
            Key::Ctrl('c'),
            Key::Other,
            Key::Esc,
        ];
        assert_eq!(whole, wanted);
        for cut in 0..bytes.len() {
            let mut keys = Keys::default();
            let mut read = keys.read(&bytes[..cut]);
            read.extend(keys.read(&bytes[cut..]));
            read.extend(keys.idle());
            assert_eq!(read, wanted, "cut at {cut}");
        }
    }

    #[test]
    fn pasted_text_answers_nothing() {
        assert_eq!(keys(b"\x1b[200~yes\ry\x1b[201~n"), [Key::Char('n')]);
        let mut open = Keys::default();
        assert_eq!(open.read(b"\x1b[200~y"), []);
        assert_eq!(open.read(b"y"), [], "it has not ended");
    }

    #[test]
    fn key_with_alt_is_not_the_key() {
        assert_eq!(keys(b"\x1by"), [Key::Other]);
        assert_eq!(keys(b"\x1b\x1b[A"), [Key::Esc, Key::Up]);
    }

    #[test]
    fn bytes_that_are_no_text_and_endless_sequences_end() {
        assert_eq!(keys(b"\xff\xc3y"), [Key::Other, Key::Other, Key::Char('y')]);
        let endless = [b"\x1b[".as_slice(), &[b'1'; 100], b"y"].concat();
        let mut read = Keys::default();
        let found = read.read(&endless);
        assert!(!read.is_open() || read.rest.len() < SEQUENCE_BYTES, "{found:?}");
    }
}
