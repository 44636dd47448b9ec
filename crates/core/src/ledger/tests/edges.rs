//! Bounds that are reached, words that come late or say nothing new, and what the ledger is asked.

use super::*;
use crate::ledger::Standing;
use crate::ledger::output::Gap;

/// A letter of this many bytes, whose words nobody else has.
fn heavy(mesh: &mut Mesh, number: u64, bytes: usize) -> LetterFacts {
    LetterFacts { digest: Hash::of(&number.to_le_bytes()), bytes: u32::try_from(bytes).unwrap(), ..mesh.template() }
}

fn life(of: DeviceId) -> Incarnation {
    Incarnation::new([of.as_bytes()[0]; 16])
}

fn gone(from: u64, through: u64, why: GoneWhy) -> ArrivedItem {
    ArrivedItem::Gone { from, through, why }
}

fn forgets(mesh: &Mesh, device: DeviceId) -> usize {
    mesh.nodes[&device].events.iter().filter(|event| matches!(event, LedgerEvent::Forget(_))).count()
}

/// Shows: M-8
#[test]
#[cfg_attr(miri, ignore = "ten thousand letters take the interpreter hours")]
fn bytes_of_an_outbox_and_letters_of_a_device_are_bounded() {
    let mut mesh = Mesh::new(&[LAPTOP]);
    let tell = |mesh: &mut Mesh, to: DeviceId, number: u64, bytes: usize| {
        let (facts, now) = (heavy(mesh, number, bytes), mesh.now);
        let told = mesh.at(LAPTOP).ledger.tell(Told { to, facts, expires: limits::LETTER_TTL }, now);
        while mesh.at(LAPTOP).ledger.poll().is_some() {}
        told
    };
    let most = limits::OUTBOX_BYTES / cede_wire::limits::LETTER_BYTES as u64;
    for number in 0..most {
        tell(&mut mesh, SERVER, number, cede_wire::limits::LETTER_BYTES).unwrap();
    }
    let full = TellError::Full { letters: usize::try_from(most).unwrap(), bytes: limits::OUTBOX_BYTES };
    assert_eq!(tell(&mut mesh, SERVER, most, 1), Err(full));
    assert_eq!(tell(&mut mesh, LAPTOP, most, 1), Err(TellError::ToSelf));
    for number in most..limits::LETTERS as u64 {
        let to = DeviceId::new([100 + u8::try_from(number / limits::OUTBOX_LETTERS as u64).unwrap(); 32]);
        tell(&mut mesh, to, number, 1).unwrap();
    }
    assert_eq!(tell(&mut mesh, PHONE, 1 << 40, 1), Err(TellError::TooMany));
}

/// Shows: M-8
#[test]
fn room_that_the_end_of_a_letter_makes_is_said_at_once() {
    let mut mesh = Mesh::pair();
    let most = limits::INBOX_BYTES / cede_wire::limits::LETTER_BYTES as u64;
    let mut told = Vec::new();
    for number in 0..=most {
        let facts = heavy(&mut mesh, number, cede_wire::limits::LETTER_BYTES);
        told.push(mesh.tell_facts(LAPTOP, SERVER, facts, limits::LETTER_TTL).unwrap());
    }
    let last = *told.last().unwrap();
    assert_eq!((mesh.state(LAPTOP, last), mesh.inbox(SERVER).len() as u64), (None, most));
    assert_eq!(mesh.nodes[&LAPTOP].ledger.closed(SERVER), Some(LetterRoom::Full));
    mesh.mark(SERVER, told[0], LetterState::Acted).unwrap();
    assert_eq!(mesh.state(LAPTOP, last), Some(LetterState::Received));
}

