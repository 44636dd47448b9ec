//! Words that come twice, too late, or for something else.

use cede_seal::verify::verify;
use cede_wire::custody::SeizeVote;
use cede_wire::message::HandoffStatus;

use super::*;
use crate::chain::{Chain, ChainError};
use crate::custodian::attempts::{Attempts, Ended};
use crate::limits;

const OTHER: HandoffId = HandoffId::new([99; 16]);

fn manifest_sent(net: &Net) -> Manifest {
    let PeerMessage::Manifest(signed) = net.find_sent(|message| matches!(message, PeerMessage::Manifest(_))) else {
        panic!("another message");
    };
    (*verify(&signed).unwrap()).clone()
}

fn fetched(net: &Net, node: usize) -> usize {
    net.told(node, |event| matches!(event, Event::Fetch(_)))
}

/// Shows: H-8
#[test]
fn designate_takes_the_payload_of_its_release_and_no_other() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    let (a, b) = (net.nodes[A].local.clone(), net.nodes[B].local.clone());
    let ack = b.sign(&ack(&b, handoff, net.id(A), &[1, 2])).unwrap();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Refetch(_)));
    net.deliver(B, A, &PeerMessage::CommitAck(ack));
    net.run();
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    let true_one = manifest_sent(&net);
    let before = fetched(&net, B);
    for wrong in [
        Manifest { root: root(&[9]), ..true_one.clone() },
        Manifest { head: head(&[1]), ..true_one.clone() },
        Manifest { last: false, ..true_one.clone() },
    ] {
        net.deliver(A, B, &PeerMessage::Manifest(a.sign(&wrong).unwrap()));
        assert_eq!(fetched(&net, B), before, "{wrong:?}");
    }
    net.heal();
    net.pass(limits::REFETCH);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-22
#[test]
fn unconfirmed_device_takes_no_offer_and_gives_no_vote() {
    let mut net = Net::three();
    net.give(A, C);
    net.give(C, A);
    net.nodes[C].trust = Trust::Unconfirmed;
    net.crash(C);
    let chain = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    net.deliver(B, C, &PeerMessage::SeizeQuery { session: session(), generation: 1, members: 3, chain });
    let answer = net.find_sent(|message| matches!(message, PeerMessage::SeizeAnswer { .. }));
    assert!(matches!(answer, PeerMessage::SeizeAnswer { answer: Err((Refusal::Busy, _)), .. }), "{answer:?}");
    assert!(!net.nodes[C].journal.iter().any(|record| matches!(record, Record::Voted { .. })));
    net.mail.clear();
    net.offer(A, C);
    net.run();
    assert_eq!(net.refusal(A), Some(Refusal::Busy));
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-28, H-31
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn votes_for_sessions_that_are_not_known_have_a_limit() {
    let mut net = Net::new(3);
    let a = net.nodes[A].local.clone();
    for n in 0..=limits::STRANGE_VOTES {
        let key = named(&format!("s{n}"));
        let chain = vec![genesis(&a, &key)];
        let query = PeerMessage::SeizeQuery { session: key.id(), generation: 1, members: 3, chain };
        // Asked again the chain is kept as well, which makes no room.
        for _ in 0..2 {
            net.deliver(B, C, &query);
            let PeerMessage::SeizeAnswer { answer, .. } = net.last_sent(C) else { panic!("another message") };
            let wanted = (n == limits::STRANGE_VOTES).then_some(Refusal::Busy);
            assert_eq!(answer.as_ref().err().map(|(refusal, _)| *refusal), wanted, "vote {n}");
        }
    }
    let votes = net.nodes[C].journal.iter().filter(|record| matches!(record, Record::Voted { .. })).count();
    assert_eq!(votes, limits::STRANGE_VOTES);
}

/// Shows: H-31
#[test]
fn vote_for_something_else_is_not_counted() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    let (gone, c, now) = (net.id(A), net.nodes[C].local.clone(), net.now);
    net.nodes[B].custodian.link_down(gone);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.nodes[B].custodian.seize(session(), Some(head(&[1, 2])), now).unwrap();
    net.drain(B);
    let (to, voter) = (net.id(B), net.id(C));
    let prev = net.nodes[B].custodian.chain(session()).unwrap().head();
    let vote = SeizeVote { mesh: mesh(), session: session(), generation: 1, members: 3, prev, to, voter };
    let say = |net: &mut Net, generation: u64, vote: &SeizeVote| {
        let answer = Ok(c.sign(vote).unwrap());
        net.deliver(C, B, &PeerMessage::SeizeAnswer { session: session(), generation, answer });
        net.standing(B) == Some(Standing::InCharge)
    };
    assert!(!say(&mut net, 2, &vote), "another question");
    assert!(!say(&mut net, 1, &SeizeVote { session: named("other").id(), ..vote.clone() }));
    assert!(!say(&mut net, 1, &SeizeVote { generation: 2, ..vote.clone() }));
    assert!(!say(&mut net, 1, &SeizeVote { members: 2, ..vote.clone() }));
    assert!(!say(&mut net, 1, &SeizeVote { to: gone, ..vote.clone() }));
    assert!(!say(&mut net, 1, &SeizeVote { prev: Hash::of(b"an older owner"), ..vote.clone() }));
    assert!(say(&mut net, 1, &vote), "the vote itself");
}

