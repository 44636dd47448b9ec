//! Other devices of the operator that may answer what waits here: what is shown to them, and what they answer. Source: SPEC U-14 to
//! U-16.
//!
//! Only a command of the operator here names such a device. What it is shown is what is shown here, made by one function from
//! one encoding; its answer is held against what would be shown at the moment when it comes.

use cede_core::authority::Afar;
use cede_core::authority::approvers::{NoAnswer, Standing};
use cede_seal::verify::verify;
use cede_wire::approver::{AnswerTaken, ApproverAnswer, ApproverMessage, Posed, Wanted};
use cede_wire::audit::{AuditAct, AuditEvent, AuditOf, DecidedBy};
use cede_wire::authority::Shown;
use cede_wire::canonical::Signed;
use cede_wire::control::decisions::AskedFor;
use cede_wire::control::{Answer, ApprovalSummary, Failure, exit};
use cede_wire::handoff::Scope;
use cede_wire::id::{ApprovalId, DeviceId, Hash, ShowingId};
use cede_wire::limits::POSED_BYTES;
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;
use cede_wire::record::Record;
use cede_wire::refusal::Refusal;

use crate::actor::Actor;
use crate::approvals::{Approval, Question, here_already};
use crate::authorities::Came;
use crate::clock::random;
use crate::offering::failure;

impl Actor {
    /// The operator's word.
    pub(crate) fn set_approver(&mut self, text: &str, may: bool) -> Result<Answer, Failure> {
        let what = if may { "nobody was named" } else { "nothing changed" };
        let member = self.find_member(text)?;
        let (device, name) = (member.device(), &member.name);
        // What widens who may decide here is not done by the beginning of a name.
        if may && member.name != text && device.short() != text && device.to_string() != text {
            let why = format!("{text} is only the beginning of {name}");
            return Err(failure(exit::USAGE, what, &why, &format!("cede approvers add {name}")));
        }
        if self.approvers.may_answer(device) == may {
            let is = if may { "answers already" } else { "answers no questions of this device" };
            return Ok(Answer::Said { text: format!("{name} {is}") });
        }
        self.approvers.set(device, may);
        self.record(Record::ApproverSet { device, may });
        let act = if may { AuditAct::ApproverNamed } else { AuditAct::ApproverEnded };
        self.note_act(act, Some(device), None);
        self.questions_changed = true;
        let text = if may {
            format!("the person at {name} may answer what waits here, but for what {name} itself asks")
        } else {
            format!("{name} answers no questions of this device any more")
        };
        Ok(Answer::Said { text })
    }

    /// The devices that may answer.
    pub(crate) fn approver_list(&self) -> Answer {
        let members = self.peers.members();
        let may = members.iter().filter(|member| self.approvers.may_answer(member.device()));
        Answer::Approvers { devices: may.map(|member| self.device(member)).collect() }
    }

    /// Brings what is shown to the approvers to what waits here.
    pub(crate) fn show_questions(&mut self) {
        if !std::mem::take(&mut self.questions_changed) {
            return;
        }
        let approvals = &self.approvals;
        for (to, showing) in self.approvers.end(|question| approvals.contains_key(&question)) {
            self.say_to_approver(to, ApproverMessage::Over { showing });
        }
        let linked = |device: &DeviceId| self.peers.is_connected(*device);
        let devices: Vec<DeviceId> = self.approvers.devices().filter(linked).collect();
        if devices.is_empty() {
            return;
        }
        let questions: Vec<ApprovalId> = self.approvals.keys().copied().collect();
        for question in questions {
            let Some(posed) = self.posed(question) else { continue };
            let bytes = posed.to_bytes();
            // What is longer is answered where it waits.
            if bytes.len() > POSED_BYTES {
                continue;
            }
            let stands = Standing { who: posed.who, shown: Posed::hash_of(&bytes) };
            for device in &devices {
                self.show_question(*device, question, stands, &bytes);
            }
        }
    }

