//! S6 and S7: an owner that is gone, and one that comes back.

use cede_wire::custody::SeizeVote;
use cede_wire::record::Doubt;

use super::*;
use crate::custodian::SeizeError;

impl Net {
    /// The device is gone: nothing reaches it, nothing comes from it.
    pub(super) fn lose_device(&mut self, node: usize) {
        let gone = self.id(node);
        for peer in 0..self.nodes.len() {
            let id = self.id(peer);
            self.nodes[peer].custodian.link_down(gone);
            self.nodes[node].custodian.link_down(id);
        }
        self.mail.retain(|mail| mail.to != node && mail.from != node);
    }

    /// The operator at `node` takes the session over with what lies there.
    pub(super) fn seize(&mut self, node: usize) -> Result<(), SeizeError> {
        let now = self.now;
        let here = self.nodes[node].logs.get(&session()).map(|log| head(log));
        self.nodes[node].custodian.seize(session(), here, now)?;
        self.drain(node);
        self.run();
        Ok(())
    }

    fn token(&self, node: usize) -> FencingToken {
        self.nodes[node].custodian.token(session())
    }

    fn not_seized(&self, node: usize) -> Option<Refusal> {
        self.nodes[node].told.iter().rev().find_map(|event| {
            let Event::NotSeized { refusal, answers, .. } = event else { return None };
            Some(answers.first().map_or(*refusal, |(_, refusal, _)| *refusal))
        })
    }

    /// The journal as it was, on another disk or from a backup.
    fn put_back(&mut self, node: usize, journal: Vec<Record>, why: Doubt) {
        self.nodes[node].journal = journal;
        self.nodes[node].journal.push(Record::Doubted { why });
        self.crash(node);
    }
}

fn generation(generation: u64) -> FencingToken {
    FencingToken { generation, epoch: 0 }
}

/// A staged at B, its release lost, and gone.
fn staged_and_gone() -> Net {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    net.lose_device(A);
    net
}

/// Shows: H-9, H-10, J-1
#[test]
fn s6_owner_that_is_gone_is_followed_by_the_device_that_staged_the_session() {
    let mut net = staged_and_gone();
    let prospect = net.nodes[B].custodian.prospect(session(), None).unwrap();
    assert_eq!((prospect.owner, prospect.next_token, prospect.head), (net.id(A), generation(1), head(&[1, 2])));
    net.seize(B).unwrap();
    net.only_owner(B, &[1, 2]);
    assert_eq!(net.token(B), generation(1));
    assert_eq!(net.after_crash(B), Some(Standing::InCharge));
    // A comes back released, and what it gave is all there: it has nothing to keep.
    net.link(A, B);
    assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(B))));
    assert_eq!(net.told(A, |event| matches!(event, Event::Seized { .. })), 0);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-9, H-10, H-32
#[test]
fn s6_owner_that_comes_back_is_fenced_and_keeps_its_own_turns() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    net.turn(A, 3);
    net.lose_device(A);
    net.seize(B).unwrap();
    assert_eq!(net.standing(B), Some(Standing::InCharge));
    net.turn(A, 4);
    assert!(net.nodes[A].custodian.may_act(session()), "A has not heard of it");
    net.link(A, B);
    assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(B))));
    assert_eq!(net.nodes[A].branches, [vec![1, 2, 3, 4]]);
    assert_eq!(net.after_crash(A), Some(Standing::SeizedBy(net.id(B))));
    net.only_owner(B, &[1, 2]);
    // And the session may come to it again.
    net.turn(B, 5);
    net.give(B, A);
    net.only_owner(A, &[1, 2, 5]);
    assert_eq!(net.token(A), FencingToken { generation: 1, epoch: 1 });
    assert_eq!(net.nodes[A].branches, [vec![1, 2, 3, 4]]);
}

