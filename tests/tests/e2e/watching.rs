//! Who waits for a session that comes, and how each hears how that ended: truly, and not by silence.

use cede_tests::devices::{signal, trees};

use super::*;

#[path = "fences.rs"]
mod fences;

fn asked(device: &Device, id: SessionId) -> cede_tests::devices::Answers {
    device.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap()
}

/// The move away has not ended at the device that takes the session back.
///
/// Shows: H-12
#[test]
fn take_right_after_a_release_ends_when_the_session_is_here() {
    let devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    for (device, name) in [(&devices.b, "server"), (&devices.a, "laptop")].repeat(4) {
        match take(device, id) {
            Ok(Answer::Moved(report)) => assert_eq!((report.now_at.as_str(), report.session), (name, id)),
            other => panic!("not taken: {other:?}"),
        }
        assert_eq!(state(device, id), "in charge here");
    }
}

/// Its new owner is asked while it still puts the session in its place.
///
/// Shows: H-12
#[test]
fn take_of_what_this_device_has_just_released_waits_until_it_can_be_offered() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    for _ in 0..6 {
        let mut away = a.open(Command::To(request("server", id))).unwrap();
        away.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Released));
        match asked(a, id).end(&mut |_| {}) {
            Some(Ok(Answer::Moved(report))) => assert_eq!(report.now_at, "laptop"),
            other => panic!("not taken: {other:?}"),
        }
        assert_ne!(state(b, id), "in charge here");
    }
}

/// Shows: H-15
#[test]
fn question_for_a_session_is_over_once_its_owner_hands_it_over_unasked() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let taken = asked(b, id);
    question(a);
    a.to("server", id).unwrap();
    assert!(matches!(taken.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    wait_until("nobody is asked any more", || a.status().approvals.is_empty());
}

/// Shows: H-15
#[test]
fn question_for_a_session_is_over_with_the_offer_that_was_withdrawn() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let taken = asked(b, id);
    question(a);
    signal(b.pid(), "STOP");
    let mut offered = a.open(Command::To(request("server", id))).unwrap();
    offered.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Offered));
    a.ask(Command::Cancel { handoff: id.to_string() }).unwrap();
    signal(b.pid(), "CONT");
    let failed = refused(taken.end(&mut |_| {}).unwrap());
    assert_eq!((failed.refusal, failed.now_at.as_deref()), (Some(Refusal::Cancelled), Some("laptop")));
    wait_until("nobody is asked any more", || a.status().approvals.is_empty());
    assert!(b.status().moves.is_empty());
    // It can be asked for again.
    let taken = asked(b, id);
    decide(a, &question(a), true);
    assert!(matches!(taken.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
}

/// Shows: L-5
#[test]
fn nobody_waits_in_silence_for_a_session_whose_owner_is_away() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    devices.a.to("server", id).unwrap();
    devices.b.to("laptop", id).unwrap();
    devices
        .b
        .ask(Command::Policy { device: "laptop".to_owned(), policy: Some(cede_wire::record::PeerPolicy::Ask) })
        .unwrap();
    let _offered = devices.a.open(Command::To(request("server", id))).unwrap();
    let waiting = question(&devices.b);
    signal(devices.a.pid(), "STOP");
    decide(&devices.b, &waiting, true);
    let mut joined = asked(&devices.b, id);
    joined.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Transferring));
    devices.a.kill();
    joined.until(|body| matches!(body, ReplyBody::Progress(step) if step.note.contains("the link to laptop is gone")));
    for restart in [false, true] {
        if restart {
            devices.b.kill();
            devices.b.start();
        }
        let failed = refused(take(&devices.b, id));
        assert_eq!((failed.exit, failed.refusal), (exit::PENDING, None));
        assert!(failed.cure.contains("cede cancel "), "{failed:?}");
    }
    devices.a.start();
    devices.wait_for_link();
    wait_until("it can be taken", || take(&devices.b, id).is_ok());
    assert_eq!(state(&devices.b, id), "in charge here");
}

/// Between its word that it holds the session and the owner's decision a device can give nothing up.
///
/// Shows: H-6, H-7
#[test]
fn cancel_of_what_is_staged_leaves_it_to_the_owner_and_claims_nothing() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let mut staged = 0;
    for round in 0..5 {
        let mut taken = asked(b, id);
        taken.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Staged));
        signal(a.pid(), "STOP");
        let said = refused(b.ask(Command::Cancel { handoff: id.to_string() }));
        signal(a.pid(), "CONT");
        if said.why.contains("staged here") {
            staged += 1;
            assert_eq!(said.exit, exit::PENDING);
        } else {
            assert!(said.why.starts_with("the decision is made"), "{}", text(&said));
        }
        let moved = match taken.end(&mut |_| {}) {
            Some(Ok(Answer::Moved(report))) => {
                assert!(round == 0 || report.bytes_present > 0, "its bytes were here: {report:?}");
                true
            }
            _ => false,
        };
        wait_until("one of them is in charge", || {
            let (here, there) = (state(a, id) == "in charge here", state(b, id) == "in charge here");
            assert!(!(here && there));
            if there { moved } else { here }
        });
        if state(b, id) == "in charge here" {
            b.to("laptop", id).unwrap();
        }
    }
    assert!(staged > 0, "it was released each time before");
}

/// Its question reaches the owner, and the device that asked has died and knows of none any more.
///
/// Shows: H-15
#[test]
fn session_does_not_come_to_a_device_that_does_not_ask_for_it_any_more() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    // It knows whom to ask without asking.
    devices.a.to("server", id).unwrap();
    devices.b.to("laptop", id).unwrap();
    let captured = |device: &Device| device.log().matches("captured entries").count();
    let before = captured(&devices.a);
    signal(devices.a.pid(), "STOP");
    let _taken = asked(&devices.b, id);
    std::thread::sleep(Duration::from_millis(300));
    devices.b.kill();
    devices.b.start();
    signal(devices.a.pid(), "CONT");
    wait_until("the owner answers", || captured(&devices.a) > before);
    devices.wait_for_link();
    wait_until("it hands nothing over", || devices.a.status().moves.is_empty());
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(state(&devices.a, id), "in charge here");
    // Who asks again gets it.
    assert!(matches!(asked(&devices.b, id).end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
}

/// Shows: H-6, L-5
#[test]
fn move_to_a_device_that_lets_this_one_in_no_more_ends_while_its_bytes_travel() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let tree = a.home.join("project");
    trees::large(&tree, 64, 1 << 20, 1);
    let id = a.adopt(&tree).id;
    let mut client = a.open(Command::To(request("server", id))).unwrap();
    client.until(|body| matches!(body, ReplyBody::Progress(step) if step.bytes > 0));
    b.ask(Command::Revoke { device: "laptop".to_owned(), confirmed: true }).unwrap();
    let failed = refused(client.end(&mut |_| {}).unwrap());
    assert_eq!((failed.what.as_str(), failed.cure.is_empty()), ("the session stays here", false), "{}", text(&failed));
    assert_eq!(state(a, id), "in charge here");
}
