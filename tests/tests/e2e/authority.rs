//! What a peer may do is decided by the link it asks on: by grant, by rule, by a person.

use cede_wire::audit::DecidedBy;
use cede_wire::authority::Rule;
use cede_wire::control::SendRequest;
use cede_wire::control::decisions::{LogLine, LogVerdict, RuleSummary};
use cede_wire::member::Capability;

use super::*;

#[path = "record.rs"]
mod record;

/// The rule of a device for the other one of the pair.
fn rule(device: &Device, capability: Capability, rule: Rule, seconds: Option<u64>) -> Result<Answer, Failure> {
    let other = if device.name == "server" { "laptop" } else { "server" };
    device.ask(Command::SetRule { device: other.to_owned(), capability, rule, seconds })
}

fn rules(device: &Device) -> Vec<RuleSummary> {
    match device.ask(Command::Policies { device: None }).unwrap() {
        Answer::Policies { mut peers } => peers.remove(0).rules,
        other => panic!("{other:?}"),
    }
}

/// Shows: U-1, U-6
#[test]
fn rule_of_the_operator_answers_moves_and_outlives_a_crash() {
    let mut devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.a);
    rule(&devices.b, Capability::Handoff, Rule::Refuse, None).unwrap();
    devices.b.kill();
    devices.b.start();
    let failed = refused(devices.a.to("server", id));
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Declined)));
    assert!(failed.why.contains("takes no sessions of this device"), "{}", failed.why);
    rule(&devices.a, Capability::Handoff, Rule::Refuse, None).unwrap();
    let failed = refused(take(&devices.b, id));
    assert_eq!((failed.exit, failed.what.as_str()), (exit::USAGE, "no session is meant"), "it is not even listed");
    let asked = [&devices.a, &devices.b].map(|device| device.status().approvals.len());
    assert_eq!(asked, [0, 0], "nobody is asked");
    rule(&devices.b, Capability::Handoff, Rule::Accept, Some(3_600)).unwrap();
    devices.a.to("server", id).unwrap();
    let handoff = rules(&devices.b).into_iter().find(|one| one.capability == Capability::Handoff).unwrap();
    assert!(handoff.set && handoff.ends_in_s.is_some_and(|left| (3_000..=3_600).contains(&left)), "{handoff:?}");
}

/// Shows: U-6
#[test]
fn new_no_answers_the_question_that_waits() {
    let devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.a);
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    question(&devices.b);
    rule(&devices.b, Capability::Handoff, Rule::Refuse, Some(60)).unwrap();
    let failed = refused(asked.end(&mut |_| {}).unwrap());
    assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Declined)));
    assert_eq!(state(&devices.a, id), "in charge here");
}

/// Shows: U-9
#[test]
fn noes_to_moves_make_the_next_question_wait() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (_, id) = adopted(a);
    let (_, there) = adopted(b);
    for _ in 0..2 {
        let asked = a.open(Command::To(request("server", id))).unwrap();
        decide(b, &question(b), false);
        refused(asked.end(&mut |_| {}).unwrap());
    }
    let failed = [refused(a.to("server", id).map(drop)), refused(take(a, there).map(drop))];
    for failed in failed {
        assert_eq!((failed.exit, failed.refusal), (exit::REFUSED, Some(Refusal::Busy)));
        assert!(failed.why.contains("asked too often"), "{}", failed.why);
    }
    assert_eq!(b.status().approvals, []);
}

/// Shows: U-6, F-1
#[test]
fn yes_to_moves_lets_files_in_only_where_it_has_no_end_and_is_shown_so() {
    let devices = Devices::paired(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    std::fs::write(a.home.join("notes.txt"), "seven").unwrap();
    let paths = vec![a.home.join("notes.txt").display().to_string()];
    let sending =
        || SendRequest { device: "server".to_owned(), paths: paths.clone(), wait: true, ..SendRequest::default() };
    let of_files = || rules(b).into_iter().find(|one| one.capability == Capability::File).unwrap();
    rule(b, Capability::Handoff, Rule::Accept, Some(3_600)).unwrap();
    let sent = a.open(Command::Send(sending())).unwrap();
    let waiting = question(b);
    assert_eq!((waiting.kind.as_str(), of_files().rule, of_files().set), ("file", Rule::Ask, false));
    decide(b, &waiting, false);
    refused(sent.end(&mut |_| {}).unwrap());
    b.say_yes_to("laptop");
    assert_eq!((of_files().rule, of_files().set, of_files().ends_in_s), (Rule::Accept, true, None));
    assert!(matches!(a.open(Command::Send(sending())).unwrap().end(&mut |_| {}), Some(Ok(Answer::Sent(_)))));
    // A rule for files goes before it.
    rule(b, Capability::File, Rule::Refuse, None).unwrap();
    assert_eq!(of_files().rule, Rule::Refuse);
    // Nor does it come back when that one's time is over.
    rule(b, Capability::File, Rule::Accept, Some(1)).unwrap();
    wait_until("its time is over", || !of_files().set);
    assert_eq!(of_files().rule, Rule::Ask);
    b.say_yes_to("laptop");
    assert_eq!((of_files().rule, of_files().set), (Rule::Accept, true), "a later yes does");
}

/// Shows: U-7
#[test]
fn yes_to_a_question_that_was_not_looked_at_is_none() {
    let devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.a);
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    let question = question(&devices.b).id.to_string();
    let answer = |digits: usize, yes| devices.b.ask(Command::Decide { approval: question[..digits].to_owned(), yes });
    // Another one that begins like it may have come in its place.
    let failed = refused(answer(4, true));
    assert_eq!((failed.exit, failed.cure.as_str()), (exit::USAGE, "cede approvals"));
    assert_eq!(devices.b.status().approvals.len(), 1);
    answer(8, true).unwrap();
    asked.end(&mut |_| {}).unwrap().unwrap();
}

