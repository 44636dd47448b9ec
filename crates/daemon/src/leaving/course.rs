//! The course of one move that leaves: prepare, offer, transfer, freeze, decide, wait for the new owner's word.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cede_agent::adapter::{AgentError, Tombstone};
use cede_core::source::{Quiet, Round};
use cede_seal::exchange::{ExchangeSecret, HandoffContext, HandoffKeys};
use cede_seal::verify::Verified;
use cede_wire::catalog::{ChunkRef, Oid};
use cede_wire::control::{Answer, Failure, MoveReport, Phase, ReplyBody, exit};
use cede_wire::custody::FencingToken;
use cede_wire::handoff::Accept;
use cede_wire::id::{DeviceId, HandoffId, SessionId};
use cede_wire::message::NeedOf;
use cede_wire::record::PlacedSession;
use cede_wire::refusal::Refusal;
use cede_wire::session::{AgentKind, SessionKey};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use crate::actor::Actor;
use crate::base;
use crate::clock::random;
use crate::context::{Context, Stopping};
use crate::fences::raise;
use crate::hearing::{Hearing, Line};
use crate::limits;
use crate::moves::Story;
use crate::offering::{self, Order, Prepared, failure, reason, stopping};
use crate::payload::{Payload, PayloadError, Wanted};
use crate::sending::{self, Content, Part, SendError};
use crate::sessions;

use super::LeavingEvent;
use super::words::{WAITING, cure_of, needs_a_yes, not_fenced, passed_by_removal, released};

/// The task of one move.
pub(super) struct Move {
    context: Context,
    session: SessionId,
    pub(super) number: u64,
    inbox: mpsc::Receiver<LeavingEvent>,
    early: VecDeque<LeavingEvent>,
    numbers: AtomicU32,
    present_bytes: u64,
    sent_bytes: u64,
    /// What the lists themselves cost.
    catalog_bytes: u64,
    /// What the other devices call this one.
    here: String,
}

/// Why a round ended without being complete.
enum Interruption {
    /// The destination accepted again, after a reconnect.
    Again(Box<Verified<Accept>>),
    /// A file changed: capture again.
    Changed,
    /// It is over.
    Over(Failure),
}

impl Move {
    pub(super) fn new(
        context: Context,
        here: String,
        session: SessionId,
        number: u64,
        inbox: mpsc::Receiver<LeavingEvent>,
    ) -> Self {
        let (early, numbers) = (VecDeque::new(), AtomicU32::new(0));
        Self {
            context,
            session,
            number,
            inbox,
            early,
            numbers,
            present_bytes: 0,
            sent_bytes: 0,
            catalog_bytes: 0,
            here,
        }
    }

    pub(super) async fn run(mut self, order: Order) -> Result<Box<Answer>, Failure> {
        let dry_run = order.request.dry_run;
        let prepared = offering::prepare(&self.context, order, self.number).await?;
        let session = self.session;
        let info = prepared.order.info.clone();
        let summary = self.context.ask(move |actor| actor.summary(&info)).await.map_err(stopping)?;
        let plan = prepared.plan(summary);
        if dry_run {
            return Ok(Box::new(Answer::Plan(Box::new(plan))));
        }
        if let Some(failed) = needs_a_yes(&plan) {
            // The person is shown what a yes would mean.
            self.context
                .tell(move |actor| actor.moves.tell(Story::Going(session), &ReplyBody::Planned(Box::new(plan))))
                .await;
            return Err(failed);
        }
        let terms = prepared.terms(&self.context)?;
        let (to, agent) = (prepared.order.destination, prepared.order.info.key.agent);
        self.offer(&prepared, terms).await?;
        let accept = self.accepted().await?;
        self.transfer(prepared, accept).await?;
        self.decide().await?;
        let mut report =
            self.context.ask(move |actor| actor.move_report(Story::Going(session))).await.map_err(stopping)??;
        if let Answer::Moved(report) = &mut report {
            self.look_there(to, report).await;
            report.notes.extend(self.left_behind(agent).await);
        }
        Ok(Box::new(report))
    }

    /// The new owner is asked where the session stands. One that does not say so in time is not waited for.
    async fn look_there(&self, to: DeviceId, report: &mut MoveReport) {
        let Some(info) = sessions::at(&self.context, to, self.session).await else { return };
        let adapter = self.context.adapter(info.key.agent).filter(|_| sessions::is_whole(&info.directory));
        report.resume = adapter
            .map(|adapter| adapter.resume_command(&info.key.native, Path::new(&info.directory)))
            .unwrap_or_default();
        report.directory = info.directory;
    }

