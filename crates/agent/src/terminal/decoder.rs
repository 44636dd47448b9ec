//! What a hosted terminal wrote, read from bytes.

use super::Size;
use super::output::{Output, Reading};

/// What is drawn for one who attaches after these bytes, in a terminal of this size.
pub fn drawn(bytes: &[u8], rows: u16, columns: u16) -> Vec<u8> {
    let mut output = Output::new(Size::new(rows, columns));
    bytes.chunks(1_000).for_each(|piece| output.push(piece));
    let mut reading = Reading::from(None);
    core::iter::from_fn(|| output.read(&mut reading, 64 << 10)).flat_map(|frame| frame.bytes).collect()
}
