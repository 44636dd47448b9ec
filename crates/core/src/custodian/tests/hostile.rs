//! Peers that lie, repeat, mix and flood.

use super::crashes::lose_stage_before_release;
use super::*;
use crate::chain::{Chain, ChainError};
use crate::limits;

/// Shows: H-6
#[test]
fn ack_is_bound_to_head_root_token_session_and_handoff() {
    let changes: [fn(&mut CommitAck); 5] = [
        |ack| ack.head = head(&[1]),
        |ack| ack.root = root(&[1]),
        |ack| ack.token = FencingToken { generation: 0, epoch: 7 },
        |ack| ack.source = ack.destination,
        |ack| ack.handoff = HandoffId::new([66; 16]),
    ];
    for change in changes {
        let mut net = Net::pair();
        net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
        let handoff = net.give(A, B);
        let b = net.nodes[B].local.clone();
        let mut ack = ack(&b, handoff, net.id(A), &[1, 2]);
        change(&mut ack);
        net.lose = Box::new(|_| false);
        net.deliver(B, A, &PeerMessage::CommitAck(b.sign(&ack).unwrap()));
        assert!(net.acts(A), "released on {ack:?}");
        assert_eq!(net.told(A, |event| matches!(event, Event::AckHeld { .. })), 0);
    }
}

/// Shows: H-6, H-23
#[test]
fn acknowledgement_is_checked_in_every_field() {
    let changes: [fn(&mut CommitAck); 6] = [
        |ack| ack.handoff = HandoffId::new([66; 16]),
        |ack| ack.session = named("other").id(),
        |ack| ack.token = FencingToken { generation: 0, epoch: 7 },
        |ack| ack.head = head(&[1]),
        |ack| ack.root = root(&[1]),
        |ack| ack.source = ack.destination,
    ];
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    let handoff = net.give(A, B);
    let (b, c) = (net.nodes[B].local.clone(), net.nodes[C].local.clone());
    let source = net.nodes[A].custodian.leaving(session()).unwrap();
    let checked = |by: &LocalDevice, change: fn(&mut CommitAck)| {
        let mut ack = ack(by, handoff, net.id(A), &[1, 2]);
        change(&mut ack);
        source.acknowledged(&cede_seal::verify::verify(&by.sign(&ack).unwrap()).unwrap())
    };
    assert_eq!(checked(&b, |_| ()), Ok(()));
    assert!(changes.into_iter().all(|change| checked(&b, change).is_err()));
    assert!(checked(&c, |_| ()).is_err(), "the word of another device counts");
}

/// Shows: H-2, H-6
#[test]
fn head_that_differs_in_any_part_is_another_head() {
    let parts: [fn(&mut Head); 3] =
        [|head| head.turn += 1, |head| head.length += 1, |head| head.hash = Hash::of(b"another log")];
    for change in parts {
        let mut net = Net::pair();
        net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
        let handoff = net.give(A, B);
        let (mut quiet, now) = (net.nodes[A].quiet(session()), net.now);
        change(&mut quiet.head);
        net.nodes[A].custodian.decide(session(), handoff, quiet, now);
        net.drain(A);
        net.run();
        net.only_owner(A, &[1, 2]);
    }
}

/// Shows: H-5, H-13
#[test]
fn early_ack_does_not_release() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Accepted(_)));
    let handoff = net.give(A, B);
    let (round, now, b) = (net.nodes[A].capture(session()), net.now, net.nodes[B].local.clone());
    net.nodes[A].custodian.advance(session(), round, now).unwrap();
    net.drain(A);
    let ack = ack(&b, handoff, net.id(A), &[1, 2]);
    net.deliver(B, A, &PeerMessage::CommitAck(b.sign(&ack).unwrap()));
    net.run();
    assert_eq!(net.refusal(A), Some(Refusal::Protocol));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-6, H-23
