//! What people see first, and the ways out of where they got stuck.

use super::*;

fn said(result: Result<Answer, Failure>) -> String {
    match result {
        Ok(Answer::Said { text }) => text,
        other => panic!("nothing was said: {other:?}"),
    }
}

fn address(of: &str, address: &str) -> Command {
    Command::Address { device: of.to_owned(), address: address.to_owned() }
}

/// Shows: L-9, T-12
#[test]
fn dry_run_of_a_directory_makes_no_session_of_it() {
    let devices = Devices::paired(CEDE);
    let a = &devices.a;
    project(a);
    let before = names(a.cede_home.as_path());
    let state = names(&a.state());
    let planned = a.typed(&["to", "server", "project", "--files", "--dry-run", "--json"]);
    assert!(planned.status.success(), "{}", String::from_utf8_lossy(&planned.stderr));
    let planned: serde_json::Value = serde_json::from_slice(&planned.stdout).unwrap();
    assert_eq!((&planned["answer"], &planned["session"]["title"]), (&"plan".into(), &"project".into()));
    assert!(planned["files"].as_u64().unwrap() > 3 && planned["history_bytes"].as_u64().unwrap() > 0, "{planned}");
    assert_eq!(a.status().sessions, []);
    assert_eq!(names(a.cede_home.as_path()), before);
    let left = ["scratch", "cache", "agents/files"].map(|place| names(&a.state().join(place)));
    assert_eq!(left.concat(), [""; 0], "before: {state:?}");
    // One that is a session already is planned as that one.
    let id = a.adopt(&a.home.join("project")).id;
    let planned = a.typed(&["to", "server", "project", "--files", "--dry-run", "--json"]);
    assert!(String::from_utf8_lossy(&planned.stdout).contains(&id.to_string()));
}

#[test]
fn address_is_tried_at_once_and_kept_though_the_peer_is_away() {
    let mut devices = Devices::paired(CEDE);
    let there = devices.b.address.clone();
    assert_eq!(said(devices.a.ask(address("server", &there))), format!("server answers at {there}"));
    let here = devices.a.address.clone();
    let failed = refused(devices.a.ask(address("server", &here)));
    assert_eq!(failed.what, "nothing was noted");
    devices.b.kill();
    // A device that is connected is shown by the address of its link.
    wait_until("it is away", || !devices.a.status().peers[0].connected);
    let nowhere = "localhost:9";
    let kept = said(devices.a.ask(address("server", nowhere)));
    assert!(kept.starts_with("noted: server is looked for at localhost:9; not reached there now: "), "{kept}");
    assert_eq!(devices.a.status().peers[0].address.as_deref(), Some(nowhere));
    let failed = refused(devices.a.ask(address("server", "server")));
    assert_eq!(failed.exit, exit::USAGE);
}

/// Shows: H-14, L-7
#[test]
fn both_sides_are_shown_the_secrets_by_name_and_how_much_it_is() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    std::fs::write(tree.join("server.pem"), "not a key").unwrap();
    let asked = b.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap();
    let waiting = question(a);
    assert_eq!(b.status().moves.remove(0).progress.session, id);
    assert_eq!((waiting.title.as_str(), waiting.directory.as_str()), ("project", tree.to_str().unwrap()));
    assert_eq!(waiting.secret_looking, ["server.pem"]);
    assert!(waiting.executables.iter().any(|path| path == "src/greet.sh"), "{:?}", waiting.executables);
    decide(a, &waiting, false);
    refused(asked.end(&mut |_| {}).unwrap());
    let asked = a.open(Command::To(MoveRequest { confirm_secrets: true, ..request("server", id) })).unwrap();
    let waiting = question(b);
    let line = |what: &str| waiting.inventory.iter().find(|item| item.what.contains(what)).cloned().unwrap();
    assert_eq!(line("look like secrets").note, "server.pem");
    assert!(line("in all").bytes < 1 << 20 && line("in all").count > 3, "{:?}", line("in all"));
    decide(b, &waiting, false);
    refused(asked.end(&mut |_| {}).unwrap());
}

#[test]
fn session_has_one_title_and_one_place_on_both_sides() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    std::fs::create_dir_all(b.home.join("project/other")).unwrap();
    let report = a.to("server", id).unwrap();
    let place = b.session(id).unwrap();
    assert_eq!((&report.directory, report.resume), (&place.directory, format!("cd {}", place.directory)));
    let there = place.title;
    assert_ne!(there, "project", "the place was taken, and a directory is called what it is called");
    wait_until("the new owner has told its title", || {
        a.typed(&["ls"]);
        a.session(id).unwrap().title == there
    });
}

