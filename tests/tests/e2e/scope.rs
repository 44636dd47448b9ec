//! What a yes covers between two daemons, and which content needs one.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Shows: H-14, H-21
#[test]
fn names_that_appear_after_the_question_are_asked_about_again() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let late =
        [("late-tool", 0o755, "executable"), (".late", 0o644, "dotfile"), ("Makefile", 0o644, "file that tools")];
    for (name, mode, what) in late {
        let asked = a.open(Command::To(request("server", id))).unwrap();
        let waiting = question(b);
        std::fs::write(tree.join(name), "all:\n").unwrap();
        std::fs::set_permissions(tree.join(name), PermissionsExt::from_mode(mode)).unwrap();
        decide(b, &waiting, true);
        let failed = refused(asked.end(&mut |_| {}).unwrap());
        assert_eq!(failed.exit, exit::REFUSED);
        assert!(failed.why.contains(&format!("a new {what}")) && failed.why.contains(name), "{}", failed.why);
        assert_eq!(failed.now_at.as_deref(), Some("laptop"));
        assert_eq!(state(a, id), "in charge here");
        wait_until("no staging is left", || names(&b.home).is_empty());
    }
    let before = evidence(&tree);
    let asked = a.open(Command::To(request("server", id))).unwrap();
    let waiting = question(b);
    let listed = [&waiting.executables, &waiting.dotfiles, &waiting.configuration_as_code];
    for ((name, ..), list) in late.into_iter().zip(listed) {
        assert!(list.iter().any(|path| path == name), "{name} in {list:?}");
    }
    // Content may change under names that were approved.
    std::fs::write(tree.join("Makefile"), "all: tests\n").unwrap();
    decide(b, &waiting, true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    let arrived = evidence(&b.home.join("project"));
    assert_eq!(arrived.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert_eq!(std::fs::read(b.home.join("project/Makefile")).unwrap(), b"all: tests\n");
}

/// Shows: U-7
#[test]
fn no_more_leaves_than_its_owner_was_shown() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let wanted = || b.open(Command::Take { session: id.to_string(), wait: false, carry_only: false }).unwrap();
    for (name, what) in [("server.pem", "a new file that looks like a secret"), (".late", "a new dotfile")] {
        let asked = wanted();
        let waiting = question(a);
        assert!(!waiting.inventory.is_empty(), "what would leave is counted before anybody is asked");
        std::fs::write(tree.join(name), "late\n").unwrap();
        decide(a, &waiting, true);
        let failed = refused(asked.end(&mut |_| {}).unwrap());
        assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Unauthorized)));
        assert!(failed.why.contains(&format!("{what}: {name}")), "{}", failed.why);
        assert_eq!((state(a, id).as_str(), names(&b.home).len()), ("in charge here", 0));
        std::fs::remove_file(tree.join(name)).unwrap();
    }
    let Ok(Answer::Log { lines, .. }) = a.ask(Command::Log { tail: None, verify: false }) else { panic!("no record") };
    let swapped = lines.iter().filter(|line| line.kind == "outcome" && line.text.contains("not what was shown"));
    assert_eq!(swapped.count(), 2);
    // Content may change under names that were shown.
    let asked = wanted();
    let waiting = question(a);
    std::fs::write(tree.join("src/greet.sh"), "#!/bin/sh\necho late\n").unwrap();
    decide(a, &waiting, true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert_eq!(std::fs::read(b.home.join("project/src/greet.sh")).unwrap(), b"#!/bin/sh\necho late\n");
}

/// Shows: T-10
#[test]
fn device_that_owned_the_session_takes_it_back_without_a_second_yes() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    std::fs::write(tree.join(".env"), "TOKEN=abc\n").unwrap();
    assert_eq!(refused(a.to("server", id)).exit, exit::PENDING);
    a.move_with(MoveRequest { confirm_secrets: true, ..request("server", id) }).unwrap();
    let at_b = b.home.join("project");
    assert_eq!(std::fs::read(at_b.join(".env")).unwrap(), b"TOKEN=abc\n");
    std::fs::write(at_b.join(".env"), "TOKEN=def\n").unwrap();
    let given = b.to("laptop", id).map(drop);
    let asked = refused(given);
    assert_eq!(asked.exit, exit::PENDING, "who gives it away says yes");
    take(a, id).unwrap();
    assert_eq!(std::fs::read(tree.join(".env")).unwrap(), b"TOKEN=def\n");
}
