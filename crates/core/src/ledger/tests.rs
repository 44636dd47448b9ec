use core::time::Duration;
use std::collections::BTreeSet;

use cede_wire::id::{DeviceId, Hash, Incarnation, SessionId};
use cede_wire::letter::{
    GoneWhy, LetterFacts, LetterId, LetterReceipt, LetterReceipts, LetterRecord, LetterRoom, LetterState,
};
use cede_wire::message::PeerMessage;
use cede_wire::record::{Doubt, Record};
use cede_wire::refusal::Refusal;

use super::output::{LedgerEvent, Output};
use super::{Arrival, ArrivedItem, Ledger, MarkError, TellError, Told, compact};
use crate::limits;
use crate::now::Now;

mod edges;
mod mesh;
mod staying;
mod weather;

use mesh::{Mesh, Said, frame};

const LAPTOP: DeviceId = DeviceId::new([1; 32]);
const SERVER: DeviceId = DeviceId::new([2; 32]);
const PHONE: DeviceId = DeviceId::new([3; 32]);
const SESSION: SessionId = SessionId::new([7; 16]);

/// Shows: M-1, M-4
#[test]
fn letter_is_queued_received_shown_and_acted_on() {
    let mut mesh = Mesh::pair();
    let facts = mesh.facts("words");
    mesh.letters.insert(facts.digest, facts);
    let now = mesh.now;
    let id = mesh.at(LAPTOP).ledger.tell(Told { to: SERVER, facts, expires: limits::LETTER_TTL }, now).unwrap();
    assert!(matches!(mesh.at(LAPTOP).ledger.outputs[0], Output::Persist(_)), "durable before it leaves");
    assert_eq!(mesh.state(LAPTOP, id), None);
    mesh.settle();
    for state in [LetterState::Received, LetterState::Shown, LetterState::Acted] {
        if state != LetterState::Received {
            mesh.mark(SERVER, id, state).unwrap();
        }
        assert_eq!(mesh.state(LAPTOP, id), Some(state));
    }
    assert_eq!(
        mesh.mark(SERVER, id, LetterState::Refused(Refusal::Declined)),
        Err(MarkError::Ended(LetterState::Acted))
    );
    mesh.mark(SERVER, id, LetterState::Acted).unwrap();
    assert!(mesh.nodes[&SERVER].ledger.received(id).is_some(), "it can be read later");
}

/// Shows: M-3
#[test]
fn letter_and_its_place_are_one_write_and_a_repetition_changes_nothing() {
    let mut mesh = Mesh::pair();
    mesh.cut(LAPTOP, SERVER);
    let id = mesh.tell(LAPTOP, SERVER);
    let arrival = mesh.first_arrival(id, SERVER);
    let before = mesh.nodes[&SERVER].disk.len();
    for _ in 0..3 {
        mesh.hand(LAPTOP, SERVER, &arrival);
    }
    assert_eq!(mesh.nodes[&SERVER].disk.len(), before + 1, "one record holds both");
    assert_eq!(mesh.inbox(SERVER), [id]);
    assert_eq!(mesh.nodes[&SERVER].events, [LedgerEvent::Arrived(id)]);
    mesh.restart(SERVER);
    mesh.hand(LAPTOP, SERVER, &arrival);
    assert_eq!(mesh.inbox(SERVER), [id]);
}

/// Shows: M-5
#[test]
fn letters_for_a_device_that_is_away_wait_and_come_once_in_their_order() {
    let mut mesh = Mesh::pair();
    mesh.cut(LAPTOP, SERVER);
    let told: Vec<LetterId> = (0..5).map(|_| mesh.tell(LAPTOP, SERVER)).collect();
    mesh.restart_from(LAPTOP, mesh.nodes[&LAPTOP].disk.clone());
    assert_eq!(mesh.inbox(SERVER), told);
    mesh.restart(SERVER);
    mesh.restart(LAPTOP);
    assert_eq!(mesh.inbox(SERVER), told);
    let arrived = mesh.nodes[&SERVER].events.iter().filter(|event| matches!(event, LedgerEvent::Arrived(_))).count();
    assert_eq!(arrived, 5);
}

#[test]
fn letters_that_are_told_together_leave_in_one_frame() {
    let mut mesh = Mesh::pair();
    mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    for words in ["one", "two", "three"] {
        let facts = mesh.facts(words);
        mesh.at(LAPTOP).ledger.tell(Told { to: SERVER, facts, expires: limits::LETTER_TTL }, now).unwrap();
    }
    mesh.drain(LAPTOP);
    let frames = mesh.nodes[&LAPTOP].said.iter().map(|(_, said)| match said {
        Said::Letters(post) => post.items.len(),
        Said::Frame(_) => 0,
    });
    assert_eq!(frames.collect::<Vec<_>>(), [3]);
}

