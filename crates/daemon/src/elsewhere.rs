//! Questions of other devices whose operator lets the person here answer. Source: SPEC U-14 to U-16.
//!
//! Nothing here decides: the answer is signed, recorded, and sent to the device that asks, which says whether it took it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cede_wire::approver::{AnswerTaken, ApproverAnswer, ApproverMessage, Posed};
use cede_wire::control::{Answer, ApprovalSummary, Failure, exit};
use cede_wire::id::{ApprovalId, DeviceId, Hash, ShowingId};
use cede_wire::refusal::Refusal;

use crate::actor::Actor;
use crate::approvers::answered;
use crate::authorities::Asker;
use crate::control::Replies;
use crate::limits::{ANSWER_TAKEN, ELSEWHERE_BYTES, ELSEWHERE_LIFE, ELSEWHERE_PER_DEVICE};
use crate::offering::failure;

/// A question that waits at another device.
pub(crate) struct Elsewhere {
    /// The link that it was shown on: it goes with it.
    asker: Asker,
    showing: ShowingId,
    posed: Posed,
    bytes: usize,
    shown: Hash,
    /// Since when the question waits here, however often it was shown.
    since: Instant,
    expires: Instant,
    answer: Option<Given>,
}

/// The answer that was given here.
struct Given {
    yes: bool,
    /// Who waits to hear what became of it.
    replies: Option<Replies>,
}

/// The questions that wait at other devices, by the id under which they are answered here: the beginning of the hash of what is
/// shown, so that no device chooses it.
pub(crate) type Elsewheres = BTreeMap<ApprovalId, Elsewhere>;

impl Actor {
    pub(crate) fn approver_message(&mut self, asker: Asker, message: ApproverMessage) {
        match message {
            ApproverMessage::Ask { showing, expires_in_ms, posed } => {
                self.asked_elsewhere(asker, showing, expires_in_ms, &posed);
            }
            ApproverMessage::Answer(answer) => self.approver_answered(asker.device, &answer),
            ApproverMessage::Heard { showing, outcome } => self.heard_elsewhere(asker.device, showing, outcome),
            ApproverMessage::Over { showing } => {
                let is_it = |one: &Elsewhere| one.asker.device == asker.device && one.showing == showing;
                // Whoever answered hears by a word of its own what became of the answer.
                let over = self.elsewhere.iter().filter(|(_, one)| is_it(one) && one.answer.is_none());
                let over: Vec<ApprovalId> = over.map(|(id, _)| *id).collect();
                for id in over {
                    self.elsewhere.remove(&id);
                    let how = format!("it was decided at {}, or is over there", self.device_name(asker.device));
                    self.settled.note(id, how);
                }
            }
        }
    }

    fn asked_elsewhere(&mut self, asker: Asker, showing: ShowingId, expires_in_ms: u64, bytes: &[u8]) {
        let posed = match Posed::from_bytes(bytes) {
            Ok(posed) => posed,
            Err(error) => {
                tracing::warn!(peer = %asker.device.short(), %error, "a question that cannot be shown here");
                return;
            }
        };
        let me = self.context.local.device();
        if posed.at != asker.device || posed.who == me {
            tracing::warn!(peer = %asker.device.short(), "a question that is not for this device to answer");
            return;
        }
        let now = Instant::now();
        let (at, question) = (posed.at, posed.question);
        let same = |one: &&Elsewhere| (one.posed.at, one.posed.question) == (at, question);
        let since = self.elsewhere.values().find(same).map_or(now, |one| one.since);
        self.end_what_gave_way(now, (at, question));
        let theirs = || self.elsewhere.values().filter(|one| one.posed.at == at);
        let held: usize = theirs().map(|one| one.bytes).sum();
        if theirs().count() >= ELSEWHERE_PER_DEVICE || held + bytes.len() > ELSEWHERE_BYTES {
            tracing::warn!(peer = %at.short(), "too many questions of one device wait here");
            return;
        }
        let shown = Posed::hash_of(bytes);
        let mut id = [0; 8];
        id.copy_from_slice(&shown.as_bytes()[..8]);
        let expires = now + Duration::from_millis(expires_in_ms).min(ELSEWHERE_LIFE);
        tracing::info!(peer = %at.short(), "a question of another device waits: cede approvals");
        let one = Elsewhere { asker, showing, posed, bytes: bytes.len(), shown, since, expires, answer: None };
        self.elsewhere.insert(ApprovalId::new(id), one);
        self.context.notices.asked();
    }

    /// Of a question of another device that waits for an answer here: which it is there, and since when it waits here.
    pub(crate) fn waits_elsewhere(&self, id: ApprovalId) -> Option<((DeviceId, ApprovalId), Instant)> {
        let one = self.elsewhere.get(&id).filter(|one| one.expires > Instant::now() && one.answer.is_none())?;
        Some(((one.posed.at, one.posed.question), one.since))
    }

    /// Ends what is over, and what is shown anew. Whoever answered it hears that: the answer is to nothing that is asked there now.
    fn end_what_gave_way(&mut self, now: Instant, anew: (DeviceId, ApprovalId)) {
        let is_anew = |one: &Elsewhere| (one.posed.at, one.posed.question) == anew;
        let gone = self.elsewhere.iter().filter(|(_, one)| one.expires <= now || is_anew(one));
        let gone: Vec<(ApprovalId, bool)> = gone.map(|(id, one)| (*id, is_anew(one))).collect();
        for (id, is_anew) in gone {
            let why = if is_anew {
                "it is another question by now, or shown on another connection"
            } else {
                "its time is over"
            };
            self.end_elsewhere(id, Err(unanswered(why, "cede approvals")));
        }
    }

