//! Every refusal that a handoff can end with; each leaves the session where it was.

use super::*;
use crate::limits;
use crate::source::assess_readiness;

/// Shows: H-21, R-1, R-2
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn every_word_of_a_destination_leaves_the_source_the_owner() {
    for refusal in Refusal::ALL {
        let mut net = Net::pair();
        net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
        let handoff = net.give(A, B);
        net.nodes[B].custodian.decline(session(), handoff, refusal, "the reason");
        net.drain(B);
        net.run();
        net.only_owner(A, &[1, 2]);
        assert_eq!(net.refusal(A), Some(refusal));
        assert_eq!(net.nodes[B].journal, []);
        net.ignore = Box::new(|_| false);
        net.give(A, B);
        net.only_owner(B, &[1, 2]);
    }
}

/// Shows: H-21, R-2
#[test]
fn every_failure_to_receive_leaves_the_source_the_owner() {
    for refusal in [
        Refusal::IntegrityFailed,
        Refusal::Truncated,
        Refusal::PayloadUndecodable,
        Refusal::DestinationCannotResume,
        Refusal::TooLarge,
    ] {
        let mut net = Net::pair();
        net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
        let handoff = net.give(A, B);
        net.nodes[B].custodian.receive_failed(session(), handoff, refusal, "the reason");
        net.drain(B);
        net.run();
        net.only_owner(A, &[1, 2]);
        assert_eq!(net.refusal(A), Some(refusal));
        assert!(matches!(net.nodes[B].journal.last(), Some(Record::Discarded { .. })));
    }
}

/// Shows: H-15
#[test]
fn expired_is_the_answer_to_a_question_that_nobody_answers() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    net.pass(limits::QUESTION);
    assert_eq!(net.refusal(A), Some(Refusal::Expired));
    assert_eq!(net.told(B, |event| matches!(event, Event::Withdrawn { refusal: Refusal::Expired, .. })), 1);
    let now = net.now;
    assert_eq!(net.nodes[B].custodian.approve(session(), handoff, [0; 32], Vec::new(), now), Err(Refusal::Expired));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-4
#[test]
fn in_flight_work_is_refused_before_an_offer() {
    use cede_wire::session::Activity;
    let evidence = String::new;
    assert_eq!(assess_readiness(&Activity::Busy { pid: None, evidence: evidence() }), Err(Refusal::InFlightWork));
    assert_eq!(assess_readiness(&Activity::Idle { evidence: evidence() }), Ok(()));
    assert_eq!(assess_readiness(&Activity::Open { pid: 1, evidence: evidence() }), Ok(()));
    assert_eq!(assess_readiness(&Activity::Interrupted { evidence: evidence() }), Ok(()));
}

/// Shows: H-6
#[test]
fn in_flight_work_at_the_last_moment_is_not_released() {
    let mut net = Net::pair();
    net.nodes[A].in_flight = true;
    net.give(A, B);
    assert_eq!(net.refusal(A), Some(Refusal::InFlightWork));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-6
#[test]
fn turn_committed_unseen_after_the_capture_is_not_lost() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    let handoff = net.give(A, B);
    net.turn(A, 3);
    let (quiet, now) = (net.nodes[A].quiet(session()), net.now);
    net.nodes[A].custodian.decide(session(), handoff, quiet, now);
    net.drain(A);
    net.run();
    net.only_owner(A, &[1, 2, 3]);
}

/// Shows: H-5
#[test]
fn integrity_failed_is_said_of_another_payload_than_the_manifest() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    let (payload, now) = (StagedPayload { head: head(&[1, 2]), root: root(&[6]) }, net.now);
    net.nodes[B].custodian.staged(session(), handoff, payload, now);
    net.drain(B);
    net.run();
    assert_eq!(net.refusal(A), Some(Refusal::IntegrityFailed));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-4, H-23
#[test]
fn wrong_destination_is_said_of_an_offer_to_another_device() {
    let mut net = Net::three();
    net.offer(A, C);
    let offer = net.find_sent(|message| matches!(message, PeerMessage::Offer { .. }));
    net.deliver(A, B, &offer);
    assert_eq!(said(&net, B), Some(Refusal::WrongDestination));
    assert!(net.nodes[B].custodian.asked(session()).is_none());
}

/// Shows: H-4
#[test]
fn unauthorized_is_said_of_an_offer_of_another_mesh() {
    let mut net = Net::pair();
    let mut offer = offer_of(&net.nodes[A].local, net.id(B), HandoffId::new([1; 16]), &key());
    offer.mesh = MeshId::new([6; 32]);
    send_offer(&mut net, &offer, vec![genesis_of(A)]);
    assert_eq!(said(&net, B), Some(Refusal::Unauthorized));
}

/// Shows: H-3, H-4
#[test]
fn unauthorized_is_said_of_an_offer_without_its_chain() {
    let mut net = Net::pair();
    let offer = offer_of(&net.nodes[A].local, net.id(B), HandoffId::new([1; 16]), &key());
    send_offer(&mut net, &offer, Vec::new());
    assert_eq!(said(&net, B), Some(Refusal::Unauthorized));
    let other = offer_of(&net.nodes[A].local, net.id(B), HandoffId::new([1; 16]), &named("other"));
    send_offer(&mut net, &other, vec![genesis_of(A)]);
    assert_eq!(said(&net, B), Some(Refusal::Unauthorized));
}

