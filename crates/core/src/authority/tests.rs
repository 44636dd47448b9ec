use super::*;
use crate::limits::{
    ACCEPT_LONGEST, ASK_PAUSE_FIRST, ASK_PAUSE_LONGEST, ASKED_IN, ASKED_MOST, PENDING_PER_PEER, QUESTION, QUESTION_HELD,
};
use cede_wire::id::Hash;
use cede_wire::limits::SUBJECT_BYTES;

/// Shows: U-2
#[test]
fn presence_and_messages_ask_nobody() {
    let mut one = World::with(None);
    for (id, capability) in [(1, Capability::Presence), (2, Capability::Message)] {
        one.asks(id, capability, "hello");
        assert_eq!(one.decided(id), (true, DecidedBy::Grant));
    }
    assert_eq!(one.asked, 0);
}

/// Shows: U-3
#[test]
fn watching_and_driving_ask_once_on_each_connection() {
    for capability in [Capability::Observe, Capability::Drive] {
        let mut one = World::new();
        one.asks(1, capability, "");
        one.asks(2, capability, "");
        assert_eq!(one.asked, 1, "two at once share a question");
        one.says(OperatorAnswer::Yes);
        assert!(one.decided(1).0 && one.decided(2).0);
        one.asks(3, capability, "");
        assert_eq!((one.asked, one.decided(3)), (1, (true, DecidedBy::Operator)));
        one.reconnects();
        one.asks(4, capability, "");
        assert_eq!(one.asked, 2, "another connection asks anew, however recent the yes");
    }
}

/// Shows: U-3
#[test]
fn declined_connection_stays_declined() {
    let mut one = World::new();
    one.asks(1, Capability::Drive, "");
    one.says(OperatorAnswer::No);
    one.asks(2, Capability::Drive, "");
    assert_eq!((one.asked, one.decided(1), one.decided(2)), (1, NO, NO));
    one.asks(3, Capability::Observe, "");
    assert_eq!(one.asked, 2, "a no to one capability is none to another");
}

/// Shows: U-3, U-15
#[test]
fn answer_of_another_device_counts_as_one_here_and_is_named() {
    let phone = Afar::Approver(DeviceId::new([9; 32]));
    for (from, yes) in [(phone, true), (phone, false), (Afar::Button, true), (Afar::Button, false)] {
        let mut one = World::new();
        one.asks(1, Capability::Drive, "");
        let question = one.authority.questions().next().map(|(id, _, _)| id).unwrap();
        one.authority.handle_afar(&mut one.memory, question, (from, yes), one.now);
        one.drain();
        assert_eq!(one.decided(1), (yes, from.by()));
        one.asks(2, Capability::Drive, "");
        assert_eq!((one.asked, one.decided(2)), (1, (yes, from.by())), "it holds as long");
        one.authority.handle_afar(&mut one.memory, question, (from, !yes), one.now);
        one.drain();
        one.asks(3, Capability::Drive, "");
        assert_eq!(one.decided(3), (yes, from.by()), "a second answer changes nothing");
    }
}

/// Shows: U-3
#[test]
fn what_is_asked_about_each_time_shows_what_it_is() {
    for capability in [Capability::Delegate, Capability::File, Capability::Handoff] {
        let mut one = World::new();
        one.asks(1, capability, "first");
        one.asks(2, capability, "second");
        let shown: Vec<String> =
            one.authority.questions().map(|(_, shown, _)| shown.subject.text().to_owned()).collect();
        assert_eq!((one.asked, shown), (2, vec!["first".to_owned(), "second".to_owned()]));
        one.says(OperatorAnswer::Yes);
        assert!(one.decided(1).0);
        one.says(OperatorAnswer::No);
        assert_eq!(one.decided(2), NO);
        one.asks(3, capability, "first");
        assert_eq!(one.asked, 3, "no answer is kept");
    }
}

/// Shows: U-2
#[test]
fn nobody_to_ask_is_a_no_at_once() {
    let mut one = World::with(None);
    for (id, capability) in [(1, Capability::Delegate), (2, Capability::Drive)] {
        one.asks(id, capability, "x");
        assert_eq!(one.refusal(id), (CapabilityRefusal::NoApprover, DecidedBy::Grant));
    }
    assert_eq!(one.asked, 0);
}

