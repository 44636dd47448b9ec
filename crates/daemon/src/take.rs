//! `cede take`: the owner is asked to hand a session over to this device.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use cede_agent::adapter::AgentError;
use cede_core::authority::{CapabilityRefusal, Permission};
use cede_wire::audit::{AuditOf, AuditOutcome, DecidedBy};
use cede_wire::authority::Rule;
use cede_wire::control::{Failure, MoveRequest, Phase, ReplyBody, exit};
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::member::Capability;
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;
use cede_wire::session::SessionInfo;
use tokio::sync::mpsc;

use crate::actor::Actor;
use crate::approvals::{Approval, UNRECORDED};
use crate::arriving::NOT_COME;
use crate::audit::move_decided;
use crate::authorities::Asker;
use crate::context::Context;
use crate::errands::Errand;
use crate::hearing::{Hearing, Line};
use crate::limits;
use crate::moves::Story;
use crate::offering::{Order, cancelled, exit_of, failure, not_captured, reason, stopping};
use crate::payload::{Leaves, PayloadError, Wanted};
use crate::withdrawing::withdrawal;

/// The sessions that this device asked for.
#[derive(Default)]
pub(crate) struct Takes {
    next: u64,
    asked: BTreeMap<u64, Asked>,
    expected: BTreeMap<SessionId, (DeviceId, Instant)>,
    /// Who was asked last for a session that never came here.
    owners: BTreeMap<SessionId, DeviceId>,
    refused: Vec<(SessionId, Refusal, String)>,
    /// Questions of peers whose session is being looked up or counted.
    looking: Vec<TakeQuestion>,
    /// What was asked and is not wanted any more, the newest last.
    withdrawn: VecDeque<(DeviceId, u64)>,
}

/// A question to the owner.
#[derive(Debug, Clone, Copy)]
struct Asked {
    owner: DeviceId,
    session: SessionId,
    wait: bool,
    carry_only: bool,
    /// The owner has offered the session; why that came to nothing it may still say.
    offered: bool,
}

impl Takes {
    /// Whether the operator here asked this device for this session: that is the yes to its offer, and to one offer only.
    pub(crate) fn use_expected(&mut self, session: SessionId, from: DeviceId) -> bool {
        let Some((owner, asked)) = self.expected.get(&session) else { return false };
        let expected = *owner == from && asked.elapsed() < limits::EXPECTED_TAKE;
        if expected {
            self.expected.remove(&session);
        }
        expected
    }

    /// Whether something is asked of this device.
    pub(crate) fn asks(&self, device: DeviceId) -> bool {
        self.asked.values().any(|asked| asked.owner == device)
    }

    /// The owner may not hear of it now: it is told again when a link comes up.
    pub(crate) fn withdrawn(&mut self, owner: DeviceId, request: u64) {
        self.withdrawn.push_back((owner, request));
        if self.withdrawn.len() > limits::WITHDRAWN_TAKES {
            self.withdrawn.pop_front();
        }
    }

    pub(crate) fn was_withdrawn(&self, owner: DeviceId, request: u64) -> bool {
        self.withdrawn.contains(&(owner, request))
    }

    pub(crate) fn waits_for(&self, device: DeviceId) -> bool {
        self.asked.values().any(|asked| asked.owner == device && !asked.offered)
    }

    /// The questions to this device that have no answer yet.
    fn open_to(&self, device: DeviceId) -> Vec<PeerMessage> {
        let open = self.asked.iter().filter(|(_, asked)| asked.owner == device && !asked.offered);
        open.map(|(request, asked)| asked.message(*request)).collect()
    }

    /// The owner of a session that this device knows only from asking for it.
    pub(crate) fn owner(&self, session: SessionId) -> Option<DeviceId> {
        self.owners.get(&session).copied()
    }

    /// The session is here, or will not come. Whom it was asked of, with which question.
    pub(crate) fn done(&mut self, session: SessionId) -> Option<(DeviceId, u64)> {
        self.owners.remove(&session);
        self.expected.remove(&session);
        let (request, owner) = self.of(session).map(|(request, asked)| (request, asked.owner))?;
        self.asked.remove(&request);
        Some((owner, request))
    }