/// Shows: M-3, M-8
#[test]
fn frame_holds_no_more_than_its_bytes_and_than_the_receiver_has_room_for() {
    let mut mesh = Mesh::pair();
    mesh.cut(LAPTOP, SERVER);
    for number in 0..4 {
        let facts = heavy(&mut mesh, number, cede_wire::limits::LETTER_BYTES);
        mesh.tell_facts(LAPTOP, SERVER, facts, limits::LETTER_TTL).unwrap();
    }
    let now = mesh.now;
    mesh.at(LAPTOP).ledger.link_up(SERVER, now);
    let posts = |mesh: &mut Mesh, letters: u32, bytes: u64, through: u64, above: &[u64]| {
        mesh.drain(LAPTOP);
        mesh.at(LAPTOP).said.clear();
        let answers = mesh.nodes[&LAPTOP].ledger.frames;
        let receipts = above.iter().map(|seq| LetterReceipt { seq: *seq, state: LetterState::Received }).collect();
        let room = LetterRoom::Open { letters, bytes };
        let said = LetterReceipts { incarnation: life(LAPTOP), answers, through, room, receipts };
        mesh.at(LAPTOP).ledger.handle_receipts(SERVER, &said, now);
        mesh.drain(LAPTOP);
        let said = core::mem::take(&mut mesh.at(LAPTOP).said);
        said.iter().find_map(|(_, what)| match what {
            Said::Letters(post) => Some(post.items.len()),
            Said::Frame(_) => None,
        })
    };
    let (letter, much) = (cede_wire::limits::LETTER_BYTES as u64, 1 << 40);
    assert_eq!(posts(&mut mesh, 9, letter - 1, 0, &[]), None, "one is too many bytes");
    mesh.at(LAPTOP).ledger.retry((SERVER, life(LAPTOP)), now);
    assert_eq!(posts(&mut mesh, 1, much, 0, &[]), Some(1), "there is a place for one");
    assert_eq!(posts(&mut mesh, 9, much, 0, &[]), Some(2), "as many bytes as a frame has");
    assert_eq!(posts(&mut mesh, 9, much, 0, &[2]), Some(2), "the one in between is there already");
    assert_eq!(posts(&mut mesh, 9, much, 3, &[]), Some(1));
}

/// Shows: M-4
#[test]
fn letter_moves_no_step_back() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    mesh.mark(SERVER, id, LetterState::Shown).unwrap();
    let before = [LAPTOP, SERVER].map(|device| mesh.nodes[&device].disk.len());
    mesh.mark(SERVER, id, LetterState::Received).unwrap();
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Shown));
    assert_eq!([LAPTOP, SERVER].map(|device| mesh.nodes[&device].disk.len()), before);
}

/// Shows: M-6
#[test]
fn letter_whose_time_is_over_when_it_comes_is_kept_as_expired() {
    let mut mesh = Mesh::pair();
    let facts = Box::new(mesh.facts("lunch"));
    let late = ArrivedItem::Letter { seq: 1, first: None, expires_in_ms: 0, facts };
    let said = mesh.hand(LAPTOP, SERVER, &frame(vec![late]));
    assert_eq!(said.receipts, [LetterReceipt { seq: 1, state: LetterState::Expired }]);
    assert!(!mesh.nodes[&SERVER].events.iter().any(|event| matches!(event, LedgerEvent::Arrived(_))));
}

/// Shows: M-12
#[test]
fn reading_that_fails_as_often_as_it_may_puts_a_letter_aside() {
    let mut mesh = Mesh::pair();
    let (bad, good) = (mesh.tell(LAPTOP, SERVER), mesh.tell(LAPTOP, SERVER));
    let now = mesh.now;
    for attempt in 1..=limits::LETTER_ATTEMPTS {
        assert_eq!(mesh.state(LAPTOP, bad), Some(LetterState::Received), "{attempt}");
        assert!(mesh.at(SERVER).ledger.attempt(bad, now));
        mesh.at(SERVER).ledger.failed(bad, now);
        mesh.settle();
    }
    assert_eq!(mesh.state(LAPTOP, bad), Some(LetterState::Quarantined));
    assert!(!mesh.at(SERVER).ledger.attempt(bad, now), "it is put aside for good");
    mesh.mark(SERVER, good, LetterState::Acted).unwrap();
    let before = mesh.nodes[&SERVER].disk.len();
    assert!(mesh.at(SERVER).ledger.attempt(good, now), "what was dealt with can be read again");
    let unknown = LetterId { seq: 99, ..good };
    assert!(!mesh.at(SERVER).ledger.attempt(unknown, now));
    mesh.at(SERVER).ledger.failed(unknown, now);
    mesh.settle();
    assert_eq!(mesh.nodes[&SERVER].disk.len(), before, "neither is an attempt");
}

