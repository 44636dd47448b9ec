//! What is said to whom, what is told to the hands, and what is said to nobody.

use cede_wire::message::KnownCustody;
use cede_wire::record::Doubt;

use super::*;
use crate::chain::Chain;
use crate::custodian::OfferError;
use crate::limits;
use crate::output::WakeReason;

fn refused(net: &Net, node: usize) -> usize {
    net.sent.iter().filter(|(from, message)| *from == node && matches!(message, PeerMessage::Refuse { .. })).count()
}

/// Shows: H-32
#[test]
fn members_that_were_known_before_ask_nobody_anew() {
    let mut net = Net::pair();
    let same = net.electorate();
    net.nodes[A].custodian.set_electorate(same);
    assert!(net.nodes[A].custodian.poll().is_none());
    let mut more = net.electorate();
    more.note(3, [net.id(A), net.id(B)].into());
    net.nodes[A].custodian.set_electorate(more);
    assert!(matches!(net.nodes[A].custodian.poll(), Some(Output::Send(..))));
}

/// Shows: H-8
#[test]
fn device_whose_payload_is_gone_asks_again_some_time_after_it_noticed() {
    let mut net = Net::pair();
    net.pass(HOUR);
    net.ignore = Box::new(|event| matches!(event, Event::Activate { .. }));
    let handoff = net.give(A, B);
    let custodian = &mut net.nodes[B].custodian;
    custodian.receive_failed(session(), handoff, Refusal::IntegrityFailed, "the disk lost it");
    let at = net.now.monotonic + limits::REFETCH;
    assert_eq!(custodian.poll_timeout(), Some((at, WakeReason::RefetchAgain)));
}

/// Shows: H-8
#[test]
fn manifest_that_does_not_fit_a_certificate_is_answered_with_nothing() {
    let mut net = Net::pair();
    crashes::lose_stage_before_release(&mut net);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Manifest(_)));
    net.pass(limits::RELEASE_LONGEST);
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    let PeerMessage::Manifest(signed) = net.find_sent(|message| matches!(message, PeerMessage::Manifest(_))) else {
        panic!("another message");
    };
    let manifest = (*cede_seal::verify::verify(&signed).unwrap()).clone();
    let before = refused(&net, B);
    let other = Manifest { root: root(&[6]), ..manifest };
    let signed = net.nodes[A].local.sign(&other).unwrap();
    net.deliver(A, B, &PeerMessage::Manifest(signed));
    assert_eq!(refused(&net, B), before, "the source has decided: no word ends what it gave");
}

/// Shows: H-5
#[test]
fn source_hears_of_each_round_that_is_there() {
    let mut net = Net::pair();
    let handoff = net.give(A, B);
    let first = |event: &Event| matches!(event, Event::RoundComplete { handoff: of, round: 0, .. } if *of == handoff);
    assert_eq!(net.told(A, first), 1);
}

/// Shows: H-11
#[test]
fn word_that_an_attempt_is_over_counts_from_its_source_and_for_this_attempt() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    let handoff = net.give(A, B);
    let abort = |handoff| PeerMessage::Abort { handoff, refusal: Refusal::Cancelled };
    net.deliver(C, B, &abort(handoff));
    net.deliver(A, B, &abort(HandoffId::new([99; 16])));
    assert!(net.nodes[B].custodian.arriving(session()).is_some(), "a letter of another ends it");
    net.deliver(A, B, &abort(handoff));
    assert!(net.nodes[B].custodian.arriving(session()).is_none());
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.nodes[A].custodian.cancel(session(), Refusal::Cancelled, "");
    net.drain(A);
    let handoff = net.give(A, B);
    net.deliver(C, B, &abort(handoff));
    net.deliver(A, B, &abort(HandoffId::new([99; 16])));
    assert!(net.nodes[B].custodian.asked(session()).is_some(), "nor a question");
    net.deliver(A, B, &abort(handoff));
    assert!(net.nodes[B].custodian.asked(session()).is_none());
}

/// Shows: H-3
#[test]
fn chain_of_a_session_that_is_only_asked_about_is_not_kept() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.give(A, B);
    let first = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    net.deliver(C, B, &PeerMessage::Custody(first));
    assert_eq!((net.nodes[B].journal.len(), net.nodes[B].custodian.owner(session())), (0, None));
}

