//! Two real daemons, from the command to the bytes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cede_tests::devices::trees::{dirty, evidence, names};
use cede_tests::devices::{Device, Devices, PATIENCE, claude, request, trees, wait_until, watch};
use cede_wire::control::{Answer, Command, Failure, MoveReport, MoveRequest, Phase, ReplyBody, exit};
use cede_wire::id::SessionId;
use cede_wire::refusal::Refusal;

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");

fn project(device: &Device) -> PathBuf {
    let tree = device.home.join("project");
    dirty(&tree);
    tree
}

fn adopted(device: &Device) -> (PathBuf, SessionId) {
    let tree = project(device);
    let id = device.adopt(&tree).id;
    (tree, id)
}

fn text(failure: &Failure) -> String {
    format!("{} | {} | {} | now at {:?}", failure.what, failure.why, failure.cure, failure.now_at)
}

fn refused<T: core::fmt::Debug>(result: Result<T, Failure>) -> Failure {
    let failure = result.expect_err("a refusal");
    println!("{}", text(&failure));
    failure
}

fn phases(report: &MoveReport) -> Vec<Phase> {
    let mut phases: Vec<Phase> = report.timeline.iter().map(|step| step.phase).collect();
    phases.dedup();
    phases
}

fn state(device: &Device, id: SessionId) -> String {
    device.session(id).map_or_else(|| "unknown".to_owned(), |session| session.state)
}

/// Shows: H-12, H-25, T-1, T-6
#[test]
fn dirty_tree_goes_there_and_back_and_stays_what_it_was() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (tree, id) = adopted(a);
    let before = evidence(&tree);
    let there = a.to("server", id).unwrap();
    assert_eq!(there.now_at, "server");
    assert_eq!(phases(&there), [
        Phase::Preparing,
        Phase::Offered,
        Phase::Transferring,
        Phase::Staged,
        Phase::Released,
        Phase::Committed
    ]);
    let at_b = b.home.join("project");
    assert_eq!(evidence(&at_b), before);
    assert_eq!((state(a, id).as_str(), state(b, id).as_str()), ("at server", "in charge here"));
    let failed = refused(a.to("server", id));
    assert_eq!((failed.exit, failed.now_at.as_deref()), (exit::NOT_OWNER, Some("server")));
    std::fs::write(at_b.join("at the server.txt"), "work went on\n").unwrap();
    let changed = evidence(&at_b);
    let back = b.to("laptop", id).unwrap();
    assert_eq!(evidence(&tree), changed);
    assert_eq!((state(a, id).as_str(), state(b, id).as_str()), ("in charge here", "at laptop"));
    assert!(back.token > there.token, "{:?} {:?}", back.token, there.token);
    assert!(back.notes.is_empty(), "{:?}", back.notes);
    nothing_left(a);
    nothing_left(b);
}

/// No staging, no arrival, no chunks and no work files of a move that ended.
fn nothing_left(device: &Device) {
    let clean = || {
        let staging = names(&device.home).into_iter().filter(|name| name.starts_with(".cede-")).collect::<Vec<_>>();
        let arrivals = names(&device.state().join("arrivals"));
        let stages = names(&device.state().join("stages"));
        (staging, arrivals, stages)
    };
    let until = Instant::now() + Duration::from_secs(10);
    while clean() != (vec![], vec![], vec![]) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(clean(), (vec![], vec![], vec![]), "left behind at {}", device.name);
}