/// Shows: M-3, M-11
#[test]
fn places_without_a_letter_that_are_known_or_turned_round_are_no_record() {
    let mut mesh = Mesh::pair();
    let letter = mesh.letter(2);
    mesh.hand(LAPTOP, SERVER, &frame(vec![letter]));
    let before = mesh.nodes[&SERVER].disk.len();
    let said = mesh.hand(LAPTOP, SERVER, &frame(vec![gone(5, 3, GoneWhy::Forgotten), gone(2, 2, GoneWhy::Forgotten)]));
    assert_eq!((said.through, mesh.nodes[&SERVER].disk.len()), (0, before));
    let turned = vec![gone(5, 5, GoneWhy::Ended), gone(6, 4, GoneWhy::Ended)];
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(turned)).through, 0);
    let known = |seq| mesh.nodes[&SERVER].ledger.knows(LAPTOP, life(LAPTOP), seq);
    assert!(known(5) && !known(4) && !known(6));
    let before = before + 1;
    let rows = [(1, 1, GoneWhy::Ended), (3, 3, GoneWhy::Forgotten), (4, 4, GoneWhy::Ended), (7, 7, GoneWhy::Ended)];
    let rows = rows.map(|(from, through, why)| gone(from, through, why)).to_vec();
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(rows)).through, 5);
    assert_eq!(mesh.nodes[&SERVER].disk.len(), before + 4, "neither of one kind nor side by side: each is a record");
    let first = LetterId { origin: LAPTOP, incarnation: life(LAPTOP), stream: SERVER, seq: 3 };
    let gaps: Vec<Gap> = mesh.nodes[&SERVER].ledger.gaps().copied().collect();
    assert_eq!(gaps, [Gap { from: first, through: 3 }]);
    for seq in 0..2 * limits::LETTER_GAPS as u64 {
        mesh.hand(LAPTOP, SERVER, &frame(vec![gone(8 + seq, 8 + seq, GoneWhy::Forgotten)]));
    }
    assert_eq!(mesh.nodes[&SERVER].ledger.gaps().count(), limits::LETTER_GAPS);
}

/// Shows: M-7
#[test]
fn what_became_of_a_letter_is_said_to_a_peer_that_is_kept_out_too() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    let forged =
        ArrivedItem::Letter { seq: id.seq, first: None, expires_in_ms: 1_000, facts: Box::new(mesh.facts("x")) };
    assert_eq!(mesh.hand(LAPTOP, SERVER, &frame(vec![forged])).room, LetterRoom::Quarantined);
    mesh.mark(SERVER, id, LetterState::Acted).unwrap();
    assert_eq!(mesh.state(LAPTOP, id), Some(LetterState::Acted));
    let now = mesh.now;
    assert!(!mesh.at(LAPTOP).ledger.release_quarantine(SERVER, now), "nobody is kept out there");
    assert!(mesh.at(LAPTOP).ledger.poll().is_none());
}

