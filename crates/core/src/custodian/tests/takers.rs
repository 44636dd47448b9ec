//! Votes that are asked for and given: who is asked, whose word counts, and what a no leads to.

use cede_wire::custody::SeizeVote;
use cede_wire::message::KnownCustody;
use cede_wire::record::Doubt;

use super::*;
use crate::custodian::SeizeError;
use crate::electorate::VotesError;
use crate::limits;

/// Five devices; A, the owner, is gone, and B asks for votes that nobody hears of.
pub(super) fn asking() -> Net {
    let mut net = Net::new(5);
    net.turn(A, 1);
    net.heal();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.seize(B).unwrap();
    net
}

fn vote(net: &Net, voter: usize) -> SeizeVote {
    let prev = net.nodes[B].custodian.chain(session()).unwrap().head();
    let (to, voter) = (net.id(B), net.id(voter));
    SeizeVote { mesh: mesh(), session: session(), generation: 1, members: 5, prev, to, voter }
}

fn answer(net: &Net, voter: usize) -> PeerMessage {
    let answer = Ok(net.nodes[voter].local.sign(&vote(net, voter)).unwrap());
    PeerMessage::SeizeAnswer { session: session(), generation: 1, answer }
}

fn asked(net: &Net) -> usize {
    net.sent.iter().filter(|(_, message)| matches!(message, PeerMessage::SeizeQuery { .. })).count()
}

/// Shows: H-31
#[test]
fn voter_that_answered_is_not_asked_again_when_its_line_comes_back() {
    let mut net = asking();
    let yes = answer(&net, C);
    net.deliver(C, B, &yes);
    let no = Err((Refusal::Busy, String::new()));
    net.deliver(3, B, &PeerMessage::SeizeAnswer { session: session(), generation: 1, answer: no });
    let before = asked(&net);
    net.link(B, C);
    net.link(B, 3);
    assert_eq!(asked(&net), before);
    net.link(B, 4);
    assert_eq!(asked(&net), before + 1, "nothing was heard of it");
    net.pass(limits::VOTES);
    let told = |event: &Event| matches!(event, Event::NotSeized { answers, silent, .. } if answers.len() == 1 && *silent == [net.id(4)]);
    assert_eq!(net.told(B, told), 1, "of five one said yes and one no");
}

/// Shows: H-31
#[test]
fn word_of_the_lost_owner_of_a_stranger_and_of_another_voter_is_no_vote() {
    let mut net = asking();
    let of_owner = answer(&net, A);
    net.deliver(A, B, &of_owner);
    let carried = answer(&net, C);
    net.deliver(3, B, &carried);
    let signed = net.nodes[C].local.sign(&vote(&net, C)).unwrap();
    let forged = Signed::from_parts(signed.bytes().to_vec(), net.nodes[C].local.key(), [7; 64]);
    net.deliver(C, B, &PeerMessage::SeizeAnswer { session: session(), generation: 1, answer: Ok(forged) });
    net.deliver(
        C,
        B,
        &PeerMessage::SeizeAnswer { session: named("unknown").id(), generation: 1, answer: Ok(signed.clone()) },
    );
    let four = answer(&net, 4);
    net.deliver(4, B, &four);
    assert!(!net.acts(B), "one vote that counts, and its own");
    net.deliver(C, B, &PeerMessage::SeizeAnswer { session: session(), generation: 1, answer: Ok(signed) });
    assert!(net.acts(B), "two");
}

/// Shows: H-31
#[test]
fn no_of_a_device_that_has_no_vote_ends_no_seize() {
    let mut net = Net::new(4);
    let mut three = Electorate::default();
    three.note(4, [A, B, C].map(|node| net.id(node)).into());
    net.nodes.iter_mut().for_each(|node| node.custodian.set_electorate(three.clone()));
    net.turn(A, 1);
    net.heal();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.seize(B).unwrap();
    let no = Err((Refusal::Declined, String::new()));
    net.deliver(3, B, &PeerMessage::SeizeAnswer { session: session(), generation: 1, answer: no });
    assert_eq!(net.told(B, |event| matches!(event, Event::NotSeized { .. })), 0);
    let yes = Ok(net.nodes[C].local.sign(&SeizeVote { members: 4, ..vote(&net, C) }).unwrap());
    net.deliver(C, B, &PeerMessage::SeizeAnswer { session: session(), generation: 1, answer: yes });
    assert!(net.acts(B));
}

