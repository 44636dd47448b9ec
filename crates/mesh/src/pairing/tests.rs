use core::time::Duration;

use cede_seal::device::LocalDevice;
use cede_wire::canonical::Signed;
use cede_wire::id::Hash;
use cede_wire::member::{MemberChange, MemberEntry};
use proptest::prelude::*;

use super::*;
use crate::limits::{CONFIRM, FAILURES, LOCK, STEP, WORDS_LIFE};
use crate::membership::MembershipLog;
use world::*;

mod world;

/// Shows: P-1, P-4
#[test]
fn guest_with_the_words_and_a_yes_joins_and_both_hold_the_log() {
    let mut world = World::new();
    let words = world.arm();
    world.connect(&words);
    world.run();
    let (at_host, at_guest) = (compared(&world.host_told), compared(&world.guest_told));
    assert_eq!(at_host.0, at_guest.0, "both screens show the same");
    assert_eq!((at_host.1.as_deref(), at_guest.1), (Some("new-box"), None));
    assert_eq!(world.log.length(), 1, "nothing is signed before the yes");

    world.confirm(true);
    world.run();
    let joined = world.guest.as_ref().unwrap().log().unwrap();
    assert_eq!(joined, &world.log);
    let member = world.log.member(&guest_device().device()).unwrap();
    assert_eq!((member.name.as_str(), &member.capabilities[..]), ("new-box", &GRANT[..]));
    let event = |peer: &str| PairEvent::Joined { mesh: world.log.mesh(), peer: peer.to_owned() };
    assert_eq!(world.host_told.last(), Some(&event("new-box")));
    assert_eq!(world.guest_told.last(), Some(&event("home")));
    assert_eq!(world.host.poll_timeout(), None);
}

/// Shows: P-4
#[test]
fn entry_is_durable_before_it_leaves_and_the_log_before_it_is_acknowledged() {
    let mut world = asked();
    world.confirm(true);
    let outputs = drain(|| world.host.poll());
    let Some((Output::Persist(records), [Output::Send(PairMessage::Welcome(entries)), Output::Tell(_)])) =
        outputs.split_first()
    else {
        panic!("{outputs:?}");
    };
    assert_eq!(records[..], [Record::Member(entries[1].clone())]);

    let guest = world.guest.as_mut().unwrap();
    guest.handle_message(PairMessage::Welcome(entries.clone()), world.now);
    let outputs = drain(|| guest.poll());
    let [Output::Persist(records), Output::Send(PairMessage::Joined), Output::Close, Output::Tell(_)] = &outputs[..]
    else {
        panic!("{outputs:?}");
    };
    assert_eq!(records.len(), 2);
}

/// Shows: P-2
#[test]
fn wrong_words_burn_the_code_and_both_see_it() {
    let mut world = World::new();
    let words = world.arm();
    world.connect(&wrong(&words));
    world.run();
    assert_eq!(world.host_told, [PairEvent::Failed(PairError::WrongWords)]);
    assert_eq!(world.guest_told, [PairEvent::Failed(PairError::WrongWords)]);
    assert_eq!(world.try_connect(&words), Err(ConnectError::NotArmed), "the right words come too late");
    assert_eq!(world.log.length(), 1);
}

