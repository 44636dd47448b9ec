use cede_seal::device::LocalDevice;
use cede_seal::verify::verify;
use cede_wire::approver::{Posed, Wanted};
use cede_wire::audit::AuditOf;
use cede_wire::id::HandoffId;

use super::*;

const WHO: DeviceId = DeviceId::new([1; 32]);
const QUESTION: ApprovalId = ApprovalId::new([5; 8]);

fn me() -> DeviceId {
    LocalDevice::from_secret(&[2; 32]).device()
}

fn phone() -> LocalDevice {
    LocalDevice::from_secret(&[3; 32])
}

fn posed() -> Posed {
    Posed {
        at: me(),
        question: QUESTION,
        who: WHO,
        of: AuditOf::Handoff(HandoffId::new([9; 16])),
        about: Hash::of(b"scope"),
        wants: Wanted::Receive,
        title: "Fix the login".into(),
        agent: None,
        directory: "/home/ada/project".into(),
        turns: 12,
        inventory: Vec::new(),
        executables: vec!["run".into()],
        dotfiles: Vec::new(),
        configuration_as_code: vec!["Makefile".into()],
        limit_bytes: 1 << 20,
        secret_looking: Vec::new(),
        files: Vec::new(),
        note: String::new(),
    }
}

fn stands(posed: &Posed) -> Standing {
    Standing { who: posed.who, shown: posed.hash() }
}

fn answer() -> ApproverAnswer {
    let (by, at, shown) = (phone().device(), me(), posed().hash());
    ApproverAnswer { by, at, question: QUESTION, showing: ShowingId::new([7; 16]), shown, yes: true }
}

/// What the phone was shown.
fn showing() -> Approvers {
    let mut approvers = Approvers::default();
    approvers.set(phone().device(), true);
    approvers.show(phone().device(), QUESTION, stands(&posed()), ShowingId::new([7; 16])).unwrap();
    approvers
}

fn say(approvers: &mut Approvers, answer: &ApproverAnswer, stands: Option<Standing>) -> Result<bool, NoAnswer> {
    let signed = [phone(), LocalDevice::from_secret(&[4; 32])].into_iter().find(|device| device.device() == answer.by);
    let signed = verify(&signed.unwrap().sign(answer).unwrap()).unwrap();
    approvers.handle_answer((me(), phone().device()), &signed, stands)
}

fn over(approvers: &mut Approvers, waits: fn(ApprovalId) -> bool) -> Vec<(DeviceId, ShowingId)> {
    approvers.end(waits)
}

/// Shows: U-15
#[test]
fn answer_to_what_was_shown_counts_once() {
    for yes in [true, false] {
        let mut approvers = showing();
        let answer = ApproverAnswer { yes, ..answer() };
        assert_eq!(say(&mut approvers, &answer, Some(stands(&posed()))), Ok(yes));
        assert_eq!(say(&mut approvers, &answer, Some(stands(&posed()))), Err(NoAnswer::Swapped), "replayed");
        assert_eq!(say(&mut approvers, &answer, None), Err(NoAnswer::Late));
    }
}

/// Shows: U-14
#[test]
fn device_that_nobody_named_and_one_that_was_removed_answer_nothing() {
    let now = Some(stands(&posed()));
    assert_eq!(say(&mut Approvers::default(), &answer(), now), Err(NoAnswer::NoApprover));
    let mut approvers = showing();
    approvers.set(phone().device(), false);
    assert_eq!(say(&mut approvers, &answer(), now), Err(NoAnswer::NoApprover));
    assert_eq!(over(&mut approvers, |_| true), [(phone().device(), ShowingId::new([7; 16]))]);
    approvers.set(phone().device(), true);
    assert_eq!(say(&mut approvers, &answer(), now), Err(NoAnswer::Swapped), "named again, and not shown it again");
    let mut approvers = showing();
    approvers.retain(|device| device != phone().device());
    assert_eq!(say(&mut approvers, &answer(), now), Err(NoAnswer::NoApprover));
}

/// Shows: U-14
#[test]
fn nothing_is_shown_to_a_device_that_nobody_named() {
    let mut approvers = Approvers::default();
    let show = |approvers: &mut Approvers| {
        approvers.show(phone().device(), QUESTION, stands(&posed()), ShowingId::new([7; 16]))
    };
    assert_eq!(show(&mut approvers), Err(NotShown::NoApprover));
    assert!(!approvers.may_answer(phone().device()) && !approvers.shows(phone().device(), QUESTION, posed().hash()));
    approvers.set(phone().device(), true);
    assert_eq!((show(&mut approvers), approvers.may_answer(phone().device())), (Ok(()), true));
    assert!(!approvers.shows(phone().device(), QUESTION, Hash::of(b"other bytes")));
}

/// Shows: U-14
#[test]
fn devices_may_answer_after_a_restart_and_are_shown_each_question_anew() {
    let named = BTreeSet::from([phone().device()]);
    let mut approvers = Approvers::restore(named.clone());
    assert_eq!(approvers.devices().collect::<BTreeSet<_>>(), named);
    assert_eq!(say(&mut approvers, &answer(), Some(stands(&posed()))), Err(NoAnswer::Swapped), "shown in another run");
    approvers.show(phone().device(), QUESTION, stands(&posed()), ShowingId::new([7; 16])).unwrap();
    assert_eq!(say(&mut approvers, &answer(), Some(stands(&posed()))), Ok(true));
}

