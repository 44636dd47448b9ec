//! Where people go astray: what they read there, and the way on.

use super::*;

fn typed(device: &Device, arguments: &[&str]) -> (i32, String) {
    let said = device.typed(arguments);
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    println!("$ cede {}\n{text}", arguments.join(" "));
    (said.status.code().unwrap_or(-1), text)
}

/// Shows: P-7
#[test]
fn removal_says_what_it_means_and_wants_a_yes() {
    let devices = Devices::paired(CEDE);
    let (code, said) = typed(&devices.b, &["devices", "revoke", "laptop"]);
    assert_eq!(code, i32::from(exit::PENDING));
    assert!(said.contains("adds and removes nobody") && said.contains("cede devices revoke laptop --yes"), "{said}");
    let (code, said) = typed(&devices.a, &["devices", "revoke", "server"]);
    assert_eq!(code, i32::from(exit::PENDING));
    assert!(said.contains("for good"), "{said}");
    assert_eq!(devices.a.status().peers.len(), 1, "nothing happened yet");
    let (code, _) = typed(&devices.a, &["devices", "revoke", "server", "--yes"]);
    assert_eq!((code, devices.a.status().peers.len()), (0, 0));
}

/// The words are shown by one of the two.
#[test]
fn pairing_that_was_begun_on_both_devices_finds_its_way_back() {
    let mut devices = Devices::strangers(CEDE);
    let (shown_at_b, _) = show_words(&devices.b);
    drop(shown_at_b);
    let (_shown, words) = show_words(&devices.a);
    let failed = refused(devices.b.ask(pair_with(&words, &devices.a.address)));
    assert!(failed.cure.contains("the other device go on showing its words"), "{failed:?}");
    let (code, _) = typed(&devices.b, &["devices", "leave", "--yes"]);
    assert_eq!(code, 0);
    devices.b.wait_for_end();
    devices.b.start();
    drop(_shown);
    pair(&devices.a, &devices.b);
    assert_eq!(devices.b.status().mesh, devices.a.status().mesh);
}

#[test]
fn directory_that_goes_to_nobody_becomes_no_session() {
    let devices = Devices::strangers(CEDE);
    let tree = project(&devices.a);
    let (code, said) = typed(&devices.a, &["to", "server", tree.to_str().unwrap(), "--files"]);
    assert_eq!(code, i32::from(exit::USAGE), "{said}");
    assert_eq!(devices.a.status().sessions, []);
    let devices = devices.joined().trusting();
    let (code, said) = typed(&devices.a, &["to", "server", tree.to_str().unwrap(), "--files"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(devices.a.status().sessions.len(), 1);
}

/// A peer that died without a word still seems to be there for a while: a link takes 20 s to end by silence.
#[test]
fn person_who_waits_for_a_device_that_died_hears_of_it_and_is_not_kept() {
    let mut devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.a);
    let begun = Instant::now();
    devices.b.kill();
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    let mut notes = Vec::new();
    let ended = asked.end(&mut |body| {
        if let ReplyBody::Progress(progress) = body {
            notes.push((begun.elapsed(), progress.note.clone()));
        }
    });
    let failed = refused(ended.unwrap());
    assert_eq!((failed.exit, failed.now_at.as_deref()), (exit::TIMEOUT, Some("laptop")));
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    let silent = notes.iter().find(|(_, note)| note.contains("nothing comes from server"));
    assert!(silent.is_some_and(|(at, _)| *at < Duration::from_secs(15)), "{notes:?}");
}

#[test]
fn change_to_a_plain_directory_while_it_travels_is_said() {
    let devices = Devices::paired(CEDE);
    devices.b.say_yes_to("laptop");
    let (tree, id) = adopted(&devices.a);
    // Written when everything has been captured and the other side has it.
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    let ended = asked.end(&mut |body| {
        let staged = matches!(body, ReplyBody::Progress(progress) if progress.phase >= Phase::Staged);
        if staged && !tree.join("late").exists() {
            std::fs::write(tree.join("late"), "late").unwrap();
        }
    });
    let Some(Ok(Answer::Moved(report))) = ended else { panic!("{ended:?}") };
    assert_eq!(report.notes, ["changed here while it travelled, and did not travel: late"]);
}

#[test]
fn directory_that_vanished_is_a_line_of_the_doctor() {
    let devices = Devices::paired(CEDE);
    let (tree, _) = adopted(&devices.a);
    assert!(!typed(&devices.a, &["doctor"]).1.contains("its directory is gone"));
    std::fs::remove_dir_all(&tree).unwrap();
    let (_, said) = typed(&devices.a, &["doctor"]);
    assert!(said.contains("its directory is gone") && said.contains(tree.to_str().unwrap()), "{said}");
}

/// Shows: J-5
#[test]
fn journal_that_is_missing_is_begun_anew_by_a_persons_word() {
    let mut devices = Devices::paired(CEDE);
    devices.b.kill();
    let journal = devices.b.state().join("journal");
    let file = names(&journal).into_iter().find(|name| !name.contains("damaged")).unwrap();
    std::fs::remove_file(journal.join(file)).unwrap();
    let (code, said) = typed(&devices.b, &["up", "--no-discovery"]);
    assert_eq!(code, i32::from(exit::FAILED));
    assert!(said.contains("cede up --start-over") && !said.contains("--home DIR"), "{said}");
    devices.b.arguments = vec!["--start-over".to_owned()];
    devices.b.start();
    assert_eq!((devices.b.status().mesh, devices.b.status().peers), (None, Vec::new()));
    assert!(typed(&devices.b, &["doctor"]).1.contains("cede confirm"));
    // The others know its key: it comes back as the device that it was.
    devices.b.kill();
    devices.b.arguments.clear();
    devices.b.start();
    pair(&devices.a, &devices.b);
    assert_eq!(devices.b.status().mesh, devices.a.status().mesh);
}

#[test]
fn take_of_a_device_that_is_away_names_the_way_without_it() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    devices.a.to("server", id).unwrap();
    devices.b.stop();
    wait_until("the line is down", || !devices.a.status().peers[0].connected);
    let (code, said) = typed(&devices.a, &["take", &id.short()]);
    assert_eq!(code, i32::from(exit::TIMEOUT));
    assert!(said.contains(&format!("cede take --force {}", id.short())), "{said}");
    let (code, said) = typed(&devices.a, &["take", "--force", &id.short()]);
    assert_eq!(code, i32::from(exit::PENDING), "{said}");
    assert!(!said.contains("turn 0"), "a plain directory has no turns: {said}");
}

