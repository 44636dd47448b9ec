//! `cede log`: the record as a person reads it, and whether it holds.

use std::collections::BTreeMap;
use std::time::Instant;

use cede_core::audit::{AuditFault, verify_against};
use cede_seal::verify::verify;
use cede_store::audit::{AuditFiles, AuditLog, AuditMark};
use cede_wire::approver::ApproverAnswer;
use cede_wire::audit::{AuditAct, AuditEntry, AuditEvent, AuditOf, AuditOutcome, DecidedBy, KeyboardChange, Press};
use cede_wire::control::decisions::{AnchorLine, LogLine, LogVerdict};
use cede_wire::control::{Answer, Failure, exit};
use cede_wire::id::DeviceId;

use crate::actor::Actor;
use crate::context::Context;
use crate::control::Replies;
use crate::limits::{LISTING, LOG_LINES};
use crate::mirrors::AtPeers;
use crate::offering::{failure, stopping};

impl Actor {
    /// The operator knows why what is kept of a device's record, or there of this one's, did not fit.
    pub(crate) fn settle_log(&mut self, text: &str, replies: Replies) {
        let device = match self.find_member(text) {
            Ok(member) => member.device(),
            Err(failed) => return replies.failed(failed),
        };
        let (name, mark) = (self.device_name(device), self.audit.mark());
        let context = self.context.clone();
        tokio::spawn(async move {
            let missed = context.block(move |context| {
                let files = AuditLog::read(&context.home, &mark?).ok()?;
                let bytes = files.files.iter().map(Vec::as_slice);
                let verdict = verify_against(bytes, files.newest.as_ref(), &[], context.local.device());
                let by_it = |fault: &AuditFault| matches!(fault, AuditFault::Missed { by, .. } if *by == device);
                Some(verdict.faults.iter().any(by_it))
            });
            let missed = missed.await.ok().flatten().unwrap_or(false);
            context.tell(move |actor| actor.settle_with(device, &name, missed, replies)).await;
        });
    }

    fn settle_with(&mut self, device: DeviceId, name: &str, missed: bool, replies: Replies) {
        let here = self.settle_mirror(device);
        if !here && !missed {
            let text = format!("nothing of {name} is unsettled here");
            return replies.done(Answer::Said { text });
        }
        self.note_act(AuditAct::Settled, Some(device), None);
        let rest = match (here, missed) {
            (true, false) => format!("; where {name}'s own record says so: cede log --settle there"),
            (false, true) => format!("; while {name} keeps the old signature: cede log --settle there"),
            (true, true) | (false, false) => String::new(),
        };
        let text = format!("what did not fit between the records here and at {name} is settled, and recorded{rest}");
        self.settle_durable(Ok(Answer::Said { text }), replies);
    }

    /// Reads the log away from the actor.
    pub(crate) fn ask_log(&mut self, tail: Option<u32>, check: bool, replies: Replies) {
        let Some(mark) = self.audit.mark() else {
            return replies.failed(failure(
                exit::FAILED,
                NOT_READ,
                "it cannot be written at the moment",
                "cede doctor",
            ));
        };
        let me = self.context.local.device();
        let mut names: BTreeMap<DeviceId, String> = BTreeMap::from([(me, self.name.clone())]);
        names.extend(self.peers.members().into_iter().map(|member| (member.device(), member.name)));
        let tail = usize::try_from(tail.unwrap_or(u32::MAX)).unwrap_or(usize::MAX).min(LOG_LINES);
        let context = self.context.clone();
        let asked = Instant::now();
        let answered = check.then(|| self.ask_peers_for_anchors());
        tokio::spawn(async move {
            let peers = match answered {
                None => None,
                Some(answered) => {
                    // Who does not answer is said to be silent.
                    let _ = tokio::time::timeout(LISTING, answered).await;
                    context.ask(move |actor| actor.at_peers(asked)).await.ok()
                }
            };
            let read = context.block(move |context| read(context, &mark, &names, (tail, peers))).await;
            replies.settle(read.unwrap_or_else(|stops| Err(stopping(stops))));
        });
    }
}

/// Blocks.
fn read(
    context: &Context,
    mark: &AuditMark,
    names: &BTreeMap<DeviceId, String>,
    (tail, peers): (usize, Option<AtPeers>),
) -> Result<Answer, Failure> {
    let io = |error: cede_store::audit::AuditError| failure(exit::FAILED, NOT_READ, &error.to_string(), "cede doctor");
    let files = AuditLog::read(&context.home, mark).map_err(io)?;
    let verdict = peers.map(|peers| Box::new(look(&files, context.local.device(), peers, names)));
    let entries: Vec<AuditEntry> = files.entries().collect();
    let me = context.local.device();
    let lines = entries.iter().skip(entries.len().saturating_sub(tail)).map(|entry| line(entry, me, names)).collect();
    Ok(Answer::Log { lines, earlier: entries.len().saturating_sub(tail) as u64, verdict })
}

