use cede_seal::device::LocalDevice;
use cede_wire::audit::{AuditOf, DecidedBy};
use cede_wire::id::ConnectionId;
use cede_wire::member::Capability;

use super::*;

/// Shows: U-11
#[test]
fn log_as_it_was_written_holds() {
    let log = Written::new(250);
    let verdict = log.verdict();
    assert_eq!(verdict.faults, []);
    assert_eq!((verdict.first, verdict.last, verdict.entries), (1, 250, 250));
    assert_eq!((verdict.checkpoints, verdict.unsealed), (4, 9), "{verdict:?}");
    assert_eq!(Written::new(250).rotated().verdict().faults, [], "the oldest files may be gone");
    assert_eq!(verify([], None, log.device.device()), Verdict::default());
}

/// Shows: U-11
#[test]
fn thousand_tamperings_are_found_each() {
    let log = Written::new(250);
    let mut missed = Vec::new();
    for seed in 0..SEEDS {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut changed = Written { files: log.files.clone(), newest: log.newest.clone(), ..Written::new(0) };
        let what = tamper(&mut changed, &mut dice, seed);
        assert!(changed.files != log.files || changed.newest != log.newest, "{what} changed nothing");
        if changed.verdict().faults.is_empty() {
            missed.push((seed, what));
        }
    }
    assert_eq!(missed, [], "tamperings that were not found");
}

/// Shows: U-11
#[test]
fn log_of_another_device_is_not_taken_for_ours() {
    let log = Written::new(250);
    let files: Vec<&[u8]> = log.files.iter().map(Vec::as_slice).collect();
    let stranger = LocalDevice::from_secret(&[9; 32]).device();
    assert!(verify(files.clone(), None, stranger).faults.contains(&AuditFault::Stranger));
    assert_eq!(verify(files, log.newest.as_ref(), stranger).faults[0], AuditFault::Checkpoint(0));
}

/// Shows: U-11
#[test]
fn thousands_of_entries_without_a_checkpoint_are_noticed() {
    let device = LocalDevice::from_secret(&[7; 32]);
    let mut writer = Writer::new(device.device());
    for number in 0..AUDIT_CHECKPOINT_ENTRIES + SLACK + 2 {
        writer.push(decision(number));
    }
    let verdict = verify([writer.files[0].as_slice()], None, device.device());
    assert_eq!(verdict.faults, [AuditFault::Unsealed(AUDIT_CHECKPOINT_ENTRIES + SLACK + 1)]);
}

/// Shows: U-11
#[test]
fn loss_that_the_device_noticed_stays_visible() {
    let device = LocalDevice::from_secret(&[7; 32]);
    let mut writer = Writer::new(device.device());
    writer.push(AuditEvent::Lost { until: 40 });
    let by = DeviceId::new([6; 32]);
    writer.push(AuditEvent::Missed { by, signed: 7 });
    let verdict = verify([writer.files[0].as_slice()], None, device.device());
    assert_eq!(verdict.faults, [AuditFault::Lost(40), AuditFault::Missed { by, signed: 7 }]);
}

/// Shows: U-11
#[test]
fn checkpoint_that_stands_elsewhere_than_it_says_does_not_hold() {
    let device = LocalDevice::from_secret(&[7; 32]);
    for (moved, at) in [(0, 3), (1, 4)] {
        let mut writer = Writer::new(device.device());
        writer.push(decision(1));
        let (by, number, chain) = (device.device(), writer.number, writer.chain);
        let point = device.sign(&AuditCheckpoint { by, number, chain, at_unix_ms: 0 }).unwrap();
        (0..moved).for_each(|n| writer.push(decision(n)));
        writer.push(AuditEvent::Checkpoint(point.clone()));
        let faults = verify([writer.files[0].as_slice()], Some(&point), device.device()).faults;
        assert_eq!(faults.contains(&AuditFault::Checkpoint(at)), moved > 0, "{faults:?}");
    }
}

/// Shows: U-11
#[test]
fn first_file_that_is_not_the_first_and_one_that_should_be_gone_are_noticed() {
    let device = LocalDevice::from_secret(&[7; 32]).device();
    let head = |file, first, before| AuditHead { file, first, before }.to_bytes();
    let not_first = head(1, 5, Hash::new([0; 32]));
    assert_eq!(verify([not_first.as_slice()], None, device).faults, [AuditFault::Chain(1)]);
    let last = head(AUDIT_FILES + 1, 1, Hash::new([0; 32]));
    assert!(verify([last.as_slice()], None, device).faults.contains(&AuditFault::Chain(1)));
    let later = head(AUDIT_FILES + 1, 700, Hash::new([0; 32]));
    assert_eq!(verify([later.as_slice()], None, device).faults, [], "the first entry went with the first file");
}

