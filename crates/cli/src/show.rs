//! What answers look like to a person. Pure: a value goes in, a page comes out.

pub(crate) mod approvals;
pub(crate) mod conversation;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod inventory;
pub(crate) mod letters;
pub(crate) mod log;
pub(crate) mod moves;
pub(crate) mod notify;
pub(crate) mod pairing;
pub(crate) mod policies;
#[cfg(any(test, feature = "decoders"))]
pub(crate) mod samples;
pub(crate) mod seizing;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod tasks;
pub(crate) mod transfers;
pub(crate) mod up;

use cede_wire::control::Answer;

use crate::page::Page;
use crate::show::inventory::Paths;

/// Any answer; `now` in milliseconds since 1970.
pub(crate) fn answer(answer: &Answer, paths: Paths, now: u64) -> Page {
    match answer {
        Answer::Status(report) => status::page(report),
        Answer::Sessions { sessions, .. } => sessions::page(sessions, now),
        Answer::Devices { devices } => devices::page(devices),
        Answer::Doctor { checks } => doctor::page(checks),
        Answer::Paired { device, mesh } => pairing::paired(device, *mesh),
        Answer::Plan(plan) => inventory::plan(plan, Paths::All),
        Answer::SeizePlan(plan) => seizing::page(plan, now),
        Answer::Moved(report) => moves::report(report),
        Answer::Approvals { approvals } => approvals::page(approvals, paths),
        Answer::Log { lines, earlier, verdict } => log::page(lines, *earlier, verdict.as_deref()),
        Answer::Approvers { devices } => devices::approvers(devices),
        Answer::Policies { peers } => policies::page(peers),
        Answer::Adopted(session) => sessions::adopted(session),
        Answer::TerminalEnded(end) => Page::of(&end.text),
        Answer::Told(letter) => letters::told(letter),
        Answer::Inbox { letters, more, notes } => letters::page(letters, *more, notes, now),
        Answer::Letter { letter, text } => letters::letter(letter, text, now),
        Answer::Sent(transfer) => transfers::one(transfer),
        Answer::Transfers { transfers } => transfers::page(transfers, now),
        Answer::Tasks { tasks } => tasks::page(tasks, now),
        Answer::Task { task, text, report } => tasks::task(task, text, report.as_deref(), now),
        Answer::Sinks { sinks } => notify::page(sinks),
        Answer::Said { text } => Page::of(text),
    }
}