    fn show_question(&mut self, to: DeviceId, question: ApprovalId, stands: Standing, posed: &[u8]) {
        if self.approvers.shows(to, question, stands.shown) {
            return;
        }
        let Ok(showing) = random().map(ShowingId::new) else { return };
        if self.approvers.show(to, question, stands, showing).is_ok() {
            let left = self.approvals.get(&question).map_or(0, |approval| self.left_ms(approval));
            let posed = posed.to_vec();
            self.say_to_approver(to, ApproverMessage::Ask { showing, expires_in_ms: left, posed });
        }
    }

    pub(crate) fn say_to_approver(&mut self, to: DeviceId, message: ApproverMessage) {
        self.send(to, PeerMessage::Approver(Box::new(message)));
    }

    /// What was shown on a connection that ended is shown on the next one.
    pub(crate) fn approver_link_changed(&mut self, device: DeviceId) {
        if self.approvers.may_answer(device) {
            self.approvers.link_changed(device);
            self.questions_changed = true;
        }
    }

    /// A person at another device answered.
    pub(crate) fn approver_answered(&mut self, from: DeviceId, signed: &Signed<ApproverAnswer>) {
        let answer = match verify(signed) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(peer = %from.short(), %error, "an answer that nobody signed");
                return;
            }
        };
        let posed = self.posed(answer.question);
        let stands = posed.as_ref().map(|posed| Standing { who: posed.who, shown: posed.hash() });
        let me = self.context.local.device();
        let showing = answer.showing;
        // What cannot be recorded decides nothing.
        let taken = match self.approvers.handle_answer((me, from), &answer, stands) {
            Ok(_) if self.audit.is_broken() => Err(NoAnswer::Swapped),
            taken => taken,
        };
        match (taken, posed) {
            (Ok(yes), Some(posed)) => {
                self.audit.note(answered(&posed, signed));
                let question = answer.question;
                let verdict = if yes { Ok(()) } else { Err(Refusal::Declined) };
                self.once_durable(move |actor| {
                    let hear = move |actor: &mut Self, came: Came| {
                        let outcome = taken_as(yes, came);
                        actor.once_durable(move |actor| {
                            actor.say_to_approver(from, ApproverMessage::Heard { showing, outcome });
                        });
                    };
                    if actor.audit.is_broken() {
                        return hear(actor, (false, DecidedBy::Fault));
                    }
                    actor.settle_by(question, verdict, Some(Afar::Approver(from)), Box::new(hear));
                });
            }
            (Ok(_), None) => {}
            (Err(why), _) => {
                tracing::info!(peer = %from.short(), %why, "an answer of another device decides nothing");
                let outcome = why.outcome();
                self.say_to_approver(from, ApproverMessage::Heard { showing, outcome });
            }
        }
    }

    /// A question as it stands now, with everything that is shown of it.
    pub(crate) fn posed(&self, question: ApprovalId) -> Option<Posed> {
        self.approvals.get(&question).map(|approval| self.pose(question, approval))
    }

    /// Everything that is shown of a question: the one place where it is put together.
    pub(crate) fn pose(&self, question: ApprovalId, approval: &Approval) -> Posed {
        let (of, about) = approval.subject();
        let bare = Posed {
            at: self.context.local.device(),
            question,
            who: approval.device,
            of,
            about,
            wants: Wanted::Receive,
            title: String::new(),
            agent: None,
            directory: String::new(),
            turns: 0,
            inventory: Vec::new(),
            executables: Vec::new(),
            dotfiles: Vec::new(),
            configuration_as_code: Vec::new(),
            limit_bytes: 0,
            secret_looking: Vec::new(),
            files: Vec::new(),
            note: String::new(),
        };
        match &approval.question {
            Question::Receive { plan, scope, turns } => {
                let mut posed = Posed {
                    title: plan.title.clone(),
                    agent: Some(plan.key.agent),
                    directory: plan.target.display().to_string(),
                    turns: *turns,
                    limit_bytes: scope.limit_bytes,
                    ..with_lists(bare, scope)
                };
                if plan.here_already {
                    posed.inventory.insert(0, here_already());
                }
                posed
            }
            Question::Give { info, leaves, .. } => Posed {
                wants: Wanted::Give,
                title: info.title.clone(),
                agent: Some(info.key.agent),
                directory: info.directory.clone(),
                turns: info.turns,
                secret_looking: leaves.secret_looking.clone(),
                ..with_lists(bare, &leaves.scope)
            },
            Question::Capability { question, .. } => {
                let shown = &question.shown;
                let wants = Wanted::Capability { shown: Box::new(shown.clone()), held: question.held };
                let posed = Posed { wants, title: shown.subject.text().to_owned(), ..bare };
                if shown.capability == Capability::File {
                    self.with_files(posed, shown.subject.content())
                } else {
                    posed
                }
            }
        }
    }

    /// The time that a question has left, here.
    pub(crate) fn left_ms(&self, approval: &Approval) -> u64 {
        let left = match &approval.question {
            Question::Capability { question, .. } => {
                question.expires.saturating_sub(self.context.clock.now().monotonic)
            }
            Question::Receive { .. } | Question::Give { .. } => {
                self.context.question_life.saturating_sub(approval.asked.elapsed())
            }
        };
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// What a person sees of a question, here and at every approver: made from its bytes and nothing else, but for the time that
    /// is left, the id to type and the names of devices.
    pub(crate) fn seen(&self, posed: Posed, id: ApprovalId, expires_in_s: u64) -> ApprovalSummary {
        let at = (posed.at != self.context.local.device()).then(|| self.device_name(posed.at));
        let kind = posed.wants.word().to_owned();
        let asks = match posed.wants {
            Wanted::Capability { shown, held } => Some(asked_for(&shown, held)),
            Wanted::Receive | Wanted::Give => None,
        };
        ApprovalSummary {
            id,
            device: self.device_name(posed.who),
            kind,
            held: asks.as_ref().is_some_and(|asks| asks.held),
            title: posed.title,
            agent: posed.agent,
            directory: posed.directory,
            inventory: posed.inventory,
            executables: posed.executables,
            dotfiles: posed.dotfiles,
            configuration_as_code: posed.configuration_as_code,
            limit_bytes: posed.limit_bytes,
            expires_in_s,
            turns: posed.turns,
            secret_looking: posed.secret_looking,
            asks,
            files: posed.files,
            note: posed.note,
            at,
        }
    }
}