    /// The question about a session: there is one at most.
    fn of(&self, session: SessionId) -> Option<(u64, Asked)> {
        self.asked.iter().find(|(_, asked)| asked.session == session).map(|(request, asked)| (*request, *asked))
    }

    pub(crate) fn is_asked_for(&self, session: SessionId) -> bool {
        self.of(session).is_some()
    }

    /// Whether this device asked that one with this question, and waits for the answer.
    pub(crate) fn is_asked(&self, owner: DeviceId, request: u64) -> bool {
        self.asked.get(&request).is_some_and(|asked| asked.owner == owner)
    }

    pub(crate) fn answer(&mut self, from: DeviceId, request: u64, answer: Result<HandoffId, (Refusal, String)>) {
        let Some(asked) = self.asked.get_mut(&request).filter(|asked| asked.owner == from) else { return };
        let session = asked.session;
        match answer {
            Ok(_) => asked.offered = true,
            Err((refusal, detail)) => {
                self.asked.remove(&request);
                self.expected.remove(&session);
                self.refused.push((session, refusal, crate::scrutiny::detail(&detail)));
            }
        }
    }

    /// Questions to devices that are no members any more get no answer.
    pub(crate) fn give_up(&mut self, member: impl Fn(DeviceId) -> bool) {
        let lost: Vec<_> =
            self.asked.iter().filter(|(_, asked)| !member(asked.owner)).map(|(id, asked)| (*id, asked.owner)).collect();
        for (request, owner) in lost {
            self.answer(owner, request, Err((Refusal::NotGranted, "the device was removed".to_owned())));
        }
    }

    /// Nothing is looked up or counted for devices that are no members any more.
    pub(crate) fn forget(&mut self, member: impl Fn(DeviceId) -> bool) {
        self.looking.retain(|question| member(question.from));
        self.withdrawn.retain(|(owner, _)| member(*owner));
    }

    /// What was looked up or counted for a question is here. False: nobody wants it any more.
    fn looked(&mut self, question: TakeQuestion) -> bool {
        let before = self.looking.len();
        self.looking.retain(|other| *other != question);
        self.looking.len() < before
    }

    /// The question about a session that has no answer yet, or whose offer has not come.
    fn open(&self, session: SessionId) -> Option<(u64, Asked)> {
        let expected = self.expected.contains_key(&session);
        self.of(session).filter(|(_, asked)| !asked.offered || expected)
    }

    pub(crate) fn is_open(&self, session: SessionId) -> bool {
        self.open(session).is_some()
    }

    /// A new question about a session makes an earlier one that led to an offer forgotten.
    fn ask(&mut self, asked: Asked) -> u64 {
        // Unlike the numbers of any other device: a late answer must not be taken for a withdrawal.
        self.next = crate::clock::random().map_or(self.next + 1, u64::from_le_bytes);
        self.asked.retain(|_, earlier| earlier.session != asked.session);
        self.asked.insert(self.next, asked);
        self.owners.insert(asked.session, asked.owner);
        self.expected.insert(asked.session, (asked.owner, Instant::now()));
        self.next
    }
}

impl Asked {
    fn message(&self, request: u64) -> PeerMessage {
        PeerMessage::Take { request, session: self.session, wait: self.wait, carry_only: self.carry_only }
    }
}

/// How far a question to an owner has come.
enum Waiting {
    /// What its link says.
    For(Option<u64>),
    /// It was answered, led to an offer, or was given up.
    Over,
}

/// A person who waits hears soon that the owner cannot be reached, or is not heard any more, and at once when it lets this
/// device in no more. While it is heard, an answer may take its time.
async fn look_after(context: &Context, request: u64, owner: DeviceId, given_up: Instant) {
    let mut hearing = Hearing::begin(Instant::now());
    let mut line = Line::Down;
    while Instant::now() < given_up {
        tokio::time::sleep(limits::REACH_LOOK).await;
        let before = line;
        match context.ask(move |actor| actor.take_waits(request, owner, before)).await {
            Ok(Waiting::For(heard)) => line = hearing.look(heard, Instant::now()),
            Ok(Waiting::Over) | Err(_) => return,
        }
        if line == Line::Silent && before != line {
            let quiet = move |actor: &mut Actor| actor.owner_is_silent(request, owner);
            context.tell(quiet).await;
        }
    }
}

