//! How long nobody acts, and how soon a move goes on after it was interrupted.

use std::path::Path;
use std::time::{Duration, Instant};

use cede_tests::devices::{Device, Devices, request};
use cede_tests::proxy::Proxy;
use cede_wire::control::{Command, MoveReport, MoveRequest, Phase, Progress, ReplyBody};
use cede_wire::id::SessionId;

use crate::measure::mib;
use crate::sessions::{Kind, Session, Shape};

/// Moves of the small session, half of them back.
const MOVES: usize = 100;
/// The goal for the middle one, ms.
const WINDOW_MS: u64 = 15;
/// The goal from the moment when the line or the other daemon is back, ms.
const RESUME_MS: u128 = 2_000;

/// The window without an actor: from the release that is durable at the source to its word that the other one acts.
pub fn window(program: &Path) {
    println!("window: {MOVES} moves of 40 files, 0.3 MiB");
    let devices = Devices::friends(&program.display().to_string());
    let shape = Shape { kind: Kind::Small, files: 40, bytes: 256 << 10, transcript: 64 << 10 };
    let session = Session::make(&devices.a, shape);
    let (mut windows, mut pauses) = (Vec::new(), Vec::new());
    for number in 0..MOVES {
        let (from, to) = if number % 2 == 0 { (&devices.a, "server") } else { (&devices.b, "laptop") };
        let report = from.move_with(wanted(to, session.id)).expect("a move");
        windows.extend(between(&report, Phase::Released, Phase::Committed));
        pauses.push(report.pause_ms);
    }
    let [middle, tail] = [50, 99].map(|part| at(&mut windows, part));
    let [pause, pause_tail] = [50, 99].map(|part| at(&mut pauses, part));
    println!("window without an actor: p50 {middle} ms = {:.2} of {WINDOW_MS} ms, p99 {tail} ms", share(middle));
    println!("pause, freeze and last round included: p50 {pause} ms, p99 {pause_tail} ms\n");
}

fn share(middle: u64) -> f64 {
    middle as f64 / WINDOW_MS as f64
}

fn wanted(to: &str, id: SessionId) -> MoveRequest {
    MoveRequest { carry_only: true, confirm_large: true, confirm_secrets: true, ..request(to, id) }
}

fn between(report: &MoveReport, first: Phase, last: Phase) -> Option<u64> {
    let moment = |phase| report.timeline.iter().find(|step| step.phase == phase).map(|step| step.at_ms);
    moment(last)?.checked_sub(moment(first)?)
}

fn at(values: &mut [u64], part: usize) -> u64 {
    values.sort_unstable();
    values.get(values.len() * part / 100).or(values.last()).copied().unwrap_or(0)
}

/// What ends a move in its middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing does.
    Nothing,
    /// The line is dark for this long, ms.
    Dark(u64),
    /// The destination's daemon is killed and started again.
    Killed,
}

/// A move of 128 MiB that is interrupted once in its middle, beside one that is not. Bytes are those that the line carried.
pub fn resume(program: &Path) {
    let mut usual = None;
    for (name, end) in [
        ("nothing happens", End::Nothing),
        ("the line is dark for 1 s", End::Dark(1_000)),
        ("the line is dark for 25 s, the link is given up", End::Dark(25_000)),
        ("the destination is killed and started again", End::Killed),
    ] {
        let (resumed, carried) = interrupted(program, end);
        let usual = *usual.get_or_insert(carried);
        let again = carried.saturating_sub(usual);
        println!(
            "resume, {name}: {:.2} MiB carried, {:.2} MiB more = {:.2} %; goes on {}",
            mib(carried),
            mib(again),
            again as f64 * 100.0 / usual as f64,
            resumed.map_or("–".to_owned(), |resumed| format!(
                "{} ms after it is back, of {RESUME_MS} ms",
                resumed.as_millis()
            ))
        );
    }
    println!();
}

/// How long after the interruption it went on, and the bytes that the line carried.
fn interrupted(program: &Path, end: End) -> (Option<Duration>, u64) {
    let mut devices = Devices::friends(&program.display().to_string());
    let doors = [Proxy::to(&devices.a.address), Proxy::to(&devices.b.address)];
    devices.meet_through([&doors[0], &doors[1]].map(|door| door.address.to_string()));
    let shape = Shape { kind: Kind::Plain, files: 2_000, bytes: 120 << 20, transcript: 8 << 20 };
    let id = Session::make(&devices.a, shape).id;
    let carried = || doors.iter().map(Proxy::bytes).sum::<u64>();
    let before = carried();
    let mut answers = devices.a.open(Command::To(wanted("server", id))).expect("a daemon");
    let mut resumed = None;
    loop {
        match answers.line().expect("the source stays") {
            ReplyBody::Progress(step) if end != End::Nothing && resumed.is_none() && is_half(&step) => {
                interrupt(&mut devices.b, &doors, end);
                resumed = Some(until_it_goes_on(&carried));
            }
            ReplyBody::Done(_) => return (resumed, carried() - before),
            ReplyBody::Failed(failure) => panic!("{failure:?}"),
            ReplyBody::Progress(_)
            | ReplyBody::Planned(_)
            | ReplyBody::Pairing(_)
            | ReplyBody::Sending(_)
            | ReplyBody::Terminal(_)
            | ReplyBody::Task(_)
            | ReplyBody::Telling(_) => {}
        }
    }
}

fn is_half(step: &Progress) -> bool {
    step.phase == Phase::Transferring && step.total_bytes > 0 && step.bytes * 2 > step.total_bytes
}

/// Until more than greetings passed.
fn until_it_goes_on(carried: &dyn Fn() -> u64) -> Duration {
    let (back, before) = (Instant::now(), carried());
    while carried() < before + (1 << 20) && back.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    back.elapsed()
}

fn interrupt(destination: &mut Device, doors: &[Proxy; 2], end: End) {
    match end {
        End::Nothing => {}
        End::Dark(ms) => {
            doors.iter().for_each(|door| door.cut(true));
            std::thread::sleep(Duration::from_millis(ms));
            doors.iter().for_each(|door| door.cut(false));
        }
        End::Killed => {
            destination.kill();
            destination.start();
        }
    }
}
