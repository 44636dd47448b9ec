//! The questions that wait for this device's operator. Only a yes is a yes; time is a no.

use std::collections::VecDeque;
use std::time::Instant;

use cede_core::authority::{self, Afar, QuestionId};
use cede_seal::verify::Verified;
use cede_wire::audit::{AuditOf, DecidedBy};
use cede_wire::authority::Rule;
use cede_wire::control::{Answer, ApprovalSummary, Failure, exit};
use cede_wire::handoff::{Disposition, InventoryItem, Offer, Scope};
use cede_wire::id::{ApprovalId, DeviceId, HandoffId, Hash};
use cede_wire::member::Capability;
use cede_wire::refusal::Refusal;
use cede_wire::session::SessionInfo;

use crate::actor::Actor;
use crate::arriving::ArrivalPlan;
use crate::audit::{move_asked, move_decided};
use crate::authorities::{Asker, Came, Told};
use crate::clock::random;
use crate::control::Replies;
use crate::limits;
use crate::offering::failure;
use crate::payload::Leaves;
use crate::take::TakeQuestion;

/// A question.
pub(crate) struct Approval {
    pub(crate) device: DeviceId,
    pub(crate) asked: Instant,
    pub(crate) question: Question,
    /// Kept for the person by a rule: nobody is called.
    pub(crate) held: bool,
    /// Of a move: the hash of everything that is shown of it, which is what the record says.
    pub(crate) shown: Hash,
    /// Ends with the question: a peer that asks and withdraws leaves nothing behind.
    _expiry: Option<Expiry>,
}

/// How the newest questions ended, for whoever answers one too late.
#[derive(Default)]
pub(crate) struct Settled(VecDeque<(ApprovalId, String)>);

impl Settled {
    /// It ended like this.
    pub(crate) fn note(&mut self, id: ApprovalId, how: String) {
        self.0.truncate(limits::SETTLED - 1);
        self.0.push_front((id, how));
    }

    fn how(&self, prefix: &str) -> Option<&str> {
        let named = |id: &ApprovalId| prefix.len() >= limits::APPROVED_DIGITS && id.to_string().starts_with(prefix);
        self.0.iter().find(|(id, _)| named(id)).map(|(_, how)| how.as_str())
    }
}

/// The task that says no when the time is over.
struct Expiry(tokio::task::AbortHandle);

impl Drop for Expiry {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is asked.
pub(crate) enum Question {
    /// A session would come here.
    Receive { plan: Box<ArrivalPlan>, scope: Box<Scope>, turns: u64 },
    /// A session would leave, with no more than was counted.
    Give { question: TakeQuestion, info: Box<SessionInfo>, leaves: Box<Leaves> },
    /// A peer asks for something that its link's authority decides.
    Capability { asker: Asker, question: Box<authority::Question> },
}

/// How the record names a question that a link's authority asks, its decision, and what came of it.
pub(crate) const fn recorded_as(question: &authority::Question) -> AuditOf {
    AuditOf::Request(question.shown.connection, question.request.0)
}

impl Approval {
    /// The question, where a session would leave.
    pub(crate) fn gives(&self) -> Option<&TakeQuestion> {
        match &self.question {
            Question::Give { question, .. } => Some(question),
            Question::Receive { .. } | Question::Capability { .. } => None,
        }
    }

    /// How a question about a move is named in the record.
    pub(crate) fn moves(&self) -> Option<AuditOf> {
        match &self.question {
            Question::Receive { plan, .. } => Some(AuditOf::Handoff(plan.handoff)),
            Question::Give { question, .. } => Some(AuditOf::Take(question.session, question.request)),
            Question::Capability { .. } => None,
        }
    }

    /// A question whose time is counted by who asked it.
    pub(crate) fn of(device: DeviceId, asked: Instant, question: Question) -> Self {
        let held = match &question {
            Question::Capability { question, .. } => question.held,
            Question::Receive { .. } | Question::Give { .. } => false,
        };
        Self { device, asked, question, held, shown: Hash::new([0; 32]), _expiry: None }
    }

    /// Whether it is this question of that link.
    pub(crate) fn is_of(&self, link: Asker, id: QuestionId) -> bool {
        match &self.question {
            Question::Capability { asker, question } => *asker == link && question.id == id,
            Question::Receive { .. } | Question::Give { .. } => false,
        }
    }
}

impl Actor {
    pub(crate) fn ask_to_receive(&mut self, offer: &Verified<Offer>, plan: ArrivalPlan) {
        let (session, handoff) = (plan.key.id(), plan.handoff);
        let question =
            Question::Receive { plan: Box::new(plan), scope: Box::new(offer.scope.clone()), turns: offer.head.turn };
        if let Err(refusal) = self.ask_operator(offer.source, question) {
            self.refuse_arrival(session, handoff, refusal, TOO_MANY);
        }
    }