/// Shows: H-16, H-27
#[test]
fn offer_that_comes_again_asks_nobody_again() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    let offer = net.find_sent(|message| matches!(message, PeerMessage::Offer { .. }));
    let asked = |net: &Net| net.told(B, |event| matches!(event, Event::AskOperator(_)));
    net.deliver(A, B, &offer);
    assert_eq!(asked(&net), 1);
    net.nodes[B].custodian.decline(session(), handoff, Refusal::Declined, "no");
    net.drain(B);
    net.run();
    net.deliver(A, B, &offer);
    assert_eq!(asked(&net), 1, "an attempt that ended is over");
    let refused = |message: &PeerMessage| matches!(message, PeerMessage::Refuse { refusal: Refusal::Cancelled, .. });
    assert!(refused(net.last_sent(B)), "{:?}", net.last_sent(B));
}

/// Shows: H-16, H-22
#[test]
fn accept_that_comes_after_the_release_is_answered_with_it() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    let accept = net.find_sent(|message| matches!(message, PeerMessage::Accept(_)));
    net.sent.clear();
    net.deliver(B, A, &accept);
    assert!(matches!(net.last_sent(A), PeerMessage::Release { .. }));
    net.nodes[A].trust = Trust::Unconfirmed;
    net.crash(A);
    net.sent.clear();
    net.deliver(B, A, &accept);
    assert_eq!(net.sent.len(), 0, "its records are in doubt: it says nothing");
}

/// Shows: H-7
#[test]
fn only_the_session_that_arrived_is_put_in_its_place_and_once() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Activate { .. }));
    let handoff = net.give(A, B);
    net.nodes[B].custodian.receive_failed(session(), OTHER, Refusal::IntegrityFailed, "of another attempt");
    net.nodes[B].custodian.installed(session(), OTHER);
    net.drain(B);
    assert!(!net.acts(B), "another attempt puts nothing in its place");
    net.nodes[B].logs.insert(session(), vec![1, 2]);
    net.nodes[B].custodian.installed(session(), handoff);
    net.drain(B);
    net.run();
    net.only_owner(B, &[1, 2]);
    let journal = net.nodes[B].journal.clone();
    net.nodes[B].custodian.installed(session(), handoff);
    net.drain(B);
    assert_eq!(net.nodes[B].journal, journal);
}

/// Shows: H-16
#[test]
fn status_of_an_attempt_that_ended_says_so() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "the reason");
    net.drain(A);
    net.run();
    for (handoff, wanted) in [(handoff, HandoffStatus::Discarded), (OTHER, HandoffStatus::Unknown)] {
        net.deliver(A, B, &PeerMessage::Status { handoff, session: session() });
        let PeerMessage::StatusAnswer { status, .. } = net.last_sent(B) else { panic!("another message") };
        assert_eq!(status, &wanted);
    }
}

/// Shows: H-11
#[test]
fn attempts_that_ended_are_remembered_within_a_limit() {
    let id = |n: usize| HandoffId::new([u8::try_from(n).unwrap(); 16]);
    let mut ended = Ended::new(2);
    for n in [1, 2, 2, 2] {
        ended.push(id(n));
    }
    assert!(ended.contains(id(1)) && ended.contains(id(2)), "a repetition displaces nothing");
    ended.push(id(3));
    assert!(!ended.contains(id(1)) && ended.contains(id(2)) && ended.contains(id(3)));
    let mut attempts = Attempts::default();
    for n in 0..=limits::ENDED_ATTEMPTS {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        attempts.approve(HandoffId::new(bytes), Hash::of(&n.to_le_bytes()));
    }
    assert_eq!(attempts.approval(HandoffId::new([0; 16])), None, "the oldest made room");
    let mut second = [0; 16];
    second[0] = 1;
    assert_eq!(attempts.approval(HandoffId::new(second)), Some(Hash::of(&1_usize.to_le_bytes())));
}

/// A seize after `prev` under `token`, with another token or generation where that is wanted.
fn seized(by: &LocalDevice, prev: &Signed<Custody>, token: FencingToken, next_token: FencingToken) -> Signed<Custody> {
    let Custody::Seize(bare) = (*verify(&seize(by, prev, token)).unwrap()).clone() else { panic!("another record") };
    by.sign(&Custody::Seize(Seize { next_token, ..bare })).unwrap()
}

fn under(generation: u64, epoch: u64) -> FencingToken {
    FencingToken { generation, epoch }
}

/// Genesis at A, released to B and to C, and who they are.
struct Fork {
    a: LocalDevice,
    b: LocalDevice,
    c: LocalDevice,
    first: Signed<Custody>,
    to_b: Signed<Custody>,
    to_c: Signed<Custody>,
}