/// Shows: U-15
#[test]
fn device_whose_answer_is_none_learns_no_more_than_whether_it_was_late() {
    let told = [NoAnswer::Late, NoAnswer::NoApprover, NoAnswer::ItsOwn, NoAnswer::Swapped].map(NoAnswer::outcome);
    assert_eq!(told, [AnswerTaken::Late, AnswerTaken::Refused, AnswerTaken::Refused, AnswerTaken::Refused]);
}

/// Shows: U-14
#[test]
fn device_answers_no_question_about_itself() {
    let own = Standing { who: phone().device(), ..stands(&posed()) };
    let mut approvers = showing();
    assert_eq!(approvers.show(phone().device(), QUESTION, own, ShowingId::new([8; 16])), Err(NotShown::ItsOwn));
    assert_eq!(say(&mut approvers, &answer(), Some(own)), Err(NoAnswer::ItsOwn));
}

/// Shows: U-15
#[test]
fn showing_dies_with_its_connection_and_its_question() {
    let now = Some(stands(&posed()));
    let mut approvers = showing();
    approvers.link_changed(phone().device());
    assert_eq!(say(&mut approvers, &answer(), now), Err(NoAnswer::Swapped));
    let mut approvers = showing();
    assert_eq!(over(&mut approvers, |question| question != QUESTION), [(phone().device(), ShowingId::new([7; 16]))]);
    assert_eq!(say(&mut approvers, &answer(), now), Err(NoAnswer::Swapped));
    let mut approvers = showing();
    approvers.show(phone().device(), QUESTION, stands(&posed()), ShowingId::new([8; 16])).unwrap();
    assert_eq!(say(&mut approvers, &answer(), now), Err(NoAnswer::Swapped), "it was shown again since");
}

/// Shows: U-16
#[test]
fn no_more_is_shown_to_a_device_than_may_wait_there() {
    let mut approvers = showing();
    let show = |approvers: &mut Approvers, n: usize| {
        approvers.show(phone().device(), ApprovalId::new([n as u8 + 10; 8]), stands(&posed()), ShowingId::new([1; 16]))
    };
    let tablet = DeviceId::new([6; 32]);
    approvers.set(tablet, true);
    approvers.show(tablet, QUESTION, stands(&posed()), ShowingId::new([2; 16])).unwrap();
    assert!((1..SHOWINGS_PER_APPROVER).all(|n| show(&mut approvers, n).is_ok()), "what waits elsewhere takes no room");
    assert_eq!(show(&mut approvers, SHOWINGS_PER_APPROVER), Err(NotShown::TooMany));
    let again = approvers.show(phone().device(), QUESTION, stands(&posed()), ShowingId::new([3; 16]));
    assert_eq!(again, Ok(()), "what is shown there already takes its own place");
    assert!(approvers.shows(phone().device(), QUESTION, posed().hash()));
    approvers.link_changed(tablet);
    assert_eq!(over(&mut approvers, |_| false).len(), SHOWINGS_PER_APPROVER);
}

struct Dice(u64);

impl Dice {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.to_le_bytes()[3]
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        [(); N].map(|()| self.byte())
    }
}

/// Another question than the one that was shown.
fn swapped(dice: &mut Dice, seed: u64) -> Posed {
    let mut other = posed();
    let text = format!("{:02x}", dice.byte());
    match seed % 14 {
        0 => other.at = DeviceId::new(dice.bytes()),
        1 => other.question = ApprovalId::new(dice.bytes()),
        2 => other.who = DeviceId::new(dice.bytes()),
        3 => other.of = AuditOf::Handoff(HandoffId::new(dice.bytes())),
        4 => other.about = Hash::new(dice.bytes()),
        5 => other.wants = Wanted::Give,
        6 => other.title.push_str(&text),
        7 => other.directory.push_str(&text),
        8 => other.turns += 1 + u64::from(dice.byte()),
        9 => other.executables.push(text),
        10 => other.dotfiles.push(text),
        11 => other.configuration_as_code[0].push_str(&text),
        12 => other.limit_bytes += 1 + u64::from(dice.byte()),
        _ => other.note.push_str(&text),
    }
    other
}

/// Shows: U-15
#[test]
fn thousand_swaps_of_what_was_shown_answered_or_asked_pass_never() {
    let mut passed = 0;
    for seed in 0..if cfg!(miri) { 5 } else { 1_000_u64 } {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let other = swapped(&mut dice, seed / 5);
        let mut approvers = showing();
        let (mut answer, mut now) = (answer(), stands(&posed()));
        match seed % 5 {
            // Something else stands there when the answer comes.
            0 => now = stands(&other),
            // The person saw something else.
            1 => answer.shown = other.hash(),
            // It was meant for another question, or another showing.
            2 => answer.question = ApprovalId::new(dice.bytes()),
            3 => answer.showing = ShowingId::new(dice.bytes()),
            // It is signed by another device, or for another.
            _ if seed % 2 == 0 => answer.by = LocalDevice::from_secret(&[4; 32]).device(),
            _ => answer.at = DeviceId::new(dice.bytes()),
        }
        // The same bytes under other names are another question: what asks and what wants is in them.
        let changes = now.shown != posed().hash() || answer != self::answer();
        assert!(changes, "{seed} swapped nothing");
        passed += usize::from(say(&mut approvers, &answer, Some(now)).is_ok());
    }
    assert_eq!(passed, 0);
}