/// Shows: M-4
#[test]
fn final_receipt_is_repeated_until_the_sender_holds_it() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    mesh.at(SERVER).ledger.mark(id, LetterState::Acted, now).unwrap();
    mesh.drain(SERVER);
    mesh.at(SERVER).said.clear();
    mesh.restart(SERVER);
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Acted), "said again at the next link");
    let lost = mesh.tell(LAPTOP, SERVER);
    mesh.at(SERVER).ledger.mark(lost, LetterState::Acted, now).unwrap();
    mesh.drain(SERVER);
    mesh.at(SERVER).said.clear();
    mesh.wait(limits::RECEIPT_AGAIN);
    assert_eq!(mesh.state(LAPTOP, lost), Some(LetterState::Acted), "said again while the link stands");
    mesh.wait(Duration::from_secs(3_600));
    assert!(mesh.nodes[&SERVER].ledger.ins.values().all(|stream| stream.unheld.is_empty()));
}

/// Shows: M-4, J-1
#[test]
fn end_is_durable_before_it_is_said_to_be_held() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    mesh.at(SERVER).ledger.mark(id, LetterState::Acted, now).unwrap();
    mesh.drain(SERVER);
    let said = core::mem::take(&mut mesh.at(SERVER).said);
    let [(_, Said::Frame(PeerMessage::LetterReceipts(said)))] = &said[..] else { panic!("{said:?}") };
    mesh.at(LAPTOP).ledger.handle_receipts(SERVER, said, now);
    let outputs: Vec<Output> = core::iter::from_fn(|| mesh.at(LAPTOP).ledger.poll()).collect();
    assert!(matches!(outputs[..], [Output::Persist(_), Output::Tell(_), Output::Send(..)]), "{outputs:?}");
}

/// Shows: M-6
#[test]
fn letter_that_never_left_ends_by_itself_and_its_place_is_filled() {
    let mut mesh = Mesh::pair();
    mesh.cut(LAPTOP, SERVER);
    let facts = mesh.facts("lunch");
    let short = mesh.tell_facts(LAPTOP, SERVER, facts, Duration::from_secs(60)).unwrap();
    let long = mesh.tell(LAPTOP, SERVER);
    mesh.wait(Duration::from_secs(61));
    assert_eq!(mesh.state(LAPTOP, short), Some(LetterState::Expired));
    mesh.join(LAPTOP, SERVER);
    assert_eq!(mesh.inbox(SERVER), [long]);
    assert_eq!(mesh.nodes[&SERVER].ledger.gaps().count(), 0, "nothing is lost");
}

/// Shows: M-6
#[test]
fn letter_that_may_have_left_ends_when_the_receiver_says_where_it_is() {
    let mut mesh = Mesh::pair();
    mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    for arrives in [true, false] {
        let facts = mesh.facts("lunch");
        mesh.letters.insert(facts.digest, facts);
        let told = Told { to: SERVER, facts, expires: Duration::from_secs(60) };
        let now = Now { monotonic: mesh.now.monotonic.max(now.monotonic), ..mesh.now };
        let id = mesh.at(LAPTOP).ledger.tell(told, now).unwrap();
        mesh.drain(LAPTOP);
        let said = core::mem::take(&mut mesh.at(LAPTOP).said);
        if arrives {
            said.iter().for_each(|(to, what)| mesh.deliver(LAPTOP, *to, what));
            mesh.at(SERVER).said.clear();
        }
        mesh.cut(LAPTOP, SERVER);
        mesh.wait(Duration::from_secs(61));
        assert_eq!(mesh.state(LAPTOP, id), None, "it may be there");
        assert!(mesh.nodes[&LAPTOP].ledger.told(id).unwrap().overdue);
        mesh.join(LAPTOP, SERVER);
        assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Expired));
        assert_eq!(mesh.nodes[&SERVER].ledger.received(id).is_some(), arrives);
    }
}

/// Shows: M-6
#[test]
fn letter_that_nobody_acts_on_in_time_is_expired_at_both_ends_and_cannot_be_shown() {
    let mut mesh = Mesh::pair();
    let facts = mesh.facts("lunch");
    let id = mesh.tell_facts(LAPTOP, SERVER, facts, Duration::from_secs(60)).unwrap();
    mesh.wait(Duration::from_secs(61));
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Expired));
    assert_eq!(mesh.mark(SERVER, id, LetterState::Shown), Err(MarkError::Ended(LetterState::Expired)));
}

/// Shows: M-6
#[test]
fn clock_that_was_set_lengthens_no_life() {
    let mut mesh = Mesh::pair();
    let facts = mesh.facts("lunch");
    let id = mesh.tell_facts(LAPTOP, SERVER, facts, Duration::from_secs(60)).unwrap();
    mesh.now.unix_ms = 0;
    mesh.restart(SERVER);
    mesh.wait(Duration::from_secs(61));
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Expired));
}