/// Shows: H-15
#[test]
fn session_that_is_taken_twice_at_once_is_asked_for_once() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let take = |wait: bool| b.open(Command::Take { session: id.to_string(), wait, carry_only: false }).unwrap();
    for yes in [false, true] {
        let taken = [take(false), take(false)];
        let waiting = question(a);
        let failed = refused(take(true).end(&mut |_| {}).unwrap());
        assert!(failed.cure.starts_with("cede cancel "), "{failed:?}");
        assert_eq!(a.status().approvals.len(), 1, "one person is asked one question");
        a.ask(Command::Decide { approval: waiting.id.to_string(), yes }).unwrap();
        for taken in taken {
            match taken.end(&mut |_| {}).unwrap() {
                Ok(Answer::Moved(_)) => assert!(yes),
                Ok(other) => panic!("{other:?}"),
                Err(failed) => assert_eq!((yes, failed.refusal), (false, Some(Refusal::Declined)), "{failed:?}"),
            }
        }
        assert!(b.status().approvals.is_empty() && a.status().approvals.is_empty(), "no question is left");
    }
    assert_eq!(state(b, id), "in charge here");
}

/// Shows: H-15
#[test]
fn take_of_a_session_that_is_offered_already_names_its_question() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let offered = a.open(Command::To(request("server", id))).unwrap();
    let waiting = question(b);
    let failed = refused(b.ask(Command::Take { session: id.to_string(), wait: false, carry_only: false }));
    assert_eq!((failed.exit, failed.cure), (exit::PENDING, format!("cede allow {}", waiting.id)));
    b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }).unwrap();
    assert!(matches!(offered.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
}

/// Shows: M-10
#[test]
fn words_for_a_session_are_told_where_it_is() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let name = id.to_string();
    a.to("server", id).unwrap();
    let (code, _) = typed(a, &["tell", &format!("server/{name}"), "hello"]);
    assert_eq!(code, 0);
    for verb in ["tell", "ask"] {
        let (code, said) = typed(b, &[verb, &format!("laptop/{name}"), "hello"]);
        assert_eq!(code, i32::from(exit::NOT_OWNER), "{said}");
        assert!(said.contains("is at server, not at laptop"), "{said}");
    }
    // It goes on with its session, and nobody claims where it was dealt with.
    b.to("laptop", id).unwrap();
    wait_until("it came along", || a.status().letters == 1);
    let (_, inbox) = typed(a, &["inbox"]);
    let letter = inbox.split_whitespace().find(|word| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit()));
    let (code, _) = typed(a, &["inbox", "--done", letter.unwrap()]);
    assert_eq!(code, 0);
    wait_until("the teller knows", || typed(a, &["inbox", "--sent"]).1.contains("acted on where its session is"));
}

/// Shows: P-7
#[test]
fn removed_device_is_told_how_to_go_on_whatever_else_waits() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (code, _) = typed(a, &["tell", "server", "hello", "--wait"]);
    assert_eq!(code, 0);
    let (code, _) = typed(a, &["devices", "revoke", "server", "--yes"]);
    assert_eq!(code, 0);
    wait_until("it is told", || b.status().next.starts_with("cede devices leave"));
    let (_, said) = typed(b, &["doctor"]);
    assert!(said.contains("cede devices leave") && !said.contains("devices address"), "{said}");
    let (_, said) = typed(b, &["tell", "laptop", "hello"]);
    assert!(said.contains("laptop does not admit this device"), "{said}");
    for (begin, look) in [(["ask", "laptop", "look"], "tasks"), (["send", "laptop", "/etc/hostname"], "transfers")] {
        typed(b, &begin);
        let (_, said) = typed(b, &[look]);
        assert!(said.contains("laptop does not admit"), "{look}: {said}");
    }
}
