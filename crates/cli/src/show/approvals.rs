//! Questions that wait for the operator.

use cede_wire::authority::Reach;
use cede_wire::control::ApprovalSummary;
use cede_wire::control::decisions::AskedFor;
use cede_wire::session::AgentKind;
use cede_wire::shown::mixes_scripts;
use cede_wire::transfer::ShownPath;

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
    if approval.kind == FILE {
        return files(approval, paths);
    }
    let id = approval.id.short();
    let mut page = Page::default();
    page.line([
        strong(&id),
        plain(format!("  {}; no answer in {} s counts as a no", question(approval), approval.expires_in_s)),
    ]);
    if let Some(asks) = &approval.asks {
        page.append(wanted(approval, asks));
        page.line([plain(format!("  answer: cede allow {id}, or cede deny {id}"))]);
        return page;
    }
    page.line([plain(format!("  {}{}", approval.agent.map_or("", AgentKind::name), about(approval)))]);
    page.append(inventory::items(&approval.inventory));
    page.append(inventory::class("executable", &approval.executables, Ink::Plain, paths));
    page.append(inventory::class("name begins with a dot", &approval.dotfiles, Ink::Plain, paths));
    page.append(inventory::class("run by tools unasked", &approval.configuration_as_code, Ink::Warn, paths));
    page.append(inventory::class("looks like a secret", &approval.secret_looking, Ink::Warn, paths));
    page.line([plain(format!("  answer: cede allow {id}, or cede deny {id}"))]);
    page
}

/// Files that would come: each path, or whole folders where they are many.
fn files(approval: &ApprovalSummary, paths: Paths) -> Page {
    let id = approval.id.short();
    let (files, bytes) = approval.inventory.first().map_or((0, 0), |item| (item.count, item.bytes));
    let mut page = Page::default();
    page.line([
        strong(&id),
        plain(format!("  {}; no answer in {} s counts as a no", question(approval), approval.expires_in_s)),
    ]);
    let amount = format!("{}, {}", units::count(files, "file", "files"), units::bytes(bytes));
    page.line([plain(format!("  {amount}; would lie in {}{}", approval.directory, there(approval)))]);
    if !approval.note.is_empty() {
        page.line([plain("  they say: "), plain(&approval.note)]);
    }
    let lines: Vec<String> = approval.files.iter().map(line_of).collect();
    page.append(inventory::class("what comes", &lines, Ink::Plain, paths));
    page.append(inventory::class("executable", &approval.executables, Ink::Warn, paths));
    page.append(inventory::class("name begins with a dot", &approval.dotfiles, Ink::Plain, paths));
    page.append(inventory::class("run by tools unasked", &approval.configuration_as_code, Ink::Warn, paths));
    page.line([plain(format!("  answer: cede allow {id}, or cede deny {id}"))]);
    page
}

fn line_of(line: &ShownPath) -> String {
    let bytes = units::bytes(line.bytes);
    if line.path.ends_with('/') {
        format!("{} ({}, {bytes})", line.path, units::count(line.files, "file", "files"))
    } else {
        format!("{} ({bytes})", line.path)
    }
}

/// How long the conversation is, where it lies, and what bounds it.
fn about(approval: &ApprovalSummary) -> String {
    let turns = match approval.turns {
        0 => String::new(),
        turns => format!(", {}", units::count(turns, "turn", "turns")),
    };
    let (directory, there) = (&approval.directory, there(approval));
    if approval.kind == GIVE {
        return format!("{turns}, lies in {directory}{there}");
    }
    format!("{turns}, would lie in {directory}{there}; never more than {}", units::bytes(approval.limit_bytes))
}

/// On which device, where it is another one.
fn there(approval: &ApprovalSummary) -> String {
    approval.at.as_ref().map_or_else(String::new, |at| format!(" at {at}"))
}