/// Shows: M-7
#[test]
fn two_letters_under_one_id_close_the_inbox_to_that_peer_until_its_operator_looks() {
    let mut mesh = Mesh::pair();
    let (one, other) = (mesh.letter(1), mesh.letter(1));
    mesh.hand(LAPTOP, SERVER, &frame(vec![one]));
    let next = mesh.letter(2);
    let said = mesh.hand(LAPTOP, SERVER, &frame(vec![other, next]));
    assert_eq!((said.room, said.through), (LetterRoom::Quarantined, 1));
    let id = LetterId { origin: LAPTOP, incarnation: Incarnation::new([1; 16]), stream: SERVER, seq: 1 };
    assert!(mesh.nodes[&SERVER].events.contains(&LedgerEvent::Quarantined(id)));
    mesh.restart(SERVER);
    let third = mesh.letter(2);
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![third.clone()])).room, LetterRoom::Quarantined);
    assert_eq!(mesh.inbox(SERVER).len(), 1);
    let now = mesh.now;
    assert!(mesh.at(SERVER).ledger.release_quarantine(LAPTOP, now));
    mesh.settle();
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![third])).through, 2);
}

/// Shows: M-8
#[test]
#[cfg_attr(miri, ignore = "ten thousand letters take the interpreter hours")]
fn full_inbox_says_so_takes_nothing_and_lets_receipts_through() {
    let mut mesh = Mesh::pair();
    let back = mesh.tell(SERVER, LAPTOP);
    let mut seq = 1;
    while mesh.nodes[&SERVER].ledger.inbox().count() < limits::INBOX_LETTERS {
        let items: Vec<_> = (seq..seq + 1_000).map(|seq| mesh.letter_of(seq)).collect();
        let said = mesh.hand(LAPTOP, SERVER, &frame(items));
        seq = said.through + 1;
    }
    let more = mesh.letter_of(seq);
    let said = mesh.hand(LAPTOP, SERVER, &frame(vec![more]));
    assert_eq!((said.room, said.through), (LetterRoom::Full, limits::INBOX_LETTERS as u64));
    let other = mesh.nodes[&SERVER].ledger.inbox().count();
    assert_eq!(other, limits::INBOX_LETTERS);
    mesh.mark(LAPTOP, back, LetterState::Acted).unwrap();
    assert_eq!(mesh.state(SERVER, back), Some(LetterState::Acted), "receipts are no letters");
}

/// Shows: M-8
#[test]
fn sender_waits_for_room_and_goes_on_when_there_is_some() {
    let mut mesh = Mesh::pair();
    mesh.space = false;
    let id = mesh.tell(LAPTOP, SERVER);
    assert_eq!((mesh.state(LAPTOP, id), mesh.inbox(SERVER).len()), (None, 0));
    assert_eq!(mesh.nodes[&LAPTOP].ledger.closed(SERVER), Some(LetterRoom::Full));
    mesh.space = true;
    mesh.wait(limits::LETTER_ROOM_AGAIN);
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Received));
    assert_eq!(mesh.nodes[&LAPTOP].ledger.closed(SERVER), None);
}

/// Shows: M-8
#[test]
#[cfg_attr(miri, ignore = "ten thousand letters take the interpreter hours")]
fn full_outbox_takes_no_more_and_loses_none() {
    let mut mesh = Mesh::new(&[LAPTOP]);
    let tell = |mesh: &mut Mesh, number: u64, bytes: u32| {
        let facts = LetterFacts { digest: Hash::of(&number.to_le_bytes()), bytes, ..mesh.template() };
        let now = mesh.now;
        mesh.at(LAPTOP).ledger.tell(Told { to: SERVER, facts, expires: limits::LETTER_TTL }, now)
    };
    for number in 0..limits::OUTBOX_LETTERS as u64 {
        tell(&mut mesh, number, 1).unwrap();
    }
    let full = TellError::Full { letters: limits::OUTBOX_LETTERS, bytes: limits::OUTBOX_LETTERS as u64 };
    assert_eq!(tell(&mut mesh, 1 << 20, 1), Err(full));
    assert_eq!(mesh.nodes[&LAPTOP].ledger.outbox().count(), limits::OUTBOX_LETTERS);
    let long = u32::try_from(cede_wire::limits::LETTER_BYTES).unwrap() + 1;
    assert!(matches!(tell(&mut mesh, 1 << 21, long), Err(TellError::TooLong(_))));
}

/// Shows: M-8
#[test]
fn place_far_ahead_is_not_taken_and_told_once() {
    let mut mesh = Mesh::pair();
    let far = cede_wire::limits::LETTERS_AHEAD + 1;
    for seq in [far, far + 7, u64::MAX, 0] {
        let letter = mesh.letter(seq);
        let said = mesh.hand(LAPTOP, SERVER, &frame(vec![letter]));
        assert_eq!((said.through, said.receipts.len()), (0, 0), "{seq}");
    }
    let faults = mesh.nodes[&SERVER].events.iter().filter(|event| matches!(event, LedgerEvent::PeerFault { .. }));
    assert_eq!(faults.count(), 1);
    let near = mesh.letter(far - 1);
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![near])).receipts.len(), 1, "within reach it is");
}

