//! The authority of each link: whatever a peer asks for is asked of it first. Source: SPEC U-1.
//!
//! Whoever serves a request of a peer calls one of these, with the [`Asker`] that came along with the message:
//!
//! - [`Actor::ask_authority`]: may it do this? The answer comes later, to a closure, with a permit for exactly what was shown.
//! - [`Actor::permission`]: the same without a question, for what a person is asked about elsewhere.
//! - [`Actor::withdraw_request`]: the peer does not want it any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cede_core::authority::{
    Afar, Asking, CapabilityDecision, CapabilityRefusal, ConnectedPeer, ConnectionAuthority, Decided, DecidedBy,
    Delegation, OperatorAnswer, OperatorApprover, Output, PeerMemory, Permission, Question, Request, RequestId, Term,
};
use cede_core::now::Now;
use cede_wire::audit::{AuditEvent, AuditOf};
use cede_wire::authority::{Locality, Rule, Subject};
use cede_wire::id::{ApprovalId, ConnectionId, DeviceId, Hash};
use cede_wire::member::Capability;
use cede_wire::record::PeerPolicy;

use crate::actor::Actor;
use crate::approvals::{self, Approval};
use crate::clock::random;

/// Which link of which peer said something. A request is decided by the link that it came on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) device: DeviceId,
    pub(crate) link: u64,
}

/// What goes on when a request is decided. It runs after the decision is in the record of this device, hears how that names
/// it, and says whether a yes still has somebody who wants it.
pub(crate) type Reply = Box<dyn FnOnce(&mut Actor, CapabilityDecision, AuditOf) -> bool + Send>;

/// Whether something was allowed, and what decided that.
pub(crate) type Came = (bool, DecidedBy);

/// What goes on, for whoever answered a question, when it is in the record what the answer came to.
pub(crate) type Told = Box<dyn FnOnce(&mut Actor, Came) + Send>;

/// The authorities of the links that stand, and what is remembered of peers across links.
#[derive(Default)]
pub(crate) struct Authorities {
    memories: BTreeMap<DeviceId, PeerMemory>,
    links: BTreeMap<u64, AtLink>,
    next_request: u64,
}

struct AtLink {
    device: DeviceId,
    authority: ConnectionAuthority,
    replies: BTreeMap<RequestId, Reply>,
}

impl Authorities {
    /// When an authority wants to hear of the time.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.links.values().filter_map(|at| at.authority.poll_timeout()).min()
    }

    /// What is remembered of a peer, where there is something.
    pub(crate) fn remembered(&mut self, device: DeviceId) -> Option<&mut PeerMemory> {
        self.memories.get_mut(&device)
    }

    /// What is remembered of a peer.
    pub(crate) fn memory(&mut self, device: DeviceId) -> &mut PeerMemory {
        self.memories.entry(device).or_default()
    }

    /// The rule for a peer and a capability with its term, where one holds.
    pub(crate) fn term(&self, device: DeviceId, capability: Capability, now: Now) -> Option<Term> {
        let mut rules = self.memories.get(&device)?.rules(now);
        rules.find(|(other, _)| *other == capability).map(|(_, term)| term)
    }

    /// Whether files of a peer are let in by the standing yes to moves that has no end. A rule for files that was set since is
    /// what the person said of them, also once its time is over.
    pub(crate) fn takes_files_unasked(&self, device: DeviceId, now: Now) -> bool {
        let moves = self.term(device, Capability::Handoff, now);
        let endless = moves.is_some_and(|term| term.rule == Rule::Accept && term.until_unix_ms.is_none());
        let since = |memory: &PeerMemory| memory.was_set_since(Capability::File, Capability::Handoff);
        let own = self.memories.get(&device).is_some_and(since);
        endless && !own && self.term(device, Capability::File, now).is_none()
    }

    /// Whether something may be heard on a link at all.
    pub(crate) fn stands(&self, asker: Asker) -> bool {
        self.links.get(&asker.link).is_some_and(|at| at.device == asker.device)
    }

    fn at(&mut self, asker: Asker) -> Option<(&mut AtLink, &mut PeerMemory)> {
        let at = self.links.get_mut(&asker.link).filter(|at| at.device == asker.device)?;
        Some((at, self.memories.entry(asker.device).or_default()))
    }

    fn links_of(&self, device: DeviceId) -> Vec<u64> {
        self.links.iter().filter(|(_, at)| at.device == device).map(|(link, _)| *link).collect()
    }
}

