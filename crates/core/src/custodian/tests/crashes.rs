//! The power fails at every output of either side.

use super::*;

/// Shows: H-7, H-10, H-21, H-24, J-1
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn crash_at_every_output_leaves_one_owner_with_every_turn() {
    for node in [A, B] {
        let outputs = every_cut(node, |net| net.give(A, B));
        assert!(outputs >= 6, "the exchange has fewer outputs than messages: {outputs}");
    }
}

/// Shows: H-10, H-16, H-24
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn crash_at_every_output_of_a_repair_leaves_one_owner() {
    for node in [A, B] {
        every_cut(node, |net| {
            net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
            let handoff = net.give(A, B);
            net.lose = Box::new(|_| false);
            net.pass(HOUR);
            handoff
        });
    }
}

/// Shows: H-8, H-10, H-24
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn crash_at_every_output_of_a_designate_leaves_one_owner() {
    for node in [A, B] {
        every_cut(node, |net| {
            lose_stage_before_release(net);
            net.pass(HOUR);
            HandoffId::new([1; 16])
        });
    }
}

/// Shows: H-1, H-21, H-25
#[test]
#[cfg_attr(miri, ignore = "hundreds of signatures take the interpreter hours")]
fn crash_at_every_output_of_the_way_home_leaves_one_owner() {
    for node in [A, B] {
        for k in 0..60 {
            let mut net = Net::pair();
            net.give(A, B);
            net.turn(B, 3);
            net.nodes[node].fuse = Some(k);
            net.give(B, A);
            settle(&mut net);
            finish(&mut net, B, A, &[1, 2, 3]);
        }
    }
}

/// Cuts the power after each output in turn; gives their number.
fn every_cut(node: usize, exchange: impl Fn(&mut Net) -> HandoffId) -> usize {
    for k in 0..1_000 {
        let mut net = Net::pair();
        net.nodes[node].fuse = Some(k);
        exchange(&mut net);
        let whole = net.nodes[node].fuse.is_some();
        settle(&mut net);
        finish(&mut net, A, B, &[1, 2]);
        if whole {
            return k;
        }
    }
    panic!("the exchange never ends")
}

fn settle(net: &mut Net) {
    net.heal();
    net.pass(HOUR);
}

/// Either it completed, or it was plainly given up and a second attempt completes.
fn finish(net: &mut Net, from: usize, to: usize, turns: &[u8]) {
    if net.nodes[from].custodian.may_act(session()) {
        assert!(!net.acts(to), "two devices act");
        assert_eq!(net.log(from), turns, "the owner lacks turns");
        assert_eq!(net.nodes[from].custodian.fences_to_lift(), [], "a fence is left standing");
        net.give(from, to);
        net.pass(HOUR);
    }
    net.only_owner(to, turns);
    assert!(matches!(net.standing(from), Some(Standing::Elsewhere(_))), "the old owner was not retired");
    assert_eq!(net.log(to), turns);
}

/// B acknowledges, then throws its stage away (an abort that somebody forged in time), then A decides.
pub(super) fn lose_stage_before_release(net: &mut Net) {
    net.lose = Box::new(|message| matches!(message, PeerMessage::Release { .. }));
    let handoff = net.give(A, B);
    net.lose = Box::new(|_| false);
    if net.nodes[B].custodian.arriving(session()).is_some() {
        let abort = PeerMessage::Abort { handoff, refusal: Refusal::Cancelled };
        net.deliver(A, B, &abort);
    }
    if net.nodes[B].custodian.arriving(session()).is_none() {
        net.nodes[B].copies.clear();
    }
}