/// Shows: M-6
#[test]
fn frame_that_was_overtaken_by_a_later_one_brings_nothing() {
    let mut mesh = Mesh::pair();
    let (now, late) = (mesh.now, mesh.letter(1));
    let ask = frame(Vec::new());
    assert_eq!(mesh.hand(LAPTOP, SERVER, &ask).through, 0, "it is not here, the answer says");
    mesh.at(SERVER).ledger.handle_letters(LAPTOP, &frame(vec![late.clone()]), &|_| true, true, now);
    mesh.settle();
    assert_eq!(mesh.inbox(SERVER), []);
    mesh.cut(LAPTOP, SERVER);
    mesh.join(LAPTOP, SERVER);
    mesh.at(SERVER).ledger.handle_letters(LAPTOP, &frame(vec![late]), &|_| true, true, now);
    assert_eq!(mesh.inbox(SERVER).len(), 1, "another link counts anew");
}

/// Shows: M-3
#[test]
fn gap_is_kept_open_and_its_late_letter_is_taken_once() {
    let mut mesh = Mesh::pair();
    let (first, second, third) = (mesh.letter(1), mesh.letter(2), mesh.letter(3));
    mesh.hand(LAPTOP, SERVER, &frame(vec![first]));
    let said = mesh.hand(LAPTOP, SERVER, &frame(vec![third.clone()]));
    let beyond = LetterReceipt { seq: 3, state: LetterState::Received };
    assert_eq!((said.through, said.receipts), (1, vec![beyond]));
    mesh.restart(SERVER);
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![second, third])).through, 3);
    assert_eq!(mesh.inbox(SERVER).len(), 3);
}

/// Shows: M-9
#[test]
fn conversation_of_two_agents_comes_to_an_end() {
    let mut mesh = Mesh::pair();
    let mut last = mesh.tell(LAPTOP, SERVER);
    let mut answers = 0;
    loop {
        let me = last.stream;
        let heading = match mesh.nodes[&me].ledger.reply_to(last) {
            Ok(heading) => heading,
            Err(TellError::Exhausted(hops)) => {
                assert_eq!(hops, answers);
                break;
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(heading.to, last.origin);
        let facts = LetterFacts {
            in_reply_to: heading.in_reply_to,
            conversation: heading.conversation,
            hops: heading.hops,
            ..mesh.facts("and you?")
        };
        last = mesh.tell_facts(me, heading.to, facts, limits::LETTER_TTL).unwrap();
        answers += 1;
        assert!(answers <= limits::CONVERSATION_HOPS);
    }
    assert!(answers >= 8, "people may talk");
    assert_eq!(mesh.nodes[&SERVER].ledger.reply_to(LetterId { seq: 99, ..last }), Err(TellError::Unknown));
}

/// Shows: M-9
#[test]
fn peer_that_counts_too_few_replies_is_not_believed() {
    let mut mesh = Mesh::pair();
    let parent = mesh.facts("a");
    let parent = LetterFacts { hops: 9, ..parent };
    let parent = mesh.tell_facts(SERVER, LAPTOP, parent, limits::LETTER_TTL).unwrap();
    let reply = LetterFacts { in_reply_to: Some(parent), hops: 0, ..mesh.facts("b") };
    let reply = mesh.tell_facts(LAPTOP, SERVER, reply, limits::LETTER_TTL).unwrap();
    assert_eq!(mesh.nodes[&SERVER].ledger.received(reply).unwrap().kept.facts.hops, 10);
}

/// Shows: M-10
#[test]
fn letter_goes_with_its_session_there_and_back_and_its_teller_hears_the_end() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    let at_phone = mesh.inbox(PHONE);
    assert_eq!((at_phone.len(), mesh.inbox(SERVER).len()), (1, 0));
    assert_eq!(mesh.nodes[&PHONE].ledger.received(at_phone[0]).unwrap().first(), id);
    assert_eq!(mesh.mark(SERVER, id, LetterState::Shown), Err(MarkError::PassedOn(PHONE)));
    mesh.restart(SERVER);
    mesh.at(PHONE).ledger.pass_on(SESSION, SERVER, now);
    mesh.settle();
    let back = mesh.inbox(SERVER);
    assert_eq!((back.len(), mesh.inbox(PHONE).len()), (1, 0));
    mesh.mark(SERVER, back[0], LetterState::Shown).unwrap();
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Shown));
    mesh.mark(SERVER, back[0], LetterState::Acted).unwrap();
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Acted));
}

/// Shows: M-10
#[test]
fn letter_that_was_passed_on_twice_is_dealt_with_once() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    let before = mesh.nodes[&SERVER].disk.clone();
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    // The server forgets that it did, and that is noticed.
    let doubted: Vec<Record> = before.into_iter().chain([Record::Doubted { why: Doubt::RolledBack }]).collect();
    mesh.restart_from(SERVER, doubted);
    mesh.at(SERVER).ledger.begin(Incarnation::new([9; 16]), None);
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    let open = mesh.nodes[&PHONE].ledger.inbox().filter(|letter| letter.kept.state == Some(LetterState::Received));
    assert_eq!(open.map(|letter| letter.first()).collect::<Vec<_>>(), [id]);
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Received), "of two copies that meet one goes on");
}

