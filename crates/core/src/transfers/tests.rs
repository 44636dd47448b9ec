use std::sync::Arc;

use cede_seal::device::LocalDevice;
use cede_seal::verify::verify;
use cede_wire::canonical::Signed;
use cede_wire::id::{Hash, MeshId, TransferId};
use cede_wire::transfer::{Shown, TransferReceipt};

use super::*;

const MESH: MeshId = MeshId::new([9; 32]);
const ID: TransferId = TransferId::new([7; 16]);
const KEY: [u8; 32] = [3; 32];

fn device(seed: u8) -> Arc<LocalDevice> {
    Arc::new(LocalDevice::from_secret(&[seed; 32]))
}

fn at(seconds: u64) -> Now {
    Now { monotonic: Duration::from_secs(seconds), unix_ms: 1_000_000 + seconds * 1_000 }
}

fn fresh(local: &Arc<LocalDevice>) -> Transfers {
    Transfers::restore(local.clone(), [].iter(), &|_| None, at(0))
}

fn offer(to: &LocalDevice, id: TransferId) -> TransferOffer {
    TransferOffer {
        mesh: MESH,
        transfer: id,
        source: device(1).device(),
        destination: to.device(),
        note: String::new(),
        root: Hash::of(b"catalog"),
        catalog: Vec::new(),
        shown: Shown {
            files: 1,
            bytes: 1,
            paths: Vec::new(),
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
        },
        offered_at_unix_ms: 0,
    }
}

fn signed(offer: &TransferOffer) -> Verified<TransferOffer> {
    verify(&device(1).sign(offer).unwrap()).unwrap()
}

/// Two machines, what they made durable, and what they told.
struct Pair {
    sender: Transfers,
    receiver: Transfers,
    sent: Vec<Record>,
    came: Vec<Record>,
    told: Vec<TransferEvent>,
}

impl Pair {
    fn linked() -> Self {
        let (sender, receiver) = (fresh(&device(1)), fresh(&device(2)));
        let mut pair = Self { sender, receiver, sent: Vec::new(), came: Vec::new(), told: Vec::new() };
        pair.link();
        pair
    }

    fn link(&mut self) {
        self.sender.link_up(device(2).device());
        self.receiver.link_up(device(1).device());
    }

    /// Carries everything to its end.
    fn settle(&mut self, now: Now) {
        loop {
            let output = if let Some(output) = self.sender.poll() {
                (true, output)
            } else if let Some(output) = self.receiver.poll() {
                (false, output)
            } else {
                return;
            };
            match output {
                (true, TransferOutput::Persist(batch)) => self.sent.extend(batch),
                (false, TransferOutput::Persist(batch)) => self.came.extend(batch),
                (true, TransferOutput::Send(_, message)) => {
                    self.receiver.handle_message(device(1).device(), &inner(&message), MESH, now);
                }
                (false, TransferOutput::Send(_, message)) => {
                    self.sender.handle_message(device(2).device(), &inner(&message), MESH, now);
                }
                (_, TransferOutput::Tell(event)) => self.told.push(event),
            }
        }
    }

    fn told(&mut self, wanted: impl Fn(&TransferEvent) -> bool) -> usize {
        std::mem::take(&mut self.told).iter().filter(|event| wanted(event)).count()
    }

    fn ended(transfers: &Transfers) -> TransferEnd {
        transfers.ended().next().unwrap().1.end.clone()
    }
}

fn inner(message: &PeerMessage) -> TransferMessage {
    let PeerMessage::Transfer(message) = message else { panic!("another message: {message:?}") };
    (**message).clone()
}

fn asked() -> (Pair, Hash) {
    let mut pair = Pair::linked();
    let offer = signed(&offer(&device(2), ID));
    let hash = offer.signed().hash();
    pair.sender.queue(offer, at(1)).unwrap();
    pair.settle(at(1));
    (pair, hash)
}

fn approved() -> (Pair, Hash) {
    let (mut pair, hash) = asked();
    pair.receiver.approve(ID, hash, at(2)).unwrap();
    pair.receiver.accept(ID, KEY).unwrap();
    pair.settle(at(2));
    (pair, hash)
}