/// Shows: P-2
#[test]
fn ten_thousand_wrong_guesses_are_accepted_never() {
    let mut accepted = 0;
    for guess in 0..if cfg!(miri) { 3 } else { 10_000_u64 } {
        let mut world = World::new();
        let words = world.arm();
        let guessed = Words::from_random(guess.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        assert_ne!(guessed, words);
        world.connect(&guessed);
        world.run();
        accepted += usize::from(world.host_told != [PairEvent::Failed(PairError::WrongWords)]);
    }
    assert_eq!(accepted, 0);
}

/// Shows: P-2
#[test]
fn third_failure_locks_pairing_and_says_for_how_long() {
    let mut world = World::new();
    for _ in 0..FAILURES {
        let words = world.arm();
        world.connect(&wrong(&words));
        world.run();
    }
    assert_eq!(world.try_arm(), Err(ArmError::Locked { wait: LOCK }));
    world.wait(LOCK - Duration::from_secs(1));
    let error = world.try_arm().unwrap_err();
    assert_eq!(error.to_string(), "pairing is locked after 3 failed attempts: try again in 2 s");
    world.wait(Duration::from_secs(1));
    assert!(world.try_arm().is_ok());
}

#[test]
fn failures_far_apart_do_not_lock() {
    let mut world = World::new();
    for _ in 0..3 * FAILURES {
        let words = world.arm();
        world.connect(&wrong(&words));
        world.run();
        world.wait(crate::limits::FAILURE_WINDOW / 2);
    }
    assert!(world.try_arm().is_ok());
}

/// Shows: P-1, P-2
#[test]
fn words_run_out() {
    let mut world = World::new();
    let words = world.arm();
    world.wait(WORDS_LIFE - Duration::from_millis(1));
    assert!(world.host.is_open());
    world.wait(Duration::from_millis(1));
    assert_eq!(world.try_connect(&words), Err(ConnectError::NotArmed));
    world.run();
    assert_eq!(world.host_told, [PairEvent::Failed(PairError::Expired)]);
}

/// Shows: P-2
#[test]
fn words_of_a_shorter_life_run_out_sooner_and_none_lives_longer() {
    for (life, lived) in [(Duration::from_secs(2), Duration::from_secs(2)), (WORDS_LIFE * 2, WORDS_LIFE)] {
        let mut world = World::new();
        world.life = life;
        world.arm();
        world.wait(lived - Duration::from_millis(1));
        assert!(world.host.is_open());
        world.wait(Duration::from_millis(1));
        assert!(!world.host.is_open());
    }
}

/// Shows: P-2
#[test]
fn words_that_run_out_on_an_idle_link_are_not_used() {
    let mut world = World::new();
    let words = world.arm();
    world.wait(WORDS_LIFE - Duration::from_secs(1));
    world.connect(&words);
    world.wait(Duration::from_secs(2));
    world.run();
    assert_eq!(world.host_told, [PairEvent::Failed(PairError::Expired)]);
    assert_eq!(world.guest_told, [PairEvent::Failed(PairError::Expired)]);
}

/// Shows: P-2
#[test]
fn silent_guest_does_not_keep_the_words_alive() {
    let mut world = World::new();
    let words = world.arm();
    world.wait(WORDS_LIFE - Duration::from_secs(1));
    world.connect(&words);
    world.now.monotonic += STEP;
    world.host.handle_timeout(world.now);
    assert_eq!(failure(|| world.host.poll()), Some(PairError::Expired));
    assert_eq!(world.host.poll_timeout(), None, "nothing is overdue");
}

/// Shows: P-2
#[test]
fn new_words_burn_the_old_ones() {
    let mut world = World::new();
    let old = world.arm();
    let new = world.arm();
    assert_ne!(old, new);
    world.connect(&old);
    world.run();
    assert_eq!(world.host_told, [PairEvent::Failed(PairError::WrongWords)]);
}

/// Shows: P-3
#[test]
fn device_in_the_middle_fails_by_its_key_and_by_its_links() {
    let middle = LocalDevice::from_secret(&[66; 32]).key();
    type Change = fn(&mut PairLink, &mut PairLink, DeviceKey);
    let cases: [(&str, Change); 5] = [
        ("two links have two exporters", |_, at_guest, _| at_guest.exporter = [1; 32]),
        ("key shown to the host", |at_host, _, middle| at_host.peer = middle),
        ("key shown to the guest", |_, at_guest, middle| at_guest.peer = middle),
        ("key shown to both", |at_host, at_guest, middle| (at_host.peer, at_guest.peer) = (middle, middle)),
        ("keys changed over", |at_host, at_guest, _| core::mem::swap(&mut at_host.peer, &mut at_guest.peer)),
    ];
    for (case, change) in cases {
        let mut world = World::new();
        let words = world.arm();
        let (mut at_host, mut at_guest) = links();
        change(&mut at_host, &mut at_guest, middle);
        if world.connect_over(&words, at_host, at_guest).is_err() {
            continue;
        }
        world.run();
        assert_eq!(world.host_told, [PairEvent::Failed(PairError::WrongWords)], "{case}");
        assert_eq!(world.guest_told, [PairEvent::Failed(PairError::WrongWords)], "{case}");
    }
}

#[test]
fn own_key_at_the_other_end_is_refused_on_both_sides() {
    let mut world = World::new();
    let words = world.arm();
    let link = PairLink { peer: host_device().key(), exporter: [9; 32] };
    assert_eq!(world.host.handle_connected(link, &world.log, [1; 64], world.now), Err(ConnectError::Ourselves));
    let own = host_device().key();
    let begun = PairingGuest::begin(own, "x", words, None, link, [2; 64], world.now);
    assert_eq!(begun.map(|_| ()), Err(BeginError::Ourselves));
    assert!(world.host.is_open(), "the words are good still");
}

/// Shows: P-3
#[test]
fn every_changed_message_before_the_proofs_fails() {
    type Change = fn(&mut PairMessage);
    let changes: [(&str, Change); 11] = [
        ("guest's lowest version", |m| {
            if let PairMessage::Open { protocol_min, .. } = m {
                *protocol_min = 0
            }
        }),
        ("guest's highest version", |m| {
            if let PairMessage::Open { protocol_max, .. } = m {
                *protocol_max = 9
            }
        }),
        ("guest's nonce", |m| {
            if let PairMessage::Open { nonce, .. } = m {
                nonce[0] ^= 1
            }
        }),
        ("host's lowest version", |m| {
            if let PairMessage::HostShare { protocol_min, .. } = m {
                *protocol_min = 0
            }
        }),
        ("host's highest version", |m| {
            if let PairMessage::HostShare { protocol_max, .. } = m {
                *protocol_max = 9
            }
        }),
        ("mesh", |m| {
            if let PairMessage::HostShare { mesh, .. } = m {
                *mesh = MeshId::new([0; 32])
            }
        }),
        ("host's nonce", |m| {
            if let PairMessage::HostShare { nonce, .. } = m {
                nonce[0] ^= 1
            }
        }),
        ("host's share", |m| {
            if let PairMessage::HostShare { share, .. } = m {
                *share = other_share()
            }
        }),
        ("guest's share", |m| {
            if let PairMessage::GuestProof { share, .. } = m {
                *share = other_share()
            }
        }),
        ("guest's proof", |m| {
            if let PairMessage::GuestProof { proof, .. } = m {
                proof[0] ^= 1
            }
        }),
        ("host's proof", |m| {
            if let PairMessage::HostProof { proof } = m {
                proof[31] ^= 128
            }
        }),
    ];
    for (what, change) in changes {
        let mut world = World::new();
        let words = world.arm();
        world.change = Some(change);
        world.connect(&words);
        world.run();
        assert_eq!(world.guest_told, [PairEvent::Failed(PairError::WrongWords)], "{what}");
        assert!(matches!(world.host_told[..], [PairEvent::Failed(_)]), "{what}: {:?}", world.host_told);
        assert_eq!(world.log.length(), 1);
    }
}

/// Shows: P-3
#[test]
fn reflected_messages_fail() {
    let mut world = World::new();
    let words = world.arm();
    world.connect(&words);
    let guest = world.guest.as_mut().unwrap();
    let open = sent(|| guest.poll());
    guest.handle_message(open.clone(), world.now);
    assert_eq!(failure(|| guest.poll()), Some(PairError::Protocol("out of turn")));

    world.host.handle_message(open, world.now);
    let PairMessage::HostShare { share, .. } = sent(|| world.host.poll()) else { panic!("no share") };
    world.host.handle_message(PairMessage::GuestProof { share, proof: [0; 32] }, world.now);
    assert_eq!(failure(|| world.host.poll()), Some(PairError::Protocol("an unusable share")));
}

/// Shows: P-2, P-3
#[test]
fn replayed_run_fails_even_with_the_same_words() {
    let mut world = World::new();
    let words = world.arm();
    world.connect(&words);
    world.run();
    let recorded = world.to_host.clone();
    assert_eq!(recorded.len(), 3);

    let mut again = World::new();
    again.arm();
    let (at_host, _) = links();
    again.host.handle_connected(at_host, &again.log, [77; 64], again.now).unwrap();
    for message in recorded {
        again.host.handle_message(message, again.now);
    }
    assert_eq!(failure(|| again.host.poll()), Some(PairError::WrongWords));
}

/// Shows: P-2
#[test]
fn guest_that_leaves_after_the_share_burns_the_words_and_before_it_does_not() {
    let mut world = World::new();
    let words = world.arm();
    world.connect(&words);
    world.host.handle_disconnected(world.now);
    assert!(world.host.is_open());

    world.connect(&words);
    let open = sent(|| world.guest.as_mut().unwrap().poll());
    world.host.handle_message(open, world.now);
    world.host.handle_disconnected(world.now);
    assert_eq!(failure(|| world.host.poll()), Some(PairError::Abandoned));
    assert_eq!(world.try_connect(&words), Err(ConnectError::NotArmed));
}

/// Shows: P-2
#[test]
fn guests_that_leave_after_the_share_lock_pairing_too() {
    let mut world = World::new();
    for _ in 0..FAILURES {
        let words = world.arm();
        world.connect(&words);
        let open = sent(|| world.guest.as_mut().unwrap().poll());
        world.host.handle_message(open, world.now);
        world.host.handle_disconnected(world.now);
    }
    assert_eq!(world.try_arm(), Err(ArmError::Locked { wait: LOCK }));
}

#[test]
fn second_guest_waits_outside() {
    let mut world = World::new();
    let words = world.arm();
    world.connect(&words);
    let (at_host, _) = links();
    assert_eq!(world.host.handle_connected(at_host, &world.log, [5; 64], world.now), Err(ConnectError::Busy));
    assert_eq!(ConnectError::Busy.refusal(), PairMessage::Refuse(Refusal::Busy));
    assert_eq!(world.try_arm(), Err(ArmError::Running));
    world.run();
    assert_eq!(world.try_arm(), Err(ArmError::Running));
}

#[test]
fn peer_that_speaks_no_common_version_is_told_and_the_words_stay() {
    let mut world = World::new();
    let words = world.arm();
    world.change = Some(|message| {
        if let PairMessage::Open { protocol_min, protocol_max, .. } = message {
            (*protocol_min, *protocol_max) = (7, 8);
        }
    });
    world.connect(&words);
    world.run();
    assert_eq!(world.guest_told, [PairEvent::Failed(PairError::Refused(Refusal::VersionMismatch))]);
    assert!(world.host.is_open());
}

#[test]
fn guest_names_both_ranges_when_the_host_is_too_new() {
    let mut world = World::new();
    let words = world.arm();
    world.change = Some(|message| {
        if let PairMessage::HostShare { protocol_min, protocol_max, .. } = message {
            (*protocol_min, *protocol_max) = (7, 8);
        }
    });
    world.connect(&words);
    world.run();
    let Some(PairEvent::Failed(error)) = world.guest_told.first() else { panic!("{:?}", world.guest_told) };
    assert_eq!(error.to_string(), "no common protocol version: 1 to 1 here, 7 to 8 there");
}

/// Shows: P-4
#[test]
fn operator_who_says_no_signs_nothing_and_the_words_are_gone() {
    let mut world = asked();
    world.confirm(false);
    world.run();
    assert_eq!(world.guest_told.last(), Some(&PairEvent::Failed(PairError::Declined)));
    assert_eq!(world.host_told.last(), Some(&PairEvent::Failed(PairError::Declined)));
    assert_eq!(world.log.length(), 1);
    assert_eq!(world.host.confirm(true, &host_device(), &mut world.log, world.now), Err(ConfirmError));
    assert!(!world.host.is_open());
}

/// Shows: P-4
#[test]
fn yes_without_a_question_changes_nothing() {
    let mut world = World::new();
    world.arm();
    assert_eq!(world.host.confirm(true, &host_device(), &mut world.log, world.now), Err(ConfirmError));
    assert!(world.host.is_open());
    assert_eq!(world.log.length(), 1);
}

/// Shows: P-4
#[test]
fn yes_for_another_mesh_than_the_proved_one_signs_nothing() {
    let mut world = asked();
    let mut other = MembershipLog::genesis(&host_device(), "home", [9; 16]).unwrap();
    world.host.confirm(true, &host_device(), &mut other, world.now).unwrap();
    assert_eq!(other.length(), 1);
    world.run();
    assert_eq!(world.host_told.last(), Some(&PairEvent::Failed(PairError::OtherMesh)));
}

#[test]
fn operator_who_never_answers_lets_the_guest_go() {
    let mut world = asked();
    world.wait(CONFIRM);
    world.run();
    assert_eq!(world.host_told.last(), Some(&PairEvent::Failed(PairError::Expired)));
    assert_eq!(world.guest_told.last(), Some(&PairEvent::Failed(PairError::Expired)));
}

#[test]
fn cancelled_words_are_gone() {
    let mut world = World::new();
    let words = world.arm();
    world.host.cancel(world.now);
    assert_eq!(failure(|| world.host.poll()), Some(PairError::Cancelled));
    assert_eq!(world.try_connect(&words), Err(ConnectError::NotArmed));

    let mut world = asked();
    world.host.cancel(world.now);
    world.run();
    assert_eq!(world.guest_told.last(), Some(&PairEvent::Failed(PairError::Abandoned)));
}

/// Shows: P-7
#[test]
fn removed_device_does_not_come_back_by_pairing() {
    let mut world = asked();
    world.confirm(true);
    world.run();
    world.log.remove(&host_device(), guest_device().device()).unwrap();
    let words = world.arm();
    assert_eq!(world.try_connect(&words), Err(ConnectError::Removed));

    let mut late = asked();
    late.log.add(&host_device(), member(&guest_device())).unwrap();
    late.log.remove(&host_device(), guest_device().device()).unwrap();
    late.confirm(true);
    late.run();
    assert_eq!(late.guest_told.last(), Some(&PairEvent::Failed(PairError::Removed)));
    assert!(!late.log.is_member(&guest_device().device()));
}

#[test]
fn member_that_lost_its_log_gets_it_again_without_a_new_entry() {
    let mut world = asked();
    world.log.add(&host_device(), member(&guest_device())).unwrap();
    let length = world.log.length();
    world.confirm(true);
    world.run();
    assert_eq!(world.log.length(), length);
    assert_eq!(world.guest.unwrap().log(), Some(&world.log));
}

#[test]
fn device_with_a_mesh_of_its_own_does_not_join_another() {
    let own = MembershipLog::genesis(&guest_device(), "own", [0; 16]).unwrap();
    let (_, at_guest) = links();
    let words = Words::from_random([0; 8]);
    let begun = PairingGuest::begin(guest_device().key(), "x", words, Some(&own), at_guest, [2; 64], START);
    assert_eq!(begun.map(|_| ()), Err(BeginError::HasMesh { devices: 1 }));
}

/// Shows: P-1
#[test]
fn only_the_administrator_shows_words() {
    let mut world = World::new();
    world.log.add(&host_device(), member(&guest_device())).unwrap();
    let armed = world.host.arm(&guest_device(), &world.log, &GRANT, WORDS_LIFE, [1; 8], world.now);
    assert_eq!(armed, Err(ArmError::NotAdministrator { administrator: "home".into() }));
}

/// Shows: P-5
#[test]
fn log_that_does_not_hold_is_refused_by_the_guest() {
    let admin = host_device();
    let good = {
        let mut log = World::new().log;
        log.add(&admin, member(&LocalDevice::from_secret(&[8; 32]))).unwrap();
        log.add(&admin, member(&guest_device())).unwrap();
        log
    };
    let entries = good.entries().to_vec();
    let [first, second, third] = &entries[..] else { panic!("three entries") };
    let forged = Signed::from_parts(third.bytes().to_vec(), *third.key(), [1; 64]);
    let foreign = MembershipLog::genesis(&admin, "home", [9; 16]).unwrap().entries()[0].clone();
    let stranger = LocalDevice::from_secret(&[99; 32]);
    let change = MemberChange::Add(member(&stranger));
    let by_stranger = MemberEntry { index: 3, prev: Some(third.hash()), by: stranger.device(), change };
    let elsewhere = MemberEntry {
        index: 2,
        prev: Some(Hash::of(b"another second entry")),
        by: admin.device(),
        change: MemberChange::Add(member(&guest_device())),
    };
    let cases: [(&str, Vec<Signed<MemberEntry>>); 8] = [
        ("nothing", vec![]),
        ("without the guest", vec![first.clone(), second.clone()]),
        ("forged", vec![first.clone(), second.clone(), forged]),
        ("reordered", vec![first.clone(), third.clone(), second.clone()]),
        ("with a gap", vec![first.clone(), third.clone()]),
        ("forked", vec![first.clone(), second.clone(), admin.sign(&elsewhere).unwrap()]),
        ("foreign", vec![foreign]),
        ("signed by a stranger", [&entries[..], &[stranger.sign(&by_stranger).unwrap()]].concat()),
    ];
    for (case, entries) in cases {
        let mut world = asked();
        let guest = world.guest.as_mut().unwrap();
        guest.handle_message(PairMessage::Welcome(entries), world.now);
        let outputs = drain(|| guest.poll());
        assert!(!outputs.iter().any(|output| matches!(output, Output::Persist(_))), "{case}");
        assert!(matches!(outputs.last(), Some(Output::Tell(PairEvent::Failed(_)))), "{case}: {outputs:?}");
        assert_eq!(guest.log(), None);
    }
    let mut world = asked();
    let guest = world.guest.as_mut().unwrap();
    guest.handle_message(PairMessage::Welcome(entries), world.now);
    assert_eq!(guest.log(), Some(&good), "the same log, unchanged, is taken");
}

/// Shows: P-5
#[test]
fn log_of_another_mesh_that_holds_both_devices_is_refused() {
    let admin = host_device();
    let mut other = MembershipLog::genesis(&admin, "home", [9; 16]).unwrap();
    other.add(&admin, member(&guest_device())).unwrap();
    let mut world = asked();
    let guest = world.guest.as_mut().unwrap();
    guest.handle_message(PairMessage::Welcome(other.entries().to_vec()), world.now);
    assert_eq!(failure(|| guest.poll()), Some(PairError::OtherMesh));
}

#[test]
fn host_that_is_not_the_administrator_of_the_log_is_refused() {
    // A member, whatever it proves, can not welcome a device into the administrator's mesh.
    let admin = LocalDevice::from_secret(&[44; 32]);
    let mut log = MembershipLog::genesis(&admin, "admin", [9; 16]).unwrap();
    log.add(&admin, member(&host_device())).unwrap();
    log.add(&admin, member(&guest_device())).unwrap();
    let mut world = asked_in(log.mesh());
    let guest = world.guest.as_mut().unwrap();
    guest.handle_message(PairMessage::Welcome(log.entries().to_vec()), world.now);
    assert_eq!(failure(|| guest.poll()), Some(PairError::NotInLog));
}

#[test]
fn guest_that_never_says_joined_is_a_member_and_the_host_is_told() {
    for silent in [false, true] {
        let mut world = asked();
        world.confirm(true);
        let _ = drain(|| world.host.poll());
        if silent {
            world.wait(STEP);
        } else {
            world.host.handle_disconnected(world.now);
        }
        assert_eq!(failure(|| world.host.poll()), Some(PairError::Unconfirmed));
        assert!(world.log.is_member(&guest_device().device()));
    }
}

#[test]
fn silence_ends_every_step_on_both_sides() {
    for steps in 0..6 {
        let mut world = World::new();
        let words = world.arm();
        world.connect(&words);
        for _ in 0..steps {
            world.step();
        }
        for _ in 0..8 {
            world.wait(STEP + CONFIRM);
            let _ = (drain(|| world.host.poll()), drain(|| world.guest.as_mut().unwrap().poll()));
        }
        assert_eq!(world.host.poll_timeout(), None, "{steps}");
        assert_eq!(world.guest.as_ref().unwrap().poll_timeout(), None, "{steps}");
        assert_eq!(world.guest.unwrap().log(), None);
    }
    let mut world = World::new();
    let words = world.arm();
    world.connect(&words);
    let guest = world.guest.as_mut().unwrap();
    assert_eq!(guest.poll_timeout(), Some(world.now.after(STEP)));
    world.wait(STEP);
    assert_eq!(failure(|| world.guest.as_mut().unwrap().poll()), Some(PairError::Silent));
}

#[test]
fn driver_that_does_not_drain_loses_the_newest_outputs_alone() {
    let mut outbox = Outbox::default();
    for entry in 0..=OUTPUTS {
        outbox.push(if entry == 0 { Output::Close } else { Output::Send(PairMessage::Joined) });
    }
    let kept = drain(|| outbox.pop());
    assert_eq!((kept.len(), &kept[0]), (OUTPUTS, &Output::Close));
}

#[test]
fn guest_learns_that_the_link_broke() {
    let mut world = asked();
    let guest = world.guest.as_mut().unwrap();
    guest.handle_disconnected();
    assert_eq!(failure(|| guest.poll()), Some(PairError::Abandoned));
    guest.handle_message(PairMessage::Joined, world.now);
    assert_eq!(guest.poll(), None, "what comes after the end is dropped");
}

/// Shows: S-9
#[test]
fn debug_shows_neither_words_nor_keying_material() {
    let mut world = World::new();
    let words = world.arm();
    let armed = format!("{:?}", world.host);
    assert!(!armed.contains(words.show().as_str()) && armed.contains("Words(..)"));
    world.connect(&words);
    let opening = format!("{:?} {:?}", world.host, world.guest);
    assert!(opening.contains("PairLink { peer: ") && !opening.contains("exporter"), "{opening}");
    assert!(opening.contains("Random(..)"));
    world.run();
    assert!(!format!("{:?} {:?}", world.host, world.guest).contains("exporter"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    /// Shows: P-4
    #[test]
    fn no_order_of_messages_makes_a_member_without_a_yes(
        inputs in proptest::collection::vec((any::<bool>(), 0..8_usize, 0..40_u64), 0..24),
    ) {
        let mut world = World::new();
        let words = world.arm();
        world.connect(&words);
        for (run, which, seconds) in inputs {
            if run {
                world.step();
            } else {
                let message = invented(which);
                world.host.handle_message(message.clone(), world.now);
                world.guest.as_mut().unwrap().handle_message(message, world.now);
            }
            world.wait(Duration::from_secs(seconds));
            prop_assert!(world.host.poll_timeout().is_none_or(|due| due > world.now.monotonic));
        }
        world.run();
        prop_assert_eq!(world.log.length(), 1);
        prop_assert!(world.guest.is_some_and(|guest| guest.log().is_none()));
    }
}