/// Shows: M-11
#[test]
fn receiver_that_forgot_letters_it_had_dealt_with_learns_that_there_is_a_gap() {
    let mut mesh = Mesh::pair();
    let kept = mesh.tell(LAPTOP, SERVER);
    let before = mesh.nodes[&SERVER].disk.clone();
    let dealt: Vec<LetterId> = (0..3).map(|_| mesh.tell(LAPTOP, SERVER)).collect();
    for id in &dealt {
        mesh.mark(SERVER, *id, LetterState::Acted).unwrap();
    }
    let open = mesh.tell(LAPTOP, SERVER);
    mesh.restart_from(SERVER, before);
    let gap = super::output::Gap { from: dealt[0], through: dealt[2].seq };
    for device in [LAPTOP, SERVER] {
        assert_eq!(mesh.nodes[&device].ledger.gaps().copied().collect::<Vec<_>>(), [gap]);
        assert!(mesh.nodes[&device].events.contains(&LedgerEvent::Gap(gap)));
    }
    assert_eq!(mesh.inbox(SERVER), [kept, open], "what is not dealt with comes again");
    mesh.restart(SERVER);
    mesh.restart(LAPTOP);
    assert_eq!(mesh.nodes[&SERVER].ledger.gaps().count(), 1, "it is said once");
    assert_eq!(mesh.nodes[&LAPTOP].ledger.gaps().count(), 1);
}

/// Shows: M-2
#[test]
fn sender_that_forgot_what_it_told_takes_no_old_receipt_for_a_new_letter() {
    let mut mesh = Mesh::pair();
    let before = mesh.nodes[&LAPTOP].disk.clone();
    let first = mesh.tell(LAPTOP, SERVER);
    mesh.restart_from(LAPTOP, before);
    let second = mesh.tell(LAPTOP, SERVER);
    assert_eq!(second, first, "it gives the same place again");
    assert_eq!(mesh.state(LAPTOP, second), Some(LetterState::Refused(Refusal::IntegrityFailed)));
    assert!(mesh.nodes[&LAPTOP].events.contains(&LedgerEvent::BeginAnew(SERVER)));
    mesh.at(LAPTOP).ledger.begin(Incarnation::new([77; 16]), Some(SERVER));
    let third = mesh.tell(LAPTOP, SERVER);
    assert_eq!(mesh.state(LAPTOP, third), Some(LetterState::Received));
    assert_eq!(mesh.inbox(SERVER), [first, third]);
    assert!(!mesh.nodes[&SERVER].ledger.is_quarantined(LAPTOP));
}

/// Shows: M-2
#[test]
fn doubt_about_the_records_ends_the_life_of_the_outbox() {
    let mut mesh = Mesh::pair();
    let first = mesh.tell(LAPTOP, SERVER);
    let mut disk = mesh.nodes[&LAPTOP].disk.clone();
    disk.push(Record::Doubted { why: Doubt::Copied });
    mesh.restart_from(LAPTOP, disk);
    let facts = mesh.facts("x");
    assert_eq!(mesh.tell_facts(LAPTOP, SERVER, facts, limits::LETTER_TTL), Err(TellError::NotBegun));
    mesh.at(LAPTOP).ledger.begin(Incarnation::new([8; 16]), None);
    let second = mesh.tell(LAPTOP, SERVER);
    assert_ne!(first.incarnation, second.incarnation);
    assert_eq!(mesh.inbox(SERVER), [first, second]);
}

/// Shows: M-12
#[test]
fn letter_that_cannot_be_read_is_put_aside_and_the_others_go_on() {
    let mut mesh = Mesh::pair();
    let (bad, good) = (mesh.tell(LAPTOP, SERVER), mesh.tell(LAPTOP, SERVER));
    let now = mesh.now;
    for attempt in 1..=limits::LETTER_ATTEMPTS {
        assert!(mesh.at(SERVER).ledger.attempt(bad, now));
        // The daemon dies of it: the count is durable.
        mesh.drain(SERVER);
        mesh.restart(SERVER);
        assert_eq!(mesh.nodes[&SERVER].ledger.received(bad).unwrap().attempts, attempt);
    }
    assert!(!mesh.at(SERVER).ledger.attempt(bad, now));
    mesh.settle();
    assert_eq!(mesh.state(LAPTOP, bad), Some(LetterState::Quarantined));
    assert!(mesh.at(SERVER).ledger.attempt(good, now));
    mesh.mark(SERVER, good, LetterState::Shown).unwrap();
    assert_eq!(mesh.state(LAPTOP, good), Some(LetterState::Shown));
}