/// Shows: M-4
#[test]
fn end_that_the_sender_does_not_hold_yet_is_said_again_when_it_holds_another() {
    let mut mesh = Mesh::pair();
    let told = [mesh.tell(LAPTOP, SERVER), mesh.tell(LAPTOP, SERVER)];
    let now = mesh.now;
    for id in told {
        mesh.at(SERVER).ledger.mark(id, LetterState::Acted, now).unwrap();
    }
    mesh.drain(SERVER);
    mesh.at(SERVER).said.clear();
    let held = |seqs: &[u64]| cede_wire::letter::ReceiptsHeld { incarnation: told[0].incarnation, seqs: seqs.to_vec() };
    mesh.at(SERVER).ledger.handle_held(LAPTOP, &held(&[told[0].seq, told[0].seq, 77]), now);
    mesh.drain(SERVER);
    let said = core::mem::take(&mut mesh.at(SERVER).said);
    let [(_, Said::Frame(PeerMessage::LetterReceipts(said)))] = &said[..] else { panic!("{said:?}") };
    assert_eq!(said.receipts, [LetterReceipt { seq: told[1].seq, state: LetterState::Acted }]);
    mesh.at(SERVER).ledger.handle_held(LAPTOP, &held(&[told[0].seq]), now);
    mesh.drain(SERVER);
    assert!(mesh.at(SERVER).said.is_empty(), "what was held already says nothing new");
}

/// Shows: M-10, M-13
#[test]
fn letter_comes_home_to_the_device_that_told_it_with_its_session() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    let other = mesh.tell(SERVER, LAPTOP);
    mesh.unwanted.insert(LAPTOP);
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, LAPTOP, now);
    mesh.settle();
    let home = mesh.inbox(LAPTOP).into_iter().find(|letter| *letter != other).unwrap();
    let home = mesh.nodes[&LAPTOP].ledger.received(home).unwrap();
    assert_eq!(
        (home.first(), home.kept.state),
        (id, Some(LetterState::Received)),
        "nobody needs a right against oneself"
    );
}

/// Shows: M-11
#[test]
fn receiver_that_forgot_more_than_is_remembered_learns_of_one_gap() {
    let mut mesh = Mesh::pair();
    let before = mesh.nodes[&SERVER].disk.clone();
    let most = limits::LETTER_HISTORY as u64 + 20;
    for number in 0..most {
        let facts = heavy(&mut mesh, number, 1);
        let id = mesh.tell_facts(LAPTOP, SERVER, facts, limits::LETTER_TTL).unwrap();
        mesh.mark(SERVER, id, LetterState::Acted).unwrap();
    }
    let open = mesh.tell(LAPTOP, SERVER);
    mesh.restart_from(SERVER, before);
    let gap = Gap { from: LetterId { seq: 1, ..open }, through: most };
    for device in [LAPTOP, SERVER] {
        assert_eq!(mesh.nodes[&device].ledger.gaps().copied().collect::<Vec<_>>(), [gap]);
    }
    assert_eq!(mesh.inbox(SERVER), [open]);
}

/// Shows: M-9
#[test]
fn agent_answers_in_one_conversation_a_number_of_times() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    for _ in 0..limits::CONVERSATION_REPLIES {
        let heading = mesh.nodes[&SERVER].ledger.reply_to(id).unwrap();
        let facts = LetterFacts { conversation: heading.conversation, hops: heading.hops, ..mesh.facts("again") };
        mesh.tell_facts(SERVER, LAPTOP, facts, limits::LETTER_TTL).unwrap();
    }
    assert_eq!(mesh.nodes[&SERVER].ledger.reply_to(id), Err(TellError::Answered(limits::CONVERSATION_REPLIES)));
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    assert_eq!(mesh.nodes[&SERVER].ledger.reply_to(id), Err(TellError::PassedOn(PHONE)));
}

/// Shows: M-10
#[test]
fn letter_waits_where_it_is_while_the_outbox_takes_none() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    let mut disk = mesh.nodes[&SERVER].disk.clone();
    disk.push(Record::Doubted { why: Doubt::Copied });
    mesh.restart_from(SERVER, disk);
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    assert_eq!((mesh.inbox(SERVER), mesh.inbox(PHONE)), (vec![id], Vec::new()));
    assert_eq!(mesh.nodes[&SERVER].ledger.sessions(), BTreeSet::from([SESSION]));
    mesh.at(SERVER).ledger.begin(Incarnation::new([9; 16]), None);
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    assert_eq!((mesh.inbox(SERVER).len(), mesh.inbox(PHONE).len()), (0, 1));
    assert_eq!(mesh.nodes[&SERVER].ledger.sessions(), BTreeSet::new());
}