/// Shows: U-4
#[test]
fn operator_who_cannot_be_asked_says_no() {
    let mut one = World::new();
    one.asks(1, Capability::Delegate, "x");
    one.says(OperatorAnswer::Failed);
    assert_eq!(one.decided(1), (false, DecidedBy::Fault));
    one.asks(2, Capability::Drive, "");
    one.says(OperatorAnswer::Failed);
    one.asks(3, Capability::Drive, "");
    assert_eq!((one.decided(2), one.decided(3).0, one.asked), ((false, DecidedBy::Fault), false, 2));
}

/// Shows: U-1
#[test]
fn what_was_not_granted_asks_nobody() {
    let mut one = World::of(&[Capability::Message], Some(OperatorApprover::default()));
    for (id, capability) in (1..).zip(Capability::ALL).filter(|(_, capability)| *capability != Capability::Message) {
        one.asks(id, capability, "x");
        assert_eq!(one.refusal(id), (CapabilityRefusal::NotGranted, DecidedBy::Grant));
    }
    assert_eq!(one.asked, 0);
}

/// Shows: U-4
#[test]
fn request_that_was_withdrawn_before_asks_nobody() {
    let mut one = World::new();
    for (id, capability) in (1..).zip(Capability::ALL) {
        let request = Request::new(RequestId(id), capability).aborted(true);
        one.authority.authorize(&mut one.memory, request, one.now);
        one.drain();
        assert_eq!(one.decided(id), (false, DecidedBy::Withdrawn));
    }
    assert_eq!(one.asked, 0);
}

/// Shows: U-4
#[test]
fn yes_after_a_withdrawal_is_a_no() {
    let mut one = World::new();
    one.asks(1, Capability::File, "x");
    let question = one.waiting[0].id;
    one.withdraws(1);
    assert_eq!((one.decided(1), one.waiting.len()), ((false, DecidedBy::Withdrawn), 0), "the question is taken back");
    one.authority.handle_answer(&mut one.memory, question, OperatorAnswer::Yes, one.now);
    assert_eq!(one.authority.poll(), None);
    one.withdraws(1);
    assert_eq!(one.authority.poll(), None, "what is decided is withdrawn no more");
}

/// Shows: U-4
#[test]
fn shared_yes_is_none_for_the_one_who_withdrew() {
    let mut one = World::new();
    one.asks(1, Capability::Observe, "");
    one.asks(2, Capability::Observe, "");
    one.withdraws(1);
    assert_eq!(one.waiting.len(), 1, "another waits for it");
    one.says(OperatorAnswer::Yes);
    assert_eq!((one.decided(1), one.decided(2)), ((false, DecidedBy::Withdrawn), (true, DecidedBy::Operator)));
    let aborted = Request::new(RequestId(3), Capability::Observe).aborted(true);
    one.authority.authorize(&mut one.memory, aborted, one.now);
    one.drain();
    assert_eq!(one.decided(3).1, DecidedBy::Withdrawn, "a yes that is kept looks at the caller too");
}

/// Shows: U-4
#[test]
fn withdrawn_question_says_nothing_about_the_capability() {
    let mut one = World::new();
    one.asks(1, Capability::Drive, "");
    one.withdraws(1);
    one.asks(2, Capability::Drive, "");
    assert_eq!(one.asked, 2);
}

/// Shows: U-5
#[test]
fn close_takes_questions_back_and_refuses_everything() {
    let mut one = World::new();
    one.asks(1, Capability::Drive, "");
    one.says(OperatorAnswer::Yes);
    one.asks(2, Capability::File, "x");
    one.asks(3, Capability::Observe, "");
    one.asks(4, Capability::Observe, "");
    assert!(!one.authority.is_closed());
    one.authority.close(&mut one.memory);
    one.drain();
    assert!(one.waiting.is_empty() && one.authority.is_closed() && one.authority.poll_timeout().is_none());
    for id in 2..=4 {
        assert_eq!(one.decided(id), (false, DecidedBy::Closed));
    }
    for (id, capability) in (10..).zip(Capability::ALL) {
        one.asks(id, capability, "x");
        assert_eq!(one.refusal(id), (CapabilityRefusal::Declined, DecidedBy::Closed), "{capability:?}");
    }
    assert!(one.memory.room(one.now) > 0, "the questions that are gone wait no more");
}

