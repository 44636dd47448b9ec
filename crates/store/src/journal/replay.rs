//! Reading a journal from its beginning, and telling a torn write from damage.

use std::fs::File;
use std::os::unix::fs::FileExt;

use cede_wire::record::Record;

use super::frame::{
    Chain, FILE_HEADER_BYTES, FORMAT, FileHeader, GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader, Key, NotAHeader,
    Unreadable, read_records,
};
use super::{Condition, JournalError};
use crate::disk::{DiskFault, while_doing};
use crate::limits::JOURNAL_BYTES;

/// What a journal holds, and where it can be continued.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) records: Vec<Record>,
    pub(crate) condition: Condition,
    /// Whether the last group is the mark of an orderly end.
    pub(crate) closed: bool,
    /// None when not even the first bytes are sound.
    pub(crate) tail: Option<Tail>,
}

/// The end of the valid groups.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) key: Key,
    pub(crate) chain: Chain,
    /// Number of the last group.
    pub(crate) number: u64,
    pub(crate) end: u64,
}

/// Reads a journal.
pub(crate) fn scan(file: &File) -> Result<Scan, JournalError> {
    let length = file.metadata().map_err(while_doing("look at the journal"))?.len();
    if length > JOURNAL_BYTES {
        return Err(JournalError::TooLong(length));
    }
    let mut scan = Scan { records: Vec::new(), condition: Condition::Clean, closed: false, tail: None };
    let Some(header) = read_file_header(file, length)? else {
        scan.condition = Condition::Damaged { offset: 0 };
        return Ok(scan);
    };
    let mut tail = Tail { key: header.key(), chain: header.chain(), number: 0, end: FILE_HEADER_BYTES as u64 };
    let mut bytes = Vec::new();
    scan.condition = loop {
        let Some(group) = next_group(file, length, &tail, &mut bytes)? else { break judge(file, length, &tail)? };
        let held = scan.records.len();
        match read_records(&bytes, &mut scan.records) {
            Ok(count) if count == group.records => {}
            // Source: SPEC J-6.
            Err(Unreadable::Newer(kind)) => return Err(JournalError::NewerRecord { kind, offset: tail.end }),
            // Its chain is right, so it was written like this: not a torn write.
            Ok(_) | Err(Unreadable::Bad) => {
                scan.records.truncate(held);
                break Condition::Damaged { offset: tail.end };
            }
        }
        scan.closed = group.records == 0;
        tail.chain = group.chain;
        tail.number = group.number;
        tail.end += (GROUP_HEADER_BYTES + bytes.len()) as u64;
    };
    scan.closed &= scan.condition == Condition::Clean;
    scan.tail = Some(tail);
    Ok(scan)
}

fn read_file_header(file: &File, length: u64) -> Result<Option<FileHeader>, JournalError> {
    if length < FILE_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; FILE_HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0).map_err(while_doing("read the journal"))?;
    match FileHeader::from_bytes(&bytes) {
        Ok(header) => Ok(Some(header)),
        Err(NotAHeader::Newer(found)) => Err(JournalError::NewerFormat { found, known: FORMAT }),
        Err(NotAHeader::Bad) => Ok(None),
    }
}

/// The group that follows, when it is whole.
fn next_group(file: &File, length: u64, tail: &Tail, records: &mut Vec<u8>) -> Result<Option<GroupHeader>, DiskFault> {
    let body = tail.end + GROUP_HEADER_BYTES as u64;
    if body > length {
        return Ok(None);
    }
    let mut bytes = [0; GROUP_HEADER_BYTES];
    file.read_exact_at(&mut bytes, tail.end).map_err(while_doing("read the journal"))?;
    let Some(group) = GroupHeader::from_bytes(&tail.key, &bytes) else { return Ok(None) };
    if group.number != tail.number + 1 || body + u64::from(group.length) > length {
        return Ok(None);
    }
    records.resize(group.length as usize, 0);
    file.read_exact_at(records, body).map_err(while_doing("read the journal"))?;
    Ok(group.covers(&tail.key, &tail.chain, records).then_some(group))
}

/// Looks at everything behind the last whole group. Zeros are room kept ahead. A group header that is valid can only
/// have been written after the group before it was durable, so one of them anywhere behind a bad group is damage,
/// and so is one in its place that does not continue the chain. Source: SPEC J-4, J-5.
fn judge(file: &File, length: u64, tail: &Tail) -> Result<Condition, DiskFault> {
    let mut window = vec![0; WINDOW_BYTES];
    let mut last = None;
    let mut at = tail.end;
    while at < length {
        let fill = usize::try_from(length - at).unwrap_or(usize::MAX).min(WINDOW_BYTES);
        let bytes = window.get_mut(..fill).unwrap_or_default();
        file.read_exact_at(bytes, at).map_err(while_doing("read the journal"))?;
        if headers_in(bytes, tail).any(|(place, group)| at + place > tail.end || group.number != tail.number + 1) {
            return Ok(Condition::Damaged { offset: tail.end });
        }
        last = bytes.iter().rposition(|byte| *byte != 0).map(|place| at + place as u64).or(last);
        // Windows overlap, so that a header across their border is seen.
        at += if fill < WINDOW_BYTES { fill } else { WINDOW_BYTES - GROUP_HEADER_BYTES } as u64;
    }
    Ok(last.map_or(Condition::Clean, |last| Condition::TornTail { bytes: last + 1 - tail.end }))
}

fn headers_in<'a>(bytes: &'a [u8], tail: &'a Tail) -> impl Iterator<Item = (u64, GroupHeader)> + 'a {
    bytes.windows(GROUP_HEADER_BYTES).enumerate().filter(|(_, window)| window.starts_with(GROUP_MAGIC)).filter_map(
        |(place, window)| {
            let header = GroupHeader::from_bytes(&tail.key, window.first_chunk()?)?;
            Some((place as u64, header))
        },
    )
}

const WINDOW_BYTES: usize = 1 << 20;
