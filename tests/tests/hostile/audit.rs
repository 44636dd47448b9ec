//! A peer that lies about its own record of decisions.

use cede_wire::audit::{AuditCheckpoint, AuditMirror};

use super::*;

fn point(by: &LocalDevice, number: u64) -> Signed<AuditCheckpoint> {
    let chain = Hash::of(&number.to_le_bytes());
    by.sign(&AuditCheckpoint { by: by.device(), number, chain, at_unix_ms: 1 }).unwrap()
}

fn shown(serial: u64, point: Signed<AuditCheckpoint>) -> PeerMessage {
    PeerMessage::Audit(AuditMirror::Newest { serial, point })
}

fn hear_kept(liar: &mut Liar, point: &Signed<AuditCheckpoint>) {
    liar.hear("that it is kept", |message| match message {
        PeerMessage::Audit(AuditMirror::Kept(Some(kept))) => (kept == *point).then_some(()),
        _ => None,
    });
}

/// Shows: U-13
#[test]
fn checkpoints_that_are_not_the_peers_own_end_the_link_and_leave_what_was_kept() {
    let mut devices = Devices::paired(CEDE);
    let mesh = devices.a.status().mesh.unwrap();
    let mut liar = Liar::among(&mut devices);
    let honest = point(&liar.local, 1_000);
    liar.say(shown(1, honest.clone()));
    hear_kept(&mut liar, &honest);
    let stranger = LocalDevice::from_secret(&[9; 32]);
    let of_another = point(&liar.victim, 5_000);
    let mut bytes = point(&liar.local, 5_000).bytes().to_vec();
    bytes[34] ^= 1;
    let forged = Signed::from_parts(bytes, liar.local.key(), *honest.signature());
    for (number, bad) in [point(&stranger, 5_000), of_another, forged].into_iter().enumerate() {
        liar.shout(shown(number as u64 + 2, bad));
        wait_until("the link ends", || devices.a.status().peers.iter().all(|peer| !peer.connected));
        liar = Liar::dial(&devices.a, identity(&devices.b), mesh, 2);
        liar.say(PeerMessage::Audit(AuditMirror::Ask));
        hear_kept(&mut liar, &honest);
    }
    assert_eq!(devices.a.status().evidence, Vec::<String>::new());
}

/// Shows: U-13
#[test]
fn flood_of_checkpoints_harms_nobody_and_a_lower_one_is_evidence_that_outlives_a_crash() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let before = 1_000;
    for number in 0..1_200 {
        let next = point(&liar.local, before + number);
        liar.say(shown(number + 1, next));
    }
    unharmed(&devices.a);
    let last = point(&liar.local, before + 1_199);
    hear_kept(&mut liar, &last);
    let lower = point(&liar.local, 7);
    liar.say(shown(5_000, lower));
    wait_until("it is noticed", || !devices.a.status().evidence.is_empty());
    hear_kept(&mut liar, &last);
    drop(liar);
    devices.a.kill();
    devices.a.start();
    let evidence = devices.a.status().evidence;
    println!("{evidence:?}");
    assert_eq!(
        evidence,
        [
            "server showed a record of 2199 entries, and one of 7 later: it was cut or put back there; if you did that: cede log --settle server"
        ]
    );
}
