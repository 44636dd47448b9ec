//! What a person was told last, held against where the session is after both devices died at that moment.

#[path = "cures.rs"]
mod cures;

use super::*;

/// Moves until a line of this phase was read, or to the end, then both devices die; what was said last comes back.
fn told_until(devices: &mut Devices, id: SessionId, phase: Option<Phase>) -> ReplyBody {
    let mut asked = devices.a.open(Command::To(request("server", id))).unwrap();
    let last = loop {
        let body = asked.line().expect("the daemon went away");
        match &body {
            ReplyBody::Progress(step) if Some(step.phase) == phase => break body,
            ReplyBody::Done(_) | ReplyBody::Failed(_) => break body,
            ReplyBody::Progress(_)
            | ReplyBody::Planned(_)
            | ReplyBody::Pairing(_)
            | ReplyBody::Sending(_)
            | ReplyBody::Terminal(_)
            | ReplyBody::Task(_)
            | ReplyBody::Telling(_) => {}
        }
    };
    devices.a.kill();
    devices.b.kill();
    last
}

/// Shows: L-3, H-12, H-24
#[test]
fn what_was_said_before_a_crash_is_true_after_it() {
    let mut devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    let before = evidence(&tree);
    let phases =
        [Phase::Offered, Phase::Transferring, Phase::Staged, Phase::Released, Phase::Committed].map(Some).into_iter();
    for phase in phases.chain([None]) {
        let last = told_until(&mut devices, id, phase);
        println!("{phase:?}: {last:?}");
        // Each alone first: nobody may need the other one to keep what was said.
        devices.b.start();
        let at_b = state(&devices.b, id);
        devices.b.kill();
        devices.a.start();
        let at_a = state(&devices.a, id);
        match &last {
            ReplyBody::Done(Answer::Moved(report)) => {
                assert_eq!((report.now_at.as_str(), at_b.as_str()), ("server", "in charge here"))
            }
            ReplyBody::Progress(step) if step.phase == Phase::Committed => assert_eq!(at_b, "in charge here"),
            ReplyBody::Progress(step) if step.phase == Phase::Released => assert_ne!(at_a, "in charge here"),
            ReplyBody::Progress(step) => assert_eq!(step.in_charge, "laptop", "nothing was decided"),
            other => panic!("it did not go well: {other:?}"),
        }
        assert!(at_a != "in charge here" || at_b != "in charge here", "{at_a}, {at_b}");
        devices.b.start();
        devices.wait_for_link();
        let holds = |device: &Device| state(device, id) == "in charge here";
        wait_until("one of them is in charge", || holds(&devices.a) != holds(&devices.b));
        if holds(&devices.b) {
            assert_eq!(evidence(&devices.b.home.join("project")), before);
            wait_until("the laptop knows", || state(&devices.a, id) == "at server");
            devices.b.to("laptop", id).unwrap();
        }
        assert_eq!(evidence(&tree), before);
    }
}
