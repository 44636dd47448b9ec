//! Frames that come late or twice, receipts that are lost, and how often something is said.

use cede_wire::letter::{LetterRecord, ReceiptsHeld};

use super::*;
use crate::ledger::Outgoing;
use crate::ledger::output::{Post, PostItem};

impl Mesh {
    /// What a device has said since, without its being delivered.
    fn said(&mut self, device: DeviceId) -> Vec<Said> {
        self.drain(device);
        core::mem::take(&mut self.at(device).said).into_iter().map(|(_, said)| said).collect()
    }

    fn told(&mut self, seconds: u64) -> LetterId {
        let facts = self.facts("words");
        self.tell_facts(LAPTOP, SERVER, facts, Duration::from_secs(seconds)).unwrap()
    }

    /// How long a device that hears nothing waits each time before it says something again.
    fn pauses(&mut self, device: DeviceId, count: usize) -> Vec<u64> {
        let mut pauses = Vec::new();
        let mut last = self.now.monotonic;
        while pauses.len() < count {
            let at = self.nodes[&device].ledger.poll_timeout().unwrap();
            self.now.monotonic = at;
            let now = self.now;
            self.at(device).ledger.handle_timeout(now);
            if !self.said(device).is_empty() {
                pauses.push((at - last).as_secs());
                last = at;
            }
        }
        pauses
    }
}

/// Shows: M-6
#[test]
fn frame_that_comes_too_late_leaves_no_words_behind() {
    let mut mesh = Mesh::pair();
    let (now, letter) = (mesh.now, mesh.letter(1));
    let ArrivedItem::Letter { facts, .. } = &letter else { panic!("no letter") };
    let digest = facts.digest;
    mesh.hand(LAPTOP, SERVER, &frame(Vec::new()));
    mesh.at(SERVER).ledger.handle_letters(LAPTOP, &frame(vec![letter]), &|_| true, true, now);
    mesh.settle();
    assert!(mesh.nodes[&SERVER].events.contains(&LedgerEvent::Forget(digest)));
}

/// Shows: M-6
#[test]
fn frame_that_comes_twice_is_answered_once() {
    let mut mesh = Mesh::pair();
    let (now, letter) = (mesh.now, mesh.letter(1));
    let answers = |mesh: &mut Mesh| {
        mesh.at(SERVER).ledger.handle_letters(LAPTOP, &frame(vec![letter.clone()]), &|_| true, true, now);
        mesh.said(SERVER).len()
    };
    assert_eq!((answers(&mut mesh), answers(&mut mesh)), (1, 0));
}

/// Shows: M-6
#[test]
fn line_of_one_device_makes_no_late_frame_of_another_new() {
    for forgotten in [false, true] {
        let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
        mesh.tell(PHONE, SERVER);
        let (now, letter) = (mesh.now, mesh.letter(1));
        mesh.hand(LAPTOP, SERVER, &frame(Vec::new()));
        mesh.at(SERVER).ledger.link_down(PHONE);
        if forgotten {
            mesh.at(SERVER).ledger.forget(PHONE, now);
        }
        mesh.at(SERVER).ledger.link_up(PHONE, now);
        mesh.at(SERVER).ledger.handle_letters(LAPTOP, &frame(vec![letter]), &|_| true, true, now);
        assert_eq!(mesh.nodes[&SERVER].ledger.inbox().filter(|letter| letter.kept.id.origin == LAPTOP).count(), 0);
    }
}

/// Shows: M-8
#[test]
fn places_that_are_too_far_ahead_are_no_record() {
    let mut mesh = Mesh::pair();
    let before = mesh.nodes[&SERVER].disk.len();
    let far = ArrivedItem::Gone { from: 3, through: cede_wire::limits::LETTERS_AHEAD + 1, why: GoneWhy::Ended };
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![far])).receipts, []);
    assert_eq!(mesh.nodes[&SERVER].disk.len(), before);
}

/// Shows: M-4
#[test]
fn end_of_a_letter_is_said_to_who_tells_it_again() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    mesh.mark(SERVER, id, LetterState::Acted).unwrap();
    let arrival = mesh.first_arrival(id, SERVER);
    let said = mesh.hand(LAPTOP, SERVER, &arrival);
    assert_eq!(said.receipts, [LetterReceipt { seq: id.seq, state: LetterState::Acted }]);
}