    pub(crate) fn ask_to_give(&mut self, question: TakeQuestion, info: SessionInfo, leaves: Leaves) {
        let asked = Question::Give { question, info: Box::new(info), leaves: Box::new(leaves) };
        if let Err(refusal) = self.ask_operator(question.from, asked) {
            self.refuse_take(question, refusal, TOO_MANY);
        }
    }

    /// Asks about a move. It counts among the questions of its peer like any other; one that a rule holds calls nobody, and waits
    /// no longer than whoever wants the move.
    fn ask_operator(&mut self, device: DeviceId, question: Question) -> Result<(), Refusal> {
        let id = ApprovalId::new(random().map_err(|_| Refusal::NoApprover)?);
        let now = self.context.clock.now();
        if !self.authorities.memory(device).begin_question(now) {
            self.audit.count((device, Capability::Handoff, false, DecidedBy::Pace));
            return Err(Refusal::Busy);
        }
        tracing::info!(peer = %device.short(), id = %id, "a question waits: cede approvals");
        let context = self.context.clone();
        let expiry = tokio::spawn(async move {
            tokio::time::sleep(context.question_life).await;
            context.tell(move |actor| actor.settle(id, Err(Refusal::Expired))).await;
        });
        let held = self.rule(device, Capability::Handoff) == Some(Rule::Hold);
        let _expiry = Some(Expiry(expiry.abort_handle()));
        let mut approval = Approval { held, _expiry, ..Approval::of(device, Instant::now(), question) };
        approval.shown = self.pose(id, &approval).hash();
        if let Some(of) = approval.moves() {
            self.audit.note(move_asked(device, of, approval.shown, held));
        }
        self.approvals.insert(id, approval);
        self.questions_changed = true;
        if !held {
            self.context.notices.asked();
        }
        Ok(())
    }

    /// Answers a question by a prefix of its id: one that waits here, or at another device that lets this one answer.
    pub(crate) fn decide(&mut self, prefix: &str, yes: bool, replies: Replies) {
        let fits = |id: &&ApprovalId| !prefix.is_empty() && id.to_string().starts_with(prefix);
        let here: Vec<ApprovalId> = self.approvals.keys().filter(fits).copied().collect();
        let there: Vec<ApprovalId> = self.elsewhere.keys().filter(fits).copied().collect();
        let matching: Vec<ApprovalId> = here.into_iter().chain(there).collect();
        let failed = match matching.as_slice() {
            // One that was looked at may be over, and another have come meanwhile that begins like it.
            [_] if yes && prefix.len() < limits::APPROVED_DIGITS => {
                failure(exit::USAGE, "nothing was answered", "a yes needs more of the id", "cede approvals")
            }
            [id] if self.approvals.contains_key(id) => {
                let verdict = if yes { Ok(()) } else { Err(Refusal::Declined) };
                let of = self.approvals.get(id).map(|approval| approval.subject().0);
                let told = move |actor: &mut Self, came: Came| {
                    let waits = of.and_then(|of| actor.waits_for_a_place(of));
                    actor.settle_durable(answer(yes, came, waits), replies);
                };
                return self.settle_by(*id, verdict, None, Box::new(told));
            }
            [id] => return self.answer_elsewhere(*id, yes, replies),
            [] => match self.settled.how(prefix) {
                Some(how) => failure(exit::FAILED, "nothing was answered", how, "cede approvals"),
                None => failure(exit::USAGE, "nothing was answered", "no such question waits", "cede approvals"),
            },
            _ => failure(exit::USAGE, "nothing was answered", "several questions begin like that", "cede approvals"),
        };
        replies.failed(failed);
    }

    fn settle(&mut self, id: ApprovalId, verdict: Result<(), Refusal>) {
        self.settle_by(id, verdict, None, Box::new(|_, _| {}));
    }

    /// Ends a question with what was said: by the operator here, or from elsewhere. What that comes to is `told` once
    /// it is in the record.
    pub(crate) fn settle_by(&mut self, id: ApprovalId, verdict: Result<(), Refusal>, from: Option<Afar>, told: Told) {
        let Some(approval) = self.approvals.remove(&id) else {
            return self.once_durable(move |actor| told(actor, (false, DecidedBy::Closed)));
        };
        self.questions_changed = true;
        let told: Told = Box::new(move |actor, came| {
            actor.note_settled(id, came);
            told(actor, came);
        });
        if let Question::Capability { asker, question } = &approval.question {
            return self.answer_authority(*asker, question, (verdict.is_ok(), from), told);
        }
        // Its timer may come late; the answer does not.
        let late = self.left_ms(&approval) == 0;
        let verdict = if late { Err(Refusal::Expired) } else { verdict };
        if verdict == Err(Refusal::Expired) {
            tracing::info!(peer = %approval.device.short(), %id, "nobody answered in time: the question is a no");
        }
        let by = from.filter(|_| !late).map_or_else(|| decided_by(verdict), Afar::by);
        self.end_move_question(approval, verdict, by, told);
    }