/// Shows: M-15
#[test]
fn what_was_passed_on_waits_again_when_the_device_that_has_it_is_removed() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    assert_eq!(mesh.inbox(SERVER), []);
    mesh.forget(SERVER, PHONE);
    mesh.drain(SERVER);
    assert_eq!(mesh.inbox(SERVER), [id]);
    assert_eq!(forgets(&mesh, SERVER), 0, "the words of the letter are still needed");
    mesh.forget(SERVER, LAPTOP);
    mesh.drain(SERVER);
    assert_eq!((mesh.inbox(SERVER).len(), forgets(&mesh, SERVER)), (0, 1));
    let before = mesh.nodes[&SERVER].disk.len();
    mesh.forget(SERVER, LAPTOP);
    mesh.drain(SERVER);
    assert_eq!(mesh.nodes[&SERVER].disk.len(), before, "of whom nothing is known nothing is forgotten");
}

/// It went on with its session before its teller was removed, to a device that the teller itself told something or not.
///
/// Shows: M-13, M-15
#[test]
fn what_another_device_passed_on_of_one_that_was_removed_is_kept_no_more_and_its_end_is_heard() {
    for also in [false, true] {
        let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
        if also {
            let direct = mesh.tell(LAPTOP, PHONE);
            mesh.mark(PHONE, direct, LetterState::Acted).unwrap();
        }
        let id = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
        let now = mesh.now;
        mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
        mesh.settle();
        let waits = |mesh: &Mesh| -> Vec<LetterId> {
            let waiting = mesh.nodes[&PHONE].ledger.inbox().filter(Standing::waits);
            waiting.map(|letter| letter.first()).collect()
        };
        assert!(waits(&mesh).contains(&id));
        let known = mesh.nodes[&PHONE].ledger.peers();
        assert!(known.contains(&LAPTOP) && !known.contains(&PHONE), "{known:?}");
        mesh.forget(PHONE, LAPTOP);
        mesh.settle();
        assert_eq!(waits(&mesh), []);
        let passed = mesh.nodes[&SERVER].ledger.outbox().next().unwrap();
        assert_eq!(passed.kept.state, Some(LetterState::Refused(Refusal::NotGranted)));
        mesh.restart(PHONE);
        assert_eq!(waits(&mesh), []);
        assert!(also || !mesh.nodes[&PHONE].ledger.peers().contains(&LAPTOP), "once");
    }
}

/// A session went round; the device in its middle is removed, so that its letter waits twice where it began.
///
/// Shows: M-10, M-15
#[test]
fn letter_that_came_round_waits_once_and_follows_its_session_however_often_it_was_doubled() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let told = mesh.tell_for(SERVER, LAPTOP, Some(SESSION));
    let goes = |mesh: &mut Mesh, from, to| {
        let now = mesh.now;
        mesh.at(from).ledger.pass_on(SESSION, to, now);
        mesh.settle();
    };
    let waits = |mesh: &Mesh, device| -> Vec<LetterId> {
        mesh.nodes[&device].ledger.inbox().filter(Standing::waits).map(|letter| letter.first()).collect()
    };
    for (from, to) in [(LAPTOP, PHONE), (PHONE, SERVER), (SERVER, LAPTOP)] {
        goes(&mut mesh, from, to);
    }
    for device in [LAPTOP, SERVER] {
        mesh.forget(device, PHONE);
    }
    mesh.settle();
    assert_eq!((waits(&mesh, LAPTOP), waits(&mesh, SERVER)), (vec![told], vec![]));
    for _ in 0..3 {
        goes(&mut mesh, LAPTOP, SERVER);
        assert_eq!((waits(&mesh, LAPTOP), waits(&mesh, SERVER)), (vec![], vec![told]));
        goes(&mut mesh, SERVER, LAPTOP);
        assert_eq!((waits(&mesh, LAPTOP), waits(&mesh, SERVER)), (vec![told], vec![]));
    }
    mesh.restart(LAPTOP);
    assert_eq!(waits(&mesh, LAPTOP), [told]);
    let last = mesh.nodes[&LAPTOP].ledger.inbox().find(Standing::waits).unwrap();
    mesh.mark(LAPTOP, last.kept.id, LetterState::Acted).unwrap();
    assert_eq!(mesh.state(SERVER, told), Some(LetterState::Acted), "its teller hears the end");
}

