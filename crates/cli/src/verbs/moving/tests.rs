use std::sync::mpsc::sync_channel;

use cede_wire::control::{Phase, StatusReport};

use super::*;
use crate::args::Global;
use crate::client::Client;
use crate::client::tests::{Step, scripted};
use crate::fault;
use crate::show::samples;
use crate::terminal::Terminal;

fn quiet() -> Terminal {
    Terminal::new(&Global { quiet: true, no_input: true, ..Global::default() })
}

fn sides() -> Sides {
    Sides { source: "this device".into(), destination: "server".into() }
}

/// Watches a move whose events are these.
fn watched_through(client: Client, events: Vec<Event>) -> Result<Answer, Failure> {
    let (send, receive) = sync_channel(events.len());
    events.into_iter().for_each(|event| send.send(event).unwrap());
    drop(send);
    let (terminal, sides) = (quiet(), sides());
    let hand = Hand { client, terminal: &terminal };
    Watch::new(&hand, &sides, Some("fix".into())).until_the_end(&receive).map_err(|ended| ended.failure)
}

fn progress(phase: Phase) -> Event {
    Event::Reply(Box::new(ReplyBody::Progress(samples::progress(phase))))
}

fn said(text: &str) -> Vec<ReplyBody> {
    vec![ReplyBody::Done(Answer::Said { text: text.into() })]
}

fn status(report: StatusReport) -> Vec<ReplyBody> {
    vec![ReplyBody::Done(Answer::Status(Box::new(report)))]
}

/// Shows: L-4
#[test]
fn ctrl_c_withdraws_the_attempt_and_says_what_each_side_holds() {
    let steps = vec![Step::Accept(said("withdrawn")), Step::Accept(status(samples::status()))];
    let (_directory, client, daemon) = scripted(steps);
    let end = Event::Reply(Box::new(ReplyBody::Failed(fault::local(1, "cancelled", "", ""))));
    let failure = watched_through(client, vec![progress(Phase::Staged), Event::Interrupted, end]).unwrap_err();
    assert_eq!(failure.exit, exit::INTERRUPTED);
    assert_eq!(failure.now_at.as_deref(), Some("laptop"));
    assert!(
        failure.why.starts_with("withdrawn; this device was in charge and server held a whole copy"),
        "{}",
        failure.why
    );
    let handoff = samples::progress(Phase::Staged).handoff.unwrap().to_string();
    assert_eq!(daemon.join().unwrap(), [Command::Cancel { handoff }, Command::Status]);
}

#[test]
fn ctrl_c_before_the_offer_withdraws_by_the_session_that_was_typed() {
    let (_directory, client, daemon) = scripted(vec![Step::Accept(said("withdrawn"))]);
    let failure = watched_through(client, vec![Event::Interrupted]).unwrap_err();
    assert!(failure.why.contains("server held nothing of it"), "{}", failure.why);
    assert_eq!(daemon.join().unwrap(), [Command::Cancel { handoff: "fix".into() }]);
}

#[test]
fn ctrl_c_after_the_decision_reports_what_the_daemon_says_of_it() {
    let refusal = vec![ReplyBody::Failed(fault::local(5, "the release is already durable", "", ""))];
    let (_directory, client, _daemon) = scripted(vec![Step::Accept(refusal), Step::Accept(status(samples::status()))]);
    let failure = watched_through(client, vec![progress(Phase::Released), Event::Interrupted]).unwrap_err();
    assert!(
        failure.why.starts_with("not withdrawn: the release is already durable; this device had given it up"),
        "{}",
        failure.why
    );
}

#[test]
fn daemon_that_goes_away_is_a_failure_that_names_the_next_step() {
    let (_directory, client, _daemon) = scripted(Vec::new());
    let failure = watched_through(client, vec![progress(Phase::Offered), Event::Over(AskError::Ended)]).unwrap_err();
    assert_eq!((failure.exit, failure.cure.as_str()), (exit::FAILED, "look where things stand: cede status"));
}

#[test]
fn yes_that_is_needed_is_not_given_without_a_person() {
    let plan = Box::new(samples::plan());
    let needs = fault::local(exit::PENDING, "it needs a yes", "", "add --yes-large");
    let (_directory, client, daemon) =
        scripted(vec![Step::Accept(vec![ReplyBody::Planned(plan), ReplyBody::Failed(needs.clone())])]);
    let terminal = quiet();
    let hand = Hand { client, terminal: &terminal };
    let request = MoveRequest { device: "server".into(), ..MoveRequest::default() };
    assert_eq!(to(&hand, request.clone()), Err(needs));
    assert_eq!(daemon.join().unwrap(), [Command::To(request)]);
}
