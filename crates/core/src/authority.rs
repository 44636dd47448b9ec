//! What one connection may do, and what a person must say yes to first. Source: SPEC U-1 to U-9.
//!
//! A [`ConnectionAuthority`] stands beside each connection of a peer, from its admission to its end. Whatever the peer
//! asks for is asked of it first. It decides by what the peer was granted, by the operator's rules, and by the operator.
//! It shows nothing, waits for nothing and knows no clock: questions and decisions come out of [`ConnectionAuthority::poll`],
//! answers and time go in.
//!
//! | capability | who is asked | a yes lasts |
//! |---|---|---|
//! | presence, message | nobody | – |
//! | delegate, file, handoff | the operator, every time | for this request |
//! | observe, drive | the operator, once | until the connection ends, as does a no |
//!
//! What outlives a connection, the rules and how often the operator was disturbed, lies in a [`PeerMemory`]: one for each
//! peer, lent to every call.
//!
//! One contract: **only an explicit yes is a yes.** Silence, a fault, a question too many, a request that was withdrawn,
//! a connection that closed: each is a no. And a yes is a [`Permit`] for the bytes that were shown: whoever acts on it gives it
//! away and says what is done, and other bytes are refused.
//!
//! ```
//! use cede_core::authority::{
//!     CapabilityDecision, ConnectedPeer, ConnectionAuthority, OperatorAnswer, OperatorApprover, Output, PeerMemory, Request,
//!     RequestId,
//! };
//! use cede_core::now::Now;
//! use cede_wire::authority::{Locality, Subject};
//! use cede_wire::id::{ConnectionId, DeviceId};
//! use cede_wire::member::Capability;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Now { monotonic: std::time::Duration::from_secs(1), unix_ms: 1_000 };
//! let peer = ConnectedPeer { device: DeviceId::new([7; 32]), session: None, locality: Locality::AnotherHost };
//! let granted = [Capability::Message, Capability::File];
//! let mut memory = PeerMemory::default();
//! let mut authority =
//!     ConnectionAuthority::new(ConnectionId::new([1; 16]), peer, &granted, Some(OperatorApprover::default()));
//!
//! let file = Subject::new("notes.txt, 12 bytes")?;
//! authority.authorize(&mut memory, Request::new(RequestId(1), Capability::File).about(file.clone()), now);
//! let Some(Output::Ask(question)) = authority.poll() else { panic!("a file is asked about") };
//! assert_eq!(question.shown.subject, file); // what a person is shown
//! assert_eq!(authority.poll(), Some(Output::Wake(question.expires))); // silence becomes a no then
//!
//! authority.handle_answer(&mut memory, question.id, OperatorAnswer::Yes, now);
//! let Some(Output::Decided(decided)) = authority.poll() else { panic!("an answer decides") };
//! let CapabilityDecision::Allowed(permit) = decided.decision else { panic!("a yes is a yes") };
//! permit.redeem(&file)?; // other bytes are refused, and a permit is used up
//! # Ok(())
//! # }
//! ```

pub mod approvers;
mod decision;
mod delegation;
mod peer;
mod question;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cede_wire::authority::{Locality, Reach, Rule, Shown, Subject};
use cede_wire::id::{ConnectionId, DeviceId, SessionId};
use cede_wire::member::Capability;

pub use cede_wire::audit::DecidedBy;

use self::decision::Put;
pub use self::decision::{CapabilityDecision, CapabilityRefusal, Decided, Permission, Permit, Swapped};
pub use self::delegation::{Delegation, PeerTurn, ReplyTo};
pub use self::peer::{PeerMemory, RuleError, Term};
use self::question::Open;
pub use self::question::{Afar, OperatorAnswer, OperatorApprover, Question, QuestionId};
use crate::limits::REQUESTS_PER_QUESTION;
use crate::now::Now;

/// Who is at the other end of a connection, as the admission proved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedPeer {
    /// The device.
    pub device: DeviceId,
    /// The session of it that speaks, where the connection is that of one.
    pub session: Option<SessionId>,
    /// Where it is. Shown, and never a reason for a yes.
    pub locality: Locality,
}

/// How a request is told apart by whoever makes it. Shape: not used twice on a connection while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Something that a peer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    id: RequestId,
    capability: Capability,
    subject: Subject,
    aborted: bool,
}

impl Request {
    /// A request for a capability, about nothing more.
    pub fn new(id: RequestId, capability: Capability) -> Self {
        Self { id, capability, subject: Subject::default(), aborted: false }
    }

