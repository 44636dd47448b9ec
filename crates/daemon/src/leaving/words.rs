//! What a person reads of a move that leaves.

use cede_agent::adapter::AgentError;
use cede_wire::control::{Failure, exit};
use cede_wire::id::SessionId;
use cede_wire::refusal::Refusal;
use cede_wire::shown::bytes;

use crate::offering::failure;
use crate::payload::PayloadError;

/// Work in flight is one reason of several: a full disk has another cure.
pub(super) fn not_fenced(error: &PayloadError) -> Failure {
    let what = "the session could not be fenced";
    if let PayloadError::Agent(AgentError::Live { cure, .. }) = error {
        let text = error.to_string();
        let why = text.strip_suffix(cure).and_then(|text| text.strip_suffix("; ")).unwrap_or(&text);
        let cure = format!("{cure}, then repeat the command");
        return Failure { refusal: Some(Refusal::InFlightWork), ..failure(exit::REFUSED, what, why, &cure) };
    }
    let cure = "do what the reason says: room on the disk, rights to the agent's files; then repeat the command";
    failure(exit::FAILED, what, &error.to_string(), cure)
}

pub(super) fn released() -> Failure {
    let why = "the decision is made and durable; the new owner has not answered yet and is told until it does";
    failure(exit::PENDING, "the session is released", why, "cede status")
}

/// Nothing is heard any more of the device that it was released to.
pub(super) fn passed_by_removal(name: &str, session: SessionId) -> Failure {
    let why = format!("{name} had not answered, and nothing is heard of it any more; it may go on with it");
    failure(exit::PENDING, "the session is released", &why, &format!("cede take --force {}", session.short()))
}

pub(super) fn needs_a_yes(plan: &cede_wire::control::Plan) -> Option<Failure> {
    if plan.needs.is_empty() {
        return None;
    }
    let secrets = plan.secret_looking.join(", ");
    let why = match plan.needs.iter().any(|need| need == "--yes-secrets") {
        true => format!("files that look like secrets would travel: {secrets}"),
        false => format!("{} of untracked files would travel", bytes(plan.untracked_bytes)),
    };
    let cure = format!("add {}, or leave files here with --exclude <glob>", plan.needs.join(" "));
    Some(failure(exit::PENDING, "the move needs a yes", &why, &cure))
}

/// What a person who waits reads while the answer is out. Whether somebody is asked there is not known here.
pub(super) const WAITING: &str = "waiting for its answer; if it asks, there: cede approvals";

/// `here`: what the other device calls this one.
pub(crate) fn cure_of(refusal: Refusal, here: &str) -> String {
    let cure = match refusal {
        Refusal::NotGranted => {
            "look there whether it still knows this device: cede devices; one that was removed begins anew: cede devices leave"
        }
        // Who was asked and said no is not to be passed over.
        Refusal::Declined => "ask its operator",
        Refusal::Expired | Refusal::NoApprover => {
            return format!(
                "ask its operator to type: cede approvals, or there, for an unattended server: cede policy {here} --yes"
            );
        }
        Refusal::Busy => "repeat it when that is over",
        Refusal::InFlightWork => "wait for the turn to end, or add --wait",
        Refusal::DestinationCannotResume => {
            "do what the reason says; where only its agent is missing there, carry it with --carry-only"
        }
        Refusal::TooLarge => "free space there, or leave files here with --exclude <glob>",
        Refusal::TimedOut => "see whether the device is up: cede devices",
        Refusal::VersionMismatch => "update the older of the two",
        Refusal::IntegrityFailed
        | Refusal::Truncated
        | Refusal::PayloadUndecodable
        | Refusal::Unauthorized
        | Refusal::WrongDestination
        | Refusal::AlreadyOwner
        | Refusal::NotOwner
        | Refusal::StaleToken
        | Refusal::Cancelled
        | Refusal::Protocol => "cede status",
    };
    cure.to_owned()
}
