//! What peers keep of a device's record of decisions shows what the files of that device cannot.

use cede_wire::control::decisions::LogVerdict;
use cede_wire::record::PeerPolicy;

use super::*;

fn verdict(device: &Device) -> LogVerdict {
    match device.ask(Command::Log { tail: Some(1), verify: true }).unwrap() {
        Answer::Log { verdict, .. } => *verdict.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for name in names(from) {
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// Shows: U-13
#[test]
fn record_that_was_put_back_whole_is_found_by_what_the_peer_keeps() {
    let mut devices = Devices::paired(CEDE);
    let audit = devices.b.state().join("audit");
    let (old, new) = (devices.root.path().join("old"), devices.root.path().join("new"));
    devices.b.stop();
    copy(&audit, &old);
    devices.b.start();
    for policy in [PeerPolicy::Yes, PeerPolicy::Ask] {
        devices.b.ask(Command::Policy { device: "laptop".to_owned(), policy: Some(policy) }).unwrap();
    }
    devices.b.stop();
    copy(&audit, &new);
    devices.b.start();
    devices.wait_for_link();
    let mut found = verdict(&devices.b);
    wait_until("the peer keeps the newest", || {
        found = verdict(&devices.b);
        found.anchors.first().is_some_and(|anchor| anchor.device == "laptop" && anchor.number + 3 > found.last)
    });
    assert!(found.holds && found.silent.is_empty() && found.evidence.is_empty(), "{found:?}");
    devices.b.stop();
    let of_the_peer = verdict(&devices.a);
    assert!(of_the_peer.holds, "{of_the_peer:?}");
    copy(&old, &audit);
    devices.b.start();
    devices.wait_for_link();
    wait_until("it is noticed here", || !verdict(&devices.b).holds);
    wait_until("and there", || !devices.a.status().evidence.is_empty());
    let output = devices.b.typed(&["log", "--verify"]);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.code() == Some(1) && text.contains("laptop kept a checkpoint of entry"), "{text}");
    let output = devices.a.typed(&["status"]);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(text.contains("server showed a record of"), "{text}");
    // It noticed by itself, so the peer need not be there any more.
    devices.a.stop();
    let alone = verdict(&devices.b);
    assert!(!alone.holds && alone.faults.iter().any(|fault| fault.contains("laptop kept")), "{alone:?}");
    assert_eq!(alone.silent, ["laptop"], "what it said before is no answer now");
    // Whoever did it on purpose says so at both, and both records say that it was said.
    devices.a.start();
    devices.wait_for_link();
    for (device, other) in [(&devices.a, "server"), (&devices.b, "laptop")] {
        let output = device.typed(&["log", "--settle", other]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("is settled, and recorded"), "{text}");
        let again = device.typed(&["log", "--settle", other]);
        assert!(String::from_utf8_lossy(&again.stdout).contains("nothing of"), "{again:?}");
    }
    wait_until("the peer keeps what is there now", || verdict(&devices.b).holds);
    for restarted in [false, true] {
        if restarted {
            devices.b.stop();
            devices.a.stop();
            devices.a.start();
            devices.b.start();
            devices.wait_for_link();
        }
        wait_until("both say so", || {
            let here = verdict(&devices.b);
            here.holds && here.settled == 1 && devices.a.status().evidence.is_empty()
        });
    }
    let text = String::from_utf8_lossy(&devices.b.typed(&["log", "--verify"]).stdout).into_owned();
    println!("{text}");
    assert!(text.contains("put back 1 time, and you said that you know why"), "{text}");
    assert!(text.contains("settled what did not fit"), "{text}");
}
