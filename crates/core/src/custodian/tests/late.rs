//! Hands and words that come too late, or speak of something else.

use cede_wire::message::HandoffStatus;

use super::*;
use crate::limits;

const OTHER: HandoffId = HandoffId::new([99; 16]);

fn journals(net: &Net) -> Vec<usize> {
    net.nodes.iter().map(|node| node.journal.len()).collect()
}

/// The device hears this, and neither says nor writes anything.
fn unheard(net: &mut Net, from: usize, to: usize, message: &PeerMessage) {
    let (sent, written) = (net.sent.len(), journals(net));
    net.deliver(from, to, message);
    assert_eq!((net.sent.len(), journals(net)), (sent, written), "{message:?}");
}

/// Shows: H-11
#[test]
fn hands_that_speak_of_what_is_over_or_unknown_change_nothing() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    net.run();
    let (now, quiet) = (net.now, net.nodes[A].quiet(session()));
    let (payload, nothing) = (StagedPayload { head: head(&[1, 2]), root: root(&[1, 2]) }, Vec::new);
    for (id, handoff) in [(session(), handoff), (session(), OTHER), (named("unknown").id(), handoff)] {
        for node in [A, B] {
            let custodian = &mut net.nodes[node].custodian;
            custodian.reaccept(id, [2; 32], nothing());
            custodian.refetch(id, [3; 32], now);
            custodian.staged(id, handoff, payload, now);
            custodian.round_complete(id, handoff, 0);
            custodian.receive_failed(id, handoff, Refusal::Truncated, "late");
            custodian.decline(id, handoff, Refusal::Declined, "late");
            custodian.installed(id, handoff);
            custodian.branched(id);
            custodian.decide(id, handoff, quiet, now);
            custodian.cancel(id, Refusal::Cancelled, "late");
            custodian.touch(id, now);
            custodian.fence_lifted(id);
            custodian.give_up_seize(id, Refusal::Cancelled);
            custodian.confirm(id);
            custodian.confirm_all();
            assert!(custodian.freeze(id, now).is_err());
            assert_eq!(custodian.claim(id, handoff), Err(Refusal::Expired));
            assert!(custodian.poll().is_none());
        }
    }
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-6
#[test]
fn decision_about_another_attempt_decides_nothing() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    let handoff = net.give(A, B);
    let (quiet, now) = (net.nodes[A].quiet(session()), net.now);
    net.nodes[A].custodian.decide(session(), OTHER, quiet, now);
    net.drain(A);
    assert_eq!(net.standing(A), Some(Standing::Leaving(handoff)));
    net.nodes[A].custodian.decide(session(), handoff, quiet, now);
    net.drain(A);
    net.run();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-23, S-2
#[test]
fn word_that_another_device_signed_is_a_fault_and_heard_by_nobody() {
    let mut net = Net::three();
    net.give(A, B);
    let refetch = |net: &Net, by: usize| {
        let accept = Accept {
            handoff: HandoffId::new([1; 16]),
            source: net.id(A),
            destination: net.id(by),
            scope: scope().digest(),
            exchange_key: [0; 32],
            have: Vec::new(),
        };
        PeerMessage::Refetch(net.nodes[by].local.sign(&accept).unwrap())
    };
    let mut words: Vec<PeerMessage> = net.sent.iter().map(|(_, message)| message.clone()).collect();
    words.push(refetch(&net, B));
    words.retain(|message| {
        matches!(
            message,
            PeerMessage::Offer { .. }
                | PeerMessage::Accept(_)
                | PeerMessage::Manifest(_)
                | PeerMessage::CommitAck(_)
                | PeerMessage::Activated(_)
                | PeerMessage::Refetch(_)
        )
    });
    assert_eq!(words.len(), 6);
    for word in &words {
        for to in [A, B] {
            unheard(&mut net, C, to, word);
        }
    }
    let faults = [A, B].map(|node| net.told(node, |event| matches!(event, Event::PeerFault { .. })));
    assert_eq!(faults, [words.len(); 2]);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-11, H-23
#[test]
fn words_about_another_attempt_or_of_another_device_move_nothing() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    let standing = net.standing(A);
    let complete = |handoff| PeerMessage::RoundComplete { handoff, round: 0 };
    let need =
        |handoff| PeerMessage::Need { handoff, round: 0, of: cede_wire::message::NeedOf::Payload, bitmap: Vec::new() };
    let refuse = |handoff| PeerMessage::Refuse { handoff, refusal: Refusal::Declined, detail: String::new() };
    for message in [complete, need, refuse].map(|word| word(OTHER)) {
        unheard(&mut net, B, A, &message);
    }
    for message in [complete, need, refuse].map(|word| word(handoff)) {
        unheard(&mut net, C, A, &message);
    }
    let abort = |handoff| PeerMessage::Abort { handoff, refusal: Refusal::Cancelled };
    unheard(&mut net, A, B, &abort(OTHER));
    unheard(&mut net, C, B, &abort(handoff));
    assert!(net.nodes[B].custodian.arriving(session()).is_some());
    assert_eq!((net.standing(A), net.told(A, |event| matches!(event, Event::RoundComplete { .. }))), (standing, 0));
}