/// Counts what would leave, again where it changed while it was read or, of a session that is waited for, where its agent holds
/// it: as long as somebody wants it.
async fn count(context: &Context, question: TakeQuestion, wanted: Wanted) -> Result<Leaves, Failure> {
    let given_up = Instant::now() + context.question_life;
    loop {
        let again = wanted.clone();
        let counted = context.block(move |context| Leaves::count(context, &again)).await.map_err(stopping)?;
        let error = match counted {
            Ok(leaves) => return Ok(leaves),
            Err(error) => error,
        };
        let in_use = matches!(error, PayloadError::Agent(AgentError::Live { .. }));
        if !(error.is_passing() || question.wait && in_use) || Instant::now() >= given_up {
            return Err(not_captured(&error));
        }
        tokio::time::sleep(limits::COUNT_PAUSE).await;
        if context.ask(move |actor| actor.takes.looking.contains(&question)).await != Ok(true) {
            return Err(cancelled());
        }
    }
}

/// A peer's question for a session of this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakeQuestion {
    pub(crate) from: DeviceId,
    pub(crate) request: u64,
    pub(crate) session: SessionId,
    pub(crate) wait: bool,
    pub(crate) carry_only: bool,
}

impl Actor {
    /// Asks the owner for a session; the client watches the move.
    pub(crate) fn take(
        &mut self,
        (session, title): (SessionId, &str),
        owner: DeviceId,
        wait: bool,
        carry_only: bool,
        watcher: mpsc::Sender<ReplyBody>,
    ) {
        let story = Story::Coming(session);
        if let Some(joined) = self.joined(Asked { owner, session, wait, carry_only, offered: false }) {
            match joined {
                // The owner is asked once, and every client hears of that.
                Ok(source) => {
                    self.open_arriving(session, source, title);
                    if let Some(last) = self.moves.get(story).and_then(|view| view.timeline.last()) {
                        let _ = watcher.try_send(ReplyBody::Progress(last.clone()));
                    }
                    self.moves.watch(story, watcher);
                }
                Err(failed) => _ = watcher.try_send(ReplyBody::Failed(failed)),
            }
            return;
        }
        let request = self.takes.ask(Asked { owner, session, wait, carry_only, offered: false });
        let (from, to) = (self.device_name(owner), self.name.clone());
        self.moves.watch(story, watcher);
        self.moves.begin(story, title, &from, &to);
        self.report(story, Phase::Preparing, (0, 0), 0, &format!("asking {from}"));
        self.send(owner, PeerMessage::Take { request, session, wait, carry_only });
        self.reach_afresh(owner);
        let context = self.context.clone();
        tokio::spawn(async move {
            let given_up =
                Instant::now() + limits::EXPECTED_TAKE + if wait { limits::TURN_WAIT } else { Duration::ZERO };
            look_after(&context, request, owner, given_up).await;
            tokio::time::sleep_until(given_up.into()).await;
            context.tell(move |actor| actor.take_forgotten(request, owner)).await;
        });
    }