/// Shows: H-32
#[test]
#[cfg_attr(miri, ignore = "a thousand signatures take the interpreter hours")]
fn sessions_that_are_at_stake_here_are_named_before_those_of_others() {
    let mut net = Net::pair();
    net.give(A, B);
    let a = net.nodes[A].local.clone();
    let others = (0..=cede_wire::limits::LISTED_SESSIONS).map(|n| genesis(&a, &named(&format!("s{n}"))));
    net.nodes[B].journal.extend(others.map(Record::Custody));
    net.crash(B);
    let (a, now) = (net.id(A), net.now);
    net.nodes[B].custodian.link_up(a, now);
    let asked = core::iter::from_fn(|| net.nodes[B].custodian.poll()).find_map(|output| {
        let Output::Send(_, message) = output else { return None };
        let PeerMessage::CustodyQuery(known) = *message else { return None };
        Some(known)
    });
    let named = |known: &KnownCustody| known.session == session();
    let asked = asked.unwrap();
    assert_eq!((asked.len(), asked.iter().filter(|known| named(known)).count()), (1_000, 1));
}

/// Shows: H-3, H-32
#[test]
fn who_took_a_session_is_told_what_came_since() {
    let [a, b] = [1, 2].map(|n| LocalDevice::from_secret(&[n; 32]));
    let c = LocalDevice::from_secret(&[3; 32]);
    let mut links = vec![genesis(&a, &key())];
    links.push(seize(&c, &links[0], FencingToken::FIRST));
    links.push(seize(&a, &links[1], FencingToken { generation: 1, epoch: 0 }));
    let since = |epoch| FencingToken { generation: 2, epoch };
    let moves = [(&a, &b), (&b, &a)].into_iter().cycle().take(limits::WHOLE_CHAIN);
    for (epoch, (from, to)) in (0..).zip(moves) {
        let (token, next_token) = (since(epoch), since(epoch + 1));
        let next = Release { token, next_token, ..release(from, to.device(), links.last().unwrap(), epoch) };
        links.push(from.sign(&Custody::Release(next)).unwrap());
    }
    let chain = Chain::from_links(&links[..2]).unwrap();
    assert_eq!(chain.since_last_visit(c.device()), &links[..2], "a short chain is sent whole");
    let chain = Chain::from_links(&links).unwrap();
    assert_eq!(chain.since_last_visit(c.device()), &links[1..], "it took the session, and it was taken from it");
    assert_eq!(chain.since_last_visit(DeviceId::new([9; 32])), &links[..], "it never had the session");
}

/// Shows: H-10, H-32
#[test]
fn owner_that_was_seized_while_it_offered_says_that_the_offer_is_over() {
    let mut net = Net::three();
    net.give(A, C);
    net.give(C, A);
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    net.lose_device(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Refuse { .. }));
    net.seize(C).unwrap();
    assert_eq!(net.standing(A), Some(Standing::Leaving(handoff)));
    net.link(A, C);
    assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(C))));
    assert_eq!(net.told(A, |event| matches!(event, Event::OfferLost { handoff: lost, .. } if *lost == handoff)), 1);
}

/// Shows: H-6, H-11
#[test]
fn acknowledgement_of_another_attempt_or_device_ends_no_attempt() {
    let mut net = Net::three();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    let (b, c) = (net.nodes[B].local.clone(), net.nodes[C].local.clone());
    let late = b.sign(&ack(&b, HandoffId::new([99; 16]), net.id(A), &[1, 2])).unwrap();
    net.deliver(B, A, &PeerMessage::CommitAck(late));
    let of_c = c.sign(&ack(&c, handoff, net.id(A), &[1, 2])).unwrap();
    net.deliver(C, A, &PeerMessage::CommitAck(of_c));
    assert_eq!((net.standing(A), net.refusal(A)), (Some(Standing::Leaving(handoff)), None));
}

/// Shows: H-7, H-22
#[test]
fn destination_that_asks_gets_the_certificate_or_hears_that_it_is_over() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    let handoff = net.give(A, B);
    let ask = |net: &mut Net, handoff| {
        net.sent.clear();
        net.deliver(B, A, &PeerMessage::ReleaseQuery { handoff, session: session() });
        net.sent.iter().map(|(_, message)| message.clone()).collect::<Vec<_>>()
    };
    assert!(matches!(ask(&mut net, handoff)[..], [PeerMessage::Release { .. }]));
    let over = ask(&mut net, HandoffId::new([99; 16]));
    assert!(matches!(over[..], [PeerMessage::Abort { refusal: Refusal::Cancelled, .. }]), "{over:?}");
}