/// The same where the letter went on, or was dealt with, before the device in the middle is removed.
///
/// Shows: M-10, M-15
#[test]
fn letter_that_waits_again_is_where_its_copy_went_and_what_became_of_it() {
    for dealt in [false, true] {
        let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
        let told = mesh.tell_for(SERVER, LAPTOP, Some(SESSION));
        let now = mesh.now;
        for (from, to) in [(LAPTOP, PHONE), (PHONE, SERVER), (SERVER, LAPTOP)] {
            mesh.at(from).ledger.pass_on(SESSION, to, now);
            mesh.settle();
        }
        if dealt {
            let copy = mesh.nodes[&LAPTOP].ledger.inbox().find(Standing::waits).unwrap();
            mesh.mark(LAPTOP, copy.kept.id, LetterState::Acted).unwrap();
        } else {
            mesh.at(LAPTOP).ledger.pass_on(SESSION, SERVER, now);
            mesh.settle();
        }
        for device in [LAPTOP, SERVER] {
            mesh.forget(device, PHONE);
        }
        mesh.settle();
        mesh.restart(LAPTOP);
        assert_eq!(mesh.nodes[&LAPTOP].ledger.inbox().filter(Standing::waits).count(), 0, "it is not here twice");
        if !dealt {
            let waits = mesh.nodes[&SERVER].ledger.inbox().filter(Standing::waits).collect::<Vec<_>>();
            assert_eq!(waits.iter().map(Standing::first).collect::<Vec<_>>(), [told]);
            mesh.mark(SERVER, waits[0].kept.id, LetterState::Acted).unwrap();
        }
        assert_eq!(mesh.state(SERVER, told), Some(LetterState::Acted), "its teller hears the end");
    }
}

/// A copy that was a repetition once is no reason to call the letter one.
///
/// Shows: M-10
#[test]
fn repetition_of_a_letter_that_went_on_since_keeps_it_from_nothing() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    let told = mesh.tell_for(LAPTOP, SERVER, Some(SESSION));
    let before = mesh.nodes[&SERVER].disk.clone();
    let now = mesh.now;
    mesh.at(SERVER).ledger.pass_on(SESSION, PHONE, now);
    mesh.settle();
    // The server forgets that it did, and that is noticed: the phone has it twice.
    let doubted: Vec<Record> = before.into_iter().chain([Record::Doubted { why: Doubt::RolledBack }]).collect();
    mesh.restart_from(SERVER, doubted);
    mesh.at(SERVER).ledger.begin(Incarnation::new([9; 16]), None);
    for (from, to) in [(SERVER, PHONE), (PHONE, LAPTOP), (LAPTOP, PHONE)] {
        mesh.at(from).ledger.pass_on(SESSION, to, now);
        mesh.settle();
    }
    let open = mesh.nodes[&PHONE].ledger.inbox().filter(Standing::waits);
    assert_eq!(open.map(|letter| letter.first()).collect::<Vec<_>>(), [told]);
}