/// Shows: F-1, F-3
#[test]
fn nothing_is_asked_for_before_the_yes_and_the_yes_is_to_one_offer() {
    let (mut pair, hash) = asked();
    assert!(pair.came.is_empty(), "a question is no record");
    assert_eq!(pair.told(|event| matches!(event, TransferEvent::Consider(_))), 1);
    assert_eq!(pair.receiver.accept(ID, KEY), Err(TransferError::Phase));
    assert_eq!(pair.receiver.received(ID, "x"), Err(TransferError::Phase));
    assert_eq!(pair.receiver.approve(ID, Hash::of(b"another"), at(2)), Err(TransferError::Phase));
    pair.receiver.approve(ID, hash, at(2)).unwrap();
    pair.settle(at(2));
    assert!(matches!(&pair.came[..], [Record::Transfer(r)] if matches!(**r, TransferRecord::Approved { .. })));
    pair.receiver.accept(ID, KEY).unwrap();
    pair.settle(at(2));
    assert_eq!(pair.told(|event| matches!(event, TransferEvent::Accepted(_))), 1);
}

/// Shows: F-8
#[test]
fn received_is_said_only_after_it_was_made_durable() {
    let (mut pair, _) = approved();
    pair.receiver.received(ID, "/there/f").unwrap();
    let first = pair.receiver.poll();
    assert!(matches!(first, Some(TransferOutput::Persist(_))), "{first:?}");
    pair.settle(at(3));
    assert_eq!(Pair::ended(&pair.sender), TransferEnd::Received("/there/f".into()));
    assert!(pair.sender.going().next().is_none() && pair.receiver.coming().next().is_none());
}

/// Shows: F-9
#[test]
fn offer_that_is_said_again_gets_the_same_answer() {
    let (mut pair, _) = approved();
    pair.receiver.received(ID, "/there/f").unwrap();
    // The receipt is lost.
    while pair.receiver.poll().is_some() {}
    pair.sender.link_down(device(2).device());
    pair.link();
    pair.settle(at(4));
    assert_eq!(Pair::ended(&pair.sender), TransferEnd::Received("/there/f".into()));
    assert_eq!(pair.told(|event| matches!(event, TransferEvent::Consider(_))), 1, "nobody was asked again");
}

/// Shows: F-9
#[test]
fn no_is_a_no_also_when_it_is_asked_again() {
    let (mut pair, _) = asked();
    pair.receiver.stop(ID, Refusal::Declined, "no").unwrap();
    while pair.receiver.poll().is_some() {}
    pair.sender.link_down(device(2).device());
    pair.link();
    pair.settle(at(3));
    assert_eq!(Pair::ended(&pair.sender), TransferEnd::Not(Refusal::Declined, "no".into()));
}

/// Shows: F-10
#[test]
fn offers_that_no_person_decided_about_leave_no_record() {
    for (refusal, sent) in [(Refusal::TooLarge, 2), (Refusal::Busy, 1), (Refusal::Expired, 2)] {
        let (mut pair, _) = asked();
        pair.receiver.stop(ID, refusal, "").unwrap();
        pair.settle(at(2));
        assert_eq!((pair.came.len(), pair.sent.len()), (0, sent), "{refusal}");
    }
    let (mut pair, _) = asked();
    pair.sender.stop(ID, Refusal::Cancelled, &"x".repeat(5_000)).unwrap();
    pair.settle(at(2));
    assert_eq!(pair.came, [], "the sender's own end neither");
    let (mut pair, _) = asked();
    pair.receiver.stop(ID, Refusal::Declined, "no").unwrap();
    pair.settle(at(2));
    assert_eq!(pair.came.len(), 1, "a person's no is kept");
}

/// Shows: F-9
#[test]
fn both_sides_go_on_after_a_restart() {
    let (mut pair, _) = approved();
    pair.settle(at(3));
    let kept = |_| Some(signed(&offer(&device(2), ID)));
    pair.sender = Transfers::restore(device(1), pair.sent.iter(), &kept, at(10));
    pair.receiver = Transfers::restore(device(2), pair.came.iter(), &kept, at(10));
    pair.link();
    pair.settle(at(10));
    assert_eq!(pair.told(|event| matches!(event, TransferEvent::MakeKey(ID))), 2, "once more without a question");
    pair.receiver.accept(ID, [4; 32]).unwrap();
    pair.settle(at(11));
    assert_eq!(pair.sender.going().next().unwrap().1.phase(), GoingPhase::Sending([4; 32]));
}

