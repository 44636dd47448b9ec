//! What people see of a sending of files.

use cede_core::transfers::{ComingPhase, GoingPhase, TransferEnd};
use cede_wire::control::{Answer, Failure, ReplyBody, TransferState, TransferSummary, exit};
use cede_wire::id::{DeviceId, TransferId};
use cede_wire::path::escape_rest;
use cede_wire::refusal::Refusal;
use cede_wire::transfer::{Shown, TransferOffer};

use super::TransferPlan;
use super::going::BeingRead;
use crate::actor::Actor;
use crate::control::Replies;
use crate::offering::{exit_of, failure, reason};
use crate::peers::NOT_ADMITTED;

/// What is known of one beside the machine.
pub(super) struct View {
    pub(super) plan: TransferPlan,
    /// Of the content that is to move: what was there when the present exchange began, and what came since.
    pub(super) present: u64,
    pub(super) since: u64,
    pub(super) to_move: u64,
    /// What earlier exchanges of this run carried.
    pub(super) before: u64,
    /// What it waits for beside the other device: room. Empty where it does not.
    pub(super) waits: String,
}

impl View {
    pub(super) const fn new(plan: TransferPlan) -> Self {
        Self { plan, present: 0, since: 0, to_move: 0, before: 0, waits: String::new() }
    }

    /// A new exchange: so much is there of so much.
    pub(super) fn begin(&mut self, present: u64, to_move: u64) {
        self.before += self.since;
        (self.present, self.since, self.to_move) = (present, 0, to_move);
    }
}

/// Who waits for the end of one.
pub(super) struct Watcher {
    pub(super) replies: Replies,
    /// Answer when it is queued.
    pub(super) at_once: bool,
}

impl Watcher {
    /// Tells a line. False: nobody listens any more.
    pub(super) fn see(&self, body: &ReplyBody) -> bool {
        self.replies.tell(body.clone())
    }

    pub(super) fn ended(self, summary: Option<&TransferSummary>) {
        let Some(summary) = summary else { return };
        self.replies.settle(outcome(summary));
    }
}

/// A person who waited hears an end that is no success as a failure.
fn outcome(summary: &TransferSummary) -> Result<Answer, Failure> {
    let Some(refusal) = summary.refusal else { return Ok(Answer::Sent(Box::new(summary.clone()))) };
    let exit = if refusal == Refusal::Expired { exit::TIMEOUT } else { exit_of(refusal) };
    let end = if refusal == Refusal::Cancelled { "withdrawn" } else { "not received" };
    let what = format!("{} was {end}", summary.title);
    Err(Failure { refusal: Some(refusal), ..failure(exit, &what, &reason(refusal, &summary.detail), cure(refusal)) })
}

const fn cure(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Expired | Refusal::IntegrityFailed | Refusal::Busy => "send it again",
        Refusal::Declined
        | Refusal::NotGranted
        | Refusal::NoApprover
        | Refusal::InFlightWork
        | Refusal::Truncated
        | Refusal::PayloadUndecodable
        | Refusal::Unauthorized
        | Refusal::WrongDestination
        | Refusal::DestinationCannotResume
        | Refusal::AlreadyOwner
        | Refusal::NotOwner
        | Refusal::StaleToken
        | Refusal::TooLarge
        | Refusal::Cancelled
        | Refusal::TimedOut
        | Refusal::VersionMismatch
        | Refusal::Protocol => "cede transfers",
    }
}

/// Whether nobody decided it: it came to nothing by itself.
const fn is_fault(refusal: Refusal) -> bool {
    match refusal {
        Refusal::IntegrityFailed
        | Refusal::Truncated
        | Refusal::PayloadUndecodable
        | Refusal::DestinationCannotResume
        | Refusal::TimedOut
        | Refusal::VersionMismatch
        | Refusal::Protocol => true,
        Refusal::Declined
        | Refusal::NotGranted
        | Refusal::NoApprover
        | Refusal::InFlightWork
        | Refusal::Unauthorized
        | Refusal::WrongDestination
        | Refusal::AlreadyOwner
        | Refusal::NotOwner
        | Refusal::StaleToken
        | Refusal::TooLarge
        | Refusal::Busy
        | Refusal::Expired
        | Refusal::Cancelled => false,
    }
}