/// Shows: H-9, H-10, J-1
#[test]
fn s6_nothing_comes_in_the_place_of_turns_that_are_not_kept_aside_yet() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    net.turn(A, 3);
    net.lose_device(A);
    net.seize(B).unwrap();
    net.ignore = Box::new(|event| matches!(event, Event::Seized { .. }));
    net.link(A, B);
    assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(B))));
    net.give(B, A);
    assert_eq!(net.refusal(B), Some(Refusal::Busy));
    assert_eq!(net.log(A), [1, 2, 3]);
    // A restart tells the hands again.
    net.ignore = Box::new(|_| false);
    net.crash(A);
    assert_eq!(net.nodes[A].branches, [vec![1, 2, 3]]);
    net.heal();
    net.give(B, A);
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-31, J-1
#[test]
fn of_three_devices_both_that_are_left_must_agree() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.lose_device(C);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.seize(B).unwrap();
    assert_eq!(net.standing(B), Some(Standing::Elsewhere(net.id(A))), "B decided alone");
    net.lose = Box::new(|_| false);
    net.link(B, C);
    assert!(net.acts(B));
    assert_eq!(net.token(B), generation(1));
    let voted = Record::Voted { session: session(), generation: 1, to: net.id(B) };
    assert!(net.nodes[C].journal.contains(&voted) && net.nodes[B].journal.contains(&voted));
    // C tells A, whom B never meets.
    net.lose_device(B);
    net.link(A, C);
    assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(B))));
}

/// Shows: H-31
#[test]
fn vote_is_given_once_for_a_generation_also_after_a_crash() {
    let mut net = Net::new(5);
    net.turn(A, 1);
    net.heal();
    net.give(A, C);
    net.give(C, B);
    net.give(B, C);
    net.give(C, A);
    let chain = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    net.deliver(A, B, &PeerMessage::Custody(chain));
    net.lose_device(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeAnswer { .. }));
    net.seize(B).unwrap();
    for voter in [C, 3, 4] {
        net.crash(voter);
    }
    net.lose = Box::new(|_| false);
    net.lose_device(B);
    for voter in [3, 4] {
        net.link(C, voter);
    }
    // B heard of no vote, but all are given: C cannot have the same generation.
    let voted = Record::Voted { session: session(), generation: 1, to: net.id(B) };
    assert_eq!(net.nodes[3].journal, [voted]);
    let query = net.find_sent(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.deliver(C, 3, &query);
    let PeerMessage::SeizeAnswer { answer, .. } = net.last_sent(3) else { panic!("no answer") };
    assert_eq!(answer.as_ref().unwrap_err().0, Refusal::Declined);
    net.deliver(B, 3, &query);
    assert!(matches!(net.last_sent(3), PeerMessage::SeizeAnswer { answer: Ok(_), .. }), "B may ask again");
    net.mail.clear();
    net.seize(C).unwrap();
    assert_eq!(net.token(C), generation(2), "the next generation is free");
    assert_eq!(net.token(B).generation, 0);
}

/// Shows: H-31
#[test]
fn no_vote_against_an_owner_that_is_there() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    // B has lost its line to A; C has not.
    let (a, b) = (net.id(A), net.id(B));
    net.nodes[B].custodian.link_down(a);
    net.nodes[A].custodian.link_down(b);
    net.seize(B).unwrap();
    assert_eq!(net.not_seized(B), Some(Refusal::Busy));
    net.only_owner(A, &[1, 2]);
    assert_eq!(net.nodes[C].journal.iter().filter(|record| matches!(record, Record::Voted { .. })).count(), 0);
}

/// Shows: H-31
#[test]
fn seize_that_nobody_answers_comes_to_nothing() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.lose_device(C);
    net.lose = Box::new(|_| true);
    net.seize(B).unwrap();
    net.pass(Duration::from_secs(60));
    assert_eq!(net.not_seized(B), Some(Refusal::TimedOut));
    assert_eq!(net.standing(B), Some(Standing::Elsewhere(net.id(A))));
}

/// Shows: H-9
#[test]
fn session_of_which_nothing_lies_here_is_not_seized() {
    let mut net = Net::three();
    net.give(A, B);
    let now = net.now;
    let seized = net.nodes[C].custodian.seize(session(), Some(head(&[1])), now);
    assert_eq!(seized, Err(SeizeError::Unknown));
    net.nodes[A].logs.clear();
    assert_eq!(net.seize(A), Err(SeizeError::NoCopy));
    assert_eq!(net.seize(B), Err(SeizeError::AlreadyOwner));
}

