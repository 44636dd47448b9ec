//! Questions that wait for the operator.

use cede_wire::control::ApprovalSummary;

use crate::page::{Ink, Page, Span, plain, strong};
use crate::show::inventory::{self, Paths};
use crate::units;

/// Every question with everything it asks for.
pub(crate) fn page(approvals: &[ApprovalSummary], paths: Paths) -> Page {
    if approvals.is_empty() {
        return Page::of("nothing waits for an answer");
    }
    let mut page = Page::default();
    for approval in approvals {
        page.gap();
        page.append(one(approval, paths));
    }
    page
}

/// One question in one line, as `status` shows it.
pub(crate) fn line(approval: &ApprovalSummary) -> Vec<Span> {
    vec![
        strong(approval.id.short()),
        plain(question(approval)),
        Span::new(Ink::Warn, format!("{} s left", approval.expires_in_s)),
    ]
}

fn one(approval: &ApprovalSummary, paths: Paths) -> Page {
    let id = approval.id.short();
    let mut page = Page::default();
    page.line([
        strong(&id),
        plain(format!("  {}; no answer in {} s counts as a no", question(approval), approval.expires_in_s)),
    ]);
    page.line([plain(format!(
        "  {}, at most {}, {} {}",
        approval.agent.name(),
        units::bytes(approval.limit_bytes),
        if approval.kind == GIVE { "lies in" } else { "would lie in" },
        approval.directory
    ))]);
    page.append(inventory::items(&approval.inventory));
    page.append(inventory::class("executable", &approval.executables, Ink::Plain, paths));
    page.append(inventory::class("name begins with a dot", &approval.dotfiles, Ink::Plain, paths));
    page.append(inventory::class("run by tools unasked", &approval.configuration_as_code, Ink::Warn, paths));
    page.line([plain(format!("  answer: cede allow {id}, or cede deny {id}"))]);
    page
}

fn question(approval: &ApprovalSummary) -> String {
    let verb = if approval.kind == GIVE { "wants to take" } else { "wants to hand over" };
    format!("{} {verb} \"{}\"", approval.device, approval.title)
}

/// The kind of a question about a session that would leave.
const GIVE: &str = "give";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;

    #[test]
    fn question_shows_what_would_come() {
        let text = page(&[samples::approval()], Paths::Few { command: "cede approvals --all" }).render(false);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn question_about_a_session_that_would_leave_says_so() {
        let approval = ApprovalSummary { kind: "give".into(), ..samples::approval() };
        assert!(page(&[approval], Paths::All).render(false).contains("laptop wants to take \"Fix the login\""));
    }

    /// Shows: L-6
    #[test]
    fn name_of_a_peer_cannot_repaint_the_question() {
        let approval = ApprovalSummary { title: "x\u{1b}[2K\rsafe".into(), ..samples::approval() };
        assert!(page(&[approval], Paths::All).render(false).contains("\"x\\u{1b}[2K\\rsafe\""));
    }
}
