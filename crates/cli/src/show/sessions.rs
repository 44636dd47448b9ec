//! Sessions in lists.

use cede_wire::control::SessionSummary;
use cede_wire::control::terminal::TerminalSummary;
use cede_wire::session::Activity;

use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// The sessions as a table of 80 columns; `now` in milliseconds since 1970.
pub(crate) fn page(sessions: &[SessionSummary], now: u64) -> Page {
    if sessions.is_empty() {
        return Page::of("no sessions: start a coding agent here, or name a directory: cede adopt DIR");
    }
    let headings = ["id", "title", "agent", "owner", "size", "changed", "state"].map(faint).to_vec();
    let mut page = Page::default();
    let rows = sessions.iter().map(|session| listed(session, now));
    page.table(0, std::iter::once(headings).chain(rows).collect(), &[1, 6, 3]);
    page
}

/// A session as a row: id, title, agent, owner, size, last change, state.
pub(crate) fn listed(session: &SessionSummary, now: u64) -> Vec<Span> {
    vec![
        plain(session.id.short()),
        strong(&session.title),
        plain(session.agent.name()),
        plain(&session.owner),
        plain(size(session)),
        plain(units::ago(session.updated_unix_ms, now)),
        short_state(session),
    ]
}

/// All that is known of one session.
pub(crate) fn whole(session: &SessionSummary, now: u64) -> Page {
    let mut page = Page::default();
    page.line([strong(&session.title)]);
    page.gap();
    let turns = units::count(session.turns, "turn", "turns");
    let mut lines = vec![
        ("session", session.id.to_string()),
        ("agent", format!("{} {}", session.agent.name(), session.version)),
        ("owner", session.owner.clone()),
        ("directory", session.directory.clone()),
        ("size", format!("{}, {turns}", size(session))),
        ("changed", units::ago(session.updated_unix_ms, now)),
    ];
    if !session.resume.is_empty() {
        lines.push(("go on", session.resume.clone()));
    }
    let mut rows: Vec<Vec<Span>> = lines.iter().map(|(name, value)| vec![faint(*name), plain(value)]).collect();
    rows.insert(3, vec![faint("state"), state(session)]);
    page.whole_table(0, rows);
    page
}

/// Of the conversation: a plain directory has none, and of some sessions nobody said it.
fn size(session: &SessionSummary) -> String {
    if session.bytes == 0 { "-".to_owned() } else { units::bytes(session.bytes) }
}

/// A session as `status` shows it: id, title, agent, state.
pub(crate) fn row(session: &SessionSummary) -> Vec<Span> {
    vec![plain(session.id.short()), strong(&session.title), plain(session.agent.name()), state(session)]
}

/// A session that was just named.
pub(crate) fn adopted(session: &SessionSummary) -> Page {
    let mut page = Page::default();
    page.line([
        plain(format!("{} is the session ", session.directory)),
        strong(session.id.short()),
        plain(format!(" now; hand it over: cede to <device> {}", session.id.short())),
    ]);
    page
}

/// What the agent does where the session is in charge here, else the state: the owner stands beside it.
fn short_state(session: &SessionSummary) -> Span {
    if session.terminal.is_some() {
        return state(session);
    }
    match &session.activity {
        Some(activity) if session.here => {
            let (word, ink) = doing(activity).unwrap_or(("idle", Ink::Good));
            Span::new(ink, word)
        }
        Some(_) | None => state(session),
    }
}

/// The state, and what the agent does where it is in charge here.
fn state(session: &SessionSummary) -> Span {
    if let Some(terminal) = &session.terminal {
        return Span::new(Ink::Good, looked_at(terminal));
    }
    let doing = session.activity.as_ref().and_then(doing);
    match doing {
        Some((word, ink)) => Span::new(ink, format!("{}, {word}", session.state)),
        None if session.here => Span::new(Ink::Good, &session.state),
        None => plain(&session.state),
    }
}

/// Who has the keyboard, and how many look on besides.
fn looked_at(terminal: &TerminalSummary) -> String {
    let others = u64::from(terminal.viewers).saturating_sub(u64::from(terminal.driver.is_some()));
    let driver = terminal.driver.as_ref().map_or_else(|| "nobody drives".to_owned(), |who| format!("{who} drives"));
    let held = if terminal.held { ", held" } else { "" };
    match others {
        0 => format!("{driver}{held}"),
        1 => format!("{driver}, one looks on{held}"),
        more => format!("{driver}, {more} look on{held}"),
    }
}

const fn doing(activity: &Activity) -> Option<(&'static str, Ink)> {
    match activity {
        Activity::Idle { .. } => None,
        Activity::Open { .. } => Some(("open", Ink::Good)),
        Activity::Busy { .. } => Some(("busy", Ink::Warn)),
        Activity::Interrupted { .. } => Some(("turn cut off", Ink::Warn)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn list_fits_eighty_columns_whatever_the_titles() {
        let busy = SessionSummary {
            activity: Some(Activity::Busy { pid: Some(7), evidence: "a turn runs".into() }),
            ..samples::session("Überprüfe die Anmeldung und schreibe alle Tests neu, bitte gründlich")
        };
        let gone = SessionSummary {
            owner: "server".into(),
            state: "moved to server".into(),
            here: false,
            activity: None,
            ..samples::session("日本語のタイトルがとても長い場合でも表は崩れない")
        };
        let text = page(&[samples::session("Tests"), busy, gone], samples::NOW).render(false);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn session_without_conversation_has_no_size() {
        let files = SessionSummary { bytes: 0, ..samples::session("Notes") };
        let text = page(&[files], samples::NOW).render(false);
        assert!(!text.contains("0 B") && text.contains("  -  "), "{text}");
    }

    #[test]
    fn hosted_terminal_says_who_drives_it() {
        let about = |driver: Option<&str>, viewers, held| {
            let driver = driver.map(str::to_owned);
            TerminalSummary { command: "htop".into(), pid: 7, driver, held, viewers }
        };
        assert_eq!(looked_at(&about(Some("server"), 1, true)), "server drives, held");
        assert_eq!(looked_at(&about(Some("server"), 3, false)), "server drives, 2 look on");
        let session = SessionSummary { terminal: Some(about(None, 1, false)), ..samples::session("htop") };
        assert!(page(&[session], samples::NOW).render(false).contains("nobody drives"));
    }

    #[test]
    fn empty_list_says_how_to_begin() {
        assert!(page(&[], 0).render(false).contains("cede adopt DIR"));
    }
}