/// Shows: H-9, H-20
#[test]
fn designate_whose_source_is_gone_goes_on_with_an_older_copy() {
    let mut net = Net::pair();
    net.give(A, B);
    net.turn(B, 3);
    net.give(B, A);
    net.turn(A, 4);
    crashes::lose_stage_before_release(&mut net);
    net.nodes[A].copies.clear();
    net.heal();
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    net.lose_device(A);
    net.seize(B).unwrap();
    net.only_owner(B, &[1, 2, 3]);
    net.link(A, B);
    assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(B))));
    assert_eq!(net.nodes[A].branches, [vec![1, 2, 3, 4]]);
}

/// Two operators of two devices were each told that the other is gone.
///
/// Shows: H-33, J-1
#[test]
fn two_seizes_of_one_generation_stop_both_until_there_is_a_higher_one() {
    let mut net = staged_and_gone();
    assert!(matches!(net.standing(A), Some(Standing::ReleasedTo(_))));
    net.apart = true;
    net.seize(B).unwrap();
    net.seize(A).unwrap();
    assert!(net.nodes[A].custodian.may_act(session()) && net.nodes[B].custodian.may_act(session()));
    net.link(A, B);
    net.apart = false;
    for node in [A, B] {
        assert_eq!(net.standing(node), Some(Standing::Unconfirmed));
        assert_eq!(net.after_crash(node), Some(Standing::Unconfirmed));
        net.nodes[node].custodian.confirm_all();
        net.drain(node);
        assert_eq!(net.standing(node), Some(Standing::Unconfirmed), "a word of one side ends no contest");
    }
    net.seize(A).unwrap();
    net.only_owner(A, &[1, 2]);
    assert_eq!(net.token(A), generation(2));
    assert_eq!(net.standing(B), Some(Standing::SeizedBy(net.id(A))));
    assert_eq!(net.after_crash(B), Some(Standing::SeizedBy(net.id(A))));
}

/// Shows: H-3, H-32
#[test]
fn seize_that_passes_a_release_is_known_the_same_way_on_every_device() {
    let mut net = Net::three();
    // A, B: A released to B, and only A knows. C had the session before and seizes with the old chain.
    net.give(A, C);
    net.give(C, A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    net.lose_device(A);
    net.seize(C).unwrap();
    assert_eq!(net.token(C), generation(1));
    net.heal();
    net.pass(HOUR);
    net.only_owner(C, &[1, 2]);
    let chain = net.nodes[C].custodian.chain(session()).unwrap().clone();
    for node in [A, B] {
        assert_eq!(net.nodes[node].custodian.chain(session()), Some(&chain));
        net.crash(node);
        assert_eq!(net.nodes[node].custodian.chain(session()), Some(&chain), "after a restart");
    }
    net.heal();
    net.give(C, B);
    net.only_owner(B, &[1, 2]);
}

/// Shows: H-22, H-26
#[test]
fn s7_store_that_was_put_back_acts_for_nothing_until_it_is_confirmed() {
    for why in [Doubt::RolledBack, Doubt::Copied, Doubt::Damaged] {
        let mut net = Net::pair();
        net.give(A, B);
        let old = net.nodes[A].journal.clone();
        net.give(B, A);
        net.give(A, B);
        net.put_back(A, old, why);
        let unknown = named("another").id();
        assert!(!net.nodes[A].custodian.may_act(session()) && !net.nodes[A].custodian.may_act(unknown));
        assert_eq!(net.nodes[A].custodian.doubt(), Some(why));
        net.crash(A);
        assert!(!net.nodes[A].custodian.may_act(unknown), "a restart ends no doubt");
        net.heal();
        // What B says of itself is newer.
        assert_eq!(net.standing(A), Some(Standing::Elsewhere(net.id(B))));
        assert!(!net.nodes[A].custodian.may_act(unknown), "one answer of a peer ends no doubt");
        net.nodes[A].custodian.confirm(unknown);
        net.drain(A);
        assert!(net.nodes[A].custodian.may_act(unknown));
        net.nodes[A].custodian.confirm_all();
        net.drain(A);
        net.crash(A);
        assert_eq!(net.nodes[A].custodian.doubt(), None);
    }
}

/// Shows: H-26
#[test]
fn s7_ends_by_the_word_of_every_other_device_where_that_suffices() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    let journal = net.nodes[A].journal.clone();
    net.put_back(A, journal, Doubt::RolledBack);
    net.nodes[A].custodian.set_peers_suffice(true);
    net.link(A, B);
    assert_eq!(net.standing(A), Some(Standing::Unconfirmed), "B alone is not every device");
    net.link(A, C);
    net.only_owner(A, &[1, 2]);
    assert_eq!(net.after_crash(A), Some(Standing::InCharge));
}

