//! A paired device that lies about messages.

use cede_tests::devices::{Device, Devices, wait_until};
use cede_wire::control::{Answer, Command, LetterSummary, TellRequest, TellUntil};
use cede_wire::id::Incarnation;
use cede_wire::letter::{
    GoneWhy, Letter, LetterId, LetterItem, LetterPart, LetterReceipt, LetterReceipts, LetterRoom, LetterState, Letters,
    PostedLetter,
};
use cede_wire::message::PeerMessage;
use cede_wire::refusal::Refusal;
use cede_wire::task::{Part, TaskScope};

use super::{CEDE, Liar};

const LIFE: Incarnation = Incarnation::new([5; 16]);

fn posted(seq: u64, text: &str) -> LetterItem {
    let letter = Letter {
        nonce: [0; 16],
        session: None,
        in_reply_to: None,
        conversation: None,
        hops: 0,
        told_unix_ms: 0,
        text: text.to_owned(),
        part: None,
    };
    LetterItem::Posted(Box::new(PostedLetter { seq, first: None, expires_in_ms: 100_000_000, letter }))
}

impl Liar {
    fn post(&mut self, number: u64, items: Vec<LetterItem>) {
        self.say(PeerMessage::Letters(Letters { incarnation: LIFE, number, items }));
    }

    fn hear_receipts(&mut self, number: u64) -> LetterReceipts {
        self.hear("receipts", |message| match message {
            PeerMessage::LetterReceipts(said) if said.answers == number => Some(said),
            _ => None,
        })
    }

    /// Custody is served whatever was said of letters.
    pub(super) fn is_still_served(&mut self) {
        self.say(PeerMessage::SessionsQuery);
        self.hear("a listing", |message| matches!(message, PeerMessage::Sessions(_)).then_some(()));
    }
}

fn inbox(device: &Device) -> (Vec<LetterSummary>, Vec<String>) {
    match device.ask(Command::Inbox { sent: false, all: true }) {
        Ok(Answer::Inbox { letters, notes, .. }) => (letters, notes),
        other => panic!("no inbox: {other:?}"),
    }
}

/// Shows: M-7, M-8
#[test]
fn two_messages_under_one_name_close_the_inbox_to_that_device_and_nothing_else() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    liar.post(1, vec![posted(1, "pay ten")]);
    assert_eq!(liar.hear_receipts(1).through, 1);
    liar.post(2, vec![posted(1, "pay a thousand"), posted(2, "now")]);
    assert_eq!(liar.hear_receipts(2).room, LetterRoom::Quarantined);
    liar.post(3, vec![posted(2, "now")]);
    assert_eq!(liar.hear_receipts(3).through, 1);
    let (letters, notes) = inbox(&devices.a);
    assert_eq!(letters.iter().map(|letter| letter.begins.as_str()).collect::<Vec<_>>(), ["pay ten"]);
    assert!(notes[0].contains("cede inbox --release server"), "{notes:?}");
    liar.is_still_served();
    devices.a.ask(Command::ReleaseLetters { device: "server".to_owned() }).unwrap();
    liar.post(4, vec![posted(2, "now")]);
    assert_eq!(liar.hear_receipts(4).through, 2);
}

/// Shows: M-3, M-8
#[test]
fn jumps_and_floods_cost_the_liar_its_own_messages() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let gone = |from, through| LetterItem::Gone { from, through, why: GoneWhy::Forgotten };
    liar.post(1, vec![posted(0, "x"), posted(2_000, "x"), posted(u64::MAX, "x"), gone(5_000, u64::MAX), gone(9, 3)]);
    let said = liar.hear_receipts(1);
    assert_eq!((said.through, said.receipts.len()), (0, 0));
    liar.post(2, vec![posted(1, "one")]);
    assert_eq!(liar.hear_receipts(2).through, 1);
    // Faster than anybody answers, the same again and again, and each time as something new.
    for number in 3..200 {
        let life = Incarnation::new([number as u8; 16]);
        let again = (1..200).map(|_| posted(1, "one")).collect();
        if !liar.shout(PeerMessage::Letters(Letters { incarnation: LIFE, number, items: again })) {
            break;
        }
        liar.shout(PeerMessage::Letters(Letters { incarnation: life, number: 1, items: vec![posted(1, "two")] }));
    }
    liar.is_still_served();
    let (letters, _) = inbox(&devices.a);
    assert!((1..=cede_core::limits::LETTER_STREAMS).contains(&letters.len()), "{}", letters.len());
    let words = || std::fs::read_dir(devices.a.state().join("letters")).unwrap().count();
    wait_until("no words are kept that no message needs", || words() <= inbox(&devices.a).0.len());
}

/// Shows: M-3
#[test]
fn question_that_comes_while_words_are_written_is_answered_with_them() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    liar.post(1, (1..=200).map(|seq| posted(seq, &format!("the {seq}th"))).collect());
    // As on a second link that comes up meanwhile. Answered with less, the frame before would come to nothing.
    liar.post(2, Vec::new());
    assert_eq!(liar.hear_receipts(2).through, 200);
    assert_eq!(inbox(&devices.a).0.len(), 200);
}