/// Shows: U-6
#[test]
fn rule_that_cannot_be_is_refused_with_what_to_type() {
    let devices = Devices::paired(CEDE);
    let failed = refused(rule(&devices.a, Capability::Drive, Rule::Accept, None));
    assert_eq!((failed.exit, failed.cure.as_str()), (exit::USAGE, "cede policy server drive accept --for 8h"));
    let failed = refused(rule(&devices.a, Capability::File, Rule::Accept, Some(9 * 3_600)));
    assert_eq!(failed.why, "a standing yes lasts 8 hours at most");
    let failed = refused(rule(&devices.a, Capability::Message, Rule::Hold, None));
    assert_eq!(failed.cure, "cede policy server message refuse");
    assert!(rules(&devices.a).iter().all(|one| !one.set && one.granted));
    let output = devices.a.typed(&["policy", "server", "drive", "accept", "--for", "90s"]);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success() && text.contains("drive     accept  1 min left"), "{text}");
}

fn log(device: &Device) -> (Vec<LogLine>, LogVerdict) {
    match device.ask(Command::Log { tail: None, verify: true }).unwrap() {
        Answer::Log { lines, verdict, .. } => (lines, *verdict.unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Shows: U-10, U-11, U-12
#[test]
fn what_was_decided_is_in_the_record_and_a_cut_or_change_of_it_shows() {
    let mut devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.a);
    let asked = devices.a.open(Command::To(request("server", id))).unwrap();
    decide(&devices.b, &question(&devices.b), true);
    assert!(matches!(asked.end(&mut |_| {}), Some(Ok(Answer::Moved(_)))));
    rule(&devices.b, Capability::File, Rule::Refuse, None).unwrap();
    let (lines, verdict) = log(&devices.b);
    let kinds: Vec<&str> = lines.iter().map(|line| line.kind.as_str()).collect();
    let order = ["asked", "decided", "outcome", "rule-set"].map(|kind| kinds.iter().position(|one| *one == kind));
    assert!(order.is_sorted() && order.iter().all(Option::is_some), "{kinds:?}");
    let of = |kind: &str| lines.iter().find(|line| line.kind == kind).unwrap();
    assert_eq!((of("asked").shown, of("asked").about.clone()), (of("decided").shown, of("outcome").about.clone()));
    assert_eq!((of("decided").allowed, of("decided").by), (Some(true), Some(DecidedBy::Operator)));
    assert!(verdict.holds, "{verdict:?}");
    // A stop signs what there is; what is cut from it afterwards is missed.
    devices.b.stop();
    let file = devices.b.cede_home.join("state/audit/00000001.log");
    let whole = std::fs::read(&file).unwrap();
    for word in ["project", "laptop", "server", "home"] {
        assert!(!whole.windows(word.len()).any(|bytes| bytes == word.as_bytes()), "{word} is in the record");
    }
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    devices.b.start();
    let (_, verdict) = log(&devices.b);
    assert!(!verdict.holds && verdict.faults.iter().any(|fault| fault.contains("lost")), "{verdict:?}");
    devices.b.stop();
    let mut changed = whole;
    changed[200] ^= 1;
    std::fs::write(&file, &changed).unwrap();
    devices.b.start();
    let output = devices.b.typed(&["log", "--verify"]);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("the record is not as it was written"), "{text}");
}

/// Shows: U-5, C-8
#[test]
fn removed_device_is_asked_about_and_served_no_more() {
    let devices = Devices::paired(CEDE);
    let (_, id) = adopted(&devices.b);
    let asked = devices.b.open(Command::To(request("laptop", id))).unwrap();
    question(&devices.a);
    devices.a.ask(Command::Revoke { device: "server".to_owned(), confirmed: true }).unwrap();
    assert_eq!(devices.a.status().approvals.len(), 0, "its question is gone with the answer to the command");
    refused(asked.end(&mut |_| {}).unwrap());
    let acted = log(&devices.a).0.into_iter().find(|line| line.text.contains("removed"));
    assert!(acted.is_some_and(|line| line.kind == "acted"));
}
