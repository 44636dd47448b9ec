//! Questions that become moot, wait beside others, or are answered when they do not stand any more.

use super::*;
use crate::limits;

fn asked(net: &Net, node: usize) -> Option<DeviceId> {
    net.nodes[node].custodian.asked(session()).map(|offer| offer.source)
}

fn refused(net: &Net, node: usize) -> Option<Refusal> {
    let PeerMessage::Refuse { refusal, .. } = net.last_sent(node) else { return None };
    Some(*refusal)
}

/// A gave the session to C, and B does not know that A's attempt before it is over.
fn went_elsewhere(ignore: fn(&Event) -> bool) -> Net {
    let mut net = Net::three();
    let b = net.id(B);
    net.ignore = Box::new(ignore);
    net.give(A, B);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Abort { .. }));
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    net.run();
    net.nodes[C].custodian.link_down(b);
    net.ignore = Box::new(|_| false);
    net.give(A, C);
    net.only_owner(C, &[1, 2]);
    net
}

/// Shows: H-4
#[test]
fn question_is_moot_once_the_session_went_on_from_who_asked() {
    let mut net = went_elsewhere(|event| matches!(event, Event::AskOperator(_)));
    assert_eq!(asked(&net, B), Some(net.id(A)));
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.give(C, B);
    assert_eq!(asked(&net, B), Some(net.id(C)));
    assert_eq!(net.told(B, |event| matches!(event, Event::Withdrawn { .. })), 1);
}

/// Shows: H-4
#[test]
fn session_that_arrives_from_one_device_is_not_taken_from_another() {
    let mut net = went_elsewhere(|event| matches!(event, Event::Fetch(_)));
    net.give(C, B);
    assert_eq!(net.refusal(C), Some(Refusal::Busy));
    assert_eq!(net.nodes[B].custodian.arriving(session()).map(|attempt| attempt.attempt().source), Some(net.id(A)));
    net.only_owner(C, &[1, 2]);
}

/// Shows: H-11
#[test]
fn second_question_of_the_same_owner_comes_in_the_place_of_the_first() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.lose = Box::new(|message| matches!(message, PeerMessage::Abort { .. }));
    let first = net.give(A, B);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    let second = net.give(A, B);
    let waits = net.nodes[B].custodian.asked(session()).map(|offer| offer.handoff);
    assert_eq!((waits, net.told(B, |event| matches!(event, Event::AskOperator(_)))), (Some(second), 2));
    assert_eq!(net.told(B, |event| matches!(event, Event::Withdrawn { handoff, .. } if *handoff == first)), 1);
}

/// Shows: H-11
#[test]
fn attempt_that_was_declined_is_over_where_the_session_is_known_too() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    let offer = net.find_sent(|message| matches!(message, PeerMessage::Offer { .. }));
    net.nodes[B].custodian.decline(session(), handoff, Refusal::Declined, "no");
    net.drain(B);
    net.run();
    net.deliver(A, B, &offer);
    assert_eq!((refused(&net, B), asked(&net, B)), (Some(Refusal::Cancelled), None));
}

/// Shows: H-3, H-4
#[test]
fn offer_that_does_not_fit_its_chain_is_refused() {
    let mut net = Net::pair();
    let (a, b) = (net.nodes[A].local.clone(), net.id(B));
    let mut say = |offer: Offer, chain: Signed<Custody>| {
        net.deliver(A, B, &PeerMessage::Offer { offer: a.sign(&offer).unwrap(), chain: vec![chain] });
        assert_eq!(asked(&net, B), None);
        refused(&net, B)
    };
    let offer = offer_of(&a, b, HandoffId::new([1; 16]), &key());
    let later = FencingToken { generation: 5, epoch: 0 };
    assert_eq!(say(Offer { token: later, ..offer.clone() }, genesis(&a, &key())), Some(Refusal::NotOwner));
    let Custody::Genesis(first) = (*cede_seal::verify::verify(&genesis(&a, &key())).unwrap()).clone() else {
        panic!("another record")
    };
    let foreign = a.sign(&Custody::Genesis(Genesis { mesh: MeshId::new([6; 32]), ..first })).unwrap();
    assert_eq!(say(offer, foreign), Some(Refusal::Unauthorized), "the chain is of another mesh");
}

/// Shows: H-14, H-31
#[test]
fn yes_to_what_does_not_hold_any_more_is_refused() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    // The log of the members that it names is not the one that is known here any more.
    net.nodes[B].custodian.set_electorate(Electorate::default());
    let now = net.now;
    assert_eq!(net.nodes[B].custodian.approve(session(), handoff, [0; 32], Vec::new(), now), Err(Refusal::Busy));
    net.drain(B);
    net.run();
    assert_eq!((net.refusal(A), net.nodes[B].journal.len()), (Some(Refusal::Busy), 0));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-28
#[test]
fn questions_of_all_peers_together_have_a_limit() {
    let peers = limits::HANDOFFS / limits::QUESTIONS_PER_PEER;
    let mut net = Net::new(u8::try_from(peers).unwrap() + 2);
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    for n in 0..=limits::HANDOFFS {
        let peer = A + 1 + n / limits::QUESTIONS_PER_PEER;
        let (by, to, key) = (net.nodes[peer].local.clone(), net.id(A), named(&format!("s{n}")));
        let offer = offer_of(&by, to, HandoffId::new([u8::try_from(n).unwrap(); 16]), &key);
        let chain = vec![genesis(&by, &key)];
        net.deliver(peer, A, &PeerMessage::Offer { offer: by.sign(&offer).unwrap(), chain });
    }
    assert_eq!(net.told(A, |event| matches!(event, Event::AskOperator(_))), limits::HANDOFFS);
    assert_eq!(refused(&net, A), Some(Refusal::Busy));
}

/// Shows: H-15
#[test]
fn release_that_waits_for_a_claim_is_kept_when_a_question_of_its_session_ends() {
    let mut net = Net::three();
    let (c, b) = (net.nodes[C].local.clone(), net.id(B));
    let first = genesis(&c, &key());
    let certificate = c.sign(&Custody::Release(release(&c, b, &first, 0))).unwrap();
    net.deliver(C, B, &PeerMessage::Release { certificate, chain: vec![first.clone()] });
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = HandoffId::new([9; 16]);
    let offer = c.sign(&offer_of(&c, b, handoff, &key())).unwrap();
    net.deliver(C, B, &PeerMessage::Offer { offer, chain: vec![first] });
    net.deliver(C, B, &PeerMessage::Abort { handoff, refusal: Refusal::Cancelled });
    assert_eq!(net.nodes[B].custodian.unclaimed().count(), 1);
}
