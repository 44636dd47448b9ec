//! What the daemon does when its own files are gone or its clients are.

use super::*;

fn lose(device: &Device, what: &[&str]) {
    for place in what {
        let path = device.state().join(place);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
    }
    for entry in std::fs::read_dir(&device.home).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".cede-staging") {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}

fn again(liar: Liar, device: &Device) -> Liar {
    again_beside(&liar, device)
}

/// Shows: H-29
#[test]
fn stage_that_is_lost_before_the_release_is_said_to_be_lost() {
    let mut devices = Devices::friends(CEDE);
    let mut liar = Liar::among(&mut devices);
    let gift = staged(&mut liar);
    devices.a.kill();
    lose(&devices.a, &["stages"]);
    devices.a.start();
    let mut liar = again(liar, &devices.a);
    assert_eq!(liar.hear_refusal().0, Refusal::IntegrityFailed);
    // The decision had been made all the same: the payload is asked for again, and nothing acts without it.
    liar.release(&gift);
    let accept = liar.hear_accept();
    let end = liar.serve(&gift, &accept);
    assert!(matches!(end, PeerMessage::Activated(_)), "{end:?}");
    assert_eq!(state(&devices.a, gift.offer.key.id()), "in charge here");
    assert_eq!(std::fs::read(devices.a.home.join("gift/gift.txt")).unwrap(), b"the gift");
}

#[test]
fn damaged_notes_about_arrivals_end_them_and_nothing_else() {
    let mut devices = Devices::friends(CEDE);
    let mut liar = Liar::among(&mut devices);
    staged(&mut liar);
    devices.a.kill();
    let deep = "[".repeat(1 << 20);
    for kind in ["arrivals", "departures", "cache"] {
        let place = devices.a.state().join(kind);
        std::fs::create_dir_all(place.join("not-an-id")).unwrap();
        std::fs::write(place.join("00000000000000000000000000000000.json"), &deep).unwrap();
    }
    for arrival in std::fs::read_dir(devices.a.state().join("arrivals")).unwrap().flatten() {
        let _a_file = std::fs::write(arrival.path().join("plan.json"), &deep);
    }
    devices.a.start();
    let mut liar = again(liar, &devices.a);
    assert_eq!(liar.hear_refusal().0, Refusal::IntegrityFailed);
    unharmed(&devices.a);
}

/// Shows: H-29
#[test]
fn arrival_that_is_lost_after_the_release_is_fetched_again() {
    let mut devices = Devices::friends(CEDE);
    let mut liar = Liar::among(&mut devices);
    let gift = staged(&mut liar);
    let id = gift.offer.key.id();
    // The agent's registry is a file: the session cannot be put in its place yet.
    let registry = devices.a.state().join("agents/files");
    let _ = std::fs::remove_dir_all(&registry);
    std::fs::create_dir_all(registry.parent().unwrap()).unwrap();
    std::fs::write(&registry, b"").unwrap();
    liar.release(&gift);
    wait_until("in charge, not in its place", || state(&devices.a, id) == "arriving");
    devices.a.kill();
    std::fs::remove_file(&registry).unwrap();
    let _ = std::fs::remove_dir_all(devices.a.home.join("gift"));
    lose(&devices.a, &["stages", "arrivals"]);
    devices.a.start();
    let mut liar = again(liar, &devices.a);
    let accept = liar.hear_accept();
    let end = liar.serve(&gift, &accept);
    assert!(matches!(end, PeerMessage::Activated(_)), "{end:?}");
    assert_eq!(state(&devices.a, id), "in charge here");
    assert!(devices.a.log().contains("what had arrived is lost here; it is fetched again"));
    let found: BTreeMap<_, _> = std::fs::read_dir(&devices.a.home)
        .unwrap()
        .flatten()
        .map(|entry| (entry.file_name(), std::fs::read(entry.path().join("gift.txt")).unwrap_or_default()))
        .collect();
    assert!(found.values().any(|bytes| bytes == b"the gift"), "{found:?}");
}

/// Shows: L-8
#[test]
fn client_that_went_away_gives_its_seat_back() {
    let devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.b);
    for _ in 0..40 {
        let take = Command::Take { session: id.to_string(), wait: false, carry_only: false };
        drop(devices.a.open(take).unwrap());
    }
    let began = Instant::now();
    wait_until("a seat is free", || devices.a.try_status().is_ok());
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

/// Shows: L-8
#[test]
fn line_that_never_ends_is_refused_and_the_next_client_is_served() {
    use std::io::{Read, Write};
    let devices = Devices::strangers(CEDE);
    let long = "[".repeat(5 << 20);
    for line in [long.as_str(), "{\"schema\":\"cede/1\"", "\0\0\0\n", &format!("{}\n", "{\"a\":".repeat(100_000))] {
        let mut stream = std::os::unix::net::UnixStream::connect(devices.a.socket()).unwrap();
        let _cut = stream.write_all(line.as_bytes());
        let _half = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _read = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.contains("not understood") || answer.contains("two versions"), "{answer}");
        devices.a.status();
    }
}
