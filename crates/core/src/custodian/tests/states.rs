//! The state table: who may act, what a crash leaves.

use super::crashes::lose_stage_before_release;
use super::*;
use crate::destination::DestinationPhase;
use crate::limits;
use crate::source::SourcePhase;

/// Shows: H-10
#[test]
fn s0_owner_acts_and_stays_owner_after_a_crash() {
    let mut net = Net::pair();
    assert!(net.nodes[A].custodian.may_act(session()), "a session that never moved is its agent's own");
    net.lose = Box::new(|_| true);
    net.offer(A, B);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    assert_eq!(net.standing(A), Some(Standing::InCharge));
    assert_eq!(net.after_crash(A), Some(Standing::InCharge));
}

/// Shows: H-4, H-10
#[test]
fn s1_offering_acts_and_is_the_owner_after_a_crash() {
    let mut net = Net::pair();
    net.lose = Box::new(|_| true);
    let handoff = net.offer(A, B);
    assert_eq!(net.standing(A), Some(Standing::Leaving(handoff)));
    assert!(net.acts(A));
    assert_eq!(net.after_crash(A), Some(Standing::InCharge));
}

/// Shows: H-10, H-21
#[test]
fn s2_frozen_is_the_owner_and_thaws_when_its_time_is_over() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.give(A, B);
    assert_eq!(*net.nodes[A].custodian.leaving(session()).unwrap().phase(), SourcePhase::Frozen);
    assert!(net.acts(A));
    assert_eq!(net.after_crash(A), Some(Standing::InCharge));
    net.pass(limits::FREEZE);
    net.only_owner(A, &[1, 2]);
    assert_eq!(net.nodes[A].custodian.fences_to_lift(), []);
    assert!(net.nodes[A].journal.iter().any(|record| matches!(record, Record::FenceLifted { .. })));
}

/// Shows: H-10, H-21
#[test]
fn s2_fence_is_lifted_after_a_crash() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    let handoff = net.give(A, B);
    let (local, journal) = (net.nodes[A].local.clone(), net.nodes[A].journal.clone());
    let restored = restore(&local, &journal, Trust::Whole, net.now);
    assert_eq!(restored.fences_to_lift(), [(session(), handoff)]);
}

/// Shows: H-10, H-21
#[test]
fn s2_no_peer_holds_a_freeze_for_ever() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    let handoff = net.give(A, B);
    for _ in 0..20 {
        net.pass(limits::FREEZE / 2);
        net.deliver(B, A, &PeerMessage::RoundComplete { handoff, round: 0 });
    }
    assert_eq!(net.refusal(A), Some(Refusal::TimedOut));
}

/// Shows: H-6, H-10
#[test]
fn s3_acknowledged_is_the_owner_until_it_decides() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    net.give(A, B);
    assert_eq!(net.told(A, |event| matches!(event, Event::AckHeld { .. })), 1);
    assert!(net.acts(A) && !net.acts(B));
    assert_eq!(net.after_crash(A), Some(Standing::InCharge));
}

/// Shows: H-6, J-1
#[test]
fn s3_decision_is_in_the_journal_before_it_leaves() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    let handoff = net.give(A, B);
    let (quiet, now) = (net.nodes[A].quiet(session()), net.now);
    net.nodes[A].custodian.decide(session(), handoff, quiet, now);
    assert!(!net.acts(A), "the source acts while its decision is being written");
    let order: Vec<_> = core::iter::from_fn(|| net.nodes[A].custodian.poll()).collect();
    let kinds: Vec<_> = order
        .iter()
        .map(|output| match output {
            Output::Persist(batch) => matches!(batch.as_slice(), [Record::Custody(_)]).then_some("certificate"),
            Output::Send(_, message) => matches!(**message, PeerMessage::Release { .. }).then_some("release"),
            Output::Tell(event) => matches!(event, Event::Released { .. }).then_some("told"),
            Output::Wake(..) => None,
        })
        .collect();
    assert_eq!(kinds, [Some("certificate"), Some("release"), Some("told")]);
}

/// Shows: H-6
#[test]
fn s3_does_not_decide_on_a_cold_line() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    let handoff = net.give(A, B);
    let (b, quiet, now) = (net.id(B), net.nodes[A].quiet(session()), net.now);
    net.nodes[A].custodian.link_down(b);
    net.nodes[A].custodian.decide(session(), handoff, quiet, now);
    net.drain(A);
    assert!(net.acts(A));
    net.heal();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-6, H-10, H-18
