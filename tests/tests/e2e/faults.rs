//! Damage, lost releases and lost stages between two daemons.

use super::*;

/// Shows: H-22, J-5
#[test]
fn damaged_journal_acts_for_nothing_and_says_so() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    devices.a.to("server", id).unwrap();
    devices.b.to("laptop", id).unwrap();
    devices.a.kill();
    let log = devices.a.state().join("journal/log");
    let mut bytes = std::fs::read(&log).unwrap();
    // Room for later records is there in advance, as zeros.
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&log, bytes).unwrap();
    devices.a.start();
    assert!(devices.a.status().read_only);
    let said = state(&devices.a, id);
    assert!(!said.starts_with("in charge"), "{said}");
    let failed = refused(devices.a.to("server", id));
    assert_eq!(failed.why, "the journal is damaged, so this device acts for no session");
    let Ok(Answer::Doctor { checks }) = devices.a.ask(Command::Doctor) else { panic!("no checks") };
    let journal = checks.iter().find(|check| check.what == "journal").unwrap();
    assert_eq!(journal.result, "fail");
    assert!(names(&devices.a.state().join("journal")).iter().any(|name| name == "log"));
}

/// A death between the placing and the tidying leaves an arrival behind that nobody needs.
///
/// Shows: T-9
#[test]
fn what_a_death_left_of_an_arrival_goes_at_the_next_start() {
    let mut devices = Devices::friends(CEDE);
    let (_, id) = adopted(&devices.a);
    let (state, aside) = (devices.b.state(), devices.root.path().join("aside"));
    let copy = |from: &Path, to: &Path| {
        std::fs::create_dir_all(to).unwrap();
        let parts = ["arrivals", "stages"].map(|part| from.join(part));
        assert!(std::process::Command::new("cp").arg("-a").args(parts).arg(to).status().unwrap().success());
    };
    let mut asked = devices.a.open(Command::To(request("server", id))).unwrap();
    asked.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Staged));
    copy(&state, &aside);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    devices.b.kill();
    copy(&aside, &state);
    assert_eq!(names(&state.join("arrivals")).len(), 1, "what the test puts back");
    devices.b.start();
    let left = || ["arrivals", "stages"].map(|part| names(&state.join(part)).len());
    wait_until("nothing of it is left", || left() == [0, 0]);
    assert_eq!(self::state(&devices.b, id), "in charge here");
}

/// The hands of a killed daemon may be about to write the last file.
fn remove(directory: &Path) {
    wait_until("the directory is removed", || std::fs::remove_dir_all(directory).is_ok() || !directory.exists());
}

/// From now on everything between the two goes through doors that can be shut.
pub(super) fn behind_doors(devices: &mut Devices) -> [Proxy; 2] {
    let doors = [Proxy::to(&devices.a.address), Proxy::to(&devices.b.address)];
    let tell = |device: &Device, of: &str, door: &Proxy| {
        device.ask(Command::Address { device: of.to_owned(), address: door.address.to_string() }).unwrap();
    };
    tell(&devices.a, "server", &doors[1]);
    tell(&devices.b, "laptop", &doors[0]);
    devices.a.kill();
    devices.b.kill();
    devices.a.start();
    devices.b.start();
    devices.wait_for_link();
    doors
}

/// Moves the session until the release is lost on the way: nobody acts then.
fn lose_the_release(devices: &Devices, doors: &[Proxy; 2], id: SessionId) -> bool {
    let mut asked = devices.a.open(Command::To(request("server", id))).unwrap();
    asked.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Staged));
    doors.iter().for_each(|door| door.cut(true));
    std::thread::sleep(Duration::from_millis(300));
    let lost = state(&devices.a, id) == "released, waiting for server" && state(&devices.b, id) == "at laptop";
    if !lost {
        doors.iter().for_each(|door| door.cut(false));
        asked.end(&mut |_| {});
        wait_until("it is at rest", || {
            state(&devices.a, id) == "in charge here" || state(&devices.b, id) == "in charge here"
        });
        if state(&devices.b, id) == "in charge here" {
            devices.b.to("laptop", id).unwrap();
        }
    }
    lost
}

