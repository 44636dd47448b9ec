//! The fault table of the specification, row by row.

use super::crashes::lose_stage_before_release;
use super::*;
use crate::limits;

/// Shows: H-10, H-21, H-24
#[test]
fn source_that_dies_before_its_decision_restarts_as_owner() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    let handoff = net.give(A, B);
    net.crash(A);
    assert_eq!(net.standing(A), Some(Standing::InCharge));
    net.heal();
    net.only_owner(A, &[1, 2]);
    let discarded = |event: &Event| matches!(event, Event::Discard { handoff: h, .. } if *h == handoff);
    assert_eq!(net.told(B, discarded), 1, "the stage of a dead attempt stays");
}

/// Shows: H-6, H-16, H-24
#[test]
fn source_that_dies_after_its_decision_sends_until_it_is_heard() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.crash(A);
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))));
    net.lose = Box::new(|_| false);
    net.pass(limits::RELEASE_LONGEST);
    net.only_owner(B, &[1, 2]);
    assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(B))));
}

/// Shows: A-3, H-24
#[test]
fn release_is_told_to_the_hands_again_after_a_restart() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.nodes[A].told.clear();
    net.crash(A);
    assert_eq!(net.told(A, |event| matches!(event, Event::Released { .. })), 1);
}

/// Shows: H-10, H-24
#[test]
fn destination_that_dies_before_staged_goes_on_receiving() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    net.give(A, B);
    net.crash(B);
    assert!(net.nodes[B].custodian.arriving(session()).is_some());
    assert!(net.acts(A));
    net.heal();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-16
#[test]
fn lost_ack_is_repeated_and_completes() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    net.pass(limits::ACK_REPEAT);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-16
#[test]
fn lost_ack_is_asked_for_when_the_line_comes_back() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.give(A, B);
    // Only the answer to the question carries it.
    net.link(A, B);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-11, H-16
#[test]
fn late_ack_finds_the_attempt_dead() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_) | PeerMessage::Abort { .. }));
    net.give(A, B);
    let late = net.find_sent(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.pass(limits::FREEZE);
    assert_eq!(net.refusal(A), Some(Refusal::TimedOut));
    net.lose = Box::new(|_| false);
    net.deliver(B, A, &late);
    net.run();
    net.only_owner(A, &[1, 2]);
    assert!(net.nodes[B].custodian.arriving(session()).is_none(), "B still waits for a dead attempt");
}

/// Shows: H-16
#[test]
fn doubled_ack_has_the_effect_of_one() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    let ack = net.find_sent(|message| matches!(message, PeerMessage::CommitAck(_)));
    let records = net.nodes[A].journal.len();
    net.lose = Box::new(|_| false);
    net.deliver(B, A, &ack);
    assert!(matches!(net.last_sent(A), PeerMessage::Release { .. }), "a doubled ack is answered with the certificate");
    assert_eq!(net.nodes[A].journal.len(), records);
    net.run();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-11
#[test]
fn ack_of_a_cancelled_attempt_does_not_commit_the_next_one() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    let first = net.give(A, B);
    let stale = net.find_sent(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    net.run();
    net.ignore = Box::new(|_| false);
    net.give(A, B);
    net.deliver(B, A, &stale);
    let quiet = net.nodes[A].quiet(session());
    let now = net.now;
    net.nodes[A].custodian.decide(session(), first, quiet, now);
    net.drain(A);
    assert!(net.acts(A), "an acknowledgement of the first attempt committed the second");
}

/// Shows: H-16
#[test]
fn lost_release_is_repeated_and_completes() {
    let mut net = Net::pair();
    let mut losses = 5;
    net.lose = Box::new(move |message| {
        let lost = matches!(message, PeerMessage::Release { .. }) && losses > 0;
        losses -= i32::from(lost);
        lost
    });
    net.give(A, B);
    assert!(!net.acts(A) && !net.acts(B));
    net.pass(Duration::from_secs(30));
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-16
#[test]
fn release_is_repeated_with_pauses_of_at_most_five_seconds() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.sent.clear();
    net.pass(Duration::from_secs(100));
    let sent = net.sent.iter().filter(|(from, m)| *from == A && matches!(m, PeerMessage::Release { .. })).count();
    // Also one per repeated acknowledgement.
    assert!((20..=48).contains(&sent), "{sent} releases in 100 s");
}

