//! Lines of a transcript, one at a time, in bounded memory however long they are.

use std::io::{BufRead, Read as _, Result};

/// A line as far as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its first bytes, without the line feed.
    pub(super) head: Vec<u8>,
    /// Its length with the line feed, bytes.
    pub(super) length: u64,
    /// Whether all of it is in `head`.
    pub(super) whole: bool,
}

/// Reads the next line, keeping at most `keep` bytes of it. `None` at the end.
pub(super) fn next(reader: &mut impl BufRead, keep: usize) -> Result<Option<Line>> {
    let mut head = Vec::new();
    let kept = reader.by_ref().take(keep as u64).read_until(b'\n', &mut head)?;
    let ended = head.pop_if(|last| *last == b'\n').is_some();
    // The standard library's search is the fast one: nearly all bytes of a large transcript pass here.
    let skipped = if ended || kept < keep { 0 } else { reader.skip_until(b'\n')? };
    let length = (kept + skipped) as u64;
    Ok((length > 0).then_some(Line { head, length, whole: skipped == 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], keep: usize) -> Vec<Line> {
        let mut reader = std::io::BufReader::with_capacity(3, text);
        std::iter::from_fn(|| next(&mut reader, keep).unwrap()).collect()
    }

    #[test]
    fn long_line_is_counted_and_not_kept() {
        let lines = all(b"0123456789\nab\n", 4);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].head.as_slice(), lines[0].length), (b"0123".as_slice(), 11));
        assert!(!lines[0].whole);
        assert!(lines[1].whole);
    }

    #[test]
    fn empty_lines_and_a_last_one_without_line_feed_are_lines() {
        let lines = all(b"a\n\nb", 9);
        let seen: Vec<_> = lines.iter().map(|line| (line.head.as_slice(), line.length)).collect();
        assert_eq!(seen, [(b"a".as_slice(), 2), (b"".as_slice(), 1), (b"b".as_slice(), 1)]);
        assert!(all(b"", 9).is_empty());
        assert_eq!(all(b"ab\nc", 0).len(), 2, "kept or not, a line is a line");
    }
}
