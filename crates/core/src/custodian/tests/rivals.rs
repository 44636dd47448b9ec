//! Two records that claim one place in a chain, and seizes under a membership of the past.

use super::*;

/// A released the session to B, was put back to its state before that without anybody noticing, and released it to C.
fn released_twice() -> Net {
    let mut net = Net::new(3);
    net.turn(A, 1);
    net.turn(A, 2);
    let before = net.nodes[A].journal.clone();
    net.link(A, B);
    net.give(A, B);
    net.only_owner(B, &[1, 2]);
    let a = net.id(A);
    net.nodes[B].custodian.link_down(a);
    net.nodes[A].journal = before;
    net.crash(A);
    net.turn(A, 3);
    net.apart = true;
    net.link(A, C);
    net.give(A, C);
    assert!(net.acts(B) && net.acts(C), "neither can know of the other");
    net
}

/// Shows: H-33, J-1
#[test]
fn two_releases_under_one_token_stop_both_receivers_once_they_meet() {
    let mut net = released_twice();
    net.link(B, C);
    net.apart = false;
    for (node, other) in [(B, C), (C, B)] {
        assert_eq!(net.standing(node), Some(Standing::Unconfirmed));
        assert_eq!(net.nodes[node].custodian.contested(session()), Some(net.id(other)));
        assert_eq!(net.after_crash(node), Some(Standing::Unconfirmed));
        net.nodes[node].custodian.confirm_all();
        net.drain(node);
        assert_eq!(net.standing(node), Some(Standing::Unconfirmed), "a word of one side ends no contest");
    }
    // The person goes on at C, with the vote of B: the turns that lie at B alone are kept aside.
    net.turn(B, 9);
    net.lose_device(A);
    let (here, now) = (head(net.log(C)), net.now);
    net.nodes[C].custodian.seize(session(), Some(here), now).unwrap();
    net.drain(C);
    net.run();
    net.only_owner(C, &[1, 2, 3]);
    assert_eq!(net.standing(B), Some(Standing::SeizedBy(net.id(C))));
    assert_eq!(net.nodes[B].branches, [vec![1, 2, 9]]);
    assert_eq!(net.after_crash(B), Some(Standing::SeizedBy(net.id(C))));
}

/// Shows: H-26, H-33
#[test]
fn device_that_is_shown_its_other_release_doubts_all_that_it_knows() {
    let mut net = released_twice();
    net.link(A, B);
    assert_eq!(net.nodes[A].custodian.doubt(), Some(cede_wire::record::Doubt::Forgotten));
    assert_eq!(net.nodes[A].custodian.contested(session()), Some(net.id(B)));
    assert!(!net.acts(B), "who hears of both stops");
    let by = |event: &Event| matches!(event, Event::Contested { by, .. } if *by == net.id(C));
    assert_eq!(net.told(B, by), 1, "whoever carries it, it names the other owner");
    assert_eq!(net.seize(A), Err(crate::custodian::SeizeError::Unconfirmed), "nor is it taken over in doubt");
    net.nodes[A].custodian.confirm_all();
    net.drain(A);
    assert_eq!(net.nodes[A].custodian.doubt(), None);
    assert_eq!(net.standing(A), Some(Standing::Unconfirmed), "the contradiction outlasts the doubt");
}

/// Shows: H-33
#[test]
fn second_release_stops_the_session_where_it_was_given_on_as_well() {
    let mut net = released_twice();
    net.turn(C, 4);
    net.give(C, A);
    assert!(net.acts(A), "the chain of A holds what it released this time, and it came back");
    net.link(A, B);
    net.apart = false;
    assert!(!net.acts(A) && !net.acts(B));
}