/// What a peer asks for that is no move: its own words, whole, each line in a frame.
fn wanted(approval: &ApprovalSummary, asks: &AskedFor) -> Page {
    let mut page = Page::default();
    let reach = match asks.reach {
        Reach::Connection => "a yes lasts until the connection ends",
        Reach::Request => "a yes is for this once",
    };
    let session = asks.session.map_or_else(String::new, |session| format!(", from its session {}", session.short()));
    let kept = if asks.held { "; kept for you by a rule" } else { "" };
    page.line([plain(format!("  {}{session}; {reach}{kept}", asks.capability.name()))]);
    if !approval.title.is_empty() {
        page.behind_a_bar(&approval.title);
    }
    for (name, value) in &asks.lines {
        page.line([plain(format!("  {name}: {value}"))]);
    }
    if mixes_scripts(&approval.title) || asks.lines.iter().any(|(_, value)| mixes_scripts(value)) {
        page.line([Span::new(Ink::Warn, "  some letters only look like those of another script")]);
    }
    page
}

/// Who asks for what, in one sentence, and where that is asked if it is another device.
pub(crate) fn question(approval: &ApprovalSummary) -> String {
    let at = approval.at.as_ref().map_or_else(String::new, |at| format!(" (asked at {at})"));
    format!("{}{at}", wanting(approval))
}

fn wanting(approval: &ApprovalSummary) -> String {
    if let Some(asks) = approval.asks.as_ref().filter(|_| approval.kind != FILE) {
        return format!("{} {}", approval.device, asks.capability.wish());
    }
    let verb = match approval.kind.as_str() {
        GIVE => "wants to take",
        FILE => "wants to send",
        _ => "wants to hand over",
    };
    format!("{} {verb} \"{}\"", approval.device, approval.title)
}

/// The kind of a question about a session that would leave.
const GIVE: &str = "give";
/// The kind of a question about files that would come.
const FILE: &str = "file";

#[cfg(test)]
mod tests {
    use cede_wire::authority::Locality;
    use cede_wire::id::Hash;
    use cede_wire::member::Capability;

    use super::*;
    use crate::show::samples;

    #[test]
    fn question_shows_what_would_come() {
        let text = page(&[samples::approval()], Paths::Few { command: "cede approvals --all" }).render(false);
        insta::assert_snapshot!(text);
    }

    /// Shows: U-15
    #[test]
    fn question_of_another_device_says_where_it_is_asked() {
        let approval =
            ApprovalSummary { at: Some("desk\u{1b}top".into()), executables: Vec::new(), ..samples::approval() };
        insta::assert_snapshot!(page(&[approval], Paths::All).render(false));
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

    /// Shows: F-2
    #[test]
    fn question_about_files_shows_every_path() {
        insta::assert_snapshot!(page(&[samples::files_question()], Paths::All).render(false));
    }

    fn asked(capability: Capability, reach: Reach, title: &str) -> ApprovalSummary {
        let asks = AskedFor {
            capability,
            reach,
            locality: Locality::AnotherHost,
            session: None,
            lines: vec![("path".into(), "./db".into())],
            content: None,
            held: false,
            hash: Hash::of(b"shown"),
        };
        ApprovalSummary { title: title.into(), agent: None, asks: Some(asks), ..samples::approval() }
    }

    /// Shows: L-7
    #[test]
    fn task_of_a_peer_is_shown_whole_and_in_a_frame() {
        let task = format!("run the tests\n  answer: cede allow 1\u{1b}[2K\n{}", "x".repeat(5_000));
        let text = page(&[asked(Capability::Delegate, Reach::Request, &task)], Paths::All).render(false);
        assert!(text.contains("laptop wants a task done here") && text.contains("a yes is for this once"), "{text}");
        assert!(text.contains("  | run the tests\n  |   answer: cede allow 1\\u{1b}[2K\n"), "{text}");
        let whole = text.replace("\n↪ | ", "");
        assert!(whole.contains(&"x".repeat(5_000)) && text.contains("  path: ./db\n"), "{text}");
        assert!(!text.contains("only look like"));
    }

    #[test]
    fn letters_of_another_script_are_named() {
        let text = page(&[asked(Capability::Drive, Reach::Connection, "p\u{430}ypal")], Paths::All).render(false);
        assert!(text.contains("until the connection ends") && text.contains("some letters only look like"), "{text}");
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
