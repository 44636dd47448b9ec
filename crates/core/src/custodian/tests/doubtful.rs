//! What a device does whose records are in doubt, and one that belongs to no mesh yet; moments told from another zero.

use cede_wire::message::KnownCustody;

use super::*;
use crate::custodian::OfferError;

/// Shows: H-22
#[test]
fn agents_of_a_doubted_owner_are_held_still() {
    let mut net = Net::pair();
    net.give(A, B);
    assert_eq!(net.nodes[B].custodian.to_hold_still(), [], "nothing is in doubt");
    net.nodes[B].custodian.hold_still(session());
    net.drain(B);
    assert!(!net.nodes[B].journal.iter().any(|record| matches!(record, Record::FenceRaised { .. })));
    for node in [A, B] {
        net.nodes[node].trust = Trust::Unconfirmed;
        net.crash(node);
    }
    assert_eq!(net.nodes[A].custodian.to_hold_still(), [], "it gave the session away");
    assert_eq!(net.nodes[B].custodian.to_hold_still(), [session()]);
    net.nodes[B].custodian.hold_still(session());
    net.drain(B);
    assert!(matches!(net.nodes[B].journal.last(), Some(Record::FenceRaised { .. })));
    net.crash(B);
    assert_eq!(net.nodes[B].custodian.to_hold_still(), [session()], "the record comes before the fence");
    let records = net.nodes[B].journal.len();
    net.nodes[B].custodian.hold_still(session());
    net.drain(B);
    assert_eq!(net.nodes[B].journal.len(), records, "it is recorded once");
    assert_eq!(net.nodes[B].custodian.contested(session()), None);
}

/// Shows: H-22
#[test]
fn device_in_doubt_begins_no_session() {
    let mut net = Net::pair();
    net.nodes[A].trust = Trust::Unconfirmed;
    net.crash(A);
    let (to, now) = (net.id(B), net.now);
    let offered = net.nodes[A].custodian.offer(&key(), to, HandoffId::new([7; 16]), terms(head(&[1, 2])), now);
    assert_eq!(offered, Err(OfferError::NotOwner(Standing::Unconfirmed)));
    assert_eq!(net.nodes[A].journal, []);
}

/// Shows: H-4
#[test]
fn device_offers_once_it_belongs_to_a_mesh() {
    let mut net = Net::pair();
    let (local, to, now) = (net.nodes[A].local.clone(), net.id(B), net.now);
    let nothing: [Record; 0] = [];
    net.nodes[A].custodian =
        Custodian::restore(local, Incarnation::new([9; 16]), None, nothing.iter(), Trust::Whole, now).unwrap();
    let offered = net.nodes[A].custodian.offer(&key(), to, HandoffId::new([7; 16]), terms(head(&[1, 2])), now);
    assert_eq!(offered, Err(OfferError::NoMesh));
    net.nodes[A].custodian.join_mesh(mesh());
    let electorate = net.electorate();
    net.nodes[A].custodian.set_electorate(electorate);
    net.link(A, B);
    net.give(A, B);
    net.only_owner(B, &[1, 2]);
}

/// The same moments, an hour and a different zero later.
fn alike(custodian: &Custodian) {
    let mut moved = custodian.clone();
    moved.rebase(HOUR);
    let mut again = moved.clone();
    again.rebase(Duration::from_secs(5));
    again.rebase(HOUR);
    assert_eq!(format!("{again:?}"), format!("{moved:?}"));
    let far = |custodian: &Custodian| custodian.poll_timeout().map(|(at, why)| (at - custodian.clock, why));
    assert_eq!(far(&moved), far(custodian));
}

#[test]
fn waiting_for_an_answer_takes_as_long_under_any_zero() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    alike(&net.nodes[B].custodian);
    net.nodes[B].custodian.decline(session(), handoff, Refusal::Declined, "no");
    net.drain(B);
    net.run();
    net.heal();
    net.give(A, B);
    net.give(B, A);
    let (gone, now) = (net.id(A), net.now);
    net.nodes[B].custodian.link_down(gone);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.nodes[B].custodian.seize(session(), Some(head(&[1, 2])), now).unwrap();
    net.drain(B);
    assert!(net.nodes[B].custodian.poll_timeout().is_some());
    alike(&net.nodes[B].custodian);
}

#[test]
fn frozen_session_and_one_that_was_released_wait_as_long_under_any_zero() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    let handoff = net.give(A, B);
    alike(&net.nodes[A].custodian);
    alike(&net.nodes[B].custodian);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    let (quiet, now) = (net.nodes[A].quiet(session()), net.now);
    net.nodes[A].custodian.decide(session(), handoff, quiet, now);
    net.drain(A);
    alike(&net.nodes[A].custodian);
}