/// Shows: H-7, H-16, P-11
#[test]
fn lost_release_is_said_again_and_nobody_acts_until_then() {
    let mut devices = Devices::friends(CEDE);
    let doors = behind_doors(&mut devices);
    let (tree, id) = adopted(&devices.a);
    let before = evidence(&tree);
    if !(0..12).any(|_| lose_the_release(&devices, &doors, id)) {
        println!("skipped: the release was never on the way when the line was cut");
        return;
    }
    let at_a = devices.a.session(id).unwrap();
    assert_eq!((at_a.state.as_str(), at_a.here), ("released, waiting for server", false));
    let failed = refused(devices.a.ask(Command::Cancel { handoff: id.to_string() }));
    assert!(failed.why.contains("the decision is made") || failed.why.contains("could still be withdrawn"));
    // What is staged is released to the key that this device has now.
    let failed = refused(devices.b.ask(Command::LeaveMesh { confirmed: true }));
    assert_eq!(failed.exit, exit::PENDING);
    assert!(failed.why.starts_with("laptop sent everything of session"), "{}", failed.why);
    devices.a.kill();
    devices.a.start();
    assert_eq!(state(&devices.a, id), "released, waiting for server");
    doors.iter().for_each(|door| door.cut(false));
    wait_until("the server is in charge", || state(&devices.b, id) == "in charge here");
    wait_until("the laptop knows", || state(&devices.a, id) == "at server");
    assert_eq!(evidence(&devices.b.home.join("project")), before);
}

/// Shows: H-5, H-8
#[test]
fn staging_that_a_person_removed_is_made_again() {
    let mut devices = Devices::friends(CEDE);
    let doors = behind_doors(&mut devices);
    let (tree, id) = adopted(&devices.a);
    let before = evidence(&tree);
    if !(0..12).any(|_| lose_the_release(&devices, &doors, id)) {
        println!("skipped: the release was never on the way when the line was cut");
        return;
    }
    devices.b.kill();
    let staging = names(&devices.b.home).into_iter().find(|name| name.starts_with(".cede-staging")).unwrap();
    remove(&devices.b.home.join(staging));
    doors.iter().for_each(|door| door.cut(false));
    devices.b.start();
    wait_until("the server is in charge", || state(&devices.b, id) == "in charge here");
    assert_eq!(evidence(&devices.b.home.join("project")), before);
    wait_until("the laptop knows", || state(&devices.a, id) == "at server");
    nothing_left(&devices.b);
}

/// Another key is another device; a journal that names the lost one is not gone on with.
///
/// Shows: H-22
#[test]
fn device_whose_key_is_gone_does_not_begin_as_another_one() {
    let mut devices = Devices::friends(CEDE);
    devices.a.kill();
    std::fs::remove_file(devices.a.state().join("secrets/identity")).unwrap();
    let ended = devices.a.typed(&["up", "--listen", &devices.a.address, "--no-discovery"]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("the key of this device is gone"), "{said}");
    assert!(!devices.a.state().join("secrets/identity").exists());
}

/// Commands that wait leave room for those that ask, cancel and stop.
#[test]
fn many_commands_that_wait_keep_nobody_from_stopping() {
    let mut devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.a);
    let waiting: Vec<_> = (0..40).map(|_| devices.a.open(Command::To(request("server", id))).unwrap()).collect();
    let _question = question(&devices.b);
    let asked = Instant::now();
    devices.a.status();
    assert!(devices.a.stop().success());
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    drop(waiting);
}

/// A process that holds the session though no turn ran when it was offered.
fn held_when_it_is_frozen(devices: &Devices) -> (Agent, claude::Planted, cede_tests::devices::Answers) {
    let (a, b) = (&devices.a, &devices.b);
    let planted = claude::plant(&a.home, &project(a), 3);
    let waits = MoveRequest { wait: true, carry_only: true, ..request("server", planted.id) };
    let mut asked = a.open(Command::To(waits)).unwrap();
    let waiting = question(b);
    let agent = Agent::start();
    claude::register(&a.home, &planted, agent.0.id(), "busy");
    b.ask(Command::Decide { approval: waiting.id.to_string(), yes: true }).unwrap();
    asked.until(|body| matches!(body, ReplyBody::Progress(step) if step.note.contains("still holds the session")));
    (agent, planted, asked)
}

/// Shows: A-11, H-4
#[test]
fn process_that_holds_a_session_after_its_turn_is_waited_for() {
    let devices = Devices::paired(CEDE);
    let (mut agent, planted, asked) = held_when_it_is_frozen(&devices);
    claude::register(&devices.a.home, &planted, agent.0.id(), "idle");
    // A child that nobody waits for would still be listed.
    let ended = std::thread::spawn(move || agent.0.wait().unwrap());
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    assert!(!ended.join().unwrap().success());
}