/// Shows: H-26
#[test]
fn s7_does_not_end_while_a_device_holds_what_may_have_been_released_to_it() {
    let mut net = Net::pair();
    let before = net.nodes[A].journal.clone();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    let genesis = net.nodes[A].journal.first().cloned().unwrap();
    net.put_back(A, [before, vec![genesis]].concat(), Doubt::RolledBack);
    net.nodes[A].custodian.set_peers_suffice(true);
    net.link(A, B);
    assert_eq!(net.standing(A), Some(Standing::Unconfirmed));
}

/// Shows: H-26
#[test]
fn own_signature_that_a_device_does_not_know_puts_it_in_doubt() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    let old = net.nodes[A].journal.clone();
    net.give(A, B);
    // Nothing tells A that its journal is an older one.
    net.nodes[A].journal = old;
    net.lose_device(A);
    net.nodes[A].custodian = restore(&net.nodes[A].local, &net.nodes[A].journal, Trust::Whole, net.now);
    net.apart = true;
    net.link(A, B);
    net.apart = false;
    assert_eq!(net.nodes[A].custodian.doubt(), Some(Doubt::Forgotten));
    assert!(!net.nodes[A].custodian.may_act(session()));
    net.only_owner(B, &[1, 2]);
    net.crash(A);
    assert_eq!(net.nodes[A].custodian.doubt(), Some(Doubt::Forgotten));
}

/// Shows: H-9, H-10, H-31, J-1
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn crash_at_every_output_of_a_seize_leaves_at_most_one_owner_of_each_token() {
    for node in [A, B, C] {
        for k in 0..40 {
            let mut net = Net::three();
            net.give(A, B);
            net.give(B, A);
            net.lose_device(A);
            net.turn(A, 9);
            net.nodes[node].fuse = Some(k);
            let _ = net.seize(B);
            net.heal();
            net.pass(HOUR);
            if net.token(B).generation == 0 {
                net.lose_device(A);
                net.seize(B).unwrap();
                net.heal();
                net.pass(HOUR);
            }
            net.only_owner(B, &[1, 2]);
            assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(B))));
            assert_eq!(net.nodes[A].branches.last(), Some(&vec![1, 2, 9]));
        }
    }
}

/// Shows: H-9, H-21, H-24
#[test]
fn fence_of_an_attempt_that_a_seize_ended_does_not_stand_over_what_comes_back() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::CommitAck(_)));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    net.lose_device(A);
    net.seize(B).unwrap();
    net.link(A, B);
    assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(B))));
    net.give(B, A);
    net.only_owner(A, &[1, 2]);
    assert_eq!(net.nodes[A].custodian.fences_to_lift(), []);
}

/// Shows: H-9, H-16, H-32
#[test]
fn device_that_acts_under_a_seized_token_hears_of_the_seize_by_the_line_that_stands() {
    let mut net = Net::pair();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    // A takes back what it released; its word of it is lost, and the release comes late.
    net.lose = Box::new(|message| matches!(message, PeerMessage::Custody(_)));
    net.seize(A).unwrap();
    net.lose = Box::new(|_| false);
    let late = net.sent.iter().find(|(from, message)| *from == A && matches!(message, PeerMessage::Release { .. }));
    let late = late.map(|(_, message)| message.clone()).unwrap();
    let (from, now) = (net.id(A), net.now);
    net.nodes[B].custodian.handle_message(from, &late, now);
    net.drain(B);
    net.run();
    net.only_owner(A, &[1, 2]);
    assert_eq!(net.standing(B), Some(Standing::SeizedBy(net.id(A))));
}