/// "report.pdf", or "report.pdf and 2 more".
pub(super) fn title_of(roots: &[String]) -> String {
    match roots {
        [] => String::new(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// The names at the top of what is shown.
pub(super) fn roots_of(shown: &Shown) -> Vec<String> {
    let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let mut roots: Vec<String> = shown.paths.iter().map(|line| first(&line.path)).collect();
    roots.dedup();
    roots
}

impl Actor {
    /// All of them: those under way, then those that ended, newest first.
    pub(crate) fn transfer_summaries(&self) -> Vec<TransferSummary> {
        let mut ended: Vec<_> = self.transfers.ended().filter_map(|(id, _)| self.transfer_summary(id)).collect();
        ended.reverse();
        ended.truncate(crate::limits::ENDED_TRANSFERS_SHOWN);
        self.open_transfer_summaries().into_iter().chain(ended).collect()
    }

    /// Those under way, newest first.
    pub(crate) fn open_transfer_summaries(&self) -> Vec<TransferSummary> {
        let going = self.transfers.going().map(|(id, _)| id);
        let open = going.chain(self.transfers.coming().map(|(id, _)| id)).chain(self.files.read.keys().copied());
        let mut open: Vec<TransferSummary> = open.filter_map(|id| self.transfer_summary(id)).collect();
        open.sort_by_key(|summary| core::cmp::Reverse(summary.at_unix_ms));
        open
    }

    pub(super) fn transfer_summary(&self, transfer: TransferId) -> Option<TransferSummary> {
        if let Some(read) = self.files.read.get(&transfer) {
            return Some(self.reading_summary(transfer, read));
        }
        let view = self.files.views.get(&transfer);
        let (peer, going, state, end) = self.transfer_standing(transfer)?;
        let offer = self.transfer_offer(transfer);
        let plan = view.map(|view| view.plan.clone()).or_else(|| Some(untaken(offer?)));
        let plan = plan.or_else(|| self.files.offered.get(&transfer).cloned());
        let plan = plan.unwrap_or_else(|| unknown(transfer));
        let (moved, to_move, carried) =
            view.map_or((0, 0, 0), |view| (view.present + view.since, view.to_move, view.before + view.since));
        let (place, refusal, detail) = match end {
            Some(TransferEnd::Received(place)) => (place, None, plan.left_out.clone()),
            Some(TransferEnd::Not(refusal, detail)) => (String::new(), Some(refusal), detail),
            None => (String::new(), None, self.transfer_waits(transfer, peer, going, state, &plan.left_out)),
        };
        Some(TransferSummary {
            id: transfer,
            title: plan.title,
            device: self.device_name(peer),
            going,
            state,
            files: plan.files,
            bytes: plan.bytes,
            moved: if state == TransferState::Received { to_move } else { moved },
            to_move,
            carried,
            place: escape_rest(&place),
            note: plan.note,
            at_unix_ms: plan.at_unix_ms,
            refusal,
            detail: escape_rest(&detail),
        })
    }

    fn reading_summary(&self, transfer: TransferId, read: &BeingRead) -> TransferSummary {
        let bytes = read.reading.bytes();
        TransferSummary {
            id: transfer,
            title: read.title.clone(),
            device: self.device_name(read.to),
            going: true,
            state: TransferState::Reading,
            files: read.reading.files(),
            bytes: read.all.max(bytes),
            moved: if read.all > 0 { bytes.min(read.all) } else { bytes },
            to_move: read.all,
            carried: 0,
            place: String::new(),
            note: read.note.clone(),
            at_unix_ms: read.at_unix_ms,
            refusal: None,
            detail: String::new(),
        }
    }

    fn transfer_standing(&self, transfer: TransferId) -> Option<(DeviceId, bool, TransferState, Option<TransferEnd>)> {
        if let Some((_, going)) = self.transfers.going().find(|(id, _)| *id == transfer) {
            let state = match going.phase() {
                GoingPhase::Sending(_) => TransferState::Sending,
                GoingPhase::Offered => TransferState::Offered,
                GoingPhase::Queued => TransferState::Queued,
            };
            return Some((going.offer().destination, true, state, None));
        }
        if let Some((_, coming)) = self.transfers.coming().find(|(id, _)| *id == transfer) {
            let state = match coming.phase() {
                ComingPhase::Asked => TransferState::Offered,
                ComingPhase::Approved | ComingPhase::Receiving(_) => TransferState::Sending,
            };
            return Some((coming.offer().source, false, state, None));
        }
        let (_, ended) = self.transfers.ended().find(|(id, _)| *id == transfer)?;
        let state = match &ended.end {
            TransferEnd::Received(_) => TransferState::Received,
            TransferEnd::Not(Refusal::Expired, _) => TransferState::Expired,
            TransferEnd::Not(Refusal::Cancelled, _) => TransferState::Cancelled,
            TransferEnd::Not(refusal, _) if is_fault(*refusal) => TransferState::Failed,
            TransferEnd::Not(..) => TransferState::Refused,
        };
        Some((ended.peer, ended.going, state, Some(ended.end.clone())))
    }

    fn transfer_offer(&self, transfer: TransferId) -> Option<&TransferOffer> {
        let going = self.transfers.going().find(|(id, _)| *id == transfer).map(|(_, going)| &**going.offer());
        going.or_else(|| self.transfers.coming().find(|(id, _)| *id == transfer).map(|(_, coming)| &**coming.offer()))
    }

    /// What one that did not end waits for.
    fn transfer_waits(
        &self,
        transfer: TransferId,
        peer: DeviceId,
        going: bool,
        state: TransferState,
        left_out: &str,
    ) -> String {
        let connected = self.peers.is_connected(peer);
        let view = self.files.views.get(&transfer);
        let all_here = view.is_some_and(|view| view.to_move > 0 && view.present + view.since == view.to_move);
        let room = view.map(|view| view.waits.as_str()).filter(|waits| !waits.is_empty() && (connected || !going));
        let waits = match (state, going) {
            (_, _) if room.is_some() => room.unwrap_or_default().to_owned(),
            (_, _) if self.peers.refuses_us(peer) => format!("{} {NOT_ADMITTED}", self.device_name(peer)),
            (_, _) if !connected => format!("waits for {}", self.device_name(peer)),
            (TransferState::Queued, true) => "waits for its turn there; it is offered again by itself".to_owned(),
            (TransferState::Offered, true) => "waits for its answer; if it asks, there: cede approvals".to_owned(),
            (TransferState::Offered, false) if self.files.considered.contains_key(&transfer) => {
                "waits for your answer: cede approvals".to_owned()
            }
            (TransferState::Sending, false) if all_here => "is put into its place".to_owned(),
            _ => String::new(),
        };
        [waits.as_str(), left_out].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

/// One that was not approved here yet.
pub(super) fn untaken(offer: &TransferOffer) -> TransferPlan {
    TransferPlan {
        title: crate::scrutiny::text(&title_of(&roots_of(&offer.shown))),
        files: offer.shown.files,
        bytes: offer.shown.bytes,
        note: crate::scrutiny::detail(&offer.note),
        at_unix_ms: offer.offered_at_unix_ms,
        ..unknown(offer.transfer)
    }
}

pub(super) fn unknown(transfer: TransferId) -> TransferPlan {
    TransferPlan {
        transfer,
        title: String::new(),
        files: 0,
        bytes: 0,
        note: String::new(),
        left_out: String::new(),
        at_unix_ms: 0,
        roots: Vec::new(),
        folder: None,
        staging: None,
        together: String::new(),
        place: None,
        inode: None,
        of: None,
    }
}