/// Shows: U-11
#[test]
fn faults_that_are_told_are_bounded() {
    let junk: Vec<&[u8]> = vec![b"junk"; 100];
    assert_eq!(verify(junk, None, DeviceId::new([1; 32])).faults.len(), FAULTS);
}

/// Shows: U-11
#[test]
fn file_that_is_none_is_named_by_its_place() {
    let log = Written::new(250);
    let files = [log.files[0].as_slice(), b"junk", log.files[2].as_slice()];
    let faults = verify(files, log.newest.as_ref(), log.device.device()).faults;
    assert_eq!(faults[..2], [AuditFault::Head(2), AuditFault::File { expected: 2, found: 3 }]);
    let faults = verify([log.files[3].as_slice(), b"junk"], log.newest.as_ref(), log.device.device()).faults;
    assert_eq!(faults[0], AuditFault::Head(5), "the oldest files may be gone");
}

/// Shows: U-11
#[test]
fn checkpoint_over_other_entries_does_not_hold() {
    let device = LocalDevice::from_secret(&[7; 32]);
    let mut writer = Writer::new(device.device());
    writer.push(decision(1));
    let (by, number, chain) = (device.device(), writer.number, Hash::of(b"another chain"));
    let point = device.sign(&AuditCheckpoint { by, number, chain, at_unix_ms: 0 }).unwrap();
    writer.push(AuditEvent::Checkpoint(point));
    let verdict = verify([writer.files[0].as_slice()], None, device.device());
    assert_eq!((verdict.checkpoints, verdict.faults.contains(&AuditFault::Checkpoint(3))), (0, true));
}

/// Shows: U-13
#[test]
fn peer_may_keep_a_checkpoint_of_the_last_entry_that_there_is() {
    let log = Written::new(60);
    let whole = Written::new(61);
    let peer = DeviceId::new([6; 32]);
    let anchors = [Anchor::new(peer, whole.newest.as_ref().unwrap(), whole.device.device()).unwrap()];
    let verdict = log.verdict_against(&anchors);
    assert_eq!((verdict.faults.as_slice(), verdict.anchored.get(&peer)), (&[][..], Some(&60)));
    let shorter = Written::new(59).verdict_against(&anchors);
    assert_eq!(shorter.faults, [AuditFault::CutAfter { by: peer, signed: 60, last: 59 }]);
}

/// Shows: U-13
#[test]
fn what_a_peer_kept_is_settled_for_that_peer_alone() {
    let device = LocalDevice::from_secret(&[7; 32]);
    let mut writer = Writer::new(device.device());
    let [one, other] = [5, 6].map(|n| DeviceId::new([n; 32]));
    for (by, signed) in [(one, 7), (other, 8), (one, 9)] {
        writer.push(AuditEvent::Missed { by, signed });
    }
    let settled = |device| AuditEvent::Acted { act: AuditAct::Settled, device: Some(device), session: None };
    writer.push(settled(one));
    let verdict = verify([writer.files[0].as_slice()], None, device.device());
    assert_eq!((verdict.settled, verdict.faults), (2, vec![AuditFault::Missed { by: other, signed: 8 }]));
    writer.push(settled(other));
    let verdict = verify([writer.files[0].as_slice()], None, device.device());
    assert_eq!((verdict.settled, verdict.faults), (3, Vec::new()), "each is counted once");
}

/// Whoever can write every file can put a whole earlier record in the place of this one. Every checkpoint in it holds.
///
/// Shows: U-13
#[test]
fn thousand_records_that_were_cut_or_put_back_whole_are_found_by_what_a_peer_keeps() {
    let log = Written::new(250);
    let peer = DeviceId::new([6; 32]);
    let anchors = [Anchor::new(peer, log.newest.as_ref().unwrap(), log.device.device()).unwrap()];
    let verdict = log.verdict_against(&anchors);
    assert_eq!((verdict.faults.as_slice(), verdict.anchored.get(&peer)), (&[][..], Some(&240)));
    let (mut seen_alone, mut missed) = (0, Vec::new());
    for seed in 0..SEEDS {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let earlier = match seed % 3 {
            // As it was when fewer entries had been made.
            0 => Written::new(2 + dice.below(238) as u64),
            // The same, and other things happened after it.
            1 => Written::other(2 + dice.below(400) as u64, seed),
            // The tail is gone, and the checkpoint beside the files is the last one that is left.
            _ => log.cut_to(1 + dice.below(238)),
        };
        seen_alone += usize::from(!earlier.verdict().faults.is_empty());
        if earlier.verdict_against(&anchors).faults.is_empty() {
            missed.push(seed);
        }
    }
    assert_eq!(missed, [], "records that were not found");
    assert_eq!(seen_alone, 0, "without the peer none of them shows");
    assert_eq!(Written::new(300).verdict_against(&anchors).faults, [], "a record may grow");
}