    /// No fence keeps anybody from writing to a plain directory while it travels: what was written since the last capture
    /// is here and nowhere else.
    async fn left_behind(&self, agent: AgentKind) -> Option<String> {
        let session = self.session;
        let placed = self.context.ask(move |actor| actor.placed.get(&session).cloned()).await.ok()??;
        if agent != AgentKind::Files {
            return None;
        }
        let changed = self.context.block(move |context| base::changed_since(context, &placed)).await.ok()??;
        Some(format!("changed here while it travelled, and did not travel: {}", changed.join(", ")))
    }

    async fn offer(&mut self, prepared: &Prepared, terms: cede_core::source::OfferTerms) -> Result<(), Failure> {
        let handoff =
            HandoffId::new(random().map_err(|e| failure(exit::FAILED, "no attempt begins", &e.to_string(), ""))?);
        let (key, to) = (prepared.order.info.key.clone(), prepared.order.destination);
        let placed = PlacedSession {
            key: key.clone(),
            title: prepared.order.info.title.clone(),
            directory: prepared.order.info.directory.clone().into_bytes(),
            root: None,
        };
        let (session, number, take) = (self.session, self.number, prepared.order.take);
        let offered = self.context.ask(move |actor| {
            if !actor.is_leaving(session, number) {
                return Err(offering::cancelled());
            }
            let now = actor.context.clock.now();
            actor.place(placed);
            actor.reach_afresh(to);
            let offered = actor.custodian.offer(&key, to, handoff, terms, now);
            if offered.is_ok() {
                if let Some(request) = take {
                    actor.send(to, cede_wire::message::PeerMessage::TakeAnswer { request, answer: Ok(handoff) });
                }
                let note = if actor.peers.is_connected(to) { WAITING } else { "reaching the device" };
                actor.report(Story::Going(session), Phase::Offered, (0, 0), 0, note);
            }
            offered.map_err(|error| actor.not_offered(&error))
        });
        offered.await.map_err(stopping)?
    }

    async fn next(&mut self) -> Result<LeavingEvent, Failure> {
        if let Some(event) = self.early.pop_front() {
            return Ok(event);
        }
        self.inbox.recv().await.ok_or_else(|| stopping(Stopping::Told))
    }

    /// The same while bytes travel: a device that lets this one in no more ends the move, and one that is away does not.
    async fn next_let_in(&mut self) -> Result<LeavingEvent, Failure> {
        let session = self.session;
        loop {
            if let Ok(event) = tokio::time::timeout(limits::REACH_LOOK, self.next()).await {
                return event;
            }
            let look = move |actor: &mut Actor| {
                let to = actor.leaving.get(&session).map(|leaving| leaving.destination);
                if let Some(to) = to.filter(|to| actor.peers.turns_us_away(*to)) {
                    actor.cannot_be_reached(session, to);
                }
            };
            self.context.tell(look).await;
        }
    }

    fn over(&self, refusal: Refusal, detail: &str) -> Failure {
        let exit = offering::exit_of(refusal);
        // A token is stale where another device took the session over.
        let what =
            if refusal == Refusal::StaleToken { "the session was not handed over" } else { "the session stays here" };
        Failure {
            refusal: Some(refusal),
            ..failure(exit, what, &reason(refusal, detail), &cure_of(refusal, &self.here))
        }
    }

    async fn accepted(&mut self) -> Result<Box<Verified<Accept>>, Failure> {
        let begun = tokio::time::Instant::now();
        let mut look = tokio::time::interval_at(begun + limits::REACH_LOOK, limits::REACH_LOOK);
        let mut hearing = Hearing::begin(begun.into_std());
        let mut line = None;
        loop {
            let event = tokio::select! {
                event = self.next() => event?,
                _ = look.tick() => {
                    line = self.listen(&mut hearing, line).await;
                    continue;
                }
            };
            match event {
                LeavingEvent::Accepted(accept) => return Ok(accept),
                LeavingEvent::Over(refusal, detail) => return Err(self.over(refusal, &detail)),
                LeavingEvent::Need { .. }
                | LeavingEvent::RoundComplete(_)
                | LeavingEvent::Freeze
                | LeavingEvent::AckHeld(_)
                | LeavingEvent::Released
                | LeavingEvent::Retired
                | LeavingEvent::LinkDown => {}
            }
        }
    }