#[test]
fn designate_and_device_in_doubt_wait_as_long_under_any_zero() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    let b = net.nodes[B].local.clone();
    let ack = b.sign(&ack(&b, handoff, net.id(A), &[1, 2])).unwrap();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Refetch(_)));
    net.deliver(B, A, &PeerMessage::CommitAck(ack));
    net.run();
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    alike(&net.nodes[B].custodian);
    net.nodes[B].trust = Trust::Unconfirmed;
    net.crash(B);
    alike(&net.nodes[B].custodian);
}

/// B as it was once, from a backup that nobody noticed: its line to A shows it what it forgot.
fn rolled_back(turns: &[usize], back_to: usize) -> Net {
    let mut net = Net::pair();
    let mut journals = Vec::new();
    for pair in turns.windows(2) {
        journals.push(net.nodes[B].journal.clone());
        net.give(pair[0], pair[1]);
    }
    net.apart = true;
    net.nodes[B].journal = journals[back_to].clone();
    net.crash(B);
    net.link(A, B);
    net
}

/// Shows: H-22, H-32
#[test]
fn device_that_forgot_what_it_signed_doubts_itself() {
    for (turns, back_to) in [(&[A, B, A][..], 1), (&[A, B, A, B], 1), (&[A, B, A, B, A], 1)] {
        let net = rolled_back(turns, back_to);
        let doubted = Record::Doubted { why: cede_wire::record::Doubt::Forgotten };
        assert!(net.nodes[B].journal.contains(&doubted), "{turns:?}");
        assert!(!net.acts(B), "{turns:?}");
        assert_eq!(net.nodes[B].custodian.doubt(), Some(cede_wire::record::Doubt::Forgotten));
        let again = restore(&net.nodes[B].local, &net.nodes[B].journal, Trust::Whole, net.now);
        assert!(!again.may_act(session()), "{turns:?}: a restart is no confirmation");
    }
}

/// Shows: H-22, H-26
#[test]
fn device_that_begins_to_doubt_ends_its_offers_and_its_questions() {
    let mut net = Net::three();
    net.give(A, B);
    let old = net.nodes[B].journal.clone();
    net.give(B, A);
    net.apart = true;
    net.nodes[B].journal = old;
    net.crash(B);
    net.link(B, C);
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let (b, c, now) = (net.id(B), net.id(C), net.now);
    for (from, to, native, id) in [(B, c, "own", 70), (C, b, "theirs", 71)] {
        let terms = terms(head(&[]));
        net.nodes[from].custodian.offer(&named(native), to, HandoffId::new([id; 16]), terms, now).unwrap();
        net.drain(from);
        net.run();
    }
    net.link(A, B);
    let stale = |event: &Event| {
        matches!(event, Event::StillOwner { refusal: Refusal::StaleToken, .. })
            || matches!(event, Event::Withdrawn { refusal: Refusal::StaleToken, .. })
    };
    assert_eq!(net.told(B, stale), 2);
    assert_eq!(net.nodes[B].custodian.standing(named("own").id()), Some(Standing::Unconfirmed));
    assert!(net.nodes[B].custodian.asked(named("theirs").id()).is_none());
}

/// Shows: H-26
#[test]
fn device_that_forgot_a_session_altogether_doubts_itself_once_it_is_shown_its_own_release() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    net.nodes[B].journal.clear();
    net.crash(B);
    assert_eq!(net.nodes[B].custodian.doubt(), None);
    net.link(A, B);
    assert_eq!(net.nodes[B].custodian.doubt(), Some(cede_wire::record::Doubt::Forgotten));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-8, H-22
#[test]
fn release_to_a_device_in_doubt_waits_for_its_confirmation_though_the_yes_is_forgotten() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    let mut old = net.nodes[B].journal.clone();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    let release = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    old.push(Record::Doubted { why: cede_wire::record::Doubt::RolledBack });
    net.nodes[B].journal = old;
    net.crash(B);
    net.deliver(A, B, &release);
    assert_eq!((net.standing(B), net.nodes[B].custodian.unclaimed().count()), (Some(Standing::Unconfirmed), 0));
    net.nodes[B].custodian.confirm(session());
    net.drain(B);
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    net.heal();
    net.pass(HOUR);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-26