impl Actor {
    /// A peer asks for something. `reply` runs once, when it is decided: at once where nobody needs to be asked, after the
    /// operator's answer, or with a no when the link ends before.
    ///
    /// `subject` is what the operator is shown, in the peer's words, whole; of `observe` and `drive` nothing of it is shown,
    /// since their yes is for the link. On a yes the closure gets a permit: before the effect it calls
    /// `permit.redeem(&subject_of_what_is_done)`, which fails where that is not what was shown.
    pub(crate) fn ask_authority(
        &mut self,
        asker: Asker,
        capability: Capability,
        subject: Subject,
        reply: impl FnOnce(&mut Self, CapabilityDecision, AuditOf) -> bool + Send + 'static,
    ) -> RequestId {
        self.request(asker, reply, |authority, memory, id, now| {
            authority.authorize(memory, Request::new(id, capability).about(subject), now);
        })
    }

    /// The same for a task: it is shown whole, or declined because it is longer than can be shown.
    pub(crate) fn ask_delegation(
        &mut self,
        asker: Asker,
        task: Delegation,
        reply: impl FnOnce(&mut Self, CapabilityDecision, AuditOf) -> bool + Send + 'static,
    ) -> RequestId {
        self.request(asker, reply, |authority, memory, request, now| {
            authority.authorize_delegation(memory, &Delegation { request, ..task }, false, now);
        })
    }

    fn request(
        &mut self,
        asker: Asker,
        reply: impl FnOnce(&mut Self, CapabilityDecision, AuditOf) -> bool + Send + 'static,
        ask: impl FnOnce(&mut ConnectionAuthority, &mut PeerMemory, RequestId, Now),
    ) -> RequestId {
        self.authorities.next_request += 1;
        let id = RequestId(self.authorities.next_request);
        let now = self.context.clock.now();
        match self.authorities.at(asker) {
            Some((at, memory)) => {
                at.replies.insert(id, Box::new(reply));
                ask(&mut at.authority, memory, id, now);
                self.drain_authority(asker);
            }
            None => {
                let decision = CapabilityDecision::Refused { why: CapabilityRefusal::Declined, by: DecidedBy::Closed };
                let of = AuditOf::Request(ConnectionId::new([0; 16]), id.0);
                self.once_durable(move |actor| {
                    reply(actor, decision, of);
                });
            }
        }
        id
    }

    /// What a request would meet, without a question.
    pub(crate) fn permission(&mut self, asker: Asker, capability: Capability) -> Permission {
        let now = self.context.clock.now();
        let closed = Permission::Refused(CapabilityRefusal::Declined, DecidedBy::Closed);
        let found = self.authorities.at(asker);
        let found = found.map_or(closed, |(at, memory)| at.authority.permission(memory, capability, now));
        match found {
            Permission::Allowed(_) | Permission::Asks if self.audit.is_broken() => {
                self.audit.count((asker.device, capability, false, DecidedBy::Fault));
                Permission::Refused(CapabilityRefusal::Declined, DecidedBy::Fault)
            }
            Permission::Refused(_, by) => {
                self.audit.count((asker.device, capability, false, by));
                found
            }
            Permission::Allowed(by) if Asking::of(capability) == Asking::Never => {
                self.audit.count((asker.device, capability, true, by));
                found
            }
            Permission::Allowed(_) | Permission::Asks => found,
        }
    }

    /// The peer withdrew a request: its reply runs with a no, and a question that only it waited for goes.
    pub(crate) fn withdraw_request(&mut self, asker: Asker, request: RequestId) {
        if let Some((at, memory)) = self.authorities.at(asker) {
            at.authority.withdraw(memory, request);
            self.drain_authority(asker);
        }
    }

