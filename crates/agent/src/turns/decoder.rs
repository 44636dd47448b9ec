//! What the programs print, read from bytes.

use std::fs::File;
use std::io::Read;
use std::sync::Mutex;
use std::time::Duration;

use super::run::{End, Ended, read_output, told};

/// What is understood of a program's output, wherever the pipe cuts it: what it came to, and the lines of progress.
///
/// # Errors
/// The system has no place that swallows what is written.
pub fn heard(output: impl Read) -> std::io::Result<(Ended, Vec<String>)> {
    let nowhere = File::options().write(true).open("/dev/null")?;
    let shared = Mutex::default();
    let (line, lines) = std::sync::mpsc::sync_channel(PROGRESS);
    read_output(output, nowhere, &shared, &line);
    drop(line);
    Ok((told(&shared, End::Itself(Some(0)), Duration::ZERO), lines.iter().collect()))
}

/// Lines of progress that are kept.
const PROGRESS: usize = 1 << 10;
