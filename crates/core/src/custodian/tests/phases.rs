//! The two halves of a handoff by themselves: every step in every phase, and every no of a voter.

use cede_seal::verify::{Verified, verify};
use cede_wire::canonical::Signable;
use cede_wire::message::{HandoffStatus, KnownCustody};

use super::*;
use crate::chain::Chain;
use crate::custodian::OfferError;
use crate::destination::{Attempt, HandoffDestination, ReceiveError};
use crate::electorate::VotesError;
use crate::limits;
use crate::source::{HandoffSource, Outcome, SourcePhase, StepError};

const HANDOFF: HandoffId = HandoffId::new([7; 16]);

/// A source with its chain and both devices.
struct Half {
    a: LocalDevice,
    b: LocalDevice,
    chain: Chain,
    source: HandoffSource,
    now: Now,
}

impl Half {
    fn new() -> Self {
        let (a, b) = (LocalDevice::from_secret(&[1; 32]), LocalDevice::from_secret(&[2; 32]));
        let now = Now { monotonic: Duration::from_secs(1), unix_ms: 1_700_000_000_000 };
        let chain = Chain::from_links(&[genesis(&a, &key())]).unwrap();
        let terms = terms(head(&[1, 2]));
        let source = HandoffSource::prepare_offer(a.device(), b.device(), HANDOFF, &chain, terms, now).unwrap();
        Self { a, b, chain, source, now }
    }

    fn accept(&self) -> Verified<Accept> {
        signed(&self.b, &self.attempt().accept([1; 32], Vec::new()))
    }

    fn attempt(&self) -> HandoffDestination {
        let (source, scope) = (self.a.device(), scope().digest());
        let attempt = Attempt { handoff: HANDOFF, session: session(), source, scope };
        HandoffDestination::approved(self.b.device(), attempt, Some(FencingToken::FIRST), self.now)
    }

    fn round(&self) -> Round {
        round(head(&[1, 2]), root(&[1, 2]))
    }

    fn frozen() -> (Self, Manifest) {
        let mut half = Self::new();
        let (accept, now, round) = (half.accept(), half.now, half.round());
        half.source.begin(&accept, now).unwrap();
        half.source.freeze(now).unwrap();
        let manifest = half.source.advance(round, now).unwrap();
        (half, manifest)
    }

    fn commit(&mut self) -> Result<Signed<Custody>, StepError> {
        let ack = signed(&self.b, &ack(&self.b, HANDOFF, self.a.device(), &[1, 2]));
        let quiet = Quiet { head: head(&[1, 2]), in_flight: false };
        self.source.commit(&self.a, &self.chain, &ack, quiet, 0)
    }
}

fn signed<T: Signable + Clone>(by: &LocalDevice, value: &T) -> Verified<T> {
    verify(&by.sign(value).unwrap()).unwrap()
}

/// Shows: H-10, H-13
#[test]
fn no_step_is_taken_out_of_its_phase() {
    let mut half = Half::new();
    let (accept, now, round) = (half.accept(), half.now, half.round());
    let wrong = |phase| Err(StepError::Phase(phase));
    assert_eq!(half.source.freeze(now), wrong(SourcePhase::Offered));
    assert_eq!(half.source.advance(round.clone(), now).map(|_| ()), wrong(SourcePhase::Offered));
    assert_eq!(half.commit().map(|_| ()), wrong(SourcePhase::Offered));
    let deadline = half.source.deadline();
    half.source.touch(now);
    assert_eq!(half.source.deadline(), deadline, "a question has its own time");
    half.source.begin(&accept, now).unwrap();
    assert_eq!(half.commit().map(|_| ()), wrong(SourcePhase::Transferring));
    half.source.freeze(now).unwrap();
    assert_eq!(half.source.freeze(now), Ok(()), "a second freeze is none");
    assert_eq!(half.source.begin(&accept, now), Ok(()), "a reconnect in the pause");
    assert_eq!(half.source.phase(), &SourcePhase::Frozen);
    assert_eq!(half.commit().map(|_| ()), Err(StepError::Mismatch("round")), "no last round yet");
    assert_eq!(half.source.outcome(), Outcome::Open);
    half.source.abandon(Refusal::TimedOut);
    half.source.abandon(Refusal::Cancelled);
    let over = SourcePhase::Abandoned(Refusal::TimedOut);
    assert_eq!(half.source.outcome(), Outcome::Abandoned(Refusal::TimedOut), "the first word stays");
    assert_eq!(half.source.begin(&accept, now), wrong(over.clone()));
    assert_eq!(half.source.freeze(now), wrong(over.clone()));
    assert_eq!(half.source.advance(round, now).map(|_| ()), wrong(over));
    assert!(half.source.source_still_owns());
}