/// Shows: H-31
#[test]
#[cfg_attr(miri, ignore = "a hundred signatures take the interpreter minutes")]
fn certificate_holds_so_many_votes_and_no_more() {
    let most = cede_wire::limits::SEIZE_VOTES;
    let mut voters: Vec<LocalDevice> = (0..=most as u8).map(|n| LocalDevice::from_secret(&[n + 10; 32])).collect();
    voters.sort_by_key(LocalDevice::device);
    let (owner, by) = (LocalDevice::from_secret(&[1; 32]), LocalDevice::from_secret(&[2; 32]));
    let first = genesis(&owner, &key());
    let mut seize = seize_of(&by, &first, FencingToken::FIRST);
    let vote = |seize: &Seize, voter: &LocalDevice| {
        let (prev, to, voter_id) = (seize.prev, seize.to, voter.device());
        let vote = SeizeVote { mesh: mesh(), session: session(), generation: 1, members: 3, prev, to, voter: voter_id };
        voter.sign(&vote).unwrap()
    };
    let mut electorate = Electorate::default();
    let others = voters.iter().chain([&owner, &by]).map(LocalDevice::device);
    electorate.note(3, others.collect());
    seize.votes = voters.iter().take(most).map(|voter| vote(&seize, voter)).collect();
    assert_eq!(electorate.check(&seize, owner.device()), Ok(()));
    seize.votes = voters.iter().map(|voter| vote(&seize, voter)).collect();
    assert_eq!(electorate.check(&seize, owner.device()), Err(VotesError::BadVote));
}

/// Shows: H-31
#[test]
fn generation_in_which_another_device_has_a_vote_is_not_asked_for_again() {
    for (refusal, next) in [(Refusal::Busy, 1), (Refusal::Declined, 2)] {
        let mut net = Net::three();
        net.give(A, B);
        net.give(B, A);
        net.lose_device(A);
        net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
        net.seize(B).unwrap();
        let answer = Err((refusal, "the reason".to_owned()));
        net.deliver(C, B, &PeerMessage::SeizeAnswer { session: session(), generation: 1, answer });
        let prospect = net.nodes[B].custodian.prospect(session(), Some(head(&[1, 2]))).unwrap();
        assert_eq!(prospect.next_token.generation, next, "{refusal:?}");
    }
}

/// Shows: H-9, H-22
#[test]
fn device_in_doubt_seizes_nothing() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    net.nodes[B].journal.push(Record::Doubted { why: Doubt::Copied });
    net.crash(B);
    net.lose_device(A);
    assert_eq!(net.seize(B), Err(SeizeError::Unconfirmed));
}

/// Shows: H-31
#[test]
fn vote_is_asked_for_with_the_newest_chain_by_devices_that_are_enrolled() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, C);
    net.give(C, A);
    net.lose_device(A);
    let links = net.nodes[C].custodian.chain(session()).unwrap().links().to_vec();
    let ask = |net: &mut Net, links: &[Signed<Custody>], generation| {
        let (session, chain) = (session(), links.to_vec());
        net.deliver(B, C, &PeerMessage::SeizeQuery { session, generation, members: 3, chain });
        let said = net.find_sent(|message| matches!(message, PeerMessage::SeizeAnswer { .. }));
        let PeerMessage::SeizeAnswer { answer, .. } = said else { panic!("another message") };
        (answer.err().map(|(refusal, _)| refusal), matches!(net.last_sent(C), PeerMessage::Custody(_)))
    };
    assert_eq!(ask(&mut net, &links[..2], 1), (Some(Refusal::StaleToken), true), "it is told what it does not know");
    let unknown = genesis(&net.nodes[B].local.clone(), &named("unknown"));
    let query =
        PeerMessage::SeizeQuery { session: named("unknown").id(), generation: 0, members: 3, chain: vec![unknown] };
    net.deliver(B, C, &query);
    let stale = |message: &PeerMessage| {
        matches!(message, PeerMessage::SeizeAnswer { answer: Err((Refusal::StaleToken, _)), .. })
    };
    assert!(stale(net.last_sent(C)), "of what is unknown nothing more is told");
    let mut electorate = Electorate::default();
    electorate.note(3, [A, B].map(|node| net.id(node)).into_iter().collect());
    net.nodes[C].custodian.set_electorate(electorate);
    assert_eq!(ask(&mut net, &links, 1), (Some(Refusal::Unauthorized), false), "who is asked is not enrolled");
}

/// Shows: H-28
#[test]
fn question_for_as_many_sessions_as_a_message_holds_is_not_answered_with_others() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    let known = |n: usize| KnownCustody {
        session: named(&format!("s{n}")).id(),
        token: FencingToken::FIRST,
        record: Hash::of(b""),
    };
    let told = |net: &mut Net, most: usize| {
        let before = net.sent.len();
        net.deliver(B, A, &PeerMessage::CustodyQuery((0..most).map(known).collect()));
        net.sent.len() - before
    };
    let most = cede_wire::limits::LISTED_SESSIONS;
    assert_eq!((told(&mut net, most - 1), told(&mut net, most)), (1, 0), "what was not named may not be forgotten");
}

/// Shows: C-5, H-3
#[test]
fn custody_without_a_first_record_that_verifies_is_not_looked_at() {
    let mut net = Net::pair();
    net.give(A, B);
    let honest = net.nodes[A].custodian.chain(session()).unwrap().links()[0].clone();
    let forged = Signed::from_parts(honest.bytes().to_vec(), net.nodes[A].local.key(), [7; 64]);
    let before = (net.sent.len(), net.nodes[B].journal.clone());
    net.deliver(A, B, &PeerMessage::Custody(Vec::new()));
    net.deliver(A, B, &PeerMessage::Custody(vec![forged]));
    assert_eq!((net.sent.len(), net.nodes[B].journal.clone()), before);
    net.only_owner(B, &[1, 2]);
}
