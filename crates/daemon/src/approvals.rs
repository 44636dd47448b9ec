//! The questions that wait for this device's operator. Only a yes is a yes; time is a no.

use std::time::Instant;

use cede_core::authority::{self, Afar, QuestionId};
use cede_seal::verify::Verified;
use cede_wire::audit::{AuditOf, DecidedBy};
use cede_wire::control::{Answer, ApprovalSummary, exit};
use cede_wire::handoff::{Disposition, InventoryItem, Offer, Scope};
use cede_wire::id::{ApprovalId, DeviceId, HandoffId, Hash};
use cede_wire::refusal::Refusal;
use cede_wire::session::SessionInfo;

use crate::actor::Actor;
use crate::arriving::ArrivalPlan;
use crate::authorities::Asker;
use crate::clock::random;
use crate::context::Context;
use crate::control::Replies;
use crate::errands::Errand;
use crate::limits;
use crate::offering::failure;
use crate::payload::{self, Wanted};
use crate::take::TakeQuestion;

/// A question.
pub(crate) struct Approval {
    pub(crate) device: DeviceId,
    pub(crate) asked: Instant,
    pub(crate) question: Question,
    /// Ends with the question: a peer that asks and withdraws leaves nothing behind.
    _expiry: Option<Expiry>,
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
    /// A session would leave.
    Give { question: TakeQuestion, info: Box<SessionInfo>, leaves: Option<Box<Leaves>> },
    /// A peer asks for something that its link's authority decides.
    Capability { asker: Asker, question: Box<authority::Question> },
}

/// What would leave, once it is counted.
pub(crate) struct Leaves {
    scope: Scope,
    secret_looking: Vec<String>,
}

impl Approval {
    /// The question, where a session would leave.
    pub(crate) fn gives(&self) -> Option<&TakeQuestion> {
        match &self.question {
            Question::Give { question, .. } => Some(question),
            Question::Receive { .. } | Question::Capability { .. } => None,
        }
    }

    /// How a question about a move is named in the record, and the hash of what it is about.
    pub(crate) fn moves(&self) -> Option<(AuditOf, Hash)> {
        match &self.question {
            Question::Receive { plan, scope, .. } => Some((AuditOf::Handoff(plan.handoff), scope.digest())),
            Question::Give { question, info, .. } => {
                let of = AuditOf::Take(question.session, question.request);
                Some((of, Hash::of(&cede_wire::canonical::encode(&**info))))
            }
            Question::Capability { .. } => None,
        }
    }