/// Shows: M-4
#[test]
fn receiver_of_which_nothing_is_due_waits_for_the_end_of_its_letters() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    let end = mesh.now.after(limits::LETTER_TTL);
    assert_eq!(mesh.nodes[&SERVER].ledger.poll_timeout(), Some(end));
    let now = mesh.now;
    mesh.cut(LAPTOP, SERVER);
    mesh.at(SERVER).ledger.link_up(LAPTOP, now);
    assert!(mesh.said(SERVER).is_empty(), "nothing is unsaid");
    // Its sender forgot it, and does not ask: what was shown is said at the next link all the same.
    mesh.at(SERVER).ledger.mark(id, LetterState::Shown, now).unwrap();
    mesh.said(SERVER);
    mesh.at(SERVER).ledger.link_down(LAPTOP);
    mesh.at(SERVER).ledger.link_up(LAPTOP, now);
    let said = mesh.said(SERVER);
    let [Said::Frame(PeerMessage::LetterReceipts(said))] = &said[..] else { panic!("{said:?}") };
    assert_eq!(said.receipts, [LetterReceipt { seq: id.seq, state: LetterState::Shown }]);
}

/// Shows: M-4, M-8
#[test]
fn word_that_holds_nothing_new_is_answered_with_nothing_and_ends_no_repetition() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    mesh.at(SERVER).ledger.mark(id, LetterState::Acted, now).unwrap();
    mesh.said(SERVER);
    let held = ReceiptsHeld { incarnation: id.incarnation, seqs: vec![77] };
    mesh.at(SERVER).ledger.handle_held(LAPTOP, &held, now);
    assert!(mesh.said(SERVER).is_empty());
    mesh.wait(limits::RECEIPT_AGAIN);
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Acted));
    mesh.space = false;
    mesh.tell(LAPTOP, SERVER);
    mesh.at(SERVER).ledger.handle_held(LAPTOP, &held, now);
    assert!(mesh.said(SERVER).is_empty(), "it was told that there is no room, and nothing made some");
}

/// Shows: M-4
#[test]
fn who_is_not_answered_waits_longer_each_time() {
    let mut mesh = Mesh::pair();
    mesh.cut(LAPTOP, SERVER);
    mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    mesh.at(LAPTOP).ledger.link_up(SERVER, now);
    mesh.said(LAPTOP);
    assert_eq!(mesh.pauses(LAPTOP, 6), [10, 20, 40, 80, 120, 120]);
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    mesh.at(SERVER).ledger.mark(id, LetterState::Acted, now).unwrap();
    mesh.said(SERVER);
    assert_eq!(mesh.pauses(SERVER, 7), [10, 20, 40, 80, 160, 300, 300]);
}

/// Shows: M-4, M-6
#[test]
fn letter_that_is_there_ends_by_the_word_of_its_receiver_alone() {
    let mut mesh = Mesh::pair();
    let id = mesh.told(60);
    mesh.now.monotonic += Duration::from_secs(61);
    let (facts, now) = (mesh.facts("more"), mesh.now);
    mesh.letters.insert(facts.digest, facts);
    mesh.at(LAPTOP).ledger.tell(Told { to: SERVER, facts, expires: limits::LETTER_TTL }, now).unwrap();
    mesh.said(LAPTOP);
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Received));
    mesh.unwanted.insert(LAPTOP);
    let other = mesh.told(60);
    mesh.at(LAPTOP).ledger.retry((SERVER, id.incarnation), now);
    mesh.settle();
    assert_eq!(mesh.state(LAPTOP, other), Some(LetterState::Refused(Refusal::NotGranted)));
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Received), "it came while they were wanted");
}

/// Shows: M-5
#[test]
fn room_that_is_said_unasked_puts_no_second_frame_on_its_way() {
    let mut mesh = Mesh::pair();
    mesh.tell(LAPTOP, SERVER);
    let (facts, now) = (mesh.facts("more"), mesh.now);
    let id = mesh.at(LAPTOP).ledger.tell(Told { to: SERVER, facts, expires: limits::LETTER_TTL }, now).unwrap();
    assert_eq!(mesh.said(LAPTOP).len(), 1);
    let room = LetterRoom::Open { letters: 9, bytes: 1 << 20 };
    let said = LetterReceipts { incarnation: id.incarnation, answers: 0, through: 1, room, receipts: Vec::new() };
    mesh.at(LAPTOP).ledger.handle_receipts(SERVER, &said, now);
    assert!(mesh.said(LAPTOP).is_empty());
}