    /// A person who waits hears soon that the device cannot be reached, or is not heard any more. While it is, an answer
    /// may take its time.
    async fn listen(&self, hearing: &mut Hearing, before: Option<Line>) -> Option<Line> {
        let session = self.session;
        let heard = self.context.ask(move |actor| {
            let to = actor.leaving.get(&session)?.destination;
            Some((to, actor.peers.heard(to)))
        });
        let (to, heard) = heard.await.ok()??;
        let line = hearing.look(heard, std::time::Instant::now());
        let told = self.context.ask(move |actor| {
            let name = actor.device_name(to);
            let note = match line {
                Line::Lost => return actor.cannot_be_reached(session, to),
                Line::Down if actor.peers.turns_us_away(to) => return actor.cannot_be_reached(session, to),
                Line::Live => WAITING.to_owned(),
                Line::Silent => format!("nothing comes from {name} any more; where it stays away the move ends"),
                Line::Down if before.is_some_and(|before| before != Line::Down) => {
                    format!("the line to {name} is down; it is dialed again, and the session stays here")
                }
                Line::Down => return,
            };
            if before.is_some_and(|before| before != line) || line == Line::Silent && before != Some(line) {
                actor.report(Story::Going(session), Phase::Offered, (0, 0), 0, &note);
            }
        });
        told.await.ok().map(|()| line)
    }

    /// Pre-copy while the session may work, then the frozen rest.
    async fn transfer(&mut self, prepared: Prepared, accept: Box<Verified<Accept>>) -> Result<(), Failure> {
        let Prepared { order, payload, .. } = prepared;
        let mut accept = accept;
        let mut frozen = false;
        let mut copies = 0;
        let mut payload = self.for_destination(&order, payload, &accept.have).await?;
        loop {
            let before = self.sent_bytes;
            match self.round(&payload, &accept, frozen).await {
                Ok(()) if frozen => return self.remember(&order, &payload).await,
                Ok(()) => {
                    copies += 1;
                    if copies >= limits::COPIES || self.sent_bytes - before <= limits::LITTLE_BYTES {
                        self.freeze(&order).await?;
                        frozen = true;
                    }
                }
                Err(Interruption::Again(again)) => {
                    accept = again;
                    continue;
                }
                Err(Interruption::Changed) => {}
                Err(Interruption::Over(failed)) => return Err(failed),
            }
            // Two payloads are more than fits: the old one goes first.
            drop(payload);
            payload = order.capture(&self.context, &accept.have).await?;
            if frozen {
                self.keep_catalog(&payload, order.wanted(&accept.have)).await?;
            }
        }
    }

    /// A destination that has commits of the repository is not sent them.
    async fn for_destination(&self, order: &Order, payload: Payload, have: &[Oid]) -> Result<Payload, Failure> {
        if have.is_empty() {
            return Ok(payload);
        }
        drop(payload);
        order.capture(&self.context, have).await
    }

    /// The last catalog is durable here before it is announced: the way back compares with it.
    async fn keep_catalog(&self, payload: &Payload, wanted: Wanted) -> Result<(), Failure> {
        let bytes = payload.bytes.clone();
        let kept = self.context.block(move |context| {
            wanted.keep(context).map_err(|error| error.to_string())?;
            context.objects.put(&bytes).map_err(|error| error.to_string())
        });
        let kept = kept.await.map_err(stopping)?;
        kept.map(drop).map_err(|why| failure(exit::FAILED, "the catalog was not kept", &why, "free some space"))
    }

    async fn remember(&self, order: &Order, payload: &Payload) -> Result<(), Failure> {
        let placed = PlacedSession {
            key: order.info.key.clone(),
            title: order.info.title.clone(),
            directory: order.info.directory.clone().into_bytes(),
            root: Some(payload.root),
        };
        self.context.ask(move |actor| actor.place(placed)).await.map_err(stopping)
    }