/// Shows: H-9, H-10
#[test]
fn seized_stage_that_is_lost_before_it_is_in_its_place_is_seized_again_where_turns_are() {
    let mut net = staged_and_gone();
    net.ignore = Box::new(|event| matches!(event, Event::Activate { .. }));
    net.seize(B).unwrap();
    assert_eq!(net.standing(B), Some(Standing::Arriving));
    let handoff = HandoffId::new([1; 16]);
    net.nodes[B].custodian.receive_failed(session(), handoff, Refusal::IntegrityFailed, "the stage is lost");
    net.drain(B);
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    assert!(!net.acts(B));
    net.ignore = Box::new(|_| false);
    net.link(A, B);
    net.seize(A).unwrap();
    net.only_owner(A, &[1, 2]);
    assert_eq!(net.token(A), generation(2));
    assert!(matches!(net.standing(B), Some(Standing::Elsewhere(_))));
}

/// Shows: H-9, H-31
#[test]
fn copy_that_is_lost_while_the_votes_come_is_not_seized_with() {
    let mut net = Net::three();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    let handoff = net.give(A, B);
    net.lose_device(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.seize(B).unwrap();
    let query = net.find_sent(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.nodes[B].custodian.receive_failed(session(), handoff, Refusal::IntegrityFailed, "the stage is lost");
    net.drain(B);
    net.deliver(B, C, &query);
    net.run();
    assert_eq!(net.not_seized(B), Some(Refusal::Cancelled));
    assert_eq!(net.token(B).generation, 0);
}

/// Shows: H-12, H-31
#[test]
fn question_that_waits_for_a_session_is_moot_once_it_is_seized_here() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, B);
    assert!(net.nodes[B].custodian.asked(session()).is_some());
    net.lose_device(A);
    net.seize(B).unwrap();
    assert!(net.acts(B));
    assert!(net.nodes[B].custodian.asked(session()).is_none(), "a yes to it would name what is over");
    let withdrawn = |event: &Event| matches!(event, Event::Withdrawn { handoff: gone, .. } if *gone == handoff);
    assert!(net.nodes[B].told.iter().any(withdrawn));
}

/// Shows: H-28, H-32
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn many_seized_sessions_are_told_in_rounds_that_a_line_can_take() {
    let mut net = Net::new(2);
    let keys: Vec<SessionKey> = (0..150).map(|n| named(&format!("session-{n}"))).collect();
    for key in &keys {
        net.nodes[A].logs.insert(key.id(), vec![1]);
    }
    net.link(A, B);
    for (n, key) in keys.iter().enumerate() {
        for (from, to) in [(A, B), (B, A)] {
            let mut id = [u8::from(from == A); 16];
            id[..2].copy_from_slice(&(n as u16).to_le_bytes());
            let log = net.nodes[from].logs.get(&key.id()).cloned().unwrap();
            let (to, now) = (net.id(to), net.now);
            net.nodes[from].custodian.offer(key, to, HandoffId::new(id), terms(head(&log)), now).unwrap();
            net.drain(from);
            net.run();
        }
    }
    net.lose_device(A);
    for key in &keys {
        let now = net.now;
        net.nodes[B].custodian.seize(key.id(), Some(head(&[1])), now).unwrap();
        net.drain(B);
        net.run();
    }
    net.link(A, B);
    let told = |key: &&SessionKey| matches!(net.nodes[A].custodian.standing(key.id()), Some(Standing::SeizedBy(_)));
    assert_eq!(keys.iter().filter(told).count(), keys.len());
}

/// Shows: H-33, H-24
#[test]
fn device_whose_seize_was_passed_by_the_other_one_starts_again() {
    let mut net = Net::pair();
    net.give(A, B);
    net.turn(B, 3);
    net.give(B, A);
    net.turn(A, 4);
    crashes::lose_stage_before_release(&mut net);
    net.nodes[A].copies.clear();
    net.heal();
    assert_eq!(net.standing(B), Some(Standing::PayloadMissing));
    net.lose_device(A);
    // Both seize the same certificate.
    net.apart = true;
    net.seize(B).unwrap();
    net.seize(A).unwrap();
    net.link(A, B);
    net.apart = false;
    net.seize(A).unwrap();
    net.only_owner(A, &[1, 2, 3, 4]);
    assert_eq!(net.standing(B), Some(Standing::SeizedBy(net.id(A))));
    assert_eq!(net.after_crash(B), Some(Standing::SeizedBy(net.id(A))));
}