/// Shows: U-13
#[test]
fn checkpoint_of_another_device_is_no_anchor() {
    let log = Written::new(250);
    let newest = log.newest.as_ref().unwrap();
    assert_eq!(Anchor::new(DeviceId::new([6; 32]), newest, DeviceId::new([6; 32])), None);
    let stranger = LocalDevice::from_secret(&[9; 32]);
    let point = AuditCheckpoint { by: log.device.device(), number: 9_999, chain: Hash::new([0; 32]), at_unix_ms: 0 };
    let forged = Signed::from_parts(cede_wire::canonical::encode(&point), stranger.key(), *newest.signature());
    assert_eq!(Anchor::new(DeviceId::new([6; 32]), &forged, log.device.device()), None);
}

/// The interpreter needs a second for a signature.
const SEEDS: u64 = if cfg!(miri) { 3 } else { 1_000 };

fn tamper(log: &mut Written, dice: &mut Dice, seed: u64) -> &'static str {
    let file = dice.below(log.files.len());
    match seed % 10 {
        0 => {
            let at = dice.below(log.files[file].len());
            log.files[file][at] ^= 1 << dice.below(8);
            "a bit"
        }
        1 => {
            // The last entry of all is not sealed: taking it away is a cut that does not show.
            let last = usize::from(file + 1 == log.files.len());
            let frames = log.frames(file);
            let (from, to) = frames[dice.below(frames.len() - last)];
            log.files[file].drain(from..to);
            "an entry away"
        }
        2 => {
            let (from, to) = log.frame(file, dice);
            let again = log.files[file][from..to].to_vec();
            log.files[file].splice(to..to, again);
            "an entry twice"
        }
        3 => {
            let frames = log.frames(file);
            let at = dice.below(frames.len() - 1);
            let (first, second) = (frames[at], frames[at + 1]);
            log.files[file][first.0..second.1].rotate_left(first.1 - first.0);
            "two entries the other way round"
        }
        4 => {
            let sealed = log.sealed_end();
            let end = dice.below(sealed);
            log.files.last_mut().unwrap().truncate(end);
            "a cut inside what is signed"
        }
        5 => {
            log.files.remove(file.min(log.files.len() - 2));
            if file == 0 {
                // The oldest one goes in the course of things; that its neighbour goes too does not.
                log.files.remove(1);
            }
            "a file away"
        }
        6 => {
            log.rewrite_from(file, dice);
            "an entry changed and the chain made anew"
        }
        7 => {
            log.newest = None;
            "the newest checkpoint away"
        }
        8 => {
            let forger = LocalDevice::from_secret(&[8; 32]);
            let point = verify_signature(log.newest.as_ref().unwrap()).unwrap();
            log.newest = forger.sign(&AuditCheckpoint { by: forger.device(), ..(*point).clone() }).ok();
            "a checkpoint of another key"
        }
        _ => {
            log.files.swap(0, file.max(1));
            "two files the other way round"
        }
    }
}

/// A log as bytes, with its newest checkpoint.
struct Written {
    device: LocalDevice,
    files: Vec<Vec<u8>>,
    newest: Option<Signed<AuditCheckpoint>>,
}

impl Written {
    /// So many entries in files of fifty, a checkpoint after each sixtieth.
    fn new(entries: u64) -> Self {
        Self::other(entries, 0)
    }

    /// The same with other decisions in it.
    fn other(entries: u64, salt: u64) -> Self {
        let device = LocalDevice::from_secret(&[7; 32]);
        let mut writer = Writer::new(device.device());
        let mut newest = None;
        while writer.number < entries {
            if writer.number.is_multiple_of(60) {
                let (by, number, chain) = (device.device(), writer.number, writer.chain);
                newest = device.sign(&AuditCheckpoint { by, number, chain, at_unix_ms: number }).ok();
                writer.push(AuditEvent::Checkpoint(newest.clone().unwrap()));
            } else {
                writer.push(decision(writer.number.wrapping_add(salt)));
            }
            if writer.number.is_multiple_of(50) && writer.number < entries {
                writer.rotate();
            }
        }
        Self { device, files: writer.files, newest }
    }

    fn rotated(mut self) -> Self {
        self.files.drain(..2);
        self
    }