    fn end_move_question(&mut self, approval: Approval, verdict: Result<(), Refusal>, by: DecidedBy, told: Told) {
        let (device, shown, now) = (approval.device, approval.shown, self.context.clock.now());
        if let Some(memory) = self.authorities.remembered(device) {
            memory.end_question((verdict.is_ok(), by), now);
        }
        let Some(of) = approval.moves() else { return };
        let decided = move_decided(device, of, (verdict.is_ok(), by), Some(shown));
        let question = approval.question;
        self.once_recorded(decided, move |actor, stands| {
            let (verdict, mut came) = match verdict {
                Ok(()) if !stands => (Err((Refusal::Busy, UNRECORDED)), (false, DecidedBy::Fault)),
                Ok(()) => (Ok(()), (true, by)),
                Err(refusal) => (Err((refusal, said(refusal))), (false, by)),
            };
            match (question, verdict) {
                (Question::Receive { plan, .. }, Ok(())) => {
                    if let Err(by) = actor.approve_arrival(*plan) {
                        came = (false, by);
                    }
                }
                (Question::Receive { plan, .. }, Err((refusal, detail))) => {
                    actor.refuse_arrival(plan.key.id(), plan.handoff, refusal, detail);
                }
                (Question::Give { question, leaves, .. }, Ok(())) => actor.find_for(question, Some(leaves)),
                (Question::Give { question, .. }, Err((refusal, detail))) => {
                    actor.refuse_take(question, refusal, detail);
                }
                (Question::Capability { .. }, _) => {}
            }
            told(actor, came);
        });
    }

    /// Takes back the questions about moves that are meant: nobody waits for an answer any more.
    pub(crate) fn take_back_moves(&mut self, meant: impl Fn(&Approval) -> bool) -> Vec<Approval> {
        let meant: Vec<ApprovalId> =
            self.approvals.iter().filter(|(_, one)| one.moves().is_some() && meant(one)).map(|(id, _)| *id).collect();
        let mut gone = Vec::with_capacity(meant.len());
        for id in meant {
            let Some(approval) = self.approvals.remove(&id) else { continue };
            let withdrawn = (false, DecidedBy::Withdrawn);
            self.questions_changed = true;
            self.note_settled(id, withdrawn);
            if let Some(memory) = self.authorities.remembered(approval.device) {
                memory.question_over();
            }
            if let Some(of) = approval.moves() {
                self.audit.note(move_decided(approval.device, of, withdrawn, Some(approval.shown)));
            }
            gone.push(approval);
        }
        gone
    }

    pub(crate) fn note_settled(&mut self, id: ApprovalId, (yes, by): Came) {
        let word = if yes { "allowed" } else { "denied" };
        let how = match by {
            DecidedBy::Operator => format!("it was {word} here already"),
            DecidedBy::Approver(device) => format!("it was {word} at {} already", self.device_name(device)),
            DecidedBy::Button => format!("it was {word} by a button of a call already"),
            DecidedBy::Time => "nobody answered it in time: it counts as a no".to_owned(),
            DecidedBy::Withdrawn => "whoever asked withdrew it".to_owned(),
            DecidedBy::Rule => format!("it was {word} by a rule already"),
            DecidedBy::Grant | DecidedBy::Fault | DecidedBy::Pace | DecidedBy::Size | DecidedBy::Closed => return,
        };
        self.settled.note(id, how);
    }

    /// The offer was withdrawn while its question waited.
    pub(crate) fn withdraw_question(&mut self, handoff: HandoffId, refusal: Refusal) {
        let is_it = |one: &Approval| matches!(&one.question, Question::Receive { plan, .. } if plan.handoff == handoff);
        for approval in self.take_back_moves(is_it) {
            if let Question::Receive { plan, .. } = approval.question {
                self.end_arriving(plan.key.id(), refusal, "the offer was withdrawn");
            }
        }
    }

    /// The questions, those of other devices behind the ones here. What is shown is approved, so one whose lists no answer holds any
    /// more says so instead.
    pub(crate) fn approval_summaries(&self) -> Vec<ApprovalSummary> {
        let mut room = limits::SCOPES_SHOWN_BYTES;
        let mut fit = |(mut summary, shown): (ApprovalSummary, usize)| {
            match room.checked_sub(shown) {
                Some(left) => room = left,
                None => leave_out_lists(&mut summary),
            }
            summary
        };
        let here = self.approvals.iter().map(|(id, approval)| {
            let left = self.left_ms(approval) / 1_000;
            let seen = ApprovalSummary { held: approval.held, ..self.seen(self.pose(*id, approval), *id, left) };
            (seen, self.shown_bytes(approval))
        });
        here.chain(self.elsewhere_summaries()).map(&mut fit).collect()
    }