    /// Says what it is about. Of a capability that is granted for a whole connection no subject is shown: the yes would
    /// reach further than what was read.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
    }

    /// Says whether whoever asked has withdrawn it already: then nobody is asked.
    #[must_use]
    pub fn aborted(mut self, aborted: bool) -> Self {
        self.aborted = aborted;
        self
    }
}

/// How a capability is given. Source: SPEC U-2, U-3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Nobody is asked.
    Never,
    /// The operator is asked about every request.
    EachRequest,
    /// The operator is asked once on each connection.
    OncePerConnection,
}

impl Asking {
    /// How this capability is given.
    pub const fn of(capability: Capability) -> Self {
        match capability {
            Capability::Presence | Capability::Message => Self::Never,
            Capability::Delegate | Capability::File | Capability::Handoff => Self::EachRequest,
            Capability::Observe | Capability::Drive => Self::OncePerConnection,
        }
    }
}

/// One thing to do, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Show this to the operator and bring the answer.
    Ask(Question),
    /// Take the question back: nobody waits for its answer any more.
    Withdraw(QuestionId),
    /// A request is decided, for good.
    Decided(Decided),
    /// Call [`ConnectionAuthority::handle_timeout`] at this moment of [`Now::monotonic`].
    Wake(Duration),
}

/// What one connection may do. Source: SPEC U-1.
#[derive(Debug)]
pub struct ConnectionAuthority {
    id: ConnectionId,
    peer: ConnectedPeer,
    granted: BTreeSet<Capability>,
    approver: Option<OperatorApprover>,
    open: BTreeMap<QuestionId, Open>,
    /// What was said of a capability for this connection: the question of a yes, none for a no, and who said it.
    answered: BTreeMap<Capability, (Option<Shown>, DecidedBy)>,
    next: u64,
    closed: bool,
    outputs: VecDeque<Output>,
}

impl ConnectionAuthority {
    /// The authority of a connection that was just admitted. The capabilities are copied: what becomes of the caller's list
    /// later widens nothing. Without an approver whatever needs a yes is refused at once.
    ///
    /// Shape: `id` is random, and no other connection has it. The approver is somebody whom no connected peer can speak for.
    pub fn new(
        id: ConnectionId,
        peer: ConnectedPeer,
        capabilities: &[Capability],
        approver: Option<OperatorApprover>,
    ) -> Self {
        Self {
            id,
            peer,
            granted: capabilities.iter().copied().collect(),
            approver,
            open: BTreeMap::new(),
            answered: BTreeMap::new(),
            next: 0,
            closed: false,
            outputs: VecDeque::new(),
        }
    }

    /// The operator answered a question. An answer to a question that is not open, or whose time is over, changes nothing
    /// and is no yes.
    pub fn handle_answer(&mut self, memory: &mut PeerMemory, question: QuestionId, answer: OperatorAnswer, now: Now) {
        self.handle_timeout(memory, now);
        match answer {
            OperatorAnswer::Yes => self.become_answered(memory, question, true, DecidedBy::Operator, now),
            OperatorAnswer::No => self.become_answered(memory, question, false, DecidedBy::Operator, now),
            OperatorAnswer::Failed => self.become_answered(memory, question, false, DecidedBy::Fault, now),
        }
    }

    /// The person answered from somewhere else. The same otherwise.
    pub fn handle_afar(&mut self, memory: &mut PeerMemory, question: QuestionId, (from, yes): (Afar, bool), now: Now) {
        self.handle_timeout(memory, now);
        self.become_answered(memory, question, yes, from.by(), now);
    }

    /// Time has passed: questions that nobody answered become a no.
    pub fn handle_timeout(&mut self, memory: &mut PeerMemory, now: Now) {
        let over = |(id, open): (&QuestionId, &Open)| (open.expires <= now.monotonic).then_some(*id);
        let over: Vec<QuestionId> = self.open.iter().filter_map(over).collect();
        for question in over {
            self.outputs.push_back(Output::Withdraw(question));
            self.become_answered(memory, question, false, DecidedBy::Time, now);
        }
    }

