//! What only the person of this device says. What a task of a peer started speaks for nobody here. Source: SPEC E-6.

use cede_wire::control::notify::NotifyRequest;
use cede_wire::control::terminal::Keyboard;
use cede_wire::control::{Command, Failure, exit};
use cede_wire::refusal::Refusal;

use crate::offering::failure;

/// What answers a question, says who may do what, asks others for something in the person's name, or starts what no task
/// would be the end of.
pub(crate) fn is_a_persons(command: &Command) -> bool {
    match command {
        Command::Policy { policy, .. } => policy.is_some(),
        Command::View(request) => request.keyboard != Keyboard::No,
        Command::Notify(request) => *request != NotifyRequest::List,
        // The person saw what travels, and said yes to it.
        Command::To(request) => request.confirm_large || request.confirm_secrets,
        Command::Send(request) => request.confirm_secrets,
        // It is the yes to what comes.
        Command::Take { .. }
        | Command::Pair { .. }
        | Command::PairWith { .. }
        | Command::PairConfirm { .. }
        | Command::Revoke { .. }
        | Command::LeaveMesh { .. }
        | Command::SetRule { .. }
        | Command::Address { .. }
        | Command::Seize { .. }
        | Command::Confirm { .. }
        | Command::Claim { .. }
        | Command::Decide { .. }
        | Command::SetApprover { .. }
        | Command::SettleLog { .. }
        | Command::ReleaseLetters { .. }
        | Command::Run(_)
        | Command::Hold { .. }
        | Command::Release { .. }
        | Command::Ask(_)
        | Command::CancelTask { .. }
        | Command::Stop => true,
        Command::Status
        | Command::Sessions { .. }
        | Command::Devices
        | Command::Doctor
        | Command::Policies { .. }
        | Command::SeizePlan { .. }
        | Command::Cancel { .. }
        | Command::Approvals
        | Command::Approvers
        | Command::Adopt { .. }
        | Command::Log { .. }
        | Command::Tell(_)
        | Command::Inbox { .. }
        | Command::Letter { .. }
        | Command::ReadLetter { .. }
        | Command::LetterShown { .. }
        | Command::MarkLetter { .. }
        | Command::Transfers
        | Command::StopTransfer { .. }
        | Command::Tasks { .. }
        | Command::Task { .. } => false,
    }
}

/// Why such a command is not heard from within a task.
pub(crate) fn of_a_task() -> Failure {
    let why = "this runs inside of a task that a peer asked for, and such a task decides nothing here";
    let refused = failure(exit::REFUSED, "nothing was done", why, "type it in a terminal of your own");
    Failure { refusal: Some(Refusal::Unauthorized), ..refused }
}