    /// For a client that asks for a session which was asked for already, or comes without that: from where it comes, or why
    /// nobody can wait for it now.
    fn joined(&self, wanted: Asked) -> Option<Result<DeviceId, Failure>> {
        let (session, what) = (wanted.session, "the session was not asked for");
        if let Some((_, open)) = self.takes.open(session) {
            let same = (open.owner, open.wait, open.carry_only) == (wanted.owner, wanted.wait, wanted.carry_only);
            let why = format!("{} has been asked for it already, with other options", self.device_name(open.owner));
            let cure = format!("cede cancel {}, then repeat the command", session.short());
            return Some(if same { Ok(open.owner) } else { Err(failure(exit::FAILED, what, &why, &cure)) });
        }
        let waits = |question: &&Approval| {
            matches!(question.moves(), Some(AuditOf::Handoff(handoff))
            if self.custodian.asked(session).is_some_and(|offer| offer.handoff == handoff))
        };
        if let Some((id, _)) = self.approvals.iter().find(|(_, question)| waits(question)) {
            let why = "its owner offers it already, and that waits for your answer";
            return Some(Err(failure(exit::PENDING, what, why, &format!("cede allow {id}"))));
        }
        let source = self.coming_from(session)?;
        if self.peers.is_connected(source) {
            return Some(Ok(source));
        }
        let name = self.device_name(source);
        let why = format!("it is on its way from {name} already, which is not connected; that goes on when it is back");
        let cure = format!("start {name}, or withdraw it: cede cancel {}", session.short());
        Some(Err(failure(exit::PENDING, what, &why, &cure)))
    }

    /// The owner answers, but neither with an offer nor with a no: the client does not wait for ever.
    fn take_forgotten(&mut self, request: u64, owner: DeviceId) {
        if self.waits_for_offer(request) {
            let why = "the owner did not hand it over in time".to_owned();
            self.takes.answer(owner, request, Err((Refusal::TimedOut, why)));
            self.end_refused_takes();
        }
    }

    /// Whether this question has no answer, or its offer has not come.
    fn waits_for_offer(&self, request: u64) -> bool {
        let Some(asked) = self.takes.asked.get(&request) else { return false };
        self.takes.is_open(asked.session) && self.coming_from(asked.session).is_none()
    }

    /// The owner may have lost the question, or its answer may have been lost: asks again. Source: SPEC H-16.
    pub(crate) fn repeat_takes(&mut self, owner: DeviceId) {
        let withdrawn = self.takes.withdrawn.iter().filter(|(device, _)| *device == owner);
        let withdrawn: Vec<_> = withdrawn.map(|(_, request)| withdrawal(*request)).collect();
        for message in withdrawn.into_iter().chain(self.takes.open_to(owner)) {
            self.send(owner, message);
        }
    }

    /// Whether the question still waits for an answer of its owner. One that could not be reached in time, or does not let
    /// this device in any more, gives none.
    fn take_waits(&mut self, request: u64, owner: DeviceId, line: Line) -> Waiting {
        if !self.waits_for_offer(request) {
            return Waiting::Over;
        }
        let heard = self.peers.heard(owner);
        if heard.is_some() || line != Line::Lost && !self.peers.turns_us_away(owner) {
            return Waiting::For(heard);
        }
        let (refusal, trouble) = self.peers.trouble(owner);
        let why = format!("the owner cannot be reached ({trouble}); the session stays with it");
        self.takes.answer(owner, request, Err((refusal, why)));
        self.end_refused_takes();
        Waiting::Over
    }

    fn owner_is_silent(&mut self, request: u64, owner: DeviceId) {
        let Some(session) = self.takes.asked.get(&request).map(|asked| asked.session) else { return };
        let name = self.device_name(owner);
        let note = format!("nothing comes from {name} any more; where it stays away this ends");
        self.report(Story::Coming(session), Phase::Preparing, (0, 0), 0, &note);
    }

    /// Tells the clients of takes that were refused.
    pub(crate) fn end_refused_takes(&mut self) {
        for (session, refusal, detail) in std::mem::take(&mut self.takes.refused) {
            if refusal == Refusal::Busy && self.coming_from(session).is_some() {
                // The owner hands it over here by its own will: how that ends is what the client waits for.
                let note = "it is on its way already; if a question about it waits here: cede approvals";
                self.report(Story::Coming(session), Phase::Preparing, (0, 0), 0, note);
                continue;
            }
            let why = reason(refusal, &detail);
            let full = refusal == Refusal::TooLarge;
            let away = self.custodian.owner(session).is_some_and(|owner| !self.peers.is_connected(owner));
            let cure = match crate::leaving::cure_of(refusal, &self.name) {
                _ if full => "free space here".to_owned(),
                cure if away && refusal == Refusal::TimedOut => {
                    format!("{cure}; if it is gone for good: cede take --force {}", session.short())
                }
                cure => cure,
            };
            self.end_not_come(session, (refusal, &detail), failure(exit_of(refusal), NOT_COME, &why, &cure));
        }
    }