/// Shows: F-13
#[test]
fn receiver_without_room_says_so_and_goes_on_with_a_new_accept() {
    let (mut pair, _) = approved();
    pair.told.clear();
    pair.receiver.wait(ID, "no room").unwrap();
    pair.settle(at(3));
    let waits = |event: &TransferEvent| matches!(event, TransferEvent::Waits { detail, .. } if detail == "no room");
    assert_eq!(pair.told(waits), 1);
    assert!(pair.sender.going().next().is_some() && pair.receiver.coming().next().is_some());
    pair.receiver.accept(ID, [4; 32]).unwrap();
    pair.settle(at(4));
    assert_eq!(pair.told(|event| matches!(event, TransferEvent::Accepted(_))), 1);
    assert_eq!(pair.receiver.wait(TransferId::new([8; 16]), ""), Err(TransferError::Unknown));
    let stranger = TransferMessage::Waits { transfer: ID, detail: String::new() };
    pair.sender.handle_message(device(3).device(), &stranger, MESH, at(5));
    assert!(pair.sender.poll().is_none());
}

#[test]
fn offer_that_is_lost_ends_the_transfer() {
    let (mut pair, _) = approved();
    pair.settle(at(3));
    for (local, records) in [(device(1), &pair.sent), (device(2), &pair.came)] {
        let mut restored = Transfers::restore(local, records.iter(), &|_| None, at(10));
        assert!(matches!(restored.poll(), Some(TransferOutput::Persist(_))));
        assert!(restored.going().next().is_none() && restored.coming().next().is_none());
    }
}

/// Shows: F-3
#[test]
fn what_another_device_says_changes_nothing() {
    let (mut pair, hash) = approved();
    let (one, two, three) = (device(1), device(2), device(3));
    let receipt = |by: &LocalDevice, root| {
        let receipt = TransferReceipt {
            transfer: ID,
            source: one.device(),
            destination: by.device(),
            root,
            place: String::new(),
        };
        TransferMessage::Received(by.sign(&receipt).unwrap())
    };
    let accept = |by: &LocalDevice, offer| {
        let accept = TransferAccept {
            transfer: ID,
            source: one.device(),
            destination: by.device(),
            offer,
            exchange_key: [8; 32],
        };
        TransferMessage::Accept(by.sign(&accept).unwrap())
    };
    let end = TransferMessage::End { transfer: ID, refusal: Refusal::Declined, detail: String::new() };
    let need = |key| TransferMessage::Need { transfer: ID, accepted_key: key, of: NeedOf::Payload, bitmap: vec![1] };
    let root = Hash::of(b"catalog");
    let strange = [
        (three.device(), receipt(&three, root)),
        (three.device(), receipt(&two, root)),
        (two.device(), receipt(&two, Hash::of(b"other"))),
        (three.device(), accept(&three, hash)),
        (two.device(), accept(&two, Hash::of(b"other"))),
        (three.device(), end.clone()),
        (three.device(), need(KEY)),
        (two.device(), need([1; 32])),
    ];
    for (from, message) in strange {
        pair.sender.handle_message(from, &message, MESH, at(5));
        assert!(pair.sender.poll().is_none(), "{message:?}");
    }
    pair.receiver.handle_message(three.device(), &end, MESH, at(5));
    let forged: Signed<TransferOffer> = {
        let good = one.sign(&offer(&two, TransferId::new([1; 16]))).unwrap();
        Signed::from_parts(good.bytes().to_vec(), three.key(), *good.signature())
    };
    pair.receiver.handle_message(one.device(), &TransferMessage::Offer(forged), MESH, at(5));
    let other_mesh = TransferMessage::Offer(one.sign(&offer(&two, TransferId::new([1; 16]))).unwrap());
    pair.receiver.handle_message(one.device(), &other_mesh, MeshId::new([1; 32]), at(5));
    pair.receiver.handle_message(three.device(), &other_mesh, MESH, at(5));
    assert!(pair.receiver.poll().is_none());
    pair.sender.handle_message(two.device(), &need(KEY), MESH, at(5));
    assert!(pair.sender.poll().is_some(), "the right one is heard");
}

