//! A move while it happens: a bar on a terminal, a line for each phase elsewhere.

use std::time::Duration;

use cede_wire::control::{Phase, Progress, TransferState, TransferSummary};
use indicatif::{ProgressBar, ProgressStyle};

use crate::page::{Page, faint, plain, safe, strong};
use crate::show::transfers;
use crate::terminal::Terminal;
use crate::units;

/// Shows the phases of one move.
#[derive(Debug)]
pub(crate) struct Phases<'a> {
    terminal: &'a Terminal,
    bar: Option<ProgressBar>,
    shown: Option<(Phase, u32)>,
}

impl<'a> Phases<'a> {
    /// Shows nothing yet.
    pub(crate) fn new(terminal: &'a Terminal) -> Self {
        Self { terminal, bar: None, shown: None }
    }

    /// Takes one step of the move.
    pub(crate) fn see(&mut self, progress: &Progress) {
        let step = (progress.phase, progress.round);
        let new = self.shown != Some(step);
        self.shown = Some(step);
        if new {
            self.clear();
            self.terminal.talk(&phase_line(progress));
        }
        if self.terminal.bars {
            self.draw(progress);
        }
    }

    /// Takes the bar away: other text follows.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn draw(&mut self, progress: &Progress) {
        if matches!(progress.phase, Phase::Committed | Phase::Abandoned) {
            return;
        }
        let known = progress.total_bytes > 0;
        if self.bar.as_ref().is_some_and(|bar| bar.length().is_some() != known) {
            self.clear();
        }
        let bar = self.bar.get_or_insert_with(|| new_bar(progress));
        if known {
            bar.set_length(progress.total_bytes);
            bar.set_position(progress.bytes);
        }
        bar.set_message(safe(&progress.note));
    }
}

impl Drop for Phases<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Shows one sending of files: a line for each state, a bar on a terminal.
#[derive(Debug)]
pub(crate) struct Carried<'a> {
    terminal: &'a Terminal,
    bar: Option<ProgressBar>,
    shown: Option<(TransferState, String)>,
}

impl<'a> Carried<'a> {
    /// Shows nothing yet.
    pub(crate) fn new(terminal: &'a Terminal) -> Self {
        Self { terminal, bar: None, shown: None }
    }

    /// Takes one step.
    pub(crate) fn see(&mut self, summary: &TransferSummary) {
        let step = (summary.state, summary.detail.clone());
        if self.shown.as_ref() != Some(&step) {
            self.shown = Some(step);
            self.clear();
            let detail = if summary.detail.is_empty() { String::new() } else { format!("  {}", summary.detail) };
            let mut page = Page::default();
            page.line([strong(format!("{:<10}", transfers::word(summary))), plain(&summary.title), faint(detail)]);
            self.terminal.talk(&page);
        }
        let known = summary.to_move > 0 && matches!(summary.state, TransferState::Sending | TransferState::Reading);
        if self.terminal.bars && (known || summary.state == TransferState::Reading) {
            let bar = self.bar.get_or_insert_with(|| bar(known, transfers::word(summary)));
            bar.set_length(summary.to_move);
            bar.set_position(summary.moved);
            if summary.state == TransferState::Reading {
                let files = units::count(summary.files, "file", "files");
                bar.set_message(format!("{files}, {}", units::bytes(summary.moved)));
            }
        }
    }

    /// Takes the bar away: other text follows.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The word for a phase.
pub(crate) const fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Preparing => "preparing",
        Phase::Waiting => "waiting",
        Phase::Offered => "offered",
        Phase::Transferring => "transferring",
        Phase::Staged => "staged",
        Phase::Released => "released",
        Phase::Committed => "committed",
        Phase::Abandoned => "abandoned",
    }
}

/// One phase as a line: when, what, who is in charge.
pub(crate) fn phase_line(progress: &Progress) -> Page {
    let mut page = Page::default();
    let mut line = vec![
        faint(format!("{:>9}  ", units::millis(progress.at_ms))),
        strong(format!("{:<13}", word(progress.phase))),
        plain(format!("in charge: {}", progress.in_charge)),
    ];
    if progress.total_bytes > 0 {
        line.push(plain(format!(", {}", amount(progress))));
    }
    if !progress.note.is_empty() {
        line.push(faint(format!("  {}", progress.note)));
    }
    page.line(line);
    page
}

/// What has travelled of what must: `1.20 of 3.40 MB`, with the round where there are several.
pub(crate) fn amount(progress: &Progress) -> String {
    let round = if progress.round > 0 { format!(", round {}", progress.round + 1) } else { String::new() };
    let total = units::bytes(progress.total_bytes);
    match progress.bytes {
        0 => format!("{total} to go{round}"),
        bytes if bytes == progress.total_bytes => format!("{total}{round}"),
        bytes => format!("{} of {total}{round}", units::bytes(bytes)),
    }
}

fn new_bar(progress: &Progress) -> ProgressBar {
    bar(progress.total_bytes > 0, word(progress.phase))
}

fn bar(known: bool, name: &'static str) -> ProgressBar {
    let template = if known {
        "           {prefix:<13}[{bar:24}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} eta {eta} {wide_msg}"
    } else {
        "           {prefix:<13}{spinner} {elapsed} {wide_msg}"
    };
    let style = ProgressStyle::with_template(template).map(|style| style.progress_chars("=> "));
    let bar = if known { ProgressBar::new(0) } else { ProgressBar::new_spinner() };
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(name);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples;

    /// Shows: H-12
    #[test]
    fn phase_says_when_what_and_who_is_in_charge() {
        let text = phase_line(&samples::progress(Phase::Transferring)).render_uncut();
        insta::assert_snapshot!(text, @"   1.24 s  transferring in charge: laptop, 1.20 MB of 3.40 MB, round 2  last delta");
    }

    /// Shows: H-12
    #[test]
    fn every_phase_has_the_word_of_the_protocol() {
        for phase in [
            Phase::Preparing,
            Phase::Waiting,
            Phase::Offered,
            Phase::Transferring,
            Phase::Staged,
            Phase::Released,
            Phase::Committed,
            Phase::Abandoned,
        ] {
            assert_eq!(serde_json::to_string(&phase).unwrap(), format!("\"{}\"", word(phase)));
        }
    }
}