fn look(files: &AuditFiles, device: DeviceId, peers: AtPeers, names: &BTreeMap<DeviceId, String>) -> LogVerdict {
    let bytes = files.files.iter().map(Vec::as_slice);
    let verdict = verify_against(bytes, files.newest.as_ref(), &peers.anchors, device);
    let name = |device: &DeviceId| names.get(device).cloned().unwrap_or_else(|| device.short());
    let anchors = verdict.anchored.iter();
    LogVerdict {
        holds: verdict.faults.is_empty(),
        entries: verdict.entries,
        first: verdict.first,
        last: verdict.last,
        checkpoints: verdict.checkpoints,
        unsealed: verdict.unsealed,
        settled: verdict.settled,
        faults: verdict.faults.iter().map(|fault| in_words(fault, &name)).collect(),
        anchors: anchors.map(|(by, number)| AnchorLine { device: name(by), number: *number }).collect(),
        silent: peers.silent,
        evidence: peers.evidence,
    }
}

/// The devices by the names that people know.
fn in_words(fault: &AuditFault, name: &impl Fn(&DeviceId) -> String) -> String {
    match fault {
        AuditFault::CutAfter { by, signed, last } => {
            format!("{} keeps a checkpoint of entry {signed} of this record, which ends at {last}", name(by))
        }
        AuditFault::Replaced { by, signed } => {
            format!("{} keeps a checkpoint of entry {signed} of this record, and another entry is there", name(by))
        }
        AuditFault::Missed { by, signed } => {
            format!(
                "{0} kept a checkpoint of entry {signed} that was not here: the record was cut or put back; if you did that: \
                 cede log --settle {0}",
                name(by)
            )
        }
        AuditFault::Head(_)
        | AuditFault::File { .. }
        | AuditFault::Entry { .. }
        | AuditFault::Number { .. }
        | AuditFault::Chain(_)
        | AuditFault::Checkpoint(_)
        | AuditFault::Unsealed(_)
        | AuditFault::Cut { .. }
        | AuditFault::Lost(_)
        | AuditFault::Stranger => fault.to_string(),
    }
}

fn line(entry: &AuditEntry, me: DeviceId, names: &BTreeMap<DeviceId, String>) -> LogLine {
    let name = |device: &DeviceId| names.get(device).cloned().unwrap_or_else(|| device.short());
    let mut line = empty(entry);
    let (kind, who, text) = match &entry.event {
        AuditEvent::Begun { device } => ("begun", Some(device), "the daemon began".to_owned()),
        AuditEvent::Asked { who, capability, of, shown, held } => {
            (line.capability, line.about, line.shown) = (Some(*capability), about(of), Some(*shown));
            let kept = if *held { ", kept for later" } else { "" };
            ("asked", Some(who), format!("{} wants {}: the operator is asked{kept}", name(who), capability.name()))
        }
        AuditEvent::Decided { who, capability, of, allowed, by, shown, times } => {
            (line.capability, line.about, line.shown) = (Some(*capability), about(of), *shown);
            (line.allowed, line.by) = (Some(*allowed), Some(*by));
            let word = if *allowed { "allowed" } else { "refused" };
            let by_whom = decider(*by, &name);
            let times = if *times > 1 { format!(", {times} times") } else { String::new() };
            ("decided", Some(who), format!("{} {word} to {} by {by_whom}{times}", capability.name(), name(who)))
        }
        AuditEvent::Outcome { who, capability, of, outcome } => {
            (line.capability, line.about) = (Some(*capability), about(of));
            ("outcome", Some(who), format!("{} of {} {}", capability.name(), name(who), outcome_word(*outcome)))
        }
        AuditEvent::RuleSet { who, capability, rule, until_unix_ms } => {
            line.capability = Some(*capability);
            let end = if until_unix_ms.is_some() { ", with an end" } else { "" };
            let (rule, capability) = (rule.word(), capability.name());
            ("rule-set", Some(who), format!("the operator set {capability} of {} to {rule}{end}", name(who)))
        }
        AuditEvent::Acted { act, device, session } => {
            line.about = session.map(|session| session.to_string());
            let whom = device.as_ref().map_or_else(String::new, |device| format!(" {}", name(device)));
            let what = session.map_or_else(String::new, |session| format!(" session {}", session.short()));
            ("acted", device.as_ref(), format!("the operator {}{whom}{what}", act_word(*act)))
        }
        AuditEvent::Keyboard { session, who, change, typed } => {
            line.about = Some(format!("session {session}"));
            let whom = who.as_ref().map_or_else(|| "the person here".to_owned(), name);
            let typed = if lost(*change) { format!(", {typed} bytes typed") } else { String::new() };
            ("keyboard", who.as_ref(), format!("{whom} {} terminal {}{typed}", keyboard_word(*change), session.short()))
        }
        AuditEvent::Checkpoint(_) => ("checkpoint", None, "signed".to_owned()),
        AuditEvent::Lost { until } => ("lost", None, format!("entries up to {until} are not there any more")),
        AuditEvent::Missed { by, signed } => {
            let text = format!("{} keeps a checkpoint of entry {signed}, which is not here", name(by));
            ("missed", Some(by), text)
        }
        AuditEvent::Answered { who, of, answer } => {
            line.about = about(of);
            // A signature that does not hold says nothing.
            let answer = verify(answer).ok();
            (line.allowed, line.shown) = (answer.as_ref().map(|a| a.yes), answer.as_ref().map(|a| a.shown));
            let unsigned = || "an answer that nobody signed".to_owned();
            let text = answer.map_or_else(unsigned, |answer| answer_text(&answer, me, &name));
            ("answered", Some(who), text)
        }
        AuditEvent::Pressed { who, of, shown, press } => {
            (line.about, line.shown) = (about(of), Some(*shown));
            ("pressed", Some(who), press_text(*press, &name(who)))
        }
    };
    (line.kind, line.who, line.text) = (kind.to_owned(), who.copied(), text);
    line.device = who.map(name);
    line
}