    /// The questions of other devices that wait for an answer here.
    pub(crate) fn elsewhere_summaries(&self) -> impl Iterator<Item = (ApprovalSummary, usize)> {
        let now = Instant::now();
        let waits = move |(_, one): &(&ApprovalId, &Elsewhere)| one.expires > now && one.answer.is_none();
        self.elsewhere.iter().filter(waits).map(move |(id, one)| {
            let left = one.expires.saturating_duration_since(now).as_secs();
            (self.seen(one.posed.clone(), *id, left), one.bytes)
        })
    }

    /// Signs the answer, records it, sends it, and waits for the word of the device that asks.
    pub(crate) fn answer_elsewhere(&mut self, id: ApprovalId, yes: bool, replies: Replies) {
        let Some(one) = self.elsewhere.get_mut(&id).filter(|one| one.expires > Instant::now()) else {
            return replies.failed(unanswered("no such question waits", "cede approvals"));
        };
        if one.answer.is_some() {
            let failed = unanswered(
                "it was answered here, and the other device has not said what became of that",
                "cede approvals",
            );
            return replies.failed(Failure { exit: exit::PENDING, ..failed });
        }
        let (by, at) = (self.context.local.device(), one.posed.at);
        let answer =
            ApproverAnswer { by, at, question: one.posed.question, showing: one.showing, shown: one.shown, yes };
        // It names this device as its signer, so it is signed.
        let Ok(signed) = self.context.local.sign(&answer) else {
            return replies.failed(unanswered("the answer could not be signed", "cede doctor"));
        };
        let event = answered(&one.posed, &signed);
        one.answer = Some(Given { yes, replies: Some(replies) });
        self.audit.note(event.clone());
        self.once_durable(move |actor| {
            if actor.audit.is_broken() {
                actor.audit.take_back(&event);
                let failed = unanswered("the answer cannot be recorded here", "cede doctor");
                return actor.end_elsewhere(id, Err(failed));
            }
            actor.say_to_approver(at, ApproverMessage::Answer(signed));
            actor.wait_for_word(id);
        });
    }

    fn wait_for_word(&mut self, id: ApprovalId) {
        let context = self.context.clone();
        tokio::spawn(async move {
            tokio::time::sleep(ANSWER_TAKEN).await;
            context
                .tell(move |actor| {
                    let Some(one) = actor.elsewhere.get_mut(&id) else { return };
                    let (at, given) = (one.posed.at, one.answer.as_mut().and_then(|given| given.replies.take()));
                    if let Some(replies) = given {
                        let why = format!("{} has not said whether it took the answer", actor.device_name(at));
                        let failed = failure(exit::PENDING, "the answer is on its way", &why, "cede approvals");
                        replies.failed(failed);
                    }
                })
                .await;
        });
    }

    fn heard_elsewhere(&mut self, from: DeviceId, showing: ShowingId, outcome: AnswerTaken) {
        let is_it = |one: &Elsewhere| one.asker.device == from && one.showing == showing;
        let Some((id, yes)) = self
            .elsewhere
            .iter()
            .find(|(_, one)| is_it(one))
            .and_then(|(id, one)| Some((*id, one.answer.as_ref()?.yes)))
        else {
            return;
        };
        let name = self.device_name(from);
        let word = if yes { "allowed" } else { "denied" };
        self.end_elsewhere(
            id,
            match outcome {
                AnswerTaken::Taken => Ok(Answer::Said { text: format!("{word}; {name} took the answer") }),
                AnswerTaken::Late => {
                    let why = format!("it came too late: the question was decided at {name} or over before");
                    Err(unanswered(&why, "cede approvals"))
                }
                AnswerTaken::Refused => {
                    let why = format!(
                        "{name} did not take the answer: this device may not answer it, or it is another question now"
                    );
                    let refusal = Some(Refusal::Unauthorized);
                    Err(Failure { exit: exit::REFUSED, refusal, ..unanswered(&why, "cede approvals") })
                }
            },
        );
    }

    /// A link ended: what was shown on it is not to be answered any more.
    pub(crate) fn elsewhere_link_down(&mut self, asker: Asker) {
        let gone = self.elsewhere.iter().filter(|(_, one)| one.asker == asker);
        let gone: Vec<ApprovalId> = gone.map(|(id, _)| *id).collect();
        for id in gone {
            let why = "the connection ended before the other device said that it took the answer";
            self.end_elsewhere(id, Err(unanswered(why, "cede approvals")));
        }
    }

    fn end_elsewhere(&mut self, id: ApprovalId, result: Result<Answer, Failure>) {
        let given = self.elsewhere.remove(&id).and_then(|one| one.answer);
        if let Some(replies) = given.and_then(|given| given.replies) {
            replies.settle(result);
        }
    }
}

fn unanswered(why: &str, cure: &str) -> Failure {
    failure(exit::FAILED, "nothing was decided", why, cure)
}