/// Shows: H-7
#[test]
fn certificate_is_said_at_once_where_the_line_to_its_device_comes_back() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.sent.clear();
    let (b, now) = (net.id(B), net.now);
    net.nodes[A].custodian.link_up(b, now);
    net.drain(A);
    assert!(matches!(net.sent[..], [(A, PeerMessage::Release { .. })]), "{:?}", net.sent);
}

/// Shows: H-8, H-23
#[test]
fn payload_is_sent_again_to_nobody_but_the_device_that_it_was_released_to() {
    let mut net = Net::three();
    let handoff = net.give(A, B);
    let accept = net.find_sent(|message| matches!(message, PeerMessage::Accept(_)));
    let PeerMessage::Accept(accept) = accept else { panic!("another message") };
    let accept = (*cede_seal::verify::verify(&accept).unwrap()).clone();
    let c = net.nodes[C].local.clone();
    for handoff in [handoff, HandoffId::new([99; 16])] {
        let of_c = Accept { handoff, source: net.id(A), destination: net.id(C), ..accept.clone() };
        let of_b = Accept { handoff, ..accept.clone() };
        net.deliver(C, A, &PeerMessage::Refetch(c.sign(&of_c).unwrap()));
        let signed = net.nodes[B].local.sign(&of_b).unwrap();
        net.deliver(B, A, &PeerMessage::Refetch(signed));
    }
    let sent = |event: &Event| matches!(event, Event::Resend(accept) if accept.destination == net.id(B));
    assert_eq!((net.told(A, sent), net.told(A, |event| matches!(event, Event::Resend(_)))), (1, 1));
}

/// Shows: H-16, H-27
#[test]
fn offer_that_comes_again_while_its_payload_comes_is_accepted_again() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    net.give(A, B);
    let offer = net.find_sent(|message| matches!(message, PeerMessage::Offer { .. }));
    net.deliver(A, B, &offer);
    let told = |wanted: fn(&Event) -> bool| net.told(B, wanted);
    assert_eq!(told(|event| matches!(event, Event::Reaccept { .. })), 1);
    assert_eq!(told(|event| matches!(event, Event::AskOperator(_))), 1);
    assert_eq!(told(|event| matches!(event, Event::Discard { .. })), 0);
}

/// Shows: H-15, H-26
#[test]
fn session_whose_owner_spoke_since_is_doubted_no_more() {
    for restart in [false, true] {
        let mut net = Net::three();
        net.give(A, C);
        net.nodes[A].journal.push(Record::Doubted { why: Doubt::RolledBack });
        net.crash(A);
        net.give(C, B);
        net.link(A, B);
        assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(B))));
        if restart {
            net.crash(A);
            assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(B))));
        }
        // B says that it released the session to A, which approved nothing.
        let b = net.nodes[B].local.clone();
        let chain = net.nodes[B].custodian.chain(session()).unwrap().clone();
        let last = release(&b, net.id(A), chain.last_signed().unwrap(), chain.token().epoch);
        let certificate = b.sign(&Custody::Release(last)).unwrap();
        net.deliver(B, A, &PeerMessage::Release { certificate, chain: Vec::new() });
        let custodian = &net.nodes[A].custodian;
        assert_eq!((custodian.unclaimed().count(), custodian.owner(session())), (1, Some(b.device())));
        assert_eq!(net.told(A, |event| matches!(event, Event::Seized { .. })), 0, "nothing of A was passed");
    }
}

/// Shows: H-15
#[test]
fn release_that_nobody_approved_waits_for_its_claim_where_the_session_is_known_too() {
    for told in [false, true] {
        let mut net = Net::pair();
        net.give(A, B);
        net.give(B, A);
        let a = net.nodes[A].local.clone();
        let chain = net.nodes[A].custodian.chain(session()).unwrap().clone();
        let last = release(&a, net.id(B), chain.last_signed().unwrap(), chain.token().epoch);
        let handoff = last.handoff;
        let certificate = a.sign(&Custody::Release(last)).unwrap();
        let message = match told {
            true => PeerMessage::Custody([chain.links(), &[certificate]].concat()),
            false => PeerMessage::Release { certificate, chain: Vec::new() },
        };
        net.deliver(A, B, &message);
        let custodian = &mut net.nodes[B].custodian;
        assert_eq!((custodian.unclaimed().count(), custodian.owner(session())), (1, Some(a.device())), "{told}");
        assert_eq!(custodian.claim(session(), HandoffId::new([99; 16])), Err(Refusal::Expired));
        assert_eq!(custodian.claim(session(), handoff), Ok(()));
        assert_eq!(custodian.standing(session()), Some(Standing::PayloadMissing));
        assert_eq!(custodian.claim(session(), handoff), Err(Refusal::Expired));
    }
}

