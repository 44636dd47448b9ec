//! What peers say of sessions, made short and plain before it is shown, kept or answered from.

use cede_wire::handoff::Scope;
use cede_wire::limits::{DETAIL_CHARS, INVENTORY_ITEMS, LISTED_SESSIONS, SCOPE_PATHS};
use cede_wire::message::ListedSession;
use cede_wire::path::escape_rest;
use cede_wire::session::Activity;

use crate::limits::{PEER_PATH_CHARS, PEER_TEXT_CHARS, SCOPE_SHOWN_BYTES};

/// A peer's words on one line, with nothing in them that a terminal obeys.
pub(crate) fn text(said: &str) -> String {
    plain(said, PEER_TEXT_CHARS)
}

/// The reason of a peer's refusal.
pub(crate) fn detail(said: &str) -> String {
    plain(said, DETAIL_CHARS)
}

fn plain(said: &str, most: usize) -> String {
    let short: String = said.chars().take(most).collect();
    // A name in it was escaped where it was read.
    escape_rest(&short).chars().take(most).collect()
}

/// Whether a person can be shown all of it: what cannot be shown cannot be approved.
pub(crate) fn can_be_shown(scope: &Scope) -> bool {
    let lists = [&scope.executables, &scope.dotfiles, &scope.configuration_as_code];
    let short = scope.inventory.len() <= INVENTORY_ITEMS && lists.iter().all(|list| list.len() <= SCOPE_PATHS);
    short && shown_bytes(scope) <= SCOPE_SHOWN_BYTES
}

/// Its length in an answer.
pub(crate) fn shown_bytes(scope: &Scope) -> usize {
    serde_json::to_vec(scope).map_or(usize::MAX, |bytes| bytes.len())
}

/// A peer's listing, cut to what a listing may be.
pub(crate) fn listing(mut listed: Vec<ListedSession>) -> Vec<ListedSession> {
    listed.truncate(LISTED_SESSIONS);
    for one in &mut listed {
        let info = &mut one.info;
        info.title = text(&info.title);
        info.directory = plain(&info.directory, PEER_PATH_CHARS);
        info.version = text(&info.version);
        match &mut info.activity {
            Activity::Idle { evidence }
            | Activity::Open { evidence, .. }
            | Activity::Busy { evidence, .. }
            | Activity::Interrupted { evidence } => *evidence = text(evidence),
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(executables: Vec<String>) -> Scope {
        let (dotfiles, configuration_as_code) = (Vec::new(), Vec::new());
        Scope { inventory: Vec::new(), limit_bytes: 1, limit_entries: 1, executables, dotfiles, configuration_as_code }
    }

    #[test]
    fn words_of_a_peer_are_short_and_obey_no_terminal() {
        let said = text(&format!("\u{1b}]0;owned\u{7}\n{}", "x".repeat(1 << 20)));
        assert_eq!(said.chars().count(), PEER_TEXT_CHARS);
        assert!(said.chars().all(|c| !c.is_control()), "{said}");
        assert_eq!(text("Prüfe den Login"), "Prüfe den Login");
        assert_eq!(text(&cede_wire::path::escape(b"d\tx")), "d\\tx", "it is escaped once");
    }

    #[test]
    fn lists_that_no_answer_holds_are_not_shown() {
        assert!(can_be_shown(&scope(vec!["bin/run".to_owned(); SCOPE_PATHS])));
        assert!(!can_be_shown(&scope(vec![String::new(); SCOPE_PATHS + 1])));
        assert!(!can_be_shown(&scope(vec!["\u{1}".repeat(1 << 20)])), "each of these characters is six in an answer");
    }
}