    async fn freeze(&mut self, order: &Order) -> Result<(), Failure> {
        let session = self.session;
        let frozen = self.context.ask(move |actor| {
            let now = actor.context.clock.now();
            actor.custodian.freeze(session, now).map_err(|error| error.to_string())
        });
        if let Err(why) = frozen.await.map_err(stopping)? {
            return Err(self
                .pending_over()
                .unwrap_or_else(|| failure(exit::FAILED, "the session was not frozen", &why, "")));
        }
        self.until_frozen().await?;
        let deadline = tokio::time::Instant::now() + limits::AGENT_ENDS;
        let mut told = false;
        loop {
            match self.stop_and_raise(order).await? {
                // Whoever waits for the end of a turn waits for the end of its process too.
                Err(PayloadError::Agent(AgentError::Live { .. }))
                    if order.request.wait && tokio::time::Instant::now() < deadline => {}
                // Nobody is kept from a session by the capture of a move that ended meanwhile.
                Ok(()) => return self.pending_over().map_or(Ok(()), Err),
                Err(error) => return Err(not_fenced(&error)),
            }
            if !std::mem::replace(&mut told, true) {
                let note = "waiting for the agent's process, which still holds the session";
                self.context
                    .tell(move |actor| actor.report(Story::Going(session), Phase::Transferring, (0, 0), 0, note))
                    .await;
            }
            // What ends the move is heard meanwhile.
            if let Ok(Err(over)) = tokio::time::timeout(limits::TURN_POLL, self.until_frozen()).await {
                return Err(over);
            }
        }
    }

    /// Ends an idle agent process and raises the fence.
    async fn stop_and_raise(&mut self, order: &Order) -> Result<Result<(), PayloadError>, Failure> {
        let (key, session, number) = (order.info.key.clone(), order.session(), self.number);
        let ended = self.context.block(move |context| stop_idle(context, &key)).await.map_err(stopping)?;
        if ended.is_err() {
            return Ok(ended);
        }
        let key = order.info.key.clone();
        let tombstone = Tombstone {
            owner: order.destination_name.clone(),
            session: session.short(),
            command: format!("cede cancel {}", session.short()),
        };
        let wanted = move |actor: &mut Actor| actor.is_leaving(session, number).then_some(tombstone);
        let fenced =
            self.context.fencing(key.agent, wanted, move |context, tombstone| raise(context, &key, &tombstone));
        match fenced.await.map_err(stopping)? {
            Some(fenced) => Ok(fenced),
            // A move that ended meanwhile has its fence taken down behind it.
            None => Err(self.pending_over().unwrap_or_else(|| stopping(Stopping::Told))),
        }
    }

    /// Waits for the custodian's word that the session is frozen.
    async fn until_frozen(&mut self) -> Result<(), Failure> {
        loop {
            let event = self.inbox.recv().await.ok_or_else(|| stopping(Stopping::Told))?;
            if let Some(frozen) = self.heed(event) {
                return frozen;
            }
        }
    }

    /// Why the move is over, where that is known already.
    fn pending_over(&mut self) -> Option<Failure> {
        loop {
            match self.inbox.try_recv() {
                Ok(event) => {
                    if let Some(Err(over)) = self.heed(event) {
                        return Some(over);
                    }
                }
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => return Some(stopping(Stopping::Told)),
            }
        }
    }

    /// What an event means while the session freezes. The newest acceptance that comes meanwhile is for the round after that.
    fn heed(&mut self, event: LeavingEvent) -> Option<Result<(), Failure>> {
        match event {
            LeavingEvent::Freeze => return Some(Ok(())),
            LeavingEvent::Over(refusal, detail) => return Some(Err(self.over(refusal, &detail))),
            LeavingEvent::Accepted(accept) => {
                self.early.retain(|earlier| !matches!(earlier, LeavingEvent::Accepted(_)));
                self.early.push_back(LeavingEvent::Accepted(accept));
            }
            LeavingEvent::Need { .. }
            | LeavingEvent::RoundComplete(_)
            | LeavingEvent::AckHeld(_)
            | LeavingEvent::Released
            | LeavingEvent::Retired
            | LeavingEvent::LinkDown => {}
        }
        None
    }

    /// One round: manifest, catalog, payload. Complete when the destination has said so.
    async fn round(&mut self, payload: &Payload, accept: &Verified<Accept>, last: bool) -> Result<(), Interruption> {
        let (round, keys) = self.announce(payload, accept).await?;
        self.serve(payload, round, &keys, last).await
    }

