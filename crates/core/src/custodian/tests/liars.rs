//! A device that belongs to the mesh and lies about custody: it may hinder its own sessions, and no others.

use cede_wire::custody::SeizeVote;

use super::*;
use crate::chain::Chain;
use crate::limits;

/// A mesh of A and B that became one of three: the log had two entries, and has three.
fn grown() -> Net {
    let mut net = Net::three();
    let two = two(&net);
    net.nodes[A].custodian.set_electorate(two.clone());
    net.nodes[B].custodian.set_electorate(two);
    net.give(A, B);
    net.give(B, A);
    net.know_all();
    net.only_owner(A, &[1, 2]);
    net
}

fn two(net: &Net) -> Electorate {
    let mut two = Electorate::default();
    two.note(2, [net.id(A), net.id(B)].into());
    two
}

impl Net {
    fn know_all(&mut self) {
        let mut three = self.electorate();
        three.note(2, [self.id(A), self.id(B)].into());
        self.nodes.iter_mut().for_each(|node| node.custodian.set_electorate(three.clone()));
    }
}

fn alone(by: &LocalDevice, chain: &[Signed<Custody>], members: u64, generation: u64) -> Vec<Signed<Custody>> {
    let chain = Chain::from_links(chain).unwrap();
    let next_token = FencingToken { generation, epoch: 0 };
    let seize = Seize {
        mesh: mesh(),
        session: session(),
        prev: chain.head(),
        to: by.device(),
        token: chain.token(),
        next_token,
        head: head(&[1]),
        members,
        votes: Vec::new(),
    };
    let mut links = chain.links().to_vec();
    links.push(by.sign(&Custody::Seize(seize)).unwrap());
    links
}

/// Shows: H-31, H-33
#[test]
fn founder_does_not_take_alone_by_an_older_record_what_moved_since_there_were_more() {
    let mut net = grown();
    net.give(A, C);
    net.give(C, A);
    let links = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    for generation in [1, 7] {
        let forged = alone(&net.nodes[B].local, &links[..1], 2, generation);
        for node in [A, C] {
            net.deliver(B, node, &PeerMessage::Custody(forged.clone()));
        }
        assert_eq!(net.nodes[A].custodian.owner(session()), Some(net.id(A)));
    }
}

/// Shows: H-31, H-33
#[test]
fn device_that_seized_alone_and_one_that_got_the_session_meanwhile_stop_until_one_is_voted_for() {
    let mut net = grown();
    // B has not heard that there are three, nor of what follows.
    let two = two(&net);
    let local = net.nodes[B].local.clone();
    net.lose_device(B);
    net.give(A, C);
    net.turn(C, 7);
    net.nodes[B].custodian = restore(&local, &net.nodes[B].journal, Trust::Whole, net.now);
    net.nodes[B].custodian.set_electorate(two);
    net.apart = true;
    let (here, now) = (head(net.log(B)), net.now);
    net.nodes[B].custodian.seize(session(), Some(here), now).unwrap();
    net.drain(B);
    assert!(net.acts(B) && net.acts(C), "neither can know of the other");
    net.know_all();
    net.lose_device(A);
    net.link(B, C);
    net.apart = false;
    for node in [B, C] {
        assert_eq!(net.standing(node), Some(Standing::Unconfirmed));
        assert_eq!(net.after_crash(node), Some(Standing::Unconfirmed));
    }
    net.seize(C).unwrap();
    net.only_owner(C, &[1, 2, 7]);
    assert_eq!(net.standing(B), Some(Standing::SeizedBy(net.id(C))));
    assert_eq!(net.nodes[B].branches, [vec![1, 2]]);
    for node in [B, C] {
        assert_eq!(net.nodes[node].custodian.contested(session()), None);
        assert_eq!(net.after_crash(node), net.standing(node));
    }
}

/// Shows: H-3, H-31
#[test]
fn owner_that_names_a_membership_that_is_not_there_keeps_nobody_from_a_seize() {
    let mut net = Net::new(5);
    net.turn(A, 1);
    net.heal();
    net.give(A, C);
    net.give(C, B);
    let mut far = net.electorate();
    far.note(u64::MAX, [net.id(A), net.id(B)].into());
    net.nodes[B].custodian.set_electorate(far);
    net.give(B, A);
    let known = net.nodes[A].custodian.chain(session()).unwrap();
    assert!(known.members() <= 5, "what nobody knows is not believed");
    let chain = net.nodes[B].custodian.chain(session()).unwrap().links().to_vec();
    net.deliver(B, C, &PeerMessage::Custody(chain));
    net.lose_device(B);
    let (here, now) = (head(net.log(C)), net.now);
    net.nodes[C].custodian.seize(session(), Some(here), now).unwrap();
    net.drain(C);
    net.run();
    assert!(net.acts(C));
}

