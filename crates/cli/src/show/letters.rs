//! What peers told, and what became of what they were told. Words of a peer always stand behind a bar and its name.

use cede_wire::control::LetterSummary;

use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// How far a message came that was told just now.
pub(crate) fn told(letter: &LetterSummary) -> Page {
    let mut page = Page::default();
    page.line([standing(letter), faint(format!("  {}", letter.id))]);
    page
}

/// A list.
pub(crate) fn page(letters: &[LetterSummary], more: u64, notes: &[String], now: u64) -> Page {
    let mut page = Page::default();
    if letters.is_empty() {
        page.line([plain("no messages")]);
    } else {
        let headings = ["id", "from", "to", "told", "state", "begins"].map(faint).to_vec();
        let rows = letters.iter().map(|letter| row(letter, now));
        page.table(0, std::iter::once(headings).chain(rows).collect(), &[4, 5]);
    }
    if more > 0 {
        page.line([faint(format!("{more} more, older ones"))]);
    }
    for note in notes {
        page.gap();
        page.line([Span::new(Ink::Warn, note)]);
    }
    page
}

/// A message as a row: id, from, to, when, how far it came, how it begins.
pub(crate) fn row(letter: &LetterSummary, now: u64) -> Vec<Span> {
    let to = if letter.title.is_empty() { letter.to.clone() } else { format!("{}/{}", letter.to, letter.title) };
    vec![
        plain(&letter.id),
        strong(&letter.from),
        plain(to),
        plain(units::ago(letter.told_unix_ms, now)),
        standing(letter),
        faint(&letter.begins),
    ]
}

/// One message with its words.
pub(crate) fn letter(letter: &LetterSummary, text: &str, now: u64) -> Page {
    let mut page = Page::default();
    let by = letter.by.as_ref().map_or_else(String::new, |by| format!(", passed on by {by}"));
    page.line([
        plain("message "),
        strong(&letter.id),
        plain(" from "),
        strong(&letter.from),
        plain(format!(" to {}{by}, told {}", letter.to, units::ago(letter.told_unix_ms, now))),
    ]);
    if let Some(session) = letter.session {
        page.line([plain(format!("for session {} {}", session.short(), letter.title))]);
    }
    if let Some(parent) = &letter.in_reply_to {
        page.line([plain(format!("in reply to {parent}"))]);
    }
    page.line([standing(letter)]);
    page.gap();
    page.behind_a_bar(text);
    page
}

fn standing(letter: &LetterSummary) -> Span {
    let ink = match letter.state.as_str() {
        "acted" | "shown" | "received" => Ink::Good,
        "refused" | "expired" | "quarantined" => Ink::Bad,
        _ => Ink::Plain,
    };
    Span::new(ink, &letter.standing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples::{self, NOW};

    #[test]
    fn list_shows_who_told_what_and_how_far_it_came() {
        insta::assert_snapshot!(page(&[samples::letter()], 0, &["a note".into()], NOW).render(false), @r"
        id        from    to                    told       state     begins
        3fa2c1d9  server  laptop/Fix the login  5 min ago  received  the artifact is re…

        a note
        ");
    }

    /// Shows: M-14, L-6
    #[test]
    fn words_of_a_peer_stand_behind_a_bar_and_repaint_nothing() {
        let words = "first\n\u{1b}[2J\u{202e}error: all is well\n| laptop: yes";
        let text = letter(&samples::letter(), words, NOW).render(false);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        let body: Vec<&str> = text.lines().skip_while(|line| !line.is_empty()).skip(1).collect();
        assert_eq!(body.len(), 3, "{text}");
        assert!(body.iter().all(|line| line.starts_with("  | ")), "{text}");
    }

    /// Shows: M-14
    #[test]
    fn first_line_and_names_in_a_list_repaint_nothing() {
        let bad = "x\u{1b}[2K\r\u{202e}".to_owned();
        let sample = LetterSummary { begins: bad.clone(), title: bad.clone(), standing: bad, ..samples::letter() };
        let text = page(std::slice::from_ref(&sample), 1, &[], NOW).render(false) + &told(&sample).render(false);
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']), "{text}");
    }
}
