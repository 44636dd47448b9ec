//! Moves: under way, ended, interrupted.

use cede_wire::control::{Failure, MoveReport, MoveSummary, Phase, Progress, SessionSummary, exit};

use crate::fault;
use crate::page::{Page, Span, faint, plain, strong};
use crate::progress::{amount, word};
use crate::units;

/// What to type for it. Before there is an attempt the session is what can be named, and cancelled.
pub(crate) fn id(moving: &MoveSummary) -> String {
    moving.progress.handoff.map_or_else(|| moving.progress.session.short(), |handoff| handoff.short())
}

/// A move under way, as `status` shows it.
pub(crate) fn row(moving: &MoveSummary) -> Vec<Span> {
    let travelled = if moving.progress.total_bytes > 0 { amount(&moving.progress) } else { String::new() };
    vec![
        plain(id(moving)),
        strong(&moving.title),
        plain(format!("{} → {}", moving.from, moving.to)),
        plain(word(moving.progress.phase)),
        plain(travelled),
        faint(format!("in charge: {}", moving.progress.in_charge)),
    ]
}

/// All that is known of a move under way.
pub(crate) fn whole(moving: &MoveSummary) -> Page {
    let mut page = Page::default();
    page.line([strong(&moving.title), plain(format!(" from {} to {}", moving.from, moving.to))]);
    page.whole_table(2, vec![row(moving)]);
    if !moving.progress.note.is_empty() {
        page.line([faint("  "), plain(&moving.progress.note)]);
    }
    page
}

/// How a move ended, and where the session is now.
pub(crate) fn report(report: &MoveReport) -> Page {
    let mut page = Page::default();
    let place = if report.directory.is_empty() { String::new() } else { format!(", in {}", report.directory) };
    page.line([
        plain(format!("session {} is at ", report.session.short())),
        strong(&report.now_at),
        plain(format!(" now{place} (token {})", report.token)),
    ]);
    page.line([faint(format!(
        "{} travelled, {} were there already; {} in all, paused for {}",
        units::bytes(report.bytes_sent),
        units::bytes(report.bytes_present),
        units::millis(report.took_ms),
        units::millis(report.pause_ms)
    ))]);
    for note in &report.notes {
        page.line([plain("note: "), plain(note)]);
    }
    if !report.resume.is_empty() {
        page.command("go on there: ", &report.resume);
    }
    page
}

/// The two sides of a move, as the person who typed the command calls them.
#[derive(Debug, Clone)]
pub(crate) struct Sides {
    /// The owner until now.
    pub(crate) source: String,
    /// The owner to be.
    pub(crate) destination: String,
}

/// What the person hears after Ctrl-C: in which phase it came, and the state of each side now. `said` is the daemon's
/// answer to the withdrawal, `session` what it says of the session afterwards.
pub(crate) fn interrupted(
    sides: &Sides,
    came_in: Option<Phase>,
    last: Option<&Progress>,
    said: &str,
    session: Option<&SessionSummary>,
) -> Failure {
    let what = came_in.map_or_else(|| "interrupted".to_owned(), |phase| format!("interrupted while {}", word(phase)));
    let phase = last.map(|progress| progress.phase);
    // Where the owner gives up because of it, this device's own no was not the last word.
    let said = if phase == Some(Phase::Abandoned) { "the move is over" } else { said };
    let why = format!("{said}; {}", state_of_both(sides, phase));
    let in_charge = last.map(|progress| progress.in_charge.clone());
    // The name of whom it was released to is not yet that of one who has it.
    let owner = session.map(|session| session.owner.clone()).filter(|_| phase != Some(Phase::Released));
    let now_at = owner.or(in_charge);
    Failure { now_at, ..fault::local(exit::INTERRUPTED, &what, &why, "look where things stand: cede status") }
}

fn state_of_both(Sides { source, destination }: &Sides, phase: Option<Phase>) -> String {
    match phase {
        None | Some(Phase::Preparing | Phase::Waiting | Phase::Offered) => {
            format!("{source} was in charge and {destination} held nothing of it")
        }
        Some(Phase::Transferring) => {
            format!("{source} was in charge and {destination} held parts of it, which do not act")
        }
        Some(Phase::Staged) => {
            format!("{source} was in charge and {destination} held a whole copy, which does not act")
        }
        Some(Phase::Released) => {
            format!("{source} had given it up for good and {destination} acts as soon as it holds the release")
        }
        Some(Phase::Committed) => format!("{destination} is in charge and {source} keeps a copy, which does not act"),
        Some(Phase::Abandoned) => format!("{source} is in charge and {destination} discards what it held"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;
    use cede_wire::id::HandoffId;

    fn sides() -> Sides {
        Sides { source: "this device".into(), destination: "server".into() }
    }

    #[test]
    fn move_that_is_only_asked_for_is_named_by_its_session() {
        let mut moving = samples::moving();
        moving.handoff = HandoffId::new([0; 16]);
        moving.progress.handoff = None;
        let mut page = Page::default();
        page.table(0, vec![row(&moving)], &[]);
        assert!(page.render(false).starts_with("a1a1a1a1  "), "{}", page.render(false));
    }

    /// Shows: H-12
    #[test]
    fn report_begins_with_where_the_session_is() {
        insta::assert_snapshot!(report(&samples::report()).render(false));
    }

    #[test]
    fn interruption_says_the_state_of_each_side() {
        let last = samples::progress(Phase::Staged);
        let failure = interrupted(
            &sides(),
            Some(Phase::Staged),
            Some(&last),
            "the move was withdrawn",
            Some(&samples::session("x")),
        );
        insta::assert_snapshot!(fault::page(&failure).render(false));
        assert_eq!(failure.exit, exit::INTERRUPTED);
    }

    /// Shows: H-12
    #[test]
    fn interruption_after_the_decision_does_not_promise_a_way_back() {
        let failure =
            interrupted(&sides(), None, Some(&samples::progress(Phase::Released)), "too late to withdraw", None);
        assert!(failure.why.contains("this device had given it up for good"), "{}", failure.why);
    }

    #[test]
    fn interruption_before_anything_happened_is_said_too() {
        let failure = interrupted(&sides(), None, None, "nothing was offered yet", None);
        assert_eq!(failure.why, "nothing was offered yet; this device was in charge and server held nothing of it");
        assert_eq!(failure.now_at, None);
    }
}
