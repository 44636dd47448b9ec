//! Whether an audit log is what its device wrote. Source: SPEC U-11, U-12.
//!
//! [`verify`] takes the files as bytes and trusts none of them: each entry stands behind the one before it by the chain, no
//! number is missing, and the device signed where the chain stood. It needs no daemon and no directory: whoever has the
//! files, the newest checkpoint and the device's id can look. [`mirror`] is what a device keeps of the records of others: with it
//! a cut of what was signed shows too, where whoever cut could write every file here.

pub mod mirror;

use std::collections::BTreeMap;

use cede_seal::verify::verify as verify_signature;
use cede_wire::audit::{AuditAct, AuditCheckpoint, AuditEntry, AuditEvent, AuditFrameError, AuditHead};
use cede_wire::canonical::Signed;
use cede_wire::id::{DeviceId, Hash};
use cede_wire::limits::{AUDIT_CHECKPOINT_ENTRIES, AUDIT_FILES};

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditFault {
    /// A file does not begin as one.
    #[error("file {0} does not begin as a file of the log")]
    Head(u64),
    /// A file is missing, or stands in another's place.
    #[error("file {expected} is missing; file {found} is there")]
    File {
        /// Which one should be there.
        expected: u64,
        /// Which one is.
        found: u64,
    },
    /// An entry is not the one that was written, or is cut off.
    #[error("entry {number} is not as it was written")]
    Entry {
        /// Which one should be there.
        number: u64,
        /// What is wrong with it.
        #[source]
        fault: AuditFrameError,
    },
    /// An entry has another number than the one that follows, or a file begins elsewhere.
    #[error("entry {expected} is missing; entry {found} is there")]
    Number {
        /// Which one should be there.
        expected: u64,
        /// Which one is.
        found: u64,
    },
    /// A file does not continue the chain of the one before.
    #[error("file {0} does not continue the one before it")]
    Chain(u64),
    /// A checkpoint is not signed by the device, or says something else than the entries.
    #[error("the checkpoint at entry {0} does not hold")]
    Checkpoint(u64),
    /// So many entries in a row without a checkpoint are more than a device leaves.
    #[error("no checkpoint stands where one must, by entry {0}")]
    Unsealed(u64),
    /// The newest checkpoint covers entries that are not there.
    #[error("entries up to {signed} were signed and the log ends at {last}")]
    Cut {
        /// The number that was signed.
        signed: u64,
        /// The last entry.
        last: u64,
    },
    /// The device noticed by itself that entries were lost.
    #[error("entries up to {0} were lost, and the device noticed")]
    Lost(u64),
    /// A peer keeps a checkpoint of this device that covers entries which are not there.
    #[error("{} keeps a checkpoint of entry {signed}, and the log ends at {last}", by.short())]
    CutAfter {
        /// The peer.
        by: DeviceId,
        /// The number that was signed.
        signed: u64,
        /// The last entry.
        last: u64,
    },
    /// A peer keeps a checkpoint of this device that covers other entries than those that are there.
    #[error("{} keeps a checkpoint of entry {signed}, and another entry is there", by.short())]
    Replaced {
        /// The peer.
        by: DeviceId,
        /// The number that was signed.
        signed: u64,
    },
    /// The device noticed by itself what a peer keeps.
    #[error("{} kept a checkpoint of entry {signed} that did not fit, and the device noticed", by.short())]
    Missed {
        /// The peer.
        by: DeviceId,
        /// The number that was signed.
        signed: u64,
    },
    /// The log was not written by this device.
    #[error("another device wrote the log")]
    Stranger,
}

/// What a look at a log found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Entries that stand in the chain.
    pub entries: u64,
    /// Number of the first one.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Checkpoints that hold.
    pub checkpoints: u64,
    /// Entries behind the last checkpoint: whoever can write the files could cut them off unseen.
    pub unsealed: u64,
    /// Places where a peer kept what was not here, and the operator said since that it is known why.
    pub settled: u64,
    /// What is wrong; nothing where the log holds.
    pub faults: Vec<AuditFault>,
    /// Peers that keep a checkpoint which fits, with the number that it covers.
    pub anchored: BTreeMap<DeviceId, u64>,
}

