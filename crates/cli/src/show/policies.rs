//! What this device answers for its operator.

use cede_wire::authority::Rule;
use cede_wire::control::decisions::{PeerRules, RuleSummary};
use cede_wire::member::Capability;

use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// Each peer with a line for each capability.
pub(crate) fn page(peers: &[PeerRules]) -> Page {
    if peers.is_empty() {
        return Page::of("this device is paired with none, so no rule is needed");
    }
    let mut page = Page::default();
    for peer in peers {
        page.gap();
        page.line([strong(&peer.name), faint(format!(" ({})", peer.id.short()))]);
        page.table(2, peer.rules.iter().map(row).collect(), &[3]);
    }
    page
}

fn row(one: &RuleSummary) -> Vec<Span> {
    if !one.granted {
        return vec![plain(one.capability.name()), faint("not granted"), plain(""), plain("")];
    }
    let ink = match (one.rule, one.set) {
        (Rule::Accept, true) => Ink::Warn,
        (Rule::Refuse, _) => Ink::Bad,
        (Rule::Accept | Rule::Ask | Rule::Hold, _) => Ink::Plain,
    };
    let lasts = match (one.set, one.ends_in_s) {
        (false, _) => "usual".to_owned(),
        (true, Some(seconds)) => format!("{} left", units::rest(seconds)),
        (true, None) => "no end".to_owned(),
    };
    vec![plain(one.capability.name()), Span::new(ink, one.rule.word()), plain(lasts), faint(meaning(one))]
}

/// What the rule means for a person.
fn meaning(one: &RuleSummary) -> &'static str {
    match (one.rule, one.set) {
        (Rule::Accept, true) => "yes, unattended",
        (Rule::Accept, false) => "yes, nobody is asked",
        (Rule::Ask, _) => "you are asked, and have 15 minutes",
        // Whoever wants a move waits no longer.
        (Rule::Hold, _) if one.capability == Capability::Handoff => "kept for you for 15 minutes: cede approvals",
        (Rule::Hold, _) => "kept for you for a day: cede approvals",
        (Rule::Refuse, _) => "no, nobody is asked",
    }
}

#[cfg(test)]
mod tests {
    use cede_wire::id::DeviceId;

    use super::*;

    #[test]
    fn rules_of_a_peer_are_a_table() {
        let usual =
            |capability| RuleSummary { capability, granted: true, rule: Rule::Ask, set: false, ends_in_s: None };
        let mut rules = Capability::ALL.map(usual);
        (rules[0].rule, rules[1].rule) = (Rule::Accept, Rule::Accept);
        rules[2] = RuleSummary { rule: Rule::Refuse, set: true, ..rules[2].clone() };
        rules[3] = RuleSummary { rule: Rule::Accept, set: true, ends_in_s: Some(28_500), ..rules[3].clone() };
        rules[5] = RuleSummary { rule: Rule::Hold, set: true, ends_in_s: Some(40), ..rules[5].clone() };
        rules[6].granted = false;
        let peer = PeerRules { id: DeviceId::new([7; 32]), name: "server".into(), rules: rules.to_vec() };
        insta::assert_snapshot!(page(&[peer]).render(false));
        assert!(page(&[]).render(false).contains("paired with none"));
    }
}