    /// A peer asks for something. The decision comes out of [`Self::poll`], now or after the operator's answer. A request
    /// that repeats the id of an open one is that one.
    pub fn authorize(&mut self, memory: &mut PeerMemory, request: Request, now: Now) {
        self.handle_timeout(memory, now);
        if self.open.values().any(|open| open.waiting.contains(&request.id)) {
            return;
        }
        let permission = self.permission(memory, request.capability, now);
        let (capability, id) = (request.capability, request.id);
        match permission {
            Permission::Refused(why, by) => self.refuse(capability, id, (why, by), None),
            Permission::Allowed(_) | Permission::Asks if request.aborted => {
                self.refuse(capability, id, (CapabilityRefusal::Declined, DecidedBy::Withdrawn), None);
            }
            Permission::Allowed(by) => {
                let shown = match self.answered.get(&capability) {
                    Some((Some(asked), said)) if by == *said => asked.clone(),
                    _ => self.shown(&request, now, Duration::ZERO),
                };
                self.outputs.push_back(Output::Decided(Decided::allowed(id, shown, by, None)));
            }
            Permission::Asks => self.ask(memory, request, now),
        }
    }

    /// Whoever asked does not want it any more. A yes that comes later is a no for this request; a question that nobody else
    /// waits for is taken back, and says nothing about the capability.
    pub fn withdraw(&mut self, memory: &mut PeerMemory, request: RequestId) {
        let waits = |(_, open): &(&QuestionId, &mut Open)| open.waiting.contains(&request);
        let Some((question, open)) = self.open.iter_mut().find(waits) else { return };
        let (question, capability, put) = (*question, open.shown.capability, open.put());
        open.waiting.retain(|waiting| *waiting != request);
        let lonely = open.waiting.is_empty();
        self.refuse(capability, request, (CapabilityRefusal::Declined, DecidedBy::Withdrawn), Some(put));
        if lonely {
            self.open.remove(&question);
            memory.question_over();
            self.outputs.push_back(Output::Withdraw(question));
        }
    }

    /// The operator's rules changed: open questions that a rule answers now are answered by it.
    pub fn rules_changed(&mut self, memory: &mut PeerMemory, now: Now) {
        let ruled = |(id, open): (&QuestionId, &Open)| match memory.rule(open.shown.capability, now) {
            Some(Rule::Accept) => Some((*id, true)),
            Some(Rule::Refuse) => Some((*id, false)),
            Some(Rule::Ask | Rule::Hold) | None => None,
        };
        let ruled: Vec<(QuestionId, bool)> = self.open.iter().filter_map(ruled).collect();
        for (question, yes) in ruled {
            self.outputs.push_back(Output::Withdraw(question));
            self.become_answered(memory, question, yes, DecidedBy::Rule, now);
        }
    }