#[test]
fn doubt_ends_by_the_word_of_enrolled_devices_that_know_the_same() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    net.nodes[A].journal.push(Record::Doubted { why: cede_wire::record::Doubt::RolledBack });
    net.crash(A);
    net.nodes[A].custodian.set_peers_suffice(true);
    let chain = net.nodes[A].custodian.chain(session()).unwrap();
    let same = KnownCustody { session: session(), token: chain.token(), record: chain.head() };
    let older = FencingToken { epoch: 1, ..same.token };
    let others = [
        KnownCustody { session: named("other").id(), ..same },
        KnownCustody { token: older, ..same },
        KnownCustody { record: Hash::of(b"another"), ..same },
    ];
    for other in others {
        for from in [B, C] {
            net.deliver(from, A, &PeerMessage::CustodyAnswer(vec![other]));
        }
        assert_eq!(net.standing(A), Some(Standing::Unconfirmed), "{other:?}");
    }
    let two = |net: &Net, last: usize| {
        let mut two = Electorate::default();
        two.note(4, [net.id(A), net.id(last)].into());
        two
    };
    let electorate = two(&net, C);
    net.nodes[A].custodian.set_electorate(electorate);
    net.deliver(B, A, &PeerMessage::CustodyAnswer(vec![same]));
    net.deliver(A, A, &PeerMessage::CustodyAnswer(vec![same]));
    assert_eq!(net.standing(A), Some(Standing::Unconfirmed), "of one that was removed, and its own");
    net.deliver(C, A, &PeerMessage::CustodyAnswer(vec![same]));
    net.only_owner(A, &[1, 2]);
}

/// It was put back to before the session first moved: what it knows is not the newest, whatever its peers say of the rest.
///
/// Shows: H-15, H-26
#[test]
fn doubt_ends_by_no_peers_word_while_a_release_of_this_device_is_known_that_it_forgot() {
    for moved in [false, true] {
        let mut net = Net::pair();
        if moved {
            net.give(A, B);
            net.give(B, A);
        }
        net.nodes[A].journal = vec![Record::Doubted { why: cede_wire::record::Doubt::RolledBack }];
        net.crash(A);
        net.nodes[A].custodian.set_peers_suffice(true);
        net.link(A, B);
        let custodian = &net.nodes[A].custodian;
        assert_eq!((custodian.doubt().is_some(), custodian.unclaimed().count()), (moved, usize::from(moved)));
        assert_eq!(custodian.may_act(session()), !moved);
    }
}

/// It was put back to before it ever heard of the session that it owns.
///
/// Shows: H-15, H-26
#[test]
fn doubt_ends_by_no_peers_word_while_a_release_to_this_device_is_known_that_it_forgot() {
    for trip in [false, true] {
        let mut net = Net::pair();
        net.give(A, B);
        if trip {
            net.give(B, A);
            net.give(A, B);
        }
        net.nodes[B].journal = vec![Record::Doubted { why: cede_wire::record::Doubt::RolledBack }];
        net.crash(B);
        net.nodes[B].custodian.set_peers_suffice(true);
        net.link(A, B);
        let custodian = &net.nodes[B].custodian;
        assert_eq!((custodian.doubt().is_some(), custodian.unclaimed().count()), (true, 1));
        assert!(!custodian.may_act(session()) && net.standing(A) == Some(Standing::Elsewhere(net.id(B))));
    }
}

/// Shows: H-26, H-28
#[test]
fn device_in_doubt_asks_each_of_the_others_once_at_a_time() {
    const SESSIONS: usize = 100;
    let mut net = Net::three();
    for n in 1..=u8::try_from(SESSIONS).unwrap() {
        let (to, now, terms) = (net.id(B), net.now, terms(head(&[])));
        net.nodes[A].custodian.offer(&named(&format!("s{n}")), to, HandoffId::new([n; 16]), terms, now).unwrap();
        net.drain(A);
        net.run();
    }
    net.nodes[A].journal = vec![Record::Doubted { why: cede_wire::record::Doubt::RolledBack }];
    net.crash(A);
    net.sent.clear();
    for peer in [B, C] {
        for (node, peer) in [(A, peer), (peer, A)] {
            let (peer, now) = (net.id(peer), net.now);
            net.nodes[node].custodian.link_up(peer, now);
            net.drain(node);
        }
    }
    let (mut questions, mut known) = (0, BTreeMap::new());
    while let Some(Mail { from, to, message }) = net.mail.front() {
        if let (&A, PeerMessage::CustodyQuery(asked)) = (from, message) {
            questions += 1;
            known.insert(*to, asked.len());
        }
        net.step();
    }
    assert_eq!(net.nodes[A].custodian.sessions.len(), SESSIONS);
    assert_eq!(known, BTreeMap::from([(B, SESSIONS), (C, SESSIONS)]), "each is asked again once more is known");
    let chains = net.sent.iter().filter(|(from, message)| *from == B && matches!(message, PeerMessage::Custody(_)));
    assert_eq!(chains.count(), SESSIONS);
    assert!(questions < 20 + SESSIONS, "{questions}");
}
