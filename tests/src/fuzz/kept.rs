//! What lies on disks for long: the record of what was decided, tables of files, messages with their parts.

use cede_core::audit::{AuditFault, verify};
use cede_wire::letter::{Letter, LetterPart};
use cede_wire::limits::TASK_BYTES;
use cede_wire::task::Part;
use cede_wire::transfer::FileCatalog;

use super::peers::{is_ordered, one_encoding};
use super::seeds;
use super::words;

/// A file of the record beside the newest checkpoint that was signed: where nothing is found wrong, everything that was
/// signed for stands in it, and stands first.
pub(super) fn audit(bytes: &[u8]) {
    let record = seeds::audit();
    let verdict = verify([bytes], Some(&record.newest), record.device);
    assert!(verdict.faults.len() <= 16);
    assert!(verdict.entries <= bytes.len() as u64);
    if verdict.faults.is_empty() {
        // The oldest files go; no signature covers which number a file has.
        let entries = &record.signed_for[18..];
        assert!(bytes[18..].starts_with(entries), "another record is taken for this one: {verdict:?}");
    }
    let alone = verify([bytes], None, record.device);
    let no_worse = |fault: &AuditFault| verdict.faults.contains(fault) || matches!(fault, AuditFault::Checkpoint(_));
    assert!(alone.faults.iter().all(no_worse) || verdict.faults.len() == 16, "{alone:?} and {verdict:?}");
}

pub(super) fn file_catalog(bytes: &[u8]) {
    let Ok(catalog) = FileCatalog::from_bytes(bytes) else { return };
    assert_eq!(catalog.to_bytes(), bytes);
    is_ordered(&catalog.entries, &catalog.distinct_chunks());
    for entry in &catalog.entries {
        words::stays_below(entry.path.as_bytes());
    }
}

/// A message as its words lie on the disk.
pub(super) fn letter(bytes: &[u8]) {
    let Some(letter) = one_encoding::<Letter>(bytes) else { return };
    assert!(letter.bytes() <= bytes.len(), "{} bytes of {}", letter.bytes(), bytes.len());
    letter.part.iter().for_each(part);
}

/// The part of a message that is a task: its first two bytes are its kind.
pub(super) fn task_part(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first_chunk::<2>() else { return };
    part(&LetterPart { kind: u16::from_le_bytes(*kind), body: body.to_vec() });
}

fn part(of: &LetterPart) {
    let Ok(Some(part)) = Part::read(of) else { return };
    assert_eq!(part.to_part(), *of, "another encoding was accepted");
    if let Part::Task(scope) = &part
        && scope.check("words").is_ok()
    {
        let bounded =
            (1..=240).contains(&scope.minutes) && scope.turns.is_none_or(|turns| (1..=1_000).contains(&turns));
        assert!(bounded && scope.tools.iter().all(|tool| !tool.starts_with('-') && !tool.contains([',', ' ', '('])));
        assert!(scope.directory.as_ref().is_none_or(|name| !name.is_empty() && !name.contains('\0')));
        assert!(scope.check(&"x".repeat(TASK_BYTES + 1)).is_err());
    }
}