/// Shows: U-1
#[test]
fn list_that_changes_later_widens_nothing() {
    let mut list = vec![Capability::Presence];
    let approver = Some(OperatorApprover::default());
    let mut one = World::of(&list, approver);
    list.push(Capability::Message);
    one.asks(1, Capability::Message, "x");
    assert_eq!((one.refusal(1).0, list.len()), (CapabilityRefusal::NotGranted, 2));
}

/// Shows: U-4
#[test]
fn silence_is_a_no() {
    let mut one = World::new();
    one.asks(1, Capability::File, "x");
    one.asks(2, Capability::Drive, "");
    assert_eq!(one.authority.poll_timeout(), Some(one.now.after(QUESTION)));
    one.passes(QUESTION - Duration::from_millis(1));
    assert_eq!(one.waiting.len(), 2);
    let question = one.waiting[0].id;
    one.passes(Duration::from_millis(1));
    assert_eq!((one.decided(1), one.decided(2)), ((false, DecidedBy::Time), (false, DecidedBy::Time)));
    one.authority.handle_answer(&mut one.memory, question, OperatorAnswer::Yes, one.now);
    assert_eq!(one.authority.poll(), None);
    one.asks(3, Capability::Drive, "");
    assert_eq!((one.decided(3), one.asked), (NO, 2), "silence counts on this connection as a no does");
}

/// Shows: U-4
#[test]
fn yes_at_the_last_moment_is_late_where_nobody_looked_at_the_clock() {
    let mut one = World::new();
    one.asks(1, Capability::File, "x");
    one.now = later(one.now, QUESTION);
    one.says(OperatorAnswer::Yes);
    assert_eq!(one.decided(1), (false, DecidedBy::Time));
}

/// Shows: U-6
#[test]
fn question_that_is_kept_for_later_has_a_day() {
    let mut one = World::new();
    one.rule(Capability::File, Rule::Hold, None);
    one.asks(1, Capability::File, "x");
    assert!(one.waiting[0].held);
    one.passes(QUESTION_HELD - Duration::from_secs(1));
    one.says(OperatorAnswer::Yes);
    assert_eq!(one.decided(1), (true, DecidedBy::Operator));
    let approver = OperatorApprover { interactive: Duration::MAX, held: Duration::MAX };
    assert_eq!((approver.patience(false), approver.patience(true)), (QUESTION, QUESTION_HELD), "nobody has longer");
}

/// Shows: U-6
#[test]
fn rule_answers_for_the_operator_until_it_ends() {
    let mut one = World::new();
    one.rule(Capability::File, Rule::Accept, Some(Duration::from_secs(60)));
    one.rule(Capability::Message, Rule::Refuse, None);
    one.asks(1, Capability::File, "x");
    one.asks(2, Capability::Message, "x");
    assert_eq!((one.decided(1), one.decided(2)), ((true, DecidedBy::Rule), (false, DecidedBy::Rule)));
    assert_eq!(one.memory.rules(one.now).count(), 2);
    one.passes(Duration::from_secs(60));
    one.asks(3, Capability::File, "x");
    assert_eq!((one.asked, one.memory.rules(one.now).count()), (1, 1), "after its end the operator is asked again");
    one.memory.clear_rule(Capability::Message);
    one.asks(4, Capability::Message, "x");
    assert!(one.decided(4).0);
}

/// Shows: U-6
#[test]
fn clock_that_is_set_back_prolongs_no_yes() {
    let mut one = World::new();
    one.rule(Capability::File, Rule::Accept, Some(Duration::from_secs(60)));
    one.rule(Capability::Drive, Rule::Refuse, Some(Duration::from_secs(60)));
    one.now.unix_ms -= 500_000;
    assert_eq!(one.memory.rule(Capability::File, one.now), None, "before it was given");
    one.now.unix_ms += 500_000;
    one.now.monotonic += Duration::from_secs(60);
    assert_eq!(one.memory.rule(Capability::File, one.now), None, "its time is over by the other clock");
    assert_eq!(one.memory.rule(Capability::Drive, one.now), Some(Rule::Refuse), "a no waits for both");
    one.now.unix_ms += 60_000;
    assert_eq!(one.memory.rule(Capability::Drive, one.now), None);
}