    /// A question whose time is counted by who asked it.
    pub(crate) fn of(device: DeviceId, asked: Instant, question: Question) -> Self {
        Self { device, asked, question, _expiry: None }
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
            let detail = "too many questions wait for the operator here";
            self.custodian.decline(session, handoff, refusal, detail);
            self.end_arriving(session, refusal, detail);
        }
    }

    pub(crate) fn ask_to_give(&mut self, question: TakeQuestion, info: SessionInfo) {
        let asked = Question::Give { question, info: Box::new(info.clone()), leaves: None };
        match self.ask_operator(question.from, asked) {
            Ok(()) => self.count_leaving(question, &info),
            Err(refusal) => self.refuse_take(question, refusal, "too many questions wait for the operator there"),
        }
    }

    /// Looks at everything that would leave, while its question waits already.
    fn count_leaving(&mut self, question: TakeQuestion, info: &SessionInfo) {
        if !self.errands.begin(question.from, Errand::CountSession) {
            return;
        }
        let (context, wanted) = (self.context.clone(), Wanted::all_of(info));
        tokio::spawn(async move {
            let leaves = context.block(move |context| count(context, &wanted)).await.ok().flatten();
            context
                .tell(move |actor| {
                    actor.errands.end(question.from, Errand::CountSession);
                    actor.counted(question, leaves);
                })
                .await;
        });
    }

    fn counted(&mut self, asked: TakeQuestion, counted: Option<Box<Leaves>>) {
        for approval in self.approvals.values_mut() {
            if let Question::Give { question, leaves, .. } = &mut approval.question
                && *question == asked
            {
                *leaves = counted;
                self.questions_changed = true;
                return;
            }
        }
    }

    fn ask_operator(&mut self, device: DeviceId, question: Question) -> Result<(), Refusal> {
        let open = self.approvals.values().filter(|approval| approval.device == device).count();
        if open >= limits::APPROVALS_PER_PEER {
            return Err(Refusal::Busy);
        }
        let id = ApprovalId::new(random().map_err(|_| Refusal::NoApprover)?);
        tracing::info!(peer = %device.short(), id = %id, "a question waits: cede approvals");
        let context = self.context.clone();
        let expiry = tokio::spawn(async move {
            tokio::time::sleep(context.question_life).await;
            context.tell(move |actor| actor.settle(id, Err(Refusal::Expired))).await;
        });
        let _expiry = Some(Expiry(expiry.abort_handle()));
        let approval = Approval { device, asked: Instant::now(), question, _expiry };
        if let Some((of, shown)) = approval.moves() {
            self.note_move(device, of, None, Some(shown));
        }
        self.approvals.insert(id, approval);
        self.questions_changed = true;
        self.context.notices.asked();
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
                let id = *id;
                return self.durably(replies, |actor| {
                    actor.settle(id, if yes { Ok(()) } else { Err(Refusal::Declined) });
                    let text = if yes { "allowed" } else { "denied; nothing was written" };
                    Ok(Answer::Said { text: text.to_owned() })
                });
            }
            [id] => return self.answer_elsewhere(*id, yes, replies),
            [] => failure(exit::FAILED, "nothing was answered", "no such question waits", "cede approvals"),
            _ => failure(exit::USAGE, "nothing was answered", "several questions begin like that", "cede approvals"),
        };
        replies.failed(failed);
    }

    fn settle(&mut self, id: ApprovalId, verdict: Result<(), Refusal>) {
        self.settle_by(id, verdict, None);
    }

    /// Ends a question with what was said: by the operator here, or from elsewhere.
    pub(crate) fn settle_by(&mut self, id: ApprovalId, verdict: Result<(), Refusal>, from: Option<Afar>) {
        let Some(approval) = self.approvals.remove(&id) else { return };
        self.questions_changed = true;
        let by = from.map_or_else(|| decided_by(verdict), Afar::by);
        if verdict == Err(Refusal::Expired) {
            tracing::info!(peer = %approval.device.short(), %id, "nobody answered in time: the question is a no");
        }
        if let Some((of, shown)) = approval.moves() {
            self.note_move(approval.device, of, Some((verdict.is_ok(), by)), Some(shown));
        }
        match (approval.question, verdict) {
            (Question::Receive { plan, .. }, Ok(())) => self.approve_arrival(*plan),
            (Question::Receive { plan, .. }, Err(refusal)) => {
                let (session, detail) = (plan.key.id(), said(refusal));
                self.custodian.decline(session, plan.handoff, refusal, detail);
                self.end_arriving(session, refusal, detail);
            }
            (Question::Give { question, .. }, Ok(())) => self.find_for(question, true),
            (Question::Give { question, .. }, Err(refusal)) => self.refuse_take(question, refusal, said(refusal)),
            (Question::Capability { asker, question }, verdict) => {
                self.answer_authority(asker, question.id, (verdict.is_ok(), from));
            }
        }
    }

    /// The offer was withdrawn while its question waited.
    pub(crate) fn withdraw_question(&mut self, handoff: HandoffId, refusal: Refusal) {
        let session = self.approvals.values().find_map(|approval| match &approval.question {
            Question::Receive { plan, .. } if plan.handoff == handoff => Some(plan.key.id()),
            Question::Receive { .. } | Question::Give { .. } | Question::Capability { .. } => None,
        });
        self.approvals.retain(
            |_, approval| !matches!(&approval.question, Question::Receive { plan, .. } if plan.handoff == handoff),
        );
        self.questions_changed = true;
        if let Some(session) = session {
            self.end_arriving(session, refusal, "the offer was withdrawn");
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
        let here = self.approvals.iter().filter_map(|(id, approval)| {
            let left = self.left_ms(approval) / 1_000;
            Some((self.seen(self.posed(*id)?, *id, left), self.shown_bytes(approval)))
        });
        here.chain(self.elsewhere_summaries()).map(&mut fit).collect()
    }

    fn shown_bytes(&self, approval: &Approval) -> usize {
        match &approval.question {
            Question::Receive { scope, .. } => crate::scrutiny::shown_bytes(scope),
            Question::Give { leaves, .. } => leaves.as_ref().map_or(0, |l| crate::scrutiny::shown_bytes(&l.scope)),
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
    }

    pub(crate) fn approval_summary(&self, id: ApprovalId, approval: &Approval) -> ApprovalSummary {
        if let Question::Capability { question, .. } = &approval.question {
            let summary = self.capability_summary(id, approval.device, question);
            return self.with_files(summary);
        }
        let (kind, scope, secret_looking) = match &approval.question {
            Question::Receive { plan, scope, .. } => {
                let mut scope = (**scope).clone();
                if plan.here_already {
                    scope.inventory.insert(0, here_already());
                }
                ("receive", scope, Vec::new())
            }
            Question::Give { leaves: Some(leaves), .. } => {
                ("give", Scope { limit_bytes: 0, ..leaves.scope.clone() }, leaves.secret_looking.clone())
            }
            Question::Give { leaves: None, .. } | Question::Capability { .. } => ("give", nothing(), Vec::new()),
        };
        let (title, agent, directory, turns) = match &approval.question {
            Question::Receive { plan, turns, .. } => {
                (plan.title.clone(), Some(plan.key.agent), plan.target.display().to_string(), *turns)
            }
            Question::Give { info, .. } => {
                (info.title.clone(), Some(info.key.agent), info.directory.clone(), info.turns)
            }
            Question::Capability { .. } => (String::new(), None, String::new(), 0),
        };
        ApprovalSummary {
            id,
            device: self.device_name(approval.device),
            kind: kind.to_owned(),
            title,
            agent,
            directory,
            inventory: scope.inventory,
            executables: scope.executables,
            dotfiles: scope.dotfiles,
            configuration_as_code: scope.configuration_as_code,
            limit_bytes: scope.limit_bytes,
            expires_in_s: 0,
            turns,
            secret_looking,
            asks: None,
            files: Vec::new(),
            note: String::new(),
            at: None,
        }
    }

    fn capability_summary(&self, id: ApprovalId, device: DeviceId, question: &authority::Question) -> ApprovalSummary {
        let (shown, held) = (&question.shown, question.held);
        ApprovalSummary {
            id,
            device: self.device_name(device),
            kind: shown.capability.name().to_owned(),
            title: shown.subject.text().to_owned(),
            agent: None,
            directory: String::new(),
            inventory: Vec::new(),
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
            limit_bytes: 0,
            expires_in_s: 0,
            turns: 0,
            secret_looking: Vec::new(),
            asks: Some(crate::approvers::asked_for(shown, held)),
            files: Vec::new(),
            note: String::new(),
            at: None,
        }
    }
}

/// Everything that would leave. None: it cannot be captured now, which the move would say. Blocks.
fn count(context: &Context, wanted: &Wanted) -> Option<Box<Leaves>> {
    let payload = payload::take(context, wanted).ok()?;
    let scope = payload.scope().ok().filter(crate::scrutiny::can_be_shown)?;
    Some(Box::new(Leaves { scope, secret_looking: payload.secret_looking }))
}

const fn nothing() -> Scope {
    Scope {
        inventory: Vec::new(),
        limit_bytes: 0,
        limit_entries: 0,
        executables: Vec::new(),
        dotfiles: Vec::new(),
        configuration_as_code: Vec::new(),
    }
}

/// What the peer's own lists do not say.
fn here_already() -> InventoryItem {
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

fn said(refusal: Refusal) -> &'static str {
    if refusal == Refusal::Declined {
        "the operator there said no"
    } else if refusal == Refusal::NotGranted {
        "the device was removed"
    } else {
        "nobody answered in time"
    }
}