#[test]
fn ack_of_another_device_is_not_this_ones() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    let handoff = net.give(A, B);
    net.lose = Box::new(|_| false);
    let c = net.nodes[C].local.clone();
    let signed = c.sign(&ack(&c, handoff, net.id(A), &[1, 2])).unwrap();
    net.deliver(C, A, &PeerMessage::CommitAck(signed.clone()));
    net.deliver(B, A, &PeerMessage::CommitAck(signed));
    assert_eq!(net.told(A, |event| matches!(event, Event::AckHeld { .. })), 0);
    assert_eq!(net.told(A, |event| matches!(event, Event::PeerFault { .. })), 1, "a borrowed word is a fault");
    assert!(net.acts(A));
}

/// Shows: H-23
#[test]
fn manifest_for_another_device_is_refused() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    net.give(A, B);
    let mut manifest = manifest_sent(&net);
    manifest.destination = net.id(C);
    manifest.round += 1;
    let signed = net.nodes[A].local.sign(&manifest).unwrap();
    net.deliver(A, B, &PeerMessage::Manifest(signed));
    assert!(matches!(net.last_sent(B), PeerMessage::Refuse { refusal: Refusal::WrongDestination, .. }));
    assert_eq!(net.told(B, |event| matches!(event, Event::Fetch(_))), 1);
}

/// Shows: H-13, H-23
#[test]
fn manifest_is_bound_to_its_attempt_token_and_round() {
    let changes: [fn(&mut Manifest); 5] = [
        |manifest| manifest.mesh = MeshId::new([6; 32]),
        |manifest| manifest.handoff = HandoffId::new([66; 16]),
        |manifest| manifest.session = named("other").id(),
        |manifest| manifest.token = FencingToken { generation: 0, epoch: 7 },
        |manifest| manifest.round = cede_wire::limits::ROUNDS,
    ];
    for restart in [false, true] {
        for change in changes {
            let mut net = Net::pair();
            net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
            net.give(A, B);
            if restart {
                net.crash(B);
            }
            let mut manifest = manifest_sent(&net);
            manifest.round += 1;
            change(&mut manifest);
            let signed = net.nodes[A].local.sign(&manifest).unwrap();
            net.deliver(A, B, &PeerMessage::Manifest(signed));
            assert_eq!(net.told(B, |event| matches!(event, Event::Fetch(_))), 1, "fetches {manifest:?}");
        }
    }
}

/// Shows: H-16
#[test]
fn repeated_manifest_does_not_end_the_attempt() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.give(A, B);
    let manifest = net.find_sent(|message| matches!(message, PeerMessage::Manifest(_)));
    net.lose = Box::new(|_| false);
    net.deliver(A, B, &manifest);
    assert!(matches!(net.last_sent(B), PeerMessage::CommitAck(_)), "a repeated manifest is answered with the ack");
    net.run();
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-8
#[test]
fn designate_takes_only_the_payload_of_its_certificate() {
    let mut net = Net::pair();
    lose_stage_before_release(&mut net);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Manifest(_)));
    net.pass(limits::RELEASE_LONGEST);
    let mut manifest = manifest_sent(&net);
    manifest.root = root(&[6]);
    let signed = net.nodes[A].local.sign(&manifest).unwrap();
    let fetched = net.told(B, |event| matches!(event, Event::Fetch(_)));
    net.deliver(A, B, &PeerMessage::Manifest(signed));
    assert_eq!(net.told(B, |event| matches!(event, Event::Fetch(_))), fetched);
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
}

/// Shows: H-6, H-23, S-2
#[test]
fn forged_words_are_faults_and_change_nothing() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    let handoff = net.give(A, B);
    let (b, c) = (net.nodes[B].local.clone(), net.nodes[C].local.clone());
    let honest = b.sign(&ack(&b, handoff, net.id(A), &[1, 2])).unwrap();
    let forged = Signed::from_parts(honest.bytes().to_vec(), c.key(), [7; 64]);
    net.deliver(B, A, &PeerMessage::CommitAck(forged));
    assert_eq!(net.told(A, |event| matches!(event, Event::PeerFault { .. })), 1);
    let chain = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    let real = release(&net.nodes[A].local, b.device(), &chain[0], 0);
    let bytes = cede_wire::canonical::encode(&Custody::Release(real));
    let certificate = Signed::from_parts(bytes, net.nodes[A].local.key(), [7; 64]);
    net.deliver(C, B, &PeerMessage::Release { certificate, chain });
    assert_eq!(net.told(B, |event| matches!(event, Event::PeerFault { .. })), 1);
    assert!(net.acts(A) && !net.acts(B));
}