    /// The operator's rule for a peer and a capability, where there is one now.
    pub(crate) fn rule(&self, device: DeviceId, capability: Capability) -> Option<Rule> {
        self.authorities.memories.get(&device)?.rule(capability, self.context.clock.now())
    }

    /// What a peer is answered that wants to move sessions.
    pub(crate) fn unattended(&self, device: DeviceId) -> PeerPolicy {
        match self.rule(device, Capability::Handoff) {
            Some(Rule::Accept) => PeerPolicy::Yes,
            Some(Rule::Ask | Rule::Hold | Rule::Refuse) | None => PeerPolicy::Ask,
        }
    }

    /// Whether a standing yes without an end, which is one to moves, lets its files in too: where no rule for files says
    /// something else.
    pub(crate) fn takes_files_unasked(&self, device: DeviceId) -> bool {
        self.authorities.takes_files_unasked(device, self.context.clock.now())
    }

    /// A link was admitted. False: it cannot be told apart from others, so it serves nothing.
    pub(crate) fn authority_begins(&mut self, asker: Asker) -> bool {
        let Some(member) = self.peers.member(asker.device) else { return false };
        let Ok(id) = random().map(ConnectionId::new) else { return false };
        // A socket of the network proves a device, and not on which machine it runs.
        let peer = ConnectedPeer { device: asker.device, session: None, locality: Locality::AnotherHost };
        let approver = OperatorApprover { interactive: self.context.question_life, ..OperatorApprover::default() };
        let authority = ConnectionAuthority::new(id, peer, &member.capabilities, Some(approver));
        let at = AtLink { device: asker.device, authority, replies: BTreeMap::new() };
        self.authorities.links.insert(asker.link, at);
        true
    }

    /// A link ended, was replaced, or its peer was removed: nothing on it is served from here on.
    pub(crate) fn authority_ends(&mut self, asker: Asker) {
        if let Some((at, memory)) = self.authorities.at(asker) {
            at.authority.close(memory);
            self.drain_authority(asker);
            self.authorities.links.remove(&asker.link);
        }
        self.viewings_end(asker);
    }

    /// Devices that are no members any more are served nothing, and no rule of theirs is kept.
    pub(crate) fn authorities_of_strangers_end(&mut self) {
        let strange = |at: &AtLink| !self.peers.is_member(at.device);
        let strange = self.authorities.links.iter().filter(|(_, at)| strange(at));
        let strange: Vec<Asker> = strange.map(|(link, at)| Asker { device: at.device, link: *link }).collect();
        strange.into_iter().for_each(|asker| self.authority_ends(asker));
        let members: Vec<DeviceId> = self.peers.members().iter().map(cede_wire::member::Member::device).collect();
        self.authorities.memories.retain(|device, _| members.contains(device));
    }

    pub(crate) fn authorities_timeout(&mut self) {
        let now = self.context.clock.now();
        let askers: Vec<Asker> =
            self.authorities.links.iter().map(|(link, at)| Asker { device: at.device, link: *link }).collect();
        for asker in askers {
            if let Some((at, memory)) = self.authorities.at(asker) {
                at.authority.handle_timeout(memory, now);
                self.drain_authority(asker);
            }
        }
    }

    /// A question of a link was answered: by the operator here, or from elsewhere. Its time
    /// may be over, and a yes that cannot be recorded is none: `told` hears what it came to.
    pub(crate) fn answer_authority(
        &mut self,
        asker: Asker,
        question: &Question,
        (yes, from): (bool, Option<Afar>),
        told: Told,
    ) {
        let now = self.context.clock.now();
        let mut told = Some(told);
        if let Some((at, memory)) = self.authorities.at(asker) {
            let answer = if yes { OperatorAnswer::Yes } else { OperatorAnswer::No };
            match from {
                Some(from) => at.authority.handle_afar(memory, question.id, (from, yes), now),
                None => at.authority.handle_answer(memory, question.id, answer, now),
            }
            self.drain_authority_for(asker, question.hash, &mut told);
        }
        if let Some(told) = told {
            self.once_durable(move |actor| told(actor, (false, DecidedBy::Closed)));
        }
    }

