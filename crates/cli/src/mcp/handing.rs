//! `hand_over`: a move that is asked for, watched for a while, and never consented to.

use cede_wire::control::{Answer, Command, Failure, MoveRequest, Phase, Progress, ReplyBody, exit};
use rmcp::model::CallToolResult;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::client::{Answers, AskError, Client};
use crate::fault;
use crate::limits::{EVENTS, HAND_OVER_PATIENCE};
use crate::mcp::inputs::HandOver;
use crate::mcp::outcome;

type Line = Result<ReplyBody, AskError>;

/// Asks for the move, and says how it ended or how far it is.
///
/// # Errors
/// Why it did not happen. The session stays where it is.
pub(super) async fn over(
    client: Client,
    asked: HandOver,
    seat: OwnedSemaphorePermit,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResult, Failure> {
    let (send, lines) = channel(EVENTS);
    let command = Command::To(request(asked));
    std::thread::spawn(move || {
        // The seat is free when the daemon has said its last word: so there are never more threads than seats.
        let _seat = seat;
        match client.open(command, None) {
            Ok(answers) => pass_on(answers, &send),
            Err(error) => drop(send.blocking_send(Err(error))),
        }
    });
    watch(lines, &context).await
}

/// No yes to anything: what needs one is for the person.
fn request(asked: HandOver) -> MoveRequest {
    let present = std::env::current_dir().ok().and_then(|path| path.to_str().map(str::to_owned));
    MoveRequest {
        device: asked.to,
        session: Some(asked.session),
        directory: present.unwrap_or_default(),
        wait: asked.wait,
        ..MoveRequest::default()
    }
}

fn pass_on(mut answers: Answers, send: &Sender<Line>) {
    loop {
        let line = answers.next();
        let last = matches!(line, Err(_) | Ok(ReplyBody::Done(_) | ReplyBody::Failed(_)));
        if send.blocking_send(line).is_err() || last {
            return;
        }
    }
}

async fn watch(mut lines: Receiver<Line>, context: &RequestContext<RoleServer>) -> Result<CallToolResult, Failure> {
    let mut last: Option<Progress> = None;
    let late = tokio::time::sleep(HAND_OVER_PATIENCE);
    tokio::pin!(late);
    loop {
        let line = tokio::select! {
            line = lines.recv() => line.unwrap_or(Err(AskError::Ended))?,
            () = &mut late => return Ok(outcome::under_way(last.as_ref())),
            () = context.ct.cancelled() => return Err(left()),
        };
        match line {
            ReplyBody::Done(Answer::Moved(report)) => return Ok(outcome::moved(report)),
            ReplyBody::Done(_) => return Err(fault::unexpected_answer()),
            ReplyBody::Failed(failure) => return Err(failure),
            // The turn that is waited for may be the one that makes this call.
            ReplyBody::Progress(progress) if progress.phase == Phase::Waiting => {
                return Ok(outcome::under_way(Some(&progress)));
            }
            ReplyBody::Progress(progress) => last = Some(progress),
            ReplyBody::Planned(_)
            | ReplyBody::Pairing(_)
            | ReplyBody::Terminal(_)
            | ReplyBody::Sending(_)
            | ReplyBody::Task(_)
            | ReplyBody::Telling(_) => {}
        }
    }
}

/// Nobody reads this any more: who cancels a call hears no answer to it.
fn left() -> Failure {
    fault::local(exit::INTERRUPTED, "the call was cancelled", "the move goes on", "withdraw it: cede cancel")
}
