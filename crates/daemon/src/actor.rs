//! The one task that owns the deciders: takes an input, lets them decide, drains them in order.

use std::collections::{BTreeMap, VecDeque};

use cede_core::authority::Permission;
use cede_core::custodian::Custodian;
use cede_core::ledger::Ledger;
use cede_core::output::{Event, Output};
use cede_core::transfers::Transfers;
use cede_store::journal::{CommitError, Journal};
use cede_wire::id::{ApprovalId, DeviceId, SessionId};
use cede_wire::member::Capability;
use cede_wire::message::{ListedSession, PeerMessage};
use cede_wire::record::{PlacedSession, Record};
use tokio::sync::{mpsc, oneshot};

use crate::approvals::Approval;
use crate::arriving::Arriving;
use crate::audit::{Audit, soonest};
use crate::authorities::{Asker, Authorities};
use crate::context::Context;
use crate::errands::Errands;
use crate::leaving::Leaving;
use crate::moves::Moves;
use crate::pairing::{PairStep, Pairing};
use crate::peers::Peers;
use crate::take::{TakeQuestion, Takes};
use crate::witness::{Mark, Members, Witness};

/// Something that is done on the actor.
pub(crate) type Next = Box<dyn FnOnce(&mut Actor) + Send>;

/// What the world tells the actor.
pub(crate) enum Input {
    /// A peer said something, on that link.
    Peer(Asker, Box<PeerMessage>),
    /// A peer came in.
    CameIn(cede_carrier::link::Link),
    /// A peer was reached at an address.
    Reached(cede_carrier::link::Link, String),
    /// A link is gone; the number says which one.
    LinkDown(DeviceId, u64),
    /// Hands and people ask.
    Call(Next),
    /// Stop now.
    Stop,
}

/// Everything the daemon knows, in one place.
pub(crate) struct Actor {
    pub(crate) context: Context,
    pub(crate) custodian: Custodian,
    pub(crate) ledger: Ledger,
    /// Who waits until a letter is somewhere.
    pub(crate) watches: crate::letters::Watches,
    pub(crate) transfers: Transfers,
    pub(crate) files: crate::transfers::Files,
    /// Who of the peers looks on at terminals here.
    pub(crate) viewings: crate::terminals::viewings::Viewings,
    /// Terminals of peers that somebody here looks on at.
    pub(crate) afar: crate::terminals::afar::Afar,
    pub(crate) words: crate::letters::WordsInHand,
    pub(crate) tasks: crate::tasks::Tasks,
    pub(crate) journal: Journal,
    pub(crate) read_only: bool,
    pub(crate) name: String,
    pub(crate) peers: Peers,
    pub(crate) pairing: Pairing,
    pub(crate) placed: BTreeMap<SessionId, PlacedSession>,
    pub(crate) authorities: Authorities,
    pub(crate) audit: Audit,
    pub(crate) mirrors: crate::mirrors::MirrorDesk,
    pub(crate) moves: Moves,
    pub(crate) leaving: BTreeMap<SessionId, Leaving>,
    pub(crate) arriving: BTreeMap<SessionId, Arriving>,
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    pub(crate) approvers: cede_core::authority::approvers::Approvers,
    /// What waits here, or who may answer it, is not what the approvers were told last.
    pub(crate) questions_changed: bool,
    pub(crate) elsewhere: crate::elsewhere::Elsewheres,
    pub(crate) settled: crate::approvals::Settled,
    pub(crate) takes: Takes,
    pub(crate) listings: Vec<(DeviceId, oneshot::Sender<Vec<ListedSession>>)>,
    pub(crate) errands: Errands,
    /// When a pinned copy was last sent again.
    pub(crate) resent: BTreeMap<SessionId, std::time::Instant>,
    /// The newest listing of a peer of which an older one is being kept.
    pub(crate) unkept: BTreeMap<DeviceId, Vec<ListedSession>>,
    pub(crate) pending: VecDeque<Vec<Record>>,
    /// What goes on once all of that is durable.
    pub(crate) afterwards: VecDeque<Next>,
    pub(crate) seizes: crate::seizing::Seizes,
    pub(crate) witness: Witness,
    /// The newest mark of the journal; none where nothing can be noted outside of it.
    pub(crate) mark: Option<Mark>,
}

