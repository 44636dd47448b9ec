//! An owner that is gone, one that comes back, and a state that was copied or put back.

use super::*;

/// A conversation of Codex in a dirty tree at the laptop, that was at the server and came home.
fn planted(device: &Device) -> (PathBuf, SessionKey) {
    let tree = project(device);
    let path = std::env::var_os("PATH").unwrap();
    let around = Surroundings::plain(&device.home, &device.state().join("agents"), path);
    let native = plant(AgentKind::Codex, &around, &tree, [7; 16], &Story::example("mock", "mock-model")).unwrap();
    (tree, SessionKey { agent: AgentKind::Codex, native })
}

fn came_home(devices: &Devices) -> (PathBuf, SessionKey) {
    let (a, b) = (&devices.a, &devices.b);
    let (tree, key) = planted(a);
    for (from, to) in [(a, "server"), (b, "laptop")] {
        from.move_with(MoveRequest { carry_only: true, ..request(to, key.id()) }).unwrap();
    }
    (tree, key)
}

/// One more turn at a device, as its agent would write it.
fn one_more_turn(device: &Device, key: &SessionKey) -> Head {
    let (_, files) = conversation(device, key);
    let (path, bytes) = files.into_iter().next().unwrap();
    let last = bytes.split_inclusive(|byte| *byte == b'\n').next_back().unwrap().to_vec();
    let name = Path::new(std::str::from_utf8(path.as_bytes()).unwrap()).file_name().unwrap().to_owned();
    let file = find(&device.home.join(".codex"), &name).expect("the conversation's file");
    let mut out = std::fs::File::options().append(true).open(file).unwrap();
    std::io::Write::write_all(&mut out, &last).unwrap();
    conversation(device, key).0
}

fn find(below: &Path, name: &std::ffi::OsStr) -> Option<PathBuf> {
    std::fs::read_dir(below).ok()?.flatten().map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() { find(&path, name) } else { (path.file_name() == Some(name)).then_some(path) }
    })
}

fn typed(device: &Device, arguments: &[&str]) -> (i32, String) {
    let said = device.typed(arguments);
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    println!("$ cede {}\n{text}", arguments.join(" "));
    (said.status.code().unwrap_or(-1), text)
}