/// A checkpoint of this device that a peer keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// The peer.
    pub by: DeviceId,
    /// The checkpoint.
    pub point: AuditCheckpoint,
}

impl Anchor {
    /// Takes what a peer says that it keeps; none where this device did not sign that.
    pub fn new(by: DeviceId, signed: &Signed<AuditCheckpoint>, device: DeviceId) -> Option<Self> {
        checked(signed, device).map(|point| Self { by, point })
    }
}

/// Looks at every file of a log, oldest first, and at the newest checkpoint, which lies beside them.
pub fn verify<'a>(
    files: impl IntoIterator<Item = &'a [u8]>,
    newest: Option<&Signed<AuditCheckpoint>>,
    device: DeviceId,
) -> Verdict {
    verify_against(files, newest, &[], device)
}

/// The same, and holds the log against what peers keep of it. Source: SPEC U-13.
pub fn verify_against<'a>(
    files: impl IntoIterator<Item = &'a [u8]>,
    newest: Option<&Signed<AuditCheckpoint>>,
    anchors: &'a [Anchor],
    device: DeviceId,
) -> Verdict {
    let newest_checked = newest.and_then(|signed| checked(signed, device));
    let mut look = Look { newest: newest_checked, anchors, ..Look::default() };
    if newest.is_some() && look.newest.is_none() {
        look.fault(AuditFault::Checkpoint(0));
    }
    for (bytes, index) in files.into_iter().zip(1..) {
        look.file(bytes, index);
    }
    look.end(device)
}

#[derive(Default)]
struct Look<'a> {
    verdict: Verdict,
    /// What peers keep.
    anchors: &'a [Anchor],
    /// The file that was looked at last.
    file: Option<u64>,
    chain: Option<Hash>,
    next: u64,
    /// Who signs from here on.
    signer: Option<DeviceId>,
    /// The number that the last checkpoint covered, or the entry before the first.
    sealed: u64,
    newest: Option<AuditCheckpoint>,
    /// The newest checkpoint was found to say what the entries say.
    newest_holds: bool,
    any_checkpoint: bool,
}