/// Shows: H-3
#[test]
fn chain_refuses_what_does_not_follow() {
    let (a, b, c) = (device(1), device(2), device(3));
    let first = genesis(&a, &key());
    let sign = |by: &LocalDevice, release: Release| by.sign(&Custody::Release(release)).unwrap();
    let second = sign(&a, release(&a, b.device(), &first, 0));
    let refused = |link: &Signed<Custody>| Chain::from_links(&[first.clone(), link.clone()]).unwrap_err();
    assert_eq!(Chain::from_links(&[]), Err(ChainError::NoGenesis));
    assert_eq!(Chain::begin(&second), Err(ChainError::NoGenesis));
    assert_eq!(refused(&first), ChainError::NoGenesis);
    assert_eq!(refused(&sign(&b, release(&b, c.device(), &first, 0))), ChainError::NotOwner);
    assert_eq!(refused(&sign(&a, release(&a, a.device(), &first, 0))), ChainError::NotOwner);
    assert_eq!(refused(&sign(&a, release(&a, b.device(), &second, 0))), ChainError::NotNext);
    assert_eq!(refused(&sign(&a, release(&a, b.device(), &first, 1))), ChainError::WrongToken);
    let skipped =
        Release { next_token: FencingToken { generation: 0, epoch: 2 }, ..release(&a, b.device(), &first, 0) };
    assert_eq!(refused(&sign(&a, skipped)), ChainError::WrongToken);
    let foreign = Release { mesh: MeshId::new([6; 32]), ..release(&a, b.device(), &first, 0) };
    assert_eq!(refused(&sign(&a, foreign)), ChainError::Foreign);
    let other = Release { session: named("other").id(), ..release(&a, b.device(), &first, 0) };
    assert_eq!(refused(&sign(&a, other)), ChainError::Foreign);
    let forged = Signed::from_parts(second.bytes().to_vec(), *second.key(), [7; 64]);
    assert_eq!(refused(&forged), ChainError::Forged);
    assert_eq!(Chain::from_links(&[first, second]).unwrap().owner(), b.device());
}