impl Fork {
    fn new() -> Self {
        let [a, b, c] = [1, 2, 3].map(|n| LocalDevice::from_secret(&[n; 32]));
        let first = genesis(&a, &key());
        let to = |to: &LocalDevice| a.sign(&Custody::Release(release(&a, to.device(), &first, 0))).unwrap();
        let (to_b, to_c) = (to(&b), to(&c));
        Self { a, b, c, first, to_b, to_c }
    }

    /// Genesis, the seize of `by` that followed it at once, and a release of `by` to `to`.
    fn of_seize(&self, by: &LocalDevice, to: &LocalDevice) -> [Signed<Custody>; 3] {
        let taken = seize(by, &self.first, under(0, 0));
        let (token, next_token) = (under(1, 0), under(1, 1));
        let onward = Release { token, next_token, ..release(by, to.device(), &taken, 0) };
        [self.first.clone(), taken, by.sign(&Custody::Release(onward)).unwrap()]
    }
}

/// Shows: H-1, H-3
#[test]
fn seize_that_does_not_raise_the_generation_does_not_follow() {
    let Fork { b, c, first, to_b, to_c, .. } = Fork::new();
    let after = |link: Signed<Custody>| Chain::from_links(&[first.clone(), to_b.clone(), link]).map(|c| c.token());
    let wrong = Err(ChainError::WrongToken);
    assert_eq!(after(seized(&c, &to_b, under(0, 1), under(1, 0))), Ok(under(1, 0)));
    assert_eq!(after(seized(&c, &to_b, under(0, 1), under(3, 0))), Ok(under(3, 0)), "votes between came to nothing");
    assert_eq!(after(seized(&c, &to_b, under(0, 1), under(0, 0))), wrong, "the generation it is in");
    let most = limits::GENERATIONS_LEAP;
    assert_eq!(after(seized(&c, &to_b, under(0, 1), under(most, 0))), Ok(under(most, 0)));
    assert_eq!(after(seized(&c, &to_b, under(0, 1), under(most + 1, 0))), wrong, "so high that the counter could end");
    assert_eq!(after(seized(&c, &to_b, under(0, 1), under(1, 1))), wrong, "a generation begins with epoch 0");
    assert_eq!(after(seized(&c, &to_b, under(0, 0), under(1, 0))), wrong, "another token than the one before");
    assert_eq!(after(seized(&c, &to_c, under(0, 1), under(1, 0))), Err(ChainError::NotNext), "after what is not here");
    let taken = seize(&b, &first, under(0, 0));
    let again = seized(&c, &taken, under(1, 0), under(1, 0));
    assert_eq!(Chain::from_links(&[first, taken, again]), Err(ChainError::WrongToken), "one for each generation");
}

/// Shows: H-3, H-32, H-33
#[test]
fn chain_that_parts_replaces_another_only_from_a_higher_generation() {
    let fork = Fork::new();
    let Fork { a, b, c, first, to_b, to_c } = &fork;
    let merged = |ours: &[Signed<Custody>], theirs: &[Signed<Custody>]| {
        Chain::from_links(ours).unwrap().merged(theirs).map(|chain| chain.owner())
    };
    let released = [first.clone(), to_b.clone()];
    let other = [first.clone(), to_c.clone()];
    let second = Err(ChainError::Rival(Box::new(to_c.clone())));
    assert_eq!(merged(&released, &other), second, "within a generation nothing replaces anything");
    let [_, taken, to_a] = fork.of_seize(b, a);
    let [_, same, on_to_c] = fork.of_seize(b, c);
    assert_eq!(taken, same);
    let seized = [first.clone(), taken.clone()];
    assert_eq!(merged(&released, &seized), Ok(b.device()));
    assert_eq!(merged(&seized, &released), Err(ChainError::Passed));
    let rival = seize(c, first, under(0, 0));
    let rivals = merged(&seized, &[first.clone(), rival.clone()]);
    assert_eq!(rivals, Err(ChainError::Rival(Box::new(rival))));
    let second = Err(ChainError::Rival(Box::new(on_to_c.clone())));
    let [ours, theirs] = [to_a, on_to_c].map(|last| [first.clone(), taken.clone(), last]);
    assert_eq!(merged(&ours, &theirs), second, "the same seize, two releases after it");
}

/// Shows: H-32, J-2
#[test]
fn journal_that_went_over_to_another_chain_is_read_to_the_same_one() {
    let Fork { b, c, first, to_b, to_c, .. } = Fork::new();
    let (mut chain, mut side) = (Chain::from_links(&[first, to_b]).unwrap(), None);
    chain.replay(&to_c, &mut side).unwrap();
    assert_eq!((chain.owner(), side.as_ref().map(Chain::owner)), (b.device(), Some(c.device())), "it waits");
    chain.replay(&seize(&b, &to_c, under(0, 1)), &mut side).unwrap();
    assert_eq!((chain.token(), chain.owner(), side), (under(1, 0), b.device(), None));
    assert!(chain.contains(&to_c.hash()));
}