/// Its state was put back to before the session first moved: what it would offer now contradicts what it signed.
///
/// Shows: H-15, H-22
#[test]
fn device_that_forgot_that_it_gave_a_session_away_offers_it_to_nobody() {
    let mut net = Net::new(3);
    net.turn(A, 1);
    net.link(A, B);
    net.give(A, B);
    net.give(B, A);
    net.nodes[A].journal.clear();
    net.crash(A);
    net.link(A, B);
    let (c, now) = (net.id(C), net.now);
    let offer =
        |net: &mut Net, n| net.nodes[A].custodian.offer(&key(), c, HandoffId::new([n; 16]), terms(head(&[1, 2])), now);
    let waiting: Vec<_> = net.nodes[A].custodian.unclaimed().map(|(_, release)| release.handoff).collect();
    assert_eq!(waiting.len(), 1);
    assert_eq!(offer(&mut net, 71), Err(OfferError::NotOwner(Standing::Unconfirmed)));
    assert_eq!(net.nodes[A].journal, []);
    assert_eq!(net.nodes[A].custodian.claim(session(), waiting[0]), Ok(()));
    assert_eq!(offer(&mut net, 72), Err(OfferError::NotOwner(Standing::PayloadMissing)));

    // What others made up keeps nobody from its own session, once a person has said that it is.
    let mut net = Net::three();
    let b = net.nodes[B].local.clone();
    let first = genesis(&b, &key());
    let given = b.sign(&Custody::Release(release(&b, net.id(A), &first, 0))).unwrap();
    net.deliver(B, A, &PeerMessage::Custody(vec![first, given]));
    assert_eq!(net.nodes[A].custodian.unclaimed().count(), 1);
    assert_eq!(offer(&mut net, 73), Err(OfferError::NotOwner(Standing::Unconfirmed)));
    assert!(net.nodes[A].custodian.may_act(session()));
    net.nodes[A].custodian.confirm(session());
    net.nodes[A].custodian.confirm(session());
    net.drain(A);
    net.crash(A);
    net.link(B, A);
    assert_eq!(offer(&mut net, 74), Ok(()));
}

/// It had the session and forgot it, and its person said that nothing is in doubt: it begins no second history of it.
///
/// Shows: H-15, H-26
#[test]
fn what_was_released_to_a_device_that_forgot_it_is_claimed_before_it_goes_on() {
    let mut net = Net::pair();
    net.give(A, B);
    net.nodes[B].journal = vec![Record::Doubted { why: Doubt::Damaged }];
    net.crash(B);
    net.link(A, B);
    // The word that ends the doubt about it is not the one that it is this device's own.
    net.nodes[B].custodian.confirm(session());
    net.nodes[B].custodian.confirm_all();
    net.drain(B);
    let (to, now, terms) = (net.id(A), net.now, terms(head(&[])));
    let offered = net.nodes[B].custodian.offer(&key(), to, HandoffId::new([9; 16]), terms, now);
    assert_eq!(offered, Err(OfferError::NotOwner(Standing::Unconfirmed)));
    let waits = net.nodes[B].custodian.unclaimed().next().unwrap().1.handoff;
    assert_eq!(net.nodes[B].custodian.claim(session(), waits), Ok(()));
}

/// Shows: H-28
#[test]
fn question_about_many_sessions_is_answered_with_so_many_chains() {
    let mut net = Net::three();
    let (a, c) = (net.nodes[A].local.clone(), net.id(C));
    let mut asked = Vec::new();
    for n in 0..limits::CHAINS_PER_ANSWER + 5 {
        let key = named(&format!("s{n}"));
        let first = genesis(&a, &key);
        let given = a.sign(&Custody::Release(Release { session: key.id(), ..release(&a, c, &first, 0) })).unwrap();
        asked.push(KnownCustody { session: key.id(), token: FencingToken::FIRST, record: first.hash() });
        net.nodes[A].journal.extend([first, given].map(Record::Custody));
    }
    net.crash(A);
    net.sent.clear();
    net.deliver(B, A, &PeerMessage::CustodyQuery(asked));
    let told = net.sent.iter().filter(|(_, message)| matches!(message, PeerMessage::Custody(_)));
    assert_eq!(told.count(), limits::CHAINS_PER_ANSWER);
}