/// Shows: H-4
#[test]
fn already_owner_is_said_to_who_offers_the_owner_its_session() {
    let mut net = Net::pair();
    net.give(A, B);
    let mut offer = offer_of(&net.nodes[A].local, net.id(B), HandoffId::new([9; 16]), &key());
    offer.token = FencingToken { generation: 0, epoch: 1 };
    let links = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    send_offer(&mut net, &offer, links);
    assert_eq!(said(&net, B), Some(Refusal::AlreadyOwner));
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-4
#[test]
fn not_owner_is_said_to_who_is_not() {
    let mut net = Net::three();
    let (mut offer, links) =
        (offer_of(&net.nodes[A].local, net.id(B), HandoffId::new([9; 16]), &key()), vec![genesis_of(C)]);
    offer.token = FencingToken::FIRST;
    send_offer(&mut net, &offer, links);
    assert_eq!(said(&net, B), Some(Refusal::NotOwner));
}

/// Shows: H-1, H-4
#[test]
fn stale_token_is_said_to_an_owner_of_yesterday() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, C);
    let offer = offer_of(&net.nodes[A].local, net.id(B), HandoffId::new([9; 16]), &key());
    let first = net.nodes[A].custodian.chain(session()).unwrap().links()[..1].to_vec();
    send_offer(&mut net, &offer, first);
    assert_eq!(said(&net, B), Some(Refusal::StaleToken));
    net.only_owner(C, &[1, 2]);
}

/// Shows: H-4
#[test]
fn busy_is_said_while_another_attempt_is_under_way() {
    let mut net = Net::pair();
    net.lose = Box::new(|_| true);
    let handoff = net.offer(A, B);
    let (b, now) = (net.id(B), net.now);
    let second = net.nodes[A].custodian.offer(&key(), b, HandoffId::new([50; 16]), terms(head(&[1, 2])), now);
    assert_eq!(second, Err(super::super::OfferError::Busy(handoff)));
}

/// Shows: H-3, T-11
#[test]
fn too_large_is_said_of_a_chain_over_the_limit() {
    let mut net = Net::pair();
    let offer = offer_of(&net.nodes[A].local, net.id(B), HandoffId::new([1; 16]), &key());
    let links = vec![genesis_of(A); cede_wire::limits::CHAIN_RECORDS + 1];
    send_offer(&mut net, &offer, links);
    assert_eq!(said(&net, B), Some(Refusal::TooLarge));
    let offer = offer_of(&net.nodes[A].local, net.id(B), HandoffId::new([2; 16]), &key());
    send_offer(&mut net, &offer, vec![genesis_of(A); cede_wire::limits::CHAIN_RECORDS]);
    assert_eq!(said(&net, B), Some(Refusal::Unauthorized), "so many are looked at");
}

/// Shows: H-11
#[test]
fn cancelled_is_said_of_an_offer_that_ended() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.give(A, B);
    let offer = net.find_sent(|message| matches!(message, PeerMessage::Offer { .. }));
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    net.run();
    assert_eq!(net.told(B, |event| matches!(event, Event::Withdrawn { .. })), 1);
    net.deliver(A, B, &offer);
    assert_eq!(said(&net, B), Some(Refusal::Cancelled));
    assert!(net.nodes[B].custodian.asked(session()).is_none());
}

/// Shows: H-11
#[test]
fn handoff_id_that_ended_is_not_used_again() {
    let mut net = Net::pair();
    net.lose = Box::new(|_| true);
    let handoff = net.offer(A, B);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    let (b, now) = (net.id(B), net.now);
    assert!(net.nodes[A].custodian.offer(&key(), b, handoff, terms(head(&[1, 2])), now).is_err());
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-21
#[test]
fn timed_out_ends_an_offer_that_nobody_answers() {
    let mut net = Net::pair();
    net.lose = Box::new(|_| true);
    net.offer(A, B);
    net.pass(limits::OFFER);
    assert_eq!(net.refusal(A), Some(Refusal::TimedOut));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-20
#[test]
fn timed_out_ends_an_approval_whose_payload_does_not_come() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Accept(_)));
    net.give(A, B);
    net.pass(limits::RECEIVING_TTL);
    assert!(net.nodes[B].custodian.arriving(session()).is_none());
    assert!(matches!(net.nodes[B].journal.last(), Some(Record::Discarded { .. })));
}

/// Shows: H-14
#[test]
fn protocol_is_said_of_an_accept_of_another_scope() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    let b = net.nodes[B].local.clone();
    let accept = Accept {
        handoff,
        source: net.id(A),
        destination: b.device(),
        scope: Hash::of(b"another scope"),
        exchange_key: [0; 32],
        have: Vec::new(),
    };
    net.deliver(B, A, &PeerMessage::Accept(b.sign(&accept).unwrap()));
    assert_eq!(net.refusal(A), Some(Refusal::Protocol));
    assert_eq!(
        net.told(A, |event| matches!(event, Event::Accepted(_))),
        0,
        "chunks travel for a scope nobody approved"
    );
    net.only_owner(A, &[1, 2]);
}

/// Shows: R-2
#[test]
fn long_reason_of_a_peer_is_cut() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    let detail = "x".repeat(100_000);
    net.deliver(B, A, &PeerMessage::Refuse { handoff, refusal: Refusal::Declined, detail });
    let long = |event: &Event| matches!(event, Event::StillOwner { detail, .. } if detail.len() == cede_wire::limits::DETAIL_CHARS);
    assert_eq!(net.told(A, long), 1);
}

fn said(net: &Net, node: usize) -> Option<Refusal> {
    let PeerMessage::Refuse { refusal, .. } = net.last_sent(node) else { return None };
    Some(*refusal)
}

fn send_offer(net: &mut Net, offer: &Offer, chain: Vec<Signed<Custody>>) {
    let offer = net.nodes[A].local.sign(offer).unwrap();
    net.deliver(A, B, &PeerMessage::Offer { offer, chain });
}

fn genesis_of(node: usize) -> Signed<Custody> {
    genesis(&LocalDevice::from_secret(&[node as u8 + 1; 32]), &key())
}