#[test]
fn s4_released_does_not_act_offer_or_freeze_whatever_happens() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))));
    assert_eq!(net.after_crash(A), Some(Standing::ReleasedTo(net.id(B))));
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    let (b, now) = (net.id(B), net.now);
    let refused = net.nodes[A].custodian.offer(&key(), b, HandoffId::new([99; 16]), terms(head(&[1, 2])), now);
    assert_eq!(refused, Err(super::super::OfferError::NotOwner(Standing::ReleasedTo(b))));
    assert!(net.nodes[A].custodian.freeze(session(), now).is_err());
    net.pass(HOUR);
    assert!(!net.acts(A));
}

/// Shows: H-10
#[test]
fn s5_retired_does_not_act_and_answers_a_late_question_with_the_certificate() {
    let mut net = Net::pair();
    let handoff = net.give(A, B);
    assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(B))));
    assert_eq!(net.after_crash(A), Some(Standing::Elsewhere(net.id(B))));
    net.deliver(B, A, &PeerMessage::ReleaseQuery { handoff, session: session() });
    assert!(matches!(net.last_sent(A), PeerMessage::Release { .. }));
}

/// Shows: H-22
#[test]
fn s7_unconfirmed_does_not_act_until_it_is_confirmed() {
    let mut net = Net::pair();
    net.give(A, B);
    net.nodes[B].trust = Trust::Unconfirmed;
    net.crash(B);
    net.heal();
    assert_eq!(net.standing(B), Some(Standing::Unconfirmed));
    assert!(!net.acts(B));
    let other = named("forgotten").id();
    assert!(!net.nodes[B].custodian.may_act(other), "a session whose record may be lost is acted for");
    net.nodes[B].custodian.confirm(session());
    net.nodes[B].custodian.confirm(other);
    net.drain(B);
    net.only_owner(B, &[1, 2]);
    assert!(net.nodes[B].custodian.may_act(other));
}

/// Shows: H-8, H-22
#[test]
fn s7_confirms_to_what_the_records_say_and_no_further() {
    let mut net = Net::pair();
    lose_stage_before_release(&mut net);
    net.ignore = Box::new(|event| matches!(event, Event::Refetch { .. }));
    net.pass(limits::RELEASE_LONGEST);
    for node in [A, B] {
        net.nodes[node].trust = Trust::Unconfirmed;
        net.crash(node);
        net.nodes[node].custodian.confirm(session());
        net.drain(node);
    }
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))), "the release is never sent again");
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing), "B acts without the payload");
    net.heal();
    net.pass(HOUR);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-17, H-22
#[test]
fn s7_old_release_does_not_activate_a_device_that_was_rolled_back() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    let (release, old) = (net.find_sent(|m| matches!(m, PeerMessage::Release { .. })), net.nodes[B].journal.clone());
    net.lose = Box::new(|_| false);
    net.pass(HOUR);
    net.give(B, A);
    net.nodes[B].journal = old;
    net.nodes[B].trust = Trust::Unconfirmed;
    net.crash(B);
    net.deliver(A, B, &release);
    net.run();
    assert_eq!(net.standing(B), Some(Standing::Unconfirmed));
    net.nodes[B].custodian.confirm(session());
    net.drain(B);
    net.heal();
    net.pass(HOUR);
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-20, H-22
#[test]
fn s7_says_nothing_that_makes_another_throw_its_stage_away() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    // A's disk comes back as it was before its decision; only B has the certificate's payload now.
    net.nodes[A].journal.truncate(1);
    net.nodes[A].trust = Trust::Unconfirmed;
    net.crash(A);
    net.heal();
    net.pass(HOUR);
    assert!(net.nodes[B].custodian.arriving(session()).is_some(), "B threw its stage away on a forgetful word");
    net.nodes[A].journal.clear();
    net.crash(A);
    net.heal();
    net.pass(HOUR);
    assert!(net.nodes[B].custodian.arriving(session()).is_some(), "B threw its stage away on a forgetful word");
}

/// Shows: H-22
#[test]
fn s7_higher_token_fences() {
    let mut net = Net::pair();
    net.give(A, B);
    let old = net.nodes[B].journal.clone();
    net.give(B, A);
    net.nodes[B].journal = old;
    net.nodes[B].trust = Trust::Unconfirmed;
    net.crash(B);
    let chain = net.nodes[A].custodian.chain(session()).unwrap().clone();
    let certificate = chain.last_signed().unwrap().clone();
    net.deliver(A, B, &PeerMessage::Release { certificate, chain: chain.before_last().to_vec() });
    assert_eq!(net.standing(B), Some(Standing::SeizedBy(net.id(A))));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-10, H-15
#[test]
fn d0_nothing_is_written_before_the_operator_answers() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.give(A, B);
    assert_eq!(net.nodes[B].journal, []);
    assert!(net.nodes[B].custodian.asked(session()).is_some());
    assert!(net.nodes[B].custodian.may_act(session()), "a question alone takes a session from its agent");
    assert!(net.sent.iter().all(|(from, _)| *from == A));
}

