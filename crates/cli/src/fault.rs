//! What a person sees when something did not work: what happened, why, where the session is, what to type.

use cede_wire::control::{Failure, exit};

use crate::page::{Ink, Page, Span, plain, strong};

/// A failure of this side: no peer said no, no session is concerned.
pub(crate) fn local(exit: u8, what: &str, why: &str, cure: &str) -> Failure {
    Failure { exit, what: what.to_owned(), why: why.to_owned(), cure: cure.to_owned(), refusal: None, now_at: None }
}

/// The daemon answered with something else than was asked for: an older or a newer program.
pub(crate) fn unexpected_answer() -> Failure {
    local(
        exit::VERSION,
        "the daemon gave another answer than the one asked for",
        "it is probably of another version than this command",
        "restart it: cede stop, then cede up",
    )
}

/// The failure as text.
pub(crate) fn page(failure: &Failure) -> Page {
    let mut page = Page::default();
    page.line([Span::new(Ink::Bad, "error: "), strong(&failure.what)]);
    if !failure.why.is_empty() {
        let unsaid = failure.refusal.filter(|refusal| !failure.why.starts_with(refusal.word()));
        let word = unsaid.map(|refusal| format!(" ({refusal})")).unwrap_or_default();
        page.line([plain("  why: "), plain(&failure.why), plain(word)]);
    }
    if let Some(device) = &failure.now_at {
        page.line([plain("  now: the session is at "), strong(device)]);
    }
    if !failure.cure.is_empty() {
        page.line([plain(" hint: "), plain(&failure.cure)]);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use cede_wire::refusal::Refusal;

    /// Shows: L-5
    #[test]
    fn failure_says_what_why_where_and_what_to_type() {
        let failure = Failure {
            refusal: Some(Refusal::Declined),
            now_at: Some("laptop".into()),
            ..local(4, "the move to server did not happen", "its operator said no\u{1b}[H", "cede to server")
        };
        insta::assert_snapshot!(page(&failure).render(false), @r"
        error: the move to server did not happen
          why: its operator said no\u{1b}[H (declined)
          now: the session is at laptop
         hint: cede to server
        ");
    }

    #[test]
    fn refusal_that_stands_in_the_reason_is_not_said_twice() {
        let why = "declined: the operator there said no";
        let failure = Failure { refusal: Some(Refusal::Declined), ..local(4, "it stays here", why, "") };
        assert_eq!(page(&failure).render(false), "error: it stays here\n  why: declined: the operator there said no\n");
    }

    #[test]
    fn failure_without_reason_stays_short() {
        assert_eq!(page(&local(1, "it failed", "", "")).render(false), "error: it failed\n");
    }
}
