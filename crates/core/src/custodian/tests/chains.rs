//! What a chain says of the devices that its records name.

use super::*;
use crate::chain::Chain;
use crate::limits;

/// From A to B, back to A and on to C, and with which handoffs.
fn travelled() -> (Chain, [DeviceId; 3], [HandoffId; 3]) {
    let [a, b, c] = [1, 2, 3].map(|n| LocalDevice::from_secret(&[n; 32]));
    let handoffs = [1, 2, 3].map(|n| HandoffId::new([n; 16]));
    let mut links = vec![genesis(&a, &key())];
    for ((from, to), (epoch, handoff)) in [(&a, &b), (&b, &a), (&a, &c)].into_iter().zip((0..).zip(handoffs)) {
        let last = Release { handoff, ..release(from, to.device(), links.last().unwrap(), epoch) };
        links.push(from.sign(&Custody::Release(last)).unwrap());
    }
    (Chain::from_links(&links).unwrap(), [a, b, c].map(|local| local.device()), handoffs)
}

/// Shows: H-16
#[test]
fn release_is_found_by_its_handoff_and_its_device_and_by_no_other() {
    let (chain, [a, b, c], [first, second, third]) = travelled();
    let epoch = |to, handoff| chain.release_to(to, handoff).map(|release| release.next_token.epoch);
    assert_eq!([epoch(b, first), epoch(a, second), epoch(c, third)], [Some(1), Some(2), Some(3)]);
    assert_eq!([epoch(a, first), epoch(b, second), epoch(b, third)], [None; 3]);
}

#[test]
fn chain_names_the_handoffs_that_brought_a_session_and_the_last_that_took_it_away() {
    let (chain, [a, b, c], [first, second, third]) = travelled();
    let arrivals = |device| chain.arrivals_at(device).collect::<Vec<_>>();
    assert_eq!([arrivals(a), arrivals(b), arrivals(c)], [[second], [first], [third]]);
    assert_eq!([chain.left_by(a), chain.left_by(b), chain.left_by(c)], [Some(third), Some(second), None]);
}

/// Shows: H-3
#[test]
fn certificate_comes_with_what_its_device_lacks_before_it() {
    let (short, [_, b, _], _) = travelled();
    assert_eq!(short.before_last_for(b), &short.links()[..3], "a short chain is sent whole");
    let [a, b] = [1, 2].map(|n| LocalDevice::from_secret(&[n; 32]));
    let mut links = vec![genesis(&a, &key())];
    for (epoch, (from, to)) in (0..).zip([(&a, &b), (&b, &a)].into_iter().cycle().take(limits::WHOLE_CHAIN + 1)) {
        let next = release(from, to.device(), links.last().unwrap(), epoch);
        links.push(from.sign(&Custody::Release(next)).unwrap());
    }
    let long = Chain::from_links(&links).unwrap();
    let end = links.len() - 1;
    assert_eq!(long.before_last_for(b.device()), &links[end - 1..end], "it took part in that one");
    assert_eq!(long.before_last_for(DeviceId::new([9; 32])), &links[..end], "it never had the session");
}