    /// The connection ended, was replaced, or its peer was removed. Every open question is taken back, and from here on
    /// everything is refused: what was allowed before, and messages too. Source: SPEC U-5.
    pub fn close(&mut self, memory: &mut PeerMemory) {
        self.closed = true;
        self.answered.clear();
        for (question, open) in core::mem::take(&mut self.open) {
            memory.question_over();
            self.outputs.push_back(Output::Withdraw(question));
            let put = open.put();
            for request in open.waiting {
                let why = (CapabilityRefusal::Declined, DecidedBy::Closed);
                self.refuse(open.shown.capability, request, why, Some(put));
            }
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_timeout`] is wanted.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.open.values().map(|open| open.expires).min()
    }

    /// What would become of a request for this capability now, without asking anybody. For what is asked about elsewhere:
    /// the question of a handoff is that of its custodian.
    pub fn permission(&self, memory: &PeerMemory, capability: Capability, now: Now) -> Permission {
        use CapabilityRefusal::{Declined, NoApprover, NotGranted};
        if self.closed {
            return Permission::Refused(Declined, DecidedBy::Closed);
        }
        if !self.granted.contains(&capability) {
            return Permission::Refused(NotGranted, DecidedBy::Grant);
        }
        match memory.rule(capability, now) {
            Some(Rule::Refuse) => return Permission::Refused(Declined, DecidedBy::Rule),
            Some(Rule::Accept) => return Permission::Allowed(DecidedBy::Rule),
            Some(Rule::Ask | Rule::Hold) | None => {}
        }
        match (Asking::of(capability), self.answered.get(&capability)) {
            (Asking::Never, _) => Permission::Allowed(DecidedBy::Grant),
            (_, Some((Some(_), by))) => Permission::Allowed(*by),
            (_, Some((None, by))) => Permission::Refused(Declined, *by),
            (_, None) if self.approver.is_none() => Permission::Refused(NoApprover, DecidedBy::Grant),
            (Asking::EachRequest | Asking::OncePerConnection, None) => Permission::Asks,
        }
    }

    /// Its id.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Who is at the other end.
    pub fn peer(&self) -> ConnectedPeer {
        self.peer
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The questions that wait, with what is shown and when their time is over.
    pub fn questions(&self) -> impl Iterator<Item = (QuestionId, &Shown, Duration)> {
        self.open.iter().map(|(id, open)| (*id, &open.shown, open.expires))
    }

    fn ask(&mut self, memory: &mut PeerMemory, request: Request, now: Now) {
        let declined = |by| (CapabilityRefusal::Declined, by);
        let (capability, id) = (request.capability, request.id);
        let once = Asking::of(capability) == Asking::OncePerConnection;
        if let Some(open) = self.open.values_mut().find(|open| once && open.shown.capability == capability) {
            if open.waiting.len() < REQUESTS_PER_QUESTION {
                return open.waiting.push(id);
            }
            return self.refuse(capability, id, declined(DecidedBy::Pace), None);
        }
        if !memory.begin_question(now) {
            return self.refuse(capability, id, declined(DecidedBy::Pace), None);
        }
        let held = memory.rule(capability, now) == Some(Rule::Hold);
        let life = self.approver.map_or(Duration::ZERO, |approver| approver.patience(held));
        self.next += 1;
        let question = QuestionId(self.next);
        let shown = self.shown(&request, now, life);
        let expires = now.after(life);
        self.open.insert(question, Open { shown: shown.clone(), expires, first: id, waiting: vec![id] });
        let hash = shown.hash();
        self.outputs.push_back(Output::Ask(Question { id: question, request: id, hash, shown, expires, held }));
        self.outputs.push_back(Output::Wake(expires));
    }

    /// The one place where a question ends with an answer.
    fn become_answered(&mut self, memory: &mut PeerMemory, id: QuestionId, yes: bool, by: DecidedBy, now: Now) {
        let Some(open) = self.open.remove(&id) else { return };
        memory.end_question((yes, by), now);
        let capability = open.shown.capability;
        // What a rule says holds while the rule does, and a rule may end before the connection.
        if Asking::of(capability) == Asking::OncePerConnection && by != DecidedBy::Rule {
            self.answered.insert(capability, (yes.then(|| open.shown.clone()), said(by)));
        }
        let put = open.put();
        for request in open.waiting {
            if yes {
                let decided = Decided::allowed(request, open.shown.clone(), by, Some(put));
                self.outputs.push_back(Output::Decided(decided));
            } else {
                self.refuse(capability, request, (CapabilityRefusal::Declined, by), Some(put));
            }
        }
    }

    fn refuse(
        &mut self,
        capability: Capability,
        request: RequestId,
        (why, by): (CapabilityRefusal, DecidedBy),
        put: Option<Put>,
    ) {
        let decision = CapabilityDecision::Refused { why, by };
        self.outputs.push_back(Output::Decided(Decided::of(request, capability, decision, put)));
    }

    fn shown(&self, request: &Request, now: Now, life: Duration) -> Shown {
        let reach = match Asking::of(request.capability) {
            Asking::OncePerConnection => Reach::Connection,
            Asking::Never | Asking::EachRequest => Reach::Request,
        };
        let subject = match reach {
            Reach::Connection => Subject::default(),
            Reach::Request => request.subject.clone(),
        };
        let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        Shown {
            capability: request.capability,
            reach,
            device: self.peer.device,
            session: self.peer.session,
            locality: self.peer.locality,
            subject,
            connection: self.id,
            number: self.next,
            asked_unix_ms: now.unix_ms,
            expires_unix_ms: now.unix_ms.saturating_add(life_ms),
        }
    }
}

/// Who is named for an answer that holds until the connection ends: a no of time or of a fault is taken for the operator's.
const fn said(by: DecidedBy) -> DecidedBy {
    match by {
        DecidedBy::Approver(device) => DecidedBy::Approver(device),
        DecidedBy::Button => DecidedBy::Button,
        DecidedBy::Grant
        | DecidedBy::Rule
        | DecidedBy::Operator
        | DecidedBy::Time
        | DecidedBy::Fault
        | DecidedBy::Pace
        | DecidedBy::Size
        | DecidedBy::Withdrawn
        | DecidedBy::Closed => DecidedBy::Operator,
    }
}

#[cfg(test)]
mod tests;