/// Shows: M-11, M-15
#[test]
fn gaps_and_closed_doors_of_a_device_that_was_removed_go_with_it() {
    let mut mesh = Mesh::new(&[LAPTOP, SERVER, PHONE]);
    for from in [LAPTOP, PHONE] {
        let arrival = Arrival { incarnation: life(from), ..frame(vec![gone(1, 1, GoneWhy::Forgotten)]) };
        mesh.hand(from, SERVER, &arrival);
    }
    let (one, other) = (mesh.letter(2), mesh.letter(2));
    mesh.hand(LAPTOP, SERVER, &frame(vec![one, other]));
    assert!(mesh.nodes[&SERVER].ledger.is_quarantined(LAPTOP));
    mesh.forget(SERVER, LAPTOP);
    mesh.drain(SERVER);
    assert!(!mesh.nodes[&SERVER].ledger.is_quarantined(LAPTOP));
    let left: Vec<DeviceId> = mesh.nodes[&SERVER].ledger.gaps().map(|gap| gap.from.origin).collect();
    assert_eq!(left, [PHONE]);
}

/// Shows: M-5
#[test]
fn ledger_says_for_whom_a_letter_waits_and_which_words_and_places_it_knows() {
    let mut mesh = Mesh::pair();
    mesh.cut(LAPTOP, SERVER);
    let before = mesh.now.unix_ms - 1;
    let waits = |mesh: &Mesh| mesh.nodes[&LAPTOP].ledger.waits_since(SERVER, before);
    assert!(!waits(&mesh));
    let id = mesh.tell(LAPTOP, SERVER);
    assert!(waits(&mesh) && !mesh.nodes[&LAPTOP].ledger.waits_since(SERVER, mesh.now.unix_ms));
    let digest = mesh.nodes[&LAPTOP].ledger.told(id).unwrap().kept.facts.digest;
    let knows = |mesh: &Mesh| {
        let ledger = &mesh.nodes[&SERVER].ledger;
        (ledger.knows(LAPTOP, id.incarnation, id.seq), ledger.needs(&digest))
    };
    assert_eq!((knows(&mesh), mesh.nodes[&LAPTOP].ledger.needs(&digest)), ((false, false), true));
    mesh.join(LAPTOP, SERVER);
    assert_eq!((knows(&mesh), waits(&mesh)), ((true, true), false));
    assert_eq!(mesh.nodes[&LAPTOP].ledger.incarnation(), Some(life(LAPTOP)));
}

/// Shows: M-2, M-4
#[test]
fn receipts_for_what_was_never_said_spoil_the_outbox_and_those_of_an_earlier_one_do_not() {
    let mut mesh = Mesh::pair();
    let old = mesh.tell(LAPTOP, SERVER);
    mesh.at(LAPTOP).ledger.begin(Incarnation::new([50; 16]), None);
    mesh.cut(LAPTOP, SERVER);
    let unsent = mesh.tell(LAPTOP, SERVER);
    let say = |mesh: &mut Mesh, id: LetterId, seq: u64| {
        let room = LetterRoom::Open { letters: 9, bytes: 1 << 20 };
        let receipts = vec![LetterReceipt { seq, state: LetterState::Acted }];
        let said = LetterReceipts { incarnation: id.incarnation, answers: 0, through: 0, room, receipts };
        let now = mesh.now;
        mesh.at(LAPTOP).ledger.handle_receipts(SERVER, &said, now);
        mesh.drain(LAPTOP);
        mesh.nodes[&LAPTOP].events.contains(&LedgerEvent::BeginAnew(SERVER))
    };
    assert!(!say(&mut mesh, old, old.seq + 9), "that life is over already");
    assert!(say(&mut mesh, unsent, unsent.seq));
    assert_eq!(mesh.state(LAPTOP, unsent), Some(LetterState::Refused(Refusal::IntegrityFailed)));
}