/// Shows: H-31, H-32
#[test]
fn chain_that_names_new_members_is_taken_once_they_are_known() {
    let mut net = Net::three();
    net.give(A, C);
    net.give(C, B);
    let mut old = Electorate::default();
    old.note(2, [net.id(A), net.id(B), net.id(C)].into());
    net.nodes[C].custodian.set_electorate(old);
    net.give(B, A);
    assert_eq!(net.nodes[C].custodian.owner(session()), Some(net.id(B)), "C was not told, or could not follow");
    net.link(B, C);
    assert_eq!(net.nodes[C].custodian.owner(session()), Some(net.id(B)));
    let all = net.electorate();
    net.nodes[C].custodian.set_electorate(all);
    net.drain(C);
    net.run();
    assert_eq!(net.nodes[C].custodian.owner(session()), Some(net.id(A)));
}

/// Shows: H-31, H-33
#[test]
fn founder_that_takes_alone_stops_the_others_only_as_far_as_a_vote_can_end_it() {
    for (generation, acts) in [(limits::GENERATIONS_AHEAD, false), (limits::GENERATIONS_AHEAD + 1, true)] {
        let mut net = grown();
        net.give(A, C);
        let links = net.nodes[C].custodian.chain(session()).unwrap().links().to_vec();
        let forged = alone(&net.nodes[B].local, &links[..1], 2, generation);
        net.deliver(B, C, &PeerMessage::Custody(forged));
        assert_eq!((net.acts(C), net.nodes[C].custodian.contested(session()).is_none()), (acts, acts));
    }
}

/// Shows: H-31, H-33
#[test]
fn session_that_was_once_seized_alone_travels_on_once_there_are_more() {
    let mut net = Net::three();
    let two = two(&net);
    net.nodes[A].custodian.set_electorate(two.clone());
    net.nodes[B].custodian.set_electorate(two);
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.seize(B).unwrap();
    net.know_all();
    net.heal();
    net.give(B, C);
    net.give(C, B);
    net.only_owner(B, &[1, 2]);
    assert_eq!(net.nodes[C].custodian.contested(session()), None, "what both know contradicts nothing");
}

/// Shows: H-31
#[test]
fn vote_of_another_mesh_spoils_no_seize() {
    let mut net = Net::new(5);
    net.turn(A, 1);
    net.heal();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeAnswer { .. }));
    let (here, now) = (head(net.log(B)), net.now);
    net.nodes[B].custodian.seize(session(), Some(here), now).unwrap();
    net.drain(B);
    net.run();
    let answer = |net: &Net, voter: usize, mesh: MeshId| {
        let prev = net.nodes[B].custodian.chain(session()).unwrap().head();
        let (session, to, voter) = (session(), net.id(B), &net.nodes[voter].local);
        let vote = SeizeVote { mesh, session, generation: 1, members: 5, prev, to, voter: voter.device() };
        PeerMessage::SeizeAnswer { session, generation: 1, answer: Ok(voter.sign(&vote).unwrap()) }
    };
    let answers = [(C, MeshId::new([6; 32])), (3, mesh()), (4, mesh())].map(|(n, mesh)| (n, answer(&net, n, mesh)));
    for (voter, answer) in answers {
        net.deliver(voter, B, &answer);
    }
    assert!(net.acts(B), "two honest votes and its own suffice of five");
}

/// Shows: H-33
#[test]
fn of_four_that_one_owner_released_to_one_gets_the_votes_of_all() {
    let mut net = Net::new(5);
    net.turn(A, 1);
    let before = net.nodes[A].journal.clone();
    net.apart = true;
    for to in [B, C, 3, 4] {
        net.nodes[A].journal = before.clone();
        net.crash(A);
        net.link(A, to);
        net.give(A, to);
        net.lose_device(A);
        assert!(net.acts(to));
    }
    // They meet two by two first, so that each pair knows of another contradiction.
    for (one, other) in [(B, C), (3, 4), (B, 3), (B, 4), (C, 3), (C, 4)] {
        net.link(one, other);
    }
    net.apart = false;
    let (here, now) = (head(net.log(B)), net.now);
    net.nodes[B].custodian.seize(session(), Some(here), now).unwrap();
    net.drain(B);
    net.run();
    net.only_owner(B, &[1]);
}

