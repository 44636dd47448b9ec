//! `cede policy`: what this device answers for its operator, for each peer and capability. Source: SPEC U-6.

use std::time::Duration;

use cede_core::authority::{Asking, RuleError, Term};
use cede_core::now::Now;
use cede_wire::audit::AuditEvent;
use cede_wire::authority::Rule;
use cede_wire::control::decisions::{PeerRules, RuleSummary};
use cede_wire::control::{Answer, Failure, exit};
use cede_wire::id::DeviceId;
use cede_wire::member::{Capability, Member};
use cede_wire::record::{PeerPolicy, Record};
use cede_wire::refusal::Refusal;

use crate::actor::Actor;
use crate::authorities::Authorities;
use crate::offering::failure;

/// A record about rules, in the order of the journal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ruled {
    /// A standing answer about moves, given without an end.
    Moves(DeviceId, PeerPolicy),
    /// A rule.
    Rule(DeviceId, Capability, Term),
}

impl Ruled {
    pub(crate) fn of(record: &Record) -> Option<Self> {
        if let Record::PolicySet { device, policy } = record {
            return Some(Self::Moves(*device, *policy));
        }
        let Record::RuleSet { device, capability, rule, from_unix_ms, until_unix_ms } = record else { return None };
        let term = Term { rule: *rule, from_unix_ms: *from_unix_ms, until_unix_ms: *until_unix_ms };
        Some(Self::Rule(*device, *capability, term))
    }

    fn event(self) -> AuditEvent {
        let (who, capability, rule, until_unix_ms) = match self {
            Self::Moves(who, PeerPolicy::Ask) => (who, Capability::Handoff, Rule::Ask, None),
            Self::Moves(who, PeerPolicy::Yes) => (who, Capability::Handoff, Rule::Accept, None),
            Self::Rule(who, capability, term) => (who, capability, term.rule, term.until_unix_ms),
        };
        AuditEvent::RuleSet { who, capability, rule, until_unix_ms }
    }
}

impl Authorities {
    pub(crate) fn restore(ruled: &[Ruled], now: Now) -> Self {
        let mut authorities = Self::default();
        ruled.iter().for_each(|ruled| authorities.rule_set(*ruled, now));
        authorities
    }

    fn rule_set(&mut self, ruled: Ruled, now: Now) {
        match ruled {
            Ruled::Moves(device, PeerPolicy::Ask) => self.memory(device).clear_rule(Capability::Handoff),
            Ruled::Moves(device, PeerPolicy::Yes) => {
                let term = Term { rule: Rule::Accept, from_unix_ms: 0, until_unix_ms: None };
                self.memory(device).set_rule(Capability::Handoff, term, now);
            }
            Ruled::Rule(device, capability, term) => self.memory(device).set_rule(capability, term, now),
        }
    }
}

impl Actor {
    /// A standing answer about moves, which has no end: for a device that nobody sits at.
    pub(crate) fn policy(&mut self, text: &str, policy: Option<PeerPolicy>) -> Result<Answer, Failure> {
        let member = self.find_member(text)?;
        if let Some(policy) = policy {
            let device = member.device();
            self.note_rule(device, Ruled::Moves(device, policy), Record::PolicySet { device, policy });
        }
        let (name, device) = (&member.name, member.device());
        let files = self.authorities.term(device, Capability::File, self.context.clock.now());
        let files = files.map_or_else(String::new, |term| {
            format!("; its files go by a rule of their own, {}: cede policy {name} file", term.rule.word())
        });
        let text = match self.unattended(device) {
            PeerPolicy::Ask => format!("this device asks its operator when {name} wants to move a session{files}"),
            PeerPolicy::Yes if self.takes_files_unasked(device) => {
                format!("this device says yes to moves and files of {name} unattended")
            }
            PeerPolicy::Yes => format!("this device says yes to moves of {name} unattended{files}"),
        };
        Ok(Answer::Said { text })
    }

