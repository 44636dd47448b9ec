//! Files that are sent and files that come.

use cede_wire::control::{TransferState, TransferSummary};

use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// All of them.
pub(crate) fn page(transfers: &[TransferSummary], now: u64) -> Page {
    if transfers.is_empty() {
        return Page::of("no files were sent, and none came");
    }
    let mut page = Page::default();
    page.whole_table(0, transfers.iter().map(|transfer| row(transfer, now)).collect());
    page
}

fn row(transfer: &TransferSummary, now: u64) -> Vec<Span> {
    let way = if transfer.going { "to" } else { "from" };
    vec![
        plain(transfer.id.short()),
        strong(if is_forgotten(transfer) { "-" } else { &transfer.title }),
        plain(format!("{way} {}", transfer.device)),
        Span::new(ink(transfer.state), word(transfer)),
        plain(amount(transfer)),
        faint(units::ago(transfer.at_unix_ms, now)),
        plain(where_or_why(transfer)),
    ]
}

/// What became of one, in a sentence.
pub(crate) fn one(transfer: &TransferSummary) -> Page {
    let mut page = Page::default();
    let amount = format!("{}, {}", units::count(transfer.files, "file", "files"), units::bytes(transfer.bytes));
    let way = if transfer.going { "for" } else { "from" };
    page.line([
        Span::new(ink(transfer.state), word(transfer)),
        plain(": "),
        strong(&transfer.title),
        plain(format!(" ({amount}) {way} {}", transfer.device)),
    ]);
    if !transfer.place.is_empty() {
        page.line([plain("it lies there in "), strong(&transfer.place)]);
    }
    if !transfer.detail.is_empty() {
        page.line([faint(&transfer.detail)]);
    }
    if is_open(transfer) {
        let id = transfer.id.short();
        page.line([plain("look: cede transfers; withdraw: "), strong(format!("cede transfers cancel {id}"))]);
    }
    page
}

/// One under way, as `status` and the cockpit show it.
pub(crate) fn under_way(transfer: &TransferSummary) -> Vec<Span> {
    let way = if transfer.going { "to" } else { "from" };
    vec![
        plain(transfer.id.short()),
        strong(&transfer.title),
        plain(format!("{way} {}", transfer.device)),
        plain(word(transfer)),
        plain(amount(transfer)),
        faint(&transfer.detail),
    ]
}

/// Whether it did not end.
pub(crate) const fn is_open(transfer: &TransferSummary) -> bool {
    match transfer.state {
        TransferState::Reading | TransferState::Queued | TransferState::Offered | TransferState::Sending => true,
        TransferState::Received
        | TransferState::Refused
        | TransferState::Expired
        | TransferState::Cancelled
        | TransferState::Failed => false,
    }
}

/// The state as people read it: what comes is not sent from here.
pub(crate) fn word(transfer: &TransferSummary) -> &'static str {
    match (transfer.state, transfer.going) {
        (TransferState::Reading, _) => "reading",
        (TransferState::Queued, _) => "queued",
        (TransferState::Offered, true) => "offered",
        (TransferState::Offered, false) => "asked",
        (TransferState::Sending, true) => "sending",
        (TransferState::Sending, false) => "receiving",
        (TransferState::Received, _) => "received",
        (TransferState::Refused, _) => "refused",
        (TransferState::Expired, _) => "expired",
        (TransferState::Cancelled, _) => "cancelled",
        (TransferState::Failed, _) => "failed",
    }
}

/// How much of it there is, or has travelled.
pub(crate) fn amount(transfer: &TransferSummary) -> String {
    let under_way = matches!(transfer.state, TransferState::Sending | TransferState::Reading);
    if under_way && transfer.to_move > 0 {
        return format!("{} of {}", units::bytes(transfer.moved), units::bytes(transfer.to_move));
    }
    if is_forgotten(transfer) { "-".to_owned() } else { units::bytes(transfer.bytes) }
}

/// What nobody said yes to is known by its end alone after a restart.
const fn is_forgotten(transfer: &TransferSummary) -> bool {
    transfer.title.is_empty() && transfer.files == 0
}

fn where_or_why(transfer: &TransferSummary) -> String {
    let refusal = transfer.refusal.map(|refusal| refusal.word().to_owned());
    let parts = [refusal.unwrap_or_default(), transfer.place.clone(), transfer.detail.clone()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

const fn ink(state: TransferState) -> Ink {
    match state {
        TransferState::Received => Ink::Good,
        TransferState::Refused | TransferState::Expired | TransferState::Failed => Ink::Warn,
        TransferState::Reading
        | TransferState::Queued
        | TransferState::Offered
        | TransferState::Sending
        | TransferState::Cancelled => Ink::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;
    use cede_wire::refusal::Refusal;

    /// Shows: F-8
    #[test]
    fn each_state_has_a_true_word() {
        let queued = samples::transfer(TransferState::Queued);
        let waiting = TransferSummary { detail: "waits for server".into(), ..queued.clone() };
        let received = TransferSummary {
            place: "/home/ada/Downloads/cede/laptop/report.pdf".into(),
            state: TransferState::Received,
            ..queued.clone()
        };
        let refused = TransferSummary {
            refusal: Some(Refusal::Declined),
            detail: "the operator there said no".into(),
            state: TransferState::Refused,
            ..queued.clone()
        };
        let failed = TransferSummary {
            refusal: Some(Refusal::IntegrityFailed),
            detail: "report.pdf changed at the sender before it was sent".into(),
            state: TransferState::Failed,
            ..queued.clone()
        };
        let coming = TransferSummary { going: false, ..samples::transfer(TransferState::Sending) };
        let read = TransferSummary { to_move: 0, bytes: 700_000, ..samples::transfer(TransferState::Reading) };
        let all = [read, samples::transfer(TransferState::Sending), coming, waiting, received, refused, failed];
        insta::assert_snapshot!(page(&all, samples::NOW).render(false));
    }

    #[test]
    fn what_was_sent_says_where_it_lies() {
        let queued = samples::transfer(TransferState::Queued);
        let received =
            TransferSummary { state: TransferState::Received, place: "/in/report.pdf".into(), ..queued.clone() };
        let text = [one(&queued).render(false), one(&received).render(false)].concat();
        insta::assert_snapshot!(text);
    }

    /// Shows: L-6
    #[test]
    fn nothing_that_a_peer_names_repaints_the_list() {
        let bad = "x\u{1b}[2K\r\u{202e}\nsafe".to_owned();
        let mut transfer = samples::transfer(TransferState::Refused);
        for text in [&mut transfer.title, &mut transfer.device, &mut transfer.place, &mut transfer.detail] {
            text.clone_from(&bad);
        }
        let text = [page(&[transfer.clone()], 0).render(false), one(&transfer).render(false)].concat();
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']) && !text.contains("\nsafe"), "{text}");
    }
}