/// Shows: M-1, M-12
#[test]
fn letter_that_was_read_and_shown_to_nobody_is_as_it_was_however_often() {
    let mut mesh = Mesh::pair();
    let (letter, now) = (mesh.tell(LAPTOP, SERVER), mesh.now);
    for _ in 0..=limits::LETTER_ATTEMPTS {
        assert!(mesh.at(SERVER).ledger.attempt(letter, now));
        mesh.at(SERVER).ledger.unread(letter);
        mesh.drain(SERVER);
        mesh.restart(SERVER);
    }
    mesh.settle();
    assert_eq!(mesh.nodes[&SERVER].ledger.received(letter).unwrap().attempts, 0);
    assert_eq!(mesh.state(LAPTOP, letter), Some(LetterState::Received));
    mesh.mark(SERVER, letter, LetterState::Shown).unwrap();
    mesh.at(SERVER).ledger.unread(letter);
    assert_eq!(mesh.state(LAPTOP, letter), Some(LetterState::Shown), "what was shown stays so");
}

/// Shows: M-13
#[test]
fn letters_of_a_device_without_the_right_to_send_any_are_refused_and_not_kept() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    mesh.unwanted.insert(LAPTOP);
    let before = mesh.nodes[&SERVER].disk.len();
    let id = mesh.tell(LAPTOP, SERVER);
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Refused(Refusal::NotGranted)));
    assert_eq!((mesh.nodes[&SERVER].disk.len(), mesh.inbox(SERVER).len()), (before, 0));
    mesh.unwanted.clear();
    mesh.wait(limits::LETTER_ROOM_AGAIN);
    let later = mesh.tell(LAPTOP, SERVER);
    assert_eq!(mesh.inbox(SERVER), [later], "what was refused stays refused");
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Refused(Refusal::NotGranted)));
}

/// Shows: M-8
#[test]
fn letters_that_are_wanted_again_come_at_once() {
    let mut mesh = Mesh::pair();
    mesh.tell(LAPTOP, SERVER);
    mesh.unwanted.insert(LAPTOP);
    mesh.tell(LAPTOP, SERVER);
    let waits = mesh.tell(LAPTOP, SERVER);
    assert_eq!(mesh.nodes[&LAPTOP].ledger.closed(SERVER), Some(LetterRoom::NotGranted));
    mesh.unwanted.clear();
    let now = mesh.now;
    mesh.at(SERVER).ledger.say_room(LAPTOP, now);
    mesh.settle();
    assert_eq!(mesh.state(LAPTOP, waits), Some(LetterState::Received));
}

/// Shows: M-13
#[test]
fn letter_passed_on_needs_the_right_of_its_first_teller_too() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    mesh.unwanted.insert(LAPTOP);
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Refused(Refusal::NotGranted)));
}

/// Shows: M-15
#[test]
fn nothing_is_left_of_a_device_that_was_removed() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    mesh.tell(LAPTOP, SERVER);
    mesh.tell(SERVER, LAPTOP);
    let other = mesh.tell(PHONE, LAPTOP);
    mesh.forget(LAPTOP, SERVER);
    mesh.drain(LAPTOP);
    let gone = mesh.nodes[&LAPTOP].events.iter().filter(|event| matches!(event, LedgerEvent::Forget(_))).count();
    assert_eq!(gone, 2, "the words go too");
    let now = mesh.now;
    let again = Ledger::restore(LAPTOP, mesh.nodes[&LAPTOP].disk.iter(), now);
    for ledger in [&mesh.nodes[&LAPTOP].ledger, &again] {
        assert_eq!(ledger.peers(), BTreeSet::from([PHONE]));
        assert_eq!(ledger.inbox().map(|letter| letter.kept.id).collect::<Vec<_>>(), [other]);
    }
}

/// Shows: J-8
#[test]
fn shortened_journal_says_the_same_of_letters() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    for number in 0..6 {
        let id = mesh.tell_for(LAPTOP, SERVER, (number == 5).then_some(SESSION));
        match number {
            0 => mesh.mark(SERVER, id, LetterState::Acted).unwrap(),
            1 => mesh.mark(SERVER, id, LetterState::Shown).unwrap(),
            2 => mesh.mark(SERVER, id, LetterState::Refused(Refusal::Declined)).unwrap(),
            _ => {}
        }
    }
    let ahead = mesh.letter(9);
    let gone = ArrivedItem::Gone { from: 20, through: 22, why: GoneWhy::Ended };
    mesh.hand(LAPTOP, SERVER, &frame(vec![ahead, gone]));
    let now = mesh.now;
    let open = mesh.inbox(SERVER)[3];
    assert!(mesh.at(SERVER).ledger.attempt(open, now));
    mesh.settle();
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    for device in [LAPTOP, SERVER, PHONE] {
        let disk = mesh.nodes[&device].disk.clone();
        let short = compact(device, &disk);
        let of = |disk: &[Record]| {
            let ledger = Ledger::restore(device, disk.iter(), now);
            format!("{:?} {:?} {:?} {:?}", ledger.outs, ledger.ins, ledger.passed, ledger.incarnation)
        };
        assert_eq!(of(&short), of(&disk));
        assert_eq!(compact(device, &short), short, "it gets no shorter");
        let read = |record: &&Record| matches!(record, Record::Letter(letter) if matches!(**letter, LetterRecord::Attempted { .. }));
        assert_eq!(short.iter().filter(read).count(), usize::from(device == SERVER), "of those that were read alone");
    }
}

