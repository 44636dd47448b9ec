//! What travels, what is rebuilt, what stays, what never travels; and the paths that deserve a look.

use cede_wire::control::Plan;
use cede_wire::handoff::{Disposition, InventoryItem};

use crate::limits::SHOWN_PATHS;
use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// How many paths of a class are listed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paths {
    /// A few; `command` shows the others.
    Few {
        /// What to type for the rest.
        command: &'static str,
    },
    /// Every one.
    All,
}

/// The plan of a move.
pub(crate) fn plan(plan: &Plan, paths: Paths) -> Page {
    let history = match plan.history_bytes {
        0 => String::new(),
        bytes => format!(" and {} of history", units::bytes(bytes)),
    };
    let mut page = Page::default();
    page.line([
        plain("\""),
        strong(&plan.session.title),
        plain(format!("\" ({}) from {} to ", plan.session.agent.name(), plan.session.owner)),
        strong(&plan.device),
        plain(format!(
            ": {}{history}, {} of content",
            units::count(plan.files, "file", "files"),
            units::bytes(plan.bytes)
        )),
    ]);
    page.append(items(&plan.inventory));
    page.append(class("executable", &plan.executables, Ink::Plain, paths));
    page.append(class("run by tools unasked", &plan.configuration_as_code, Ink::Warn, paths));
    page.append(class("looks like a secret", &plan.secret_looking, Ink::Warn, paths));
    if !plan.needs.is_empty() {
        page.line([Span::new(Ink::Warn, "  needs a yes: "), plain(plan.needs.join(" "))]);
    }
    page
}

/// The lines of an inventory, in the order of what becomes of them.
pub(crate) fn items(items: &[InventoryItem]) -> Page {
    let mut sorted: Vec<&InventoryItem> = items.iter().collect();
    sorted.sort_by_key(|item| item.disposition);
    let mut page = Page::default();
    page.whole_table(2, sorted.into_iter().map(row).collect());
    page
}

/// The paths of one class. What is not listed is counted, with the command that lists it.
pub(crate) fn class(name: &str, list: &[String], ink: Ink, paths: Paths) -> Page {
    let mut page = Page::default();
    if list.is_empty() {
        return page;
    }
    page.line([plain("  "), Span::new(ink, format!("{name}: {}", list.len()))]);
    let listed = match paths {
        Paths::Few { .. } => SHOWN_PATHS,
        Paths::All => list.len(),
    };
    for path in list.iter().take(listed) {
        page.line([plain("    "), plain(path)]);
    }
    if let (Paths::Few { command }, Some(more)) = (paths, list.len().checked_sub(listed).filter(|more| *more > 0)) {
        page.line([plain(format!("    {more} more: {command}"))]);
    }
    page
}

fn row(item: &InventoryItem) -> Vec<Span> {
    let bytes = if item.bytes > 0 { units::bytes(item.bytes) } else { String::new() };
    vec![
        Span::new(ink(item.disposition), fate(item.disposition)),
        plain(&item.what),
        plain(item.count.to_string()),
        plain(bytes),
        faint(&item.note),
    ]
}

const fn fate(disposition: Disposition) -> &'static str {
    match disposition {
        Disposition::Transferred => "travels",
        Disposition::Rehydrated => "is rebuilt",
        Disposition::Stays => "stays",
        Disposition::NeverTravels => "never travels",
    }
}

const fn ink(disposition: Disposition) -> Ink {
    match disposition {
        Disposition::Transferred | Disposition::Rehydrated => Ink::Good,
        Disposition::Stays | Disposition::NeverTravels => Ink::Faint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;

    /// Shows: T-12
    #[test]
    fn plan_shows_every_class_and_what_needs_a_yes() {
        insta::assert_snapshot!(plan(&samples::plan(), Paths::All).render(false));
    }

    /// Shows: L-7
    #[test]
    fn nothing_of_an_inventory_is_cut() {
        let long = InventoryItem { what: "w".repeat(70), note: "n".repeat(90), ..samples::inventory().remove(0) };
        let text = items(&[long]).render(false).replace("\n↪ ", "");
        assert!(text.contains(&"w".repeat(70)) && text.contains(&"n".repeat(90)), "{text}");
    }

    /// Shows: L-7
    #[test]
    fn paths_left_out_are_counted_and_never_silent() {
        let list: Vec<String> = (1..=51).map(|n| format!("f{n}")).collect();
        let text = class("executable", &list, Ink::Plain, Paths::Few { command: "cede approvals --all" }).render(false);
        assert!(text.ends_with("    f10\n    41 more: cede approvals --all\n"), "{text}");
        let all = class("executable", &list, Ink::Plain, Paths::All).render(false);
        assert_eq!(all.lines().count(), 52);
    }
}
