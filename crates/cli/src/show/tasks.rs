//! What was asked of whom and what came of it. Words of a peer stand behind a bar, as messages do.

use cede_wire::control::tasks::{TaskReport, TaskSummary};
use cede_wire::session::AgentKind;

use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// How far a task is that was asked for just now.
pub(crate) fn asked(task: &TaskSummary) -> Page {
    let mut page = Page::default();
    page.line([standing(task), faint(format!("  {}", task.id))]);
    page
}

/// One line while somebody waits.
pub(crate) fn progress(task: &TaskSummary) -> String {
    if task.line.is_empty() { task.standing.clone() } else { format!("{}: {}", task.standing, task.line) }
}

/// A list.
pub(crate) fn page(tasks: &[TaskSummary], now: u64) -> Page {
    if tasks.is_empty() {
        return Page::of("no tasks; those that ended: cede tasks --all");
    }
    let mut page = Page::default();
    let headings = ["id", "from", "to", "asked", "state", "begins"].map(faint).to_vec();
    let rows = tasks.iter().map(|task| row(task, now));
    page.table(0, std::iter::once(headings).chain(rows).collect(), &[4, 5]);
    page
}

fn row(task: &TaskSummary, now: u64) -> Vec<Span> {
    vec![
        plain(&task.id),
        strong(&task.from),
        plain(&task.to),
        plain(units::ago(task.told_unix_ms, now)),
        standing(task),
        faint(&task.begins),
    ]
}

/// One task, with its words and what came of it.
pub(crate) fn task(task: &TaskSummary, text: &str, report: Option<&TaskReport>, now: u64) -> Page {
    let mut page = Page::default();
    page.line([
        plain("task "),
        strong(&task.id),
        plain(" of "),
        strong(&task.from),
        plain(format!(" for {}, asked {}", task.to, units::ago(task.told_unix_ms, now))),
    ]);
    if let Some(session) = task.session {
        page.line([plain(format!("as a turn of session {}", session.short()))]);
    }
    page.line([plain(scope(task))]);
    page.gap();
    page.behind_a_bar(text);
    page.gap();
    page.line([standing(task)]);
    if !task.line.is_empty() {
        page.behind_a_bar(&task.line);
    }
    if let Some(report) = report {
        append(&mut page, report);
    }
    page
}

fn scope(task: &TaskSummary) -> String {
    let scope = &task.scope;
    let mut words = vec![match &scope.directory {
        Some(directory) => format!("in {directory}"),
        None if task.session.is_some() => "in the session's directory".to_owned(),
        None => "in an empty directory of its own".to_owned(),
    }];
    words.extend(scope.agent.map(|agent| format!("by {}", agent.name())));
    words.push(if scope.read_only {
        "may look only".to_owned()
    } else {
        "may do what the agent's settings there allow".to_owned()
    });
    if !scope.tools.is_empty() {
        words.push(format!("with {}", scope.tools.join(", ")));
    }
    words.extend(scope.turns.map(|turns| units::count(u64::from(turns), "turn", "turns")));
    words.push(format!("{} min at most", scope.minutes));
    words.join("; ")
}

fn append(page: &mut Page, report: &TaskReport) {
    let mut facts = Vec::new();
    facts.extend(report.agent.map(AgentKind::name).map(str::to_owned));
    if !report.directory.is_empty() {
        facts.push(format!("in {}", report.directory));
    }
    facts.extend(report.exit.map(|exit| format!("exit status {exit}")));
    if report.took_ms > 0 {
        facts.push(units::millis(report.took_ms));
    }
    facts.extend(report.turns.map(|turns| units::count(u64::from(turns), "turn", "turns")));
    facts
        .extend(report.cost_micro_usd.map(|micro| format!("{}.{:04} USD", micro / 1_000_000, micro % 1_000_000 / 100)));
    if report.output_bytes > 0 {
        facts.push(format!("{} printed", units::bytes(report.output_bytes)));
    }
    if !facts.is_empty() {
        page.line([plain(facts.join(", "))]);
    }
    if !report.note.is_empty() {
        page.behind_a_bar(&report.note);
    }
    if !report.text.is_empty() {
        page.gap();
        page.behind_a_bar(&report.text);
    }
    if !report.changes.is_empty() {
        page.gap();
        page.line([plain("what changed:")]);
        page.behind_a_bar(report.changes.trim_end());
    }
}

fn standing(task: &TaskSummary) -> Span {
    let ink = match task.state.as_str() {
        "done" | "running" => Ink::Good,
        "refused" | "expired" | "failed" | "timed-out" | "interrupted" | "cancelled" | "quarantined" => Ink::Bad,
        _ => Ink::Plain,
    };
    Span::new(ink, &task.standing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples::{self, NOW};

    #[test]
    fn task_is_shown_with_what_came_of_it() {
        let (sample, report) = samples::task();
        insta::assert_snapshot!(task(&sample, "run the migration tests", Some(&report), NOW).render(false));
    }

    #[test]
    fn list_shows_who_asked_whom_and_how_far_it_is() {
        insta::assert_snapshot!(page(&[samples::task().0], NOW).render(false));
    }

    /// Shows: E-8, L-6
    #[test]
    fn nothing_that_a_peer_or_an_agent_says_repaints_the_screen() {
        let bad = "x\u{1b}[2K\r\u{202e}\ntask 1 of you".to_owned();
        let (mut sample, mut report) = samples::task();
        for text in [&mut sample.begins, &mut sample.line, &mut sample.standing, &mut sample.from] {
            text.clone_from(&bad);
        }
        sample.scope.directory = Some(bad.clone());
        for text in [&mut report.text, &mut report.note, &mut report.changes, &mut report.directory] {
            text.clone_from(&bad);
        }
        let text = task(&sample, &bad, Some(&report), NOW).render(false)
            + &page(&[sample.clone()], NOW).render(false)
            + &asked(&sample).render(false);
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']) && !text.contains("\ntask 1 of you"), "{text}");
    }
}
