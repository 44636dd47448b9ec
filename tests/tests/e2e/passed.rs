//! What was released and did not arrive is taken over by a third device.

use super::*;
use crate::seize::{take_by_force, third};

/// The desktop had the session once, and was not told that it went on: nobody is, before it arrives.
///
/// Shows: H-9, H-12, H-32
#[test]
fn third_device_learns_of_a_release_from_its_source_which_hears_that_it_was_passed() {
    let mut devices = Devices::friends(CEDE);
    let (planted, desktop) = (planted(&devices), third(&devices));
    let id = planted.id;
    devices.a.say_yes_to("desktop");
    desktop.say_yes_to("laptop");
    devices.a.move_with(carried("desktop", id)).unwrap();
    desktop.move_with(carried("laptop", id)).unwrap();
    let _works = Busy::at(&devices.b, &planted);
    let mut client = devices.a.open(Command::To(carried("server", id))).unwrap();
    client.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Released));
    wait_until("the server is kept from it", || devices.b.log().contains("the session is not in its place yet"));
    devices.b.kill();
    let away = |device: &Device| device.status().peers.iter().any(|peer| peer.name == "server" && !peer.connected);
    wait_until("both see that the server is gone", || away(&devices.a) && away(&desktop));

    assert_eq!(state(&desktop, id), "at laptop");
    let plan = desktop.ask(Command::SeizePlan { session: id.to_string() });
    assert!(matches!(&plan, Ok(Answer::SeizePlan(plan)) if plan.owner == "server"), "{plan:?}");
    take_by_force(&desktop, id);
    let passed = refused(client.end(&mut |_| {}).unwrap());
    assert_eq!((passed.refusal, passed.now_at.as_deref()), (Some(Refusal::StaleToken), Some("desktop")));
    assert_eq!(passed.why, "stale-token: desktop took it over by force before its new owner had answered");
}

/// Shows: H-12
#[test]
fn whoever_waits_for_a_device_that_was_removed_waits_no_longer() {
    let mut devices = Devices::friends(CEDE);
    let planted = planted(&devices);
    let _works = Busy::at(&devices.b, &planted);
    let mut client = devices.a.open(Command::To(carried("server", planted.id))).unwrap();
    client.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Released));
    wait_until("the server is kept from it", || devices.b.log().contains("the session is not in its place yet"));
    devices.b.kill();
    devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    let gone = refused(client.end(&mut |_| {}).unwrap());
    assert_eq!((gone.exit, gone.what.as_str()), (exit::PENDING, "the session is released"));
    assert!(gone.why.starts_with("server (removed) had not answered"), "{}", gone.why);
    let id = planted.id.short();
    assert_eq!(gone.cure, format!("cede take --force {id}"));
    take_by_force(&devices.a, planted.id);
}

/// What would bring the rest of it is away, and its place is kept free all the same; once it is another device's, it is free.
///
/// Shows: E-3, H-7, H-12
#[test]
fn no_task_begins_where_a_session_arrives_until_it_is_taken_over() {
    use crate::tasks::{allow, ask, finds_stand_ins, is, request, show, stand_in, started};
    let mut devices = Devices::friends(CEDE);
    let (planted, desktop) = (planted(&devices), third(&devices));
    let id = planted.id;
    stand_in(&devices.b, "claude", "echo done");
    let _works = Busy::at(&devices.b, &planted);
    let mut client = devices.a.open(Command::To(carried("server", id))).unwrap();
    client.until(|body| matches!(body, ReplyBody::Progress(step) if step.phase == Phase::Released));
    wait_until("the server is kept from it", || devices.b.log().contains("the session is not in its place yet"));
    drop(client);
    devices.a.kill();
    devices.b.kill();
    finds_stand_ins(&mut devices.b);
    devices.b.start();
    let tree = devices.b.home.join("project").canonicalize().unwrap();
    let look = || {
        let asked = ask(&desktop, request("look", Some(&tree))).unwrap();
        allow(&devices.b);
        asked.id
    };
    let task = look();
    is(&desktop, &task, "refused");
    let (task, _) = show(&desktop, &task);
    assert!(task.standing.contains("a session arrives there"), "{}", task.standing);
    assert!(started(&devices.b).is_empty());

    devices.a.start();
    let pid = nix::unistd::Pid::from_raw(devices.b.pid().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGSTOP).unwrap();
    let away = |device: &Device| device.status().peers.iter().any(|peer| peer.name == "server" && !peer.connected);
    wait_until("both see that the server is gone", || away(&devices.a) && away(&desktop));
    take_by_force(&devices.a, id);
    nix::sys::signal::kill(pid, nix::sys::signal::SIGCONT).unwrap();
    wait_until("the server has nothing to wait for", || devices.b.status().moves.is_empty());
    is(&desktop, &look(), "done");
}