/// Shows: H-3, H-31
#[test]
fn founder_does_not_seize_alone_what_began_to_move_when_there_were_more() {
    let mut net = Net::three();
    let mut electorate = net.electorate();
    electorate.note(2, [net.id(A), net.id(B)].into());
    for node in [A, B, C] {
        net.nodes[node].custodian.set_electorate(electorate.clone());
    }
    net.give(A, B);
    net.give(B, A);
    let chain = net.nodes[A].custodian.chain(session()).unwrap();
    assert_eq!(chain.members(), 3);
    let last = chain.last_signed().unwrap().clone();
    let alone = |members| {
        let (token, prev, to) = (chain.token(), last.hash(), net.id(B));
        let next_token = token.next_generation().unwrap();
        let (mesh, session, head, votes) = (mesh(), session(), head(&[1]), Vec::new());
        let seize = Seize { mesh, session, prev, to, token, next_token, head, members, votes };
        net.nodes[B].local.sign(&Custody::Seize(seize)).unwrap()
    };
    let (of_two, of_three) = (alone(2), alone(3));
    assert_eq!(chain.clone().extend(&of_two), Err(crate::chain::ChainError::OldMembers));
    for forged in [of_two, of_three] {
        let mut links = net.nodes[B].custodian.chain(session()).unwrap().links().to_vec();
        links.push(forged);
        for node in [A, C] {
            net.deliver(B, node, &PeerMessage::Custody(links.clone()));
        }
        net.only_owner(A, &[1, 2]);
    }
    // Nor does B itself begin one that nobody would believe.
    let mut two = Electorate::default();
    two.note(2, [net.id(A), net.id(B)].into());
    net.nodes[B].custodian.set_electorate(two);
    let begun = net.nodes[B].custodian.prospect(session(), Some(head(&[1])));
    assert_eq!(begun, Err(crate::custodian::SeizeError::OldMembers));
}

/// Shows: H-32, H-33
#[test]
fn who_comes_with_a_chain_that_a_seize_passed_is_told_so() {
    let mut net = released_twice();
    let passed = net.nodes[B].custodian.chain(session()).unwrap().links().to_vec();
    net.link(B, C);
    net.apart = false;
    let (here, now) = (head(net.log(C)), net.now);
    net.nodes[C].custodian.seize(session(), Some(here), now).unwrap();
    net.drain(C);
    net.run();
    net.only_owner(C, &[1, 2, 3]);
    net.sent.clear();
    let other = genesis(&net.nodes[B].local, &named("other"));
    net.deliver(B, C, &PeerMessage::Custody(vec![other]));
    net.deliver(B, C, &PeerMessage::Custody(passed.clone()));
    let told = net.sent.iter().any(|(from, message)| *from == C && matches!(message, PeerMessage::Custody(_)));
    assert!(told, "the chain that stands is the answer");
    let mut offer = offer_of(&net.nodes[B].local, net.id(C), HandoffId::new([9; 16]), &key());
    offer.token = FencingToken { generation: 0, epoch: 1 };
    let offer = net.nodes[B].local.sign(&offer).unwrap();
    net.deliver(B, C, &PeerMessage::Offer { offer, chain: passed });
    net.only_owner(C, &[1, 2, 3]);
}

/// Shows: H-31, H-33
#[test]
fn second_seize_without_votes_stops_nobody_and_gets_no_vote() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    let (here, now) = (head(net.log(B)), net.now);
    net.nodes[B].custodian.seize(session(), Some(here), now).unwrap();
    net.drain(B);
    net.run();
    assert_eq!(net.standing(B), Some(Standing::InCharge));
    let mut links = net.nodes[B].custodian.chain(session()).unwrap().links().to_vec();
    links.pop();
    let last = links.last().unwrap().clone();
    let Custody::Release(release) = (*cede_seal::verify::verify(&last).unwrap()).clone() else { panic!("a release") };
    links.push(seize(&net.nodes[C].local, &last, release.next_token));
    net.deliver(C, B, &PeerMessage::Custody(links.clone()));
    assert_eq!(net.standing(B), Some(Standing::InCharge));
    assert_eq!(net.nodes[B].custodian.contested(session()), None);
    let query = PeerMessage::SeizeQuery { session: session(), generation: 2, members: 3, chain: links };
    net.deliver(C, B, &query);
    let refused = |message: &PeerMessage| {
        matches!(message, PeerMessage::SeizeAnswer { answer: Err((Refusal::Unauthorized, _)), .. })
    };
    assert!(net.sent.iter().any(|(from, message)| *from == B && refused(message)));
    assert_eq!(net.standing(B), Some(Standing::InCharge));
}