    fn verdict(&self) -> Verdict {
        verify(self.files.iter().map(Vec::as_slice), self.newest.as_ref(), self.device.device())
    }

    fn verdict_against(&self, anchors: &[Anchor]) -> Verdict {
        verify_against(self.files.iter().map(Vec::as_slice), self.newest.as_ref(), anchors, self.device.device())
    }

    /// The first so many entries, with the last checkpoint among them.
    fn cut_to(&self, entries: usize) -> Self {
        let (mut files, mut left, mut newest) = (Vec::new(), entries, None);
        for (index, bytes) in self.files.iter().enumerate() {
            let frames = self.frames(index);
            let keep = frames.len().min(left);
            left -= keep;
            let end = keep.checked_sub(1).map_or(AuditHead::BYTES, |last| frames[last].1);
            files.push(bytes[..end].to_vec());
            if left == 0 {
                break;
            }
        }
        for bytes in &files {
            let (head, mut rest) = AuditHead::from_bytes(bytes).unwrap();
            let mut chain = head.before;
            while let Ok((entry, after, behind)) = AuditEntry::from_frame(rest, &chain) {
                (chain, rest) = (after, behind);
                if let AuditEvent::Checkpoint(point) = entry.event {
                    newest = Some(point);
                }
            }
        }
        Self { device: LocalDevice::from_secret(&[7; 32]), files, newest }
    }

    /// Where each entry of a file begins and ends.
    fn frames(&self, file: usize) -> Vec<(usize, usize)> {
        let bytes = &self.files[file];
        let mut at = AuditHead::BYTES;
        let mut frames = Vec::new();
        while at < bytes.len() {
            let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            frames.push((at, at + 36 + length));
            at += 36 + length;
        }
        frames
    }

    fn frame(&self, file: usize, dice: &mut Dice) -> (usize, usize) {
        let frames = self.frames(file);
        frames[dice.below(frames.len())]
    }

    /// Where the entry that the newest checkpoint covers ends in the last file.
    fn sealed_end(&self) -> usize {
        let frames = self.frames(self.files.len() - 1);
        frames[frames.len() - 10].1
    }

    /// Changes an entry of a file and makes every chain behind it right again, without the key.
    fn rewrite_from(&mut self, file: usize, dice: &mut Dice) {
        let mut before = AuditHead::from_bytes(&self.files[file]).unwrap().0.before;
        let victim = dice.below(self.frames(file).len());
        let sealed = self.files.len() - 1;
        let victim = if file == sealed { victim.min(20) } else { victim };
        for index in file..self.files.len() {
            let (mut head, _) = AuditHead::from_bytes(&self.files[index]).unwrap();
            let (mut reading, mut rest) = (head.before, &self.files[index][AuditHead::BYTES..]);
            head.before = before;
            let mut made = head.to_bytes().to_vec();
            let mut at = 0;
            while !rest.is_empty() {
                let (mut entry, after, behind) = AuditEntry::from_frame(rest, &reading).unwrap();
                if index == file && at == victim {
                    entry.at_unix_ms ^= 1 << 40;
                }
                let (frame, chain) = entry.to_frame(&before);
                made.extend_from_slice(&frame);
                (before, reading, rest, at) = (chain, after, behind, at + 1);
            }
            self.files[index] = made;
        }
    }
}

fn decision(number: u64) -> AuditEvent {
    AuditEvent::Decided {
        who: DeviceId::new([3; 32]),
        capability: Capability::File,
        of: AuditOf::Request(ConnectionId::new([5; 16]), number),
        allowed: number.is_multiple_of(2),
        by: DecidedBy::Operator,
        shown: Some(Hash::of(&number.to_le_bytes())),
        times: 1,
    }
}

struct Writer {
    files: Vec<Vec<u8>>,
    number: u64,
    chain: Hash,
}

impl Writer {
    fn new(device: DeviceId) -> Self {
        let mut writer = Self { files: Vec::new(), number: 0, chain: Hash::new([0; 32]) };
        writer.rotate();
        writer.push(AuditEvent::Begun { device });
        writer
    }

    fn rotate(&mut self) {
        let head = AuditHead { file: self.files.len() as u64 + 1, first: self.number + 1, before: self.chain };
        self.files.push(head.to_bytes().to_vec());
    }

    fn push(&mut self, event: AuditEvent) {
        self.number += 1;
        let entry = AuditEntry { number: self.number, at_unix_ms: self.number, event };
        let (frame, chain) = entry.to_frame(&self.chain);
        self.chain = chain;
        self.files.last_mut().unwrap().extend_from_slice(&frame);
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}
