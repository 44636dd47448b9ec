//! Chains that are longer than a message.

use cede_seal::verify::verify;
use cede_wire::canonical::Signed;
use cede_wire::custody::Custody;
use cede_wire::id::HandoffId;
use cede_wire::limits::{CHAIN_BYTES, CHAIN_RECORDS};
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;

use super::*;
use crate::chain::VERIFIED;
use crate::limits;

/// Three devices. A is the owner of a session with so many records of moves between A and B, and the rest of its journal.
fn with_records(moves: usize, guest: bool) -> Net {
    let mut net = Net::three();
    let devices = [A, B, C].map(|node| net.nodes[node].local.clone());
    let mut links = vec![genesis(&devices[A], &key())];
    let there_and_back = core::iter::repeat_n([[A, B], [B, A]], moves / 2).flatten();
    let visit = [[A, C], [C, A]].into_iter().filter(|_| guest);
    for ([from, to], epoch) in there_and_back.chain(visit).zip(0..) {
        let release = release(&devices[from], devices[to].device(), links.last().unwrap(), epoch);
        links.push(devices[from].sign(&Custody::Release(release)).unwrap());
    }
    let last = (*verify(links.last().unwrap()).unwrap()).clone();
    let (token, handoff, session) = (last.token(), HandoffId::new([200; 16]), session());
    let known: Vec<Record> = links.into_iter().map(Record::Custody).collect();
    let at_rest = vec![Record::Active { session, handoff, token }, Record::Installed { session, handoff }];
    let left = vec![Record::Retired { session, handoff }];
    for (node, mut own) in
        [(A, at_rest), (B, Vec::new()), (C, left)].into_iter().filter(|(node, _)| *node != C || guest)
    {
        net.nodes[node].journal = known.clone();
        net.nodes[node].journal.append(&mut own);
        net.crash(node);
    }
    net.only_owner(A, &[1, 2]);
    net
}

/// The records in each message that was sent since then.
fn carried(net: &Net, since: usize) -> Vec<&[Signed<Custody>]> {
    net.sent.iter().skip(since).filter_map(|(_, message)| links(message)).collect()
}

fn links(message: &PeerMessage) -> Option<&[Signed<Custody>]> {
    let (PeerMessage::Custody(links)
    | PeerMessage::Offer { chain: links, .. }
    | PeerMessage::Release { chain: links, .. }) = message
    else {
        return None;
    };
    Some(links)
}

fn fits(links: &[Signed<Custody>]) -> bool {
    links.len() < CHAIN_RECORDS && links.iter().map(|link| link.bytes().len()).sum::<usize>() <= CHAIN_BYTES
}