/// What the device is told that answered, by what the answer came to.
const fn taken_as(yes: bool, (allowed, by): Came) -> AnswerTaken {
    match by {
        DecidedBy::Approver(_) if yes == allowed => AnswerTaken::Taken,
        DecidedBy::Fault => AnswerTaken::Refused,
        DecidedBy::Grant
        | DecidedBy::Rule
        | DecidedBy::Operator
        | DecidedBy::Time
        | DecidedBy::Pace
        | DecidedBy::Size
        | DecidedBy::Withdrawn
        | DecidedBy::Closed
        | DecidedBy::Approver(_)
        | DecidedBy::Button => AnswerTaken::Late,
    }
}

/// The entry about an answer from another device: the same there and here.
pub(crate) fn answered(posed: &Posed, answer: &Signed<ApproverAnswer>) -> AuditEvent {
    AuditEvent::Answered { who: posed.who, of: posed.of, answer: answer.clone() }
}

pub(crate) fn asked_for(shown: &Shown, held: bool) -> AskedFor {
    let lines = shown.subject.lines().iter().map(|(name, value)| (name.clone(), value.clone()));
    AskedFor {
        capability: shown.capability,
        reach: shown.reach,
        locality: shown.locality,
        session: shown.session,
        lines: lines.collect(),
        content: shown.subject.content(),
        held,
        hash: shown.hash(),
    }
}

fn with_lists(posed: Posed, scope: &Scope) -> Posed {
    Posed {
        inventory: scope.inventory.clone(),
        executables: scope.executables.clone(),
        dotfiles: scope.dotfiles.clone(),
        configuration_as_code: scope.configuration_as_code.clone(),
        ..posed
    }
}

impl Approval {
    /// How the question is named in the record, and the hash of what it is about.
    pub(crate) fn subject(&self) -> (AuditOf, Hash) {
        match (self.moves(), &self.question) {
            (Some(of), _) => (of, self.shown),
            (None, Question::Capability { question, .. }) => (crate::approvals::recorded_as(question), question.hash),
            (None, Question::Receive { .. } | Question::Give { .. }) => (AuditOf::Many, Hash::new([0; 32])),
        }
    }
}