/// Shows: U-6
#[test]
fn clock_that_is_set_forward_ends_a_yes_and_no_no() {
    let mut one = World::new();
    one.rule(Capability::File, Rule::Accept, Some(Duration::from_secs(60)));
    one.rule(Capability::Drive, Rule::Refuse, Some(Duration::from_secs(60)));
    one.rule(Capability::Message, Rule::Accept, None);
    one.now.unix_ms += 60_000;
    let rule = |one: &World, capability| one.memory.rule(capability, one.now);
    assert_eq!((rule(&one, Capability::File), rule(&one, Capability::Drive)), (None, Some(Rule::Refuse)));
    one.now.unix_ms -= 500_000;
    assert_eq!(rule(&one, Capability::Message), Some(Rule::Accept), "what has no end asks no clock");
}

/// Shows: U-6
#[test]
fn standing_yes_to_what_needs_a_person_ends() {
    let now = START;
    let hours = |h: u64| Some(Duration::from_secs(h * 3_600));
    for capability in
        [Capability::Delegate, Capability::File, Capability::Handoff, Capability::Observe, Capability::Drive]
    {
        let term = |life| Term::new(capability, Rule::Accept, life, now);
        assert_eq!(term(None), Err(RuleError::NeedsEnd));
        assert_eq!(term(hours(9)), Err(RuleError::TooLong));
        assert_eq!(term(Some(Duration::ZERO)), Err(RuleError::Over));
        assert!(term(Some(ACCEPT_LONGEST)).is_ok());
        assert!(Term::new(capability, Rule::Refuse, None, now).is_ok());
    }
    for rule in [Rule::Ask, Rule::Hold] {
        assert_eq!(Term::new(Capability::Message, rule, None, now), Err(RuleError::NeverAsked));
    }
    assert!(Term::new(Capability::Message, Rule::Accept, None, now).is_ok());
    assert!(Term::new(Capability::Message, Rule::Accept, hours(9), now).is_ok(), "nobody is asked about messages");
}

/// Shows: U-6
#[test]
fn new_rule_answers_questions_that_wait() {
    let mut one = World::new();
    one.asks(1, Capability::File, "x");
    one.asks(2, Capability::Drive, "");
    one.asks(3, Capability::Delegate, "x");
    one.rule(Capability::File, Rule::Accept, Some(Duration::from_secs(60)));
    one.rule(Capability::Drive, Rule::Refuse, Some(Duration::from_secs(60)));
    one.rule(Capability::Delegate, Rule::Hold, None);
    one.authority.rules_changed(&mut one.memory, one.now);
    one.drain();
    assert_eq!((one.decided(1), one.decided(2)), ((true, DecidedBy::Rule), (false, DecidedBy::Rule)));
    assert_eq!(one.waiting.len(), 1);
    one.passes(Duration::from_secs(60));
    one.asks(4, Capability::Drive, "");
    assert_eq!(one.asked, 4, "what a rule said ends with the rule");
}

/// Shows: U-6
#[test]
fn rule_goes_before_what_was_answered_on_this_connection() {
    let mut one = World::new();
    one.asks(1, Capability::Drive, "");
    one.says(OperatorAnswer::Yes);
    one.rule(Capability::Drive, Rule::Refuse, None);
    one.asks(2, Capability::Drive, "");
    assert_eq!(one.decided(2), (false, DecidedBy::Rule));
}

/// Shows: U-6
#[test]
fn rule_to_ask_asks_as_where_there_is_no_rule() {
    let mut one = World::new();
    one.rule(Capability::File, Rule::Accept, Some(Duration::from_secs(60)));
    one.rule(Capability::File, Rule::Ask, None);
    one.asks(1, Capability::File, "x");
    assert_eq!((one.asked, one.waiting[0].held), (1, false));
    assert_eq!(one.waiting[0].expires, one.now.after(QUESTION));
}

/// Shows: U-6, U-7
#[test]
fn yes_of_a_rule_is_not_said_to_be_the_one_that_a_person_gave_before() {
    let mut one = World::new();
    one.asks(1, Capability::Drive, "");
    one.says(OperatorAnswer::Yes);
    one.asks(2, Capability::Drive, "");
    one.rule(Capability::Drive, Rule::Accept, Some(Duration::from_secs(60)));
    one.asks(3, Capability::Drive, "");
    assert_eq!((one.decided(2), one.decided(3)), ((true, DecidedBy::Operator), (true, DecidedBy::Rule)));
    let shown = [1, 2, 3].map(|id| one.permit(id).hash());
    assert_eq!((shown[0] == shown[1], shown[0] == shown[2]), (true, false), "only the first was shown to anybody");
}

