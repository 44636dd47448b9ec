//! Moments told from another zero.

use super::*;
use crate::limits;

#[test]
fn moments_told_from_another_zero_are_as_far_away_as_before() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.pass(HOUR);
    for node in [A, B] {
        let custodian = &net.nodes[node].custodian;
        let mut moved = custodian.clone();
        moved.rebase(Duration::from_secs(5));
        let far = |custodian: &Custodian| custodian.poll_timeout().map(|(at, why)| (at - custodian.clock, why));
        assert_eq!(far(&moved), far(custodian));
        assert!(far(&moved).is_some_and(|(wait, _)| wait > Duration::ZERO));
        let mut again = moved.clone();
        again.rebase(HOUR);
        again.rebase(Duration::from_secs(5));
        assert_eq!(format!("{again:?}"), format!("{moved:?}"));
    }
}

#[test]
fn freeze_that_has_not_begun_has_no_end_under_any_zero() {
    let mut net = Net::pair();
    net.lose = Box::new(|_| true);
    net.offer(A, B);
    let custodian = &mut net.nodes[A].custodian;
    custodian.rebase(Duration::from_secs(5));
    assert_eq!(custodian.poll_timeout().map(|(at, _)| at), Some(Duration::from_secs(5) + limits::OFFER));
    net.now.monotonic = Duration::from_secs(5);
    net.pass(limits::OFFER);
    assert_eq!(net.standing(A), Some(Standing::InCharge));
}

#[test]
fn payload_that_is_on_its_way_is_waited_for_as_long_under_any_zero() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    net.give(A, B);
    let custodian = &mut net.nodes[B].custodian;
    custodian.rebase(HOUR);
    assert_eq!(custodian.poll_timeout().map(|(at, _)| at), Some(HOUR + limits::RECEIVING_TTL));
}

#[test]
fn freeze_ends_as_late_under_any_zero() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    net.nodes[A].custodian.rebase(HOUR);
    net.now.monotonic = HOUR;
    net.deliver(B, A, &PeerMessage::RoundComplete { handoff, round: 0 });
    assert_eq!(net.nodes[A].custodian.poll_timeout().map(|(at, _)| at), Some(HOUR + limits::FREEZE));
}