/// Shows: H-10, J-1
#[test]
fn d1_approved_does_not_act_and_goes_on_after_a_crash() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Accept(_)));
    net.give(A, B);
    assert!(matches!(net.nodes[B].journal.last(), Some(Record::Approved { .. })));
    assert!(!net.acts(B));
    net.crash(B);
    let arriving = net.nodes[B].custodian.arriving(session()).unwrap();
    assert_eq!(*arriving.phase(), DestinationPhase::Receiving { manifest: None });
    net.heal();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-10, H-13
#[test]
fn d2_round_before_the_last_cannot_be_staged() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Accepted(_) | Event::Fetch(_)));
    let handoff = net.give(A, B);
    let (round, now) = (net.nodes[A].capture(session()), net.now);
    net.nodes[A].custodian.advance(session(), round.clone(), now).unwrap();
    net.drain(A);
    net.run();
    let payload = StagedPayload { head: round.head, root: round.root };
    net.nodes[B].custodian.staged(session(), handoff, payload, now);
    net.drain(B);
    assert!(!net.sent.iter().any(|(_, message)| matches!(message, PeerMessage::CommitAck(_))));
}

/// Shows: H-5, J-1
#[test]
fn d3_staged_is_in_the_journal_before_it_is_acknowledged() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    let (payload, now) = (StagedPayload { head: head(&[1, 2]), root: root(&[1, 2]) }, net.now);
    net.nodes[B].custodian.staged(session(), handoff, payload, now);
    assert!(
        matches!(net.nodes[B].custodian.poll(), Some(Output::Persist(batch)) if matches!(batch[..], [Record::Staged { .. }]))
    );
    assert!(
        matches!(net.nodes[B].custodian.poll(), Some(Output::Send(_, m)) if matches!(*m, PeerMessage::CommitAck(_)))
    );
}

/// Shows: H-7, H-10
#[test]
fn d3_staged_does_not_act_and_stays_staged_after_a_crash() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    assert!(!net.acts(B));
    net.crash(B);
    let arriving = net.nodes[B].custodian.arriving(session()).unwrap();
    assert!(matches!(arriving.phase(), DestinationPhase::Staged { .. }));
    assert!(!net.acts(B));
}

/// Shows: H-20
#[test]
fn d3_stage_is_discarded_when_the_session_went_elsewhere() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_) | PeerMessage::Abort { .. }));
    net.give(A, B);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Abort { .. }));
    net.give(A, C);
    let release = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    net.deliver(C, B, &release);
    assert!(net.nodes[B].custodian.arriving(session()).is_none());
    assert!(matches!(net.nodes[B].journal.last(), Some(Record::Discarded { .. })));
    net.only_owner(C, &[1, 2]);
}

/// Shows: H-7, J-1
#[test]
fn d5_activation_is_in_the_journal_before_the_hands_are_told() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    let release = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    let (a, now) = (net.id(A), net.now);
    net.nodes[B].custodian.handle_message(a, &release, now);
    let Some(Output::Persist(batch)) = net.nodes[B].custodian.poll() else { panic!("nothing is persisted first") };
    assert!(matches!(batch[..], [Record::Custody(_), Record::Active { .. }]), "not one batch: {batch:?}");
    assert!(!net.acts(B), "B acts before its session is in its place");
    assert!(matches!(net.nodes[B].custodian.poll(), Some(Output::Tell(Event::Activate { .. }))));
}

/// Shows: H-7, H-24
#[test]
fn d5_active_that_dies_before_it_is_in_place_is_put_in_place_again() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Activate { .. }));
    net.give(A, B);
    assert_eq!(net.standing(B), Some(Standing::Arriving));
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))), "B said that it acts before it could");
    net.ignore = Box::new(|_| false);
    net.crash(B);
    net.heal();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-3, H-18, H-25
#[test]
fn released_source_that_gets_the_session_back_is_told_that_it_retired() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_)));
    net.give(A, B);
    net.turn(B, 3);
    net.give(B, A);
    net.only_owner(A, &[1, 2, 3]);
    assert_eq!(net.told(A, |event| matches!(event, Event::Retired { .. })), 1);
}