    async fn announce(
        &mut self,
        payload: &Payload,
        accept: &Verified<Accept>,
    ) -> Result<(u32, HandoffKeys), Interruption> {
        let secret = random().map(ExchangeSecret::from_random);
        let secret =
            secret.map_err(|e| Interruption::Over(failure(exit::FAILED, "no key was made", &e.to_string(), "")))?;
        let round = Round {
            head: payload.head,
            root: payload.root,
            catalog: payload.catalog.clone(),
            payload_bytes: payload.payload_bytes,
            exchange_key: secret.public(),
        };
        let session = self.session;
        let advanced = self.context.ask(move |actor| {
            let now = actor.context.clock.now();
            let number = actor.custodian.advance(session, round, now).map_err(|error| error.to_string())?;
            actor.announced(session, number);
            let offer = actor.custodian.leaving(session).ok_or("the attempt is over")?.offer();
            Ok::<_, String>((number, offer.mesh, offer.token))
        });
        let (number, mesh, token) = match advanced.await.map_err(|s| Interruption::Over(stopping(s)))? {
            Ok(advanced) => advanced,
            Err(why) => {
                let over = self.pending_over();
                return Err(Interruption::Over(
                    over.unwrap_or_else(|| failure(exit::FAILED, "the round was not sent", &why, "")),
                ));
            }
        };
        let keys = self.keys(&secret, accept, mesh, token).map_err(Interruption::Over)?;
        Ok((number, keys))
    }

    fn keys(
        &self,
        secret: &ExchangeSecret,
        accept: &Accept,
        mesh: cede_wire::id::MeshId,
        token: FencingToken,
    ) -> Result<HandoffKeys, Failure> {
        self.numbers.store(0, Ordering::Relaxed);
        let context = HandoffContext {
            mesh,
            session: self.session,
            handoff: accept.handoff,
            source: accept.source,
            destination: accept.destination,
            token,
            source_exchange_key: secret.public(),
            destination_exchange_key: accept.exchange_key,
        };
        HandoffKeys::derive(secret, &accept.exchange_key, &context)
            .map_err(|error| failure(exit::FAILED, "no common key", &error.to_string(), ""))
    }

    async fn serve(
        &mut self,
        payload: &Payload,
        round: u32,
        keys: &HandoffKeys,
        last: bool,
    ) -> Result<(), Interruption> {
        let catalog = Arc::new(Content::Catalog { bytes: payload.bytes.clone(), chunks: payload.catalog.clone() });
        let files = Arc::new(Content::Files(payload.sources.clone()));
        loop {
            match self.next_let_in().await.map_err(Interruption::Over)? {
                LeavingEvent::Need { round: of_round, of, bitmap } if of_round == round => {
                    let (content, chunks) = match of {
                        NeedOf::Catalog => (catalog.clone(), sending::selected(&payload.catalog, &bitmap)),
                        NeedOf::Payload => (files.clone(), self.count(payload, &bitmap)),
                    };
                    self.send(keys, content, chunks, round, of == NeedOf::Payload).await?;
                }
                LeavingEvent::RoundComplete(complete) if complete == round && !last => return Ok(()),
                LeavingEvent::AckHeld(handoff) if last => {
                    self.early.push_back(LeavingEvent::AckHeld(handoff));
                    return Ok(());
                }
                LeavingEvent::Accepted(accept) => return Err(Interruption::Again(accept)),
                LeavingEvent::Retired => {
                    self.early.push_back(LeavingEvent::Retired);
                    return Ok(());
                }
                LeavingEvent::Over(refusal, detail) => return Err(Interruption::Over(self.over(refusal, &detail))),
                LeavingEvent::LinkDown => self.note_link_down(round).await,
                LeavingEvent::Need { .. }
                | LeavingEvent::RoundComplete(_)
                | LeavingEvent::Freeze
                | LeavingEvent::AckHeld(_)
                | LeavingEvent::Released => {}
            }
        }
    }

    async fn note_link_down(&self, round: u32) {
        let session = self.session;
        let report = move |actor: &mut Actor| {
            actor.report(
                Story::Going(session),
                Phase::Transferring,
                (0, 0),
                round,
                "the link is gone; going on when it is back",
            );
        };
        self.context.tell(report).await;
    }