/// Shows: H-6, H-13
#[test]
fn decision_is_taken_once_and_stays() {
    let (mut half, _) = Half::frozen();
    half.commit().unwrap();
    assert!(!half.source.source_still_owns());
    half.source.abandon(Refusal::Cancelled);
    assert_eq!(half.source.outcome(), Outcome::Committed);
    assert_eq!(half.commit().map(|_| ()), Err(StepError::Phase(SourcePhase::Committed)));
}

/// Shows: H-6
#[test]
fn chain_that_went_on_meanwhile_is_not_decided_over() {
    let (mut half, _) = Half::frozen();
    let links = half.chain.links().to_vec();
    let to = half.b.device();
    let next = half.a.sign(&Custody::Release(release(&half.a, to, &links[0], 0))).unwrap();
    half.chain = Chain::from_links(&[links[0].clone(), next]).unwrap();
    assert_eq!(half.commit().map(|_| ()), Err(StepError::Mismatch("token")));
    let home = half.b.sign(&Custody::Release(release(&half.b, half.a.device(), &half.chain.links()[1], 1))).unwrap();
    half.chain.extend(&home).unwrap();
    assert_eq!(half.chain.owner(), half.a.device());
    assert_eq!(half.commit().map(|_| ()), Err(StepError::Mismatch("token")), "it is here again, and not the same");
    assert!(half.source.source_still_owns());
}

/// Shows: H-13
#[test]
fn rounds_of_an_attempt_have_a_limit() {
    let mut half = Half::new();
    let (accept, now, round) = (half.accept(), half.now, half.round());
    half.source.begin(&accept, now).unwrap();
    for number in 0..cede_wire::limits::ROUNDS {
        assert_eq!(half.source.advance(round.clone(), now).unwrap().round, number);
    }
    assert_eq!(half.source.advance(round, now).map(|_| ()), Err(StepError::TooManyRounds));
}

/// Shows: H-5, H-13
#[test]
fn destination_stages_what_the_last_round_names_and_nothing_else() {
    let (half, last) = Half::frozen();
    let (mut destination, now) = (half.attempt(), half.now);
    let payload = StagedPayload { head: last.head, root: last.root };
    assert_eq!(destination.stage(payload, now), Err(ReceiveError::Phase), "no manifest yet");
    assert_eq!(destination.acknowledgement(&half.b), None);
    let first = signed(&half.a, &Manifest { last: false, ..last.clone() });
    destination.manifest(&first, now).unwrap();
    assert_eq!(destination.manifest(&first, now), Err(ReceiveError::Stale));
    assert_eq!(destination.stage(payload, now), Err(ReceiveError::Mismatch("round")));
    let second = signed(&half.a, &Manifest { round: 1, ..last.clone() });
    destination.manifest(&second, now).unwrap();
    assert_eq!(destination.manifest(&first, now), Err(ReceiveError::Stale), "an earlier round");
    for other in [StagedPayload { root: root(&[9]), ..payload }, StagedPayload { head: head(&[9]), ..payload }] {
        assert_eq!(destination.stage(other, now), Err(ReceiveError::Mismatch("payload")));
    }
    assert!(!destination.holds(HANDOFF, last.head, last.root), "it may still change");
    assert_eq!(destination.stage(payload, now), Ok(FencingToken::FIRST));
    assert!(destination.holds(HANDOFF, last.head, last.root));
    assert!(!destination.holds(HandoffId::new([9; 16]), last.head, last.root));
    assert!(!destination.holds(HANDOFF, head(&[9]), last.root) && !destination.holds(HANDOFF, last.head, root(&[9])));
    assert_eq!(destination.stage(payload, now), Err(ReceiveError::Phase), "once");
    assert_eq!(destination.manifest(&second, now), Err(ReceiveError::Stale));
    let before = signed(&half.a, &Manifest { round: 0, root: root(&[9]), ..last.clone() });
    assert_eq!(destination.manifest(&before, now), Err(ReceiveError::Stale), "a later one replaced it");
    let turned = signed(&half.a, &Manifest { round: 1, head: head(&[9]), ..last.clone() });
    assert_eq!(destination.manifest(&turned, now), Err(ReceiveError::Phase), "other turns as the same round");
    let beside = signed(&half.a, &Manifest { round: 1, root: root(&[9]), ..last.clone() });
    assert_eq!(destination.manifest(&beside, now), Err(ReceiveError::Phase), "another payload as the same round");
    let later = signed(&half.a, &Manifest { round: 2, root: root(&[9]), ..last.clone() });
    assert_eq!(destination.manifest(&later, now), Err(ReceiveError::Phase));
    let beyond = signed(&half.a, &Manifest { round: cede_wire::limits::ROUNDS, ..last });
    assert_eq!(half.attempt().manifest(&beyond, now), Err(ReceiveError::Mismatch("round")));
}