/// Shows: M-8
#[test]
fn letters_that_ended_are_remembered_up_to_a_number() {
    let mut mesh = Mesh::pair();
    let most = limits::LETTER_HISTORY + 20;
    for _ in 0..most {
        let facts = LetterFacts { digest: Hash::of(&mesh.now.unix_ms.to_le_bytes()), ..mesh.template() };
        mesh.now.unix_ms += 1;
        let id = mesh.tell_facts(LAPTOP, SERVER, facts, limits::LETTER_TTL).unwrap();
        mesh.mark(SERVER, id, LetterState::Acted).unwrap();
    }
    for device in [LAPTOP, SERVER] {
        let ledger = &mesh.nodes[&device].ledger;
        assert_eq!(ledger.letters(), limits::LETTER_HISTORY);
        assert_eq!(ledger.words().len(), limits::LETTER_HISTORY);
        let now = mesh.now;
        let again = Ledger::restore(device, mesh.nodes[&device].disk.iter(), now);
        assert_eq!(again.letters(), limits::LETTER_HISTORY);
    }
    mesh.restart(SERVER);
    mesh.restart(LAPTOP);
    let facts = mesh.facts("more");
    let id = mesh.tell_facts(LAPTOP, SERVER, facts, limits::LETTER_TTL).unwrap();
    assert_eq!((id.seq, mesh.state(LAPTOP, id)), (most as u64 + 1, Some(LetterState::Received)));
}

/// Shows: M-8
#[test]
fn peer_cannot_make_this_device_remember_one_outbox_after_the_other() {
    let mut mesh = Mesh::pair();
    let lives = u8::try_from(limits::LETTER_STREAMS).unwrap();
    for life in 0..=lives {
        let letter = mesh.letter(1);
        let arrival = Arrival { incarnation: Incarnation::new([100 + life; 16]), number: 1, items: vec![letter] };
        let said = mesh.hand(LAPTOP, SERVER, &arrival);
        assert_eq!(said.room == LetterRoom::Quarantined, life >= lives, "{life}");
    }
    assert_eq!(mesh.inbox(SERVER).len(), limits::LETTER_STREAMS);
    let (now, before) = (mesh.now, format!("{:?}", mesh.nodes[&SERVER].ledger));
    for life in lives + 1..100 {
        let arrival = Arrival { incarnation: Incarnation::new([100 + life; 16]), number: 1, items: Vec::new() };
        mesh.at(SERVER).ledger.handle_letters(LAPTOP, &arrival, &|_| true, true, now);
    }
    assert_eq!(format!("{:?}", mesh.nodes[&SERVER].ledger), before, "it is not even answered");
}

/// Shows: M-8
#[test]
fn receiver_that_claims_letters_never_told_gains_nothing() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    for round in 0_u8..20 {
        let life = mesh.nodes[&LAPTOP].ledger.life(SERVER).unwrap();
        let said = LetterReceipts {
            incarnation: life,
            answers: 0,
            through: u64::MAX,
            room: LetterRoom::Open { letters: 1, bytes: 1 << 20 },
            receipts: vec![LetterReceipt { seq: 1 << 40, state: LetterState::Acted }],
        };
        mesh.at(LAPTOP).ledger.handle_receipts(SERVER, &said, now);
        mesh.drain(LAPTOP);
        mesh.at(LAPTOP).said.clear();
        let anew = mesh.at(LAPTOP).events.pop();
        if anew == Some(LedgerEvent::BeginAnew(SERVER)) {
            mesh.at(LAPTOP).ledger.begin(Incarnation::new([50 + round; 16]), Some(SERVER));
            let facts = mesh.facts("x");
            mesh.letters.insert(facts.digest, facts);
            mesh.at(LAPTOP).ledger.tell(Told { to: SERVER, facts, expires: limits::LETTER_TTL }, now).unwrap();
        }
    }
    assert!(mesh.nodes[&LAPTOP].ledger.outs.len() <= limits::LETTER_STREAMS);
    assert_eq!(mesh.nodes[&LAPTOP].ledger.life(PHONE), Some(id.incarnation), "others notice nothing");
}

/// Shows: M-3
#[test]
fn places_without_a_letter_are_known_as_such() {
    let mut mesh = Mesh::pair();
    let gone = |from, through| ArrivedItem::Gone { from, through, why: GoneWhy::Ended };
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![gone(1, 5_000)])).through, 5_000);
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![gone(5_002, 5_003)])).through, 5_000);
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![gone(9_000, 1 << 40)])).through, 5_000, "too far");
    let letter = mesh.letter(5_001);
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![letter])).through, 5_003);
    mesh.restart(SERVER);
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![gone(5_004, u64::MAX)])).through, u64::MAX);
    let wrapped = mesh.letter(1);
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![wrapped])).through, u64::MAX);
}