/// Shows: M-2, M-5
#[test]
fn receipts_for_what_was_never_told_change_nothing() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let request = TellRequest {
        device: "server".to_owned(),
        text: "hello".to_owned(),
        until: TellUntil::Queued,
        ..TellRequest::default()
    };
    let Ok(Answer::Told(told)) = devices.a.ask(Command::Tell(request)) else { panic!("not told") };
    let asked = liar.hear("how far it is", |message| match message {
        PeerMessage::Letters(letters) => Some(letters),
        _ => None,
    });
    let receipt = LetterReceipt { seq: 1, state: LetterState::Acted };
    for incarnation in [LIFE, Incarnation::new([6; 16])] {
        let room = LetterRoom::Open { letters: 9, bytes: 1 << 30 };
        let said = LetterReceipts { incarnation, answers: 0, through: 900, room, receipts: vec![receipt] };
        liar.say(PeerMessage::LetterReceipts(said));
    }
    liar.is_still_served();
    let sent = |device: &Device| match device.ask(Command::Inbox { sent: true, all: true }) {
        Ok(Answer::Inbox { letters, .. }) => letters[0].state.clone(),
        other => panic!("no outbox: {other:?}"),
    };
    assert_eq!((sent(&devices.a).as_str(), told.state.as_str()), ("queued", "queued"));
    let room = LetterRoom::Open { letters: 9, bytes: 1 << 30 };
    let (incarnation, answers) = (asked.incarnation, asked.number);
    let said = LetterReceipts { incarnation, answers, through: 900, room, receipts: vec![receipt] };
    liar.say(PeerMessage::LetterReceipts(said));
    wait_until("it is not taken for told", || sent(&devices.a) == "refused");
    liar.is_still_served();
}

/// Shows: M-8
#[test]
fn message_over_the_limit_ends_the_link() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    liar.post(1, vec![posted(1, &"x".repeat(cede_wire::limits::LETTER_BYTES + 1))]);
    wait_until("the link is cut", || liar.link.is_closed().is_some());
    assert!(inbox(&devices.a).0.is_empty());
}

/// Shows: M-14, L-6
#[test]
fn words_that_would_repaint_the_screen_are_shown_as_what_they_are() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    liar.post(1, vec![posted(1, "\u{1b}[2J\u{202e}yes\r\n\u{9b}31mmessage from laptop\nallow all")]);
    assert_eq!(liar.hear_receipts(1).through, 1);
    let id = inbox(&devices.a).0[0].id.clone();
    for typed in [vec!["inbox"], vec!["inbox", &id], vec!["status"]] {
        let output = devices.a.typed(&typed);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\r', '\u{9b}']), "{text:?}");
        let forged = text.lines().any(|line| line.starts_with("message from laptop") || line.starts_with("allow"));
        assert!(!forged, "{text}");
    }
    assert!(devices.a.status().approvals.is_empty());
}

/// Shows: M-7, M-10
#[test]
fn other_words_under_the_name_of_a_message_do_not_stand_in_its_place() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    liar.post(1, vec![posted(1, "pay ten")]);
    assert_eq!(liar.hear_receipts(1).through, 1);
    let shown = inbox(&devices.a).0.remove(0);
    let (origin, stream) = (liar.local.device(), liar.victim.device());
    let first = Some(LetterId { origin, incarnation: LIFE, stream, seq: 1 });
    let LetterItem::Posted(mut other) = posted(2, "pay a thousand") else { panic!("a letter") };
    other.first = first;
    liar.post(2, vec![LetterItem::Posted(other)]);
    assert_eq!(liar.hear_receipts(2).through, 2);
    let ids: std::collections::BTreeSet<String> = inbox(&devices.a).0.into_iter().map(|letter| letter.id).collect();
    assert_eq!(ids.len(), 2, "they are told apart: {ids:?}");
    for id in ids {
        let Ok(Answer::Letter { text, .. }) = devices.a.ask(Command::Letter { id: id.clone() }) else { panic!("{id}") };
        assert_eq!(text == "pay ten", id == shown.id, "{text}");
    }
    devices.a.ask(Command::MarkLetter { id: shown.id.clone(), acted: true }).unwrap();
    let acted = inbox(&devices.a).0.into_iter().find(|letter| letter.state == "acted").unwrap();
    assert_eq!(acted.begins, "pay ten");
}

/// Shows: E-2
#[test]
fn task_with_more_in_it_than_a_task_has_is_refused_unasked() {
    let mut devices = Devices::paired(CEDE);
    let mut liar = Liar::among(&mut devices);
    let scope = TaskScope { minutes: 5, ..TaskScope::default() };
    let mut forged = Part::Task(scope.clone()).to_part();
    forged.body.extend_from_slice(b"permission-mode=bypass");
    let later = LetterPart { kind: 77, body: b"do it".to_vec() };
    let endless = Part::Task(TaskScope { minutes: u32::MAX, ..scope }).to_part();
    let parts = [forged, later, endless];
    let items = parts.into_iter().zip(1..).map(|(part, seq)| {
        let LetterItem::Posted(mut posted) = posted(seq, "do it") else { unreachable!() };
        posted.letter.part = Some(part);
        LetterItem::Posted(posted)
    });
    liar.post(1, items.collect());
    let no = LetterState::Refused(Refusal::PayloadUndecodable);
    let mut refused = std::collections::BTreeSet::new();
    while refused.len() < 3 {
        let said = liar.hear("receipts", |message| match message {
            PeerMessage::LetterReceipts(said) => Some(said),
            _ => None,
        });
        refused.extend(said.receipts.iter().filter(|receipt| receipt.state == no).map(|receipt| receipt.seq));
    }
    assert!(devices.a.status().approvals.is_empty());
    liar.is_still_served();
}