/// Shows: H-31, H-33
#[test]
fn second_seize_stops_nobody_where_one_before_it_lacks_its_votes() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    let (here, now) = (head(net.log(B)), net.now);
    net.nodes[B].custodian.seize(session(), Some(here), now).unwrap();
    net.drain(B);
    net.run();
    assert!(net.acts(B));
    // A was removed: two are left, of which C invents a chain that it alone has seized, twice.
    let mut electorate = net.electorate();
    electorate.note(4, [net.id(B), net.id(C)].into());
    net.nodes[B].custodian.set_electorate(electorate);
    net.turn(B, 3);
    let links = net.nodes[B].custodian.chain(session()).unwrap().links().to_vec();
    let first = alone(&net.nodes[C].local, &links[..3], 4, 1);
    let mut again = alone(&net.nodes[C].local, &first, 4, 2);
    net.deliver(C, B, &PeerMessage::Custody(again.clone()));
    assert!(net.acts(B));
    // The same in the generation that is known.
    again = alone(&net.nodes[B].local, &links, 4, 2);
    let known = again.clone();
    net.nodes[B].journal.push(Record::Custody(known.last().unwrap().clone()));
    net.nodes[B].custodian = restore(&net.nodes[B].local, &net.nodes[B].journal, Trust::Whole, net.now);
    let mut electorate = net.electorate();
    electorate.note(4, [net.id(B), net.id(C)].into());
    net.nodes[B].custodian.set_electorate(electorate);
    assert!(net.acts(B));
    again = alone(&net.nodes[C].local, &first, 4, 2);
    net.deliver(C, B, &PeerMessage::Custody(again));
    assert_eq!(net.nodes[B].custodian.contested(session()), None);
    assert!(net.acts(B));
}

/// A chain of B's making: the session was A's for a moment, and B seized it while the two were alone.
fn made_up(net: &Net, key: &SessionKey) -> PeerMessage {
    let (a, b) = (net.id(A), net.nodes[B].local.clone());
    let first = genesis(&b, key);
    let to_a = b.sign(&Custody::Release(Release { session: key.id(), ..release(&b, a, &first, 0) })).unwrap();
    let token = FencingToken { generation: 0, epoch: 1 };
    let seize = Seize { session: key.id(), members: 2, ..seize_of(&b, &to_a, token) };
    PeerMessage::Custody(vec![first, to_a, b.sign(&Custody::Seize(seize)).unwrap()])
}

/// Shows: H-3, C-4
#[test]
#[cfg_attr(miri, ignore = "thousands of signatures take the interpreter hours")]
fn chain_that_names_a_device_takes_nothing_from_it_and_fills_no_journal() {
    let mut net = Net::three();
    net.know_all();
    let keys = (0..limits::NAMED + 10).map(|n| named(&format!("s{n}")));
    let messages: Vec<PeerMessage> = [key()].into_iter().chain(keys).map(|key| made_up(&net, &key)).collect();
    messages.iter().take(200).for_each(|message| net.deliver(B, A, message));
    assert!(net.nodes[A].custodian.may_act(session()), "what never moved is taken from its device by a letter");
    assert_eq!((net.nodes[A].custodian.sessions.len(), net.nodes[A].journal.len()), (0, 0));
    // A device in doubt may have forgotten that it had a session: it believes that of so many.
    net.nodes[A].trust = Trust::Unconfirmed;
    net.crash(A);
    net.know_all();
    messages.iter().for_each(|message| net.deliver(B, A, message));
    assert_eq!(net.nodes[A].custodian.sessions.len(), limits::NAMED);
}