/// Shows: H-3
#[test]
fn forked_chain_is_refused_and_the_known_one_stays() {
    let mut net = Net::three();
    net.give(A, B);
    let (a, c) = (net.nodes[A].local.clone(), net.nodes[C].local.clone());
    let chain = net.nodes[B].custodian.chain(session()).unwrap().links().to_vec();
    let fork = a.sign(&Custody::Release(release(&a, c.device(), &chain[0], 0))).unwrap();
    let Custody::Release(mut onward) = Custody::Release(release(&c, a.device(), &fork, 1)) else { return };
    onward.handoff = HandoffId::new([201; 16]);
    let certificate = c.sign(&Custody::Release(onward)).unwrap();
    let links = vec![chain[0].clone(), fork];
    net.deliver(C, B, &PeerMessage::Release { certificate, chain: links });
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-31
#[test]
fn seize_without_the_votes_that_it_takes_is_refused_in_every_message() {
    let mut net = Net::three();
    net.give(A, B);
    let (c, chain) = (net.nodes[C].local.clone(), net.nodes[B].custodian.chain(session()).unwrap().clone());
    let certificate = seize(&c, chain.last_signed().unwrap(), chain.token());
    net.deliver(C, B, &PeerMessage::Release { certificate: certificate.clone(), chain: chain.links().to_vec() });
    let mut offer = offer_of(&c, net.id(B), HandoffId::new([9; 16]), &key());
    offer.token = FencingToken { generation: 1, epoch: 0 };
    let links = [chain.links(), &[certificate]].concat();
    net.deliver(C, B, &PeerMessage::Custody(links.clone()));
    net.deliver(C, B, &PeerMessage::Offer { offer: c.sign(&offer).unwrap(), chain: links });
    assert!(matches!(net.last_sent(B), PeerMessage::Refuse { refusal: Refusal::Unauthorized, .. }));
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-15
#[test]
fn release_that_nobody_approved_takes_no_session_and_fetches_nothing() {
    let mut net = Net::three();
    // B has a session of its own under the key that C makes a chain for.
    let (c, b) = (net.nodes[C].local.clone(), net.id(B));
    let first = genesis(&c, &key());
    let certificate = c.sign(&Custody::Release(release(&c, b, &first, 0))).unwrap();
    net.deliver(C, B, &PeerMessage::Release { certificate, chain: vec![first.clone()] });
    net.deliver(C, B, &PeerMessage::Release { certificate: first, chain: Vec::new() });
    assert!(net.nodes[B].custodian.may_act(session()), "a peer takes a session by a letter");
    assert_eq!(net.nodes[B].journal, []);
    assert_eq!(net.told(B, |event| matches!(event, Event::Refetch { .. })), 0);
}

/// Shows: C-4, T-11
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn releases_and_offers_that_nobody_asked_for_fill_no_memory() {
    let mut net = Net::three();
    let (c, b) = (net.nodes[C].local.clone(), net.id(B));
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    for n in 0..200_u8 {
        let key = named(&format!("s{n}"));
        let first = genesis(&c, &key);
        let owned = Release { session: key.id(), ..release(&c, b, &first, 0) };
        let certificate = c.sign(&Custody::Release(owned)).unwrap();
        net.deliver(C, B, &PeerMessage::Release { certificate, chain: vec![first.clone()] });
        let other = named(&format!("o{n}"));
        let offer = offer_of(&c, b, HandoffId::new([n; 16]), &other);
        let offer = PeerMessage::Offer { offer: c.sign(&offer).unwrap(), chain: vec![genesis(&c, &other)] };
        net.deliver(C, B, &offer);
    }
    assert_eq!(net.nodes[B].custodian.unclaimed().count(), limits::UNCLAIMED);
    assert_eq!(net.nodes[B].custodian.sessions.len(), limits::UNCLAIMED + limits::QUESTIONS_PER_PEER);
    net.give(A, B);
    assert!(net.nodes[B].custodian.asked(session()).is_some(), "one peer takes the places of the others");
    for n in 0..200_u8 {
        net.deliver(C, B, &PeerMessage::Abort { handoff: HandoffId::new([n; 16]), refusal: Refusal::Cancelled });
    }
    assert_eq!(net.nodes[B].custodian.sessions.len(), limits::UNCLAIMED + 1);
}

/// Shows: H-3, H-14
#[test]
fn approval_after_the_session_went_on_is_refused_and_rolls_nothing_back() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    // B is asked again; then A, whose withdrawal is lost, gives the session to C instead, and B hears of it.
    net.ignore =
        Box::new(|event| matches!(event, Event::AskOperator(offer) if offer.handoff == HandoffId::new([3; 16])));
    let handoff = net.give(A, B);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Abort { .. }));
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    net.give(A, C);
    let chain = net.nodes[C].custodian.chain(session()).unwrap().clone();
    let certificate = chain.last_signed().unwrap().clone();
    net.deliver(C, B, &PeerMessage::Release { certificate, chain: chain.before_last().to_vec() });
    assert_eq!(net.told(B, |event| matches!(event, Event::Withdrawn { handoff: h, .. } if *h == handoff)), 1);
    let now = net.now;
    assert_eq!(net.nodes[B].custodian.approve(session(), handoff, [0; 32], Vec::new(), now), Err(Refusal::Expired));
    net.drain(B);
    assert_eq!(net.after_crash(B), Some(Standing::Elsewhere(net.id(C))));
    net.only_owner(C, &[1, 2]);
}

/// Shows: H-3, H-4
#[test]
fn session_that_is_adopted_while_it_is_offered_here_stays_its_owners() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.offer(A, B);
    net.step();
    net.turn(B, 9);
    net.nodes[B].logs.insert(session(), vec![9]);
    net.attempts = 40;
    let asked = HandoffId::new([1; 16]);
    let (c, now) = (net.id(C), net.now);
    net.nodes[B].custodian.offer(&key(), c, HandoffId::new([41; 16]), terms(head(&[9])), now).unwrap();
    let approved = net.nodes[B].custodian.approve(session(), asked, [0; 32], Vec::new(), now);
    assert_eq!(approved, Err(Refusal::Expired), "B would act under a chain that names A");
    assert_eq!(net.nodes[B].custodian.owner(session()), Some(net.id(B)));
}