/// Shows: F-3
#[test]
fn one_id_names_one_offer() {
    let (mut pair, _) = approved();
    let other = TransferOffer { note: "another".into(), ..offer(&device(2), ID) };
    let message = TransferMessage::Offer(device(1).sign(&other).unwrap());
    pair.receiver.handle_message(device(1).device(), &message, MESH, at(5));
    let said = pair.receiver.poll();
    let Some(TransferOutput::Send(_, said)) = said else { panic!("{said:?}") };
    assert!(matches!(inner(&said), TransferMessage::End { refusal: Refusal::Protocol, .. }));
    assert!(matches!(pair.receiver.coming().next().unwrap().1.phase(), ComingPhase::Receiving(_)));
}

/// Shows: F-10
#[test]
fn offers_of_one_peer_are_bounded() {
    let mut receiver = fresh(&device(2));
    for number in 0..=limits::TRANSFERS_PER_PEER as u8 {
        let offer = offer(&device(2), TransferId::new([number; 16]));
        let message = TransferMessage::Offer(device(1).sign(&offer).unwrap());
        receiver.handle_message(device(1).device(), &message, MESH, at(1));
    }
    assert_eq!(receiver.coming().count(), limits::TRANSFERS_PER_PEER);
    let mut sender = fresh(&device(1));
    for number in 0..limits::TRANSFERS as u8 {
        sender.queue(signed(&offer(&device(2), TransferId::new([number; 16]))), at(1)).unwrap();
    }
    let more = sender.queue(signed(&offer(&device(2), TransferId::new([255; 16]))), at(1));
    assert_eq!(more, Err(TransferError::TooMany(limits::TRANSFERS)));
}

/// As many are said as are taken of one device; a receiver that has no place all the same is asked again later.
///
/// Shows: F-10
#[test]
fn files_that_find_no_place_wait_for_one() {
    let mut sender = fresh(&device(1));
    let offered = |sender: &mut Transfers| {
        let sent = std::iter::from_fn(|| sender.poll());
        let offer = |output: TransferOutput| {
            let TransferOutput::Send(_, message) = output else { return None };
            let PeerMessage::Transfer(message) = *message else { return None };
            let TransferMessage::Offer(offer) = *message else { return None };
            Some(verify(&offer).unwrap().transfer)
        };
        sent.filter_map(offer).collect::<Vec<_>>()
    };
    let id = |number: u8| TransferId::new([number; 16]);
    for number in 0..20 {
        // The highest id first: it is the age that counts.
        sender.queue(signed(&offer(&device(2), id(100 - number))), at(u64::from(number))).unwrap();
    }
    sender.link_up(device(2).device());
    let first = offered(&mut sender);
    assert_eq!(first, (0..16).map(|number| id(100 - number)).collect::<Vec<_>>());
    let end = |refusal| TransferMessage::End { transfer: id(100), refusal, detail: String::new() };
    sender.handle_message(device(2).device(), &end(Refusal::Busy), MESH, at(30));
    assert_eq!((offered(&mut sender), sender.going().count()), (vec![], 20));
    sender.stop(id(99), Refusal::Cancelled, "").unwrap();
    assert_eq!(offered(&mut sender), [id(84), id(83)], "in the places of that one and of the one that is over");
    let again = Duration::from_secs(30) + limits::TRANSFER_AGAIN;
    assert_eq!(sender.poll_timeout(), Some(again));
    sender.stop(id(98), Refusal::Cancelled, "").unwrap();
    sender.handle_timeout(at(again.as_secs()));
    assert_eq!(offered(&mut sender), [id(82)], "the one that came back has the next place");
    sender.stop(id(97), Refusal::Cancelled, "").unwrap();
    assert_eq!(offered(&mut sender), [id(100)]);
    sender.handle_message(device(2).device(), &end(Refusal::Declined), MESH, at(200));
    assert_eq!(sender.ended().count(), 4);
}

/// Shows: F-11
#[test]
fn what_nobody_takes_expires_and_a_partial_goes_after_a_day() {
    let mut sender = fresh(&device(1));
    sender.queue(signed(&offer(&device(2), ID)), at(0)).unwrap();
    assert_eq!(sender.poll_timeout(), Some(limits::TRANSFER_TTL));
    sender.handle_timeout(at(limits::TRANSFER_TTL.as_secs() - 1));
    assert_eq!(sender.going().count(), 1);
    sender.handle_timeout(at(limits::TRANSFER_TTL.as_secs()));
    assert!(matches!(Pair::ended(&sender), TransferEnd::Not(Refusal::Expired, _)));

    let (mut pair, _) = approved();
    let day = limits::TRANSFER_PARTIAL_TTL.as_secs();
    pair.receiver.heard(ID, at(100));
    pair.receiver.handle_timeout(at(day + 50));
    assert_eq!(pair.receiver.coming().count(), 1);
    pair.receiver.handle_timeout(at(day + 100));
    assert_eq!(pair.receiver.coming().count(), 0);
}