/// Shows: P-7, P-11
#[test]
fn removed_device_leaves_and_comes_back_with_its_sessions() {
    let mut devices = Devices::friends(CEDE);
    let (tree, here) = adopted(&devices.a);
    let other = devices.a.home.join("other");
    dirty(&other);
    let away = devices.a.adopt(&other).id;
    devices.a.to("server", here).unwrap();
    devices.a.to("server", away).unwrap();
    devices.b.to("laptop", away).unwrap();
    let before = evidence(&tree);
    let old = devices.b.status().device.id;
    devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    let failed = refused(devices.b.to("laptop", here));
    assert!(failed.cure.ends_with("cede devices leave"), "{failed:?}");
    let (words, shown) = show_words(&devices.a);
    let failed = refused(devices.b.ask(pair_with(&shown, &devices.a.address)));
    assert!(failed.cure.starts_with("cede devices leave"), "{failed:?}");
    drop(words);
    let failed = refused(devices.b.ask(Command::LeaveMesh { confirmed: false }));
    assert_eq!((failed.exit, failed.cure.as_str()), (exit::PENDING, "cede devices leave --yes"));
    said(devices.b.ask(Command::LeaveMesh { confirmed: true }));
    devices.b.wait_for_end();
    devices.b.start();
    assert_ne!(devices.b.status().device.id, old);
    assert_eq!((devices.b.status().mesh, devices.b.status().peers), (None, Vec::new()));
    assert_eq!(state(&devices.b, here), "in charge here");
    assert!(state(&devices.b, away).starts_with("at "), "{}", state(&devices.b, away));
    pair(&devices.a, &devices.b);
    devices.a.say_yes_to("server");
    devices.b.say_yes_to("laptop");
    devices.wait_for_link();
    // Its owner is a device that the mesh knows no more: the one that has it now is found.
    let taken = devices.a.open(Command::Take { session: here.to_string(), wait: false, carry_only: false }).unwrap();
    assert!(matches!(taken.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!((state(&devices.a, here).as_str(), evidence(&tree)), ("in charge here", before));
    devices.a.to("server", away).unwrap();
    assert_eq!(state(&devices.b, away), "in charge here");
    // Its record goes on under the new key, and the laptop keeps where it stands.
    let Ok(Answer::Log { verdict, .. }) = devices.b.ask(Command::Log { tail: Some(1), verify: true }) else {
        panic!("no record")
    };
    let verdict = verdict.unwrap();
    assert!(verdict.holds && verdict.anchors.len() == 1, "{verdict:?}");
    assert_eq!(devices.a.status().evidence, Vec::<String>::new());
}

/// The first device is lost for good. What the other one has goes on in a mesh that begins with a new device.
///
/// Shows: P-11
#[test]
fn sessions_go_on_in_another_mesh() {
    let mut devices = Devices::friends(CEDE);
    let (tree, moved) = adopted(&devices.a);
    let before = evidence(&tree);
    devices.a.to("server", moved).unwrap();
    let other = devices.b.home.join("other");
    dirty(&other);
    let kept = devices.b.adopt(&other).id;
    devices.b.to("laptop", kept).unwrap();
    devices.a.kill();
    said(devices.b.ask(Command::LeaveMesh { confirmed: true }));
    devices.b.wait_for_end();
    devices.b.start();
    let mut c = Device::new(devices.root.path(), Path::new(CEDE), "desktop");
    c.start();
    pair(&c, &devices.b);
    c.say_yes_to("server");
    devices.b.say_yes_to("desktop");
    let linked = |a: &Device, b: &Device| {
        let sees = |device: &Device| device.status().peers.iter().any(|peer| peer.connected);
        wait_until("they see each other", || sees(a) && sees(b));
    };
    linked(&c, &devices.b);
    for round in 0..3 {
        devices.b.to("desktop", moved).unwrap();
        assert_eq!(state(&c, moved), "in charge here");
        assert_eq!(evidence(Path::new(&c.session(moved).unwrap().directory)), before);
        assert!(state(&devices.b, kept).starts_with("at "), "{}", state(&devices.b, kept));
        // A death finds it at either of them, and the first time beside what happened in the old mesh.
        if round == 1 {
            c.kill();
            c.start();
            linked(&c, &devices.b);
        }
        c.to("server", moved).unwrap();
        devices.b.kill();
        devices.b.start();
        linked(&c, &devices.b);
        assert_eq!(state(&devices.b, moved), "in charge here");
        assert!(state(&c, moved).starts_with("at server"), "{}", state(&c, moved));
    }
}

/// Shows: P-7
#[test]
fn revoked_device_is_dropped_at_once() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.b);
    devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    wait_until("the link ends", || devices.b.status().peers.iter().all(|peer| !peer.connected));
    assert!(devices.a.status().peers.is_empty());
    let failed = refused(devices.b.to("laptop", id));
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::NotGranted)));
    assert_eq!(failed.why, "not-granted: the device there does not admit this one");
    assert_eq!(failed.now_at.as_deref(), Some("server"));
    devices.b.kill();
    devices.b.start();
    std::thread::sleep(Duration::from_millis(500));
    assert!(devices.b.status().peers.iter().all(|peer| !peer.connected));
}