/// Shows: H-32
#[test]
fn device_from_which_something_was_learned_is_asked_once_more() {
    let mut net = Net::three();
    net.give(A, B);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Custody(_)));
    net.give(B, C);
    assert_eq!(net.nodes[A].custodian.owner(session()), Some(net.id(B)));
    let chain = net.nodes[C].custodian.chain(session()).unwrap().clone();
    let (a, b, c, now) = (net.id(A), net.nodes[B].local.clone(), net.id(C), net.now);
    let asks = |net: &mut Net| {
        net.nodes[A].custodian.handle_message(c, &PeerMessage::CustodyAnswer(Vec::new()), now);
        let asked = core::iter::from_fn(|| net.nodes[A].custodian.poll());
        asked.filter(|output| matches!(output, Output::Send(_, message) if matches!(**message, PeerMessage::CustodyQuery(_)))).count()
    };
    net.deliver(C, A, &PeerMessage::Custody(chain.links().to_vec()));
    assert_eq!((asks(&mut net), asks(&mut net)), (1, 0));
    // What waits for a claim is not known.
    let first = genesis(&b, &named("other"));
    let given = Release { session: named("other").id(), ..release(&b, a, &first, 0) };
    let given = b.sign(&Custody::Release(given)).unwrap();
    net.deliver(C, A, &PeerMessage::Custody(vec![first, given]));
    assert_eq!(net.nodes[A].custodian.unclaimed().count(), 1);
    assert_eq!(asks(&mut net), 0);
}

/// Shows: H-3
#[test]
fn what_one_device_told_is_not_forgotten_for_what_another_says_or_gives() {
    let mut net = Net::three();
    let other = named("other");
    let c = net.nodes[C].local.clone();
    let first = genesis(&c, &other);
    let given = Release { session: other.id(), ..release(&c, net.id(B), &first, 0) };
    let given = c.sign(&Custody::Release(given)).unwrap();
    net.deliver(C, B, &PeerMessage::Custody(vec![first]));
    net.deliver(A, B, &PeerMessage::Custody(vec![given.clone()]));
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.seize(B).unwrap();
    assert!(net.acts(B));
    net.deliver(C, B, &PeerMessage::Custody(vec![given]));
    assert_eq!(net.nodes[B].custodian.unclaimed().map(|(session, _)| session).collect::<Vec<_>>(), [other.id()]);
}

/// Shows: H-26
#[test]
fn word_of_this_device_that_follows_nothing_known_is_no_second_word() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    let a = net.nodes[A].local.clone();
    let unknown = genesis(&a, &named("unknown"));
    let later = a.sign(&Custody::Release(release(&a, net.id(B), &unknown, 9))).unwrap();
    net.deliver(B, A, &PeerMessage::Custody(vec![later]));
    assert_eq!(net.nodes[A].custodian.doubt(), None);
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-10, H-32
#[test]
fn fence_of_a_seized_session_stands_while_others_hand_it_on() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    net.turn(A, 3);
    net.lose_device(A);
    net.seize(B).unwrap();
    net.link(A, B);
    net.give(B, C);
    net.link(A, C);
    assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(C))));
    assert_eq!(net.after_crash(A), net.standing(A));
    net.give(C, A);
    net.give(A, C);
    assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(C))));
    assert_eq!(net.after_crash(A), net.standing(A));
}

/// Shows: H-22
#[test]
fn device_in_doubt_goes_on_with_no_attempt() {
    let mut net = Net::pair();
    net.ignore = Box::new(|event| matches!(event, Event::Fetch(_)));
    net.give(A, B);
    net.crash(B);
    assert!(net.nodes[B].custodian.arriving(session()).is_some());
    net.nodes[B].journal.push(Record::Doubted { why: Doubt::Copied });
    net.crash(B);
    assert!(net.nodes[B].custodian.arriving(session()).is_none());
}