/// Shows: M-3
#[test]
fn words_about_letters_that_nobody_has_change_nothing() {
    let mut mesh = Mesh::pair();
    let id = mesh.tell(LAPTOP, SERVER);
    let strange = LetterId { incarnation: Incarnation::new([66; 16]), ..id };
    let foreign = LetterId { origin: PHONE, stream: DeviceId::new([4; 32]), ..id };
    let theirs = LetterId { origin: SERVER, stream: LAPTOP, ..strange };
    use cede_wire::letter::{KeptLetter, LetterRecord};
    let now = mesh.now;
    let facts = mesh.template();
    let kept = KeptLetter { id: foreign, first: None, facts, expires_in_ms: 1, at_unix_ms: 0, state: None };
    let (from, through, why, above) = (foreign, 9, GoneWhy::Forgotten, Vec::new());
    let records = [
        LetterRecord::Moved { id: strange, state: LetterState::Acted },
        LetterRecord::Moved { id: LetterId { seq: 77, ..id }, state: LetterState::Acted },
        LetterRecord::Held { id: strange },
        LetterRecord::Held { id: theirs },
        LetterRecord::Attempted { id: theirs, attempts: 2 },
        LetterRecord::Kept(Box::new(kept)),
        LetterRecord::Gone { from, through, why },
        LetterRecord::Stream { through: foreign, above },
        LetterRecord::PassedOn { from: theirs, to: id },
    ];
    let before = compact(LAPTOP, &mesh.nodes[&LAPTOP].disk);
    let mut disk = mesh.nodes[&LAPTOP].disk.clone();
    disk.extend(records.into_iter().map(|record| Record::Letter(Box::new(record))));
    assert_eq!(compact(LAPTOP, &disk), before);
    let held = cede_wire::letter::ReceiptsHeld { incarnation: strange.incarnation, seqs: vec![1] };
    mesh.at(LAPTOP).ledger.handle_held(SERVER, &held, now);
    mesh.cut(LAPTOP, SERVER);
    mesh.at(LAPTOP).ledger.retry((SERVER, id.incarnation), now);
    assert!(mesh.at(LAPTOP).ledger.poll().is_none(), "and without a line nobody is asked");
}

/// Shows: M-1, M-5
#[test]
fn words_that_are_found_lost_end_no_letter_of_a_frame_that_is_not_waited_for() {
    let mut mesh = Mesh::pair();
    let slow = |mesh: &mut Mesh| {
        let (facts, now) = (mesh.facts("words"), mesh.now);
        mesh.letters.insert(facts.digest, facts);
        let id = mesh.at(LAPTOP).ledger.tell(Told { to: SERVER, facts, expires: limits::LETTER_TTL }, now).unwrap();
        mesh.drain(LAPTOP);
        match mesh.at(LAPTOP).said.pop() {
            Some((SERVER, Said::Letters(post))) => (id, post),
            other => panic!("no letters: {other:?}"),
        }
    };
    let before = mesh.tell(LAPTOP, SERVER);
    // Its words are read for so long that the receiver is asked again, and gets it by another frame.
    let (late, frame) = slow(&mut mesh);
    mesh.wait(limits::LETTER_ANSWER);
    let (lost, next) = slow(&mut mesh);
    let now = mesh.now;
    let ledger = &mut mesh.at(LAPTOP).ledger;
    assert!(!ledger.awaits(SERVER, frame.incarnation, frame.number));
    ledger.words_lost(late, frame.number, now);
    assert!(ledger.awaits(SERVER, next.incarnation, next.number));
    ledger.words_lost(lost, next.number, now);
    mesh.settle();
    assert_eq!(mesh.state(LAPTOP, late), Some(LetterState::Received), "it is there");
    assert_eq!(mesh.state(LAPTOP, lost), Some(LetterState::Refused(Refusal::IntegrityFailed)));
    assert!(mesh.nodes[&SERVER].ledger.knows(LAPTOP, lost.incarnation, lost.seq), "its place is filled");
    assert_eq!(mesh.inbox(SERVER), [before, late]);
}