/// Shows: H-16
#[test]
fn destination_asks_for_a_lost_release() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    let (query, now) = (net.id(A), net.now);
    net.nodes[B].custodian.link_up(query, now);
    net.drain(B);
    assert!(matches!(net.last_sent(B), PeerMessage::ReleaseQuery { .. }));
    net.run();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-7
#[test]
fn release_carried_by_a_third_device_activates() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    let release = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    net.lose = Box::new(|_| false);
    net.deliver(A, C, &release);
    assert_eq!(net.standing(C), None, "the carrier keeps custody of others");
    net.deliver(C, B, &release);
    net.run();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-17
#[test]
fn release_replayed_after_a_hand_back_changes_nothing() {
    let mut net = Net::pair();
    net.give(A, B);
    let replay = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    net.turn(B, 3);
    net.give(B, A);
    let records = net.nodes[B].journal.len();
    net.deliver(A, B, &replay);
    assert!(matches!(net.last_sent(B), PeerMessage::Activated(_)), "B was the owner under it and says so");
    net.run();
    assert_eq!(net.nodes[B].journal.len(), records);
    net.only_owner(A, &[1, 2, 3]);
}

/// Shows: H-16, H-17
#[test]
fn doubled_release_has_the_effect_of_one() {
    let mut net = Net::pair();
    net.give(A, B);
    let release = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    net.turn(B, 3);
    let records = net.nodes[B].journal.len();
    net.deliver(A, B, &release);
    assert!(matches!(net.last_sent(B), PeerMessage::Activated(_)));
    assert_eq!(net.nodes[B].journal.len(), records);
    net.run();
    net.only_owner(B, &[1, 2, 3]);
}

/// Shows: H-16, H-18
#[test]
fn lost_activated_is_answered_again() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_)));
    net.give(A, B);
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))));
    assert_eq!(net.told(A, |event| matches!(event, Event::Retired { .. })), 0, "the copy is free too early");
    net.lose = Box::new(|_| false);
    net.pass(limits::RELEASE_LONGEST);
    assert_eq!(net.told(A, |event| matches!(event, Event::Retired { .. })), 1);
    assert_eq!(net.after_crash(A), Some(Standing::Elsewhere(net.id(B))));
}

/// Shows: H-17, H-18
#[test]
fn lost_activated_is_answered_after_the_session_went_on() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_)));
    net.give(A, B);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Custody(_)));
    net.give(B, C);
    net.lose = Box::new(|_| false);
    net.pass(limits::RELEASE_LONGEST);
    assert_eq!(net.told(A, |event| matches!(event, Event::Retired { .. })), 1, "A repeats its release for ever");
    net.crash(A);
    assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(B))), "A forgot that it is retired");
    net.only_owner(C, &[1, 2]);
}

/// Shows: H-32
#[test]
fn earlier_owner_hears_where_the_session_went_without_a_new_link() {
    for unlinked in [None, Some(B), Some(C)] {
        let mut net = Net::three();
        net.give(A, B);
        if let Some(other) = unlinked {
            let (a, other_id) = (net.id(A), net.id(other));
            net.nodes[A].custodian.link_down(other_id);
            net.nodes[other].custodian.link_down(a);
        }
        net.give(B, C);
        net.only_owner(C, &[1, 2]);
        assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(C))), "without a link to {unlinked:?}");
    }
}

/// Shows: H-18
#[test]
fn source_that_never_heard_activated_retires_when_the_chain_says_so() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_)));
    net.give(A, B);
    net.give(B, C);
    net.give(C, A);
    net.only_owner(A, &[1, 2]);
    let first = |event: &Event| matches!(event, Event::Retired { handoff, .. } if *handoff == HandoffId::new([1; 16]));
    assert_eq!(net.told(A, first), 1, "the copy of the first release stays pinned for ever");
}