/// Shows: H-9, J-1
#[test]
fn device_that_took_a_session_puts_it_in_its_place_after_a_restart_too() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.lose_device(A);
    net.ignore = Box::new(|event| matches!(event, Event::Activate { .. }));
    net.seize(B).unwrap();
    assert_eq!(net.standing(B), Some(Standing::Arriving));
    assert_eq!(net.after_crash(B), Some(Standing::Arriving));
    net.ignore = Box::new(|_| false);
    net.crash(B);
    assert_eq!(net.standing(B), Some(Standing::InCharge));
    assert_eq!(net.after_crash(B), Some(Standing::InCharge));
}

/// Shows: H-31
#[test]
fn device_that_gives_its_vote_to_another_one_asks_for_none_any_more() {
    let mut net = takers::asking();
    let over = |event: &Event| matches!(event, Event::NotSeized { refusal: Refusal::StaleToken, .. });
    net.seize(B).unwrap();
    assert_eq!(net.told(B, over), 0, "its own vote ends nothing");
    let chain = net.nodes[B].custodian.chain(session()).unwrap().links().to_vec();
    let ask = |generation| {
        let (session, chain) = (session(), chain.clone());
        PeerMessage::SeizeQuery { session, generation, members: 5, chain }
    };
    let answered = |net: &Net| {
        let PeerMessage::SeizeAnswer { answer, .. } = net.last_sent(B) else { panic!("another message") };
        answer.as_ref().err().map(|(refusal, _)| *refusal)
    };
    net.deliver(C, B, &ask(limits::GENERATIONS_AHEAD + 1));
    assert_eq!((answered(&net), net.told(B, over)), (Some(Refusal::Protocol), 0), "too far ahead");
    net.deliver(C, B, &ask(limits::GENERATIONS_AHEAD));
    assert_eq!((answered(&net), net.told(B, over)), (None, 1));
}

/// Shows: H-32
#[test]
fn device_that_repeats_a_chain_which_parted_is_told_what_became_of_the_session() {
    let mut net = Net::new(3);
    let mut two = Electorate::default();
    two.note(2, [net.id(A), net.id(B)].into());
    net.nodes.iter_mut().for_each(|node| node.custodian.set_electorate(two.clone()));
    net.turn(A, 1);
    net.heal();
    net.give(A, B);
    net.give(B, A);
    let before = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    net.lose_device(A);
    net.seize(B).unwrap();
    net.link(A, B);
    net.lose_device(B);
    net.seize(A).unwrap();
    net.link(A, B);
    net.link(B, C);
    assert_eq!(net.nodes[B].custodian.owner(session()), Some(net.id(A)));
    // To C as A released it before B took it.
    let a = net.nodes[A].local.clone();
    let to_c = a.sign(&Custody::Release(release(&a, net.id(C), &before[2], 2))).unwrap();
    let parted = PeerMessage::Custody([&before[..], &[to_c]].concat());
    net.deliver(C, B, &parted);
    net.lose_device(A);
    net.seize(B).unwrap();
    assert!(net.acts(B));
    net.sent.clear();
    net.deliver(C, B, &parted);
    assert!(matches!(net.sent[..], [(B, PeerMessage::Custody(_))]), "{:?}", net.sent);
}

/// Shows: H-7, H-16
#[test]
fn what_falls_due_is_said_and_nothing_that_does_not() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_)));
    net.give(A, B);
    net.pass(HOUR);
    // The session is on its way back while A still says the certificate.
    net.lose = Box::new(|message| matches!(message, PeerMessage::Activated(_) | PeerMessage::CommitAck(_)));
    net.give(B, A);
    assert_eq!(net.standing(A), Some(Standing::ReleasedTo(net.id(B))));
    let mut due = BTreeSet::new();
    for _ in 0..8 {
        let (at, why) = net.nodes[A].custodian.poll_timeout().unwrap();
        net.now.monotonic = at;
        net.sent.clear();
        let now = net.now;
        net.nodes[A].custodian.handle_timeout(now);
        net.drain(A);
        let (releases, acks): (Vec<_>, Vec<_>) =
            net.sent.iter().partition(|(_, message)| matches!(message, PeerMessage::Release { .. }));
        let wanted = if why == WakeReason::AckAgain { (0, 1) } else { (1, 0) };
        assert_eq!((releases.len(), acks.len()), wanted, "{why:?}");
        due.insert(format!("{why:?}"));
    }
    assert_eq!(due.len(), 2, "{due:?}");
}
