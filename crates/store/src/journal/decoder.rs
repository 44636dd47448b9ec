//! The reader of the journal alone, without the directory, the lock and the disk.

use std::fs::File;

use cede_wire::record::Record;

use super::replay::scan;
use super::{Condition, JournalError};

/// Reads a journal: its records, how it ends, and whether it was closed in order.
///
/// # Errors
/// [`JournalError`].
pub fn read(file: &File) -> Result<(Vec<Record>, Condition, bool), JournalError> {
    scan(file).map(|scan| (scan.records, scan.condition, scan.closed))
}
