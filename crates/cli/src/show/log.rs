//! What was decided here.

use cede_wire::control::decisions::{LogLine, LogVerdict};

use crate::page::{Ink, Page, Span, faint, plain, strong};
use crate::units;

/// The entries, oldest first, and below them whether the record holds.
pub(crate) fn page(lines: &[LogLine], earlier: u64, verdict: Option<&LogVerdict>) -> Page {
    let mut page = Page::default();
    if earlier > 0 {
        page.line([faint(format!("{} before: cede log --tail N", units::count(earlier, "entry", "entries")))]);
    }
    let seen = |line: &&LogLine| line.kind != CHECKPOINT;
    page.whole_table(0, lines.iter().filter(seen).map(row).collect());
    if let Some(verdict) = verdict {
        page.gap();
        page.append(checked(verdict));
    }
    page
}

fn row(line: &LogLine) -> Vec<Span> {
    let ink = match line.allowed {
        Some(true) => Ink::Good,
        Some(false) => Ink::Bad,
        None => Ink::Plain,
    };
    let shown = line.shown.map_or_else(String::new, |hash| format!("shown {}", hash.short()));
    vec![
        faint(line.number.to_string()),
        plain(units::moment(line.at_unix_ms)),
        Span::new(ink, &line.text),
        faint(line.about.clone().unwrap_or_default()),
        faint(shown),
    ]
}

fn checked(verdict: &LogVerdict) -> Page {
    let mut page = Page::default();
    let entries = units::count(verdict.entries, "entry", "entries");
    let points = units::count(verdict.checkpoints, "signed checkpoint", "signed checkpoints");
    let range = format!("{entries} ({} to {}), {points}", verdict.first, verdict.last);
    if verdict.holds {
        page.line([Span::new(Ink::Good, "the record is as it was written: "), plain(range)]);
        if verdict.unsealed > 0 {
            let rest = units::count(verdict.unsealed, "entry is", "entries are");
            page.line([faint(format!("{rest} behind the last checkpoint: a cut there would not show"))]);
        }
    } else {
        page.line([Span::new(Ink::Bad, "the record is not as it was written: "), plain(range)]);
        for fault in &verdict.faults {
            page.line([strong("  "), plain(fault)]);
        }
    }
    if verdict.settled > 0 {
        let times = units::count(verdict.settled, "time", "times");
        page.line([faint(format!("it was put back {times}, and you said that you know why"))]);
    }
    page.append(at_peers(verdict));
    page
}

/// What the peers keep: without them a cut of everything behind an old checkpoint would not show.
fn at_peers(verdict: &LogVerdict) -> Page {
    let mut page = Page::default();
    for anchor in &verdict.anchors {
        page.line([faint(format!("{} keeps the checkpoint of entry {}, and it fits", anchor.device, anchor.number))]);
    }
    if !verdict.silent.is_empty() {
        page.line([faint(format!("did not say now what it keeps of this record: {}", verdict.silent.join(", ")))]);
    }
    for line in &verdict.evidence {
        page.line([Span::new(Ink::Bad, line)]);
    }
    page
}

/// Entries that a person reads nothing from.
const CHECKPOINT: &str = "checkpoint";

#[cfg(test)]
mod tests {
    use cede_wire::audit::DecidedBy;
    use cede_wire::control::decisions::AnchorLine;
    use cede_wire::id::{DeviceId, Hash};
    use cede_wire::member::Capability;

    use super::*;

    fn line(number: u64, kind: &str, text: &str) -> LogLine {
        LogLine {
            number,
            at_unix_ms: 1_790_000_000_000,
            kind: kind.into(),
            device: Some("laptop".into()),
            who: Some(DeviceId::new([7; 32])),
            capability: Some(Capability::File),
            allowed: (kind == "decided").then_some(true),
            by: Some(DecidedBy::Operator),
            about: Some("request 3 on 01010101".into()),
            shown: Some(Hash::of(b"shown")),
            text: text.into(),
        }
    }

    fn verdict(faults: &[&str]) -> LogVerdict {
        let faults: Vec<String> = faults.iter().map(|fault| (*fault).to_owned()).collect();
        let holds = faults.is_empty();
        let anchors = vec![AnchorLine { device: "laptop".into(), number: 38 }];
        let silent = vec!["phone".into()];
        let evidence = vec!["server showed a record of 40 entries, and 12 later".into()];
        LogVerdict {
            holds,
            entries: 40,
            first: 2,
            last: 41,
            checkpoints: 3,
            unsealed: 1,
            faults,
            anchors,
            silent,
            evidence,
            settled: 0,
        }
    }

    #[test]
    fn entries_stand_in_lines_and_the_verdict_below() {
        let lines = [
            line(39, "asked", "laptop wants file: the operator is asked"),
            line(40, "decided", "file allowed to laptop by the operator"),
            line(41, "checkpoint", "signed"),
        ];
        insta::assert_snapshot!(page(&lines, 38, Some(&verdict(&[]))).render(false));
    }

    #[test]
    fn what_is_wrong_with_the_record_is_said_whole() {
        let text = page(&[], 0, Some(&verdict(&["entry 12 is not as it was written"]))).render(false);
        assert!(text.contains("not as it was written: 40 entries (2 to 41)") && text.contains("  entry 12 is not"));
    }
}