/// The person says that the owner is gone, with the session's id.
pub(crate) fn take_by_force(device: &Device, id: SessionId) {
    let (code, said) = typed(device, &["take", "--force", &id.short(), "--yes", &id.short()]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(state(device, id), "in charge here");
}

fn branch(device: &Device, id: SessionId) -> PathBuf {
    let state = state(device, id);
    PathBuf::from(state.split_once("kept in ").unwrap_or_else(|| panic!("no branch: {state}")).1)
}

/// Shows: H-9, H-10, H-32, A-3
#[test]
fn owner_that_comes_back_is_fenced_and_keeps_its_own_turns() {
    let mut devices = Devices::friends(CEDE);
    let (tree, key) = came_home(&devices);
    let id = key.id();
    let common = conversation(&devices.b, &key);
    devices.a.kill();
    let own = one_more_turn(&devices.a, &key);
    std::fs::write(tree.join("written after that"), "at the laptop").unwrap();
    let (code, said) = typed(&devices.b, &["take", "--force", &id.short()]);
    assert_eq!(code, i32::from(exit::PENDING), "the id is the yes: {said}");
    assert!(said.contains("laptop") && said.contains("two devices may act"), "{said}");
    let (code, _) = typed(&devices.b, &["take", "--force", &id.short(), "--yes", "yes"]);
    assert_eq!(code, i32::from(exit::PENDING));
    take_by_force(&devices.b, id);
    assert!(!is_fenced(&devices.b, &key));
    assert_eq!(conversation(&devices.b, &key), common);
    // The laptop was only away.
    devices.a.start();
    devices.wait_for_link();
    wait_until("the laptop hears of it and keeps its turns", || state(&devices.a, id).contains("kept in"));
    assert!(state(&devices.a, id).starts_with("taken over by server"));
    assert!(is_fenced(&devices.a, &key));
    let failed = refused(devices.a.move_with(MoveRequest { carry_only: true, ..request("server", id) }));
    assert_eq!((failed.exit, failed.now_at.as_deref()), (exit::NOT_OWNER, Some("server")));
    let place = branch(&devices.a, id);
    let said = std::fs::read_to_string(place.join("README.txt")).unwrap();
    assert!(said.contains("git branch cede/") && said.contains("server"), "{said}");
    let kept = trees::bytes_below(&place.join("conversation"));
    assert!(kept >= own.length, "{kept} bytes of the conversation are kept, it had {}", own.length);
    let on_branch = trees::git(&tree, &["show", &format!("cede/{}-1:written after that", id.short())]);
    assert_eq!(on_branch, "at the laptop");
    let (_, doctor) = typed(&devices.a, &["doctor"]);
    assert!(doctor.contains(&place.display().to_string()), "{doctor}");
    // A restart changes nothing, and the session may come back: beside what is kept.
    devices.a.kill();
    devices.a.start();
    devices.wait_for_link();
    assert!(state(&devices.a, id).contains("kept in"));
    devices.b.move_with(MoveRequest { carry_only: true, ..request("laptop", id) }).unwrap();
    assert_eq!(state(&devices.a, id), "in charge here");
    assert_eq!(conversation(&devices.a, &key).0, common.0);
    assert_eq!(devices.a.session(id).unwrap().token.generation, 1);
    assert_eq!(trees::bytes_below(&place.join("conversation")), kept);
}

/// Shows: H-9, H-10
#[test]
fn session_that_was_staged_goes_on_where_its_source_is_gone() {
    let mut devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    let before = evidence(&tree);
    // The line breaks at the acknowledgement: the source never decides, or nobody hears of it.
    let mut asked = devices.a.open(Command::To(request("server", id))).unwrap();
    asked.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase >= Phase::Transferring));
    wait_until("the server stages it", || {
        devices.b.log().contains("Staged") || devices.a.log().contains("Released") || {
            let here = devices.b.status().sessions.iter().any(|session| session.id == id && session.here);
            here || devices.b.state().join("arrivals").is_dir()
        }
    });
    devices.a.kill();
    wait_until("it settles", || !state(&devices.b, id).is_empty());
    if state(&devices.b, id) != "in charge here" {
        let plan = devices.b.ask(Command::SeizePlan { session: id.to_string() });
        match plan {
            Ok(Answer::SeizePlan(_)) => take_by_force(&devices.b, id),
            // It had nothing durable yet: then it says so.
            Err(failed) => {
                assert!(failed.why.contains("nothing of the session lies here"), "{}", text(&failed));
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(evidence(&devices.b.home.join("project")), before);
}

pub(crate) fn third(devices: &Devices) -> Device {
    let mut c = Device::new(devices.root.path(), Path::new(CEDE), "desktop");
    c.start();
    pair(&devices.a, &c);
    let (b, address) = (&devices.b, c.address.clone());
    wait_until("the server knows the desktop", || b.status().peers.iter().any(|peer| peer.name == "desktop"));
    b.ask(Command::Address { device: "desktop".to_owned(), address }).unwrap();
    wait_until("all see each other", || {
        let sees = |device: &Device| device.status().peers.iter().filter(|peer| peer.connected).count() == 2;
        sees(&devices.a) && sees(b) && sees(&c)
    });
    c
}

/// Shows: H-31, H-32
#[test]
fn of_three_devices_the_other_two_agree_and_tell_the_old_owner() {
    let mut devices = Devices::friends(CEDE);
    let (_, key) = came_home(&devices);
    let (id, mut c) = (key.id(), third(&devices));
    // While the desktop sees the owner it gives no vote.
    let failed = refused(devices.b.ask(Command::Seize { session: id.to_string() }));
    assert_eq!(failed.exit, exit::REFUSED);
    assert!(failed.why.contains("desktop says no"), "{}", failed.why);
    // They stop well, so that nobody waits for the silence of a link.
    devices.a.stop();
    let connected = |device: &Device| device.status().peers.iter().any(|peer| peer.name == "laptop" && peer.connected);
    wait_until("both see that the laptop is gone", || !connected(&devices.b) && !connected(&c));
    c.stop();
    wait_until("the desktop is gone too", || devices.b.status().peers.iter().all(|peer| !peer.connected));
    let failed = refused(devices.b.ask(Command::Seize { session: id.to_string() }));
    assert_eq!((failed.exit, failed.now_at.as_deref()), (exit::TIMEOUT, Some("laptop, as far as is known here")));
    assert!(failed.why.contains("desktop did not answer"), "{}", failed.why);
    assert!(failed.cure.starts_with("start desktop, then type it again"), "{}", failed.cure);
    c.start();
    wait_until("the desktop is there", || devices.b.status().peers.iter().any(|peer| peer.connected));
    let recorded = |words: &str| typed(&devices.b, &["log"]).1.matches(words).count();
    assert_eq!((recorded("wants to take over without its owner"), recorded("took over without its owner")), (2, 0));
    take_by_force(&devices.b, id);
    assert_eq!(recorded("took over without its owner"), 1);
    // The server goes; the desktop tells the laptop.
    devices.b.stop();
    devices.a.start();
    wait_until("the laptop hears of it from the desktop", || state(&devices.a, id).starts_with("taken over by server"));
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// What a device does that belongs to no doubt: nothing.
fn acts_for_nothing(device: &Device, key: &SessionKey, why: &str) {
    let id = key.id();
    assert_eq!(state(device, id), "unconfirmed: nothing acts");
    wait_until("its agent is held still", || is_fenced(device, key));
    let failed = refused(device.move_with(MoveRequest { carry_only: true, ..request("server", id) }));
    assert_eq!(failed.exit, exit::NOT_OWNER);
    let (code, doctor) = typed(device, &["doctor"]);
    assert_eq!(code, i32::from(exit::FAILED));
    assert!(doctor.contains(why) && doctor.contains("cede confirm"), "{doctor}");
}

/// How often a state is copied or put back.
fn times() -> usize {
    if std::env::var_os("CEDE_SHAKE").is_some() { 50 } else { 3 }
}

/// Shows: H-26
#[test]
fn copied_or_restored_owner_has_no_effect_before_it_is_confirmed() {
    let mut devices = Devices::friends(CEDE);
    let (_, key) = came_home(&devices);
    let id = key.id();
    devices.a.stop();
    for time in 0..times() {
        let saved = devices.root.path().join(format!("saved-{time}"));
        copy(&devices.a.cede_home, &saved);
        if time % 2 == 0 {
            // The same state at another place: the original is away, or on another machine.
            let mut clone = Device::new(devices.root.path(), Path::new(CEDE), &format!("clone-{time}"));
            copy(&devices.a.home.join("."), &clone.home);
            copy(&saved.join("."), &clone.cede_home);
            clone.start();
            acts_for_nothing(&clone, &key, "copied or moved");
            clone.stop();
        } else {
            devices.a.start();
            devices.wait_for_link();
            // What was sent again before may not have ended yet.
            for (from, to) in [(&devices.a, "server"), (&devices.b, "laptop")] {
                let moved = || from.move_with(MoveRequest { carry_only: true, ..request(to, id) });
                wait_until("the session moves", || moved().map_err(|failed| println!("{}", text(&failed))).is_ok());
            }
            devices.a.stop();
            devices.b.stop();
            std::fs::remove_dir_all(&devices.a.cede_home).unwrap();
            copy(&saved, &devices.a.cede_home);
            devices.a.start();
            acts_for_nothing(&devices.a, &key, "a backup was put back");
            // The server says what it knows, which is more.
            devices.b.start();
            devices.wait_for_link();
            wait_until("the laptop learns the newest", || {
                devices.a.status().sessions.iter().any(|s| s.token.epoch > 2)
            });
            let (code, said) = typed(&devices.a, &["confirm", "--all"]);
            assert_eq!(code, 0, "{said}");
            // What came back to it since is fetched again, and stands in its place.
            wait_until("it is in charge again", || state(&devices.a, id) == "in charge here");
            wait_until("the fence is down", || !is_fenced(&devices.a, &key));
            devices.a.stop();
        }
    }
    // The original was never in doubt, nor is it after a kill.
    devices.a.start();
    assert_eq!(state(&devices.a, id), "in charge here");
    devices.a.kill();
    devices.a.start();
    assert_eq!(state(&devices.a, id), "in charge here");
}

/// It is put back to before it ever heard of the session that it owns; the agent there has it all the same.
///
/// Shows: H-15, H-22, H-26
#[test]
fn receiver_that_forgot_its_session_begins_no_second_history_of_it() {
    let mut devices = Devices::friends(CEDE);
    let (_, key) = planted(&devices.a);
    let id = key.id();
    let carried = |to: &str| MoveRequest { carry_only: true, ..request(to, id) };
    devices.b.stop();
    let saved = devices.root.path().join("saved");
    copy(&devices.b.cede_home, &saved);
    devices.b.start();
    devices.wait_for_link();
    devices.a.move_with(carried("server")).unwrap();
    devices.b.stop();
    std::fs::remove_dir_all(&devices.b.cede_home).unwrap();
    copy(&saved, &devices.b.cede_home);
    devices.b.start();
    devices.wait_for_link();
    let b = &devices.b;
    wait_until("the release is known", || typed(b, &["doctor"]).1.contains("laptop released session"));
    assert!(typed(b, &["doctor"]).1.contains("a backup was put back"), "no peer's word ends the doubt");
    let (code, said) = typed(b, &["confirm", "--all"]);
    assert!(code == 0 && said.contains("others were released to this device"), "{said}");
    let failed = refused(b.move_with(carried("laptop")));
    assert_eq!((failed.exit, failed.refusal), (exit::NOT_OWNER, Some(Refusal::NotOwner)));
    assert!(failed.cure.contains("cede claim"), "{failed:?}");
    let (code, said) = typed(b, &["claim", &id.short()]);
    assert!(code == 0 && said.contains("stays as it is, and is not in the session"), "{said}");
    wait_until("it is in its place", || state(b, id) == "in charge here");
    b.move_with(carried("laptop")).unwrap();
    assert_eq!(state(&devices.a, id), "in charge here");
}

/// Shows: H-26
#[test]
fn home_that_was_moved_on_purpose_is_confirmed_once() {
    let mut devices = Devices::friends(CEDE);
    let (_, key) = came_home(&devices);
    devices.a.stop();
    let moved = devices.root.path().join("moved");
    std::fs::rename(&devices.a.cede_home, &moved).unwrap();
    devices.a.cede_home = moved;
    devices.a.start();
    acts_for_nothing(&devices.a, &key, "copied or moved");
    devices.wait_for_link();
    // A peer cannot tell the original from its copy.
    assert_eq!(state(&devices.a, key.id()), "unconfirmed: nothing acts");
    let (code, said) = typed(&devices.a, &["confirm", &key.id().short()]);
    assert_eq!(code, 0, "{said}");
    wait_until("the fence is down", || !is_fenced(&devices.a, &key));
    assert_eq!(state(&devices.a, key.id()), "in charge here");
    devices.a.kill();
    devices.a.start();
    assert_eq!(state(&devices.a, key.id()), "in charge here", "one confirmed session stays confirmed");
    typed(&devices.a, &["confirm", "--all"]);
    devices.a.stop();
    devices.a.start();
    let (_, doctor) = typed(&devices.a, &["doctor"]);
    assert!(!doctor.contains("cede confirm"), "{doctor}");
}

/// Shows: H-22, J-5
#[test]
fn damaged_journal_is_set_aside_by_command_and_confirmed() {
    let mut devices = Devices::friends(CEDE);
    let (_, key) = came_home(&devices);
    devices.a.stop();
    let log = devices.a.state().join("journal/log");
    let mut bytes = std::fs::read(&log).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 0xff;
    std::fs::write(&log, bytes).unwrap();
    devices.a.start();
    let (_, doctor) = typed(&devices.a, &["doctor"]);
    assert!(doctor.contains("--start-over"), "{doctor}");
    devices.a.stop();
    devices.a.arguments.push("--start-over".to_owned());
    devices.a.start();
    devices.a.arguments.pop();
    let (_, doctor) = typed(&devices.a, &["doctor"]);
    assert!(doctor.contains("journal was damaged") && doctor.contains("cede confirm"), "{doctor}");
    assert!(devices.a.status().sessions.iter().all(|session| !session.state.starts_with("in charge")));
    devices.a.stop();
    devices.a.start();
    let (code, _) = typed(&devices.a, &["confirm", "--all"]);
    assert_eq!(code, 0);
    let (_, doctor) = typed(&devices.a, &["doctor"]);
    assert!(!doctor.contains("cede confirm"), "{doctor}");
    assert!(devices.a.session(key.id()).is_none_or(|session| !session.state.starts_with("unconfirmed")));
}

/// Shows: H-15, H-8, H-26
#[test]
fn release_that_was_forgotten_is_claimed_and_fetched_again() {
    let mut devices = Devices::friends(CEDE);
    let (tree, id) = adopted(&devices.a);
    devices.b.stop();
    let saved = devices.root.path().join("saved");
    copy(&devices.b.cede_home, &saved);
    devices.b.start();
    devices.wait_for_link();
    devices.a.to("server", id).unwrap();
    let arrived = evidence(&devices.b.home.join("project"));
    assert_eq!(arrived, evidence(&tree));
    devices.b.stop();
    std::fs::remove_dir_all(&devices.b.cede_home).unwrap();
    copy(&saved, &devices.b.cede_home);
    devices.b.start();
    devices.wait_for_link();
    let cure = format!("cede claim {}", id.short());
    wait_until("it hears what it forgot", || typed(&devices.b, &["doctor"]).1.contains(&cure));
    assert_eq!(devices.b.session(id).filter(|session| session.here).map(|session| session.state), None);
    let (code, said) = typed(&devices.b, &["confirm", "--all"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = typed(&devices.b, &["claim", &id.short()]);
    assert_eq!(code, 0, "{said}");
    wait_until("it is in its place", || devices.b.session(id).is_some_and(|s| s.state == "in charge here"));
    let here = devices.b.session(id).unwrap();
    assert_eq!(evidence(Path::new(&here.directory)), arrived);
    let (code, said) = typed(&devices.b, &["claim", &id.short()]);
    assert_eq!(code, i32::from(exit::USAGE), "{said}");
}

/// The whole machine comes back from a backup, its notes too, and nobody is there who could say so.
///
/// Shows: H-33
#[test]
fn second_release_of_a_state_that_was_put_back_unnoticed_stops_both_receivers() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    let mut c = third(&devices);
    c.say_yes_to("laptop");
    c.stop();
    devices.a.stop();
    let (place, saved) = (devices.root.path().join("laptop"), devices.root.path().join("saved"));
    copy(&place, &saved);
    devices.a.start();
    devices.wait_for_link();
    devices.a.to("server", id).unwrap();
    assert_eq!(state(&devices.b, id), "in charge here");
    devices.a.stop();
    devices.b.stop();
    std::fs::remove_dir_all(&place).unwrap();
    copy(&saved, &place);
    devices.a.start();
    c.start();
    wait_until("laptop and desktop see each other", || c.status().peers.iter().any(|peer| peer.connected));
    devices.a.to("desktop", id).unwrap();
    assert_eq!(state(&c, id), "in charge here");
    devices.a.stop();
    devices.b.start();
    wait_until("both stop", || {
        state(&devices.b, id) == "given out twice, also to desktop: nothing acts"
            && state(&c, id) == "given out twice, also to server: nothing acts"
    });
    let failed = refused(c.to("server", id));
    assert_eq!(failed.exit, exit::NOT_OWNER);
    let (code, doctor) = typed(&c, &["doctor"]);
    assert_eq!(code, i32::from(exit::FAILED));
    assert!(doctor.contains("given out twice") && doctor.contains("cede take --force"), "{doctor}");
    take_by_force(&c, id);
    wait_until("the server keeps what only it has", || state(&devices.b, id).starts_with("taken over by desktop"));
    // The one that gave it out twice hears who has it.
    devices.a.start();
    wait_until("the laptop hears of it", || state(&devices.a, id) == "at desktop");
}
