//! One screen: this device, peers, sessions, moves, questions, and the next useful command.

use cede_wire::control::StatusReport;

use crate::limits::{STATUS_PEERS, STATUS_SESSIONS, STATUS_TRANSFERS};
use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::show::{approvals, devices, moves, sessions, transfers};
use crate::units;

/// The screen.
pub(crate) fn page(status: &StatusReport) -> Page {
    let mut page = head(status);
    for line in &status.evidence {
        page.line([Span::new(Ink::Bad, line)]);
    }
    section(&mut page, "Waiting for your answer", status.approvals.iter().map(approvals::line).collect(), &[1]);
    if status.letters > 0 {
        page.gap();
        let unread = units::count(status.letters, "message", "messages");
        page.line([strong("Unread: "), plain(unread), faint("  cede inbox")]);
    }
    section(&mut page, "Moves", status.moves.iter().map(moves::row).collect(), &[1, 4]);
    for moving in status.moves.iter().filter(|moving| !moving.progress.note.is_empty()) {
        page.line([plain(format!("  {}: ", moves::id(moving))), faint(&moving.progress.note)]);
    }
    let listed = status.transfers.iter().take(STATUS_TRANSFERS).map(transfers::under_way).collect();
    section(&mut page, "Files", listed, &[1, 5]);
    more(&mut page, status.transfers.len(), STATUS_TRANSFERS, "cede transfers");
    let listed = status.sessions.iter().take(STATUS_SESSIONS).map(sessions::row).collect();
    section(&mut page, "Sessions", listed, &[1, 3]);
    more(&mut page, status.sessions.len(), STATUS_SESSIONS, "cede ls");
    let listed = status.peers.iter().take(STATUS_PEERS).map(devices::peer).collect();
    section(&mut page, "Peers", listed, &[1, 3]);
    more(&mut page, status.peers.len(), STATUS_PEERS, "cede devices");
    for warning in &status.warnings {
        page.gap();
        page.line([Span::new(Ink::Warn, warning)]);
    }
    if !status.next.is_empty() {
        page.gap();
        page.line([plain("next: "), strong(&status.next)]);
    }
    page
}

fn head(status: &StatusReport) -> Page {
    let mut page = Page::default();
    page.line([
        strong(&status.device.name),
        plain(format!(" ({})  cede {}, listening on {}", status.device.id.short(), status.software, status.listening)),
    ]);
    match &status.mesh {
        Some(mesh) => {
            let devices = units::count(status.peers.len() as u64 + 1, "device", "devices");
            page.line([faint(format!("mesh {}, {devices}", mesh.short()))]);
        }
        None => page.line([faint("not paired with any device")]),
    }
    if status.read_only {
        page.line([Span::new(Ink::Bad, "the journal is damaged: nothing acts here until that is cured: cede doctor")]);
    }
    page
}

fn section(page: &mut Page, title: &str, rows: Vec<Vec<Span>>, flexible: &[usize]) {
    if !rows.is_empty() {
        page.gap();
        page.line([strong(title)]);
        page.table(2, rows, flexible);
    }
}

fn more(page: &mut Page, all: usize, listed: usize, command: &str) {
    if let Some(more) = all.checked_sub(listed).filter(|more| *more > 0) {
        page.line([faint(format!("  {more} more: {command}"))]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn status_is_one_screen_that_ends_with_the_next_command() {
        let text = page(&samples::status()).render(false);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn move_says_what_it_waits_for() {
        let mut status = samples::status();
        let why = "cannot write w/a: No space left on device";
        status.moves[0].progress.note = why.into();
        let text = page(&status).render(false);
        assert!(text.contains(&format!("\n  3f3f3f3f: {why}\n\nSessions\n")), "{text}");
    }

    #[test]
    fn many_sessions_stay_one_screen() {
        let mut status = samples::status();
        status.sessions = (0..40).map(|_| samples::session("Fix the login")).collect();
        status.peers = (0..40).map(|_| samples::device("server", false)).collect();
        let text = page(&status).render(false);
        assert!(text.lines().count() <= 32, "{text}");
        assert!(text.contains("  32 more: cede ls\n") && text.contains("  34 more: cede devices\n"), "{text}");
    }

    #[test]
    fn files_under_way_have_a_line_each_and_many_stay_one_screen() {
        use cede_wire::control::{TransferState, TransferSummary};
        let waiting = TransferSummary { detail: "waits for server".into(), ..samples::transfer(TransferState::Queued) };
        let coming = TransferSummary { going: false, ..samples::transfer(TransferState::Sending) };
        let mut transfers = vec![samples::transfer(TransferState::Reading), coming, waiting];
        let text = page(&StatusReport { transfers: transfers.clone(), ..samples::status() }).render(false);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        let lines: Vec<&str> = text.lines().skip_while(|line| *line != "Files").skip(1).take(3).collect();
        let words = ["  reading    1.20 MB of 3.40 MB", "  receiving  1.20 MB of 3.40 MB", "  queued     3.40 MB"];
        assert!(lines.iter().zip(words).all(|(line, words)| line.contains(words)), "{text}");
        transfers.extend((0..40).map(|_| samples::transfer(TransferState::Sending)));
        let text = page(&StatusReport { transfers, ..samples::status() }).render(false);
        assert!(text.contains("  39 more: cede transfers\n"), "{text}");
    }

    #[test]
    fn fresh_device_and_damaged_journal_are_plain_to_see() {
        let status = StatusReport {
            mesh: None,
            read_only: true,
            peers: Vec::new(),
            sessions: Vec::new(),
            moves: Vec::new(),
            approvals: Vec::new(),
            next: "cede doctor".into(),
            ..samples::status()
        };
        insta::assert_snapshot!(page(&status).render(false), @r"
        laptop (d0d0d0d0)  cede 0.1.0, listening on 192.168.1.2:4242
        not paired with any device
        the journal is damaged: nothing acts here until that is cured: cede doctor

        next: cede doctor
        ");
    }
}