/// Why the daemon ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopError {
    /// The journal took nothing more: nothing after it was sent.
    #[error("the journal failed, so nothing more is done")]
    Journal(#[source] CommitError),
}

impl Actor {
    /// Takes inputs until it is told to stop.
    pub(crate) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) -> Result<(), LoopError> {
        self.drain().await?;
        self.find_branches();
        self.hold_still();
        self.lift_stale_fences();
        self.raise_missing_fences();
        self.take_up_arrivals();
        self.check_staged();
        self.forget_old_arrivals();
        self.begin_letters();
        self.begin_transfers();
        self.begin_tasks();
        self.drain().await?;
        loop {
            let custody = self.custodian.poll_timeout().map(|(at, _)| at);
            let others = [self.authorities.poll_timeout(), self.ledger.poll_timeout(), self.transfers.poll_timeout()];
            let due = others.into_iter().chain([custody]).flatten().min();
            let due = soonest(due.map(|at| self.context.clock.instant(at)), self.audit.due());
            let input = tokio::select! {
                input = inputs.recv() => input,
                () = sleep_until(due) => {
                    let now = self.context.clock.now();
                    self.custodian.handle_timeout(now);
                    self.ledger.handle_timeout(now);
                    self.authorities_timeout();
                    self.transfers.handle_timeout(now);
                    self.drain().await?;
                    continue;
                }
            };
            match input {
                None | Some(Input::Stop) => {
                    self.write_audit(true).await;
                    self.keep_mirrors_that_wait().await;
                    return Ok(());
                }
                Some(input) => self.handle(input),
            }
            self.drain().await?;
        }
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Peer(asker, message) => self.handle_peer(asker, *message),
            Input::CameIn(link) => self.came_in(link),
            Input::Reached(link, address) => self.reached(link, address),
            Input::LinkDown(device, number) => self.link_down(device, number),
            Input::Call(call) => call(self),
            Input::Stop => {}
        }
    }

    fn handle_peer(&mut self, asker: Asker, message: PeerMessage) {
        let from = asker.device;
        if !self.peers.is_member(from) || !self.authorities.stands(asker) {
            return;
        }
        match message {
            PeerMessage::Hello(_) => {}
            PeerMessage::Members(entries) => self.handle_members(from, &entries),
            PeerMessage::Need { handoff, round, of, bitmap } => {
                let need = PeerMessage::Need { handoff, round, of, bitmap: Vec::new() };
                self.custodian.handle_message(from, &need, self.context.clock.now());
                self.leaving_need(from, handoff, round, of, bitmap);
            }
            PeerMessage::Take { request, session, wait, carry_only } => {
                let question = TakeQuestion { from, request, session, wait, carry_only };
                self.handle_take(asker, question);
            }
            PeerMessage::TakeAnswer { request, answer } => {
                match &answer {
                    _ if self.takes.is_asked(from, request) => {}
                    Err(_) => self.take_withdrawn(from, request),
                    Ok(handoff) => self.refuse_what_is_not_asked_for(from, request, *handoff),
                }
                self.takes.answer(from, request, answer);
                self.end_refused_takes();
            }
            PeerMessage::SessionsQuery => self.answer_listing(asker),
            PeerMessage::Sessions(listed) => self.handle_listing(from, listed),
            PeerMessage::Letters(letters) => self.letters_came(asker, letters),
            PeerMessage::LetterReceipts(said) => {
                self.ledger.handle_receipts(from, &said, self.context.clock.now());
            }
            PeerMessage::TaskProgress { task, line } => self.task_progress(from, task, &line),
            PeerMessage::ReceiptsHeld(held) => self.ledger.handle_held(from, &held, self.context.clock.now()),
            PeerMessage::Transfer(message) => self.transfer_message(asker, &message),
            PeerMessage::Terminal(message) if message.is_from_host() => {
                self.hear_host(asker, message.viewing, message.body);
            }
            PeerMessage::Terminal(message) => self.hear_viewer(asker, message.viewing, message.body),
            PeerMessage::Audit(message) => self.mirror_message(asker, message),
            PeerMessage::Approver(message) => self.approver_message(asker, *message),
            message @ (PeerMessage::Offer { .. }
            | PeerMessage::Accept(_)
            | PeerMessage::Refuse { .. }
            | PeerMessage::Manifest(_)
            | PeerMessage::RoundComplete { .. }
            | PeerMessage::CommitAck(_)
            | PeerMessage::Release { .. }
            | PeerMessage::Activated(_)
            | PeerMessage::Abort { .. }
            | PeerMessage::Status { .. }
            | PeerMessage::StatusAnswer { .. }
            | PeerMessage::ReleaseQuery { .. }
            | PeerMessage::Refetch(_)
            | PeerMessage::SeizeQuery { .. }
            | PeerMessage::SeizeAnswer { .. }
            | PeerMessage::CustodyQuery(_)
            | PeerMessage::Custody(_)
            | PeerMessage::CustodyAnswer(_)) => self.custody_message(asker, message),
        }
    }

    /// A reason in the words of a peer, behind its name.
    fn said_by(&self, from: DeviceId, said: &str) -> String {
        let (said, whose) = (crate::scrutiny::detail(said), format!("{} says: ", self.device_name(from)));
        if said.is_empty() || said.starts_with(&whose) { said } else { whose + &said }
    }

    fn custody_message(&mut self, asker: Asker, mut message: PeerMessage) {
        let from = asker.device;
        if self.read_only {
            return;
        }
        if let PeerMessage::Refuse { detail, .. } = &mut message {
            *detail = self.said_by(from, detail);
        }
        if let PeerMessage::Offer { offer, .. } = &message
            && let Permission::Refused(why, by) = self.permission(asker, Capability::Handoff)
        {
            self.refuse_unverified(from, offer, (why, by));
            return;
        }
        self.custodian.handle_message(from, &message, self.context.clock.now());
        if let PeerMessage::Activated(word) = &message {
            self.resend_ended(from, word);
        }
    }

    /// Does what the deciders want, in their order. The shape of this loop is the contract of the core.
    async fn drain(&mut self) -> Result<(), LoopError> {
        self.drain_deciders().await?;
        while let Some(next) = self.afterwards.pop_front() {
            next(self);
            self.drain_deciders().await?;
        }
        // What is asked is in the record before it is shown anywhere.
        self.show_questions();
        Ok(())
    }

    /// Runs something when everything is durable that was recorded until now.
    pub(crate) fn once_durable(&mut self, next: impl FnOnce(&mut Self) + Send + 'static) {
        self.afterwards.push_back(Box::new(next));
    }

    async fn drain_deciders(&mut self) -> Result<(), LoopError> {
        self.commit_pending().await?;
        while let Some(output) = self.custodian.poll() {
            match output {
                Output::Persist(batch) => self.commit(batch).await?,
                Output::Send(to, message) => self.send(to, *message),
                Output::Tell(event) => self.tell(event),
                Output::Wake(..) => {}
            }
            self.commit_pending().await?;
        }
        self.drain_letters().await?;
        while let Some(batch) = self.drain_transfers() {
            self.commit(batch).await?;
            self.commit_pending().await?;
        }
        self.end_closed_tasks();
        while let Some(step) = self.drain_pairing() {
            if let PairStep::Persist(batch) = step {
                self.commit(batch).await?;
            }
            self.commit_pending().await?;
        }
        // What was noted with the last of it.
        self.commit_pending().await
    }

    async fn commit_pending(&mut self) -> Result<(), LoopError> {
        self.write_audit(false).await;
        while let Some(batch) = self.pending.pop_front() {
            if !self.read_only {
                self.commit(batch).await?;
            }
        }
        Ok(())
    }

    /// With each record of custody the store is marked; outside of it that is noted once the batch is durable.
    pub(crate) async fn commit(&mut self, mut batch: Vec<Record>) -> Result<(), LoopError> {
        let mark = self.mark.filter(|_| batch.iter().any(decides)).and_then(|mark| self.witness.next(Some(mark)));
        batch.extend(mark.map(Mark::record));
        self.make_durable(batch).await?;
        if let Some(mark) = mark {
            self.mark = Some(mark);
            let (witness, members) = (self.witness.clone(), Members::of(self.peers.log.as_ref()));
            tokio::task::spawn_blocking(move || witness.note(mark, members));
        }
        Ok(())
    }

    async fn make_durable(&mut self, batch: Vec<Record>) -> Result<(), LoopError> {
        let (done, durable) = oneshot::channel();
        self.journal.submit(batch, move |result| {
            // The loop waits for it, or the daemon is gone.
            let _ = done.send(result);
        });
        match durable.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(LoopError::Journal(error)),
            Err(_) => Err(LoopError::Journal(CommitError::Stopped)),
        }
    }

    /// Makes facts durable before the next input is taken.
    pub(crate) fn record(&mut self, record: Record) {
        self.pending.push_back(vec![record]);
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::AskOperator(offer) => self.consider_offer(*offer),
            Event::Withdrawn { handoff, refusal } => self.withdraw_question(handoff, refusal),
            Event::Reaccept { session, .. } => self.reaccept(session),
            Event::Fetch(manifest) => self.fetch(*manifest),
            Event::Discard { session, handoff, refusal } => self.discard(session, handoff, refusal),
            Event::Activate { session, handoff, source, .. } => self.activate(session, handoff, source),
            Event::Refetch { session, handoff, source } => self.refetch(session, handoff, source),
            Event::Accepted(accept) => self.leaving_accepted(*accept),
            Event::RoundComplete { session, round, .. } => self.leaving_round_complete(session, round),
            Event::Freeze { session, to, .. } => self.leaving_freeze(session, to),
            Event::AckHeld { session, handoff } => self.leaving_ack_held(session, handoff),
            Event::Released { session, .. } => self.leaving_released(session),
            Event::StillOwner { session, handoff, refusal, detail } => {
                self.leaving_over(session, handoff, refusal, detail);
            }
            Event::Retired { session, handoff } => {
                self.leaving_retired(session, handoff);
                self.pass_letters_on();
            }
            Event::Resend(accept) => self.resend(*accept),
            Event::Seized { session, by, token, head } => {
                self.seized(session, by, token, head);
                self.pass_letters_on();
            }
            Event::OfferLost { session, handoff } => self.leaving_over(
                session,
                handoff,
                cede_wire::refusal::Refusal::StaleToken,
                "another device seized the session".to_owned(),
            ),
            Event::SeizedHere { session, from, head, staged, .. } => self.seized_here(session, from, head, staged),
            Event::NotSeized { session, refusal, answers, silent } => {
                self.seize_refused(session, refusal, &answers, &silent);
            }
            Event::Contested { session, by } => {
                tracing::error!(session = %session.short(), by = %by.short(), "two devices hold the session");
                self.hold_still();
            }
            Event::Doubted(why) => {
                tracing::error!(why = crate::doubts::in_words(why), "this device acts for no session");
                self.hold_still();
                self.end_tasks_of_sessions();
                self.doubt_letters();
            }
            Event::Confirmed { .. } => self.confirmed(),
            Event::PeerFault { device, what } => {
                tracing::warn!(peer = %device.short(), what, "a peer broke a rule");
                self.close_link(device, cede_carrier::closing::CloseReason::Protocol);
            }
        }
    }

    pub(crate) fn device_name(&self, device: DeviceId) -> String {
        if device == self.context.local.device() {
            return self.name.clone();
        }
        let former = || self.peers.former_name(device).map(|name| format!("{name} (removed)"));
        self.peers.name(device).or_else(former).unwrap_or_else(|| device.short())
    }
}

/// Whether a record must not be forgotten by a store that is put back.
fn decides(record: &Record) -> bool {
    matches!(record, Record::Custody(_) | Record::Voted { .. } | Record::Contested(_) | Record::Member(_))
}

async fn sleep_until(due: Option<std::time::Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => core::future::pending().await,
    }
}