/// Shows: H-4, H-11
#[test]
fn wait_for_a_process_can_be_withdrawn() {
    let devices = Devices::paired(CEDE);
    let (_agent, planted, asked) = held_when_it_is_frozen(&devices);
    let a = &devices.a;
    a.ask(Command::Cancel { handoff: planted.id.to_string() }).unwrap();
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(failed.refusal, Some(Refusal::Cancelled), "{failed:?}");
    assert_eq!(state(a, planted.id), "in charge here");
    wait_until("no fence is left", || claude::resumable(&a.home, &planted).is_some());
    wait_until("no staging is left", || names(&devices.b.home).is_empty());
}

/// Shows: H-11, H-20
#[test]
fn take_whose_owner_waits_for_a_turn_can_be_withdrawn() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let planted = claude::plant(&a.home, &project(a), 3);
    for (from, to) in [(a, "server"), (b, "laptop")] {
        from.move_with(MoveRequest { carry_only: true, ..request(to, planted.id) }).unwrap();
    }
    let agent = Agent::start();
    claude::register(&a.home, &planted, agent.0.id(), "busy");
    let mut taken = b.open(Command::Take { session: planted.id.to_string(), wait: true, carry_only: true }).unwrap();
    taken.until(|body| matches!(body, ReplyBody::Progress(_)));
    wait_until("its owner waits for the turn", || {
        a.status().moves.iter().any(|one| one.progress.session == planted.id)
    });
    b.ask(Command::Cancel { handoff: planted.id.to_string() }).unwrap();
    assert_eq!(refused(taken.end(&mut |_| {}).unwrap()).refusal, Some(Refusal::Cancelled));
    wait_until("its owner waits no more", || a.status().moves.is_empty());
    drop(agent);
    a.move_with(MoveRequest { carry_only: true, ..request("server", planted.id) }).expect("nothing is in the way");
}

/// A move that is over for the custodian while its hands still end the agent, and then raise the fence: which ends once the file
/// is there.
fn over_before_its_fence_is_up(a: &Device) -> (Agent, PathBuf, claude::Planted, cede_tests::devices::Answers) {
    let planted = claude::plant(&a.home, &project(a), 3);
    let (told, end) = (a.home.join("told"), a.home.join("end"));
    let stubborn = format!(
        "trap 'touch {}; while [ ! -e {} ]; do sleep 0.05; done; exit' TERM; while :; do sleep 0.05; done",
        told.display(),
        end.display()
    );
    let agent = Agent(std::process::Command::new("sh").args(["-c", &stubborn]).spawn().unwrap());
    claude::register(&a.home, &planted, agent.0.id(), "idle");
    let asked = a.open(Command::To(MoveRequest { carry_only: true, ..request("server", planted.id) })).unwrap();
    wait_until("the agent is told to end", || told.exists());
    a.ask(Command::Cancel { handoff: planted.id.to_string() }).unwrap();
    wait_until("the custodian is done with it", || state(a, planted.id) == "in charge here");
    (agent, end, planted, asked)
}

/// Shows: H-21, A-3
#[test]
fn fence_that_goes_up_after_the_end_of_its_move_comes_down() {
    let devices = Devices::friends(CEDE);
    let a = &devices.a;
    let (mut agent, end, planted, asked) = over_before_its_fence_is_up(a);
    // The move ends without another look at what would travel.
    let (tree, away) = (a.home.join("project"), a.home.join("away"));
    std::fs::rename(&tree, &away).unwrap();
    std::fs::write(&end, "").unwrap();
    agent.0.wait().unwrap();
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!(failed.refusal, Some(Refusal::Cancelled), "{failed:?}");
    std::fs::rename(&away, &tree).unwrap();
    wait_until("no fence is left", || claude::resumable(&a.home, &planted).is_some());
}

/// Shows: H-21, A-3
#[test]
fn late_fence_of_a_move_comes_down_while_the_next_one_is_offered() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (mut agent, end, planted, asked) = over_before_its_fence_is_up(a);
    a.ask(Command::Cancel { handoff: planted.id.to_string() }).unwrap();
    refused(asked.end(&mut |_| {}).unwrap());
    b.ask(Command::Policy { device: "laptop".to_owned(), policy: Some(cede_wire::record::PeerPolicy::Ask) }).unwrap();
    let again = a.open(Command::To(MoveRequest { carry_only: true, ..request("server", planted.id) })).unwrap();
    let waiting = question(b);
    assert!(agent.0.try_wait().unwrap().is_none(), "the hands of the first one still wait for it");
    std::fs::write(&end, "").unwrap();
    agent.0.wait().unwrap();
    // It goes up, and comes down though nobody answers.
    std::thread::sleep(Duration::from_secs(1));
    wait_until("no fence is left", || claude::resumable(&a.home, &planted).is_some());
    decide(b, &waiting, false);
    refused(again.end(&mut |_| {}).unwrap());
}