/// Shows: H-18
#[test]
fn activated_of_a_later_visit_retires_for_good() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_)));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    net.give(B, C);
    net.give(C, B);
    net.pass(limits::RELEASE_LONGEST);
    net.crash(A);
    assert!(matches!(net.standing(A), Some(Standing::Elsewhere(_))), "A forgot that it is retired");
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-8, H-20
#[test]
fn lost_stage_makes_a_designate_that_fetches_again() {
    let mut net = Net::pair();
    lose_stage_before_release(&mut net);
    let release = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    net.ignore = Box::new(|event| matches!(event, Event::Refetch { .. }));
    net.deliver(A, B, &release);
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    assert!(!net.acts(A) && !net.acts(B));
    assert_eq!(net.after_crash(B), Some(Standing::PayloadMissing));
    net.heal();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-8, H-16
#[test]
fn designate_asks_until_it_is_served() {
    let mut net = Net::pair();
    lose_stage_before_release(&mut net);
    let mut losses = 7;
    net.lose = Box::new(move |message| {
        let lost = matches!(message, PeerMessage::Refetch(_) | PeerMessage::Manifest(_)) && losses > 0;
        losses -= i32::from(lost);
        lost
    });
    net.pass(limits::REFETCH * 10);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-8, H-28
#[test]
fn designate_does_not_ask_again_while_its_payload_comes() {
    let mut net = Net::pair();
    lose_stage_before_release(&mut net);
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    net.pass(limits::RELEASE_LONGEST);
    let asked = |net: &Net| net.told(B, |event| matches!(event, Event::Refetch { .. }));
    let before = asked(&net);
    net.pass(limits::REFETCH * 4);
    assert_eq!((net.standing(B), asked(&net)), (Some(Standing::PayloadMissing), before));
    net.ignore = Box::new(|_| false);
    net.pass(limits::RECEIVING_TTL);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-8, H-24
#[test]
fn designate_that_restarts_while_it_receives_asks_again() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    net.give(A, B);
    // B never got beyond D2 as far as its journal says; its acknowledgement left before its disk lost the record.
    let (b, handoff) = (net.nodes[B].local.clone(), HandoffId::new([1; 16]));
    let ack = b.sign(&ack(&b, handoff, net.id(A), &[1, 2])).unwrap();
    net.deliver(B, A, &PeerMessage::CommitAck(ack));
    net.run();
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    net.crash(B);
    net.heal();
    net.pass(limits::REFETCH);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-8
#[test]
fn designate_whose_fetch_fails_stays_and_asks_again() {
    let mut net = Net::pair();
    lose_stage_before_release(&mut net);
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    net.pass(limits::RELEASE_LONGEST);
    let handoff = net.nodes[B].custodian.arriving(session()).unwrap().attempt().handoff;
    net.nodes[B].custodian.receive_failed(session(), handoff, Refusal::TooLarge, "no space");
    net.drain(B);
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    net.ignore = Box::new(|_| false);
    net.pass(limits::REFETCH);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-8
#[test]
fn stage_that_is_lost_after_the_activation_is_fetched_again_before_anything_is_done() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Activate { .. }));
    let handoff = net.give(A, B);
    net.nodes[B].copies.clear();
    net.nodes[B].custodian.receive_failed(session(), handoff, Refusal::IntegrityFailed, "the stage is lost");
    net.ignore = Box::new(|_| false);
    net.drain(B);
    net.run();
    net.only_owner(B, &[1, 2]);
    net.nodes[B].custodian.receive_failed(session(), handoff, Refusal::IntegrityFailed, "too late");
    net.drain(B);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-20
#[test]
fn lost_abort_leaves_a_passive_stage_until_its_time_is_over() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Abort { .. } | PeerMessage::CommitAck(_)));
    net.give(A, B);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    assert!(net.acts(A) && !net.acts(B));
    net.pass(limits::STAGED_TTL);
    assert!(net.nodes[B].custodian.arriving(session()).is_none());
    assert_eq!(net.told(B, |event| matches!(event, Event::Discard { .. })), 1);
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-8, H-20
#[test]
fn discard_is_sticky_and_a_release_still_leads_to_the_designate() {
    let mut net = Net::pair();
    lose_stage_before_release(&mut net);
    let manifest = net.find_sent(|message| matches!(message, PeerMessage::Manifest(_)));
    let offer = net.find_sent(|message| matches!(message, PeerMessage::Offer { .. }));
    net.deliver(A, B, &manifest);
    net.deliver(A, B, &offer);
    net.crash(B);
    net.deliver(A, B, &manifest);
    net.deliver(A, B, &offer);
    assert!(net.nodes[B].custodian.arriving(session()).is_none(), "a discarded attempt receives again");
    net.pass(limits::RELEASE_LONGEST);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-16, H-25
#[test]
fn dead_way_home_is_over_after_a_reconnect_though_the_first_release_was_never_answered() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_)));
    net.give(A, B);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_) | PeerMessage::Accept(_)));
    net.give(B, A);
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))));
    net.crash(B);
    net.heal();
    net.only_owner(B, &[1, 2]);
    assert!(net.nodes[A].custodian.arriving(session()).is_none(), "A waits for an attempt that B forgot");
}