/// Shows: M-4
#[test]
fn letter_before_one_that_is_known_to_be_there_is_there_too() {
    let mut mesh = Mesh::pair();
    mesh.cut(LAPTOP, SERVER);
    let told = [mesh.tell(LAPTOP, SERVER), mesh.tell(LAPTOP, SERVER)];
    let now = mesh.now;
    mesh.at(LAPTOP).ledger.link_up(SERVER, now);
    let room = LetterRoom::Open { letters: 9, bytes: 1 << 20 };
    let say = |mesh: &mut Mesh, through: u64, receipts: Vec<LetterReceipt>| {
        let answers = mesh.nodes[&LAPTOP].ledger.frames;
        let said = LetterReceipts { incarnation: told[0].incarnation, answers, through, room, receipts };
        mesh.at(LAPTOP).ledger.handle_receipts(SERVER, &said, now);
        mesh.said(LAPTOP);
    };
    say(&mut mesh, 0, Vec::new());
    say(&mut mesh, 0, vec![LetterReceipt { seq: 2, state: LetterState::Shown }]);
    assert_eq!((mesh.state(LAPTOP, told[0]), mesh.state(LAPTOP, told[1])), (None, Some(LetterState::Shown)));
    say(&mut mesh, 2, Vec::new());
    assert_eq!(mesh.state(LAPTOP, told[0]), Some(LetterState::Received));
}

/// Shows: M-6, M-8
#[test]
fn places_of_letters_that_ended_here_are_said_once_and_then_history() {
    let mut mesh = Mesh::pair();
    mesh.cut(LAPTOP, SERVER);
    let ended: Vec<LetterId> = (0..3).map(|_| mesh.told(60)).collect();
    mesh.wait(Duration::from_secs(61));
    assert!(ended.iter().all(|id| mesh.state(LAPTOP, *id) == Some(LetterState::Expired)));
    let now = mesh.now;
    mesh.at(LAPTOP).ledger.link_up(SERVER, now);
    mesh.said(LAPTOP);
    let answers = mesh.nodes[&LAPTOP].ledger.frames;
    let room = LetterRoom::Open { letters: 9, bytes: 1 << 20 };
    let incarnation = ended[0].incarnation;
    let said = LetterReceipts { incarnation, answers, through: 0, room, receipts: Vec::new() };
    mesh.at(LAPTOP).ledger.handle_receipts(SERVER, &said, now);
    let post = mesh.said(LAPTOP);
    let [Said::Letters(Post { items, .. })] = &post[..] else { panic!("{post:?}") };
    assert_eq!(items[..], [PostItem::Gone { from: 1, through: 3, why: GoneWhy::Ended }], "one row");
    mesh.join(LAPTOP, SERVER);
    let load = |mesh: &Mesh| mesh.nodes[&LAPTOP].ledger.outs.values().map(Outgoing::load).next();
    assert_eq!(load(&mesh), Some((0, 0)), "they wait for nothing");
    mesh.tell(LAPTOP, SERVER);
    mesh.tell(LAPTOP, SERVER);
    let held = |record: &&Record| matches!(record, Record::Letter(letter) if matches!(**letter, LetterRecord::Held { id } if ended.contains(&id)));
    assert_eq!(mesh.nodes[&LAPTOP].disk.iter().filter(held).count(), 3, "each is noted once");
    mesh.restart(LAPTOP);
    assert_eq!(load(&mesh).unwrap().0, 2, "after a restart too");
}

/// Shows: M-9
#[test]
fn replies_are_counted_in_their_own_conversation_and_up_to_the_last_one() {
    let mut mesh = Mesh::pair();
    for _ in 0..limits::CONVERSATION_REPLIES {
        mesh.tell(SERVER, LAPTOP);
    }
    let asked = |mesh: &mut Mesh, hops: u32| {
        let facts = LetterFacts { hops, ..mesh.facts("words") };
        let id = mesh.tell_facts(LAPTOP, SERVER, facts, limits::LETTER_TTL).unwrap();
        mesh.nodes[&SERVER].ledger.reply_to(id).map(|heading| heading.hops)
    };
    let most = limits::CONVERSATION_HOPS;
    assert_eq!(asked(&mut mesh, most - 1), Ok(most));
    assert_eq!(asked(&mut mesh, most), Err(TellError::Exhausted(most)));
}

/// Shows: M-4
#[test]
fn frames_after_a_restart_have_numbers_of_their_own_and_letters_the_rest_of_their_life() {
    let mut mesh = Mesh::pair();
    mesh.told(60);
    mesh.now.unix_ms += 1;
    let before = mesh.nodes[&LAPTOP].ledger.frames;
    mesh.now.unix_ms += 29_999;
    let now = mesh.now;
    let disk = mesh.nodes[&SERVER].disk.clone();
    let again = Ledger::restore(SERVER, disk.iter(), now);
    assert_eq!(again.poll_timeout(), Some(now.after(Duration::from_secs(30))));
    let disk = mesh.nodes[&LAPTOP].disk.clone();
    assert!(Ledger::restore(LAPTOP, disk.iter(), now).frames > before);
}