/// Shows: F-9
#[test]
fn age_counts_over_restarts() {
    let records = [Record::Transfer(Box::new(TransferRecord::Queued {
        transfer: ID,
        to: device(2).device(),
        offer: signed(&offer(&device(2), ID)).signed().hash(),
        at_unix_ms: at(0).unix_ms,
    }))];
    let kept = |_| Some(signed(&offer(&device(2), ID)));
    let left_after = |seconds| {
        let later = Now { monotonic: Duration::ZERO, ..at(seconds) };
        Transfers::restore(device(1), records.iter(), &kept, later).poll_timeout()
    };
    let life = limits::TRANSFER_TTL.as_secs();
    assert_eq!(left_after(life - 4_000), Some(Duration::from_secs(4_000)));
    assert_eq!(left_after(life * 2), Some(limits::TRANSFER_HEARING), "a receiver that takes them is heard first");
}

/// Shows: F-9, F-11
#[test]
fn what_is_taken_on_the_sixth_day_goes_on_after_the_seventh() {
    let (mut pair, hash) = asked();
    let day = 24 * 60 * 60;
    pair.receiver.approve(ID, hash, at(2)).unwrap();
    pair.receiver.accept(ID, KEY).unwrap();
    pair.settle(at(6 * day));
    pair.sender.handle_timeout(at(8 * day));
    assert_eq!(pair.sender.going().count(), 1);
    pair.sender.handle_timeout(at(13 * day));
    assert_eq!(pair.sender.going().count(), 0);
}

/// Shows: F-12
#[test]
fn either_side_withdraws_and_the_other_hears_of_it() {
    let (mut pair, _) = approved();
    pair.sender.stop(ID, Refusal::Cancelled, "withdrawn").unwrap();
    pair.settle(at(3));
    assert_eq!(Pair::ended(&pair.receiver), TransferEnd::Not(Refusal::Cancelled, "withdrawn".into()));
    let (mut pair, _) = approved();
    pair.receiver.stop(ID, Refusal::Cancelled, "withdrawn").unwrap();
    pair.settle(at(3));
    assert_eq!(Pair::ended(&pair.sender), TransferEnd::Not(Refusal::Cancelled, "withdrawn".into()));
    assert_eq!(pair.sender.stop(ID, Refusal::Cancelled, ""), Err(TransferError::Unknown));
    let (mut pair, _) = approved();
    pair.receiver.received(ID, "Downloads/f").unwrap();
    pair.sender.stop(ID, Refusal::Cancelled, "withdrawn").unwrap();
    pair.settle(at(3));
    let came = TransferEnd::Received("Downloads/f".into());
    assert_eq!(
        (Pair::ended(&pair.sender), Pair::ended(&pair.receiver)),
        (came.clone(), came),
        "the receipt was on its way"
    );
    let (mut pair, _) = approved();
    pair.receiver.forget_peer(device(1).device());
    assert!(matches!(Pair::ended(&pair.receiver), TransferEnd::Not(Refusal::NotGranted, _)));
}

/// Its link is gone, or it is away, when the sender withdraws: it hears of that with the next link, also after a restart.
///
/// Shows: F-12
#[test]
fn receiver_that_did_not_hear_of_the_end_hears_it_with_the_next_link() {
    for (yes, restart) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut pair, _) = if yes { approved() } else { asked() };
        pair.sender.link_down(device(2).device());
        pair.receiver.link_down(device(1).device());
        pair.sender.stop(ID, Refusal::Cancelled, "in /home/me").unwrap();
        while let Some(output) = pair.sender.poll() {
            if let TransferOutput::Persist(batch) = output {
                pair.sent.extend(batch);
            }
        }
        if restart {
            pair.sender = Transfers::restore(device(1), pair.sent.iter(), &|_| None, at(3));
        }
        assert_eq!(pair.receiver.coming().count(), 1);
        pair.link();
        pair.settle(at(4));
        assert_eq!(pair.receiver.coming().count(), 0, "{yes} {restart}");
        assert_eq!(Pair::ended(&pair.receiver), TransferEnd::Not(Refusal::Cancelled, OVER_THERE.into()));
        pair.link();
        pair.settle(at(5));
        assert_eq!(Pair::ended(&pair.sender), TransferEnd::Not(Refusal::Cancelled, "in /home/me".into()));
    }
}