/// Shows: H-31
#[test]
fn vote_for_an_unknown_session_is_remembered_when_an_offer_of_it_ends() {
    let mut net = Net::new(4);
    net.turn(A, 1);
    for (a, b) in [(A, B), (A, C), (B, C)] {
        net.link(a, b);
    }
    net.give(A, B);
    net.give(B, C);
    net.give(C, A);
    let chain = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
    net.deliver(A, B, &PeerMessage::Custody(chain.clone()));
    let query = PeerMessage::SeizeQuery { session: session(), generation: 1, members: 4, chain };
    net.deliver(B, 3, &query);
    assert!(matches!(net.last_sent(3), PeerMessage::SeizeAnswer { answer: Ok(_), .. }));
    net.ignore = Box::new(|event| matches!(event, Event::AskOperator(_)));
    let handoff = net.give(A, 3);
    net.nodes[3].custodian.decline(session(), handoff, Refusal::Declined, "no");
    net.drain(3);
    net.deliver(C, 3, &query);
    let PeerMessage::SeizeAnswer { answer, .. } = net.last_sent(3) else { panic!("no answer") };
    assert_eq!(answer.as_ref().unwrap_err().0, Refusal::Declined);
}

/// Shows: H-9, H-18
#[test]
fn what_was_released_is_kept_aside_where_the_seize_that_passed_it_was_given_on() {
    let mut net = Net::three();
    net.give(A, C);
    net.give(C, A);
    net.turn(A, 3);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    net.lose_device(A);
    net.seize(C).unwrap();
    net.give(C, B);
    net.only_owner(B, &[1, 2]);
    let retired = |net: &Net| net.told(A, |event| matches!(event, Event::Retired { .. }));
    let before = retired(&net);
    // A hears of both records at once.
    net.link(A, B);
    assert_eq!(retired(&net), before, "nobody has what A gave");
    assert_eq!(net.nodes[A].branches, [vec![1, 2, 3]]);
    assert_eq!(net.after_crash(A), Some(Standing::SeizedBy(net.id(B))));
}

/// Shows: H-9, H-33
#[test]
fn operator_hears_of_a_seize_that_a_doubt_ended() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    net.lose_device(A);
    net.lose = Box::new(|message| matches!(message, PeerMessage::SeizeQuery { .. }));
    net.seize(B).unwrap();
    net.nodes[B].custodian.doubt_all(Doubt::Forgotten);
    net.drain(B);
    assert_eq!(net.not_seized(B), Some(Refusal::StaleToken));
}

/// Shows: H-31
#[test]
fn device_that_is_not_enrolled_seizes_nothing() {
    let mut net = staged_and_gone();
    let mut electorate = net.electorate();
    electorate.note(3, [net.id(A)].into());
    net.nodes[B].custodian.set_electorate(electorate);
    net.seize(B).unwrap();
    assert_eq!(net.not_seized(B), Some(Refusal::Unauthorized));
    assert_eq!(net.token(B).generation, 0);
}

/// Shows: H-26
#[test]
fn device_that_released_one_session_twice_doubts_itself() {
    let mut net = Net::three();
    net.give(A, B);
    net.give(B, A);
    let old = net.nodes[A].journal.clone();
    net.give(A, B);
    net.lose_device(B);
    // Nothing tells A that its journal is an older one, and B is not there to say so.
    net.nodes[A].journal = old;
    net.crash(A);
    net.apart = true;
    net.link(A, C);
    net.give(A, C);
    assert_eq!(net.nodes[A].custodian.doubt(), None);
    net.link(A, B);
    assert_eq!(net.nodes[A].custodian.doubt(), Some(Doubt::Forgotten));
    net.crash(A);
    assert_eq!(net.nodes[A].custodian.doubt(), Some(Doubt::Forgotten));
}

/// Shows: H-26
#[test]
fn doubt_that_only_a_person_ends_is_not_hidden_by_one_that_peers_end() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    for why in [Doubt::Copied, Doubt::RolledBack] {
        let journal = net.nodes[A].journal.clone();
        net.put_back(A, journal, why);
    }
    assert_eq!(net.nodes[A].custodian.doubt(), Some(Doubt::Copied));
}