    /// The operator's rules for a peer are others now.
    pub(crate) fn rules_changed(&mut self, device: DeviceId) {
        let now = self.context.clock.now();
        for link in self.authorities.links_of(device) {
            let asker = Asker { device, link };
            if let Some((at, memory)) = self.authorities.at(asker) {
                at.authority.rules_changed(memory, now);
                self.drain_authority(asker);
            }
            self.viewings_recheck(asker);
        }
    }

    fn drain_authority(&mut self, asker: Asker) {
        self.drain_authority_for(asker, Hash::new([0; 32]), &mut None);
    }

    /// The first request that the question `shown` decides says to `told` how.
    fn drain_authority_for(&mut self, asker: Asker, shown: Hash, told: &mut Option<Told>) {
        while let Some(output) = self.authorities.at(asker).and_then(|(at, _)| at.authority.poll()) {
            match output {
                Output::Ask(question) => self.question_waits(asker, question),
                Output::Withdraw(question) => {
                    self.approvals.retain(|_, approval| !approval.is_of(asker, question));
                    self.questions_changed = true;
                }
                Output::Decided(decided) => {
                    let told = if decided.asked == Some(shown) { told.take() } else { None };
                    self.decided(asker, decided, told);
                }
                Output::Wake(_) => {}
            }
        }
    }

    fn decided(&mut self, asker: Asker, decided: Decided, told: Option<Told>) {
        let reply = self.authorities.at(asker).and_then(|(at, _)| at.replies.remove(&decided.request));
        let (by, allowed) = (decided.decision.by(), decided.decision.is_allowed());
        let (who, capability, shown) = (asker.device, decided.capability, decided.asked);
        let of = self.recorded_as(asker, decided.recorded);
        if let (Some(hash), DecidedBy::Withdrawn | DecidedBy::Time | DecidedBy::Rule) = (shown, by) {
            // A person may be about to answer it.
            self.note_settled(approval_of(hash), (allowed, by));
        }
        let next = move |actor: &mut Self, stands: bool| {
            let refused = CapabilityDecision::Refused { why: CapabilityRefusal::Declined, by: DecidedBy::Fault };
            let decision = if allowed && !stands { refused } else { decided.decision };
            let came = (decision.is_allowed(), decision.by());
            let wanted = reply.is_none_or(|reply| reply(actor, decision, of));
            let came = if wanted { came } else { (false, DecidedBy::Withdrawn) };
            if let Some(told) = told {
                told(actor, came);
            }
        };
        if shown.is_some() || (allowed && Asking::of(capability) != Asking::Never) {
            self.once_recorded(AuditEvent::Decided { who, capability, of, allowed, by, shown, times: 1 }, next);
        } else {
            self.audit.count((who, capability, allowed, by));
            self.once_durable(move |actor| {
                let stands = !actor.audit.is_broken();
                next(actor, stands);
            });
        }
    }

    /// How a request is named in the record.
    fn recorded_as(&mut self, asker: Asker, request: RequestId) -> AuditOf {
        let found = self.authorities.at(asker).map(|(at, _)| at.authority.id());
        AuditOf::Request(found.unwrap_or(ConnectionId::new([0; 16])), request.0)
    }

    fn question_waits(&mut self, asker: Asker, question: Question) {
        let id = approval_of(question.hash);
        let (who, capability, held) = (asker.device, question.shown.capability, question.held);
        let of = approvals::recorded_as(&question);
        self.audit.note(AuditEvent::Asked { who, capability, of, shown: question.hash, held });
        tracing::info!(peer = %asker.device.short(), %id, "a question waits: cede approvals");
        let asked = approvals::Question::Capability { asker, question: Box::new(question) };
        self.approvals.insert(id, Approval::of(asker.device, Instant::now(), asked));
        self.questions_changed = true;
        if !held {
            self.context.notices.asked();
        }
    }
}

/// The id of a question is the beginning of the hash of what is shown: whoever answers names what was seen.
fn approval_of(shown: Hash) -> ApprovalId {
    let mut id = [0; 8];
    id.copy_from_slice(&shown.as_bytes()[..8]);
    ApprovalId::new(id)
}