    /// Sets the rule for a peer and a capability.
    pub(crate) fn set_rule(
        &mut self,
        text: &str,
        (capability, rule): (Capability, Rule),
        seconds: Option<u64>,
    ) -> Result<Answer, Failure> {
        let member = self.find_member(text)?;
        let device = member.device();
        if !member.capabilities.contains(&capability) && rule != Rule::Refuse {
            let why = format!("{} was not given {} when it joined", member.name, capability.name());
            return Err(failure(exit::REFUSED, NOT_SET, &why, "cede devices"));
        }
        let term = Term::new(capability, rule, seconds.map(Duration::from_secs), self.context.clock.now());
        let term = term.map_err(|error| unset(error, &member, (capability, rule)))?;
        let (from_unix_ms, until_unix_ms) = (term.from_unix_ms, term.until_unix_ms);
        let record = Record::RuleSet { device, capability, rule, from_unix_ms, until_unix_ms };
        self.note_rule(device, Ruled::Rule(device, capability, term), record);
        Ok(Answer::Policies { peers: vec![self.rules_of(&member)] })
    }

    /// The rules for one peer, or for each.
    pub(crate) fn policies(&self, text: Option<&str>) -> Result<Answer, Failure> {
        let members = match text {
            Some(text) => vec![self.find_member(text)?],
            None => self.peers.members(),
        };
        Ok(Answer::Policies { peers: members.iter().map(|member| self.rules_of(member)).collect() })
    }

    /// Questions that wait are answered by the new rule. Of moves only a no is: the yes to one that is asked about covers
    /// what the question shows.
    fn note_rule(&mut self, device: DeviceId, ruled: Ruled, record: Record) {
        self.authorities.rule_set(ruled, self.context.clock.now());
        self.record(record);
        self.audit.note(ruled.event());
        self.rules_changed(device);
        if self.rule(device, Capability::Message) != Some(Rule::Refuse) {
            self.ledger.say_room(device, self.context.clock.now());
        }
        if self.rule(device, Capability::Handoff) == Some(Rule::Refuse) {
            self.refuse_moves_of(device, Refusal::Declined);
        }
    }

    fn rules_of(&self, member: &Member) -> PeerRules {
        let (device, now) = (member.device(), self.context.clock.now());
        // What lets files in without a rule of their own is shown with them.
        let with_moves = self.takes_files_unasked(device);
        let one = |capability: Capability| {
            let rule_of = if with_moves && capability == Capability::File { Capability::Handoff } else { capability };
            let term = self.authorities.term(device, rule_of, now);
            let asking = Asking::of(capability);
            let usual = if asking == Asking::Never { Rule::Accept } else { Rule::Ask };
            let left = term.and_then(|term| term.until_unix_ms).map(|until| until.saturating_sub(now.unix_ms) / 1_000);
            RuleSummary {
                capability,
                granted: member.capabilities.contains(&capability),
                rule: term.map_or(usual, |term| term.rule),
                set: term.is_some(),
                ends_in_s: left,
            }
        };
        PeerRules { id: device, name: member.name.clone(), rules: Capability::ALL.map(one).to_vec() }
    }
}

const NOT_SET: &str = "the rule was not set";

fn unset(error: RuleError, member: &Member, (capability, rule): (Capability, Rule)) -> Failure {
    let line = |end: &str| format!("cede policy {} {} {}{end}", member.name, capability.name(), rule.word());
    let cure = match error {
        RuleError::NeverAsked => format!("cede policy {} {} refuse", member.name, capability.name()),
        RuleError::NeedsEnd if capability == Capability::Handoff => {
            format!("{}, or for a device that nobody sits at: cede policy {} --yes", line(" --for 8h"), member.name)
        }
        RuleError::NeedsEnd | RuleError::TooLong | RuleError::Over => line(" --for 8h"),
    };
    failure(exit::USAGE, NOT_SET, &error.to_string(), &cure)
}