#[test]
fn compaction_keeps_what_is_open_and_the_newest_ends() {
    let (mut pair, _) = approved();
    pair.settle(at(3));
    let mut records = pair.sent.clone();
    let end = |number: u16| {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&number.to_le_bytes());
        let (transfer, peer, detail) = (TransferId::new(id), device(2).device(), String::new());
        let ended = TransferRecord::Ended { transfer, peer, going: true, refusal: Refusal::Declined, detail };
        Record::Transfer(Box::new(ended))
    };
    let ends = limits::ENDED_TRANSFERS as u16;
    records.extend((0..ends + 3).map(end));
    let kept = compact(&records);
    assert_eq!(kept.len(), limits::ENDED_TRANSFERS + 1);
    assert!(kept.contains(&0) && !kept.contains(&3) && kept.contains(&4));
    let kept: Vec<Record> = kept.into_iter().map(|index| records[index].clone()).collect();
    let offer_of = |_| Some(signed(&offer(&device(2), ID)));
    let [long, short] = [&records, &kept].map(|all| Transfers::restore(device(1), all.iter(), &offer_of, at(9)));
    assert_eq!(long.going().count(), short.going().count());
    assert!(long.ended().eq(short.ended()));
    assert_eq!(long.ended().count(), limits::ENDED_TRANSFERS);
}

/// The word of the receiver that the sender takes for its own, once it came.
fn accepted(pair: &Pair) -> Verified<TransferAccept> {
    let accept = pair.told.iter().rev().find_map(|event| {
        let TransferEvent::Accepted(accept) = event else { return None };
        Some((**accept).clone())
    });
    accept.unwrap()
}

/// Shows: F-3
#[test]
fn files_are_fetched_with_the_key_that_answers_this_yes() {
    let (mut pair, hash) = approved();
    let accept = accepted(&pair);
    let key = |by: &LocalDevice, offer, accepted_key| {
        let (source, destination) = (by.device(), device(2).device());
        let key = TransferKey { transfer: ID, source, destination, offer, accepted_key, exchange_key: [6; 32] };
        by.sign(&key).unwrap()
    };
    let (one, three) = (device(1), device(3));
    let good = key(&one, hash, KEY);
    let forged = Signed::from_parts(good.bytes().to_vec(), three.key(), *good.signature());
    let unknown = TransferKey { transfer: TransferId::new([1; 16]), ..(*verify(&good).unwrap()).clone() };
    let elsewhere = TransferKey { destination: three.device(), ..(*verify(&good).unwrap()).clone() };
    let strange = [
        (three.device(), key(&three, hash, KEY)),
        (three.device(), good.clone()),
        (one.device(), key(&one, Hash::of(b"other"), KEY)),
        (one.device(), key(&one, hash, [1; 32])),
        (one.device(), forged),
        (one.device(), one.sign(&unknown).unwrap()),
        (one.device(), one.sign(&elsewhere).unwrap()),
    ];
    for (from, key) in strange {
        pair.receiver.handle_message(from, &TransferMessage::Key(key.clone()), MESH, at(5));
        assert!(pair.receiver.poll().is_none(), "{key:?}");
    }
    pair.sender.key(&accept, [5; 32]).unwrap();
    pair.settle(at(6));
    assert_eq!(pair.told(|event| matches!(event, TransferEvent::Fetch(key) if key.exchange_key == [5; 32])), 1);
    assert_eq!(pair.receiver.poll_timeout(), Some(at(6).after(limits::TRANSFER_PARTIAL_TTL)), "it is heard of");
    // After a reconnect another key is asked for, and what answers the old one is late.
    pair.receiver.link_down(device(1).device());
    pair.receiver.accept(ID, [4; 32]).unwrap();
    pair.settle(at(7));
    assert_eq!(pair.sender.key(&accept, [5; 32]), Err(TransferError::Phase));
    pair.sender.stop(ID, Refusal::Cancelled, "").unwrap();
    assert_eq!(pair.sender.key(&accept, [5; 32]), Err(TransferError::Unknown));
}