    fn count(&mut self, payload: &Payload, bitmap: &[u8]) -> Vec<ChunkRef> {
        let chunks = sending::selected(&payload.chunks, bitmap);
        let wanted: u64 = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
        // What was sent in this move is there now, but it was not before.
        self.present_bytes = payload.payload_bytes.saturating_sub(wanted).saturating_sub(self.sent_bytes);
        chunks
    }

    async fn send(
        &mut self,
        keys: &HandoffKeys,
        content: Arc<Content>,
        chunks: Vec<ChunkRef>,
        round: u32,
        show: bool,
    ) -> Result<(), Interruption> {
        let session = self.session;
        let link = self.context.ask(move |actor| {
            let destination = actor.leaving.get(&session)?.destination;
            actor.peers.link(destination)
        });
        let Some(link) = link.await.map_err(|s| Interruption::Over(stopping(s)))? else { return Ok(()) };
        let total: u64 = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
        let sent = Arc::new(AtomicU64::new(0));
        let sending = sending::send(&link, keys, &self.numbers, content, Part::all(chunks), sent.clone());
        let shown = self.context.clone();
        let base = self.sent_bytes + self.catalog_bytes;
        let counted = sent.clone();
        let reporting = async move {
            loop {
                let bytes = counted.load(Ordering::Relaxed);
                if show {
                    shown
                        .tell(move |actor| {
                            actor.report(Story::Going(session), Phase::Transferring, (bytes, total), round, "");
                            actor.count_sent(session, base + bytes);
                        })
                        .await;
                }
                tokio::time::sleep(limits::PROGRESS_PAUSE).await;
            }
        };
        let result = tokio::select! {
            result = sending => result,
            () = reporting => Ok(()),
        };
        let bytes = sent.load(Ordering::Relaxed);
        *(if show { &mut self.sent_bytes } else { &mut self.catalog_bytes }) += bytes;
        let (all, present) = (self.sent_bytes + self.catalog_bytes, self.present_bytes);
        self.context
            .tell(move |actor| {
                actor.count_sent(session, all);
                if show {
                    actor.report(Story::Going(session), Phase::Transferring, (bytes, total), round, "");
                    actor.count_present(Story::Going(session), present);
                }
            })
            .await;
        match result {
            // A lost link is told by the actor; the destination accepts again when it is back.
            Ok(()) | Err(SendError::Link) => Ok(()),
            Err(SendError::Changed(what)) => {
                tracing::debug!(session = %self.session.short(), %what, "capturing again");
                Err(Interruption::Changed)
            }
            Err(SendError::Bug(what)) => Err(Interruption::Over(failure(exit::FAILED, "fault of ours", what, ""))),
        }
    }

    /// S3: looks at the session once more, lets the custodian decide, and waits for the new owner's word.
    async fn decide(&mut self) -> Result<(), Failure> {
        loop {
            match self.next().await? {
                LeavingEvent::AckHeld(handoff) => self.look_and_decide(handoff).await?,
                LeavingEvent::Over(refusal, detail) => return Err(self.over(refusal, &detail)),
                LeavingEvent::Released => return self.wait_for_owner().await,
                LeavingEvent::Retired => return Ok(()),
                LeavingEvent::Accepted(_)
                | LeavingEvent::Need { .. }
                | LeavingEvent::RoundComplete(_)
                | LeavingEvent::Freeze
                | LeavingEvent::LinkDown => {}
            }
        }
    }

    async fn look_and_decide(&self, handoff: HandoffId) -> Result<(), Failure> {
        let session = self.session;
        let key = self.context.ask(move |actor| actor.key_of(session)).await.map_err(stopping)?;
        let Some(key) = key else { return Ok(()) };
        let quiet = self.context.block(move |context| look(context, &key)).await.map_err(stopping)?;
        self.context
            .ask(move |actor| {
                let now = actor.context.clock.now();
                match quiet {
                    Some(quiet) => actor.custodian.decide(session, handoff, quiet, now),
                    None => {
                        actor.custodian.cancel(session, Refusal::InFlightWork, "the session could not be looked at")
                    }
                }
            })
            .await
            .map_err(stopping)
    }