/// Shows: U-9
#[test]
fn more_than_three_questions_of_a_peer_do_not_wait() {
    let mut one = World::new();
    for id in 1..=4 {
        one.asks(id, Capability::File, "x");
    }
    assert_eq!((one.asked, one.decided(4)), (PENDING_PER_PEER, (false, DecidedBy::Pace)));
    let mut memory = core::mem::take(&mut one.memory);
    let mut other = World::new();
    other.authority.authorize(&mut memory, Request::new(RequestId(1), Capability::File), other.now);
    other.drain();
    assert_eq!(other.decided(1).1, DecidedBy::Pace, "another connection of the same peer does not help");
}

/// Shows: U-9
#[test]
fn each_no_makes_the_next_question_wait_longer() {
    let mut one = World::new();
    let ask = |one: &mut World| {
        let id = one.next();
        one.asks(id, Capability::File, "x");
        !one.decisions.contains_key(&id)
    };
    assert!(ask(&mut one));
    one.says(OperatorAnswer::No);
    assert!(ask(&mut one), "a slip may be repeated at once");
    one.says(OperatorAnswer::No);
    assert!(!ask(&mut one));
    one.passes(ASK_PAUSE_FIRST);
    assert!(ask(&mut one));
    one.says(OperatorAnswer::No);
    one.passes(ASK_PAUSE_FIRST);
    assert!(!ask(&mut one));
    one.passes(ASK_PAUSE_FIRST);
    assert!(ask(&mut one));
    one.says(OperatorAnswer::Yes);
    assert!(ask(&mut one), "a yes ends it");
    one.says(OperatorAnswer::No);
    assert!(ask(&mut one), "and the next no is a slip again");
    for _ in 0..40 {
        one.says(OperatorAnswer::No);
        one.passes(ASK_PAUSE_LONGEST);
        assert!(ask(&mut one), "and no pause is longer than the longest");
    }
}

/// Shows: U-9
#[test]
fn question_that_is_asked_elsewhere_counts_like_one_of_an_authority() {
    let mut one = World::new();
    for id in 1..=2 {
        one.asks(id, Capability::File, "x");
    }
    assert!(one.memory.begin_question(one.now), "a handoff is the third");
    one.asks(3, Capability::File, "x");
    assert_eq!(one.decided(3), (false, DecidedBy::Pace));
    assert!(!one.memory.begin_question(one.now));
    one.memory.end_question((false, DecidedBy::Operator), one.now);
    assert!(one.memory.begin_question(one.now));
    one.memory.end_question((false, DecidedBy::Time), one.now);
    one.asks(4, Capability::File, "x");
    assert_eq!(one.decided(4), (false, DecidedBy::Pace), "its noes make every next question wait");
    one.passes(ASK_PAUSE_FIRST);
    assert!(one.memory.begin_question(one.now));
    one.memory.question_over();
    assert!(one.memory.begin_question(one.now), "one that was taken back says nothing");
    one.memory.end_question((true, DecidedBy::Operator), one.now);
    assert!(one.memory.begin_question(one.now));
}

/// Shows: U-9
#[test]
fn flood_of_questions_is_slowed_even_where_each_is_a_yes() {
    let mut one = World::new();
    for _ in 0..ASKED_MOST {
        let id = one.next();
        one.asks(id, Capability::File, "x");
        one.says(OperatorAnswer::Yes);
    }
    one.asks(1_000, Capability::File, "x");
    assert_eq!(one.decided(1_000), (false, DecidedBy::Pace));
    one.passes(ASKED_IN);
    one.asks(1_001, Capability::File, "x");
    assert_eq!(one.waiting.len(), 1);
}

/// Shows: U-9
#[test]
fn crowd_behind_one_question_is_bounded() {
    let mut one = World::new();
    for id in 1..=REQUESTS_PER_QUESTION as u64 + 1 {
        one.asks(id, Capability::Drive, "");
    }
    assert_eq!(one.asked, 1);
    assert_eq!(one.decided(REQUESTS_PER_QUESTION as u64 + 1), (false, DecidedBy::Pace));
    one.asks(1, Capability::Drive, "");
    assert_eq!(one.decisions.len(), 1, "the same request again is the same request");
}