/// Shows: H-3, H-33
#[test]
fn beginning_that_was_told_before_a_session_began_here_is_none_of_it() {
    for made in [false, true] {
        let mut net = Net::three();
        net.know_all();
        let b = net.nodes[B].local.clone();
        let first = genesis(&b, &key());
        net.deliver(B, A, &PeerMessage::Custody(vec![first.clone()]));
        net.offer(A, C);
        let journal = net.nodes[A].journal.clone();
        let released = b.sign(&Custody::Release(release(&b, net.id(C), &first, 0))).unwrap();
        let PeerMessage::Custody(links) = made_up(&net, &key()) else { panic!("no chain") };
        let rest = if made { links[1..].to_vec() } else { vec![released] };
        net.deliver(B, A, &PeerMessage::Custody(rest));
        assert_eq!(net.nodes[A].custodian.contested(session()), None, "a letter stops a session");
        assert_eq!(net.nodes[A].journal, journal, "a letter takes a session");
        assert!(net.acts(A));
        assert_eq!(net.after_crash(A), Some(Standing::InCharge));
    }
}

/// Shows: H-15, H-32
#[test]
fn release_that_waits_is_not_claimed_once_a_later_owner_was_told() {
    for told_first in [false, true] {
        let mut net = Net::three();
        net.know_all();
        let PeerMessage::Custody(links) = made_up(&net, &key()) else { panic!("no chain") };
        let released = PeerMessage::Release { certificate: links[1].clone(), chain: vec![links[0].clone()] };
        let mut messages = [(B, released), (C, PeerMessage::Custody(links))];
        if told_first {
            messages.reverse();
        }
        for (from, message) in &messages {
            net.deliver(*from, A, message);
        }
        let handoff = HandoffId::new([200; 16]);
        assert_eq!(net.nodes[A].custodian.claim(session(), handoff), Err(Refusal::Expired), "two devices act");
        assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(B))));
        assert_eq!(net.after_crash(A), net.standing(A));
    }
}

/// Shows: H-3, H-15
#[test]
#[cfg_attr(miri, ignore = "thousands of signatures take the interpreter hours")]
fn releases_that_wait_and_were_passed_fill_no_journal() {
    for told_first in [false, true] {
        let mut net = Net::three();
        net.know_all();
        let keys: Vec<SessionKey> = (0..limits::NAMED + 10).map(|n| named(&format!("s{n}"))).collect();
        for key in &keys {
            let chain = made_up(&net, key);
            let PeerMessage::Custody(links) = &chain else { panic!("no chain") };
            let released = PeerMessage::Release { certificate: links[1].clone(), chain: vec![links[0].clone()] };
            let messages = if told_first { [chain, released] } else { [released, chain] };
            messages.iter().for_each(|message| net.deliver(B, A, message));
        }
        let custodian = &mut net.nodes[A].custodian;
        assert_eq!((custodian.sessions.len(), custodian.unclaimed().count()), (limits::NAMED, 0));
        let last = keys.last().unwrap().id();
        assert_eq!(custodian.claim(last, HandoffId::new([200; 16])), Err(Refusal::Expired), "two devices act");
    }
}

/// Shows: H-3, H-15
#[test]
fn beginning_of_what_waits_for_a_claim_fills_no_journal_and_drops_no_release() {
    let mut net = Net::three();
    net.know_all();
    let c = net.nodes[C].local.clone();
    let keys: Vec<SessionKey> = (0..limits::UNCLAIMED + 10).map(|n| named(&format!("s{n}"))).collect();
    for key in &keys {
        let PeerMessage::Custody(links) = made_up(&net, key) else { panic!("no chain") };
        let first = vec![links[0].clone()];
        net.deliver(B, A, &PeerMessage::Release { certificate: links[1].clone(), chain: first.clone() });
        net.deliver(B, A, &PeerMessage::Custody(first));
        net.deliver(C, A, &PeerMessage::Custody(vec![genesis(&c, key)]));
    }
    let (custodian, handoff) = (&mut net.nodes[A].custodian, HandoffId::new([200; 16]));
    assert_eq!((custodian.sessions.len(), custodian.unclaimed().count()), (limits::UNCLAIMED, limits::UNCLAIMED));
    assert_eq!(
        custodian.claim(keys[0].id(), handoff),
        Ok(()),
        "whose release it is lost it to whom it does not concern"
    );
    assert_eq!(net.nodes[A].journal, [], "a letter is written down");
}

/// A seize of the session of [`key`] from its first owner, with the votes of two others.
fn voted_for(net: &Net, first: &Signed<Custody>) -> Signed<Custody> {
    let (by, prev) = (&net.nodes[C].local, first.hash());
    let vote = |voter: &LocalDevice| {
        let (session, to, voter_id) = (session(), by.device(), voter.device());
        let vote = SeizeVote { mesh: mesh(), session, generation: 1, members: 5, prev, to, voter: voter_id };
        voter.sign(&vote).unwrap()
    };
    let mut voters = [3, 4].map(|node| net.nodes[node].local.clone());
    voters.sort_by_key(|voter| voter.device());
    let votes = voters.iter().map(|voter| vote(voter)).collect();
    let seize = Seize { members: 5, votes, ..seize_of(by, first, FencingToken::FIRST) };
    by.sign(&Custody::Seize(seize)).unwrap()
}