    async fn wait_for_owner(&mut self) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + limits::RELEASED_PATIENCE;
        let session = self.session;
        loop {
            match tokio::time::timeout(limits::REACH_LOOK, self.next()).await {
                Ok(Ok(LeavingEvent::Retired)) => return Ok(()),
                Ok(Ok(LeavingEvent::Over(refusal, detail))) => return Err(self.over(refusal, &detail)),
                Ok(Ok(_)) => {}
                Ok(Err(failed)) => return Err(failed),
                Err(_) if tokio::time::Instant::now() >= deadline => return Err(released()),
                Err(_) => {
                    let gone = self.context.ask(move |actor| actor.released_to_nobody(session));
                    if let Some(name) = gone.await.map_err(stopping)? {
                        return Err(passed_by_removal(&name, session));
                    }
                }
            }
        }
    }

    pub(super) async fn resend(
        &mut self,
        key: SessionKey,
        placed: &PlacedSession,
        mut accept: Verified<Accept>,
    ) -> Result<(), Failure> {
        let directory = sessions::path_of(&placed.directory);
        let plain = Wanted { key, directory, include_ignored: Vec::new(), exclude: Vec::new(), have: Vec::new() };
        let kept = Wanted::kept(&self.context, self.session).map_err(|error| {
            let why = format!("how it was captured cannot be read: {error}");
            failure(exit::FAILED, "the pinned copy was not sent", &why, "check the disk; it is asked for again")
        })?;
        let wanted = kept.unwrap_or(plain);
        let payload = offering::capture(&self.context, wanted).await?;
        for _ in 0..cede_wire::limits::ROUNDS {
            // Only the newest key opens what is sent.
            while let Ok(event) = self.inbox.try_recv() {
                if let LeavingEvent::Accepted(newer) = event {
                    accept = *newer;
                }
            }
            let keys = self.announce_pinned(&payload, &accept).await?;
            match self.serve(&payload, 0, &keys, true).await {
                Ok(()) => return Ok(()),
                Err(Interruption::Again(newer)) => accept = *newer,
                Err(Interruption::Over(failed)) => return Err(failed),
                Err(Interruption::Changed) => break,
            }
        }
        Err(failure(exit::FAILED, "the pinned copy was not sent whole", "it changed or the link was lost", ""))
    }

    async fn announce_pinned(&mut self, payload: &Payload, accept: &Verified<Accept>) -> Result<HandoffKeys, Failure> {
        let secret = random().map(ExchangeSecret::from_random);
        let secret = secret.map_err(|e| failure(exit::FAILED, "no key was made", &e.to_string(), ""))?;
        let round = Round {
            head: payload.head,
            root: payload.root,
            catalog: payload.catalog.clone(),
            payload_bytes: payload.payload_bytes,
            exchange_key: secret.public(),
        };
        let session = self.session;
        let handoff = accept.handoff;
        let sent = self.context.ask(move |actor| {
            let token = match actor.custodian.chain(session).map(cede_core::chain::Chain::last) {
                Some(cede_wire::custody::Custody::Release(release)) => release.token,
                _ => return Err("not released".to_owned()),
            };
            let mesh = actor.peers.mesh().ok_or("no mesh")?;
            actor.custodian.resend(session, round).map_err(|error| error.to_string())?;
            actor.announced(session, 0);
            Ok((mesh, token))
        });
        let (mesh, token) = match sent.await.map_err(stopping)? {
            Ok(sent) => sent,
            Err(why) => {
                let to = accept.destination;
                let detail = "the copy at the old owner is no longer what was released".to_owned();
                let refuse =
                    cede_wire::message::PeerMessage::Refuse { handoff, refusal: Refusal::IntegrityFailed, detail };
                self.context.tell(move |actor| actor.send(to, refuse)).await;
                return Err(failure(exit::FAILED, "the pinned copy was not sent", &why, ""));
            }
        };
        self.keys(&secret, accept, mesh, token)
    }
}

fn look(context: &Context, key: &SessionKey) -> Option<Quiet> {
    let adapter = context.adapter(key.agent)?;
    let scratch = context.place("scratch", &key.id().to_string());
    let head = adapter.capture(&key.native, &scratch).ok()?.head;
    let fenced = adapter.is_fenced(&key.native).ok()?;
    Some(Quiet { head, in_flight: !fenced })
}

fn stop_idle(context: &Context, key: &SessionKey) -> Result<(), PayloadError> {
    let adapter = context.adapter(key.agent).ok_or(PayloadError::NoAdapter)?;
    let activity = adapter.describe(&key.native).map(|info| info.activity);
    if matches!(activity, Ok(cede_wire::session::Activity::Open { .. })) {
        adapter.stop(&key.native)?;
    }
    Ok(())
}