/// Shows: H-1, H-25
#[test]
fn session_goes_to_and_fro_ten_times_with_rising_tokens() {
    let mut net = Net::pair();
    let mut turns = vec![1, 2];
    let mut tokens = vec![FencingToken::FIRST];
    for trip in 0..10 {
        let (from, to) = if trip % 2 == 0 { (A, B) } else { (B, A) };
        net.give(from, to);
        net.only_owner(to, &turns);
        tokens.push(net.nodes[to].custodian.token(session()));
        turns.push(trip);
        net.turn(to, trip);
    }
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    net.crash(A);
    net.crash(B);
    net.only_owner(A, &turns);
}

/// Shows: H-16, H-19
#[test]
fn silence_of_years_moves_no_owner() {
    let mut net = Net::pair();
    net.lose = Box::new(|_| true);
    net.offer(A, B);
    net.pass(HOUR * 24 * 1_000);
    net.only_owner(A, &[1, 2]);
    assert_eq!(net.refusal(A), Some(Refusal::TimedOut));
}

/// Shows: H-16
#[test]
fn destination_that_lost_its_journal_gets_the_whole_chain_and_claims() {
    let mut net = Net::pair();
    for _ in 0..40 {
        net.give(A, B);
        net.give(B, A);
    }
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    let handoff = net.give(A, B);
    assert!(net.nodes[A].custodian.chain(session()).unwrap().links().len() > limits::WHOLE_CHAIN);
    net.nodes[B].journal.clear();
    net.crash(B);
    net.heal();
    net.pass(HOUR);
    assert_eq!(net.standing(B), None, "what nobody approved is believed");
    let unclaimed: Vec<_> = net.nodes[B].custodian.unclaimed().map(|(id, release)| (id, release.handoff)).collect();
    assert_eq!(unclaimed, [(session(), handoff)]);
    assert_eq!(net.nodes[B].custodian.claim(session(), HandoffId::new([77; 16])), Err(Refusal::Expired));
    assert_eq!(net.nodes[B].custodian.claim(session(), handoff), Ok(()));
    net.drain(B);
    net.run();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-3, R-2
#[test]
fn offer_that_a_forgetful_destination_cannot_follow_is_whole_the_next_time() {
    let mut net = Net::pair();
    for _ in 0..40 {
        net.give(A, B);
        net.give(B, A);
    }
    net.nodes[B].journal.clear();
    net.crash(B);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Custody(_)));
    net.link(A, B);
    net.give(A, B);
    assert_eq!(net.refusal(A), Some(Refusal::Unauthorized));
    net.give(A, B);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-18
#[test]
fn word_of_an_earlier_visit_does_not_let_the_copy_go() {
    let mut net = Net::pair();
    net.give(A, B);
    let old = net.sent.iter().find(|(from, message)| *from == B && matches!(message, PeerMessage::Activated(_)));
    let old = old.map(|(_, message)| message.clone()).unwrap();
    net.give(B, A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    let (from, now) = (net.id(B), net.now);
    net.nodes[A].custodian.handle_message(from, &old, now);
    net.drain(A);
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))));
    assert_eq!(net.after_crash(A), Some(Standing::ReleasedTo(net.id(B))));
}

/// Shows: H-4, H-7
#[test]
fn session_that_is_not_in_its_place_yet_is_not_offered() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Activate { .. }));
    net.give(A, B);
    let (to, now, terms) = (net.id(A), net.now, terms(head(net.log(A))));
    let offered = net.nodes[B].custodian.offer(&key(), to, HandoffId::new([9; 16]), terms, now);
    assert_eq!(offered, Err(super::super::OfferError::NotOwner(Standing::Arriving)));
    assert_eq!(net.standing(B), Some(Standing::Arriving));
}