/// Shows: U-4
#[test]
fn approved_delegation_becomes_a_turn_of_the_peer() {
    let mut one = World::new();
    let delegation = Delegation {
        request: RequestId(1),
        session: Some(SessionId::new([5; 16])),
        task: "run".to_owned(),
        ..nothing()
    };
    one.authority.authorize_delegation(&mut one.memory, &delegation, false, one.now);
    one.drain();
    assert_eq!(one.waiting[0].shown.subject.text(), "run");
    one.says(OperatorAnswer::Yes);
    let turn = one.permit(1).into_turn(&delegation).unwrap();
    assert_eq!((turn.task.as_str(), turn.message, turn.reply_to.session), ("run", RequestId(1), delegation.session));
    assert_eq!(turn.driver, format!("peer:{}", SessionId::new([5; 16])));
    let nobody = Delegation { session: None, ..delegation };
    assert_eq!(nobody.turn_of(one.authority.peer()).driver, format!("peer:{}", DEVICE));
}

/// Shows: U-7
#[test]
fn permit_for_another_task_or_capability_is_no_turn() {
    let mut one = World::new();
    let task = |task: &str| Delegation { request: RequestId(1), session: None, task: task.to_owned(), ..nothing() };
    one.authority.authorize_delegation(&mut one.memory, &task("run"), false, one.now);
    one.drain();
    one.says(OperatorAnswer::Yes);
    assert_eq!(one.permit(1).into_turn(&task("run rm")), Err(Swapped));
    one.asks(2, Capability::File, "run");
    one.says(OperatorAnswer::Yes);
    assert_eq!(one.permit(2).into_turn(&task("run")), Err(Swapped));
    let long = "x".repeat(SUBJECT_BYTES + 1);
    one.asks(3, Capability::Delegate, "x");
    one.says(OperatorAnswer::Yes);
    assert_eq!(one.permit(3).into_turn(&task(&long)), Err(Swapped));
}

/// Shows: U-7, E-3
#[test]
fn permit_is_for_the_whole_scope_of_a_task() {
    let shown = Delegation {
        task: "run".to_owned(),
        scope: vec![("in".to_owned(), "/srv/a".to_owned()), ("may".to_owned(), "look only".to_owned())],
        digest: Some(Hash::of(b"request")),
        ..nothing()
    };
    let others = [
        Delegation { digest: Some(Hash::of(b"another")), ..shown.clone() },
        Delegation { digest: None, ..shown.clone() },
        Delegation { scope: vec![("in".to_owned(), "/srv/b".to_owned()), shown.scope[1].clone()], ..shown.clone() },
        Delegation { scope: shown.scope[..1].to_vec(), ..shown.clone() },
        Delegation { session: Some(SessionId::new([5; 16])), ..shown.clone() },
    ];
    for other in others {
        let mut one = World::new();
        one.authority.authorize_delegation(&mut one.memory, &shown, false, one.now);
        one.drain();
        assert_eq!(one.waiting[0].shown.subject.lines(), shown.scope);
        one.says(OperatorAnswer::Yes);
        assert_eq!(one.permit(1).into_turn(&other), Err(Swapped), "{other:?}");
    }
}

fn nothing() -> Delegation {
    Delegation { request: RequestId(1), session: None, task: String::new(), scope: Vec::new(), digest: None }
}

/// Shows: U-4
#[test]
fn task_that_cannot_be_shown_is_declined_unasked() {
    let mut one = World::new();
    let task = "x".repeat(SUBJECT_BYTES + 1);
    let delegation = Delegation { request: RequestId(1), session: None, task, ..nothing() };
    one.authority.authorize_delegation(&mut one.memory, &delegation, false, one.now);
    one.drain();
    assert_eq!((one.decided(1), one.asked), ((false, DecidedBy::Size), 0));
}

/// Shows: U-7
#[test]
fn thousand_swaps_of_what_was_shown_pass_never() {
    let mut passed = 0;
    for number in 0..if cfg!(miri) { 12 } else { 1_000_u64 } {
        let mut one = World::new();
        let noise = Hash::of(&number.to_le_bytes());
        let subject = Subject::new(&format!("file {noise}")).unwrap().with("path", "a/b").unwrap().bound_to(noise);
        let request = Request::new(RequestId(1), Capability::File).about(subject.clone());
        one.authority.authorize(&mut one.memory, request, one.now);
        one.drain();
        one.says(OperatorAnswer::Yes);
        let (named, permit) = (one.named(1), one.permit(1));
        assert_eq!((named, permit.capability()), (Some(permit.hash()), Capability::File));
        passed += usize::from(permit.redeem(&swapped(&subject, number)).is_ok());
    }
    assert_eq!(passed, 0);
}