/// Shows: M-7, M-8
#[test]
fn peer_that_began_many_outboxes_is_taken_again_once_the_operator_says_so() {
    let mut mesh = Mesh::pair();
    let lives = u8::try_from(limits::LETTER_STREAMS).unwrap();
    let life = |mesh: &mut Mesh, life: u8| {
        let letter = mesh.letter(1);
        let arrival = Arrival { incarnation: Incarnation::new([100 + life; 16]), number: 1, items: vec![letter] };
        mesh.hand(LAPTOP, SERVER, &arrival).room
    };
    let last = (0..=lives).map(|n| life(&mut mesh, n)).last();
    assert_eq!(last, Some(LetterRoom::Quarantined));
    assert!(mesh.nodes[&SERVER].ledger.is_quarantined(LAPTOP), "the operator sees it");
    mesh.restart(SERVER);
    assert!(mesh.nodes[&SERVER].ledger.is_quarantined(LAPTOP));
    let now = mesh.now;
    assert!(mesh.at(SERVER).ledger.release_quarantine(LAPTOP, now));
    mesh.drain(SERVER);
    mesh.at(SERVER).said.clear();
    assert!(matches!(life(&mut mesh, lives), LetterRoom::Open { .. }));
    assert_eq!(mesh.inbox(SERVER).len(), limits::LETTER_STREAMS + 1);
    for n in lives + 1..=2 * lives {
        mesh.cut(LAPTOP, SERVER);
        mesh.join(LAPTOP, SERVER);
        let open = matches!(life(&mut mesh, n), LetterRoom::Open { .. });
        assert_eq!(open, n < 2 * lives, "so many more: {n}");
    }
}

/// Shows: M-8
#[test]
fn places_without_a_letter_fill_no_journal_that_has_no_room() {
    let mut mesh = Mesh::pair();
    let gone = |seq: u64| ArrivedItem::Gone { from: seq, through: seq, why: GoneWhy::Forgotten };
    let before = mesh.nodes[&SERVER].disk.len();
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame((1..=1_000).map(gone).collect())).through, 1_000);
    assert_eq!(mesh.nodes[&SERVER].disk.len(), before + 1, "one row, one record");
    mesh.space = false;
    let said = mesh.hand(LAPTOP, SERVER, &frame((1_001..2_000).map(gone).collect()));
    assert_eq!((said.through, said.room), (1_000, LetterRoom::Full));
    assert_eq!(mesh.nodes[&SERVER].disk.len(), before + 1);
    mesh.space = true;
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![gone(1_001)])).through, 1_001);
}

/// Shows: M-8, M-11
#[test]
fn receiver_that_forgets_and_remembers_by_turns_fills_no_journal() {
    let mut mesh = Mesh::pair();
    let told: Vec<LetterId> = (0..100).map(|_| mesh.tell(LAPTOP, SERVER)).collect();
    for id in &told {
        mesh.mark(SERVER, *id, LetterState::Acted).unwrap();
    }
    let open = mesh.tell(LAPTOP, SERVER);
    let now = mesh.now;
    let before = mesh.nodes[&LAPTOP].disk.len();
    for through in (0..100).rev().cycle().take(300) {
        mesh.at(LAPTOP).ledger.retry((SERVER, open.incarnation), now);
        mesh.drain(LAPTOP);
        mesh.at(LAPTOP).said.clear();
        let answers = mesh.nodes[&LAPTOP].ledger.frames;
        let room = LetterRoom::Open { letters: 9, bytes: 1 << 20 };
        let said = LetterReceipts { incarnation: open.incarnation, answers, through, room, receipts: Vec::new() };
        mesh.at(LAPTOP).ledger.handle_receipts(SERVER, &said, now);
        mesh.drain(LAPTOP);
        mesh.at(LAPTOP).said.clear();
    }
    assert!(mesh.nodes[&LAPTOP].disk.len() <= before + 20, "{}", mesh.nodes[&LAPTOP].disk.len() - before);
}

/// Shows: M-10
#[test]
fn other_words_under_the_name_of_a_letter_do_not_keep_it_away() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    // The phone's owner lies: it says that it passes on what the laptop told the server.
    let facts = Box::new(LetterFacts { digest: Hash::of(b"other words"), ..mesh.template() });
    let forged = ArrivedItem::Letter { seq: 1, first: Some(id), expires_in_ms: 1_000_000, facts };
    let liar = DeviceId::new([4; 32]);
    mesh.hand(liar, PHONE, &frame(vec![forged]));
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    let genuine = mesh.nodes[&PHONE].ledger.inbox().find(|letter| letter.kept.id.origin == SERVER).unwrap();
    assert_eq!(genuine.kept.state, Some(LetterState::Received));
    mesh.mark(PHONE, genuine.kept.id, LetterState::Acted).unwrap();
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Acted));
}