/// Shows: H-33
#[test]
fn contested_session_stays_stopped_where_one_side_that_has_not_heard_gives_it_on() {
    const D: usize = 3;
    let mut net = Net::new(4);
    net.turn(A, 1);
    // The two that seize know of no others, nor does who had the session in between.
    let mut two = Electorate::default();
    two.note(2, [net.id(A), net.id(B)].into());
    for node in [A, B, C] {
        net.nodes[node].custodian.set_electorate(two.clone());
    }
    net.link(A, C);
    net.give(A, C);
    net.give(C, A);
    net.link(A, B);
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    net.give(A, B);
    net.lose = Box::new(|_| false);
    net.lose_device(A);
    net.apart = true;
    net.seize(B).unwrap();
    net.seize(A).unwrap();
    let mut electorate = net.electorate();
    electorate.note(2, [net.id(A), net.id(B)].into());
    for node in [C, D] {
        net.nodes[node].custodian.set_electorate(electorate.clone());
    }
    net.link(B, C);
    net.link(A, C);
    assert_eq!(net.standing(C), Some(Standing::Unconfirmed));
    net.link(B, D);
    net.give(B, D);
    net.link(D, C);
    assert_eq!(net.nodes[C].custodian.owner(session()), Some(net.id(D)));
    assert_eq!(net.standing(C), Some(Standing::Unconfirmed));
    assert_eq!(net.after_crash(C), Some(Standing::Unconfirmed));
}

/// Shows: H-9
#[test]
fn offer_that_brings_the_news_of_a_seize_takes_no_place_before_turns_are_kept_aside() {
    let mut net = Net::pair();
    net.give(A, B);
    net.give(B, A);
    net.turn(A, 3);
    net.lose_device(A);
    net.seize(B).unwrap();
    net.lose = Box::new(|message| matches!(message, PeerMessage::Custody(_)));
    net.ignore = Box::new(|event| matches!(event, Event::Seized { .. }));
    net.link(A, B);
    assert!(net.nodes[A].custodian.may_act(session()), "A has not heard of it");
    net.give(B, A);
    assert_eq!(net.refusal(B), Some(Refusal::Busy));
    assert_eq!(net.standing(A), Some(Standing::SeizedBy(net.id(B))));
    net.heal();
    net.crash(A);
    assert_eq!(net.nodes[A].branches, [vec![1, 2, 3]]);
    net.heal();
    net.give(B, A);
    net.only_owner(A, &[1, 2]);
}

/// Shows: H-26, H-32
#[test]
fn own_release_that_one_seize_passed_and_a_later_one_brings_back_is_not_forgotten() {
    for restarts in [false, true] {
        let mut net = Net::three();
        net.give(A, C);
        net.give(C, A);
        net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
        net.give(A, B);
        net.lose = Box::new(|_| false);
        let mut links = net.nodes[A].custodian.chain(session()).unwrap().links().to_vec();
        let (token, prev) = (net.token(A), links.last().unwrap().hash());
        net.lose_device(A);
        net.seize(C).unwrap();
        net.heal();
        assert_eq!(net.token(A), generation(1));
        // B knows the release by other ways, and not that seize.
        let (to, voter) = (net.id(B), net.id(C));
        let vote = SeizeVote { mesh: mesh(), session: session(), generation: 2, members: 3, prev, to, voter };
        let votes = vec![net.nodes[C].local.sign(&vote).unwrap()];
        let (next_token, head) = (generation(2), head(&[1, 2]));
        let seize = Seize { mesh: mesh(), session: session(), prev, to, token, next_token, head, members: 3, votes };
        links.push(net.nodes[B].local.sign(&Custody::Seize(seize)).unwrap());
        if restarts {
            net.crash(A);
        }
        net.deliver(C, A, &PeerMessage::Custody(links));
        assert_eq!(net.token(A), generation(2));
        assert_eq!(net.nodes[A].custodian.doubt(), None, "restarts: {restarts}");
        assert_eq!(net.nodes[A].custodian.owner(session()), Some(to));
    }
}