/// Shows: U-7
#[test]
fn no_two_questions_have_the_same_bytes() {
    let mut one = World::new();
    one.asks(1, Capability::File, "same");
    one.asks(2, Capability::File, "same");
    let hashes: BTreeSet<Hash> = one.waiting.iter().map(|question| question.hash).collect();
    assert_eq!(hashes.len(), 2);
    assert!(one.waiting.iter().all(|question| question.hash == question.shown.hash()));
    assert_eq!(one.waiting.iter().map(|question| question.shown.number).collect::<Vec<_>>(), [1, 2]);
}

/// Shows: U-3, U-10
#[test]
fn question_and_all_that_it_decides_are_recorded_under_one_number() {
    let mut one = World::new();
    one.asks(7, Capability::Drive, "");
    one.asks(8, Capability::Drive, "");
    one.asks(9, Capability::Drive, "");
    one.asks(10, Capability::File, "notes.txt");
    let put: Vec<u64> = one.waiting.iter().map(|question| question.request.0).collect();
    assert_eq!(put, [7, 10], "by the request that was the first");
    one.withdraws(7);
    one.withdraws(8);
    one.says(OperatorAnswer::Yes);
    one.says(OperatorAnswer::No);
    one.asks(11, Capability::Drive, "");
    let recorded = [7, 8, 9, 10, 11].map(|id| one.decisions[&id].recorded.0);
    assert_eq!(recorded, [7, 7, 7, 10, 11], "one that needed no question has its own number");
    one.asks(12, Capability::Observe, "");
    one.asks(13, Capability::Observe, "");
    one.reconnects();
    assert_eq!([12, 13].map(|id| one.decisions[&id].recorded.0), [12, 12], "when the connection ends too");
}

/// Shows: U-9
#[test]
fn room_says_how_many_questions_more_are_put() {
    let mut one = World::new();
    for number in 0..=PENDING_PER_PEER {
        assert_eq!(one.memory.room(one.now), PENDING_PER_PEER - number);
        one.asks(number as u64, Capability::File, "");
    }
    for number in 0..ASKED_MOST - PENDING_PER_PEER {
        one.says(OperatorAnswer::Yes);
        one.asks(100 + number as u64, Capability::File, "");
    }
    one.says(OperatorAnswer::Yes);
    assert_eq!((one.waiting.len(), one.memory.room(one.now)), (PENDING_PER_PEER - 1, 0), "they were many in this time");
    one.now = later(one.now, ASKED_IN);
    assert_eq!(one.memory.room(one.now), 1);
    (0..ASKED_MOST).for_each(|_| one.memory.end_question(NO, one.now));
    assert_eq!(one.memory.room(one.now), 0, "a no is followed by quiet");
}

#[test]
fn words_for_records_and_peers_are_their_own() {
    use DecidedBy::{Button, Closed, Fault, Grant, Operator, Pace, Size, Time, Withdrawn};
    let by = [Grant, DecidedBy::Rule, Operator, Time, Fault, Pace, Size, Withdrawn, Closed, Button];
    assert_eq!(by.map(DecidedBy::word).iter().collect::<BTreeSet<_>>().len(), by.len());
    use CapabilityRefusal::{Declined, NoApprover, NotGranted};
    let refusals = [NotGranted, NoApprover, Declined].map(|why| why.refusal().word());
    assert_eq!(refusals, ["not-granted", "no-approver", "declined"]);
    let one = World::new();
    assert_eq!((one.authority.id(), one.authority.peer().device), (ConnectionId::new([1; 16]), DEVICE));
}

/// Changes one thing in a subject.
fn swapped(subject: &Subject, number: u64) -> Subject {
    let text = subject.text();
    let at = usize::try_from(number).unwrap() % text.len();
    let changed: String = text.char_indices().map(|(i, c)| if i == at { '~' } else { c }).collect();
    let other = Hash::of(b"other");
    let lines = |text: &str, path: &str| Subject::new(text).unwrap().with("path", path).unwrap();
    let content = subject.content().unwrap();
    match number % 6 {
        0 => lines(&changed, "a/b").bound_to(content),
        1 => lines(text, "a/c").bound_to(content),
        2 => lines(text, "a/b").bound_to(other),
        3 => lines(text, "a/b"),
        4 => lines(text, "a/b").with("path", "a/b").unwrap().bound_to(content),
        _ => Subject::new(&format!("{text}\u{200b}")).unwrap().with("path", "a/b").unwrap().bound_to(content),
    }
}