/// Shows: F-8
#[test]
fn what_was_withdrawn_here_came_all_the_same_only_by_the_word_of_its_receiver() {
    let [one, two, three] = [1, 2, 3].map(device);
    let receipt = |by: &LocalDevice, source| {
        let (destination, root) = (by.device(), Hash::of(b"catalog"));
        let receipt = TransferReceipt { transfer: ID, source, destination, root, place: "f".into() };
        (by.device(), TransferMessage::Received(by.sign(&receipt).unwrap()))
    };
    for refusal in [Refusal::Cancelled, Refusal::Declined] {
        let (mut pair, _) = approved();
        pair.sender.stop(ID, refusal, "").unwrap();
        for (from, message) in [receipt(&three, one.device()), receipt(&two, three.device())] {
            pair.sender.handle_message(from, &message, MESH, at(3));
            assert_eq!(Pair::ended(&pair.sender), TransferEnd::Not(refusal, String::new()));
        }
        let (from, message) = receipt(&two, one.device());
        pair.sender.handle_message(from, &message, MESH, at(3));
        let came = Pair::ended(&pair.sender) == TransferEnd::Received("f".into());
        assert_eq!(came, refusal == Refusal::Cancelled, "{refusal:?}");
    }
}

/// Shows: F-9
#[test]
fn line_and_membership_of_another_device_end_nothing_that_goes_to_this_one() {
    let (mut pair, _) = approved();
    pair.told.clear();
    let (two, three) = (device(2).device(), device(3).device());
    pair.sender.link_down(three);
    pair.sender.forget_peer(three);
    assert!(pair.sender.poll().is_none());
    pair.sender.link_down(two);
    pair.settle(at(3));
    assert_eq!(pair.told(|event| matches!(event, TransferEvent::Paused(ID))), 1);
    assert_eq!(pair.sender.going().next().unwrap().1.phase(), GoingPhase::Queued);
    pair.sender.forget_peer(two);
    assert!(matches!(Pair::ended(&pair.sender), TransferEnd::Not(Refusal::NotGranted, _)));
}

/// Shows: F-9
#[test]
fn line_that_ends_pauses_what_comes_over_it_and_nothing_else() {
    let (mut pair, _) = approved();
    pair.told.clear();
    pair.receiver.link_down(device(3).device());
    pair.settle(at(3));
    assert_eq!(pair.told(|_| true), 0);
    pair.receiver.link_down(device(1).device());
    pair.settle(at(3));
    assert_eq!(pair.told(|event| matches!(event, TransferEvent::Paused(ID))), 1);
    assert_eq!(pair.receiver.coming().next().unwrap().1.phase(), ComingPhase::Approved);
    let (mut pair, _) = asked();
    pair.told.clear();
    pair.receiver.link_down(device(1).device());
    pair.settle(at(3));
    assert_eq!((pair.told(|_| true), pair.receiver.coming().count()), (0, 1), "a question waits on");
}

/// Shows: F-11
#[test]
fn peer_is_waited_for_while_something_goes_to_it_or_was_said_yes_to() {
    let (mut pair, hash) = asked();
    let (one, two) = (device(1).device(), device(2).device());
    assert!(pair.sender.waits_for(two) && !pair.sender.waits_for(one));
    assert!(!pair.receiver.waits_for(one), "a question is none");
    pair.receiver.heard(ID, at(500));
    assert_eq!(pair.receiver.poll_timeout(), Some(at(1).after(limits::QUESTION_HELD)), "and nothing prolongs it");
    pair.receiver.approve(ID, hash, at(2)).unwrap();
    assert_eq!(pair.receiver.approve(ID, hash, at(3)), Err(TransferError::Phase), "a yes is said once");
    assert!(pair.receiver.waits_for(one) && !pair.receiver.waits_for(device(3).device()));
    let shown = [pair.sender.going().next().unwrap().1.offer(), pair.receiver.coming().next().unwrap().1.offer()];
    assert_eq!(shown.map(|offer| offer.signed().hash()), [hash; 2]);
}

