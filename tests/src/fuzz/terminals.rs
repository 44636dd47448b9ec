//! What programs print into terminals, here and at peers.

use cede_agent::terminal::decoder;
use cede_agent::terminal::filter::Filter;

/// Sequences that a person's terminal would act on beyond its drawing, and characters that turn a text around.
const NEVER: [&str; 12] = [
    "\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1b[6n", "\x1b[c", "\x1b[3J", "\x1bZ", "\x1bc", "\u{202e}", "\u{9b}",
];

/// Whatever goes in, and wherever it is cut: what comes out is text, is bounded by what went in, and holds nothing that
/// reaches beyond the drawing. Passed through once more, it is the same.
pub(super) fn filter(bytes: &[u8]) {
    let passed = Filter::default().pass(bytes);
    let text = str::from_utf8(&passed).expect("text");
    for never in NEVER {
        assert!(!text.contains(never), "{never:?} got through: {text:?}");
    }
    assert!(passed.len() <= 64 + 24 * bytes.len(), "{} bytes became {}", bytes.len(), passed.len());
    let twice = Filter::default().pass(&passed);
    assert_eq!(Filter::default().pass(&twice), twice, "passed again it is another text");
    let (before, after) = bytes.split_at(bytes.len() / 2);
    let mut filter = Filter::default();
    let cut = [filter.pass(before), filter.pass(after)].concat();
    assert_eq!(cut, passed, "cut in the middle it is another text");
}

/// The screen of whatever is printed is drawn for one who comes late: of any size, and bounded by the size.
pub(super) fn screen(bytes: &[u8]) {
    let Some(([rows, columns], rest)) = bytes.split_first_chunk::<2>() else { return };
    let (rows, columns) = (u16::from(*rows) * 257, u16::from(*columns) * 257);
    let drawn = decoder::drawn(rest, rows, columns);
    assert!(drawn.len() <= 16 << 20, "{} bytes drawn", drawn.len());
    filter(&drawn[..drawn.len().min(4_096)]);
}
