//! Questions that wait for the operator.

use cede_wire::control::ApprovalSummary;

use crate::page::{Ink, Page, Span, faint, plain, strong};
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
    page.line([plain(format!("  {}{}", approval.agent.name(), about(approval)))]);
    if approval.inventory.is_empty() {
        page.line([faint("  what it is made of is not counted yet: ask again in a moment")]);
    }
    page.append(inventory::items(&approval.inventory));
    page.append(inventory::class("executable", &approval.executables, Ink::Plain, paths));
    page.append(inventory::class("name begins with a dot", &approval.dotfiles, Ink::Plain, paths));
    page.append(inventory::class("run by tools unasked", &approval.configuration_as_code, Ink::Warn, paths));
    page.append(inventory::class("looks like a secret", &approval.secret_looking, Ink::Warn, paths));
    page.line([plain(format!("  answer: cede allow {id}, or cede deny {id}"))]);
    page
}

/// How long the conversation is, where it lies, and what bounds it.
fn about(approval: &ApprovalSummary) -> String {
    let turns = match approval.turns {
        0 => String::new(),
        turns => format!(", {}", units::count(turns, "turn", "turns")),
    };
    let directory = &approval.directory;
    if approval.kind == GIVE {
        return format!("{turns}, lies in {directory}");
    }
    format!("{turns}, would lie in {directory}; never more than {}", units::bytes(approval.limit_bytes))
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

    #[test]
    fn owner_is_shown_as_much_as_the_destination() {
        let approval = ApprovalSummary {
            kind: "give".into(),
            limit_bytes: 0,
            secret_looking: vec![".env".into()],
            ..samples::approval()
        };
        let text = page(&[approval], Paths::Few { command: "cede approvals --all" }).render(false);
        assert!(text.contains("\n  claude-code, 12 turns, lies in /home/ada/project\n"), "{text}");
        assert!(text.contains("  looks like a secret: 1\n    .env\n") && text.contains("  travels "), "{text}");
    }

    #[test]
    fn what_is_not_counted_yet_is_said_to_be() {
        let approval = ApprovalSummary { kind: "give".into(), inventory: Vec::new(), ..samples::approval() };
        assert!(page(&[approval], Paths::All).render(false).contains("is not counted yet"));
    }

    /// Shows: L-6
    #[test]
    fn nothing_that_a_peer_names_repaints_the_question() {
        let bad = "x\u{1b}[2K\r\u{202e}\nsafe".to_owned();
        let mut approval = ApprovalSummary { directory: bad.clone(), device: bad.clone(), ..samples::approval() };
        (approval.inventory[0].what, approval.inventory[0].note) = (bad.clone(), bad.clone());
        for list in [&mut approval.executables, &mut approval.dotfiles, &mut approval.configuration_as_code] {
            *list = vec![bad.clone()];
        }
        approval.secret_looking = vec![bad];
        let text = page(&[approval], Paths::All).render(false);
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']) && !text.contains("\nsafe"), "{text}");
    }

    /// Shows: L-6
    #[test]
    fn name_of_a_peer_cannot_repaint_the_question() {
        let approval = ApprovalSummary { title: "x\u{1b}[2K\rsafe".into(), ..samples::approval() };
        assert!(page(&[approval], Paths::All).render(false).contains("\"x\\u{1b}[2K\\rsafe\""));
    }
}