    /// A peer asks for a session of this device.
    pub(crate) fn handle_take(&mut self, asker: Asker, question: TakeQuestion) {
        let session = question.session;
        if self.is_asked(question) {
            return;
        }
        if let Permission::Refused(why, by) = self.permission(asker, Capability::Handoff) {
            let fault = by == DecidedBy::Fault;
            let (refusal, detail) = if fault { (Refusal::Busy, UNRECORDED) } else { (why.refusal(), unasked(why)) };
            self.refuse_take(question, refusal, detail);
        } else if !self.is_here(session) || self.read_only {
            let owner = self.in_charge(session);
            // Who asks the wrong device learns from its records who is in charge.
            self.custodian.send_custody(question.from, question.session);
            self.refuse_take(question, Refusal::NotOwner, &format!("the session is not in charge here but at {owner}"));
        } else {
            self.find_for(question, None);
        }
    }

    /// Whether this very question waits for the operator, or is being answered by a move.
    fn is_asked(&self, question: TakeQuestion) -> bool {
        let answered = self.leaving.get(&question.session).is_some_and(|leaving| leaving.answers(question));
        let same = |other: &TakeQuestion| (other.from, other.request) == (question.from, question.request);
        let looked_up = self.takes.looking.iter().any(same);
        answered || looked_up || self.approvals.values().any(|approval| approval.gives().is_some_and(same))
    }

    /// A peer does not want the session any more that it asked for: its question goes, or the move that answers it.
    pub(crate) fn take_withdrawn(&mut self, from: DeviceId, request: u64) {
        let asked = |question: &TakeQuestion| (question.from, question.request) == (from, request);
        self.takes.looking.retain(|question| !asked(question));
        self.take_back_moves(|approval| approval.gives().is_some_and(asked));
        let answered = |leaving: &crate::leaving::Leaving| leaving.is_for(from, request);
        let session = self.leaving.iter().find(|(_, leaving)| answered(leaving)).map(|(session, _)| *session);
        if let Some(session) = session {
            self.withdraw_going(session, "the device that asked for it withdrew");
        }
    }

    pub(crate) fn refuse_take(&mut self, question: TakeQuestion, refusal: Refusal, detail: &str) {
        let answer = Err((refusal, detail.to_owned()));
        self.send(question.from, PeerMessage::TakeAnswer { request: question.request, answer });
    }

    /// Looks the session up: a person is asked about one that is here, and by its name. `allowed`: the person said yes to this.
    pub(crate) fn find_for(&mut self, question: TakeQuestion, allowed: Option<Box<Leaves>>) {
        let asks = allowed.is_none();
        if asks && !self.errands.begin(question.from, Errand::FindSession) {
            return self.refuse_take(question, Refusal::Busy, "too many questions at once");
        }
        self.takes.looking.push(question);
        let context = self.context.clone();
        let key = self.key_of(question.session);
        tokio::spawn(async move {
            // That it stops is heard below.
            let _waited = crate::offering::until_in_place(&context, question.session).await;
            let found = context.block(move |context| crate::sessions::find(context, question.session, key)).await;
            context
                .tell(move |actor| {
                    if asks {
                        actor.errands.end(question.from, Errand::FindSession);
                    }
                    actor.found_for(question, found.ok().flatten(), allowed);
                })
                .await;
        });
    }

