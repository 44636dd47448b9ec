//! The ways to call the person when a question waits.

use cede_wire::control::notify::SinkSummary;

use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// All of them, without their secrets.
pub(crate) fn page(sinks: &[SinkSummary]) -> Page {
    if sinks.is_empty() {
        return Page::of("nobody is called when a question waits: cede notify add desktop, command, webhook or ntfy");
    }
    let headings = ["name", "kind", "goes to", "state", ""].map(faint).to_vec();
    let mut page = Page::default();
    page.table(0, std::iter::once(headings).chain(sinks.iter().map(row)).collect(), &[2, 4]);
    for sink in sinks.iter().filter(|sink| sink.buttons) {
        page.line([plain(format!("{} has buttons that answer", sink.name))]);
    }
    for sink in sinks.iter().filter(|sink| !sink.detail.is_empty()) {
        page.line([Span::new(Ink::Warn, format!("{}: ", sink.name)), plain(&sink.detail)]);
    }
    page
}

fn row(sink: &SinkSummary) -> Vec<Span> {
    let ink = match sink.state.as_str() {
        "ok" => Ink::Good,
        "failing" => Ink::Bad,
        _ => Ink::Plain,
    };
    let failed = if sink.failed == 0 { String::new() } else { format!(", {} not", sink.failed) };
    vec![
        strong(&sink.name),
        plain(&sink.kind),
        plain(&sink.place),
        Span::new(ink, &sink.state),
        faint(format!("{} went through{failed}", units::count(sink.told, "call", "calls"))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_says_where_it_goes_and_how_it_does() {
        let sink = |name: &str, state: &str, detail: &str| SinkSummary {
            name: name.into(),
            kind: "webhook".into(),
            place: "https://hooks.example/…".into(),
            state: state.into(),
            detail: detail.into(),
            told: 3,
            failed: u64::from(!detail.is_empty()),
            buttons: name == "phone",
        };
        let text = page(&[sink("phone", "ok", ""), sink("chat", "failing", "the server answered 500")]).render(false);
        insta::assert_snapshot!(text, @r"
        name   kind     goes to                  state
        phone  webhook  https://hooks.example/…  ok       3 calls went through
        chat   webhook  https://hooks.example/…  failing  3 calls went through, 1 not
        phone has buttons that answer
        chat: the server answered 500
        ");
        assert!(page(&[]).render(false).contains("cede notify add desktop"));
    }
}