/// Shows: H-4, H-23
#[test]
fn session_is_not_offered_to_oneself() {
    let mut net = Net::pair();
    let (me, now) = (net.id(A), net.now);
    let offered = net.nodes[A].custodian.offer(&key(), me, HANDOFF, terms(head(&[1, 2])), now);
    assert_eq!(offered, Err(OfferError::ToSelf));
    assert_eq!(net.nodes[A].journal, []);
}

/// Shows: H-28
#[test]
fn offers_under_way_have_a_limit() {
    let mut net = Net::pair();
    let (to, now) = (net.id(B), net.now);
    for n in 0..=limits::HANDOFFS {
        let handoff = HandoffId::new([u8::try_from(n).unwrap() + 100; 16]);
        let offered = net.nodes[A].custodian.offer(&named(&format!("s{n}")), to, handoff, terms(head(&[])), now);
        let wanted = if n < limits::HANDOFFS { Ok(()) } else { Err(OfferError::TooMany) };
        assert_eq!(offered, wanted, "offer {n}");
    }
}

/// Shows: H-8
#[test]
fn only_what_was_released_is_sent_again() {
    let mut net = Net::pair();
    let again = |net: &mut Net, log: &[u8]| net.nodes[A].custodian.resend(session(), round(head(log), root(log)));
    assert_eq!(again(&mut net, &[1, 2]), Err(StepError::Mismatch("session")), "never seen");
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.give(A, B);
    assert_eq!(again(&mut net, &[1, 2]), Err(StepError::Mismatch("session")), "not released");
    net.ignore = Box::new(|_| false);
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "the reason");
    net.drain(A);
    net.run();
    net.give(A, B);
    assert_eq!(again(&mut net, &[1]), Err(StepError::Mismatch("root")));
    let other = net.nodes[A].custodian.resend(session(), round(head(&[1, 2]), root(&[9])));
    assert_eq!(other, Err(StepError::Mismatch("root")));
    assert_eq!(again(&mut net, &[1, 2]), Ok(()));
    let at_b = net.nodes[B].custodian.resend(session(), round(head(&[1, 2]), root(&[1, 2])));
    assert_eq!(at_b, Err(StepError::Mismatch("root")), "it did not release it");
}

/// Shows: H-11, H-16
#[test]
fn destination_that_forgot_the_attempt_ends_it() {
    for status in [HandoffStatus::Unknown, HandoffStatus::Discarded] {
        let mut net = Net::pair();
        net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
        let handoff = net.give(A, B);
        let answer = PeerMessage::StatusAnswer { handoff, session: session(), status };
        net.deliver(B, A, &PeerMessage::StatusAnswer { handoff, session: session(), status: HandoffStatus::Receiving });
        assert_eq!(net.refusal(A), None, "it is at work");
        net.deliver(B, A, &answer);
        assert_eq!(net.refusal(A), Some(Refusal::Cancelled));
        net.run();
        net.only_owner(A, &[1, 2]);
        net.deliver(B, A, &answer);
        net.only_owner(A, &[1, 2]);
    }
}

/// Shows: H-21
#[test]
fn question_for_chunks_keeps_an_attempt_alive() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Accepted(_)));
    let handoff = net.give(A, B);
    let need = PeerMessage::Need { handoff, round: 0, of: cede_wire::message::NeedOf::Payload, bitmap: Vec::new() };
    for _ in 0..4 {
        net.pass(limits::TRANSFER_SILENCE / 2);
        net.deliver(B, A, &need);
    }
    assert_eq!(net.refusal(A), None);
    net.pass(limits::TRANSFER_SILENCE);
    assert_eq!(net.refusal(A), Some(Refusal::TimedOut));
}

/// The answer of `node` to a question for its vote.
fn asked(net: &mut Net, from: usize, node: usize, generation: u64, members: u64) -> Option<Refusal> {
    let chain = net.nodes[from].custodian.chain(session()).map(|chain| chain.links().to_vec()).unwrap_or_default();
    net.deliver(from, node, &PeerMessage::SeizeQuery { session: session(), generation, members, chain });
    let answer = net.find_sent(|message| matches!(message, PeerMessage::SeizeAnswer { .. }));
    net.mail.clear();
    let PeerMessage::SeizeAnswer { answer, .. } = answer else { panic!("another message") };
    answer.err().map(|(refusal, _)| refusal)
}