/// Shows: H-16, H-25
#[test]
fn released_source_lets_go_by_the_word_of_its_successor_alone() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    let handoff = net.give(A, B);
    let token = net.nodes[A].custodian.token(session());
    let acts = |net: &Net, by: usize, session| {
        let word = cede_wire::handoff::Activated { handoff, session, token, owner: net.id(by) };
        PeerMessage::Activated(net.nodes[by].local.sign(&word).unwrap())
    };
    let (of_c, unknown) = (acts(&net, C, session()), acts(&net, B, named("unknown").id()));
    unheard(&mut net, C, A, &of_c);
    unheard(&mut net, B, A, &unknown);
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))));
    // Accepts of another attempt, and of a device that it was not released to: both are over.
    for (by, of) in [(B, OTHER), (C, handoff)] {
        let (source, destination, scope) = (net.id(A), net.id(by), scope().digest());
        let accept = Accept { handoff: of, source, destination, scope, exchange_key: [0; 32], have: Vec::new() };
        let accept = PeerMessage::Accept(net.nodes[by].local.sign(&accept).unwrap());
        net.deliver(by, A, &accept);
        assert_eq!(net.last_sent(A), &PeerMessage::Abort { handoff: of, refusal: Refusal::Cancelled });
    }
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))));
}

/// Shows: H-7, H-16
#[test]
fn session_is_not_said_to_act_before_it_is_in_its_place() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Activate { .. }));
    let handoff = net.give(A, B);
    let release = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    unheard(&mut net, A, B, &release);
    net.deliver(A, B, &PeerMessage::Status { handoff, session: session() });
    let PeerMessage::StatusAnswer { status, .. } = net.last_sent(B) else { panic!("another message") };
    assert_eq!(status, &HandoffStatus::Unknown);
    net.nodes[B].logs.insert(session(), vec![1, 2]);
    net.nodes[B].custodian.installed(session(), handoff);
    net.drain(B);
    net.deliver(A, B, &release);
    assert!(matches!(net.last_sent(B), PeerMessage::Activated(_)));
    let genesis = net.nodes[A].custodian.chain(session()).unwrap().links()[0].clone();
    unheard(&mut net, A, B, &PeerMessage::Release { certificate: genesis, chain: Vec::new() });
}

/// Shows: H-16, H-22
#[test]
fn status_is_said_of_the_attempt_that_is_asked_about_and_by_who_knows() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    let status = |net: &mut Net, handoff, session| {
        net.deliver(A, B, &PeerMessage::Status { handoff, session });
        let PeerMessage::StatusAnswer { status, .. } = net.last_sent(B) else { panic!("another message") };
        status.clone()
    };
    assert_eq!(status(&mut net, handoff, session()), HandoffStatus::Receiving);
    assert_eq!(status(&mut net, OTHER, session()), HandoffStatus::Unknown);
    assert_eq!(status(&mut net, handoff, named("unknown").id()), HandoffStatus::Unknown);
    net.nodes[B].trust = Trust::Unconfirmed;
    net.crash(B);
    unheard(&mut net, A, B, &PeerMessage::Status { handoff, session: session() });
}

/// Shows: H-16
#[test]
fn line_to_a_third_device_repeats_nothing_to_it() {
    let quiet = |net: &mut Net, what: &str| {
        for node in [A, B] {
            let before = net.sent.len();
            net.link(node, C);
            let told = |(_, message): &(usize, PeerMessage)| !matches!(message, PeerMessage::Custody(_));
            assert!(!net.sent[before..].iter().any(told), "{what}");
        }
    };
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    quiet(&mut net, "leaving and arriving");
    let b = net.nodes[B].local.clone();
    let ack = b.sign(&ack(&b, handoff, net.id(A), &[1, 2])).unwrap();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Refetch(_) | PeerMessage::Release { .. }));
    net.deliver(B, A, &PeerMessage::CommitAck(ack));
    net.run();
    quiet(&mut net, "released");
    let release = net.find_sent(|message| matches!(message, PeerMessage::Release { .. }));
    net.deliver(A, B, &release);
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    quiet(&mut net, "waiting for the payload");
}

/// Shows: H-20
#[test]
fn payload_that_does_not_come_in_time_is_given_up_without_a_word_of_the_source() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Accept(_) | PeerMessage::Abort { .. }));
    net.give(A, B);
    net.pass(limits::RECEIVING_TTL - Duration::from_secs(1));
    assert!(net.nodes[B].custodian.arriving(session()).is_some());
    net.pass(Duration::from_secs(1));
    assert!(net.nodes[B].custodian.arriving(session()).is_none());
    let late = |message: &PeerMessage| matches!(message, PeerMessage::Refuse { refusal: Refusal::TimedOut, .. });
    assert!(late(net.last_sent(B)), "{:?}", net.last_sent(B));
    net.only_owner(A, &[1, 2]);
}