    fn shown_bytes(&self, approval: &Approval) -> usize {
        match &approval.question {
            Question::Receive { scope, .. } => crate::scrutiny::shown_bytes(scope),
            Question::Give { leaves, .. } => crate::scrutiny::shown_bytes(&leaves.scope),
            Question::Capability { question, .. } => {
                question.shown.to_bytes().len() + self.files_shown_bytes(question.shown.subject.content())
            }
        }
    }

    /// What this device's operator would have been asked about moves of a peer is refused.
    pub(crate) fn refuse_moves_of(&mut self, device: DeviceId, refusal: Refusal) {
        let moves = |approval: &Approval| !matches!(approval.question, Question::Capability { .. });
        let theirs =
            |(id, approval): (&ApprovalId, &Approval)| (approval.device == device && moves(approval)).then_some(*id);
        let ids: Vec<ApprovalId> = self.approvals.iter().filter_map(theirs).collect();
        ids.into_iter().for_each(|id| self.settle(id, Err(refusal)));
    }

    /// A device that was removed is asked about no more.
    pub(crate) fn forget_questions_of_strangers(&mut self) {
        let strange = |approval: &Approval| !self.peers.is_member(approval.device);
        let ids: Vec<ApprovalId> = self.approvals.iter().filter(|(_, a)| strange(a)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.settle(id, Err(Refusal::NotGranted)));
        let peers = &self.peers;
        self.takes.forget(|device| peers.is_member(device));
    }
}

/// What the peer's own lists do not say.
pub(crate) fn here_already() -> InventoryItem {
    InventoryItem {
        what: "a conversation under this id that is here and never moved".to_owned(),
        disposition: Disposition::Stays,
        count: 1,
        bytes: 0,
        note: "the one that comes takes its place; this one is kept under another name".to_owned(),
    }
}

fn leave_out_lists(summary: &mut ApprovalSummary) {
    summary.inventory = vec![InventoryItem {
        what: "everything in it".to_owned(),
        disposition: Disposition::Transferred,
        count: 0,
        bytes: 0,
        note: "too much to be shown beside the others: answer those first".to_owned(),
    }];
    summary.executables.clear();
    summary.dotfiles.clear();
    summary.configuration_as_code.clear();
    summary.secret_looking.clear();
    summary.files.clear();
}

fn decided_by(verdict: Result<(), Refusal>) -> DecidedBy {
    match verdict {
        Ok(()) | Err(Refusal::Declined) => DecidedBy::Operator,
        Err(Refusal::Expired) => DecidedBy::Time,
        Err(_) => DecidedBy::Closed,
    }
}

/// What the operator hears who answered.
fn answer(yes: bool, (allowed, by): Came, waits: Option<String>) -> Result<Answer, Failure> {
    let text = match waits {
        Some(waits) if allowed => format!("allowed; {waits}"),
        Some(_) | None if allowed => "allowed".to_owned(),
        Some(_) | None => "denied; nothing was written".to_owned(),
    };
    if yes == allowed || !yes {
        return Ok(Answer::Said { text });
    }
    let nothing = |exit, why, cure| Err(failure(exit, "nothing was allowed", why, cure));
    match by {
        DecidedBy::Fault => nothing(exit::FAILED, "this device cannot write it down", "cede doctor"),
        DecidedBy::Time => nothing(exit::TIMEOUT, "the time for an answer was over: it is a no", "cede approvals"),
        DecidedBy::Withdrawn => {
            nothing(exit::FAILED, "whoever asked withdrew it at the same moment", "cede approvals; cede tasks --all")
        }
        DecidedBy::Grant
        | DecidedBy::Rule
        | DecidedBy::Operator
        | DecidedBy::Pace
        | DecidedBy::Size
        | DecidedBy::Closed
        | DecidedBy::Approver(_)
        | DecidedBy::Button => {
            nothing(exit::FAILED, "the question was over, or what it was about stands no more", "cede approvals")
        }
    }
}

/// Why a yes to a move is none, in words for the peer.
pub(crate) const UNRECORDED: &str = "decisions cannot be recorded there now; try again later";

/// Why a move or files ask nobody.
pub(crate) const TOO_MANY: &str = "the operator there is asked too often about this device; try again later";

fn said(refusal: Refusal) -> &'static str {
    if refusal == Refusal::Declined {
        "the operator there said no"
    } else if refusal == Refusal::NotGranted {
        "the device was removed"
    } else {
        "nobody answered in time"
    }
}