/// Shows: H-3, H-32
#[test]
fn chain_that_parted_takes_the_place_of_the_known_one_also_in_pieces() {
    // In the second round the others too seized in the generation of C, before they came to a higher one.
    for rival in [false, true] {
        let mut net = Net::three();
        let [a, b, c] = [A, B, C].map(|node| net.nodes[node].local.clone());
        let mut electorate = net.electorate();
        electorate.note(1, [a.device(), b.device()].into());
        electorate.note(2, [a.device(), c.device()].into());
        let first = genesis(&a, &key());
        let seized = seize_by(&c, &first, under(0, 0), under(1, 0), 2);
        net.nodes[C].journal = [&first, &seized].map(|link| Record::Custody(link.clone())).to_vec();
        net.crash(C);
        net.nodes[C].custodian.set_electorate(electorate);
        net.nodes[C].custodian.link_up(b.device(), net.now);
        net.drain(C);
        let mut links = vec![first];
        if rival {
            links.push(seize_by(&b, &links[0], under(0, 0), under(1, 0), 1));
            links.push(moved(&b, a.device(), &links[1], under(1, 0)));
        }
        for [from, to] in [[&a, &b], [&b, &a]].repeat(3) {
            let last = links.last().unwrap();
            let token = cede_seal::verify::verify(last).unwrap().token();
            links.push(moved(from, to.device(), last, token));
        }
        let token = cede_seal::verify::verify(links.last().unwrap()).unwrap().token();
        links.push(seize_by(&b, links.last().unwrap(), token, under(2, 0), 1));
        let (before, last) = links.split_at(links.len() - 1);
        for piece in before.chunks(3) {
            net.deliver(B, C, &PeerMessage::Custody(piece.to_vec()));
            let contested = if rival { Standing::Unconfirmed } else { Standing::InCharge };
            assert_eq!(net.standing(C), Some(contested));
        }
        let answers = net.sent.iter().filter(|(from, _)| *from == C).count();
        assert_eq!(answers, 1, "each piece is answered with all that is known");
        if rival {
            let chain = before.chunks(3).last().unwrap().to_vec();
            net.deliver(B, C, &PeerMessage::SeizeQuery { session: session(), generation: 2, members: 3, chain });
            let PeerMessage::SeizeAnswer { answer, .. } = net.last_sent(C) else { panic!("no answer") };
            assert!(answer.is_ok(), "a side that is told in pieces gets no vote: {answer:?}");
        }
        net.deliver(B, C, &PeerMessage::Custody(last.to_vec()));
        assert_eq!(net.standing(C), Some(Standing::SeizedBy(b.device())), "two devices act");
        assert_eq!(net.after_crash(C), net.standing(C));
        assert_eq!(net.nodes[C].custodian.chain(session()).unwrap().links(), links);
        assert!(net.nodes[C].custodian.told.is_empty());
    }
}

fn under(generation: u64, epoch: u64) -> FencingToken {
    FencingToken { generation, epoch }
}

fn seize_by(
    by: &LocalDevice,
    prev: &Signed<Custody>,
    token: FencingToken,
    next_token: FencingToken,
    members: u64,
) -> Signed<Custody> {
    by.sign(&Custody::Seize(Seize { next_token, members, ..seize_of(by, prev, token) })).unwrap()
}

fn moved(from: &LocalDevice, to: DeviceId, prev: &Signed<Custody>, token: FencingToken) -> Signed<Custody> {
    let next_token = token.next_epoch().unwrap();
    from.sign(&Custody::Release(Release { token, next_token, ..release(from, to, prev, 0) })).unwrap()
}