/// Shows: H-4
#[test]
fn question_of_one_device_is_not_displaced_by_another() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.give(A, B);
    let c = net.nodes[C].local.clone();
    let offer = offer_of(&c, net.id(B), HandoffId::new([60; 16]), &key());
    net.deliver(C, B, &PeerMessage::Offer { offer: c.sign(&offer).unwrap(), chain: vec![genesis(&c, &key())] });
    assert!(matches!(net.last_sent(B), PeerMessage::Refuse { refusal: Refusal::Busy, .. }));
    assert_eq!(net.nodes[B].custodian.asked(session()).unwrap().source, net.id(A));
}

/// Shows: H-11
#[test]
fn second_offer_of_the_same_owner_ends_the_first() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Abort { .. } | PeerMessage::CommitAck(_)));
    let first = net.give(A, B);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Abort { .. }));
    net.give(A, B);
    let discarded = |event: &Event| matches!(event, Event::Discard { handoff, .. } if *handoff == first);
    assert_eq!(net.told(B, discarded), 1);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-6
#[test]
fn two_concurrent_commits_are_one() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::AckHeld { .. }));
    let handoff = net.give(A, B);
    let (c, quiet, now) = (net.id(C), net.nodes[A].quiet(session()), net.now);
    let second = net.nodes[A].custodian.offer(&key(), c, HandoffId::new([60; 16]), terms(head(&[1, 2])), now);
    assert_eq!(second, Err(super::super::OfferError::Busy(handoff)));
    net.nodes[A].custodian.decide(session(), handoff, quiet, now);
    net.nodes[A].custodian.decide(session(), handoff, quiet, now);
    net.drain(A);
    net.run();
    let certificates = net.nodes[A].journal.iter().filter(|record| matches!(record, Record::Custody(_))).count();
    assert_eq!(certificates, 2, "a genesis and one release");
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-4
#[test]
fn sessions_cross_each_other_on_the_way() {
    let mut net = Net::pair();
    let (other, a, now) = (named("other"), net.id(A), net.now);
    net.nodes[B].logs.insert(other.id(), vec![7]);
    net.offer(A, B);
    net.nodes[B].custodian.offer(&other, a, HandoffId::new([70; 16]), terms(head(&[7])), now).unwrap();
    net.drain(B);
    net.run();
    net.only_owner(B, &[1, 2]);
    assert_eq!(net.nodes[A].custodian.standing(other.id()), Some(Standing::InCharge));
    assert_eq!(net.nodes[B].custodian.standing(other.id()), Some(Standing::Elsewhere(a)));
    assert_eq!(net.nodes[A].logs.get(&other.id()).unwrap(), &[7]);
}

/// Shows: H-24, R-2
#[test]
fn journal_that_contradicts_itself_restores_only_without_trust() {
    let (a, b) = (Arc::new(device(1)), device(2));
    let first = genesis(&a, &key());
    let journal = [Record::Custody(first.clone()), Record::Custody(genesis(&b, &key()))];
    let now = Now { monotonic: Duration::ZERO, unix_ms: 0 };
    let restored =
        |trust| Custodian::restore(a.clone(), Incarnation::new([9; 16]), Some(mesh()), journal.iter(), trust, now);
    assert!(restored(Trust::Whole).is_err());
    let custodian = restored(Trust::Unconfirmed).unwrap();
    assert_eq!(custodian.standing(session()), Some(Standing::Unconfirmed));
    assert!(!custodian.may_act(session()));
}

fn manifest_sent(net: &Net) -> Manifest {
    let PeerMessage::Manifest(signed) = net.find_sent(|message| matches!(message, PeerMessage::Manifest(_))) else {
        panic!("no manifest was sent")
    };
    (*cede_seal::verify::verify(&signed).unwrap()).clone()
}

fn device(n: u8) -> LocalDevice {
    LocalDevice::from_secret(&[n; 32])
}