    fn found_for(&mut self, question: TakeQuestion, found: Option<SessionInfo>, allowed: Option<Box<Leaves>>) {
        if !self.takes.looked(question) {
            // It was withdrawn meanwhile.
            if allowed.is_some() {
                self.not_given(question);
            }
            return;
        }
        match (found, allowed) {
            (None, Some(_)) => {
                self.not_given(question);
                self.refuse_take(question, Refusal::NotOwner, "no such session here");
            }
            (None, None) => self.refuse_take(question, Refusal::NotOwner, "no such session here"),
            (Some(info), Some(shown)) => self.give(question, info, Some(shown)),
            (Some(info), None) if self.rule(question.from, Capability::Handoff) == Some(Rule::Accept) => {
                let of = AuditOf::Take(question.session, question.request);
                let decided = move_decided(question.from, of, (true, DecidedBy::Rule), None);
                self.once_recorded(decided, move |actor, stands| match stands {
                    true => actor.give(question, info, None),
                    false => actor.refuse_take(question, Refusal::Busy, UNRECORDED),
                });
            }
            (Some(info), None) => self.count_leaving(question, info),
        }
    }

    /// Counts everything that would leave: nobody is asked about what nobody can be shown.
    fn count_leaving(&mut self, question: TakeQuestion, info: SessionInfo) {
        if !self.errands.begin(question.from, Errand::CountSession) {
            return self.refuse_take(question, Refusal::Busy, "too many questions at once");
        }
        self.takes.looking.push(question);
        let (context, wanted) = (self.context.clone(), Wanted::all_of(&info));
        tokio::spawn(async move {
            let leaves = count(&context, question, wanted).await;
            context
                .tell(move |actor| {
                    actor.errands.end(question.from, Errand::CountSession);
                    actor.counted(question, info, leaves);
                })
                .await;
        });
    }

    fn counted(&mut self, question: TakeQuestion, info: SessionInfo, leaves: Result<Leaves, Failure>) {
        if !self.takes.looked(question) {
            return;
        }
        match leaves {
            Err(failed) => self.answer_take(question.from, Some(question.request), &failed),
            Ok(_) if self.rule(question.from, Capability::Handoff) == Some(Rule::Refuse) => {
                self.refuse_take(question, Refusal::Declined, unasked(CapabilityRefusal::Declined));
            }
            Ok(leaves) => self.ask_to_give(question, info, leaves),
        }
    }

    /// The yes to a take came to nothing.
    fn not_given(&mut self, question: TakeQuestion) {
        let of = AuditOf::Take(question.session, question.request);
        self.came_of(question.from, of, Capability::Handoff, AuditOutcome::Failed);
    }

    /// The yes to a take: an ordinary move to the peer that asked, with no more than was shown.
    fn give(&mut self, question: TakeQuestion, info: SessionInfo, shown: Option<Box<Leaves>>) {
        // What goes back to a device where it was needs no second yes.
        let back = self.custodian.chain(question.session).is_some_and(|c| c.owned_by(question.from));
        let destination_name = self.device_name(question.from);
        let request = MoveRequest {
            device: destination_name.clone(),
            wait: question.wait,
            carry_only: question.carry_only,
            confirm_large: back,
            confirm_secrets: back,
            ..MoveRequest::default()
        };
        let (destination, take) = (question.from, Some(question.request));
        let order = Order { info, destination, destination_name, request, take, shown };
        if let Err(failed) = self.start_leaving(order) {
            self.not_given(question);
            self.refuse_take(question, Refusal::Busy, &failed.why);
        }
    }

    /// A move that began with a take ended before its offer: the asker hears why.
    pub(crate) fn answer_take(&mut self, to: DeviceId, take: Option<u64>, failed: &Failure) {
        if let Some(request) = take {
            let refusal = failed.refusal.unwrap_or(Refusal::Cancelled);
            let cure = if failed.cure.is_empty() { String::new() } else { format!(" (there: {})", failed.cure) };
            let answer = Err((refusal, format!("{}{cure}", failed.why)));
            self.send(to, PeerMessage::TakeAnswer { request, answer });
        }
    }
}

/// Why a peer may not ask for sessions, in words for it.
fn unasked(why: CapabilityRefusal) -> &'static str {
    match why {
        CapabilityRefusal::NotGranted => "this device was not given the right to ask for sessions",
        CapabilityRefusal::NoApprover => "nobody can be asked there",
        CapabilityRefusal::Declined => "the operator there gives this device no sessions",
    }
}
