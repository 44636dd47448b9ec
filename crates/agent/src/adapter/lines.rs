//! Lines of a transcript, one at a time, in bounded memory however long they are.

use std::io::{BufRead, Result};

/// A line as far as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its first bytes, without the line feed.
    pub(super) head: Vec<u8>,
    /// Its length with the line feed, bytes.
    pub(super) length: u64,
    /// Whether a line feed ends it.
    pub(super) ended: bool,
}

impl Line {
    /// True where all of the line is in `head`.
    pub(super) fn is_whole(&self) -> bool {
        self.head.len() as u64 + u64::from(self.ended) == self.length
    }
}

/// Reads the next line, keeping at most `keep` bytes of it. `None` at the end.
pub(super) fn next(reader: &mut impl BufRead, keep: usize) -> Result<Option<Line>> {
    let mut line = Line { head: Vec::new(), length: 0, ended: false };
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((line.length > 0).then_some(line));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let text = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = keep.saturating_sub(line.head.len()).min(text.len());
        line.head.extend_from_slice(text.get(..room).unwrap_or_default());
        let used = text.len() + usize::from(end.is_some());
        line.length += used as u64;
        reader.consume(used);
        if end.is_some() {
            line.ended = true;
            return Ok(Some(line));
        }
    }
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
        assert!(!lines[0].is_whole());
        assert!(lines[1].is_whole());
    }

    #[test]
    fn last_line_without_line_feed_is_told_apart() {
        let lines = all(b"a\n\nb", 9);
        let seen: Vec<_> = lines.iter().map(|line| (line.head.as_slice(), line.ended)).collect();
        assert_eq!(seen, [(b"a".as_slice(), true), (b"".as_slice(), true), (b"b".as_slice(), false)]);
        assert!(all(b"", 9).is_empty());
    }
}