/// Shows: H-31
#[test]
fn voter_says_no_with_its_reason() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    let parted = |net: &mut Net| {
        let gone = net.id(A);
        net.nodes[C].custodian.link_down(gone);
    };
    assert_eq!(asked(&mut net, B, C, 1, 3), Some(Refusal::Busy), "the owner is connected");
    parted(&mut net);
    assert_eq!(asked(&mut net, B, C, 1, 2), Some(Refusal::Busy), "another membership");
    assert_eq!(asked(&mut net, B, A, 1, 3), Some(Refusal::AlreadyOwner));
    assert_eq!(asked(&mut net, B, C, 0, 3), Some(Refusal::StaleToken), "that generation is here");
    let far = limits::GENERATIONS_AHEAD + 1;
    assert_eq!(asked(&mut net, B, C, far, 3), Some(Refusal::Protocol), "far from the next one");
    assert!(!net.nodes[C].journal.iter().any(|record| matches!(record, Record::Voted { .. })));
    assert_eq!(asked(&mut net, B, C, 1, 3), None, "yes");
    assert_eq!(asked(&mut net, B, C, 1, 3), None, "the same once more");
    let votes = net.nodes[C].journal.iter().filter(|record| matches!(record, Record::Voted { .. })).count();
    assert_eq!(votes, 1, "one durable vote");
    let mut electorate = Electorate::default();
    electorate.note(3, [A, C].map(|node| net.id(node)).into_iter().collect());
    net.nodes[C].custodian.set_electorate(electorate);
    assert_eq!(asked(&mut net, B, C, 1, 3), Some(Refusal::Unauthorized), "not enrolled any more");
}

/// Shows: H-31
#[test]
fn seize_is_held_to_the_votes_it_names() {
    let net = Net::three();
    let [a, b, c] = [A, B, C].map(|node| net.nodes[node].local.clone());
    let electorate = net.electorate();
    let token = FencingToken::FIRST;
    let Custody::Seize(bare) = (*verify(&seize(&b, &genesis(&a, &key()), token)).unwrap()).clone() else {
        panic!("another record");
    };
    let vote = |by: &LocalDevice, generation| {
        let vote = cede_wire::custody::SeizeVote {
            mesh: mesh(),
            session: session(),
            generation,
            members: 3,
            prev: bare.prev,
            to: b.device(),
            voter: by.device(),
        };
        by.sign(&vote).unwrap()
    };
    let check = |votes: Vec<_>| electorate.check(&Seize { votes, ..bare.clone() }, a.device());
    assert_eq!(check(vec![vote(&c, 1)]), Ok(()));
    assert_eq!(check(Vec::new()), Err(VotesError::TooFew));
    assert_eq!(check(vec![vote(&c, 2)]), Err(VotesError::BadVote), "for another generation");
    assert_eq!(check(vec![vote(&a, 1)]), Err(VotesError::BadVote), "of the lost owner");
    assert_eq!(check(vec![vote(&b, 1)]), Err(VotesError::BadVote), "its own, twice");
    assert_eq!(check(vec![vote(&c, 1), vote(&c, 1)]), Err(VotesError::BadVote), "one vote doubled");
    let good = (*verify(&vote(&c, 1)).unwrap()).clone();
    let stranger = Arc::new(LocalDevice::from_secret(&[77; 32]));
    for (by, other) in [
        (&c, cede_wire::custody::SeizeVote { mesh: MeshId::new([6; 32]), ..good.clone() }),
        (&c, cede_wire::custody::SeizeVote { session: named("other").id(), ..good.clone() }),
        (&c, cede_wire::custody::SeizeVote { members: 2, ..good.clone() }),
        (&c, cede_wire::custody::SeizeVote { prev: Hash::of(b"an older owner"), ..good.clone() }),
        (&c, cede_wire::custody::SeizeVote { to: a.device(), ..good.clone() }),
        (&stranger, good.clone()),
    ] {
        let other = cede_wire::custody::SeizeVote { voter: by.device(), ..other };
        assert_eq!(check(vec![by.sign(&other).unwrap()]), Err(VotesError::BadVote), "{other:?}");
    }
    let many = vec![vote(&c, 1); cede_wire::limits::SEIZE_VOTES + 1];
    assert_eq!(check(many), Err(VotesError::BadVote), "more than there can be");
    let of = |seize: Seize| electorate.check(&seize, a.device());
    assert_eq!(of(Seize { members: 9, ..bare.clone() }), Err(VotesError::UnknownMembers));
    let stranger = LocalDevice::from_secret(&[77; 32]).device();
    assert_eq!(of(Seize { to: stranger, ..bare.clone() }), Err(VotesError::NotEnrolled));
}

/// Shows: C-5
#[test]
fn messages_for_others_change_nothing_here() {
    let mut net = Net::pair();
    net.give(A, B);
    let before = net.nodes[A].journal.clone();
    for message in [PeerMessage::SessionsQuery, PeerMessage::Members(Vec::new()), PeerMessage::Sessions(Vec::new())] {
        net.deliver(B, A, &message);
    }
    net.deliver(B, A, &PeerMessage::CustodyAnswer(Vec::<KnownCustody>::new()));
    assert_eq!(net.nodes[A].journal, before);
    net.only_owner(B, &[1, 2]);
}
