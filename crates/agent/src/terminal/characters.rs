//! Characters that are cut between two reads.

/// Keeps the beginning of a character until its end comes. The parser below (vte 0.15) loses the character after one that
/// was cut, so it never sees a cut.
#[derive(Debug, Default)]
pub(super) struct Characters {
    held: Vec<u8>,
}

impl Characters {
    /// What came before and these bytes, up to the last character that is whole.
    pub(super) fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = core::mem::take(&mut self.held);
        all.extend(bytes);
        self.held = all.split_off(all.len() - cut_off(&all));
        all
    }
}

/// Bytes at the end that begin a character of more bytes than there are.
fn cut_off(bytes: &[u8]) -> usize {
    let begins = |byte: &u8| !(0x80..0xc0).contains(byte);
    let tail = bytes.iter().rev().take(3).position(begins).map_or(0, |at| at + 1);
    let first = bytes.len().checked_sub(tail).and_then(|at| bytes.get(at)).copied().unwrap_or(0);
    let whole = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if tail > 0 && tail < whole { tail } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_through_whole_wherever_it_is_cut() {
        let text = "aü 漢字 👩‍💻\u{1b}[31mé".as_bytes();
        for cut in 0..=text.len() {
            for second in cut..=text.len() {
                let mut characters = Characters::default();
                let parts = [&text[..cut], &text[cut..second], &text[second..]];
                let pieces: Vec<Vec<u8>> = parts.iter().map(|part| characters.whole(part)).collect();
                assert!(pieces.iter().all(|piece| core::str::from_utf8(piece).is_ok()));
                assert_eq!(pieces.concat(), text);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_not_kept() {
        let mut characters = Characters::default();
        assert_eq!(characters.whole(b"\x80\x80\x80\x80\xff"), b"\x80\x80\x80\x80\xff");
        assert_eq!(characters.whole(b"\xf0\x9f"), b"");
        assert_eq!(characters.whole(b"a"), b"\xf0\x9fa");
    }
}