/// Shows: H-3, H-31
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn chain_that_is_longer_than_a_message_travels_from_the_last_visit_on() {
    let mut net = with_records(CHAIN_RECORDS + 2, true);
    let short = |links: &[Signed<Custody>]| links.len() < 10 && !links.is_empty();
    net.deliver(B, A, &PeerMessage::CustodyQuery(Vec::new()));
    assert!(matches!(net.last_sent(A), PeerMessage::Custody(links) if short(links)));
    net.mail.clear();
    net.heal();
    let since = net.sent.len();
    let handoff = net.give(A, B);
    net.only_owner(B, &[1, 2]);
    assert!(carried(&net, since).into_iter().all(|links| links.len() < 10));
    // Who asks for its release has perhaps lost everything before it: it gets all of it.
    let since = net.sent.len();
    net.deliver(B, A, &PeerMessage::ReleaseQuery { handoff, session: session() });
    let pieces = carried(&net, since);
    assert!(pieces.iter().all(|links| fits(links)));
    assert_eq!(pieces.iter().map(|links| links.len()).sum::<usize>(), CHAIN_RECORDS + 5);
    net.run();
    net.give(B, A);
    net.lose_device(A);
    net.seize(B).unwrap();
    let asked = net.find_sent(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    assert!(matches!(asked, PeerMessage::SeizeQuery { chain, .. } if short(&chain)));
    assert!(net.acts(B));
}

/// Shows: H-3
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn session_with_a_chain_of_several_messages_goes_to_a_device_that_never_had_it() {
    let mut net = with_records(2 * CHAIN_RECORDS + 100, false);
    net.heal();
    let since = net.sent.len();
    net.give(A, C);
    net.only_owner(C, &[1, 2]);
    assert!(carried(&net, since).into_iter().all(fits));
    assert_eq!(net.nodes[C].custodian.chain(session()).unwrap().links().len(), 2 * CHAIN_RECORDS + 102);
    net.crash(C);
    net.only_owner(C, &[1, 2]);
    net.heal();
    net.give(C, A);
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-3, H-31
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn device_that_never_had_a_session_votes_on_a_chain_of_several_messages() {
    let mut net = with_records(2 * CHAIN_RECORDS + 100, false);
    net.heal();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.seize(B).unwrap();
    assert!(net.acts(B));
}

/// Shows: H-3
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn nothing_of_a_chain_that_was_told_in_part_outlives_its_link() {
    let mut net = with_records(CHAIN_RECORDS + 100, false);
    net.heal();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.give(A, C);
    let offer = net.find_sent(|message| matches!(message, PeerMessage::Offer { .. }));
    let refused = |net: &Net| net.sent.iter().any(|(_, message)| matches!(message, PeerMessage::Refuse { .. }));
    net.deliver(A, C, &offer);
    assert!(!refused(&net), "what was told is kept as long as the link stands");
    let (gone, now) = (net.id(A), net.now);
    net.nodes[C].custodian.link_down(gone);
    net.nodes[C].custodian.link_up(gone, now);
    net.deliver(A, C, &offer);
    assert!(refused(&net));
}

/// Shows: H-3
#[test]
fn chain_comes_in_pieces_of_any_length() {
    let mut net = with_records(4, false);
    net.heal();
    let links = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    net.give(A, C);
    let PeerMessage::Offer { offer, .. } = net.find_sent(|message| matches!(message, PeerMessage::Offer { .. })) else {
        panic!("no offer was sent")
    };
    net.crash(C);
    let (sender, now) = (net.id(A), net.now);
    net.nodes[C].custodian.link_up(sender, now);
    assert!(net.nodes[C].custodian.asked(session()).is_none());
    let (first, rest) = links.split_at(2);
    let (second, last) = rest.split_at(1);
    for piece in [first, second] {
        net.deliver(A, C, &PeerMessage::Custody(piece.to_vec()));
    }
    net.deliver(A, C, &PeerMessage::Offer { offer, chain: last.to_vec() });
    assert!(net.nodes[C].custodian.asked(session()).is_some(), "{:?}", net.last_sent(C));
}

/// How many signatures of records are checked where `message` comes from A to C.
fn checked(net: &mut Net, message: &PeerMessage) -> usize {
    let before = VERIFIED.get();
    net.deliver(A, C, message);
    VERIFIED.get() - before
}

/// Shows: H-3, H-28
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn what_was_told_once_is_not_verified_again() {
    let mut net = with_records(400, false);
    net.heal();
    let links = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    net.nodes[C].custodian.told.clear();
    let pieces: Vec<PeerMessage> = links.chunks(100).map(|piece| PeerMessage::Custody(piece.to_vec())).collect();
    assert_eq!(pieces.iter().map(|piece| checked(&mut net, piece)).collect::<Vec<_>>(), [101, 101, 101, 101, 2]);
    let last = PeerMessage::Custody(links[400..].to_vec());
    assert_eq!(pieces.iter().chain([&last]).map(|piece| checked(&mut net, piece)).collect::<Vec<_>>(), [1; 6]);
    // What does not follow ends it, so that it costs its bytes once.
    let other = release(&net.nodes[A].local, net.id(C), &links[0], 0);
    let other = PeerMessage::Custody(vec![net.nodes[A].local.sign(&Custody::Release(other)).unwrap()]);
    checked(&mut net, &other);
    assert!(net.nodes[C].custodian.told.is_empty());
    assert!(checked(&mut net, &last) < 5);
}

/// Shows: H-3, H-28
#[test]
fn votes_of_what_was_told_are_not_counted_again() {
    let mut net = Net::three();
    let [a, b] = [A, B].map(|node| net.nodes[node].local.clone());
    let with = |seizer: DeviceId| {
        let mut electorate = net.electorate();
        electorate.note(2, [a.device(), seizer].into());
        electorate
    };
    let (counted, not_counted) = (with(b.device()), with(net.id(C)));
    let first = genesis(&a, &key());
    let mut told = vec![first.clone()];
    for epoch in 0..limits::WHOLE_CHAIN as u64 {
        let (from, to) = if epoch % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let next = release(from, to.device(), told.last().unwrap(), epoch);
        told.push(from.sign(&Custody::Release(next)).unwrap());
    }
    let token = verify(told.last().unwrap()).unwrap().token();
    let seize = Seize { members: 2, ..seize_of(&b, told.last().unwrap(), token) };
    told.push(b.sign(&Custody::Seize(seize)).unwrap());
    let next_token = FencingToken { generation: 1, epoch: 1 };
    let token = FencingToken { epoch: 0, ..next_token };
    let next = Release { token, next_token, ..release(&b, a.device(), told.last().unwrap(), 0) };
    let last = b.sign(&Custody::Release(next)).unwrap();
    for (electorate, message) in [(counted, told), (not_counted, vec![last.clone()])] {
        net.nodes[C].custodian.set_electorate(electorate);
        net.deliver(A, C, &PeerMessage::Custody(message));
    }
    assert_eq!(net.nodes[C].custodian.told[&a.device()].head(), last.hash());
}

/// Shows: H-7
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn certificate_that_nobody_answers_comes_with_the_whole_chain_now_and_then() {
    let mut net = with_records(limits::WHOLE_CHAIN + 6, false);
    net.link(A, B);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    assert!(matches!(net.standing(A), Some(Standing::ReleasedTo(_))));
    net.sent.clear();
    for _ in 0..8 {
        let (at, _) = net.nodes[A].custodian.poll_timeout().unwrap();
        net.now.monotonic = at;
        let now = net.now;
        net.nodes[A].custodian.handle_timeout(now);
        net.drain(A);
    }
    let whole = net.sent.iter().filter_map(|(_, message)| {
        let PeerMessage::Release { chain, .. } = message else { return None };
        Some(chain.len() > limits::WHOLE_CHAIN)
    });
    assert_eq!(whole.collect::<Vec<_>>(), [false, false, false, true, false, false, false, true]);
}