/// Shows: H-15, H-32
#[test]
fn release_that_waits_is_not_claimed_once_a_seize_that_passed_it_was_told() {
    for told_first in [false, true] {
        let mut net = Net::new(5);
        net.heal();
        let b = net.nodes[B].local.clone();
        let first = genesis(&b, &key());
        let to_a = b.sign(&Custody::Release(release(&b, net.id(A), &first, 0))).unwrap();
        let seized = PeerMessage::Custody(vec![first.clone(), voted_for(&net, &first)]);
        let released = PeerMessage::Release { certificate: to_a, chain: vec![first] };
        let mut messages = [(B, released), (C, seized)];
        if told_first {
            messages.reverse();
        }
        for (from, message) in &messages {
            net.deliver(*from, A, message);
        }
        let handoff = HandoffId::new([200; 16]);
        assert_eq!(net.nodes[A].custodian.claim(session(), handoff), Err(Refusal::Expired), "two devices act");
        assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(C))));
        assert_eq!(net.after_crash(A), net.standing(A));
    }
}

/// Shows: H-3, H-31
#[test]
#[cfg_attr(miri, ignore = "thousands of signatures take the interpreter hours")]
fn votes_for_what_others_name_fill_no_journal() {
    let mut net = Net::three();
    net.know_all();
    let most = limits::STRANGE_VOTES.max(limits::NAMED);
    for n in 0..most + 10 {
        let key = named(&format!("s{n}"));
        let chain = made_up(&net, &key);
        let PeerMessage::Custody(links) = &chain else { panic!("no chain") };
        let first = vec![links[0].clone()];
        let query = PeerMessage::SeizeQuery { session: key.id(), generation: 1, members: 3, chain: first };
        [query, chain].iter().for_each(|message| net.deliver(B, A, message));
    }
    assert_eq!(net.nodes[A].custodian.sessions.len(), most);
}

/// Shows: H-3, H-26
#[test]
fn what_was_told_before_a_doubt_is_kept_in_it() {
    let mut net = Net::three();
    net.know_all();
    let forgotten = named("s2").id();
    let seized = made_up(&net, &named("s2"));
    net.deliver(B, A, &seized);
    assert!(net.nodes[A].custodian.may_act(forgotten), "a letter takes a session");
    let (a, to) = (net.nodes[A].local.clone(), net.id(C));
    let first = genesis(&a, &key());
    let given = a.sign(&Custody::Release(release(&a, to, &first, 0))).unwrap();
    net.deliver(C, A, &PeerMessage::Custody(vec![first, given]));
    assert_eq!(net.nodes[A].custodian.trust, Trust::Unconfirmed);
    let asks = |mail: &&Mail| mail.to == B && matches!(mail.message, PeerMessage::CustodyQuery(_));
    assert!(net.mail.iter().any(|mail| asks(&mail)), "who told it before is not asked again");
    net.deliver(B, A, &seized);
    net.nodes[A].custodian.confirm_all();
    net.drain(A);
    assert_eq!(net.nodes[A].custodian.standing(forgotten), Some(Standing::Elsewhere(net.id(B))), "two devices act");
    assert!(!net.nodes[A].custodian.may_act(forgotten));
}

/// Shows: H-9, H-26
#[test]
fn device_in_doubt_hears_that_a_session_was_seized_whose_arrival_it_forgot() {
    let mut net = Net::three();
    for (from, to) in [(A, C), (C, A), (A, B)] {
        net.give(from, to);
    }
    net.lose_device(B);
    net.apart = true;
    net.seize(C).unwrap();
    net.nodes[B].journal.clear();
    net.nodes[B].trust = Trust::Unconfirmed;
    net.crash(B);
    net.link(B, C);
    net.nodes[B].custodian.confirm_all();
    net.drain(B);
    assert_eq!(net.standing(B), Some(Standing::Elsewhere(net.id(C))));
    assert!(!net.nodes[B].custodian.may_act(session()));
}