impl Look<'_> {
    fn fault(&mut self, fault: AuditFault) {
        // One is enough to know; a log that is all wrong need not fill the memory.
        if self.verdict.faults.len() < FAULTS {
            self.verdict.faults.push(fault);
        }
    }

    fn file(&mut self, bytes: &[u8], index: u64) {
        let expected = self.file.map_or(index, |file| file + 1);
        let Some((head, mut rest)) = AuditHead::from_bytes(bytes) else {
            return self.fault(AuditFault::Head(expected));
        };
        if self.file.is_some_and(|file| head.file != file + 1) {
            self.fault(AuditFault::File { expected, found: head.file });
        }
        match self.chain {
            None => {
                (self.next, self.sealed, self.verdict.first) = (head.first, head.first.saturating_sub(1), head.first);
                let whole = head.file != 1 || (head.first == 1 && head.before == Hash::new([0; 32]));
                if !whole {
                    self.fault(AuditFault::Chain(head.file));
                }
            }
            Some(chain) => {
                if head.first != self.next {
                    self.fault(AuditFault::Number { expected: self.next, found: head.first });
                }
                if head.before != chain {
                    self.fault(AuditFault::Chain(head.file));
                }
            }
        }
        self.file = Some(head.file);
        let mut chain = head.before;
        while !rest.is_empty() {
            match AuditEntry::from_frame(rest, &chain) {
                Ok((entry, after, behind)) => {
                    self.entry(&entry, chain);
                    (chain, rest) = (after, behind);
                    self.hold_against_newest(entry.number, chain);
                    self.hold_against_peers(entry.number, chain);
                }
                Err(fault) => {
                    let number = self.next;
                    self.fault(AuditFault::Entry { number, fault });
                    break;
                }
            }
        }
        self.chain = Some(chain);
    }

    fn entry(&mut self, entry: &AuditEntry, before: Hash) {
        if entry.number != self.next {
            self.fault(AuditFault::Number { expected: self.next, found: entry.number });
        }
        self.next = entry.number.saturating_add(1);
        self.verdict.entries += 1;
        self.verdict.last = entry.number;
        match &entry.event {
            AuditEvent::Begun { device } => self.signer = Some(*device),
            AuditEvent::Checkpoint(signed) => self.checkpoint(signed, entry.number, before),
            AuditEvent::Lost { until } => self.fault(AuditFault::Lost(*until)),
            AuditEvent::Missed { by, signed } => self.fault(AuditFault::Missed { by: *by, signed: *signed }),
            AuditEvent::Acted { act: AuditAct::Settled, device: Some(device), .. } => self.settled(*device),
            AuditEvent::Asked { .. }
            | AuditEvent::Decided { .. }
            | AuditEvent::Outcome { .. }
            | AuditEvent::RuleSet { .. }
            | AuditEvent::Acted { .. }
            | AuditEvent::Keyboard { .. }
            | AuditEvent::Answered { .. }
            | AuditEvent::Pressed { .. } => {}
        }
        if entry.number.saturating_sub(self.sealed) > AUDIT_CHECKPOINT_ENTRIES + SLACK {
            self.fault(AuditFault::Unsealed(entry.number));
            self.sealed = entry.number;
        }
    }

    /// What a device kept that did not fit is known since, says the operator.
    fn settled(&mut self, device: DeviceId) {
        let before = self.verdict.faults.len();
        self.verdict.faults.retain(|fault| !matches!(fault, AuditFault::Missed { by, .. } if *by == device));
        self.verdict.settled += (before - self.verdict.faults.len()) as u64;
    }

    /// A checkpoint covers the entry before it.
    fn checkpoint(&mut self, signed: &Signed<AuditCheckpoint>, number: u64, before: Hash) {
        self.any_checkpoint = true;
        let signed = verify_signature(signed).ok();
        let holds = signed.as_ref().is_some_and(|point| {
            point.number.saturating_add(1) == number
                && point.chain == before
                && self.signer.is_none_or(|signer| signer == point.by)
        });
        if let Some(point) = signed.filter(|_| holds) {
            self.signer = Some(point.by);
            self.sealed = number;
            self.verdict.checkpoints += 1;
        } else {
            self.fault(AuditFault::Checkpoint(number));
        }
    }

    fn hold_against_newest(&mut self, number: u64, chain: Hash) {
        let Some(newest) = self.newest.as_ref().filter(|newest| newest.number == number) else { return };
        if newest.chain == chain {
            self.newest_holds = true;
        } else {
            self.fault(AuditFault::Checkpoint(number));
        }
    }

    fn hold_against_peers(&mut self, number: u64, chain: Hash) {
        let anchors = self.anchors;
        for anchor in anchors.iter().filter(|anchor| anchor.point.number == number) {
            if anchor.point.chain == chain {
                self.verdict.anchored.insert(anchor.by, number);
            } else {
                self.fault(AuditFault::Replaced { by: anchor.by, signed: number });
            }
        }
    }

    fn end(mut self, device: DeviceId) -> Verdict {
        let last = self.verdict.last;
        let anchors = self.anchors;
        for anchor in anchors.iter().filter(|anchor| anchor.point.number > last) {
            self.fault(AuditFault::CutAfter { by: anchor.by, signed: anchor.point.number, last });
        }
        match self.newest.as_ref().map(|newest| newest.number) {
            Some(signed) if signed > last => self.fault(AuditFault::Cut { signed, last }),
            Some(signed) if !self.newest_holds => self.fault(AuditFault::Checkpoint(signed)),
            // The one beside the files went away, or never covered what they say it did.
            None if self.any_checkpoint => self.fault(AuditFault::Checkpoint(last)),
            Some(_) | None => {}
        }
        if self.signer.is_some_and(|signer| signer != device) {
            self.fault(AuditFault::Stranger);
        }
        if self.file.is_some_and(|file| file > AUDIT_FILES) && self.verdict.first == 1 {
            self.fault(AuditFault::Chain(1));
        }
        self.verdict.unsealed = last.saturating_sub(self.sealed);
        self.verdict
    }
}

fn checked(signed: &Signed<AuditCheckpoint>, device: DeviceId) -> Option<AuditCheckpoint> {
    let point = verify_signature(signed).ok()?;
    (point.by == device).then(|| (*point).clone())
}

/// Faults that are told.
const FAULTS: usize = 16;
/// Entries beyond the bound that one batch may bring before its checkpoint.
const SLACK: u64 = 64;

#[cfg(test)]
mod tests;
