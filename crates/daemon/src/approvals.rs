//! The questions that wait for this device's operator. Only a yes is a yes; time is a no.

use std::path::PathBuf;
use std::time::Instant;

use cede_seal::verify::Verified;
use cede_wire::control::{Answer, ApprovalSummary, Failure, exit};
use cede_wire::handoff::{Offer, Scope};
use cede_wire::id::{ApprovalId, DeviceId, HandoffId};
use cede_wire::refusal::Refusal;
use cede_wire::session::AgentKind;

use crate::actor::Actor;
use crate::arriving::ArrivalPlan;
use crate::clock::random;
use crate::limits;
use crate::offering::failure;
use crate::take::TakeQuestion;

/// A question.
pub(crate) struct Approval {
    pub(crate) device: DeviceId,
    pub(crate) asked: Instant,
    pub(crate) question: Question,
    /// Ends with the question: a peer that asks and withdraws leaves nothing behind.
    _expiry: Expiry,
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
    Receive { plan: Box<ArrivalPlan>, scope: Box<Scope> },
    /// A session would leave.
    Give(TakeQuestion),
}

impl Approval {
    /// The question, where a session would leave.
    pub(crate) fn gives(&self) -> Option<&TakeQuestion> {
        match &self.question {
            Question::Give(question) => Some(question),
            Question::Receive { .. } => None,
        }
    }
}

impl Actor {
    pub(crate) fn ask_to_receive(&mut self, offer: &Verified<Offer>, plan: ArrivalPlan) {
        let (session, handoff) = (plan.key.id(), plan.handoff);
        let question = Question::Receive { plan: Box::new(plan), scope: Box::new(offer.scope.clone()) };
        if let Err(refusal) = self.ask_operator(offer.source, question) {
            let detail = "too many questions wait for the operator here";
            self.custodian.decline(session, handoff, refusal, detail);
            self.end_arriving(session, refusal, detail);
        }
    }

    pub(crate) fn ask_to_give(&mut self, question: TakeQuestion) {
        if let Err(refusal) = self.ask_operator(question.from, Question::Give(question)) {
            self.refuse_take(question, refusal, "too many questions wait for the operator there");
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
            tokio::time::sleep(limits::APPROVAL).await;
            context.tell(move |actor| actor.settle(id, Err(Refusal::Expired))).await;
        });
        let _expiry = Expiry(expiry.abort_handle());
        self.approvals.insert(id, Approval { device, asked: Instant::now(), question, _expiry });
        Ok(())
    }

    /// Answers a question by a prefix of its id.
    pub(crate) fn decide_approval(&mut self, prefix: &str, yes: bool) -> Result<Answer, Failure> {
        let matching: Vec<ApprovalId> = self
            .approvals
            .keys()
            .copied()
            .filter(|id| !prefix.is_empty() && id.to_string().starts_with(prefix))
            .collect();
        match matching.as_slice() {
            [id] => {
                self.settle(*id, if yes { Ok(()) } else { Err(Refusal::Declined) });
                let text = if yes { "allowed" } else { "denied; nothing was written" };
                Ok(Answer::Said { text: text.to_owned() })
            }
            [] => Err(failure(exit::FAILED, "nothing was answered", "no such question waits", "cede approvals")),
            _ => {
                Err(failure(exit::USAGE, "nothing was answered", "several questions begin like that", "cede approvals"))
            }
        }
    }

    fn settle(&mut self, id: ApprovalId, verdict: Result<(), Refusal>) {
        let Some(approval) = self.approvals.remove(&id) else { return };
        match (approval.question, verdict) {
            (Question::Receive { plan, .. }, Ok(())) => self.approve_arrival(*plan),
            (Question::Receive { plan, .. }, Err(refusal)) => {
                let (session, detail) = (plan.key.id(), said(refusal));
                self.custodian.decline(session, plan.handoff, refusal, detail);
                self.end_arriving(session, refusal, detail);
            }
            (Question::Give(question), Ok(())) => self.give(question),
            (Question::Give(question), Err(refusal)) => self.refuse_take(question, refusal, said(refusal)),
        }
    }

    /// The offer was withdrawn while its question waited.
    pub(crate) fn withdraw_question(&mut self, handoff: HandoffId, refusal: Refusal) {
        let session = self.approvals.values().find_map(|approval| match &approval.question {
            Question::Receive { plan, .. } if plan.handoff == handoff => Some(plan.key.id()),
            Question::Receive { .. } | Question::Give(_) => None,
        });
        self.approvals.retain(
            |_, approval| !matches!(&approval.question, Question::Receive { plan, .. } if plan.handoff == handoff),
        );
        if let Some(session) = session {
            self.end_arriving(session, refusal, "the offer was withdrawn");
        }
    }

    pub(crate) fn approval_summaries(&self) -> Vec<ApprovalSummary> {
        self.approvals.iter().map(|(id, approval)| self.approval_summary(*id, approval)).collect()
    }

    fn approval_summary(&self, id: ApprovalId, approval: &Approval) -> ApprovalSummary {
        let left = limits::APPROVAL.saturating_sub(approval.asked.elapsed()).as_secs();
        let none = Scope {
            inventory: Vec::new(),
            limit_bytes: 0,
            limit_entries: 0,
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
        };
        let (kind, title, agent, directory, scope) = match &approval.question {
            Question::Receive { plan, scope } => {
                ("receive", plan.title.clone(), plan.key.agent, plan.target.clone(), (**scope).clone())
            }
            Question::Give(question) => {
                let placed = self.placed.get(&question.session);
                let title = placed.map_or_else(|| question.session.short(), |placed| placed.title.clone());
                let directory = placed.map_or_else(PathBuf::new, |p| crate::sessions::path_of(&p.directory));
                ("give", title, placed.map_or(AgentKind::Files, |p| p.key.agent), directory, none)
            }
        };
        ApprovalSummary {
            id,
            device: self.device_name(approval.device),
            kind: kind.to_owned(),
            title,
            agent,
            directory: directory.display().to_string(),
            inventory: scope.inventory,
            executables: scope.executables,
            dotfiles: scope.dotfiles,
            configuration_as_code: scope.configuration_as_code,
            limit_bytes: scope.limit_bytes,
            expires_in_s: left,
        }
    }
}

fn said(refusal: Refusal) -> &'static str {
    if refusal == Refusal::Declined { "the operator there said no" } else { "nobody answered in time" }
}