fn empty(entry: &AuditEntry) -> LogLine {
    LogLine {
        number: entry.number,
        at_unix_ms: entry.at_unix_ms,
        kind: String::new(),
        device: None,
        who: None,
        capability: None,
        allowed: None,
        by: None,
        about: None,
        shown: None,
        text: String::new(),
    }
}

fn decider(by: DecidedBy, name: &impl Fn(&DeviceId) -> String) -> String {
    match by {
        DecidedBy::Approver(device) => format!("the person at {}", name(&device)),
        DecidedBy::Grant
        | DecidedBy::Rule
        | DecidedBy::Operator
        | DecidedBy::Time
        | DecidedBy::Fault
        | DecidedBy::Pace
        | DecidedBy::Size
        | DecidedBy::Withdrawn
        | DecidedBy::Closed
        | DecidedBy::Button => by.word().to_owned(),
    }
}

/// The same entry stands in the record of the device that asks and in that of the one where the person sits.
fn answer_text(answer: &ApproverAnswer, me: DeviceId, name: &impl Fn(&DeviceId) -> String) -> String {
    let word = if answer.yes { "yes" } else { "no" };
    if answer.by == me {
        return format!("{word} was answered here to {}", name(&answer.at));
    }
    format!("{} answered {word}", name(&answer.by))
}

fn press_text(press: Press, who: &str) -> String {
    let nothing = match press {
        Press::Yes => return format!("a button of ntfy said yes to {who}"),
        Press::No => return format!("a button of ntfy said no to {who}"),
        Press::Late => "the question was over",
        Press::Swapped => "the question is another one now",
        Press::Unknown => "it was no token of the call",
    };
    format!("what came for a button of ntfy decided nothing: {nothing}")
}

fn about(of: &AuditOf) -> Option<String> {
    match of {
        AuditOf::Request(connection, number) => Some(format!("request {number} on {}", connection.short())),
        AuditOf::Handoff(handoff) => Some(format!("handoff {handoff}")),
        AuditOf::Take(session, _) => Some(format!("session {session}")),
        AuditOf::Many => None,
        AuditOf::Transfer(transfer) => Some(format!("files {transfer}")),
    }
}

const fn outcome_word(outcome: AuditOutcome) -> &'static str {
    match outcome {
        AuditOutcome::Done => "was done",
        AuditOutcome::Failed => "failed",
        AuditOutcome::Swapped => "was not done: it was not what was shown",
    }
}

const fn act_word(act: AuditAct) -> &'static str {
    match act {
        AuditAct::Paired => "welcomed a device",
        AuditAct::Removed => "removed",
        AuditAct::Seized => "wants to take over without its owner",
        AuditAct::TookOver => "took over without its owner",
        AuditAct::Confirmed => "confirmed the records",
        AuditAct::ApproverNamed => "named an approver:",
        AuditAct::ApproverEnded => "ended an approver:",
        AuditAct::Delegated => "asked for a task",
        AuditAct::Settled => "settled what did not fit between this record and that of",
    }
}

const fn keyboard_word(change: KeyboardChange) -> &'static str {
    match change {
        KeyboardChange::Taken => "drives",
        KeyboardChange::Insisted => "takes the keyboard from another one at",
        KeyboardChange::LetGo => "let go of",
        KeyboardChange::Gone => "is gone from",
        KeyboardChange::Silent => "said nothing and drives no more",
        KeyboardChange::PutAside => "had to let go of",
        KeyboardChange::Withdrawn => "may not drive any more",
        KeyboardChange::Held => "keeps the keyboard here of",
        KeyboardChange::Released => "lets others drive again",
    }
}

/// Whether somebody who typed types no more.
const fn lost(change: KeyboardChange) -> bool {
    match change {
        KeyboardChange::LetGo
        | KeyboardChange::Gone
        | KeyboardChange::Silent
        | KeyboardChange::PutAside
        | KeyboardChange::Withdrawn => true,
        KeyboardChange::Taken | KeyboardChange::Insisted | KeyboardChange::Held | KeyboardChange::Released => false,
    }
}

const NOT_READ: &str = "the log was not read";