/// Shows: F-3, F-10
#[test]
fn offer_under_the_name_of_another_peers_is_refused_or_unheard() {
    let (mut pair, _) = approved();
    let (two, three) = (device(2), device(3));
    let theirs = TransferOffer { source: three.device(), ..offer(&two, ID) };
    let theirs = TransferMessage::Offer(three.sign(&theirs).unwrap());
    pair.receiver.handle_message(three.device(), &theirs, MESH, at(5));
    let Some(TransferOutput::Send(to, said)) = pair.receiver.poll() else { panic!("no answer") };
    assert_eq!(to, three.device());
    assert!(matches!(inner(&said), TransferMessage::End { refusal: Refusal::Protocol, .. }));
    assert!(matches!(pair.receiver.coming().next().unwrap().1.phase(), ComingPhase::Receiving(_)));
    pair.receiver.received(ID, "/there/f").unwrap();
    pair.settle(at(6));
    pair.receiver.handle_message(three.device(), &theirs, MESH, at(7));
    assert!(pair.receiver.poll().is_none(), "what became of it is nothing to another device");
    let back = TransferOffer { source: two.device(), destination: device(1).device(), ..offer(&two, ID) };
    let back = TransferMessage::Offer(two.sign(&back).unwrap());
    pair.sender.handle_message(two.device(), &back, MESH, at(7));
    assert!(pair.sender.poll().is_none(), "it is the name of one that went");
    let elsewhere = TransferMessage::Offer(device(1).sign(&offer(&three, TransferId::new([1; 16]))).unwrap());
    pair.receiver.handle_message(device(1).device(), &elsewhere, MESH, at(7));
    assert!(pair.receiver.poll().is_none(), "it is for another device");
    let carried = TransferAccept {
        transfer: ID,
        source: device(1).device(),
        destination: two.device(),
        offer: Hash::of(b""),
        exchange_key: KEY,
    };
    let (mut pair, hash) = asked();
    let carried = TransferMessage::Accept(two.sign(&TransferAccept { offer: hash, ..carried }).unwrap());
    pair.sender.handle_message(three.device(), &carried, MESH, at(7));
    assert_eq!(pair.sender.going().next().unwrap().1.phase(), GoingPhase::Offered);
}

/// Shows: F-10
#[test]
fn offers_of_all_peers_together_are_bounded() {
    let mut receiver = fresh(&device(2));
    for number in 0..=limits::TRANSFERS as u8 {
        let by = device(10 + number / limits::TRANSFERS_PER_PEER as u8);
        let offer = TransferOffer { source: by.device(), ..offer(&device(2), TransferId::new([number; 16])) };
        receiver.handle_message(by.device(), &TransferMessage::Offer(by.sign(&offer).unwrap()), MESH, at(1));
    }
    assert_eq!(receiver.coming().count(), limits::TRANSFERS);
    let mut sender = fresh(&device(1));
    sender.queue(signed(&offer(&device(2), ID)), at(1)).unwrap();
    assert!(matches!(sender.queue(signed(&offer(&device(2), ID)), at(1)), Err(TransferError::Bug(_))), "twice");
    let foreign = sender.queue(signed(&offer(&device(2), TransferId::new([1; 16]))), at(1));
    assert_eq!(foreign, Ok(()));
    let mut other = fresh(&device(3));
    assert!(matches!(other.queue(signed(&offer(&device(2), ID)), at(1)), Err(TransferError::Bug(_))), "of another");
}

/// Shows: F-9
#[test]
fn what_was_received_is_known_after_a_restart_and_another_offer_under_its_name_is_lost() {
    let (mut pair, _) = approved();
    let other = |_| Some(signed(&TransferOffer { note: "another".into(), ..offer(&device(2), ID) }));
    for (local, records) in [(device(1), &pair.sent), (device(2), &pair.came)] {
        let restored = Transfers::restore(local, records.iter(), &other, at(10));
        assert_eq!((restored.going().count(), restored.coming().count()), (0, 0));
        assert!(matches!(Pair::ended(&restored), TransferEnd::Not(Refusal::Cancelled, _)));
    }
    pair.receiver.received(ID, "/there/f").unwrap();
    pair.settle(at(3));
    // The same end twice is one.
    let twice: Vec<Record> = pair.came.iter().chain(pair.came.last()).cloned().collect();
    let restored = Transfers::restore(device(2), twice.iter(), &|_| None, at(10));
    assert_eq!(Pair::ended(&restored), TransferEnd::Received("/there/f".into()));
    assert_eq!(restored.ended().count(), 1);
}