const DEVICE: DeviceId = DeviceId::new([7; 32]);
const START: Now = Now { monotonic: Duration::from_secs(1_000), unix_ms: 1_000_000 };
const NO: (bool, DecidedBy) = (false, DecidedBy::Operator);

fn later(now: Now, by: Duration) -> Now {
    let unix_ms = now.unix_ms + u64::try_from(by.as_millis()).unwrap();
    Now { monotonic: now.monotonic + by, unix_ms }
}

/// A connection, its peer's memory, and an operator who sees every question.
struct World {
    authority: ConnectionAuthority,
    memory: PeerMemory,
    now: Now,
    asked: usize,
    waiting: Vec<Question>,
    decisions: BTreeMap<u64, Decided>,
    ids: u64,
}

impl World {
    fn new() -> Self {
        Self::with(Some(OperatorApprover::default()))
    }

    fn with(approver: Option<OperatorApprover>) -> Self {
        Self::of(&Capability::ALL, approver)
    }

    fn of(granted: &[Capability], approver: Option<OperatorApprover>) -> Self {
        let peer = ConnectedPeer { device: DEVICE, session: None, locality: Locality::AnotherHost };
        Self {
            authority: ConnectionAuthority::new(ConnectionId::new([1; 16]), peer, granted, approver),
            memory: PeerMemory::default(),
            now: START,
            asked: 0,
            waiting: Vec::new(),
            decisions: BTreeMap::new(),
            ids: 0,
        }
    }

    fn reconnects(&mut self) {
        self.authority.close(&mut self.memory);
        self.drain();
        let (peer, approver) = (self.authority.peer(), Some(OperatorApprover::default()));
        self.authority = ConnectionAuthority::new(ConnectionId::new([2; 16]), peer, &Capability::ALL, approver);
    }

    fn next(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn asks(&mut self, id: u64, capability: Capability, about: &str) {
        let request = Request::new(RequestId(id), capability).about(Subject::new(about).unwrap());
        self.authority.authorize(&mut self.memory, request, self.now);
        self.drain();
    }

    fn withdraws(&mut self, id: u64) {
        self.authority.withdraw(&mut self.memory, RequestId(id));
        self.drain();
    }

    fn says(&mut self, answer: OperatorAnswer) {
        let question = self.waiting.remove(0);
        self.authority.handle_answer(&mut self.memory, question.id, answer, self.now);
        self.drain();
    }

    fn passes(&mut self, time: Duration) {
        self.now = later(self.now, time);
        self.authority.handle_timeout(&mut self.memory, self.now);
        self.drain();
    }

    fn rule(&mut self, capability: Capability, rule: Rule, life: Option<Duration>) {
        let term = Term::new(capability, rule, life, self.now).unwrap();
        self.memory.set_rule(capability, term, self.now);
    }

    fn drain(&mut self) {
        while let Some(output) = self.authority.poll() {
            match output {
                Output::Ask(question) => {
                    self.asked += 1;
                    self.waiting.push(question);
                }
                Output::Withdraw(id) => self.waiting.retain(|question| question.id != id),
                Output::Decided(decided) => {
                    let id = decided.request.0;
                    assert!(self.decisions.insert(id, decided).is_none(), "{id} was decided twice");
                }
                Output::Wake(at) => assert!(at > self.now.monotonic),
            }
        }
    }

    fn decided(&self, id: u64) -> (bool, DecidedBy) {
        let decision = &self.decisions[&id].decision;
        (decision.is_allowed(), decision.by())
    }

    fn refusal(&self, id: u64) -> (CapabilityRefusal, DecidedBy) {
        let CapabilityDecision::Refused { why, by } = self.decisions[&id].decision else { panic!("{id} is allowed") };
        (why, by)
    }

    fn named(&self, id: u64) -> Option<Hash> {
        self.decisions[&id].asked
    }

    fn permit(&mut self, id: u64) -> Permit {
        let decided = self.decisions.remove(&id).unwrap();
        let CapabilityDecision::Allowed(permit) = decided.decision else { panic!("{id} is refused") };
        permit
    }
}
